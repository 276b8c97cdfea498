package Test::KafkaProgram;

# A program beside a test: lines to its stdin, lines from its stdout.
#
#     my $p = Test::KafkaProgram->start(name => 'app', log => 'app.err',
#         command => [...], on => sub { my ($p, $line) = @_; ... });
#     $p->say('stop');
#     $p->until(sub { $p->ended }, 30);
#
# Lines are read by until(), of all programs that run; they go to `on` and
# to $p->lines.  What goes to stderr goes to the file `log`.

use strict;
use warnings;

use IO::Select;
use POSIX ();
use Time::HiRes qw(time);

my %running;


sub start {
    my ($class, %o) = @_;

    # no other program keeps these open: a pipe's end is an end
    pipe my $in, my $tell or die "pipe: $!";
    pipe my $hear, my $out or die "pipe: $!";

    my $pid = fork // die "fork: $!";

    if (!$pid) {
        open STDIN, '<&', $in;
        open STDOUT, '>&', $out;
        open STDERR, '>>', $o{log};
        close $_ for $tell, $hear;
        { exec @{ $o{command} } }
        POSIX::_exit(127);
    }

    close $_ for $in, $out;
    $tell->autoflush(1);

    my $self = bless { %o, pid => $pid, tell => $tell, hear => $hear,
        text => '', lines => [], owner => $$ }, $class;

    return $running{$pid} = $self;
}


sub name { $_[0]{name} }
sub pid { $_[0]{pid} }
sub lines { @{ $_[0]{lines} } }
sub ended { $_[0]{ended} }


# The exit status of one that has ended.
sub status { $_[0]{status} }


# The first line that matches: what the parentheses took, or 1.
sub said {
    my ($self, $re) = @_;

    for (@{ $self->{lines} }) {
        return $1 // 1 if /$re/;
    }

    return;
}


# To one that may have gone.
sub say {
    my ($self, $line) = @_;

    local $SIG{PIPE} = 'IGNORE';
    print { $self->{tell} } "$line\n";
}


sub kill9 {
    my ($self) = @_;

    kill 'KILL', $self->{pid} unless $self->{ended};
    $self->until(sub { $self->{ended} }, 10) or die "$self->{name} stays\n";
}


sub hear {
    my ($self) = @_;

    my $n = sysread $self->{hear}, $self->{text}, 65536, length $self->{text};

    while ($self->{text} =~ s/^(.*)\n//) {
        my $line = $1;
        push @{ $self->{lines} }, $line;
        $self->{on}->($self, $line) if $self->{on};
    }

    return if $n;

    waitpid $self->{pid}, 0;
    $self->{status} = $?;
    $self->{ended} = 1;
    delete $running{ $self->{pid} };
}


# Reads until it is so, or the time is over: a program's end is its last line.
sub until {
    my ($class, $code, $seconds) = @_;

    my $end = time + $seconds;

    while (1) {
        my $r = $code->();
        return $r if $r || time > $end;

        my %of = map { fileno $_->{hear} => $_ } values %running;
        my $select = IO::Select->new(map $_->{hear}, values %running);
        $_->hear for map $of{ fileno $_ }, $select->can_read(0.05);
        select undef, undef, undef, 0.05 unless %of;
    }
}


END {
    my $rc = $?;

    for (grep { $_->{owner} == $$ } values %running) {
        kill 'KILL', $_->{pid};
        waitpid $_->{pid}, 0;
    }

    $? = $rc;
}


1;
