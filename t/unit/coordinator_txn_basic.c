/*
 * Transactions from begin to end: records, answers, what is told to partitions,
 * and what a restart in between leaves.
 */

#include "coordinator_txn_lib.h"


static void
test_classic(void)
{
    producer_t  p = producer("a");

    is_str(wrote(), "ProducerIds Transaction", "the producer is known");
    is(p.pid, 0, "the first producer id");
    is(p.epoch, 0, "and epoch");
    is(w.call.wait, w.end, "durable before it is answered");
    is_str(txn_state("a"), "Empty 0 0", "no transaction");
    is(describe_txn("a").transaction_start_time_ms, -1, "nor a start");

    is(verify(11, &p, "t", 1), KF_ERR_TRANSACTION_ABORTABLE,
       "a Produce without a partition added");
    is(w.opened, 0, "no partition is open");
    is(add(&p, "t", 1), 0, "a partition is added");
    is(w.call.wait, w.end, "which is durable");
    is_str(wrote(), "TransactionAdd", "one record");
    is(w.opened, 1, "the partition is told");
    is(w.opened_partition, 1, "the right one");
    is(w.opened_pid, 0, "of the producer");
    is(w.opened_version, 1, "of a classic transaction");
    is(w.opened_number, w.end, "with the number of its first record");
    is(verify(11, &p, "t", 1), 0, "a Produce may go on");
    is(w.opened, 2, "and the partition is told again");
    is(verify(11, &p, "t", 2), KF_ERR_TRANSACTION_ABORTABLE,
       "not into another partition");
    is_str(txn_state("a"), "Ongoing 0 0", "it is under way");
    is(describe_txn("a").transaction_start_time_ms, NOW.wall_ms, "since then");
    is(add(&p, "t", 1), 0, "the same partition again");
    is_str(wrote(), "", "is no record");
    is(add(&p, "u", 3), 0, "another one");
    is_str(wrote(), "TransactionAdd", "is one");

    is(prepare(3, &p, true), 0, "EndTxn");
    is(work.step, KC_TXN_DRIVE, "is to be driven");
    is(work.parts_n, 2, "in two partitions");
    is(work.commit, true, "to a commit");
    is(work.epoch, 0, "with the same epoch");
    is(work.prepared, w.end, "once the decision is durable");
    ok(work.prepared > w.opened_number, "which comes after the number");
    is_str(wrote(), "TransactionEnd", "one record decides");
    is_str(txn_state("a"), "PrepareCommit 0 0", "it is decided");
    is(verify(11, &p, "t", 1), KF_ERR_NOT_ENOUGH_REPLICAS,
       "no more data of it");
    is(implicit(&p, "t", 1), KF_ERR_CONCURRENT_TRANSACTIONS, "in no way");
    is(add(&p, "t", 2), KF_ERR_CONCURRENT_TRANSACTIONS, "nor partitions");
    is(add_offsets(3, &p, "g"), KF_ERR_CONCURRENT_TRANSACTIONS, "nor groups");
    is(init_as(5, "a", -1, -1), KF_ERR_CONCURRENT_TRANSACTIONS,
       "nor a new producer");
    is(complete(), KC_OK, "the markers are written");
    is_str(wrote(), "TransactionComplete", "it is complete");
    is_str(txn_state("a"), "CompleteCommit 0 0", "as is shown");
    is(complete(), KC_OK, "somebody else has driven it, too");
    is_str(wrote(), "", "without effect");
    is(finish(3, &p, true), 0, "EndTxn once more");
    is_str(wrote(), "", "is a repetition");
    is(finish(3, &p, false), KF_ERR_INVALID_TXN_STATE, "but not its opposite");

    is(add(&p, "t", 0), 0, "the next transaction");
    ok(w.opened_number > work.prepared, "has a number above all before");
    is(finish(3, &p, false), 0, "is aborted");
    is_str(txn_state("a"), "CompleteAbort 0 0", "with the same epoch");
    txn_check("classic transactions");
}


