/*
 * A decision's records: encoded into one batch, decoded again from those very
 * bytes, with the memory that their replay takes reserved, then appended and
 * replayed.  Live and in recovery a record goes through the same decode,
 * reserve and apply, so the two cannot differ.
 *
 *   kc_begin ──> kc_put … ──> kc_commit ──append failed──> nothing changed
 *                   │             └──────appended────────> kc_apply_records
 *                   └─no memory─> kc_abandon
 */

#include "kc_int.h"


#define KC_RECORD_MEMORY  (64 * 1024 * 1024)    /* decoded, of one batch */


/* Wrappers, since a call through a pointer needs the exact type. */
#define KC_CODEC(name)                                                        \
    static kf_rc_t                                                            \
    kc_decode_##name(kf_reader_t *r, int16_t version, kf_arena_t *a, void *m) \
    {                                                                         \
        return kf_decode_##name##_record(r, version, a, m);                   \
    }                                                                         \
                                                                              \
    static void                                                               \
    kc_encode_##name(kf_writer_t *w, int16_t version, const void *m)          \
    {                                                                         \
        kf_encode_##name##_record(w, version, m);                             \
    }

KC_CODEC(topic)
KC_CODEC(delete_topic)
KC_CODEC(partitions)
KC_CODEC(config)
KC_CODEC(producer_ids)
KC_CODEC(leader_epoch)
KC_CODEC(broker)
KC_CODEC(snapshot_start)
KC_CODEC(snapshot_end)
KC_CODEC(group)
KC_CODEC(group_assignment)
KC_CODEC(group_member)
KC_CODEC(delete_group)
KC_CODEC(offsets)
KC_CODEC(offsets_delete)
KC_CODEC(transaction)
KC_CODEC(transaction_add)
KC_CODEC(transaction_offsets)
KC_CODEC(transaction_end)
KC_CODEC(transaction_complete)
KC_CODEC(delete_transaction)


typedef struct {
    size_t    size;
    int16_t   version;              /* that we write; the newest we read */
    kf_rc_t (*decode)(kf_reader_t *r, int16_t version, kf_arena_t *a, void *m);
    void    (*encode)(kf_writer_t *w, int16_t version, const void *m);
} kc_codec_t;

