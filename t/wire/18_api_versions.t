#!/usr/bin/env perl

# ApiVersions, and how a connection treats what it doesn't know.

use strict;
use warnings;

use Test::More;

use Kafka::Wire qw(api_versions);
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;

# Every version; the same keys in each.
my $keys;

for my $v (0 .. 5) {
    my $r = $c->call('ApiVersions', $v,
        { ClientSoftwareName => 'wire', ClientSoftwareVersion => '1.0' });
    is($r->{ErrorCode}, 0, "v$v");

    my $text = join ' ', map "$_->{ApiKey}:$_->{MinVersion}-$_->{MaxVersion}",
        @{ $r->{ApiKeys} };
    $keys //= $text;
    is($text, $keys, "v$v: the same keys");
    is($r->{ThrottleTimeMs}, 0, "v$v: throttle time") if $v >= 1;
}

my %range = map /^(\d+):(\d+)-(\d+)$/ ? ($1 => [$2, $3]) : (), split ' ', $keys;

# What Kafka 4.4 announces: [from, to, and whether a broker must have it].
my %kafka = (0 => [0, 13, 1], 1 => [4, 18, 1], 2 => [1, 11, 1],
    3 => [0, 13, 1], 8 => [2, 10], 9 => [1, 10], 10 => [0, 6], 11 => [0, 9],
    12 => [0, 4], 13 => [0, 5], 14 => [0, 5], 15 => [0, 6], 16 => [0, 5],
    18 => [0, 5, 1], 19 => [2, 7, 1], 20 => [1, 6, 1], 21 => [0, 2],
    22 => [0, 5, 1], 23 => [2, 4, 1], 24 => [0, 5], 25 => [0, 4],
    26 => [0, 5], 27 => [1, 2], 28 => [0, 6], 29 => [1, 3], 30 => [1, 3],
    31 => [1, 3], 32 => [1, 4, 1], 33 => [0, 2], 34 => [1, 2], 35 => [1, 5],
    36 => [0, 2], 38 => [1, 3], 39 => [1, 2], 40 => [1, 2], 41 => [1, 3],
    17 => [0, 1], 37 => [0, 3], 42 => [0, 3], 43 => [0, 2], 44 => [0, 1],
    45 => [0, 1], 46 => [0, 0], 47 => [0, 0], 48 => [0, 1], 49 => [0, 1],
    50 => [0, 0], 51 => [0, 0], 55 => [0, 2], 57 => [0, 2], 60 => [0, 2, 1],
    61 => [0, 0], 65 => [0, 0], 66 => [0, 2], 68 => [0, 1], 69 => [0, 1],
    74 => [0, 1], 75 => [0, 0, 1], 76 => [1, 1], 77 => [1, 1], 78 => [1, 2],
    79 => [1, 2], 90 => [0, 1], 91 => [0, 0], 92 => [0, 0]);

for my $key (sort { $a <=> $b } keys %kafka) {
    my ($from, $to, $must) = @{ $kafka{$key} };
    is_deeply($range{$key}, [$from, $to], "key $key: $from-$to") if $must;
}

SKIP: {
    skip 'another broker', 2 if $t->foreign;
    is(join(' ', grep {
        my ($ours, $theirs) = ($range{$_}, $kafka{$_});
        !$theirs || $ours->[0] < $theirs->[0] || $ours->[1] > $theirs->[1]
    } sort { $a <=> $b } keys %range), '', 'and nothing that Kafka has not');

    my $r = $c->call('ApiVersions', 4,
        { ClientSoftwareName => 'wire', ClientSoftwareVersion => '1.0' });
    my ($f) = grep { $_->{Name} eq 'transaction.version' }
        @{ $r->{FinalizedFeatures} || [] };
    is($f->{MaxVersionLevel}, 2, 'transactions of version 2');
    cmp_ok($r->{FinalizedFeaturesEpoch}, '>=', 0, 'of an epoch to believe in');
}

# v3 leaves out the features whose lowest version is 0 (KAFKA-17011).
my $r = $c->call('ApiVersions', 3,
    { ClientSoftwareName => 'wire', ClientSoftwareVersion => '1.0' });
