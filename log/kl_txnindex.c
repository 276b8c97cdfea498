/*
 * The transaction index, Kafka's .txnindex: the aborted transactions of which
 * the marker is in that segment, by the marker's offset.
 *
 *    0 version i16 (0) | 2 producerId i64 | 10 firstOffset i64
 *   18 lastOffset i64, the marker's       | 26 lastStableOffset i64
 *
 * The last stable offset is the one after the marker; a transaction that is
 * aborted later does not begin below it, which bounds a search.
 *
 * A segment gets its file with its first entry.  An entry is written before
 * its marker is published, and counts from then on: in the active segment
 * pub->txn_n says how many there are, in closed ones the size.  Unlike the
 * sparse indexes this one is not only there to save time: a reader that misses
 * an entry takes aborted records for committed ones.  So nothing is published
 * whose entry could not be written.
 */

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "kl_internal.h"


#define KL_TXN_VERSION   0
#define KL_TXN_BATCH     64             /* entries read at a time */
#define KL_TXN_NAME      29             /* 20 digits and the suffix */

typedef struct {
    int64_t  producer_id;
    int64_t  first;
    int64_t  last;
    int64_t  stable;
} kl_txn_entry_t;


static void
kl_txn_encode(uint8_t *p, const kl_producer_t *e, int64_t marker,
    int64_t first_open)
{
    kf_put_be16(p, KL_TXN_VERSION);
    kf_put_be64(p + 2, (uint64_t) e->id);
    kf_put_be64(p + 10, (uint64_t) e->txn_first);
    kf_put_be64(p + 18, (uint64_t) marker);
    kf_put_be64(p + 26, (uint64_t) (first_open == INT64_MAX ? marker + 1
                                                         : first_open));
}


static bool
kl_txn_decode(const uint8_t *p, kl_txn_entry_t *t)
{
    t->producer_id = (int64_t) kf_be64(p + 2);
    t->first = (int64_t) kf_be64(p + 10);
    t->last = (int64_t) kf_be64(p + 18);
    t->stable = (int64_t) kf_be64(p + 26);

    /* a marker comes after what it ends: zeros of a torn write are no entry */
    return p[0] == 0 && p[1] == KL_TXN_VERSION && t->producer_id >= 0
           && t->first >= 0 && t->first < t->last && t->stable >= 0
           && t->stable <= t->last + 1;
}


static kl_rc_t
kl_txn_io(kl_log_t *log, int64_t base, int err, const char *what)
{
    kl_say(log->env, KL_LOG_CRIT, err, "%s/%020" PRId64 ".txnindex: %s failed",
           log->path, base, what);

    return KL_STORAGE_ERROR;
}


/* --- appending ----------------------------------------------------------- */

kl_rc_t
kl_txn_index_add(kl_log_t *log, kl_pub_t *pub, kl_file_t *f,
    const kl_producer_t *e)
{
    int      fd;
    uint8_t  entry[KL_TXN_ENTRY];

    kl_txn_encode(entry, e, pub->log_end, kl_producers_first_open(log, e));

    errno = kl_fault("txn.index");

    if (errno || (fd = kl_file_txn_fd(log, f, true)) == -1) {
        return kl_txn_io(log, f->base, errno, "creation");
    }

    if (kl_pwrite(fd, entry, KL_TXN_ENTRY, pub->txn_n * KL_TXN_ENTRY) != 0) {
        kl_txn_io(log, f->base, errno, "write");
        kl_txn_index_undo(log, pub, f);
        return KL_STORAGE_ERROR;
    }

    (void) kl_fault("txn.indexed");

    if (pub->txn_n == 0) {
        pub->dir_gen++;                 /* a new name */
    }

    pub->txn_n++;
    pub->aborted_last = pub->log_end;

    return KL_OK;
}


/* pub: not published; the numbers that are count.  A failed write is cut off,
 * as the file's size will count when the segment is closed. */
void
kl_txn_index_undo(kl_log_t *log, kl_pub_t *pub, kl_file_t *f)
{
    int       fd;
    kl_pub_t  now;

    kl_pub_load(log->part, &now);

    pub->txn_n = now.txn_n;
    pub->aborted_last = now.aborted_last;

    fd = kl_file_txn_fd(log, f, false);

    errno = fd == -1 ? errno : kl_fault("txn.undo");

    if (errno || ftruncate(fd, now.txn_n * KL_TXN_ENTRY) != 0) {
        kl_fail_locked(log, &now, errno, "cutting a failed write off");
        *pub = now;
    }
}


/* --- recovery ------------------------------------------------------------ */

static int
kl_txn_open(kl_log_t *log, int64_t base, int flags)
{
    char  path[KL_PATH_MAX];

    return kl_segment_path(path, log, base, ".txnindex") != 0
               ? -1 : open(path, O_RDWR | O_CLOEXEC | flags, 0644);
}


