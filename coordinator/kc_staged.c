/*
 * Offsets in transactions: staged by TxnOffsetCommit, in force or gone with the
 * outcome.
 *
 *   none ──TransactionOffsetsRecord──> staged ──again──> staged (the new one)
 *   staged ──TransactionEndRecord, commit──> committed, unless superseded
 *   staged ──TransactionEndRecord, abort; OffsetsDeleteRecord,
 *            DeleteTopicRecord, DeleteGroupRecord──> none
 *
 * One per group, partition and producer.  Which of two commits of a partition
 * is in force is decided by when they were staged (the journal's order), not by
 * when their transactions ended: as soon as a later one is in force, those that
 * were staged before it are marked as superseded, and their commit leaves the
 * partition as it is.  They stay until their transaction ends, though: until
 * then the offset is not stable.
 */

#include "kc_txn_int.h"


typedef struct {
    kc_offsets_plan_topic_t  room;
    uint8_t                 *new;       /* by partition: none is staged yet */
} kc_staged_plan_topic_t;

typedef struct {
    bool                    group;
    kc_staged_plan_topic_t  topics[];
} kc_staged_plan_t;


/* A partition alone comes before all keys of that partition. */
static kf_str_t
kc_staged_key(uint8_t *key, int32_t partition, int64_t pid, uint32_t len)
{
    int  i;

    for (i = 0; i < 4; i++) {
        key[i] = (uint8_t) ((uint32_t) partition >> (24 - 8 * i));
    }

    for (i = 0; i < 8; i++) {
        key[4 + i] = (uint8_t) ((uint64_t) pid >> (56 - 8 * i));
    }

    return (kf_str_t) { key, len };
}


static kc_staged_t *
kc_staged_first(const kc_group_topic_t *t, int32_t partition)
{
    uint8_t       key[12];
    kc_staged_t  *s;

    if (t->staged.count == 0) {
        return NULL;
    }

    s = kc_map_next(&t->staged, kc_staged_key(key, partition, 0, 4));

    return s && s->partition == partition ? s : NULL;
}


static kc_staged_t *
kc_staged_after(const kc_staged_t *s)
{
    kc_staged_t  *next = kc_map_next(&s->topic->staged, s->by_place.key);

    return next && next->partition == s->partition ? next : NULL;
}


bool
kc_staged_any(const kc_group_topic_t *t, int32_t partition)
{
    return kc_staged_first(t, partition) != NULL;
}


void
kc_staged_supersede(kc_group_topic_t *t, int32_t partition, int64_t position)
{
    kc_staged_t  *s;

    for (s = kc_staged_first(t, partition); s; s = kc_staged_after(s)) {
        if (s->position < position) {
            s->superseded = true;
        }
    }
}


void
kc_staged_free(kc_t *kc, kc_staged_t *s)
{
    if (s->prev) {
        s->prev->next = s->next;

    } else {
        s->of->first = s->next;
    }

    if (s->next) {
        s->next->prev = s->prev;
    }

    kc_map_remove(&s->topic->staged, &s->by_place);
    s->topic->group->staged_n--;
    kc_note_free(kc, s->note);
    kc_free(kc, s, sizeof(kc_staged_t));
}


void
kc_staged_drop_partition(kc_t *kc, kc_group_topic_t *t, int32_t partition)
{
    kc_staged_t  *s;

    while ((s = kc_staged_first(t, partition))) {
        kc_staged_free(kc, s);
    }
}


void
kc_staged_drop_topic(kc_t *kc, kc_group_topic_t *t)
{
    kc_staged_t  *s;

    while ((s = kc_map_next(&t->staged, kf_null_str))) {
        kc_staged_free(kc, s);
    }
}


void
kc_staged_settle(kc_t *kc, kc_txn_group_t *tg, bool commit, int64_t end)
{
    kc_group_t        *g = NULL;
    kc_offset_t        new;
    kc_staged_t       *s;
    kc_group_topic_t  *t;

    while ((s = tg->first)) {
        t = s->topic;
        g = t->group;

        if (commit && !s->superseded) {
            new = (kc_offset_t) { .offset = s->offset,
                                  .commit_ms = s->commit_ms,
                                  .partition = s->partition,
                                  .leader_epoch = s->leader_epoch,
                                  .note = s->note };

            s->note = NULL;
            kc_staged_supersede(t, s->partition, s->position);

            /* there is room for all that are staged */
            kc_assert(kc_offset_put(kc, t, &new));
        }

        kc_staged_free(kc, s);
        kc_offsets_drop_empty(kc, t);
    }

    if (g) {
        kc_group_touch(kc, g, end);

        if (g->offsets_n == 0) {
            kc_due(kc, g, 0);           /* the group may be of no use now */
        }
    }
}


/* --- TransactionOffsetsRecord -------------------------------------------- */

