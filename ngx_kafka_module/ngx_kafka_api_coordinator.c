/*
 * FindCoordinator (key 10), versions 0-6.
 *
 * This broker coordinates everything.  As in Kafka, the first look-up of a
 * group's coordinator makes __consumer_offsets appear, and that of a
 * transactional id's __transaction_state: clients and tools look these up.
 */

#include "ngx_kafka_api.h"


#define NGX_KAFKA_KEY_GROUP  0
#define NGX_KAFKA_KEY_TXN    1
#define NGX_KAFKA_KEY_SHARE  2                  /* version 6, KIP-932 */


static void ngx_kafka_coordinator_topic(ngx_kafka_request_t *r,
    kc_call_t *call);
static int16_t ngx_kafka_coordinator_key(ngx_kafka_request_t *r, int8_t type,
    kf_str_t key);


void
ngx_kafka_find_coordinator(ngx_kafka_request_t *r)
{
    int16_t                                       error;
    int32_t                                       i, port;
    kf_str_t                                      host;
    kc_call_t                                     call;
    kf_find_coordinator_request_t                *req = r->body;
    kf_find_coordinator_response_t                rsp;
    kf_find_coordinator_response_coordinators_t  *c;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_find_coordinator) != NGX_OK) {
        return;
    }

    ngx_kafka_coordinator_topic(r, &call);

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_advertised(r->conn, &host, &port) != NGX_OK) {
        ngx_kafka_fail(r, "no address to advertise");
        return;
    }

    if (r->header.api_version < 4) {
        error = ngx_kafka_coordinator_key(r, req->key_type, req->key);

        rsp.error_code = error;
        rsp.node_id = error ? -1 : (int32_t) r->broker->node_id;
        rsp.host = error ? (kf_str_t) kf_str("") : host;
        rsp.port = error ? -1 : port;

        ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
        ngx_kafka_answer_when(r, &rsp, call.wait);
        return;
    }

    rsp.coordinators_n = ngx_max(req->coordinator_keys_n, 0);
    rsp.coordinators = ngx_kafka_calloc(r, rsp.coordinators_n,
                                  kf_find_coordinator_response_coordinators_t);
    if (rsp.coordinators == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    for (i = 0; i < rsp.coordinators_n; i++) {
        c = &rsp.coordinators[i];
        error = ngx_kafka_coordinator_key(r, req->key_type,
                                          req->coordinator_keys[i]);

        c->key = req->coordinator_keys[i];
        c->error_code = error;
        c->node_id = error ? -1 : (int32_t) r->broker->node_id;
        c->host = error ? (kf_str_t) kf_str("") : host;
        c->port = error ? -1 : port;
        c->error_message = error ? (kf_str_t) kf_null_str
                                 : (kf_str_t) kf_str("");

        ngx_kafka_note(r, error, (kf_str_t) kf_null_str);
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/*
 * The answer waits for the topic to be durable.  It is for show: where it can't
 * be made the coordinator is found all the same, and each worker says so once.
 * The coordinator's lock is held, and released here.
 */
static void
ngx_kafka_coordinator_topic(ngx_kafka_request_t *r, kc_call_t *call)
{
    bool                            made;
    kf_str_t                        name;
    ngx_kafka_broker_t             *b = r->broker;
    kf_find_coordinator_request_t  *req = r->body;

    name = (kf_str_t) kf_null_str;

    if (r->header.api_version < 4 || req->coordinator_keys_n > 0) {

        switch (req->key_type) {

        case NGX_KAFKA_KEY_GROUP:
            name = (kf_str_t) kf_str("__consumer_offsets");
            break;

        case NGX_KAFKA_KEY_TXN:
            name = (kf_str_t) kf_str("__transaction_state");
            break;
        }
    }

    made = name.data == NULL || kc_create_internal_topic(&b->kc, call, name);

    ngx_kafka_coord_unlock(b);

    if (!made && !b->topicless) {
        b->topicless = 1;

        ngx_log_error(NGX_LOG_WARN, b->log, 0,
                      "kafka_broker \"%V\": topic \"%*s\", which some tools "
                      "look for, cannot be made: %*s", &b->name,
                      (size_t) name.len, name.data,
                      (size_t) b->kc.problem.len, b->kc.problem.data);
    }
}


/* A share coordinator's key is "group:topic id:partition". */
static int16_t
ngx_kafka_coordinator_key(ngx_kafka_request_t *r, int8_t type, kf_str_t key)
{
    uint32_t  i, partition, id;

    switch (type) {

    case NGX_KAFKA_KEY_GROUP:
    case NGX_KAFKA_KEY_TXN:
        return KF_ERR_NONE;

    case NGX_KAFKA_KEY_SHARE:
        if (r->header.api_version < 6) {
            return KF_ERR_INVALID_REQUEST;
        }

        for (i = key.len; i && key.data[i - 1] != ':'; i--) {
            if (key.data[i - 1] < '0' || key.data[i - 1] > '9') {
                return KF_ERR_INVALID_REQUEST;
            }
        }

        partition = key.len - i;

        if (i == 0 || partition == 0) {
            return KF_ERR_INVALID_REQUEST;
        }

        for (id = 0, i--; i && key.data[i - 1] != ':'; i--, id++) { }

        return i > 1 && id == 22 ? KF_ERR_NONE : KF_ERR_INVALID_REQUEST;

    default:
        return KF_ERR_INVALID_REQUEST;
    }
}
