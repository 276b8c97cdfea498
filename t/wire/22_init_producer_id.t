#!/usr/bin/env perl

# InitProducerId, and what Produce makes of sequences (idempotence).

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "seq-$$";
my %seen;

$c->create_topic($name, 4);

for my $v (0 .. 5) {
    my $r = $c->init_producer(version => $v);
    is("$r->{ErrorCode} $r->{ProducerEpoch}", '0 0', "v$v");
    ok($r->{ProducerId} >= 0 && !$seen{ $r->{ProducerId} }++,
        "v$v: an id of its own");
}

# Every worker gives out others.
for my $worker ($t->foreign ? () : $t->workers) {
    my $x = $t->client(worker => $worker);
    for my $i (1 .. 3) {
        my $id = $x->init_producer->{ProducerId};
        ok(!$seen{$id}++, "worker $worker: an id of its own ($i)");
    }
}

my $tx = $c->init_producer(transactional_id => "tx-$$");
is("$tx->{ErrorCode} $tx->{ProducerEpoch}", '0 0', 'a transactional id');
my $again = $c->init_producer(transactional_id => "tx-$$");
is("$again->{ProducerId} $again->{ProducerEpoch}", "$tx->{ProducerId} 1",
    'again: the same id, the next epoch');
is($c->init_producer(transactional_id => '')->{ErrorCode}, 42,
    'an empty one: INVALID_REQUEST');

for my $v (3 .. 5) {
    my %v = (version => $v, producer_id => $tx->{ProducerId});

    for my $id (undef, "tx-$$") {
        my $who = defined $id ? 'a transactional id' : 'none';
        is($c->init_producer(%v, transactional_id => $id)->{ErrorCode}, 42,
            "v$v: $who, an id without an epoch");
        is($c->init_producer(version => $v, transactional_id => $id,
            producer_epoch => 0)->{ErrorCode}, 42,
            "v$v: $who, an epoch without an id");
    }

    is($c->init_producer(%v, transactional_id => "tx-$$",
        producer_epoch => -2)->{ErrorCode}, $v < 4 ? 47 : 90,
        "v$v: an epoch that there never was");
}

# ---- sequences

my ($pid, $partition) = ($c->init_producer->{ProducerId}, 0);


# Produces n records from a sequence: "code offset".
sub put {
    my ($sequence, $n, %o) = @_;
    my $conn = delete $o{on} || $c;

    my $r = $conn->produce($name, $partition, batch(producer_id => $pid,
        producer_epoch => $o{epoch} // 0, sequence => $sequence,
        records => [map "r$_", 1 .. $n], %o), version => 9);

    return "$r->{ErrorCode} $r->{BaseOffset}";
}


is(put(0, 3), '0 0', 'the first batch');
is(put(3, 2), '0 3', 'the next');
is(put(3, 2), '0 3', 'again: the same offset');
is(put(0, 3), '0 0', 'the one before, again');
is($c->list_offset($name, 0, -1)->{Offset}, 5, 'nothing was written twice');
is(put(9, 1), '45 -1', 'a gap: OUT_OF_ORDER_SEQUENCE_NUMBER');
is(put(3, 1), '45 -1', 'a part of a known batch');
is(put(4, 2), '45 -1', 'an overlap');

put($_, 1) for 5 .. 9;
is(put(9, 1), '0 9', 'the last of five');
is(put(5, 1), '0 5', 'the first of five');
is(put(3, 2), '45 -1', 'the sixth is forgotten');

# On another connection, and in every worker.
for my $worker ($t->foreign ? () : $t->workers) {
    my $x = $t->client(worker => $worker);
    is(put(9, 1, on => $x), '0 9', "a duplicate in worker $worker");
}

# Epochs.
is(put(5, 1, epoch => 1), '45 -1', 'a new epoch must begin at 0');
is(put(0, 1, epoch => 1), '0 10', 'and does');
is(put(10, 1, epoch => 0), '47 -1', 'the old one is INVALID_PRODUCER_EPOCH');
is(put(1, 1, epoch => 1), '0 11', 'the new one goes on');

($pid, $partition) = ($c->init_producer->{ProducerId}, 1);
is(put(0, 1, epoch => -2), '47 -1', 'an epoch that there cannot be');

# No state for the id: any sequence is accepted.
($pid, $partition) = ($c->init_producer->{ProducerId}, 1);
is(put(77, 2), '0 0', 'a first sequence above 0');
is(put(79, 1), '0 2', 'goes on from there');

# The wrap-around, straddled.
($pid, $partition) = ($c->init_producer->{ProducerId}, 2);
is(put(2147483646, 4), '0 0', 'a batch over the wrap-around');
is(put(2147483646, 4), '0 0', 'and its duplicate');
is(put(2, 1), '0 4', 'and the next');
($pid, $partition) = ($c->init_producer->{ProducerId}, 2);
is(put(2147483647, 1), '0 5', 'the last sequence');
is(put(0, 1), '0 6', 'then 0');

# Two producers on one partition do not see each other.
my ($one, $two) = map $c->init_producer->{ProducerId}, 1, 2;
$partition = 3;
for my $i (0 .. 9) {
    for ($one, $two) {
        $pid = $_;
        like(put($i, 1), qr/^0 /, "producer $pid, sequence $i");
    }
}

# Pipelined duplicates: each is answered with the first one's offset.
($pid, $partition) = ($c->init_producer->{ProducerId}, 1);
my $before = $c->list_offset($name, 1, -1)->{Offset};
for (1 .. 10) {
    $c->send('Produce', 9, { Acks => -1, TimeoutMs => 60_000, TopicData => [
        { Name => $name, PartitionData => [{ Index => 1, Records =>
            batch(producer_id => $pid, producer_epoch => 0, sequence => 0) }] }
    ] });
}
is(join(' ', map { my $r = $c->recv->{Responses}[0]{PartitionResponses}[0];
    "$r->{ErrorCode}:$r->{BaseOffset}" } 1 .. 10),
    join(' ', ("0:$before") x 10), 'ten at once');
is($c->list_offset($name, 1, -1)->{Offset}, $before + 1, 'written once');

# The state survives a restart, and a kill of everything.
SKIP: {
    skip 'another broker', 8 if $t->foreign;

    for my $how (qw(stop quit kill_all)) {
        ($pid, $partition) = ($c->init_producer->{ProducerId}, 3);
        my @puts = map put($_, 1), 0 .. 2;
        like($puts[2], qr/^0 /, "before $how");

        $t->$how;
        $t->run;
        $c = $t->client;

        is(put(2, 1), $puts[2], "a duplicate after $how");
        like(put(3, 1), qr/^0 /, "the next sequence after $how");
        is(put(9, 1), '45 -1', "a gap after $how");
        my $id = $c->init_producer->{ProducerId};
        ok(!$seen{$id}++ && $id > $pid, "a new id after $how");
    }
}

$t->done;
