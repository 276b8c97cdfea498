/*
 * Record batch v2 (magic 2): header, validation, iteration, control batches.
 *
 *    0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32
 *   16 magic i8       | 17 crc u32        | 21 attributes i16
 *   23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
 *   43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32
 *   57 recordsCount i32 | 61 records
 *
 * The CRC-32C covers bytes 21 to the end, so that a broker may patch the base
 * offset and the leader epoch in place.
 */

#ifndef KF_BATCH_H
#define KF_BATCH_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


#define KF_BATCH_HEADER          61      /* bytes before the records */
#define KF_BATCH_OVERHEAD        12      /* baseOffset and batchLength */
#define KF_CONTROL_BATCH         78      /* bytes of a transaction marker */

#define KF_ATTR_CODEC            0x0007
#define KF_ATTR_LOG_APPEND_TIME  0x0008
#define KF_ATTR_TRANSACTIONAL    0x0010
#define KF_ATTR_CONTROL          0x0020
#define KF_ATTR_DELETE_HORIZON   0x0040

typedef enum {
    KF_CODEC_NONE = 0,
    KF_CODEC_GZIP,
    KF_CODEC_SNAPPY,
    KF_CODEC_LZ4,
    KF_CODEC_ZSTD
} kf_codec_t;


typedef struct {
    int64_t   base_offset;
    uint32_t  size;                  /* bytes of the whole batch, header too */
    int32_t   leader_epoch;
    int8_t    magic;
    uint32_t  crc;
    int16_t   attributes;
    int32_t   last_offset_delta;
    int64_t   base_timestamp_ms;
    int64_t   max_timestamp_ms;
    int64_t   producer_id;           /* -1: none */
    int16_t   producer_epoch;
    int32_t   base_sequence;
    int32_t   record_count;
} kf_batch_t;


static inline kf_codec_t
kf_batch_codec(const kf_batch_t *b)
{
    return (kf_codec_t) (b->attributes & KF_ATTR_CODEC);
}

static inline int64_t
kf_batch_last_offset(const kf_batch_t *b)
{
    return b->base_offset + b->last_offset_delta;
}

static inline int64_t
kf_batch_next_offset(const kf_batch_t *b)
{
    return b->base_offset + b->last_offset_delta + 1;
}


/*
 * Reads the header of the batch at data.  KF_MALFORMED when fewer than
 * KF_BATCH_HEADER bytes are left, when batchLength is under 49 or does not fit
 * a positive i32 with its overhead, or when magic is not 2 (b->magic tells).
 * The batch may be longer than len: compare b->size.
 */
kf_rc_t kf_batch_header(const uint8_t *data, size_t len, kf_batch_t *b);

/* CRC-32C of a whole batch in memory against its header. */
bool kf_batch_crc_ok(const uint8_t *data, const kf_batch_t *b);

/* Patch in place; none of these bytes is under the CRC. */
void kf_batch_set_base_offset(uint8_t *data, int64_t base_offset);
void kf_batch_set_leader_epoch(uint8_t *data, int32_t leader_epoch);

/* LogAppendTime: sets attribute and max timestamp, and makes the CRC anew. */
void kf_batch_set_append_time(uint8_t *data, int64_t now_ms);


/*
 * One record.  key and value are null where the record says so; headers is the
 * raw area after the header count, already walked.
 */
typedef struct {
    int64_t     timestamp_delta_ms;
    int32_t     offset_delta;
    kf_bytes_t  key;
    kf_bytes_t  value;
    int32_t     header_count;
    kf_bytes_t  headers;
} kf_record_t;

/*
 * Walks the records of an uncompressed area by their lengths.
 * pos/end: the area.  Returns KF_OK and moves *pos, or KF_MALFORMED.
 */
kf_rc_t kf_record_next(const uint8_t **pos, const uint8_t *end,
    kf_record_t *record);

/* The next header of a record's headers area; value may be null. */
kf_rc_t kf_header_next(const uint8_t **pos, const uint8_t *end, kf_str_t *key,
    kf_bytes_t *value);


