/*
 * InitProducerId (key 22), versions 0-5; AddPartitionsToTxn (24), 0-5;
 * AddOffsetsToTxn (25), 0-4; EndTxn (26), 0-5; TxnOffsetCommit (28), 0-6;
 * DescribeTransactions (65), 0; ListTransactions (66), 0-2.
 *
 * EndTxn:
 *
 *   ask ──KC_TXN_FLUSH──> flush the participants' data ──> ask again
 *    ├───KC_TXN_DRIVE──> drive (ngx_kafka_txn.c) ──> answer
 *    └───KC_TXN_DONE───> answer when the journal is flushed
 *
 * so that data is on the disk before the decision, the decision before the
 * markers, and the answer after its effect is visible (KIP-98, KIP-890).
 */

#include "ngx_kafka_txn.h"


typedef struct {
    kc_txn_work_t         work;
    kf_end_txn_response_t response;
    uint64_t              epoch;        /* b->epoch of work */
    ngx_kafka_drive_t    *drive;
    ngx_kafka_part_t    **parts;        /* to be flushed, referenced */
    int64_t              *ends;         /* … up to these offsets */
    ngx_uint_t            parts_n;
    ngx_uint_t            next;
} ngx_kafka_end_t;


static void ngx_kafka_end_txn_ask(ngx_kafka_request_t *r);
static void ngx_kafka_end_txn_drive(ngx_kafka_request_t *r);
static void ngx_kafka_end_txn_driven(void *data, ngx_int_t rc);
static void ngx_kafka_end_txn_flush(ngx_kafka_request_t *r);
static void ngx_kafka_end_txn_flushed(ngx_kafka_watch_t *w);
static void ngx_kafka_end_txn_error(ngx_kafka_request_t *r, int16_t error);
static void ngx_kafka_end_txn_cancel(ngx_kafka_request_t *r);


