package Soak;

# For the soak and power-cut tests: builds their tools, makes chances, and
# nginx, talks to the load program.
#
#     my $load = Soak->load(port => $port, seed => 1);
#     $load->tell('setup'); ...  is($load->tell('check'), 'ok');

use warnings;
use strict;

use Exporter qw/ import /;
use Cwd qw/ abs_path /;
use Fcntl qw/ :flock /;
use File::Basename qw/ dirname /;
use File::Path qw/ make_path /;
use File::Temp;
use IPC::Open2;

our @EXPORT_OK = qw/ tools scratch slurp top dice /;

my $top = abs_path(dirname(__FILE__) . '/../..');

# The source tree.

sub top { $top }

# Builds the tools named, by one test at a time, and answers where they are.

sub tools {
    my @names = @_;
    my $b = $ENV{TEST_BUILD} || "$top/build";

    make_path("$b/t/soak");
    open my $lock, '>', "$b/t/soak/lock" or die "$b/t/soak/lock: $!";
    flock $lock, LOCK_EX;

    system('make', '-s', '-C', $top, '-f', 't/soak/tools.mk', "B=$b",
        map { "$b/t/soak/$_" } @names) == 0
        or die "cannot build @names\n";

    return "$b/t/soak";
}

# A directory in memory that goes when the test ends (TEST_NGINX_LEAVE=1 keeps it).

sub scratch {
    my $parent = -d '/dev/shm' && -w _ ? '/dev/shm' : '/tmp';
    my $leave = $ENV{TEST_NGINX_LEAVE};

    my $dir = File::Temp->newdir('kafka-soak-XXXXXX', DIR => $parent,
        CLEANUP => !$leave);
    $leave and print "# left: $dir\n";

    our @keep;
    push @keep, $dir;

    return "$dir";
}

sub slurp {
    my ($file) = @_;

    open my $fh, '<', $file or return undef;
    binmode $fh;
    local $/;
    my $s = <$fh>;

    return defined $s ? $s : '';
}

# A chance that depends on the seed only: a number below n.

my $state = 1;

sub dice {
    my ($n, $seed) = @_;

    $state = ($seed * 2654435761 + 12345) % 2**32 if defined $seed;
    $state = ($state * 1103515245 + 12345) % 2**31;

    return $n ? int($state / 65536) % $n : 0;
}

###############################################################################

# The load program.

sub load {
    my ($class, %o) = @_;

    my $self = bless { faults => [], stalls => [] }, $class;
    my $dir = tools('load');

    $self->{pid} = open2($self->{out}, $self->{in}, "$dir/load", $o{port},
        $o{seed}, $o{rate} || 50);
    $self->{in}->autoflush(1);

    return $self;
}

# One command; its answer without the "= ".

sub tell {
    my ($self, $command) = @_;

    local $SIG{PIPE} = 'IGNORE';
    $self->{in}->print("$command\n");

    my $out = $self->{out};

    while (my $line = <$out>) {
        chomp $line;
        return $1 if $line =~ /^= (.*)/;
        push @{ $self->{faults} }, $1 if $line =~ /^FAULT (.*)/;
        push @{ $self->{stalls} }, $1 if $line =~ /^STALL (.*)/;
    }

    push @{ $self->{faults} }, 'the load program ended';

    return 'dead';
}

# Faults since the last call.

sub faults {
    my ($self) = @_;
    my @faults = @{ $self->{faults} };

    $self->{faults} = [];

    return @faults;
}

sub stalls { @{ $_[0]{stalls} } }

sub stats {
    my ($self) = @_;

    return { $self->tell('stats') =~ /(\w+)=(\d+)/g };
}

sub quit {
    my ($self) = @_;

    $self->{pid} or return;
    local ($?, $SIG{PIPE}) = (0, 'IGNORE');
    $self->{in}->print("quit\n");
    close $self->{in};
    my $out = $self->{out};
    1 while <$out>;
    waitpid $self->{pid}, 0;
    $self->{pid} = 0;
}

sub DESTROY {
    my ($self) = @_;

    local ($?, $@, $!);
    if ($self->{pid}) {
        kill 'KILL', $self->{pid};
        waitpid $self->{pid}, 0;
    }
}

1;
