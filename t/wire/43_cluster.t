#!/usr/bin/env perl

# What tools ask of a cluster, from a cluster of one: elections, reassignments,
# log directories, the quorum, features, delegation tokens.

use strict;
use warnings;

use Test::More;

use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "cluster-$$";
my $none = "no-such-$$";

$c->create_topic($name, 2);

my $cluster = $c->call('DescribeCluster', 0, {});
my $node = $cluster->{Brokers}[0]{BrokerId};


# "index:code" of a list of partitions
sub codes {
    my ($list, $key) = @_;
    return join ' ', map $_->{ $key || 'PartitionIndex' } . ":$_->{ErrorCode}",
        @{$list};
}


# ---- ElectLeaders

for my $v (0 .. 2) {
    my $r = $c->call('ElectLeaders', $v, { TopicPartitions => [
        { Topic => $name, Partitions => [0, 1, 2] },
        { Topic => $none, Partitions => [0] }] });
    is($r->{ErrorCode} // 0, 0, "ElectLeaders v$v");
    is(join(' | ', map codes($_->{PartitionResult}, 'PartitionId'),
        @{ $r->{ReplicaElectionResults} }), '0:84 1:84 2:3 | 0:3',
        "v$v: not needed, or no such partition");

    $r = $c->call('ElectLeaders', $v, { TopicPartitions => undef });
    is_deeply($r->{ReplicaElectionResults}, [],
        "v$v: of all, those that had an election");
}

is($c->call('ElectLeaders', 1, { ElectionType => 1, TopicPartitions => [
    { Topic => $name, Partitions => [1] }] })
    ->{ReplicaElectionResults}[0]{PartitionResult}[0]{ErrorCode}, 84,
    'an unclean election is not needed, either');
is($c->call('ElectLeaders', 1, { ElectionType => 2, TopicPartitions => [
    { Topic => $name, Partitions => [1] }] })->{ErrorCode}, 42,
    'an unknown type of election');


# ---- AlterPartitionReassignments, ListPartitionReassignments

for my $v (0 .. 1) {
    my $r = $c->call('AlterPartitionReassignments', $v, { Topics => [
        { Name => $name, Partitions => [
            { PartitionIndex => 0, Replicas => [$node] },
            { PartitionIndex => 1, Replicas => undef },
            { PartitionIndex => 2, Replicas => [$node] },
            { PartitionIndex => 0, Replicas => [$node + 1] },
            { PartitionIndex => 0, Replicas => [$node, $node + 1] },
            { PartitionIndex => 0, Replicas => [] }] },
        { Name => $none, Partitions => [
            { PartitionIndex => 0, Replicas => [$node] }] }] });
    is($r->{ErrorCode}, 0, "AlterPartitionReassignments v$v");
    is(join(' | ', map codes($_->{Partitions}), @{ $r->{Responses} }),
        '0:0 1:85 2:3 0:39 0:39 0:39 | 0:3',
        "v$v: here, nothing to cancel, unknown, elsewhere, not here alone");
}

my $r = $c->call('ListPartitionReassignments', 0, { Topics => undef });
is("$r->{ErrorCode} " . @{ $r->{Topics} }, '0 0', 'nothing is moved');
$r = $c->call('ListPartitionReassignments', 0, { Topics => [
    { Name => $name, PartitionIndexes => [0, 1] }] });
is("$r->{ErrorCode} " . @{ $r->{Topics} }, '0 0', 'nor one of these');


# ---- AlterReplicaLogDirs

my $dir = $c->call('DescribeLogDirs', 1, { Topics => [] })
    ->{Results}[0]{LogDir};

for my $v (1 .. 2) {
    $r = $c->call('AlterReplicaLogDirs', $v, { Dirs => [
        { Path => $dir, Topics => [
            { Name => $name, Partitions => [0, 1, 5] },
            { Name => $none, Partitions => [0] }] },
        { Path => "$dir-2", Topics => [
            { Name => $name, Partitions => [1] }] }] });
    is(join(' | ', map "$_->{TopicName} " . codes($_->{Partitions}),
        @{ $r->{Results} }), "$name 0:0 1:0 5:3 | $none 0:3 | $name 1:57",
        "AlterReplicaLogDirs v$v: there already, unknown, no such directory");
}


# ---- DescribeQuorum

for my $v (0 .. 2) {
    $r = $c->call('DescribeQuorum', $v, { Topics => [
        { TopicName => '__cluster_metadata', Partitions => [
            { PartitionIndex => 0 }, { PartitionIndex => 1 }] },
        { TopicName => $name, Partitions => [{ PartitionIndex => 0 }] }] });
    is($r->{ErrorCode}, 0, "DescribeQuorum v$v");
    is(join(' | ', map codes($_->{Partitions}), @{ $r->{Topics} }),
        '0:0 1:3 | 0:3', "v$v: the one partition that it is about");

    my $p = $r->{Topics}[0]{Partitions}[0];
    is($p->{LeaderId}, $node, "v$v: the leader");
    ok($p->{LeaderEpoch} >= 0, "v$v: its epoch");
    ok($p->{HighWatermark} > 0, "v$v: the journal has records");
    is(join(' ', map $_->{ReplicaId}, @{ $p->{CurrentVoters} }), $node,
        "v$v: one voter");
    ok($p->{CurrentVoters}[0]{LogEndOffset} >= $p->{HighWatermark},
        "v$v: its log's end");
    is_deeply($p->{Observers}, [], "v$v: nobody looks on");

    next if $v < 2;
    is(join(' ', map { my $n = $_; map "$n->{NodeId} $_->{Host}:$_->{Port}",
        @{ $n->{Listeners} } } @{ $r->{Nodes} }),
        join(' ', $node, map "$_->{Host}:$_->{Port}",
        @{ $cluster->{Brokers} }), 'v2: where it listens');
}


# ---- features

$r = $c->call('ApiVersions', 3, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1' });
is($r->{FinalizedFeaturesEpoch}, 0, 'features are finalized');
my ($f) = grep $_->{Name} eq 'metadata.version', @{ $r->{FinalizedFeatures} };
ok($f && $f->{MaxVersionLevel} > 0, 'the level of metadata');
my $level = $f->{MaxVersionLevel};
is(scalar(grep $_->{MinVersion} < 1, @{ $r->{SupportedFeatures} }), 0,
    'version 3 shows no feature from level 0');

for my $v (0 .. 2) {
    $r = $c->call('UpdateFeatures', $v, { ValidateOnly => 1,
        FeatureUpdates => [
            { Feature => 'metadata.version', MaxVersionLevel => $level }] });
    is($r->{ErrorCode}, 0, "UpdateFeatures v$v: as it is");
    is(join(' ', map "$_->{Feature} $_->{ErrorCode}", @{ $r->{Results} }),
        'metadata.version 0', "UpdateFeatures v$v: by feature") if $v < 2;

    $r = $c->call('UpdateFeatures', $v, { ValidateOnly => 1,
        FeatureUpdates => [
            { Feature => 'metadata.version', MaxVersionLevel => $level },
            { Feature => 'no.such', MaxVersionLevel => 1 },
            { Feature => 'metadata.version', MaxVersionLevel => $level - 1 },
        ] });
    is($r->{ErrorCode}, 95, "UpdateFeatures v$v: unknown, and lower");
    like($r->{ErrorMessage}, qr/no\.such/, "UpdateFeatures v$v: says which");
    is_deeply($r->{Results} || [], [], "UpdateFeatures v$v: nothing done");
}


# ---- delegation tokens are off

for my $v (1 .. 3) {
    is($c->call('CreateDelegationToken', $v, {})->{ErrorCode}, 61,
        "CreateDelegationToken v$v");
    is($c->call('DescribeDelegationToken', $v, {})->{ErrorCode}, 61,
        "DescribeDelegationToken v$v");
}

for my $v (1 .. 2) {
    is($c->call('RenewDelegationToken', $v, { Hmac => 'x' })->{ErrorCode}, 61,
        "RenewDelegationToken v$v");
    is($c->call('ExpireDelegationToken', $v, { Hmac => 'x' })->{ErrorCode},
        61, "ExpireDelegationToken v$v");
}

$t->done;
