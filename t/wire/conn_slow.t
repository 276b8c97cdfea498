#!/usr/bin/env perl

# Clients that read slowly or never: bounded memory, others unaffected; and the
# budget for requests that are held.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 1,
    broker => '        buffer_budget  4m;')->run;
my $c = $t->client;

$c->create_topic('t', 1, 'max.message.bytes' => 3_000_000);
my $big = join '', map chr(33 + $_ % 90), 0 .. 999_999;
my $one = batch(records => [$big]);
$c->produce('t', 0, $one) for 1 .. 8;

my ($worker) = $t->workers;
my $loose = $ENV{TEST_NGINX_SAN} ? 100 : 1;   # freed memory is kept

sub rss {
    my ($kib) = $t->read_file("/proc/$worker/status") =~ /VmRSS:\s+(\d+)/;
    return $kib;
}

# The slow ones would take for ever.
sub served { ref $c->call('Metadata', 1, { Topics => [] })->{Brokers} }

# Never reads: asks as long as it is listened to.
my $before = rss();
my @never;

for my $body (Kafka::Wire::fetch_body('t', 0, 0), { Topics => undef }) {
    my $api = exists $body->{MaxWaitMs} ? 'Fetch' : 'Metadata';
    my $x = $t->client;
    my $frame = $x->frame($api, 12, $body, correlation_id => 7);
    my $sent = 0;

    $x->socket->blocking(0);

    for (my $end = time + 2; time < $end;) {
        my $n = syswrite $x->socket, $frame x 100;
        $n ? $sent += $n : sleep 0.05;
    }

    push @never, $x;
    cmp_ok($sent, '<', 64 << 20, "$api: no longer listened to");
    ok(served(), "$api: others are served");
}

cmp_ok(rss() - $before, '<', 10_000 * $loose, 'never reading: memory is bounded');
$_->close for @never;

# Reads in drops, and gets every byte.
my $slow = $t->client;
setsockopt $slow->socket, Socket::SOL_SOCKET(), Socket::SO_RCVBUF(), 65536;
$slow->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, 0,
    partition_max_bytes => 3_000_000)) for 1 .. 3;
my $got = '';
my $asked = 0;

for my $i (1 .. 300) {
    sysread $slow->socket, $got, 1000, length $got;
    $asked += !!served() if $i % 50 == 0;
}

is($asked, 6, 'a slow reader: others are served');
$slow->{buffer} = $got;
my @all = map $_->{Responses}[0]{Partitions}[0]{Records},
    map $slow->recv, 1 .. 3;
my $direct = $c->fetch('t', 0, 0, partition_max_bytes => 3_000_000)->{Records};
cmp_ok(length $direct, '>', 2_000_000, 'what a fast one gets');
is(scalar(grep { $_ eq $direct } @all), 3, 'the slow one gets three times');

# Slow writers that together want more than the budget: all get through.
my $two = batch(records => [$big . $big]);
my @frames = map { $c->frame('Produce', 9, { Acks => -1, TimeoutMs => 60_000,
    TopicData => [{ Name => 't', PartitionData => [{ Index => 0,
        Records => $two }] }] },
    correlation_id => $_) } 1 .. 12;
my @writers = map $t->client, @frames;
my @at = (0) x @frames;
$before = rss();
$_->socket->blocking(0) for @writers;
my $most = 0;
my $end = time + 30;

while (time < $end && grep $at[$_] < length $frames[$_], 0 .. $#frames) {
    for my $i (0 .. $#frames) {
        my $n = syswrite $writers[$i]->socket, $frames[$i], 150_000, $at[$i];
        $at[$i] += $n if $n;
    }
    my $now = rss() - $before;
    $most = $now if $now > $most;
    sleep 0.005;
}

$_->socket->blocking(1) for @writers;
is(scalar(grep { my $f = $writers[$_ - 1]->recv_frame(timeout => 20);
    $f && unpack('N', $f) == $_ } 1 .. 12), 12,
    'twelve requests of 2 MB with a budget of 4 MB: all are answered');
cmp_ok($most, '<', 16_000 * $loose, "in bounded memory ($most KiB)");

# What was kept for reuse goes back.
ok(wait_for(sub { rss() - $before < 4000 * $loose }, 30),
    'which is given back');

$t->done;
