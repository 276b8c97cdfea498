/*
 * Snapshots of the coordinator's state.
 *
 * <data>/@journal-0/<offset>.state holds the state as of journal offset, in the
 * journal's own records; the coordinator's first and last record in it tell
 * whether it is whole, each batch has its CRC.  It is written aside, synced,
 * renamed, and the directory is synced, before anything it replaces goes.  The
 * newest two are kept, and the journal from the older one on: a snapshot that
 * turns out to be damaged costs time, not data.
 */

#include "ngx_kafka_life.h"

#include <dirent.h>
#include <fcntl.h>


#define NGX_KAFKA_STATE      ".state"
#define NGX_KAFKA_STATE_LEN  (20 + sizeof(NGX_KAFKA_STATE) - 1)


static ngx_int_t ngx_kafka_journal_dir(ngx_kafka_broker_t *b, char *buf);
static ssize_t ngx_kafka_state_read(int fd, uint8_t *buf, size_t len);


static ngx_int_t
ngx_kafka_journal_dir(ngx_kafka_broker_t *b, char *buf)
{
    int  n;

    n = snprintf(buf, NGX_MAX_PATH, "%s/" NGX_KAFKA_JOURNAL "-0",
                 (char *) b->data.data);

    return (n < 0 || n >= NGX_MAX_PATH) ? NGX_ERROR : NGX_OK;
}


/* The newest first. */
ngx_uint_t
ngx_kafka_states_list(ngx_kafka_broker_t *b, int64_t *offsets,
    ngx_uint_t max)
{
    DIR            *dir;
    char            path[NGX_MAX_PATH];
    int64_t         offset;
    ngx_uint_t      i, j, n;
    struct dirent  *de;

    if (ngx_kafka_journal_dir(b, path) != NGX_OK) {
        return 0;
    }

    dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }

    n = 0;

    while ((de = readdir(dir)) != NULL) {

        if (strlen(de->d_name) != NGX_KAFKA_STATE_LEN
            || strcmp(de->d_name + 20, NGX_KAFKA_STATE) != 0)
        {
            continue;
        }

        offset = ngx_atoof((u_char *) de->d_name, 20);
        if (offset < 0) {
            continue;
        }

        for (i = 0; i < n && offsets[i] > offset; i++) { /* void */ }

        if (i == max) {
            continue;
        }

        for (j = ngx_min(n, max - 1); j > i; j--) {
            offsets[j] = offsets[j - 1];
        }

        offsets[i] = offset;
        n = ngx_min(n + 1, max);
    }

    (void) closedir(dir);

    return n;
}


