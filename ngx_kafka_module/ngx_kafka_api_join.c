/*
 * JoinGroup (key 11), versions 0-9, and SyncGroup (14), 0-5: what waits for a
 * round of its group.
 *
 *   decide ──KC_OK──> answer when the journal is flushed
 *     │  ^
 *  KC_PARK └── the broker recovered: decide anew
 *     v
 *   parked at the group's point ──group changed──> poll ──KC_OK──> answer
 *     │  ^                                          │
 *     v  └──────────────── KC_PARK ─────────────────┘
 *   looks every few seconds, in case a wake-up was lost
 *
 * The state keeps no pointer to a parked request, only a ticket in the member.
 * Parking adds its watch while the coordinator's lock is still held, so that no
 * change comes between.  A worker that exits answers early with a code upon
 * which clients join again.
 */

#include "ngx_kafka_api.h"
#include "../coordinator/kc_group.h"


/* ms until it looks itself: well before a client gives up */
#define NGX_KAFKA_ROUND_LOOK  5000


typedef union {
    kf_join_group_response_t   join;
    kf_sync_group_response_t   sync;
} ngx_kafka_round_response_t;

/* What one of the two APIs differs in. */
typedef struct {
    kc_rc_t            (*decide)(ngx_kafka_request_t *r, kc_call_t *call,
                                 ngx_kafka_round_response_t *rsp);
    kc_rc_t            (*poll)(ngx_kafka_request_t *r, kc_call_t *call,
                               ngx_kafka_round_response_t *rsp);
    int16_t            (*error_code)(ngx_kafka_round_response_t *rsp);
    void               (*refuse)(ngx_kafka_request_t *r, int16_t error,
                                 ngx_kafka_round_response_t *rsp);
    int16_t              hurry;         /* a code upon which clients join */
} ngx_kafka_round_api_t;

typedef struct {
    const ngx_kafka_round_api_t  *api;
    kc_client_t                   client;       /* JoinGroup's */
    kc_park_t                     park;
    uint64_t                      epoch;        /* b->epoch when it parked */
    unsigned                      parked:1;     /* at least once */
    unsigned                      grace:1;      /* its look found an answer */
} ngx_kafka_round_t;


static ngx_kafka_round_t *ngx_kafka_round_begin(ngx_kafka_request_t *r,
    const ngx_kafka_round_api_t *api);
static void ngx_kafka_round_decide(ngx_kafka_request_t *r);
static void ngx_kafka_round_poll(ngx_kafka_request_t *r);
static void ngx_kafka_round_done(ngx_kafka_request_t *r, kc_call_t *call,
    kc_rc_t rc, ngx_kafka_round_response_t *rsp);
static ngx_int_t ngx_kafka_round_park(ngx_kafka_request_t *r);
static void ngx_kafka_round_unpark(ngx_kafka_request_t *r);
static void ngx_kafka_round_woken(ngx_kafka_watch_t *w);
static void ngx_kafka_round_timer(ngx_kafka_request_t *r);
static void ngx_kafka_round_look(ngx_event_t *ev);
static void ngx_kafka_round_hurry(ngx_kafka_request_t *r);
static void ngx_kafka_round_refuse(ngx_kafka_request_t *r, int16_t error);
static ngx_int_t ngx_kafka_round_client(ngx_kafka_request_t *r,
    kc_client_t *client);


/* --- JoinGroup ------------------------------------------------------------ */

static kc_rc_t
ngx_kafka_join_decide(ngx_kafka_request_t *r, kc_call_t *call,
    ngx_kafka_round_response_t *rsp)
{
    ngx_kafka_round_t  *m = r->ctx;

    if (m->parked) {
        return kc_join_group_again(&r->broker->kc, call, r->header.api_version,
                                   &m->client, r->body, &m->park, &rsp->join);
    }

    return kc_join_group(&r->broker->kc, call, r->header.api_version,
                         &m->client, r->body, &m->park, &rsp->join);
}


static kc_rc_t
ngx_kafka_join_poll(ngx_kafka_request_t *r, kc_call_t *call,
    ngx_kafka_round_response_t *rsp)
{
    ngx_kafka_round_t  *m = r->ctx;

    return kc_join_group_poll(&r->broker->kc, call, r->header.api_version,
                              r->body, &m->park, &rsp->join);
}


static int16_t
ngx_kafka_join_error_code(ngx_kafka_round_response_t *rsp)
{
    return rsp->join.error_code;
}


