#!/usr/bin/env perl

# DeleteRecords right behind a producer that did not wait for the disk.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(workers => 2)->run;
my $c = $t->client;
my $name = "trim-$$";
my $batch = Kafka::Batch::batch(records => ['a' .. 'e']);

$c->create_topic($name, 1);

my (@codes, @marks);

for my $n (1 .. 20) {
    my $offset = $n % 2 ? $n * 5 - 2 : -1;

    # one behind the other, so that no flush can be over in between
    $c->send('Produce', 9, { Acks => 1, TimeoutMs => 60_000, TopicData => [{
        Name => $name, PartitionData => [{ Index => 0,
            Records => $batch }] }] });
    $c->send('DeleteRecords', 2, { TimeoutMs => 60_000, Topics => [{
        Name => $name, Partitions => [{ PartitionIndex => 0,
            Offset => $offset }] }] });

    my $r = $c->recv;
    push @codes, $r->{Responses}[0]{PartitionResponses}[0]{ErrorCode};
    $r = $c->recv->{Topics}[0]{Partitions}[0];
    push @codes, $r->{ErrorCode};
    push @marks, $r->{LowWatermark};
}

is("@codes", join(' ', (0) x 40), 'what was acknowledged can be deleted');
is("@marks", join(' ', map { $_ % 2 ? $_ * 5 - 2 : $_ * 5 } 1 .. 20),
    'up to the offset asked for, or the end');

my $r = $c->call('DeleteRecords', 2, { TimeoutMs => 60_000, Topics => [{
    Name => $name, Partitions => [{ PartitionIndex => 0,
        Offset => 101 }] }] })->{Topics}[0]{Partitions}[0];
is("$r->{ErrorCode} $r->{LowWatermark}", '1 -1', 'not beyond the end');

$t->done;
