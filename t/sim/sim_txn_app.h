/*
 * Producers of sim_txn.h, step by step; late requests; and what a start has to
 * do.
 */

#ifndef SIM_TXN_APP_H
#define SIM_TXN_APP_H

#include "sim_txn_drive.h"
#include "sim_txn_reader.h"


/* --- producers ------------------------------------------------------------ */

static void
app_fail(app_t *a, const char *what)
{
    trace("%s of %s (%lld epoch %d): %s, error %d", what, txn_ids[a->r.id],
          (long long) a->r.pid, a->r.epoch, "goes on with a new epoch",
          a->error);

    /* what became of it is not known: ask for the offset again */
    a->stage = INIT;
    a->asked = false;
    a->named = true;
}


/* What it did is undone, as by a client that has lost its partitions.  With an
   output of which it knows nothing it needs another epoch to be sure. */
static void
app_abort(app_t *a)
{
    if (a->done == 0 || a->unsure) {
        app_fail(a, "an abort");
        return;
    }

    a->asked = false;
    a->r.commits = false;
    memset(&a->work, 0, sizeof(a->work));
    a->stage = END;
}


static void
app_fenced(app_t *a)
{
    trace("%s (%lld epoch %d) is fenced", txn_ids[a->r.id],
          (long long) a->r.pid, a->r.epoch);
    txn_fenced++;
    a->stage = DEAD;
}


/* The answer has arrived. */
static void
app_answer(app_t *a)
{
    int16_t  error = a->error;

    a->asked = false;

    if (error == KF_ERR_CONCURRENT_TRANSACTIONS
        || error == KF_ERR_NOT_ENOUGH_REPLICAS
        || error == KF_ERR_UNSTABLE_OFFSET_COMMIT)
    {
        drive_soon();
        return;                         /* once more */
    }

    if (a->stage == INIT) {

        if (error) {
            app_fenced(a);
            return;
        }

        a->r.pid = a->got_pid;
        a->r.epoch = a->got_epoch;
        memset(a->seqs, 0, sizeof(a->seqs));
        app_anew(a);
        return;
    }

    if (a->stage == STAGE && reader_refused(a)) {
        app_abort(a);
        return;
    }

    if (error) {
        app_fail(a, "a request");
        return;
    }

    switch (a->stage) {

    case OFFSET:
        a->position = a->got_offset < 0 ? 0 : a->got_offset;

        if (a->position < a->asked_shown) {
            fail("T2: input %d was committed up to %lld, now %lld",
                 a->r.input, (long long) a->asked_shown,
                 (long long) a->position);
        }

        if (a->position > txn_shown[a->r.input]) {
            txn_shown[a->r.input] = a->position;
        }

        app_next(a);
        break;

    case ADD:
        a->added[a->r.partition] = true;
        a->stage = WRITE;
        break;

    case GROUP:
        a->stage = STAGE;
        break;

    case STAGE:
        a->r.commits = chance(80);
        memset(&a->work, 0, sizeof(a->work));
        a->stage = END;
        break;

    default:
        fail("simulator: stage %d has no answer", a->stage);
    }
}


/* Open transactions of a partition, in memory of ours: whoever looks at them
 * may die, or the run end, at the next call. */
static kl_rc_t
open_producers(kl_log_t *log, kl_producer_info_t **list, size_t *n)
{
    kl_rc_t                    rc;
    kl_producer_info_t        *made;
    static kl_producer_info_t  copy[PRODUCERS];

    *n = 0;
    *list = copy;
    rc = kl_producers(log, true, &made, n);

    if (*n) {
        memcpy(copy, made, *n * sizeof(copy[0]));
    }

    free(made);

    return rc;
}


/* T3 */
static void
app_ended(app_t *a)
{
    int                  i;
    size_t               n, k;
    kl_rc_t              rc;
    worker_t            *wk = any_worker();
    kl_producer_info_t  *list;

    for (i = 0; i < a->job.n; i++) {
        rc = open_producers(worker_log(wk, a->job.parts[i].slot,
                                       a->job.parts[i].inc,
                                       w.slot_topic[a->job.parts[i].slot],
                                       a->job.parts[i].partition),
                            &list, &n);

        for (k = 0; rc == KL_OK && k < n; k++) {
            /* another producer of the id may have begun by now */
            if (list[k].producer_id == a->job.pid
                && list[k].producer_epoch
                   <= a->job.epoch - (a->r.version >= 2)
                && w.broken == BREAK_NONE)
            {
                fail("T3: the end of %s is answered, but a transaction of %lld "
                     "is open", txn_ids[a->r.id], (long long) a->job.pid);
            }
        }
    }
}


