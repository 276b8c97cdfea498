/*
 * A member of a group, as a client's library would be one: eager, with
 * automatic commits, on two connections (which may be two workers).  Every now
 * and then it leaves, vanishes in the middle of something, comes back under its
 * id, or falls silent for so long that it is taken for dead.
 *
 *   OUT ──> JOINING ──> SYNCING ──> STARTING ──> CONSUMING
 *    ^        ^ ^         │            │ offsets    │  │
 *    │        │ └─────────┴────────────┴────────────┘  │
 *    │        │     rebalance, generation, unknown     │
 *    └────────│────────────────────────────────────────┘ leaves, vanishes
 *             └─ lost connections: the same step again, or from STARTING
 */

#define _GNU_SOURCE
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_MS  300

typedef enum {
    OUT = 0,
    JOINING,
    SYNCING,
    STARTING,
    CONSUMING
} state_t;

typedef struct {
    group_t      *g;
    int           slot;
    member_id_t   me;
    char          instance[ID_MAX];
    char          who[128];
    conn_t        coord, data;
    state_t       state;
    bool          unheard;                  /* of a join that was lost */
    join_t        round;
    bool          owns[GROUP_PARTS];
    int64_t       at[GROUP_PARTS];          /* next to be consumed */
    int64_t       done[GROUP_PARTS];        /* committed */
    uint64_t      random;
    int64_t       heartbeat_ms, commit_ms, whim_ms;
    int           away_ms;
} member_t;

typedef struct {
    member_t  *m;
    int        part;
} record_ctx_t;


static int
chance(member_t *m, int n)
{
    return (int) (rnd(&m->random) % (uint64_t) n);
}


static void
go(member_t *m, state_t state)
{
    static const char *const  names[] = {
        "is out", "joins", "waits for its assignment", "asks for offsets",
        "consumes"
    };

    if (m->state != state || state == OUT) {
        group_doing(m->g, m->slot, names[state]);
    }

    m->state = state;
}


/* What an error of a group's call means; false: it means nothing to us. */
static bool
turn(member_t *m, int error)
{
    switch (error) {

    case LOST:
        if (m->state == CONSUMING && chance(m, 2)) {
            go(m, STARTING);            /* is all still there? */
        }

        /* fall through */

    case ERR_LOADING:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_NOT_COORDINATOR:
        counters.errors += error != LOST;
        sleep_ms(20);
        return true;

    case ERR_REBALANCE:
    case ERR_ILLEGAL_GENERATION:
        go(m, JOINING);
        return true;

    case ERR_FENCED_INSTANCE:               /* an older request of ours */
    case ERR_UNKNOWN_MEMBER:
        m->me.id[0] = '\0';
        go(m, JOINING);
        return true;

    default:
        return false;
    }
}


static void
settle(member_t *m, int error, const char *what)
{
    if (error && !turn(m, error)) {
        fault("%s: %s answers error %d", m->who, what, error);
        m->me.id[0] = '\0';
        go(m, JOINING);
        sleep_ms(100);
    }
}


/* --- joining ------------------------------------------------------------- */

static void
join(member_t *m)
{
    int      error;
    join_t   j;
    int64_t  sent = now_ms();

    group_counters.joins++;
    error = ask_join(&m->coord, &m->me, &j);

    /*
     * Of a worker that is leaving, a member hears that it has to ask again.  A
     * round that had ended with the join that was lost, and is not yet flushed,
     * is heard of by the others after this one was sent, and is not its own.
     */
    if (error == LOST || error == ERR_LOADING) {
        m->unheard = true;

    } else {
        if (!m->unheard) {
            join_answered(m->g, m->slot, m->me.id,
                          error ? -error : j.generation, sent);
        }

        m->unheard = false;
    }

    if (error == ERR_MEMBER_ID_REQUIRED) {
        snprintf(m->me.id, ID_MAX, "%s", j.id);
        member_is(m->g, m->slot, m->me.id);
        return;
    }

    if (error) {
        settle(m, error, "JoinGroup");
        return;
    }

    if (m->me.id[0] && strcmp(m->me.id, j.id) != 0) {
        fault("%s: joined as %s, is called %s", m->who, m->me.id, j.id);
    }

    snprintf(m->me.id, ID_MAX, "%s", j.id);
    member_is(m->g, m->slot, m->me.id);
    m->me.generation = j.generation;
    m->round = j;
    go(m, SYNCING);
}