void
ngx_kafka_init_producer_id(ngx_kafka_request_t *r)
{
    bool                             prepared;
    kc_rc_t                          rc;
    kc_call_t                        call;
    kf_init_producer_id_request_t   *req = r->body;
    kf_init_producer_id_response_t   rsp;

    kf_init_init_producer_id_response(&rsp);

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_init_producer_id) != NGX_OK) {
        return;
    }

    rc = kc_txn_init(&r->broker->kc, &call, r->header.api_version, req, &rsp);
    prepared = kc_txn_prepared_take(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    if (prepared) {

        /* it aborts the transaction of the one before: nobody else waits */

        ngx_kafka_txn_sweep(r->broker, 1);
    }

    if (rc != KC_OK) {
        rsp.error_code = ngx_kafka_call_error(r, rc);
        rsp.producer_id = -1;
        rsp.producer_epoch = -1;
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_end_txn(ngx_kafka_request_t *r)
{
    ngx_kafka_end_t  *e;

    r->exclusive = 1;

    e = ngx_kafka_calloc(r, 1, ngx_kafka_end_t);
    if (e == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    r->ctx = e;
    r->cancel = ngx_kafka_end_txn_cancel;

    ngx_kafka_fault("txn-asked");
    ngx_kafka_end_txn_ask(r);
}


static void
ngx_kafka_end_txn_ask(ngx_kafka_request_t *r)
{
    kc_rc_t               rc;
    kc_call_t             call;
    ngx_kafka_end_t      *e = r->ctx;
    ngx_kafka_broker_t   *b = r->broker;
    kf_end_txn_request_t *req = r->body;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_end_txn_ask) != NGX_OK) {
        return;
    }

    if (e->epoch != b->epoch) {
        ngx_memzero(&e->work, sizeof(kc_txn_work_t));
        e->epoch = b->epoch;
    }

    rc = kc_end_txn(&b->kc, &call, r->header.api_version, req, &e->work,
                    &e->response);

    if (rc == KC_OK && e->work.step == KC_TXN_DRIVE) {
        e->drive = ngx_kafka_txn_drive(b, &e->work, ngx_kafka_end_txn_driven,
                                       r);
    }

    /* a producer id is given to nobody before the disk knows */

    r->durable = e->response.error_code == KF_ERR_NONE
                 && e->response.producer_id >= 0
                 && e->response.producer_id != req->producer_id;

    ngx_kafka_coord_unlock(b);

    if (rc != KC_OK) {
        ngx_kafka_end_txn_error(r, ngx_kafka_call_error(r, rc));
        return;
    }

    switch (e->work.step) {

    case KC_TXN_FLUSH:
        ngx_kafka_end_txn_flush(r);
        break;

    case KC_TXN_DRIVE:
        ngx_kafka_fault("txn-decided");
        ngx_kafka_end_txn_drive(r);
        break;

    default:
        r->cancel = NULL;
        ngx_kafka_note(r, e->response.error_code, (kf_str_t) kf_null_str);
        ngx_kafka_answer_when(r, &e->response, call.wait);
    }
}


static void
ngx_kafka_end_txn_drive(ngx_kafka_request_t *r)
{
    ngx_kafka_end_t  *e = r->ctx;

    if (e->drive == NULL) {

        /* it is decided: the sweep drives it, and the client asks again */

        ngx_kafka_txn_sweep_later(r->broker, 1);
        ngx_kafka_end_txn_error(r, KF_ERR_CONCURRENT_TRANSACTIONS);
        return;
    }

    ngx_kafka_txn_drive_start(e->drive);
}


static void
ngx_kafka_end_txn_driven(void *data, ngx_int_t rc)
{
    ngx_kafka_request_t  *r = data;
    ngx_kafka_end_t      *e = r->ctx;

    e->drive = NULL;

    if (rc != NGX_OK) {
        ngx_kafka_end_txn_error(r, KF_ERR_CONCURRENT_TRANSACTIONS);
        return;
    }

    r->cancel = NULL;
    ngx_kafka_note(r, e->response.error_code, (kf_str_t) kf_null_str);

    if (r->durable) {
        ngx_kafka_answer_when(r, &e->response, e->work.prepared);
        return;
    }

    ngx_kafka_answer(r, &e->response);
}


/* What producers have sent with acks below all may not be on the disk yet. */
static void
ngx_kafka_end_txn_flush(ngx_kafka_request_t *r)
{
    uint32_t             i;
    kl_offsets_t         o;
    ngx_kafka_end_t     *e = r->ctx;
    ngx_kafka_part_t    *part;
    ngx_kafka_topic_t   *t;
    ngx_kafka_broker_t  *b = r->broker;

    e->parts_n = 0;
    e->next = 0;
    e->parts = ngx_kafka_calloc(r, e->work.parts_n, ngx_kafka_part_t *);
    e->ends = ngx_kafka_calloc(r, e->work.parts_n, int64_t);

    if (e->parts == NULL || e->ends == NULL) {
        r->cancel = NULL;
        ngx_kafka_fail(r, "no memory");
        return;
    }

    for (i = 0; i < e->work.parts_n; i++) {

        kl_snapshot(kl_part(b->parts, e->work.parts[i].slot), &o);

        if (o.state != KL_OPEN || o.flushed >= o.log_end
            || ngx_kafka_topic_by_id(b, e->work.parts[i].topic_id, &t)
               != NGX_OK)
        {
            continue;
        }

        if (b->caching && t->caching) {
            continue;
        }

        part = ngx_kafka_topic_part(b, t, e->work.parts[i].partition);
        if (part == NULL) {
            continue;
        }

        ngx_kafka_part_ref(part);
        e->parts[e->parts_n] = part;
        e->ends[e->parts_n] = o.log_end;
        e->parts_n++;

        ngx_kafka_flush(b, part);
    }

    r->watch.handler = ngx_kafka_end_txn_flushed;
    r->watch.data = r;

    ngx_kafka_end_txn_flushed(&r->watch);
}


static void
ngx_kafka_end_txn_flushed(ngx_kafka_watch_t *w)
{
    ngx_kafka_part_t     *part;
    ngx_kafka_offsets_t   o;
    ngx_kafka_request_t  *r = w->data;
    ngx_kafka_end_t      *e = r->ctx;

    while (e->next < e->parts_n) {
        part = e->parts[e->next];

        ngx_kafka_watch_add(r->broker, part, w);

        /* a partition that went cannot be waited for: its marker tells */

        if (ngx_kafka_part_ready(part, &o) == KF_ERR_NONE
            && o.o.flushed < e->ends[e->next])
        {
            return;
        }

        ngx_kafka_watch_del(w);
        ngx_kafka_part_unref(r->broker, part);
        e->parts[e->next++] = NULL;
    }

    e->parts_n = 0;

    ngx_kafka_fault("txn-data-flushed");
    ngx_kafka_end_txn_ask(r);
}


static void
ngx_kafka_end_txn_error(ngx_kafka_request_t *r, int16_t error)
{
    kf_end_txn_response_t  rsp;

    kf_init_end_txn_response(&rsp);
    rsp.error_code = error;

    r->cancel = NULL;
    ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


static void
ngx_kafka_end_txn_cancel(ngx_kafka_request_t *r)
{
    ngx_uint_t        i;
    ngx_kafka_end_t  *e = r->ctx;

    if (e->drive) {
        ngx_kafka_txn_forget(e->drive);
        e->drive = NULL;
    }

    ngx_kafka_watch_del(&r->watch);

    for (i = e->next; i < e->parts_n; i++) {
        ngx_kafka_part_unref(r->broker, e->parts[i]);
    }

    e->parts_n = 0;
}


/* --- calls that only decide ----------------------------------------------- */

void
ngx_kafka_add_partitions_to_txn(ngx_kafka_request_t *r)
{
    int16_t                                error;
    kc_rc_t                                rc;
    kc_call_t                              call;
    kf_add_partitions_to_txn_request_t    *req = r->body;
    kf_add_partitions_to_txn_response_t    rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_add_partitions_to_txn)
        != NGX_OK)
    {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_add_partitions_to_txn(&r->broker->kc, &call,
                                  r->header.api_version, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);
        ngx_memzero(&rsp, sizeof(rsp));

        if (r->header.api_version < 4) {

            /* no code for the whole: the client connects and asks again */

            ngx_kafka_fail(r, "partitions cannot be added to a transaction");
            return;
        }

        rsp.error_code = error;
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_add_offsets_to_txn(ngx_kafka_request_t *r)
{
    kc_rc_t                            rc;
    kc_call_t                          call;
    kf_add_offsets_to_txn_request_t   *req = r->body;
    kf_add_offsets_to_txn_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_add_offsets_to_txn)
        != NGX_OK)
    {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_add_offsets_to_txn(&r->broker->kc, &call, r->header.api_version,
                               req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_txn_offset_commit(ngx_kafka_request_t *r)
{
    int16_t                            error;
    int32_t                            i, j;
    kc_rc_t                            rc;
    kc_call_t                          call;
    kf_txn_offset_commit_request_t    *req = r->body;
    kf_txn_offset_commit_response_t    rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_txn_offset_commit)
        != NGX_OK)
    {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_txn_offset_commit(&r->broker->kc, &call, r->header.api_version,
                              req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        error = ngx_kafka_call_error(r, rc);

        ngx_memzero(&rsp, sizeof(rsp));
        rsp.topics_n = ngx_max(req->topics_n, 0);
        rsp.topics = ngx_kafka_calloc(r, rsp.topics_n,
                                      kf_txn_offset_commit_response_topics_t);
        if (rsp.topics == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (i = 0; i < rsp.topics_n; i++) {
            rsp.topics[i].name = req->topics[i].name;
            rsp.topics[i].topic_id = req->topics[i].topic_id;
            rsp.topics[i].partitions_n = ngx_max(req->topics[i].partitions_n,
                                                 0);
            rsp.topics[i].partitions = ngx_kafka_calloc(r,
                                  rsp.topics[i].partitions_n,
                                  kf_txn_offset_commit_response_partitions_t);
            if (rsp.topics[i].partitions == NULL) {
                ngx_kafka_fail(r, "no memory");
                return;
            }

            for (j = 0; j < rsp.topics[i].partitions_n; j++) {
                rsp.topics[i].partitions[j].partition_index =
                                  req->topics[i].partitions[j].partition_index;
                rsp.topics[i].partitions[j].error_code = error;
            }
        }
    }

    for (i = 0; i < rsp.topics_n; i++) {
        for (j = 0; j < rsp.topics[i].partitions_n; j++) {
            ngx_kafka_note(r, rsp.topics[i].partitions[j].error_code,
                           rsp.topics[i].name);
        }
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_describe_transactions(ngx_kafka_request_t *r)
{
    kc_rc_t                               rc;
    kc_call_t                             call;
    kf_describe_transactions_request_t   *req = r->body;
    kf_describe_transactions_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_transactions)
        != NGX_OK)
    {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_describe_transactions(&r->broker->kc, &call, req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        (void) ngx_kafka_call_error(r, rc);
        ngx_kafka_fail(r, "transactions cannot be described");
        return;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


void
ngx_kafka_list_transactions(ngx_kafka_request_t *r)
{
    kc_rc_t                           rc;
    kc_call_t                         call;
    kf_list_transactions_request_t   *req = r->body;
    kf_list_transactions_response_t   rsp;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_list_transactions)
        != NGX_OK)
    {
        return;
    }

    ngx_memzero(&rsp, sizeof(rsp));

    rc = kc_list_transactions(&r->broker->kc, &call, r->header.api_version,
                              req, &rsp);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != KC_OK) {
        ngx_memzero(&rsp, sizeof(rsp));
        rsp.error_code = ngx_kafka_call_error(r, rc);
    }

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer_when(r, &rsp, call.wait);
}
