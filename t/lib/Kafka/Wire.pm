package Kafka::Wire;

# A Kafka client for tests: one connection, requests by hand, every version.
#
#     my $c = Kafka::Wire->new(port => 9092);
#     my $r = $c->call('Metadata', 12, { Topics => [{ Name => 'a' }] });
#     $c->send_raw($bytes); my $frame = $c->recv_frame(timeout => 2);
#
# Messages are hashes with Kafka's field names; the tables in Kafka::Messages
# say what each version has.  Written apart from codec/ on purpose: a mistake
# must be made twice to go unseen.

use strict;
use warnings;

use IO::Socket::INET;
use Time::HiRes qw(time);

use Kafka::Messages;

use Exporter 'import';
our @EXPORT_OK = qw(encode decode api_key api_versions);

my $sequence = 0;


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        client_id => exists $o{client_id} ? $o{client_id} : 'wire',
        timeout   => $o{timeout} || 30,
        buffer    => '',
        waiting   => [],
    }, $class;

    $self->{socket} = $o{socket} || IO::Socket::INET->new(
        PeerAddr => $o{host} || '127.0.0.1',
        PeerPort => $o{port},
        Timeout  => $self->{timeout},
    ) or die "connect to $o{port}: $!\n";

    $self->{socket}->blocking(1);
    binmode $self->{socket};

    return $self;
}


sub socket { $_[0]{socket} }
sub fd { fileno $_[0]{socket} }
sub local_port { $_[0]{socket}->sockport }


sub close {
    my ($self) = @_;

    close delete $self->{socket} if $self->{socket};
}


# ---- requests

# Sends and waits for the answer: the decoded response.
sub call {
    my ($self, $api, $version, $body, %o) = @_;

    $self->send($api, $version, $body, %o);

    return $self->recv(%o);
}


# Sends; the answer is taken later by recv(), in order.  silent => 1 is for
# acks=0, which has none.  Returns the correlation id.
sub send {
    my ($self, $api, $version, $body, %o) = @_;

    my $corr = $o{correlation_id} // ++$sequence;

    $self->send_raw($self->frame($api, $version, $body, %o,
        correlation_id => $corr));
    push @{ $self->{waiting} }, [$api, $version, $corr] unless $o{silent};

    return $corr;
}


# The bytes of a request with its length.
sub frame {
    my ($self, $api, $version, $body, %o) = @_;

    my $head = header($api, $version, $o{correlation_id} // ++$sequence,
        exists $o{client_id} ? $o{client_id} : $self->{client_id});
    my $payload = $head . encode($api, 'request', $version, $body);

    return pack('N', length $payload) . $payload;
}


sub header {
    my ($api, $version, $corr, $client_id) = @_;

    my $head = pack 'n n N', api_key($api), $version & 0xffff, $corr;

    $head .= defined $client_id
        ? pack('n', length $client_id) . $client_id : pack('n', 0xffff);
    $head .= "\0" if flexible($api, $version);

    return $head;
}


sub send_raw {
    my ($self, $bytes) = @_;

    local $SIG{PIPE} = 'IGNORE';
    my $sent = 0;

    while ($sent < length $bytes) {
        my $n = syswrite $self->{socket}, $bytes, length($bytes) - $sent, $sent;
        return 0 unless defined $n;
        $sent += $n;
    }

    return 1;
}


# The next answer, decoded: undef when the peer closed, dies at the timeout.
sub recv {
    my ($self, %o) = @_;

    my $expected = shift @{ $self->{waiting} } or die "nothing was asked\n";
    my ($api, $version, $corr) = @$expected;

    my $frame = $self->recv_frame(%o);
    return undef unless defined $frame;

    my $got = unpack 'N', $frame;
    die "correlation id $got, want $corr\n" unless $got == $corr;

    return decode($api, 'response', $o{as_version} // $version, $frame, 4,
        $version);
}


# One frame without its length; undef at EOF or a reset.
sub recv_frame {
    my ($self, %o) = @_;

    my $deadline = time + ($o{timeout} || $self->{timeout});

    while (1) {
        if (length $self->{buffer} >= 4) {
            my $n = unpack 'N', $self->{buffer};
            die "frame of $n bytes\n" if $n > 256 * 1024 * 1024;

            if (length $self->{buffer} >= 4 + $n) {
                my $frame = substr $self->{buffer}, 4, $n;
                substr $self->{buffer}, 0, 4 + $n, '';
                return $frame;
            }
        }

        return undef unless $self->fill($deadline);
    }
}


