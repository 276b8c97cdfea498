/*
 * leader-epoch-checkpoint: at which offset each leader epoch began (KIP-320).
 * Kafka's text: "0", the number of lines, then "epoch offset" lines.
 *
 * It is renamed into place without a sync; kl_flush() syncs it before anything
 * of the new epoch counts as flushed.  If a power cut leaves it unreadable,
 * the epochs are in the batches.
 */

#include "kl_internal.h"


#define KL_EPOCHS_MAX   4096            /* the oldest go */
#define KL_EPOCH_FILE   "leader-epoch-checkpoint"


static bool
kl_epoch_parse(const char *text, kl_epoch_t **out, size_t *n)
{
    int          used;
    long         count, i;
    kl_epoch_t  *list, e;

    if (sscanf(text, "0 %ld%n", &count, &used) != 1 || count < 0
        || count > KL_EPOCHS_MAX)
    {
        return false;
    }

    list = malloc(((size_t) count + 1) * sizeof(kl_epoch_t));
    if (list == NULL) {
        return false;
    }

    for (i = 0, text += used; i < count; i++, text += used) {
        if (sscanf(text, "%" SCNd32 " %" SCNd64 "%n", &e.epoch, &e.start,
                   &used) != 2
            || e.epoch < 0 || e.start < 0
            || (i > 0 && (e.epoch <= list[i - 1].epoch
                          || e.start < list[i - 1].start)))
        {
            free(list);
            return false;
        }

        list[i] = e;
    }

    *out = list;
    *n = (size_t) count;

    return true;
}


static bool
kl_epoch_read(kl_log_t *log, kl_epoch_t **list, size_t *n)
{
    bool    good;
    size_t  len;
    char   *text;

    text = (char *) kl_read_file(log->path, KL_EPOCH_FILE, KL_EPOCHS_MAX * 40,
                                 &len);
    if (text == NULL) {
        return false;
    }

    good = strlen(text) == len && kl_epoch_parse(text, list, n);
    free(text);

    return good;
}


static int
kl_epoch_write(kl_log_t *log, const kl_epoch_t *list, size_t n)
{
    int     rc;
    char   *text, *p;
    size_t  i, first;

    first = n > KL_EPOCHS_MAX ? n - KL_EPOCHS_MAX : 0;

    text = malloc((n - first + 1) * 40);
    if (text == NULL) {
        errno = ENOMEM;
        return -1;
    }

    p = text + sprintf(text, "0\n%zu\n", n - first);

    for (i = first; i < n; i++) {
        p += sprintf(p, "%" PRId32 " %" PRId64 "\n", list[i].epoch,
                     list[i].start);
    }

    rc = kl_write_file(log->path, KL_EPOCH_FILE, text, (size_t) (p - text),
                       false);
    free(text);

    return rc;
}


/* The handle's mutex is held; gen: the epoch_gen that the list is of. */
static void
kl_epoch_keep(kl_log_t *log, kl_epoch_t *list, size_t n, int64_t gen)
{
    free(log->epochs);
    log->epochs = list;
    log->epochs_n = n;
    log->epochs_gen = gen;
}


static kl_rc_t
kl_epoch_refresh(kl_log_t *log, const kl_pub_t *pub)
{
    size_t       n;
    kl_epoch_t  *list;

    if (log->epochs_gen == pub->epoch_gen) {
        return KL_OK;
    }

    if (pub->leader_epoch < 0) {
        kl_epoch_keep(log, NULL, 0, pub->epoch_gen);
        return KL_OK;
    }

    if (!kl_epoch_read(log, &list, &n)) {
        kl_say(log->env, KL_LOG_ERR, errno, "%s/" KL_EPOCH_FILE
               ": cannot be read", log->path);
        return KL_STORAGE_ERROR;
    }

    kl_epoch_keep(log, list, n, pub->epoch_gen);

    return KL_OK;
}


