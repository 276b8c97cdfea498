#!/usr/bin/env perl

# Answers leave in the order of their requests; only Produce is pipelined.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;

$c->create_topic('t', 2);
$c->produce('t', 0, batch(records => ['first']));

# A long poll holds back what follows it on its connection, and nobody else.
my $poll = Kafka::Wire::fetch_body('t', 0, 1, max_wait => 60_000);
$c->send('Fetch', 12, $poll);
$c->send('ApiVersions', 0, {});
$c->send('Metadata', 1, { Topics => [] });

my $d = $t->client;
$d->call('ApiVersions', 0, {});
ok($c->silent(0.3), 'another connection is served meanwhile, and not this');

$d->produce('t', 0, batch(records => ['second']));
is($c->recv->{ErrorCode}, 0, 'first the fetch');
is($c->recv->{ErrorCode}, 0, 'then ApiVersions');
is(ref $c->recv->{Brokers}, 'ARRAY', 'then Metadata');

# The same when its time is over.
my $began = time;
$c->send('Fetch', 12, Kafka::Wire::fetch_body('t', 1, 0, max_wait => 500));
$c->send('ApiVersions', 0, {});
is($c->recv->{ErrorCode}, 0, 'the fetch');
cmp_ok(time - $began, '>', 0.45, 'at its time');
is($c->recv->{ErrorCode}, 0, 'and what follows');

# Produce after produce, all at once: offsets in order, whatever they wait for.
my @sizes = map +(10, 40_000, 300)[$_ % 3], 0 .. 29;
$c->send('Produce', 9, { Acks => -1, TimeoutMs => 60_000, TopicData => [{
    Name => 't', PartitionData => [{ Index => 1, Records => batch(
        codec => $_ % 2 ? 'gzip' : 'none', records => ['x' x $sizes[$_]]) }],
    }] }) for 0 .. $#sizes;
$c->send('ListOffsets', 7, { ReplicaId => -1, Topics => [{ Name => 't',
    Partitions => [{ PartitionIndex => 1, Timestamp => -1,
        CurrentLeaderEpoch => -1 }] }] });

my @offsets = map $c->recv->{Responses}[0]{PartitionResponses}[0]{BaseOffset},
    @sizes;
is("@offsets", join(' ', 0 .. $#sizes), 'thirty pipelined produces, in order');
is($c->recv->{Topics}[0]{Partitions}[0]{Offset}, scalar @sizes,
    'ListOffsets behind them sees them all');

# acks=0 between others leaves no trace in the answers.
$c->send('ApiVersions', 0, {});
$c->produce('t', 0, batch(records => ['silent']), acks => 0);
$c->send('ApiVersions', 1, {});
is($c->recv->{ErrorCode}, 0, 'before acks=0');
is($c->recv->{ThrottleTimeMs}, 0, 'behind acks=0');
ok(wait_for(sub { $c->list_offset('t', 0, -1)->{Offset} == 3 }, 30),
    'and it was stored');

# A bad request: what came before is answered first, what follows never.
$c->send('Fetch', 12, Kafka::Wire::fetch_body('t', 1, scalar @sizes,
    max_wait => 300));
$c->send('ApiVersions', 0, {});
$c->send_raw(pack 'N n n N n', 10, 999, 0, 5, 0xffff);
$c->produce('t', 0, batch(records => ['never']), acks => 0);
is($c->recv->{ErrorCode}, 0, 'bad request: the fetch before it');
is($c->recv->{ErrorCode}, 0, 'and ApiVersions');
is($c->recv_frame, undef, 'then the end');
is($d->list_offset('t', 0, -1)->{Offset}, 3, 'and nothing of what followed');

# A parked fetch of a client that has gone does not stay.
my @gone = map $t->client, 1 .. 20;
$_->send('Fetch', 12, Kafka::Wire::fetch_body('t', 1, scalar @sizes,
    max_wait => 60_000)) for @gone;
sleep 0.2;
$_->close for @gone;
ok(wait_for(sub { connections() <= 1 }, 30), 'clients that left are let go');

sub connections {
    my $port = sprintf '%04X', $t->port(0);

    return scalar grep /^\s*\d+: \w+:$port \w+:\w{4} (?:01|08) /,
        split /\n/, $t->read_file('/proc/net/tcp');
}

$t->done;
