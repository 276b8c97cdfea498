#!/usr/bin/env perl

# franz-go: topics, every codec, offsets by time, a consumer that waits.

use strict;
use warnings;

use Test::More;

use Test::KafkaClient;

my $dir = gobin('go');
run_tap('franz-go', "$dir/clienttest", broker());

finish();
