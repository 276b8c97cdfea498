#!/usr/bin/env perl

# Fetch: every version, limits, waiting, sessions, errors.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "fetch-$$";

$c->create_topic($name, 3);
my $id = $c->topic_id($name);

# Ten batches of three records, of about 1 KB each.
for my $i (0 .. 9) {
    $c->produce($name, 0, batch(records => [map "$i.$_ " . 'x' x 300, 0 .. 2]));
}

for my $v (4 .. 18) {
    my $topic = $v >= 13 ? $id : $name;
    my $r = $c->fetch($topic, 0, 0, version => $v);
    is_deeply([@$r{qw(PartitionIndex ErrorCode HighWatermark LastStableOffset)}],
        [0, 0, 30, 30], "v$v");
    is($r->{LogStartOffset}, 0, "v$v: log start") if $v >= 5;
    is($r->{PreferredReadReplica}, -1, "v$v: no other replica") if $v >= 11;
    my @b = batches($r->{Records});
    is(scalar @b, 10, "v$v: all batches");
    is(scalar(grep !$_->{crc_ok}, @b), 0, "v$v: every CRC fits");
    is($r->{AbortedTransactions}, undef, "v$v: no aborted list");
}

my $r = $c->fetch($name, 0, 0, isolation => 1);
is_deeply($r->{AbortedTransactions}, [], 'read_committed: an empty list');

# From the batch that contains the offset.
my @b = batches($c->fetch($name, 0, 13)->{Records});
is($b[0]{base_offset}, 12, 'from inside a batch: that batch');
is($b[-1]{last_offset}, 29, 'up to the end');
is($b[0]{leader_epoch} >= 0, 1, 'a leader epoch is patched in');

# Limits: whole batches, at least one.
@b = batches($c->fetch($name, 0, 0, partition_max_bytes => 1)->{Records});
is(scalar @b, 1, 'partition_max_bytes 1: one batch');
@b = batches($c->fetch($name, 0, 0, max_bytes => 1)->{Records});
is(scalar @b, 1, 'max_bytes 1: one batch');
@b = batches($c->fetch($name, 0, 0, partition_max_bytes => 2500)->{Records});
is(scalar @b, 2, 'partition_max_bytes 2500: two batches');

$c->produce($name, 1, batch(records => ['other']));
$r = $c->call('Fetch', 12, { MaxWaitMs => 0, MinBytes => 1, MaxBytes => 1,
    SessionEpoch => -1, Topics => [{ Topic => $name, Partitions => [
        map +{ Partition => $_, FetchOffset => 0,
            PartitionMaxBytes => 1 << 20 }, 0, 1] }] });
my %got = map { $_->{PartitionIndex} => scalar batches($_->{Records}) }
    @{ $r->{Responses}[0]{Partitions} };
is_deeply(\%got, { 0 => 1, 1 => 0 }, 'max_bytes over two partitions');

# The end, and beyond.
$r = $c->fetch($name, 0, 30);
is($r->{ErrorCode}, 0, 'at the end');
is($r->{Records}, '', 'records are empty, not null');

