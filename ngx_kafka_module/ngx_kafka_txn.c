/*
 * Driving decided transactions to their end.
 *
 *   decided ──journal flushed──> markers ──all written and flushed──> complete
 *      │                            │ a partition failed
 *      └──────── given up ──────────┘   (the sweep tries again)
 *
 * A marker is appended and flushed by one thread for each partition, side by
 * side, without the coordinator's lock.  Every step may be repeated, also by
 * another worker: markers are idempotent, and so is completing.
 *
 * With write.caching of the broker nothing waits for the journal, nor for the
 * markers of topics that have it too: these are appended here and now, unless
 * they are many.
 *
 * The sweep drives what nobody waits for: transactions that were aborted by a
 * timeout or a fencing, and those of workers that died.  It runs when the
 * coordinator says that there is such work, when the broker opens, and every
 * second while any is left; what somebody drives at this moment is younger.
 * Many are begun some at a time, each sweep where the last one has stopped, so
 * that those of a partition that has failed are in nobody's way.
 */

#include "ngx_kafka_txn.h"


#define NGX_KAFKA_SWEEP        1000     /* ms, while work is left */
#define NGX_KAFKA_SWEEP_YOUNG  2000     /* ms: its own driver is at it */
#define NGX_KAFKA_SWEEP_MAX    64       /* drives begun by one sweep */
#define NGX_KAFKA_SWEEP_NEXT   10       /* ms, when there may be more */
#define NGX_KAFKA_MARK_NOW     32       /* markers appended without a thread */


typedef struct {
    ngx_kafka_drive_t  *drive;
    kf_uuid_t           topic_id;
    int32_t             partition;
    ngx_kafka_part_t   *part;           /* referenced; NULL: deleted */
    kl_config_t         config;
    kl_marker_t         marker;
    kl_rc_t             rc;
    unsigned            cached:1;       /* it is not flushed */
} ngx_kafka_mark_t;

typedef struct {
    ngx_kafka_mark_t   *mark;
} ngx_kafka_mark_task_t;

struct ngx_kafka_drive_s {
    ngx_queue_t          queue;         /* in the broker's drives */
    ngx_pool_t          *pool;
    ngx_kafka_broker_t  *broker;
    kf_str_t             transactional_id;
    int64_t              producer_id;
    int16_t              epoch;
    int64_t              prepared;
    uint64_t             broker_epoch;
    ngx_kafka_watch_t    watch;
    ngx_kafka_mark_t    *marks;
    ngx_uint_t           marks_n;
    ngx_uint_t           left;          /* threads under way */
    ngx_uint_t           failed;
    void               (*done)(void *data, ngx_int_t rc);
    void                *data;
};


static void ngx_kafka_drive_journal(ngx_kafka_watch_t *w);
static void ngx_kafka_drive_mark(ngx_kafka_drive_t *d);
static void ngx_kafka_mark(ngx_kafka_mark_t *m);
static void ngx_kafka_mark_work(void *ctx);
static void ngx_kafka_mark_done(void *ctx);
static void ngx_kafka_marked(ngx_kafka_mark_t *m);
static void ngx_kafka_drive_complete(ngx_kafka_drive_t *d);
static void ngx_kafka_drive_end(ngx_kafka_drive_t *d, ngx_int_t rc);
static ngx_uint_t ngx_kafka_driving(ngx_kafka_broker_t *b,
    const kc_txn_work_t *work);
static void ngx_kafka_sweep_handler(ngx_event_t *ev);