bool
kc_staged_reserve(kc_t *kc, const kf_transaction_offsets_record_t *r,
    void **out)
{
    int32_t                  i, j;
    uint8_t                  key[12];
    uint32_t                 added;
    kc_group_t              *g = kc_group_find(kc, r->group_id);
    const kc_txn_t          *txn = kc_txn_find(kc, r->transactional_id);
    kc_staged_plan_t        *plan;
    kc_group_topic_t        *t;
    kc_staged_plan_topic_t  *pt;

    const kf_transaction_offsets_record_topics_t             *rt;
    const kf_transaction_offsets_record_partitions_t  *rp;

    plan = kf_arena_alloc(&kc->arena, sizeof(kc_staged_plan_t)
                                      + (size_t) r->topics_n * sizeof(*pt));
    if (plan == NULL) {
        return false;
    }

    *out = plan;
    plan->group = g == NULL;

    if (g == NULL && !kc_reserve(kc, kc_group_size(r->group_id))) {
        return false;
    }

    for (i = 0; i < r->topics_n; i++) {
        rt = &r->topics[i];
        pt = &plan->topics[i];
        t = g ? kc_offsets_of(g, rt->topic_id) : NULL;
        added = 0;

        pt->new = kf_arena_alloc(&kc->arena, (size_t) rt->partitions_n + 1);
        if (pt->new == NULL) {
            return false;
        }

        for (j = 0; j < rt->partitions_n; j++) {
            pt->new[j] = t == NULL || txn == NULL
                         || kc_map_find(&t->staged,
                                kc_staged_key(key, rt->partitions[j].index,
                                              txn->pid, 12)) == NULL;
            added += pt->new[j];
        }

        if (!kc_offsets_plan(kc, t, added, &pt->room)) {
            return false;
        }

        for (j = 0; j < rt->partitions_n; j++) {
            rp = &rt->partitions[j];

            if ((pt->new[j] && !kc_reserve(kc, sizeof(kc_staged_t)))
                || (rp->metadata.len
                    && !kc_reserve(kc, sizeof(kc_note_t) + rp->metadata.len)))
            {
                return false;
            }
        }
    }

    return true;
}


static kc_rc_t
kc_staged_bad(kc_t *kc, const kf_transaction_offsets_record_t *r)
{
    return kc_fail(kc, KC_CORRUPT, "the journal stages offsets of group "
                   "\"%.*s\" that cannot be", (int) r->group_id.len,
                   r->group_id.data);
}


/* false: what was planned does not fit. */
static bool
kc_staged_set(kc_t *kc, kc_txn_group_t *tg, kc_group_topic_t *t, bool new,
    const kf_transaction_offsets_record_partitions_t *p, int64_t end)
{
    uint8_t       key[12];
    kc_note_t    *note = NULL;
    kc_staged_t  *s, *taken = NULL;

    s = kc_map_find(&t->staged,
                    kc_staged_key(key, p->index, tg->txn->pid, 12));

    if (new) {
        taken = kc_take(kc, sizeof(kc_staged_t));
    }

    if (p->metadata.len) {
        note = kc_take(kc, sizeof(kc_note_t) + p->metadata.len);
        note->expire_ms = -1;
        note->len = p->metadata.len;
        memcpy(note->metadata, p->metadata.data, note->len);
    }

    if (s || taken == NULL || t->n + t->staged.count >= t->room) {
        kc_free(kc, taken, sizeof(kc_staged_t));

        if (s == NULL || taken || s->of != tg) {
            kc_note_free(kc, note);
            return false;
        }

        kc_note_free(kc, s->note);

    } else {
        s = taken;
        s->partition = p->index;
        s->topic = t;
        s->of = tg;
        s->next = tg->first;

        if (s->next) {
            s->next->prev = s;
        }

        tg->first = s;
        memcpy(s->key, key, sizeof(key));
        kc_map_insert(&t->staged, &s->by_place,
                      (kf_str_t) { s->key, sizeof(s->key) }, s);
        t->group->staged_n++;
    }

    s->note = note;
    s->offset = p->offset;
    s->commit_ms = p->commit_timestamp;
    s->leader_epoch = p->leader_epoch;
    s->position = p->position >= 0 ? p->position : end;
    s->superseded = p->superseded;

    return true;
}


kc_rc_t
kc_staged_apply(kc_t *kc, const kf_transaction_offsets_record_t *r,
    const void *planned, int64_t end)
{
    int32_t                  i, j;
    kc_txn_t                *txn = kc_txn_find(kc, r->transactional_id);
    kc_group_t              *g = kc_group_find(kc, r->group_id), *taken = NULL;
    kc_txn_group_t          *tg;
    kc_topic_obj_t          *topic;
    kc_group_topic_t        *t;
    const kc_staged_plan_t  *plan = planned;

    const kf_transaction_offsets_record_topics_t  *rt;

    if (plan->group) {
        taken = kc_take(kc, kc_group_size(r->group_id));
    }

    if (g == NULL && taken) {
        g = taken;
        kc_group_init(kc, g, r->group_id);

    } else {
        kc_free(kc, taken, kc_group_size(r->group_id));
    }

    tg = txn ? kc_txn_group(txn, r->group_id) : NULL;

    if (g == NULL || tg == NULL || txn->state != KC_TXN_ONGOING) {
        return kc_staged_bad(kc, r);
    }

    for (i = 0; i < r->topics_n; i++) {
        rt = &r->topics[i];
        topic = kc_map_find(&kc->state->topics_by_id,
                            kc_uuid_key(&rt->topic_id));

        if (topic == NULL || rt->partitions_n < 1) {
            return kc_staged_bad(kc, r);
        }

        t = kc_offsets_entry(kc, g, topic, &plan->topics[i].room);

        for (j = 0; j < rt->partitions_n; j++) {

            if (t == NULL || rt->partitions[j].index < 0
                || rt->partitions[j].index >= topic->pub.partition_count
                || (j && rt->partitions[j].index
                         <= rt->partitions[j - 1].index)
                || !kc_staged_set(kc, tg, t, plan->topics[i].new[j],
                                  &rt->partitions[j], end))
            {
                return kc_staged_bad(kc, r);
            }
        }
    }

    kc_group_touch(kc, g, end);
    txn->changed = end;
    kc->state->txns.changed = end;

    return KC_OK;
}
