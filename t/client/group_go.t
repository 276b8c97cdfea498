#!/usr/bin/env perl

# Consumer groups of Go's clients: franz-go, sarama, segmentio's kafka-go.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

tool('go');

my $dir = cache() . '/go_groups';
my $log = "$dir.log";

system('mkdir', '-p', $dir) == 0 or die;
system("cp -R " . here() . "/go_groups/. $dir") == 0 or die;
system("cd $dir && mkdir -p bin && GOFLAGS=-mod=mod go build -o bin ./..."
    . " </dev/null >$log 2>&1") == 0
    or plan(skip_all => "Go's clients can't be built here; see $log");

broker();

# kafka-go's generation, and sarama's session, end with a connection; franz-go
# joins again, in its old place, when a heartbeat finds nobody.
my %can = (
    franz => { static => 1, cooperative => 1, stays => 'reload' },
    sarama => { static => 1 }, segmentio => {});

for my $name (sort keys %can) {
    subtest $name => sub {
        scenario(name => $name, %{ $can{$name} },
            command => sub { "$dir/bin/$name", @_ });
    };
}

finish();
