package Test::KafkaNginx;

# An nginx with our module for one test: its own directory, its own ports.
#
#     my $t = Test::KafkaNginx->new(workers => 2,
#         config => { 'num.partitions' => 3 })->run;
#     my $c = $t->client;
#     ...
#     $t->done;          # stops it, runs the hidden checks, ends the plan
#
# The hidden checks: no [alert] and no [emerg] in error.log but those that the
# test announced, no sanitizer's report, no process left, the port free again.

use strict;
use warnings;

use Cwd qw(abs_path);
use Fcntl qw(:flock);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Wire;

use Exporter 'import';
our @EXPORT_OK = qw(wait_for children);

my ($top) = abs_path(__FILE__) =~ m{^(.*)/t/lib/Test/} or die;
my @live;

# A test that is ended from outside (timeout, ^C) takes its nginx along.
for my $name (qw(TERM INT HUP)) {
    $SIG{$name} ||= sub { exit 130 };
}


sub new {
    my ($class, %o) = @_;

    return Test::KafkaNginx::Foreign->new(%o) if $ENV{TEST_KAFKA_PORT};

    my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
    my $build = $ENV{TEST_BUILD} || "$top/build";
    my $module = $ENV{TEST_NGINX_MODULE}
        || "$build/ngx_stream_kafka_module.so";

    plan(skip_all => "no nginx at $nginx") unless -x $nginx;
    plan(skip_all => "no module at $module; run make") unless -e $module;

    my $self = bless {
        workers => 2, config => {}, broker => '', server => '', stream => '',
        main => '', http => '', zone => '16m', %o,
        nginx => $nginx, module => abs_path($module), build => $build,
        top => $top, owner => $$, allowed => [], killed => {}, ports => {},
        locks => [],
    }, $class;

    $self->{dir} = tempdir('kafka-nginx-XXXXXX', TMPDIR => 1);
    chmod 0755, $self->{dir};
    $self->shim_sync if $self->{slow_disk};
    $self->{version} = qx($nginx -V 2>&1);

    push @live, $self;

    return $self;
}


sub foreign { 0 }
sub dir { $_[0]{dir} }
sub data { $_[0]{dir} . '/data' }
sub top { $_[0]{top} }


# Whether this nginx was configured with something.
sub has { $_[0]{version} =~ /\Q$_[1]\E/ }


# ---- configuration

# A free port for a number of the test's own; the same one each time.
sub port {
    my ($self, $n) = @_;

    return $self->{ports}{ $n // 0 } ||= $self->reserve;
}


# A lock on a file makes the choice safe under prove -j.
sub reserve {
    my ($self) = @_;

    my $dir = '/tmp/kafka-nginx-ports';
    mkdir $dir, 01777;
    chmod 01777, $dir;

    for (1 .. 2000) {
        my $port = 20000 + int rand 10000;

        open my $f, '>', "$dir/$port" or next;
        flock $f, LOCK_EX | LOCK_NB or next;

        IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 1,
            ReuseAddr => 1) or next;

        push @{ $self->{locks} }, $f;
        return $port;
    }

    die "no free port\n";
}


# What every nginx.conf of a test begins with.
sub globals {
    my ($self) = @_;
    my $load = '';

    if ($self->{version} =~ /--with-stream=dynamic/) {
        my ($path) = $self->{version} =~ /--modules-path=(\S+)/;
        $load = "load_module $path/ngx_stream_module.so;\n";
    }

    my $user = $> == 0 ? "user www-data;\n" : '';
    my $level = $ENV{TEST_NGINX_DEBUG} ? 'debug' : 'info';
    my $env = $self->{san} || $ENV{TEST_NGINX_SAN} || $self->{preload}
        ? join '', map "env $_;\n", qw(LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS)
        : '';
    my $more = $ENV{TEST_NGINX_GLOBALS} // '';
    chomp(my $files = qx(sh -c 'ulimit -Hn'));
    $files = 65536 unless $files =~ /^\d+$/ && $files < 65536;

    return <<CONF;
${load}load_module $self->{module};
$user$env${more}worker_processes $self->{workers};
worker_rlimit_nofile $files;
pid $self->{dir}/nginx.pid;
error_log $self->{dir}/error.log $level;
$self->{main}
CONF
}


