#!/usr/bin/env perl

# DescribeConfigs of topics and the broker.

use strict;
use warnings;

use Test::More;

use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(config => { 'num.partitions' => 5,
    'log.retention.ms' => 7200000 })->run;
my $c = $t->client;
my $name = "config-$$";
my ($topic, $broker) = (2, 4);

$c->create_topic($name, 1, 'segment.bytes' => 2000000);


sub describe {
    my ($v, $type, $resource, $keys, %o) = @_;

    return $c->call('DescribeConfigs', $v, { Resources => [{
        ResourceType => $type, ResourceName => $resource,
        ConfigurationKeys => $keys }], IncludeSynonyms => 1, %o })
        ->{Results}[0];
}


sub by_name { +{ map { $_->{Name} => $_ } @{ $_[0]{Configs} } } }


for my $v (1 .. 4) {
    my $r = describe($v, $topic, $name);
    is("$r->{ErrorCode} $r->{ResourceType} $r->{ResourceName}",
        "0 2 $name", "v$v: a topic");
    my $x = by_name($r);
    is(join(' ', map $x->{'segment.bytes'}{$_},
        qw(Value ReadOnly ConfigSource IsSensitive)), '2000000 0 1 0',
        "v$v: its own config");
    is($x->{'max.message.bytes'}{ConfigSource}, 5, "v$v: a default");
    is($x->{'segment.bytes'}{ConfigType}, 3, "v$v: an int") if $v >= 3;
    is($x->{'retention.ms'}{ConfigType}, 5, "v$v: a long") if $v >= 3;

    $r = describe($v, $broker, '1');
    is($r->{ErrorCode}, 0, "v$v: the broker");
    ok(defined by_name($r)->{'log.segment.bytes'}, "v$v: its configs");
}

# What no `config` line says.
SKIP: {
    skip 'another broker', 5 if $t->foreign;
    my $fact = by_name(describe(4, $broker, '1'));
    my $at = 'PLAINTEXT://127.0.0.1:' . $t->port(0);
    is($fact->{'advertised.listeners'}{Value}, $at, 'where clients go');
    is($fact->{listeners}{Value}, $at, 'where it listens');
    like($fact->{'log.dirs'}{Value}, qr{^/}, 'where the data is');
    is(join(' ', map "$_->{ConfigSource} $_->{ReadOnly}",
        @$fact{qw(advertised.listeners listeners log.dirs)}), '4 1 4 1 4 1',
        'and they cannot be altered');
    is(scalar(grep /listeners|log\.dirs/, map $_->{Name},
        @{ describe(4, $broker, '')->{Configs} }), 0,
        'they are not defaults of all brokers');
}

# Defaults as Kafka has them.
my $x = by_name(describe(4, $topic, $name));
my %default = ('cleanup.policy' => 'delete', 'retention.bytes' => -1,
    'segment.ms' => 604800000, 'segment.index.bytes' => 10485760,
    'index.interval.bytes' => 4096, 'delete.retention.ms' => 86400000,
    'min.cleanable.dirty.ratio' => '0.5', 'min.compaction.lag.ms' => 0,
    'file.delete.delay.ms' => 60000, 'max.message.bytes' => 1048588,
    'message.timestamp.type' => 'CreateTime',
    'message.timestamp.after.max.ms' => 3600000,
    'compression.type' => 'producer', 'min.insync.replicas' => 1,
    'preallocate' => 'false', 'unclean.leader.election.enable' => 'false',
    'flush.ms' => '9223372036854775807',
    'flush.messages' => '9223372036854775807');

is($x->{$_} && $x->{$_}{Value}, $default{$_}, "default of $_")
    for sort keys %default;

SKIP: {
    skip 'another broker', 5 if $t->foreign;

    is($x->{'retention.ms'}{Value}, 7200000,
        'a config line is the default of topics');
    is($x->{'retention.ms'}{ConfigSource}, 4, 'from the static configuration');
    is(join(' ', map "$_->{Name}=$_->{Value}",
        @{ $x->{'retention.ms'}{Synonyms} }[0]), 'log.retention.ms=7200000',
        'by its synonym');

    my $b = by_name(describe(4, $broker, '1'));
    is($b->{'num.partitions'}{Value}, 5, "the broker's own");
    is($b->{'num.partitions'}{ConfigSource}, 4, 'and its source');
}

# Synonyms, in Kafka's order.
my @s = @{ $x->{'segment.bytes'}{Synonyms} };
is("$s[0]{Name} $s[0]{Value} $s[0]{Source}", 'segment.bytes 2000000 1',
    'the first synonym is the value itself');
is("$s[-1]{Name} $s[-1]{Value} $s[-1]{Source}",
    'log.segment.bytes 1073741824 5', "the last one is the broker's default");
is(scalar @{ by_name(describe(4, $topic, $name, undef,
    IncludeSynonyms => 0))->{'segment.bytes'}{Synonyms} }, 0,
    'none when not asked for');

# Some keys, and keys that are not there.
my $r = describe(4, $topic, $name, ['retention.ms', 'no.such']);
is(join(' ', map $_->{Name}, @{ $r->{Configs} }), 'retention.ms', 'by key');
is(scalar @{ describe(4, $topic, $name, [])->{Configs} }, scalar keys %$x,
    'an empty list of keys means all');

# Errors.
is(describe(4, $topic, 'no-such')->{ErrorCode}, 3, 'an unknown topic');
is(describe(4, $topic, 'bad name')->{ErrorCode}, 17, 'a bad name');
is(describe(4, $broker, '77')->{ErrorCode}, 42, 'another broker');
is(describe(4, $broker, 'x')->{ErrorCode}, 42, 'no number');
is(describe(4, 99, 'x')->{ErrorCode}, 42, 'an unknown type');

$t->done;
