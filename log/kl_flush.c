/*
 * Making appends durable.
 *
 * A flush has no owner: it notes the end, syncs the files that have bytes
 * below it, and raises `flushed` to the noted end unless another was faster.
 * What was written through any process' descriptor is synced through any
 * other's, so a flush opens the files it needs by name.
 */

#include "kl_internal.h"


/* New names: the directory, its parent if it is new itself, and the two small
 * files that are renamed into place without a sync. */
static int
kl_flush_names(kl_log_t *log, const kl_pub_t *pub)
{
    int                 i, fd, rc;
    char                path[KL_PATH_MAX];
    static const char  *name[] = { "partition.metadata",
                                   "leader-epoch-checkpoint" };

    for (i = 0; i < 2; i++) {
        if (kl_path(path, log->path, name[i]) != 0) {
            return -1;
        }

        fd = kl_open_read(path);
        if (fd == -1) {
            if (errno == ENOENT) {
                continue;
            }
            return -1;
        }

        rc = kl_fdatasync(fd);
        close(fd);

        if (rc != 0) {
            return -1;
        }
    }

    if (kl_sync_dir(log->path) != 0) {
        return -1;
    }

    return pub->dir_synced == 0 ? kl_sync_dir(log->env->dir) : 0;
}


kl_rc_t
kl_flush_data(kl_log_t *log, int64_t *flushed, bool *rolled)
{
    size_t      i, n;
    int64_t    *bases;
    kl_rc_t     rc;
    kl_pub_t    pub, now;
    kl_file_t  *f;

    *rolled = false;

    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    *flushed = pub.flushed;

    if (pub.flushed == pub.log_end && pub.dir_synced == pub.dir_gen) {
        return KL_OK;
    }

    rc = kl_segments(log, &pub, pub.flushed_base, &bases, &n);

    for (i = 0; rc == KL_OK && i < n; i++) {

        rc = kl_file_get(log, &pub, bases[i], &f);

        if (rc != KL_OK) {
            kl_pub_load(log->part, &now);

            if (kl_state_rc(log, &now) == KL_OK && bases[i] < now.first_base) {
                /* retention was faster */
                rc = KL_OK;
                continue;
            }

            break;
        }

        if (kl_fdatasync(f->fd) != 0) {
            kl_fail(log, pub.open_gen, errno, "fdatasync");
            rc = KL_STORAGE_ERROR;
        }

        kl_file_unref(f);
    }

    free(bases);

    if (rc != KL_OK) {
        return rc;
    }

    if (pub.dir_synced != pub.dir_gen && kl_flush_names(log, &pub) != 0) {
        kl_fail(log, pub.open_gen, errno, "fsync of the directory");
        return KL_STORAGE_ERROR;
    }

    *rolled = pub.flushed_base != pub.active_base;

    rc = kl_enter(log, NULL, &now);
    if (rc != KL_OK) {
        return rc;
    }

    if (now.open_gen != pub.open_gen) {
        /* it was reopened meanwhile, which flushes */
        *flushed = now.flushed;
        kl_part_unlock(log->part);
        return KL_OK;
    }

    if (pub.log_end > now.flushed || pub.dir_gen > now.dir_synced) {

        if (pub.log_end > now.flushed) {
            now.flushed = pub.log_end;
            now.flushed_base = pub.active_base;
            now.flushed_pos = pub.active_size;
        }

        if (pub.dir_gen > now.dir_synced) {
            now.dir_synced = pub.dir_gen;
        }

        kl_pub_store(log->part, &now);
    }

    *flushed = now.flushed;

    kl_part_unlock(log->part);

    return KL_OK;
}


kl_rc_t
kl_flush_more(kl_log_t *log, int64_t *flushed, bool *rolled)
{
    kl_rc_t  rc;

    rc = kl_flush_data(log, flushed, rolled);

    if (rc == KL_OK && log->env->flushed) {
        log->env->flushed(log->env->log_ctx, log->slot);
    }

    return rc;
}


kl_rc_t
kl_flush(kl_log_t *log, int64_t *flushed)
{
    bool     rolled;
    kl_rc_t  rc;

    *flushed = -1;

    rc = kl_flush_more(log, flushed, &rolled);

    if (rc == KL_OK && rolled) {
        /* recovery shall not have to scan closed segments; if this fails it
           will, and that is all */
        (void) kl_checkpoint(log, false);
    }

    return rc;
}
