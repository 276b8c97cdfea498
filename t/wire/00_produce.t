#!/usr/bin/env perl

# Produce in every version and codec, and the exact code of each refusal.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $name = "produce-$$";

is($c->create_topic($name, 2)->{ErrorCode}, 0, 'topic');
my $id = $c->topic_id($name);
my $end = 0;

# Every version and codec.
for my $v (3 .. 13) {
    for my $codec (qw(none gzip snappy lz4 zstd)) {
        next if $codec eq 'zstd' && $v < 7;
        my $r = $c->produce($v >= 13 ? $id : $name, 0,
            batch(records => ['a' .. 'e'], codec => $codec), version => $v);
        is_deeply([@$r{qw(Index ErrorCode BaseOffset LogAppendTimeMs)}],
            [0, 0, $end, -1], "v$v $codec");
        is($r->{LogStartOffset}, 0, "v$v $codec: log start") if $v >= 5;
        $end += 5;
    }
}

is($c->list_offset($name, 0, -1)->{Offset}, $end, 'the end');
my @values = values_of(join '', map { $_->{codec} < 2 ? $_->{raw} : () }
    batches($c->fetch($name, 0, 0)->{Records}));
is(join('', @values), 'abcde' x 22, 'and what was sent comes back');

# Several topics and partitions in one request; an error in one of them.
my $r = $c->call('Produce', 9, { Acks => -1, TimeoutMs => 60_000, TopicData => [
    { Name => $name, PartitionData => [
        { Index => 1, Records => batch() },
        { Index => 7, Records => batch() } ] },
    { Name => "no-$name", PartitionData => [
        { Index => 0, Records => batch() } ] } ] });
my %code;
for my $topic (@{ $r->{Responses} }) {
    $code{"$topic->{Name}/$_->{Index}"} = "$_->{ErrorCode} $_->{BaseOffset}"
        for @{ $topic->{PartitionResponses} };
}
is($code{"$name/1"}, '0 0', 'a good partition');
is($code{"$name/7"}, '3 -1', 'an unknown partition');
like($code{"no-$name/0"}, qr/^(?:3 -1|0 0)$/, 'an unknown topic');

is($c->produce("\1" x 16, 0, batch(), version => 13)->{ErrorCode}, 100,
    'an unknown topic id');

# acks
for my $acks (1, -1) {
    is($c->produce($name, 1, batch(), acks => $acks)->{ErrorCode}, 0,
        "acks=$acks");
}
is($c->produce($name, 1, batch(), acks => $_)->{ErrorCode}, 21,
    "acks=$_: INVALID_REQUIRED_ACKS") for 2, -2;

my $before = $c->list_offset($name, 1, -1)->{Offset};
my $quiet = $t->client;
$quiet->produce($name, 1, batch(records => ['quiet']), acks => 0);
ok($quiet->silent(0.5), 'acks=0 is never answered');
is($quiet->call('Metadata', 1, { Topics => [] })->{ControllerId}, 1,
    'and the next answer is of the next request');
is($c->list_offset($name, 1, -1)->{Offset}, $before + 1, 'but it was written');

# An error with acks=0 can only close the connection.
$quiet->produce($name, 99, batch(), acks => 0);
ok($quiet->closed(30), 'acks=0 with an error closes the connection');

# ---- refusals (each leaves the log as it was)

$before = $c->list_offset($name, 1, -1)->{Offset};
my $good = batch(records => ['one', 'two']);


sub refused {
    my ($label, $records, $code, %o) = @_;

    my $r = eval { $c->produce($o{topic} // $name, $o{partition} // 1,
        $records, %o) };
    if (!$r) {
        fail("$label: " . ($@ || 'closed'));
        $c = $t->client;
        return;
    }

    my %codes = map { $_ => 1 } ref $code ? @$code : $code;
    ok($codes{ $r->{ErrorCode} }, $label)
        or diag("got $r->{ErrorCode}, want ", join ' or ', keys %codes);
    is($r->{BaseOffset}, -1, "$label: no offset");

    return $r;
}


my ($invalid, $corrupt) = (87, 2);

