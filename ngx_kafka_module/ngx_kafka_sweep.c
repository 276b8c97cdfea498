/*
 * Directories of partitions that are no more.
 *
 * A directory belongs to the topic whose id its partition.metadata says, not to
 * the one whose name it has: a topic that was made again under the same name is
 * another one.
 */

#include "ngx_kafka_life.h"

#include <dirent.h>
#include <fcntl.h>


typedef struct {
    kf_str_t   topic;
    int32_t    partition;
    kf_uuid_t  id;
} ngx_kafka_dir_t;

typedef struct {
    ngx_kafka_broker_t  *broker;
    kc_t                 kc;
    ngx_kafka_io_t       io;
    int64_t              upto;
} ngx_kafka_known_t;


static int ngx_libc_cdecl ngx_kafka_id_cmp(const void *one, const void *two);
static ngx_int_t ngx_kafka_dir_parse(const char *name, ngx_kafka_dir_t *d);
static ngx_int_t ngx_kafka_dir_id(int dirfd, const char *name, kf_uuid_t *id);
static ngx_int_t ngx_kafka_dir_remove(ngx_kafka_broker_t *b, kc_t *own,
    ngx_kafka_dir_t *d);
static bool ngx_kafka_dir_is_foreign(ngx_kafka_broker_t *b, kc_t *kc,
    ngx_kafka_dir_t *d, int64_t upto);
static bool ngx_kafka_sweep_known(void *ctx, kf_str_t topic,
    int32_t partition);


