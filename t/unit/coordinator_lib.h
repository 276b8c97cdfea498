/*
 * For the coordinator's tests: a world in memory.  An allocator that counts and
 * fails on demand, a journal that is a list of batches, a table of slots,
 * random numbers from a counter.
 */

#ifndef COORDINATOR_LIB_H
#define COORDINATOR_LIB_H

#include "../tap.h"
#include "../../codec/kf_codec.h"
#include "../../coordinator/kc_request.h"

#ifndef SLOTS
#define SLOTS    64
#endif
#ifndef BATCHES
#define BATCHES  8192
#endif
#define NOW      ((kc_time_t) { 1700000000000, 1000 })

typedef struct {
    /* allocator */
    int         fail_in;            /* the n-th allocation fails; 0: none */
    int         live;
    size_t      bytes;
    /* journal */
    uint8_t    *batches[BATCHES];
    size_t      sizes[BATCHES];
    int64_t     ends[BATCHES];
    int         count;
    int64_t     end;
    bool        journal_fails;
    /* slots */
    bool        used[SLOTS];
    kf_uuid_t   ids[SLOTS];
    int32_t     partitions[SLOTS];
    int         room;               /* slots that may be used */
    int         bound;
    /* transactions: how often a partition was opened, and the last one */
    int         opened;
    int32_t     opened_partition;
    int64_t     opened_pid;
    int16_t     opened_epoch;
    int         opened_version;
    int64_t     opened_number;
    /* others */
    uint32_t    seed;
    kc_t        kc;
    kf_heap_t   heap;
    kf_arena_t  arena;
    kc_call_t   call;
    kc_static_t config;
} world_t;


__attribute__((unused))
static void *
world_alloc(void *ctx, size_t size)
{
    world_t  *w = ctx;

    if (w->fail_in && --w->fail_in == 0) {
        return NULL;
    }

    w->live++;
    w->bytes += size;

    return memset(malloc(size), 0xa5, size);
}


__attribute__((unused))
static void
world_free(void *ctx, void *p, size_t size)
{
    world_t  *w = ctx;

    w->live--;
    w->bytes -= size;
    free(p);
}


__attribute__((unused))
static int
world_append(void *ctx, uint8_t *batch, size_t len, int64_t *end)
{
    world_t     *w = ctx;
    kf_batch_t   b;

    if (w->journal_fails || w->count == BATCHES) {
        return -1;
    }

    kf_batch_set_base_offset(batch, w->end);

    if (kf_batch_header(batch, len, &b) != KF_OK) {
        abort();
    }

    w->batches[w->count] = malloc(len);
    memcpy(w->batches[w->count], batch, len);
    w->sizes[w->count] = len;
    w->end = kf_batch_next_offset(&b);
    w->ends[w->count++] = w->end;
    *end = w->end;

    return 0;
}


__attribute__((unused))
static int32_t
world_bind(void *ctx, kf_uuid_t id, int32_t partition)
{
    int       i, slot = -1;
    world_t  *w = ctx;

    for (i = 0; i < w->room; i++) {
        if (w->used[i] && kf_uuid_eq(w->ids[i], id)
            && w->partitions[i] == partition)
        {
            return i;
        }

        if (!w->used[i] && slot < 0) {
            slot = i;
        }
    }

    if (slot >= 0) {
        w->used[slot] = true;
        w->ids[slot] = id;
        w->partitions[slot] = partition;
        w->bound++;
    }

    return slot;
}


__attribute__((unused))
static void
world_release(void *ctx, int32_t slot)
{
    world_t  *w = ctx;

    if (slot < 0 || slot >= SLOTS || !w->used[slot]) {
        abort();
    }

    w->used[slot] = false;
    w->bound--;
}


__attribute__((unused))
static void
world_random(void *ctx, void *buf, size_t len)
{
    size_t    i;
    world_t  *w = ctx;

    for (i = 0; i < len; i++) {
        w->seed = w->seed * 1103515245 + 12345;
        ((uint8_t *) buf)[i] = (uint8_t) (w->seed >> 16);
    }
}


__attribute__((unused))
static void
world_txn_open(void *ctx, const kc_topic_t *t, int32_t partition, int64_t pid,
    int16_t epoch, int version, int64_t number)
{
    world_t  *w = ctx;

    (void) t;

    w->opened++;
    w->opened_partition = partition;
    w->opened_pid = pid;
    w->opened_epoch = epoch;
    w->opened_version = version;
    w->opened_number = number;
}