static bool
kl_txn_read(int fd, int64_t i, kl_txn_entry_t *t)
{
    uint8_t  e[KL_TXN_ENTRY];

    return kl_pread(fd, e, KL_TXN_ENTRY, i * KL_TXN_ENTRY) == KL_TXN_ENTRY
           && kl_txn_decode(e, t);
}


/* How many of n entries have a marker below an offset.  One that cannot be
 * read counts as not; *good gets false. */
static int64_t
kl_txn_below(int fd, int64_t n, int64_t offset, bool *good)
{
    int64_t         lo = 0, hi = n, mid;
    kl_txn_entry_t  t;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;

        if (!kl_txn_read(fd, mid, &t)) {
            *good = false;
            hi = mid;

        } else if (t.last < offset) {
            lo = mid + 1;

        } else {
            hi = mid;
        }
    }

    return lo;
}


/* Cuts one segment's index; *n: entries left. */
static kl_rc_t
kl_txn_index_cut(kl_log_t *log, int64_t base, int64_t from, bool *good,
    int64_t *n)
{
    int             fd;
    char            path[KL_PATH_MAX];
    kl_txn_entry_t  t;
    struct stat     st;

    fd = kl_txn_open(log, base, 0);

    if (fd == -1 || fstat(fd, &st) != 0) {
        if (fd != -1) {
            close(fd);
        }
        return kl_txn_io(log, base, errno, "open");
    }

    /* a part of an entry may be left at the end only by what comes again */
    *n = kl_txn_below(fd, st.st_size / KL_TXN_ENTRY, from, good);

    if (*n > 0 && (!kl_txn_read(fd, *n - 1, &t) || t.last < base)) {
        *good = false;
    }

    if (st.st_size != *n * KL_TXN_ENTRY
        && (ftruncate(fd, *n * KL_TXN_ENTRY) != 0 || kl_fdatasync(fd) != 0))
    {
        kl_txn_io(log, base, errno, "cutting");
        close(fd);
        return KL_STORAGE_ERROR;
    }

    close(fd);

    if (*n == 0 && kl_segment_path(path, log, base, ".txnindex") == 0) {
        unlink(path);
    }

    return KL_OK;
}


static int
kl_txn_segment_cmp(const void *a, const void *b)
{
    const kl_txn_segment_t  *x = a, *y = b;

    return x->base < y->base ? -1 : x->base > y->base;
}


/* The segments that have an index file, sorted, n not filled in. */
static kl_rc_t
kl_txn_index_list(kl_log_t *log, kl_txn_segment_t **out, size_t *out_n)
{
    DIR               *dir;
    size_t             n = 0, size = 0;
    int64_t            base;
    struct dirent     *de;
    kl_txn_segment_t  *list = NULL, *more;

    dir = opendir(log->path);

    if (dir == NULL) {
        return kl_dir_failed(log, errno);
    }

    while ((de = readdir(dir)) != NULL) {

        if (strlen(de->d_name) != KL_TXN_NAME) {
            continue;
        }

        base = kl_parse_base(de->d_name, ".txnindex");
        if (base < 0) {
            continue;
        }

        if (n == size) {
            size = size ? size * 2 : 16;
            more = realloc(list, size * sizeof(kl_txn_segment_t));

            if (more == NULL) {
                free(list);
                closedir(dir);
                return KL_NO_MEMORY;
            }

            list = more;
        }

        list[n++] = (kl_txn_segment_t) { base, 0 };
    }

    closedir(dir);

    if (n > 1) {
        qsort(list, n, sizeof(kl_txn_segment_t), kl_txn_segment_cmp);
    }

    *out = list;
    *out_n = n;

    return KL_OK;
}


kl_rc_t
kl_txn_index_begin(kl_txn_writer_t *w, kl_log_t *log, int64_t from,
    const kl_checkpoint_t *mark, bool *good)
{
    size_t             i, n;
    int64_t            had = 0;
    kl_rc_t            rc;
    kl_txn_segment_t  *list;

    *w = (kl_txn_writer_t) { .log = log, .fd = -1, .base = -1 };
    *good = true;

    rc = kl_txn_index_list(log, &list, &n);

    for (i = 0; rc == KL_OK && i < n; i++) {
        rc = kl_txn_index_cut(log, list[i].base, from, good, &list[i].n);

        if (rc == KL_OK && list[i].n == 0) {
            w->changed = true;
        }

        if (mark != NULL && list[i].base == mark->active_base) {
            had = list[i].n;
        }
    }

    free(list);

    /*
     * The checkpoint counted what was below the recovery point, to which the
     * snapshot belongs (or it is a later one).
     */
    if (mark != NULL && mark->active_base >= 0
        && from >= mark->recovery_point && had < mark->txn_n)
    {
        *good = false;
    }

    if (mark != NULL && mark->active_base >= 0 && mark->txn_n < 0) {
        *good = false;
    }

    return rc;
}


