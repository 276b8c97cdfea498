/*
 * The worker's own table of topics and partitions.
 *
 * It spares the hot path the coordinator's lock: an entry is trusted as long
 * as the zone's version counter is the one under which it was looked up, else
 * that one entry is looked up again.  Partitions are made at their first use
 * and counted; a topic that is deleted (or deleted and made again under its
 * name) leaves the table at once and memory with its last reference.
 */

#include "ngx_kafka.h"


struct ngx_kafka_topics_s {
    ngx_rbtree_t       by_name;
    ngx_rbtree_t       by_id;
    ngx_rbtree_node_t  sentinel;
    ngx_uint_t         count;
};

#define NGX_KAFKA_TOPICS_SLICE  256             /* look-ups under one lock */

#define ngx_kafka_topic_of(n, field)                                          \
    ((ngx_kafka_topic_t *)                                                    \
     ((u_char *) (n) - offsetof(ngx_kafka_topic_t, field)))


static ngx_int_t ngx_kafka_topic_validate(ngx_kafka_broker_t *b,
    ngx_kafka_topic_t **t, kf_str_t name);
static ngx_kafka_topic_t *ngx_kafka_topic_find(ngx_kafka_broker_t *b,
    kf_str_t name);
static ngx_kafka_topic_t *ngx_kafka_topic_create(ngx_kafka_broker_t *b,
    const kc_topic_t *kt);
static ngx_int_t ngx_kafka_topic_update(ngx_kafka_broker_t *b,
    ngx_kafka_topic_t *t, const kc_topic_t *kt);
static void ngx_kafka_topic_drop(ngx_kafka_broker_t *b, ngx_kafka_topic_t *t);
static void ngx_kafka_topic_unref(ngx_kafka_topic_t *t);
static void ngx_kafka_topics_walk(ngx_kafka_broker_t *b, ngx_array_t *all);


ngx_int_t
ngx_kafka_topics_init(ngx_kafka_broker_t *b)
{
    struct ngx_kafka_topics_s  *table;

    table = ngx_calloc(sizeof(struct ngx_kafka_topics_s), b->log);
    if (table == NULL) {
        return NGX_ERROR;
    }

    ngx_rbtree_init(&table->by_name, &table->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&table->by_id, &table->sentinel,
                    ngx_str_rbtree_insert_value);

    b->topics = table;

    return NGX_OK;
}


void
ngx_kafka_topics_done(ngx_kafka_broker_t *b)
{
    ngx_rbtree_t       *tree;
    ngx_rbtree_node_t  *node;

    if (b->topics == NULL) {
        return;
    }

    tree = &b->topics->by_name;

    while (tree->root != tree->sentinel) {
        node = ngx_rbtree_min(tree->root, tree->sentinel);
        ngx_kafka_topic_drop(b, ngx_kafka_topic_of(node, by_name));
    }

    ngx_free(b->topics);
    b->topics = NULL;
}


ngx_int_t
ngx_kafka_topic_by_name(ngx_kafka_broker_t *b, kf_str_t name,
    ngx_kafka_topic_t **t)
{
    if (name.data == NULL) {
        return NGX_DECLINED;
    }

    *t = ngx_kafka_topic_find(b, name);

    if (*t && (*t)->version == ngx_kafka_topics_version(b)) {
        return NGX_OK;
    }

    return ngx_kafka_topic_validate(b, t, name);
}


ngx_int_t
ngx_kafka_topic_by_id(ngx_kafka_broker_t *b, kf_uuid_t id,
    ngx_kafka_topic_t **t)
{
    u_char             name[256];
    kf_str_t           str;
    ngx_int_t          rc;
    ngx_str_t          key;
    ngx_str_node_t    *sn;
    const kc_topic_t  *kt;

    key.data = id.b;
    key.len = sizeof(id.b);

    sn = ngx_str_rbtree_lookup(&b->topics->by_id, &key,
                               ngx_crc32_short(key.data, key.len));

    if (sn) {
        *t = ngx_kafka_topic_of(sn, by_id);

        if ((*t)->version == ngx_kafka_topics_version(b)) {
            return NGX_OK;
        }
    }

    rc = ngx_kafka_coord_lock(b);
    if (rc != NGX_OK) {
        return rc;
    }

    kt = kc_topic_by_id(&b->kc, id);

    if (kt == NULL || kt->name.len > sizeof(name)) {
        ngx_kafka_coord_unlock(b);
        return NGX_DECLINED;
    }

    ngx_memcpy(name, kt->name.data, kt->name.len);
    str.data = name;
    str.len = kt->name.len;

    ngx_kafka_coord_unlock(b);

    rc = ngx_kafka_topic_by_name(b, str, t);

    if (rc == NGX_OK && !kf_uuid_eq((*t)->id, id)) {
        return NGX_DECLINED;
    }

    return rc;
}


