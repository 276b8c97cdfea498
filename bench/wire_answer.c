/* Answers; see wire.h. */

#include <stdio.h>
#include <stdlib.h>

#include "wire_int.h"


#define ANSWER_ARENA  (64u << 20)

#define each(i, list)  for (i = 0; i < (list##_n); i++)


static void
note(answer_t *a, int16_t error, kf_str_t message)
{
    if (error == KF_ERR_NONE || a->error != KF_ERR_NONE) {
        return;
    }

    a->error = error;
    snprintf(a->message, sizeof(a->message), "%s: %.*s", kf_err_name(error),
             (int) (message.len < 200 ? message.len : 200),
             message.data ? (const char *) message.data : "");
}


static void
copy(char *id, kf_str_t s)
{
    size_t  n = s.len < WIRE_ID - 1 ? s.len : WIRE_ID - 1;

    if (n) {
        memcpy(id, s.data, n);
    }

    id[n] = '\0';
}


/* The offset after the last whole batch; a fetch may end with a cut one. */
static int64_t
records_end(kf_records_t records)
{
    size_t      at;
    int64_t     next = -1;
    kf_batch_t  b;

    for (at = 0; at < records.len; at += b.size) {
        if (kf_batch_header(records.data + at, records.len - at, &b) != KF_OK
            || b.size > records.len - at)
        {
            break;
        }

        next = kf_batch_next_offset(&b);
    }

    return next;
}


/* Version 12 reads what versions from 9 on answer. */
static kf_rc_t
answer_produce(kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t                           rc;
    int32_t                           i, j;
    kf_produce_response_t             m;
    kf_produce_response_responses_t  *t;

    rc = kf_decode_produce_response(r, WIRE_TXN_PRODUCE, arena, &m);
    if (rc != KF_OK || m.responses_n < 1) {
        return KF_MALFORMED;
    }

    each (i, m.responses) {
        t = &m.responses[i];

        each (j, t->partition_responses) {
            note(a, t->partition_responses[j].error_code,
                 t->partition_responses[j].error_message);
        }
    }

    return KF_OK;
}


static kf_rc_t
answer_fetch(kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t                          rc;
    kf_fetch_response_t              m;
    kf_fetch_response_partitions_t  *p;

    rc = kf_decode_fetch_response(r, WIRE_FETCH, arena, &m);
    if (rc != KF_OK) {
        return rc;
    }

    note(a, m.error_code, kf_null_str);

    if (m.responses_n == 1 && m.responses[0].partitions_n == 1) {
        p = &m.responses[0].partitions[0];
        note(a, p->error_code, kf_null_str);
        a->high_watermark = p->high_watermark;
        a->record_bytes = p->records.len;
        a->next_offset = records_end(p->records);
    }

    return KF_OK;
}


static kf_rc_t
answer_list_offsets(kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t                     rc;
    kf_list_offsets_response_t  m;

    rc = kf_decode_list_offsets_response(r, WIRE_LIST_OFFSETS, arena, &m);

    if (rc != KF_OK || m.topics_n != 1 || m.topics[0].partitions_n != 1) {
        return KF_MALFORMED;
    }

    note(a, m.topics[0].partitions[0].error_code, kf_null_str);

    return KF_OK;
}


static kf_rc_t
answer_metadata(kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    int32_t                 i;
    kf_rc_t                 rc;
    kf_metadata_response_t  m;

    rc = kf_decode_metadata_response(r, WIRE_METADATA, arena, &m);

    if (rc == KF_OK && m.topics_n == 1) {
        note(a, m.topics[0].error_code, kf_null_str);

        each (i, m.topics[0].partitions) {
            a->leaders += m.topics[0].partitions[i].leader_id >= 0;
        }
    }

    return rc;
}


static kf_rc_t
answer_topics(int16_t api, kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t                      rc;
    kf_create_topics_response_t  created;
    kf_delete_topics_response_t  deleted;

    if (api == 19) {
        rc = kf_decode_create_topics_response(r, WIRE_CREATE_TOPICS, arena,
                                              &created);
        if (rc == KF_OK && created.topics_n == 1) {
            note(a, created.topics[0].error_code,
                 created.topics[0].error_message);
        }

        return rc;
    }

    rc = kf_decode_delete_topics_response(r, WIRE_DELETE_TOPICS, arena,
                                          &deleted);
    if (rc == KF_OK && deleted.responses_n == 1) {
        note(a, deleted.responses[0].error_code, kf_null_str);
    }

    return rc;
}


static kf_rc_t
answer_join_group(kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    int32_t                   i;
    kf_rc_t                   rc;
    kf_join_group_response_t  m;

    rc = kf_decode_join_group_response(r, WIRE_JOIN_GROUP, arena, &m);
    if (rc != KF_OK) {
        return rc;
    }

    note(a, m.error_code, kf_null_str);
    copy(a->member, m.member_id);
    a->generation = m.generation_id;
    a->leads = kf_str_eq(m.leader, m.member_id);

    if (m.members_n > 0) {
        a->members = wire_alloc((size_t) m.members_n * WIRE_ID);
        a->members_n = m.members_n;

        each (i, m.members) {
            copy(a->members[i], m.members[i].member_id);
        }
    }

    return KF_OK;
}


