/*
 * `config NAME VALUE` lines: units, and a text for each kind of mistake.
 */

#include "coordinator_lib.h"

static char      buf[512], buf2[64];
static kf_str_t  out;


static const char *
check(const char *name, const char *value)
{
    buf[0] = buf2[0] = '\0';
    out = kf_null_str;

    return kc_static_check(s(name), s(value), &out, buf, sizeof(buf), buf2,
                           sizeof(buf2));
}


static void
takes(const char *name, const char *value, const char *want)
{
    const char  *why = check(name, value);

    ok(why == NULL && strcmp(c(out), want) == 0, "%s %s is %s", name, value,
       want);

    if (why) {
        diag("%s", why);
    }
}


static void
refuses(const char *name, const char *value, const char *want)
{
    const char  *why = check(name, value);

    ok(why && strstr(why, want), "%s %s: %s", name, value, want);
    diag("%s", why ? why : "taken");
}


int
main(void)
{
    /* Kafka's own syntax */
    takes("log.retention.ms", "604800000", "604800000");
    takes("log.retention.ms", "-1", "-1");
    takes("log.retention.hours", "168", "168");
    takes("log.segment.bytes", "1073741824", "1073741824");
    takes("num.partitions", "3", "3");
    takes("auto.create.topics.enable", "FALSE", "false");
    takes("log.cleanup.policy", "compact, delete", "compact,delete");
    takes("log.cleaner.min.cleanable.ratio", "0.3", "0.3");
    takes("compression.type", "zstd", "zstd");
    takes("write.caching", "true", "true");
    takes("default.replication.factor", "1", "1");

    /* nginx's units */
    takes("log.retention.ms", "7d", "604800000");
    takes("log.retention.ms", "1h30m", "5400000");
    takes("log.retention.ms", "500ms", "500");
    takes("log.retention.ms", "1w", "604800000");
    takes("log.segment.bytes", "64m", "67108864");
    takes("log.segment.bytes", "1G", "1073741824");
    takes("message.max.bytes", "512k", "524288");
    takes("log.retention.bytes", "1g", "1073741824");
    takes("producer.id.expiration.ms", "1d", "86400000");

    /* wrong values */
    refuses("log.retention.ms", "7x", "7d or 1h30m");
    refuses("log.retention.ms", "d", "7d or 1h30m");
    refuses("log.segment.bytes", "64mb", "64m or 1g");
    refuses("log.segment.bytes", "1m1k", "64m or 1g");
    refuses("log.segment.bytes", "3g", "from 1048576 to 2147483647");
    refuses("log.retention.hours", "9999999999", "at least -1");
    refuses("num.partitions", "99999999999999999999", "whole number");
    refuses("log.segment.bytes", "1k", "at least 1048576");
    refuses("log.retention.ms", "99999999999999999y", "a time");
    refuses("log.retention.hours", "7d", "units can be used with "
            "\"log.retention.ms\"");
    refuses("log.retention.hours", "-2", "at least -1");
    refuses("log.roll.hours", "0", "at least 1");
    refuses("num.partitions", "0", "at least 1");
    refuses("num.partitions", "4k", "whole number");
    refuses("default.replication.factor", "3", "only be 1");
    refuses("auto.create.topics.enable", "on", "true or false");
    refuses("compression.type", "none", "one of uncompressed");
    refuses("log.cleaner.min.cleanable.ratio", "1.5", "from 0 to 1");

    /* names that belong elsewhere */
    refuses("retention.ms", "7d", "\"log.retention.ms\"");
    refuses("segment.bytes", "1g", "\"log.segment.bytes\"");
    refuses("max.message.bytes", "1m", "\"message.max.bytes\"");
    refuses("leader.replication.throttled.replicas", "*", "on a topic");
    refuses("log.dirs", "/tmp/kafka-logs", "\"data DIR;\"");
    refuses("log.dir", "/tmp/kafka-logs", "\"data DIR;\"");
    refuses("listeners", "PLAINTEXT://:9092", "\"listen PORT;\"");
    refuses("advertised.listeners", "PLAINTEXT://h:9092", "kafka_advertise");
    refuses("listener.security.protocol.map", "x", "\"listen PORT;\"");
    refuses("node.id", "1", "\"node_id N;\"");
    refuses("broker.id", "1", "\"node_id N;\"");
    refuses("process.roles", "broker", "its own controller");
    refuses("controller.quorum.voters", "1@x", "its own controller");
    refuses("zookeeper.connect", "x", "no ZooKeeper");
    refuses("num.io.threads", "8", "thread_pool");
    refuses("num.replica.fetchers", "1", "one broker");
    refuses("socket.send.buffer.bytes", "1", "sndbuf");
    refuses("ssl.keystore.location", "x", "ssl_certificate");
    refuses("sasl.enabled.mechanisms", "PLAIN", "not supported");
    refuses("transaction.state.log.replication.factor", "1", "journal");
    refuses("transaction.two.phase.commit.enable", "true", "journal");
    refuses("offsets.topic.replication.factor", "1", "journal");
    refuses("group.share.enable", "true", "nothing that it would tune");
    refuses("metric.reporters", "x", "error log");
    refuses("metrics.num.samples", "2", "error log");

    /* typing mistakes */
    refuses("log.retention.sm", "7d", "did you mean \"log.retention.ms\"?");
    refuses("log.retetnion.hours", "7", "\"log.retention.hours\"?");
    refuses("num.partition", "1", "\"num.partitions\"?");
    refuses("write.cache", "true", "\"write.caching\"?");
    refuses("auto.create.topic.enable", "true",
            "\"auto.create.topics.enable\"?");
    refuses("quite.something.else.altogether", "1", "the README lists");
    refuses("", "1", "unknown config");
    refuses("x", "1", "unknown config");

    return done_testing();
}
