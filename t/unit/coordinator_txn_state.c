/*
 * Transactions as state: allocations that fail at every point, snapshots in
 * every state, records that cannot be, thousands of them, and what one costs.
 */

#define SLOTS    2600
#define BATCHES  32768

#include "coordinator_txn_lib.h"
#include "../../coordinator/kc_txn_int.h"


/* --- memory -------------------------------------------------------------- */

static producer_t  p1, p2;
static int         got;

static void act_init(void)      { got = init_as(5, "new", -1, -1); }
static void act_again(void)     { got = init_as(5, "one", p1.pid, p1.epoch); }
static void act_add(void)       { got = add(&p1, "t", 0); }
static void act_add_more(void)  { got = add(&p2, "u", 1); }
static void act_implicit(void)  { got = implicit(&p1, "u", 3); }
static void act_group(void)     { got = add_offsets(3, &p1, "g"); }
static void act_more(void)      { got = add_offsets(3, &p2, "h"); }
static void act_stage(void)     { got = stage(&p1, "new", "t", 1, 5); }
static void act_commit(void)    { got = finish(5, &p2, true); }
static void act_abort(void)     { got = finish(5, &p2, false); }
static void act_nothing(void)   { got = finish(5, &p1, false); }

static void
act_stage_more(void)
{
    got = stage_as(5, &p2, "g", -1, "", NULL, "u", 2, 5, "note");
}


static void
act_plain(void)
{
    got = commit("g", "t", 3, 1);
}


static void
setup(void)
{
    int  i;

    txn_start();
    w.room = 64;
    commit("g", "t", 2, 100);
    p1 = producer("one");
    p2 = producer("two");

    for (i = 0; i < 4; i++) {
        implicit(&p2, "t", i);
        implicit(&p2, "u", i + (i > 0));
        stage_as(5, &p2, "g", -1, "", NULL, "t", i, i, "note");
    }
}


static void
test_memory(const char *name, void (*act)(void))
{
    int       n, runs = 0, count;
    bool      done = false;
    char      problem[200] = "";
    world_t   other;
    uint64_t  before;

    for (n = 1; !done && n < 300; n++) {
        setup();
        before = kc_hash(&w.kc);
        count = w.count;
        w.fail_in = n;
        got = 0;
        act();
        done = w.fail_in > 0;
        w.fail_in = 0;
        runs++;

        if (kc_check(&w.kc)) {
            snprintf(problem, sizeof(problem), "%d: %s", n, kc_check(&w.kc));
        }

        if (!done && (got == 0 || kc_hash(&w.kc) != before
                      || w.count != count))
        {
            snprintf(problem, sizeof(problem), "%d: something changed", n);
        }

        if (done && (got != 0 || kc_hash(&w.kc) == before)) {
            snprintf(problem, sizeof(problem), "nothing changed");
        }

        /* what could not be done is done later */
        act();

        if (got && act != act_again && act != act_commit && act != act_abort) {
            snprintf(problem, sizeof(problem), "%d: later %d", n, got);
        }

        world_start(&other);

        if (world_replay(&w, &other) != KC_OK
            || kc_hash(&other.kc) != kc_hash(&w.kc))
        {
            snprintf(problem, sizeof(problem), "%d: replay differs", n);
        }

        kc_state_free(&other.kc);
        kc_done(&other.kc);
        kf_heap_free(&other.heap);

        kc_state_free(&w.kc);

        if (w.live || w.bytes) {
            snprintf(problem, sizeof(problem), "%d: %d blocks left", n,
                     w.live);
        }

        kc_done(&w.kc);
        kf_heap_free(&w.heap);

        while (w.count) {
            free(w.batches[--w.count]);
        }
    }

    ok(problem[0] == '\0' && done, "%s: no memory at each of %d "
       "allocations: %s", name, runs - 1, problem);
}


/* A decision that the journal refuses has not been made. */
static void
test_journal(void)
{
    uint64_t  before;

    setup();
    before = kc_hash(&w.kc);
    w.journal_fails = true;
    is(add(&p1, "t", 0), -100, "a partition");
    is(stage(&p1, "g", "t", 0, 1), -100, "an offset");
    is(finish(5, &p2, true), -100, "an outcome");
    is(init_as(5, "one", -1, -1), -102, "a producer");
    ok(kc_hash(&w.kc) == before, "nothing of it");
    later(100000);
    kc_tick(&w.kc, &w.call, 10);
    ok(kc_hash(&w.kc) == before, "nor a timeout");
    w.journal_fails = false;
    pass(1000);
    is_str(txn_state("two"), "PrepareAbort 1 1", "which comes later");
    txn_check("a journal that failed");
    world_end(&w);
}


