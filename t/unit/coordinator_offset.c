/*
 * Committed offsets: who may commit, what is stored, fetched, deleted, expired.
 */

#include "coordinator_group_lib.h"


/* Generation, member and instance, and Kafka's code for three kinds of commit:
   OffsetCommit 9 and 8, TxnOffsetCommit 6 and 5. */
typedef struct {
    const char  *group;
    int32_t      generation;
    const char  *member;
    const char  *instance;
    int16_t      want[4];
    const char  *label;
} rule_t;


static void
check_rules(const rule_t *r, int n)
{
    int      i, k;
    int16_t  got[4];

    for (i = 0; i < n; i++) {
        for (k = 0; k < 4; k++) {
            got[k] = kc_group_check_commit(&w.kc, str(r[i].group),
                                           r[i].generation, str(r[i].member),
                                           str(r[i].instance),
                                           (int16_t) (9 - k - (k > 1)),
                                           k > 1);
        }

        ok(memcmp(got, r[i].want, sizeof(got)) == 0,
           "%s: %d %d %d %d, not %d %d %d %d", r[i].label, r[i].want[0],
           r[i].want[1], r[i].want[2], r[i].want[3], got[0], got[1], got[2],
           got[3]);
    }
}


static void
test_rules(void)
{
    join_t  a, b, left;

    /* group "m": a is dynamic, b static with "i"; one has left */
    a = join2("m");
    sync("m", 1, a.id, NULL);
    left = join2("m");
    leave("m", left.id);
    b = join(5, "m", "", "i");
    a = join(5, "m", a.id, NULL);
    join_poll(&b);
    is(a.rsp.generation_id, 2, "generation 2");

    {
        rule_t  completing[] = {
            { "m", 2, a.id, NULL, { 27, 27, 0, 0 }, "completing" },
            { "m", -1, "", NULL, { 25, 25, 0, 0 }, "completing, nobody" },
        };

        check_rules(completing, 2);
    }

    sync("m", 2, a.id, NULL);
    sync("m", 2, b.id, NULL);

    commit("empty", "t", 0, 1);

    {
        rule_t  rules[] = {
            { "none", -1, "", NULL, { 0, 0, 0, 0 }, "absent, no generation" },
            { "none", -1, "x", NULL, { 0, 0, 0, 0 }, "absent, a member" },
            { "none", 0, "x", NULL, { 69, 22, 69, 22 }, "absent, generation" },
            { "empty", -1, "", NULL, { 0, 0, 0, 0 }, "empty" },
            { "empty", -1, "x", "i", { 0, 0, 0, 0 }, "empty, any member" },
            { "empty", 0, "", NULL, { 25, 25, 25, 25 }, "empty, generation" },
            { "m", -1, "", NULL, { 25, 25, 0, 0 }, "live, nobody" },
            { "m", -1, a.id, NULL, { 22, 22, 22, 22 }, "live, no generation" },
            { "m", 2, "x", NULL, { 25, 25, 25, 25 }, "live, unknown member" },
            { "m", 2, "", NULL, { 25, 25, 25, 25 }, "live, no member" },
            { "m", 1, a.id, NULL, { 22, 22, 22, 22 }, "live, older" },
            { "m", 3, a.id, NULL, { 22, 22, 22, 22 }, "live, later" },
            { "m", 2, a.id, NULL, { 0, 0, 0, 0 }, "live" },
            { "m", 2, a.id, "z", { 25, 25, 25, 25 }, "unknown instance" },
            { "m", 2, b.id, "i", { 0, 0, 0, 0 }, "static" },
            { "m", 2, a.id, "i", { 82, 82, 82, 82 }, "another's instance" },
            { "m", 2, "", "i", { 82, 82, 82, 82 }, "instance, no member" },
            { "m", 2, b.id, NULL, { 0, 0, 0, 0 }, "static, not saying so" },
            { "m", 2, left.id, NULL, { 25, 25, 25, 25 }, "who left" },
        };

        check_rules(rules, (int) (sizeof(rules) / sizeof(rules[0])));
    }

    join2("m");

    {
        rule_t  preparing[] = {
            { "m", 2, a.id, NULL, { 0, 0, 0, 0 }, "in a round" },
        };

        check_rules(preparing, 1);
    }

    wrote();
}


