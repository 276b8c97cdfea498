/*
 * The broker as the module builds it around the three layers: workers, the
 * coordinator's section and its recovery, flushes, removal of deleted files.
 */

#ifndef SIM_BROKER_H
#define SIM_BROKER_H

#include "sim.h"
#include "sim_disk.h"
#include "sim_model.h"
#include "../../coordinator/kc_int.h"
#include "../../coordinator/kc_config_def.h"

#define JOURNAL      "__journal"
#define JOURNAL_DIR  JOURNAL "-0"



static void
log_line(void *ctx, kl_log_level_t level, int err, const char *line)
{
    size_t       len = strlen(w.dir);
    const char  *rest = strstr(line, w.dir);

    (void) ctx;

    /* without the name of the directory, which differs from run to run */
    if (level <= KL_LOG_ERR || verbose) {
        trace("  log: %.*s%s%s%s", rest ? (int) (rest - line) : 0, line,
              rest ? rest + len + 1 : line, err ? ": " : "",
              err ? strerror(err) : "");
    }
}


static void sim_txn_open(void *ctx, const kc_topic_t *t, int32_t partition,
    int64_t pid, int16_t epoch, int version, int64_t number);

/* sim_group.h */
static void groups_woken(worker_t *wk);
static void groups_append(const uint8_t *batch, const kf_batch_t *b);


/* --- the world as the coordinator calls it -------------------------------- */

/* Every call is a point where the worker may die. */
static void
call(void)
{
    if (w.die_in && --w.die_in == 0) {
        longjmp(w.death, 1);
    }
}


static void *
sim_alloc(void *ctx, size_t size)
{
    block_t  *b;

    (void) ctx;
    call();

    if (rnd(1000) < w.alloc_fails) {
        return NULL;
    }

    b = malloc(sizeof(block_t) + size);
    b->size = size;
    b->next = w.blocks.next;
    b->prev = &w.blocks;
    b->next->prev = b;
    b->prev->next = b;

    return memset(b + 1, 0x5a, size);
}


static void
sim_free(void *ctx, void *p, size_t size)
{
    block_t  *b = (block_t *) p - 1;

    (void) ctx;

    if (w.frozen) {
        return;
    }

    call();

    if (b->size != size) {
        fail("a block of %zu bytes is freed as %zu", b->size, size);
    }

    b->next->prev = b->prev;
    b->prev->next = b->next;
    memset(p, 0xdd, size);
    free(b);
}


static void
zone_reset(void)
{
    block_t  *b;

    while ((b = w.blocks.next) != &w.blocks) {
        w.blocks.next = b->next;
        free(b);
    }

    w.blocks.next = &w.blocks;
    w.blocks.prev = &w.blocks;
}


static int64_t
journal_end(void)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(w.shared, w.journal_slot), &o);

    return o.log_end;
}


static int64_t
journal_flushed(void)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(w.shared, w.journal_slot), &o);

    return o.flushed;
}


/* Does the batch begin with such a record? */
static bool
begins_with(const uint8_t *batch, int type)
{
    kf_record_t     r;
    const uint8_t  *pos = batch + KF_BATCH_HEADER;

    return kf_record_next(&pos, batch + 4096, &r) == KF_OK && r.value.len > 2
           && r.value.data[1] == type;
}


/* The batch as a broker would write it that keeps staged offsets in memory. */
static void
without_staged(uint8_t *batch, size_t *len, kf_batch_t *b)
{
    kf_record_t         r;
    static uint8_t      copy[65536];
    const uint8_t      *pos = copy + KF_BATCH_HEADER, *end = copy + *len;
    kf_batch_builder_t  bb;

    if (*len > sizeof(copy)) {
        return;
    }

    memcpy(copy, batch, *len);
    kf_batch_begin(&bb, batch, *len, now().wall_ms);

    while (pos < end && kf_record_next(&pos, end, &r) == KF_OK) {
        if (r.value.data[1] != KF_TRANSACTION_OFFSETS_RECORD) {
            kf_batch_add(&bb, kf_null_str, r.value);
        }
    }

    *len = kf_batch_end(&bb);

    if (*len) {
        (void) kf_batch_header(batch, *len, b);
    }
}


