/*
 * The sparse indexes, in Kafka's format: .index maps the last offset of a
 * batch to the batch's position, .timeindex maps the greatest timestamp so far
 * to the last offset of the batch that has it.  Both are sorted.
 *
 * Entries collect in the control block and go to the files some at a time;
 * look-ups take both into account.  An index only saves time: if it cannot be
 * written, entries are lost and look-ups scan longer.
 */

#include <sys/stat.h>

#include "kl_internal.h"


void
kl_pub_new_segment(kl_pub_t *pub, int64_t base)
{
    pub->active_base = base;
    pub->active_size = 0;
    pub->created_ms = 0;
    pub->first_ts_ms = KL_NO_TIMESTAMP;
    pub->max = (kl_stamp_t) { KL_NO_TIMESTAMP, base };
    pub->since_index = 0;
    pub->index_n = 0;
    pub->time_n = 0;
    pub->txn_n = 0;
    pub->time_last_ms = KL_NO_TIMESTAMP;
    pub->index_pending_n = 0;
    pub->time_pending_n = 0;
    pub->ring_n = 0;
    pub->recent_ms = 0;
    pub->recent_pos = 0;
    pub->recent_last_ms = 0;
    pub->recent_last_pos = 0;
}


static void
kl_time_add(kl_pub_t *pub)
{
    if (pub->max.ts_ms > pub->time_last_ms) {
        pub->time_pending[pub->time_pending_n++] = pub->max;
        pub->time_last_ms = pub->max.ts_ms;
    }
}


void
kl_index_note(kl_log_t *log, kl_file_t *f, kl_pub_t *pub, const kf_batch_t *b,
    int64_t interval)
{
    kl_mark_t  mark;

    if (pub->active_size == 0) {
        pub->first_ts_ms = b->max_timestamp_ms;
    }

    if (b->max_timestamp_ms > pub->max.ts_ms) {
        pub->max.ts_ms = b->max_timestamp_ms;
        pub->max.offset = kf_batch_last_offset(b);
    }

    if (pub->since_index > interval) {

        if (pub->index_pending_n == KL_PENDING
            || pub->time_pending_n == KL_PENDING)
        {
            kl_index_write(log, f, pub, false);
        }

        mark.offset = kf_batch_last_offset(b);
        mark.pos = pub->active_size;

        pub->index_pending[pub->index_pending_n++] = mark;
        kl_time_add(pub);
        pub->since_index = 0;
    }

    mark.offset = b->base_offset;
    mark.pos = pub->active_size;

    pub->ring[pub->ring_n++ % KL_RING] = mark;

    pub->since_index += b->size;
    pub->active_size += b->size;
    pub->bytes += b->size;
    pub->log_end = kf_batch_next_offset(b);
}


void
kl_index_write(kl_log_t *log, kl_file_t *f, kl_pub_t *pub, bool last)
{
    int      fd;
    int64_t  i;
    uint8_t  buf[KL_PENDING * KL_TIME_ENTRY], *p;

    if (last) {
        if (pub->time_pending_n == KL_PENDING) {
            kl_index_write(log, f, pub, false);
        }
        kl_time_add(pub);
    }

    for (i = 0, p = buf; i < pub->index_pending_n; i++) {
        kf_put_be32(p, (uint32_t) (pub->index_pending[i].offset - f->base));
        kf_put_be32(p + 4, (uint32_t) pub->index_pending[i].pos);
        p += KL_INDEX_ENTRY;
    }

    if (p != buf) {
        fd = kl_file_index_fd(log, f);

        if (fd != -1
            && kl_pwrite(fd, buf, (size_t) (p - buf),
                         pub->index_n * KL_INDEX_ENTRY) == 0)
        {
            pub->index_n += pub->index_pending_n;

        } else {
            kl_say(log->env, KL_LOG_WARN, errno, "%s/%020" PRId64 ".index: "
                   "write failed, look-ups will be slower", log->path, f->base);
        }

        pub->index_pending_n = 0;
    }

    for (i = 0, p = buf; i < pub->time_pending_n; i++) {
        kf_put_be64(p, (uint64_t) pub->time_pending[i].ts_ms);
        kf_put_be32(p + 8, (uint32_t) (pub->time_pending[i].offset - f->base));
        p += KL_TIME_ENTRY;
    }

    if (p != buf) {
        fd = kl_file_time_fd(log, f);

        if (fd != -1
            && kl_pwrite(fd, buf, (size_t) (p - buf),
                         pub->time_n * KL_TIME_ENTRY) == 0)
        {
            pub->time_n += pub->time_pending_n;

        } else {
            kl_say(log->env, KL_LOG_WARN, errno, "%s/%020" PRId64 ".timeindex:"
                   " write failed, look-ups will be slower", log->path,
                   f->base);
        }

        pub->time_pending_n = 0;
    }
}


