/* Requests: transactions (KIP-98, and KIP-890's second part); see wire.h. */

#include <stdlib.h>

#include "wire_int.h"


#define TIMEOUT_MS  60000

WIRE_ENCODER(init_producer_id)
WIRE_ENCODER(produce)
WIRE_ENCODER(txn_offset_commit)
WIRE_ENCODER(end_txn)


frame_t
wire_init_producer_id(const producer_t *p)
{
    kf_init_producer_id_request_t  r;

    memset(&r, 0, sizeof(r));
    r.transactional_id = wire_str(p->id);
    r.transaction_timeout_ms = TIMEOUT_MS;
    r.producer_id = -1;
    r.producer_epoch = -1;

    return wire_request(22, WIRE_INIT_PRODUCER_ID, true,
                        encode_init_producer_id, &r);
}


static void
put(uint8_t *p, uint64_t v, int bytes)
{
    while (bytes--) {
        p[bytes] = (uint8_t) v;
        v >>= 8;
    }
}


/* Each transaction has an epoch of its own, and so begins at sequence 0. */
static void
stamp(frame_t *batch, const producer_t *p)
{
    uint8_t  *b = batch->data;

    put(b + 21, KF_ATTR_TRANSACTIONAL, 2);
    put(b + 43, (uint64_t) p->producer_id, 8);
    put(b + 51, (uint16_t) p->epoch, 2);
    put(b + 53, 0, 4);
    put(b + 17, kf_crc32c(0, b + 21, batch->len - 21), 4);
}


frame_t
wire_txn_produce(const producer_t *p, const char *topic, int32_t partitions,
    frame_t *batch)
{
    int32_t                               i;
    frame_t                               f;
    kf_produce_request_t                  r;
    kf_produce_request_topic_data_t       t;
    kf_produce_request_partition_data_t  *parts;

    stamp(batch, p);

    parts = wire_alloc((size_t) partitions * sizeof(*parts));

    for (i = 0; i < partitions; i++) {
        memset(&parts[i], 0, sizeof(*parts));
        parts[i].index = i;
        parts[i].records.data = batch->data;
        parts[i].records.len = (uint32_t) batch->len;
    }

    memset(&r, 0, sizeof(r));
    memset(&t, 0, sizeof(t));
    t.name = wire_str(topic);
    t.partition_data = parts;
    t.partition_data_n = partitions;
    r.transactional_id = wire_str(p->id);
    r.acks = -1;
    r.timeout_ms = 30000;
    r.topic_data = &t;
    r.topic_data_n = 1;

    f = wire_request(0, WIRE_TXN_PRODUCE, true, encode_produce, &r);

    free(parts);

    return f;
}


frame_t
wire_txn_offset_commit(const producer_t *p, const member_t *m,
    const char *topic, int32_t partition, int64_t offset)
{
    kf_txn_offset_commit_request_t             r;
    kf_txn_offset_commit_request_topics_t      t;
    kf_txn_offset_commit_request_partitions_t  part;

    memset(&r, 0, sizeof(r));
    memset(&t, 0, sizeof(t));
    memset(&part, 0, sizeof(part));

    part.partition_index = partition;
    part.committed_offset = offset;
    part.committed_leader_epoch = -1;
    part.committed_metadata = wire_str("");
    t.name = wire_str(topic);
    t.partitions = &part;
    t.partitions_n = 1;
    r.transactional_id = wire_str(p->id);
    r.group_id = wire_str(m->group);
    r.producer_id = p->producer_id;
    r.producer_epoch = p->epoch;
    r.generation_id_or_member_epoch = m->generation;
    r.member_id = wire_str(m->id);
    r.group_instance_id = kf_null_str;
    r.topics = &t;
    r.topics_n = 1;

    return wire_request(28, WIRE_TXN_OFFSETS, true, encode_txn_offset_commit,
                        &r);
}


frame_t
wire_end_txn(const producer_t *p, bool commit)
{
    kf_end_txn_request_t  r;

    memset(&r, 0, sizeof(r));
    r.transactional_id = wire_str(p->id);
    r.producer_id = p->producer_id;
    r.producer_epoch = p->epoch;
    r.committed = commit;

    return wire_request(26, WIRE_END_TXN, true, encode_end_txn, &r);
}
