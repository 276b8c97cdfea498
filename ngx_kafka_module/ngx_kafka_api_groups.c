/*
 * JoinGroup (key 11), versions 0-9; SyncGroup (14), 0-5; Heartbeat (12), 0-4;
 * LeaveGroup (13), 0-5; DescribeGroups (15), 0-6; ListGroups (16), 0-5;
 * DeleteGroups (42), 0-3.
 *
 *   decide ──KC_OK──> answer when the journal is flushed
 *     │  ^
 *  KC_PARK └── the broker recovered: decide anew
 *     v
 *   parked at the group's point ──group changed──> poll ──KC_OK──> answer
 *
 * The state keeps no pointer to a parked request, only a ticket in the member.
 * Parking adds its watch while the coordinator's lock is still held, so that no
 * change comes between.  A worker that exits answers early with a code upon
 * which clients join again.
 */

#include "ngx_kafka_api.h"
#include "../coordinator/kc_group.h"


typedef struct {
    kc_park_t    park;
    uint64_t     epoch;                 /* b->epoch when it parked */
} ngx_kafka_member_t;


static void ngx_kafka_join_poll(ngx_kafka_request_t *r);
static void ngx_kafka_join_done(ngx_kafka_request_t *r, kc_call_t *call,
    kc_rc_t rc, kf_join_group_response_t *rsp);
static void ngx_kafka_join_woken(ngx_kafka_watch_t *w);
static void ngx_kafka_join_hurry(ngx_kafka_request_t *r);
static void ngx_kafka_join_error(ngx_kafka_request_t *r, int16_t error);
static void ngx_kafka_sync_poll(ngx_kafka_request_t *r);
static void ngx_kafka_sync_done(ngx_kafka_request_t *r, kc_call_t *call,
    kc_rc_t rc, kf_sync_group_response_t *rsp);
static void ngx_kafka_sync_woken(ngx_kafka_watch_t *w);
static void ngx_kafka_sync_hurry(ngx_kafka_request_t *r);
static void ngx_kafka_sync_error(ngx_kafka_request_t *r, int16_t error);
static ngx_int_t ngx_kafka_member_ctx(ngx_kafka_request_t *r);
static ngx_int_t ngx_kafka_member_park(ngx_kafka_request_t *r,
    void (*woken)(ngx_kafka_watch_t *w),
    void (*hurry)(ngx_kafka_request_t *r));
static void ngx_kafka_member_cancel(ngx_kafka_request_t *r);
static ngx_int_t ngx_kafka_client(ngx_kafka_request_t *r, kc_client_t *client);


/* --- JoinGroup ------------------------------------------------------------ */

void
ngx_kafka_join_group(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    kc_client_t                client;
    ngx_kafka_member_t        *m;
    kf_join_group_request_t   *req = r->body;
    kf_join_group_response_t   rsp;

    r->exclusive = 1;
    r->cancel = NULL;
    r->hurry = NULL;

    if (ngx_kafka_member_ctx(r) != NGX_OK
        || ngx_kafka_client(r, &client) != NGX_OK)
    {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_join_group) != NGX_OK) {
        return;
    }

    m = r->ctx;
    m->epoch = r->broker->epoch;

    rc = kc_join_group(&r->broker->kc, &call, r->header.api_version, &client,
                       req, &m->park, &rsp);

    ngx_kafka_join_done(r, &call, rc, &rsp);
}


static void
ngx_kafka_join_poll(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    ngx_kafka_member_t        *m = r->ctx;
    kf_join_group_request_t   *req = r->body;
    kf_join_group_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_join_poll) != NGX_OK) {
        return;
    }

    if (m->epoch != r->broker->epoch) {
        ngx_kafka_coord_unlock(r->broker);
        ngx_kafka_join_group(r);
        return;
    }

    rc = kc_join_group_poll(&r->broker->kc, &call, r->header.api_version, req,
                            &m->park, &rsp);

    ngx_kafka_join_done(r, &call, rc, &rsp);
}


/* The coordinator's lock is held, and released here. */
static void
ngx_kafka_join_done(ngx_kafka_request_t *r, kc_call_t *call, kc_rc_t rc,
    kf_join_group_response_t *rsp)
{
    if (rc == KC_PARK) {
        if (ngx_kafka_member_park(r, ngx_kafka_join_woken,
                                  ngx_kafka_join_hurry)
            != NGX_OK)
        {
            rc = KC_NO_MEMORY;
        }
    }

    ngx_kafka_coord_unlock(r->broker);

    if (rc == KC_PARK) {
        return;
    }

    r->cancel = NULL;
    r->hurry = NULL;

    if (rc != KC_OK) {
        ngx_kafka_join_error(r, ngx_kafka_call_error(r, rc));
        return;
    }

    ngx_kafka_note(r, rsp->error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, rsp, call->wait);
}


static void
ngx_kafka_join_woken(ngx_kafka_watch_t *w)
{
    ngx_kafka_join_poll(w->data);
}


static void
ngx_kafka_join_hurry(ngx_kafka_request_t *r)
{
    ngx_kafka_watch_del(&r->watch);
    ngx_kafka_join_error(r, KF_ERR_COORDINATOR_LOAD_IN_PROGRESS);
}


