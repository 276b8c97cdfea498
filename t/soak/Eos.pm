package Eos;

# Read-process-write under chaos: a broker, a process that fills the input,
# applications of several clients, and what looks at their outputs.
#
#     my $e = Eos->new(clients => ['java']);    # skips the test if none can be
#     $e->start;
#     $e->strike while time < $end && !$e->faults;
#     $e->finish;                               # all inputs are to be through
#     is(join("\n", $e->faults), '');

use warnings;
use strict;

use Test::KafkaNginx qw/ wait_for /;
use Test::More;
use Time::HiRes qw/ sleep time /;

use Chaos;
use Copiers;
use Exact;
use Feeder;
use Soak qw/ dice /;

# clients: names, all by default; partitions; rate, records in a second; one_of,
# of how many transactions one is aborted; module, another one

sub new {
    my ($class, %o) = @_;

    my $self = bless { partitions => 6, rate => 40, faults => [], inputs => 0,
        look => 0, %o }, $class;
    my $c = $self->{copiers} = Copiers->new(
        map { $_ => $self->{$_} } grep $self->{$_}, qw/ partitions one_of /);

    @$self{qw/ clients absent /} = $c->prepare(@{ $o{clients} || [] });
    @{ $self->{clients} } or plan(skip_all => join '; ',
        map "$_: $self->{absent}{$_}", sort keys %{ $self->{absent} });

    local $ENV{TEST_NGINX_MODULE} = $o{module} || $ENV{TEST_NGINX_MODULE};
    delete $ENV{TEST_NGINX_MODULE} unless $ENV{TEST_NGINX_MODULE};

    # A producer that is gone is to be noticed soon.
    $self->{t} = Test::KafkaNginx->new(workers => 4, config => {
        'transaction.abort.timed.out.transaction.cleanup.interval.ms' => 1000,
        });

    return $self;
}

sub nginx { $_[0]{t} }
sub clients { @{ $_[0]{clients} } }
sub absent { $_[0]{absent} }
sub inputs { $_[0]{inputs} }
sub told { $_[0]{chaos}->told }
sub stats { $_[0]{copiers}->stats($_[1]) }
sub aborted { $_[0]{exact}{ $_[1] }->aborted }

# Until each client has committed something.

sub start {
    my ($self) = @_;
    my ($t, $c, $n) = @$self{qw/ t copiers partitions /};

    $t->run;
    $t->client->create_topic($c->input, $n);
    $t->client->create_topic($c->output($_), $n) for $self->clients;

    $self->{feeder} = Feeder->new(port => $t->port, topic => $c->input,
        partitions => $n, rate => $self->{rate});
    $c->start($t->port, $t->dir);

    $self->{exact}{$_} = Exact->new(topic => $c->output($_), partitions => $n)
        for $self->clients;
    $self->{chaos} = Chaos->new($t,
        [2, 'instance killed', sub { $c->kill_one }],
        [1, 'instance held', sub { $c->pause_one }]);

    # Those who start late would miss what is to come.
    wait_for(sub { !grep !$c->stats($_)->{committed}, $self->clients }, 180)
        or $self->fault('some client does nothing');
}

# One of the things that happen, and a look at what has come out, now and then.

sub strike {
    my ($self) = @_;

    sleep((200 + dice(1800)) / 1000);
    $self->{chaos}->strike;
    $self->{copiers}->due;
    $self->fault("$_ has ended") for $self->{copiers}->dead;

    return if time < $self->{look};
    $self->{look} = time + 10;
    $self->look($_) for values %{ $self->{exact} };
}

# Clients that have not committed more than that, or of which nobody has seen an
# aborted transaction.

sub missing {
    my ($self, $least) = @_;

    return grep { $self->stats($_)->{committed} <= $least
        || !$self->aborted($_) } $self->clients;
}

# The end: everything goes through, and nothing is left.

