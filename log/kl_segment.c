/*
 * Which segments a partition has, and walking the batches of one.
 *
 * The directory is the list; a handle caches it for one segments_gen.  A roll
 * or a removal by another process may be under way while the directory is
 * read: what the numbers in hand do not have yet, or no more, is left out.
 */

#include <dirent.h>

#include "kl_internal.h"


static int
kl_base_cmp(const void *a, const void *b)
{
    int64_t  x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}


kl_rc_t
kl_dir_failed(kl_log_t *log, int err)
{
    kl_pub_t  now;

    kl_pub_load(log->part, &now);

    if (err == ENOENT && kl_state_rc(log, &now) == KL_GONE) {
        return KL_GONE;
    }

    kl_say(log->env, KL_LOG_CRIT, err, "%s: reading the directory failed",
           log->path);

    return KL_STORAGE_ERROR;
}


kl_rc_t
kl_segments_list(kl_log_t *log, int64_t **bases, size_t *n)
{
    DIR            *dir;
    size_t          count = 0, size = 0;
    int64_t         base, *list = NULL, *more;
    struct dirent  *de;

    *bases = NULL;
    *n = 0;

    (void) kl_fault("segments.list");

    dir = opendir(log->path);

    if (dir == NULL) {
        return kl_dir_failed(log, errno);
    }

    for ( ;; ) {
        errno = 0;
        de = readdir(dir);

        if (de == NULL) {
            break;
        }

        if (strlen(de->d_name) != 24) {
            continue;
        }

        base = kl_parse_base(de->d_name, ".log");
        if (base < 0) {
            continue;
        }

        if (count == size) {
            size = size ? size * 2 : 16;
            more = realloc(list, size * sizeof(int64_t));

            if (more == NULL) {
                free(list);
                closedir(dir);
                return KL_NO_MEMORY;
            }

            list = more;
        }

        list[count++] = base;
    }

    if (errno) {
        kl_say(log->env, KL_LOG_CRIT, errno, "%s: reading the directory failed",
               log->path);
        free(list);
        closedir(dir);
        return KL_STORAGE_ERROR;
    }

    closedir(dir);

    if (count > 1) {
        qsort(list, count, sizeof(int64_t), kl_base_cmp);
    }

    *bases = list;
    *n = count;

    return KL_OK;
}


/* The handle's mutex is held. */
static kl_rc_t
kl_segments_refresh(kl_log_t *log, const kl_pub_t *pub)
{
    size_t    i, k, n;
    int64_t  *list;
    kl_rc_t   rc;

    if (log->bases_n > 0 && log->bases_gen == pub->segments_gen) {
        return KL_OK;
    }

    rc = kl_segments_list(log, &list, &n);
    if (rc != KL_OK) {
        return rc;
    }

    for (i = 0, k = 0; i < n; i++) {
        if (list[i] >= pub->first_base && list[i] <= pub->active_base) {
            list[k++] = list[i];
        }
    }

    free(log->bases);

    log->bases = list;
    log->bases_n = k;
    log->bases_gen = pub->segments_gen;

    if (k == 0 || list[k - 1] != pub->active_base) {
        log->bases_n = 0;
        kl_say(log->env, KL_LOG_CRIT, 0, "%s: segment %020" PRId64
               " is missing", log->path, pub->active_base);
        return KL_STORAGE_ERROR;
    }

    return KL_OK;
}


/* The last base <= offset; 0 when there is none. */
static size_t
kl_segments_floor(const int64_t *bases, size_t n, int64_t offset)
{
    size_t  lo = 0, hi = n, mid;

    while (hi - lo > 1) {
        mid = lo + (hi - lo) / 2;

        if (bases[mid] <= offset) {
            lo = mid;
        } else {
            hi = mid;
        }
    }

    return lo;
}


