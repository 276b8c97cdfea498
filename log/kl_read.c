/*
 * Reading: from an offset to a piece of a file.
 *
 * A boundary is found in the cheapest place that has it: the published end,
 * the flushed end, the ring of the last appends, the hints of where earlier
 * reads stopped; else in the index, and then by walking headers.
 */

#include <limits.h>

#include "kl_internal.h"


#define KL_WALK_MAX   16                /* headers, rather than an index */


static bool
kl_hint_find(kl_log_t *log, const kl_pub_t *pub, int64_t base, int64_t offset,
    int64_t *pos)
{
    bool      found = false;
    uint32_t  i;

    pthread_mutex_lock(&log->mutex);

    if (log->hints_gen == pub->open_gen) {
        for (i = 0; i < log->hints_n && i < KL_HINTS; i++) {
            if (log->hints[i].offset == offset && log->hints[i].base == base) {
                *pos = log->hints[i].pos;
                found = true;
                break;
            }
        }
    }

    pthread_mutex_unlock(&log->mutex);

    return found;
}


static void
kl_hint_add(kl_log_t *log, const kl_pub_t *pub, int64_t base, int64_t offset,
    int64_t pos)
{
    pthread_mutex_lock(&log->mutex);

    if (log->hints_gen != pub->open_gen) {
        log->hints_n = 0;
        log->hints_gen = pub->open_gen;
    }

    log->hints[log->hints_n % KL_HINTS] = (kl_hint_t) { offset, base, pos };

    if (++log->hints_n == 2 * KL_HINTS) {
        log->hints_n = KL_HINTS;
    }

    pthread_mutex_unlock(&log->mutex);
}


/* The mark in the ring with the greatest offset <= offset, or NULL. */
static const kl_mark_t *
kl_ring_floor(const kl_pub_t *pub, const kl_file_t *f, int64_t offset)
{
    int64_t           i, first;
    const kl_mark_t  *m;

    if (f->base != pub->active_base) {
        return NULL;
    }

    first = pub->ring_n > KL_RING ? pub->ring_n - KL_RING : 0;

    for (i = pub->ring_n - 1; i >= first; i--) {
        m = &pub->ring[i % KL_RING];

        if (m->offset <= offset) {
            return m;
        }
    }

    return NULL;
}


/*
 * The position of the first batch of the segment that ends at or after offset
 * (so the one that contains it, unless compaction took it away), and its base
 * offset; pos is end, and the base offset unknown (-1), when there is none.
 */
kl_rc_t
kl_seek(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t end,
    int64_t offset, int64_t *pos, int64_t *batch_offset)
{
    bool              sure;
    kl_rc_t           rc;
    kf_batch_t        b;
    kl_cursor_t       c;
    const kl_mark_t  *m;

    if (f->base == pub->active_base && offset >= pub->log_end) {
        *pos = end;
        *batch_offset = -1;
        return KL_OK;
    }

    m = kl_ring_floor(pub, f, offset);

    if (m != NULL) {
        *pos = m->pos;
        *batch_offset = m->offset;
        return KL_OK;
    }

    if (kl_hint_find(log, pub, f->base, offset, pos)) {
        *batch_offset = offset;
        return KL_OK;
    }

    sure = false;
    c.pos = kl_index_floor(log, pub, f, offset);

    if (c.pos >= end) {
        c.pos = 0;
    }

again:

    sure = c.pos == 0;
    kl_cursor_init(&c, log, f, c.pos, end);

    while (c.pos < end) {
        rc = sure ? kl_cursor_next(&c, &b) : kl_cursor_peek(&c, &b);

        if (rc == KL_CORRUPT && !sure) {
            /* the index may be wrong, the log is not: from the start */
            c.pos = 0;
            goto again;
        }

        if (rc != KL_OK) {
            return rc;
        }

        if (!sure && b.base_offset > offset) {
            c.pos = 0;
            goto again;
        }

        sure = true;

        if (kf_batch_next_offset(&b) > offset) {
            *pos = c.pos;
            *batch_offset = b.base_offset;
            return KL_OK;
        }

        c.pos += b.size;
    }

    *pos = end;
    *batch_offset = -1;

    return KL_OK;
}


/* The end of the data below upto in a segment.  next: the next one's base. */
static kl_rc_t
kl_seek_end(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t size,
    int64_t next, int64_t upto, int64_t *end)
{
    int64_t  ignored;

    if (upto >= next || upto >= pub->log_end) {
        *end = size;
        return KL_OK;
    }

    if (upto == pub->flushed && f->base == pub->flushed_base) {
        *end = pub->flushed_pos;
        return KL_OK;
    }

    return kl_seek(log, pub, f, size, upto, end, &ignored);
}


