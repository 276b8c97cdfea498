/*
 * The names: every topic config of Kafka 4.4 that means something here, with
 * type, bounds, default and the broker-level names that give it a default; and
 * the broker's own configs that this broker acts on.
 */

#include "kc_config_def.h"

/* Most configs leave the last fields of their entry empty. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"


#define KC_ANY_INT   INT32_MIN, INT32_MAX
#define KC_ANY_LONG  INT64_MIN, INT64_MAX
#define KC_SAME(name, value)  { { name, 1, value } }
#define KC_NONE               { { NULL, 0, NULL } }
#define KC_FOREVER            "9223372036854775807"


const kc_def_t  kc_topic_defs[] = {

    [KC_CLEANUP_POLICY] =
    { "cleanup.policy", KC_LIST, KC_PLAIN, "delete", KC_ANY_LONG,
      "compact,delete", false,
      "What happens to old data: delete removes segments by age and size, "
      "compact keeps the last value of each key; both may be given.",
      KC_SAME("log.cleanup.policy", "delete") },

    [KC_COMPRESSION_TYPE] =
    { "compression.type", KC_STRING, KC_PLAIN, "producer", KC_ANY_LONG,
      "uncompressed,zstd,lz4,snappy,gzip,producer", false,
      "The codec that batches are stored with; producer keeps what the client "
      "chose.",
      KC_SAME("compression.type", "producer") },

    [KC_DELETE_RETENTION_MS] =
    { "delete.retention.ms", KC_LONG, KC_MS, "86400000", 0, INT64_MAX, NULL,
      false, "How long a deletion stays readable in a compacted topic.",
      KC_SAME("log.cleaner.delete.retention.ms", "86400000") },

    [KC_FILE_DELETE_DELAY_MS] =
    { "file.delete.delay.ms", KC_LONG, KC_MS, "60000", 0, INT64_MAX, NULL,
      false, "How long a removed segment's file may stay on the disk.",
      KC_SAME("log.segment.delete.delay.ms", "60000") },

    [KC_FLUSH_MESSAGES] =
    { "flush.messages", KC_LONG, KC_PLAIN, KC_FOREVER, 1, INT64_MAX, NULL,
      false, "Adds a flush to disk after so many records; acknowledgements of "
      "acks=all wait for the disk whatever this says.",
      KC_SAME("log.flush.interval.messages", KC_FOREVER) },

    [KC_FLUSH_MS] =
    { "flush.ms", KC_LONG, KC_MS, KC_FOREVER, 0, INT64_MAX, NULL, false,
      "Adds a flush to disk after so much time; acknowledgements of acks=all "
      "wait for the disk whatever this says.",
      { { "log.flush.interval.ms", 1, NULL },
        { "log.flush.scheduler.interval.ms", 1, KC_FOREVER } } },

    [KC_INDEX_INTERVAL_BYTES] =
    { "index.interval.bytes", KC_INT, KC_BYTES, "4096", 0, INT32_MAX, NULL,
      false, "Bytes of log between two entries of a segment's offset index.",
      KC_SAME("log.index.interval.bytes", "4096") },

    [KC_MAX_COMPACTION_LAG_MS] =
    { "max.compaction.lag.ms", KC_LONG, KC_MS, KC_FOREVER, 1, INT64_MAX, NULL,
      false, "The longest time that a record may stay uncompacted.",
      KC_SAME("log.cleaner.max.compaction.lag.ms", KC_FOREVER) },

    [KC_MAX_DECOMPRESSED_MESSAGE_BYTES] =
    { "max.decompressed.message.bytes", KC_INT, KC_BYTES, "2147483639", 1,
      2147483639, NULL, false,
      "The largest batch after decompression that a producer may send.",
      KC_SAME("max.decompressed.message.bytes", "2147483639") },

    [KC_MAX_MESSAGE_BYTES] =
    { "max.message.bytes", KC_INT, KC_BYTES, "1048588", 0, INT32_MAX, NULL,
      false, "The largest record batch, as sent, that a producer may send.",
      KC_SAME("message.max.bytes", "1048588") },

    [KC_MESSAGE_TIMESTAMP_AFTER_MAX_MS] =
    { "message.timestamp.after.max.ms", KC_LONG, KC_MS, "3600000", 0,
      INT64_MAX, NULL, false,
      "How far in the future a record's timestamp may be.",
      KC_SAME("log.message.timestamp.after.max.ms", "3600000") },

    [KC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS] =
    { "message.timestamp.before.max.ms", KC_LONG, KC_MS, KC_FOREVER, 0,
      INT64_MAX, NULL, false,
      "How far in the past a record's timestamp may be.",
      KC_SAME("log.message.timestamp.before.max.ms", KC_FOREVER) },

    [KC_MESSAGE_TIMESTAMP_TYPE] =
    { "message.timestamp.type", KC_STRING, KC_PLAIN, "CreateTime", KC_ANY_LONG,
      "CreateTime,LogAppendTime", false,
      "Whether records keep the producer's time or get the broker's.",
      KC_SAME("log.message.timestamp.type", "CreateTime") },

    [KC_MIN_CLEANABLE_DIRTY_RATIO] =
    { "min.cleanable.dirty.ratio", KC_DOUBLE, KC_PLAIN, "0.5", 0, 1, NULL,
      false, "The uncompacted share of a log at which compaction begins.",
      KC_SAME("log.cleaner.min.cleanable.ratio", "0.5") },

    [KC_MIN_COMPACTION_LAG_MS] =
    { "min.compaction.lag.ms", KC_LONG, KC_MS, "0", 0, INT64_MAX, NULL, false,
      "The least time that a record stays uncompacted.",
      KC_SAME("log.cleaner.min.compaction.lag.ms", "0") },

    [KC_MIN_INSYNC_REPLICAS] =
    { "min.insync.replicas", KC_INT, KC_PLAIN, "1", 1, INT32_MAX, NULL, false,
      "Copies that acks=all asks for.  There is one copy here: above 1 such "
      "requests are refused.",
      KC_SAME("min.insync.replicas", "1") },

    [KC_PREALLOCATE] =
    { "preallocate", KC_BOOLEAN, KC_PLAIN, "false", KC_ANY_LONG, NULL, false,
      "Accepted for tools; a segment's file is never longer than its data.",
      KC_SAME("log.preallocate", "false") },

    [KC_RETENTION_BYTES] =
    { "retention.bytes", KC_LONG, KC_BYTES, "-1", KC_ANY_LONG, NULL, false,
      "The size of a partition above which its oldest segments go; -1: no "
      "bound.",
      KC_SAME("log.retention.bytes", "-1") },

    [KC_RETENTION_MS] =
    { "retention.ms", KC_LONG, KC_MS, "604800000", -1, INT64_MAX, NULL, false,
      "How long records are kept; -1: for ever.",
      { { "log.retention.ms", 1, NULL },
        { "log.retention.minutes", 60000, NULL },
        { "log.retention.hours", 3600000, "168" } } },

    [KC_SEGMENT_BYTES] =
    { "segment.bytes", KC_INT, KC_BYTES, "1073741824", 1048576, INT32_MAX,
      NULL, false, "The size at which a new segment file is begun.",
      KC_SAME("log.segment.bytes", "1073741824") },

    [KC_SEGMENT_INDEX_BYTES] =
    { "segment.index.bytes", KC_INT, KC_BYTES, "10485760", 4, INT32_MAX, NULL,
      false, "The size of a segment's index at which a new one is begun.",
      KC_SAME("log.index.size.max.bytes", "10485760") },

    [KC_SEGMENT_JITTER_MS] =
    { "segment.jitter.ms", KC_LONG, KC_MS, "0", 0, INT64_MAX, NULL, false,
      "Up to how much earlier than segment.ms a segment may be closed.",
      { { "log.roll.jitter.ms", 1, NULL },
        { "log.roll.jitter.hours", 3600000, "0" } } },

    [KC_SEGMENT_MS] =
    { "segment.ms", KC_LONG, KC_MS, "604800000", 1, INT64_MAX, NULL, false,
      "The age at which a new segment file is begun.",
      { { "log.roll.ms", 1, NULL },
        { "log.roll.hours", 3600000, "168" } } },

    [KC_UNCLEAN_LEADER_ELECTION_ENABLE] =
    { "unclean.leader.election.enable", KC_BOOLEAN, KC_PLAIN, "false",
      KC_ANY_LONG, NULL, false,
      "Accepted for tools; with one copy there is no election.",
      KC_SAME("unclean.leader.election.enable", "false") },

    [KC_WRITE_CACHING] =
    { "write.caching", KC_BOOLEAN, KC_PLAIN, "false", KC_ANY_LONG, NULL, false,
      "false: consumers see records once they are on the disk; true: at once, "
      "so that a power cut can take back what they saw. The broker's value is "
      "for groups, offsets and transactions, too.",
      KC_SAME("write.caching", "false") },

    { "compression.gzip.level", KC_INT, KC_PLAIN, "-1", -1, 9, NULL, false,
      "The gzip level where this broker compresses.",
      KC_SAME("compression.gzip.level", "-1") },

    { "compression.lz4.level", KC_INT, KC_PLAIN, "9", 1, 17, NULL, false,
      "The lz4 level where this broker compresses.",
      KC_SAME("compression.lz4.level", "9") },

    { "compression.zstd.level", KC_INT, KC_PLAIN, "3", -131072, 22, NULL,
      false, "The zstd level where this broker compresses.",
      KC_SAME("compression.zstd.level", "3") },

    { "leader.replication.throttled.replicas", KC_LIST, KC_PLAIN, "",
      KC_ANY_LONG, NULL, false,
      "Accepted for tools; there is no replication to throttle.", KC_NONE },

    { "follower.replication.throttled.replicas", KC_LIST, KC_PLAIN, "",
      KC_ANY_LONG, NULL, false,
      "Accepted for tools; there is no replication to throttle.", KC_NONE },

    { "remote.storage.enable", KC_BOOLEAN, KC_PLAIN, "false", 0, 0, NULL,
      false, "Tiered storage; not supported, so only false is accepted.",
      KC_NONE }
};

const uint32_t  kc_topic_defs_n =
                            sizeof(kc_topic_defs) / sizeof(kc_topic_defs[0]);


const kc_def_t  kc_broker_defs[KC_BROKER_CONFIGS] = {

    [KC_AUTO_CREATE_TOPICS_ENABLE] =
    { "auto.create.topics.enable", KC_BOOLEAN, KC_PLAIN, "true", KC_ANY_LONG,
      NULL, true, "Whether asking for an unknown topic creates it.", KC_NONE },

    [KC_NUM_PARTITIONS] =
    { "num.partitions", KC_INT, KC_PLAIN, "1", 1, INT32_MAX, NULL, true,
      "Partitions of a topic that is created without a number.", KC_NONE },

    [KC_DEFAULT_REPLICATION_FACTOR] =
    { "default.replication.factor", KC_INT, KC_PLAIN, "1", 1, 1, NULL, true,
      "Copies of a topic that is created without a number; there is one.",
      KC_NONE },

    [KC_DELETE_TOPIC_ENABLE] =
    { "delete.topic.enable", KC_BOOLEAN, KC_PLAIN, "true", KC_ANY_LONG, NULL,
      true, "Whether clients may delete topics.", KC_NONE },

    [KC_LOG_RETENTION_CHECK_INTERVAL_MS] =
    { "log.retention.check.interval.ms", KC_LONG, KC_MS, "300000", 1,
      INT64_MAX, NULL, true, "How often retention is looked after.", KC_NONE },

    [KC_PRODUCER_ID_EXPIRATION_MS] =
    { "producer.id.expiration.ms", KC_INT, KC_MS, "86400000", 1, INT32_MAX,
      NULL, false, "How long a partition remembers an idle producer.",
      KC_NONE },

    [KC_SOCKET_REQUEST_MAX_BYTES] =
    { "socket.request.max.bytes", KC_INT, KC_BYTES, "104857600", 1, INT32_MAX,
      NULL, true, "The largest request; a larger one closes the connection.",
      KC_NONE },

    [KC_CONNECTIONS_MAX_IDLE_MS] =
    { "connections.max.idle.ms", KC_LONG, KC_MS, "600000", KC_ANY_LONG, NULL,
      true, "How long a connection may be idle; negative: for ever.", KC_NONE },

    [KC_FETCH_MAX_BYTES] =
    { "fetch.max.bytes", KC_INT, KC_BYTES, "57671680", 1024, INT32_MAX, NULL,
      true, "The most that one fetch is answered with.", KC_NONE },

    [KC_MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS] =
    { "max.incremental.fetch.session.cache.slots", KC_INT, KC_PLAIN, "1000", 0,
      INT32_MAX, NULL, true, "Fetch sessions that a worker keeps.", KC_NONE },

    [KC_GROUP_MIN_SESSION_TIMEOUT_MS] =
    { "group.min.session.timeout.ms", KC_INT, KC_MS, "6000", 1, INT32_MAX,
      NULL, true, "The shortest session that a group's member may ask for.",
      KC_NONE },

    [KC_GROUP_MAX_SESSION_TIMEOUT_MS] =
    { "group.max.session.timeout.ms", KC_INT, KC_MS, "1800000", 1, INT32_MAX,
      NULL, true, "The longest session that a group's member may ask for.",
      KC_NONE },

    [KC_GROUP_INITIAL_REBALANCE_DELAY_MS] =
    { "group.initial.rebalance.delay.ms", KC_INT, KC_MS, "0", 0, INT32_MAX,
      NULL, true, "How long an empty group waits for more members after its "
      "first one joined.  0 here, so that a lone consumer begins at once; 3000 "
      "in Apache Kafka.", KC_NONE },

    [KC_GROUP_MAX_SIZE] =
    { "group.max.size", KC_INT, KC_PLAIN, "2147483647", 1, INT32_MAX, NULL,
      true, "The most members of a group.", KC_NONE },

    [KC_OFFSETS_RETENTION_MINUTES] =
    { "offsets.retention.minutes", KC_INT, KC_PLAIN, "10080", 1, INT32_MAX,
      NULL, true, "How long committed offsets are kept once the group is "
      "empty, or since the commit if it never had members.", KC_NONE },

    [KC_OFFSETS_RETENTION_CHECK_INTERVAL_MS] =
    { "offsets.retention.check.interval.ms", KC_LONG, KC_MS, "600000", 1,
      INT64_MAX, NULL, true, "How often each group is checked for offsets that "
      "have expired.", KC_NONE },

    [KC_OFFSET_METADATA_MAX_BYTES] =
    { "offset.metadata.max.bytes", KC_INT, KC_BYTES, "4096", 0, INT32_MAX,
      NULL, true, "The longest text that a committed offset may carry.",
      KC_NONE },

    [KC_TRANSACTION_MAX_TIMEOUT_MS] =
    { "transaction.max.timeout.ms", KC_INT, KC_MS, "900000", 1, INT32_MAX,
      NULL, true, "The longest timeout that a transactional producer may ask "
      "for.", KC_NONE },

    [KC_TRANSACTIONAL_ID_EXPIRATION_MS] =
    { "transactional.id.expiration.ms", KC_INT, KC_MS, "604800000", 1,
      INT32_MAX, NULL, true, "How long a transactional id is kept after its "
      "last use.", KC_NONE },

    [KC_TRANSACTION_ABORT_INTERVAL_MS] =
    { "transaction.abort.timed.out.transaction.cleanup.interval.ms", KC_INT,
      KC_MS, "10000", 1, INT32_MAX, NULL, true, "How often transactions are "
      "aborted that have passed their timeout.", KC_NONE },

    [KC_TRANSACTION_REMOVE_INTERVAL_MS] =
    { "transaction.remove.expired.transaction.cleanup.interval.ms", KC_INT,
      KC_MS, "3600000", 1, INT32_MAX, NULL, true, "How often transactional ids "
      "are removed that have expired.", KC_NONE }
};


static bool
kc_named(const char *name, kf_str_t s)
{
    size_t  len = strlen(name);

    return len == s.len && memcmp(name, s.data, len) == 0;
}


const kc_def_t *
kc_topic_def(kf_str_t name)
{
    uint32_t  i;

    for (i = 0; i < kc_topic_defs_n; i++) {
        if (kc_named(kc_topic_defs[i].name, name)) {
            return &kc_topic_defs[i];
        }
    }

    return NULL;
}


const kc_def_t *
kc_broker_def(kf_str_t name, const kc_synonym_t **syn)
{
    uint32_t         i, j;
    const kc_def_t  *def;

    *syn = NULL;

    for (i = 0; i < KC_BROKER_CONFIGS; i++) {
        if (kc_named(kc_broker_defs[i].name, name)) {
            return &kc_broker_defs[i];
        }
    }

    for (i = 0; i < kc_topic_defs_n; i++) {
        def = &kc_topic_defs[i];

        for (j = 0; j < KC_SYNONYMS && def->synonyms[j].factor; j++) {
            if (kc_named(def->synonyms[j].name, name)) {
                *syn = &def->synonyms[j];
                return def;
            }
        }
    }

    return NULL;
}
