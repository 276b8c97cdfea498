/*
 * Committed offsets: the replay of OffsetsRecord and OffsetsDeleteRecord, what
 * the deletion of a topic takes along, and expiry.
 *
 *   none ──OffsetsRecord (kc_offset_commit)──> committed ──again──> committed
 *   none, committed ──TransactionEndRecord (kc_staged.c)──> committed
 *   committed ──OffsetsDeleteRecord (kc_offset_delete, kc_offsets_expire),
 *               DeleteTopicRecord, DeleteGroupRecord──> none
 *
 * A group's offsets in a topic are one sorted array.  How far it has to grow
 * depends on the state, so a record's plan says what was reserved for it;
 * records of one batch must not concern the same topic of the same group, or
 * the second one's plan would be wrong (and its replay would say so).
 */

#include "kc_group_int.h"
#include "kc_config_def.h"


#define KC_OFFSETS_ROOM      4          /* the least room of an array */
#define KC_EXPIRE_MAX        10000      /* offsets of one record */

typedef struct {
    bool                     group;
    kc_offsets_plan_topic_t  topics[];
} kc_offsets_plan_t;


kc_group_topic_t *
kc_offsets_of(const kc_group_t *g, kf_uuid_t topic_id)
{
    return kc_map_find(&g->offsets, kc_uuid_key(&topic_id));
}


kc_group_topic_t *
kc_offsets_next(const kc_group_t *g, const kc_group_topic_t *after)
{
    return kc_map_next(&g->offsets, after ? after->by_topic.key : kf_null_str);
}


/* The first that is not below. */
static uint32_t
kc_offset_place(const kc_group_topic_t *t, int32_t partition)
{
    uint32_t  low = 0, high = t->n, middle;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (t->offsets[middle].partition < partition) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low;
}


kc_offset_t *
kc_offset_find(const kc_group_topic_t *t, int32_t partition)
{
    uint32_t  i = kc_offset_place(t, partition);

    return i < t->n && t->offsets[i].partition == partition ? &t->offsets[i]
                                                            : NULL;
}


void
kc_note_free(kc_t *kc, kc_note_t *note)
{
    kc_free(kc, note, note ? sizeof(kc_note_t) + note->len : 0);
}


void
kc_offsets_drop(kc_t *kc, kc_group_topic_t *t)
{
    uint32_t  i;

    kc_staged_drop_topic(kc, t);

    for (i = 0; i < t->n; i++) {
        kc_note_free(kc, t->offsets[i].note);
    }

    t->group->offsets_n -= t->n;
    kc_map_remove(&t->group->offsets, &t->by_topic);

    if (t->prev) {
        t->prev->next = t->next;

    } else {
        t->topic->offsets = t->next;
    }

    if (t->next) {
        t->next->prev = t->prev;
    }

    kc_free(kc, t->offsets, t->room * sizeof(kc_offset_t));
    kc_free(kc, t, sizeof(kc_group_topic_t));
}


void
kc_offsets_drop_empty(kc_t *kc, kc_group_topic_t *t)
{
    if (t->n == 0 && t->staged.count == 0) {
        kc_offsets_drop(kc, t);
    }
}


void
kc_offsets_topic_gone(kc_t *kc, kc_topic_obj_t *topic, int64_t end)
{
    kc_group_t        *g;
    kc_group_topic_t  *t;

    while ((t = topic->offsets)) {
        g = t->group;
        kc_offsets_drop(kc, t);
        kc_group_touch(kc, g, end);

        if (g->offsets_n == 0) {
            kc_due(kc, g, 0);           /* the group may be of no use now */
        }
    }
}


static size_t
kc_note_size(const kf_offsets_record_partitions_t *p)
{
    return p->metadata.len || p->expire_timestamp >= 0
           ? sizeof(kc_note_t) + p->metadata.len : 0;
}


static uint32_t
kc_offsets_room(uint32_t n)
{
    uint32_t  room = KC_OFFSETS_ROOM;

    while (room < n) {
        room *= 2;
    }

    return room;
}


