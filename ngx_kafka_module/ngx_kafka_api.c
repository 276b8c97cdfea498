/*
 * The table of the APIs that are served, and what their handlers share.
 * ApiVersions advertises exactly this table, with the versions of the schemas.
 */

#include "ngx_kafka_api.h"


const ngx_kafka_api_t  ngx_kafka_apis[] = {

    { 0, ngx_kafka_produce, 0 },
    { 1, ngx_kafka_fetch, 0 },
    { 2, ngx_kafka_list_offsets, 0 },
    { 3, ngx_kafka_metadata, 0 },
    { 8, ngx_kafka_offset_commit, NGX_KAFKA_API_CACHED },
    { 9, ngx_kafka_offset_fetch, NGX_KAFKA_API_CACHED },
    { 10, ngx_kafka_find_coordinator, 0 },
    { 11, ngx_kafka_join_group, NGX_KAFKA_API_CACHED },
    { 12, ngx_kafka_heartbeat, NGX_KAFKA_API_CACHED },
    { 13, ngx_kafka_leave_group, NGX_KAFKA_API_CACHED },
    { 14, ngx_kafka_sync_group, NGX_KAFKA_API_CACHED },
    { 15, ngx_kafka_describe_groups, NGX_KAFKA_API_CACHED },
    { 16, ngx_kafka_list_groups, NGX_KAFKA_API_CACHED },
    { 18, ngx_kafka_api_versions, NGX_KAFKA_API_BEFORE_OPEN },
    { 19, ngx_kafka_create_topics, 0 },
    { 20, ngx_kafka_delete_topics, 0 },
    { 21, ngx_kafka_delete_records, 0 },
    { 22, ngx_kafka_init_producer_id, 0 },
    { 23, ngx_kafka_offset_for_leader_epoch, 0 },
    { 24, ngx_kafka_add_partitions_to_txn, NGX_KAFKA_API_CACHED },
    { 25, ngx_kafka_add_offsets_to_txn, NGX_KAFKA_API_CACHED },
    { 26, ngx_kafka_end_txn, NGX_KAFKA_API_CACHED },
    { 27, ngx_kafka_write_txn_markers, 0 },
    { 28, ngx_kafka_txn_offset_commit, NGX_KAFKA_API_CACHED },
    { 32, ngx_kafka_describe_configs, 0 },
    { 33, ngx_kafka_alter_configs, 0 },
    { 34, ngx_kafka_alter_replica_log_dirs, 0 },
    { 35, ngx_kafka_describe_log_dirs, 0 },
    { 37, ngx_kafka_create_partitions, 0 },
    { 38, ngx_kafka_create_delegation_token, 0 },
    { 39, ngx_kafka_renew_delegation_token, 0 },
    { 40, ngx_kafka_expire_delegation_token, 0 },
    { 41, ngx_kafka_describe_delegation_token, 0 },
    { 42, ngx_kafka_delete_groups, 0 },
    { 43, ngx_kafka_elect_leaders, 0 },
    { 44, ngx_kafka_incremental_alter_configs, 0 },
    { 45, ngx_kafka_alter_partition_reassignments, 0 },
    { 46, ngx_kafka_list_partition_reassignments, 0 },
    { 47, ngx_kafka_offset_delete, 0 },
    { 55, ngx_kafka_describe_quorum, 0 },
    { 57, ngx_kafka_update_features, 0 },
    { 60, ngx_kafka_describe_cluster, 0 },
    { 61, ngx_kafka_describe_producers, 0 },
    { 65, ngx_kafka_describe_transactions, NGX_KAFKA_API_CACHED },
    { 66, ngx_kafka_list_transactions, NGX_KAFKA_API_CACHED },
    { 74, ngx_kafka_list_config_resources, 0 },
    { 75, ngx_kafka_describe_topic_partitions, 0 },

};

const ngx_uint_t  ngx_kafka_apis_n = sizeof(ngx_kafka_apis)
                                     / sizeof(ngx_kafka_apis[0]);


kc_time_t
ngx_kafka_now(void)
{
    kc_time_t  now;

    /* nginx's cached time may be older than a record that was just made */

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    return now;
}


ngx_int_t
ngx_kafka_call_begin(ngx_kafka_request_t *r, kc_call_t *call,
    void (*again)(ngx_kafka_request_t *r))
{
    if (ngx_kafka_call_try(r, call) != NGX_OK) {
        ngx_kafka_park_ready(r, again);
        return NGX_AGAIN;
    }

    return NGX_OK;
}


