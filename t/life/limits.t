#!/usr/bin/env perl

# As many topics, groups and members as docs/OPERATING.md says a zone has room
# for, in a zone of just that size: all are there, over a kill of everything, and
# in new workers.
#
#   LIMITS=10    ten times as many: 10,000 partitions, 10,000 groups, a group of
#                1,000 members

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $scale = $ENV{LIMITS} || 1;
my $topics = 1000 * $scale;
my $groups = 1000 * $scale;
my $members = 100 * $scale;
my $said = 'm' x 40;                # of a member, on what it reads

my $partitions = (1 << 15) * ($topics + 1);
my $slabs = 2.5 * (1024 * ($topics + 1) + 512 * ($groups + 1)
    + 128 * $groups + 32 * $groups + $members * (256 + 2 * length $said));
my $zone = ($partitions > $slabs ? $partitions : $slabs) * 1.01;

my $t = Test::KafkaNginx->new(workers => 2, zone => int($zone / 1024) . 'k',
    connections => $members + 200)->run;
my $group = 'crowd';

note(sprintf 'a zone of %.0f MiB', $zone / 1048576);


# What it took, for the reader: the rest of the broker waits no longer.
sub timed {
    my ($what, $code) = @_;
    my $start = time;
    my @r = $code->();

    note(sprintf '%s: %.2f s', $what, time - $start);

    return wantarray ? @r : $r[0];
}


sub topic { sprintf 'topic-%05d', $_[0] }
sub group { sprintf 'group-%05d', $_[0] }


# Calls in turn, in lots, that are all sent before the first answer is read.
sub many {
    my ($c, $n, $send, $recv) = @_;
    my $good = 0;

    for (my $i = 0; $i < $n; $i += 100) {
        my $last = $i + 99 < $n ? $i + 99 : $n - 1;
        $send->($c, $_) for $i .. $last;
        $good += !!$recv->($c->recv, $_) for $i .. $last;
    }

    return $good;
}


sub create_topics {
    my $c = $t->client(timeout => 120);
    my $made = 0;

    for (my $i = 0; $i < $topics; $i += 250) {
        my $r = $c->call('CreateTopics', 7, { timeoutMs => 60_000,
            Topics => [map +{ Name => topic($_), NumPartitions => 1,
                ReplicationFactor => 1 }, $i .. $i + 249] });
        $made += grep $_->{ErrorCode} == 0, @{ $r->{Topics} };
    }

    return $made;
}


sub listed {
    my $r = $t->client(timeout => 60)->call('Metadata', 9, { Topics => undef });

    return scalar grep { $_->{ErrorCode} == 0 && $_->{Name} =~ /^topic-/
        && @{ $_->{Partitions} } == 1 } @{ $r->{Topics} };
}


sub groups_listed {
    my $r = $t->client(timeout => 60)->call('ListGroups', 4, {});

    return scalar grep $_->{GroupId} =~ /^group-/, @{ $r->{Groups} };
}


sub commit {
    return many($t->client(timeout => 60), $groups,
        sub { my ($c, $i) = @_; $c->send('OffsetCommit', 8, {
            GroupId => group($i), GenerationIdOrMemberEpoch => -1,
            MemberId => '', Topics => [{ Name => topic($i), Partitions => [{
                PartitionIndex => 0, CommittedOffset => $i,
                CommittedLeaderEpoch => -1 }] }] }) },
        sub { $_[0]{Topics}[0]{Partitions}[0]{ErrorCode} == 0 });
}


sub committed {
    return many($t->client(timeout => 60), $groups,
        sub { my ($c, $i) = @_; $c->send('OffsetFetch', 8, { Groups => [{
            GroupId => group($i), Topics => [{ Name => topic($i),
            PartitionIndexes => [0] }] }] }) },
        sub { my ($r, $i) = @_;
            $r->{Groups}[0]{Topics}[0]{Partitions}[0]{CommittedOffset} == $i });
}


sub join_body {
    my ($member) = @_;

    return { GroupId => $group, SessionTimeoutMs => 300_000,
        RebalanceTimeoutMs => 300_000, MemberId => $member,
        ProtocolType => 'consumer',
        Protocols => [{ Name => 'range', Metadata => $said }] };
}


sub members {
    my $r = $t->client(timeout => 60)->call('DescribeGroups', 5,
        { Groups => [$group] });

    return scalar @{ $r->{Groups}[0]{Members} };
}


# A group comes together: each has its assignment.
sub gather {
    my @c = map $t->client(timeout => 120), 1 .. $members;

    $_->send('JoinGroup', 9, join_body('')) for @c;
    my @id = map $_->recv->{MemberId}, @c;

    # The first one is alone for a while, and comes back when all the others
    # wait for it.
    $c[0]->call('JoinGroup', 9, join_body($id[0]));
    $c[$_]->send('JoinGroup', 9, join_body($id[$_])) for 1 .. $#c;
    wait_for(sub { members() == $members }, 60);
    $c[0]->send('JoinGroup', 9, join_body($id[0]));

    my @in = map $_->recv, @c;
    my ($leader) = grep @{ $in[$_]{Members} }, 0 .. $#in;

    my @assign = map +{ MemberId => $_, Assignment => "for $_" }, @id;
    $c[$_]->send('SyncGroup', 5, { GroupId => $group, MemberId => $id[$_],
        GenerationId => $in[$_]{GenerationId}, ProtocolType => 'consumer',
        ProtocolName => 'range',
        Assignments => $_ == $leader ? \@assign : [] }) for 0 .. $#c;

    my $good = 0;
    $good += $c[$_]->recv->{Assignment} eq "for $id[$_]" for 0 .. $#c;

    return ($good, $in[0]{GenerationId}, @id);
}


sub beats {
    my ($generation, @id) = @_;

    return many($t->client(timeout => 60), $members,
        sub { my ($c, $i) = @_; $c->send('Heartbeat', 4, { GroupId => $group,
            GenerationId => $generation, MemberId => $id[$i] }) },
        sub { $_[0]{ErrorCode} == 0 });
}


is(timed('topics', \&create_topics), $topics, 'topics are made');
is(timed('commits', \&commit), $groups, 'groups have their offsets');
my ($together, $generation, @id) = timed('a group', \&gather);
is($together, $members, 'a group has its assignments');

for my $when ('', ', in new workers', ', after a kill of everything') {
    $t->reload if $when =~ /new/;

    if ($when =~ /kill/) {
        $t->kill_all;
        timed('a start', sub { $t->run });
    }

    is(timed('Metadata', \&listed), $topics, "topics$when");
    is(timed('ListGroups', \&groups_listed), $groups, "groups$when");
    is(timed('OffsetFetch', \&committed), $groups, "offsets$when");
    is(beats($generation, @id), $members, "members$when");
    is($t->client(timeout => 60)->produce(topic($topics - 1), 0,
        Kafka::Batch::batch())->{ErrorCode}, 0, "a record$when");
}

unlike($t->error_log, qr/zone is full|no room/, 'the zone was large enough');

$t->done;