# Reads some bytes: 0 at EOF, dies at the deadline.
sub fill {
    my ($self, $deadline) = @_;

    my $left = $deadline - time;
    my $in = '';
    vec($in, fileno $self->{socket}, 1) = 1;

    die "timeout waiting for an answer\n"
        if $left <= 0 || !select $in, undef, undef, $left;

    my $n = sysread $self->{socket}, $self->{buffer}, 1 << 20,
        length $self->{buffer};

    return $n || 0;
}


# True when nothing arrives for that long (and the peer has not closed).
sub silent {
    my ($self, $seconds) = @_;

    my $in = '';
    vec($in, fileno $self->{socket}, 1) = 1;

    return !length $self->{buffer} && !select $in, undef, undef, $seconds;
}


# True when the peer closes within the time; what it sent before is dropped.
sub closed {
    my ($self, $seconds) = @_;

    my $deadline = time + ($seconds || $self->{timeout});
    my $open = eval { 1 while $self->fill($deadline); 0 } // 1;

    return !$open;
}


# ---- shorthands that most tests need

sub create_topic {
    my ($self, $name, $partitions, %config) = @_;

    my $r = $self->call('CreateTopics', 7, {
        Topics => [{
            Name => $name, NumPartitions => $partitions // 1,
            ReplicationFactor => 1,
            Configs => [map +{ Name => $_, Value => $config{$_} },
                sort keys %config],
        }],
        timeoutMs => 60_000,
    });

    # Apache Kafka answers before the topic is usable; ours must not.
    sleep 1 if $ENV{TEST_KAFKA_PORT};

    return $r->{Topics}[0];
}


sub delete_topic {
    my ($self, $name) = @_;

    return $self->call('DeleteTopics', 5,
        { TopicNames => [$name], TimeoutMs => 60_000 })->{Responses}[0];
}


# Produces a batch (bytes) and returns the partition's response.
sub produce {
    my ($self, $topic, $partition, $batch, %o) = @_;

    my $version = $o{version} // 9;
    my $acks = $o{acks} // -1;
    my $body = {
        TransactionalId => $o{transactional_id},
        Acks => $acks, TimeoutMs => $o{timeout_ms} // 60_000,
        TopicData => [{
            ($version >= 13 ? (TopicId => $topic) : (Name => $topic)),
            PartitionData => [{ Index => $partition, Records => $batch }],
        }],
    };

    if ($acks == 0) {
        $self->send('Produce', $version, $body, silent => 1);
        return;
    }

    my $r = $self->call('Produce', $version, $body, %o);

    return $r && $r->{Responses}[0]{PartitionResponses}[0];
}


# Fetches one partition without a session and returns its response.
sub fetch {
    my ($self, $topic, $partition, $offset, %o) = @_;

    my $r = $self->call('Fetch', $o{version} // 12,
        fetch_body($topic, $partition, $offset, %o), %o);

    return $r && $r->{Responses}[0]{Partitions}[0];
}


sub fetch_body {
    my ($topic, $partition, $offset, %o) = @_;

    return {
        MaxWaitMs => $o{max_wait} // 0, MinBytes => $o{min_bytes} // 1,
        MaxBytes => $o{max_bytes} // 50 << 20,
        IsolationLevel => $o{isolation} // 0,
        SessionId => $o{session_id} // 0,
        SessionEpoch => $o{session_epoch} // -1,
        Topics => [{
            (($o{version} // 12) >= 13
                ? (TopicId => $topic) : (Topic => $topic)),
            Partitions => [{
                Partition => $partition, FetchOffset => $offset,
                PartitionMaxBytes => $o{partition_max_bytes} // 1 << 20,
                CurrentLeaderEpoch => $o{leader_epoch} // -1,
            }],
        }],
        ForgottenTopicsData => [],
    };
}


sub list_offset {
    my ($self, $topic, $partition, $timestamp, %o) = @_;

    return $self->call('ListOffsets', $o{version} // 7, {
        ReplicaId => -1, IsolationLevel => $o{isolation} // 0,
        Topics => [{ Name => $topic, Partitions => [{
            PartitionIndex => $partition, Timestamp => $timestamp,
            CurrentLeaderEpoch => $o{leader_epoch} // -1,
        }] }],
    })->{Topics}[0]{Partitions}[0];
}


sub topic_id {
    my ($self, $name) = @_;

    return $self->call('Metadata', 12, {
        Topics => [{ Name => $name, TopicId => "\0" x 16 }],
        AllowAutoTopicCreation => 0,
    })->{Topics}[0]{TopicId};
}


sub init_producer {
    my ($self, %o) = @_;

    return $self->call('InitProducerId', $o{version} // 4, {
        TransactionalId => $o{transactional_id},
        TransactionTimeoutMs => $o{timeout_ms} // 600_000,
        ProducerId => $o{producer_id} // -1,
        ProducerEpoch => $o{producer_epoch} // -1,
    });
}


1;
