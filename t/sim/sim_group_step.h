/*
 * Members of sim_group.h, step by step: heartbeats, commits and departures; the
 * timer; the checks of groups.
 */

#ifndef SIM_GROUP_STEP_H
#define SIM_GROUP_STEP_H

#include "sim_group.h"


/* --- heartbeats, commits, departures ------------------------------------- */

static void
beat_section(worker_t *wk, void *arg)
{
    gmember_t                *m = arg;
    kc_call_t                 c = call_make();
    kf_heartbeat_request_t    req;
    kf_heartbeat_response_t   rsp;

    memset(&req, 0, sizeof(req));
    req.group_id = text_str(mgroups[m->group].name);
    req.generation_id = m->generation;
    req.member_id = text_str(m->id);

    if (kc_heartbeat(&wk->kc, &c, 4, &req, &rsp) != KC_OK) {
        return;
    }

    switch (rsp.error_code) {

    case KF_ERR_NONE:
        break;

    case KF_ERR_REBALANCE_IN_PROGRESS:
    case KF_ERR_ILLEGAL_GENERATION:
        member_out(m, false);
        break;

    case KF_ERR_UNKNOWN_MEMBER_ID:
        member_out(m, true);
        break;

    default:
        fail("a heartbeat is answered with %s", kf_err_name(rsp.error_code));
    }
}


static void
offset_section(worker_t *wk, void *arg)
{
    int32_t                                 p;
    gmember_t                              *m = arg;
    mgroup_t                               *g = &mgroups[m->group];
    kc_call_t                               c = call_make();
    const kc_topic_t                       *t;
    kf_offset_commit_request_t              req;
    kf_offset_commit_response_t             rsp;
    kf_offset_commit_request_topics_t       ct;
    kf_offset_commit_request_partitions_t   cp;

    m->topic = -1;
    t = kc_topic_by_name(&wk->kc, kc_cstr(names[rnd(NAMES)]));

    if (t == NULL) {
        return;
    }

    p = (int32_t) rnd((uint32_t) t->partition_count);
    memset(&req, 0, sizeof(req));
    memset(&ct, 0, sizeof(ct));
    memset(&cp, 0, sizeof(cp));
    cp.partition_index = p;
    cp.committed_offset = ++g->counter;
    cp.committed_leader_epoch = 1;
    cp.committed_metadata = chance(30) ? kf_str("a note") : kf_str("");
    ct.topic_id = t->id;
    ct.partitions = &cp;
    ct.partitions_n = 1;
    req.group_id = text_str(g->name);
    req.generation_id_or_member_epoch = m->generation;
    req.member_id = text_str(m->id);
    req.retention_time_ms = -1;
    req.topics = &ct;
    req.topics_n = 1;

    if (kc_offset_commit(&wk->kc, &c, 10, &req, &rsp) != KC_OK) {
        return;
    }

    switch (rsp.topics[0].partitions[0].error_code) {

    case KF_ERR_NONE:
        m->topic = model_topic(t->id);
        m->partition = p;
        m->offset = cp.committed_offset;
        m->offset_wait = c.wait;
        m->life = g->life;
        m->wk = wk;
        m->fetched = false;
        break;

    case KF_ERR_REBALANCE_IN_PROGRESS:
    case KF_ERR_ILLEGAL_GENERATION:
        member_out(m, false);
        break;

    case KF_ERR_UNKNOWN_MEMBER_ID:
    case KF_ERR_GROUP_ID_NOT_FOUND:
        member_out(m, true);
        break;

    default:
        fail("a commit is answered with %s",
             kf_err_name(rsp.topics[0].partitions[0].error_code));
    }
}