static int
by_id(const void *a, const void *b)
{
    return strcmp(((const joined_t *) a)->id, ((const joined_t *) b)->id);
}


/* True: we lead, and these are the owners. */
static bool
assign(member_t *m, int owners[GROUP_PARTS])
{
    int      i, k;
    bool     here = false;
    join_t  *j = &m->round;

    if (strcmp(j->leader, j->id) != 0) {
        if (j->members_n) {
            fault("%s: generation %d is led by %s, and it is told the members",
                  m->who, j->generation, j->leader);
        }

        return false;
    }

    if (j->skip) {
        return false;
    }

    qsort(j->members, (size_t) j->members_n, sizeof(joined_t), by_id);

    for (i = 0; i < j->members_n; i++) {
        here |= strcmp(j->members[i].id, j->id) == 0;
        member_saw(m->g, j->generation, j->members[i].id);

        for (k = 0; k < i; k++) {
            if (strcmp(j->members[i].id, j->members[k].id) == 0
                || (j->members[i].instance[0]
                    && strcmp(j->members[i].instance, j->members[k].instance)
                       == 0))
            {
                fault("%s: generation %d has member %s twice", m->who,
                      j->generation, j->members[i].id);
            }
        }
    }

    if (!here) {
        fault("%s: generation %d has %d members, its leader not among them",
              m->who, j->generation, j->members_n);
        return false;
    }

    for (i = 0; i < GROUP_PARTS; i++) {
        owners[i] = (i + j->generation) % j->members_n;
    }

    return true;
}


static void
sync_group(member_t *m)
{
    int      i, error, owners[GROUP_PARTS], generation;
    char     said[128], leader[ID_MAX];
    bool     lead;
    int64_t  sent = now_ms();

    lead = assign(m, owners);
    error = ask_sync(&m->coord, &m->me, &m->round, lead ? owners : NULL,
                     m->owns, said, sizeof(said));

    if (error != LOST) {
        sync_answered(m->g, m->me.generation, error, sent);
    }

    if (error) {
        settle(m, error, "SyncGroup");
        return;
    }

    if (sscanf(said, "%d %95s", &generation, leader) != 2
        || generation != m->me.generation)
    {
        fault("%s: in generation %d it is given an assignment by \"%s\"",
              m->who, m->me.generation, said);

    } else {
        generation_saw(m->g, 0, generation, leader, m->who);
    }

    for (i = 0; i < GROUP_PARTS; i++) {
        if (m->owns[i]) {
            owner_saw(m->g, m->me.generation, i, m->slot, m->who);
        }
    }

    go(m, STARTING);
}


static void
start(member_t *m)
{
    int      i, error;
    int64_t  offsets[GROUP_PARTS];

    error = ask_offsets(&m->coord, m->g, m->me.generation, m->owns,
                        chance(m, 4) == 0, offsets);

    if (error) {
        settle(m, error, "OffsetFetch");
        return;
    }

    for (i = 0; i < GROUP_PARTS; i++) {
        m->at[i] = offsets[i] < 0 ? 0 : offsets[i];
        m->done[i] = m->at[i];
    }

    m->heartbeat_ms = now_ms() + HEARTBEAT_MS;
    m->commit_ms = now_ms() + chance(m, 200);
    go(m, CONSUMING);
}


/* --- consuming ----------------------------------------------------------- */

static void
on_record(void *ctx, int64_t offset, record_t r)
{
    record_ctx_t  *x = ctx;

    saw(&group_topic(x->part)->parts[group_index(x->part)], offset, r,
        x->m->who);
    delivered(x->m->g, x->part, offset);
}


