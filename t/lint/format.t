#!/usr/bin/env perl

# The part of the house style that a machine can tell cheaply.

use strict;
use warnings;

use FindBin;
use Test::More;

chdir "$FindBin::Bin/../..";

my @c = grep !m{^codec/gen/}, map glob("$_/*.[ch]"),
    qw(codec log coordinator ngx_kafka_module t t/unit t/fuzz t/sim t/shim t/lib
        bench);
my @scripts = (glob('t/*/*.t'), glob('t/lib/*/*.pm'), glob('codec/*.p[lm]'),
    glob('tools/*'), glob('conf/*'));
my (%bad, %long);

for my $file (@c, @scripts) {
    next if -d $file;
    open my $f, '<', $file or die "$file: $!";
    my @lines = <$f>;
    my $c = $file =~ /\.[ch]$/;

    $long{$file} = @lines if @lines > 1200;
    note_bad('no newline at the end', $file, scalar @lines)
        if @lines && $lines[-1] !~ /\n\z/;

    for my $n (1 .. @lines) {
        my $line = $lines[$n - 1];
        chomp $line;

        note_bad('trailing blanks', $file, $n) if $line =~ /[ \t]$/;
        next unless $c;
        note_bad('tabs', $file, $n) if $line =~ /\t/;

        my $text = $line;
        utf8::decode($text);
        note_bad('over 80 columns', $file, $n) if length $text > 80;
        note_bad('// comments', $file, $n)
            if $line =~ m{^\s*//} || $line =~ m{[;\{\}]\s*//};
    }
}

my %header = map { $_ => 1 } grep /\.h$/, @c;
for my $file (sort keys %header) {
    next if $file =~ m{^t/} || $file =~ m{^bench/};
    open my $f, '<', $file or die;
    my $text = do { local $/; <$f> };
    next unless $text =~ s{/\*.*?\*/}{}gsr =~ /^\w/m;
    note_bad('no hidden visibility', $file, 1)
        unless $text =~ /#pragma GCC visibility push\(hidden\)/;
    note_bad('no guard', $file, 1) unless $text =~ /#ifndef|#pragma once/;
}

is(join(' ', map "$_ ($long{$_})", sort keys %long), '',
    'no file over 1,200 lines');

for my $what ('trailing blanks', 'tabs', 'over 80 columns', '// comments',
    'no newline at the end', 'no hidden visibility', 'no guard')
{
    my @where = @{ $bad{$what} || [] };
    is(scalar @where, 0, $what);
    diag($_) for @where > 10 ? @where[0 .. 9] : @where;
}

done_testing();


sub note_bad {
    my ($what, $file, $line) = @_;

    push @{ $bad{$what} }, "$file:$line";
}
