/*
 * ApiVersions, key 18, versions 0-5 (KIP-35, KIP-511, KIP-584, KIP-1242).
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

    /* clients take no notice of features while the epoch is -1 */

    rsp.finalized_features_epoch = 0;

    ngx_kafka_answer(r, &rsp);
}
