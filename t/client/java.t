#!/usr/bin/env perl

# Java's kafka-clients: topics, every codec, seek, time, shapes of records.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

tool('java', 'javac', 'mvn');
my $jars = jars('clients.xml');

run_tap('kafka-clients', 'java', '-Xmx384m', '-cp', $jars,
    here() . '/java/ClientTest.java', broker());

finish();
