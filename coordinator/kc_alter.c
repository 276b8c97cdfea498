/*
 * AlterConfigs and IncrementalAlterConfigs (KIP-339) of topics, the broker and
 * subscriptions of client metrics (KIP-714).
 *
 * Each resource of a request is refused or taken as a whole; those that are
 * taken are one decision.  A ConfigRecord carries the complete new set of
 * overrides. Broker configs of one node and of "all brokers" (empty name) are
 * the same set here: there is one broker.
 */

#include <stdio.h>

#include "kc_int.h"
#include "kc_request.h"
#include "kc_config_def.h"


typedef kf_incremental_alter_configs_request_resources_t  kc_resource_t;
typedef kf_incremental_alter_configs_response_responses_t  kc_answer_t;

#define KC_OP_SET       0
#define KC_OP_DELETE    1
#define KC_OP_APPEND    2
#define KC_OP_SUBTRACT  3

#define KC_CHANGES_MAX  1000            /* of one resource: a sane bound */


typedef struct {
    kf_str_t  name;
    kf_str_t  value;
    int8_t    op;
} kc_change_t;

typedef struct {
    kc_t                        *kc;
    kc_call_t                   *call;
    int8_t                       type;
    kf_str_t                     name;
    kf_config_record_configs_t  *set;   /* sorted */
    int32_t                      set_n;
    int16_t                      error;
    kf_str_t                     message;
} kc_alter_t;


static void
kc_alter_refuse(kc_alter_t *a, int16_t error, kf_str_t message)
{
    if (a->error == KF_ERR_NONE) {
        a->error = error;
        a->message = message;
    }
}

#define kc_alter_refuse_name(a, code, text, name)                             \
    kc_alter_refuse(a, code, kf_arena_printf((a)->call->arena, text,          \
                                             (int) (name).len, (name).data))


/* Where name is in the set, or where it would go. */
static int32_t
kc_alter_place(const kc_alter_t *a, kf_str_t name, bool *there)
{
    int      order;
    int32_t  i;

    for (i = 0; i < a->set_n; i++) {
        order = kc_key_cmp(a->set[i].name, name);

        if (order >= 0) {
            *there = order == 0;
            return i;
        }
    }

    *there = false;

    return i;
}


static void
kc_alter_remove(kc_alter_t *a, int32_t i)
{
    a->set_n--;
    memmove(&a->set[i], &a->set[i + 1],
            (size_t) (a->set_n - i) * sizeof(a->set[0]));
}


/* The present overrides, in the arena; the set has room for n more. */
static kc_rc_t
kc_alter_begin(kc_alter_t *a, int32_t n, bool replace)
{
    bool                      ok = true;
    uint32_t                  i, old_n;
    const kc_topic_t         *t;
    const kc_config_entry_t  *old;

    if (a->type == KC_RESOURCE_TOPIC) {
        t = kc_topic_by_name(a->kc, a->name);
        kc_assert(t != NULL);
        old = t->configs;
        old_n = t->config_count;

    } else if (a->type == KC_RESOURCE_BROKER) {
        old = kc_broker_configs(a->kc, &old_n);

    } else {
        old = kc_resource_configs(a->kc, a->type, a->name, &old_n);
    }

    a->set = kf_arena_array(a->call->arena, old_n + (size_t) n + 1,
                            sizeof(a->set[0]));
    if (a->set == NULL) {
        return kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
    }

    for (i = 0; !replace && i < old_n; i++) {
        a->set[i].name = kf_arena_str(a->call->arena, old[i].name, &ok);
        a->set[i].value = kf_arena_str(a->call->arena, old[i].value, &ok);
        a->set_n++;
    }

    return ok ? KC_OK
              : kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
}


