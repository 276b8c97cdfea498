package Soak;

# For the soak and power-cut tests: builds their tools, starts and ends one
# nginx, talks to the load program.

use warnings;
use strict;

use Exporter qw/ import /;
use Cwd qw/ abs_path /;
use File::Basename qw/ dirname /;
use File::Temp;

our @EXPORT_OK = qw/ tools scratch slurp top /;

my $top = abs_path(dirname(__FILE__) . '/../..');

# The source tree.

sub top { $top }

# Builds the tools named and answers where they are.

sub tools {
	my @names = @_;
	my $b = $ENV{B} || "$top/build";
	$b = "$top/$b" unless $b =~ m!^/!;

	system('make', '-s', '-C', $top, '-f', 't/soak/tools.mk', "B=$b",
		map { "$b/t/soak/$_" } @names) == 0
		or die "cannot build @names\n";

	return "$b/t/soak";
}

# A directory in memory that goes when the test ends (TEST_LEAVE=1 keeps it).

sub scratch {
	my $parent = -d '/dev/shm' && -w _ ? '/dev/shm' : '/tmp';
	my $leave = $ENV{TEST_LEAVE};

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

1;
