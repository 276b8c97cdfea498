/*
 * Open segment files of one worker: a table and an LRU list, bounded in
 * segments.  The .log is opened at once, the indexes at first need; all three
 * are closed together, with the last reference.
 *
 * Files are opened by name.  A name may be reused by a topic of the same name,
 * so after an open the incarnation is compared: kl_remove() publishes DELETED
 * before it renames, and a new directory can only come after that.  Recovery
 * may replace a segment by another with the same base, so the key has the
 * block's open_gen, which recovery, kl_bind() and kl_release() raise.
 *
 * A file that may have bytes that are not yet on the disk is not evicted while
 * another can be: its descriptor is the one that hears of a failed write-back.
 * When all are dirty the bound gives way.
 */

#include <fcntl.h>
#include <sys/stat.h>

#include "kl_internal.h"


#define KL_EVICT_TRIES  8


static uint32_t
kl_file_bucket(const kl_env_t *env, int32_t slot, int64_t base)
{
    uint64_t  h;

    h = ((uint64_t) base * 0x9e3779b97f4a7c15ULL)
        ^ ((uint64_t) (uint32_t) slot * 0xff51afd7ed558ccdULL);

    return (uint32_t) (h >> 32) & (env->buckets - 1);
}


void
kl_file_ref(kl_file_t *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}