/* Does the resource exist, and is it one that can be altered? */
static bool
kc_alter_resource(kc_alter_t *a)
{
    int          n;
    char         node[16];
    uint32_t     defs_n;
    const char  *problem;

    if (a->type == KC_RESOURCE_TOPIC) {
        problem = kc_topic_name_problem(a->name);

        if (a->name.len == 0) {
            kc_alter_refuse(a, KF_ERR_INVALID_REQUEST,
                            kf_str("there are no configs of all topics"));

        } else if (problem) {
            kc_alter_refuse(a, KF_ERR_INVALID_TOPIC_EXCEPTION,
                            kc_cstr(problem));

        } else if (kc_topic_by_name(a->kc, a->name) == NULL) {
            kc_alter_refuse_name(a, KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
                                 "there is no topic \"%.*s\"", a->name);
        }

        return a->error == KF_ERR_NONE;
    }

    if (a->type == KC_RESOURCE_BROKER) {
        n = snprintf(node, sizeof(node), "%d", a->call->node_id);

        if (a->name.len
            && !kf_str_eq(a->name, (kf_str_t) { (uint8_t *) node,
                                                (uint32_t) n }))
        {
            kc_alter_refuse_name(a, KF_ERR_INVALID_REQUEST, "there is no "
                                 "broker \"%.*s\" here", a->name);
        }

        return a->error == KF_ERR_NONE;
    }

    if (kc_resource_defs(a->type, &defs_n)) {

        if (a->name.len == 0) {
            kc_alter_refuse(a, KF_ERR_INVALID_REQUEST,
                            kf_str("the resource has no name"));
        }

        return a->error == KF_ERR_NONE;
    }

    kc_alter_refuse(a, KF_ERR_INVALID_REQUEST,
                    kf_str("only topics, brokers and client metrics have "
                           "configs that can be altered here"));

    return false;
}


/* NULL: refused. */
static const kc_def_t *
kc_alter_def(kc_alter_t *a, kf_str_t name, const kc_synonym_t **syn)
{
    const kc_def_t  *def;

    *syn = NULL;

    if (a->type == KC_RESOURCE_TOPIC) {
        def = kc_topic_def(name);

        if (def == NULL) {
            kc_alter_refuse_name(a, KF_ERR_INVALID_CONFIG,
                                 "unknown topic config \"%.*s\"", name);
        }

        return def;
    }

    if (a->type != KC_RESOURCE_BROKER) {
        def = kc_resource_def(a->type, name);

        if (def == NULL) {
            kc_alter_refuse_name(a, KF_ERR_INVALID_REQUEST,
                                 "unknown config \"%.*s\"", name);
        }

        return def;
    }

    def = kc_broker_def(name, syn);

    if (def == NULL) {
        kc_alter_refuse_name(a, KF_ERR_INVALID_CONFIG,
                             "unknown broker config \"%.*s\"", name);

    } else if (def->fixed) {
        kc_alter_refuse_name(a, KF_ERR_INVALID_REQUEST, "broker config "
                             "\"%.*s\" cannot be changed at run time: it is a "
                             "\"config\" line of nginx.conf", name);
        return NULL;
    }

    return def;
}


/* APPEND and SUBTRACT: the list that results, from the value in force. */
static kc_rc_t
kc_alter_list(kc_alter_t *a, const kc_change_t *c, kf_str_t current,
    kf_str_t *result)
{
    char      *buf, *p;
    kf_str_t   rest, item;
    uint32_t   i;

    buf = kf_arena_alloc(a->call->arena,
                         (size_t) current.len + c->value.len + 2);
    if (buf == NULL) {
        return kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
    }

    p = buf;

    /* Items that are to go are left out; parsing drops what comes twice. */

    for (rest = current; rest.len; ) {
        for (i = 0; i < rest.len && rest.data[i] != ','; i++) { }

        item = (kf_str_t) { rest.data, i };
        rest.data += i + (i < rest.len);
        rest.len -= i + (i < rest.len);

        if (c->op == KC_OP_SUBTRACT && kf_str_eq(item, c->value)) {
            continue;
        }

        if (p != buf) {
            *p++ = ',';
        }

        memcpy(p, item.data, item.len);
        p += item.len;
    }

    if (c->op == KC_OP_APPEND) {
        if (p != buf) {
            *p++ = ',';
        }

        memcpy(p, c->value.data, c->value.len);
        p += c->value.len;
    }

    *result = (kf_str_t) { (uint8_t *) buf, (uint32_t) (p - buf) };

    return KC_OK;
}