/* Looks one name up in the coordinator; brings *t (or NULL) up to date. */
static ngx_int_t
ngx_kafka_topic_validate(ngx_kafka_broker_t *b, ngx_kafka_topic_t **t,
    kf_str_t name)
{
    ngx_int_t           rc;
    uint64_t            version;
    const kc_topic_t   *kt;
    ngx_kafka_topic_t  *old = *t;

    rc = ngx_kafka_coord_lock(b);
    if (rc != NGX_OK) {
        return rc;
    }

    /* read first: a change that comes later makes the entry old again */
    version = ngx_kafka_topics_version(b);

    kt = kc_topic_by_name(&b->kc, name);

    /* fewer partitions: a journal that failed has lost their record */

    if (old && (kt == NULL || !kf_uuid_eq(kt->id, old->id)
                || kt->partition_count < old->partition_count))
    {
        ngx_kafka_topic_drop(b, old);
        old = NULL;
    }

    if (kt == NULL) {
        rc = NGX_DECLINED;

    } else if (old == NULL) {
        old = ngx_kafka_topic_create(b, kt);
        rc = old ? NGX_OK : NGX_AGAIN;

    } else if (ngx_kafka_topic_update(b, old, kt) != NGX_OK) {
        rc = NGX_AGAIN;
    }

    ngx_kafka_coord_unlock(b);

    if (rc == NGX_OK) {
        old->version = version;
    }

    *t = old;

    return rc;
}


static ngx_kafka_topic_t *
ngx_kafka_topic_find(ngx_kafka_broker_t *b, kf_str_t name)
{
    ngx_str_t        str;
    ngx_str_node_t  *sn;

    str.data = (u_char *) name.data;
    str.len = name.len;

    sn = ngx_str_rbtree_lookup(&b->topics->by_name, &str,
                               ngx_crc32_short(str.data, str.len));

    if (sn == NULL) {
        return NULL;
    }

    return ngx_kafka_topic_of(sn, by_name);
}


static ngx_kafka_topic_t *
ngx_kafka_topic_create(ngx_kafka_broker_t *b, const kc_topic_t *kt)
{
    ngx_kafka_topic_t  *t;

    t = ngx_calloc(sizeof(ngx_kafka_topic_t) + kt->name.len, b->log);
    if (t == NULL) {
        return NULL;
    }

    t->name.data = (u_char *) t + sizeof(ngx_kafka_topic_t);
    t->name.len = kt->name.len;
    ngx_memcpy(t->name.data, kt->name.data, kt->name.len);

    t->id = kt->id;
    t->internal = kt->internal;
    t->refs = 1;

    if (ngx_kafka_topic_update(b, t, kt) != NGX_OK) {
        ngx_free(t->parts);
        ngx_free(t->slots);
        ngx_free(t);
        return NULL;
    }

    t->by_name.str = t->name;
    t->by_name.node.key = ngx_crc32_short(t->name.data, t->name.len);
    ngx_rbtree_insert(&b->topics->by_name, &t->by_name.node);

    t->by_id.str.data = t->id.b;
    t->by_id.str.len = sizeof(t->id.b);
    t->by_id.node.key = ngx_crc32_short(t->id.b, sizeof(t->id.b));
    ngx_rbtree_insert(&b->topics->by_id, &t->by_id.node);
    b->topics->count++;

    return t;
}


