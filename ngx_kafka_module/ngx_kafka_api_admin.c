/*
 * CreatePartitions (key 37), versions 0-3; DeleteRecords (key 21), versions
 * 0-2; AlterConfigs (key 33), versions 0-2; IncrementalAlterConfigs (key 44),
 * versions 0-1; ListConfigResources (key 74), versions 0-1; DescribeLogDirs
 * (key 35), versions 1-5.
 */

#include "ngx_kafka_api.h"

#include <sys/statvfs.h>


#define NGX_KAFKA_RESOURCE_TOPIC   2
#define NGX_KAFKA_RESOURCE_BROKER  4
#define NGX_KAFKA_RESOURCE_METRICS  16


typedef struct {
    kf_delete_records_response_partitions_t  *out;
    int64_t                                   offset;
    ngx_kafka_part_t                         *part;     /* referenced */
} ngx_kafka_trim_t;

typedef struct {
    kf_delete_records_response_t   response;
    ngx_kafka_trim_t              *trims;               /* for the thread */
    ngx_uint_t                     trims_n;
    int64_t                        journal;
} ngx_kafka_trim_ctx_t;

typedef struct {
    ngx_kafka_request_t           *request;
} ngx_kafka_trim_task_t;


static void ngx_kafka_delete_records_one(ngx_kafka_request_t *r, kf_str_t topic,
    int64_t offset, kf_delete_records_response_partitions_t *out);
static void ngx_kafka_delete_records_work(void *data);
static void ngx_kafka_delete_records_done(void *data);
static void ngx_kafka_delete_records_cleanup(ngx_kafka_request_t *r);
static ngx_int_t ngx_kafka_log_dir_topic(ngx_kafka_request_t *r,
    const kc_topic_t *t, const int32_t *partitions, int32_t n,
    kf_describe_log_dirs_response_results_t *result);
static ngx_int_t ngx_kafka_log_dir_fill(ngx_kafka_request_t *r,
    kf_describe_log_dirs_response_results_t *result);


