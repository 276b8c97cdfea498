/*
 * JoinGroup: members come, come back, and say something new.
 *
 *   unknown ──no id, version 4+──> pending ──its id──> joining
 *      ├─────no id, older or static──────────────────────^ │ round ends
 *      └─────instance id of a member: that one's place      v
 *   member ──rejoins──> joining ──kc_group_complete──────> member
 *
 * A member that is `joining` has a ticket; the poll of that ticket answers
 * once it is joining no more, with the generation that the round ended in,
 * even when the next round has begun since.
 */

#include "kc_group_int.h"
#include "kc_config_def.h"


/* One JoinGroup on its way through the functions below. */
typedef struct {
    kc_t                           *kc;
    kc_call_t                      *call;
    int16_t                         version;
    const kc_client_t              *client;
    const kf_join_group_request_t  *req;
    int32_t                         rebalance_ms;
    const kc_protocol_t            *protocols;
    kc_park_t                      *park;
    kf_join_group_response_t       *rsp;
} kc_join_t;


static void
kc_join_init(int16_t version, kf_str_t member_id,
    kf_join_group_response_t *rsp)
{
    kf_init_join_group_response(rsp);
    rsp->generation_id = -1;
    rsp->protocol_name = version >= 7 ? kf_null_str : kf_str("");
    rsp->leader = kf_str("");
    rsp->member_id = member_id;
}


static kc_rc_t
kc_join_refuse(kc_join_t *j, int16_t error, kf_str_t member_id)
{
    kc_join_init(j->version, member_id, j->rsp);
    j->rsp->error_code = error;

    return KC_OK;
}


/* What the member hears of its generation. */
static kc_rc_t
kc_join_answer(kc_t *kc, kc_call_t *call, int16_t version,
    const kc_group_t *g, const kc_member_t *m, kf_join_group_response_t *rsp)
{
    bool                               ok = true;
    kc_member_t                       *other;
    kf_join_group_response_members_t  *out;

    kc_join_init(version, kf_arena_str(call->arena, m->by_id.key, &ok), rsp);
    rsp->generation_id = g->generation;
    rsp->protocol_type = kf_arena_str(call->arena, g->protocol_type, &ok);
    rsp->protocol_name = kf_arena_str(call->arena, g->protocol, &ok);
    rsp->leader = kf_arena_str(call->arena, g->said_leader->by_id.key, &ok);
    call->wait = g->changed;

    if (m == g->said_leader) {
        rsp->members = kf_arena_array(call->arena, g->said, sizeof(*out));
        ok = ok && rsp->members;

        if (ok) {
            kc_each_said(g, other) {
                out = &rsp->members[rsp->members_n++];
                out->member_id = kf_arena_str(call->arena, other->by_id.key,
                                              &ok);
                out->group_instance_id = kf_arena_str(call->arena,
                                                      other->instance, &ok);
                out->metadata = kf_arena_str(call->arena,
                                             kc_body_metadata(other->said,
                                                              g->protocol),
                                             &ok);
            }
        }
    }

    return ok ? KC_OK : kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
}


static kc_rc_t
kc_join_wait(kc_join_t *j, kc_group_t *g, kc_member_t *m)
{
    bool  ok = true;

    if (!m->joining) {
        return kc_join_answer(j->kc, j->call, j->version, g, m, j->rsp);
    }

    j->park->ticket = m->join_ticket;
    j->park->hash = kc_group_hash(g->by_id.key);
    j->park->generation = g->generation;
    j->park->member_id = kf_arena_str(j->call->arena, m->by_id.key, &ok);

    return ok ? KC_PARK
              : kc_fail(j->kc, KC_NO_MEMORY, "no memory for the answer");
}


