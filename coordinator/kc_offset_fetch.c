/*
 * OffsetFetch: some or all of the committed offsets of one group (up to version
 * 7) or several.
 *
 * The two forms have arrays of different types but of one shape; the work is
 * done on kc_fetched_*_t, and the form decides where they go.  Nothing
 * committed is no error: -1.  Offsets that are staged in a transaction are not
 * shown; who asks for stable ones is told of them (KIP-447).
 */

#include "kc_group_int.h"

typedef kf_offset_fetch_response_groups_topics_t             kc_fetched_t;
typedef kf_offset_fetch_response_groups_topics_partitions_t  kc_fetched_part_t;

_Static_assert(sizeof(kc_fetched_part_t)
               == sizeof(kf_offset_fetch_response_partitions_t),
               "partitions of both forms");


/* One topic that is asked for, in either form. */
typedef struct {
    kf_str_t        name;
    kf_uuid_t       topic_id;
    const int32_t  *partitions;
    int32_t         n;
    bool            stable;             /* none that a transaction may change */
} kc_wanted_t;


static bool
kc_fetch_one(kc_call_t *call, const kc_group_topic_t *t, int32_t partition,
    bool stable, int16_t error, kc_fetched_part_t *out)
{
    bool                ok = true;
    const kc_offset_t  *o = t ? kc_offset_find(t, partition) : NULL;

    out->partition_index = partition;
    out->committed_offset = -1;
    out->committed_leader_epoch = -1;
    out->metadata = kf_str("");
    out->error_code = error;

    if (stable && t && kc_staged_any(t, partition)) {
        out->error_code = KF_ERR_UNSTABLE_OFFSET_COMMIT;
        return true;
    }

    if (o) {
        out->committed_offset = o->offset;
        out->committed_leader_epoch = o->leader_epoch;

        if (o->note) {
            out->metadata = kf_arena_str(call->arena, kc_offset_metadata(o),
                                         &ok);
        }
    }

    return ok;
}


static bool
kc_fetch_topic(kc_t *kc, kc_call_t *call, const kc_group_t *g, bool by_id,
    const kc_wanted_t *want, kc_fetched_t *out)
{
    int16_t                  error = KF_ERR_NONE;
    int32_t                  i;
    const kc_topic_t        *topic;
    const kc_group_topic_t  *t = NULL;

    out->name = want->name;
    out->topic_id = want->topic_id;

    topic = by_id ? kc_topic_by_id(kc, want->topic_id)
                  : kc_topic_by_name(kc, want->name);

    if (topic && g) {
        t = kc_offsets_of(g, topic->id);
    }

    if (topic == NULL && by_id) {
        error = KF_ERR_UNKNOWN_TOPIC_ID;
    }

    if (want->n <= 0) {
        return true;
    }

    out->partitions = kf_arena_array(call->arena, (size_t) want->n,
                                     sizeof(kc_fetched_part_t));
    if (out->partitions == NULL) {
        return false;
    }

    out->partitions_n = want->n;

    for (i = 0; i < want->n; i++) {
        if (!kc_fetch_one(call, t, want->partitions[i], want->stable, error,
                          &out->partitions[i]))
        {
            return false;
        }
    }

    return true;
}


/* All offsets that the group has. */
static bool
kc_fetch_all(kc_call_t *call, const kc_group_t *g, bool stable,
    kc_fetched_t **topics, int32_t *n)
{
    bool                     ok = true;
    uint32_t                 i;
    kc_fetched_t            *out;
    const kc_group_topic_t  *t;

    *topics = NULL;
    *n = 0;

    if (g == NULL || g->offsets_n == 0) {
        return true;
    }

    *topics = kf_arena_array(call->arena, g->offsets.count, sizeof(*out));
    if (*topics == NULL) {
        return false;
    }

    for (t = kc_offsets_next(g, NULL); t; t = kc_offsets_next(g, t)) {

        if (t->n == 0) {
            continue;                   /* staged ones only */
        }

        out = &(*topics)[(*n)++];
        out->name = kf_arena_str(call->arena, t->topic->pub.name, &ok);
        out->topic_id = t->topic->pub.id;
        out->partitions = kf_arena_array(call->arena, t->n,
                                         sizeof(kc_fetched_part_t));
        if (!ok || out->partitions == NULL) {
            return false;
        }

        out->partitions_n = (int32_t) t->n;

        for (i = 0; i < t->n; i++) {
            if (!kc_fetch_one(call, t, t->offsets[i].partition, stable,
                              KF_ERR_NONE, &out->partitions[i]))
            {
                return false;
            }
        }
    }

    return true;
}


