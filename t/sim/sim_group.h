/*
 * Classic groups in the simulator: members that join, vanish, come late, repeat
 * themselves and change their minds; commits; admins that delete; the timer.
 *
 *   G1  a generation has one leader, whoever asks and whenever;
 *   G2  no group's generation is below one that a member has heard of;
 *   G3  no committed offset goes back behind one that was answered, for a
 *       commit or a fetch;
 *   G4  no request waits that its poll would answer, unless it has been woken;
 *   G5  an assignment belongs to one member of its generation;
 *   G6  the timer leaves nothing behind that is due, and a group whose members
 *       are there comes to rest.
 *
 * A deletion is what the journal gets (see group_record): what was promised
 * before it is forgotten at that moment, whether it survives or not.
 */

#ifndef SIM_GROUP_H
#define SIM_GROUP_H

#include "sim_client.h"
#include "../../coordinator/kc_group_int.h"

#define GROUPS      4
#define MEMBERS     12
#define READERS     8                   /* members from here on, … */
#define READ_GROUP  3                   /* … of a group with transactions */
#define LIST        64                  /* members, ghosts too */
#define GENERATIONS 512
#define REGISTERED  4096
#define ID          80

#define SESSION     6000
#define REBALANCE   3000


/* --- what was promised --------------------------------------------------- */

typedef struct {
    char      name[20];
    uint64_t  life;                     /* it was deleted so often */
    int32_t   heard;                    /* the last generation heard of */
    int       leaders[GENERATIONS];     /* member + 1, by generation */
    int       owners[GENERATIONS][LIST];
    int64_t   counter;                  /* offsets committed: it counts */
    int64_t   acked[TOPICS][TOPIC_PARTS];
} mgroup_t;

static mgroup_t  mgroups[GROUPS];

/* Which member an id was given to. */
static struct {
    char  id[ID];
    int   member;
} registry[REGISTERED];

static uint32_t  registry_n;


typedef enum {
    OUT = 0, JOIN_PARKED, JOIN_ASKED, IN, SYNC_PARKED, SYNC_ASKED, STABLE
} stage_t;

typedef struct {
    stage_t    stage;
    int        group;
    int16_t    version;
    bool       fixed;                   /* static */
    uint32_t   process;                 /* goes up when another takes over */
    int        mood;                    /* of its metadata */
    char       id[ID];
    int32_t    generation;
    bool       leads;
    int        n;                       /* the leader's list */
    char       ids[LIST][ID];

    /* the request under way, and where it waits */
    char       asked_id[ID];
    worker_t  *wk;
    uint64_t   epoch;
    kc_park_t  park;
    char       park_id[ID];
    bool       woken;
    bool       parked;                  /* KC_PARK, just now */

    /* an answer that waits for the journal */
    int64_t    wait;
    uint64_t   life;
    int16_t    error;
    int32_t    answer_generation;
    bool       skip;
    int        leader;                  /* a member, -1: unknown */
    char       answer_id[ID];
    int        answer_n;
    char       answer_ids[LIST][ID];
    char       assignment[32];
    int        rank;                    /* of its assignment, … */
    int        of;                      /* … among so many; 0: none */

    /* a commit or a fetch under way */
    int        topic;                   /* in the model, -1 */
    int32_t    partition;
    int64_t    offset;
    int64_t    offset_wait;
    bool       fetched;
} gmember_t;

static gmember_t  gmembers[MEMBERS];


static kf_str_t
text_str(const char *text)
{
    return (kf_str_t) { (const uint8_t *) text, (uint32_t) strlen(text) };
}


static void
text_copy(char *out, size_t size, kf_str_t s)
{
    snprintf(out, size, "%.*s", (int) s.len,
             s.data ? (const char *) s.data : "");
}


static void
registry_add(const char *id, int member)
{
    snprintf(registry[registry_n % REGISTERED].id, ID, "%s", id);
    registry[registry_n++ % REGISTERED].member = member;
}


static int
registry_find(const char *id)
{
    uint32_t  i, n = registry_n < REGISTERED ? registry_n : REGISTERED;

    for (i = 0; i < n; i++) {
        if (strcmp(registry[i].id, id) == 0) {
            return registry[i].member;
        }
    }

    return -1;
}


static int
mgroup_find(kf_str_t name)
{
    int  i;

    for (i = 0; i < GROUPS; i++) {
        if (kf_str_eq(text_str(mgroups[i].name), name)) {
            return i;
        }
    }

    return -1;
}


