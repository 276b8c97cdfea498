/*
 * CreateTopics and auto-creation.
 *
 * All topics of a request that can be created are one decision, one batch; each
 * of the others gets its own error and text.  Order of the checks is Kafka's:
 * duplicates in the request, name, existence, collision, configs, counts.
 */

#include "kc_int.h"
#include "kc_describe.h"

typedef kf_create_topics_request_topics_t      kc_wish_t;
typedef kf_create_topics_response_topics_t     kc_created_t;
typedef kf_create_topics_response_configs_t    kc_shown_t;
typedef kf_topic_record_configs_t              kc_override_t;


/* Slots taken, to be given back when nothing comes of it. */
typedef struct kc_bound_s  kc_bound_t;

struct kc_bound_s {
    kc_bound_t  *next;
    int32_t      count;
    int32_t      slots[];
};

/* The decision under way. */
typedef struct {
    kc_t        *kc;
    kc_call_t   *call;
    bool         validate_only;
    bool         internal;
    kc_map_t     names;                 /* of this request */
    kc_map_t     aliases;               /* of topics it creates */
    kc_bound_t  *bound;
    int64_t      partitions;            /* asked for so far */
} kc_create_t;


/*
 * As Kafka bounds a request, so that one client cannot hold the lock for long:
 * a policy, because retrying will not help.
 */
#define KC_REQUEST_PARTITIONS_MAX  10000


static bool
kc_refuse(kc_created_t *out, int16_t error, kf_str_t message)
{
    out->error_code = error;
    out->error_message = message;

    return false;
}

#define kc_refuse_text(out, error, text)                                      \
    kc_refuse(out, error, kf_str(text))


/* Gives back what was bound after `until`; NULL: all. */
static void
kc_release_bound(kc_create_t *c, kc_bound_t *until)
{
    int32_t  i;
    kc_t    *kc = c->kc;

    for ( ; c->bound != until; c->bound = c->bound->next) {
        for (i = 0; i < c->bound->count; i++) {
            if (kc->io.release) {
                kc->io.release(kc->io.ctx, c->bound->slots[i]);
            }
        }
    }
}


/* KC_OK with *full when the table has no room; then nothing stays bound. */
static kc_rc_t
kc_bind_topic(kc_create_t *c, kf_uuid_t id, int32_t partitions, bool *full)
{
    kc_t        *kc = c->kc;
    kc_bound_t  *b;

    *full = false;

    if (kc->io.bind == NULL || c->validate_only) {
        return KC_OK;
    }

    b = kf_arena_alloc(c->call->arena, sizeof(kc_bound_t)
                                       + (size_t) partitions * sizeof(int32_t));
    if (b == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the request");
    }

    for (b->count = 0; b->count < partitions; b->count++) {
        b->slots[b->count] = kc->io.bind(kc->io.ctx, id, b->count);

        if (b->slots[b->count] < 0) {
            while (b->count-- && kc->io.release) {
                kc->io.release(kc->io.ctx, b->slots[b->count]);
            }

            *full = true;
            return KC_OK;
        }
    }

    b->next = c->bound;
    c->bound = b;

    return KC_OK;
}


/* Notes a key, which is not there yet, in one of the request's own maps. */
static kc_rc_t
kc_note(kc_create_t *c, kc_map_t *map, kf_str_t key, void *owner)
{
    kc_node_t  *node = kf_arena_alloc(c->call->arena, sizeof(kc_node_t));

    if (node == NULL) {
        return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the request");
    }

    kc_map_insert(map, node, key, owner);

    return KC_OK;
}


static bool
kc_is_reserved(kf_str_t name)
{
    return kf_str_eq(name, kf_str("__consumer_offsets"))
           || kf_str_eq(name, kf_str("__transaction_state"))
           || kf_str_eq(name, kf_str("__share_group_state"))
           || kf_str_eq(name, kf_str("__cluster_metadata"));
}