static const kc_group_t *
kc_fetch_group(kc_t *kc, kc_call_t *call, kf_str_t id)
{
    const kc_group_t  *g = kc_group_find(kc, id);
    int64_t            changed = g ? g->changed : kc_group_absent(kc);

    if (changed > call->wait) {
        call->wait = changed;
    }

    return g;
}


static bool
kc_fetch_several(kc_t *kc, kc_call_t *call, int16_t version, bool stable,
    const kf_offset_fetch_request_groups_t *in,
    kf_offset_fetch_response_groups_t *out)
{
    int32_t                                         i;
    kc_wanted_t                                     want;
    const kc_group_t                               *g;
    const kf_offset_fetch_request_groups_topics_t  *rt;

    out->group_id = in->group_id;
    g = kc_fetch_group(kc, call, in->group_id);

    if (in->topics_n < 0) {
        return kc_fetch_all(call, g, stable, &out->topics, &out->topics_n);
    }

    if (in->topics_n == 0) {
        return true;
    }

    out->topics = kf_arena_array(call->arena, (size_t) in->topics_n,
                                 sizeof(kc_fetched_t));
    if (out->topics == NULL) {
        return false;
    }

    out->topics_n = in->topics_n;

    for (i = 0; i < in->topics_n; i++) {
        rt = &in->topics[i];
        want = (kc_wanted_t) { rt->name, rt->topic_id, rt->partition_indexes,
                               rt->partition_indexes_n, stable };

        if (!kc_fetch_topic(kc, call, g, version >= 10, &want,
                            &out->topics[i]))
        {
            return false;
        }
    }

    return true;
}


static bool
kc_fetch_single(kc_t *kc, kc_call_t *call,
    const kf_offset_fetch_request_t *req, kf_offset_fetch_response_t *rsp)
{
    int32_t                                  i, n;
    kc_wanted_t                              want;
    kc_fetched_t                            *topics = NULL;
    const kc_group_t                        *g;
    const kf_offset_fetch_request_topics_t  *rt;

    g = kc_fetch_group(kc, call, req->group_id);
    n = req->topics_n;

    if (req->topics_n < 0) {
        if (!kc_fetch_all(call, g, req->require_stable, &topics, &n)) {
            return false;
        }

    } else if (n) {
        topics = kf_arena_array(call->arena, (size_t) n, sizeof(*topics));
        if (topics == NULL) {
            return false;
        }

        for (i = 0; i < n; i++) {
            rt = &req->topics[i];
            want = (kc_wanted_t) { .name = rt->name,
                                   .partitions = rt->partition_indexes,
                                   .n = rt->partition_indexes_n,
                                   .stable = req->require_stable };

            if (!kc_fetch_topic(kc, call, g, false, &want, &topics[i])) {
                return false;
            }
        }
    }

    if (n == 0) {
        return true;
    }

    rsp->topics = kf_arena_array(call->arena, (size_t) n,
                                 sizeof(kf_offset_fetch_response_topics_t));
    if (rsp->topics == NULL) {
        return false;
    }

    rsp->topics_n = n;

    for (i = 0; i < n; i++) {
        rsp->topics[i].name = topics[i].name;
        rsp->topics[i].partitions = (void *) topics[i].partitions;
        rsp->topics[i].partitions_n = topics[i].partitions_n;
    }

    return true;
}


kc_rc_t
kc_offset_fetch(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_fetch_request_t *req, kf_offset_fetch_response_t *rsp)
{
    bool     ok = true;
    int32_t  i;

    memset(rsp, 0, sizeof(kf_offset_fetch_response_t));

    /* names and ids are resolved by what the topics are now */
    call->wait = kc_topics_changed(kc);

    if (version < 8) {
        ok = kc_fetch_single(kc, call, req, rsp);

    } else if (req->groups_n > 0) {
        rsp->groups = kf_arena_array(call->arena, (size_t) req->groups_n,
                                  sizeof(kf_offset_fetch_response_groups_t));
        ok = rsp->groups != NULL;

        for (i = 0; ok && i < req->groups_n; i++) {
            ok = kc_fetch_several(kc, call, version, req->require_stable,
                                  &req->groups[i], &rsp->groups[i]);
            rsp->groups_n++;
        }
    }

    return ok ? KC_OK : kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
}
