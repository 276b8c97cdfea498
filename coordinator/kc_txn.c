/*
 * Transactional ids: what they are made of, and the replay of their records.
 *
 * States, spelled as ListTransactions does; the function that decides, and the
 * record whose replay makes the transition:
 *
 *   none ──> Empty                       kc_txn_init       TransactionRecord
 *   Empty, Complete* ──> Empty           kc_txn_init       TransactionRecord
 *   Empty, Complete* ──> Ongoing         kc_add_partitions_to_txn,
 *                                        kc_add_offsets_to_txn, kc_txn_add,
 *                                        kc_txn_offset_commit
 *                                                    TransactionAddRecord
 *   Ongoing ──> Ongoing                  those, kc_txn_reconcile
 *                          TransactionAddRecord, TransactionOffsetsRecord
 *   Ongoing ──> PrepareCommit            kc_end_txn     TransactionEndRecord
 *   Ongoing ──> PrepareAbort             kc_end_txn, kc_txn_init (a new
 *                                        producer), kc_txn_tick (timeout)
 *                                                       TransactionEndRecord
 *   Empty, Complete* ──> PrepareAbort    kc_end_txn from version 5 on: an
 *                                        abort of nothing gives a new epoch
 *                                                       TransactionEndRecord
 *   PrepareCommit ──> CompleteCommit     kc_txn_complete, or with the decision
 *   PrepareAbort ──> CompleteAbort       when there is nothing to be marked
 *                                                  TransactionCompleteRecord
 *   Empty, Complete* ──> Dead            kc_txn_tick (expiry); Dead is gone
 *                                                    DeleteTransactionRecord
 *
 * TransactionEndRecord is the outcome: its replay also settles the staged
 * offsets of all groups.  There are no transitions that wait in memory: what is
 * decided is journaled under the same lock.
 */

#include "kc_txn_int.h"


typedef struct {
    bool      txn;
    bool      open;
    uint32_t  room;                     /* of a new array of places; 0: none */
    bool     *groups;                   /* which of the record's are new */
} kc_txn_plan_t;


/* --- objects ------------------------------------------------------------- */

kc_txn_t *
kc_txn_find(const kc_t *kc, kf_str_t id)
{
    return kc_map_find(&kc->state->txns.by_id, id);
}


kc_txn_t *
kc_txn_next(const kc_t *kc, kf_str_t after)
{
    return kc_map_next(&kc->state->txns.by_id, after);
}


static kf_str_t
kc_number_key(uint8_t *key, uint64_t n)
{
    int  i;

    for (i = 0; i < 8; i++) {
        key[i] = (uint8_t) (n >> (56 - 8 * i));
    }

    return (kf_str_t) { key, 8 };
}


static uint64_t
kc_key_number(const uint8_t *key)
{
    int       i;
    uint64_t  n = 0;

    for (i = 0; i < 8; i++) {
        n = n << 8 | key[i];
    }

    return n;
}


kc_txn_t *
kc_txn_by_pid(const kc_t *kc, int64_t pid)
{
    uint8_t  key[8];

    return kc_map_find(&kc->state->txns.by_pid,
                       kc_number_key(key, (uint64_t) pid));
}


int64_t
kc_txn_time(const kc_txn_t *t)
{
    return (int64_t) kc_key_number(t->time_key);
}


uint64_t
kc_txn_serial(const kc_txn_t *t)
{
    return kc_key_number(t->time_key + 8);
}


const char *
kc_txn_state_name(uint8_t state)
{
    static const char *const  names[] = {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit",
        "CompleteAbort"
    };

    return names[state];
}


int
kc_txn_place_cmp(const void *one, const void *two)
{
    int                    c;
    const kc_txn_place_t  *a = one, *b = two;

    c = memcmp(a->topic_id.b, b->topic_id.b, sizeof(a->topic_id.b));

    return c ? c : (a->partition > b->partition)
                   - (a->partition < b->partition);
}


uint32_t
kc_txn_place(const kc_txn_open_t *o, const kc_txn_place_t *p)
{
    uint32_t  low = 0, high = o->parts_n, middle;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (kc_txn_place_cmp(&o->parts[middle], p) < 0) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low;
}


