#!/usr/bin/env perl

# A current nginx, built from source (crates.io's nginx-src carries 1.28), with
# our module: it compiles, and the main tests pass on it as well.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Path qw(make_path);
use FindBin;
use Test::More;

use Test::KafkaClient;

tool('cargo', 'gcc', 'make');

my $top = abs_path("$FindBin::Bin/../..");
my $build = ($ENV{TEST_BUILD} || "$top/build") . '/current';

plan(skip_all => 'instrumented elsewhere') if $ENV{TEST_NGINX_SAN};

my $dir = cached('nginx-src-1.28', "cargo's nginx-src",
    sub {
        my ($dir) = @_;
        make_path("$dir/src");
        write_file("$dir/src/lib.rs", '');
        write_file("$dir/Cargo.toml", <<'TOML');
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
nginx-src = "1.28"
TOML
        return system("cd $dir && cargo vendor --quiet vendor </dev/null"
            . " >$dir.log 2>&1") == 0;
    });

my $src = "$dir/vendor/nginx-src/nginx";
my $log = "$build.log";
make_path($build);

is(system("env -u MAKEFLAGS make -C $top B=$build NGINX_SRC=$src CC=gcc SAN= module"
    . " </dev/null >$log 2>&1"), 0, 'nginx and the module are built')
    or do { diag(qx(tail -30 $log)); done_testing(); exit 1 };

my ($version) = qx($build/nginx/nginx -v 2>&1) =~ m{nginx/(\S+)};
ok($version, 'it runs') and diag("nginx $version");

$ENV{TEST_NGINX_BINARY} = "$build/nginx/nginx";
$ENV{TEST_NGINX_MODULE} = "$build/ngx_stream_kafka_module.so";

for my $name (qw(wire/00_produce wire/01_fetch wire/18_api_versions
        wire/conn_tls life/reload life/upgrade life/config))
{
    next unless -e "$top/t/$name.t";
    my $out = qx($^X -I$top/t/lib $top/t/$name.t 2>&1);
    is($?, 0, "$name passes")
        or diag(grep /not ok|^#/, map "$_\n", split /\n/, $out);
}

done_testing();


sub write_file {
    my ($path, $text) = @_;

    open my $f, '>', $path or die "$path: $!";
    print $f $text;
    close $f;
}