ngx_int_t
ngx_kafka_call_try(ngx_kafka_request_t *r, kc_call_t *call)
{
    ngx_kafka_broker_t  *b = r->broker;

    if (ngx_kafka_coord_lock(b) != NGX_OK) {
        return NGX_AGAIN;
    }

    ngx_memzero(call, sizeof(kc_call_t));

    if (b->caching && (r->api->flags & NGX_KAFKA_API_CACHED)) {
        ngx_kafka_coord_later(b);
    }

    /* offsets to wait for are of this journal */
    r->epoch = b->epoch;

    call->now = ngx_kafka_now();
    call->config = &b->config;
    call->node_id = (int32_t) b->node_id;
    call->arena = &r->arena;
    call->wait = -1;

    return NGX_OK;
}


int16_t
ngx_kafka_call_error(ngx_kafka_request_t *r, kc_rc_t rc)
{
    ngx_kafka_broker_t  *b = r->broker;

    switch (rc) {

    case KC_OK:
        return KF_ERR_NONE;

    case KC_NO_MEMORY:
        ngx_log_error(NGX_LOG_ERR, b->log, 0,
                      "kafka broker \"%V\": the zone is full, a request was "
                      "refused; raise \"zone\" above %uz bytes",
                      &b->name, b->zone_size);
        return KF_ERR_COORDINATOR_NOT_AVAILABLE;

    case KC_JOURNAL_FAILED:
        ngx_log_error(NGX_LOG_ERR, b->log, 0,
                      "kafka broker \"%V\": the journal in \"%V\" cannot be "
                      "written, a request was refused", &b->name, &b->data);
        return KF_ERR_COORDINATOR_NOT_AVAILABLE;

    default:
        ngx_log_error(NGX_LOG_ALERT, b->log, 0,
                      "kafka broker \"%V\": the coordinator answered %d: %*s",
                      &b->name, (int) rc, (size_t) b->kc.problem.len,
                      b->kc.problem.data);
        return KF_ERR_UNKNOWN_SERVER_ERROR;
    }
}


int16_t
ngx_kafka_log_error(kl_rc_t rc)
{
    switch (rc) {
    case KL_OK:
        return KF_ERR_NONE;
    case KL_OUT_OF_RANGE:
        return KF_ERR_OFFSET_OUT_OF_RANGE;
    case KL_GONE:
        return KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    default:
        return KF_ERR_KAFKA_STORAGE_ERROR;
    }
}


void
ngx_kafka_note(ngx_kafka_request_t *r, int16_t error, kf_str_t topic)
{
    if (error && r->error == 0) {
        r->error = error;
    }

    if (r->topic.data == NULL) {
        r->topic = topic;
    }
}


ngx_uint_t
ngx_kafka_parts_max(ngx_kafka_broker_t *b)
{
    return 2 * (ngx_uint_t) kl_shared_parts(b->parts) + 1000;
}


bool
ngx_kafka_parts_ok(ngx_kafka_request_t *r, size_t n)
{
    if (n <= ngx_kafka_parts_max(r->broker)) {
        return true;
    }

    ngx_kafka_fail(r, "request names more partitions than there can be");

    return false;
}


int16_t
ngx_kafka_check_leader_epoch(ngx_kafka_broker_t *b, int32_t epoch)
{
    int32_t  ours;

    if (epoch < 0) {
        return KF_ERR_NONE;
    }

    ours = b->leader_epoch;

    if (epoch < ours) {
        return KF_ERR_FENCED_LEADER_EPOCH;
    }

    return epoch > ours ? KF_ERR_UNKNOWN_LEADER_EPOCH : KF_ERR_NONE;
}


int16_t
ngx_kafka_find_topic(ngx_kafka_request_t *r, bool by_id, kf_str_t name,
    kf_uuid_t id, ngx_kafka_topic_t **t)
{
    ngx_int_t  rc;

    rc = by_id ? ngx_kafka_topic_by_id(r->broker, id, t)
               : ngx_kafka_topic_by_name(r->broker, name, t);

    switch (rc) {

    case NGX_OK:
        if (r->topic.data == NULL) {
            r->topic.data = ngx_pnalloc(r->pool, (*t)->name.len);

            if (r->topic.data) {
                ngx_memcpy((u_char *) r->topic.data, (*t)->name.data,
                           (*t)->name.len);
                r->topic.len = (uint32_t) (*t)->name.len;
            }
        }

        return KF_ERR_NONE;

    case NGX_DECLINED:
        ngx_kafka_note(r, 0, name);
        return by_id ? KF_ERR_UNKNOWN_TOPIC_ID
                     : KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;

    default:
        /* recovering: clients refresh and try again */
        return KF_ERR_NOT_LEADER_OR_FOLLOWER;
    }
}