bool
kc_txn_has(const kc_txn_t *t, const kc_txn_place_t *p)
{
    uint32_t  i;

    if (t->open == NULL) {
        return false;
    }

    i = kc_txn_place(t->open, p);

    return i < t->open->parts_n
           && kc_txn_place_cmp(&t->open->parts[i], p) == 0;
}


kc_txn_group_t *
kc_txn_group(const kc_txn_t *t, kf_str_t group_id)
{
    return t->open ? kc_map_find(&t->open->groups, group_id) : NULL;
}


static size_t
kc_txn_size(kf_str_t id)
{
    return sizeof(kc_txn_t) + id.len;
}


static size_t
kc_txn_group_size(kf_str_t id)
{
    return sizeof(kc_txn_group_t) + id.len;
}


static kc_map_t *
kc_txn_map(kc_t *kc, const kc_txn_t *t)
{
    kc_txns_t  *txns = &kc->state->txns;

    return t->state == KC_TXN_ONGOING ? &txns->ongoing
           : kc_txn_preparing(t) ? &txns->prepared : &txns->idle;
}


/* Out of the map of its state: before that changes. */
static void
kc_txn_untime(kc_t *kc, kc_txn_t *t)
{
    kc_map_remove(kc_txn_map(kc, t), &t->by_time);
}


/* Into the map of its state: after all that it depends on. */
static void
kc_txn_retime(kc_t *kc, kc_txn_t *t, int64_t end)
{
    int64_t  time = 0;

    if (t->state == KC_TXN_ONGOING) {
        time = kc_after(t->start_ms, t->timeout_ms);

    } else if (!kc_txn_preparing(t)) {
        time = t->update_ms;
    }

    kc_number_key(t->time_key, time < 0 ? 0 : (uint64_t) time);
    kc_number_key(t->time_key + 8, ++kc->state->txns.serial);
    kc_map_insert(kc_txn_map(kc, t), &t->by_time,
                  (kf_str_t) { t->time_key, sizeof(t->time_key) }, t);

    t->changed = end;
    kc->state->txns.changed = end;
}


static void
kc_txn_close(kc_t *kc, kc_txn_t *t)
{
    kc_txn_open_t   *o = t->open;
    kc_txn_group_t  *tg;

    while ((tg = kc_map_next(&o->groups, kf_null_str))) {

        while (tg->first) {
            kc_staged_free(kc, tg->first);
        }

        kc_map_remove(&o->groups, &tg->by_id);
        kc_free(kc, tg, kc_txn_group_size(tg->by_id.key));
    }

    kc_map_remove(&kc->state->txns.by_pid, &o->by_pid);
    kc_free(kc, o->parts, o->room * sizeof(kc_txn_place_t));
    kc_free(kc, o, sizeof(kc_txn_open_t));
    t->open = NULL;
}


static void
kc_txn_drop(kc_t *kc, kc_txn_t *t)
{
    if (t->open) {
        kc_txn_close(kc, t);
    }

    kc_txn_untime(kc, t);
    kc_map_remove(&kc->state->txns.by_id, &t->by_id);
    kc_free(kc, t, kc_txn_size(t->by_id.key));
}


void
kc_txns_free(kc_t *kc)
{
    kc_txn_t  *t;

    while ((t = kc_txn_next(kc, kf_null_str))) {
        kc_txn_drop(kc, t);
    }
}


/* The transaction begins; false: its producer id has one already. */
static bool
kc_txn_open(kc_t *kc, kc_txn_t *t, kc_txn_open_t *o, int16_t data_epoch,
    int64_t end)
{
    o->data_epoch = data_epoch;
    o->next_pid = -1;
    o->began = end;

    if (!kc_map_insert(&kc->state->txns.by_pid, &o->by_pid,
                       kc_number_key(o->pid_key, (uint64_t) t->pid), t))
    {
        kc_free(kc, o, sizeof(kc_txn_open_t));
        return false;
    }

    t->open = o;

    return true;
}


