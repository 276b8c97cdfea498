#!/usr/bin/env perl

# Kafka's own command line tools for what an administrator does beside topics:
# groups and their offsets, configs that change, records deleted, directories,
# and the two verifiable clients.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

tool('java', 'mvn');
jars('tools.xml');
broker();

my ($topic, $group) = ("admin-$$", "group-$$");

# What the group's description says of each partition: [committed, end, lag].
sub lags {
    my $text = kafka('consumer.group.ConsumerGroupCommand', '--describe',
        '--group', $group);
    my %of;
    $of{$1} = [$2, $3, $4]
        while $text =~ /^\Q$group\E\s+\Q$topic\E\s+(\d+)\s+(\d+|-)\s+(\d+)\s+(\d+|-)/mg;

    return \%of;
}


sub total {
    my ($of, $i) = @_;
    my $n = 0;
    $n += $of->{$_}[$i] for keys %$of;

    return $n;
}


like(kafka('TopicCommand', '--create', '--topic', $topic, '--partitions', 2),
    qr/Created topic/, 'a topic');

my $sent = kafka('VerifiableProducer', '--topic', $topic, '--max-messages',
    200, '--throughput', -1, '--repeating-keys', 20);
is(scalar(() = $sent =~ /"name":"producer_send_success"/g), 200,
    'kafka-verifiable-producer: every record is acknowledged');

my $read = kafka('VerifiableConsumer', '--topic', $topic, '--group-id', $group,
    '--max-messages', 200, '--reset-policy', 'earliest');
my $records = 0;
$records += $1 while $read =~ /"name":"records_consumed".*?"count":(\d+)/g;
$records += $1 while $read =~ /"count":(\d+)[^\n]*"name":"records_consumed"/g;
is($records, 200, 'kafka-verifiable-consumer: every record is read')
    or diag($read);
like($read, qr/"success":true/, 'and its offsets are committed');

like(kafka('consumer.group.ConsumerGroupCommand', '--list'),
    qr/^\Q$group\E$/m, 'kafka-consumer-groups --list');

my $lags = lags();
is(scalar(keys %$lags), 2, 'kafka-consumer-groups --describe: each partition');
is(total($lags, 0), 200, 'all of it is committed');
is(total($lags, 2), 0, 'with no lag');

like(kafka('consumer.group.ConsumerGroupCommand', '--describe', '--state',
    '--group', $group), qr/\Q$group\E.*\bEmpty\b/, 'its state');

like(kafka('consumer.group.ConsumerGroupCommand', '--reset-offsets', '--group',
    $group, '--topic', $topic, '--to-earliest', '--execute'),
    qr/\Q$topic\E\s+0\s+0/, 'kafka-consumer-groups --reset-offsets');
is(total(lags(), 2), 200, 'all of it is to be read again');

like(kafka('consumer.group.ConsumerGroupCommand', '--reset-offsets', '--group',
    $group, '--topic', "$topic:1", '--to-offset', 5, '--execute'),
    qr/\Q$topic\E\s+1\s+5/, 'of one partition, to an offset');
is(lags()->{1}[0], 5, 'where it is then');

like(kafka('consumer.group.ConsumerGroupCommand', '--delete-offsets', '--group',
    $group, '--topic', "$topic:1"), qr/\Q$topic\E\s+1\s+Successful/,
    'kafka-consumer-groups --delete-offsets');
ok(!lags()->{1} || lags()->{1}[0] eq '-', 'and there is none');

like(kafka('consumer.group.ConsumerGroupCommand', '--delete', '--group',
    $group), qr/successful/, 'kafka-consumer-groups --delete');
unlike(kafka('consumer.group.ConsumerGroupCommand', '--list'),
    qr/^\Q$group\E$/m, 'and it is gone');
like(kafka('consumer.group.ConsumerGroupCommand', '--describe', '--group',
    $group), qr/does not exist|not found/i, 'which a description says');

# ---- configs that change

like(kafka('ConfigCommand', '--alter', '--entity-type', 'topics',
    '--entity-name', $topic, '--add-config', 'retention.ms=7200000'),
    qr/Completed updating config/, 'kafka-configs --alter');
like(kafka('ConfigCommand', '--describe', '--entity-type', 'topics',
    '--entity-name', $topic), qr/retention.ms=7200000/, 'it is set');
like(kafka('ConfigCommand', '--alter', '--entity-type', 'topics',
    '--entity-name', $topic, '--delete-config', 'retention.ms'),
    qr/Completed updating config/, 'kafka-configs --delete-config');
unlike(kafka('ConfigCommand', '--describe', '--entity-type', 'topics',
    '--entity-name', $topic), qr/retention.ms=7200000/, 'it is not');
like(kafka('ConfigCommand', '--alter', '--entity-type', 'topics',
    '--entity-name', $topic, '--add-config', 'retention.ms=soon'),
    qr/InvalidConfigurationException/, 'a value that is none is refused');
like(kafka('TopicCommand', '--alter', '--topic', $topic, '--partitions', 3) .
    kafka('TopicCommand', '--describe', '--topic', $topic),
    qr/PartitionCount: 3/, 'kafka-topics --alter: more partitions');

# ---- records and directories

my $json = nginx()->dir . '/delete.json';
nginx()->write_file($json, <<JSON);
{"version": 1, "partitions": [
    {"topic": "$topic", "partition": 0, "offset": 10}]}
JSON
like(kafka('DeleteRecordsCommand', '--offset-json-file', $json),
    qr/partition: \Q$topic\E-0\s+low_watermark: 10/, 'kafka-delete-records');
like(kafka('GetOffsetShell', '--topic', $topic, '--time', 'earliest'),
    qr/^\Q$topic\E:0:10$/m, 'the log starts there');

like(kafka('LogDirsCommand', '--describe', '--topic-list', $topic),
    qr/"partition":"\Q$topic\E-0","size":[1-9]/, 'kafka-log-dirs');

finish();
