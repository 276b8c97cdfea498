#!/usr/bin/env perl

# Deleted topics: their directories are renamed before the answer, their files
# go afterwards, whoever dies meanwhile, and a topic that is made again under
# the same name has nothing to do with any of it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Kafka::Batch;
use Test::KafkaFault;
use Test::KafkaNginx qw(wait_for);

use constant { EIO => 5, STORAGE => 56 };

my $t = Test::KafkaFault->new(workers => 3);

$t->allow(qr/exited on signal 9|Address already in use/);
$t->run;


sub leftovers { my @names = glob $t->data . "/$_[0]-*-delete"; @names }


# The directory of a partition, and what is in it.
sub files { my @names = glob $t->data . "/$_[0]-0/*"; @names }


sub elsewhere {
    my ($c) = @_;
    my $mine = $t->worker_of($c);
    my ($worker) = grep { $_ != $mine } $t->workers;

    return $t->client(worker => $worker, timeout => 20);
}


# A topic with something in it.
sub made {
    my ($name) = @_;

    return $t->insist(sub {
        my $e = $_[0]->create_topic($name)->{ErrorCode};
        return $e == 0 || $e == 36;
    }, 30) && produced($name);
}


sub produced {
    my ($name, $error) = @_;

    return $t->insist(sub {
        my $r = $_[0]->produce($name, 0, Kafka::Batch::batch());
        $$error ||= $r->{ErrorCode} if $error;
        return $r->{ErrorCode} == 0;
    }, 30);
}


sub end { $t->client->list_offset($_[0], 0, -1)->{Offset} }


# Nobody waits for the files.
{
    ok(made('slow'), 'files: a topic');
    ok(produced('slow'), 'files: with records') for 1 .. 2;

    $t->arm('log.remove.unlink=' . EIO);
    my $c = $t->client;
    is($c->delete_topic('slow')->{ErrorCode}, 0, 'files: it is deleted');
    is(scalar(files('slow')), 0, 'files: the directory is renamed');
    is(scalar(leftovers('slow')), 1, 'files: and has not gone');

    is($c->create_topic('slow')->{ErrorCode}, 0, 'files: it is made again');
    is($c->produce('slow', 0, Kafka::Batch::batch())->{BaseOffset}, 0,
        'files: and empty');
    is(elsewhere($c)->delete_topic('slow')->{ErrorCode}, 0,
        'files: deleted again');
    is(scalar(leftovers('slow')), 2, 'files: neither has gone');
    is($c->create_topic('slow')->{ErrorCode}, 0, 'files: made again');
    ok(wait_for(sub { $t->error_log =~ /-delete: removal failed/ }, 30),
        'files: that they cannot be removed is told of');

    $t->disarm;
    ok(wait_for(sub { !leftovers('slow') }, 30), 'files: they go');
    ok(produced('slow'), 'files: the last one is used');
    is(end('slow'), 1, 'files: and empty before');
}

# A worker that dies between the decision and the directory's new name.
{
    ok(made('held'), 'decided: a topic');
    ok(produced('held'), 'decided: with records') for 1 .. 2;

    my $c = $t->client(timeout => 5);
    my $other = elsewhere($c);

    $t->arm('log.remove.rename');
    $c->send('DeleteTopics', 5, { TimeoutMs => 60_000,
        TopicNames => ['held'] });
    ok($t->reached, 'decided: its worker died');
    is($other->create_topic('held')->{ErrorCode}, 0,
        'decided: it is made again');
    ok(produced('held'), 'decided: and used');
    is(end('held'), 1, 'decided: and was empty');
    ok(wait_for(sub { !leftovers('held') }, 30), 'decided: the old one goes');
}

# … and the name.
{
    ok(made('named'), 'renamed: a topic');

    $t->arm('log.remove.renamed');
    $t->client(timeout => 5)->send('DeleteTopics', 5, { TimeoutMs => 60_000,
        TopicNames => ['named'] });
    ok($t->reached, 'renamed: its worker died');
    ok(wait_for(sub { !leftovers('named') }, 30), 'renamed: the files go');
    ok(made('named'), 'renamed: made again');
    is(end('named'), 1, 'renamed: and empty');
}

