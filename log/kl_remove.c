/*
 * Deleting a partition, in two steps, and directories that nobody knows.
 *
 * The directory is renamed to "<topic>-<partition>.<id>-delete": from then on a
 * topic of the same name can be made, and a crash leaves something that is
 * plainly garbage.  The files go afterwards, whenever there is time, by whoever
 * comes: until the new name is on the disk none of them does, as a directory
 * without its partition.metadata could be anybody's.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "kl_internal.h"


#define KL_DELETE_SUFFIX  "-delete"
#define KL_DELETE_TAIL    (1 + 32 + 7)  /* ".", the id in hex, the suffix */
#define KL_DELETE_TRIES   16


/* Files of a directory, and the directory.  No deeper: we never make any. */
static int
kl_remove_dir(const char *path, bool (*stop)(void *ctx), void *ctx)
{
    DIR            *dir;
    char            file[KL_PATH_MAX];
    struct dirent  *de;

    dir = opendir(path);
    if (dir == NULL) {
        return errno == ENOENT ? 0 : -1;
    }

    while ((de = readdir(dir)) != NULL) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        if (stop && stop(ctx)) {
            closedir(dir);
            return 0;
        }

        if (kl_path(file, path, de->d_name) == 0) {
            errno = kl_fault("remove.unlink");

            if (errno == 0) {
                (void) unlink(file);
            }
        }
    }

    closedir(dir);

    return rmdir(path) == 0 || errno == ENOENT ? 0 : -1;
}


/* Kafka's name: the topic's is cut if the whole would be too long.  nth: what
 * to try when a directory of that name has not been emptied yet. */
static int
kl_remove_name(kl_log_t *log, int nth, char *path)
{
    int   i, len;
    char  tail[64], name[KL_NAME_MAX + 1], *p;

    p = tail + sprintf(tail, "-%" PRId32 ".", log->partition);

    for (i = 0; i < 16; i++) {
        p += sprintf(p, "%02x", log->topic_id.b[i] ^ (i == 15 ? nth : 0));
    }

    len = (int) strlen(log->name);
    len -= (int) (strchr(tail, '.') - tail);

    if (len + (int) strlen(tail) + (int) strlen(KL_DELETE_SUFFIX)
        > KL_NAME_MAX)
    {
        len = KL_NAME_MAX - (int) strlen(tail) - (int) strlen(KL_DELETE_SUFFIX);
    }

    snprintf(name, sizeof(name), "%.*s%s" KL_DELETE_SUFFIX, len, log->name,
             tail);

    return kl_path(path, log->env->dir, name);
}


static int
kl_remove_rename(kl_log_t *log)
{
    int   i;
    char  path[KL_PATH_MAX];

    for (i = 0; i < KL_DELETE_TRIES; i++) {

        if (kl_remove_name(log, i, path) != 0) {
            return -1;
        }

        errno = kl_fault("remove.rename");

        if (errno == 0 && rename(log->path, path) == 0) {
            return 0;
        }

        if (errno != EEXIST && errno != ENOTEMPTY) {
            break;
        }
    }

    return errno == ENOENT ? 0 : -1;
}


kl_rc_t
kl_remove_ours(kl_log_t *log)
{
    kl_rc_t       rc;
    kl_shared_t  *sh = log->env->shared;
    struct stat   st;

    /*
     * Two may have the same directory to remove; the second one must not take
     * the new topic's that has come in its place since it looked.
     */
    if (pthread_mutex_lock(&sh->removal) == EOWNERDEAD) {
        pthread_mutex_consistent(&sh->removal);
    }

    rc = KL_OK;

    if (!kl_metadata_is_ours(log)) {
        rc = stat(log->path, &st) != 0 && errno == ENOENT ? KL_OK : KL_GONE;

    } else if (kl_remove_rename(log) != 0) {
        kl_say(log->env, KL_LOG_ERR, errno, "%s: rename for deletion failed",
               log->path);
        rc = KL_STORAGE_ERROR;
    }

    pthread_mutex_unlock(&sh->removal);

    (void) kl_fault("remove.renamed");

    return rc;
}


kl_rc_t
kl_remove(kl_log_t *log)
{
    kl_rc_t   rc;
    kl_pub_t  pub;

    kl_part_lock(log->part);
    kl_pub_load(log->part, &pub);

    /* else the slot was given back before, and nobody opens it any more */
    if ((uint64_t) pub.incarnation == log->incarnation && kl_is_bound(log)) {
        pub.state = KL_DELETED;
        kl_pub_store(log->part, &pub);
    }

    kl_part_unlock(log->part);

    /* a job that writes files by their names ends at its next step */
    kl_jobs_lock(log->part);

    kl_files_drop(log->env, log->slot, 0, true);
    rc = kl_remove_ours(log);

    kl_jobs_unlock(log->part);

    return rc;
}


