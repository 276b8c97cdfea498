#!/usr/bin/env perl

# The access log: a line for each connection, or for each request.

use strict;
use warnings;

use Test::More;

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 1);

$t->{conf} = <<'CONF';
%%GLOBALS%%
events {
    worker_connections  256;
}

stream {
    kafka_broker main {
        data  %%DIR%%/data;
        zone  16m;
    }

    log_format conn '$status|$kafka_broker|$kafka_client_id|'
                    '$kafka_client_software|$kafka_client_version|'
                    '$kafka_requests|$kafka_errors|$kafka_api|'
                    '$bytes_received|$bytes_sent|$protocol';
    log_format req  '$status|$kafka_client_id|$kafka_api|$kafka_api_version|'
                    '$kafka_correlation_id|$kafka_topic|$kafka_error|'
                    '$kafka_request_time|$kafka_request_length|'
                    '$kafka_response_length|$bytes_sent|$kafka_requests';

    server {
        listen      127.0.0.1:%%PORT%%;
        kafka       main;
        access_log  off;
    }

    server {
        listen      127.0.0.1:%%PORT_1%%;
        kafka       main;
        access_log  %%DIR%%/conn.log conn;
    }

    server {
        listen              127.0.0.1:%%PORT_2%%;
        kafka               main;
        kafka_log_requests  on;
        access_log          %%DIR%%/req.log req;
        access_log          %%DIR%%/error.only req if=$failed;
    }

    map $kafka_error $failed {
        NONE     "";
        ""       "";
        default  1;
    }
}
CONF

$t->run;

sub lines {
    my ($name, $n) = @_;
    my @lines;

    wait_for(sub { @lines = split /\n/, $t->read_file($name);
        @lines >= $n }, 30);

    return @lines;
}

# --- a line for each connection

my $x = $t->client(port => $t->port(1), client_id => 'shop "one"');
$x->call('ApiVersions', 3, { ClientSoftwareName => 'librdkafka',
    ClientSoftwareVersion => '2.3.0' });
$x->create_topic('orders', 1);
is($x->produce('nowhere', 0, batch(records => ['x']))->{ErrorCode}, 3,
    'an error');
is($t->read_file('conn.log'), '', 'no line while the connection is open');
$x->close;

my @f = split /\|/, (lines('conn.log', 1))[0];
is($f[0], 200, 'one at its end: status');
is($f[1], 'main', 'broker');
is($f[2], 'shop \x22one\x22', 'client id, escaped');
is("$f[3] $f[4]", 'librdkafka 2.3.0', 'software and version');
is($f[5], 3, 'requests');
is($f[6], 1, 'answers with an error');
is($f[7], '-', 'no API: it speaks of a connection');
cmp_ok($f[8], '>', 150, 'bytes received');
cmp_ok($f[9], '>', 150, 'bytes sent');

$x = $t->client(port => $t->port(1), client_id => undef);
$x->call('ApiVersions', 0, {});
$x->send_raw(pack 'N', 0xffffffff);
$x->closed(30);
@f = split /\|/, (lines('conn.log', 2))[1];
is("@f[0, 2, 3, 5]", '400 - - 1', 'a bad frame: 400');

my $long = 'x' x 3000;
$x = $t->client(port => $t->port(1), client_id => $long);
$x->call('ApiVersions', 0, {});
$x->close;
@f = split /\|/, (lines('conn.log', 3))[2];
is($f[2], 'x' x 255, 'a long client id is cut');

# --- a line for each answered request

$x = $t->client(port => $t->port(2), client_id => 'a');
$x->call('ApiVersions', 3, { ClientSoftwareName => 'wire',
    ClientSoftwareVersion => '1' });
$x->produce('orders', 0, batch(records => ['x' x 500]));
$x->produce('orders', 0, batch(records => ['y']), acks => 0);
$x->fetch('orders', 0, 0);
$x->{client_id} = 'b';
$x->send('Fetch', 12, Kafka::Wire::fetch_body('orders', 0, 2,
    max_wait => 300));
$x->recv;
$x->produce('nowhere', 0, batch(records => ['x']));

my @lines = map [split /\|/], lines('req.log', 6);
is(scalar @lines, 6, 'six requests, six lines, while it is open');
is(join(' ', map $_->[2], @lines),
    'ApiVersions Produce Produce Fetch Fetch Produce', 'APIs');
is(join(' ', map $_->[3], @lines), '3 9 9 12 12 9', 'versions');
is(join(' ', map $_->[1], @lines), 'a a a a b b', 'client ids as they were');
is(join(' ', map $_->[5], @lines[1 .. 4]), 'orders orders orders orders',
    'topics');
is(join(' ', map $_->[6], @lines),
    'NONE NONE NONE NONE NONE UNKNOWN_TOPIC_OR_PARTITION', 'errors');
is(scalar(grep $_->[7] =~ /^\d+\.\d{3}$/, @lines), 6, 'times');
cmp_ok($lines[4][7], '>=', 0.29, 'a long poll takes its time');
cmp_ok($lines[1][8], '>', 500, 'length of a request');
is($lines[2][9], 0, 'acks=0: no answer');
cmp_ok($lines[3][9], '>', 500, 'length of an answer');
is(join(' ', map $lines[$_][4] - $lines[$_ - 1][4], 1 .. 5), '1 1 1 1 1',
    'correlation ids');
is(scalar(grep $lines[$_][10] > $lines[$_ - 1][10], 1, 3, 4, 5), 4,
    'bytes sent grow from line to line');
is(scalar(lines('error.only', 1)), 1, 'if= chooses by the error');

$x->close;
$x = $t->client(port => $t->port(2));
$x->send_raw("GET / HTTP/1.0\r\n\r\n");
$x->closed(30);
@lines = lines('req.log', 7);
is(scalar @lines, 7, 'a connection that had no request has one line');
is((split /\|/, $lines[6])[0], 400, 'with its status');

# A long-lived connection may not grow with its lines.
my ($worker) = $t->workers;
my $rss = sub {
    my ($kib) = $t->read_file("/proc/$worker/status") =~ /VmRSS:\s+(\d+)/;
    return $kib;
};

$x = $t->client(port => $t->port(2));
my $frame = $x->frame('ApiVersions', 0, {}, correlation_id => 1);

my $many = sub {
    for (1 .. $_[0]) {
        $x->send_raw($frame x 50);
        $x->recv_frame for 1 .. 50;
    }
};

$many->(20);
my $before = $rss->();
$many->(200);
cmp_ok($rss->() - $before, '<', 300, 'ten thousand lines cost no memory')
    unless $ENV{TEST_NGINX_SAN};

$t->done;
