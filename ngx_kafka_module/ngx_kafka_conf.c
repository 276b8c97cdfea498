/*
 * The kafka_broker block: its lines, its directory, its zone.
 */

#include "ngx_kafka_life.h"


#define NGX_KAFKA_ZONE_DEFAULT    (64 * 1024 * 1024)
#define NGX_KAFKA_BUDGET_DEFAULT  (64 * 1024 * 1024)
#define NGX_KAFKA_BUDGET_MIN      (1024 * 1024)
#define NGX_KAFKA_FILES_DEFAULT   1024
#define NGX_KAFKA_FILES_MIN       16


/* A broker block while it is parsed. */
typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_array_t          config;                /* of kc_config_entry_t */
} ngx_kafka_block_t;


static char *ngx_kafka_broker_line(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_kafka_broker_data(ngx_conf_t *cf, ngx_kafka_broker_t *b,
    ngx_str_t *value);
static char *ngx_kafka_broker_config(ngx_conf_t *cf, ngx_kafka_block_t *block,
    ngx_str_t *name, ngx_str_t *value);
static char *ngx_kafka_broker_end(ngx_conf_t *cf, ngx_kafka_block_t *block);
static ngx_int_t ngx_kafka_real_path(ngx_conf_t *cf, ngx_str_t *path,
    ngx_str_t *real);
static ngx_uint_t ngx_kafka_is_dotted(ngx_str_t *name);


char *
ngx_kafka_conf_broker(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_kafka_main_conf_t *kmcf = conf;

    char                 *rv;
    ngx_str_t            *value, pool_name;
    ngx_uint_t            i;
    ngx_conf_t            save;
    ngx_kafka_block_t     block;
    ngx_kafka_broker_t   *b, **p;

    value = cf->args->elts;
    p = kmcf->brokers.elts;

    if (value[1].len == 0) {
        return "needs a name: kafka_broker NAME { ... }";
    }

    for (i = 0; i < kmcf->brokers.nelts; i++) {
        if (p[i]->name.len == value[1].len
            && ngx_strncmp(p[i]->name.data, value[1].data, value[1].len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate broker \"%V\", the first is in "
                               "%s:%ui; give each its own name",
                               &value[1], p[i]->file, p[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    b = ngx_pcalloc(cf->pool, sizeof(ngx_kafka_broker_t));
    if (b == NULL) {
        return NGX_CONF_ERROR;
    }

    b->name = value[1];
    b->file = cf->conf_file->file.name.data;
    b->line = cf->conf_file->line;
    b->node_id = NGX_CONF_UNSET;
    b->zone_size = NGX_CONF_UNSET_SIZE;
    b->buffer_budget = NGX_CONF_UNSET_SIZE;
    b->open_files = NGX_CONF_UNSET_UINT;
    b->worker_slot = -1;
    b->log = cf->log;

    block.broker = b;

    if (ngx_array_init(&block.config, cf->pool, 8, sizeof(kc_config_entry_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    save = *cf;
    cf->handler = ngx_kafka_broker_line;
    cf->handler_conf = (void *) &block;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    b->config.entries = block.config.elts;
    b->config.count = block.config.nelts;

    if (b->data.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no \"data\" in broker \"%V\", write \"data "
                           "/PATH;\" to name its directory",
                           &b->name);
        return NGX_CONF_ERROR;
    }

    if (b->thread_pool == NULL) {
        ngx_str_set(&pool_name, "default");

        b->thread_pool = ngx_thread_pool_add(cf, &pool_name);
        if (b->thread_pool == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    ngx_conf_init_value(b->node_id, 1);
    ngx_conf_init_size_value(b->zone_size, NGX_KAFKA_ZONE_DEFAULT);
    ngx_conf_init_size_value(b->buffer_budget, NGX_KAFKA_BUDGET_DEFAULT);
    ngx_conf_init_uint_value(b->open_files, NGX_KAFKA_FILES_DEFAULT);

    rv = ngx_kafka_broker_end(cf, &block);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    p = ngx_array_push(&kmcf->brokers);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = b;

    return NGX_CONF_OK;
}


/* Kafka's names have dots, ours do not. */
static ngx_uint_t
ngx_kafka_is_dotted(ngx_str_t *name)
{
    return ngx_strlchr(name->data, name->data + name->len, '.') != NULL;
}


/* One line inside of kafka_broker {}. */
static char *
ngx_kafka_broker_line(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_kafka_block_t *block = conf;

    ssize_t              size;
    ngx_int_t            n;
    ngx_str_t           *value, *name;
    ngx_uint_t           args;
    ngx_kafka_broker_t  *b = block->broker;

    value = cf->args->elts;
    name = &value[0];

    args = (name->len == 6 && ngx_strcmp(name->data, "config") == 0) ? 3 : 2;

    if (cf->args->nelts != args) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid number of arguments in \"%V\", it takes "
                           "%s", name, args == 3 ? "a name and a value"
                                                 : "one value");
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(name->data, "data") == 0) {
        return ngx_kafka_broker_data(cf, b, &value[1]);
    }

    if (ngx_strcmp(name->data, "config") == 0) {
        return ngx_kafka_broker_config(cf, block, &value[1], &value[2]);
    }

    if (ngx_strcmp(name->data, "zone") == 0) {

        if (b->zone_size != NGX_CONF_UNSET_SIZE) {
            goto duplicate;
        }

        size = ngx_parse_size(&value[1]);

        if (size == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid zone size \"%V\", write a size such "
                               "as 64m", &value[1]);
            return NGX_CONF_ERROR;
        }

        if (size < NGX_KAFKA_ZONE_MIN || ngx_kafka_zone_fits(size) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "zone \"%V\" is too small, write at least 2m",
                               &value[1]);
            return NGX_CONF_ERROR;
        }

        b->zone_size = size;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(name->data, "node_id") == 0) {

        if (b->node_id != NGX_CONF_UNSET) {
            goto duplicate;
        }

        n = ngx_atoi(value[1].data, value[1].len);

        if (n == NGX_ERROR || n > INT32_MAX) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid node_id \"%V\", write a number from 0 "
                               "to 2147483647", &value[1]);
            return NGX_CONF_ERROR;
        }

        b->node_id = n;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(name->data, "buffer_budget") == 0) {

        if (b->buffer_budget != NGX_CONF_UNSET_SIZE) {
            goto duplicate;
        }

        size = ngx_parse_size(&value[1]);

        if (size == NGX_ERROR || size < NGX_KAFKA_BUDGET_MIN) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid buffer_budget \"%V\", write a size of "
                               "at least 1m", &value[1]);
            return NGX_CONF_ERROR;
        }

        b->buffer_budget = size;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(name->data, "open_files") == 0) {

        if (b->open_files != NGX_CONF_UNSET_UINT) {
            goto duplicate;
        }

        n = ngx_atoi(value[1].data, value[1].len);

        if (n == NGX_ERROR || n < NGX_KAFKA_FILES_MIN || n > 1000000) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid open_files \"%V\", write a number "
                               "from 16 to 1000000", &value[1]);
            return NGX_CONF_ERROR;
        }

        b->open_files = n;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(name->data, "thread_pool") == 0) {

        if (b->thread_pool) {
            goto duplicate;
        }

        b->thread_pool = ngx_thread_pool_add(cf, &value[1]);

        return b->thread_pool ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown directive \"%V\" in \"kafka_broker\", it knows "
                       "data, zone, node_id, config, thread_pool, "
                       "buffer_budget and open_files%s", name,
                       ngx_kafka_is_dotted(name)
                       ? "; Kafka's names are written as \"config NAME "
                         "VALUE;\"" : "");

    return NGX_CONF_ERROR;

