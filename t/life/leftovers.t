#!/usr/bin/env perl

# What an attempt that failed, or a worker that died, leaves behind: it is acted
# on by whoever comes next, and nobody waits for the dead.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Test::KafkaFault;
use Test::KafkaNginx qw(wait_for);

use constant { EIO => 5, ENOMEM => 12, ENOSPC => 28, STORAGE => 56 };

my $t = Test::KafkaFault->new(workers => 3);

$t->allow(qr/exited on signal 9|Address already in use/);
$t->run;


sub epoch {
    my ($topic) = @_;
    my $epoch;

    $t->insist(sub {
        my $r = $_[0]->call('Metadata', 9, { Topics => [{ Name => $topic }],
            AllowAutoTopicCreation => 0 });
        $epoch = $r->{Topics}[0]{Partitions}[0]{LeaderEpoch};
        return defined $epoch;
    });

    return $epoch;
}


# A client of another worker.
sub elsewhere {
    my ($c) = @_;
    my $mine = $t->worker_of($c);
    my ($worker) = grep { $_ != $mine } $t->workers;

    return $t->client(worker => $worker, timeout => 20);
}


sub made {
    my ($name) = @_;

    return $t->insist(sub { my $e = $_[0]->create_topic($name)->{ErrorCode};
        return $e == 0 || $e == 36 }, 30);
}


# How often it was told that the broker stays closed.
sub closed { scalar(() = $t->error_log =~ /stays closed/g) }


# The retry of a batch whose first writer died before it flushed.
{
    ok(made('twice'), 'a topic');

    my $p = $t->client->init_producer;
    my $batch = Kafka::Batch::batch(records => ['a'], sequence => 0,
        producer_id => $p->{ProducerId}, producer_epoch => 0);

    my $c = $t->client;
    my $other = elsewhere($c);

    $t->arm('flush-before');
    $c->send('Produce', 9, { Acks => -1, TimeoutMs => 60_000, TopicData => [{
        Name => 'twice', PartitionData => [{ Index => 0,
        Records => $batch }] }] });
    ok($t->reached, 'duplicate: its first writer died');

    my $r = $other->produce('twice', 0, $batch, timeout_ms => 60_000);
    is($r->{ErrorCode}, 0, 'duplicate: acknowledged');
    is($r->{BaseOffset}, 0, 'duplicate: as what it was');
}

# A decision whose worker died before it flushed the journal.
{
    my $c = $t->client;
    my $other = elsewhere($c);

    $t->arm('flush-before');
    $c->send('CreateTopics', 7, { timeoutMs => 60_000, Topics => [{
        Name => 'orphan', NumPartitions => 1, ReplicationFactor => 1 }] });
    ok($t->reached, 'journal: its worker died');

    my $r = $other->produce('orphan', 0, Kafka::Batch::batch(),
        timeout_ms => 60_000);
    is($r->{ErrorCode}, 0, 'journal: flushed by another');
}

# Records that only memory had may be gone when a partition is reopened: those
# that come in their place have a later leader epoch.
{
    is($t->client->create_topic('cached', 1, 'write.caching' => 'true')
        ->{ErrorCode}, 0,
        'reopened: a topic with write.caching');
    is($t->client->produce('cached', 0, Kafka::Batch::batch(), acks => 1)
        ->{ErrorCode}, 0, 'reopened: a record');

    my $before = epoch('cached');

    $t->arm('log.fdatasync=' . EIO);
    ok(wait_for(sub { ($t->client->produce('cached', 0,
        Kafka::Batch::batch(), acks => 1)->{ErrorCode} // 0) == STORAGE }, 30),
        'reopened: it failed');
    $t->disarm;

    my $at;
    ok($t->insist(sub {
        my $r = $_[0]->produce('cached', 0, Kafka::Batch::batch(), acks => 1);
        $at = $r->{BaseOffset};
        return $r->{ErrorCode} == 0;
    }, 30), 'reopened: it is back');

    my $got;
    $t->insist(sub { $got = $_[0]->fetch('cached', 0, $at)->{Records} });
    cmp_ok(unpack('x12 N', $got), '>', $before,
        'reopened: what follows has a later leader epoch');
    ok(wait_for(sub { epoch('cached') > $before }, 30),
        'reopened: which clients are told of');
    is(scalar(grep { epoch('cached') <= $before } 1 .. 12), 0,
        'reopened: by every worker');
}

# No memory for an answer that would send from files: they are let go of, too.
{
    is($t->client->create_topic('answer')->{ErrorCode}, 0, 'no memory: a topic');
    is($t->client->produce('answer', 0, Kafka::Batch::batch())->{ErrorCode}, 0,
        'no memory: a record');

    my $c = $t->client;
    is($c->fetch('answer', 0, 0)->{ErrorCode}, 0, 'no memory: it is read');

    $t->arm('encode=' . ENOMEM);
    $c->send('Fetch', 12, Kafka::Wire::fetch_body('answer', 0, 0));
    is($c->recv, undef, 'no memory: the connection ends');
    $t->disarm;
    like($t->error_log, qr/no memory for an answer/, 'no memory: which is why');

    my $open = sub {
        grep { (readlink($_) // '') =~ m{/answer-0} }
            map glob("/proc/$_/fd/*"), $t->workers
    };

    ok(scalar(() = $open->()), 'no memory: its files are open');
    is($t->client->delete_topic('answer')->{ErrorCode}, 0,
        'no memory: the topic goes');
    ok(wait_for(sub { !$open->() }, 30), 'no memory: and no file stays open');
}

# The journal loses a decision; the first attempt to open it again has no room
# for the record of the new leader epoch.
{
    ok(made('kept'), 'cut: a topic');

    my ($log) = reverse sort glob $t->data . '/@journal-0/*.log';
    my $size = -s $log;
    my $before = epoch('kept');

    my $asked = $t->client(timeout => 10);
    my $closed = closed();

    $t->arm('log.fdatasync=' . EIO);
    $asked->send('CreateTopics', 7, { timeoutMs => 60_000, Topics => [{
        Name => 'lost', NumPartitions => 1, ReplicationFactor => 1 }] });
    ok(wait_for(sub { closed() > $closed }, 30), 'cut: the journal failed');

    cmp_ok(-s $log, '>', $size, 'cut: after the decision was written');
    truncate $log, $size + 20 or die;
    my $marks = () = $t->error_log =~ /cannot raise the leader/g;
    $t->arm('log.pwrite=' . ENOSPC);
    ok(wait_for(sub { (() = $t->error_log =~ /cannot raise the leader/g)
        > $marks }, 30), 'cut: an attempt ended behind the cut');
    $t->disarm;

    ok(made("after-$_"), 'cut: open again') for 1 .. 3;

    my $r = eval { $asked->recv };
    my $code = $r ? $r->{Topics}[0]{ErrorCode} : 'closed';
    isnt($code, 0, "cut: a lost decision is not promised ($code)");
    cmp_ok(epoch('kept'), '>', $before, 'cut: the leader epoch is raised');
}

$t->done;
