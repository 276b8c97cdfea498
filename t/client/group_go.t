#!/usr/bin/env perl

# Consumer groups of Go's clients: franz-go, sarama, segmentio's kafka-go.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

my $dir = gobin('go_groups');

broker();

# kafka-go's generation, and sarama's session, end with a connection; franz-go
# joins again, in its old place, when a heartbeat finds nobody.
my %can = (
    franz => { static => 1, cooperative => 1, stays => 'reload' },
    sarama => { static => 1 }, segmentio => {});

for my $name (sort keys %can) {
    subtest $name => sub {
        scenario(name => $name, %{ $can{$name} },
            command => sub { "$dir/$name", @_ });
    };
}

finish();
