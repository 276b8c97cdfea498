/*
 * Produce: what an answer waits for, and the answer.  First for the partitions,
 * with a watch on each and a deadline, then for the journal.
 */

#include "ngx_kafka_produce.h"


static bool ngx_kafka_produce_satisfied(ngx_kafka_produce_part_t *p);
static void ngx_kafka_produce_timeout(ngx_event_t *ev);
static void ngx_kafka_produce_done(ngx_kafka_request_t *r);


void
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


int16_t
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


void
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
void
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


void
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


void
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
