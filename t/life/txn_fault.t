#!/usr/bin/env perl

# kill -9 of a worker, and of everything, at each step of EndTxn: afterwards the
# transaction is wholly there, wholly undone, or goes on; a decision is carried
# out before its transactional id is answered, while others are; and a client
# that asks again gets the right answer, or its successor takes over.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Test::KafkaFault;
use Test::KafkaTxn;

# What is left at once: the transaction, or its outcome.
my @steps = (
    ['txn-asked', 'open'],
    ['txn-data-flushed', 'open'],
    ['journal-append-before', 'open'],
    ['log.append.written', 'any'],      # whole on the disk, but not published
    ['log.append.publish', 'any'],
    ['journal-append-after', 'decided'],
    ['txn-decided', 'decided'],
    ['txn-prepared', 'decided'],
    ['txn-marking', 'decided'],
    ['txn-marked', 'decided'],
    ['txn-marking:2', 'decided'],
    ['txn-marker-flushed', 'decided'],
    ['txn-marked:3', 'decided'],
    ['txn-all-marked', 'decided'],
    ['journal-append-before:2', 'decided'],
    ['journal-append-after:2', 'decided'],
    ['txn-completed', 'decided'],
);

my $t = Test::KafkaFault->new(workers => 2);

$t->allow(qr/exited on signal 9|Address already in use/);
$t->run;

my %x = map { $_ => Test::KafkaTxn->new($t, topic => "v$_", version => $_) }
    1, 2;
my $n = 0;


# Asks for the outcome, and is killed at the step.
sub kill_at {
    my ($x, $commit, $point, $how) = @_;

    $t->arm("$point?");

    my $c = $t->client;
    $c->send($x->end_request($commit));
    my $pid = $t->held;
    ok($pid, "$point was reached");

    if ($how eq 'everything') {
        $t->kill_all;
        $t->disarm;
        $t->run;

    } else {
        $t->kill_worker($pid);
        $t->disarm;
        $t->wait_ready;
    }
}


for my $how ('a worker', 'everything') {
    for my $step (@steps) {
        my ($point, $left) = @$step;

        for my $version (1, 2) {
            my $x = $x{$version};
            my $commit = ($n + $version) % 3 != 0 || 0;

            # what is not committed has no data that must be flushed first
            $commit = 1 if $point eq 'txn-data-flushed';

            my $label = "$how, $point, version $version, "
                . ($commit ? 'commit' : 'abort');
            $n++;

            $x->begin("id-$n");
            kill_at($x, $commit, $point, $how);

            $x->survives($commit, $left, $n % 3, $label);
        }
    }
}


# --- a decision that is not carried out yet

for my $how ('a worker', 'everything') {
    for my $version (1, 2) {
        my $x = $x{$version};
        my $label = "$how, version $version, decided";

        $x->begin("id-" . ++$n);
        $t->arm('txn-prepared?');
        $t->client->send($x->end_request(1));
        my $pid = $t->held;

        # All that drive it wait before its markers, its own worker first.
        $t->arm("txn-marking-$x->{pid}?");

        if ($how eq 'everything') {
            $t->kill_all;
            $t->run;

        } else {
            $t->kill_worker($pid);
            $t->wait_ready;
        }

        ok($t->held($pid), "$label: it is driven");

        for (1, 2) {
            is($t->client->call($x->end_request(1))->{ErrorCode}, 51,
                "$label: who asks again has to wait");
            is($t->client->init_producer(transactional_id => $x->{name})
                ->{ErrorCode}, 51, "$label: and a successor, too");
        }

        is($x->visible(0), undef, "$label: its data is not seen");

        # Another one, in the same partitions: their readers wait for both.
        my $other = Test::KafkaTxn->new($t, topic => "v$version",
            version => $version);
        $other->begin("other-$n");
        is($other->end(1)->{ErrorCode}, 0, "$label: another id is served");
        is($other->offset, 7, "$label: its offsets are committed");
        is($t->client->produce("v$version", 0, Kafka::Batch::batch(
            records => ['plain']))->{ErrorCode}, 0, "$label: so are others");

        $t->disarm;
        ok($x->insist(sub { $x->seen eq 'committed' }),
            "$label: it is carried out");
        is($other->seen, 'committed', "$label: and the other is seen as well");
        is($x->end(1)->{ErrorCode}, 0, "$label: its client is answered");
    }
}

$t->done;