static kc_rc_t
kc_txn_bad(kc_t *kc, kf_str_t id, const char *what)
{
    return kc_fail(kc, KC_CORRUPT, "the journal %s the transaction of "
                   "\"%.*s\", which is not in a state for that", what,
                   (int) id.len, id.data);
}


static kc_txn_plan_t *
kc_txn_plan(kc_t *kc, void **out)
{
    *out = kf_arena_array(&kc->arena, 1, sizeof(kc_txn_plan_t));

    return *out;
}


/* --- TransactionRecord --------------------------------------------------- */

static bool
kc_txn_open_state(int8_t state)
{
    return state >= KC_TXN_ONGOING && state <= KC_TXN_PREPARE_ABORT;
}


bool
kc_txn_reserve(kc_t *kc, const kf_transaction_record_t *r, void **out)
{
    kc_txn_plan_t  *plan = kc_txn_plan(kc, out);

    if (plan == NULL) {
        return false;
    }

    plan->txn = kc_txn_find(kc, r->transactional_id) == NULL;
    plan->open = kc_txn_open_state(r->state);

    return (!plan->txn || kc_reserve(kc, kc_txn_size(r->transactional_id)))
           && (!plan->open || kc_reserve(kc, sizeof(kc_txn_open_t)));
}


/* A snapshot has all states, the journal only Empty. */
static bool
kc_txn_record_ok(const kc_t *kc, const kf_transaction_record_t *r)
{
    return r->transactional_id.len > 0
           && r->transactional_id.len <= KC_TXN_ID_MAX
           && r->producer_id >= 0 && r->producer_epoch >= 0
           && r->timeout_ms > 0
           && (r->client_version == 1 || r->client_version == 2)
           && (kc->state->loading
               ? r->state >= 0 && r->state <= KC_TXN_COMPLETE_ABORT
               : r->state == KC_TXN_EMPTY);
}


kc_rc_t
kc_txn_apply(kc_t *kc, const kf_transaction_record_t *r, const void *planned,
    int64_t end)
{
    uint8_t              *p;
    kc_txn_t             *t = kc_txn_find(kc, r->transactional_id);
    kc_txn_t             *taken = NULL;
    kc_txn_open_t        *o = NULL;
    const kc_txn_plan_t  *plan = planned;

    if (plan->txn) {
        taken = kc_take(kc, kc_txn_size(r->transactional_id));
    }

    if (plan->open) {
        o = kc_take(kc, sizeof(kc_txn_open_t));
    }

    if (!kc_txn_record_ok(kc, r) || (t ? t->open != NULL : taken == NULL)) {
        kc_free(kc, taken, kc_txn_size(r->transactional_id));
        kc_free(kc, o, sizeof(kc_txn_open_t));
        return kc_txn_bad(kc, r->transactional_id, "sets");
    }

    if (t) {
        kc_free(kc, taken, kc_txn_size(r->transactional_id));
        kc_txn_untime(kc, t);

    } else {
        t = taken;
        p = (uint8_t *) (t + 1);
        t->by_id.key = kc_pack(&p, r->transactional_id);
        kc_map_insert(&kc->state->txns.by_id, &t->by_id, t->by_id.key, t);
    }

    t->state = (uint8_t) r->state;
    t->version = (uint8_t) r->client_version;
    t->renew = t->renew && t->pid == r->producer_id;
    t->pid = r->producer_id;
    t->prev_pid = r->previous_producer_id;
    t->epoch = r->producer_epoch;
    t->last_epoch = r->last_producer_epoch;
    t->timeout_ms = r->timeout_ms;
    t->start_ms = r->start_timestamp;
    t->update_ms = r->update_timestamp;
    kc_txn_retime(kc, t, end);

    if (o) {
        if (!kc_txn_open(kc, t, o, r->data_epoch, end)) {
            kc_txn_untime(kc, t);
            t->state = KC_TXN_EMPTY;
            kc_txn_retime(kc, t, end);
            return kc_txn_bad(kc, r->transactional_id, "opens");
        }

        o->next_pid = r->next_producer_id;
        o->prepared = end;

        if (r->begin_offset >= 0) {
            o->began = r->begin_offset;
        }
    }

    return KC_OK;
}


