/*
 * Snapshots: the state as records that rebuild it, in an order that depends on
 * the state alone; its hash; and compaction, which builds both from old batches
 * in private memory.
 *
 *   SnapshotStart(offset), Broker, LeaderEpoch, ProducerIds, Config of the
 *   broker, Topic … by name, Group and Offsets … by id, Transaction with its
 *   participants and staged offsets … by id, SnapshotEnd(records between, hash)
 *
 * The hash at the end is that of the state: a snapshot that rebuilds anything
 * else is refused.
 */

#include <stdio.h>
#include <stdlib.h>

#include "kc_int.h"


bool
kc_snapshot_batch(kc_writer_t *w)
{
    size_t  size = kf_batch_end(&w->kc->batch);
    bool    ok = size == 0 || w->sink(w->ctx, w->kc->buf, size);

    kf_batch_begin(&w->kc->batch, w->kc->buf, KC_BATCH_MAX, w->now.wall_ms);

    return ok;
}


bool
kc_snapshot_put(kc_writer_t *w, kf_journal_number_t type, const void *record)
{
    size_t      size;
    uint8_t    *value = w->kc->value;
    kf_bytes_t  v;

    size = kc_record_encode(type, record, value, KC_DECISION_MAX);
    v = (kf_bytes_t) { value, (uint32_t) size };

    /* What one decision could hold, one batch can. */
    kc_assert(size);

    w->records++;

    if (kf_batch_add(&w->kc->batch, kf_null_str, v) == KF_OK) {
        return true;
    }

    if (!kc_snapshot_batch(w)) {
        return false;
    }

    /* What came in a large batch goes into one again, alone. */
    kf_batch_begin(&w->kc->batch, w->kc->buf, KC_DECISION_MAX,
                   w->now.wall_ms);

    if (kf_batch_add(&w->kc->batch, kf_null_str, v) != KF_OK) {
        return false;
    }

    if (w->kc->batch.pos - w->kc->buf > KC_BATCH_MAX) {
        return kc_snapshot_batch(w);
    }

    w->kc->batch.end = w->kc->buf + KC_BATCH_MAX;

    return true;
}


static bool
kc_snapshot_broker(kc_writer_t *w)
{
    bool                       ok = true;
    kc_t                      *kc = w->kc;
    kc_state_t                *st = kc->state;
    kf_broker_record_t         broker;
    kf_config_record_t         config;
    kf_producer_ids_record_t   ids;
    kf_leader_epoch_record_t   epoch;

    if (st->cluster_id_len) {
        broker.cluster_id = kc_cluster_id(kc);
        ok &= kc_snapshot_put(w, KF_BROKER_RECORD, &broker);
    }

    if (st->leader_epoch) {
        epoch.epoch = st->leader_epoch;
        ok &= kc_snapshot_put(w, KF_LEADER_EPOCH_RECORD, &epoch);
    }

    if (st->producer_id_next) {
        ids.next_producer_id = st->producer_id_next;
        ok &= kc_snapshot_put(w, KF_PRODUCER_IDS_RECORD, &ids);
    }

    if (st->broker_configs.count) {
        memset(&config, 0, sizeof(config));
        config.resource_type = KC_RESOURCE_BROKER;
        config.resource_name = kf_str("");
        config.configs = (void *) st->broker_configs.entries;
        config.configs_n = (int32_t) st->broker_configs.count;
        ok &= kc_snapshot_put(w, KF_CONFIG_RECORD, &config);
    }

    return ok && kc_snapshot_resources(w);
}


_Static_assert(sizeof(kf_topic_record_configs_t) == sizeof(kc_config_entry_t)
               && sizeof(kf_config_record_configs_t)
                  == sizeof(kc_config_entry_t), "name and value");


static bool
kc_snapshot_topics(kc_writer_t *w)
{
    kf_topic_record_t  r;
    const kc_topic_t  *t;

    for (t = kc_topic_next(w->kc, kf_null_str); t;
         t = kc_topic_next(w->kc, t->name))
    {
        memset(&r, 0, sizeof(r));
        r.name = t->name;
        r.topic_id = t->id;
        r.partition_count = t->partition_count;
        r.internal = t->internal;
        r.configs = (void *) t->configs;
        r.configs_n = (int32_t) t->config_count;

        if (!kc_snapshot_put(w, KF_TOPIC_RECORD, &r)) {
            return false;
        }
    }

    return true;
}


kc_rc_t
kc_snapshot(kc_t *kc, kc_time_t now, kc_sink_pt sink, void *ctx)
{
    kc_writer_t                 w = { kc, now, sink, ctx, 0 };
    kf_snapshot_end_record_t    last;
    kf_snapshot_start_record_t  first;

    first.offset = kc->state->applied;
    first.format_version = KC_FORMAT_VERSION;

    kc_begin(kc, now);

    if (!kc_snapshot_put(&w, KF_SNAPSHOT_START_RECORD, &first)
        || !kc_snapshot_broker(&w)
        || !kc_snapshot_topics(&w)
        || !kc_snapshot_groups(&w)
        || !kc_snapshot_txns(&w))
    {
        return kc_fail(kc, KC_JOURNAL_FAILED, "a snapshot cannot be written");
    }

    last.record_count = w.records - 1;
    last.hash = (int64_t) kc_hash(kc);

    if (!kc_snapshot_put(&w, KF_SNAPSHOT_END_RECORD, &last)
        || !kc_snapshot_batch(&w))
    {
        return kc_fail(kc, KC_JOURNAL_FAILED, "a snapshot cannot be written");
    }

    return KC_OK;
}


