#!/usr/bin/env perl

# Kafka Streams, exactly_once_v2: two instances count words, through a
# repartition topic and a store with a changelog, while they are killed, workers
# are killed, everything is killed, nginx reloads, stops and starts.  The counts
# are exact.
#
#   MINUTES=10   how long (default: each thing happens once)
#   SEED=n       which chances (default: 1)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../soak";

use Chaos;
use Soak qw(dice);
use Test::More;
use Time::HiRes qw(time);

use Test::KafkaClient;
use Test::KafkaProgram;

tool('java', 'javac', 'mvn');
my $jars = jars('streams.xml');

my $seconds = ($ENV{MINUTES} || 0) * 60;
my $seed = $ENV{SEED} || 1;

broker(config => { 'num.partitions' => 4,
    'group.min.session.timeout.ms' => 1000 });
my $t = nginx();
my $name = "streams-$$";
my $classes = $t->dir . '/classes';

system('javac', '-cp', $jars, '-d', $classes, here() . '/java/WordCount.java')
    == 0 or die 'WordCount.java cannot be compiled';

{
    my $c = $t->client;
    $c->create_topic("$name-$_", 4) for qw(lines counts);
    $c->close;
}

my %app;
my $load = program('load');
app($_) for qw(a b);

ok(until_running(300), 'both instances run');

dice(0, $seed);

my $chaos = Chaos->new($t,
    [6, 'instance killed', sub {
        my $which = ('a', 'b')[dice(2)];
        $app{$which}->kill9;
        listen_for(dice(2000) / 1000);
        app($which);
    }],
    [2, 'instances killed in a transaction', sub {
        stop_in_transaction(120);
        $_->kill9 for values %app;
        app($_) for qw(a b);
    }],
    [2, 'everything killed, and an instance', sub {
        my $which = ('a', 'b')[dice(2)];
        $t->kill_all;
        $app{$which}->kill9;
        $t->run;
        app($which);
    }]);

# Each of these once, then by chance.
my @first = ('worker killed', 'instance killed', 'everything killed', 'reload',
    'instances killed in a transaction', 'everything killed, and an instance',
    'graceful stop');
my $end = time + $seconds;

strike(shift @first) while @first || time < $end;

# A transaction of one that was killed is aborted by its successor, or in time.
ok(Test::KafkaProgram->until(\&aborted, 120), 'a transaction was aborted');

# What was read of the repartition topic is deleted now and then.
ok(Test::KafkaProgram->until(\&purged, 120), 'and something deleted');

diag("seed $seed: ", $chaos->told);
$chaos->calm;

$load->say('stop');
ok($load->until(sub { $load->ended }, 120), 'the input is there');
my $sent = $load->said(qr/^sent (\d+)$/);
cmp_ok($sent // 0, '>', 500 + $seconds * 50, 'words were sent');

my $check = program('check', $sent // 0);
ok($check->until(sub { $check->said(qr/^all counted$/) || $check->ended }, 300),
    'all words are counted');

# What is counted twice now, is seen.
$_->say('stop') for values %app;
ok(Test::KafkaProgram->until(sub { !grep !$_->ended, values %app }, 150),
    'the instances end');
ok($app{$_}->said(qr/^closed true$/), "$_ closes in order") for sort keys %app;

$check->say('stop');
ok($check->until(sub { $check->ended }, 300), 'the check ends');
is($check->status, 0, 'the counts are exact');
cmp_ok(scalar(grep /^ok /, $check->lines), '>=', 9, 'all was looked at');

for ($check->lines) {
    /^(not )?ok \d+ - (.*)/ ? ok(!$1, $2) : /^# (.*)/ && diag($1);
}

finish();


sub program {
    my ($mode, @more) = @_;

    return Test::KafkaProgram->start(name => $mode,
        log => $t->dir . "/$mode.err", on => sub {
            my ($p, $line) = @_;
            diag(sprintf '%s: %s', $p->name, $line) if $line =~ /^problem /;
        },
        command => ['java', '-Xmx256m', '-XX:TieredStopAtLevel=1',
            '-XX:+UseSerialGC', '-cp', "$classes:$jars", 'WordCount', $mode,
            bootstrap(), $name, @more]);
}

# An instance, which finds its directory as the one before has left it.
sub app {
    my ($which) = @_;

    return $app{$which} = program('app', $t->dir . "/state-$which");
}

# When there is work to be lost.
sub strike {
    listen_for(dice($seconds ? 8000 : 1000) / 1000);
    working(30);
    $chaos->strike(@_);
}

sub until_running {
    my ($time) = @_;

    return Test::KafkaProgram->until(sub {
        !grep !$_->said(qr/^state RUNNING$/), values %app;
    }, $time);
}

# Until something was counted from now on.
sub working {
    my ($time) = @_;
    my $before;

    return Test::KafkaProgram->until(sub {
        my $n = counted() // return;
        return $n > ($before //= $n);
    }, $time);
}

# How much there is in the topic of counts, by default for who reads what is
# committed.
sub counted {
    my ($isolation) = @_;
    my $sum = 0;

    return eval {
        my $c = $t->client(timeout => 5);
        $sum += $c->list_offset("$name-counts", $_, -1,
            isolation => $isolation // 1)->{Offset} for 0 .. 3;
        $sum;
    };
}

# The instances stand still, and counts are in a transaction that is open.
sub stop_in_transaction {
    my ($time) = @_;

    my $open = sub {
        my $committed = counted(1) // return;
        return (counted(0) // return) > $committed;
    };

    return Test::KafkaProgram->until(sub {
        return unless $open->();

        # What they have asked for is answered meanwhile.
        kill 'STOP', map $_->pid, values %app;
        listen_for(0.2);
        return 1 if $open->();

        kill 'CONT', map $_->pid, values %app;
        return;
    }, $time);
}

sub purged {
    return eval {
        my $c = $t->client(timeout => 5);
        scalar grep { $c->list_offset("$name-words-repartition", $_, -2)
            ->{Offset} > 0 } 0 .. 3;
    };
}

sub aborted {
    return eval {
        my $c = $t->client(timeout => 5);
        scalar grep @{ $c->fetch("$name-counts", $_, 0, isolation => 1,
            partition_max_bytes => 16 << 20)->{AbortedTransactions} // [] },
            0 .. 3;
    };
}

sub listen_for {
    my ($time) = @_;

    my $over = time + $time;
    Test::KafkaProgram->until(sub { time > $over }, $time + 1);
}
