/*
 * What nginx sees: directives, configuration, hooks.
 *
 * All that can be wrong in a configuration is found while it is parsed, under
 * `nginx -t` too, with file and line and what to write instead; nothing here
 * touches a disk but the master's making of the directory, which is not done
 * under `nginx -t`.  The hooks never fail for a disk or a lock: that would end
 * the master, or make it respawn workers for ever.
 */

#include "ngx_kafka_life.h"


#define NGX_KAFKA_ZONE_DEFAULT    (64 * 1024 * 1024)
#define NGX_KAFKA_BUDGET_DEFAULT  (64 * 1024 * 1024)
#define NGX_KAFKA_BUDGET_MIN      (1024 * 1024)
#define NGX_KAFKA_FILES_DEFAULT   1024
#define NGX_KAFKA_FILES_MIN       16


typedef struct {
    ngx_array_t  brokers;                       /* of ngx_kafka_broker_t * */
} ngx_stream_kafka_main_conf_t;

/* A broker block while it is parsed. */
typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_array_t          config;                /* of kc_config_entry_t */
} ngx_kafka_block_t;


static ngx_int_t ngx_stream_kafka_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_stream_kafka_postconfiguration(ngx_conf_t *cf);
static void *ngx_stream_kafka_create_main_conf(ngx_conf_t *cf);
static void *ngx_stream_kafka_create_srv_conf(ngx_conf_t *cf);
static char *ngx_stream_kafka_merge_srv_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_stream_kafka_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_stream_kafka_init_process(ngx_cycle_t *cycle);
static void ngx_stream_kafka_exit_process(ngx_cycle_t *cycle);

