/*
 * Metadata (key 3), versions 0-13; DescribeCluster (key 60), versions 0-2;
 * DescribeTopicPartitions (key 75), version 0.
 *
 * One broker is the whole cluster: it leads every partition and is the
 * controller.  Names and counts are copied under the coordinator's lock, the
 * answer is encoded after it.
 */

#include "ngx_kafka_api.h"
#include "../coordinator/kc_map.h"


/* What Kafka answers without an authorizer: every operation of the resource. */
#define NGX_KAFKA_TOPIC_OPERATIONS    0x0df8
#define NGX_KAFKA_CLUSTER_OPERATIONS  0x1fa0
#define NGX_KAFKA_NO_OPERATIONS       INT32_MIN

#define NGX_KAFKA_CREATE_MAX          32        /* topics made by one request */
#define NGX_KAFKA_DESCRIBE_MAX        2000      /* partitions in one answer */


typedef struct {
    int32_t    node;                            /* what arrays point to */
    kf_str_t   host;
    int32_t    port;
    kf_str_t   cluster_id;
    char       cluster_id_buf[32];
} ngx_kafka_node_t;


static ngx_int_t ngx_kafka_node(ngx_kafka_request_t *r, ngx_kafka_node_t **n);
static void ngx_kafka_node_cluster(ngx_kafka_request_t *r,
    ngx_kafka_node_t *node);
static ngx_int_t ngx_kafka_metadata_all(ngx_kafka_request_t *r,
    ngx_kafka_node_t *node, kf_metadata_response_t *rsp);
static kc_rc_t ngx_kafka_metadata_listed(ngx_kafka_request_t *r,
    kc_call_t *call, ngx_kafka_node_t *node, kf_metadata_response_t *rsp);
static ngx_int_t ngx_kafka_metadata_topic(ngx_kafka_request_t *r,
    ngx_kafka_node_t *node, const kc_topic_t *t,
    kf_metadata_response_topics_t *out);


/* Host, port and number of this broker, as this client should see them. */
static ngx_int_t
ngx_kafka_node(ngx_kafka_request_t *r, ngx_kafka_node_t **n)
{
    *n = ngx_kafka_calloc(r, 1, ngx_kafka_node_t);

    if (*n == NULL
        || ngx_kafka_advertised(r->conn, &(*n)->host, &(*n)->port) != NGX_OK)
    {
        return NGX_ERROR;
    }

    (*n)->node = (int32_t) r->broker->node_id;

    return NGX_OK;
}


/* The coordinator's lock is held. */
static void
ngx_kafka_node_cluster(ngx_kafka_request_t *r, ngx_kafka_node_t *node)
{
    kf_str_t  id = kc_cluster_id(&r->broker->kc);

    node->cluster_id.len = (uint32_t) ngx_min(id.len,
                                              sizeof(node->cluster_id_buf));
    ngx_memcpy(node->cluster_id_buf, id.data, node->cluster_id.len);
    node->cluster_id.data = (const uint8_t *) node->cluster_id_buf;
}