ngx_kafka_drive_t *
ngx_kafka_txn_drive(ngx_kafka_broker_t *b, const kc_txn_work_t *work,
    void (*done)(void *data, ngx_int_t rc), void *data)
{
    u_char             *p;
    uint32_t            i;
    ngx_pool_t         *pool;
    ngx_kafka_mark_t   *m;
    ngx_kafka_drive_t  *d;

    pool = ngx_create_pool(2048, b->log);
    if (pool == NULL) {
        return NULL;
    }

    d = ngx_pcalloc(pool, sizeof(ngx_kafka_drive_t));
    p = ngx_pnalloc(pool, ngx_max(work->transactional_id.len, 1));
    m = ngx_pcalloc(pool, ngx_max(work->parts_n, 1) * sizeof(ngx_kafka_mark_t));

    if (d == NULL || p == NULL || m == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    ngx_memcpy(p, work->transactional_id.data, work->transactional_id.len);

    d->pool = pool;
    d->broker = b;
    d->transactional_id.data = p;
    d->transactional_id.len = work->transactional_id.len;
    d->producer_id = work->producer_id;
    d->epoch = work->epoch;
    d->prepared = work->prepared;
    d->broker_epoch = b->epoch;
    d->marks = m;
    d->done = done;
    d->data = data;
    d->watch.handler = ngx_kafka_drive_journal;
    d->watch.data = d;

    d->marks_n = work->parts_n;

    for (i = 0; i < work->parts_n; i++, m++) {
        m->drive = d;
        m->topic_id = work->parts[i].topic_id;
        m->partition = work->parts[i].partition;
        m->marker.producer_id = work->producer_id;
        m->marker.producer_epoch = work->epoch;
        m->marker.commit = work->commit;
        m->marker.decided = work->prepared;
    }

    ngx_queue_insert_tail(&b->drives, &d->queue);

    return d;
}


/* The coordinator's lock is not held. */
void
ngx_kafka_txn_drive_start(ngx_kafka_drive_t *d)
{
    ngx_int_t            rc;
    ngx_uint_t           i;
    ngx_kafka_mark_t    *m;
    ngx_kafka_topic_t   *t;
    ngx_kafka_broker_t  *b = d->broker;

    for (i = 0; i < d->marks_n; i++) {
        m = &d->marks[i];

        rc = ngx_kafka_topic_by_id(b, m->topic_id, &t);

        if (rc == NGX_DECLINED) {
            continue;                   /* deleted: nothing is left to mark */
        }

        if (rc == NGX_OK) {
            m->part = ngx_kafka_topic_part(b, t, m->partition);
        }

        if (m->part == NULL) {
            ngx_kafka_drive_end(d, NGX_ERROR);
            return;
        }

        ngx_kafka_part_ref(m->part);

        /* segments of a marker roll as those of any batch */
        m->config = t->log;
        m->cached = b->caching && t->caching;
    }

    ngx_kafka_drive_journal(&d->watch);
}


static void
ngx_kafka_drive_journal(ngx_kafka_watch_t *w)
{
    ngx_int_t            rc;
    ngx_kafka_drive_t   *d = w->data;
    ngx_kafka_broker_t  *b = d->broker;

    rc = ngx_kafka_journal_flushed(b, d->broker_epoch, d->prepared);

    if (rc == NGX_AGAIN && b->journal && b->caching) {
        rc = NGX_OK;
    }

    if (rc == NGX_AGAIN && b->journal) {

        /* add, then look again */

        ngx_kafka_watch_add(b, b->journal, w);

        rc = ngx_kafka_journal_flushed(b, d->broker_epoch, d->prepared);

        if (rc == NGX_AGAIN) {
            ngx_kafka_journal_want(b, d->prepared);
            return;
        }

        ngx_kafka_watch_del(w);
    }

    if (rc != NGX_OK) {
        ngx_kafka_drive_end(d, NGX_ERROR);
        return;
    }

    ngx_kafka_drive_mark(d);
}


static void
ngx_kafka_drive_mark(ngx_kafka_drive_t *d)
{
    ngx_uint_t              i, now;
    ngx_kafka_mark_task_t  *task;

    ngx_kafka_fault("txn-prepared");

    /* counted first: a task may be done at once when the queue is full */

    d->left = d->marks_n + 1;
    now = 0;

    for (i = 0; i < d->marks_n; i++) {

        if (d->marks[i].part == NULL) {
            d->left--;
            continue;
        }

        if (d->marks[i].cached && now++ < NGX_KAFKA_MARK_NOW) {
            ngx_kafka_mark(&d->marks[i]);
            ngx_kafka_marked(&d->marks[i]);
            d->left--;
            continue;
        }

        task = ngx_kafka_task_alloc(d->broker, sizeof(ngx_kafka_mark_task_t));

        if (task == NULL) {
            d->failed++;
            d->left--;
            continue;
        }

        task->mark = &d->marks[i];
        ngx_kafka_task_post(task, ngx_kafka_mark_work, ngx_kafka_mark_done);
    }

    if (--d->left == 0) {
        ngx_kafka_drive_complete(d);
    }
}


static void
ngx_kafka_mark(ngx_kafka_mark_t *m)
{
    int64_t       flushed;
    kl_marked_t   res;
    kl_offsets_t  o;

    ngx_kafka_fault_of("txn-marking", m->marker.producer_id);

    m->rc = kl_append_marker(m->part->log, &m->marker, &m->config,
                             ngx_kafka_leader_epoch(m->drive->broker),
                             ngx_kafka_wall_ms(), &res);

    ngx_kafka_fault("txn-marked");

    if (m->cached) {
        return;
    }

    if (m->rc == KL_OK) {
        m->rc = kl_flush(m->part->log, &flushed);
    }

    ngx_kafka_fault("txn-marker-flushed");

    if (m->rc == KL_OK) {
        kl_snapshot(m->part->shared, &o);

        /* opened again: the marker may be cut off */

        if (o.generation != res.generation) {
            m->rc = KL_FAILED;
        }
    }
}


/* In a thread. */
static void
ngx_kafka_mark_work(void *ctx)
{
    ngx_kafka_mark_task_t  *task = ctx;

    ngx_kafka_mark(task->mark);
}


static void
ngx_kafka_mark_done(void *ctx)
{
    ngx_kafka_mark_task_t  *task = ctx;
    ngx_kafka_drive_t      *d = task->mark->drive;

    ngx_kafka_marked(task->mark);

    if (--d->left == 0) {
        ngx_kafka_drive_complete(d);
    }
}


static void
ngx_kafka_marked(ngx_kafka_mark_t *m)
{
    ngx_kafka_drive_t  *d = m->drive;

    switch (m->rc) {

    case KL_OK:
        ngx_kafka_changed(d->broker, m->part);
        break;

    case KL_GONE:                       /* deleted: nothing is left to mark */
    case KL_REFUSED:                    /* a later epoch: it was marked */
        break;

    default:
        d->failed++;
    }
}


static void
ngx_kafka_drive_complete(ngx_kafka_drive_t *d)
{
    kc_rc_t              rc;
    kc_call_t            call;
    kf_heap_t            heap;
    kf_arena_t           arena;
    ngx_kafka_broker_t  *b = d->broker;

    ngx_kafka_fault("txn-all-marked");

    if (d->failed || ngx_kafka_coord_lock(b) != NGX_OK) {
        ngx_kafka_drive_end(d, NGX_ERROR);
        return;
    }

    heap.chunks = NULL;
    kf_arena_init(&arena, kf_heap_chunk, &heap, 1024 * 1024);

    ngx_memzero(&call, sizeof(kc_call_t));
    call.now = ngx_kafka_now();
    call.config = &b->config;
    call.node_id = (int32_t) b->node_id;
    call.arena = &arena;

    rc = kc_txn_complete(&b->kc, &call, d->transactional_id, d->producer_id,
                         d->epoch, d->prepared);

    /* if it gets lost, the transaction is driven again, which does nothing */

    ngx_kafka_coord_later(b);
    ngx_kafka_coord_unlock(b);
    kf_heap_free(&heap);

    ngx_kafka_fault("txn-completed");
    ngx_kafka_drive_end(d, rc == KC_OK ? NGX_OK : NGX_ERROR);
}


static void
ngx_kafka_drive_end(ngx_kafka_drive_t *d, ngx_int_t rc)
{
    ngx_uint_t           i;
    ngx_kafka_broker_t  *b = d->broker;

    ngx_kafka_watch_del(&d->watch);
    ngx_queue_remove(&d->queue);

    for (i = 0; i < d->marks_n; i++) {
        if (d->marks[i].part) {
            ngx_kafka_part_unref(b, d->marks[i].part);
        }
    }

    if (rc != NGX_OK) {
        ngx_kafka_txn_sweep_later(b, NGX_KAFKA_SWEEP);
    }

    if (d->done) {
        d->done(d->data, rc);
    }

    ngx_destroy_pool(d->pool);

    ngx_kafka_broker_check_idle(b);
}


void
ngx_kafka_txn_forget(ngx_kafka_drive_t *d)
{
    d->done = NULL;
    d->data = NULL;
}


/* --- what nobody waits for ------------------------------------------------ */

static ngx_uint_t
ngx_kafka_driving(ngx_kafka_broker_t *b, const kc_txn_work_t *work)
{
    ngx_queue_t        *q;
    ngx_kafka_drive_t  *d;

    for (q = ngx_queue_head(&b->drives);
         q != ngx_queue_sentinel(&b->drives);
         q = ngx_queue_next(q))
    {
        d = ngx_queue_data(q, ngx_kafka_drive_t, queue);

        if (d->producer_id == work->producer_id && d->epoch == work->epoch) {
            return 1;
        }
    }

    return 0;
}


void
ngx_kafka_txn_sweep(ngx_kafka_broker_t *b, ngx_uint_t all)
{
    uint64_t             after;
    kc_call_t            call;
    kf_heap_t            heap;
    kf_arena_t           arena;
    ngx_uint_t           n, i, left;
    kc_txn_work_t        work;
    ngx_kafka_drive_t   *begun[NGX_KAFKA_SWEEP_MAX];

    if (b->exiting || ngx_kafka_coord_lock(b) != NGX_OK) {
        return;                         /* whoever opens it sweeps */
    }

    heap.chunks = NULL;
    kf_arena_init(&arena, kf_heap_chunk, &heap, 64 * 1024 * 1024);

    ngx_memzero(&call, sizeof(kc_call_t));
    call.now = ngx_kafka_now();
    call.config = &b->config;
    call.node_id = (int32_t) b->node_id;
    call.arena = &arena;

    /* serials begin anew with the state */

    after = b->sweep_epoch == b->epoch ? b->sweep_after : 0;
    left = (after != 0);
    n = 0;

    while (n < NGX_KAFKA_SWEEP_MAX) {
        ngx_memzero(&work, sizeof(kc_txn_work_t));

        if (kc_txn_next_prepared(&b->kc, &call, after, &work) != KC_OK) {
            break;
        }

        if (work.step == KC_TXN_DONE) {
            after = 0;
            break;
        }

        after = work.serial;
        left = 1;

        if (ngx_kafka_driving(b, &work)
            || (!all && work.prepared_ms
                && call.now.mono_ms - work.prepared_ms < NGX_KAFKA_SWEEP_YOUNG))
        {
            continue;
        }

        begun[n] = ngx_kafka_txn_drive(b, &work, NULL, NULL);

        if (begun[n] == NULL) {
            break;
        }

        n++;
    }

    b->sweep_after = after;
    b->sweep_epoch = b->epoch;

    ngx_kafka_coord_unlock(b);
    kf_heap_free(&heap);

    for (i = 0; i < n; i++) {
        ngx_kafka_txn_drive_start(begun[i]);
    }

    if (left) {
        ngx_kafka_txn_sweep_later(b, n == NGX_KAFKA_SWEEP_MAX
                                     ? NGX_KAFKA_SWEEP_NEXT : NGX_KAFKA_SWEEP);
    }
}


void
ngx_kafka_txn_sweep_later(ngx_kafka_broker_t *b, ngx_msec_t after)
{
    if (b->exiting || b->sweep.timer_set) {
        return;
    }

    b->sweep.handler = ngx_kafka_sweep_handler;
    b->sweep.data = b;
    b->sweep.log = b->log;
    b->sweep.cancelable = 1;

    ngx_add_timer(&b->sweep, after);
}


static void
ngx_kafka_sweep_handler(ngx_event_t *ev)
{
    ngx_kafka_txn_sweep(ev->data, 0);
}


void
ngx_kafka_txn_stop(ngx_kafka_broker_t *b)
{
    if (b->sweep.timer_set) {
        ngx_del_timer(&b->sweep);
    }
}
