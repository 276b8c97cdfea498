/*
 * Opening a partition from disk.
 *
 *   no directory ──> made, with one empty segment
 *   clean mark and the size that it names ──> numbers from the indexes, no scan
 *   else ──> every batch from the recovery point on is read and checked
 *
 * The scan ends at the first place where the next batch is not.  What is there
 * instead decides:
 *
 *   nothing valid behind it          a torn tail: kept aside, cut off
 *   a hole, then valid batches       a write that a power cut lost before its
 *                                    flush, and later ones that got through:
 *                                    kept aside, cut off; none of it can have
 *                                    been acknowledged, as a flush covers the
 *                                    whole file
 *   damaged bytes, then valid ones   KL_CORRUPT, nothing is touched
 *   below the recovery point         KL_CORRUPT, nothing is touched
 *
 * A hole is what was never written: zeros up to the next valid batch, from the
 * start of the missing batch or, of one that got through in part, for 512
 * bytes at least; or a segment that ends before or inside the missing batch.
 *
 * What is read past the recovery point is what the disk has, or will have after
 * the fdatasync that precedes publishing, also when a write-back has failed
 * before (see kl_scan_settle()).
 *
 * Memory is bounded by one buffer.  The partition's lock is taken at the end
 * only; the jobs mutex keeps others from doing the same.
 */

#include <fcntl.h>
#include <sys/stat.h>

#include "kl_internal.h"
#include "kl_scan.h"


#define KL_SECTOR    512
#define KL_SEEN_MAX    64

typedef struct {
    kl_log_t          *log;
    kl_scan_t          scan;
    const kl_config_t *cf;
    kl_pub_t           pub;             /* as it will be published */
    kl_checkpoint_t    mark;
    int64_t           *bases;
    size_t             n;
    int32_t            leader_epoch;    /* the broker's; -1: not known */
    kl_epoch_t         seen[KL_SEEN_MAX];   /* of the batches scanned */
    size_t             seen_n;
    bool               reopened;        /* after a failure */
    bool               truncated;
    bool               foreign;         /* the directory is another topic's */
} kl_recovery_t;


static kl_rc_t
kl_recover_io(kl_log_t *log, int err, const char *what, int64_t base)
{
    kl_say(log->env, KL_LOG_CRIT, err, "%s: recovery: %s of segment %020"
           PRId64 " failed", log->path, what, base);

    return KL_STORAGE_ERROR;
}


static kl_rc_t
kl_recover_corrupt(kl_log_t *log, int64_t base, int64_t pos, const char *why)
{
    kl_say(log->env, KL_LOG_CRIT, 0, "%s/%020" PRId64 ".log is corrupt at "
           "position %" PRId64 ": %s; nothing was cut off", log->path, base,
           pos, why);

    return KL_CORRUPT;
}


/* --- cutting ------------------------------------------------------------- */

/* Copies [pos, size) to <base>.torn.<pos>; no room for it stops nothing. */
static void
kl_recover_keep(kl_recovery_t *r, kl_file_t *f, int64_t pos, int64_t size)
{
    int      fd = -1, i;
    char     name[64], path[KL_PATH_MAX];
    int64_t  from = pos;
    ssize_t  n;

    for (i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "%020" PRId64 ".torn.%" PRId64 ".%d",
                 f->base, pos, i);

        if (kl_path(path, r->log->path, name) != 0) {
            return;
        }

        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (fd != -1 || errno != EEXIST) {
            break;
        }
    }

    while (fd != -1 && from < size) {
        n = size - from < (int64_t) sizeof(r->scan.buf)
                ? (ssize_t) (size - from) : (ssize_t) sizeof(r->scan.buf);

        n = kl_pread(f->fd, r->scan.buf, (size_t) n, from);

        if (n <= 0 || kl_pwrite(fd, r->scan.buf, (size_t) n, from - pos) != 0)
        {
            break;
        }

        from += n;
    }

    r->scan.len = 0;

    if (fd == -1 || from < size || kl_fdatasync(fd) != 0) {
        kl_say(r->log->env, KL_LOG_WARN, errno, "%s: the bytes that are cut "
               "off could not be kept aside", path);
    }

    if (fd != -1) {
        close(fd);
    }
}


