/*
 * The outcome of transactions: EndTxn, timeouts, what is left to be driven, and
 * the expiry of transactional ids.
 *
 * With version 5 of EndTxn (transaction.version 2) the epoch goes up with each
 * transaction: its markers already have the next one.  So a producer's epoch
 * tells a repetition (one below the epoch in force) from the end of the next
 * transaction, which need not have a participant: an abort of nothing is then a
 * transaction, too.  Up to version 4 the epoch stays, and the state alone tells
 * a repetition.  Transactions that are aborted for their producer (a timeout,
 * an InitProducerId) end as in version 5.
 */

#include "kc_config_def.h"
#include "kc_txn_int.h"


#define KC_EXPIRE_IDS  16               /* of one record's worth of budget */


/* --- decisions ----------------------------------------------------------- */

/* The partitions that still exist, with their names and slots. */
static bool
kc_work_parts(kc_t *kc, kc_call_t *call, const kc_txn_t *t,
    kc_txn_work_t *work)
{
    bool               ok = true;
    uint32_t           i;
    kf_str_t           name = kf_null_str;
    const kc_topic_t  *topic = NULL;

    const kc_txn_open_t   *o = t->open;
    const kc_txn_place_t  *p;

    work->parts = NULL;
    work->parts_n = 0;

    if (o == NULL || o->parts_n == 0) {
        return true;
    }

    work->parts = kf_arena_array(call->arena, o->parts_n,
                                 sizeof(kc_txn_part_t));
    if (work->parts == NULL) {
        return false;
    }

    for (i = 0; i < o->parts_n && ok; i++) {
        p = &o->parts[i];

        if (i == 0 || !kf_uuid_eq(p->topic_id, o->parts[i - 1].topic_id)) {
            topic = kc_topic_by_id(kc, p->topic_id);

            if (topic) {
                name = kf_arena_str(call->arena, topic->name, &ok);
            }
        }

        if (topic && p->partition < topic->partition_count) {
            work->parts[work->parts_n++] = (kc_txn_part_t) {
                .topic_id = p->topic_id,
                .topic = name,
                .partition = p->partition,
                .slot = topic->slots[p->partition]
            };
        }
    }

    return ok;
}


static bool
kc_work_fill(kc_t *kc, kc_call_t *call, const kc_txn_t *t,
    kc_txn_work_t *work)
{
    bool  ok = true;

    work->step = KC_TXN_DRIVE;
    work->transactional_id = kf_arena_str(call->arena, t->by_id.key, &ok);
    work->producer_id = t->pid;
    work->epoch = t->epoch;
    work->commit = t->state == KC_TXN_PREPARE_COMMIT;
    work->prepared = t->open->prepared;
    work->prepared_ms = t->open->prepared_ms;
    work->serial = kc_txn_serial(t);

    return ok && kc_work_parts(kc, call, t, work);
}


/* Is there a partition to be marked? */
static bool
kc_txn_marked(kc_t *kc, const kc_txn_t *t)
{
    uint32_t           i;
    const kc_topic_t  *topic;

    for (i = 0; t->open && i < t->open->parts_n; i++) {
        topic = kc_topic_by_id(kc, t->open->parts[i].topic_id);

        if (topic && t->open->parts[i].partition < topic->partition_count) {
            return true;
        }
    }

    return false;
}


static kc_rc_t
kc_txn_put_complete(kc_t *kc, kc_call_t *call, kf_str_t id, int64_t pid,
    int16_t epoch)
{
    kf_transaction_complete_record_t  r;

    r.transactional_id = id;
    r.producer_id = pid;
    r.marker_epoch = epoch;
    r.update_timestamp = call->now.wall_ms;

    return kc_put(kc, KF_TRANSACTION_COMPLETE_RECORD, &r);
}


