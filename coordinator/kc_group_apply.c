/*
 * Replay of GroupRecord, GroupAssignmentRecord, GroupMemberRecord and
 * DeleteGroupRecord: the durable view of a group.
 *
 *   none, any   ─GroupRecord, members─────────> COMPLETING (snapshot: STABLE)
 *   none, any   ─GroupRecord, no members──────> EMPTY
 *   COMPLETING  ─GroupAssignmentRecord────────> STABLE
 *   STABLE      ─GroupMemberRecord: a static member under a new id─> STABLE
 *   any         ─DeleteGroupRecord────────────> none
 *
 * After each of them the live view is the durable one: who was to be part of
 * the generation is in the record, whoever is not in it has gone.  What is
 * volatile of a member that stays (its deadline, its tickets) stays too.
 */

#include "kc_group_int.h"

_Static_assert(sizeof(kc_protocol_t) == sizeof(kf_group_record_protocols_t)
               && sizeof(kc_protocol_t)
                  == sizeof(kf_group_member_record_protocols_t)
               && sizeof(kc_protocol_t)
                  == sizeof(kf_join_group_request_protocols_t),
               "name and metadata");


static size_t
kc_record_body_size(const kf_group_record_members_t *m)
{
    return kc_body_size(kf_null_str, m->client_id, m->client_host,
                        (const void *) m->protocols, m->protocols_n);
}


static size_t
kc_record_names_size(const kf_group_record_t *r)
{
    return (size_t) r->protocol_type.len + r->protocol_name.len + 1;
}


bool
kc_group_reserve(kc_t *kc, const kf_group_record_t *r)
{
    int32_t                           i;
    const kf_group_record_members_t  *m;

    if (!kc_reserve(kc, kc_group_size(r->group_id))
        || !kc_reserve(kc, kc_record_names_size(r)))
    {
        return false;
    }

    for (i = 0; i < r->members_n; i++) {
        m = &r->members[i];

        if (!kc_reserve(kc, kc_member_size(m->member_id, m->instance_id))
            || !kc_reserve(kc, kc_record_body_size(m))
            || (m->assignment.len && !kc_reserve(kc, m->assignment.len)))
        {
            return false;
        }
    }

    return true;
}


/* The durable view goes; live members stay with what they say, but instance ids
   are free for the members of the record. */
static void
kc_group_unsay(kc_t *kc, kc_group_t *g)
{
    kc_member_t  *m, *next;

    for (m = g->first; m; m = next) {
        next = m->next;

        kc_free(kc, (void *) m->assignment.data, m->assignment.len);
        m->assignment = kf_null_str;

        if (kc_member_static(g, m->instance) == m) {
            kc_map_remove(&g->instances, &m->by_instance);
        }

        if (m->said == NULL) {
            continue;
        }

        if (m->says == NULL) {
            kc_member_free(kc, g, m);
            continue;
        }

        if (m->says != m->said) {
            kc_free(kc, m->said, m->said->size);
        }

        m->said = NULL;
        g->said--;
    }

    g->said_leader = NULL;
}


/* All live members that are not in the durable view leave. */
static void
kc_group_settle(kc_t *kc, kc_group_t *g)
{
    kc_member_t  *m, *next;

    for (m = g->first; m; m = next) {
        next = m->next;

        if (m->said == NULL) {
            kc_member_gone(kc, g, m);
        }
    }

    g->leader = g->said_leader;
}


static kc_rc_t
kc_group_bad_member(kc_t *kc, kf_str_t group_id)
{
    return kc_fail(kc, KC_CORRUPT, "the journal gives group \"%.*s\" members "
                   "that it cannot have", (int) group_id.len, group_id.data);
}


