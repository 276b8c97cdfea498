/*
 * Replay: the only code that changes durable state.
 *
 * A state is empty, then loading (between the first and the last record of a
 * snapshot), then follows the journal:
 *
 *   EMPTY ──SnapshotStart──> LOADING ──SnapshotEnd, hash right──> FOLLOWING
 *     └────────────────a batch that begins at 0────────────────────^
 *
 * What may be trusted of a batch is its CRC; everything else is checked here,
 * against the record's bounds and against the state.
 */

#include "kc_int.h"


static kc_rc_t
kc_broker_apply(kc_t *kc, const kf_broker_record_t *r, int64_t end)
{
    kc_state_t  *st = kc->state;

    if (st->cluster_id_len) {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal names the cluster a second time");
    }

    if (r->cluster_id.len == 0 || r->cluster_id.len > sizeof(st->cluster_id)) {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal's cluster id has %u bytes",
                       r->cluster_id.len);
    }

    memcpy(st->cluster_id, r->cluster_id.data, r->cluster_id.len);
    st->cluster_id_len = r->cluster_id.len;
    st->cluster_id_changed = end;

    return KC_OK;
}


static kc_rc_t
kc_leader_epoch_apply(kc_t *kc, const kf_leader_epoch_record_t *r)
{
    if (r->epoch <= kc->state->leader_epoch) {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal's leader epoch goes from %d to %d",
                       kc->state->leader_epoch, r->epoch);
    }

    kc->state->leader_epoch = r->epoch;

    return KC_OK;
}


static kc_rc_t
kc_record_apply(kc_t *kc, const kc_record_t *rec, int64_t end)
{
    switch (rec->type) {

    case KF_TOPIC_RECORD:
        return kc_topic_apply(kc, rec->body, end);

    case KF_DELETE_TOPIC_RECORD:
        return kc_topic_delete_apply(kc, rec->body, end);

    case KF_PARTITIONS_RECORD:
        return kc_partitions_apply(kc, rec->body, end);

    case KF_CONFIG_RECORD:
        return kc_configs_apply(kc, rec->body, end);

    case KF_PRODUCER_IDS_RECORD:
        return kc_producer_ids_apply(kc, rec->body, end);

    case KF_LEADER_EPOCH_RECORD:
        return kc_leader_epoch_apply(kc, rec->body);

    case KF_BROKER_RECORD:
        return kc_broker_apply(kc, rec->body, end);

    case KF_SNAPSHOT_START_RECORD:
        return kc_snapshot_start_apply(kc, rec->body);

    case KF_SNAPSHOT_END_RECORD:
        return kc_snapshot_end_apply(kc, rec->body);

    case KF_GROUP_RECORD:
        return kc_group_apply(kc, rec->body, end);

    case KF_GROUP_ASSIGNMENT_RECORD:
        return kc_group_assignment_apply(kc, rec->body, end);

    case KF_GROUP_MEMBER_RECORD:
        return kc_group_member_apply(kc, rec->body, end);

    case KF_DELETE_GROUP_RECORD:
        return kc_group_delete_apply(kc, rec->body, end);

    case KF_OFFSETS_RECORD:
        return kc_offsets_apply(kc, rec->body, rec->plan, end);

    case KF_OFFSETS_DELETE_RECORD:
        return kc_offsets_delete_apply(kc, rec->body, end);

    case KF_TRANSACTION_RECORD:
        return kc_txn_apply(kc, rec->body, rec->plan, end);

    case KF_TRANSACTION_ADD_RECORD:
        return kc_txn_add_apply(kc, rec->body, rec->plan, end);

    case KF_TRANSACTION_OFFSETS_RECORD:
        return kc_staged_apply(kc, rec->body, rec->plan, end);

    case KF_TRANSACTION_END_RECORD:
        return kc_txn_end_apply(kc, rec->body, rec->plan, end);

    case KF_TRANSACTION_COMPLETE_RECORD:
        return kc_txn_complete_apply(kc, rec->body, end);

    case KF_DELETE_TRANSACTION_RECORD:
        return kc_txn_delete_apply(kc, rec->body, end);

    default:
        return kc_fail(kc, KC_CORRUPT, "record type %d", rec->type);
    }
}


