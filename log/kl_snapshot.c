/*
 * Producer snapshots, Kafka's <offset>.snapshot: the state of all producers
 * before that offset.  A producer with several batches in its window is there
 * several times, the oldest first: Kafka keeps the last, we keep all.
 */

#include <dirent.h>

#include "../codec/kf_crc32c.h"
#include "kl_internal.h"


#define KL_SNAPSHOT_VERSION  1
#define KL_SNAPSHOT_MAX      (256 * 1024 * 1024)
#define KL_SNAPSHOT_CRC_AT   2
#define KL_SNAPSHOT_BODY     6          /* the CRC covers all from here */


static void
kl_snapshot_name(char *name, size_t size, int64_t offset)
{
    snprintf(name, size, "%020" PRId64 ".snapshot", offset);
}


kl_rc_t
kl_snapshot_write(kl_log_t *log, int64_t offset, uint8_t *data, size_t len)
{
    char  name[64];

    kf_put_be16(data, KL_SNAPSHOT_VERSION);
    kf_put_be32(data + KL_SNAPSHOT_BODY,
             (uint32_t) ((len - KL_SNAPSHOT_HEAD) / KL_SNAPSHOT_ENTRY));
    kf_put_be32(data + KL_SNAPSHOT_CRC_AT,
             kf_crc32c(0, data + KL_SNAPSHOT_BODY, len - KL_SNAPSHOT_BODY));

    kl_snapshot_name(name, sizeof(name), offset);

    if (kl_write_file(log->path, name, data, len, true) != 0) {
        kl_say(log->env, KL_LOG_ERR, errno, "%s/%s: write failed", log->path,
               name);
        return KL_STORAGE_ERROR;
    }

    return KL_OK;
}


static bool
kl_snapshot_is_good(const uint8_t *data, size_t len)
{
    return len >= KL_SNAPSHOT_HEAD
           && data[0] == 0 && data[1] == KL_SNAPSHOT_VERSION
           && (len - KL_SNAPSHOT_HEAD) % KL_SNAPSHOT_ENTRY == 0
           && (len - KL_SNAPSHOT_HEAD) / KL_SNAPSHOT_ENTRY
              == kf_be32(data + KL_SNAPSHOT_BODY)
           && kf_be32(data + KL_SNAPSHOT_CRC_AT)
              == kf_crc32c(0, data + KL_SNAPSHOT_BODY, len - KL_SNAPSHOT_BODY);
}


/* The greatest offset < below that has a snapshot, or -1. */
static int64_t
kl_snapshot_before(kl_log_t *log, int64_t below)
{
    DIR            *dir;
    int64_t         offset, best = -1;
    struct dirent  *de;

    dir = opendir(log->path);
    if (dir == NULL) {
        return -1;
    }

    while ((de = readdir(dir)) != NULL) {
        if (strlen(de->d_name) == 29) {
            offset = kl_parse_base(de->d_name, ".snapshot");

            if (offset > best && offset < below) {
                best = offset;
            }
        }
    }

    closedir(dir);

    return best;
}


/* Loads the newest good snapshot <= pub->log_end; *from: its offset, or the
 * log's start. */
static kl_rc_t
kl_snapshot_load(kl_log_t *log, const kl_pub_t *pub, int64_t *from)
{
    char      name[64];
    size_t    len, at;
    int64_t   offset;
    kl_rc_t   rc = KL_OK;
    uint8_t  *data;

    *from = pub->first_base;

    for (offset = pub->log_end + 1; /* void */; /* void */) {
        offset = kl_snapshot_before(log, offset);

        if (offset < 0) {
            return KL_OK;
        }

        kl_snapshot_name(name, sizeof(name), offset);
        data = kl_read_file(log->path, name, KL_SNAPSHOT_MAX, &len);

        if (data != NULL && kl_snapshot_is_good(data, len)) {
            break;
        }

        kl_say(log->env, KL_LOG_WARN, data ? 0 : errno,
               "%s/%s: not a good snapshot, passed over", log->path, name);
        free(data);
    }

    for (at = KL_SNAPSHOT_HEAD; rc == KL_OK && at < len;
         at += KL_SNAPSHOT_ENTRY)
    {
        rc = kl_producer_load(log, data + at);
    }

    free(data);

    if (offset > *from) {
        *from = offset;
    }

    return rc;
}


static kl_rc_t
kl_producer_replay(kl_log_t *log, kl_pub_t *pub, kl_cursor_t *c,
    const kf_batch_t *b, kl_txn_writer_t *w)
{
    bool            reserved = false;
    bool            commit = true;
    kl_rc_t         rc;
    int32_t         coordinator_epoch = -1;
    ssize_t         n;
    kl_append_t     res = { 0 };
    kl_producer_t  *e;
    uint8_t         control[KF_CONTROL_BATCH];

    if (b->producer_id < 0) {
        return KL_OK;
    }

    /* what is in the log was accepted; only the entry is wanted here */
    (void) kl_producer_check(log, b, false, &res, &e);

    if (e == NULL) {
        e = kl_producer_reserve(log, b->producer_id);
        if (e == NULL) {
            return KL_NO_MEMORY;
        }
        reserved = true;
    }

    if ((b->attributes & KF_ATTR_CONTROL) && b->size == KF_CONTROL_BATCH) {
        n = kl_pread(c->file->fd, control, sizeof(control), c->pos);

        if (n == (ssize_t) sizeof(control)) {
            (void) kf_batch_control_read(control, b, &commit,
                                         &coordinator_epoch);
        }
    }

    if (w != NULL && !commit && e->txn_first >= 0) {
        rc = kl_txn_index_put(w, c->file->base, e, b->base_offset);
        if (rc != KL_OK) {
            return rc;
        }
    }

    kl_producer_note(log, e, reserved, b, coordinator_epoch, 0, pub);

    return KL_OK;
}


