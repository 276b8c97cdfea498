/*
 * Transactions in the simulator: producers that read inputs, write an output of
 * each, and commit their offsets with it; zombies of them that do not know;
 * requests that come late or twice; drivers that are slow or die.
 *
 *   T1  exactly once: an input's offset is committed if and only if its output
 *       is, and is in the logs once;
 *   T2  a committed offset that was answered or shown never goes back;
 *   T3  when a commit is answered its partitions have no such transaction open;
 *   T4  a reader that skips aborted transactions, by the list that the log
 *       gives it, sees what the markers say; the last stable offset is where
 *       the first open transaction begins;
 *   T5  no transaction hangs: once all is quiet and timeouts have passed, none
 *       is open.
 *
 * Inputs are numbers: input k of partition p belongs to transactional id p.
 * Version 1 repeats only what its protocol can tell from what comes next: late
 * ends of transactions and offsets are of version 2 (KIP-890).
 */

#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "sim_group.h"
#include "../../coordinator/kc_txn_int.h"

#define TXN_IDS     3
#define APPS        (2 * TXN_IDS)       /* two that share an id */
#define TXN_INPUTS  120                 /* of one id; then it rests */
#define TXN_MOST    3                   /* inputs of one transaction */
#define TXN_GROUP   "txn-group"
#define TXN_IN      "txn-in"
#define TXN_OUT     "txn-out"
#define TXN_LATE    16
#define TXN_LIST    4096                /* batches of one partition */
#define TXN_TIMEOUT 12000

static const char *const  txn_ids[TXN_IDS] = { "x0", "x1", "x2" };


typedef enum {
    DEAD = 0,
    INIT,                               /* asks for a producer id */
    OFFSET,                             /* where to go on */
    BEGIN,
    ADD,                                /* a partition, explicitly */
    WRITE,                              /* one output */
    ACK,
    GROUP,                              /* AddOffsetsToTxn */
    STAGE,                              /* TxnOffsetCommit */
    END,
    DRIVE
} app_stage_t;

/* Somebody drives a decided transaction. */
typedef struct {
    bool       used;
    worker_t  *wk;
    int        id;
    int64_t    pid;
    int16_t    epoch;
    bool       commit;
    int64_t    prepared;
    bool       early;                   /* COMPLETE_EARLY has had its turn */
    int        n;
    int        at;
    int        phase;
    struct {
        int32_t   partition;
        int32_t   slot;
        uint64_t  inc;
        int64_t   next;
    } parts[TOPIC_PARTS];
} job_t;

/* Where an output goes. */
typedef struct {
    int        topic;
    int32_t    partition;
    int32_t    slot;
    uint64_t   inc;
    int32_t    leader_epoch;
} place_t;

typedef struct {
    int          id;
    int          version;               /* of transactions */
    int64_t      pid;
    int16_t      epoch;
    int32_t      partition;             /* of the output */
    int32_t      seq;
    uint64_t     record;
    int64_t      offset;                /* to be committed */
    bool         commits;
} txn_request_t;

typedef struct {
    app_stage_t    stage;
    txn_request_t  r;                   /* the last request, or the next */
    bool           asked;               /* decided; its answer waits */
    worker_t      *wk;
    int64_t        wait;
    int16_t        error;
    int64_t        got_pid;
    int16_t        got_epoch;
    int64_t        got_offset;
    bool           named;               /* goes on with its epoch */
    bool           all;                 /* acks=all */
    int64_t        position;
    int            n;
    int            done;
    int32_t        seqs[TOPIC_PARTS];
    bool           added[TOPIC_PARTS];
    place_t        place;
    int64_t        base;
    int64_t        next;
    kc_txn_work_t  work;
    uint64_t       recoveries;          /* when work was begun */
    job_t          job;
} app_t;

static app_t          apps[APPS];
static job_t          jobs[2];          /* that nobody waits for */
static txn_request_t  late_requests[TXN_LATE];
static app_stage_t    late_stages[TXN_LATE];
static uint32_t       late_requests_n;
static int64_t        txn_shown[TXN_IDS];       /* offsets, T2 */
static uint64_t       txn_commits, txn_fenced;

