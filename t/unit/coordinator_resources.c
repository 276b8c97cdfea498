/*
 * Resources that exist by having configs: set, shown, listed, ended; journal,
 * snapshot, memory that is refused.
 */

#include "coordinator_lib.h"

typedef kf_incremental_alter_configs_request_configs_t   change_t;

static world_t  w;

enum { SET, DELETE, APPEND, SUBTRACT };


/* One resource with one change: Kafka's code, or -100 when the call failed. */
static int16_t
alter(int8_t type, const char *name, const char *config, int8_t op,
    const char *value)
{
    change_t                                       change;
    kf_incremental_alter_configs_request_t         req;
    kf_incremental_alter_configs_response_t        rsp;
    kf_incremental_alter_configs_request_resources_t  r;

    memset(&req, 0, sizeof(req));
    memset(&r, 0, sizeof(r));
    memset(&change, 0, sizeof(change));
    change.name = s(config);
    change.config_operation = op;
    change.value = value ? s(value) : kf_null_str;
    r.resource_type = type;
    r.resource_name = s(name);
    r.configs = &change;
    r.configs_n = 1;
    req.resources = &r;
    req.resources_n = 1;

    if (kc_incremental_alter_configs(&w.kc, &w.call, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.responses[0].error_code;
}


/* "name=value:source synonyms", all configs of a subscription. */
static const char *
shown(const char *name)
{
    int32_t                                         i;
    static char                                     text[1024];
    kf_describe_configs_request_t                   req;
    kf_describe_configs_response_t                  rsp;
    kf_describe_configs_request_resources_t         r;
    const kf_describe_configs_response_configs_t   *e;

    memset(&req, 0, sizeof(req));
    memset(&r, 0, sizeof(r));
    r.resource_type = 16;
    r.resource_name = s(name);
    r.configuration_keys_n = -1;
    req.resources = &r;
    req.resources_n = 1;
    req.include_synonyms = true;

    if (kc_describe_configs(&w.kc, &w.call, 4, &req, &rsp) != KC_OK) {
        abort();
    }

    snprintf(text, sizeof(text), "%d", rsp.results[0].error_code);

    for (i = 0; i < rsp.results[0].configs_n; i++) {
        e = &rsp.results[0].configs[i];
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 " %s=%s:%d.%d", c(e->name), c(e->value), e->config_source,
                 e->synonyms_n);
    }

    return text;
}


static const char *
listed(void)
{
    kf_str_t     name = kf_null_str;
    static char  text[256];

    text[0] = '\0';

    while ((name = kc_resource_next(&w.kc, 16, name)).data) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                 text[0] ? " " : "", c(name));
    }

    return text;
}


static void
test_changes(void)
{
    is_str(shown("none"), "0 interval.ms=300000:5.0 match=:5.0 metrics=:5.0",
           "one that nobody has made has defaults");
    is(kc_resource_count(&w.kc, 16), 0, "and is not there");

    is(alter(16, "b", "interval.ms", SET, "60000"), 0, "one is made");
    is(alter(16, "a", "metrics", SET, "org.apache.,x"), 0, "another one");
    is(alter(16, "a", "match", APPEND, "client_id=abc.*"), 0, "a list grows");
    is_str(shown("b"), "0 interval.ms=60000:7.1 match=:5.0 metrics=:5.0",
           "what it has is shown");
    is_str(shown("a"), "0 interval.ms=300000:5.0 match=client_id=abc.*:7.1 "
           "metrics=org.apache.,x:7.1", "and what the other one has");
    is_str(listed(), "a b", "both are listed, in order");
    is(kc_resource_count(&w.kc, 16), 2, "and counted");
    is(kc_resource_count(&w.kc, 32), 0, "nothing of another type");
    ok(kc_resource_next(&w.kc, 32, kf_null_str).data == NULL, "nor listed");
    world_check(&w, "two subscriptions");

    is(alter(16, "a", "metrics", SUBTRACT, "x"), 0, "a list shrinks");
    is_str(shown("a"), "0 interval.ms=300000:5.0 match=client_id=abc.*:7.1 "
           "metrics=org.apache.:7.1", "by that part");
    is(alter(16, "b", "interval.ms", DELETE, NULL), 0, "the last config goes");
    is_str(listed(), "a", "and the resource with it");
    is(alter(16, "b", "interval.ms", DELETE, NULL), 0, "once more: no harm");
    world_check(&w, "one subscription");
}


static void
test_refused(void)
{
    is(alter(16, "", "interval.ms", SET, "1000"), KF_ERR_INVALID_REQUEST,
       "no name");
    is(alter(16, "a", "interval.ms", SET, "99"), KF_ERR_INVALID_REQUEST,
       "an interval too short");
    is(alter(16, "a", "interval.ms", SET, "3600001"), KF_ERR_INVALID_REQUEST,
       "too long");
    is(alter(16, "a", "match", SET, "color=red"), KF_ERR_INVALID_CONFIG,
       "a property that clients do not have");
    is(alter(16, "a", "match", SET, "client_id="), KF_ERR_INVALID_CONFIG,
       "no pattern");
    is(alter(16, "a", "match", SET, "client_id"), KF_ERR_INVALID_CONFIG,
       "not a pair");
    is(alter(16, "a", "metrics", SET, "x,,y"), KF_ERR_INVALID_CONFIG,
       "an empty name");
    is(alter(16, "a", "retention.ms", SET, "1"), KF_ERR_INVALID_REQUEST,
       "a topic's config");
    is(alter(64, "a", "interval.ms", SET, "1000"), KF_ERR_INVALID_REQUEST,
       "a type that has no configs");
    is_str(shown(""), "42", "nothing is shown without a name");
    world_check(&w, "nothing changed");
}


static void
test_memory(void)
{
    int       n;
    uint64_t  before = kc_hash(&w.kc);

    for (n = 1; n < 50; n++) {
        w.fail_in = n;

        if (alter(16, "c", "interval.ms", SET, "1000") == 0) {
            break;
        }

        ok(kc_hash(&w.kc) == before, "allocation %d fails: nothing happens", n);
    }

    ok(n > 2 && n < 50, "and with enough memory it is made");
    w.fail_in = 0;
    world_check(&w, "after failures");
}


/* --- a snapshot -------------------------------------------------------- */

static world_t  other;

static bool
sink(void *ctx, uint8_t *batch, size_t len)
{
    *(kc_rc_t *) ctx = kc_replay(&other.kc, batch, len, -1);

    return *(kc_rc_t *) ctx == KC_OK;
}


static void
test_snapshot(void)
{
    kc_rc_t  rc = KC_OK;

    world_start(&other);
    is(kc_snapshot(&w.kc, NOW, sink, &rc), KC_OK, "a snapshot is written");
    is(rc, KC_OK, "and read");
    ok(kc_hash(&other.kc) == kc_hash(&w.kc), "with all resources");
    is(kc_resource_count(&other.kc, 16), 2, "in their places");
    ok(kc_check(&other.kc) == NULL, "invariants hold");
    world_end(&other);
}


int
main(void)
{
    world_start(&w);

    test_changes();
    test_refused();
    test_memory();
    test_snapshot();

    world_end(&w);
    done_testing();
}
