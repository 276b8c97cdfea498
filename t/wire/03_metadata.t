#!/usr/bin/env perl

# Metadata: every version, by name and id, automatic creation.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(config => { 'num.partitions' => 3 })->run;
my $c = $t->client;
my $name = "meta-$$";

$c->create_topic($name, 2);
my $id = $c->topic_id($name);
isnt($id, "\0" x 16, 'a topic has an id');

my $cluster;

for my $v (0 .. 13) {
    my $r = $c->call('Metadata', $v, { Topics => [{ Name => $name }] });

    is(scalar @{ $r->{Brokers} }, 1, "v$v: one broker");
    my $broker = $r->{Brokers}[0];
    is("$broker->{NodeId} $broker->{Host}:$broker->{Port}", '1 127.0.0.1:' . $t->port(0),
        "v$v: where the client connected to");
    is($r->{ControllerId}, 1, "v$v: the controller") if $v >= 1;
    is($r->{ErrorCode}, 0, "v$v: no error") if $v >= 13;

    if ($v >= 2) {
        like($r->{ClusterId}, qr/^[\w-]{22}$/, "v$v: a cluster id");
        is($r->{ClusterId}, $cluster //= $r->{ClusterId}, "v$v: the same");
    }

    my ($topic) = @{ $r->{Topics} };
    is($topic->{ErrorCode}, 0, "v$v: the topic");
    is($topic->{Name}, $name, "v$v: its name");
    is($topic->{TopicId}, $id, "v$v: its id") if $v >= 10;
    is($topic->{IsInternal}, 0, "v$v: not internal") if $v >= 1;

    my @p = sort { $a->{PartitionIndex} <=> $b->{PartitionIndex} }
        @{ $topic->{Partitions} };
    is(join(' ', map "$_->{PartitionIndex}:$_->{ErrorCode}:$_->{LeaderId}:"
        . "@{ $_->{ReplicaNodes} }:@{ $_->{IsrNodes} }", @p),
        '0:0:1:1:1 1:0:1:1:1', "v$v: its partitions");
    ok($p[0]{LeaderEpoch} >= 0, "v$v: a leader epoch") if $v >= 7;
    is_deeply($p[0]{OfflineReplicas}, [], "v$v: none offline") if $v >= 5;
}

# All topics, and none.
ok((grep { $_->{Name} eq $name }
    @{ $c->call('Metadata', $_, { Topics => undef })->{Topics} }), "v$_: all")
    for 1, 9, 12;
ok((grep { $_->{Name} eq $name }
    @{ $c->call('Metadata', 0, { Topics => [] })->{Topics} }),
    'v0: empty means all');
is(scalar @{ $c->call('Metadata', $_, { Topics => [] })->{Topics} }, 0,
    "v$_: empty means none") for 1, 9, 12;


sub topic {
    my ($v, $what, $auto) = @_;

    return $c->call('Metadata', $v, { Topics => [$what],
        AllowAutoTopicCreation => $auto // 0 })->{Topics}[0];
}


# By id.
my $r = topic(12, { TopicId => $id, Name => undef });
is("$r->{ErrorCode} $r->{Name}", "0 $name", 'by id');
$r = topic(12, { TopicId => $id, Name => '' });
is("$r->{ErrorCode} $r->{Name}", "0 $name", 'by id, with an empty name');
is($r->{TopicId}, $id, 'the same id');
$r = topic(12, { TopicId => "\7" x 16, Name => undef });
is($r->{ErrorCode}, 100, 'an unknown id: UNKNOWN_TOPIC_ID');
is($r->{TopicId}, "\7" x 16, 'named in the answer');
is($r->{Name}, undef, 'and no name');

for my $v (10, 11) {
    is(topic($v, { TopicId => $id, Name => $name })->{ErrorCode}, 42,
        "v$v: not by id: INVALID_REQUEST");
}

# Operations are told of what there is not, too.
for my $case ([3, "no-$name"], [17, 'no name'], [17, '']) {
    my ($code, $what) = @$case;
    $r = $c->call('Metadata', 9, { Topics => [{ Name => $what }],
        AllowAutoTopicCreation => 0, IncludeTopicAuthorizedOperations => 1 })
        ->{Topics}[0];
    is("@$r{qw(ErrorCode TopicAuthorizedOperations)}", "$code 3576",
        "operations of \"$what\"");
}

# Names.
is(topic(9, { Name => "no-$name" })->{ErrorCode}, 3,
    'an unknown name, not to be created');
for my $bad ('', '.', '..', 'a b', 'a/b', "a\nb", 'x' x 250, "\xc3\xa9") {
    my $label = length $bad > 20 ? '250 letters' : $bad =~ s/\n/\\n/r;
    is(topic(9, { Name => $bad }, 1)->{ErrorCode}, 17,
        "'$label': INVALID_TOPIC_EXCEPTION");
}

# Automatic creation.
for my $v (0, 4, 9, 12) {
    my $new = "auto-$v-$$";
    my $code;

    for (1 .. 300) {
        $r = topic($v, { Name => $new }, 1);
        $code = $r->{ErrorCode};
        last unless $code == 5 || $t->foreign && $code == 3;
        select undef, undef, undef, 0.1;
    }

    is($code, 0, "v$v: created when asked for");
    is(scalar @{ $r->{Partitions} }, $t->foreign ? 4 : 3,
        "v$v: with num.partitions");
}

is(topic(9, { Name => "late-$$" })->{ErrorCode}, 3, 'unknown before');

# Many topics in one request.
$r = $c->call('Metadata', 9, { Topics => [map +{ Name => "many-$_-$$" },
    1 .. 200], AllowAutoTopicCreation => 0 });
is(scalar(grep { $_->{ErrorCode} == 3 } @{ $r->{Topics} }), 200,
    'two hundred unknown topics');

# A topic made through one worker is there for all at once.
for my $i (1 .. ($t->foreign ? 0 : 10)) {
    my ($here, $there) = map $t->client(worker => $_), ($t->workers)[0, 1];
    ($here, $there) = ($there, $here) if $i % 2;
    my $new = "seen-$i-$$";
    is($here->create_topic($new, 1)->{ErrorCode}, 0, "made in one worker ($i)");
    is($there->call('Metadata', 9, { Topics => [{ Name => $new }] })
        ->{Topics}[0]{ErrorCode}, 0, 'there in the other');
    is($there->produce($new, 0, batch())->{ErrorCode}, 0, 'and usable');
}

# As librdkafka 2.15 asks for all topics: with bytes behind the request.
{
    my $body = $c->frame('Metadata', 13, { Topics => undef },
        correlation_id => 77);
    substr $body, 0, 4, pack 'N', length($body) - 4 + 3;
    $c->send_raw($body . "\1\0\0");
    my $frame = $c->recv_frame;
    is(length($frame) > 8 && unpack('N', $frame), 77,
        'bytes behind a request do not matter');
}

$t->done;
