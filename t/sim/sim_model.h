/*
 * What the broker has promised, kept in the plainest way, and the comparison of
 * the broker with it.
 *
 *   M1  an acknowledged batch is where the answer said, with its records;
 *   M2  a record that a consumer saw stays what it is, where it is;
 *   M3  a producer's batches lie in the order of their sequence, none twice;
 *   M4  a topic whose creation was answered, or that has records of M1 or M2,
 *       exists until its deletion is asked for; one whose deletion was answered
 *       does not;
 *   M5  a producer id is answered once;
 *   M6  two different records never have the same offset and leader epoch
 *       (KIP-320);
 *   M7  state and journal agree: hash(state) == hash(replay(journal)).
 */

#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim.h"

#define OFFSETS  3000                   /* of one partition, in one run */
#define PIDS     4096
#define IDS      65536                  /* of records, in one run */

typedef struct {
    uint64_t  acked[OFFSETS];           /* id of the record, 0: none */
    uint64_t  seen[OFFSETS];
    uint64_t  written[OFFSETS];         /* last record written there … */
    int32_t   epoch[OFFSETS];           /* … and under which epoch */
    bool      dirty;                    /* something to flush */
} mpart_t;

typedef struct {
    kf_uuid_t  id;
    char       name[16];
    bool       caching;                 /* write.caching */
    bool       acked;                   /* its existence was shown */
    bool       delete_asked;
    bool       delete_acked;
    mpart_t   *parts[TOPIC_PARTS];
} mtopic_t;

static mtopic_t  mtopics[TOPICS];
static int       mtopics_n;

static int64_t   pids[PIDS];            /* those answered */
static int       pids_n;

static uint64_t  next_id;               /* of records, never 0 */
static char      creating_name[16];
static bool      creating_caching;


static void
model_clear(void)
{
    int  i, p;

    for (i = 0; i < mtopics_n; i++) {
        for (p = 0; p < TOPIC_PARTS; p++) {
            free(mtopics[i].parts[p]);
        }
    }

    memset(mtopics, 0, sizeof(mtopics));
    mtopics_n = 0;
    pids_n = 0;
    next_id = 1;
}


static int
model_topic(kf_uuid_t id)
{
    int  i;

    for (i = mtopics_n - 1; i >= 0; i--) {
        if (kf_uuid_eq(mtopics[i].id, id)) {
            return i;
        }
    }

    return -1;
}


/* The model learns of a topic when a decision binds its first partition. */
static int
model_topic_new(kf_uuid_t id)
{
    mtopic_t  *t;

    if (mtopics_n == TOPICS) {
        fail("simulator: too many topics");
    }

    t = &mtopics[mtopics_n];
    t->id = id;
    memcpy(t->name, creating_name, sizeof(t->name));
    t->caching = creating_caching;

    return mtopics_n++;
}


static mpart_t *
model_part(int topic, int32_t partition)
{
    mpart_t  **p = &mtopics[topic].parts[partition];

    if (*p == NULL) {
        *p = calloc(1, sizeof(mpart_t));
    }

    return *p;
}


static void
model_pid(int64_t pid)
{
    int  i;

    for (i = 0; i < pids_n; i++) {
        if (pids[i] == pid) {
            fail("M5: producer id %lld is answered a second time",
                 (long long) pid);
        }
    }

    if (pids_n < PIDS) {
        pids[pids_n++] = pid;
    }
}


static void
model_written(int topic, int32_t partition, int64_t base, int32_t n,
    uint64_t id, int32_t epoch)
{
    int32_t   i;
    mpart_t  *p = model_part(topic, partition);

    if (base + n > OFFSETS || id + (uint64_t) n > IDS) {
        fail("simulator: too many records");
    }

    for (i = 0; i < n; i++) {
        if (p->written[base + i] && p->written[base + i] != id + (uint64_t) i
            && p->epoch[base + i] == epoch)
        {
            fail("M6: %s-%d offset %lld had record %llu and has %llu under "
                 "the same leader epoch %d", mtopics[topic].name, partition,
                 (long long) base + i,
                 (unsigned long long) p->written[base + i],
                 (unsigned long long) id + (uint64_t) i, epoch);
        }

        p->written[base + i] = id + (uint64_t) i;
        p->epoch[base + i] = epoch;
    }

    p->dirty = true;
}