static void
app_end_answer(app_t *a)
{
    a->asked = false;

    if (a->error == KF_ERR_CONCURRENT_TRANSACTIONS) {
        drive_soon();
        a->stage = END;
        memset(&a->work, 0, sizeof(a->work));
        return;
    }

    if (a->error) {
        app_fail(a, "the end");
        return;
    }

    if (a->r.version >= 2) {
        a->r.pid = a->got_pid;
        a->r.epoch = a->got_epoch;
        memset(a->seqs, 0, sizeof(a->seqs));
    }

    trace("%s: %s of %d from %lld answered", txn_ids[a->r.id],
          a->r.commits ? "commit" : "abort", a->n, (long long) a->position);

    if (!a->r.commits) {
        app_anew(a);
        return;
    }

    txn_commits++;
    txn_read += is_reader(a);
    a->position += a->n;

    if (a->position > txn_shown[a->r.input]) {
        txn_shown[a->r.input] = a->position;
    }

    app_next(a);
}


/* Flushes what takes part, then asks again. */
static void
app_flush(app_t *a, worker_t *wk)
{
    int  i;

    for (i = 0; i < a->job.n && w.broken != BREAK_NO_DATA_FLUSH; i++) {
        slot_flush(wk, a->job.parts[i].slot, a->job.parts[i].inc,
                   a->job.parts[i].partition);
    }

    a->asked = false;
}


static void
late_note(const app_t *a)
{
    if (a->r.version >= 2 || a->stage == WRITE || a->stage == ADD) {
        late_stages[late_requests_n % TXN_LATE] = a->stage;
        late_requests[late_requests_n++ % TXN_LATE] = a->r;
    }
}


static void
app_write(app_t *a, worker_t *wk)
{
    kl_rc_t      rc;
    kl_append_t  res;

    if (a->place.slot < 0) {
        if (section(wk, app_section, a) && a->asked) {
            a->asked = false;

            if (a->error == KF_ERR_CONCURRENT_TRANSACTIONS
                || a->error == KF_ERR_NOT_ENOUGH_REPLICAS)
            {
                a->place.slot = -1;

            } else if (a->error) {
                app_fail(a, "a partition");
            }
        }

        return;
    }

    late_note(a);
    a->unsure = true;
    rc = txn_append(wk, &a->place, &a->r, &res);

    if (rc == KL_GONE || rc == KL_NO_MEMORY) {
        a->place.slot = -1;
        return;
    }

    if (rc == KL_REFUSED) {
        a->place.slot = -1;

        if (!res.unverified) {
            a->error = res.error;
            app_fail(a, "an append");
        }

        return;
    }

    if (rc != KL_OK) {
        fail("a transactional append answers %d", rc);
    }

    trace("%s (%lld epoch %d) writes input %lld to %d at %lld%s",
          txn_ids[a->r.id], (long long) a->r.pid, a->r.epoch,
          (long long) a->position + a->done, a->r.partition,
          (long long) res.base_offset, res.duplicate ? " (a duplicate)" : "");

    a->base = res.base_offset;
    a->next = res.next_offset;
    a->wk = wk;
    a->stage = ACK;
}


static void
app_ack(app_t *a)
{
    /* one after the other: a power cut may come in between */
    if (a->all && slot_flushed(a->place.slot, a->place.inc) < a->next) {
        slot_flush(any_worker(), a->place.slot, a->place.inc,
                   a->place.partition);
        return;
    }

    if (a->all && journal_flushed() < a->wait) {

        if (chance(w.eager ? 15 : 4)) {
            journal_flush(any_worker());

        } else if (chance(5)) {
            w.cut = true;
        }

        return;
    }

    if (!a->wk->alive || chance(10)) {
        a->stage = WRITE;               /* the answer is lost */
        a->place.slot = -1;
        return;
    }

    a->unsure = false;
    a->seqs[a->r.partition]++;
    a->done++;
    a->stage = BEGIN;
}


static void
app_begin(app_t *a)
{
    if (a->done == 0) {
        if (is_reader(a)) {
            if (!reader_poll(a)) {
                return;
            }

        } else if (a->position >= TXN_INPUTS) {
            a->stage = DEAD;
            return;
        }

        a->n = 1 + (int) rnd(TXN_MOST);
    }

    if (a->done == a->n) {
        a->r.offset = a->position + a->n;
        a->stage = a->r.version >= 2 ? STAGE : GROUP;
        return;
    }

    a->r.partition = (int32_t) rnd(TOPIC_PARTS);
    a->r.seq = a->seqs[a->r.partition];
    a->r.record = (uint64_t) (a->r.input + 1) << 32
                  | (uint64_t) (a->position + a->done);
    a->place.slot = -1;
    a->stage = a->r.version >= 2 || a->added[a->r.partition] ? WRITE : ADD;
}