# … or among the files.
{
    ok(made('half'), 'among them: a topic');

    $t->arm('log.remove.unlink:2');
    is($t->client->delete_topic('half')->{ErrorCode}, 0,
        'among them: it is deleted');
    ok($t->reached, 'among them: a worker died');
    ok(wait_for(sub { !leftovers('half') }, 30), 'among them: the rest goes');
}

# Another client is faster than the worker that deletes.
{
    ok(made('raced'), 'raced: a topic');
    ok(produced('raced'), 'raced: with records') for 1 .. 2;

    my $c = $t->client(timeout => 30);
    my $other = elsewhere($c);

    $t->arm('log.remove.rename?');
    $c->send('DeleteTopics', 5, { TimeoutMs => 60_000,
        TopicNames => ['raced'] });
    ok($t->held, 'raced: the directory is about to be renamed');
    is($other->create_topic('raced')->{ErrorCode}, 0,
        'raced: it is made again');
    is($other->produce('raced', 0, Kafka::Batch::batch())->{ErrorCode},
        STORAGE, 'raced: the old one is in the way');
    $t->disarm;
    is($c->recv->{Responses}[0]{ErrorCode}, 0, 'raced: it was deleted');
    ok(produced('raced'), 'raced: and the new one is used');
    is(end('raced'), 1, 'raced: which was empty');
    ok(wait_for(sub { !leftovers('raced') }, 30), 'raced: the old one goes');
}

# A disk that does not rename: the deletion stands, the new topic waits.
{
    ok(made('stuck'), 'a rename that fails: a topic');

    $t->arm('log.remove.rename=' . EIO);
    is($t->client->delete_topic('stuck')->{ErrorCode}, 0,
        'a rename that fails: it is deleted');
    is($t->client->create_topic('stuck')->{ErrorCode}, 0,
        'a rename that fails: made again');
    is($t->client->produce('stuck', 0, Kafka::Batch::batch())->{ErrorCode},
        STORAGE, 'a rename that fails: the old one is in the way');
    $t->disarm;
    ok(produced('stuck'), 'a rename that fails: until it can be done');
    is(end('stuck'), 1, 'a rename that fails: the new one was empty');
}

# Everything dies.
{
    ok(made($_), "a crash: topic $_") for qw(crash crashed);

    $t->arm('log.remove.unlink=' . EIO);
    is($t->client->delete_topic('crash')->{ErrorCode}, 0,
        'a crash: one is deleted');
    $t->kill_all;
    is(scalar(leftovers('crash')), 1, 'a crash: its files are there');

    $t->arm('log.remove.rename');
    $t->run;
    $t->client(timeout => 5)->send('DeleteTopics', 5, { TimeoutMs => 60_000,
        TopicNames => ['crashed'] });
    ok($t->reached, 'a crash: one dies before the new name');
    $t->kill_all;
    $t->run;
    ok(wait_for(sub { !leftovers('crash') && !files('crashed')
        && !leftovers('crashed') }, 30), 'a crash: the next start removes all');
    is($t->client->create_topic('crashed')->{ErrorCode}, 0,
        'a crash: one is made again');
}

unlike($t->error_log, qr/belongs to another topic/,
    'no deletion was taken for a foreign directory');

# One that really is not ours stays.
{
    ok(made('foreign'), 'foreign: a topic');
    ok($t->quit, 'foreign: the broker ends');

    my $name = $t->data . '/foreign-0/partition.metadata';
    my $text = $t->read_file($name);
    ok($text =~ s/topic_id: ..../topic_id: AAAA/, 'foreign: another id');
    $t->write_file($name, $text);

    $t->run;
    ok(wait_for(sub { $t->error_log =~ m{\[crit\].*foreign-0" belongs to } },
        30), 'foreign: it is told of');
    is($t->client->produce('foreign', 0, Kafka::Batch::batch())->{ErrorCode},
        STORAGE, 'foreign: the topic is offline');
    cmp_ok(scalar(files('foreign')), '>', 1, 'foreign: the files are there');

    rename $t->data . '/foreign-0', $t->dir . '/moved' or die;
    ok(produced('foreign'), 'foreign: once it is moved away, all is well');
}

$t->done;
