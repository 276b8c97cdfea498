/*
 * Reading a log file of which nothing may be believed; see kl_scan.h.
 */

#include <fcntl.h>
#include <sys/mman.h>

#include "../codec/kf_crc32c.h"
#include "kl_scan.h"


#define KL_SETTLE_PAGES  4096           /* looked at by one call */

#define KL_CRC_FROM   21                /* first byte under a batch's CRC */
#define KL_SCAN_HEAD  5                 /* fewer zeros begin any base offset */


void
kl_scan_init(kl_scan_t *s, kl_log_t *log)
{
    s->log = log;
    s->file = NULL;
    s->pos = 0;
    s->len = 0;
}


static kl_rc_t
kl_scan_rewrite(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end)
{
    ssize_t  n;

    while (pos < end) {
        n = end - pos < (int64_t) sizeof(s->buf) ? (ssize_t) (end - pos)
                                                 : (ssize_t) sizeof(s->buf);

        n = kl_pread(f->fd, s->buf, (size_t) n, pos);

        if (n == 0) {
            break;
        }

        if (n < 0 || kl_pwrite(f->fd, s->buf, (size_t) n, pos) != 0) {
            kl_say(s->log->env, KL_LOG_CRIT, errno, "%s/%020" PRId64 ".log: "
                   "writing again at %" PRId64 " failed", s->log->path,
                   f->base, pos);
            return KL_STORAGE_ERROR;
        }

        pos += n;
    }

    return KL_OK;
}


/*
 * A write-back that fails leaves pages that are clean and not on the disk, and
 * the next fdatasync is a success.  That it failed may be known to a process
 * that is no more, so it is never taken for granted that it did not.
 *
 * Clean pages are dropped from the cache, and are read from the disk then.
 * Those that stay (dirty, being written, pinned by somebody's sendfile, or the
 * file system keeps them) are written over with what they have, which makes
 * them dirty: the fdatasync at the end of the recovery covers them.  Bounded by
 * what is past the recovery point; mostly there is nothing to write.
 */
kl_rc_t
kl_scan_settle(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end)
{
    void     *map;
    size_t    i, n, run;
    int64_t   page = sysconf(_SC_PAGESIZE), len;
    kl_rc_t   rc;
    uint8_t   here[KL_SETTLE_PAGES];

    s->len = 0;
    pos -= pos % page;

    if (pos >= end) {
        return KL_OK;
    }

    (void) posix_fadvise(f->fd, pos, 0, POSIX_FADV_DONTNEED);

    for ( /* void */ ; pos < end; pos += len) {
        len = end - pos < KL_SETTLE_PAGES * page ? end - pos
                                                 : KL_SETTLE_PAGES * page;
        n = (size_t) ((len + page - 1) / page);

        map = mmap(NULL, (size_t) len, PROT_READ, MAP_SHARED, f->fd, pos);

        if (map == MAP_FAILED || mincore(map, (size_t) len, here) != 0) {
            memset(here, 1, n);
        }

        if (map != MAP_FAILED) {
            munmap(map, (size_t) len);
        }

        for (i = 0; i < n; i = run + 1) {
            for (run = i; run < n && (here[run] & 1); run++) { /* void */ }

            if (run == i) {
                continue;
            }

            rc = kl_scan_rewrite(s, f, pos + (int64_t) i * page,
                                 run < n ? pos + (int64_t) run * page
                                         : pos + len);
            if (rc != KL_OK) {
                return rc;
            }
        }
    }

    return KL_OK;
}


/* Makes [pos, pos + want) lie in the buffer as far as the file has it. */
static kl_rc_t
kl_scan_fill(kl_scan_t *s, kl_file_t *f, int64_t pos, size_t want,
    const uint8_t **data, size_t *len)
{
    ssize_t  n;

    if (s->file != f || pos < s->pos
        || pos + (int64_t) want > s->pos + (int64_t) s->len)
    {
        n = kl_pread(f->fd, s->buf, sizeof(s->buf), pos);

        if (n < 0) {
            kl_say(s->log->env, KL_LOG_CRIT, errno, "%s/%020" PRId64 ".log: "
                   "read at %" PRId64 " failed", s->log->path, f->base, pos);
            s->len = 0;
            return KL_STORAGE_ERROR;
        }

        s->file = f;
        s->pos = pos;
        s->len = (size_t) n;
    }

    *data = s->buf + (pos - s->pos);
    *len = s->len - (size_t) (pos - s->pos);

    return KL_OK;
}


static kl_rc_t
kl_scan_crc(kl_scan_t *s, kl_file_t *f, int64_t pos, const kf_batch_t *b,
    bool *ok)
{
    size_t          len, left;
    kl_rc_t         rc;
    uint32_t        crc = 0;
    const uint8_t  *data;

    left = b->size - KL_CRC_FROM;
    pos += KL_CRC_FROM;
    *ok = false;

    while (left > 0) {
        rc = kl_scan_fill(s, f, pos, left < sizeof(s->buf) ? left
                                                           : sizeof(s->buf),
                          &data, &len);
        if (rc != KL_OK) {
            return rc;
        }

        if (len == 0) {
            return KL_OK;
        }

        if (len > left) {
            len = left;
        }

        crc = kf_crc32c(crc, data, len);
        pos += (int64_t) len;
        left -= len;
    }

    *ok = crc == b->crc;

    return KL_OK;
}