/* True when there was something. */
static bool
fetch(member_t *m, int part, int wait_ms)
{
    int           error;
    part_t       *p = m->g->parts[part].part;
    int64_t       hw = hw_now(p), next;
    fetched_t     f;
    record_ctx_t  ctx = { m, part };

    error = ask_fetch(&m->data, p, m->at[part], wait_ms,
                      1 << (12 + chance(m, 6)), chance(m, 2), &f);
    error = error ? error : f.error;

    if (error) {
        if (!retriable(error)) {
            fault("%s: %s-%d fetch at offset %lld answers error %d", m->who,
                  p->topic->name, p->index, (long long) m->at[part], error);
            sleep_ms(100);
        }

        counters.errors += error != LOST;
        return false;
    }

    hw_saw(p, hw, f.hw, m->who);
    next = batches_read(p, f.data, f.len, m->at[part], f.hw, m->who, on_record,
                        &ctx);

    if (next == m->at[part]) {
        return false;
    }

    m->at[part] = next;

    return true;
}


/* Commits what is consumed and not committed; all: in any case. */
static void
commit(member_t *m, bool all, bool vanish)
{
    int           i, n = 0, error = LOST;
    commit_t      commits[GROUP_PARTS];
    commit_end_t  how;

    memset(commits, 0, sizeof(commits));

    for (i = 0; i < GROUP_PARTS; i++) {
        if (m->owns[i] && (all || m->at[i] != m->done[i])) {
            commits[i] = commit_begin(m->g, i, m->at[i], m->me.generation);
            n++;
        }
    }

    if (n == 0) {
        return;
    }

    if (commit_send(&m->coord, &m->me, commits) && !vanish) {
        error = commit_answer(&m->coord, &m->me, commits,
                              m->coord.correlation);
    }

    /* errors that say that the group's state is not at hand may come of a
       failed write, which may be there all the same */
    how = error == 0 ? COMMIT_DONE
          : vanish ? COMMIT_ADRIFT
          : error == LOST || error == ERR_LOADING
            || error == ERR_COORDINATOR_NOT_AVAILABLE
            || error == ERR_NOT_COORDINATOR ? COMMIT_LOST
          : COMMIT_REFUSED;

    for (i = 0; i < GROUP_PARTS; i++) {
        if (commits[i].serial) {
            commit_end(m->g, i, &commits[i], how, m->who);

            if (how == COMMIT_DONE) {
                m->done[i] = commits[i].offset;
            }
        }
    }

    if (!vanish) {
        settle(m, error, "OffsetCommit");
    }
}


static void
heartbeat(member_t *m)
{
    int  error = ask_heartbeat(&m->coord, &m->me);

    m->heartbeat_ms = now_ms() + HEARTBEAT_MS;

    /* most say what they have done before they join again */
    if (error == ERR_REBALANCE && chance(m, 4)) {
        commit(m, false, false);
    }

    settle(m, error, "Heartbeat");
}


static void
leave(member_t *m)
{
    int          error;
    member_id_t  me = m->me;

    if (chance(m, 2)) {
        commit(m, false, false);
    }

    if (me.instance && chance(m, 2)) {
        me.id[0] = '\0';                        /* as an admin would do it */
    }

    error = ask_leave(&m->coord, &me);

    if (error && !turn(m, error)) {
        fault("%s: LeaveGroup answers error %d", m->who, error);
    }

    group_counters.left++;
    m->me.id[0] = '\0';
    m->away_ms = chance(m, 1000);
    go(m, OUT);
}


static void
vanish(member_t *m)
{
    join_t  j;

    switch (chance(m, 3)) {

    case 0:
        commit(m, true, true);
        break;

    case 1:
        /* a moment to read it, but not to hear the answer */
        if (conn_open(&m->coord)) {
            m->coord.hurry = true;
            (void) ask_join(&m->coord, &m->me, &j);
            m->coord.hurry = false;
        }

        break;
    }

    conn_close(&m->coord);
    conn_close(&m->data);

    group_counters.vanished++;
    m->me.id[0] = '\0';
    m->away_ms = m->me.instance && chance(m, 2) ? chance(m, 500)
                                                : chance(m, 4000);
    go(m, OUT);
}


