#!/usr/bin/env perl

# confluent-kafka (librdkafka): topics, every codec, offsets by time.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

my $python = venv('confluent-kafka==2.16.1');

run_tap('confluent-kafka', $python, '-B', here() . '/python/confluent.py',
    broker());

finish();
