/*
 * Participants of transactions: AddPartitionsToTxn, AddOffsetsToTxn, what a
 * Produce asks, and the reconciliation after a recovery.
 *
 * A partition takes part when the record that says so is appended; then its
 * control block is told (txn_open), under the same lock.
 */

#include <stdlib.h>

#include "kc_txn_int.h"

typedef kf_add_partitions_to_txn_request_topics_t          kc_add_topic_t;
typedef kf_add_partitions_to_txn_response_topic_results_t  kc_added_topic_t;
typedef kf_add_partitions_to_txn_response_results_by_partition_t  kc_added_t;

_Static_assert(sizeof(kc_add_topic_t)
               == sizeof(kf_add_partitions_to_txn_request_v3_and_below_topics_t)
               && sizeof(kc_added_topic_t)
                  == sizeof(*((kf_add_partitions_to_txn_response_t *) NULL)
                                              ->results_by_topic_v3_and_below),
               "topics of both forms");


/* The topics of one transaction, of either form. */
typedef struct {
    kc_txn_place_t  *places;
    uint32_t         n;
    bool             unknown;           /* one that does not exist */
} kc_places_t;


int16_t
kc_txn_check(kc_t *kc, kc_call_t *call, kf_str_t id, int64_t pid,
    int16_t epoch, kc_txn_t **out)
{
    kc_txn_t  *t;

    *out = NULL;

    if (id.len == 0) {
        return KF_ERR_INVALID_REQUEST;
    }

    t = kc_txn_find(kc, id);
    call->wait = t ? t->changed : kc->state->txns.changed;

    if (t == NULL || t->pid != pid) {
        return KF_ERR_INVALID_PRODUCER_ID_MAPPING;
    }

    if (t->epoch != epoch) {
        kc->state->txns.fenced++;
        return KF_ERR_PRODUCER_FENCED;
    }

    if (kc_txn_preparing(t)) {
        return KF_ERR_CONCURRENT_TRANSACTIONS;
    }

    *out = t;

    return KF_ERR_NONE;
}


