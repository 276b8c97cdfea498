/*
 * Rounds of a classic group: who is in the next generation.
 *
 *            join (kc_join_group)           round ends (kc_group_complete)
 *   EMPTY ───────────────────────> PREPARING ──GroupRecord──> COMPLETING
 *     ^                             ^  │                          │
 *     └──nobody left, GroupRecord───│──┘                          │
 *                                   │        leader's SyncGroup (kc_sync_group)
 *     join, leave, expiry, sync     │                   GroupAssignmentRecord
 *     deadline (kc_group_rebalance) │                             v
 *                                   └──────────────────────── STABLE
 *                 from COMPLETING and from STABLE
 *
 *   (deleted, kc_delete_groups or kc_tick: DeleteGroupRecord, from EMPTY only)
 *
 * A round that began in EMPTY ends when group.initial.rebalance.delay.ms is
 * over without a newcomer; any other when all members have joined and no id
 * that was given is unused, or at its deadline, the longest rebalance timeout:
 * at once when the last member has left.
 * Dynamic members that have not joined by then leave the group; static ones
 * stay until their session ends.
 *
 * PREPARING is volatile: after a recovery the group is what its last record
 * says, and members that know of a round begin it anew.
 */

#include "kc_group_int.h"
#include "kc_config_def.h"


int16_t
kc_member_validate(const kc_group_t *g, kf_str_t id, kf_str_t instance,
    kc_member_t **m)
{
    kc_member_t  *other;

    if (instance.data) {
        other = kc_member_static(g, instance);

        if (other == NULL) {
            return KF_ERR_UNKNOWN_MEMBER_ID;
        }

        if (kc_key_cmp(other->by_id.key, id) != 0) {
            return KF_ERR_FENCED_INSTANCE_ID;
        }
    }

    *m = kc_member_find(g, id);

    return *m ? KF_ERR_NONE : KF_ERR_UNKNOWN_MEMBER_ID;
}


void
kc_member_alive(kc_t *kc, kc_group_t *g, kc_member_t *m, int64_t now)
{
    m->deadline = kc_after(now, m->fresh && m->joining ? KC_JOIN_NEW_MS
                                                       : m->says->session_ms);
    kc_due(kc, g, m->deadline);
}


static bool
kc_body_has(const kc_body_t *b, kf_str_t protocol)
{
    int32_t  i;

    for (i = 0; i < b->protocols_n; i++) {
        if (kf_str_eq(b->protocols[i].name, protocol)) {
            return true;
        }
    }

    return false;
}


/* Do all members have it?  One of them may say something else: see elect. */
static bool
kc_group_all_have(const kc_group_t *g, kf_str_t protocol,
    const kc_member_t *changed, const kc_body_t *as)
{
    kc_member_t  *m;

    kc_each_live(g, m) {
        if (!kc_body_has(m == changed ? as : m->says, protocol)) {
            return false;
        }
    }

    return true;
}


bool
kc_group_supports(const kc_group_t *g, kf_str_t type,
    const kc_protocol_t *protocols, int32_t n)
{
    int32_t  i;

    if (type.len == 0 || n < 1 || n > KC_PROTOCOLS_MAX) {
        return false;
    }

    if (g->state == KC_GROUP_EMPTY || g->live == 0) {
        return true;
    }

    if (!kf_str_eq(kc_group_protocol_type(g), type)) {
        return false;
    }

    for (i = 0; i < n; i++) {
        if (kc_group_all_have(g, protocols[i].name, NULL, NULL)) {
            return true;
        }
    }

    return false;
}


/*
 * Each member votes for the first of its protocols that all have; most votes
 * win, then the order of the first member's protocols.  Only the first member's
 * have to be looked at, since all have to have it.
 */
kf_str_t
kc_group_elect_protocol(const kc_group_t *g, const kc_member_t *changed,
    const kc_body_t *as)
{
    int32_t           votes[KC_PROTOCOLS_MAX], n = 0, i, j, best = 0;
    kf_str_t          names[KC_PROTOCOLS_MAX];
    kc_member_t      *m;
    const kc_body_t  *b;

    kc_each_live(g, m) {
        b = m == changed ? as : m->says;

        for (i = 0; i < b->protocols_n && n < KC_PROTOCOLS_MAX; i++) {
            if (kc_group_all_have(g, b->protocols[i].name, changed, as)) {
                names[n] = b->protocols[i].name;
                votes[n++] = 0;
            }
        }

        break;
    }

    kc_each_live(g, m) {
        b = m == changed ? as : m->says;

        for (i = 0; i < b->protocols_n; i++) {
            for (j = 0; j < n; j++) {
                if (kf_str_eq(b->protocols[i].name, names[j])) {
                    votes[j]++;
                    break;
                }
            }

            if (j < n) {
                break;
            }
        }
    }

    for (i = 1; i < n; i++) {
        if (votes[i] > votes[best]) {
            best = i;
        }
    }

    return n ? names[best] : kf_null_str;
}


int32_t
kc_group_rebalance_ms(const kc_group_t *g)
{
    int32_t       ms = 0;
    kc_member_t  *m;

    kc_each_live(g, m) {
        if (m->says->rebalance_ms > ms) {
            ms = m->says->rebalance_ms;
        }
    }

    return ms;
}


