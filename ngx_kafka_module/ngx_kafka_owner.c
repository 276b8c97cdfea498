/*
 * Who may use the data directory.
 *
 * <data>/.lock holds the random id of the zone whose workers use the directory.
 * Every worker opens the file itself and takes an OFD lock on its first byte:
 *
 *   read lock, and the file holds our zone's id   a user, like the others
 *   read lock, another id                         not ours: let go, and
 *   write lock                                    proof that no worker of any
 *       cycle or tree uses the directory: nothing in our zone can be trusted
 *       (another tree may have written), so it is marked FRESH; our id goes
 *       into the file and the lock goes down to a read lock in one step.
 *
 * The lock goes with the descriptor, hence with the process, however it ends.
 */

#include "ngx_kafka_life.h"

#include <fcntl.h>
#include <sys/file.h>


struct ngx_kafka_owner_s {
    ngx_fd_t    fd;
    ngx_err_t   logged;                         /* the last error told */
};


static ngx_int_t ngx_kafka_owner_open(ngx_kafka_broker_t *b);
static ngx_int_t ngx_kafka_owner_lock(ngx_fd_t fd, short type);
static void ngx_kafka_owner_close(ngx_kafka_broker_t *b);
static void ngx_kafka_owner_error(ngx_kafka_broker_t *b, const char *what);
static ngx_int_t ngx_kafka_owner_path(ngx_kafka_broker_t *b, const char *name,
    char *buf, size_t size);
static ngx_int_t ngx_kafka_owner_sync_dir(ngx_kafka_broker_t *b);


