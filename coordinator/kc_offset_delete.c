/*
 * OffsetDelete: an admin removes committed offsets, but none of a topic that
 * the group's members subscribe to.
 */

#include "kc_group_int.h"

typedef kf_offset_delete_response_topics_t  kc_deleted_topic_t;


/* Answers for a topic, and adds what can be deleted to the record. */
static bool
kc_delete_offsets(kc_t *kc, kc_call_t *call, const kc_group_t *g,
    const kc_subscription_t *s, const kf_offset_delete_request_topics_t *in,
    kc_deleted_topic_t *out, kf_offsets_delete_record_t *r)
{
    int32_t                             i;
    int16_t                             error = KF_ERR_NONE;
    const kc_topic_t                   *topic;
    const kc_group_topic_t             *t = NULL;
    kf_offsets_delete_record_topics_t  *rt;

    out->name = in->name;
    out->partitions_n = in->partitions_n;

    if (in->partitions_n == 0) {
        return true;
    }

    rt = &r->topics[r->topics_n];
    rt->partitions_n = 0;
    rt->partitions = kf_arena_array(call->arena, (size_t) in->partitions_n,
                                    sizeof(int32_t));
    out->partitions = kf_arena_array(call->arena, (size_t) in->partitions_n,
                               sizeof(kf_offset_delete_response_partitions_t));

    if (out->partitions == NULL || rt->partitions == NULL) {
        return false;
    }

    topic = kc_topic_by_name(kc, in->name);

    if (topic == NULL) {
        error = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;

    } else if (kc_subscribed(s, in->name)) {
        error = KF_ERR_GROUP_SUBSCRIBED_TO_TOPIC;

    } else {
        t = kc_offsets_of(g, topic->id);
        rt->topic_id = topic->id;
    }

    for (i = 0; i < in->partitions_n; i++) {
        out->partitions[i].partition_index = in->partitions[i].partition_index;
        out->partitions[i].error_code = error;

        if (topic && (in->partitions[i].partition_index < 0
                      || in->partitions[i].partition_index
                         >= topic->partition_count))
        {
            out->partitions[i].error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        }

        if (t && (kc_offset_find(t, in->partitions[i].partition_index)
                  || kc_staged_any(t, in->partitions[i].partition_index)))
        {
            rt->partitions[rt->partitions_n++] =
                                             in->partitions[i].partition_index;
        }
    }

    r->topics_n += rt->partitions_n > 0;

    return true;
}


static kc_rc_t
kc_delete_decide(kc_t *kc, kc_call_t *call, const kc_group_t *g,
    const kc_subscription_t *s, const kf_offset_delete_request_t *req,
    kf_offset_delete_response_t *rsp)
{
    int32_t                     i;
    kc_rc_t                     rc;
    kf_offsets_delete_record_t  r;

    memset(&r, 0, sizeof(r));
    r.group_id = req->group_id;
    r.topics = kf_arena_array(call->arena, (size_t) req->topics_n,
                              sizeof(*r.topics));
    rsp->topics = kf_arena_array(call->arena, (size_t) req->topics_n,
                                 sizeof(kc_deleted_topic_t));

    if (r.topics == NULL || rsp->topics == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->topics_n = req->topics_n;

    for (i = 0; i < req->topics_n; i++) {
        if (!kc_delete_offsets(kc, call, g, s, &req->topics[i],
                               &rsp->topics[i], &r))
        {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }
    }

    if (r.topics_n == 0) {
        return KC_OK;
    }

    kc_begin_large(kc, call->now);
    rc = kc_put(kc, KF_OFFSETS_DELETE_RECORD, &r);

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}


kc_rc_t
kc_offset_delete(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_delete_request_t *req, kf_offset_delete_response_t *rsp)
{
    kc_rc_t             rc;
    const kc_group_t   *g = kc_group_find(kc, req->group_id);
    kc_subscription_t   s;

    (void) version;

    memset(rsp, 0, sizeof(kf_offset_delete_response_t));
    call->wait = g ? g->changed : kc_group_absent(kc);

    if (kc_topics_changed(kc) > call->wait) {
        call->wait = kc_topics_changed(kc);
    }

    if (req->group_id.len == 0) {
        rsp->error_code = KF_ERR_INVALID_GROUP_ID;

    } else if (g == NULL) {
        rsp->error_code = KF_ERR_GROUP_ID_NOT_FOUND;

    } else if (g->state != KC_GROUP_EMPTY && !kc_group_of_consumers(g)) {
        rsp->error_code = KF_ERR_NON_EMPTY_GROUP;
    }

    if (rsp->error_code || req->topics_n == 0) {
        return KC_OK;
    }

    if (kc_subscription_of(kc, g, &s)) {
        rc = kc_delete_decide(kc, call, g, &s, req, rsp);

    } else {
        rc = kc_fail(kc, KC_NO_MEMORY, "no memory for the subscriptions");
    }

    kc_scratch_done(kc);

    return rc;
}
