#!/usr/bin/env perl

# A worker is killed at each named point: inside the coordinator's lock, inside
# a partition's lock, around the journal's append and around a flush.  The others
# go on at once, nothing acknowledged is lost, and no point goes unreached.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Kafka::Batch;
use Test::KafkaFault;

my $t = Test::KafkaFault->new(workers => 3);

$t->allow(qr/exited on signal 9|Address already in use/);
$t->run;

my $batch = Kafka::Batch::batch(records => ['a', 'b', 'c']);
my %acked = (t => 0);

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');


# Calls until it is answered well; connections may break meanwhile.
sub insist { $t->insist(@_) }


sub produced {
    return insist(sub { my $r = $_[0]->produce('t', 0, $batch);
        return $r && $r->{ErrorCode} == 0 && ++$acked{t} });
}


sub count {
    my $end;
    insist(sub { $end = $_[0]->list_offset('t', 0, -1)->{Offset}; 1 });

    return $end;
}


my $n = 0;

for my $where (qw(coord-locked coord-unlocking journal-append-before
    journal-append-after log.append.before log.append.publish
    coord-locked:7))
{
    my $name = 'made-' . ++$n;
    my $old = join ' ', $t->workers;

    $t->arm($where);

    my $there = insist(sub { my $e = $_[0]->create_topic($name)->{ErrorCode};
        return $e == 0 || $e == 36 });

    ok($there, "$where: the topic is made");

    # The N-th time may need more than one request.
    insist(sub { $_[0]->create_topic("$name-$_")->{ErrorCode} == 0 }) for 1 .. 8;

    ok(!$t->armed, "$where: was reached");
    is($t->late, 0, "$where: nobody was left waiting");

    my $r = insist(sub { $_[0]->call('Metadata', 9, {
        Topics => [{ Name => $name }], AllowAutoTopicCreation => 0 }) });
    is($r->{Topics}[0]{ErrorCode}, 0, "$where: all see it");
    ok(produced(), "$where: and produce goes on");
}

like($t->error_log, qr/a worker died inside the coordinator/,
    'the state was replayed');

for my $where (qw(log.append.before log.append.written log.append.publish
    flush-before flush-after))
{
    $t->arm($where);
    ok(produced(), "$where: acknowledged in the end");
    ok(!$t->armed, "$where: was reached");

    # At least once: what was appended but not answered may be there twice.
    cmp_ok(count(), '>=', 3 * $acked{t}, "$where: nothing is lost");

    my $bad = 0;
    my $at = 0;

    while (1) {
        my $got;
        insist(sub { $got = $_[0]->fetch('t', 0, $at); 1 });
        my @b = Kafka::Batch::batches($got->{Records} // '');
        last unless @b;

        for (@b) {
            $bad++ if $_->{base_offset} != $at;
            $at += 3;
        }
    }

    is($bad, 0, "$where: offsets have no gaps");
    is($at, count(), "$where: all of it can be read");
}

# A recovery that dies is begun again by another.
{
    $t->arm('coord-locked', 'recovering');
    ok(insist(sub { my $e = $_[0]->create_topic('twice')->{ErrorCode};
        return $e == 0 || $e == 36 }), 'the state is replayed in the end');
    ok($t->reached, 'one recovery died');
}

# And all of it from the disk.
{
    my $end = count();

    $t->kill_all;
    $t->run;

    is(count(), $end, 'a start finds what was there');

    my $r = $t->client->call('Metadata', 9, { Topics => undef });
    my %have = map { $_->{Name} => 1 } @{ $r->{Topics} };
    is(scalar(grep !$have{"made-$_"}, 1 .. $n), 0, 'and every topic');
}

$t->done;
