/*
 * What the admin's tools ask of a cluster, answered for one broker, which is
 * leader, replica and controller of everything:
 *
 *   AlterReplicaLogDirs (key 34), versions 1-2
 *   Create-, Renew-, Expire-, DescribeDelegationToken (38-41), from 1
 *   ElectLeaders (key 43), versions 0-2
 *   AlterPartitionReassignments (key 45), versions 0-1
 *   ListPartitionReassignments (key 46), version 0
 *   DescribeQuorum (key 55), versions 0-2
 *
 * Nothing here changes anything: a change that would be one is refused with the
 * code that Kafka has for it, one that asks for what is so succeeds.
 */

#include "ngx_kafka_api.h"


#define NGX_KAFKA_ELECTION_UNCLEAN  1           /* the largest type (KIP-460) */
#define NGX_KAFKA_QUORUM_TOPIC      "__cluster_metadata"


static void ngx_kafka_elect_topic(ngx_kafka_request_t *r,
    const kf_elect_leaders_request_topic_partitions_t *in,
    kf_elect_leaders_response_replica_election_results_t *out);
static void ngx_kafka_reassign_topic(ngx_kafka_request_t *r,
    const kf_alter_partition_reassignments_request_topics_t *in,
    kf_alter_partition_reassignments_response_responses_t *out);
static void ngx_kafka_quorum_partition(ngx_kafka_request_t *r,
    kf_describe_quorum_response_partitions_t *p);


/* The coordinator's lock is held, as below. */
static ngx_uint_t
ngx_kafka_has_partition(ngx_kafka_request_t *r, kf_str_t topic, int32_t index)
{
    const kc_topic_t  *t;

    t = kc_topic_by_name(&r->broker->kc, topic);

    return t && index >= 0 && index < t->partition_count;
}


static kf_str_t
ngx_kafka_no_partition(ngx_kafka_request_t *r, kf_str_t topic, int32_t index)
{
    return kf_arena_printf(&r->arena, "there is no partition %d of \"%.*s\"",
                           index, (int) topic.len, topic.data);
}


/* --- leaders and replicas ------------------------------------------------- */


void
ngx_kafka_elect_leaders(ngx_kafka_request_t *r)
{
    int32_t                       i;
    ngx_uint_t                    ok;
    kc_call_t                     call;
    kf_elect_leaders_request_t   *req = r->body;
    kf_elect_leaders_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (r->header.api_version >= 1
        && (req->election_type < 0
            || req->election_type > NGX_KAFKA_ELECTION_UNCLEAN))
    {
        rsp.error_code = KF_ERR_INVALID_REQUEST;
        ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
        ngx_kafka_answer(r, &rsp);
        return;
    }

    /* null asks for all: the answer lists those that an election would help */

    if (req->topic_partitions_n < 0) {
        ngx_kafka_answer(r, &rsp);
        return;
    }

    rsp.replica_election_results = ngx_kafka_calloc(r, req->topic_partitions_n,
                         kf_elect_leaders_response_replica_election_results_t);
    if (rsp.replica_election_results == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    rsp.replica_election_results_n = req->topic_partitions_n;

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_elect_leaders) != NGX_OK) {
        return;
    }

    for (i = 0, ok = 1; i < req->topic_partitions_n && ok; i++) {
        ngx_kafka_elect_topic(r, &req->topic_partitions[i],
                              &rsp.replica_election_results[i]);

        ok = rsp.replica_election_results[i].partition_result != NULL;
    }

    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    if (!ok) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


static void
ngx_kafka_elect_topic(ngx_kafka_request_t *r,
    const kf_elect_leaders_request_topic_partitions_t *in,
    kf_elect_leaders_response_replica_election_results_t *out)
{
    int32_t                                         i;
    kf_elect_leaders_response_partition_result_t   *p;

    out->topic = in->topic;
    out->partition_result_n = ngx_max(in->partitions_n, 0);

    p = ngx_kafka_calloc(r, out->partition_result_n,
                         kf_elect_leaders_response_partition_result_t);

    out->partition_result = p;

    for (i = 0; p && i < in->partitions_n; i++, p++) {
        p->partition_id = in->partitions[i];

        if (ngx_kafka_has_partition(r, in->topic, p->partition_id)) {
            p->error_code = KF_ERR_ELECTION_NOT_NEEDED;
            p->error_message = kf_str("the only replica is the leader");

        } else {
            p->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            p->error_message = ngx_kafka_no_partition(r, in->topic,
                                                      p->partition_id);
        }

        ngx_kafka_note(r, p->error_code, in->topic);
    }
}