void
kl_file_unref(kl_file_t *f)
{
    if (f == NULL
        || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
    {
        return;
    }

    close(f->fd);

    if (f->index_fd != -1) {
        close(f->index_fd);
    }

    if (f->time_fd != -1) {
        close(f->time_fd);
    }

    if (f->txn_fd != -1) {
        close(f->txn_fd);
    }

    free(f);
}


/* The environment's mutex is held; the caller drops the table's reference. */
static void
kl_file_take_out(kl_env_t *env, kl_file_t *f)
{
    kl_file_t  **link;

    link = &env->table[kl_file_bucket(env, f->slot, f->base)];

    while (*link != f) {
        link = &(*link)->hash_next;
    }

    *link = f->hash_next;
    f->lru_prev->lru_next = f->lru_next;
    f->lru_next->lru_prev = f->lru_prev;
    f->cached = false;
    env->files_n--;
}


static void
kl_file_to_front(kl_env_t *env, kl_file_t *f)
{
    f->lru_next = env->lru.lru_next;
    f->lru_prev = &env->lru;
    f->lru_next->lru_prev = f;
    env->lru.lru_next = f;
}


static kl_file_t *
kl_file_find(kl_env_t *env, kl_log_t *log, int64_t open_gen, int64_t base)
{
    kl_file_t  *f;

    for (f = env->table[kl_file_bucket(env, log->slot, base)];
         f != NULL;
         f = f->hash_next)
    {
        if (f->base == base && f->slot == log->slot
            && f->open_gen == open_gen)
        {
            return f;
        }
    }

    return NULL;
}


static bool
kl_file_is_gone(kl_env_t *env, const kl_file_t *f)
{
    kl_pub_t  pub;

    kl_pub_load(kl_part(env->shared, f->slot), &pub);

    return pub.open_gen != f->open_gen || pub.state == KL_DELETED
           || f->base < pub.first_base;
}


static bool
kl_file_is_dirty(kl_env_t *env, const kl_file_t *f)
{
    kl_pub_t  pub;

    kl_pub_load(kl_part(env->shared, f->slot), &pub);

    return pub.open_gen == f->open_gen && pub.state == KL_OPEN
           && pub.flushed < pub.log_end && f->base >= pub.flushed_base;
}


/* Clean files from the old end of the list, taken out, chained by hash_next:
 * two, so that a list that is too long gets shorter. */
static kl_file_t *
kl_file_evict(kl_env_t *env, const kl_file_t *but)
{
    int         i, n = 0;
    kl_file_t  *f, *next, *drop = NULL;

    f = env->lru.lru_prev;

    for (i = 0; i < KL_EVICT_TRIES && f != &env->lru && n < 2; i++, f = next) {

        if (env->files_n <= env->files_max) {
            break;
        }

        next = f->lru_prev;

        if (f != but && !kl_file_is_dirty(env, f)) {
            kl_file_take_out(env, f);
            f->hash_next = drop;
            drop = f;
            n++;
        }
    }

    return drop;
}


static void
kl_files_close(kl_file_t *drop)
{
    kl_file_t  *f;

    while (drop != NULL) {
        f = drop;
        drop = f->hash_next;
        kl_file_unref(f);
    }
}


static kl_rc_t
kl_file_error(kl_log_t *log, int err, const char *what, int64_t base)
{
    kl_say(log->env, KL_LOG_CRIT, err, "%s: %s of segment %020" PRId64
           " failed", log->path, what, base);

    return KL_STORAGE_ERROR;
}


/* A file for recovery: not in the table. */
kl_rc_t
kl_file_open(kl_log_t *log, int64_t base, kl_file_t **file)
{
    int           fd, err;
    char          path[KL_PATH_MAX];
    kl_file_t    *f;
    kl_offsets_t  o;

    errno = kl_fault("open");

    if (errno || kl_segment_path(path, log, base, ".log") != 0
        || (fd = open(path, O_RDWR | O_CLOEXEC)) == -1)
    {
        err = errno;
        kl_snapshot(log->part, &o);

        if (o.incarnation != log->incarnation || o.state == KL_DELETED) {
            return KL_GONE;
        }

        return kl_file_error(log, err, "open", base);
    }

    kl_snapshot(log->part, &o);

    if (o.incarnation != log->incarnation || o.state == KL_DELETED) {
        close(fd);
        return KL_GONE;
    }

    f = calloc(1, sizeof(kl_file_t));
    if (f == NULL) {
        close(fd);
        return KL_NO_MEMORY;
    }

    f->refs = 1;
    f->fd = fd;
    f->index_fd = -1;
    f->time_fd = -1;
    f->txn_fd = -1;
    f->closed_size = -1;
    f->base = base;
    f->slot = log->slot;
    f->open_gen = -1;

    *file = f;

    return KL_OK;
}


kl_rc_t
kl_file_get(kl_log_t *log, const kl_pub_t *pub, int64_t base,
    kl_file_t **file)
{
    kl_rc_t     rc;
    kl_env_t   *env = log->env;
    kl_file_t  *f, *old, *extra, *other, *oldest;

    pthread_mutex_lock(&env->mutex);

    f = kl_file_find(env, log, pub->open_gen, base);

    if (f != NULL) {
        kl_file_ref(f);

        if (env->lru.lru_next != f) {
            f->lru_prev->lru_next = f->lru_next;
            f->lru_next->lru_prev = f->lru_prev;
            kl_file_to_front(env, f);
        }

        /* the bound gave way to dirty files, which may be clean by now */
        old = kl_file_evict(env, f);

        pthread_mutex_unlock(&env->mutex);

        kl_files_close(old);
        *file = f;
        return KL_OK;
    }

    pthread_mutex_unlock(&env->mutex);

    rc = kl_file_open(log, base, &f);
    if (rc != KL_OK) {
        return rc;
    }

    f->open_gen = pub->open_gen;

    extra = NULL;
    old = NULL;
    oldest = NULL;

    pthread_mutex_lock(&env->mutex);

    other = kl_file_find(env, log, pub->open_gen, base);

    if (other != NULL) {
        /* another thread was faster */
        kl_file_ref(other);
        extra = f;
        f = other;

    } else {
        f->cached = true;
        kl_file_ref(f);
        f->hash_next = env->table[kl_file_bucket(env, f->slot, f->base)];
        env->table[kl_file_bucket(env, f->slot, f->base)] = f;
        kl_file_to_front(env, f);
        env->files_n++;

        old = kl_file_evict(env, f);

        /* descriptors of deleted segments must not hold disk space for long */
        oldest = env->lru.lru_prev;

        if (oldest != f && kl_file_is_gone(env, oldest)) {
            kl_file_take_out(env, oldest);
        } else {
            oldest = NULL;
        }
    }

    pthread_mutex_unlock(&env->mutex);

    kl_file_unref(extra);
    kl_file_unref(oldest);
    kl_files_close(old);

    *file = f;

    return KL_OK;
}


/*
 * New, empty files of a segment; what an earlier attempt left there was never
 * published.  Without any sync: that is kl_flush()'s.
 */
kl_rc_t
kl_file_create(kl_log_t *log, int64_t base)
{
    int                 i, fd, err;
    char                path[KL_PATH_MAX];
    static const char  *suffix[] = { ".log", ".index", ".timeindex" };

    for (i = 0; i < 3; i++) {
        errno = kl_fault("create");

        if (errno || kl_segment_path(path, log, base, suffix[i]) != 0
            || (fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644))
               == -1)
        {
            err = errno;

            while (i-- > 0) {
                if (kl_segment_path(path, log, base, suffix[i]) == 0) {
                    unlink(path);
                }
            }

            return kl_file_error(log, err, "creation", base);
        }

        close(fd);
    }

    if (kl_segment_path(path, log, base, ".txnindex") == 0) {
        unlink(path);
    }

    return KL_OK;
}


