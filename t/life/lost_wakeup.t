#!/usr/bin/env perl

# A wake-up that is lost is a fault, for which no member of a group may have to
# pay with more than some seconds, and which the log has to tell.  Here they are
# all lost: JoinGroup and SyncGroup are answered all the same.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Test::KafkaFault;

my $t = Test::KafkaFault->new(workers => 2,
    config => { 'group.min.session.timeout.ms' => 1000 });

my $lost = qr/a wait ended at its deadline although it was satisfied/;

$t->allow($lost);
$t->run;

my @workers = $t->workers;
my ($c, $other) = map $t->client(worker => $_, timeout => 60), @workers;


sub lost { scalar(() = $t->error_log =~ /$lost/g) }


sub join_body {
    my ($member) = @_;

    return { GroupId => 'g', MemberId => $member, SessionTimeoutMs => 60000,
        RebalanceTimeoutMs => 60000, ProtocolType => 'consumer',
        Protocols => [{ Name => 'range', Metadata => '' }] };
}


sub sync_body {
    my ($member, @assignments) = @_;

    return { GroupId => 'g', MemberId => $member->{MemberId},
        GenerationId => $member->{GenerationId},
        Assignments => [map +{ MemberId => $_->{MemberId},
            Assignment => 'mine' }, @assignments] };
}


# What the other worker parks, and what satisfies it.
sub waits {
    my ($name, $lose, $send, $satisfy) = @_;

    my $before = lost();

    $t->arm('group-wake-up=5') if $lose;

    $send->();

    # By then it is parked: who comes later to its worker has been answered.
    sleep 1;
    $t->client(worker => $workers[1], timeout => 60)
        ->call('DescribeGroups', 5, { Groups => ['g'] });

    my $now = $satisfy->();
    my $r = $other->recv;

    $t->disarm;

    is($r->{ErrorCode}, 0, "$name, " . ($lose ? 'wake-up lost' : 'woken'));
    is(lost(), $before + $lose, "$name: a lost one is told, no other");

    return ($now, $r);
}


my $leader = $c->call('JoinGroup', 3, join_body(''));

for ([0, 0], [1, 0], [0, 1]) {
    my ($join, $sync) = @$_;

    my ($now, $member) = waits('JoinGroup', $join,
        sub { $other->send('JoinGroup', 3, join_body('')) },
        sub { $c->call('JoinGroup', 3, join_body($leader->{MemberId})) });

    waits('SyncGroup', $sync,
        sub { $other->send('SyncGroup', 2, sync_body($member)) },
        sub { $c->call('SyncGroup', 2, sync_body($now, $leader, $member)) });

    $c->call('LeaveGroup', 1, { GroupId => 'g',
        MemberId => $member->{MemberId} });
}

$t->done;
