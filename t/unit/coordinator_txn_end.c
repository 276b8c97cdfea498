/*
 * EndTxn and InitProducerId: each state, epoch and version with Kafka's code;
 * epochs that run out; timeouts; expiry.
 */

#include "coordinator_txn_lib.h"


/* Brings "x" into a state, with an epoch below the one in force. */
static producer_t
in_state(kc_txn_state_t state)
{
    producer_t  p = producer("x");

    p = producer("x");

    if (state == KC_TXN_EMPTY) {
        return p;
    }

    implicit(&p, "t", 0);

    if (state == KC_TXN_ONGOING) {
        return p;
    }

    prepare(5, &p, state == KC_TXN_PREPARE_COMMIT
                   || state == KC_TXN_COMPLETE_COMMIT);
    p.epoch = got_epoch;

    if (state >= KC_TXN_COMPLETE_COMMIT) {
        complete();
    }

    return p;
}


typedef struct {
    const char      *label;
    kc_txn_state_t   state;
    int16_t          want[6];
} cell_t;

#define DECIDES  1000                   /* no error, and a record */


static void
test_version_5(void)
{
    int         i, k, records;
    int16_t     got;
    producer_t  p;

    /* abort with the epoch before, in force, above; commit */
    static const cell_t  cells[] = {
        { "Empty", KC_TXN_EMPTY, { 90, DECIDES, 90, 90, 48, 90 } },
        { "Ongoing", KC_TXN_ONGOING, { 90, DECIDES, 90, 90, DECIDES, 90 } },
        { "PrepareCommit", KC_TXN_PREPARE_COMMIT, { 48, 90, 90, 51, 90, 90 } },
        { "PrepareAbort", KC_TXN_PREPARE_ABORT, { 51, 90, 90, 48, 90, 90 } },
        { "CompleteCommit", KC_TXN_COMPLETE_COMMIT,
          { 48, DECIDES, 90, 0, 48, 90 } },
        { "CompleteAbort", KC_TXN_COMPLETE_ABORT,
          { 0, DECIDES, 90, 48, 48, 90 } }
    };

    for (i = 0; i < 6; i++) {
        for (k = 0; k < 6; k++) {
            txn_start();
            p = in_state(cells[i].state);
            is_str(c(describe_txn("x").transaction_state), cells[i].label,
                   "in this state");
            wrote();
            records = w.count;
            p.epoch = (int16_t) (p.epoch - 1 + k % 3);
            got = prepare(5, &p, k >= 3);

            if (w.count > records) {
                got = got ? -1 : DECIDES;
                is(got_epoch, p.epoch + 1, "the next epoch");
            }

            is(got, cells[i].want[k], k < 3 ? "its abort" : "its commit");

            if (got == 0) {
                is(got_epoch, p.epoch + 1, "a repetition gets the epoch");
            } else if (got != DECIDES) {
                is(got_epoch, -1, "no epoch");
            }

            txn_check("version 5");
            world_end(&w);
        }
    }
}


static void
test_version_4(void)
{
    int         i, k, v, records;
    int16_t     got, want;
    producer_t  p;

    static const cell_t  cells[] = {
        { "Empty", KC_TXN_EMPTY, { 90, 48, 90, 90, 48, 90 } },
        { "Ongoing", KC_TXN_ONGOING, { 90, DECIDES, 90, 90, DECIDES, 90 } },
        { "PrepareCommit", KC_TXN_PREPARE_COMMIT, { 90, 48, 90, 90, 51, 90 } },
        { "PrepareAbort", KC_TXN_PREPARE_ABORT, { 90, 51, 90, 90, 48, 90 } },
        { "CompleteCommit", KC_TXN_COMPLETE_COMMIT,
          { 90, 48, 90, 90, 0, 90 } },
        { "CompleteAbort", KC_TXN_COMPLETE_ABORT, { 90, 0, 90, 90, 48, 90 } }
    };

    for (v = 1; v <= 4; v += 3) {
        for (i = 0; i < 6; i++) {
            for (k = 0; k < 6; k++) {
                txn_start();
                p = in_state(cells[i].state);
                records = w.count;
                p.epoch = (int16_t) (p.epoch - 1 + k % 3);
                got = prepare((int16_t) v, &p, k >= 3);

                if (w.count > records) {
                    got = got ? -1 : DECIDES;
                    is(work.epoch, p.epoch, "the same epoch");
                }

                want = cells[i].want[k];
                want = want == 90 && v < 2 ? 47 : want;
                ok(got == want, "version %d, %s, %s, epoch %d: %d, not %d", v,
                   cells[i].label, k < 3 ? "abort" : "commit", k % 3 - 1, want,
                   got);
                world_end(&w);
            }
        }
    }
}


