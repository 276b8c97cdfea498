#!/usr/bin/env perl

# What nginx -t says about every mistake: that it is one, where, and what to
# write instead.  And that nginx -t leaves the disk alone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(ready => 0);
my $dir = $t->dir;

$t->allow(qr/\[emerg\]/);


# One broker block and one server, each with what is to be tried.
sub conf {
    my (%o) = @_;

    my $broker = $o{broker} // "data $dir/data;";
    my $server = $o{server} // 'kafka main;';
    my $listen = $o{listen} // '127.0.0.1:%%PORT%%';
    my $more = $o{more} // '';

    return <<CONF;
%%GLOBALS%%
events { }
stream {
    kafka_broker main {
        $broker
    }
    $more
    server {
        listen $listen;
        $server
    }
}
CONF
}


sub good {
    my ($name, %o) = @_;

    my ($rc, $out) = $t->check_conf(conf(%o));
    is($rc, 0, "$name is taken") or diag($out);
}


sub bad {
    my ($name, $re, %o) = @_;

    my ($rc, $out) = $t->check_conf(conf(%o));
    isnt($rc, 0, "$name is refused");
    like($out, $re, "$name: what to write");
    like($out, qr/\[emerg\].* in \S*nginx\.conf:\d+/, "$name: where");
}


good('the smallest broker');
good('every directive of a block', broker => <<B);
        data           $dir/data;
        zone           2m;
        node_id        7;
        thread_pool    default;
        buffer_budget  16m;
        open_files     64;
        config         log.retention.ms   7d;
        config         num.partitions     3;
B
good('every directive of a server', server => 'kafka main;
    kafka_advertise kafka.example.com:9092; kafka_log_requests on;
    kafka_drain_timeout 3s;');
good('directives in stream', more => 'kafka_advertise $hostname:9092;
    kafka_log_requests on; kafka_drain_timeout 100ms;');
good('an IPv6 address', server => 'kafka main; kafka_advertise [::1]:9092;');
good('a directory whose parents are missing', broker => "data $dir/a/b/c;");

ok(!-e $t->data, 'nginx -t makes no directory');
ok(!-e "$dir/a", 'nor parents');

bad('no data', qr/no "data" in broker "main", write "data \/PATH;"/,
    broker => '');
bad('a relative path', qr/absolute path, write "data \/PATH;"/,
    broker => 'data data;');
bad('the root', qr/root directory/, broker => 'data /;');
bad('data twice', qr/duplicate "data"/,
    broker => "data $dir/data; data $dir/other;");
bad('a small zone', qr/too small, write at least 2m/,
    broker => "data $dir/data; zone 1m;");
bad('a zone that is none', qr/write a size such as 64m/,
    broker => "data $dir/data; zone large;");
bad('a node id below zero', qr/node_id "-1", write a number from 0/,
    broker => "data $dir/data; node_id -1;");
bad('a node id that is too large', qr/2147483647/,
    broker => "data $dir/data; node_id 2147483648;");
bad('an unknown config', qr/config "log.retention.mz"/,
    broker => "data $dir/data; config log.retention.mz 1;");
bad('a bad value', qr/"many" of "num.partitions"/,
    broker => "data $dir/data; config num.partitions many;");
bad('a config twice', qr/duplicate config "num.partitions"/,
    broker => "data $dir/data; config num.partitions 1;
               config num.partitions 2;");
bad('a Kafka name without config', qr/written as "config NAME VALUE;"/,
    broker => "data $dir/data; log.retention.ms 7d;");
bad('an unknown directive', qr/it knows data, zone,/,
    broker => "data $dir/data; dara x;");
bad('a missing value', qr/it takes one value/, broker => 'data;');
bad('config without a value', qr/it takes a name and a value/,
    broker => "data $dir/data; config num.partitions;");
bad('a small budget', qr/at least 1m/,
    broker => "data $dir/data; buffer_budget 1k;");
bad('few files', qr/from 16 to/, broker => "data $dir/data; open_files 3;");

bad('an unknown broker', qr/unknown broker "nobody", write "kafka_broker/,
    server => 'kafka nobody;');
bad('kafka twice', qr/is duplicate/, server => 'kafka main; kafka main;');
bad('kafka after proxy_pass', qr/keep one of them/,
    server => 'proxy_pass 127.0.0.1:1; kafka main;');
bad('kafka before proxy_pass', qr/keep one of them/,
    server => 'kafka main; proxy_pass 127.0.0.1:1;');
bad('kafka over UDP', qr/needs TCP, remove "udp"/,
    listen => '127.0.0.1:%%PORT%% udp');
bad('a port that is none', qr/a port from 1 to 65535/,
    server => 'kafka main; kafka_advertise host:99999;');
bad('no host', qr/HOST:PORT/, server => 'kafka main; kafka_advertise :9092;');

bad('a name twice', qr/duplicate broker "main", the first is in \S+:\d+/,
    more => "kafka_broker main { data $dir/other; }");
bad('a directory twice', qr/is the directory of broker "main"/,
    more => "kafka_broker other { data $dir/data/; }");

mkdir "$dir/real";
symlink "$dir/real", "$dir/link";
bad('a directory twice, by another name', qr/is the directory of broker/,
    broker => "data $dir/link/x/y;",
    more => "kafka_broker other { data $dir/real/x/y; }");

my ($rc, $out) = $t->check_conf(<<CONF);
%%GLOBALS%%
events { }
stream {
    server { listen 127.0.0.1:%%PORT%%; return ok; }
}
CONF
is($rc, 0, 'the module alone does nothing') or diag($out);

ok(!-e $t->data, 'the disk is as it was');

$t->done;
