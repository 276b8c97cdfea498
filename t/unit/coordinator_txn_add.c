/*
 * Participants: AddPartitionsToTxn in both forms, AddOffsetsToTxn, what a
 * Produce asks by version; reconciliation; what admins are shown.
 */

#include "coordinator_txn_lib.h"


/* One call with several partitions: "t:0,t:9,nope:1"; codes as text. */
static const char *
add_list(const producer_t *p, int16_t version, const char *list)
{
    int          i, n = 0;
    char         names[8][20];
    int32_t      parts[8];
    size_t       len;
    const char  *pos = list;
    static char  text[200];

    kf_add_partitions_to_txn_request_t                      req;
    kf_add_partitions_to_txn_response_t                     rsp;
    kf_add_partitions_to_txn_request_v3_and_below_topics_t  t[8];

    for ( ; *pos; n++) {
        len = strcspn(pos, ":");
        snprintf(names[n], sizeof(names[n]), "%.*s", (int) len, pos);
        parts[n] = (int32_t) strtol(pos + len + 1, (char **) &pos, 10);
        pos += *pos == ',';
        t[n].name = s(names[n]);
        t[n].partitions = &parts[n];
        t[n].partitions_n = 1;
    }

    memset(&req, 0, sizeof(req));
    req.v3_and_below_transactional_id = str(p->id);
    req.v3_and_below_producer_id = p->pid;
    req.v3_and_below_producer_epoch = p->epoch;
    req.v3_and_below_topics = t;
    req.v3_and_below_topics_n = n;

    if (kc_add_partitions_to_txn(&w.kc, &w.call, version, &req, &rsp)
        != KC_OK)
    {
        return "failed";
    }

    text[0] = '\0';

    for (i = 0; i < n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d",
                 i ? " " : "", rsp.results_by_topic_v3_and_below[i]
                               .results_by_partition[0].partition_error_code);
    }

    return text;
}


static void
test_partitions(void)
{
    int         v;
    producer_t  p, q;

    txn_start();
    p = producer("p");

    for (v = 0; v <= 3; v++) {
        wrote();
        is_str(add_list(&p, (int16_t) v, "t:0,nope:0,t:9,t:-1"), "55 3 3 3",
               "all of them or none");
        q = (producer_t) { "x", 7, 7 };
        is_str(add_list(&q, (int16_t) v, "t:0,nope:0"), "55 3",
               "partitions come before the producer");
        is_str(add_list(&q, (int16_t) v, "t:0,t:1"), "49 49", "unknown id");
        q = (producer_t) { "", p.pid, p.epoch };
        is_str(add_list(&q, (int16_t) v, "t:0"), "42", "no id");
        q = (producer_t) { "p", p.pid + 1, p.epoch };
        is_str(add_list(&q, (int16_t) v, "t:0"), "49", "a wrong producer");
        q = (producer_t) { "p", p.pid, p.epoch + 1 };
        is_str(add_list(&q, (int16_t) v, "t:0"), v < 2 ? "47" : "90",
               "a wrong epoch");
        if (v) {
            is_str(wrote(), "", "nothing has changed");
        }
    }

    is_str(txn_state("p"), "Empty 0 0", "still none");
    is_str(add_list(&p, 3, "u:3,t:2,u:0,t:2,t:0"), "0 0 0 0 0", "five");
    is_str(wrote(), "TransactionAdd", "one record");
    is(w.opened, 5, "all are told");
    is_str(add_list(&p, 3, "t:2,u:0"), "0 0", "known ones");
    is_str(wrote(), "", "no record");
    is(prepare(3, &p, true), 0, "the end");
    is(work.parts_n, 4, "has each of them once");
    is_str(add_list(&p, 3, "t:0,t:1"), "51 51", "no more now");
    complete();
    is_str(add_list(&p, 3, ""), "", "none at all");
    is_str(txn_state("p"), "Ongoing 0 0", "begins one, as in Kafka");
    is(finish(3, &p, false), 0, "which ends");
    txn_check("partitions");
    world_end(&w);
}


