/*
 * For the tests of groups: one call per request, in a world of
 * coordinator_lib.h.  What a test does not say has a default.
 */

#ifndef COORDINATOR_GROUP_LIB_H
#define COORDINATOR_GROUP_LIB_H

#include "coordinator_lib.h"
#include "../../coordinator/kc_group.h"
#include "../../codec/gen/kf_journal.h"

static world_t  w;

/* Defaults that a test may change for a while. */
static int32_t      session_ms = 10000;
static int32_t      rebalance_ms = 30000;
static const char  *ptype = "consumer";
static const char  *protos = "range:R";         /* name:metadata,… */
static int          seen_batches;


typedef struct {
    kc_rc_t                   rc;
    int16_t                   version;
    kf_join_group_request_t   req;
    kf_join_group_response_t  rsp;
    kc_park_t                 park;
    char                      id[400];          /* rsp.member_id */
} join_t;

typedef struct {
    kc_rc_t                   rc;
    int16_t                   version;
    kf_sync_group_request_t   req;
    kf_sync_group_response_t  rsp;
    kc_park_t                 park;
} sync_t;


/* A copy that lives as long as the world; null stays null. */
__attribute__((unused))
static kf_str_t
str(const char *text)
{
    bool  good = true;

    return text ? kf_arena_str(&w.arena, s(text), &good) : kf_null_str;
}


__attribute__((unused))
static void
later(int64_t ms)
{
    w.call.now.mono_ms += ms;
    w.call.now.wall_ms += ms;
}


/* Runs what is due until nothing is. */
__attribute__((unused))
static void
tick(void)
{
    int  n = 0;

    while (kc_next_deadline(&w.kc) <= w.call.now.mono_ms && n++ < 1000) {
        if (kc_tick(&w.kc, &w.call, 10) != KC_OK) {
            break;
        }
    }

    if (n >= 1000) {
        ok(false, "the timer comes to rest");
    }
}


/* Goes on in steps, as the timer would. */
__attribute__((unused))
static void
pass(int64_t ms)
{
    int64_t  due, end = w.call.now.mono_ms + ms;

    for ( ;; ) {
        due = kc_next_deadline(&w.kc);

        if (due > end) {
            break;
        }

        if (due > w.call.now.mono_ms) {
            later(due - w.call.now.mono_ms);
        }

        tick();
    }

    later(end - w.call.now.mono_ms);
}


/* The records written since the last time, by name: "Group GroupAssignment". */
__attribute__((unused))
static const char *
wrote(void)
{
    int16_t                   type;
    int32_t                   n;
    kf_batch_t                b;
    kf_record_t               r;
    static char               text[4096];
    const char               *name;
    const uint8_t            *pos;

    text[0] = '\0';

    for ( ; seen_batches < w.count; seen_batches++) {
        kf_batch_header(w.batches[seen_batches], w.sizes[seen_batches], &b);
        pos = w.batches[seen_batches] + KF_BATCH_HEADER;

        for (n = 0; n < b.record_count; n++) {
            kf_record_next(&pos, w.batches[seen_batches]
                                 + w.sizes[seen_batches], &r);
            type = (int16_t) (r.value.data[0] << 8 | r.value.data[1]);
            name = kf_journal_type(type)->name;

            if (strlen(text) + 64 < sizeof(text)) {
                snprintf(text + strlen(text), 64, "%s%.*s", text[0] ? " " : "",
                         (int) strlen(name) - 6, name);
            }
        }
    }

    return text;
}


/* "a:b,c:d" into pairs of texts. */
__attribute__((unused))
static int
pairs(const char *text, char sep, kf_str_t *one, kf_str_t *two)
{
    int          n = 0;
    kf_str_t     all = str(text);
    uint32_t     i, start = 0, colon = 0;

    if (all.len == 0) {
        return 0;
    }

    for (i = 0; i <= all.len; i++) {
        if (i < all.len && all.data[i] == (uint8_t) sep) {
            colon = i;

        } else if (i == all.len || all.data[i] == ',') {
            one[n] = (kf_str_t) { all.data + start, colon - start };
            two[n] = (kf_str_t) { all.data + colon + 1, i - colon - 1 };
            n++;
            start = i + 1;
        }
    }

    return n;
}


/* The id's text goes to j->id for %s. */
__attribute__((unused))
static void
join_done(join_t *j)
{
    kf_str_t  id = j->rc == KC_PARK ? j->park.member_id : j->rsp.member_id;

    snprintf(j->id, sizeof(j->id), "%.*s", (int) id.len,
             id.data ? (const char *) id.data : "");
}


