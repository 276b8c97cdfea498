package Power;

# One broker whose disk can lose its power.
#
#     my $p = Power->new(seed => 1, break => '*.log');
#     $p->start;  ...  my $lost = $p->cut('strict');  $p->start;
#
# With faults => 1 it has fault points as well: $p->t->arm(...).

use warnings;
use strict;

use File::Path qw/ remove_tree /;
use FindBin;
use Test::More;
use Time::HiRes qw/ sleep /;

use lib "$FindBin::Bin/../soak", "$FindBin::Bin/../lib";

use Scalar::Util qw/ weaken /;
use Soak qw/ tools slurp /;
use Test::KafkaFault;
use Test::KafkaNginx;

my $record_mib = 4096;

sub new {
    my ($class, %o) = @_;

    my $self = bless {
        bin => tools(qw/ rebuild powercut.so /), cuts => 0, lost_bytes => 0,
        lost_names => 0, torn => 0, differences => [], broken => 0, %o,
    }, $class;

    # The record has all that was written, and a run syncs nothing for real.
    local $ENV{TMPDIR} = '/dev/shm' if -d '/dev/shm' && -w _;

    # Sessions of the load's members are short.
    my $nginx = $o{faults} ? 'Power::Faults' : 'Power::Nginx';
    $self->{t} = $nginx->new(workers => $o{workers} || 3,
        config => { 'group.min.session.timeout.ms' => 1000,
            %{ $o{config} || {} } }, preload => ["$self->{bin}/powercut.so"]);
    weaken($self->{t}{power} = $self);
    $self->{data} = $self->{t}->data;

    # Sockets of a killed process may outlive it a moment; nginx tries again.
    $self->{t}->allow(qr/bind\(\) to \S+ failed \(98: /);

    mkdir $self->{data} or die;
    $self->own;

    return $self;
}

sub t { $_[0]{t} }
sub port { $_[0]{t}->port }

# Workers run under their own user.

sub own {
    my ($self) = @_;

    $> == 0 and system('chown', '-R', 'www-data', $self->{data});
}

sub rebuild {
    my ($self, @args) = @_;

    open my $out, '-|', "$self->{bin}/rebuild", @args or die;
    local $/;
    my $text = <$out> // '';
    close $out;
    $self->{rc} = $? >> 8;

    return $text;
}

# A new record, and nginx on the directory as it is.

sub start {
    my ($self, %o) = @_;
    my $dir = $self->{t}->dir;

    @$self{qw/ log base /} = ("$dir/record", "$dir/base");
    remove_tree($self->{base});
    unlink $self->{log};
    $self->rebuild('init', $self->{data}, $self->{log}, $self->{base},
        $record_mib);
    die "no record\n" if $self->{rc};

    $self->{t}->run(%o);
}

# Everything is killed and starts again; the power stays on.

sub restart {
    my ($self, %o) = @_;

    $self->{t}->kill_all;
    $self->{t}->run(%o);
}

# The power goes: all processes die at once, then the disk is what it is.

sub cut {
    my ($self, $mode, $seed, %o) = @_;

    $o{quit} ? $self->{t}->quit : $self->{t}->kill_all;

    # What was recorded must be what was done, or the rest proves nothing.
    my $text = $self->rebuild('check', $self->{log}, $self->{base},
        $self->{data});
    push @{ $self->{differences} }, $text if $self->{rc};

    my ($broken) = $self->rebuild('broken', $self->{log}) =~ /broken=(\d+)/;
    $self->{broken} += $broken;

    my $out = $self->{t}->dir . '/after';
    remove_tree($out);
    $text = $self->rebuild('make', $self->{log}, $self->{base}, $out, $mode,
        $seed);
    die "no disk after the cut: $text\n" if $self->{rc};

    my %lost = $text =~ /(\w+)=(\d+)/g;
    $self->{$_} += $lost{$_} for qw/ lost_bytes lost_names torn /;
    $self->{cuts}++;

    if ($ENV{TEST_NGINX_LEAVE}) {
        my $kept = $self->{t}->dir . "/cut$self->{cuts}";
        rename $self->{data}, "$kept-before";
        rename $self->{log}, "$kept-record";
        rename $self->{base}, "$kept-base";
        system('cp', '-a', $out, "$kept-after");

    } else {
        remove_tree($self->{data});
    }

    rename $out, $self->{data} or die "rename: $!";
    $self->own;

    return \%lost;
}

# Whoever starts it, it is recorded.  delay: of a sync, microseconds.

package Power::Nginx;

our @ISA = ('Test::KafkaNginx');

sub run {
    my ($self, %o) = @_;
    my $p = $self->{power};
    my $delay = delete $o{delay};

    local %ENV = (%ENV, POWERCUT_ROOT => $p->{data}, POWERCUT_LOG => $p->{log},
        POWERCUT_NOSYNC => 1, POWERCUT_DELAY_US => $delay // 3000);
    $ENV{POWERCUT_BREAK} = $p->{break} if $p->{break};

    return $self->SUPER::run(%o);
}

package Power::Faults;

use mro 'c3';

our @ISA = ('Power::Nginx', 'Test::KafkaFault');

1;
