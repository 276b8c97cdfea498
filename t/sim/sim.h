/*
 * The simulator: one process, one seed, a virtual clock; several virtual
 * workers over one shared zone and one data directory, driven step by step.
 *
 *   sim.h          the world: random numbers, trace, breaks, types
 *   sim_disk.h     what a power cut leaves of the files
 *   sim_model.h    what was promised
 *   sim_broker.h   workers, the coordinator's section, recovery, flushes
 *   sim_boot.h     snapshots, start and stop, power cut
 *   sim_check.h    the broker compared with the model
 *   sim_client.h   producers, admins, consumers
 *   sim_group.h    classic groups: members that join and are assigned
 *   sim_group_step.h  … step by step; commits, and their checks
 *   sim_txn.h      transactions: what is promised, and the requests
 *   sim_txn_reader.h  … whose inputs a group gives out
 *   sim_txn_drive.h  … what goes to the logs, and drivers
 *   sim_txn_app.h  … producers and zombies, late requests
 *   sim_txn_check.h  … exactly once, and none that hangs
 *   sim_test.c     the schedule, seeds, the command line
 *
 * Faults that have to be survived: a worker that dies at any call that the
 * coordinator makes to the world (allocation, binding, append, …) or between
 * two steps of an operation; a crash of all workers at once, after which each
 * log has a prefix of its own between what was flushed and what was written,
 * with a torn tail; requests that are lost, repeated and late; a journal that
 * refuses an append; a zone that is full.
 *
 * Not simulated: a log that loses flushed bytes, threads of one worker in
 * parallel, and a death inside an append (log/ has its own tests of that).
 */

#ifndef SIM_H
#define SIM_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../codec/kf_codec.h"
#include "../../log/kl.h"
#include "../../coordinator/kc_request.h"

#define WORKERS      3
#define PARTS        48                 /* slots of the zone */
#define REMOVALS     (2 * PARTS)
#define PRODUCERS    256
#define TOPICS       256                /* ever created in one run */
#define TOPIC_PARTS  3
#define CLIENTS      4                  /* of each kind */
#define INFLIGHT     5                  /* batches of a producer */
#define PATH         512


/* What a broken build would do; each has to be found. */
#define BREAKS(X)                                                             \
    X(NONE, "none")                                                           \
    X(ACK_EARLY, "ack-before-flush")                                          \
    X(ANSWER_EARLY, "answer-before-journal-flush")                            \
    X(TOPIC_EARLY, "ack-before-topic-is-durable")                             \
    X(SEE_EARLY, "consumers-see-the-log-end")                                 \
    X(NO_DUPLICATES, "no-duplicate-check")                                    \
    X(NO_REPLAY, "replay-not-run")                                            \
    X(NO_RECOVERY, "no-recovery-after-a-death")                               \
    X(NO_PID_BLOCK, "producer-id-block-not-journaled")                        \
    X(PID_AT_HAND, "rest-of-a-block-survives")                                \
    X(REMOVE_EARLY, "files-removed-before-journal-flush")                     \
    X(SNAPSHOT_LOST, "snapshot-not-synced")                                   \
    X(SAME_EPOCH, "leader-epoch-not-raised")                                  \
    X(NO_WAKE, "group-not-woken")                                             \
    X(NO_GENERATION, "generation-not-journaled")                              \
    X(NO_OFFSETS, "offsets-not-journaled")                                    \
    X(NO_TICK, "group-timer-not-run")                                         \
    X(NO_PREPARE_FLUSH, "markers-before-the-decision-is-durable")             \
    X(COMPLETE_EARLY, "complete-before-the-markers")                          \
    X(NO_FENCE, "fencing-left-out")                                           \
    X(STAGED_LOST, "staged-offsets-in-memory-only")                           \
    X(NO_DATA_FLUSH, "data-not-flushed-before-the-decision")                  \
    X(NO_VERIFY, "late-data-opens-a-transaction")                             \
    X(NO_NUMBERS, "a-late-marker-ends-the-next-transaction")                  \
    X(NO_RECONCILE, "open-transactions-not-reconciled")                       \
    X(SAME_MARKER, "an-aborted-batch-is-taken-for-a-duplicate")               \
    X(NO_GROUP_FENCE, "offsets-of-any-generation")                            \
    X(NO_MEMBER_FENCE, "offsets-of-a-replaced-member")                        \
    X(NOT_STABLE, "offsets-shown-while-others-are-pending")

typedef enum {
#define X(name, text)  BREAK_##name,
    BREAKS(X)
#undef X
    BREAK_COUNT
} break_t;

static const char *const  break_names[] = {
#define X(name, text)  text,
    BREAKS(X)
#undef X
};


/* --- random numbers ------------------------------------------------------ */

static uint64_t  rng;

