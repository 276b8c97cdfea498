/*
 * InitProducerId with a transactional id (KIP-98, KIP-360): the producer's id
 * and an epoch that fences all earlier producers of the same transactional id.
 *
 * A producer that goes on after an error names the id and epoch that it has.
 * When that is the one in force it gets the next epoch; when it is the one
 * before (last_epoch), its request was a repetition, and it gets the one in
 * force; all others are fenced.  A producer that names none is a new one, and
 * nobody's repetition: last_epoch is forgotten.
 *
 * At KC_EPOCH_EXHAUSTED there is no next epoch for a producer: it gets a new
 * id, and prev_pid knows the old one for the repetition of that request.  So
 * does the next producer after one whose epochs were lost (kc_txn_seen()).
 */

#include "kc_config_def.h"
#include "kc_txn_int.h"


typedef struct {
    bool     named;                     /* the request has an id and epoch */
    int64_t  pid;
    int16_t  epoch;
} kc_expected_t;


static int16_t
kc_init_fenced(kc_t *kc, int16_t version)
{
    kc->state->txns.fenced++;

    return version >= 4 ? KF_ERR_PRODUCER_FENCED
                        : KF_ERR_INVALID_PRODUCER_EPOCH;
}


/* Is it the producer in force, or the one that was before a rotation? */
static bool
kc_init_known(const kc_txn_t *t, const kc_expected_t *e)
{
    return !e->named || e->pid == t->pid
           || (e->pid == t->prev_pid && e->epoch >= KC_EPOCH_EXHAUSTED);
}


/* The record of the next producer; KF_ERR_*. */
static kc_rc_t
kc_init_next(kc_t *kc, kc_call_t *call, const kc_txn_t *t,
    const kc_expected_t *e, kf_transaction_record_t *r, bool *fenced)
{
    *fenced = false;
    r->producer_id = t->pid;
    r->previous_producer_id = t->prev_pid;

    if ((t->epoch >= KC_EPOCH_EXHAUSTED || t->renew)
        && (!e->named || e->epoch == t->epoch))
    {
        r->previous_producer_id = t->pid;
        r->producer_epoch = 0;
        r->last_producer_epoch = e->named ? t->epoch : -1;

        return kc_producer_id_new(kc, call->now, &r->producer_id);
    }

    if (!e->named || e->epoch == t->epoch) {
        r->producer_epoch = t->epoch + 1;
        r->last_producer_epoch = e->named ? t->epoch : -1;

    } else if (e->epoch == t->last_epoch) {
        r->producer_epoch = t->epoch;
        r->last_producer_epoch = t->last_epoch;

    } else {
        *fenced = true;
    }

    return KC_OK;
}


static kc_rc_t
kc_init_write(kc_t *kc, kc_call_t *call, const kf_transaction_record_t *r)
{
    kc_rc_t  rc;

    kc_begin(kc, call->now);
    rc = kc_put(kc, KF_TRANSACTION_RECORD, r);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}


/* The transaction of the producer before is aborted; ask again. */
static kc_rc_t
kc_init_abort(kc_t *kc, kc_call_t *call, kc_txn_t *t,
    kf_init_producer_id_response_t *rsp)
{
    kc_rc_t  rc;

    rc = kc_txn_decide(kc, call, t, false, true, -1, 2, NULL);

    if (rc == KC_OK) {
        rsp->error_code = KF_ERR_CONCURRENT_TRANSACTIONS;
        kc->txn_prepared = true;
    }

    return rc;
}


static kc_rc_t
kc_init_decide(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_init_producer_id_request_t *req, const kc_expected_t *e,
    kf_init_producer_id_response_t *rsp)
{
    bool                      fenced;
    kc_rc_t                   rc;
    kc_txn_t                 *t = kc_txn_find(kc, req->transactional_id);
    kf_transaction_record_t   r;

    call->wait = t ? t->changed : kc->state->txns.changed;

    memset(&r, 0, sizeof(r));
    r.transactional_id = req->transactional_id;
    r.state = KC_TXN_EMPTY;
    r.client_version = t ? (int8_t) t->version : 1;
    r.previous_producer_id = -1;
    r.next_producer_id = -1;
    r.last_producer_epoch = -1;
    r.timeout_ms = req->transaction_timeout_ms;
    r.start_timestamp = -1;
    r.begin_offset = -1;
    r.update_timestamp = call->now.wall_ms;

    if (t == NULL) {
        rc = kc_producer_id_new(kc, call->now, &r.producer_id);

    } else if (!kc_init_known(t, e)) {
        rsp->error_code = kc_init_fenced(kc, version);
        return KC_OK;

    } else if (kc_txn_preparing(t)) {
        rsp->error_code = KF_ERR_CONCURRENT_TRANSACTIONS;
        return KC_OK;

    } else if (t->state == KC_TXN_ONGOING) {

        /* Apache Kafka lets any epoch abort it; a zombie should not. */
        if (e->named && e->epoch != t->epoch && e->epoch != t->last_epoch) {
            rsp->error_code = kc_init_fenced(kc, version);
            return KC_OK;
        }

        return kc_init_abort(kc, call, t, rsp);

    } else {
        rc = kc_init_next(kc, call, t, e, &r, &fenced);

        if (rc == KC_OK && fenced) {
            rsp->error_code = kc_init_fenced(kc, version);
            return KC_OK;
        }
    }

    if (rc == KC_OK) {
        rc = kc_init_write(kc, call, &r);
    }

    if (rc == KC_OK) {
        rsp->producer_id = r.producer_id;
        rsp->producer_epoch = r.producer_epoch;
    }

    return rc;
}


kc_rc_t
kc_txn_init(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_init_producer_id_request_t *req,
    kf_init_producer_id_response_t *rsp)
{
    int64_t        max;
    kc_rc_t        rc;
    kc_expected_t  e;

    kf_init_init_producer_id_response(rsp);
    rsp->producer_id = -1;
    rsp->producer_epoch = -1;
    call->wait = 0;

    e.pid = req->producer_id;
    e.epoch = req->producer_epoch;
    e.named = version >= 3 && (e.pid != -1 || e.epoch != -1);

    /* one of the two says nothing, also where neither is looked at */

    if (e.named && (e.pid == -1 || e.epoch == -1)) {
        rsp->error_code = KF_ERR_INVALID_REQUEST;
        return KC_OK;
    }

    if (kf_str_is_null(req->transactional_id)) {
        return kc_init_producer_id(kc, call, req, rsp);
    }

    max = kc_broker_config_int(kc, call->config, KC_TRANSACTION_MAX_TIMEOUT_MS);

    if (req->transactional_id.len == 0
        || req->transactional_id.len > KC_TXN_ID_MAX)
    {
        rsp->error_code = KF_ERR_INVALID_REQUEST;
        return KC_OK;
    }

    if (req->transaction_timeout_ms <= 0 || req->transaction_timeout_ms > max)
    {
        rsp->error_code = KF_ERR_INVALID_TRANSACTION_TIMEOUT;
        return KC_OK;
    }

    rc = kc_init_decide(kc, call, version, req, &e, rsp);

    if (rc == KC_TOO_LARGE) {
        rsp->error_code = KF_ERR_INVALID_REQUEST;
        rc = KC_OK;
    }

    return rc;
}
