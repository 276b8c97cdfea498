/*
 * Fetch sessions (KIP-227) of this worker.
 *
 *   (0, -1)     sessionless: full answer, id 0
 *   (0, 0)      full answer, a new session; id 0 when the cache is full
 *   (id, 0)     close id, then as (0, 0)
 *   (id, -1)    close id, then as (0, -1)
 *   (id, n)     n as expected: incremental; else INVALID_FETCH_SESSION_EPOCH.
 *               When no partition is left, id is closed, then as (0, -1)
 *
 * A session lives in the worker whose connection made it.  An id of another
 * worker is FETCH_SESSION_ID_NOT_FOUND, from which clients recover by a full
 * fetch, without telling the application.  Least recently used sessions go when
 * the cache (max.incremental.fetch.session.cache.slots) is full and they have
 * been idle for two minutes.
 */

#include "ngx_kafka_api.h"


#define NGX_KAFKA_SESSION_IDLE  120000          /* ms */
#define NGX_KAFKA_SESSION_NAME  256             /* longest name kept */


typedef struct {
    ngx_rbtree_t        tree;
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         lru;                    /* head: last used */
    ngx_uint_t          count;
    ngx_kafka_broker_t *broker;
} ngx_kafka_sessions_t;


static ngx_kafka_sessions_t *ngx_kafka_sessions(ngx_kafka_broker_t *b);
static ngx_kafka_session_t *ngx_kafka_session_find(ngx_kafka_sessions_t *all,
    int32_t id);
static ngx_kafka_session_t *ngx_kafka_session_create(
    ngx_kafka_sessions_t *all, const kf_fetch_request_t *req, bool by_id);
static void ngx_kafka_session_free(ngx_kafka_sessions_t *all,
    ngx_kafka_session_t *s);
static void ngx_kafka_session_empty(ngx_kafka_session_t *s);
static int16_t ngx_kafka_session_update(ngx_kafka_session_t *s,
    const kf_fetch_request_t *req, ngx_uint_t max);
static void ngx_kafka_session_forget_all(ngx_kafka_session_t *s,
    const kf_fetch_request_t *req);
static ngx_kafka_fetch_part_t *ngx_kafka_session_part(ngx_kafka_session_t *s,
    kf_str_t name, kf_uuid_t id, int32_t index);
static ngx_kafka_fetch_part_t *ngx_kafka_session_add(ngx_kafka_session_t *s,
    const kf_fetch_request_topics_t *topic, int32_t index);
static void ngx_kafka_session_forget(ngx_kafka_session_t *s,
    ngx_kafka_fetch_part_t *part);


/* One table a broker, made at first use; brokers of one process are few. */
static ngx_kafka_sessions_t *
ngx_kafka_sessions(ngx_kafka_broker_t *b)
{
    ngx_kafka_sessions_t  *all;

    if (b->sessions) {
        return b->sessions;
    }

    all = ngx_calloc(sizeof(ngx_kafka_sessions_t), b->log);
    if (all == NULL) {
        return NULL;
    }

    ngx_rbtree_init(&all->tree, &all->sentinel, ngx_rbtree_insert_value);
    ngx_queue_init(&all->lru);
    all->broker = b;

    b->sessions = all;

    return all;
}


int16_t
ngx_kafka_session_get(ngx_kafka_request_t *r, const kf_fetch_request_t *req,
    bool by_id, ngx_kafka_session_t **s, bool *full)
{
    int32_t                id, epoch;
    ngx_kafka_session_t   *found;
    ngx_kafka_sessions_t  *all;

    *s = NULL;
    *full = true;
    found = NULL;

    id = r->header.api_version >= 7 ? req->session_id : 0;
    epoch = r->header.api_version >= 7 ? req->session_epoch : -1;

    all = ngx_kafka_sessions(r->broker);

    if (all == NULL) {
        return id == 0 ? KF_ERR_NONE : KF_ERR_FETCH_SESSION_ID_NOT_FOUND;
    }

    if (id != 0) {
        found = ngx_kafka_session_find(all, id);

        if (found && (epoch == 0 || epoch == -1) && !found->busy) {
            ngx_kafka_session_free(all, found);
        }

        if (epoch > 0) {
            if (found == NULL) {
                return KF_ERR_FETCH_SESSION_ID_NOT_FOUND;
            }

            if (found->by_id != by_id) {
                return KF_ERR_FETCH_SESSION_TOPIC_ID_ERROR;
            }

            if (found->epoch != epoch || found->busy) {
                return KF_ERR_INVALID_FETCH_SESSION_EPOCH;
            }

            if (ngx_kafka_session_update(found, req,
                                         ngx_kafka_parts_max(r->broker))
                != KF_ERR_NONE) {
                ngx_kafka_session_free(all, found);
                return KF_ERR_FETCH_SESSION_ID_NOT_FOUND;
            }

            ngx_kafka_session_forget_all(found, req);

            if (found->parts_n == 0) {

                /* its end: what the request asks for, it gets without one */

                ngx_kafka_session_free(all, found);
                return KF_ERR_NONE;
            }

            found->epoch = epoch == INT32_MAX ? 1 : epoch + 1;
            found->used = ngx_current_msec;
            found->busy = true;

            ngx_queue_remove(&found->lru);
            ngx_queue_insert_head(&all->lru, &found->lru);

            *full = false;
            *s = found;

            return KF_ERR_NONE;
        }
    }

    if (epoch == 0) {
        *s = ngx_kafka_session_create(all, req, by_id);

    } else if (epoch != -1) {
        return found ? KF_ERR_INVALID_FETCH_SESSION_EPOCH
                     : KF_ERR_FETCH_SESSION_ID_NOT_FOUND;
    }

    return KF_ERR_NONE;
}


