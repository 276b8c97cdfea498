"""confluent-kafka (librdkafka) against the broker at argv[1]: prints TAP."""
import os
import sys
import time

from confluent_kafka import (Consumer, KafkaException, Producer, TopicPartition,
                             OFFSET_BEGINNING)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tap import done, equal, ok, part, value

bootstrap = sys.argv[1]
base = f"ck-{os.getpid()}"
admin = AdminClient({"bootstrap.servers": bootstrap})


def create(name, partitions=1, **config):
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name] \
        .result(60)


def code_of(call):
    try:
        call()
    except KafkaException as e:
        return e.args[0].name()
    return "none"


def consumer(**more):
    # group.id is required, but nothing of a group is used.
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "none",
                     "enable.auto.commit": False, "check.crcs": True,
                     "fetch.wait.max.ms": 100, **more})


def read(c, n):
    out, end = [], time.time() + 120
    while len(out) < n and time.time() < end:
        for m in c.consume(n - len(out), 0.5):
            if m.error():
                raise KafkaException(m.error())
            out.append(m)
    return out


def admin_calls():
    name = base + "-admin"
    create(name, 3, **{"retention.ms": "3600000"})
    equal(code_of(lambda: create(name)), "TOPIC_ALREADY_EXISTS",
          "created twice")
    equal(code_of(lambda: create("a b")), "TOPIC_EXCEPTION", "a bad name")
    t = admin.list_topics(name, 10).topics[name]
    equal(len(t.partitions), 3, "partitions")
    r = ConfigResource(ConfigResource.Type.TOPIC, name)
    c = admin.describe_configs([r])[r].result(60)
    equal(c["retention.ms"].value, "3600000", "the topic's config")
    equal(len(admin.describe_cluster().result(60).nodes), 1, "one node")
    admin.delete_topics([name])[name].result(60)
    equal(code_of(lambda: admin.delete_topics([name])[name].result(60)),
          "UNKNOWN_TOPIC_OR_PART", "deleted twice")


def round_trip(codec, idempotent):
    n = 2000
    name = f"{base}-{codec}-{idempotent}"
    label = f"{codec}, idempotent {idempotent}"
    create(name)
    offsets = {}
    p = Producer({"bootstrap.servers": bootstrap, "compression.codec": codec,
                  "enable.idempotence": idempotent, "linger.ms": 5,
                  "batch.num.messages": 150,
                  "max.in.flight.requests.per.connection": 5})

    def report(error, m):
        if error is None:
            offsets[int(m.key())] = m.offset()

    for i in range(n):
        p.produce(name, value(i), str(i), 0, headers={"h": b"x"},
                  on_delivery=report)
        p.poll(0)
    equal(p.flush(120), 0, f"{label}: flushed")
    equal([offsets.get(i) for i in range(n)], list(range(n)),
          f"{label}: offsets in order")

    c = consumer()
    c.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    got = read(c, n)
    equal([m.value() for m in got], [value(i) for i in range(n)],
          f"{label}: the same records")
    ok(all(m.headers() == [("h", b"x")] for m in got), f"{label}: headers")
    c.seek(TopicPartition(name, 0, n - 3))
    equal(read(c, 1)[0].offset(), n - 3, f"{label}: seek")
    c.close()


def times():
    name = base + "-times"
    create(name)
    start = int(time.time() * 1000) - 1000000
    p = Producer({"bootstrap.servers": bootstrap})
    for i in range(100):
        p.produce(name, value(i), None, 0, timestamp=start + i * 1000)
    p.flush(120)
    c = consumer()
    o = c.offsets_for_times([TopicPartition(name, 0, start + 41500)], 10)[0]
    equal(o.offset, 42, "offsets_for_times")
    equal(c.get_watermark_offsets(TopicPartition(name, 0), 10), (0, 100),
          "watermarks")
    c.assign([o])
    equal(read(c, 1)[0].timestamp()[1], start + 42000, "seek by time")
    c.close()


def too_large():
    name = base + "-large"
    create(name, 1, **{"max.message.bytes": "2000"})
    seen = []
    p = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    p.produce(name, b"x" * 5000, on_delivery=lambda e, m: seen.append(e))
    p.flush(120)
    equal([e.name() for e in seen], ["MSG_SIZE_TOO_LARGE"],
          "max.message.bytes of the topic")


part(admin_calls)
for idempotent in (True, False):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        part(round_trip, codec, idempotent)
part(times)
part(too_large)
done()
