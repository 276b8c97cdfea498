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
 * What they do to partitions is in ngx_kafka_upkeep.c and ngx_kafka_reopen.c.
 */

#include "ngx_kafka_job.h"


#if (NGX_KAFKA_FAULTS)
#define NGX_KAFKA_MINUTE        500             /* tests are short */
#else
#define NGX_KAFKA_MINUTE        60000
#endif

#define NGX_KAFKA_REOPEN_LAST   300000
#define NGX_KAFKA_BUSY_AGAIN    500             /* another worker is at it */
#define NGX_KAFKA_FOREIGN_AGAIN 10000
#define NGX_KAFKA_BURY_TICK     1000            /* while one has to leave */


struct ngx_kafka_jobs_s {
    ngx_event_t      timer;
    _Atomic int64_t  reopen_ms;
    ngx_uint_t       running;                   /* bits of jobs, here */
    int64_t          busy_ms[NGX_KAFKA_JOBS];   /* elsewhere: not before */
};


static void ngx_kafka_jobs_bury(ngx_kafka_broker_t *b);
static void ngx_kafka_jobs_timer(ngx_event_t *ev);
static void ngx_kafka_jobs_arm(ngx_kafka_broker_t *b);
static void ngx_kafka_job_work(void *ctx);
static void ngx_kafka_job_run(ngx_kafka_job_t *job);
static void ngx_kafka_job_done(void *ctx);
static void ngx_kafka_jobs_kick(ngx_kafka_broker_t *b, ngx_uint_t job);


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

    ngx_kafka_jobs_bury(b);
    ngx_kafka_jobs_arm(b);
}


/* What was found dead may have left data that nobody flushes, and more. */
static void
ngx_kafka_jobs_bury(ngx_kafka_broker_t *b)
{
    if (ngx_kafka_slot_bury(b) == 0) {
        return;
    }

    atomic_store(&b->zone->jobs[NGX_KAFKA_JOB_SWEEP].due_ms,
                 ngx_kafka_mono_ms());
    atomic_fetch_or(&b->zone->unswept, NGX_KAFKA_UNSWEPT);
    atomic_store(&b->zone->jobs[NGX_KAFKA_JOB_REMOVAL].due_ms,
                 ngx_kafka_mono_ms());
    ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_DEATH);
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
        ngx_kafka_jobs_bury(b);

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

    if (ngx_kafka_slot_older(b)) {
        next = ngx_min(next, now + NGX_KAFKA_BURY_TICK);
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