void
kl_index_cut(kl_log_t *log, kl_file_t *f, const kl_pub_t *pub)
{
    int          i, fd;
    int64_t      size;
    struct stat  st;

    for (i = 0; i < 2; i++) {
        fd = i ? kl_file_time_fd(log, f) : kl_file_index_fd(log, f);
        size = i ? pub->time_n * KL_TIME_ENTRY : pub->index_n * KL_INDEX_ENTRY;

        if (fd == -1 || fstat(fd, &st) != 0 || st.st_size <= size) {
            continue;
        }

        if (ftruncate(fd, size) != 0) {
            kl_say(log->env, KL_LOG_WARN, errno, "%s/%020" PRId64 ".%s: "
                   "cutting a failed write off failed", log->path, f->base,
                   i ? "timeindex" : "index");
        }
    }
}


static int64_t
kl_index_entries(const kl_pub_t *pub, kl_file_t *f, int fd, int64_t n,
    int64_t size)
{
    struct stat  st;

    if (f->base == pub->active_base) {
        return n;
    }

    return fstat(fd, &st) == 0 ? st.st_size / size : 0;
}


/*
 * The last of n entries that is <= key in the given half of an entry (0:
 * offset, 4: position); its position, or 0.
 */
static int64_t
kl_index_search(int fd, int64_t n, uint32_t key, int half)
{
    int64_t  lo = 0, hi = n, mid, i;
    ssize_t  got;
    uint8_t  e[KL_INDEX_ENTRY * 64];

    while (hi - lo > 64) {
        mid = lo + (hi - lo) / 2;

        if (kl_pread(fd, e, KL_INDEX_ENTRY, mid * KL_INDEX_ENTRY)
            != KL_INDEX_ENTRY)
        {
            return 0;
        }

        if (kf_be32(e + half) <= key) {
            lo = mid;
        } else {
            hi = mid;
        }
    }

    got = kl_pread(fd, e, (size_t) (hi - lo) * KL_INDEX_ENTRY,
                   lo * KL_INDEX_ENTRY);

    for (i = got / KL_INDEX_ENTRY - 1; i >= 0; i--) {
        if (kf_be32(e + i * KL_INDEX_ENTRY + half) <= key) {
            return kf_be32(e + i * KL_INDEX_ENTRY + 4);
        }
    }

    return 0;
}


static int64_t
kl_index_look(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t key,
    int half)
{
    int      fd;
    int64_t  i, v;

    if (f->base == pub->active_base) {
        for (i = pub->index_pending_n - 1; i >= 0; i--) {
            v = half ? pub->index_pending[i].pos
                     : pub->index_pending[i].offset - f->base;

            if (v <= key) {
                return pub->index_pending[i].pos;
            }
        }

        if (pub->index_n == 0) {
            return 0;
        }
    }

    fd = kl_file_index_fd(log, f);

    if (fd == -1 || key < 0) {
        return 0;
    }

    return kl_index_search(fd, kl_index_entries(pub, f, fd, pub->index_n,
                                                KL_INDEX_ENTRY),
                           key > INT32_MAX ? INT32_MAX : (uint32_t) key, half);
}


int64_t
kl_index_floor(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t offset)
{
    return kl_index_look(log, pub, f, offset - f->base, 0);
}


int64_t
kl_index_floor_pos(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t pos)
{
    return kl_index_look(log, pub, f, pos, 4);
}


bool
kl_time_floor(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t ts_ms,
    int64_t upto, kl_stamp_t *stamp)
{
    int      fd;
    int64_t  i, lo, hi, mid;
    uint8_t  e[KL_TIME_ENTRY];

    if (f->base == pub->active_base) {
        for (i = pub->time_pending_n - 1; i >= 0; i--) {
            if (pub->time_pending[i].ts_ms <= ts_ms
                && pub->time_pending[i].offset < upto)
            {
                *stamp = pub->time_pending[i];
                return true;
            }
        }

        if (pub->time_n == 0) {
            return false;
        }
    }

    fd = kl_file_time_fd(log, f);

    if (fd == -1) {
        return false;
    }

    lo = -1;
    hi = kl_index_entries(pub, f, fd, pub->time_n, KL_TIME_ENTRY);

    while (hi - lo > 1) {
        mid = lo + (hi - lo) / 2;

        if (kl_pread(fd, e, KL_TIME_ENTRY, mid * KL_TIME_ENTRY)
            != KL_TIME_ENTRY)
        {
            return false;
        }

        if ((int64_t) kf_be64(e) <= ts_ms
            && f->base + kf_be32(e + 8) < upto)
        {
            lo = mid;
            stamp->ts_ms = (int64_t) kf_be64(e);
            stamp->offset = f->base + kf_be32(e + 8);

        } else {
            hi = mid;
        }
    }

    return lo >= 0;
}
