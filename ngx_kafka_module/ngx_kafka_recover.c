/*
 * Recovery: what makes a zone OPEN again.
 *
 *   FRESH    nothing is trusted: journal, state and all partitions come from
 *            the disk;
 *   SUSPECT  a worker died inside the coordinator, or the journal failed: the
 *            state is rebuilt, partitions stay in use.
 *
 * A thread's work, under the zone's recovery lock, which others only try.  The
 * coordinator's lock is free meanwhile and the state word says RECOVERING, so
 * that nobody is inside a section and nobody waits for one.  A process that
 * dies here leaves the state word and a dead owner; the next one begins anew.
 *
 * An attempt may fail after it has opened the journal or cut something off, and
 * the next one finds both done: what has to follow from them is kept in the
 * zone (opened_*, cut) until it is.
 */

#include "ngx_kafka_life.h"
#include "../coordinator/kc_txn.h"


#define NGX_KAFKA_RETRIES  5                    /* seconds apart, at most */


static ngx_int_t ngx_kafka_coord_recover_all(ngx_kafka_broker_t *b,
    kc_t *kc, ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_recover_state(ngx_kafka_broker_t *b,
    kc_t *kc, ngx_kafka_io_t *io, ngx_uint_t *reopened);
static ngx_int_t ngx_kafka_coord_recover_journal(ngx_kafka_broker_t *b,
    ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_flush(ngx_kafka_broker_t *b,
    ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_raise(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_open_parts(ngx_kafka_broker_t *b, kc_t *kc);
static bool ngx_kafka_coord_open_part(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);


ngx_uint_t
ngx_kafka_coord_recover(ngx_kafka_broker_t *b)
{
    int                rc;
    kc_t               kc;
    int64_t            started;
    int32_t            leader_epoch;
    uint32_t           topics;
    uint64_t           epoch;
    ngx_int_t          done;
    ngx_uint_t         full, reopened;
    kl_offsets_t       o;
    ngx_kafka_io_t     io;
    ngx_kafka_zone_t  *zone = b->zone;

    rc = pthread_mutex_trylock(&zone->recovery);

    if (rc == EOWNERDEAD) {
        (void) pthread_mutex_consistent(&zone->recovery);

    } else if (rc != 0) {
        return NGX_KAFKA_BUSY;
    }

    if (ngx_kafka_zone_lock(b) != NGX_OK) {
        (void) pthread_mutex_unlock(&zone->recovery);
        return NGX_KAFKA_REFUSED;
    }

    if (atomic_load(&zone->state) == NGX_KAFKA_ZONE_OPEN) {
        ngx_kafka_coord_leave(b);
        (void) pthread_mutex_unlock(&zone->recovery);
        return NGX_KAFKA_RECOVERED;
    }

    if (ngx_kafka_mono_ms() < atomic_load(&zone->retry_ms)) {
        ngx_kafka_coord_leave(b);
        (void) pthread_mutex_unlock(&zone->recovery);
        return NGX_KAFKA_BUSY;
    }

    atomic_store(&zone->state, NGX_KAFKA_ZONE_RECOVERING);
    ngx_kafka_coord_leave(b);

    started = ngx_kafka_mono_ms();
    full = zone->fresh;
    reopened = full;
    done = NGX_ERROR;
    topics = 0;
    leader_epoch = 0;

    ngx_memzero(&kc, sizeof(kc_t));
    ngx_memzero(&io, sizeof(ngx_kafka_io_t));
    io.broker = b;

    ngx_kafka_fault("recovering");

    if (kc_init(&kc, ngx_kafka_zone_mem(zone), ngx_kafka_coord_io(&io))) {

        done = full ? ngx_kafka_coord_recover_all(b, &kc, &io)
                    : ngx_kafka_coord_recover_state(b, &kc, &io, &reopened);

        if (io.journal) {
            kl_log_close(io.journal);
        }

    } else {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": no memory", &b->name);
    }

    if (ngx_kafka_zone_lock(b) != NGX_OK) {
        done = NGX_ERROR;
    }

    if (done == NGX_OK) {
        zone->state_root = kc.state;
        topics = kc_topic_count(&kc);
        leader_epoch = kc_leader_epoch(&kc);
        zone->leader_epoch = leader_epoch;
        zone->kc_version = kc_topics_version(&kc);

        kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);
        zone->opened_slot = zone->journal_slot;
        zone->opened_incarnation = o.incarnation;

        epoch = atomic_load(&zone->epoch) + 1;

        if (reopened) {
            atomic_store(&zone->journal_epoch, epoch);
            atomic_store(&zone->flush_asked, 0);
        }

        atomic_store(&zone->epoch, epoch);
        atomic_fetch_add(&zone->topics_version, 1);

        zone->fresh = 0;
        zone->failures = 0;
        atomic_store(&zone->state, NGX_KAFKA_ZONE_OPEN);

    } else {
        /* one worker at a time finds out whether it is still so */

        zone->failures = ngx_min(zone->failures + 1, NGX_KAFKA_RETRIES);
        atomic_store(&zone->retry_ms,
                     ngx_kafka_mono_ms() + zone->failures * 1000);

        atomic_store(&zone->state, full ? NGX_KAFKA_ZONE_FRESH
                                        : NGX_KAFKA_ZONE_SUSPECT);
    }

    kc_done(&kc);

    ngx_kafka_coord_leave(b);
    (void) pthread_mutex_unlock(&zone->recovery);

    if (done == NGX_OK) {
        ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                      "kafka_broker \"%V\": %s in %L ms, %uD topics, leader "
                      "epoch %D", &b->name, full ? "open" : "replayed",
                      (int64_t) (ngx_kafka_mono_ms() - started),
                      topics, leader_epoch);
    }

    if (done != NGX_OK) {
        return NGX_KAFKA_REFUSED;
    }

    ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_STATE);

    return NGX_KAFKA_RECOVERED;
}


