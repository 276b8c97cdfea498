"""Reads, processes, writes, exactly once, as t/soak/Copiers.pm has it, with
confluent-kafka (librdkafka):

copier.py BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL-ID PARTITIONS ONE-OF
"""
import random
import select
import sys
import time

from confluent_kafka import (Consumer, KafkaException, Producer, TopicPartition,
                             OFFSET_BEGINNING)

bootstrap, group, source, target, transactional_id = sys.argv[1:6]
partitions, one_of = map(int, sys.argv[6:8])

# Else librdkafka 2.16 forgets its only broker when that is away, and at times
# waits for ever for the handle that it has given up.
common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500,
          "socket.timeout.ms": 5000, "metadata.recovery.strategy": "none"}


class ChangedMind(Exception):
    """The application's own reason to abort."""


def say(*words):
    print(*words, flush=True)


def ending():
    return bool(select.select([0], [], [], 0)[0])


def insist(call):
    """Until it is done or can't be: what may be tried again is."""
    while True:
        try:
            return call()
        except KafkaException as e:
            if not e.args[0].retriable():
                raise
            say("waits", e)
            time.sleep(0.1)


class Copier:
    def __init__(self):
        self.metadata = None
        self.batch = []
        self.consumer = Consumer({
            **common, "group.id": group,
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "isolation.level": "read_committed", "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 100})
        self.producer = Producer({
            **common, "linger.ms": 2, "transactional.id": transactional_id,
            "transaction.timeout.ms": 10000})
        insist(lambda: self.producer.init_transactions(10))
        self.consumer.subscribe([source], on_assign=self.assigned,
                                on_revoke=self.revoked, on_lost=self.revoked)

    def assigned(self, consumer, _):
        # The generation that these partitions were given in: asked for later,
        # it might be the next one, or none.
        self.metadata = consumer.consumer_group_metadata()

    def revoked(self, *_):
        # The next assignment begins where the group has committed.
        self.batch.clear()

    def poll(self):
        self.batch, end = [], time.time() + 0.1
        while len(self.batch) < 50 and time.time() < end:
            # A call-back is before the message in a call, never behind it.
            message = self.consumer.poll(0.02)
            if message is None:
                if self.batch:
                    break
            elif message.error():
                raise KafkaException(message.error())
            else:
                self.batch.append(message)
        return self.batch

    @staticmethod
    def pause():
        if random.randrange(3) == 0:
            time.sleep(random.random() * 0.06)

    def process(self, messages):
        self.producer.begin_transaction()
        offsets = {}
        for m in messages:
            number = int(m.value().decode().split("/")[1])
            p = m.partition()
            self.producer.produce(target, b"a:" + m.value(), m.key(), p)
            self.producer.produce(target, b"b:" + m.value(), m.key(),
                                  (p + number) % partitions)
            offsets[p] = m.offset() + 1
        self.pause()
        positions = [TopicPartition(source, p, o) for p, o in offsets.items()]
        insist(lambda: self.producer.send_offsets_to_transaction(
            positions, self.metadata, 10))
        self.pause()
        if random.randrange(one_of) == 0:
            raise ChangedMind("of its own")
        insist(lambda: self.producer.commit_transaction(10))
        return offsets

    def rewind(self):
        """What was read is to be read again."""
        offsets = {}
        for tp in self.consumer.committed(self.consumer.assignment(), 10):
            if tp.error:
                raise KafkaException(tp.error)
            offsets[tp.partition] = tp.offset
            if tp.offset < 0:
                tp.offset = OFFSET_BEGINNING
            self.consumer.seek(tp)
        say("rewound", offsets)

    def step(self):
        messages = self.poll()
        if not messages:
            return
        try:
            offsets = self.process(messages)
            say("committed", len(messages), offsets)
            return
        except ChangedMind as e:
            reason = e
        except KafkaException as e:
            if not e.args[0].txn_requires_abort():
                raise
            reason = e
        insist(lambda: self.producer.abort_transaction(10))
        say("aborted", len(messages), reason)
        self.rewind()

    def close(self):
        self.consumer.close()


while not ending():
    copier = None
    try:
        copier = Copier()
        while not ending():
            copier.step()
    except KafkaException as e:
        say("renewed", repr(e))
    if copier:
        copier.close()
    del copier
