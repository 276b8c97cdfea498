/*
 * The group APIs that do not wait for a round: Heartbeat (key 12), versions
 * 0-4; LeaveGroup (13), 0-5; DescribeGroups (15), 0-6; ListGroups (16), 0-5;
 * DeleteGroups (42), 0-3.
 */

#include "ngx_kafka_api.h"
#include "../coordinator/kc_group.h"


void
ngx_kafka_heartbeat(ngx_kafka_request_t *r)
{
    kc_rc_t                   rc;
    kc_call_t                 call;
    kf_heartbeat_request_t   *req = r->body;
    kf_heartbeat_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_heartbeat) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_heartbeat(&r->broker->kc, &call, r->header.api_version, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_leave_group(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    kf_leave_group_request_t  *req = r->body;
    kf_leave_group_response_t  rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_leave_group) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_leave_group(&r->broker->kc, &call, r->header.api_version, req,
                        &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        ngx_memzero(&rsp, sizeof(rsp));
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_describe_groups(ngx_kafka_request_t *r)
{
    int16_t                         error;
    int32_t                         i;
    kc_rc_t                         rc;
    kc_call_t                       call;
    kf_describe_groups_request_t   *req = r->body;
    kf_describe_groups_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_groups) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_describe_groups(&r->broker->kc, &call, r->header.api_version, req,
                            &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.groups_n = ngx_max(req->groups_n, 0);
        rsp.groups = ngx_kafka_calloc(r, rsp.groups_n,
                                      kf_describe_groups_response_groups_t);
        if (rsp.groups == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.groups_n; i++) {
            kf_init_describe_groups_response_groups(&rsp.groups[i]);
            rsp.groups[i].error_code = error;
            rsp.groups[i].group_id = req->groups[i];
        }
    }

    for (i = 0; i < rsp.groups_n; i++) {
        ngx_kafka_note(r, rsp.groups[i].error_code, (kf_str_t) kf_null_str);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_list_groups(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    kf_list_groups_request_t  *req = r->body;
    kf_list_groups_response_t  rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_list_groups) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_list_groups(&r->broker->kc, &call, r->header.api_version, req,
                        &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        ngx_memzero(&rsp, sizeof(rsp));
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_delete_groups(ngx_kafka_request_t *r)
{
    int16_t                       error;
    int32_t                       i;
    kc_rc_t                       rc;
    kc_call_t                     call;
    kf_delete_groups_request_t   *req = r->body;
    kf_delete_groups_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_delete_groups) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_delete_groups(&r->broker->kc, &call, r->header.api_version, req,
                          &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.results_n = ngx_max(req->groups_names_n, 0);
        rsp.results = ngx_kafka_calloc(r, rsp.results_n,
                                       kf_delete_groups_response_results_t);
        if (rsp.results == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.results_n; i++) {
            rsp.results[i].group_id = req->groups_names[i];
            rsp.results[i].error_code = error;
        }
    }

    for (i = 0; i < rsp.results_n; i++) {
        ngx_kafka_note(r, rsp.results[i].error_code, (kf_str_t) kf_null_str);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}
