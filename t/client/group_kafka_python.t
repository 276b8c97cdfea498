#!/usr/bin/env perl

# Consumer groups of kafka-python.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

my $python = venv('kafka-python==3.0.12');

broker();

scenario(name => 'kafka-python', static => 1, stays => 1, cooperative => 1,
    command => sub { $python, '-B', here() . '/python/group.py',
        'kafka-python', @_ });

finish();