static void
test_end_names(void)
{
    producer_t  p;

    txn_start();
    p = producer("x");
    p.id = "";
    is(prepare(5, &p, true), KF_ERR_INVALID_REQUEST, "no name");
    p.id = "y";
    is(prepare(5, &p, true), KF_ERR_INVALID_PRODUCER_ID_MAPPING, "unknown");
    p.id = "x";
    p.pid++;
    is(prepare(5, &p, true), KF_ERR_INVALID_PRODUCER_ID_MAPPING,
       "another's producer id");
    is(prepare(4, &p, true), KF_ERR_INVALID_PRODUCER_ID_MAPPING,
       "in version 4, too");
    world_end(&w);
}


static void
test_init(void)
{
    int         v;
    producer_t  p, q;

    txn_start();
    is(init_as(5, "", -1, -1), KF_ERR_INVALID_REQUEST, "no name");
    timeout_ms = 0;
    is(init_as(5, "x", -1, -1), KF_ERR_INVALID_TRANSACTION_TIMEOUT, "none");
    timeout_ms = 900001;
    is(init_as(5, "x", -1, -1), KF_ERR_INVALID_TRANSACTION_TIMEOUT, "too long");
    is(init_as(5, "", -1, -1), KF_ERR_INVALID_REQUEST, "the name comes first");
    timeout_ms = 900000;
    is(init_as(5, "x", 5, -1), KF_ERR_INVALID_REQUEST, "an id, no epoch");
    is(init_as(5, "x", -1, 5), KF_ERR_INVALID_REQUEST, "an epoch, no id");
    is_str(wrote(), "", "nothing has changed");
    is(init_as(5, "n", 5000, 3), 0, "an unknown id with a producer");
    is(got_epoch, 0, "begins anew");
    timeout_ms = 60000;

    p = producer("x");
    is(p.epoch, 0, "a new id");
    q = producer("x");
    is(q.pid, p.pid, "the next one has the same producer id");
    is(q.epoch, 1, "and the next epoch");
    is(init_as(5, "x", q.pid, 0), KF_ERR_PRODUCER_FENCED, "one is fenced");
    is(init_as(3, "x", q.pid, 0), KF_ERR_INVALID_PRODUCER_EPOCH, "version 3");
    is(init_as(5, "x", q.pid, 2), KF_ERR_PRODUCER_FENCED, "from the future");
    is(init_as(5, "x", q.pid + 9, 1), KF_ERR_PRODUCER_FENCED, "a wrong id");
    is(init_as(5, "x", q.pid, 1), 0, "it goes on");
    is(got_epoch, 2, "with the next epoch");
    is(init_as(5, "x", q.pid, 1), 0, "once more");
    is(got_epoch, 2, "gets the same");
    is(init_as(5, "x", -1, -1), 0, "a new producer");
    is(got_epoch, 3, "has the next");
    is(init_as(5, "x", q.pid, 1), KF_ERR_PRODUCER_FENCED, "after which it is "
       "no repetition");
    is(init_as(2, "x", 0, 0), 0, "version 2 names nothing");
    is(got_epoch, 4, "and is a new producer");
    restart();
    is(init_as(5, "x", q.pid, 4), 0, "after a restart");
    restart();
    is(init_as(5, "x", q.pid, 4), 0, "it is a repetition, too");
    is(got_epoch, 5, "which gets the same");
    txn_check("InitProducerId");

    /* a transaction under way */
    p.pid = got_pid;
    p.epoch = got_epoch;
    implicit(&p, "t", 0);
    wrote();
    ok(!kc_txn_prepared_take(&w.kc), "nothing to be driven");
    is(init_as(5, "x", p.pid, 3), KF_ERR_PRODUCER_FENCED,
       "a zombie does not end it");
    is_str(wrote(), "", "nothing has changed");
    is(init_as(5, "x", p.pid + 1, 5), KF_ERR_PRODUCER_FENCED, "nor another");
    is(init_as(5, "x", p.pid, 5), KF_ERR_CONCURRENT_TRANSACTIONS,
       "its producer does");
    is_str(wrote(), "TransactionEnd", "which is a decision");
    ok(kc_txn_prepared_take(&w.kc), "to be driven");
    ok(!kc_txn_prepared_take(&w.kc), "as is said once");
    is(init_as(5, "x", p.pid, 5), KF_ERR_CONCURRENT_TRANSACTIONS, "until then");
    is(init_as(5, "x", p.pid + 1, 5), KF_ERR_PRODUCER_FENCED,
       "but others are fenced at once");
    is(drive(), 1, "driven");
    is(work.step, KC_TXN_DONE, "to its end");
    is(init_as(5, "x", p.pid, 5), 0, "then it has");
    is(got_epoch, 6, "the epoch of the abort");
    p.epoch = 6;
    add(&p, "t", 0);
    is(init_as(5, "x", -1, -1), KF_ERR_CONCURRENT_TRANSACTIONS, "a new one");
    drive();
    is(init_as(5, "x", -1, -1), 0, "comes");
    is(got_epoch, 8, "one above the abort");

    for (v = 0; v <= 5; v++) {
        is(add_as((int16_t) (v > 3 ? 3 : v), &p, "t", 0),
           v < 2 ? KF_ERR_INVALID_PRODUCER_EPOCH : KF_ERR_PRODUCER_FENCED,
           "AddPartitionsToTxn of the old one");
        is(add_offsets((int16_t) (v > 4 ? 4 : v), &p, "g"),
           v < 2 ? KF_ERR_INVALID_PRODUCER_EPOCH : KF_ERR_PRODUCER_FENCED,
           "AddOffsetsToTxn");
        is(prepare((int16_t) v, &p, true),
           v < 2 ? KF_ERR_INVALID_PRODUCER_EPOCH : KF_ERR_PRODUCER_FENCED,
           "EndTxn");
        is(stage_as((int16_t) v, &p, "g", -1, "", NULL, "t", 0, 1, ""),
           KF_ERR_INVALID_PRODUCER_EPOCH, "TxnOffsetCommit");
    }

    is(implicit(&p, "t", 0), KF_ERR_INVALID_PRODUCER_EPOCH, "Produce 12");
    is(verify(11, &p, "t", 0), KF_ERR_INVALID_PRODUCER_EPOCH, "Produce 11");
    txn_check("fences");
    world_end(&w);
}


