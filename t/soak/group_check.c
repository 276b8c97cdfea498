/*
 * Do groups get on, do they come to the end, is in force what has to be.
 *
 * A partition is behind while the group has committed less than producers were
 * acknowledged.  A group hangs when a partition stays behind without a commit
 * for longer than anything may take that a member can do to the others: a few
 * sessions and rounds, each of which begins anew when the broker has restarted.
 * Only moments at which the broker answers somebody count.
 */

#define _GNU_SOURCE
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS       3
#define TICK_MS     100
#define HANG_MS     90000               /* under faults */
#define DRAIN_MS    30000               /* without them */

static conn_t  conn;


static int64_t
acked_end(part_t *p)
{
    size_t   k;
    int64_t  end = 0, one;

    pthread_mutex_lock(&p->lock);

    /* retries may be acknowledged out of order, but not by much */
    for (k = p->acks_n > 64 ? p->acks_n - 64 : 0; k < p->acks_n; k++) {
        one = p->acks[k].base + p->acks[k].count;
        end = one > end ? one : end;
    }

    pthread_mutex_unlock(&p->lock);

    return end;
}


static void
hangs(group_t *g, int part, int64_t end, int64_t ms)
{
    int       i;
    char      text[400];
    size_t    n = 0;
    int64_t   now = now_ms();
    commit_t  known;

    pthread_mutex_lock(&g->lock);
    known = g->parts[part].known;
    text[0] = '\0';

    for (i = 0; i < GROUP_MEMBERS && n < sizeof(text); i++) {
        n += (size_t) snprintf(text + n, sizeof(text) - n,
                               "; %d %s for %lld ms", i,
                               g->doing[i] ? g->doing[i] : "has not begun",
                               (long long) (now - g->doing_ms[i]));
    }

    pthread_mutex_unlock(&g->lock);

    fault("group %s hangs: partition %d at offset %lld of %lld for %lld ms%s",
          g->name, part, (long long) known.offset, (long long) end,
          (long long) ms, text);
}


static void
tick(group_t *g)
{
    int            i;
    int64_t        end, ms;
    group_part_t  *p;

    for (i = 0; i < GROUP_PARTS; i++) {
        p = &g->parts[i];
        end = acked_end(p->part);

        pthread_mutex_lock(&g->lock);

        if (p->known.offset < end && p->known.serial == p->idle_serial) {
            p->idle_ms += TICK_MS;

        } else {
            p->idle_ms = 0;
            p->idle_serial = p->known.serial;
        }

        ms = p->idle_ms;
        pthread_mutex_unlock(&g->lock);

        if ((uint64_t) ms > group_counters.longest_ms) {
            group_counters.longest_ms = (uint64_t) ms;
        }

        if (ms == HANG_MS) {
            hangs(g, i, end, ms);
        }
    }
}


void
group_watch_run(void *ctx)
{
    group_t  *g;

    (void) ctx;

    while (!actor_pause()) {
        sleep_ms(TICK_MS);

        if (now_ms() - wire_answered_ms > TICK_MS * 5) {
            continue;                           /* it is not there */
        }

        for (g = groups; g; g = g->next) {
            if (!g->simple) {
                tick(g);
            }
        }
    }
}


/* --- drain --------------------------------------------------------------- */

/* The ends of all partitions; false while the broker does not tell. */
static bool
ends(int64_t end[GROUP_PARTS])
{
    int  i;

    for (i = 0; i < GROUP_PARTS; i++) {
        if (!conn_open(&conn)
            || ask_offset(&conn, &group_topic(i)->parts[group_index(i)], -1,
                          &end[i]) != 0)
        {
            return false;
        }
    }

    return true;
}


/* The first partition that is not at its end, GROUP_PARTS: none. */
static int
behind(group_t *g, const int64_t end[GROUP_PARTS], uint64_t *serials)
{
    int  i, part = GROUP_PARTS;

    pthread_mutex_lock(&g->lock);

    for (i = GROUP_PARTS - 1; i >= 0; i--) {
        *serials += g->parts[i].known.serial;

        if (g->parts[i].known.offset < end[i]) {
            part = i;
        }
    }

    pthread_mutex_unlock(&g->lock);

    return part;
}


