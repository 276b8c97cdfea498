#!/usr/bin/env perl

# A worker that is leaving, and so has no successor, dies between the append of
# a decision and the end of its flush: who shows the decision does not wait for
# that flush.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

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

my ($old) = $t->workers;
my $c = $t->client;
is(committed($c), -1, 'nothing is committed');

# It reads the commit and hears that it has to leave at the same time.

kill 'STOP', $old;
$c->send('OffsetCommit', 8, { GroupId => 'g', GenerationIdOrMemberEpoch => -1,
    MemberId => '', Topics => [{ Name => 't', Partitions => [
        { PartitionIndex => 0, CommittedOffset => 7 }] }] });
$t->signal('HUP');

my $new;
ok(wait_for(sub { ($new) = grep { $_ != $old } $t->workers }, 60),
    'its successor is there');
my $d = $t->client(worker => $new);
is(committed($d), -1, 'and open');

$t->hold_sync;
kill 'CONT', $old;
ok(wait_for(sub { -e "$t->{held}.reached" }, 60), 'the old one flushes');
$t->{killed}{$old} = 1;
kill 'KILL', $old;
$t->release_sync;

# The checkpoint of each minute would flush it, too.

my $offset = eval { committed($d) };
is($offset, 7, 'what it has committed is shown') or diag($@);

$t->done;
