/*
 * Groups in snapshots and in the state's hash, and their invariants.
 *
 * Per group, in order of ids: GroupRecord, if there ever was one, with the
 * assignments when they are in force; then OffsetsRecord … by topic id and
 * partition.
 */

#include <stdlib.h>

#include "kc_group_int.h"

#define KC_SNAPSHOT_OFFSETS  2000           /* of one record */
#define KC_SNAPSHOT_BYTES    (4 * 1024 * 1024)  /* … and their metadata */


static bool
kc_snapshot_group(kc_writer_t *w, const kc_group_t *g)
{
    bool                        ok;
    int32_t                     i = 0;
    kf_heap_t                   heap = { NULL };
    kf_arena_t                  arena;
    kc_member_t                *m;
    kf_group_record_t           r;
    kf_group_record_members_t  *rm;

    memset(&r, 0, sizeof(r));
    r.group_id = g->by_id.key;
    r.type = (int8_t) g->type;
    r.generation = g->generation;
    r.protocol_type = g->protocol_type;
    r.protocol_name = g->protocol;
    r.state_timestamp = g->state_ms;
    r.leader = -1;
    r.stable = g->stable;

    if (g->said) {
        kf_arena_init(&arena, kf_heap_chunk, &heap, SIZE_MAX);
        r.members = kf_arena_array(&arena, g->said, sizeof(*rm));
        r.members_n = (int32_t) g->said;

        if (r.members == NULL) {
            return false;
        }
    }

    kc_each_said(g, m) {
        rm = &r.members[i];

        if (m == g->said_leader) {
            r.leader = i;
        }

        rm->member_id = m->by_id.key;
        rm->instance_id = m->instance;
        rm->client_id = m->said->client_id;
        rm->client_host = m->said->client_host;
        rm->session_timeout_ms = m->said->session_ms;
        rm->rebalance_timeout_ms = m->said->rebalance_ms;
        rm->protocols = (void *) m->said->protocols;
        rm->protocols_n = m->said->protocols_n;
        rm->assignment = m->assignment;
        i++;
    }

    ok = kc_snapshot_put(w, KF_GROUP_RECORD, &r);
    kf_heap_free(&heap);

    return ok;
}


static bool
kc_snapshot_offsets(kc_writer_t *w, const kc_group_t *g,
    const kc_group_topic_t *t)
{
    bool                             ok = true;
    size_t                           bytes = 0;
    uint32_t                         i, n;
    const kc_offset_t               *o;
    kf_offsets_record_t              r;
    kf_offsets_record_topics_t       rt;
    kf_offsets_record_partitions_t  *rp;

    memset(&r, 0, sizeof(r));
    r.group_id = g->by_id.key;
    r.topics = &rt;
    r.topics_n = 1;

    if (t->n == 0) {
        return true;                    /* staged ones only */
    }

    n = t->n < KC_SNAPSHOT_OFFSETS ? t->n : KC_SNAPSHOT_OFFSETS;

    rp = malloc(n * sizeof(*rp));
    if (rp == NULL) {
        return false;
    }

    for (i = 0; ok && i < t->n; i++) {
        o = &t->offsets[i];

        if (bytes == 0) {
            rt.topic_id = t->topic->pub.id;
            rt.partitions = rp;
            rt.partitions_n = 0;
        }

        rp[rt.partitions_n++] = (kf_offsets_record_partitions_t) {
            .index = o->partition,
            .offset = o->offset,
            .leader_epoch = o->leader_epoch,
            .commit_timestamp = o->commit_ms,
            .metadata = kc_offset_metadata(o),
            .expire_timestamp = o->note ? o->note->expire_ms : -1
        };

        bytes += sizeof(kf_offsets_record_partitions_t)
                 + kc_offset_metadata(o).len;

        if (i + 1 == t->n) {
            ok = kc_snapshot_put(w, KF_OFFSETS_RECORD, &r);

        } else if (rt.partitions_n == KC_SNAPSHOT_OFFSETS
                   || bytes >= KC_SNAPSHOT_BYTES)
        {
            bytes = 0;

            /* The same topic goes on in another batch: see kc_offset.c. */
            ok = kc_snapshot_put(w, KF_OFFSETS_RECORD, &r)
                 && kc_snapshot_batch(w);
        }
    }

    free(rp);

    return ok;
}