void
ngx_kafka_create_partitions(ngx_kafka_request_t *r)
{
    int16_t                           error;
    int32_t                           i;
    kc_rc_t                           rc;
    kc_call_t                         call;
    kf_create_partitions_request_t   *req = r->body;
    kf_create_partitions_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_create_partitions)
        != NGX_OK)
    {
        return;
    }

    rc = kc_create_partitions(&r->broker->kc, &call, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.results_n = ngx_max(req->topics_n, 0);
        rsp.results = ngx_kafka_calloc(r, rsp.results_n,
                                      kf_create_partitions_response_results_t);
        if (rsp.results == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.results_n; i++) {
            rsp.results[i].name = req->topics[i].name;
            rsp.results[i].error_code = error;
        }
    }

    for (i = 0; i < rsp.results_n; i++) {
        ngx_kafka_note(r, rsp.results[i].error_code, rsp.results[i].name);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_incremental_alter_configs(ngx_kafka_request_t *r)
{
    int16_t                                   error;
    int32_t                                   i;
    kc_rc_t                                   rc;
    kc_call_t                                 call;
    kf_incremental_alter_configs_request_t   *req = r->body;
    kf_incremental_alter_configs_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_incremental_alter_configs)
        != NGX_OK)
    {
        return;
    }

    rc = kc_incremental_alter_configs(&r->broker->kc, &call, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.responses_n = ngx_max(req->resources_n, 0);
        rsp.responses = ngx_kafka_calloc(r, rsp.responses_n,
                            kf_incremental_alter_configs_response_responses_t);
        if (rsp.responses == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.responses_n; i++) {
            rsp.responses[i].resource_type = req->resources[i].resource_type;
            rsp.responses[i].resource_name = req->resources[i].resource_name;
            rsp.responses[i].error_code = error;
        }
    }

    for (i = 0; i < rsp.responses_n; i++) {
        ngx_kafka_note(r, rsp.responses[i].error_code,
                       rsp.responses[i].resource_name);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_alter_configs(ngx_kafka_request_t *r)
{
    int16_t                       error;
    int32_t                       i;
    kc_rc_t                       rc;
    kc_call_t                     call;
    kf_alter_configs_request_t   *req = r->body;
    kf_alter_configs_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_alter_configs) != NGX_OK) {
        return;
    }

    rc = kc_alter_configs(&r->broker->kc, &call, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.responses_n = ngx_max(req->resources_n, 0);
        rsp.responses = ngx_kafka_calloc(r, rsp.responses_n,
                                        kf_alter_configs_response_responses_t);
        if (rsp.responses == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.responses_n; i++) {
            rsp.responses[i].resource_type = req->resources[i].resource_type;
            rsp.responses[i].resource_name = req->resources[i].resource_name;
            rsp.responses[i].error_code = error;
        }
    }

    for (i = 0; i < rsp.responses_n; i++) {
        ngx_kafka_note(r, rsp.responses[i].error_code,
                       rsp.responses[i].resource_name);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* KIP-1142; version 0 is KIP-714's list of client metrics: there are none. */
void
ngx_kafka_list_config_resources(ngx_kafka_request_t *r)
{
    bool                                  topics, broker, metrics;
    u_char                               *p;
    int32_t                               i;
    uint32_t                              n;
    kf_str_t                              after = kf_null_str, name;
    kc_call_t                             call;
    const kc_topic_t                     *t;
    kf_list_config_resources_request_t   *req = r->body;
    kf_list_config_resources_response_t   rsp;
    kf_list_config_resources_response_config_resources_t  *out;

    ngx_memzero(&rsp, sizeof(rsp));

    metrics = req->resource_types_n <= 0;
    topics = metrics && r->header.api_version > 0;
    broker = topics;

    for (i = 0; i < req->resource_types_n; i++) {
        switch (req->resource_types[i]) {

        case NGX_KAFKA_RESOURCE_TOPIC:
            topics = true;
            break;

        case NGX_KAFKA_RESOURCE_BROKER:
            broker = true;
            break;

        case NGX_KAFKA_RESOURCE_METRICS:
            metrics = true;
            break;

        case 8:                                 /* loggers, */
        case 32:                                /* groups: none configured */
            break;

        default:
            rsp.error_code = KF_ERR_UNSUPPORTED_VERSION;
            ngx_kafka_note(r, rsp.error_code, after);
            ngx_kafka_answer(r, &rsp);
            return;
        }
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_list_config_resources)
        != NGX_OK)
    {
        return;
    }

    n = (topics ? kc_topic_count(&r->broker->kc) : 0) + (broker ? 1 : 0)
        + (metrics ? kc_resource_count(&r->broker->kc,
                                       NGX_KAFKA_RESOURCE_METRICS) : 0);

    out = ngx_kafka_calloc(r, n,
                         kf_list_config_resources_response_config_resources_t);
    rsp.config_resources = out;

    for (t = topics && out ? kc_topic_next(&r->broker->kc, after) : NULL;
         t;
         t = kc_topic_next(&r->broker->kc, after))
    {
        after = t->name;

        p = ngx_pnalloc(r->pool, t->name.len);
        if (p == NULL) {
            out = NULL;
            break;
        }

        ngx_memcpy(p, t->name.data, t->name.len);

        out->resource_name.data = p;
        out->resource_name.len = t->name.len;
        out->resource_type = NGX_KAFKA_RESOURCE_TOPIC;
        out++;
        rsp.config_resources_n++;
    }

    name = kf_null_str;

    while (metrics && out) {
        name = kc_resource_next(&r->broker->kc, NGX_KAFKA_RESOURCE_METRICS,
                                name);
        if (kf_str_is_null(name)) {
            break;
        }

        p = ngx_pnalloc(r->pool, name.len);
        if (p == NULL) {
            out = NULL;
            break;
        }

        ngx_memcpy(p, name.data, name.len);

        out->resource_name.data = p;
        out->resource_name.len = name.len;
        out->resource_type = NGX_KAFKA_RESOURCE_METRICS;
        out++;
        rsp.config_resources_n++;
    }

    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    p = broker && out ? ngx_pnalloc(r->pool, NGX_INT_T_LEN) : NULL;

    if (out == NULL || (broker && p == NULL)) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (broker) {
        out->resource_name.data = p;
        out->resource_name.len = (uint32_t)
                              (ngx_sprintf(p, "%i", r->broker->node_id) - p);
        out->resource_type = NGX_KAFKA_RESOURCE_BROKER;
        rsp.config_resources_n++;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_delete_records(ngx_kafka_request_t *r)
{
    size_t                       n;
    int32_t                      i, j;
    ngx_kafka_trim_ctx_t        *ctx;
    ngx_kafka_trim_task_t       *task;
    kf_delete_records_request_t *req = r->body;

    r->exclusive = 1;

    n = 0;

    for (i = 0; i < req->topics_n; i++) {
        n += ngx_max(req->topics[i].partitions_n, 0);
    }

    if (!ngx_kafka_parts_ok(r, n)) {
        return;
    }

    ctx = ngx_kafka_calloc(r, 1, ngx_kafka_trim_ctx_t);

    if (ctx == NULL) {
        goto failed;
    }

    r->ctx = ctx;
    ctx->journal = -1;
    ctx->trims = ngx_kafka_calloc(r, n, ngx_kafka_trim_t);
    ctx->response.topics_n = ngx_max(req->topics_n, 0);
    ctx->response.topics = ngx_kafka_calloc(r, ctx->response.topics_n,
                                          kf_delete_records_response_topics_t);

    if (ctx->trims == NULL || ctx->response.topics == NULL) {
        goto failed;
    }

    r->cancel = ngx_kafka_delete_records_cleanup;

    for (i = 0; i < ctx->response.topics_n; i++) {
        kf_delete_records_response_topics_t  *out = &ctx->response.topics[i];

        out->name = req->topics[i].name;
        out->partitions_n = ngx_max(req->topics[i].partitions_n, 0);
        out->partitions = ngx_kafka_calloc(r, out->partitions_n,
                                      kf_delete_records_response_partitions_t);

        if (out->partitions == NULL) {
            goto failed;
        }

        for (j = 0; j < out->partitions_n; j++) {
            out->partitions[j].partition_index =
                               req->topics[i].partitions[j].partition_index;
            ngx_kafka_delete_records_one(r, out->name,
                                         req->topics[i].partitions[j].offset,
                                         &out->partitions[j]);
        }
    }

    if (ctx->trims_n == 0) {
        r->cancel = NULL;
        ngx_kafka_answer_when(r, &ctx->response, ctx->journal);
        return;
    }

    task = ngx_kafka_task_alloc(r->broker, sizeof(ngx_kafka_trim_task_t));

    if (task) {
        task->request = r;
        r->cancel = NULL;
        ngx_kafka_request_hold(r);
        ngx_kafka_task_post(task, ngx_kafka_delete_records_work,
                            ngx_kafka_delete_records_done);
        return;
    }

failed:

    if (r->cancel) {
        ngx_kafka_delete_records_cleanup(r);
        r->cancel = NULL;
    }

    ngx_kafka_fail(r, "no memory");
}


static void
ngx_kafka_delete_records_one(ngx_kafka_request_t *r, kf_str_t topic,
    int64_t offset, kf_delete_records_response_partitions_t *out)
{
    kf_uuid_t              none;
    ngx_kafka_part_t      *part;
    ngx_kafka_trim_t      *trim;
    ngx_kafka_topic_t     *t;
    ngx_kafka_offsets_t    o;
    ngx_kafka_trim_ctx_t  *ctx = r->ctx;

    part = NULL;
    ngx_memzero(&none, sizeof(kf_uuid_t));

    out->low_watermark = -1;
    out->error_code = ngx_kafka_find_topic(r, false, topic, none, &t);

    if (out->error_code == KF_ERR_NONE) {
        part = ngx_kafka_topic_part(r->broker, t, out->partition_index);

        if (t->internal) {
            out->error_code = KF_ERR_INVALID_TOPIC_EXCEPTION;

        } else if (part == NULL) {
            out->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;

        } else if (t->log.compacted && t->log.retention_ms == -1
                   && t->log.retention_bytes == -1)
        {
            out->error_code = KF_ERR_POLICY_VIOLATION;

        } else {
            out->error_code = ngx_kafka_part_ready(part, &o);
        }
    }

    if (out->error_code == KF_ERR_NONE) {

        /* acks=1 may have told of records that the disk has not got yet; the
         * log flushes them before it deletes */

        if (offset == -1) {
            offset = o.o.log_end;
        }

        if (offset < 0 || offset > o.o.log_end) {
            out->error_code = KF_ERR_OFFSET_OUT_OF_RANGE;
        }
    }

    if (out->error_code) {
        ngx_kafka_note(r, out->error_code, topic);
        return;
    }

    ctx->journal = ngx_max(ctx->journal, t->changed);

    trim = &ctx->trims[ctx->trims_n++];
    trim->out = out;
    trim->offset = offset;
    trim->part = part;
    ngx_kafka_part_ref(part);
}


static void
ngx_kafka_delete_records_work(void *data)
{
    kl_rc_t                 rc;
    ngx_uint_t              i;
    ngx_kafka_trim_t       *trim;
    ngx_kafka_trim_task_t  *task = data;
    ngx_kafka_trim_ctx_t   *ctx = task->request->ctx;

    for (i = 0; i < ctx->trims_n; i++) {
        trim = &ctx->trims[i];

        rc = kl_delete_records(trim->part->log, trim->offset,
                               &trim->out->low_watermark);
        if (rc != KL_OK) {
            trim->out->error_code = ngx_kafka_log_error(rc);
            trim->out->low_watermark = -1;
        }
    }
}


static void
ngx_kafka_delete_records_done(void *data)
{
    ngx_uint_t              i;
    ngx_kafka_trim_task_t  *task = data;
    ngx_kafka_request_t    *r = task->request;
    ngx_kafka_trim_ctx_t   *ctx = r->ctx;

    /* readers below the new start have to learn of it, answered or not */

    for (i = 0; i < ctx->trims_n; i++) {
        if (ctx->trims[i].part) {
            ngx_kafka_changed(r->broker, ctx->trims[i].part);
        }
    }

    ngx_kafka_delete_records_cleanup(r);

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    ngx_kafka_answer_when(r, &ctx->response, ctx->journal);
}


static void
ngx_kafka_delete_records_cleanup(ngx_kafka_request_t *r)
{
    ngx_uint_t             i;
    ngx_kafka_trim_ctx_t  *ctx = r->ctx;

    for (i = 0; i < ctx->trims_n; i++) {
        if (ctx->trims[i].part) {
            ngx_kafka_part_unref(r->broker, ctx->trims[i].part);
            ctx->trims[i].part = NULL;
        }
    }
}


/* One directory; sizes are of .log files, from published numbers. */
void
ngx_kafka_describe_log_dirs(ngx_kafka_request_t *r)
{
    kc_call_t                                 call;
    ngx_int_t                                 rc;
    struct statvfs                            fs;
    kf_describe_log_dirs_response_t           rsp;
    kf_describe_log_dirs_response_results_t  *result;

    ngx_memzero(&rsp, sizeof(rsp));

    result = ngx_kafka_calloc(r, 1, kf_describe_log_dirs_response_results_t);
    if (result == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    kf_init_describe_log_dirs_response_results(result);

    rsp.results = result;
    rsp.results_n = 1;

    result->log_dir.data = r->broker->data.data;
    result->log_dir.len = (uint32_t) r->broker->data.len;

    if (statvfs((char *) r->broker->data.data, &fs) == 0) {
        result->total_bytes = (int64_t) fs.f_blocks * (int64_t) fs.f_frsize;
        result->usable_bytes = (int64_t) fs.f_bavail * (int64_t) fs.f_frsize;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_log_dirs)
        != NGX_OK)
    {
        return;
    }

    rc = ngx_kafka_log_dir_fill(r, result);
    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != NGX_OK) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* The coordinator's lock is held. */
static ngx_int_t
ngx_kafka_log_dir_fill(ngx_kafka_request_t *r,
    kf_describe_log_dirs_response_results_t *result)
{
    int32_t                          i;
    kf_str_t                         after = kf_null_str;
    kc_t                            *kc = &r->broker->kc;
    const kc_topic_t                *t;
    kf_describe_log_dirs_request_t  *req = r->body;

    result->topics = ngx_kafka_calloc(r, req->topics_n < 0
                                         ? (int32_t) kc_topic_count(kc)
                                         : req->topics_n,
                                      kf_describe_log_dirs_response_topics_t);
    if (result->topics == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < req->topics_n; i++) {
        t = kc_topic_by_name(kc, req->topics[i].topic);

        if (t && ngx_kafka_log_dir_topic(r, t, req->topics[i].partitions,
                                         req->topics[i].partitions_n, result)
                 != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (req->topics_n >= 0) {
        return NGX_OK;
    }

    /* null: all */

    for (t = kc_topic_next(kc, after); t; t = kc_topic_next(kc, after)) {
        after = t->name;

        if (ngx_kafka_log_dir_topic(r, t, NULL, t->partition_count, result)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* The n partitions listed, or (NULL) the first n. */
static ngx_int_t
ngx_kafka_log_dir_topic(ngx_kafka_request_t *r, const kc_topic_t *t,
    const int32_t *partitions, int32_t n,
    kf_describe_log_dirs_response_results_t *result)
{
    u_char                                      *name;
    int32_t                                      i, index;
    kl_offsets_t                                 o;
    kf_describe_log_dirs_response_topics_t      *out;
    kf_describe_log_dirs_response_partitions_t  *p;

    out = &result->topics[result->topics_n];

    name = ngx_pnalloc(r->pool, t->name.len);
    p = ngx_kafka_calloc(r, ngx_max(n, 0),
                         kf_describe_log_dirs_response_partitions_t);

    if (name == NULL || p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(name, t->name.data, t->name.len);

    out->name.data = name;
    out->name.len = t->name.len;
    out->partitions = p;

    for (i = 0; i < n; i++) {
        index = partitions ? partitions[i] : i;

        if (index < 0 || index >= t->partition_count) {
            continue;
        }

        kl_snapshot(kl_part(r->broker->parts, t->slots[index]), &o);

        p->partition_index = index;
        p->partition_size = o.bytes;
        p++;
        out->partitions_n++;
    }

    if (out->partitions_n) {
        result->topics_n++;
    }

    return NGX_OK;
}
