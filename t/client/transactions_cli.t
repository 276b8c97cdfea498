#!/usr/bin/env perl

# kafka-transactions.sh: list, describe, describe-producers, find-hanging,
# abort, forceTerminateTransaction; and what DumpLogSegments sees of it.
#
# A transaction can hang in a partition only if that takes a batch which nobody
# has verified: so does this broker, at a fault point.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaClient;
use Test::KafkaFault;
use Test::KafkaProgram;

tool('java', 'mvn');
my $jars = jars('tools.xml');

my $t = Test::KafkaFault->new(workers => 2)->run;
my $tools = Test::KafkaProgram->start(name => 'tools',
    log => $t->dir . '/tools.err',
    command => [java($jars), here() . '/java/Tools.java']);
my $c = $t->client;
my $topic = "hang-$$";
my $hour_ago = now_ms() - 3600_000;

$c->create_topic($topic, 3);


# What a tool prints; all of them run in one JVM.
sub tool_of_kafka {
    my @before = $tools->lines;
    my @lines;

    $tools->say("@_");
    $tools->until(sub {
        @lines = $tools->lines;
        splice @lines, 0, @before;
        return @lines && $lines[-1] =~ /^exit \d+$/ || $tools->ended;
    }, 120);

    return join '', map "$_\n", @lines;
}

sub transactions {
    return tool_of_kafka('TransactionsCommand', '--bootstrap-server',
        '127.0.0.1:' . $t->port, @_);
}

# The tool's table, a hash for each line.
sub table {
    my ($head, @lines) = grep !/^(?:exit \d+)?$/, split /\n/,
        transactions(@_);
    my @names = split ' ', $head // '';

    return map { my %row; @row{@names} = split; \%row } @lines;
}

# A producer with a record in a partition; its time is an hour ago.
sub producer {
    my ($name, $partition, %o) = @_;

    my $r = $c->init_producer(transactional_id => $name);
    my %p = (id => $r->{ProducerId}, epoch => $r->{ProducerEpoch});

    if (!$o{hangs}) {
        $c->call('AddPartitionsToTxn', 3, {
            V3AndBelowTransactionalId => $name,
            V3AndBelowProducerId => $p{id},
            V3AndBelowProducerEpoch => $p{epoch}, V3AndBelowTopics => [{
                Name => $topic, Partitions => [$partition] }] });
    }

    $t->arm('log.txn.unverified=1') if $o{hangs};
    $r = $c->produce($topic, $partition, batch(records => [$name],
        timestamp => $hour_ago, transactional => 1, producer_id => $p{id},
        producer_epoch => $p{epoch}, sequence => 0),
        transactional_id => $name);
    $t->disarm;

    is($r->{ErrorCode}, 0, "$name: a record in partition $partition");
    $p{offset} = $r->{BaseOffset};

    return \%p;
}

sub last_stable {
    return $c->list_offset($topic, $_[0], -1, isolation => 1)->{Offset};
}

sub end { return $c->list_offset($topic, $_[0], -1)->{Offset} }


# --- one that is under way

my $open = producer('open', 0);

my ($row) = grep { $_->{TransactionalId} eq 'open' } table('list');
is_deeply([@{ $row // {} }{qw(Coordinator ProducerId TransactionState)}],
    [1, $open->{id}, 'Ongoing'], 'list');
is(scalar(() = table('list', '--transactional-id-pattern', 'op.*')), 1,
    'list by pattern');
is(scalar(() = table('list', '--transactional-id-pattern', 'no.*')), 0,
    'list by another pattern');
is(scalar(() = table('list', '--duration-filter', 3600_000)), 0,
    'list by duration');

($row) = table('describe', '--transactional-id', 'open');
is_deeply([@{ $row // {} }{qw(CoordinatorId TransactionalId ProducerId
    ProducerEpoch TransactionState TransactionTimeoutMs TopicPartitions)}],
    [1, 'open', $open->{id}, $open->{epoch}, 'Ongoing', 600_000, "$topic-0"],
    'describe');
like(transactions('describe', '--transactional-id', 'nobody'),
    qr/TransactionalIdNotFoundException|could not be found/i,
    'describe: there is no such id');

($row) = table('describe-producers', '--topic', $topic, '--partition', 0);
is_deeply([@{ $row // {} }{qw(ProducerId ProducerEpoch LastSequence
    LastTimestamp CurrentTransactionStartOffset)}],
    [$open->{id}, $open->{epoch}, 0, $hour_ago, $open->{offset}],
    'describe-producers');
