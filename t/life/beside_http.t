#!/usr/bin/env perl

# A web site served by the same worker while producers send batches that have to
# be decompressed and flushed, and consumers read them back: no request fails, and
# the latencies are told.

use strict;
use warnings;

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(workers => 1, http => <<'HTTP')->run;
http {
    access_log off;
    server {
        listen 127.0.0.1:%%PORT_1%%;
        location / { return 200 "hello"; }
    }
}
HTTP

my $seconds = 4;

sub http_once {
    my $started = time;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $t->port(1), Timeout => 5) or return;
    print $s "GET / HTTP/1.0\r\n\r\n";
    local $/;
    my $answer = <$s> // '';

    return $answer =~ /hello$/ ? (time - $started) * 1000 : undef;
}

# For some time, and until that many were answered.
sub site {
    my ($least) = @_;
    my (@ms, $failed);
    my $end = time + $seconds;

    while (time < $end || @ms <= $least && time < $end + 60) {
        my $ms = http_once();
        defined $ms ? push @ms, $ms : $failed++;
        sleep 0.005;
    }

    @ms = sort { $a <=> $b } @ms;

    return ($failed // 0, scalar @ms, $ms[@ms * 0.5], $ms[@ms * 0.99]);
}

my ($failed, $n, $p50, $p99) = site(20);
is($failed, 0, 'the site alone answers');
diag(sprintf 'alone: %d requests, p50 %.2f ms, p99 %.2f ms', $n, $p50, $p99);

my $c = $t->client;
$c->create_topic('load', 2);

# 1 MB of plain text in each batch, some KB on the wire, and one as it is.
my @values = map "value $_ " . 'abcdefgh' x 120, 1 .. 1000;
my @batch = (batch(records => \@values, codec => 'gzip'),
    batch(records => [@values[0 .. 499]]));

my @load = map { my $kind = $_; child(sub {
    my $k = $t->client(timeout => 60);
    my $over = 0;
    my $sent = 0;

    # as long as the site is looked at
    local $SIG{TERM} = sub { $over = 1 };

    while (!$over || $sent <= 3) {
        if ($kind < 2) {
            my $r = $k->produce('load', $kind, $batch[$kind]);
            return 1 if $r->{ErrorCode};
        } else {
            my $r = $k->fetch('load', $kind - 2, 0, max_bytes => 4 << 20);
            return 1 if $r->{ErrorCode};
        }
        $sent++;
    }

    return 0;
}) } 0 .. 3;

($failed, $n, $p50, $p99) = site(20);
kill 'TERM', @load;
is($failed, 0, 'the site answers beside Kafka');
cmp_ok($n, '>', 20, 'and goes on answering');
diag(sprintf 'beside Kafka: %d requests, p50 %.2f ms, p99 %.2f ms', $n, $p50,
    $p99);

for my $pid (@load) {
    waitpid $pid, 0;
    is($? >> 8, 0, 'a Kafka client had its answers');
}

$t->done;


sub child {
    my ($code) = @_;

    my $pid = fork // die "fork: $!";
    return $pid if $pid;

    require POSIX;
    POSIX::_exit(eval { $code->() } // 3);
}