/* --- TransactionAddRecord ------------------------------------------------ */

bool
kc_txn_add_reserve(kc_t *kc, const kf_transaction_add_record_t *r, void **out)
{
    int32_t          i, j;
    uint32_t         n = 0;
    kc_txn_t        *t = kc_txn_find(kc, r->transactional_id);
    kc_txn_plan_t   *plan = kc_txn_plan(kc, out);
    kc_txn_place_t   place;

    if (plan == NULL) {
        return false;
    }

    plan->open = t && t->open == NULL;

    for (i = 0; i < r->topics_n; i++) {
        place.topic_id = r->topics[i].topic_id;

        for (j = 0; j < r->topics[i].partitions_n; j++) {
            place.partition = r->topics[i].partitions[j];
            n += t == NULL || !kc_txn_has(t, &place);
        }
    }

    if (t && t->open) {
        n += t->open->parts_n;
    }

    if (n && (t == NULL || t->open == NULL || n > t->open->room)) {
        plan->room = KC_TXN_ROOM;

        while (plan->room < n) {
            plan->room *= 2;
        }
    }

    if ((plan->open && !kc_reserve(kc, sizeof(kc_txn_open_t)))
        || (plan->room
            && !kc_reserve(kc, plan->room * sizeof(kc_txn_place_t))))
    {
        return false;
    }

    plan->groups = kf_arena_array(&kc->arena, (size_t) r->groups_n + 1,
                                  sizeof(bool));
    if (plan->groups == NULL) {
        return false;
    }

    for (i = 0; i < r->groups_n; i++) {
        plan->groups[i] = t == NULL || kc_txn_group(t, r->groups[i]) == NULL;

        if (plan->groups[i]
            && !kc_reserve(kc, kc_txn_group_size(r->groups[i])))
        {
            return false;
        }
    }

    return true;
}


/* How many of the record's places are new; -1: they are not in order. */
static int64_t
kc_txn_count_new(const kc_txn_t *t, const kf_transaction_add_record_t *r)
{
    bool             first = true;
    int32_t          i, j;
    int64_t          n = 0;
    kc_txn_place_t   place, last;

    memset(&last, 0, sizeof(last));

    for (i = 0; i < r->topics_n; i++) {
        place.topic_id = r->topics[i].topic_id;

        for (j = 0; j < r->topics[i].partitions_n; j++) {
            place.partition = r->topics[i].partitions[j];

            if (place.partition < 0
                || (!first && kc_txn_place_cmp(&last, &place) >= 0))
            {
                return -1;
            }

            first = false;
            last = place;
            n += !kc_txn_has(t, &place);
        }
    }

    return n;
}


/* Adds what is not there, from the end; false: there is no room, or the order
   is wrong. */
static bool
kc_txn_merge(kc_txn_t *t, const kf_transaction_add_record_t *r)
{
    int32_t          i, j;
    int64_t          new = kc_txn_count_new(t, r);
    uint32_t         from, to;
    kc_txn_open_t   *o = t->open;
    kc_txn_place_t   place;

    if (new < 0 || new > (int64_t) o->room - o->parts_n) {
        return false;
    }

    from = o->parts_n;
    to = o->parts_n + (uint32_t) new;
    o->parts_n = to;

    for (i = r->topics_n - 1; i >= 0; i--) {
        place.topic_id = r->topics[i].topic_id;

        for (j = r->topics[i].partitions_n - 1; j >= 0; j--) {
            place.partition = r->topics[i].partitions[j];

            while (from && kc_txn_place_cmp(&o->parts[from - 1], &place) > 0) {
                o->parts[--to] = o->parts[--from];
            }

            if (from == 0
                || kc_txn_place_cmp(&o->parts[from - 1], &place) != 0)
            {
                o->parts[--to] = place;
            }
        }
    }

    return true;
}


