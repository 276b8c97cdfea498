#!/usr/bin/env perl

# DeleteTopics: every version, by name and id, and what is left of a topic.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new->run;
my $c = $t->client;
my $n = 0;


sub made {
    my $name = "delete-$$-" . ++$n;
    $c->create_topic($name, 2);

    return $name;
}


for my $v (1 .. 6) {
    my $name = made();
    $c->produce($name, 0, batch());
    my $r = $c->call('DeleteTopics', $v, { TimeoutMs => 60_000,
        TopicNames => [$name], Topics => [{ Name => $name }] })->{Responses}[0];
    is("$r->{Name} $r->{ErrorCode}", "$name 0", "v$v");

    is($c->call('Metadata', 9, { Topics => [{ Name => $name }],
        AllowAutoTopicCreation => 0 })->{Topics}[0]{ErrorCode}, 3,
        "v$v: unknown afterwards");
    is($c->produce($name, 0, batch(), version => 9)->{ErrorCode}, 3,
        "v$v: not to be produced to") unless $t->foreign;
    is($c->fetch($name, 0, 0)->{ErrorCode}, 3, "v$v: nor fetched from");
}

my $name = made();
my $id = $c->topic_id($name);


sub by_id {
    my ($id, $name) = @_;

    return $c->call('DeleteTopics', 6, { TimeoutMs => 60_000,
        Topics => [{ TopicId => $id, Name => $name }] })->{Responses}[0];
}


my $r = by_id($id);
is("$r->{ErrorCode} " . ($r->{Name} // '-'), "0 $name", 'by id');
is(by_id($id)->{ErrorCode}, 100, 'again: UNKNOWN_TOPIC_ID');
is($c->fetch($id, 0, 0, version => 13)->{ErrorCode}, 100,
    'fetch by the old id: UNKNOWN_TOPIC_ID');
is($c->produce($id, 0, batch(), version => 13)->{ErrorCode}, 100,
    'produce by the old id');
is($c->delete_topic($name)->{ErrorCode}, 3, 'by name: unknown');
is(by_id("\0" x 16, 'no-such')->{ErrorCode}, 3, 'an unknown name');

# Both a name and an id.
my $both = made();
is(by_id($c->topic_id($both), $both)->{ErrorCode}, 42,
    'name and id together: INVALID_REQUEST');

for my $v (1 .. 6) {
    is($c->call('DeleteTopics', $v, { TimeoutMs => 9000, TopicNames => [''],
        Topics => [{ Name => '' }] })->{Responses}[0]{ErrorCode}, 3,
        "v$v: no topic has no name");
}

# One that is named twice: is it meant?  Kafka answers once for two names.
for my $twice ([{ Name => $both }, { Name => $both }],
    [{ Name => $both }, { TopicId => $c->topic_id($both) }])
{
    my @answers = @{ $c->call('DeleteTopics', 6, { TimeoutMs => 9000,
        Topics => $twice })->{Responses} };
    is(scalar(grep $_->{ErrorCode} != 42, @answers), 0,
        'named twice: INVALID_REQUEST');
    is($c->list_offset($both, 0, -1)->{ErrorCode}, 0, 'and still there');
}

# Made again: another topic.
is($c->create_topic($name, 1)->{ErrorCode}, 0, 'made again');
isnt($c->topic_id($name), $id, 'with another id');
is($c->list_offset($name, 0, -1)->{Offset}, 0, 'and empty');

# Several at once, one of them unknown.
my @some = map made(), 1 .. 3;
$r = $c->call('DeleteTopics', 5, { TimeoutMs => 60_000,
    TopicNames => [@some, 'no-such'] });
my %code = map { $_->{Name} => $_->{ErrorCode} } @{ $r->{Responses} };
is_deeply(\%code, { 'no-such' => 3, map { $_ => 0 } @some }, 'several');

# A fetch that waits on a topic that goes.
my $gone = made();
my $x = $t->client;
$x->send('Fetch', 12, Kafka::Wire::fetch_body($gone, 0, 0,
    max_wait => 60_000));
ok($x->silent(0.2), 'a fetch waits');
$c->delete_topic($gone);
SKIP: {
    skip 'Kafka lets it wait', 1 if $t->foreign;
    is($x->recv->{Responses}[0]{Partitions}[0]{ErrorCode}, 3,
        'and is told when its topic goes');
}

# Its files go, and so do the descriptors of every worker.
SKIP: {
    skip 'another broker', 2 if $t->foreign;
    my $files = made();
    for my $worker ($t->workers) {
        my $y = $t->client(worker => $worker);
        $y->produce($files, $_, batch()) for 0, 1;
        $y->fetch($files, $_, 0) for 0, 1;
    }
    $c->delete_topic($files);
    ok(wait_for(sub { !grep m{/\Q$files\E}, glob $t->data . '/*' }, 30),
        'the directories go');
    ok(wait_for(sub {
        !grep { (readlink($_) // '') =~ /\Q$files\E/ }
            map glob("/proc/$_/fd/*"), $t->workers
    }, 30), 'and the open files');
}

$t->done;
