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
 * Inputs are numbers, in partitions.  Some belong to a transactional id each,
 * whose epoch fences zombies; others are given out by a group, whose generation
 * does (KIP-447, sim_txn_reader.h).
 *
 * Version 1 repeats only what its protocol can tell from what comes next: late
 * ends of transactions and offsets are of version 2 (KIP-890).
 */

#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "sim_group_step.h"
#include "../../coordinator/kc_txn_int.h"

#define TXN_IDS     3
#define OWNERS      (2 * TXN_IDS)       /* two that share an id */
#define TXN_READERS (2 * (MEMBERS - READERS))   /* two for each member */
#define APPS        (OWNERS + TXN_READERS)
#define INPUTS      (TXN_IDS + TOPIC_PARTS)     /* partitions of inputs */
#define TXN_INPUTS  120                 /* of one of them; then it is at rest */
#define TXN_MOST    3                   /* inputs of one transaction */
#define TXN_GROUP   "txn-group"
#define TXN_IN      "txn-in"
#define TXN_OUT     "txn-out"
#define TXN_LATE    16
#define TXN_LIST    4096                /* batches of one partition */
#define TXN_TIMEOUT 12000               /* the longest */

static const char *const  txn_ids[TXN_IDS + TXN_READERS] = {
    "x0", "x1", "x2", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"
};


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

/* Where an EndTxn stands. */
#define END_STEPS  7

static const char *const  end_steps[END_STEPS] = {
    "data is flushed", "decided", "the decision is durable",
    "some markers are written", "markers are flushed", "all is marked",
    "complete, not answered"
};

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
    int          input;                 /* a partition of inputs */
    int32_t      generation;            /* who commits for the group; -1 */
    char         member_id[ID];
    kf_str_t     instance_id;
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
    int64_t        asked_shown;         /* what was shown when it asked */
    bool           named;               /* goes on with its epoch */
    bool           all;                 /* acks=all */
    int32_t        timeout;
    int64_t        position;
    int            n;
    int            done;
    bool           unsure;              /* an output was sent, not answered */
    int32_t        seqs[TOPIC_PARTS];
    bool           added[TOPIC_PARTS];
    place_t        place;
    int64_t        base;
    int64_t        next;
    kc_txn_work_t  work;
    uint64_t       recoveries;          /* when work was begun */
    job_t          job;
    uint32_t       process;             /* of its member, when it began */
    int64_t        paused_to;           /* time */
} app_t;

static app_t          apps[APPS];
static job_t          jobs[2];          /* that nobody waits for */
static txn_request_t  late_requests[TXN_LATE];
static app_stage_t    late_stages[TXN_LATE];
static uint32_t       late_requests_n;
static int64_t        txn_shown[INPUTS];        /* offsets, T2 */
static uint64_t       end_cuts[END_STEPS];      /* power cuts, of all runs */
static uint64_t       txn_commits, txn_fenced, txn_read, txn_lost;

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


/* … and one that does not look at generations, or at members. */
static void
fence_group(worker_t *wk, txn_request_t *r)
{
    kc_group_t  *g = kc_group_find(&wk->kc,
                                   text_str(mgroups[READ_GROUP].name));

    if (r->generation >= 0
        && (w.broken == BREAK_NO_GROUP_FENCE
            || (w.broken == BREAK_NO_MEMBER_FENCE && g
                && g->generation == r->generation)))
    {
        r->generation = -1;
        r->member_id[0] = '\0';
        r->instance_id = (kf_str_t) kf_null_str;
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
    req.transaction_timeout_ms = a->timeout;

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


/* The group that an input's offsets are of, and the partition. */
static kf_str_t
input_group(int input, int32_t *partition)
{
    *partition = input % TXN_IDS;

    return input < TXN_IDS ? kf_str(TXN_GROUP)
                           : text_str(mgroups[READ_GROUP].name);
}


static int16_t
ask_offset(worker_t *wk, int input, kc_call_t *c, bool stable, int64_t *offset)
{
    int32_t                           partition;
    kf_offset_fetch_request_t         req;
    kf_offset_fetch_response_t        rsp;
    kf_offset_fetch_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = kf_str(TXN_IN);
    t.partition_indexes = &partition;
    t.partition_indexes_n = 1;
    req.group_id = input_group(input, &partition);
    req.topics = &t;
    req.topics_n = 1;
    req.require_stable = stable && w.broken != BREAK_NOT_STABLE;

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
    int32_t                           partition;
    kf_add_offsets_to_txn_request_t   req;
    kf_add_offsets_to_txn_response_t  rsp;

    fence(wk, &r);
    req = (kf_add_offsets_to_txn_request_t) {
        kc_cstr(txn_ids[r.id]), r.pid, r.epoch,
        input_group(r.input, &partition)
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
    fence_group(wk, &r);
    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    memset(&p, 0, sizeof(p));
    req.group_id = input_group(r.input, &p.partition_index);
    p.committed_offset = r.offset;
    p.committed_metadata = kf_str("");
    t.name = kf_str(TXN_IN);
    t.partitions = &p;
    t.partitions_n = 1;
    req.transactional_id = kc_cstr(txn_ids[r.id]);
    req.producer_id = r.pid;
    req.producer_epoch = r.epoch;
    req.generation_id_or_member_epoch = r.generation;
    req.member_id = text_str(r.member_id);
    req.group_instance_id = r.instance_id;
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
        a->asked_shown = txn_shown[a->r.input];
        a->error = ask_offset(wk, a->r.input, &c, true, &a->got_offset);
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

#endif
