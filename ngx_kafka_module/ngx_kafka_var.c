/*
 * The $kafka_* variables and the access log.
 *
 * By default nginx's stream log has one line per connection, at its end; with
 * kafka_log_requests on there is one line per answered request instead.  The
 * same variables serve both: those that speak of one request are empty in a
 * connection's line.
 */

#include "ngx_kafka_conn.h"


typedef enum {
    NGX_KAFKA_VAR_BROKER = 0,
    NGX_KAFKA_VAR_CLIENT_ID,
    NGX_KAFKA_VAR_SOFTWARE,
    NGX_KAFKA_VAR_SOFTWARE_VERSION,
    NGX_KAFKA_VAR_REQUESTS,
    NGX_KAFKA_VAR_ERRORS,
    /* of the request that is being logged */
    NGX_KAFKA_VAR_API,
    NGX_KAFKA_VAR_API_VERSION,
    NGX_KAFKA_VAR_CORRELATION_ID,
    NGX_KAFKA_VAR_TOPIC,
    NGX_KAFKA_VAR_ERROR,
    NGX_KAFKA_VAR_TIME,
    NGX_KAFKA_VAR_REQUEST_LENGTH,
    NGX_KAFKA_VAR_RESPONSE_LENGTH
} ngx_kafka_var_e;


static ngx_int_t ngx_kafka_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_kafka_request_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_kafka_variable_text(ngx_stream_variable_value_t *v,
    const void *data, size_t len);
static ngx_int_t ngx_kafka_variable_number(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, int64_t n);


