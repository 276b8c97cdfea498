/*
 * The coordinator's lock, and what brings its state back.
 *
 * A section is: lock, check the state word, decide, append, replay, unlock.
 * When the owner of the lock has died inside one, the state may be half
 * changed: the next one that takes the lock marks it SUSPECT and a thread
 * rebuilds it from the journal, with the lock free and the state word
 * RECOVERING, so that no event loop waits.  Partitions stay in use meanwhile;
 * after a FRESH zone they are opened from disk too.
 */

#include "ngx_kafka_life.h"
#include "../coordinator/kc_group.h"

#include <sys/random.h>
#include <time.h>


#define NGX_KAFKA_RETRIES  5                    /* seconds apart, at most */


static int ngx_kafka_io_append(void *ctx, uint8_t *batch, size_t len,
    int64_t *end);
static int32_t ngx_kafka_io_bind(void *ctx, kf_uuid_t topic_id,
    int32_t partition);
static void ngx_kafka_io_release(void *ctx, int32_t slot);
static void ngx_kafka_io_random(void *ctx, void *buf, size_t len);
static ngx_int_t ngx_kafka_zone_lock(ngx_kafka_broker_t *b);
static ngx_int_t ngx_kafka_coord_recover_all(ngx_kafka_broker_t *b,
    kc_t *kc, ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_recover_state(ngx_kafka_broker_t *b,
    kc_t *kc, ngx_kafka_io_t *io, ngx_uint_t *reopened);
static ngx_int_t ngx_kafka_coord_recover_journal(ngx_kafka_broker_t *b,
    ngx_kafka_io_t *io, bool *truncated);
static ngx_int_t ngx_kafka_coord_flush(ngx_kafka_broker_t *b,
    ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_raise(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_io_t *io);
static ngx_int_t ngx_kafka_coord_open_parts(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_uint_t *truncated);
static bool ngx_kafka_coord_open_part(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);


ngx_int_t
ngx_kafka_coord_lock(ngx_kafka_broker_t *b)
{
    kl_offsets_t  o;

    if (b->state != NGX_KAFKA_OPEN) {
        return NGX_AGAIN;
    }

    if (ngx_kafka_coord_enter(b, &b->kc) != NGX_OK) {
        ngx_kafka_broker_suspend(b);
        return NGX_AGAIN;
    }

    if (b->epoch != atomic_load(&b->zone->epoch)) {
        /* recovered by another worker: whatever waits here looks again */
        ngx_kafka_coord_leave(b);
        ngx_kafka_broker_suspend(b);
        return NGX_AGAIN;
    }

    kl_snapshot(b->journal->shared, &o);
    b->section_end = o.log_end;

    ngx_kafka_fault("coord-locked");

    return NGX_OK;
}


void
ngx_kafka_coord_unlock(ngx_kafka_broker_t *b)
{
    int64_t            deadline;
    uint64_t           version;
    ngx_uint_t         moved, topics;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    ngx_kafka_fault("coord-unlocking");

    ngx_kafka_points_wake(b);
    deadline = kc_next_deadline(&b->kc);

    kl_snapshot(b->journal->shared, &o);
    moved = (o.log_end != b->section_end);

    version = kc_topics_version(&b->kc);
    topics = (version != zone->kc_version);

    if (topics) {
        zone->kc_version = version;
        atomic_fetch_add(&zone->topics_version, 1);
    }

    ngx_kafka_coord_leave(b);

    ngx_kafka_tick_arm(b, deadline);

    if (moved) {
        ngx_kafka_appended(b, b->journal);
    }

    if (topics) {
        ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_TOPICS);
    }
}


/* NGX_OK: held, whatever the state. */
static ngx_int_t
ngx_kafka_zone_lock(ngx_kafka_broker_t *b)
{
    int                rc;
    uint32_t           open;
    ngx_kafka_zone_t  *zone = b->zone;

    rc = pthread_mutex_lock(&zone->coord);

    if (rc == EOWNERDEAD) {
        (void) pthread_mutex_consistent(&zone->coord);

        open = NGX_KAFKA_ZONE_OPEN;

        if (atomic_compare_exchange_strong(&zone->state, &open,
                                           NGX_KAFKA_ZONE_SUSPECT))
        {
            ngx_log_error(NGX_LOG_WARN, b->log, 0,
                          "kafka_broker \"%V\": a worker died inside the "
                          "coordinator, its state is replayed", &b->name);
        }

        rc = 0;
    }

    if (rc != 0) {
        ngx_log_error(NGX_LOG_ALERT, b->log, rc,
                      "pthread_mutex_lock() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_kafka_coord_enter(ngx_kafka_broker_t *b, kc_t *kc)
{
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    if (atomic_load(&zone->state) != NGX_KAFKA_ZONE_OPEN
        || ngx_kafka_zone_lock(b) != NGX_OK)
    {
        return NGX_AGAIN;
    }

    if (atomic_load(&zone->state) != NGX_KAFKA_ZONE_OPEN) {
        goto again;
    }

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    if (o.state != KL_OPEN) {
        atomic_store(&zone->state, NGX_KAFKA_ZONE_SUSPECT);

        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal has failed and is "
                      "opened again", &b->name);
        goto again;
    }

    kc_attach(kc, zone->state_root);

    return NGX_OK;

again:

    (void) pthread_mutex_unlock(&zone->coord);

    return NGX_AGAIN;
}


void
ngx_kafka_coord_leave(ngx_kafka_broker_t *b)
{
    (void) pthread_mutex_unlock(&b->zone->coord);
}


/* The lock is held and the state OPEN. */
ngx_int_t
ngx_kafka_coord_attach(ngx_kafka_broker_t *b)
{
    int32_t            slot;
    kl_offsets_t       o;
    ngx_kafka_part_t  *part;
    ngx_kafka_zone_t  *zone = b->zone;

    slot = zone->journal_slot;
    kl_snapshot(kl_part(zone->parts, slot), &o);

    if (b->journal == NULL || b->journal->slot != slot
        || b->journal->incarnation != o.incarnation)
    {
        /* the old one stays: requests may wait for it, and it is rare */

        part = ngx_calloc(sizeof(ngx_kafka_part_t), b->log);
        if (part == NULL) {
            return NGX_ERROR;
        }

        part->slot = slot;
        part->incarnation = o.incarnation;
        part->shared = kl_part(zone->parts, slot);
        part->flush_wanted = -1;
        part->refs = 1;
        ngx_queue_init(&part->watches);

        part->log = ngx_kafka_journal_open(b, slot, o.incarnation);
        if (part->log == NULL) {
            ngx_free(part);
            return NGX_ERROR;
        }

        if (b->journal) {
            b->journal->gone = 1;
        }

        b->journal = part;
    }

    b->epoch = atomic_load(&zone->epoch);
    b->leader_epoch = zone->leader_epoch;

    return NGX_OK;
}


ngx_int_t
ngx_kafka_journal_flushed(ngx_kafka_broker_t *b, uint64_t epoch,
    int64_t wait)
{
    kl_offsets_t  o;

    if (b->journal == NULL) {
        return NGX_AGAIN;
    }

    kl_snapshot(b->journal->shared, &o);

    /* after the numbers: if they are a reopened journal's, this tells */

    if (epoch < atomic_load(&b->zone->journal_epoch)
        || o.incarnation != b->journal->incarnation)
    {
        return NGX_DECLINED;
    }

    return o.flushed >= wait ? NGX_OK : NGX_AGAIN;
}


/* --- what the coordinator asks of the world ------------------------------- */

kc_io_t
ngx_kafka_coord_io(ngx_kafka_io_t *io)
{
    kc_io_t  t;

    t.append = ngx_kafka_io_append;
    t.bind = ngx_kafka_io_bind;
    t.release = ngx_kafka_io_release;
    t.random = ngx_kafka_io_random;
    t.txn_open = NULL;
    t.ctx = io;

    return t;
}


static int
ngx_kafka_io_append(void *ctx, uint8_t *batch, size_t len, int64_t *end)
{
    kl_rc_t          rc;
    kl_log_t        *log;
    kf_batch_t       kb;
    kl_append_t      res;
    ngx_kafka_io_t  *io = ctx;

    log = io->journal ? io->journal : io->broker->journal->log;

    if (kf_batch_header(batch, len, &kb) != KF_OK || kb.size != len) {
        return -1;
    }

    ngx_kafka_fault("journal-append-before");

    rc = kl_append(log, batch, &kb, &ngx_kafka_journal_config, 0,
                   ngx_kafka_wall_ms(), &res);

    if (rc != KL_OK) {
        return -1;
    }

    *end = res.next_offset;

    ngx_kafka_fault("journal-append-after");

    return 0;
}


static int32_t
ngx_kafka_io_bind(void *ctx, kf_uuid_t topic_id, int32_t partition)
{
    int32_t            slot;
    ngx_kafka_io_t    *io = ctx;
    ngx_kafka_zone_t  *zone = io->broker->zone;

    slot = kl_bind(zone->parts, topic_id, partition);

    if (slot >= 0) {
        zone->bindings[slot].topic_id = topic_id;
        zone->bindings[slot].partition = partition;
        zone->slots_n = ngx_max(zone->slots_n, (uint32_t) slot + 1);
    }

    return slot;
}


static void
ngx_kafka_io_release(void *ctx, int32_t slot)
{
    kf_uuid_t         *id;
    ngx_kafka_io_t    *io = ctx;
    ngx_kafka_zone_t  *zone = io->broker->zone;

    if (slot < 0 || (uint32_t) slot >= zone->parts_n) {
        return;
    }

    if (io->deleted && zone->bindings[slot].partition == 0) {
        id = ngx_array_push(io->deleted);
        if (id) {
            *id = zone->bindings[slot].topic_id;
        }
    }

    /*
     * The files stay until the deletion is flushed: if it gets lost, the topic
     * is opened from them again.
     */

    kl_release(zone->parts, slot);
}


static void
ngx_kafka_io_random(void *ctx, void *buf, size_t len)
{
    u_char   *p = buf;
    ssize_t   n;

    while (len) {
        n = getrandom(p, len, 0);

        if (n < 0) {
            if (ngx_errno == NGX_EINTR) {
                continue;
            }

            /* ids that repeat would be worse than this worker's end */
            abort();
        }

        p += n;
        len -= n;
    }
}


/* --- recovery ------------------------------------------------------------- */

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

        epoch = atomic_load(&zone->epoch) + 1;

        if (reopened) {
            atomic_store(&zone->journal_epoch, epoch);
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
    bool               cut;
    int64_t            wait, snapshot;
    uint32_t           i;
    ngx_int_t          clean;
    kc_time_t          now;
    ngx_uint_t         first, truncated;
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

    if (ngx_kafka_coord_recover_journal(b, io, &cut) != NGX_OK) {
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

    truncated = cut;

    if ((clean != NGX_OK && !first) || truncated) {
        if (ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
            return NGX_ERROR;
        }

        truncated = 0;
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

    if (ngx_kafka_coord_open_parts(b, kc, &truncated) != NGX_OK) {
        return NGX_ERROR;
    }

    if (truncated && clean == NGX_OK
        && ngx_kafka_coord_raise(b, kc, io) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Only the coordinator's state is rebuilt; its partitions are in use. */
static ngx_int_t
ngx_kafka_coord_recover_state(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_io_t *io, ngx_uint_t *reopened)
{
    bool               cut;
    int64_t            snapshot;
    ngx_uint_t         truncated;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    *reopened = (o.state != KL_OPEN);
    cut = false;

    if (*reopened) {
        /* a new incarnation, so that nobody waits for offsets of the old one */

        kl_release(zone->parts, zone->journal_slot);
    }

    kl_mark_unbound(zone->parts);

    zone->journal_slot = kl_bind(zone->parts, ngx_kafka_journal_id, 0);
    if (zone->journal_slot < 0) {
        return NGX_ERROR;
    }

    if (ngx_kafka_coord_recover_journal(b, io, &cut) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_kafka_journal_replay(b, io->journal, kc, &snapshot) != NGX_OK) {
        return NGX_ERROR;
    }

    if (cut && ngx_kafka_coord_raise(b, kc, io) != NGX_OK) {
        return NGX_ERROR;
    }

    /* a decision may have been appended whose replay had not begun */

    if (ngx_kafka_coord_open_parts(b, kc, &truncated) != NGX_OK) {
        return NGX_ERROR;
    }

    kl_release_unbound(zone->parts);

    return ngx_kafka_coord_flush(b, io);
}


static ngx_int_t
ngx_kafka_coord_recover_journal(ngx_kafka_broker_t *b, ngx_kafka_io_t *io,
    bool *truncated)
{
    kl_rc_t            rc;
    kl_offsets_t       o;
    ngx_kafka_zone_t  *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    io->journal = ngx_kafka_journal_open(b, zone->journal_slot,
                                         o.incarnation);
    if (io->journal == NULL) {
        return NGX_ERROR;
    }

    *truncated = false;

    if (o.state == KL_OPEN) {
        return NGX_OK;
    }

    rc = kl_recover(io->journal, 0, &ngx_kafka_journal_config, truncated);

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

    return ngx_kafka_coord_flush(b, io);
}


typedef struct {
    int32_t           leader_epoch;
    _Atomic uint32_t  truncated;
    _Atomic uint32_t  failed;
} ngx_kafka_open_ctx_t;


static ngx_int_t
ngx_kafka_coord_open_parts(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_uint_t *truncated)
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

        *truncated = atomic_load(&ctx.truncated);

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


int64_t
ngx_kafka_wall_ms(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


int64_t
ngx_kafka_mono_ms(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
