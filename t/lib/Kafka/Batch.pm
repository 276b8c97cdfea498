package Kafka::Batch;

# Record batches, magic 2: built with every field open to mistakes, and read.
#
#     my $bytes = batch(records => ['a', ['key', 'value'], { ... }]);
#     for my $b (batches($bytes)) { print $b->{base_offset}, $b->{crc_ok} }

use strict;
use warnings;

use Compress::Zlib ();

use Kafka::Messages qw(varint unvarint);

use Exporter 'import';
our @EXPORT = qw(batch batches records values_of crc32c now_ms compressed);

my @table;

for my $i (0 .. 255) {
    my $c = $i;
    $c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8;
    $table[$i] = $c;
}

my %codec = (none => 0, gzip => 1, snappy => 2, lz4 => 3, zstd => 4);


sub now_ms {
    require Time::HiRes;
    return int(Time::HiRes::time() * 1000);
}


sub crc32c {
    my $c = 0xffffffff;

    $c = $table[($c ^ $_) & 255] ^ ($c >> 8) for unpack 'C*', $_[0];

    return $c ^ 0xffffffff;
}


sub zigzag {
    my ($x) = @_;
    return varint($x < 0 ? -2 * $x - 1 : 2 * $x);
}


sub unzigzag {
    my ($bytes, $at) = @_;
    my ($x, $n) = unvarint($bytes, $at);

    return ($x & 1 ? -(($x >> 1) + 1) : $x >> 1, $n);
}


