package Test::KafkaGroup;

# Consumer groups of a real client, whichever it is.  A member is a program
# that is given BOOTSTRAP GROUP TOPIC and NAME=VALUE pairs (instance=ID,
# strategy=cooperative), and that
#
#     prints                          reads from stdin
#     assigned 0,1    all of its      commit    what it has consumed, then
#                     partitions,               prints "committed"
#                     after a change  close     leaves as the client does, ends
#     revoked 2,3     those it lost
#     record 0 VALUE
#
# What every client has to live through is told by scenario(), once.

use strict;
use warnings;

use IO::Select;
use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Kafka::Wire;
use Test::KafkaClient;

use Exporter 'import';
our @EXPORT = qw(scenario);

my $partitions = 4;


# ---- members

# options: name, command (a list, without bootstrap, group, topic), parse (for
# a program that does not speak as above: turns a line into such lines)
sub member {
    my ($s, %o) = @_;

    # no other member keeps these open: a pipe's end is an end
    pipe my $in, my $tell or die "pipe: $!";
    pipe my $hear, my $out or die "pipe: $!";

    my $pid = fork // die "fork: $!";

    if (!$pid) {
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        open STDERR, $s->{stderr} ? '>&' : '>>', $s->{stderr} ? $out
            : cache() . "/group-$s->{name}.log";
        close $_ for $tell, $hear;
        { exec $s->{command}->(bootstrap(), $o{group}, $o{topic},
            map "$_=$o{$_}", grep $o{$_}, qw(instance strategy)) }
        require POSIX;
        POSIX::_exit(127);
    }

    close $_ for $in, $out;
    $tell->autoflush(1);

    my $m = bless { %o, pid => $pid, tell => $tell, hear => $hear,
        text => '', assigned => [], changes => 0, revoked => [], seen => {},
        committed => 0, log => [], parse => $s->{parse},
        can_commit => !$s->{no_commands}, scenario => $s }, 'Test::KafkaGroup';
    push @{ $s->{members} }, $m;

    return $m;
}


sub hear {
    my ($m) = @_;

    return 0 if $m->{ended};

    while (IO::Select->new($m->{hear})->can_read(0)) {
        my $n = sysread $m->{hear}, $m->{text}, 65536, length $m->{text};
        $m->{ended} = 1, last unless $n;
    }

    while ($m->{text} =~ s/^(.*)\n//) {
        my $line = $1;
        push @{ $m->{log} }, $line if $line !~ /^record/;
        $m->understand($_) for $m->{parse} ? $m->{parse}->($line) : $line;
    }

    return 1;
}


sub understand {
    my ($m, $line) = @_;

    if ($line =~ /^assigned ?([\d,]*)$/) {
        $m->{assigned} = [sort { $a <=> $b } split /,/, $1];
        $m->{changes}++;
    } elsif ($line =~ /^revoked ?([\d,]*)$/) {
        push @{ $m->{revoked} }, split /,/, $1;
    } elsif ($line =~ /^record (\d+) (\S+)$/) {
        $m->{seen}{$2}++;
    } elsif ($line =~ /^committed$/) {
        $m->{committed}++;
    }
}


# To a member that may have gone.
sub say {
    my ($m, $word) = @_;

    local $SIG{PIPE} = 'IGNORE';
    print { $m->{tell} } "$word\n";
}


sub has { join ',', @{ $_[0]{assigned} } }


sub commit {
    my ($s, $m, $label) = @_;

    return sleep 1 unless $m->{can_commit};        # it commits by itself

    my $n = $m->{committed};
    $m->say('commit');
    ok($s->until(sub { $m->{committed} > $n }, 60), "$label: commit");
}


sub leave {
    my ($s, $m, %o) = @_;

    if ($o{kill}) {
        kill 'KILL', $m->{pid};
    } elsif ($m->{can_commit}) {
        $m->say('close');
    } else {
        kill 'TERM', $m->{pid};
    }

    my $gone = $s->until(sub { $m->{ended} }, 60);
    kill 'KILL', $m->{pid} unless $gone;
    waitpid $m->{pid}, 0;
    @{ $s->{members} } = grep { $_ != $m } @{ $s->{members} };

    return $gone;
}