/* The coordinator's lock is held.  Partitions are not fewer than before. */
static ngx_int_t
ngx_kafka_topic_update(ngx_kafka_broker_t *b, ngx_kafka_topic_t *t,
    const kc_topic_t *kt)
{
    bool                caching;
    int32_t            *slots;
    kc_t               *kc = &b->kc;
    ngx_kafka_part_t  **parts;
    const kc_static_t  *st = &b->config;

    if (t->partition_count < kt->partition_count) {

        parts = ngx_calloc(kt->partition_count * sizeof(ngx_kafka_part_t *),
                           b->log);
        slots = ngx_alloc(kt->partition_count * sizeof(int32_t), b->log);

        if (parts == NULL || slots == NULL) {
            ngx_free(parts);
            ngx_free(slots);
            return NGX_ERROR;
        }

        if (t->parts) {
            ngx_memcpy(parts, t->parts,
                       t->partition_count * sizeof(ngx_kafka_part_t *));
            ngx_free(t->parts);
            ngx_free(t->slots);
        }

        t->parts = parts;
        t->slots = slots;
        t->partition_count = kt->partition_count;
    }

    ngx_memcpy(t->slots, kt->slots, t->partition_count * sizeof(int32_t));

    t->changed = kt->changed;

    ngx_kafka_topic_config(b, kc, kt, &t->log, &caching);
    t->caching = caching;

#define ngx_kafka_conf(name)  kc_topic_config_int(kc, st, kt, name)

    t->rules.batch_bytes_max = (uint32_t) ngx_kafka_conf(KC_MAX_MESSAGE_BYTES);
    t->rules.output_bytes_max =
                            ngx_kafka_conf(KC_MAX_DECOMPRESSED_MESSAGE_BYTES);
    t->rules.timestamp_min_ms =
                           ngx_kafka_conf(KC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS);
    t->rules.timestamp_max_ms =
                            ngx_kafka_conf(KC_MESSAGE_TIMESTAMP_AFTER_MAX_MS);
    t->rules.check_timestamps = !t->log.append_time;
    t->rules.keys_required = t->log.compacted;
    t->rules.zstd_refused = false;

    t->compression = ngx_kafka_conf(KC_COMPRESSION_TYPE);

#undef ngx_kafka_conf

    return NGX_OK;
}


/* Out of the table; watches of its partitions run and find it gone. */
static void
ngx_kafka_topic_drop(ngx_kafka_broker_t *b, ngx_kafka_topic_t *t)
{
    int32_t            i;
    ngx_kafka_part_t  *part;

    ngx_rbtree_delete(&b->topics->by_name, &t->by_name.node);
    ngx_rbtree_delete(&b->topics->by_id, &t->by_id.node);
    b->topics->count--;

    t->gone = 1;

    for (i = 0; i < t->partition_count; i++) {
        part = t->parts[i];

        if (part) {
            t->parts[i] = NULL;
            part->gone = 1;
            ngx_kafka_changed(b, part);
            ngx_kafka_part_unref(b, part);
        }
    }

    ngx_kafka_topic_unref(t);
}


static void
ngx_kafka_topic_unref(ngx_kafka_topic_t *t)
{
    if (--t->refs == 0) {
        ngx_free(t->parts);
        ngx_free(t->slots);
        ngx_free(t);
    }
}


ngx_kafka_part_t *
ngx_kafka_topic_part(ngx_kafka_broker_t *b, ngx_kafka_topic_t *t,
    int32_t index)
{
    kf_str_t           name;
    kl_offsets_t       o;
    ngx_kafka_part_t  *part;

    if (index < 0 || index >= t->partition_count) {
        return NULL;
    }

    part = t->parts[index];

    if (part) {
        if (part->slot == t->slots[index]) {
            return part;
        }

        /* the coordinator's recovery gave the partition another slot */

        t->parts[index] = NULL;
        part->gone = 1;
        ngx_kafka_changed(b, part);
        ngx_kafka_part_unref(b, part);
    }

    part = ngx_calloc(sizeof(ngx_kafka_part_t), b->log);
    if (part == NULL) {
        return NULL;
    }

    part->topic = t;
    part->index = index;
    part->slot = t->slots[index];
    part->shared = kl_part(b->parts, part->slot);
    part->flush_wanted = -1;
    ngx_queue_init(&part->watches);

    kl_snapshot(part->shared, &o);
    part->incarnation = o.incarnation;

    name.data = t->name.data;
    name.len = t->name.len;

    part->log = kl_log_open(b->env, part->slot, part->incarnation, t->id, name,
                            index);
    if (part->log == NULL) {
        ngx_free(part);
        return NULL;
    }

    part->refs = 1;
    t->refs++;
    t->parts[index] = part;

    return part;
}