__attribute__((unused))
static join_t
join(int16_t version, const char *group, const char *member,
    const char *instance)
{
    int          i, n;
    join_t       j;
    kf_str_t     one[100], two[100];
    kc_client_t  client = { s("me"), s("/127.0.0.1") };

    memset(&j, 0, sizeof(j));
    j.version = version;
    j.req.group_id = str(group);
    j.req.member_id = str(member);
    j.req.group_instance_id = str(instance);
    j.req.session_timeout_ms = session_ms;
    j.req.rebalance_timeout_ms = version ? rebalance_ms : -1;
    j.req.protocol_type = str(ptype);

    n = pairs(protos, ':', one, two);
    j.req.protocols = kf_arena_array(&w.arena, 100, sizeof(*j.req.protocols));
    j.req.protocols_n = n;

    for (i = 0; i < n; i++) {
        j.req.protocols[i].name = one[i];
        j.req.protocols[i].metadata = two[i];
    }

    j.rc = kc_join_group(&w.kc, &w.call, version, &client, &j.req, &j.park,
                         &j.rsp);
    join_done(&j);

    return j;
}


__attribute__((unused))
static kc_rc_t
join_poll(join_t *j)
{
    j->rc = kc_join_group_poll(&w.kc, &w.call, j->version, &j->req, &j->park,
                               &j->rsp);
    if (j->rc == KC_OK) {
        join_done(j);
    }

    return j->rc;
}


/* A dynamic member by way of MEMBER_ID_REQUIRED, as clients do it. */
__attribute__((unused))
static join_t
join2(const char *group)
{
    join_t  j = join(5, group, "", NULL);

    if (j.rsp.error_code != KF_ERR_MEMBER_ID_REQUIRED) {
        return j;
    }

    return join(5, group, j.id, NULL);
}


__attribute__((unused))
static sync_t
sync_as(int16_t version, const char *group, int32_t generation,
    const char *member, const char *instance, const char *assignments)
{
    int       i, n;
    sync_t    y;
    kf_str_t  one[1100], two[1100];

    memset(&y, 0, sizeof(y));
    y.version = version;
    y.req.group_id = str(group);
    y.req.generation_id = generation;
    y.req.member_id = str(member);
    y.req.group_instance_id = str(instance);

    if (version >= 5) {
        y.req.protocol_type = str(ptype);
        y.req.protocol_name = s("range");
    }

    n = pairs(assignments, '=', one, two);
    y.req.assignments = kf_arena_array(&w.arena, (size_t) n + 1,
                                       sizeof(*y.req.assignments));
    y.req.assignments_n = n;

    for (i = 0; i < n; i++) {
        y.req.assignments[i].member_id = one[i];
        y.req.assignments[i].assignment = two[i];
    }

    y.rc = kc_sync_group(&w.kc, &w.call, version, &y.req, &y.park, &y.rsp);

    return y;
}


__attribute__((unused))
static sync_t
sync(const char *group, int32_t generation, const char *member,
    const char *assignments)
{
    return sync_as(3, group, generation, member, NULL, assignments);
}


__attribute__((unused))
static kc_rc_t
sync_poll(sync_t *y)
{
    return y->rc = kc_sync_group_poll(&w.kc, &w.call, y->version, &y->req,
                                      &y->park, &y->rsp);
}


