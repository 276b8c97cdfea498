/*
 * JoinGroup of dynamic members: ids, rounds, leaders, voting, refusals.
 */

#include "coordinator_group_lib.h"


static void
test_first(void)
{
    join_t                                j, again;
    kf_describe_groups_response_groups_t  d;

    j = join(5, "g", "", NULL);
    is(j.rc, KC_OK, "the first request is answered");
    is(j.rsp.error_code, KF_ERR_MEMBER_ID_REQUIRED, "with an id to use");
    ok(strncmp(j.id, "me-", 3) == 0 && strlen(j.id) == 39,
       "that is <client id>-<uuid>: %s", j.id);
    is(j.rsp.generation_id, -1, "and no generation");
    is_str(wrote(), "", "nothing is journaled");
    is_str(state("g"), "Empty", "the group is there, and empty");
    is(beat("g", 0, j.id), KF_ERR_UNKNOWN_MEMBER_ID, "an id is no member");
    is(sync("g", 0, j.id, NULL).rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID,
       "and cannot sync");

    j = join(5, "g", j.id, NULL);
    is(j.rc, KC_OK, "the second one ends the round, with no delay");
    is(j.rsp.error_code, 0, "without an error");
    is(j.rsp.generation_id, 1, "generation 1");
    is_str(c(j.rsp.leader), j.id, "it leads");
    is_str(c(j.rsp.member_id), j.id, "under the id that it was given");
    is_str(c(j.rsp.protocol_name), "range", "the protocol is its own");
    is_str(c(j.rsp.protocol_type), "consumer", "so is the type");
    is(j.rsp.members_n, 1, "the leader hears who is there");
    is_str(c(j.rsp.members[0].metadata), "R", "with metadata");
    is_str(wrote(), "Group", "the generation is journaled");
    is(w.call.wait, w.end, "and the answer waits for it");
    is_str(state("g"), "CompletingRebalance", "the assignments are missing");

    again = join(5, "g", j.id, NULL);
    is(again.rc, KC_OK, "the same again (its answer was lost)");
    is(again.rsp.generation_id, 1, "is answered with the same generation");
    is(again.rsp.members_n, 1, "and members");
    is(again.rsp.skip_assignment, false, "it has to assign");
    is_str(wrote(), "", "nothing is written");

    is(sync("g", 1, j.id, NULL).rsp.error_code, 0, "it syncs");
    is_str(state("g"), "Stable", "stable");
    is_str(wrote(), "GroupAssignment", "and journaled");

    d = describe("g");
    is_str(c(d.protocol_type), "consumer", "described: type");
    is_str(c(d.protocol_data), "range", "protocol");
    is_str(c(d.members[0].client_id), "me", "client");
    is_str(c(d.members[0].client_host), "/127.0.0.1", "host");
    is_str(c(d.members[0].member_metadata), "R", "metadata");

    again = join(5, "g", j.id, NULL);
    is(again.rsp.generation_id, 2, "a leader that joins again begins a round");
    is_str(wrote(), "Group", "of a new generation");
    world_check(&w, "first");
}


static void
test_old_versions(void)
{
    int16_t  v;
    join_t   j;
    char     name[8];

    for (v = 0; v < 4; v++) {
        snprintf(name, sizeof(name), "v%d", v);
        j = join(v, name, "", NULL);
        ok(j.rsp.error_code == 0, "version %d joins at once", v);
        is(j.rsp.generation_id, 1, "generation 1");
        ok(j.rsp.protocol_name.data != NULL, "a protocol");
    }

    j = join(3, "v0", "nobody", NULL);
    ok(j.rsp.error_code == KF_ERR_UNKNOWN_MEMBER_ID, "an unknown id");
    ok(j.rsp.protocol_name.data != NULL, "no null where there can be none");
    j = join(7, "v0", "nobody", NULL);
    ok(j.rsp.protocol_name.data == NULL, "null from version 7 on");
    wrote();
}


