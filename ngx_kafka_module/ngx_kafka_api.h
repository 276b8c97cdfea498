/*
 * What the files of the API families share.
 */

#ifndef NGX_KAFKA_API_H
#define NGX_KAFKA_API_H

#include "ngx_kafka.h"
#include "../coordinator/kc_request.h"

#pragma GCC visibility push(hidden)


/*
 * How long a wake-up may be on its way when a wait is over at its deadline: who
 * sends it may have no turn for a while on a machine that is busy.
 */
#define NGX_KAFKA_GRACE  1000

/* Handlers, one per API key. */
void ngx_kafka_produce(ngx_kafka_request_t *r);
void ngx_kafka_fetch(ngx_kafka_request_t *r);
void ngx_kafka_list_offsets(ngx_kafka_request_t *r);
void ngx_kafka_metadata(ngx_kafka_request_t *r);
void ngx_kafka_api_versions(ngx_kafka_request_t *r);
void ngx_kafka_create_topics(ngx_kafka_request_t *r);
void ngx_kafka_delete_topics(ngx_kafka_request_t *r);
void ngx_kafka_init_producer_id(ngx_kafka_request_t *r);
void ngx_kafka_offset_for_leader_epoch(ngx_kafka_request_t *r);
void ngx_kafka_describe_configs(ngx_kafka_request_t *r);
void ngx_kafka_describe_cluster(ngx_kafka_request_t *r);
void ngx_kafka_describe_topic_partitions(ngx_kafka_request_t *r);
void ngx_kafka_create_partitions(ngx_kafka_request_t *r);
void ngx_kafka_delete_records(ngx_kafka_request_t *r);
void ngx_kafka_alter_configs(ngx_kafka_request_t *r);
void ngx_kafka_incremental_alter_configs(ngx_kafka_request_t *r);
void ngx_kafka_list_config_resources(ngx_kafka_request_t *r);
void ngx_kafka_describe_log_dirs(ngx_kafka_request_t *r);
void ngx_kafka_find_coordinator(ngx_kafka_request_t *r);
void ngx_kafka_join_group(ngx_kafka_request_t *r);
void ngx_kafka_sync_group(ngx_kafka_request_t *r);
void ngx_kafka_heartbeat(ngx_kafka_request_t *r);
void ngx_kafka_leave_group(ngx_kafka_request_t *r);
void ngx_kafka_describe_groups(ngx_kafka_request_t *r);
void ngx_kafka_list_groups(ngx_kafka_request_t *r);
void ngx_kafka_delete_groups(ngx_kafka_request_t *r);
void ngx_kafka_offset_commit(ngx_kafka_request_t *r);
void ngx_kafka_offset_fetch(ngx_kafka_request_t *r);
void ngx_kafka_offset_delete(ngx_kafka_request_t *r);
void ngx_kafka_add_partitions_to_txn(ngx_kafka_request_t *r);
void ngx_kafka_add_offsets_to_txn(ngx_kafka_request_t *r);
void ngx_kafka_end_txn(ngx_kafka_request_t *r);
void ngx_kafka_write_txn_markers(ngx_kafka_request_t *r);
void ngx_kafka_txn_offset_commit(ngx_kafka_request_t *r);
void ngx_kafka_describe_producers(ngx_kafka_request_t *r);
void ngx_kafka_describe_transactions(ngx_kafka_request_t *r);
void ngx_kafka_list_transactions(ngx_kafka_request_t *r);
void ngx_kafka_update_features(ngx_kafka_request_t *r);
void ngx_kafka_alter_replica_log_dirs(ngx_kafka_request_t *r);
void ngx_kafka_create_delegation_token(ngx_kafka_request_t *r);
void ngx_kafka_renew_delegation_token(ngx_kafka_request_t *r);
void ngx_kafka_expire_delegation_token(ngx_kafka_request_t *r);
void ngx_kafka_describe_delegation_token(ngx_kafka_request_t *r);
void ngx_kafka_elect_leaders(ngx_kafka_request_t *r);
void ngx_kafka_alter_partition_reassignments(ngx_kafka_request_t *r);
void ngx_kafka_list_partition_reassignments(ngx_kafka_request_t *r);
void ngx_kafka_describe_quorum(ngx_kafka_request_t *r);