# Until it is so; members are listened to meanwhile.
sub until {
    my ($s, $code, $seconds) = @_;

    my $end = time + $seconds;

    while (1) {
        $_->hear for @{ $s->{members} };
        return 1 if $code->();
        return 0 if time > $end;
        sleep 0.02;
    }
}


sub show {
    my ($s) = @_;

    for my $m (@{ $s->{members} }) {
        diag("member $m->{pid}: has '" . $m->has . "'");
        my @log = @{ $m->{log} };
        diag("    $_") for @log > 12 ? @log[-12 .. -1] : @log;
    }
}


# Each partition has one member, all have as many (more or less).
sub balanced {
    my ($s, @m) = @_;

    my @all = sort { $a <=> $b } map @{ $_->{assigned} }, @m;
    my @n = sort { $a <=> $b } map scalar @{ $_->{assigned} }, @m;

    return "@all" eq join(' ', 0 .. $partitions - 1) && $n[-1] - $n[0] <= 1;
}


sub joined {
    my ($s, $label, $seconds, @m) = @_;

    ok($s->until(sub { $s->balanced(@m) }, $seconds), $label) or $s->show;
}


# ---- records

# As many to each partition; tried again until the broker has said yes.
sub produce {
    my ($s, $n) = @_;

    for my $i (1 .. $n) {
        my $p = $s->{sent}++ % $partitions;
        my $value = "v$s->{sent}";
        my $batch = Kafka::Batch::batch(records => [$value]);

        my $done = Test::KafkaNginx::wait_for(sub {
            my $r = eval {
                $s->{client} ||= Kafka::Wire->new(timeout => 5,
                    port => $s->{nginx}->port(0));
                $s->{client}->produce($s->{topic}, $p, $batch);
            };
            return 1 if $r && !$r->{ErrorCode};
            delete $s->{client};
            return 0;
        }, 60);

        push @{ $s->{values} }, $value;
        ok(0, "record $value could not be produced") unless $done;
    }
}


# Everything produced since the last call has reached one of the members.
sub received {
    my ($s, $label, $seconds, @m) = @_;

    my @values = @{ $s->{values} };
    my @missing;

    $s->until(sub {
        @missing = grep { my $v = $_; !grep $_->{seen}{$v}, @m } @values;
        return !@missing;
    }, $seconds);

    is(scalar @missing, 0, "$label: all of " . @values . ' records')
        or $s->show;
    $s->{values} = [];
}


# ---- the scenario

# name: the client's; command: see member(); also
#   static, cooperative   the client has them
#   stays                 a member lives through the loss of its connections
#                         without joining anew; 'reload': but not through a
#                         broker that is away
#   timeout               seconds for a rebalance (default 60)
sub scenario {
    my (%o) = @_;

    my $nginx = nginx();
    my $c = $nginx->client;
    my $s = bless { timeout => 60, %o, members => [], nginx => $nginx,
        sent => 0, values => [] };
    my $id = $s->{id} = "$o{name}-$$";
    my @group = (group => "g-$id", topic => $s->{topic} = "group-$id");
    my $t = $s->{timeout};

    $c->create_topic($s->{topic}, $partitions);

    # one, two, one
    $s->produce(20);
    my $m1 = $s->member(@group);
    $s->joined('one member has all partitions', $t + 10, $m1);
    $s->received('one member', 90, $m1);

    my $m2 = $s->member(@group);
    $s->joined('a second one gets half of them', $t + 10, $m1, $m2);
    $s->produce(40);
    $s->received('two members', 90, $m1, $m2);
    $s->commit($_, 'two members') for $m1, $m2;

    ok($s->leave($m2), 'the second one ends');
    $s->joined('the first one has all again', $t, $m1);
    $s->produce(20);
    $s->received('one left', 90, $m1);
    $s->commit($m1, 'one left');

    $s->faults($m1, @group);
    $s->resumes(@group);
    $s->static if $o{static};
    $s->cooperative if $o{cooperative};

    $s->leave($_, kill => 1) for @{ $s->{members} };
}


