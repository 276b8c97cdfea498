/*
 * Snapshots of the journal; starting, stopping, and the power cut.
 */

#ifndef SIM_BOOT_H
#define SIM_BOOT_H

#include "sim_broker.h"


/* --- snapshots of the journal --------------------------------------------- */

typedef struct {
    worker_t  *wk;
    size_t     snap_len;
    size_t     snap_at;
    int64_t    offset;
    int64_t    end;
    size_t     len;
    size_t     at;
    uint8_t    snap[65536];
    uint8_t    buf[65536];
    uint8_t    out[65536];
    size_t     out_len;
} compact_t;

static compact_t  compaction;


static int
compact_next(void *ctx, const uint8_t **batch, size_t *len, int64_t *end)
{
    compact_t   *c = ctx;
    kf_batch_t   b;

    if (c->snap_at < c->snap_len) {
        if (kf_batch_header(c->snap + c->snap_at, c->snap_len - c->snap_at, &b)
            != KF_OK)
        {
            return -1;
        }

        *batch = c->snap + c->snap_at;
        *len = b.size;
        *end = -1;
        c->snap_at += b.size;

        return 1;
    }

    if (c->at == c->len) {
        if (c->offset >= c->end) {
            return 0;
        }

        if (kl_read_batches(c->wk->journal, c->offset, c->end, c->buf,
                            sizeof(c->buf), &c->len, &c->offset) != KL_OK
            || c->len == 0)
        {
            return -1;
        }

        c->at = 0;
    }

    kf_batch_header(c->buf + c->at, c->len - c->at, &b);
    *batch = c->buf + c->at;
    *len = b.size;
    *end = kf_batch_next_offset(&b);
    c->at += b.size;

    return 1;
}


static bool
compact_sink(void *ctx, uint8_t *batch, size_t len)
{
    compact_t  *c = ctx;

    if (len > sizeof(c->out) - c->out_len) {
        return false;
    }

    memcpy(c->out + c->out_len, batch, len);
    c->out_len += len;

    return true;
}


static void
compact(worker_t *wk)
{
    int         fd;
    char        old[PATH], path[PATH], problem[256], from[2 * PATH];
    kc_rc_t     rc;
    int64_t     before, offset;
    compact_t  *c = &compaction;

    memset(c, 0, offsetof(compact_t, snap));
    c->out_len = 0;
    c->wk = wk;

    before = snapshot_newest(old);

    if (before >= 0) {
        c->snap_len = file_read(old, c->snap, sizeof(c->snap));
    }

    c->offset = before > 0 ? before : 0;
    c->end = kl_active_base(wk->journal);

    /* What a snapshot covers has to be durable before it can replace it. */
    if (c->end <= c->offset || c->end > journal_flushed()) {
        return;
    }

    rc = kc_compact(now(), compact_next, compact_sink, c, &offset, problem,
                    sizeof(problem));

    if (rc != KC_OK) {
        fail("the journal cannot be compacted: %d %s", rc, problem);
    }

    fd = open(full("snapshot.tmp"), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || write(fd, c->out, c->out_len) != (ssize_t) c->out_len) {
        fail("simulator: no snapshot");
    }

    close(fd);
    snprintf(path, sizeof(path), "journal.%020lld", (long long) offset);
    snprintf(from, sizeof(from), "%s", full("snapshot.tmp"));

    if (chance(10)) {
        return;                         /* a worker that goes no further */
    }

    if (rename(from, full(path)) != 0) {
        fail("simulator: no rename");
    }

    trace("snapshot of offset %lld", (long long) offset);
    w.snapshots++;

    if (chance(10)) {
        return;
    }

    if (kl_drop_below(wk->journal, offset) != KL_OK) {
        fail("the journal cannot drop what a snapshot covers");
    }

    if (before >= 0) {
        unlink(full(old));
    }
}


/* --- start and stop ------------------------------------------------------- */

static void
boot_topics(worker_t *wk, bool *truncated)
{
    int                slot_topic;
    bool               cut;
    int32_t            p;
    kl_rc_t            rc;
    kl_log_t          *log;
    const kc_topic_t  *t;

    for (t = kc_topic_next(&wk->kc, kf_null_str); t;
         t = kc_topic_next(&wk->kc, t->name))
    {
        for (p = 0; p < t->partition_count; p++) {
            slot_topic = w.slot_topic[t->slots[p]];
            log = worker_log(wk, t->slots[p], incarnation(t->slots[p]),
                             slot_topic, p);

            rc = kl_recover(log, kc_leader_epoch(&wk->kc), &topic_config,
                            &cut);

            if (rc != KL_OK) {
                fail("%s cannot be recovered: %d", part_dir(slot_topic, p),
                     rc);
            }

            *truncated |= cut;
            disk_synced(part_dir(slot_topic, p), ".txnindex");
        }
    }
}