kc_rc_t
kc_apply_records(kc_t *kc, int64_t end)
{
    kc_rc_t       rc;
    kc_state_t   *st = kc->state;
    kc_record_t  *rec;

    for (rec = kc->records; rec; rec = rec->next) {

        if (st->loading) {
            st->loading_records++;
            end = st->applied;
        }

        rc = kc_record_apply(kc, rec, end);
        if (rc != KC_OK) {
            return rc;
        }
    }

    if (!st->loading && end > st->applied) {
        st->applied = end;
    }

    return KC_OK;
}


static kc_rc_t
kc_snapshot_unfinished(kc_t *kc)
{
    return kc_fail(kc, KC_CORRUPT,
                   "the journal's snapshot of offset %lld has no end",
                   (long long) kc->state->applied);
}


/* May this batch come now?  *skip: the state has it already. */
static kc_rc_t
kc_replay_position(kc_t *kc, const kf_batch_t *b, int64_t end, bool *skip)
{
    int64_t                            start;
    kc_state_t                        *st = kc->state;
    const kf_snapshot_start_record_t  *r;

    *skip = false;

    if (kc->records && kc->records->type == KF_SNAPSHOT_START_RECORD) {
        r = kc->records->body;

        if (end == -1 || end == r->offset) {
            return KC_OK;
        }

        return kc_fail(kc, KC_CORRUPT, "the journal has a snapshot inside");
    }

    if (st->loading) {
        if (end == -1 || end == st->applied) {
            return KC_OK;
        }

        return kc_snapshot_unfinished(kc);
    }

    if (end <= st->applied) {
        *skip = true;
        return KC_OK;
    }

    start = end - b->last_offset_delta - 1;

    if (start != st->applied) {
        return kc_fail(kc, KC_CORRUPT, "the journal goes on at offset %lld, "
                       "but %lld comes next", (long long) start,
                       (long long) st->applied);
    }

    return KC_OK;
}


void
kc_recovery_begin(kc_t *kc, void (*deleted)(void *ctx, kf_uuid_t topic_id))
{
    kc->recovering = true;
    kc->deleted = deleted;
}


kc_rc_t
kc_replay_end(kc_t *kc)
{
    if (kc->state->loading) {
        return kc_snapshot_unfinished(kc);
    }

    if (!kc->recovering) {
        return KC_OK;
    }

    kc->recovering = false;
    kc->deleted = NULL;

    return kc_topics_bind(kc);
}


kc_rc_t
kc_replay(kc_t *kc, const uint8_t *batch, size_t len, int64_t end)
{
    bool            skip = false;
    kc_rc_t         rc;
    kf_batch_t      b;
    kf_record_t     record;
    const uint8_t  *pos, *last;
    int32_t         n;

    if (kf_batch_header(batch, len, &b) != KF_OK || b.size != len
        || !kf_batch_crc_ok(batch, &b)
        || (b.attributes & (KF_ATTR_CODEC | KF_ATTR_CONTROL))
        || b.record_count < 1 || b.last_offset_delta != b.record_count - 1)
    {
        return kc_fail(kc, KC_CORRUPT,
                       "a batch of the journal before offset %lld is damaged",
                       (long long) end);
    }

    kc_records_clear(kc);

    pos = batch + KF_BATCH_HEADER;
    last = batch + len;
    rc = KC_OK;

    for (n = 0; n < b.record_count && rc == KC_OK; n++) {

        if (kf_record_next(&pos, last, &record) != KF_OK) {
            rc = kc_fail(kc, KC_CORRUPT, "a batch of the journal before offset "
                         "%lld has fewer records than it says",
                         (long long) end);
            break;
        }

        rc = kc_record_take(kc, record.value);
    }

    if (rc == KC_OK) {
        rc = kc_replay_position(kc, &b, end, &skip);
    }

    if (rc == KC_OK && !skip) {
        rc = kc_apply_records(kc, end);
    }

    kc_records_clear(kc);

    return rc;
}