void
ngx_kafka_alter_partition_reassignments(ngx_kafka_request_t *r)
{
    int32_t                                       i;
    ngx_uint_t                                    ok;
    kc_call_t                                     call;
    kf_alter_partition_reassignments_request_t   *req = r->body;
    kf_alter_partition_reassignments_response_t   rsp;

    kf_init_alter_partition_reassignments_response(&rsp);

    rsp.allow_replication_factor_change = req->allow_replication_factor_change;
    rsp.error_message = kf_null_str;
    rsp.responses_n = ngx_max(req->topics_n, 0);
    rsp.responses = ngx_kafka_calloc(r, rsp.responses_n,
                        kf_alter_partition_reassignments_response_responses_t);

    if (rsp.responses == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_alter_partition_reassignments)
        != NGX_OK)
    {
        return;
    }

    for (i = 0, ok = 1; i < req->topics_n && ok; i++) {
        ngx_kafka_reassign_topic(r, &req->topics[i], &rsp.responses[i]);

        ok = rsp.responses[i].partitions != NULL;
    }

    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    if (!ok) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* Null replicas cancel what is under way, which nothing ever is. */
static void
ngx_kafka_reassign_topic(ngx_kafka_request_t *r,
    const kf_alter_partition_reassignments_request_topics_t *in,
    kf_alter_partition_reassignments_response_responses_t *out)
{
    int32_t                                                   i;
    const kf_alter_partition_reassignments_request_partitions_t  *q;
    kf_alter_partition_reassignments_response_partitions_t   *p;

    out->name = in->name;
    out->partitions_n = ngx_max(in->partitions_n, 0);

    p = ngx_kafka_calloc(r, out->partitions_n,
                       kf_alter_partition_reassignments_response_partitions_t);

    out->partitions = p;

    for (i = 0; p && i < in->partitions_n; i++, p++) {
        q = &in->partitions[i];

        p->partition_index = q->partition_index;
        p->error_message = kf_null_str;

        if (!ngx_kafka_has_partition(r, in->name, q->partition_index)) {
            p->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            p->error_message = ngx_kafka_no_partition(r, in->name,
                                                      q->partition_index);

        } else if (q->replicas_n < 0) {
            p->error_code = KF_ERR_NO_REASSIGNMENT_IN_PROGRESS;

        } else if (q->replicas_n != 1
                   || q->replicas[0] != (int32_t) r->broker->node_id)
        {
            p->error_code = KF_ERR_INVALID_REPLICA_ASSIGNMENT;
            p->error_message = kf_arena_printf(&r->arena, "partitions have to "
                                   "be assigned to broker %d alone, the only "
                                   "one", (int) r->broker->node_id);
        }

        ngx_kafka_note(r, p->error_code, in->name);
    }
}


void
ngx_kafka_list_partition_reassignments(ngx_kafka_request_t *r)
{
    kf_list_partition_reassignments_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_message = kf_null_str;

    ngx_kafka_answer(r, &rsp);
}


/* There is one directory, in which every partition already is. */
void
ngx_kafka_alter_replica_log_dirs(ngx_kafka_request_t *r)
{
    int32_t                                                i, j, k, n;
    ngx_str_t                                             *data;
    kc_call_t                                              call;
    ngx_uint_t                                             ours;
    kf_alter_replica_log_dirs_request_t                   *req = r->body;
    kf_alter_replica_log_dirs_response_t                   rsp;
    kf_alter_replica_log_dirs_response_results_t          *out;
    kf_alter_replica_log_dirs_response_partitions_t       *p;
    const kf_alter_replica_log_dirs_request_dirs_t        *dir;
    const kf_alter_replica_log_dirs_request_topics_t      *t;

    ngx_memzero(&rsp, sizeof(rsp));

    /* each is backed by bytes of the request */

    for (i = 0, n = 0; i < req->dirs_n; i++) {
        n += ngx_max(req->dirs[i].topics_n, 0);
    }

    rsp.results = ngx_kafka_calloc(r, n,
                                 kf_alter_replica_log_dirs_response_results_t);
    if (rsp.results == NULL) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_alter_replica_log_dirs)
        != NGX_OK)
    {
        return;
    }

    data = &r->broker->data;

    for (i = 0; i < req->dirs_n; i++) {
        dir = &req->dirs[i];

        ours = dir->path.len == data->len
               && ngx_memcmp(dir->path.data, data->data, data->len) == 0;

        for (j = 0; j < dir->topics_n; j++) {
            t = &dir->topics[j];
            out = &rsp.results[rsp.results_n++];

            p = ngx_kafka_calloc(r, ngx_max(t->partitions_n, 0),
                              kf_alter_replica_log_dirs_response_partitions_t);
            if (p == NULL) {
                ngx_kafka_coord_unlock(r->broker);
                ngx_kafka_fail(r, "no memory");
                return;
            }

            out->topic_name = t->name;
            out->partitions = p;
            out->partitions_n = ngx_max(t->partitions_n, 0);

            for (k = 0; k < out->partitions_n; k++, p++) {
                p->partition_index = t->partitions[k];

                if (!ours) {
                    p->error_code = KF_ERR_LOG_DIR_NOT_FOUND;

                } else if (!ngx_kafka_has_partition(r, t->name,
                                                    p->partition_index))
                {
                    p->error_code = KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
                }

                ngx_kafka_note(r, p->error_code, t->name);
            }
        }
    }

    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


/* --- the quorum ----------------------------------------------------------- */