static void
ngx_kafka_join_refuse(ngx_kafka_request_t *r, int16_t error,
    ngx_kafka_round_response_t *rsp)
{
    kf_join_group_request_t  *req = r->body;

    kf_init_join_group_response(&rsp->join);

    rsp->join.error_code = error;
    rsp->join.protocol_type = kf_str("");
    rsp->join.protocol_name = kf_str("");
    rsp->join.leader = kf_str("");
    rsp->join.member_id = req->member_id;
}


static const ngx_kafka_round_api_t  ngx_kafka_join_api = {
    ngx_kafka_join_decide,
    ngx_kafka_join_poll,
    ngx_kafka_join_error_code,
    ngx_kafka_join_refuse,
    KF_ERR_COORDINATOR_LOAD_IN_PROGRESS
};


void
ngx_kafka_join_group(ngx_kafka_request_t *r)
{
    ngx_kafka_round_t  *m;

    m = ngx_kafka_round_begin(r, &ngx_kafka_join_api);

    if (m == NULL || ngx_kafka_round_client(r, &m->client) != NGX_OK) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_round_decide(r);
}


/* --- SyncGroup ------------------------------------------------------------ */

static kc_rc_t
ngx_kafka_sync_decide(ngx_kafka_request_t *r, kc_call_t *call,
    ngx_kafka_round_response_t *rsp)
{
    ngx_kafka_round_t  *m = r->ctx;

    return kc_sync_group(&r->broker->kc, call, r->header.api_version, r->body,
                         &m->park, &rsp->sync);
}


static kc_rc_t
ngx_kafka_sync_poll(ngx_kafka_request_t *r, kc_call_t *call,
    ngx_kafka_round_response_t *rsp)
{
    ngx_kafka_round_t  *m = r->ctx;

    return kc_sync_group_poll(&r->broker->kc, call, r->header.api_version,
                              r->body, &m->park, &rsp->sync);
}


static int16_t
ngx_kafka_sync_error_code(ngx_kafka_round_response_t *rsp)
{
    return rsp->sync.error_code;
}


static void
ngx_kafka_sync_refuse(ngx_kafka_request_t *r, int16_t error,
    ngx_kafka_round_response_t *rsp)
{
    ngx_memzero(&rsp->sync, sizeof(kf_sync_group_response_t));

    rsp->sync.error_code = error;
    rsp->sync.assignment = kf_str("");
}


static const ngx_kafka_round_api_t  ngx_kafka_sync_api = {
    ngx_kafka_sync_decide,
    ngx_kafka_sync_poll,
    ngx_kafka_sync_error_code,
    ngx_kafka_sync_refuse,
    KF_ERR_REBALANCE_IN_PROGRESS
};


void
ngx_kafka_sync_group(ngx_kafka_request_t *r)
{
    if (ngx_kafka_round_begin(r, &ngx_kafka_sync_api) == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_round_decide(r);
}


/* --- the wait ------------------------------------------------------------- */

static ngx_kafka_round_t *
ngx_kafka_round_begin(ngx_kafka_request_t *r, const ngx_kafka_round_api_t *api)
{
    ngx_kafka_round_t  *m;

    m = ngx_kafka_calloc(r, 1, ngx_kafka_round_t);
    if (m == NULL) {
        return NULL;
    }

    m->api = api;

    r->ctx = m;
    r->exclusive = 1;

    return m;
}


static void
ngx_kafka_round_decide(ngx_kafka_request_t *r)
{
    kc_rc_t                      rc;
    kc_call_t                    call;
    ngx_kafka_round_t           *m = r->ctx;
    ngx_kafka_round_response_t   rsp;

    r->cancel = NULL;
    r->hurry = NULL;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_round_decide) != NGX_OK) {
        return;
    }

    m->epoch = r->broker->epoch;

    rc = m->api->decide(r, &call, &rsp);

    ngx_kafka_round_done(r, &call, rc, &rsp);
}


static void
ngx_kafka_round_poll(ngx_kafka_request_t *r)
{
    kc_rc_t                      rc;
    kc_call_t                    call;
    ngx_kafka_round_t           *m = r->ctx;
    ngx_kafka_round_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_round_poll) != NGX_OK) {
        return;
    }

    if (m->epoch != r->broker->epoch) {
        ngx_kafka_coord_unlock(r->broker);
        ngx_kafka_round_decide(r);
        return;
    }

    rc = m->api->poll(r, &call, &rsp);

    ngx_kafka_round_done(r, &call, rc, &rsp);
}


