package Test::KafkaClient;

# What the tests of t/client share: a broker with four workers (or, to try a
# test on another broker, the one that TEST_BOOTSTRAP names), a cache for what
# package registries serve, and programs that print TAP.

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::MD5 qw(md5_hex);
use Fcntl qw(:flock);
use File::Path qw(make_path);
use Test::More;

use Test::KafkaNginx;

use Exporter 'import';
our @EXPORT = qw(broker bootstrap nginx finish tool cache cached here jars venv
    gobin java without run_tap output kafka);

my ($here) = abs_path(__FILE__) =~ m{^(.*/t)/lib/Test/} or die;
my $nginx;
our $skip = sub { plan(skip_all => $_[0]) };


sub here { "$here/client" }


# Starts the broker; its bootstrap address.
sub broker {
    my (%o) = @_;

    if (!$ENV{TEST_BOOTSTRAP}) {
        $nginx = Test::KafkaNginx->new(workers => 4,
            config => { 'num.partitions' => 4 }, %o)->run;
    }

    return bootstrap();
}


sub bootstrap {
    return $ENV{TEST_BOOTSTRAP} || '127.0.0.1:' . $nginx->port(0);
}


# The broker's nginx; a test that does things to it needs one of its own.
sub nginx {
    return $nginx || plan(skip_all => 'not for another broker');
}


sub finish {
    return $nginx ? $nginx->done : done_testing();
}


# Skips the whole test unless the tools are there.
sub tool {
    for my $name (@_) {
        $skip->("no $name")
            unless grep -x "$_/$name", split /:/, $ENV{PATH};
    }
}


sub cache {
    my $dir = $ENV{TEST_CACHE}
        || ($ENV{XDG_CACHE_HOME} || "$ENV{HOME}/.cache") . '/kafka-nginx-tests';
    make_path($dir);

    return $dir;
}


# A folder of the cache, made once by the code (0 is failure, which skips), by
# one test at a time.
sub cached {
    my ($key, $what, $code) = @_;

    my $dir = cache() . "/$key";
    open my $lock, '>', "$dir.lock" or die "$dir.lock: $!";
    flock $lock, LOCK_EX;

    if (!-e "$dir/.done") {
        make_path($dir);
        $code->($dir) or $skip->("$what can't be had here");
        open my $f, '>', "$dir/.done" or die "$dir: $!";
    }

    return $dir;
}


# The class path of a pom's dependencies.
sub jars {
    my ($pom) = @_;

    my $path = here() . "/java/$pom";
    open my $f, '<', $path or die "$path: $!";
    my $sum = substr md5_hex(do { local $/; <$f> }), 0, 8;

    my $dir = cached("jars-$sum", "$pom: Maven's jars", sub {
        my $log = "$_[0].log";
        return system("mvn -q -B -f $path dependency:copy-dependencies"
            . " -DoutputDirectory=$_[0] </dev/null >$log 2>&1") == 0;
    });

    return "$dir/*";
}


# A Java that starts fast and takes little, with this class path.
sub java {
    my ($path) = @_;

    return ('java', '-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC',
        '-cp', $path);
}


# A Python of a virtual environment that has the packages.
sub venv {
    my (@packages) = @_;

    tool('python3');
    my $name = join ' ', @packages;
    my $sum = substr md5_hex($name), 0, 8;

    my $dir = cached("venv-$sum", "Python packages $name", sub {
        my $log = "$_[0].log";
        return system("python3 -m venv $_[0] </dev/null >$log 2>&1"
            . " && $_[0]/bin/pip install -q $name </dev/null >>$log 2>&1") == 0;
    });

    return "$dir/bin/python";
}


# The directory with the programs of a Go module of t/client, built.
sub gobin {
    my ($name) = @_;

    tool('go');
    my $from = here() . "/$name";
    my $sum = Digest::MD5->new;

    for my $path (sort glob "$from/*.* $from/*/*.*") {
        open my $f, '<', $path or die "$path: $!";
        $sum->addfile($f);
    }

    my $dir = cached("$name-" . substr($sum->hexdigest, 0, 8), $name, sub {
        my $log = "$_[0].log";
        return system("cp -R $from/. $_[0] && cd $_[0] && mkdir bin"
            . " && GOFLAGS=-mod=mod go build -o bin ./... </dev/null"
            . " >$log 2>&1") == 0;
    });

    return "$dir/bin";
}


# Why there is no such client, undef if there is: for a test of several, which
# is not to be skipped as a whole.
sub without {
    my ($code) = @_;

    local $skip = sub { die { why => $_[0] } };
    return undef if eval { $code->(); 1 };
    return $@->{why} if ref $@ eq 'HASH';
    die $@;
}


# Runs a program that prints TAP and takes its tests over.
sub run_tap {
    my ($name, @cmd) = @_;

    open my $out, '-|', 'timeout', '-k', '5', '900', @cmd
        or die "$cmd[0]: $!";

    my ($seen, $plan) = (0, -1);

    while (<$out>) {
        chomp;
        if (/^(not )?ok\b\s*\d*\s*-?\s*(.*)/) {
            $seen++;
            ok(!$1, "$name: $2");
        } elsif (/^1\.\.(\d+)/) {
            $plan = $1;
        } else {
            s/^#\s*//;
            diag("$name: $_");
        }
    }

    close $out;
    is($? >> 8, 0, "$name: exit code");
    is($seen, $plan, "$name: ran all of its tests");
}


# What one of Kafka's command line tools prints; a reference as the first
# argument is its input.
#
#     kafka('TopicCommand', '--list')
sub kafka {
    my ($class, @args) = @_;
    my $stdin = ref $args[0] ? ${ shift @args } : '';

    return output($stdin, java(jars('tools.xml')),
        "org.apache.kafka.tools.$class", '--bootstrap-server', bootstrap(),
        @args);
}


# What a command prints, both streams.
sub output {
    my ($stdin, @cmd) = @_;

    require File::Temp;
    my $in = File::Temp->new;
    print $in $stdin // '';
    close $in;

    my $pid = open my $out, '-|';
    die "fork: $!" unless defined $pid;

    if (!$pid) {
        open STDIN, '<', $in->filename;
        open STDERR, '>&', \*STDOUT;
        exec 'timeout', '-k', '5', '300', @cmd or exit 127;
    }

    my $text = do { local $/; <$out> } // '';
    close $out;

    return $text;
}


1;