void
ngx_kafka_metadata(ngx_kafka_request_t *r)
{
    kc_rc_t                  rc;
    kc_call_t                call;
    ngx_int_t                all, ok;
    ngx_kafka_node_t        *node;
    kf_metadata_request_t   *req = r->body;
    kf_metadata_response_t   rsp;

    if (req->topics_n > 0
        && !ngx_kafka_parts_ok(r, (size_t) req->topics_n))
    {
        return;
    }

    kf_init_metadata_response(&rsp);

    rsp.brokers = ngx_kafka_calloc(r, 1, kf_metadata_response_brokers_t);

    if (rsp.brokers == NULL || ngx_kafka_node(r, &node) != NGX_OK) {
        ngx_kafka_fail(r, "no address to advertise");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_metadata) != NGX_OK) {
        return;
    }

    ngx_kafka_node_cluster(r, node);

    all = req->topics_n < 0
          || (req->topics_n == 0 && r->header.api_version == 0);

    ok = NGX_OK;
    rc = KC_OK;

    if (all) {
        ok = ngx_kafka_metadata_all(r, node, &rsp);

    } else {
        rc = ngx_kafka_metadata_listed(r, &call, node, &rsp);
    }

    call.wait = ngx_max(call.wait, kc_topics_changed(&r->broker->kc));

    ngx_kafka_coord_unlock(r->broker);

    if (ok != NGX_OK || (rc != KC_OK && rsp.topics == NULL)) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    if (rc != KC_OK) {
        (void) ngx_kafka_call_error(r, rc);
    }

    rsp.brokers_n = 1;
    rsp.brokers->node_id = node->node;
    rsp.brokers->host = node->host;
    rsp.brokers->port = node->port;
    rsp.controller_id = node->node;
    rsp.cluster_id = node->cluster_id;

    rsp.cluster_authorized_operations =
                                    req->include_cluster_authorized_operations
                                    ? NGX_KAFKA_CLUSTER_OPERATIONS
                                    : NGX_KAFKA_NO_OPERATIONS;

    ngx_kafka_answer_when(r, &rsp, call.wait);
}


