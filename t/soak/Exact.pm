package Exact;

# What a read_committed consumer sees of an output, compared with what must be
# there.  An input record is "P/N", the N-th of its partition P; each one has
# to be in the output twice, as "a:P/N" in partition P and as "b:P/N" in
# partition (P + N) mod partitions, and the records of one P and one kind are
# in the order of N in each.  So the next record of each series is known: a
# later one is a gap, an earlier one has been seen before.
#
#     my $x = Exact->new(topic => 'out', partitions => 6);
#     $x->advance($client);                 # reads what is there, as often
#     $x->complete([100, 99, ...]);         # so many in each input partition
#     is(join("\n", $x->faults), '');

use warnings;
use strict;

use Digest::MD5;

use Kafka::Batch;

sub new {
    my ($class, %o) = @_;
    my $n = $o{partitions};

    return bless { %o, at => [(0) x $n], next => {}, faults => [], seen => 0,
        aborted => 0, input => $o{input},
        digest => [map Digest::MD5->new, 1 .. $n] }, $class;
}

# The first record of a series, and the distance of the others.

sub series {
    my ($self, $kind, $from, $in) = @_;
    my $n = $self->{partitions};

    return $from == $in ? (0, 1) : () if $kind ne 'b';
    return (($in - $from) % $n, $n);
}

# One record that has come out of a partition.

sub take {
    my ($self, $partition, $value) = @_;

    $self->{seen}++;
    my $re = $self->{input} ? qr{^()(\d+)/(\d+)$} : qr{^([ab]):(\d+)/(\d+)$};
    my ($kind, $from, $n) = $value =~ $re
        or return $self->fault("$partition: '$value' is nothing we know");

    my ($first, $step) = $self->series($kind, $from, $partition)
        or return $self->fault("$partition: '$value' does not belong here");
    my $key = "$kind:$from:$partition";
    my $next = $self->{next}{$key} // $first;

    return $self->fault("$partition: '$value' is there twice, or late: "
        . "$next is next") if $n < $next;
    $self->fault("$partition: '$value' came when $next was next")
        if $n > $next;
    $self->{next}{$key} = $n + $step;
}

# Whether the input's records, so many of each partition, have all come.

sub complete {
    my ($self, $counts) = @_;

    for my $from (0 .. $#$counts) {
        for my $kind ($self->{input} ? '' : qw/ a b /) {
            for my $p (0 .. $self->{partitions} - 1) {
                my ($first, $step) = $self->series($kind, $from, $p) or next;
                my $next = $self->{next}{"$kind:$from:$p"} // $first;
                $self->fault("$p: '$kind:$from/$next' is not there")
                    if $next < $counts->[$from];
            }
        }
    }
}

sub fault {
    my ($self, $text) = @_;

    push @{ $self->{faults} }, "$self->{topic}-$text"
        if @{ $self->{faults} } < 20;
}

sub faults { @{ $_[0]{faults} } }
sub seen { $_[0]{seen} }
sub aborted { $_[0]{aborted} }

# One that reads the same topic from its beginning.

sub again {
    my ($self) = @_;

    return Exact->new(map { $_ => $self->{$_} }
        qw/ topic partitions input /);
}

# All that has been seen, with its offsets.

sub digest {
    my ($self) = @_;

    return join ' ', map $_->clone->hexdigest, @{ $self->{digest} };
}

# Reads all partitions to their last stable offsets.  Dies with a connection.

sub advance {
    my ($self, $client) = @_;

    for my $p (0 .. $self->{partitions} - 1) {
        1 while $self->read($client, $p);
    }
}

sub read {
    my ($self, $client, $p) = @_;
    my $r = $client->fetch($self->{topic}, $p, $self->{at}[$p],
        isolation => 1, max_wait => 0) or die "no answer\n";

    die "fetch: error $r->{ErrorCode}\n" if $r->{ErrorCode};

    my @aborted = sort { $a->{FirstOffset} <=> $b->{FirstOffset} }
        @{ $r->{AbortedTransactions} || [] };
    my @batches = grep { $_->{last_offset} >= $self->{at}[$p] }
        batches($r->{Records} // '');
    my %in;

    for my $b (@batches) {
        my $id = $b->{producer_id};

        $self->fault("$p: batch at $b->{base_offset} is damaged")
            unless $b->{crc_ok};
        $self->fault("$p: batch at $b->{base_offset} is not stable")
            if $b->{last_offset} >= $r->{LastStableOffset};

        while (@aborted && $aborted[0]{FirstOffset} <= $b->{last_offset}) {
            $in{ (shift @aborted)->{ProducerId} } = 1;
        }

        $self->{at}[$p] = $b->{last_offset} + 1;

        my $control = $b->{attributes} & 32;

        if (!$control && $in{$id} && $b->{attributes} & 16) {
            $self->{aborted} += $b->{count};
            next;
        }

        my @records = eval { records($b) };
        $self->fault("$p: batch at $b->{base_offset}: $@") if $@;

        if ($control) {
            delete $in{$id} if unpack('x2 n', $records[0]{key}) == 0;
            next;
        }

        for my $r (@records) {
            $self->{digest}[$p]->add("$r->{offset} $r->{value}\n");
            $self->take($p, $r->{value});
        }
    }

    return scalar @batches;
}

1;