/* Two members: a leads, b follows; both are synced. */
static void
two(const char *group, join_t *a, join_t *b)
{
    sync_t  y;

    *a = join2(group);
    sync(group, a->rsp.generation_id, a->id, NULL);
    *b = join2(group);
    is(b->rc, KC_PARK, "b waits for a");
    *a = join(5, group, a->id, NULL);
    is(a->rc, KC_OK, "a joins, and the round ends");
    is(join_poll(b), KC_OK, "b is answered");

    y = sync(group, b->rsp.generation_id, b->id, NULL);
    is(y.rc, KC_PARK, "b waits for its assignment");
    is(sync(group, a->rsp.generation_id, a->id,
            give(a->id, "one", b->id, "two")).rsp.error_code, 0, "a assigns");
    is(sync_poll(&y), KC_OK, "b is answered");
    is_str(c(y.rsp.assignment), "two", "with its own");
}


static void
test_rounds(void)
{
    join_t  a, b, b2, c3;

    a = join2("r");
    sync("r", 1, a.id, NULL);
    wrote();

    b = join(5, "r", "", NULL);
    is_str(state("r"), "Stable", "an id that is given disturbs nobody");
    b = join(5, "r", b.id, NULL);
    is(b.rc, KC_PARK, "a second member waits");
    ok(b.park.hash == kc_group_hash(s("r")), "for the group");
    is_str(state("r"), "PreparingRebalance", "a round");
    is_str(wrote(), "", "which is volatile");
    is(beat("r", 1, a.id), KF_ERR_REBALANCE_IN_PROGRESS, "a hears of it");
    is(sync("r", 1, a.id, NULL).rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS,
       "a cannot sync");
    is(join_poll(&b), KC_PARK, "b still waits");
    woken("r");

    b2 = join(5, "r", b.id, NULL);
    is(b2.rc, KC_PARK, "b asks again");
    ok(woken("r"), "which wakes the group");
    is(join_poll(&b), KC_OK, "the older request is answered");
    is(b.rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS, "join again");
    is(join_poll(&b2), KC_PARK, "the newer one waits");

    a = join(5, "r", a.id, NULL);
    is(a.rc, KC_OK, "a joins: all have");
    ok(woken("r"), "b is woken");
    is(a.rsp.generation_id, 2, "generation 2");
    is(a.rsp.members_n, 2, "the leader hears of two");
    is_str(c(a.rsp.leader), a.id, "a leads on");
    is(join_poll(&b2), KC_OK, "b is answered");
    is(b2.rsp.generation_id, 2, "with the same generation");
    is(b2.rsp.members_n, 0, "and no members");
    is_str(c(b2.rsp.leader), a.id, "and the leader");
    is_str(wrote(), "Group", "one record");
    is(w.call.wait, w.end, "that b waits for, too");

    /* a third member comes before b has polled: its answer is of its round */
    c3 = join2("r");
    is(c3.rc, KC_PARK, "c waits");
    is(join_poll(&b2), KC_OK, "b hears of generation 2 now");
    is(b2.rsp.error_code, 0, "without an error");
    is(b2.rsp.generation_id, 2, "although the next round is on");
    is(sync("r", 2, b2.id, NULL).rsp.error_code, KF_ERR_REBALANCE_IN_PROGRESS,
       "as it hears then");
    world_check(&w, "rounds");
    wrote();
}


static void
test_rejoin(void)
{
    join_t  a, b;

    two("rj", &a, &b);
    wrote();

    b = join(5, "rj", b.id, NULL);
    is(b.rc, KC_OK, "a follower that joins unchanged");
    is(b.rsp.generation_id, 2, "hears its generation again");
    is(b.rsp.members_n, 0, "nothing more");
    is_str(state("rj"), "Stable", "no round");

    protos = "range:new";
    b = join(5, "rj", b.id, NULL);
    is(b.rc, KC_PARK, "with new metadata it begins a round");
    is_str(state("rj"), "PreparingRebalance", "and waits");
    is_str(wrote(), "", "what it says is not journaled yet");
    is(leave("rj", a.id), 0, "the leader leaves");
    is(join_poll(&b), KC_OK, "b is alone");
    is(b.rsp.generation_id, 3, "in generation 3");
    is_str(c(b.rsp.leader), b.id, "and leads");
    is_str(c(b.rsp.members[0].metadata), "new", "with what it said last");
    is_str(wrote(), "Group", "journaled");
    protos = "range:R";

    protos = "range:newer";
    b = join(5, "rj", b.id, NULL);
    is(b.rsp.generation_id, 4, "new metadata before the assignment: again");
    protos = "range:R";
    world_check(&w, "rejoin");
    wrote();
}


