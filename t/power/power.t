#!/usr/bin/perl

# The power goes while producers, consumers and topics come and go: everything
# acknowledged is there afterwards, once, in its place, and nothing that was
# shown has vanished; nor has a committed offset.
#
#   CUTS=200   how often (default 9)
#   SEED=n     which chances (default 1; printed)

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin;

use Power;
use Soak qw/ dice /;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $cuts = $ENV{CUTS} || 9;
my $seed = $ENV{SEED} || 1;

my $p = Power->new;
my $load = Soak->load(port => $p->port, seed => $seed);

diag("seed $seed, $cuts cuts");
dice(0, $seed);

# The first start of a broker may be cut as well.

$p->start;
is($load->tell('setup'), 'ok', 'topics are made');
is($load->tell('groups 2'), 'ok', 'and groups');

my ($bad, $longest) = (0, 0);
my $enough = 100 * ($cuts > 9 ? $cuts / 9 : 1);

# What has to have happened; a machine that is slow or busy takes longer.

sub missing {
    my $s = $load->stats;

    return $s->{acked} <= $enough || $s->{commits} <= 100
        || !$s->{retries} || !$s->{deleted} || !$p->{lost_bytes}
        || !$p->{lost_names};
}

for my $n (1 .. 3 * $cuts) {
    last if $n > $cuts && !missing();

    my $mode = (qw/ strict random random strict random keep /)[dice(6)];
    my $quit = dice(6) == 0;
    my $ms = dice(4) == 0 ? 20 + dice(250) : 500 + dice(1500);

    $load->tell('rotate') if $n > 1 && dice(5) == 0;
    $load->tell('go');
    sleep $ms / 1000;

    my $lost = $p->cut($mode, $seed * 1000 + $n, quit => $quit);
    $load->tell('pause');

    # Sometimes it goes again while the broker is coming up.

    if (dice(4) == 0) {
        $p->start(ready => 0);
        sleep dice(150) / 1000;
        $p->cut((qw/ strict random /)[dice(2)], $seed * 2000 + $n);
    }

    # A slow disk has more to lose.
    my $began = time;
    $p->start(delay => (500, 3000, 20000, 100000)[dice(4)]);
    my $took = time - $began;
    $longest = $took if $took > $longest;

    my $label = "cut $n ($mode" . ($quit ? ' after a stop' : '')
        . ", $ms ms): $lost->{lost_bytes} bytes, "
        . "$lost->{lost_names} names lost";

    next if ok($load->tell('check') eq 'ok', $label);

    diag("  $_") for $load->faults;
    last if ++$bad == 3;
}

$load->tell('go');
sleep 1;
$load->tell('pause');
is($load->tell('check'), 'ok', 'and it goes on');

my $stats = $load->stats;
$load->quit;

is(join("\n", $load->faults), '', 'no promise was broken');
is(join("\n", $load->stalls), '', 'no request was forgotten');
cmp_ok($stats->{acked}, '>', $enough, 'there was something to lose');
cmp_ok($stats->{retries}, '>', 0, 'batches were sent again');
cmp_ok($stats->{deleted}, '>', 0, 'topics were deleted');
cmp_ok($stats->{commits}, '>', 100, 'offsets were committed');
cmp_ok($p->{lost_bytes}, '>', 0, 'unsynced bytes were lost');
cmp_ok($p->{lost_names}, '>', 0, 'unsynced names were lost');
is(join("\n", @{ $p->{differences} }), '', 'the records were complete');

diag(join ' ', map { "$_=$stats->{$_}" } sort keys %$stats);
diag("lost: $p->{lost_bytes} bytes, $p->{lost_names} names, $p->{torn} torn "
    . 'writes; longest start: ' . int($longest * 1000) . ' ms');

$p->t->done;