kl_rc_t
kl_remove_sync(kl_env_t *env)
{
    if (kl_sync_dir(env->dir) == 0) {
        return KL_OK;
    }

    kl_say(env, KL_LOG_ERR, errno, "%s: fsync of the directory failed",
           env->dir);

    return KL_STORAGE_ERROR;
}


static bool
kl_is_leftover(const char *name, size_t len)
{
    size_t  i;

    if (len <= KL_DELETE_TAIL
        || strcmp(name + len - 7, KL_DELETE_SUFFIX) != 0
        || name[len - KL_DELETE_TAIL] != '.')
    {
        return false;
    }

    for (i = len - KL_DELETE_TAIL + 1; i < len - 7; i++) {
        if (strchr("0123456789abcdef", name[i]) == NULL) {
            return false;
        }
    }

    return true;
}


/* "<topic>-<partition>"; false: it is not of that form. */
static bool
kl_split_name(const char *name, size_t len, kf_str_t *topic,
    int32_t *partition)
{
    char        *end;
    long         n;
    const char  *dash;

    dash = strrchr(name, '-');

    if (dash == NULL || dash == name || dash[1] < '0' || dash[1] > '9'
        || (dash[1] == '0' && dash[2] != '\0') || name + len - dash > 11)
    {
        return false;
    }

    n = strtol(dash + 1, &end, 10);

    if (*end != '\0' || n > INT32_MAX) {
        return false;
    }

    topic->data = (const uint8_t *) name;
    topic->len = (uint32_t) (dash - name);
    *partition = (int32_t) n;

    return true;
}


/* The names of all directories that are to be emptied, one after the other,
 * each with its NUL; *n: how many.  NULL with *n 0: there is none. */
static kl_rc_t
kl_remove_list(kl_env_t *env, char **names, size_t *n)
{
    DIR            *dir;
    char           *p;
    size_t          len, used = 0, size = 0;
    kl_rc_t         rc = KL_OK;
    struct dirent  *de;

    *names = NULL;
    *n = 0;

    dir = opendir(env->dir);

    if (dir == NULL) {
        kl_say(env, KL_LOG_ERR, errno, "%s: reading the directory failed",
               env->dir);
        return KL_STORAGE_ERROR;
    }

    while ((de = readdir(dir)) != NULL) {
        len = strlen(de->d_name);

        if (!kl_is_leftover(de->d_name, len)) {
            continue;
        }

        if (size - used < len + 1) {
            size = size * 2 + 4096;
            p = realloc(*names, size);

            if (p == NULL) {
                rc = KL_NO_MEMORY;
                break;
            }

            *names = p;
        }

        memcpy(*names + used, de->d_name, len + 1);
        used += len + 1;
        (*n)++;
    }

    closedir(dir);

    return rc;
}


kl_rc_t
kl_remove_files(kl_env_t *env, bool (*stop)(void *ctx), void *ctx)
{
    char     path[KL_PATH_MAX], *names, *name;
    size_t   i, n;
    kl_rc_t  rc;

    rc = kl_remove_list(env, &names, &n);

    /* what is renamed from here on is the next one's */

    if (rc == KL_OK && n > 0) {
        rc = kl_remove_sync(env);
    }

    if (rc != KL_OK) {
        free(names);
        return rc;
    }

    for (i = 0, name = names;
         i < n && !(stop && stop(ctx));
         i++, name += strlen(name) + 1)
    {
        if (kl_path(path, env->dir, name) == 0
            && kl_remove_dir(path, stop, ctx) != 0)
        {
            kl_say(env, KL_LOG_WARN, errno, "%s: removal failed", path);
            rc = KL_STORAGE_ERROR;
        }
    }

    free(names);

    return rc;
}


void
kl_sweep(kl_env_t *env, bool (*known)(void *ctx, kf_str_t topic,
    int32_t partition), void *ctx)
{
    DIR            *dir;
    char            path[KL_PATH_MAX];
    size_t          len;
    int32_t         partition;
    kf_str_t        topic;
    struct stat     st;
    struct dirent  *de;

    dir = opendir(env->dir);

    if (dir == NULL) {
        kl_say(env, KL_LOG_ERR, errno, "%s: reading the directory failed",
               env->dir);
        return;
    }

    while ((de = readdir(dir)) != NULL) {

        if (de->d_name[0] == '.' || kl_path(path, env->dir, de->d_name) != 0
            || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        {
            continue;
        }

        len = strlen(de->d_name);

        if (kl_is_leftover(de->d_name, len)
            || strcmp(de->d_name, "__journal-0") == 0)
        {
            continue;
        }

        if (!kl_split_name(de->d_name, len, &topic, &partition)
            || !known(ctx, topic, partition))
        {
            kl_say(env, KL_LOG_WARN, 0, "%s is not a partition that the broker "
                   "knows, it is left alone", path);
        }
    }

    closedir(dir);
}