/*
 * Cuts [start, end) to whole batches of at most max bytes; one whole batch at
 * least when that is asked for.  next: the offset to go on at.
 */
static kl_rc_t
kl_fit(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t start,
    int64_t *end, int64_t max, bool at_least_one, int64_t *next)
{
    int64_t           i, first, from, limit = start + max;
    kl_rc_t           rc;
    kf_batch_t        b;
    kl_cursor_t       c;
    const kl_mark_t  *m, *best;

    if (*end <= limit) {
        return KL_OK;
    }

    best = NULL;

    if (f->base == pub->active_base) {
        first = pub->ring_n > KL_RING ? pub->ring_n - KL_RING : 0;

        for (i = pub->ring_n - 1; i >= first; i--) {
            m = &pub->ring[i % KL_RING];

            if (m->pos <= limit) {
                best = m->pos > start ? m : NULL;
                break;
            }
        }
    }

    if (best != NULL) {
        *end = best->pos;
        *next = best->offset;
        return KL_OK;
    }

    /* walking a few headers is cheaper than searching the index */
    kl_cursor_init(&c, log, f, start, *end);
    rc = kl_cursor_next(&c, &b);

    if (rc != KL_OK) {
        return rc;
    }

    from = start;

    if (max / KL_WALK_MAX > b.size) {
        from = kl_index_floor_pos(log, pub, f, limit);

        if (from < start || from > limit) {
            from = start;
        }
    }

again:

    c.pos = from;
    *next = -1;

    for ( ;; ) {
        rc = from > start ? kl_cursor_peek(&c, &b) : kl_cursor_next(&c, &b);

        if (rc == KL_CORRUPT && from > start) {
            from = start;
            goto again;
        }

        if (rc != KL_OK) {
            return rc;
        }

        if (c.pos + b.size > limit && !(at_least_one && c.pos == start)) {
            if (c.pos > start) {
                *next = b.base_offset;
            }
            break;
        }

        c.pos += b.size;
        *next = kf_batch_next_offset(&b);

        if (c.pos >= limit || c.pos >= *end) {
            break;
        }
    }

    *end = c.pos;

    return KL_OK;
}


/* Offsets that may be asked for. */
static kl_rc_t
kl_read_look(kl_log_t *log, kl_pub_t *pub, int64_t offset, int64_t *upto)
{
    kl_rc_t  rc;

    rc = kl_look(log, pub);
    if (rc != KL_OK) {
        return rc;
    }

    if (offset < pub->log_start || offset > pub->log_end) {
        return KL_OUT_OF_RANGE;
    }

    if (*upto > pub->log_end) {
        *upto = pub->log_end;
    }

    return KL_OK;
}


/*
 * The segment to read offset from, with its size, where the batch begins and
 * where the data below upto ends.  A segment that has nothing from offset on
 * is passed over.  pos == end: there is nothing.
 */
static kl_rc_t
kl_read_place(kl_log_t *log, const kl_pub_t *pub, int64_t offset, int64_t upto,
    kl_file_t **file, int64_t *pos, int64_t *end, int64_t *first,
    int64_t *next)
{
    int64_t     base, size;
    kl_rc_t     rc;
    kl_file_t  *f;

    for ( ;; ) {
        rc = kl_segment_of(log, pub, offset, &base, next);
        if (rc != KL_OK) {
            return rc;
        }

        rc = kl_file_get(log, pub, base, &f);
        if (rc != KL_OK) {
            return rc;
        }

        rc = kl_file_size(log, pub, f, &size);

        if (rc == KL_OK) {
            rc = kl_seek(log, pub, f, size, offset, pos, first);
        }

        if (rc == KL_OK && *pos >= size && *next < upto) {
            kl_file_unref(f);
            offset = *next;
            continue;
        }

        if (rc == KL_OK) {
            rc = kl_seek_end(log, pub, f, size, *next, upto, end);
        }

        if (rc != KL_OK) {
            kl_file_unref(f);
            return rc;
        }

        *file = f;

        return KL_OK;
    }
}


kl_rc_t
kl_read_again(kl_log_t *log, kl_rc_t rc, int64_t offset)
{
    kl_pub_t  pub;

    if (rc == KL_STORAGE_ERROR && kl_look(log, &pub) == KL_OK
        && offset < pub.log_start)
    {
        return KL_OUT_OF_RANGE;
    }

    return rc;
}


