/*
 * Group commit.  At most one flush of a partition is under way in a worker;
 * what is appended meanwhile is covered by the one that follows it.  Other
 * workers may flush the same partition at the same time: a flush has no owner,
 * whoever ends first raises the flushed end.
 *
 *   idle ──post──> under way ──ok, all of it──> idle
 *                   ↑     │ ok, more came: at once
 *                   └─────┤ no memory, no descriptor: by a timer
 *                         └ offline: REOPEN, or a recovery for the journal
 */

#include "ngx_kafka_life.h"


#define NGX_KAFKA_FLUSH_RETRY  200              /* ms */
#define NGX_KAFKA_FLUSH_LATER  1000


typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_kafka_part_t    *part;
    int64_t              flushed;
    kl_rc_t              rc;
    bool                 rolled;
} ngx_kafka_flush_ctx_t;


static void ngx_kafka_flush_post(ngx_kafka_broker_t *b,
    ngx_kafka_part_t *part);
static void ngx_kafka_flush_work(void *ctx);
static void ngx_kafka_flush_done(void *ctx);
static void ngx_kafka_flush_later(ngx_kafka_broker_t *b,
    ngx_kafka_part_t *part);
static void ngx_kafka_flush_again(ngx_event_t *ev);
static void ngx_kafka_journal_due(ngx_event_t *ev);
static void ngx_kafka_flush_rolled(ngx_kafka_broker_t *b,
    ngx_kafka_part_t *part);
static void ngx_kafka_flush_rolled_work(void *ctx);
static void ngx_kafka_flush_rolled_done(void *ctx);


void
ngx_kafka_appended(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    /*
     * With write.caching consumers see the log's end, so that it is the append
     * that they wait for and the flush may take its time; otherwise nobody can
     * see anything before the flush, and its end wakes them.
     */

    if (part->topic && part->topic->caching) {
        ngx_kafka_changed(b, part);
        return;
    }

    ngx_kafka_flush(b, part);
}


void
ngx_kafka_flush(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    int64_t       asked;
    kl_offsets_t  o;

    kl_snapshot(part->shared, &o);

    if (part == b->journal && o.incarnation == part->incarnation) {
        asked = atomic_load(&b->zone->flush_asked);

        while (asked < o.log_end
               && !atomic_compare_exchange_weak(&b->zone->flush_asked, &asked,
                                                o.log_end))
        {
            /* void */
        }
    }

    if (!part->flushing) {
        ngx_kafka_flush_post(b, part);
        return;
    }

    part->flush_wanted = o.log_end;
}


void
ngx_kafka_journal_later(ngx_kafka_broker_t *b)
{
    ngx_event_t  *ev = &b->later;

    if (b->exiting) {
        ngx_kafka_flush(b, b->journal);
        return;
    }

    if (ev->timer_set) {
        return;
    }

    ev->handler = ngx_kafka_journal_due;
    ev->data = b;
    ev->log = b->log;
    ev->cancelable = 1;

    ngx_add_timer(ev, NGX_KAFKA_FLUSH_LATER);
}


/* Whatever was asked for meanwhile: this does not rely on it. */
static void
ngx_kafka_journal_due(ngx_event_t *ev)
{
    kl_offsets_t         o;
    ngx_kafka_broker_t  *b = ev->data;

    if (!ngx_kafka_is_open(b)) {
        return;                         /* opening it ends with a flush */
    }

    kl_snapshot(b->journal->shared, &o);

    if (o.flushed < o.log_end) {
        ngx_kafka_flush(b, b->journal);
    }
}


void
ngx_kafka_journal_want(ngx_kafka_broker_t *b, int64_t wait)
{
    if (atomic_load(&b->zone->flush_asked) < wait) {
        ngx_kafka_flush(b, b->journal);
        return;
    }

    /*
     * Another worker flushes it.  If that one dies, its successor does; but one
     * that was leaving has none, so that this looks after it by itself.
     */

    ngx_kafka_journal_later(b);
}


static void
ngx_kafka_flush_post(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    ngx_kafka_flush_ctx_t  *ctx;

    ctx = ngx_kafka_task_alloc(b, sizeof(ngx_kafka_flush_ctx_t));
    if (ctx == NULL) {
        ngx_kafka_flush_later(b, part);
        return;
    }

    ctx->broker = b;
    ctx->part = part;

    part->flushing = 1;
    part->flush_wanted = -1;
    ngx_kafka_part_ref(part);

    ngx_kafka_task_post(ctx, ngx_kafka_flush_work, ngx_kafka_flush_done);
}