static void
ngx_kafka_join_error(ngx_kafka_request_t *r, int16_t error)
{
    kf_join_group_request_t   *req = r->body;
    kf_join_group_response_t   rsp;

    kf_init_join_group_response(&rsp);

    rsp.error_code = error;
    rsp.protocol_type = kf_str("");
    rsp.protocol_name = kf_str("");
    rsp.leader = kf_str("");
    rsp.member_id = req->member_id;

    ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


/* --- SyncGroup ------------------------------------------------------------ */

void
ngx_kafka_sync_group(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    ngx_kafka_member_t        *m;
    kf_sync_group_request_t   *req = r->body;
    kf_sync_group_response_t   rsp;

    r->exclusive = 1;
    r->cancel = NULL;
    r->hurry = NULL;

    if (ngx_kafka_member_ctx(r) != NGX_OK) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_sync_group) != NGX_OK) {
        return;
    }

    m = r->ctx;
    m->epoch = r->broker->epoch;

    rc = kc_sync_group(&r->broker->kc, &call, r->header.api_version, req,
                       &m->park, &rsp);

    ngx_kafka_sync_done(r, &call, rc, &rsp);
}


static void
ngx_kafka_sync_poll(ngx_kafka_request_t *r)
{
    kc_rc_t                    rc;
    kc_call_t                  call;
    ngx_kafka_member_t        *m = r->ctx;
    kf_sync_group_request_t   *req = r->body;
    kf_sync_group_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_sync_poll) != NGX_OK) {
        return;
    }

    if (m->epoch != r->broker->epoch) {
        ngx_kafka_coord_unlock(r->broker);
        ngx_kafka_sync_group(r);
        return;
    }

    rc = kc_sync_group_poll(&r->broker->kc, &call, r->header.api_version, req,
                            &m->park, &rsp);

    ngx_kafka_sync_done(r, &call, rc, &rsp);
}


/* The coordinator's lock is held, and released here. */
static void
ngx_kafka_sync_done(ngx_kafka_request_t *r, kc_call_t *call, kc_rc_t rc,
    kf_sync_group_response_t *rsp)
{
    if (rc == KC_PARK) {
        if (ngx_kafka_member_park(r, ngx_kafka_sync_woken,
                                  ngx_kafka_sync_hurry)
            != NGX_OK)
        {
            rc = KC_NO_MEMORY;
        }
    }

    ngx_kafka_coord_unlock(r->broker);

    if (rc == KC_PARK) {
        return;
    }

    r->cancel = NULL;
    r->hurry = NULL;

    if (rc != KC_OK) {
        ngx_kafka_sync_error(r, ngx_kafka_call_error(r, rc));
        return;
    }

    ngx_kafka_note(r, rsp->error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, rsp, call->wait);
}


static void
ngx_kafka_sync_woken(ngx_kafka_watch_t *w)
{
    ngx_kafka_sync_poll(w->data);
}


static void
ngx_kafka_sync_hurry(ngx_kafka_request_t *r)
{
    ngx_kafka_watch_del(&r->watch);
    ngx_kafka_sync_error(r, KF_ERR_REBALANCE_IN_PROGRESS);
}


static void
ngx_kafka_sync_error(ngx_kafka_request_t *r, int16_t error)
{
    kf_sync_group_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    rsp.error_code = error;
    rsp.assignment = kf_str("");

    ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


/* --- what both share ------------------------------------------------------ */

static ngx_int_t
ngx_kafka_member_ctx(ngx_kafka_request_t *r)
{
    if (r->ctx == NULL) {
        r->ctx = ngx_kafka_calloc(r, 1, ngx_kafka_member_t);
    }

    return r->ctx ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_kafka_member_park(ngx_kafka_request_t *r,
    void (*woken)(ngx_kafka_watch_t *w), void (*hurry)(ngx_kafka_request_t *r))
{
    ngx_kafka_part_t    *point;
    ngx_kafka_member_t  *m = r->ctx;

    point = ngx_kafka_point(r->broker, m->park.hash);
    if (point == NULL) {
        return NGX_ERROR;
    }

    r->watch.handler = woken;
    r->watch.data = r;
    r->cancel = ngx_kafka_member_cancel;
    r->hurry = hurry;

    ngx_kafka_watch_add(r->broker, point, &r->watch);

    return NGX_OK;
}


static void
ngx_kafka_member_cancel(ngx_kafka_request_t *r)
{
    ngx_kafka_watch_del(&r->watch);
}


/* Host as Kafka prints it: "/127.0.0.1". */
static ngx_int_t
ngx_kafka_client(ngx_kafka_request_t *r, kc_client_t *client)
{
    u_char            *p;
    ngx_connection_t  *c = r->conn->connection;

    p = ngx_pnalloc(r->pool, c->addr_text.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    p[0] = '/';
    ngx_memcpy(p + 1, c->addr_text.data, c->addr_text.len);

    client->id = r->header.client_id;
    client->host.data = p;
    client->host.len = (uint32_t) c->addr_text.len + 1;

    return NGX_OK;
}


/* --- calls that do not wait ----------------------------------------------- */

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
