package kfgen::Decode;

# Writes decoders.

use strict;
use warnings;

use Exporter qw(import);

use kfgen::Schema;
use kfgen::Text;

our @EXPORT = qw(
    decode_head decode_struct default_field body
);


my %SUFFIX = (
    bool => 'bool', int8 => 'i8', int16 => 'i16', uint16 => 'u16',
    int32 => 'i32', int64 => 'i64', float64 => 'f64', uuid => 'uuid',
);


sub decode_head {
    my ($ret, $m) = @_;

    return head("${ret}kf_decode_$m->{id}", 'kf_reader_t *r',
                'int16_t version', 'kf_arena_t *a', "$m->{c}_t *m");
}


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

1;