/* What a topic asks of a produced batch. */
typedef struct {
    uint32_t  batch_bytes_max;       /* max.message.bytes */
    int64_t   output_bytes_max;      /* max.decompressed.message.bytes */
    int64_t   timestamp_min_ms;      /* now - message.timestamp.before.max.ms */
    int64_t   timestamp_max_ms;      /* now + message.timestamp.after.max.ms */
    bool      check_timestamps;      /* false for LogAppendTime topics */
    bool      keys_required;         /* compacted topic */
    bool      zstd_refused;          /* Produce below version 7 */
} kf_batch_rules_t;

/* Records that a refusal names; a producer is told to send the others anew. */
#define KF_VERDICT_RECORDS  64

/* Why a produced batch is refused: Kafka's code, a text, and which records. */
typedef struct {
    int16_t      error;              /* KF_ERR_NONE: taken */
    const char  *message;            /* static */
    int32_t      record_index;       /* the first; -1: the batch as a whole */
    int32_t      records_n;          /* at least 1 when there is a first one */
    int32_t      records[KF_VERDICT_RECORDS];
    int64_t      max_timestamp_ms;   /* by kf_batch_walk: that of the records */
} kf_batch_verdict_t;

/*
 * The first part of validating a produced records field, cheap and always on
 * the event loop: exactly one whole batch of magic 2 from a client, its shape,
 * size and CRC.  On success *b is filled.
 */
void kf_batch_check(const uint8_t *data, size_t len,
    const kf_batch_rules_t *rules, kf_batch_t *b, kf_batch_verdict_t *v);

/*
 * The second part: walks the records (decompressing as a stream with bounded
 * memory and output, keeping nothing) and checks counts, deltas, timestamps and
 * keys.  Slow for compressed batches: callers run it in a thread above 16 KiB.
 * 16 KiB may hold 16 MiB and more, so a caller on the event loop also lowers
 * output_bytes_max, and repeats in a thread what is MESSAGE_TOO_LARGE by that.
 */
void kf_batch_walk(const uint8_t *data, const kf_batch_t *b,
    const kf_batch_rules_t *rules, kf_batch_verdict_t *v);

/*
 * After kf_batch_walk took the batch, before it is stored: as Kafka does, puts
 * right what a producer may say wrongly in the header, that is the maximum
 * timestamp (retention and the time index believe it) and the attributes that
 * are the broker's.  Updates *b; true when bytes changed (and the CRC with
 * them), which no ordinary client causes.
 */
bool kf_batch_amend(uint8_t *data, kf_batch_t *b,
    const kf_batch_verdict_t *v);


/*
 * Iterates the records of one whole batch in memory, compressed or not, with
 * memory bounded by the largest record.  visit() returns false to stop early.
 * offset and timestamp are absolute.  KF_TOO_LARGE past output_bytes_max.
 */
typedef bool (*kf_record_visit_pt)(void *ctx, int64_t offset,
    int64_t timestamp_ms, const kf_record_t *record);

kf_rc_t kf_batch_each(const uint8_t *data, const kf_batch_t *b,
    int64_t output_bytes_max, kf_record_visit_pt visit, void *ctx);


/* A transaction marker: exactly KF_CONTROL_BATCH bytes into out. */
void kf_batch_control(uint8_t *out, int64_t base_offset, int32_t leader_epoch,
    int64_t producer_id, int16_t producer_epoch, bool commit,
    int32_t coordinator_epoch, int64_t now_ms);

/* What a control batch says; KF_MALFORMED when it is none. */
kf_rc_t kf_batch_control_read(const uint8_t *data, const kf_batch_t *b,
    bool *commit, int32_t *coordinator_epoch);


/*
 * Builds one uncompressed batch, as the journal does: begin, add …, end.
 * The buffer is the caller's; add answers KF_TOO_LARGE when it is full.
 */
typedef struct {
    uint8_t  *start;
    uint8_t  *pos;
    uint8_t  *end;
    int64_t   base_timestamp_ms;
    int32_t   record_count;
} kf_batch_builder_t;

void kf_batch_begin(kf_batch_builder_t *bb, uint8_t *buf, size_t size,
    int64_t now_ms);
kf_rc_t kf_batch_add(kf_batch_builder_t *bb, kf_bytes_t key, kf_bytes_t value);
/* Finishes header and CRC; returns the batch's size, 0 without a record. */
size_t kf_batch_end(kf_batch_builder_t *bb);


#pragma GCC visibility pop

#endif
