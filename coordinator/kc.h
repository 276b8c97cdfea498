/*
 * The coordinator: one deterministic state machine per broker, shared by all
 * workers, whose every durable change is a record of the journal.
 *
 * Layer: codec/ only.  No nginx, no files, no clock, no random numbers: time
 * comes as an argument, everything else through kc_io_t.
 *
 * A call is decide → append → replay, under the broker's coordinator lock that
 * the caller holds:
 *
 *   decide    reads the state, builds the records of the decision and the
 *             response, and reserves the memory that replay will need;
 *   append    hands the records, as one record batch with one CRC, to the
 *             journal; if that fails nothing has changed;
 *   replay    kc_replay() alone changes durable state, live and in recovery.
 *
 * The response may leave once the journal is flushed up to `wait` (an offset of
 * the journal's log, exclusive): its own records, or for a read the last change
 * of what it shows.
 *
 * Volatile by design, and what a client sees of its loss:
 *   - the rest of the current block of producer ids: after a recovery ids go on
 *     with the next block; nobody notices the gap;
 *   - topics_version: after a recovery caches have to be thrown away anyway.
 */

#ifndef KC_H
#define KC_H

#include "../codec/kf_types.h"
#include "../codec/kf_arena.h"
#include "../codec/kf_batch.h"

#pragma GCC visibility push(hidden)


/* The largest batch that one decision appends; whoever reads the journal back
   needs as much room. */
#define KC_DECISION_MAX  (16 * 1024 * 1024)

#define KC_WOKEN         64             /* groups changed by one call */


typedef enum {
    KC_OK = 0,
    KC_NO_MEMORY,           /* the zone is full; nothing changed */
    KC_JOURNAL_FAILED,      /* the append failed; nothing changed */
    KC_CORRUPT,             /* a record that replay cannot take */
    KC_NEWER,               /* a record or version newer than this code */
    KC_TOO_LARGE,           /* more records than one batch holds; no change */
    KC_PARK                 /* the answer comes later: kc_group.h */
} kc_rc_t;


/* Memory for the state, from the shared region; freed in any order. */
typedef struct {
    void  *(*alloc)(void *ctx, size_t size);        /* NULL: full */
    void   (*free)(void *ctx, void *p, size_t size);
    void   *ctx;
} kc_mem_t;


struct kc_topic_s;

/* What the coordinator asks of the world; a process-local table. */
typedef struct {
    /* Appends one record batch; *end: the journal's log end after it.
       0: done; else nothing was written. */
    int      (*append)(void *ctx, uint8_t *batch, size_t len, int64_t *end);
    /*
     * A slot for a partition's control block (kl_bind), -1: no room.  Asked
     * twice, by the decision and by its replay: one partition always gets one
     * slot.  NULL in a private state (compaction, tools): slots are -1.
     */
    int32_t  (*bind)(void *ctx, kf_uuid_t topic_id, int32_t partition);
    /*
     * The partition is gone: by the replay of a deletion, or because a decision
     * that had bound it came to nothing.  The callee may put the slot and its
     * files aside until the journal is flushed, and should: a crash before that
     * brings the topic back.
     */
    void     (*release)(void *ctx, int32_t slot);
    void     (*random)(void *ctx, void *buf, size_t len);
    void      *ctx;
    /*
     * The partition takes part in the transaction of this producer: appends of
     * its epoch may go on (kl_txn_verify, under the coordinator's lock).
     * version: of transactions, 1 or 2.  number: grows from one transaction of
     * the producer to the next, and a decision of it is not below (the journal
     * offsets after both).  May be called again, and may fail: the coordinator
     * is asked once more when an append finds no such mark.  NULL: there are no
     * partitions (compaction, tools).
     */
    void     (*txn_open)(void *ctx, const struct kc_topic_s *t,
                         int32_t partition, int64_t producer_id, int16_t epoch,
                         int version, int64_t number);
} kc_io_t;


typedef struct {
    int64_t  wall_ms;
    int64_t  mono_ms;
} kc_time_t;


typedef struct kc_state_s  kc_state_t;  /* shared: the root of the state */

/* Process-local handle; cheap, made once per worker (or per simulated one). */
typedef struct {
    kc_state_t     *state;
    kc_mem_t        mem;
    kc_io_t         io;
    /* Scratch: a decision's batch, and the record that is being encoded.  Both
       have room for the largest; the kernel gives pages as they are used. */
    uint8_t        *buf;
    uint8_t        *value;
    /* Text for the log of the last failure; also set, with KC_OK, when a topic
       was refused for lack of room.  The caller logs it and makes it null. */
    kf_str_t        problem;
    char            problem_buf[256];
    struct kc_reserve_s  *reserve;
    /* between kc_recovery_begin() and kc_replay_end() */
    bool                  recovering;
    void                (*deleted)(void *ctx, kf_uuid_t topic_id);
    /* the decision or replay under way: kc_record.c */
    kf_batch_builder_t    batch;
    struct kc_record_s   *records;
    struct kc_record_s  **records_tail;
    kf_heap_t             heap;
    kf_arena_t            arena;
    /* what a decision thinks with: here, so that it goes with the handle of a
       worker that dies on the way; see kc_scratch() */
    kf_heap_t             scratch;
    /* groups to be woken: kc_woken_take() */
    uint32_t              woken[KC_WOKEN];
    uint32_t              woken_n;
    bool                  txn_prepared;     /* kc_txn_prepared_take() */
} kc_t;


/* Makes a handle; its buffers bound the records of one decision. */
bool kc_init(kc_t *kc, kc_mem_t mem, kc_io_t io);
void kc_done(kc_t *kc);

