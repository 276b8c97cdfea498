/*
 * Fetch (key 1), versions 4-18.
 *
 *   session ──> look ──satisfied──> read ──> answer
 *                 │ not yet            ^
 *                 └──> park ──> woken, deadline, reload
 *
 * look     compares each partition's offset with what its consumer may see: the
 *          high watermark, or the last stable offset (read_committed).  It is
 *          satisfied by min_bytes, by any error, by the deadline, or when there
 *          is nothing to fetch.
 * read     takes slices of segment files, whole batches, in the order of the
 *          request or session; the first that has data gives at least one batch
 *          whatever the limits.  The bytes are never copied: the connection
 *          sends the slices.
 *
 * KIP-74 (limits), KIP-227 (sessions), KIP-320 (leader epochs), KIP-516 (ids).
 */

#include "ngx_kafka_api.h"


#define NGX_KAFKA_ABORTED  16           /* transactions looked for at first */


typedef struct {
    ngx_kafka_fetch_part_t    own;      /* sessionless: the part itself */
    ngx_kafka_fetch_part_t   *f;
    ngx_kafka_part_t         *part;     /* referenced; NULL: error */
    ngx_kafka_watch_t         watch;
    ngx_kafka_request_t      *request;
    ngx_kafka_offsets_t       offsets;
    int64_t                   upto;     /* may be read below */
    int16_t                   error;
    unsigned                  fired:1;  /* its watch has to be set again */
    ngx_kafka_splice_t        splice;
    kf_fetch_response_aborted_transactions_t  *aborted;
    ngx_uint_t                aborted_n;
} ngx_kafka_fetch_item_t;

typedef struct {
    ngx_kafka_session_t      *session;
    ngx_kafka_fetch_item_t   *items;
    ngx_uint_t                items_n;
    ngx_msec_t                deadline;
    ngx_event_t               woken;    /* one look for all that fired */
    int64_t                   journal;  /* offset of the topics' records */
    unsigned                  full:1;
    unsigned                  by_id:1;
    unsigned                  late:1;   /* deadline or reload: answer now */
    unsigned                  parked:1;
    unsigned                  grace:1;  /* satisfied at the deadline */
    kf_fetch_response_t       response;
} ngx_kafka_fetch_ctx_t;


