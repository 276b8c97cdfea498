/*
 * Background jobs.  Each has a robust lock and a due time in the zone, so that
 * it runs once per broker, not once per worker: a worker whose timer finds a
 * job due posts a thread that trylocks it, looks at the due time again, works,
 * sets the next one.  Timers are cancelable; an exiting worker begins none, and
 * a job that runs then stops at its next step.
 *
 *   RETENTION    log.retention.check.interval.ms
 *   CHECKPOINT   every minute: recovery points of what has grown, and the
 *                directories of deleted topics that have stayed; flushes the
 *                journal first
 *   COMPACTION   every minute: the journal, when a segment was closed
 *   SWEEP        after opening, and when a worker has died: what it has not
 *                flushed; unknown directories
 *   REOPEN       when a partition has failed: from disk, less and less often
 *   REMOVAL      after opening, and when topics were deleted: their files, but
 *                first, when a worker has died or a directory is in the way of
 *                a new topic, the deletions that are in the journal only
 *
 * A job that changes a partition (flushes it, finds its disk broken) wakes
 * those who wait for it, as anybody else does: ngx_kafka_job_news().
 */

#include "ngx_kafka_life.h"


#if (NGX_KAFKA_FAULTS)
#define NGX_KAFKA_MINUTE        500             /* tests are short */
#else
#define NGX_KAFKA_MINUTE        60000
#endif

#define NGX_KAFKA_REOPEN_FIRST  1000
#define NGX_KAFKA_REOPEN_LAST   300000


#define NGX_KAFKA_BUSY_AGAIN    500             /* another worker is at it */
#define NGX_KAFKA_FOREIGN_AGAIN 10000


struct ngx_kafka_jobs_s {
    ngx_event_t      timer;
    _Atomic int64_t  reopen_ms;
    ngx_uint_t       running;                   /* bits of jobs, here */
    int64_t          busy_ms[NGX_KAFKA_JOBS];   /* elsewhere: not before */
};

typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_uint_t           job;
    kc_t                 kc;
    ngx_kafka_io_t       io;
    int64_t              next_ms;
    _Atomic uint32_t     failed;
    int64_t              deadline_ms;
    bool                 clean;
    bool                 busy;                  /* another worker runs it */
    int32_t              leader_epoch;          /* REOPEN: at its beginning */
    _Atomic uint32_t     raise;                 /* REOPEN: it is not enough */
} ngx_kafka_job_t;


static void ngx_kafka_jobs_timer(ngx_event_t *ev);
static void ngx_kafka_jobs_arm(ngx_kafka_broker_t *b);
static void ngx_kafka_job_work(void *ctx);
static void ngx_kafka_job_run(ngx_kafka_job_t *job);
static void ngx_kafka_job_done(void *ctx);
static void ngx_kafka_jobs_kick(ngx_kafka_broker_t *b, ngx_uint_t job);
static void ngx_kafka_job_remove(ngx_kafka_job_t *job);
static bool ngx_kafka_job_stops(ngx_kafka_job_t *job);
static bool ngx_kafka_job_removal_stops(void *ctx);
static void ngx_kafka_job_each(ngx_kafka_job_t *job,
    bool (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx));
static void ngx_kafka_job_due(ngx_kafka_broker_t *b, int64_t due);
static void ngx_kafka_job_news(ngx_kafka_broker_t *b, int32_t slot,
    const kl_offsets_t *before);