static int
sim_append(void *ctx, uint8_t *batch, size_t len, int64_t *end)
{
    worker_t     *wk = ctx;
    kl_rc_t       rc;
    kf_batch_t    b;
    kl_append_t   res;

    call();

    if (chance(1) && !w.calm) {
        trace("  the journal refuses");
        return -1;
    }

    if ((w.broken == BREAK_NO_PID_BLOCK
         && begins_with(batch, KF_PRODUCER_IDS_RECORD))
        || (w.broken == BREAK_NO_GENERATION
            && begins_with(batch, KF_GROUP_RECORD))
        || (w.broken == BREAK_NO_OFFSETS
            && begins_with(batch, KF_OFFSETS_RECORD)))
    {
        *end = journal_end();
        return 0;
    }

    if (kf_batch_header(batch, len, &b) != KF_OK) {
        fail("the coordinator made a bad batch");
    }

    if (w.broken == BREAK_STAGED_LOST && !w.calm) {
        without_staged(batch, &len, &b);

        if (len == 0) {
            *end = journal_end();
            return 0;
        }
    }

    groups_append(batch, &b);

    rc = kl_append(wk->journal, batch, &b, &journal_config, 0, now().wall_ms,
                   &res);
    if (rc != KL_OK) {
        fail("an append to the journal answers %d", rc);
    }

    *end = res.next_offset;
    call();

    return w.broken == BREAK_NO_REPLAY && chance(20) ? -1 : 0;
}


static int32_t
sim_bind(void *ctx, kf_uuid_t id, int32_t partition)
{
    int      topic;
    int32_t  slot;

    (void) ctx;
    call();

    slot = kl_bind(w.shared, id, partition);

    if (slot >= 0) {
        topic = model_topic(id);
        w.slot_topic[slot] = topic < 0 ? model_topic_new(id) : topic;
        w.slot_partition[slot] = partition;
    }

    call();

    return slot;
}


static uint64_t
incarnation(int32_t slot)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(w.shared, slot), &o);

    return o.incarnation;
}


/* The files of a partition have to go; slot -1: it has none any more. */
static void
removal_add(int32_t slot, uint64_t inc, int topic, int32_t partition)
{
    int         i, free_one = -1;
    removal_t  *r;

    for (i = 0; i < REMOVALS; i++) {
        r = &w.removals[i];

        if (!r->used) {
            free_one = i;

        } else if (r->topic == topic && r->partition == partition) {
            return;
        }
    }

    if (free_one < 0) {
        fail("simulator: too many removals");
    }

    w.removals[free_one] = (removal_t) { true, slot, inc, topic, partition,
                                         journal_end() };
}


static void
sim_release(void *ctx, int32_t slot)
{
    (void) ctx;
    call();

    removal_add(slot, incarnation(slot), w.slot_topic[slot],
                w.slot_partition[slot]);
}


static void
sim_random(void *ctx, void *buf, size_t len)
{
    (void) ctx;

    while (len--) {
        ((uint8_t *) buf)[len] = (uint8_t) rnd(256);
    }
}


/* --- workers -------------------------------------------------------------- */

static void
worker_start(worker_t *wk)
{
    kl_env_opts_t  opts = { .dir = w.dir, .open_files_max = 12,
                            .log = log_line };

    memset(wk, 0, sizeof(worker_t));

    wk->env = kl_env_create(w.shared, &opts);
    wk->journal = kl_log_open(wk->env, w.journal_slot,
                              incarnation(w.journal_slot), journal_id,
                              kf_str(JOURNAL), 0);

    if (wk->env == NULL || wk->journal == NULL
        || !kc_init(&wk->kc, (kc_mem_t) { sim_alloc, sim_free, NULL },
                    (kc_io_t) { sim_append, sim_bind, sim_release, sim_random,
                                wk, sim_txn_open }))
    {
        fail("simulator: no memory");
    }

    wk->alive = true;
}