/* --- snapshots ----------------------------------------------------------- */

#define SHOTS  1024

typedef struct {
    uint8_t  *data[SHOTS];
    size_t    sizes[SHOTS];
    int       n;
} shots_t;


static bool
shot_sink(void *ctx, uint8_t *batch, size_t len)
{
    shots_t  *t = ctx;

    if (t->n == SHOTS) {
        return false;
    }

    t->data[t->n] = memcpy(malloc(len), batch, len);
    t->sizes[t->n++] = len;

    return true;
}


/* The state becomes what its snapshot is. */
static void
snapshot(const char *name)
{
    int             i;
    kc_rc_t         rc = KC_OK;
    uint64_t        hash = kc_hash(&w.kc);
    static shots_t  shots;

    shots.n = 0;
    is(kc_snapshot(&w.kc, NOW, shot_sink, &shots), KC_OK, name);
    kc_state_free(&w.kc);
    kc_state_create(&w.kc);

    for (i = 0; i < shots.n; i++) {
        if (rc == KC_OK) {
            rc = kc_replay(&w.kc, shots.data[i], shots.sizes[i], -1);
        }

        free(shots.data[i]);
    }

    is(rc, KC_OK, "it can be replayed");

    if (rc != KC_OK) {
        diag("%.*s", (int) w.kc.problem.len, w.kc.problem.data);
    }

    ok(kc_hash(&w.kc) == hash, "to the same state");
    ok(kc_check(&w.kc) == NULL, "that is sound: %s",
       kc_check(&w.kc) ? kc_check(&w.kc) : "");
}


static void
test_snapshot(void)
{
    producer_t  a, b, e;

    txn_start();
    a = producer("a");
    b = producer("b");
    e = producer("c");
    e = producer("d");
    snapshot("empty");
    implicit(&a, "t", 0);
    implicit(&b, "t", 1);
    snapshot("under way");
    is(verify(11, &a, "t", 0), 0, "takes part");
    stage(&a, "g", "t", 0, 5);
    stage(&b, "g", "t", 0, 6);
    stage_as(5, &a, "g", -1, "", NULL, "u", 1, 7, "note");
    stage_as(5, &a, "h", -1, "", NULL, "u", 2, 8, "note");
    snapshot("staged");
    is(finish(5, &b, true), 0, "the later one commits");
    snapshot("superseded");
    is(prepare(5, &a, true), 0, "the earlier one");
    is(fetch("g", "t", 0), 6, "does not count");
    is(fetch("g", "u", 1), 7, "but for others");
    is(fetch("h", "u", 2), 8, "of all groups");
    snapshot("decided");
    is(drive(), 1, "is driven");
    is_str(txn_state("a"), "CompleteCommit 0 1", "to its end");
    snapshot("complete");
    is(prepare(5, &a, true), 0, "a repetition");
    is(got_epoch, 1, "has its answer");
    is(prepare(5, &e, false), 0, "an abort of nothing");
    implicit(&b, "u", 0);
    is(prepare(5, &b, false), 0, "an abort");
    snapshot("aborting");
    is(drive(), 1, "is driven, too");
    is_str(txn_state("b"), "CompleteAbort 1 2", "to its end");
    world_end(&w);
}


/* --- many ---------------------------------------------------------------- */

static char  names[6000][24];