/* Of most calls for groups there is only the code to know. */
static kf_rc_t
answer_group(int16_t api, kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t  rc;
    int32_t  i, j;

    union {
        kf_find_coordinator_response_t  find;
        kf_heartbeat_response_t         heartbeat;
        kf_leave_group_response_t       leave;
        kf_sync_group_response_t        sync;
        kf_offset_commit_response_t     commit;
    } m;

    switch (api) {

    case 8:
        rc = kf_decode_offset_commit_response(r, WIRE_OFFSET_COMMIT, arena,
                                              &m.commit);
        if (rc == KF_OK) {
            each (i, m.commit.topics) {
                each (j, m.commit.topics[i].partitions) {
                    note(a, m.commit.topics[i].partitions[j].error_code,
                         kf_null_str);
                }
            }
        }
        return rc;

    case 10:
        rc = kf_decode_find_coordinator_response(r, WIRE_FIND_COORDINATOR,
                                                 arena, &m.find);
        if (rc == KF_OK) {
            note(a, m.find.error_code, m.find.error_message);
        }
        return rc;

    case 12:
        rc = kf_decode_heartbeat_response(r, WIRE_HEARTBEAT, arena,
                                          &m.heartbeat);
        if (rc == KF_OK) {
            note(a, m.heartbeat.error_code, kf_null_str);
        }
        return rc;

    case 13:
        rc = kf_decode_leave_group_response(r, WIRE_LEAVE_GROUP, arena,
                                            &m.leave);
        if (rc == KF_OK) {
            note(a, m.leave.error_code, kf_null_str);

            each (i, m.leave.members) {
                note(a, m.leave.members[i].error_code, kf_null_str);
            }
        }
        return rc;

    default:
        rc = kf_decode_sync_group_response(r, WIRE_SYNC_GROUP, arena, &m.sync);
        if (rc == KF_OK) {
            note(a, m.sync.error_code, kf_null_str);
        }
        return rc;
    }
}


static kf_rc_t
answer_txn(int16_t api, kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t  rc;
    int32_t  i, j;

    union {
        kf_init_producer_id_response_t   init;
        kf_end_txn_response_t            end;
        kf_txn_offset_commit_response_t  offsets;
    } m;

    switch (api) {

    case 22:
        rc = kf_decode_init_producer_id_response(r, WIRE_INIT_PRODUCER_ID,
                                                 arena, &m.init);
        if (rc == KF_OK) {
            note(a, m.init.error_code, kf_null_str);
            a->producer_id = m.init.producer_id;
            a->producer_epoch = m.init.producer_epoch;
        }
        return rc;

    case 26:
        rc = kf_decode_end_txn_response(r, WIRE_END_TXN, arena, &m.end);
        if (rc == KF_OK) {
            note(a, m.end.error_code, kf_null_str);
            a->producer_id = m.end.producer_id;
            a->producer_epoch = m.end.producer_epoch;
        }
        return rc;

    default:
        rc = kf_decode_txn_offset_commit_response(r, WIRE_TXN_OFFSETS, arena,
                                                  &m.offsets);
        if (rc == KF_OK) {
            each (i, m.offsets.topics) {
                each (j, m.offsets.topics[i].partitions) {
                    note(a, m.offsets.topics[i].partitions[j].error_code,
                         kf_null_str);
                }
            }
        }
        return rc;
    }
}


static kf_rc_t
answer_body(int16_t api, kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t                     rc;
    kf_api_versions_response_t  versions;

    switch (api) {

    case 0:
        return answer_produce(r, arena, a);

    case 1:
        return answer_fetch(r, arena, a);

    case 2:
        return answer_list_offsets(r, arena, a);

    case 3:
        return answer_metadata(r, arena, a);

    case 11:
        return answer_join_group(r, arena, a);

    case 8:
    case 10:
    case 12:
    case 13:
    case 14:
        return answer_group(api, r, arena, a);

    case 18:
        rc = kf_decode_api_versions_response(r, WIRE_API_VERSIONS, arena,
                                             &versions);
        note(a, versions.error_code, kf_null_str);
        return rc;

    case 19:
    case 20:
        return answer_topics(api, r, arena, a);

    case 22:
    case 26:
    case 28:
        return answer_txn(api, r, arena, a);
    }

    return KF_UNSUPPORTED;
}


bool
wire_answer(int16_t api, const uint8_t *frame, size_t len, answer_t *a)
{
    kf_rc_t      rc;
    kf_heap_t    heap = { NULL };
    kf_arena_t   arena;
    kf_reader_t  r;

    memset(a, 0, sizeof(answer_t));
    a->next_offset = -1;

    kf_reader_init(&r, frame, len);
    a->correlation_id = kf_read_i32(&r);

    if (api != 18) {
        kf_skip_tags(&r);
    }

    kf_arena_init(&arena, kf_heap_chunk, &heap, ANSWER_ARENA);
    rc = answer_body(api, &r, &arena, a);
    kf_heap_free(&heap);

    return rc == KF_OK && r.rc == KF_OK;
}
