/*
 * What background jobs do to partitions that are well: flush, checkpoint,
 * retention, unlinking what was deleted, and all that a clean stop makes
 * durable.  And what every job needs for it: to visit all of them, and to know
 * when to stop.
 *
 * A job that changes a partition (flushes it, finds its disk broken) wakes
 * those who wait for it, as anybody else does: ngx_kafka_job_news().
 */

#include "ngx_kafka_job.h"


static bool ngx_kafka_job_removal_stops(void *ctx);


bool
ngx_kafka_job_stops(ngx_kafka_job_t *job)
{
    if (job->deadline_ms) {
        return ngx_kafka_mono_ms() >= job->deadline_ms;
    }

    return !job->clean && (ngx_exiting || ngx_terminate || ngx_quit);
}


void
ngx_kafka_job_each(ngx_kafka_job_t *job,
    bool (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx))
{
    ngx_kafka_catalog_t  c;

    if (ngx_kafka_catalog_fill(job->broker, &job->kc, true, &c) == NGX_OK) {
        ngx_kafka_catalog_each(job->broker, &c, visit, job);

    } else {
        atomic_fetch_add(&job->failed, 1);
    }

    ngx_kafka_catalog_free(&c);
}


void
ngx_kafka_job_due(ngx_kafka_broker_t *b, int64_t due)
{
    int64_t           was;
    _Atomic int64_t  *p = &b->zone->jobs[NGX_KAFKA_JOB_REOPEN].due_ms;

    if (atomic_exchange(&b->zone->failed, 1) == 0) {
        atomic_store(p, due);
        return;
    }

    was = atomic_load(p);

    while (was > due && !atomic_compare_exchange_weak(p, &was, due)) {
        /* void */
    }
}


void
ngx_kafka_job_news(ngx_kafka_broker_t *b, int32_t slot,
    const kl_offsets_t *before)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(b->zone->parts, slot), &o);

    if (o.incarnation != before->incarnation
        || (o.state == before->state && o.flushed == before->flushed))
    {
        return;
    }

    if (o.state == KL_FAILED_STATE && slot != b->zone->journal_slot) {
        ngx_kafka_job_due(b, ngx_kafka_mono_ms() + NGX_KAFKA_REOPEN_FIRST);
    }

    ngx_kafka_wake_slot_of_all(b, slot);
}


void
ngx_kafka_job_flush_journal(ngx_kafka_broker_t *b)
{
    int32_t        slot;
    int64_t        flushed;
    kl_log_t      *log;
    kl_offsets_t   o;

    slot = b->zone->journal_slot;
    kl_snapshot(kl_part(b->zone->parts, slot), &o);

    if (o.state != KL_OPEN || o.flushed == o.log_end) {
        return;
    }

    log = ngx_kafka_journal_open(b, slot, o.incarnation);

    if (log) {
        (void) kl_flush(log, &flushed);
        kl_log_close(log);

        ngx_kafka_job_news(b, slot, &o);
    }
}


bool
ngx_kafka_job_retain(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
    void *ctx)
{
    uint32_t       removed;
    kl_log_t      *log;
    kl_offsets_t   o;

    if (ngx_kafka_job_stops(ctx)) {
        return false;
    }

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state != KL_OPEN || o.incarnation != item->incarnation) {
        return true;
    }

    log = ngx_kafka_item_open(b, item);
    if (log == NULL) {
        return false;
    }

    removed = 0;

    (void) kl_retain(log, &item->config, ngx_kafka_wall_ms(),
                     item->caching ? o.log_end : o.flushed, &removed);

    kl_log_close(log);
    ngx_kafka_job_news(b, item->slot, &o);

    return true;
}


bool
ngx_kafka_job_checkpoint(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
    void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    int64_t        flushed;
    kl_log_t      *log;
    kl_offsets_t   o;

    if (ngx_kafka_job_stops(job)) {
        atomic_fetch_add(&job->failed, 1);
        return false;
    }

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state == KL_FAILED_STATE) {
        /* however it came to be so */
        if (atomic_load(&b->zone->failed) == 0) {
            ngx_kafka_job_due(b, ngx_kafka_mono_ms() + NGX_KAFKA_REOPEN_FIRST);
        }
    }

    if (o.state != KL_OPEN || o.incarnation != item->incarnation) {
        return true;
    }

    if (!job->clean
        && atomic_load(&b->zone->checkpoints[item->slot]) == o.log_end + 1)
    {
        return true;
    }

    log = ngx_kafka_item_open(b, item);
    if (log == NULL) {
        atomic_fetch_add(&job->failed, 1);
        return false;
    }

    if ((o.flushed < o.log_end && kl_flush(log, &flushed) != KL_OK)
        || kl_checkpoint(log, job->clean) != KL_OK)
    {
        atomic_fetch_add(&job->failed, 1);

    } else {
        atomic_store(&b->zone->checkpoints[item->slot], o.log_end + 1);
    }

    kl_log_close(log);
    ngx_kafka_job_news(b, item->slot, &o);

    return true;
}


