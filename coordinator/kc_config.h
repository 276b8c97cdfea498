/*
 * Kafka's configuration names: which exist, their types, bounds, defaults and
 * synonyms, for topics and for the broker.
 *
 * A topic's effective value: its own override, else the broker's dynamic config
 * (resource 4), else a `config NAME VALUE` line of nginx.conf, else Kafka's
 * default.  Synonyms (log.retention.hours, …) are as in Kafka.
 */

#ifndef KC_CONFIG_H
#define KC_CONFIG_H

#include "kc.h"

#pragma GCC visibility push(hidden)


/* The topic configs that code asks for by number; kc_config.c has the names. */
typedef enum {
    KC_CLEANUP_POLICY = 0, KC_COMPRESSION_TYPE, KC_DELETE_RETENTION_MS,
    KC_FILE_DELETE_DELAY_MS, KC_FLUSH_MESSAGES, KC_FLUSH_MS,
    KC_INDEX_INTERVAL_BYTES, KC_MAX_COMPACTION_LAG_MS,
    KC_MAX_DECOMPRESSED_MESSAGE_BYTES, KC_MAX_MESSAGE_BYTES,
    KC_MESSAGE_TIMESTAMP_AFTER_MAX_MS, KC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    KC_MESSAGE_TIMESTAMP_TYPE, KC_MIN_CLEANABLE_DIRTY_RATIO,
    KC_MIN_COMPACTION_LAG_MS, KC_MIN_INSYNC_REPLICAS, KC_PREALLOCATE,
    KC_RETENTION_BYTES, KC_RETENTION_MS, KC_SEGMENT_BYTES,
    KC_SEGMENT_INDEX_BYTES, KC_SEGMENT_JITTER_MS, KC_SEGMENT_MS,
    KC_UNCLEAN_LEADER_ELECTION_ENABLE, KC_WRITE_CACHING,
    KC_TOPIC_CONFIGS                    /* how many */
} kc_topic_config_t;

/* … and of the broker's own. */
typedef enum {
    KC_AUTO_CREATE_TOPICS_ENABLE = 0, KC_NUM_PARTITIONS,
    KC_DEFAULT_REPLICATION_FACTOR, KC_DELETE_TOPIC_ENABLE,
    KC_LOG_RETENTION_CHECK_INTERVAL_MS, KC_PRODUCER_ID_EXPIRATION_MS,
    KC_SOCKET_REQUEST_MAX_BYTES, KC_CONNECTIONS_MAX_IDLE_MS,
    KC_FETCH_MAX_BYTES, KC_MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    KC_GROUP_MIN_SESSION_TIMEOUT_MS, KC_GROUP_MAX_SESSION_TIMEOUT_MS,
    KC_GROUP_INITIAL_REBALANCE_DELAY_MS, KC_GROUP_MAX_SIZE,
    KC_OFFSETS_RETENTION_MINUTES, KC_OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    KC_OFFSET_METADATA_MAX_BYTES,
    KC_TRANSACTION_MAX_TIMEOUT_MS, KC_TRANSACTIONAL_ID_EXPIRATION_MS,
    KC_TRANSACTION_ABORT_INTERVAL_MS, KC_TRANSACTION_REMOVE_INTERVAL_MS,
    KC_BROKER_CONFIGS
} kc_broker_config_t;

/* The `config NAME VALUE` lines of one broker block, in the caller's memory. */
typedef struct {
    kc_config_entry_t  *entries;        /* in order; names unique */
    uint32_t            count;
    /* Read-only facts that only the caller knows and DescribeConfigs shows,
       such as log.dirs; may be none. */
    kc_config_entry_t  *facts;
    uint32_t            facts_count;
} kc_static_t;

/*
 * Checks one `config` line.  NULL when it is good, else a text that says what
 * is wrong and what to write instead (into buf).  value may use nginx's units
 * (64m, 7d) where Kafka wants bytes or milliseconds: *out is the value as Kafka
 * writes it, in buf2 or value itself.
 */
const char *kc_static_check(kf_str_t name, kf_str_t value, kf_str_t *out,
    char *buf, size_t buf_size, char *buf2, size_t buf2_size);

/* Effective numbers (booleans are 0/1; enumerations as below). */
int64_t kc_topic_config_int(const kc_t *kc, const kc_static_t *st,
    const kc_topic_t *t, kc_topic_config_t name);
int64_t kc_broker_config_int(const kc_t *kc, const kc_static_t *st,
    kc_broker_config_t name);

#define KC_POLICY_DELETE   1            /* bits of KC_CLEANUP_POLICY */
#define KC_POLICY_COMPACT  2
#define KC_COMPRESSION_PRODUCER  (-1)   /* else a kf_codec_t */
#define KC_CREATE_TIME      0           /* KC_MESSAGE_TIMESTAMP_TYPE */
#define KC_LOG_APPEND_TIME  1


#pragma GCC visibility pop

#endif