static void
app_start(app_t *a)
{
    int  id = app_id(a);

    if (!is_reader(a) && txn_shown[id] >= TXN_INPUTS) {
        return;
    }

    memset(a, 0, sizeof(app_t));
    a->r.id = id;
    a->r.input = is_reader(a) ? TXN_IDS : id;
    a->r.generation = -1;

    if (is_reader(a)) {
        a->process = reader_member(a)->process;
    }

    a->r.version = 1 + (int) rnd(2);
    a->all = chance(70);
    a->timeout = TXN_TIMEOUT >> rnd(3);
    a->stage = INIT;
    trace("a new %s, version %d", txn_ids[id], a->r.version);
}


static void
app_step(app_t *a)
{
    int        rc;
    worker_t  *wk = any_worker();

    if (reader_pauses(a)) {
        return;
    }

    if (reader_lost(a)) {
        app_abort(a);
    }

    switch (a->stage) {

    case DEAD:
        /* while another has the id it would fence it, and be fenced */
        if (is_reader(a) ? reader_may_start(a)
            : apps[(a - apps + TXN_IDS) % OWNERS].stage == DEAD ? chance(30)
                                                               : chance(1))
        {
            app_start(a);
        }

        return;

    case BEGIN:
        app_begin(a);
        return;

    case WRITE:
        app_write(a, wk);
        return;

    case ACK:
        app_ack(a);
        return;

    case DRIVE:
        rc = job_step(&a->job);

        if (rc == 0) {
            return;
        }

        if (rc < 0 || chance(10)) {
            a->stage = END;             /* no answer: ask again */
            a->asked = false;
            memset(&a->work, 0, sizeof(a->work));
            return;
        }

        app_ended(a);
        app_end_answer(a);
        return;

    default:
        break;
    }

    if (!a->asked) {
        late_note(a);
        section(wk, app_section, a);
        return;
    }

    if (a->stage == END && a->error == 0 && a->work.step != KC_TXN_DONE) {
        a->asked = false;

        if (a->work.step == KC_TXN_FLUSH) {
            app_flush(a, wk);

        } else {
            a->stage = DRIVE;
        }

        return;
    }

    if (journal_flushed() < a->wait) {
        /* seldom: others have to find it unflushed, too */
        if (chance(w.eager ? 15 : 4)) {
            journal_flush(wk);
        }

        return;
    }

    if (!a->wk->alive || chance(8)) {
        a->asked = false;               /* the answer is lost */
        memset(&a->work, 0, sizeof(a->work));
        return;
    }

    if (a->stage == END) {
        a->job.n = 0;
        app_end_answer(a);

    } else {
        app_answer(a);
    }
}


static void
txn_step(void)
{
    int     n = 1 + (int) rnd(12);
    app_t  *a = &apps[rnd(APPS)];

    if (a->stage != DEAD && rnd(400) == 0) {
        if (is_reader(a)) {
            a->stage = DEAD;            /* what it has begun is left behind */

        } else {
            app_start(a);               /* while another goes on, unaware */
        }
    }

    while (n--) {
        app_step(a);
    }
}


/* --- late requests -------------------------------------------------------- */

static void
late_section(worker_t *wk, void *arg)
{
    int            k = *(int *) arg;
    place_t        place;
    kc_call_t      c = call_make();
    kl_append_t    res;
    kc_txn_work_t  work;
    txn_request_t  r = late_requests[k];

    if (!topics_made(wk)) {
        return;
    }

    switch (late_stages[k]) {

    case ADD:
        ask_add(wk, r, &c, false, &place);
        break;

    case STAGE:
        ask_stage(wk, r, &c);
        break;

    case END:
        memset(&work, 0, sizeof(work));
        ask_end(wk, r, &c, &work, NULL);
        break;

    case WRITE:
        /* in one go: the log is asked first, as with any Produce */
        if (!find_place(wk, r.partition, &place)
            || txn_append(wk, &place, &r, &res) != KL_REFUSED
            || !res.unverified
            || ask_add(wk, r, &c, r.version < 2, &place))
        {
            break;
        }

        (void) txn_append(wk, &place, &r, &res);
        break;

    default:
        break;
    }
}