kl_rc_t
kl_segment_of(kl_log_t *log, const kl_pub_t *pub, int64_t offset,
    int64_t *base, int64_t *next)
{
    size_t   i;
    kl_rc_t  rc;

    if (offset >= pub->active_base) {
        *base = pub->active_base;
        *next = INT64_MAX;
        return KL_OK;
    }

    pthread_mutex_lock(&log->mutex);

    rc = kl_segments_refresh(log, pub);

    if (rc == KL_OK) {
        i = kl_segments_floor(log->bases, log->bases_n, offset);
        *base = log->bases[i];
        *next = i + 1 < log->bases_n ? log->bases[i + 1] : INT64_MAX;
    }

    pthread_mutex_unlock(&log->mutex);

    return rc;
}


kl_rc_t
kl_segments(kl_log_t *log, const kl_pub_t *pub, int64_t offset,
    int64_t **bases, size_t *n)
{
    size_t   i;
    kl_rc_t  rc;

    *bases = NULL;
    *n = 0;

    if (offset >= pub->active_base) {
        /* no need to read the directory */
        *bases = malloc(sizeof(int64_t));
        if (*bases == NULL) {
            return KL_NO_MEMORY;
        }

        (*bases)[0] = pub->active_base;
        *n = 1;
        return KL_OK;
    }

    pthread_mutex_lock(&log->mutex);

    rc = kl_segments_refresh(log, pub);

    if (rc == KL_OK) {
        i = kl_segments_floor(log->bases, log->bases_n, offset);
        *n = log->bases_n - i;
        *bases = malloc(*n * sizeof(int64_t));

        if (*bases == NULL) {
            rc = KL_NO_MEMORY;
        } else {
            memcpy(*bases, log->bases + i, *n * sizeof(int64_t));
        }
    }

    pthread_mutex_unlock(&log->mutex);

    return rc;
}


void
kl_cursor_init(kl_cursor_t *c, kl_log_t *log, kl_file_t *f, int64_t pos,
    int64_t end)
{
    c->log = log;
    c->file = f;
    c->pos = pos;
    c->end = end;
    c->step = KF_BATCH_HEADER;
    c->buf_pos = 0;
    c->buf_len = 0;
}


kl_rc_t
kl_cursor_peek(kl_cursor_t *c, kf_batch_t *b)
{
    size_t    len;
    int64_t   at;
    ssize_t   n;

    at = c->pos - c->buf_pos;

    if (at < 0 || at + KF_BATCH_HEADER > (int64_t) c->buf_len) {

        /* big batches: just the header; small ones: many at a time */
        len = c->step;
        if ((int64_t) len > c->end - c->pos) {
            len = (size_t) (c->end - c->pos);
        }

        n = kl_pread(c->file->fd, c->buf, len, c->pos);

        if (n < 0) {
            kl_say(c->log->env, KL_LOG_CRIT, errno, "%s/%020" PRId64 ".log: "
                   "read at %" PRId64 " failed", c->log->path, c->file->base,
                   c->pos);
            return KL_STORAGE_ERROR;
        }

        c->buf_pos = c->pos;
        c->buf_len = (size_t) n;
        at = 0;
    }

    if (kf_batch_header(c->buf + at, c->buf_len - (size_t) at, b) != KF_OK
        || b->size > c->end - c->pos || b->last_offset_delta < 0
        || b->base_offset < c->file->base
        || b->base_offset > INT64_MAX - b->last_offset_delta - 1)
    {
        return KL_CORRUPT;
    }

    c->step = b->size < sizeof(c->buf) / 2 ? sizeof(c->buf) : KF_BATCH_HEADER;

    return KL_OK;
}


kl_rc_t
kl_cursor_next(kl_cursor_t *c, kf_batch_t *b)
{
    kl_rc_t  rc;

    rc = kl_cursor_peek(c, b);

    if (rc == KL_CORRUPT) {
        kl_say(c->log->env, KL_LOG_CRIT, 0, "%s/%020" PRId64 ".log: "
               "no batch at position %" PRId64, c->log->path, c->file->base,
               c->pos);
    }

    return rc;
}
