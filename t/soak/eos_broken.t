#!/usr/bin/perl

# What eos.t looks at is looked at rightly: with one rule left out of the
# broker, records come out twice or not at all, and it says so.  Each case is
# the broker's own source with a few words changed.
#
#   MINUTES=10   has to be set: this is not for every day
#   CASES=a,b    only these

use warnings;
use strict;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use File::Path qw/ make_path remove_tree /;
use Test::More;
use Time::HiRes qw/ time /;

use Eos;
use Soak qw/ dice slurp top /;

plan(skip_all => 'MINUTES is not set') unless $ENV{MINUTES};

# Name, what is left out, and file, text, other text, at how many places.

my @cases = (
    ['generation', 'a commit is not asked for its generation',
        ['coordinator/kc_txn_offset.c', 'version >= 3', 'version >= 99', 3]],
    ['staged', 'offsets that are staged do not survive',
        ['coordinator/kc_replay.c', '"kc_int.h"', '"kc_txn_int.h"', 1],
        ['coordinator/kc_replay.c', 'kc->recovering = false;', <<'C', 1]],
    kc->recovering = false;

    kc_map_t  *all = &kc->state->txns.ongoing;

    for (kc_txn_t *t = kc_map_next(all, kf_null_str); t;
         t = kc_map_next(all, t->by_time.key))
    {
        kc_map_t  *groups = &t->open->groups;

        for (kc_txn_group_t *g = kc_map_next(groups, kf_null_str); g;
             g = kc_map_next(groups, g->by_id.key))
        {
            while (g->first) {
                kc_staged_free(kc, g->first);
            }
        }
    }
C
);

my %wanted = map { $_ => 1 } split /,/, $ENV{CASES} || '';

for my $case (@cases) {
    my ($name, $label, @changes) = @$case;

    next if %wanted && !$wanted{$name};

    dice(0, 1);
    my $e = Eos->new(module => module($name, @changes),
        clients => ['franz', 'librdkafka', 'java_old'], one_of => 4);
    $e->start;

    my $end = time + 300;
    $e->strike while time < $end && !$e->faults;
    my @faults = $e->faults;

    ok(scalar(grep /twice|was next/, @faults), "$label: it is noticed");
    diag("$name, after ", $e->told);
    diag("    $_") for @faults > 3 ? @faults[0 .. 2] : @faults;

    $e->nginx->kill_all;
    $e->nginx->clean;
}

done_testing();


# The module with some changes.

sub module {
    my ($name, @changes) = @_;
    my $build = ($ENV{TEST_BUILD} || top() . '/build') . "/broken/$name";
    my $tree = "$build/tree";

    remove_tree($tree);
    make_path($tree);
    system('cp', '-R', (map top() . "/$_", qw/ config tools codec log
        coordinator ngx_kafka_module /), $tree) == 0 or die "no copy\n";

    for my $change (@changes) {
        my ($file, $from, $to, $places) = @$change;
        my $text = slurp("$tree/$file") // die "no $file\n";
        my $n = $text =~ s/\Q$from\E/$to/g;
        is($n, $places, "$name: $file is what it was");

        open my $f, '>', "$tree/$file" or die "$file: $!";
        print $f $text;
        close $f or die "$file: $!";
    }

    local $ENV{CC} = $ENV{CC} || 'gcc';
    local $ENV{OPT} = '-O2 -g';
    local $ENV{MAKEFLAGS};
    delete $ENV{MAKEFLAGS};
    my $out = qx("$tree/tools/module" "$build" 2>&1);
    die "$name cannot be built: $out" if $?;

    return "$build/ngx_stream_kafka_module.so";
}
