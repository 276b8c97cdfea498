package Copiers;

# Applications that read, process and write, exactly once: some instances of
# each of several clients.  An instance is a program that is given
#
#     BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL-ID PARTITIONS ONE-OF
#
# writes each "P/N" of INPUT as "a:P/N" to partition P of OUTPUT and as "b:P/N"
# to partition (P + N) mod PARTITIONS, with the offsets in one transaction,
# aborts one of ONE-OF for no reason, does what a good application does about
# errors, ends with its stdin, and prints
#
#     committed N           a transaction of N input records
#     aborted N WHY         ... and the consumer went back to what is committed
#     renewed WHY           both clients had to be closed and made anew
#
#     my $c = Copiers->new(partitions => 6);
#     my ($clients, $why) = $c->prepare;    # who is there, why others are not
#     $c->start($port, $dir);
#     ...
#     $c->kill_one; $c->pause_one; $c->due;   # due: what they have put off
#     $c->end;

use warnings;
use strict;

use Test::KafkaClient qw/ jars venv gobin here tool without /;
use Test::KafkaNginx qw/ wait_for /;
use Test::More;
use Time::HiRes qw/ sleep time /;

use Soak qw/ dice slurp /;

# How an instance of each is run, from what it is given; built when asked for.

my %clients = (
    java => sub { java('clients.xml', 'kafka-clients-4.4') },
    java_old => sub { java('clients-2.8.xml', 'kafka-clients-2.8') },
    librdkafka => sub {
        return (venv('confluent-kafka==2.16.1'), '-B',
            here() . '/python/copier.py');
    },
    franz => sub { gobin('go_txn') . '/copier' },
);

sub java {
    my ($pom, $name) = @_;

    tool('java', 'javac', 'mvn');
    my $jars = jars($pom);
    my $classes = Soak::scratch() . "/$name";
    system('javac', '-cp', $jars, '-d', $classes,
        here() . '/java/Copier.java') == 0
        or die "Copier.java cannot be compiled\n";

    return ('java', '-Xmx96m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC',
        '-Xshare:auto', '-cp', "$classes:$jars", 'Copier');
}

sub new {
    my ($class, %o) = @_;

    return bless { instances => 2, one_of => 15, %o, all => [], later => [],
        command => {}, did => {} }, $class;
}

# The name of the client's output and of its group.

sub output { "out-$_[1]" }
sub group { "group-$_[1]" }
sub input { 'in' }

# Builds what can be built of the clients named, or of all.

sub prepare {
    my ($self, @names) = @_;
    my %why;

    for my $name (@names ? @names : sort keys %clients) {
        my $why = without(sub {
            $self->{command}{$name} = [$clients{$name}->()];
        });
        $why{$name} = $why if defined $why;
    }

    return ([sort keys %{ $self->{command} }], \%why);
}

sub start {
    my ($self, $port, $dir) = @_;

    @$self{qw/ port dir /} = ($port, $dir);

    for my $name (sort keys %{ $self->{command} }) {
        for my $n (1 .. $self->{instances}) {
            my $i = { client => $name, n => $n, life => 0,
                file => "$self->{dir}/$name-$n" };
            push @{ $self->{all} }, $i;
            $self->spawn($i, 0);
        }
    }
}

# A new life for an instance, under its name or as another one.

sub spawn {
    my ($self, $i, $other) = @_;

    $i->{life}++ if $other;
    my @args = ("127.0.0.1:$self->{port}", $self->group($i->{client}),
        $self->input, $self->output($i->{client}),
        "$i->{client}-$i->{n}-$i->{life}", @$self{qw/ partitions one_of /});

    pipe my $in, $i->{stdin} or die "pipe: $!";
    my $pid = fork // die "fork: $!";

    if (!$pid) {
        open STDIN, '<&', $in;
        open STDOUT, '>>', "$i->{file}.out";
        open STDERR, '>>', "$i->{file}.err";
        { exec @{ $self->{command}{ $i->{client} } }, @args }
        require POSIX;
        POSIX::_exit(127);
    }

    $i->{pid} = $pid;
}