/* "<client or instance id>-<uuid>", in the arena. */
static kf_str_t
kc_join_member_id(kc_join_t *j)
{
    static const char  hex[] = "0123456789abcdef";
    uint8_t           *p, *start;
    uint32_t           i, len;
    kf_str_t           prefix;
    kf_uuid_t          id;

    prefix = j->req->group_instance_id;

    if (prefix.data == NULL) {
        prefix = j->client->id;

        if (prefix.len > KC_CLIENT_ID_SHOWN) {
            prefix.len = KC_CLIENT_ID_SHOWN;
        }
    }

    len = prefix.len + 37;
    start = kf_arena_alloc(j->call->arena, len);

    if (start == NULL) {
        return kf_null_str;
    }

    p = start;
    (void) kc_pack(&p, prefix);
    id = kc_random_uuid(j->kc);
    *p++ = '-';

    for (i = 0; i < sizeof(id.b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *p++ = '-';
        }

        *p++ = (uint8_t) hex[id.b[i] >> 4];
        *p++ = (uint8_t) hex[id.b[i] & 15];
    }

    return (kf_str_t) { start, len };
}


static kc_body_t *
kc_join_body(kc_join_t *j)
{
    size_t      size;
    kc_body_t  *b;

    size = kc_body_size(j->req->protocol_type, j->client->id, j->client->host,
                        j->protocols, j->req->protocols_n);
    b = j->kc->mem.alloc(j->kc->mem.ctx, size);

    if (b) {
        kc_body_fill(b, size, j->req->protocol_type, j->client->id,
                     j->client->host, j->protocols, j->req->protocols_n);
        b->session_ms = j->req->session_timeout_ms;
        b->rebalance_ms = j->rebalance_ms;
    }

    return b;
}


static kc_rc_t
kc_join_full(kc_join_t *j)
{
    return kc_fail(j->kc, KC_NO_MEMORY, "the broker's zone is full: "
                   "raise the \"zone\" directive's size");
}


/* Is there room for what this member says, instead of what it said? */
static int16_t
kc_join_room(const kc_join_t *j, const kc_group_t *g, const kc_member_t *old)
{
    size_t              size, all;
    const kc_member_t  *m;

    size = kc_body_size(j->req->protocol_type, j->client->id, j->client->host,
                        j->protocols, j->req->protocols_n);

    if (size > KC_MEMBER_BYTES_MAX) {
        /* Kafka's answer to what fits into no record. */
        return KF_ERR_UNKNOWN_SERVER_ERROR;
    }

    all = size;

    if (g) {
        kc_each_live(g, m) {
            if (m != old) {
                all += m->says->size + m->by_id.key.len + m->instance.len;
            }
        }
    }

    return all > KC_GROUP_BYTES_MAX ? KF_ERR_GROUP_MAX_SIZE_REACHED
                                    : KF_ERR_NONE;
}


static void
kc_join_mark(kc_join_t *j, kc_group_t *g, kc_member_t *m)
{
    if (m->joining) {
        kc_woken(j->kc, g);             /* an older request of its own */

    } else {
        m->joining = true;
        g->joined++;
    }

    m->join_ticket = ++j->kc->state->groups.serial;
}


/* A new member; what it needs is allocated before anything changes. */
static kc_rc_t
kc_join_add(kc_join_t *j, kc_group_t *g, kf_str_t id)
{
    kf_str_t       instance = j->req->group_instance_id;
    kc_body_t     *body;
    kc_member_t   *m;
    kc_pending_t  *p;

    body = kc_join_body(j);
    m = j->kc->mem.alloc(j->kc->mem.ctx, kc_member_size(id, instance));

    if (body && m && g == NULL) {
        g = kc_group_create(j->kc, j->req->group_id);
    }

    if (body == NULL || m == NULL || g == NULL) {
        kc_free(j->kc, body, body ? body->size : 0);
        kc_free(j->kc, m, kc_member_size(id, instance));
        return kc_join_full(j);
    }

    kc_member_init(m, id, instance);
    kc_map_insert(&g->members, &m->by_id, m->by_id.key, m);
    kc_member_insert(g, m, NULL);

    if (instance.data) {
        kc_map_insert(&g->instances, &m->by_instance, m->instance, m);
    }

    m->says = body;
    m->fresh = true;
    g->live++;

    if (g->leader == NULL) {
        g->leader = m;
    }

    p = kc_map_find(&g->pending, id);
    if (p) {
        kc_pending_free(j->kc, g, p);
    }

    if (g->state == KC_GROUP_PREPARING && g->from_empty) {
        g->newcomer = true;
    }

    kc_join_mark(j, g, m);
    kc_member_alive(j->kc, g, m, j->call->now.mono_ms);
    kc_group_rebalance(j->kc, j->call, g);

    return kc_join_wait(j, g, m);
}