bool
kc_offsets_plan(kc_t *kc, const kc_group_topic_t *t, uint32_t added,
    kc_offsets_plan_topic_t *plan)
{
    uint32_t  n = added + (t ? t->n + t->staged.count : 0);

    plan->topic = t == NULL;
    plan->room = t == NULL || n > t->room ? kc_offsets_room(n) : 0;

    return (!plan->topic || kc_reserve(kc, sizeof(kc_group_topic_t)))
           && (!plan->room
               || kc_reserve(kc, plan->room * sizeof(kc_offset_t)));
}


bool
kc_offsets_reserve(kc_t *kc, const kf_offsets_record_t *r, void **out)
{
    int32_t                           i, j;
    uint32_t                          added;
    kc_group_t                       *g = kc_group_find(kc, r->group_id);
    kc_group_topic_t                 *t;
    kc_offsets_plan_t                *plan;
    kc_offsets_plan_topic_t          *pt;
    const kf_offsets_record_topics_t *rt;

    plan = kf_arena_alloc(&kc->arena, sizeof(kc_offsets_plan_t)
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

        for (j = 0; j < rt->partitions_n; j++) {
            added += t == NULL
                     || kc_offset_find(t, rt->partitions[j].index) == NULL;
        }

        if (!kc_offsets_plan(kc, t, added, pt)) {
            return false;
        }

        for (j = 0; j < rt->partitions_n; j++) {
            if (kc_note_size(&rt->partitions[j])
                && !kc_reserve(kc, kc_note_size(&rt->partitions[j])))
            {
                return false;
            }
        }
    }

    return true;
}


static kc_rc_t
kc_offsets_bad(kc_t *kc, kf_str_t group_id)
{
    return kc_fail(kc, KC_CORRUPT, "the journal commits offsets of group "
                   "\"%.*s\" that cannot be", (int) group_id.len,
                   group_id.data);
}


kc_group_topic_t *
kc_offsets_entry(kc_t *kc, kc_group_t *g, kc_topic_obj_t *topic,
    const kc_offsets_plan_topic_t *plan)
{
    kc_offset_t       *offsets;
    kc_group_topic_t  *t = kc_offsets_of(g, topic->pub.id), *taken = NULL;

    if (plan->topic) {
        taken = kc_take(kc, sizeof(kc_group_topic_t));
    }

    if (t == NULL && taken) {
        t = taken;
        t->group = g;
        t->topic = topic;
        t->next = topic->offsets;

        if (t->next) {
            t->next->prev = t;
        }

        topic->offsets = t;
        kc_map_insert(&g->offsets, &t->by_topic, kc_uuid_key(&topic->pub.id),
                      t);

    } else {
        kc_free(kc, taken, sizeof(kc_group_topic_t));
    }

    if (plan->room) {
        offsets = kc_take(kc, plan->room * sizeof(kc_offset_t));

        if (t && plan->room > t->room) {
            if (t->n) {
                memcpy(offsets, t->offsets, t->n * sizeof(kc_offset_t));
            }

            kc_free(kc, t->offsets, t->room * sizeof(kc_offset_t));
            t->offsets = offsets;
            t->room = plan->room;

        } else {
            kc_free(kc, offsets, plan->room * sizeof(kc_offset_t));
        }
    }

    return t;
}


bool
kc_offset_put(kc_t *kc, kc_group_topic_t *t, const kc_offset_t *new)
{
    uint32_t      i = kc_offset_place(t, new->partition);
    kc_offset_t  *o = &t->offsets[i];

    if (i < t->n && o->partition == new->partition) {
        kc_note_free(kc, o->note);

    } else {
        if (t->n == t->room) {
            kc_note_free(kc, new->note);
            return false;
        }

        memmove(o + 1, o, (t->n - i) * sizeof(kc_offset_t));
        t->n++;
        t->group->offsets_n++;
    }

    *o = *new;

    return true;
}


