/*
 * The comparison of the broker with the model: M1 to M4 and M7.
 */

#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim_boot.h"

#define SCAN_PIDS  512

static uint32_t  scans;
static uint32_t  scanned[IDS];          /* the last scan that met it */

typedef struct {
    int       topic;
    int32_t   partition;
    int64_t   next;                     /* offset that has to come */
    mpart_t  *model;
    int64_t   pids[SCAN_PIDS];
    int32_t   seqs[SCAN_PIDS];          /* last of each */
    int       pids_n;
} scan_t;


/* Reads a slice and calls records_each(); the bytes read. */
static size_t
read_slice(kl_log_t *log, int64_t from, int64_t upto, uint32_t max,
    int64_t *next, void (*visit)(void *ctx, const kf_batch_t *b,
    int64_t offset, uint64_t id), void *ctx)
{
    size_t          len;
    kl_rc_t         rc;
    kl_slice_t      s;
    static uint8_t  buf[65536];

    rc = kl_read(log, from, upto, max, true, &s);

    if (rc != KL_OK) {
        fail("a read of %lld up to %lld answers %d", (long long) from,
             (long long) upto, rc);
    }

    if (s.len == 0) {
        return 0;
    }

    len = s.len;

    if (len > sizeof(buf) || pread(s.fd, buf, len, s.pos) != (ssize_t) len) {
        fail("a slice of %u bytes cannot be read", s.len);
    }

    *next = s.next_offset;
    kl_file_unref(s.file);
    records_each(buf, len, visit, ctx);

    return len;
}


static void
scan_record(void *ctx, const kf_batch_t *b, int64_t offset, uint64_t id)
{
    int          i;
    scan_t      *s = ctx;
    int32_t      seq;
    const char  *name = mtopics[s->topic].name;

    if (offset != s->next) {
        fail("%s-%d has offset %lld where %lld comes next", name,
             s->partition, (long long) offset, (long long) s->next);
    }

    s->next++;

    if (id >= IDS || scanned[id] == scans) {
        fail("M3: %s-%d has record %llu twice, now at offset %lld", name,
             s->partition, (unsigned long long) id, (long long) offset);
    }

    scanned[id] = scans;

    if (s->model->acked[offset] && s->model->acked[offset] != id) {
        fail("M1: %s-%d offset %lld has record %llu, %llu was acknowledged",
             name, s->partition, (long long) offset, (unsigned long long) id,
             (unsigned long long) s->model->acked[offset]);
    }

    if (s->model->seen[offset] && s->model->seen[offset] != id) {
        fail("M2: %s-%d offset %lld has record %llu, %llu was seen", name,
             s->partition, (long long) offset, (unsigned long long) id,
             (unsigned long long) s->model->seen[offset]);
    }

    if (b->producer_id < 0) {
        return;
    }

    seq = b->base_sequence + (int32_t) (offset - b->base_offset);

    for (i = 0; i < s->pids_n && s->pids[i] != b->producer_id; i++) {
        /* void */
    }

    if (i == s->pids_n) {
        if (i == SCAN_PIDS) {
            return;
        }

        s->pids[s->pids_n++] = b->producer_id;

    } else if (seq != s->seqs[i] + 1) {
        fail("M3: %s-%d offset %lld: producer %lld goes from sequence %d to %d",
             name, s->partition, (long long) offset,
             (long long) b->producer_id, s->seqs[i], seq);
    }

    s->seqs[i] = seq;
}


static void
check_partition(worker_t *wk, int topic, int32_t partition, int32_t slot)
{
    int64_t       o;
    kl_log_t     *log;
    kl_offsets_t  now_at;
    static scan_t  s;

    removals_finish(wk, topic);

    log = worker_log(wk, slot, incarnation(slot), topic, partition);
    s.topic = topic;
    s.partition = partition;
    s.next = 0;
    scans++;
    s.pids_n = 0;
    s.model = model_part(topic, partition);

    kl_snapshot(kl_part(w.shared, slot), &now_at);

    if (now_at.state == KL_OPEN) {
        for (o = 0; o < now_at.log_end; ) {
            if (read_slice(log, o, now_at.log_end, 65536, &o, scan_record, &s)
                == 0)
            {
                fail("%s ends at %lld instead of %lld",
                     part_dir(topic, partition), (long long) o,
                     (long long) now_at.log_end);
            }
        }
    }

    for (o = s.next; o < OFFSETS; o++) {
        if (s.model->acked[o]) {
            fail("M1: %s lost record %llu of offset %lld, which was "
                 "acknowledged", part_dir(topic, partition),
                 (unsigned long long) s.model->acked[o], (long long) o);
        }

        if (s.model->seen[o]) {
            fail("M2: %s lost record %llu of offset %lld, which was seen",
                 part_dir(topic, partition),
                 (unsigned long long) s.model->seen[o], (long long) o);
        }
    }
}


static void *
heap_alloc(void *ctx, size_t size)
{
    (void) ctx;

    return malloc(size);
}


static void
heap_free(void *ctx, void *p, size_t size)
{
    (void) ctx;
    (void) size;

    free(p);
}


/* M7, and the coordinator's own invariants. */
static void
check_state(worker_t *wk)
{
    kc_t         other;
    kc_rc_t      rc;
    kc_io_t      io;
    uint64_t     hash;
    const char  *problem = kc_check(&wk->kc);

    if (problem) {
        fail("the coordinator's invariant %s", problem);
    }

    memset(&io, 0, sizeof(io));

    if (!kc_init(&other, (kc_mem_t) { heap_alloc, heap_free, NULL }, io)
        || kc_state_create(&other) == NULL)
    {
        fail("simulator: no memory");
    }

    rc = replay_all(&other, wk->journal);
    hash = rc == KC_OK ? kc_hash(&other) : 0;

    kc_state_free(&other);
    kc_done(&other);

    if (rc != KC_OK) {
        fail("M7: the journal cannot be replayed: %d", rc);
    }

    if (hash != kc_hash(&wk->kc)) {
        fail("M7: the state's hash is %016llx, its journal's %016llx",
             (unsigned long long) kc_hash(&wk->kc), (unsigned long long) hash);
    }
}


static void
check_section(worker_t *wk, void *arg)
{
    int                i, topic;
    bool               deep = *(bool *) arg;
    int32_t            p;
    const kc_topic_t  *t;

    check_state(wk);

    for (t = kc_topic_next(&wk->kc, kf_null_str); t;
         t = kc_topic_next(&wk->kc, t->name))
    {
        topic = model_topic(t->id);

        if (topic < 0) {
            fail("M4: nobody created topic %.*s", (int) t->name.len,
                 t->name.data);
        }

        if (mtopics[topic].delete_acked) {
            fail("M4: topic %s is back after its deletion was answered",
                 mtopics[topic].name);
        }

        /* transactions have their own checks */
        if (strncmp(mtopics[topic].name, "txn-", 4) == 0) {
            continue;
        }

        for (p = 0; deep && p < t->partition_count; p++) {
            check_partition(wk, topic, p, t->slots[p]);
        }
    }

    for (i = 0; i < mtopics_n; i++) {
        if (mtopics[i].acked && !mtopics[i].delete_asked
            && kc_topic_by_id(&wk->kc, mtopics[i].id) == NULL)
        {
            fail("M4: topic %s is lost, which answers have shown",
                 mtopics[i].name);
        }
    }
}


/* deep: every record of every partition as well. */
static void
check_all(bool deep)
{
    while (!section(any_worker(), check_section, &deep)) { /* again */ }
}

#endif
