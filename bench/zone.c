/*
 * What groups, members and committed offsets take of the shared zone: pages
 * that all processes of the broker have touched, before and after some
 * thousands of each.  It wants a fresh broker, in which nothing has been freed
 * that they could use again, and a topic of -p partitions.
 *
 * Questions are asked in lanes, a connection each, so that one flush of the
 * journal answers many.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load.h"
#include "result.h"


#define LANES   64

typedef struct {
    int       fd[2];                    /* a first and a second member */
    member_t  m[2];
} lane_t;


static lane_t  lanes[LANES];


static double
zone_bytes(void)
{
    proc_use_t  use;

    usleep(200000);

    if (!proc_tree(opt.pid, true, &use)) {
        fail("no process %d", (int) opt.pid);
    }

    return (double) use.shmem_kib * 1024;
}


static void
say(lane_t *l, int i, frame_t f)
{
    if (tell(l->fd[i], f) != 0) {
        fail("a connection was closed");
    }

    free(f.data);
}


static void
take(lane_t *l, int i, int16_t api, int16_t allowed, answer_t *a)
{
    if (hear(l->fd[i], api, a) != 0) {
        fail("a connection was closed");
    }

    if (a->error && a->error != allowed) {
        fail("api key %d: %s", api, a->message);
    }
}


static void
nobody(member_t *m, const char *kind, int i)
{
    memset(m, 0, sizeof(member_t));
    snprintf(m->group, sizeof(m->group), "%s-%06d", kind, i);
    m->generation = -1;
}


/* Groups without members that commit count offsets each. */
static void
commit(int groups, int32_t count)
{
    int       i, k;
    member_t  m;
    answer_t  a;

    for (i = 0; i < groups; i += LANES) {
        for (k = 0; k < LANES && i + k < groups; k++) {
            nobody(&m, "offsets", i + k);
            say(&lanes[k], 0, wire_offset_commit(&m, opt.topic, 0, count, 1));
        }

        for (k = 0; k < LANES && i + k < groups; k++) {
            take(&lanes[k], 0, 8, 0, &a);
        }
    }
}


/* The i-th member of each lane asks to join and gets its id. */
static void
introduce(int n, int i)
{
    int       k;
    answer_t  a;

    for (k = 0; k < n; k++) {
        say(&lanes[k], i, wire_join_group(&lanes[k].m[i], opt.topic, 0));
    }

    for (k = 0; k < n; k++) {
        take(&lanes[k], i, 11, KF_ERR_MEMBER_ID_REQUIRED, &a);
        wire_joined(&lanes[k].m[i], &a);
    }
}


/* Members of each lane join together; the first of them is there already when
 * there are two. */
static void
join(int n, int members)
{
    int       i, k;
    answer_t  a;

    for (i = members - 1; i >= 0; i--) {
        for (k = 0; k < n; k++) {
            say(&lanes[k], i, wire_join_group(&lanes[k].m[i], opt.topic, 0));
        }

        /* the second has to be known before the first comes again */

        if (i) {
            usleep(20000);
        }
    }

    for (i = 0; i < members; i++) {
        for (k = 0; k < n; k++) {
            take(&lanes[k], i, 11, 0, &a);
            wire_joined(&lanes[k].m[i], &a);
        }
    }

    for (i = 0; i < members; i++) {
        for (k = 0; k < n; k++) {
            say(&lanes[k], i, wire_sync_group(&lanes[k].m[i], opt.topic));
        }
    }

    for (i = 0; i < members; i++) {
        for (k = 0; k < n; k++) {
            take(&lanes[k], i, 14, 0, &a);
        }
    }
}


/* Groups of one member, or of two. */
static void
populate(const char *kind, int groups, int members)
{
    int  i, k, n, who;

    for (i = 0; i < groups; i += LANES) {
        n = groups - i < LANES ? groups - i : LANES;

        for (k = 0; k < n; k++) {
            for (who = 0; who < 2; who++) {
                free(lanes[k].m[who].members);
                nobody(&lanes[k].m[who], kind, i + k);
            }
        }

        for (who = 0; who < members; who++) {
            introduce(n, who);
            join(n, who + 1);
        }
    }
}


void
zone_run(void)
{
    int        i, groups;
    int64_t    offsets;
    double     at[5];
    answer_t   a;

    groups = opt.requests_max ? (int) opt.requests_max : 4096;

    for (i = 0; i < LANES; i++) {
        lanes[i].fd[0] = dial(true);
        lanes[i].fd[1] = dial(true);
        ask_once(lanes[i].fd[1], 18, wire_api_versions(), &a);
    }

    /* what comes with the first of each is not theirs */

    nobody(&lanes[0].m[0], "first", 0);
    ask_once(lanes[0].fd[0], 8, wire_offset_commit(&lanes[0].m[0], opt.topic,
             0, 1, 1), &a);
    populate("first", 1, 2);

    at[0] = zone_bytes();
    commit(groups, 1);
    at[1] = zone_bytes();
    commit(groups / 16, opt.partitions);
    at[2] = zone_bytes();
    populate("one", groups, 1);
    at[3] = zone_bytes();
    populate("two", groups, 2);
    at[4] = zone_bytes();

    offsets = (int64_t) (groups / 16) * (opt.partitions - 1);

    result_begin();
    result_count("groups", groups);
    result_count("offsets", offsets);
    result_real("bytes_per_group", (at[1] - at[0]) / groups);
    result_real("bytes_per_offset", (at[2] - at[1])
                                    / (double) (offsets ? offsets : 1));
    result_real("bytes_per_group_of_one", (at[3] - at[2]) / groups);
    result_real("bytes_per_member", (at[4] - 2 * at[3] + at[2]) / groups);
    result_end();
}