static const kl_config_t  txn_config = {
    .segment_bytes = 900, .segment_ms = INT64_MAX,
    .segment_index_bytes = 1024, .index_interval_bytes = 128,
    .retention_ms = -1, .retention_bytes = -1,
    .producer_expiration_ms = INT64_MAX, .verify = true,
};

static kc_config_entry_t  txn_configs[1];


/* --- requests ------------------------------------------------------------- */

static const kl_config_t *
txn_log_config(void)
{
    return w.broken == BREAK_NO_VERIFY ? &topic_config : &txn_config;
}


/* A broker that does not look at epochs takes every request for a valid one. */
static void
fence(worker_t *wk, txn_request_t *r)
{
    kc_txn_t  *t;

    if (w.broken == BREAK_NO_FENCE) {
        t = kc_txn_find(&wk->kc, kc_cstr(txn_ids[r->id]));

        if (t) {
            r->pid = t->pid;
            r->epoch = t->epoch;
        }
    }
}


static bool
find_place(worker_t *wk, int32_t partition, place_t *p)
{
    const kc_topic_t  *t = kc_topic_by_name(&wk->kc, kf_str(TXN_OUT));

    if (t == NULL) {
        return false;
    }

    *p = (place_t) { model_topic(t->id), partition, t->slots[partition],
                     incarnation(t->slots[partition]),
                     kc_leader_epoch(&wk->kc) };

    return true;
}


/* The topics of all of this; they are never deleted. */
static bool
topics_made(worker_t *wk)
{
    int                                i;
    kc_call_t                          c = call_make();
    kf_create_topics_request_t         req;
    kf_create_topics_response_t        rsp;
    kf_create_topics_request_topics_t  t;

    static const char *const  made[] = { TXN_IN, TXN_OUT };

    for (i = 0; i < 2; i++) {
        if (kc_topic_by_name(&wk->kc, kc_cstr(made[i]))) {
            continue;
        }

        memset(&req, 0, sizeof(req));
        memset(&t, 0, sizeof(t));
        t.name = kc_cstr(made[i]);
        t.num_partitions = TOPIC_PARTS;
        t.replication_factor = 1;
        req.topics = &t;
        req.topics_n = 1;
        snprintf(creating_name, sizeof(creating_name), "%s", made[i]);
        creating_caching = false;

        if (kc_create_topics(&wk->kc, &c, &req, &rsp) != KC_OK
            || rsp.topics[0].error_code)
        {
            return false;
        }
    }

    return true;
}


static int16_t
ask_init(worker_t *wk, app_t *a, kc_call_t *c)
{
    kf_init_producer_id_request_t   req;
    kf_init_producer_id_response_t  rsp;

    kf_init_init_producer_id_request(&req);
    req.transactional_id = kc_cstr(txn_ids[a->r.id]);
    req.transaction_timeout_ms = TXN_TIMEOUT;

    if (a->named) {
        req.producer_id = a->r.pid;
        req.producer_epoch = a->r.epoch;
    }

    if (kc_txn_init(&wk->kc, c, 5, &req, &rsp) != KC_OK) {
        return -2;
    }

    a->got_pid = rsp.producer_id;
    a->got_epoch = rsp.producer_epoch;

    return rsp.error_code;
}


static int16_t
ask_offset(worker_t *wk, int id, kc_call_t *c, bool stable, int64_t *offset)
{
    int32_t                           partition = id;
    kf_offset_fetch_request_t         req;
    kf_offset_fetch_response_t        rsp;
    kf_offset_fetch_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = kf_str(TXN_IN);
    t.partition_indexes = &partition;
    t.partition_indexes_n = 1;
    req.group_id = kf_str(TXN_GROUP);
    req.topics = &t;
    req.topics_n = 1;
    req.require_stable = stable;

    if (kc_offset_fetch(&wk->kc, c, 7, &req, &rsp) != KC_OK) {
        return -2;
    }

    *offset = rsp.topics[0].partitions[0].committed_offset;

    return rsp.topics[0].partitions[0].error_code;
}


