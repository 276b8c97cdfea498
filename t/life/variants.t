#!/usr/bin/env perl

# nginx as operators run it: accept_mutex, reuseport, small thread pools, one
# process, a shutdown timeout, several brokers; each starts, serves, reloads where
# it can, and ends without a trace.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $batch = Kafka::Batch::batch(records => ['a', 'b']);
my $t;


sub conf {
    my (%o) = @_;

    $o{main} //= '';
    $o{events} //= '';
    $o{listen} //= '';
    $o{stream} //= '';

    return <<CONF;
%%GLOBALS%%
$o{main}
events { $o{events} }
stream {
    kafka_broker main { data %%DIR%%/data; zone 8m; }
    server { listen 127.0.0.1:%%PORT%%$o{listen}; kafka main; }
    $o{stream}
}
CONF
}


sub served {
    my ($name, $n) = @_;

    my $c = $t->client(port => $t->port($n // 0));
    $c->create_topic('t');
    my $end = $c->list_offset('t', 0, -1)->{Offset};

    # One worker waits, any of them appends.
    my $parked = $t->client(port => $t->port($n // 0));
    $parked->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, $end,
        max_wait => 60_000));
    sleep 0.1;

    is($c->produce('t', 0, $batch)->{ErrorCode}, 0, "$name: produced");
    my $r = $parked->recv->{Responses}[0]{Partitions}[0];
    is(length $r->{Records}, length $batch, "$name: fetched");
}


sub variant {
    my ($name, %o) = @_;

    $t = Test::KafkaNginx->new(workers => 2, conf => conf(%o));
    $t->allow($o{allow}) if $o{allow};
    $t->run;
    served($name);
    $t->reload;
    served("$name, reloaded");
    $o{more}->() if $o{more};
    $t->hidden_checks;
}


variant('accept_mutex', events => 'accept_mutex on;');
variant('reuseport', listen => ' reuseport');
variant('multi_accept', events => 'multi_accept on;');
variant('a pool of one thread', main => 'thread_pool default threads=1;');
variant('a short queue',
    main => 'thread_pool default threads=1 max_queue=1;');

# Workers do not wait longer than that, whatever is parked.
variant('worker_shutdown_timeout', main => 'worker_shutdown_timeout 1s;',
    more => sub {
        my @held = map $t->client, 1 .. 4;
        $_->send_raw("\0\0\1") for @held;
        ok($t->quit, 'worker_shutdown_timeout: it ends');
    });

# Two brokers: each has its own topics, whichever worker answers.
variant('two brokers', stream => <<CONF, more => sub {
    kafka_broker other { data %%DIR%%/other; zone 8m; node_id 2; }
    server { listen 127.0.0.1:%%PORT_1%%; kafka other; }
CONF
    served('two brokers, the other', 1);
    my @names = map {
        $t->client(port => $t->port($_))->create_topic("only-$_");
        my $r = $t->client(port => $t->port($_))
            ->call('Metadata', 9, { Topics => undef });
        join ' ', $r->{Brokers}[0]{NodeId},
            sort map $_->{Name}, @{ $r->{Topics} };
    } 0, 1;
    is($names[0], '1 only-0 t', 'two brokers: the topics of one');
    is($names[1], '2 only-1 t', 'two brokers: the topics of the other');
});

# One process, for debugging: it serves, a reload is refused, it ends.
{
    $t = Test::KafkaNginx->new(workers => 0,
        conf => conf(main => 'master_process off; daemon on;'));
    $t->allow(qr/cannot be reloaded with "master_process off"/);
    $t->run;
    served('one process');
    $t->signal('HUP');
    ok(wait_for(sub { $t->error_log =~ /cannot be reloaded with/ }, 30),
        'one process: a reload is refused');
    served('one process, after that');
    ok($t->quit, 'one process: it ends');
    ok(-e $t->data . '/.kafka_cleanshutdown', 'one process: cleanly');
    $t->hidden_checks;
}

done_testing();
