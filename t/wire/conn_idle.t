#!/usr/bin/env perl

# Idle connections: closed at connections.max.idle.ms, and cheap until then.

use strict;
use warnings;

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

my $idle_s = 1.5;
my $t = Test::KafkaNginx->new(workers => 1,
    config => { 'connections.max.idle.ms' => 1000 * $idle_s })->run;
my $c = $t->client;

$c->create_topic('t', 1);

my $idle = $t->client;
my $began = time;
$idle->call('ApiVersions', 0, {});
my $silent = $t->client;

ok($idle->closed(30), 'an idle connection is closed');
cmp_ok(time - $began, '>', 1.3, 'not before its time');
ok($silent->closed(30), 'as is one that never said anything');

# Neither a request that waits nor traffic is idleness.
my $poll = $t->client;
$poll->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, 0, max_wait => 3000));
my $stays;

# One that was not held up itself for so long: else it was idle.
for (1 .. 20) {
    my ($busy, $gap) = ($t->client, 0);
    my $last = time;

    for (1 .. 7) {
        $stays = $busy->call('ApiVersions', 0, {}) or last;
        $gap = time - $last if $gap < time - $last;
        $last = time;
        sleep 0.5;
    }

    last if $stays || time - $last < $idle_s && $gap < $idle_s;
}

ok($stays, 'a busy one stays');
is($poll->recv->{ErrorCode}, 0, 'a waiting one stays');
ok($t->quit, 'stops');
$t->hidden_checks;

# Memory of many.
my $many = 2000;
chomp(my $files = qx(sh -c 'ulimit -Hn'));

SKIP: {
    skip "only $files open files", 3
        if $files =~ /^\d+$/ && $files < $many + 200;
    skip 'instrumented', 3 if $ENV{TEST_NGINX_SAN};

    my $u = Test::KafkaNginx->new(workers => 1, connections => $many + 100)
        ->run;
    my ($worker) = $u->workers;
    my $rss = sub {
        my ($kib) = $u->read_file("/proc/$worker/status") =~ /VmRSS:\s+(\d+)/;
        return $kib;
    };

    my $before = $rss->();
    my @all;

    for my $n (1 .. $many) {
        my $x = eval { $u->client } or last;
        $x->call('ApiVersions', 3, { ClientSoftwareName => 'wire',
            ClientSoftwareVersion => '1' });
        push @all, $x;
    }

    skip scalar(@all) . ' open files here', 3 if @all < $many;
    my $each = ($rss->() - $before) / $many;
    cmp_ok($each, '<', 20, sprintf 'each costs %.1f KiB', $each);
    is($all[0]->call('ApiVersions', 0, {})->{ErrorCode}, 0, 'the first lives');
    is($all[-1]->call('ApiVersions', 0, {})->{ErrorCode}, 0, 'the last lives');
    $_->close for @all;
    $u->hidden_checks;
}

done_testing();
