/*
 * Sessions, rounds, ids and offsets that end with time; restarts; snapshots.
 */

#include "coordinator_group_lib.h"


static void
test_session(void)
{
    join_t  a, b;

    a = join2("g");
    sync("g", 1, a.id, NULL);
    b = join2("g");
    a = join(5, "g", a.id, NULL);
    join_poll(&b);
    sync("g", 2, a.id, NULL);
    sync("g", 2, b.id, NULL);
    wrote();

    pass(9000);
    is(beat("g", 2, a.id), 0, "a beats after 9 s");
    pass(1100);
    is(beat("g", 2, b.id), KF_ERR_UNKNOWN_MEMBER_ID, "b has ended after 10");
    is(beat("g", 2, a.id), KF_ERR_REBALANCE_IN_PROGRESS, "a has to join");
    is_str(wrote(), "", "nothing is written before the round ends");
    is(commit_as(7, "g", 2, b.id, NULL, "t", 0, 5, ""),
       KF_ERR_UNKNOWN_MEMBER_ID, "b cannot commit");
    is(commit_as(7, "g", 2, a.id, NULL, "t", 0, 5, ""), 0, "a can");
    pass(9900);
    a = join(5, "g", a.id, NULL);
    is(a.rsp.generation_id, 3, "its commit kept a alive");
    sync("g", 3, a.id, NULL);
    pass(10100);
    is_str(state("g"), "Empty", "until it says nothing for 10 s");
    is(kc_next_deadline(&w.kc) > w.call.now.mono_ms, true,
       "then nothing is due soon");
    world_check(&w, "session");
    wrote();
}


static void
test_waiting_is_alive(void)
{
    join_t  a, b;
    sync_t  y;

    rebalance_ms = 60000;
    a = join2("w");
    sync("w", 1, a.id, NULL);
    b = join2("w");
    pass(9000);
    beat("w", 1, a.id);
    pass(9000);
    beat("w", 1, a.id);
    pass(9000);
    is(join_poll(&b), KC_PARK, "who waits in a round for 27 s is not late");
    a = join(5, "w", a.id, NULL);
    is(join_poll(&b), KC_OK, "it is in");
    y = sync("w", 2, b.id, NULL);
    pass(9000);
    beat("w", 2, a.id);
    pass(9000);
    beat("w", 2, a.id);
    pass(9000);
    is(sync_poll(&y), KC_PARK, "nor is who waits for its assignment");
    sync("w", 2, a.id, NULL);
    is(sync_poll(&y), KC_OK, "it gets it");
    pass(9000);
    is(beat("w", 2, b.id), 0, "and a session from then on");

    rebalance_ms = 1000000;
    b = join2("w");
    is(b.rc, KC_PARK, "a new member that waits");
    pass(9000);
    beat("w", 2, a.id);
    is(leave("w", b.id), 0, "(it leaves)");
    a = join(5, "w", a.id, NULL);
    sync("w", a.rsp.generation_id, a.id, NULL);
    rebalance_ms = 30000;
    world_check(&w, "waiting");
}


/* A first join waits for five minutes at most, lest dead ones pile up. */
static void
test_new_member(void)
{
    int     i;
    join_t  a, b;

    rebalance_ms = 1000000;
    a = join2("n");
    sync("n", 1, a.id, NULL);
    b = join2("n");

    for (i = 0; i < 33; i++) {
        pass(9000);
        beat("n", 1, a.id);
    }

    is(join_poll(&b), KC_PARK, "297 s");
    pass(4000);
    is(join_poll(&b), KC_OK, "301 s: who waits since then is gone");
    is(b.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "and hears it");
    rebalance_ms = 30000;
    world_check(&w, "new member");
}


