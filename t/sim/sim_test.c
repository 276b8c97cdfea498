/*
 * The simulator's schedule and command line.
 *
 *   sim_test.t                      TAP: 200 seeds clean, each break found
 *   SEEDS=1000 sim_test.t           so many seeds instead, without the breaks
 *   SEED=17 sim_test.t              one seed, with its whole trace
 *   sim_test.t --seeds 1-1000 [--break NAME] [--verbose] [--steps N]
 *
 * A seed decides everything: the same seed runs the same way again.
 */

#include "../tap.h"
#include "sim_txn_check.h"

static uint32_t  steps = 5000;


static void
dir_make(void)
{
    const char  *tmp = getenv("TMPDIR");

    if (tmp == NULL) {
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    }

    snprintf(w.dir, sizeof(w.dir), "%.200s/kafka-sim.XXXXXX", tmp);

    if (mkdtemp(w.dir) == NULL) {
        printf("Bail out! no directory %s\n", w.dir);
        exit(1);
    }
}


/* Flushes a partition, by whichever worker.  false: there was no need to. */
static bool
flush(int32_t slot)
{
    int        topic = w.slot_topic[slot];
    int32_t    p = w.slot_partition[slot];
    int64_t    flushed;
    kl_rc_t    rc;
    mpart_t   *m;
    worker_t  *wk = any_worker();

    if (slot == w.journal_slot || topic < 0) {
        return false;
    }

    m = mtopics[topic].parts[p];

    if (m == NULL || !m->dirty) {
        return false;
    }

    rc = kl_flush(worker_log(wk, slot, incarnation(slot), topic, p), &flushed);

    m->dirty = false;

    if (rc == KL_OK) {
        disk_synced(part_dir(topic, p), NULL);

    } else if (rc != KL_GONE) {
        fail("a flush answers %d", rc);
    }

    return true;
}


static void
flush_step(void)
{
    int  i, k = (int) rnd(PARTS);

    for (i = 0; i < PARTS && !flush((k + i) % PARTS); i++) { /* void */ }
}


static void
checkpoint_section(worker_t *wk, void *arg)
{
    int                topic;
    int32_t            p;
    kl_log_t          *log;
    const kc_topic_t  *t = kc_topic_next(&wk->kc, kf_null_str);

    (void) arg;

    if (t) {
        p = (int32_t) rnd((uint32_t) t->partition_count);
        topic = w.slot_topic[t->slots[p]];
        removals_finish(wk, topic);
        log = worker_log(wk, t->slots[p], incarnation(t->slots[p]), topic, p);

        if (kl_checkpoint(log, false) != KL_OK) {
            fail("a checkpoint fails");
        }

        disk_synced(part_dir(topic, p), "index");
    }

    if (kl_checkpoint(wk->journal, false) != KL_OK) {
        fail("a checkpoint of the journal fails");
    }

    disk_synced(JOURNAL_DIR, "index");
}


static void
produce_step(void)
{
    int          i;
    producer_t  *p = &producers[rnd(CLIENTS)];

    producer_step(p);

    /* now and then a topic's first records are faster than the journal */
    if (p->looked && journal_flushed() < p->target.wait && chance(10)) {

        for (i = 0; i < 12 && p->looked && !w.cut; i++) {
            producer_step(p);
            flush(p->target.slots[p->partition]);
        }
    }
}


static void
administer_step(void)
{
    admin_step(&admins[rnd(CLIENTS)]);
}


static void
consume_step(void)
{
    consumer_step(&consumers[rnd(CLIENTS)]);
}


static void
journal_step(void)
{
    journal_flush(any_worker());
}


static void
removal_step(void)
{
    removals_run(any_worker());
}


static void
compact_step(void)
{
    compact(any_worker());
}


static void
checkpoint_step(void)
{
    section(any_worker(), checkpoint_section, NULL);
}


static void
kill_step(void)
{
    worker_t  *wk = any_worker();

    trace("worker %d is killed", (int) (wk - w.workers));
    w.deaths++;
    worker_stop(wk);
}


static void
start_step(void)
{
    worker_t  *wk = &w.workers[rnd(WORKERS)];

    if (!wk->alive) {
        worker_start(wk);
    }
}


static void
check_step(void)
{
    check_all(false);
    check_groups();
    check_txns();
}


static void
crash_step(void)
{
    txns_note_cut();
    crash();
    clients_disconnect(true);
    groups_disconnect();
    txns_disconnect();
    check_all(true);
    check_groups();
    check_txns();
}