/* One member of a generation; it comes last in the order. */
static kc_rc_t
kc_group_apply_member(kc_t *kc, kc_group_t *g, const kf_group_record_t *r,
    const kf_group_record_members_t *rm)
{
    size_t        size = kc_record_body_size(rm);
    uint8_t      *p;
    kc_body_t    *body;
    kc_member_t  *m, *taken;

    taken = kc_take(kc, kc_member_size(rm->member_id, rm->instance_id));
    body = kc_take(kc, size);
    p = rm->assignment.len ? kc_take(kc, rm->assignment.len) : NULL;

    kc_body_fill(body, size, kf_null_str, rm->client_id, rm->client_host,
                 (const void *) rm->protocols, rm->protocols_n);
    body->session_ms = rm->session_timeout_ms;
    body->rebalance_ms = rm->rebalance_timeout_ms;

    if (p) {
        memcpy(p, rm->assignment.data, rm->assignment.len);
    }

    m = kc_map_find(&g->members, rm->member_id);

    if ((m && (m->said || m->says == NULL
               || !kf_str_eq(m->instance, rm->instance_id)))
        || (rm->instance_id.data && kc_member_static(g, rm->instance_id)))
    {
        kc_free(kc, taken, kc_member_size(rm->member_id, rm->instance_id));
        kc_free(kc, body, size);
        kc_free(kc, p, rm->assignment.len);

        return kc_group_bad_member(kc, r->group_id);
    }

    if (m) {
        kc_free(kc, taken, kc_member_size(rm->member_id, rm->instance_id));
        kc_free(kc, m->says, m->says->size);

    } else {
        m = taken;
        kc_member_init(m, rm->member_id, rm->instance_id);
        kc_map_insert(&g->members, &m->by_id, m->by_id.key, m);
        kc_member_insert(g, m, NULL);
        g->live++;
    }

    if (m->instance.data) {
        kc_map_insert(&g->instances, &m->by_instance, m->instance, m);
    }

    m->said = body;
    m->says = body;
    m->assignment = (kf_bytes_t) { p, rm->assignment.len };
    g->said++;

    kc_member_last(g, m);

    return KC_OK;
}


kc_rc_t
kc_group_apply(kc_t *kc, const kf_group_record_t *r, int64_t end)
{
    size_t        size;
    uint8_t      *p;
    int32_t       i;
    kc_rc_t       rc;
    kc_group_t   *g, *taken;
    kc_member_t  *m;

    if (r->type != KC_GROUP_CLASSIC || r->generation < 0
        || r->leader < -1 || r->leader >= r->members_n
        || (r->members_n > 0) != (r->leader >= 0)
        || (r->members_n > 0 && r->protocol_name.data == NULL)
        || (r->stable && r->members_n == 0))
    {
        return kc_fail(kc, KC_CORRUPT, "the journal has a generation of group "
                       "\"%.*s\" that cannot be", (int) r->group_id.len,
                       r->group_id.data);
    }

    taken = kc_take(kc, kc_group_size(r->group_id));
    g = kc_group_find(kc, r->group_id);

    if (g) {
        kc_free(kc, taken, kc_group_size(r->group_id));

    } else {
        g = taken;
        kc_group_init(kc, g, r->group_id);
    }

    size = kc_record_names_size(r);
    kc_free(kc, g->names, g->names_size);
    g->names = kc_take(kc, size);
    g->names_size = size;

    p = g->names;
    g->protocol_type = kc_pack(&p, r->protocol_type);
    g->protocol = kc_pack(&p, r->protocol_name);

    kc_group_unsay(kc, g);

    for (i = 0; i < r->members_n; i++) {
        rc = kc_group_apply_member(kc, g, r, &r->members[i]);
        if (rc != KC_OK) {
            return rc;
        }

        if (i == r->leader) {
            g->said_leader = g->last;
        }
    }

    kc_group_settle(kc, g);

    g->type = (uint8_t) r->type;
    g->recorded = true;
    g->generation = r->generation;
    g->state_ms = r->state_timestamp;
    g->stable = r->stable;
    g->state = r->members_n == 0 ? KC_GROUP_EMPTY
               : r->stable ? KC_GROUP_STABLE : KC_GROUP_COMPLETING;

    kc_each_live(g, m) {
        m->unsynced = !r->stable;
    }

    kc_group_touch(kc, g, end);

    return KC_OK;
}


bool
kc_group_assignment_reserve(kc_t *kc, const kf_group_assignment_record_t *r)
{
    int32_t  i;

    for (i = 0; i < r->assignments_n; i++) {
        if (r->assignments[i].assignment.len
            && !kc_reserve(kc, r->assignments[i].assignment.len))
        {
            return false;
        }
    }

    return true;
}


