package Feeder;

# A process that fills a topic: "P/0", "P/1", ... in each partition P, exactly
# once, by one idempotent producer that sends a batch until it is acknowledged.
#
#     my $f = Feeder->new(port => $port, topic => 'in', partitions => 6,
#         rate => 100);
#     my $counts = $f->end;          # records in each partition

use warnings;
use strict;

use POSIX ();
use Time::HiRes qw/ sleep time /;

use Kafka::Batch;
use Kafka::Wire;

sub new {
    my ($class, %o) = @_;

    my $self = bless { %o }, $class;
    pipe $self->{out}, my $out or die "pipe: $!";
    $self->{pid} = fork // die "fork: $!";

    if (!$self->{pid}) {
        close $self->{out};
        my $counts = eval { $self->feed };
        print $out $counts ? "counts @$counts\n" : "feeder: $@";
        close $out;
        POSIX::_exit(0);
    }

    return $self;
}

sub end {
    my ($self) = @_;

    kill 'TERM', $self->{pid};
    my $out = $self->{out};
    my $line = <$out> // '';
    waitpid delete $self->{pid}, 0;
    $line =~ s/^counts // or die $line;

    return [split ' ', $line];
}

sub DESTROY {
    my ($self) = @_;

    local ($?, $@, $!);
    if ($self->{pid}) {
        kill 'KILL', $self->{pid};
        waitpid $self->{pid}, 0;
    }
}

# In the process.

sub feed {
    my ($self) = @_;
    my $end = 0;
    my @counts = (0) x $self->{partitions};
    my ($total, $began) = (0, time);

    local $SIG{TERM} = sub { $end = 1 };
    my $id = $self->insist(sub { $_[0]->init_producer })->{ProducerId};

    while (!$end) {
        my $p = int rand @counts;
        my $n = 1 + int rand 5;
        my $batch = batch(producer_id => $id, producer_epoch => 0,
            sequence => $counts[$p],
            records => [map [$p, "$p/$_"], $counts[$p] .. $counts[$p] + $n - 1]);

        $self->insist(sub { $_[0]->produce($self->{topic}, $p, $batch) });
        $counts[$p] += $n;
        $total += $n;

        # Not faster to make up for a time in which nothing went.
        my $ahead = $began + $total / $self->{rate} - time;
        $began -= $ahead + 0.5 if $ahead < -0.5;
        sleep $ahead if $ahead > 0;
    }

    return \@counts;
}

# Until the broker has said yes.

sub insist {
    my ($self, $code) = @_;
    my %retriable = map { $_ => 1 } 6, 7, 14, 15, 16, 56;

    while (1) {
        my $r = eval {
            $self->{client} ||= Kafka::Wire->new(port => $self->{port},
                timeout => 10);
            $code->($self->{client});
        };

        return $r if $r && !$r->{ErrorCode};
        die "error $r->{ErrorCode}\n" if $r && !$retriable{ $r->{ErrorCode} };

        delete $self->{client};
        sleep 0.05;
    }
}

1;
