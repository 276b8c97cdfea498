#!/usr/bin/env perl

# Transactions of Java's kafka-clients, of both generations (KIP-890): zombies
# that have lost their partitions, and kill -9 of workers and of everything
# between the offsets and the end of their transaction.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaProgram;

tool('java', 'javac', 'mvn');
my %jars = map { $_ => jars("$_.xml") } qw(clients clients-3.7 clients-2.8);

broker();

for my $name (sort keys %jars) {
    my $p = Test::KafkaProgram->start(name => $name,
        log => nginx()->dir . "/$name.err", on => \&heard,
        command => [java($jars{$name}), here() . '/java/TransactionTest.java',
            bootstrap()]);

    ok($p->until(sub { $p->ended }, 900), "$name ends") or $p->kill9;
    is($p->status, 0, "$name: exit code")
        or diag(nginx()->read_file("$name.err"));
    is($p->said(qr/^1\.\.(\d+)/), scalar(grep /^ok /, $p->lines),
        "$name: ran all of its tests");

    # one transaction of the first round's last producer
    my $c = nginx()->client;
    my $id = 'round0-' . $p->pid . '-heir';
    my $of = $c->call('DescribeTransactions', 0, { TransactionalIds => [$id] })
        ->{TransactionStates}[0];
    is($of->{TransactionState}, 'CompleteCommit', "$name: as the broker has it");
    is($of->{ProducerEpoch}, $name eq 'clients' ? 1 : 0,
        "$name: whether an end raises the epoch");
}

finish();


sub heard {
    my ($p, $line) = @_;

    if ($line =~ /^(not )?ok \d+ - (.*)/) {
        ok(!$1, $p->name . ": $2");
    } elsif ($line =~ /^# (.*)/) {
        diag($p->name . ": $1");
    } elsif ($line =~ /^please kill (\S+)/) {
        crash($1);
        $p->say('done');
    }
}

# Each worker in turn, so that none is left that knew a connection of before.
sub crash {
    my ($what) = @_;
    my $t = nginx();

    if ($what eq 'everything') {
        $t->kill_all;
        $t->run;
    } else {
        $t->kill_worker($_) for $t->workers;
        $t->wait_ready;
    }
}