static void
restart_step(void)
{
    clean_restart();
    clients_disconnect(true);
    groups_disconnect();
    txns_disconnect();
    check_all(true);
    check_groups();
    check_txns();
}


static const struct {
    void    (*run)(void);
    uint32_t  weight;
} actions[] = {
    { produce_step, 500 },
    { administer_step, 80 },
    { consume_step, 120 },
    { flush_step, 120 },
    { journal_step, 60 },
    { late_step, 40 },
    { removal_step, 20 },
    { compact_step, 10 },
    { checkpoint_step, 5 },
    { kill_step, 12 },
    { start_step, 10 },
    { check_step, 8 },
    { crash_step, 6 },
    { restart_step, 2 },
    { group_step, 1800 },
    { group_late_step, 25 },
    { group_admin_step, 3 },
    { tick_step, 60 },
    { time_step, 4 },
    { txn_step, 2400 },
    { txn_late_step, 30 },
    { txn_drive_step, 100 },
};

#define ACTIONS  (sizeof(actions) / sizeof(actions[0]))

static uint32_t  weights[ACTIONS], weights_sum;


/* Seeds differ in what happens often: some hardly flush, some are all admin. */
static void
weights_choose(void)
{
    uint32_t  i;

    weights_sum = 0;

    for (i = 0; i < ACTIONS; i++) {
        weights[i] = actions[i].weight * 8 >> rnd(5);
        weights_sum += weights[i];
    }
}


static void
one_step(void)
{
    uint32_t  i, k = rnd(weights_sum);

    w.now_ms += rnd(20);

    for (i = 0; k >= weights[i]; i++) {
        k -= weights[i];
    }

    actions[i].run();

    if (w.cut) {
        w.cut = false;
        crash_step();
    }
}


static void
world_clear(void)
{
    int  i;

    for (i = 0; i < WORKERS; i++) {
        if (w.workers[i].alive) {
            w.workers[i].section = false;
            worker_stop(&w.workers[i]);
        }
    }

    zone_reset();
    free(w.shared_mem);
    kf_heap_free(&w.heap);
    remove_tree(w.dir + strlen(w.dir));
    model_clear();
    durable_n = 0;
}


/* true: clean; else `failure` says what was found. */
static bool
run(uint64_t seed, break_t broken, uint64_t *counts)
{
    static volatile bool  clean;

    rng = seed * 0x2545f4914f6cdd1d + 1;
    rnd64();

    memset(&w, 0, sizeof(w));
    memset(trace_lines, 0, sizeof(trace_lines));
    trace_n = 0;
    trace_hash = 0;
    step = 0;
    w.blocks.next = w.blocks.prev = &w.blocks;
    w.broken = broken;
    dir_make();
    model_clear();
    clients_reset();
    groups_reset();
    txns_reset();
    weights_choose();
    durable_n = 0;
    clean = true;

    if (setjmp(failed) == 0) {
        w.alloc_fails = chance(30) ? 10 : 0;
        w.eager = chance(70);
        boot(false);

        for (step = 1; step <= steps; step++) {
            one_step();
        }

        /* the last word: a power cut, and then all of it */
        crash();
        clients_disconnect(true);
        groups_disconnect();
        txns_disconnect();
        check_all(true);
        check_groups();
        groups_settle();
        txns_settle();

    } else {
        clean = false;
    }

    if (counts) {
        counts[0] += w.acks;
        counts[1] += w.reads;
        counts[2] += w.deaths;
        counts[3] += w.crashes;
        counts[4] += w.duplicates;
        counts[5] += w.recoveries;
        counts[6] += w.snapshots;
        counts[7] += w.created;
        counts[8] += w.deleted;
        counts[9] += w.truncated;
        counts[10] += w.synced;
        counts[11] += w.commits;
        counts[12] += txn_commits;
        counts[13] += txn_fenced;
        counts[14] += txn_read;
        counts[15] += txn_lost;
    }

    world_clear();

    return clean;
}


static void
print_failure(uint64_t seed)
{
    uint64_t  i = trace_n > TRACE ? trace_n - TRACE : 0;

    diag("seed %llu, step %llu: %s", (unsigned long long) seed,
         (unsigned long long) step, failure);

    if (!verbose) {
        for ( ; i < trace_n; i++) {
            diag("%s", trace_lines[i % TRACE]);
        }
    }
}


