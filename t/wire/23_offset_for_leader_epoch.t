#!/usr/bin/env perl

# OffsetForLeaderEpoch (KIP-320).

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "epoch-$$";

$c->create_topic($name, 1);
$c->produce($name, 0, batch(records => [1 .. 7]));

my $epoch = $c->call('Metadata', 9, { Topics => [{ Name => $name }] })
    ->{Topics}[0]{Partitions}[0]{LeaderEpoch};


sub ask {
    my ($leader, %o) = @_;

    my $r = $c->call('OffsetForLeaderEpoch', $o{version} // 4, {
        ReplicaId => -1, Topics => [{ Topic => $o{topic} // $name,
            Partitions => [{ Partition => $o{partition} // 0,
                CurrentLeaderEpoch => $o{current} // -1,
                LeaderEpoch => $leader }] }],
    })->{Topics}[0]{Partitions}[0];

    return "$r->{ErrorCode} $r->{LeaderEpoch} $r->{EndOffset}";
}


for my $v (2 .. 4) {
    is(ask($epoch, version => $v), "0 $epoch 7", "v$v: the current epoch");
    is(ask($epoch + 1, version => $v), '0 -1 -1', "v$v: a newer one");
    is(ask(-1, version => $v), '0 -1 -1', "v$v: none");
}

is(ask($epoch, current => $epoch), "0 $epoch 7", 'the client knows ours');
is(ask($epoch, current => $epoch + 1), '75 -1 -1',
    'the client knows a newer one: UNKNOWN_LEADER_EPOCH');
is(ask(0, topic => 'no-such'), '3 -1 -1', 'an unknown topic');
is(ask(0, partition => 4), '3 -1 -1', 'an unknown partition');

# A start after a kill raises the epoch; the old one ends where it did.
SKIP: {
    skip 'another broker', 3 if $t->foreign;

    $t->kill_all;
    $t->run;
    $c = $t->client;
    $c->produce($name, 0, batch(records => [1 .. 3]));

    my $now = $c->call('Metadata', 9, { Topics => [{ Name => $name }] })
        ->{Topics}[0]{Partitions}[0]{LeaderEpoch};
    ok($now > $epoch, 'an unclean start raises the epoch')
        or diag("$epoch, now $now");
    is(ask($now), "0 $now 10", 'the new epoch');
    is(ask($epoch), "0 $epoch 7", 'the old one ended at 7');
}

$t->done;