ngx_int_t
ngx_kafka_owner_try(ngx_kafka_broker_t *b)
{
    u_char                     id[NGX_KAFKA_ID_LEN];
    ssize_t                    n;
    ngx_int_t                  rc;
    struct ngx_kafka_owner_s  *o;

    if (b->owner == NULL) {
        o = ngx_calloc(sizeof(struct ngx_kafka_owner_s), b->log);
        if (o == NULL) {
            return NGX_ERROR;
        }

        o->fd = NGX_INVALID_FILE;
        b->owner = o;
    }

    o = b->owner;

    if (o->fd == NGX_INVALID_FILE && ngx_kafka_owner_open(b) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_kafka_owner_lock(o->fd, F_RDLCK);

    if (rc == NGX_OK) {
        n = pread(o->fd, id, sizeof(id), 0);

        if (n == NGX_KAFKA_ID_LEN
            && ngx_memcmp(id, b->zone->id, NGX_KAFKA_ID_LEN) == 0)
        {
            o->logged = 0;
            return NGX_OK;
        }

        if (n == -1) {
            ngx_kafka_owner_error(b, "cannot read");
            ngx_kafka_owner_close(b);
            return NGX_ERROR;
        }

        /* the conversion must not wait for other readers that want the same */
        (void) ngx_kafka_owner_lock(o->fd, F_UNLCK);

        rc = ngx_kafka_owner_lock(o->fd, F_WRLCK);
    }

    if (rc == NGX_AGAIN) {
        o->logged = 0;
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        ngx_kafka_owner_error(b, "cannot lock");
        ngx_kafka_owner_close(b);
        return NGX_ERROR;
    }

    /* in this order: whoever finds the id must also find the zone FRESH */

    b->zone->fresh = 1;
    atomic_store(&b->zone->state, NGX_KAFKA_ZONE_FRESH);

    if (pwrite(o->fd, b->zone->id, NGX_KAFKA_ID_LEN, 0) != NGX_KAFKA_ID_LEN
        || ftruncate(o->fd, NGX_KAFKA_ID_LEN) == -1)
    {
        ngx_kafka_owner_error(b, "cannot write");
        ngx_kafka_owner_close(b);
        return NGX_ERROR;
    }

    if (ngx_kafka_owner_lock(o->fd, F_RDLCK) != NGX_OK) {
        ngx_kafka_owner_error(b, "cannot lock");
        ngx_kafka_owner_close(b);
        return NGX_ERROR;
    }

    o->logged = 0;

    return NGX_OK;
}


ngx_int_t
ngx_kafka_owner_alone(ngx_kafka_broker_t *b)
{
    u_char    id[NGX_KAFKA_ID_LEN];
    ngx_fd_t  fd;

    if (b->owner == NULL || b->owner->fd == NGX_INVALID_FILE) {
        return NGX_DECLINED;
    }

    fd = b->owner->fd;

    if (ngx_kafka_owner_lock(fd, F_WRLCK) == NGX_OK) {
        return NGX_OK;
    }

    /*
     * Two that leave at the same time stand in each other's way: each lets go
     * first and then looks again.  Whoever came in between has either our id,
     * and holds its lock, or has left another in the file.
     */

    if (ngx_kafka_owner_lock(fd, F_UNLCK) != NGX_OK
        || ngx_kafka_owner_lock(fd, F_WRLCK) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    if (pread(fd, id, sizeof(id), 0) == NGX_KAFKA_ID_LEN
        && ngx_memcmp(id, b->zone->id, NGX_KAFKA_ID_LEN) == 0)
    {
        return NGX_OK;
    }

    (void) ngx_kafka_owner_lock(fd, F_UNLCK);

    return NGX_DECLINED;
}


void
ngx_kafka_owner_forget(ngx_kafka_broker_t *b)
{
    b->zone->fresh = 1;
    atomic_store(&b->zone->state, NGX_KAFKA_ZONE_FRESH);

    if (ftruncate(b->owner->fd, 0) == -1) {
        ngx_kafka_owner_error(b, "cannot truncate");
    }
}


void
ngx_kafka_owner_release(ngx_kafka_broker_t *b)
{
    if (b->owner) {
        ngx_kafka_owner_close(b);
        ngx_free(b->owner);
        b->owner = NULL;
    }
}


static ngx_int_t
ngx_kafka_owner_open(ngx_kafka_broker_t *b)
{
    char         path[NGX_MAX_PATH];
    struct stat  st;

    if (ngx_kafka_owner_path(b, ".lock", path, sizeof(path)) != NGX_OK) {
        return NGX_ERROR;
    }

    b->owner->fd = open(path, O_RDWR|O_CREAT|O_CLOEXEC|O_NOFOLLOW, 0600);

    if (b->owner->fd == NGX_INVALID_FILE) {
        ngx_kafka_owner_error(b, "cannot open");
        return NGX_ERROR;
    }

    if (fstat(b->owner->fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        ngx_kafka_owner_error(b, "is not a regular file:");
        ngx_kafka_owner_close(b);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_owner_lock(ngx_fd_t fd, short type)
{
    struct flock  fl;

    ngx_memzero(&fl, sizeof(fl));
    fl.l_type = type;
    fl.l_whence = SEEK_SET;
    fl.l_start = 0;
    fl.l_len = 1;

    for ( ;; ) {
        if (fcntl(fd, F_OFD_SETLK, &fl) == 0) {
            return NGX_OK;
        }

        if (ngx_errno == NGX_EINTR) {
            continue;
        }

        return (ngx_errno == NGX_EAGAIN || ngx_errno == NGX_EACCES)
               ? NGX_AGAIN : NGX_ERROR;
    }
}


static void
ngx_kafka_owner_close(ngx_kafka_broker_t *b)
{
    if (b->owner->fd != NGX_INVALID_FILE) {
        (void) close(b->owner->fd);
        b->owner->fd = NGX_INVALID_FILE;
    }
}


/* Retried every second: told once for each cause. */
static void
ngx_kafka_owner_error(ngx_kafka_broker_t *b, const char *what)
{
    ngx_err_t  err = ngx_errno;

    if (b->owner->logged == err) {
        return;
    }

    b->owner->logged = err;

    ngx_log_error(NGX_LOG_CRIT, b->log, err,
                  "kafka_broker \"%V\": %s \"%V/.lock\"; the broker stays "
                  "closed and tries again", &b->name, what, &b->data);
}


static ngx_int_t
ngx_kafka_owner_path(ngx_kafka_broker_t *b, const char *name, char *buf,
    size_t size)
{
    int  n;

    n = snprintf(buf, size, "%s/%s", (char *) b->data.data, name);

    if (n < 0 || (size_t) n >= size) {
        ngx_set_errno(ENAMETOOLONG);
        return NGX_ERROR;
    }

    return NGX_OK;
}


#define NGX_KAFKA_CLEAN  ".kafka_cleanshutdown"


ngx_int_t
ngx_kafka_clean_mark(ngx_kafka_broker_t *b)
{
    int   fd;
    char  path[NGX_MAX_PATH];

    if (ngx_kafka_owner_path(b, NGX_KAFKA_CLEAN, path, sizeof(path))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    fd = open(path, O_WRONLY|O_CREAT|O_CLOEXEC|O_NOFOLLOW, 0600);
    if (fd == -1) {
        return NGX_ERROR;
    }

    (void) close(fd);

    return ngx_kafka_owner_sync_dir(b);
}


ngx_int_t
ngx_kafka_clean_take(ngx_kafka_broker_t *b)
{
    char  path[NGX_MAX_PATH];

    if (ngx_kafka_owner_path(b, NGX_KAFKA_CLEAN, path, sizeof(path))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (unlink(path) == -1) {
        return ngx_errno == NGX_ENOENT ? NGX_DECLINED : NGX_ERROR;
    }

    /* a mark that comes back after a power cut would be a lie */
    return ngx_kafka_owner_sync_dir(b);
}


static ngx_int_t
ngx_kafka_owner_sync_dir(ngx_kafka_broker_t *b)
{
    int  fd, rc;

    fd = open((char *) b->data.data, O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    if (fd == -1) {
        return NGX_ERROR;
    }

    rc = fsync(fd);
    (void) close(fd);

    return rc == 0 ? NGX_OK : NGX_ERROR;
}


void
ngx_kafka_owner_make_dir(ngx_cycle_t *cycle, ngx_kafka_broker_t *b)
{
    u_char            path[NGX_MAX_PATH];
    ngx_uint_t        i;
    struct stat       st;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (b->data.len >= sizeof(path)) {
        return;
    }

    ngx_memcpy(path, b->data.data, b->data.len);

    /* parents that are missing can be entered by all, the directory by its
       owner */

    for (i = 1; i < b->data.len; i++) {

        if (path[i] != '/') {
            continue;
        }

        path[i] = '\0';

        if (mkdir((char *) path, 0755) == -1 && ngx_errno != NGX_EEXIST
            && stat((char *) path, &st) == -1)
        {
            goto failed;
        }

        path[i] = '/';
    }

    path[i] = '\0';

    if (mkdir((char *) path, 0700) == -1 && ngx_errno != NGX_EEXIST) {
        goto failed;
    }

    if (geteuid() != 0 || ccf->user == (ngx_uid_t) NGX_CONF_UNSET_UINT) {
        return;
    }

    if (stat((char *) path, &st) == -1) {
        goto failed;
    }

    if (st.st_uid != ccf->user && chown((char *) path, ccf->user, -1) == -1) {
        goto failed;
    }

    return;

failed:

    /* not fatal: the workers say that they can't use it, and try again */

    ngx_log_error(NGX_LOG_CRIT, cycle->log, ngx_errno,
                  "kafka_broker \"%V\": cannot make \"%s\"", &b->name, path);
}