/* Clean seeds from..to; stops at the first failure. */
static bool
run_clean(uint64_t from, uint64_t to)
{
    uint64_t  seed, c[16] = { 0 };

    for (seed = from; seed <= to; seed++) {
        if (!run(seed, BREAK_NONE, c)) {
            ok(0, "seeds %llu to %llu", (unsigned long long) from,
               (unsigned long long) to);
            print_failure(seed);
            return false;
        }
    }

    ok(1, "seeds %llu to %llu", (unsigned long long) from,
       (unsigned long long) to);
    diag("%llu acks, %llu reads, %llu deaths, %llu power cuts, %llu "
         "duplicates, %llu recoveries, %llu snapshots, %llu topics created, "
         "%llu deleted, %llu starts with a cut log, %llu assignments heard, "
         "%llu offsets, %llu transactions committed, %llu producers fenced, "
         "%llu committed by members of a group, %llu refused as they were none",
         (unsigned long long) c[0], (unsigned long long) c[1],
         (unsigned long long) c[2], (unsigned long long) c[3],
         (unsigned long long) c[4], (unsigned long long) c[5],
         (unsigned long long) c[6], (unsigned long long) c[7],
         (unsigned long long) c[8], (unsigned long long) c[9],
         (unsigned long long) c[10], (unsigned long long) c[11],
         (unsigned long long) c[12], (unsigned long long) c[13],
         (unsigned long long) c[14], (unsigned long long) c[15]);

    return true;
}


/* The power goes at each step of EndTxn, often enough. */
static void
run_cuts(void)
{
    int  i;

    for (i = 0; i < END_STEPS; i++) {
        ok(end_cuts[i] > 3, "EndTxn, %s: %llu power cuts", end_steps[i],
           (unsigned long long) end_cuts[i]);
    }
}


/* How soon a broken build is found. */
static bool
run_broken(break_t broken, uint64_t from, uint64_t to)
{
    uint64_t  seed;

    for (seed = from; seed <= to; seed++) {
        if (!run(seed, broken, NULL)) {
            ok(1, "%s is found by seed %llu", break_names[broken],
               (unsigned long long) seed);
            diag("%s", failure);
            return true;
        }
    }

    ok(0, "%s is found", break_names[broken]);

    return false;
}


/* What a seed does it does again: else a failure could not be looked into. */
static void
run_twice(uint64_t seed)
{
    uint64_t  first, lines;

    run(seed, BREAK_NONE, NULL);
    first = trace_hash;
    lines = trace_n;
    run(seed, BREAK_NONE, NULL);

    ok(first == trace_hash && lines == trace_n && lines > 50,
       "seed %llu runs the same way twice, %llu lines of trace",
       (unsigned long long) seed, (unsigned long long) lines);
}


int
main(int argc, char **argv)
{
    int                 i, k;
    break_t             broken = BREAK_NONE;
    const char         *env;
    unsigned long long  from = 1, to = 1000;
    bool                given = false, parsed = true;

    env = getenv("SEEDS");

    if (env && *env) {
        to = strtoull(env, NULL, 10);
        given = true;
    }

    env = getenv("SEED");

    if (env && *env) {
        from = to = strtoull(env, NULL, 10);
        given = verbose = true;
    }

    for (i = 1; i < argc && parsed; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;

        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            k = sscanf(argv[++i], "%llu-%llu", &from, &to);
            to = k == 1 ? from : to;
            parsed = k > 0;
            given = true;

        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            steps = (uint32_t) atoi(argv[++i]);

        } else if (i + 1 < argc && strcmp(argv[i], "--break") == 0) {
            i++;

            for (k = 0; k < BREAK_COUNT; k++) {
                if (strcmp(break_names[k], argv[i]) == 0) {
                    broken = (break_t) k;
                }
            }

            given = true;
            parsed = broken != BREAK_NONE;

        } else {
            parsed = false;
        }
    }

    if (!parsed) {
        fprintf(stderr, "usage: %s [--seeds A-B] [--break NAME] [--steps N] "
                "[--verbose]\nbreaks:", argv[0]);

        for (k = 1; k < BREAK_COUNT; k++) {
            fprintf(stderr, " %s", break_names[k]);
        }

        fprintf(stderr, "\n");
        return 2;
    }

    if (given && broken) {
        run_broken(broken, from, to);
        return done_testing();
    }

    run_clean(from, to);

    if (!given) {
        run_cuts();
        run_twice(1);
        run_twice(2);
    }

    for (k = 1; !given && k < BREAK_COUNT; k++) {
        run_broken((break_t) k, 1, 200);
    }

    return done_testing();
}
