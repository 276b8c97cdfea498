/*
 * Ready-made requests for the load generator, and the reading of answers, with
 * the codec's own encoders.
 *
 *   wire.c          records, topics
 *   wire_group.c    groups and their offsets
 *   wire_txn.c      transactions
 *   wire_answer.c   answers
 */

#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "../codec/kf_codec.h"

/* Versions, fixed: topics by name, flexible headers, known to Kafka 2.7 on … */
#define WIRE_PRODUCE           9
#define WIRE_FETCH             12
#define WIRE_LIST_OFFSETS      7
#define WIRE_METADATA          9
#define WIRE_OFFSET_COMMIT     8
#define WIRE_FIND_COORDINATOR  3
#define WIRE_JOIN_GROUP        7
#define WIRE_HEARTBEAT         4
#define WIRE_LEAVE_GROUP       4
#define WIRE_SYNC_GROUP        5
#define WIRE_API_VERSIONS      3
#define WIRE_CREATE_TOPICS     5
#define WIRE_DELETE_TOPICS     4
#define WIRE_INIT_PRODUCER_ID  4
/* … but for transactions: KIP-890, known to Kafka 4.0 on. */
#define WIRE_TXN_PRODUCE       12
#define WIRE_END_TXN           5
#define WIRE_TXN_OFFSETS       5

#define WIRE_CORRELATION       8        /* its place in a frame */
#define WIRE_ID                96       /* room for an id and its NUL */


/* A frame with its size field; free data. */
typedef struct {
    uint8_t  *data;
    size_t    len;
} frame_t;

/* An answer.  What is not its API's is zero. */
typedef struct {
    int32_t   correlation_id;
    int16_t   error;                    /* the first of all in it */
    char      message[256];

    int64_t   high_watermark;           /* Fetch */
    int64_t   next_offset;              /* -1: no whole batch in the answer */
    size_t    record_bytes;
    int       leaders;                  /* Metadata: partitions with a leader */
    char      member[WIRE_ID];          /* JoinGroup */
    int32_t   generation;
    bool      leads;
    char    (*members)[WIRE_ID];        /* of a leader; free it */
    int       members_n;
    int64_t   producer_id;              /* InitProducerId, EndTxn */
    int16_t   producer_epoch;
} answer_t;

/* frame: without its size field.  false when it does not parse. */
bool wire_answer(int16_t api, const uint8_t *frame, size_t len, answer_t *a);

void wire_correlate(uint8_t *frame, int32_t correlation_id);


/* --- records and topics --- */

/* One batch of count records of record_bytes each (value; no key). */
frame_t wire_batch(int32_t count, size_t record_bytes, kf_codec_t codec,
    int64_t now_ms);

frame_t wire_produce(const char *topic, int32_t partition, int16_t acks,
    const frame_t *batch);
frame_t wire_fetch(const char *topic, int32_t partition, int64_t offset,
    int32_t bytes_max);
frame_t wire_list_offsets(const char *topic, int32_t partition, int64_t ts);
frame_t wire_api_versions(void);
frame_t wire_metadata(const char *topic);

/* configs: "name=value" strings, n of them */
frame_t wire_create_topic(const char *topic, int32_t partitions,
    char **configs, int n);
frame_t wire_delete_topic(const char *topic);


/* --- groups --- */

typedef struct {
    char      group[WIRE_ID];
    char      id[WIRE_ID];              /* "": none yet */
    int32_t   generation;               /* -1 with no id: of no member */
    bool      leads;
    char    (*members)[WIRE_ID];        /* when it leads */
    int       members_n;
} member_t;

/* type: 0 for a group, 1 for a transactional id */
frame_t wire_find_coordinator(const char *key, int8_t type);
/* round: what a member says of itself; another one is a reason to rebalance */
frame_t wire_join_group(const member_t *m, const char *topic, int32_t round);
/* Takes over what a JoinGroup answered. */
void wire_joined(member_t *m, answer_t *a);
/* The leader gives the i-th member partition i. */
frame_t wire_sync_group(const member_t *m, const char *topic);
frame_t wire_heartbeat(const member_t *m);
frame_t wire_leave_group(const member_t *m);
/* count partitions from the given one on */
frame_t wire_offset_commit(const member_t *m, const char *topic,
    int32_t partition, int32_t count, int64_t offset);


/* --- transactions --- */

typedef struct {
    char     id[WIRE_ID];               /* transactional */
    int64_t  producer_id;
    int16_t  epoch;
} producer_t;

frame_t wire_init_producer_id(const producer_t *p);
/* The same batch to so many partitions; it becomes the producer's first. */
frame_t wire_txn_produce(const producer_t *p, const char *topic,
    int32_t partitions, frame_t *batch);
frame_t wire_txn_offset_commit(const producer_t *p, const member_t *m,
    const char *topic, int32_t partition, int64_t offset);
frame_t wire_end_txn(const producer_t *p, bool commit);

#endif