static void ngx_kafka_job_flush_journal(ngx_kafka_broker_t *b);
static void ngx_kafka_job_reopen_all(ngx_kafka_job_t *job);
static ngx_int_t ngx_kafka_job_raise(ngx_kafka_job_t *job);
static bool ngx_kafka_job_offline(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
static bool ngx_kafka_job_retain(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
static bool ngx_kafka_job_checkpoint(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
static bool ngx_kafka_job_reopen(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
static bool ngx_kafka_job_flush(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);


void
ngx_kafka_jobs_start(ngx_kafka_broker_t *b)
{
    struct ngx_kafka_jobs_s  *jobs;

    if (b->jobs == NULL) {
        jobs = ngx_calloc(sizeof(struct ngx_kafka_jobs_s), b->log);
        if (jobs == NULL) {
            return;
        }

        jobs->timer.handler = ngx_kafka_jobs_timer;
        jobs->timer.data = b;
        jobs->timer.log = b->log;
        jobs->timer.cancelable = 1;
        jobs->reopen_ms = NGX_KAFKA_REOPEN_FIRST;

        b->jobs = jobs;
    }

    /* what was found dead may have left data that nobody flushes */

    if (ngx_kafka_wake_bury(b)) {
        atomic_store(&b->zone->jobs[NGX_KAFKA_JOB_SWEEP].due_ms,
                     ngx_kafka_mono_ms());
        atomic_fetch_or(&b->zone->unswept, NGX_KAFKA_UNSWEPT);
        atomic_store(&b->zone->jobs[NGX_KAFKA_JOB_REMOVAL].due_ms,
                     ngx_kafka_mono_ms());
        ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_DEATH);
    }

    ngx_kafka_jobs_arm(b);
}


void
ngx_kafka_jobs_stop(ngx_kafka_broker_t *b)
{
    if (b->jobs && b->jobs->timer.timer_set) {
        ngx_del_timer(&b->jobs->timer);
    }
}


static void
ngx_kafka_jobs_kick(ngx_kafka_broker_t *b, ngx_uint_t job)
{
    atomic_store(&b->zone->jobs[job].due_ms, ngx_kafka_mono_ms());

    if (b->jobs == NULL || b->exiting) {
        ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_JOBS);
        return;
    }

    b->jobs->busy_ms[job] = 0;
    ngx_kafka_jobs_arm(b);
}


void
ngx_kafka_jobs_wake(ngx_kafka_broker_t *b)
{
    if (b->jobs && !b->exiting) {
        ngx_memzero(b->jobs->busy_ms, sizeof(b->jobs->busy_ms));
        ngx_kafka_jobs_arm(b);
    }
}


void
ngx_kafka_sweep_soon(ngx_kafka_broker_t *b)
{
    atomic_fetch_or(&b->zone->unswept, NGX_KAFKA_UNSWEPT);
    ngx_kafka_jobs_kick(b, NGX_KAFKA_JOB_REMOVAL);
}


void
ngx_kafka_removed(ngx_kafka_broker_t *b)
{
    ngx_kafka_jobs_kick(b, NGX_KAFKA_JOB_REMOVAL);
}


/*
 * Most likely a topic was deleted and made again, and its partition is used
 * before whoever deleted it has taken the directory away; or that worker died.
 * One that stays is not looked at with every request.
 */
void
ngx_kafka_jobs_foreign(void *ctx)
{
    ngx_kafka_broker_t  *b = ctx;

    int64_t            now, last, due, was;
    _Atomic int64_t   *p;
    ngx_kafka_zone_t  *zone = b->zone;

    now = ngx_kafka_mono_ms();
    last = atomic_load(&zone->foreign_ms);
    due = now;

    if (last && now - last < NGX_KAFKA_FOREIGN_AGAIN) {
        due = last + NGX_KAFKA_FOREIGN_AGAIN;
    }

    atomic_fetch_or(&zone->unswept, NGX_KAFKA_UNSWEPT|NGX_KAFKA_FOREIGN);

    p = &zone->jobs[NGX_KAFKA_JOB_REMOVAL].due_ms;
    was = atomic_load(p);

    while (was > due) {
        if (atomic_compare_exchange_weak(p, &was, due)) {
            ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_JOBS);
            break;
        }
    }
}


void
ngx_kafka_jobs_failed(ngx_kafka_broker_t *b)
{
    if (b->jobs == NULL) {
        return;
    }

    ngx_kafka_job_due(b, ngx_kafka_mono_ms() + b->jobs->reopen_ms);

    if (!b->exiting) {
        ngx_kafka_jobs_arm(b);
    }
}


/* From any thread: something has failed, which is reopened at due. */
static void
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


static void
ngx_kafka_jobs_timer(ngx_event_t *ev)
{
    int64_t               now;
    ngx_uint_t            i;
    ngx_kafka_job_t      *job;
    ngx_kafka_broker_t   *b = ev->data;

    if (b->exiting || ngx_exiting) {
        return;
    }

    if (ngx_kafka_is_open(b)) {

        kl_env_trim(b->env);

        now = ngx_kafka_mono_ms();

        for (i = 0; i < NGX_KAFKA_JOBS; i++) {

            if (b->jobs->running & (1 << i) || b->jobs->busy_ms[i] > now
                || atomic_load(&b->zone->jobs[i].due_ms) > now)
            {
                continue;
            }

            if (i == NGX_KAFKA_JOB_REOPEN
                && atomic_load(&b->zone->failed) == 0)
            {
                continue;
            }

            job = ngx_kafka_task_alloc(b, sizeof(ngx_kafka_job_t));
            if (job == NULL) {
                break;
            }

            job->broker = b;
            job->job = i;
            b->jobs->running |= 1 << i;

            ngx_kafka_task_post(job, ngx_kafka_job_work, ngx_kafka_job_done);
        }
    }

    ngx_kafka_jobs_arm(b);
}


/* For the job that is due next; a worker without work sleeps until then. */
static void
ngx_kafka_jobs_arm(ngx_kafka_broker_t *b)
{
    int64_t     now, due, next;
    ngx_uint_t  i;

    if (b->exiting) {
        return;
    }

    now = ngx_kafka_mono_ms();
    next = now + NGX_KAFKA_MINUTE;

    for (i = 0; i < NGX_KAFKA_JOBS; i++) {

        if (b->jobs->running & (1 << i)
            || (i == NGX_KAFKA_JOB_REOPEN
                && atomic_load(&b->zone->failed) == 0))
        {
            continue;
        }

        due = atomic_load(&b->zone->jobs[i].due_ms);
        due = ngx_max(due, b->jobs->busy_ms[i]);
        next = ngx_min(next, due);
    }

    next = ngx_max(next - now, 10);

    if (b->jobs->timer.timer_set) {
        ngx_del_timer(&b->jobs->timer);
    }

    ngx_add_timer(&b->jobs->timer, (ngx_msec_t) next);
}


static void
ngx_kafka_job_work(void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    int                    rc;
    int64_t                mark;
    ngx_kafka_zone_job_t  *zj = &job->broker->zone->jobs[job->job];

    rc = pthread_mutex_trylock(&zj->lock);

    if (rc == EOWNERDEAD) {
        (void) pthread_mutex_consistent(&zj->lock);

    } else if (rc != 0) {
        job->busy = true;
        return;
    }

    mark = ngx_kafka_mono_ms() - 1;

    if (atomic_load(&zj->due_ms) <= mark + 1) {

        /* whoever asks for it while it runs writes something else here */
        atomic_store(&zj->due_ms, mark);

        ngx_memzero(&job->kc, sizeof(kc_t));
        job->io.broker = job->broker;
        job->next_ms = NGX_KAFKA_MINUTE;

        if (kc_init(&job->kc, ngx_kafka_zone_mem(job->broker->zone),
                    ngx_kafka_coord_io(&job->io)))
        {
            ngx_kafka_job_run(job);
        }

        kc_done(&job->kc);

        (void) atomic_compare_exchange_strong(&zj->due_ms, &mark,
                                  job->next_ms == INT64_MAX
                                  ? INT64_MAX
                                  : ngx_kafka_mono_ms() + job->next_ms);
    }

    (void) pthread_mutex_unlock(&zj->lock);
}


static void
ngx_kafka_job_run(ngx_kafka_job_t *job)
{
    ngx_kafka_broker_t  *b = job->broker;

    switch (job->job) {

    case NGX_KAFKA_JOB_RETENTION:

        if (ngx_kafka_coord_enter(b, &job->kc) == NGX_OK) {
            job->next_ms = kc_broker_config_int(&job->kc, &b->config,
                                        KC_LOG_RETENTION_CHECK_INTERVAL_MS);
            job->next_ms = ngx_max(job->next_ms, 100);
            ngx_kafka_coord_leave(b);
        }

        ngx_kafka_job_each(job, ngx_kafka_job_retain);
        break;

    case NGX_KAFKA_JOB_CHECKPOINT:
        ngx_kafka_job_flush_journal(b);
        (void) ngx_kafka_journal_sweep(b, 0);
        ngx_kafka_job_each(job, ngx_kafka_job_checkpoint);
        break;

    case NGX_KAFKA_JOB_COMPACTION:
        (void) ngx_kafka_journal_compact(b);
        break;

    case NGX_KAFKA_JOB_SWEEP:
        job->next_ms = INT64_MAX;
        job->deadline_ms = 0;

        ngx_kafka_job_flush_journal(b);
        ngx_kafka_job_each(job, ngx_kafka_job_flush);

        if (ngx_kafka_journal_sweep(b, 1) == NGX_OK) {
            ngx_kafka_sweep_unknown(b, atomic_load(&b->zone->swept));
        }

        break;

    case NGX_KAFKA_JOB_REOPEN:
        atomic_store(&b->zone->failed, 0);
        atomic_store(&job->failed, 0);

        ngx_kafka_job_reopen_all(job);

        if (atomic_load(&job->failed)) {
            job->next_ms = ngx_min(b->jobs->reopen_ms * 2,
                                   NGX_KAFKA_REOPEN_LAST);
            b->jobs->reopen_ms = job->next_ms;
            atomic_store(&b->zone->failed, 1);

        } else {
            b->jobs->reopen_ms = NGX_KAFKA_REOPEN_FIRST;

            if (atomic_load(&b->zone->failed)) {
                /* another one, meanwhile */
                job->next_ms = NGX_KAFKA_REOPEN_FIRST;
            }
        }

        break;

    case NGX_KAFKA_JOB_REMOVAL:
        ngx_kafka_job_remove(job);
        break;
    }
}


static void
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


static void
ngx_kafka_job_done(void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    job->broker->jobs->running &= ~(1 << job->job);

    if (job->busy) {
        job->broker->jobs->busy_ms[job->job] = ngx_kafka_mono_ms()
                                               + NGX_KAFKA_BUSY_AGAIN;
    }

    if (job->job == NGX_KAFKA_JOB_REOPEN) {
        job->broker->leader_epoch = ngx_kafka_leader_epoch(job->broker);
    }

    if (!job->broker->exiting) {
        ngx_kafka_jobs_arm(job->broker);
    }
}


static bool
ngx_kafka_job_stops(ngx_kafka_job_t *job)
{
    if (job->deadline_ms) {
        return ngx_kafka_mono_ms() >= job->deadline_ms;
    }

    return !job->clean && (ngx_exiting || ngx_terminate || ngx_quit);
}


static void
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


/* What a job has made of a partition: told to all who wait, here too. */
static void
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


/* No catalog has it; the worker whose section it was may have died. */
static void
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


static bool
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


static bool
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


/*
 * Records that only memory had (write.caching: a consumer may have read them)
 * may be cut off, and others take their offsets.  So these are appended under a
 * later leader epoch, from which consumers learn of it (KIP-320).  It is raised
 * before the partitions are open, since they are appended to at once, and once
 * only: they tell the epoch under which they were last appended to.
 */
static void
ngx_kafka_job_reopen_all(ngx_kafka_job_t *job)
{
    job->leader_epoch = ngx_kafka_leader_epoch(job->broker);
    atomic_store(&job->raise, 0);

    ngx_kafka_job_each(job, ngx_kafka_job_offline);

    if (atomic_load(&job->raise) && ngx_kafka_job_raise(job) != NGX_OK) {
        atomic_fetch_add(&job->failed, 1);
        return;
    }

    atomic_store(&job->raise, 0);

    ngx_kafka_job_each(job, ngx_kafka_job_reopen);

    if (atomic_load(&job->raise)) {
        (void) ngx_kafka_job_raise(job);
    }
}


static ngx_int_t
ngx_kafka_job_raise(ngx_kafka_job_t *job)
{
    int32_t              epoch, was;
    int64_t              wait;
    kc_rc_t              rc;
    kc_time_t            now;
    kl_offsets_t         o;
    ngx_kafka_broker_t  *b = job->broker;

    if (ngx_kafka_coord_enter(b, &job->kc) != NGX_OK) {
        return NGX_ERROR;
    }

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    rc = kc_raise_leader_epoch(&job->kc, now, &wait);
    epoch = kc_leader_epoch(&job->kc);

    ngx_kafka_coord_leave(b);

    if (rc == KC_OK) {
        ngx_kafka_job_flush_journal(b);

        kl_snapshot(kl_part(b->zone->parts, b->zone->journal_slot), &o);

        if (o.state == KL_OPEN && o.flushed >= wait) {
            was = atomic_load(&b->zone->leader_epoch);

            while (was < epoch
                   && !atomic_compare_exchange_weak(&b->zone->leader_epoch,
                                                    &was, epoch))
            {
                /* void */
            }

            job->leader_epoch = epoch;
            ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_STATE);

            return NGX_OK;
        }
    }

    ngx_log_error(NGX_LOG_ERR, b->log, 0,
                  "kafka_broker \"%V\": the leader epoch cannot be raised, "
                  "failed partitions stay offline", &b->name);

    return NGX_ERROR;
}


