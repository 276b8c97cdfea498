#!/usr/bin/env perl

# The admin's calls: partitions added, records deleted, configs altered, log
# directories and config resources listed.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(workers => 3)->run;
my @w = $t->workers;
my ($a, $b) = map $t->client(worker => $_), @w[0, 1];
my $name = "admin-$$";

is($a->create_topic($name, 2, 'retention.ms' => 3600000)->{ErrorCode}, 0,
    'a topic');

# --- CreatePartitions

sub grow {
    my ($v, $count, %o) = @_;
    return $a->call('CreatePartitions', $v, { Topics => [{
        Name => $o{topic} // $name, Count => $count,
        Assignments => $o{assign} }], TimeoutMs => 60_000,
        ValidateOnly => $o{validate} ? 1 : 0 })->{Results}[0];
}

my $count = 2;
for my $v (0 .. 3) {
    $count++;
    is(grow($v, $count, validate => 1)->{ErrorCode}, 0, "v$v: would be taken");
    is(grow($v, $count)->{ErrorCode}, 0, "v$v: one more");
    is($b->produce($name, $count - 1, batch())->{ErrorCode}, 0,
        "v$v: another worker appends to it at once");
}

is(grow(3, $count)->{ErrorCode}, 37, 'not more');
is(grow(3, 1)->{ErrorCode}, 37, 'fewer');
is(grow(3, $count + 1, topic => 'none')->{ErrorCode}, 3, 'no such topic');
is(grow(3, $count + 2, assign => [{ BrokerIds => [1] }])->{ErrorCode}, 39,
    'too few assignments');
is(grow(3, $count + 1, assign => [{ BrokerIds => [2] }])->{ErrorCode}, 39,
    'another broker');
is(grow(3, 20000)->{ErrorCode}, 44, 'more than one request may');
is(grow(3, 9000)->{ErrorCode}, 44, 'more than the zone has room for');
like(grow(3, 9000)->{ErrorMessage}, qr/zone/, 'and the answer says what to do');
is(grow(3, $count + 1)->{ErrorCode}, 0, 'a refusal leaves nothing behind');
my $r = $a->call('CreatePartitions', 3, { Topics => [
    map +{ Name => $name, Count => 30, Assignments => undef }, 1, 2] });
is_deeply([map $_->{ErrorCode}, @{ $r->{Results} }], [42, 42], 'named twice');

# --- DeleteRecords

for my $i (1 .. 10) {
    $a->produce($name, 0, batch(records => ["r$i"]));
}