/* What the system does when a process is gone: memory, descriptors. */
static void
worker_stop(worker_t *wk)
{
    int  i;

    w.frozen = true;
    kc_done(&wk->kc);
    w.frozen = false;

    for (i = 0; i < PARTS; i++) {
        kl_log_close(wk->logs[i]);
    }

    kl_log_close(wk->journal);
    kl_env_free(wk->env);
    memset(wk, 0, sizeof(worker_t));
}


static worker_t *
any_worker(void)
{
    uint32_t  i, k = rnd(WORKERS);

    for (i = 0; i < WORKERS; i++) {
        if (w.workers[(k + i) % WORKERS].alive) {
            return &w.workers[(k + i) % WORKERS];
        }
    }

    worker_start(&w.workers[k]);

    return &w.workers[k];
}


/* The handle of a slot at an incarnation, kept by the worker. */
static kl_log_t *
worker_log(worker_t *wk, int32_t slot, uint64_t inc, int topic,
    int32_t partition)
{
    if (wk->logs[slot] && wk->incarnations[slot] == inc) {
        return wk->logs[slot];
    }

    kl_log_close(wk->logs[slot]);

    wk->incarnations[slot] = inc;
    wk->logs[slot] = kl_log_open(wk->env, slot, inc, mtopics[topic].id,
                                 kc_cstr(mtopics[topic].name), partition);

    if (wk->logs[slot] == NULL) {
        fail("simulator: no memory");
    }

    return wk->logs[slot];
}


static void
sim_txn_open(void *ctx, const kc_topic_t *t, int32_t partition, int64_t pid,
    int16_t epoch, int version, int64_t number)
{
    int32_t  slot = t->slots[partition];

    call();

    (void) kl_txn_verify(worker_log(ctx, slot, incarnation(slot),
                                    w.slot_topic[slot], partition),
                         pid, epoch, version >= 2,
                         w.broken == BREAK_NO_NUMBERS ? 0 : number,
                         now().wall_ms);
}


/* --- flushes -------------------------------------------------------------- */

static void
journal_flush(worker_t *wk)
{
    int64_t  flushed;

    if (kl_flush(wk->journal, &flushed) != KL_OK) {
        fail("the journal cannot be flushed");
    }

    disk_synced(JOURNAL_DIR, NULL);
}


static const char *
part_dir(int topic, int32_t partition)
{
    static char  buf[64];

    snprintf(buf, sizeof(buf), "%s-%d", mtopics[topic].name, partition);

    return buf;
}


/* --- removal of deleted partitions ---------------------------------------- */

/* Does the directory belong to this topic?  Its metadata says. */
static bool
dir_is_of(const char *dir, kf_uuid_t id)
{
    int      fd;
    char     path[PATH], text[256];
    ssize_t  n;
    uint8_t  want[23];

    snprintf(path, sizeof(path), "%s/partition.metadata", dir);
    fd = open(full(path), O_RDONLY);
    if (fd < 0) {
        return false;
    }

    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';

    kc_uuid_text(id, want);
    want[22] = '\0';

    return strstr(text, (char *) want) != NULL;
}


static void
removals_synced(worker_t *wk)
{
    if (kl_remove_sync(wk->env) != KL_OK) {
        fail("removals cannot be made durable");
    }

    w.renamed_n = 0;
}


/* Of those that were not, a power cut may give some their old names back. */
static void
removals_lost(void)
{
    char        to[2 * PATH];
    renamed_t  *r;

    while (w.renamed_n) {
        r = &w.renamed[--w.renamed_n];

        if (chance(50) && file_size(r->from) < 0) {
            trace("  %s is back", r->from);
            snprintf(to, sizeof(to), "%s", full(r->to));

            if (rename(to, full(r->from)) != 0) {
                fail("simulator: no rename of %s", r->to);
            }
        }
    }
}