static char *ngx_stream_kafka_broker(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_kafka_broker_line(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_kafka_broker_data(ngx_conf_t *cf, ngx_kafka_broker_t *b,
    ngx_str_t *value);
static char *ngx_kafka_broker_config(ngx_conf_t *cf, ngx_kafka_block_t *block,
    ngx_str_t *name, ngx_str_t *value);
static char *ngx_kafka_broker_end(ngx_conf_t *cf, ngx_kafka_block_t *block);
static ngx_int_t ngx_kafka_real_path(ngx_conf_t *cf, ngx_str_t *path,
    ngx_str_t *real);
static char *ngx_stream_kafka(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_stream_kafka_advertise(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_stream_kafka_check_listen(ngx_conf_t *cf);
static ngx_int_t ngx_kafka_static_configs(ngx_conf_t *cf,
    ngx_stream_kafka_srv_conf_t *conf);


static ngx_command_t  ngx_stream_kafka_commands[] = {

    { ngx_string("kafka_broker"),
      NGX_STREAM_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_stream_kafka_broker,
      NGX_STREAM_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("kafka"),
      NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_stream_kafka,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("kafka_advertise"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_stream_kafka_advertise,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("kafka_log_requests"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_kafka_srv_conf_t, log_requests),
      NULL },

    { ngx_string("kafka_drain_timeout"),
      NGX_STREAM_MAIN_CONF|NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_kafka_srv_conf_t, drain_timeout),
      NULL },

      ngx_null_command
};


static ngx_stream_module_t  ngx_stream_kafka_module_ctx = {
    ngx_stream_kafka_preconfiguration,     /* preconfiguration */
    ngx_stream_kafka_postconfiguration,    /* postconfiguration */

    ngx_stream_kafka_create_main_conf,     /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_stream_kafka_create_srv_conf,      /* create server configuration */
    ngx_stream_kafka_merge_srv_conf        /* merge server configuration */
};


ngx_module_t  ngx_stream_kafka_module = {
    NGX_MODULE_V1,
    &ngx_stream_kafka_module_ctx,          /* module context */
    ngx_stream_kafka_commands,             /* module directives */
    NGX_STREAM_MODULE,                     /* module type */
    NULL,                                  /* init master */
    ngx_stream_kafka_init_module,          /* init module */
    ngx_stream_kafka_init_process,         /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_stream_kafka_exit_process,         /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/* --- hooks ---------------------------------------------------------------- */

ngx_array_t *
ngx_kafka_brokers(ngx_cycle_t *cycle)
{
    ngx_stream_kafka_main_conf_t  *kmcf;

    if (cycle->conf_ctx == NULL) {
        return NULL;
    }

    kmcf = ngx_stream_cycle_get_module_main_conf(cycle,
                                                 ngx_stream_kafka_module);

    if (kmcf == NULL || kmcf->brokers.nelts == 0) {
        return NULL;
    }

    return &kmcf->brokers;
}


static ngx_int_t
ngx_stream_kafka_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t            i;
    ngx_array_t          *brokers;
    ngx_kafka_broker_t  **b;

    brokers = ngx_kafka_brokers(cycle);

    if (brokers == NULL || ngx_test_config) {
        return NGX_OK;
    }

#if (NGX_KAFKA_FAULTS)
    ngx_kafka_fault_init();
#endif

    /* without them no worker claims a slot, and the brokers stay closed */
    (void) ngx_kafka_wake_init_module(cycle);

    b = brokers->elts;

    for (i = 0; i < brokers->nelts; i++) {
        ngx_kafka_owner_make_dir(cycle, b[i]);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_stream_kafka_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t            i;
    ngx_array_t          *brokers;
    ngx_kafka_broker_t  **b;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    brokers = ngx_kafka_brokers(cycle);

    if (brokers == NULL) {
        return NGX_OK;
    }

    b = brokers->elts;

    for (i = 0; i < brokers->nelts; i++) {
        if (ngx_kafka_broker_init_process(b[i], cycle) != NGX_OK) {
            /* only for lack of memory */
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_stream_kafka_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t            i;
    ngx_array_t          *brokers;
    ngx_kafka_broker_t  **b;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return;
    }

    brokers = ngx_kafka_brokers(cycle);

    if (brokers == NULL) {
        return;
    }

    b = brokers->elts;

    for (i = 0; i < brokers->nelts; i++) {
        ngx_kafka_broker_exit_process(b[i]);
    }
}


/* --- configuration -------------------------------------------------------- */

static ngx_int_t
ngx_stream_kafka_preconfiguration(ngx_conf_t *cf)
{
    return ngx_kafka_add_variables(cf);
}


static void *
ngx_stream_kafka_create_main_conf(ngx_conf_t *cf)
{
    ngx_stream_kafka_main_conf_t  *kmcf;

    kmcf = ngx_pcalloc(cf->pool, sizeof(ngx_stream_kafka_main_conf_t));
    if (kmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&kmcf->brokers, cf->pool, 2,
                       sizeof(ngx_kafka_broker_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return kmcf;
}


static void *
ngx_stream_kafka_create_srv_conf(ngx_conf_t *cf)
{
    ngx_stream_kafka_srv_conf_t  *kscf;

    kscf = ngx_pcalloc(cf->pool, sizeof(ngx_stream_kafka_srv_conf_t));
    if (kscf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     kscf->broker = NULL;
     *     kscf->advertise = NULL;
     *     kscf->idle_timeout = 0;
     *     kscf->request_max = 0;
     *     kscf->name = { 0, NULL };
     *     kscf->line = 0;
     */

    kscf->log_requests = NGX_CONF_UNSET;
    kscf->drain_timeout = NGX_CONF_UNSET_MSEC;

    return kscf;
}


static char *
ngx_stream_kafka_merge_srv_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_stream_kafka_srv_conf_t *prev = parent;
    ngx_stream_kafka_srv_conf_t *conf = child;

    ngx_uint_t                     i;
    ngx_kafka_broker_t           **b;
    ngx_stream_core_srv_conf_t    *cscf;
    ngx_stream_kafka_main_conf_t  *kmcf;

    ngx_conf_merge_value(conf->log_requests, prev->log_requests, 0);
    ngx_conf_merge_msec_value(conf->drain_timeout, prev->drain_timeout, 5000);

    if (conf->advertise == NULL) {
        conf->advertise = prev->advertise;
    }

    if (conf->name.len == 0) {
        return NGX_CONF_OK;
    }

    cscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_core_module);

    if (cscf->handler != ngx_kafka_conn_handler) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"kafka\" and another directive that answers "
                      "connections (such as \"proxy_pass\" or \"return\") in "
                      "one server, keep one of them, in %s:%ui",
                      conf->file, conf->line);
        return NGX_CONF_ERROR;
    }

    kmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_kafka_module);
    b = kmcf->brokers.elts;

    for (i = 0; i < kmcf->brokers.nelts; i++) {
        if (b[i]->name.len == conf->name.len
            && ngx_strncmp(b[i]->name.data, conf->name.data, conf->name.len)
               == 0)
        {
            conf->broker = b[i];
            break;
        }
    }

    if (conf->broker == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown broker \"%V\", write \"kafka_broker %V { data "
                      "/PATH; }\" in \"stream\", in %s:%ui",
                      &conf->name, &conf->name, conf->file, conf->line);
        return NGX_CONF_ERROR;
    }

    if (ngx_kafka_static_configs(cf, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    conf->broker->drain_timeout = ngx_max(conf->broker->drain_timeout,
                                          conf->drain_timeout);

    return NGX_CONF_OK;
}


static void *
ngx_kafka_heap_alloc(void *ctx, size_t size)
{
    return ngx_alloc(size, ctx);
}


static void
ngx_kafka_heap_free(void *ctx, void *p, size_t size)
{
    ngx_free(p);
}


/* What connections need to know: of nginx.conf alone, over an empty state. */
static ngx_int_t
ngx_kafka_static_configs(ngx_conf_t *cf, ngx_stream_kafka_srv_conf_t *conf)
{
    kc_t          kc;
    kc_io_t       io;
    kc_mem_t      mem;
    kc_state_t   *state;
    kc_static_t  *st = &conf->broker->config;

    ngx_memzero(&kc, sizeof(kc_t));
    ngx_memzero(&io, sizeof(kc_io_t));

    mem.alloc = ngx_kafka_heap_alloc;
    mem.free = ngx_kafka_heap_free;
    mem.ctx = cf->log;

    if (!kc_init(&kc, mem, io)) {
        return NGX_ERROR;
    }

    state = kc_state_create(&kc);

    if (state) {
        conf->idle_timeout = (ngx_msec_t)
                     kc_broker_config_int(&kc, st, KC_CONNECTIONS_MAX_IDLE_MS);
        conf->request_max = (size_t)
                     kc_broker_config_int(&kc, st, KC_SOCKET_REQUEST_MAX_BYTES);
        ngx_free(state);
    }

    kc_done(&kc);

    return state ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_stream_kafka_postconfiguration(ngx_conf_t *cf)
{
    ngx_cycle_t                   *old;
    ngx_stream_kafka_main_conf_t  *kmcf;

    kmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_kafka_module);

    old = cf->cycle->old_cycle;

    /* a single process is what it parses for the first time, too */

    if (ngx_process == NGX_PROCESS_SINGLE && !ngx_test_config
        && old && !ngx_is_init_cycle(old)
        && (kmcf->brokers.nelts || ngx_kafka_brokers(old)))
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "kafka brokers cannot be reloaded with "
                      "\"master_process off\", restart nginx");
        return NGX_ERROR;
    }

    if (kmcf->brokers.nelts == 0) {
        return NGX_OK;
    }

    return ngx_stream_kafka_check_listen(cf);
}


static ngx_int_t
ngx_stream_kafka_check_addr(ngx_conf_t *cf, ngx_stream_conf_ctx_t *ctx,
    int type)
{
    ngx_stream_kafka_srv_conf_t  *kscf;

    kscf = ctx->srv_conf[ngx_stream_kafka_module.ctx_index];

    if (kscf->broker && type != SOCK_STREAM) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"kafka\" needs TCP, remove \"udp\" from \"listen\" of "
                      "the server with \"kafka %V\" in %s:%ui",
                      &kscf->name, kscf->file, kscf->line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_stream_kafka_check_listen(ngx_conf_t *cf)
{
    ngx_uint_t                     i;
    ngx_stream_core_main_conf_t   *cmcf;
#if (nginx_version >= 1025005)
    ngx_uint_t                     j, k;
    ngx_stream_conf_port_t        *port;
    ngx_stream_conf_addr_t        *addr;
    ngx_stream_core_srv_conf_t   **server;
#else
    ngx_stream_listen_t           *listen;
#endif

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

#if (nginx_version >= 1025005)

    if (cmcf->ports == NULL) {
        return NGX_OK;
    }

    port = cmcf->ports->elts;

    for (i = 0; i < cmcf->ports->nelts; i++) {
        addr = port[i].addrs.elts;

        for (j = 0; j < port[i].addrs.nelts; j++) {
            server = addr[j].servers.elts;

            for (k = 0; k < addr[j].servers.nelts; k++) {
                if (ngx_stream_kafka_check_addr(cf, server[k]->ctx,
                                                port[i].type)
                    != NGX_OK)
                {
                    return NGX_ERROR;
                }
            }
        }
    }

#else

    listen = cmcf->listen.elts;

    for (i = 0; i < cmcf->listen.nelts; i++) {
        if (ngx_stream_kafka_check_addr(cf, listen[i].ctx, listen[i].type)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

#endif

    return NGX_OK;
}


/* --- directives ----------------------------------------------------------- */

static char *
ngx_stream_kafka_broker(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
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


static char *
ngx_stream_kafka(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_kafka_srv_conf_t *kscf = conf;

    ngx_str_t                   *value;
    ngx_stream_core_srv_conf_t  *cscf;

    if (kscf->name.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs the name of a broker: kafka NAME;";
    }

    cscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_core_module);

    if (cscf->handler) {
        return "conflicts with another directive that answers connections "
               "(such as \"proxy_pass\" or \"return\"), keep one of them";
    }

    cscf->handler = ngx_kafka_conn_handler;

    /* the block may come later: it is looked up when servers are merged */

    kscf->name = value[1];
    kscf->file = cf->conf_file->file.name.data;
    kscf->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


static char *
ngx_stream_kafka_advertise(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_kafka_srv_conf_t *kscf = conf;

    u_char                              *colon, *last;
    ngx_int_t                            port;
    ngx_str_t                           *value;
    ngx_stream_compile_complex_value_t   ccv;

    if (kscf->advertise) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs a host: kafka_advertise HOST[:PORT];";
    }

    kscf->advertise = ngx_palloc(cf->pool, sizeof(ngx_stream_complex_value_t));
    if (kscf->advertise == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_stream_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = kscf->advertise;

    if (ngx_stream_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (kscf->advertise->lengths) {
        return NGX_CONF_OK;
    }

    /* host, host:port, [v6], [v6]:port */

    last = value[1].data + value[1].len;
    colon = value[1].data;

    if (*colon == '[') {
        colon = ngx_strlchr(colon, last, ']');

        if (colon == NULL || colon == value[1].data + 1) {
            goto invalid;
        }

        colon++;

        if (colon < last && *colon != ':') {
            goto invalid;
        }

    } else {
        colon = ngx_strlchr(colon, last, ':');

        if (colon == value[1].data) {
            goto invalid;
        }
    }

    if (colon && colon < last) {
        port = ngx_atoi(colon + 1, last - colon - 1);

        if (port < 1 || port > 65535) {
            goto invalid;
        }
    }

    return NGX_CONF_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid \"kafka_advertise %V\", write HOST, HOST:PORT "
                       "or [IPV6]:PORT with a port from 1 to 65535",
                       &value[1]);

    return NGX_CONF_ERROR;
}