/* True when the group is at the end, or will never be. */
static bool
drained(group_t *g, const int64_t end[GROUP_PARTS])
{
    int              part;
    int64_t          idle;
    uint64_t         serials = 0;
    static group_t  *of;
    static int64_t   since;
    static uint64_t  before;

    part = behind(g, end, &serials);

    if (of != g || serials != before) {
        of = g;
        before = serials;
        since = now_ms();
    }

    if (part == GROUP_PARTS) {
        return true;
    }

    idle = now_ms() - since;

    if (idle < DRAIN_MS) {
        return false;
    }

    hangs(g, part, end[part], idle);

    return true;
}


bool
groups_drain(void)
{
    bool       more = true;
    int64_t    end[GROUP_PARTS], last[GROUP_PARTS] = { -1 };
    int64_t    until = now_ms() + options.patience * 1000;
    group_t   *g;
    uint64_t   before = counters.faults;

    conn_init(&conn, "drain", NULL);

    /* producers first: what is under way is sent until it is answered */

    while (more && now_ms() < until) {
        sleep_ms(300);

        if (ends(end)) {
            more = memcmp(end, last, sizeof(end)) != 0;
            memcpy(last, end, sizeof(end));
        }
    }

    if (more) {
        fault("drain: the logs do not come to an end");
    }

    for (g = groups; g && counters.faults == before; g = g->next) {
        while (!g->simple && !drained(g, end)) {
            sleep_ms(50);
        }

        if (!g->simple && counters.faults == before) {
            delivered_all(g);
        }
    }

    conn_free(&conn);

    return counters.faults == before;
}


/* --- check --------------------------------------------------------------- */

static bool
check(group_t *g)
{
    int      error;
    bool     wanted[GROUP_PARTS] = { true, true, true, true, true, true };
    int64_t  offsets[GROUP_PARTS];
    int64_t  until = now_ms() + options.patience * 1000;

    for ( ;; ) {
        error = LOST;

        if (conn_open(&conn)) {
            error = ask_offsets(&conn, g, SHOWN_TO_ALL, wanted, g->by_id,
                                offsets);
        }

        if (error == 0) {
            return true;
        }

        if (!retriable(error) || now_ms() > until) {
            fault("check: OffsetFetch of %s answers error %d", g->name, error);
            return false;
        }

        sleep_ms(20);
    }
}


bool
groups_check(void)
{
    group_t   *g;
    uint64_t   before = counters.faults;

    conn_init(&conn, "check", NULL);

    for (g = groups; g; g = g->next) {
        if (!check(g)) {
            break;
        }
    }

    conn_free(&conn);

    return counters.faults == before;
}


/* --- setup --------------------------------------------------------------- */

static bool
topics_make(void)
{
    int          i, t, error;
    char         name[64];
    conn_t       c;
    uint8_t      id[16];
    topic_t     *topic;
    const char  *config[] = { "segment.bytes", "1048576", NULL };

    for (t = 0; t < GROUP_TOPICS; t++) {
        snprintf(name, sizeof(name), "grouped.%.20s.%d", options.name, t);
        conn_init(&c, name, NULL);

        error = conn_open(&c) ? ask_create(&c, name, PARTS, config, id) : LOST;
        conn_free(&c);

        if (error) {
            fault("create of %s answers error %d", name, error);
            return false;
        }

        topic = topic_add(name, id, PARTS, t & 1);
        group_topics[t] = topic;

        for (i = 0; i < PARTS; i++) {
            producer_begin(&topic->parts[i], true, 200 + t * PARTS + i);
        }
    }

    return true;
}


bool
groups_setup(int n)
{
    int            i, k;
    char           name[64];
    group_t       *g;
    member_arg_t  *arg;

    if (!topics_make()) {
        return false;
    }

    for (i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "group.%.20s.%d", options.name, i);
        g = group_add(name, i & 1, false);

        for (k = 0; k < GROUP_MEMBERS; k++) {
            arg = malloc(sizeof(member_arg_t));
            if (arg == NULL) {
                abort();
            }

            arg->group = g;
            arg->slot = k;
            actor_begin(member_run, arg);
        }
    }

    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "simple.%.20s.%d", options.name, i);
        actor_begin(simple_run, group_add(name, i & 1, true));
    }

    actor_begin(group_watch_run, NULL);

    return true;
}
