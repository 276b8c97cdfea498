/*
 * ListOffsets (key 2), versions 1-11, and OffsetForLeaderEpoch (key 23),
 * versions 2-4.
 *
 * ListOffsets by time reads (and may decompress) segments, in a thread; the
 * special timestamps -1, -2, -4, -5, -6 are answered from published numbers.
 * An offset that is told here is one that a consumer may see: bounded by the
 * high watermark, or by the last stable offset for read_committed.
 *
 * A producer with acks=1 may know of records that the disk has not got yet.  In
 * Apache Kafka with one replica they are below the high watermark at once; here
 * the thread flushes first, so that who has written finds what it wrote.
 */

#include "ngx_kafka_api.h"


#define NGX_KAFKA_LATEST            -1
#define NGX_KAFKA_EARLIEST          -2
#define NGX_KAFKA_MAX_TIMESTAMP     -3          /* v7, KIP-734 */
#define NGX_KAFKA_EARLIEST_LOCAL    -4          /* v8, KIP-405 */
#define NGX_KAFKA_LATEST_TIERED     -5          /* v9, KIP-1005 */
#define NGX_KAFKA_EARLIEST_PENDING  -6          /* v11, KIP-1023 */


typedef struct {
    kf_list_offsets_response_partitions_t  *out;
    int64_t             timestamp;
    int64_t             upto;
    kl_log_t           *log;                    /* referenced */
    kl_part_t          *shared;                 /* of a flush; else NULL */
    uint64_t            incarnation;
} ngx_kafka_lookup_t;

typedef struct {
    kf_list_offsets_response_t  response;
    ngx_kafka_lookup_t         *lookups;        /* for the thread */
    ngx_uint_t                  lookups_n;
    int64_t                     journal;
} ngx_kafka_offsets_ctx_t;

typedef struct {
    ngx_kafka_request_t        *request;
} ngx_kafka_offsets_task_t;


static void ngx_kafka_list_offsets_one(ngx_kafka_request_t *r,
    const kf_list_offsets_request_topics_t *topic,
    const kf_list_offsets_request_partitions_t *in,
    kf_list_offsets_response_partitions_t *out);
static void ngx_kafka_list_offsets_later(ngx_kafka_request_t *r,
    int64_t timestamp, int64_t upto, ngx_kafka_part_t *part,
    const ngx_kafka_offsets_t *o, kf_list_offsets_response_partitions_t *out);
static int16_t ngx_kafka_list_offsets_version(int64_t timestamp,
    int16_t version);
static void ngx_kafka_list_offsets_work(void *data);
static void ngx_kafka_list_offsets_flush(ngx_kafka_lookup_t *l,
    bool committed);
static void ngx_kafka_list_offsets_done(void *data);
static void ngx_kafka_list_offsets_cleanup(ngx_kafka_request_t *r);
static int16_t ngx_kafka_readable_part(ngx_kafka_request_t *r, kf_str_t topic,
    int32_t index, int32_t leader_epoch, ngx_kafka_part_t **part,
    ngx_kafka_offsets_t *o);


void
ngx_kafka_list_offsets(ngx_kafka_request_t *r)
{
    size_t                      n;
    int32_t                     i, j;
    ngx_kafka_offsets_ctx_t    *ctx;
    ngx_kafka_offsets_task_t   *task;
    kf_list_offsets_request_t  *req = r->body;

    r->exclusive = 1;

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_kafka_offsets_ctx_t));
    if (ctx == NULL) {
        goto failed;
    }

    r->ctx = ctx;
    ctx->journal = -1;

    n = 0;

    for (i = 0; i < req->topics_n; i++) {
        n += ngx_max(req->topics[i].partitions_n, 0);
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return;
    }

    ctx->lookups = ngx_kafka_calloc(r, n, ngx_kafka_lookup_t);
    ctx->response.topics_n = ngx_max(req->topics_n, 0);
    ctx->response.topics = ngx_kafka_calloc(r, ctx->response.topics_n,
                                            kf_list_offsets_response_topics_t);

    if (ctx->lookups == NULL || ctx->response.topics == NULL) {
        goto failed;
    }

    r->cancel = ngx_kafka_list_offsets_cleanup;

    for (i = 0; i < ctx->response.topics_n; i++) {
        kf_list_offsets_response_topics_t  *out = &ctx->response.topics[i];

        out->name = req->topics[i].name;
        out->partitions_n = ngx_max(req->topics[i].partitions_n, 0);
        out->partitions = ngx_kafka_calloc(r, out->partitions_n,
                                        kf_list_offsets_response_partitions_t);

        if (out->partitions == NULL) {
            goto failed;
        }

        for (j = 0; j < out->partitions_n; j++) {
            ngx_kafka_list_offsets_one(r, &req->topics[i],
                                       &req->topics[i].partitions[j],
                                       &out->partitions[j]);
        }
    }

    if (ctx->lookups_n) {
        task = ngx_kafka_task_alloc(r->broker,
                                    sizeof(ngx_kafka_offsets_task_t));
        if (task == NULL) {
            goto failed;
        }

        task->request = r;
        r->cancel = NULL;
        ngx_kafka_request_hold(r);
        ngx_kafka_task_post(task, ngx_kafka_list_offsets_work,
                            ngx_kafka_list_offsets_done);
        return;
    }

    r->cancel = NULL;
    ngx_kafka_answer_when(r, &ctx->response, ctx->journal);

    return;

