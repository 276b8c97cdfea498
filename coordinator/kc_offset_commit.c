/*
 * OffsetCommit, and the question whether a member may commit at all, which
 * TxnOffsetCommit asks too.
 */

#include <stdlib.h>

#include "kc_group_int.h"
#include "kc_config_def.h"


int16_t
kc_group_check_commit(kc_t *kc, kf_str_t group_id, int32_t generation,
    kf_str_t member_id, kf_str_t instance_id, int16_t version,
    bool transactional)
{
    int16_t       error;
    kc_group_t   *g = kc_group_find(kc, group_id);
    kc_member_t  *m;

    if (g == NULL) {
        if (generation < 0) {
            return KF_ERR_NONE;
        }

        return version >= (transactional ? 6 : 9) ? KF_ERR_GROUP_ID_NOT_FOUND
                                                  : KF_ERR_ILLEGAL_GENERATION;
    }

    if (generation < 0 && g->state == KC_GROUP_EMPTY) {
        return KF_ERR_NONE;
    }

    if (generation >= 0 || member_id.len || instance_id.data) {
        error = kc_member_validate(g, member_id, instance_id, &m);

        if (error) {
            return error;
        }

        if (generation != g->generation) {
            return KF_ERR_ILLEGAL_GENERATION;
        }

    } else if (!transactional) {
        return KF_ERR_UNKNOWN_MEMBER_ID;
    }

    return !transactional && g->state == KC_GROUP_COMPLETING
           ? KF_ERR_REBALANCE_IN_PROGRESS : KF_ERR_NONE;
}


static int
kc_commit_order(const void *one, const void *two)
{
    int                       c;
    const kc_commit_entry_t  *a = one, *b = two;

    c = memcmp(a->topic_id.b, b->topic_id.b, sizeof(a->topic_id.b));

    if (c == 0) {
        c = a->p->partition_index < b->p->partition_index ? -1
            : a->p->partition_index > b->p->partition_index;
    }

    return c ? c : a->order < b->order ? -1 : 1;
}


int32_t
kc_commit_sort(kc_commit_entry_t *e, int32_t n)
{
    int32_t  i, kept = 0;

    qsort(e, (size_t) n, sizeof(kc_commit_entry_t), kc_commit_order);

    for (i = 0; i < n; i++) {

        if (i + 1 < n && kf_uuid_eq(e[i].topic_id, e[i + 1].topic_id)
            && e[i].p->partition_index == e[i + 1].p->partition_index)
        {
            continue;
        }

        e[kept++] = e[i];
    }

    return kept;
}


