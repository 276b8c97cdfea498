#!/usr/bin/env perl

# What the journal leaves behind: compaction keeps it short and loses nothing,
# deletions that a crash interrupted are finished, and directories that nobody
# knows are reported, not touched.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep);

use Kafka::Batch;
use Test::KafkaFault;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaFault->new(workers => 2)->run;
my $batch = Kafka::Batch::batch(records => ['a', 'b']);
my $journal = $t->data . '/@journal-0';

use constant EIO => 5;


sub make {
    my ($name) = @_;

    is($t->client->create_topic($name)->{ErrorCode}, 0, "$name: made");
    is($t->client->produce($name, 0, $batch)->{ErrorCode}, 0,
        "$name: produced");
    ok(-d $t->data . "/$name-0", "$name: has a directory");
}


sub dirs { return map { s{.*/}{}r } glob $t->data . "/$_[0]*" }


# A deletion whose directory could not go, and then an orderly end.
make('quit');
$t->arm('log.remove.rename=' . EIO);
$t->client->delete_topic('quit');
ok(-d $t->data . '/quit-0', 'quit: its directory has stayed');
$t->disarm;
$t->quit;
is(scalar(grep !/-delete$/, dirs('quit')), 0,
    'quit: the last worker finishes it');

# … and then a crash.
$t->run;
make('kill');
$t->arm('log.remove.rename=' . EIO);
$t->client->delete_topic('kill');
$t->kill_all;                           # before anybody can try again
$t->disarm;
ok(-d $t->data . '/kill-0', 'kill: its directory has stayed');
$t->allow(qr/Address already in use/);
$t->run;
ok(wait_for(sub { !dirs('kill') }, 30), 'kill: the next start finishes it');
ok(wait_for(sub { !dirs('quit') }, 30), 'quit: and has removed the files');

# The same name again, over a directory that has stayed.
make('again');
$t->arm('log.remove.rename=' . EIO);
$t->client->delete_topic('again');
$t->disarm;
is($t->client->create_topic('again')->{ErrorCode}, 0, 'again: made anew');
my $first;
$t->insist(sub { $first = $_[0]->produce('again', 0, $batch);
    return $first->{ErrorCode} == 0 }, 30);
is($first->{ErrorCode}, 0, 'again: works when the old files have gone');
is($first->{BaseOffset}, 0, 'again: from the beginning');

# What nobody knows.
$t->quit;
mkdir $t->data . '/stranger-0';
$t->write_file($t->data . '/stranger-0/00000000000000000000.log', 'x');
$t->run;
ok(wait_for(sub { $t->error_log =~ /\[warn\].*stranger-0/ }, 30),
    'stranger: is reported');
ok(-e $t->data . '/stranger-0/00000000000000000000.log',
    'stranger: is left alone');
is($t->client->list_offset('again', 0, -1)->{Offset}, 2,
    'again: is there after all');

# Enough decisions for several segments of the journal.
{
    my $c = $t->client(timeout => 120);
    my $round = 0;

    while ($round++ < 150) {
        my @names = map { sprintf '%s-%03d-%03d', 'x' x 200, $round, $_ }
            1 .. 300;

        my $r = $c->call('CreateTopics', 7, { timeoutMs => 60_000,
            Topics => [map +{ Name => $_, NumPartitions => 1,
                ReplicationFactor => 1 }, @names] });
        my @bad = grep $_->{ErrorCode}, @{ $r->{Topics} };

        if (@bad) {
            is($bad[0]{ErrorCode} . ' ' . ($bad[0]{ErrorMessage} // ''), '',
                "round $round");
            last;
        }

        $c->call('DeleteTopics', 5, { TopicNames => \@names,
            TimeoutMs => 60_000 });
        last if (() = $t->error_log =~ /journal compacted/g) >= 2;
    }

    note("$round rounds");
}

ok(wait_for(sub { $t->error_log =~ /journal compacted up to (\d+)/ }, 30),
    'compaction: took place');
ok(wait_for(sub { !-e "$journal/00000000000000000000.log" }, 30),
    'compaction: the oldest segment has gone');
my @states = sort glob "$journal/*.state";
cmp_ok(scalar @states, '<=', 2, 'compaction: two snapshots are kept');

# From the snapshot and what follows; then from the older one.
$t->kill_all;
$t->run;
is($t->client->list_offset('again', 0, -1)->{Offset}, 2,
    'compaction: nothing is lost');

$t->kill_all;
@states = sort glob "$journal/*.state";
my $bytes = $t->read_file($states[-1]);
substr($bytes, -10, 1) ^= "\x01";
$t->write_file($states[-1], $bytes);
$t->run;
like($t->error_log, qr/snapshot \d+ of the journal is not usable/,
    'damage: the newest snapshot is not used');
is($t->client->list_offset('again', 0, -1)->{Offset}, 2,
    'damage: the one before does');

# A crash between the snapshot's writing and its renaming.
{
    my $c = $t->client(timeout => 120);
    my $name = 'y' x 200;

    $t->arm('snapshot-rename');

    for my $round (1 .. 120) {
        last unless $t->armed;
        $c = eval { $t->client(timeout => 120) } or next;
        my @names = map "$name-$round-$_", 1 .. 300;
        eval {
            $c->call('CreateTopics', 7, { timeoutMs => 60_000,
                Topics => [map +{ Name => $_, NumPartitions => 1,
                    ReplicationFactor => 1 }, @names] });
            $c->call('DeleteTopics', 5, { TopicNames => \@names,
                TimeoutMs => 60_000 });
        };
    }

    ok($t->reached, 'rename: a worker died before it');
    $t->allow(qr/exited on signal 9/);
    is($t->insist(sub { $_[0]->list_offset('again', 0, -1)->{Offset} }), 2,
        'rename: nothing is lost');
}

$t->done;
