/* Requests: groups and their offsets; see wire.h. */

#include <stdlib.h>

#include "wire_int.h"


#define SESSION_MS    30000
#define REBALANCE_MS  60000

WIRE_ENCODER(find_coordinator)
WIRE_ENCODER(join_group)
WIRE_ENCODER(sync_group)
WIRE_ENCODER(heartbeat)
WIRE_ENCODER(leave_group)
WIRE_ENCODER(offset_commit)


frame_t
wire_find_coordinator(const char *key, int8_t type)
{
    kf_find_coordinator_request_t  m;

    memset(&m, 0, sizeof(m));
    m.key = wire_str(key);
    m.key_type = type;

    return wire_request(10, WIRE_FIND_COORDINATOR, true,
                        encode_find_coordinator, &m);
}


/* A subscription of the consumer protocol, version 0. */
static size_t
subscription(uint8_t *buf, const char *topic, int32_t round)
{
    kf_writer_t  w;

    kf_writer_init(&w, buf, NULL);
    kf_write_i16(&w, 0);
    kf_write_i32(&w, 1);
    kf_write_i16(&w, (int16_t) strlen(topic));
    kf_write_raw(&w, topic, strlen(topic));
    kf_write_i32(&w, 4);
    kf_write_i32(&w, round);

    return w.size;
}


frame_t
wire_join_group(const member_t *m, const char *topic, int32_t round)
{
    uint8_t                            buf[512];
    kf_join_group_request_t            r;
    kf_join_group_request_protocols_t  p;

    memset(&r, 0, sizeof(r));
    p.name = wire_str("range");
    p.metadata.data = buf;
    p.metadata.len = (uint32_t) subscription(buf, topic, round);
    r.group_id = wire_str(m->group);
    r.session_timeout_ms = SESSION_MS;
    r.rebalance_timeout_ms = REBALANCE_MS;
    r.member_id = wire_str(m->id);
    r.group_instance_id = kf_null_str;
    r.protocol_type = wire_str("consumer");
    r.protocols = &p;
    r.protocols_n = 1;
    r.reason = kf_null_str;

    return wire_request(11, WIRE_JOIN_GROUP, true, encode_join_group, &r);
}


void
wire_joined(member_t *m, answer_t *a)
{
    if (a->error == KF_ERR_MEMBER_ID_REQUIRED || a->error == KF_ERR_NONE) {
        memcpy(m->id, a->member, WIRE_ID);
    }

    free(m->members);

    m->generation = a->generation;
    m->leads = a->error == KF_ERR_NONE && a->leads;
    m->members = a->members;
    m->members_n = a->members_n;
    a->members = NULL;
}


/* An assignment of the consumer protocol, version 0. */
static size_t
assignment(uint8_t *buf, const char *topic, int32_t partition)
{
    kf_writer_t  w;

    kf_writer_init(&w, buf, NULL);
    kf_write_i16(&w, 0);
    kf_write_i32(&w, 1);
    kf_write_i16(&w, (int16_t) strlen(topic));
    kf_write_raw(&w, topic, strlen(topic));
    kf_write_i32(&w, 1);
    kf_write_i32(&w, partition);
    kf_write_i32(&w, -1);

    return w.size;
}


frame_t
wire_sync_group(const member_t *m, const char *topic)
{
    int                                   i, n;
    size_t                                each;
    uint8_t                              *buf;
    frame_t                               f;
    kf_sync_group_request_t               r;
    kf_sync_group_request_assignments_t  *a;

    n = m->leads ? m->members_n : 0;
    each = 64 + strlen(topic);

    buf = wire_alloc((size_t) n * each);
    a = wire_alloc((size_t) n * sizeof(kf_sync_group_request_assignments_t));

    for (i = 0; i < n; i++) {
        a[i].member_id = wire_str(m->members[i]);
        a[i].assignment.data = buf + (size_t) i * each;
        a[i].assignment.len =
            (uint32_t) assignment(buf + (size_t) i * each, topic, i);
    }

    memset(&r, 0, sizeof(r));
    r.group_id = wire_str(m->group);
    r.generation_id = m->generation;
    r.member_id = wire_str(m->id);
    r.group_instance_id = kf_null_str;
    r.protocol_type = wire_str("consumer");
    r.protocol_name = wire_str("range");
    r.assignments = a;
    r.assignments_n = n;

    f = wire_request(14, WIRE_SYNC_GROUP, true, encode_sync_group, &r);

    free(a);
    free(buf);

    return f;
}


frame_t
wire_heartbeat(const member_t *m)
{
    kf_heartbeat_request_t  r;

    memset(&r, 0, sizeof(r));
    r.group_id = wire_str(m->group);
    r.generation_id = m->generation;
    r.member_id = wire_str(m->id);
    r.group_instance_id = kf_null_str;

    return wire_request(12, WIRE_HEARTBEAT, true, encode_heartbeat, &r);
}


frame_t
wire_leave_group(const member_t *m)
{
    kf_leave_group_request_t          r;
    kf_leave_group_request_members_t  one;

    memset(&r, 0, sizeof(r));
    one.member_id = wire_str(m->id);
    one.group_instance_id = kf_null_str;
    one.reason = kf_null_str;
    r.group_id = wire_str(m->group);
    r.member_id = wire_str("");
    r.members = &one;
    r.members_n = 1;

    return wire_request(13, WIRE_LEAVE_GROUP, true, encode_leave_group, &r);
}


frame_t
wire_offset_commit(const member_t *m, const char *topic, int32_t partition,
    int32_t count, int64_t offset)
{
    int32_t                                 i;
    frame_t                                 f;
    kf_offset_commit_request_t              r;
    kf_offset_commit_request_topics_t       t;
    kf_offset_commit_request_partitions_t  *p;

    p = wire_alloc((size_t) count * sizeof(*p));

    for (i = 0; i < count; i++) {
        memset(&p[i], 0, sizeof(*p));
        p[i].partition_index = partition + i;
        p[i].committed_offset = offset;
        p[i].committed_leader_epoch = -1;
        p[i].committed_metadata = wire_str("");
    }

    memset(&r, 0, sizeof(r));
    memset(&t, 0, sizeof(t));
    t.name = wire_str(topic);
    t.partitions = p;
    t.partitions_n = count;
    r.group_id = wire_str(m->group);
    r.generation_id_or_member_epoch = m->generation;
    r.member_id = wire_str(m->id);
    r.group_instance_id = kf_null_str;
    r.retention_time_ms = -1;
    r.topics = &t;
    r.topics_n = 1;

    f = wire_request(8, WIRE_OFFSET_COMMIT, true, encode_offset_commit, &r);

    free(p);

    return f;
}