static bool
kc_txn_add_groups(kc_t *kc, kc_txn_t *t, const kf_transaction_add_record_t *r,
    const kc_txn_plan_t *plan)
{
    bool             ok = true;
    int32_t          i;
    uint8_t         *p;
    kc_txn_group_t  *tg;

    for (i = 0; i < r->groups_n; i++) {

        if (!plan->groups[i]) {
            continue;
        }

        tg = kc_take(kc, kc_txn_group_size(r->groups[i]));
        p = (uint8_t *) (tg + 1);
        tg->txn = t;

        if (!kc_map_insert(&t->open->groups, &tg->by_id,
                           kc_pack(&p, r->groups[i]), tg))
        {
            kc_free(kc, tg, kc_txn_group_size(r->groups[i]));
            ok = false;
        }
    }

    return ok;
}


static bool
kc_txn_add_ok(const kc_t *kc, const kc_txn_t *t,
    const kf_transaction_add_record_t *r)
{
    return t && t->pid == r->producer_id
           && (t->open ? t->open->data_epoch : t->epoch) == r->producer_epoch
           && (kc->state->loading ? t->open != NULL : !kc_txn_preparing(t))
           && (r->client_version == 1 || r->client_version == 2);
}


kc_rc_t
kc_txn_add_apply(kc_t *kc, const kf_transaction_add_record_t *r,
    const void *planned, int64_t end)
{
    kc_txn_t             *t = kc_txn_find(kc, r->transactional_id);
    kc_txn_open_t        *o = NULL;
    kc_txn_place_t       *parts = NULL;
    const kc_txn_plan_t  *plan = planned;

    if (plan->open) {
        o = kc_take(kc, sizeof(kc_txn_open_t));
    }

    if (plan->room) {
        parts = kc_take(kc, plan->room * sizeof(kc_txn_place_t));
    }

    if (!kc_txn_add_ok(kc, t, r) || (t->open == NULL && o == NULL)
        || (t->open && o))
    {
        kc_free(kc, o, sizeof(kc_txn_open_t));
        kc_free(kc, parts, plan->room * sizeof(kc_txn_place_t));
        return kc_txn_bad(kc, r->transactional_id, "adds to");
    }

    if (!kc->state->loading) {
        kc_txn_untime(kc, t);

        if (t->open == NULL) {
            t->start_ms = r->update_timestamp;
            t->state = KC_TXN_ONGOING;
        }

        t->version = (uint8_t) r->client_version;
        t->update_ms = r->update_timestamp;
        kc_txn_retime(kc, t, end);
    }

    if (o && !kc_txn_open(kc, t, o, t->epoch, end)) {
        kc_txn_untime(kc, t);
        t->state = KC_TXN_EMPTY;
        kc_txn_retime(kc, t, end);
        kc_free(kc, parts, plan->room * sizeof(kc_txn_place_t));
        return kc_txn_bad(kc, r->transactional_id, "opens");
    }

    if (parts && plan->room <= t->open->room) {
        kc_free(kc, parts, plan->room * sizeof(kc_txn_place_t));

    } else if (parts) {
        if (t->open->parts_n) {
            memcpy(parts, t->open->parts,
                   t->open->parts_n * sizeof(kc_txn_place_t));
        }

        kc_free(kc, t->open->parts, t->open->room * sizeof(kc_txn_place_t));
        t->open->parts = parts;
        t->open->room = plan->room;
    }

    if (!kc_txn_merge(t, r) || !kc_txn_add_groups(kc, t, r, plan)) {
        return kc_txn_bad(kc, r->transactional_id, "adds to");
    }

    return KC_OK;
}


/* --- TransactionEndRecord, TransactionCompleteRecord --------------------- */

bool
kc_txn_end_reserve(kc_t *kc, const kf_transaction_end_record_t *r, void **out)
{
    kc_txn_t       *t = kc_txn_find(kc, r->transactional_id);
    kc_txn_plan_t  *plan = kc_txn_plan(kc, out);

    if (plan == NULL) {
        return false;
    }

    /* only an abort of nothing */
    plan->open = t && t->open == NULL;

    return !plan->open || kc_reserve(kc, sizeof(kc_txn_open_t));
}