static ngx_int_t
ngx_kafka_metadata_all(ngx_kafka_request_t *r, ngx_kafka_node_t *node,
    kf_metadata_response_t *rsp)
{
    uint32_t           n;
    kf_str_t           after;
    kc_t              *kc = &r->broker->kc;
    const kc_topic_t  *t;

    n = kc_topic_count(kc);

    rsp->topics = ngx_kafka_calloc(r, n, kf_metadata_response_topics_t);
    if (rsp->topics == NULL) {
        return NGX_ERROR;
    }

    after = (kf_str_t) kf_null_str;

    for (t = kc_topic_next(kc, after);
         t && (uint32_t) rsp->topics_n < n;
         t = kc_topic_next(kc, after))
    {
        if (ngx_kafka_metadata_topic(r, node, t, &rsp->topics[rsp->topics_n++])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        after = t->name;
    }

    return NGX_OK;
}


/*
 * The topics that the request names; unknown ones are made where client and
 * configuration allow it.  A zone that is full is told per topic.
 */
static kc_rc_t
ngx_kafka_metadata_listed(ngx_kafka_request_t *r, kc_call_t *call,
    ngx_kafka_node_t *node, kf_metadata_response_t *rsp)
{
    bool                            create, refused;
    kc_rc_t                         rc, failed;
    int32_t                         i, made;
    kf_str_t                        key;
    kc_t                           *kc = &r->broker->kc;
    kc_map_t                        names;
    kc_node_t                      *nodes;
    const kc_topic_t               *t;
    kf_metadata_request_t          *req = r->body;
    kf_metadata_request_topics_t   *in;
    kf_metadata_response_topics_t  *out;

    rsp->topics = ngx_kafka_calloc(r, req->topics_n,
                                   kf_metadata_response_topics_t);
    nodes = ngx_kafka_calloc(r, req->topics_n, kc_node_t);

    if (rsp->topics == NULL || nodes == NULL) {
        rsp->topics = NULL;
        return KC_NO_MEMORY;
    }

    /* ids can be asked for from version 12 on: the whole is wrong */

    refused = false;

    for (i = 0; i < req->topics_n && r->header.api_version < 12; i++) {
        in = &req->topics[i];
        refused |= in->name.data == NULL || !kf_uuid_is_zero(in->topic_id);
    }

    create = (r->header.api_version < 4 || req->allow_auto_topic_creation)
             && kc_broker_config_int(kc, call->config,
                                     KC_AUTO_CREATE_TOPICS_ENABLE);
    failed = KC_OK;

    ngx_memzero(&names, sizeof(names));
    made = 0;

    for (i = 0; i < req->topics_n; i++) {
        in = &req->topics[i];

        /* a name that comes twice is answered once, as in Kafka */

        key = in->name;

        if (key.data == NULL || !kf_uuid_is_zero(in->topic_id)) {
            key.data = in->topic_id.b;
            key.len = sizeof(in->topic_id.b);
        }

        if (!kc_map_insert(&names, &nodes[i], key, in)) {
            continue;
        }

        out = &rsp->topics[rsp->topics_n++];

        kf_init_metadata_response_topics(out);
        out->name = in->name;
        out->topic_id = in->topic_id;

        if (refused) {
            out->error_code = KF_ERR_INVALID_REQUEST;
            ngx_kafka_note(r, out->error_code, out->name);
            continue;
        }

        /* Java's admin client sends an id with an empty name. */

        if (in->name.data == NULL || !kf_uuid_is_zero(in->topic_id)) {
            t = kc_topic_by_id(kc, in->topic_id);

            if (t == NULL) {
                out->error_code = KF_ERR_UNKNOWN_TOPIC_ID;
                ngx_kafka_note(r, out->error_code, out->name);
                continue;
            }

        } else {
            t = kc_topic_by_name(kc, in->name);

            if (t == NULL && create && made++ >= NGX_KAFKA_CREATE_MAX) {
                out->error_code = KF_ERR_LEADER_NOT_AVAILABLE;

            } else if (t == NULL && create) {
                rc = kc_auto_create_topic(kc, call, in->name,
                                          &out->error_code);
                if (rc != KC_OK) {
                    failed = rc;
                    out->error_code = KF_ERR_LEADER_NOT_AVAILABLE;
                }

                t = kc_topic_by_name(kc, in->name);

            } else if (t == NULL) {
                out->error_code = kc_topic_name_problem(in->name) == NULL
                                  ? KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
                                  : KF_ERR_INVALID_TOPIC_EXCEPTION;
            }

            if (t == NULL) {
                ngx_memzero(&out->topic_id, sizeof(kf_uuid_t));

                if (req->include_topic_authorized_operations) {
                    out->topic_authorized_operations =
                                                   NGX_KAFKA_TOPIC_OPERATIONS;
                }

                ngx_kafka_note(r, out->error_code, in->name);
                continue;
            }
        }

        if (ngx_kafka_metadata_topic(r, node, t, out) != NGX_OK) {
            rsp->topics = NULL;
            return KC_NO_MEMORY;
        }

        ngx_kafka_note(r, 0, out->name);
    }

    return failed;
}


static ngx_int_t
ngx_kafka_metadata_topic(ngx_kafka_request_t *r, ngx_kafka_node_t *node,
    const kc_topic_t *t, kf_metadata_response_topics_t *out)
{
    u_char                             *name;
    int32_t                             i;
    kf_metadata_request_t              *req = r->body;
    kf_metadata_response_partitions_t  *p;

    kf_init_metadata_response_topics(out);

    name = ngx_pnalloc(r->pool, t->name.len);
    p = ngx_kafka_calloc(r, t->partition_count,
                         kf_metadata_response_partitions_t);

    if (name == NULL || p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(name, t->name.data, t->name.len);

    out->name.data = name;
    out->name.len = t->name.len;
    out->topic_id = t->id;
    out->is_internal = t->internal;
    out->partitions = p;
    out->partitions_n = t->partition_count;

    if (req->include_topic_authorized_operations) {
        out->topic_authorized_operations = NGX_KAFKA_TOPIC_OPERATIONS;
    }

    for (i = 0; i < t->partition_count; i++, p++) {
        p->partition_index = i;
        p->leader_id = node->node;
        p->leader_epoch = r->broker->leader_epoch;
        p->replica_nodes = &node->node;
        p->replica_nodes_n = 1;
        p->isr_nodes = &node->node;
        p->isr_nodes_n = 1;
    }

    return NGX_OK;
}


void
ngx_kafka_describe_cluster(ngx_kafka_request_t *r)
{
    kc_call_t                       call;
    ngx_kafka_node_t               *node;
    kf_describe_cluster_request_t  *req = r->body;
    kf_describe_cluster_response_t  rsp;

    kf_init_describe_cluster_response(&rsp);

    rsp.brokers = ngx_kafka_calloc(r, 1,
                                   kf_describe_cluster_response_brokers_t);

    if (rsp.brokers == NULL || ngx_kafka_node(r, &node) != NGX_OK) {
        ngx_kafka_fail(r, "no address to advertise");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_cluster) != NGX_OK) {
        return;
    }

    ngx_kafka_node_cluster(r, node);
    ngx_kafka_coord_unlock(r->broker);

    if (r->header.api_version >= 1 && req->endpoint_type != 1) {

        /* KIP-919: 2 asks for controllers, on a listener of brokers */

        if (req->endpoint_type == 2) {
            rsp.error_code = KF_ERR_MISMATCHED_ENDPOINT_TYPE;
            rsp.error_message = kf_str("The request was sent to an endpoint of "
                                       "type BROKER, but we wanted an endpoint "
                                       "of type CONTROLLER");
        } else {
            rsp.error_code = KF_ERR_UNSUPPORTED_ENDPOINT_TYPE;
            rsp.error_message = kf_str("Unsupported endpoint type");
        }

        rsp.cluster_id = kf_str("");
        ngx_kafka_note(r, rsp.error_code, (kf_str_t) kf_null_str);
        ngx_kafka_answer(r, &rsp);
        return;
    }

    rsp.cluster_id = node->cluster_id;
    rsp.controller_id = node->node;
    rsp.brokers_n = 1;
    rsp.brokers->broker_id = node->node;
    rsp.brokers->host = node->host;
    rsp.brokers->port = node->port;

    if (req->include_cluster_authorized_operations) {
        rsp.cluster_authorized_operations = NGX_KAFKA_CLUSTER_OPERATIONS;
    }

    ngx_kafka_answer(r, &rsp);
}


static int ngx_libc_cdecl
ngx_kafka_name_cmp(const void *one, const void *two)
{
    int              rc;
    const kf_str_t  *a = one, *b = two;

    rc = ngx_memcmp(a->data, b->data, ngx_min(a->len, b->len));

    return rc ? rc : (int) a->len - (int) b->len;
}


/* Where a listing of topics in order of names stands. */
typedef struct {
    kf_str_t    *names;                         /* sorted; NULL: all topics */
    ngx_uint_t   names_n;
    ngx_uint_t   next;
    kf_str_t     name;                          /* the current one */
    unsigned     started:1;
} ngx_kafka_listing_t;


static ngx_int_t
ngx_kafka_listing_init(ngx_kafka_request_t *r, ngx_kafka_listing_t *l)
{
    ngx_uint_t                               i;
    kf_describe_topic_partitions_request_t  *req = r->body;

    ngx_memzero(l, sizeof(ngx_kafka_listing_t));

    if (req->topics_n <= 0) {
        return NGX_OK;
    }

    l->names_n = req->topics_n;
    l->names = ngx_kafka_calloc(r, l->names_n, kf_str_t);

    if (l->names == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < l->names_n; i++) {
        l->names[i] = req->topics[i].name;
    }

    ngx_qsort(l->names, l->names_n, sizeof(kf_str_t), ngx_kafka_name_cmp);

    return NGX_OK;
}


/* The next name, at or after the cursor's; *t NULL: no such topic. */
static bool
ngx_kafka_listing_next(ngx_kafka_request_t *r, ngx_kafka_listing_t *l,
    const kc_topic_t **t)
{
    kc_t                                    *kc = &r->broker->kc;
    kf_str_t                                 from = kf_null_str;
    kf_describe_topic_partitions_request_t  *req = r->body;

    if (!l->started && req->cursor) {
        from = req->cursor->topic_name;
    }

    if (l->names == NULL) {
        *t = NULL;

        if (from.data) {
            *t = kc_topic_by_name(kc, from);
        }

        if (*t == NULL) {
            *t = kc_topic_next(kc, l->started ? l->name : from);
        }

        l->started = 1;

        if (*t) {
            l->name = (*t)->name;
        }

        return *t != NULL;
    }

    while (l->next < l->names_n
           && ((from.data
                && ngx_kafka_name_cmp(&l->names[l->next], &from) < 0)
               || (l->started && kf_str_eq(l->names[l->next], l->name))))
    {
        l->next++;
    }

    if (l->next == l->names_n) {
        return false;
    }

    l->started = 1;
    l->name = l->names[l->next++];
    *t = kc_topic_by_name(kc, l->name);

    return true;
}


/* Partitions from .. from + n - 1 of one topic; names are copied. */
static ngx_int_t
ngx_kafka_describe_topic(ngx_kafka_request_t *r, ngx_kafka_node_t *node,
    const kc_topic_t *t, int32_t from, int32_t n,
    kf_describe_topic_partitions_response_topics_t *out)
{
    u_char                                              *name;
    int32_t                                              i;
    kf_describe_topic_partitions_response_partitions_t  *p;

    name = ngx_pnalloc(r->pool, t->name.len);
    p = ngx_kafka_calloc(r, n,
                         kf_describe_topic_partitions_response_partitions_t);

    if (name == NULL || p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(name, t->name.data, t->name.len);

    out->name.data = name;
    out->name.len = t->name.len;
    out->topic_id = t->id;
    out->is_internal = t->internal;
    out->topic_authorized_operations = NGX_KAFKA_TOPIC_OPERATIONS;
    out->partitions = p;
    out->partitions_n = n;

    for (i = 0; i < n; i++, p++) {
        kf_init_describe_topic_partitions_response_partitions(p);

        p->partition_index = from + i;
        p->leader_id = node->node;
        p->leader_epoch = r->broker->leader_epoch;
        p->replica_nodes = &node->node;
        p->replica_nodes_n = 1;
        p->isr_nodes = &node->node;
        p->isr_nodes_n = 1;

        /* The schema allows null, but Java's admin client needs a list. */
        p->eligible_leader_replicas_n = 0;
        p->last_known_elr_n = 0;
    }

    return NGX_OK;
}


/* Does the cursor point to a partition of what was asked for? */
static bool
ngx_kafka_describe_cursor_ok(kf_describe_topic_partitions_request_t *req)
{
    int32_t  i;

    if (req->cursor == NULL) {
        return true;
    }

    if (req->cursor->partition_index < 0) {
        return false;
    }

    for (i = 0; i < req->topics_n; i++) {
        if (kf_str_eq(req->topics[i].name, req->cursor->topic_name)) {
            return true;
        }
    }

    return req->topics_n <= 0;
}


/* The whole request is wrong: told for each topic, there is nowhere else. */
static ngx_int_t
ngx_kafka_describe_refuse(ngx_kafka_request_t *r, ngx_kafka_listing_t *l,
    kf_describe_topic_partitions_response_t *rsp)
{
    kf_describe_topic_partitions_response_topics_t  *out;

    ngx_kafka_note(r, KF_ERR_INVALID_REQUEST, (kf_str_t) kf_null_str);

    for (l->next = 0; l->next < l->names_n; l->next++) {

        if (l->next && kf_str_eq(l->names[l->next], l->names[l->next - 1])) {
            continue;
        }

        out = &rsp->topics[rsp->topics_n++];
        kf_init_describe_topic_partitions_response_topics(out);
        out->name = l->names[l->next];
        out->error_code = KF_ERR_INVALID_REQUEST;
    }

    return NGX_OK;
}


/* Fills the response; the coordinator's lock is held. */
static ngx_int_t
ngx_kafka_describe_topics(ngx_kafka_request_t *r, ngx_kafka_node_t *node,
    kf_describe_topic_partitions_response_t *rsp)
{
    int32_t                                               from, n, left, next;
    const kc_topic_t                                     *t;
    ngx_kafka_listing_t                                   l;
    kf_describe_topic_partitions_request_t               *req = r->body;
    kf_describe_topic_partitions_response_topics_t       *out;
    kf_describe_topic_partitions_response_next_cursor_t  *cursor;

    left = ngx_min(ngx_max(req->response_partition_limit, 1),
                   NGX_KAFKA_DESCRIBE_MAX);
    next = -1;

    if (ngx_kafka_listing_init(r, &l) != NGX_OK) {
        return NGX_ERROR;
    }

    /* what has no partitions does not count, nor does the cursor's, past all */

    rsp->topics = ngx_kafka_calloc(r, left + l.names_n + 1,
                               kf_describe_topic_partitions_response_topics_t);

    if (rsp->topics == NULL) {
        return NGX_ERROR;
    }

    if (!ngx_kafka_describe_cursor_ok(req)) {
        return ngx_kafka_describe_refuse(r, &l, rsp);
    }

    while (next < 0 && ngx_kafka_listing_next(r, &l, &t)) {

        from = req->cursor && kf_str_eq(req->cursor->topic_name, l.name)
               ? ngx_max(req->cursor->partition_index, 0) : 0;

        if (left == 0) {
            next = from;
            break;
        }

        out = &rsp->topics[rsp->topics_n++];
        kf_init_describe_topic_partitions_response_topics(out);

        if (t == NULL) {
            out->name = l.name;
            out->error_code = kc_topic_name_problem(l.name) == NULL
                              ? KF_ERR_UNKNOWN_TOPIC_OR_PARTITION
                              : KF_ERR_INVALID_TOPIC_EXCEPTION;
            out->topic_authorized_operations = NGX_KAFKA_TOPIC_OPERATIONS;
            ngx_kafka_note(r, out->error_code, l.name);
            continue;
        }

        n = ngx_min(ngx_max(t->partition_count - from, 0), left);

        if (ngx_kafka_describe_topic(r, node, t, from, n, out) != NGX_OK) {
            return NGX_ERROR;
        }

        left -= n;

        if (from + n < t->partition_count) {
            next = from + n;
        }
    }

    if (next < 0) {
        return NGX_OK;
    }

    cursor = ngx_kafka_calloc(r, 1,
                          kf_describe_topic_partitions_response_next_cursor_t);
    if (cursor == NULL) {
        return NGX_ERROR;
    }

    cursor->topic_name.data = ngx_pnalloc(r->pool, l.name.len);
    if (cursor->topic_name.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy((u_char *) cursor->topic_name.data, l.name.data, l.name.len);
    cursor->topic_name.len = l.name.len;
    cursor->partition_index = next;
    rsp->next_cursor = cursor;

    return NGX_OK;
}


/*
 * Topics in order of names, from the cursor on, as many partitions as asked,
 * at most NGX_KAFKA_DESCRIBE_MAX, in one answer (KIP-966).
 */
void
ngx_kafka_describe_topic_partitions(ngx_kafka_request_t *r)
{
    kc_call_t                                 call;
    ngx_int_t                                 rc;
    ngx_kafka_node_t                         *node;
    kf_describe_topic_partitions_response_t   rsp;

    ngx_memzero(&rsp, sizeof(rsp));

    if (ngx_kafka_node(r, &node) != NGX_OK) {
        ngx_kafka_fail(r, "no address to advertise");
        return;
    }

    if (ngx_kafka_call_begin(r, &call, ngx_kafka_describe_topic_partitions)
        != NGX_OK)
    {
        return;
    }

    rc = ngx_kafka_describe_topics(r, node, &rsp);
    call.wait = kc_topics_changed(&r->broker->kc);

    ngx_kafka_coord_unlock(r->broker);

    if (rc != NGX_OK) {
        ngx_kafka_fail(r, "no memory");
        return;
    }

    ngx_kafka_answer_when(r, &rsp, call.wait);
}