static void
fetch_section(worker_t *wk, void *arg)
{
    int                               topic;
    int32_t                           p;
    gmember_t                        *m = arg;
    mgroup_t                         *g = &mgroups[m->group];
    kc_call_t                         c = call_make();
    const kc_topic_t                 *t;
    kf_offset_fetch_request_t         req;
    kf_offset_fetch_response_t        rsp;
    kf_offset_fetch_request_topics_t  ft;

    m->topic = -1;
    t = kc_topic_by_name(&wk->kc, kc_cstr(names[rnd(NAMES)]));

    if (t == NULL) {
        return;
    }

    topic = model_topic(t->id);
    p = (int32_t) rnd((uint32_t) t->partition_count);
    memset(&req, 0, sizeof(req));
    memset(&ft, 0, sizeof(ft));
    ft.name = t->name;
    ft.partition_indexes = &p;
    ft.partition_indexes_n = 1;
    req.group_id = text_str(g->name);
    req.topics = &ft;
    req.topics_n = 1;

    if (kc_offset_fetch(&wk->kc, &c, 7, &req, &rsp) != KC_OK) {
        return;
    }

    m->topic = topic;
    m->partition = p;
    m->offset = rsp.topics[0].partitions[0].committed_offset;
    m->offset_wait = c.wait;
    m->life = g->life;
    m->wk = wk;
    m->fetched = true;

    if (g->acked[topic][p] && m->offset < g->acked[topic][p]) {
        fail("G3: group %s has offset %lld in %s, %lld was answered", g->name,
             (long long) m->offset, part_dir(topic, p),
             (long long) g->acked[topic][p]);
    }
}


static void
offset_delivered(gmember_t *m)
{
    int64_t  *acked = &mgroups[m->group].acked[m->topic][m->partition];

    if (journal_flushed() < m->offset_wait && w.broken != BREAK_ANSWER_EARLY) {
        return;
    }

    if (m->wk->alive && m->life == mgroups[m->group].life
        && !mtopics[m->topic].delete_asked && m->offset > *acked)
    {
        *acked = m->offset;
        w.commits++;
    }

    m->topic = -1;
}


static void
leave_section(worker_t *wk, void *arg)
{
    gmember_t                         *m = arg;
    kc_call_t                          c = call_make();
    kf_leave_group_request_t           req;
    kf_leave_group_response_t          rsp;
    kf_leave_group_request_members_t   lm;

    memset(&req, 0, sizeof(req));
    memset(&lm, 0, sizeof(lm));
    lm.member_id = text_str(m->id);
    req.group_id = text_str(mgroups[m->group].name);
    req.members = &lm;
    req.members_n = 1;

    (void) kc_leave_group(&wk->kc, &c, 5, &req, &rsp);
    trace("member %d leaves", (int) (m - gmembers));
    member_out(m, true);
}


static void
group_delete_section(worker_t *wk, void *arg)
{
    kf_str_t                     name = text_str(mgroups[*(int *) arg].name);
    kc_call_t                    c = call_make();
    kf_delete_groups_request_t   req = { &name, 1 };
    kf_delete_groups_response_t  rsp;

    (void) kc_delete_groups(&wk->kc, &c, 2, &req, &rsp);
}


static void
tick_section(worker_t *wk, void *arg)
{
    int        i = 0;
    kc_rc_t    rc = KC_OK;
    kc_call_t  c = call_make();

    (void) arg;

    if (w.broken == BREAK_NO_TICK) {
        return;
    }

    while (kc_next_deadline(&wk->kc) <= c.now.mono_ms && rc == KC_OK) {
        rc = kc_tick(&wk->kc, &c, 1 + rnd(3));

        if (++i > 100) {
            fail("G6: the timer does not come to rest");
        }
    }
}


/* --- steps --------------------------------------------------------------- */

static void
member_lost(gmember_t *m)
{
    /* the connection is gone: it asks again, with the id that it knows */
    member_out(m, false);
    m->topic = -1;
}


/* It is heard of no more, or another process begins in its place. */
static void
member_vanish(gmember_t *m)
{
    bool  forget = chance(50);

    m->process += forget;
    member_out(m, forget);
}