kc_rc_t
kc_txn_decide(kc_t *kc, kc_call_t *call, kc_txn_t *t, bool commit, bool bump,
    int64_t next_pid, int version, kc_txn_work_t *work)
{
    bool                          marked = kc_txn_marked(kc, t);
    kc_rc_t                       rc;
    kc_txns_t                    *txns = &kc->state->txns;
    kf_transaction_end_record_t   r;

    r.transactional_id = t->by_id.key;
    r.commit = commit;
    r.producer_id = t->pid;
    r.data_epoch = t->epoch;
    r.marker_epoch = bump && t->epoch < INT16_MAX ? t->epoch + 1 : t->epoch;
    r.next_producer_id = next_pid;
    r.client_version = (int8_t) version;
    r.update_timestamp = call->now.wall_ms;
    r.partitions = t->open ? (int32_t) t->open->parts_n : 0;
    r.groups = t->open ? (int32_t) t->open->groups.count : 0;

    kc_begin(kc, call->now);
    rc = kc_put(kc, KF_TRANSACTION_END_RECORD, &r);

    if (rc == KC_OK && !marked) {
        rc = kc_txn_put_complete(kc, call, t->by_id.key, t->pid,
                                 r.marker_epoch);
    }

    /* what the caller needs is there before anything is decided */
    if (rc == KC_OK && work && marked && !kc_work_parts(kc, call, t, work)) {
        rc = kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    rc = kc_commit(kc, &call->wait);

    if (rc != KC_OK) {
        return rc;
    }

    if (commit) {
        txns->committed++;

    } else {
        txns->aborted++;
    }

    if (t->open) {
        t->open->prepared_ms = call->now.mono_ms;
    }

    return KC_OK;
}


/* --- EndTxn -------------------------------------------------------------- */

typedef struct {
    int16_t  error;
    bool     decide;                    /* else it is a repetition, or wrong */
} kc_verdict_t;

#define KC_VERDICT(error)  ((kc_verdict_t) { (error), false })
#define KC_DECIDE          ((kc_verdict_t) { KF_ERR_NONE, true })


/* By the state alone: versions up to 4. */
static kc_verdict_t
kc_end_classic(const kc_txn_t *t, const kf_end_txn_request_t *req)
{
    bool  commit = req->committed;

    if (req->producer_epoch != t->epoch) {
        return KC_VERDICT(KF_ERR_PRODUCER_FENCED);
    }

    switch (t->state) {

    case KC_TXN_ONGOING:
        return KC_DECIDE;

    case KC_TXN_PREPARE_COMMIT:
    case KC_TXN_PREPARE_ABORT:
        return KC_VERDICT(commit == (t->state == KC_TXN_PREPARE_COMMIT)
                          ? KF_ERR_CONCURRENT_TRANSACTIONS
                          : KF_ERR_INVALID_TXN_STATE);

    case KC_TXN_COMPLETE_COMMIT:
    case KC_TXN_COMPLETE_ABORT:
        return KC_VERDICT(commit == (t->state == KC_TXN_COMPLETE_COMMIT)
                          ? KF_ERR_NONE : KF_ERR_INVALID_TXN_STATE);

    default:
        return KC_VERDICT(KF_ERR_INVALID_TXN_STATE);
    }
}


/* The request that took the last epoch of a producer id, once more? */
static bool
kc_end_rotated(const kc_txn_t *t, const kf_end_txn_request_t *req)
{
    return t->prev_pid >= 0 && t->prev_pid == req->producer_id
           && req->producer_epoch >= KC_EPOCH_EXHAUSTED && t->epoch == 0;
}


/* By epoch and state: version 5. */
static kc_verdict_t
kc_end_bumping(const kc_txn_t *t, const kf_end_txn_request_t *req)
{
    bool  valid, same, commit = req->committed;
    bool  current = req->producer_epoch == t->epoch;
    bool  retry = req->producer_epoch == t->epoch - 1;

    if (kc_end_rotated(t, req)) {
        current = false;
        retry = true;
    }

    switch (t->state) {

    case KC_TXN_EMPTY:
    case KC_TXN_ONGOING:
        valid = current;
        break;

    case KC_TXN_PREPARE_COMMIT:
    case KC_TXN_PREPARE_ABORT:
        valid = retry;
        break;

    default:
        valid = retry || current;
    }

    if (!valid) {
        return KC_VERDICT(KF_ERR_PRODUCER_FENCED);
    }

    same = commit == (t->state == KC_TXN_PREPARE_COMMIT
                      || t->state == KC_TXN_COMPLETE_COMMIT);

    switch (t->state) {

    case KC_TXN_ONGOING:
        return KC_DECIDE;

    case KC_TXN_PREPARE_COMMIT:
    case KC_TXN_PREPARE_ABORT:
        return KC_VERDICT(same ? KF_ERR_CONCURRENT_TRANSACTIONS
                               : KF_ERR_INVALID_TXN_STATE);

    case KC_TXN_COMPLETE_COMMIT:
    case KC_TXN_COMPLETE_ABORT:
        if (retry) {
            return KC_VERDICT(same ? KF_ERR_NONE : KF_ERR_INVALID_TXN_STATE);
        }

        break;
    }

    /* the end of a transaction without participants */
    return commit ? KC_VERDICT(KF_ERR_INVALID_TXN_STATE) : KC_DECIDE;
}


static kc_verdict_t
kc_end_verdict(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_end_txn_request_t *req, kc_txn_t **out)
{
    kc_txn_t      *t;
    kc_verdict_t   v;

    *out = NULL;

    if (req->transactional_id.len == 0) {
        return KC_VERDICT(KF_ERR_INVALID_REQUEST);
    }

    t = kc_txn_find(kc, req->transactional_id);
    *out = t;
    call->wait = t ? t->changed : kc->state->txns.changed;

    if (t == NULL || (t->pid != req->producer_id
                      && !(version >= 5 && kc_end_rotated(t, req))))
    {
        return KC_VERDICT(KF_ERR_INVALID_PRODUCER_ID_MAPPING);
    }

    v = version >= 5 ? kc_end_bumping(t, req) : kc_end_classic(t, req);

    if (v.error == KF_ERR_PRODUCER_FENCED) {
        kc->state->txns.fenced++;

        if (version < 2) {
            v.error = KF_ERR_INVALID_PRODUCER_EPOCH;
        }
    }

    return v;
}


/* Has what the caller flushed become less than what takes part? */
static bool
kc_end_unflushed(kc_t *kc, const kc_txn_t *t, const kc_txn_work_t *work)
{
    return kc_txn_marked(kc, t)
           && (work->step != KC_TXN_FLUSH || work->began != t->open->began
               || work->seen != t->open->parts_n);
}


kc_rc_t
kc_end_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_end_txn_request_t *req, kc_txn_work_t *work,
    kf_end_txn_response_t *rsp)
{
    int64_t        next = -1;
    kc_rc_t        rc;
    kc_txn_t      *t;
    kc_verdict_t   v;

    kf_init_end_txn_response(rsp);
    rsp->producer_id = -1;
    rsp->producer_epoch = -1;
    call->wait = 0;

    v = kc_end_verdict(kc, call, version, req, &t);
    rsp->error_code = v.error;

    if (!v.decide) {
        work->step = KC_TXN_DONE;

        if (v.error == KF_ERR_NONE) {
            rsp->producer_id = t->pid;
            rsp->producer_epoch = t->epoch;
        }

        return KC_OK;
    }

    if (req->committed && kc_end_unflushed(kc, t, work)) {

        if (!kc_work_parts(kc, call, t, work)) {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }

        work->step = KC_TXN_FLUSH;
        work->began = t->open->began;
        work->seen = t->open->parts_n;

        return KC_OK;
    }

    if (version >= 5 && t->epoch >= KC_EPOCH_EXHAUSTED) {
        rc = kc_producer_id_new(kc, call->now, &next);
        if (rc != KC_OK) {
            return rc;
        }
    }

    rc = kc_txn_decide(kc, call, t, req->committed, version >= 5, next,
                       version >= 5 ? 2 : 1, work);
    if (rc != KC_OK) {
        return rc;
    }

    rsp->producer_id = next >= 0 ? next : t->pid;
    rsp->producer_epoch = next >= 0 ? 0 : t->epoch;

    if (t->open == NULL) {
        work->step = KC_TXN_DONE;
        return KC_OK;
    }

    work->step = KC_TXN_DRIVE;
    work->transactional_id = req->transactional_id;
    work->producer_id = t->pid;
    work->epoch = t->epoch;
    work->commit = req->committed;
    work->prepared = t->open->prepared;
    work->prepared_ms = t->open->prepared_ms;
    work->serial = kc_txn_serial(t);

    return KC_OK;
}


