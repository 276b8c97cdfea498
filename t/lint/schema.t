#!/usr/bin/perl

# Every message and version is field by field what kafka-clients has, and the
# golden samples are what it writes.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More;

my $dir = tempdir(CLEANUP => 1);
my $out = `$^X codec/check-schema '$dir' 2>&1`;
my $rc = $? >> 8;

plan(skip_all => $1) if $rc == 77 && $out =~ /^(cannot check: [^\n]*)/;

is($rc, 0, 'messages are those of kafka-clients') or diag($out);

# It would notice a difference.

my $dump = do {
    open my $fh, '<', "$dir/schema/ours" or die $!;
    local $/ = undef;
    <$fh>;
};

like($dump, qr/^Fetch request 18 flexible\n  max_wait_ms INT32 default 0$/m,
     'the compared text has fields');
cmp_ok(scalar(() = $dump =~ /^\S/mg), '>', 300, 'of all versions');

done_testing();
