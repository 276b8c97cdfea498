/*
 * SyncGroup, Heartbeat and LeaveGroup of classic groups.
 *
 *   COMPLETING: a follower's SyncGroup waits (`syncing`); the leader's brings
 *               the assignments: GroupAssignmentRecord, STABLE, all that wait
 *               answer
 *   STABLE:     SyncGroup answers at once
 *   PREPARING:  both hear REBALANCE_IN_PROGRESS, and so does a SyncGroup that
 *               waited for a generation that has been given up
 *
 * Whoever has not sent SyncGroup by the generation's sync deadline leaves the
 * group (kc_timer.c).
 */

#include "kc_group_int.h"


static kc_rc_t
kc_sync_refuse(kf_sync_group_response_t *rsp, int16_t error)
{
    memset(rsp, 0, sizeof(kf_sync_group_response_t));
    rsp->error_code = error;
    rsp->assignment = kf_str("");

    return KC_OK;
}


static kc_rc_t
kc_sync_answer(kc_t *kc, kc_call_t *call, const kc_group_t *g,
    const kc_member_t *m, kf_sync_group_response_t *rsp)
{
    bool  ok = true;

    memset(rsp, 0, sizeof(kf_sync_group_response_t));
    rsp->protocol_type = kf_arena_str(call->arena, g->protocol_type, &ok);
    rsp->protocol_name = kf_arena_str(call->arena, g->protocol, &ok);
    rsp->assignment = m->assignment.len
                      ? kf_arena_str(call->arena, m->assignment, &ok)
                      : kf_str("");
    call->wait = g->changed;

    return ok ? KC_OK : kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
}


static bool
kc_sync_differs(kf_str_t asked, kf_str_t is)
{
    return asked.data && is.data && !kf_str_eq(asked, is);
}


/* What the leader gives to one member of the generation. */
typedef struct {
    kc_node_t   node;
    kf_bytes_t  assignment;
} kc_given_t;


/* Assignments by member; the last one named counts, as in Kafka. */
static kc_rc_t
kc_sync_record(kc_t *kc, kc_call_t *call, const kc_group_t *g,
    const kf_sync_group_request_t *req, bool *large)
{
    size_t                                      size = 0;
    int32_t                                     i, rank = 0;
    int64_t                                     end;
    kc_rc_t                                     rc;
    kc_map_t                                    ranks;
    kc_given_t                                 *given, *one;
    kc_member_t                                *m;
    kf_group_assignment_record_t                r;
    kf_group_assignment_record_assignments_t   *ra;

    *large = false;
    memset(&r, 0, sizeof(r));
    memset(&ranks, 0, sizeof(ranks));

    given = kf_arena_array(call->arena, g->said, sizeof(kc_given_t));
    r.assignments = kf_arena_array(call->arena, g->said, sizeof(*ra));

    if (given == NULL || r.assignments == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the assignments");
    }

    kc_each_said(g, m) {
        kc_map_insert(&ranks, &given[rank].node, m->by_id.key, &given[rank]);
        rank++;
    }

    for (i = 0; i < req->assignments_n; i++) {
        one = kc_map_find(&ranks, req->assignments[i].member_id);

        if (one) {
            one->assignment = req->assignments[i].assignment;
        }
    }

    r.group_id = g->by_id.key;
    r.generation = g->generation;
    r.state_timestamp = call->now.wall_ms;

    for (i = 0; i < rank; i++) {
        if (given[i].assignment.len) {
            ra = &r.assignments[r.assignments_n++];
            ra->member = i;
            ra->assignment = given[i].assignment;
            size += given[i].assignment.len;
        }
    }

    if (size > KC_GROUP_BYTES_MAX) {
        *large = true;
        return KC_OK;
    }

    kc_begin_large(kc, call->now);
    rc = kc_put(kc, KF_GROUP_ASSIGNMENT_RECORD, &r);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &end);
}


static kc_rc_t
kc_sync_leader(kc_t *kc, kc_call_t *call, kc_group_t *g, kc_member_t *leader,
    const kf_sync_group_request_t *req, kf_sync_group_response_t *rsp)
{
    bool          large;
    kc_rc_t       rc;
    kc_member_t  *m;

    rc = kc_sync_record(kc, call, g, req, &large);
    if (rc != KC_OK) {
        return rc;
    }

    if (large) {
        return kc_sync_refuse(rsp, KF_ERR_UNKNOWN_SERVER_ERROR);
    }

    leader->unsynced = false;
    leader->syncing = true;

    kc_each_live(g, m) {
        if (m->syncing) {
            m->syncing = false;
            kc_member_alive(kc, g, m, call->now.mono_ms);
        }
    }

    kc_woken(kc, g);

    return kc_sync_answer(kc, call, g, leader, rsp);
}


