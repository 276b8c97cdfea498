/*
 * Ready-made requests for the load generator, and the reading of answers, with
 * the codec's own encoders.
 */

#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "../codec/kf_codec.h"

/* Versions, fixed: topics by name, flexible headers, known to Kafka 2.7 on. */
#define WIRE_PRODUCE        9
#define WIRE_FETCH          12
#define WIRE_LIST_OFFSETS   7
#define WIRE_METADATA       9
#define WIRE_API_VERSIONS   3
#define WIRE_CREATE_TOPICS  5
#define WIRE_DELETE_TOPICS  4

#define WIRE_CORRELATION    8           /* its place in a frame */

/* A frame with its size field; free data. */
typedef struct {
    uint8_t  *data;
    size_t    len;
} frame_t;

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

void wire_correlate(uint8_t *frame, int32_t correlation_id);


/* What an answer says; records only of fetches. */
typedef struct {
    int32_t   correlation_id;
    int16_t   error;
    char      message[256];
    int64_t   high_watermark;
    int64_t   next_offset;              /* -1: no whole batch in the answer */
    size_t    record_bytes;
    int       leaders;                  /* Metadata: partitions with a leader */
} answer_t;

/* frame: without its size field.  false when it does not parse. */
bool wire_answer(int16_t api, const uint8_t *frame, size_t len, answer_t *a);

#endif
