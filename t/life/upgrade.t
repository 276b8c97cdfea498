#!/usr/bin/env perl

# USR2: a new tree with a zone of its own takes the directory over when the old
# workers have let it go; also when they are held up, and back again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(time sleep);

use Kafka::Batch;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 2)->run;
my $batch = Kafka::Batch::batch(records => ['a', 'b']);
my $end = 0;

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');


sub produce {
    my ($name) = @_;
    my $r;

    wait_for(sub {
        $r = eval { $t->client(timeout => 20)->produce('t', 0, $batch) };
    }, 60);
    is($r->{ErrorCode}, 0, "$name: produced");
    cmp_ok($r->{BaseOffset}, '>=', $end, "$name: after all of before");
    $end = $r->{BaseOffset} + 2;
}


produce('before');

# Both trees run: only the old one serves, whoever accepts.
my ($new, $old) = $t->upgrade;
sleep 0.5;
isnt($new, $old, 'a second tree');

my $opens = () = $t->error_log =~ /: open in/g;
is($opens, 1, 'it does not open the directory');

# The old workers leave, the new ones take over.
kill 'WINCH', $old;
ok(wait_for(sub { !$t->workers(of => $old, all => 1) }, 30),
    'the old workers leave');
produce('after');

# Rolled back: the old master starts workers again, the new tree ends.
kill 'HUP', $old;
ok(wait_for(sub { $t->workers(of => $old) >= 2 }, 30),
    'rolled back: workers of the old tree');
kill 'QUIT', $new;
ok(wait_for(sub { !kill 0, $new }, 30), 'rolled back: the new tree ends');
produce('rolled back');

# And again, to its end.
ok(wait_for(sub { $t->master == $old }, 30), 'the pid file is back');
($new, $old) = $t->upgrade;
kill 'QUIT', $old;
ok(wait_for(sub { !kill 0, $old }, 30), 'the old tree ends');
produce('upgraded');

$t->done;