static void
test_round_ends(void)
{
    join_t  a, b;

    rebalance_ms = 5000;
    session_ms = 20000;
    a = join2("r");
    sync("r", 1, a.id, NULL);
    wrote();
    b = join2("r");
    pass(4900);
    is(join_poll(&b), KC_PARK, "the round waits for a");
    is(beat("r", 1, a.id), KF_ERR_REBALANCE_IN_PROGRESS, "which beats");
    woken("r");
    pass(200);
    ok(woken("r"), "but does not join in time");
    is(join_poll(&b), KC_OK, "b is alone");
    is(b.rsp.members_n, 1, "and leads");
    is(beat("r", 2, a.id), KF_ERR_UNKNOWN_MEMBER_ID, "a is out");
    is_str(wrote(), "Group", "journaled");

    /* nobody syncs */
    pass(4700);
    is(beat("r", 2, b.id), 0, "b beats, but does not sync");
    wrote();
    pass(300);
    is(beat("r", 2, b.id), KF_ERR_UNKNOWN_MEMBER_ID, "and is out");
    is_str(state("r"), "Empty", "nobody is left");
    is_str(wrote(), "Group", "journaled");

    /* one of two does not sync, although the leader has */
    a = join2("r");
    sync("r", a.rsp.generation_id, a.id, NULL);
    b = join2("r");
    a = join(5, "r", a.id, NULL);
    join_poll(&b);
    sync("r", a.rsp.generation_id, a.id, NULL);
    is_str(state("r"), "Stable", "stable without b's sync");
    pass(5100);
    is_str(state("r"), "PreparingRebalance", "which never comes: a round");
    is(beat("r", a.rsp.generation_id, b.id), KF_ERR_UNKNOWN_MEMBER_ID,
       "without b");
    rebalance_ms = 30000;
    session_ms = 10000;
    world_check(&w, "round ends");
}