/* Name, existence, collision.  false: refused. */
static bool
kc_check_name(kc_create_t *c, kf_str_t name, kf_str_t alias, kc_created_t *out)
{
    const char        *problem = kc_topic_name_problem(name);
    const kc_topic_t  *t;

    if (problem) {
        return kc_refuse(out, KF_ERR_INVALID_TOPIC_EXCEPTION, kc_cstr(problem));
    }

    if (kc_topic_by_name(c->kc, name)) {
        return kc_refuse(out, KF_ERR_TOPIC_ALREADY_EXISTS,
                         kf_arena_printf(c->call->arena,
                                         "Topic '%.*s' already exists.",
                                         (int) name.len, name.data));
    }

    if (kc_is_reserved(name) && !c->internal) {
        return kc_refuse_text(out, KF_ERR_INVALID_TOPIC_EXCEPTION,
                              "this name belongs to one of Kafka's internal "
                              "topics, which this broker keeps in its journal");
    }

    t = kc_topic_by_alias(c->kc, alias);

    if (t) {
        return kc_refuse(out, KF_ERR_INVALID_TOPIC_EXCEPTION,
                         kf_arena_printf(c->call->arena, "topic \"%.*s\" and "
                                         "the existing \"%.*s\" differ only in "
                                         "'.' and '_', which metrics cannot "
                                         "tell apart", (int) name.len,
                                         name.data, (int) t->name.len,
                                         t->name.data));
    }

    if (kc_map_find(&c->aliases, alias)) {
        return kc_refuse_text(out, KF_ERR_INVALID_TOPIC_EXCEPTION,
                              "another topic of this request differs from this "
                              "one only in '.' and '_'");
    }

    return true;
}


/* Checks the overrides and puts them, canonical and sorted, into the record. */
static kc_rc_t
kc_check_configs(kc_create_t *c, const kc_wish_t *wish, kf_topic_record_t *r,
    kc_created_t *out, bool *good)
{
    bool             ok = true;
    char             problem[128];
    int32_t          i, j, n, order;
    int64_t          min_lag, max_lag;
    kf_arena_t      *arena = c->call->arena;
    kc_value_t       v;
    kc_override_t    o;
    const kc_def_t  *def;

    *good = false;
    n = wish->configs_n > 0 ? wish->configs_n : 0;
    r->configs_n = 0;

    if (n == 0) {
        *good = true;
        return KC_OK;
    }

    if (n > (int32_t) (2 * kc_topic_defs_n)) {
        kc_refuse_text(out, KF_ERR_INVALID_CONFIG,
                       "more configs than there are names");
        return KC_OK;
    }

    r->configs = kf_arena_array(arena, (size_t) n, sizeof(kc_override_t));
    if (r->configs == NULL) {
        return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the request");
    }

    min_lag = kc_topic_config_int(c->kc, c->call->config, NULL,
                                  KC_MIN_COMPACTION_LAG_MS);
    max_lag = kc_topic_config_int(c->kc, c->call->config, NULL,
                                  KC_MAX_COMPACTION_LAG_MS);

    for (i = 0; i < n; i++) {
        o.name = wish->configs[i].name;
        def = kc_topic_def(o.name);

        if (def == NULL) {
            kc_refuse(out, KF_ERR_INVALID_CONFIG,
                      kf_arena_printf(arena, "unknown topic config \"%.*s\"",
                                      (int) o.name.len, o.name.data));
            return KC_OK;
        }

        if (kf_str_is_null(wish->configs[i].value)) {
            kc_refuse(out, KF_ERR_INVALID_CONFIG,
                      kf_arena_printf(arena, "topic config \"%s\" has no value",
                                      def->name));
            return KC_OK;
        }

        if (kc_value_parse(def, NULL, wish->configs[i].value, &v, problem,
                           sizeof(problem)))
        {
            kc_refuse(out, KF_ERR_INVALID_CONFIG,
                      kf_arena_printf(arena, "invalid value \"%.*s\" of topic "
                                      "config \"%s\": %s",
                                      (int) wish->configs[i].value.len,
                                      wish->configs[i].value.data, def->name,
                                      problem));
            return KC_OK;
        }

        if (def == &kc_topic_defs[KC_MIN_COMPACTION_LAG_MS]) {
            min_lag = v.number;

        } else if (def == &kc_topic_defs[KC_MAX_COMPACTION_LAG_MS]) {
            max_lag = v.number;
        }

        o.value = kf_arena_str(arena, (kf_str_t) { (uint8_t *) v.text, v.len },
                               &ok);
        if (!ok) {
            return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the request");
        }

        for (j = r->configs_n; j > 0; j--) {
            order = kc_key_cmp(r->configs[j - 1].name, o.name);

            if (order == 0) {
                kc_refuse(out, KF_ERR_INVALID_CONFIG,
                          kf_arena_printf(arena, "topic config \"%s\" is given "
                                          "twice", def->name));
                return KC_OK;
            }

            if (order < 0) {
                break;
            }

            r->configs[j] = r->configs[j - 1];
        }

        r->configs[j] = o;
        r->configs_n++;
    }

    if (min_lag > max_lag) {
        kc_refuse_text(out, KF_ERR_INVALID_CONFIG, "min.compaction.lag.ms is "
                       "larger than max.compaction.lag.ms");
        return KC_OK;
    }

    *good = true;

    return KC_OK;
}