static bool
ngx_kafka_job_offline(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
    void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    kl_offsets_t  o;

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state == KL_FAILED_STATE && o.incarnation == item->incarnation
        && o.leader_epoch >= job->leader_epoch)
    {
        atomic_store(&job->raise, 1);
    }

    return true;
}


static bool
ngx_kafka_job_reopen(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
    void *ctx)
{
    ngx_kafka_job_t  *job = ctx;

    bool           cut;
    kl_log_t      *log;
    kl_offsets_t   o;

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state != KL_FAILED_STATE || o.incarnation != item->incarnation) {
        return true;
    }

    if (ngx_kafka_job_stops(job)) {
        atomic_fetch_add(&job->failed, 1);
        return false;
    }

    if (o.leader_epoch >= job->leader_epoch) {
        /* failed since: its turn is the next one */
        atomic_store(&b->zone->failed, 1);
        return true;
    }

    log = ngx_kafka_item_open(b, item);
    cut = false;

    if (log == NULL
        || kl_recover(log, job->leader_epoch, &item->config, &cut) != KL_OK)
    {
        atomic_fetch_add(&job->failed, 1);

    } else {
        /* never open before, so nothing told of an epoch */
        atomic_fetch_or(&job->raise, cut && o.leader_epoch < 0);
        atomic_store(&b->zone->checkpoints[item->slot], 0);

        ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                      "kafka_broker \"%V\": partition %*s-%D is back",
                      &b->name, (size_t) item->topic.len, item->topic.data,
                      item->partition);
    }

    if (log) {
        kl_log_close(log);
        ngx_kafka_job_news(b, item->slot, &o);
    }

    return true;
}


static bool
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
