#!/usr/bin/perl

# With write.caching of the whole broker a power cut takes back what was
# acknowledged a moment before; what is left has to be whole.  Topics are there,
# groups and producers go on, no producer is taken for another one, and nothing
# of a transaction that was aborted is ever seen.

use warnings;
use strict;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use Kafka::Batch;
use Kafka::Wire;
use Power;
use Test::More;
use Time::HiRes qw/ sleep /;

my $p = Power->new(config => { 'write.caching' => 'true' });
my ($c, %pids, %aborted, $offset, $lost, $renewed, $serial);

$p->start;
$c = Kafka::Wire->new(port => $p->port);

# One has all that was ever appended, the other loses its end as well.
is($c->create_topic('kept', 1, 'write.caching' => 'false')->{ErrorCode}, 0,
    'a topic without caching');
is($c->create_topic('cached', 1)->{ErrorCode}, 0, 'a topic with it');

$offset = 0;

for my $round (1 .. 6) {
    my $tx = init();

    is(put($tx, 'kept', "first$round"), 0, "round $round: its first batch");
    is(put($tx, 'cached', "first$round"), 0, "round $round: the other one");
    is(end_txn($tx, 1), 0, "round $round: they are committed");

    is(scalar(grep { $_ eq "first$round" } committed($_)), 1,
        "round $round: they are seen in $_") for qw/ kept cached /;

    # From here on it may be lost.
    for my $i (1 .. 20) {
        my $commit = $i % 3 != 0;
        my $value = 'v' . ++$serial;

        put($tx, 'kept', $value) and last;
        put($tx, 'cached', $value) and last;
        $aborted{$value} = 1 if !$commit;
        end_txn($tx, $commit) and last;
        is(commit(++$offset), 0, "round $round: offset $offset") if $i == 20;
        commit($offset) if $i < 20;
    }

    # One is under way, in a partition that keeps it.
    put($tx, 'kept', 'open' . $round);
    $aborted{"open$round"} = 1;

    $c->close;
    $p->cut($round % 2 ? 'strict' : 'random', $round);
    $p->start;
    $c = Kafka::Wire->new(port => $p->port);

    my $r = $c->call('OffsetFetch', 7, { GroupId => 'g', RequireStable => 0,
        Topics => [{ Name => 'kept', PartitionIndexes => [0] }] });
    my $now = $r->{Topics}[0]{Partitions}[0]{CommittedOffset};

    cmp_ok($now, '<=', $offset, "round $round: no offset from the future");
    $lost++ if $now < $offset;
    is($c->topic_id($_) eq "\0" x 16, '', "round $round: $_ is there")
        for qw/ kept cached /;
}

my $tx = init();
is(end_txn($tx, 0), 0, 'what was under way is ended');

for my $name (qw/ kept cached /) {
    is(join(' ', grep $aborted{$_}, committed($name)), '',
        "$name: nothing aborted is seen");
}

cmp_ok($lost, '>', 0, 'offsets went back, so nothing had waited for the disk');
cmp_ok($renewed, '>', 0, 'and so did epochs, for which a new id was given');
is(join("\n", @{ $p->{differences} }), '', 'the records were complete');

$p->t->done;


sub init {
    my $r;

    for (1 .. 1200) {
        $r = $c->init_producer(transactional_id => 'one');
        last if $r->{ErrorCode} != 51;
        sleep 0.05;
    }

    my $id = $r->{ProducerId};
    is($r->{ErrorCode}, 0, "producer $id");
    $renewed++ if %pids && !$pids{$id}++;
    $pids{$id} = 1;

    return { id => $id, epoch => $r->{ProducerEpoch}, seq => {} };
}

sub put {
    my ($tx, $name, $value) = @_;

    my $r = $c->produce($name, 0, batch(records => [$value],
        transactional => 1, producer_id => $tx->{id},
        producer_epoch => $tx->{epoch}, sequence => $tx->{seq}{$name}++ // 0),
        version => 12, transactional_id => 'one');

    return $r->{ErrorCode};
}

sub end_txn {
    my ($tx, $commit) = @_;

    my $r = $c->call('EndTxn', 5, { TransactionalId => 'one',
        ProducerId => $tx->{id}, ProducerEpoch => $tx->{epoch},
        Committed => $commit });
    @$tx{qw/ id epoch seq /} = (@$r{qw/ ProducerId ProducerEpoch /}, {});

    return $r->{ErrorCode};
}

sub commit {
    my ($offset) = @_;

    return $c->call('OffsetCommit', 8, { GroupId => 'g',
        GenerationIdOrMemberEpoch => -1, MemberId => '', Topics => [{
            Name => 'kept', Partitions => [{ PartitionIndex => 0,
            CommittedOffset => $offset, CommittedLeaderEpoch => -1,
            CommittedMetadata => '' }] }] })
        ->{Topics}[0]{Partitions}[0]{ErrorCode};
}

# What a consumer would hand to its application.
sub committed {
    my ($name) = @_;
    my ($at, %in, @out) = (0);

    while (1) {
        my $r = $c->fetch($name, 0, $at, isolation => 1);
        my @gone = @{ $r->{AbortedTransactions} || [] };
        my @batches = batches($r->{Records}) or last;

        for my $b (@batches) {
            while (@gone && $gone[0]{FirstOffset} <= $b->{base_offset}) {
                $in{ (shift @gone)->{ProducerId} } = 1;
            }
            if ($b->{attributes} & 32) {
                delete $in{ $b->{producer_id} };
            } elsif (!$in{ $b->{producer_id} }) {
                push @out, map $_->{value}, records($b);
            }
            $at = $b->{base_offset} + $b->{last_offset_delta} + 1;
        }
    }

    return @out;
}