/* false: there is no room. */
static bool
kc_offset_set(kc_t *kc, kc_group_topic_t *t,
    const kf_offsets_record_partitions_t *p, int64_t end)
{
    size_t        size = kc_note_size(p);
    kc_note_t    *note = NULL;
    kc_offset_t   new;

    if (size) {
        note = kc_take(kc, size);
        note->expire_ms = p->expire_timestamp;
        note->len = p->metadata.len;

        if (note->len) {
            memcpy(note->metadata, p->metadata.data, note->len);
        }
    }

    new = (kc_offset_t) { .offset = p->offset,
                          .commit_ms = p->commit_timestamp,
                          .partition = p->index,
                          .leader_epoch = p->leader_epoch,
                          .note = note };

    kc_staged_supersede(t, p->index, end);

    return kc_offset_put(kc, t, &new);
}


kc_rc_t
kc_offsets_apply(kc_t *kc, const kf_offsets_record_t *r, const void *planned,
    int64_t end)
{
    int32_t                            i, j;
    kc_group_t                        *g = kc_group_find(kc, r->group_id);
    kc_group_t                        *taken = NULL;
    kc_topic_obj_t                    *topic;
    kc_group_topic_t                  *t;
    const kc_offsets_plan_t           *plan = planned;
    const kf_offsets_record_topics_t  *rt;

    if (plan->group) {
        taken = kc_take(kc, kc_group_size(r->group_id));
    }

    if (g == NULL && taken) {
        g = taken;
        kc_group_init(kc, g, r->group_id);

    } else {
        kc_free(kc, taken, kc_group_size(r->group_id));
    }

    if (g == NULL) {
        return kc_offsets_bad(kc, r->group_id);
    }

    for (i = 0; i < r->topics_n; i++) {
        rt = &r->topics[i];
        topic = kc_map_find(&kc->state->topics_by_id,
                            kc_uuid_key(&rt->topic_id));

        if (topic == NULL || rt->partitions_n < 1) {
            return kc_offsets_bad(kc, r->group_id);
        }

        t = kc_offsets_entry(kc, g, topic, &plan->topics[i]);

        for (j = 0; j < rt->partitions_n; j++) {

            if (t == NULL || rt->partitions[j].index < 0
                || rt->partitions[j].index >= topic->pub.partition_count
                || (j && rt->partitions[j].index
                         <= rt->partitions[j - 1].index)
                || !kc_offset_set(kc, t, &rt->partitions[j], end))
            {
                return kc_offsets_bad(kc, r->group_id);
            }
        }
    }

    kc_group_touch(kc, g, end);

    return KC_OK;
}


kc_rc_t
kc_offsets_delete_apply(kc_t *kc, const kf_offsets_delete_record_t *r,
    int64_t end)
{
    int32_t            i, j;
    kc_group_t        *g = kc_group_find(kc, r->group_id);
    kc_offset_t       *o;
    kc_group_topic_t  *t;

    if (g == NULL) {
        return kc_offsets_bad(kc, r->group_id);
    }

    for (i = 0; i < r->topics_n; i++) {
        t = kc_offsets_of(g, r->topics[i].topic_id);

        for (j = 0; t && j < r->topics[i].partitions_n; j++) {
            kc_staged_drop_partition(kc, t, r->topics[i].partitions[j]);
            o = kc_offset_find(t, r->topics[i].partitions[j]);

            if (o) {
                kc_note_free(kc, o->note);
                t->n--;
                g->offsets_n--;
                memmove(o, o + 1, (size_t) (&t->offsets[t->n] - o)
                                  * sizeof(kc_offset_t));
            }
        }

        if (t) {
            kc_offsets_drop_empty(kc, t);
        }
    }

    kc_group_touch(kc, g, end);

    if (g->offsets_n == 0) {
        kc_due(kc, g, 0);               /* the group may be of no use now */
    }

    return KC_OK;
}


/* --- expiry -------------------------------------------------------------- */