/* A driver that is so late that the next transaction is decided. */
static void
test_late_driver(void)
{
    kc_txn_work_t  late;
    producer_t     p = producer("l");

    add(&p, "t", 0);
    prepare(4, &p, true);
    late = work;
    is(complete(), KC_OK, "somebody else was faster");
    add(&p, "t", 0);
    is(prepare(4, &p, false), 0, "the next one is decided");
    is(work.epoch, late.epoch, "with the same epoch");
    wrote();
    is(kc_txn_complete(&w.kc, &w.call, late.transactional_id,
                       late.producer_id, late.epoch, late.prepared),
       KC_OK, "the late one");
    is_str(wrote(), "", "does not complete it");
    is_str(c(describe_txn("l").transaction_state), "PrepareAbort", "it waits");
    restart();
    kc_txn_complete(&w.kc, &w.call, late.transactional_id, late.producer_id,
                    late.epoch, late.prepared);
    is_str(c(describe_txn("l").transaction_state), "PrepareAbort",
       "also after a restart");
    is(drive(), 1, "for its own driver");
    is_str(c(describe_txn("l").transaction_state), "CompleteAbort", "done");
}


static void
test_flush(void)
{
    producer_t  p = producer("f");

    add(&p, "t", 0);
    wrote();
    memset(&work, 0, sizeof(work));
    is(end_step(5, &p, true), 0, "EndTxn of a commit");
    is(work.step, KC_TXN_FLUSH, "first wants the data flushed");
    is(work.parts_n, 1, "of its partition");
    is(work.parts[0].partition, 0, "this one");
    is_str(c(work.parts[0].topic), "t", "of this topic");
    ok(work.parts[0].slot >= 0, "in a slot");
    is_str(wrote(), "", "and decides nothing");

    implicit(&p, "t", 1);
    wrote();
    is(end_step(5, &p, true), 0, "a partition more meanwhile");
    is(work.step, KC_TXN_FLUSH, "is to be flushed, too");
    is(work.parts_n, 2, "with the first one");
    is(end_step(5, &p, true), 0, "then");
    is(work.step, KC_TXN_DRIVE, "it is decided");
    is(work.epoch, 1, "with the next epoch");
    is(got_epoch, 1, "which the producer gets");
    is(got_pid, p.pid, "with its id");
    complete();

    /* a transaction that came and went is not the one that was flushed */
    p.epoch = got_epoch;
    implicit(&p, "t", 0);
    memset(&work, 0, sizeof(work));
    end_step(4, &p, true);
    {
        kc_txn_work_t  late = work;

        finish(4, &p, true);
        implicit(&p, "t", 0);
        work = late;
        wrote();
        is(end_step(4, &p, true), 0, "a late second half of EndTxn");
        is(work.step, KC_TXN_FLUSH, "does not commit the next transaction");
        is_str(wrote(), "", "which goes on");
    }

    finish(5, &p, false);
    is(implicit(&p, "u", 0), KF_ERR_NONE, "one more");
    memset(&work, 0, sizeof(work));
    end_step(5, &p, false);
    is(work.step, KC_TXN_DRIVE, "an abort needs no flush");
    complete();
    txn_check("flushes");
}


