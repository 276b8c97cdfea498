/*
 * Consumer groups and committed offsets: the calls behind the group APIs.
 *
 * As in kc_request.h: one call per API, under the coordinator's lock; KC_OK,
 * and the response is whole (it may carry Kafka's errors, and points only into
 * the request, the arena and static memory); call->wait is the journal offset
 * that has to be flushed before the answer leaves.  Any other result: the
 * caller answers with a retriable code, and a client that asks again is
 * served.
 *
 * Waiting.  JoinGroup and SyncGroup may answer KC_PARK: the caller keeps the
 * decoded request and what is in kc_park_t, and asks again with the poll form
 * of the call whenever the group has changed, until that answers something
 * else. The state holds no pointer to a request: only a ticket in the member,
 * so a second request of the same member makes the first one's poll answer. A
 * poll decides nothing and is idempotent.  When the state was recovered (its
 * epoch has changed) the wait is gone with the ticket: the caller makes the
 * original call again with the decoded request.
 *
 * Wake-ups.  After each call, kc_tick() and all others of kc_request.h
 * included, kc_woken_take() tells the groups whose waiters have to be asked,
 * by the hash of their ids (two groups may share one; an extra poll is
 * harmless).  Waiters are to be woken before the lock is released, or by
 * whoever finds that the worker died before it could.
 *
 * Timers.  kc_tick() does what is due; kc_next_deadline() says when to call it
 * again.  A deadline may have been moved by any call.  Deadlines of members
 * and rounds are monotonic and volatile: after a recovery the first tick gives
 * every member a full session timeout.  Expiry of offsets is by the wall
 * clock.
 *
 * What is volatile, and what its loss means to a client: members that wait in a
 * round of joining (they join again), ids given with MEMBER_ID_REQUIRED
 * (UNKNOWN_MEMBER_ID, and a new id), departures since the last generation (the
 * member is back until its session ends).  A generation is durable before any
 * member hears of it, so it never goes back and has one leader.
 */

#ifndef KC_GROUP_H
#define KC_GROUP_H

#include "kc_request.h"

#pragma GCC visibility push(hidden)


/* As ListGroups and DescribeGroups call them. */
typedef enum {
    KC_GROUP_EMPTY = 0,
    KC_GROUP_PREPARING,             /* PreparingRebalance: members join */
    KC_GROUP_COMPLETING,            /* CompletingRebalance: leader assigns */
    KC_GROUP_STABLE
} kc_group_state_t;

typedef enum {
    KC_GROUP_CLASSIC = 1
} kc_group_type_t;

/* Who asks, for DescribeGroups; the client id also begins the member's id. */
typedef struct {
    kf_str_t  id;
    kf_str_t  host;                 /* as Kafka prints it: "/127.0.0.1" */
} kc_client_t;

/* What a parked request has to remember besides itself. */
typedef struct {
    uint64_t  ticket;
    uint32_t  hash;                 /* of the group's id: the key to wait for */
    int32_t   generation;           /* JoinGroup: the one before its round */
    kf_str_t  member_id;            /* in the call's arena */
} kc_park_t;


/* The key that a group's waiters are woken by. */
uint32_t kc_group_hash(kf_str_t group_id);

/* Groups changed since the last take; valid until the next call.  KC_WOKEN of
   them: there may be more, all that wait have to be asked. */
uint32_t kc_woken_take(kc_t *kc, const uint32_t **hashes);


/*
 * JoinGroup 0–9, KC_OK or KC_PARK.  version decides what Kafka decides by it:
 * MEMBER_ID_REQUIRED from 4 on, SkipAssignment from 9 on; in version 0 the
 * session timeout is also that of the round.
 */
kc_rc_t kc_join_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kc_client_t *client, const kf_join_group_request_t *req,
    kc_park_t *park, kf_join_group_response_t *rsp);
kc_rc_t kc_join_group_poll(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_join_group_request_t *req, const kc_park_t *park,
    kf_join_group_response_t *rsp);

/*
 * Instead of the poll, when the state was recovered since: who waits is known
 * no more, but the round may have ended before, and then this tells of it.
 */
kc_rc_t kc_join_group_again(kc_t *kc, kc_call_t *call, int16_t version,
    const kc_client_t *client, const kf_join_group_request_t *req,
    kc_park_t *park, kf_join_group_response_t *rsp);

/* SyncGroup 0–5, KC_OK or KC_PARK. */
kc_rc_t kc_sync_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_sync_group_request_t *req, kc_park_t *park,
    kf_sync_group_response_t *rsp);
kc_rc_t kc_sync_group_poll(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_sync_group_request_t *req, const kc_park_t *park,
    kf_sync_group_response_t *rsp);

/* Heartbeat 0–4: changes a deadline, never the journal. */
kc_rc_t kc_heartbeat(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_heartbeat_request_t *req, kf_heartbeat_response_t *rsp);

/* LeaveGroup 0–5. */
kc_rc_t kc_leave_group(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_leave_group_request_t *req, kf_leave_group_response_t *rsp);


/* OffsetCommit 2–10: names up to 9, topic ids in 10. */
kc_rc_t kc_offset_commit(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_commit_request_t *req, kf_offset_commit_response_t *rsp);

/* OffsetFetch 1–10: one group up to 7, several from 8 on, topic ids in 10. */
kc_rc_t kc_offset_fetch(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_fetch_request_t *req, kf_offset_fetch_response_t *rsp);

/* OffsetDelete 0. */
kc_rc_t kc_offset_delete(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_offset_delete_request_t *req, kf_offset_delete_response_t *rsp);

/*
 * May this member commit offsets?  Kafka's code.  version is that of
 * OffsetCommit or (transactional) of TxnOffsetCommit, whose versions before 3
 * have no member: pass -1, "" and null.  A group that does not exist may commit
 * without a generation: its first offset creates it.
 */
int16_t kc_group_check_commit(kc_t *kc, kf_str_t group_id, int32_t generation,
    kf_str_t member_id, kf_str_t instance_id, int16_t version,
    bool transactional);


/* DescribeGroups 0–6. */
kc_rc_t kc_describe_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_describe_groups_request_t *req,
    kf_describe_groups_response_t *rsp);

/* ListGroups 0–5. */
kc_rc_t kc_list_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_list_groups_request_t *req, kf_list_groups_response_t *rsp);

/* DeleteGroups 0–3. */
kc_rc_t kc_delete_groups(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_delete_groups_request_t *req, kf_delete_groups_response_t *rsp);


/*
 * Does what is due at call->now: sessions, rounds, ids that were given and not
 * used, offsets, empty groups; budget groups at most (64 when it is more).
 * Safe to call at any time and by any worker.  call->wait: the end of what it
 * wrote.
 */
kc_rc_t kc_tick(kc_t *kc, kc_call_t *call, uint32_t budget);

/* Monotonic ms; in the past: now; INT64_MAX: nothing will ever be due. */
int64_t kc_next_deadline(const kc_t *kc);

/* How many, for status pages and tests. */
typedef struct {
    uint32_t  groups;
    uint64_t  members;
    uint64_t  offsets;
} kc_group_counts_t;

void kc_group_counts(const kc_t *kc, kc_group_counts_t *counts);


#pragma GCC visibility pop

#endif
