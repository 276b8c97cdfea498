#!/usr/bin/perl

# The power goes at each step of EndTxn.  Without what was not synced, and with
# some of it, the transaction is wholly there, wholly undone, or goes on; and its
# client, or the next one, gets the right answer.

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin;

use Power;
use Test::KafkaTxn;
use Test::More;

# What is left without anything that was not synced.
my @steps = (
    ['txn-asked', 'open'],
    ['txn-data-flushed', 'open'],
    ['journal-append-before', 'open'],
    ['log.append.written', 'open'],
    ['journal-append-after', 'open'],
    ['txn-decided', 'any'],             # a thread flushes it meanwhile
    ['txn-prepared', 'decided'],
    ['txn-marking:2', 'decided'],
    ['txn-marked', 'decided'],
    ['txn-marked:3', 'decided'],
    ['txn-marker-flushed', 'decided'],
    ['txn-all-marked', 'decided'],
    ['journal-append-before:2', 'decided'],
    ['journal-append-after:2', 'decided'],
    ['txn-completed', 'decided'],
);

my $p = Power->new(faults => 1, workers => 2);
my $t = $p->t;

$p->start;

my ($n, $lost, %x) = (0, 0);

for my $version (1, 2) {
    $x{$version} = Test::KafkaTxn->new($t, topic => "v$version",
        version => $version);
}

for my $mode (qw(strict random)) {
    for my $step (@steps) {
        my ($point, $left) = @$step;
        my $version = 1 + $n % 2;
        my $x = $x{$version};
        my $commit = $n % 5 != 3 || $point eq 'txn-data-flushed' || 0;
        my $label = "$mode, $point, version $version, "
            . ($commit ? 'commit' : 'abort');
        $n++;

        # acks=1 is no promise yet while the data is not flushed
        $x->{acks} = $left eq 'open' && !($commit && $point =~ /append/)
            ? -1 : 1;
        $x->begin("id-$n");
        $t->arm("$point?");

        my $c = $t->client;
        $c->send($x->end_request($commit));
        ok($t->held, "$point was reached");

        $lost += $p->cut($mode, $n)->{lost_bytes};
        $t->disarm;
        $p->start;

        # what nobody has heard of may have been durable by chance
        $left = 'any' if $left eq 'open' && $mode ne 'strict';
        $x->survives($commit, $left, $n % 3, $label);
    }
}

cmp_ok($lost, '>', 0, 'something was lost');
is(join("\n", @{ $p->{differences} }), '', 'the records were complete');

$t->done;