kl_rc_t
kl_epoch_add(kl_log_t *log, kl_pub_t *pub, int32_t epoch, int64_t start)
{
    size_t       n;
    kl_rc_t      rc;
    kl_epoch_t  *list;

    pthread_mutex_lock(&log->mutex);

    rc = kl_epoch_refresh(log, pub);
    if (rc != KL_OK) {
        pthread_mutex_unlock(&log->mutex);
        return rc;
    }

    n = log->epochs_n;
    list = malloc((n + 1) * sizeof(kl_epoch_t));

    if (list == NULL) {
        pthread_mutex_unlock(&log->mutex);
        return KL_NO_MEMORY;
    }

    if (n > 0) {
        memcpy(list, log->epochs, n * sizeof(kl_epoch_t));
    }

    /* an epoch of which nothing was written after all */
    while (n > 0 && (list[n - 1].start >= start || list[n - 1].epoch >= epoch))
    {
        n--;
    }

    list[n++] = (kl_epoch_t) { epoch, start };

    if (kl_epoch_write(log, list, n) != 0) {
        kl_say(log->env, KL_LOG_CRIT, errno, "%s/" KL_EPOCH_FILE
               ": write failed", log->path);
        free(list);
        pthread_mutex_unlock(&log->mutex);
        return KL_STORAGE_ERROR;
    }

    pub->epoch_gen++;
    pub->dir_gen++;
    pub->leader_epoch = epoch;

    kl_epoch_keep(log, list, n, pub->epoch_gen);

    pthread_mutex_unlock(&log->mutex);

    /* from here on others read the new file, whatever becomes of the append */
    kl_pub_store(log->part, pub);

    return KL_OK;
}


/* What the batches say, from the first segment on. */
static kl_rc_t
kl_epoch_rebuild(kl_log_t *log, const kl_pub_t *pub, kl_epoch_t **out,
    size_t *out_n)
{
    size_t       i, n, count = 0;
    int64_t     *bases = NULL, size;
    kl_rc_t      rc;
    kf_batch_t   b;
    kl_file_t   *f;
    kl_epoch_t  *list;
    kl_cursor_t  c;

    list = malloc((KL_EPOCHS_MAX + 1) * sizeof(kl_epoch_t));
    if (list == NULL) {
        return KL_NO_MEMORY;
    }

    rc = kl_segments_list(log, &bases, &n);

    for (i = 0; rc == KL_OK && i < n; i++) {
        rc = kl_file_open(log, bases[i], &f);
        if (rc != KL_OK) {
            break;
        }

        rc = kl_file_size(log, pub, f, &size);
        kl_cursor_init(&c, log, f, 0, size);

        while (rc == KL_OK && c.pos < c.end) {
            rc = kl_cursor_next(&c, &b);

            if (rc == KL_CORRUPT) {
                /* below the recovery point; not this file's to judge */
                rc = KL_OK;
                break;
            }

            if (rc != KL_OK) {
                break;
            }

            if (b.leader_epoch >= 0
                && (count == 0 || b.leader_epoch > list[count - 1].epoch))
            {
                if (count == KL_EPOCHS_MAX) {
                    memmove(list, list + 1, --count * sizeof(kl_epoch_t));
                }

                list[count++] = (kl_epoch_t) { b.leader_epoch, b.base_offset };
            }

            c.pos += b.size;
        }

        kl_file_unref(f);
    }

    free(bases);

    if (rc != KL_OK) {
        free(list);
        return rc;
    }

    *out = list;
    *out_n = count;

    return KL_OK;
}


/* The last epoch that began at or below start begins there, as Kafka's does;
 * false: nothing changed. */
static bool
kl_epoch_cut(kl_epoch_t *list, size_t *n, int64_t start)
{
    size_t  i = 0;

    while (i < *n && list[i].start <= start) {
        i++;
    }

    if (i == 0 || (i == 1 && list[0].start == start)) {
        return false;
    }

    *n -= i - 1;
    memmove(list, list + i - 1, *n * sizeof(kl_epoch_t));
    list[0].start = start;

    return true;
}


/* If it fails, or a power cut undoes it, the next start does it. */
void
kl_epoch_trim(kl_log_t *log, kl_pub_t *pub)
{
    size_t       n;
    kl_epoch_t  *list;

    pthread_mutex_lock(&log->mutex);

    if (kl_epoch_refresh(log, pub) == KL_OK && log->epochs_n > 0) {
        n = log->epochs_n;
        list = malloc(n * sizeof(kl_epoch_t));

        if (list != NULL) {
            memcpy(list, log->epochs, n * sizeof(kl_epoch_t));

            if (kl_epoch_cut(list, &n, pub->log_start)
                && kl_epoch_write(log, list, n) == 0)
            {
                pub->epoch_gen++;
                kl_epoch_keep(log, list, n, pub->epoch_gen);

            } else {
                free(list);
            }
        }
    }

    pthread_mutex_unlock(&log->mutex);
}