/* A record is about to be appended: a deletion ends what was promised. */
static void
group_record(const uint8_t *value, uint32_t len)
{
    int                        i, topic;
    int32_t                    p;
    kf_reader_t                r;
    kf_heap_t                  heap = { NULL };
    kf_arena_t                 arena;
    kf_delete_group_record_t   dg;
    kf_delete_topic_record_t   dt;

    kf_arena_init(&arena, kf_heap_chunk, &heap, 65536);
    kf_reader_init(&r, value + 4, len - 4);

    if (value[1] == KF_DELETE_GROUP_RECORD
        && kf_decode_delete_group_record(&r, 0, &arena, &dg) == KF_OK)
    {
        i = mgroup_find(dg.group_id);

        if (i >= 0) {
            trace("  group %s goes", mgroups[i].name);
            mgroups[i].life++;
            mgroups[i].heard = 0;
            memset(mgroups[i].leaders, 0, sizeof(mgroups[i].leaders));
            memset(mgroups[i].owners, 0, sizeof(mgroups[i].owners));
            memset(mgroups[i].acked, 0, sizeof(mgroups[i].acked));
        }

    } else if (value[1] == KF_DELETE_TOPIC_RECORD
               && kf_decode_delete_topic_record(&r, 0, &arena, &dt) == KF_OK)
    {
        topic = model_topic(dt.topic_id);

        for (i = 0; topic >= 0 && i < GROUPS; i++) {
            for (p = 0; p < TOPIC_PARTS; p++) {
                mgroups[i].acked[topic][p] = 0;
            }
        }
    }

    kf_heap_free(&heap);
}


static void
groups_append(const uint8_t *batch, const kf_batch_t *b)
{
    int32_t         n;
    kf_record_t     r;
    const uint8_t  *pos = batch + KF_BATCH_HEADER;

    for (n = 0; n < b->record_count; n++) {
        if (kf_record_next(&pos, batch + b->size, &r) == KF_OK) {
            group_record(r.value.data, r.value.len);
        }
    }
}


/* --- waiting ------------------------------------------------------------- */

static void
groups_woken(worker_t *wk)
{
    int              k;
    uint32_t         i, n;
    const uint32_t  *hashes;

    n = kc_woken_take(&wk->kc, &hashes);

    for (i = 0; i < n; i++) {
        if (w.broken == BREAK_NO_WAKE && chance(20)) {
            continue;
        }

        for (k = 0; k < MEMBERS; k++) {
            if (gmembers[k].park.hash == hashes[i]) {
                gmembers[k].woken = true;
            }
        }
    }
}


static kf_str_t
instance_of(const gmember_t *m)
{
    static const char *const  instances[] = { "i0", "i1" };

    return m->fixed ? text_str(instances[(m - gmembers) % READERS])
                    : kf_null_str;
}


static kf_join_group_request_t
join_request(gmember_t *m, kf_join_group_request_protocols_t *p)
{
    static const char *const  moods[] = { "calm", "merry", "blue" };
    kf_join_group_request_t   req;

    memset(&req, 0, sizeof(req));
    p->name = kf_str("range");
    p->metadata = text_str(moods[m->mood]);
    req.group_id = text_str(mgroups[m->group].name);
    req.session_timeout_ms = SESSION;
    req.rebalance_timeout_ms = REBALANCE;
    req.member_id = text_str(m->asked_id);
    req.protocol_type = kf_str("consumer");
    req.protocols = p;
    req.protocols_n = 1;

    req.group_instance_id = instance_of(m);

    return req;
}


static void
member_park(gmember_t *m, worker_t *wk)
{
    text_copy(m->park_id, ID, m->park.member_id);
    m->park.member_id = text_str(m->park_id);
    m->epoch = w.recoveries;
    m->woken = false;
    m->wk = wk;
    m->parked = true;
}


