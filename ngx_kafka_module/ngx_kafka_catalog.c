/*
 * The partitions of a moment, copied out of the coordinator's state for work
 * that is long: recovery, retention, checkpoints.  The copy is made in slices
 * of a few topics, so that the lock is never held for long; a topic that is
 * gone when its turn comes is found out by its incarnation.
 */

#include "ngx_kafka_life.h"


#define NGX_KAFKA_SLICE      32                 /* topics per section */
#define NGX_KAFKA_HELPERS    4                  /* threads, this one included */


typedef struct {
    ngx_kafka_broker_t   *broker;
    ngx_kafka_catalog_t  *catalog;
    bool                (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
                                 void *ctx);
    void                 *ctx;
    _Atomic size_t        next;
    _Atomic uint32_t      stop;
} ngx_kafka_each_t;


static ngx_int_t ngx_kafka_catalog_add(ngx_kafka_broker_t *b, kc_t *kc,
    const kc_topic_t *t, ngx_kafka_catalog_t *c, kf_str_t *name);
static void *ngx_kafka_catalog_thread(void *data);


ngx_int_t
ngx_kafka_catalog_fill(ngx_kafka_broker_t *b, kc_t *kc, bool locked,
    ngx_kafka_catalog_t *c)
{
    kf_str_t           after;
    ngx_int_t          rc;
    ngx_uint_t         n;
    const kc_topic_t  *t;

    ngx_memzero(c, sizeof(ngx_kafka_catalog_t));
    kf_arena_init(&c->arena, kf_heap_chunk, &c->heap, SIZE_MAX / 2);

    after = kf_null_str;

    do {
        if (locked && ngx_kafka_coord_enter(b, kc) != NGX_OK) {
            return NGX_AGAIN;
        }

        rc = NGX_OK;
        t = NULL;

        for (n = 0; n < NGX_KAFKA_SLICE; n++) {
            t = kc_topic_next(kc, after);
            if (t == NULL) {
                break;
            }

            rc = ngx_kafka_catalog_add(b, kc, t, c, &after);
            if (rc != NGX_OK) {
                break;
            }
        }

        if (locked) {
            ngx_kafka_coord_leave(b);
        }

    } while (rc == NGX_OK && t != NULL);

    return rc;
}


static ngx_int_t
ngx_kafka_catalog_add(ngx_kafka_broker_t *b, kc_t *kc, const kc_topic_t *t,
    ngx_kafka_catalog_t *c, kf_str_t *name)
{
    bool               ok;
    size_t             size;
    int32_t            i;
    kl_offsets_t       o;
    ngx_kafka_item_t  *item, first;

    ngx_memzero(&first, sizeof(ngx_kafka_item_t));

    ok = true;
    *name = kf_arena_str(&c->arena, t->name, &ok);

    if (!ok) {
        return NGX_ERROR;
    }

    first.topic_id = t->id;
    first.topic = *name;
    ngx_kafka_topic_config(b, kc, t, &first.config, &first.caching);

    if (c->n + t->partition_count > c->size) {
        size = 2 * (c->n + t->partition_count);

        item = realloc(c->items, size * sizeof(ngx_kafka_item_t));
        if (item == NULL) {
            return NGX_ERROR;
        }

        c->items = item;
        c->size = size;
    }

    for (i = 0; i < t->partition_count; i++) {
        item = &c->items[c->n++];

        *item = first;
        item->partition = i;
        item->slot = t->slots[i];

        kl_snapshot(kl_part(b->zone->parts, item->slot), &o);
        item->incarnation = o.incarnation;
    }

    return NGX_OK;
}


void
ngx_kafka_topic_config(ngx_kafka_broker_t *b, kc_t *kc, const kc_topic_t *t,
    kl_config_t *cf, bool *caching)
{
    int64_t             policy;
    const kc_static_t  *st = &b->config;

#define ngx_kafka_conf(name)  kc_topic_config_int(kc, st, t, name)

    policy = ngx_kafka_conf(KC_CLEANUP_POLICY);

    cf->segment_bytes = ngx_kafka_conf(KC_SEGMENT_BYTES);
    cf->segment_ms = ngx_kafka_conf(KC_SEGMENT_MS);
    cf->segment_index_bytes = ngx_kafka_conf(KC_SEGMENT_INDEX_BYTES);
    cf->index_interval_bytes = ngx_kafka_conf(KC_INDEX_INTERVAL_BYTES);
    cf->retention_ms = -1;
    cf->retention_bytes = -1;

    if (policy & KC_POLICY_DELETE) {
        cf->retention_ms = ngx_kafka_conf(KC_RETENTION_MS);
        cf->retention_bytes = ngx_kafka_conf(KC_RETENTION_BYTES);
    }

    cf->producer_expiration_ms =
                   kc_broker_config_int(kc, st, KC_PRODUCER_ID_EXPIRATION_MS);
    cf->append_time = ngx_kafka_conf(KC_MESSAGE_TIMESTAMP_TYPE)
                      == KC_LOG_APPEND_TIME;
    cf->compacted = (policy & KC_POLICY_COMPACT) != 0;

    cf->verify = true;

    *caching = ngx_kafka_conf(KC_WRITE_CACHING) != 0;

#undef ngx_kafka_conf
}


void
ngx_kafka_catalog_free(ngx_kafka_catalog_t *c)
{
    free(c->items);
    kf_heap_free(&c->heap);
    ngx_memzero(c, sizeof(ngx_kafka_catalog_t));
}


void
ngx_kafka_catalog_each(ngx_kafka_broker_t *b, ngx_kafka_catalog_t *c,
    bool (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx),
    void *ctx)
{
    size_t            n;
    sigset_t          all, old;
    pthread_t         threads[NGX_KAFKA_HELPERS - 1];
    ngx_kafka_each_t  each;

    each.broker = b;
    each.catalog = c;
    each.visit = visit;
    each.ctx = ctx;
    atomic_init(&each.next, 0);
    atomic_init(&each.stop, 0);

    n = 0;

    if (c->n > 8) {
        /* signals are the event loop's */

        sigfillset(&all);
        (void) pthread_sigmask(SIG_BLOCK, &all, &old);

        while (n < NGX_KAFKA_HELPERS - 1
               && pthread_create(&threads[n], NULL, ngx_kafka_catalog_thread,
                                 &each) == 0)
        {
            n++;
        }

        (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    }

    (void) ngx_kafka_catalog_thread(&each);

    while (n) {
        (void) pthread_join(threads[--n], NULL);
    }
}


static void *
ngx_kafka_catalog_thread(void *data)
{
    ngx_kafka_each_t  *each = data;

    size_t  i;

    while (!atomic_load(&each->stop)) {

        i = atomic_fetch_add(&each->next, 1);

        if (i >= each->catalog->n) {
            break;
        }

        if (!each->visit(each->broker, &each->catalog->items[i], each->ctx)) {
            atomic_store(&each->stop, 1);
        }
    }

    return NULL;
}


kl_log_t *
ngx_kafka_item_open(ngx_kafka_broker_t *b, const ngx_kafka_item_t *item)
{
    return kl_log_open(b->env, item->slot, item->incarnation, item->topic_id,
                       item->topic, item->partition);
}
