#!/usr/bin/perl

# The checker is checked: with one sync left out, a power cut that takes all
# that was not synced must show a loss.
#
#   CASES=journal,root   only these

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin;

use Power;
use Test::KafkaNginx qw/ wait_for /;
use Test::More;
use Time::HiRes qw/ sleep /;

my @cases = (
    ['none', undef],
    ['data', '[!@.]*.log'],
    ['rolled', 'rolled'],
    ['directory', '[!@.]*/'],
    ['root', './'],
    ['journal', '@journal-0/*.log'],
    ['commits', '@journal-0/*.log'],
    ['snapshot', '@journal-0/*.tmp,@journal-0/*.state'],
);

my %wanted = map { $_ => 1 } split /,/, $ENV{CASES} || '';

# Runs and cuts until something is missed: what was, or undef.

sub loss {
    my ($name, $p, $load) = @_;

    prepare($name, $p, $load);

    for my $n (1 .. ($p->{break} ? 10 : 4)) {
        $load->tell('go');
        sleep 1;
        wait_for(sub { left_out($p) }, 30) if $p->{break};
        promised($load, 20);
        $p->cut('strict', $n);
        $load->tell('pause');

        # A broker that stays closed is a loss noticed as well.
        $p->start(ready => 0);

        return join '; ', $load->faults if $load->tell('check') ne 'ok';
    }

    return undef;
}

# How many syncs were, up to now.

sub left_out {
    my ($p) = @_;

    return ($p->rebuild('broken', $p->{log}) =~ /broken=(\d+)/)[0];
}

# Until that many more promises were given, on however slow a machine.

sub promised {
    my ($load, $n) = @_;
    my $given = sub {
        my $s = $load->stats;
        my $sum = 0;
        $sum += $s->{$_} // 0 for qw/ acked created commits /;
        return $sum;
    };
    my $before = $given->();

    wait_for(sub { $given->() >= $before + $n }, 30);
}

# Failures here are the test's, not what it looks for.

sub prepare {
    my ($name, $p, $load) = @_;

    # Topics and the groups' first offsets are safe.
    if ($name eq 'commits') {
        my $break = delete $p->{break};
        $p->start;
        $load->tell('groups 2') eq 'ok' or die "no groups\n";
        $load->tell('go');
        sleep 1;
        promised($load, 20);
        $load->tell('pause');
        $p->cut('keep', 1);
        $p->{break} = $break;
        $p->start;
        return;
    }

    # The journal's own directory was made long ago.
    if ($name eq 'root') {
        my $break = delete $p->{break};
        $p->start;
        $p->cut('keep', 1);
        $p->{break} = $break;
    }

    $p->start;
    $load->tell('setup') eq 'ok' or die "no topics are made\n";

    # The journal is compacted at a start; the second time what is below the
    # first snapshot goes.
    if ($name eq 'snapshot') {
        for my $n (1 .. 2) {
            $load->tell('storm') eq 'ok' or die "no storm\n";
            $p->restart;
            wait_for(sub {
                (() = $p->t->error_log =~ /journal compacted/g) >= $n
            }, 60) or die "no snapshot was made\n";
        }
    }
}

for my $case (@cases) {
    my ($name, $break) = @$case;

    next if %wanted && !$wanted{$name};

    my $p = Power->new(break => $break, workers => 2);
    my $load = Soak->load(port => $p->port, seed => 1);
    $load->tell('patience 5') if $break;
    my $loss = loss($name, $p, $load);

    if ($break) {
        ok(defined $loss, "$name: a sync left out is noticed");
        like($loss, qr/is in force, commit \d+ of \d+ had been acknowledged/,
            'commits: an offset went back') if $name eq 'commits';
        cmp_ok($p->{broken}, '>', 0, "$name: some were left out");
        diag("$name: " . substr($loss, 0, 160)) if defined $loss;

    } else {
        is($loss, undef, 'with all of them nothing is');
    }

    $load->quit;
    $p->t->kill_all if $p->t->processes;
    $p->t->clean;
}

done_testing();
