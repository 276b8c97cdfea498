#!/usr/bin/env perl

# Frames: sizes, pieces, many at once, and bytes that are none.

use strict;
use warnings;

use IO::Socket;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $max = 3_000_000;
my $t = Test::KafkaNginx->new(workers => 1,
    config => { 'socket.request.max.bytes' => $max })->run;
my $c = $t->client;

$c->create_topic('t', 1, 'max.message.bytes' => 5_000_000);

sub versions {
    return $_[0]->frame('ApiVersions', 0, {}, correlation_id => $_[1]);
}

sub answers {
    my ($client, @want) = @_;

    for my $want (@want) {
        my $frame = $client->recv_frame // return 0;
        return 0 unless unpack('N', $frame) == $want;
    }

    return 1;
}

# What is no frame closes the connection, after what came before was answered.
for my $case (['a size of 0', pack 'N', 0], ['a negative size', pack 'N', -1],
    ['the most negative size', pack 'N', 0x80000000],
    ['one byte too many', pack 'N', $max + 1],
    ['the greatest size', pack 'N', 0x7fffffff],
    ['HTTP', "GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"],
    ['TLS', pack('C n n C', 22, 0x0301, 512, 1) . "\0" x 100],
    ['a frame of one byte', pack 'N C', 1, 0],
    ['half a request header', pack('N', 9) . pack 'n n N C', 18, 0, 1, 0],
    ['a client id longer than the frame', pack('N n n N n', 10, 18, 0, 1, 999)],
    ['a body that ends early', pack('N n n N n N', 14, 3, 1, 1, 0xffff, 5)],
    ['a million topics without a name', pack('N n n N n N', 2_000_014, 3, 1, 1,
        0xffff, 1_000_000) . "\0\0" x 1_000_000],
    ['an array of 2^31-1', pack('N n n N n N', 14, 3, 1, 1, 0xffff,
        0x7fffffff)])
{
    my ($name, $bytes) = @$case;
    my $x = $t->client;

    $x->send_raw(versions($x, 1) . versions($x, 2) . $bytes
        . versions($x, 3));
    ok(answers($x, 1, 2), "$name: what came before is answered");
    is($x->recv_frame, undef, "$name: then the connection ends");
}

# The largest that is taken: header and all.
my $x = $t->client;
my $head = length produce_frame($x, "\0" x 2_900_000, 9);
my $largest = produce_frame($x, "\0" x ($max + 4 - $head + 2_900_000), 9);
is(length $largest, $max + 4, 'a frame of socket.request.max.bytes');
$x->send_raw($largest . versions($x, 10));
ok(answers($x, 9, 10), 'is taken');

# Pieces of every size around the boundaries of the reader's buffers.
my @batch = map batch(records => ['x' x $_]), 10, 16_000, 65_400, 70_000,
    300_000, 1_200_000;

sub produce_frame {
    my ($client, $batch, $id) = @_;

    return $client->frame('Produce', 9, { Acks => 1, TimeoutMs => 60_000,
        TopicData => [{ Name => 't', PartitionData => [
            { Index => 0, Records => $batch }] }] }, correlation_id => $id);
}

for my $piece (3, 1000, 16_384, 65_536, 100_000, 2_000_000) {
    my $y = $t->client;
    my $id = 0;
    my $all = join '', map { produce_frame($y, $_, ++$id)
        . versions($y, ++$id) } $piece == 3 ? $batch[0] : @batch;

    for (my $at = 0; $at < length $all; $at += $piece) {
        $y->send_raw(substr $all, $at, $piece);
    }

    ok(answers($y, 1 .. $id), "in pieces of $piece bytes");
    $y->close;
}

# They are stored as they came; acks=1 is answered before they can be seen.
ok(wait_for(sub { $c->list_offset('t', 0, -1)->{Offset} == 31 }, 30),
    'every batch is there');
my @stored = batches($c->fetch('t', 0, 0, max_bytes => 50 << 20,
    partition_max_bytes => 50 << 20)->{Records});
is(scalar @stored, 31, 'to be fetched');
is(scalar(grep !$_->{crc_ok}, @stored), 0, 'and whole');

# Many small ones in one piece: more than may be in flight.
my $many = $t->client;
$many->send_raw(join '', map versions($many, $_), 1 .. 5000);
ok(answers($many, 1 .. 5000), 'five thousand in one piece');

# A client that sends its last requests and shuts down its side is answered.
my $half = $t->client;
$half->send_raw(versions($half, 1) . versions($half, 2) . "\0\0");
shutdown $half->socket, 1;
ok(answers($half, 1, 2), 'half closed: answered');
is($half->recv_frame, undef, 'and closed');

# What was sent with acks=0 before the connection was closed is not lost, even
# behind a long poll.
my $end = $c->list_offset('t', 0, -1)->{Offset};
my $zero = $t->client;
$zero->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, $end,
    max_wait => 60_000));
$zero->produce('t', 0, batch(records => ['a', 'b']), acks => 0) for 1 .. 20;
$zero->close;
ok(wait_for(sub { $c->list_offset('t', 0, -1)->{Offset} == $end + 40 }, 30),
    'acks=0, then closed: everything is there');

# Resets at any moment.
for my $n (1 .. 40) {
    my $y = $t->client;
    $y->send_raw(substr(produce_frame($y, $batch[3], 1)
        . versions($y, 2) x 10, 0, int rand 80_000));
    setsockopt $y->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    $y->close;
}

# Half frames that claim a lot hold neither memory nor anybody else up.
my ($worker) = $t->workers;

sub rss {
    my ($kib) = $t->read_file("/proc/$worker/status") =~ /VmRSS:\s+(\d+)/;
    return $kib;
}

my $before = rss();
my @claims = map { my $y = $t->client;
    $y->send_raw(pack('N', $max) . pack 'n n', 0, 9); $y } 1 .. 100;
ok(answers($c->send_raw(versions($c, 77)) && $c, 77), 'others are served');
cmp_ok(rss() - $before, '<', $ENV{TEST_NGINX_SAN} ? 100_000 : 4096,
    'a hundred claims of 3 MB cost nothing');

$t->done;
