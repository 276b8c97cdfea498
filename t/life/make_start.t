#!/usr/bin/env perl

# What is behind make start, make run and make stop: a broker by DATA.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use FindBin;
use IO::Socket::INET;
use Test::More;

use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

plan(skip_all => 'the instrumented module needs its run-times')
    if $ENV{TEST_NGINX_SAN};

my $top = abs_path("$FindBin::Bin/../..");

# Only for its ports, its directory and its choice of nginx and module.
my $t = Test::KafkaNginx->new;
my $dir = $t->dir;
my @ports = map $t->port($_), 0 .. 2;

$ENV{BROKER_NGINX} = $t->{nginx};
$ENV{BROKER_MODULE} = $t->{module};
$ENV{NGINX} = 'something else';          # must not reach nginx


sub broker {
    my (@args) = @_;

    open my $out, '-|', "$top/tools/broker @args 2>$dir/err" or die;
    my $text = do { local $/; <$out> } // '';
    close $out;
    chomp $text;

    return ($? >> 8, $text);
}


sub complaint { $t->read_file('err') }


my ($rc, $pid) = broker('start', "$dir/run", "$dir/a", $ports[0], 2,
    "'num.partitions=3 log.retention.ms=1000'");
is($rc, 0, 'start') or diag(complaint());
like($pid, qr/^\d+$/, 'prints one number');
ok(kill(0, $pid), 'which is a process');

my $c = Kafka::Wire->new(port => $ports[0]);
is($c->call('Metadata', 1, { Topics => [] })->{ControllerId}, 1,
    'the broker answers by then');
is($c->create_topic('x', -1)->{NumPartitions}, 3, 'CONFIG was taken');
ok(wait_for(sub { $t->workers(of => $pid) == 2 }, 30), 'and WORKERS');

($rc) = broker('start', "$dir/run", "$dir/a", $ports[1], 2, "''");
isnt($rc, 0, 'the same DATA twice is refused');
like(complaint(), qr/pid $pid\b.*make stop/, 'saying how to end the first');

($rc, my $other) = broker('start', "$dir/run", "$dir/b", $ports[1], 1, "''");
is($rc, 0, 'another DATA and PORT');
isnt($other, $pid, 'another process');
is(Kafka::Wire->new(port => $ports[0])->call('Metadata', 1,
    { Topics => [{ Name => 'x' }] })->{Topics}[0]{ErrorCode}, 0,
    'the first one goes on');

($rc) = broker('stop', "$dir/run", "$dir/a");
is($rc, 0, 'stop');
ok(!kill(0, $pid), 'it is gone');
ok(kill(0, $other), 'and only that one');

($rc, $pid) = broker('start', "$dir/run", "$dir/a", $ports[0], 3, "''");
is($rc, 0, 'started again');
is(Kafka::Wire->new(port => $ports[0])->call('Metadata', 1,
    { Topics => [{ Name => 'x' }] })->{Topics}[0]{ErrorCode}, 0,
    'its topics are there');
broker('stop', "$dir/run", "$dir/$_") for 'a', 'b';
ok(!kill(0, $pid, $other), 'both are gone');

is((broker('stop', "$dir/run", "$dir/a"))[0], 0, 'stop of none is no error');

# In the foreground, by the command that the README begins with, ended as by ^C.
my $run = fork // die;
if (!$run) {
    open STDOUT, '>', "$dir/run.log";
    open STDERR, '>&', \*STDOUT;
    delete @ENV{qw(MAKEFLAGS MAKELEVEL BROKER_NGINX BROKER_MODULE NGINX)};
    setpgrp;
    exec 'make', '-C', $top, 'run', "PORT=$ports[2]", "DATA=$dir/c",
        'WORKERS=1', 'CONFIG=num.partitions=2';
}
ok(wait_for(sub { eval { Kafka::Wire->new(port => $ports[2])
    ->call('ApiVersions', 0, {}) } }, 120), 'make run answers')
    or diag($t->read_file('run.log'));
kill 'INT', -$run;
ok(wait_for(sub { waitpid($run, 1) }, 30), 'and ends at ^C');

# Mistakes.
for my $case (['PORT', "$dir/d x 1 ''"], ['WORKERS', "$dir/d $ports[2] 0 ''"],
    ['NAME=VALUE', "$dir/d $ports[2] 1 'novalue'"],
    ['nosuch.config', "$dir/d $ports[2] 1 'nosuch.config=1'"])
{
    ($rc) = broker('start', "$dir/run", $case->[1]);
    isnt($rc, 0, "a wrong $case->[0] is refused");
    like(complaint(), qr/\Q$case->[0]\E/, 'and named');
}

$t->done;
