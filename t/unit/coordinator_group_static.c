/*
 * Static members: group.instance.id (KIP-345), fences, and SkipAssignment.
 */

#include "coordinator_group_lib.h"


static void
test_replace_stable(void)
{
    char                                  first[400];
    join_t                                a, b, n;
    kf_describe_groups_response_groups_t  d;

    a = join(9, "s", "", "i1");
    is(a.rc, KC_OK, "a static member joins at once");
    is(a.rsp.error_code, 0, "without MEMBER_ID_REQUIRED");
    ok(strncmp(a.id, "i1-", 3) == 0, "its id is <instance id>-<uuid>");
    sync("s", 1, a.id, NULL);

    b = join(9, "s", "", "i2");
    a = join(9, "s", a.id, "i1");
    is(join_poll(&b), KC_OK, "and a second one");
    sync("s", 2, a.id, give(a.id, "one", b.id, "two"));
    sync("s", 2, b.id, NULL);
    is_str(state("s"), "Stable", "stable");
    wrote();

    /* the follower comes back without its id */
    snprintf(first, sizeof(first), "%s", b.id);
    n = join(9, "s", "", "i2");
    is(n.rc, KC_OK, "it is answered at once");
    is(n.rsp.error_code, 0, "with no error");
    is(n.rsp.generation_id, 2, "in the same generation");
    ok(strcmp(n.id, first) != 0, "under a new id");
    is(n.rsp.skip_assignment, false, "a follower has nothing to assign");
    is(n.rsp.members_n, 0, "and hears of no members");
    is_str(state("s"), "Stable", "no round");
    is_str(wrote(), "GroupMember", "one member is journaled");
    is(w.call.wait, w.end, "and waited for");
    is_str(c(sync_as(3, "s", 2, n.id, "i2", NULL).rsp.assignment), "two",
           "its assignment is that of the one before");
    is(beat_as("s", 2, first, "i2"), KF_ERR_FENCED_INSTANCE_ID,
       "who was there before is fenced");
    is(beat("s", 2, first), KF_ERR_UNKNOWN_MEMBER_ID,
       "and unknown when it does not say its instance id");
    is(join(9, "s", first, "i2").rsp.error_code, KF_ERR_FENCED_INSTANCE_ID,
       "nor can it join again");
    is(sync_as(3, "s", 2, first, "i2", NULL).rsp.error_code,
       KF_ERR_FENCED_INSTANCE_ID, "or sync");
    is(leave_as("s", first, "i2"), KF_ERR_FENCED_INSTANCE_ID, "or leave");
    is(beat_as("s", 2, n.id, "i2"), 0, "the new one lives");
    is(beat("s", 2, n.id), 0, "without its instance id, too");
    is(beat_as("s", 2, n.id, "i3"), KF_ERR_UNKNOWN_MEMBER_ID,
       "not with an unknown one");

    /* the leader, in version 9 and before */
    snprintf(first, sizeof(first), "%s", a.id);
    protos = "range:other";
    n = join(9, "s", "", "i1");
    is(n.rsp.generation_id, 2, "the leader comes back");
    is(n.rsp.skip_assignment, true, "it must not assign");
    is(n.rsp.members_n, 2, "but hears of the members");
    is_str(c(n.rsp.leader), n.id, "it leads");
    is_str(c(n.rsp.members[0].metadata), "other", "its metadata are the new");
    is_str(wrote(), "GroupMember", "journaled");

    snprintf(first, sizeof(first), "%s", n.id);
    n = join(5, "s", "", "i1");
    is(n.rsp.generation_id, 2, "again, in version 5");
    is_str(c(n.rsp.leader), first, "which hears its old id as the leader's");
    is(n.rsp.members_n, 0, "so that it does not assign");
    protos = "range:R";

    d = describe("s");
    is(d.members_n, 2, "two members");
    is_str(c(d.members[0].member_id), n.id, "in the order of joining");
    is_str(c(d.members[0].member_assignment), "one", "with the assignment");
    is_str(c(d.members[0].group_instance_id), "i1", "and the instance id");
    world_check(&w, "replace");

    restart();
    tick();
    is(beat_as("s", 2, n.id, "i1"), 0, "after a restart the new id lives");
    is(beat_as("s", 2, first, "i1"), KF_ERR_FENCED_INSTANCE_ID,
       "and the old one is fenced");
    wrote();
}


static void
test_replace_protocol(void)
{
    join_t  a, n;

    protos = "range:1";
    a = join(9, "p", "", "i");
    sync("p", 1, a.id, NULL);
    protos = "rr:1";
    is(join(9, "p", "", "i").rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "a protocol that is not common");
    protos = "rr:1,range:2";
    wrote();
    n = join(9, "p", "", "i");
    is(n.rc, KC_OK, "with another first choice");
    is(n.rsp.generation_id, 2, "there is a new generation");
    is_str(c(n.rsp.protocol_name), "rr", "with that");
    is_str(wrote(), "Group", "journaled");

    n = join(9, "p", "", "i");
    is(n.rsp.generation_id, 3, "and once more before it has assigned");
    is_str(wrote(), "Group", "journaled");
    protos = "range:R";
    world_check(&w, "protocol");
}