/* An explicit assignment is taken if it names this node and nothing else. */
static kc_rc_t
kc_check_assignment(kc_create_t *c, const kc_wish_t *wish, int32_t *partitions,
    kc_created_t *out, bool *good)
{
    int32_t   i, n = wish->assignments_n, p;
    uint8_t  *seen;

    *good = false;

    if (wish->replication_factor != -1 || wish->num_partitions != -1) {
        kc_refuse_text(out, KF_ERR_INVALID_REQUEST, "with an assignment the "
                       "number of partitions and the replication factor have "
                       "to be -1");
        return KC_OK;
    }

    seen = kf_arena_array(c->call->arena, (size_t) n, 1);
    if (seen == NULL) {
        return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the request");
    }

    for (i = 0; i < n; i++) {
        p = wish->assignments[i].partition_index;

        if (p < 0 || p >= n || seen[p]) {
            kc_refuse_text(out, KF_ERR_INVALID_REPLICA_ASSIGNMENT, "an "
                           "assignment has to list partitions 0, 1, 2, … once "
                           "each");
            return KC_OK;
        }

        seen[p] = 1;

        if (wish->assignments[i].broker_ids_n != 1
            || wish->assignments[i].broker_ids[0] != c->call->node_id)
        {
            kc_refuse(out, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
                      kf_arena_printf(c->call->arena, "partition %d has to be "
                                      "assigned to broker %d alone, the only "
                                      "one", p, c->call->node_id));
            return KC_OK;
        }
    }

    *partitions = n;
    *good = true;

    return KC_OK;
}


static kc_rc_t
kc_check_counts(kc_create_t *c, const kc_wish_t *wish, int32_t *partitions,
    kc_created_t *out, bool *good)
{
    if (wish->assignments_n > 0) {
        return kc_check_assignment(c, wish, partitions, out, good);
    }

    *good = false;

    if (wish->replication_factor != -1 && wish->replication_factor != 1) {
        kc_refuse(out, KF_ERR_INVALID_REPLICATION_FACTOR,
                  kf_arena_printf(c->call->arena, "replication factor %d is "
                                  "not possible: there is one broker, so it "
                                  "has to be 1, or -1 for the default",
                                  wish->replication_factor));
        return KC_OK;
    }

    *partitions = wish->num_partitions;

    if (*partitions == -1) {
        *partitions = (int32_t) kc_broker_config_int(c->kc, c->call->config,
                                                     KC_NUM_PARTITIONS);
    }

    if (*partitions < 1) {
        kc_refuse(out, KF_ERR_INVALID_PARTITIONS,
                  kf_arena_printf(c->call->arena, "%d partitions are not "
                                  "possible: give a positive number, or -1 for "
                                  "the default", *partitions));
        return KC_OK;
    }

    *good = true;

    return KC_OK;
}


/* What versions from 5 on answer: the effective configs of the new topic. */
static kc_rc_t
kc_show_configs(kc_create_t *c, const kf_topic_record_t *r, kc_created_t *out)
{
    bool         ok;
    uint32_t     i;
    kc_topic_t   t;
    kc_shown_t  *e;

    memset(&t, 0, sizeof(t));
    t.config_count = (uint32_t) r->configs_n;
    t.configs = kf_arena_array(c->call->arena, t.config_count + 1,
                               sizeof(kc_config_entry_t));
    out->configs = kf_arena_array(c->call->arena, kc_topic_defs_n,
                                  sizeof(kc_shown_t));

    if (t.configs == NULL || out->configs == NULL) {
        return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the answer");
    }

    for (i = 0; i < t.config_count; i++) {
        t.configs[i].name = r->configs[i].name;
        t.configs[i].value = r->configs[i].value;
    }

    for (i = 0; i < kc_topic_defs_n; i++) {
        e = &out->configs[out->configs_n++];

        e->name = kc_cstr(kc_topic_defs[i].name);
        ok = kc_topic_config_show(c->kc, c->call, &t, &kc_topic_defs[i],
                                  &e->value, &e->config_source);
        if (!ok) {
            return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the answer");
        }
    }

    return KC_OK;
}


