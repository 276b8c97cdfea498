#!/usr/bin/env perl

# Many transactional ids, many open transactions, and one over many partitions,
# in zones of just the size that docs/OPERATING.md says: ids that nobody uses
# expire and give their memory back, open transactions outlive a kill of
# everything, and one that is killed while it ends is wholly there or not at all.
#
#   LIMITS=10    100,000 ids, 3,000 open transactions, 1,000 partitions

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch qw(batch batches records);
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $scale = $ENV{LIMITS} || 1;
my $waves = $scale > 1 ? 10 : 4;
my $ids = $scale > 1 ? 1000 * $scale : 2000;    # of a wave
my $open = $scale > 1 ? 300 * $scale : 500;
my $parts = $scale > 1 ? 100 * $scale : 200;
my $kills = $scale > 1 ? 16 : 4;
my $time_out = $scale > 1 ? 60 : 8;             # s, of those that nobody ends
my $held = $scale > 1 ? 600 * $scale : 300;     # that end at the same time
my $round = 0;
my ($t, @c);

chomp(my $files = qx(sh -c 'ulimit -n'));
$held = $files - 200 if $files =~ /^\d+$/ && $held > $files - 200;


# What it took, for the reader: the rest of the broker waits no longer.
sub timed {
    my ($what, $code) = @_;
    my $start = time;
    my @r = $code->();

    note(sprintf '%s: %.2f s', $what, time - $start);

    return wantarray ? @r : $r[0];
}


# A broker for so many partitions, producers in partitions, ids, transactions
# that are under way, and partitions in large ones.
sub broker {
    my ($partitions, $producers, $names, $open, $large, %config) = @_;

    my ($zone) = sort { $b <=> $a } (1 << 15) * ($partitions + 3),
        (1 << 13) * $producers,
        2.5 * (256 * $names + 1024 * $open + 64 * $large), 2 << 20;

    $t = Test::KafkaNginx->new(workers => 4, connections => 8192,
        slow_disk => 1, zone => int($zone * 1.01 / 1024) . 'k', config => {
            'transaction.abort.timed.out.transaction.cleanup.interval.ms' => 500,
            'transaction.remove.expired.transaction.cleanup.interval.ms' => 100,
            %config })->run;

    note(sprintf 'a zone of %.1f MiB', $zone * 1.01 / 1048576);
    connect_all();
}


# Requests of a connection are answered one after the other.
sub connect_all { @c = map $t->client(timeout => 120), 1 .. 64 }


# Calls for each of the transactions, always many before the first answer is
# read; those of one id are on one connection.
sub many {
    my ($send, $recv, @x) = @_;
    my $good = 0;

    while (my @lot = splice @x, 0, 10 * @c) {
        $send->($c[$_->{n} % @c], $_) for @lot;
        $good += !!$recv->($c[$_->{n} % @c]->recv, $_) for @lot;
    }

    return $good;
}


# ---- the steps of a transaction, of clients of both generations

sub init {
    return many(
        sub { my ($c, $x) = @_; $c->send('InitProducerId', 4, {
            TransactionalId => $x->{name}, ProducerId => -1,
            ProducerEpoch => -1,
            TransactionTimeoutMs => 1000 * ($x->{time_out} || 600) }) },
        sub { my ($r, $x) = @_; @$x{qw(pid epoch seq)}
            = (@$r{qw(ProducerId ProducerEpoch)}, 0);
            $r->{ErrorCode} == 0 }, @_);
}


sub topics {
    my ($x, $code) = @_;

    return [map $code->($_, @{ $x->{places}{$_} }), sort keys %{ $x->{places} }];
}


sub who {
    my ($x) = @_;

    return (TransactionalId => $x->{name}, ProducerId => $x->{pid},
        ProducerEpoch => $x->{epoch});
}


# Clients of version 2 do without.
sub add {
    return many(
        sub { my ($c, $x) = @_; $c->send('AddPartitionsToTxn', 3, {
            V3AndBelowTransactionalId => $x->{name},
            V3AndBelowProducerId => $x->{pid},
            V3AndBelowProducerEpoch => $x->{epoch},
            V3AndBelowTopics => topics($x, sub {
                my ($name, @p) = @_;
                return { Name => $name, Partitions => \@p };
            }) }) },
        sub { !grep $_->{PartitionErrorCode},
            map @{ $_->{ResultsByPartition} },
            @{ $_[0]{ResultsByTopicV3AndBelow} } }, @_);
}