ngx_int_t
ngx_kafka_state_open(ngx_kafka_broker_t *b, int64_t offset,
    ngx_kafka_state_file_t *f)
{
    char  dir[NGX_MAX_PATH], name[NGX_MAX_PATH + 64];

    f->buf = NULL;
    f->fd = -1;

    if (ngx_kafka_journal_dir(b, dir) != NGX_OK) {
        return NGX_ERROR;
    }

    (void) snprintf(name, sizeof(name), "%s/%020lld" NGX_KAFKA_STATE, dir,
                    (long long) offset);

    f->fd = open(name, O_RDONLY|O_CLOEXEC);

    if (f->fd == -1) {
        ngx_log_error(NGX_LOG_ERR, b->log, ngx_errno, "open() \"%s\" failed",
                      name);
        return NGX_ERROR;
    }

    f->buf = ngx_alloc(NGX_KAFKA_READ, b->log);
    if (f->buf == NULL) {
        ngx_kafka_state_close(f);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_kafka_state_close(ngx_kafka_state_file_t *f)
{
    if (f->fd != -1) {
        (void) close(f->fd);
        f->fd = -1;
    }

    if (f->buf) {
        ngx_free(f->buf);
        f->buf = NULL;
    }
}


static ssize_t
ngx_kafka_state_read(int fd, uint8_t *buf, size_t len)
{
    size_t   got;
    ssize_t  n;

    for (got = 0; got < len; got += n) {
        n = read(fd, buf + got, len - got);

        if (n < 0) {
            if (ngx_errno == NGX_EINTR) {
                n = 0;
                continue;
            }
            return -1;
        }

        if (n == 0) {
            break;
        }
    }

    return got;
}


/* 1: a batch; 0: the file's end; -1: it is damaged or cannot be read. */
int
ngx_kafka_state_next(ngx_kafka_state_file_t *f, const uint8_t **batch,
    size_t *len)
{
    ssize_t     n;
    kf_batch_t  kb;

    n = ngx_kafka_state_read(f->fd, f->buf, KF_BATCH_HEADER);

    if (n == 0) {
        return 0;
    }

    if (n != KF_BATCH_HEADER
        || kf_batch_header(f->buf, KF_BATCH_HEADER, &kb) != KF_OK
        || kb.size > NGX_KAFKA_READ)
    {
        return -1;
    }

    n = ngx_kafka_state_read(f->fd, f->buf + KF_BATCH_HEADER,
                             kb.size - KF_BATCH_HEADER);

    if (n != (ssize_t) (kb.size - KF_BATCH_HEADER)
        || !kf_batch_crc_ok(f->buf, &kb))
    {
        return -1;
    }

    *batch = f->buf;
    *len = kb.size;

    return 1;
}


ngx_int_t
ngx_kafka_sink_open(ngx_kafka_broker_t *b, ngx_kafka_sink_t *sink)
{
    sink->err = 0;
    sink->fd = -1;

    if (ngx_kafka_journal_dir(b, sink->dir) != NGX_OK) {
        return NGX_ERROR;
    }

    (void) snprintf(sink->tmp, sizeof(sink->tmp), "%s/state.tmp", sink->dir);

    sink->fd = open(sink->tmp, O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0600);

    if (sink->fd == -1) {
        ngx_log_error(NGX_LOG_CRIT, b->log, ngx_errno,
                      "open() \"%s\" failed", sink->tmp);
        return NGX_ERROR;
    }

    return NGX_OK;
}


bool
ngx_kafka_sink_write(void *ctx, uint8_t *batch, size_t len)
{
    ngx_kafka_sink_t  *sink = ctx;

    ssize_t  n;

    while (len) {
        n = write(sink->fd, batch, len);

        if (n < 0) {
            if (ngx_errno == NGX_EINTR) {
                continue;
            }

            sink->err = ngx_errno;
            return false;
        }

        batch += n;
        len -= n;
    }

    return true;
}


ngx_int_t
ngx_kafka_sink_done(ngx_kafka_broker_t *b, ngx_kafka_sink_t *sink,
    int64_t offset, bool ok)
{
    int         fd, n;
    char        name[NGX_MAX_PATH + 64];
    ngx_err_t   err;

    err = sink->err;

#ifndef NGX_KAFKA_BREAK_SNAPSHOT_SYNC
    if (ok && fsync(sink->fd) == -1) {
        err = ngx_errno;
        ok = false;
    }
#endif

    (void) close(sink->fd);

    n = snprintf(name, sizeof(name), "%s/%020lld" NGX_KAFKA_STATE, sink->dir,
                 (long long) offset);

    if (n < 0 || (size_t) n >= sizeof(name)) {
        ok = false;
    }

    ngx_kafka_fault("snapshot-rename");

    if (ok && rename(sink->tmp, name) == -1) {
        err = ngx_errno;
        ok = false;
    }

    if (ok) {
        fd = open(sink->dir, O_RDONLY|O_DIRECTORY|O_CLOEXEC);

        if (fd == -1 || fsync(fd) == -1) {
            err = ngx_errno;
            ok = false;
        }

        if (fd != -1) {
            (void) close(fd);
        }
    }

    if (!ok) {
        (void) unlink(sink->tmp);

        if (ngx_exiting || ngx_terminate) {
            return NGX_ERROR;
        }

        ngx_log_error(NGX_LOG_ERR, b->log, err,
                      "kafka_broker \"%V\": no snapshot of the journal was "
                      "written", &b->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* The newest two stay, and the journal from the older one on. */
void
ngx_kafka_states_prune(ngx_kafka_broker_t *b, kl_log_t *log)
{
    char        dir[NGX_MAX_PATH], name[NGX_MAX_PATH + 64];
    int64_t     offsets[64];
    ngx_uint_t  i, n;

    n = ngx_kafka_states_list(b, offsets, 64);

    if (n < 2 || ngx_kafka_journal_dir(b, dir) != NGX_OK) {
        return;
    }

    (void) kl_drop_below(log, offsets[1]);

    for (i = 2; i < n; i++) {
        (void) snprintf(name, sizeof(name), "%s/%020lld" NGX_KAFKA_STATE, dir,
                        (long long) offsets[i]);
        (void) unlink(name);
    }
}
