#!/usr/bin/perl

# Reads codec/schema/*.kf and writes C: structs, decoders and encoders.
#
#   kfgen.pl                 writes codec/gen/ and t/schema/message_fields.h
#   kfgen.pl --check         exits 1 and names files that are not up to date
#   kfgen.pl --dump          prints every message and version as plain text, in
#                            the form that t/schema/ prints kafka-clients' own
#
# The language, by example:
#
#   # comment
#   api 1 Fetch  versions 4-18  flexible 12+     flexible none: never
#                                                advertise 0: see kf_api_t
#   request                                      then "response"
#     ClusterId  string?  12+  tag 0  default null
#     Topics     []                              array of structs: its fields
#       Topic    string   0-12                   are indented by two more
#     Cursor     {}?                             a struct, here a nullable one
#     Ids        [int32]?2-7                     nullable in versions 2 to 7
#   data Name  versions 0-3  flexible none       a message without a request
#   record 1 TopicRecord  versions 0-0  flexible 0+      of the journal
#
# Types: bool int8 int16 uint16 int32 int64 float64 string bytes uuid records.
# A field's versions are within its parent's; none given: all of them.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Spec;

my $here = dirname(File::Spec->rel2abs(__FILE__));
my $root = dirname($here);
my $MAX  = 32767;

my %C = (
    bool    => 'bool',      int8   => 'int8_t',     int16   => 'int16_t',
    uint16  => 'uint16_t',  int32  => 'int32_t',    int64   => 'int64_t',
    float64 => 'double',    string => 'kf_str_t',   bytes   => 'kf_bytes_t',
    uuid    => 'kf_uuid_t', records => 'kf_records_t',
);

my %FIXED = (
    bool => 1, int8 => 1, int16 => 2, uint16 => 2, int32 => 4, int64 => 8,
    float64 => 8, uuid => 16,
);

my %SUFFIX = (
    bool => 'bool', int8 => 'i8', int16 => 'i16', uint16 => 'u16',
    int32 => 'i32', int64 => 'i64', float64 => 'f64', uuid => 'uuid',
);


# --- parsing -----------------------------------------------------------------

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
    my ($a, $b) = @_;

    my $lo = $a->[0] > $b->[0] ? $a->[0] : $b->[0];
    my $hi = $a->[1] < $b->[1] ? $a->[1] : $b->[1];

    return [$lo, $hi];
}

