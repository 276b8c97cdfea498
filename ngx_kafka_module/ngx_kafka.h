/*
 * What the files of the module share.  The module is glue: it decides nothing
 * that Kafka specifies (coordinator/, log/ and codec/ do) and is the only code
 * that includes nginx headers.
 *
 *   ngx_stream_kafka_module.c   directives, hooks
 *   ngx_kafka_conf.c            the kafka_broker block
 *   ngx_kafka_zone.c            the shared zone: layout, reuse over reloads
 *   ngx_kafka_owner.c           the data directory's lock: who may use it
 *   ngx_kafka_broker.c          opening and leaving; the broker's states
 *   ngx_kafka_coord.c           the coordinator's lock, its journal and slots
 *   ngx_kafka_recover.c         what makes a zone whole again
 *   ngx_kafka_reconcile.c       … and what partitions know beyond the journal
 *   ngx_kafka_journal.c         replay and compaction of the journal
 *   ngx_kafka_state.c           snapshots of the coordinator's state
 *   ngx_kafka_catalog.c         all partitions of a moment, for long work
 *   ngx_kafka_sweep.c           directories of partitions that are no more
 *   ngx_kafka_thread.c          work in the thread pool
 *   ngx_kafka_fault.c           points where tests make things fail
 *   ngx_kafka_wake.c            worker slots, eventfds, watches
 *   ngx_kafka_tick.c            the coordinator's timers, points for groups
 *   ngx_kafka_flush.c           group commit on the thread pool
 *   ngx_kafka_job.c             background jobs: when which one runs
 *   ngx_kafka_upkeep.c          … retention, checkpoints, a clean stop
 *   ngx_kafka_reopen.c          … partitions that have failed, back from disk
 *   ngx_kafka_topics.c          the worker's own table of topics
 *   ngx_kafka_conn.c            connections: frames in, answers out, in order
 *   ngx_kafka_read.c            input: bytes to frames, the memory budget
 *   ngx_kafka_request.c         a request: decode, dispatch, park, answer
 *   ngx_kafka_write.c           output: sendmsg, sendfile, cold files, TLS
 *   ngx_kafka_mem.c             memory of frames, kept for reuse
 *   ngx_kafka_var.c             variables and the access log
 *   ngx_kafka_advertise.c       which address clients are told
 *   ngx_kafka_api*.c            one file per API family
 *   ngx_kafka_produce_*.c       Produce, from the append to the answer
 *
 * The path of a request: read → frame → decode → authorize → dispatch → decide
 * → append → replay → park or answer → encode → write.
 */

#ifndef NGX_KAFKA_H
#define NGX_KAFKA_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_stream.h>
#include <ngx_thread_pool.h>

#include "../codec/kf_codec.h"
#include "../log/kl.h"
#include "../coordinator/kc.h"
#include "../coordinator/kc_config.h"

extern ngx_module_t  ngx_stream_kafka_module;

#pragma GCC visibility push(hidden)


typedef struct ngx_kafka_broker_s   ngx_kafka_broker_t;
typedef struct ngx_kafka_zone_s     ngx_kafka_zone_t;
typedef struct ngx_kafka_part_s     ngx_kafka_part_t;
typedef struct ngx_kafka_topic_s    ngx_kafka_topic_t;
typedef struct ngx_kafka_conn_s     ngx_kafka_conn_t;
typedef struct ngx_kafka_request_s  ngx_kafka_request_t;
typedef struct ngx_kafka_watch_s    ngx_kafka_watch_t;


/* --- broker --------------------------------------------------------------- */

/*
 * One `kafka_broker` block.  Made by the configuration parser, so a reload
 * makes a new one; the part below "process" is filled in by init_process.
 */
