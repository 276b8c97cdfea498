/*
 * Configuration values: what Kafka takes and refuses, which one is in force.
 */

#include "coordinator_lib.h"
#include "../../coordinator/kc_config_def.h"

static char  problem[256];


static const char *
takes(const char *name, const char *value, kc_value_t *v)
{
    const kc_def_t  *def = kc_topic_def(s(name));

    if (def == NULL) {
        return "unknown";
    }

    return kc_value_parse(def, NULL, s(value), v, problem, sizeof(problem));
}


static const struct {
    const char  *name;
    const char  *value;
    const char  *text;              /* canonical, or NULL: refused */
    int64_t      number;
} values[] = {
    /* as LogConfig of kafka-storage 4.4 answers */
    { "cleanup.policy", "delete", "delete", 1 },
    { "cleanup.policy", "compact , delete", "compact,delete", 3 },
    { "cleanup.policy", "delete,delete", "delete", 1 },
    { "cleanup.policy", "", "", 0 },
    { "cleanup.policy", "x", NULL, 0 },
    { "cleanup.policy", "Delete", NULL, 0 },
    { "cleanup.policy", "delete,", NULL, 0 },
    { "retention.bytes", "-7", "-7", -7 },
    { "retention.ms", "abc", NULL, 0 },
    { "retention.ms", "-1", "-1", -1 },
    { "retention.ms", "-2", NULL, 0 },
    { "retention.ms", " +5 ", "5", 5 },
    { "retention.ms", "", NULL, 0 },
    { "retention.ms", "-", NULL, 0 },
    { "retention.ms", "7d", NULL, 0 },
    { "retention.ms", "9223372036854775807", "9223372036854775807", INT64_MAX },
    { "retention.ms", "9223372036854775808", NULL, 0 },
    { "retention.bytes", "-9223372036854775808", "-9223372036854775808",
      INT64_MIN },
    { "retention.bytes", "-9223372036854775809", NULL, 0 },
    { "segment.bytes", "100", NULL, 0 },
    { "segment.bytes", "1048576", "1048576", 1048576 },
    { "segment.bytes", "2147483648", NULL, 0 },
    { "max.message.bytes", "99999999999", NULL, 0 },
    { "max.decompressed.message.bytes", "2147483640", NULL, 0 },
    { "preallocate", " TRUE ", "true", 1 },
    { "preallocate", "False", "false", 0 },
    { "preallocate", "yes", NULL, 0 },
    { "min.cleanable.dirty.ratio", "5e-1", "5e-1", 500000 },
    { "min.cleanable.dirty.ratio", "2", NULL, 0 },
    { "min.cleanable.dirty.ratio", "-0.1", NULL, 0 },
    { "min.cleanable.dirty.ratio", "nan", NULL, 0 },
    { "min.cleanable.dirty.ratio", "0x1", NULL, 0 },
    { "compression.type", "gzip ", "gzip", KF_CODEC_GZIP },
    { "compression.type", "snappy", "snappy", KF_CODEC_SNAPPY },
    { "compression.type", "lz4", "lz4", KF_CODEC_LZ4 },
    { "compression.type", "zstd", "zstd", KF_CODEC_ZSTD },
    { "compression.type", "uncompressed", "uncompressed", KF_CODEC_NONE },
    { "compression.type", "producer", "producer", -1 },
    { "compression.type", "none", NULL, 0 },
    { "compression.gzip.level", "-1", "-1", -1 },
    { "compression.gzip.level", "0", NULL, 0 },
    { "compression.gzip.level", "9", "9", 9 },
    { "compression.zstd.level", "23", NULL, 0 },
    { "message.timestamp.type", "LogAppendTime", "LogAppendTime", 1 },
    { "message.timestamp.type", "CreateTime", "CreateTime", 0 },
    { "message.timestamp.type", "createtime", NULL, 0 },
    { "min.insync.replicas", "5", "5", 5 },
    { "min.insync.replicas", "0", NULL, 0 },
    { "leader.replication.throttled.replicas", "0:1,3:1", "0:1,3:1", 0 },
    { "leader.replication.throttled.replicas", "*", "*", 0 },
    { "leader.replication.throttled.replicas", "x", NULL, 0 },
    /* ours */
    { "write.caching", "true", "true", 1 },
    { "remote.storage.enable", "false", "false", 0 },
    { "remote.storage.enable", "true", NULL, 0 },
};


int
main(void)
{
    size_t             i;
    world_t            w;
    kc_topic_t         t;
    kc_value_t         v;
    const char        *why;
    kc_config_entry_t  own = { s("retention.ms"), s("1") };
    kc_config_entry_t  st[] = {
        { s("log.retention.hours"), s("2") },
        { s("log.roll.ms"), s("3") },
        { s("log.roll.hours"), s("4") },
        { s("num.partitions"), s("6") },
        { s("write.caching"), s("true") },
    };

    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        why = takes(values[i].name, values[i].value, &v);

        if (values[i].text == NULL) {
            ok(why != NULL, "%s does not take \"%s\": %s", values[i].name,
               values[i].value, why ? why : "");
            continue;
        }

        ok(why == NULL && strcmp(v.text, values[i].text) == 0
           && v.len == strlen(values[i].text) && v.number == values[i].number,
           "%s takes \"%s\" as \"%s\", %lld", values[i].name, values[i].value,
           values[i].text, (long long) values[i].number);

        if (why || v.number != values[i].number) {
            diag("%s", why ? why : v.text);
        }
    }

    /* every default is a value that its own config takes */
    for (i = 0; i < kc_topic_defs_n; i++) {
        why = takes(kc_topic_defs[i].name, kc_topic_defs[i].value, &v);
        ok(why == NULL, "the default of %s is good", kc_topic_defs[i].name);
    }

    /* which one is in force */
    world_start(&w);
    memset(&t, 0, sizeof(t));

#define T(name)  kc_topic_config_int(&w.kc, &w.config, &t, name)

    is(T(KC_RETENTION_MS), 604800000, "the default");
    is(kc_topic_config_int(&w.kc, NULL, NULL, KC_RETENTION_MS), 604800000,
       "without a topic and without lines too");
    w.config.entries = st;
    w.config.count = sizeof(st) / sizeof(st[0]);
    is(T(KC_RETENTION_MS), 7200000, "a line, in hours");
    is(T(KC_SEGMENT_MS), 3, "of two synonyms the finer one");
    is(T(KC_WRITE_CACHING), 1, "write.caching of the broker");
    is(kc_broker_config_int(&w.kc, &w.config, KC_NUM_PARTITIONS), 6,
       "num.partitions");
    is(kc_broker_config_int(&w.kc, NULL, KC_NUM_PARTITIONS), 1,
       "and its default");
    t.configs = &own;
    t.config_count = 1;
    is(T(KC_RETENTION_MS), 1, "the topic's own");
    own.value = s("rubbish");
    is(T(KC_RETENTION_MS), 604800000,
       "a stored value that is not one: the default holds");

    world_end(&w);

    return done_testing();
}