/*
 * Begins a coordinator call: takes the lock and fills *call in.  NGX_AGAIN: the
 * coordinator is recovering; the request is parked and again() runs later.
 * The caller ends it with ngx_kafka_coord_unlock().
 */
ngx_int_t ngx_kafka_call_begin(ngx_kafka_request_t *r, kc_call_t *call,
    void (*again)(ngx_kafka_request_t *r));

/* The same; NGX_AGAIN parks nothing. */
ngx_int_t ngx_kafka_call_try(ngx_kafka_request_t *r, kc_call_t *call);

/*
 * A coordinator call that failed as a whole: logs what the operator can do and
 * returns a retriable code for the client.
 */
int16_t ngx_kafka_call_error(ngx_kafka_request_t *r, kc_rc_t rc);

/* Kafka's code for what the log layer answers; logs nothing (it has). */
int16_t ngx_kafka_log_error(kl_rc_t rc);

kc_time_t ngx_kafka_now(void);

/* Notes the first error and topic of an answer, for the request's log line. */
void ngx_kafka_note(ngx_kafka_request_t *r, int16_t error, kf_str_t topic);

/*
 * Partitions that one request may name: more than there can be would only be a
 * way to make the broker allocate.  false: the request has been failed.
 */
ngx_uint_t ngx_kafka_parts_max(ngx_kafka_broker_t *b);
bool ngx_kafka_parts_ok(ngx_kafka_request_t *r, size_t n);

/* KIP-320: the client's idea of the leader epoch against ours. */
int16_t ngx_kafka_check_leader_epoch(ngx_kafka_broker_t *b, int32_t epoch);

/* A topic named by name, or by id where the version says so.  Kafka's code. */
int16_t ngx_kafka_find_topic(ngx_kafka_request_t *r, bool by_id, kf_str_t name,
    kf_uuid_t id, ngx_kafka_topic_t **t);


/* Fetch sessions of this worker (KIP-227): ngx_kafka_session.c */
typedef struct ngx_kafka_session_s  ngx_kafka_session_t;

typedef struct {
    ngx_str_node_t  node;               /* in the session, by topic and index */
    ngx_queue_t     queue;              /* in the session, in fetch order */
    kf_str_t     name;                  /* null where the client uses ids */
    kf_uuid_t    id;
    int32_t      index;
    int32_t      leader_epoch;          /* the client's; -1: not checked */
    int64_t      offset;
    uint32_t     bytes_max;
    /* as last told to the client */
    int64_t      high_watermark;
    int64_t      log_start;
    bool         told;                  /* … and whether it was without error */
} ngx_kafka_fetch_part_t;

struct ngx_kafka_session_s {
    ngx_rbtree_node_t  node;            /* key: id */
    ngx_queue_t        lru;
    int32_t            id;
    int32_t            epoch;           /* the next request's */
    ngx_msec_t         used;
    ngx_queue_t        parts;           /* ngx_kafka_fetch_part_t */
    ngx_uint_t         parts_n;
    ngx_rbtree_t       index;
    ngx_rbtree_node_t  sentinel;
    bool               by_id;
    bool               busy;            /* a fetch of it is under way */
};

/*
 * Finds what a fetch is about: a session that exists (incremental), a new one,
 * or none (sessionless).  *full tells whether the answer lists every partition.
 * Kafka's code; NONE with *s NULL means sessionless.
 */
int16_t ngx_kafka_session_get(ngx_kafka_request_t *r,
    const kf_fetch_request_t *req, bool by_id, ngx_kafka_session_t **s,
    bool *full);
void ngx_kafka_session_release(ngx_kafka_session_t *s);


#pragma GCC visibility pop

#endif
