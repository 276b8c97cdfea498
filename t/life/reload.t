#!/usr/bin/env perl

# Reloads: parked requests are answered, requests under way are finished, old and
# new workers share one zone; and a zone that cannot be shared is handed over.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 2)->run;
my $batch = Kafka::Batch::batch(records => ['a', 'b']);
my $end = 0;

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');


sub produce {
    my ($name) = @_;

    my $r = $t->client->produce('t', 0, $batch);
    is($r->{ErrorCode}, 0, "$name: produced");
    is($r->{BaseOffset}, $end, "$name: at its place");
    $end += 2;
}


sub opens { return scalar(() = $t->error_log =~ /: open in/g) }


# A long poll that would last for half a minute.
sub park {
    my $c = $t->client;
    $c->call('ApiVersions', 0, {});             # a worker has accepted it
    $c->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, $end,
        max_wait => 120_000));
    sleep 0.1;

    return $c;
}


produce('before');

{
    my @parked = map park(), 1 .. 6;
    my @new = $t->reload;

    is(scalar @new, 2, 'reload: new workers');

    my @bad = grep {
        my $r = eval { $_->recv };
        !$r || $r->{Responses}[0]{Partitions}[0]{ErrorCode};
    } @parked;
    is(scalar @bad, 0, 'reload: every long poll is answered');
    is(opens(), 1, 'reload: nothing is opened again');
    produce('reload');
}

{
    local $t->{workers} = 4;
    my @new = $t->reload;
    is(scalar @new, 4, 'more workers');
    produce('more workers');
}

$t->{workers} = 1;
is(scalar(my @one = $t->reload), 1, 'fewer workers');
produce('fewer workers');
$t->{workers} = 2;

# Another size is another zone: the directory goes from one to the other.
for my $size ('32m', '8m') {
    my $before = opens();
    my @parked = map park(), 1 .. 3;

    $t->{zone} = $size;
    $t->reload;
    $t->wait_ready;

    is(opens(), $before + 1, "zone $size: opened anew");
    my @bad = grep { !eval { $_->recv } } @parked;
    is(scalar @bad, 0, "zone $size: long polls are answered");
    produce("zone $size");
}

# Another name is the same zone.
{
    my $before = opens();

    $t->{name} = 'renamed';
    $t->reload;
    $t->wait_ready;
    is(opens(), $before, 'renamed: nothing is opened again');
    produce('renamed');
}

# Away, and back.
{
    my $with = $t->{conf};

    $t->{conf} = <<CONF;
%%GLOBALS%%
events { }
stream { server { listen 127.0.0.1:%%PORT%%; return gone; } }
CONF
    ok(scalar(my @w = $t->reload), 'removed');
    ok(-e $t->data . '/.kafka_cleanshutdown', 'removed: closed cleanly');

    $t->{conf} = $with;
    $t->reload;
    $t->wait_ready;
    produce('back');
}

# Old workers that something else holds do not hold the directory.
{
    $t->{conf} = undef;
    $t->{stream} = 'server { listen 127.0.0.1:%%PORT_1%%;
        proxy_pass 127.0.0.1:%%PORT_2%%; }
        server { listen 127.0.0.1:%%PORT_3%%; kafka renamed; }';
    $t->reload;
    $t->wait_ready;

    my $there = IO::Socket::INET->new(Listen => 5,
        LocalAddr => '127.0.0.1:' . $t->port(2)) or die;
    my $held = IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . $t->port(1))
        or die;
    my $other = $there->accept;

    $t->{zone} = '24m';
    $t->reload(gone => 0);
    $t->wait_ready;
    produce('held');
    ok($t->workers(all => 1) > 2, 'held: an old worker is still there');
    close $held;
    close $other;
}

# Under load: every request is answered, or its connection closed before.
{
    my ($lost, $done, $cut) = (0, 0, 0);
    my $until = time + 3;
    my $pid = fork // die;

    if (!$pid) {
        for (1 .. 4) {
            sleep 0.6;
            kill 'HUP', $t->master;
        }
        require POSIX;
        POSIX::_exit(0);
    }

    my $c;

    while (time < $until) {
        $c ||= eval { $t->client } or next;
        my $r = eval { $c->produce('t', 0, $batch) };

        if (!$r) {
            $cut++;
            $c = undef;
            # it may have been written before the answer was lost: it was not
            # acknowledged, so the end is asked for
            $end = $t->client->list_offset('t', 0, -1)->{Offset};
            next;
        }

        $lost++ if $r->{ErrorCode} || $r->{BaseOffset} != $end;
        $end = $r->{BaseOffset} + 2;
        $done++;
    }

    waitpid $pid, 0;
    is($lost, 0, "under load: $done acknowledged, each at its place");
    is($t->client->list_offset('t', 0, -1)->{Offset}, $end,
        'under load: nothing more, nothing less');
    note("connections closed with a request: $cut");
}

$t->done;
