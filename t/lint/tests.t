#!/usr/bin/env perl

# Every test is one that make runs, and every documented make target exists.

use strict;
use warnings;

use FindBin;
use Test::More;

chdir "$FindBin::Bin/../..";

my @run = split ' ', qx(env -u MAKEFLAGS make -s list-tests);
my %run = map { $_ => 1 } @run;
ok(@run, 'make lists tests');

my @here = split /\n/, qx(find t -name '*.t' -not -path 't/client/*/*');
push @here, map { s/\.c$/.t/r } glob('t/unit/*.c'), glob('t/fuzz/fuzz_*.c'),
    glob('t/sim/*_test.c');

is(join(' ', grep !$run{$_}, sort @here), '', 'no test is left out');

my $readme = '';
for my $file ('README.md', 'docs/HACKING.md', 't/README') {
    next unless open my $f, '<', $file;
    local $/;
    $readme .= <$f>;
}

open my $m, '<', 'Makefile' or die;
my %target = map { $_ => 1 } map /^([a-z][a-z-]*):/, <$m>;
my %named = map { $_ => 1 } $readme =~ /`make ([a-z][a-z-]+)/g;

is(join(' ', grep !$target{$_}, sort keys %named), '',
    'the make targets that the docs name exist');

# On a machine without a compiler, of all that make starts at once nothing may
# compile before deps-run has installed one.
my ($rule, %compiles) = '';
seek $m, 0, 0;
while (<$m>) {
    $rule = $_ if /^\S.*?:(?!=)/;
    $compiles{$rule} = 1 if /^\t.*\$\((CC|LINK)\)/;
}

ok(%compiles, 'the Makefile has rules that compile');
is(join('', grep !/deps-|\$\(LIBFILES\)/, sort keys %compiles), '',
    'what compiles waits for the compiler to be installed');

is(join(' ', grep !-x, glob('tools/*'), '.ci/run'), '',
    'scripts are executable');

done_testing();