static void
removal_renamed(worker_t *wk, const char *dir, kf_uuid_t id)
{
    int         i, n;
    renamed_t  *r;

    if (w.renamed_n == REMOVALS) {
        removals_synced(wk);
    }

    r = &w.renamed[w.renamed_n++];
    snprintf(r->from, sizeof(r->from), "%s", dir);
    n = snprintf(r->to, sizeof(r->to), "%.64s.", dir);

    for (i = 0; i < 16; i++) {
        n += snprintf(r->to + n, sizeof(r->to) - (size_t) n, "%02x", id.b[i]);
    }

    snprintf(r->to + n, sizeof(r->to) - (size_t) n, "-delete");

    if (file_size(r->to) < 0) {
        fail("there is no %s", r->to);
    }

    /* a worker that goes no further, or did not yet */
    if (!chance(20)) {
        removals_synced(wk);
    }
}


static void
removal_do(worker_t *wk, removal_t *r)
{
    kl_rc_t      rc;
    kl_log_t    *log;
    const char  *dir = part_dir(r->topic, r->partition);

    trace("remove %s of topic %d", dir, r->topic);

    if (r->slot >= 0 && incarnation(r->slot) == r->incarnation) {

        if (dir_is_of(dir, mtopics[r->topic].id)) {
            log = worker_log(wk, r->slot, r->incarnation, r->topic,
                             r->partition);
            rc = kl_remove(log);

            if (rc != KL_OK) {
                fail("kl_remove(%s) answers %d", dir, rc);
            }

            durable_forget(dir);
            removal_renamed(wk, dir, mtopics[r->topic].id);
        }

        kl_release(w.shared, r->slot);

    } else if (dir_is_of(dir, mtopics[r->topic].id)) {
        /* a recovery of the coordinator has freed the slot already */
        remove_tree(dir);
    }

    r->used = false;
}


static bool
removal_stops(void *ctx)
{
    (void) ctx;

    return chance(10);
}


static void
removals_run(worker_t *wk)
{
    int  i;

    if (chance(50)) {
        /* before a file goes, all new names are on the disk */
        if (kl_remove_files(wk->env, removal_stops, NULL) != KL_OK) {
            fail("the files of removed partitions do not go");
        }

        w.renamed_n = 0;
        return;
    }

    for (i = 0; i < REMOVALS; i++) {
        if (w.removals[i].used
            && (journal_flushed() >= w.removals[i].wait
                || w.broken == BREAK_REMOVE_EARLY))
        {
            removal_do(wk, &w.removals[i]);
        }
    }
}


/* A topic made again under a name needs the old one's directories gone. */
static void
removals_finish(worker_t *wk, int topic)
{
    int         i;
    removal_t  *r;

    for (i = 0; i < REMOVALS; i++) {
        r = &w.removals[i];

        if (r->used && r->topic != topic
            && strcmp(mtopics[r->topic].name, mtopics[topic].name) == 0)
        {
            if (journal_flushed() < r->wait) {
                journal_flush(wk);
            }

            removal_do(wk, r);
        }
    }
}


/* --- recovery of the coordinator ------------------------------------------ */

/* The newest state snapshot: its offset, or -1. */
static int64_t
snapshot_newest(char *path)
{
    int          i, n;
    int64_t      best = -1;
    static char  names[512][PATH / 2];

    n = list_dir(".", names, 512);

    for (i = 0; i < n; i++) {
        if (strncmp(names[i], "journal.", 8) == 0
            && names[i][8] >= '0' && names[i][8] <= '9')
        {
            best = atoll(names[i] + 8);
            snprintf(path, PATH, "%s", names[i]);
        }
    }

    return best;
}


static size_t
file_read(const char *path, uint8_t *buf, size_t size)
{
    int      fd = open(full(path), O_RDONLY);
    ssize_t  n;

    if (fd < 0) {
        fail("simulator: no file %s", path);
    }

    n = read(fd, buf, size);
    close(fd);

    return n < 0 ? 0 : (size_t) n;
}


/* Replays whole batches; end: of the first one's … each one's own, or -1. */
static kc_rc_t
replay_bytes(kc_t *kc, const uint8_t *p, size_t len, bool snapshot)
{
    kc_rc_t     rc = KC_OK;
    kf_batch_t  b;

    while (len && rc == KC_OK) {
        if (kf_batch_header(p, len, &b) != KF_OK || b.size > len) {
            return kc_fail(kc, KC_CORRUPT, "a cut snapshot");
        }

        rc = kc_replay(kc, p, b.size, snapshot ? -1 : kf_batch_next_offset(&b));
        p += b.size;
        len -= b.size;
    }

    return rc;
}