kc_rc_t
kc_group_assignment_apply(kc_t *kc, const kf_group_assignment_record_t *r,
    int64_t end)
{
    int32_t       i = 0, rank = 0;
    uint8_t      *p;
    kf_bytes_t    a;
    kc_group_t   *g = kc_group_find(kc, r->group_id);
    kc_member_t  *m;

    if (g == NULL || g->said == 0 || g->stable
        || g->generation != r->generation)
    {
        return kc_fail(kc, KC_CORRUPT, "the journal assigns to generation %d "
                       "of group \"%.*s\", which does not wait for it",
                       r->generation, (int) r->group_id.len, r->group_id.data);
    }

    kc_each_said(g, m) {

        if (i < r->assignments_n && r->assignments[i].member == rank) {
            a = r->assignments[i++].assignment;

            if (a.len) {
                p = kc_take(kc, a.len);
                memcpy(p, a.data, a.len);
                m->assignment = (kf_bytes_t) { p, a.len };
            }
        }

        rank++;
    }

    if (i < r->assignments_n) {
        return kc_group_bad_member(kc, r->group_id);
    }

    g->stable = true;
    g->state_ms = r->state_timestamp;
    g->state = KC_GROUP_STABLE;
    kc_group_touch(kc, g, end);

    return KC_OK;
}


static size_t
kc_group_member_body_size(const kf_group_member_record_t *r)
{
    return kc_body_size(kf_null_str, r->client_id, r->client_host,
                        (const void *) r->protocols, r->protocols_n);
}


bool
kc_group_member_reserve(kc_t *kc, const kf_group_member_record_t *r)
{
    return kc_reserve(kc, kc_member_size(r->member_id, r->instance_id))
           && kc_reserve(kc, kc_group_member_body_size(r));
}


kc_rc_t
kc_group_member_apply(kc_t *kc, const kf_group_member_record_t *r, int64_t end)
{
    size_t        size = kc_group_member_body_size(r);
    kc_body_t    *body;
    kc_group_t   *g = kc_group_find(kc, r->group_id);
    kc_member_t  *m, *old = NULL;

    if (g) {
        old = kc_map_find(&g->members, r->old_member_id);
    }

    if (old == NULL || old->said == NULL || old->says != old->said
        || old->instance.data == NULL || !g->stable
        || !kf_str_eq(old->instance, r->instance_id)
        || kc_map_find(&g->members, r->member_id))
    {
        return kc_fail(kc, KC_CORRUPT, "the journal replaces a member that "
                       "group \"%.*s\" does not have", (int) r->group_id.len,
                       r->group_id.data);
    }

    m = kc_take(kc, kc_member_size(r->member_id, r->instance_id));
    body = kc_take(kc, size);

    kc_member_init(m, r->member_id, r->instance_id);
    kc_body_fill(body, size, kf_null_str, r->client_id, r->client_host,
                 (const void *) r->protocols, r->protocols_n);
    body->session_ms = r->session_timeout_ms;
    body->rebalance_ms = r->rebalance_timeout_ms;

    m->said = body;
    m->says = body;
    m->assignment = old->assignment;
    m->unsynced = old->unsynced;
    m->deadline = old->deadline;
    old->assignment = kf_null_str;

    kc_member_insert(g, m, old);
    kc_map_insert(&g->members, &m->by_id, m->by_id.key, m);
    kc_map_remove(&g->instances, &old->by_instance);
    kc_map_insert(&g->instances, &m->by_instance, m->instance, m);
    g->live++;
    g->said++;

    if (g->said_leader == old) {
        g->said_leader = m;
    }

    if (g->leader == old) {
        g->leader = m;
    }

    kc_member_free(kc, g, old);
    kc_group_touch(kc, g, end);

    return KC_OK;
}


kc_rc_t
kc_group_delete_apply(kc_t *kc, const kf_delete_group_record_t *r, int64_t end)
{
    kc_group_t  *g = kc_group_find(kc, r->group_id);

    if (g == NULL) {
        return kc_fail(kc, KC_CORRUPT, "the journal deletes group \"%.*s\", "
                       "which does not exist", (int) r->group_id.len,
                       r->group_id.data);
    }

    kc_group_drop(kc, g);
    kc->state->groups.changed = end;

    return KC_OK;
}
