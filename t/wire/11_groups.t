#!/usr/bin/env perl

# Classic groups by hand: members on different workers join, get assignments,
# beat, commit, leave; codes of what is wrong; what a restart keeps.

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Wire;
use Test::KafkaNginx;

our %config;                            # caching.t has its own

my $t = Test::KafkaNginx->new(workers => 3,
    config => { 'group.min.session.timeout.ms' => 1000, %config })->run;

my @worker = $t->workers;
my @c = map $t->client(worker => $_), @worker;
my $topic = "groups-$$";

is($c[0]->create_topic($topic, 4)->{ErrorCode}, 0, 'a topic');

# --- one member, every version of everything

for my $v (0 .. 6) {
    my $r = $c[0]->call('FindCoordinator', $v,
        $v < 4 ? { Key => 'g', KeyType => 0 }
               : { KeyType => 0, CoordinatorKeys => ['g'] });
    my $x = $v < 4 ? $r : $r->{Coordinators}[0];
    is_deeply([@$x{qw(ErrorCode NodeId Port)}], [0, 1, $t->port],
        "FindCoordinator v$v: this broker");
}

my %internal = map { $_->{Name} => $_ } grep $_->{IsInternal},
    @{ $c[1]->call('Metadata', 9, { Topics => undef })->{Topics} };
is_deeply([map [@$_{qw(Name ErrorCode)}, scalar @{ $_->{Partitions} }],
    values %internal], [['__consumer_offsets', 0, 1]],
    'FindCoordinator: makes the internal topic appear, to all workers');
is($c[2]->fetch('__consumer_offsets', 0, 0)->{ErrorCode}, 0,
    'which can be fetched from');

$c[0]->call('FindCoordinator', 1, { Key => 'x', KeyType => 1 });
is($c[2]->call('Metadata', 9, { AllowAutoTopicCreation => 0,
    Topics => [{ Name => '__transaction_state' }] })->{Topics}[0]{IsInternal},
    1, 'and that of transactions');

# Nothing writes to them but what does not exist here.

my @parts = ({ Name => '__consumer_offsets', Partitions => [0],
    PartitionIndexes => [0] });
my $p = $c[0]->init_producer(transactional_id => "internal-$$");

is_deeply([map $_->{PartitionErrorCode}, map @{ $_->{ResultsByPartition} },
    @{ $c[0]->call('AddPartitionsToTxn', 3, { V3AndBelowTransactionalId =>
        "internal-$$", V3AndBelowProducerId => $p->{ProducerId},
        V3AndBelowProducerEpoch => $p->{ProducerEpoch},
        V3AndBelowTopics => [{ Name => '__consumer_offsets',
            Partitions => [0, 99] }, { Name => $topic, Partitions => [0] }] })
    ->{ResultsByTopicV3AndBelow} }], [29, 29, 55],
    'AddPartitionsToTxn: none of an internal topic');
is($c[0]->call('DeleteRecords', 2, { TimeoutMs => 60_000, Topics => [{
    Name => '__consumer_offsets', Partitions => [{ PartitionIndex => 0,
    Offset => -1 }] }] })->{Topics}[0]{Partitions}[0]{ErrorCode}, 17,
    'DeleteRecords: nor its records');
$c[0]->call('WriteTxnMarkers', 1, { Markers => [{ ProducerId => 7,
    ProducerEpoch => 0, TransactionResult => 0, CoordinatorEpoch => 0,
    Topics => \@parts }] });
is($c[0]->list_offset('__consumer_offsets', 0, -1)->{Offset}, 0,
    'WriteTxnMarkers: it stays empty');

my $x = $c[0]->call('FindCoordinator', 6, { KeyType => 2, CoordinatorKeys =>
    ['g', 'g:AAAAAAAAAAAAAAAAAAAAAA:0', 'g:AAAA:0', 'g:AAAAAAAAAAAAAAAAAAAAAA:'],
    });
is_deeply([map $_->{ErrorCode}, @{ $x->{Coordinators} }], [42, 0, 42, 42],
    'FindCoordinator: keys of share partitions');