/* A partition becomes part of the transaction, or is found to be. */
static int16_t
ask_add(worker_t *wk, txn_request_t r, kc_call_t *c, bool verify,
    place_t *place)
{
    kc_rc_t        rc;
    kc_txn_part_t  part;

    memset(&part, 0, sizeof(part));

    if (!find_place(wk, r.partition, place)) {
        return -2;
    }

    fence(wk, &r);
    part.topic_id = mtopics[place->topic].id;
    part.partition = r.partition;

    if (verify) {
        rc = kc_txn_verify(&wk->kc, c, 11, kc_cstr(txn_ids[r.id]), r.pid,
                           r.epoch, &part, 1);

    } else if (r.version >= 2) {
        rc = kc_txn_add(&wk->kc, c, kc_cstr(txn_ids[r.id]), r.pid, r.epoch,
                        &part, 1);

    } else {
        kf_add_partitions_to_txn_request_t                      req;
        kf_add_partitions_to_txn_response_t                     rsp;
        kf_add_partitions_to_txn_request_v3_and_below_topics_t  t;

        memset(&req, 0, sizeof(req));
        t = (kf_add_partitions_to_txn_request_v3_and_below_topics_t) {
            kf_str(TXN_OUT), &r.partition, 1
        };
        req.v3_and_below_transactional_id = kc_cstr(txn_ids[r.id]);
        req.v3_and_below_producer_id = r.pid;
        req.v3_and_below_producer_epoch = r.epoch;
        req.v3_and_below_topics = &t;
        req.v3_and_below_topics_n = 1;
        rc = kc_add_partitions_to_txn(&wk->kc, c, 3, &req, &rsp);

        if (rc == KC_OK) {
            part.error = rsp.results_by_topic_v3_and_below[0]
                         .results_by_partition[0].partition_error_code;
        }
    }

    return rc == KC_OK ? part.error : -2;
}


static int16_t
ask_group(worker_t *wk, txn_request_t r, kc_call_t *c)
{
    kf_add_offsets_to_txn_request_t   req;
    kf_add_offsets_to_txn_response_t  rsp;

    fence(wk, &r);
    req = (kf_add_offsets_to_txn_request_t) {
        kc_cstr(txn_ids[r.id]), r.pid, r.epoch, kf_str(TXN_GROUP)
    };

    return kc_add_offsets_to_txn(&wk->kc, c, 3, &req, &rsp) == KC_OK
           ? rsp.error_code : -2;
}


static int16_t
ask_stage(worker_t *wk, txn_request_t r, kc_call_t *c)
{
    kf_txn_offset_commit_request_t             req;
    kf_txn_offset_commit_response_t            rsp;
    kf_txn_offset_commit_request_topics_t      t;
    kf_txn_offset_commit_request_partitions_t  p;

    fence(wk, &r);
    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    memset(&p, 0, sizeof(p));
    p.partition_index = r.id;
    p.committed_offset = r.offset;
    p.committed_metadata = kf_str("");
    t.name = kf_str(TXN_IN);
    t.partitions = &p;
    t.partitions_n = 1;
    req.transactional_id = kc_cstr(txn_ids[r.id]);
    req.group_id = kf_str(TXN_GROUP);
    req.producer_id = r.pid;
    req.producer_epoch = r.epoch;
    req.generation_id_or_member_epoch = -1;
    req.member_id = kf_str("");
    req.group_instance_id = kf_null_str;
    req.topics = &t;
    req.topics_n = 1;

    return kc_txn_offset_commit(&wk->kc, c, r.version >= 2 ? 5 : 3, &req, &rsp)
           == KC_OK ? rsp.topics[0].partitions[0].error_code : -2;
}


