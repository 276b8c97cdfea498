/*
 * The partition's own file `checkpoint`: below which offset recovery need not
 * look, where the log begins, and after a clean stop where it ends.  Text, one
 * "name value" a line, the last line a CRC-32C of the ones before.
 *
 * A clean mark is believed only while the active segment has exactly the size
 * that is written here, so that an append needs not take it away.
 *
 * Version 1 had no count of the transaction index.
 */

#include "../codec/kf_crc32c.h"
#include "kl_internal.h"


#define KL_CHECKPOINT_FILE  "checkpoint"
#define KL_CHECKPOINT_MAX   4096

static const char  kl_checkpoint_format[] =
    "version 2\n"
    "recovery_point %" PRId64 "\n"
    "log_start %" PRId64 "\n"
    "log_end %" PRId64 "\n"
    "active_base %" PRId64 "\n"
    "active_size %" PRId64 "\n"
    "index_entries %" PRId64 "\n"
    "timeindex_entries %" PRId64 "\n"
    "txnindex_entries %" PRId64 "\n"
    "clean %d\n";


kl_rc_t
kl_checkpoint_read(kl_log_t *log, kl_checkpoint_t *c)
{
    int       clean = 0, used, n;
    char     *text;
    size_t    len, body;
    kl_rc_t   rc;
    uint32_t  crc;

    text = (char *) kl_read_file(log->path, KL_CHECKPOINT_FILE,
                                 KL_CHECKPOINT_MAX, &len);
    if (text == NULL) {
        if (errno == ENOENT) {
            return KL_OUT_OF_RANGE;
        }

        if (errno == EFBIG) {
            return KL_CORRUPT;
        }

        kl_say(log->env, KL_LOG_CRIT, errno, "%s/" KL_CHECKPOINT_FILE
               ": read failed", log->path);
        return KL_STORAGE_ERROR;
    }

    rc = KL_CORRUPT;
    used = 0;
    n = 0;

    /* the head of the format, up to where the CRC line begins */
    if (strlen(text) == len) {
        n = sscanf(text, "version 2 recovery_point %" SCNd64
                   " log_start %" SCNd64 " log_end %" SCNd64
                   " active_base %" SCNd64 " active_size %" SCNd64
                   " index_entries %" SCNd64 " timeindex_entries %" SCNd64
                   " txnindex_entries %" SCNd64 " clean %d%n",
                   &c->recovery_point, &c->log_start, &c->log_end,
                   &c->active_base, &c->active_size, &c->index_n, &c->time_n,
                   &c->txn_n, &clean, &used);
    }

    if (n == 0 && strlen(text) == len) {
        c->txn_n = -1;
        n = 1 + sscanf(text, "version 1 recovery_point %" SCNd64
                       " log_start %" SCNd64 " log_end %" SCNd64
                       " active_base %" SCNd64 " active_size %" SCNd64
                       " index_entries %" SCNd64 " timeindex_entries %" SCNd64
                       " clean %d%n", &c->recovery_point, &c->log_start,
                       &c->log_end, &c->active_base, &c->active_size,
                       &c->index_n, &c->time_n, &clean, &used);
    }

    if (n == 9) {
        body = (size_t) used + 1;

        if (body < len && sscanf(text + body, "crc %" SCNx32, &crc) == 1
            && crc == kf_crc32c(0, text, body)
            && c->recovery_point >= 0 && c->log_start >= 0
            && c->active_base >= 0 && c->active_size >= 0
            && c->index_n >= 0 && c->time_n >= 0 && c->txn_n >= -1)
        {
            c->clean = clean == 1;
            rc = KL_OK;
        }
    }

    free(text);

    return rc;
}


kl_rc_t
kl_checkpoint_write(kl_log_t *log, const kl_checkpoint_t *c)
{
    int   n;
    char  text[KL_CHECKPOINT_MAX];

    n = snprintf(text, sizeof(text), kl_checkpoint_format, c->recovery_point,
                 c->log_start, c->log_end, c->active_base, c->active_size,
                 c->index_n, c->time_n, c->txn_n, c->clean);

    n += snprintf(text + n, sizeof(text) - (size_t) n, "crc %08" PRIx32 "\n",
                  kf_crc32c(0, text, (size_t) n));

    if (kl_write_file(log->path, KL_CHECKPOINT_FILE, text, (size_t) n, true)
        != 0)
    {
        kl_say(log->env, KL_LOG_ERR, errno, "%s/" KL_CHECKPOINT_FILE
               ": write failed", log->path);
        return KL_STORAGE_ERROR;
    }

    return KL_OK;
}


static void
kl_checkpoint_fill(kl_checkpoint_t *c, const kl_pub_t *pub)
{
    *c = (kl_checkpoint_t) {
        .recovery_point = pub->log_end,
        .log_start = pub->log_start,
        .log_end = pub->log_end,
        .active_base = pub->active_base,
        .active_size = pub->active_size,
        .index_n = pub->index_n,
        .time_n = pub->time_n,
        .txn_n = pub->txn_n,
    };
}


