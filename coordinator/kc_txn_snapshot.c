/*
 * Transactions in snapshots and in the state's hash, and their invariants.
 *
 * Per transactional id, in order: TransactionRecord; if a transaction is under
 * way, TransactionAddRecord … with its participants, and for each group
 * TransactionOffsetsRecord … with what is staged.
 */

#include <stdlib.h>

#include "kc_txn_int.h"

#define KC_SNAPSHOT_PARTS   10000           /* of one record */
#define KC_SNAPSHOT_STAGED  2000            /* of one record: 4 KiB each */


static bool
kc_snapshot_parts(kc_writer_t *w, const kc_txn_t *t)
{
    bool                                ok = true;
    int32_t                            *p;
    uint32_t                            i, n = t->open->parts_n;
    const kc_txn_place_t               *place;
    kf_transaction_add_record_t         r;
    kf_transaction_add_record_topics_t *topics, *rt = NULL;

    if (n == 0) {
        return true;
    }

    topics = malloc((n < KC_SNAPSHOT_PARTS ? n : KC_SNAPSHOT_PARTS)
                    * sizeof(*topics));
    p = malloc(n * sizeof(int32_t));

    if (topics == NULL || p == NULL) {
        free(topics);
        free(p);
        return false;
    }

    memset(&r, 0, sizeof(r));
    r.transactional_id = t->by_id.key;
    r.producer_id = t->pid;
    r.producer_epoch = t->open->data_epoch;
    r.client_version = (int8_t) t->version;
    r.update_timestamp = t->update_ms;
    r.topics = topics;

    for (i = 0; i < n && ok; i++) {
        place = &t->open->parts[i];
        p[i] = place->partition;

        if (rt == NULL || !kf_uuid_eq(rt->topic_id, place->topic_id)) {
            rt = &topics[r.topics_n++];
            rt->topic_id = place->topic_id;
            rt->partitions = &p[i];
            rt->partitions_n = 0;
        }

        rt->partitions_n++;

        if (i + 1 == n || (i + 1) % KC_SNAPSHOT_PARTS == 0) {
            /* What the next one takes depends on this one: see kc_txn.c. */
            ok = kc_snapshot_put(w, KF_TRANSACTION_ADD_RECORD, &r)
                 && kc_snapshot_batch(w);
            r.topics_n = 0;
            rt = NULL;
        }
    }

    free(topics);
    free(p);

    return ok;
}


static bool
kc_snapshot_txn_group(kc_writer_t *w, const kc_txn_t *t, kf_str_t group)
{
    kf_transaction_add_record_t  r;

    memset(&r, 0, sizeof(r));
    r.transactional_id = t->by_id.key;
    r.producer_id = t->pid;
    r.producer_epoch = t->open->data_epoch;
    r.client_version = (int8_t) t->version;
    r.update_timestamp = t->update_ms;
    r.groups = &group;
    r.groups_n = 1;

    return kc_snapshot_put(w, KF_TRANSACTION_ADD_RECORD, &r)
           && kc_snapshot_batch(w);
}


/* The staged offsets of a group's topic that are this transaction's. */
static bool
kc_snapshot_staged(kc_writer_t *w, const kc_txn_group_t *tg,
    const kc_group_topic_t *t)
{
    bool                                        ok = true;
    const kc_staged_t                          *s;
    kf_transaction_offsets_record_t             r;
    kf_transaction_offsets_record_topics_t      rt;
    kf_transaction_offsets_record_partitions_t *rp;

    rp = malloc(KC_SNAPSHOT_STAGED * sizeof(*rp));
    if (rp == NULL) {
        return false;
    }

    memset(&r, 0, sizeof(r));
    r.transactional_id = tg->txn->by_id.key;
    r.group_id = tg->by_id.key;
    r.topics = &rt;
    r.topics_n = 1;

    rt.topic_id = t->topic->pub.id;
    rt.partitions = rp;
    rt.partitions_n = 0;

    for (s = kc_map_next(&t->staged, kf_null_str); s && ok;
         s = kc_map_next(&t->staged, s->by_place.key))
    {
        if (s->of != tg) {
            continue;
        }

        rp[rt.partitions_n++] = (kf_transaction_offsets_record_partitions_t) {
            .index = s->partition,
            .offset = s->offset,
            .leader_epoch = s->leader_epoch,
            .commit_timestamp = s->commit_ms,
            .metadata = s->note ? (kf_str_t) { s->note->metadata, s->note->len }
                                : kf_str(""),
            .position = s->position,
            .superseded = s->superseded
        };

        if (rt.partitions_n == KC_SNAPSHOT_STAGED) {
            ok = kc_snapshot_put(w, KF_TRANSACTION_OFFSETS_RECORD, &r)
                 && kc_snapshot_batch(w);
            rt.partitions_n = 0;
        }
    }

    if (ok && rt.partitions_n) {
        ok = kc_snapshot_put(w, KF_TRANSACTION_OFFSETS_RECORD, &r)
             && kc_snapshot_batch(w);
    }

    free(rp);

    return ok;
}