static void
job_fill(job_t *j, worker_t *wk, int id, const kc_txn_work_t *work)
{
    uint32_t  i;

    memset(j, 0, sizeof(job_t));
    j->used = true;
    j->wk = wk;
    j->id = id;
    j->pid = work->producer_id;
    j->epoch = work->epoch;
    j->commit = work->commit;
    j->prepared = work->prepared;

    for (i = 0; i < work->parts_n; i++) {
        j->parts[i].partition = work->parts[i].partition;
        j->parts[i].slot = work->parts[i].slot;
        j->parts[i].inc = incarnation(work->parts[i].slot);
    }

    j->n = (int) work->parts_n;
}


static int16_t
ask_end(worker_t *wk, txn_request_t r, kc_call_t *c, kc_txn_work_t *work,
    app_t *a)
{
    kf_end_txn_request_t   req;
    kf_end_txn_response_t  rsp;

    fence(wk, &r);
    req = (kf_end_txn_request_t) {
        kc_cstr(txn_ids[r.id]), r.pid, r.epoch, r.commits
    };

    if (kc_end_txn(&wk->kc, c, r.version >= 2 ? 5 : 4, &req, work, &rsp)
        != KC_OK)
    {
        return -2;
    }

    if (a) {
        a->got_pid = rsp.producer_id;
        a->got_epoch = rsp.producer_epoch;
    }

    return rsp.error_code;
}


/* What the stage asks of the coordinator. */
static void
app_section(worker_t *wk, void *arg)
{
    app_t      *a = arg;
    kc_call_t   c = call_make();

    if (!topics_made(wk)) {
        return;
    }

    a->wk = wk;

    switch (a->stage) {

    case INIT:
        a->error = ask_init(wk, a, &c);
        break;

    case OFFSET:
        a->error = ask_offset(wk, a->r.id, &c, true, &a->got_offset);
        break;

    case ADD:
        a->error = ask_add(wk, a->r, &c, false, &a->place);
        break;

    case WRITE:
        a->error = ask_add(wk, a->r, &c, a->r.version < 2, &a->place);
        break;

    case GROUP:
        a->error = ask_group(wk, a->r, &c);
        break;

    case STAGE:
        a->error = ask_stage(wk, a->r, &c);
        break;

    case END:
        if (a->recoveries != w.recoveries) {
            memset(&a->work, 0, sizeof(a->work));
            a->recoveries = w.recoveries;
        }

        a->error = ask_end(wk, a->r, &c, &a->work, a);

        if (a->error == 0 && a->work.step != KC_TXN_DONE) {
            job_fill(&a->job, wk, a->r.id, &a->work);
        }

        break;

    default:
        fail("simulator: stage %d asks nothing", a->stage);
    }

    a->asked = a->error != -2;
    a->wait = c.wait;
}


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

    if (kc_txn_complete(&wk->kc, &c, kc_cstr(txn_ids[j->id]), j->pid, j->epoch)
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

        } else {
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


static void
app_fenced(app_t *a)
{
    trace("%s (%lld epoch %d) is fenced", txn_ids[a->r.id],
          (long long) a->r.pid, a->r.epoch);
    txn_fenced++;
    a->stage = DEAD;
}


static void
app_next(app_t *a)
{
    memset(a->added, 0, sizeof(a->added));
    a->done = 0;
    a->stage = BEGIN;
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
        a->stage = OFFSET;
        return;
    }

    if (error) {
        app_fail(a, "a request");
        return;
    }

    switch (a->stage) {

    case OFFSET:
        a->position = a->got_offset < 0 ? 0 : a->got_offset;

        if (a->position < txn_shown[a->r.id]) {
            fail("T2: input %d was committed up to %lld, now %lld", a->r.id,
                 (long long) txn_shown[a->r.id], (long long) a->position);
        }

        txn_shown[a->r.id] = a->position;
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
        rc = kl_producers(worker_log(wk, a->job.parts[i].slot,
                                     a->job.parts[i].inc,
                                     w.slot_topic[a->job.parts[i].slot],
                                     a->job.parts[i].partition),
                          true, &list, &n);

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

        free(list);
    }
}


