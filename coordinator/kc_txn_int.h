/*
 * Transactions inside: objects, and what the files kc_txn*.c and kc_staged.c
 * share.
 *
 * A transactional id is a kc_txn_t for as long as it is known; while it has a
 * transaction, from the first participant to the last marker, there is a
 * kc_txn_open_t as well.  Offsets that wait for the outcome are kc_staged_t,
 * found by partition from the group, and by group from the transaction.
 *
 * Memory, with nginx's slabs (powers of two up to 2 KiB): an id 256 bytes with
 * up to 48 of text, a transaction 256, 20 bytes for each partition in it with
 * room for 8, 16, …; a group in it 128; a staged offset 256, its metadata 16
 * and its length.  t/life/txn_limits.t measures an id.
 */

#ifndef KC_TXN_INT_H
#define KC_TXN_INT_H

#include "kc_group_int.h"
#include "kc_txn.h"

#pragma GCC visibility push(hidden)


#define KC_TXN_ID_MAX       32767       /* what old versions carry */
#define KC_EPOCH_EXHAUSTED  (INT16_MAX - 1)
#define KC_TXN_PARTS_MAX    500000      /* of one record */
#define KC_TXN_ROOM         8           /* the least room for partitions */

typedef struct kc_txn_s        kc_txn_t;
typedef struct kc_txn_group_s  kc_txn_group_t;
typedef struct kc_staged_s     kc_staged_t;

typedef struct {
    kf_uuid_t  topic_id;
    int32_t    partition;
} kc_txn_place_t;

/* Of a transaction that is under way. */
typedef struct {
    kc_node_t        by_pid;
    uint8_t          pid_key[8];
    kc_txn_place_t  *parts;             /* sorted; topics may be gone */
    uint32_t         parts_n;
    uint32_t         room;
    kc_map_t         groups;            /* kc_txn_group_t by group id */
    int64_t          began;             /* journal offset after its first … */
    int64_t          prepared;          /* … and after its last record */
    int64_t          prepared_ms;       /* mono, volatile; 0: before recovery */
    int64_t          next_pid;          /* once complete; -1: the same */
    int16_t          data_epoch;
} kc_txn_open_t;

struct kc_txn_s {
    kc_node_t       by_id;
    kc_node_t       by_time;            /* in one of kc_txns_t's three maps */
    uint8_t         time_key[16];       /* time and serial, big-endian */
    kc_txn_open_t  *open;               /* while Ongoing or Prepare* */
    int64_t         changed;            /* journal offset, last change */
    int64_t         pid;
    int64_t         prev_pid;           /* before a rotation; -1: none */
    int64_t         start_ms;           /* wall; -1: none since the init */
    int64_t         update_ms;          /* wall */
    int32_t         timeout_ms;
    int16_t         epoch;              /* while Prepare*: the markers' */
    int16_t         last_epoch;         /* -1: none */
    uint8_t         state;              /* kc_txn_state_t */
    uint8_t         version;            /* of transactions: 1 or 2 */
    bool            renew;              /* kc_txn_seen(), volatile */
};

/* A group that takes part, by name: it may not exist. */
struct kc_txn_group_s {
    kc_node_t      by_id;
    kc_txn_t      *txn;
    kc_staged_t   *first;               /* its staged offsets */
};

struct kc_staged_s {
    kc_node_t          by_place;        /* in kc_group_topic_t's staged */
    uint8_t            key[12];         /* partition, producer id, big-endian */
    bool               superseded;      /* a later one is in force already */
    int32_t            partition;
    int32_t            leader_epoch;
    int64_t            offset;
    int64_t            commit_ms;       /* wall */
    int64_t            position;        /* journal offset after the staging */
    kc_note_t         *note;
    kc_group_topic_t  *topic;
    kc_txn_group_t    *of;
    kc_staged_t       *prev;            /* of the same group and transaction */
    kc_staged_t       *next;
};


/* --- kc_txn.c: objects --------------------------------------------------- */

kc_txn_t *kc_txn_find(const kc_t *kc, kf_str_t id);
/* In order of ids; null begins. */
kc_txn_t *kc_txn_next(const kc_t *kc, kf_str_t after);
kc_txn_t *kc_txn_by_pid(const kc_t *kc, int64_t pid);
const char *kc_txn_state_name(uint8_t state);
/* Where a place is in the transaction, or would be. */
uint32_t kc_txn_place(const kc_txn_open_t *o, const kc_txn_place_t *p);
bool kc_txn_has(const kc_txn_t *t, const kc_txn_place_t *p);
int kc_txn_place_cmp(const void *a, const void *b);
kc_txn_group_t *kc_txn_group(const kc_txn_t *t, kf_str_t group_id);
/* The time in by_time's key. */
int64_t kc_txn_time(const kc_txn_t *t);
uint64_t kc_txn_serial(const kc_txn_t *t);

static inline bool
kc_txn_preparing(const kc_txn_t *t)
{
    return t->state == KC_TXN_PREPARE_COMMIT
           || t->state == KC_TXN_PREPARE_ABORT;
}


/* --- kc_txn_add.c: participants ------------------------------------------ */

/*
 * Kafka's code for a producer that names itself: 42, 49, 90, 51, or none and
 * *t.  call->wait: what the answer relies on.
 */
int16_t kc_txn_check(kc_t *kc, kc_call_t *call, kf_str_t id, int64_t pid,
    int16_t epoch, kc_txn_t **t);

/*
 * Puts the record that makes places (which it sorts) and a group (unless null)
 * part of the transaction into the decision under way, if any of them is new or
 * there is no transaction; *put says so.
 */
kc_rc_t kc_txn_put_add(kc_t *kc, kc_call_t *call, const kc_txn_t *t,
    int version, kc_txn_place_t *places, uint32_t n, kf_str_t group,
    bool *put);


/* --- kc_txn_end.c: the outcome ------------------------------------------- */

/*
 * Decides, and completes what has nothing to be marked.  bump: the markers have
 * the next epoch.  work: may be NULL.
 */
kc_rc_t kc_txn_decide(kc_t *kc, kc_call_t *call, kc_txn_t *t, bool commit,
    bool bump, int64_t next_pid, int version, kc_txn_work_t *work);


/* --- kc_producer_id.c ---------------------------------------------------- */

/* A producer id that nobody had; may journal a block of them. */
kc_rc_t kc_producer_id_new(kc_t *kc, kc_time_t now, int64_t *id);


/* --- kc_staged.c --------------------------------------------------------- */

void kc_staged_free(kc_t *kc, kc_staged_t *s);
/* Commits the group's staged offsets, or drops them. */
void kc_staged_settle(kc_t *kc, kc_txn_group_t *tg, bool commit, int64_t end);


#pragma GCC visibility pop

#endif