static ngx_stream_variable_t  ngx_kafka_vars[] = {

    { ngx_string("kafka_broker"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_BROKER, 0, 0 },

    { ngx_string("kafka_client_id"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_CLIENT_ID, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_client_software"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_SOFTWARE, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_client_version"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_SOFTWARE_VERSION, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_requests"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_REQUESTS, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_errors"), NULL, ngx_kafka_variable,
      NGX_KAFKA_VAR_ERRORS, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_api"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_API, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_api_version"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_API_VERSION, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_correlation_id"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_CORRELATION_ID, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_topic"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_TOPIC, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_error"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_ERROR, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_request_time"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_TIME, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_request_length"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_REQUEST_LENGTH, NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("kafka_response_length"), NULL, ngx_kafka_request_variable,
      NGX_KAFKA_VAR_RESPONSE_LENGTH, NGX_STREAM_VAR_NOCACHEABLE, 0 },

      ngx_stream_null_variable
};


ngx_int_t
ngx_kafka_add_variables(ngx_conf_t *cf)
{
    ngx_stream_variable_t  *var, *v;

    for (v = ngx_kafka_vars; v->name.len; v++) {
        var = ngx_stream_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_variable(ngx_stream_session_t *s, ngx_stream_variable_value_t *v,
    uintptr_t data)
{
    ngx_kafka_conn_t             *kc;
    ngx_stream_kafka_srv_conf_t  *conf;

    if (data == NGX_KAFKA_VAR_BROKER) {
        conf = ngx_stream_get_module_srv_conf(s, ngx_stream_kafka_module);

        if (conf->broker == NULL) {
            v->not_found = 1;
            return NGX_OK;
        }

        return ngx_kafka_variable_text(v, conf->broker->name.data,
                                       conf->broker->name.len);
    }

    kc = ngx_stream_get_module_ctx(s, ngx_stream_kafka_module);

    if (kc == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    switch (data) {

    case NGX_KAFKA_VAR_CLIENT_ID:
        return ngx_kafka_variable_text(v, kc->client_id.data,
                                       kc->client_id.len);

    case NGX_KAFKA_VAR_SOFTWARE:
        return ngx_kafka_variable_text(v, kc->software.data,
                                       kc->software.len);

    case NGX_KAFKA_VAR_SOFTWARE_VERSION:
        return ngx_kafka_variable_text(v, kc->software_version.data,
                                       kc->software_version.len);

    case NGX_KAFKA_VAR_REQUESTS:
        return ngx_kafka_variable_number(s, v, (int64_t) kc->served);

    default: /* NGX_KAFKA_VAR_ERRORS */
        return ngx_kafka_variable_number(s, v, (int64_t) kc->errors);
    }
}


static ngx_int_t
ngx_kafka_request_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    ngx_msec_t            ms;
    const char           *name;
    ngx_kafka_conn_t     *kc;
    ngx_kafka_req_t      *q;
    ngx_kafka_request_t  *r;

    kc = ngx_stream_get_module_ctx(s, ngx_stream_kafka_module);

    if (kc == NULL || ngx_kafka_link(kc)->logged == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    r = ngx_kafka_link(kc)->logged;
    q = (ngx_kafka_req_t *) r;

    switch (data) {

    case NGX_KAFKA_VAR_API:
        name = q->codec->name;
        return ngx_kafka_variable_text(v, name, ngx_strlen(name));

    case NGX_KAFKA_VAR_API_VERSION:
        return ngx_kafka_variable_number(s, v, r->header.api_version);

    case NGX_KAFKA_VAR_CORRELATION_ID:
        return ngx_kafka_variable_number(s, v, r->header.correlation_id);

    case NGX_KAFKA_VAR_TOPIC:
        return ngx_kafka_variable_text(v, r->topic.data, r->topic.len);

    case NGX_KAFKA_VAR_ERROR:
        name = kf_err_name(r->error);
        return ngx_kafka_variable_text(v, name, ngx_strlen(name));

    case NGX_KAFKA_VAR_REQUEST_LENGTH:
        return ngx_kafka_variable_number(s, v, (int64_t) r->frame_len + 4);

    case NGX_KAFKA_VAR_RESPONSE_LENGTH:
        return ngx_kafka_variable_number(s, v, (int64_t) r->out_size);

    default: /* NGX_KAFKA_VAR_TIME */
        p = ngx_pnalloc(s->connection->pool, NGX_TIME_T_LEN + 4);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ms = ngx_current_msec - r->started;

        return ngx_kafka_variable_text(v, p,
                                       ngx_sprintf(p, "%T.%03M",
                                                   (time_t) ms / 1000,
                                                   ms % 1000)
                                       - p);
    }
}


static ngx_int_t
ngx_kafka_variable_text(ngx_stream_variable_value_t *v, const void *data,
    size_t len)
{
    if (data == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = (u_char *) data;
    v->len = (unsigned) len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_variable_number(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, int64_t n)
{
    u_char  *p;

    p = ngx_pnalloc(s->connection->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    return ngx_kafka_variable_text(v, p, ngx_sprintf(p, "%L", n) - p);
}


/*
 * Calls the log phase for one request.  Variables are evaluated anew, into the
 * request's pool: a connection lives for days, and what each line needs may
 * neither be kept from the line before nor pile up in the connection's pool.
 */
void
ngx_kafka_log_request(ngx_kafka_request_t *r)
{
    void                        **ctx;
    ngx_uint_t                    i, n;
    ngx_pool_t                   *pool;
    ngx_kafka_link_t             *io = ngx_kafka_link(r->conn);
    ngx_connection_t             *c = r->conn->connection;
    ngx_stream_session_t         *s = r->conn->session;
    ngx_stream_handler_pt        *handlers;
    ngx_stream_core_main_conf_t  *cmcf;
    ngx_stream_variable_value_t  *variables;

    cmcf = ngx_stream_get_module_main_conf(s, ngx_stream_core_module);

    handlers = cmcf->phases[NGX_STREAM_LOG_PHASE].handlers.elts;
    n = cmcf->phases[NGX_STREAM_LOG_PHASE].handlers.nelts;

    if (n == 0) {
        return;
    }

    pool = c->pool;
    ctx = s->ctx;
    variables = s->variables;

    s->variables = ngx_pcalloc(r->pool, cmcf->variables.nelts
                                        * sizeof(ngx_stream_variable_value_t));
    s->ctx = ngx_palloc(r->pool, sizeof(void *) * ngx_stream_max_module);

    if (s->variables && s->ctx) {
        ngx_memcpy(s->ctx, ctx, sizeof(void *) * ngx_stream_max_module);

        c->pool = r->pool;
        io->logged = r;
        s->status = NGX_STREAM_OK;

        for (i = 0; i < n; i++) {
            (void) handlers[i](s);
        }

        io->logged = NULL;
        c->pool = pool;
    }

    s->ctx = ctx;
    s->variables = variables;
}


void
ngx_kafka_finalize(ngx_kafka_conn_t *kc, ngx_uint_t status)
{
    ngx_uint_t                    n;
    ngx_stream_session_t         *s = kc->session;
    ngx_stream_core_main_conf_t  *cmcf;

    if (!kc->conf->log_requests || kc->served == 0) {
        ngx_stream_finalize_session(s, status);
        return;
    }

    /* each request had its line; one for the connection would count twice */

    cmcf = ngx_stream_get_module_main_conf(s, ngx_stream_core_module);

    n = cmcf->phases[NGX_STREAM_LOG_PHASE].handlers.nelts;
    cmcf->phases[NGX_STREAM_LOG_PHASE].handlers.nelts = 0;

    ngx_stream_finalize_session(s, status);

    cmcf->phases[NGX_STREAM_LOG_PHASE].handlers.nelts = n;
}


void
ngx_kafka_name_set(ngx_kafka_conn_t *kc, ngx_uint_t i, kf_str_t *name,
    kf_str_t value)
{
    size_t             size;
    ngx_kafka_name_t  *n = &ngx_kafka_link(kc)->names[i];

    if (value.len > NGX_KAFKA_NAME_MAX) {
        value.len = NGX_KAFKA_NAME_MAX;
    }

    if (value.data == NULL || kf_str_eq(*name, value)) {
        return;
    }

    if (n->data == NULL || n->size < value.len) {

        /* at most twice in a connection's life */

        size = n->data ? NGX_KAFKA_NAME_MAX : ngx_max(value.len, 32);

        n->data = ngx_pnalloc(kc->connection->pool, size);
        if (n->data == NULL) {
            n->size = 0;
            name->data = NULL;
            name->len = 0;
            return;
        }

        n->size = size;
    }

    ngx_memcpy(n->data, value.data, value.len);

    name->data = n->data;
    name->len = value.len;
}