failed:

    if (r->cancel) {
        ngx_kafka_list_offsets_cleanup(r);
        r->cancel = NULL;
    }

    ngx_kafka_fail(r, "no memory");
}


static void
ngx_kafka_list_offsets_one(ngx_kafka_request_t *r,
    const kf_list_offsets_request_topics_t *topic,
    const kf_list_offsets_request_partitions_t *in,
    kf_list_offsets_response_partitions_t *out)
{
    int64_t                     upto;
    ngx_kafka_part_t           *part;
    ngx_kafka_offsets_t         o;
    ngx_kafka_offsets_ctx_t    *ctx = r->ctx;
    kf_list_offsets_request_t  *req = r->body;

    part = NULL;

    out->partition_index = in->partition_index;
    out->timestamp = -1;
    out->offset = -1;
    out->leader_epoch = -1;

    out->error_code = ngx_kafka_list_offsets_version(in->timestamp,
                                                     r->header.api_version);

    if (out->error_code == KF_ERR_NONE) {
        out->error_code = ngx_kafka_readable_part(r, topic->name,
                                                  in->partition_index,
                                                  in->current_leader_epoch,
                                                  &part, &o);
    }

    if (out->error_code) {
        ngx_kafka_note(r, out->error_code, topic->name);
        return;
    }

    ctx->journal = ngx_max(ctx->journal, part->topic->changed);

    upto = req->isolation_level == 1 ? o.last_stable : o.high_watermark;

    switch (in->timestamp) {

    case NGX_KAFKA_LATEST:
        out->offset = upto;
        out->leader_epoch = r->broker->leader_epoch;

        if (o.high_watermark < o.o.log_end) {
            ngx_kafka_list_offsets_later(r, in->timestamp, upto, part, &o, out);
        }
        break;

    case NGX_KAFKA_EARLIEST:
    case NGX_KAFKA_EARLIEST_LOCAL:
        out->offset = o.o.log_start;
        out->leader_epoch = kl_epoch_of(part->log, o.o.log_start);

        if (out->leader_epoch < 0) {
            out->leader_epoch = r->broker->leader_epoch;
        }
        break;

    case NGX_KAFKA_LATEST_TIERED:
    case NGX_KAFKA_EARLIEST_PENDING:
        break;                                  /* nothing is tiered */

    default:
        ngx_kafka_list_offsets_later(r, in->timestamp, upto, part, &o, out);
    }
}


/* In a thread. */
static void
ngx_kafka_list_offsets_later(ngx_kafka_request_t *r, int64_t timestamp,
    int64_t upto, ngx_kafka_part_t *part, const ngx_kafka_offsets_t *o,
    kf_list_offsets_response_partitions_t *out)
{
    ngx_kafka_lookup_t       *lookup;
    ngx_kafka_offsets_ctx_t  *ctx = r->ctx;

    lookup = &ctx->lookups[ctx->lookups_n++];
    lookup->out = out;
    lookup->timestamp = timestamp;
    lookup->upto = upto;
    lookup->log = part->log;
    kl_log_ref(part->log);

    if (o->high_watermark < o->o.log_end) {
        lookup->shared = part->shared;
        lookup->incarnation = o->o.incarnation;
    }
}


static int16_t
ngx_kafka_list_offsets_version(int64_t timestamp, int16_t version)
{
    static const int16_t  since[] = { 0, 1, 1, 7, 8, 9, 11 };

    if (timestamp >= 0) {
        return KF_ERR_NONE;
    }

    if (timestamp < NGX_KAFKA_EARLIEST_PENDING || version < since[-timestamp]) {
        return KF_ERR_UNSUPPORTED_VERSION;
    }

    return KF_ERR_NONE;
}


static void
ngx_kafka_list_offsets_work(void *data)
{
    kl_rc_t                    rc;
    ngx_uint_t                 i;
    ngx_kafka_lookup_t        *l;
    ngx_kafka_offsets_task_t  *task = data;
    ngx_kafka_offsets_ctx_t   *ctx = task->request->ctx;
    kf_list_offsets_request_t  *req = task->request->body;

    for (i = 0; i < ctx->lookups_n; i++) {
        l = &ctx->lookups[i];

        if (l->shared) {
            ngx_kafka_list_offsets_flush(l, req->isolation_level == 1);
        }

        if (l->timestamp == NGX_KAFKA_LATEST) {
            l->out->offset = l->upto;
            continue;
        }

        if (l->timestamp == NGX_KAFKA_MAX_TIMESTAMP) {
            rc = kl_max_timestamp(l->log, l->upto, &l->out->offset,
                                  &l->out->timestamp, &l->out->leader_epoch);
        } else {
            rc = kl_offset_for_time(l->log, l->timestamp, l->upto,
                                    &l->out->offset, &l->out->timestamp,
                                    &l->out->leader_epoch);
        }

        if (rc != KL_OK) {
            l->out->error_code = ngx_kafka_log_error(rc);
            l->out->offset = -1;
            l->out->timestamp = -1;
            l->out->leader_epoch = -1;
        }
    }
}


