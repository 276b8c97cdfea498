/*
 * Look-ups by timestamp (ListOffsets): the time index says where to begin, the
 * batch headers where to look closer, the records are the answer.
 */

#include "kl_internal.h"


typedef struct {
    int64_t  ts_ms;                     /* wanted: this or later */
    int64_t  from;
    int64_t  upto;
    int64_t  offset;                    /* found; -1: not yet */
    int64_t  found_ms;
} kl_time_want_t;


static bool
kl_time_visit(void *ctx, int64_t offset, int64_t timestamp_ms,
    const kf_record_t *record)
{
    kl_time_want_t  *w = ctx;

    (void) record;

    if (offset >= w->upto) {
        return false;
    }

    if (timestamp_ms >= w->ts_ms && offset >= w->from) {
        w->offset = offset;
        w->found_ms = timestamp_ms;
        return false;
    }

    return true;
}


/* The greatest instead of the first. */
static bool
kl_time_visit_max(void *ctx, int64_t offset, int64_t timestamp_ms,
    const kf_record_t *record)
{
    kl_time_want_t  *w = ctx;

    (void) record;

    if (offset >= w->from && offset < w->upto && timestamp_ms > w->found_ms) {
        w->offset = offset;
        w->found_ms = timestamp_ms;
    }

    return true;
}


/* Looks through the records of the batch at pos. */
static kl_rc_t
kl_time_in_batch(kl_log_t *log, kl_file_t *f, int64_t pos, const kf_batch_t *b,
    kf_record_visit_pt visit, kl_time_want_t *w)
{
    ssize_t   n;
    kl_rc_t   rc = KL_OK;
    kf_rc_t   kf;
    uint8_t  *data;

    data = malloc(b->size);
    if (data == NULL) {
        return KL_NO_MEMORY;
    }

    n = kl_pread(f->fd, data, b->size, pos);

    if (n != (ssize_t) b->size) {
        kl_say(log->env, KL_LOG_CRIT, n < 0 ? errno : 0, "%s/%020" PRId64
               ".log: read at %" PRId64 " failed", log->path, f->base, pos);
        rc = KL_STORAGE_ERROR;

    } else {
        kf = kf_batch_each(data, b, INT64_MAX, visit, w);

        if (kf == KF_NO_MEMORY) {
            rc = KL_NO_MEMORY;

        } else if (kf != KF_OK) {
            kl_say(log->env, KL_LOG_ERR, 0, "%s/%020" PRId64 ".log: batch at %"
                   PRId64 " cannot be decoded", log->path, f->base, pos);
            rc = KL_CORRUPT;
        }
    }

    free(data);

    return rc;
}


/* The greatest timestamp of a segment's batches in [from, upto). */
static kl_rc_t
kl_time_scan(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t size,
    int64_t from, int64_t upto, kl_stamp_t *max)
{
    int64_t         ignored;
    kl_rc_t         rc;
    kf_batch_t      b;
    kl_cursor_t     c;
    kl_time_want_t  w;

    rc = kl_seek(log, pub, f, size, from, &c.pos, &ignored);
    if (rc != KL_OK) {
        return rc;
    }

    kl_cursor_init(&c, log, f, c.pos, size);

    while (c.pos < size) {
        rc = kl_cursor_next(&c, &b);
        if (rc != KL_OK) {
            return rc;
        }

        if (b.base_offset >= upto) {
            break;
        }

        w = (kl_time_want_t) { .from = from, .upto = upto,
                               .found_ms = b.max_timestamp_ms };

        if (w.found_ms > max->ts_ms
            && (b.base_offset < from || kf_batch_next_offset(&b) > upto))
        {
            /* only a part of the batch counts */
            w.found_ms = KL_NO_TIMESTAMP;
            rc = kl_time_in_batch(log, f, c.pos, &b, kl_time_visit_max, &w);

            if (rc != KL_OK) {
                return rc;
            }
        }

        if (w.found_ms > max->ts_ms) {
            max->ts_ms = w.found_ms;
            max->offset = kf_batch_last_offset(&b);
        }

        c.pos += b.size;
    }

    return KL_OK;
}


/* The greatest timestamp of a whole segment, from its index. */
static bool
kl_time_of_segment(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    kl_stamp_t *max)
{
    if (f->base == pub->active_base) {
        *max = pub->max;
        return max->ts_ms >= 0;
    }

    return kl_time_floor(log, pub, f, INT64_MAX, INT64_MAX, max);
}


kl_rc_t
kl_segment_max_ts(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t *ts_ms)
{
    kl_stamp_t  max;

    *ts_ms = kl_time_of_segment(log, pub, f, &max) ? max.ts_ms
                                                   : KL_NO_TIMESTAMP;
    return KL_OK;
}


