/*
 * DescribeProducers (key 61), version 0, and WriteTxnMarkers (key 27), versions
 * 1-2: what kafka-transactions looks at, and how it ends a transaction that
 * hangs.
 *
 * Both read or write partitions, in a thread.  A marker that is asked for here
 * is written in any case; the coordinator's own idea of the transaction stays
 * as it is, as in Kafka.
 */

#include "ngx_kafka_api.h"


typedef struct {
    ngx_kafka_part_t    *part;                  /* referenced */
    kl_config_t          config;
    void                *out;                   /* of the partition */
    kl_rc_t              rc;
    /* markers */
    kl_marker_t          marker;
    kl_marked_t          marked;
    /* producers */
    kl_producer_info_t  *list;                  /* malloc'ed */
    size_t               list_n;
} ngx_kafka_producers_item_t;

typedef struct {
    void                        *response;
    ngx_kafka_producers_item_t  *items;
    ngx_uint_t                   items_n;
    int64_t                      journal;
} ngx_kafka_producers_ctx_t;

typedef struct {
    ngx_kafka_request_t         *request;
} ngx_kafka_producers_task_t;


static ngx_kafka_producers_ctx_t *ngx_kafka_producers_ctx(
    ngx_kafka_request_t *r, size_t n);
static int16_t ngx_kafka_producers_part(ngx_kafka_request_t *r, kf_str_t topic,
    int32_t index, bool writes, void *out);
static void ngx_kafka_producers_post(ngx_kafka_request_t *r,
    void (*work)(void *data), void (*done)(void *data));
static void ngx_kafka_describe_producers_work(void *data);
static void ngx_kafka_describe_producers_done(void *data);
static ngx_int_t ngx_kafka_describe_producers_fill(ngx_kafka_request_t *r,
    ngx_kafka_producers_item_t *it);
static void ngx_kafka_write_markers_work(void *data);
static void ngx_kafka_write_markers_done(void *data);
static void ngx_kafka_producers_cleanup(ngx_kafka_request_t *r);


static ngx_kafka_producers_ctx_t *
ngx_kafka_producers_ctx(ngx_kafka_request_t *r, size_t n)
{
    ngx_kafka_producers_ctx_t  *ctx;

    ctx = ngx_kafka_calloc(r, 1, ngx_kafka_producers_ctx_t);
    if (ctx == NULL) {
        return NULL;
    }

    ctx->journal = -1;
    ctx->items = ngx_kafka_calloc(r, n, ngx_kafka_producers_item_t);
    if (ctx->items == NULL) {
        return NULL;
    }

    r->ctx = ctx;
    r->exclusive = 1;
    r->cancel = ngx_kafka_producers_cleanup;

    return ctx;
}


/*
 * Kafka's code; NONE: an item of the context refers to the partition.  Nothing
 * is written to the internal topics.
 */
static int16_t
ngx_kafka_producers_part(ngx_kafka_request_t *r, kf_str_t topic, int32_t index,
    bool writes, void *out)
{
    int16_t                      error;
    kf_uuid_t                    none;
    ngx_kafka_part_t            *part;
    ngx_kafka_topic_t           *t;
    ngx_kafka_offsets_t          o;
    ngx_kafka_producers_ctx_t   *ctx = r->ctx;
    ngx_kafka_producers_item_t  *it;

    part = NULL;
    ngx_memzero(&none, sizeof(kf_uuid_t));

    error = ngx_kafka_find_topic(r, false, topic, none, &t);

    if (error == KF_ERR_NONE && writes && t->internal) {
        error = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }

    if (error == KF_ERR_NONE) {
        part = ngx_kafka_topic_part(r->broker, t, index);
        error = part ? ngx_kafka_part_ready(part, &o)
                     : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }

    if (error) {
        ngx_kafka_note(r, error, topic);
        return error;
    }

    ctx->journal = ngx_max(ctx->journal, t->changed);

    it = &ctx->items[ctx->items_n++];
    it->part = part;
    it->config = t->log;
    it->out = out;
    ngx_kafka_part_ref(part);

    return KF_ERR_NONE;
}