sub parse_field {
    my ($text, $where, $parent) = @_;

    my ($name, $type, @rest) = split ' ', $text;
    my %f = (name => $name, snake => snake($name), where => $where);

    $type =~ s/\?(\S*)$// and $f{null} = $1 eq '' ? [0, $MAX] : versions($1);

    if ($type =~ /^\[(\w*)\]$/) {
        $f{array} = 1;
        $f{type} = $1 eq '' ? 'struct' : $1;
    } else {
        $f{type} = $type eq '{}' ? 'struct' : $type;
    }

    $f{kids} = [] if $f{type} eq 'struct';
    die "$where: unknown type $type\n"
        unless $f{type} eq 'struct' || $C{$f{type}};
    die "$where: a $f{type} can't be null\n"
        if $f{null} && !$f{array} && $FIXED{$f{type}};

    $f{ver} = $parent->{ver};

    if (@rest && versions($rest[0])) {
        $f{ver} = intersect(versions(shift @rest), $f{ver});
    }

    while (@rest) {
        my $word = shift @rest;
        die "$where: $word?\n" unless $word =~ /^(tag|default)$/ && @rest;
        $f{$word} = shift @rest;
    }

    die "$where: $name is in no version\n" if $f{ver}[0] > $f{ver}[1];
    die "$where: default null, but not nullable\n"
        if ($f{default} // '') eq 'null' && !$f{null};
    die "$where: a tagged field before flexible versions\n"
        if defined $f{tag} && $f{ver}[0] < $parent->{flex};

    $f{flex} = $parent->{flex};
    $f{msgver} = $parent->{msgver};

    return \%f;
}

sub parse_file {
    my ($file) = @_;

    my (@messages, $unit, @stack);
    my @doc;

    open my $fh, '<', $file or die "$file: $!\n";

    my $start = sub {
        my ($kind) = @_;
        my $m = { %$unit, kind => $kind, kids => [], doc => [@doc] };

        push @messages, $m;
        @stack = ([0, $m]);
        @doc = ();
    };

    while (my $line = <$fh>) {
        my $where = "$file:$.";

        chomp $line;

        if ($line =~ /^#\s?(.*)/) { push @doc, $1; next }
        if ($line =~ /^\s*$/)     { @doc = () if !$unit || $unit->{unit} eq
                                    'record'; next }

        if ($line =~ /^(api|record)\s+(\d+)\s+(\w+)\s+versions\s+(\S+)\s+
                       flexible\s+(\S+)(?:\s+advertise\s+(\d+))?$/x
            || $line =~ /^(data)\s+()(\w+)\s+versions\s+(\S+)\s+
                       flexible\s+(\S+)$/x)
        {
            my $v = versions($4) or die "$where: versions $4?\n";
            my $f = versions($5) or die "$where: flexible $5?\n";

            $unit = {
                unit => $1, key => $2, name => $3, ver => $v, msgver => $v,
                flex => $f->[0], advertise => $6 // $v->[0], where => $where,
            };
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


# --- shared by the writers ---------------------------------------------------

# One statement, broken at commas, else at blanks, where it is too long.

sub wrap {
    my ($indent, $text) = @_;

    return "$indent$text\n" if length("$indent$text") < 80;

    my $hang = "$indent    ";
    my ($out, $line) = ('', $indent);

    for my $part (split /(?<=,) /, $text) {
        my @words = length("$hang$part") < 79 ? $part : split / /, $part;

        for my $word (@words) {
            if (length("$line$word") > 79 && $line =~ /\S/) {
                $out .= $line =~ s/ +$/\n/r;
                $line = $hang;
            }
            $line .= "$word ";
        }
    }

    return $out . ($line =~ s/ +$/\n/r);
}

# "name(args)", broken as function heads are; no newline at the end.

sub head {
    my ($name, @args) = @_;

    my ($out, $line) = ('', "$name(");

    for my $k (0 .. $#args) {
        my $arg = $args[$k] . ($k < $#args ? ',' : ')');
        my $gap = $line =~ /[( ]$/ ? '' : ' ';

        if (length("$line$gap$arg") > 78) {
            $out .= "$line\n";
            $line = "    $arg";
        } else {
            $line .= "$gap$arg";
        }
    }

    return "$out$line";
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


# --- headers -----------------------------------------------------------------

sub struct_c {
    my ($node) = @_;

    my @rows;

    for my $f (@{$node->{kids}}) {
        my $type = $f->{kids} ? "$f->{c}_t" : $C{$f->{type}};
        my $star = $f->{array} || ($f->{kids} && $f->{null}) ? '*' : '';

        push @rows, [$type, "$star$f->{snake}"];
        push @rows, ['int32_t', "$f->{snake}_n"] if $f->{array};
    }

    my $width = 0;

    for my $row (@rows) {
        my $stars = $row->[1] =~ /^\*/ ? 1 : 0;
        $width = length($row->[0]) + $stars
            if length($row->[0]) + $stars > $width;
    }

    my $out = "typedef struct {\n";

    for my $row (@rows) {
        my $pad = $width + 2 - length $row->[0];
        $pad-- if $row->[1] =~ /^\*/;
        $out .= "    $row->[0]" . ' ' x $pad . "$row->[1];\n";
    }

    return "$out} $node->{c}_t;\n";
}

sub decode_head {
    my ($ret, $m) = @_;

    return head("${ret}kf_decode_$m->{id}", 'kf_reader_t *r',
                'int16_t version', 'kf_arena_t *a', "$m->{c}_t *m");
}

sub encode_head {
    my ($ret, $m) = @_;

    return head("${ret}kf_encode_$m->{id}", 'kf_writer_t *w',
                'int16_t version', "const $m->{c}_t *m");
}

sub header_body {
    my (@messages) = @_;

    my $out = '';

    for my $m (@messages) {
        for my $node (structs($m)) {
            $out .= struct_c($node) . "\n\n";
        }
    }

    for my $m (@messages) {
        for my $node (grep { has_init($_) } structs($m)) {
            $out .= head("void kf_init_$node->{fn}", "$node->{c}_t *m") . ";\n";
        }

        $out .= decode_head('kf_rc_t ', $m) . ";\n";
        $out .= encode_head('void ', $m) . ";\n\n";
    }

    return $out;
}

sub header {
    my ($guard, $about, $body) = @_;

    return <<"END";
/* Generated by codec/kfgen.pl; do not edit. */

/*
 * $about
 */

#ifndef $guard
#define $guard

#include "../kf_arena.h"
#include "../kf_reader.h"
#include "../kf_writer.h"

#pragma GCC visibility push(hidden)


$body
#pragma GCC visibility pop

#endif
END
}


# --- decoders ----------------------------------------------------------------

sub read_value {
    my ($f, $flexible, $null, $r) = @_;

    my $t = $f->{type};

    return "kf_read_$SUFFIX{$t}($r)" if $SUFFIX{$t};
    return "kf_read_str($r, $flexible, $null)" if $t eq 'string';
    return "kf_read_bytes($r, $flexible, $null)";
}

# Statements that read field f into m->f from the reader named r.

sub decode_field {
    my ($f, $i, $r) = @_;

    $r //= 'r';

    my $m = "m->$f->{snake}";
    my $span = span($f);
    my $flexible = flexible($f);
    my $null = $f->{null} ? flag($f->{null}, $span) : 'false';
    my $rc = $r eq 'r' ? 'r->rc' : 'field.rc';
    my $out = '';

    if ($f->{array}) {
        my $min = element_min($f);

        $out .= wrap($i, "${m}_n = kf_read_count($r, $flexible, $null, $min);");
        $out .= wrap($i, "$m = kf_take_array($r, a, &${m}_n, sizeof(*$m));");
        $out .= "\n" . wrap($i, "for (i = 0; i < ${m}_n && $rc == KF_OK;"
                                 . " i++) {");

        if ($f->{kids}) {
            $out .= wrap("$i    ", "decode_$f->{local}($r, version, a, &${m}[i]);");
        } else {
            $out .= "$i    ${m}[i] = "
                  . read_value($f, $flexible, 'false', $r) . ";\n";
        }

        return "$out$i}\n";
    }

    if ($f->{kids} && $f->{null}) {
        return "$i$m = NULL;\n\n"
             . "${i}if (kf_read_i8($r) >= 0 && $rc == KF_OK) {\n"
             . "$i    $m = kf_arena_array(a, 1, sizeof(*$m));\n\n"
             . "$i    if ($m == NULL) {\n"
             . "$i        kf_reader_fail($r, KF_NO_MEMORY);\n\n"
             . "$i    } else {\n"
             . wrap("$i        ", "decode_$f->{local}($r, version, a, $m);")
             . "$i    }\n$i}\n";
    }

    return wrap($i, "decode_$f->{local}($r, version, a, &$m);") if $f->{kids};

    if ($f->{type} eq 'records') {
        return wrap($i, "records = kf_read_bytes($r, $flexible, $null);")
             . "$i$m.data = records.data;\n"
             . "$i$m.len = records.len;\n"
             . "$i$m.ref = NULL;\n";
    }

    return wrap($i, "$m = " . read_value($f, $flexible, $null, $r) . ';');
}

sub default_field {
    my ($f, $i) = @_;

    my $m = "m->$f->{snake}";

    if ($f->{array}) {
        my $n = ($f->{default} // '') eq 'null' ? -1 : 0;
        return "$i$m = NULL;\n$i${m}_n = $n;\n";
    }

    return "$i$m = NULL;\n" if $f->{kids} && $f->{null};
    return "${i}kf_init_$f->{fn}(&$m);\n" if $f->{kids} && has_init($f);
    return "${i}memset(&$m, 0, sizeof($m));\n"
        if $f->{kids} || $f->{type} eq 'uuid' || $f->{type} eq 'records';

    return "$i$m = " . default_value($f) . ";\n";
}

sub tagged {
    my ($node) = @_;

    return sort { $a->{tag} <=> $b->{tag} } grep { defined $_->{tag} }
           @{$node->{kids}};
}

# Code for all untagged fields of a node, neighbours of the same versions under
# one condition; without is what to do in versions that lack them.

sub body {
    my ($node, $with, $without) = @_;

    my $all = span($node);
    my @groups;

    for my $f (grep { !defined $_->{tag} } @{$node->{kids}}) {
        my $c = condition($f->{ver}, $all);

        push @groups, [$c] if !@groups || $groups[-1][0] ne $c;
        push @{$groups[-1]}, $f;
    }

    my @parts;

    for my $group (@groups) {
        my ($c, @fields) = @$group;

        if ($c eq '') {
            push @parts, paragraphs(map { $with->($_, '    ') } @fields);
            next;
        }

        my $part = "    if ($c) {\n"
                 . paragraphs(map { $with->($_, '        ') } @fields);

        if ($without) {
            $part .= "\n    } else {\n"
                   . join '', map { $without->($_, '        ') } @fields;
        }

        push @parts, "$part    }\n";
    }

    return join "\n", @parts;
}

# A blank line around whatever has a block of its own.

sub paragraphs {
    my ($out, $block) = ('', 0);

    for my $code (@_) {
        my $is = $code =~ /\{/ ? 1 : 0;

        $out .= "\n" if $out ne '' && ($is || $block);
        $out .= $code;
        $block = $is;
    }

    return $out;
}

sub decode_struct {
    my ($node) = @_;

    my $all = span($node);
    my $body = body($node, \&decode_field, \&default_field);
    my $defaults = join '', map { default_field($_, '    ') } tagged($node);

    $body .= "\n$defaults" if $defaults ne '';
    $body .= decode_tags($node, $all);

    my @locals;
    my $name = "decode_$node->{local}";

    push @locals, ['int32_t', 'i'] if $body =~ /\bi = 0\b/;
    push @locals, ['uint32_t', 'tags'] if $body =~ /\btags\b/;
    push @locals, ['kf_bytes_t', 'records'] if $body =~ /\brecords = /;
    push @locals, ['kf_reader_t', 'field'] if $body =~ /\bfield\b/;

    my $out = "static void\n"
            . head($name, 'kf_reader_t *r', 'int16_t version',
                   'kf_arena_t *a', "$node->{c}_t *m")
            . "\n{\n";

    $out .= locals(@locals);
    $out .= "    (void) version;\n" if $body !~ /\bversion\b/;
    $out .= "    (void) a;\n" if $body !~ /\ba\b/;
    $out .= "\n" if $out =~ /\(void\)/;

    return "$out$body}\n";
}

sub locals {
    my (@locals) = @_;

    return '' unless @locals;

    my $width = 0;

    for my $l (@locals) {
        $width = length $l->[0] if length $l->[0] > $width;
    }

    return join('', map { sprintf "    %-*s  %s;\n", $width, @$_ } @locals)
         . "\n";
}

sub decode_tags {
    my ($node, $all) = @_;

    my $c = condition([$node->{flex}, $MAX], $all);

    return '' if $c eq '0';

    my $i = $c eq '' ? '    ' : '        ';
    my @tagged = tagged($node);
    my $body;

    if (!@tagged) {
        $body = "${i}kf_skip_tags(r);\n";

    } else {
        $body = "${i}for (tags = kf_read_uvarint(r); tags && r->rc == KF_OK;"
              . " tags--) {\n"
              . "$i    switch (kf_open_tag(r, &field)) {\n";

        for my $f (@tagged) {
            my $in = condition($f->{ver}, [ $node->{flex} > $all->[0]
                                            ? $node->{flex} : $all->[0],
                                            $all->[1] ]);
            next if $in eq '0';
            $body .= "\n$i    case $f->{tag}:\n";
            if ($in ne '') {
                $body .= "$i        if ($in) {\n"
                       . decode_field($f, "$i            ", '&field')
                       . "$i            kf_close_tag(r, &field);\n"
                       . "$i        }\n$i        break;\n";
            } else {
                $body .= decode_field($f, "$i        ", '&field')
                       . "$i        kf_close_tag(r, &field);\n"
                       . "$i        break;\n";
            }
        }

        $body .= "\n$i    default:\n$i        break;\n$i    }\n$i}\n";
    }

    return "\n$body" if $c eq '';
    return "\n    if ($c) {\n$body    }\n";
}


# --- encoders ----------------------------------------------------------------

sub write_value {
    my ($f, $value, $flexible, $null) = @_;

    my $t = $f->{type};

    return "kf_write_$SUFFIX{$t}(w, $value);" if $SUFFIX{$t};
    return "kf_write_str(w, $value, $flexible, $null);" if $t eq 'string';
    return "kf_write_bytes(w, $value, $flexible, $null);" if $t eq 'bytes';
    return "kf_write_records(w, $value, $flexible);";
}

sub encode_field {
    my ($f, $i) = @_;

    my $m = "m->$f->{snake}";
    my $span = span($f);
    my $flexible = flexible($f);
    my $null = $f->{null} ? flag($f->{null}, $span) : 'false';

    if ($f->{array}) {
        my $out = wrap($i, "kf_write_count(w, ${m}_n, $flexible, $null);");

        $out .= "\n${i}for (i = 0; i < ${m}_n; i++) {\n";
        $out .= $f->{kids}
            ? wrap("$i    ", "encode_$f->{local}(w, version, &${m}[i]);")
            : wrap("$i    ", write_value($f, "${m}[i]", $flexible, 'false'));

        return "$out$i}\n";
    }

    if ($f->{kids} && $f->{null}) {
        return "${i}kf_write_i8(w, $m ? 1 : -1);\n\n"
             . "${i}if ($m) {\n"
             . wrap("$i    ", "encode_$f->{local}(w, version, $m);")
             . "$i}\n";
    }

    return wrap($i, "encode_$f->{local}(w, version, &$m);") if $f->{kids};
    return wrap($i, write_value($f, $m, $flexible, $null));
}

# C condition under which a tagged field differs from its default.

sub differs {
    my ($f, $m) = @_;

    my $v = "$m->$f->{snake}";

    if ($f->{array}) {
        return ($f->{default} // '') eq 'null' ? "${v}_n >= 0"
             : $f->{null} ? "${v}_n != 0" : "${v}_n > 0";
    }

    return $v if $f->{kids} && $f->{null};
    return "!is_default_$f->{local}(&$v)" if $f->{kids};
    return "!kf_uuid_is_zero($v)" if $f->{type} eq 'uuid';

    if ($f->{type} =~ /^(string|bytes|records)$/) {
        return $f->{null} ? "$v.data" : "$v.len";
    }

    my $d = default_value($f);

    return $d eq 'false' ? $v : $d eq 'true' ? "!$v" : "$v != $d";
}

# What makes a struct differ from its defaults, field by field.

sub is_default_c {
    my ($node) = @_;

    my @terms;

    for my $f (@{$node->{kids}}) {
        my $d = differs($f, 'm');
        push @terms, $d =~ s/^!// ? $d : $d =~ s/ != / == / ? $d
                   : $d =~ s/ >= 0$/ < 0/ ? $d : $d =~ s/ > 0$/ < 1/ ? $d
                   : "!$d";
    }

    return "static bool\n"
         . head("is_default_$node->{local}", "const $node->{c}_t *m") . "\n{\n"
         . '    return ' . join("\n           && ", @terms) . ";\n}\n";
}

sub put_c {
    my ($node, $f) = @_;

    my $body = encode_field($f, '    ');
    my @locals = $body =~ /\bi = 0\b/ ? (['int32_t', 'i']) : ();

    return "static void\n"
         . head("put_$node->{local}_$f->{snake}", 'kf_writer_t *w',
                'int16_t version', "const $node->{c}_t *m")
         . "\n{\n"
         . locals(@locals)
         . ($body =~ /\bversion\b/ ? '' : "    (void) version;\n\n")
         . "$body}\n";
}

sub encode_struct {
    my ($node) = @_;

    my $all = span($node);
    my $body = body($node, \&encode_field);

    $body .= encode_tags($node, $all);

    my @locals;

    push @locals, ['int32_t', 'i'] if $body =~ /\bi = 0\b/;
    push @locals, ['bool', join ', ', map { "tag$_->{tag}" }
                   grep { $body =~ /\btag$_->{tag}\b/ } tagged($node)]
        if $body =~ /\btag\d/;
    push @locals, ['kf_writer_t', 'size'] if $body =~ /\bsize\b/;

    my $out = "static void\n"
            . head("encode_$node->{local}", 'kf_writer_t *w',
                   'int16_t version', "const $node->{c}_t *m")
            . "\n{\n" . locals(@locals);

    $out .= "    (void) version;\n" if $body !~ /\bversion\b/;
    $out .= "    (void) m;\n" if $body !~ /\bm\b/;
    $out .= "\n" if $out =~ /\(void\)/;

    return "$out$body}\n";
}

sub encode_tags {
    my ($node, $all) = @_;

    my $c = condition([$node->{flex}, $MAX], $all);

    return '' if $c eq '0';

    my $i = $c eq '' ? '    ' : '        ';
    my $flexall = intersect([$node->{flex}, $MAX], $all);
    my @tagged = grep { condition($_->{ver}, $flexall) ne '0' } tagged($node);
    my ($test, $write) = ('', '');

    for my $f (@tagged) {
        my $in = condition($f->{ver}, $flexall);
        my $if = $in eq '' ? differs($f, 'm') : "$in && " . differs($f, 'm');
        my $put = "put_$node->{local}_$f->{snake}";

        $test .= wrap($i, "tag$f->{tag} = $if;");
        $write .= "\n${i}if (tag$f->{tag}) {\n"
                . "$i    kf_writer_count(&size);\n"
                . wrap("$i    ", "$put(&size, version, m);")
                . "$i    kf_write_tag(w, $f->{tag}, size.size);\n"
                . wrap("$i    ", "$put(w, version, m);")
                . "$i}\n";
    }

    my $sum = join ' + ', map { "tag$_->{tag}" } @tagged;
    my $body = "$test${i}kf_write_uvarint(w, " . ($sum || '0') . ");\n$write";

    return "\n$body" if $c eq '';
    return "\n    if ($c) {\n$body    }\n";
}


# --- source files ------------------------------------------------------------

sub init_c {
    my ($node) = @_;

    my $out = "void\n" . head("kf_init_$node->{fn}", "$node->{c}_t *m")
            . "\n{\n"
            . "    memset(m, 0, sizeof($node->{c}_t));\n\n";

    for my $f (grep { needs_init($_) } @{$node->{kids}}) {
        $out .= $f->{array} ? "    m->$f->{snake}_n = -1;\n"
              : $f->{kids} ? "    kf_init_$f->{fn}(&m->$f->{snake});\n"
              : "    m->$f->{snake} = " . default_value($f) . ";\n";
    }

    return "$out}\n";
}

sub source_body {
    my (@messages) = @_;

    my @parts;

    for my $m (@messages) {
        my @structs = structs($m);

        push @parts, map { init_c($_) } grep { has_init($_) } @structs;

        my %tagged_struct;

        for my $node (@structs) {
            for my $f (tagged($node)) {
                next if !$f->{kids} || $f->{array} || $f->{null};
                push @parts, is_default_c($f) unless $tagged_struct{$f->{local}}++;
            }
        }

        push @parts, map { decode_struct($_) } @structs;

        for my $node (@structs) {
            push @parts, map { put_c($node, $_) } tagged($node);
            push @parts, encode_struct($node);
        }

        my $v = $m->{ver};
        my $range = $v->[0] > 0
            ? "version < $v->[0] || version > $v->[1]"
            : "version < 0 || version > $v->[1]";

        # Later versions of embedded data only append fields (see the schema).
        my $finish = $m->{unit} eq 'data' ? 'r->rc' : 'kf_finish(r)';

        push @parts, "kf_rc_t\n" . decode_head('', $m) . "\n{\n"
            . "    if ($range) {\n        return KF_UNSUPPORTED;\n    }\n\n"
            . "    decode_$m->{local}(r, version, a, m);\n\n"
            . "    return $finish;\n}\n";
        push @parts, "void\n" . encode_head('', $m) . "\n{\n"
            . "    encode_$m->{local}(w, version, m);\n}\n";
    }

    return join "\n\n", @parts;
}

sub source {
    my ($header, $body) = @_;

    return <<"END";
/* Generated by codec/kfgen.pl; do not edit. */

#include "$header"
#include "../kf_gen.h"


$body
END
}

sub guard {
    my ($name) = @_;

    return uc($name) . '_H';
}

sub by_file {
    my ($name, $about, @messages) = @_;

    return (
        "codec/gen/$name.h" => header(guard($name), $about,
                                      header_body(@messages)),
        "codec/gen/$name.c" => source("$name.h", source_body(@messages)) =~
                               s/\n\n\z/\n/r,
    );
}

sub api_table {
    my (@apis) = @_;

    my $out = <<'END';
/* Generated by codec/kfgen.pl; do not edit. */

#include "../kf_api.h"
#include "kf_messages.h"


END

    for my $m (@apis) {
        my $base = $m->{base};

        $out .= "static kf_rc_t\n"
              . head("decode_$base", 'kf_reader_t *r', 'int16_t version',
                     'kf_arena_t *a', 'void *m')
              . "\n{\n    return kf_decode_${base}_request(r, version, a, m);\n"
              . "}\n\n\nstatic void\n"
              . head("encode_$base", 'kf_writer_t *w', 'int16_t version',
                     'const void *m')
              . "\n{\n    kf_encode_${base}_response(w, version, m);\n}\n\n\n";
    }

    $out .= "/* Key, min, max, advertised min, first flexible, name. */\n"
          . "\nconst kf_api_t  kf_api_table[] = {\n";

    for my $m (@apis) {
        my $flex = $m->{flex} > $m->{ver}[1] ? $m->{ver}[1] + 1 : $m->{flex};

        $out .= "    { $m->{key}, $m->{ver}[0], $m->{ver}[1], $m->{advertise},"
              . " $flex, \"$m->{name}\",\n"
              . "      sizeof(kf_$m->{base}_request_t),\n"
              . "      decode_$m->{base}, encode_$m->{base} },\n";
    }

    return $out . "};\n\nconst size_t  kf_api_count = sizeof(kf_api_table)"
                . " / sizeof(kf_api_table[0]);\n";
}

sub journal_files {
    my (@records) = @_;

    my $numbers = "typedef enum {\n" . join(",\n", map {
        '    KF_' . uc($_->{base}) . " = $_->{key}" } @records)
        . "\n} kf_journal_number_t;\n\n\n"
        . "typedef struct {\n    int16_t      number;\n"
        . "    int16_t      max_version;\n    const char  *name;\n"
        . "} kf_journal_type_t;\n\n\n"
        . "/* NULL: a record that this build does not know. */\n"
        . "const kf_journal_type_t *kf_journal_type(int16_t number);\n\n\n";
    my $table = <<"END";
const kf_journal_type_t *
kf_journal_type(int16_t number)
{
    static const kf_journal_type_t  types[] = {
END

    $table .= join '', map {
        "        { $_->{key}, $_->{ver}[1], \"$_->{name}\" },\n" } @records;
    $table .= <<'END';
    };

    size_t  i;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].number == number) {
            return &types[i];
        }
    }

    return NULL;
}


END

    return (
        'codec/gen/kf_journal.h' => header('KF_JOURNAL_H',
            'Records of the journal (codec/schema/journal.kf).',
            $numbers . header_body(@records)),
        'codec/gen/kf_journal.c' => source('kf_journal.h',
            $table . source_body(@records)) =~ s/\n\n\z/\n/r,
    );
}

sub messages_h {
    my ($headers, @apis) = @_;

    my $keys = "typedef enum {\n" . join(",\n", map {
        '    KF_API_' . uc($_->{base}) . " = $_->{key}" } @apis)
        . "\n} kf_api_key_t;\n\n";

    return "/* Generated by codec/kfgen.pl; do not edit. */\n\n"
         . "/*\n * All messages of the wire protocol, and the APIs' keys.\n"
         . " */\n\n#ifndef KF_MESSAGES_H\n#define KF_MESSAGES_H\n\n"
         . join('', map { "#include \"$_.h\"\n" } @$headers)
         . "\n\n$keys\n#endif\n";
}


# --- main --------------------------------------------------------------------

my (%files, @apis, @headers, @all);

for my $path (sort glob("$here/schema/*.kf")) {
    my ($stem) = $path =~ m{([^/]+)\.kf$};
    my @messages = parse_file($path);

    push @all, @messages;

    if ($stem eq 'journal') {
        %files = (%files, journal_files(@messages));
        next;
    }

    push @apis, $messages[0] if $messages[0]{unit} eq 'api';
    push @headers, "kf_$stem";
    my $what = $messages[0]{unit} eq 'api'
        ? "$messages[0]{name} (API $messages[0]{key})" : $messages[0]{name};
    %files = (%files, by_file("kf_$stem", "$what, versions "
              . "$messages[0]{ver}[0] to $messages[0]{ver}[1].", @messages));
}

$files{'codec/gen/kf_messages.h'} = messages_h(\@headers, @apis);
$files{'codec/gen/kf_api_table.c'} = api_table(
    sort { $a->{key} <=> $b->{key} } @apis);

my $mode = $ARGV[0] // '';
my $stale = 0;

for my $name (sort keys %files) {
    my $path = "$root/$name";
    my $old = '';

    if (open my $fh, '<', $path) {
        local $/ = undef;
        $old = <$fh>;
        close $fh;
    }

    next if $old eq $files{$name};

    if ($mode eq '--check') {
        print "not up to date: $name\n";
        $stale = 1;
        next;
    }

    open my $fh, '>', $path or die "$path: $!\n";
    print {$fh} $files{$name};
    close $fh or die "$path: $!\n";
}

exit $stale;