bool
kc_snapshot_groups(kc_writer_t *w)
{
    const kc_group_t        *g;
    const kc_group_topic_t  *t;

    for (g = kc_group_next(w->kc, kf_null_str); g;
         g = kc_group_next(w->kc, g->by_id.key))
    {
        if (g->recorded && !kc_snapshot_group(w, g)) {
            return false;
        }

        for (t = kc_offsets_next(g, NULL); t; t = kc_offsets_next(g, t)) {
            if (!kc_snapshot_offsets(w, g, t)) {
                return false;
            }
        }
    }

    return true;
}


/* --- hash ---------------------------------------------------------------- */

static void
kc_hash_optional(uint64_t *h, kf_str_t s)
{
    kc_mix_number(h, s.data != NULL);
    kc_mix_str(h, s);
}


static void
kc_hash_member(const kc_member_t *m, uint64_t *h)
{
    int32_t           i;
    const kc_body_t  *b = m->said;

    kc_mix_str(h, m->by_id.key);
    kc_hash_optional(h, m->instance);
    kc_mix_str(h, m->assignment);
    kc_mix_str(h, b->client_id);
    kc_mix_str(h, b->client_host);
    kc_mix_number(h, b->session_ms);
    kc_mix_number(h, b->rebalance_ms);
    kc_mix_number(h, b->protocols_n);

    for (i = 0; i < b->protocols_n; i++) {
        kc_mix_str(h, b->protocols[i].name);
        kc_mix_str(h, b->protocols[i].metadata);
    }
}


static void
kc_hash_group(const kc_group_t *g, uint64_t *h)
{
    uint32_t                 i;
    kc_member_t             *m;
    const kc_offset_t       *o;
    const kc_group_topic_t  *t;

    kc_mix_str(h, g->by_id.key);
    kc_mix_number(h, g->recorded);

    if (g->recorded) {
        kc_mix_number(h, g->type);
        kc_mix_number(h, g->stable);
        kc_mix_number(h, g->generation);
        kc_mix_number(h, g->state_ms);
        kc_hash_optional(h, g->protocol_type);
        kc_hash_optional(h, g->protocol);
        kc_mix_number(h, g->said);

        kc_each_said(g, m) {
            kc_mix_number(h, m == g->said_leader);
            kc_hash_member(m, h);
        }
    }

    for (t = kc_offsets_next(g, NULL); t; t = kc_offsets_next(g, t)) {
        kc_mix(h, t->topic->pub.id.b, sizeof(t->topic->pub.id.b));
        kc_mix_number(h, t->n);

        for (i = 0; i < t->n; i++) {
            o = &t->offsets[i];
            kc_mix_number(h, o->partition);
            kc_mix_number(h, o->offset);
            kc_mix_number(h, o->leader_epoch);
            kc_mix_number(h, o->commit_ms);
            kc_mix_number(h, o->note ? o->note->expire_ms : -1);
            kc_mix_str(h, kc_offset_metadata(o));
        }
    }
}


void
kc_hash_groups(const kc_t *kc, uint64_t *h)
{
    const kc_group_t  *g;

    for (g = kc_group_next(kc, kf_null_str); g;
         g = kc_group_next(kc, g->by_id.key))
    {
        /* what is volatile only is not in the journal */
        if (g->recorded || g->offsets_n || g->staged_n) {
            kc_hash_group(g, h);
        }
    }
}


/* --- invariants ---------------------------------------------------------- */

