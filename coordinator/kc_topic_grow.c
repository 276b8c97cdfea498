/*
 * CreatePartitions: topics get more partitions, never fewer (KIP-195).
 *
 * All topics of a request that can grow are one decision.  The new partitions'
 * slots are bound before the append, so that replay finds them.
 */

#include "kc_int.h"
#include "kc_request.h"
#include "kc_config_def.h"

typedef kf_create_partitions_request_topics_t    kc_wish_t;
typedef kf_create_partitions_response_results_t  kc_grown_t;

#define KC_REQUEST_PARTITIONS_MAX  10000


static void
kc_grow_refuse(kc_grown_t *out, int16_t error, kf_str_t message)
{
    out->error_code = error;
    out->error_message = message;
}


/* false: refused, out says why. */
static bool
kc_grow_check(kc_call_t *call, const kc_wish_t *wish, const kc_topic_t *t,
    kc_grown_t *out)
{
    int32_t  i, more;

    if (t == NULL) {
        kc_grow_refuse(out, KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
                       kf_arena_printf(call->arena, "there is no topic "
                                       "\"%.*s\"", (int) wish->name.len,
                                       wish->name.data));
        return false;
    }

    more = wish->count - t->partition_count;

    if (wish->count < 1 || more <= 0) {
        kc_grow_refuse(out, KF_ERR_INVALID_PARTITIONS,
                       kf_arena_printf(call->arena, "topic \"%.*s\" has %d "
                                       "partitions; %d is not more",
                                       (int) wish->name.len, wish->name.data,
                                       t->partition_count, wish->count));
        return false;
    }

    if (more > KC_REQUEST_PARTITIONS_MAX) {
        kc_grow_refuse(out, KF_ERR_POLICY_VIOLATION,
                       kf_arena_printf(call->arena, "one request can create at "
                                       "most %d partitions",
                                       KC_REQUEST_PARTITIONS_MAX));
        return false;
    }

    if (wish->assignments_n < 0) {
        return true;
    }

    if (wish->assignments_n != more) {
        kc_grow_refuse(out, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
                       kf_arena_printf(call->arena, "%d partitions are added, "
                                       "but %d are assigned", more,
                                       wish->assignments_n));
        return false;
    }

    for (i = 0; i < more; i++) {
        if (wish->assignments[i].broker_ids_n != 1
            || wish->assignments[i].broker_ids[0] != call->node_id)
        {
            kc_grow_refuse(out, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
                           kf_arena_printf(call->arena, "partitions have to be "
                                           "assigned to broker %d alone, the "
                                           "only one", call->node_id));
            return false;
        }
    }

    return true;
}


/* Gives back what was bound for the topics before `until` that were taken. */
static void
kc_grow_release(kc_t *kc, const kf_create_partitions_request_t *req,
    const kc_grown_t *results, int32_t until)
{
    int32_t            i, p;
    const kc_topic_t  *t;

    for (i = 0; i < until; i++) {

        if (results[i].error_code || kc->io.bind == NULL) {
            continue;
        }

        t = kc_topic_by_name(kc, req->topics[i].name);

        for (p = t->partition_count; p < req->topics[i].count; p++) {
            kc->io.release(kc->io.ctx, kc->io.bind(kc->io.ctx, t->id, p));
        }
    }
}


/* false: the table has no room; then nothing of this topic stays bound. */
static bool
kc_grow_bind(kc_t *kc, const kc_topic_t *t, int32_t count)
{
    int32_t  p, slot;

    if (kc->io.bind == NULL) {
        return true;
    }

    for (p = t->partition_count; p < count; p++) {
        if (kc->io.bind(kc->io.ctx, t->id, p) < 0) {

            while (--p >= t->partition_count) {
                slot = kc->io.bind(kc->io.ctx, t->id, p);
                kc->io.release(kc->io.ctx, slot);
            }

            return false;
        }
    }

    return true;
}


static kc_rc_t
kc_grow_one(kc_t *kc, kc_call_t *call, const kc_wish_t *wish, bool validate,
    kc_grown_t *out)
{
    kc_rc_t                 rc;
    const kc_topic_t       *t = kc_topic_by_name(kc, wish->name);
    kf_partitions_record_t  r;

    if (!kc_grow_check(call, wish, t, out) || validate) {
        return KC_OK;
    }

    r.topic_id = t->id;
    r.partition_count = wish->count;

    if (!kc_grow_bind(kc, t, wish->count)) {
        kc_grow_refuse(out, KF_ERR_POLICY_VIOLATION,
                       kf_arena_printf(call->arena, "the broker has no room "
                                       "for %d more partitions: raise the "
                                       "\"zone\" size in its configuration",
                                       wish->count - t->partition_count));
        return KC_OK;
    }

    rc = kc_put(kc, KF_PARTITIONS_RECORD, &r);

    if (rc == KC_TOO_LARGE) {
        rc = KC_NO_MEMORY;
    }

    return rc;
}


kc_rc_t
kc_create_partitions(kc_t *kc, kc_call_t *call,
    const kf_create_partitions_request_t *req,
    kf_create_partitions_response_t *rsp)
{
    int32_t      i, n;
    kc_rc_t      rc = KC_OK;
    kc_map_t     names;
    kc_node_t   *nodes;
    kc_grown_t  *first;

    memset(rsp, 0, sizeof(*rsp));
    memset(&names, 0, sizeof(names));

    n = req->topics_n > 0 ? req->topics_n : 0;

    rsp->results = kf_arena_array(call->arena, (size_t) n + 1,
                                  sizeof(kc_grown_t));
    nodes = kf_arena_array(call->arena, (size_t) n + 1, sizeof(kc_node_t));

    if (rsp->results == NULL || nodes == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->results_n = n;

    for (i = 0; i < n; i++) {
        rsp->results[i].name = req->topics[i].name;

        if (!kc_map_insert(&names, &nodes[i], req->topics[i].name,
                           &rsp->results[i]))
        {
            first = kc_map_find(&names, req->topics[i].name);
            kc_grow_refuse(first, KF_ERR_INVALID_REQUEST,
                           kf_str("the request names this topic more than "
                                  "once"));
            rsp->results[i] = *first;
        }
    }

    kc_begin(kc, call->now);

    for (i = 0; i < n && rc == KC_OK; i++) {
        if (rsp->results[i].error_code == KF_ERR_NONE) {
            rc = kc_grow_one(kc, call, &req->topics[i], req->validate_only,
                             &rsp->results[i]);
        }
    }

    if (rc != KC_OK) {
        kc_abandon(kc);

        if (!req->validate_only) {
            kc_grow_release(kc, req, rsp->results, i);
        }

        return rc;
    }

    call->wait = kc_topics_changed(kc);

    rc = kc_commit(kc, &call->wait);

    if (rc != KC_OK && !req->validate_only) {
        kc_grow_release(kc, req, rsp->results, n);
    }

    return rc;
}