kc_rc_t
kc_snapshot_start_apply(kc_t *kc, const kf_snapshot_start_record_t *r)
{
    kc_state_t  *st = kc->state;

    if (r->format_version > KC_FORMAT_VERSION) {
        return kc_fail(kc, KC_NEWER, "the journal's snapshot has format %d, "
                       "this module reads up to %d: a newer one wrote it",
                       r->format_version, KC_FORMAT_VERSION);
    }

    if (st->applied || st->loading || st->cluster_id_len || st->topics.count
        || st->groups.by_id.count || st->txns.by_id.count || r->offset < 0)
    {
        return kc_fail(kc, KC_CORRUPT, "a snapshot begins where none can");
    }

    st->loading = true;
    st->loading_records = 0;
    st->applied = r->offset;

    return KC_OK;
}


kc_rc_t
kc_snapshot_end_apply(kc_t *kc, const kf_snapshot_end_record_t *r)
{
    kc_state_t  *st = kc->state;

    /* The end itself has been counted too. */
    if (!st->loading || st->loading_records - 1 != r->record_count) {
        return kc_fail(kc, KC_CORRUPT, "the journal's snapshot says %lld "
                       "records but has %lld", (long long) r->record_count,
                       (long long) st->loading_records - 1);
    }

    st->loading = false;

    if (kc_hash(kc) != (uint64_t) r->hash) {
        return kc_fail(kc, KC_CORRUPT, "the journal's snapshot of offset %lld "
                       "does not rebuild the state that it was made of",
                       (long long) st->applied);
    }

    return KC_OK;
}


/* --- hash --------------------------------------------------------------- */

void
kc_mix(uint64_t *h, const void *data, size_t len)
{
    size_t          i;
    const uint8_t  *p = data;

    for (i = 0; i < len; i++) {
        *h = (*h ^ p[i]) * 0x100000001b3;
    }

    *h ^= *h >> 29;
}


void
kc_mix_number(uint64_t *h, int64_t n)
{
    int      i;
    uint8_t  b[8];

    for (i = 0; i < 8; i++) {
        b[i] = (uint8_t) ((uint64_t) n >> (8 * i));
    }

    kc_mix(h, b, sizeof(b));
}


void
kc_mix_str(uint64_t *h, kf_str_t s)
{
    kc_mix_number(h, s.len);
    kc_mix(h, s.data, s.len);
}


void
kc_mix_configs(uint64_t *h, const kc_config_entry_t *e, uint32_t n)
{
    uint32_t  i;

    kc_mix_number(h, n);

    for (i = 0; i < n; i++) {
        kc_mix_str(h, e[i].name);
        kc_mix_str(h, e[i].value);
    }
}


uint64_t
kc_hash(const kc_t *kc)
{
    uint64_t           h = 0xcbf29ce484222325;
    kc_state_t        *st = kc->state;
    const kc_topic_t  *t;

    kc_mix_str(&h, kc_cluster_id(kc));
    kc_mix_number(&h, st->leader_epoch);
    kc_mix_number(&h, st->producer_id_next);
    kc_mix_configs(&h, st->broker_configs.entries, st->broker_configs.count);
    kc_mix_number(&h, st->topics.count);

    for (t = kc_topic_next(kc, kf_null_str); t; t = kc_topic_next(kc, t->name))
    {
        kc_mix_str(&h, t->name);
        kc_mix(&h, t->id.b, sizeof(t->id.b));
        kc_mix_number(&h, t->partition_count);
        kc_mix_number(&h, t->internal);
        kc_mix_configs(&h, t->configs, t->config_count);
    }

    kc_hash_resources(kc, &h);
    kc_hash_groups(kc, &h);
    kc_hash_txns(kc, &h);

    return h;
}


/* --- compaction --------------------------------------------------------- */

static void *
kc_heap_alloc(void *ctx, size_t size)
{
    (void) ctx;

    return malloc(size);
}


static void
kc_heap_free(void *ctx, void *p, size_t size)
{
    (void) ctx;
    (void) size;

    free(p);
}


kc_rc_t
kc_compact(kc_time_t now, kc_next_pt next, kc_sink_pt sink, void *ctx,
    int64_t *offset, char *problem, size_t problem_size)
{
    int             more;
    kc_t            kc;
    size_t          len;
    kc_io_t         io;
    kc_mem_t        mem = { kc_heap_alloc, kc_heap_free, NULL };
    kc_rc_t         rc = KC_OK;
    int64_t         end;
    const uint8_t  *batch;

    memset(&io, 0, sizeof(io));
    problem[0] = '\0';

    if (!kc_init(&kc, mem, io)) {
        return KC_NO_MEMORY;
    }

    if (kc_state_create(&kc) == NULL) {
        kc_done(&kc);
        return KC_NO_MEMORY;
    }

    while (rc == KC_OK && (more = next(ctx, &batch, &len, &end)) != 0) {
        rc = more < 0 ? kc_fail(&kc, KC_JOURNAL_FAILED,
                                "the journal cannot be read")
                      : kc_replay(&kc, batch, len, end);
    }

    if (rc == KC_OK) {
        rc = kc_replay_end(&kc);
    }

    if (rc == KC_OK) {
        *offset = kc_applied(&kc);
        rc = kc_snapshot(&kc, now, sink, ctx);
    }

    if (rc != KC_OK) {
        snprintf(problem, problem_size, "%.*s", (int) kc.problem.len,
                 kc.problem.data ? (const char *) kc.problem.data : "");
    }

    kc_state_free(&kc);
    kc_done(&kc);

    return rc;
}
