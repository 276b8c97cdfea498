#!/usr/bin/env perl

# Requests that wait for records hold memory for as long as they wait, which may
# be days: when others need it, they are answered early.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;
use Time::HiRes qw(sleep time);

use Kafka::Batch qw(batch);
use Kafka::Wire;
use Test::KafkaNginx qw(wait_for);

my $t = Test::KafkaNginx->new(workers => 1,
    broker => '        buffer_budget  4m;')->run;

is($t->client->create_topic('t')->{ErrorCode}, 0, 'a topic');

my $body = Kafka::Wire::fetch_body('t', 0, 0, max_wait => 0x7fffffff);
$body->{ForgottenTopicsData} = [{ Topic => 't',
    Partitions => [(0) x (6 << 18)] }];

my @small = map $t->client(timeout => 20), 1 .. 3;
$_->send('Fetch', 12, Kafka::Wire::fetch_body('t', 0, 0,
    max_wait => 0x7fffffff)) for @small;

my $large = $t->client(timeout => 20);
$large->send('Fetch', 12, $body);
sleep 0.5;

my $r = $t->client(timeout => 10)->list_offset('t', 0, -1);
is($r->{ErrorCode}, 0, 'a parked fetch of the whole budget blocks nobody');

# (others that come while it is still being read do not need its memory)
wait_for(sub { !$large->silent(0.1)
    || $t->client->list_offset('t', 0, -1)->{ErrorCode} }, 20);
$r = $large->recv;
is($r->{Responses}[0]{Partitions}[0]{ErrorCode}, 0, 'it is answered');
is(length($r->{Responses}[0]{Partitions}[0]{Records} // ''), 0, 'with nothing');

ok((!grep { !$_->silent(0.3) } @small), 'small ones go on waiting');
is($t->client->produce('t', 0, batch())->{ErrorCode}, 0, 'until there is more');
is(scalar(grep { length($_->recv->{Responses}[0]{Partitions}[0]{Records}) }
    @small), 3, 'which they get');

$t->done;