#define KC_ENTRY(number, name, version)                                       \
    [number] = { sizeof(kf_##name##_record_t), version, kc_decode_##name,     \
                 kc_encode_##name }

static const kc_codec_t  kc_codecs[] = {
    KC_ENTRY(KF_TOPIC_RECORD, topic, 0),
    KC_ENTRY(KF_DELETE_TOPIC_RECORD, delete_topic, 0),
    KC_ENTRY(KF_PARTITIONS_RECORD, partitions, 0),
    KC_ENTRY(KF_CONFIG_RECORD, config, 0),
    KC_ENTRY(KF_PRODUCER_IDS_RECORD, producer_ids, 0),
    KC_ENTRY(KF_LEADER_EPOCH_RECORD, leader_epoch, 0),
    KC_ENTRY(KF_BROKER_RECORD, broker, 0),
    KC_ENTRY(KF_SNAPSHOT_START_RECORD, snapshot_start, 0),
    KC_ENTRY(KF_SNAPSHOT_END_RECORD, snapshot_end, 0),
    KC_ENTRY(KF_GROUP_RECORD, group, 0),
    KC_ENTRY(KF_GROUP_ASSIGNMENT_RECORD, group_assignment, 0),
    KC_ENTRY(KF_GROUP_MEMBER_RECORD, group_member, 0),
    KC_ENTRY(KF_DELETE_GROUP_RECORD, delete_group, 0),
    KC_ENTRY(KF_OFFSETS_RECORD, offsets, 0),
    KC_ENTRY(KF_OFFSETS_DELETE_RECORD, offsets_delete, 0),
    KC_ENTRY(KF_TRANSACTION_RECORD, transaction, 0),
    KC_ENTRY(KF_TRANSACTION_ADD_RECORD, transaction_add, 0),
    KC_ENTRY(KF_TRANSACTION_OFFSETS_RECORD, transaction_offsets, 0),
    KC_ENTRY(KF_TRANSACTION_END_RECORD, transaction_end, 0),
    KC_ENTRY(KF_TRANSACTION_COMPLETE_RECORD, transaction_complete, 0),
    KC_ENTRY(KF_DELETE_TRANSACTION_RECORD, delete_transaction, 0)
};

#define KC_CODECS  ((int16_t) (sizeof(kc_codecs) / sizeof(kc_codecs[0])))


void
kc_begin(kc_t *kc, kc_time_t now)
{
    kc_records_clear(kc);
    kf_batch_begin(&kc->batch, kc->buf, KC_BATCH_MAX, now.wall_ms);
}


void
kc_begin_large(kc_t *kc, kc_time_t now)
{
    kc_records_clear(kc);
    kf_batch_begin(&kc->batch, kc->buf, KC_DECISION_MAX, now.wall_ms);
}


size_t
kc_record_encode(kf_journal_number_t type, const void *record, uint8_t *buf,
    size_t size)
{
    kf_writer_t        w;
    const kc_codec_t  *codec = &kc_codecs[type];

    kf_writer_count(&w);
    codec->encode(&w, codec->version, record);

    if (w.size + 4 > size) {
        return 0;
    }

    kf_writer_init(&w, buf, NULL);
    kf_write_i16(&w, (int16_t) type);
    kf_write_i16(&w, codec->version);
    codec->encode(&w, codec->version, record);

    return w.size;
}


kc_rc_t
kc_put(kc_t *kc, kf_journal_number_t type, const void *record)
{
    size_t               size;
    uint8_t             *value = kc->value;
    const uint8_t       *pos;
    kf_record_t          added;
    kf_batch_builder_t   before = kc->batch;

    size = kc_record_encode(type, record, value, KC_DECISION_MAX);

    if (size == 0
        || kf_batch_add(&kc->batch, kf_null_str,
                        (kf_bytes_t) { value, (uint32_t) size })
           != KF_OK)
    {
        kc->batch = before;
        return KC_TOO_LARGE;
    }

    pos = before.pos;
    kc_assert(kf_record_next(&pos, kc->batch.pos, &added) == KF_OK);

    return kc_record_take(kc, added.value);
}


static bool
kc_record_reserve(kc_t *kc, kc_record_t *rec)
{
    switch (rec->type) {

    case KF_TOPIC_RECORD:
        return kc_topic_reserve(kc, rec->body);

    case KF_PARTITIONS_RECORD:
        return kc_partitions_reserve(kc, rec->body);

    case KF_CONFIG_RECORD:
        return kc_configs_reserve(kc, rec->body);

    case KF_GROUP_RECORD:
        return kc_group_reserve(kc, rec->body);

    case KF_GROUP_ASSIGNMENT_RECORD:
        return kc_group_assignment_reserve(kc, rec->body);

    case KF_GROUP_MEMBER_RECORD:
        return kc_group_member_reserve(kc, rec->body);

    case KF_OFFSETS_RECORD:
        return kc_offsets_reserve(kc, rec->body, &rec->plan);

    case KF_TRANSACTION_RECORD:
        return kc_txn_reserve(kc, rec->body, &rec->plan);

    case KF_TRANSACTION_ADD_RECORD:
        return kc_txn_add_reserve(kc, rec->body, &rec->plan);

    case KF_TRANSACTION_OFFSETS_RECORD:
        return kc_staged_reserve(kc, rec->body, &rec->plan);

    case KF_TRANSACTION_END_RECORD:
        return kc_txn_end_reserve(kc, rec->body, &rec->plan);

    default:
        return true;
    }
}


kc_rc_t
kc_record_take(kc_t *kc, kf_bytes_t value)
{
    int16_t                   type, version;
    kf_rc_t                   rc;
    kc_record_t              *rec;
    kf_reader_t               r;
    const kf_journal_type_t  *jt;

    if (value.data == NULL) {
        return kc_fail(kc, KC_CORRUPT, "a record of the journal is null");
    }

    kf_reader_init(&r, value.data, value.len);
    type = kf_read_i16(&r);
    version = kf_read_i16(&r);

    if (r.rc != KF_OK || type < 1) {
        return kc_fail(kc, KC_CORRUPT, "a record of the journal is not one");
    }

    if (type >= KC_CODECS) {
        return kc_fail(kc, KC_NEWER, "the journal has a record of type %d that "
                       "this version does not know: a newer module wrote it",
                       type);
    }

    jt = kf_journal_type(type);

    if (version < 0 || version > kc_codecs[type].version) {
        return kc_fail(kc, KC_NEWER, "the journal has %s in version %d, this "
                       "module reads up to %d: a newer one wrote it",
                       jt ? jt->name : "a record", version,
                       kc_codecs[type].version);
    }

    if (kc->records == NULL) {
        kf_arena_init(&kc->arena, kf_heap_chunk, &kc->heap, KC_RECORD_MEMORY);
    }

    rec = kf_arena_alloc(&kc->arena, sizeof(kc_record_t));
    if (rec == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the journal's records");
    }

    rec->next = NULL;
    rec->plan = NULL;
    rec->type = type;
    rec->body = kf_arena_array(&kc->arena, 1, kc_codecs[type].size);

    *kc->records_tail = rec;
    kc->records_tail = &rec->next;

    if (rec->body == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the journal's records");
    }

    rc = kc_codecs[type].decode(&r, version, &kc->arena, rec->body);

    if (rc == KF_NO_MEMORY) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the journal's records");
    }

    if (rc != KF_OK) {
        return kc_fail(kc, KC_CORRUPT, "%s of the journal is malformed",
                       jt ? jt->name : "a record");
    }

    if (!kc_record_reserve(kc, rec)) {
        return kc_fail(kc, KC_NO_MEMORY, "the broker's zone is full: "
                       "raise the \"zone\" directive's size");
    }

    return KC_OK;
}


void
kc_records_clear(kc_t *kc)
{
    kc->records = NULL;
    kc->records_tail = &kc->records;
    kf_heap_free(&kc->heap);
    kc_unreserve(kc);
}


void
kc_scratch(kc_t *kc, kf_arena_t *arena, size_t limit)
{
    kf_arena_init(arena, kf_heap_chunk, &kc->scratch, limit);
}


void
kc_scratch_done(kc_t *kc)
{
    kf_heap_free(&kc->scratch);
}


void
kc_abandon(kc_t *kc)
{
    kc_records_clear(kc);
}


kc_rc_t
kc_commit(kc_t *kc, int64_t *end)
{
    size_t   size;
    int64_t  at;
    kc_rc_t  rc;

    size = kf_batch_end(&kc->batch);

    if (size == 0) {
        kc_abandon(kc);
        return KC_OK;
    }

    if (kc->io.append(kc->io.ctx, kc->buf, size, &at) != 0) {
        kc_abandon(kc);
        return kc_fail(kc, KC_JOURNAL_FAILED, "the journal cannot be written");
    }

    /* Reserved and decided on this very state: only a bug could fail it. */
    rc = kc_apply_records(kc, at);
    kc_assert(rc == KC_OK);

    kc_records_clear(kc);
    *end = at;

    return KC_OK;
}