/* Another broker's form. */
static void
test_batched(void)
{
    int32_t     parts[] = { 0, 1 };
    producer_t  p, q;

    kf_add_partitions_to_txn_request_t               req;
    kf_add_partitions_to_txn_response_t              rsp;
    kf_add_partitions_to_txn_request_topics_t        t = { s("t"), parts, 2 };
    kf_add_partitions_to_txn_request_transactions_t  txns[3];

#define CODE(i, j)                                                            \
    rsp.results_by_transaction[i].topic_results[0].results_by_partition[j]    \
       .partition_error_code

    txn_start();
    p = producer("p");
    q = producer("q");
    add(&p, "t", 1);
    w.opened = 0;

    memset(&req, 0, sizeof(req));
    memset(txns, 0, sizeof(txns));
    req.transactions = txns;
    req.transactions_n = 3;
    txns[0] = (kf_add_partitions_to_txn_request_transactions_t) {
        s("p"), p.pid, p.epoch, true, &t, 1
    };
    txns[1] = (kf_add_partitions_to_txn_request_transactions_t) {
        s("q"), q.pid, q.epoch, false, &t, 1
    };
    txns[2] = (kf_add_partitions_to_txn_request_transactions_t) {
        s("p"), p.pid, p.epoch + 1, true, &t, 1
    };

    is(kc_add_partitions_to_txn(&w.kc, &w.call, 5, &req, &rsp), KC_OK, "5");
    is(rsp.error_code, 0, "no error");
    is(rsp.results_by_transaction_n, 3, "three transactions");
    is_str(c(rsp.results_by_transaction[1].transactional_id), "q", "by name");
    is(CODE(0, 0), KF_ERR_TRANSACTION_ABORTABLE, "verified: not in");
    is(CODE(0, 1), 0, "in");
    is(CODE(1, 0), 0, "added");
    is(CODE(1, 1), 0, "both");
    is(CODE(2, 0), KF_ERR_PRODUCER_FENCED, "a wrong epoch");
    is(w.opened, 3, "partitions are told");
    is(w.call.wait, w.end, "durable");
    is(verify(11, &q, "t", 1), 0, "takes part");
    is(w.opened_version, 2, "of version 2");
    prepare(5, &p, true);
    kc_add_partitions_to_txn(&w.kc, &w.call, 5, &req, &rsp);
    is(CODE(2, 0), KF_ERR_CONCURRENT_TRANSACTIONS, "decided");
    is(CODE(0, 0), KF_ERR_PRODUCER_FENCED, "with another epoch");
    world_end(&w);
}


static void
test_produce(void)
{
    int         v, i;
    producer_t  p, q;
    int16_t     want;

    txn_start();
    p = producer("p");
    add(&p, "t", 0);

    for (v = 3; v <= 11; v++) {
        is(verify((int16_t) v, &p, "t", 0), 0, "in");
        is(verify((int16_t) v, &p, "t", 1),
           v < 11 ? KF_ERR_INVALID_TXN_STATE : KF_ERR_TRANSACTION_ABORTABLE,
           "not in");
    }

    for (i = 0; i < 4; i++) {
        q = p;
        q.id = i == 0 ? "x" : "p";
        q.pid += i == 1;
        q.epoch += i == 2;
        want = i < 2 ? KF_ERR_INVALID_PRODUCER_ID_MAPPING
               : i == 2 ? KF_ERR_INVALID_PRODUCER_EPOCH : 0;
        is(verify(11, &q, "t", 0), want, "verified");
        is(implicit(&q, "t", 0), want, "added");
    }

    is(implicit(&p, "t", 9), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "no such one");
    is(implicit(&p, "nope", 0), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "nor this");
    wrote();
    w.opened = 0;
    is(implicit(&p, "t", 0), 0, "known");
    is_str(wrote(), "", "no record");
    is(w.opened, 1, "but told again");
    is(w.call.wait, w.end, "and waits for what adds it");
    world_end(&w);
}


static bool
reconcile(const char *topic, int32_t partition, int64_t pid, int16_t epoch)
{
    bool              keep;
    const kc_topic_t *t = kc_topic_by_name(&w.kc, s(topic));

    is(kc_txn_reconcile(&w.kc, &w.call, t->id, partition, pid, epoch, &keep),
       KC_OK, "reconciled");

    return keep;
}


static void
test_reconcile(void)
{
    producer_t  p, q;

    txn_start();
    p = producer("p");
    q = producer("q");
    implicit(&p, "t", 0);
    implicit(&q, "t", 0);
    implicit(&q, "u", 0);
    restart();
    w.opened = 0;
    wrote();
    ok(reconcile("t", 0, p.pid, p.epoch), "a participant");
    is(w.opened, 1, "is told again");
    is_str(wrote(), "", "no record");
    ok(reconcile("t", 1, p.pid, p.epoch), "data that came before its record");
    is_str(wrote(), "TransactionAdd", "takes part from now on");
    ok(!reconcile("t", 1, p.pid, p.epoch + 1), "not of another epoch");
    ok(!reconcile("t", 1, 12345, 0), "not of an unknown producer");
    is(prepare(5, &p, true), 0, "the end");
    is(work.parts_n, 2, "of both");
    is(prepare(5, &q, false), 0, "another one");
    restart();
    wrote();
    ok(reconcile("t", 0, p.pid, p.epoch), "decided: to be driven");
    ok(reconcile("t", 1, p.pid, p.epoch), "both");
    ok(!reconcile("t", 2, p.pid, p.epoch), "nothing is added to it");
    ok(reconcile("u", 0, q.pid, q.epoch), "an abort, too");
    drive();
    restart();
    ok(!reconcile("t", 0, p.pid, p.epoch), "complete: nothing is open");
    ok(!reconcile("t", 0, p.pid, p.epoch + 1), "nor in the next epoch");
    txn_check("reconciled");
    world_end(&w);
}