struct ngx_kafka_broker_s {
    ngx_str_t               name;
    ngx_str_t               data;               /* NUL-terminated, absolute */
    ngx_str_t               real;               /* its real path, when parsed */
    size_t                  zone_size;
    ngx_int_t               node_id;
    ngx_msec_t              drain_timeout;      /* the longest of its servers */
    size_t                  buffer_budget;      /* of requests, per worker */
    ngx_uint_t              open_files;
    ngx_thread_pool_t      *thread_pool;
    kc_static_t             config;             /* `config NAME VALUE` lines */
    ngx_shm_zone_t         *shm_zone;
    u_char                 *file;               /* where the block stands */
    ngx_uint_t              line;

    /* process */
    ngx_log_t              *log;
    ngx_kafka_zone_t       *zone;
    kl_shared_t            *parts;              /* in the zone; set with env */
    kl_env_t               *env;
    kc_t                    kc;
    int32_t                 leader_epoch;       /* to be told to clients */
    ngx_kafka_part_t       *journal;            /* slot 0 of the log's table */
    ngx_uint_t              state;              /* NGX_KAFKA_CLOSED … */
    ngx_int_t               worker_slot;        /* in the zone, -1: none */
    struct ngx_kafka_topics_s  *topics;         /* ngx_kafka_topics.c */
    void                   *sessions;           /* ngx_kafka_session.c */
    int64_t                 session_slots;      /* of the broker's configs; */
    int64_t                 fetch_bytes_max;    /* … read when it opens */
    struct ngx_kafka_wake_s    *wake;           /* ngx_kafka_wake.c */
    struct ngx_kafka_owner_s   *owner;          /* ngx_kafka_owner.c */
    struct ngx_kafka_jobs_s    *jobs;           /* ngx_kafka_job.c */
    ngx_queue_t             ready_watches;      /* run when the state is OPEN */
    ngx_queue_t             conns;              /* of this worker */
    ngx_uint_t              conns_n;
    size_t                  buffered;           /* bytes of requests held now */
    struct ngx_kafka_net_s  *net;               /* ngx_kafka_conn.c */
    ngx_uint_t              tasks_n;            /* thread tasks under way */
    uint64_t                epoch;              /* of the state attached to */
    ngx_event_t             timer;              /* opening, waiting for it */
    ngx_event_t             tick;               /* coordinator's deadlines */
    ngx_event_t             later;              /* ngx_kafka_flush.c */
    ngx_kafka_part_t      **points;             /* ngx_kafka_tick.c */
    ngx_queue_t             drives;             /* ngx_kafka_txn.c */
    ngx_event_t             sweep;
    uint64_t                sweep_after;        /* the last it has looked at */
    uint64_t                sweep_epoch;        /* … in this state */
    struct ngx_kafka_fired_s   *fired;          /* ngx_kafka_wake.c */
    ngx_event_t            *drain;              /* keeps an exiting worker */
    ngx_uint_t              waits;              /* in a row, for others */
    ngx_uint_t              dead_workers;       /* found, to be swept */
    void                   *io;                 /* of kc: ngx_kafka_coord.c */
    int64_t                 section_end;        /* journal's, when locked */
    uint64_t                caching_version;    /* of the configs, of caching */
    ngx_array_t            *deleted;            /* by a replay: to be swept */
    unsigned                section_later:1;    /* its flush may wait */
    unsigned                caching:1;          /* write.caching, broker-wide */
    unsigned                exiting:1;          /* no new work, see drain */
    unsigned                recovering:1;       /* a task is under way */
    unsigned                finishing:1;        /* … the last one out */
    unsigned                finished:1;
    unsigned                topicless:1;        /* FindCoordinator told it */
};

/*
 * The worker's view of the broker.
 *
 *   CLOSED ──own the directory──> OPENING ──recovered──> OPEN
 *     ^                              │ failed               │ coordinator died
 *     └──────── retry by timer ──────┘      OPENING <───────┘ or suspect
 *   any ──worker exiting, last work gone──> CLOSED
 */
#define NGX_KAFKA_CLOSED    0
#define NGX_KAFKA_OPENING   1
#define NGX_KAFKA_OPEN      2

/* All brokers of this cycle: elements are ngx_kafka_broker_t *. */
ngx_array_t *ngx_kafka_brokers(ngx_cycle_t *cycle);