static bool
kl_scan_is_plausible(const kf_batch_t *b, int64_t left)
{
    return b->size <= left && b->last_offset_delta >= 0
           && b->record_count >= 0 && b->base_offset >= 0
           && b->base_offset <= INT64_MAX - b->last_offset_delta - 1;
}


kl_rc_t
kl_scan_batch(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    kf_batch_t *b)
{
    bool            ok;
    size_t          len;
    kl_rc_t         rc;
    const uint8_t  *data;

    if (pos < 0 || end - pos < KF_BATCH_HEADER) {
        return KL_CORRUPT;
    }

    rc = kl_scan_fill(s, f, pos, KF_BATCH_HEADER, &data, &len);
    if (rc != KL_OK) {
        return rc;
    }

    if (kf_batch_header(data, len, b) != KF_OK
        || !kl_scan_is_plausible(b, end - pos))
    {
        return KL_CORRUPT;
    }

    if (b->size <= sizeof(s->buf)) {
        /* one read for the whole batch, and for those behind it */
        rc = kl_scan_fill(s, f, pos, b->size, &data, &len);

        if (rc != KL_OK) {
            return rc;
        }
    }

    rc = kl_scan_crc(s, f, pos, b, &ok);
    if (rc != KL_OK) {
        return rc;
    }

    return ok ? KL_OK : KL_CORRUPT;
}


kl_rc_t
kl_scan_search(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    int64_t offset, bool *found, int64_t *at, kf_batch_t *b)
{
    bool            ok;
    size_t          len;
    kl_rc_t         rc;
    int64_t         budget;
    const uint8_t  *data, *magic;

    *found = false;

    /* bytes are hashed again and again only by who forges them; when it gets
       out of hand, nothing is cut */
    budget = 4 * (end - pos) + 64 * 1024 * 1024;

    while (end - pos >= KF_BATCH_HEADER) {

        rc = kl_scan_fill(s, f, pos, KF_BATCH_HEADER, &data, &len);
        if (rc != KL_OK) {
            return rc;
        }

        if (len < KF_BATCH_HEADER) {
            return KL_OK;
        }

        magic = memchr(data + 16, 2, len - KF_BATCH_HEADER + 1);

        if (magic == NULL) {
            pos += (int64_t) (len - KF_BATCH_HEADER + 1);
            continue;
        }

        pos += magic - data - 16;

        if (kf_batch_header(magic - 16, KF_BATCH_HEADER, b) == KF_OK
            && kl_scan_is_plausible(b, end - pos) && b->base_offset >= offset
            && kf_batch_codec(b) <= KF_CODEC_ZSTD
            && (b->attributes & ~0x7f) == 0)
        {
            budget -= b->size;

            if (budget < 0) {
                *found = true;
                *at = pos;
                return KL_OK;
            }

            rc = kl_scan_crc(s, f, pos, b, &ok);
            if (rc != KL_OK) {
                return rc;
            }

            if (ok) {
                *found = true;
                *at = pos;
                return KL_OK;
            }
        }

        pos++;
    }

    return KL_OK;
}


bool
kl_scan_is_short(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end)
{
    size_t          len;
    kf_batch_t      b;
    const uint8_t  *data;

    if (end - pos < KF_BATCH_HEADER) {
        return true;
    }

    return kl_scan_fill(s, f, pos, KF_BATCH_HEADER, &data, &len) == KL_OK
           && kf_batch_header(data, len, &b) == KF_OK && b.size > end - pos;
}


/*
 * A disk writes whole sectors, each as it was at some moment, in any order.  So
 * what a power cut has lost of a batch is a sector that was never written, or
 * the rest of the one that the batch before ends in.
 */
kl_rc_t
kl_scan_hole(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    int64_t sector, bool *hole)
{
    size_t          len, i;
    int64_t         at, first, start = pos, from = pos;
    kl_rc_t         rc;
    const uint8_t  *data;

    /* from: everything from there to the byte looked at is zero */
    first = start - start % sector + sector;
    *hole = false;

    while (pos < end) {
        rc = kl_scan_fill(s, f, pos, 1, &data, &len);
        if (rc != KL_OK) {
            return rc;
        }

        if (len == 0) {
            break;
        }

        if ((int64_t) len > end - pos) {
            len = (size_t) (end - pos);
        }

        for (i = 0; i < len; i++) {
            at = pos + (int64_t) i + 1;

            if (data[i] != 0) {
                from = at;

            } else if (at % sector == 0
                       && (at - from >= sector
                           || (at == first && from == start
                               && at - from >= KL_SCAN_HEAD)))
            {
                *hole = true;
                return KL_OK;
            }
        }

        pos += (int64_t) len;
    }

    *hole = from == start;

    return KL_OK;
}