/* The state is recovered while a, whose round has ended, is not yet told. */
static void
test_again(void)
{
    join_t                    a, b;
    world_t                   o;
    kc_client_t               client = { s("c"), s("/::1") };
    kc_park_t                 park;
    kf_join_group_request_t   req;
    kf_join_group_response_t  rsp;

    two("ag", &a, &b);
    protos = "range:new";
    a = join(5, "ag", a.id, NULL);
    is(a.rc, KC_PARK, "a begins a round");
    protos = "range:R";
    b = join(5, "ag", b.id, NULL);
    is(b.rsp.generation_id, 3, "which ends");

    world_start(&o);
    is(world_replay(&w, &o), KC_OK, "the state is recovered");

    req = b.req;
    req.member_id = s("");
    is(kc_join_group(&o.kc, &o.call, 3, &client, &req, &park, &rsp), KC_PARK,
       "another one begins the next round");

    is(kc_join_group_again(&o.kc, &o.call, 5, &client, &a.req, &a.park, &rsp),
       KC_OK, "a is told of its own");
    is(rsp.error_code, 0, "well");
    is(rsp.generation_id, 3, "of generation 3");
    is(rsp.members_n, 2, "which it leads");

    a.park.generation = 3;
    is(kc_join_group_again(&o.kc, &o.call, 5, &client, &a.req, &a.park, &rsp),
       KC_PARK, "of a round that has not ended there is nothing to tell");

    world_end(&o);
    wrote();
}


static void
test_voting(void)
{
    join_t  a, b, d;

    protos = "x:1,y:2,z:3";
    a = join2("v");
    sync("v", 1, a.id, NULL);
    protos = "y:4,x:5";
    b = join2("v");
    is(b.rc, KC_PARK, "x and y are common");
    protos = "w:0,y:6,x:7";
    d = join2("v");
    is(d.rc, KC_PARK, "w is not, but y and x are");
    protos = "z:9,w:9";
    is(join(5, "v", "", NULL).rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "z: not all have it");
    protos = "x:1,y:2,z:3";
    ptype = "connect";
    is(join(5, "v", "", NULL).rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "another type");
    ptype = "consumer";
    is(join(5, "v", d.id, NULL).rc, KC_PARK, "d may change its mind");
    protos = "w:0,y:6,x:7";
    d = join(5, "v", d.id, NULL);
    protos = "x:1,y:2,z:3";
    a = join(5, "v", a.id, NULL);
    is(a.rc, KC_OK, "all are there");
    is_str(c(a.rsp.protocol_name), "y", "two votes for y, one for x");
    is_str(c(a.rsp.members[1].metadata), "4", "b's metadata for y");
    is_str(c(a.rsp.members[2].metadata), "6", "d's");
    is(join_poll(&d), KC_OK, "d is answered");
    is_str(c(d.rsp.protocol_name), "y", "alike");
    protos = "range:R";
    world_check(&w, "voting");
    wrote();
}


static void
test_refused(void)
{
    int          i;
    join_t       j;
    char         many[800];
    const char  *sep = "";

    is(join(5, "", "", NULL).rsp.error_code, KF_ERR_INVALID_GROUP_ID,
       "no group id");
    session_ms = 5999;
    is(join(5, "n", "", NULL).rsp.error_code, KF_ERR_INVALID_SESSION_TIMEOUT,
       "a session too short");
    session_ms = 1800001;
    is(join(5, "n", "", NULL).rsp.error_code, KF_ERR_INVALID_SESSION_TIMEOUT,
       "and too long");
    session_ms = 10000;
    j = join(5, "n", "x", NULL);
    is(j.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "an id, and no group");
    is_str(j.id, "x", "the id is named");
    protos = "";
    is(join(5, "n", "", NULL).rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "no protocol");
    protos = "range:R";
    ptype = "";
    is(join(5, "n", "", NULL).rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "no type");
    ptype = "consumer";

    many[0] = '\0';

    for (i = 0; i < 65; i++) {
        snprintf(many + strlen(many), 16, "%sp%d:x", sep, i);
        sep = ",";
    }

    protos = many;
    is(join(5, "n", "", NULL).rsp.error_code,
       KF_ERR_INCONSISTENT_GROUP_PROTOCOL, "65 protocols");
    *strrchr(many, ',') = '\0';
    is(join(2, "n64", "", NULL).rsp.error_code, 0, "64 are good");
    protos = "range:R";

    is_str(state("n"), "Dead", "no group came of it");
    wrote();
}


