#!/usr/bin/env perl

# Transactions that are decided, but cannot be carried out as a partition of
# theirs is offline, are in nobody's way: one that runs out of its time, and has
# no part in that partition, is aborted, and its id has a successor.

use strict;
use warnings;

use Test::More;

use Kafka::Batch qw(batch);
use Test::KafkaNginx qw(wait_for);

my $stuck = 150;
my $t = Test::KafkaNginx->new(workers => 1, slow_disk => 1, config => {
    'transaction.abort.timed.out.transaction.cleanup.interval.ms' => 200 })
    ->run;


sub begin {
    my ($name, $topic, %o) = @_;
    my $c = $t->client;
    my $r = $c->init_producer(transactional_id => $name, %o);
    my $x = { TransactionalId => $name, ProducerId => $r->{ProducerId},
        ProducerEpoch => $r->{ProducerEpoch} };

    $r = $c->produce($c->topic_id($topic), 0, batch(records => [$name],
        transactional => 1, producer_id => $x->{ProducerId},
        producer_epoch => $x->{ProducerEpoch}, sequence => 0),
        version => 13, transactional_id => $name);

    return $r->{ErrorCode} == 0 ? $x : undef;
}


sub state_of {
    return @{ $t->client->call('DescribeTransactions', 0,
        { TransactionalIds => [@_] })->{TransactionStates} };
}


# How often the journal has the name of one of them.
sub told {
    return scalar map /stuck-\d/g, map $t->read_file($_),
        glob $t->data . '/@journal-0/*.log';
}


$t->client->create_topic($_) for 'bad', 'good';
my @x = map begin("stuck-$_", 'bad'), 1 .. $stuck;
is(@x, $stuck, 'transactions');

# All are decided, and none is carried out.
$t->hold_sync;
$t->journal_rests;
my $before = told();
my @c = map $t->client, @x;
$c[$_]->send('EndTxn', 5, { %{ $x[$_] }, Committed => 1 }) for 0 .. $#x;
ok(wait_for(sub { told() >= $before + $stuck }, 60), 'all ends are decided');
$t->kill_all;
$t->release_sync;

# A bad batch with good ones behind it is not cut off.
my $log = $t->data . '/bad-0/00000000000000000000.log';
my $bytes = $t->read_file($log);
substr($bytes, 70, 1) ^= "\x01";
$t->write_file($log, $bytes);

$t->run;
is($t->client->produce('bad', 0, batch())->{ErrorCode}, 56,
    'their partition is offline');
is((grep $_->{TransactionState} eq 'PrepareCommit',
    state_of(map "stuck-$_", 1 .. $stuck)), $stuck, 'all of them are stuck');

# (its time may be over before it has written anything)
my $late;
ok(wait_for(sub { $late = begin('late', 'good', timeout_ms => 500) }, 60),
    'another one begins');
ok(wait_for(sub { (state_of('late'))[0]{TransactionState} eq 'CompleteAbort' },
    60), 'and is aborted when its time is over');
my $p = $t->client->fetch('good', 0, 0, isolation => 1);
is($p->{LastStableOffset}, $p->{HighWatermark}, 'its readers go on');

my $old = begin('old', 'good');
ok($old, 'yet another one');
is($t->client->init_producer(transactional_id => 'old')->{ErrorCode}, 51,
    'its successor has to wait');
ok(wait_for(sub { $t->client->init_producer(transactional_id => 'old')
    ->{ErrorCode} == 0 }, 60), 'but not for ever');

# The partition can be given up.
$t->client->delete_topic('bad');
ok(wait_for(sub { !grep $_->{TransactionState} ne 'CompleteCommit',
    state_of(map "stuck-$_", 1 .. $stuck) }, 60),
    'without the partition they are carried out');

$t->done;
