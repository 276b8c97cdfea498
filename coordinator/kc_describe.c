/*
 * DescribeConfigs of topics (resource type 2), of the broker (4) and of client
 * metrics (16): values in force, where they come from, and on request all
 * places that give one.
 */

#include <stdio.h>

#include "kc_int.h"
#include "kc_config_def.h"
#include "kc_describe.h"

typedef kf_describe_configs_request_resources_t  kc_resource_t;
typedef kf_describe_configs_response_results_t   kc_result_t;
typedef kf_describe_configs_response_configs_t   kc_entry_t;
typedef kf_describe_configs_response_synonyms_t  kc_shown_t;

#define KC_SYNONYM_NAMES  64            /* of topic configs, at most */


/* The text of a value found, in the unit of the topic's config. */
static bool
kc_found_text(const kc_def_t *def, const kc_found_t *found, kf_arena_t *arena,
    kf_str_t *text)
{
    bool        ok = true;
    kc_value_t  v;

    kc_found_value(def, found, &v);
    *text = kf_arena_str(arena, (kf_str_t) { (uint8_t *) v.text, v.len }, &ok);

    return ok;
}


bool
kc_topic_config_show(const kc_t *kc, const kc_call_t *call,
    const kc_topic_t *t, const kc_def_t *def, kf_str_t *value, int8_t *source)
{
    kc_found_t  found[KC_FOUND_MAX];

    kc_topic_config_find(kc, call->config, t, def, found);
    *source = found[0].source;

    return kc_found_text(def, &found[0], call->arena, value);
}


static bool
kc_wanted(const kc_resource_t *r, const char *name)
{
    int32_t  i;

    if (r->configuration_keys == NULL && r->configuration_keys_n <= 0) {
        return true;                    /* null, or as in Kafka none: all */
    }

    for (i = 0; i < r->configuration_keys_n; i++) {
        if (kf_str_eq(r->configuration_keys[i], kc_cstr(name))) {
            return true;
        }
    }

    return false;
}