/* The last epochs of a producer id, reached by counting. */
static void
test_exhausted(void)
{
    int         i;
    producer_t  p, old;
    const int   last = 32766;

    txn_start();
    p = producer("x");

    for (i = 0; i < last; i++) {
        if (w.count > BATCHES - 100) {
            while (w.count > seen_batches) {
                free(w.batches[--w.count]);     /* only their effect counts */
            }
        }

        init_as(5, "x", -1, -1);
    }

    is(got_epoch, last, "the last epoch that a producer has");
    is(got_pid, p.pid, "with its id");
    p.epoch = got_epoch;
    is(init_as(5, "x", p.pid, p.epoch), 0, "then");
    ok(got_pid != p.pid, "it has another id");
    is(got_epoch, 0, "from 0 on");
    old = p;
    p.pid = got_pid;
    is(init_as(5, "x", old.pid, old.epoch), 0, "once more");
    is(got_pid, p.pid, "the same id");
    is(got_epoch, 0, "and epoch");
    is(init_as(5, "x", old.pid, old.epoch - 1), KF_ERR_PRODUCER_FENCED,
       "not from an epoch before");
    is(init_as(5, "x", p.pid, 0), 0, "it goes on");
    is(got_epoch, 1, "by ones");
    is(init_as(5, "x", old.pid, old.epoch), KF_ERR_PRODUCER_FENCED,
       "the old id is fenced");

    /* by transactions */
    p.epoch = 1;

    for (i = p.epoch; i < last; i++) {
        if (w.count > BATCHES - 100) {
            while (w.count > seen_batches) {
                free(w.batches[--w.count]);
            }
        }

        finish(5, &p, false);
    }

    is(p.epoch, last, "an abort of nothing takes an epoch, too");
    implicit(&p, "t", 0);
    is(prepare(5, &p, true), 0, "the last transaction");
    is(work.epoch, 32767, "its markers have the very last epoch");
    is(work.producer_id, p.pid, "of the old id");
    ok(got_pid != p.pid, "the producer gets another one");
    is(got_epoch, 0, "from 0 on");
    old = p;
    p.pid = got_pid;
    p.epoch = 0;
    is(prepare(5, &old, true), KF_ERR_CONCURRENT_TRANSACTIONS, "meanwhile");
    is(implicit(&p, "t", 0), KF_ERR_INVALID_PRODUCER_ID_MAPPING,
       "the new one is not in force yet");
    is(drive(), 1, "driven");
    is(prepare(5, &old, true), 0, "a repetition");
    is(got_pid, p.pid, "gets the new id");
    is(got_epoch, 0, "and epoch");
    is(prepare(5, &old, false), KF_ERR_INVALID_TXN_STATE, "if it is one");
    is(implicit(&p, "t", 0), 0, "the new id has a transaction");
    is(prepare(5, &old, true), KF_ERR_PRODUCER_FENCED, "not the old one's");
    is(finish(5, &p, true), 0, "which ends");
    is(p.epoch, 1, "with the next epoch");
    world_end(&w);
}