/* Fills the record's topics from sorted places that are not in yet. */
static bool
kc_txn_add_topics(kc_call_t *call, const kc_txn_t *t,
    const kc_txn_place_t *places, uint32_t n, kf_transaction_add_record_t *r)
{
    int32_t                             *p;
    uint32_t                             i;
    kf_transaction_add_record_topics_t  *rt = NULL;

    if (n == 0) {
        return true;
    }

    r->topics = kf_arena_array(call->arena, n, sizeof(*rt));
    p = kf_arena_array(call->arena, n, sizeof(*p));

    if (r->topics == NULL || p == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {

        if ((i && kc_txn_place_cmp(&places[i - 1], &places[i]) == 0)
            || kc_txn_has(t, &places[i]))
        {
            continue;
        }

        if (rt == NULL || !kf_uuid_eq(rt->topic_id, places[i].topic_id)) {
            rt = &r->topics[r->topics_n++];
            rt->topic_id = places[i].topic_id;
            rt->partitions = p;
        }

        *p++ = places[i].partition;
        rt->partitions_n++;
    }

    return true;
}


kc_rc_t
kc_txn_put_add(kc_t *kc, kc_call_t *call, const kc_txn_t *t, int version,
    kc_txn_place_t *places, uint32_t n, kf_str_t group, bool *put)
{
    kf_transaction_add_record_t  r;

    if (n) {
        qsort(places, n, sizeof(kc_txn_place_t), kc_txn_place_cmp);
    }

    memset(&r, 0, sizeof(r));
    r.transactional_id = t->by_id.key;
    r.producer_id = t->pid;
    r.producer_epoch = t->epoch;
    r.client_version = (int8_t) version;
    r.update_timestamp = call->now.wall_ms;

    if (!kc_txn_add_topics(call, t, places, n, &r)) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    if (group.data && kc_txn_group(t, group) == NULL) {
        r.groups = &group;
        r.groups_n = 1;
    }

    *put = r.topics_n || r.groups_n || t->state != KC_TXN_ONGOING;

    return *put ? kc_put(kc, KF_TRANSACTION_ADD_RECORD, &r) : KC_OK;
}


/* Tells the partitions. */
static void
kc_txn_tell(kc_t *kc, const kc_txn_t *t, const kc_txn_place_t *places,
    uint32_t n)
{
    uint32_t           i;
    const kc_topic_t  *topic;

    for (i = 0; kc->io.txn_open && i < n; i++) {
        topic = kc_topic_by_id(kc, places[i].topic_id);

        if (topic) {
            kc->io.txn_open(kc->io.ctx, topic, places[i].partition, t->pid,
                            t->epoch, t->version, t->open->began);
        }
    }
}


/* Adds, as one decision.  call->wait is that of the check, or later. */
static kc_rc_t
kc_txn_add_all(kc_t *kc, kc_call_t *call, kc_txn_t *t, int version,
    kc_txn_place_t *places, uint32_t n, kf_str_t group)
{
    bool     put;
    kc_rc_t  rc;

    kc_begin_large(kc, call->now);
    rc = kc_txn_put_add(kc, call, t, version, places, n, group, &put);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    rc = kc_commit(kc, &call->wait);

    if (rc == KC_OK) {
        kc_txn_tell(kc, t, places, n);
    }

    return rc;
}


static int16_t
kc_older_fenced(int16_t error, bool older)
{
    return older && error == KF_ERR_PRODUCER_FENCED
           ? KF_ERR_INVALID_PRODUCER_EPOCH : error;
}


/* --- AddPartitionsToTxn -------------------------------------------------- */

/* Resolves names; results get the request's shape, and what is unknown. */
static bool
kc_add_resolve(kc_t *kc, kc_call_t *call, const kc_add_topic_t *in, int32_t n,
    kc_added_topic_t **results, kc_places_t *p)
{
    size_t             all = 0;
    int32_t            i, j;
    kc_added_t        *op;
    const kc_topic_t  *t;

    memset(p, 0, sizeof(kc_places_t));
    *results = NULL;

    if (n <= 0) {
        return true;
    }

    for (i = 0; i < n; i++) {
        all += (size_t) in[i].partitions_n;
    }

    *results = kf_arena_array(call->arena, (size_t) n,
                              sizeof(kc_added_topic_t));
    p->places = kf_arena_array(call->arena, all + 1, sizeof(kc_txn_place_t));

    if (*results == NULL || p->places == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {
        (*results)[i].name = in[i].name;

        if (in[i].partitions_n == 0) {
            continue;
        }

        op = kf_arena_array(call->arena, (size_t) in[i].partitions_n,
                            sizeof(kc_added_t));
        if (op == NULL) {
            return false;
        }

        (*results)[i].results_by_partition = op;
        (*results)[i].results_by_partition_n = in[i].partitions_n;
        t = kc_topic_by_name(kc, in[i].name);

        for (j = 0; j < in[i].partitions_n; j++) {
            op[j].partition_index = in[i].partitions[j];

            if (t && t->internal) {     /* no client may write to them */
                op[j].partition_error_code = KF_ERR_TOPIC_AUTHORIZATION_FAILED;
                p->unknown = true;
                continue;
            }

            if (t == NULL || in[i].partitions[j] < 0
                || in[i].partitions[j] >= t->partition_count)
            {
                op[j].partition_error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
                p->unknown = true;
                continue;
            }

            p->places[p->n].topic_id = t->id;
            p->places[p->n++].partition = in[i].partitions[j];
        }
    }

    return true;
}


/* The same error for all that have none. */
static void
kc_add_answer(kc_added_topic_t *results, int32_t n, int16_t error)
{
    int32_t  i, j;

    for (i = 0; i < n; i++) {
        for (j = 0; j < results[i].results_by_partition_n; j++) {
            if (results[i].results_by_partition[j].partition_error_code == 0) {
                results[i].results_by_partition[j].partition_error_code =
                                                                        error;
            }
        }
    }
}


/* What is not part of the transaction. */
static void
kc_add_verify(kc_t *kc, const kc_txn_t *t, kc_added_topic_t *results,
    int32_t n)
{
    int32_t            i, j;
    kc_added_t        *op;
    kc_txn_place_t     place;
    const kc_topic_t  *topic;

    for (i = 0; i < n; i++) {
        topic = kc_topic_by_name(kc, results[i].name);

        for (j = 0; j < results[i].results_by_partition_n; j++) {
            op = &results[i].results_by_partition[j];
            place.topic_id = topic->id;
            place.partition = op->partition_index;

            if (kc_txn_has(t, &place)) {
                kc_txn_tell(kc, t, &place, 1);

            } else {
                op->partition_error_code = KF_ERR_TRANSACTION_ABORTABLE;
            }
        }
    }
}


/* One transaction of a request. */
static kc_rc_t
kc_add_one(kc_t *kc, kc_call_t *call, int16_t version, kf_str_t id,
    int64_t pid, int16_t epoch, bool verify, const kc_add_topic_t *topics,
    int32_t n, kc_added_topic_t **results)
{
    int16_t       error;
    kc_rc_t       rc;
    kc_txn_t     *t;
    kc_places_t   p;

    if (!kc_add_resolve(kc, call, topics, n, results, &p)) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    call->wait = kc_topics_changed(kc);

    if (p.unknown) {
        kc_add_answer(*results, n, KF_ERR_OPERATION_NOT_ATTEMPTED);
        return KC_OK;
    }

    error = kc_txn_check(kc, call, id, pid, epoch, &t);

    if (error) {
        kc_add_answer(*results, n, kc_older_fenced(error, version < 2));
        return KC_OK;
    }

    if (verify) {
        kc_add_verify(kc, t, *results, n);
        return KC_OK;
    }

    /* the batched form is another broker's, of transaction.version 2 */
    rc = kc_txn_add_all(kc, call, t, version < 4 ? 1 : 2, p.places, p.n,
                        kf_null_str);

    if (rc == KC_TOO_LARGE) {
        kc_add_answer(*results, n, KF_ERR_INVALID_REQUEST);
        rc = KC_OK;
    }

    return rc;
}


kc_rc_t
kc_add_partitions_to_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_add_partitions_to_txn_request_t *req,
    kf_add_partitions_to_txn_response_t *rsp)
{
    int32_t   i;
    int64_t   wait = 0;
    kc_rc_t   rc = KC_OK;

    const kf_add_partitions_to_txn_request_transactions_t       *in;
    kf_add_partitions_to_txn_response_results_by_transaction_t  *out;

    memset(rsp, 0, sizeof(*rsp));
    call->wait = 0;

    if (version < 4) {
        rsp->results_by_topic_v3_and_below_n = req->v3_and_below_topics_n;

        return kc_add_one(kc, call, version, req->v3_and_below_transactional_id,
                          req->v3_and_below_producer_id,
                          req->v3_and_below_producer_epoch, false,
                          (const void *) req->v3_and_below_topics,
                          req->v3_and_below_topics_n,
                          (void *) &rsp->results_by_topic_v3_and_below);
    }

    if (req->transactions_n <= 0) {
        return KC_OK;
    }

    rsp->results_by_transaction = kf_arena_array(call->arena,
                                    (size_t) req->transactions_n, sizeof(*out));
    if (rsp->results_by_transaction == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->results_by_transaction_n = req->transactions_n;

    for (i = 0; i < req->transactions_n && rc == KC_OK; i++) {
        in = &req->transactions[i];
        out = &rsp->results_by_transaction[i];
        out->transactional_id = in->transactional_id;
        out->topic_results_n = in->topics_n;

        rc = kc_add_one(kc, call, version, in->transactional_id,
                        in->producer_id, in->producer_epoch, in->verify_only,
                        in->topics, in->topics_n, &out->topic_results);

        if (call->wait > wait) {
            wait = call->wait;
        }
    }

    call->wait = wait;

    return rc;
}


/* --- AddOffsetsToTxn ----------------------------------------------------- */

kc_rc_t
kc_add_offsets_to_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_add_offsets_to_txn_request_t *req,
    kf_add_offsets_to_txn_response_t *rsp)
{
    kc_rc_t    rc;
    kc_txn_t  *t;

    memset(rsp, 0, sizeof(*rsp));
    call->wait = 0;

    rsp->error_code = kc_txn_check(kc, call, req->transactional_id,
                                   req->producer_id, req->producer_epoch, &t);

    if (rsp->error_code == KF_ERR_NONE
        && req->group_id.len > KC_GROUP_ID_MAX)
    {
        rsp->error_code = KF_ERR_INVALID_GROUP_ID;
    }

    if (rsp->error_code) {
        rsp->error_code = kc_older_fenced(rsp->error_code, version < 2);
        return KC_OK;
    }

    rc = kc_txn_add_all(kc, call, t, 1, NULL, 0, req->group_id);

    return rc;
}


/* --- what a Produce asks ------------------------------------------------- */

static kc_txn_place_t *
kc_parts_places(kc_t *kc, kc_call_t *call, kc_txn_part_t *parts, uint32_t n,
    uint32_t *known)
{
    uint32_t           i;
    kc_txn_place_t    *places;
    const kc_topic_t  *topic;

    *known = 0;
    places = kf_arena_array(call->arena, (size_t) n + 1, sizeof(*places));

    for (i = 0; places && i < n; i++) {
        topic = kc_topic_by_id(kc, parts[i].topic_id);
        parts[i].error = KF_ERR_NONE;

        if (topic == NULL || parts[i].partition < 0
            || parts[i].partition >= topic->partition_count)
        {
            parts[i].error = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            continue;
        }

        places[*known].topic_id = topic->id;
        places[(*known)++].partition = parts[i].partition;
    }

    return places;
}


static void
kc_parts_answer(kc_txn_part_t *parts, uint32_t n, int16_t error)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (parts[i].error == KF_ERR_NONE) {
            parts[i].error = error;
        }
    }
}


