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
use Soak qw/ dice /;
use Test::More;
use Time::HiRes qw/ sleep /;

my $tries = 4;

my @cases = (
    ['none', undef],
    ['data', '[!@.]*.log'],
    ['rolled', 'rolled'],
    ['directory', '[!@.]*/'],
    ['root', './'],
    ['journal', '@journal-0/*.log'],
    ['snapshot', '@journal-0/*.tmp,@journal-0/*.state'],
);

my %wanted = map { $_ => 1 } split /,/, $ENV{CASES} || '';

# Runs and cuts until something is missed: what was, or undef.

sub loss {
    my ($name, $p, $load) = @_;

    eval { $p->start; 1 } or return "it does not start: $@";
    $load->tell('setup') eq 'ok' or return 'no topics are made';

    for my $n (1 .. $tries) {

        # A graceful stop makes a snapshot; the journal before it goes.
        my $stop = $name eq 'snapshot';

        $load->tell('storm') if $stop;
        $load->tell('go');
        sleep 1;
        $p->cut('strict', $n, quit => $stop);
        $load->tell('pause');

        eval { $p->start; 1 } or return "it does not start: $@";

        return join '; ', $load->faults if $load->tell('check') ne 'ok';
    }

    return undef;
}

for my $case (@cases) {
    my ($name, $break) = @$case;

    next if %wanted && !$wanted{$name};

    my $p = Power->new(break => $break, workers => 2);
    my $load = Soak->load(port => $p->port, seed => 1);
    my $loss = loss($name, $p, $load);

    if ($break) {
        ok(defined $loss, "$name: a sync left out is noticed");
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