/* Directories of topics that are no more, as the module sweeps them. */
static void
boot_sweep(worker_t *wk)
{
    int               i, n, k;
    char             *dash;
    struct stat       st;
    static char       names[512][PATH / 2];
    const kc_topic_t *t;

    n = list_dir(".", names, 512);

    for (i = 0; i < n; i++) {
        if (stat(full(names[i]), &st) != 0 || !S_ISDIR(st.st_mode)
            || strcmp(names[i], JOURNAL_DIR) == 0)
        {
            continue;
        }

        if (ends_with(names[i], "-delete")) {
            remove_tree(names[i]);
            continue;
        }

        dash = strrchr(names[i], '-');
        t = kc_topic_by_name(&wk->kc, (kf_str_t) { (uint8_t *) names[i],
                                        (uint32_t) (dash - names[i]) });

        if (t && dir_is_of(names[i], t->id)) {
            continue;
        }

        for (k = 0; k < mtopics_n; k++) {
            if ((t == NULL || !kf_uuid_eq(mtopics[k].id, t->id))
                && dir_is_of(names[i], mtopics[k].id))
            {
                remove_tree(names[i]);
                break;
            }
        }
    }
}


static void
boot_section(worker_t *wk, void *arg)
{
    int64_t  wait;

    *(bool *) arg = kc_bootstrap(&wk->kc, now(), &wait) == KC_OK;
}


static void
boot(bool clean)
{
    int        i;
    bool       cut, named = false, truncated = false;
    size_t     size = kl_shared_size(PARTS, PRODUCERS);
    kl_rc_t    rc;
    int64_t    wait;
    worker_t  *wk = &w.workers[0];

    memset(w.removals, 0, sizeof(w.removals));

    size = (size + 63) & ~(size_t) 63;
    w.shared_mem = aligned_alloc(64, size);
    memset(w.shared_mem, 0, size);
    w.shared = kl_shared_init(w.shared_mem, PARTS, PRODUCERS);
    w.journal_slot = kl_bind(w.shared, journal_id, 0);
    w.dirty = true;

    for (i = 0; i < PARTS; i++) {
        w.slot_topic[i] = -1;
    }

    for (i = 0; i < WORKERS; i++) {
        worker_start(&w.workers[i]);
    }

    rc = kl_recover(wk->journal, 0, &journal_config, &cut);

    if (rc != KL_OK) {
        fail("the journal cannot be opened: %d", rc);
    }

    disk_synced(JOURNAL_DIR, NULL);
    w.die_in = 0;
    coordinator_recover(wk);
    kc_attach(&wk->kc, w.state);

    boot_sweep(wk);
    removals_synced(wk);

    /* The new epoch is durable before anything is written under it. */
    if (!clean && w.broken != BREAK_SAME_EPOCH) {
        while (kc_raise_leader_epoch(&wk->kc, now(), &wait) != KC_OK) { }
        journal_flush(wk);
    }

    boot_topics(wk, &truncated);
    w.truncated += truncated;

    if (clean && (truncated || cut)) {
        fail("a clean stop leaves something to cut off");
    }

    while (!named) {
        if (!section(wk, boot_section, &named)) {
            worker_start(wk);
        }
    }
}


static void
halt(void)
{
    int  i;

    for (i = 0; i < WORKERS; i++) {
        if (w.workers[i].alive) {
            worker_stop(&w.workers[i]);
        }
    }

    zone_reset();
    free(w.shared_mem);
    w.shared_mem = NULL;
}


static void
stop_section(worker_t *wk, void *arg)
{
    int32_t            p;
    kl_log_t          *log;
    const kc_topic_t  *t;

    (void) arg;

    for (t = kc_topic_next(&wk->kc, kf_null_str); t;
         t = kc_topic_next(&wk->kc, t->name))
    {
        for (p = 0; p < t->partition_count; p++) {
            log = worker_log(wk, t->slots[p], incarnation(t->slots[p]),
                             w.slot_topic[t->slots[p]], p);
            removals_finish(wk, w.slot_topic[t->slots[p]]);

            if (kl_checkpoint(log, true) != KL_OK) {
                fail("no clean checkpoint");
            }

            disk_synced(part_dir(w.slot_topic[t->slots[p]], p), "index");
        }
    }

    if (kl_checkpoint(wk->journal, true) != KL_OK) {
        fail("no clean checkpoint of the journal");
    }

    disk_synced(JOURNAL_DIR, "index");
}


static void
clean_restart(void)
{
    trace("clean stop and start");
    w.restarts++;

    while (!section(any_worker(), stop_section, NULL)) { }

    halt();
    boot(true);
}


static void
crash(void)
{
    trace("power cut");
    w.crashes++;

    halt();
    removals_lost();
    power_cut();
    boot(false);
}

#endif