/* Snapshot, then journal, into the state of kc. */
static kc_rc_t
replay_all(kc_t *kc, kl_log_t *journal)
{
    char            path[PATH];
    size_t          len;
    kc_rc_t         rc = KC_OK;
    int64_t         offset, next, end = journal_end();
    static uint8_t  buf[65536];

    if (snapshot_newest(path) >= 0) {
        len = file_read(path, buf, sizeof(buf));
        rc = replay_bytes(kc, buf, len, true);
    }

    offset = kc_applied(kc);

    if (rc == KC_OK && offset < 0) {
        rc = kc_replay_end(kc);         /* a snapshot that was cut */
    }

    while (rc == KC_OK && offset < end) {
        if (kl_read_batches(journal, offset, end, buf, sizeof(buf), &len,
                            &next) != KL_OK || len == 0)
        {
            fail("the journal cannot be read at %lld of %lld",
                 (long long) offset, (long long) end);
        }

        rc = replay_bytes(kc, buf, len, false);
        offset = next;
    }

    return rc;
}


/* What is left of a topic that the journal deletes. */
static void
recover_deleted(void *ctx, kf_uuid_t id)
{
    int      topic = model_topic(id);
    int32_t  p;

    (void) ctx;
    call();

    for (p = 0; topic >= 0 && p < TOPIC_PARTS; p++) {
        if (dir_is_of(part_dir(topic, p), id)) {
            removal_add(-1, 0, topic, p);
        }
    }
}


/* The worker is in the section.  May die half way: then the next one begins
   anew. */
static void
coordinator_recover(worker_t *wk)
{
    kc_rc_t   rc;
    uint32_t  fails = w.alloc_fails;

    trace("recover the coordinator");
    w.recoveries++;
    w.alloc_fails = 0;

    zone_reset();
    w.state = kc_state_create(&wk->kc);

    kl_mark_unbound(w.shared);

    if (kl_bind(w.shared, journal_id, 0) != w.journal_slot) {
        fail("the journal's slot moves");
    }

    kc_recovery_begin(&wk->kc, recover_deleted);
    rc = replay_all(&wk->kc, wk->journal);

    if (rc == KC_OK) {
        rc = kc_replay_end(&wk->kc);
    }

    if (rc != KC_OK) {
        fail("the coordinator cannot be recovered: %d %.*s", rc,
             (int) wk->kc.problem.len,
             wk->kc.problem.data ? (char *) wk->kc.problem.data : "");
    }

    kl_release_unbound(w.shared);

    if (w.broken == BREAK_PID_AT_HAND
        && w.state->producer_id_next >= KC_PID_BLOCK)
    {
        w.state->block_next = w.state->producer_id_next - KC_PID_BLOCK;
    }

    w.alloc_fails = fails;
    w.dirty = false;
}


/*
 * Runs fn under the coordinator's lock.  false: the worker has died in it, and
 * whatever its client wanted is unknown.
 */
static bool
section(worker_t *wk, void (*fn)(worker_t *wk, void *arg), void *arg)
{
    kf_heap_free(&w.heap);
    kf_arena_init(&w.arena, kf_heap_chunk, &w.heap, 1024 * 1024);

    w.die_in = chance(3) && !w.calm ? 1 + rnd(20) : 0;
    wk->section = true;

    if (setjmp(w.death)) {
        trace("worker %d dies in the section", (int) (wk - w.workers));
        w.deaths++;
        w.dirty = true;
        w.die_in = 0;
        worker_stop(wk);

        if (w.broken == BREAK_NO_RECOVERY) {
            w.dirty = false;
        }

        return false;
    }

    if (w.dirty) {
        coordinator_recover(wk);
    }

    kc_attach(&wk->kc, w.state);
    fn(wk, arg);
    groups_woken(wk);

    w.die_in = 0;
    wk->section = false;

    return true;
}


static kc_call_t
call_make(void)
{
    return (kc_call_t) { now(), &w.config, 1, &w.arena, 0 };
}

#endif
