/*
 * Deleting a partition's directory, and directories that nobody knows.
 *
 * A deleted directory is renamed to "<topic>-<partition>.<uuid>-delete" before
 * it is emptied, so that a crash leaves something that is plainly garbage.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "kl_internal.h"


#define KL_DELETE_SUFFIX  "-delete"
#define KL_DELETE_TAIL    (1 + 32 + 7)  /* ".", the id in hex, the suffix */


/* Files of a directory, and the directory.  No deeper: we never make any. */
static int
kl_remove_dir(const char *path)
{
    DIR            *dir;
    char            file[KL_PATH_MAX];
    struct dirent  *de;

    dir = opendir(path);
    if (dir == NULL) {
        return -1;
    }

    while ((de = readdir(dir)) != NULL) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        if (kl_path(file, path, de->d_name) == 0) {
            (void) unlink(file);
        }
    }

    closedir(dir);

    return rmdir(path);
}


/* Kafka's name: the topic's is cut if the whole would be too long. */
static int
kl_remove_name(kl_log_t *log, char *path)
{
    int     i, len;
    char    tail[64], name[KL_NAME_MAX + 1], *p;

    p = tail + sprintf(tail, "-%" PRId32 ".", log->partition);

    for (i = 0; i < 16; i++) {
        p += sprintf(p, "%02x", log->topic_id.b[i]);
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


static kl_rc_t
kl_remove_error(kl_log_t *log, const char *what)
{
    kl_say(log->env, KL_LOG_ERR, errno, "%s: %s failed", log->path, what);

    return KL_STORAGE_ERROR;
}


kl_rc_t
kl_remove(kl_log_t *log)
{
    char         path[KL_PATH_MAX];
    kl_rc_t      rc = KL_OK;
    kl_pub_t     pub;
    struct stat  st;

    kl_jobs_lock(log->part);

    kl_part_lock(log->part);
    kl_pub_load(log->part, &pub);

    /* else the slot was given back before, and nobody opens it any more */
    if ((uint64_t) pub.incarnation == log->incarnation && kl_is_bound(log)) {
        pub.state = KL_DELETED;
        kl_pub_store(log->part, &pub);
    }

    kl_part_unlock(log->part);

    /* by now the name may be another topic's */
    if (!kl_metadata_is_ours(log)) {
        kl_jobs_unlock(log->part);
        return stat(log->path, &st) != 0 && errno == ENOENT ? KL_OK : KL_GONE;
    }

    kl_files_drop(log->env, log->slot, 0, true);

    if (kl_remove_name(log, path) != 0) {
        rc = kl_remove_error(log, "naming");

    } else {
        if (stat(path, &st) == 0) {
            (void) kl_remove_dir(path);
        }

        errno = kl_fault("rename");

        if (errno || rename(log->path, path) != 0) {
            if (errno != ENOENT) {
                rc = kl_remove_error(log, "rename for deletion");
            }

        } else if (kl_sync_dir(log->env->dir) != 0) {
            rc = kl_remove_error(log, "fsync of the parent");

        } else {
            (void) kl_fault("remove.renamed");

            if (kl_remove_dir(path) != 0) {
                rc = kl_remove_error(log, "removal");
            }
        }
    }

    kl_jobs_unlock(log->part);

    return rc;
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

        if (kl_is_leftover(de->d_name, len)) {
            if (kl_remove_dir(path) != 0) {
                kl_say(env, KL_LOG_WARN, errno, "%s: removal failed", path);
            }
            continue;
        }

        if (strcmp(de->d_name, "__journal-0") == 0) {
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
