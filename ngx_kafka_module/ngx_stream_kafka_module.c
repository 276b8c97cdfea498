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


static ngx_int_t ngx_stream_kafka_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_stream_kafka_postconfiguration(ngx_conf_t *cf);
static void *ngx_stream_kafka_create_main_conf(ngx_conf_t *cf);
static void *ngx_stream_kafka_create_srv_conf(ngx_conf_t *cf);
static char *ngx_stream_kafka_merge_srv_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_stream_kafka_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_stream_kafka_init_process(ngx_cycle_t *cycle);
static void ngx_stream_kafka_exit_process(ngx_cycle_t *cycle);

static char *ngx_stream_kafka(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_stream_kafka_advertise(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_stream_kafka_check_listen(ngx_conf_t *cf);
static ngx_int_t ngx_kafka_static_configs(ngx_conf_t *cf,
    ngx_stream_kafka_srv_conf_t *conf);


static ngx_command_t  ngx_stream_kafka_commands[] = {

    { ngx_string("kafka_broker"),
      NGX_STREAM_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_kafka_conf_broker,
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
    ngx_kafka_slot_init_module();

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
