/*
 * OffsetCommit (key 8), versions 2-10; OffsetFetch (9), 1-10; OffsetDelete
 * (47), 0.
 *
 * A commit is answered when it is on the disk; a fetch, when what it shows is;
 * both at once when the broker has write.caching.
 */

#include "ngx_kafka_api.h"
#include "../coordinator/kc_group.h"


static ngx_int_t ngx_kafka_offset_commit_error(ngx_kafka_request_t *r,
    int16_t error, kf_offset_commit_response_t *rsp);
static ngx_int_t ngx_kafka_offset_fetch_error(ngx_kafka_request_t *r,
    int16_t error, kf_offset_fetch_response_t *rsp);


void
ngx_kafka_offset_commit(ngx_kafka_request_t *r)
{
    int32_t                       i, j;
    kc_rc_t                       rc;
    kc_call_t                     call;
    kf_offset_commit_request_t   *req = r->body;
    kf_offset_commit_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_offset_commit) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_offset_commit(&r->broker->kc, &call, r->header.api_version, req,
                          &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK
        && ngx_kafka_offset_commit_error(r, ngx_kafka_call_error(r, rc), &rsp)
           != NGX_OK)
    {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    for (i = 0; i < rsp.topics_n; i++) {
        for (j = 0; j < rsp.topics[i].partitions_n; j++) {
            ngx_kafka_note(r, rsp.topics[i].partitions[j].error_code,
                           rsp.topics[i].name);
        }
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* There is no code for the answer as a whole. */
static ngx_int_t
ngx_kafka_offset_commit_error(ngx_kafka_request_t *r, int16_t error,
    kf_offset_commit_response_t *rsp)
{
    int32_t                              i, j;
    kf_offset_commit_request_t          *req = r->body;
    kf_offset_commit_response_topics_t  *topic;

    ngx_memzero(rsp, sizeof(kf_offset_commit_response_t));

    rsp->topics_n = ngx_max(req->topics_n, 0);
    rsp->topics = ngx_kafka_calloc(r, rsp->topics_n,
                                   kf_offset_commit_response_topics_t);
    if (rsp->topics == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < rsp->topics_n; i++) {
        topic = &rsp->topics[i];

        topic->name = req->topics[i].name;
        topic->topic_id = req->topics[i].topic_id;
        topic->partitions_n = ngx_max(req->topics[i].partitions_n, 0);
        topic->partitions = ngx_kafka_calloc(r, topic->partitions_n,
                                      kf_offset_commit_response_partitions_t);

        if (topic->partitions == NULL) {
            return NGX_ERROR;
        }

        for (j = 0; j < topic->partitions_n; j++) {
            topic->partitions[j].partition_index =
                                   req->topics[i].partitions[j].partition_index;
            topic->partitions[j].error_code = error;
        }
    }

    return NGX_OK;
}


void
ngx_kafka_offset_fetch(ngx_kafka_request_t *r)
{
    int32_t                     i;
    kc_rc_t                     rc;
    kc_call_t                   call;
    kf_offset_fetch_request_t  *req = r->body;
    kf_offset_fetch_response_t  rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_offset_fetch) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_offset_fetch(&r->broker->kc, &call, r->header.api_version, req,
                         &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK
        && ngx_kafka_offset_fetch_error(r, ngx_kafka_call_error(r, rc), &rsp)
           != NGX_OK)
    {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);

    for (i = 0; i < rsp.groups_n; i++) {
        ngx_kafka_note(r, rsp.groups[i].error_code, (kf_str_t) kf_null_str);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


static ngx_int_t
ngx_kafka_offset_fetch_error(ngx_kafka_request_t *r, int16_t error,
    kf_offset_fetch_response_t *rsp)
{
    int32_t                                 i, j;
    kf_offset_fetch_request_t              *req = r->body;
    kf_offset_fetch_response_topics_t      *topic;
    kf_offset_fetch_response_partitions_t  *p;

    ngx_memzero(rsp, sizeof(kf_offset_fetch_response_t));

    rsp->error_code = error;

    if (r->header.api_version >= 8) {
        rsp->groups_n = ngx_max(req->groups_n, 0);
        rsp->groups = ngx_kafka_calloc(r, rsp->groups_n,
                                       kf_offset_fetch_response_groups_t);
        if (rsp->groups == NULL) {
            return NGX_ERROR;
        }

        for (i = 0; i < rsp->groups_n; i++) {
            rsp->groups[i].group_id = req->groups[i].group_id;
            rsp->groups[i].error_code = error;
        }

        return NGX_OK;
    }

    /* version 1 can say it only of partitions; an empty answer misleads */

    rsp->topics_n = ngx_max(req->topics_n, 0);
    rsp->topics = ngx_kafka_calloc(r, rsp->topics_n,
                                   kf_offset_fetch_response_topics_t);
    if (rsp->topics == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < rsp->topics_n; i++) {
        topic = &rsp->topics[i];

        topic->name = req->topics[i].name;
        topic->partitions_n = ngx_max(req->topics[i].partition_indexes_n, 0);
        topic->partitions = ngx_kafka_calloc(r, topic->partitions_n,
                                       kf_offset_fetch_response_partitions_t);

        if (topic->partitions == NULL) {
            return NGX_ERROR;
        }

        for (j = 0; j < topic->partitions_n; j++) {
            p = &topic->partitions[j];

            p->partition_index = req->topics[i].partition_indexes[j];
            p->committed_offset = -1;
            p->committed_leader_epoch = -1;
            p->metadata = kf_str("");
            p->error_code = error;
        }
    }

    return NGX_OK;
}


void
ngx_kafka_offset_delete(ngx_kafka_request_t *r)
{
    kc_rc_t                       rc;
    kc_call_t                     call;
    kf_offset_delete_request_t   *req = r->body;
    kf_offset_delete_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_offset_delete) != NGX_OK) {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_offset_delete(&r->broker->kc, &call, r->header.api_version, req,
                          &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        ngx_memzero(&rsp, sizeof(rsp));
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}