refused('no records (null)', undef, $invalid) unless $t->foreign;
refused('no records (empty)', '', $invalid);
refused('two batches', $good . $good, $invalid);
refused('a cut batch', substr($good, 0, -3), $invalid);
refused('a cut header', substr($good, 0, 40), $invalid);
refused('one byte', 'x', $invalid);
refused('a base offset', batch(base_offset => 1), $invalid);
refused('too few records for the count', batch(count => 2,
    last_offset_delta => 1), $invalid);
refused('too many records for the count', batch(records => ['a', 'b'],
    count => 1, last_offset_delta => 0), $invalid);
refused('a wrong last offset', batch(last_offset_delta => 5), $invalid);
refused('no record', batch(records => [], count => 0, last_offset_delta => 0),
    $invalid);
refused('a negative count', batch(count => -1), $invalid);
refused('a control batch', batch(control => 1), $invalid);
refused('magic 1', batch(magic => 1), [$invalid, $corrupt]);
refused('magic 3', batch(magic => 3), $corrupt);
refused('a wrong CRC', batch(crc => 12345), $corrupt);
refused('a flipped bit', $good =~ s/two/twp/r, $corrupt);
refused('a length below the header', batch(length => 20),
    [$invalid, $corrupt]);
refused('a negative length', batch(length => -1), [$invalid, $corrupt]);
refused('a giant length', batch(length => 0x7fffffff), [$invalid, $corrupt])
    unless $t->foreign;
refused('an idempotent batch without a sequence', batch(producer_id => 1,
    producer_epoch => 0), $invalid);
refused('zstd before v7', batch(codec => 'zstd'), 76, version => 6);

SKIP: {
    skip 'Kafka answers UNKNOWN_SERVER_ERROR', 10 if $t->foreign;
    refused('codec 5', batch(attributes => 5), $invalid);
    refused('codec 7', batch(attributes => 7), $invalid);

    for my $i (1 .. 4) {
        my $codec = (qw(none gzip snappy lz4 zstd))[$i];
        refused("garbage as $codec", batch(attributes => $i,
            body => "\xde\xad\xbe\xef" x 20), $invalid);
    }
}

refused('a record that goes on too long', batch(body => "\x7f\0\0\0\1\1\0"),
    $invalid) unless $t->foreign;
refused('bytes after the last record', batch(body => Kafka::Batch::record(0,
    'x', 0) . 'rest'), $invalid) unless $t->foreign;

refused('a timestamp two hours ahead', batch(timestamp => now_ms() + 7200000),
    32);
$r = refused('and says which record', batch(timestamp => now_ms() + 7200000,
    records => ['a', 'b']), 32, version => 9);
ok($r && @{ $r->{RecordErrors} }, 'record errors') if $r;
ok($r && defined $r->{ErrorMessage}, 'an error message') if $r;

refused('a transactional batch without an id', batch(transactional => 1,
    producer_id => 4, producer_epoch => 0, sequence => 0),
    $t->foreign ? 53 : [53, $invalid, 48]);

# One that needs an id, and none of the request is written.
my %needs = (Index => 0, Records => batch(transactional => 1, producer_id => 4,
    producer_epoch => 0, sequence => 0));
$r = $c->call('Produce', 9, { Acks => -1, TimeoutMs => 5000, TopicData => [{
    Name => $name, PartitionData => [{ Index => 1, Records => batch() },
        \%needs, { %needs, Index => 99 }] }] });
is_deeply([map $_->{ErrorCode}, @{ $r->{Responses}[0]{PartitionResponses} }],
    [53, 53, 53], 'nor anything beside it');

refused('acks that there are not', batch(), 21, acks => 2);
refused('those, and no such partition', batch(), 3, acks => 2,
    partition => 99);

$r = $c->produce($name, 1, batch(producer_id => 1 << 40, producer_epoch => 3,
    sequence => 0));
$before++;

for my $case ([45, producer_epoch => 3, sequence => 9],
    [47, producer_epoch => 2, sequence => 0],
    [32, timestamp => now_ms() + 7200000])
{
    my ($code, %b) = @$case;
    $r = $c->produce($name, 1, batch(producer_id => 1 << 40,
        producer_epoch => 3, sequence => 1, %b));
    is("@$r{qw(ErrorCode LogStartOffset)}", "$code 0",
        "$code: with the beginning of the log");
}

