/*
 * DescribeConfigs: topics, the broker, sources, synonyms, filters, errors.
 */

#include "coordinator_lib.h"

typedef kf_describe_configs_response_configs_t  entry_t;

static world_t                           w;
static kf_describe_configs_response_t    rsp;
static kf_describe_configs_request_t     req;
static kf_describe_configs_request_resources_t  r;


static int16_t
describe(int8_t type, const char *name)
{
    r.resource_type = type;
    r.resource_name = s(name);
    req.resources = &r;
    req.resources_n = 1;

    if (kc_describe_configs(&w.kc, &w.call, 4, &req, &rsp) != KC_OK
        || rsp.results_n != 1)
    {
        abort();
    }

    return rsp.results[0].error_code;
}


static const entry_t *
entry(const char *name)
{
    int32_t         i;
    static entry_t  none;

    for (i = 0; i < rsp.results[0].configs_n; i++) {
        if (kf_str_eq(rsp.results[0].configs[i].name, s(name))) {
            return &rsp.results[0].configs[i];
        }
    }

    diag("there is no %s", name);
    none.value = s("(missing)");
    none.config_source = -9;

    return &none;
}


static void
synonyms(const char *name, const char *want)
{
    int32_t         i;
    char            got[512] = "";
    const entry_t  *e = entry(name);

    for (i = 0; i < e->synonyms_n; i++) {
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%d:%s=%s",
                 i ? " " : "", e->synonyms[i].source, c(e->synonyms[i].name),
                 c(e->synonyms[i].value));
    }

    is_str(got, want, name);
}


int
main(void)
{
    kf_str_t           keys[2];
    kc_config_entry_t  st[] = {
        { s("log.retention.hours"), s("2") },
        { s("compression.type"), s("zstd") },
        { s("num.partitions"), s("6") },
    };
    kc_config_entry_t  facts[] = { { s("log.dirs"), s("/var/lib/k") } };
    kf_create_topics_request_t          creq;
    kf_create_topics_response_t         crsp;
    kf_create_topics_request_topics_t   t;
    kf_create_topics_request_configs_t  e = { s("segment.bytes"),
                                              s("2097152") };

    world_start(&w);
    memset(&req, 0, sizeof(req));
    memset(&r, 0, sizeof(r));
    r.configuration_keys_n = -1;

    w.config.entries = st;
    w.config.count = 3;
    w.config.facts = facts;
    w.config.facts_count = 1;
    w.call.node_id = 7;

    memset(&creq, 0, sizeof(creq));
    memset(&t, 0, sizeof(t));
    t.name = s("logs");
    t.num_partitions = 1;
    t.replication_factor = 1;
    t.configs = &e;
    t.configs_n = 1;
    creq.topics = &t;
    creq.topics_n = 1;
    kc_create_topics(&w.kc, &w.call, &creq, &crsp);

    /* a topic */
    req.include_synonyms = true;
    is(describe(2, "logs"), 0, "a topic");
    is(w.call.wait, w.end, "waits for what it shows");
    ok(rsp.results[0].configs_n >= 30, "lists %d configs",
       rsp.results[0].configs_n);
    is_str(c(entry("segment.bytes")->value), "2097152", "its own value");
    is(entry("segment.bytes")->config_source, 1, "source: topic");
    is(entry("segment.bytes")->config_type, 3, "an int");
    ok(!entry("segment.bytes")->read_only, "can be changed");
    synonyms("segment.bytes", "1:segment.bytes=2097152 "
             "5:log.segment.bytes=1073741824");
    is_str(c(entry("retention.ms")->value), "7200000",
           "hours of the broker in milliseconds");
    is(entry("retention.ms")->config_source, 4, "source: static");
    is(entry("retention.ms")->config_type, 5, "a long");
    synonyms("retention.ms", "4:log.retention.hours=2");
    is_str(c(entry("compression.type")->value), "zstd", "the broker's");
    synonyms("compression.type",
             "4:compression.type=zstd 5:compression.type=producer");
    is_str(c(entry("flush.ms")->value), "9223372036854775807", "a default");
    is(entry("flush.ms")->config_source, 5, "source: default");
    synonyms("flush.ms", "");
    synonyms("cleanup.policy", "5:log.cleanup.policy=delete");
    is(entry("cleanup.policy")->config_type, 7, "a list");
    is(entry("preallocate")->config_type, 1, "a boolean");
    is(entry("min.cleanable.dirty.ratio")->config_type, 6, "a double");
    is(entry("compression.type")->config_type, 2, "a string");
    ok(kf_str_is_null(entry("flush.ms")->documentation), "no documentation");
    is_str(c(entry("write.caching")->value), "false", "ours is listed too");

    req.include_synonyms = false;
    req.include_documentation = true;
    describe(2, "logs");
    is(entry("flush.ms")->synonyms_n, 0, "no synonyms unless asked");
    ok(entry("flush.ms")->documentation.len > 10, "documentation if asked");

    keys[0] = s("retention.ms");
    keys[1] = s("no.such.key");
    r.configuration_keys = keys;
    r.configuration_keys_n = 2;
    describe(2, "logs");
    is(rsp.results[0].configs_n, 1, "only the keys that were asked for");
    r.configuration_keys = NULL;
    r.configuration_keys_n = 0;
    describe(2, "logs");
    ok(rsp.results[0].configs_n >= 30, "an empty list of keys: all");
    r.configuration_keys_n = -1;

    is(describe(2, "nothing"), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "an unknown topic");
    is(describe(2, ""), KF_ERR_INVALID_TOPIC_EXCEPTION, "an illegal name");

    /* the broker */
    req.include_synonyms = true;
    is(describe(4, "7"), 0, "the broker");
    is_str(c(entry("node.id")->value), "7", "node.id");
    is_str(c(entry("broker.id")->value), "7", "broker.id");
    ok(entry("broker.id")->read_only, "read only");
    is_str(c(entry("log.dirs")->value), "/var/lib/k", "facts of the caller");
    is(entry("log.dirs")->config_source, 4, "static");
    is_str(c(entry("num.partitions")->value), "6", "a line");
    synonyms("num.partitions", "4:num.partitions=6 5:num.partitions=1");
    is_str(c(entry("auto.create.topics.enable")->value), "true", "a default");
    is(entry("auto.create.topics.enable")->config_source, 5, "as such");
    ok(kf_str_is_null(entry("log.retention.ms")->value),
       "log.retention.ms is not set");
    is_str(c(entry("log.retention.hours")->value), "2", "hours are");
    is(entry("log.retention.hours")->config_type, 3, "an int");
    is_str(c(entry("message.max.bytes")->value), "1048588",
           "a topic's default");
    ok(!entry("message.max.bytes")->read_only, "which can be changed");
    is_str(c(entry("min.insync.replicas")->value), "1", "min.insync.replicas");

    is(describe(4, ""), 0, "all brokers");
    is(entry("node.id")->config_source, -9, "have no node id");
    is(describe(4, "8"), KF_ERR_INVALID_REQUEST, "another broker");
    is(describe(4, "x"), KF_ERR_INVALID_REQUEST, "no number");
    is(describe(8, "7"), KF_ERR_INVALID_REQUEST, "an unknown type");

    req.resources_n = 0;
    is(kc_describe_configs(&w.kc, &w.call, 4, &req, &rsp), KC_OK, "nothing");
    is(rsp.results_n, 0, "has no results");

    world_end(&w);

    return done_testing();
}
