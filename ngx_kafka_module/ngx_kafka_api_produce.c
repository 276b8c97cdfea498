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
 * The first two are in this file, which calls ngx_kafka_produce_append.c, which
 * calls ngx_kafka_produce_wait.c.
 *
 * KIP-98, KIP-360 (sequences), KIP-516 (topic ids), KIP-890 (transactions).
 */

#include "ngx_kafka_produce.h"
#include "../codec/kf_convert.h"


#define NGX_KAFKA_WALK_INLINE     16384         /* compressed bytes */
#define NGX_KAFKA_WALK_PLAIN      (4096 * 1024) /* uncompressed bytes */
#define NGX_KAFKA_WALK_OUTPUT     (256 * 1024)  /* what they may expand to */


typedef struct {
    ngx_kafka_request_t       *request;
} ngx_kafka_produce_task_t;


static void ngx_kafka_produce_start(ngx_kafka_request_t *r);
static void ngx_kafka_produce_check(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p, bool by_id, kf_str_t name, kf_uuid_t id,
    int16_t error);
static int16_t ngx_kafka_produce_transactional(
    const kf_produce_request_t *req);
static bool ngx_kafka_produce_walk_small(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walk_one(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walk(void *data);
static void ngx_kafka_produce_convert(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_walked(void *data);


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

    error = ngx_kafka_produce_transactional(req);

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
    kf_produce_request_t    *req = r->body;
    ngx_kafka_produce_ctx_t *ctx = r->ctx;

    t = NULL;

    if (error == KF_ERR_NONE) {
        error = ngx_kafka_find_topic(r, by_id, name, id, &t);
    }

    if (error) {
        ngx_kafka_produce_fail(p, error, NULL);
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

    if (req->acks < -1 || req->acks > 1) {
        ngx_kafka_produce_fail(p, KF_ERR_INVALID_REQUIRED_ACKS, NULL);
        return;
    }

    if (t->internal) {
        ngx_kafka_produce_fail(p, KF_ERR_INVALID_TOPIC_EXCEPTION,
                               "The topic is internal to the broker");
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

    p->convert = t->compression != KC_COMPRESSION_PRODUCER
                 && t->compression != (int64_t) kf_batch_codec(&p->batch);
    p->recompress = (kf_codec_t) t->compression;

    ctx->journal = ngx_max(ctx->journal, t->changed);

    ngx_kafka_part_ref(part);
    p->part = part;
}


/* One batch of a transaction without its id, and none of them is written. */
static int16_t
ngx_kafka_produce_transactional(const kf_produce_request_t *req)
{
    int32_t                               i, j;
    kf_batch_t                            b;
    kf_produce_request_partition_data_t  *in;

    if (req->transactional_id.data) {
        return KF_ERR_NONE;
    }

    for (i = 0; i < req->topic_data_n; i++) {
        for (j = 0; j < req->topic_data[i].partition_data_n; j++) {
            in = &req->topic_data[i].partition_data[j];

            if (in->records.data
                && kf_batch_header(in->records.data, in->records.len, &b)
                   == KF_OK
                && (b.attributes & KF_ATTR_TRANSACTIONAL))
            {
                return KF_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
            }
        }
    }

    return KF_ERR_NONE;
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