for my $v (0 .. 9) {
    my $g = "one-$v";
    my $r = join_group($c[0], $g, version => $v);

    if ($v >= 4) {
        is($r->{ErrorCode}, 79, "JoinGroup v$v: asks for the member id");
        like($r->{MemberId}, qr/^wire-.{36}$/, "JoinGroup v$v: and gives one");
        $r = join_group($c[0], $g, version => $v, member => $r->{MemberId});
    }

    is_deeply([@$r{qw(ErrorCode GenerationId)}], [0, 1], "JoinGroup v$v");
    is($r->{Leader}, $r->{MemberId}, "JoinGroup v$v: the leader");
    is($r->{Members}[0]{Metadata}, 'meta', "JoinGroup v$v: metadata");

    my $sv = $v < 5 ? $v : 5;
    my $s = sync_group($c[0], $g, $r, version => $sv,
        assign => { $r->{MemberId} => "assigned $v" });
    is_deeply([@$s{qw(ErrorCode Assignment)}], [0, "assigned $v"],
        "SyncGroup v$sv");

    my $hv = $v < 4 ? $v : 4;
    is(beat($c[1], $g, $r, version => $hv), 0,
        "Heartbeat v$hv, by another worker");
    is(beat($c[1], $g, { %$r, GenerationId => 7 }, version => $hv), 22,
        "Heartbeat v$hv: wrong generation");
    is(beat($c[1], $g, { %$r, MemberId => 'x' }, version => $hv), 25,
        "Heartbeat v$hv: unknown member");

    my $lv = $v < 5 ? $v : 5;
    my $l = $c[2]->call('LeaveGroup', $lv, $lv < 3
        ? { GroupId => $g, MemberId => $r->{MemberId} }
        : { GroupId => $g, Members => [{ MemberId => $r->{MemberId} }] });
    is($l->{ErrorCode}, 0, "LeaveGroup v$lv");
    is(beat($c[0], $g, $r), 25, "LeaveGroup v$lv: the member has gone");
}

# --- refused

is(join_group($c[0], '')->{ErrorCode}, 24, 'no group id');
is(join_group($c[0], 'bad', session => 500)->{ErrorCode}, 26,
    'session timeout too short');
is(join_group($c[0], 'bad', member => 'nobody')->{ErrorCode}, 25,
    'a member that nobody knows');
is(join_group($c[0], 'bad', protocols => [])->{ErrorCode}, 23, 'no protocol');
is(beat($c[0], 'nothing', { MemberId => 'x', GenerationId => 1 }), 25,
    'no such group');

# --- two members on two workers

my $g = "two-$$";
my $a = first_join($c[0], $g);
my $sa = sync_group($c[0], $g, $a, assign => { $a->{MemberId} => 'all' });
is($sa->{Assignment}, 'all', 'one member has all');

my $b = join_group($c[1], $g);
is($b->{ErrorCode}, 79, 'a second member');
send_join($c[1], $g, member => $b->{MemberId});

ok(wait_code(sub { beat($c[2], $g, $a) }, 27),
    'the first one is told to join again, by a third worker');

$a = join_group($c[0], $g, member => $a->{MemberId});
$b = $c[1]->recv;
is_deeply([$a->{GenerationId}, $b->{GenerationId}], [2, 2], 'generation 2');
is($a->{Leader}, $a->{MemberId}, 'the leader stays');
is(scalar @{ $a->{Members} }, 2, 'the leader sees both');
is(scalar @{ $b->{Members} }, 0, 'the follower sees none');

send_sync($c[1], $g, $b);
ok($c[1]->silent(0.2), 'the follower waits for the leader');
$sa = sync_group($c[0], $g, $a,
    assign => { $a->{MemberId} => 'half', $b->{MemberId} => 'rest' });
my $sb = $c[1]->recv;
is_deeply([$sa->{Assignment}, $sb->{Assignment}], ['half', 'rest'],
    'each has its own');

# --- offsets, by every worker

