"""A member of a consumer group, as t/lib/Test/KafkaGroup.pm has it.

group.py confluent|kafka-python|aiokafka BOOTSTRAP GROUP TOPIC [NAME=VALUE]...
"""
import asyncio
import os
import select
import sys

client, bootstrap, group, topic = sys.argv[1:5]
options = dict(a.split("=", 1) for a in sys.argv[5:])
instance = options.get("instance")
cooperative = options.get("strategy") == "cooperative"

# One that comes back to its place has time to start again.
session_ms = 60000 if instance else 10000


def say(*words):
    print(*words, flush=True)


def numbers(partitions):
    return ",".join(str(p) for p in sorted(x.partition for x in partitions))


def commands():
    """What stands in stdin now; its end is as good as "close"."""
    if not select.select([0], [], [], 0)[0]:
        return []
    text = os.read(0, 4096).decode()
    return text.split() if text else ["close"]


def confluent():
    from confluent_kafka import Consumer, KafkaError, KafkaException

    config = {
        "bootstrap.servers": bootstrap, "group.id": group,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "session.timeout.ms": session_ms, "heartbeat.interval.ms": 300,
        "topic.metadata.refresh.interval.ms": 2000,
        "reconnect.backoff.max.ms": 500,
    }
    if instance:
        config["group.instance.id"] = instance
    if cooperative:
        config["partition.assignment.strategy"] = "cooperative-sticky"
    consumer = Consumer(config)
    mine = set()

    def assigned(_, partitions):
        if cooperative:
            consumer.incremental_assign(partitions)
        else:
            mine.clear()
            consumer.assign(partitions)
        mine.update((x.topic, x.partition) for x in partitions)
        say("assigned", ",".join(str(p) for _, p in sorted(mine)))

    def revoked(_, partitions):
        say("revoked", numbers(partitions))
        mine.difference_update((x.topic, x.partition) for x in partitions)
        if cooperative:
            consumer.incremental_unassign(partitions)
            say("assigned", ",".join(str(p) for _, p in sorted(mine)))
        else:
            consumer.unassign()

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked,
                       on_lost=revoked)
    while True:
        message = consumer.poll(0.05)
        if message is not None and not message.error():
            say("record", message.partition(), message.value().decode())
        for command in commands():
            if command == "close":
                consumer.close()
                return
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as e:
                if e.args[0].code() != KafkaError._NO_OFFSET:
                    say("problem", e)
                    continue
            say("committed")


def kafka_python():
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            say("assigned", numbers(consumer.assignment()))

        def on_partitions_revoked(self, revoked):
            say("revoked", numbers(revoked))
            if cooperative:
                say("assigned", numbers(consumer.assignment() - set(revoked)))

    more = {}
    if instance:
        more["group_instance_id"] = instance
    if cooperative:
        from kafka.coordinator.assignors.cooperative_sticky import (
            CooperativeStickyAssignor)
        more["partition_assignment_strategy"] = [
            CooperativeStickyAssignor]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group,
        auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_ms, heartbeat_interval_ms=300,
        reconnect_backoff_max_ms=500, metadata_max_age_ms=2000, **more)
    consumer.subscribe([topic], listener=Listener())
    while True:
        for records in consumer.poll(timeout_ms=50).values():
            for r in records:
                say("record", r.partition, r.value.decode())
        for command in commands():
            if command == "close":
                consumer.close()
                return
            try:
                consumer.commit()
                say("committed")
            except KafkaError as e:
                say("problem", repr(e))


async def aio():
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned):
            say("assigned", numbers(assigned))

        async def on_partitions_revoked(self, revoked):
            say("revoked", numbers(revoked))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group,
        auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_ms, heartbeat_interval_ms=300,
        metadata_max_age_ms=2000, group_instance_id=instance)
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while True:
        for records in (await consumer.getmany(timeout_ms=50)).values():
            for r in records:
                say("record", r.partition, r.value.decode())
        for command in commands():
            if command == "close":
                await consumer.stop()
                return
            try:
                await consumer.commit()
                say("committed")
            except KafkaError as e:
                say("problem", repr(e))


if client == "confluent":
    confluent()
elif client == "kafka-python":
    kafka_python()
else:
    asyncio.run(aio())