is(scalar(() = table('find-hanging', '--broker-id', 1)), 0,
    'find-hanging: it does not hang, old as it seems to be');

# --- two that hang: the coordinator knows the producers, no transaction

my $lost = producer('lost', 1, hangs => 1);
my $more = producer('more', 2, hangs => 1);

my @rows = table('find-hanging', '--broker-id', 1);
is_deeply([map [@$_{qw(Topic Partition ProducerId ProducerEpoch StartOffset
    LastTimestamp)}], sort { $a->{Partition} <=> $b->{Partition} } @rows],
    [[$topic, 1, $lost->{id}, $lost->{epoch}, $lost->{offset}, $hour_ago],
     [$topic, 2, $more->{id}, $more->{epoch}, $more->{offset}, $hour_ago]],
    'find-hanging on the broker');
is_deeply([map $_->{Partition}, table('find-hanging', '--topic', $topic,
    '--partition', 2)], [2], 'find-hanging in a partition');
is(scalar(() = table('find-hanging', '--broker-id', 1,
    '--max-transaction-timeout', 120)), 0, 'find-hanging: not old enough');
is(last_stable(1), $lost->{offset}, 'readers wait for it');

unlike(transactions('abort', '--topic', $topic, '--partition', 1,
    '--start-offset', $lost->{offset}), qr/rror|Exception|Could not/,
    'abort by start offset');
is(last_stable(1), end(1), 'readers go on');
is_deeply([map $_->{Partition}, table('find-hanging', '--broker-id', 1)], [2],
    'the other one is left');

unlike(transactions('abort', '--topic', $topic, '--partition', 2,
    '--producer-id', $more->{id}, '--producer-epoch', $more->{epoch},
    '--coordinator-epoch', 0), qr/rror|Exception|Could not/,
    'abort by producer');
is(scalar(() = table('find-hanging', '--broker-id', 1)), 0, 'none is left');
like(transactions('abort', '--topic', $topic, '--partition', 2,
    '--start-offset', $more->{offset}), qr/Could not find any/,
    'abort of one that is over');

# --- the end of the one that is under way

unlike(transactions('forceTerminateTransaction', '--transactionalId', 'open'),
    qr/rror|Exception/, 'forceTerminateTransaction');
ok($t->insist(sub { last_stable(0) == end(0) }), 'it is over');
is_deeply({ map { @$_{qw(TransactionalId TransactionState)} } table('list') },
    { open => 'Empty', lost => 'Empty', more => 'Empty' },
    'list: nothing is under way');

# --- on disk

for my $case ([0, $open, $open->{epoch} + 1], [1, $lost, $lost->{epoch}],
    [2, $more, $more->{epoch}])
{
    my ($p, $of, $epoch) = @$case;
    my $base = $t->data . "/$topic-$p/" . '0' x 20;

    my $text = tool_of_kafka('DumpLogSegments', '--deep-iteration', '--files',
        "$base.log");
    like($text, qr/^baseOffset: 1 .*producerId: $of->{id} producerEpoch: $epoch/m,
        "partition $p: the marker's batch") or diag($text);
    like($text, qr/ isTransactional: true isControl: true /,
        "partition $p: a control batch");
    like($text, qr/^\| offset: 1 .*endTxnMarker: ABORT coordinatorEpoch: 0$/m,
        "partition $p: the marker");

    $text = tool_of_kafka('DumpLogSegments', '--files', "$base.txnindex");
    like($text, qr/producerId: $of->{id} firstOffset: 0 lastOffset: 1 /,
        "partition $p: the aborted transaction in its index") or diag($text);
}

# --- after a restart nothing hangs

my $again = producer('again', 1, hangs => 1);
is(last_stable(1), $again->{offset}, 'one more hangs');
$t->kill_all;
$t->run;
$c = $t->client;
is(last_stable(1), end(1), 'a restart ends it');
is(scalar(() = table('find-hanging', '--broker-id', 1)), 0,
    'find-hanging after the restart');

$t->done;
