/*
 * SyncGroup, Heartbeat and LeaveGroup: every state, every fence.
 */

#include "coordinator_group_lib.h"


static void
test_sync(void)
{
    join_t  a, b;
    sync_t  y, z;

    is(sync("", 1, "x", NULL).rsp.error_code, KF_ERR_INVALID_GROUP_ID,
       "no group id");
    is(sync("none", 1, "x", NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "no group");

    a = join2("g");
    is(sync("g", 0, a.id, NULL).rsp.error_code, KF_ERR_ILLEGAL_GENERATION,
       "an older generation");
    is(sync("g", 2, a.id, NULL).rsp.error_code, KF_ERR_ILLEGAL_GENERATION,
       "a later one");
    is(sync("g", 1, "x", NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "an unknown member");
    is(sync_as(3, "g", 1, a.id, "i", NULL).rsp.error_code,
       KF_ERR_UNKNOWN_MEMBER_ID, "an unknown instance");

    y = sync_as(5, "g", 1, a.id, NULL, NULL);
    y.req.protocol_type = kf_null_str;
    kc_sync_group(&w.kc, &w.call, 5, &y.req, &y.park, &y.rsp);
    wrote();

    y = sync_as(4, "g", 1, a.id, NULL, NULL);
    is(y.rsp.error_code, 0, "(the group is stable)");
    y.req.protocol_type = kf_null_str;
    y.req.protocol_name = s("range");
    is(kc_sync_group(&w.kc, &w.call, 5, &y.req, &y.park, &y.rsp), KC_OK, "v5");
    is(y.rsp.error_code, KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "needs a type");
    y.req.protocol_type = s("connect");
    kc_sync_group(&w.kc, &w.call, 5, &y.req, &y.park, &y.rsp);
    is(y.rsp.error_code, KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "the right one");
    y.req.protocol_type = s("consumer");
    y.req.protocol_name = s("rr");
    kc_sync_group(&w.kc, &w.call, 5, &y.req, &y.park, &y.rsp);
    is(y.rsp.error_code, KF_ERR_INCONSISTENT_GROUP_PROTOCOL,
       "and the right protocol");
    y.req.protocol_name = s("range");
    kc_sync_group(&w.kc, &w.call, 5, &y.req, &y.park, &y.rsp);
    is(y.rsp.error_code, 0, "then it is answered");
    is_str(c(y.rsp.protocol_name), "range", "with the protocol");
    is_str(c(y.rsp.protocol_type), "consumer", "and the type");
    ok(y.rsp.assignment.data != NULL && y.rsp.assignment.len == 0,
       "who was given nothing has an empty assignment");

    b = join2("g");
    a = join(5, "g", a.id, NULL);
    join_poll(&b);
    is(b.rsp.generation_id, 2, "two members");
    wrote();

    y = sync("g", 2, b.id, "x=ignored");
    is(y.rc, KC_PARK, "the follower waits");
    woken("g");
    z = sync("g", 2, b.id, NULL);
    is(z.rc, KC_PARK, "and asks again");
    ok(woken("g"), "which wakes the group");
    is(sync_poll(&y), KC_OK, "the older request is answered");
    is(y.rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS, "join again");
    is(sync_poll(&z), KC_PARK, "the newer one waits");
    is(beat("g", 2, b.id), 0, "its heartbeats are good meanwhile");
    is_str(wrote(), "", "nothing is written");
    woken("g");

    y = sync("g", 2, a.id, give(b.id, "first", b.id, "second"));
    is(y.rc, KC_OK, "the leader assigns");
    is_str(wrote(), "GroupAssignment", "journaled");
    is(w.call.wait, w.end, "waited for");
    ok(woken("g"), "the group is woken");
    is(sync_poll(&z), KC_OK, "the follower is answered");
    is_str(c(z.rsp.assignment), "second", "the last one named counts");
    is(w.call.wait, w.end, "it waits for the record, too");
    is_str(c(sync("g", 2, b.id, NULL).rsp.assignment), "second",
           "and may ask again");
    is(sync_poll(&z), KC_OK, "a poll is idempotent");

    y = sync("g", 2, a.id, give(a.id, "late", b.id, "late"));
    is(y.rsp.error_code, 0, "a leader that assigns again");
    is_str(c(sync("g", 2, b.id, NULL).rsp.assignment), "second",
           "changes nothing");
    is_str(wrote(), "", "and writes nothing");
    world_check(&w, "sync");
}


static void
test_sync_given_up(void)
{
    join_t  a, b;
    sync_t  y;

    a = join2("u");
    sync("u", 1, a.id, NULL);
    b = join2("u");
    a = join(5, "u", a.id, NULL);
    join_poll(&b);
    y = sync("u", 2, b.id, NULL);
    is(y.rc, KC_PARK, "the follower waits");
    woken("u");
    is(leave("u", a.id), 0, "the leader leaves");
    ok(woken("u"), "which wakes the follower");
    is(sync_poll(&y), KC_OK, "it is answered");
    is(y.rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS, "with a round");
    b = join(5, "u", b.id, NULL);
    is(b.rsp.generation_id, 3, "in which it is alone");
    is(sync_poll(&y), KC_OK, "a late poll");
    is(y.rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS, "hears the same");

    sync("u", 3, b.id, NULL);

    /* who waits for an assignment is not late; afterwards its session counts */
    a = join2("u");
    b = join(5, "u", b.id, NULL);
    join_poll(&a);
    y = sync("u", 4, a.id, NULL);
    is(y.rc, KC_PARK, "a follower waits");
    pass(9000);
    beat("u", 4, b.id);
    pass(9000);
    beat("u", 4, b.id);
    pass(1000);
    protos = "range:changed";
    b = join(5, "u", b.id, NULL);
    protos = "range:R";
    is(sync_poll(&y), KC_OK, "for a generation that is given up");
    is(y.rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS, "as it hears");
    pass(9000);
    is(beat("u", 4, a.id), KF_ERR_REBALANCE_IN_PROGRESS, "it has a session");
    pass(11000);
    is(join_poll(&b), KC_OK, "and no more than that");
    is(b.rsp.members_n, 1, "b is alone again");
    sync("u", 5, b.id, NULL);
    y = sync("u", 5, b.id, NULL);
    is(leave("u", b.id), 0, "it leaves");
    is(sync_poll(&y), KC_OK, "a poll of who is gone");
    is(y.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "hears that");
    is(sync("u", 6, b.id, NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "an empty group has no members");
    world_check(&w, "given up");
    wrote();
}


static void
test_heartbeat(void)
{
    join_t  a;

    is(beat("", 1, "x"), KF_ERR_INVALID_GROUP_ID, "no group id");
    is(beat("none", 1, "x"), KF_ERR_UNKNOWN_MEMBER_ID, "no group");

    a = join2("h");
    is(beat("h", 1, a.id), 0, "before the assignment");
    is(beat("h", 0, a.id), KF_ERR_ILLEGAL_GENERATION, "an older generation");
    is(beat("h", 2, a.id), KF_ERR_ILLEGAL_GENERATION, "a later one");
    is(beat("h", -1, a.id), KF_ERR_ILLEGAL_GENERATION, "none");
    is(beat("h", 1, "x"), KF_ERR_UNKNOWN_MEMBER_ID, "an unknown member");
    is(beat("h", 1, ""), KF_ERR_UNKNOWN_MEMBER_ID, "nobody");
    sync("h", 1, a.id, NULL);
    wrote();
    is(beat("h", 1, a.id), 0, "stable");
    is_str(wrote(), "", "a heartbeat writes nothing");
    leave("h", a.id);
    is(beat("h", 1, a.id), KF_ERR_UNKNOWN_MEMBER_ID, "who left");
    wrote();
}


static void
test_leave(void)
{
    join_t                            a, b, p;
    kf_leave_group_request_t          req;
    kf_leave_group_response_t         rsp;
    kf_leave_group_request_members_t  m[5];

    is(leave("", "x"), KF_ERR_INVALID_GROUP_ID, "no group id");
    is(leave("none", "x"), KF_ERR_UNKNOWN_MEMBER_ID, "no group");

    a = join2("l");
    sync("l", 1, a.id, NULL);
    b = join2("l");
    a = join(5, "l", a.id, NULL);
    join_poll(&b);
    sync("l", 2, a.id, NULL);
    sync("l", 2, b.id, NULL);
    p = join(5, "l", "", NULL);
    wrote();

    is(leave("l", p.id), 0, "an id that was given leaves");
    is_str(state("l"), "Stable", "and disturbs nobody");
    is(join(5, "l", p.id, NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "it cannot join any more");

    memset(&req, 0, sizeof(req));
    memset(m, 0, sizeof(m));
    m[0].member_id = s("nobody");
    m[1].member_id = s(b.id);
    m[2].member_id = s(b.id);
    m[3].member_id = s("");
    m[4].member_id = s(a.id);
    m[4].group_instance_id = s("none");
    req.group_id = s("l");
    req.members = m;
    req.members_n = 5;
    is(kc_leave_group(&w.kc, &w.call, 3, &req, &rsp), KC_OK, "several");
    is(rsp.error_code, 0, "no error as a whole");
    is(rsp.members_n, 5, "each has its own");
    is(rsp.members[0].error_code, KF_ERR_UNKNOWN_MEMBER_ID, "not known");
    is(rsp.members[1].error_code, 0, "left");
    is(rsp.members[2].error_code, KF_ERR_UNKNOWN_MEMBER_ID, "left already");
    is(rsp.members[3].error_code, KF_ERR_UNKNOWN_MEMBER_ID, "nobody");
    is(rsp.members[4].error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "an instance that is not");
    is_str(state("l"), "PreparingRebalance", "a round for the others");
    is_str(wrote(), "", "not journaled: the next generation is");

    memset(&req, 0, sizeof(req));
    req.group_id = s("l");
    req.member_id = s(b.id);
    kc_leave_group(&w.kc, &w.call, 2, &req, &rsp);
    is(rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "version 2: one, its error");
    req.member_id = s(a.id);
    kc_leave_group(&w.kc, &w.call, 0, &req, &rsp);
    is(rsp.error_code, 0, "version 0");
    is_str(state("l"), "Empty", "the last one left");
    is_str(wrote(), "Group", "that is journaled");
    is(w.call.wait, w.end, "and waited for");
    world_check(&w, "leave");

    a = join2("l");
    is(a.rsp.generation_id, 4, "generations go on");
    sync("l", 4, a.id, NULL);
    b = join2("l");
    is(b.rc, KC_PARK, "b waits in a round");
    p = join(5, "l", "", NULL);
    a = join(5, "l", a.id, NULL);
    is(a.rc, KC_PARK, "that waits for an id that was given");
    is(leave("l", p.id), 0, "until that leaves");
    is(join_poll(&a), KC_OK, "a is answered");
    is(join_poll(&b), KC_OK, "and b");
    world_check(&w, "leave a round");
    wrote();
}


int
main(void)
{
    world_start(&w);

    test_sync();
    test_sync_given_up();
    test_heartbeat();
    test_leave();

    world_end(&w);

    return done_testing();
}
