#!/usr/bin/env perl

# Transactions by hand, of both client generations, over several workers: what
# readers see, staged offsets, fencing, restarts between the steps, hanging ones.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

our %config;                            # caching.t has its own

my $t = Test::KafkaNginx->new(workers => 3, config => {
    'transaction.abort.timed.out.transaction.cleanup.interval.ms' => 200,
    %config })->run;
my @c = map $t->client(worker => $_), $t->workers;
my $topic = "txn-$$";
my $n = 0;

$c[0]->create_topic($topic, 3);
my $id = $c[0]->topic_id($topic);

# --- version 1: partitions are added by a request of their own

for my $v (0 .. 3) {
    my $tx = init("one-$v");
    is(add($tx, 0, version => $v), 0, "AddPartitionsToTxn v$v");
    is(put($tx, 0, "c$v", version => 9)->{ErrorCode}, 0, "v$v: a record");
    is(last_stable(0), end(0) - 1, "v$v: it is not stable");
    is(finish($tx, 1, version => $v), 0, "EndTxn v$v: commit");
    is(last_stable(0), end(0), "v$v: stable, for another worker");

    add($tx, 0, version => $v);
    put($tx, 0, "a$v", version => 9);
    is(finish($tx, 0, version => $v), 0, "EndTxn v$v: abort");
    is(finish($tx, 1, version => $v), 48, "EndTxn v$v: too late to commit");
}

is_deeply([committed(0)], [map "c$_", 0 .. 3], 'read_committed sees commits');
is_deeply([all(0)], [map { ("c$_", "a$_") } 0 .. 3], 'read_uncommitted all');

is(put(init('none'), 0, 'x', version => 9)->{ErrorCode}, 48,
    'a partition that was not added: v9');
is(put(init('none'), 0, 'x', version => 11)->{ErrorCode}, 120,
    'a partition that was not added: v11');
is(put({ %{ init('none') }, name => undef }, 0, 'x', version => 9)
    ->{ErrorCode}, 53, 'a transactional batch without an id');

# --- version 2: partitions are added by the first batch, epochs by each end

my $tx = init('two');

for my $i (0 .. 2) {
    is(put($tx, $_, "t$i.$_", version => 13)->{ErrorCode}, 0,
        "round $i: partition $_") for 1, 2;
    my $r = end_txn($tx, 1);
    is_deeply([@$r{qw(ErrorCode ProducerEpoch)}], [0, $i + 1],
        "round $i: the epoch is raised");
    my $again = end_txn($tx, 1);
    is_deeply([@$again{qw(ErrorCode ProducerEpoch)}], [0, $i + 1],
        "round $i: asked again, the same answer");
    @$tx{qw(epoch seq)} = ($i + 1, {});
}

is_deeply([committed(1)], [map "t$_.1", 0 .. 2], 'all committed');
is(put({ %$tx, epoch => 1 }, 1, 'old', version => 13)->{ErrorCode}, 47,
    'an older epoch is refused');
is(put({ %$tx, epoch => 9 }, 1, 'new', version => 13)->{ErrorCode}, 47,
    'and one that nobody gave out');

# --- a zombie

my $old = init('zombie');
put($old, 1, 'lost', version => 13);
my $r = $c[1]->init_producer(transactional_id => "zombie-$$");
is($r->{ErrorCode}, 51, 'its successor is told to wait');
my $new = init('zombie');
cmp_ok($new->{epoch}, '>', $old->{epoch}, 'and has a later epoch');
is(put($old, 1, 'more', version => 13)->{ErrorCode}, 47,
    'the zombie is fenced');
is(end_txn($old, 1)->{ErrorCode}, 90, 'also when it wants to commit');
ok(!(grep { $_ eq 'lost' } committed(1)), 'nothing of it is visible');

# --- offsets

my $g = "txn-group-$$";
$tx = init('offsets');
is(stage($tx, $g, 5), 0, 'offsets are staged');
is(offset($g), -1, 'and not visible');
is(offset($g, stable => 1), 'unstable', 'nor stable');
put($tx, 1, 'with offsets', version => 13);
end_txn($tx, 1);
is(offset($g), 5, 'they are with the commit, for another worker');
@$tx{qw(epoch seq)} = ($tx->{epoch} + 1, {});
stage($tx, $g, 9);
end_txn($tx, 0);
is(offset($g, stable => 1), 5, 'an abort drops them');