/* Begins a round. */
static void
kc_group_prepare(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    bool          initial = g->state == KC_GROUP_EMPTY;
    int64_t       ms = kc_group_rebalance_ms(g);
    kc_member_t  *m;

    kc_each_live(g, m) {
        m->unsynced = false;

        if (m->syncing) {
            /* its poll answers: rebalance; its session counts again */
            m->syncing = false;
            kc_member_alive(kc, g, m, call->now.mono_ms);
        }
    }

    g->state = KC_GROUP_PREPARING;
    g->from_empty = initial;
    g->newcomer = false;
    g->sync_deadline = KC_NEVER;
    kc_woken(kc, g);

    if (initial) {
        g->join_delay = kc_broker_config_int(kc, call->config,
                                       KC_GROUP_INITIAL_REBALANCE_DELAY_MS);
        g->join_left = ms > g->join_delay ? ms - g->join_delay : 0;
        ms = g->join_delay;

        if (ms == 0) {
            kc_group_complete(kc, call, g);
            return;
        }

    } else if (g->live == 0
               || (g->joined == g->live && g->pending.count == 0))
    {
        kc_group_complete(kc, call, g);
        return;
    }

    g->join_deadline = kc_after(call->now.mono_ms, ms);
    kc_due(kc, g, g->join_deadline);
}


void
kc_group_maybe_complete(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    if (g->state == KC_GROUP_PREPARING && !g->from_empty
        && g->joined == g->live && g->pending.count == 0)
    {
        kc_group_complete(kc, call, g);
    }
}


void
kc_group_rebalance(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    if (g->state == KC_GROUP_PREPARING) {
        kc_group_maybe_complete(kc, call, g);

    } else {
        kc_group_prepare(kc, call, g);
    }
}


/* The record of the generation that begins with the members that there are. */
static bool
kc_group_record_make(kc_t *kc, kc_group_t *g, kc_call_t *call, kf_arena_t *a,
    kf_group_record_t *r)
{
    int32_t                     i = 0;
    kc_member_t                *m;
    kf_group_record_members_t  *rm;

    (void) kc;

    memset(r, 0, sizeof(kf_group_record_t));
    r->group_id = g->by_id.key;
    r->type = KC_GROUP_CLASSIC;
    r->generation = g->generation == INT32_MAX ? 1 : g->generation + 1;
    r->protocol_type = kc_group_protocol_type(g);
    r->state_timestamp = call->now.wall_ms;
    r->leader = -1;

    if (g->live == 0) {
        return true;
    }

    r->protocol_name = kc_group_elect_protocol(g, NULL, NULL);
    r->members_n = (int32_t) g->live;
    r->members = kf_arena_array(a, g->live, sizeof(kf_group_record_members_t));

    if (r->members == NULL) {
        return false;
    }

    kc_each_live(g, m) {
        rm = &r->members[i];

        if (m == g->leader) {
            r->leader = i;
        }

        rm->member_id = m->by_id.key;
        rm->instance_id = m->instance;
        rm->client_id = m->says->client_id;
        rm->client_host = m->says->client_host;
        rm->session_timeout_ms = m->says->session_ms;
        rm->rebalance_timeout_ms = m->says->rebalance_ms;
        rm->protocols = (void *) m->says->protocols;
        rm->protocols_n = m->says->protocols_n;
        i++;
    }

    return true;
}


static kc_rc_t
kc_group_generation(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    int64_t            end;
    kc_rc_t            rc;
    kf_arena_t         arena;
    kf_group_record_t  r;

    kc_scratch(kc, &arena, KC_DECISION_MAX);

    if (kc_group_record_make(kc, g, call, &arena, &r)) {
        kc_begin_large(kc, call->now);
        rc = kc_put(kc, KF_GROUP_RECORD, &r);

        if (rc == KC_OK) {
            rc = kc_commit(kc, &end);

        } else {
            kc_abandon(kc);
        }

    } else {
        rc = kc_fail(kc, KC_NO_MEMORY, "no memory for a group's record");
    }

    kc_scratch_done(kc);

    return rc;
}


void
kc_group_complete(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    int64_t       now = call->now.mono_ms;
    kc_member_t  *m, *next;

    g->join_deadline = KC_NEVER;

    for (m = g->first; m; m = next) {
        next = m->next;

        if (m->says && !m->joining && m->instance.data == NULL) {
            kc_member_gone(kc, g, m);
        }
    }

    if (g->live && !g->leader->joining) {

        kc_each_live(g, m) {
            if (m->joining) {
                g->leader = m;
                break;
            }
        }

        if (m == NULL) {
            /* only static members, and none has come back yet */
            g->join_deadline = kc_after(now, kc_group_rebalance_ms(g));
            kc_due(kc, g, g->join_deadline);
            return;
        }
    }

    if (kc_group_generation(kc, call, g) != KC_OK) {
        g->from_empty = false;
        g->join_deadline = kc_after(now, KC_RETRY_MS);
        kc_due(kc, g, g->join_deadline);
        return;
    }

    g->from_empty = false;
    g->joined = 0;

    kc_each_live(g, m) {
        m->joining = false;
        m->fresh = false;
        kc_member_alive(kc, g, m, now);
    }

    if (g->live) {
        g->sync_deadline = kc_after(now, kc_group_rebalance_ms(g));
        kc_due(kc, g, g->sync_deadline);
    }

    kc_woken(kc, g);
}
