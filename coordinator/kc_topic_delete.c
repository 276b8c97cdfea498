/*
 * DeleteTopics: by name, or by id from version 6 on.
 */

#include "kc_int.h"
#include "kc_config_def.h"
#include "kc_request.h"

typedef kf_delete_topics_response_responses_t  kc_deleted_t;


static void
kc_refuse(kc_deleted_t *out, int16_t error, const char *text)
{
    out->error_code = error;
    out->error_message = kc_cstr(text);
}


/* Which topic a request means; NULL: none, and out says why. */
static const kc_topic_t *
kc_delete_find(kc_t *kc, kf_str_t name, kf_uuid_t id, kc_deleted_t *out)
{
    bool               by_name = !kf_str_is_null(name);
    const kc_topic_t  *t;

    out->name = name;
    out->topic_id = id;

    if (by_name == !kf_uuid_is_zero(id)) {
        kc_refuse(out, KF_ERR_INVALID_REQUEST,
                  by_name ? "give a topic's name or its id, not both"
                          : "neither a topic's name nor its id is given");
        return NULL;
    }

    t = by_name ? kc_topic_by_name(kc, name) : kc_topic_by_id(kc, id);

    if (t == NULL) {
        kc_refuse(out, by_name ? KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
                               : KF_ERR_UNKNOWN_TOPIC_ID,
                  by_name ? "there is no topic of this name"
                          : "there is no topic with this id");
    }

    return t;
}


/* Resolves one; a topic that is named twice is refused each time. */
static kc_rc_t
kc_delete_resolve(kc_t *kc, kc_call_t *call, kf_str_t name, kf_uuid_t id,
    kc_map_t *seen, kc_deleted_t *out)
{
    bool               ok = true;
    kc_node_t         *node;
    kc_deleted_t      *first;
    const kc_topic_t  *t = kc_delete_find(kc, name, id, out);

    if (t == NULL) {
        return KC_OK;
    }

    first = kc_map_find(seen, kc_uuid_key(&t->id));

    if (first) {
        kc_refuse(out, KF_ERR_INVALID_REQUEST,
                  "the request names this topic more than once");
        first->error_code = out->error_code;
        first->error_message = out->error_message;
        return KC_OK;
    }

    out->topic_id = t->id;
    out->name = kf_arena_str(call->arena, t->name, &ok);
    node = kf_arena_alloc(call->arena, sizeof(kc_node_t));

    if (!ok || node == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    kc_map_insert(seen, node, kc_uuid_key(&out->topic_id), out);

    return KC_OK;
}


static kc_rc_t
kc_delete_one(kc_t *kc, kc_deleted_t *out)
{
    kc_rc_t                   rc;
    kf_delete_topic_record_t  r;

    r.topic_id = out->topic_id;
    rc = kc_put(kc, KF_DELETE_TOPIC_RECORD, &r);

    if (rc == KC_TOO_LARGE) {
        kc_refuse(out, KF_ERR_POLICY_VIOLATION,
                  "too many topics in one request: split it");
        return KC_OK;
    }

    return rc;
}


kc_rc_t
kc_delete_topics(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_delete_topics_request_t *req, kf_delete_topics_response_t *rsp)
{
    int32_t        i, n;
    kc_rc_t        rc = KC_OK;
    kc_map_t       seen;
    kf_str_t       name;
    kf_uuid_t      id;
    kc_deleted_t  *out;

    memset(rsp, 0, sizeof(kf_delete_topics_response_t));
    memset(&seen, 0, sizeof(kc_map_t));
    call->wait = kc_topics_changed(kc);

    n = version >= 6 ? req->topics_n : req->topic_names_n;

    if (n <= 0) {
        return KC_OK;
    }

    rsp->responses = kf_arena_array(call->arena, (size_t) n,
                                    sizeof(kc_deleted_t));
    if (rsp->responses == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->responses_n = n;

    for (i = 0; i < n && rc == KC_OK; i++) {
        memset(&id, 0, sizeof(id));
        out = &rsp->responses[i];
        out->error_message = kf_null_str;

        if (version >= 6) {
            name = req->topics[i].name;
            id = req->topics[i].topic_id;

        } else {
            name = req->topic_names[i];
        }

        if (!kc_broker_config_int(kc, call->config, KC_DELETE_TOPIC_ENABLE)) {
            out->name = name;
            out->topic_id = id;
            kc_refuse(out, version >= 3 ? KF_ERR_TOPIC_DELETION_DISABLED
                                        : KF_ERR_INVALID_REQUEST,
                      "topics cannot be deleted: delete.topic.enable is false");
            continue;
        }

        rc = kc_delete_resolve(kc, call, name, id, &seen, out);
    }

    if (rc != KC_OK) {
        return rc;
    }

    kc_begin(kc, call->now);

    for (i = 0; i < n && rc == KC_OK; i++) {
        if (rsp->responses[i].error_code == KF_ERR_NONE) {
            rc = kc_delete_one(kc, &rsp->responses[i]);
        }
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, &call->wait);
}
