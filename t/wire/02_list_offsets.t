#!/usr/bin/env perl

# ListOffsets: by time, and the special timestamps, in every version.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "list-$$";

$c->create_topic($name, 2);

my $base = now_ms() - 1_000_000;

# Three batches with their greatest timestamp not at the end.
$c->produce($name, 0, batch(timestamp => $base, records => [
    map +{ value => $_, ts => $base + $_ * 1000 }, 0 .. 9]));
$c->produce($name, 0, batch(timestamp => $base + 10_000, codec => 'gzip',
    records => [map +{ value => $_, ts => $base + $_ * 1000 },
        reverse 10 .. 19]));
$c->produce($name, 0, batch(timestamp => $base + 5_000, records => ['late']));


sub at {
    my ($timestamp, %o) = @_;
    my $r = $c->list_offset($name, $o{partition} // 0, $timestamp, %o);

    return join ' ', map $_ // '-', @$r{qw(ErrorCode Offset Timestamp)};
}


for my $v (1 .. 11) {
    is(at(-1, version => $v), '0 21 -1', "v$v: latest");
    is(at(-2, version => $v), '0 0 -1', "v$v: earliest");
    is(at($base + 3500, version => $v), '0 4 ' . ($base + 4000),
        "v$v: by time");
    is(at($base + 99_000, version => $v), '0 -1 -1', "v$v: after the last");
    is(at(0, version => $v), "0 0 $base", "v$v: before the first");
}

is(at($base), "0 0 $base", 'the exact time of the first');
is(at($base + 4000), '0 4 ' . ($base + 4000), 'an exact time');
is(at($base + 15_000), '0 10 ' . ($base + 19_000),
    'the first record at or after a time, in a compressed batch out of order');
is(at($base + 19_000), '0 10 ' . ($base + 19_000), 'the greatest time');
is(at($base + 19_001), '0 -1 -1', 'one more');

is(at(-3, version => 7), '0 10 ' . ($base + 19_000), 'max-timestamp');
is(at(-4, version => 8), '0 0 -1', 'earliest-local');
is(at(-5, version => 9), '0 -1 -1', 'latest-tiered');
is(at(-6, version => 11), '0 -1 -1', 'earliest-pending-upload')
    unless $t->foreign;

is(at(-3, version => 6), '35 -1 -1', 'max-timestamp before v7');
is(at(-4, version => 7), '35 -1 -1', 'earliest-local before v8');
is(at(-7, version => 11), '35 -1 -1', 'an unknown special');

# An empty partition.
is(at(-1, partition => 1), '0 0 -1', 'empty: latest');
is(at(-2, partition => 1), '0 0 -1', 'empty: earliest');
is(at(-3, partition => 1), '0 -1 -1', 'empty: max-timestamp');
is(at($base, partition => 1), '0 -1 -1', 'empty: by time');

is(at(-1, isolation => 1), '0 21 -1', 'read_committed: the last stable offset');

# Epochs and errors.
my $r = $c->list_offset($name, 0, -1, version => 4);
ok($r->{LeaderEpoch} >= 0, 'a real leader epoch');
is($c->list_offset($name, 0, $base + 3500)->{LeaderEpoch} >= 0, 1,
    'by time, too');
is($c->list_offset($name, 0, $base + 99_000)->{LeaderEpoch}, -1,
    'none when there is none');
is($c->list_offset($name, 0, -1, leader_epoch => 1 + $r->{LeaderEpoch})
    ->{ErrorCode}, 75, 'a newer epoch: UNKNOWN_LEADER_EPOCH');
is($c->list_offset($name, 5, -1)->{ErrorCode}, 3, 'an unknown partition');
is($c->list_offset("no-$name", 0, -1)->{ErrorCode}, 3, 'an unknown topic');

# Several partitions in one request, in the order of asking.
$r = $c->call('ListOffsets', 6, { Topics => [{ Name => $name, Partitions => [
    { PartitionIndex => 1, Timestamp => -1 },
    { PartitionIndex => 7, Timestamp => -1 },
    { PartitionIndex => 0, Timestamp => -2 }] }] });
is(join(' ', map "$_->{PartitionIndex}:$_->{ErrorCode}:$_->{Offset}",
    sort { $a->{PartitionIndex} <=> $b->{PartitionIndex} }
    @{ $r->{Topics}[0]{Partitions} }), '0:0:0 1:0:0 7:3:-1', 'several');

# Right behind a producer that did not wait for the disk.
{
    my $topic = "behind-$$";
    $c->create_topic($topic, 1);
    my (@latest, @max);

    for my $n (1 .. 20) {
        my $ts = 1700000000000 + $n;

        # one behind the other, so that no flush can be over in between
        $c->send('Produce', 9, { Acks => 1, TimeoutMs => 60_000,
            TopicData => [{ Name => $topic, PartitionData => [{ Index => 0,
                Records => Kafka::Batch::batch(records => ['a', 'b'],
                    timestamp => $ts) }] }] });
        $c->send('ListOffsets', 7, { ReplicaId => -1, Topics => [{
            Name => $topic, Partitions => [{ PartitionIndex => 0,
                Timestamp => $n % 2 ? -1 : -3 }] }] });
        $c->recv;
        my $p = $c->recv->{Topics}[0]{Partitions}[0];
        $n % 2 ? push @latest, $p->{Offset} : push @max, $p->{Timestamp};
    }

    is("@latest", join(' ', map $_ * 2, grep $_ % 2, 1 .. 20),
        'acks=1: the end is behind what was acknowledged');
    is("@max", join(' ', map 1700000000000 + $_, grep !($_ % 2), 1 .. 20),
        'acks=1: and its timestamp is found');
}

$t->done;