static void
test_many(void)
{
    int          i, n = 3000, good = 0;
    int64_t      bytes;
    producer_t   p = { NULL, 0, 0 };

    kf_list_transactions_request_t   req;
    kf_list_transactions_response_t  rsp;

    txn_start();
    w.room = SLOTS;
    create(&w, "big", 2500, NULL);

    for (i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "id-%d", i);
        p = producer(names[i]);
        good += p.pid == i && implicit(&p, "t", i % 4) == 0
                && stage(&p, "g", "t", i % 4, i) == 0;
        kf_heap_free(&w.heap);
        kf_arena_init(&w.arena, kf_heap_chunk, &w.heap, 64 * 1024 * 1024);
    }

    is(good, n, "thousands of transactions at once");
    ok(kc_check(&w.kc) == NULL, "are sound");

    memset(&req, 0, sizeof(req));
    req.duration_filter = -1;
    req.transactional_id_pattern = kf_null_str;
    is(kc_list_transactions(&w.kc, &w.call, 2, &req, &rsp), KC_OK, "listed");
    is(rsp.transaction_states_n, n, "all");

    for (i = 0, good = 0; i < n; i++) {
        p = (producer_t) { names[i], i, 0 };
        good += finish(5, &p, i % 2) == 0;
    }

    is(good, n, "and end");
    is(fetch("g", "t", 3), n - 1, "the last staged one is in force");
    is(fetch("g", "t", 2), -1, "none of those that were aborted");
    txn_check("thousands");

    /* one over many partitions */
    p = (producer_t) { names[0], 0, 1 };
    {
        static int32_t   all[2500];
        kf_str_t         name = s("big");
        kf_add_partitions_to_txn_request_t                      add_req;
        kf_add_partitions_to_txn_response_t                     add_rsp;
        kf_add_partitions_to_txn_request_v3_and_below_topics_t  t = {
            .name = name, .partitions = all, .partitions_n = 2500
        };

        for (i = 0; i < 2500; i++) {
            all[i] = (i * 7) % 2500;
        }

        memset(&add_req, 0, sizeof(add_req));
        add_req.v3_and_below_transactional_id = s(p.id);
        add_req.v3_and_below_producer_epoch = p.epoch;
        add_req.v3_and_below_topics = &t;
        add_req.v3_and_below_topics_n = 1;
        implicit(&p, "big", 1111);
        implicit(&p, "big", 7);
        is(kc_add_partitions_to_txn(&w.kc, &w.call, 3, &add_req, &add_rsp),
           KC_OK, "2,500 partitions");
        is(add_rsp.results_by_topic_v3_and_below[0].results_by_partition[2499]
           .partition_error_code, 0, "are added");
    }

    bytes = w.end;
    is(prepare(5, &p, true), 0, "and decided");
    is(w.end, bytes + 1, "by one record");
    is(work.parts_n, 2500, "for all of them");
    ok(w.sizes[w.count - 1] < 200, "which is small: %d",
       (int) w.sizes[w.count - 1]);
    complete();
    txn_check("partitions");
    world_end(&w);
}


/* Ids that come and go leave nothing. */
static void
test_churn(void)
{
    int      i, k;
    char     id[24];
    size_t   bytes = 0;

    txn_start();
    producer("first");
    tick();

    for (k = 0; k < 4; k++) {
        for (i = 0; i < 1500; i++) {
            snprintf(id, sizeof(id), "id-%d-%d", k, i);
            init_as(5, id, -1, -1);
            kf_heap_free(&w.heap);
            kf_arena_init(&w.arena, kf_heap_chunk, &w.heap, 64 * 1024 * 1024);
        }

        if (k == 0) {
            bytes = w.bytes;
        }

        later(604800000 + 3600000);
        tick();
    }

    ok(w.bytes < bytes / 10, "ids that expire leave nothing: %d of %d bytes",
       (int) w.bytes, (int) bytes);
    txn_check("ids that came and went");
    world_end(&w);
}


/* --- what it costs ------------------------------------------------------- */

static size_t  slab_bytes;

static void *
slab_alloc(void *ctx, size_t size)
{
    size_t  slab = 8;

    while (slab < size && slab < 2048) {
        slab *= 2;
    }

    slab_bytes += size > 2048 ? (size + 4095) / 4096 * 4096 : slab;

    return world_alloc(ctx, size);
}


static void
test_sizes(void)
{
    producer_t  p;

    txn_start();
    w.kc.mem.alloc = slab_alloc;

    slab_bytes = 0;
    p = producer("an-id-of-48-bytes-0123456789-0123456789-01234567");
    is(slab_bytes, 256, "an id");
    slab_bytes = 0;
    implicit(&p, "t", 0);
    is(slab_bytes, 256 + 256, "a transaction with a partition");
    slab_bytes = 0;
    implicit(&p, "t", 1);
    is(slab_bytes, 0, "another partition");
    commit("g", "t", 0, 1);
    slab_bytes = 0;
    add_offsets(3, &p, "g");
    is(slab_bytes, 128, "a group");
    slab_bytes = 0;
    stage(&p, "g", "t", 0, 5);
    is(slab_bytes, 256, "a staged offset");
    slab_bytes = 0;
    is(finish(5, &p, true), 0, "the outcome");
    is(slab_bytes, 0, "takes nothing");
    ok(sizeof(kc_group_topic_t) <= 128, "a topic of a group has %d bytes",
       (int) sizeof(kc_group_topic_t));

    w.kc.mem.alloc = world_alloc;
    world_end(&w);
}


/* --- records that cannot be ---------------------------------------------- */

