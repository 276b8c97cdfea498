package kfgen::Schema;

# Reads schema files; what a message, a struct and a field are made of, and what
# follows from it: conditions on versions, defaults, smallest sizes.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(
    $MAX %C %FIXED parse_file versions intersect condition flag flexible span
    default_value needs_init has_init min_size element_min structs tagged
);


our $MAX = 32767;                    # "and all later versions"


our %C = (
    bool    => 'bool',      int8   => 'int8_t',     int16   => 'int16_t',
    uint16  => 'uint16_t',  int32  => 'int32_t',    int64   => 'int64_t',
    float64 => 'double',    string => 'kf_str_t',   bytes   => 'kf_bytes_t',
    uuid    => 'kf_uuid_t', records => 'kf_records_t',
);


our %FIXED = (
    bool => 1, int8 => 1, int16 => 2, uint16 => 2, int32 => 4, int64 => 8,
    float64 => 8, uuid => 16,
);


sub snake {
    my ($s) = @_;

    $s =~ s/([a-z0-9])([A-Z])/$1_$2/g;

    return lc $s;
}

sub versions {
    my ($text) = @_;

    return [$1, $2]       if $text =~ /^(\d+)-(\d+)$/;
    return [$1, $MAX]     if $text =~ /^(\d+)\+$/;
    return [$1, $1]       if $text =~ /^(\d+)$/;
    return [$MAX, $MAX]   if $text eq 'none';
    return;
}

sub intersect {
    my ($v, $w) = @_;

    my $lo = $v->[0] > $w->[0] ? $v->[0] : $w->[0];
    my $hi = $v->[1] < $w->[1] ? $v->[1] : $w->[1];

    return [$lo, $hi];
}

