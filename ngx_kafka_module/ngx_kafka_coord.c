/*
 * The coordinator's lock, and what it asks of the world.
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


static int ngx_kafka_io_append(void *ctx, uint8_t *batch, size_t len,
    int64_t *end);
static int32_t ngx_kafka_io_bind(void *ctx, kf_uuid_t topic_id,
    int32_t partition);
static void ngx_kafka_io_release(void *ctx, int32_t slot);
static void ngx_kafka_io_txn_open(void *ctx, const kc_topic_t *t,
    int32_t partition, int64_t producer_id, int16_t epoch, int version,
    int64_t number);
static void ngx_kafka_io_random(void *ctx, void *buf, size_t len);


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
    b->section_later = 0;

    if (b->caching_version != kc_topics_version(&b->kc)) {
        b->caching_version = kc_topics_version(&b->kc);
        b->caching = kc_topic_config_int(&b->kc, &b->config, NULL,
                                         KC_WRITE_CACHING) != 0;
    }

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

    if (moved && b->section_later) {
        ngx_kafka_journal_later(b);

    } else if (moved) {
        ngx_kafka_appended(b, b->journal);
    }

    if (topics) {
        ngx_kafka_wake_all(b, NGX_KAFKA_WAKE_TOPICS);
    }
}


/* NGX_OK: held, whatever the state. */
ngx_int_t
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
    b->caching_version = UINT64_MAX;
    b->leader_epoch = ngx_kafka_leader_epoch(b);

    return NGX_OK;
}


int32_t
ngx_kafka_leader_epoch(ngx_kafka_broker_t *b)
{
    return atomic_load(&b->zone->leader_epoch);
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
    t.txn_open = ngx_kafka_io_txn_open;
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
    kl_offsets_t       o;
    ngx_kafka_io_t    *io = ctx;
    ngx_kafka_zone_t  *zone = io->broker->zone;

    slot = kl_bind(zone->parts, topic_id, partition);

    if (slot >= 0) {
        zone->bindings[slot].topic_id = topic_id;
        zone->bindings[slot].partition = partition;
        zone->slots_n = ngx_max(zone->slots_n, (uint32_t) slot + 1);

        kl_snapshot(kl_part(zone->parts, slot), &o);

        if (o.state == KL_NEW) {
            /* the checkpoint was of the partition that had it before */
            atomic_store(&zone->checkpoints[slot], 0);
        }
    }

    return slot;
}


static void
ngx_kafka_io_release(void *ctx, int32_t slot)
{
    ngx_kafka_io_t    *io = ctx;
    ngx_kafka_zone_t  *zone = io->broker->zone;

    if (slot < 0 || (uint32_t) slot >= zone->parts_n) {
        return;
    }

    /*
     * The files stay until the deletion is flushed: if it gets lost, the topic
     * is opened from them again.
     */

    kl_release(zone->parts, slot);
}


/*
 * A mark that cannot be set now is asked for again by the append that misses
 * it, so nothing is lost when a handle or the partition is not to be had.
 */
static void
ngx_kafka_io_txn_open(void *ctx, const kc_topic_t *t, int32_t partition,
    int64_t producer_id, int16_t epoch, int version, int64_t number)
{
    int32_t              slot;
    kl_log_t            *log;
    kl_offsets_t         o;
    ngx_kafka_io_t      *io = ctx;
    ngx_kafka_broker_t  *b = io->broker;

    slot = t->slots[partition];

    if (slot < 0 || b->env == NULL) {
        return;
    }

    kl_snapshot(kl_part(b->zone->parts, slot), &o);

    if (o.state != KL_OPEN) {
        return;
    }

    log = kl_log_open(b->env, slot, o.incarnation, t->id, t->name, partition);

    if (log) {
        (void) kl_txn_verify(log, producer_id, epoch, version >= 2, number,
                             ngx_kafka_wall_ms());
        kl_log_close(log);
    }
}


void
ngx_kafka_io_deleted(void *ctx, kf_uuid_t topic_id)
{
    kf_uuid_t       *id;
    ngx_kafka_io_t  *io = ctx;

    if (io->deleted) {
        id = ngx_array_push(io->deleted);
        if (id) {
            *id = topic_id;
        }
    }
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
