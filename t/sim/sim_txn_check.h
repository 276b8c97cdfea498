/*
 * The checks of transactions, T1 to T5 of sim_txn.h: the logs are read as a
 * consumer would, and compared with the offsets that are committed.
 */

#ifndef SIM_TXN_CHECK_H
#define SIM_TXN_CHECK_H

#include "sim_txn_app.h"


typedef struct {
    int64_t   base;
    int64_t   pid;
    uint64_t  record;                   /* 0: a marker */
    bool      commit;                   /* of a marker */
    bool      good;                     /* committed, by its marker */
} entry_t;

static entry_t   entries[TXN_LIST];
static int       entries_n;
static uint32_t  outputs[INPUTS][TXN_INPUTS + TXN_MOST];


static void
scan_batches(const uint8_t *buf, size_t len)
{
    int             k;
    entry_t        *e;
    kf_batch_t      b;
    kf_record_t     r;
    const uint8_t  *pos, *end = buf + len;

    for ( ; buf < end; buf += b.size) {

        if (kf_batch_header(buf, (size_t) (end - buf), &b) != KF_OK
            || entries_n == TXN_LIST)
        {
            fail("simulator: a bad batch, or too many");
        }

        pos = buf + KF_BATCH_HEADER;

        if (kf_record_next(&pos, buf + b.size, &r) != KF_OK) {
            fail("a read gives a bad record");
        }

        e = &entries[entries_n++];
        *e = (entry_t) { .base = b.base_offset, .pid = b.producer_id };

        if (b.attributes & KF_ATTR_CONTROL) {
            e->commit = r.key.data[3] == 1;

            for (k = entries_n - 2; k >= 0; k--) {
                if (entries[k].pid == e->pid && entries[k].record == 0) {
                    break;
                }

                if (entries[k].pid == e->pid) {
                    entries[k].good = e->commit;
                }
            }

        } else {
            e->record = record_id(&r);
        }
    }
}


static void
scan_log(kl_log_t *log, int64_t upto)
{
    int64_t         at = 0;
    kl_slice_t      s;
    static uint8_t  buf[65536];

    entries_n = 0;

    while (at < upto) {
        if (kl_read(log, at, upto, sizeof(buf), true, &s) != KL_OK
            || s.len == 0
            || pread(s.fd, buf, s.len, s.pos) != (ssize_t) s.len)
        {
            fail("%s cannot be read at %lld of %lld", TXN_OUT, (long long) at,
                 (long long) upto);
        }

        at = s.next_offset;
        kl_file_unref(s.file);
        scan_batches(buf, s.len);
    }
}


/* Is there a marker of this producer behind? */
static bool
entry_open(int i)
{
    int  k;

    for (k = i + 1; k < entries_n; k++) {
        if (entries[k].pid == entries[i].pid && entries[k].record == 0) {
            return false;
        }
    }

    return true;
}


/* T4: a consumer of committed data, with the aborted ones as it gets them. */
static void
check_reader(kl_log_t *log, int64_t stable)
{
    int           i;
    size_t        n, k;
    bool          skip;
    kl_aborted_t  list[1024];

    if (kl_aborted(log, 0, stable, list, 1024, &n) != KL_OK || n > 1024) {
        fail("no list of aborted transactions");
    }

    for (i = 0; i < entries_n; i++) {

        if (entries[i].base >= stable) {
            continue;
        }

        skip = false;

        for (k = 0; k < n; k++) {
            if (list[k].producer_id != entries[i].pid
                || list[k].first_offset > entries[i].base)
            {
                continue;
            }

            if (entries[i].record == 0) {
                if (!entries[i].commit) {
                    list[k].producer_id = -1;       /* this one is over */
                    break;
                }

            } else {
                skip = true;
            }
        }

        if (entries[i].record && skip == entries[i].good) {
            fail("T4: a reader %s input %lld of %lld at %lld",
                 skip ? "misses" : "sees",
                 (long long) (entries[i].record & 0xffffffff),
                 (long long) (entries[i].record >> 32) - 1,
                 (long long) entries[i].base);
        }
    }
}