static bool
kc_txn_end_ok(const kc_txn_t *t, const kf_transaction_end_record_t *r)
{
    return t && !kc_txn_preparing(t) && t->pid == r->producer_id
           && t->epoch == r->data_epoch && r->marker_epoch >= r->data_epoch
           && (t->open || !r->commit)
           && (int32_t) (t->open ? t->open->parts_n : 0) == r->partitions
           && (int32_t) (t->open ? t->open->groups.count : 0) == r->groups
           && (r->client_version == 1 || r->client_version == 2);
}


kc_rc_t
kc_txn_end_apply(kc_t *kc, const kf_transaction_end_record_t *r,
    const void *planned, int64_t end)
{
    kc_txn_t             *t = kc_txn_find(kc, r->transactional_id);
    kc_txn_open_t        *o = NULL;
    kc_txn_group_t       *tg;
    const kc_txn_plan_t  *plan = planned;

    if (plan->open) {
        o = kc_take(kc, sizeof(kc_txn_open_t));
    }

    if (kc->state->loading || !kc_txn_end_ok(t, r)
        || (t->open == NULL) != (o != NULL))
    {
        kc_free(kc, o, sizeof(kc_txn_open_t));
        return kc_txn_bad(kc, r->transactional_id, "ends");
    }

    if (o) {
        if (!kc_txn_open(kc, t, o, t->epoch, end)) {
            return kc_txn_bad(kc, r->transactional_id, "opens");
        }

        t->start_ms = r->update_timestamp;
    }

    o = t->open;
    kc_txn_untime(kc, t);

    if (r->marker_epoch != r->data_epoch) {
        t->epoch = r->marker_epoch;
        t->last_epoch = r->data_epoch;
    }

    t->state = r->commit ? KC_TXN_PREPARE_COMMIT : KC_TXN_PREPARE_ABORT;
    t->version = (uint8_t) r->client_version;
    t->update_ms = r->update_timestamp;
    o->next_pid = r->next_producer_id;
    o->prepared = end;
    kc_txn_retime(kc, t, end);

    for (tg = kc_map_next(&o->groups, kf_null_str); tg;
         tg = kc_map_next(&o->groups, tg->by_id.key))
    {
        kc_staged_settle(kc, tg, r->commit, end);
    }

    return KC_OK;
}


kc_rc_t
kc_txn_complete_apply(kc_t *kc, const kf_transaction_complete_record_t *r,
    int64_t end)
{
    int64_t    next;
    kc_txn_t  *t = kc_txn_find(kc, r->transactional_id);

    if (t == NULL || !kc_txn_preparing(t) || t->pid != r->producer_id
        || t->epoch != r->marker_epoch || kc->state->loading)
    {
        return kc_txn_bad(kc, r->transactional_id, "completes");
    }

    next = t->open->next_pid;
    kc_txn_close(kc, t);
    kc_txn_untime(kc, t);

    t->state = t->state == KC_TXN_PREPARE_COMMIT ? KC_TXN_COMPLETE_COMMIT
                                                 : KC_TXN_COMPLETE_ABORT;
    t->update_ms = r->update_timestamp;

    if (next >= 0) {
        t->prev_pid = t->pid;
        t->pid = next;
        t->epoch = 0;
    }

    kc_txn_retime(kc, t, end);

    return KC_OK;
}


kc_rc_t
kc_txn_delete_apply(kc_t *kc, const kf_delete_transaction_record_t *r,
    int64_t end)
{
    kc_txn_t  *t = kc_txn_find(kc, r->transactional_id);

    if (t == NULL || t->open) {
        return kc_txn_bad(kc, r->transactional_id, "deletes");
    }

    kc_txn_drop(kc, t);
    kc->state->txns.changed = end;

    return KC_OK;
}


void
kc_txn_counts(const kc_t *kc, kc_txn_counts_t *counts)
{
    const kc_txns_t  *txns = &kc->state->txns;

    *counts = (kc_txn_counts_t) {
        .ids = txns->by_id.count,
        .ongoing = txns->ongoing.count,
        .prepared = txns->prepared.count,
        .committed = txns->committed,
        .aborted = txns->aborted,
        .timed_out = txns->timed_out,
        .fenced = txns->fenced
    };
}
