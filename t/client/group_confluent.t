#!/usr/bin/env perl

# Consumer groups of confluent-kafka (librdkafka).

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

my $python = venv('confluent-kafka==2.16.1');

broker();

scenario(name => 'confluent', static => 1, cooperative => 1, stays => 1,
    command => sub { $python, '-B', here() . '/python/group.py', 'confluent',
        @_ });

finish();