duplicate:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "duplicate \"%V\" in broker \"%V\"", name, &b->name);

    return NGX_CONF_ERROR;
}


static char *
ngx_kafka_broker_data(ngx_conf_t *cf, ngx_kafka_broker_t *b, ngx_str_t *value)
{
    if (b->data.len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate \"data\" in broker \"%V\"", &b->name);
        return NGX_CONF_ERROR;
    }

    if (value->len == 0 || value->data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"data\" needs an absolute path, write \"data "
                           "/PATH;\" instead of \"%V\"", value);
        return NGX_CONF_ERROR;
    }

    if (value->len > NGX_MAX_PATH - 512) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the path of \"data\" is too long, write one of at "
                           "most %d bytes", NGX_MAX_PATH - 512);
        return NGX_CONF_ERROR;
    }

    b->data = *value;

    while (b->data.len > 1 && b->data.data[b->data.len - 1] == '/') {
        b->data.len--;
    }

    if (b->data.len == 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"data /\" would use the root directory, write "
                           "\"data /PATH;\"");
        return NGX_CONF_ERROR;
    }

    b->data.data[b->data.len] = '\0';

    return NGX_CONF_OK;
}


static char *
ngx_kafka_broker_config(ngx_conf_t *cf, ngx_kafka_block_t *block,
    ngx_str_t *name, ngx_str_t *value)
{
    char                problem[512], text[512];
    kf_str_t            n, v, out;
    ngx_uint_t          i;
    const char         *bad;
    kc_config_entry_t  *e;

    n.data = name->data;
    n.len = name->len;
    v.data = value->data;
    v.len = value->len;

    out = v;

    bad = kc_static_check(n, v, &out, problem, sizeof(problem), text,
                          sizeof(text));

    if (bad) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", bad);
        return NGX_CONF_ERROR;
    }

    e = block->config.elts;

    for (i = 0; i < block->config.nelts; i++) {
        if (kf_str_eq(e[i].name, n)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate config \"%V\" in broker \"%V\"",
                               name, &block->broker->name);
            return NGX_CONF_ERROR;
        }
    }

    e = ngx_array_push(&block->config);
    if (e == NULL) {
        return NGX_CONF_ERROR;
    }

    e->name = n;
    e->value.len = out.len;
    e->value.data = ngx_pnalloc(cf->pool, out.len + 1);
    if (e->value.data == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memcpy((u_char *) e->value.data, out.data, out.len);
    ((u_char *) e->value.data)[out.len] = '\0';

    return NGX_CONF_OK;
}


