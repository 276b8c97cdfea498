/*
 * Deadlines of groups.
 *
 * Each group is once in a map ordered by the time at which something of it may
 * be due.  A deadline that comes closer moves the group; one that goes further
 * away, as with every heartbeat, does not: when its time has come the group is
 * looked at in vain, and moves to its next deadline.
 */

#include "kc_group_int.h"
#include "kc_config_def.h"


#define KC_TICK_MAX  (KC_WOKEN - 1)


static void
kc_due_set(kc_t *kc, kc_group_t *g, int64_t when)
{
    int       i;
    uint64_t  due = (uint64_t) (when < 0 ? 0 : when);

    kc_due_remove(kc, g);

    for (i = 0; i < 8; i++) {
        g->due_key[i] = (uint8_t) (due >> (56 - 8 * i));
        g->due_key[8 + i] = (uint8_t) (g->serial >> (56 - 8 * i));
    }

    g->due = when;
    kc_map_insert(&kc->state->groups.by_due, &g->by_due,
                  (kf_str_t) { g->due_key, sizeof(g->due_key) }, g);
}


void
kc_due(kc_t *kc, kc_group_t *g, int64_t when)
{
    if (when < g->due) {
        kc_due_set(kc, g, when);
    }
}


void
kc_due_remove(kc_t *kc, kc_group_t *g)
{
    if (g->by_due.owner) {
        kc_map_remove(&kc->state->groups.by_due, &g->by_due);
        g->by_due.owner = NULL;
    }
}


static void
kc_earlier(int64_t *when, int64_t deadline)
{
    if (deadline < *when) {
        *when = deadline;
    }
}


/* Does a session's end matter now?  Who waits for the group is not late. */
static bool
kc_member_timed(const kc_member_t *m)
{
    return m->fresh || !(m->joining || m->syncing);
}


static int64_t
kc_group_next_due(const kc_group_t *g)
{
    int64_t        when = KC_NEVER;
    kc_member_t   *m;
    kc_pending_t  *p;

    kc_earlier(&when, g->join_deadline);
    kc_earlier(&when, g->sync_deadline);
    kc_earlier(&when, g->check_deadline);

    kc_each_live(g, m) {
        if (kc_member_timed(m)) {
            kc_earlier(&when, m->deadline);
        }
    }

    for (p = kc_map_next(&g->pending, kf_null_str); p;
         p = kc_map_next(&g->pending, p->by_id.key))
    {
        kc_earlier(&when, p->deadline);
    }

    return when;
}


/* The first tick after a recovery, or of a new group. */
static void
kc_group_arm(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    int64_t       now = call->now.mono_ms;
    kc_member_t  *m;

    g->armed = true;
    g->check_deadline = kc_after(now, kc_broker_config_int(kc, call->config,
                                     KC_OFFSETS_RETENTION_CHECK_INTERVAL_MS));

    kc_each_live(g, m) {
        if (m->deadline == 0) {
            kc_member_alive(kc, g, m, now);
        }
    }

    if (g->state == KC_GROUP_COMPLETING && g->sync_deadline == KC_NEVER) {
        g->sync_deadline = kc_after(now, kc_group_rebalance_ms(g));
    }

    if (g->state >= KC_GROUP_COMPLETING
        && g->live > kc_broker_config_int(kc, call->config, KC_GROUP_MAX_SIZE))
    {
        /* The limit was lowered: the last ones that join are refused. */
        kc_group_rebalance(kc, call, g);
    }
}


/* Ids that nobody joined with; true: some are gone. */
static bool
kc_group_expire_pending(kc_t *kc, kc_group_t *g, int64_t now)
{
    bool           gone = false;
    kc_pending_t  *p, *next;

    for (p = kc_map_next(&g->pending, kf_null_str); p; p = next) {
        next = kc_map_next(&g->pending, p->by_id.key);

        if (p->deadline <= now) {
            kc_pending_free(kc, g, p);
            gone = true;
        }
    }

    return gone;
}


static bool
kc_group_expire_members(kc_t *kc, kc_group_t *g, int64_t now)
{
    bool          gone = false;
    kc_member_t  *m, *next;

    for (m = g->first; m; m = next) {
        next = m->next;

        if (m->says && m->deadline <= now && kc_member_timed(m)) {
            kc_member_gone(kc, g, m);
            gone = true;
        }
    }

    return gone;
}


