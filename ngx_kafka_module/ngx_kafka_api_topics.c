/*
 * CreateTopics (key 19), versions 2-7; DeleteTopics (key 20), versions 1-6;
 * DescribeConfigs (key 32), versions 1-4.
 *
 * The coordinator decides; here the lock is taken, the answer is held back
 * until the journal is on the disk, and the directories of deleted topics are
 * renamed, in a thread, before the answer leaves, so that a topic made anew
 * under the same name starts with an empty one.  Their files go later.
 */

#include "ngx_kafka_api.h"


typedef struct {
    ngx_kafka_request_t           *request;
    kl_log_t                     **logs;        /* of the deleted partitions */
    ngx_uint_t                     logs_n;
    kf_delete_topics_response_t    response;
} ngx_kafka_delete_t;

typedef struct {
    ngx_kafka_delete_t            *del;
    kl_env_t                      *env;
    ngx_uint_t                     removed;
} ngx_kafka_delete_task_t;


static ngx_int_t ngx_kafka_delete_open(ngx_kafka_request_t *r,
    ngx_kafka_delete_t *del);
static ngx_int_t ngx_kafka_delete_open_topic(ngx_kafka_request_t *r,
    ngx_kafka_delete_t *del, ngx_array_t *logs, const kc_topic_t *t);
static void ngx_kafka_delete_flushed(ngx_kafka_request_t *r);
static void ngx_kafka_delete_work(void *data);
static void ngx_kafka_delete_done(void *data);
static void ngx_kafka_delete_cancel(ngx_kafka_request_t *r);
static void ngx_kafka_delete_cleanup(ngx_kafka_request_t *r);
static ngx_int_t ngx_kafka_config_facts(ngx_kafka_request_t *r,
    kc_static_t *config);


void
ngx_kafka_create_topics(ngx_kafka_request_t *r)
{
    int32_t                       i;
    int16_t                       error;
    kc_rc_t                       rc;
    kc_call_t                     call;
    kf_create_topics_request_t   *req = r->body;
    kf_create_topics_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_create_topics) != NGX_OK) {
        return;
    }

    rc = kc_create_topics(&r->broker->kc, &call, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        rsp.topics_n = ngx_max(req->topics_n, 0);
        rsp.topics = ngx_kafka_calloc(r, rsp.topics_n,
                                      kf_create_topics_response_topics_t);
        if (rsp.topics == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.topics_n; i++) {
            kf_init_create_topics_response_topics(&rsp.topics[i]);
            rsp.topics[i].name = req->topics[i].name;
            rsp.topics[i].error_code = error;
            rsp.topics[i].configs_n = -1;
        }
    }

    for (i = 0; i < rsp.topics_n; i++) {
        ngx_kafka_note(r, rsp.topics[i].error_code, rsp.topics[i].name);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_delete_topics(ngx_kafka_request_t *r)
{
    int32_t                       i;
    int16_t                       error;
    kc_rc_t                       rc;
    kc_call_t                     call;
    ngx_kafka_delete_t           *del;
    kf_delete_topics_request_t   *req = r->body;

    r->exclusive = 1;

    del = ngx_kafka_calloc(r, 1, ngx_kafka_delete_t);
    if (del == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_delete_topics) != NGX_OK) {
        return;
    }

    del->request = r;
    r->ctx = del;

    /* handles must be made while the topics still are */

    if (ngx_kafka_delete_open(r, del) != NGX_OK) {
        ngx_kafka_coord_unlock(r->broker);
        ngx_kafka_delete_cleanup(r);
        ngx_kafka_fail(r, "no memory");
        return;
    }

    rc = kc_delete_topics(&r->broker->kc, &call, r->header.api_version, req,
                          &del->response);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_kafka_delete_cleanup(r);
        del->logs_n = 0;

        del->response.responses_n = r->header.api_version >= 6
                                    ? ngx_max(req->topics_n, 0)
                                    : ngx_max(req->topic_names_n, 0);
        del->response.responses = ngx_kafka_calloc(r,
                                       del->response.responses_n,
                                       kf_delete_topics_response_responses_t);
        if (del->response.responses == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < del->response.responses_n; i++) {
            del->response.responses[i].name = r->header.api_version >= 6
                                              ? req->topics[i].name
                                              : req->topic_names[i];
            del->response.responses[i].error_code = error;
        }
    }

    for (i = 0; i < del->response.responses_n; i++) {
        ngx_kafka_note(r, del->response.responses[i].error_code,
                       del->response.responses[i].name);
    }

    if (del->logs_n == 0) {
        ngx_kafka_answer_when(r, &del->response, call.wait);
        return;
    }

    r->cancel = ngx_kafka_delete_cancel;
    ngx_kafka_park_journal(r, call.wait, ngx_kafka_delete_flushed);
}


