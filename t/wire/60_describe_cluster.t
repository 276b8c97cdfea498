#!/usr/bin/env perl

# DescribeCluster and DescribeTopicPartitions.

use strict;
use warnings;

use Test::More;

use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $cluster = $c->call('Metadata', 2, { Topics => [] })->{ClusterId};

for my $v (0 .. 2) {
    my $r = $c->call('DescribeCluster', $v, {});
    is("$r->{ErrorCode} $r->{ControllerId} $r->{ClusterId}", "0 1 $cluster",
        "v$v");
    is(join(' ', map "$_->{BrokerId} $_->{Host}:$_->{Port}",
        @{ $r->{Brokers} }), '1 127.0.0.1:' . $t->port(0), "v$v: one broker");
    is($r->{EndpointType}, 1, "v$v: brokers") if $v >= 1;
}

is($c->call('DescribeCluster', 1, { EndpointType => 2 })->{EndpointType}, 1,
    'it is an endpoint of brokers');
isnt($c->call('DescribeCluster', 1, { EndpointType => 2 })->{ErrorCode}, 0,
    'controllers are not asked here');

# ---- DescribeTopicPartitions

my @names = map "dtp-$_-$$", 'a' .. 'c';
$c->create_topic($_, 5) for @names;


sub ask {
    return $c->call('DescribeTopicPartitions', 0, { @_ });
}


my $r = ask(Topics => [map +{ Name => $_ }, reverse @names]);
is(join(' ', map "$_->{ErrorCode}:$_->{Name}:" . @{ $_->{Partitions} },
    @{ $r->{Topics} }), join(' ', map "0:$_:5", @names),
    'topics in order of name');
is($r->{NextCursor}, undef, 'all of it');
my $p = $r->{Topics}[0]{Partitions}[2];
is(join(' ', @$p{qw(ErrorCode PartitionIndex LeaderId)},
    @{ $p->{ReplicaNodes} }, @{ $p->{IsrNodes} }), '0 2 1 1 1', 'a partition');
ok($p->{LeaderEpoch} >= 0, 'its epoch');
is_deeply([@$p{qw(EligibleLeaderReplicas LastKnownElr OfflineReplicas)}],
    [[], [], []], 'lists that are empty, not null');

# Page by page.
my ($cursor, @seen);
for (1 .. 20) {
    $r = ask(Topics => [map +{ Name => $_ }, @names],
        ResponsePartitionLimit => 4, Cursor => $cursor);
    my $n = 0;
    for my $topic (@{ $r->{Topics} }) {
        $n += @{ $topic->{Partitions} };
        push @seen, map "$topic->{Name}/$_->{PartitionIndex}",
            @{ $topic->{Partitions} };
    }
    ok($n <= 4, 'at most four partitions a page');
    $cursor = $r->{NextCursor} or last;
}
is(join(' ', @seen), join(' ', map { my $x = $_; map "$x/$_", 0 .. 4 } @names),
    'page by page: each once');

is(ask(Topics => [{ Name => 'no-such' }])->{Topics}[0]{ErrorCode}, 3,
    'an unknown topic');

my $all = ask(Topics => []);
my %got = map { $_->{Name} => 1 } @{ $all->{Topics} };
is(scalar(grep $got{$_}, @names), 3, 'none named: all of them');

# What there is not counts for nothing, and has its operations, too.
$r = ask(Topics => [map +{ Name => "no-$_-$$" }, 1 .. 3],
    ResponsePartitionLimit => 1);
is(join(' ', map "$_->{ErrorCode}:$_->{TopicAuthorizedOperations}",
    @{ $r->{Topics} }), join(' ', ('3:3576') x 3), 'unknown topics');
is($r->{NextCursor}, undef, 'unknown topics: no cursor');
$r = ask(Topics => [{ Name => 'no name' }])->{Topics}[0];
is("@$r{qw(ErrorCode TopicAuthorizedOperations)}", '17 3576', 'a bad name');

# A cursor is one of the topics, and a partition.
for my $cursor ([$names[1], 0], ["no-$$", 0], ['', 0], [$names[0], -1]) {
    $r = ask(Topics => [map +{ Name => $_ }, @names[0, 2]], Cursor => {
        TopicName => $cursor->[0], PartitionIndex => $cursor->[1] });
    is(join(' ', map "$_->{ErrorCode}:$_->{Name}:" . @{ $_->{Partitions} },
        @{ $r->{Topics} }), "42:$names[0]:0 42:$names[2]:0",
        "cursor at @$cursor: INVALID_REQUEST");
}

$t->done;
