/*
 * DescribeGroups, ListGroups and DeleteGroups.
 */

#include "kc_group_int.h"

typedef kf_describe_groups_response_groups_t   kc_described_t;
typedef kf_describe_groups_response_members_t  kc_described_member_t;

/* READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, as Kafka's bits. */
#define KC_GROUP_OPERATIONS  (1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11)


static kf_str_t
kc_static_str(const char *text)
{
    return (kf_str_t) { (const uint8_t *) text, (uint32_t) strlen(text) };
}


static void
kc_wait_for(kc_call_t *call, int64_t changed)
{
    if (changed > call->wait) {
        call->wait = changed;
    }
}


/* --- DescribeGroups ------------------------------------------------------ */

static bool
kc_describe_members(kc_call_t *call, const kc_group_t *g, kc_described_t *out)
{
    bool                    ok = true;
    kc_member_t            *m;
    kc_described_member_t  *om;

    if (g->live == 0) {
        return true;
    }

    out->members = kf_arena_array(call->arena, g->live, sizeof(*om));
    if (out->members == NULL) {
        return false;
    }

    kc_each_live(g, m) {
        om = &out->members[out->members_n++];
        om->member_id = kf_arena_str(call->arena, m->by_id.key, &ok);
        om->group_instance_id = kf_arena_str(call->arena, m->instance, &ok);
        om->client_id = kf_arena_str(call->arena, m->says->client_id, &ok);
        om->client_host = kf_arena_str(call->arena, m->says->client_host, &ok);
        om->member_metadata = kf_str("");
        om->member_assignment = kf_str("");

        if (g->state == KC_GROUP_STABLE) {
            om->member_metadata = kf_arena_str(call->arena,
                                               kc_body_metadata(m->said,
                                                                g->protocol),
                                               &ok);
            if (m->assignment.len) {
                om->member_assignment = kf_arena_str(call->arena,
                                                     m->assignment, &ok);
            }
        }
    }

    return ok;
}


static bool
kc_describe_group(kc_t *kc, kc_call_t *call, int16_t version, kf_str_t id,
    kc_described_t *out)
{
    bool               ok = true;
    kf_str_t           type;
    const kc_group_t  *g = kc_group_find(kc, id);

    kf_init_describe_groups_response_groups(out);
    out->group_id = id;
    out->error_message = kf_null_str;
    out->group_state = kf_str("Dead");
    out->protocol_type = kf_str("");
    out->protocol_data = kf_str("");

    if (g == NULL) {
        kc_wait_for(call, kc_group_absent(kc));

        if (version >= 6) {
            out->error_code = KF_ERR_GROUP_ID_NOT_FOUND;
            out->error_message = kf_arena_printf(call->arena,
                                                 "Group %.*s not found.",
                                                 (int) id.len, id.data);
        }

        return true;
    }

    kc_wait_for(call, g->changed);

    out->group_state = kc_static_str(kc_group_state_name(g));
    type = kc_group_protocol_type(g);

    if (type.data) {
        out->protocol_type = kf_arena_str(call->arena, type, &ok);
    }

    if (g->state == KC_GROUP_STABLE) {
        out->protocol_data = kf_arena_str(call->arena, g->protocol, &ok);
    }

    return ok && kc_describe_members(call, g, out);
}


