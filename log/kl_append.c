/*
 * Appending: the one path by which a log grows, and rolling the segment.
 *
 * Under the partition's lock, in this order: the producer's sequence is
 * checked, the segment rolled if due, an abort put into the transaction index,
 * the bytes written at the published end, the index entry kept, the producer's
 * window moved, the new numbers published.  Whoever fails or dies before the
 * last step leaves the log as it was: bytes past the published end are cut off
 * by the next one that gets the lock.
 */

#include <unistd.h>

#include "kl_internal.h"


#define KL_WINDOW_MS  5000


static bool
kl_roll_is_due(const kl_pub_t *pub, const kf_batch_t *b, const kl_config_t *cf,
    int64_t now_ms)
{
    int64_t  since, latest, entries;

    if (pub->active_size == 0) {
        return false;
    }

    if (pub->active_size + b->size > cf->segment_bytes
        || pub->active_size + b->size > INT32_MAX
        || pub->log_end + b->last_offset_delta - pub->active_base > INT32_MAX)
    {
        return true;
    }

    /* a timestamp from the wire may be any number */
    since = pub->first_ts_ms >= 0 ? pub->first_ts_ms : pub->created_ms;
    latest = pub->first_ts_ms >= 0 ? b->max_timestamp_ms : now_ms;

    if (since >= 0 && latest > since && latest - since > cf->segment_ms) {
        return true;
    }

    entries = cf->segment_index_bytes / KL_INDEX_ENTRY;

    if (pub->index_n + pub->index_pending_n >= entries) {
        return true;
    }

    entries = cf->segment_index_bytes / KL_TIME_ENTRY;

    return pub->time_n + pub->time_pending_n >= entries - 1;
}