static void
test_pending(void)
{
    join_t  a, p;

    p = join(5, "p", "", NULL);
    pass(9900);
    is_str(state("p"), "Empty", "an id is good for a session");
    pass(200);
    is_str(state("p"), "Dead", "then it is gone, and the group with it");
    is(join(5, "p", p.id, NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "it is too late");

    a = join2("p");
    sync("p", 1, a.id, NULL);
    session_ms = 6000;
    p = join(5, "p", "", NULL);
    session_ms = 10000;
    a = join(5, "p", a.id, NULL);
    is(a.rc, KC_PARK, "a round waits for it");
    pass(6100);
    is(join_poll(&a), KC_OK, "until it is gone");
    world_check(&w, "pending");
}


static void
test_version_0(void)
{
    join_t  a, b;

    a = join(0, "v", "", NULL);
    sync("v", 1, a.id, NULL);
    b = join(0, "v", "", NULL);
    is(b.rc, KC_PARK, "version 0");
    pass(5000);
    beat("v", 1, a.id);
    pass(4900);
    is(join_poll(&b), KC_PARK, "its rounds last as long as sessions");
    beat("v", 1, a.id);
    pass(200);
    is(join_poll(&b), KC_OK, "10 s");
    is(b.rsp.members_n, 1, "then a is out");
    world_check(&w, "version 0");
}


static void
test_restart(void)
{
    join_t  a, b, x, y;
    sync_t  z;

    a = join2("s");
    sync("s", 1, a.id, NULL);
    b = join2("s");
    a = join(5, "s", a.id, NULL);
    join_poll(&b);
    sync("s", 2, a.id, give(a.id, "one", b.id, "two"));
    sync("s", 2, b.id, NULL);

    x = join2("c");
    is(x.rc, KC_OK, "another group stands before its assignment");

    y = join2("rv");
    sync("rv", 1, y.id, NULL);
    is(join2("rv").rc, KC_PARK, "a third one is in a round");
    pass(9000);
    beat("s", 2, a.id);
    wrote();

    restart();
    is_str(state("s"), "Stable", "stable as before");
    is_str(c(sync("s", 2, b.id, NULL).rsp.assignment), "two",
           "assignments are there");
    is(kc_next_deadline(&w.kc), 0, "the first tick is due");
    tick();
    pass(9000);
    is(beat("s", 2, a.id), 0, "a has a full session");
    is(beat("s", 2, b.id), 0, "b too, of which one second was left");
    is(commit_as(7, "s", 2, b.id, NULL, "t", 0, 1, ""), 0, "it commits");
    is_str(wrote(), "Offsets", "and nobody had to join again");

    is_str(state("c"), "CompletingRebalance", "the group without assignment");
    beat("c", 1, x.id);
    is(join(5, "c", x.id, NULL).rsp.generation_id, 1,
       "who asks again hears its generation");
    is(sync("c", 1, x.id, NULL).rsp.error_code, 0, "and may assign");

    is_str(state("rv"), "Stable", "a round is lost");
    beat("rv", 1, y.id);
    is(y.rsp.generation_id, 1, "the generation before is in force");

    x = join2("c");
    is(x.rc, KC_PARK, "a JoinGroup waits");
    restart();
    tick();
    is(join_poll(&x), KC_OK, "its wait is lost in a recovery");
    is(x.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "so it is not polled but "
       "asked anew");

    z = sync("s", 2, b.id, NULL);
    is(z.rc, KC_OK, "members go on");
    pass(30000);
    is_str(state("s"), "Empty", "and end by their sessions");
    is_str(state("rv"), "Empty", "all of them");
    world_check(&w, "restart");
    wrote();
}


static void
test_sync_after_restart(void)
{
    join_t  a, b;

    rebalance_ms = 7000;
    a = join2("y");
    sync("y", 1, a.id, NULL);
    b = join2("y");
    a = join(5, "y", a.id, NULL);
    join_poll(&b);
    restart();
    tick();
    pass(6900);
    is_str(state("y"), "CompletingRebalance", "the deadline begins anew");
    beat("y", 2, a.id);
    beat("y", 2, b.id);
    pass(200);
    is_str(state("y"), "Empty", "and counts");
    rebalance_ms = 30000;
    world_check(&w, "sync after restart");
    wrote();
}


static void
test_journal_fails(void)
{
    join_t  a, b;
    sync_t  y;

    w.journal_fails = true;
    a = join2("f");
    is(a.rc, KC_PARK, "the journal fails: the generation waits");
    is_str(state("f"), "PreparingRebalance", "the round is still on");
    pass(2500);
    is(join_poll(&a), KC_PARK, "it is tried again");
    w.journal_fails = false;
    woken("f");
    pass(1000);
    ok(woken("f"), "until it succeeds");
    is(join_poll(&a), KC_OK, "then there is a generation");
    is(a.rsp.generation_id, 1, "the first");

    w.journal_fails = true;
    y = sync("f", 1, a.id, "x=y");
    is(y.rc, KC_JOURNAL_FAILED, "an assignment that cannot be written");
    is_str(state("f"), "CompletingRebalance", "changes nothing");
    w.journal_fails = false;
    y = sync("f", 1, a.id, "x=y");
    is(y.rsp.error_code, 0, "it may be tried again");

    b = join2("f");
    w.journal_fails = true;
    a = join(5, "f", a.id, NULL);
    is(a.rc, KC_PARK, "two members wait");
    w.journal_fails = false;
    pass(1100);
    is(join_poll(&a), KC_OK, "a");
    is(join_poll(&b), KC_OK, "and b");
    is(b.rsp.generation_id, 2, "in generation 2");

    leave("f", b.id);
    w.journal_fails = true;
    is(leave("f", a.id), 0, "all leave");
    is_str(state("f"), "PreparingRebalance", "the empty group is not written");
    w.journal_fails = false;
    pass(1100);
    is_str(state("f"), "Empty", "but later");
    world_check(&w, "journal fails");
    wrote();
}


static void
test_removed(void)
{
    join_t  a = join2("e");

    leave("e", a.id);
    wrote();
    pass(500000);
    is_str(state("e"), "Empty", "an empty group stays for a while");
    pass(200000);
    is_str(state("e"), "Dead", "without offsets it goes with the next check");
    ok(strstr(wrote(), "DeleteGroup") != NULL, "journaled");

    a = join2("e");
    leave("e", a.id);
    commit("e", "t", 0, 5);
    pass(1300000);
    is_str(state("e"), "Empty", "with offsets it stays");
    world_check(&w, "removed");
    wrote();
}


int
main(void)
{
    world_start(&w);
    create(&w, "t", 4, NULL);

    test_session();
    test_waiting_is_alive();
    test_new_member();
    test_round_ends();
    test_pending();
    test_version_0();
    test_restart();
    test_sync_after_restart();
    test_journal_fails();
    test_removed();

    world_end(&w);

    return done_testing();
}
