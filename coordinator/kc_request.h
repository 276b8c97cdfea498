/*
 * The coordinator's calls, one per Kafka API that reads or changes its state.
 *
 * All take the lock's holder's handle, the time, the decoded request and an
 * arena for the response's arrays and texts; strings of the response may point
 * into the request, the arena or static memory, never into the state (the
 * response is encoded after the lock is released).  KC_OK: the response is
 * whole (it may carry Kafka errors); else the caller answers with a retriable
 * code.  *wait: see kc.h.
 */

#ifndef KC_REQUEST_H
#define KC_REQUEST_H

#include "kc_config.h"
#include "../codec/kf_codec.h"

#pragma GCC visibility push(hidden)


/* What a call needs besides its request. */
typedef struct {
    kc_time_t           now;
    const kc_static_t  *config;
    int32_t             node_id;
    kf_arena_t         *arena;
    int64_t             wait;           /* out: journal offset to wait for */
} kc_call_t;

kc_rc_t kc_create_topics(kc_t *kc, kc_call_t *call,
    const kf_create_topics_request_t *req, kf_create_topics_response_t *rsp);

/* Auto-creation with the broker's defaults; KF_ERR_* into *error. */
kc_rc_t kc_auto_create_topic(kc_t *kc, kc_call_t *call, kf_str_t name,
    int16_t *error);

/*
 * Makes Kafka's internal topic of this name unless it is there: one partition,
 * never written to, since what Kafka keeps in it is in the journal here.
 * Clients and tools look it up.  false: it cannot be made, kc->problem says
 * why.
 */
bool kc_create_internal_topic(kc_t *kc, kc_call_t *call, kf_str_t name);

kc_rc_t kc_create_partitions(kc_t *kc, kc_call_t *call,
    const kf_create_partitions_request_t *req,
    kf_create_partitions_response_t *rsp);

kc_rc_t kc_delete_topics(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_delete_topics_request_t *req, kf_delete_topics_response_t *rsp);

/* Idempotent producers; a transactional id is refused by the caller. */
kc_rc_t kc_init_producer_id(kc_t *kc, kc_call_t *call,
    const kf_init_producer_id_request_t *req,
    kf_init_producer_id_response_t *rsp);

kc_rc_t kc_describe_configs(kc_t *kc, kc_call_t *call, int16_t version,
    const kf_describe_configs_request_t *req,
    kf_describe_configs_response_t *rsp);

/* Topics (2) and the broker (4); each resource is taken or refused whole. */
kc_rc_t kc_alter_configs(kc_t *kc, kc_call_t *call,
    const kf_alter_configs_request_t *req, kf_alter_configs_response_t *rsp);

kc_rc_t kc_incremental_alter_configs(kc_t *kc, kc_call_t *call,
    const kf_incremental_alter_configs_request_t *req,
    kf_incremental_alter_configs_response_t *rsp);


#pragma GCC visibility pop

#endif