for my $v (2 .. 9) {
    my $r = commit($c[$v % 3], $g, $a, $v, 100 + $v);
    is($r->{ErrorCode}, 0, "OffsetCommit v$v");

    for my $fv (grep { $_ < 8 } 1 .. 9) {
        next unless $fv == 1 || $fv == $v;
        my $f = $c[($v + 1) % 3]->call('OffsetFetch', $fv, { GroupId => $g,
            Topics => [{ Name => $topic, PartitionIndexes => [1, 2] }] });
        my @p = @{ $f->{Topics}[0]{Partitions} };
        is_deeply([map $_->{CommittedOffset}, @p], [100 + $v, -1],
            "OffsetFetch v$fv");
        is($p[0]{Metadata}, "m$v", "OffsetFetch v$fv: metadata");
        is($p[0]{CommittedLeaderEpoch}, $v >= 6 ? 0 : -1,
            "OffsetFetch v$fv: leader epoch") if $fv >= 5;
    }
}

for my $fv (1 .. 10) {
    my %want = (GroupId => $g, Topics => []);
    my $f = $c[$fv % 3]->call('OffsetFetch', $fv,
        $fv < 8 ? \%want : { Groups => [\%want] });
    is_deeply(($fv < 8 ? $f : $f->{Groups}[0])->{Topics}, [],
        "OffsetFetch v$fv: no topics are not all");
}

for my $fv (8, 9) {
    my $f = $c[2]->call('OffsetFetch', $fv, { RequireStable => 1, Groups => [
        { GroupId => $g, Topics => undef }, { GroupId => 'none',
          Topics => [{ Name => $topic, PartitionIndexes => [0] }] }] });
    is($f->{Groups}[0]{Topics}[0]{Partitions}[0]{CommittedOffset}, 109,
        "OffsetFetch v$fv: all of a group");
    is($f->{Groups}[1]{Topics}[0]{Partitions}[0]{CommittedOffset}, -1,
        "OffsetFetch v$fv: an unknown group has none");
}

my $id = $c[0]->topic_id($topic);
my $r = $c[0]->call('OffsetCommit', 10, { GroupId => $g,
    GenerationIdOrMemberEpoch => 2, MemberId => $a->{MemberId}, Topics => [
    { TopicId => $id, Partitions => [{ PartitionIndex => 3,
      CommittedOffset => 7, CommittedMetadata => '' }] },
    { TopicId => "\1" x 16, Partitions => [{ PartitionIndex => 0,
      CommittedOffset => 7, CommittedMetadata => '' }] }] });
is_deeply([map $_->{Partitions}[0]{ErrorCode}, @{ $r->{Topics} }], [0, 100],
    'OffsetCommit v10: by topic ids');

is(commit($c[0], $g, { %$a, GenerationId => 1 }, 8, 1)->{ErrorCode}, 22,
    'a commit of an older generation');
is(commit($c[0], $g, { %$a, MemberId => 'x' }, 8, 1)->{ErrorCode}, 25,
    'a commit of a stranger');
is(commit($c[0], $g, { GenerationId => -1, MemberId => '' }, 8, 1)
    ->{ErrorCode}, 25, 'a commit without a member, while members live');
is(commit($c[0], $g, $a, 8, 1, metadata => 'm' x 5000)->{ErrorCode}, 12,
    'metadata too long');
is(commit($c[0], $g, $a, 8, 1, topic => 'nothing')->{ErrorCode}, 3,
    'an unknown topic');
is(commit($c[0], "simple-$$", { GenerationId => -1, MemberId => '' }, 8, 5)
    ->{ErrorCode}, 0, 'a simple group');

# --- seen by the admin

for my $v (0 .. 6) {
    $r = $c[1]->call('DescribeGroups', $v, { Groups => [$g, 'none'] });
    my ($d, $none) = @{ $r->{Groups} };
    is_deeply([@$d{qw(ErrorCode GroupState ProtocolType ProtocolData)}],
        [0, 'Stable', 'consumer', 'range'], "DescribeGroups v$v");
    is_deeply([sort map $_->{MemberAssignment}, @{ $d->{Members} }],
        ['half', 'rest'], "DescribeGroups v$v: assignments");
    is($d->{Members}[0]{ClientHost}, '/127.0.0.1', "DescribeGroups v$v: host");
    is_deeply([@$none{qw(ErrorCode GroupState)}], [$v >= 6 ? 69 : 0, 'Dead'],
        "DescribeGroups v$v: a group that is not there");
}

