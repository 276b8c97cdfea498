"""kafka-python against the broker at argv[1]: prints TAP."""
import os
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tap import done, equal, ok, part, value

bootstrap = sys.argv[1]
base = f"kp-{os.getpid()}"


def create(name, partitions=1):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, partitions, 1)])
    admin.close()


def consumer(**more):
    return KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False,
                         group_id=None, check_crcs=True, **more)


def read(c, n):
    out, end = [], time.time() + 120
    while len(out) < n and time.time() < end:
        for records in c.poll(timeout_ms=500).values():
            out += records
    return out


def admin_calls():
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    name = base + "-admin"
    admin.create_topics([NewTopic(name, 3, 1)])
    ok(name in admin.list_topics(), "a created topic is listed")
    try:
        admin.create_topics([NewTopic(name, 3, 1)])
        ok(False, "created twice")
    except TopicAlreadyExistsError:
        ok(True, "created twice")
    d = admin.describe_topics([name])[0]
    equal(len(d["partitions"]), 3, "partitions")
    admin.delete_topics([name])
    try:
        admin.delete_topics([name])
        ok(False, "deleted twice")
    except UnknownTopicOrPartitionError:
        ok(True, "deleted twice")
    admin.close()


def round_trip(codec, idempotent):
    n = 500
    name = f"{base}-{codec}-{idempotent}"
    label = f"{codec}, idempotent {idempotent}"
    create(name)
    p = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec,
                      enable_idempotence=idempotent, acks="all", linger_ms=5)
    sent = [p.send(name, value(i), key=str(i).encode(),
                   headers=[("h", b"x")], partition=0) for i in range(n)]
    p.flush()
    equal([f.get(60).offset for f in sent], list(range(n)),
          f"{label}: offsets in order")
    p.close()

    tp = TopicPartition(name, 0)
    c = consumer(auto_offset_reset="earliest")
    c.assign([tp])
    got = read(c, n)
    equal([r.value for r in got], [value(i) for i in range(n)],
          f"{label}: the same records")
    ok(all(list(r.headers) == [("h", b"x")] for r in got), f"{label}: headers")
    c.seek(tp, n - 3)
    equal(read(c, 3)[0].offset, n - 3, f"{label}: seek")
    c.close()


def times():
    name = base + "-times"
    create(name)
    start = int(time.time() * 1000) - 1000000
    p = KafkaProducer(bootstrap_servers=bootstrap)
    for i in range(100):
        p.send(name, value(i), partition=0, timestamp_ms=start + i * 1000)
    p.flush()
    p.close()
    tp = TopicPartition(name, 0)
    c = consumer()
    c.assign([tp])
    o = c.offsets_for_times({tp: start + 41500})[tp]
    equal((o.offset, o.timestamp), (42, start + 42000), "offsets_for_times")
    equal(c.end_offsets([tp])[tp], 100, "end_offsets")
    equal(c.beginning_offsets([tp])[tp], 0, "beginning_offsets")
    c.seek(tp, o.offset)
    equal(read(c, 58)[0].timestamp, start + 42000, "seek by time")
    c.close()


part(admin_calls)
for idempotent in (True, False):
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        part(round_trip, codec, idempotent)
part(times)
done()