kc_rc_t
kc_sync_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_sync_group_request_t *req, kc_park_t *park,
    kf_sync_group_response_t *rsp)
{
    int16_t       error;
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m = NULL;

    call->wait = g ? g->changed : kc_group_absent(kc);

    if (version >= 5
        && (req->protocol_type.data == NULL || req->protocol_name.data == NULL))
    {
        return kc_sync_refuse(rsp, KF_ERR_INCONSISTENT_GROUP_PROTOCOL);
    }

    if (req->group_id.len == 0) {
        return kc_sync_refuse(rsp, KF_ERR_INVALID_GROUP_ID);
    }

    error = g ? kc_member_validate(g, req->member_id, req->group_instance_id,
                                   &m)
              : KF_ERR_UNKNOWN_MEMBER_ID;

    if (error == KF_ERR_NONE && req->generation_id != g->generation) {
        error = KF_ERR_ILLEGAL_GENERATION;
    }

    if (error == KF_ERR_NONE
        && (kc_sync_differs(req->protocol_type, kc_group_protocol_type(g))
            || kc_sync_differs(req->protocol_name, g->protocol)))
    {
        error = KF_ERR_INCONSISTENT_GROUP_PROTOCOL;
    }

    if (error == KF_ERR_NONE && g->state == KC_GROUP_PREPARING) {
        error = KF_ERR_REBALANCE_IN_PROGRESS;
    }

    if (error) {
        return kc_sync_refuse(rsp, error);
    }

    if (g->state == KC_GROUP_STABLE) {
        m->unsynced = false;
        return kc_sync_answer(kc, call, g, m, rsp);
    }

    if (m == g->leader) {
        return kc_sync_leader(kc, call, g, m, req, rsp);
    }

    if (m->syncing) {
        kc_woken(kc, g);                /* an older request of its own */
    }

    m->unsynced = false;
    m->syncing = true;
    m->sync_ticket = ++kc->state->groups.serial;

    park->ticket = m->sync_ticket;
    park->hash = kc_group_hash(g->by_id.key);
    park->member_id = req->member_id;

    return KC_PARK;
}


kc_rc_t
kc_sync_group_poll(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_sync_group_request_t *req, const kc_park_t *park,
    kf_sync_group_response_t *rsp)
{
    int16_t       error = KF_ERR_UNKNOWN_MEMBER_ID;
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m = NULL;

    (void) version;

    call->wait = g ? g->changed : kc_group_absent(kc);

    if (g) {
        error = kc_member_validate(g, req->member_id, req->group_instance_id,
                                   &m);
    }

    if (error) {
        return kc_sync_refuse(rsp, error);
    }

    if (m->sync_ticket != park->ticket || req->generation_id != g->generation
        || (g->state != KC_GROUP_STABLE && !m->syncing))
    {
        return kc_sync_refuse(rsp, KF_ERR_REBALANCE_IN_PROGRESS);
    }

    return m->syncing ? KC_PARK : kc_sync_answer(kc, call, g, m, rsp);
}


kc_rc_t
kc_heartbeat(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_heartbeat_request_t *req, kf_heartbeat_response_t *rsp)
{
    int16_t       error;
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m = NULL;

    (void) version;

    memset(rsp, 0, sizeof(kf_heartbeat_response_t));
    call->wait = g ? g->changed : kc_group_absent(kc);

    if (req->group_id.len == 0) {
        rsp->error_code = KF_ERR_INVALID_GROUP_ID;
        return KC_OK;
    }

    error = g ? kc_member_validate(g, req->member_id, req->group_instance_id,
                                   &m)
              : KF_ERR_UNKNOWN_MEMBER_ID;

    if (error == KF_ERR_NONE && req->generation_id != g->generation) {
        error = KF_ERR_ILLEGAL_GENERATION;
    }

    if (error == KF_ERR_NONE) {
        kc_member_alive(kc, g, m, call->now.mono_ms);

        if (g->state == KC_GROUP_PREPARING) {
            error = KF_ERR_REBALANCE_IN_PROGRESS;
        }
    }

    rsp->error_code = error;

    return KC_OK;
}


/* One leaves: by its id, or by the admin's word with its instance id alone. */
static int16_t
kc_leave_one(kc_t *kc, kc_group_t *g, kf_str_t id, kf_str_t instance,
    bool *left)
{
    int16_t        error;
    kc_member_t   *m = NULL;
    kc_pending_t  *p;

    if (g == NULL) {
        return KF_ERR_UNKNOWN_MEMBER_ID;
    }

    if (id.len == 0) {
        m = instance.data ? kc_member_static(g, instance) : NULL;

        if (m == NULL) {
            return KF_ERR_UNKNOWN_MEMBER_ID;
        }

    } else {
        p = kc_map_find(&g->pending, id);

        if (p) {
            kc_pending_free(kc, g, p);
            return KF_ERR_NONE;
        }

        error = kc_member_validate(g, id, instance, &m);
        if (error) {
            return error;
        }
    }

    kc_member_gone(kc, g, m);
    *left = true;

    return KF_ERR_NONE;
}


kc_rc_t
kc_leave_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_leave_group_request_t *req, kf_leave_group_response_t *rsp)
{
    bool                                     left = false;
    int32_t                                  i;
    kc_group_t                              *g;
    kf_leave_group_response_members_t       *out;
    const kf_leave_group_request_members_t  *in;

    g = kc_group_find(kc, req->group_id);

    memset(rsp, 0, sizeof(kf_leave_group_response_t));
    call->wait = g ? g->changed : kc_group_absent(kc);

    if (req->group_id.len == 0) {
        rsp->error_code = KF_ERR_INVALID_GROUP_ID;
        return KC_OK;
    }

    if (version >= 3 && req->members_n > 0) {
        rsp->members = kf_arena_array(call->arena, (size_t) req->members_n,
                                      sizeof(*out));
        if (rsp->members == NULL) {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }
    }

    if (version < 3) {
        rsp->error_code = kc_leave_one(kc, g, req->member_id, kf_null_str,
                                       &left);

    } else {
        for (i = 0; i < req->members_n; i++) {
            in = &req->members[i];
            out = &rsp->members[rsp->members_n++];
            out->member_id = in->member_id;
            out->group_instance_id = in->group_instance_id;
            out->error_code = kc_leave_one(kc, g, in->member_id,
                                           in->group_instance_id, &left);
        }
    }

    if (g == NULL) {
        return KC_OK;
    }

    if (left && g->state != KC_GROUP_EMPTY) {
        kc_group_rebalance(kc, call, g);

    } else {
        /* an id that was given and not used no longer holds up the round */
        kc_group_maybe_complete(kc, call, g);
    }

    call->wait = g->changed;

    return KC_OK;
}
