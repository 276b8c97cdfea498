#!/usr/bin/env perl

# Consumer groups of kafkajs.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;
use Test::KafkaGroup;

tool('node', 'npm');

my $dir = cached('npm-kafkajs-2.2.4', 'kafkajs 2.2.4', sub {
    return system("cd $_[0] && npm init -y </dev/null >$_[0].log 2>&1"
        . ' && npm install --silent --ignore-scripts kafkajs@2.2.4'
        . " </dev/null >>$_[0].log 2>&1") == 0;
});

broker();
$ENV{NODE_PATH} = "$dir/node_modules";

# Its runner joins anew when a connection of its has gone.
scenario(name => 'kafkajs',
    command => sub { 'node', here() . '/js/group.js', @_ });

finish();