/* What the member says is replaced, and it joins the round. */
static kc_rc_t
kc_join_update(kc_join_t *j, kc_group_t *g, kc_member_t *m)
{
    int16_t     error = kc_join_room(j, g, m);
    kc_body_t  *body;

    if (error) {
        return kc_join_refuse(j, error, j->req->member_id);
    }

    body = kc_join_body(j);
    if (body == NULL) {
        return kc_join_full(j);
    }

    if (m->says != m->said) {
        kc_free(j->kc, m->says, m->says->size);
    }

    m->says = body;
    kc_join_mark(j, g, m);
    kc_due(j->kc, g, m->deadline);
    kc_group_rebalance(j->kc, j->call, g);

    return kc_join_wait(j, g, m);
}


/* The static member's place in the group goes to a new id, without a round. */
static kc_rc_t
kc_join_replace_stable(kc_join_t *j, kc_group_t *g, kc_member_t *old,
    kf_str_t id)
{
    bool                       ok = true;
    int64_t                    end;
    kc_rc_t                    rc;
    kf_str_t                   leader;
    kc_member_t               *m;
    kf_group_member_record_t   r;

    leader = kf_arena_str(j->call->arena, g->said_leader->by_id.key, &ok);
    if (!ok) {
        return kc_fail(j->kc, KC_NO_MEMORY, "no memory for the answer");
    }

    memset(&r, 0, sizeof(r));
    r.group_id = g->by_id.key;
    r.old_member_id = old->by_id.key;
    r.instance_id = old->instance;
    r.member_id = id;
    r.client_id = j->client->id;
    r.client_host = j->client->host;
    r.session_timeout_ms = j->req->session_timeout_ms;
    r.rebalance_timeout_ms = j->rebalance_ms;
    r.protocols = (void *) j->protocols;
    r.protocols_n = j->req->protocols_n;

    kc_begin_large(j->kc, j->call->now);
    rc = kc_put(j->kc, KF_GROUP_MEMBER_RECORD, &r);

    if (rc != KC_OK) {
        kc_abandon(j->kc);
        return rc;
    }

    rc = kc_commit(j->kc, &end);
    if (rc != KC_OK) {
        return rc;
    }

    m = kc_member_find(g, id);
    kc_member_alive(j->kc, g, m, j->call->now.mono_ms);

    rc = kc_join_answer(j->kc, j->call, j->version, g, m, j->rsp);

    if (j->version >= 9) {
        j->rsp->skip_assignment = m == g->said_leader;

    } else if (m == g->said_leader) {
        /* It must not assign: it does not know its predecessor's members. */
        j->rsp->leader = leader;
        j->rsp->members = NULL;
        j->rsp->members_n = 0;
    }

    return rc;
}


/* A static member that comes back without its id. */
static kc_rc_t
kc_join_replace(kc_join_t *j, kc_group_t *g, kc_member_t *old, kf_str_t id)
{
    kf_str_t      elected;
    kc_body_t    *body;
    kc_member_t  *m;

    body = kc_join_body(j);
    if (body == NULL) {
        return kc_join_full(j);
    }

    if (g->state == KC_GROUP_STABLE) {
        elected = kc_group_elect_protocol(g, old, body);

        if (kf_str_eq(elected, g->protocol)) {
            kc_free(j->kc, body, body->size);
            return kc_join_replace_stable(j, g, old, id);
        }
    }

    m = j->kc->mem.alloc(j->kc->mem.ctx, kc_member_size(id, old->instance));
    if (m == NULL) {
        kc_free(j->kc, body, body->size);
        return kc_join_full(j);
    }

    kc_member_init(m, id, old->instance);
    kc_map_insert(&g->members, &m->by_id, m->by_id.key, m);
    kc_member_insert(g, m, NULL);
    kc_map_remove(&g->instances, &old->by_instance);
    kc_map_insert(&g->instances, &m->by_instance, m->instance, m);

    m->says = body;
    g->live++;

    if (g->leader == old) {
        g->leader = m;
    }

    kc_member_gone(j->kc, g, old);

    kc_join_mark(j, g, m);
    kc_member_alive(j->kc, g, m, j->call->now.mono_ms);
    kc_group_rebalance(j->kc, j->call, g);

    return kc_join_wait(j, g, m);
}