/* The log ends at pos of segment i. */
static kl_rc_t
kl_recover_cut(kl_recovery_t *r, size_t i, kl_file_t *f, int64_t pos,
    int64_t size)
{
    int64_t      cut = size - pos;
    kl_rc_t      rc;
    kl_file_t   *later;
    struct stat  st;

    while (r->n > i + 1) {
        rc = kl_file_open(r->log, r->bases[r->n - 1], &later);
        if (rc != KL_OK) {
            return rc;
        }

        if (fstat(later->fd, &st) == 0 && st.st_size > 0) {
            kl_recover_keep(r, later, 0, st.st_size);
            cut += st.st_size;
        }

        kl_file_unref(later);

        if (kl_file_unlink(r->log, r->bases[r->n - 1]) != 0) {
            return KL_STORAGE_ERROR;
        }

        r->n--;
    }

    if (pos < size) {
        kl_recover_keep(r, f, pos, size);

        errno = kl_fault("ftruncate");

        if (errno || ftruncate(f->fd, pos) != 0) {
            return kl_recover_io(r->log, errno, "cutting the tail", f->base);
        }
    }

    if (cut > 0) {
        kl_say(r->log->env, KL_LOG_WARN, 0, "%s/%020" PRId64 ".log: %" PRId64
               " bytes that were never flushed cut off at position %" PRId64
               ", the log ends at offset %" PRId64, r->log->path, f->base,
               cut, pos, r->pub.log_end);

        r->truncated = true;
    }

    return KL_OK;
}


/*
 * At pos of segment i the next batch is not.  Cuts, or says why not.
 */
static kl_rc_t
kl_recover_bad(kl_recovery_t *r, size_t i, kl_file_t *f, int64_t pos,
    int64_t size)
{
    bool         hole, found;
    size_t       j;
    int64_t      at;
    kl_rc_t      rc;
    kl_file_t   *later;
    kf_batch_t   b;
    struct stat  st;

    if (r->pub.log_end < r->pub.recovery_point) {
        return kl_recover_corrupt(r->log, f->base, pos,
                   "below the recovery point there is no valid batch");
    }

    rc = kl_scan_search(&r->scan, f, pos + 1, size, r->pub.log_end, &found,
                        &at, &b);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_scan_hole(&r->scan, f, pos, found ? at : size, KL_SECTOR, &hole);
    if (rc != KL_OK) {
        return rc;
    }

    if (!found && kl_scan_is_short(&r->scan, f, pos, size)) {
        hole = true;
    }

    for (j = i + 1; !found && j < r->n; j++) {
        rc = kl_file_open(r->log, r->bases[j], &later);
        if (rc != KL_OK) {
            return rc;
        }

        if (fstat(later->fd, &st) != 0) {
            rc = kl_recover_io(r->log, errno, "fstat", r->bases[j]);
        } else {
            rc = kl_scan_search(&r->scan, later, 0, st.st_size,
                                r->pub.log_end, &found, &at, &b);
        }

        kl_file_unref(later);

        if (rc != KL_OK) {
            return rc;
        }
    }

    if (found && !hole) {
        return kl_recover_corrupt(r->log, f->base, pos,
                   "a bad batch with a valid one behind it");
    }

    return kl_recover_cut(r, i, f, pos, size);
}


/* --- one segment --------------------------------------------------------- */

/*
 * Where the scan of the recovery point's segment begins: at the last index
 * entry that the checkpoint vouches for, if the log agrees with it; what is in
 * the indexes from there on is made anew.
 */
