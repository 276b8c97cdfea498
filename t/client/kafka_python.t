#!/usr/bin/env perl

# kafka-python: topics, every codec, offsets by time.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

my $python = venv('kafka-python==3.0.12', 'lz4==4.4.5', 'python-snappy==0.7.3',
    'zstandard==0.25.0');

run_tap('kafka-python', $python, '-B', here() . '/python/kafka_python.py',
    broker());

finish();
