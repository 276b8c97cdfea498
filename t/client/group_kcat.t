#!/usr/bin/env perl

# Consumer groups of kcat -G (librdkafka), which commits by itself.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

tool('kcat');
broker();


sub command {
    my ($bootstrap, $group, $topic, @options) = @_;
    my %o = map { split /=/, $_, 2 } @options;

    return ('kcat', '-b', $bootstrap, '-E', '-G', $group, '-u', '-f',
        'record %p %s\n', '-X', 'auto.offset.reset=earliest',
        '-X', 'auto.commit.interval.ms=100',
        '-X', 'session.timeout.ms=' . ($o{instance} ? 60_000 : 10_000),
        '-X', 'heartbeat.interval.ms=300',
        '-X', 'reconnect.backoff.max.ms=500',
        ($o{instance} ? ('-X', "group.instance.id=$o{instance}") : ()), $topic);
}


# "% Group g rebalanced (memberid x): assigned: t [0], t [1]"
sub parse {
    my ($line) = @_;

    if ($line =~ /^% Group .* rebalanced .*: (assigned|revoked): (.*)/) {
        my ($what, $text) = ($1, $2);
        return "$what " . join ',', $text =~ /\[(\d+)\]/g;
    }

    return $line =~ /(record \d+ \S+)/ ? $1 : ();
}


scenario(name => 'kcat', static => 1, stays => 1, stderr => 1,
    no_commands => 1, command => \&command, parse => \&parse);

finish();