for my $v (0 .. 5) {
    $r = $c[2]->call('ListGroups', $v, {});
    my ($d) = grep { $_->{GroupId} eq $g } @{ $r->{Groups} };
    is($d->{ProtocolType}, 'consumer', "ListGroups v$v");
    is($d->{GroupState}, 'Stable', "ListGroups v$v: state") if $v >= 4;
    is($d->{GroupType}, 'classic', "ListGroups v$v: type") if $v >= 5;
}

$r = $c[2]->call('ListGroups', 5, { StatesFilter => ['Empty'] });
ok(!(grep { $_->{GroupId} eq $g } @{ $r->{Groups} }), 'a filter of states');

for my $v (0 .. 3) {
    $r = $c[0]->call('DeleteGroups', $v, { GroupsNames => [$g, 'none'] });
    is_deeply([map $_->{ErrorCode}, @{ $r->{Results} }], [68, 69],
        "DeleteGroups v$v: refused");
}

# --- a worker dies, all die: members go on without a rebalance

$t->kill_worker($worker[0]);
ok(wait_code(sub { beat($c[1], $g, $b) }, 0), 'a worker died: goes on');

$_->close for @c;
$t->kill_all;
$t->run;
@c = map $t->client, 0 .. 2;

is(beat($c[0], $g, $a), 0, 'after kill -9 of all: the leader goes on');
is(beat($c[1], $g, $b), 0, 'and the other one');
$r = $c[2]->call('OffsetFetch', 7, { GroupId => $g,
    Topics => [{ Name => $topic, PartitionIndexes => [1, 3] }] });
is_deeply([map $_->{CommittedOffset}, @{ $r->{Topics}[0]{Partitions} }],
    [109, 7], 'and its offsets are there');
is(commit($c[2], $g, $b, 8, 200)->{ErrorCode}, 0, 'and it commits');

# --- the last member leaves while an id that was given is unused

my $empty = "empty-$$";
$a = first_join($c[0], $empty);
sync_group($c[0], $empty, $a, assign => { $a->{MemberId} => 'all' });
is(join_group($c[1], $empty)->{ErrorCode}, 79, 'an id for a newcomer');
$c[2]->call('LeaveGroup', 3, { GroupId => $empty, Members => [
    { MemberId => $a->{MemberId} }] });
is($c[1]->call('DescribeGroups', 5, { Groups => [$empty] })
    ->{Groups}[0]{GroupState}, 'Empty', 'nobody waits for the newcomer');

# --- a worker that dies in the coordinator while members wait

my $w = "wait-$$";
$a = first_join($c[0], $w);
sync_group($c[0], $w, $a, assign => { $a->{MemberId} => 'all' });
$b = join_group($c[1], $w);
send_join($c[1], $w, member => $b->{MemberId});
ok(wait_code(sub { beat($c[0], $w, $a) }, 27), 'a round has begun');

$t->reload;
my $r1 = eval { $c[1]->recv(timeout => 5) };
ok(!defined $r1 || $r1->{ErrorCode} == 14,
    'a reload answers who waits, or closes');
@c = map $t->client, 0 .. 2;
send_join($c[1], $w, member => $b->{MemberId}, session => 3000);
$a = join_group($c[0], $w, member => $a->{MemberId});
$b = $c[1]->recv;
is_deeply([$a->{ErrorCode}, $b->{ErrorCode}], [0, 0],
    'the same members join in the new workers');

# --- a member that is silent is expelled, the other is told

send_sync($c[1], $w, $b);
sync_group($c[0], $w, $a,
    assign => { $a->{MemberId} => '1', $b->{MemberId} => '2' });
$c[1]->recv;
my $started = time;
my $code = 0;
while (time - $started < 60 && $code == 0) {
    $code = beat($c[0], $w, $a);
    sleep 0.1;
}
is($code, 27, 'a silent member goes, and the other one is told');

# --- offsets are deleted with their topic, and on demand

