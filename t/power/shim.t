#!/usr/bin/perl

# The power-cut tools themselves: what was synced always survives, what was not
# may vanish, be torn or stay, and a sync left out is noticed.

use warnings;
use strict;

use Test::More;
use File::Path qw/ make_path remove_tree /;
use FindBin;
use lib "$FindBin::Bin/../soak";

use Soak qw/ tools scratch slurp /;

my $bin = tools(qw/ rebuild fsops powercut.so /);
my $tmp = scratch();
my $run = 0;
my ($root, $log, $base);

# Runs fsops on a directory made by @$before, recording only @$ops.

sub record {
    my ($before, $ops, %env) = @_;

    $run++;
    ($root, $log, $base) = ("$tmp/root$run", "$tmp/log$run", "$tmp/base$run");
    make_path($root);

    system("cd $root && $bin/fsops @$before") == 0 or die if @$before;
    system($bin . "/rebuild", 'init', $root, $log, $base, 64) == 0 or die;

    local %ENV = (%ENV, POWERCUT_ROOT => $root, POWERCUT_LOG => $log,
        POWERCUT_NOSYNC => 1, LD_PRELOAD => "$bin/powercut.so", %env);

    system('sh', '-c', "cd $root && exec $bin/fsops @$ops");
}

sub rebuilt {
    my ($mode, $seed) = @_;
    my $out = "$tmp/out";

    remove_tree($out);
    system("$bin/rebuild make $log $base $out $mode $seed >$tmp/made") == 0
        or die "rebuild make failed";
    return $out;
}

# What a file is in each of 60 random cuts, counted.

sub outcomes {
    my ($file) = @_;
    my %seen;

    for my $seed (1 .. 60) {
        my $out = rebuilt('random', $seed);
        $seen{-e "$out/$file" ? slurp("$out/$file") : 'absent'}++;
    }

    return \%seen;
}

sub adds_up {
    my ($label) = @_;

    is(system("$bin/rebuild check $log $base $root >$tmp/check"), 0,
        "the record adds up: $label") or diag(slurp("$tmp/check"));
}

###############################################################################

# a file that does everything right

record([], [qw/ create a sync . write a one dsync a write a two /]);
adds_up('append');

my $out = rebuilt('strict', 1);
is(slurp("$out/a"), 'one', 'strict: synced bytes are there, others are not');
is(slurp(rebuilt('keep', 1) . '/a'), 'onetwo', 'keep: as after kill -9');

my $seen = outcomes('a');
is((grep { !/^one/ } keys %$seen), 0, 'random: synced bytes always survive');
ok($seen->{one}, 'random: unsynced bytes may vanish');
ok($seen->{onetwo}, 'random: or stay');
ok((grep { /^one(t|tw)$/ } keys %$seen), 'random: or be cut at a byte');
ok((grep { /^one.*\0$/ } keys %$seen), 'random: or be zeros');

# torn by sectors

record([qw/ create a write a x sync a /],
    [qw/ fill a 0 4096 B /]);
$seen = outcomes('a');
ok((grep { /(?:B{512})(?:\0{512}|$)/ } keys %$seen), 'a write is torn');
ok((grep { /\0B{512}/ } keys %$seen), 'a later sector without an earlier');

# names

record([], [qw/ create a write a one sync a /]);
ok(!-e rebuilt('strict', 1) . '/a', 'a synced file may have no name');
$seen = outcomes('a');
ok($seen->{absent} && $seen->{one}, 'random: with or without, never empty');
is(keys %$seen, 2, 'nothing else');

record([], [qw/ mkdir d create d\/a write d\/a one sync d\/a sync d /]);
ok(!-e rebuilt('strict', 1) . '/d', 'nor its directory');

record([], [qw/ mkdir d sync . create d\/a write d\/a one sync d\/a sync d /]);
adds_up('directory');
is(slurp(rebuilt('strict', 1) . '/d/a'), 'one', 'unless both are synced');

# the classic replacement of a file

my @old = qw/ create a write a old sync a /;

record(\@old, [qw/ create b write b new sync b rename b a /]);
adds_up('rename');
$out = rebuilt('strict', 1);
is(slurp("$out/a"), 'old', 'a rename before the directory sync may vanish');
$seen = outcomes('a');
is_deeply([sort keys %$seen], ['new', 'old'], 'random: old or new');

record(\@old, [qw/ create b write b new sync b rename b a sync . /]);
$seen = outcomes('a');
is_deeply([keys %$seen], ['new'], 'after the directory sync: new');

