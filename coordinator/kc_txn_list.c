/*
 * DescribeTransactions and ListTransactions.
 */

#include "kc_config_def.h"
#include "kc_regex.h"
#include "kc_txn_int.h"


/* --- DescribeTransactions ------------------------------------------------ */

/* Groups are shown as the topic that Kafka keeps their offsets in. */
static bool
kc_describe_groups_of(kc_call_t *call,
    kf_describe_transactions_response_topics_t *out)
{
    out->topic = kf_str("__consumer_offsets");
    out->partitions = kf_arena_array(call->arena, 1, sizeof(int32_t));

    if (out->partitions == NULL) {
        return false;
    }

    out->partitions[0] = 0;
    out->partitions_n = 1;

    return true;
}


static bool
kc_describe_parts(kc_t *kc, kc_call_t *call, const kc_txn_t *t,
    kf_describe_transactions_response_transaction_states_t *out)
{
    bool                    ok = true;
    int32_t                *p;
    uint32_t                i;
    const kc_topic_t       *topic = NULL;
    const kc_txn_open_t    *o = t->open;
    const kc_txn_place_t   *place;

    kf_describe_transactions_response_topics_t  *ot = NULL;

    out->topics = kf_arena_array(call->arena, (size_t) o->parts_n + 1,
                                 sizeof(*ot));
    p = kf_arena_array(call->arena, (size_t) o->parts_n + 1, sizeof(*p));

    if (out->topics == NULL || p == NULL) {
        return false;
    }

    for (i = 0; i < o->parts_n && ok; i++) {
        place = &o->parts[i];

        if (i == 0 || !kf_uuid_eq(place->topic_id, o->parts[i - 1].topic_id)) {
            topic = kc_topic_by_id(kc, place->topic_id);

            if (topic) {
                ot = &out->topics[out->topics_n++];
                ot->topic = kf_arena_str(call->arena, topic->name, &ok);
                ot->partitions = p;
            }
        }

        if (topic) {
            *p++ = place->partition;
            ot->partitions_n++;
        }
    }

    if (ok && o->groups.count) {
        ok = kc_describe_groups_of(call, &out->topics[out->topics_n++]);
    }

    return ok;
}


static bool
kc_describe_one(kc_t *kc, kc_call_t *call, kf_str_t id,
    kf_describe_transactions_response_transaction_states_t *out)
{
    const kc_txn_t  *t = kc_txn_find(kc, id);

    out->transactional_id = id;
    out->transaction_state = kf_str("");

    if (id.len == 0) {
        out->error_code = KF_ERR_INVALID_REQUEST;
        return true;
    }

    if (t == NULL) {
        out->error_code = KF_ERR_TRANSACTIONAL_ID_NOT_FOUND;
        return true;
    }

    out->transaction_state = kc_cstr(kc_txn_state_name(t->state));
    out->transaction_timeout_ms = t->timeout_ms;
    out->transaction_start_time_ms = t->start_ms;
    out->producer_id = t->pid;
    out->producer_epoch = t->epoch;

    return t->open == NULL || kc_describe_parts(kc, call, t, out);
}