$c->call('FindCoordinator', 1, { Key => 'g', KeyType => 0 });
refused('an internal topic', batch(), 17, topic => '__consumer_offsets',
    partition => 0)
    unless $t->foreign;

is($c->list_offset($name, 1, -1)->{Offset}, $before,
    'nothing of it was written');

# Accepted, though odd.
for my $case (['timestamp -1', batch(timestamp => -1)],
    ['an ancient timestamp', batch(timestamp => 1)],
    ['unused attribute bits', batch(attributes => 0xc0)],
    ['raw snappy', batch(codec => 'snappy')],
    ['xerial snappy', batch(attributes => 2, raw => 1,
        body => Kafka::Batch::snappy_xerial(Kafka::Batch::record(0, 'x', 0)))],
    ['headers', batch(records => [{ value => 'x',
        headers => [['a', 'b'], ['c', undef]] }])],
    ['a null value', batch(records => [[undef, undef]])])
{
    is($c->produce($name, 1, $case->[1])->{ErrorCode}, 0, $case->[0]);
}

# ---- limits of a topic

my $small = "small-$$";
$c->create_topic($small, 1, 'max.message.bytes' => 2000);
is($c->produce($small, 0, batch(records => ['x' x 5000]))->{ErrorCode}, 10,
    'above max.message.bytes: MESSAGE_TOO_LARGE');
is($c->produce($small, 0, batch(records => ['x' x 1000]))->{ErrorCode}, 0,
    'below it');

my $compact = "compact-$$";
$c->create_topic($compact, 1, 'cleanup.policy' => 'compact');
$r = $c->produce($compact, 0, batch(records => [['k', 'v'], 'keyless']));
is($r->{ErrorCode}, 87, 'a record without a key in a compacted topic');
is($r->{RecordErrors}[0]{BatchIndex}, 1, 'which of them');
$r = $c->produce($compact, 0, Kafka::Batch::batch(records => [
    map +{ value => $_, key => $_ % 2 ? "k$_" : undef }, 0 .. 6]));
is(join(' ', $r->{ErrorCode}, map $_->{BatchIndex}, @{ $r->{RecordErrors} }),
    '87 0 2 4 6', 'all of them');
is($c->produce($compact, 0, batch(records => [['k', 'v']]))->{ErrorCode}, 0,
    'with a key');

my $stamped = "stamped-$$";
$c->create_topic($stamped, 1, 'message.timestamp.type' => 'LogAppendTime');
my $now = now_ms();
$r = $c->produce($stamped, 0, batch(timestamp => 1000));
ok($r->{LogAppendTimeMs} >= $now, 'LogAppendTime: the answer has it');
my ($b) = batches($c->fetch($stamped, 0, 0)->{Records});
ok($b->{crc_ok}, 'LogAppendTime: the CRC fits');
ok($b->{attributes} & 8, 'LogAppendTime: its attribute');
is($b->{max_timestamp}, $r->{LogAppendTimeMs}, 'LogAppendTime: its time');

# A gzip bomb: refused or bounded, never unbounded memory.
my $bomb = Compress::Zlib::memGzip("\0" x (64 << 20));
$r = eval { $c->produce($name, 1, batch(attributes => 1, raw => 1,
    body => $bomb)) };
ok($r && $r->{ErrorCode} != 0, 'a gzip bomb is refused');

# Pipelined: in order, and each with its own answer.
my $p = $t->client;
$before = $c->list_offset($name, 0, -1)->{Offset};
for my $i (0 .. 39) {
    $p->send('Produce', 9, { Acks => $i % 2 ? 1 : -1, TimeoutMs => 60_000,
        TopicData => [{ Name => $name, PartitionData => [{ Index => 0,
            Records => batch(records => ["p$i"]) }] }] });
}
my @offsets = map $p->recv->{Responses}[0]{PartitionResponses}[0]{BaseOffset},
    0 .. 39;
is("@offsets", join(' ', map $before + $_, 0 .. 39), 'pipelined');

$t->done;