static void
model_acked(int topic, int32_t partition, int64_t base, int32_t n, uint64_t id)
{
    int32_t   i;
    mpart_t  *p = model_part(topic, partition);

    for (i = 0; i < n; i++) {
        if (p->acked[base + i] && p->acked[base + i] != id + (uint64_t) i) {
            fail("M1: %s-%d offset %lld was acknowledged for record %llu and "
                 "is now for %llu", mtopics[topic].name, partition,
                 (long long) base + i,
                 (unsigned long long) p->acked[base + i],
                 (unsigned long long) id + (uint64_t) i);
        }

        p->acked[base + i] = id + (uint64_t) i;
    }

    mtopics[topic].acked = true;
}


static void
model_seen(int topic, int32_t partition, int64_t offset, uint64_t id)
{
    mpart_t  *p = model_part(topic, partition);

    if (p->seen[offset] && p->seen[offset] != id) {
        fail("M2: %s-%d offset %lld was seen as record %llu and is now %llu",
             mtopics[topic].name, partition, (long long) offset,
             (unsigned long long) p->seen[offset], (unsigned long long) id);
    }

    p->seen[offset] = id;
    mtopics[topic].acked = true;
}


/* --- records ------------------------------------------------------------- */

/* A batch of n records whose values are the ids from id on. */
static size_t
batch_make(uint8_t *buf, size_t size, int64_t pid, int32_t seq, int32_t n,
    uint64_t id)
{
    int                 i, k;
    size_t              len;
    uint8_t             value[24];
    uint32_t            crc;
    kf_batch_builder_t  bb;

    kf_batch_begin(&bb, buf, size, now().wall_ms);

    for (i = 0; i < n; i++, id++) {
        memset(value, (int) id, sizeof(value));

        for (k = 0; k < 8; k++) {
            value[k] = (uint8_t) (id >> (8 * k));
        }

        kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, sizeof(value) });
    }

    len = kf_batch_end(&bb);

    for (k = 0; k < 8; k++) {
        buf[43 + k] = (uint8_t) ((uint64_t) pid >> (56 - 8 * k));
    }

    buf[51] = pid < 0 ? 0xff : 0;
    buf[52] = pid < 0 ? 0xff : 0;

    if (pid < 0) {
        seq = -1;
    }

    for (k = 0; k < 4; k++) {
        buf[53 + k] = (uint8_t) ((uint32_t) seq >> (24 - 8 * k));
    }

    crc = kf_crc32c(0, buf + 21, len - 21);

    for (k = 0; k < 4; k++) {
        buf[17 + k] = (uint8_t) (crc >> (24 - 8 * k));
    }

    return len;
}


static uint64_t
record_id(const kf_record_t *r)
{
    int       k;
    uint64_t  id = 0;

    if (r->value.len != 24) {
        fail("a record has %u bytes", r->value.len);
    }

    for (k = 0; k < 8; k++) {
        id |= (uint64_t) r->value.data[k] << (8 * k);
    }

    return id;
}


/* Calls visit for each record of whole batches in buf. */
static void
records_each(const uint8_t *buf, size_t len,
    void (*visit)(void *ctx, const kf_batch_t *b, int64_t offset, uint64_t id),
    void *ctx)
{
    kf_batch_t      b;
    kf_record_t     r;
    const uint8_t  *pos, *end = buf + len;

    while (buf < end) {
        if (kf_batch_header(buf, (size_t) (end - buf), &b) != KF_OK
            || b.size > (size_t) (end - buf) || !kf_batch_crc_ok(buf, &b))
        {
            fail("a read gives a bad batch");
        }

        pos = buf + KF_BATCH_HEADER;

        while (pos < buf + b.size) {
            if (kf_record_next(&pos, buf + b.size, &r) != KF_OK) {
                fail("a read gives a bad record");
            }

            visit(ctx, &b, b.base_offset + r.offset_delta, record_id(&r));
        }

        buf += b.size;
    }
}

#endif
