#!/usr/bin/env perl

# Starting, stopping, starting again: what is found, and what a start that was
# not clean changes (the leader epoch), for each way to stop.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time);

use Kafka::Batch;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 2)->run;
my $batch = Kafka::Batch::batch(records => ['a', 'b']);

is($t->client->create_topic('t', 3)->{ErrorCode}, 0, 'a topic');


sub epoch {
    return $t->client->call('Metadata', 9, { Topics => [{ Name => 't' }] })
        ->{Topics}[0]{Partitions}[0]{LeaderEpoch};
}


sub produce {
    my (%o) = @_;

    return $t->client->produce('t', 0, $batch, %o)->{ErrorCode};
}


sub end {
    return $t->client->list_offset('t', 0, -1)->{Offset};
}


is(epoch(), 0, 'the first epoch');
is(produce(), 0, 'produced');

for my $how (qw(quit stop)) {
    my ($before, $end) = (epoch(), end());

    is(produce(acks => 1), 0, "$how: produced without waiting for the disk");
    ok($t->$how, "$how: it ends");
    ok(-e $t->data . '/.kafka_cleanshutdown', "$how: the directory is clean");

    $t->run;
    is(epoch(), $before, "$how: the epoch stays");
    is(end(), $end + 2, "$how: the data is there");
    ok(!-e $t->data . '/.kafka_cleanshutdown', "$how: no longer marked");
}

{
    my ($before, $end) = (epoch(), end());

    is(produce(), 0, 'kill: produced');
    $t->kill_all;

    $t->run;
    is(epoch(), $before + 1, 'kill: the epoch is higher');
    is(end(), $end + 2, 'kill: the data is there');

    is(produce(), 0, 'kill: and takes more');
    is(end(), $end + 4, 'kill: at its end');
}

# Twice in a row without a start in between that was any use.
$t->kill_all;
$t->run;
$t->quit;

# A start with everything in place.
{
    my $start = time;
    $t->run;
    my $took = time - $start;
    my ($ms) = $t->error_log =~ /.*open in (\d+) ms/s;

    note("open in $ms ms, answered after ", int($took * 1000), ' ms');
}

# Every worker is given up and respawned; the zone outlives them.
{
    my ($before, $end) = (epoch(), end());

    is(produce(), 0, 'workers: produced');

    my @workers = $t->workers;
    kill 'STOP', @workers;
    $t->kill_worker($_, no_wait => 1) for @workers;
    ok(wait_for(sub {
        my @now = $t->workers;
        return @now == 2 && !grep { my $w = $_; grep $_ == $w, @workers } @now;
    }, 30), 'workers: all are new');

    $t->wait_ready;
    is(end(), $end + 2, 'workers: the data is there');
    is(epoch(), $before, 'workers: nothing was recovered');
}

$t->done;