/* Kafka's code depends on who looks at the value. */
static int16_t
kc_alter_value_error(const kc_alter_t *a, const kc_def_t *def)
{
    bool  config = a->type == KC_RESOURCE_TOPIC
                   || (a->type == KC_RESOURCE_CLIENT_METRICS
                       && def->type == KC_LIST);

    return config ? KF_ERR_INVALID_CONFIG : KF_ERR_INVALID_REQUEST;
}


static kc_rc_t
kc_alter_change(kc_alter_t *a, const kc_change_t *c)
{
    bool                 there, ok = true;
    char                 problem[128];
    int32_t              i;
    kc_rc_t              rc;
    kf_str_t             value;
    kc_value_t           v;
    kc_found_t           found[KC_FOUND_MAX];
    const kc_def_t      *def;
    const kc_synonym_t  *syn;

    i = kc_alter_place(a, c->name, &there);

    /* what does not exist is not set: there is nothing to do */

    if (c->op == KC_OP_DELETE && !there && a->type != KC_RESOURCE_BROKER) {
        return KC_OK;
    }

    def = kc_alter_def(a, c->name, &syn);
    if (def == NULL) {
        return KC_OK;
    }

    if (c->op == KC_OP_DELETE) {
        if (there) {
            kc_alter_remove(a, i);
        }
        return KC_OK;
    }

    if (c->op < KC_OP_SET || c->op > KC_OP_SUBTRACT) {
        kc_alter_refuse(a, KF_ERR_INVALID_REQUEST,
                        kf_str("unknown operation on a config"));
        return KC_OK;
    }

    if (kf_str_is_null(c->value)) {
        kc_alter_refuse_name(a, KF_ERR_INVALID_REQUEST,
                             "config \"%.*s\" has no value", c->name);
        return KC_OK;
    }

    value = c->value;

    if (c->op != KC_OP_SET) {

        if (def->type != KC_LIST) {
            kc_alter_refuse_name(a, KF_ERR_INVALID_CONFIG, "config \"%.*s\" is "
                                 "not a list: it can only be set", c->name);
            return KC_OK;
        }

        if (there) {
            value = a->set[i].value;

        } else if (a->type == KC_RESOURCE_TOPIC) {
            kc_topic_config_find(a->kc, a->call->config,
                                 kc_topic_by_name(a->kc, a->name), def, found);
            value = found[0].text;

        } else {
            value = kc_cstr(def->value);
        }

        rc = kc_alter_list(a, c, value, &value);
        if (rc != KC_OK) {
            return rc;
        }
    }

    if (kc_value_parse(def, syn, value, &v, problem, sizeof(problem))) {
        kc_alter_refuse(a, kc_alter_value_error(a, def),
                        kf_arena_printf(a->call->arena, "invalid value "
                                        "\"%.*s\" of config \"%.*s\": %s",
                                        (int) value.len, value.data,
                                        (int) c->name.len, c->name.data,
                                        problem));
        return KC_OK;
    }

    value = kf_arena_str(a->call->arena,
                         (kf_str_t) { (uint8_t *) v.text, v.len }, &ok);
    if (!ok) {
        return kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
    }

    if (!there) {
        memmove(&a->set[i + 1], &a->set[i],
                (size_t) (a->set_n - i) * sizeof(a->set[0]));
        a->set_n++;
        a->set[i].name = c->name;
    }

    a->set[i].value = value;

    return KC_OK;
}


/* What one config says about another. */
static kc_rc_t
kc_alter_together(kc_alter_t *a)
{
    int32_t            i;
    kc_topic_t         t;
    kc_config_entry_t *entries;

    if (a->type != KC_RESOURCE_TOPIC) {
        return KC_OK;
    }

    entries = kf_arena_array(a->call->arena, (size_t) a->set_n + 1,
                             sizeof(kc_config_entry_t));
    if (entries == NULL) {
        return kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
    }

    for (i = 0; i < a->set_n; i++) {
        entries[i].name = a->set[i].name;
        entries[i].value = a->set[i].value;
    }

    memset(&t, 0, sizeof(t));
    t.configs = entries;
    t.config_count = (uint32_t) a->set_n;

    if (kc_topic_config_int(a->kc, a->call->config, &t,
                            KC_MIN_COMPACTION_LAG_MS)
        > kc_topic_config_int(a->kc, a->call->config, &t,
                              KC_MAX_COMPACTION_LAG_MS))
    {
        kc_alter_refuse(a, KF_ERR_INVALID_CONFIG,
                        kf_str("min.compaction.lag.ms is larger than "
                               "max.compaction.lag.ms"));
    }

    return KC_OK;
}


