#!/usr/bin/env perl

# A worker that is leaving, and so has no successor, dies between the append of
# a decision and the end of its flush: who shows the decision does not wait for
# that flush.  The others find it dead: what it has written and not flushed is
# flushed, and who waits for that is woken.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Kafka::Batch qw(batch);

use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 1, slow_disk => 1);

$t->run;

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');

sub committed {
    my ($c) = @_;

    my $r = $c->call('OffsetFetch', 8, { Groups => [{ GroupId => 'g',
        Topics => [{ Name => 't', PartitionIndexes => [0] }] }] });

    return $r->{Groups}[0]{Topics}[0]{Partitions}[0]{CommittedOffset};
}

# The client's request is read by a worker that hears at the same time that it
# has to leave, and dies in its flush.  Between, $then, given a client of its
# successor.
sub dies_leaving {
    my ($c, $request, $then) = @_;
    my ($old) = $t->workers;

    kill 'STOP', $old;
    $c->send(@$request);
    $t->signal('HUP');

    my $new;
    ok(wait_for(sub { ($new) = grep { $_ != $old } $t->workers }, 60),
        'its successor is there');
    my $d = $t->client(worker => $new, timeout => 120);
    $then->($d);

    $t->hold_sync;
    kill 'CONT', $old;
    ok(wait_for(sub { $t->held_in_sync($old) }, 60), 'the old one flushes');
    $t->{killed}{$old} = 1;
    kill 'KILL', $old;
    $t->release_sync;

    return ($d, $old);
}


my $c = $t->client;
is(committed($c), -1, 'nothing is committed');

my ($d) = dies_leaving($c, ['OffsetCommit', 8, { GroupId => 'g',
    GenerationIdOrMemberEpoch => -1, MemberId => '', Topics => [{ Name => 't',
        Partitions => [{ PartitionIndex => 0, CommittedOffset => 7 }] }] }],
    sub { is(committed($_[0]), -1, 'and open') });

# The checkpoint of each minute would flush it, too.

my $offset = eval { committed($d) };
is($offset, 7, 'what it has committed is shown') or diag($@);

# A record that only the one that died has written.  (Version 11: no session.)
my ($e, $old) = dies_leaving($d, ['Produce', 9, { Acks => 1,
    TimeoutMs => 1000, TopicData => [{ Name => 't', PartitionData => [
        { Index => 0, Records => batch(records => ['last words']) }] }] }],
    sub {
        my ($d) = @_;

        is($d->list_offset('t', 0, -1)->{Offset}, 0, 'the log is empty');
        $d->send('Fetch', 11, { ReplicaId => -1, MaxWaitMs => 40000,
            MinBytes => 1, MaxBytes => 1 << 20, SessionEpoch => -1,
            Topics => [{ Topic => 't', Partitions => [{ Partition => 0,
                FetchOffset => 0, PartitionMaxBytes => 1 << 20,
                CurrentLeaderEpoch => -1, LogStartOffset => -1 }] }] });
    });

my $r = $e->recv->{Responses}[0]{Partitions}[0];
ok(length($r->{Records} // ''), 'its record reaches who waits for one');
ok(wait_for(sub { $t->error_log =~ /worker $old has died/ }, 60),
    'and the log tells that it died');

$t->done;
