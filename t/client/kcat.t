#!/usr/bin/env perl

# kcat (librdkafka): every codec, idempotent and not, offsets by time.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);

use Test::KafkaClient;

tool('kcat');
my $b = broker();
my $base = "kcat-$$";

like(output('', 'kcat', '-b', $b, '-L'), qr/1 brokers:/, 'metadata');

for my $idempotent ('false', 'true') {
    for my $codec (qw(none gzip snappy lz4 zstd)) {
        my $topic = "$base-$codec-$idempotent";
        my $label = "$codec, idempotence $idempotent";
        my @sent = map "$_ " . 'x' x ($_ * 7 % 900), 1 .. 300;

        my $text = output(join("\n", @sent) . "\n", 'kcat', '-b', $b, '-P',
            '-t', $topic, '-p', 0, '-z', $codec, '-X',
            "enable.idempotence=$idempotent", '-X', 'linger.ms=20',
            '-X', 'batch.num.messages=70', '-X', 'acks=all');
        is($text, '', "$label: produced");

        my @got = split /\n/, output('', 'kcat', '-b', $b, '-C', '-t', $topic,
            '-p', 0, '-o', 'beginning', '-e', '-q', '-X', 'check.crcs=true');
        is(scalar @got, scalar @sent, "$label: as many consumed");
        is_deeply(\@got, \@sent, "$label: the same, in order");
    }
}

# Keys, headers, a null value, a partition of its own.
my $topic = "$base-shape";
is(output("k1:v1\nk2:\n", 'kcat', '-b', $b, '-P', '-t', $topic, '-p', 1,
    '-K:', '-Z', '-H', 'h1=a', '-H', 'h2=b'), '', 'keys and headers produced');
is(output('', 'kcat', '-b', $b, '-C', '-t', $topic, '-p', 1, '-o', 'beginning',
    '-e', '-q', '-Z', '-f', '%p %o %k=%s %h\n'),
    "1 0 k1=v1 h1=a,h2=b\n1 1 k2=NULL h1=a,h2=b\n", 'and consumed');

# Offsets by time.
my $between = int(time * 1000) + 50;
select undef, undef, undef, 0.1;
output("later\n", 'kcat', '-b', $b, '-P', '-t', $topic, '-p', 1);

like(output('', 'kcat', '-b', $b, '-Q', '-t', "$topic:1:$between"),
    qr/\Q$topic\E \[1\] offset 2$/m, 'the offset of a time');
like(output('', 'kcat', '-b', $b, '-Q', '-t', "$topic:1:-1"),
    qr/offset 3$/m, 'the end');
is(output('', 'kcat', '-b', $b, '-C', '-t', $topic, '-p', 1, '-o', "s\@$between",
    '-e', '-q'), "later\n", 'consumed from a time');
is(output('', 'kcat', '-b', $b, '-C', '-t', $topic, '-p', 1, '-o', -1,
    '-e', '-q'), "later\n", 'the last one');

finish();