/* Directory and zone, once the block is known. */
static char *
ngx_kafka_broker_end(ngx_conf_t *cf, ngx_kafka_block_t *block)
{
    u_char                        *p;
    ngx_str_t                      real, zone;
    ngx_uint_t                     i;
    ngx_kafka_broker_t            *b = block->broker, **other;
    ngx_stream_kafka_main_conf_t  *kmcf;

    if (ngx_kafka_real_path(cf, &b->data, &real) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    kmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_kafka_module);
    other = kmcf->brokers.elts;

    for (i = 0; i < kmcf->brokers.nelts; i++) {

        if (other[i]->real.len == real.len
            && ngx_strncmp(other[i]->real.data, real.data, real.len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"data\" of broker \"%V\" is the directory of "
                               "broker \"%V\" in %s:%ui, give each its own",
                               &b->name, &other[i]->name, other[i]->file,
                               other[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    b->real = real;

    /* by its path: a block that is renamed finds its zone again */

    zone.len = sizeof("kafka:") - 1 + real.len;
    zone.data = ngx_pnalloc(cf->pool, zone.len + 1);
    if (zone.data == NULL) {
        return NGX_CONF_ERROR;
    }

    p = ngx_cpymem(zone.data, "kafka:", sizeof("kafka:") - 1);
    p = ngx_cpymem(p, real.data, real.len);
    *p = '\0';

    b->shm_zone = ngx_shared_memory_add(cf, &zone, b->zone_size,
                                        &ngx_stream_kafka_module);
    if (b->shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    b->shm_zone->init = ngx_kafka_zone_init;
    b->shm_zone->data = b;

    return NGX_CONF_OK;
}


/* The real path of what exists of it, and the rest as it is written. */
static ngx_int_t
ngx_kafka_real_path(ngx_conf_t *cf, ngx_str_t *path, ngx_str_t *real)
{
    char     buf[PATH_MAX], *p;
    u_char  *copy;
    size_t   len, rest, n;

    copy = ngx_pnalloc(cf->pool, path->len + 1);
    if (copy == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(copy, path->data, path->len);
    copy[path->len] = '\0';
    len = path->len;

    for ( ;; ) {
        p = realpath(len ? (char *) copy : "/", buf);

        if (p || len == 0) {
            break;
        }

        while (len && copy[len - 1] != '/') {
            len--;
        }

        while (len && copy[len - 1] == '/') {
            len--;
        }

        copy[len] = '\0';
    }

    if (p == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "realpath() of \"%V\" failed", path);
        return NGX_ERROR;
    }

    n = ngx_strlen(buf);

    if (n == 1) {
        n = 0;
    }

    while (len < path->len && path->data[len] == '/') {
        len++;
    }

    rest = path->len - len;

    real->data = ngx_pnalloc(cf->pool, n + 1 + rest + 1);
    if (real->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(real->data, buf, n);
    real->len = n;

    if (rest) {
        real->data[real->len++] = '/';
        ngx_memcpy(real->data + real->len, path->data + len, rest);
        real->len += rest;
    }

    real->data[real->len] = '\0';

    return NGX_OK;
}