/*
 * After recovery.  seen: the epochs of the scanned batches, which the file
 * lacks when a power cut took its last change.
 */
kl_rc_t
kl_epoch_load(kl_log_t *log, kl_pub_t *pub, const kl_epoch_t *seen,
    size_t seen_n)
{
    bool         changed = false;
    size_t       n, i;
    kl_rc_t      rc;
    kl_epoch_t  *list = NULL, *more;

    pub->leader_epoch = -1;

    if (!kl_epoch_read(log, &list, &n)) {

        if (pub->log_end == pub->first_base) {
            return KL_OK;
        }

        kl_say(log->env, KL_LOG_NOTICE, 0, "%s/" KL_EPOCH_FILE
               ": not readable, made anew from the batches", log->path);

        rc = kl_epoch_rebuild(log, pub, &list, &n);
        if (rc != KL_OK) {
            return rc;
        }

        changed = true;
    }

    more = realloc(list, (n + seen_n + 1) * sizeof(kl_epoch_t));

    if (more == NULL) {
        free(list);
        return KL_NO_MEMORY;
    }

    list = more;

    for (i = 0; i < seen_n; i++) {
        if (n == 0 || (seen[i].epoch > list[n - 1].epoch
                       && seen[i].start >= list[n - 1].start))
        {
            list[n++] = seen[i];
            changed = true;
        }
    }

    while (n > 0 && list[n - 1].start >= pub->log_end) {
        n--;
        changed = true;
    }

    if (kl_epoch_cut(list, &n, pub->log_start)) {
        changed = true;
    }

    if (changed) {
        if (kl_epoch_write(log, list, n) != 0) {
            kl_say(log->env, KL_LOG_CRIT, errno, "%s/" KL_EPOCH_FILE
                   ": write failed", log->path);
            free(list);
            return KL_STORAGE_ERROR;
        }

        pub->dir_gen++;
    }

    pub->leader_epoch = n > 0 ? list[n - 1].epoch : -1;
    pub->epoch_gen++;

    free(list);

    return KL_OK;
}


kl_rc_t
kl_epoch_end(kl_log_t *log, int32_t leader_epoch, int32_t *epoch,
    int64_t *end_offset)
{
    size_t    i, n;
    kl_rc_t   rc;
    kl_pub_t  pub;

    *epoch = -1;
    *end_offset = -1;

    rc = kl_look(log, &pub);

    if (rc != KL_OK || leader_epoch < 0 || leader_epoch > pub.leader_epoch) {
        return rc;
    }

    if (leader_epoch == pub.leader_epoch) {
        *epoch = leader_epoch;
        *end_offset = pub.log_end;
        return KL_OK;
    }

    pthread_mutex_lock(&log->mutex);

    rc = kl_epoch_refresh(log, &pub);

    if (rc == KL_OK) {
        n = log->epochs_n;

        for (i = 0; i < n && log->epochs[i].epoch <= leader_epoch; i++) {
            /* void */
        }

        /* below the first that is known, Kafka answers what was asked */
        *epoch = i > 0 ? log->epochs[i - 1].epoch : leader_epoch;
        *end_offset = i < n ? log->epochs[i].start : pub.log_end;
    }

    pthread_mutex_unlock(&log->mutex);

    return rc;
}


int32_t
kl_epoch_of(kl_log_t *log, int64_t offset)
{
    size_t    i;
    int32_t   epoch = -1;
    kl_pub_t  pub;

    if (kl_look(log, &pub) != KL_OK) {
        return -1;
    }

    pthread_mutex_lock(&log->mutex);

    if (kl_epoch_refresh(log, &pub) == KL_OK) {
        for (i = 0; i < log->epochs_n && log->epochs[i].start <= offset; i++) {
            epoch = log->epochs[i].epoch;
        }
    }

    pthread_mutex_unlock(&log->mutex);

    return epoch;
}
