/*
 * Wake-ups between workers, without polling.
 *
 * The first master makes 128 eventfds; every later worker, of whatever cycle,
 * inherits them.  A worker claims a slot in the zone of each broker and listens
 * to the eventfd of the slot's number.  Payload is never carried: what happened
 * is in the zone, in the slot's pending bits and its bitmap of partitions.
 *
 *   waiter                            changer
 *   ------                            -------
 *   sets its bit in the partition     publishes the change
 *   fence                             fence
 *   checks its condition              reads the bits, clears them
 *   waits                             for each: bit in that slot's bitmap,
 *                                     pending; eventfd when it was idle
 *
 * Both fences are sequentially consistent: either the changer sees the bit or
 * the waiter sees the change.  The woken worker clears pending before it looks
 * at the bitmap, so that what comes in between is announced again.
 *
 * Two brokers may give one number to two workers.  Both listen then, and the
 * one that was not meant finds nothing pending.  That is why the eventfd is
 * never read: with edge-triggered epoll each write is an event of its own, for
 * all.
 */

#include "ngx_kafka_life.h"

#include <sys/eventfd.h>


struct ngx_kafka_wake_s {
    ngx_kafka_part_t  **watched;                /* by slot */
};


typedef struct {
    ngx_connection_t   *connection;
    ngx_uint_t          users;                  /* brokers of this worker */
} ngx_kafka_wake_fd_t;


static ngx_int_t ngx_kafka_wake_listen(ngx_kafka_broker_t *b, ngx_uint_t i);
static void ngx_kafka_wake_handler(ngx_event_t *ev);
static void ngx_kafka_wake_take(ngx_kafka_broker_t *b);
static void ngx_kafka_wake_worker(ngx_kafka_broker_t *b, ngx_uint_t i,
    uint32_t why);
static _Atomic uint64_t *ngx_kafka_wake_waiters(ngx_kafka_zone_t *zone,
    int32_t slot);
static void ngx_kafka_wake_others(ngx_kafka_broker_t *b, int32_t slot,
    ngx_int_t except);
static void ngx_kafka_wake_local(ngx_kafka_broker_t *b, int32_t slot);
static void ngx_kafka_wake_unlist(ngx_kafka_broker_t *b,
    ngx_kafka_part_t *part);
static void ngx_kafka_wake_fire(ngx_kafka_broker_t *b, ngx_queue_t *watches);
static void ngx_kafka_wake_run(ngx_event_t *ev);


static int                  ngx_kafka_fds[KL_WORKER_SLOTS];
static ngx_uint_t           ngx_kafka_fds_made;
static ngx_kafka_wake_fd_t  ngx_kafka_wake_fds[KL_WORKER_SLOTS];


ngx_int_t
ngx_kafka_wake_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t  i;

    if (ngx_kafka_fds_made) {
        return NGX_OK;
    }

    for (i = 0; i < KL_WORKER_SLOTS; i++) {
        ngx_kafka_fds[i] = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (ngx_kafka_fds[i] == -1) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                          "eventfd() failed; kafka brokers need %d of them",
                          KL_WORKER_SLOTS);
            while (i--) {
                (void) close(ngx_kafka_fds[i]);
            }
            return NGX_ERROR;
        }
    }

    ngx_kafka_fds_made = 1;

    return NGX_OK;
}


ngx_int_t
ngx_kafka_wake_start(ngx_kafka_broker_t *b)
{
    ngx_int_t  mine;

    if (b->worker_slot >= 0) {
        return NGX_OK;
    }

    if (!ngx_kafka_fds_made) {
        return NGX_AGAIN;
    }

    if (b->wake == NULL) {
        b->wake = ngx_calloc(sizeof(struct ngx_kafka_wake_s), b->log);
        if (b->wake == NULL) {
            return NGX_AGAIN;
        }

        b->wake->watched = ngx_calloc((b->zone->parts_n + NGX_KAFKA_POINTS)
                                      * sizeof(ngx_kafka_part_t *), b->log);
        if (b->wake->watched == NULL) {
            ngx_free(b->wake);
            b->wake = NULL;
            return NGX_AGAIN;
        }
    }

    mine = ngx_kafka_slot_claim(b);

    if (mine == -1) {
        return NGX_AGAIN;
    }

    b->worker_slot = mine;

    if (ngx_kafka_wake_listen(b, mine) != NGX_OK) {
        ngx_kafka_slot_release(b, mine);
        b->worker_slot = -1;
        return NGX_AGAIN;
    }

    return NGX_OK;
}