/* An id that has to be used within the session timeout. */
static kc_rc_t
kc_join_pending(kc_join_t *j, kc_group_t *g, kf_str_t id)
{
    uint8_t       *text;
    kc_pending_t  *p;

    p = j->kc->mem.alloc(j->kc->mem.ctx, sizeof(kc_pending_t) + id.len);

    if (p && g == NULL) {
        g = kc_group_create(j->kc, j->req->group_id);
    }

    if (p == NULL || g == NULL) {
        kc_free(j->kc, p, sizeof(kc_pending_t) + id.len);
        return kc_join_full(j);
    }

    text = (uint8_t *) (p + 1);
    memset(p, 0, sizeof(kc_pending_t));
    kc_map_insert(&g->pending, &p->by_id, kc_pack(&text, id), p);
    p->deadline = kc_after(j->call->now.mono_ms, j->req->session_timeout_ms);
    kc_due(j->kc, g, p->deadline);

    return kc_join_refuse(j, KF_ERR_MEMBER_ID_REQUIRED, id);
}


static kc_rc_t
kc_join_new(kc_join_t *j, kc_group_t *g)
{
    int16_t       error;
    kf_str_t      id, instance = j->req->group_instance_id;
    kc_member_t  *old = NULL;

    if (g && instance.data) {
        old = kc_member_static(g, instance);
    }

    error = kc_join_room(j, g, old);
    if (error) {
        return kc_join_refuse(j, error, kf_str(""));
    }

    id = kc_join_member_id(j);
    if (id.data == NULL) {
        return kc_fail(j->kc, KC_NO_MEMORY, "no memory for the answer");
    }

    if (instance.data == NULL && j->version >= 4) {
        return kc_join_pending(j, g, id);
    }

    return old ? kc_join_replace(j, g, old, id) : kc_join_add(j, g, id);
}


static bool
kc_body_matches(const kc_body_t *b, const kc_join_t *j)
{
    int32_t  i;

    if (b->protocols_n != j->req->protocols_n) {
        return false;
    }

    for (i = 0; i < b->protocols_n; i++) {
        if (!kf_str_eq(b->protocols[i].name, j->protocols[i].name)
            || kc_key_cmp(b->protocols[i].metadata, j->protocols[i].metadata)
               != 0)
        {
            return false;
        }
    }

    return true;
}


static kc_rc_t
kc_join_known(kc_join_t *j, kc_group_t *g)
{
    int16_t       error;
    kf_str_t      id = j->req->member_id;
    kc_member_t  *m;

    if (kc_map_find(&g->pending, id) && j->req->group_instance_id.data == NULL)
    {
        error = kc_join_room(j, g, NULL);

        return error ? kc_join_refuse(j, error, id) : kc_join_add(j, g, id);
    }

    error = kc_member_validate(g, id, j->req->group_instance_id, &m);
    if (error) {
        return kc_join_refuse(j, error, id);
    }

    /* Who has heard nothing of its generation asks again; a leader that joins a
       stable group, and a member with something new to say, want a round. */
    if (g->state != KC_GROUP_PREPARING && kc_body_matches(m->says, j)
        && !(g->state == KC_GROUP_STABLE && m == g->leader))
    {
        return kc_join_answer(j->kc, j->call, j->version, g, m, j->rsp);
    }

    return kc_join_update(j, g, m);
}


/* May one more join?  In a round those count that have joined it, so that the
   last ones are refused when there are more members than there may be. */
static bool
kc_join_fits(const kc_join_t *j, const kc_group_t *g)
{
    int64_t       max = kc_broker_config_int(j->kc, j->call->config,
                                             KC_GROUP_MAX_SIZE);
    kc_member_t  *m;

    if (g == NULL || g->state == KC_GROUP_EMPTY) {
        return true;
    }

    m = kc_member_find(g, j->req->member_id);

    if (g->state == KC_GROUP_PREPARING) {
        return (m && m->joining) || g->joined < max;
    }

    return m || g->live < max;
}


