package kfgen::Text;

# Lays C out within 80 columns.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(
    wrap head locals
);


# One statement, broken at commas, else at blanks, where it is too long.

sub wrap {
    my ($indent, $text) = @_;

    return "$indent$text\n" if length("$indent$text") < 80;

    my $hang = "$indent    ";
    my ($out, $line) = ('', $indent);

    for my $part (split /(?<=,) /, $text) {
        my @words = length("$hang$part") < 79 ? $part : split / /, $part;

        for my $word (@words) {
            if (length("$line$word") > 79 && $line =~ /\S/) {
                $out .= $line =~ s/ +$/\n/r;
                $line = $hang;
            }
            $line .= "$word ";
        }
    }

    return $out . ($line =~ s/ +$/\n/r);
}

# "name(args)", broken as function heads are; no newline at the end.

sub head {
    my ($name, @args) = @_;

    my ($out, $line) = ('', "$name(");

    for my $k (0 .. $#args) {
        my $arg = $args[$k] . ($k < $#args ? ',' : ')');
        my $gap = $line =~ /[( ]$/ ? '' : ' ';

        if (length("$line$gap$arg") > 78) {
            $out .= "$line\n";
            $line = "    $arg";
        } else {
            $line .= "$gap$arg";
        }
    }

    return "$out$line";
}


sub locals {
    my (@locals) = @_;

    return '' unless @locals;

    my $width = 0;

    for my $l (@locals) {
        $width = length $l->[0] if length $l->[0] > $width;
    }

    return join('', map { sprintf "    %-*s  %s;\n", $width, @$_ } @locals)
         . "\n";
}

1;