void
ngx_kafka_wake_stop(ngx_kafka_broker_t *b)
{
    ngx_uint_t            i;
    ngx_kafka_wake_fd_t  *wfd;

    if (b->worker_slot < 0) {
        return;
    }

    i = b->worker_slot;
    b->worker_slot = -1;

    ngx_kafka_slot_release(b, i);

    wfd = &ngx_kafka_wake_fds[i];

    if (wfd->users && --wfd->users == 0) {
        /* the descriptor is the master's: it stays open */
        if (wfd->connection->read->active) {
            (void) ngx_del_event(wfd->connection->read, NGX_READ_EVENT, 0);
        }

        wfd->connection->fd = (ngx_socket_t) -1;
        ngx_free_connection(wfd->connection);
        wfd->connection = NULL;
    }
}


static ngx_int_t
ngx_kafka_wake_listen(ngx_kafka_broker_t *b, ngx_uint_t i)
{
    ngx_event_t          *rev;
    ngx_connection_t     *c;
    ngx_kafka_wake_fd_t  *wfd = &ngx_kafka_wake_fds[i];

    if (wfd->users) {
        wfd->users++;
        return NGX_OK;
    }

    c = ngx_get_connection(ngx_kafka_fds[i], b->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    rev = c->read;
    rev->log = b->log;
    rev->handler = ngx_kafka_wake_handler;
    rev->channel = 1;
    c->write->log = b->log;
    c->write->channel = 1;

    /* so that nginx tells us when the worker begins to exit */
    c->idle = 1;

    if (ngx_add_event(rev, NGX_READ_EVENT, NGX_CLEAR_EVENT) != NGX_OK) {
        c->fd = (ngx_socket_t) -1;
        ngx_free_connection(c);
        return NGX_ERROR;
    }

    wfd->connection = c;
    wfd->users = 1;

    return NGX_OK;
}


static void
ngx_kafka_wake_handler(ngx_event_t *ev)
{
    uint64_t              n;
    ngx_uint_t            i;
    ngx_array_t          *brokers;
    ngx_connection_t     *c = ev->data;
    ngx_kafka_broker_t  **b;

    brokers = ngx_kafka_brokers((ngx_cycle_t *) ngx_cycle);
    if (brokers == NULL) {
        return;
    }

    b = brokers->elts;

    if (c->close) {
        c->close = 0;

        for (i = 0; i < brokers->nelts; i++) {
            ngx_kafka_broker_quit(b[i]);
        }

        return;
    }

    if (!(ngx_event_flags & NGX_USE_CLEAR_EVENT)) {
        /* level-triggered: without reading, it would never end */
        (void) read(c->fd, &n, sizeof(n));
    }

    for (i = 0; i < brokers->nelts; i++) {
        if (b[i]->worker_slot >= 0) {
            ngx_kafka_wake_take(b[i]);
        }
    }
}


/* Looks at what is pending for this worker. */
static void
ngx_kafka_wake_take(ngx_kafka_broker_t *b)
{
    uint32_t           why, w;
    uint64_t           bits;
    _Atomic uint64_t  *map;
    ngx_kafka_zone_t  *zone = b->zone;

    why = atomic_exchange(&zone->workers[b->worker_slot].pending, 0);

    if (why == 0) {
        return;
    }

    /* a worker that died may have owed any of these wake-ups */

    if (why & NGX_KAFKA_WAKE_DEATH) {
        for (w = 0; w < zone->parts_n + NGX_KAFKA_POINTS; w++) {
            ngx_kafka_wake_local(b, (int32_t) w);
        }

        /* the end of a section, too, may have been its to flush */

        if (ngx_kafka_is_open(b)) {
            ngx_kafka_flush(b, b->journal);
        }
    }

    if (why & NGX_KAFKA_WAKE_PARTS) {
        map = zone->pending + (size_t) b->worker_slot * zone->words_n;

        for (w = 0; w < zone->words_n; w++) {

            if (atomic_load_explicit(&map[w], memory_order_relaxed) == 0) {
                continue;
            }

            bits = atomic_exchange(&map[w], 0);

            while (bits) {
                ngx_kafka_wake_local(b, w * 64 + __builtin_ctzll(bits));
                bits &= bits - 1;
            }
        }
    }

    if ((why & NGX_KAFKA_WAKE_TOPICS) && b->topics && ngx_kafka_is_open(b)) {
        ngx_kafka_topics_refresh(b);
        kl_env_trim(b->env);
    }

    if (why & NGX_KAFKA_WAKE_JOBS) {
        ngx_kafka_jobs_wake(b);
    }

    if (why & NGX_KAFKA_WAKE_STATE) {
        ngx_kafka_broker_suspend(b);
        ngx_kafka_broker_step(b);

        if (ngx_kafka_is_open(b)) {
            b->leader_epoch = ngx_kafka_leader_epoch(b);
        }
    }
}


void
ngx_kafka_watch_add(ngx_kafka_broker_t *b, ngx_kafka_part_t *part,
    ngx_kafka_watch_t *w)
{
    ngx_uint_t  i = b->worker_slot;

    if (w->waiting) {
        ngx_kafka_watch_del(w);
    }

    w->broker = b;
    w->part = part;
    w->waiting = 1;

    ngx_queue_insert_tail(&part->watches, &w->queue);

    if (!part->wake_listed) {
        part->wake_listed = 1;
        part->wake_next = b->wake->watched[part->slot];
        b->wake->watched[part->slot] = part;
    }

    atomic_fetch_or(&ngx_kafka_wake_waiters(b->zone, part->slot)[i / 64],
                    (uint64_t) 1 << (i % 64));

#ifndef NGX_KAFKA_BREAK_FENCE
    atomic_thread_fence(memory_order_seq_cst);
#endif
}


void
ngx_kafka_watch_del(ngx_kafka_watch_t *w)
{
    ngx_kafka_part_t  *part = w->part;

    if (!w->waiting) {
        return;
    }

    ngx_queue_remove(&w->queue);
    w->waiting = 0;
    w->part = NULL;

    if (part && ngx_queue_empty(&part->watches)) {
        ngx_kafka_wake_unlist(w->broker, part);
    }
}


void
ngx_kafka_watch_ready(ngx_kafka_broker_t *b, ngx_kafka_watch_t *w)
{
    if (w->waiting) {
        ngx_kafka_watch_del(w);
    }

    w->broker = b;
    w->part = NULL;
    w->waiting = 1;

    if (ngx_kafka_is_open(b)) {
        ngx_queue_insert_tail(&b->fired->queue, &w->queue);
        ngx_post_event(&b->fired->event, &ngx_posted_events);
        return;
    }

    ngx_queue_insert_tail(&b->ready_watches, &w->queue);
}


void
ngx_kafka_changed(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    ngx_kafka_wake_slot(b, part->slot);
}


void
ngx_kafka_wake_slot(ngx_kafka_broker_t *b, int32_t slot)
{
    ngx_kafka_wake_others(b, slot, b->worker_slot);
    ngx_kafka_wake_local(b, slot);
}


void
ngx_kafka_wake_slot_of_all(ngx_kafka_broker_t *b, int32_t slot)
{
    ngx_kafka_wake_others(b, slot, -1);
}


void
ngx_kafka_wake_slot_elsewhere(ngx_kafka_broker_t *b, int32_t slot)
{
    ngx_kafka_wake_others(b, slot, b->worker_slot);
}


/* Which workers wait for a partition or, after the partitions, a point. */
static _Atomic uint64_t *
ngx_kafka_wake_waiters(ngx_kafka_zone_t *zone, int32_t slot)
{
    if ((uint32_t) slot >= zone->parts_n) {
        return zone->points[slot - zone->parts_n];
    }

    return kl_part_waiters(kl_part(zone->parts, slot));
}


static void
ngx_kafka_wake_others(ngx_kafka_broker_t *b, int32_t slot, ngx_int_t except)
{
    uint64_t           bits, bit;
    ngx_uint_t         i, w;
    _Atomic uint64_t  *waiters;
    ngx_kafka_zone_t  *zone = b->zone;

    waiters = ngx_kafka_wake_waiters(zone, slot);

#ifndef NGX_KAFKA_BREAK_FENCE
    atomic_thread_fence(memory_order_seq_cst);
#endif

    for (w = 0; w < KL_WORKER_SLOTS / 64; w++) {

        if (atomic_load(&waiters[w]) == 0) {
            continue;
        }

        bits = atomic_exchange(&waiters[w], 0);

        while (bits) {
            bit = bits & -bits;
            bits ^= bit;
            i = w * 64 + __builtin_ctzll(bit);

            if ((ngx_int_t) i == except) {
                continue;
            }

            atomic_fetch_or(&zone->pending[i * zone->words_n + slot / 64],
                            (uint64_t) 1 << (slot % 64));
            ngx_kafka_wake_worker(b, i, NGX_KAFKA_WAKE_PARTS);
        }
    }
}


static void
ngx_kafka_wake_worker(ngx_kafka_broker_t *b, ngx_uint_t i, uint32_t why)
{
    uint64_t  one = 1;

    if (atomic_fetch_or(&b->zone->workers[i].pending, why) == 0) {
        /* EAGAIN would need 2^64 wake-ups */
        (void) !write(ngx_kafka_fds[i], &one, sizeof(one));
    }
}


void
ngx_kafka_wake_all(ngx_kafka_broker_t *b, uint32_t why)
{
    ngx_uint_t  i;

    for (i = 0; i < KL_WORKER_SLOTS; i++) {

        /*
         * The one that changed a topic has files of it, too, but lets go of
         * them from its event loop, where nothing refers to them; and timers
         * are the event loop's.
         */

        if (i == (ngx_uint_t) b->worker_slot
            && !(why & (NGX_KAFKA_WAKE_TOPICS|NGX_KAFKA_WAKE_DEATH
                        |NGX_KAFKA_WAKE_JOBS)))
        {
            continue;
        }

        if (atomic_load(&b->zone->workers[i].used)) {
            ngx_kafka_wake_worker(b, i, why);
        }
    }
}


void
ngx_kafka_topics_changed(ngx_kafka_broker_t *b)
{
    atomic_fetch_add(&b->zone->topics_version, 1);

    ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_TOPICS);
}


