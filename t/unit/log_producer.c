/*
 * Producer state (KIP-98, KIP-360): sequences, epochs, the window of five, the
 * wrap-around, the pool, expiry, and all of it across restarts.
 */

#include "log_lib.h"

#define PARTS  4
#define PRODS  8

#define DUP    INT16_MIN                /* expected: a duplicate */

static batch_t      x;
static kl_append_t  res;


/* Appends n records of a producer; the error, 0 or DUP. */
static int
put(int64_t pid, int16_t epoch, int32_t seq, int n)
{
    kl_rc_t  rc;

    batch_make(&x, n, 20, 0, 1000 + seq % 1000);
    batch_producer(&x, pid, epoch, seq, 0);

    rc = append(plog, &x, &res);

    if (rc == KL_REFUSED) {
        return res.error;
    }

    return rc != KL_OK ? -1000 - (int) rc : res.duplicate ? DUP : 0;
}


static kl_rc_t
restart(void)
{
    bool  truncated;

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);

    return kl_recover(plog, 0, &config, &truncated);
}


static void
begin(void)
{
    data_make();
    broker_start(PARTS, PRODS);
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static void
test_rules(void)
{
    int      i;
    int64_t  end_before;

    begin();

    is(put(1, 0, 77, 3), 0, "an unknown producer begins at any sequence");
    is(put(1, 0, 80, 1), 0, "goes on");
    is(put(1, 0, 82, 1), 45, "not with a gap");
    is(put(1, 0, 79, 1), 45, "nor inside a batch");

    end_before = offsets(plog).log_end;
    is(put(1, 0, 77, 3), DUP, "a duplicate");
    is(res.base_offset, 0, "answers the original offset");
    is(res.next_offset, 3, "and its end");
    is(res.append_time_ms, 1077, "and its timestamp");
    is(offsets(plog).log_end, end_before, "and is not appended");
    is(put(1, 0, 77, 2), 45, "the same start with another length is none");

    for (i = 81; i < 84; i++) {
        is(put(1, 0, i, 1), 0, "go on");
    }

    is(put(1, 0, 77, 3), DUP, "the fifth of the window");
    is(put(1, 0, 84, 1), 0, "one more");
    is(put(1, 0, 77, 3), 45, "is out of the window then");
    is(put(1, 0, 80, 1), DUP, "the next is in it");
    is(res.base_offset, 3, "with its offset");

    is(put(1, 1, 5, 1), 45, "a new epoch begins at 0");
    is(put(1, 1, 0, 1), 0, "at 0");
    is(put(1, 0, 85, 1), 47, "the old epoch is fenced");
    is(put(1, 0, 84, 1), 47, "also for a duplicate");
    is(put(1, 1, 0, 1), DUP, "the new window");
    is(put(1, 1, 1, 1), 0, "goes on");

    is(put(2, 0, 2147483646, 4), 0, "a batch that straddles the wrap");
    is(put(2, 0, 2147483646, 4), DUP, "again");
    is(put(2, 0, 3, 1), 45, "not 3");
    is(put(2, 0, 2, 1), 0, "next is 2");
    is(put(3, 0, 2147483647, 1), 0, "the last sequence");
    is(put(3, 0, 1, 1), 45, "not 1");
    is(put(3, 0, 0, 1), 0, "then 0");
    is(put(-1, -1, -1, 1), 0, "no producer id: no rule");
    is(put(-1, -1, -1, 1), 0, "ever");

    end();
}


static void
test_restart(int with_checkpoint)
{
    int  i, k, bad = 0;

    begin();

    for (i = 0; i < 8; i++) {
        for (k = 1; k <= 3; k++) {
            bad += put(k, (int16_t) k, i * 2, 2) != 0;
        }

        if (i == with_checkpoint) {
            bad += kl_checkpoint(plog, false) != KL_OK;
        }
    }

    is(put(4, 0, 2147483646, 4), 0, "straddles the wrap");
    is(put(4, 0, 2, 1), 0, "after it");

    if (with_checkpoint == 8) {
        bad += kl_checkpoint(plog, true) != KL_OK;
    }

    is(bad, 0, "all taken");
    is(restart(), KL_OK, "restart");

    for (k = 1; k <= 3; k++) {
        is(put(k, (int16_t) k, 4, 2), 45, "the sixth last");
        is(put(k, (int16_t) k, 6, 2), DUP, "the fifth last");
        is(res.base_offset, 3 * 6 + (k - 1) * 2, "with its offset");
        is(res.append_time_ms, 1006, "and timestamp");
        is(put(k, (int16_t) k, 18, 2), 45, "a gap");
        is(put(k, (int16_t) (k - 1), 16, 2), 47, "the old epoch");
        is(put(k, (int16_t) k, 16, 2), 0, "the next");
    }

    is(put(4, 0, 2147483646, 4), DUP, "the wrapped one");
    is(put(4, 0, 3, 4), 0, "the one after");

    end();
}


/* A log that knows of more producers than there are places for. */
static void
test_pool_recovery(void)
{
    int  i;

    begin();

    for (i = 0; i < 3 * PRODS; i++) {
        batch_make(&x, 1, 10, 0, i % 2 ? 1000 + i : 5000 + i);
        batch_producer(&x, i, 0, 0, i == 5 ? KF_ATTR_TRANSACTIONAL : 0);
        (void) append(plog, &x, &res);
    }

    is(restart(), KL_OK, "a log with too many producers is opened");
    is(last_level, KL_LOG_WARN, "with a warning");
    is(lines_n, 1, "with one");
    is(offsets(plog).first_open_txn, 5, "the open transaction is known");

    /* of those with the earlier timestamps, few can have been spared */
    is(put(5, 0, 5, 1), 45, "its producer stayed");
    is(put(3 * PRODS - 2, 0, 5, 1), 45, "one with a late timestamp stayed");
    is(put(1, 0, 5, 1), 0, "one with an early one is unknown");

    end();
}


static void
test_pool(void)
{
    int          i;
    batch_t      y;
    kl_log_t    *other;
    kl_append_t  r;
    kl_offsets_t o;
    int32_t      slot;

    begin();

    for (i = 0; i < PRODS; i++) {
        batch_make(&x, 1, 10, 0, 1);
        batch_producer(&x, i, 0, 0, i == 0 ? KF_ATTR_TRANSACTIONAL : 0);
        kl_append(plog, x.data, &x.b, &config, 0, 1000 + i, &res);
    }

    is(last_level, 99, "the pool is full, no complaint");
    is(offsets(plog).first_open_txn, 0, "an open transaction");

    is(put(100, 0, 0, 1), 0, "one more producer");
    ok(last_level == KL_LOG_WARN, "a warning");
    lines_n = 0;
    is(put(101, 0, 0, 1), 0, "and another");
    is(lines_n, 0, "no second warning");

    is(put(0, 0, 5, 1), 45, "the transactional one stayed");
    is(put(3, 0, 5, 1), 45, "a younger one stayed");
    is(put(1, 0, 5, 1), 0, "the oldest is unknown");

    slot = kl_bind(shared, topic_id, 1);
    kl_snapshot(kl_part(shared, slot), &o);
    other = kl_log_open(env, slot, o.incarnation, topic_id, kf_str(TOPIC), 1);

    batch_make(&y, 1, 10, 0, 1);
    batch_producer(&y, 7, 0, 0, 0);
    is(append(other, &y, &r), KL_OK, "another partition takes one, too");
    is(put(4, 0, 5, 1), 0, "the oldest of all is unknown");
    is(put(7, 0, 5, 1), 45, "a younger one stayed");

    for (i = 0; i < PRODS; i++) {
        batch_make(&y, 1, 10, 0, 1);
        batch_producer(&y, 200 + i, 0, 0, KF_ATTR_TRANSACTIONAL);
        is(append(other, &y, &r), i < PRODS - 1 ? KL_OK : KL_NO_MEMORY,
           "as long as there is one without a transaction");
    }

    is(offsets(plog).first_open_txn, 0, "ours is open");
    is(put(101, 0, 0, 1), -1000 - KL_NO_MEMORY, "all others are gone");
    batch_make(&y, 1, 10, 0, 1);
    is(append(other, &y, &r), KL_OK, "takes plain batches");

    kl_release(shared, 0);
    batch_make(&y, 1, 10, 0, 1);
    batch_producer(&y, 7, 0, 0, 0);
    is(append(other, &y, &r), KL_OK, "a released partition gives its places");
    is(put(1, 0, 6, 1), -1000 - KL_GONE, "and is gone");

    kl_log_close(other);
    end();
}


static void
test_expiry(void)
{
    uint32_t  removed;

    begin();
    config.producer_expiration_ms = 1000;

    put(1, 0, 0, 1);
    kl_retain(plog, &config, 1000000 + 999, INT64_MAX, &removed);
    is(put(1, 0, 5, 1), 45, "not expired yet");
    kl_retain(plog, &config, 1000000 + 1000, INT64_MAX, &removed);
    is(put(1, 0, 5, 1), 0, "expired: any sequence again");

    is(restart(), KL_OK, "restart");
    kl_retain(plog, &config, 99000000, INT64_MAX, &removed);
    is(put(1, 0, 9, 1), 45, "its time begins anew at a restart");

    config.producer_expiration_ms = 86400 * 1000;
    end();
}


static void
test_transactions(void)
{
    uint8_t     marker[KF_CONTROL_BATCH];
    kf_batch_t  b;

    begin();

    put(1, 0, 0, 1);
    batch_make(&x, 2, 10, 0, 1);
    batch_producer(&x, 2, 0, 0, KF_ATTR_TRANSACTIONAL);
    append(plog, &x, &res);
    batch_make(&x, 2, 10, 0, 1);
    batch_producer(&x, 3, 0, 0, KF_ATTR_TRANSACTIONAL);
    append(plog, &x, &res);
    batch_make(&x, 2, 10, 0, 1);
    batch_producer(&x, 2, 0, 2, KF_ATTR_TRANSACTIONAL);
    append(plog, &x, &res);

    is(offsets(plog).first_open_txn, 1, "the first of two open transactions");

    is(restart(), KL_OK, "restart");
    is(offsets(plog).first_open_txn, 1, "it is still open");
    kl_checkpoint(plog, true);
    is(restart(), KL_OK, "clean restart");
    is(offsets(plog).first_open_txn, 1, "it is still open");

    kf_batch_control(marker, 0, 0, 2, 0, true, 5, 1000);
    kf_batch_header(marker, sizeof(marker), &b);
    is(kl_append(plog, marker, &b, &config, 0, 1000, &res), KL_OK, "a marker");
    is(offsets(plog).first_open_txn, 3, "the other one is the first now");

    batch_make(&x, 1, 10, 0, 1);
    batch_producer(&x, 2, 0, 4, KF_ATTR_TRANSACTIONAL);
    is(append(plog, &x, &res), KL_OK, "the sequence goes on after the marker");

    kf_batch_control(marker, 0, 0, 3, 1, false, 5, 1000);
    kf_batch_header(marker, sizeof(marker), &b);
    is(kl_append(plog, marker, &b, &config, 0, 1000, &res), KL_OK,
       "a marker with a higher epoch");
    is(offsets(plog).first_open_txn, 8, "the next one");
    batch_make(&x, 1, 10, 0, 1);
    batch_producer(&x, 3, 1, 2, 0);
    is(append(plog, &x, &res), KL_REFUSED, "the new epoch begins at 0");
    batch_make(&x, 1, 10, 0, 1);
    batch_producer(&x, 3, 1, 0, 0);
    is(append(plog, &x, &res), KL_OK, "at 0");

    end();
}


static void
test_many(void)
{
    int       i, k, bad = 0;
    uint64_t  r = 7;
    int32_t   next[200] = { 0 };

    data_make();
    broker_start(PARTS, 256);

    for (i = 0; i < 4000; i++) {
        r = r * 6364136223846793005ULL + 1;
        k = (int) (r >> 40) % 200;

        bad += put(k * 1000003LL, 0, next[k], 1) != 0;
        next[k]++;

        if (i % 1000 == 999) {
            bool  truncated;

            if (i % 2000 == 999) {
                kl_checkpoint(plog, false);
            }

            broker_end(PARTS, 256);
            broker_start(PARTS, 256);
            kl_recover(plog, 0, &config, &truncated);
        }
    }

    is(bad, 0, "200 producers interleaved, across restarts");

    for (k = 0; k < 200; k++) {
        bad += put(k * 1000003LL, 0, next[k] + 1, 1) != 45;
    }

    is(bad, 0, "each is known");

    broker_end(PARTS, 256);
    data_remove(data_dir);
}


int
main(void)
{
    test_rules();
    test_restart(-1);
    test_restart(3);
    test_restart(7);
    test_restart(8);
    test_pool();
    test_pool_recovery();
    test_expiry();
    test_transactions();
    test_many();

    return done_testing();
}
