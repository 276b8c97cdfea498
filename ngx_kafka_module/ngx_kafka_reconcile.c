/*
 * After a recovery: what partitions know of transactions, and the journal does
 * not.
 *
 * A transaction that is open in a partition goes on if the journal has it under
 * way; all others get an abort marker, or readers would wait for ever.  And a
 * producer of which a partition has data from a later epoch than the journal
 * knows of was answered from the page cache: see kc_txn_seen().
 */

#include "ngx_kafka_life.h"
#include "../coordinator/kc_txn.h"


typedef struct {
    kc_txn_seen_t  *list;
    size_t          n;
    size_t          size;
} ngx_kafka_seen_t;


static ngx_int_t ngx_kafka_reconcile_open(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_item_t *item, kl_log_t *log);
static ngx_int_t ngx_kafka_reconcile_note(ngx_kafka_seen_t *seen,
    kl_log_t *log);
static void ngx_kafka_reconcile_seen(kc_t *kc, ngx_kafka_seen_t *seen);
static int ngx_kafka_seen_cmp(const void *one, const void *two);


ngx_int_t
ngx_kafka_reconcile(ngx_kafka_broker_t *b, kc_t *kc, ngx_uint_t lost)
{
    size_t               i;
    kl_log_t            *log;
    ngx_int_t            rc;
    kl_offsets_t         o;
    ngx_kafka_seen_t     seen;
    ngx_kafka_catalog_t  c;

    ngx_memzero(&seen, sizeof(ngx_kafka_seen_t));

    rc = ngx_kafka_catalog_fill(b, kc, false, &c);

    for (i = 0; i < c.n && rc == NGX_OK; i++) {

        kl_snapshot(kl_part(b->zone->parts, c.items[i].slot), &o);

        if (o.state != KL_OPEN) {
            continue;
        }

        log = ngx_kafka_item_open(b, &c.items[i]);

        if (log == NULL) {
            rc = NGX_ERROR;
            break;
        }

        if (lost && o.first_open_txn != INT64_MAX) {
            rc = ngx_kafka_reconcile_open(b, kc, &c.items[i], log);
        }

        if (rc == NGX_OK) {
            rc = ngx_kafka_reconcile_note(&seen, log);
        }

        kl_log_close(log);
    }

    ngx_kafka_catalog_free(&c);

    if (rc == NGX_OK) {
        ngx_kafka_reconcile_seen(kc, &seen);
    }

    free(seen.list);

    return rc;
}


static ngx_int_t
ngx_kafka_reconcile_open(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_item_t *item, kl_log_t *log)
{
    bool                 keep, marked;
    size_t               i, n;
    int64_t              flushed;
    kc_rc_t              rc;
    kc_call_t            call;
    kf_heap_t            heap;
    kf_arena_t           arena;
    kl_marked_t          res;
    kl_marker_t          marker;
    kl_producer_info_t  *list;

    list = NULL;
    n = 0;
    marked = false;
    rc = KC_OK;

    /* a partition that fails now is offline by itself */

    (void) kl_producers(log, true, &list, &n);

    for (i = 0; i < n && rc == KC_OK; i++) {
        heap.chunks = NULL;
        kf_arena_init(&arena, kf_heap_chunk, &heap, 1024 * 1024);

        ngx_memzero(&call, sizeof(kc_call_t));
        call.now.wall_ms = ngx_kafka_wall_ms();
        call.now.mono_ms = ngx_kafka_mono_ms();
        call.config = &b->config;
        call.node_id = (int32_t) b->node_id;
        call.arena = &arena;

        keep = true;
        rc = kc_txn_reconcile(kc, &call, item->topic_id, item->partition,
                              list[i].producer_id, list[i].producer_epoch,
                              &keep);

        kf_heap_free(&heap);

        if (rc != KC_OK || keep) {
            continue;
        }

        ngx_memzero(&marker, sizeof(kl_marker_t));
        marker.producer_id = list[i].producer_id;
        marker.producer_epoch = list[i].producer_epoch + 1;

        if (kl_append_marker(log, &marker, &item->config, kc_leader_epoch(kc),
                             call.now.wall_ms, &res)
            == KL_OK)
        {
            marked = true;

            ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                          "kafka_broker \"%V\": aborted a transaction of "
                          "producer %L in partition %*s-%D that the journal "
                          "does not know of", &b->name, marker.producer_id,
                          (size_t) item->topic.len, item->topic.data,
                          item->partition);
        }
    }

    if (marked) {
        (void) kl_flush(log, &flushed);
    }

    free(list);

    if (rc != KC_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": open transactions cannot be "
                      "looked after: %*s", &b->name, (size_t) kc->problem.len,
                      kc->problem.data);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* --- epochs that the journal has lost ------------------------------------ */

static ngx_int_t
ngx_kafka_reconcile_note(ngx_kafka_seen_t *seen, kl_log_t *log)
{
    size_t               i, n, size;
    kc_txn_seen_t       *p;
    kl_producer_info_t  *list;

    list = NULL;
    n = 0;

    /* a partition that fails now is offline by itself */

    (void) kl_producers(log, false, &list, &n);

    if (seen->n + n > seen->size) {
        size = 2 * (seen->n + n);

        p = realloc(seen->list, size * sizeof(kc_txn_seen_t));
        if (p == NULL) {
            free(list);
            return NGX_ERROR;
        }

        seen->list = p;
        seen->size = size;
    }

    for (i = 0; i < n; i++) {
        p = &seen->list[seen->n++];
        p->producer_id = list[i].producer_id;
        p->epoch = list[i].producer_epoch;

        /* only a marker is of this one, data of an earlier one */

        if (list[i].last_sequence < 0 && p->epoch > 0) {
            p->epoch--;
        }
    }

    free(list);

    return NGX_OK;
}


/* The latest of each producer. */
static void
ngx_kafka_reconcile_seen(kc_t *kc, ngx_kafka_seen_t *seen)
{
    size_t          i, n;
    kc_txn_seen_t  *list = seen->list;

    if (seen->n == 0) {
        return;
    }

    qsort(list, seen->n, sizeof(kc_txn_seen_t), ngx_kafka_seen_cmp);

    for (i = 0, n = 0; i < seen->n; i++) {

        if (i + 1 == seen->n || list[i + 1].producer_id != list[i].producer_id)
        {
            list[n++] = list[i];
        }
    }

    kc_txn_seen(kc, list, n);
}


static int
ngx_kafka_seen_cmp(const void *one, const void *two)
{
    const kc_txn_seen_t  *a = one, *b = two;

    if (a->producer_id != b->producer_id) {
        return a->producer_id < b->producer_id ? -1 : 1;
    }

    return a->epoch - b->epoch;
}