/* Fills the record from entries, sorted. */
static bool
kc_commit_record(kc_call_t *call, const kc_commit_entry_t *e, int32_t n,
    int64_t expire, kf_offsets_record_t *r)
{
    int32_t                          i;
    kf_offsets_record_topics_t      *rt = NULL;
    kf_offsets_record_partitions_t  *rp;

    r->topics = kf_arena_array(call->arena, (size_t) n, sizeof(*rt));
    rp = kf_arena_array(call->arena, (size_t) n, sizeof(*rp));

    if (r->topics == NULL || rp == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {

        if (rt == NULL || !kf_uuid_eq(rt->topic_id, e[i].topic_id)) {
            rt = &r->topics[r->topics_n++];
            rt->topic_id = e[i].topic_id;
            rt->partitions = rp;
        }

        rp->index = e[i].p->partition_index;
        rp->offset = e[i].p->committed_offset;
        rp->leader_epoch = e[i].p->committed_leader_epoch;
        rp->commit_timestamp = call->now.wall_ms;
        rp->metadata = e[i].p->committed_metadata.data
                       ? e[i].p->committed_metadata : kf_str("");
        rp->expire_timestamp = expire;
        rp++;
        rt->partitions_n++;
    }

    return true;
}


/* Offsets keep a member's session, except while it waits for assignments. */
static void
kc_commit_alive(kc_t *kc, kc_call_t *call,
    const kf_offset_commit_request_t *req)
{
    kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_member_t  *m;

    if (g && (g->state == KC_GROUP_STABLE || g->state == KC_GROUP_PREPARING)) {
        m = kc_member_find(g, req->member_id);

        if (m) {
            kc_member_alive(kc, g, m, call->now.mono_ms);
        }
    }
}


bool
kc_commit_check(kc_t *kc, kc_call_t *call, bool by_id, int16_t error,
    const kf_offset_commit_request_t *req, kf_offset_commit_response_t *rsp,
    kc_commit_entry_t *entries, int32_t *n)
{
    int32_t                                       i, j;
    int64_t                                       max;
    const kc_topic_t                             *topic;
    kf_offset_commit_response_topics_t           *ot;
    kf_offset_commit_response_partitions_t       *op;
    const kf_offset_commit_request_topics_t      *rt;
    const kf_offset_commit_request_partitions_t  *rp;

    max = kc_broker_config_int(kc, call->config, KC_OFFSET_METADATA_MAX_BYTES);

    for (i = 0; i < req->topics_n; i++) {
        rt = &req->topics[i];
        ot = &rsp->topics[i];
        ot->name = rt->name;
        ot->topic_id = rt->topic_id;
        ot->partitions_n = rt->partitions_n;

        if (rt->partitions_n == 0) {
            continue;
        }

        ot->partitions = kf_arena_array(call->arena, (size_t) rt->partitions_n,
                                        sizeof(*op));
        if (ot->partitions == NULL) {
            return false;
        }

        topic = by_id ? kc_topic_by_id(kc, rt->topic_id)
                      : kc_topic_by_name(kc, rt->name);

        for (j = 0; j < rt->partitions_n; j++) {
            rp = &rt->partitions[j];
            op = &ot->partitions[j];
            op->partition_index = rp->partition_index;

            if (topic == NULL) {
                op->error_code = by_id ? KF_ERR_UNKNOWN_TOPIC_ID
                                       : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;

            } else if (rp->partition_index < 0
                       || rp->partition_index >= topic->partition_count)
            {
                op->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;

            } else if (error) {
                op->error_code = error;

            } else if (rp->committed_metadata.len > max) {
                op->error_code = KF_ERR_OFFSET_METADATA_TOO_LARGE;

            } else {
                entries[*n].topic_id = topic->id;
                entries[*n].order = *n;
                entries[*n].p = rp;
                (*n)++;
            }
        }
    }

    return true;
}


void
kc_commit_too_large(kf_offset_commit_response_t *rsp)
{
    int32_t  i, j;

    for (i = 0; i < rsp->topics_n; i++) {
        for (j = 0; j < rsp->topics[i].partitions_n; j++) {
            if (rsp->topics[i].partitions[j].error_code == KF_ERR_NONE) {
                rsp->topics[i].partitions[j].error_code =
                                              KF_ERR_INVALID_COMMIT_OFFSET_SIZE;
            }
        }
    }
}


kc_rc_t
kc_offset_commit(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_commit_request_t *req, kf_offset_commit_response_t *rsp)
{
    int16_t               error;
    int32_t               i, n = 0;
    int64_t               expire = -1;
    size_t                all = 0;
    kc_rc_t               rc;
    kc_group_t           *g = kc_group_find(kc, req->group_id);
    kc_commit_entry_t    *entries;
    kf_offsets_record_t   r;

    memset(rsp, 0, sizeof(kf_offset_commit_response_t));

    call->wait = g ? g->changed : kc_group_absent(kc);

    if (kc_topics_changed(kc) > call->wait) {
        call->wait = kc_topics_changed(kc);
    }

    for (i = 0; i < req->topics_n; i++) {
        all += (size_t) req->topics[i].partitions_n;
    }

    if (req->topics_n == 0) {
        return KC_OK;
    }

    rsp->topics = kf_arena_array(call->arena, (size_t) req->topics_n,
                                 sizeof(kf_offset_commit_response_topics_t));
    entries = kf_arena_array(call->arena, all, sizeof(kc_commit_entry_t));

    if (rsp->topics == NULL || entries == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->topics_n = req->topics_n;

    error = req->group_id.len > KC_GROUP_ID_MAX
            ? KF_ERR_INVALID_GROUP_ID
            : kc_group_check_commit(kc, req->group_id,
                                    req->generation_id_or_member_epoch,
                                    req->member_id, req->group_instance_id,
                                    version, false);

    if (!kc_commit_check(kc, call, version >= 10, error, req, rsp, entries,
                         &n))
    {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    if (error == KF_ERR_NONE) {
        kc_commit_alive(kc, call, req);
    }

    if (n == 0) {
        return KC_OK;
    }

    if (version <= 4 && req->retention_time_ms >= 0) {
        expire = call->now.wall_ms > INT64_MAX - req->retention_time_ms
                 ? INT64_MAX : call->now.wall_ms + req->retention_time_ms;
    }

    n = kc_commit_sort(entries, n);

    memset(&r, 0, sizeof(r));
    r.group_id = req->group_id;

    if (!kc_commit_record(call, entries, n, expire, &r)) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    kc_begin_large(kc, call->now);
    rc = kc_put(kc, KF_OFFSETS_RECORD, &r);

    if (rc == KC_TOO_LARGE) {
        kc_abandon(kc);
        kc_commit_too_large(rsp);
        return KC_OK;
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}