static void
ngx_kafka_producers_post(ngx_kafka_request_t *r, void (*work)(void *data),
    void (*done)(void *data))
{
    ngx_kafka_producers_task_t  *task;

    task = ngx_kafka_task_alloc(r->broker, sizeof(ngx_kafka_producers_task_t));

    if (task == NULL) {
        ngx_kafka_producers_cleanup(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    task->request = r;
    r->cancel = NULL;
    ngx_kafka_request_hold(r);
    ngx_kafka_task_post(task, work, done);
}


void
ngx_kafka_describe_producers(ngx_kafka_request_t *r)
{
    size_t                             n;
    int32_t                            i, j;
    const char                        *problem;
    kf_describe_producers_request_t   *req = r->body;
    kf_describe_producers_response_t  *rsp;
    ngx_kafka_producers_ctx_t         *ctx;

    n = 0;

    for (i = 0; i < req->topics_n; i++) {
        n += ngx_max(req->topics[i].partition_indexes_n, 0);
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return;
    }

    ctx = ngx_kafka_producers_ctx(r, n);
    rsp = ngx_kafka_calloc(r, 1, kf_describe_producers_response_t);

    if (ctx == NULL || rsp == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ctx->response = rsp;
    rsp->topics_n = ngx_max(req->topics_n, 0);
    rsp->topics = ngx_kafka_calloc(r, rsp->topics_n,
                                   kf_describe_producers_response_topics_t);

    for (i = 0; i < rsp->topics_n && rsp->topics; i++) {
        kf_describe_producers_response_topics_t      *out = &rsp->topics[i];
        kf_describe_producers_response_partitions_t  *p;

        out->name = req->topics[i].name;
        out->partitions_n = ngx_max(req->topics[i].partition_indexes_n, 0);
        out->partitions = ngx_kafka_calloc(r, out->partitions_n,
                                 kf_describe_producers_response_partitions_t);

        if (out->partitions == NULL) {
            rsp->topics = NULL;
            break;
        }

        for (j = 0; j < out->partitions_n; j++) {
            p = &out->partitions[j];
            p->partition_index = req->topics[i].partition_indexes[j];
            p->error_code = ngx_kafka_producers_part(r, out->name,
                                                     p->partition_index, false,
                                                     p);

            if (p->error_code == KF_ERR_UNKNOWN_TOPIC_OR_PARTITION) {
                p->error_message = kf_str("there is no such partition");
                problem = kc_topic_name_problem(out->name);

                if (problem) {
                    p->error_code = KF_ERR_INVALID_TOPIC_EXCEPTION;
                    p->error_message.data = (const uint8_t *) problem;
                    p->error_message.len = (uint32_t) ngx_strlen(problem);
                }
            }
        }
    }

    if (rsp->topics == NULL) {
        ngx_kafka_producers_cleanup(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_producers_post(r, ngx_kafka_describe_producers_work,
                             ngx_kafka_describe_producers_done);
}


static void
ngx_kafka_describe_producers_work(void *data)
{
    ngx_uint_t                   i;
    ngx_kafka_producers_task_t  *task = data;
    ngx_kafka_producers_ctx_t   *ctx = task->request->ctx;
    ngx_kafka_producers_item_t  *it;

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];
        it->rc = kl_producers(it->part->log, false, &it->list, &it->list_n);
    }
}


static void
ngx_kafka_describe_producers_done(void *data)
{
    ngx_uint_t                   i, failed;
    ngx_kafka_producers_task_t  *task = data;
    ngx_kafka_request_t         *r = task->request;
    ngx_kafka_producers_ctx_t   *ctx = r->ctx;

    failed = 0;

    for (i = 0; i < ctx->items_n && !r->dead; i++) {
        if (ngx_kafka_describe_producers_fill(r, &ctx->items[i]) != NGX_OK) {
            failed = 1;
        }
    }

    ngx_kafka_producers_cleanup(r);

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    if (failed) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, ctx->response, ctx->journal);
}


static ngx_int_t
ngx_kafka_describe_producers_fill(ngx_kafka_request_t *r,
    ngx_kafka_producers_item_t *it)
{
    size_t                                              i;
    kf_describe_producers_response_partitions_t        *out = it->out;
    kf_describe_producers_response_active_producers_t  *p;

    if (it->rc != KL_OK) {
        out->error_code = ngx_kafka_log_error(it->rc);
        return NGX_OK;
    }

    p = ngx_kafka_calloc(r, it->list_n,
                         kf_describe_producers_response_active_producers_t);
    if (p == NULL) {
        return NGX_ERROR;
    }

    out->active_producers = p;
    out->active_producers_n = (int32_t) it->list_n;

    for (i = 0; i < it->list_n; i++, p++) {
        p->producer_id = it->list[i].producer_id;
        p->producer_epoch = it->list[i].producer_epoch;
        p->last_sequence = it->list[i].last_sequence;
        p->last_timestamp = it->list[i].last_timestamp_ms;
        p->coordinator_epoch = it->list[i].coordinator_epoch;
        p->current_txn_start_offset = it->list[i].txn_start;
    }

    return NGX_OK;
}


void
ngx_kafka_write_txn_markers(ngx_kafka_request_t *r)
{
    size_t                                   n;
    int32_t                                  i, j, k;
    ngx_kafka_producers_ctx_t               *ctx;
    kf_write_txn_markers_request_t          *req = r->body;
    kf_write_txn_markers_response_t         *rsp;
    kf_write_txn_markers_request_markers_t  *m;

    n = 0;

    for (i = 0; i < req->markers_n; i++) {
        for (j = 0; j < req->markers[i].topics_n; j++) {
            n += ngx_max(req->markers[i].topics[j].partition_indexes_n, 0);
        }
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return;
    }

    ctx = ngx_kafka_producers_ctx(r, n);
    rsp = ngx_kafka_calloc(r, 1, kf_write_txn_markers_response_t);

    if (ctx == NULL || rsp == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ctx->response = rsp;
    rsp->markers_n = ngx_max(req->markers_n, 0);
    rsp->markers = ngx_kafka_calloc(r, rsp->markers_n,
                                    kf_write_txn_markers_response_markers_t);

    if (rsp->markers == NULL) {
        goto failed;
    }

    for (i = 0; i < rsp->markers_n; i++) {
        kf_write_txn_markers_response_markers_t  *out = &rsp->markers[i];

        m = &req->markers[i];
        out->producer_id = m->producer_id;
        out->topics_n = ngx_max(m->topics_n, 0);
        out->topics = ngx_kafka_calloc(r, out->topics_n,
                                      kf_write_txn_markers_response_topics_t);

        if (out->topics == NULL) {
            goto failed;
        }

        for (j = 0; j < out->topics_n; j++) {
            kf_write_txn_markers_response_topics_t  *topic = &out->topics[j];

            topic->name = m->topics[j].name;
            topic->partitions_n = ngx_max(m->topics[j].partition_indexes_n, 0);
            topic->partitions = ngx_kafka_calloc(r, topic->partitions_n,
                                  kf_write_txn_markers_response_partitions_t);

            if (topic->partitions == NULL) {
                goto failed;
            }

            for (k = 0; k < topic->partitions_n; k++) {
                kf_write_txn_markers_response_partitions_t  *p;
                ngx_kafka_producers_item_t                  *it;

                p = &topic->partitions[k];
                p->partition_index = m->topics[j].partition_indexes[k];
                p->error_code = ngx_kafka_producers_part(r, topic->name,
                                                         p->partition_index,
                                                         true, p);
                if (p->error_code) {
                    continue;
                }

                it = &ctx->items[ctx->items_n - 1];
                it->marker.producer_id = m->producer_id;
                it->marker.producer_epoch = m->producer_epoch;
                it->marker.coordinator_epoch = m->coordinator_epoch;
                it->marker.commit = m->transaction_result;
                it->marker.forced = true;
            }
        }
    }

    ngx_kafka_producers_post(r, ngx_kafka_write_markers_work,
                             ngx_kafka_write_markers_done);

    return;

failed:

    ngx_kafka_producers_cleanup(r);
    r->cancel = NULL;
    ngx_kafka_fail(r, "no memory");
}


static void
ngx_kafka_write_markers_work(void *data)
{
    int64_t                      flushed;
    ngx_uint_t                   i;
    kl_offsets_t                 o;
    ngx_kafka_producers_task_t  *task = data;
    ngx_kafka_producers_ctx_t   *ctx = task->request->ctx;
    ngx_kafka_producers_item_t  *it;

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];

        it->rc = kl_append_marker(it->part->log, &it->marker, &it->config,
                                  ngx_kafka_leader_epoch(
                                                      task->request->broker),
                                  ngx_kafka_wall_ms(), &it->marked);

        if (it->rc == KL_OK) {
            it->rc = kl_flush(it->part->log, &flushed);
        }

        if (it->rc == KL_OK) {
            kl_snapshot(it->part->shared, &o);

            /* opened again: the marker may be cut off */

            if (o.generation != it->marked.generation) {
                it->rc = KL_FAILED;
            }
        }
    }
}


static void
ngx_kafka_write_markers_done(void *data)
{
    ngx_uint_t                                   i;
    ngx_kafka_producers_task_t                  *task = data;
    ngx_kafka_request_t                         *r = task->request;
    ngx_kafka_producers_ctx_t                   *ctx = r->ctx;
    ngx_kafka_producers_item_t                  *it;
    kf_write_txn_markers_response_partitions_t  *out;

    /* readers wait for the last stable offset, answered or not */

    for (i = 0; i < ctx->items_n; i++) {
        if (ctx->items[i].part) {
            ngx_kafka_changed(r->broker, ctx->items[i].part);
        }
    }

    for (i = 0; i < ctx->items_n && !r->dead; i++) {
        it = &ctx->items[i];
        out = it->out;
        out->error_code = it->rc == KL_REFUSED ? it->marked.error
                                               : ngx_kafka_log_error(it->rc);
        ngx_kafka_note(r, out->error_code, (kf_str_t) kf_null_str);
    }

    ngx_kafka_producers_cleanup(r);

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    ngx_kafka_answer_when(r, ctx->response, ctx->journal);
}


static void
ngx_kafka_producers_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t                   i;
    ngx_kafka_producers_ctx_t   *ctx = r->ctx;
    ngx_kafka_producers_item_t  *it;

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];

        if (it->part) {
            ngx_kafka_part_unref(r->broker, it->part);
            it->part = NULL;
        }

        free(it->list);
        it->list = NULL;
    }
}
