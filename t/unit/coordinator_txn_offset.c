/*
 * Offsets in transactions: who may stage them, who sees what, which of two is
 * in force, and what takes them away.
 */

#include "coordinator_txn_lib.h"


/* Staged, seen, committed; before and after a restart. */
static void
test_rules(void)
{
    join_t      a, b;
    producer_t  p;
    int         v;

    txn_start();
    p = producer("p");
    a = join2("g");
    sync("g", 1, a.id, NULL);
    b = join(5, "g", "", "i");
    a = join(5, "g", a.id, NULL);
    join_poll(&b);
    is(a.rsp.generation_id, 2, "generation 2");
    is(stage_as(5, &p, "g", 2, a.id, NULL, "t", 0, 1, ""), 0,
       "while the leader assigns");
    sync("g", 2, a.id, NULL);
    sync("g", 2, b.id, NULL);

    for (v = 5; v <= 6; v++) {
        struct {
            int32_t      generation;
            const char  *member, *instance;
            int16_t      want;
            const char  *label;
        } rules[] = {
            { 2, a.id, NULL, 0, "the member" },
            { 2, b.id, "i", 0, "the static member" },
            { 2, b.id, NULL, 0, "the static member, not saying so" },
            { -1, "", NULL, 0, "nobody" },
            { -1, a.id, NULL, KF_ERR_ILLEGAL_GENERATION, "no generation" },
            { 1, a.id, NULL, KF_ERR_ILLEGAL_GENERATION, "a zombie" },
            { 3, a.id, NULL, KF_ERR_ILLEGAL_GENERATION, "the future" },
            { 2, "x", NULL, KF_ERR_UNKNOWN_MEMBER_ID, "an unknown member" },
            { 2, "", NULL, KF_ERR_UNKNOWN_MEMBER_ID, "no member" },
            { 2, a.id, "z", KF_ERR_UNKNOWN_MEMBER_ID, "unknown instance" },
            { 2, a.id, "i", KF_ERR_FENCED_INSTANCE_ID, "another's instance" },
            { 2, "", "i", KF_ERR_FENCED_INSTANCE_ID, "an instance alone" },
        };
        size_t  i;

        for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            wrote();
            is(stage_as((int16_t) v, &p, "g", rules[i].generation,
                        rules[i].member, rules[i].instance, "t", 1, 7, ""),
               rules[i].want, rules[i].label);
            is_str(wrote(), rules[i].want ? "" : "TransactionOffsets",
                   "leaves what it should");
        }
    }

    /* old versions have no member */
    is(stage_as(2, &p, "g", 77, "x", "z", "t", 1, 7, ""), 0, "version 2");

    leave("g", a.id);
    is(stage_as(5, &p, "g", 2, a.id, NULL, "t", 1, 8, ""),
       KF_ERR_UNKNOWN_MEMBER_ID, "who has left");
    is(stage_as(5, &p, "none", 0, "x", NULL, "t", 1, 8, ""),
       KF_ERR_ILLEGAL_GENERATION, "a generation of no group");
    is(stage_as(6, &p, "none", 0, "x", NULL, "t", 1, 8, ""),
       KF_ERR_GROUP_ID_NOT_FOUND, "in version 6");
    is(finish(5, &p, true), 0, "what was staged before stays");
    is(fetch("g", "t", 1), 7, "and is committed");
    txn_check("KIP-447");
    world_end(&w);
}


