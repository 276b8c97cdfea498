/*
 * One group of -n members, each with a connection of its own and a heartbeat
 * every -h milliseconds, spread evenly over that time:
 *
 *   join      all come at once
 *   rejoin    all change their subscription at once, and so join again
 *   leave     one leaves; the others hear of it by their heartbeats
 *   come      one joins; the same
 *
 * Each part ends when all members are of one generation and have their
 * assignments.  A member's pause is the time from the heartbeat that told it to
 * join again until it has its assignment.
 *
 *   OUT ──> JOINING ──> SYNCING ──> STABLE ──> LEAVING ──> OUT
 *              ^───────────┴───────────┘ told, or a part begins
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load.h"
#include "net.h"
#include "result.h"


#define PART_MAX  120.0                 /* s, that a part may take */
#define IN_SIZE   4096

typedef enum {
    OUT,
    JOINING,
    SYNCING,
    STABLE,
    LEAVING
} state_t;

typedef struct {
    net_conn_t  net;
    member_t    member;
    state_t     state;
    frame_t     frame;                  /* of the request under way */
    bool        beating;                /* that is a heartbeat */
    bool        urged;                  /* joins again when that is answered */
    double      due;                    /* the next heartbeat */
    double      told;                   /* since when it pauses */
} peer_t;


static peer_t   *peers;
static int       expected;              /* members in the end of this part */
static int32_t   since;                 /* the generation before it */
static int32_t   round_no;
static double    start, interval, pause_max;


static void
send_frame(peer_t *p, frame_t f)
{
    free(p->frame.data);
    p->frame = f;

    (void) net_send(&p->net, f.data, f.len, NULL, 0);
}


static void
join(peer_t *p)
{
    p->state = JOINING;
    p->urged = false;
    send_frame(p, wire_join_group(&p->member, opt.topic, round_no));
}


/* Each member beats at its own place in the interval. */
static void
beat_later(peer_t *p, double now)
{
    double  at = start + interval * (double) (p - peers) / opt.conns;

    p->due = at + interval * (double) (int64_t) ((now - at) / interval + 1);
}


static void
settled(peer_t *p)
{
    double  now = proc_now();

    p->state = STABLE;
    beat_later(p, now);

    if (p->told && now - p->told > pause_max) {
        pause_max = now - p->told;
    }
    p->told = 0;

    if (p->urged) {
        join(p);
    }
}


static void
joined(peer_t *p, answer_t *a)
{
    wire_joined(&p->member, a);

    if (a->error == KF_ERR_NONE) {
        p->state = SYNCING;
        send_frame(p, wire_sync_group(&p->member, opt.topic));
        return;
    }

    if (a->error != KF_ERR_MEMBER_ID_REQUIRED && !is_passing(a->error)) {
        fail("JoinGroup: %s", a->message);
    }

    join(p);
}


static void
beaten(peer_t *p, const answer_t *a)
{
    p->beating = false;

    if (a->error == KF_ERR_REBALANCE_IN_PROGRESS || p->urged) {
        p->told = proc_now();
        join(p);
        return;
    }

    if (a->error) {
        fail("Heartbeat: %s", a->message);
    }
}


static void
take_answer(net_conn_t *net, const uint8_t *frame, size_t len)
{
    answer_t              a;
    peer_t               *p = net->data;
    static const int16_t  apis[] = { -1, 11, 14, 12, 13 };

    if (!wire_answer(apis[p->state], frame, len, &a)) {
        fail("an answer does not parse");
    }

    switch (p->state) {

    case JOINING:
        joined(p, &a);
        break;

    case SYNCING:
        if (a.error == KF_ERR_NONE) {
            settled(p);
        } else if (a.error == KF_ERR_REBALANCE_IN_PROGRESS) {
            join(p);
        } else {
            fail("SyncGroup: %s", a.message);
        }
        break;

    case STABLE:
        beaten(p, &a);
        break;

    default:
        if (a.error) {
            fail("LeaveGroup: %s", a.message);
        }
        p->state = OUT;
        p->member.id[0] = '\0';
    }
}


static void
nothing(net_conn_t *net)
{
    (void) net;
}


