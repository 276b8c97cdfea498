/*
 * Produce (key 0), versions 3-13.
 *
 *   check ──> walk ──> append ──> wait ──> answer
 *
 * check    shape, size and CRC of each batch (here, it is quick);
 * walk     the records inside: here when small or plain, else in a thread;
 * append   under the partition's lock, in the order of the connection: a
 *          request that is being walked holds back those behind it;
 * wait     acks=-1: until the high watermark has passed the batch (with
 *          write.caching off that is the flushed end) and the topic's own
 *          record in the journal is on the disk.  acks=1: for the latter alone.
 *          acks=0: never answered; an error closes the connection, as Kafka
 *          does.
 *
 * KIP-98, KIP-360 (sequences), KIP-516 (topic ids), KIP-890 (transactions).
 */

#include "ngx_kafka_txn.h"
#include "../codec/kf_convert.h"


#define NGX_KAFKA_WALK_INLINE     16384         /* compressed bytes */
#define NGX_KAFKA_WALK_PLAIN      (4096 * 1024) /* uncompressed bytes */
#define NGX_KAFKA_WALK_OUTPUT     (256 * 1024)  /* what they may expand to */


typedef struct {
    const kf_produce_request_partition_data_t        *in;
    kf_produce_response_partition_responses_t        *out;
    ngx_kafka_part_t     *part;         /* referenced */
    kf_batch_t            batch;
    kf_batch_rules_t      rules;
    kf_batch_verdict_t    verdict;
    uint8_t              *data;         /* batch, in the frame or converted */
    uint8_t              *converted;    /* malloc'ed; NULL: as it came */
    uint32_t              size;
    kf_codec_t            recompress;
    unsigned              convert:1;
    unsigned              walked:1;
    unsigned              unverified:1; /* the coordinator has to be asked */
    unsigned              verified:1;   /* it was */
    unsigned              waiting:1;
    int64_t               until;        /* high watermark to wait for */
    uint64_t              generation;   /* of the log that it is one of */
    ngx_kafka_watch_t     watch;
    ngx_kafka_request_t  *request;
} ngx_kafka_produce_part_t;

typedef struct {
    kf_produce_response_t      response;
    ngx_kafka_produce_part_t  *parts;
    ngx_uint_t                 parts_n;
    ngx_uint_t                 waiting;
    ngx_uint_t                 grace;   /* satisfied at the deadline */
    int64_t                    journal; /* offset of the topics' records */
} ngx_kafka_produce_ctx_t;

typedef struct {
    ngx_kafka_request_t       *request;
} ngx_kafka_produce_task_t;


static void ngx_kafka_produce_start(ngx_kafka_request_t *r);
static void ngx_kafka_produce_check(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p, bool by_id, kf_str_t name, kf_uuid_t id,
    int16_t error);
static int16_t ngx_kafka_produce_transactional(
    const kf_produce_request_t *req, const kf_batch_t *b);