uint64_t
ngx_kafka_topics_version(ngx_kafka_broker_t *b)
{
    return atomic_load(&b->zone->topics_version);
}


/* Moves the watches of a slot's partitions to where they run from. */
static void
ngx_kafka_wake_local(ngx_kafka_broker_t *b, int32_t slot)
{
    ngx_kafka_part_t  *part;

    if (b->wake == NULL) {
        return;
    }

    while ((part = b->wake->watched[slot]) != NULL) {
        b->wake->watched[slot] = part->wake_next;
        part->wake_next = NULL;
        part->wake_listed = 0;

        ngx_kafka_wake_fire(b, &part->watches);
    }
}


void
ngx_kafka_wake_own(ngx_kafka_broker_t *b)
{
    uint32_t  i;

    if (b->wake == NULL) {
        return;
    }

    for (i = 0; i < b->zone->parts_n + NGX_KAFKA_POINTS; i++) {
        ngx_kafka_wake_local(b, i);
    }
}


void
ngx_kafka_wake_ready(ngx_kafka_broker_t *b)
{
    ngx_kafka_wake_fire(b, &b->ready_watches);
}


static void
ngx_kafka_wake_unlist(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    ngx_kafka_part_t  **p;

    if (!part->wake_listed) {
        return;
    }

    for (p = &b->wake->watched[part->slot]; *p; p = &(*p)->wake_next) {
        if (*p == part) {
            *p = part->wake_next;
            break;
        }
    }

    part->wake_next = NULL;
    part->wake_listed = 0;
}