# Restart, reload, a killed worker: nobody has to join again.
sub faults {
    my ($s, $m1, @group) = @_;

    my $nginx = $s->{nginx};
    my $changes = $m1->{changes};

    ok($nginx->quit, 'the broker ends');
    $nginx->run;
    $s->produce(20);
    $s->received('a restart', 90, $m1);
    $s->commit($m1, 'a restart');
    is($m1->{changes}, $changes, 'a restart: no rebalance')
        if $s->{stays} && $s->{stays} ne 'reload';

    my $m2 = $s->member(@group);
    $s->joined('a restart: another member', $s->{timeout} + 10, $m1, $m2);
    $changes = $m1->{changes} + $m2->{changes};

    $s->produce(10);
    ok(scalar $nginx->reload(gone => 0), 'reload');
    $s->produce(20);
    $s->received('a reload', 90, $m1, $m2);

    for my $n (1 .. 2) {
        $s->produce(10);
        ok($nginx->kill_worker(($nginx->workers)[0]), 'a worker is killed');
        $s->produce(20);
        $s->received("killed worker $n", 90, $m1, $m2);
    }

    is($m1->{changes} + $m2->{changes}, $changes, 'no rebalance meanwhile')
        if $s->{stays};
    ok($s->until(sub { $s->balanced($m1, $m2) }, $s->{timeout}),
        'the group is whole') or $s->show;
    $s->commit($_, 'after faults') for $m1, $m2;
    ok($s->leave($m1), 'one ends');
    $s->joined('the other has all', $s->{timeout}, $m2);
    $s->commit($m2, 'the other');
    ok($s->leave($m2), 'and ends');
}


# A new member begins where the group has committed.
sub resumes {
    my ($s, @group) = @_;

    my $m = $s->member(@group);
    $s->joined('resume: a new member', $s->{timeout} + 10, $m);
    $s->produce(10);
    my %new = map { $_ => 1 } @{ $s->{values} };
    $s->received('resume', 90, $m);
    is(join(' ', sort grep !$new{$_}, keys %{ $m->{seen} }), '',
        'resume: nothing that was committed comes again');
    $s->leave($m);
}


# A static member that dies and comes back has its partitions; nobody else is
# disturbed (KIP-345).
sub static {
    my ($s) = @_;

    my @group = (group => "static-$s->{id}", topic => $s->{topic});

    # One after the other: kafka-python 3.0.12 drops the assignment it has been
    # given when its metadata changes while a poll gives up on SyncGroup, which
    # a leader meets whose first rebalance waits for a second member.
    my $m1 = $s->member(@group, instance => 'one');
    $s->joined('static: one member', $s->{timeout} + 10, $m1);
    my $m2 = $s->member(@group, instance => 'two');
    $s->joined('static: two members', $s->{timeout} + 10, $m1, $m2);

    my ($had, $changes) = ($m1->has, $m2->{changes});
    $s->leave($m1, kill => 1);
    $m1 = $s->member(@group, instance => 'one');
    ok($s->until(sub { @{ $m1->{assigned} } }, $s->{timeout}),
        'static: it comes back') or $s->show;
    is($m1->has, $had, 'static: to what it had');
    $s->{values} = [];
    $s->produce(20);
    $s->received('static', 90, $m1, $m2);
    is($m2->{changes}, $changes, 'static: the other one has not noticed')
        or $s->show;
    $s->leave($_, kill => 1) for $m1, $m2;
}


# Only partitions that move are taken from a member (KIP-429).
sub cooperative {
    my ($s) = @_;

    my @group = (group => "cooperative-$s->{id}", topic => $s->{topic},
        strategy => 'cooperative');
    my $m1 = $s->member(@group);
    $s->joined('cooperative: one member', $s->{timeout} + 10, $m1);
    $m1->{revoked} = [];

    my $m2 = $s->member(@group);
    $s->joined('cooperative: two members', $s->{timeout} + 10, $m1, $m2);
    is(join(',', sort @{ $m1->{revoked} }), $m2->has,
        'cooperative: what one lost the other has, no more') or $s->show;
    $s->{values} = [];
    $s->produce(20);
    $s->received('cooperative', 90, $m1, $m2);
    ok($s->leave($m2), 'cooperative: one ends');
    $m1->{revoked} = [];
    $s->joined('cooperative: the other has all', $s->{timeout}, $m1);
    is("@{ $m1->{revoked} }", '', 'cooperative: it lost nothing meanwhile');
    $s->leave($m1);
}


1;