/* Copies the answer; G2 is looked at when it is decided. */
static void
join_answered(gmember_t *m, worker_t *wk, const kc_call_t *c,
    const kf_join_group_response_t *rsp)
{
    char       leader[ID];
    int32_t    i;
    mgroup_t  *g = &mgroups[m->group];

    m->wk = wk;
    m->stage = JOIN_ASKED;
    m->wait = c->wait;
    m->life = g->life;
    m->error = rsp->error_code;
    m->answer_generation = rsp->generation_id;
    m->skip = rsp->skip_assignment;
    m->answer_n = 0;

    text_copy(m->answer_id, ID, rsp->member_id);
    text_copy(leader, ID, rsp->leader);
    m->leader = registry_find(leader);

    if (m->answer_id[0]) {
        registry_add(m->answer_id, (int) (m - gmembers));
    }

    if (strcmp(leader, m->answer_id) == 0) {
        m->leader = (int) (m - gmembers);
    }

    for (i = 0; i < rsp->members_n && i < LIST; i++) {
        text_copy(m->answer_ids[m->answer_n++], ID,
                  rsp->members[i].member_id);
    }

    if (rsp->error_code == KF_ERR_NONE && rsp->generation_id < g->heard) {
        fail("G2: group %s is in generation %d after %d was heard of",
             g->name, rsp->generation_id, g->heard);
    }
}


static void
join_section(worker_t *wk, void *arg)
{
    kc_rc_t                             rc;
    gmember_t                          *m = arg;
    kc_call_t                           c = call_make();
    kc_client_t                         client = { kf_str("c"),
                                                   kf_str("/::1") };
    kf_join_group_request_t             req;
    kf_join_group_response_t            rsp;
    kf_join_group_request_protocols_t   p;

    req = join_request(m, &p);
    rc = (m->stage == JOIN_PARKED ? kc_join_group_again : kc_join_group)
             (&wk->kc, &c, m->version, &client, &req, &m->park, &rsp);

    m->parked = false;
    m->stage = OUT;

    if (rc == KC_PARK) {
        m->stage = JOIN_PARKED;
        member_park(m, wk);
        registry_add(m->park_id, (int) (m - gmembers));

    } else if (rc == KC_OK) {
        join_answered(m, wk, &c, &rsp);
    }

    trace("member %d joins %s as \"%.12s\": %s %d", (int) (m - gmembers),
          mgroups[m->group].name, m->asked_id,
          rc == KC_PARK ? "waits" : rc == KC_OK ? kf_err_name(rsp.error_code)
                                                : "no",
          rc == KC_OK ? rsp.generation_id : 0);
}


static void
join_poll_section(worker_t *wk, void *arg)
{
    kc_rc_t                             rc;
    gmember_t                          *m = arg;
    kc_call_t                           c = call_make();
    kf_join_group_request_t             req;
    kf_join_group_response_t            rsp;
    kf_join_group_request_protocols_t   p;

    m->woken = false;
    req = join_request(m, &p);
    rc = kc_join_group_poll(&wk->kc, &c, m->version, &req, &m->park, &rsp);

    if (rc == KC_OK) {
        join_answered(m, wk, &c, &rsp);
        trace("member %d hears of its join: %s %d", (int) (m - gmembers),
              kf_err_name(rsp.error_code), rsp.generation_id);
    }
}


static kf_sync_group_request_t
sync_request(gmember_t *m, kf_sync_group_request_assignments_t *a,
    char texts[][32])
{
    int                      i;
    kf_sync_group_request_t  req;

    memset(&req, 0, sizeof(req));
    req.group_id = text_str(mgroups[m->group].name);
    req.generation_id = m->generation;
    req.member_id = text_str(m->id);
    req.protocol_type = kf_str("consumer");
    req.protocol_name = kf_str("range");

    req.group_instance_id = instance_of(m);

    for (i = 0; m->leads && i < m->n; i++) {
        snprintf(texts[i], 32, "%d:%d:%d", m->generation, i, m->n);
        a[i].member_id = text_str(m->ids[i]);
        a[i].assignment = text_str(texts[i]);
    }

    req.assignments = a;
    req.assignments_n = m->leads ? m->n : 0;

    return req;
}


static void
sync_answered(gmember_t *m, worker_t *wk, const kc_call_t *c,
    const kf_sync_group_response_t *rsp)
{
    m->wk = wk;
    m->stage = SYNC_ASKED;
    m->wait = c->wait;
    m->life = mgroups[m->group].life;
    m->error = rsp->error_code;
    text_copy(m->assignment, sizeof(m->assignment), rsp->assignment);
}


static void
sync_section(worker_t *wk, void *arg)
{
    char                                  texts[LIST][32];
    kc_rc_t                               rc;
    gmember_t                            *m = arg;
    kc_call_t                             c = call_make();
    kf_sync_group_request_t               req;
    kf_sync_group_response_t              rsp;
    kf_sync_group_request_assignments_t   a[LIST];

    m->parked = false;
    req = sync_request(m, a, texts);
    rc = kc_sync_group(&wk->kc, &c, 5, &req, &m->park, &rsp);

    if (rc == KC_PARK) {
        m->stage = SYNC_PARKED;
        member_park(m, wk);

    } else if (rc == KC_OK) {
        sync_answered(m, wk, &c, &rsp);
    }

    trace("member %d syncs generation %d: %s", (int) (m - gmembers),
          m->generation, rc == KC_PARK ? "waits"
          : rc == KC_OK ? kf_err_name(rsp.error_code) : "no");
}


