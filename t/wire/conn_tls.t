#!/usr/bin/env perl

# TLS and proxy_protocol listeners, and the address that clients are told.

use strict;
use warnings;

use IO::Socket::INET;
use Socket qw(AF_UNIX SOCK_STREAM PF_UNSPEC);
use Test::More;

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new;

plan(skip_all => 'no stream_ssl_module') unless $t->has('stream_ssl_module');
plan(skip_all => 'no openssl program')
    if system('openssl version >/dev/null 2>&1');

my $dir = $t->dir;
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0
    or plan(skip_all => 'openssl makes no certificate');

$t->{conf} = <<'CONF';
%%GLOBALS%%
events {
    worker_connections  256;
}

stream {
    kafka_broker main {
        data     %%DIR%%/data;
        zone     16m;
        config   connections.max.idle.ms  20000;
    }

    ssl_certificate      %%DIR%%/cert.pem;
    ssl_certificate_key  %%DIR%%/key.pem;

    map $ssl_server_name $sni {
        tenant.example  tenant.example:9443;
        default         "";
    }

    server {
        listen  127.0.0.1:%%PORT%%;
        listen  [::1]:%%PORT%%;
        kafka   main;
    }

    server {
        listen           127.0.0.1:%%PORT_1%% ssl;
        kafka            main;
        kafka_advertise  $sni;
    }

    server {
        listen  127.0.0.1:%%PORT_2%% proxy_protocol;
        kafka   main;
    }

    server {
        listen           127.0.0.1:%%PORT_3%%;
        kafka            main;
        kafka_advertise  kafka.example.com:9092;
    }

    server {
        listen           127.0.0.1:%%PORT_4%%;
        kafka            main;
        kafka_advertise  kafka.example.com;
    }

    server {
        listen           127.0.0.1:%%PORT_5%%;
        kafka            main;
        kafka_advertise  [2001:db8::9]:9095;
    }

    server {
        listen           127.0.0.1:%%PORT_6%% ssl proxy_protocol;
        kafka            main;
    }
}
CONF

$t->run;
my $c = $t->client;
my @children;

# A socket whose other end is TLS to a port; before: sent in the clear first.
sub tls {
    my ($port, %o) = @_;

    socketpair my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC
        or die "socketpair: $!";
    my $pid = fork // die "fork: $!";

    if (!$pid) {
        open STDIN, '<&', $theirs;
        open STDOUT, '>&', $theirs;
        open STDERR, '>', '/dev/null';
        close $_ for $ours, $theirs;
        exec 'openssl', 's_client', '-quiet', '-connect', "127.0.0.1:$port",
            $o{name} ? ('-servername', $o{name}) : '-noservername'
            or POSIX::_exit(127);
    }

    close $theirs;
    push @children, $pid;

    return Kafka::Wire->new(socket => $ours);
}

sub told {
    my ($client) = @_;
    my ($b) = @{ $client->call('Metadata', 1, { Topics => [] })->{Brokers} };

    return "$b->{Host} $b->{Port}";
}

# --- addresses

my %p = map { $_ => $t->port($_) } 0 .. 6;

is(told($c), "127.0.0.1 $p{0}", 'the address that the client connected to');
is(told($t->client(port => $p{3})), 'kafka.example.com 9092',
    'kafka_advertise HOST:PORT');
is(told($t->client(port => $p{4})), "kafka.example.com $p{4}",
    'kafka_advertise HOST: the port of the listener');
is(told($t->client(port => $p{5})), '2001:db8::9 9095',
    'kafka_advertise [v6]:PORT');

SKIP: {
    my $class = eval { require IO::Socket::IP; 'IO::Socket::IP' }
        or skip 'no IO::Socket::IP', 1;
    my $s = $class->new(PeerHost => '::1', PeerPort => $p{0})
        or skip 'no IPv6', 1;

    is(told(Kafka::Wire->new(socket => $s)), "::1 $p{0}", 'over IPv6');
}

# --- proxy_protocol

sub proxied {
    my ($line) = @_;
    my $x = $t->client(port => $p{2});
    $x->send_raw("$line\r\n");

    return $x;
}

is(told(proxied('PROXY TCP4 192.0.2.1 192.0.2.99 40000 9092')),
    '192.0.2.99 9092', 'proxy_protocol: the address at the proxy');
is(told(proxied('PROXY TCP6 2001:db8::1 2001:db8::2 40000 9093')),
    '2001:db8::2 9093', 'over IPv6');
is(told(proxied('PROXY UNKNOWN')), "127.0.0.1 $p{2}",
    'one that knows no address: ours');

# --- TLS

my $s = tls($p{1});
is(told($s), "127.0.0.1 $p{1}", 'TLS without a name');
is(told(tls($p{1}, name => 'tenant.example')), 'tenant.example 9443',
    'TLS: the address by SNI');

$s->create_topic('t', 1, 'max.message.bytes' => 3_000_000);
my @big = map { my $n = $_; batch(records => [join '', map
    chr(33 + ($_ * $n) % 90), 1 .. 10 ** $n]) } 2 .. 6;
is(scalar(grep { $s->produce('t', 0, $_)->{ErrorCode} == 0 } @big), 5,
    'produced over TLS, up to a megabyte each');

my $plain = $c->fetch('t', 0, 0, partition_max_bytes => 5_000_000)->{Records};
my $over = $s->fetch('t', 0, 0, partition_max_bytes => 5_000_000)->{Records};
cmp_ok(length $plain, '>', 1_000_000, 'fetched in the clear');
ok($plain eq $over, 'the same bytes over TLS');

# Pipelined: several files and what is between them.
$s->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, $_,
    partition_max_bytes => 5_000_000)) for 0 .. 4;
$s->send('ApiVersions', 0, {});
my @sizes = map length $s->recv->{Responses}[0]{Partitions}[0]{Records} // '',
    0 .. 4;
is($s->recv->{ErrorCode}, 0, 'five fetches pipelined, and what follows');
is(scalar(grep $sizes[$_] < $sizes[$_ - 1], 1 .. 4), 4, 'each from its offset');

$s->send_raw(pack 'N', 0);
is($s->recv_frame, undef, 'a bad frame ends it');

# What is no TLS is nginx's to refuse.
my $clear = $t->client(port => $p{1});
$clear->send('ApiVersions', 0, {});
ok($clear->closed(15), 'no TLS: closed');

# A reload answers a long poll over TLS, and closes in order.
my $poll = tls($p{1});
told($poll);                           # its handshake is over
$poll->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, 5,
    max_wait => 60_000));
select undef, undef, undef, 2;
$t->reload(gone => 0);
is($poll->recv->{ErrorCode}, 0, 'reload: a long poll over TLS is answered');
is($poll->recv_frame, undef, 'and the connection closed');

kill 'KILL', @children;
waitpid $_, 0 for @children;
$t->done;