/* All who are expected are in the newest generation, which is a new one. */
static bool
is_settled(void)
{
    int      i, in = 0, known = 0;
    int32_t  generation = since;

    for (i = 0; i < opt.conns; i++) {
        if (peers[i].state != OUT && peers[i].member.generation > generation) {
            generation = peers[i].member.generation;
        }
    }

    for (i = 0; i < opt.conns; i++) {
        if (peers[i].state == LEAVING) {
            return false;
        }

        if (peers[i].state != OUT) {
            in++;

            if (peers[i].state != STABLE
                || peers[i].member.generation != generation)
            {
                return false;
            }

            if (peers[i].member.leads) {
                known = peers[i].member.members_n;
            }
        }
    }

    return generation > since && in == expected && known == expected;
}


/* Until all is settled; how long that took. */
static double
settle(void)
{
    int     i;
    double  now, due, begun = proc_now();

    while (!is_settled()) {
        now = proc_now();
        due = 0.1;

        if (now - begun > PART_MAX) {
            fail("the group does not settle");
        }

        for (i = 0; i < opt.conns; i++) {
            peer_t  *p = &peers[i];

            if (p->state != STABLE || p->beating) {
                continue;
            }

            if (p->due <= now) {
                p->beating = true;
                beat_later(p, now);
                send_frame(p, wire_heartbeat(&p->member));

            } else if (p->due - now < due) {
                due = p->due - now;
            }
        }

        net_wait(due);
    }

    now = proc_now();

    for (i = 0; i < opt.conns; i++) {
        if (peers[i].state == STABLE) {
            since = peers[i].member.generation;
        }
    }

    return now - begun;
}


static double
all_join(void)
{
    int  i;

    expected = opt.conns;

    for (i = 0; i < opt.conns; i++) {
        join(&peers[i]);
    }

    return settle();
}


static double
all_rejoin(void)
{
    int  i;

    round_no++;

    for (i = 0; i < opt.conns; i++) {
        if (peers[i].beating) {
            peers[i].urged = true;
        } else {
            join(&peers[i]);
        }
    }

    return settle();
}


/* Not the leader, which would be no ordinary case. */
static double
one_leaves(peer_t **gone)
{
    int  i = opt.conns - 1;

    while (peers[i].member.leads || peers[i].beating) {
        i--;

        if (i < 0) {
            fail("nobody can leave");
        }
    }

    *gone = &peers[i];
    expected = opt.conns - 1;
    pause_max = 0;
    peers[i].state = LEAVING;
    send_frame(&peers[i], wire_leave_group(&peers[i].member));

    return settle();
}


static double
one_comes(peer_t *p)
{
    expected = opt.conns;
    pause_max = 0;
    join(p);

    return settle();
}


void
group_run(void)
{
    int       i, fd;
    char      name[WIRE_ID];
    double    t;
    peer_t   *gone;
    meter_t   joining, rejoining;

    if (opt.conns < 2) {
        fail("a group of one has nobody to wait for");
    }

    peers = need((size_t) opt.conns, sizeof(peer_t));
    interval = opt.heartbeat_ms / 1000.0;
    snprintf(name, sizeof(name), "%.40s-%d", opt.label, (int) getpid());

    fd = dial(true);
    coordinator_ready(fd, name, 0);
    close(fd);

    for (i = 0; i < opt.conns; i++) {
        memcpy(peers[i].member.group, name, sizeof(name));
        peers[i].net.answer = take_answer;
        peers[i].net.sent = nothing;
        peers[i].net.ready = nothing;
        peers[i].net.data = &peers[i];
        net_open(&peers[i].net, IN_SIZE);
    }

    start = proc_now();

    result_begin();
    result_count("members", opt.conns);
    result_real("heartbeat_ms", opt.heartbeat_ms);

    meter_start(&joining);
    t = all_join();
    meter_stop(&joining);
    result_real("join_ms", t * 1000);

    meter_start(&rejoining);
    t = all_rejoin();
    meter_stop(&rejoining);
    result_real("rejoin_ms", t * 1000);

    t = one_leaves(&gone);
    result_real("leave_ms", t * 1000);
    result_real("leave_pause_ms", pause_max * 1000);
    result_real("leave_pause_beats", pause_max / interval);

    t = one_comes(gone);
    result_real("come_ms", t * 1000);
    result_real("come_pause_ms", pause_max * 1000);
    result_real("come_pause_beats", pause_max / interval);

    if (opt.pid) {
        result_real("join_cpu_us_per_member",
                    meter_cpu_s(&joining) * 1e6 / opt.conns);
        result_real("rejoin_cpu_us_per_member",
                    meter_cpu_s(&rejoining) * 1e6 / opt.conns);
    }

    result_end();
}
