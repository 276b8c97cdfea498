#!/usr/bin/env perl

# CreateTopics: every version, validation, configs.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $n = 0;


sub create {
    my ($v, $topic, %o) = @_;

    $topic = { NumPartitions => 1, ReplicationFactor => 1,
        Name => "create-$$-" . ++$n, %$topic };

    return $c->call('CreateTopics', $v, { Topics => [$topic],
        timeoutMs => 60_000, %o })->{Topics}[0];
}


for my $v (2 .. 7) {
    my $r = create($v, { NumPartitions => 2,
        Configs => [{ Name => 'retention.ms', Value => '1234567' }] });
    is($r->{ErrorCode}, 0, "v$v") or diag($r->{ErrorMessage});

    if ($v >= 5) {
        is("$r->{NumPartitions} $r->{ReplicationFactor}", '2 1',
            "v$v: what was made");
        my ($x) = grep { $_->{Name} eq 'retention.ms' } @{ $r->{Configs} };
        is("$x->{Value} $x->{ConfigSource}", '1234567 1',
            "v$v: its own config");
        ok((grep { $_->{Name} eq 'segment.bytes' && $_->{ConfigSource} == 5 }
            @{ $r->{Configs} }), "v$v: and the defaults");
    }

    isnt($r->{TopicId}, "\0" x 16, "v$v: an id") if $v >= 7;
    is($r->{ErrorMessage}, undef, "v$v: no message");
}

# Defaults (-1), and an assignment by hand.
my $r = create(7, { NumPartitions => -1, ReplicationFactor => -1 });
is($r->{ErrorCode}, 0, 'partitions and replicas left to the broker');
$r = create(7, { NumPartitions => -1, ReplicationFactor => -1,
    Assignments => [map +{ PartitionIndex => $_, BrokerIds => [1] }, 0 .. 2] });
is("$r->{ErrorCode} $r->{NumPartitions}", '0 3', 'an assignment');

# Refusals.
my @bad = (
    ['no partitions', { NumPartitions => 0 }, 37],
    ['negative partitions', { NumPartitions => -5 }, 37],
    ['no replicas', { ReplicationFactor => 0 }, 38],
    ['two replicas', { ReplicationFactor => 2 }, 38],
    ['an empty name', { Name => '' }, 17],
    ['a dot', { Name => '.' }, 17],
    ['a blank', { Name => 'a b' }, 17],
    ['a slash', { Name => 'a/b' }, 17],
    ['a long name', { Name => 'x' x 250 }, 17],
    ['an unknown config', { Configs => [{ Name => 'no.such', Value => '1' }] },
        40],
    ['a config out of range', { Configs => [
        { Name => 'segment.bytes', Value => '1' }] }, 40],
    ['a config that is no number', { Configs => [
        { Name => 'retention.ms', Value => 'long' }] }, 40],
    ['an unknown cleanup.policy', { Configs => [
        { Name => 'cleanup.policy', Value => 'shred' }] }, 40],
    ['a broker that is not there', { NumPartitions => -1,
        ReplicationFactor => -1,
        Assignments => [{ PartitionIndex => 0, BrokerIds => [9] }] }, 39],
    ['an assignment with a gap', { NumPartitions => -1,
        ReplicationFactor => -1,
        Assignments => [{ PartitionIndex => 1, BrokerIds => [1] }] }, 39],
    ['an assignment and a count', { NumPartitions => 1,
        ReplicationFactor => 1,
        Assignments => [{ PartitionIndex => 0, BrokerIds => [1] }] }, 42],
);

for my $case (@bad) {
    my ($label, $topic, $code) = @$case;
    my $r = create(7, $topic);
    is($r->{ErrorCode}, $code, $label) or diag($r->{ErrorMessage} // '');
    ok(defined $r->{ErrorMessage}, "$label: says why");
    is($r->{TopicId}, "\0" x 16, "$label: no id");
}

# The same name.
my $name = "twice-$$";
is(create(7, { Name => $name })->{ErrorCode}, 0, 'first');
is(create(7, { Name => $name })->{ErrorCode}, 36, 'then TOPIC_ALREADY_EXISTS');

$r = $c->call('CreateTopics', 7, { timeoutMs => 60_000, Topics => [
    map +{ Name => "pair-$$", NumPartitions => 1, ReplicationFactor => 1 },
    1, 2] });
is(join(' ', map $_->{ErrorCode}, @{ $r->{Topics} }) =~ /^42( 42)?$/, 1,
    'twice in one request: INVALID_REQUEST')
    or diag(join ' ', map $_->{ErrorCode}, @{ $r->{Topics} });

# A dot and an underscore collide in metric names.
is(create(7, { Name => "a.b-$$" })->{ErrorCode}, 0, 'a dot in a name');
is(create(7, { Name => "a_b-$$" })->{ErrorCode}, 17,
    'collides with an underscore there');

# Only asking.
my $maybe = "maybe-$$";
$r = create(7, { Name => $maybe }, validateOnly => 1);
is($r->{ErrorCode}, 0, 'validateOnly');
is($c->call('Metadata', 9, { Topics => [{ Name => $maybe }],
    AllowAutoTopicCreation => 0 })->{Topics}[0]{ErrorCode}, 3,
    'makes nothing');
is(create(7, { Name => $name }, validateOnly => 1)->{ErrorCode}, 36,
    'validateOnly of one that exists');

# Several, one of them wrong.
$r = $c->call('CreateTopics', 7, { timeoutMs => 60_000, Topics => [
    { Name => "good-$$", NumPartitions => 1, ReplicationFactor => 1 },
    { Name => 'bad name', NumPartitions => 1, ReplicationFactor => 1 }] });
my %code = map { $_->{Name} => $_->{ErrorCode} } @{ $r->{Topics} };
is_deeply(\%code, { "good-$$" => 0, 'bad name' => 17 },
    'one wrong topic is no harm to the others');

is(scalar @{ $c->call('CreateTopics', 7, { Topics => [] })->{Topics} }, 0,
    'none');

$t->done;