ok(!(grep { $_->{MinVersion} == 0 } @{ $r->{SupportedFeatures} || [] }),
    'v3: no feature from 0');

# A version above ours: a v0 answer that names the range, on an open connection.
$c->send_raw($c->frame('ApiVersions', 5, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1' }, correlation_id => 77)
    =~ s/^(.{6}).{2}/$1\0\x63/sr);
my $frame = $c->recv_frame;
is(unpack('H*', $frame), '0000004d' . '0023' . '00000001' . '0012' . '0000'
    . '0005', 'v99: error 35 in v0, with the one key');

for my $bad (['', '1.0'], ['a b', '1.0'], ['-x', '1'], ['ok', 'x y']) {
    $r = $c->call('ApiVersions', 3,
        { ClientSoftwareName => $bad->[0], ClientSoftwareVersion => $bad->[1] });
    is($r->{ErrorCode}, 42, "software '@$bad': INVALID_REQUEST");
    is(scalar @{ $r->{ApiKeys} }, 0, 'and no keys');
}

# KIP-1242: a cluster that is not ours.
$r = $c->call('ApiVersions', 5, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1', ClusterId => 'another', NodeId => 1 });
is($r->{ErrorCode}, 129, 'another cluster: REBOOTSTRAP_REQUIRED');

my $cluster = $c->call('Metadata', 2, { Topics => [] })->{ClusterId};
$r = $c->call('ApiVersions', 5, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1', ClusterId => $cluster, NodeId => 1 });
is($r->{ErrorCode}, 0, 'our cluster and node');

# A client without a name.
my $nameless = $t->client(client_id => undef);
is($nameless->call('ApiVersions', 0, {})->{ErrorCode}, 0, 'no client id, v0');
is($nameless->call('Metadata', 9, { Topics => [] })->{ControllerId}, 1,
    'no client id, flexible header');

# Header tags that we don't know are skipped.
my $tagged = pack('n n N n a4 C C C a3', 3, 12, 5, 4, 'wire', 1, 42, 3, 'abc')
    . "\1\0\0\0";
$c->send_raw(pack('N', length $tagged) . $tagged);
is(unpack('N', $c->recv_frame // ''), 5, 'unknown header tags are skipped');

# Any other unknown key or version closes the connection.
for my $case (['an unknown key', pack('n n N n', 999, 0, 1, 0xffff)],
    ['a negative key', pack('n n N n', 0xffff, 0, 1, 0xffff)],
    ['a key that is not served', pack('n n N n n a5', 17, 1, 1, 0xffff, 5,
        'PLAIN')],
    ['Metadata v14', pack('n n N n C', 3, 14, 1, 0xffff, 0)],
    ['Fetch v3', pack('n n N n', 1, 3, 1, 0xffff) . "\0" x 30],
    ['Produce v2', pack('n n N n', 0, 2, 1, 0xffff) . "\0" x 30])
{
    next if $t->foreign && $case->[0] =~ /not served|negative/;
    my $x = $t->client;
    $x->send_raw(pack('N', length $case->[1]) . $case->[1]);
    ok($x->closed(30), "$case->[0] closes the connection");
}

# Pipelined: answers in order.
my $p = $t->client;
$p->send('ApiVersions', $_ % 3, {}) for 1 .. 50;
is(scalar(grep { $_->{ErrorCode} == 0 } map $p->recv, 1 .. 50), 50,
    'fifty pipelined requests');

# In pieces of one byte, and several in one piece.
my $s = $t->client;
my $bytes = $s->frame('ApiVersions', 3, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1' }, correlation_id => 1);
for my $byte (split //, $bytes) {
    $s->send_raw($byte);
    select undef, undef, undef, 0.001;
}
ok($s->recv_frame, 'byte by byte');
$s->send_raw($bytes x 3 . substr $bytes, 0, 7);
ok($s->recv_frame, "three and a half in one piece: $_") for 1 .. 3;
$s->send_raw(substr $bytes, 7);
ok($s->recv_frame, 'and the rest');

$t->done;
