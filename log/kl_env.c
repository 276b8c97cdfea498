/*
 * The process half's handles: environments and logs.
 */

#include "kl_internal.h"


kl_env_t *
kl_env_create(kl_shared_t *sh, const kl_env_opts_t *opts)
{
    kl_env_t  *env;

    env = calloc(1, sizeof(kl_env_t));
    if (env == NULL) {
        return NULL;
    }

    env->shared = sh;
    env->log = opts->log;
    env->log_ctx = opts->log_ctx;
    env->foreign = opts->foreign;
    env->flushed = opts->flushed;
    env->files_max = opts->open_files_max ? opts->open_files_max : 1;

    for (env->buckets = 64;
         env->buckets < env->files_max && env->buckets < (1U << 20);
         env->buckets *= 2)
    { /* void */ }

    env->lru.lru_next = &env->lru;
    env->lru.lru_prev = &env->lru;
    env->dir = strdup(opts->dir);
    env->table = calloc(env->buckets, sizeof(kl_file_t *));

    if (env->dir == NULL || env->table == NULL
        || pthread_mutex_init(&env->mutex, NULL) != 0)
    {
        free(env->dir);
        free(env->table);
        free(env);
        return NULL;
    }

    return env;
}


void
kl_env_free(kl_env_t *env)
{
    kl_file_t  *f, *next;

    for (f = env->lru.lru_next; f != &env->lru; f = next) {
        next = f->lru_next;
        kl_file_unref(f);
    }

    pthread_mutex_destroy(&env->mutex);
    free(env->table);
    free(env->dir);
    free(env);
}


kl_log_t *
kl_log_open(kl_env_t *env, int32_t slot, uint64_t incarnation,
    kf_uuid_t topic_id, kf_str_t topic, int32_t partition)
{
    size_t      size;
    kl_log_t   *log;
    kl_part_t  *p;

    p = kl_part(env->shared, slot);

    if (p == NULL || partition < 0) {
        return NULL;
    }

    log = calloc(1, sizeof(kl_log_t));
    if (log == NULL) {
        return NULL;
    }

    size = strlen(env->dir) + topic.len + 16;

    log->refs = 1;
    log->env = env;
    log->part = p;
    log->slot = slot;
    log->incarnation = incarnation;
    log->topic_id = topic_id;
    log->partition = partition;
    log->bases_gen = -1;
    log->epochs_gen = -1;
    log->txns_gen = -1;
    log->path = malloc(size);

    if (log->path == NULL || pthread_mutex_init(&log->mutex, NULL) != 0) {
        free(log->path);
        free(log);
        return NULL;
    }

    snprintf(log->path, size, "%s/%.*s-%" PRId32, env->dir, (int) topic.len,
             (const char *) topic.data, partition);

    log->name = log->path + strlen(env->dir) + 1;

    return log;
}


void
kl_log_ref(kl_log_t *log)
{
    atomic_fetch_add_explicit(&log->refs, 1, memory_order_relaxed);
}


void
kl_log_close(kl_log_t *log)
{
    if (log == NULL
        || atomic_fetch_sub_explicit(&log->refs, 1, memory_order_acq_rel) != 1)
    {
        return;
    }

    pthread_mutex_destroy(&log->mutex);
    free(log->bases);
    free(log->epochs);
    free(log->txns);
    free(log->path);
    free(log);
}


kl_part_t *
kl_log_part(kl_log_t *log)
{
    return log->part;
}


bool
kl_log_is_current(kl_log_t *log)
{
    kl_offsets_t  o;

    kl_snapshot(log->part, &o);

    return o.incarnation == log->incarnation && kl_is_bound(log);
}