# --- restarts between the steps

my $round = 0;

for my $how ('kill -9 of a worker', 'kill -9 of all') {
    for my $commit (1, 0) {
        $tx = init('restart');
        my ($value, $group) = ("r$round", "$g-$round");
        $round++;
        put($tx, 2, $value, version => 13);
        stage($tx, $group, 7);
        restart($how);
        is(offset($group, stable => 1), 'unstable',
            "$how: offsets are still pending");
        ok(!(grep { $_ eq $value } committed(2)),
            "$how: data is still hidden");
        is(end_txn($tx, $commit)->{ErrorCode}, 0, "$how: it ends");
        is(offset($group, stable => 1), $commit ? 7 : -1,
            "$how: offsets, commit $commit");
        is(scalar(grep { $_ eq $value } committed(2)), $commit,
            "$how: data, commit $commit");
    }
}

# --- a timeout

$tx = init('slow', timeout_ms => 500);
put($tx, 0, 'late', version => 13);
ok(wait_until(sub { last_stable(0) == end(0) }), 'a timeout aborts it');
ok(!(grep { $_ eq 'late' } committed(0)), 'and hides its data');
is(put($tx, 0, 'later', version => 13)->{ErrorCode}, 47,
    'the producer is fenced');

# --- seen and ended by the admin

$tx = init('seen');
put($tx, 1, 'open', version => 13);

$r = $c[0]->call('ListTransactions', 2, { DurationFilter => -1 });
my ($x) = grep { $_->{TransactionalId} eq $tx->{name} }
    @{ $r->{TransactionStates} };
is($x->{TransactionState}, 'Ongoing', 'ListTransactions');

$r = $c[1]->call('DescribeTransactions', 0,
    { TransactionalIds => [$tx->{name}, 'nobody'] });
is_deeply([map $_->{ErrorCode}, @{ $r->{TransactionStates} }], [0, 105],
    'DescribeTransactions');
is_deeply($r->{TransactionStates}[0]{Topics}[0]{Partitions}, [1],
    'its partitions');

sub producer {
    my $r = $c[2]->call('DescribeProducers', 0, { Topics => [
        { Name => $topic, PartitionIndexes => [1] }] });
    my ($p) = grep { $_->{ProducerId} == $tx->{id} }
        @{ $r->{Topics}[0]{Partitions}[0]{ActiveProducers} };
    return $p;
}

cmp_ok(producer()->{CurrentTxnStartOffset}, '>=', 0,
    'DescribeProducers: it is open');

is(join(' ', map { my $x = $_; map "$x->{Name}:$_->{ErrorCode}",
    grep length $_->{ErrorMessage}, @{ $x->{Partitions} } }
    @{ $c[1]->call('DescribeProducers', 0, { Topics => [
        map +{ Name => $_, PartitionIndexes => [99] }, $topic, 'a b', '' ] })
        ->{Topics} }), "$topic:3 a b:17 :17", 'of partitions that are not');

sub mark {
    my ($c, $epoch, $coordinator) = @_;
    return $c->call('WriteTxnMarkers', 1, { Markers => [{
        ProducerId => $tx->{id}, ProducerEpoch => $epoch,
        TransactionResult => 0, CoordinatorEpoch => $coordinator,
        Topics => [{ Name => $topic, PartitionIndexes => [1, 9] }] }] })
        ->{Markers}[0]{Topics}[0]{Partitions};
}

is_deeply([map $_->{ErrorCode}, @{ mark($c[1], $tx->{epoch}, 5) }], [0, 3],
    'WriteTxnMarkers ends it in the partition');
is(producer()->{CurrentTxnStartOffset}, -1, 'it is not open any more');
is(last_stable(1), end(1), 'and readers go on');
is(mark($c[1], $tx->{epoch} - 1, 5)->[0]{ErrorCode}, 47, 'an older epoch');
is(mark($c[1], $tx->{epoch}, 4)->[0]{ErrorCode}, 52,
    'an older coordinator');

$t->done;


# A producer of the test: its name is made unique.
sub init {
    my ($name, %o) = @_;
    my $r;

    for (1 .. 600) {
        $r = $c[0]->init_producer(transactional_id => "$name-$$", %o);
        last if $r->{ErrorCode} != 51;
        sleep 0.05;
    }

    is($r->{ErrorCode}, 0, "$name: a producer");

    return { name => "$name-$$", id => $r->{ProducerId},
        epoch => $r->{ProducerEpoch}, seq => {} };
}

