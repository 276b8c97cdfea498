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

done_testing();