kc_rc_t
kc_txn_add(kc_t *kc, kc_call_t *call, kf_str_t transactional_id,
    int64_t producer_id, int16_t epoch, kc_txn_part_t *parts, uint32_t n)
{
    int16_t          error;
    kc_rc_t          rc;
    uint32_t         known;
    kc_txn_t        *t;
    kc_txn_place_t  *places = kc_parts_places(kc, call, parts, n, &known);

    if (places == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    call->wait = 0;

    if (known == 0) {
        return KC_OK;
    }

    error = kc_txn_check(kc, call, transactional_id, producer_id, epoch, &t);

    if (error) {
        kc_parts_answer(parts, n, kc_older_fenced(error, true));
        return KC_OK;
    }

    rc = kc_txn_add_all(kc, call, t, 2, places, known, kf_null_str);

    if (rc == KC_TOO_LARGE) {
        kc_parts_answer(parts, n, KF_ERR_INVALID_REQUEST);
        rc = KC_OK;
    }

    return rc;
}


/* What clients of that version can make something of. */
static int16_t
kc_verify_error(int16_t error, int16_t version)
{
    switch (error) {

    case KF_ERR_PRODUCER_FENCED:
        return KF_ERR_INVALID_PRODUCER_EPOCH;

    case KF_ERR_CONCURRENT_TRANSACTIONS:
        /* retried, and without new metadata */
        return KF_ERR_NOT_ENOUGH_REPLICAS;

    case KF_ERR_TRANSACTION_ABORTABLE:
        return version >= 11 ? error : KF_ERR_INVALID_TXN_STATE;

    default:
        return error;
    }
}


kc_rc_t
kc_txn_verify(kc_t *kc, kc_call_t *call, int16_t version,
    kf_str_t transactional_id, int64_t producer_id, int16_t epoch,
    kc_txn_part_t *parts, uint32_t n)
{
    int16_t          error;
    uint32_t         i;
    kc_txn_t        *t;
    kc_txn_place_t   place;

    call->wait = 0;
    error = kc_txn_check(kc, call, transactional_id, producer_id, epoch, &t);

    for (i = 0; i < n; i++) {
        place.topic_id = parts[i].topic_id;
        place.partition = parts[i].partition;
        parts[i].error = kc_verify_error(error, version);

        if (error == KF_ERR_NONE && kc_txn_has(t, &place)) {
            kc_txn_tell(kc, t, &place, 1);

        } else if (error == KF_ERR_NONE) {
            parts[i].error = kc_verify_error(KF_ERR_TRANSACTION_ABORTABLE,
                                             version);
        }
    }

    return KC_OK;
}


/* --- after a recovery ---------------------------------------------------- */

kc_rc_t
kc_txn_reconcile(kc_t *kc, kc_call_t *call, kf_uuid_t topic_id,
    int32_t partition, int64_t producer_id, int16_t epoch, bool *keep)
{
    kc_rc_t          rc;
    kc_txn_t        *t = kc_txn_by_pid(kc, producer_id);
    kc_txn_place_t   place = { topic_id, partition };

    call->wait = t ? t->changed : kc->state->txns.changed;
    *keep = false;

    if (t == NULL || t->open->data_epoch != epoch) {
        return KC_OK;
    }

    /* A decided transaction has all its participants in the journal. */
    if (kc_txn_preparing(t) || kc_txn_has(t, &place)) {
        *keep = kc_txn_has(t, &place);

        if (*keep && !kc_txn_preparing(t)) {
            kc_txn_tell(kc, t, &place, 1);
        }

        return KC_OK;
    }

    /*
     * Data that reached the disk before the record that adds its partition: it
     * was not acknowledged, and may be committed by its producer, or not.
     */
    rc = kc_txn_add_all(kc, call, t, t->version, &place, 1, kf_null_str);
    *keep = rc == KC_OK;

    return rc;
}


static int
kc_seen_cmp(const void *one, const void *two)
{
    const kc_txn_seen_t  *a = one, *b = two;

    return (a->producer_id > b->producer_id)
           - (a->producer_id < b->producer_id);
}


void
kc_txn_seen(kc_t *kc, const kc_txn_seen_t *seen, size_t n)
{
    kc_txn_t       *t;
    kc_txn_seen_t   key = { 0, 0 }, *s;

    for (t = kc_txn_next(kc, kf_null_str); n && t; t = kc_txn_next(kc,
                                                               t->by_id.key))
    {
        key.producer_id = t->pid;
        s = bsearch(&key, seen, n, sizeof(kc_txn_seen_t), kc_seen_cmp);
        t->renew = s && s->epoch > t->epoch;
    }
}