static bool ngx_kafka_produce_walk_small(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walk_one(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walk(void *data);
static void ngx_kafka_produce_convert(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walked(void *data);
static void ngx_kafka_produce_name_records(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_append(ngx_kafka_request_t *r);
static void ngx_kafka_produce_append_one(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p, kc_time_t now);
static void ngx_kafka_produce_verify(ngx_kafka_request_t *r);
static ngx_uint_t ngx_kafka_produce_unverified(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t **list, kc_txn_part_t *parts);
static void ngx_kafka_produce_appended(ngx_kafka_request_t *r);
static void ngx_kafka_produce_wait(ngx_kafka_request_t *r);
static int16_t ngx_kafka_produce_code(ngx_kafka_request_t *r, int16_t error);
static bool ngx_kafka_produce_satisfied(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_woken(ngx_kafka_watch_t *w);
static void ngx_kafka_produce_timeout(ngx_event_t *ev);
static void ngx_kafka_produce_journal(ngx_kafka_request_t *r);
static void ngx_kafka_produce_done(ngx_kafka_request_t *r);
static void ngx_kafka_produce_cleanup(ngx_kafka_request_t *r);
static void ngx_kafka_produce_fail(ngx_kafka_produce_part_t *p, int16_t error,
    const char *message);


void
ngx_kafka_produce(ngx_kafka_request_t *r)
{
    int32_t                    i, j;
    size_t                     n;
    kf_produce_request_t      *req = r->body;
    ngx_kafka_produce_ctx_t   *ctx;
    ngx_kafka_produce_part_t  *p;

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_kafka_produce_ctx_t));
    if (ctx == NULL) {
        goto failed;
    }

    n = 0;

    for (i = 0; i < req->topic_data_n; i++) {
        n += ngx_max(req->topic_data[i].partition_data_n, 0);
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return;
    }

    ctx->parts = ngx_kafka_calloc(r, n, ngx_kafka_produce_part_t);
    ctx->response.responses_n = ngx_max(req->topic_data_n, 0);
    ctx->response.responses = ngx_kafka_calloc(r, ctx->response.responses_n,
                                               kf_produce_response_responses_t);
    ctx->journal = -1;

    if (ctx->parts == NULL || ctx->response.responses == NULL) {
        goto failed;
    }

    p = ctx->parts;

    for (i = 0; i < ctx->response.responses_n; i++) {
        kf_produce_request_topic_data_t  *in = &req->topic_data[i];
        kf_produce_response_responses_t  *out = &ctx->response.responses[i];

        out->name = in->name;
        out->topic_id = in->topic_id;
        out->partition_responses_n = ngx_max(in->partition_data_n, 0);
        out->partition_responses = ngx_kafka_calloc(r,
                                     out->partition_responses_n,
                                     kf_produce_response_partition_responses_t);

        if (out->partition_responses == NULL) {
            goto failed;
        }

        for (j = 0; j < out->partition_responses_n; j++, p++) {
            p->in = &in->partition_data[j];
            p->out = &out->partition_responses[j];
            p->request = r;
            p->watch.handler = ngx_kafka_produce_woken;
            p->watch.data = p;

            kf_init_produce_response_partition_responses(p->out);
            p->out->index = p->in->index;
            p->out->base_offset = -1;
        }
    }

    ctx->parts_n = n;
    r->ctx = ctx;
    r->cancel = ngx_kafka_produce_cleanup;
    r->exclusive = 1;

    ngx_kafka_produce_start(r);

    return;

failed:

    ngx_kafka_fail(r, "no memory");
}


static void
ngx_kafka_produce_start(ngx_kafka_request_t *r)
{
    bool                       slow;
    size_t                     plain;
    int16_t                    error;
    int32_t                    i, j;
    ngx_uint_t                 k;
    kf_produce_request_t      *req = r->body;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;
    ngx_kafka_produce_task_t  *task;

    error = KF_ERR_NONE;

    if (req->acks < -1 || req->acks > 1) {
        error = KF_ERR_INVALID_REQUIRED_ACKS;
    }

    p = ctx->parts;

    for (i = 0; i < req->topic_data_n; i++) {
        for (j = 0; j < req->topic_data[i].partition_data_n; j++, p++) {
            ngx_kafka_produce_check(r, p, r->header.api_version >= 13,
                                    req->topic_data[i].name,
                                    req->topic_data[i].topic_id, error);
        }
    }

    slow = false;
    plain = 0;

    for (k = 0; k < ctx->parts_n && !slow; k++) {
        p = &ctx->parts[k];

        if (p->part == NULL) {
            continue;
        }

        if (kf_batch_codec(&p->batch) == KF_CODEC_NONE) {
            plain += p->size;
            slow = p->convert || plain > NGX_KAFKA_WALK_PLAIN;

        } else {
            slow = p->convert || p->size > NGX_KAFKA_WALK_INLINE
                   || !ngx_kafka_produce_walk_small(p);
        }
    }

    if (!slow) {
        for (k = 0; k < ctx->parts_n; k++) {
            ngx_kafka_produce_walk_one(&ctx->parts[k]);
        }

        ngx_kafka_produce_append(r);
        return;
    }

    task = ngx_kafka_task_alloc(r->broker, sizeof(ngx_kafka_produce_task_t));

    if (task == NULL) {
        ngx_kafka_produce_cleanup(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    task->request = r;
    r->cancel = NULL;
    ngx_kafka_request_hold(r);
    ngx_kafka_task_post(task, ngx_kafka_produce_walk,
                        ngx_kafka_produce_walked);
}


/*
 * A few compressed bytes may be very many plain ones: here only as far as is
 * quick.  false: a thread's work after all.
 */
static bool
ngx_kafka_produce_walk_small(ngx_kafka_produce_part_t *p)
{
    kf_batch_rules_t  rules = p->rules;

    rules.output_bytes_max = ngx_min(rules.output_bytes_max,
                                     NGX_KAFKA_WALK_OUTPUT);

    kf_batch_walk(p->data, &p->batch, &rules, &p->verdict);

    p->walked = p->verdict.error != KF_ERR_MESSAGE_TOO_LARGE
                || rules.output_bytes_max == p->rules.output_bytes_max;

    return p->walked;
}


static void
ngx_kafka_produce_walk_one(ngx_kafka_produce_part_t *p)
{
    if (p->part == NULL) {
        return;
    }

    if (!p->walked) {
        kf_batch_walk(p->data, &p->batch, &p->rules, &p->verdict);
        p->walked = 1;
    }

    if (p->verdict.error) {
        return;
    }

    if (p->rules.check_timestamps) {
        (void) kf_batch_amend(p->data, &p->batch, &p->verdict);
    }

    if (p->convert) {
        ngx_kafka_produce_convert(p);
    }
}


/* Sets p->part when the batch may go on. */
static void
ngx_kafka_produce_check(ngx_kafka_request_t *r, ngx_kafka_produce_part_t *p,
    bool by_id, kf_str_t name, kf_uuid_t id, int16_t error)
{
    kc_time_t                now;
    ngx_kafka_part_t        *part;
    ngx_kafka_topic_t       *t;
    ngx_kafka_produce_ctx_t *ctx = r->ctx;

    if (error == KF_ERR_NONE) {
        error = ngx_kafka_find_topic(r, by_id, name, id, &t);
    }

    if (error) {
        ngx_kafka_produce_fail(p, error, NULL);
        return;
    }

    if (t->internal) {
        ngx_kafka_produce_fail(p, KF_ERR_INVALID_TOPIC_EXCEPTION,
                               "The topic is internal to the broker");
        return;
    }

    part = ngx_kafka_topic_part(r->broker, t, p->in->index);

    if (part == NULL) {
        ngx_kafka_produce_fail(p, p->in->index >= 0
                                  && p->in->index < t->partition_count
                                  ? KF_ERR_KAFKA_STORAGE_ERROR
                                  : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, NULL);
        return;
    }

    if (p->in->records.data == NULL) {
        ngx_kafka_produce_fail(p, KF_ERR_INVALID_RECORD,
                               "The request has no records");
        return;
    }

    now = ngx_kafka_now();

    p->rules = t->rules;
    p->rules.zstd_refused = r->header.api_version < 7;
    p->rules.timestamp_min_ms = t->rules.timestamp_min_ms >= now.wall_ms
                                ? INT64_MIN
                                : now.wall_ms - t->rules.timestamp_min_ms;
    p->rules.timestamp_max_ms = t->rules.timestamp_max_ms
                                >= INT64_MAX - now.wall_ms
                                ? INT64_MAX
                                : now.wall_ms + t->rules.timestamp_max_ms;

    p->data = (uint8_t *) p->in->records.data;
    p->size = p->in->records.len;

    kf_batch_check(p->data, p->size, &p->rules, &p->batch, &p->verdict);

    if (p->verdict.error) {
        ngx_kafka_produce_fail(p, p->verdict.error, p->verdict.message);
        return;
    }

    error = ngx_kafka_produce_transactional(r->body, &p->batch);
    if (error) {
        ngx_kafka_produce_fail(p, error, NULL);
        return;
    }

    p->convert = t->compression != KC_COMPRESSION_PRODUCER
                 && t->compression != (int64_t) kf_batch_codec(&p->batch);
    p->recompress = (kf_codec_t) t->compression;

    ctx->journal = ngx_max(ctx->journal, t->changed);

    ngx_kafka_part_ref(part);
    p->part = part;
}


static int16_t
ngx_kafka_produce_transactional(const kf_produce_request_t *req,
    const kf_batch_t *b)
{
    return (b->attributes & KF_ATTR_TRANSACTIONAL)
           && req->transactional_id.data == NULL
           ? KF_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED : KF_ERR_NONE;
}


/* In a thread: the request and its frame are held. */
static void
ngx_kafka_produce_walk(void *data)
{
    ngx_uint_t                 k;
    ngx_kafka_produce_task_t  *task = data;
    ngx_kafka_produce_ctx_t   *ctx = task->request->ctx;

    for (k = 0; k < ctx->parts_n; k++) {
        ngx_kafka_produce_walk_one(&ctx->parts[k]);
    }
}


/* In a thread: compression.type of the topic is not the producer's codec. */
static void
ngx_kafka_produce_convert(ngx_kafka_produce_part_t *p)
{
    switch (kf_batch_convert(p->data, &p->batch, p->recompress,
                             KF_LEVEL_DEFAULT, p->rules.output_bytes_max,
                             &p->converted))
    {
    case KF_OK:
        p->data = p->converted;
        p->size = p->batch.size;
        break;

    case KF_NO_MEMORY:
        p->verdict.error = KF_ERR_KAFKA_STORAGE_ERROR;
        p->verdict.message = "No memory to compress the batch";
        break;

    default:
        p->verdict.error = KF_ERR_INVALID_RECORD;
        p->verdict.message = "The batch cannot be compressed anew";
    }
}


static void
ngx_kafka_produce_walked(void *data)
{
    ngx_kafka_produce_task_t  *task = data;
    ngx_kafka_request_t       *r = task->request;

    if (r->dead) {
        ngx_kafka_produce_cleanup(r);
    }

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    r->cancel = ngx_kafka_produce_cleanup;

    ngx_kafka_produce_append(r);
}


/* Producers may send the batch anew without these (KIP-467). */
static void
ngx_kafka_produce_name_records(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p)
{
    int32_t                               i;
    kf_produce_response_record_errors_t  *e;

    e = ngx_kafka_calloc(r, p->verdict.records_n,
                         kf_produce_response_record_errors_t);
    if (e == NULL) {
        return;
    }

    p->out->record_errors = e;
    p->out->record_errors_n = p->verdict.records_n;

    for (i = 0; i < p->verdict.records_n; i++) {
        e[i].batch_index = p->verdict.records[i];
        e[i].batch_index_error_message = p->out->error_message;
    }
}


static void
ngx_kafka_produce_append(ngx_kafka_request_t *r)
{
    bool                       ask = false;
    kc_time_t                  now;
    ngx_uint_t                 k;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;

    now = ngx_kafka_now();

    for (k = 0; k < ctx->parts_n; k++) {
        p = &ctx->parts[k];

        if (p->part == NULL) {
            continue;
        }

        if (p->verdict.error) {
            ngx_kafka_produce_fail(p, p->verdict.error, p->verdict.message);

            ngx_kafka_produce_name_records(r, p);
            continue;
        }

        ngx_kafka_produce_append_one(r, p, now);
        ask |= p->unverified;
    }

    if (ask) {
        ngx_kafka_produce_verify(r);
        return;
    }

    ngx_kafka_produce_appended(r);
}


static void
ngx_kafka_produce_appended(ngx_kafka_request_t *r)
{
    kf_produce_request_t  *req = r->body;

    if (req->acks == -1) {
        ngx_kafka_produce_wait(r);

    } else {
        ngx_kafka_produce_journal(r);
    }
}


/*
 * The first batch of a transaction in a partition: from version 12 on it adds
 * the partition to the transaction, before it asks whether that was done
 * (KIP-890); the coordinator marks the partition, and the append is repeated.
 */
static void
ngx_kafka_produce_verify(ngx_kafka_request_t *r)
{
    kc_rc_t                     rc;
    kc_time_t                   now;
    kc_call_t                   call;
    ngx_uint_t                  i, n;
    kc_txn_part_t              *parts;
    ngx_kafka_broker_t         *b = r->broker;
    kf_produce_request_t       *req = r->body;
    ngx_kafka_produce_ctx_t    *ctx = r->ctx;
    ngx_kafka_produce_part_t  **list, *p;

    list = ngx_kafka_calloc(r, ctx->parts_n, ngx_kafka_produce_part_t *);
    parts = ngx_kafka_calloc(r, ctx->parts_n, kc_txn_part_t);

    if (list == NULL || parts == NULL) {
        ngx_kafka_produce_cleanup(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    /* one round for each producer id and epoch: more than one is odd */

    while ((n = ngx_kafka_produce_unverified(r, list, parts)) != 0) {

        if (ngx_kafka_call_begin(r, &call, ngx_kafka_produce_verify)
            != NGX_OK)
        {
            return;
        }

        /* the transaction is, as its data, in the page cache */

        if (b->caching) {
            ngx_kafka_coord_later(b);
        }

        p = list[0];

        rc = r->header.api_version >= 12
             ? kc_txn_add(&r->broker->kc, &call, req->transactional_id,
                          p->batch.producer_id, p->batch.producer_epoch,
                          parts, (uint32_t) n)
             : kc_txn_verify(&r->broker->kc, &call, r->header.api_version,
                             req->transactional_id, p->batch.producer_id,
                             p->batch.producer_epoch, parts, (uint32_t) n);

        ngx_kafka_coord_unlock(r->broker);

        if (!b->caching) {
            ctx->journal = ngx_max(ctx->journal, call.wait);
        }

        now = ngx_kafka_now();

        for (i = 0; i < n; i++) {
            p = list[i];
            p->unverified = 0;
            p->verified = 1;

            if (rc != KC_OK) {
                ngx_kafka_produce_fail(p, ngx_kafka_call_error(r, rc), NULL);

            } else if (parts[i].error) {
                ngx_kafka_produce_fail(p, parts[i].error, NULL);

            } else {
                ngx_kafka_produce_append_one(r, p, now);
            }
        }
    }

    ngx_kafka_produce_appended(r);
}


static ngx_uint_t
ngx_kafka_produce_unverified(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t **list, kc_txn_part_t *parts)
{
    ngx_uint_t                 k, n;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;

    n = 0;

    for (k = 0; k < ctx->parts_n; k++) {
        p = &ctx->parts[k];

        if (!p->unverified
            || (n && (p->batch.producer_id != list[0]->batch.producer_id
                      || p->batch.producer_epoch
                         != list[0]->batch.producer_epoch)))
        {
            continue;
        }

        ngx_memzero(&parts[n], sizeof(kc_txn_part_t));
        parts[n].topic_id = p->part->topic->id;
        parts[n].partition = p->part->index;
        list[n++] = p;
    }

    return n;
}


static void
ngx_kafka_produce_append_one(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p, kc_time_t now)
{
    kl_rc_t               rc;
    kl_append_t           res;
    ngx_kafka_topic_t    *t = p->part->topic;
    ngx_kafka_broker_t   *b = r->broker;

    if (p->part->gone) {
        ngx_kafka_produce_fail(p, ngx_kafka_produce_code(r,
                                      KF_ERR_UNKNOWN_TOPIC_OR_PARTITION),
                               NULL);
        return;
    }

    ngx_memzero(&res, sizeof(kl_append_t));

    rc = kl_append(p->part->log, p->data, &p->batch, &t->log,
                   ngx_kafka_leader_epoch(b), now.wall_ms, &res);

    if (rc == KL_REFUSED) {

        if (res.unverified && !p->verified) {
            p->unverified = 1;
            return;
        }

        ngx_kafka_produce_fail(p, res.error, NULL);
        return;
    }

    if (rc == KL_NO_MEMORY) {
        ngx_log_error(NGX_LOG_ERR, b->log, 0,
                      "kafka_broker \"%V\": no room for the producers of "
                      "partition %V-%D, a batch was refused; raise \"zone\" "
                      "above %uz bytes", &b->name, &t->name, p->part->index,
                      b->zone_size);
    }

    if (rc == KL_STORAGE_ERROR) {
        ngx_kafka_storage_failed(b, p->part);
    }

    if (rc != KL_OK) {
        ngx_kafka_produce_fail(p, ngx_kafka_produce_code(r,
                                                 ngx_kafka_log_error(rc)),
                               NULL);
        return;
    }

    p->out->base_offset = res.base_offset;
    p->out->log_start_offset = res.log_start;
    p->out->log_append_time_ms = res.duplicate ? res.append_time_ms
                                 : t->log.append_time ? now.wall_ms : -1;
    p->until = res.next_offset;
    p->generation = res.generation;

    if (!res.duplicate) {
        ngx_kafka_appended(b, p->part);

    } else {
        /* the worker that wrote it may have died before it flushed */
        ngx_kafka_flush(b, p->part);
    }
}


static void
ngx_kafka_produce_wait(ngx_kafka_request_t *r)
{
    ngx_uint_t                 k;
    kf_produce_request_t      *req = r->body;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;

    ctx->waiting = 0;

    for (k = 0; k < ctx->parts_n; k++) {
        p = &ctx->parts[k];

        if (p->part == NULL || p->out->error_code) {
            continue;
        }

        ngx_kafka_watch_add(r->broker, p->part, &p->watch);

        if (ngx_kafka_produce_satisfied(p)) {
            ngx_kafka_watch_del(&p->watch);
            continue;
        }

        p->waiting = 1;
        ctx->waiting++;
    }

    if (ctx->waiting == 0) {
        ngx_kafka_produce_journal(r);
        return;
    }

    r->timer.handler = ngx_kafka_produce_timeout;
    r->timer.data = r;
    r->timer.log = r->conn->connection->log;
    ngx_add_timer(&r->timer, (ngx_msec_t) ngx_max(req->timeout_ms, 1));

    ngx_kafka_request_proceed(r);
}


/* A topic that was named by its id is unknown by its id. */
static int16_t
ngx_kafka_produce_code(ngx_kafka_request_t *r, int16_t error)
{
    return error == KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
           && r->header.api_version >= 13 ? KF_ERR_UNKNOWN_TOPIC_ID : error;
}


/* Also when waiting is of no use any more: then the error is set. */
static bool
ngx_kafka_produce_satisfied(ngx_kafka_produce_part_t *p)
{
    int16_t              error;
    ngx_kafka_offsets_t  o;

    error = ngx_kafka_part_ready(p->part, &o);

    if (error) {
        ngx_kafka_produce_fail(p, ngx_kafka_produce_code(p->request, error),
                               NULL);
        return true;
    }

    if (o.o.generation != p->generation) {

        /* opened again: the batch may be cut off, another in its place */

        ngx_kafka_produce_fail(p, KF_ERR_KAFKA_STORAGE_ERROR,
                               "The partition was reopened meanwhile");
        return true;
    }

    return o.high_watermark >= p->until;
}


static void
ngx_kafka_produce_woken(ngx_kafka_watch_t *w)
{
    ngx_kafka_request_t       *r;
    ngx_kafka_produce_ctx_t   *ctx;
    ngx_kafka_produce_part_t  *p = w->data;

    r = p->request;
    ctx = r->ctx;

    ngx_kafka_watch_add(r->broker, p->part, w);

    if (!ngx_kafka_produce_satisfied(p)) {
        return;
    }

    ngx_kafka_watch_del(w);
    p->waiting = 0;

    if (--ctx->waiting == 0) {
        ngx_kafka_produce_journal(r);
    }
}


static void
ngx_kafka_produce_timeout(ngx_event_t *ev)
{
    ngx_uint_t                 k;
    ngx_kafka_request_t       *r = ev->data;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;

    for (k = 0; k < ctx->parts_n; k++) {
        p = &ctx->parts[k];

        if (!p->waiting) {
            continue;
        }

        if (!ngx_kafka_produce_satisfied(p)) {
            ngx_kafka_produce_fail(p, KF_ERR_REQUEST_TIMED_OUT, NULL);

        } else if (!ctx->grace) {

            /* the wake-up may be on its way; if it never comes, it is lost */

            ctx->grace = 1;
            ngx_add_timer(&r->timer, NGX_KAFKA_GRACE);
            return;

        } else {
            ngx_kafka_wait_missed(r->broker);
        }

        ngx_kafka_watch_del(&p->watch);
        p->waiting = 0;
        ctx->waiting--;
    }

    ctx->waiting = 0;

    ngx_kafka_produce_journal(r);
}


/* An answer relies on the topic's own record, too. */
static void
ngx_kafka_produce_journal(ngx_kafka_request_t *r)
{
    ngx_kafka_produce_ctx_t  *ctx = r->ctx;

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    if (ctx->journal >= 0) {
        ngx_kafka_park_journal(r, ctx->journal, ngx_kafka_produce_done);
        return;
    }

    ngx_kafka_produce_done(r);
}


static void
ngx_kafka_produce_done(ngx_kafka_request_t *r)
{
    kf_str_t                   none = kf_null_str;
    ngx_uint_t                 k;
    kf_produce_request_t      *req = r->body;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;

    for (k = 0; k < ctx->parts_n; k++) {
        ngx_kafka_note(r, ctx->parts[k].out->error_code, none);
    }

    ngx_kafka_produce_cleanup(r);
    r->cancel = NULL;

    if (req->acks == 0) {

        /* the client has no other way to learn of it */

        if (r->error) {
            ngx_kafka_fail(r, "produce with acks=0 was refused");
            return;
        }

        ngx_kafka_silence(r);
        return;
    }

    ngx_kafka_answer(r, &ctx->response);
}


static void
ngx_kafka_produce_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t                 k;
    ngx_kafka_produce_ctx_t   *ctx = r->ctx;
    ngx_kafka_produce_part_t  *p;

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    for (k = 0; k < ctx->parts_n; k++) {
        p = &ctx->parts[k];

        if (p->part) {
            ngx_kafka_watch_del(&p->watch);
            ngx_kafka_part_unref(r->broker, p->part);
            p->part = NULL;
        }

        free(p->converted);
        p->converted = NULL;
    }
}


static void
ngx_kafka_produce_fail(ngx_kafka_produce_part_t *p, int16_t error,
    const char *message)
{
    p->out->error_code = error;
    p->out->base_offset = -1;
    p->out->log_append_time_ms = -1;
    p->out->log_start_offset = -1;

    if (message) {
        p->out->error_message.data = (const uint8_t *) message;
        p->out->error_message.len = (uint32_t) ngx_strlen(message);
    }
}