/* The answer is made, or never will be. */
void
ngx_kafka_session_release(ngx_kafka_session_t *s)
{
    s->busy = false;
}


static ngx_kafka_session_t *
ngx_kafka_session_find(ngx_kafka_sessions_t *all, int32_t id)
{
    ngx_rbtree_node_t  *node = all->tree.root;

    while (node != &all->sentinel) {
        if (node->key == (ngx_rbtree_key_t) id) {
            return (ngx_kafka_session_t *) node;
        }

        node = (ngx_rbtree_key_t) id < node->key ? node->left : node->right;
    }

    return NULL;
}


/* NULL: the cache is full, or no memory; the client stays sessionless. */
static ngx_kafka_session_t *
ngx_kafka_session_create(ngx_kafka_sessions_t *all,
    const kf_fetch_request_t *req, bool by_id)
{
    int64_t               slots;
    ngx_queue_t          *q;
    ngx_kafka_broker_t   *b = all->broker;
    ngx_kafka_session_t  *s;

    slots = b->session_slots;

    if ((int64_t) all->count >= slots) {

        if (ngx_queue_empty(&all->lru)) {
            return NULL;
        }

        q = ngx_queue_last(&all->lru);
        s = ngx_queue_data(q, ngx_kafka_session_t, lru);

        if (s->busy || ngx_current_msec - s->used < NGX_KAFKA_SESSION_IDLE) {
            return NULL;
        }

        ngx_kafka_session_free(all, s);
    }

    s = ngx_calloc(sizeof(ngx_kafka_session_t), b->log);
    if (s == NULL) {
        return NULL;
    }

    do {
        s->id = (int32_t) (ngx_random() & 0x7fffffff);
    } while (s->id == 0 || ngx_kafka_session_find(all, s->id));

    s->epoch = 1;
    s->by_id = by_id;
    s->used = ngx_current_msec;
    ngx_queue_init(&s->parts);
    ngx_rbtree_init(&s->index, &s->sentinel, ngx_str_rbtree_insert_value);

    if (ngx_kafka_session_update(s, req, ngx_kafka_parts_max(b)) != KF_ERR_NONE
        || s->parts_n == 0)
    {

        ngx_kafka_session_empty(s);
        ngx_free(s);
        return NULL;
    }

    s->node.key = (ngx_rbtree_key_t) s->id;
    s->busy = true;
    ngx_rbtree_insert(&all->tree, &s->node);
    ngx_queue_insert_head(&all->lru, &s->lru);
    all->count++;

    return s;
}


static void
ngx_kafka_session_free(ngx_kafka_sessions_t *all, ngx_kafka_session_t *s)
{
    ngx_rbtree_delete(&all->tree, &s->node);
    ngx_queue_remove(&s->lru);
    all->count--;

    ngx_kafka_session_empty(s);
    ngx_free(s);
}


static void
ngx_kafka_session_empty(ngx_kafka_session_t *s)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&s->parts)) {
        q = ngx_queue_head(&s->parts);
        ngx_kafka_session_forget(s, ngx_queue_data(q, ngx_kafka_fetch_part_t,
                                                   queue));
    }
}


void
ngx_kafka_sessions_done(ngx_kafka_broker_t *b)
{
    ngx_queue_t           *q;
    ngx_kafka_sessions_t  *all = b->sessions;

    if (all == NULL) {
        return;
    }

    while (!ngx_queue_empty(&all->lru)) {
        q = ngx_queue_head(&all->lru);
        ngx_kafka_session_free(all, ngx_queue_data(q, ngx_kafka_session_t,
                                                   lru));
    }

    ngx_free(all);
    b->sessions = NULL;
}


/*
 * Adds and changes partitions, as the request lists them.  A session has at
 * most max of them: a client that wants more than the broker can have goes on
 * without one.
 */