/* May a request be served now?  (owns the directory, recovered, attached) */
#define ngx_kafka_is_open(b)  ((b)->state == NGX_KAFKA_OPEN)

/* ngx_kafka_broker.c */
ngx_int_t ngx_kafka_broker_init_process(ngx_kafka_broker_t *b,
    ngx_cycle_t *cycle);
void ngx_kafka_broker_exit_process(ngx_kafka_broker_t *b);
/* Last connection, flush or job gone while exiting: gives the directory up. */
void ngx_kafka_broker_check_idle(ngx_kafka_broker_t *b);


/* --- coordinator ---------------------------------------------------------- */

/*
 * Takes the coordinator's lock.  NGX_OK: held, and the state is whole.
 * NGX_AGAIN: not open now (recovery runs); wait with ngx_kafka_watch_ready().
 * Between the two calls: no I/O but the journal's append, nothing long.
 */
ngx_int_t ngx_kafka_coord_lock(ngx_kafka_broker_t *b);
void ngx_kafka_coord_unlock(ngx_kafka_broker_t *b);
/* While it is held: no answer relies on what is appended, so it may be flushed
 * later. */
#define ngx_kafka_coord_later(b)  (b)->section_later = 1

/* After a decision that appended: publishes the journal and starts its flush.
 * Called by ngx_kafka_coord_unlock() when the journal's end has moved; that
 * call also raises the topics version and wakes the others if topics did. */

/*
 * Is the journal durable up to wait, an offset told while b->epoch was epoch?
 * NGX_OK, NGX_AGAIN (watch b->journal and ask again), NGX_DECLINED: the journal
 * was reopened meanwhile (its flush had failed), so what the answer relies on
 * may be lost: decide the request anew or refuse it with a retriable code.
 */
ngx_int_t ngx_kafka_journal_flushed(ngx_kafka_broker_t *b, uint64_t epoch,
    int64_t wait);


/* The epoch to append with: read right before, as it is raised before a
 * partition is reopened, which other workers are told of a little later. */
int32_t ngx_kafka_leader_epoch(ngx_kafka_broker_t *b);


/* Clocks as the coordinator takes them; mono_ms is the same in all workers. */
int64_t ngx_kafka_wall_ms(void);
int64_t ngx_kafka_mono_ms(void);


/* --- transactions -------------------------------------------------------- */

/*
 * Drives decided transactions that nobody waits for.  all: also those that were
 * decided a moment ago.  Not under the coordinator's lock.
 */
void ngx_kafka_txn_sweep(ngx_kafka_broker_t *b, ngx_uint_t all);
void ngx_kafka_txn_sweep_later(ngx_kafka_broker_t *b, ngx_msec_t after);
void ngx_kafka_txn_stop(ngx_kafka_broker_t *b);


/* --- watches -------------------------------------------------------------- */

/*
 * A watch waits for a change of one control block (of a partition, or of the
 * journal, which is slot 0): appended, flushed, deleted, failed.  Its handler
 * runs in the worker's event loop, from posted events, never from inside the
 * call that changed something; it is removed from the list before it runs, and
 * adds itself again when its condition does not hold yet.
 *
 * The order that keeps wake-ups from getting lost: add (which sets the shared
 * bit and fences), then check the condition; when it already holds, remove.
 */
struct ngx_kafka_watch_s {
    ngx_queue_t          queue;
    void               (*handler)(ngx_kafka_watch_t *w);
    void                *data;
    ngx_kafka_part_t    *part;                  /* NULL: not of a partition */
    ngx_kafka_broker_t  *broker;                /* set by add */
    unsigned             waiting:1;             /* in a list */
};

void ngx_kafka_watch_add(ngx_kafka_broker_t *b, ngx_kafka_part_t *part,
    ngx_kafka_watch_t *w);
void ngx_kafka_watch_del(ngx_kafka_watch_t *w);
/* Runs once when the broker is (again) OPEN in this worker. */
void ngx_kafka_watch_ready(ngx_kafka_broker_t *b, ngx_kafka_watch_t *w);

