#!/usr/bin/perl

# Consumer groups while single workers are killed, by chance or at a point inside
# of the broker, everything is killed, nginx reloads with other numbers of
# workers, stops and starts, and the power goes:
# every acknowledged record reaches each group, an acknowledged commit is what
# OffsetFetch shows until there is a later one, no group hangs.
#
#   MINUTES=10   how long (default: 40 seconds)
#   SEED=n       which chances (default: 1)

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib", "$FindBin::Bin/../power";

use Chaos;
use Power;
use Soak qw/ dice /;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $seed = $ENV{SEED} || 1;
my $seconds = $ENV{MINUTES} ? $ENV{MINUTES} * 60 : 40;
my $long = $seconds > 100;

my $p = Power->new(workers => 4, faults => 1);
my $t = $p->t;
$t->allow(qr/exited on signal 9/);
$p->start;

my $load = Soak->load(port => $p->port, seed => $seed, rate => $long ? 8 : 20);
my $chaos = Chaos->new($t, [2, 'power cut', \&power_cut],
    [6, 'point armed', \&point]);
my $reached = 0;

diag("seed $seed, $seconds seconds");
dice(0, $seed);

is($load->tell('groups 3'), 'ok', 'topics and groups are made');
$load->tell('go');

# What is committed is looked at before anybody can commit more.

sub power_cut {
    my $n = $p->{cuts} + 1;
    my $mode = (qw/ strict random random keep /)[dice(4)];

    $p->cut($mode, $seed * 1000 + $n, quit => !dice(8));
    $load->tell('pause');
    $p->start(delay => (500, 3000, 20000, 100000)[dice(4)]);
    ok($load->tell('offsets') eq 'ok', "cut $n ($mode): offsets are there");
    $load->tell('go');
}

# A worker dies where it hurts; the last two while another one repairs that.

sub point {
    my @points = (qw/ coord-locked coord-unlocking journal-append-before
        journal-append-after flush-before flush-after log.append.before
        log.append.publish /, ('coord-locked', 'journal-append-after'));
    my $n = dice(scalar @points);

    $t->arm($points[$n] . ':' . (1 + dice(20)), $n > 7 ? 'recovering' : ());
    sleep 0.3;
    $t->armed ? $t->disarm : $reached++;
}

# What has to have happened; a machine that is slow or busy takes longer.

my @some = qw/ lost refused left vanished stalled rewound offsets_deleted /;

sub missing {
    my $s = $load->stats;

    return !$reached || $s->{commits} <= $seconds * 20
        || $s->{generations} <= $seconds / 4 || grep !$s->{$_}, @some;
}

my $end = time + $seconds;
my $check = time + 12;

while (time < $end || time < $end + 180 && missing()) {
    # Now and then there is time to come to rest.
    sleep((dice(6) ? 100 + dice(900) : 2000 + dice(2000)) / 1000);
    $chaos->strike;

    # Faults as early as they can be told.

    next if time < $check;
    check() or last;
    $check = time + ($long ? 60 : 12);
    $load->tell('go');
}

# All groups come to the end while nothing happens, and then nothing is missing.

sub check {
    power_cut() if !$p->{cuts};
    $t->disarm;
    $chaos->calm;

    my $good = ok($load->tell('drain') eq 'ok',
        'all groups come to the end after ' . $chaos->told);
    $load->tell('pause');

    return ok($load->tell('check') eq 'ok' && $good,
        'all that was promised is there')
        || do { diag("  $_") for $load->faults; 0 };
}

check();

my $stats = $load->stats;
$load->quit;

is(join("\n", $load->faults), '', 'no promise was broken');
is(join("\n", $load->stalls), '', 'no request was forgotten');
is(join("\n", @{ $p->{differences} }), '', 'the records were complete');
is($stats->{forgotten}, 0, 'nor a member that waited for a generation');
unlike($t->error_log, qr/a wait ended at its deadline/,
    'no wait ended at its deadline though it was satisfied');
cmp_ok($stats->{commits}, '>', $seconds * 20, 'there were commits to lose');
cmp_ok($stats->{generations}, '>', $seconds / 4, 'groups had generations');
cmp_ok($stats->{$_}, '>', 0, "some: $_")
    for @some;
like($t->error_log, qr/journal compacted up to/, 'the journal was compacted')
    if $long;
cmp_ok($reached, '>', 0, 'workers died inside');
cmp_ok($p->{cuts}, '>', 0, 'the power was cut');

diag(join ' ', map { "$_=$stats->{$_}" } sort keys %$stats);
diag($chaos->told . ", $reached points reached");
diag("lost: $p->{lost_bytes} bytes, $p->{lost_names} names");

$t->done;
