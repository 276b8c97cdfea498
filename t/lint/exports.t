#!/usr/bin/env perl

# nginx loads modules with RTLD_GLOBAL: only nginx's own names may be visible.

use strict;
use warnings;

use FindBin;
use Test::More;

my $module = $ENV{TEST_NGINX_MODULE}
    || "$FindBin::Bin/../../build/ngx_stream_kafka_module.so";

plan(skip_all => "no $module; run make") unless -e $module;

my @names = sort map { /\s(\S+)$/ ? $1 : () } qx(nm -D --defined-only $module);

is("@names", 'ngx_module_names ngx_module_order ngx_modules'
    . ' ngx_stream_kafka_module', 'exported symbols');

my $dynamic = qx(readelf -d $module);
like($dynamic, qr/NEEDED.*lib$_\.so/, "carries its own need of lib$_")
    for qw(z lz4 zstd snappy);

done_testing();