sub parse_field {
    my ($text, $where, $parent) = @_;

    my ($name, $type, @rest) = split ' ', $text;
    my %f = (name => $name, snake => snake($name), where => $where);

    die "$where: a field is a name and a type\n"
        unless $name =~ /^[A-Za-z]\w*$/ && defined $type;

    if ($type =~ s/\?(\S*)$//) {
        $f{null} = $1 eq '' ? [0, $MAX] : versions($1)
                   or die "$where: nullable in versions $1?\n";
    }

    if ($type =~ /^\[(\w*)\]$/) {
        $f{array} = 1;
        $f{type} = $1 eq '' ? 'struct' : $1;
    } else {
        $f{type} = $type eq '{}' ? 'struct' : $type;
    }

    $f{kids} = [] if $f{type} eq 'struct';
    die "$where: unknown type $type\n" unless $f{kids} || $C{$f{type}};
    die "$where: a $f{type} can't be null\n"
        if $f{null} && !$f{array} && $FIXED{$f{type}};

    $f{ver} = $parent->{ver};

    if (@rest && $rest[0] =~ /^\d/) {
        my $v = versions(shift @rest) or die "$where: versions?\n";
        $f{ver} = intersect($v, $f{ver});
    }

    while (@rest) {
        my $word = shift @rest;
        die "$where: $word?\n" unless $word =~ /^(tag|default)$/ && @rest;
        $f{$word} = shift @rest;
    }

    die "$where: $name is in no version\n" if $f{ver}[0] > $f{ver}[1];
    check_default(\%f, $where);

    if (defined $f{tag}) {
        die "$where: tag $f{tag}?\n" unless $f{tag} =~ /^\d+$/;
        die "$where: a tagged field before flexible versions\n"
            if $f{ver}[0] < $parent->{flex};
        die "$where: tag $f{tag} is taken\n"
            if grep { ($_->{tag} // -1) == $f{tag} } @{$parent->{kids}};
    }

    die "$where: a second $name\n"
        if grep { $_->{snake} eq $f{snake} } @{$parent->{kids}};

    $f{flex} = $parent->{flex};
    $f{msgver} = $parent->{msgver};

    return \%f;
}

sub check_default {
    my ($f, $where) = @_;

    my $d = $f->{default} // return;

    if ($d eq 'null') {
        die "$where: default null, but not nullable\n" unless $f->{null};
        return;
    }

    my $fits = $f->{array} || $f->{kids} ? 0
             : $f->{type} eq 'bool' ? $d =~ /^(true|false)$/
             : $f->{type} =~ /int/ && $d =~ /^(-?\d+|0x[0-9a-f]+)$/;

    die "$where: default $d?\n" unless $fits;

    return;
}

sub parse_file {
    my ($file) = @_;

    my (@messages, $unit, @stack, @doc);

    open my $fh, '<', $file or die "$file: $!\n";

    my $start = sub {
        my ($kind) = @_;
        my $m = { %$unit, kind => $kind, kids => [] };

        push @messages, $m;
        @stack = ([0, $m]);
    };

    while (my $line = <$fh>) {
        my $where = "$file:$.";

        chomp $line;

        if ($line =~ /^#\s?(.*)/) {     # of what follows
            push @doc, $1;
            next;
        }

        if ($line =~ /^\s*$/) {
            @doc = () if $unit || $file =~ /journal\.kf$/;
            next;
        }

        if ($line =~ /^(api|record)\s+(\d+)\s+(\w+)\s+versions\s+(\S+)\s+
                       flexible\s+(\S+)(?:\s+advertise\s+(\d+))?$/x
            || $line =~ /^(data)\s+()(\w+)\s+versions\s+(\S+)\s+
                       flexible\s+(\S+)$/x)
        {
            my $v = versions($4) or die "$where: versions $4?\n";
            my $f = versions($5) or die "$where: flexible $5?\n";

            die "$where: one api per file, alone\n"
                if @messages && "$1$unit->{unit}" =~ /api/;

            $unit = {
                unit => $1, key => $2, name => $3, ver => $v, msgver => $v,
                flex => $f->[0], advertise => $6 // $v->[0], where => $where,
                doc => [@doc],
            };
            @doc = ();
            $start->($1) if $1 ne 'api';

        } elsif ($line =~ /^(request|response)$/) {
            die "$where: $1 outside of an api\n"
                unless $unit && $unit->{unit} eq 'api';
            $start->($1);

        } elsif ($line =~ /^( +)(\S.*)$/ && @stack) {
            my ($indent, $text) = (length $1, $2);

            $text =~ s/\s*#.*//;
            pop @stack while $indent <= $stack[-1][0];
            my $parent = $stack[-1][1];
            die "$where: indented below a field that is no struct\n"
                unless $parent->{kids} && $indent == $stack[-1][0] + 2;

            my $f = parse_field($text, $where, $parent);
            push @{$parent->{kids}}, $f;
            push @stack, [$indent, $f];

        } else {
            die "$where: not understood: $line\n";
        }
    }

    die "$file: no messages\n" unless @messages;

    for my $m (@messages) {
        my $base = snake($m->{name});

        $m->{base} = $base;
        $m->{id} = $m->{unit} eq 'api' ? "${base}_$m->{kind}" : $base;
        name_structs($m, $m, '', {});
    }

    return @messages;
}

# A struct is named after its field; where two fields of a message have the
# same name, the second takes its parent's name before its own.

sub name_structs {
    my ($m, $node, $prefix, $seen) = @_;

    my $suffix = $prefix eq '' ? '' : "_$prefix";

    $node->{c} = "kf_$m->{id}$suffix";
    $node->{fn} = "$m->{id}$suffix";
    $node->{local} = ($m->{unit} eq 'api' ? $m->{kind} : $m->{base}) . $suffix;

    for my $f (grep { $_->{kids} } @{$node->{kids}}) {
        my $name = $f->{snake};

        $name = "${prefix}_$name" if $seen->{$name};
        die "$f->{where}: two structs named $name\n" if $seen->{$name}++;
        die "$f->{where}: struct without fields\n" unless @{$f->{kids}};
        name_structs($m, $f, $name, $seen);
    }

    return;
}


# C condition for a range of versions; '' when it always holds.

sub condition {
    my ($ver, $all) = @_;

    my $v = intersect($ver, $all);
    my ($lo, $hi) = ($v->[0] > $all->[0], $v->[1] < $all->[1]);

    return '0' if $v->[0] > $v->[1];
    return "version == $v->[0]" if $v->[0] == $v->[1] && $hi;
    return "version >= $v->[0] && version <= $v->[1]" if $lo && $hi;
    return "version >= $v->[0]" if $lo;
    return "version <= $v->[1]" if $hi;
    return '';
}

sub flag {
    my ($ver, $all) = @_;

    my $c = condition($ver, $all);

    return $c eq '' ? 'true' : $c eq '0' ? 'false' : $c;
}

# Whether flexible encoding is used in the versions that the node has.

sub flexible {
    my ($node) = @_;

    return flag([$node->{flex}, $MAX], span($node));
}

sub span {
    my ($node) = @_;

    return intersect($node->{ver}, $node->{msgver});
}

sub default_value {
    my ($f) = @_;

    my $d = $f->{default};

    if ($f->{type} eq 'string') {
        return $f->{null} ? 'kf_null_str' : 'kf_str("")'
            if !defined $d || $d eq 'null';
        return qq{kf_str("$d")};
    }

    return $f->{null} ? 'kf_null_str' : 'kf_str("")' if $f->{type} eq 'bytes';
    return '(kf_records_t) { NULL, 0, NULL }' if $f->{type} eq 'records';
    return '(kf_uuid_t) { { 0 } }' if $f->{type} eq 'uuid';
    return $d // 'false' if $f->{type} eq 'bool';
    return '0' unless defined $d;
    return 'INT32_MIN' if $d eq '-2147483648';
    return 'INT32_MAX' if $d eq '2147483647' || lc $d eq '0x7fffffff';
    return 'INT64_MAX' if $d eq '9223372036854775807';

    return $d;
}

# True when a zeroed field is not its default.

sub needs_init {
    my ($f) = @_;

    return ($f->{default} // '') eq 'null' if $f->{array};
    return !$f->{null} && has_init($f) if $f->{kids};
    return 0 if $f->{type} =~ /^(string|bytes|records|uuid)$/;

    return default_value($f) !~ /^(0|false)$/;
}

sub has_init {
    my ($node) = @_;

    for my $f (@{$node->{kids}}) {
        return 1 if needs_init($f);
    }

    return 0;
}

# Smallest encoding of a node's fields in one version, for bounding counts.

sub min_size {
    my ($node, $version) = @_;

    my $flex = $version >= $node->{flex};
    my $size = $flex ? 1 : 0;

    for my $f (@{$node->{kids}}) {
        next if $version < $f->{ver}[0] || $version > $f->{ver}[1];
        next if defined $f->{tag};
        $size += min_field($f, $version);
    }

    return $size;
}

sub min_field {
    my ($f, $version) = @_;

    my $flex = $version >= $f->{flex};

    return $flex ? 1 : 4 if $f->{array};
    return $f->{null} ? 1 : min_size($f, $version) if $f->{kids};
    return $FIXED{$f->{type}} if $FIXED{$f->{type}};
    return $flex ? 1 : $f->{type} eq 'string' ? 2 : 4;
}

sub element_min {
    my ($f) = @_;

    return $FIXED{$f->{type}} if $FIXED{$f->{type}};

    my $v = span($f);
    my @runs;

    for my $version ($v->[0] .. $v->[1]) {
        my $min = $f->{kids} ? min_size($f, $version)
                : $version >= $f->{flex} ? 1 : $f->{type} eq 'string' ? 2 : 4;

        die "$f->{where}: elements without bytes in version $version\n"
            if $min < 1;
        push @runs, [$version, $min] if !@runs || $runs[-1][1] != $min;
    }

    my $out = '';

    for my $run (reverse @runs[1 .. $#runs]) {
        $out .= "version >= $run->[0] ? $run->[1] : ";
    }

    return "$out$runs[0][1]";
}

sub structs {                       # children first
    my ($node) = @_;

    return ((map { structs($_) } grep { $_->{kids} } @{$node->{kids}}), $node);
}

sub tagged {
    my ($node) = @_;

    return sort { $a->{tag} <=> $b->{tag} } grep { defined $_->{tag} }
           @{$node->{kids}};
}

1;
