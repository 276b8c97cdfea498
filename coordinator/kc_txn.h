/*
 * Transactions: the calls behind the transaction APIs, and what a transactional
 * Produce asks.
 *
 * As in kc_request.h: one call per API, under the coordinator's lock; KC_OK,
 * and the response is whole (it may carry Kafka's errors, and points only into
 * the request, the arena and static memory); call->wait is the journal offset
 * that has to be flushed before the answer leaves.  Any other result: the
 * caller answers with a retriable code.
 *
 * Who does what.  The coordinator decides and journals; the caller writes.  A
 * decided transaction (PrepareCommit, PrepareAbort) is a kc_txn_work_t that
 * somebody has to drive, in this order and without the coordinator's lock:
 *
 *   1. flush the journal up to work->prepared;
 *   2. write a marker (work->producer_id, work->epoch, work->commit) into each
 *      of work->parts, unless that partition has no such transaction open, or
 *      one whose number is above work->prepared, and flush them;
 *   3. kc_txn_complete(), under the lock again.
 *
 * Every step may be repeated, by several workers at once: markers and
 * kc_txn_complete() are idempotent.  A driver may even be so late that the
 * producer's next transaction is under way, with the same epoch up to version 4
 * of EndTxn: the transactions' numbers tell them apart (kc_io_t).  Whoever gets
 * work from kc_end_txn() drives it and then answers.  Work that nobody waits
 * for (a producer that was fenced, a timeout, a worker that died, a recovery)
 * is found by kc_txn_next_prepared() after kc_txn_prepared_take() said so,
 * after a recovery, and now and then.
 *
 * Openness lives in the partition.  Whenever a partition becomes part of a
 * transaction, or is found to be, kc_io_t's txn_open() is called for its slot;
 * an append of transactional data checks only that.  Since a decision is made
 * under the same lock, no txn_open() comes after the decision, and the marker
 * of the decision clears what came before.
 *
 * The outcome is one record, TransactionEndRecord: with its replay staged
 * offsets of all groups are committed or gone, and OffsetFetch waits until it
 * is flushed.  EndTxn is answered after kc_txn_complete(): then the data is
 * visible, too.  The record that says that a transaction is complete need not
 * be flushed before the answer: without it, it is driven once more.
 */

#ifndef KC_TXN_H
#define KC_TXN_H

#include "kc_request.h"

#pragma GCC visibility push(hidden)


/* Numbers are those of the journal. */
typedef enum {
    KC_TXN_EMPTY = 0,
    KC_TXN_ONGOING,
    KC_TXN_PREPARE_COMMIT,
    KC_TXN_PREPARE_ABORT,
    KC_TXN_COMPLETE_COMMIT,
    KC_TXN_COMPLETE_ABORT
} kc_txn_state_t;

/* A partition that takes part. */
typedef struct {
    kf_uuid_t  topic_id;
    kf_str_t   topic;           /* out: its name, in the call's arena */
    int32_t    partition;
    int32_t    slot;            /* out: control block; never -1 in work */
    int16_t    error;           /* out: kc_txn_add() and kc_txn_verify() */
} kc_txn_part_t;

typedef enum {
    KC_TXN_DONE = 0,            /* the response is the answer */
    KC_TXN_FLUSH,               /* flush the parts' logs, and call again */
    KC_TXN_DRIVE                /* drive, then answer with the response */
} kc_txn_step_t;

/* What the caller has to do for a transaction; all in the call's arena.  Zeroed
   before the first call of kc_end_txn(), kept between its calls. */
typedef struct {
    kc_txn_step_t   step;
    kf_str_t        transactional_id;
    int64_t         producer_id;    /* of the markers */
    int16_t         epoch;
    bool            commit;
    int64_t         prepared;       /* journal offset after the decision */
    int64_t         prepared_ms;    /* mono; 0: before the last recovery */
    uint64_t        serial;         /* for kc_txn_next_prepared() */
    kc_txn_part_t  *parts;
    uint32_t        parts_n;
    /* kc_end_txn()'s own: what KC_TXN_FLUSH was said of */
    int64_t         began;
    uint32_t        seen;
} kc_txn_work_t;


/*
 * InitProducerId 0–5, idempotent and transactional (KIP-360).  When it aborts
 * the transaction under way the answer is CONCURRENT_TRANSACTIONS, and
 * kc_txn_prepared_take() tells of the work.
 */
kc_rc_t kc_txn_init(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_init_producer_id_request_t *req,
    kf_init_producer_id_response_t *rsp);

/* AddPartitionsToTxn 0–5; from 4 on several transactions, and VerifyOnly. */
kc_rc_t kc_add_partitions_to_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_add_partitions_to_txn_request_t *req,
    kf_add_partitions_to_txn_response_t *rsp);

/* AddOffsetsToTxn 0–4. */
kc_rc_t kc_add_offsets_to_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_add_offsets_to_txn_request_t *req,
    kf_add_offsets_to_txn_response_t *rsp);