static void
member_step(gmember_t *m)
{
    worker_t  *wk = any_worker();

    if (m->topic >= 0) {
        offset_delivered(m);
        return;
    }

    if (m->stage != OUT && m->stage != IN && m->stage != STABLE
        && (!m->wk->alive || (!w.calm && chance(2))))
    {
        member_lost(m);
        return;
    }

    switch (m->stage) {

    case OUT:
        if (!w.calm && chance(4)) {
            m->mood = (int) rnd(3);
        }

        section(wk, join_section, m);
        break;

    case JOIN_PARKED:
        if (m->epoch != w.recoveries) {
            section(wk, join_section, m);

        } else if (m->woken) {
            section(wk, join_poll_section, m);
        }

        break;

    case SYNC_PARKED:
        if (m->epoch != w.recoveries) {
            section(wk, sync_section, m);

        } else if (m->woken) {
            section(wk, sync_poll_section, m);
        }

        break;

    case JOIN_ASKED:
    case SYNC_ASKED:
        if (journal_flushed() < m->wait && w.broken != BREAK_ANSWER_EARLY) {

            if (w.eager && m->group == READ_GROUP && chance(20)) {
                journal_flush(wk);
            }

            break;
        }

        m->park.hash = 0;

        if (m->stage == JOIN_ASKED) {
            join_delivered(m);

        } else {
            sync_delivered(m);
        }

        break;

    case IN:
        section(wk, chance(80) ? sync_section : beat_section, m);
        break;

    case STABLE:
        /* who reads is left in peace more often than not */
        if (w.calm || chance(m->group == READ_GROUP ? 90 : 50)) {
            section(wk, beat_section, m);

        } else if (chance(70)) {
            section(wk, chance(60) ? offset_section : fetch_section, m);

        } else if (chance(20)) {
            section(wk, leave_section, m);

        } else if (chance(20)) {
            trace("member %d vanishes", (int) (m - gmembers));
            member_vanish(m);

        } else if (chance(20)) {
            m->mood = (int) rnd(3);
            member_out(m, false);
        }

        break;
    }
}


/* A request of before arrives again; nobody hears the answer. */
static void
member_late(gmember_t *m)
{
    gmember_t  copy = *m;

    if (m->stage == OUT) {
        return;
    }

    trace("a late request of member %d", (int) (m - gmembers));

    switch (rnd(3)) {

    case 0:
        section(any_worker(), join_section, m);
        break;

    case 1:
        if (m->id[0]) {
            section(any_worker(), sync_section, m);
        }

        break;

    default:
        section(any_worker(), beat_section, m);
        break;
    }

    copy.woken |= m->woken;
    *m = copy;
    m->woken = true;                    /* it asks, just in case */
}


static void
group_step(void)
{
    member_step(&gmembers[rnd(MEMBERS)]);
}


static void
group_late_step(void)
{
    member_late(&gmembers[rnd(MEMBERS)]);
}


static void
group_admin_step(void)
{
    int  group = (int) rnd(READ_GROUP);

    section(any_worker(), group_delete_section, &group);
}


static void
tick_step(void)
{
    section(any_worker(), tick_section, NULL);
}


static void
time_step(void)
{
    w.now_ms += rnd(100) < 5 ? 700000 : rnd(5000);
}


static void
groups_reset(void)
{
    int  i;

    memset(mgroups, 0, sizeof(mgroups));
    memset(gmembers, 0, sizeof(gmembers));
    registry_n = 0;

    for (i = 0; i < GROUPS; i++) {
        snprintf(mgroups[i].name, sizeof(mgroups[i].name), "group%d", i);
    }

    for (i = 0; i < MEMBERS; i++) {
        gmembers[i].group = i < READERS ? i * READ_GROUP / READERS
                                        : READ_GROUP;
        gmembers[i].version = i % 3 == 0 ? 3 : i % 3 == 1 ? 5 : 9;
        gmembers[i].fixed = i % READERS < 2;
        gmembers[i].topic = -1;
    }
}


static void
groups_disconnect(void)
{
    int  i;

    for (i = 0; i < MEMBERS; i++) {
        if (gmembers[i].stage != IN && gmembers[i].stage != STABLE) {
            member_out(&gmembers[i], false);
        }

        gmembers[i].topic = -1;
    }
}


