/*
 * For the tests of transactions: one call per request, in the world of
 * coordinator_group_lib.h, with topics "t" and "u" of four partitions.
 */

#ifndef COORDINATOR_TXN_LIB_H
#define COORDINATOR_TXN_LIB_H

#include "coordinator_group_lib.h"
#include "../../coordinator/kc_txn.h"

static int32_t  timeout_ms = 60000;

/* A producer as its client sees it. */
typedef struct {
    const char  *id;
    int64_t      pid;
    int16_t      epoch;
} producer_t;

static kc_txn_work_t  work;             /* of the last kc_end_txn() */
static int16_t        got_epoch;        /* of the last answer that has one */
static int64_t        got_pid;


__attribute__((unused))
static int16_t
init_as(int16_t version, const char *id, int64_t pid, int16_t epoch)
{
    kc_rc_t                         rc;
    kf_init_producer_id_request_t   req;
    kf_init_producer_id_response_t  rsp;

    kf_init_init_producer_id_request(&req);
    req.transactional_id = str(id);
    req.transaction_timeout_ms = timeout_ms;
    req.producer_id = pid;
    req.producer_epoch = epoch;

    rc = kc_txn_init(&w.kc, &w.call, version, &req, &rsp);
    got_pid = rsp.producer_id;
    got_epoch = rsp.producer_epoch;

    return rc == KC_OK ? rsp.error_code : (int16_t) (-100 - rc);
}


/* A new producer. */
__attribute__((unused))
static producer_t
producer(const char *id)
{
    producer_t  p = { id, -1, -1 };
    int16_t     error = init_as(5, id, -1, -1);

    if (error) {
        diag("InitProducerId of %s answers %d", id, error);
    }

    p.pid = got_pid;
    p.epoch = got_epoch;

    return p;
}


/* AddPartitionsToTxn of one partition up to version 3. */
__attribute__((unused))
static int16_t
add_as(int16_t version, const producer_t *p, const char *topic,
    int32_t partition)
{
    kf_add_partitions_to_txn_request_t                      req;
    kf_add_partitions_to_txn_response_t                     rsp;
    kf_add_partitions_to_txn_request_v3_and_below_topics_t  t;

    memset(&req, 0, sizeof(req));
    t = (kf_add_partitions_to_txn_request_v3_and_below_topics_t) {
        .name = str(topic), .partitions = &partition, .partitions_n = 1
    };
    req.v3_and_below_transactional_id = str(p->id);
    req.v3_and_below_producer_id = p->pid;
    req.v3_and_below_producer_epoch = p->epoch;
    req.v3_and_below_topics = &t;
    req.v3_and_below_topics_n = 1;

    if (kc_add_partitions_to_txn(&w.kc, &w.call, version, &req, &rsp)
        != KC_OK)
    {
        return -100;
    }

    return rsp.results_by_topic_v3_and_below[0].results_by_partition[0]
           .partition_error_code;
}


__attribute__((unused))
static int16_t
add(const producer_t *p, const char *topic, int32_t partition)
{
    return add_as(3, p, topic, partition);
}


/* What a Produce of version 12 does. */
__attribute__((unused))
static int16_t
implicit(const producer_t *p, const char *topic, int32_t partition)
{
    kc_txn_part_t      part = { .partition = partition };
    const kc_topic_t  *t = kc_topic_by_name(&w.kc, s(topic));

    if (t) {
        part.topic_id = t->id;
    }

    if (kc_txn_add(&w.kc, &w.call, str(p->id), p->pid, p->epoch, &part, 1)
        != KC_OK)
    {
        return -100;
    }

    return part.error;
}


/* What an earlier Produce asks. */
__attribute__((unused))
static int16_t
verify(int16_t version, const producer_t *p, const char *topic,
    int32_t partition)
{
    kc_txn_part_t      part = { .partition = partition };
    const kc_topic_t  *t = kc_topic_by_name(&w.kc, s(topic));

    if (t) {
        part.topic_id = t->id;
    }

    if (kc_txn_verify(&w.kc, &w.call, version, str(p->id), p->pid, p->epoch,
                      &part, 1)
        != KC_OK)
    {
        return -100;
    }

    return part.error;
}


__attribute__((unused))
static int16_t
add_offsets(int16_t version, const producer_t *p, const char *group)
{
    kf_add_offsets_to_txn_request_t   req;
    kf_add_offsets_to_txn_response_t  rsp;

    memset(&req, 0, sizeof(req));
    req.transactional_id = str(p->id);
    req.producer_id = p->pid;
    req.producer_epoch = p->epoch;
    req.group_id = str(group);

    return kc_add_offsets_to_txn(&w.kc, &w.call, version, &req, &rsp) == KC_OK
           ? rsp.error_code : -100;
}