static int16_t
ngx_kafka_session_update(ngx_kafka_session_t *s, const kf_fetch_request_t *req,
    ngx_uint_t max)
{
    int32_t                                    i, j;
    ngx_kafka_fetch_part_t                    *part;
    const kf_fetch_request_topics_t           *topic;
    const kf_fetch_request_partitions_t       *in;

    for (i = 0; i < req->topics_n; i++) {
        topic = &req->topics[i];

        for (j = 0; j < topic->partitions_n; j++) {
            in = &topic->partitions[j];

            part = ngx_kafka_session_part(s, topic->topic, topic->topic_id,
                                          in->partition);

            if (part == NULL) {
                part = s->parts_n < max
                       ? ngx_kafka_session_add(s, topic, in->partition) : NULL;
                if (part == NULL) {
                    return KF_ERR_UNKNOWN_SERVER_ERROR;
                }
            }

            part->leader_epoch = in->current_leader_epoch;
            part->offset = in->fetch_offset;
            part->bytes_max = (uint32_t) ngx_max(in->partition_max_bytes, 0);
        }
    }

    return KF_ERR_NONE;
}


/* What the request does not want any more; a full one says all that it does. */
static void
ngx_kafka_session_forget_all(ngx_kafka_session_t *s,
    const kf_fetch_request_t *req)
{
    int32_t                                          i, j;
    ngx_kafka_fetch_part_t                          *part;
    const kf_fetch_request_forgotten_topics_data_t  *gone;

    for (i = 0; i < req->forgotten_topics_data_n; i++) {
        gone = &req->forgotten_topics_data[i];

        for (j = 0; j < gone->partitions_n; j++) {
            part = ngx_kafka_session_part(s, gone->topic, gone->topic_id,
                                          gone->partitions[j]);
            if (part) {
                ngx_kafka_session_forget(s, part);
            }
        }
    }
}


/* The key of a partition in the index: topic name or id, then the number. */
static size_t
ngx_kafka_session_key(ngx_kafka_session_t *s, kf_str_t name, kf_uuid_t id,
    int32_t index, u_char *key)
{
    size_t  len;

    if (s->by_id) {
        len = sizeof(id.b);
        ngx_memcpy(key, id.b, len);

    } else {
        len = ngx_min(name.len, NGX_KAFKA_SESSION_NAME);
        ngx_memcpy(key, name.data, len);
    }

    ngx_memcpy(key + len, &index, sizeof(int32_t));

    return len + sizeof(int32_t);
}


static ngx_kafka_fetch_part_t *
ngx_kafka_session_part(ngx_kafka_session_t *s, kf_str_t name, kf_uuid_t id,
    int32_t index)
{
    u_char           key[NGX_KAFKA_SESSION_NAME + sizeof(int32_t)];
    ngx_str_t        str;
    ngx_str_node_t  *sn;

    str.data = key;
    str.len = ngx_kafka_session_key(s, name, id, index, key);

    sn = ngx_str_rbtree_lookup(&s->index, &str,
                               ngx_crc32_short(str.data, str.len));

    /* node is the first member */
    return (ngx_kafka_fetch_part_t *) sn;
}


static ngx_kafka_fetch_part_t *
ngx_kafka_session_add(ngx_kafka_session_t *s,
    const kf_fetch_request_topics_t *topic, int32_t index)
{
    size_t                   len;
    u_char                   key[NGX_KAFKA_SESSION_NAME + sizeof(int32_t)];
    ngx_kafka_fetch_part_t  *part;

    len = ngx_kafka_session_key(s, topic->topic, topic->topic_id, index, key);

    part = ngx_calloc(sizeof(ngx_kafka_fetch_part_t) + len, ngx_cycle->log);
    if (part == NULL) {
        return NULL;
    }

    part->node.str.data = (u_char *) part + sizeof(ngx_kafka_fetch_part_t);
    part->node.str.len = len;
    ngx_memcpy(part->node.str.data, key, len);
    part->node.node.key = ngx_crc32_short(key, len);

    if (!s->by_id) {
        part->name.data = part->node.str.data;
        part->name.len = (uint32_t) (len - sizeof(int32_t));
    }

    part->id = topic->topic_id;
    part->index = index;
    part->high_watermark = -1;
    part->log_start = -1;

    ngx_rbtree_insert(&s->index, &part->node.node);
    ngx_queue_insert_tail(&s->parts, &part->queue);
    s->parts_n++;

    return part;
}


static void
ngx_kafka_session_forget(ngx_kafka_session_t *s, ngx_kafka_fetch_part_t *part)
{
    ngx_rbtree_delete(&s->index, &part->node.node);
    ngx_queue_remove(&part->queue);
    s->parts_n--;
    ngx_free(part);
}