/* An empty state in fresh memory, to be filled by kc_replay(); NULL: full. */
kc_state_t *kc_state_create(kc_t *kc);
/* Frees a whole state (private ones; a shared arena is simply made anew). */
void kc_state_free(kc_t *kc);
/* Attaches a state that another worker made. */
void kc_attach(kc_t *kc, kc_state_t *state);

/*
 * Replays one whole batch of the journal, in order.  end: the journal offset
 * after it.  The same code serves decisions, recovery, compaction and tests.
 *
 * Recovery: an empty state, then the snapshot's batches, if there is a snapshot
 * (end -1: a snapshot knows its offset), then the journal's batches, then
 * kc_replay_end().  Batches that the state has already are skipped; a gap is
 * KC_CORRUPT.  With
 * KC_CORRUPT and KC_NEWER the state is unusable and kc->problem says why; with
 * KC_NO_MEMORY the batch has changed nothing, unless it is bind() that failed.
 */
kc_rc_t kc_replay(kc_t *kc, const uint8_t *batch, size_t len, int64_t end);

/*
 * A recovery: until kc_replay_end() the replay binds and releases no slots, so
 * that topics long deleted do not need room beside those that exist; deleted(),
 * with kc_io_t's ctx, tells of each deletion in the journal, and may be NULL.
 */
void kc_recovery_begin(kc_t *kc,
    void (*deleted)(void *ctx, kf_uuid_t topic_id));

/*
 * After the last batch: KC_CORRUPT when a snapshot has not come to its end.  In
 * a recovery it then binds the partitions of all topics: KC_NO_MEMORY when they
 * do not fit.
 */
kc_rc_t kc_replay_end(kc_t *kc);

/*
 * First start: writes the broker's identity (cluster id) when there is none.
 * *wait: the journal offset to flush before the identity is shown; so below.
 */
kc_rc_t kc_bootstrap(kc_t *kc, kc_time_t now, int64_t *wait);

/* An unclean start or a truncation raises the leader epoch by one. */
kc_rc_t kc_raise_leader_epoch(kc_t *kc, kc_time_t now, int64_t *wait);

int32_t kc_leader_epoch(const kc_t *kc);
kf_str_t kc_cluster_id(const kc_t *kc);          /* 22 characters */

/*
 * Rewrites the state as batches of records that rebuild it, in canonical order.
 * sink() takes each batch; the result replays to an equal state and hash.
 */
typedef bool (*kc_sink_pt)(void *ctx, uint8_t *batch, size_t len);
kc_rc_t kc_snapshot(kc_t *kc, kc_time_t now, kc_sink_pt sink, void *ctx);

/* The journal offset up to which the state has been replayed; -1 inside a
   snapshot. */
int64_t kc_applied(const kc_t *kc);

/*
 * Compaction: rebuilds a private state with malloc from next(), which gives the
 * newest snapshot's batches, if any, and then the closed journal batches, and
 * writes its snapshot to sink.  Touches no shared state: a thread's work.
 * next: 1 a batch, 0 the end, -1 an error.  *offset: what the snapshot covers.
 */
typedef int (*kc_next_pt)(void *ctx, const uint8_t **batch, size_t *len,
    int64_t *end);
kc_rc_t kc_compact(kc_time_t now, kc_next_pt next, kc_sink_pt sink, void *ctx,
    int64_t *offset, char *problem, size_t problem_size);

/* A hash of the durable state, independent of history and of addresses. */
uint64_t kc_hash(const kc_t *kc);

/* Checks every invariant (numbered in docs/ARCHITECTURE.md); NULL or a text. */
const char *kc_check(const kc_t *kc);


/* --- topics ------------------------------------------------------------- */

typedef struct {
    kf_str_t  name;
    kf_str_t  value;
} kc_config_entry_t;

/* A topic, valid while the coordinator's lock is held. */
typedef struct kc_topic_s {
    kf_uuid_t           id;
    kf_str_t            name;
    int32_t             partition_count;
    const int32_t      *slots;          /* control blocks, by partition */
    kc_config_entry_t  *configs;        /* overrides only, sorted by name */
    uint32_t            config_count;
    int64_t             changed;        /* journal offset after its change */
    bool                internal;
} kc_topic_t;

/*
 * Names of resources of a DescribeConfigs type that exist by having configs
 * (16, client metrics), in order; null begins and ends.  Valid while locked.
 */
kf_str_t kc_resource_next(const kc_t *kc, int8_t type, kf_str_t after);
uint32_t kc_resource_count(const kc_t *kc, int8_t type);

/* Raised by each change of topics or configs: workers' caches compare it. */
uint64_t kc_topics_version(const kc_t *kc);
/* Journal offset after the last change of any topic or config. */
int64_t kc_topics_changed(const kc_t *kc);

const kc_topic_t *kc_topic_by_name(const kc_t *kc, kf_str_t name);
const kc_topic_t *kc_topic_by_id(const kc_t *kc, kf_uuid_t id);
/* In order of names; after = null starts.  NULL at the end. */
const kc_topic_t *kc_topic_next(const kc_t *kc, kf_str_t after);
uint32_t kc_topic_count(const kc_t *kc);
/* What is wrong with a topic's name, a static text; NULL when it is legal. */
const char *kc_topic_name_problem(kf_str_t name);
/* Broker-wide dynamic configs (resource type 4), sorted by name. */
const kc_config_entry_t *kc_broker_configs(const kc_t *kc, uint32_t *n);


#pragma GCC visibility pop

#endif