static void
test_producer(void)
{
    int         v;
    producer_t  p, q;

    txn_start();
    p = producer("p");

    for (v = 0; v <= 6; v++) {
        q = p;
        is(stage_as((int16_t) v, &p, "", -1, "", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_GROUP_ID, "no group");
        q.id = "";
        is(stage_as((int16_t) v, &q, "g", -1, "", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_REQUEST, "no transactional id");
        q.id = "q";
        is(stage_as((int16_t) v, &q, "g", -1, "", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_PRODUCER_ID_MAPPING, "an unknown one");
        q = p;
        q.pid++;
        is(stage_as((int16_t) v, &q, "g", -1, "", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_PRODUCER_ID_MAPPING, "an unknown producer");
        q = p;
        q.epoch++;
        is(stage_as((int16_t) v, &q, "g", 5, "x", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_PRODUCER_EPOCH, "a wrong epoch, before the member");
        is(stage_as((int16_t) v, &q, "g", -1, "", NULL, "nope", 0, 1, ""),
           v < 6 ? KF_ERR_UNKNOWN_TOPIC_OR_PARTITION : KF_ERR_UNKNOWN_TOPIC_ID,
           "an unknown topic comes first");
        is(stage_as((int16_t) v, &p, "g", -1, "", NULL, "t", 4, 1, ""),
           KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "no such partition");

        if (v < 5) {
            is(stage_as((int16_t) v, &p, "g", -1, "", NULL, "t", 0, 1, ""),
               v == 4 ? KF_ERR_TRANSACTION_ABORTABLE : KF_ERR_INVALID_TXN_STATE,
               "the group was not added");
        }
    }

    is_str(txn_state("p"), "Empty 0 0", "nothing has changed");
    is(stage_as(5, &p, "g", -1, "", NULL, "t", 0, 1, "m"), 0, "added by it");
    is_str(wrote(), "ProducerIds Transaction TransactionAdd "
           "TransactionOffsets", "two records of one decision");
    is(w.ends[w.count - 1] - w.ends[w.count - 2], 2, "in one batch");
    is(describe_txn("p").topics_n, 1, "shown");
    is_str(c(describe_txn("p").topics[0].topic), "__consumer_offsets",
           "as Kafka does");
    is(describe_txn("p").topics[0].partitions[0], 0, "its only partition");
    finish(5, &p, false);

    is(add_offsets(3, &p, "g"), 0, "added");
    is(stage_as(3, &p, "g", -1, "", NULL, "t", 0, 9, ""), 0, "staged");
    prepare(3, &p, true);
    is(stage_as(3, &p, "g", -1, "", NULL, "t", 0, 9, ""),
       KF_ERR_INVALID_TXN_STATE, "no more after the decision");
    world_end(&w);
}


static void
test_order(void)
{
    producer_t  a, b;

    txn_start();
    a = producer("a");
    b = producer("b");

    /* a stages first, b later and commits first */
    stage(&a, "g", "t", 0, 5);
    stage(&b, "g", "t", 0, 9);
    is(finish(5, &b, true), 0, "the later one commits first");
    is(fetch("g", "t", 0), 9, "it is in force");
    is(fetch_stable("g", "t", 0), -KF_ERR_UNSTABLE_OFFSET_COMMIT,
       "but the other one may come");
    txn_check("superseded");
    restart();
    is(finish(5, &a, true), 0, "it does");
    is(fetch("g", "t", 0), 9, "and leaves the later one in force");
    is(fetch_stable("g", "t", 0), 9, "stable");

    /* unless it is staged again */
    stage(&a, "g", "t", 0, 11);
    stage(&b, "g", "t", 0, 12);
    finish(5, &b, true);
    stage(&a, "g", "t", 0, 13);
    finish(5, &a, true);
    is(fetch("g", "t", 0), 13, "the last one staged");

    /* an abort supersedes nothing */
    stage(&a, "g", "t", 0, 20);
    stage(&b, "g", "t", 0, 21);
    finish(5, &b, false);
    is(fetch("g", "t", 0), 13, "aborted");
    finish(5, &a, true);
    is(fetch("g", "t", 0), 20, "the other one");

    /* a plain commit in between */
    stage(&a, "g", "t", 0, 30);
    is(commit("g", "t", 0, 31), 0, "a commit without a transaction");
    is(fetch("g", "t", 0), 31, "is in force");
    finish(5, &a, true);
    is(fetch("g", "t", 0), 31, "and stays");
    stage(&a, "g", "t", 0, 32);
    finish(5, &a, true);
    is(fetch("g", "t", 0), 32, "until the next");

    /* within one, the last counts */
    stage(&a, "g", "t", 1, 1);
    stage(&a, "g", "t", 1, 2);
    stage_as(5, &a, "g", -1, "", NULL, "u", 3, 7, "note");
    stage_as(5, &a, "h", -1, "", NULL, "u", 3, 8, "note");
    is(fetch("g", "u", 3), -1, "nothing yet");
    finish(5, &a, true);
    is(fetch("g", "t", 1), 2, "the last");
    is(fetch("g", "u", 3), 7, "in another topic");
    is(fetch("h", "u", 3), 8, "of another group");
    is_str(c(fetch_part("h", "u", 3).metadata), "note", "with its note");
    is(fetch_part("h", "u", 3).committed_leader_epoch, 3, "and epoch");
    txn_check("order");
    world_end(&w);
}


static void
test_gone(void)
{
    int                          i;
    char                         id[20];
    kf_str_t                     name;
    producer_t                   p, q;
    kf_delete_groups_request_t   req = { &name, 1 };
    kf_delete_groups_response_t  rsp;

    txn_start();
    p = producer("p");
    q = producer("q");

    /* a group that only this transaction made */
    stage(&p, "g", "t", 0, 5);
    is_str(c(describe("g").group_state), "Empty", "the group is there");
    pass(700000);
    is_str(txn_state("p"), "CompleteAbort 0 1", "the transaction is over");
    drive();
    tick();
    is_str(c(describe("g").group_state), "Dead", "and so is the group");
    p.epoch = 1;

    /* of a topic that is deleted */
    create(&w, "v", 2, NULL);
    implicit(&p, "v", 0);
    implicit(&p, "t", 0);
    stage(&p, "g", "v", 0, 5);
    stage(&p, "g", "t", 0, 6);
    delete(&w, "v");
    txn_check("a topic is deleted");
    create(&w, "v", 2, NULL);
    is(prepare(5, &p, true), 0, "the transaction commits");
    is(work.parts_n, 1, "without it");
    complete();
    p.epoch = 2;
    is(fetch("g", "t", 0), 6, "what remains is in force");
    is(fetch("g", "v", 0), -1, "nothing of the new topic");

    implicit(&p, "v", 1);
    delete(&w, "v");
    wrote();
    is(prepare(5, &p, true), 0, "nothing is left to be marked");
    is(work.step, KC_TXN_DONE, "or driven");
    is_str(wrote(), "TransactionEnd TransactionComplete", "at once");
    p.epoch = 3;

    /* of a group that is deleted */
    stage(&p, "g", "t", 0, 7);
    stage(&q, "g", "t", 1, 8);
    name = str("g");
    kc_delete_groups(&w.kc, &w.call, 2, &req, &rsp);
    is(rsp.results[0].error_code, 0, "the group is deleted");
    is(fetch_stable("g", "t", 0), -1, "with what was staged");
    txn_check("a group is deleted");
    stage(&q, "g", "t", 2, 9);
    is(finish(5, &p, true), 0, "the transaction commits");
    is(finish(5, &q, true), 0, "the other one");
    is(fetch("g", "t", 0), -1, "nothing");
    is(fetch("g", "t", 2), 9, "but what came after");

    /* groups with staged offsets stay */
    timeout_ms = 900000;
    w.config = (kc_static_t) { (kc_config_entry_t []) {
        { s("offsets.retention.minutes"), s("1") },
        { s("offsets.retention.check.interval.ms"), s("1000") } }, 2, NULL, 0 };
    p = producer("long");
    tick();
    commit("keep", "t", 0, 3);
    stage(&p, "keep", "t", 0, 4);
    commit("keep", "t", 1, 3);
    pass(120000);
    is(fetch("keep", "t", 1), -1, "an offset expires");
    is(fetch("keep", "t", 0), 3, "not one that may change");
    finish(5, &p, false);
    pass(120000);
    is(fetch("keep", "t", 0), -1, "until it cannot");
    timeout_ms = 60000;

    /* many at once */
    for (i = 0; i < 20; i++) {
        snprintf(id, sizeof(id), "m%d", i);
        q = producer(str(id).data ? (const char *) id : "");
        stage(&q, "many", i & 1 ? "t" : "u", i % 4, i);
        if (i % 3 == 0) {
            q.id = id;
            finish(5, &q, i % 2);
        }
    }

    txn_check("many producers");
    world_end(&w);
}


int
main(void)
{
    test_rules();
    test_producer();
    test_order();
    test_gone();

    return done_testing();
}
