#!/usr/bin/env perl

# A disk that fails: nothing is acknowledged that is not on it, the broker stays
# up and goes on by itself when the disk is well again.  And directories that
# cannot be opened: the broker says why, and opens when they can.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Test::KafkaFault;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaFault->new(workers => 2)->run;
my $batch = Kafka::Batch::batch(records => ['a', 'b']);

use constant { EIO => 5, ENOSPC => 28, STORAGE => 56 };

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');
is($t->client->produce('t', 0, $batch)->{ErrorCode}, 0, 'produced');


sub end { $t->client->list_offset('t', 0, -1)->{Offset} }


# The disk is full.
{
    $t->arm('log.pwrite=' . ENOSPC);

    is($t->client->produce('t', 0, $batch)->{ErrorCode}, STORAGE,
        'full: a storage error');
    my $e = $t->client->create_topic('full')->{ErrorCode};
    isnt($e, 0, "full: no topic is made ($e)");
    is(end(), 2, 'full: the log is as it was');
    is(length($t->client->fetch('t', 0, 0)->{Records}), length $batch,
        'full: what is there is served');

    $t->disarm;
    is($t->client->produce('t', 0, $batch)->{ErrorCode}, 0,
        'full: goes on when there is space');
    is($t->client->create_topic('full')->{ErrorCode}, 0,
        'full: topics, too');
    is(end(), 4, 'full: with nothing in between');
}

# fdatasync fails, under a partition and under the journal.
{
    my $before = end();

    $t->arm('log.fdatasync=' . EIO);

    my $r = $t->client->produce('t', 0, $batch);
    is($r->{ErrorCode}, STORAGE, 'sync: not acknowledged');
    is($t->client->produce('t', 0, $batch)->{ErrorCode}, STORAGE,
        'sync: offline from then on');

    my @asked = map $t->client(timeout => 60), 1 .. 4;
    $_->send('CreateTopics', 7, { timeoutMs => 60_000, Topics => [{
        Name => 'sync', NumPartitions => 1, ReplicationFactor => 1 }] })
        for @asked;
    sleep 1;

    my $early = grep { my $in = ''; vec($in, $_->fd, 1) = 1;
        select($in, undef, undef, 0) && do {
            my $r = eval { $_->recv };
            $r && $r->{Topics}[0]{ErrorCode} == 0 } } @asked;
    is($early, 0, 'sync: no topic is promised');

    $t->disarm;

    # Nobody is left waiting, in whichever worker: an answer or, where what the
    # answer relied on may be lost, the connection's end.
    my @told = map { my $r = eval { $_->recv };
        $r ? $r->{Topics}[0]{ErrorCode} : $@ || 'closed' } @asked;
    is(scalar(grep /timeout/, @told), 0, "sync: nobody is left waiting (@told)");

    ok($t->insist(sub {
        my $p = $_[0]->produce('t', 0, $batch);
        return $p && $p->{ErrorCode} == 0;
    }, 30), 'sync: back by itself');

    ok($t->insist(sub {
        my $c = $_[0]->create_topic('sync')->{ErrorCode};
        return $c == 0 || $c == 36;
    }, 30), 'sync: and so is the journal');

    cmp_ok(end(), '>=', $before + 2, 'sync: with what was acknowledged');

    # Only what is durable was ever seen; all of it can be read.
    my $at = 0;
    while (my @b = Kafka::Batch::batches(
        $t->client->fetch('t', 0, $at)->{Records} // ''))
    {
        $at += 2 * @b;
    }
    is($at, end(), 'sync: the log is whole');
}

# A journal that is damaged in the middle is not cut off.
{
    $t->quit;

    my $dir = $t->data . '/@journal-0';
    my ($log) = glob "$dir/*.log";
    my $good = $t->read_file($log);
    my @states = glob "$dir/*.state";

    ok(@states, 'damage: there was a snapshot');
    cmp_ok(length $good, '>', 200, 'damage: there is something to damage');

    my $bad = $good;
    substr($bad, 80, 1) ^= "\x01";
    $t->write_file($log, $bad);
    unlink @states, "$dir/checkpoint", $t->data . '/.kafka_cleanshutdown';

    $t->run(ready => 0);
    ok(wait_for(sub { $t->error_log =~ /broker stays closed/ }, 30),
        'damage: the broker stays closed');
    like($t->error_log, qr/\[crit\].*\@journal-0.*\.log/,
        'damage: and says which file');

    is($t->read_file($log), $bad, 'damage: the file is as it was');

    # Put right while it waits: it may look at any time, so at one stroke.
    open my $f, '+<', $log or die "$log: $!";
    sysseek $f, 80, 0;
    syswrite $f, substr $good, 80, 1;
    close $f;
    $t->wait_ready;
    is($t->client->produce('t', 0, $batch)->{ErrorCode}, 0,
        'damage: put right, it opens by itself');
}

# A snapshot that is damaged costs nothing as long as the journal is there.
{
    $t->quit;

    my ($state) = reverse sort glob $t->data . '/@journal-0/*.state';
    my $bytes = $t->read_file($state);
    substr($bytes, length($bytes) / 2, 1) ^= "\x01";
    $t->write_file($state, $bytes);

    $t->run;
    like($t->error_log, qr/snapshot \d+ of the journal is not usable/,
        'snapshot: it is not used');
    is($t->client->produce('t', 0, $batch)->{ErrorCode}, 0,
        'snapshot: and not missed');
}

# No permission, as after a restore by another user.
SKIP: {
    skip 'workers are the user that runs this', 2 if $>;

    $t->quit;
    chmod 0000, $t->data . '/.lock';
    chown 0, 0, $t->data, $t->data . '/.lock';
    chmod 0500, $t->data;

    # The master makes its directory the workers' own; the file stays root's.
    $t->run(ready => 0);
    ok(wait_for(sub { $t->error_log =~ /cannot open "\S+\/\.lock"/ }, 30),
        'permission: the broker says what it cannot open');

    chmod 0700, $t->data;
    unlink $t->data . '/.lock';
    $t->wait_ready;
    pass('permission: and opens when it can');
}

$t->done;