/*
 * From when on the retention of an offset counts; false: none expires now.
 * With members it counts from the commit, for topics that they do not
 * subscribe to; without, from the moment when the last one left; and in a
 * simple group always from the commit.
 */
static bool
kc_offsets_base(const kc_group_t *g, const kc_offset_t *o, int64_t *base)
{
    *base = o->commit_ms;

    if (kc_group_protocol_type(g).data == NULL) {
        return true;
    }

    if (g->state == KC_GROUP_EMPTY) {
        *base = g->recorded ? g->state_ms : o->commit_ms;
        return true;
    }

    return g->state == KC_GROUP_STABLE && kc_group_of_consumers(g);
}


static bool
kc_offset_expired(const kc_group_t *g, const kc_offset_t *o, int64_t now,
    int64_t retention)
{
    int64_t  base;

    if (!kc_offsets_base(g, o, &base)) {
        return false;
    }

    if (o->note && o->note->expire_ms >= 0) {
        return now >= o->note->expire_ms;
    }

    return now > base && now - base >= retention;
}


static kc_rc_t
kc_offsets_expire_record(kc_t *kc, kc_call_t *call, kc_group_t *g,
    kc_subscription_t *s, kf_offsets_delete_record_t *r, bool *more)
{
    int32_t                             count = 0;
    int64_t                             retention;
    uint32_t                            i;
    kc_group_topic_t                   *t;
    kf_offsets_delete_record_topics_t  *rt;

    retention = kc_broker_config_int(kc, call->config,
                                     KC_OFFSETS_RETENTION_MINUTES) * 60000;
    *more = false;

    memset(r, 0, sizeof(kf_offsets_delete_record_t));
    r->group_id = g->by_id.key;
    r->topics = kf_arena_array(&s->arena, g->offsets.count, sizeof(*rt));

    if (r->topics == NULL) {
        return KC_NO_MEMORY;
    }

    for (t = kc_offsets_next(g, NULL); t; t = kc_offsets_next(g, t)) {

        if (g->state != KC_GROUP_EMPTY && kc_subscribed(s, t->topic->pub.name))
        {
            continue;
        }

        rt = &r->topics[r->topics_n];
        rt->topic_id = t->topic->pub.id;

        for (i = 0; i < t->n; i++) {

            if (!kc_offset_expired(g, &t->offsets[i], call->now.wall_ms,
                                   retention)
                || kc_staged_any(t, t->offsets[i].partition))
            {
                continue;
            }

            if (count == KC_EXPIRE_MAX) {
                *more = true;
                break;
            }

            if (rt->partitions == NULL) {
                rt->partitions = kf_arena_array(&s->arena, t->n,
                                                sizeof(int32_t));
                if (rt->partitions == NULL) {
                    return KC_NO_MEMORY;
                }
            }

            rt->partitions[rt->partitions_n++] = t->offsets[i].partition;
            count++;
        }

        r->topics_n += rt->partitions_n > 0;
    }

    return KC_OK;
}


kc_rc_t
kc_offsets_expire(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    bool                        more = false;
    kc_rc_t                     rc = KC_NO_MEMORY;
    kc_subscription_t           s;
    kf_offsets_delete_record_t  r;

    if (g->offsets_n == 0) {
        return KC_OK;
    }

    if (kc_subscription_of(kc, g, &s)) {
        rc = kc_offsets_expire_record(kc, call, g, &s, &r, &more);
    }

    if (rc != KC_OK) {
        rc = kc_fail(kc, rc, "no memory for the expiry of offsets");

    } else if (r.topics_n) {
        kc_begin_large(kc, call->now);
        rc = kc_put(kc, KF_OFFSETS_DELETE_RECORD, &r);

        if (rc == KC_OK) {
            rc = kc_commit(kc, &call->wait);

        } else {
            kc_abandon(kc);
        }
    }

    kc_scratch_done(kc);

    if (more && rc == KC_OK) {
        g->check_deadline = call->now.mono_ms;
    }

    return rc;
}