/*
 * What requests wait for that is not a partition: a group, by the hash of its
 * id.  A part without a log, for ngx_kafka_watch_add() only; NULL: no memory.
 * kc_woken_take() tells who is to be woken, at each release of the coordinator.
 */
ngx_kafka_part_t *ngx_kafka_point(ngx_kafka_broker_t *b, uint32_t hash);

/* Whoever changed a control block calls this afterwards, without any lock:
 * wakes the watches of this worker and of all others. */
void ngx_kafka_changed(ngx_kafka_broker_t *b, ngx_kafka_part_t *part);

/* A wait ended at its deadline although its condition held: counted in the
 * zone, unless a worker has just died; stays 0 unless a wake-up was lost. */
void ngx_kafka_wait_missed(ngx_kafka_broker_t *b);

/* Topics or configs changed: other workers drop what they cached, also when
 * nothing of theirs waits (descriptors of deleted partitions are closed). */
void ngx_kafka_topics_changed(ngx_kafka_broker_t *b);

/* The zone's counter of such changes, raised by ngx_kafka_topics_changed() and
 * by each recovery of the coordinator; read without a lock.  (life half) */
uint64_t ngx_kafka_topics_version(ngx_kafka_broker_t *b);


/* --- partitions and topics of this worker --------------------------------- */

struct ngx_kafka_part_s {
    ngx_kafka_topic_t   *topic;                 /* NULL for the journal */
    int32_t              index;
    int32_t              slot;
    uint64_t             incarnation;
    kl_part_t           *shared;
    kl_log_t            *log;
    ngx_queue_t          watches;
    ngx_uint_t           refs;
    /* ngx_kafka_flush.c */
    int64_t              flush_wanted;          /* flush up to here; -1: none */
    ngx_event_t          flush_retry;
    ngx_kafka_broker_t  *flush_broker;          /* of flush_retry */
    ngx_kafka_part_t    *wake_next;             /* ngx_kafka_wake.c */
    unsigned             wake_listed:1;
    unsigned             flushing:1;
    unsigned             gone:1;                /* deleted or replaced */
};

struct ngx_kafka_topic_s {
    ngx_str_t            name;
    kf_uuid_t            id;
    int32_t              partition_count;
    ngx_kafka_part_t   **parts;                 /* filled in at first use */
    int32_t             *slots;
    kl_config_t          log;                   /* effective configuration */
    kf_batch_rules_t     rules;                 /* timestamps: from now */
    int64_t              compression;           /* KC_COMPRESSION_PRODUCER, … */
    ngx_flag_t           caching;               /* write.caching */
    int64_t              changed;               /* journal offset to wait for */
    uint64_t             version;               /* the zone's at look-up */
    ngx_str_node_t       by_name;
    ngx_str_node_t       by_id;
    ngx_uint_t           refs;                  /* parts alive, and the table */
    unsigned             internal:1;
    unsigned             gone:1;
};

/*
 * Look-ups in the worker's table, refreshed from the coordinator when the
 * version in the zone differs.  NGX_OK, NGX_DECLINED (no such topic), NGX_AGAIN
 * (coordinator recovering).  The result is valid until control returns to the
 * event loop, unless referenced.
 */
ngx_int_t ngx_kafka_topic_by_name(ngx_kafka_broker_t *b, kf_str_t name,
    ngx_kafka_topic_t **t);
ngx_int_t ngx_kafka_topic_by_id(ngx_kafka_broker_t *b, kf_uuid_t id,
    ngx_kafka_topic_t **t);
/* NULL: no such partition (or no memory). */
ngx_kafka_part_t *ngx_kafka_topic_part(ngx_kafka_broker_t *b,
    ngx_kafka_topic_t *t, int32_t index);
void ngx_kafka_part_ref(ngx_kafka_part_t *part);
void ngx_kafka_part_unref(ngx_kafka_broker_t *b, ngx_kafka_part_t *part);
ngx_int_t ngx_kafka_topics_init(ngx_kafka_broker_t *b);
void ngx_kafka_topics_done(ngx_kafka_broker_t *b);
/* Looks every cached topic up again (the zone's version has changed): drops
 * those that are gone and runs the watches of their partitions.  Called by the
 * wake-up handler, and after a recovery of the coordinator. */