kc_rc_t
kc_txn_complete(kc_t *kc, kc_call_t *call, kf_str_t transactional_id,
    int64_t producer_id, int16_t epoch, int64_t prepared)
{
    kc_rc_t          rc;
    const kc_txn_t  *t = kc_txn_find(kc, transactional_id);

    call->wait = t ? t->changed : kc->state->txns.changed;

    /* one that began after that decision is another one */
    if (t == NULL || !kc_txn_preparing(t) || t->pid != producer_id
        || t->epoch != epoch || t->open->began > prepared)
    {
        return KC_OK;
    }

    kc_begin(kc, call->now);
    rc = kc_txn_put_complete(kc, call, transactional_id, producer_id, epoch);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}


kc_rc_t
kc_txn_next_prepared(kc_t *kc, kc_call_t *call, uint64_t after,
    kc_txn_work_t *work)
{
    int               i;
    uint8_t           key[16];
    const kc_txn_t   *t;

    memset(work, 0, sizeof(kc_txn_work_t));
    memset(key, 0, sizeof(key));
    call->wait = 0;

    for (i = 0; i < 8; i++) {
        key[8 + i] = (uint8_t) (after >> (56 - 8 * i));
    }

    t = kc_map_next(&kc->state->txns.prepared,
                    after ? (kf_str_t) { key, sizeof(key) } : kf_null_str);

    if (t && !kc_work_fill(kc, call, t, work)) {
        memset(work, 0, sizeof(kc_txn_work_t));
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    return KC_OK;
}


bool
kc_txn_prepared_take(kc_t *kc)
{
    bool  prepared = kc->txn_prepared;

    kc->txn_prepared = false;

    return prepared;
}


/* --- timers -------------------------------------------------------------- */

/* One whose time is up; *more: there may be another. */
static kc_rc_t
kc_txn_reap(kc_t *kc, kc_call_t *call, bool *more)
{
    kc_rc_t    rc;
    kc_txn_t  *t = kc_map_next(&kc->state->txns.ongoing, kf_null_str);

    *more = t && kc_txn_time(t) < call->now.wall_ms;

    if (!*more) {
        return KC_OK;
    }

    rc = kc_txn_decide(kc, call, t, false, true, -1, t->version, NULL);

    if (rc == KC_OK) {
        kc->state->txns.timed_out++;
        kc->txn_prepared = true;
    }

    return rc;
}


/* Ids that nobody has used for long, in one decision. */
static kc_rc_t
kc_txn_expire(kc_t *kc, kc_call_t *call, uint32_t budget, bool *more)
{
    int64_t                         retention;
    kc_rc_t                         rc = KC_OK;
    kf_str_t                        after = kf_null_str;
    const kc_txn_t                 *t;
    kf_delete_transaction_record_t  r;

    retention = kc_broker_config_int(kc, call->config,
                                     KC_TRANSACTIONAL_ID_EXPIRATION_MS);
    kc_begin(kc, call->now);
    *more = false;

    while (rc == KC_OK) {
        t = kc_map_next(&kc->state->txns.idle, after);

        if (t == NULL || t->update_ms > call->now.wall_ms
            || call->now.wall_ms - t->update_ms < retention)
        {
            break;
        }

        if (budget-- == 0) {
            *more = true;
            break;
        }

        after = t->by_time.key;
        r.transactional_id = t->by_id.key;
        rc = kc_put(kc, KF_DELETE_TRANSACTION_RECORD, &r);

        if (rc == KC_TOO_LARGE) {
            *more = true;
            break;
        }
    }

    if (rc != KC_OK && rc != KC_TOO_LARGE) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}


kc_rc_t
kc_txn_tick(kc_t *kc, kc_call_t *call, uint32_t budget)
{
    bool        more = true;
    int64_t     now = call->now.mono_ms, interval;
    kc_rc_t     rc = KC_OK;
    uint32_t    n = budget;
    kc_txns_t  *txns = &kc->state->txns;

    if (txns->ongoing.count && txns->reap_at <= now) {

        while (more && rc == KC_OK && n--) {
            rc = kc_txn_reap(kc, call, &more);
        }

        if (rc != KC_OK) {
            txns->reap_at = kc_after(now, KC_RETRY_MS);
            return rc;
        }

        if (!more) {
            interval = kc_broker_config_int(kc, call->config,
                                            KC_TRANSACTION_ABORT_INTERVAL_MS);
            txns->reap_at = kc_after(now, interval);
        }
    }

    if (txns->idle.count && txns->expire_at <= now && budget) {
        rc = kc_txn_expire(kc, call, budget * KC_EXPIRE_IDS, &more);

        if (rc != KC_OK) {
            txns->expire_at = kc_after(now, KC_RETRY_MS);

        } else if (!more) {
            interval = kc_broker_config_int(kc, call->config,
                                            KC_TRANSACTION_REMOVE_INTERVAL_MS);
            txns->expire_at = kc_after(now, interval);
        }
    }

    return rc;
}


int64_t
kc_txn_next_due(const kc_t *kc)
{
    int64_t           due = KC_NEVER;
    const kc_txns_t  *txns = &kc->state->txns;

    if (txns->ongoing.count) {
        due = txns->reap_at;
    }

    if (txns->idle.count && txns->expire_at < due) {
        due = txns->expire_at;
    }

    return due;
}