/* --- checks -------------------------------------------------------------- */

/* G4: whoever waits and has not been woken waits rightly. */
static void
check_waiting(worker_t *wk, gmember_t *m)
{
    char                                  texts[LIST][32];
    kc_rc_t                               rc;
    kc_call_t                             c = call_make();
    kf_join_group_request_t               jr;
    kf_sync_group_request_t               sr;
    kf_join_group_response_t              jp;
    kf_sync_group_response_t              sp;
    kf_join_group_request_protocols_t     p;
    kf_sync_group_request_assignments_t   a[LIST];

    if (m->woken || m->epoch != w.recoveries || !m->wk || !m->wk->alive) {
        return;
    }

    if (m->stage == JOIN_PARKED) {
        jr = join_request(m, &p);
        rc = kc_join_group_poll(&wk->kc, &c, m->version, &jr, &m->park, &jp);

    } else if (m->stage == SYNC_PARKED) {
        sr = sync_request(m, a, texts);
        rc = kc_sync_group_poll(&wk->kc, &c, 5, &sr, &m->park, &sp);

    } else {
        return;
    }

    if (rc == KC_OK) {
        fail("G4: member %d waits, and could be answered",
             (int) (m - gmembers));
    }
}


static void
check_groups_section(worker_t *wk, void *arg)
{
    int                      i, t;
    int32_t                  p;
    const kc_group_t        *g;
    const kc_offset_t       *o;
    const kc_group_topic_t  *gt;

    (void) arg;

    for (i = 0; i < MEMBERS; i++) {
        check_waiting(wk, &gmembers[i]);
    }

    for (i = 0; i < GROUPS; i++) {
        g = kc_group_find(&wk->kc, text_str(mgroups[i].name));

        if ((g ? g->generation : 0) < mgroups[i].heard) {
            fail("G2: group %s is in generation %d, %d was heard of",
                 mgroups[i].name, g ? g->generation : 0, mgroups[i].heard);
        }

        for (t = 0; t < mtopics_n; t++) {
            for (p = 0; p < TOPIC_PARTS; p++) {
                if (mgroups[i].acked[t][p] == 0) {
                    continue;
                }

                gt = g ? kc_offsets_of(g, mtopics[t].id) : NULL;
                o = gt ? kc_offset_find(gt, p) : NULL;

                if ((o ? o->offset : 0) < mgroups[i].acked[t][p]) {
                    fail("G3: group %s has offset %lld in %s, %lld was "
                         "answered", mgroups[i].name,
                         o ? (long long) o->offset : -1LL, part_dir(t, p),
                         (long long) mgroups[i].acked[t][p]);
                }
            }
        }
    }
}


static void
check_groups(void)
{
    while (!section(any_worker(), check_groups_section, NULL)) { /* again */ }
}


/* G6: nobody vanishes any more; every group has to become stable. */
static void
groups_settle(void)
{
    int  i, k, stable = 0;

    w.calm = true;
    w.alloc_fails = 0;

    for (i = 0; i < 4000 && stable < MEMBERS; i++) {
        w.now_ms += 50;
        tick_step();
        journal_flush(any_worker());

        for (k = 0, stable = 0; k < MEMBERS; k++) {
            member_step(&gmembers[k]);
            stable += gmembers[k].stage == STABLE;
        }
    }

    for (i = 0; i < MEMBERS; i++) {
        for (k = 0; k < MEMBERS; k++) {
            if (gmembers[i].stage != STABLE
                || (gmembers[i].group == gmembers[k].group
                    && gmembers[i].generation != gmembers[k].generation))
            {
                fail("G6: group %s does not come to rest: member %d stands at "
                     "%d in generation %d", mgroups[gmembers[i].group].name, i,
                     gmembers[i].stage, gmembers[i].generation);
            }
        }
    }

    check_groups();
    w.calm = false;
}

#endif
