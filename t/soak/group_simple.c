/*
 * A group without members: one client commits offsets of its own choice,
 * several requests under way, looks what is in force, and now and then deletes
 * the group.  Nobody else does anything to it.
 */

#define _GNU_SOURCE
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW  4

typedef struct {
    commit_t  commits[GROUP_PARTS];
    int32_t   correlation;
} sent_t;

typedef struct {
    group_t      *g;
    member_id_t   me;
    char          who[128];
    conn_t        conn;
    uint64_t      random;
    sent_t        sent[WINDOW];
    int           n;
    bool          unsure;               /* looks before it goes on */
} simple_t;


static void
finish(simple_t *s, const commit_t *commits, commit_end_t how)
{
    int  i;

    for (i = 0; i < GROUP_PARTS; i++) {
        if (commits[i].serial) {
            commit_end(s->g, i, &commits[i], how, s->who);
        }
    }
}


/* Done or not: nobody will say. */
static void
lost(simple_t *s)
{
    int  i;

    conn_close(&s->conn);

    for (i = 0; i < s->n; i++) {
        finish(s, s->sent[i].commits, COMMIT_LOST);
    }

    s->n = 0;
    s->unsure = true;
}


static bool
unavailable(int error)
{
    return error == LOST || error == ERR_LOADING
           || error == ERR_COORDINATOR_NOT_AVAILABLE
           || error == ERR_NOT_COORDINATOR;
}


static void
answered(simple_t *s)
{
    int     error;
    sent_t  first = s->sent[0];

    error = commit_answer(&s->conn, &s->me, first.commits, first.correlation);

    if (error == LOST) {
        lost(s);
        return;
    }

    s->n--;
    memmove(s->sent, s->sent + 1, (size_t) s->n * sizeof(sent_t));

    if (error && !unavailable(error)) {
        fault("%s: OffsetCommit answers error %d", s->who, error);
    }

    finish(s, first.commits, error == 0 ? COMMIT_DONE
                             : unavailable(error) ? COMMIT_LOST
                             : COMMIT_REFUSED);
}


static void
send_one(simple_t *s)
{
    int      i;
    sent_t  *next = &s->sent[s->n];

    memset(next, 0, sizeof(sent_t));

    for (i = 0; i < GROUP_PARTS; i++) {
        if (i == 0 || rnd(&s->random) % 2) {
            next->commits[i] = commit_begin(s->g, i,
                                            (int64_t) (rnd(&s->random) >> 20),
                                            -1);
        }
    }

    s->n++;

    if (!commit_send(&s->conn, &s->me, next->commits)) {
        lost(s);
        return;
    }

    next->correlation = s->conn.correlation;
}


static void
look(simple_t *s)
{
    int      error;
    bool     wanted[GROUP_PARTS] = { true, true, true, true, true, true };
    int64_t  offsets[GROUP_PARTS];

    /* whatever was sent before is in force, or never will be */
    error = ask_offsets(&s->conn, s->g, 0, wanted, rnd(&s->random) % 2,
                        offsets);

    if (error && !unavailable(error)) {
        fault("%s: OffsetFetch answers error %d", s->who, error);
    }

    s->unsure = error != 0;
}


static void
delete(simple_t *s)
{
    int           i, error;
    mark_t        mark;
    commit_t      gone[GROUP_PARTS];
    commit_end_t  how;

    group_mark(s->g, &mark);

    for (i = 0; i < GROUP_PARTS; i++) {
        gone[i] = commit_begin(s->g, i, -1, -1);
    }

    error = ask_delete_group(&s->conn, s->g);

    if (error && error != ERR_GROUP_NOT_FOUND && !unavailable(error)) {
        fault("%s: DeleteGroups answers error %d", s->who, error);
    }

    how = error == 0 ? COMMIT_DONE
          : unavailable(error) ? COMMIT_LOST : COMMIT_REFUSED;

    finish(s, gone, how);
    group_counters.deleted += error == 0;

    if (error == ERR_GROUP_NOT_FOUND) {
        for (i = 0; i < GROUP_PARTS; i++) {
            offset_saw(s->g, i, &mark, 0, -1, -1, "", s->who);
        }
    }

    if (error == 0) {
        look(s);
    }
}


void
simple_run(void *ctx)
{
    int        k;
    simple_t  *s;

    s = calloc(1, sizeof(simple_t));
    if (s == NULL) {
        abort();
    }

    s->g = ctx;
    s->me.group = s->g;
    s->me.generation = -1;
    s->random = options.seed ^ (uint64_t) s->g->by_id ^ 0x51;
    snprintf(s->who, sizeof(s->who), "owner of %s", s->g->name);
    conn_init(&s->conn, s->who, &quitting);

    for ( ;; ) {

        /* whoever pauses waits for no answer */

        while (s->n && (paused || quitting)) {
            answered(s);
        }

        if (s->n == 0 && actor_pause()) {
            break;
        }

        if (!conn_open(&s->conn)) {
            sleep_ms(30);
            continue;
        }

        k = (int) (rnd(&s->random) % 100);

        while (s->n && (s->n == WINDOW || k < 30)) {
            answered(s);
        }

        if (s->conn.fd == -1) {
            continue;
        }

        if (s->unsure || (s->n == 0 && k >= 2 && k < 10)) {
            look(s);

        } else if (s->n == 0 && k < 2) {
            delete(s);

        } else if (s->n == 0 && k < 12) {
            conn_close(&s->conn);               /* another worker */

        } else {
            send_one(s);
        }

        sleep_ms((int) (rnd(&s->random) % 40));
    }

    conn_free(&s->conn);
    free(s);
}