static bool
kc_show_synonyms(kc_entry_t *e, const kc_found_t *found, uint32_t n,
    const char *name, kf_arena_t *arena)
{
    bool         ok = true;
    uint32_t     i;
    kc_shown_t  *s;

    e->synonyms = kf_arena_array(arena, n, sizeof(kc_shown_t));
    if (e->synonyms == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {

        /* A default that has no broker-level name is no synonym. */
        if (found[i].source == KC_SOURCE_DEFAULT && found[i].synonym == NULL
            && name)
        {
            continue;
        }

        s = &e->synonyms[e->synonyms_n++];
        s->name = found[i].synonym ? kc_cstr(found[i].synonym->name) : e->name;
        s->value = kf_arena_str(arena, found[i].text, &ok);
        s->source = found[i].source;
    }

    return ok;
}


static bool
kc_describe_topic(kc_t *kc, kc_call_t *call,
    const kf_describe_configs_request_t *req, const kc_resource_t *r,
    kc_result_t *result)
{
    uint32_t           i, n;
    kc_entry_t        *e;
    kc_found_t         found[KC_FOUND_MAX];
    const char        *problem;
    const kc_def_t    *def;
    const kc_topic_t  *t;

    problem = kc_topic_name_problem(r->resource_name);

    if (problem) {
        result->error_code = KF_ERR_INVALID_TOPIC_EXCEPTION;
        result->error_message = kc_cstr(problem);
        return true;
    }

    t = kc_topic_by_name(kc, r->resource_name);

    if (t == NULL) {
        result->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        result->error_message = kf_arena_printf(call->arena,
                                    "there is no topic \"%.*s\"",
                                    (int) r->resource_name.len,
                                    r->resource_name.data);
        return true;
    }

    result->configs = kf_arena_array(call->arena, kc_topic_defs_n,
                                     sizeof(kc_entry_t));
    if (result->configs == NULL) {
        return false;
    }

    for (i = 0; i < kc_topic_defs_n; i++) {
        def = &kc_topic_defs[i];

        if (!kc_wanted(r, def->name)) {
            continue;
        }

        n = kc_topic_config_find(kc, call->config, t, def, found);

        e = &result->configs[result->configs_n++];
        kf_init_describe_configs_response_configs(e);
        e->name = kc_cstr(def->name);
        e->config_source = found[0].source;
        e->config_type = (int8_t) def->type;
        e->documentation = req->include_documentation ? kc_cstr(def->doc)
                                                      : kf_null_str;

        if (!kc_found_text(def, &found[0], call->arena, &e->value)
            || (req->include_synonyms
                && !kc_show_synonyms(e, found, n, def->name, call->arena)))
        {
            return false;
        }
    }

    return true;
}


/*
 * One line of the broker's configs.  Those of all brokers (name "") are the
 * ones that were set at run time.
 */
static bool
kc_describe_broker_entry(kc_t *kc, kc_call_t *call,
    const kf_describe_configs_request_t *req, kc_result_t *result,
    const char *name, const kc_def_t *def, const kc_synonym_t *syn)
{
    bool         ok = true, all = result->resource_name.len == 0;
    uint32_t     n;
    kc_entry_t  *e;
    kc_found_t   found[3];

    n = kc_broker_config_find(kc, call->config, name,
                              syn ? syn->value : def->value, found);

    if (all) {
        if (n == 0 || found[0].source != KC_SOURCE_BROKER) {
            return true;
        }

        found[0].source = KC_SOURCE_ALL_BROKERS;
    }

    e = &result->configs[result->configs_n++];
    kf_init_describe_configs_response_configs(e);
    e->name = kc_cstr(name);
    e->value = n ? kf_arena_str(call->arena, found[0].text, &ok) : kf_null_str;
    e->config_source = n ? found[0].source : KC_SOURCE_DEFAULT;
    e->config_type = (int8_t) (syn && syn->factor != 1 ? KC_INT : def->type);
    e->read_only = def->fixed;
    e->documentation = req->include_documentation ? kc_cstr(def->doc)
                                                  : kf_null_str;

    return ok && (!req->include_synonyms
                  || kc_show_synonyms(e, found, n, NULL, call->arena));
}


/* What is so and cannot be changed by a `config` line. */
static bool
kc_describe_fact(kc_call_t *call, const kf_describe_configs_request_t *req,
    kc_result_t *result, kf_str_t name, kf_str_t value, kc_type_t type)
{
    bool         ok = true;
    kc_entry_t  *e;
    kc_found_t   found = { KC_SOURCE_STATIC, NULL, value };

    e = &result->configs[result->configs_n++];
    kf_init_describe_configs_response_configs(e);
    e->name = kf_arena_str(call->arena, name, &ok);
    e->value = kf_arena_str(call->arena, value, &ok);
    e->config_source = KC_SOURCE_STATIC;
    e->config_type = (int8_t) type;
    e->read_only = true;

    return ok && (!req->include_synonyms
                  || kc_show_synonyms(e, &found, 1, NULL, call->arena));
}


static bool
kc_describe_broker(kc_t *kc, kc_call_t *call,
    const kf_describe_configs_request_t *req, const kc_resource_t *r,
    kc_result_t *result)
{
    char                id[16];
    bool                ok = true;
    uint32_t            i, j, facts;
    kf_str_t            own;
    const kc_def_t     *def;
    const kc_static_t  *st = call->config;

    snprintf(id, sizeof(id), "%d", call->node_id);
    own = kc_cstr(id);

    if (r->resource_name.len && !kf_str_eq(r->resource_name, own)) {
        result->error_code = KF_ERR_INVALID_REQUEST;
        result->error_message = kf_arena_printf(call->arena,
                                    "this is broker %s, not \"%.*s\"", id,
                                    (int) r->resource_name.len,
                                    r->resource_name.data);
        return true;
    }

    facts = st ? st->facts_count : 0;

    result->configs = kf_arena_array(call->arena,
                                     KC_BROKER_CONFIGS + KC_SYNONYM_NAMES
                                     + 3 + facts, sizeof(kc_entry_t));
    if (result->configs == NULL) {
        return false;
    }

    for (i = 0; i < KC_BROKER_CONFIGS; i++) {
        def = &kc_broker_defs[i];

        if (kc_wanted(r, def->name)) {
            ok &= kc_describe_broker_entry(kc, call, req, result, def->name,
                                           def, NULL);
        }
    }

    for (i = 0; i < kc_topic_defs_n; i++) {
        def = &kc_topic_defs[i];

        for (j = 0; j < KC_SYNONYMS && def->synonyms[j].factor; j++) {
            kc_assert(result->configs_n
                      < KC_BROKER_CONFIGS + KC_SYNONYM_NAMES);

            if (kc_wanted(r, def->synonyms[j].name)) {
                ok &= kc_describe_broker_entry(kc, call, req, result,
                                               def->synonyms[j].name, def,
                                               &def->synonyms[j]);
            }
        }
    }

    /* The defaults of all brokers (name "") have no node's own facts. */
    if (r->resource_name.len == 0) {
        return ok;
    }

    if (kc_wanted(r, "node.id")) {
        ok &= kc_describe_fact(call, req, result, kf_str("node.id"), own,
                               KC_INT);
    }

    if (kc_wanted(r, "broker.id")) {
        ok &= kc_describe_fact(call, req, result, kf_str("broker.id"), own,
                               KC_INT);
    }

    if (kc_wanted(r, "process.roles")) {
        ok &= kc_describe_fact(call, req, result, kf_str("process.roles"),
                               kf_str("broker,controller"), KC_LIST);
    }

    for (i = 0; i < facts; i++) {
        char  name[128];

        snprintf(name, sizeof(name), "%.*s", (int) st->facts[i].name.len,
                 st->facts[i].name.data);

        if (kc_wanted(r, name)) {
            ok &= kc_describe_fact(call, req, result, st->facts[i].name,
                                   st->facts[i].value, KC_STRING);
        }
    }

    return ok;
}


/* Every config, also of a resource that has none of its own, as in Kafka. */
static bool
kc_describe_resource(kc_t *kc, kc_call_t *call,
    const kf_describe_configs_request_t *req, const kc_resource_t *r,
    kc_result_t *result)
{
    bool                      ok = true;
    uint32_t                  i, j, n, own_n;
    kc_entry_t               *e;
    kc_found_t                found;
    const kc_def_t           *defs = kc_resource_defs(r->resource_type, &n);
    const kc_config_entry_t  *own;

    if (r->resource_name.len == 0) {
        result->error_code = KF_ERR_INVALID_REQUEST;
        result->error_message = kf_str("the resource has no name");
        return true;
    }

    own = kc_resource_configs(kc, r->resource_type, r->resource_name, &own_n);

    result->configs = kf_arena_array(call->arena, n, sizeof(kc_entry_t));
    if (result->configs == NULL) {
        return false;
    }

    for (i = 0; i < n; i++) {

        if (!kc_wanted(r, defs[i].name)) {
            continue;
        }

        found = (kc_found_t) { KC_SOURCE_DEFAULT, NULL,
                               kc_cstr(defs[i].value) };

        for (j = 0; j < own_n; j++) {
            if (kf_str_eq(own[j].name, kc_cstr(defs[i].name))) {
                found.source = KC_SOURCE_CLIENT_METRICS;
                found.text = own[j].value;
            }
        }

        e = &result->configs[result->configs_n++];
        kf_init_describe_configs_response_configs(e);
        e->name = kc_cstr(defs[i].name);
        e->value = kf_arena_str(call->arena, found.text, &ok);
        e->config_source = found.source;
        e->config_type = (int8_t) defs[i].type;
        e->documentation = req->include_documentation ? kc_cstr(defs[i].doc)
                                                      : kf_null_str;

        if (req->include_synonyms && found.source != KC_SOURCE_DEFAULT) {
            ok &= kc_show_synonyms(e, &found, 1, NULL, call->arena);
        }
    }

    return ok;
}


kc_rc_t
kc_describe_configs(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_describe_configs_request_t *req,
    kf_describe_configs_response_t *rsp)
{
    bool                  ok;
    int32_t               i;
    kc_result_t          *result;
    const kc_resource_t  *r;

    (void) version;

    memset(rsp, 0, sizeof(kf_describe_configs_response_t));
    call->wait = kc_topics_changed(kc);

    if (req->resources_n <= 0) {
        return KC_OK;
    }

    rsp->results = kf_arena_array(call->arena, (size_t) req->resources_n,
                                  sizeof(kc_result_t));
    if (rsp->results == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    rsp->results_n = req->resources_n;

    for (i = 0; i < req->resources_n; i++) {
        r = &req->resources[i];

        result = &rsp->results[i];
        result->resource_type = r->resource_type;
        result->resource_name = r->resource_name;

        switch (r->resource_type) {

        case KC_RESOURCE_TOPIC:
            ok = kc_describe_topic(kc, call, req, r, result);
            break;

        case KC_RESOURCE_BROKER:
            ok = kc_describe_broker(kc, call, req, r, result);
            break;

        case KC_RESOURCE_CLIENT_METRICS:
            ok = kc_describe_resource(kc, call, req, r, result);
            break;

        default:
            ok = true;
            result->error_code = KF_ERR_INVALID_REQUEST;
            result->error_message = kf_arena_printf(call->arena,
                                        "resource type %d has no configs here",
                                        r->resource_type);
            break;
        }

        if (!ok) {
            return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
        }
    }

    return KC_OK;
}