/* A client without an id, which none of its requests has to have. */
static void
test_nameless(void)
{
    join_t                                j = join(3, "nl", "", NULL);
    kc_client_t                           nobody = { kf_null_str,
                                                     kf_null_str };
    kf_describe_groups_response_groups_t  d;

    leave("nl", j.id);
    j.req.member_id = s("");
    is(kc_join_group(&w.kc, &w.call, 3, &nobody, &j.req, &j.park, &j.rsp),
       KC_OK, "no client id");
    join_done(&j);
    is(j.rsp.error_code, 0, "is no mistake");
    ok(j.id[0] == '-' && strlen(j.id) == 37, "the id begins with '-'");
    d = describe("nl");
    ok(d.members[0].client_id.data != NULL, "it is described as empty");
    ok(d.members[0].client_host.data != NULL, "not as null");
    world_check(&w, "nameless");
    wrote();
}


static void
test_size(void)
{
    join_t             a, b, d;
    kc_config_entry_t  e = { s("group.max.size"), s("2") };

    w.config.entries = &e;
    w.config.count = 1;

    a = join2("m");
    sync("m", 1, a.id, NULL);
    b = join2("m");
    is(b.rc, KC_PARK, "two of two");
    d = join2("m");
    is(d.rc, KC_PARK, "a third one while only one has joined the round");
    is(join(5, "m", a.id, NULL).rsp.error_code, KF_ERR_GROUP_MAX_SIZE_REACHED,
       "the last to come is refused");
    is(leave("m", a.id), 0, "(it leaves)");
    is(join_poll(&b), KC_OK, "b");
    is(join_poll(&d), KC_OK, "d");
    is_str(state("m"), "CompletingRebalance", "both are in");
    d = join(5, "m", "", NULL);
    is(d.rsp.error_code, KF_ERR_GROUP_MAX_SIZE_REACHED, "no third one");
    is_str(d.id, "", "without an id");

    /* the limit is lowered: one has to go */
    e.value = s("1");
    sync("m", b.rsp.generation_id, b.id, NULL);
    restart();
    tick();
    is_str(state("m"), "PreparingRebalance", "more than may be: a round");
    b = join(5, "m", b.id, NULL);
    is(b.rc, KC_PARK, "the first one joins");

    w.config.count = 0;
    world_check(&w, "size");
    wrote();
}


static void
test_delay(void)
{
    join_t             a, b, d;
    kc_config_entry_t  e = { s("group.initial.rebalance.delay.ms"),
                             s("3000") };

    w.config.entries = &e;
    w.config.count = 1;
    rebalance_ms = 8000;

    a = join2("d");
    is(a.rc, KC_PARK, "the first one waits for others");
    is_str(state("d"), "PreparingRebalance", "in a round");
    pass(2900);
    b = join2("d");
    is(b.rc, KC_PARK, "so does a second one");
    pass(2900);
    is(join_poll(&a), KC_PARK, "which made it longer");
    pass(300);
    is(join_poll(&a), KC_OK, "until nobody comes any more");
    is(join_poll(&b), KC_OK, "both");
    is(a.rsp.members_n, 2, "are in it");
    leave("d", a.id);
    leave("d", b.id);

    a = join2("d");
    pass(2000);
    b = join2("d");
    pass(2000);
    d = join2("d");
    pass(2000);
    is(join_poll(&d), KC_PARK, "newcomers again and again");
    b = join(5, "d", b.id, NULL);
    join2("d");
    pass(2100);
    is(join_poll(&d), KC_OK, "end with the rebalance timeout of 8 s");

    a = join2("d2");
    is(leave("d2", a.id), 0, "who leaves in the delay");
    is(join_poll(&a), KC_OK, "is answered");
    is(a.rsp.error_code, KF_ERR_UNKNOWN_MEMBER_ID, "it is no member");
    pass(3000);
    is_str(state("d2"), "Empty", "nobody is left when it ends");

    rebalance_ms = 30000;
    w.config.count = 0;
    world_check(&w, "delay");
    wrote();
}


int
main(void)
{
    world_start(&w);

    test_first();
    test_old_versions();
    test_rounds();
    test_rejoin();
    test_again();
    test_voting();
    test_refused();
    test_nameless();
    test_size();
    test_delay();

    world_end(&w);

    return done_testing();
}
