/*
 * The job REOPEN: partitions that have failed, from disk.
 *
 * Records that only memory had (write.caching: a consumer may have read them)
 * may be cut off, and others take their offsets.  So these are appended under a
 * later leader epoch, from which consumers learn of it (KIP-320).  It is raised
 * before the partitions are open, since they are appended to at once, and once
 * only: they tell the epoch under which they were last appended to.
 */

#include "ngx_kafka_job.h"


static ngx_int_t ngx_kafka_job_raise(ngx_kafka_job_t *job);
static bool ngx_kafka_job_offline(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
static bool ngx_kafka_job_reopen(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);


void
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
