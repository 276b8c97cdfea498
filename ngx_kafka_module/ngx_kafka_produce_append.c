/*
 * Produce: the append.  A batch that is good goes to its partition's log; the
 * first one of a transaction there is refused, and appended again when the
 * coordinator says that the partition is part of the transaction.
 */

#include "ngx_kafka_produce.h"
#include "../coordinator/kc_txn.h"


static void ngx_kafka_produce_refuse(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_name_records(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_append_one(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t *p, kc_time_t now);
static void ngx_kafka_produce_verify(ngx_kafka_request_t *r);
static ngx_uint_t ngx_kafka_produce_unverified(ngx_kafka_request_t *r,
    ngx_kafka_produce_part_t **list, kc_txn_part_t *parts);
static void ngx_kafka_produce_appended(ngx_kafka_request_t *r);


/* For what is in it.  Where that was looked at, the log is known, too. */
static void
ngx_kafka_produce_refuse(ngx_kafka_request_t *r, ngx_kafka_produce_part_t *p)
{
    kl_offsets_t  o;

    ngx_kafka_produce_fail(p, p->verdict.error, p->verdict.message);
    ngx_kafka_produce_name_records(r, p);

    if (p->verdict.error == KF_ERR_INVALID_RECORD
        || p->verdict.error == KF_ERR_INVALID_TIMESTAMP)
    {
        kl_snapshot(p->part->shared, &o);
        p->out->log_start_offset = o.log_start;
    }
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


void
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
            ngx_kafka_produce_refuse(r, p);
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
                ngx_kafka_produce_fail(p, parts[i].error,
                                       parts[i].error
                                       == KF_ERR_INVALID_TXN_STATE
                                       ? "Partition was not added to the "
                                         "transaction" : NULL);

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
        p->out->log_start_offset = res.log_start;
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
