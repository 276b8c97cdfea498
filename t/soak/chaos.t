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

use Chaos;
use Soak qw/ dice /;
use Test::KafkaNginx;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $seed = $ENV{SEED} || 1;
my $seconds = $ENV{MINUTES} ? $ENV{MINUTES} * 60 : 40;

my $t = Test::KafkaNginx->new(workers => 4)->run;

my $chaos = Chaos->new($t);
my $load = Soak->load(port => $t->port, seed => $seed,
    rate => $seconds > 100 ? 20 : 50);

diag("seed $seed, $seconds seconds");
dice(0, $seed);

is($load->tell('setup'), 'ok', 'topics are made');
$load->tell('go');

# What has to have happened; a machine that is slow or busy takes longer.

sub missing {
    my $s = $load->stats;

    return $s->{acked} <= $seconds * 10 || !$s->{retries};
}

my $end = time + $seconds;
my $check = time + 15;

while (time < $end || time < $end + 180 && missing()) {
    sleep((100 + dice(900)) / 1000);

    $chaos->strike;

    # Faults as early as they can be told.

    next if time < $check;
    $check = time + ($seconds > 100 ? 60 : 15);

    $load->tell('pause');
    ok($load->tell('check') eq 'ok', 'check after ' . $chaos->told)
        or do { diag("  $_") for $load->faults; last };

    $load->tell('rotate') if dice(2);
    $load->tell('go');
}

$chaos->calm;
sleep 2;
$load->tell('pause');
is($load->tell('check'), 'ok', 'all that was promised is there');

my $stats = $load->stats;
$load->quit;

is(join("\n", $load->faults), '', 'no promise was broken');
is(join("\n", $load->stalls), '', 'no request was forgotten');
cmp_ok($stats->{acked}, '>', $seconds * 10, 'there was something to lose');
cmp_ok($stats->{retries}, '>', 0, 'batches were sent again');

# Nor was one by the broker's own account; topics that are deleted and made
# again, whoever dies meanwhile, are nothing to tell of.
my @told = grep /\[crit\]|is not a partition that the broker knows/,
    split /\n/, $t->error_log;
is(scalar @told, 0, 'nothing critical, no directory left behind')
    or do { diag("  $_") for @told > 10 ? @told[0 .. 9] : @told };

diag(join ' ', map { "$_=$stats->{$_}" } sort keys %$stats);
diag($chaos->told);

$t->done;