static void
test_commit(void)
{
    char                                   text[4098];
    join_t                                 a;
    int64_t                                end;
    kf_offset_fetch_response_partitions_t  p;

    is(fetch("c", "t", 0), -1, "no group, no offset");
    is(commit("c", "t", 0, 42), 0, "a first commit makes a simple group");
    is_str(wrote(), "Offsets", "one record");
    is(w.call.wait, w.end, "that the answer waits for");
    p = fetch_part("c", "t", 0);
    is(p.committed_offset, 42, "the offset");
    is(p.committed_leader_epoch, 7, "its leader epoch");
    is_str(c(p.metadata), "", "and no metadata");
    is(p.error_code, 0, "no error");
    is(w.call.wait, w.end, "a fetch waits for the last commit");
    is_str(state("c"), "Empty", "the group is empty");
    is_str(c(describe("c").protocol_type), "", "without a type");

    p = fetch_part("c", "t", 1);
    is(p.committed_offset, -1, "another partition has none");
    is(p.committed_leader_epoch, -1, "no epoch");
    is_str(c(p.metadata), "", "empty metadata");
    is(p.error_code, 0, "no error");
    is(fetch("c", "none", 0), -1, "nor has an unknown topic");
    is(fetch("c", "t", 99), -1, "nor an unknown partition");

    is(commit_as(7, "c", -1, "", NULL, "t", 0, 43, "note"), 0, "again");
    p = fetch_part("c", "t", 0);
    is(p.committed_offset, 43, "the last one counts");
    is_str(c(p.metadata), "note", "with its metadata");
    is(commit_as(7, "c", -1, "", NULL, "t", 0, -7, NULL), 0,
       "numbers are not checked, as in Kafka; null metadata are empty");
    p = fetch_part("c", "t", 0);
    is(p.committed_offset, -7, "-7");
    is_str(c(p.metadata), "", "no note");

    wrote();
    end = w.end;
    is(commit("c", "none", 0, 1), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "an unknown topic");
    is(commit("c", "t", 99, 1), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "an unknown partition");
    is(commit("c", "t", -1, 1), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "-1");
    is(commit_as(10, "c", -1, "", NULL, "none", 0, 1, ""),
       KF_ERR_UNKNOWN_TOPIC_ID, "an unknown id");
    memset(text, 'x', 4097);
    text[4097] = '\0';
    is(commit_as(7, "c", -1, "", NULL, "t", 0, 1, text),
       KF_ERR_OFFSET_METADATA_TOO_LARGE, "4097 bytes of metadata");
    is(commit_as(7, "c", 0, "x", NULL, "t", 0, 1, ""),
       KF_ERR_UNKNOWN_MEMBER_ID, "who is no member");
    is(commit_as(7, "c", 0, "x", NULL, "none", 0, 1, ""),
       KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic goes first, as in Kafka");
    is(w.end, end, "none of it was written");
    is(fetch("c", "t", 0), -7, "nothing changed");

    text[4096] = '\0';
    is(commit_as(7, "c", -1, "", NULL, "t", 3, 1, text), 0, "4096 are good");
    is(commit_as(10, "c", -1, "", NULL, "t", 2, 5, ""), 0, "by id");
    is(fetch("c", "t", 2), 5, "the same topic");
    is(commit("", "t", 0, 9), 0, "the empty group id may commit");
    is(fetch("", "t", 0), 9, "and fetch");

    /* a member's commits keep its session */
    a = join2("cm");
    is(commit_as(7, "cm", 1, a.id, NULL, "t", 0, 1, ""),
       KF_ERR_REBALANCE_IN_PROGRESS, "not before the assignment");
    sync("cm", 1, a.id, NULL);
    pass(8000);
    is(commit_as(7, "cm", 1, a.id, NULL, "t", 0, 1, ""), 0, "a member");
    pass(8000);
    is(commit_as(7, "cm", 1, a.id, NULL, "t", 0, 2, ""), 0, "lives on");
    is(beat("cm", 1, a.id), 0, "without heartbeats");
    world_check(&w, "commit");
    wrote();
}


static void
test_many(void)
{
    int                                     i;
    int64_t                                 sum = 0;
    kf_offset_commit_request_t              req;
    kf_offset_commit_response_t             rsp;
    kf_offset_commit_request_topics_t       t[3];
    kf_offset_commit_request_partitions_t   p[40];

    memset(&req, 0, sizeof(req));
    memset(t, 0, sizeof(t));
    memset(p, 0, sizeof(p));

    /* wide 31, 30, …, 0; t; then wide again, with some twice and one bad */
    for (i = 0; i < 40; i++) {
        p[i].partition_index = i < 32 ? 31 - i : i - 32;
        p[i].committed_offset = i;
        p[i].committed_metadata = s("");
    }

    t[0].name = s("wide");
    t[0].partitions = p;
    t[0].partitions_n = 32;
    t[1].name = s("t");
    t[1].partitions = p + 32;
    t[1].partitions_n = 2;
    t[2].name = s("wide");
    t[2].partitions = p + 34;
    t[2].partitions_n = 6;
    p[39].partition_index = 1000;

    req.group_id = s("many");
    req.generation_id_or_member_epoch = -1;
    req.member_id = s("");
    req.retention_time_ms = -1;
    req.topics = t;
    req.topics_n = 3;

    is(kc_offset_commit(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "40 offsets");
    is(rsp.topics_n, 3, "three topics are answered");
    is(rsp.topics[0].partitions_n, 32, "with all partitions");
    is(rsp.topics[2].partitions[5].error_code,
       KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the bad one with an error");
    is(rsp.topics[2].partitions[4].error_code, 0, "the others with none");
    is_str(wrote(), "Offsets", "in one record");
    is(fetch("many", "wide", 0), 31, "partition 0");
    is(fetch("many", "wide", 31), 0, "31");
    is(fetch("many", "wide", 2), 34, "2 was there twice: the last one");
    is(fetch("many", "wide", 6), 38, "6, too");
    is(fetch("many", "t", 1), 33, "the other topic");

    for (i = 0; i < 60; i++) {
        commit("many", "wide", (i * 7) % 32, 1000 + i);
    }

    for (i = 0; i < 32; i++) {
        sum += fetch("many", "wide", i);
    }

    is(sum, 32 * 1000 + (28 + 59) * 32 / 2, "all were overwritten once");

    req.topics_n = 0;
    is(kc_offset_commit(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "no topics");
    is(rsp.topics_n, 0, "no answer");
    world_check(&w, "many");
    wrote();
}


static void
test_fetch_forms(void)
{
    int32_t                                   parts[] = { 0, 1, 77 };
    kf_offset_fetch_request_t                 req;
    kf_offset_fetch_response_t                rsp;
    kf_offset_fetch_request_groups_t          g[3];
    kf_offset_fetch_request_groups_topics_t   t[2];

    commit_as(7, "f", -1, "", NULL, "t", 1, 11, "meta");
    commit("f", "wide", 30, 12);

    /* all of one group */
    memset(&req, 0, sizeof(req));
    req.group_id = s("f");
    is(kc_offset_fetch(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "no topics");
    is(rsp.topics_n, 0, "none");
    req.topics_n = -1;
    is(kc_offset_fetch(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "all");
    is(rsp.error_code, 0, "no error");
    is(rsp.topics_n, 2, "two topics");
    is(rsp.topics[0].partitions_n, 1, "with one partition");
    is(rsp.topics[1].partitions_n, 1, "each");
    req.group_id = s("nothing");
    is(kc_offset_fetch(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "no group");
    is(rsp.error_code, 0, "is no error");
    is(rsp.topics_n, 0, "but empty");

    /* several groups, by name */
    memset(&req, 0, sizeof(req));
    memset(g, 0, sizeof(g));
    memset(t, 0, sizeof(t));
    t[0].name = s("t");
    t[0].partition_indexes = parts;
    t[0].partition_indexes_n = 3;
    t[1].name = s("unheard");
    t[1].partition_indexes = parts;
    t[1].partition_indexes_n = 1;
    g[0].group_id = s("f");
    g[0].member_epoch = -1;
    g[0].topics = t;
    g[0].topics_n = 2;
    g[1].group_id = s("f");
    g[1].topics_n = -1;
    g[2].group_id = s("nothing");
    g[2].topics = t;
    g[2].topics_n = 1;
    g[2].member_id = s("whoever");
    g[2].member_epoch = 3;
    req.groups = g;
    req.groups_n = 3;
    is(kc_offset_fetch(&w.kc, &w.call, 9, &req, &rsp), KC_OK, "three groups");
    is(rsp.groups_n, 3, "are answered");
    is(rsp.groups[0].topics_n, 2, "the topics that were named");
    is(rsp.groups[0].topics[0].partitions[0].committed_offset, -1, "none");
    is(rsp.groups[0].topics[0].partitions[1].committed_offset, 11, "11");
    is(rsp.groups[0].topics[0].partitions[1].committed_leader_epoch, 7,
       "with the epoch");
    is_str(c(rsp.groups[0].topics[0].partitions[1].metadata), "meta",
           "and metadata");
    is(rsp.groups[0].topics[0].partitions[2].error_code, 0, "no error for 77");
    is(rsp.groups[0].topics[1].partitions[0].committed_offset, -1,
       "an unknown topic has none");
    is(rsp.groups[0].topics[1].partitions[0].error_code, 0, "and no error");
    is(rsp.groups[1].topics_n, 2, "all of f");
    is(rsp.groups[2].error_code, 0, "a classic group knows no epochs");
    is(rsp.groups[2].topics[0].partitions[1].committed_offset, -1, "nothing");

    /* by id */
    t[0].name = kf_null_str;
    t[0].topic_id = kc_topic_by_name(&w.kc, s("t"))->id;
    t[1].name = kf_null_str;
    t[1].topic_id.b[3] = 1;
    req.groups_n = 2;
    is(kc_offset_fetch(&w.kc, &w.call, 10, &req, &rsp), KC_OK, "by id");
    is(rsp.groups[0].topics[0].partitions[1].committed_offset, 11, "11");
    is(rsp.groups[0].topics[1].partitions[0].error_code,
       KF_ERR_UNKNOWN_TOPIC_ID, "an unknown id is an error");
    is(rsp.groups[0].topics[1].partitions[0].committed_offset, -1, "and -1");
    ok(!kf_uuid_is_zero(rsp.groups[1].topics[0].topic_id), "all: with ids");
    wrote();
}


static int16_t
remove_offset(const char *group, const char *topic, int32_t partition)
{
    kf_offset_delete_request_t             req;
    kf_offset_delete_response_t            rsp;
    kf_offset_delete_request_topics_t      t;
    kf_offset_delete_request_partitions_t  p = { partition };

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = str(topic);
    t.partitions = &p;
    t.partitions_n = 1;
    req.group_id = str(group);
    req.topics = &t;
    req.topics_n = 1;

    if (kc_offset_delete(&w.kc, &w.call, 0, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.error_code ? rsp.error_code
                          : rsp.topics[0].partitions[0].error_code;
}


/* A consumer's subscription to t; version 9, with bytes that we do not know. */
static const uint8_t  subscription[] = {
    0, 9, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0xff, 0xff, 1, 2, 3, 4
};


/* A stable group of one member that says those bytes. */
static join_t
subscribed(const char *group, const uint8_t *metadata, uint32_t len)
{
    join_t                              j;
    kc_client_t                         client = { s("me"), s("/::1") };
    kf_join_group_request_protocols_t   p = { s("range"), { metadata, len } };

    memset(&j, 0, sizeof(j));
    j.version = 3;
    j.req.group_id = str(group);
    j.req.member_id = s("");
    j.req.session_timeout_ms = session_ms;
    j.req.rebalance_timeout_ms = rebalance_ms;
    j.req.protocol_type = str(ptype);
    j.req.protocols = &p;
    j.req.protocols_n = 1;
    j.rc = kc_join_group(&w.kc, &w.call, 3, &client, &j.req, &j.park, &j.rsp);
    join_done(&j);
    sync(group, j.rsp.generation_id, j.id, NULL);

    return j;
}


static void
test_delete(void)
{
    join_t  a;

    is(remove_offset("", "t", 0), KF_ERR_INVALID_GROUP_ID, "no group id");
    is(remove_offset("unheard", "t", 0), KF_ERR_GROUP_ID_NOT_FOUND,
       "no group");
    commit("d", "t", 0, 1);
    commit_as(7, "d", -1, "", NULL, "t", 1, 2, "note");
    commit("d", "wide", 0, 3);
    wrote();
    is(remove_offset("d", "none", 0), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "an unknown topic");
    is(remove_offset("d", "t", 99), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "an unknown partition");
    is(remove_offset("d", "t", 3), 0, "one without an offset: nothing to do");
    is_str(wrote(), "", "nothing is written");
    is(remove_offset("d", "t", 1), 0, "a simple group");
    is_str(wrote(), "OffsetsDelete", "journaled");
    is(w.call.wait, w.end, "waited for");
    is(fetch("d", "t", 1), -1, "gone");
    is(fetch("d", "t", 0), 1, "the other one is there");
    remove_offset("d", "t", 0);
    remove_offset("d", "wide", 0);
    world_check(&w, "delete");
    tick();
    is_str(state("d"), "Dead", "nothing is left of the group");

    commit("s", "t", 0, 1);
    commit("s", "wide", 0, 2);
    a = subscribed("s", subscription, sizeof(subscription));
    is_str(state("s"), "Stable", "a consumer");
    is(remove_offset("s", "t", 0), KF_ERR_GROUP_SUBSCRIBED_TO_TOPIC,
       "what it subscribes to stays");
    is(remove_offset("s", "wide", 0), 0, "other topics go");
    is(leave("s", a.id), 0, "it leaves");
    is(remove_offset("s", "t", 0), 0, "then all go");

    commit("x", "wide", 0, 2);
    subscribed("x", subscription, 3);
    is(remove_offset("x", "wide", 0), KF_ERR_GROUP_SUBSCRIBED_TO_TOPIC,
       "a subscription that cannot be read may be to anything");

    ptype = "connect";
    commit("k", "t", 0, 1);
    a = join2("k");
    is(remove_offset("k", "t", 0), KF_ERR_NON_EMPTY_GROUP,
       "members of another kind: their group has to be empty");
    leave("k", a.id);
    is(remove_offset("k", "t", 0), 0, "now it is");
    ptype = "consumer";
    world_check(&w, "delete with members");
    wrote();
}


static void
test_topic_gone(void)
{
    create(&w, "gone", 3, NULL);
    commit("g1", "gone", 0, 1);
    commit_as(7, "g1", -1, "", NULL, "gone", 2, 2, "n");
    commit("g1", "t", 0, 3);
    commit("g2", "gone", 1, 4);
    is(delete(&w, "gone"), 0, "a topic is deleted");
    is(fetch("g1", "t", 0), 3, "other offsets stay");
    is(w.call.wait, w.end, "a fetch waits for the deletion");
    is(fetch("g1", "gone", 0), -1, "its own are gone");
    is(commit("g3", "gone", 0, 1), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "nothing can be committed");
    is(w.call.wait, w.end, "an answer that waits for the deletion, too");
    is(remove_offset("g1", "gone", 0), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "or deleted");
    is(w.call.wait, w.end, "alike");
    tick();
    is_str(state("g1"), "Empty", "one group has others");
    is_str(state("g2"), "Dead", "the other one nothing");
    create(&w, "gone", 3, NULL);
    is(fetch("g1", "gone", 0), -1, "and do not come back with its name");
    is(commit("g1", "gone", 0, 9), 0, "where it may begin anew");
    world_check(&w, "topic gone");
    restart();
    is(fetch("g1", "gone", 0), 9, "after a restart, too");
    is(fetch("g1", "t", 0), 3, "all of it");
    wrote();
}


#define DAY  (24 * 3600 * 1000LL)


static void
test_expiry(void)
{
    join_t                       a, b, k;
    kf_offset_commit_request_t   req;
    kf_offset_commit_response_t  rsp;

    kf_offset_commit_request_topics_t      t;
    kf_offset_commit_request_partitions_t  p;

    /* simple: counts from the commit */
    commit("es", "t", 0, 1);
    pass(6 * DAY);
    commit("es", "t", 1, 2);
    pass(DAY + 700000);
    is(fetch("es", "t", 0), -1, "a simple group's offset ends after 7 days");
    is(fetch("es", "t", 1), 2, "one that is younger does not");
    pass(6 * DAY);
    is_str(state("es"), "Dead", "the last one takes the group along");

    /* with members, then empty: counts from when it became so */
    commit("em", "wide", 0, 5);
    a = subscribed("em", subscription, sizeof(subscription));
    is(commit_as(7, "em", 1, a.id, NULL, "t", 0, 6, ""), 0, "a member");
    session_ms = 1800000;
    is(leave("em", a.id), 0, "(a longer session)");
    a = subscribed("em", subscription, sizeof(subscription));

    for (b.rc = 0; b.rc < 8 * 48 + 24; b.rc++) {
        pass(1700000);
        beat("em", a.rsp.generation_id, a.id);
    }

    is_str(state("em"), "Stable", "a consumer lives on for 8 days");
    is(fetch("em", "t", 0), 6, "what it subscribes to stays");
    is(fetch("em", "wide", 0), -1, "other topics' offsets end");
    leave("em", a.id);
    pass(6 * DAY);
    is(fetch("em", "t", 0), 6, "6 days after it left");
    pass(DAY + 700000);
    is(fetch("em", "t", 0), -1, "7 days");
    is_str(state("em"), "Dead", "and the group is gone");

    /* not while members of another kind are there */
    ptype = "connect";
    commit("ek", "t", 0, 1);
    k = join2("ek");
    sync("ek", 1, k.id, NULL);

    for (b.rc = 0; b.rc < 8 * 48 + 24; b.rc++) {
        pass(1700000);
        beat("ek", 1, k.id);
    }

    is(fetch("ek", "t", 0), 1, "offsets of another kind of group stay");
    ptype = "consumer";
    session_ms = 10000;

    /* a time of its own, in versions 2 to 4 */
    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    memset(&p, 0, sizeof(p));
    p.committed_offset = 3;
    p.committed_metadata = s("");
    t.name = s("t");
    t.partitions = &p;
    t.partitions_n = 1;
    req.group_id = s("er");
    req.generation_id_or_member_epoch = -1;
    req.member_id = s("");
    req.retention_time_ms = 3600000;
    req.topics = &t;
    req.topics_n = 1;
    is(kc_offset_commit(&w.kc, &w.call, 2, &req, &rsp), KC_OK, "one hour");
    pass(3500000);
    is(fetch("er", "t", 0), 3, "not yet");
    world_check(&w, "its own time");
    restart();
    tick();
    pass(800000);
    is(fetch("er", "t", 0), -1, "then it is over, a restart between");

    req.retention_time_ms = INT64_MAX;
    is(kc_offset_commit(&w.kc, &w.call, 4, &req, &rsp), KC_OK, "for ever");
    pass(10 * DAY);
    is(fetch("er", "t", 0), 3, "is not too much");
    is(kc_offset_commit(&w.kc, &w.call, 7, &req, &rsp), KC_OK, "version 7");
    pass(8 * DAY);
    is(fetch("er", "t", 0), -1, "does not know it");

    /* the clock goes back */
    commit("eb", "t", 0, 1);
    w.call.now.wall_ms -= 400 * DAY;
    pass(20 * DAY);
    is(fetch("eb", "t", 0), 1, "a clock that goes back ends nothing");
    w.call.now.wall_ms += 400 * DAY;
    world_check(&w, "expiry");
    wrote();
}


int
main(void)
{
    world_start(&w);
    create(&w, "t", 4, NULL);
    create(&w, "wide", 32, NULL);

    test_rules();
    test_commit();
    test_many();
    test_fetch_forms();
    test_delete();
    test_topic_gone();
    test_expiry();

    world_end(&w);

    return done_testing();
}