static int
kl_file_side_fd(kl_log_t *log, kl_file_t *f, _Atomic int *side,
    const char *suffix, int flags)
{
    int           fd, none;
    char          path[KL_PATH_MAX];
    kl_offsets_t  o;

    fd = *side;

    if (fd != -1) {
        return fd;
    }

    if (kl_segment_path(path, log, f->base, suffix) != 0) {
        return -1;
    }

    fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);

    if (fd == -1) {
        return -1;
    }

    /* as for the .log: the name may be another topic's by now */
    kl_snapshot(log->part, &o);

    if (o.incarnation != log->incarnation || o.state == KL_DELETED) {
        close(fd);
        errno = ENOENT;
        return -1;
    }

    none = -1;

    if (!atomic_compare_exchange_strong(side, &none, fd)) {
        close(fd);
        fd = none;
    }

    return fd;
}


int
kl_file_index_fd(kl_log_t *log, kl_file_t *f)
{
    return kl_file_side_fd(log, f, &f->index_fd, ".index", O_CREAT);
}


int
kl_file_time_fd(kl_log_t *log, kl_file_t *f)
{
    return kl_file_side_fd(log, f, &f->time_fd, ".timeindex", O_CREAT);
}


int
kl_file_txn_fd(kl_log_t *log, kl_file_t *f, bool create)
{
    return kl_file_side_fd(log, f, &f->txn_fd, ".txnindex",
                           create ? O_CREAT : 0);
}


kl_rc_t
kl_file_size(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t *size)
{
    struct stat  st;

    if (f->base == pub->active_base) {
        *size = pub->active_size;
        return KL_OK;
    }

    *size = f->closed_size;

    if (*size >= 0) {
        return KL_OK;
    }

    if (fstat(f->fd, &st) != 0) {
        return kl_file_error(log, errno, "fstat", f->base);
    }

    *size = st.st_size;

    if (f->base < pub->active_base) {
        f->closed_size = st.st_size;
    }

    return KL_OK;
}


/* -1: the .log, which goes last, is still there. */
int
kl_file_unlink(kl_log_t *log, int64_t base)
{
    int                 i, rc = 0;
    char                path[KL_PATH_MAX];
    static const char  *suffix[] = { ".index", ".timeindex", ".txnindex",
                                     ".log" };

    for (i = 0; i < 4; i++) {
        errno = kl_fault("unlink");
        rc = 0;

        if (kl_segment_path(path, log, base, suffix[i]) == 0
            && (errno || unlink(path) != 0) && errno != ENOENT)
        {
            kl_say(log->env, KL_LOG_ERR, errno, "%s: unlink failed", path);
            rc = -1;
        }
    }

    return rc;
}


void
kl_files_drop(kl_env_t *env, int32_t slot, int64_t below, bool all)
{
    kl_file_t  *f, *next, *drop = NULL;

    pthread_mutex_lock(&env->mutex);

    for (f = env->lru.lru_next; f != &env->lru; f = next) {
        next = f->lru_next;

        if (f->slot == slot && (all || f->base < below)) {
            kl_file_take_out(env, f);
            f->hash_next = drop;
            drop = f;
        }
    }

    pthread_mutex_unlock(&env->mutex);

    kl_files_close(drop);
}


void
kl_env_trim(kl_env_t *env)
{
    kl_file_t  *f, *next, *drop = NULL;

    pthread_mutex_lock(&env->mutex);

    for (f = env->lru.lru_next; f != &env->lru; f = next) {
        next = f->lru_next;

        if (kl_file_is_gone(env, f)) {
            kl_file_take_out(env, f);
            f->hash_next = drop;
            drop = f;
        }
    }

    pthread_mutex_unlock(&env->mutex);

    kl_files_close(drop);
}