kc_rc_t
kc_describe_transactions(kc_t *kc, kc_call_t *call,
    const kf_describe_transactions_request_t *req,
    kf_describe_transactions_response_t *rsp)
{
    int32_t  i, n = req->transactional_ids_n;

    memset(rsp, 0, sizeof(*rsp));

    /* names of topics, too */
    call->wait = kc->state->txns.changed;

    if (kc_topics_changed(kc) > call->wait) {
        call->wait = kc_topics_changed(kc);
    }

    if (n <= 0) {
        return KC_OK;
    }

    rsp->transaction_states = kf_arena_array(call->arena, (size_t) n,
                                        sizeof(*rsp->transaction_states));
    if (rsp->transaction_states == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->transaction_states_n = n;

    for (i = 0; i < n; i++) {
        if (!kc_describe_one(kc, call, req->transactional_ids[i],
                             &rsp->transaction_states[i]))
        {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }
    }

    return KC_OK;
}


/* --- ListTransactions ---------------------------------------------------- */

typedef struct {
    uint32_t     states;                /* bits; all when none is asked for */
    int64_t      duration;              /* -1: any */
    int64_t      now;
    kc_regex_t  *pattern;               /* of the whole id; NULL: any */
} kc_txn_filter_t;


/* Names that Kafka has, although nothing is ever shown in these states. */
static bool
kc_txn_state_known(kf_str_t name, uint32_t *bit)
{
    uint8_t  i;

    for (i = KC_TXN_EMPTY; i <= KC_TXN_COMPLETE_ABORT; i++) {
        if (kf_str_eq(name, kc_cstr(kc_txn_state_name(i)))) {
            *bit = 1u << i;
            return true;
        }
    }

    *bit = 0;

    return kf_str_eq(name, kf_str("Dead"))
           || kf_str_eq(name, kf_str("PrepareEpochFence"));
}


static bool
kc_list_states(kc_call_t *call, const kf_list_transactions_request_t *req,
    kf_list_transactions_response_t *rsp, kc_txn_filter_t *f)
{
    int32_t   i;
    uint32_t  bit;

    f->states = req->state_filters_n > 0 ? 0 : UINT32_MAX;

    if (req->state_filters_n <= 0) {
        return true;
    }

    rsp->unknown_state_filters = kf_arena_array(call->arena,
                                                (size_t) req->state_filters_n,
                                                sizeof(kf_str_t));
    if (rsp->unknown_state_filters == NULL) {
        return false;
    }

    for (i = 0; i < req->state_filters_n; i++) {

        if (kc_txn_state_known(req->state_filters[i], &bit)) {
            f->states |= bit;

        } else {
            rsp->unknown_state_filters[rsp->unknown_state_filters_n++] =
                                                         req->state_filters[i];
        }
    }

    return true;
}


static bool
kc_list_wanted(const kc_txn_t *t, const kf_list_transactions_request_t *req,
    const kc_txn_filter_t *f)
{
    int32_t  i;

    if ((f->states & 1u << t->state) == 0) {
        return false;
    }

    if (f->duration >= 0 && f->now - t->start_ms <= f->duration) {
        return false;
    }

    for (i = 0; i < req->producer_id_filters_n; i++) {
        if (req->producer_id_filters[i] == t->pid) {
            break;
        }
    }

    if (i == req->producer_id_filters_n && i > 0) {
        return false;
    }

    return f->pattern == NULL || kc_regex_matches(f->pattern, t->by_id.key);
}


kc_rc_t
kc_list_transactions(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_list_transactions_request_t *req,
    kf_list_transactions_response_t *rsp)
{
    bool              ok = true;
    kc_regex_rc_t     re;
    const kc_txn_t   *t;
    kc_txn_filter_t   f;

    kf_list_transactions_response_transaction_states_t  *out;

    memset(rsp, 0, sizeof(*rsp));
    call->wait = kc->state->txns.changed;

    f.now = call->now.wall_ms;
    f.duration = version >= 1 ? req->duration_filter : -1;

    f.pattern = NULL;

    if (version >= 2 && req->transactional_id_pattern.len) {
        re = kc_regex_compile(call->arena, req->transactional_id_pattern,
                              &f.pattern);

        if (re == KC_REGEX_BAD) {
            rsp->error_code = KF_ERR_INVALID_REGULAR_EXPRESSION;
            return KC_OK;
        }

        ok = re == KC_REGEX_OK;
    }

    if (!ok || !kc_list_states(call, req, rsp, &f)) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->transaction_states = kf_arena_array(call->arena,
                                  (size_t) kc->state->txns.by_id.count + 1,
                                  sizeof(*out));
    if (rsp->transaction_states == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    for (t = kc_txn_next(kc, kf_null_str); t && ok;
         t = kc_txn_next(kc, t->by_id.key))
    {
        if (kc_list_wanted(t, req, &f)) {
            out = &rsp->transaction_states[rsp->transaction_states_n++];
            out->transactional_id = kf_arena_str(call->arena, t->by_id.key,
                                                 &ok);
            out->producer_id = t->pid;
            out->transaction_state = kc_cstr(kc_txn_state_name(t->state));
        }
    }

    return ok ? KC_OK : kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
}