# A record is a value, [key, value], or { key value headers ts }.
sub record {
    my ($delta, $r, $base_ts) = @_;

    $r = { value => $r } unless ref $r;
    $r = { key => $r->[0], value => $r->[1] } if ref $r eq 'ARRAY';

    my @headers = @{ $r->{headers} || [] };
    my $body = "\0" . zigzag(($r->{ts} // $base_ts) - $base_ts)
        . zigzag($r->{offset_delta} // $delta)
        . sized($r->{key}) . sized($r->{value}) . zigzag(scalar @headers)
        . join '', map sized($_->[0]) . sized($_->[1]), @headers;

    return zigzag(length $body) . $body;
}


sub sized {
    my ($x) = @_;
    return defined $x ? zigzag(length $x) . $x : zigzag(-1);
}


# Every field can be overridden, so that a test can send a wrong one.
sub batch {
    my (%o) = @_;

    my @records = @{ $o{records} || ['x'] };
    my $ts = $o{timestamp} // now_ms();
    my $i = 0;
    my $body = $o{body} // join '', map record($i++, $_, $ts), @records;
    my $max = $ts;

    for (@records) {
        $max = $_->{ts} if ref eq 'HASH' && ($_->{ts} // 0) > $max;
    }

    my $codec = $codec{ $o{codec} // 'none' };
    $body = compressed($o{codec}, $body) if $codec && !$o{raw};

    my $attributes = $o{attributes}
        // ($codec | ($o{log_append} ? 8 : 0) | ($o{transactional} ? 16 : 0)
            | ($o{control} ? 32 : 0));

    my $tail = pack('n N q> q> q> s> l> l>', $attributes & 0xffff,
        ($o{last_offset_delta} // $#records) & 0xffffffff, $ts,
        $o{max_timestamp} // $max, $o{producer_id} // -1,
        $o{producer_epoch} // -1, $o{sequence} // -1,
        $o{count} // scalar @records) . $body;

    my $crc = $o{crc} // crc32c($tail);

    return pack('q> N l> c N', $o{base_offset} // 0,
        ($o{length} // length($tail) + 9) & 0xffffffff, $o{leader_epoch} // -1,
        $o{magic} // 2, $crc) . $tail;
}


# The codecs without their libraries: frames of stored (uncompressed) blocks
# are valid streams of each format.
sub compressed {
    my ($codec, $body) = @_;

    return $body if $codec eq 'none';
    return Compress::Zlib::memGzip($body) if $codec eq 'gzip';
    return snappy($body) if $codec eq 'snappy';
    return snappy_xerial($body) if $codec eq 'xerial';
    return lz4($body) if $codec eq 'lz4';
    return zstd($body) if $codec eq 'zstd';

    die "codec $codec";
}


sub snappy {
    my ($body) = @_;
    my $out = varint(length $body);

    for (my $at = 0; $at < length $body; $at += 65536) {
        my $piece = substr $body, $at, 65536;
        $out .= "\xf4" . pack('v', length($piece) - 1) . $piece;
    }

    return $out;
}


sub snappy_xerial {
    my ($body) = @_;
    my $out = "\x82SNAPPY\0" . pack 'N N', 1, 1;

    for (my $at = 0; $at < length $body; $at += 32768) {
        my $block = snappy(substr $body, $at, 32768);
        $out .= pack('N', length $block) . $block;
    }

    return $out;
}


sub lz4 {
    my ($body) = @_;

    # Version 1, independent blocks, no checksums, 64 KiB blocks.
    my $descriptor = "\x60\x40";
    my $out = "\x04\x22\x4d\x18" . $descriptor
        . chr(xxh32($descriptor) >> 8 & 255);

    for (my $at = 0; $at < length $body; $at += 65536) {
        my $piece = substr $body, $at, 65536;
        $out .= pack('V', length($piece) | 0x80000000) . $piece;
    }

    return $out . "\0\0\0\0";
}


# xxHash32 with seed 0, of fewer than 16 bytes.
sub xxh32 {
    my ($bytes) = @_;
    my ($p1, $p2, $p3, $p5) = (2654435761, 2246822519, 3266489917, 374761393);
    my $p4 = 668265263;
    my $h = ($p5 + length $bytes) & 0xffffffff;
    my $rotate = sub { ($_[0] << $_[1] | $_[0] >> 32 - $_[1]) & 0xffffffff };
    my $mul = sub { use integer; ($_[0] * $_[1]) & 0xffffffff };
    my $at = 0;

    for (; $at + 4 <= length $bytes; $at += 4) {
        $h = ($h + $mul->(unpack('V', substr $bytes, $at, 4), $p3)) & 0xffffffff;
        $h = $mul->($rotate->($h, 17), $p4);
    }

    for (; $at < length $bytes; $at++) {
        $h = ($h + $mul->(ord(substr $bytes, $at, 1), $p5)) & 0xffffffff;
        $h = $mul->($rotate->($h, 11), $p1);
    }

    $h = $mul->($h ^ $h >> 15, $p2);
    $h = $mul->($h ^ $h >> 13, $p3);

    return $h ^ $h >> 16;
}


sub zstd {
    my ($body) = @_;

    # A single segment of a known size (8 bytes), raw blocks of 64 KiB.
    my $out = "\x28\xb5\x2f\xfd\xe0" . pack 'Q<', length $body;
    my $at = 0;

    do {
        my $piece = substr $body, $at, 65536;
        $at += 65536;
        my $last = $at >= length $body ? 1 : 0;
        $out .= substr(pack('V', length($piece) << 3 | $last), 0, 3) . $piece;
    } while ($at < length $body);

    return $out;
}


# ---- reading

# The batches in a record set; one that is cut at the end is left out.
sub batches {
    my ($bytes) = @_;
    my ($at, @out) = (0);

    while ($at + 61 <= length $bytes) {
        my %b;
        @b{qw(base_offset length leader_epoch magic crc)}
            = unpack 'q> N l> c N', substr $bytes, $at, 21;
        my $size = $b{length} + 12;
        last if $at + $size > length $bytes;

        my $raw = substr $bytes, $at, $size;
        @b{qw(attributes last_offset_delta timestamp max_timestamp producer_id
            producer_epoch sequence count)}
            = unpack 'n N q> q> q> s> l> l>', substr $raw, 21, 40;
        $b{raw} = $raw;
        $b{last_offset} = $b{base_offset} + $b{last_offset_delta};
        $b{crc_ok} = crc32c(substr $raw, 21) == $b{crc};
        $b{codec} = $b{attributes} & 7;
        push @out, \%b;
        $at += $size;
    }

    return @out;
}


# The records of a batch that is not compressed, or with gzip.
sub records {
    my ($b) = @_;

    my $body = substr $b->{raw}, 61;
    $body = Compress::Zlib::memGunzip($body) if $b->{codec} == 1;
    die "codec $b->{codec} is not read here\n" if $b->{codec} > 1;

    my ($at, @out) = (0);

    for (1 .. $b->{count}) {
        my ($len, $n) = unzigzag($body, $at);
        my $end = $at + $n + $len;
        $at += $n + 1;

        my %r;
        for my $name (qw(ts offset)) {
            ($r{$name}, $n) = unzigzag($body, $at);
            $at += $n;
        }
        $r{ts} += $b->{timestamp};
        $r{offset} += $b->{base_offset};

        for my $name (qw(key value)) {
            ($r{$name}, $at) = read_sized($body, $at);
        }

        (my $headers, $n) = unzigzag($body, $at);
        $at += $n;
        for (1 .. $headers) {
            (my $k, $at) = read_sized($body, $at);
            (my $v, $at) = read_sized($body, $at);
            push @{ $r{headers} }, [$k, $v];
        }

        die "record of $len bytes ends elsewhere\n" unless $at == $end;
        push @out, \%r;
    }

    return @out;
}


sub read_sized {
    my ($body, $at) = @_;
    my ($len, $n) = unzigzag($body, $at);

    return (undef, $at + $n) if $len < 0;
    return (substr($body, $at + $n, $len), $at + $n + $len);
}


# The values of all the records in a record set, in order.
sub values_of {
    return map $_->{value}, map records($_), batches($_[0]);
}


1;