/* A quorum of one, whose log is the journal. */
void
ngx_kafka_describe_quorum(ngx_kafka_request_t *r)
{
    int32_t                                          i, j;
    kc_call_t                                        call;
    kf_describe_quorum_request_t                    *req = r->body;
    kf_describe_quorum_response_t                    rsp;
    kf_describe_quorum_response_nodes_t             *node;
    kf_describe_quorum_response_topics_t            *out;
    kf_describe_quorum_response_listeners_t         *listener;
    const kf_describe_quorum_request_topics_t       *in;
    int32_t                                          port;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_message = kf_null_str;

    rsp.topics_n = ngx_max(req->topics_n, 0);
    rsp.topics = ngx_kafka_calloc(r, rsp.topics_n,
                                  kf_describe_quorum_response_topics_t);
    node = ngx_kafka_calloc(r, 1, kf_describe_quorum_response_nodes_t);
    listener = ngx_kafka_calloc(r, 1, kf_describe_quorum_response_listeners_t);

    if (rsp.topics == NULL || node == NULL || listener == NULL
        || ngx_kafka_advertised(r->conn, &listener->host, &port) != NGX_OK)
    {
        ngx_kafka_fail(r, "no memory, or no address to advertise");
        return;
    }

    /* the leader epoch is known when the broker is open */

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_quorum) != NGX_OK) {
        return;
    }

    ngx_kafka_coord_unlock(r->broker);

    for (i = 0; i < rsp.topics_n; i++) {
        in = &req->topics[i];
        out = &rsp.topics[i];

        out->topic_name = in->topic_name;
        out->partitions_n = ngx_max(in->partitions_n, 0);
        out->partitions = ngx_kafka_calloc(r, out->partitions_n,
                                     kf_describe_quorum_response_partitions_t);
        if (out->partitions == NULL) {
            ngx_kafka_fail(r, "no memory");
            return;
        }

        for (j = 0; j < out->partitions_n; j++) {
            out->partitions[j].error_message = kf_null_str;
            out->partitions[j].partition_index
                                          = in->partitions[j].partition_index;

            if (out->partitions[j].partition_index != 0
                || !kf_str_eq(in->topic_name, kf_str(NGX_KAFKA_QUORUM_TOPIC)))
            {
                out->partitions[j].error_code =
                                          KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
                ngx_kafka_note(r, out->partitions[j].error_code,
                               in->topic_name);
                continue;
            }

            ngx_kafka_quorum_partition(r, &out->partitions[j]);

            if (out->partitions[j].current_voters == NULL) {
                ngx_kafka_fail(r, "no memory");
                return;
            }
        }
    }

    listener->name = kf_str("CONTROLLER");
    listener->port = (uint16_t) port;
    node->node_id = (int32_t) r->broker->node_id;
    node->listeners = listener;
    node->listeners_n = 1;
    rsp.nodes = node;
    rsp.nodes_n = 1;

    ngx_kafka_answer(r, &rsp);
}


static void
ngx_kafka_quorum_partition(ngx_kafka_request_t *r,
    kf_describe_quorum_response_partitions_t *p)
{
    ngx_kafka_offsets_t                          o;
    kf_describe_quorum_response_current_voters_t  *voter;

    voter = ngx_kafka_calloc(r, 1,
                             kf_describe_quorum_response_current_voters_t);
    p->current_voters = voter;

    if (voter == NULL) {
        return;
    }

    ngx_kafka_part_offsets(r->broker->journal, &o);

    p->leader_id = (int32_t) r->broker->node_id;
    p->leader_epoch = r->broker->leader_epoch;
    p->high_watermark = o.high_watermark;
    p->current_voters_n = 1;

    kf_init_describe_quorum_response_current_voters(voter);
    voter->replica_id = p->leader_id;
    voter->log_end_offset = o.o.log_end;
    voter->last_fetch_timestamp = ngx_kafka_wall_ms();
    voter->last_caught_up_timestamp = voter->last_fetch_timestamp;
}


/* --- delegation tokens ---------------------------------------------------- */


void
ngx_kafka_create_delegation_token(ngx_kafka_request_t *r)
{
    kf_create_delegation_token_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_code = KF_ERR_DELEGATION_TOKEN_AUTH_DISABLED;

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


void
ngx_kafka_renew_delegation_token(ngx_kafka_request_t *r)
{
    kf_renew_delegation_token_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_code = KF_ERR_DELEGATION_TOKEN_AUTH_DISABLED;

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


void
ngx_kafka_expire_delegation_token(ngx_kafka_request_t *r)
{
    kf_expire_delegation_token_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_code = KF_ERR_DELEGATION_TOKEN_AUTH_DISABLED;

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}


void
ngx_kafka_describe_delegation_token(ngx_kafka_request_t *r)
{
    kf_describe_delegation_token_response_t  rsp;

    ngx_memzero(&rsp, sizeof(rsp));
    rsp.error_code = KF_ERR_DELEGATION_TOKEN_AUTH_DISABLED;

    ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
    ngx_kafka_answer(r, &rsp);
}