/* The coordinator's lock is held, and released here. */
static void
ngx_kafka_round_done(ngx_kafka_request_t *r, kc_call_t *call, kc_rc_t rc,
    ngx_kafka_round_response_t *rsp)
{
    int16_t             error;
    ngx_kafka_round_t  *m = r->ctx;

    if (rc == KC_PARK && ngx_kafka_round_park(r) != NGX_OK) {
        rc = KC_NO_MEMORY;
    }

    ngx_kafka_coord_unlock(r->broker);

    if (rc == KC_PARK) {
        ngx_kafka_round_timer(r);
        return;
    }

    r->cancel = NULL;
    r->hurry = NULL;

    if (rc != KC_OK) {
        ngx_kafka_round_refuse(r, ngx_kafka_call_error(r, rc));
        return;
    }

    error = m->api->error_code(rsp);

    ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, rsp, call->wait);
}


static ngx_int_t
ngx_kafka_round_park(ngx_kafka_request_t *r)
{
    ngx_kafka_part_t   *point;
    ngx_kafka_round_t  *m = r->ctx;

    point = ngx_kafka_point(r->broker, m->park.hash);
    if (point == NULL) {
        return NGX_ERROR;
    }

    r->watch.handler = ngx_kafka_round_woken;
    r->watch.data = r;
    r->cancel = ngx_kafka_round_unpark;
    r->hurry = ngx_kafka_round_hurry;

    ngx_kafka_watch_add(r->broker, point, &r->watch);
    m->parked = 1;

    return NGX_OK;
}


static void
ngx_kafka_round_unpark(ngx_kafka_request_t *r)
{
    ngx_kafka_watch_del(&r->watch);

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }
}


static void
ngx_kafka_round_woken(ngx_kafka_watch_t *w)
{
    ngx_kafka_request_t  *r = w->data;

    ngx_kafka_round_unpark(r);
    ngx_kafka_round_poll(r);
}


static void
ngx_kafka_round_timer(ngx_kafka_request_t *r)
{
    ngx_kafka_round_t  *m = r->ctx;

    m->grace = 0;

    r->timer.handler = ngx_kafka_round_look;
    r->timer.data = r;
    r->timer.log = r->conn->connection->log;

    ngx_add_timer(&r->timer, NGX_KAFKA_ROUND_LOOK);
}


/*
 * Without an answer the wait goes on.  With one, the wake-up may be on its way;
 * if it does not come, it was lost.
 */
static void
ngx_kafka_round_look(ngx_event_t *ev)
{
    kc_rc_t                      rc;
    kc_call_t                    call;
    ngx_kafka_request_t         *r = ev->data;
    ngx_kafka_round_t           *m = r->ctx;
    ngx_kafka_broker_t          *b = r->broker;
    ngx_kafka_round_response_t   rsp;

    if (r->watch.part == NULL) {
        return;                         /* woken: it runs in this turn */
    }

    if (ngx_kafka_call_try(r, &call) != NGX_OK) {
        ngx_kafka_round_timer(r);
        return;
    }

    rc = m->epoch == b->epoch ? m->api->poll(r, &call, &rsp) : KC_PARK;

    if (rc == KC_PARK) {
        ngx_kafka_coord_unlock(b);
        ngx_kafka_round_timer(r);
        return;
    }

    if (!m->grace) {
        ngx_kafka_coord_unlock(b);

        m->grace = 1;
        ngx_add_timer(&r->timer, NGX_KAFKA_GRACE);
        return;
    }

    ngx_kafka_watch_del(&r->watch);
    ngx_kafka_round_done(r, &call, rc, &rsp);

    /* it logs, for which the lock is not held */
    ngx_kafka_wait_missed(b);
}


static void
ngx_kafka_round_hurry(ngx_kafka_request_t *r)
{
    ngx_kafka_round_t  *m = r->ctx;

    ngx_kafka_round_unpark(r);
    ngx_kafka_round_refuse(r, m->api->hurry);
}


static void
ngx_kafka_round_refuse(ngx_kafka_request_t *r, int16_t error)
{
    ngx_kafka_round_t           *m = r->ctx;
    ngx_kafka_round_response_t   rsp;

    m->api->refuse(r, error, &rsp);

    ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


/* Host as Kafka prints it: "/127.0.0.1". */
static ngx_int_t
ngx_kafka_round_client(ngx_kafka_request_t *r, kc_client_t *client)
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
