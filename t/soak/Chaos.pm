package Chaos;

# What befalls nginx in the soak tests, one thing at a time, by chance.
#
#     my $chaos = Chaos->new($t, [1, 'a client killed', sub { ... }]);
#     $chaos->strike;        # one of them
#     $chaos->strike('reload');
#     $chaos->calm;          # all workers are there again
#     diag($chaos->told);    # 2 a client killed, 5 reload, ...

use warnings;
use strict;

use Soak qw/ dice /;
use Test::KafkaNginx qw/ wait_for /;
use Test::More;
use Time::HiRes qw/ sleep /;

# What can happen; weight, name, what to do.

my @events = (
    [8, 'worker killed', sub {
        my ($t) = @_;
        my @w = $t->workers or return;
        $t->kill_worker($w[dice(scalar @w)], no_wait => dice(2))
    }],
    [1, 'all workers killed', sub {
        my ($t) = @_;
        $t->kill_worker($_, no_wait => 1) for $t->workers;
    }],
    [4, 'reload', sub {
        my ($t) = @_;
        $t->{workers} = 2 + dice(4);
        $t->write_conf;
        $t->signal('HUP');
        sleep dice(300) / 1000;
    }],
    [2, 'everything killed', sub {
        my ($t) = @_;
        $t->kill_all;
        sleep dice(500) / 1000;
        $t->run;
    }],
    [1, 'graceful stop', sub {
        my ($t) = @_;
        $t->quit(60) or fail('it stops');
        $t->run;
    }],
    [1, 'fast stop', sub {
        my ($t) = @_;
        $t->stop(60) or fail('it stops');
        $t->run;
    }],
);

# The test may add events of its own.

sub new {
    my ($class, $t, @more) = @_;

    my $self = bless { t => $t, events => [@events, @more], total => 0,
        did => {} }, $class;
    $self->{total} += $_->[0] for @{ $self->{events} };

    # A process that was killed may let its sockets go a moment after it is
    # gone from /proc; nginx tries to bind again.
    $t->allow(qr/bind\(\) to \S+ failed \(98: /);

    return $self;
}

sub strike {
    my ($self, $name) = @_;
    my $n = dice($self->{total});

    for my $e (@{ $self->{events} }) {
        next if defined $name ? $e->[1] ne $name : ($n -= $e->[0]) >= 0;
        $self->{did}{$e->[1]}++;
        $e->[2]->($self->{t});
        return $e->[1];
    }
}

sub calm {
    my ($self) = @_;
    my $t = $self->{t};

    return wait_for(sub { $t->workers >= $t->{workers} }, 60);
}

sub told {
    my ($self) = @_;
    my $did = $self->{did};

    return join ', ', map "$did->{$_} $_", sort keys %$did;
}

1;