static int64_t
kl_recover_resume(kl_recovery_t *r, kl_file_t *f, int64_t size,
    int64_t *expected)
{
    int          fd;
    int64_t      n, pos, last;
    uint8_t      e[KL_TIME_ENTRY];
    kf_batch_t   b;
    struct stat  st;
    kl_pub_t    *pub = &r->pub;

    fd = kl_file_index_fd(r->log, f);
    n = r->mark.index_n;

    if (r->mark.active_base != f->base || n == 0 || fd == -1
        || fstat(fd, &st) != 0 || st.st_size < n * KL_INDEX_ENTRY
        || kl_pread(fd, e, KL_INDEX_ENTRY, (n - 1) * KL_INDEX_ENTRY)
           != KL_INDEX_ENTRY)
    {
        return 0;
    }

    last = f->base + kf_be32(e);
    pos = kf_be32(e + 4);

    if (last >= r->mark.recovery_point
        || kl_scan_batch(&r->scan, f, pos, size, &b) != KL_OK
        || kf_batch_last_offset(&b) != last || b.base_offset < f->base)
    {
        return 0;
    }

    fd = kl_file_time_fd(r->log, f);

    if (fd == -1 || fstat(fd, &st) != 0
        || st.st_size < r->mark.time_n * KL_TIME_ENTRY)
    {
        return 0;
    }

    pub->time_n = r->mark.time_n;

    while (pub->time_n > 0) {
        if (kl_pread(fd, e, KL_TIME_ENTRY, (pub->time_n - 1) * KL_TIME_ENTRY)
            != KL_TIME_ENTRY)
        {
            pub->time_n = 0;
            return 0;
        }

        if (f->base + kf_be32(e + 8) <= last) {
            pub->max.ts_ms = (int64_t) kf_be64(e);
            pub->max.offset = f->base + kf_be32(e + 8);
            pub->time_last_ms = pub->max.ts_ms;
            break;
        }

        pub->time_n--;
    }

    pub->index_n = n - 1;
    pub->since_index = INT32_MAX;       /* the entry comes again */
    *expected = b.base_offset;

    return pos;
}


/* Writes what is pending and cuts the index files to what is in them. */
static kl_rc_t
kl_recover_indexes(kl_log_t *log, kl_file_t *f, kl_pub_t *pub, bool close)
{
    int  fd;

    kl_index_write(log, f, pub, close);

    if ((fd = kl_file_index_fd(log, f)) == -1
        || ftruncate(fd, pub->index_n * KL_INDEX_ENTRY) != 0
        || kl_fdatasync(fd) != 0
        || (fd = kl_file_time_fd(log, f)) == -1
        || ftruncate(fd, pub->time_n * KL_TIME_ENTRY) != 0
        || kl_fdatasync(fd) != 0)
    {
        return kl_recover_io(log, errno, "index", f->base);
    }

    return KL_OK;
}


static kl_rc_t
kl_recover_first_ts(kl_recovery_t *r, kl_file_t *f, int64_t size)
{
    kf_batch_t   b;
    kl_cursor_t  c;

    if (size == 0) {
        return KL_OK;
    }

    kl_cursor_init(&c, r->log, f, 0, size);

    if (kl_cursor_peek(&c, &b) == KL_OK) {
        r->pub.first_ts_ms = b.max_timestamp_ms;
    }

    return KL_OK;
}


/* No CRC covers the epoch in a batch, so one that cannot be is passed over. */
static void
kl_recover_epoch(kl_recovery_t *r, const kf_batch_t *b)
{
    if (b->leader_epoch < 0 || r->seen_n == KL_SEEN_MAX
        || (r->leader_epoch >= 0 && b->leader_epoch > r->leader_epoch)
        || (r->seen_n > 0 && b->leader_epoch <= r->seen[r->seen_n - 1].epoch))
    {
        return;
    }

    r->seen[r->seen_n++] = (kl_epoch_t) { b->leader_epoch, b->base_offset };
}