bool
ngx_kafka_job_flush(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    int64_t        flushed;
    kl_log_t      *log;
    kl_offsets_t   o;

    if (ngx_kafka_job_stops(job)) {
        atomic_fetch_add(&job->failed, 1);
        return false;
    }

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state != KL_OPEN || o.incarnation != item->incarnation
        || (o.flushed == o.log_end && !job->clean))
    {
        return true;
    }

    log = ngx_kafka_item_open(b, item);

    if (log == NULL || kl_flush(log, &flushed) != KL_OK) {
        atomic_fetch_add(&job->failed, 1);
    }

    if (log) {
        kl_log_close(log);
        ngx_kafka_job_news(b, item->slot, &o);
    }

    return true;
}


void
ngx_kafka_job_remove(ngx_kafka_job_t *job)
{
    uint32_t             why;
    ngx_uint_t           left;
    ngx_kafka_broker_t  *b = job->broker;

    why = atomic_exchange(&b->zone->unswept, 0);

    if (why) {
        ngx_kafka_job_flush_journal(b);

        if (ngx_kafka_journal_sweep(b, 1) != NGX_OK) {
            atomic_fetch_or(&b->zone->unswept, why);
            return;
        }
    }

    if (why & NGX_KAFKA_FOREIGN) {
        left = ngx_kafka_sweep_foreign(b, atomic_load(&b->zone->swept));
        atomic_store(&b->zone->foreign_ms, left ? ngx_kafka_mono_ms() : 0);
    }

    if (kl_remove_files(b->env, ngx_kafka_job_removal_stops, job) != KL_OK) {
        return;
    }

    job->next_ms = INT64_MAX;

    if (ngx_kafka_job_stops(job)) {
        /* the rest is another worker's */
        job->next_ms = 0;
        ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_JOBS);
    }
}


static bool
ngx_kafka_job_removal_stops(void *ctx)
{
    return ngx_kafka_job_stops(ctx);
}


/*
 * The last worker out: nobody else may use the directory, so what is made
 * durable here stays as it is, and the next start has nothing to scan.
 */
void
ngx_kafka_jobs_finish(ngx_kafka_broker_t *b, int64_t deadline_ms)
{
    int64_t             flushed, applied;
    kl_log_t           *log;
    kl_offsets_t        o;
    ngx_uint_t          done;
    ngx_kafka_job_t     job;
    ngx_kafka_zone_t   *zone = b->zone;

    if (atomic_load(&zone->state) != NGX_KAFKA_ZONE_OPEN) {
        return;
    }

    ngx_memzero(&job, sizeof(ngx_kafka_job_t));
    job.broker = b;
    job.io.broker = b;
    job.clean = true;
    job.deadline_ms = deadline_ms;

    if (!kc_init(&job.kc, ngx_kafka_zone_mem(zone),
                 ngx_kafka_coord_io(&job.io)))
    {
        return;
    }

    log = NULL;
    done = 0;

    /* data first: what was appended is safe even when time runs out */

    ngx_kafka_job_each(&job, ngx_kafka_job_flush);

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    log = ngx_kafka_journal_open(b, zone->journal_slot, o.incarnation);

    if (log == NULL || kl_flush(log, &flushed) != KL_OK) {
        goto done;
    }

    ngx_kafka_job_each(&job, ngx_kafka_job_checkpoint);

    /* a snapshot hides the deletions before it: they are finished first */

    if (ngx_kafka_journal_sweep(b, 0) != NGX_OK) {
        goto done;
    }

    if (atomic_load(&job.failed)
        || (deadline_ms && ngx_kafka_mono_ms() >= deadline_ms)
        || kl_checkpoint(log, true) != KL_OK)
    {
        goto done;
    }

    if (ngx_kafka_coord_enter(b, &job.kc) != NGX_OK) {
        goto done;
    }

    applied = kc_applied(&job.kc);

    if (applied > atomic_load(&zone->snapshot)) {
        (void) ngx_kafka_journal_snapshot(b, log, &job.kc, applied);
    }

    ngx_kafka_coord_leave(b);

    done = (ngx_kafka_clean_mark(b) == NGX_OK);

done:

    if (log) {
        kl_log_close(log);
    }

    kc_done(&job.kc);

    if (done) {
        ngx_kafka_owner_forget(b);

        ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                      "kafka_broker \"%V\": closed cleanly", &b->name);
    }
}