static int64_t
replay_one(world_t *o, kf_journal_number_t type, const void *record)
{
    size_t                size;
    kc_rc_t               rc;
    int64_t               end = kc_applied(&o->kc) + 1;
    static uint8_t        value[4096], batch[8192];
    kf_batch_builder_t    bb;

    size = kc_record_encode(type, record, value, sizeof(value));
    kf_batch_begin(&bb, batch, sizeof(batch), 1);
    kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, (uint32_t) size });
    size = kf_batch_end(&bb);
    kf_batch_set_base_offset(batch, end - 1);
    rc = kc_replay(&o->kc, batch, size, end);

    return rc;
}


static void
try(kf_journal_number_t type, const void *record, kc_rc_t want,
    const char *label)
{
    static world_t  o;

    world_start(&o);
    world_replay(&w, &o);
    is(replay_one(&o, type, record), want, label);

    if (want == KC_OK && kc_check(&o.kc)) {
        ok(false, "%s", kc_check(&o.kc));
    }

    kc_state_free(&o.kc);
    ok(o.live == 0, "and leaves nothing behind");
    kc_done(&o.kc);
    kf_heap_free(&o.heap);
}


static void
test_corrupt(void)
{
    int32_t     parts[] = { 2, 3 }, wrong[] = { 3, 3 }, below[] = { -1 };
    kf_str_t    group = s("g");
    producer_t  a, b, d;

    kf_transaction_record_t             t;
    kf_transaction_add_record_topics_t  topics[2];
    kf_transaction_add_record_t         ad;
    kf_transaction_end_record_t         e;
    kf_transaction_complete_record_t    cr;
    kf_delete_transaction_record_t      dr;

    kf_transaction_offsets_record_partitions_t  op;
    kf_transaction_offsets_record_topics_t      ot;
    kf_transaction_offsets_record_t             o;

    txn_start();
    producer("idle");
    a = producer("a");
    b = producer("b");
    d = producer("d");
    implicit(&a, "t", 0);
    stage(&a, "g", "t", 0, 5);
    implicit(&b, "t", 0);
    prepare(5, &b, true);
    (void) d;

#define EACH(record, type, base, field, value, label)                         \
    record = base;                                                            \
    record.field = value;                                                     \
    try(type, &record, KC_CORRUPT, label)

    {
        kf_transaction_record_t  good = {
            .transactional_id = s("idle"), .producer_id = 900,
            .producer_epoch = 1, .last_producer_epoch = -1,
            .previous_producer_id = -1, .next_producer_id = -1,
            .data_epoch = -1, .client_version = 1, .timeout_ms = 1000,
            .start_timestamp = -1, .update_timestamp = 1, .begin_offset = -1
        };

        try(KF_TRANSACTION_RECORD, &good, KC_OK, "an id is set");
        EACH(t, KF_TRANSACTION_RECORD, good, transactional_id, s(""), "no id");
        EACH(t, KF_TRANSACTION_RECORD, good, transactional_id, s("a"),
             "under way");
        EACH(t, KF_TRANSACTION_RECORD, good, transactional_id, s("b"),
             "decided");
        EACH(t, KF_TRANSACTION_RECORD, good, state, 1, "not Empty");
        EACH(t, KF_TRANSACTION_RECORD, good, state, -1, "no state");
        EACH(t, KF_TRANSACTION_RECORD, good, state, 6, "no such state");
        EACH(t, KF_TRANSACTION_RECORD, good, producer_id, -1, "no producer");
        EACH(t, KF_TRANSACTION_RECORD, good, producer_epoch, -1, "no epoch");
        EACH(t, KF_TRANSACTION_RECORD, good, timeout_ms, 0, "no timeout");
        EACH(t, KF_TRANSACTION_RECORD, good, client_version, 3, "no version");
    }

    {
        kf_transaction_add_record_t  good = {
            .transactional_id = s("a"), .producer_id = a.pid,
            .producer_epoch = 0, .client_version = 2, .update_timestamp = 1,
            .topics = topics, .topics_n = 1, .groups = &group, .groups_n = 1
        };

        topics[0].topic_id = kc_topic_by_name(&w.kc, s("t"))->id;
        topics[0].partitions = parts;
        topics[0].partitions_n = 2;
        topics[1] = topics[0];

        try(KF_TRANSACTION_ADD_RECORD, &good, KC_OK, "participants are added");
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, transactional_id, s("x"),
             "to nothing");
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, producer_id, 77,
             "of another producer");
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, producer_epoch, 7,
             "of another epoch");
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, client_version, 0,
             "of no version");
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, topics_n, 2, "a topic twice");
        topics[0].partitions = wrong;
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, topics_n, 1,
             "a partition twice");
        topics[0].partitions = below;
        topics[0].partitions_n = 1;
        EACH(ad, KF_TRANSACTION_ADD_RECORD, good, topics_n, 1,
             "no such partition");
        topics[0].partitions = parts;
        ad = good;
        ad.transactional_id = s("b");
        ad.producer_id = b.pid;
        try(KF_TRANSACTION_ADD_RECORD, &ad, KC_CORRUPT, "to a decided one");
    }

    {
        kf_transaction_offsets_record_t  good = {
            .transactional_id = s("a"), .group_id = s("g"), .topics = &ot,
            .topics_n = 1
        };

        op = (kf_transaction_offsets_record_partitions_t) {
            .index = 1, .offset = 1, .metadata = s("m"), .position = -1
        };
        ot.topic_id = topics[0].topic_id;
        ot.partitions = &op;
        ot.partitions_n = 1;

        try(KF_TRANSACTION_OFFSETS_RECORD, &good, KC_OK, "an offset");
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, transactional_id, s("x"),
             "of nothing");
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, transactional_id, s("b"),
             "of a decided one");
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, transactional_id,
             s("idle"), "of none");
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, group_id, s("h"),
             "of a group that takes no part");
        op.index = 4;
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, topics_n, 1,
             "no such partition");
        op.index = 0;
        ot.topic_id.b[0] ^= 1;
        EACH(o, KF_TRANSACTION_OFFSETS_RECORD, good, topics_n, 1,
             "no such topic");
    }

    {
        kf_transaction_end_record_t  good = {
            .transactional_id = s("a"), .commit = true, .producer_id = a.pid,
            .data_epoch = 0, .marker_epoch = 1, .next_producer_id = -1,
            .client_version = 2, .update_timestamp = 1, .partitions = 1,
            .groups = 1
        };

        try(KF_TRANSACTION_END_RECORD, &good, KC_OK, "a decision");
        EACH(e, KF_TRANSACTION_END_RECORD, good, transactional_id, s("x"),
             "of nothing");
        EACH(e, KF_TRANSACTION_END_RECORD, good, transactional_id, s("b"),
             "of a decided one");
        EACH(e, KF_TRANSACTION_END_RECORD, good, transactional_id, s("idle"),
             "a commit of none");
        EACH(e, KF_TRANSACTION_END_RECORD, good, producer_id, 9, "another's");
        EACH(e, KF_TRANSACTION_END_RECORD, good, data_epoch, 1, "the future");
        EACH(e, KF_TRANSACTION_END_RECORD, good, marker_epoch, -1, "the past");
        EACH(e, KF_TRANSACTION_END_RECORD, good, partitions, 2, "of more");
        EACH(e, KF_TRANSACTION_END_RECORD, good, groups, 0, "of less");
        EACH(e, KF_TRANSACTION_END_RECORD, good, client_version, 9,
             "of no version");
    }

    {
        kf_transaction_complete_record_t  good = {
            .transactional_id = s("b"), .producer_id = b.pid,
            .marker_epoch = 1, .update_timestamp = 1
        };

        try(KF_TRANSACTION_COMPLETE_RECORD, &good, KC_OK, "complete");
        EACH(cr, KF_TRANSACTION_COMPLETE_RECORD, good, transactional_id,
             s("a"), "what is not decided");
        EACH(cr, KF_TRANSACTION_COMPLETE_RECORD, good, transactional_id,
             s("x"), "nothing");
        EACH(cr, KF_TRANSACTION_COMPLETE_RECORD, good, marker_epoch, 0,
             "another epoch");
        EACH(cr, KF_TRANSACTION_COMPLETE_RECORD, good, producer_id, 9,
             "another's");
    }

    dr.transactional_id = s("idle");
    try(KF_DELETE_TRANSACTION_RECORD, &dr, KC_OK, "an id is deleted");
    dr.transactional_id = s("a");
    try(KF_DELETE_TRANSACTION_RECORD, &dr, KC_CORRUPT, "under way");
    dr.transactional_id = s("x");
    try(KF_DELETE_TRANSACTION_RECORD, &dr, KC_CORRUPT, "unknown");

    world_end(&w);
}


int
main(void)
{
    test_memory("a new id", act_init);
    test_memory("the next epoch", act_again);
    test_memory("the first partition", act_add);
    test_memory("another partition", act_add_more);
    test_memory("implicitly", act_implicit);
    test_memory("the first group", act_group);
    test_memory("another group", act_more);
    test_memory("the first offset", act_stage);
    test_memory("another offset", act_stage_more);
    test_memory("a plain offset", act_plain);
    test_memory("a commit", act_commit);
    test_memory("an abort", act_abort);
    test_memory("an abort of nothing", act_nothing);
    test_journal();
    test_snapshot();
    test_many();
    test_churn();
    test_sizes();
    test_corrupt();

    return done_testing();
}