static void
sync_poll_section(worker_t *wk, void *arg)
{
    char                                  texts[LIST][32];
    gmember_t                            *m = arg;
    kc_call_t                             c = call_make();
    kf_sync_group_request_t               req;
    kf_sync_group_response_t              rsp;
    kf_sync_group_request_assignments_t   a[LIST];

    m->woken = false;
    req = sync_request(m, a, texts);

    if (kc_sync_group_poll(&wk->kc, &c, 5, &req, &m->park, &rsp) == KC_OK) {
        sync_answered(m, wk, &c, &rsp);
    }
}


/* --- answers ------------------------------------------------------------- */

/* It begins anew, with or without the id that it has. */
static void
member_out(gmember_t *m, bool forget)
{
    m->stage = OUT;
    m->park.hash = 0;

    if (forget) {
        m->id[0] = '\0';
    }

    memcpy(m->asked_id, m->id, ID);
}


static void
join_delivered(gmember_t *m)
{
    int        i;
    int32_t    gen = m->answer_generation;
    mgroup_t  *g = &mgroups[m->group];

    if (m->error) {
        switch (m->error) {

        case KF_ERR_MEMBER_ID_REQUIRED:
            snprintf(m->id, ID, "%s", m->answer_id);
            member_out(m, false);
            return;

        case KF_ERR_UNKNOWN_MEMBER_ID:
        case KF_ERR_FENCED_INSTANCE_ID:
            member_out(m, true);
            return;

        case KF_ERR_REBALANCE_IN_PROGRESS:
            member_out(m, false);
            return;

        default:
            fail("a member hears %s when it joins", kf_err_name(m->error));
        }
    }

    if (gen < 1 || gen >= GENERATIONS) {
        fail("simulator: generation %d", gen);
    }

    snprintf(m->id, ID, "%s", m->answer_id);
    m->generation = gen;
    m->leads = m->answer_n > 0 && !m->skip;
    m->n = m->answer_n;

    for (i = 0; i < m->n; i++) {
        memcpy(m->ids[i], m->answer_ids[i], ID);
    }

    m->stage = IN;

    if (m->life != g->life) {
        return;                         /* of a group that was deleted since */
    }

    if (m->leader >= 0) {
        if (g->leaders[gen] && g->leaders[gen] != m->leader + 1) {
            fail("G1: generation %d of group %s is led by member %d and by %d",
                 gen, g->name, g->leaders[gen] - 1, m->leader);
        }

        g->leaders[gen] = m->leader + 1;
    }

    if (gen > g->heard) {
        g->heard = gen;
    }
}


static void
sync_delivered(gmember_t *m)
{
    int        gen, rank, of, *owner;
    mgroup_t  *g = &mgroups[m->group];

    if (m->error) {
        switch (m->error) {

        case KF_ERR_UNKNOWN_MEMBER_ID:
        case KF_ERR_FENCED_INSTANCE_ID:
            member_out(m, true);
            return;

        case KF_ERR_REBALANCE_IN_PROGRESS:
        case KF_ERR_ILLEGAL_GENERATION:
            member_out(m, false);
            return;

        default:
            fail("a member hears %s when it syncs", kf_err_name(m->error));
        }
    }

    m->stage = STABLE;
    m->of = 0;
    w.synced++;

    if (m->assignment[0] == '\0' || m->life != g->life) {
        return;
    }

    if (sscanf(m->assignment, "%d:%d:%d", &gen, &rank, &of) != 3
        || gen != m->generation || rank < 0 || rank >= LIST)
    {
        fail("G5: a member of generation %d is assigned %s", m->generation,
             m->assignment);
    }

    owner = &g->owners[gen][rank];

    if (*owner && *owner != (int) (m - gmembers) + 1) {
        fail("G5: %s of group %s belongs to member %d and to %d",
             m->assignment, g->name, *owner - 1, (int) (m - gmembers));
    }

    *owner = (int) (m - gmembers) + 1;
    m->rank = rank;
    m->of = of;
}

#endif
