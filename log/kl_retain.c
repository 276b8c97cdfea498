/*
 * Shortening a log from its start: retention, DeleteRecords, the journal's own
 * cleaning.
 *
 * The new start is published first, then the files go, the oldest first, so
 * that what is left after a crash is always one piece.  Files that a slice has
 * open live as long as the slice.
 */

#include <sys/stat.h>

#include "kl_internal.h"


typedef struct {
    int64_t  keep;                      /* base of the first segment kept */
    int64_t  bytes;                     /* of those that go */
    size_t   n;
} kl_cut_t;


/*
 * Publishes the new start and removes the files: all that are below it, also
 * those of an earlier cut that did not come to its end, or a later one would
 * leave a gap.  The jobs mutex is held.
 */
static kl_rc_t
kl_retain_cut(kl_log_t *log, const kl_pub_t *old, const kl_cut_t *cut)
{
    size_t    i, n;
    int64_t  *bases;
    kl_rc_t   rc;
    kl_pub_t  pub;

    rc = kl_enter(log, NULL, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    if (pub.open_gen != old->open_gen) {
        kl_part_unlock(log->part);
        return KL_FAILED;
    }

    pub.first_base = cut->keep;
    pub.bytes -= cut->bytes;
    pub.segments_gen++;
    pub.dir_gen++;

    if (pub.log_start < cut->keep) {
        pub.log_start = cut->keep;
        kl_epoch_trim(log, &pub);
    }

    if (pub.flushed < cut->keep) {
        pub.flushed = cut->keep;
        pub.flushed_base = cut->keep;
        pub.flushed_pos = 0;
    }

    kl_pub_store(log->part, &pub);
    kl_part_unlock(log->part);

    (void) kl_fault("retain.published");

    rc = kl_segments_list(log, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    for (i = 0; i < n && bases[i] < cut->keep; i++) {
        if (kl_file_unlink(log, bases[i]) != 0) {
            break;
        }

        (void) kl_fault("retain.unlinked");
    }

    free(bases);

    kl_files_drop(log->env, log->slot, cut->keep, false);

    return KL_OK;
}


static int64_t
kl_retain_ts(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f)
{
    int64_t      ts_ms;
    struct stat  st;

    (void) kl_segment_max_ts(log, pub, f, &ts_ms);

    if (ts_ms < 0 && fstat(f->fd, &st) == 0) {
        ts_ms = (int64_t) st.st_mtime * 1000;
    }

    return ts_ms;
}


/*
 * How many of the oldest segments may go.  active: so may the last one, once
 * it is rolled.
 */
static kl_rc_t
kl_retain_choose(kl_log_t *log, const kl_pub_t *pub, const kl_config_t *cf,
    int64_t now_ms, int64_t upto, const int64_t *bases, size_t n,
    kl_cut_t *cut, bool *active)
{
    bool        due;
    size_t      i;
    int64_t     size, next;
    kl_rc_t     rc;
    kl_file_t  *f;

    *cut = (kl_cut_t) { .keep = bases[0] };
    *active = false;

    /* an open transaction's records stay; those that come meanwhile are above
       log_end; those that DeleteRecords took need not stay */
    if (pub->first_open_txn < upto) {
        upto = pub->first_open_txn < pub->log_start ? pub->log_start
                                                    : pub->first_open_txn;
    }

    for (i = 0; i < n; i++) {
        next = i + 1 < n ? bases[i + 1] : pub->log_end;

        if (next > upto) {
            break;
        }

        rc = kl_file_get(log, pub, bases[i], &f);
        if (rc != KL_OK) {
            return rc;
        }

        rc = kl_file_size(log, pub, f, &size);

        if (rc != KL_OK || (i + 1 == n && size == 0)) {
            kl_file_unref(f);
            return rc;
        }

        due = next <= pub->log_start;

        if (cf != NULL && !due) {
            due = (cf->retention_bytes >= 0
                   && pub->bytes - cut->bytes - size >= cf->retention_bytes)
                  || (cf->retention_ms >= 0
                      && now_ms - kl_retain_ts(log, pub, f)
                         > cf->retention_ms);
        }

        kl_file_unref(f);

        if (!due) {
            break;
        }

        if (i + 1 == n) {
            *active = true;
        }

        cut->keep = next;
        cut->bytes += size;
        cut->n++;
    }

    return KL_OK;
}


static kl_rc_t
kl_retain_roll(kl_log_t *log, kl_pub_t *old, int64_t now_ms, bool *rolled)
{
    kl_rc_t   rc;
    kl_pub_t  pub;

    *rolled = false;

    rc = kl_enter(log, NULL, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    /* not when something came in since it was looked at */
    if (pub.open_gen == old->open_gen && pub.log_end == old->log_end
        && pub.active_size > 0)
    {
        rc = kl_roll(log, &pub, now_ms);
        *rolled = rc == KL_OK;
        *old = pub;
    }

    kl_part_unlock(log->part);

    return rc;
}


static kl_rc_t
kl_retain_segments(kl_log_t *log, const kl_config_t *cf, int64_t now_ms,
    int64_t upto, uint32_t *removed)
{
    bool       active, rolled;
    size_t     n;
    int64_t   *bases;
    kl_rc_t    rc;
    kl_pub_t   pub;
    kl_cut_t   cut;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_segments(log, &pub, pub.first_base, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_retain_choose(log, &pub, cf, now_ms, upto, bases, n, &cut,
                          &active);

    if (rc == KL_OK && active) {
        rc = kl_retain_roll(log, &pub, now_ms, &rolled);

        if (rc == KL_OK && !rolled) {
            cut.n = 0;                  /* next time */
        }
    }

    if (rc == KL_OK && cut.n > 0) {
        rc = kl_retain_cut(log, &pub, &cut);

        if (rc == KL_OK) {
            *removed = (uint32_t) cut.n;
        }
    }

    free(bases);

    return rc;
}


kl_rc_t
kl_retain(kl_log_t *log, const kl_config_t *cf, int64_t now_ms, int64_t upto,
    uint32_t *removed)
{
    kl_rc_t   rc;
    kl_pub_t  pub;

    *removed = 0;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_producers_expire(log, cf, now_ms);
    if (rc != KL_OK) {
        return rc;
    }

    kl_jobs_lock(log->part);
    rc = kl_retain_segments(log, cf, now_ms, upto, removed);
    kl_jobs_unlock(log->part);

    return rc;
}


kl_rc_t
kl_drop_below(kl_log_t *log, int64_t offset)
{
    size_t       i, n = 0;
    int64_t     *bases = NULL, size;
    kl_rc_t      rc;
    kl_pub_t     pub;
    kl_cut_t     cut;
    kl_file_t   *f;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    kl_jobs_lock(log->part);

    rc = kl_look(log, &pub);

    if (rc == KL_OK) {
        rc = kl_segments(log, &pub, pub.first_base, &bases, &n);
    }

    if (rc != KL_OK) {
        kl_jobs_unlock(log->part);
        return rc;
    }

    cut = (kl_cut_t) { .keep = bases[0] };

    for (i = 0; i + 1 < n && bases[i + 1] <= offset; i++) {
        rc = kl_file_get(log, &pub, bases[i], &f);

        if (rc != KL_OK) {
            break;
        }

        rc = kl_file_size(log, &pub, f, &size);
        kl_file_unref(f);

        if (rc != KL_OK) {
            break;
        }

        cut.keep = bases[i + 1];
        cut.bytes += size;
        cut.n++;
    }

    if (rc == KL_OK && cut.n > 0) {
        rc = kl_retain_cut(log, &pub, &cut);
    }

    free(bases);
    kl_jobs_unlock(log->part);

    return rc;
}


/*
 * The start goes into the checkpoint file, whose recovery point stays what it
 * was.
 */
static kl_rc_t
kl_delete_durably(kl_log_t *log, int64_t offset)
{
    kl_rc_t          rc;
    kl_checkpoint_t  c;

    rc = kl_checkpoint_read(log, &c);

    if (rc == KL_OK) {
        c.log_start = offset;

        return kl_checkpoint_write(log, &c);
    }

    return rc == KL_STORAGE_ERROR ? rc : kl_checkpoint_locked(log, false);
}


kl_rc_t
kl_delete_records(kl_log_t *log, int64_t offset, int64_t *log_start)
{
    bool      rolled;
    int64_t   flushed;
    kl_rc_t   rc;
    kl_pub_t  pub;

    *log_start = -1;

    /* what is given up must not come back with other records in its place */
    rc = kl_flush_more(log, &flushed, &rolled);
    if (rc != KL_OK) {
        return rc;
    }

    kl_jobs_lock(log->part);

    rc = kl_enter(log, NULL, &pub);

    if (rc == KL_OK) {
        if (offset < 0 || offset > pub.log_end || offset > pub.flushed) {
            rc = KL_OUT_OF_RANGE;

        } else if (offset > pub.log_start) {
            pub.log_start = offset;
            kl_epoch_trim(log, &pub);
            kl_pub_store(log->part, &pub);
        }

        kl_part_unlock(log->part);
    }

    if (rc == KL_OK && pub.log_start == offset) {
        rc = kl_delete_durably(log, offset);
    }

    if (rc == KL_OK) {
        *log_start = pub.log_start;
    }

    kl_jobs_unlock(log->part);

    return rc;
}