static void
app_end_answer(app_t *a)
{
    a->asked = false;

    if (a->error == KF_ERR_CONCURRENT_TRANSACTIONS) {
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
        a->stage = OFFSET;
        return;
    }

    txn_commits++;
    a->position += a->n;

    if (a->position > txn_shown[a->r.id]) {
        txn_shown[a->r.id] = a->position;
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
    if (a->all && (slot_flushed(a->place.slot, a->place.inc) < a->next
                   || journal_flushed() < a->wait))
    {
        slot_flush(any_worker(), a->place.slot, a->place.inc,
                   a->place.partition);
        journal_flush(any_worker());
        return;
    }

    if (!a->wk->alive || chance(10)) {
        a->stage = WRITE;               /* the answer is lost */
        a->place.slot = -1;
        return;
    }

    a->seqs[a->r.partition]++;
    a->done++;
    a->stage = BEGIN;
}


static void
app_begin(app_t *a)
{
    if (a->done == 0) {
        if (a->position >= TXN_INPUTS) {
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
    a->r.record = (uint64_t) (a->r.id + 1) << 32
                  | (uint64_t) (a->position + a->done);
    a->place.slot = -1;
    a->stage = a->r.version >= 2 || a->added[a->r.partition] ? WRITE : ADD;
}


static void
app_start(app_t *a)
{
    int  id = (int) (a - apps) % TXN_IDS;

    if (txn_shown[id] >= TXN_INPUTS) {
        return;
    }

    memset(a, 0, sizeof(app_t));
    a->r.id = id;
    a->r.version = 1 + (int) rnd(2);
    a->all = chance(70);
    a->stage = INIT;
    trace("a new %s, version %d", txn_ids[id], a->r.version);
}


static void
app_step(app_t *a)
{
    int        rc;
    worker_t  *wk = any_worker();

    switch (a->stage) {

    case DEAD:
        /* while another has the id it would fence it, and be fenced */
        if (apps[(a - apps + TXN_IDS) % APPS].stage == DEAD ? chance(30)
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
        journal_flush(wk);
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

    /* a new one begins, while another may go on, unaware */
    if (a->stage != DEAD && rnd(400) == 0) {
        app_start(a);
    }

    while (n--) {
        app_step(a);
    }
}


/* --- late requests, and drivers that nobody waits for --------------------- */

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

    for (id = 0; id < TXN_IDS; id++) {
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

        if (kl_producers(log, true, &list, &n) != KL_OK) {
            fail("the producers of %s-%d cannot be listed", TXN_OUT, p);
        }

        for (k = 0; k < n; k++) {
            kl_marker_t  m = { .producer_id = list[k].producer_id,
                               .producer_epoch = list[k].producer_epoch };

            if (kc_txn_reconcile(&wk->kc, &c, mtopics[place.topic].id, p,
                                 m.producer_id, m.producer_epoch, &keep)
                != KC_OK)
            {
                free(list);
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

        free(list);
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


/* --- checks --------------------------------------------------------------- */

typedef struct {
    int64_t   base;
    int64_t   pid;
    uint64_t  record;                   /* 0: a marker */
    bool      commit;                   /* of a marker */
    bool      good;                     /* committed, by its marker */
} entry_t;

static entry_t   entries[TXN_LIST];
static int       entries_n;
static uint32_t  outputs[TXN_IDS][TXN_INPUTS + TXN_MOST];


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
    int           i, id;
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

    for (id = 0; id < TXN_IDS; id++) {

        if (ask_offset(wk, id, &c, false, &offset)) {
            return;                     /* no memory: again */
        }

        offset = offset < 0 ? 0 : offset;

        if (offset < txn_shown[id]) {
            fail("T2: input %d was committed up to %lld, now %lld", id,
                 (long long) txn_shown[id], (long long) offset);
        }

        for (i = 0; i < TXN_INPUTS + TXN_MOST; i++) {
            if (outputs[id][i] != (i < offset)) {
                fail("T1: input %d of %d has %u outputs, and %lld are "
                     "committed", i, id, outputs[id][i], (long long) offset);
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
    txn_configs[0] = (kc_config_entry_t) {
        kf_str("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        kf_str("500")
    };
    w.config.entries = txn_configs;
    w.config.count = 1;
}

#endif