# A template may use %%GLOBALS%%, %%DIR%%, %%PORT%% and %%PORT_n%%.
sub expand {
    my ($self, $text) = @_;

    $text =~ s/%%GLOBALS%%/$self->globals/ge;
    $text =~ s/%%DIR%%/$self->{dir}/g;
    $text =~ s/%%PORT(?:_(\d+))?%%/$self->port($1 || 0)/ge;

    return $text;
}


# The usual configuration: one broker called main, one server on port 0.
sub conf {
    my ($self) = @_;

    return $self->{conf} if $self->{conf};

    my $lines = join '', map "        config  $_  \"$self->{config}{$_}\";\n",
        sort keys %{ $self->{config} };
    my $name = $self->{name} || 'main';
    my $connections = $self->{connections} || 1024;

    return <<CONF;
%%GLOBALS%%
events {
    worker_connections  $connections;
}

stream {
$self->{stream}
    kafka_broker $name {
        data     %%DIR%%/data;
        zone     $self->{zone};
        node_id  1;
$self->{broker}
$lines    }

    server {
        listen  127.0.0.1:%%PORT%%;
        kafka   $name;
$self->{server}
    }
}
$self->{http}
CONF
}


sub write_conf {
    my ($self) = @_;

    $self->write_file('nginx.conf', $self->expand($self->conf));
}


sub write_file {
    my ($self, $name, $text) = @_;

    my $path = $name =~ m{^/} ? $name : "$self->{dir}/$name";
    open my $f, '>', $path or die "$path: $!";
    print $f $text;
    close $f or die "$path: $!";

    return $path;
}


# ---- life

sub command {
    my ($self, @args) = @_;

    return ($self->{nginx}, '-p', "$self->{dir}/", '-c',
        "$self->{dir}/nginx.conf", '-e', "$self->{dir}/error.log", @args);
}


# Runs nginx with the arguments: (exit code, what it printed).
sub nginx {
    my ($self, @args) = @_;

    my $pid = open my $out, '-|';
    die "fork: $!" unless defined $pid;

    if (!$pid) {
        chdir $self->{dir};
        open STDERR, '>&', \*STDOUT;
        open STDIN, '<', '/dev/null';
        $self->environment;
        exec $self->command(@args) or POSIX::_exit(127);
    }

    my $text = do { local $/; <$out> } // '';
    close $out;

    return ($? >> 8, $text);
}