/* Scans segment i; *end: the log ends in it. */
static kl_rc_t
kl_recover_scan(kl_recovery_t *r, size_t i, bool first, bool *end)
{
    int64_t      size, expected, start, interval;
    kl_rc_t      rc;
    kl_file_t   *f;
    kf_batch_t   b;
    struct stat  st;
    kl_pub_t    *pub = &r->pub;

    *end = i + 1 == r->n;

    rc = kl_file_open(r->log, r->bases[i], &f);
    if (rc != KL_OK) {
        return rc;
    }

    if (fstat(f->fd, &st) != 0) {
        kl_file_unref(f);
        return kl_recover_io(r->log, errno, "fstat", f->base);
    }

    size = st.st_size;

    interval = r->cf != NULL ? r->cf->index_interval_bytes : KL_INTERVAL;

    kl_pub_new_segment(pub, f->base);
    r->scan.len = 0;
    expected = f->base;
    start = first ? kl_recover_resume(r, f, size, &expected) : 0;

    if (start > 0) {
        (void) kl_recover_first_ts(r, f, size);
    }

    pub->active_size = start;
    pub->bytes += start;
    pub->log_end = expected;

    rc = kl_scan_settle(&r->scan, f, start, size);

    while (rc == KL_OK && pub->active_size < size) {

        rc = kl_scan_batch(&r->scan, f, pub->active_size, size, &b);

        if (rc == KL_OK
            && (b.base_offset < pub->log_end
                || (b.base_offset > pub->log_end
                    && (r->cf == NULL || !r->cf->compacted))))
        {
            rc = KL_CORRUPT;
        }

        if (rc == KL_CORRUPT) {
            rc = kl_recover_bad(r, i, f, pub->active_size, size);
            *end = true;
            break;
        }

        if (rc != KL_OK) {
            break;
        }

        kl_recover_epoch(r, &b);
        kl_index_note(r->log, f, pub, &b, interval);
    }

    if (rc == KL_OK && !*end && pub->log_end != r->bases[i + 1]
        && (pub->log_end > r->bases[i + 1] || r->cf == NULL
            || !r->cf->compacted))
    {
        /* the end of this segment never got to the disk */
        if (pub->log_end > r->bases[i + 1]) {
            rc = kl_recover_corrupt(r->log, f->base, size,
                                    "it runs into the next segment");
        } else {
            rc = kl_recover_bad(r, i, f, size, size);
        }

        *end = true;
    }

    if (rc == KL_OK) {
        rc = kl_recover_indexes(r->log, f, pub, !*end);
    }

    if (rc == KL_OK && kl_fdatasync(f->fd) != 0) {
        rc = kl_recover_io(r->log, errno, "fdatasync", f->base);
    }

    kl_file_unref(f);

    return rc;
}


/* A segment that needs no scan: its size, and indexes that could be right. */
static kl_rc_t
kl_recover_closed(kl_recovery_t *r, size_t i)
{
    int64_t      bytes, size;
    kl_rc_t      rc;
    kl_pub_t     pub;
    kl_file_t   *f;
    kf_batch_t   b;
    kl_cursor_t  c;
    struct stat  st, is, ts;

    rc = kl_file_open(r->log, r->bases[i], &f);
    if (rc != KL_OK) {
        return rc;
    }

    if (fstat(f->fd, &st) != 0 || kl_file_index_fd(r->log, f) == -1
        || kl_file_time_fd(r->log, f) == -1 || fstat(f->index_fd, &is) != 0
        || fstat(f->time_fd, &ts) != 0)
    {
        kl_file_unref(f);
        return kl_recover_io(r->log, errno, "fstat", r->bases[i]);
    }

    size = st.st_size;
    bytes = r->pub.bytes + size;

    if (is.st_size % KL_INDEX_ENTRY != 0 || ts.st_size % KL_TIME_ENTRY != 0
        || (ts.st_size == 0 && is.st_size == 0 && size > 0))
    {
        kl_say(r->log->env, KL_LOG_NOTICE, 0, "%s/%020" PRId64 ".log: the "
               "index is made anew", r->log->path, f->base);

        pub = r->pub;
        kl_pub_new_segment(&pub, f->base);
        kl_cursor_init(&c, r->log, f, 0, size);

        while (rc == KL_OK && c.pos < size) {
            rc = kl_cursor_next(&c, &b);

            if (rc == KL_OK) {
                kl_index_note(r->log, f, &pub, &b,
                              r->cf != NULL ? r->cf->index_interval_bytes
                                            : KL_INTERVAL);
                c.pos += b.size;
            }
        }

        if (rc == KL_OK) {
            rc = kl_recover_indexes(r->log, f, &pub, true);
        }
    }

    r->pub.bytes = bytes;
    kl_file_unref(f);

    return rc;
}