__attribute__((unused))
static int16_t
beat_as(const char *group, int32_t generation, const char *member,
    const char *instance)
{
    kf_heartbeat_request_t   req = { str(group), generation, str(member),
                                     str(instance) };
    kf_heartbeat_response_t  rsp;

    if (kc_heartbeat(&w.kc, &w.call, 4, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.error_code;
}


__attribute__((unused))
static int16_t
beat(const char *group, int32_t generation, const char *member)
{
    return beat_as(group, generation, member, NULL);
}


/* What a leader says to two members. */
__attribute__((unused))
static const char *
give(const char *a, const char *one, const char *b, const char *two)
{
    static char  text[1000];

    snprintf(text, sizeof(text), "%.300s=%.100s,%.300s=%.100s", a, one, b,
             two);

    return text;
}


/* One member leaves; its own error, or the group's. */
__attribute__((unused))
static int16_t
leave_as(const char *group, const char *member, const char *instance)
{
    kf_leave_group_request_t          req;
    kf_leave_group_response_t         rsp;
    kf_leave_group_request_members_t  m;

    memset(&req, 0, sizeof(req));
    memset(&m, 0, sizeof(m));
    m.member_id = str(member);
    m.group_instance_id = str(instance);
    req.group_id = str(group);
    req.members = &m;
    req.members_n = 1;

    if (kc_leave_group(&w.kc, &w.call, 3, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.error_code ? rsp.error_code : rsp.members[0].error_code;
}


__attribute__((unused))
static int16_t
leave(const char *group, const char *member)
{
    return leave_as(group, member, NULL);
}


__attribute__((unused))
static kf_describe_groups_response_groups_t
describe(const char *group)
{
    kf_str_t                       name = str(group);
    kf_describe_groups_request_t   req = { &name, 1, false };
    kf_describe_groups_response_t  rsp;

    if (kc_describe_groups(&w.kc, &w.call, 5, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp.groups[0];
}


__attribute__((unused))
static const char *
state(const char *group)
{
    return c(describe(group).group_state);
}


/* Was the group woken since the last time? */
__attribute__((unused))
static bool
woken(const char *group)
{
    bool             found = false;
    uint32_t         i, n;
    const uint32_t  *hashes;

    n = kc_woken_take(&w.kc, &hashes);

    for (i = 0; i < n; i++) {
        found |= hashes[i] == kc_group_hash(s(group));
    }

    return found;
}


/* One partition's offset is committed; its error. */
__attribute__((unused))
static int16_t
commit_as(int16_t version, const char *group, int32_t generation,
    const char *member, const char *instance, const char *topic,
    int32_t partition, int64_t offset, const char *metadata)
{
    kf_offset_commit_request_t              req;
    kf_offset_commit_response_t             rsp;
    kf_offset_commit_request_topics_t       t;
    kf_offset_commit_request_partitions_t   p;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    memset(&p, 0, sizeof(p));
    p.partition_index = partition;
    p.committed_offset = offset;
    p.committed_leader_epoch = 7;
    p.committed_metadata = str(metadata);
    t.name = str(topic);
    t.partitions = &p;
    t.partitions_n = 1;
    req.group_id = str(group);
    req.generation_id_or_member_epoch = generation;
    req.member_id = str(member);
    req.group_instance_id = str(instance);
    req.retention_time_ms = -1;
    req.topics = &t;
    req.topics_n = 1;

    if (version >= 10 && kc_topic_by_name(&w.kc, t.name)) {
        t.topic_id = kc_topic_by_name(&w.kc, t.name)->id;
    }

    if (kc_offset_commit(&w.kc, &w.call, version, &req, &rsp) != KC_OK) {
        return -100;
    }

    return rsp.topics[0].partitions[0].error_code;
}


__attribute__((unused))
static int16_t
commit(const char *group, const char *topic, int32_t partition, int64_t offset)
{
    return commit_as(7, group, -1, "", NULL, topic, partition, offset, "");
}


__attribute__((unused))
static kf_offset_fetch_response_partitions_t
fetch_part(const char *group, const char *topic, int32_t partition)
{
    kf_offset_fetch_request_t         req;
    kf_offset_fetch_response_t        rsp;
    kf_offset_fetch_request_topics_t  t;

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = str(topic);
    t.partition_indexes = &partition;
    t.partition_indexes_n = 1;
    req.group_id = str(group);
    req.topics = &t;
    req.topics_n = 1;

    if (kc_offset_fetch(&w.kc, &w.call, 7, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp.topics[0].partitions[0];
}


__attribute__((unused))
static int64_t
fetch(const char *group, const char *topic, int32_t partition)
{
    return fetch_part(group, topic, partition).committed_offset;
}


/* The same broker after its end: a new state from the journal. */
__attribute__((unused))
static void
restart(void)
{
    int       i;
    kc_t      kc;
    uint64_t  hash = kc_hash(&w.kc);

    kc_state_free(&w.kc);

    for (i = 0; i < SLOTS; i++) {
        w.used[i] = false;
    }

    w.bound = 0;
    kc = w.kc;
    (void) kc;

    if (kc_state_create(&w.kc) == NULL) {
        abort();
    }

    is(world_replay(&w, &w), KC_OK, "the journal is replayed");
    ok(kc_hash(&w.kc) == hash, "to the same state");

    /* a machine's clock may begin anew */
    w.call.now.mono_ms = 5;
}

#endif