/* The indexes of every segment that was active since the last checkpoint. */
static kl_rc_t
kl_checkpoint_indexes(kl_log_t *log, const kl_pub_t *pub)
{
    int         fd;
    size_t      i, n;
    int64_t    *bases;
    kl_rc_t     rc;
    kl_file_t  *f;

    /* the one that was active then got its last entries when it was closed,
       also if nothing was appended to it any more */
    rc = kl_segments(log, pub,
                     pub->recovery_point > 0 ? pub->recovery_point - 1 : 0,
                     &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    for (i = 0; rc == KL_OK && i < n; i++) {
        rc = kl_file_get(log, pub, bases[i], &f);
        if (rc != KL_OK) {
            break;
        }

        if ((fd = kl_file_index_fd(log, f)) == -1 || kl_fdatasync(fd) != 0
            || (fd = kl_file_time_fd(log, f)) == -1 || kl_fdatasync(fd) != 0)
        {
            kl_say(log->env, KL_LOG_ERR, errno, "%s: index of segment %020"
                   PRId64 " cannot be synced", log->path, bases[i]);
            rc = KL_STORAGE_ERROR;
        }

        fd = rc == KL_OK ? kl_file_txn_fd(log, f, false) : -1;

        if (rc == KL_OK
            && ((fd == -1 && errno != ENOENT)
                || (fd != -1 && kl_fdatasync(fd) != 0)))
        {
            kl_say(log->env, KL_LOG_ERR, errno, "%s/%020" PRId64 ".txnindex: "
                   "cannot be synced", log->path, bases[i]);
            rc = KL_STORAGE_ERROR;
        }

        kl_file_unref(f);
    }

    free(bases);

    return rc;
}


kl_rc_t
kl_checkpoint_locked(kl_log_t *log, bool clean)
{
    bool              rolled;
    size_t            len = 0;
    int64_t           flushed;
    kl_rc_t           rc;
    uint8_t          *producers;
    kl_pub_t          pub, now;
    kl_file_t        *f;
    kl_checkpoint_t   c;

    kl_pub_load(log->part, &pub);

    if (pub.recovery_point == pub.log_end && pub.recovery_start == pub.log_start
        && (pub.recovery_clean || !clean) && pub.dir_synced == pub.dir_gen
        && pub.recovery_made)
    {
        return kl_state_rc(log, &pub);
    }

    /* most of it is flushed before the lock is taken */
    rc = kl_flush_more(log, &flushed, &rolled);
    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_enter(log, NULL, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    producers = NULL;
    rc = kl_file_get(log, &pub, pub.active_base, &f);

    if (rc == KL_OK) {
        kl_index_write(log, f, &pub, clean);
        kl_index_cut(log, f, &pub);
        kl_pub_store(log->part, &pub);
        kl_file_unref(f);

        producers = kl_producers_dump(log, &len);

        if (producers == NULL) {
            rc = KL_NO_MEMORY;
        }
    }

    kl_part_unlock(log->part);

    if (rc != KL_OK) {
        return rc;
    }

    rc = kl_flush_more(log, &flushed, &rolled);

    if (rc == KL_OK) {
        rc = kl_checkpoint_indexes(log, &pub);
    }

    if (rc == KL_OK) {
        rc = kl_snapshot_write(log, pub.log_end, producers, len);
    }

    free(producers);

    if (rc != KL_OK) {
        return rc;
    }

    kl_checkpoint_fill(&c, &pub);
    c.clean = clean;

    /* DeleteRecords may have been faster; it never goes back */
    kl_pub_load(log->part, &now);

    if (now.open_gen != pub.open_gen) {
        return KL_FAILED;
    }

    if (now.log_start > c.log_start) {
        c.log_start = now.log_start;
    }

    rc = kl_checkpoint_write(log, &c);
    if (rc != KL_OK) {
        return rc;
    }

    kl_snapshot_tidy(log, pub.log_end);

    rc = kl_enter(log, NULL, &now);
    if (rc != KL_OK) {
        return rc;
    }

    if (now.open_gen == pub.open_gen) {
        now.recovery_point = c.recovery_point;
        now.recovery_start = c.log_start;
        now.recovery_clean = clean;
        now.recovery_made = 1;
        kl_pub_store(log->part, &now);
    }

    kl_part_unlock(log->part);

    return KL_OK;
}


kl_rc_t
kl_checkpoint(kl_log_t *log, bool clean)
{
    kl_rc_t   rc;
    kl_pub_t  pub;

    /* opens a partition that is new, which takes the jobs mutex itself */
    rc = kl_look(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    kl_jobs_lock(log->part);
    rc = kl_checkpoint_locked(log, clean);
    kl_jobs_unlock(log->part);

    return rc;
}