/* Decides one topic; out has its answer either way. */
static kc_rc_t
kc_create_one(kc_create_t *c, const kc_wish_t *wish, kc_created_t *out,
    bool show)
{
    bool               good, full;
    uint8_t           *alias_text;
    kc_rc_t            rc;
    kf_str_t           alias;
    kc_bound_t        *before = c->bound;
    kf_topic_record_t  r;

    memset(&r, 0, sizeof(r));
    r.name = wish->name;
    r.internal = c->internal;

    alias_text = kf_arena_alloc(c->call->arena, (size_t) wish->name.len + 1);
    if (alias_text == NULL) {
        return kc_fail(c->kc, KC_NO_MEMORY, "no memory for the request");
    }

    kc_topic_alias(wish->name, alias_text);
    alias = (kf_str_t) { alias_text, wish->name.len };

    if (!kc_check_name(c, wish->name, alias, out)) {
        return KC_OK;
    }

    rc = kc_check_configs(c, wish, &r, out, &good);
    if (rc != KC_OK || !good) {
        return rc;
    }

    rc = kc_check_counts(c, wish, &r.partition_count, out, &good);
    if (rc != KC_OK || !good) {
        return rc;
    }

    if (r.partition_count > KC_REQUEST_PARTITIONS_MAX - c->partitions) {
        kc_refuse(out, KF_ERR_POLICY_VIOLATION,
                  kf_arena_printf(c->call->arena, "one request can create at "
                                  "most %d partitions",
                                  KC_REQUEST_PARTITIONS_MAX));
        return KC_OK;
    }

    r.topic_id = kc_random_uuid(c->kc);

    rc = kc_bind_topic(c, r.topic_id, r.partition_count, &full);
    if (rc != KC_OK) {
        return rc;
    }

    if (full) {
        /* Not retriable: it stays so until topics go or the zone grows. */
        kc_refuse(out, KF_ERR_POLICY_VIOLATION,
                  kf_arena_printf(c->call->arena, "the broker has no room for "
                                  "%d more partitions: raise the \"zone\" size "
                                  "in its configuration", r.partition_count));
        kc_fail(c->kc, KC_OK, "topic \"%.*s\" was refused: the zone has no "
                "room for %d more partitions, raise the \"zone\" directive's "
                "size", (int) wish->name.len, wish->name.data,
                r.partition_count);
        return KC_OK;
    }

    if (!c->validate_only) {
        rc = kc_put(c->kc, KF_TOPIC_RECORD, &r);

        if (rc == KC_TOO_LARGE) {
            kc_release_bound(c, before);
            kc_refuse_text(out, KF_ERR_POLICY_VIOLATION,
                           "too many topics in one request: split it");
            return KC_OK;
        }

        if (rc != KC_OK) {
            return rc;
        }
    }

    rc = kc_note(c, &c->aliases, alias, out);
    if (rc != KC_OK) {
        return rc;
    }

    c->partitions += r.partition_count;
    out->topic_id = r.topic_id;
    out->num_partitions = r.partition_count;
    out->replication_factor = 1;

    return show ? kc_show_configs(c, &r, out) : KC_OK;
}


