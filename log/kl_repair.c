/*
 * A process died with the partition's lock.  What it published is whole; the
 * rest is taken back: bytes past the published end, index entries past the
 * published counts, a segment that it began but did not publish.  If it was
 * inside a change of the producers, these are read again from the log.
 */

#include <sys/stat.h>

#include "kl_internal.h"


static int
kl_repair_cut(int fd, int64_t size)
{
    struct stat  st;

    if (fd == -1 || fstat(fd, &st) != 0) {
        return -1;
    }

    return st.st_size > size ? ftruncate(fd, size) : 0;
}


static kl_rc_t
kl_repair_files(kl_log_t *log, kl_pub_t *pub)
{
    size_t       i, n;
    int64_t     *bases;
    kl_rc_t      rc;
    kl_file_t   *f;
    struct stat  st;
    int          txn_fd;

    rc = kl_segments_list(log, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    for (i = 0; i < n; i++) {
        if (bases[i] > pub->active_base
            && kl_file_unlink(log, bases[i]) != 0)
        {
            rc = KL_STORAGE_ERROR;
        }
    }

    free(bases);

    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_file_get(log, pub, pub->active_base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    txn_fd = kl_file_txn_fd(log, f, false);

    if (fstat(f->fd, &st) != 0 || st.st_size < pub->active_size
        || kl_repair_cut(f->fd, pub->active_size) != 0
        || kl_repair_cut(kl_file_index_fd(log, f),
                         pub->index_n * KL_INDEX_ENTRY) != 0
        || kl_repair_cut(kl_file_time_fd(log, f),
                         pub->time_n * KL_TIME_ENTRY) != 0
        || ((txn_fd != -1 || pub->txn_n > 0 || errno != ENOENT)
            && kl_repair_cut(txn_fd, pub->txn_n * KL_TXN_ENTRY) != 0))
    {
        rc = KL_STORAGE_ERROR;
    }

    kl_file_unref(f);

    return rc;
}


kl_rc_t
kl_repair(kl_log_t *log, kl_pub_t *pub)
{
    int         err;
    kl_rc_t     rc;
    kl_part_t  *p = log->part;

    kl_say(log->env, KL_LOG_NOTICE, 0, "partition %s: a process died inside an "
           "append, back to offset %" PRId64, log->name, pub->log_end);

    rc = kl_repair_files(log, pub);
    err = errno;

    if (rc == KL_OK && p->producers_dirty) {
        rc = kl_producers_rebuild(log, pub, NULL);
        err = errno;

        if (rc == KL_OK) {
            kl_pub_store(p, pub);       /* the open transactions */
            p->producers_dirty = 0;
        }
    }

    if (rc != KL_OK) {
        kl_fail_locked(log, pub, err, "repair");
        rc = KL_FAILED;
    }

    atomic_store(&p->needs_repair, 0);

    return rc;
}
