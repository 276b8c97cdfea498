#!/usr/bin/env perl

# Consumer groups of aiokafka.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

my $python = venv('aiokafka==0.14.0');

broker();

scenario(name => 'aiokafka', static => 1, stays => 1,
    command => sub { $python, '-B', here() . '/python/group.py', 'aiokafka',
        @_ });

finish();
