/*
 * ApiVersions, key 18, versions 0-5 (KIP-35, KIP-511, KIP-584, KIP-1242);
 * UpdateFeatures, key 57, versions 0-2.
 *
 * Answers exactly the table of what is served, with the codec's versions.  A
 * version above ours never comes here: it is answered in version 0 before the
 * body is decoded.  Served also while the broker is not open.
 *
 *   INVALID_REQUEST       3+: a software name or version that is empty or has
 *                         other characters than letters, digits, "-" and "."
 *   REBOOTSTRAP_REQUIRED  5+: the client looks for another cluster or node
 */

#include "ngx_kafka_api.h"
#include "ngx_kafka_conn.h"


/* Features and their levels; all are finalized at the highest one. */
typedef struct {
    kf_str_t  name;
    int16_t   min;
    int16_t   max;
} ngx_kafka_feature_t;

static const ngx_kafka_feature_t  ngx_kafka_features[] = {

    /* Kafka 4.4's; nothing here depends on it, but tools show it */
    { { (const uint8_t *) "metadata.version", 16 }, 7, 33 },

    /* 2: KIP-890, epochs are raised by each EndTxn; clients choose by it */
    { { (const uint8_t *) "transaction.version", 19 }, 0, 2 },

};

#define NGX_KAFKA_FEATURES                                                    \
    (sizeof(ngx_kafka_features) / sizeof(ngx_kafka_features[0]))