kc_rc_t
kc_create_topics(kc_t *kc, kc_call_t *call,
    const kf_create_topics_request_t *req, kf_create_topics_response_t *rsp)
{
    int32_t        i;
    kc_rc_t        rc = KC_OK;
    kc_create_t    c;
    kc_created_t  *out, *first;

    memset(rsp, 0, sizeof(kf_create_topics_response_t));
    memset(&c, 0, sizeof(kc_create_t));
    c.kc = kc;
    c.call = call;
    c.validate_only = req->validate_only;

    call->wait = kc_topics_changed(kc);

    if (req->topics_n <= 0) {
        return KC_OK;
    }

    rsp->topics = kf_arena_array(call->arena, (size_t) req->topics_n,
                                 sizeof(kc_created_t));
    if (rsp->topics == NULL) {
        return kc_fail(kc, KC_NO_MEMORY, "no memory for the answer");
    }

    /* First the names alone: all uses of one that comes twice are refused. */
    for (i = 0; i < req->topics_n; i++) {
        out = &rsp->topics[i];
        kf_init_create_topics_response_topics(out);
        out->name = req->topics[i].name;

        first = kc_map_find(&c.names, out->name);

        if (first) {
            kc_refuse_text(first, KF_ERR_INVALID_REQUEST,
                           "the request names this topic more than once");
            kc_refuse(out, first->error_code, first->error_message);
            continue;
        }

        rc = kc_note(&c, &c.names, out->name, out);
        if (rc != KC_OK) {
            return rc;
        }
    }

    rsp->topics_n = req->topics_n;
    kc_begin(kc, call->now);

    for (i = 0; i < req->topics_n && rc == KC_OK; i++) {
        out = &rsp->topics[i];

        if (out->error_code == KF_ERR_NONE) {
            rc = kc_create_one(&c, &req->topics[i], out, true);
        }
    }

    if (rc != KC_OK) {
        kc_abandon(kc);
        kc_release_bound(&c, NULL);
        return rc;
    }

    rc = kc_commit(kc, &call->wait);

    if (rc != KC_OK) {
        kc_release_bound(&c, NULL);
    }

    return rc;
}


/*
 * A topic that nobody asked for by CreateTopics, unless it is there.  An
 * internal one is for show, so one partition will do.
 */
static kc_rc_t
kc_create_implied(kc_t *kc, kc_call_t *call, kf_str_t name, bool internal,
    kc_created_t *out)
{
    kc_rc_t            rc;
    kc_wish_t          wish;
    kc_create_t        c;
    const kc_topic_t  *t;

    kf_init_create_topics_response_topics(out);

    t = kc_topic_by_name(kc, name);

    if (t) {
        call->wait = t->changed;
        return KC_OK;
    }

    call->wait = kc_topics_changed(kc);

    memset(&wish, 0, sizeof(kc_wish_t));
    wish.name = name;
    wish.num_partitions = internal ? 1 : -1;
    wish.replication_factor = -1;

    memset(&c, 0, sizeof(kc_create_t));
    c.kc = kc;
    c.call = call;
    c.internal = internal;

    kc_begin(kc, call->now);

    rc = kc_create_one(&c, &wish, out, false);

    if (rc != KC_OK || out->error_code != KF_ERR_NONE) {
        kc_abandon(kc);
        kc_release_bound(&c, NULL);
        return rc;
    }

    rc = kc_commit(kc, &call->wait);

    if (rc != KC_OK) {
        kc_release_bound(&c, NULL);
    }

    return rc;
}


kc_rc_t
kc_auto_create_topic(kc_t *kc, kc_call_t *call, kf_str_t name, int16_t *error)
{
    bool          shown;
    kc_rc_t       rc;
    kc_created_t  out;

    *error = KF_ERR_NONE;

    if (kc_topic_by_name(kc, name) == NULL
        && !kc_broker_config_int(kc, call->config,
                                 KC_AUTO_CREATE_TOPICS_ENABLE))
    {
        call->wait = kc_topics_changed(kc);
        *error = kc_topic_name_problem(name)
                 ? KF_ERR_INVALID_TOPIC_EXCEPTION
                 : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return KC_OK;
    }

    shown = kf_str_eq(name, kf_str("__consumer_offsets"))
            || kf_str_eq(name, kf_str("__transaction_state"));

    rc = kc_create_implied(kc, call, name, shown, &out);
    *error = out.error_code;

    return rc;
}


bool
kc_create_internal_topic(kc_t *kc, kc_call_t *call, kf_str_t name)
{
    kc_created_t  out;

    if (kc_create_implied(kc, call, name, true, &out) != KC_OK) {
        return false;
    }

    if (out.error_code) {
        kc_fail(kc, KC_OK, "%.*s", (int) out.error_message.len,
                out.error_message.data);
        return false;
    }

    return true;
}
