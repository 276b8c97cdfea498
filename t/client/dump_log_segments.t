#!/usr/bin/env perl

# Kafka's DumpLogSegments reads what the log layer writes: segments, all three
# indexes, producer snapshots; and would have seen a mistake.

use strict;
use warnings;

use File::Temp;
use Test::More;

use Test::KafkaClient;

tool('java', 'mvn', 'make');
my $jars = jars('tools.xml');

my $top = here() . '/../..';
my $build = $ENV{TEST_BUILD} || "$top/build";
my $writer = "$build/t/tools/log_write.t";

system('make', '-s', '-C', $top, "B=$build", $writer) == 0
    or plan(skip_all => 'the writer does not build');

my $dir = File::Temp->newdir;
my $wrote = output('', $writer, $dir);

my ($records) = $wrote =~ /^records (\d+)$/m;
my ($segments) = $wrote =~ /^segments (\d+)$/m;

cmp_ok($records // 0, '>', 500, 'records were written');
cmp_ok($segments // 0, '>', 1, 'in several segments');


sub dump_files {
    my @files = @_;

    return output('', java($jars), 'org.apache.kafka.tools.DumpLogSegments',
        '--deep-iteration', '--files', join ',', @files);
}


my @logs = sort glob "$dir/topic-0/*.log";
my $text = dump_files(@logs);

my @offsets = $text =~ /^\| offset: (\d+)/mg;
is_deeply(\@offsets, [ 0 .. $records - 1 ], 'every record, in order');

unlike($text, qr/isvalid: false/, 'every CRC is right');
like($text, qr/partitionLeaderEpoch: $_/, "leader epoch $_") for 0, 2, 4;
like($text, qr/compresscodec: $_/, "codec $_")
    for qw(none gzip snappy lz4 zstd);
like($text, qr/endTxnMarker: COMMIT coordinatorEpoch: 3/, 'the marker');
is(scalar(() = $text =~ /endTxnMarker: ABORT coordinatorEpoch: 3/g), 4,
    'those of the aborted ones');
like($text, qr/producerEpoch: 1 .*isTransactional: true isControl: true/,
    'with their own epoch');

# of a segment that does not begin at 0 the tool itself says this
$text =~ s/^  -1 is followed by (\d+)\n//mg;
unlike($text, qr/is followed by/, 'offsets are consecutive');

for my $kind ('index', 'timeindex') {
    my @files = sort glob "$dir/topic-0/*.$kind";
    my $out = dump_files(@files);

    is(scalar(@files), $segments, "a $kind to each segment");
    cmp_ok(scalar(() = $out =~ /^(?:offset|timestamp): \d+/mg), '>', 10,
        "$kind entries");
    unlike($out, qr/mismatch|Exception|not found|out of order/i,
        "the $kind agrees with the log");

    # the last entry's offset
    open my $f, '+<', $files[0] or die;
    seek $f, $kind eq 'index' ? -5 : -1, 2;
    read $f, my $byte, 1;
    seek $f, -1, 1;
    print $f chr(ord($byte) ^ 1);
    close $f;

    like(dump_files($files[0]), qr/mismatch|not found|out of order/i,
        "a wrong $kind is seen");
}

my @aborted = $wrote =~ /^aborted (\d+ \d+ \d+ \d+)$/mg;
my @indexes = sort glob "$dir/topic-0/*.txnindex";
my @entries;

for my $file (@indexes) {
    my ($base) = $file =~ m{(\d+)\.txnindex$};
    $text = dump_files($file);

    for my $line ($text =~ /^(version: 0 .*)$/mg) {
        my %entry = $line =~ /(\w+): (\d+)/g;

        push @entries, join ' ',
            @entry{qw(producerId firstOffset lastOffset lastStableOffset)};
        cmp_ok($entry{lastOffset}, '>=', $base,
            'an entry is in its marker\'s segment');
    }
}

cmp_ok(scalar(@indexes), '>', 1, 'several transaction indexes');
is_deeply(\@entries, \@aborted, 'the aborted transactions');

my ($snapshot) = glob "$dir/topic-0/*.snapshot";
$text = dump_files($snapshot);

my %last;
$last{$1} = $2 while $text =~ /^producerId: (\d+) .*lastSequence: (\d+)/mg;

is_deeply([ sort keys %last ], [ 1000, 1001, 1002 ], 'three producers');
cmp_ok($last{1000}, '>', 100, 'with their last sequence');
is(scalar(() = $text =~ /^producerId: 1000 /mg), 5, 'and a window of five');

is(scalar(() = $text =~ /^producerId: 200[0-3] producerEpoch: 1 .*empty/mg), 4,
    'those that were aborted have the marker\'s epoch and nothing open');

done_testing();
