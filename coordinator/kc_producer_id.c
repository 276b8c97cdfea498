/*
 * Producer ids: InitProducerId of idempotent producers.
 *
 * Ids are reserved durably in blocks: a ProducerIdsRecord says that everything
 * below its number may have been given out, and ids come from that block
 * without further records.  What a recovery leaves of a block is lost, so that
 * no id is ever given twice.  An answer waits for the record of the id's block.
 */

#include "kc_txn_int.h"


kc_rc_t
kc_producer_ids_apply(kc_t *kc, const kf_producer_ids_record_t *r, int64_t end)
{
    kc_state_t  *st = kc->state;

    if (r->next_producer_id <= st->producer_id_next) {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal's producer ids go from %lld to %lld",
                       (long long) st->producer_id_next,
                       (long long) r->next_producer_id);
    }

    /* No block at hand: whoever decided this takes it, a recovery does not. */
    st->producer_id_next = r->next_producer_id;
    st->producer_ids_changed = end;
    st->block_next = r->next_producer_id;
    st->block_end = r->next_producer_id;

    return KC_OK;
}


static kc_rc_t
kc_producer_block(kc_t *kc, kc_time_t now)
{
    int64_t                   first, end;
    kc_rc_t                   rc;
    kc_state_t               *st = kc->state;
    kf_producer_ids_record_t  r;

    first = st->producer_id_next;

    if (first > INT64_MAX - KC_PID_BLOCK) {
        return kc_fail(kc, KC_NO_MEMORY, "all producer ids are used up");
    }

    r.next_producer_id = first + KC_PID_BLOCK;

    kc_begin(kc, now);

    rc = kc_put(kc, KF_PRODUCER_IDS_RECORD, &r);
    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    rc = kc_commit(kc, &end);

    if (rc == KC_OK) {
        st->block_next = first;
        st->block_end = r.next_producer_id;
    }

    return rc;
}


kc_rc_t
kc_producer_id_new(kc_t *kc, kc_time_t now, int64_t *id)
{
    kc_rc_t      rc;
    kc_state_t  *st = kc->state;

    if (st->block_next >= st->block_end) {
        rc = kc_producer_block(kc, now);
        if (rc != KC_OK) {
            return rc;
        }
    }

    *id = st->block_next++;

    return KC_OK;
}


kc_rc_t
kc_init_producer_id(kc_t *kc, kc_call_t *call,
    const kf_init_producer_id_request_t *req,
    kf_init_producer_id_response_t *rsp)
{
    kc_rc_t      rc;
    kc_state_t  *st = kc->state;

    kf_init_init_producer_id_response(rsp);

    if (!kf_str_is_null(req->transactional_id)) {
        rsp->error_code = req->transactional_id.len
                          ? KF_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                          : KF_ERR_INVALID_REQUEST;
        rsp->producer_epoch = -1;
        call->wait = 0;
        return KC_OK;
    }

    /* An id and epoch in the request are those of a transactional producer. */
    rc = kc_producer_id_new(kc, call->now, &rsp->producer_id);

    if (rc == KC_OK) {
        rsp->producer_epoch = 0;
        call->wait = st->producer_ids_changed;
    }

    return rc;
}