/* The batches from an offset on. */
static kl_rc_t
kl_producers_replay(kl_log_t *log, kl_pub_t *pub, int64_t from,
    kl_txn_writer_t *w)
{
    size_t       i, n;
    int64_t     *bases, size, ignored;
    kl_rc_t      rc;
    kf_batch_t   b;
    kl_file_t   *f;
    kl_cursor_t  c;

    if (from >= pub->log_end) {
        return KL_OK;
    }

    rc = kl_segments_list(log, &bases, &n);
    if (rc != KL_OK) {
        return rc;
    }

    for (i = 0; rc == KL_OK && i < n; i++) {

        if ((i + 1 < n && bases[i + 1] <= from)
            || bases[i] > pub->active_base)
        {
            continue;
        }

        rc = kl_file_open(log, bases[i], &f);
        if (rc != KL_OK) {
            break;
        }

        rc = kl_file_size(log, pub, f, &size);

        if (rc == KL_OK) {
            c.pos = 0;
            rc = kl_seek(log, pub, f, size, from, &c.pos, &ignored);
            kl_cursor_init(&c, log, f, c.pos, size);
        }

        while (rc == KL_OK && c.pos < c.end) {
            rc = kl_cursor_next(&c, &b);

            if (rc == KL_OK && b.base_offset >= from) {
                rc = kl_producer_replay(log, pub, &c, &b, w);
            }

            c.pos += b.size;
        }

        kl_file_unref(f);
    }

    free(bases);

    return rc;
}


/* All transaction indexes anew, from the first batch on; what the producers
 * come out as is of no use, as the snapshot knows more. */
static kl_rc_t
kl_txn_index_rebuild(kl_log_t *log, kl_pub_t *pub, kl_txn_writer_t *w)
{
    bool     good;
    kl_rc_t  rc;

    kl_say(log->env, KL_LOG_NOTICE, 0, "%s: the transaction index is made "
           "anew", log->path);

    rc = kl_txn_index_begin(w, log, 0, NULL, &good);

    if (rc == KL_OK) {
        rc = kl_producers_replay(log, pub, pub->first_base, w);
    }

    kl_producers_clear(log->env->shared, log->part);
    atomic_store(&log->part->producers_dirty, 1);

    return rc;
}


kl_rc_t
kl_producers_rebuild(kl_log_t *log, kl_pub_t *pub, const kl_checkpoint_t *mark)
{
    bool              good = true;
    int64_t           from;
    kl_rc_t           rc;
    kl_txn_writer_t   writer, *w = NULL;

    kl_producers_clear(log->env->shared, log->part);
    atomic_store(&log->part->producers_dirty, 1);

    rc = kl_snapshot_load(log, pub, &from);

    if (rc == KL_OK && mark != NULL) {
        rc = kl_txn_index_begin(&writer, log, from, mark, &good);
        w = &writer;
    }

    if (rc == KL_OK && !good) {
        kl_producers_clear(log->env->shared, log->part);
        atomic_store(&log->part->producers_dirty, 1);

        rc = kl_txn_index_rebuild(log, pub, w);

        if (rc == KL_OK) {
            rc = kl_txn_index_end(w, pub);
            w = NULL;
        }

        if (rc == KL_OK) {
            rc = kl_snapshot_load(log, pub, &from);
        }
    }

    if (rc == KL_OK) {
        rc = kl_producers_replay(log, pub, from, w);
    }

    if (rc == KL_OK && w != NULL) {
        rc = kl_txn_index_end(w, pub);

    } else if (w != NULL && w->fd != -1) {
        close(w->fd);
    }

    pub->first_open_txn = kl_producers_first_open(log, NULL);

    return rc;
}


void
kl_snapshot_drop_above(kl_log_t *log, int64_t end)
{
    char     name[64], path[KL_PATH_MAX];
    int64_t  offset;

    for ( ;; ) {
        offset = kl_snapshot_before(log, INT64_MAX);

        if (offset <= end) {
            return;
        }

        kl_snapshot_name(name, sizeof(name), offset);

        if (kl_path(path, log->path, name) != 0 || unlink(path) != 0) {
            return;
        }
    }
}


void
kl_snapshot_tidy(kl_log_t *log, int64_t newest)
{
    int      kept = 0;
    char     name[64], path[KL_PATH_MAX];
    int64_t  offset;

    /* the one before stays, in case that the newest turns out bad */
    for (offset = newest + 1; /* void */; /* void */) {
        offset = kl_snapshot_before(log, offset);

        if (offset < 0) {
            return;
        }

        if (++kept > 2) {
            kl_snapshot_name(name, sizeof(name), offset);

            if (kl_path(path, log->path, name) != 0 || unlink(path) != 0) {
                return;
            }
        }
    }
}