static kl_rc_t
kl_time_in_segment(kl_log_t *log, const kl_pub_t *pub, int64_t base,
    kl_time_want_t *w, int32_t *epoch)
{
    int64_t      size, ignored;
    kl_rc_t      rc;
    kl_file_t   *f;
    kf_batch_t   b;
    kl_cursor_t  c;
    kl_stamp_t   stamp;

    rc = kl_file_get(log, pub, base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    if (kl_time_of_segment(log, pub, f, &stamp) && stamp.ts_ms < w->ts_ms) {
        kl_file_unref(f);
        return KL_OK;
    }

    c.pos = 0;
    rc = kl_file_size(log, pub, f, &size);

    if (rc == KL_OK && kl_time_floor(log, pub, f, w->ts_ms, INT64_MAX, &stamp))
    {
        rc = kl_seek(log, pub, f, size, stamp.offset, &c.pos, &ignored);
    }

    if (rc == KL_OK) {
        kl_cursor_init(&c, log, f, c.pos, size);
    }

    while (rc == KL_OK && c.pos < size && w->offset < 0) {
        rc = kl_cursor_next(&c, &b);

        if (rc != KL_OK || b.base_offset >= w->upto) {
            break;
        }

        if (b.max_timestamp_ms >= w->ts_ms
            && kf_batch_last_offset(&b) >= w->from)
        {
            rc = kl_time_in_batch(log, f, c.pos, &b, kl_time_visit, w);
            *epoch = b.leader_epoch;
        }

        c.pos += b.size;
    }

    kl_file_unref(f);

    return rc;
}


kl_rc_t
kl_offset_for_time(kl_log_t *log, int64_t ts_ms, int64_t upto,
    int64_t *offset, int64_t *timestamp_ms, int32_t *leader_epoch)
{
    size_t          i, n;
    int32_t         epoch = -1;
    int64_t        *bases;
    kl_rc_t         rc;
    kl_pub_t        pub;
    kl_time_want_t  w;

    *offset = -1;
    *timestamp_ms = -1;
    *leader_epoch = -1;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_segments(log, &pub, pub.log_start, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    w = (kl_time_want_t) { .ts_ms = ts_ms, .from = pub.log_start,
                           .offset = -1, .upto = upto < pub.log_end
                                                 ? upto : pub.log_end };

    for (i = 0; rc == KL_OK && i < n && bases[i] < w.upto && w.offset < 0; i++)
    {
        rc = kl_time_in_segment(log, &pub, bases[i], &w, &epoch);
    }

    free(bases);

    if (rc == KL_OK && w.offset >= 0) {
        *offset = w.offset;
        *timestamp_ms = w.found_ms;
        *leader_epoch = epoch;
    }

    return rc;
}


kl_rc_t
kl_max_timestamp(kl_log_t *log, int64_t upto, int64_t *offset,
    int64_t *timestamp_ms, int32_t *leader_epoch)
{
    size_t           i, n;
    int32_t          epoch = -1;
    int64_t         *bases, base = -1, size;
    kl_rc_t          rc;
    kl_pub_t         pub;
    kl_file_t       *f;
    kl_stamp_t       max, best;
    kl_time_want_t   w;

    *offset = -1;
    *timestamp_ms = -1;
    *leader_epoch = -1;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    if (upto > pub.log_end) {
        upto = pub.log_end;
    }

    rc = kl_segments(log, &pub, pub.log_start, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    best.ts_ms = KL_NO_TIMESTAMP;

    for (i = 0; rc == KL_OK && i < n && bases[i] < upto; i++) {
        rc = kl_file_get(log, &pub, bases[i], &f);
        if (rc != KL_OK) {
            break;
        }

        max = (kl_stamp_t) { KL_NO_TIMESTAMP, 0 };

        if (bases[i] >= pub.log_start
            && upto >= (i + 1 < n ? bases[i + 1] : pub.log_end))
        {
            (void) kl_time_of_segment(log, &pub, f, &max);

        } else {
            rc = kl_file_size(log, &pub, f, &size);

            if (rc == KL_OK) {
                rc = kl_time_scan(log, &pub, f, size, pub.log_start > bases[i]
                                  ? pub.log_start : bases[i], upto, &max);
            }
        }

        if (max.ts_ms > best.ts_ms) {
            best = max;
            base = bases[i];
        }

        kl_file_unref(f);
    }

    free(bases);

    if (rc != KL_OK || best.ts_ms < 0) {
        return rc;
    }

    w = (kl_time_want_t) { .ts_ms = best.ts_ms, .from = pub.log_start,
                           .upto = upto, .offset = -1 };

    rc = kl_time_in_segment(log, &pub, base, &w, &epoch);

    if (rc == KL_OK && w.offset >= 0) {
        *offset = w.offset;
        *timestamp_ms = w.found_ms;
        *leader_epoch = epoch;
    }

    return rc;
}
