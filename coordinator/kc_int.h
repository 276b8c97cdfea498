/*
 * What the files of the coordinator share: the layout of the state, and the
 * machinery of a decision.  Nobody else includes this.
 */

#ifndef KC_INT_H
#define KC_INT_H

#include "kc.h"
#include "kc_map.h"
#include "kc_request.h"
#include "kc_reserve.h"
#include "../codec/gen/kf_journal.h"

#pragma GCC visibility push(hidden)


#define KC_BATCH_MAX       (512 * 1024)     /* bytes of an ordinary decision */
#define KC_PARTITIONS_MAX  (1024 * 1024)    /* of a topic: a sane bound */
#define KC_TOPIC_NAME_MAX  249
#define KC_PID_BLOCK       1000             /* producer ids of one record */
#define KC_FORMAT_VERSION  1                /* of snapshots */

#define KC_RESOURCE_TOPIC   2
#define KC_RESOURCE_BROKER  4
#define KC_RESOURCE_CLIENT_METRICS  16


/* Stays on in release builds: only our own bugs reach it, and a worker that
   dies here makes the next one rebuild the state from the journal. */
#define kc_assert(x)                                                          \
    ((x) ? (void) 0 : kc_assert_failed(#x, __FILE__, __LINE__))

_Noreturn void kc_assert_failed(const char *what, const char *file, int line);

/* Formats kc->problem and returns rc. */
kc_rc_t kc_fail(kc_t *kc, kc_rc_t rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));


/* --- the state ---------------------------------------------------------- */

/* A set of overrides in one block: the entries, then their texts. */
typedef struct {
    kc_config_entry_t  *entries;            /* NULL when there is none */
    uint32_t            count;
    size_t              size;               /* of the block */
} kc_configs_t;

typedef struct {
    kc_topic_t          pub;                /* first: the caller's view */
    kc_node_t           by_name;
    kc_node_t           by_id;
    kc_node_t           by_alias;           /* name with '.' as '_' */
    size_t              size;               /* of this block, names too */
    int32_t            *slots;
    kc_configs_t        configs;
    struct kc_group_topic_s  *offsets;      /* of the groups that have any */
} kc_topic_obj_t;

/* Groups and their offsets: kc_group_int.h. */
typedef struct {
    kc_map_t            by_id;
    kc_map_t            by_due;             /* volatile: deadlines */
    uint64_t            serial;             /* volatile: groups, tickets */
    int64_t             changed;            /* end of the last change of any */
} kc_groups_t;

/* Transactional ids: kc_txn_int.h.  Each is in one of the maps by time. */
typedef struct {
    kc_map_t            by_id;
    kc_map_t            by_pid;             /* kc_txn_t, while one is open */
    kc_map_t            idle;               /* by last change, wall */
    kc_map_t            ongoing;            /* by end of its timeout, wall */
    kc_map_t            prepared;           /* by serial */
    uint64_t            serial;             /* volatile */
    int64_t             changed;            /* end of the last change of any */
    int64_t             reap_at;            /* volatile, mono: next timeouts */
    int64_t             expire_at;          /* volatile, mono: next expiry */
    uint64_t            committed;          /* volatile, and below */
    uint64_t            aborted;
    uint64_t            timed_out;
    uint64_t            fenced;
} kc_txns_t;

struct kc_state_s {
    int64_t             applied;            /* journal offset replayed up to */

    bool                loading;            /* inside a snapshot */
    int64_t             loading_records;

    uint8_t             cluster_id[24];
    uint32_t            cluster_id_len;     /* 0: not bootstrapped */
    int64_t             cluster_id_changed;

    int32_t             leader_epoch;

    int64_t             producer_id_next;   /* all below may be given out */
    int64_t             producer_ids_changed;
    int64_t             block_next;         /* volatile: ids at hand */
    int64_t             block_end;

    kc_map_t            topics;
    kc_map_t            topics_by_id;
    kc_map_t            topics_by_alias;
    uint64_t            partitions;
    uint64_t            topics_version;
    int64_t             topics_changed;

    kc_configs_t        broker_configs;
    kc_map_t            client_metrics;     /* resources: kc_resource.c */

    kc_groups_t         groups;
    kc_txns_t           txns;
};


/* --- decisions: kc_record.c --------------------------------------------- */

/* A decoded record on its way to being applied. */
typedef struct kc_record_s  kc_record_t;

struct kc_record_s {
    kc_record_t  *next;
    int16_t       type;
    void         *body;                     /* kf_<name>_record_t */
    void         *plan;                     /* of what was reserved */
};

/*
 * kc_begin(), kc_put() …, kc_commit().  kc_put encodes a record into the batch,
 * decodes it again and reserves what its replay will take; after any failure
 * but KC_TOO_LARGE (which leaves the decision as it was) and KC_OK only
 * kc_abandon() may follow.  kc_commit appends and replays, or abandons;
 * *end: the journal offset after the batch; untouched when there is no record.
 */
void kc_begin(kc_t *kc, kc_time_t now);
/* For a decision of up to KC_DECISION_MAX: a group with all its members. */
void kc_begin_large(kc_t *kc, kc_time_t now);
kc_rc_t kc_put(kc_t *kc, kf_journal_number_t type, const void *record);
kc_rc_t kc_commit(kc_t *kc, int64_t *end);
void kc_abandon(kc_t *kc);

/* Memory for a decision to think with, up to limit bytes, until done; one user
 * at a time. */
void kc_scratch(kc_t *kc, kf_arena_t *arena, size_t limit);
void kc_scratch_done(kc_t *kc);

/* Decodes one record of a batch, checks its version, reserves for it. */
kc_rc_t kc_record_take(kc_t *kc, kf_bytes_t value);
void kc_records_clear(kc_t *kc);

/* Encodes type, version and body; bytes written, 0: does not fit. */
size_t kc_record_encode(kf_journal_number_t type, const void *record,
    uint8_t *buf, size_t size);

/* Applies the records taken, in order: kc_replay.c. */
kc_rc_t kc_apply_records(kc_t *kc, int64_t end);


/* --- per record type ---------------------------------------------------- */

bool kc_topic_reserve(kc_t *kc, const kf_topic_record_t *r);
kc_rc_t kc_topic_apply(kc_t *kc, const kf_topic_record_t *r, int64_t end);
kc_rc_t kc_topic_delete_apply(kc_t *kc, const kf_delete_topic_record_t *r,
    int64_t end);
bool kc_partitions_reserve(kc_t *kc, const kf_partitions_record_t *r);
kc_rc_t kc_partitions_apply(kc_t *kc, const kf_partitions_record_t *r,
    int64_t end);
bool kc_configs_reserve(kc_t *kc, const kf_config_record_t *r);
kc_rc_t kc_configs_apply(kc_t *kc, const kf_config_record_t *r, int64_t end);
void kc_configs_drop(kc_t *kc, kc_configs_t *set);
void kc_topics_free(kc_t *kc);
/* A set of a resource with a name; false: not of that kind, *set stays. */
bool kc_resource_reserve(kc_t *kc, const kf_config_record_t *r);
bool kc_resource_apply(kc_t *kc, const kf_config_record_t *r,
    kc_configs_t *set);
const kc_config_entry_t *kc_resource_configs(const kc_t *kc, int8_t type,
    kf_str_t name, uint32_t *n);
void kc_resources_free(kc_t *kc);
const char *kc_check_resources(const kc_t *kc);
const char *kc_check_overrides(const kc_config_entry_t *e, uint32_t n);
kc_rc_t kc_topics_bind(kc_t *kc);
kc_rc_t kc_producer_ids_apply(kc_t *kc, const kf_producer_ids_record_t *r,
    int64_t end);
kc_rc_t kc_snapshot_start_apply(kc_t *kc, const kf_snapshot_start_record_t *r);
kc_rc_t kc_snapshot_end_apply(kc_t *kc, const kf_snapshot_end_record_t *r);

bool kc_group_reserve(kc_t *kc, const kf_group_record_t *r);
kc_rc_t kc_group_apply(kc_t *kc, const kf_group_record_t *r, int64_t end);
bool kc_group_assignment_reserve(kc_t *kc,
    const kf_group_assignment_record_t *r);
kc_rc_t kc_group_assignment_apply(kc_t *kc,
    const kf_group_assignment_record_t *r, int64_t end);
bool kc_group_member_reserve(kc_t *kc, const kf_group_member_record_t *r);
kc_rc_t kc_group_member_apply(kc_t *kc, const kf_group_member_record_t *r,
    int64_t end);
kc_rc_t kc_group_delete_apply(kc_t *kc, const kf_delete_group_record_t *r,
    int64_t end);
bool kc_offsets_reserve(kc_t *kc, const kf_offsets_record_t *r, void **plan);
kc_rc_t kc_offsets_apply(kc_t *kc, const kf_offsets_record_t *r,
    const void *plan, int64_t end);
kc_rc_t kc_offsets_delete_apply(kc_t *kc, const kf_offsets_delete_record_t *r,
    int64_t end);
/* The topic is about to go, and what groups committed for it. */
void kc_offsets_topic_gone(kc_t *kc, kc_topic_obj_t *t, int64_t end);
void kc_groups_free(kc_t *kc);
const char *kc_check_groups(const kc_t *kc);

bool kc_txn_reserve(kc_t *kc, const kf_transaction_record_t *r, void **plan);
kc_rc_t kc_txn_apply(kc_t *kc, const kf_transaction_record_t *r,
    const void *plan, int64_t end);
bool kc_txn_add_reserve(kc_t *kc, const kf_transaction_add_record_t *r,
    void **plan);
kc_rc_t kc_txn_add_apply(kc_t *kc, const kf_transaction_add_record_t *r,
    const void *plan, int64_t end);
bool kc_staged_reserve(kc_t *kc, const kf_transaction_offsets_record_t *r,
    void **plan);
kc_rc_t kc_staged_apply(kc_t *kc, const kf_transaction_offsets_record_t *r,
    const void *plan, int64_t end);
bool kc_txn_end_reserve(kc_t *kc, const kf_transaction_end_record_t *r,
    void **plan);
kc_rc_t kc_txn_end_apply(kc_t *kc, const kf_transaction_end_record_t *r,
    const void *plan, int64_t end);
kc_rc_t kc_txn_complete_apply(kc_t *kc,
    const kf_transaction_complete_record_t *r, int64_t end);
kc_rc_t kc_txn_delete_apply(kc_t *kc,
    const kf_delete_transaction_record_t *r, int64_t end);
void kc_txns_free(kc_t *kc);
const char *kc_check_txns(const kc_t *kc);
/* What is due of transactions at call->now; and when something will be. */
kc_rc_t kc_txn_tick(kc_t *kc, kc_call_t *call, uint32_t budget);
int64_t kc_txn_next_due(const kc_t *kc);


/* --- snapshots: kc_snapshot.c ------------------------------------------- */

typedef struct {
    kc_t        *kc;
    kc_time_t    now;
    kc_sink_pt   sink;
    void        *ctx;
    int64_t      records;
} kc_writer_t;

bool kc_snapshot_put(kc_writer_t *w, kf_journal_number_t type,
    const void *record);
/* Sends the batch built so far and begins another. */
bool kc_snapshot_batch(kc_writer_t *w);
bool kc_snapshot_resources(kc_writer_t *w);
bool kc_snapshot_groups(kc_writer_t *w);
bool kc_snapshot_txns(kc_writer_t *w);

void kc_mix(uint64_t *h, const void *data, size_t len);
void kc_mix_number(uint64_t *h, int64_t n);
void kc_mix_str(uint64_t *h, kf_str_t s);
void kc_mix_configs(uint64_t *h, const kc_config_entry_t *e, uint32_t n);
void kc_hash_resources(const kc_t *kc, uint64_t *h);
void kc_hash_groups(const kc_t *kc, uint64_t *h);
void kc_hash_txns(const kc_t *kc, uint64_t *h);


/* --- helpers ------------------------------------------------------------ */

bool kc_reserve_init(kc_t *kc);
void kc_reserve_done(kc_t *kc);

/* A random version 4 id whose text does not begin with '-'. */
kf_uuid_t kc_random_uuid(kc_t *kc);
/* 22 characters of URL-safe base64, as Kafka prints ids. */
void kc_uuid_text(kf_uuid_t id, uint8_t *out);

/* The name as metrics would show it: every '.' becomes '_'. */
void kc_topic_alias(kf_str_t name, uint8_t *out);
const kc_topic_t *kc_topic_by_alias(const kc_t *kc, kf_str_t alias);

/* What is wrong with a topic's name, or NULL. */
const char *kc_topic_name_problem(kf_str_t name);

static inline kf_str_t
kc_uuid_key(const kf_uuid_t *id)
{
    return (kf_str_t) { id->b, sizeof(id->b) };
}


#pragma GCC visibility pop

#endif