static void
silence(int ms)
{
    int64_t  until = now_ms() + ms;

    while (!actor_pause() && now_ms() < until) {
        sleep_ms(20);
    }
}


static void
rewind_some(member_t *m)
{
    int  i;

    for (i = 0; i < GROUP_PARTS; i++) {
        if (m->owns[i] && m->at[i]) {
            m->at[i] -= chance(m, m->at[i] > 200 ? 200 : (int) m->at[i]);
        }
    }

    group_counters.rewound++;
    commit(m, true, false);
}


/* What real members do now and then. */
static void
whim(member_t *m)
{
    int  n = chance(m, 100);

    m->whim_ms = now_ms() + 300 + chance(m, 3000);

    if (n < 25) {
        leave(m);

    } else if (n < 50) {
        vanish(m);

    } else if (n < 65) {
        conn_close(&m->coord);                  /* another worker */
        conn_close(&m->data);

    } else if (n < 80) {
        group_counters.returned++;
        go(m, JOINING);

    } else if (n < 90) {
        group_counters.stalled++;
        silence(SESSION_MS + 500);
        commit(m, true, false);

    } else {
        rewind_some(m);
    }
}


static void
consume(member_t *m)
{
    int   i, n = chance(m, GROUP_PARTS);
    bool  some = false;

    for (i = 0; i < GROUP_PARTS; i++) {
        if (m->owns[i] && conn_open(&m->data)) {
            some |= fetch(m, i, 0);
        }
    }

    if (!some) {
        if (m->owns[n] && conn_open(&m->data)) {
            fetch(m, n, 100);

        } else {
            sleep_ms(10);
        }
    }

    if (now_ms() >= m->heartbeat_ms) {
        heartbeat(m);
    }

    if (m->state == CONSUMING && now_ms() >= m->commit_ms) {
        m->commit_ms = now_ms() + 20 + chance(m, 300);
        commit(m, false, false);
    }

    /* While a drain is awaited all do their best but one, who is dead. */

    if (m->state == CONSUMING && dry && m->slot == 0) {
        vanish(m);

    } else if (m->state == CONSUMING && now_ms() >= m->whim_ms && !dry) {
        whim(m);
    }
}


void
member_run(void *ctx)
{
    member_t      *m;
    member_arg_t  *arg = ctx;

    m = calloc(1, sizeof(member_t));
    if (m == NULL) {
        abort();
    }

    m->g = arg->group;
    m->slot = arg->slot;
    m->me.group = m->g;
    m->random = options.seed ^ (uint64_t) (uintptr_t) m->g ^ 0x9e00u
                ^ (uint64_t) m->slot << 20;
    snprintf(m->who, sizeof(m->who), "member %d of %s", m->slot, m->g->name);

    if (m->slot >= GROUP_MEMBERS - 2) {
        snprintf(m->instance, sizeof(m->instance), "%s#%d", m->g->name,
                 m->slot);
        m->me.instance = m->instance;
    }

    conn_init(&m->coord, m->who, &quitting);
    conn_init(&m->data, m->who, &quitting);

    while (!actor_pause()) {

        if (m->state == OUT) {
            do {
                silence(m->away_ms + 20);
            } while (dry && m->slot == 0 && !quitting);

            go(m, JOINING);
        }

        if (!conn_open(&m->coord)) {
            sleep_ms(30);
            continue;
        }

        switch (m->state) {
        case OUT:
            break;
        case JOINING:
            join(m);
            break;
        case SYNCING:
            sync_group(m);
            break;
        case STARTING:
            start(m);
            break;
        case CONSUMING:
            consume(m);
            break;
        }
    }

    conn_free(&m->coord);
    conn_free(&m->data);
    free(m);
    free(arg);
}
