#!/usr/bin/env perl

# rskafka: topics, every codec, offsets, deleted records, and a reader that keeps
# its position in a topic.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

tool('cargo');

my $dir = cache() . '/rust';
my $log = "$dir.log";

# The registry is asked on the first run only.
system('mkdir', '-p', $dir) == 0 or die;
system("cp -R " . here() . "/rust/. $dir") == 0 or die;

system("cd $dir && cargo build --locked </dev/null >$log 2>&1") == 0
    or plan(skip_all => "rskafka can't be built here; see $log");

run_tap('rskafka', "$dir/target/debug/clienttest", broker());

finish();