/*
 * TxnOffsetCommit 0–6: stages offsets, durable with call->wait.  Members are
 * checked as KIP-447 wants; from version 5 on the group is added implicitly.
 */
kc_rc_t kc_txn_offset_commit(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_txn_offset_commit_request_t *req,
    kf_txn_offset_commit_response_t *rsp);

/*
 * EndTxn 0–5.  work->step says how it goes on.
 *   KC_TXN_FLUSH  nothing is decided: flush the logs of work->parts, then call
 *                 again with the same request and work (in the same arena);
 *   KC_TXN_DRIVE  it is decided: drive work, then send the response, which is
 *                 whole already; call->wait is work->prepared;
 *   KC_TXN_DONE   send the response, call->wait being flushed.
 * After a recovery in between: zero work and begin anew.
 */
kc_rc_t kc_end_txn(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_end_txn_request_t *req, kc_txn_work_t *work,
    kf_end_txn_response_t *rsp);

/*
 * All markers are on disk; the last three are the work's.  No-op when it is
 * complete already, also if the producer's next transaction has been decided
 * meanwhile, perhaps with the same epoch.
 */
kc_rc_t kc_txn_complete(kc_t *kc, kc_call_t *call, kf_str_t transactional_id,
    int64_t producer_id, int16_t epoch, int64_t prepared);

/*
 * Decided transactions that are not complete, in order of decision: the first
 * one after the serial (0 begins).  KC_OK and step KC_TXN_DONE: no more.
 */
kc_rc_t kc_txn_next_prepared(kc_t *kc, kc_call_t *call, uint64_t after,
    kc_txn_work_t *work);

/* Has this handle decided work that its caller did not get from kc_end_txn()?
   Ask after InitProducerId and kc_tick(). */
bool kc_txn_prepared_take(kc_t *kc);


/*
 * Produce 12 and later (transaction.version 2): adds the partitions of one
 * request, which the caller has resolved to ids, to the transaction, all of
 * them or none.  Codes are in parts[i].error: PRODUCER_FENCED never, but
 * INVALID_PRODUCER_EPOCH.  The answer of the Produce waits for call->wait, too.
 */
kc_rc_t kc_txn_add(kc_t *kc, kc_call_t *call, kf_str_t transactional_id,
    int64_t producer_id, int16_t epoch, kc_txn_part_t *parts, uint32_t n);

/*
 * Produce before 12: have the partitions been added?  To be asked when the log
 * says that it knows nothing of the transaction; if they were, txn_open() has
 * been called again, and the append may be tried once more.
 */
kc_rc_t kc_txn_verify(kc_t *kc, kc_call_t *call, int16_t version,
    kf_str_t transactional_id, int64_t producer_id, int16_t epoch,
    kc_txn_part_t *parts, uint32_t n);


/*
 * After a recovery, for each partition whose log has a transaction open: true,
 * it is part of one that is under way (perhaps from now on: call->wait); or the
 * caller writes an abort marker with this producer id and the next epoch.  With
 * the same epoch a batch of it that its producer repeats would be answered as a
 * duplicate, although it is aborted.
 */
kc_rc_t kc_txn_reconcile(kc_t *kc, kc_call_t *call, kf_uuid_t topic_id,
    int32_t partition, int64_t producer_id, int16_t epoch, bool *keep);

/*
 * After a recovery: the latest epochs that partitions have data of, sorted by
 * producer id.  Later ones than the journal's are of producers that were
 * answered before the journal was on the disk (write.caching), and whose power
 * was cut: who is the next of that transactional id gets a new producer id, or
 * its batches would be taken for theirs.
 */
typedef struct {
    int64_t  producer_id;
    int16_t  epoch;
} kc_txn_seen_t;

void kc_txn_seen(kc_t *kc, const kc_txn_seen_t *seen, size_t n);


/* DescribeTransactions 0.  Groups are shown as Kafka's partitions of
   __consumer_offsets. */
kc_rc_t kc_describe_transactions(kc_t *kc, kc_call_t *call,
    const kf_describe_transactions_request_t *req,
    kf_describe_transactions_response_t *rsp);

/* ListTransactions 0–2. */
kc_rc_t kc_list_transactions(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_list_transactions_request_t *req,
    kf_list_transactions_response_t *rsp);


/* For status pages.  The 64-bit ones count since the last recovery. */
typedef struct {
    uint32_t  ids;
    uint32_t  ongoing;
    uint32_t  prepared;
    uint64_t  committed;
    uint64_t  aborted;              /* timeouts and fenced ones included */
    uint64_t  timed_out;
    uint64_t  fenced;               /* requests refused for their epoch */
} kc_txn_counts_t;

void kc_txn_counts(const kc_t *kc, kc_txn_counts_t *counts);


#pragma GCC visibility pop

#endif