/* What fails here fails the producer's own flush: that one has it mended. */
static void
ngx_kafka_list_offsets_flush(ngx_kafka_lookup_t *l, bool committed)
{
    int64_t       flushed;
    kl_offsets_t  o;

    if (kl_flush(l->log, &flushed) != KL_OK) {
        return;
    }

    kl_snapshot(l->shared, &o);

    if (o.incarnation == l->incarnation) {
        l->upto = committed ? ngx_min(o.flushed, o.first_open_txn) : o.flushed;
    }
}


static void
ngx_kafka_list_offsets_done(void *data)
{
    ngx_kafka_offsets_task_t  *task = data;
    ngx_kafka_request_t       *r = task->request;
    ngx_kafka_offsets_ctx_t   *ctx = r->ctx;

    ngx_kafka_list_offsets_cleanup(r);

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    ngx_kafka_answer_when(r, &ctx->response, ctx->journal);
}


static void
ngx_kafka_list_offsets_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t                i;
    ngx_kafka_offsets_ctx_t  *ctx = r->ctx;

    for (i = 0; i < ctx->lookups_n; i++) {
        if (ctx->lookups[i].log) {
            kl_log_close(ctx->lookups[i].log);
            ctx->lookups[i].log = NULL;
        }
    }
}


/* Kafka's code; on success a partition that is open and its numbers. */
static int16_t
ngx_kafka_readable_part(ngx_kafka_request_t *r, kf_str_t topic, int32_t index,
    int32_t leader_epoch, ngx_kafka_part_t **part, ngx_kafka_offsets_t *o)
{
    int16_t             error;
    kf_uuid_t           none;
    ngx_kafka_topic_t  *t;

    ngx_memzero(&none, sizeof(kf_uuid_t));

    error = ngx_kafka_find_topic(r, false, topic, none, &t);
    if (error) {
        return error;
    }

    *part = ngx_kafka_topic_part(r->broker, t, index);

    if (*part == NULL) {
        return index >= 0 && index < t->partition_count
               ? KF_ERR_KAFKA_STORAGE_ERROR
               : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }

    error = ngx_kafka_check_leader_epoch(r->broker, leader_epoch);
    if (error) {
        return error;
    }

    return ngx_kafka_part_ready(*part, o);
}


void
ngx_kafka_offset_for_leader_epoch(ngx_kafka_request_t *r)
{
    kl_rc_t                                 rc;
    int32_t                                 i, j;
    int64_t                                 journal;
    ngx_kafka_part_t                       *part;
    ngx_kafka_offsets_t                     o;
    kf_offset_for_leader_epoch_request_t   *req = r->body;
    kf_offset_for_leader_epoch_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    journal = -1;

    rsp.topics_n = ngx_max(req->topics_n, 0);
    rsp.topics = ngx_kafka_calloc(r, rsp.topics_n,
                                 kf_offset_for_leader_epoch_response_topics_t);
    if (rsp.topics == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    for (i = 0; i < rsp.topics_n; i++) {
        kf_offset_for_leader_epoch_request_topics_t   *in = &req->topics[i];
        kf_offset_for_leader_epoch_response_topics_t  *out = &rsp.topics[i];

        out->topic = in->topic;
        out->partitions_n = ngx_max(in->partitions_n, 0);
        out->partitions = ngx_kafka_calloc(r, out->partitions_n,
                             kf_offset_for_leader_epoch_response_partitions_t);

        if (out->partitions == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (j = 0; j < out->partitions_n; j++) {
            kf_offset_for_leader_epoch_response_partitions_t  *p;

            p = &out->partitions[j];
            p->partition = in->partitions[j].partition;
            p->leader_epoch = -1;
            p->end_offset = -1;

            p->error_code = ngx_kafka_readable_part(r, in->topic, p->partition,
                                       in->partitions[j].current_leader_epoch,
                                       &part, &o);
            if (p->error_code) {
                ngx_kafka_note(r, p->error_code, in->topic);
                continue;
            }

            journal = ngx_max(journal, part->topic->changed);

            /* the current epoch ends where consumers may read to */

            if (in->partitions[j].leader_epoch == r->broker->leader_epoch) {
                p->leader_epoch = r->broker->leader_epoch;
                p->end_offset = o.high_watermark;
                continue;
            }

            rc = kl_epoch_end(part->log, in->partitions[j].leader_epoch,
                              &p->leader_epoch, &p->end_offset);
            if (rc != KL_OK) {
                p->error_code = ngx_kafka_log_error(rc);
            }
        }
    }

    ngx_kafka_answer_when(r, &rsp, journal);
}
