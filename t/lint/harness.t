#!/usr/bin/env perl

# The hidden checks of Test::KafkaNginx see what they are there for: each
# program below has one fault, and must fail in that check alone.

use strict;
use warnings;

use FindBin;
use File::Temp;
use Test::More;

my $lib = "$FindBin::Bin/../lib";
my $begin = <<'EOP';
use strict;
use warnings;
use Test::More;
use Test::KafkaNginx;

my $t = Test::KafkaNginx->new(workers => 1, conf => <<'C')->run(ready => 0);
%%GLOBALS%%
events { }
stream { server { listen 127.0.0.1:%%PORT%%; return x; } }
C

sub note_line {
    open my $f, '>>', $t->dir . '/error.log' or die;
    print $f "2026/01/01 00:00:00 $_[0]\n";
    close $f;
}
EOP

my @cases = (
    ['nothing wrong', '', undef],
    ['an alert', 'note_line("[alert] 1#1: something");', 'no alerts'],
    ['an emergency', 'note_line("[emerg] 1#1: something");', 'no alerts'],
    ['an alert that was announced', '$t->allow(qr/something/);'
        . ' note_line("[alert] 1#1: something");', undef],
    ['a worker that was killed', '$t->kill_worker(($t->workers)[0]);', undef],
    ['a worker that died by itself', 'kill "KILL", ($t->workers)[0]; sleep 1;',
        'no alerts'],
    ["AddressSanitizer's report", 'note_line("==1==ERROR: AddressSanitizer:'
        . ' heap-use-after-free");', 'no sanitizer reports'],
    ["UBSan's report", 'note_line("x.c:1:2: runtime error: shift");',
        'no sanitizer reports'],
    ['a report in a file', '$t->write_file("san.1", "ERROR");',
        'no sanitizer reports'],
    ['a process that stays', 'chdir $t->dir; $SIG{TERM} = "IGNORE";'
        . ' if (!fork) { exec "sleep", 30 } chdir "/";',
        'nginx stops|no process left'],
);

plan(skip_all => 'no module; run make') unless run('')->{ran};

for my $case (@cases) {
    my ($label, $code, $failing) = @$case;
    my $r = run($code);

    if (defined $failing) {
        my @others = grep !/^(?:$failing)$/, @{ $r->{failed} };
        ok(@{ $r->{failed} } && !@others && $r->{rc}, "$label is seen")
            or diag("failed: @{ $r->{failed} }");
    } else {
        is("@{ $r->{failed} }", '', "$label is no failure");
    }
}

done_testing();


# Runs a program with the code in it.
sub run {
    my ($code) = @_;

    my $f = File::Temp->new(SUFFIX => '.t');
    print $f $begin, $code, "\n\$t->done;\n";
    close $f;

    my $out = qx($^X -I$lib $f 2>/dev/null);
    my $rc = $?;

    return { rc => $rc, ran => $out !~ /^1\.\.0/ && $out =~ /^ok/m,
        failed => [$out =~ /^not ok \d+ - (.*)$/mg] };
}