for my $offset (31, -1, 1 << 40) {
    $r = $c->fetch($name, 0, $offset);
    is($r->{ErrorCode}, 1, "offset $offset: OFFSET_OUT_OF_RANGE");
    is_deeply([@$r{qw(HighWatermark LastStableOffset LogStartOffset)}],
        [-1, -1, -1], 'and no offsets');
    is($r->{Records} // '', '', 'and no records');
}

# Errors.  Those of the log have no list of aborted transactions.
for my $case ([1, 99], [75, 0, leader_epoch => 999]) {
    my ($code, $offset, %o) = @$case;
    $r = $c->fetch($name, 0, $offset, isolation => 1, %o);
    is($r->{ErrorCode}, $code, "error $code");
    is($r->{AbortedTransactions}, undef, "error $code: null");
}

is_deeply($c->fetch($name, 9, 0, isolation => 1)->{AbortedTransactions}, [],
    'where there is no log: an empty list');
is($c->fetch("no-$name", 0, 0)->{ErrorCode}, 3, 'an unknown topic');
is($c->fetch($name, 9, 0)->{ErrorCode}, 3, 'an unknown partition');
is($c->fetch("\1" x 16, 0, 0, version => 13)->{ErrorCode}, 100,
    'an unknown id');

my $epoch = $c->call('Metadata', 9, { Topics => [{ Name => $name }] })
    ->{Topics}[0]{Partitions}[0]{LeaderEpoch};
is($c->fetch($name, 0, 0, leader_epoch => $epoch)->{ErrorCode}, 0,
    'the leader epoch');
is($c->fetch($name, 0, 0, leader_epoch => $epoch + 1)->{ErrorCode}, 75,
    'a newer one: UNKNOWN_LEADER_EPOCH');
is($c->fetch($name, 0, 0, leader_epoch => $epoch - 1)->{ErrorCode},
    $epoch > 0 ? 74 : 0, 'an older one: FENCED_LEADER_EPOCH');

# ---- waiting

my $start = time;
$r = $c->fetch($name, 0, 30, max_wait => 400);
my $took = time - $start;
ok($took > 0.35, 'waits for max_wait') or diag("$took s");
is($r->{Records}, '', 'and then answers nothing');

$start = time;
$r = $c->fetch($name, 0, 31, max_wait => 60_000);
ok(time - $start < 25, 'an error is answered at once');

$start = time;
$r = $c->call('Fetch', 12, { MaxWaitMs => 60_000, MinBytes => 1,
    SessionEpoch => -1, Topics => [] });
ok(time - $start < 25, 'nothing asked for is answered at once');

# Woken from every worker: the fetch in one, the append in another.
my @workers = $t->foreign ? (0, 0) : $t->workers;

for my $f (@workers) {
    for my $p (@workers) {
        my $from = $c->list_offset($name, 2, -1)->{Offset};
        my $fetcher = $t->client(worker => $f);
        my $producer = $t->client(worker => $p);
        $fetcher->send('Fetch', 12, Kafka::Wire::fetch_body($name, 2, $from,
            max_wait => 60_000));
        ok($fetcher->silent(0.2), 'a fetch waits');
        $producer->produce($name, 2, batch(records => ['wake']));
        $r = $fetcher->recv->{Responses}[0]{Partitions}[0];
        is(join(',', values_of($r->{Records})), 'wake',
            "worker $f is woken by worker $p");
    }
}

# min_bytes: one small record is not enough.
my $from = $c->list_offset($name, 2, -1)->{Offset};
my $fetcher = $t->client;
$fetcher->send('Fetch', 12, Kafka::Wire::fetch_body($name, 2, $from,
    max_wait => 60_000, min_bytes => 1500));
$c->produce($name, 2, batch(records => ['y' x 800]));
ok($fetcher->silent(0.4), 'min_bytes is waited for');
$c->produce($name, 2, batch(records => ['y' x 800]));
$r = $fetcher->recv->{Responses}[0]{Partitions}[0];
is(scalar batches($r->{Records}), 2, 'and then answered, with both');

# A waiting fetch holds up later requests of its connection, and of no other.
$from = $c->list_offset($name, 2, -1)->{Offset};
$fetcher->send('Fetch', 12, Kafka::Wire::fetch_body($name, 2, $from,
    max_wait => 1000));
$fetcher->send('Metadata', 1, { Topics => [] });
is($c->call('Metadata', 1, { Topics => [] })->{ControllerId}, 1,
    'another connection is served meanwhile');
is($fetcher->recv->{ErrorCode}, 0, 'the fetch is answered first');
is($fetcher->recv->{ControllerId}, 1, 'then what came after it');

# A client that goes away while it waits.
for (1 .. 20) {
    my $x = $t->client;
    $x->send('Fetch', 12, Kafka::Wire::fetch_body($name, 2, $from,
        max_wait => 20000));
    $x->close;
}
$c->produce($name, 2, batch());
is($c->fetch($name, 2, $from)->{ErrorCode}, 0, 'clients that left are no harm');

# ---- sessions (KIP-227)

sub session {
    my ($conn, $sid, $epoch, $parts, %o) = @_;

    return $conn->call('Fetch', 12, { MaxWaitMs => $o{max_wait} // 0,
        MinBytes => 1, SessionId => $sid, SessionEpoch => $epoch,
        Topics => @$parts ? [{ Topic => $name, Partitions => [
            map +{ Partition => $_->[0], FetchOffset => $_->[1],
                PartitionMaxBytes => 1 << 20 }, @$parts] }] : [],
        ForgottenTopicsData => $o{forget} ? [{ Topic => $name,
            Partitions => $o{forget} }] : [] });
}

my $x = $t->client;
$r = session($x, 0, 0, [[0, 30], [1, 0]]);
my $sid = $r->{SessionId};
ok($sid > 0, 'a session is made');
is(scalar @{ $r->{Responses}[0]{Partitions} }, 2, 'with a full answer');

$r = session($x, $sid, 1, [[1, 1]]);
is($r->{ErrorCode}, 0, 'incremental');
is($r->{SessionId}, $sid, 'the same session');
is(scalar @{ $r->{Responses} }, 0, 'nothing new, nothing listed');

$c->produce($name, 0, batch(records => ['new']));
$r = session($x, $sid, 2, [], max_wait => 60_000);
is(scalar @{ $r->{Responses} }, 1, 'only what has changed');
is($r->{Responses}[0]{Partitions}[0]{PartitionIndex}, 0, 'that partition');
is(join(',', values_of($r->{Responses}[0]{Partitions}[0]{Records})), 'new',
    'its records');

$x->send('Fetch', 12, { MaxWaitMs => 60_000, MinBytes => 1, SessionId => $sid,
    SessionEpoch => 3, Topics => [{ Topic => $name, Partitions => [
        { Partition => 0, FetchOffset => 31, PartitionMaxBytes => 1000 }] }] });
ok($x->silent(0.3), 'an incremental fetch waits');
$c->produce($name, 1, batch(records => ['p1']));
$r = $x->recv;
is($r->{Responses}[0]{Partitions}[0]{PartitionIndex}, 1,
    'woken for a partition that only the session has');

$r = session($x, $sid, 4, [[1, 2]], forget => [0]);
is($r->{ErrorCode}, 0, 'a partition is forgotten');
$c->produce($name, 0, batch());
$r = session($x, $sid, 5, []);
is(scalar @{ $r->{Responses} }, 0, 'and no longer listed');

is(session($x, $sid, 9, [])->{ErrorCode}, 71,
    'a wrong epoch: INVALID_FETCH_SESSION_EPOCH');
is(session($x, $sid + 12345, 1, [])->{ErrorCode}, 70,
    'an unknown session: FETCH_SESSION_ID_NOT_FOUND');
is(session($x, 0, 5, [])->{ErrorCode}, 70, 'nor is 0 one that goes on');
is(session($x, $sid + 12345, -2, [])->{ErrorCode}, 70,
    'an unknown session, an epoch that there is not: the session');

$r = session($x, $sid, -1, [[0, 0]]);
is($r->{SessionId}, 0, 'closed');
is(scalar @{ $r->{Responses} }, 1, 'with a full answer');
is(session($x, $sid, 6, [])->{ErrorCode}, 70, 'and gone');

# What is forgotten is of a session: a full fetch says all that it wants.
$r = session($x, 0, 0, [[0, 0], [1, 0]], forget => [0]);
is(scalar @{ $r->{Responses}[0]{Partitions} }, 2, 'a full fetch forgets none');
$sid = $r->{SessionId};

# One that has no partition left ends, and the last request has an answer.
$r = session($x, $sid, 1, [[0, 0]], forget => [0, 1]);
is("$r->{ErrorCode} $r->{SessionId}", '0 0', 'all are forgotten: it ends');
is(join(' ', map $_->{PartitionIndex}, @{ $r->{Responses}[0]{Partitions} }),
    0, 'what the request has is answered');
is(session($x, $sid, 2, [])->{ErrorCode}, 70, 'it is gone');

# ---- a large log, and a reader that is slow to take it

my $big = "big-$$";
$c->create_topic($big, 1);
my $payload = join '', map chr(rand 256), 1 .. 200_000;
$c->produce($big, 0, batch(records => [$payload])) for 1 .. 20;

$r = $c->fetch($big, 0, 0, partition_max_bytes => 10 << 20);
is(scalar(grep $_->{crc_ok}, (batches($r->{Records}))[0, -1]), 2,
    'four megabytes in one answer');
is(length $r->{Records}, 20 * (61 + 200_000 + 11),
    'to the byte') or diag(length $r->{Records});

my $slow = $t->client;
$slow->send('Fetch', 12, Kafka::Wire::fetch_body($big, 0, 0,
    partition_max_bytes => 10 << 20)) for 1 .. 8;
sleep 1;
is($c->call('Metadata', 1, { Topics => [] })->{ControllerId}, 1,
    'a client that does not read holds up nobody');
my $bytes = 0;
$bytes += length $slow->recv->{Responses}[0]{Partitions}[0]{Records}
    for 1 .. 8;
is($bytes, 8 * length $r->{Records}, 'and gets all of it when it does');

$t->done;