$r = $c[0]->call('OffsetDelete', 0, { GroupId => "simple-$$", Topics => [
    { Name => $topic, Partitions => [{ PartitionIndex => 1 }] }] });
is_deeply([$r->{ErrorCode}, $r->{Topics}[0]{Partitions}[0]{ErrorCode}],
    [0, 0], 'OffsetDelete');
is($c[0]->call('OffsetDelete', 0, { GroupId => 'none', Topics => [] })
    ->{ErrorCode}, 69, 'OffsetDelete: no such group');

$c[0]->delete_topic($topic);
$r = $c[1]->call('OffsetFetch', 8, { Groups => [{ GroupId => $g }] });
is(scalar @{ $r->{Groups}[0]{Topics} }, 0, 'offsets go with their topic');

# Where the internal topic can't be made, the coordinator is found all the same.

$c[0]->delete_topic('__transaction_state');
is($c[0]->create_topic('__transaction.state')->{ErrorCode}, 0,
    'a topic that is in the way');
is($c[0]->call('FindCoordinator', 1, { Key => 'x', KeyType => 1 })
    ->{ErrorCode}, 0, 'FindCoordinator: answers without the internal topic');
like($t->error_log, qr/\[warn\].*topic "__transaction_state", which some tools look for, cannot be made:.*__transaction\.state/,
    'and the log says what is in the way');

$t->done;


# Nobody is to go for want of time but who says so.
sub join_body {
    my ($g, %o) = @_;

    return {
        GroupId => $g, SessionTimeoutMs => $o{session} // 300_000,
        RebalanceTimeoutMs => 300_000, MemberId => $o{member} // '',
        ProtocolType => 'consumer', Protocols => $o{protocols}
            // [{ Name => 'range', Metadata => 'meta' }],
    };
}

sub join_group {
    my ($c, $g, %o) = @_;
    return $c->call('JoinGroup', $o{version} // 9, join_body($g, %o));
}

sub send_join {
    my ($c, $g, %o) = @_;
    $c->send('JoinGroup', $o{version} // 9, join_body($g, %o));
}

sub first_join {
    my ($c, $g) = @_;
    my $r = join_group($c, $g);
    return join_group($c, $g, member => $r->{MemberId});
}

sub sync_body {
    my ($g, $m, %o) = @_;
    my %assign = %{ $o{assign} // {} };

    return {
        GroupId => $g, GenerationId => $m->{GenerationId},
        MemberId => $m->{MemberId}, ProtocolType => 'consumer',
        ProtocolName => 'range', Assignments => [map +{ MemberId => $_,
            Assignment => $assign{$_} }, sort keys %assign],
    };
}

sub sync_group {
    my ($c, $g, $m, %o) = @_;
    return $c->call('SyncGroup', $o{version} // 5, sync_body($g, $m, %o));
}

sub send_sync {
    my ($c, $g, $m, %o) = @_;
    $c->send('SyncGroup', $o{version} // 5, sync_body($g, $m, %o));
}

sub beat {
    my ($c, $g, $m, %o) = @_;
    return $c->call('Heartbeat', $o{version} // 4, { GroupId => $g,
        GenerationId => $m->{GenerationId}, MemberId => $m->{MemberId} })
        ->{ErrorCode};
}

sub commit {
    my ($c, $g, $m, $v, $offset, %o) = @_;
    return $c->call('OffsetCommit', $v, { GroupId => $g,
        GenerationIdOrMemberEpoch => $m->{GenerationId},
        MemberId => $m->{MemberId}, Topics => [{ Name => $o{topic} // $topic,
        Partitions => [{ PartitionIndex => 1, CommittedOffset => $offset,
        CommittedLeaderEpoch => 0,
        CommittedMetadata => $o{metadata} // "m$v" }] }] })
        ->{Topics}[0]{Partitions}[0];
}

sub wait_code {
    my ($ask, $want) = @_;
    my $end = time + 30;
    my $got = -1;

    while (time < $end) {
        $got = $ask->();
        return 1 if $got == $want;
        sleep 0.05;
    }

    diag("got code $got, want $want");
    return 0;
}