/* The active segment as a clean stop left it; KL_OUT_OF_RANGE: it is not. */
static kl_rc_t
kl_recover_clean(kl_recovery_t *r)
{
    int64_t      base = r->bases[r->n - 1];
    kl_rc_t      rc;
    uint8_t      e[KL_TIME_ENTRY];
    kl_pub_t    *pub = &r->pub;
    kl_file_t   *f;
    struct stat  st, is, ts;

    if (!r->mark.clean || r->reopened || r->mark.active_base != base
        || r->mark.recovery_point != r->mark.log_end)
    {
        return KL_OUT_OF_RANGE;
    }

    rc = kl_file_open(r->log, base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    if (fstat(f->fd, &st) != 0 || kl_file_index_fd(r->log, f) == -1
        || kl_file_time_fd(r->log, f) == -1 || fstat(f->index_fd, &is) != 0
        || fstat(f->time_fd, &ts) != 0)
    {
        kl_file_unref(f);
        return kl_recover_io(r->log, errno, "fstat", base);
    }

    if (st.st_size != r->mark.active_size
        || is.st_size != r->mark.index_n * KL_INDEX_ENTRY
        || ts.st_size != r->mark.time_n * KL_TIME_ENTRY)
    {
        kl_file_unref(f);
        return KL_OUT_OF_RANGE;
    }

    kl_pub_new_segment(pub, base);

    if (ts.st_size > 0
        && kl_pread(f->time_fd, e, KL_TIME_ENTRY, ts.st_size - KL_TIME_ENTRY)
           == KL_TIME_ENTRY)
    {
        pub->max.ts_ms = (int64_t) kf_be64(e);
        pub->max.offset = base + kf_be32(e + 8);
        pub->time_last_ms = pub->max.ts_ms;
    }

    rc = kl_recover_first_ts(r, f, st.st_size);

    pub->active_size = st.st_size;
    pub->bytes += st.st_size;
    pub->log_end = r->mark.log_end;
    pub->index_n = r->mark.index_n;
    pub->time_n = r->mark.time_n;

    kl_file_unref(f);

    return rc;
}


/* --- the whole ----------------------------------------------------------- */

static kl_rc_t
kl_recover_segments(kl_recovery_t *r)
{
    bool      end = false;
    size_t    i, first;
    int64_t   from;
    kl_rc_t   rc;
    kl_pub_t *pub = &r->pub;

    pub->first_base = r->bases[0];

    if (pub->recovery_point < pub->first_base) {
        pub->recovery_point = pub->first_base;
    }

    /* of the segment that was active at the checkpoint, the last entries of the
       indexes may be newer than it */
    from = pub->recovery_point;

    if (r->mark.active_base >= 0 && r->mark.active_base < from) {
        from = r->mark.active_base;
    }

    for (first = r->n - 1; first > 0 && r->bases[first] > from; first--) {
        /* void */
    }

    rc = kl_recover_clean(r);

    if (rc == KL_OK) {
        for (i = 0; rc == KL_OK && i + 1 < r->n; i++) {
            rc = kl_recover_closed(r, i);
        }

        pub->recovery_clean = 1;
        pub->dir_synced = pub->dir_gen;

        return rc;
    }

    if (rc != KL_OUT_OF_RANGE) {
        return rc;
    }

    rc = KL_OK;

    for (i = 0; rc == KL_OK && i < first; i++) {
        rc = kl_recover_closed(r, i);
    }

    for (i = first; rc == KL_OK && !end; i++) {
        rc = kl_recover_scan(r, i, i == first, &end);
    }

    if (rc != KL_OK) {
        return rc;
    }

    if (pub->log_end < pub->recovery_point) {
        return kl_recover_corrupt(r->log, pub->active_base, pub->active_size,
                   "the log ends before the recovery point");
    }

    return KL_OK;
}


static kl_rc_t
kl_recover_mark(kl_recovery_t *r)
{
    kl_rc_t  rc;

    rc = kl_checkpoint_read(r->log, &r->mark);

    if (rc == KL_CORRUPT) {
        kl_say(r->log->env, KL_LOG_WARN, 0, "%s/checkpoint is not readable, "
               "the whole log is checked", r->log->path);
    }

    if (rc == KL_STORAGE_ERROR) {
        return rc;
    }

    if (rc != KL_OK) {
        r->mark = (kl_checkpoint_t) { .active_base = -1 };
    }

    r->pub.recovery_made = rc == KL_OK;

    r->pub.recovery_point = r->mark.recovery_point;
    r->pub.recovery_start = r->mark.log_start;
    r->pub.log_start = r->mark.log_start;

    return KL_OK;
}


static kl_rc_t
kl_recover_existing(kl_recovery_t *r)
{
    kl_rc_t    rc;
    kl_log_t  *log = r->log;
    kl_pub_t  *pub = &r->pub;

    rc = kl_metadata_check(log);

    r->foreign = rc == KL_CORRUPT;

    if (rc == KL_OK) {
        rc = kl_recover_mark(r);
    }

    if (rc == KL_OK) {
        rc = kl_segments_list(log, &r->bases, &r->n);
    }

    if (rc != KL_OK) {
        return rc;
    }

    if (r->n == 0) {
        if (r->mark.recovery_point > r->mark.log_start) {
            return kl_recover_corrupt(log, r->mark.active_base, 0,
                                      "the segments are gone");
        }

        pub->first_base = pub->log_start;
        pub->log_end = pub->log_start;
        kl_pub_new_segment(pub, pub->log_start);

        rc = kl_file_create(log, pub->log_start);

    } else {
        rc = kl_recover_segments(r);
    }

    if (rc != KL_OK) {
        return rc;
    }

    if (pub->log_start < pub->first_base) {
        pub->log_start = pub->first_base;
    }

    if (pub->log_start > pub->log_end) {
        pub->log_start = pub->log_end;
    }

    kl_snapshot_drop_above(log, pub->log_end);

    rc = kl_epoch_load(log, pub, r->seen, r->seen_n);
    if (rc != KL_OK) {
        return rc;
    }

    pub->flushed = pub->log_end;
    pub->flushed_base = pub->active_base;
    pub->flushed_pos = pub->active_size;

    if (pub->dir_synced != pub->dir_gen) {
        if (kl_sync_dir(log->path) != 0 || kl_sync_dir(log->env->dir) != 0) {
            kl_say(log->env, KL_LOG_CRIT, errno, "%s: fsync of the directory "
                   "failed", log->path);
            return KL_STORAGE_ERROR;
        }

        pub->dir_synced = pub->dir_gen;
    }

    return KL_OK;
}


static kl_rc_t
kl_recover_new(kl_recovery_t *r)
{
    kl_rc_t  rc;

    rc = kl_metadata_write(r->log);

    if (rc == KL_OK) {
        rc = kl_file_create(r->log, 0);
    }

    kl_pub_new_segment(&r->pub, 0);

    return rc;
}


/* The producers, and then everybody may come in. */
static kl_rc_t
kl_recover_publish(kl_recovery_t *r)
{
    kl_rc_t     rc;
    kl_pub_t    now;
    kl_part_t  *p = r->log->part;

    kl_part_lock(p);
    kl_pub_load(p, &now);

    rc = KL_OK;

    if ((uint64_t) now.incarnation != r->log->incarnation
        || !kl_is_bound(r->log)
        || (now.state != KL_NEW && now.state != KL_FAILED_STATE))
    {
        rc = KL_GONE;
    }

    if (rc == KL_OK) {
        rc = kl_producers_rebuild(r->log, &r->pub, &r->mark);
    }

    if (rc == KL_OK) {
        r->pub.state = KL_OPEN;
        p->needs_repair = 0;

        if (p->least_epoch < r->leader_epoch) {
            p->least_epoch = r->leader_epoch;
        }

        kl_pub_store(p, &r->pub);
        p->producers_dirty = 0;
    }

    kl_part_unlock(p);

    return rc;
}


kl_rc_t
kl_open_part(kl_log_t *log, int32_t leader_epoch, const kl_config_t *cf,
    bool *truncated)
{
    bool            made;
    kl_rc_t         rc;
    kl_part_t      *p = log->part;
    kl_recovery_t  *r;

    *truncated = false;

    r = malloc(sizeof(kl_recovery_t));
    if (r == NULL) {
        return KL_NO_MEMORY;
    }

    r->log = log;
    r->cf = cf;
    r->bases = NULL;
    r->n = 0;
    r->leader_epoch = leader_epoch;
    r->mark = (kl_checkpoint_t) { .active_base = -1 };
    r->seen_n = 0;
    r->truncated = false;
    r->foreign = false;
    kl_scan_init(&r->scan, log);

    /* an append that was under way when the partition failed has ended */
    kl_part_lock(p);
    kl_pub_load(p, &r->pub);
    kl_part_unlock(p);

    r->reopened = r->pub.state == KL_FAILED_STATE;
    kl_files_drop(log->env, log->slot, 0, true);

    r->pub = (kl_pub_t) {
        .incarnation = r->pub.incarnation,
        .first_open_txn = INT64_MAX,
        .leader_epoch = -1,
        .aborted_last = -1,
        .open_gen = r->pub.open_gen + 1,
        .segments_gen = r->pub.segments_gen + 1,
        .dir_gen = r->pub.dir_gen + 1,
        .epoch_gen = r->pub.epoch_gen + 1,
    };

    made = false;
    errno = kl_fault("mkdir");

    if (errno == 0 && mkdir(log->path, 0755) == 0) {
        made = true;
        rc = kl_recover_new(r);

    } else if (errno == EEXIST) {
        rc = kl_recover_existing(r);

    } else {
        kl_say(log->env, KL_LOG_CRIT, errno, "%s: mkdir failed", log->path);
        rc = KL_STORAGE_ERROR;
    }

    if (rc == KL_OK) {
        rc = kl_recover_publish(r);
    }

    if (rc == KL_OK) {
        *truncated = r->truncated;

    } else if (rc == KL_GONE) {
        /* deleted meanwhile, and its directory perhaps looked for before */
        if (made) {
            (void) kl_remove_ours(log);
        }

    } else if (r->foreign) {
        /* a deleted topic's, most likely: then it will go */
        if (log->env->foreign) {
            log->env->foreign(log->env->log_ctx);
        }

    } else {
        kl_fail(log, r->pub.open_gen - 1, 0, "recovery");
    }

    free(r->bases);
    free(r);

    return rc;
}


kl_rc_t
kl_recover(kl_log_t *log, int32_t leader_epoch, const kl_config_t *cf,
    bool *truncated)
{
    kl_rc_t       rc;
    kl_offsets_t  o;

    *truncated = false;

    kl_jobs_lock(log->part);

    kl_snapshot(log->part, &o);

    if (o.incarnation != log->incarnation || !kl_is_bound(log)) {
        rc = KL_GONE;

    } else if (o.state == KL_NEW || o.state == KL_FAILED_STATE) {
        rc = kl_open_part(log, leader_epoch, cf, truncated);

    } else {
        rc = o.state == KL_OPEN ? KL_OK : KL_GONE;
    }

    kl_jobs_unlock(log->part);

    return rc;
}
