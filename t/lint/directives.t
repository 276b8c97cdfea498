#!/usr/bin/env perl

# Every directive and variable of the module is documented.

use strict;
use warnings;

use FindBin;
use Test::More;

chdir "$FindBin::Bin/../..";

my ($docs, %directive, %variable) = ('');

for my $file ('README.md', glob 'docs/*.md') {
    next unless open my $f, '<', $file;
    local $/;
    $docs .= <$f>;
}

for my $file (glob 'ngx_kafka_module/*.c') {
    open my $f, '<', $file or die;
    my $text = do { local $/; <$f> };

    while ($text =~ /ngx_command_t\s+\w+\[\]\s*=\s*\{(.*?)ngx_null_command/gs) {
        my $table = $1;
        $directive{$_} = 1 for $table =~ /ngx_string\("([^"]+)"\)/g;
    }

    while ($text =~ /ngx_stream_variable_t\s+\w+\[\]\s*=\s*\{(.*?)ngx_\w+null/gs)
    {
        my $table = $1;
        $variable{$_} = 1 for $table =~ /ngx_string\("([^"]+)"\)/g;
    }
}

ok(%directive, 'directives found');
like($docs, qr/`?\b\Q$_\E\b/, "directive $_ is documented")
    for sort keys %directive;
like($docs, qr/\$\Q$_\E\b/, "variable \$$_ is documented")
    for sort keys %variable;

done_testing();