static kl_rc_t
kl_txn_writer_close(kl_txn_writer_t *w)
{
    int  rc;

    if (w->fd == -1) {
        return KL_OK;
    }

    rc = kl_fdatasync(w->fd);
    if (rc != 0) {
        kl_txn_io(w->log, w->base, errno, "fdatasync");
    }

    close(w->fd);
    w->fd = -1;

    return rc == 0 ? KL_OK : KL_STORAGE_ERROR;
}


kl_rc_t
kl_txn_index_put(kl_txn_writer_t *w, int64_t base, const kl_producer_t *e,
    int64_t marker)
{
    kl_rc_t      rc;
    uint8_t      entry[KL_TXN_ENTRY];
    struct stat  st;

    if (w->fd == -1 || w->base != base) {
        rc = kl_txn_writer_close(w);
        if (rc != KL_OK) {
            return rc;
        }

        w->base = base;
        w->fd = kl_txn_open(w->log, base, O_CREAT);

        if (w->fd == -1 || fstat(w->fd, &st) != 0) {
            return kl_txn_io(w->log, base, errno, "creation");
        }

        w->n = st.st_size / KL_TXN_ENTRY;
        w->changed = w->changed || w->n == 0;
    }

    kl_txn_encode(entry, e, marker, kl_producers_first_open(w->log, e));

    if (kl_pwrite(w->fd, entry, KL_TXN_ENTRY, w->n * KL_TXN_ENTRY) != 0) {
        return kl_txn_io(w->log, base, errno, "write");
    }

    w->n++;

    return KL_OK;
}


kl_rc_t
kl_txn_index_end(kl_txn_writer_t *w, kl_pub_t *pub)
{
    int                fd;
    size_t             i, n = 0;
    kl_rc_t            rc;
    struct stat        st;
    kl_txn_entry_t     t;
    kl_txn_segment_t  *list = NULL;

    pub->txn_n = 0;
    pub->aborted_last = -1;

    rc = kl_txn_writer_close(w);

    if (rc == KL_OK && w->changed && kl_sync_dir(w->log->path) != 0) {
        rc = kl_txn_io(w->log, w->base, errno, "fsync of the directory");
    }

    if (rc == KL_OK) {
        rc = kl_txn_index_list(w->log, &list, &n);
    }

    if (rc != KL_OK) {
        return rc;
    }

    for (i = n; rc == KL_OK && i > 0; i--) {
        fd = kl_txn_open(w->log, list[i - 1].base, 0);

        if (fd == -1 || fstat(fd, &st) != 0) {
            rc = kl_txn_io(w->log, list[i - 1].base, errno, "open");

        } else if (st.st_size >= KL_TXN_ENTRY) {

            if (!kl_txn_read(fd, st.st_size / KL_TXN_ENTRY - 1, &t)) {
                rc = kl_txn_io(w->log, list[i - 1].base, errno, "read");
            }

            pub->aborted_last = t.last;

            if (list[i - 1].base == pub->active_base) {
                pub->txn_n = st.st_size / KL_TXN_ENTRY;
            }

            i = 1;                      /* the last one is enough */
        }

        if (fd != -1) {
            close(fd);
        }
    }

    free(list);

    return rc;
}


/* --- reading ------------------------------------------------------------- */

/*
 * The closed segments with entries, from the one that has offset on, a copy;
 * the directory is read once for each list of segments.
 */
static kl_rc_t
kl_txn_segments(kl_log_t *log, const kl_pub_t *pub, int64_t offset,
    kl_txn_segment_t **out, size_t *out_n)
{
    char               path[KL_PATH_MAX];
    size_t             i, k, n;
    int64_t            base, next;
    kl_rc_t            rc;
    struct stat        st;
    kl_txn_segment_t  *list;

    *out = NULL;
    *out_n = 0;

    rc = kl_segment_of(log, pub, offset, &base, &next);

    if (rc != KL_OK || base == pub->active_base) {
        return rc;
    }

    pthread_mutex_lock(&log->mutex);

    if (log->txns_gen != pub->segments_gen) {
        rc = kl_txn_index_list(log, &list, &n);

        for (i = 0, k = 0; rc == KL_OK && i < n; i++) {
            if (list[i].base < pub->first_base
                || list[i].base >= pub->active_base
                || kl_segment_path(path, log, list[i].base, ".txnindex") != 0)
            {
                continue;
            }

            if (stat(path, &st) != 0) {
                /* retention takes the oldest */
                if (errno != ENOENT) {
                    rc = kl_txn_io(log, list[i].base, errno, "stat");
                    free(list);
                }
                continue;
            }

            if (st.st_size >= KL_TXN_ENTRY) {
                list[k++] = (kl_txn_segment_t) { list[i].base,
                                                 st.st_size / KL_TXN_ENTRY };
            }
        }

        if (rc == KL_OK) {
            free(log->txns);
            log->txns = list;
            log->txns_n = k;
            log->txns_gen = pub->segments_gen;
        }
    }

    if (rc == KL_OK) {
        for (i = 0; i < log->txns_n && log->txns[i].base < base; i++) {
            /* void */
        }

        n = log->txns_n - i;

        if (n > 0) {
            *out = malloc(n * sizeof(kl_txn_segment_t));

            if (*out == NULL) {
                rc = KL_NO_MEMORY;

            } else {
                memcpy(*out, log->txns + i, n * sizeof(kl_txn_segment_t));
                *out_n = n;
            }
        }
    }

    pthread_mutex_unlock(&log->mutex);

    return rc;
}