ngx_int_t
ngx_kafka_sweep_deleted(ngx_kafka_broker_t *b, kc_t *own, ngx_array_t *ids)
{
    DIR              *dir;
    ngx_int_t         rc;
    struct dirent    *de;
    ngx_kafka_dir_t   d;

    if (ids->nelts == 0) {
        return NGX_OK;
    }

    ngx_qsort(ids->elts, ids->nelts, sizeof(kf_uuid_t), ngx_kafka_id_cmp);

    dir = opendir((char *) b->data.data);
    if (dir == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_OK;

    while ((de = readdir(dir)) != NULL) {

        if (ngx_kafka_dir_parse(de->d_name, &d) != NGX_OK
            || ngx_kafka_dir_id(dirfd(dir), de->d_name, &d.id) != NGX_OK)
        {
            continue;
        }

        if (bsearch(&d.id, ids->elts, ids->nelts, sizeof(kf_uuid_t),
                    ngx_kafka_id_cmp)
            != NULL
            && ngx_kafka_dir_remove(b, own, &d) != NGX_OK)
        {
            rc = NGX_ERROR;
        }
    }

    (void) closedir(dir);

    /*
     * Not only what was found: another may have renamed, and not synced.  Then
     * a snapshot may hide the deletion, and a power cut bring the name back.
     */

    if (kl_remove_sync(b->env) != KL_OK) {
        rc = NGX_ERROR;
    }

    return rc;
}


static int ngx_libc_cdecl
ngx_kafka_id_cmp(const void *one, const void *two)
{
    return ngx_memcmp(one, two, sizeof(kf_uuid_t));
}


/* "<topic>-<partition>" */
static ngx_int_t
ngx_kafka_dir_parse(const char *name, ngx_kafka_dir_t *d)
{
    size_t       len;
    ngx_int_t    n;
    const char  *dash;

    dash = strrchr(name, '-');

    if (dash == NULL || dash == name || name[0] == '.'
        || name[0] == NGX_KAFKA_JOURNAL[0])
    {
        return NGX_DECLINED;
    }

    len = strlen(dash + 1);

    if (len == 0 || len > 10) {
        return NGX_DECLINED;
    }

    n = ngx_atoi((u_char *) dash + 1, len);

    if (n < 0 || n > INT32_MAX) {
        return NGX_DECLINED;
    }

    d->topic.data = (const uint8_t *) name;
    d->topic.len = dash - name;
    d->partition = (int32_t) n;

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_dir_id(int at, const char *name, kf_uuid_t *id)
{
    int         fd;
    char        path[NAME_MAX + 32];
    u_char      buf[256], raw[24], *p;
    ssize_t     n;
    ngx_str_t   src, dst;

    (void) snprintf(path, sizeof(path), "%s/partition.metadata", name);

    fd = openat(at, path, O_RDONLY|O_CLOEXEC|O_NOFOLLOW);
    if (fd == -1) {
        return NGX_DECLINED;
    }

    n = read(fd, buf, sizeof(buf) - 1);
    (void) close(fd);

    if (n <= 0) {
        return NGX_DECLINED;
    }

    buf[n] = '\0';

    p = (u_char *) strstr((char *) buf, "topic_id: ");
    if (p == NULL) {
        return NGX_DECLINED;
    }

    src.data = p + sizeof("topic_id: ") - 1;
    src.len = 22;

    if (src.data + src.len > buf + n) {
        return NGX_DECLINED;
    }

    dst.data = raw;

    if (ngx_decode_base64url(&dst, &src) != NGX_OK
        || dst.len != sizeof(id->b))
    {
        return NGX_DECLINED;
    }

    ngx_memcpy(id->b, raw, sizeof(id->b));

    return NGX_OK;
}


/*
 * A handle needs a slot: the one that the partition had, since a job of it may
 * still be under way and is waited for; else any, which is given up first, as
 * DeleteTopics does.
 */
static kl_log_t *
ngx_kafka_dir_open(ngx_kafka_broker_t *b, kc_t *kc, ngx_kafka_dir_t *d)
{
    int32_t               slot;
    uint32_t              i;
    kl_log_t             *log;
    kl_offsets_t          o;
    ngx_kafka_binding_t  *was;

    if (kc_topic_by_id(kc, d->id) != NULL) {
        return NULL;
    }

    for (i = 0; i < b->zone->slots_n; i++) {
        was = &b->zone->bindings[i];

        if (was->partition == d->partition && kf_uuid_eq(was->topic_id, d->id))
        {
            /* no slot that was ever bound is in its incarnation 0 */
            return kl_log_open(b->env, (int32_t) i, 0, d->id, d->topic,
                               d->partition);
        }
    }

    slot = kl_bind(b->zone->parts, d->id, d->partition);

    if (slot < 0) {
        return NULL;
    }

    kl_snapshot(kl_part(b->zone->parts, slot), &o);

    log = kl_log_open(b->env, slot, o.incarnation, d->id, d->topic,
                      d->partition);

    kl_release(b->zone->parts, slot);

    return log;
}


static ngx_int_t
ngx_kafka_dir_remove(ngx_kafka_broker_t *b, kc_t *own, ngx_kafka_dir_t *d)
{
    kc_t             kc;
    kl_rc_t          rc;
    kl_log_t        *log;
    ngx_kafka_io_t   io;

    log = NULL;

    if (own) {
        log = ngx_kafka_dir_open(b, own, d);

    } else {
        ngx_memzero(&kc, sizeof(kc_t));
        ngx_memzero(&io, sizeof(ngx_kafka_io_t));
        io.broker = b;

        if (kc_init(&kc, ngx_kafka_zone_mem(b->zone), ngx_kafka_coord_io(&io))
            && ngx_kafka_coord_enter(b, &kc) == NGX_OK)
        {
            log = ngx_kafka_dir_open(b, &kc, d);
            ngx_kafka_coord_leave(b);
        }

        kc_done(&kc);
    }

    if (log == NULL) {
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                  "kafka_broker \"%V\": removing the directory of a deleted "
                  "topic, \"%*s-%D\"", &b->name, (size_t) d->topic.len,
                  d->topic.data, d->partition);

    rc = kl_remove(log);
    kl_log_close(log);

    return (rc == KL_OK || rc == KL_GONE) ? NGX_OK : NGX_ERROR;
}


void
ngx_kafka_sweep_unknown(ngx_kafka_broker_t *b, int64_t upto)
{
    ngx_kafka_known_t  known;

    ngx_memzero(&known, sizeof(ngx_kafka_known_t));
    known.broker = b;
    known.upto = upto;
    known.io.broker = b;

    if (!kc_init(&known.kc, ngx_kafka_zone_mem(b->zone),
                 ngx_kafka_coord_io(&known.io)))
    {
        return;
    }

    kl_sweep(b->env, ngx_kafka_sweep_known, &known);

    kc_done(&known.kc);
}


static bool
ngx_kafka_sweep_known(void *ctx, kf_str_t topic, int32_t partition)
{
    ngx_kafka_known_t  *known = ctx;

    bool               is;
    const kc_topic_t  *t;

    if (kf_str_eq(topic, kf_str(NGX_KAFKA_JOURNAL))) {
        return true;
    }

    if (ngx_kafka_coord_enter(known->broker, &known->kc) != NGX_OK) {
        /* better to say nothing than something wrong */
        return true;
    }

    t = kc_topic_by_name(&known->kc, topic);
    is = (t != NULL && partition < t->partition_count);

    /* or deleted just now, and about to be renamed */
    is = is || kc_topics_changed(&known->kc) > known->upto;

    ngx_kafka_coord_leave(known->broker);

    return is;
}


ngx_uint_t
ngx_kafka_sweep_foreign(ngx_kafka_broker_t *b, int64_t upto)
{
    DIR              *dir;
    kc_t              kc;
    ngx_uint_t        n;
    struct dirent    *de;
    ngx_kafka_io_t    io;
    ngx_kafka_dir_t   d;

    ngx_memzero(&kc, sizeof(kc_t));
    ngx_memzero(&io, sizeof(ngx_kafka_io_t));
    io.broker = b;
    n = 0;

    dir = opendir((char *) b->data.data);

    if (dir == NULL
        || !kc_init(&kc, ngx_kafka_zone_mem(b->zone), ngx_kafka_coord_io(&io)))
    {
        goto done;
    }

    while ((de = readdir(dir)) != NULL) {

        if (ngx_kafka_dir_parse(de->d_name, &d) == NGX_OK
            && ngx_kafka_dir_id(dirfd(dir), de->d_name, &d.id) == NGX_OK
            && ngx_kafka_dir_is_foreign(b, &kc, &d, upto))
        {
            n++;
            ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                          "kafka_broker \"%V\": \"%V/%s\" belongs to another "
                          "topic than the one of that name, which stays "
                          "offline; move the directory away", &b->name,
                          &b->data, de->d_name);
        }
    }

done:

    if (dir) {
        (void) closedir(dir);
    }

    kc_done(&kc);

    return n;
}


static bool
ngx_kafka_dir_is_foreign(ngx_kafka_broker_t *b, kc_t *kc, ngx_kafka_dir_t *d,
    int64_t upto)
{
    bool               is;
    const kc_topic_t  *t;

    if (ngx_kafka_coord_enter(b, kc) != NGX_OK) {
        return false;
    }

    t = kc_topic_by_name(kc, d->topic);

    /* else one more deletion may be on its way */

    is = (t != NULL && d->partition < t->partition_count
          && !kf_uuid_eq(t->id, d->id) && kc_topics_changed(kc) <= upto);

    ngx_kafka_coord_leave(b);

    return is;
}