/* Decides one resource; what is refused is in a->error and a->message. */
static kc_rc_t
kc_alter_decide(kc_alter_t *a, const kc_change_t *changes, int32_t n,
    bool replace, bool validate_only)
{
    kc_rc_t             rc;
    int32_t             i, j;
    kf_config_record_t  r;

    if (!kc_alter_resource(a)) {
        return KC_OK;
    }

    if (n > KC_CHANGES_MAX) {
        kc_alter_refuse(a, KF_ERR_INVALID_REQUEST,
                        kf_str("too many configs in one request"));
        return KC_OK;
    }

    for (i = 0; i < n; i++) {
        for (j = 0; j < i; j++) {
            if (kf_str_eq(changes[i].name, changes[j].name)) {
                kc_alter_refuse_name(a, KF_ERR_INVALID_REQUEST,
                                     "config \"%.*s\" is given twice",
                                     changes[i].name);
                return KC_OK;
            }
        }
    }

    rc = kc_alter_begin(a, n, replace);

    for (i = 0; i < n && rc == KC_OK && a->error == KF_ERR_NONE; i++) {
        rc = kc_alter_change(a, &changes[i]);
    }

    if (rc == KC_OK && a->error == KF_ERR_NONE) {
        rc = kc_alter_together(a);
    }

    if (rc != KC_OK || a->error || validate_only) {
        return rc;
    }

    memset(&r, 0, sizeof(r));
    r.resource_type = a->type;
    r.resource_name = a->type == KC_RESOURCE_BROKER ? kf_str("") : a->name;
    r.configs = a->set;
    r.configs_n = a->set_n;

    rc = kc_put(a->kc, KF_CONFIG_RECORD, &r);

    if (rc == KC_TOO_LARGE) {
        kc_alter_refuse(a, KF_ERR_POLICY_VIOLATION,
                        kf_str("too many configs in one request: split it"));
        return KC_OK;
    }

    return rc;
}


/*
 * Resources named twice are refused, each time: which of them would win?  Keys
 * are type and name.
 */
static kc_rc_t
kc_alter_once(kc_alter_t *a, kc_map_t *seen, int16_t *error)
{
    uint8_t    *key;
    int16_t    *first;
    kc_node_t  *node;

    key = kf_arena_alloc(a->call->arena, (size_t) a->name.len + 1);
    node = kf_arena_alloc(a->call->arena, sizeof(kc_node_t));

    if (key == NULL || node == NULL) {
        return kc_fail(a->kc, KC_NO_MEMORY, "no memory for the request");
    }

    key[0] = (uint8_t) a->type;

    if (a->name.len) {
        memcpy(key + 1, a->name.data, a->name.len);
    }

    if (!kc_map_insert(seen, node, (kf_str_t) { key, a->name.len + 1 },
                       error))
    {
        first = kc_map_find(seen, (kf_str_t) { key, a->name.len + 1 });
        *first = KF_ERR_INVALID_REQUEST;
        *error = KF_ERR_INVALID_REQUEST;
    }

    return KC_OK;
}