/* Members that have not asked for their assignment in time. */
static bool
kc_group_expire_unsynced(kc_t *kc, kc_group_t *g)
{
    bool          gone = false;
    kc_member_t  *m, *next;

    g->sync_deadline = KC_NEVER;

    for (m = g->first; m; m = next) {
        next = m->next;

        if (m->says && m->unsynced) {
            kc_member_gone(kc, g, m);
            gone = true;
        }
    }

    return gone;
}


static void
kc_group_join_due(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    int64_t  delay;

    if (g->from_empty && g->newcomer && g->join_left) {
        delay = kc_broker_config_int(kc, call->config,
                                     KC_GROUP_INITIAL_REBALANCE_DELAY_MS);

        if (delay > g->join_left) {
            delay = g->join_left;
        }

        g->newcomer = false;
        g->join_left = g->join_left > g->join_delay
                       ? g->join_left - g->join_delay : 0;
        g->join_delay = delay;
        g->join_deadline = kc_after(call->now.mono_ms, delay);
        return;
    }

    kc_group_complete(kc, call, g);
}


/* Offsets that have expired, and a group that nothing is left of. */
static kc_rc_t
kc_group_check(kc_t *kc, kc_call_t *call, kc_group_t *g, bool *deleted)
{
    kc_rc_t                   rc;
    kf_delete_group_record_t  r;

    g->check_deadline = kc_after(call->now.mono_ms,
                                 kc_broker_config_int(kc, call->config,
                                     KC_OFFSETS_RETENTION_CHECK_INTERVAL_MS));

    rc = kc_offsets_expire(kc, call, g);

    if (rc != KC_OK || g->state != KC_GROUP_EMPTY || !g->recorded
        || g->offsets_n || g->staged_n || g->pending.count)
    {
        return rc;
    }

    r.group_id = g->by_id.key;
    kc_begin(kc, call->now);
    rc = kc_put(kc, KF_DELETE_GROUP_RECORD, &r);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    rc = kc_commit(kc, &call->wait);
    *deleted = rc == KC_OK;

    return rc;
}


/* One group; it may be gone afterwards. */
static kc_rc_t
kc_group_tick(kc_t *kc, kc_call_t *call, kc_group_t *g)
{
    bool     gone, deleted = false;
    kc_rc_t  rc = KC_OK;
    int64_t  now = call->now.mono_ms;

    if (!g->armed) {
        kc_group_arm(kc, call, g);
    }

    if (kc_group_expire_pending(kc, g, now)) {
        kc_group_maybe_complete(kc, call, g);
    }

    gone = kc_group_expire_members(kc, g, now);

    if (g->sync_deadline <= now) {
        gone |= kc_group_expire_unsynced(kc, g);
    }

    if (gone && g->state != KC_GROUP_EMPTY) {
        kc_group_rebalance(kc, call, g);
    }

    if (g->join_deadline <= now) {
        kc_group_join_due(kc, call, g);
    }

    if (g->check_deadline <= now) {
        rc = kc_group_check(kc, call, g, &deleted);

        if (deleted) {
            return rc;
        }

        if (rc != KC_OK) {
            g->check_deadline = kc_after(now, KC_RETRY_MS);
        }
    }

    if (!kc_group_drop_unused(kc, g)) {
        kc_due_set(kc, g, kc_group_next_due(g));
    }

    return rc;
}


kc_rc_t
kc_tick(kc_t *kc, kc_call_t *call, uint32_t budget)
{
    kc_rc_t      rc = KC_OK;
    uint32_t     budget_all = budget;
    kc_group_t  *g;

    call->wait = 0;

    if (budget > KC_TICK_MAX) {
        budget = KC_TICK_MAX;
    }

    while (budget-- && rc == KC_OK) {
        g = kc_map_next(&kc->state->groups.by_due, kf_null_str);

        if (g == NULL || g->due > call->now.mono_ms) {
            break;
        }

        rc = kc_group_tick(kc, call, g);
    }

    return rc == KC_OK ? kc_txn_tick(kc, call, budget_all) : rc;
}


int64_t
kc_next_deadline(const kc_t *kc)
{
    int64_t            txns = kc_txn_next_due(kc);
    const kc_group_t  *g = kc_map_next(&kc->state->groups.by_due, kf_null_str);

    return g && g->due < txns ? g->due : txns;
}
