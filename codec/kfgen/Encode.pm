package kfgen::Encode;

# Writes encoders, and what tells a tagged field from its default.

use strict;
use warnings;

use Exporter qw(import);

use kfgen::Schema;
use kfgen::Text;
use kfgen::Decode qw(body);

our @EXPORT = qw(
    encode_head encode_struct put_c is_default_c
);


my %SUFFIX = (
    bool => 'bool', int8 => 'i8', int16 => 'i16', uint16 => 'u16',
    int32 => 'i32', int64 => 'i64', float64 => 'f64', uuid => 'uuid',
);


sub encode_head {
    my ($ret, $m) = @_;

    return head("${ret}kf_encode_$m->{id}", 'kf_writer_t *w',
                'int16_t version', "const $m->{c}_t *m");
}


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

1;