static ngx_int_t ngx_kafka_fetch_items(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_item(ngx_kafka_request_t *r,
    ngx_kafka_fetch_item_t *it);
static void ngx_kafka_fetch_try(ngx_kafka_request_t *r);
static bool ngx_kafka_fetch_look(ngx_kafka_request_t *r);
static bool ngx_kafka_fetch_look_one(ngx_kafka_request_t *r,
    ngx_kafka_fetch_item_t *it, int64_t *bytes);
static void ngx_kafka_fetch_park(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_unpark(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_woken(ngx_kafka_watch_t *w);
static void ngx_kafka_fetch_again(ngx_event_t *ev);
static void ngx_kafka_fetch_timeout(ngx_event_t *ev);
static void ngx_kafka_fetch_hurry(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_answer(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_read(ngx_kafka_request_t *r,
    ngx_kafka_fetch_item_t *it, int64_t *left, bool *first);
static ngx_int_t ngx_kafka_fetch_aborted(ngx_kafka_request_t *r,
    ngx_kafka_fetch_item_t *it);
static bool ngx_kafka_fetch_listed(ngx_kafka_fetch_ctx_t *ctx,
    ngx_kafka_fetch_item_t *it);
static ngx_int_t ngx_kafka_fetch_response(ngx_kafka_request_t *r);
static void ngx_kafka_fetch_fill(ngx_kafka_request_t *r,
    ngx_kafka_fetch_item_t *it, kf_fetch_response_partitions_t *out);
static void ngx_kafka_fetch_rotate(ngx_kafka_fetch_ctx_t *ctx);
static void ngx_kafka_fetch_cleanup(ngx_kafka_request_t *r);


void
ngx_kafka_fetch(ngx_kafka_request_t *r)
{
    bool                    full;
    int16_t                 error;
    kf_fetch_request_t     *req = r->body;
    ngx_kafka_fetch_ctx_t  *ctx;

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_kafka_fetch_ctx_t));
    if (ctx == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    r->ctx = ctx;
    r->exclusive = 1;

    ctx->by_id = r->header.api_version >= 13;
    ctx->journal = -1;

    error = ngx_kafka_session_get(r, req, ctx->by_id, &ctx->session, &full);

    if (error) {
        ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
        ctx->response.error_code = error;
        ngx_kafka_answer(r, &ctx->response);
        return;
    }

    ctx->full = full;
    r->cancel = ngx_kafka_fetch_cleanup;

    switch (ngx_kafka_fetch_items(r)) {

    case NGX_OK:
        break;

    case NGX_DECLINED:                  /* failed already */
        return;

    default:
        ngx_kafka_fetch_cleanup(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ctx->deadline = ngx_current_msec
                    + (ngx_msec_t) ngx_max(req->max_wait_ms, 0);

    ngx_kafka_fetch_try(r);
}


/* One item for each partition, of the session or of the request itself. */
static ngx_int_t
ngx_kafka_fetch_items(ngx_kafka_request_t *r)
{
    size_t                   n;
    int32_t                  i, j;
    ngx_queue_t             *q;
    kf_fetch_request_t      *req = r->body;
    ngx_kafka_fetch_ctx_t   *ctx = r->ctx;
    ngx_kafka_fetch_item_t  *it;

    n = ctx->session ? ctx->session->parts_n : 0;

    if (ctx->session == NULL) {
        for (i = 0; i < req->topics_n; i++) {
            n += ngx_max(req->topics[i].partitions_n, 0);
        }
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return NGX_DECLINED;
    }

    ctx->items = ngx_kafka_calloc(r, n, ngx_kafka_fetch_item_t);
    if (ctx->items == NULL) {
        return NGX_ERROR;
    }

    it = ctx->items;

    if (ctx->session) {
        for (q = ngx_queue_head(&ctx->session->parts);
             q != ngx_queue_sentinel(&ctx->session->parts);
             q = ngx_queue_next(q), it++)
        {
            it->f = ngx_queue_data(q, ngx_kafka_fetch_part_t, queue);
            ngx_kafka_fetch_item(r, it);
        }

    } else {
        for (i = 0; i < req->topics_n; i++) {
            kf_fetch_request_topics_t  *topic = &req->topics[i];

            for (j = 0; j < topic->partitions_n; j++, it++) {
                it->f = &it->own;
                it->own.name = topic->topic;
                it->own.id = topic->topic_id;
                it->own.index = topic->partitions[j].partition;
                it->own.leader_epoch =
                                    topic->partitions[j].current_leader_epoch;
                it->own.offset = topic->partitions[j].fetch_offset;
                it->own.bytes_max = (uint32_t)
                         ngx_max(topic->partitions[j].partition_max_bytes, 0);
                ngx_kafka_fetch_item(r, it);
            }
        }
    }

    ctx->items_n = it - ctx->items;

    return NGX_OK;
}


static void
ngx_kafka_fetch_item(ngx_kafka_request_t *r, ngx_kafka_fetch_item_t *it)
{
    ngx_kafka_part_t       *part;
    ngx_kafka_topic_t      *t;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    it->request = r;
    it->watch.handler = ngx_kafka_fetch_woken;
    it->watch.data = it;

    it->error = ngx_kafka_find_topic(r, ctx->by_id, it->f->name, it->f->id,
                                     &t);
    if (it->error) {
        return;
    }

    part = ngx_kafka_topic_part(r->broker, t, it->f->index);

    if (part == NULL) {
        it->error = it->f->index >= 0 && it->f->index < t->partition_count
                    ? KF_ERR_KAFKA_STORAGE_ERROR
                    : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return;
    }

    ctx->journal = ngx_max(ctx->journal, t->changed);

    ngx_kafka_part_ref(part);
    it->part = part;
}


static void
ngx_kafka_fetch_try(ngx_kafka_request_t *r)
{
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    if (ngx_kafka_fetch_look(r)) {
        ngx_kafka_fetch_answer(r);
        return;
    }

    ngx_kafka_fetch_park(r);

    /* what changed between the look and the watches would go unnoticed */

    if (ngx_kafka_fetch_look(r)) {
        ngx_kafka_fetch_unpark(r);
        ngx_kafka_fetch_answer(r);
        return;
    }

    if (!r->timer.timer_set) {
        r->timer.handler = ngx_kafka_fetch_timeout;
        r->timer.data = r;
        r->timer.log = r->conn->connection->log;
        ngx_add_timer(&r->timer,
                      (ngx_msec_int_t) (ctx->deadline - ngx_current_msec) > 0
                      ? ctx->deadline - ngx_current_msec : 1);
    }
}


static bool
ngx_kafka_fetch_look(ngx_kafka_request_t *r)
{
    bool                    error, ready;
    int64_t                 bytes;
    ngx_uint_t              i;
    kf_fetch_request_t     *req = r->body;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    error = false;
    bytes = 0;

    for (i = 0; i < ctx->items_n; i++) {
        if (!ngx_kafka_fetch_look_one(r, &ctx->items[i], &bytes)) {
            error = true;
        }
    }

    ready = error || bytes >= req->min_bytes;

    return ready || ctx->late || ctx->items_n == 0 || req->max_wait_ms <= 0;
}


/* false: the partition has an error, to be told at once. */
static bool
ngx_kafka_fetch_look_one(ngx_kafka_request_t *r, ngx_kafka_fetch_item_t *it,
    int64_t *bytes)
{
    int64_t                 n;
    kf_fetch_request_t     *req = r->body;
    ngx_kafka_offsets_t    *o = &it->offsets;

    if (it->part == NULL) {
        return false;
    }

    it->error = ngx_kafka_check_leader_epoch(r->broker, it->f->leader_epoch);
    if (it->error) {
        return false;
    }

    it->error = ngx_kafka_part_ready(it->part, o);
    if (it->error) {
        if (it->error == KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
            && r->header.api_version >= 13)
        {
            it->error = KF_ERR_UNKNOWN_TOPIC_ID;
        }

        return false;
    }

    if (it->f->offset < o->o.log_start || it->f->offset > o->o.log_end) {
        it->error = KF_ERR_OFFSET_OUT_OF_RANGE;
        return false;
    }

    it->upto = req->isolation_level == 1 ? o->last_stable : o->high_watermark;

    if (it->f->offset < it->upto) {

        if (req->min_bytes <= 1) {
            *bytes += 1;

        } else if (*bytes < req->min_bytes
                   && kl_readable(it->part->log, it->f->offset, it->upto,
                                  ngx_min((int64_t) it->f->bytes_max,
                                          req->min_bytes - *bytes), &n)
                      == KL_OK)
        {
            *bytes += n;
        }
    }

    return true;
}


static void
ngx_kafka_fetch_park(ngx_kafka_request_t *r)
{
    ngx_uint_t              i;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    for (i = 0; i < ctx->items_n; i++) {
        if (ctx->items[i].part) {
            ngx_kafka_watch_add(r->broker, ctx->items[i].part,
                                &ctx->items[i].watch);
        }
    }

    ctx->parked = 1;
    r->hurry = ngx_kafka_fetch_hurry;
}


static void
ngx_kafka_fetch_unpark(ngx_kafka_request_t *r)
{
    ngx_uint_t              i;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    for (i = 0; i < ctx->items_n; i++) {
        if (ctx->items[i].part) {
            ngx_kafka_watch_del(&ctx->items[i].watch);
        }
    }

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    if (ctx->woken.posted) {
        ngx_delete_posted_event(&ctx->woken);
    }

    ctx->parked = 0;
    r->hurry = NULL;
}


static void
ngx_kafka_fetch_woken(ngx_kafka_watch_t *w)
{
    ngx_kafka_fetch_item_t  *it = w->data;
    ngx_kafka_fetch_ctx_t   *ctx = it->request->ctx;

    it->fired = 1;

    /* many partitions change in one round: they are looked at together */

    if (!ctx->woken.posted) {
        ctx->woken.handler = ngx_kafka_fetch_again;
        ctx->woken.data = it->request;
        ctx->woken.log = it->request->conn->connection->log;
        ngx_post_event(&ctx->woken, &ngx_posted_events);
    }
}


static void
ngx_kafka_fetch_again(ngx_event_t *ev)
{
    ngx_uint_t               i;
    ngx_kafka_request_t     *r = ev->data;
    ngx_kafka_fetch_ctx_t   *ctx = r->ctx;
    ngx_kafka_fetch_item_t  *it;

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];

        if (it->fired) {
            it->fired = 0;
            ngx_kafka_watch_add(r->broker, it->part, &it->watch);
        }
    }

    if (ngx_kafka_fetch_look(r)) {
        ngx_kafka_fetch_unpark(r);
        ngx_kafka_fetch_answer(r);
    }
}


static void
ngx_kafka_fetch_timeout(ngx_event_t *ev)
{
    ngx_kafka_request_t    *r = ev->data;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    if (ngx_kafka_fetch_look(r)) {

        /* the wake-up may be on its way; if it does not come, it was lost */

        if (!ctx->grace) {
            ctx->grace = 1;
            ngx_add_timer(&r->timer, NGX_KAFKA_GRACE);
            return;
        }

        ngx_kafka_wait_missed(r->broker);
    }

    ctx->late = 1;

    (void) ngx_kafka_fetch_look(r);
    ngx_kafka_fetch_unpark(r);
    ngx_kafka_fetch_answer(r);
}


static void
ngx_kafka_fetch_hurry(ngx_kafka_request_t *r)
{
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    ctx->late = 1;

    (void) ngx_kafka_fetch_look(r);
    ngx_kafka_fetch_unpark(r);
    ngx_kafka_fetch_answer(r);
}


static void
ngx_kafka_fetch_answer(ngx_kafka_request_t *r)
{
    bool                    first;
    int64_t                 left, journal;
    ngx_int_t               rc;
    ngx_uint_t              i;
    kf_fetch_request_t     *req = r->body;
    ngx_kafka_fetch_ctx_t  *ctx = r->ctx;

    left = ngx_min((int64_t) ngx_max(req->max_bytes, 0),
                   r->broker->fetch_bytes_max);
    first = true;

    for (i = 0; i < ctx->items_n; i++) {
        if (ctx->items[i].error == KF_ERR_NONE) {
            ngx_kafka_fetch_read(r, &ctx->items[i], &left, &first);
        }
    }

    rc = ngx_kafka_fetch_response(r);
    journal = ctx->journal;

    ngx_kafka_fetch_cleanup(r);
    r->cancel = NULL;

    if (rc != NGX_OK) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, &ctx->response, journal);
}


static void
ngx_kafka_fetch_read(ngx_kafka_request_t *r, ngx_kafka_fetch_item_t *it,
    int64_t *left, bool *first)
{
    kl_rc_t              rc;
    uint32_t             max;
    kf_fetch_request_t  *req = r->body;

    if (it->f->offset >= it->upto || (*left <= 0 && !*first)) {
        return;
    }

    max = (uint32_t) ngx_min((int64_t) it->f->bytes_max, ngx_max(*left, 0));

    rc = kl_read(it->part->log, it->f->offset, it->upto, max, *first,
                 &it->splice.slice);

    if (rc != KL_OK) {
        ngx_memzero(&it->splice, sizeof(ngx_kafka_splice_t));
        it->error = ngx_kafka_log_error(rc);
        return;
    }

    if (it->splice.slice.len == 0) {
        return;
    }

    ngx_kafka_splice_own(r, &it->splice);

    *left -= it->splice.slice.len;
    *first = false;

    if (req->isolation_level == 1
        && ngx_kafka_fetch_aborted(r, it) != NGX_OK)
    {
        it->splice.slice.len = 0;
        it->error = KF_ERR_KAFKA_STORAGE_ERROR;
    }
}


/*
 * The aborted transactions that the consumer has to leave out of this slice.
 * Read after the last stable offset: what ended below it is in the index.
 */
static ngx_int_t
ngx_kafka_fetch_aborted(ngx_kafka_request_t *r, ngx_kafka_fetch_item_t *it)
{
    size_t         i, n, max;
    kl_aborted_t  *list;

    n = 0;

    do {
        max = ngx_max(n, NGX_KAFKA_ABORTED);

        list = ngx_palloc(r->pool, max * sizeof(kl_aborted_t));

        if (list == NULL
            || kl_aborted(it->part->log, it->f->offset,
                          it->splice.slice.next_offset, list, max, &n)
               != KL_OK)
        {
            return NGX_ERROR;
        }
    } while (n > max);

    it->aborted = ngx_kafka_calloc(r, n,
                                   kf_fetch_response_aborted_transactions_t);
    if (it->aborted == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        it->aborted[i].producer_id = list[i].producer_id;
        it->aborted[i].first_offset = list[i].first_offset;
    }

    it->aborted_n = n;

    return NGX_OK;
}


/* An incremental answer leaves out what has not changed (KIP-227). */
static bool
ngx_kafka_fetch_listed(ngx_kafka_fetch_ctx_t *ctx, ngx_kafka_fetch_item_t *it)
{
    ngx_kafka_fetch_part_t  *f = it->f;

    return ctx->full || it->error || !f->told || it->splice.slice.len
           || f->high_watermark != it->offsets.high_watermark
           || f->log_start != it->offsets.o.log_start;
}


static ngx_int_t
ngx_kafka_fetch_response(ngx_kafka_request_t *r)
{
    ngx_uint_t                       i, j, n, topics_n;
    ngx_kafka_fetch_ctx_t           *ctx = r->ctx;
    ngx_kafka_fetch_item_t          *it;
    kf_fetch_response_t             *rsp = &ctx->response;
    kf_fetch_response_responses_t   *topic;
    kf_fetch_response_partitions_t  *out;

    rsp->session_id = ctx->session ? ctx->session->id : 0;

    /* items of one topic stand together; each run becomes one entry */

    topic = ngx_kafka_calloc(r, ctx->items_n, kf_fetch_response_responses_t);
    out = ngx_kafka_calloc(r, ctx->items_n, kf_fetch_response_partitions_t);

    if (topic == NULL || out == NULL) {
        return NGX_ERROR;
    }

    rsp->responses = topic;
    topics_n = 0;

    for (i = 0; i < ctx->items_n; i = j) {
        it = &ctx->items[i];
        n = 0;

        topic->topic = it->f->name;
        topic->topic_id = it->f->id;
        topic->partitions = out;

        for (j = i; j < ctx->items_n; j++) {

            if (ctx->by_id ? !kf_uuid_eq(ctx->items[j].f->id, it->f->id)
                           : !kf_str_eq(ctx->items[j].f->name, it->f->name))
            {
                break;
            }

            if (ngx_kafka_fetch_listed(ctx, &ctx->items[j])) {
                ngx_kafka_fetch_fill(r, &ctx->items[j], out++);
                n++;
            }
        }

        if (n) {
            topic->partitions_n = (int32_t) n;
            topic++;
            topics_n++;
        }
    }

    rsp->responses_n = (int32_t) topics_n;

    if (ctx->session) {
        ngx_kafka_fetch_rotate(ctx);
    }

    return NGX_OK;
}


static void
ngx_kafka_fetch_fill(ngx_kafka_request_t *r, ngx_kafka_fetch_item_t *it,
    kf_fetch_response_partitions_t *out)
{
    kf_fetch_request_t  *req = r->body;

    kf_init_fetch_response_partitions(out);

    out->partition_index = it->f->index;
    out->error_code = it->error;
    out->preferred_read_replica = -1;
    out->records.data = (const uint8_t *) "";
    out->records.len = 0;

    if (it->error) {
        ngx_kafka_note(r, it->error, it->f->name);
        out->high_watermark = -1;
        out->last_stable_offset = -1;
        out->log_start_offset = -1;
        /* null, as the log's answers are in Kafka, but for what has no log */
        out->aborted_transactions_n =
            it->error == KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
            || it->error == KF_ERR_UNKNOWN_TOPIC_ID ? 0 : -1;
        it->f->told = false;
        return;
    }

    out->high_watermark = it->offsets.high_watermark;
    out->last_stable_offset = it->offsets.last_stable;
    out->log_start_offset = it->offsets.o.log_start;
    out->aborted_transactions = it->aborted;
    out->aborted_transactions_n = req->isolation_level == 1
                                  ? (int32_t) it->aborted_n : -1;

    if (it->splice.slice.len) {
        out->records.data = NULL;
        out->records.len = it->splice.slice.len;
        out->records.ref = &it->splice;
    }

    it->f->high_watermark = it->offsets.high_watermark;
    it->f->log_start = it->offsets.o.log_start;
    it->f->told = true;
}


/* Partitions that gave data go to the end, so that none starves. */
static void
ngx_kafka_fetch_rotate(ngx_kafka_fetch_ctx_t *ctx)
{
    ngx_uint_t               i;
    ngx_kafka_fetch_item_t  *it;

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];

        if (it->splice.slice.len) {
            ngx_queue_remove(&it->f->queue);
            ngx_queue_insert_tail(&ctx->session->parts, &it->f->queue);
        }
    }
}


static void
ngx_kafka_fetch_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t               i;
    ngx_kafka_fetch_ctx_t   *ctx = r->ctx;
    ngx_kafka_fetch_item_t  *it;

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    if (ctx->woken.posted) {
        ngx_delete_posted_event(&ctx->woken);
    }

    for (i = 0; i < ctx->items_n; i++) {
        it = &ctx->items[i];

        if (it->part) {
            ngx_kafka_watch_del(&it->watch);
            ngx_kafka_part_unref(r->broker, it->part);
            it->part = NULL;
        }
    }

    if (ctx->session) {
        ngx_kafka_session_release(ctx->session);
        ctx->session = NULL;
    }
}