static ngx_uint_t
ngx_kafka_software_name_ok(kf_str_t s)
{
    u_char    ch;
    uint32_t  i;

    for (i = 0; i < s.len; i++) {
        ch = s.data[i];

        if ((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z')
            || (ch >= 'A' && ch <= 'Z'))
        {
            continue;
        }

        if ((ch != '-' && ch != '.') || i == 0 || i == s.len - 1) {
            return 0;
        }
    }

    return s.len > 0;
}


static ngx_uint_t
ngx_kafka_is_ours(ngx_kafka_request_t *r, const kf_api_versions_request_t *req)
{
    ngx_uint_t           ours;
    ngx_kafka_broker_t  *b = r->broker;

    if (req->node_id != -1 && req->node_id != b->node_id) {
        return 0;
    }

    if (kf_str_is_null(req->cluster_id)
        || ngx_kafka_coord_lock(b) != NGX_OK)
    {
        return 1;
    }

    ours = kf_str_eq(req->cluster_id, kc_cluster_id(&b->kc));

    ngx_kafka_coord_unlock(b);

    return ours;
}


/* NGX_ERROR: no memory. */
static ngx_int_t
ngx_kafka_features_show(ngx_kafka_request_t *r,
    kf_api_versions_response_t *rsp)
{
    ngx_uint_t                                        i;
    const ngx_kafka_feature_t                        *f;
    kf_api_versions_response_supported_features_t    *s;
    kf_api_versions_response_finalized_features_t    *v;

    s = ngx_kafka_calloc(r, NGX_KAFKA_FEATURES,
                         kf_api_versions_response_supported_features_t);
    v = ngx_kafka_calloc(r, NGX_KAFKA_FEATURES,
                         kf_api_versions_response_finalized_features_t);

    if (s == NULL || v == NULL) {
        return NGX_ERROR;
    }

    rsp->supported_features = s;
    rsp->finalized_features = v;

    for (i = 0; i < NGX_KAFKA_FEATURES; i++) {
        f = &ngx_kafka_features[i];

        /* clients up to 3.8, which send version 3, stumble over a minimum 0 */

        if (f->min > 0 || r->header.api_version >= 4) {
            s->name = f->name;
            s->min_version = f->min;
            s->max_version = f->max;
            s++;
            rsp->supported_features_n++;
        }

        v->name = f->name;
        v->min_version_level = f->max;
        v->max_version_level = f->max;
        v++;
        rsp->finalized_features_n++;
    }

    /* clients take no notice of features while the epoch is -1 */

    rsp->finalized_features_epoch = 0;

    return NGX_OK;
}


void
ngx_kafka_api_versions(ngx_kafka_request_t *r)
{
    ngx_uint_t                       i;
    const kf_api_t                  *api;
    ngx_kafka_conn_t                *kc = r->conn;
    kf_api_versions_response_t       rsp;
    const kf_api_versions_request_t *req = r->body;

    kf_init_api_versions_response(&rsp);

    if (r->header.api_version >= 3) {

        if (!ngx_kafka_software_name_ok(req->client_software_name)
            || !ngx_kafka_software_name_ok(req->client_software_version))
        {
            rsp.error_code = KF_ERR_INVALID_REQUEST;

        } else {
            ngx_kafka_name_set(kc, 1, &kc->software,
                               req->client_software_name);
            ngx_kafka_name_set(kc, 2, &kc->software_version,
                               req->client_software_version);
        }
    }

    if (rsp.error_code == KF_ERR_NONE && r->header.api_version >= 5
        && !ngx_kafka_is_ours(r, req))
    {
        rsp.error_code = KF_ERR_REBOOTSTRAP_REQUIRED;
    }

    if (rsp.error_code) {
        r->error = rsp.error_code;
        ngx_kafka_answer(r, &rsp);
        return;
    }

    rsp.api_keys = ngx_kafka_calloc(r, ngx_kafka_apis_n,
                                    kf_api_versions_response_api_keys_t);
    if (rsp.api_keys == NULL) {
        ngx_kafka_fail(r, "no memory for an answer");
        return;
    }

    for (i = 0; i < ngx_kafka_apis_n; i++) {
        api = kf_api(ngx_kafka_apis[i].key);

        if (api == NULL) {
            continue;
        }

        rsp.api_keys[rsp.api_keys_n].api_key = api->key;
        rsp.api_keys[rsp.api_keys_n].min_version = api->advertised_min;
        rsp.api_keys[rsp.api_keys_n].max_version = api->max;
        rsp.api_keys_n++;
    }

    if (ngx_kafka_features_show(r, &rsp) != NGX_OK) {
        ngx_kafka_fail(r, "no memory for an answer");
        return;
    }

    ngx_kafka_answer(r, &rsp);
}


/* Levels are those of the release: all that can be asked for is what is so. */
static int16_t
ngx_kafka_feature_check(kf_str_t name, int16_t level)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_KAFKA_FEATURES; i++) {

        if (kf_str_eq(ngx_kafka_features[i].name, name)
            && ngx_kafka_features[i].max == level)
        {
            return KF_ERR_NONE;
        }
    }

    return KF_ERR_INVALID_UPDATE_VERSION;
}


void
ngx_kafka_update_features(ngx_kafka_request_t *r)
{
    int32_t                                         i;
    kf_update_features_request_t                   *req = r->body;
    kf_update_features_response_t                   rsp;
    kf_update_features_response_results_t          *out;
    const kf_update_features_request_feature_updates_t  *in;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_message = kf_null_str;

    out = ngx_kafka_calloc(r, ngx_max(req->feature_updates_n, 0),
                           kf_update_features_response_results_t);
    if (out == NULL) {
        ngx_kafka_fail(r, "no memory for an answer");
        return;
    }

    rsp.results = out;

    for (i = 0; i < req->feature_updates_n; i++, out++) {
        in = &req->feature_updates[i];

        rsp.error_code = ngx_kafka_feature_check(in->feature,
                                                 in->max_version_level);

        /* all or nothing, so that one code says it (as Kafka 4 does) */

        if (rsp.error_code) {
            rsp.error_message = kf_arena_printf(&r->arena, "feature \"%.*s\" "
                                    "has no level %d here, and levels cannot "
                                    "be changed", (int) in->feature.len,
                                    in->feature.data, in->max_version_level);
            rsp.results_n = 0;
            ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
            break;
        }

        out->feature = in->feature;
        out->error_message = kf_null_str;
        rsp.results_n++;
    }

    ngx_kafka_answer(r, &rsp);
}