sub add {
    my ($tx, $p, %o) = @_;
    my $r = $c[1]->call('AddPartitionsToTxn', $o{version}, {
        V3AndBelowTransactionalId => $tx->{name},
        V3AndBelowProducerId => $tx->{id},
        V3AndBelowProducerEpoch => $tx->{epoch},
        V3AndBelowTopics => [{ Name => $topic, Partitions => [$p] }] });
    return $r->{ResultsByTopicV3AndBelow}[0]{ResultsByPartition}[0]
        {PartitionErrorCode};
}

# One record, by one worker after the other.
sub put {
    my ($tx, $p, $value, %o) = @_;
    my $c = $c[$n++ % @c];
    my $r = $c->produce($o{version} >= 13 ? $id : $topic, $p,
        batch(records => [$value], transactional => 1,
            producer_id => $tx->{id}, producer_epoch => $tx->{epoch},
            sequence => $tx->{seq}{$p} // 0),
        version => $o{version}, transactional_id => $tx->{name});
    $tx->{seq}{$p}++ if $r->{ErrorCode} == 0;
    return $r;
}

sub end_txn {
    my ($tx, $commit, %o) = @_;
    my $r;

    for (1 .. 600) {
        $r = $c[$n++ % @c]->call('EndTxn', $o{version} // 5, {
            TransactionalId => $tx->{name}, ProducerId => $tx->{id},
            ProducerEpoch => $tx->{epoch}, Committed => $commit });
        last if $r->{ErrorCode} != 51;
        sleep 0.05;
    }

    return $r;
}

sub finish { return end_txn(@_)->{ErrorCode} }

sub stage {
    my ($tx, $g, $offset) = @_;
    return $c[$n++ % @c]->call('TxnOffsetCommit', 5, { GroupId => $g,
        TransactionalId => $tx->{name}, ProducerId => $tx->{id},
        ProducerEpoch => $tx->{epoch}, GenerationIdOrMemberEpoch => -1,
        MemberId => '', Topics => [{ Name => $topic, Partitions => [{
        PartitionIndex => 0, CommittedOffset => $offset,
        CommittedMetadata => '' }] }] })->{Topics}[0]{Partitions}[0]{ErrorCode};
}

sub offset {
    my ($g, %o) = @_;
    my $p = $c[$n++ % @c]->call('OffsetFetch', 7, { GroupId => $g,
        RequireStable => $o{stable} ? 1 : 0, Topics => [{ Name => $topic,
        PartitionIndexes => [0] }] })->{Topics}[0]{Partitions}[0];
    return $p->{ErrorCode} == 88 ? 'unstable' : $p->{CommittedOffset};
}

sub end { return $c[2]->list_offset($topic, $_[0], -1)->{Offset} }

sub last_stable {
    my ($p) = @_;
    return $c[$n++ % @c]->fetch($topic, $p, end($p), isolation => 1)
        ->{LastStableOffset};
}

# Values that a consumer would hand to its application.
sub committed {
    my ($p) = @_;
    my $r = $c[$n++ % @c]->fetch($topic, $p, 0, isolation => 1);
    my @aborted = @{ $r->{AbortedTransactions} };
    my (%in, @out);

    for my $b (batches($r->{Records})) {
        while (@aborted && $aborted[0]{FirstOffset} <= $b->{base_offset}) {
            $in{ (shift @aborted)->{ProducerId} } = 1;
        }
        if ($b->{attributes} & 32) {
            delete $in{ $b->{producer_id} };
        } elsif (!$in{ $b->{producer_id} }) {
            push @out, map $_->{value}, records($b);
        }
    }

    return @out;
}

sub all {
    my ($p) = @_;
    return map { map $_->{value}, records($_) }
        grep { !($_->{attributes} & 32) }
        batches($c[0]->fetch($topic, $p, 0)->{Records});
}

sub restart {
    my ($how) = @_;

    $_->close for @c;

    if ($how =~ /all/) {
        $t->kill_all;
        $t->run;
    } else {
        $t->kill_worker(($t->workers)[0]);
        $t->wait_ready;
    }

    @c = map $t->client, 0 .. 2;
}

sub wait_until {
    my ($ok) = @_;
    my $end = time + 30;

    while (time < $end) {
        return 1 if $ok->();
        sleep 0.1;
    }

    return 0;
}
