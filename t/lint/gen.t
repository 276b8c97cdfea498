#!/usr/bin/perl

# The committed C is what the schema files give.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More;

my $out = `$^X codec/kfgen.pl --check 2>&1`;

is($?, 0, 'generated files are up to date') or diag($out);

# The generator needs no files of an earlier run, and gives the same each time.

my $dir = tempdir(CLEANUP => 1);

is(system($^X, 'codec/kfgen.pl', '--out', $dir), 0, 'generates from nothing');

for my $path ('codec/gen', 't/schema/message_fields.h') {
    is(`diff -r '$path' '$dir/$path' 2>&1`, '', "the same $path");
}

# A change to any of them is seen.

open my $fh, '>>', "$dir/codec/gen/kf_00_produce.c" or die $!;
print {$fh} "\n";
close $fh;
open $fh, '>', "$dir/codec/gen/kf_99_gone.c" or die $!;
close $fh;
unlink "$dir/codec/gen/kf_journal.h";

$out = `$^X codec/kfgen.pl --check --out '$dir' 2>&1`;
isnt($?, 0, 'stale files are noticed');
like($out, qr/not up to date: \S*kf_00_produce\.c/, 'one that was edited');
like($out, qr/not up to date: \S*kf_journal\.h/, 'one that is missing');
like($out, qr/not generated: \S*kf_99_gone\.c/, 'one that is too many');

# Mistakes in a schema are refused, with file and line.

sub refused {
    my ($label, $want, $text) = @_;

    my $bad = tempdir(CLEANUP => 1);

    open my $kf, '>', "$bad/99_x.kf" or die $!;
    print {$kf} $text =~ s/^        //mgr;
    close $kf;

    my $said = `$^X codec/kfgen.pl --schema '$bad' --out '$bad/out' 2>&1`;

    isnt($?, 0, "$label is refused");
    like($said, qr/99_x\.kf:\d+: .*$want/, "$label: and why");

    return;
}

my $head = "api 99 X  versions 0-3  flexible 2+\n\nrequest\n";

refused('an unknown type', 'unknown type', "$head  A  int7\n");
refused('a null number', 'can\'t be null', "$head  A  int8?\n");
refused('a tag too early', 'before flexible', "$head  A  int8  1+  tag 0\n");
refused('a tag twice', 'tag 0 is taken',
        "$head  A  int8  2+  tag 0\n  B  int8  2+  tag 0\n");
refused('a name twice', 'a second A', "$head  A  int8\n  A  int16\n");
refused('null as default', 'not nullable', "$head  A  string  default null\n");
refused('a default of another type', 'default', "$head  A  bool  default 1\n");
refused('no version', 'in no version', "$head  A  int8  4+\n");
refused('a child of a number', 'indented', "$head  A  int8\n    B  int8\n");
refused('a struct of nothing', 'without fields', "$head  A  []\n");
refused('an unknown word', 'optional', "$head  A  int8  0+  optional\n");
refused('nonsense', 'not understood', "${head}A int8\n");
refused('elements of no bytes', 'without bytes',
        "$head  A  []\n    B  int8  1+\n");
refused('a second API', 'one api per file', "$head  A  int8\n$head  A  int8\n");

done_testing();