static void
ngx_kafka_wake_fire(ngx_kafka_broker_t *b, ngx_queue_t *watches)
{
    ngx_queue_t        *q;
    ngx_kafka_watch_t  *w;

    while (!ngx_queue_empty(watches)) {
        q = ngx_queue_head(watches);
        ngx_queue_remove(q);

        w = ngx_queue_data(q, ngx_kafka_watch_t, queue);
        w->part = NULL;

        ngx_queue_insert_tail(&b->fired->queue, q);
    }

    if (!ngx_queue_empty(&b->fired->queue) && !b->fired->event.posted) {
        ngx_post_event(&b->fired->event, &ngx_posted_events);
    }
}


static void
ngx_kafka_wake_run(ngx_event_t *ev)
{
    ngx_queue_t          run, *q;
    ngx_kafka_watch_t   *w;
    ngx_kafka_broker_t  *b = ev->data;

    if (ngx_queue_empty(&b->fired->queue)) {
        return;
    }

    /* those fired by what runs here wait for the next round */

    ngx_queue_init(&run);
    ngx_queue_add(&run, &b->fired->queue);
    ngx_queue_init(&b->fired->queue);

    while (!ngx_queue_empty(&run)) {
        q = ngx_queue_head(&run);
        ngx_queue_remove(q);

        w = ngx_queue_data(q, ngx_kafka_watch_t, queue);
        w->waiting = 0;
        w->handler(w);
    }
}


ngx_int_t
ngx_kafka_wake_prepare(ngx_kafka_broker_t *b)
{
    ngx_queue_init(&b->ready_watches);
    ngx_queue_init(&b->drives);

    b->fired = ngx_calloc(sizeof(struct ngx_kafka_fired_s), b->log);
    if (b->fired == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&b->fired->queue);

    b->fired->event.handler = ngx_kafka_wake_run;
    b->fired->event.data = b;
    b->fired->event.log = b->log;

    return NGX_OK;
}
