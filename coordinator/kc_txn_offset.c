/*
 * TxnOffsetCommit: offsets that are in force when their transaction is.
 *
 * Who may: the producer, by transactional id, producer id and epoch; and for
 * the group its member, as KIP-447 wants it, so that a producer whose consumer
 * has lost its partitions is refused although its epoch is right.
 */

#include <stddef.h>

#include "kc_txn_int.h"

#define KC_SAME(a, b, field)  (offsetof(a, field) == offsetof(b, field))

_Static_assert(KC_SAME(kf_txn_offset_commit_request_topics_t,
                       kf_offset_commit_request_topics_t, name)
               && KC_SAME(kf_txn_offset_commit_request_topics_t,
                          kf_offset_commit_request_topics_t, topic_id)
               && KC_SAME(kf_txn_offset_commit_request_topics_t,
                          kf_offset_commit_request_topics_t, partitions)
               && KC_SAME(kf_txn_offset_commit_request_partitions_t,
                          kf_offset_commit_request_partitions_t,
                          committed_offset)
               && KC_SAME(kf_txn_offset_commit_request_partitions_t,
                          kf_offset_commit_request_partitions_t,
                          committed_metadata)
               && sizeof(kf_txn_offset_commit_request_partitions_t)
                  == sizeof(kf_offset_commit_request_partitions_t)
               && sizeof(kf_txn_offset_commit_request_topics_t)
                  == sizeof(kf_offset_commit_request_topics_t)
               && sizeof(kf_txn_offset_commit_response_t)
                  == sizeof(kf_offset_commit_response_t)
               && sizeof(kf_txn_offset_commit_response_topics_t)
                  == sizeof(kf_offset_commit_response_topics_t)
               && sizeof(kf_txn_offset_commit_response_partitions_t)
                  == sizeof(kf_offset_commit_response_partitions_t),
               "OffsetCommit and TxnOffsetCommit name offsets alike");


/* The producer's side. */
static int16_t
kc_txn_commit_producer(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_txn_offset_commit_request_t *req, kc_txn_t **t)
{
    int16_t  error;

    error = kc_txn_check(kc, call, req->transactional_id, req->producer_id,
                         req->producer_epoch, t);

    if (error == KF_ERR_PRODUCER_FENCED) {
        return KF_ERR_INVALID_PRODUCER_EPOCH;
    }

    if (error == KF_ERR_NONE && version < 5
        && kc_txn_group(*t, req->group_id) == NULL)
    {
        return version == 4 ? KF_ERR_TRANSACTION_ABORTABLE
                            : KF_ERR_INVALID_TXN_STATE;
    }

    return error;
}


static int16_t
kc_txn_commit_may(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_txn_offset_commit_request_t *req, kc_txn_t **t)
{
    int16_t  error;

    if (req->group_id.len == 0 || req->group_id.len > KC_GROUP_ID_MAX) {
        return KF_ERR_INVALID_GROUP_ID;
    }

    error = kc_txn_commit_producer(kc, call, version, req, t);

    if (error) {
        return error;
    }

    return kc_group_check_commit(kc, req->group_id,
                                 version >= 3
                                 ? req->generation_id_or_member_epoch : -1,
                                 version >= 3 ? req->member_id : kf_str(""),
                                 version >= 3 ? req->group_instance_id
                                              : kf_null_str,
                                 version, true);
}


/* Fills the record from entries, sorted. */
static bool
kc_txn_commit_record(kc_call_t *call, const kc_commit_entry_t *e, int32_t n,
    kf_transaction_offsets_record_t *r)
{
    int32_t  i;

    kf_transaction_offsets_record_topics_t      *rt = NULL;
    kf_transaction_offsets_record_partitions_t  *rp;

    r->topics = kf_arena_array(call->arena, (size_t) n, sizeof(*rt));
    rp = kf_arena_array(call->arena, (size_t) n, sizeof(*rp));

    if (r->topics == NULL || rp == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {

        if (rt == NULL || !kf_uuid_eq(rt->topic_id, e[i].topic_id)) {
            rt = &r->topics[r->topics_n++];
            rt->topic_id = e[i].topic_id;
            rt->partitions = rp;
        }

        rp->index = e[i].p->partition_index;
        rp->offset = e[i].p->committed_offset;
        rp->leader_epoch = e[i].p->committed_leader_epoch;
        rp->commit_timestamp = call->now.wall_ms;
        rp->metadata = e[i].p->committed_metadata.data
                       ? e[i].p->committed_metadata : kf_str("");
        rp->position = -1;
        rp->superseded = false;
        rp++;
        rt->partitions_n++;
    }

    return true;
}


static kc_rc_t
kc_txn_commit_decide(kc_t *kc, kc_call_t *call, int16_t version, kc_txn_t *t,
    kc_commit_entry_t *entries, int32_t n, kf_str_t group_id)
{
    bool                             put;
    kc_rc_t                          rc;
    kf_transaction_offsets_record_t  r;

    memset(&r, 0, sizeof(r));
    r.transactional_id = t->by_id.key;
    r.group_id = group_id;

    if (!kc_txn_commit_record(call, entries, n, &r)) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    kc_begin_large(kc, call->now);
    rc = kc_txn_put_add(kc, call, t, version >= 5 ? 2 : t->version, NULL, 0,
                        group_id, &put);

    if (rc == KC_OK) {
        rc = kc_put(kc, KF_TRANSACTION_OFFSETS_RECORD, &r);
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}


kc_rc_t
kc_txn_offset_commit(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_txn_offset_commit_request_t *req,
    kf_txn_offset_commit_response_t *rsp)
{
    int16_t             error;
    int32_t             i, n = 0;
    int64_t             wait;
    size_t              all = 0;
    kc_rc_t             rc;
    kc_txn_t           *t = NULL;
    kc_group_t         *g = kc_group_find(kc, req->group_id);
    kc_commit_entry_t  *entries;

    kf_offset_commit_request_t  like;

    memset(rsp, 0, sizeof(kf_txn_offset_commit_response_t));
    call->wait = 0;

    if (req->topics_n == 0) {
        return KC_OK;
    }

    for (i = 0; i < req->topics_n; i++) {
        all += (size_t) req->topics[i].partitions_n;
    }

    rsp->topics = kf_arena_array(call->arena, (size_t) req->topics_n,
                               sizeof(kf_txn_offset_commit_response_topics_t));
    entries = kf_arena_array(call->arena, all + 1, sizeof(kc_commit_entry_t));

    if (rsp->topics == NULL || entries == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->topics_n = req->topics_n;

    error = kc_txn_commit_may(kc, call, version, req, &t);

    wait = g ? g->changed : kc_group_absent(kc);

    if (kc_topics_changed(kc) > wait) {
        wait = kc_topics_changed(kc);
    }

    if (wait > call->wait) {
        call->wait = wait;
    }

    memset(&like, 0, sizeof(like));
    like.topics = (void *) req->topics;
    like.topics_n = req->topics_n;

    if (!kc_commit_check(kc, call, version >= 6, error, &like, (void *) rsp,
                         entries, &n))
    {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    if (n == 0) {
        return KC_OK;
    }

    n = kc_commit_sort(entries, n);
    rc = kc_txn_commit_decide(kc, call, version, t, entries, n, req->group_id);

    if (rc == KC_TOO_LARGE) {
        kc_commit_too_large((void *) rsp);
        rc = KC_OK;
    }

    return rc;
}
