/*
 * What the files about the life of a broker share among themselves: the zone,
 * ownership, opening, recovery, journal, jobs.  The other files of the module
 * use ngx_kafka.h only.
 */

#ifndef NGX_KAFKA_LIFE_H
#define NGX_KAFKA_LIFE_H

#include "ngx_kafka.h"

#include <pthread.h>
#include <stdatomic.h>

#pragma GCC visibility push(hidden)


/* --- configuration -------------------------------------------------------- */

typedef struct {
    ngx_array_t  brokers;                       /* of ngx_kafka_broker_t * */
} ngx_stream_kafka_main_conf_t;

/* The block directive kafka_broker; conf is the main configuration. */
char *ngx_kafka_conf_broker(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* --- the zone ------------------------------------------------------------- */

#define NGX_KAFKA_MAGIC       0x6b61666b612d7a31ULL
#define NGX_KAFKA_LAYOUT      5                 /* raise with each change */

#define NGX_KAFKA_ZONE_MIN    (2 * 1024 * 1024)

#define NGX_KAFKA_ID_LEN      32                /* hexadecimal digits */

/*
 * The state word.
 *
 *   FRESH ──recovery lock──> RECOVERING ──all replayed──> OPEN
 *                             ^   │ failed: back to what it was
 *                             │   v
 *   OPEN ──owner died, journal failed──> SUSPECT
 *
 * FRESH means that nothing of the zone may be trusted (a new zone, or another
 * tree has used the directory since), SUSPECT that only the coordinator's state
 * may not: the partitions stay in use.  Leaving OPEN happens under the
 * coordinator's lock, so whoever holds that lock and reads OPEN is safe.
 */
#define NGX_KAFKA_ZONE_FRESH       0
#define NGX_KAFKA_ZONE_RECOVERING  1
#define NGX_KAFKA_ZONE_OPEN        2
#define NGX_KAFKA_ZONE_SUSPECT     3

/* Background jobs; each has a robust lock in the zone. */
#define NGX_KAFKA_JOB_RETENTION    0
#define NGX_KAFKA_JOB_CHECKPOINT   1
#define NGX_KAFKA_JOB_COMPACTION   2
#define NGX_KAFKA_JOB_SWEEP        3
#define NGX_KAFKA_JOB_REOPEN       4            /* failed partitions */
#define NGX_KAFKA_JOB_REMOVAL      5            /* of deleted topics' files */
#define NGX_KAFKA_JOBS             6

/* What REMOVAL has to do before it unlinks files; bits of zone->unswept. */
#define NGX_KAFKA_UNSWEPT          1            /* deletions are unfinished */
#define NGX_KAFKA_FOREIGN          2            /* and a topic is in the way */

#define NGX_KAFKA_POINTS  256                   /* hashes of groups */

/* Why a worker is woken; bits of ngx_kafka_slot_t.pending. */
#define NGX_KAFKA_WAKE_PARTS       1            /* its bitmap says which */
#define NGX_KAFKA_WAKE_TOPICS      2
#define NGX_KAFKA_WAKE_STATE       4            /* look at the state word */
#define NGX_KAFKA_WAKE_DEATH       8            /* look at everything */
#define NGX_KAFKA_WAKE_JOBS        16           /* one is due earlier */

/* A worker's place in the zone: ngx_kafka_slot.c. */
typedef struct {
    pthread_mutex_t   alive;                    /* held as long as it is used */
    _Atomic uint32_t  used;
    _Atomic uint32_t  cycle;                    /* its worker's */
    _Atomic uint32_t  pending;
    ngx_pid_t         pid;
} ngx_kafka_slot_t;

typedef struct {
    pthread_mutex_t   lock;
    _Atomic int64_t   due_ms;                   /* monotonic; 0: at once */
} ngx_kafka_zone_job_t;

/* Which partition a slot of the log's table was bound to. */
typedef struct {
    kf_uuid_t         topic_id;
    int32_t           partition;
} ngx_kafka_binding_t;

struct ngx_kafka_zone_s {
    uint64_t               magic;
    uint64_t               layout;
    u_char                 id[NGX_KAFKA_ID_LEN];
    size_t                 size;

    pthread_mutex_t        coord;               /* the coordinator's lock */
    pthread_mutex_t        recovery;            /* only ever trylocked */

    _Atomic uint32_t       state;
    uint32_t               fresh;               /* recover everything */
    _Atomic uint64_t       epoch;               /* one more each recovery */
    _Atomic uint64_t       journal_epoch;       /* … with a new journal */
    _Atomic uint64_t       topics_version;
    _Atomic uint64_t       missed;              /* waits; see wait_missed() */
    _Atomic int64_t        died_ms;             /* a worker, mono; 0: none */
    _Atomic int64_t        flush_asked;         /* of the journal, up to here */
    _Atomic int64_t        snapshot;            /* journal's newest; -1: none */
    _Atomic int64_t        swept;               /* deletions finished up to */
    _Atomic uint32_t       unswept;             /* see JOB_REMOVAL */
    _Atomic int64_t        foreign_ms;          /* mono, last looked for */
    _Atomic uint32_t       failed;              /* partitions to be reopened */

    /* under coord, and set while RECOVERING */
    uint64_t               kc_version;          /* kc_topics_version() seen */
    kc_state_t            *state_root;
    int32_t                journal_slot;
    int32_t                opened_slot;         /* the journal's, when last … */
    uint64_t               opened_incarnation;  /* … OPEN */
    uint32_t               cut;                 /* and the epoch not raised */
    _Atomic int32_t        leader_epoch;

    ngx_kafka_zone_job_t   jobs[NGX_KAFKA_JOBS];
    ngx_kafka_slot_t       workers[KL_WORKER_SLOTS];

    _Atomic int64_t        retry_ms;            /* monotonic: not before */
    uint32_t               failures;            /* of recovery, in a row */
    uint32_t               used;                /* opened once: not empty */
    uint32_t               slots_n;             /* no slot above was bound */
    uint32_t               parts_n;
    uint32_t               words_n;             /* of one pending bitmap */
    kl_shared_t           *parts;
    ngx_kafka_binding_t   *bindings;            /* by slot */
    _Atomic int64_t       *checkpoints;         /* by slot: end then + 1 */
    _Atomic uint64_t      *pending;             /* [worker][words_n] */
    _Atomic uint64_t       points[NGX_KAFKA_POINTS][KL_WORKER_SLOTS / 64];
    ngx_slab_pool_t       *arena;               /* the coordinator's memory */
    size_t                 arena_size;
};

ngx_int_t ngx_kafka_zone_init(ngx_shm_zone_t *shm_zone, void *data);
/* May a zone of this size hold anything?  Used by the parser. */
ngx_int_t ngx_kafka_zone_fits(size_t size);
/* An empty arena for a state to be rebuilt in. */
void ngx_kafka_zone_arena_reset(ngx_kafka_zone_t *zone);
ngx_int_t ngx_kafka_mutex_init(pthread_mutex_t *m);

/* The memory of the coordinator's state: caller holds its lock. */
kc_mem_t ngx_kafka_zone_mem(ngx_kafka_zone_t *zone);


/* --- ownership ------------------------------------------------------------ */

/*
 * Tries to become a user of the data directory.  NGX_OK: the read lock is held
 * and the file holds this zone's id; NGX_AGAIN: somebody else uses it;
 * NGX_ERROR: the directory or the file cannot be used (logged).
 */
ngx_int_t ngx_kafka_owner_try(ngx_kafka_broker_t *b);
/* A user that leaves: are we the last one?  Then nobody else can become one
 * until the release; else the lock may be gone already. */
ngx_int_t ngx_kafka_owner_alone(ngx_kafka_broker_t *b);
/* The directory was closed cleanly: this zone's id is no longer valid. */
void ngx_kafka_owner_forget(ngx_kafka_broker_t *b);
void ngx_kafka_owner_release(ngx_kafka_broker_t *b);

/* The mark of a clean stop, a file in the data directory. */
ngx_int_t ngx_kafka_clean_mark(ngx_kafka_broker_t *b);
/* NGX_OK: it was there and is gone now; NGX_DECLINED: it was not. */
ngx_int_t ngx_kafka_clean_take(ngx_kafka_broker_t *b);

/* Makes the directory for the workers' user; the master's only act. */
void ngx_kafka_owner_make_dir(ngx_cycle_t *cycle, ngx_kafka_broker_t *b);


/* --- coordinator ---------------------------------------------------------- */

/* What the coordinator's io works on; one per handle. */
typedef struct {
    ngx_kafka_broker_t  *broker;
    kl_log_t            *journal;               /* NULL: the worker's own */
    ngx_array_t         *deleted;               /* ids, while replaying */
} ngx_kafka_io_t;

/* Told of each deletion in the journal by a recovery: io->deleted. */
void ngx_kafka_io_deleted(void *ctx, kf_uuid_t topic_id);

/* Process-local tables for kc_init(): appends to the journal, binds slots. */
kc_io_t ngx_kafka_coord_io(ngx_kafka_io_t *io);

/* The same lock for a thread, which brings its own handle: attaches kc.
 * NGX_OK, or NGX_AGAIN when the state is not whole. */
ngx_int_t ngx_kafka_coord_enter(ngx_kafka_broker_t *b, kc_t *kc);
void ngx_kafka_coord_leave(ngx_kafka_broker_t *b);

/* Takes the lock whatever the state; an owner that died makes it SUSPECT. */
ngx_int_t ngx_kafka_zone_lock(ngx_kafka_broker_t *b);

/* Attaches this worker to an OPEN zone.  NGX_AGAIN: it is not. */
ngx_int_t ngx_kafka_coord_attach(ngx_kafka_broker_t *b);

/* How a recovery ended. */
#define NGX_KAFKA_RECOVERED   0
#define NGX_KAFKA_BUSY        1                 /* another worker does it */
#define NGX_KAFKA_REFUSED     2                 /* logged; try again later */

/* A thread's work: brings the zone to OPEN. */
ngx_uint_t ngx_kafka_coord_recover(ngx_kafka_broker_t *b);
/* ngx_kafka_reconcile.c: after a replay, with all partitions open; the journal
 * is to be flushed afterwards.  lost: it may have lost its end. */
ngx_int_t ngx_kafka_reconcile(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_uint_t lost);


/* --- catalog -------------------------------------------------------------- */

/* All partitions of a moment, copied out of the coordinator's state. */
typedef struct {
    kf_uuid_t     topic_id;
    kf_str_t      topic;
    int32_t       partition;
    int32_t       slot;
    uint64_t      incarnation;
    kl_config_t   config;
    bool          caching;
} ngx_kafka_item_t;

typedef struct {
    ngx_kafka_item_t  *items;
    size_t             n;
    size_t             size;
    kf_heap_t          heap;                    /* names */
    kf_arena_t         arena;
} ngx_kafka_catalog_t;

/*
 * Fills a catalog.  locked: takes the coordinator's lock in slices; else the
 * caller has the state to itself.  NGX_OK, NGX_AGAIN (not open), NGX_ERROR.
 */
ngx_int_t ngx_kafka_catalog_fill(ngx_kafka_broker_t *b, kc_t *kc, bool locked,
    ngx_kafka_catalog_t *c);
void ngx_kafka_catalog_free(ngx_kafka_catalog_t *c);

/* Runs visit() for every item on a few threads; it may be called at once from
 * several.  Stops early when visit() answers false. */
void ngx_kafka_catalog_each(ngx_kafka_broker_t *b, ngx_kafka_catalog_t *c,
    bool (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx),
    void *ctx);
kl_log_t *ngx_kafka_item_open(ngx_kafka_broker_t *b,
    const ngx_kafka_item_t *item);


/* --- journal -------------------------------------------------------------- */

#define NGX_KAFKA_JOURNAL       "@journal"      /* no topic can be called so */

extern const kf_uuid_t    ngx_kafka_journal_id;
extern const kl_config_t  ngx_kafka_journal_config;

kl_log_t *ngx_kafka_journal_open(ngx_kafka_broker_t *b, int32_t slot,
    uint64_t incarnation);

/*
 * Rebuilds the state in the zone's arena, which is emptied: the newest valid
 * snapshot, then the records after it.  NGX_ERROR: refused, logged.
 * *snapshot: the offset of the snapshot used, -1 for none.
 */
ngx_int_t ngx_kafka_journal_replay(ngx_kafka_broker_t *b, kl_log_t *log,
    kc_t *kc, int64_t *snapshot);

/* Writes <offset>.state from kc's state. */
ngx_int_t ngx_kafka_journal_snapshot(ngx_kafka_broker_t *b, kl_log_t *log,
    kc_t *kc, int64_t offset);

/* Compaction: closed segments into a private state, a snapshot of it, then
 * what lies wholly below goes.  NGX_DECLINED: nothing to do. */
ngx_int_t ngx_kafka_journal_compact(ngx_kafka_broker_t *b);


#define NGX_KAFKA_READ       KC_DECISION_MAX    /* pages as they are used */

/* Reads the batches of a snapshot file one after the other. */
typedef struct {
    int       fd;
    uint8_t  *buf;
} ngx_kafka_state_file_t;

/* Takes the batches of a new snapshot. */
typedef struct {
    int        fd;
    int        err;
    char       dir[NGX_MAX_PATH];
    char       tmp[NGX_MAX_PATH + 32];
} ngx_kafka_sink_t;

/* ngx_kafka_state.c: offsets of the snapshots, the newest first. */
ngx_uint_t ngx_kafka_states_list(ngx_kafka_broker_t *b, int64_t *offsets,
    ngx_uint_t max);
/* Drops all but the newest two, and the journal below the older one. */
void ngx_kafka_states_prune(ngx_kafka_broker_t *b, kl_log_t *log);
ngx_int_t ngx_kafka_state_open(ngx_kafka_broker_t *b, int64_t offset,
    ngx_kafka_state_file_t *f);
/* 1: a batch, valid until the next call; 0: the file's end; -1: damaged. */
int ngx_kafka_state_next(ngx_kafka_state_file_t *f, const uint8_t **batch,
    size_t *len);
void ngx_kafka_state_close(ngx_kafka_state_file_t *f);
ngx_int_t ngx_kafka_sink_open(ngx_kafka_broker_t *b, ngx_kafka_sink_t *sink);
bool ngx_kafka_sink_write(void *ctx, uint8_t *batch, size_t len);
/* Makes it durable and gives it its name; ok false: throws it away. */
ngx_int_t ngx_kafka_sink_done(ngx_kafka_broker_t *b, ngx_kafka_sink_t *sink,
    int64_t offset, bool ok);

/* Finishes the deletions that the journal has since this was last done, or
 * (whole) all that it has. */
ngx_int_t ngx_kafka_journal_sweep(ngx_kafka_broker_t *b, ngx_uint_t whole);


/* --- what deletions leave: ngx_kafka_sweep.c ------------------------------ */

/*
 * DeleteTopics renames its directories itself, after its record is flushed, and
 * leaves their files to a job.  A process may die in between, or a disk fail;
 * whoever reads the deletion in the journal again (a recovery, a job) finishes
 * it then, durably when it answers NGX_OK.  All a thread's work.
 * own: the handle of a recovery, which has the state to itself; else NULL.
 */
ngx_int_t ngx_kafka_sweep_deleted(ngx_kafka_broker_t *b, kc_t *own,
    ngx_array_t *ids);
/* Directories that keep a topic's partition from being opened, though the
 * deletions in the journal up to this offset are finished: a line each.
 * Answers how many. */
ngx_uint_t ngx_kafka_sweep_foreign(ngx_kafka_broker_t *b, int64_t upto);
/* Directories that the state doesn't know are reported, one line each; the
 * deletions in the journal up to this offset are finished. */
void ngx_kafka_sweep_unknown(ngx_kafka_broker_t *b, int64_t upto);


/* --- slots of workers ----------------------------------------------------- */

/* In the master, with every cycle. */
void ngx_kafka_slot_init_module(void);
/* A slot for this worker, -1: all are taken.  Looks at all, and so finds those
 * that died. */
ngx_int_t ngx_kafka_slot_claim(ngx_kafka_broker_t *b);
void ngx_kafka_slot_release(ngx_kafka_broker_t *b, ngx_uint_t i);
/* One of an older cycle is there: ngx_kafka_slot_bury() is to be called. */
ngx_uint_t ngx_kafka_slot_older(ngx_kafka_broker_t *b);
/* Looks at those of older cycles.  How many this worker has found dead since it
 * was last asked, wherever it found them. */
ngx_uint_t ngx_kafka_slot_bury(ngx_kafka_broker_t *b);


/* --- wake-ups ------------------------------------------------------------- */

struct ngx_kafka_fired_s {
    ngx_queue_t   queue;                        /* of watches */
    ngx_event_t   event;
};

/* Makes the eventfds, once, in the master. */
ngx_int_t ngx_kafka_wake_init_module(ngx_cycle_t *cycle);
/* Queues; at init_process, before anything can wait. */
ngx_int_t ngx_kafka_wake_prepare(ngx_kafka_broker_t *b);
/* Claims a slot and listens to its eventfd.  NGX_AGAIN: all are taken. */
ngx_int_t ngx_kafka_wake_start(ngx_kafka_broker_t *b);
void ngx_kafka_wake_stop(ngx_kafka_broker_t *b);

/* Watches of a control block, here and elsewhere; any thread may call it for
 * the others, only the event loop for its own. */
void ngx_kafka_wake_slot(ngx_kafka_broker_t *b, int32_t slot);
/* The same from a thread: also the own worker's, through its eventfd. */
void ngx_kafka_wake_slot_of_all(ngx_kafka_broker_t *b, int32_t slot);
/* … or without the own worker's, which ngx_kafka_wake_slot() has to follow. */
void ngx_kafka_wake_slot_elsewhere(ngx_kafka_broker_t *b, int32_t slot);
void ngx_kafka_wake_all(ngx_kafka_broker_t *b, uint32_t why);
/* Watches of all control blocks of this worker. */
void ngx_kafka_wake_own(ngx_kafka_broker_t *b);
void ngx_kafka_wake_ready(ngx_kafka_broker_t *b);


/* --- broker and jobs ------------------------------------------------------ */

/* Looks at the state and does what is due: own, open, attach, wait. */
void ngx_kafka_broker_step(ngx_kafka_broker_t *b);
void ngx_kafka_broker_retry(ngx_kafka_broker_t *b, ngx_msec_t after);
/* The state is no longer whole: requests park, recovery is on its way. */
void ngx_kafka_broker_suspend(ngx_kafka_broker_t *b);
/* The worker has begun to exit. */
void ngx_kafka_broker_quit(ngx_kafka_broker_t *b);

void ngx_kafka_jobs_start(ngx_kafka_broker_t *b);
void ngx_kafka_jobs_stop(ngx_kafka_broker_t *b);
/* A partition has failed: REOPEN becomes due, if it was not to be sooner. */
void ngx_kafka_jobs_failed(ngx_kafka_broker_t *b);
/* For log/, in any thread: a directory is another topic's; ctx: the broker. */
void ngx_kafka_jobs_foreign(void *ctx);
/* A job is due, says another thread or worker. */
void ngx_kafka_jobs_wake(ngx_kafka_broker_t *b);
/* Makes everything durable and marks the directory clean; needs to be alone.
 * A thread's work, or exit_process's.  deadline_ms: monotonic; 0: none. */
void ngx_kafka_jobs_finish(ngx_kafka_broker_t *b, int64_t deadline_ms);


/* ngx_kafka_tick.c: deadlines and points of groups. */
void ngx_kafka_tick_arm(ngx_kafka_broker_t *b, int64_t deadline_ms);
void ngx_kafka_tick_stop(ngx_kafka_broker_t *b);
void ngx_kafka_points_wake(ngx_kafka_broker_t *b);
void ngx_kafka_points_free(ngx_kafka_broker_t *b);

/* For log/: ctx is the broker. */
void ngx_kafka_flushed(void *ctx, int32_t slot);
void ngx_kafka_log_line(void *ctx, kl_log_level_t level, int err,
    const char *line);


#pragma GCC visibility pop

#endif