/* Handles on every partition that the request may delete. */
static ngx_int_t
ngx_kafka_delete_open(ngx_kafka_request_t *r, ngx_kafka_delete_t *del)
{
    kc_t                        *kc = &r->broker->kc;
    int32_t                      i;
    ngx_array_t                  logs;
    const kc_topic_t            *t;
    kf_delete_topics_request_t  *req = r->body;

    if (ngx_array_init(&logs, r->pool, 16, sizeof(kl_log_t *)) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; i < req->topics_n; i++) {
        t = req->topics[i].name.data
            ? kc_topic_by_name(kc, req->topics[i].name)
            : kc_topic_by_id(kc, req->topics[i].topic_id);

        if (ngx_kafka_delete_open_topic(r, del, &logs, t) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < req->topic_names_n; i++) {
        t = kc_topic_by_name(kc, req->topic_names[i]);

        if (ngx_kafka_delete_open_topic(r, del, &logs, t) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_delete_open_topic(ngx_kafka_request_t *r, ngx_kafka_delete_t *del,
    ngx_array_t *logs, const kc_topic_t *t)
{
    int32_t             i;
    kl_log_t          **log;
    kl_offsets_t        o;
    ngx_kafka_broker_t *b = r->broker;

    if (t == NULL) {
        return NGX_OK;
    }

    for (i = 0; i < t->partition_count; i++) {
        log = ngx_array_push(logs);
        if (log == NULL) {
            return NGX_ERROR;
        }

        kl_snapshot(kl_part(b->parts, t->slots[i]), &o);

        *log = kl_log_open(b->env, t->slots[i], o.incarnation, t->id, t->name,
                           i);
        if (*log == NULL) {
            return NGX_ERROR;
        }

        del->logs = logs->elts;
        del->logs_n = logs->nelts;
    }

    return NGX_OK;
}


static void
ngx_kafka_delete_flushed(ngx_kafka_request_t *r)
{
    ngx_kafka_delete_task_t  *task;

    task = ngx_kafka_task_alloc(r->broker, sizeof(ngx_kafka_delete_task_t));
    if (task == NULL) {
        ngx_kafka_delete_cancel(r);
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    task->del = r->ctx;
    task->env = r->broker->env;
    r->cancel = NULL;
    ngx_kafka_request_hold(r);
    ngx_kafka_task_post(task, ngx_kafka_delete_work, ngx_kafka_delete_done);
}


static void
ngx_kafka_delete_work(void *data)
{
    ngx_uint_t                i;
    ngx_kafka_delete_task_t  *task = data;

    for (i = 0; i < task->del->logs_n; i++) {

        /* a topic whose deletion was refused keeps its slots */

        if (!kl_log_is_current(task->del->logs[i])) {
            (void) kl_remove(task->del->logs[i]);
            task->removed = 1;
        }
    }

    /* what fails here is tried again by who reads the journal */

    if (task->removed) {
        (void) kl_remove_sync(task->env);
    }
}


static void
ngx_kafka_delete_done(void *data)
{
    ngx_kafka_delete_task_t  *task = data;
    ngx_kafka_delete_t       *del = task->del;
    ngx_kafka_request_t      *r = del->request;

    ngx_kafka_delete_cleanup(r);

    if (task->removed) {
        ngx_kafka_removed(r->broker);
    }

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    ngx_kafka_answer(r, &del->response);
}


/* Deleted, but not removed: whoever reads the journal does that. */
static void
ngx_kafka_delete_cancel(ngx_kafka_request_t *r)
{
    ngx_kafka_delete_cleanup(r);
    ngx_kafka_sweep_soon(r->broker);
}


static void
ngx_kafka_delete_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t           i;
    ngx_kafka_delete_t  *del = r->ctx;

    for (i = 0; i < del->logs_n; i++) {
        kl_log_close(del->logs[i]);
    }

    del->logs_n = 0;
}


void
ngx_kafka_describe_configs(ngx_kafka_request_t *r)
{
    int32_t                         i;
    kc_rc_t                         rc;
    kc_call_t                       call;
    kc_static_t                     config;
    kf_describe_configs_request_t  *req = r->body;
    kf_describe_configs_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_config_facts(r, &config) != NGX_OK) {
        ngx_kafka_fail(r, "no memory, or no address to advertise");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_configs) != NGX_OK) {
        return;
    }

    call.config = &config;

    rc = kc_describe_configs(&r->broker->kc, &call, r->header.api_version, req,
                             &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        (void) ngx_kafka_call_error(r, rc);
        ngx_kafka_fail(r, "the configuration cannot be described");
        return;
    }

    for (i = 0; i < rsp.results_n; i++) {
        ngx_kafka_note(r, rsp.results[i].error_code,
                       rsp.results[i].resource_name);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* What `config` lines do not say, but the broker is: as this client sees it. */
static ngx_int_t
ngx_kafka_config_facts(ngx_kafka_request_t *r, kc_static_t *config)
{
    u_char             *p;
    int32_t             port;
    kf_str_t            host;
    ngx_uint_t          v6;
    const char         *scheme;
    kc_config_entry_t  *f;

    if (ngx_kafka_advertised(r->conn, &host, &port) != NGX_OK) {
        return NGX_ERROR;
    }

    f = ngx_kafka_calloc(r, 3, kc_config_entry_t);
    p = ngx_pnalloc(r->pool, host.len + sizeof("PLAINTEXT://[]:65535") - 1);

    if (f == NULL || p == NULL) {
        return NGX_ERROR;
    }

    v6 = host.len && memchr(host.data, ':', host.len) != NULL;
    scheme = "PLAINTEXT";

#if (NGX_STREAM_SSL)
    if (r->conn->connection->ssl) {
        scheme = "SSL";
    }
#endif

    f[0].name = kf_str("log.dirs");
    f[0].value.data = r->broker->data.data;
    f[0].value.len = (uint32_t) r->broker->data.len;

    f[1].name = kf_str("listeners");
    f[1].value.data = p;
    f[1].value.len = (uint32_t)
                     (ngx_sprintf(p, "%s://%s%*s%s:%D", scheme, v6 ? "[" : "",
                                  (size_t) host.len, host.data,
                                  v6 ? "]" : "", port) - p);

    f[2].name = kf_str("advertised.listeners");
    f[2].value = f[1].value;

    *config = r->broker->config;
    config->facts = f;
    config->facts_count = 3;

    return NGX_OK;
}