/* TxnOffsetCommit of one partition. */
__attribute__((unused))
static int16_t
stage_as(int16_t version, const producer_t *p, const char *group,
    int32_t generation, const char *member, const char *instance,
    const char *topic, int32_t partition, int64_t offset, const char *metadata)
{
    kf_txn_offset_commit_request_t              req;
    kf_txn_offset_commit_response_t             rsp;
    kf_txn_offset_commit_request_topics_t       t;
    kf_txn_offset_commit_request_partitions_t   part;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    memset(&part, 0, sizeof(part));
    part.partition_index = partition;
    part.committed_offset = offset;
    part.committed_leader_epoch = 3;
    part.committed_metadata = str(metadata);
    t.name = str(topic);
    t.partitions = &part;
    t.partitions_n = 1;
    req.transactional_id = str(p->id);
    req.producer_id = p->pid;
    req.producer_epoch = p->epoch;
    req.group_id = str(group);
    req.generation_id_or_member_epoch = generation;
    req.member_id = str(member);
    req.group_instance_id = str(instance);
    req.topics = &t;
    req.topics_n = 1;

    if (version >= 6 && kc_topic_by_name(&w.kc, t.name)) {
        t.topic_id = kc_topic_by_name(&w.kc, t.name)->id;
    }

    if (kc_txn_offset_commit(&w.kc, &w.call, version, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.topics[0].partitions[0].error_code;
}


__attribute__((unused))
static int16_t
stage(const producer_t *p, const char *group, const char *topic,
    int32_t partition, int64_t offset)
{
    return stage_as(5, p, group, -1, "", NULL, topic, partition, offset, "");
}


/* EndTxn, one call: see work.step. */
__attribute__((unused))
static int16_t
end_step(int16_t version, const producer_t *p, bool commits)
{
    kf_end_txn_request_t   req = { str(p->id), p->pid, p->epoch, commits };
    kf_end_txn_response_t  rsp;

    if (kc_end_txn(&w.kc, &w.call, version, &req, &work, &rsp) != KC_OK) {
        return -100;
    }

    got_pid = rsp.producer_id;
    got_epoch = rsp.producer_epoch;

    return rsp.error_code;
}


/* EndTxn up to the decision: the markers are not written. */
__attribute__((unused))
static int16_t
prepare(int16_t version, const producer_t *p, bool commits)
{
    int16_t  error;

    memset(&work, 0, sizeof(work));
    error = end_step(version, p, commits);

    return error == 0 && work.step == KC_TXN_FLUSH
           ? end_step(version, p, commits) : error;
}


__attribute__((unused))
static kc_rc_t
complete(void)
{
    return kc_txn_complete(&w.kc, &w.call, work.transactional_id,
                           work.producer_id, work.epoch, work.prepared);
}


/* EndTxn to its end; a version 5 producer takes what it is given. */
__attribute__((unused))
static int16_t
finish(int16_t version, producer_t *p, bool commits)
{
    int16_t  error = prepare(version, p, commits);

    if (error == 0 && work.step == KC_TXN_DRIVE && complete() != KC_OK) {
        return -100;
    }

    if (error == 0 && version >= 5) {
        p->pid = got_pid;
        p->epoch = got_epoch;
    }

    return error;
}


/* Drives whatever is decided; how many. */
__attribute__((unused))
static int
drive(void)
{
    int       n = 0;
    uint64_t  after = 0;

    while (kc_txn_next_prepared(&w.kc, &w.call, after, &work) == KC_OK
           && work.step == KC_TXN_DRIVE)
    {
        after = work.serial;
        n += complete() == KC_OK;
    }

    return n;
}


__attribute__((unused))
static kf_describe_transactions_response_transaction_states_t
describe_txn(const char *id)
{
    kf_str_t                              name = str(id);
    kf_describe_transactions_request_t    req = { &name, 1 };
    kf_describe_transactions_response_t   rsp;

    if (kc_describe_transactions(&w.kc, &w.call, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp.transaction_states[0];
}


/* "Ongoing 3 1": state, producer id, epoch. */
__attribute__((unused))
static const char *
txn_state(const char *id)
{
    static int    n;
    static char   bufs[4][100];
    char         *buf = bufs[n++ & 3];

    kf_describe_transactions_response_transaction_states_t  d;

    d = describe_txn(id);
    snprintf(buf, sizeof(bufs[0]), "%s %lld %d", c(d.transaction_state),
             (long long) d.producer_id, d.producer_epoch);

    return buf;
}


/* The offset that a reader gets who wants stable ones; -88: not stable. */
__attribute__((unused))
static int64_t
fetch_stable(const char *group, const char *topic, int32_t partition)
{
    kf_offset_fetch_request_t         req;
    kf_offset_fetch_response_t        rsp;
    kf_offset_fetch_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = str(topic);
    t.partition_indexes = &partition;
    t.partition_indexes_n = 1;
    req.group_id = str(group);
    req.topics = &t;
    req.topics_n = 1;
    req.require_stable = true;

    if (kc_offset_fetch(&w.kc, &w.call, 7, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp.topics[0].partitions[0].error_code
           ? -rsp.topics[0].partitions[0].error_code
           : rsp.topics[0].partitions[0].committed_offset;
}


/* A world with two topics; what it has written so far is seen. */
__attribute__((unused))
static void
txn_start(void)
{
    int64_t  wait;

    world_start(&w);
    kc_bootstrap(&w.kc, NOW, &wait);
    create(&w, "t", 4, NULL);
    create(&w, "u", 4, NULL);
    seen_batches = w.count;
}


/* The same state from a snapshot, and from the journal. */
__attribute__((unused))
static void
txn_check(const char *label)
{
    world_check(&w, label);
}

#endif