static bool
kc_snapshot_groups_of(kc_writer_t *w, const kc_txn_t *t)
{
    const kc_group_t        *g;
    const kc_txn_group_t    *tg;
    const kc_group_topic_t  *gt;

    for (tg = kc_map_next(&t->open->groups, kf_null_str); tg;
         tg = kc_map_next(&t->open->groups, tg->by_id.key))
    {
        if (!kc_snapshot_txn_group(w, t, tg->by_id.key)) {
            return false;
        }

        if (tg->first == NULL) {
            continue;
        }

        g = tg->first->topic->group;

        for (gt = kc_offsets_next(g, NULL); gt; gt = kc_offsets_next(g, gt)) {
            if (gt->staged.count && !kc_snapshot_staged(w, tg, gt)) {
                return false;
            }
        }
    }

    return true;
}


static bool
kc_snapshot_txn(kc_writer_t *w, const kc_txn_t *t)
{
    kf_transaction_record_t  r;

    memset(&r, 0, sizeof(r));
    r.transactional_id = t->by_id.key;
    r.state = (int8_t) t->state;
    r.producer_id = t->pid;
    r.producer_epoch = t->epoch;
    r.last_producer_epoch = t->last_epoch;
    r.previous_producer_id = t->prev_pid;
    r.next_producer_id = t->open ? t->open->next_pid : -1;
    r.data_epoch = t->open ? t->open->data_epoch : -1;
    r.client_version = (int8_t) t->version;
    r.timeout_ms = t->timeout_ms;
    r.start_timestamp = t->start_ms;
    r.update_timestamp = t->update_ms;
    r.begin_offset = t->open ? t->open->began : -1;

    if (!kc_snapshot_put(w, KF_TRANSACTION_RECORD, &r)) {
        return false;
    }

    /* participants need to find it */
    return t->open == NULL
           || (kc_snapshot_batch(w) && kc_snapshot_parts(w, t)
               && kc_snapshot_groups_of(w, t));
}


bool
kc_snapshot_txns(kc_writer_t *w)
{
    const kc_txn_t  *t;

    for (t = kc_txn_next(w->kc, kf_null_str); t;
         t = kc_txn_next(w->kc, t->by_id.key))
    {
        if (!kc_snapshot_txn(w, t)) {
            return false;
        }
    }

    return true;
}


/* --- hash ---------------------------------------------------------------- */

static void
kc_hash_staged(const kc_txn_group_t *tg, uint64_t *h)
{
    uint64_t            sum = 0, one;
    const kc_staged_t  *s;

    /* the list's order is that of staging, which a snapshot does not keep */
    for (s = tg->first; s; s = s->next) {
        one = 0xcbf29ce484222325;
        kc_mix(&one, s->topic->topic->pub.id.b, sizeof(kf_uuid_t));
        kc_mix_number(&one, s->partition);
        kc_mix_number(&one, s->offset);
        kc_mix_number(&one, s->leader_epoch);
        kc_mix_number(&one, s->commit_ms);
        kc_mix_number(&one, s->position);
        kc_mix_number(&one, s->superseded);
        kc_mix_str(&one, s->note
                         ? (kf_str_t) { s->note->metadata, s->note->len }
                         : kf_str(""));
        sum += one;
    }

    kc_mix_number(h, (int64_t) sum);
}


static void
kc_hash_open(const kc_txn_open_t *o, uint64_t *h)
{
    uint32_t               i;
    const kc_txn_group_t  *tg;

    kc_mix_number(h, o->data_epoch);
    kc_mix_number(h, o->next_pid);
    kc_mix_number(h, o->began);
    kc_mix_number(h, o->parts_n);

    for (i = 0; i < o->parts_n; i++) {
        kc_mix(h, o->parts[i].topic_id.b, sizeof(kf_uuid_t));
        kc_mix_number(h, o->parts[i].partition);
    }

    kc_mix_number(h, o->groups.count);

    for (tg = kc_map_next(&o->groups, kf_null_str); tg;
         tg = kc_map_next(&o->groups, tg->by_id.key))
    {
        kc_mix_str(h, tg->by_id.key);
        kc_hash_staged(tg, h);
    }
}