sub put_body {
    my ($x) = @_;

    # the same for each partition
    my $records = batch(records => [$x->{value} // $x->{name}],
        transactional => 1, producer_id => $x->{pid},
        producer_epoch => $x->{epoch}, sequence => $x->{seq}++);

    return { TransactionalId => $x->{name}, Acks => -1, TimeoutMs => 60_000,
        TopicData => topics($x, sub {
            my ($name, @p) = @_;
            return { Name => $name, TopicId => $t->{ids}{$name},
                PartitionData => [map +{ Index => $_, Records => $records },
                    @p] };
        }) };
}


sub put {
    return many(
        sub { my ($c, $x) = @_;
            $c->send('Produce', $x->{version} < 2 ? 9 : 13, put_body($x)) },
        sub { !grep $_->{ErrorCode}, map @{ $_->{PartitionResponses} },
            @{ $_[0]{Responses} } }, @_);
}


sub begin {
    my $added = add(grep $_->{version} < 2, @_);

    return $added == (grep $_->{version} < 2, @_) ? put(@_) : "$added added";
}


sub end_request {
    my ($x) = @_;

    return ('EndTxn', $x->{version} < 2 ? 4 : 5,
        { who($x), Committed => $x->{commit} });
}


sub ended {
    my ($r, $x) = @_;

    if ($r->{ErrorCode} == 0 && $x->{version} > 1) {
        @$x{qw(pid epoch seq)} = (@$r{qw(ProducerId ProducerEpoch)}, 0);
    }

    return $r->{ErrorCode} == 0;
}


sub finish {
    return many(sub { my ($c, $x) = @_; $c->send(end_request($x)) }, \&ended,
        @_);
}


# ---- what there is

# State by id, of those whose id begins with it.
sub listed {
    my ($prefix) = @_;

    my $r = $t->client(timeout => 120)->call('ListTransactions', 2,
        { TransactionalIdPattern => "$prefix.*" });
    die "ListTransactions: $r->{ErrorCode}\n" if $r->{ErrorCode};

    return map { $_->{TransactionalId} => $_->{TransactionState} }
        @{ $r->{TransactionStates} };
}


sub described {
    my ($c, @names) = @_;
    my @states;

    while (my @lot = splice @names, 0, 100) {
        push @states, @{ $c->call('DescribeTransactions', 0,
            { TransactionalIds => \@lot })->{TransactionStates} };
    }

    return @states;
}


sub place { join ' ', map { my $topic = $_; map "$topic-$_",
    sort { $a <=> $b } @{ $_[0]{$topic} } } sort keys %{ $_[0] } }


# Those that are as they were left.
sub as_before {
    my %x = map { $_->{name} => $_ } @_;

    return scalar grep {
        my $x = $x{ $_->{TransactionalId} };
        $_->{TransactionState} eq 'Ongoing' && $_->{ProducerId} == $x->{pid}
            && $_->{ProducerEpoch} == $x->{epoch}
            && place({ map { $_->{Topic} => $_->{Partitions} }
                @{ $_->{Topics} } }) eq place($x->{places})
    } described($t->client(timeout => 120), sort keys %x);
}


# The values that a reader of committed ones gets from a partition's answer, and
# whether there is more that is not decided.
sub committed {
    my ($p) = @_;
    my @aborted = @{ $p->{AbortedTransactions} // [] };
    my (%in, @values);

    for my $b (batches($p->{Records} // '')) {
        while (@aborted && $aborted[0]{FirstOffset} <= $b->{base_offset}) {
            $in{ (shift @aborted)->{ProducerId} } = 1;
        }

        if ($b->{attributes} & 32) {
            delete $in{ $b->{producer_id} };

        } elsif (!$in{ $b->{producer_id} }) {
            push @values, map $_->{value}, records($b);
        }
    }

    return ($p->{LastStableOffset} < $p->{HighWatermark}, @values);
}


# All of them, in one request each: partitions by topic and number.
sub ends {
    my ($places) = @_;

    my $r = $t->client(timeout => 120)->call('ListOffsets', 7, {
        ReplicaId => -1, IsolationLevel => 0,
        Topics => topics({ places => $places }, sub {
            my ($name, @p) = @_;
            return { Name => $name, Partitions => [map +{
                PartitionIndex => $_, Timestamp => -1,
                CurrentLeaderEpoch => -1 }, @p] };
        }) });

    return map { my $topic = $_->{Name};
        map { ("$topic-$_->{PartitionIndex}" => $_->{Offset}) }
            @{ $_->{Partitions} } } @{ $r->{Topics} };
}


sub fetched {
    my ($places, %from) = @_;

    my $r = $t->client(timeout => 120)->call('Fetch', 12, {
        MaxWaitMs => 0, MinBytes => 1, MaxBytes => 50 << 20,
        IsolationLevel => 1, SessionId => 0, SessionEpoch => -1,
        ForgottenTopicsData => [],
        Topics => topics({ places => $places }, sub {
            my ($name, @p) = @_;
            return { Topic => $name, Partitions => [map +{
                Partition => $_, FetchOffset => $from{"$name-$_"} // 0,
                PartitionMaxBytes => 16 << 20, CurrentLeaderEpoch => -1 },
                @p] };
        }) });

    return map @{ $_->{Partitions} }, @{ $r->{Responses} };
}


# Memory of the zone that was ever used; undef: we are not told.
sub zone_used {
    my $used;

    for my $map (glob '/proc/' . $t->master . '/map_files/*') {
        next unless (readlink($map) // '') =~ m{^/dev/zero};
        my @s = stat $map or next;
        $used += $s[12] * 512;
    }

    return $used;
}


sub create_topics {
    my (%topics) = @_;

    my $r = $t->client(timeout => 120)->call('CreateTopics', 7, {
        timeoutMs => 60_000, Topics => [map +{ Name => $_,
            NumPartitions => $topics{$_}, ReplicationFactor => 1 },
            sort keys %topics] });
    $t->{ids} = { map { $_->{Name} => $_->{TopicId} } @{ $r->{Topics} } };

    return !grep $_->{ErrorCode}, @{ $r->{Topics} };
}


# [crit] is no better than what the harness looks for.
sub done {
    unlike($t->error_log, qr/\[crit\]/, 'nothing critical');
    unlike($t->error_log, qr/zone is full|no room/, 'the zone was large enough');
    $t->hidden_checks;
}


# ---- ids that come and go

sub expiring {
    my ($ms) = @_;

    $t->{config}{"$_.expiration.ms"} = $ms for qw(transactional.id producer.id);
}


sub waves {
    broker(8, $ids / 10, $ids, $ids / 10, 0,
        'log.retention.check.interval.ms' => 100);
    create_topics(small => 8);

    my $empty = zone_used();
    my ($each, @used);

    for my $wave (1 .. $waves) {
        my @x = map +{ name => sprintf('wave-%02d-%06d', $wave, $_), n => $_,
            version => 1 + $_ / 10 % 2, commit => 1,
            places => { small => [$_ / 10 % 8] } }, 1 .. $ids;
        my @busy = grep $_->{n} % 10 == 0, @x;

        is(timed("wave $wave, InitProducerId", sub { init(@x) }), $ids,
            "wave $wave: producers");
        $each //= (zone_used() - $empty) / $ids if defined $empty;
        is(timed('transactions', sub { begin(@busy) }), @busy,
            "wave $wave: a part of them writes");
        is(timed('EndTxn', sub { finish(@busy) }), @busy,
            "wave $wave: and commits");

        my %state = listed('wave-');
        is(keys %state, $ids, "wave $wave: they are listed, and nobody else");
        is((grep $_ eq 'CompleteCommit', values %state), @busy,
            "wave $wave: those that wrote");

        push @used, zone_used();

        # the time of those is over, and then that of the next ones is not
        @c = ();
        expiring(1);
        $t->reload;
        ok(timed('gone', sub { wait_for(sub { %state = listed(''); !%state },
            120) }), "wave $wave: all of them expire");
        expiring(3_600_000);
        $t->reload;
        connect_all();
    }

    SKIP: {
        skip('not told what is used', 2) unless defined $empty;

        note(sprintf 'the zone in KiB: %d, waves %s', $empty / 1024,
            join ' ', map int($_ / 1024), @used);
        note(sprintf '%.0f bytes for an id', $each);
        cmp_ok($each, '<', 300, 'an id takes what it should');
        cmp_ok($used[-1] - $empty, '<', 2 * ($used[0] - $empty),
            'the last wave has used the memory of the first');
    }

    done();
}


# ---- open transactions

sub open_all {
    my @x = map +{ name => sprintf('open-%05d', $_), n => $_,
        version => 1 + $_ % 2, commit => $_ % 3 == 0 || 0,
        time_out => $_ % 3 == 2 ? $time_out : 0,
        places => { many => [$_ % 16], more => [$_ % 13] } }, 1 .. $open;
    my @left = grep $_->{time_out}, @x;
    my @mine = grep !$_->{time_out}, @x;
    my $used = zone_used();

    is(timed('InitProducerId', sub { init(@mine) }), @mine, 'producers');
    my $start = time;
    is(timed('transactions', sub { begin(@mine) }), @mine,
        'transactions begin');

    # Their time must not be over while they begin.
    $time_out += int(4 * (time - $start));
    $_->{time_out} = $time_out for @left;
    is(timed('InitProducerId', sub { init(@left) }), @left, 'more producers');
    $start = time;
    is(timed('transactions', sub { begin(@left) }), @left,
        'more transactions begin');
    note(sprintf '%.0f bytes for one', (zone_used() - $used) / $open)
        if defined $used;

    $t->kill_all;
    timed('a start', sub { $t->run });

    my %state = listed('open-');
    my @there = grep $state{$_->{name}} eq 'Ongoing', @x;

    # who took too long cannot know
    @there = (@left, grep !$_->{time_out}, @there)
        if time - $start > $time_out;

    is(keys %state, $open, 'after a kill of everything all are there');
    is(@there, $open, 'and under way');

    is(as_before(@mine), @mine, 'each with its partitions');

    connect_all();
    is(timed('EndTxn', sub { finish(@mine) }), @mine,
        'each is committed or aborted');
    %state = listed('open-');
    is((grep { $state{$_->{name}} ne ($_->{commit} ? 'CompleteCommit'
        : 'CompleteAbort') } @mine), 0, 'as it was asked');

    return @x;
}


sub timed_out {
    my (@x) = @_;
    my @names = map $_->{name}, grep $_->{time_out}, @x;
    my %state;

    ok(timed('timeouts', sub { wait_for(sub {
        %state = listed('open-');
        return !grep $state{$_} ne 'CompleteAbort', @names;
    }, 180) }), 'those that nobody ends are aborted');

    my $places = { many => [0 .. 15], more => [0 .. 12] };
    my ($undecided, %seen) = 0;

    for my $p (fetched($places)) {
        my ($more, @values) = committed($p);
        $undecided += $more;
        $seen{$_}++ for @values;
    }

    is($undecided, 0, 'nothing is undecided');
    is_deeply(\%seen, { map { $_->{name} => scalar keys %{ $_->{places} } }
        grep $_->{commit}, @x },
        'readers see what was committed, and nothing else');
}


# ---- many that are decided, and not carried out

# All are asked for at the same time of a disk that takes its time until
# everything is killed.  Then one worker has to carry them out.
sub decided {
    my @x = map +{ name => sprintf('held-%05d', $_), n => $_,
        version => 1 + $_ % 2, commit => $_ % 3 == 0 || 0,
        places => { many => [$_ % 16] } }, 1 .. $held;

    is(init(@x), $held, 'producers');
    is(begin(@x), $held, 'transactions begin');

    $t->hold_sync;
    my $size = $t->journal_rests;
    my @each = map $t->client(timeout => 120), @x;
    $each[$_]->send(end_request($x[$_])) for 0 .. $#x;
    cmp_ok($t->journal_rests($size), '>', $size, 'their ends are decided');

    $t->kill_all;
    $t->release_sync;
    $t->{workers} = 1;
    timed('a start', sub { $t->run });

    my %state;
    ok(timed('they are carried out', sub { wait_for(sub {
        %state = listed('held-');
        return !grep /^Prepare/, values %state;
    }, 60) }), 'what is decided is carried out, though nobody asks');
    note(scalar(grep $_ eq 'Ongoing', values %state), ' were not decided');

    $t->{workers} = 4;
    $t->reload;
    connect_all();
    is(finish(@x), $held, 'the client of each asks again');

    return @x;
}


# ---- one transaction over many partitions

my @committed;


# committed, aborted, open, or how many partitions are what.
sub seen {
    my ($x) = @_;
    my %n;

    for my $p (fetched($x->{places}, %{ $x->{from} })) {
        my ($more, @values) = committed($p);
        $n{ (grep { $_ eq $x->{value} } @values) ? 'committed'
            : $more ? 'open' : 'aborted' }++;
    }

    my @kinds = keys %n;

    return @kinds == 1 && $n{ $kinds[0] } == $parts ? $kinds[0]
        : join ', ', map "$_ $n{$_}", sort @kinds;
}


sub begin_large {
    my ($x, $commit) = @_;

    $x->{commit} = $commit;
    $x->{value} = "large " . ++$round;
    $x->{from} = { ends($x->{places}) };

    return timed("$x->{value}", sub { begin($x) });
}


# Asks until it is no longer "later".
sub insist {
    my ($code) = @_;
    my $r;

    wait_for(sub {
        $r = $code->();
        return $r->{ErrorCode} != 51;
    }, 120);

    return $r;
}


sub large {
    my %places = map { ("large-$_" => [0 .. $parts / 10 - 1]) } 0 .. 9;
    my @x = map +{ name => "large-$_", n => 0, version => $_,
        places => \%places }, 1, 2;

    my $longest = 0;

    is(init(@x), @x, 'producers');

    for my $x (@x) {
        for my $commit (1, 0) {
            my $outcome = $commit ? 'committed' : 'aborted';
            my $label = "version $x->{version}, $parts partitions";

            is(begin_large($x, $commit), 1, "$label: it begins");
            is(seen($x), 'open', "$label: it is not seen");
            my $start = time;
            is(timed('EndTxn', sub { finish($x) }), 1, "$label: it ends");
            $longest = time - $start if $longest < time - $start;
            is(seen($x), $outcome, "$label: it is $outcome");
            push @committed, $x->{value} if $commit;
        }
    }

    killed($x[$_ % 2], $_, $longest * ($_ - 1) / $kills) for 1 .. $kills;

    my %wrong = map { join(', ', @$_) => 1 } grep { "@$_" ne "@committed" }
        map { my ($more, @values) = committed($_); \@values }
        fetched(\%places);

    is(join('; ', keys %wrong), '', 'all partitions have the same of them');
}


# kill -9 of everything while it ends, later each time.
sub killed {
    my ($x, $n, $after) = @_;
    my $commit = $n % 4 < 2 || 0;
    my $outcome = $commit ? 'committed' : 'aborted';
    my $label = "kill $n, version $x->{version}";

    is(begin_large($x, $commit), 1, "$label: it begins");
    my $c = $t->client;
    $t->kill_all(sub {
        $c->send(end_request($x));
        sleep $after if $after;
    });
    timed('a start', sub { $t->run });
    connect_all();

    ($c) = @c;
    my ($d) = described($c, $x->{name});
    note(sprintf '%s: killed after %.3f s, then %s, %s', $label, $after,
        $d->{TransactionState}, seen($x));

    if ($n % 3) {
        ok(ended(insist(sub { $c->call(end_request($x)) }), $x),
            "$label: its client asks again");

    } else {
        $outcome = 'aborted' if $d->{TransactionState} eq 'Ongoing';
        my $r = insist(sub { $c->init_producer(
            transactional_id => $x->{name}, timeout_ms => 600_000) });
        is($r->{ErrorCode}, 0, "$label: a successor");
        @$x{qw(pid epoch seq)} = (@$r{qw(ProducerId ProducerEpoch)}, 0);
    }

    is(seen($x), $outcome, "$label: it is $outcome in all partitions");
    push @committed, $x->{value} if $outcome eq 'committed';
}


waves();

broker($parts + 29, 2 * $open + $held + 2 * $parts, $open + $held + 2,
    $open + $held + 2, 2 * $parts);
ok(create_topics(many => 16, more => 13,
    map { ("large-$_" => $parts / 10) } 0 .. 9), 'topics');

my @x = open_all();
push @x, decided();
large();
timed_out(@x);
done();

done_testing();
