package Test::KafkaTxn;

# One transaction at a time, of either generation of clients, whose connections
# may break at any moment.
#
#     my $x = Test::KafkaTxn->new($t, topic => 't', version => 2);
#     $x->begin('name');            # writes to three partitions and a group
#     $x->seen                      # open, committed, aborted, or what is wrong
#     $x->end(1)                    # the answer to EndTxn, asked until there is one
#     $x->survives(...)             # the whole of it after a crash
#
# Version 1 adds its partitions by requests of their own and keeps its epoch,
# version 2 (KIP-890) does neither.  The last partition is written with acks=1
# (or acks => -1).

use strict;
use warnings;

use Test::More;

use Kafka::Batch qw(batch batches records);

use Test::KafkaNginx qw(wait_for);

my $rounds = 0;


sub new {
    my ($class, $t, %o) = @_;

    my $self = bless { t => $t, parts => 3, version => 2, acks => 1, %o },
        $class;

    $self->insist(sub {
        my $e = $_[0]->create_topic($o{topic}, $self->{parts})->{ErrorCode};
        return $e == 0 || $e == 36;
    }) or die "no topic\n";

    $self->insist(sub { $self->{id} = $_[0]->topic_id($o{topic}) })
        or die "no topic id\n";

    return $self;
}


# Calls, with a connection of its own each time, until the answer is true.
sub insist {
    my ($self, $code, $seconds) = @_;
    my $r;

    wait_for(sub {
        $r = eval { $code->($self->{t}->client(timeout => 5)) };
        return defined $r && $r;
    }, $seconds // 60);

    return $r;
}


# The same with one request: an answer that is not "later" is good.
sub ask {
    my ($self, $api, $version, $body, $error) = @_;

    return $self->insist(sub {
        my $r = $_[0]->call($api, $version, $body) or return;
        my $e = $error ? $error->($r) : $r->{ErrorCode};
        return $e == 51 || $e == 14 || $e == 15 || $e == 16 ? undef : $r;
    });
}


sub init {
    my ($self, $name) = @_;

    my $r = $self->ask('InitProducerId', 4, {
        TransactionalId => $name, TransactionTimeoutMs => 600_000,
        ProducerId => -1, ProducerEpoch => -1 }) or die "no producer\n";
    die "InitProducerId: $r->{ErrorCode}\n" if $r->{ErrorCode};

    @$self{qw(name pid epoch seq)}
        = ($name, @$r{qw(ProducerId ProducerEpoch)}, {});
}


# With the producer that there is, unless a name is given.
sub begin {
    my ($self, $name) = @_;

    $self->init($name) if defined $name;

    $self->{round} = ++$rounds;
    $self->{group} = "$self->{topic}-group-$rounds";
    $self->{from}{$_} = $self->log_end($_) for 0 .. $self->{parts} - 1;

    $self->add if $self->{version} < 2;
    $self->put($_) for 0 .. $self->{parts} - 1;
    $self->stage;
}


sub who {
    my ($self) = @_;

    return (TransactionalId => $self->{name}, ProducerId => $self->{pid},
        ProducerEpoch => $self->{epoch});
}


sub add {
    my ($self) = @_;

    my $r = $self->ask('AddPartitionsToTxn', 3, {
        V3AndBelowTransactionalId => $self->{name},
        V3AndBelowProducerId => $self->{pid},
        V3AndBelowProducerEpoch => $self->{epoch},
        V3AndBelowTopics => [{ Name => $self->{topic},
            Partitions => [0 .. $self->{parts} - 1] }] },
        sub { $_[0]{ResultsByTopicV3AndBelow}[0]{ResultsByPartition}[0]
            {PartitionErrorCode} });
    $r && $r->{ResultsByTopicV3AndBelow}[0]{ResultsByPartition}[0]
        {PartitionErrorCode} == 0 or die "AddPartitionsToTxn\n";

    $r = $self->ask('AddOffsetsToTxn', 3,
        { $self->who, GroupId => $self->{group} });
    $r && $r->{ErrorCode} == 0 or die "AddOffsetsToTxn\n";
}


sub put {
    my ($self, $p) = @_;
    my $v = $self->{version} < 2 ? 9 : 13;

    my $records = batch(records => ["value $self->{round}"],
        transactional => 1, producer_id => $self->{pid},
        producer_epoch => $self->{epoch},
        sequence => $self->{seq}{$p} // 0);

    my $r = $self->insist(sub {
        my $r = $_[0]->produce($v < 13 ? $self->{topic} : $self->{id}, $p,
            $records, version => $v, transactional_id => $self->{name},
            acks => $p == $self->{parts} - 1 ? $self->{acks} : -1);
        return $r && $r->{ErrorCode} != 51 && $r->{ErrorCode} != 19 ? $r : undef;
    });
    $r && $r->{ErrorCode} == 0 or die 'Produce: ', $r ? $r->{ErrorCode} : '-',
        "\n";

    $self->{seq}{$p}++;
}


sub stage {
    my ($self) = @_;
    my $error = sub { $_[0]{Topics}[0]{Partitions}[0]{ErrorCode} };

    my $r = $self->ask('TxnOffsetCommit', $self->{version} < 2 ? 3 : 5, {
        $self->who, GroupId => $self->{group},
        GenerationIdOrMemberEpoch => -1, MemberId => '',
        Topics => [{ Name => $self->{topic}, Partitions => [{
            PartitionIndex => 0, CommittedOffset => 7,
            CommittedMetadata => '' }] }] }, $error);
    $r && $error->($r) == 0 or die "TxnOffsetCommit\n";
}


sub end_request {
    my ($self, $commit) = @_;

    return ('EndTxn', $self->{version} < 2 ? 4 : 5,
        { $self->who, Committed => $commit });
}


# The answer, and goes on with what it says.
sub end {
    my ($self, $commit) = @_;

    my $r = $self->ask($self->end_request($commit)) or return;

    if ($self->{version} >= 2 && $r->{ErrorCode} == 0) {
        @$self{qw(pid epoch seq)} = (@$r{qw(ProducerId ProducerEpoch)}, {});
    }

    return $r;
}


# ---- what others see

sub log_end {
    my ($self, $p) = @_;
    my $end;

    $self->insist(sub {
        $end = $_[0]->list_offset($self->{topic}, $p, -1)->{Offset};
        return defined $end && $end >= 0;
    }) or die "no end\n";

    return $end;
}


# Is the partition's record there for a reader of committed ones?  1, 0, or
# undef: not yet known.
sub visible {
    my ($self, $p) = @_;
    my ($r, $end, %in);

    $self->insist(sub {
        $end = $_[0]->list_offset($self->{topic}, $p, -1)->{Offset};
        $r = $_[0]->fetch($self->{topic}, $p, $self->{from}{$p},
            isolation => 1);
        return $r && $r->{ErrorCode} == 0;
    }) or die "no fetch\n";

    my @aborted = @{ $r->{AbortedTransactions} // [] };

    for my $b (batches($r->{Records} // '')) {
        while (@aborted && $aborted[0]{FirstOffset} <= $b->{base_offset}) {
            $in{ (shift @aborted)->{ProducerId} } = 1;
        }

        if ($b->{attributes} & 32) {
            delete $in{ $b->{producer_id} };

        } elsif (!$in{ $b->{producer_id} }
            && grep { $_->{value} eq "value $self->{round}" } records($b))
        {
            return 1;
        }
    }

    return $r->{LastStableOffset} < $end ? undef : 0;
}


# -1: none, undef: one is pending.
sub offset {
    my ($self) = @_;
    my $p;

    $self->insist(sub {
        $p = $_[0]->call('OffsetFetch', 7, { GroupId => $self->{group},
            RequireStable => 1, Topics => [{ Name => $self->{topic},
            PartitionIndexes => [0] }] })->{Topics}[0]{Partitions}[0];
        return $p && ($p->{ErrorCode} == 0 || $p->{ErrorCode} == 88);
    }) or die "no offset\n";

    return $p->{ErrorCode} ? undef : $p->{CommittedOffset};
}


sub seen {
    my ($self) = @_;

    my @data = map $self->visible($_), 0 .. $self->{parts} - 1;
    my $offset = $self->offset;
    my $text = join ' ', map { $_ // '?' } @data, $offset;
    my $n = $self->{parts};

    return $text eq join(' ', ('?') x $n, '?') ? 'open'
        : $text eq join(' ', (1) x $n, 7) ? 'committed'
        : $text eq join(' ', (0) x $n, -1) ? 'aborted' : $text;
}


# ---- after a crash in EndTxn

# What the crash has left is the transaction ("open"), its outcome ("decided"),
# or either ("any").  Then its client asks again, or a successor comes.
sub survives {
    my ($x, $commit, $left, $again, $label) = @_;

    my ($pid, $epoch) = @$x{qw(pid epoch)};
    my $outcome = $commit ? 'committed' : 'aborted';

    if ($left eq 'open') {
        is($x->seen, 'open', "$label: it is as it was");

    } elsif ($left eq 'decided') {
        ok($x->insist(sub { $x->seen eq $outcome }),
            "$label: it is $outcome by itself") or diag($x->seen);
    }

    if ($again) {
        my $r = $x->end($commit);
        is_deeply([@$r{qw(ErrorCode ProducerId ProducerEpoch)}],
            [0, $x->{version} < 2 ? (undef, undef) : ($pid, $epoch + 1)],
            "$label: asked again, the right answer");

    } else {
        $x->init($x->{name});
        is($x->{pid}, $pid, "$label: a successor");
        cmp_ok($x->{epoch}, '>', $epoch, "$label: of a later epoch");
        $outcome = 'aborted' if $left eq 'open';
        $outcome = $x->seen if $left eq 'any';
        like($outcome, qr/^(?:committed|aborted)$/, "$label: one outcome");
    }

    is($x->seen, $outcome, "$label: it is $outcome");

    $x->begin;
    is($x->end(1)->{ErrorCode}, 0, "$label: the next one");
    is($x->seen, 'committed', "$label: is committed");
}


1;