/* A crash after each step; the journal has the whole of it, or nothing. */
static void
test_restart(void)
{
    producer_t  p = producer("r"), q;

    add(&p, "t", 1);
    add_offsets(3, &p, "g");
    is(stage_as(3, &p, "g", -1, "", NULL, "t", 1, 42, "note"), 0, "staged");
    is(w.call.wait, w.end, "durable before it is answered");
    is(fetch("g", "t", 1), -1, "not yet in force");
    is(fetch_stable("g", "t", 1), -KF_ERR_UNSTABLE_OFFSET_COMMIT,
       "and not stable");
    restart();
    is_str(txn_state("r"), "Ongoing 0 0", "goes on");
    is(fetch("g", "t", 1), -1, "still not in force");
    is(fetch_stable("g", "t", 1), -KF_ERR_UNSTABLE_OFFSET_COMMIT,
       "but staged");
    is(verify(11, &p, "t", 1), 0, "the partition takes part");
    is(prepare(4, &p, true), 0, "it is decided");
    is(w.call.wait, w.end, "and waits for the decision");
    is(fetch("g", "t", 1), 42, "now the offset is in force");
    is_str(c(fetch_part("g", "t", 1).metadata), "note", "all of it");
    is(fetch_stable("g", "t", 1), 42, "and stable");
    is(w.call.wait, w.end, "an answer waits for the decision");
    restart();
    is(fetch("g", "t", 1), 42, "as it is after a restart");
    is(prepare(4, &p, true), KF_ERR_CONCURRENT_TRANSACTIONS, "it is prepared");
    is(prepare(4, &p, false), KF_ERR_INVALID_TXN_STATE, "for a commit");
    memset(&work, 0, sizeof(work));
    is(kc_txn_next_prepared(&w.kc, &w.call, 0, &work), KC_OK, "it is found");
    is(work.step, KC_TXN_DRIVE, "to be driven");
    is(work.commit, true, "to a commit");
    is(work.parts_n, 1, "in its partition");
    is(work.prepared_ms, 0, "from before");
    q = producer("s");
    is(add(&q, "t", 1), 0, "others are served meanwhile");
    is(complete(), KC_OK, "it is driven");
    restart();
    is(finish(4, &p, true), 0, "EndTxn once more is answered");
    is(drive(), 0, "nothing is left");
    is(prepare(4, &q, false), 0, "an abort");
    restart();
    is(drive(), 1, "is driven, too");
    is_str(txn_state("s"), "CompleteAbort 1000 0", "and complete");
    txn_check("restarts");
}


/* Epochs that a partition has, and that the journal has lost. */
static void
test_seen(void)
{
    producer_t     a = producer("a"), b = producer("b"), c = producer("c"), n;
    kc_txn_seen_t  seen[3];
    uint64_t       before;

    finish(5, &a, false);
    a.epoch = got_epoch;

    seen[0] = (kc_txn_seen_t) { a.pid, a.epoch };
    seen[1] = (kc_txn_seen_t) { b.pid, (int16_t) (b.epoch + 1) };
    seen[2] = (kc_txn_seen_t) { c.pid + 100, 9 };

    before = kc_hash(&w.kc);
    kc_txn_seen(&w.kc, seen, 3);
    ok(kc_hash(&w.kc) == before, "nothing durable is changed");

    n = producer("a");
    is(n.pid, a.pid, "a partition has what the journal has: the same id");
    is(n.epoch, a.epoch + 1, "and the next epoch");

    implicit(&b, "t", 0);
    is(init_as(5, "b", -1, -1), KF_ERR_CONCURRENT_TRANSACTIONS,
       "a partition has more: what is under way is ended first");
    drive();
    n = producer("b");
    ok(n.pid > c.pid, "then there is a new id");
    is(n.epoch, 0, "and an epoch of its own");
    is(w.call.wait, w.end, "durable before it is answered");
    is(implicit(&b, "t", 0), KF_ERR_INVALID_PRODUCER_ID_MAPPING,
       "the one before is fenced");
    is(implicit(&n, "t", 0), 0, "the new one is served");
    finish(5, &n, true);

    b = producer("b");
    is(b.pid, n.pid, "once is enough");
    n = producer("c");
    is(n.pid, c.pid, "who was not seen keeps its id");

    seen[0] = (kc_txn_seen_t) { c.pid, 7 };
    kc_txn_seen(&w.kc, seen, 1);
    is(init_as(5, "c", n.pid, n.epoch), 0, "a producer that goes on");
    ok(got_pid != n.pid && got_epoch == 0, "gets a new id, too");
    txn_check("seen");
}


int
main(void)
{
    txn_start();
    test_classic();
    world_end(&w);

    txn_start();
    test_late_driver();
    world_end(&w);

    txn_start();
    test_flush();
    world_end(&w);

    txn_start();
    test_restart();
    world_end(&w);

    txn_start();
    test_seen();
    world_end(&w);

    return done_testing();
}