sub trim {
    my ($v, $offset, %o) = @_;
    my $p = $a->call('DeleteRecords', $v, { Topics => [{
        Name => $o{topic} // $name, Partitions => [{
        PartitionIndex => $o{partition} // 0, Offset => $offset }] }],
        TimeoutMs => 60_000 })->{Topics}[0]{Partitions}[0];
    return [@$p{qw(ErrorCode LowWatermark)}];
}

is_deeply(trim($_, $_ + 2), [0, $_ + 2], "DeleteRecords v$_") for 0 .. 2;
is_deeply(trim(2, 1), [0, 4], 'below the start: nothing');
is_deeply(trim(2, 11), [1, -1], 'past the end');
is_deeply(trim(2, 1, topic => 'none'), [3, -1], 'no such topic');
is_deeply(trim(2, 1, partition => 99), [3, -1], 'no such partition');
is($b->fetch($name, 0, 3)->{ErrorCode}, 1, 'another worker: out of range');
is($b->fetch($name, 0, 4)->{LogStartOffset}, 4, 'and the new start');
is($b->list_offset($name, 0, -2)->{Offset}, 4, 'earliest');
is_deeply(trim(2, -1), [0, 10], 'everything');

# --- configs

sub alter {
    my ($v, $type, $resource, @configs) = @_;
    my $r = $a->call('IncrementalAlterConfigs', $v, { Resources => [{
        ResourceType => $type, ResourceName => $resource, Configs => [
        map +{ Name => $_->[0], ConfigOperation => $_->[1],
            Value => $_->[2] }, @configs] }], ValidateOnly => 0 });
    return $r->{Responses}[0];
}

sub config {
    my ($c, $type, $resource, $key) = @_;
    my $r = $c->call('DescribeConfigs', 4, { Resources => [{
        ResourceType => $type, ResourceName => $resource,
        ConfigurationKeys => [$key] }] });
    my $e = $r->{Results}[0]{Configs}[0];
    return $e && [@$e{qw(Value ConfigSource)}];
}

for my $v (0, 1) {
    is(alter($v, 2, $name, ['retention.ms', 0, 7000 + $v])->{ErrorCode}, 0,
        "IncrementalAlterConfigs v$v");
    is_deeply(config($b, 2, $name, 'retention.ms'), [7000 + $v, 1],
        "v$v: another worker shows it");
}

# What is wrong with a change.
for my $case ([42, 'configs of all topics', 2, '', 'retention.ms', 0, 1],
    [17, 'a bad name', 2, '..', 'retention.ms', 0, 1],
    [3, 'an unknown topic', 2, "no-$name", 'retention.ms', 0, 1],
    [40, 'an unknown config', 2, $name, 'bogus', 0, 1],
    [0, 'an unknown config goes', 2, $name, 'bogus', 1, undef],
    [40, 'a value', 2, $name, 'retention.ms', 0, 'x'],
    [42, 'a value of a broker', 4, '', 'message.max.bytes', 0, 'x'],
    [42, 'an interval of client metrics', 16, 'm', 'interval.ms', 0, 99],
    [40, 'their pattern', 16, 'm', 'match', 0, 'client_id'],
    [42, 'an unknown config of client metrics', 16, 'm', 'bogus', 0, 1],
    [42, 'client metrics without a name', 16, '', 'interval.ms', 0, 1000])
{
    my ($code, $label, $type, $resource, @config) = @$case;
    is(alter(1, $type, $resource, \@config)->{ErrorCode}, $code, $label);
}

is(alter(1, 2, $name, ['cleanup.policy', 2, 'compact'])->{ErrorCode}, 0,
    'append to a list');
is_deeply(config($b, 2, $name, 'cleanup.policy'), ['delete,compact', 1],
    'appended to the default');
is(alter(1, 2, $name, ['cleanup.policy', 3, 'delete'])->{ErrorCode}, 0,
    'subtract');
is_deeply(config($b, 2, $name, 'cleanup.policy'), ['compact', 1], 'and gone');
is($b->produce($name, 1, batch())->{ErrorCode}, 87,
    'a compacted topic wants keys, in another worker, too');
is(alter(1, 2, $name, ['cleanup.policy', 1, undef])->{ErrorCode}, 0,
    'delete');
is_deeply(config($b, 2, $name, 'cleanup.policy'), ['delete', 5],
    'back to the default');
is($b->produce($name, 1, batch())->{ErrorCode}, 0, 'and taken again');

is(alter(1, 2, $name, ['max.message.bytes', 0, 100])->{ErrorCode}, 0,
    'smaller batches');
is($b->produce($name, 1, batch(records => ['x' x 200]))->{ErrorCode}, 10,
    'are in force at once');
alter(1, 2, $name, ['max.message.bytes', 1, undef]);

is(alter(1, 2, $name, ['no.such', 0, 1])->{ErrorCode}, 40, 'unknown name');
is(alter(1, 2, $name, ['retention.ms', 0, 'x'])->{ErrorCode}, 40, 'bad value');
is(alter(1, 2, $name, ['retention.ms', 0, undef])->{ErrorCode}, 42,
    'no value');
is(alter(1, 2, $name, ['retention.ms', 2, 5])->{ErrorCode}, 40, 'no list');
is(alter(1, 2, $name, ['retention.ms', 9, 5])->{ErrorCode}, 42,
    'unknown operation');
is(alter(1, 2, $name, ['retention.ms', 0, 5], ['retention.ms', 0, 6])
    ->{ErrorCode}, 42, 'named twice');
is(alter(1, 2, 'none', ['retention.ms', 0, 5])->{ErrorCode}, 3,
    'no such topic');
is(alter(1, 4, '7', ['log.retention.ms', 0, 5])->{ErrorCode}, 42,
    'another broker');
is(alter(1, 8, 'm', ['x', 0, 5])->{ErrorCode}, 42, 'another resource');
is_deeply(config($b, 2, $name, 'retention.ms'), [7001, 1],
    'what was refused changed nothing');

is(alter(1, 4, '1', ['log.segment.bytes', 0, 2000000])->{ErrorCode}, 0,
    'a config of the broker');
is_deeply(config($b, 2, $name, 'segment.bytes'), [2000000, 2],
    'is that of its topics');

# the older call replaces all

for my $v (0 .. 2) {
    $r = $a->call('AlterConfigs', $v, { Resources => [{ ResourceType => 2,
        ResourceName => $name, Configs => [{ Name => 'segment.ms',
        Value => 100000 + $v }] }], ValidateOnly => 0 });
    is($r->{Responses}[0]{ErrorCode}, 0, "AlterConfigs v$v");
    is_deeply(config($b, 2, $name, 'segment.ms'), [100000 + $v, 1],
        "AlterConfigs v$v: set");
}
is_deeply(config($b, 2, $name, 'retention.ms'), [604800000, 5],
    'what was not listed is the default');

# --- after a restart

alter(1, 2, $name, ['retention.bytes', 0, 12345]);
$_->close for $a, $b;
$t->kill_all;
$t->run;
($a, $b) = map $t->client, 1, 2;
is_deeply(config($a, 2, $name, 'retention.bytes'), [12345, 1],
    'kept over kill -9: a topic\'s');
is_deeply(config($a, 4, '1', 'log.segment.bytes'), [2000000, 2],
    'and the broker\'s');
is_deeply(config($a, 4, '', 'log.segment.bytes'), [2000000, 3],
    'which is that of all brokers');
is_deeply([config($a, 4, '', 'num.partitions')], [undef],
    'where only those are that were set so');
is($a->list_offset($name, 0, -2)->{Offset}, 10, 'and the log start');

# --- lists

for my $v (1 .. 5) {
    $r = $a->call('DescribeLogDirs', $v, { Topics => undef });
    my $d = $r->{Results}[0];
    is($d->{LogDir}, $t->data, "DescribeLogDirs v$v");
    my ($mine) = grep { $_->{Name} eq $name } @{ $d->{Topics} };
    is(scalar @{ $mine->{Partitions} }, $count + 1, "v$v: every partition");
    ok((grep { $_->{PartitionSize} > 0 } @{ $mine->{Partitions} }),
        "v$v: sizes");
    cmp_ok($d->{TotalBytes}, '>', 0, "v$v: the disk's size") if $v >= 4;
}

$r = $a->call('DescribeLogDirs', 4, { Topics => [
    { Topic => $name, Partitions => [1, 99] }, { Topic => 'none',
      Partitions => [0] }] });
is_deeply([map { $_->{PartitionIndex} }
    @{ $r->{Results}[0]{Topics}[0]{Partitions} }], [1], 'only those asked for');

$r = $a->call('ListConfigResources', 1, { ResourceTypes => [2, 4] });
is_deeply([sort map "$_->{ResourceType} $_->{ResourceName}",
    @{ $r->{ConfigResources} }], ["2 $name", '4 1'], 'ListConfigResources');
is_deeply($a->call('ListConfigResources', 0, {})->{ConfigResources}, [],
    'ListConfigResources v0: no client metrics');

$r = $a->call('IncrementalAlterConfigs', 1, { Resources => [{
    ResourceType => 16, ResourceName => 'm1', Configs => [
        { Name => 'interval.ms', ConfigOperation => 0, Value => '60000' },
        { Name => 'match', ConfigOperation => 0,
            Value => 'client_id=a.*' }] }] });
is($r->{Responses}[0]{ErrorCode}, 0, 'a subscription of client metrics');
is_deeply([map "$_->{ResourceName}",
    @{ $a->call('ListConfigResources', 0, {})->{ConfigResources} }], ['m1'],
    'ListConfigResources v0: it');
is_deeply([map "$_->{ResourceType} $_->{ResourceName}",
    @{ $a->call('ListConfigResources', 1, { ResourceTypes => [16] })
        ->{ConfigResources} }], ['16 m1'], 'ListConfigResources v1: it');
is(scalar(grep $_->{ResourceType} == 16,
    @{ $a->call('ListConfigResources', 1, {})->{ConfigResources} }), 1,
    'and among all');
is(join(' ', map "$_->{Name}=$_->{Value}", grep $_->{ConfigSource} == 7,
    @{ $a->call('DescribeConfigs', 4, { Resources => [{ ResourceType => 16,
        ResourceName => 'm1', ConfigurationKeys => undef }] })
        ->{Results}[0]{Configs} }), 'interval.ms=60000 match=client_id=a.*',
    'DescribeConfigs of it');

is($a->call('ListConfigResources', 1, { ResourceTypes => [99] })->{ErrorCode},
    35, 'an unknown type');

$t->done;