sub did { $_[0]{did}{ $_[2]{client} }{ $_[1] }++ }

# One that is neither dead nor held, by chance.

sub any {
    my ($self) = @_;
    my @fit = grep { $_->{pid} && !$_->{held} } @{ $self->{all} };

    return @fit ? $fit[dice(scalar @fit)] : undef;
}

# kill -9; it comes back at once, or after its session or its transaction has
# ended without it, and sometimes as another producer, so that nobody but the
# coordinator ends what it has begun.

sub kill_one {
    my ($self, $i) = @_;

    $i ||= $self->any or return;
    $self->did('killed', $i);
    kill 'KILL', $i->{pid};
    waitpid delete $i->{pid}, 0;
    close delete $i->{stdin};

    my $wait = dice(2) ? 0 : dice(12);
    push @{ $self->{later} }, [time + $wait,
        sub { $self->spawn($i, $wait > 4 || !dice(3)) }];
}

# Held for longer than its session lasts: a zombie, when it goes on.

sub pause_one {
    my ($self, $i) = @_;

    $i ||= $self->any or return;
    $self->did('held', $i);
    kill 'STOP', $i->{pid};
    $i->{held} = 1;
    push @{ $self->{later} }, [time + 6.5 + dice(30) / 10, sub {
        kill 'CONT', $i->{pid};
        $i->{held} = 0;
    }];
}

# Does what is to be done by now, or all of it.

sub due {
    my ($self, $all) = @_;
    my @later = @{ $self->{later} };

    $self->{later} = [];

    for my $l (@later) {
        if ($all || $l->[0] <= time) {
            $l->[1]->();
        } else {
            push @{ $self->{later} }, $l;
        }
    }
}

# Instances that have ended by themselves.

sub dead {
    my ($self) = @_;

    return map {
        my $i = $_;
        $i->{pid} && waitpid($i->{pid}, 1) > 0
            ? do { delete $i->{pid}; "$i->{client}-$i->{n}" } : ();
    } @{ $self->{all} };
}

# Asks all of them to end; names those that do not.

sub end {
    my ($self, $seconds) = @_;

    $self->due(1);
    close delete $_->{stdin} for grep $_->{stdin}, @{ $self->{all} };

    wait_for(sub {
        $self->dead;
        return !grep $_->{pid}, @{ $self->{all} };
    }, $seconds // 90);

    my @left = grep $_->{pid}, @{ $self->{all} };
    $self->DESTROY;

    return map "$_->{client}-$_->{n}", @left;
}

# What the instances of a client have said: transactions, records, aborts.

sub stats {
    my ($self, $client) = @_;
    my %s = (committed => 0, records => 0, aborted => 0, renewed => 0,
        killed => 0, held => 0, %{ $self->{did}{$client} || {} });

    for my $i (grep { $_->{client} eq $client } @{ $self->{all} }) {
        for (split /\n/, slurp("$i->{file}.out") // '') {
            if (/^committed (\d+)/) {
                $s{committed}++;
                $s{records} += $1;
            } elsif (/^(aborted|renewed)/) {
                $s{$1}++;
            }
        }
    }

    return \%s;
}

# The last that the instances of a client have said that was not "committed".

sub complaints {
    my ($self, $client, $n) = @_;
    my @out;

    for my $i (grep { $_->{client} eq $client } @{ $self->{all} }) {
        my @lines = grep !/^committed/, split /\n/,
            slurp("$i->{file}.out") // '';
        push @lines, split /\n/, slurp("$i->{file}.err") // '';
        push @out, map "$client-$i->{n}: $_",
            @lines > $n ? @lines[-$n .. -1] : @lines;
    }

    return @out;
}

sub DESTROY {
    my ($self) = @_;

    local ($?, $@, $!);
    for my $i (grep $_->{pid}, @{ $self->{all} }) {
        kill 'KILL', $i->{pid};
        waitpid delete $i->{pid}, 0;
    }
}

1;
