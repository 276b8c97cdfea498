#!/usr/bin/env perl

# Who may include whom (docs/ARCHITECTURE.md): codec <- log, codec <-
# coordinator, all of them <- ngx_kafka_module, and only that one nginx.

use strict;
use warnings;

use FindBin;
use Test::More;

chdir "$FindBin::Bin/../..";

my %may = (
    codec            => [qw(codec)],
    'codec/gen'      => [qw(codec codec/gen)],
    log              => [qw(log codec codec/gen)],
    coordinator      => [qw(coordinator codec codec/gen)],
    ngx_kafka_module => [qw(ngx_kafka_module coordinator log codec codec/gen)],
);
$may{codec} = [qw(codec codec/gen)];

my %libraries = (
    codec => qr/^(?:pthread|zlib|lz4\w*|zstd\w*|snappy-c|nmmintrin|immintrin|arm_acle
        |cpuid|sys\/auxv|asm\/hwcap)\.h$/x,
    log => qr/^(?:pthread|fcntl|unistd|dirent|sys\/\w+|semaphore|sched)\.h$/,
    coordinator => qr/^$/,
);

# What a decision must not see: the clock, files, threads, randomness.
my $impure = qr/(?<![\w>.])(?:time|gettimeofday|clock_gettime|rand|random|getrandom
    |open|pread|pwrite|fsync|fdatasync|pthread_\w+)\s*\(/x;

my $std = qr/^(?:assert|ctype|errno|inttypes|limits|math|stdarg|stdatomic
    |stdbool|stddef|stdint|stdio|stdlib|string|strings|endian|stdalign)\.h$/x;

for my $dir (sort keys %may) {
    my @files = (glob("$dir/*.c"), glob("$dir/*.h"));
    my @bad;

    for my $file (@files) {
        open my $f, '<', $file or die "$file: $!";

        while (<$f>) {
            if (/^\s*#\s*include\s*"([^"]+)"/) {
                my $at = where($dir, $1);
                push @bad, "$file:$.: $1"
                    unless defined $at && grep $at eq $_, @{ $may{$dir} };

            } elsif (/^\s*#\s*include\s*<([^>]+)>/) {
                my $name = $1;
                next if $dir eq 'ngx_kafka_module' || $name =~ $std;
                my ($top) = $dir =~ m{^(\w+)};
                push @bad, "$file:$.: <$name>"
                    unless $name =~ $libraries{$top};

            } elsif ($dir eq 'coordinator' && !m{^\s*/?\*} && /$impure/) {
                push @bad, "$file:$.: $&";
            }
        }
    }

    ok(@files, "$dir has sources");
    is("@bad", '', "$dir includes only what it may");
    diag($_) for @bad;
}

# nginx's own headers choose the system's features, so they come first.
my @late = grep {
    open my $f, '<', $_ or die "$_: $!";
    my ($first) = grep /^#include/, <$f>;
    $first && $first !~ /^#include "ngx_/
} glob 'ngx_kafka_module/*.c';
is("@late", '', "nginx's headers come first");

done_testing();


# The folder that holds an included file.
sub where {
    my ($dir, $name) = @_;

    for my $base ($dir, '.', qw(codec codec/gen log coordinator
            ngx_kafka_module)) {
        my $path = "$base/$name";
        next unless -e $path;
        1 while $path =~ s{(^|/)[^/.][^/]*/\.\./}{$1};
        $path =~ s{(^|/)\./}{$1}g;
        my ($in) = $path =~ m{^(.*)/};
        return $in;
    }

    return undef;
}