typedef struct {
    int64_t        offset;
    int64_t        upto;
    kl_aborted_t  *list;
    size_t         max;
    size_t         n;
    bool           last;                /* what follows begins at or above */
} kl_txn_search_t;


static kl_rc_t
kl_txn_collect(kl_log_t *log, const kl_pub_t *pub, int64_t base, int64_t n,
    kl_txn_search_t *s)
{
    int              fd;
    bool             good = true;
    int64_t          i, k, got;
    kl_rc_t          rc;
    uint8_t          buf[KL_TXN_BATCH * KL_TXN_ENTRY];
    kl_file_t       *f;
    kl_txn_entry_t   t;

    rc = kl_file_get(log, pub, base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    fd = kl_file_txn_fd(log, f, false);

    if (fd == -1) {
        kl_file_unref(f);
        rc = kl_read_again(log, KL_STORAGE_ERROR, s->offset);

        return rc == KL_STORAGE_ERROR ? kl_txn_io(log, base, errno, "open")
                                      : rc;
    }

    i = base < s->offset ? kl_txn_below(fd, n, s->offset, &good) : 0;

    while (good && i < n && !s->last) {
        got = n - i < KL_TXN_BATCH ? n - i : KL_TXN_BATCH;

        good = kl_pread(fd, buf, (size_t) got * KL_TXN_ENTRY, i * KL_TXN_ENTRY)
               == (ssize_t) (got * KL_TXN_ENTRY);

        for (k = 0; good && k < got && !s->last; k++) {
            good = kl_txn_decode(buf + k * KL_TXN_ENTRY, &t);

            if (good && t.last >= s->offset && t.first < s->upto) {
                if (s->n < s->max) {
                    s->list[s->n].producer_id = t.producer_id;
                    s->list[s->n].first_offset = t.first;
                }
                s->n++;
            }

            s->last = t.stable >= s->upto;
        }

        i += got;
    }

    kl_file_unref(f);

    if (!good) {
        kl_say(log->env, KL_LOG_CRIT, 0, "%s/%020" PRId64 ".txnindex is not "
               "readable", log->path, base);
        return KL_CORRUPT;
    }

    return KL_OK;
}


static int
kl_aborted_cmp(const void *a, const void *b)
{
    const kl_aborted_t  *x = a, *y = b;

    return x->first_offset < y->first_offset ? -1
           : x->first_offset > y->first_offset;
}


kl_rc_t
kl_aborted(kl_log_t *log, int64_t offset, int64_t upto, kl_aborted_t *list,
    size_t max, size_t *n)
{
    size_t             i, count;
    kl_rc_t            rc;
    kl_pub_t           pub;
    kl_txn_search_t    s;
    kl_txn_segment_t  *segments;

    *n = 0;

    rc = kl_look(log, &pub);

    if (rc != KL_OK || offset > pub.aborted_last) {
        return rc;
    }

    if (offset < pub.log_start) {
        return KL_OUT_OF_RANGE;
    }

    s = (kl_txn_search_t) { offset, upto, list, max, 0, false };

    rc = kl_txn_segments(log, &pub, offset, &segments, &count);

    for (i = 0; rc == KL_OK && i < count && !s.last; i++) {
        rc = kl_txn_collect(log, &pub, segments[i].base, segments[i].n, &s);
    }

    free(segments);

    if (rc == KL_OK && pub.txn_n > 0 && !s.last) {
        rc = kl_txn_collect(log, &pub, pub.active_base, pub.txn_n, &s);
    }

    if (rc != KL_OK) {
        return kl_read_again(log, rc, offset);
    }

    *n = s.n;

    if (s.n > 1 && s.n <= max) {
        qsort(list, s.n, sizeof(kl_aborted_t), kl_aborted_cmp);
    }

    return KL_OK;
}