static void
count_outputs(worker_t *wk)
{
    int           i;
    int64_t       k;
    const kc_txn_t  *t;

    for (i = 0; i < entries_n; i++) {

        if (entries[i].record == 0) {
            continue;
        }

        t = kc_txn_by_pid(&wk->kc, entries[i].pid);

        /* decided, but its marker is still to come */
        if (entries[i].good
            || (t && t->state == KC_TXN_PREPARE_COMMIT && entry_open(i)))
        {
            k = (int64_t) (entries[i].record & 0xffffffff);
            outputs[(entries[i].record >> 32) - 1][k]++;
        }
    }
}


static void
check_txn_section(worker_t *wk, void *arg)
{
    int           i, input;
    int32_t       p;
    int64_t       offset, first;
    place_t       place;
    kl_log_t     *log;
    kc_call_t     c = call_make();
    kl_offsets_t  o;

    memset(outputs, 0, sizeof(outputs));

    for (p = 0; p < TOPIC_PARTS; p++) {

        if (!find_place(wk, p, &place)) {
            *(bool *) arg = true;
            return;
        }

        log = worker_log(wk, place.slot, place.inc, place.topic, p);
        kl_snapshot(kl_part(w.shared, place.slot), &o);

        if (o.state != KL_OPEN) {
            continue;
        }

        scan_log(log, o.log_end);
        first = INT64_MAX;

        for (i = entries_n - 1; i >= 0; i--) {
            if (entries[i].record && entry_open(i)) {
                first = entries[i].base;
            }
        }

        if (first != o.first_open_txn) {
            fail("T4: %s-%d has its first open transaction at %lld, and says "
                 "%lld", TXN_OUT, p, (long long) first,
                 (long long) o.first_open_txn);
        }

        check_reader(log, first < o.log_end ? first : o.log_end);
        count_outputs(wk);
    }

    for (input = 0; input < INPUTS; input++) {

        if (ask_offset(wk, input, &c, false, &offset)) {
            return;                     /* no memory: again */
        }

        offset = offset < 0 ? 0 : offset;

        if (offset < txn_shown[input]) {
            fail("T2: input %d was committed up to %lld, now %lld", input,
                 (long long) txn_shown[input], (long long) offset);
        }

        for (i = 0; i < TXN_INPUTS + TXN_MOST; i++) {
            if (outputs[input][i] != (i < offset)) {
                fail("T1: input %d of %d has %u outputs, and %lld are "
                     "committed", i, input, outputs[input][i],
                     (long long) offset);
            }
        }
    }

    *(bool *) arg = true;
}


static void
check_txns(void)
{
    bool  done = false;

    while (!done) {
        section(any_worker(), check_txn_section, &done);
    }
}


/* The end: whoever is under way stops, and nothing stays open.  T5 */
static void
txns_settle(void)
{
    int                i, k, idle = 0;
    kl_offsets_t       o;
    const kc_topic_t  *t;

    w.calm = true;
    w.alloc_fails = 0;

    for (i = 0; i < APPS; i++) {
        apps[i].stage = DEAD;
    }

    w.now_ms += TXN_TIMEOUT + 1000;

    for (i = 0; i < 2000 && idle < 50; i++) {
        w.now_ms += 50;
        tick_step();

        for (k = 0; k < 8; k++) {
            txn_drive_step();
        }

        idle = w.state->txns.ongoing.count || w.state->txns.prepared.count
               || jobs[0].used || jobs[1].used ? 0 : idle + 1;
    }

    if (idle == 0) {
        fail("T5: %u transactions are under way and %u to be driven at last",
             w.state->txns.ongoing.count, w.state->txns.prepared.count);
    }

    check_txns();
    kc_attach(&any_worker()->kc, w.state);
    t = kc_topic_by_name(&any_worker()->kc, kf_str(TXN_OUT));

    for (i = 0; t && i < TOPIC_PARTS; i++) {
        kl_snapshot(kl_part(w.shared, t->slots[i]), &o);

        if (o.state == KL_OPEN && o.first_open_txn != INT64_MAX) {
            fail("T5: %s-%d has a transaction that hangs at %lld", TXN_OUT, i,
                 (long long) o.first_open_txn);
        }
    }

    w.calm = false;
}

#endif