sub finish {
    my ($self) = @_;
    my $c = $self->{copiers};

    $self->{chaos}->calm;
    $c->due(1);
    my $counts = $self->{feeder}->end;
    $self->{inputs} += $_ for @$counts;

    for my $name ($self->clients) {
        my $at;

        wait_for(sub {
            ($at = $self->offsets($c->group($name))) eq "@$counts"
        }, 180) or $self->fault("$name: $at is committed, of @$counts",
            $c->complaints($name, 8));
    }

    $self->fault("$_ does not end") for $c->end;

    my $in = Exact->new(topic => $c->input, input => 1,
        partitions => $self->{partitions});
    $self->look($in);
    $in->complete($counts);
    $self->fault($in->faults) if $in->faults;

    # What a killed instance has begun is aborted in time.
    my $open = '';
    wait_for(sub { ($open = $self->open) eq '' }, 90)
        or $self->fault("open: $open");

    for my $name ($self->clients) {
        my $x = $self->{exact}{$name};
        $self->look($x);
        $x->complete($counts);

        my $again = $x->again;
        $self->look($again);
        $self->fault("$name: what had been read has changed")
            if $again->digest ne $x->digest;
        $self->{exact}{$name} = $again unless $x->faults;
        $self->unstable($c->output($name));
    }
}

sub fault {
    my ($self, @lines) = @_;

    push @{ $self->{faults} }, @lines;
}

sub faults {
    my ($self) = @_;

    return (@{ $self->{faults} },
        map $_->faults, values %{ $self->{exact} || {} });
}

# Reads on.

sub look {
    my ($self, $x) = @_;

    wait_for(sub {
        eval { $x->advance($self->{t}->client); 1 };
    }, 60) or $self->fault("$x->{topic} cannot be read: $@");
}

# Calls with a new connection each time until there is an answer.

sub ask {
    my ($self, @call) = @_;
    my $r;

    wait_for(sub { $r = eval { $self->{t}->client->call(@call) } }, 20);

    return $r || {};
}

# A group's committed offsets, as a consumer of it would ask for them.

sub offsets {
    my ($self, $group) = @_;
    my $r = $self->ask('OffsetFetch', 7, { GroupId => $group,
        RequireStable => 1, Topics => [{ Name => $self->{copiers}->input,
            PartitionIndexes => [0 .. $self->{partitions} - 1] }] });

    return join ' ', map { $_->{ErrorCode} ? "error $_->{ErrorCode}"
        : $_->{CommittedOffset} }
        sort { $a->{PartitionIndex} <=> $b->{PartitionIndex} }
        @{ ($r->{Topics} || [])->[0]{Partitions} || [] };
}

# Transactions that are under way.

sub open {
    my ($self) = @_;
    my $r = $self->ask('ListTransactions', 0, {
        StateFilters => [qw/ Ongoing PrepareCommit PrepareAbort /] });

    return join ' ', map "$_->{TransactionalId} ($_->{TransactionState})",
        @{ $r->{TransactionStates} || [] };
}

# Partitions whose last stable offset is not their end, or that have a producer
# with something open.

sub unstable {
    my ($self, $topic) = @_;
    my @all = (0 .. $self->{partitions} - 1);

    my $r = $self->ask('DescribeProducers', 0, { Topics => [{ Name => $topic,
        PartitionIndexes => [@all] }] });
    my @partitions = @{ ($r->{Topics} || [])->[0]{Partitions} || [] };
    $self->fault("$topic: no producers are told") if @partitions != @all;

    for my $p (@partitions) {
        $self->fault(map "$topic-$p->{PartitionIndex}: producer "
            . "$_->{ProducerId} is open", grep $_->{CurrentTxnStartOffset} >= 0,
            @{ $p->{ActiveProducers} });
    }

    for my $p (@all) {
        my ($all, $stable) = map $self->{t}->client->list_offset($topic, $p,
            -1, isolation => $_)->{Offset}, 0, 1;
        $self->fault("$topic-$p: stable to $stable of $all")
            if $all != $stable;
    }
}

1;
