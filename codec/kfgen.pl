#!/usr/bin/perl

# Reads codec/schema/*.kf and writes C: structs, decoders and encoders.
#
#   kfgen.pl                 writes codec/gen/ and t/schema/message_fields.h
#   kfgen.pl --check         exits 1 and names files that are not up to date
#   kfgen.pl --dump          prints every message and version as plain text, in
#                            the form that t/schema/ prints kafka-clients' own
#   --out DIR                writes below DIR instead, or compares with it
#   --schema DIR             reads that instead of codec/schema/
#
# The language, by example:
#
#   # comment
#   api 1 Fetch  versions 4-18  flexible 12+     flexible none: never
#                                                advertise 0: see kf_api_t
#   request                                      then "response"
#     ClusterId  string?  12+  tag 0  default null
#     Topics     []                              array of structs: its fields
#       Topic    string   0-12                   are indented by two more
#     Cursor     {}?                             a struct, here a nullable one
#     Ids        [int32]?2-7                     nullable in versions 2 to 7
#   data Name  versions 0-3  flexible none       a message without a request
#   record 1 TopicRecord  versions 0-0  flexible 0+      of the journal
#
# Types: bool int8 int16 uint16 int32 int64 float64 string bytes uuid records.
# A field's versions are within its parent's; none given: all of them.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Spec;

my ($here, $root);

BEGIN {
    $here = dirname(File::Spec->rel2abs(__FILE__));
    $root = dirname($here);
}

use lib $here;

use kfgen::Schema;
use kfgen::Files;
use kfgen::Tests;


my ($mode, $dir, $schema) = ('', $root, "$here/schema");

while (@ARGV) {
    my $arg = shift @ARGV;

    if ($arg eq '--out' && @ARGV)            { $dir = shift @ARGV }
    elsif ($arg eq '--schema' && @ARGV)      { $schema = shift @ARGV }
    elsif ($arg =~ /^--(check|dump)$/)       { $mode = $arg }
    else                                     { die "kfgen.pl: $arg?\n" }
}

my (%files, @apis, @headers, @all);

my %number;

for my $path (sort glob("$schema/*.kf")) {
    my ($stem) = $path =~ m{([^/]+)\.kf$};
    my @messages = parse_file($path);

    for my $m (grep { $_->{unit} ne 'data' && $_->{kind} ne 'response' }
               @messages)
    {
        die "$m->{where}: $m->{unit} $m->{key} is already in use\n"
            if $number{"$m->{unit} $m->{key}"}++;
    }

    push @all, @messages;

    if ($stem eq 'journal') {
        %files = (%files, journal_files(@messages));
        next;
    }

    push @apis, $messages[0] if $messages[0]{unit} eq 'api';
    push @headers, "kf_$stem";
    my $what = $messages[0]{unit} eq 'api'
        ? "$messages[0]{name} (API $messages[0]{key})" : $messages[0]{name};
    %files = (%files, by_file("kf_$stem", "$what, versions "
              . "$messages[0]{ver}[0] to $messages[0]{ver}[1].", @messages));
}

$files{'codec/gen/kf_messages.h'} = messages_h(\@headers, @apis);
$files{'codec/gen/kf_api_table.c'} = api_table(
    sort { $a->{key} <=> $b->{key} } @apis);

$files{'t/schema/message_fields.h'} = fields_h(@all);

if ($mode eq '--dump') {
    dump_all(@all);
    exit 0;
}

my $stale = 0;

for my $name (sort keys %files) {
    my $path = "$dir/$name";
    my $old = '';

    if (open my $fh, '<', $path) {
        local $/ = undef;
        $old = <$fh>;
        close $fh;
    }

    next if $old eq $files{$name};

    if ($mode eq '--check') {
        print "not up to date: $name\n";
        $stale = 1;
        next;
    }

    make_path(dirname($path));
    open my $fh, '>', $path or die "$path: $!\n";
    print {$fh} $files{$name};
    close $fh or die "$path: $!\n";
}

# What an API that is gone has left.

for my $path (glob "$dir/codec/gen/*") {
    my $name = $path =~ s/^\Q$dir\E\///r;

    next if $files{$name};

    if ($mode eq '--check') {
        print "not generated: $name\n";
        $stale = 1;
    } else {
        unlink $path or die "$path: $!\n";
    }
}

exit $stale;