/* --- what admins are shown ----------------------------------------------- */

/* Ids that are listed, sorted: "a b". */
static const char *
list(int64_t duration, int64_t pid, const char *states, const char *pattern,
    int16_t *error, int *unknown)
{
    int32_t      i, n = 0;
    kf_str_t     filters[8];
    static char  text[400];

    kf_list_transactions_request_t   req;
    kf_list_transactions_response_t  rsp;

    memset(&req, 0, sizeof(req));

    while (*states) {
        filters[n].data = (const uint8_t *) states;
        filters[n++].len = (uint32_t) strcspn(states, ",");
        states += strcspn(states, ",");
        states += *states == ',';
    }

    req.state_filters = filters;
    req.state_filters_n = n;
    req.producer_id_filters = &pid;
    req.producer_id_filters_n = pid >= 0;
    req.duration_filter = duration;
    req.transactional_id_pattern = str(pattern);

    if (kc_list_transactions(&w.kc, &w.call, 2, &req, &rsp) != KC_OK) {
        return "failed";
    }

    *error = rsp.error_code;
    *unknown = rsp.unknown_state_filters_n;
    text[0] = '\0';

    for (i = 0; i < rsp.transaction_states_n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                 i ? " " : "",
                 c(rsp.transaction_states[i].transactional_id));
    }

    return text;
}


static void
test_list(void)
{
    int         unknown;
    int16_t     error;
    producer_t  a, b, d;

    kf_describe_transactions_response_transaction_states_t  one;

    txn_start();
    a = producer("a");
    b = producer("b");
    d = producer("d");
    implicit(&a, "t", 3);
    later(5000);
    implicit(&b, "u", 1);
    implicit(&b, "u", 0);
    implicit(&b, "t", 0);
    add_offsets(3, &b, "g");
    add_offsets(3, &b, "\xc3\xa4\xf0\x9f\x98\x80");
    finish(5, &d, false);

#define LIST(d, pid, states)  list(d, pid, states, NULL, &error, &unknown)

    is_str(LIST(-1, -1, ""), "a b d", "all");
    is(w.call.wait, w.end, "as of the last change");
    is_str(LIST(-1, b.pid, ""), "b", "by producer");
    is_str(LIST(-1, 777, ""), "", "an unknown one");
    is_str(LIST(-1, -1, "Ongoing"), "a b", "by state");
    is_str(LIST(-1, -1, "CompleteAbort,Empty"), "d", "by states");
    is_str(LIST(-1, -1, "Dead,PrepareEpochFence"), "", "never shown");
    is(unknown, 0, "but known");
    is_str(LIST(-1, -1, "ongoing,Foo"), "", "unknown ones");
    is(unknown, 2, "are told");
    is(error, 0, "which is no error");
    is_str(LIST(0, -1, ""), "a", "by duration");
    is_str(LIST(5000, -1, ""), "", "which has to be exceeded");
    is_str(LIST(4999, -1, "Ongoing"), "a", "both");
    later(1);
    is_str(LIST(0, -1, "Ongoing"), "a b", "a moment later");

    is_str(list(-1, -1, "", "[ab]", &error, &unknown), "a b", "by pattern");
    is_str(list(-1, -1, "", "", &error, &unknown), "a b d", "an empty one");
    is_str(list(-1, -1, "Ongoing", "a|d", &error, &unknown), "a", "both");
    is_str(list(-1, -1, "", "(", &error, &unknown), "", "a bad one");
    is(error, KF_ERR_INVALID_REGULAR_EXPRESSION, "is refused");

    one = describe_txn("b");
    is(one.error_code, 0, "described");
    is_str(c(one.transaction_state), "Ongoing", "state");
    is(one.transaction_timeout_ms, 60000, "timeout");
    is(one.transaction_start_time_ms, NOW.wall_ms + 5000, "start");
    is(one.producer_id, b.pid, "producer");
    is(one.producer_epoch, 0, "epoch");
    is(one.topics_n, 3, "topics");
    is_str(c(one.topics[2].topic), "__consumer_offsets", "and groups");
    is(one.topics[2].partitions_n, 1, "all in one partition");
    is(one.topics[2].partitions[0], 0, "the only one");
    is(describe_txn("nope").error_code, KF_ERR_TRANSACTIONAL_ID_NOT_FOUND,
       "an unknown one");
    is(describe_txn("").error_code, KF_ERR_INVALID_REQUEST, "no name");
    delete(&w, "u");
    is(describe_txn("b").topics_n, 2, "a topic is gone");
    finish(5, &b, true);
    is(describe_txn("b").topics_n, 0, "nothing when it is complete");
    is(describe_txn("b").transaction_start_time_ms, NOW.wall_ms + 5000,
       "but when it began");
    world_end(&w);
}


int
main(void)
{
    test_partitions();
    test_batched();
    test_produce();
    test_reconcile();
    test_list();

    return done_testing();
}