kc_rc_t
kc_join_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kc_client_t *client, const kf_join_group_request_t *req,
    kc_park_t *park, kf_join_group_response_t *rsp)
{
    bool         unknown = req->member_id.len == 0, supported;
    int64_t      session = req->session_timeout_ms;
    kc_client_t  who = { client->id.data ? client->id : kf_str(""),
                         client->host.data ? client->host : kf_str("") };
    kc_join_t    j = { kc, call, version, &who, req, 0,
                       (const void *) req->protocols, park, rsp };
    kc_group_t  *g = kc_group_find(kc, req->group_id);

    call->wait = g ? g->changed : kc_group_absent(kc);
    j.rebalance_ms = version == 0 ? req->session_timeout_ms
                                  : req->rebalance_timeout_ms;

    if (req->group_id.len == 0 || req->group_id.len > KC_GROUP_ID_MAX) {
        return kc_join_refuse(&j, KF_ERR_INVALID_GROUP_ID, req->member_id);
    }

    if (session < kc_broker_config_int(kc, call->config,
                                       KC_GROUP_MIN_SESSION_TIMEOUT_MS)
        || session > kc_broker_config_int(kc, call->config,
                                          KC_GROUP_MAX_SESSION_TIMEOUT_MS))
    {
        return kc_join_refuse(&j, KF_ERR_INVALID_SESSION_TIMEOUT,
                              req->member_id);
    }

    if (req->group_instance_id.len > KC_INSTANCE_ID_MAX) {
        return kc_join_refuse(&j, KF_ERR_INVALID_REQUEST, req->member_id);
    }

    if (g == NULL && !unknown) {
        return kc_join_refuse(&j, KF_ERR_UNKNOWN_MEMBER_ID, req->member_id);
    }

    if (g && g->type != KC_GROUP_CLASSIC) {
        return kc_join_refuse(&j, KF_ERR_INCONSISTENT_GROUP_PROTOCOL,
                              kf_str(""));
    }

    if (!kc_join_fits(&j, g)) {
        return kc_join_refuse(&j, KF_ERR_GROUP_MAX_SIZE_REACHED, kf_str(""));
    }

    supported = g ? kc_group_supports(g, req->protocol_type, j.protocols,
                                      req->protocols_n)
                  : req->protocol_type.len && req->protocols_n >= 1
                    && req->protocols_n <= KC_PROTOCOLS_MAX;

    if (!supported) {
        return kc_join_refuse(&j, KF_ERR_INCONSISTENT_GROUP_PROTOCOL,
                              req->member_id);
    }

    return unknown ? kc_join_new(&j, g) : kc_join_known(&j, g);
}


kc_rc_t
kc_join_group_poll(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_join_group_request_t *req, const kc_park_t *park,
    kf_join_group_response_t *rsp)
{
    int16_t       error = KF_ERR_UNKNOWN_MEMBER_ID;
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m = NULL;

    call->wait = g ? g->changed : kc_group_absent(kc);

    if (g) {
        error = kc_member_validate(g, park->member_id, req->group_instance_id,
                                   &m);
    }

    if (error == KF_ERR_NONE && m->join_ticket != park->ticket) {
        /* Kafka never answers it; a client that reads it joins again. */
        error = KF_ERR_REBALANCE_IN_PROGRESS;
    }

    if (error) {
        kc_join_init(version, error == KF_ERR_UNKNOWN_MEMBER_ID
                              ? kf_str("") : park->member_id, rsp);
        rsp->error_code = error;
        return KC_OK;
    }

    if (m->joining) {
        return KC_PARK;
    }

    return kc_join_answer(kc, call, version, g, m, rsp);
}


kc_rc_t
kc_join_group_again(kc_t *kc, kc_call_t *call, int16_t version,
    const kc_client_t *client, const kf_join_group_request_t *req,
    kc_park_t *park, kf_join_group_response_t *rsp)
{
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m = NULL;

    if (g && g->generation > park->generation
        && kc_member_validate(g, park->member_id, req->group_instance_id, &m)
           == KF_ERR_NONE
        && m->said && !m->joining)
    {
        return kc_join_answer(kc, call, version, g, m, rsp);
    }

    return kc_join_group(kc, call, version, client, req, park, rsp);
}