void ngx_kafka_topics_refresh(ngx_kafka_broker_t *b);

/* What consumers see: high watermark and last stable offset. */
typedef struct {
    kl_offsets_t  o;
    int64_t       high_watermark;
    int64_t       last_stable;
} ngx_kafka_offsets_t;

void ngx_kafka_part_offsets(ngx_kafka_part_t *part, ngx_kafka_offsets_t *o);

/* The same for a partition that must be there and open (a new one is opened).
 * Kafka's code; *o is filled in when it is NONE. */
int16_t ngx_kafka_part_ready(ngx_kafka_part_t *part, ngx_kafka_offsets_t *o);


/* What a topic asks of its logs; the coordinator's lock is held.  *caching:
 * write.caching.  (ngx_kafka_catalog.c) */
void ngx_kafka_topic_config(ngx_kafka_broker_t *b, kc_t *kc,
    const kc_topic_t *t, kl_config_t *cf, bool *caching);

/* The journal has a deletion that nobody else finishes. */
void ngx_kafka_sweep_soon(ngx_kafka_broker_t *b);
/* kl_remove() was called: kl_remove_files() is due. */
void ngx_kafka_removed(ngx_kafka_broker_t *b);


/* Drops all fetch sessions (ngx_kafka_session.c). */
void ngx_kafka_sessions_done(ngx_kafka_broker_t *b);


/* --- flush ---------------------------------------------------------------- */

/*
 * Asks for everything appended so far to be made durable: posts a thread task
 * unless one for this partition is under way in this worker, in which case
 * another follows it.  Its end calls ngx_kafka_changed().
 */
void ngx_kafka_flush(ngx_kafka_broker_t *b, ngx_kafka_part_t *part);

/*
 * The journal's end need not be flushed now: with what is appended next, or
 * when somebody wants it, or within a second.  want(): who waits for an offset
 * says so after adding the watch; if a flush up to there has been asked for
 * already, by any worker, it is looked after within a second.
 */
void ngx_kafka_journal_later(ngx_kafka_broker_t *b);
void ngx_kafka_journal_want(ngx_kafka_broker_t *b, int64_t wait);

/* After an append: wakes watches, starts the flush. */
void ngx_kafka_appended(ngx_kafka_broker_t *b, ngx_kafka_part_t *part);

/* After KL_STORAGE_ERROR: if that took the partition offline, wakes those who
 * wait for it and has it reopened. */
void ngx_kafka_storage_failed(ngx_kafka_broker_t *b, ngx_kafka_part_t *part);


/* --- threads -------------------------------------------------------------- */

/*
 * Runs work(ctx) in the thread pool, then done(ctx) in the event loop.  ctx is
 * size bytes allocated with ngx_alloc(), zeroed; freed after done().  The task
 * keeps the worker alive while it exits.  When the queue is full the work is
 * done at once, here.
 */
void *ngx_kafka_task_alloc(ngx_kafka_broker_t *b, size_t size);
void ngx_kafka_task_post(void *ctx, void (*work)(void *ctx),
    void (*done)(void *ctx));


/* --- connections ---------------------------------------------------------- */

typedef struct {
    ngx_kafka_broker_t          *broker;
    ngx_stream_complex_value_t  *advertise;     /* NULL: the local address */
    ngx_msec_t                   idle_timeout;  /* connections.max.idle.ms */
    size_t                       request_max;   /* socket.request.max.bytes */
    ngx_flag_t                   log_requests;
    ngx_msec_t                   drain_timeout; /* kafka_drain_timeout */
    ngx_str_t                    name;          /* as written after `kafka` */
    u_char                      *file;
    ngx_uint_t                   line;
} ngx_stream_kafka_srv_conf_t;

#define NGX_KAFKA_PIPELINE  64                  /* requests read ahead */

