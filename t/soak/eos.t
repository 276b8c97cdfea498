#!/usr/bin/perl

# Exactly once: applications of four clients read, process and write in
# transactions, two instances each, while workers are killed, everything is
# killed, nginx reloads, stops and starts, and instances are killed and held.
# In the end each input record has come out once, for who reads committed.
#
#   MINUTES=10   how long (default: 20 seconds)
#   SEED=n       which chances (default: 1)
#   CLIENTS=a,b  only these

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Eos;
use Soak qw/ dice /;
use Test::More;
use Time::HiRes qw/ time /;

my $seed = $ENV{SEED} || 1;
my $seconds = $ENV{MINUTES} ? $ENV{MINUTES} * 60 : 20;

my $e = Eos->new(rate => $seconds > 100 ? 60 : 40,
    clients => [split /,/, $ENV{CLIENTS} || '']);

# The checker is checked: these lines of two partitions, and what it says.

my %case = (
    'nothing wrong' => ['0=a:0/0 0=b:0/0 1=a:1/0 1=b:1/0 0=a:0/1 1=b:0/1', ''],
    'one is there twice' => ['0=a:0/0 0=b:0/0 0=a:0/0', 'twice'],
    'one is missing' => ['0=a:0/1', 'when 0 was next'],
    'the last is missing' => ['0=a:0/0 0=b:0/0 1=a:1/0 1=b:1/0 0=a:0/1',
        'is not there'],
    'two in the wrong order' => ['0=a:0/1 0=a:0/0', 'twice, or late'],
    'another partition' => ['1=a:0/0', 'does not belong'],
    'something else' => ['1=hello', 'nothing we know'],
);

for my $name (sort keys %case) {
    my ($records, $fault) = @{ $case{$name} };
    my $x = Exact->new(topic => 'out', partitions => 2);
    $x->take(split /=/) for split / /, $records;
    $x->complete([2, 1]);

    $fault ? like(join("\n", $x->faults), qr/$fault/, "checker: $name")
        : is(join("\n", $x->faults), '', "checker: $name");
}

my $absent = $e->absent;
for my $name (sort keys %$absent) {
    SKIP: { skip "$name: $absent->{$name}", 1 }
}

diag("seed $seed, $seconds seconds: ", join ' ', $e->clients);
dice(0, $seed);

$e->start;
my $end = time + $seconds;
$e->strike while !$e->faults && (time < $end
    || time < $end + 180 && $e->missing($seconds / 5));
$e->finish;

is(join("\n", $e->faults), '', $e->inputs . ' inputs, each of them once');

for my $name ($e->clients) {
    my $s = $e->stats($name);
    cmp_ok($s->{committed}, '>', $seconds / 5, "$name: transactions");
    cmp_ok($e->aborted($name), '>', 0, "$name: some were aborted");
    diag("$name: ", join ', ', map "$s->{$_} $_", sort keys %$s);
}

diag($e->inputs, ' inputs; ', $e->told);

$e->nginx->done;