static void
ngx_kafka_flush_work(void *data)
{
    ngx_kafka_flush_ctx_t  *ctx = data;

    ngx_kafka_fault("flush-before");

    ctx->rc = kl_flush_data(ctx->part->log, &ctx->flushed, &ctx->rolled);

    ngx_kafka_fault("flush-after");

    /* other workers hear of it now, not when this one's loop comes to it */

    ngx_kafka_wake_slot_elsewhere(ctx->broker, ctx->part->slot);
}


void
ngx_kafka_flushed(void *ctx, int32_t slot)
{
    ngx_kafka_wake_slot_of_all(ctx, slot);
}


static void
ngx_kafka_flush_done(void *data)
{
    ngx_kafka_flush_ctx_t  *ctx = data;

    int64_t              wanted;
    kl_offsets_t         o;
    ngx_kafka_part_t    *part = ctx->part;
    ngx_kafka_broker_t  *b = ctx->broker;

    part->flushing = 0;
    wanted = part->flush_wanted;

    if (ctx->rc == KL_OK && wanted > ctx->flushed && !part->gone) {
        ngx_kafka_flush_post(b, part);
    }

    /* also a failure is news: waiters look at the state */
    ngx_kafka_changed(b, part);

    if (ctx->rc == KL_OK && ctx->rolled && !part->gone) {
        ngx_kafka_flush_rolled(b, part);
    }

    if (ctx->rc != KL_OK && ctx->rc != KL_GONE) {

        kl_snapshot(part->shared, &o);

        if (o.state == KL_OPEN && o.incarnation == part->incarnation) {
            ngx_kafka_flush_later(b, part);

        } else if (part == b->journal) {
            ngx_kafka_broker_suspend(b);

        } else if (part->topic) {
            ngx_kafka_storage_failed(b, part);
        }
    }

    ngx_kafka_part_unref(b, part);
}


/* Whatever was short may be there again; a log never has to be given up. */
static void
ngx_kafka_flush_later(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    ngx_event_t  *ev = &part->flush_retry;

    if (ev->timer_set || part->gone || b->finished) {
        return;
    }

    ev->handler = ngx_kafka_flush_again;
    ev->data = part;
    ev->log = b->log;
    ev->cancelable = 1;
    part->flush_broker = b;

    ngx_kafka_part_ref(part);
    ngx_add_timer(ev, NGX_KAFKA_FLUSH_RETRY);
}


static void
ngx_kafka_flush_again(ngx_event_t *ev)
{
    kl_offsets_t         o;
    ngx_kafka_part_t    *part = ev->data;
    ngx_kafka_broker_t  *b = part->flush_broker;

    kl_snapshot(part->shared, &o);

    if (!part->gone && !b->finished && o.state == KL_OPEN
        && o.incarnation == part->incarnation && o.flushed < o.log_end)
    {
        ngx_kafka_flush(b, part);
    }

    ngx_kafka_part_unref(b, part);
}


void
ngx_kafka_storage_failed(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    kl_offsets_t  o;

    kl_snapshot(part->shared, &o);

    if (o.state != KL_FAILED_STATE || o.incarnation != part->incarnation) {
        return;
    }

    ngx_kafka_changed(b, part);
    ngx_kafka_jobs_failed(b);
}


/*
 * A segment was closed: recovery shall not have to scan it.  That takes a few
 * syncs more, so those who waited for the flush have been woken before.
 */
static void
ngx_kafka_flush_rolled(ngx_kafka_broker_t *b, ngx_kafka_part_t *part)
{
    ngx_kafka_flush_ctx_t  *ctx;

    ctx = ngx_kafka_task_alloc(b, sizeof(ngx_kafka_flush_ctx_t));
    if (ctx == NULL) {
        return;
    }

    ctx->broker = b;
    ctx->part = part;
    ngx_kafka_part_ref(part);

    ngx_kafka_task_post(ctx, ngx_kafka_flush_rolled_work,
                        ngx_kafka_flush_rolled_done);
}


static void
ngx_kafka_flush_rolled_work(void *data)
{
    ngx_kafka_flush_ctx_t  *ctx = data;

    (void) kl_checkpoint(ctx->part->log, false);
}


static void
ngx_kafka_flush_rolled_done(void *data)
{
    ngx_kafka_flush_ctx_t  *ctx = data;

    /* it has flushed as well, perhaps before a flush that is under way */

    ngx_kafka_changed(ctx->broker, ctx->part);
    ngx_kafka_part_unref(ctx->broker, ctx->part);
}
