/*
 * CreateTopics, auto-creation, DeleteTopics: answers, records, state.
 */

#include "coordinator_lib.h"

static world_t  w;


static kf_create_topics_response_topics_t
create_with(kf_create_topics_request_topics_t t, bool validate)
{
    kf_create_topics_request_t   req;
    kf_create_topics_response_t  rsp;

    memset(&req, 0, sizeof(req));
    req.topics = &t;
    req.topics_n = 1;
    req.validate_only = validate;

    if (kc_create_topics(&w.kc, &w.call, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp.topics[0];
}


static kf_create_topics_request_topics_t
wish(const char *name, int32_t partitions, int16_t factor)
{
    kf_create_topics_request_topics_t  t;

    memset(&t, 0, sizeof(t));
    t.name = s(name);
    t.num_partitions = partitions;
    t.replication_factor = factor;

    return t;
}


static void
test_create(void)
{
    int64_t                              before;
    const kc_topic_t                    *t;
    kf_create_topics_response_topics_t   out;

    before = w.end;
    is(create(&w, "logs", 3, &out), 0, "a topic is created");
    is(out.num_partitions, 3, "with three partitions");
    is(out.replication_factor, 1, "and one copy");
    ok(!kf_uuid_is_zero(out.topic_id), "it has an id");
    is(w.end, before + 1, "one record was written");
    is(w.call.wait, w.end, "and the answer waits for it");
    is(w.bound, 3, "three slots are bound");

    t = kc_topic_by_name(&w.kc, s("logs"));
    ok(t != NULL, "it is found by name");
    ok(t && kc_topic_by_id(&w.kc, out.topic_id) == t, "and by id");
    ok(t && t->partition_count == 3 && t->slots[0] != t->slots[1],
       "each partition has its own slot");
    is(t ? t->changed : -1, w.end, "changed says when");
    is((int64_t) kc_topic_count(&w.kc), 1, "one topic");
    is(out.configs_n > 20, 1, "the answer lists the configs");

    is(create(&w, "logs", 3, &out), KF_ERR_TOPIC_ALREADY_EXISTS,
       "a second one of that name is refused");
    is_str(c(out.error_message), "Topic 'logs' already exists.", "saying so");
    is(out.num_partitions, -1, "a refused topic has no partitions");
    is(out.configs_n, 0, "and no configs");
    is(w.call.wait, t ? t->changed : -1, "that answer waits for the first");

    is(create(&w, "defaults", -1, &out), 0, "-1 partitions");
    is(out.num_partitions, 1, "are num.partitions");
    world_check(&w, "create");
}


static void
test_names(void)
{
    char                                 longest[251];
    kf_create_topics_response_topics_t   out;

    is(create(&w, "", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION, "no name");
    is(create(&w, ".", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION, ".");
    is(create(&w, "..", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION, "..");
    is(create(&w, "a b", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION, "a blank");
    is(create(&w, "a/../b", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION,
       "a path");
    is(create(&w, "\xc3\xa9", 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION,
       "not ASCII");

    memset(longest, 'x', 250);
    longest[250] = '\0';
    is(create(&w, longest, 1, NULL), KF_ERR_INVALID_TOPIC_EXCEPTION,
       "250 characters");
    longest[249] = '\0';
    is(create(&w, longest, 1, NULL), 0, "249 characters are good");
    is(delete(&w, longest), 0, "(deleted)");

    is(create(&w, "__consumer_offsets", 1, NULL),
       KF_ERR_INVALID_TOPIC_EXCEPTION, "an internal topic's name");

    is(create(&w, "a.b_c", 1, NULL), 0, "a.b_c");
    is(create(&w, "a_b.c", 1, &out), KF_ERR_INVALID_TOPIC_EXCEPTION,
       "collides with a_b.c");
    ok(strstr(c(out.error_message), "a.b_c") != NULL, "which the text names");
    is(create(&w, "a-b_c", 1, NULL), 0, "but not with a-b_c");
    world_check(&w, "names");
}


static void
test_counts(void)
{
    int32_t                                  self = 1, other = 2;
    int32_t                                  both[] = { 1, 1 };
    kf_create_topics_request_topics_t        t;
    kf_create_topics_response_topics_t       out;
    kf_create_topics_request_assignments_t   a[2];

    is(create_with(wish("n0", 0, 1), false).error_code,
       KF_ERR_INVALID_PARTITIONS, "no partitions");
    is(create_with(wish("n2", -2, 1), false).error_code,
       KF_ERR_INVALID_PARTITIONS, "-2 partitions");
    is(create_with(wish("r0", 1, 0), false).error_code,
       KF_ERR_INVALID_REPLICATION_FACTOR, "factor 0");
    is(create_with(wish("r2", 1, 3), false).error_code,
       KF_ERR_INVALID_REPLICATION_FACTOR, "factor 3");
    is(create_with(wish("r1", 1, 1), false).error_code, 0, "factor 1");
    out = create_with(wish("huge", 2000000000, 1), false);
    is(out.error_code, KF_ERR_POLICY_VIOLATION, "two billion partitions");

    memset(a, 0, sizeof(a));
    a[0].partition_index = 1;
    a[1].partition_index = 0;
    a[0].broker_ids = a[1].broker_ids = &self;
    a[0].broker_ids_n = a[1].broker_ids_n = 1;

    t = wish("assigned", -1, -1);
    t.assignments = a;
    t.assignments_n = 2;
    out = create_with(t, false);
    is(out.error_code, 0, "an assignment to this node");
    is(out.num_partitions, 2, "gives the partitions");

    t.name = s("assigned2");
    t.num_partitions = 2;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REQUEST,
       "an assignment and a count");
    t.num_partitions = -1;
    t.replication_factor = 1;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REQUEST,
       "an assignment and a factor");
    t.replication_factor = -1;
    a[0].partition_index = 2;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
       "a gap");
    a[0].partition_index = 0;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
       "a partition twice");
    a[0].partition_index = 1;
    a[0].broker_ids = &other;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
       "another node");
    a[0].broker_ids = both;
    a[0].broker_ids_n = 2;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
       "two copies");
    a[0].broker_ids_n = 0;
    is(create_with(t, false).error_code, KF_ERR_INVALID_REPLICA_ASSIGNMENT,
       "no copy");
    world_check(&w, "counts");
}


static void
test_configs(void)
{
    const kc_topic_t                    *topic;
    kf_create_topics_request_topics_t    t = wish("configured", 1, 1);
    kf_create_topics_request_configs_t   e[2];
    kf_create_topics_response_topics_t   out;
    int32_t                              i, seen = 0;

    t.configs = e;
    t.configs_n = 1;

    e[0].name = s("retention.sm");
    e[0].value = s("1");
    out = create_with(t, false);
    is(out.error_code, KF_ERR_INVALID_CONFIG, "an unknown config");
    ok(strstr(c(out.error_message), "retention.sm") != NULL, "which is named");

    e[0].name = s("retention.ms");
    e[0].value = s("-2");
    out = create_with(t, false);
    is(out.error_code, KF_ERR_INVALID_CONFIG, "a value out of bounds");
    ok(strstr(c(out.error_message), "at least -1") != NULL, "with the bound");

    e[0].value = kf_null_str;
    is(create_with(t, false).error_code, KF_ERR_INVALID_CONFIG, "no value");

    e[0].value = s("5");
    e[1] = e[0];
    t.configs_n = 2;
    is(create_with(t, false).error_code, KF_ERR_INVALID_CONFIG, "one twice");

    e[0].name = s("min.compaction.lag.ms");
    e[0].value = s("10");
    e[1].name = s("max.compaction.lag.ms");
    is(create_with(t, false).error_code, KF_ERR_INVALID_CONFIG,
       "two that contradict each other");

    e[0].name = s("retention.ms");
    e[0].value = s(" +007 ");
    e[1].name = s("cleanup.policy");
    e[1].value = s("compact , delete");
    out = create_with(t, false);
    is(out.error_code, 0, "good ones");

    topic = kc_topic_by_name(&w.kc, s("configured"));
    is(topic ? topic->config_count : 0, 2, "are kept");
    is_str(topic ? c(topic->configs[0].name) : "", "cleanup.policy", "sorted");
    is_str(topic ? c(topic->configs[0].value) : "", "compact,delete",
           "in canonical form");
    is(kc_topic_config_int(&w.kc, &w.config, topic, KC_RETENTION_MS), 7,
       "and effective");
    is(kc_topic_config_int(&w.kc, &w.config, topic, KC_CLEANUP_POLICY),
       KC_POLICY_DELETE | KC_POLICY_COMPACT, "both of them");

    for (i = 0; i < out.configs_n; i++) {
        if (kf_str_eq(out.configs[i].name, s("retention.ms"))) {
            seen++;
            is_str(c(out.configs[i].value), "7", "the answer shows the value");
            is(out.configs[i].config_source, 1, "as the topic's own");
        }

        if (kf_str_eq(out.configs[i].name, s("segment.bytes"))) {
            seen++;
            is_str(c(out.configs[i].value), "1073741824", "and the defaults");
            is(out.configs[i].config_source, 5, "as such");
        }
    }

    is(seen, 2, "both are in the answer");
    world_check(&w, "configs");
}


static void
test_request(void)
{
    int64_t                             end = w.end;
    uint32_t                            count = kc_topic_count(&w.kc);
    kf_create_topics_request_t          req;
    kf_create_topics_response_t         rsp;
    kf_create_topics_request_topics_t   t[6];

    memset(&req, 0, sizeof(req));
    t[0] = wish("one", 1, 1);
    t[1] = wish("twice", 1, 1);
    t[2] = wish("twice", 1, 1);
    t[3] = wish("two", 2, 1);
    t[4] = wish("x.y", 1, 1);
    t[5] = wish("x_y", 1, 1);
    req.topics = t;
    req.topics_n = 6;
    req.validate_only = true;

    is(kc_create_topics(&w.kc, &w.call, &req, &rsp), KC_OK, "validate only");
    is(rsp.topics[0].error_code, 0, "says yes");
    is(w.end, end, "and writes nothing");
    is(kc_topic_count(&w.kc), count, "and creates nothing");

    req.validate_only = false;
    is(kc_create_topics(&w.kc, &w.call, &req, &rsp), KC_OK, "six topics");
    is(rsp.topics_n, 6, "have six answers");
    is(rsp.topics[0].error_code, 0, "the first is created");
    is(rsp.topics[1].error_code, KF_ERR_INVALID_REQUEST,
       "a name that comes twice is refused");
    is(rsp.topics[2].error_code, KF_ERR_INVALID_REQUEST, "both times");
    is(rsp.topics[3].error_code, 0, "the next is created");
    is(rsp.topics[4].error_code, 0, "x.y too");
    is(rsp.topics[5].error_code, KF_ERR_INVALID_TOPIC_EXCEPTION,
       "x_y collides with it inside one request");
    is(w.end, end + 3, "three records");
    is(w.ends[w.count - 1] - w.ends[w.count - 2], 3,
       "in one batch");

    memset(&req, 0, sizeof(req));
    is(kc_create_topics(&w.kc, &w.call, &req, &rsp), KC_OK, "no topics");
    is(rsp.topics_n, 0, "no answers");
    world_check(&w, "request");
}


static void
test_room(void)
{
    int                                  bound = w.bound;
    kf_create_topics_response_topics_t   out;

    w.room = w.bound + 2;
    is(create(&w, "room3", 3, &out), KF_ERR_POLICY_VIOLATION,
       "no room for three partitions");
    ok(strstr(c(out.error_message), "zone") != NULL, "says what to raise");
    ok(strstr(c(w.kc.problem), "room3") != NULL, "and there is a line to log");
    is(w.bound, bound, "what was bound is released");
    is(create(&w, "room2", 2, &out), 0, "two fit");
    is(w.bound, bound + 2, "and are bound");
    is(delete(&w, "room2"), 0, "a deleted topic");
    is(w.bound, bound, "gives its slots back");
    w.room = SLOTS;

    w.journal_fails = true;
    is(create(&w, "nojournal", 2, NULL), -100 - KC_JOURNAL_FAILED,
       "no journal, no topic");
    is(w.bound, bound, "and no slots");
    ok(kc_topic_by_name(&w.kc, s("nojournal")) == NULL, "and no state");
    is(delete(&w, "logs"), -100 - KC_JOURNAL_FAILED, "no deletion either");
    ok(kc_topic_by_name(&w.kc, s("logs")) != NULL, "it is still there");
    w.journal_fails = false;
    world_check(&w, "room");
}


static void
test_auto(void)
{
    int16_t            error;
    const kc_topic_t  *t;
    int64_t            end;
    kc_config_entry_t  off = { s("auto.create.topics.enable"), s("false") };
    kc_config_entry_t  many = { s("num.partitions"), s("4") };

    w.config.entries = &many;
    w.config.count = 1;
    is(kc_auto_create_topic(&w.kc, &w.call, s("auto"), &error), KC_OK, "auto");
    is(error, 0, "creates a topic");
    is(kc_topic_by_name(&w.kc, s("auto"))->partition_count, 4,
       "with num.partitions");
    is(w.call.wait, w.end, "durably");

    end = w.end;
    kc_auto_create_topic(&w.kc, &w.call, s("auto"), &error);
    is(error, 0, "again: it is there");
    is(w.end, end, "and nothing is written");

    kc_auto_create_topic(&w.kc, &w.call, s("a/b"), &error);
    is(error, KF_ERR_INVALID_TOPIC_EXCEPTION, "a bad name");
    kc_auto_create_topic(&w.kc, &w.call, s("__share_group_state"), &error);
    is(error, KF_ERR_INVALID_TOPIC_EXCEPTION, "an internal name");
    kc_auto_create_topic(&w.kc, &w.call, s("__transaction_state"), &error);
    is(error, 0, "one that is there for show");
    t = kc_topic_by_name(&w.kc, s("__transaction_state"));
    ok(t && t->internal && t->partition_count == 1, "is internal");
    is(delete(&w, "__transaction_state"), 0, "(deleted)");

    w.config.entries = &off;
    kc_auto_create_topic(&w.kc, &w.call, s("auto2"), &error);
    is(error, KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "switched off");
    kc_auto_create_topic(&w.kc, &w.call, s("auto"), &error);
    is(error, 0, "what exists exists");
    w.config.count = 0;
    world_check(&w, "auto");
}


static void
test_internal(void)
{
    int64_t            end;
    kf_str_t           name = s("__consumer_offsets");
    const kc_topic_t  *t;
    kc_config_entry_t  entries[] = {
        { s("auto.create.topics.enable"), s("false") },
        { s("num.partitions"), s("4") }
    };

    w.config.entries = entries;
    w.config.count = 2;

    ok(kc_create_internal_topic(&w.kc, &w.call, name),
       "an internal topic, whatever auto.create.topics.enable says");
    t = kc_topic_by_name(&w.kc, name);
    ok(t && t->internal, "is one");
    is(t->partition_count, 1, "of one partition");
    is(w.call.wait, w.end, "durably");

    end = w.end;
    w.call.wait = -1;
    ok(kc_create_internal_topic(&w.kc, &w.call, name), "again");
    is(w.end, end, "nothing is written");
    is(w.call.wait, end, "and the answer waits for the first");

    is(create(&w, "__consumer_offsets", 1, NULL), KF_ERR_TOPIC_ALREADY_EXISTS,
       "to create it is told that it exists");

    w.config.count = 0;
    world_check(&w, "internal");
    is(delete(&w, "__consumer_offsets"), 0, "(deleted)");

    is(create(&w, "__consumer.offsets", 1, NULL), 0, "one that collides");
    ok(!kc_create_internal_topic(&w.kc, &w.call, name), "is in the way");
    ok(strstr(c(w.kc.problem), "__consumer.offsets") != NULL,
       "which the problem names");
    is(delete(&w, "__consumer.offsets"), 0, "(deleted)");
}


static void
test_delete(void)
{
    kf_str_t                           names[2];
    const kc_topic_t                  *t;
    kf_delete_topics_request_t         req;
    kf_delete_topics_response_t        rsp;
    kf_delete_topics_request_topics_t  d[6];
    kc_config_entry_t  off = { s("delete.topic.enable"), s("false") };

    t = kc_topic_by_name(&w.kc, s("logs"));
    memset(d, 0, sizeof(d));
    memset(&req, 0, sizeof(req));
    d[0].topic_id = t->id;                      /* by id */
    d[1].name = s("logs");                      /* the same by name */
    d[2].name = s("nothing");
    d[3].topic_id.b[3] = 1;                     /* unknown id */
    d[5].name = s("defaults");
    d[5].topic_id = t->id;                      /* both */
    req.topics = d;
    req.topics_n = 6;

    is(kc_delete_topics(&w.kc, &w.call, 6, &req, &rsp), KC_OK, "six deletions");
    is(rsp.responses[0].error_code, KF_ERR_INVALID_REQUEST, "named twice");
    is(rsp.responses[1].error_code, KF_ERR_INVALID_REQUEST, "each time");
    is(rsp.responses[2].error_code, KF_ERR_UNKNOWN_TOPIC_OR_PARTITION,
       "no such name");
    is(rsp.responses[3].error_code, KF_ERR_UNKNOWN_TOPIC_ID, "no such id");
    is(rsp.responses[4].error_code, KF_ERR_INVALID_REQUEST, "neither");
    is(rsp.responses[5].error_code, KF_ERR_INVALID_REQUEST, "both");
    ok(kc_topic_by_name(&w.kc, s("logs")) != NULL, "it is still there");

    req.topics_n = 1;
    is(kc_delete_topics(&w.kc, &w.call, 6, &req, &rsp), KC_OK, "one deletion");
    is(rsp.responses[0].error_code, 0, "by id");
    is_str(c(rsp.responses[0].name), "logs", "answers the name");
    ok(kc_topic_by_name(&w.kc, s("logs")) == NULL, "it is gone");
    is(w.call.wait, w.end, "and the answer waits for that");

    w.config.entries = &off;
    w.config.count = 1;
    names[0] = s("defaults");
    memset(&req, 0, sizeof(req));
    req.topic_names = names;
    req.topic_names_n = 1;
    kc_delete_topics(&w.kc, &w.call, 5, &req, &rsp);
    is(rsp.responses[0].error_code, KF_ERR_TOPIC_DELETION_DISABLED,
       "delete.topic.enable false");
    kc_delete_topics(&w.kc, &w.call, 2, &req, &rsp);
    is(rsp.responses[0].error_code, KF_ERR_INVALID_REQUEST, "before version 3");
    w.config.count = 0;
    kc_delete_topics(&w.kc, &w.call, 1, &req, &rsp);
    is(rsp.responses[0].error_code, 0, "by names");

    is(create(&w, "logs", 1, NULL), 0, "the name is free again");
    world_check(&w, "delete");
}


int
main(void)
{
    int64_t   wait = -1;
    kf_str_t  id, after = kf_null_str;
    int       n = 0, sorted = 1;
    const kc_topic_t  *t;

    world_start(&w);

    is(kc_bootstrap(&w.kc, NOW, &wait), KC_OK, "bootstrap");
    is(wait, 1, "writes one record");
    id = kc_cluster_id(&w.kc);
    is(id.len, 22, "the cluster id has 22 characters");
    is(kc_bootstrap(&w.kc, NOW, &wait), KC_OK, "a second time");
    is(w.end, 1, "nothing");
    is(wait, 1, "but waits for the first");

    is(kc_raise_leader_epoch(&w.kc, NOW, &wait), KC_OK, "leader epoch");
    is(kc_leader_epoch(&w.kc), 1, "is 1 now");
    is(wait, 2, "durably");

    test_create();
    test_names();
    test_counts();
    test_configs();
    test_request();
    test_room();
    test_auto();
    test_internal();
    test_delete();

    while ((t = kc_topic_next(&w.kc, after))) {
        sorted &= kf_str_is_null(after)
                  || strcmp(c(after), c(t->name)) < 0;
        after = t->name;
        n++;
    }

    is(n, kc_topic_count(&w.kc), "all topics are listed");
    ok(sorted, "in order");

    world_end(&w);

    return done_testing();
}