void
ngx_kafka_part_ref(ngx_kafka_part_t *part)
{
    part->refs++;
}


void
ngx_kafka_part_unref(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    if (--part->refs) {
        return;
    }

    kl_log_close(part->log);

    if (part->topic) {
        ngx_kafka_topic_unref(part->topic);
    }

    ngx_free(part);
}


/*
 * Only drops what is gone, with its descriptors and its waiters; entries that
 * are there are brought up to date when they are used next, since each takes
 * many look-ups and a change comes to all workers.
 */
void
ngx_kafka_topics_refresh(ngx_kafka_broker_t *b)
{
    ngx_uint_t           i, n;
    ngx_array_t          all;
    ngx_pool_t          *pool;
    const kc_topic_t    *kt;
    ngx_kafka_topic_t  **t;

    if (b->topics == NULL || b->topics->count == 0) {
        return;
    }

    pool = ngx_create_pool(1024, b->log);
    if (pool == NULL) {
        return;
    }

    if (ngx_array_init(&all, pool, b->topics->count,
                       sizeof(ngx_kafka_topic_t *))
        == NGX_OK)
    {
        ngx_kafka_topics_walk(b, &all);

        t = all.elts;

        for (i = 0; i < all.nelts; /* void */ ) {

            if (ngx_kafka_coord_lock(b) != NGX_OK) {
                break;
            }

            for (n = 0; n < NGX_KAFKA_TOPICS_SLICE && i < all.nelts; n++, i++) {
                kt = kc_topic_by_id(&b->kc, t[i]->id);

                if (kt == NULL
                    || kt->partition_count < t[i]->partition_count)
                {
                    ngx_kafka_topic_drop(b, t[i]);
                }
            }

            ngx_kafka_coord_unlock(b);
        }
    }

    ngx_destroy_pool(pool);
}


static void
ngx_kafka_topics_walk(ngx_kafka_broker_t *b, ngx_array_t *all)
{
    ngx_rbtree_t        *tree = &b->topics->by_name;
    ngx_rbtree_node_t   *node;
    ngx_kafka_topic_t  **t;

    if (tree->root == tree->sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(tree->root, tree->sentinel);
         node;
         node = ngx_rbtree_next(tree, node))
    {
        t = ngx_array_push(all);
        if (t == NULL) {
            return;
        }

        *t = ngx_kafka_topic_of(node, by_name);
    }
}


void
ngx_kafka_part_offsets(ngx_kafka_part_t *part, ngx_kafka_offsets_t *o)
{
    kl_snapshot(part->shared, &o->o);

    o->high_watermark = part->topic && part->topic->caching ? o->o.log_end
                                                            : o->o.flushed;
    o->last_stable = ngx_min(o->high_watermark, o->o.first_open_txn);
}


int16_t
ngx_kafka_part_ready(ngx_kafka_part_t *part, ngx_kafka_offsets_t *o)
{
    int64_t  bytes;

    ngx_kafka_part_offsets(part, o);

    if (o->o.state == KL_NEW && !part->gone) {

        /* the first look at a partition opens it */

        (void) kl_readable(part->log, 0, 0, 0, &bytes);
        ngx_kafka_part_offsets(part, o);
    }

    if (part->gone || o->o.incarnation != part->incarnation) {
        return KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }

    switch (o->o.state) {
    case KL_OPEN:
        return KF_ERR_NONE;
    case KL_FAILED_STATE:
    case KL_NEW:
        return KF_ERR_KAFKA_STORAGE_ERROR;
    default:
        return KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
}