struct ngx_kafka_conn_s {
    ngx_stream_session_t         *session;
    ngx_connection_t             *connection;
    ngx_stream_kafka_srv_conf_t  *conf;
    ngx_kafka_broker_t           *broker;
    ngx_queue_t                   queue;        /* in broker->conns */
    ngx_queue_t                   requests;     /* in order, oldest first */
    ngx_uint_t                    requests_n;
    /* variables and the access log */
    kf_str_t                      client_id;    /* last seen, in the pool */
    kf_str_t                      software;
    kf_str_t                      software_version;
    uint64_t                      served;       /* requests answered */
    uint64_t                      errors;       /* answers with an error code */
    void                         *io;           /* ngx_kafka_conn.c's own */
};

/*
 * One request.  It lives in its own pool, from the last byte of its frame until
 * the last byte of its answer.
 */
struct ngx_kafka_request_s {
    ngx_kafka_conn_t      *conn;
    ngx_kafka_broker_t    *broker;
    ngx_pool_t            *pool;
    kf_arena_t             arena;               /* chunks from the pool */
    kf_request_header_t    header;
    uint8_t               *frame;               /* after the size field */
    size_t                 frame_len;
    kf_reader_t            reader;              /* stands at the body */
    const struct ngx_kafka_api_s  *api;
    ngx_queue_t            queue;               /* in conn->requests */
    void                  *body;                /* decoded request */
    void                  *ctx;                 /* the handler's own */
    ngx_msec_t             started;             /* ngx_current_msec */
    int16_t                error;               /* for logs: first error code */
    kf_str_t               topic;               /* for logs: first topic */
    /* parking */
    ngx_event_t            timer;               /* the handler's deadline */
    void                 (*cancel)(ngx_kafka_request_t *r);
    void                 (*hurry)(ngx_kafka_request_t *r);  /* NULL: waits */
    ngx_kafka_watch_t      watch;               /* one, for simple waits */
    int64_t                wait;                /* journal offset, or -1 */
    uint64_t               epoch;               /* b->epoch, with wait */
    void                 (*resume)(ngx_kafka_request_t *r);
    /* the answer */
    ngx_chain_t           *out;                 /* whole frame, when ready */
    size_t                 out_size;
    unsigned               ready:1;
    unsigned               silent:1;            /* acks=0: no answer at all */
    unsigned               exclusive:1;         /* all later ones wait for it */
    unsigned               dead:1;              /* connection gone: drop */
    unsigned               durable:1;           /* whatever caching says */
};


/* --- requests and handlers ------------------------------------------------ */

/*
 * Handlers are called with the decoded body in r->body and end in one of:
 *
 *   ngx_kafka_answer(r, &rsp)     at once or later; encodes, queues, writes;
 *   ngx_kafka_answer_when(r, &rsp, wait)  the same once the journal is flushed
 *                                 up to wait: it encodes now and parks;
 *   ngx_kafka_silence(r)          no answer (acks=0);
 *   ngx_kafka_fail(r, why)        closes the connection after what is pending.
 *
 * A handler that parks sets r->cancel, which is called when the connection goes
 * away (to drop watches, slices, references) and must not answer, and
 * r->hurry when it can answer early (reload).  A parked request that has a
 * thread task under way must not be freed before the task's end: see
 * ngx_kafka_request_hold()/release().
 */
typedef void (*ngx_kafka_handler_pt)(ngx_kafka_request_t *r);

typedef struct ngx_kafka_api_s {
    int16_t               key;
    ngx_kafka_handler_pt  handler;
    ngx_uint_t            flags;
#define NGX_KAFKA_API_BEFORE_OPEN  1            /* served while not open */
#define NGX_KAFKA_API_CACHED       2            /* as the broker's caching */
} ngx_kafka_api_t;

/* What is served: versions and decoders come from the codec's kf_api(). */
extern const ngx_kafka_api_t  ngx_kafka_apis[];
extern const ngx_uint_t       ngx_kafka_apis_n;