void
kc_hash_txns(const kc_t *kc, uint64_t *h)
{
    const kc_txn_t  *t;

    kc_mix_number(h, kc->state->txns.by_id.count);

    for (t = kc_txn_next(kc, kf_null_str); t;
         t = kc_txn_next(kc, t->by_id.key))
    {
        kc_mix_str(h, t->by_id.key);
        kc_mix_number(h, t->state);
        kc_mix_number(h, t->pid);
        kc_mix_number(h, t->prev_pid);
        kc_mix_number(h, t->epoch);
        kc_mix_number(h, t->last_epoch);
        kc_mix_number(h, t->version);
        kc_mix_number(h, t->timeout_ms);
        kc_mix_number(h, t->start_ms);
        kc_mix_number(h, t->update_ms);

        if (t->open) {
            kc_hash_open(t->open, h);
        }
    }
}


/* --- invariants ---------------------------------------------------------- */

static const char *
kc_check_staged(const kc_txn_t *t, const kc_txn_group_t *tg, uint64_t *n)
{
    const kc_staged_t  *s, *prev = NULL;

    for (s = tg->first; s; prev = s, s = s->next) {
        (*n)++;

        if (s->prev != prev || s->of != tg || t->state != KC_TXN_ONGOING
            || !kf_str_eq(s->topic->group->by_id.key, tg->by_id.key)
            || kc_map_find(&s->topic->staged, s->by_place.key) != s)
        {
            return "T4: what is staged is its transaction's and its group's";
        }
    }

    return NULL;
}


static const char *
kc_check_open(const kc_t *kc, const kc_txn_t *t, uint64_t *staged)
{
    uint32_t               i;
    const char            *problem;
    const kc_txn_open_t   *o = t->open;
    const kc_txn_group_t  *tg;

    if (kc_txn_by_pid(kc, t->pid) != t || !kc_map_check(&o->groups)) {
        return "T2: a transaction is found by its producer";
    }

    if (t->state == KC_TXN_ONGOING ? o->data_epoch != t->epoch
                                   : o->data_epoch > t->epoch)
    {
        return "T2: the epoch of the data is in force, or the one before";
    }

    if (o->began > kc->state->applied
        || (kc_txn_preparing(t) && o->began > o->prepared))
    {
        return "T5: a transaction begins before it is decided";
    }

    if (o->parts_n > o->room) {
        return "T3: partitions have room";
    }

    for (i = 1; i < o->parts_n; i++) {
        if (kc_txn_place_cmp(&o->parts[i - 1], &o->parts[i]) >= 0) {
            return "T3: partitions are sorted, each once";
        }
    }

    for (tg = kc_map_next(&o->groups, kf_null_str); tg;
         tg = kc_map_next(&o->groups, tg->by_id.key))
    {
        problem = tg->txn == t ? kc_check_staged(t, tg, staged)
                               : "T4: a group is its transaction's";
        if (problem) {
            return problem;
        }
    }

    return NULL;
}


static const char *
kc_check_txn(const kc_t *kc, const kc_txn_t *t, uint64_t *staged)
{
    const kc_txns_t  *txns = &kc->state->txns;
    const kc_map_t   *map = t->state == KC_TXN_ONGOING ? &txns->ongoing
                            : kc_txn_preparing(t) ? &txns->prepared
                            : &txns->idle;

    if (kc_map_find(map, t->by_time.key) != t
        || (t->open != NULL) != (t->state == KC_TXN_ONGOING
                                 || kc_txn_preparing(t)))
    {
        return "T1: a transactional id is where its state says";
    }

    if (t->changed > txns->changed) {
        return "T5: nothing changed after the last change";
    }

    return t->open ? kc_check_open(kc, t, staged) : NULL;
}


const char *
kc_check_txns(const kc_t *kc)
{
    uint64_t          staged = 0, of_groups = 0;
    const char       *problem;
    const kc_txn_t   *t;
    const kc_txns_t  *txns = &kc->state->txns;
    const kc_group_t *g;

    if (!kc_map_check(&txns->by_id) || !kc_map_check(&txns->by_pid)
        || !kc_map_check(&txns->idle) || !kc_map_check(&txns->ongoing)
        || !kc_map_check(&txns->prepared)
        || txns->by_id.count != txns->idle.count + txns->ongoing.count
                                + txns->prepared.count
        || txns->by_pid.count != txns->ongoing.count + txns->prepared.count)
    {
        return "T1: the maps of transactions are whole and fit";
    }

    for (t = kc_txn_next(kc, kf_null_str); t; t = kc_txn_next(kc, t->by_id.key))
    {
        problem = kc_check_txn(kc, t, &staged);
        if (problem) {
            return problem;
        }
    }

    for (g = kc_group_next(kc, kf_null_str); g;
         g = kc_group_next(kc, g->by_id.key))
    {
        of_groups += g->staged_n;
    }

    return staged == of_groups ? NULL : "T4: staged offsets are counted";
}