static kc_rc_t
kc_alter_all(kc_t *kc, kc_call_t *call, const kc_resource_t *resources,
    int32_t n, bool replace, bool validate_only, kc_answer_t *answers)
{
    int32_t       i, j, changes_n;
    kc_rc_t       rc = KC_OK;
    kc_map_t      seen;
    kc_alter_t    a;
    kc_change_t  *changes;

    memset(&seen, 0, sizeof(seen));

    for (i = 0; i < n && rc == KC_OK; i++) {
        a = (kc_alter_t) { .kc = kc, .call = call,
                           .type = resources[i].resource_type,
                           .name = resources[i].resource_name };

        answers[i].resource_type = a.type;
        answers[i].resource_name = a.name;

        rc = kc_alter_once(&a, &seen, &answers[i].error_code);
    }

    kc_begin(kc, call->now);

    for (i = 0; i < n && rc == KC_OK; i++) {

        if (answers[i].error_code) {
            answers[i].error_message =
                               kf_str("the request names this resource twice");
            continue;
        }

        a = (kc_alter_t) { .kc = kc, .call = call,
                           .type = resources[i].resource_type,
                           .name = resources[i].resource_name };

        changes_n = resources[i].configs_n > 0 ? resources[i].configs_n : 0;
        changes = kf_arena_array(call->arena, (size_t) changes_n + 1,
                                 sizeof(kc_change_t));
        if (changes == NULL) {
            rc = kc_fail(kc, KC_NO_MEMORY, "no memory for the request");
            break;
        }

        for (j = 0; j < changes_n; j++) {
            changes[j].name = resources[i].configs[j].name;
            changes[j].value = resources[i].configs[j].value;
            changes[j].op = resources[i].configs[j].config_operation;
        }

        rc = kc_alter_decide(&a, changes, changes_n, replace, validate_only);

        answers[i].error_code = a.error;
        answers[i].error_message = a.message;
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    call->wait = kc_topics_changed(kc);

    return kc_commit(kc, &call->wait);
}


kc_rc_t
kc_incremental_alter_configs(kc_t *kc, kc_call_t *call,
    const kf_incremental_alter_configs_request_t *req,
    kf_incremental_alter_configs_response_t *rsp)
{
    memset(rsp, 0, sizeof(*rsp));

    rsp->responses_n = req->resources_n > 0 ? req->resources_n : 0;
    rsp->responses = kf_arena_array(call->arena, (size_t) rsp->responses_n + 1,
                                    sizeof(kc_answer_t));
    if (rsp->responses == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    return kc_alter_all(kc, call, req->resources, rsp->responses_n, false,
                        req->validate_only, rsp->responses);
}


/* The older form: what is not listed goes back to its default. */
kc_rc_t
kc_alter_configs(kc_t *kc, kc_call_t *call,
    const kf_alter_configs_request_t *req, kf_alter_configs_response_t *rsp)
{
    int32_t         i, j, n;
    kc_rc_t         rc;
    kc_answer_t    *answers;
    kc_resource_t  *r;

    memset(rsp, 0, sizeof(*rsp));

    n = req->resources_n > 0 ? req->resources_n : 0;

    rsp->responses = kf_arena_array(call->arena, (size_t) n + 1,
                                    sizeof(rsp->responses[0]));
    answers = kf_arena_array(call->arena, (size_t) n + 1, sizeof(kc_answer_t));
    r = kf_arena_array(call->arena, (size_t) n + 1, sizeof(kc_resource_t));

    if (rsp->responses == NULL || answers == NULL || r == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    for (i = 0; i < n; i++) {
        r[i].resource_type = req->resources[i].resource_type;
        r[i].resource_name = req->resources[i].resource_name;
        r[i].configs_n = req->resources[i].configs_n > 0
                         ? req->resources[i].configs_n : 0;
        r[i].configs = kf_arena_array(call->arena,
                                      (size_t) r[i].configs_n + 1,
                                      sizeof(r[i].configs[0]));
        if (r[i].configs == NULL) {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the request");
        }

        for (j = 0; j < r[i].configs_n; j++) {
            r[i].configs[j].name = req->resources[i].configs[j].name;
            r[i].configs[j].value = req->resources[i].configs[j].value;
            r[i].configs[j].config_operation = KC_OP_SET;
        }
    }

    rc = kc_alter_all(kc, call, r, n, true, req->validate_only, answers);

    for (i = 0; i < n; i++) {
        rsp->responses[i].resource_type = answers[i].resource_type;
        rsp->responses[i].resource_name = answers[i].resource_name;
        rsp->responses[i].error_code = answers[i].error_code;
        rsp->responses[i].error_message = answers[i].error_message;
    }

    rsp->responses_n = n;

    return rc;
}
