#!/usr/bin/env perl

# Kafka's own command line tools.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

tool('java', 'mvn');
jars('tools.xml');
broker();
my $topic = "cli-$$";


like(kafka('BrokerApiVersionsCommand'), qr/Fetch\(1\): .*usable/,
    'kafka-broker-api-versions');

like(kafka('TopicCommand', '--create', '--topic', $topic, '--partitions', 3,
    '--config', 'retention.ms=3600000'), qr/Created topic \Q$topic\E/,
    'kafka-topics --create');
like(kafka('TopicCommand', '--list'), qr/^\Q$topic\E$/m,
    'kafka-topics --list');
like(kafka('TopicCommand', '--describe', '--topic', $topic),
    qr/PartitionCount: 3.*retention.ms=3600000/, 'kafka-topics --describe');
like(kafka('TopicCommand', '--create', '--topic', $topic),
    qr/already exists/, 'kafka-topics --create twice');

like(kafka('ConfigCommand', '--describe', '--entity-type', 'topics',
    '--entity-name', $topic), qr/retention.ms=3600000/,
    'kafka-configs --describe of a topic');
like(kafka('ConfigCommand', '--describe', '--all', '--entity-type', 'brokers',
    '--entity-name', 1), qr/log.segment.bytes=/,
    'kafka-configs --describe of the broker');

my $lines = join '', map "k$_:line $_\n", 1 .. 100;
unlike(kafka('ConsoleProducer', \$lines, '--topic', $topic,
    '--reader-property', 'parse.key=true',
    '--reader-property', 'key.separator=:'), qr/ERROR|Exception/,
    'kafka-console-producer');

my $sum = 0;
my $offsets = kafka('GetOffsetShell', '--topic', $topic);
$sum += $1 while $offsets =~ /^\Q$topic\E:\d+:(\d+)$/mg;
is($sum, 100, 'kafka-get-offsets');

my %seen;
for my $p (0 .. 2) {
    my $n = $offsets =~ /^\Q$topic\E:$p:(\d+)$/m ? $1 : 0;
    next unless $n;
    $seen{$_}++ for kafka('consumer.ConsoleConsumer', '--topic', $topic,
        '--partition', $p, '--offset', 'earliest', '--max-messages', $n)
        =~ /^(line \d+)$/mg;
}
is(scalar(keys %seen), 100, 'kafka-console-consumer by partition');

unlike(kafka('TopicCommand', '--delete', '--topic', $topic),
    qr/rror|Exception/, 'kafka-topics --delete');
unlike(kafka('TopicCommand', '--list'), qr/^\Q$topic\E$/m, 'and it is gone');

finish();
