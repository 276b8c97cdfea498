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
    ngx_uint_t           failed;
} ngx_kafka_known_t;


static ngx_int_t ngx_kafka_dir_parse(const char *name, ngx_kafka_dir_t *d);
static ngx_int_t ngx_kafka_dir_id(int dirfd, const char *name, kf_uuid_t *id);
static ngx_int_t ngx_kafka_dir_remove(ngx_kafka_broker_t *b, kc_t *own,
    ngx_kafka_dir_t *d);
static bool ngx_kafka_sweep_known(void *ctx, kf_str_t topic,
    int32_t partition);


ngx_int_t
ngx_kafka_sweep_deleted(ngx_kafka_broker_t *b, kc_t *own, ngx_array_t *ids)
{
    DIR              *dir;
    kf_uuid_t        *id;
    ngx_int_t         rc;
    ngx_uint_t        i;
    struct dirent    *de;
    ngx_kafka_dir_t   d;

    if (ids->nelts == 0) {
        return NGX_OK;
    }

    dir = opendir((char *) b->data.data);
    if (dir == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_OK;
    id = ids->elts;

    while ((de = readdir(dir)) != NULL) {

        if (ngx_kafka_dir_parse(de->d_name, &d) != NGX_OK
            || ngx_kafka_dir_id(dirfd(dir), de->d_name, &d.id) != NGX_OK)
        {
            continue;
        }

        for (i = 0; i < ids->nelts; i++) {
            if (kf_uuid_eq(d.id, id[i])) {

                if (ngx_kafka_dir_remove(b, own, &d) != NGX_OK) {
                    rc = NGX_ERROR;
                }

                break;
            }
        }
    }

    (void) closedir(dir);

    return rc;
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


/* A handle needs a slot; it is given up first, as DeleteTopics does. */
static kl_log_t *
ngx_kafka_dir_open(ngx_kafka_broker_t *b, kc_t *kc, ngx_kafka_dir_t *d)
{
    int32_t        slot;
    kl_log_t      *log;
    kl_offsets_t   o;

    if (kc_topic_by_id(kc, d->id) != NULL) {
        return NULL;
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
ngx_kafka_sweep_unknown(ngx_kafka_broker_t *b)
{
    ngx_kafka_known_t  known;

    ngx_memzero(&known, sizeof(ngx_kafka_known_t));
    known.broker = b;
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

    ngx_kafka_coord_leave(known->broker);

    return is;
}