record(\@old, [qw/ create b write b new rename b a sync . /]);
$seen = outcomes('a');
ok($seen->{''}, 'a rename without a sync of the file: it may be empty');

# a directory keeps a prefix of its changes

record([], [qw/ create a create b create c /]);
my %prefix;
for my $seed (1 .. 40) {
    $out = rebuilt('random', $seed);
    $prefix{join('', map { s/.*\///r } sort glob("$out/*"))}++;
}
is_deeply([sort keys %prefix], ['', 'a', 'ab', 'abc'], 'prefixes only');

# unlink, rename of a directory, truncation

record(\@old, [qw/ unlink a /]);
adds_up('unlink');
is(slurp(rebuilt('strict', 1) . '/a'), 'old', 'an unlink may vanish');

record([qw/ mkdir d create d\/a write d\/a one /], [qw/ rename d e sync . /]);
adds_up('directory renamed');
is(slurp(rebuilt('strict', 1) . '/e/a'), 'one', 'content moves along');

record([qw/ create a write a 123456 /],
    [qw/ trunc a 3 sync a pwrite a 3 xyz /]);
adds_up('truncate');
is(slurp(rebuilt('strict', 1) . '/a'), '123', 'truncated, then written');

# an overwritten range: the first version may come back

record([qw/ create a /], [qw/ fill a 0 10 A sync a fill a 0 10 B /]);
$seen = outcomes('a');
ok($seen->{'A' x 10} && $seen->{'B' x 10}, 'overwritten: either version');

# several processes at once

record([qw/ create a /], [qw/ many a 4 /]);
adds_up('four processes');
is(slurp(rebuilt('strict', 1) . '/a'), slurp("$root/a"),
    'each had synced its last line');

# a process that dies inside leaves a record that can be used

record([qw/ create a /], [qw/ write a one sync a write a two die /]);
adds_up('killed');
is(slurp(rebuilt('strict', 1) . '/a'), 'one', 'killed: synced bytes are there');

# each way to leave a sync out is noticed

my @right = qw/ mkdir d sync . create d\/0.log write d\/0.log one sync d
    dsync d\/0.log create d\/1.log sync d dsync d\/0.log create d\/snap.tmp
    write d\/snap.tmp snap sync d\/snap.tmp rename d\/snap.tmp d\/1.snapshot
    sync d /;

record([], \@right);
$out = rebuilt('strict', 1);
is(join('', map { slurp("$out/d/$_") } qw/ 0.log 1.log 1.snapshot /),
    'onesnap', 'all is synced');

for my $case (
    ['*.log', '0.log'], ['d/*.log', '0.log'], ['./', ''], ['d/', '0.log'],
    ['*.tmp', '1.snapshot'], ['x,*.tmp', '1.snapshot'])
{
    my ($glob, $file) = @$case;

    record([], \@right, POWERCUT_BREAK => $glob);
    $out = rebuilt('strict', 1);
    my $got = -f "$out/d/$file" ? slurp("$out/d/$file") : undef;
    ok(!$got, "left out: $glob");
    like(`$bin/rebuild broken $log`, qr/broken=[1-9]/, 'and counted');
}

record([], [qw/ create 0.log create 1.log sync . write 0.log one dsync 0.log
    write 1.log two dsync 1.log /], POWERCUT_BREAK => 'rolled');
$out = rebuilt('strict', 1);
is(slurp("$out/0.log"), '', 'left out: a segment that is not the last');
is(slurp("$out/1.log"), 'two', 'the last one is still synced');

# a sync that fails vouches for nothing

record([qw/ create a /], [qw/ write a one /]);
system("$bin/rebuild fail $log a");
{
    local %ENV = (%ENV, POWERCUT_ROOT => $root, POWERCUT_LOG => $log,
        LD_PRELOAD => "$bin/powercut.so");
    isnt(system("cd $root && $bin/fsops dsync a 2>$tmp/err"), 0,
        'a sync fails on demand');
}
like(slurp("$tmp/err"), qr!Input/output error!, 'with EIO');
is(slurp(rebuilt('strict', 1) . '/a'), '', 'and vouches for nothing');

# the tools notice what they could not see

record([], [qw/ create a /]);
system("echo unseen >$root/b; echo unseen >$root/c; echo unseen >>$root/a");
isnt(system("$bin/rebuild check $log $base $root >$tmp/check"), 0,
    'changes behind its back are found');

done_testing();
