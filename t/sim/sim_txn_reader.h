/*
 * Producers of sim_txn.h whose inputs are partitions that a group assigns to
 * them (KIP-447): each member of group READ_GROUP has one, with a transactional
 * id of its own, so that only the group's generation tells zombies.
 *
 * A reader takes note of who it is when it asks where to go on, and commits as
 * that one.  It may be paused at any step, while its member joins anew, and
 * loses its partitions; or while another process takes its member's place (with
 * the same instance id, if it is a static one, and then within the same
 * generation).  Most notice and abort; some do not, and try to commit.
 */

#ifndef SIM_TXN_READER_H
#define SIM_TXN_READER_H

#include "sim_txn.h"


static bool
is_reader(const app_t *a)
{
    return a - apps >= OWNERS;
}


/* Which of txn_ids it has. */
static int
app_id(const app_t *a)
{
    int  n = (int) (a - apps);

    return is_reader(a) ? n - OWNERS + TXN_IDS : n % TXN_IDS;
}


static gmember_t *
reader_member(const app_t *a)
{
    return &gmembers[READERS + (a - apps - OWNERS) % (MEMBERS - READERS)];
}


/* The other one of its member. */
static app_t *
reader_other(const app_t *a)
{
    return &apps[OWNERS + (a - apps - OWNERS + TXN_READERS / 2) % TXN_READERS];
}


/* A process has one; what is left of the process before it goes on. */
static bool
reader_may_start(const app_t *a)
{
    const app_t  *other = reader_other(a);

    return chance(30) && (other->stage == DEAD
                          || other->process != reader_member(a)->process);
}


/* Is it, for the group, who it was when it asked? */
static bool
reader_is(const app_t *a)
{
    const gmember_t  *m = reader_member(a);

    return m->stage == STABLE && m->generation == a->r.generation
           && strcmp(m->id, a->r.member_id) == 0;
}


static bool
reader_assigned(const gmember_t *m, int input)
{
    return m->of && (input - TXN_IDS) % m->of == m->rank;
}


/* Where to go on: at the offset that is committed. */
static void
app_next(app_t *a)
{
    memset(a->added, 0, sizeof(a->added));
    a->done = 0;
    a->unsure = false;
    a->paused_to = 0;
    a->stage = BEGIN;
}


/* Who reads from a group begins with what it is assigned. */
static void
app_anew(app_t *a)
{
    if (is_reader(a)) {
        a->r.generation = 0;
        app_next(a);

    } else {
        a->stage = OFFSET;
    }
}


/* Between two transactions.  true: there is something to read. */
static bool
reader_poll(app_t *a)
{
    int         input;
    gmember_t  *m = reader_member(a);

    if (a->process != m->process) {
        a->stage = DEAD;                /* it sees that it was replaced */
        return false;
    }

    if (m->stage != STABLE) {
        if (chance(50)) {
            member_step(m);             /* a client joins when it polls */
        }

        return false;
    }

    if (reader_is(a) && reader_assigned(m, a->r.input)
        && a->position < TXN_INPUTS && !chance(10))
    {
        return true;
    }

    input = TXN_IDS + (int) rnd(TOPIC_PARTS);

    if (reader_assigned(m, input) && txn_shown[input] < TXN_INPUTS) {
        a->r.input = input;
        a->r.generation = m->generation;
        a->r.instance_id = chance(80) ? instance_of(m)
                                      : (kf_str_t) kf_null_str;
        snprintf(a->r.member_id, ID, "%s", m->id);
        a->stage = OFFSET;
    }

    return false;
}


/* In the middle of a transaction, and often its member is lost meanwhile. */
static bool
reader_pauses(app_t *a)
{
    gmember_t  *m;

    if (!is_reader(a) || w.calm) {
        return false;
    }

    m = reader_member(a);

    if (a->done && a->paused_to == 0
        && chance(a->stage == END ? 20 : 3)) {
        trace("%s pauses", txn_ids[a->r.id]);
        a->paused_to = w.now_ms + rnd(8000);

        if (a->process == m->process && m->stage == STABLE && m->topic < 0
            && chance(60))
        {
            trace("and member %d has gone", (int) (m - gmembers));
            member_vanish(m);
        }
    }

    return a->paused_to > w.now_ms;
}


/* Does it notice that it has lost its partitions? */
static bool
reader_lost(const app_t *a)
{
    return is_reader(a) && a->process == reader_member(a)->process
           && (a->stage == WRITE || a->stage == ADD || a->stage == STAGE
               || (a->stage == BEGIN && a->done))
           && !a->asked && !reader_is(a) && chance(4);
}


/* The group does not take it for its member any more. */
static bool
reader_refused(app_t *a)
{
    if (!is_reader(a)
        || (a->error != KF_ERR_UNKNOWN_MEMBER_ID
            && a->error != KF_ERR_ILLEGAL_GENERATION
            && a->error != KF_ERR_FENCED_INSTANCE_ID))
    {
        return false;
    }

    trace("%s as \"%.12s\" of generation %d: %s", txn_ids[a->r.id],
          a->r.member_id, a->r.generation, kf_err_name(a->error));
    txn_lost++;

    return true;
}

#endif