static const char *
kc_check_members(const kc_group_t *g)
{
    uint32_t      live = 0, said = 0, joined = 0, statics = 0, all = 0;
    kc_member_t  *m, *prev = NULL;

    for (m = g->first; m; prev = m, m = m->next) {
        all++;
        live += m->says != NULL;
        said += m->said != NULL;
        joined += m->joining;
        statics += m->says && m->instance.data;

        if (m->prev != prev || kc_map_find(&g->members, m->by_id.key) != m) {
            return "G2: members are in one order and found by id";
        }

        if ((m->says == NULL && (m->said == NULL || m->joining || m->syncing))
            || (m->joining && g->state != KC_GROUP_PREPARING)
            || (m->syncing && g->state != KC_GROUP_COMPLETING))
        {
            return "G3: who waits is a member, and waits for what is to come";
        }

        if (m->says && m->instance.data
            && kc_member_static(g, m->instance) != m)
        {
            return "G4: an instance id belongs to one member";
        }

        if (m->says && m->deadline && m->deadline < g->due
            && (m->fresh || !(m->joining || m->syncing)))
        {
            return "G7: a group is looked at when a session ends";
        }
    }

    if (g->last != prev || all != g->members.count || live != g->live
        || said != g->said || joined != g->joined
        || statics != g->instances.count)
    {
        return "G2: members are counted";
    }

    if ((g->live > 0) != (g->leader != NULL)
        || (g->said > 0) != (g->said_leader != NULL)
        || (g->leader && g->leader->says == NULL)
        || (g->said_leader && g->said_leader->said == NULL))
    {
        return "G5: a group with members has one leader, who is one of them";
    }

    return NULL;
}


static const char *
kc_check_offsets(const kc_group_t *g)
{
    uint32_t                 i;
    uint64_t                 n = 0, staged = 0;
    const kc_group_topic_t  *t;

    for (t = kc_offsets_next(g, NULL); t; t = kc_offsets_next(g, t)) {
        n += t->n;
        staged += t->staged.count;

        if (t->n + t->staged.count == 0 || t->n + t->staged.count > t->room
            || t->group != g || !kc_map_check(&t->staged)
            || (t->prev ? t->prev->next : t->topic->offsets) != t
            || (t->next && t->next->prev != t))
        {
            return "G6: a group's topic has offsets, and the topic knows it";
        }

        for (i = 0; i < t->n; i++) {
            if (t->offsets[i].partition < 0
                || t->offsets[i].partition >= t->topic->pub.partition_count
                || (i && t->offsets[i - 1].partition
                         >= t->offsets[i].partition))
            {
                return "G6: offsets are sorted, one for each partition";
            }
        }
    }

    return n == g->offsets_n && staged == g->staged_n
           ? NULL : "G6: offsets are counted";
}


static const char *
kc_check_group(const kc_t *kc, const kc_group_t *g)
{
    bool         live;
    const char  *problem;

    if (!kc_map_check(&g->members) || !kc_map_check(&g->instances)
        || !kc_map_check(&g->pending) || !kc_map_check(&g->offsets))
    {
        return "G1: a group's maps are whole";
    }

    live = g->state == KC_GROUP_COMPLETING || g->state == KC_GROUP_STABLE;

    if ((live && (g->live == 0 || g->live != g->said
                  || g->stable != (g->state == KC_GROUP_STABLE)))
        || (g->state == KC_GROUP_EMPTY && (g->live || g->said))
        || (g->said && !g->recorded) || (g->stable && g->said == 0))
    {
        return "G5: the state of a group fits its members";
    }

    if (g->join_deadline < g->due || g->sync_deadline < g->due
        || g->check_deadline < g->due
        || (g->state == KC_GROUP_PREPARING && g->join_deadline == KC_NEVER)
        || (g->armed && g->state == KC_GROUP_COMPLETING
            && g->sync_deadline == KC_NEVER))
    {
        return "G7: a group is looked at when something is due";
    }

    if (g->changed > kc->state->groups.changed) {
        return "G8: no group changed after the last change";
    }

    problem = kc_check_members(g);

    return problem ? problem : kc_check_offsets(g);
}


const char *
kc_check_groups(const kc_t *kc)
{
    const char         *problem;
    const kc_group_t   *g;
    const kc_groups_t  *groups = &kc->state->groups;

    if (!kc_map_check(&groups->by_id) || !kc_map_check(&groups->by_due)
        || groups->by_id.count != groups->by_due.count)
    {
        return "G1: the maps of groups are whole and of one size";
    }

    for (g = kc_group_next(kc, kf_null_str); g;
         g = kc_group_next(kc, g->by_id.key))
    {
        problem = kc_check_group(kc, g);
        if (problem) {
            return problem;
        }
    }

    return NULL;
}
