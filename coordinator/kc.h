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
 * the journal's log, exclusive): its own records, or for a read the last change of
 * what it shows.
 *
 * Volatile by design: nothing yet (topics and producer ids are all durable).
 */

#ifndef KC_H
#define KC_H

#include "../codec/kf_types.h"
#include "../codec/kf_arena.h"

#pragma GCC visibility push(hidden)


typedef enum {
    KC_OK = 0,
    KC_NO_MEMORY,           /* the zone is full; nothing changed */
    KC_JOURNAL_FAILED,      /* the append failed; nothing changed */
    KC_CORRUPT,             /* a record that replay cannot take */
    KC_NEWER                /* a record or version newer than this code */
} kc_rc_t;


/* Memory for the state, from the shared region; freed in any order. */
typedef struct {
    void  *(*alloc)(void *ctx, size_t size);        /* NULL: full */
    void   (*free)(void *ctx, void *p, size_t size);
    void   *ctx;
} kc_mem_t;


/* What the coordinator asks of the world; a process-local table. */
typedef struct {
    /* Appends one record batch; *end: the journal's log end after it. */
    int      (*append)(void *ctx, uint8_t *batch, size_t len, int64_t *end);
    /* A slot for a partition's control block (kl_bind), -1: no room. */
    int32_t  (*bind)(void *ctx, kf_uuid_t topic_id, int32_t partition);
    void     (*release)(void *ctx, int32_t slot);
    void     (*random)(void *ctx, void *buf, size_t len);
    void      *ctx;
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
    uint8_t        *buf;                /* scratch for a decision's records */
    size_t          buf_size;
    kf_str_t        problem;            /* text for the log of the last failure */
    char            problem_buf[256];
    struct kc_reserve_s  *reserve;
} kc_t;


/* Makes a handle; buf_size bounds the records of one decision (1 MiB). */
bool kc_init(kc_t *kc, kc_mem_t mem, kc_io_t io);
void kc_done(kc_t *kc);

/* An empty state in fresh memory, to be filled by kc_replay(); NULL: full. */
kc_state_t *kc_state_create(kc_t *kc);
/* Attaches a state that another worker made. */
void kc_attach(kc_t *kc, kc_state_t *state);

/*
 * Replays one whole batch of the journal, in order.  end: the journal offset
 * after it.  The same code serves decisions, recovery, compaction and tests.
 */
kc_rc_t kc_replay(kc_t *kc, const uint8_t *batch, size_t len, int64_t end);

/* First start: writes the broker's identity (cluster id) when there is none. */
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
    int64_t             changed;        /* journal offset after its last change */
    bool                internal;
} kc_topic_t;

/* Raised by each change of topics or configs: workers' caches compare it. */
uint64_t kc_topics_version(const kc_t *kc);
/* Journal offset after the last change of any topic or config. */
int64_t kc_topics_changed(const kc_t *kc);

const kc_topic_t *kc_topic_by_name(const kc_t *kc, kf_str_t name);
const kc_topic_t *kc_topic_by_id(const kc_t *kc, kf_uuid_t id);
/* In order of names; after = null starts.  NULL at the end. */
const kc_topic_t *kc_topic_next(const kc_t *kc, kf_str_t after);
uint32_t kc_topic_count(const kc_t *kc);
/* Broker-wide dynamic configs (resource type 4), sorted by name. */
const kc_config_entry_t *kc_broker_configs(const kc_t *kc, uint32_t *n);


#pragma GCC visibility pop

#endif
