#!/usr/bin/env perl

# franz-go: topics, every codec, offsets by time, a consumer that waits.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

tool('go');

my $dir = cache() . '/go';
my $log = "$dir.log";

# go.sum is made beside a copy: the registry is asked on the first run only.
system('mkdir', '-p', $dir) == 0 or die;
system('cp', here() . '/go/go.mod', here() . '/go/main.go', here() . '/go/go.sum',
    $dir) == 0 or die;

system("cd $dir && GOFLAGS=-mod=mod go build -o clienttest . </dev/null"
    . " >$log 2>&1") == 0
    or plan(skip_all => "franz-go can't be built here; see $log");

run_tap('franz-go', "$dir/clienttest", broker());

finish();