static void
test_replace_waiting(void)
{
    char    old[400];
    join_t  a, b, n;
    sync_t  y;

    a = join(9, "w", "", "i1");
    sync("w", 1, a.id, NULL);
    b = join(9, "w", "", "i2");
    is(b.rc, KC_PARK, "a second one waits");
    snprintf(old, sizeof(old), "%s", b.id);
    woken("w");
    n = join(9, "w", "", "i2");
    is(n.rc, KC_PARK, "its successor waits instead");
    ok(woken("w"), "the group is woken");
    is(join_poll(&b), KC_OK, "the first one is answered");
    is(b.rsp.error_code, KF_ERR_FENCED_INSTANCE_ID, "it is fenced");
    is_str(b.id, old, "by its id");

    a = join(9, "w", a.id, "i1");
    is(join_poll(&n), KC_OK, "the successor is in");
    is(a.rsp.members_n, 2, "two are");

    y = sync_as(3, "w", 2, n.id, "i2", NULL);
    is(y.rc, KC_PARK, "it waits for its assignment");
    b = n;
    woken("w");
    n = join(9, "w", "", "i2");
    is(n.rc, KC_PARK, "until it comes back anew");
    ok(woken("w"), "which wakes");
    is(sync_poll(&y), KC_OK, "its sync");
    is(y.rsp.error_code, KF_ERR_FENCED_INSTANCE_ID, "is fenced");
    is_str(state("w"), "PreparingRebalance", "a round");

    /* static members do not leave with the round, only with their session */
    pass(9000);
    beat_as("w", 2, a.id, "i1");
    pass(9000);
    beat_as("w", 2, a.id, "i1");
    pass(9000);
    beat_as("w", 2, a.id, "i1");
    is(join_poll(&n), KC_PARK, "27 s: the round is on");
    pass(3500);
    is(join_poll(&n), KC_OK, "30 s: it ends");
    is_str(c(n.rsp.leader), n.id, "with the one that joined as leader");
    is(n.rsp.members_n, 2, "and the one that did not");
    is(beat_as("w", 3, a.id, "i1"), 0, "it is a member of generation 3");

    /* a leader that is not the first one keeps leading under a new id */
    sync_as(3, "w", 3, n.id, "i2", give(n.id, "led", a.id, "first"));
    sync_as(3, "w", 3, a.id, "i1", NULL);
    n = join(9, "w", "", "i2");
    is(n.rsp.skip_assignment, true, "stable: it leads on");
    is_str(c(n.rsp.leader), n.id, "by its new id");
    is_str(c(sync_as(3, "w", 3, n.id, "i2", NULL).rsp.assignment), "led",
           "with its assignment");
    a = join(9, "w", a.id, "i1");
    is(a.rsp.generation_id, 3, "which the other one hears");
    is_str(c(a.rsp.leader), n.id, "too");
    protos = "range:moved";
    a = join(9, "w", a.id, "i1");
    protos = "range:R";
    is(a.rc, KC_PARK, "a round");
    n = join(9, "w", "", "i2");
    is(n.rc, KC_OK, "in which the leader comes back anew");
    is_str(c(n.rsp.leader), n.id, "it leads on");
    n = join(9, "w", "", "i2");
    is(n.rc, KC_PARK, "and anew before it has assigned");
    a = join(9, "w", a.id, "i1");
    is_str(c(a.rsp.leader), n.id, "it leads on");

    /* who has not asked for its assignment still has to, under its new id */
    join_poll(&n);
    sync_as(3, "w", n.rsp.generation_id, n.id, "i2", NULL);
    a = join(9, "w", "", "i1");
    is(a.rsp.error_code, 0, "one of two comes back without having synced");
    beat_as("w", n.rsp.generation_id, n.id, "i2");
    pass(9900);
    beat_as("w", n.rsp.generation_id, n.id, "i2");
    beat_as("w", n.rsp.generation_id, a.id, "i1");
    pass(9900);
    beat_as("w", n.rsp.generation_id, n.id, "i2");
    beat_as("w", n.rsp.generation_id, a.id, "i1");
    pass(9900);
    beat_as("w", n.rsp.generation_id, n.id, "i2");
    is(beat_as("w", n.rsp.generation_id, a.id, "i1"), 0, "29.7 s");
    pass(500);
    is(beat_as("w", n.rsp.generation_id, a.id, "i1"), KF_ERR_UNKNOWN_MEMBER_ID,
       "it is out after 30");
    world_check(&w, "waiting");
}


static void
test_none_joins(void)
{
    join_t  a, b;

    session_ms = 100000;
    rebalance_ms = 10000;
    a = join(9, "q", "", "i1");
    sync("q", 1, a.id, NULL);
    b = join(9, "q", "", "i2");
    is(leave_as("q", b.id, NULL), 0, "who began the round has left");
    is(join_poll(&b), KC_OK, "(and knows)");
    is_str(state("q"), "PreparingRebalance", "the round is on");
    pass(15000);
    is_str(state("q"), "PreparingRebalance", "nobody joins: it goes on");
    is(beat_as("q", 1, a.id, "i1"), KF_ERR_REBALANCE_IN_PROGRESS, "for a");
    a = join(9, "q", a.id, "i1");
    is(a.rsp.generation_id, 2, "until it joins");
    session_ms = 10000;
    rebalance_ms = 30000;
    world_check(&w, "none joins");
}


static void
test_leave(void)
{
    join_t  a, b;

    a = join(9, "l", "", "i1");
    sync("l", 1, a.id, NULL);
    b = join(9, "l", "", "i2");
    is(leave_as("l", "", "i9"), KF_ERR_UNKNOWN_MEMBER_ID,
       "the admin names an instance that is not there");
    is(leave_as("l", "", NULL), KF_ERR_UNKNOWN_MEMBER_ID, "or none");
    is(leave_as("l", "", "i2"), 0, "and one that is");
    is(join_poll(&b), KC_OK, "it is answered");
    is(b.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "unknown");
    is(leave_as("l", a.id, "i1"), 0, "the other one leaves by itself");
    is_str(state("l"), "Empty", "nobody is left");
    world_check(&w, "leave");
}


int
main(void)
{
    world_start(&w);

    test_replace_stable();
    test_replace_protocol();
    test_replace_waiting();
    test_none_joins();
    test_leave();

    world_end(&w);

    return done_testing();
}