__attribute__((unused))
static kc_io_t
world_io(world_t *w)
{
    return (kc_io_t) { world_append, world_bind, world_release, world_random,
                       w, world_txn_open };
}


__attribute__((unused))
static void
world_start(world_t *w)
{
    memset(w, 0, sizeof(world_t));
    w->room = SLOTS;
    w->seed = 1;

    if (!kc_init(&w->kc, (kc_mem_t) { world_alloc, world_free, w },
                 world_io(w))
        || kc_state_create(&w->kc) == NULL)
    {
        abort();
    }

    kf_arena_init(&w->arena, kf_heap_chunk, &w->heap, 64 * 1024 * 1024);
    w->call.now = NOW;
    w->call.config = &w->config;
    w->call.node_id = 1;
    w->call.arena = &w->arena;
}


__attribute__((unused))
static void
world_end(world_t *w)
{
    int  i;

    kc_state_free(&w->kc);
    kc_done(&w->kc);
    kf_heap_free(&w->heap);

    for (i = 0; i < w->count; i++) {
        free(w->batches[i]);
    }

    is(w->live, 0, "every block of the state is given back");
}


/* Replays the journal into a new state of another world. */
__attribute__((unused))
static kc_rc_t
world_replay(const world_t *from, world_t *to)
{
    int      i;
    kc_rc_t  rc;

    for (i = 0; i < from->count; i++) {
        rc = kc_replay(&to->kc, from->batches[i], from->sizes[i],
                       from->ends[i]);
        if (rc != KC_OK) {
            return rc;
        }
    }

    return kc_replay_end(&to->kc);
}


/* The state is sound and equal to what its journal rebuilds. */
__attribute__((unused))
static void
world_check(world_t *w, const char *label)
{
    world_t  other;

    world_start(&other);

    ok(kc_check(&w->kc) == NULL, "%s: invariants hold%s%s", label,
       kc_check(&w->kc) ? ": " : "", kc_check(&w->kc) ? kc_check(&w->kc) : "");
    is(world_replay(w, &other), KC_OK, "the journal can be replayed");

    if (other.kc.problem.len) {
        diag("%.*s", (int) other.kc.problem.len, other.kc.problem.data);
    }

    ok(kc_hash(&other.kc) == kc_hash(&w->kc),
       "and rebuilds the state: %016llx %016llx",
       (unsigned long long) kc_hash(&other.kc),
       (unsigned long long) kc_hash(&w->kc));
    ok(kc_check(&other.kc) == NULL, "whose invariants hold too");

    world_end(&other);
}


__attribute__((unused))
static kf_str_t
s(const char *text)
{
    return (kf_str_t) { (const uint8_t *) text, (uint32_t) strlen(text) };
}


/* A NUL-terminated copy in one of four buffers. */
__attribute__((unused))
static const char *
c(kf_str_t str)
{
    static int   n;
    static char  bufs[4][1024];
    char        *buf = bufs[n++ & 3];

    if (str.data == NULL) {
        return NULL;
    }

    snprintf(buf, sizeof(bufs[0]), "%.*s", (int) str.len, str.data);

    return buf;
}


/* Creates one topic and returns the error code. */
__attribute__((unused))
static int16_t
create(world_t *w, const char *name, int32_t partitions,
    kf_create_topics_response_topics_t *out)
{
    kc_rc_t                            rc;
    kf_create_topics_request_t         req;
    kf_create_topics_response_t        rsp;
    kf_create_topics_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = s(name);
    t.num_partitions = partitions;
    t.replication_factor = -1;
    req.topics = &t;
    req.topics_n = 1;

    rc = kc_create_topics(&w->kc, &w->call, &req, &rsp);

    if (rc != KC_OK) {
        return (int16_t) (-100 - rc);
    }

    if (out) {
        *out = rsp.topics[0];
    }

    return rsp.topics[0].error_code;
}


__attribute__((unused))
static int16_t
delete(world_t *w, const char *name)
{
    kc_rc_t                            rc;
    kf_delete_topics_request_t         req;
    kf_delete_topics_response_t        rsp;
    kf_delete_topics_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = s(name);
    req.topics = &t;
    req.topics_n = 1;

    rc = kc_delete_topics(&w->kc, &w->call, 6, &req, &rsp);

    return rc == KC_OK ? rsp.responses[0].error_code : (int16_t) (-100 - rc);
}

#endif