static uint64_t
rnd64(void)
{
    uint64_t  z = (rng += 0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;

    return z ^ (z >> 31);
}


/* 0 to n - 1 */
static uint32_t
rnd(uint32_t n)
{
    return n ? (uint32_t) (rnd64() % n) : 0;
}


static bool
chance(uint32_t percent)
{
    return rnd(100) < percent;
}


/* --- trace --------------------------------------------------------------- */

#define TRACE  48

static char      trace_lines[TRACE][200];
static uint64_t  trace_n, trace_hash;
static bool      verbose;
static uint64_t  step;

__attribute__((format(printf, 1, 2)))
static void
trace(const char *fmt, ...)
{
    int      n;
    char    *line = trace_lines[trace_n++ % TRACE];
    va_list  args;

    n = snprintf(line, sizeof(trace_lines[0]), "%5llu  ",
                 (unsigned long long) step);
    va_start(args, fmt);
    vsnprintf(line + n, sizeof(trace_lines[0]) - (size_t) n, fmt, args);
    va_end(args);

    for ( ; *line; line++) {
        trace_hash = (trace_hash ^ (uint8_t) *line) * 0x100000001b3;
    }

    if (verbose) {
        printf("# %s\n", trace_lines[(trace_n - 1) % TRACE]);
    }
}


/* A run ends at its first failure; the text is what was found. */
static jmp_buf  failed;
static char     failure[512];

__attribute__((format(printf, 1, 2), noreturn))
static void
fail(const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    vsnprintf(failure, sizeof(failure), fmt, args);
    va_end(args);

    longjmp(failed, 1);
}


/* --- the world ----------------------------------------------------------- */

typedef struct block_s  block_t;

struct block_s {
    block_t  *next;
    block_t  *prev;
    size_t    size;
};

typedef struct {
    bool       alive;
    bool       section;                 /* inside the coordinator's lock */
    kc_t       kc;
    kl_env_t  *env;
    kl_log_t  *journal;
    kl_log_t  *logs[PARTS];
    uint64_t   incarnations[PARTS];
} worker_t;

/* A partition whose files have to go once the journal says so durably. */
typedef struct {
    bool       used;
    int32_t    slot;
    uint64_t   incarnation;
    int        topic;                   /* in the model */
    int32_t    partition;
    int64_t    wait;
} removal_t;

/* A removed directory whose new name a power cut may lose. */
typedef struct {
    char         from[64];
    char         to[PATH / 2];
} renamed_t;

typedef struct {
    break_t      broken;
    char         dir[PATH];
    int64_t      now_ms;

    /* the zone */
    block_t      blocks;                /* the coordinator's memory */
    bool         frozen;                /* frees of a dead worker: ignored */
    uint32_t     alloc_fails;           /* percent */
    void        *shared_mem;
    kl_shared_t *shared;
    kc_state_t  *state;
    bool         dirty;                 /* somebody died in the section */
    int32_t      journal_slot;
    int          slot_topic[PARTS];     /* in the model, -1 */
    int32_t      slot_partition[PARTS];
    removal_t    removals[REMOVALS];
    renamed_t    renamed[REMOVALS];
    int          renamed_n;
    int          creating;              /* whose ids come next, see bind */

    worker_t     workers[WORKERS];

    /* the death that is due: after so many calls to the world */
    uint32_t     die_in;
    jmp_buf      death;

    /* for NO_PID_BLOCK and PID_AT_HAND */
    int64_t      fake_end;

    kc_static_t  config;
    kf_heap_t    heap;                  /* of the section under way */
    kf_arena_t   arena;

    bool         calm;                  /* no more deaths and losses */
    bool         cut;                   /* now is a good moment */
    bool         eager;                 /* who waits has the journal flushed */

    /* counted, to see that a run does something */
    uint64_t     synced, commits;
    uint64_t     acks, reads, deaths, crashes, restarts, duplicates, recoveries,
                 snapshots, created, deleted, truncated;
} world_t;

static world_t  w;

static const kf_uuid_t  journal_id = { { 0xff, 1 } };

static const kl_config_t  journal_config = {
    .segment_bytes = 1200, .segment_ms = INT64_MAX,
    .segment_index_bytes = 1024, .index_interval_bytes = 256,
    .retention_ms = -1, .retention_bytes = -1,
    .producer_expiration_ms = INT64_MAX,
};

static const kl_config_t  topic_config = {
    .segment_bytes = 900, .segment_ms = INT64_MAX,
    .segment_index_bytes = 1024, .index_interval_bytes = 128,
    .retention_ms = -1, .retention_bytes = -1,
    .producer_expiration_ms = INT64_MAX,
};


static kc_time_t
now(void)
{
    return (kc_time_t) { 1700000000000 + w.now_ms, w.now_ms };
}

#endif