static void
test_timeout(void)
{
    producer_t       p, q, r;
    kc_txn_counts_t  n;

    txn_start();
    timeout_ms = 30000;
    p = producer("p");
    timeout_ms = 60000;
    q = producer("q");
    r = producer("r");
    tick();
    implicit(&p, "t", 0);
    is(stage(&p, "g", "t", 0, 5), 0, "staged");
    add(&q, "t", 1);
    tick();
    wrote();
    pass(30000);
    is_str(wrote(), "", "not at the timeout");
    pass(10001);
    is_str(wrote(), "TransactionEnd", "but soon after");
    ok(kc_txn_prepared_take(&w.kc), "to be driven");
    is_str(txn_state("p"), "PrepareAbort 0 1", "with the next epoch");
    is(fetch_stable("g", "t", 0), -1, "what was staged is gone");
    is_str(txn_state("q"), "Ongoing 1 0", "others go on");
    is(drive(), 1, "driven");
    is(prepare(5, &p, true), KF_ERR_INVALID_TXN_STATE, "a commit is too late");
    is(prepare(5, &p, false), 0, "an abort is what happened");
    is(got_epoch, 1, "with the new epoch");
    is(prepare(4, &p, false), KF_ERR_PRODUCER_FENCED, "fenced in version 4");
    is(init_as(5, "p", p.pid, 0), 0, "it goes on");
    is(got_epoch, 1, "without another epoch");
    pass(40000);
    is_str(txn_state("q"), "PrepareAbort 1 1", "later the other one, too");
    drive();
    pass(3600000);
    is_str(txn_state("r"), "Empty 2 0", "an idle id stays");

    kc_txn_counts(&w.kc, &n);
    is(n.ids, 3, "three ids");
    is(n.ongoing, 0, "none under way");
    is(n.prepared, 0, "or decided");
    is(n.aborted, 2, "two aborted");
    is(n.timed_out, 2, "by their timeouts");
    is(n.committed, 0, "none committed");
    is(n.fenced, 1, "one fenced");

    /* a restart does not prolong it, nor does a clock that begins anew */
    implicit(&r, "t", 3);
    later(61000);
    restart();
    tick();
    is_str(txn_state("r"), "PrepareAbort 2 1", "over while it was down");
    drive();
    txn_check("timeouts");

    /* expiry */
    wrote();
    later(604800000LL - 3600001);
    q = producer("q");
    drive();
    wrote();
    tick();
    is_str(wrote(), "DeleteTransaction", "an id expires");
    is(describe_txn("p").error_code, KF_ERR_TRANSACTIONAL_ID_NOT_FOUND,
       "this one");
    is(prepare(5, &p, false), KF_ERR_INVALID_PRODUCER_ID_MAPPING,
       "which is unknown");
    implicit(&q, "t", 0);
    wrote();
    later(3600001);
    tick();
    ok(strstr(wrote(), "DeleteTransaction") != NULL, "an hour later another");
    is(describe_txn("r").error_code, KF_ERR_TRANSACTIONAL_ID_NOT_FOUND,
       "that one");
    ok(describe_txn("q").error_code == 0, "not the one that is used");
    txn_check("expiry");
    world_end(&w);
}


int
main(void)
{
    test_version_5();
    test_version_4();
    test_end_names();
    test_init();
    test_exhausted();
    test_timeout();

    return done_testing();
}