sub environment {
    my ($self) = @_;

    delete $ENV{MAKEFLAGS};
    $ENV{HELD_SYNC} = $self->{held} if $self->{held};
    my @preload = @{ $self->{preload} || [] };

    if ($ENV{TEST_NGINX_SAN}) {
        for my $lib (qw(libasan.so libubsan.so)) {
            chomp(my $path = qx(gcc -print-file-name=$lib));
            unshift @preload, $path;
        }
        @preload = (reverse(@preload[0, 1]), @preload[2 .. $#preload]);
        $ENV{ASAN_OPTIONS} = "detect_leaks=0:log_path=$self->{dir}/san";
        $ENV{UBSAN_OPTIONS}
            = "print_stacktrace=1:log_path=$self->{dir}/san";
    }

    $ENV{LD_PRELOAD} = join ' ', @preload if @preload;
}


# nginx -t: (exit code, output).
sub check_conf {
    my ($self, $conf) = @_;

    local $self->{conf} = $conf if defined $conf;
    $self->write_conf;

    return $self->nginx('-t');
}


# slow_disk => 1: no flush ends between hold_sync() and release_sync().
sub shim_sync {
    my ($self) = @_;
    my $shim = "$self->{build}/t/shim/held_sync.so";

    system('make', '-s', '-C', $top, "B=$self->{build}", $shim) == 0
        or die "cannot build $shim\n";

    # Workers leave a mark beside it, and may be another user's.
    mkdir "$self->{dir}/held";
    chmod 0777, "$self->{dir}/held";
    $self->{held} = "$self->{dir}/held/sync";
    push @{ $self->{preload} }, $shim;
}


sub hold_sync { $_[0]->write_file($_[0]{held}, '') }
sub release_sync { unlink $_[0]{held}, glob "$_[0]{held}.*" }


# Whether a process waits for the disk.
sub held_in_sync { -e "$_[0]{held}.$_[1]" }


# How large the journal is once it does not grow any more, and is larger than
# that.
sub journal_rests {
    my ($self, $than) = @_;
    my $size = -1;

    wait_for(sub {
        my $was = $size;

        sleep 0.5;
        $size = 0;
        $size += -s for glob $self->data . '/@journal-0/*.log';

        return $size == $was && $size > ($than // -1);
    }, 60);

    return $size;
}


# Starts, and waits until the broker answers (ready => 0 does not).  Here and
# below, the seconds of a wait only say when to give up: on any machine.
sub run {
    my ($self, %o) = @_;

    $self->write_conf unless $o{keep_conf};
    unlink "$self->{dir}/nginx.pid";

    # A background nginx must not hold prove's pipe.
    my $pid = fork // die "fork: $!";

    if (!$pid) {
        chdir $self->{dir};
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$self->{dir}/stdout";
        open STDERR, '>>', "$self->{dir}/stderr";
        $self->environment;
        exec $self->command or do { require POSIX; POSIX::_exit(127) };
    }

    waitpid $pid, 0;
    $self->give_up('nginx did not start') if $?;
    wait_for(sub { $self->master && $self->workers >= $self->{workers} }, 60)
        or $self->give_up('no workers');
    $self->{running} = 1;

    $self->wait_ready unless defined $o{ready} && !$o{ready};

    return $self;
}


sub give_up {
    my ($self, $why) = @_;

    for my $name (qw(stderr error.log)) {
        diag("$name: ", join '', tail("$self->{dir}/$name", 20));
    }
    BAIL_OUT($why) if $ENV{TEST_NGINX_BAIL};
    die "$why\n";
}


sub tail {
    my ($path, $n) = @_;

    open my $f, '<', $path or return ();
    my @lines = <$f>;

    return @lines > $n ? @lines[-$n .. -1] : @lines;
}


# The broker opens its data after nginx listens.
sub wait_ready {
    my ($self, $port, $seconds) = @_;

    $port //= $self->port(0);

    wait_for(sub {
        my $r = eval {
            Kafka::Wire->new(port => $port, timeout => 5)
                ->call('Metadata', 1, { Topics => [] });
        };
        return $r && @{ $r->{Brokers} };
    }, $seconds // 120) or $self->give_up("no broker on port $port");
}


# The file of one that was killed stays, and its number may be somebody else's by
# now.
sub master {
    my ($self) = @_;

    open my $f, '<', "$self->{dir}/nginx.pid" or return 0;
    my $pid = <$f> // '';
    chomp $pid;

    return $pid && $self->owns($pid) ? $pid : 0;
}


# Workers of the master (or of another), oldest first; the cache manager and
# workers that are shutting down only if asked.
sub workers {
    my ($self, %o) = @_;

    return grep {
        my $title = title($_);
        $title =~ /worker process/ && ($o{all} || $title !~ /shutting down/)
    } children($o{of} || $self->master);
}


sub title {
    open my $f, '<', "/proc/$_[0]/cmdline" or return '';
    my $text = <$f> // '';
    $text =~ tr/\0/ /;

    return $text;
}


sub children {
    my ($parent) = @_;
    my @out;

    for my $dir (glob '/proc/[0-9]*') {
        my ($ppid, $state) = stat_of($dir =~ /(\d+)/) or next;
        push @out, $1 if $ppid == $parent && $state ne 'Z' && $dir =~ /(\d+)/;
    }

    return sort { $a <=> $b } @out;
}


sub stat_of {
    open my $f, '<', "/proc/$_[0]/stat" or return;
    my $line = <$f> // return;

    return $line =~ /\) (\S) (\d+)/ ? ($2, $1) : ();
}


# A process whose first thread has ended is a zombie before its other threads
# have, and holds its sockets until then.
sub alive {
    my ($pid) = @_;

    return ((stat_of($pid))[1] // 'Z') ne 'Z'
        || (() = glob "/proc/$pid/task/*") > 1;
}


# Every process that was started in the test's directory.
sub processes {
    my ($self) = @_;

    return grep $self->owns($_), map /(\d+)/, glob '/proc/[0-9]*';
}


sub owns {
    my ($self, $pid) = @_;

    return (readlink("/proc/$pid/cwd") // '') eq $self->{dir} && $pid != $$
        && alive($pid);
}


sub signal {
    my ($self, $name, $pid) = @_;

    return kill $name, $pid // $self->master;
}


# HUP.  Returns the new workers once they are there and, unless gone => 0, the
# old ones have left.  A bad configuration leaves the old workers: then ().
sub reload {
    my ($self, %o) = @_;

    my %old = map { $_ => 1 } $self->workers;
    $self->write_conf unless $o{keep_conf};
    $self->signal('HUP');

    my @new;
    wait_for(sub {
        @new = grep !$old{$_}, $self->workers;
        return @new >= $self->{workers} && !grep $old{$_}, $self->workers;
    }, $o{timeout} // 60) or return ();

    if (!defined $o{gone} || $o{gone}) {
        wait_for(sub { !grep kill(0, $_), keys %old }, $o{timeout} // 60)
            or diag('old workers stay: ' . join ' ', grep kill(0, $_),
                keys %old);
    }

    return @new;
}


# USR2: the new master's pid.  The old one goes on; its pid is returned second.
sub upgrade {
    my ($self) = @_;

    my $old = $self->master;
    kill 'USR2', $old;
    wait_for(sub { -e "$self->{dir}/nginx.pid.oldbin" && $self->master
        && $self->master != $old && $self->workers }, 60)
        or $self->give_up('no upgrade');

    return ($self->master, $old);
}


# kill -9, which may leave its line in error.log; waits for its replacement.
sub kill_worker {
    my ($self, $pid, %o) = @_;

    my %old = map { $_ => 1 } $self->workers;
    $self->{killed}{$pid} = 1;
    kill 'KILL', $pid;

    return 1 if $o{no_wait};

    return wait_for(sub {
        my @now = $self->workers;
        return @now >= keys %old && !grep { $_ == $pid } @now;
    }, 60);
}


# kill -9 of everything at once, as a crash of the machine's software would;
# right after the call of what is given.
sub kill_all {
    my ($self, $last) = @_;

    my @all = $self->processes;
    my $master = $self->master;
    $self->{killed}{$_} = 1 for @all;

    # Its sockets may go a moment after it; nginx tries to bind again.
    $self->allow(qr/bind\(\) to \S+ failed \(98: /);

    $last->() if $last;
    kill 'KILL', $master, @all;
    wait_for(sub { !(grep alive($_), $master, @all) && !$self->processes }, 60)
        or die "processes stay\n";
    $self->{running} = 0;
}


sub stop { $_[0]->end('TERM', $_[1]) }
sub quit { $_[0]->end('QUIT', $_[1]) }


sub end {
    my ($self, $how, $seconds) = @_;

    my $master = $self->master or return 1;
    kill $how, $master;
    my $gone = wait_for(sub { !$self->processes }, $seconds // 60);
    $self->{running} = 0 if $gone;

    return $gone;
}


# ---- clients

sub client {
    my ($self, %o) = @_;

    my $worker = delete $o{worker};
    $o{port} //= $self->port(0);

    return Kafka::Wire->new(%o) unless $worker;

    # The other workers are held for a moment, so that this one accepts.
    my $end = time + 60;

    while (time < $end) {
        my $c = Kafka::Wire->new(%o);
        return $c if $self->worker_of($c, 0.3) == $worker;

        my @others = grep { $_ != $worker } $self->workers(all => 1);
        kill 'STOP', @others;
        $c = Kafka::Wire->new(%o);
        my $owner = $self->worker_of($c, 0.3);
        kill 'CONT', @others;

        return $c if $owner == $worker;
    }

    die "no connection to worker $worker\n";
}


# The worker that holds the other end of a connection, 0 while none does.
sub worker_of {
    my ($self, $client, $seconds) = @_;

    my $socket = ref $client eq 'Kafka::Wire' ? $client->socket : $client;
    my ($here, $there) = ($socket->sockport, $socket->peerport);
    my $worker = 0;

    wait_for(sub {
        my $inode = inode_of($there, $here) or return 0;

        for my $pid ($self->processes) {
            for my $fd (glob "/proc/$pid/fd/*") {
                next unless (readlink($fd) // '') eq "socket:[$inode]";
                return $worker = $pid;
            }
        }

        return 0;
    }, $seconds // 60);

    return $worker;
}


# The socket whose local and remote ports are these.
sub inode_of {
    my ($local, $remote) = @_;
    my ($l, $r) = map sprintf('%04X', $_), $local, $remote;

    for my $name (qw(tcp tcp6)) {
        open my $f, '<', "/proc/net/$name" or next;

        while (my $line = <$f>) {
            my @w = split ' ', $line;
            return $w[9] if $w[1] =~ /:$l$/ && $w[2] =~ /:$r$/ && $w[9] ne '0';
        }
    }

    return 0;
}


# ---- logs and checks

sub read_file {
    my ($self, $name) = @_;

    open my $f, '<', $name =~ m{^/} ? $name : "$self->{dir}/$name"
        or return '';
    local $/;

    return <$f> // '';
}


sub error_log { $_[0]->read_file('error.log') }


# Lines that this test provokes, and so are no failure.
sub allow {
    my ($self, $re) = @_;

    push @{ $self->{allowed} }, $re;
}


sub bad_lines {
    my ($self) = @_;
    my @bad;

    for (split /\n/, $self->error_log) {
        next unless /\[(?:alert|emerg)\]/;
        next if /process (\d+) exited on signal 9/ && $self->{killed}{$1};
        my $line = $_;
        next if grep $line =~ $_, @{ $self->{allowed} };
        push @bad, $line;
    }

    return @bad;
}


sub done {
    my ($self) = @_;

    $self->hidden_checks;
    done_testing();
}


sub hidden_checks {
    my ($self) = @_;

    ok($self->end('QUIT', 20) || $self->end('TERM', 20), 'nginx stops')
        if $self->{running};

    my @left = $self->processes;
    is("@left", '', 'no process left');
    kill 'KILL', @left if @left;

    my @bad = $self->bad_lines;
    is(scalar @bad, 0, 'no alerts');
    diag($_) for @bad > 10 ? @bad[0 .. 9] : @bad;

    my @reports = ((grep -s, glob "$self->{dir}/san.*"),
        grep /Sanitizer|runtime error:/, split /\n/, $self->error_log
            . $self->read_file('stderr'));
    is(scalar @reports, 0, 'no sanitizer reports');
    for (@reports > 3 ? @reports[0 .. 2] : @reports) {
        diag(m{^/} ? join '', (tail($_, 1000))[0 .. 40] : $_);
    }

    for my $port (values %{ $self->{ports} }) {
        my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port",
            Timeout => 1);
        ok(!$s, "port $port is free");
    }

    $self->{checked} = 1;
}


sub clean {
    my ($self) = @_;

    return if $self->{cleaned}++ || $$ != $self->{owner};

    if (my @left = $self->processes) {
        kill 'KILL', $self->master || (), @left;
    }

    print STDERR $self->error_log if $ENV{TEST_NGINX_CATLOG};

    if ($ENV{TEST_NGINX_LEAVE}) {
        diag("left in $self->{dir}");
    } else {
        system 'umount', '-l', $_
            for map /^\S+ (\Q$self->{dir}\E\S*)/, split /\n/,
                $self->read_file('/proc/mounts');
        remove_tree($self->{dir}, { safe => 0 });
    }
}


sub DESTROY {
    local ($?, $@, $!);
    $_[0]->clean;
}


END {
    my $rc = $?;
    for (grep defined, @live) {
        $_->clean;
    }
    $? = $rc;
}


# ---- small things

# Calls until it is true or the time is over; returns what it returned.
sub wait_for {
    my ($code, $seconds) = @_;

    my $end = time + $seconds;

    while (1) {
        my $r = $code->();
        return $r if $r || time > $end;
        sleep 0.02;
    }
}


# Another broker in our place, to see whether a test asks for what Apache Kafka
# answers: TEST_KAFKA_PORT names its port.  There is no nginx to look at.
package Test::KafkaNginx::Foreign;

our @ISA = ('Test::KafkaNginx');


sub new { bless { foreign => 1, owner => $$, cleaned => 1, killed => {} },
    $_[0] }
sub foreign { 1 }
sub run { $_[0] }
sub port { $ENV{TEST_KAFKA_PORT} }
sub workers { return }                 # none that a test could kill: not 0
sub worker_of { 0 }
sub client { my ($self, %o) = @_; delete $o{worker};
    return Kafka::Wire->new(port => $self->port, %o) }
sub done { Test::More::done_testing() }


1;