kc_rc_t
kc_describe_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_describe_groups_request_t *req,
    kf_describe_groups_response_t *rsp)
{
    int32_t  i;

    memset(rsp, 0, sizeof(kf_describe_groups_response_t));
    call->wait = 0;

    if (req->groups_n == 0) {
        return KC_OK;
    }

    rsp->groups = kf_arena_array(call->arena, (size_t) req->groups_n,
                                 sizeof(kc_described_t));
    if (rsp->groups == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->groups_n = req->groups_n;

    for (i = 0; i < req->groups_n; i++) {
        if (!kc_describe_group(kc, call, version, req->groups[i],
                               &rsp->groups[i]))
        {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }

        if (req->include_authorized_operations
            && rsp->groups[i].error_code == KF_ERR_NONE)
        {
            rsp->groups[i].authorized_operations = KC_GROUP_OPERATIONS;
        }
    }

    return KC_OK;
}


/* --- ListGroups ---------------------------------------------------------- */

/* Is it in the filter, blanks and case aside?  An empty filter takes all. */
static bool
kc_list_takes(const kf_str_t *filter, int32_t n, const char *name)
{
    int32_t   i;
    uint32_t  j, len = (uint32_t) strlen(name);
    kf_str_t  s;

    for (i = 0; i < n; i++) {
        s = filter[i];

        while (s.len && s.data[0] == ' ') {
            s.data++;
            s.len--;
        }

        while (s.len && s.data[s.len - 1] == ' ') {
            s.len--;
        }

        for (j = 0; s.len == len && j < len; j++) {
            if (((s.data[j] ^ (uint8_t) name[j]) & ~0x20) != 0) {
                break;
            }
        }

        if (s.len == len && j == len) {
            return true;
        }
    }

    return n <= 0;
}


kc_rc_t
kc_list_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_list_groups_request_t *req, kf_list_groups_response_t *rsp)
{
    bool                               ok = true;
    uint32_t                           n = kc->state->groups.by_id.count;
    kf_str_t                           type;
    kc_group_t                        *g;
    kf_list_groups_response_groups_t  *out;

    (void) version;

    memset(rsp, 0, sizeof(kf_list_groups_response_t));
    call->wait = kc->state->groups.changed;

    if (n == 0 || !kc_list_takes(req->types_filter, req->types_filter_n,
                                 "classic"))
    {
        return KC_OK;
    }

    rsp->groups = kf_arena_array(call->arena, n, sizeof(*out));
    ok = rsp->groups != NULL;

    for (g = kc_group_next(kc, kf_null_str); ok && g;
         g = kc_group_next(kc, g->by_id.key))
    {
        if (!kc_list_takes(req->states_filter, req->states_filter_n,
                           kc_group_state_name(g)))
        {
            continue;
        }

        out = &rsp->groups[rsp->groups_n++];
        type = kc_group_protocol_type(g);
        out->group_id = kf_arena_str(call->arena, g->by_id.key, &ok);
        out->protocol_type = type.data
                             ? kf_arena_str(call->arena, type, &ok)
                             : kf_str("");
        out->group_state = kc_static_str(kc_group_state_name(g));
        out->group_type = kf_str("classic");
    }

    return ok ? KC_OK : kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
}


/* --- DeleteGroups -------------------------------------------------------- */

static kc_rc_t
kc_delete_group(kc_t *kc, kc_call_t *call, int16_t version, kf_str_t id,
    kf_delete_groups_response_results_t *out)
{
    kc_rc_t                    rc;
    kc_group_t                *g = kc_group_find(kc, id);
    kf_delete_group_record_t   r;

    out->group_id = id;
    out->error_message = kf_null_str;

    if (g == NULL) {
        kc_wait_for(call, kc_group_absent(kc));
        out->error_code = KF_ERR_GROUP_ID_NOT_FOUND;

        if (version >= 3) {
            out->error_message = kf_arena_printf(call->arena,
                                                 "Group %.*s not found.",
                                                 (int) id.len, id.data);
        }

        return KC_OK;
    }

    kc_wait_for(call, g->changed);

    if (g->state != KC_GROUP_EMPTY) {
        out->error_code = KF_ERR_NON_EMPTY_GROUP;

        if (version >= 3) {
            out->error_message = kf_str("The group has members.");
        }

        return KC_OK;
    }

    if (!g->recorded && g->offsets_n == 0) {
        kc_group_drop(kc, g);           /* the journal does not know it */
        return KC_OK;
    }

    r.group_id = id;
    rc = kc_put(kc, KF_DELETE_GROUP_RECORD, &r);

    if (rc == KC_TOO_LARGE) {
        out->error_code = KF_ERR_GROUP_DELETION_FAILED;

        if (version >= 3) {
            out->error_message = kf_str("Too many groups in one request.");
        }

        return KC_OK;
    }

    return rc;
}


kc_rc_t
kc_delete_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_delete_groups_request_t *req, kf_delete_groups_response_t *rsp)
{
    int32_t                               i, n = req->groups_names_n;
    kc_rc_t                               rc = KC_OK;
    kc_map_t                              seen;
    kc_node_t                            *nodes;
    kf_delete_groups_response_results_t  *out;

    memset(rsp, 0, sizeof(kf_delete_groups_response_t));
    memset(&seen, 0, sizeof(seen));
    call->wait = 0;

    if (n <= 0) {
        return KC_OK;
    }

    rsp->results = kf_arena_array(call->arena, (size_t) n, sizeof(*out));
    nodes = kf_arena_array(call->arena, (size_t) n, sizeof(kc_node_t));

    if (rsp->results == NULL || nodes == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    kc_begin(kc, call->now);

    for (i = 0; i < n && rc == KC_OK; i++) {

        /* a name that is there twice is answered once, as in Kafka */
        if (kc_map_insert(&seen, &nodes[i], req->groups_names[i], &nodes[i])) {
            out = &rsp->results[rsp->results_n++];
            rc = kc_delete_group(kc, call, version, req->groups_names[i], out);
        }
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}
