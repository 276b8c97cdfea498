#!/usr/bin/perl

# Producers, consumers and topics that come and go, while single workers are
# killed, everything is killed, nginx reloads, stops and starts.
#
#   MINUTES=10   how long (default: 40 seconds)
#   SEED=n       which chances (default: 1)

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Soak qw/ dice /;
use Test::KafkaNginx qw/ wait_for /;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $seed = $ENV{SEED} || 1;
my $seconds = $ENV{MINUTES} ? $ENV{MINUTES} * 60 : 40;

my $t = Test::KafkaNginx->new(workers => 4)->run;

# A process that was killed may let its sockets go a moment after it is gone
# from /proc; nginx tries to bind again.
$t->allow(qr/bind\(\) to \S+ failed \(98: /);

my $load = Soak->load(port => $t->port, seed => $seed,
    rate => $seconds > 100 ? 20 : 50);

diag("seed $seed, $seconds seconds");
dice(0, $seed);

is($load->tell('setup'), 'ok', 'topics are made');
$load->tell('go');

my %did;

# What can happen; weight, name, what to do.

my @events = (
    [8, 'worker killed', sub {
        my @w = $t->workers or return;
        $t->kill_worker($w[dice(scalar @w)], no_wait => dice(2))
    }],
    [1, 'all workers killed', sub {
        $t->kill_worker($_, no_wait => 1) for $t->workers;
    }],
    [4, 'reload', sub {
        $t->{workers} = 2 + dice(4);
        $t->write_conf;
        $t->signal('HUP');
        sleep dice(300) / 1000;
    }],
    [2, 'everything killed', sub {
        $t->kill_all;
        sleep dice(500) / 1000;
        $t->run;
    }],
    [1, 'graceful stop', sub {
        $t->quit(30) or fail('it stops');
        $t->run;
    }],
    [1, 'fast stop', sub {
        $t->stop(30) or fail('it stops');
        $t->run;
    }],
);

my $total = 0;
$total += $_->[0] for @events;

my $end = time + $seconds;
my $check = time + 15;

while (time < $end) {
    sleep((100 + dice(900)) / 1000);

    my $n = dice($total);

    for my $e (@events) {
        next if ($n -= $e->[0]) >= 0;
        $did{$e->[1]}++;
        $e->[2]->();
        last;
    }

    # Faults as early as they can be told.

    next if time < $check;
    $check = time + ($seconds > 100 ? 60 : 15);

    $load->tell('pause');
    ok($load->tell('check') eq 'ok', 'check after '
        . join ', ', map { "$did{$_} $_" } sort keys %did)
        or do { diag("  $_") for $load->faults; last };

    $load->tell('rotate') if dice(2);
    $load->tell('go');
}

wait_for(sub { $t->workers >= $t->{workers} }, 20);
sleep 2;
$load->tell('pause');
is($load->tell('check'), 'ok', 'all that was promised is there');

my $stats = $load->stats;
$load->quit;

is(join("\n", $load->faults), '', 'no promise was broken');
is(join("\n", $load->stalls), '', 'no request was forgotten');
cmp_ok($stats->{acked}, '>', $seconds * 10, 'there was something to lose');
cmp_ok($stats->{retries}, '>', 0, 'batches were sent again');

diag(join ' ', map { "$_=$stats->{$_}" } sort keys %$stats);
diag(join ', ', map { "$did{$_} $_" } sort keys %did);

$t->done;
