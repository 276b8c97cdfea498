#!/usr/bin/env perl

# The benchmark builds, measures and reports: each kind of measurement once, for
# an instant, so that the figures mean nothing.

use strict;
use warnings;

use FindBin;
use JSON::PP;
use Test::More;

use Test::KafkaNginx;

plan(skip_all => 'not of an instrumented build') if $ENV{TEST_NGINX_SAN};

chdir "$FindBin::Bin/../..";

my @tests = qw(fetch-16k produce-small-16 list-offsets-1 heartbeat-16
    offset-commit-1 rate-1000-durable txn-8 rpw-1-durable group-8 conns-1000
    zone start);

my $t = Test::KafkaNginx->new;
my $dir = $t->dir;

# with the library that is there
my $build = $ENV{TEST_BUILD} || "$FindBin::Bin/../../build";
symlink "$build/libkf.a", "$dir/libkf.a" or die "$dir/libkf.a: $!";

my %env = (
    B => $dir, OUT => "$dir/results", REPS => 1, SCALE => 0.02,
    HEARTBEAT => 50, ONLY => '^(' . join('|', @tests) . ')$', KAFKA => '',
    PORTS => join(' ', map $t->port($_), 0 .. 3),
    BROKER_NGINX => $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx',
    BROKER_MODULE => $ENV{TEST_NGINX_MODULE}
        || "$build/ngx_stream_kafka_module.so",
);

my $table = do {
    local @ENV{ keys %env } = values %env;
    qx(bench/run 2>$dir/progress);
};
my $status = $?;

is($status, 0, 'it runs') or diag(read_file("$dir/progress"));

my %seen;
for (grep /^\{/, split /\n/, read_file("$dir/results")) {
    my $line = decode_json($_);

    $seen{ $line->{test} }++ if $line->{peer} eq 'broker';
    fail("errors in $line->{test}") if $line->{errors};
}

for my $test (@tests) {
    ok($seen{$test}, "$test was measured");
    like($table, qr/^\Q$test\E +\S.* \d/m, "$test is in the table");
}

unlike($table, qr/-nan|inf\b/, 'each figure is a number');

$t->done;


sub read_file {
    my ($name) = @_;

    open my $f, '<', $name or die "$name: $!";
    local $/;

    return <$f> // '';
}