kl_rc_t
kl_roll(kl_log_t *log, kl_pub_t *pub, int64_t now_ms)
{
    kl_rc_t     rc;
    kl_file_t  *f;

    rc = kl_file_get(log, pub, pub->active_base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_file_create(log, pub->log_end);

    if (rc == KL_OK) {
        kl_index_write(log, f, pub, true);
        kl_index_cut(log, f, pub);

        kl_pub_new_segment(pub, pub->log_end);
        pub->created_ms = now_ms;
        pub->segments_gen++;
        pub->dir_gen++;

        (void) kl_fault("roll");
        kl_pub_store(log->part, pub);
    }

    kl_file_unref(f);

    return rc;
}


static kl_rc_t
kl_append_write(kl_log_t *log, kl_pub_t *pub, kl_file_t *f,
    const uint8_t *data, const kf_batch_t *b)
{
    int  err;

    (void) kl_fault("append.before");

    if (kl_pwrite(f->fd, data, b->size, pub->active_size) == 0) {
        (void) kl_fault("append.written");
        return KL_OK;
    }

    err = errno;

    kl_say(log->env, KL_LOG_CRIT, err, "%s/%020" PRId64 ".log: write of %"
           PRIu32 " bytes at %" PRId64 " failed", log->path, f->base, b->size,
           pub->active_size);

    errno = kl_fault("ftruncate");

    if (errno || ftruncate(f->fd, pub->active_size) != 0) {
        kl_fail_locked(log, pub, errno, "cutting a failed write off");
    }

    return KL_STORAGE_ERROR;
}


/*
 * Notes since when the tail has been appended: where the window under way and
 * the one before it began.  Whatever stands behind the beginning of a window
 * came after it.
 */
static void
kl_recent(kl_pub_t *pub, int64_t now_ms)
{
    if (pub->recent_last_ms != 0 && now_ms >= pub->recent_last_ms
        && now_ms - pub->recent_last_ms < KL_WINDOW_MS)
    {
        return;
    }

    pub->recent_ms = pub->recent_last_ms;
    pub->recent_pos = pub->recent_last_pos;
    pub->recent_last_ms = now_ms;
    pub->recent_last_pos = pub->active_size;
}


kl_rc_t
kl_append_locked(kl_log_t *log, kl_pub_t *pub, kl_producer_t *e, uint8_t *data,
    kf_batch_t *b, const kl_config_t *cf, int32_t leader_epoch, int64_t now_ms)
{
    bool        commit = true, reserved = false, indexed = false;
    int32_t     coordinator_epoch = -1;
    kl_rc_t     rc;
    kl_file_t  *f;

    if (pub->log_end > INT64_MAX - b->last_offset_delta - 1) {
        return KL_STORAGE_ERROR;
    }

    if (cf->append_time) {
        b->max_timestamp_ms = now_ms;
    }

    if (pub->created_ms == 0) {
        pub->created_ms = now_ms;
    }

    if (kl_roll_is_due(pub, b, cf, now_ms)) {
        rc = kl_roll(log, pub, now_ms);
        if (rc != KL_OK) {
            return rc;
        }
    }

    /*
     * Its caller read the broker's epoch before it had the lock, and the log
     * may have been cut since, under a later one.
     */

    if (leader_epoch < log->part->least_epoch) {
        leader_epoch = log->part->least_epoch;
    }

    if (leader_epoch < pub->leader_epoch) {
        leader_epoch = (int32_t) pub->leader_epoch;

    } else if (leader_epoch > pub->leader_epoch) {
        rc = kl_epoch_add(log, pub, leader_epoch, pub->log_end);
        if (rc != KL_OK) {
            return rc;
        }
    }

    if (b->producer_id >= 0 && e == NULL) {
        e = kl_producer_reserve(log, b->producer_id);

        if (e == NULL) {
            return KL_NO_MEMORY;
        }

        reserved = true;
    }

    if (cf->append_time && !(b->attributes & KF_ATTR_CONTROL)) {
        kf_batch_set_append_time(data, now_ms);
        b->attributes |= KF_ATTR_LOG_APPEND_TIME;
    }

    b->base_offset = pub->log_end;
    b->leader_epoch = leader_epoch;

    kf_batch_set_base_offset(data, b->base_offset);
    kf_batch_set_leader_epoch(data, leader_epoch);

    if (b->attributes & KF_ATTR_CONTROL) {
        (void) kf_batch_control_read(data, b, &commit, &coordinator_epoch);
    }

    rc = kl_file_get(log, pub, pub->active_base, &f);

    if (rc == KL_OK) {

        if (!commit && e != NULL && e->txn_first >= 0) {
            rc = kl_txn_index_add(log, pub, f, e);
            indexed = rc == KL_OK;
        }

        if (rc == KL_OK) {
            rc = kl_append_write(log, pub, f, data, b);
        }

        if (rc == KL_OK) {
            kl_recent(pub, now_ms);
            kl_index_note(log, f, pub, b, cf->index_interval_bytes);

        } else if (indexed) {
            kl_txn_index_undo(log, pub, f);
        }

        kl_file_unref(f);
    }

    if (rc != KL_OK) {
        if (reserved) {
            kl_producer_unreserve(log, e);
        }
        return rc;
    }

    if (e != NULL) {
        kl_producer_note(log, e, reserved, b, coordinator_epoch, now_ms, pub);
    }

    (void) kl_fault("append.publish");

    kl_pub_store(log->part, pub);
    atomic_store_explicit(&log->part->producers_dirty, 0,
                          memory_order_release);

    return KL_OK;
}


kl_rc_t
kl_append(kl_log_t *log, uint8_t *data, kf_batch_t *b, const kl_config_t *cf,
    int32_t leader_epoch, int64_t now_ms, kl_append_t *res)
{
    kl_rc_t         rc;
    kl_pub_t        pub;
    kl_producer_t  *e;

    *res = (kl_append_t) { .base_offset = -1, .next_offset = -1,
                           .append_time_ms = -1, .log_start = -1 };

    rc = kl_enter(log, cf, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    res->log_start = pub.log_start;
    res->generation = (uint64_t) pub.open_gen;

    rc = kl_producer_check(log, b, cf->verify, res, &e);

    if (rc == KL_OK && !res->duplicate) {
        rc = kl_append_locked(log, &pub, e, data, b, cf, leader_epoch, now_ms);

        if (rc == KL_OK) {
            res->base_offset = b->base_offset;
            res->next_offset = pub.log_end;
        }
    }

    kl_part_unlock(log->part);

    return rc;
}


int64_t
kl_active_base(kl_log_t *log)
{
    kl_pub_t  pub;

    return kl_look(log, &pub) == KL_OK ? pub.active_base : -1;
}
