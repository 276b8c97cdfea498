/*
 * Transactions of a partition: who may write in one, the markers that end it,
 * the list of those that are open.
 *
 * One producer here, by (marked epoch, open transaction):
 *
 *   nothing ──kl_txn_verify──> marked ──first batch──> marked and open
 *      ^                         │                          │
 *      ├─────────marker──────────┴──────────marker──────────┤
 *      │                                          a restart, a repair
 *      └────────────────marker──────────────────────── open
 *
 * A marker that meets nothing writes nothing.  What a batch needs is in
 * kl_producer_check().
 */

#include "kl_internal.h"


kl_rc_t
kl_txn_verify(kl_log_t *log, int64_t producer_id, int16_t epoch,
    bool from_zero, int64_t number, int64_t now_ms)
{
    kl_rc_t         rc;
    kl_pub_t        pub;
    kl_part_t      *p = log->part;
    kl_producer_t  *e;

    if (producer_id < 0 || epoch < 0) {
        return KL_REFUSED;
    }

    /* under the coordinator's lock nothing waits for a recovery */
    kl_pub_load(p, &pub);

    rc = kl_state_rc(log, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    kl_part_lock(p);
    kl_pub_load(p, &pub);

    rc = kl_state_rc(log, &pub);

    if (rc == KL_OK && p->needs_repair) {
        rc = kl_repair(log, &pub);
    }

    if (rc != KL_OK) {
        goto unlock;
    }

    e = kl_producer_find(log, producer_id);

    if (e == NULL) {
        e = kl_producer_reserve(log, producer_id);

        if (e == NULL) {
            rc = KL_NO_MEMORY;
            goto unlock;
        }

        kl_producer_link_in(log, e);
        (void) kl_fault("txn.verify");
        atomic_store_explicit(&p->producers_dirty, 0, memory_order_release);
    }

    if (e->epoch > epoch || e->verified > epoch) {
        rc = KL_REFUSED;
        goto unlock;
    }

    e->from_zero = from_zero;
    e->verified = epoch;
    e->txn_number = number;
    e->last_ms = now_ms;

unlock:

    kl_part_unlock(p);

    return rc;
}


/* There is something for the marker to end. */
static bool
kl_marker_is_due(const kl_producer_t *e, const kl_marker_t *m)
{
    if (e == NULL || (m->decided && e->txn_number > m->decided)) {
        return false;                   /* that one has been ended before */
    }

    return e->epoch <= m->producer_epoch
           && (e->txn_first >= 0
               || (e->verified != KL_NO_EPOCH
                   && e->verified <= m->producer_epoch));
}


kl_rc_t
kl_append_marker(kl_log_t *log, const kl_marker_t *m, const kl_config_t *cf,
    int32_t leader_epoch, int64_t now_ms, kl_marked_t *res)
{
    kl_rc_t         rc;
    uint8_t         data[KF_CONTROL_BATCH];
    kl_pub_t        pub;
    kf_batch_t      b;
    kl_producer_t  *e;

    *res = (kl_marked_t) { .offset = -1, .next_offset = -1 };

    if (m->producer_id < 0 || m->producer_epoch < 0) {
        res->error = KF_ERR_INVALID_PRODUCER_EPOCH;
        return KL_REFUSED;
    }

    rc = kl_enter(log, cf, &pub);
    if (rc != KL_OK) {
        return rc;
    }

    res->generation = (uint64_t) pub.open_gen;

    e = kl_producer_find(log, m->producer_id);

    if (m->forced) {

        if (e != NULL && m->producer_epoch < e->epoch) {
            res->error = KF_ERR_INVALID_PRODUCER_EPOCH;
            rc = KL_REFUSED;

        } else if (e != NULL && m->coordinator_epoch < e->coordinator_epoch) {
            res->error = KF_ERR_TRANSACTION_COORDINATOR_FENCED;
            rc = KL_REFUSED;
        }

    } else if (!kl_marker_is_due(e, m)) {
        res->next_offset = pub.log_end;
        goto unlock;
    }

    if (rc != KL_OK) {
        goto unlock;
    }

    kf_batch_control(data, pub.log_end, leader_epoch, m->producer_id,
                     m->producer_epoch, m->commit, m->coordinator_epoch,
                     now_ms);
    (void) kf_batch_header(data, sizeof(data), &b);

    rc = kl_append_locked(log, &pub, e, data, &b, cf, leader_epoch, now_ms);

    if (rc == KL_OK) {
        res->written = true;
        res->offset = b.base_offset;
        res->next_offset = pub.log_end;
    }

unlock:

    kl_part_unlock(log->part);

    return rc;
}


/* --- the list ------------------------------------------------------------ */

typedef struct {
    kl_producer_info_t  *list;
    size_t               size;
    size_t               n;             /* also what did not fit */
} kl_producers_t;


static bool
kl_producers_take(void *ctx, kl_producer_t *e)
{
    kl_producers_t      *l = ctx;
    kl_producer_info_t  *info;

    if (e->epoch == KL_NO_EPOCH || l->n++ >= l->size) {
        return true;
    }

    info = &l->list[l->n - 1];

    info->producer_id = e->id;
    info->producer_epoch = e->epoch;
    info->last_sequence = e->n ? e->window[e->n - 1].last_seq : -1;
    info->last_timestamp_ms = e->ts_ms;
    info->coordinator_epoch = e->coordinator_epoch;
    info->txn_start = e->txn_first;

    return true;
}


kl_rc_t
kl_producers(kl_log_t *log, bool open_only, kl_producer_info_t **list,
    size_t *n)
{
    kl_rc_t          rc;
    kl_pub_t         pub;
    kl_producers_t   l = { NULL, 0, 0 };

    *list = NULL;
    *n = 0;

    for ( ;; ) {
        rc = kl_enter(log, NULL, &pub);

        if (rc != KL_OK) {
            free(l.list);
            return rc;
        }

        l.n = 0;
        kl_producers_each(log, open_only, kl_producers_take, &l);

        kl_part_unlock(log->part);

        if (l.n <= l.size) {
            break;
        }

        /* memory is got without the lock */
        free(l.list);

        l.size = l.n + 16;
        l.list = malloc(l.size * sizeof(kl_producer_info_t));

        if (l.list == NULL) {
            return KL_NO_MEMORY;
        }
    }

    if (l.n == 0) {
        free(l.list);
        l.list = NULL;
    }

    *list = l.list;
    *n = l.n;

    return KL_OK;
}
