/*
 * The coordinator's timers in this worker, and the points at which requests
 * wait for groups.
 *
 * Deadlines are in the coordinator's state.  Whoever releases its lock arms a
 * cancelable timer for the next one, a little apart from the other workers; the
 * first to fire does what is due, the others find it done.  A worker that opens
 * the broker looks as well, so deadlines do not depend on any one worker's
 * life.
 *
 * A point is a thing to wait for that is not a partition: one for each hash of
 * group ids.  Two groups may share one; a wake-up too many is harmless.
 */

#include "ngx_kafka_life.h"
#include "../coordinator/kc_group.h"
#include "../coordinator/kc_txn.h"


#define NGX_KAFKA_TICK_BUDGET  64       /* groups under one lock */
#define NGX_KAFKA_TICK_APART   5        /* ms between workers */
#define NGX_KAFKA_TICK_RETRY   100      /* ms while the broker is not open */
#define NGX_KAFKA_TICK_MAX     3600000  /* ms; nginx's timers wrap */


static void ngx_kafka_tick_handler(ngx_event_t *ev);


void
ngx_kafka_tick_arm(ngx_kafka_broker_t *b, int64_t deadline_ms)
{
    int64_t     wait;
    ngx_msec_t  at;

    if (deadline_ms == INT64_MAX || b->exiting) {
        return;
    }

    wait = deadline_ms - ngx_kafka_mono_ms();
    wait = ngx_max(wait, 1) + b->worker_slot % 16 * NGX_KAFKA_TICK_APART;
    wait = ngx_min(wait, NGX_KAFKA_TICK_MAX);

    if (b->tick.timer_set) {
        at = ngx_current_msec + (ngx_msec_t) wait;

        if ((ngx_msec_int_t) (b->tick.timer.key - at) <= 0) {
            return;                     /* it fires earlier */
        }

        ngx_del_timer(&b->tick);
    }

    b->tick.handler = ngx_kafka_tick_handler;
    b->tick.data = b;
    b->tick.log = b->log;
    b->tick.cancelable = 1;

    ngx_add_timer(&b->tick, (ngx_msec_t) wait);
}


void
ngx_kafka_tick_stop(ngx_kafka_broker_t *b)
{
    if (b->tick.timer_set) {
        ngx_del_timer(&b->tick);
    }
}


static void
ngx_kafka_tick_handler(ngx_event_t *ev)
{
    bool                 prepared;
    kc_rc_t              rc;
    kc_call_t            call;
    kf_heap_t            heap;
    kf_arena_t           arena;
    ngx_kafka_broker_t  *b = ev->data;

    if (ngx_kafka_coord_lock(b) != NGX_OK) {

        if (!b->exiting && b->state != NGX_KAFKA_CLOSED) {
            ngx_add_timer(ev, NGX_KAFKA_TICK_RETRY);
        }

        return;
    }

    heap.chunks = NULL;
    kf_arena_init(&arena, kf_heap_chunk, &heap, 1024 * 1024);

    ngx_memzero(&call, sizeof(kc_call_t));

    call.now.wall_ms = ngx_kafka_wall_ms();
    call.now.mono_ms = ngx_kafka_mono_ms();
    call.config = &b->config;
    call.node_id = (int32_t) b->node_id;
    call.arena = &arena;

    rc = kc_tick(&b->kc, &call, NGX_KAFKA_TICK_BUDGET);
    prepared = kc_txn_prepared_take(&b->kc);

    ngx_kafka_coord_unlock(b);

    kf_heap_free(&heap);

    if (prepared) {
        ngx_kafka_txn_sweep(b, 1);
    }

    if (rc != KC_OK) {
        ngx_log_error(NGX_LOG_ERR, b->log, 0,
                      "kafka_broker \"%V\": groups cannot be looked after: %*s",
                      &b->name, (size_t) b->kc.problem.len,
                      b->kc.problem.data);

        if (!ev->timer_set) {
            ngx_add_timer(ev, NGX_KAFKA_TICK_RETRY);
        }
    }
}


ngx_kafka_part_t *
ngx_kafka_point(ngx_kafka_broker_t *b, uint32_t hash)
{
    uint32_t           i = hash % NGX_KAFKA_POINTS;
    ngx_kafka_part_t  *point;

    if (b->points == NULL) {
        b->points = ngx_calloc(NGX_KAFKA_POINTS * sizeof(ngx_kafka_part_t *),
                               b->log);
        if (b->points == NULL) {
            return NULL;
        }
    }

    if (b->points[i]) {
        return b->points[i];
    }

    point = ngx_calloc(sizeof(ngx_kafka_part_t), b->log);
    if (point == NULL) {
        return NULL;
    }

    point->slot = (int32_t) (b->zone->parts_n + i);
    point->refs = 1;
    point->flush_wanted = -1;
    ngx_queue_init(&point->watches);

    b->points[i] = point;

    return point;
}


/* The coordinator's lock is held: what it changed must not be missed if this
 * worker dies next. */
void
ngx_kafka_points_wake(ngx_kafka_broker_t *b)
{
    uint32_t         i, n;
    const uint32_t  *hashes;

    n = kc_woken_take(&b->kc, &hashes);

    if (ngx_kafka_fault_fails("group-wake-up")) {
        return;
    }

    if (n == KC_WOKEN) {                /* there may be more than it notes */

        for (i = 0; i < NGX_KAFKA_POINTS; i++) {
            ngx_kafka_wake_slot(b, (int32_t) (b->zone->parts_n + i));
        }

        return;
    }

    for (i = 0; i < n; i++) {
        ngx_kafka_wake_slot(b, (int32_t) (b->zone->parts_n
                                          + hashes[i] % NGX_KAFKA_POINTS));
    }
}


void
ngx_kafka_points_free(ngx_kafka_broker_t *b)
{
    ngx_uint_t  i;

    if (b->points == NULL) {
        return;
    }

    for (i = 0; i < NGX_KAFKA_POINTS; i++) {
        ngx_free(b->points[i]);
    }

    ngx_free(b->points);
    b->points = NULL;
}
