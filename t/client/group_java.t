#!/usr/bin/env perl

# Consumer groups of Java's kafka-clients, classic protocol.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

tool('java', 'javac', 'mvn');
my $jars = jars('clients.xml');

broker();
my $classes = nginx()->dir . '/classes';
system('javac', '-cp', $jars, '-d', $classes, here() . '/java/GroupMember.java')
    == 0 or die 'GroupMember.java cannot be compiled';

scenario(name => 'java', static => 1, cooperative => 1, stays => 1,
    command => sub { 'java', '-Xmx128m', '-XX:TieredStopAtLevel=1',
        '-XX:+UseSerialGC', '-cp', "$classes:$jars", 'GroupMember', @_ });

finish();
