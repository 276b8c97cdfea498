package Test::KafkaFault;

# A broker whose module has its fault points compiled in (ngx_kafka_fault.c).
#
#     my $t = Test::KafkaFault->new(workers => 3)->run;
#     $t->arm('coord-locked');          # the first one there is killed
#     $t->arm('log.fdatasync=5');       # EIO until disarm()
#     ok($t->reached, ...);             # a kill took place
#     $t->arm('txn-prepared?');         # who comes there waits: $t->held

use strict;
use warnings;

use Cwd qw(abs_path);
use Test::More;

use Test::KafkaNginx qw(wait_for);

our @ISA = ('Test::KafkaNginx');

my ($top) = abs_path(__FILE__) =~ m{^(.*)/t/lib/Test/} or die;


sub new {
    my ($class, %o) = @_;

    my $build = ($ENV{TEST_BUILD} || "$top/build") . '/faults';

    {
        local $ENV{CC} = $ENV{CC} || 'gcc';
        local $ENV{OPT} = '-O2 -g -DNGX_KAFKA_FAULTS=1 -DKL_FAULTS';
        local $ENV{MAKEFLAGS};
        delete $ENV{MAKEFLAGS};

        # Two tests that come here at once: one builds, one waits.
        system 'mkdir', '-p', $build;
        my $out = qx(flock "$build/lock" "$top/tools/module" "$build" 2>&1);
        plan(skip_all => "no module with fault points: $out") if $?;
    }

    local $ENV{TEST_NGINX_MODULE} = "$build/ngx_stream_kafka_module.so";
    local $ENV{TEST_KAFKA_PORT};
    delete $ENV{TEST_KAFKA_PORT};

    my $self = $class->SUPER::new(%o);

    # Workers take the file away, and may be another user's.
    $self->{points} = $self->dir . '/points';
    mkdir $self->{points};
    chmod 0777, $self->{points};

    $ENV{NGX_KAFKA_FAULT} = "$self->{points}/fault";

    return $self;
}


sub arm {
    my ($self, @lines) = @_;

    # of one who came to the last point when that was disarmed
    unlink "$self->{points}/fault.held" unless $self->armed;

    my $new = "$self->{points}/new";
    $self->write_file($new, join '', map "$_\n", @lines);
    rename $new, "$self->{points}/fault" or die "arm: $!";
}


sub disarm { unlink map "$_[0]{points}/$_", qw(fault fault.held) }


sub armed { -e "$_[0]{points}/fault" }


sub reached {
    my ($self, $seconds) = @_;

    return wait_for(sub { !$self->armed }, $seconds // 30);
}


# Of a point with "?": the process that waits there, other than those given;
# 0 if none comes.  Who waits must not be let go for a moment when another
# point is armed: arm() the next one over it, without disarm().
sub held {
    my ($self, @but) = @_;
    my $pid = 0;

    wait_for(sub {
        my %but = map { $_ => 1 } @but;
        ($pid) = grep !$but{$_},
            $self->read_file("$self->{points}/fault.held") =~ /^(\d+)$/mg;
        return $pid //= 0;
    }, 60);

    return $pid;
}


# Calls with a new connection each time until the answer is true.  A connection
# may break; an answer that does not come at all makes the call a late one.
sub insist {
    my ($self, $code, $seconds) = @_;

    return wait_for(sub {
        my $r = eval { $code->($self->client(timeout => 20)) };
        $self->{late}++ if $@ =~ /timeout waiting/;
        return defined $r && $r;
    }, $seconds // 60);
}


# How many calls were late since it was last asked.
sub late {
    my ($self) = @_;

    return delete $self->{late} // 0;
}


1;