kl_rc_t
kl_read(kl_log_t *log, int64_t offset, int64_t upto, uint32_t max_bytes,
    bool at_least_one, kl_slice_t *s)
{
    int64_t     pos, end, whole, first, next, after;
    kl_rc_t     rc;
    kl_pub_t    pub;
    kl_file_t  *f;

    *s = (kl_slice_t) { .fd = -1, .first_offset = offset,
                        .next_offset = offset };

    rc = kl_read_look(log, &pub, offset, &upto);

    if (rc != KL_OK || offset >= upto) {
        return rc;
    }

    rc = kl_read_place(log, &pub, offset, upto, &f, &pos, &end, &first, &next);
    if (rc != KL_OK) {
        return kl_read_again(log, rc, offset);
    }

    whole = end;
    after = upto < next ? upto : next;

    if (pos < end) {
        if (max_bytes > INT32_MAX) {
            max_bytes = INT32_MAX;
        }

        rc = kl_fit(log, &pub, f, pos, &end, max_bytes, at_least_one, &after);
    }

    if (rc != KL_OK || pos >= end) {
        kl_file_unref(f);
        return rc;
    }

    s->file = f;
    s->fd = f->fd;
    s->pos = pos;
    s->len = (uint32_t) (end - pos);
    s->first_offset = first;
    s->next_offset = after;

    if (f->base == pub.active_base) {
        s->recent_ms = pos >= pub.recent_last_pos ? pub.recent_last_ms
                       : pos >= pub.recent_pos ? pub.recent_ms : 0;
    }

    if (end < whole || (end == whole && upto < next)) {
        kl_hint_add(log, &pub, f->base, after, end);
    }

    return KL_OK;
}


kl_rc_t
kl_readable(kl_log_t *log, int64_t offset, int64_t upto, int64_t max,
    int64_t *bytes)
{
    int64_t     pos, end, first, next;
    kl_rc_t     rc;
    kl_pub_t    pub;
    kl_file_t  *f;

    *bytes = 0;

    rc = kl_read_look(log, &pub, offset, &upto);

    while (rc == KL_OK && offset < upto && *bytes < max) {

        rc = kl_read_place(log, &pub, offset, upto, &f, &pos, &end, &first,
                           &next);
        if (rc != KL_OK) {
            return kl_read_again(log, rc, offset);
        }

        kl_file_unref(f);

        if (end > pos) {
            *bytes += end - pos;
        }

        offset = next;
    }

    if (*bytes > max) {
        *bytes = max;
    }

    return rc;
}


kl_rc_t
kl_read_batches(kl_log_t *log, int64_t offset, int64_t upto, uint8_t *buf,
    size_t size, size_t *len, int64_t *next_offset)
{
    size_t      at;
    ssize_t     n;
    kl_rc_t     rc;
    kf_batch_t  b;
    kl_slice_t  s;

    *len = 0;
    *next_offset = offset;

    rc = kl_read(log, offset, upto,
                 size > INT32_MAX ? INT32_MAX : (uint32_t) size, false, &s);
    if (rc != KL_OK) {
        return rc;
    }

    if (s.len == 0) {
        return offset < upto && kl_readable(log, offset, upto, 1, &s.pos)
               == KL_OK && s.pos > 0 ? KL_NO_MEMORY : KL_OK;
    }

    n = kl_pread(s.fd, buf, s.len, s.pos);

    if (n != (ssize_t) s.len) {
        kl_say(log->env, KL_LOG_CRIT, n < 0 ? errno : 0, "%s: read of %"
               PRIu32 " bytes at %" PRId64 " failed", log->path, s.len,
               (int64_t) s.pos);
        kl_file_unref(s.file);
        return KL_STORAGE_ERROR;
    }

    for (at = 0; at < s.len; at += b.size) {
        if (kf_batch_header(buf + at, s.len - at, &b) != KF_OK
            || b.size > s.len - at || !kf_batch_crc_ok(buf + at, &b))
        {
            kl_say(log->env, KL_LOG_CRIT, 0, "%s/%020" PRId64 ".log: "
                   "bad batch at position %" PRId64, log->path, s.file->base,
                   (int64_t) s.pos + (int64_t) at);
            kl_file_unref(s.file);
            return KL_CORRUPT;
        }
    }

    kl_file_unref(s.file);

    *len = s.len;
    *next_offset = s.next_offset;

    return KL_OK;
}