static void
txn_late_step(void)
{
    int  k = (int) rnd(TXN_LATE);

    if (late_requests[k].record || late_stages[k] == END) {
        trace("a late request of %s (%lld epoch %d), stage %d",
              txn_ids[late_requests[k].id], (long long) late_requests[k].pid,
              late_requests[k].epoch, late_stages[k]);
        section(any_worker(), late_section, &k);
    }
}


/* --- after a start -------------------------------------------------------- */

static void
reconcile_section(worker_t *wk, void *arg)
{
    bool                 keep;
    size_t               n, k;
    int32_t              p;
    place_t              place;
    kl_log_t            *log;
    kc_call_t            c = call_make();
    kl_marked_t          res;
    kl_producer_info_t  *list;

    for (p = 0; p < TOPIC_PARTS; p++) {

        if (!find_place(wk, p, &place)) {
            break;
        }

        log = worker_log(wk, place.slot, place.inc, place.topic, p);

        if (open_producers(log, &list, &n) != KL_OK) {
            fail("the producers of %s-%d cannot be listed", TXN_OUT, p);
        }

        for (k = 0; k < n; k++) {
            kl_marker_t  m = { .producer_id = list[k].producer_id,
                               .producer_epoch = list[k].producer_epoch
                                        + (w.broken != BREAK_SAME_MARKER) };

            if (kc_txn_reconcile(&wk->kc, &c, mtopics[place.topic].id, p,
                                 m.producer_id, list[k].producer_epoch, &keep)
                != KC_OK)
            {
                return;                 /* again */
            }

            if (!keep && kl_append_marker(log, &m, txn_log_config(),
                                          place.leader_epoch, now().wall_ms,
                                          &res) != KL_OK)
            {
                fail("an open transaction cannot be aborted");
            }

            trace("%s-%d: the transaction of %lld epoch %d is %s", TXN_OUT, p,
                  (long long) m.producer_id, m.producer_epoch,
                  keep ? "kept" : "aborted");
            model_part(place.topic, p)->dirty = true;
        }
    }

    *(bool *) arg = true;
}


static void
txns_reconcile(void)
{
    bool      done = false;
    uint32_t  fails = w.alloc_fails;

    if (w.broken == BREAK_NO_RECONCILE) {
        return;
    }

    w.alloc_fails = 0;

    while (!done) {
        section(any_worker(), reconcile_section, &done);
    }

    w.alloc_fails = fails;
}


/* Which steps of EndTxn a power cut falls into. */
static void
txns_note_cut(void)
{
    int           i, at;
    const app_t  *a;

    for (i = 0; i < APPS; i++) {
        a = &apps[i];
        at = -1;

        if (a->stage == END && a->work.step == KC_TXN_FLUSH) {
            at = 0;

        } else if (a->stage == DRIVE) {
            at = a->job.phase + 1 + (a->job.phase > 1 || a->job.at > 0);

            if (a->job.phase == 0 && journal_flushed() >= a->job.prepared) {
                at = 2;
            }
        }

        if (at >= 0) {
            end_cuts[at]++;
        }
    }
}


/* Requests under way are lost; late ones, too: connections are gone. */
static void
txns_disconnect(void)
{
    int  i;

    for (i = 0; i < APPS; i++) {
        apps[i].asked = false;
        apps[i].place.slot = -1;
        memset(&apps[i].work, 0, sizeof(kc_txn_work_t));

        /* acks=1 is no promise: what was written may be lost */
        if (!apps[i].all && apps[i].stage > OFFSET) {
            app_fail(&apps[i], "a connection");
        }

        if (apps[i].stage == DRIVE) {
            apps[i].stage = END;

        } else if (apps[i].stage == ACK) {
            apps[i].stage = WRITE;
        }
    }

    memset(jobs, 0, sizeof(jobs));
    txns_reconcile();
}


static void
txns_reset(void)
{
    memset(apps, 0, sizeof(apps));
    memset(jobs, 0, sizeof(jobs));
    memset(late_requests, 0, sizeof(late_requests));
    memset(late_stages, 0, sizeof(late_stages));
    memset(txn_shown, 0, sizeof(txn_shown));
    late_requests_n = 0;
    txn_commits = 0;
    txn_fenced = 0;
    txn_read = 0;
    txn_lost = 0;
    txn_configs[0] = (kc_config_entry_t) {
        kf_str("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        kf_str("500")
    };
    w.config.entries = txn_configs;
    w.config.count = 1;
}

#endif