void ngx_kafka_answer(ngx_kafka_request_t *r, const void *response);
void ngx_kafka_answer_when(ngx_kafka_request_t *r, const void *response,
    int64_t wait);
void ngx_kafka_silence(ngx_kafka_request_t *r);
void ngx_kafka_fail(ngx_kafka_request_t *r, const char *why);

/* Calls resume(r) when the broker is open (again) in this worker. */
void ngx_kafka_park_ready(ngx_kafka_request_t *r,
    void (*resume)(ngx_kafka_request_t *r));
/* Calls resume(r) once the journal is flushed up to wait; at once if it is. */
void ngx_kafka_park_journal(ngx_kafka_request_t *r, int64_t wait,
    void (*resume)(ngx_kafka_request_t *r));

/* Clears r->exclusive and dispatches the requests that waited behind it. */
void ngx_kafka_request_proceed(ngx_kafka_request_t *r);

/*
 * Keeps the request's memory while a thread works on it.  After release the
 * request may be gone (r->dead): release answers NGX_DONE then.  r->cancel is
 * null meanwhile, since it must not take away what the thread uses: who gets
 * the thread's end cleans up, before release.
 */
void ngx_kafka_request_hold(ngx_kafka_request_t *r);
ngx_int_t ngx_kafka_request_release(ngx_kafka_request_t *r);

/* Response memory: zeroed, from the request's pool, n of a type; n comes from a
 * decoded array or from our own state, so the product cannot overflow. */
#define ngx_kafka_calloc(r, n, type)                                          \
    ((type *) ngx_pcalloc((r)->pool, ngx_max((size_t) (n), 1) * sizeof(type)))

/* Host and port to tell clients: kafka_advertise or the local address. */
ngx_int_t ngx_kafka_advertised(ngx_kafka_conn_t *kc, kf_str_t *host,
    int32_t *port);

/* A slice of a file for kf_records_t.ref, of which the writer makes a file
 * buffer.  It lives as long as the request. */
typedef struct ngx_kafka_splice_s  ngx_kafka_splice_t;

struct ngx_kafka_splice_s {
    kl_slice_t           slice;
    ngx_kafka_splice_t  *next;
};

/* From here on the slice's file is the request's, which lets go of it when it
 * ends, whether it was answered or not. */
void ngx_kafka_splice_own(ngx_kafka_request_t *r, ngx_kafka_splice_t *s);

/* ngx_kafka_conn.c */
void ngx_kafka_conn_handler(ngx_stream_session_t *s);
/* An answer became ready: write whatever is ready in order. */
void ngx_kafka_conn_write(ngx_kafka_conn_t *kc);
void ngx_kafka_conn_close(ngx_kafka_conn_t *kc, const char *why);
/* At once, with all that is pending. */
void ngx_kafka_conn_free(ngx_kafka_conn_t *kc);
/* The worker is exiting: answer parked requests early, then drain and close. */
void ngx_kafka_conns_drain(ngx_kafka_broker_t *b);

/* ngx_kafka_var.c: the $kafka_* variables; at preconfiguration. */
ngx_int_t ngx_kafka_add_variables(ngx_conf_t *cf);


/* --- faults --------------------------------------------------------------- */

/*
 * Points where a test kills the process: NGX_KAFKA_FAULT names a file in the
 * environment; a line "name" or "name:n" in it ends the first process that
 * comes to the point (for the n-th time), which removes the file first.  A line
 * "name?" makes it wait there instead, and "name=errno" ngx_kafka_fault_fails()
 * true.  ngx_kafka_fault_of() is "name" and "name-" with the producer's number.
 */
#if (NGX_KAFKA_FAULTS)
void ngx_kafka_fault_init(void);
void ngx_kafka_fault(const char *name);
void ngx_kafka_fault_of(const char *name, int64_t producer_id);
int ngx_kafka_fault_fails(const char *name);
#else
#define ngx_kafka_fault(name)
#define ngx_kafka_fault_of(name, producer_id)
#define ngx_kafka_fault_fails(name)  0
#endif


#pragma GCC visibility pop

#endif