/* Nothing in the zone is trusted: everything comes from the disk. */
static ngx_int_t
ngx_kafka_coord_recover_all(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_io_t *io)
{
    int64_t            wait, snapshot;
    uint32_t           i;
    ngx_int_t          clean;
    kc_time_t          now;
    ngx_uint_t         first;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    clean = ngx_kafka_clean_take(b);

    if (clean == NGX_ERROR) {
        ngx_log_error(NGX_LOG_CRIT, b->log, ngx_errno,
                      "kafka_broker \"%V\": cannot use \"%V\"",
                      &b->name, &b->data);
        return NGX_ERROR;
    }

    /* the pages of a new zone are left alone: they cost memory once touched */

    if (zone->used) {
        kl_mark_unbound(zone->parts);
        kl_release_unbound(zone->parts);

        for (i = 0; i < zone->slots_n; i++) {
            atomic_store(&zone->checkpoints[i], 0);
        }
    }

    for (i = 0; i < NGX_KAFKA_JOBS; i++) {
        atomic_store(&zone->jobs[i].due_ms, 0);
    }

    zone->used = 1;
    atomic_store(&zone->failed, 0);

    zone->journal_slot = kl_bind(zone->parts, ngx_kafka_journal_id, 0);
    if (zone->journal_slot < 0) {
        return NGX_ERROR;
    }

    if (ngx_kafka_coord_recover_journal(b, io) != NGX_OK) {
        return NGX_ERROR;
    }

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);
    first = (o.log_end == 0);

    b->deleted->nelts = 0;
    io->deleted = b->deleted;

    if (ngx_kafka_journal_replay(b, io->journal, kc, &snapshot) != NGX_OK) {
        return NGX_ERROR;
    }

    io->deleted = NULL;
    atomic_store(&zone->snapshot, snapshot);

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    if (kc_bootstrap(kc, now, &wait) != KC_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": cannot write the journal: %*s",
                      &b->name, (size_t) kc->problem.len, kc->problem.data);
        return NGX_ERROR;
    }

    if ((clean != NGX_OK && !first) || zone->cut) {
        if (ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
            return NGX_ERROR;
        }

        clean = NGX_DECLINED;

    } else if (ngx_kafka_coord_flush(b, io) != NGX_OK) {
        return NGX_ERROR;
    }

    /* a topic may have been made again over what a deletion has left */

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    if (ngx_kafka_sweep_deleted(b, kc, b->deleted) == NGX_OK) {
        atomic_store(&zone->swept, o.flushed);

    } else {
        atomic_store(&zone->swept, o.log_start);
    }

    b->deleted->nelts = 0;

    if (ngx_kafka_coord_open_parts(b, kc) != NGX_OK) {
        return NGX_ERROR;
    }

    if (clean != NGX_OK) {
        /* raised already, for whatever was cut */
        zone->cut = 0;
    }

    if (zone->cut && ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_kafka_reconcile(b, kc, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_kafka_coord_flush(b, io);
}


/* Only the coordinator's state is rebuilt; its partitions are in use. */
static ngx_int_t
ngx_kafka_coord_recover_state(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_io_t *io, ngx_uint_t *reopened)
{
    int64_t            snapshot;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    *reopened = (o.state != KL_OPEN
                 || zone->journal_slot != zone->opened_slot
                 || o.incarnation != zone->opened_incarnation);

    if (o.state != KL_OPEN) {
        /* a new incarnation, so that nobody waits for offsets of the old one */

        kl_release(zone->parts, zone->journal_slot);
    }

    kl_mark_unbound(zone->parts);

    zone->journal_slot = kl_bind(zone->parts, ngx_kafka_journal_id, 0);
    if (zone->journal_slot < 0) {
        return NGX_ERROR;
    }

    if (ngx_kafka_coord_recover_journal(b, io) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_kafka_journal_replay(b, io->journal, kc, &snapshot) != NGX_OK) {
        return NGX_ERROR;
    }

    if (zone->cut && ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
        return NGX_ERROR;
    }

    /*
     * A decision may have been appended whose replay had not begun, or the
     * deletion of a topic been lost, which is opened from its files again.
     */

    if (ngx_kafka_coord_open_parts(b, kc) != NGX_OK) {
        return NGX_ERROR;
    }

    if (zone->cut && ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
        return NGX_ERROR;
    }

    kl_release_unbound(zone->parts);

    if (ngx_kafka_reconcile(b, kc, *reopened) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_kafka_coord_flush(b, io);
}


static ngx_int_t
ngx_kafka_coord_recover_journal(ngx_kafka_broker_t *b, ngx_kafka_io_t *io)
{
    bool               cut;
    kl_rc_t            rc;
    uint32_t           before;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    io->journal = ngx_kafka_journal_open(b, zone->journal_slot,
                                         o.incarnation);
    if (io->journal == NULL) {
        return NGX_ERROR;
    }

    if (o.state == KL_OPEN) {
        return NGX_OK;
    }

    /* an attempt that fails, or dies, may have cut all the same */

    before = zone->cut;
    zone->cut = 1;

    rc = kl_recover(io->journal, 0, &ngx_kafka_journal_config, &cut);

    if (rc == KL_OK && !cut) {
        zone->cut = before;
    }

    if (rc != KL_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal in \"%V\" cannot be "
                      "opened; the broker stays closed", &b->name, &b->data);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_coord_flush(ngx_kafka_broker_t *b, ngx_kafka_io_t *io)
{
    int64_t  flushed;

    if (kl_flush(io->journal, &flushed) != KL_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal cannot be flushed",
                      &b->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_coord_raise(ngx_kafka_broker_t *b, kc_t *kc, ngx_kafka_io_t *io)
{
    int64_t    wait;
    kc_time_t  now;

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    if (kc_raise_leader_epoch(kc, now, &wait) != KC_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": cannot raise the leader epoch: "
                      "%*s", &b->name, (size_t) kc->problem.len,
                      kc->problem.data);
        return NGX_ERROR;
    }

    if (ngx_kafka_coord_flush(b, io) != NGX_OK) {
        return NGX_ERROR;
    }

    b->zone->cut = 0;

    return NGX_OK;
}


typedef struct {
    int32_t           leader_epoch;
    _Atomic uint32_t  truncated;
    _Atomic uint32_t  failed;
} ngx_kafka_open_ctx_t;


static ngx_int_t
ngx_kafka_coord_open_parts(ngx_kafka_broker_t *b, kc_t *kc)
{
    ngx_int_t             rc;
    ngx_kafka_catalog_t   c;
    ngx_kafka_open_ctx_t  ctx;

    rc = ngx_kafka_catalog_fill(b, kc, false, &c);

    if (rc == NGX_OK) {
        ctx.leader_epoch = kc_leader_epoch(kc);
        atomic_init(&ctx.truncated, 0);
        atomic_init(&ctx.failed, 0);

        ngx_kafka_catalog_each(b, &c, ngx_kafka_coord_open_part, &ctx);

        if (atomic_load(&ctx.truncated)) {
            b->zone->cut = 1;
        }

        if (atomic_load(&ctx.failed)) {
            atomic_store(&b->zone->failed, 1);

            ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                          "kafka_broker \"%V\": %uD partitions are offline",
                          &b->name, atomic_load(&ctx.failed));
        }
    }

    ngx_kafka_catalog_free(&c);

    return rc;
}


static bool
ngx_kafka_coord_open_part(ngx_kafka_broker_t *b, ngx_kafka_item_t *item,
    void *data)
{
    ngx_kafka_open_ctx_t  *ctx = data;

    bool          cut;
    kl_log_t     *log;
    kl_offsets_t  o;

    kl_snapshot(kl_part(b->zone->parts, item->slot), &o);

    if (o.state != KL_NEW) {
        return true;
    }

    log = ngx_kafka_item_open(b, item);
    cut = false;

    if (log == NULL
        || kl_recover(log, ctx->leader_epoch, &item->config, &cut) != KL_OK)
    {
        atomic_fetch_add(&ctx->failed, 1);
    }

    if (cut) {
        atomic_fetch_add(&ctx->truncated, 1);
    }

    if (log) {
        kl_log_close(log);
    }

    return true;
}
