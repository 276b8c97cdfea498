/*
 * What sim_txn.h's producers write to the logs, and drivers of decided
 * transactions: of a producer that waits for its EndTxn, and those that nobody
 * waits for.
 */

#ifndef SIM_TXN_DRIVE_H
#define SIM_TXN_DRIVE_H

#include "sim_txn.h"


/* --- data and markers ----------------------------------------------------- */

static size_t
txn_batch(uint8_t *buf, size_t size, const txn_request_t *r)
{
    int       k;
    size_t    len;
    uint32_t  crc;

    len = batch_make(buf, size, r->pid, r->seq, 1, r->record);

    buf[22] |= KF_ATTR_TRANSACTIONAL;
    buf[51] = (uint8_t) (r->epoch >> 8);
    buf[52] = (uint8_t) r->epoch;

    crc = kf_crc32c(0, buf + 21, len - 21);

    for (k = 0; k < 4; k++) {
        buf[17 + k] = (uint8_t) (crc >> (24 - 8 * k));
    }

    return len;
}


static kl_rc_t
txn_append(worker_t *wk, const place_t *p, const txn_request_t *r,
    kl_append_t *res)
{
    size_t      len;
    kl_rc_t     rc;
    kf_batch_t  b;
    uint8_t     buf[512];

    len = txn_batch(buf, sizeof(buf), r);

    if (kf_batch_header(buf, len, &b) != KF_OK) {
        fail("simulator: a bad batch");
    }

    rc = kl_append(worker_log(wk, p->slot, p->inc, p->topic, p->partition),
                   buf, &b, txn_log_config(), p->leader_epoch, now().wall_ms,
                   res);

    if (rc == KL_OK) {
        model_part(p->topic, p->partition)->dirty = true;
    }

    return rc;
}


static void
complete_section(worker_t *wk, void *arg)
{
    job_t      *j = arg;
    kc_call_t   c = call_make();

    if (kc_txn_complete(&wk->kc, &c, kc_cstr(txn_ids[j->id]), j->pid,
                        j->epoch,
                        w.broken == BREAK_NO_NUMBERS ? INT64_MAX : j->prepared)
        == KC_OK)
    {
        j->phase++;
    }
}


static void
job_mark(job_t *j)
{
    kl_rc_t      rc;
    place_t      p;
    kl_log_t    *log;
    kl_marked_t  res;
    kl_marker_t  m = { .producer_id = j->pid, .producer_epoch = j->epoch,
                       .commit = j->commit,
                       .decided = w.broken == BREAK_NO_NUMBERS ? 0
                                                               : j->prepared };

    p.slot = j->parts[j->at].slot;
    p.topic = w.slot_topic[p.slot];
    log = worker_log(j->wk, p.slot, j->parts[j->at].inc, p.topic,
                     j->parts[j->at].partition);

    rc = kl_append_marker(log, &m, txn_log_config(), w.state->leader_epoch,
                          now().wall_ms, &res);

    if (rc == KL_NO_MEMORY) {
        return;
    }

    if (rc != KL_OK && rc != KL_GONE) {
        fail("a marker answers %d", rc);
    }

    trace("marker %s of %lld epoch %d to %s-%d: %s",
          j->commit ? "commit" : "abort", (long long) j->pid, j->epoch,
          mtopics[p.topic].name, j->parts[j->at].partition,
          res.written ? "written" : "not due");

    model_part(p.topic, j->parts[j->at].partition)->dirty = true;
    j->parts[j->at++].next = res.next_offset;
}


static int64_t
slot_flushed(int32_t slot, uint64_t inc)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(w.shared, slot), &o);

    return o.incarnation == inc ? o.flushed : INT64_MAX;
}


static void
slot_flush(worker_t *wk, int32_t slot, uint64_t inc, int32_t partition)
{
    int      topic = w.slot_topic[slot];
    int64_t  flushed;

    if (kl_flush(worker_log(wk, slot, inc, topic, partition), &flushed)
        == KL_OK)
    {
        disk_synced(part_dir(topic, partition), NULL);
    }
}


/* 1: done, 0: goes on, -1: the worker died. */
static int
job_step(job_t *j)
{
    if (!j->wk->alive) {
        j->used = false;
        return -1;
    }

    w.cut |= !w.calm && rnd(150) == 0;

    if (w.broken == BREAK_COMPLETE_EARLY && !j->early) {
        j->early = true;

        if (section(j->wk, complete_section, j)) {
            j->phase = 0;
        }

        return 0;
    }

    switch (j->phase) {

    case 0:
        if (w.broken == BREAK_NO_PREPARE_FLUSH
            || journal_flushed() >= j->prepared)
        {
            j->phase++;

        } else if (w.calm || chance(w.eager ? 15 : 4)) {
            journal_flush(j->wk);
        }

        return 0;

    case 1:
        if (j->at < j->n) {
            job_mark(j);

        } else {
            j->at = 0;
            j->phase++;
        }

        return 0;

    case 2:
        if (j->at < j->n) {
            if (slot_flushed(j->parts[j->at].slot, j->parts[j->at].inc)
                < j->parts[j->at].next)
            {
                slot_flush(j->wk, j->parts[j->at].slot, j->parts[j->at].inc,
                           j->parts[j->at].partition);
            }

            j->at++;

        } else {
            j->phase++;
        }

        return 0;

    case 3:
        section(j->wk, complete_section, j);
        return 0;

    default:
        j->used = false;
        return 1;
    }
}


/* --- what nobody waits for ------------------------------------------------ */

static void
drive_section(worker_t *wk, void *arg)
{
    int             id;
    job_t          *j = arg;
    uint64_t        after = 0;
    kc_call_t       c = call_make();
    kc_txn_work_t   work;

    do {
        if (kc_txn_next_prepared(&wk->kc, &c, after, &work) != KC_OK
            || work.step != KC_TXN_DRIVE)
        {
            return;
        }

        after = work.serial;

    } while (chance(30));

    for (id = 0; id < TXN_IDS + TXN_READERS; id++) {
        if (kf_str_eq(work.transactional_id, kc_cstr(txn_ids[id]))) {
            job_fill(j, wk, id, &work);
        }
    }
}


static void
txn_drive_step(void)
{
    job_t  *j = &jobs[rnd(2)];

    if (j->used) {
        job_step(j);

    } else {
        section(any_worker(), drive_section, j);
    }
}


/* Somebody waits for what the sweep would drive. */
static void
drive_soon(void)
{
    if (w.eager && chance(15)) {
        txn_drive_step();
    }
}

#endif
