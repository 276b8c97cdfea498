/*
 * Record batches: the header, patches in place, transaction markers, and the
 * builder of plain batches.  What a client's batch may look like is judged in
 * kf_batch_check.c.
 */

#include "kf_batch.h"
#include "kf_be.h"
#include "kf_crc32c.h"
#include "kf_record.h"


#define KF_AT_LENGTH             8
#define KF_AT_LEADER_EPOCH       12
#define KF_AT_MAGIC              16
#define KF_AT_CRC                17
#define KF_AT_ATTRIBUTES         21      /* the CRC begins here */
#define KF_AT_LAST_OFFSET_DELTA  23
#define KF_AT_BASE_TIMESTAMP     27
#define KF_AT_MAX_TIMESTAMP      35
#define KF_AT_PRODUCER_ID        43
#define KF_AT_PRODUCER_EPOCH     51
#define KF_AT_BASE_SEQUENCE      53
#define KF_AT_RECORD_COUNT       57

#define KF_BATCH_LENGTH_MIN      (KF_BATCH_HEADER - KF_BATCH_OVERHEAD)

#define KF_CONTROL_COMMIT        1

/* What a producer says in the attributes; the rest is the broker's. */
#define KF_ATTR_KEPT                                                          \
    (KF_ATTR_CODEC | KF_ATTR_TRANSACTIONAL | KF_ATTR_CONTROL)


kf_rc_t
kf_batch_header(const uint8_t *data, size_t len, kf_batch_t *b)
{
    int32_t  batch_len;

    memset(b, 0, sizeof(kf_batch_t));
    b->magic = -1;

    if (len > KF_AT_MAGIC) {
        b->magic = (int8_t) data[KF_AT_MAGIC];
    }

    if (len < KF_BATCH_HEADER) {
        return KF_MALFORMED;
    }

    batch_len = (int32_t) kf_be32(data + KF_AT_LENGTH);

    if (b->magic != 2 || batch_len < KF_BATCH_LENGTH_MIN
        || batch_len > INT32_MAX - KF_BATCH_OVERHEAD)
    {
        return KF_MALFORMED;
    }

    b->base_offset = (int64_t) kf_be64(data);
    b->size = (uint32_t) batch_len + KF_BATCH_OVERHEAD;
    b->leader_epoch = (int32_t) kf_be32(data + KF_AT_LEADER_EPOCH);
    b->crc = kf_be32(data + KF_AT_CRC);
    b->attributes = (int16_t) kf_be16(data + KF_AT_ATTRIBUTES);
    b->last_offset_delta = (int32_t) kf_be32(data + KF_AT_LAST_OFFSET_DELTA);
    b->base_timestamp_ms = (int64_t) kf_be64(data + KF_AT_BASE_TIMESTAMP);
    b->max_timestamp_ms = (int64_t) kf_be64(data + KF_AT_MAX_TIMESTAMP);
    b->producer_id = (int64_t) kf_be64(data + KF_AT_PRODUCER_ID);
    b->producer_epoch = (int16_t) kf_be16(data + KF_AT_PRODUCER_EPOCH);
    b->base_sequence = (int32_t) kf_be32(data + KF_AT_BASE_SEQUENCE);
    b->record_count = (int32_t) kf_be32(data + KF_AT_RECORD_COUNT);

    return KF_OK;
}


static uint32_t
kf_batch_crc(const uint8_t *data, uint32_t size)
{
    return kf_crc32c(0, data + KF_AT_ATTRIBUTES, size - KF_AT_ATTRIBUTES);
}


bool
kf_batch_crc_ok(const uint8_t *data, const kf_batch_t *b)
{
    return kf_batch_crc(data, b->size) == b->crc;
}


void
kf_batch_set_base_offset(uint8_t *data, int64_t base_offset)
{
    kf_put_be64(data, (uint64_t) base_offset);
}


void
kf_batch_set_leader_epoch(uint8_t *data, int32_t leader_epoch)
{
    kf_put_be32(data + KF_AT_LEADER_EPOCH, (uint32_t) leader_epoch);
}


/* For a batch whose length is already known to be right. */
static void
kf_batch_set_times(uint8_t *data, uint16_t attributes, int64_t max_ms)
{
    uint32_t  size;

    kf_put_be16(data + KF_AT_ATTRIBUTES, attributes);
    kf_put_be64(data + KF_AT_MAX_TIMESTAMP, (uint64_t) max_ms);

    size = kf_be32(data + KF_AT_LENGTH) + KF_BATCH_OVERHEAD;
    kf_put_be32(data + KF_AT_CRC, kf_batch_crc(data, size));
}


void
kf_batch_set_append_time(uint8_t *data, int64_t now_ms)
{
    uint16_t  attributes;

    attributes = kf_be16(data + KF_AT_ATTRIBUTES) & KF_ATTR_KEPT;

    kf_batch_set_times(data, attributes | KF_ATTR_LOG_APPEND_TIME, now_ms);
}


bool
kf_batch_amend(uint8_t *data, kf_batch_t *b, const kf_batch_verdict_t *v)
{
    uint16_t  attributes;

    attributes = (uint16_t) b->attributes & KF_ATTR_KEPT;

    if (attributes == (uint16_t) b->attributes
        && v->max_timestamp_ms == b->max_timestamp_ms)
    {
        return false;
    }

    kf_batch_set_times(data, attributes, v->max_timestamp_ms);

    b->attributes = (int16_t) attributes;
    b->max_timestamp_ms = v->max_timestamp_ms;
    b->crc = kf_be32(data + KF_AT_CRC);

    return true;
}


/* Writes the header of b, whose size is set, and makes the CRC last. */
static void
kf_batch_write_header(uint8_t *p, const kf_batch_t *b)
{
    kf_put_be64(p, (uint64_t) b->base_offset);
    kf_put_be32(p + KF_AT_LENGTH, b->size - KF_BATCH_OVERHEAD);
    kf_put_be32(p + KF_AT_LEADER_EPOCH, (uint32_t) b->leader_epoch);
    p[KF_AT_MAGIC] = 2;
    kf_put_be16(p + KF_AT_ATTRIBUTES, (uint16_t) b->attributes);
    kf_put_be32(p + KF_AT_LAST_OFFSET_DELTA, (uint32_t) b->last_offset_delta);
    kf_put_be64(p + KF_AT_BASE_TIMESTAMP, (uint64_t) b->base_timestamp_ms);
    kf_put_be64(p + KF_AT_MAX_TIMESTAMP, (uint64_t) b->max_timestamp_ms);
    kf_put_be64(p + KF_AT_PRODUCER_ID, (uint64_t) b->producer_id);
    kf_put_be16(p + KF_AT_PRODUCER_EPOCH, (uint16_t) b->producer_epoch);
    kf_put_be32(p + KF_AT_BASE_SEQUENCE, (uint32_t) b->base_sequence);
    kf_put_be32(p + KF_AT_RECORD_COUNT, (uint32_t) b->record_count);
    kf_put_be32(p + KF_AT_CRC, kf_batch_crc(p, b->size));
}


void
kf_batch_control(uint8_t *out, int64_t base_offset, int32_t leader_epoch,
    int64_t producer_id, int16_t producer_epoch, bool commit,
    int32_t coordinator_epoch, int64_t now_ms)
{
    uint8_t     *p;
    kf_batch_t   b;

    p = out + KF_BATCH_HEADER;

    p = kf_put_varint(p, 16);           /* length of what follows */
    *p++ = 0;                           /* attributes */
    *p++ = 0;                           /* timestamp delta */
    *p++ = 0;                           /* offset delta */

    p = kf_put_varint(p, 4);
    kf_put_be16(p, 0);                  /* version of the key */
    kf_put_be16(p + 2, commit ? KF_CONTROL_COMMIT : 0);
    p += 4;

    p = kf_put_varint(p, 6);
    kf_put_be16(p, 0);                  /* version of the value */
    kf_put_be32(p + 2, (uint32_t) coordinator_epoch);
    p += 6;

    *p = 0;                             /* headers */

    memset(&b, 0, sizeof(b));
    b.base_offset = base_offset;
    b.size = KF_CONTROL_BATCH;
    b.leader_epoch = leader_epoch;
    b.attributes = KF_ATTR_TRANSACTIONAL | KF_ATTR_CONTROL;
    b.base_timestamp_ms = now_ms;
    b.max_timestamp_ms = now_ms;
    b.producer_id = producer_id;
    b.producer_epoch = producer_epoch;
    b.base_sequence = -1;
    b.record_count = 1;

    kf_batch_write_header(out, &b);
}


kf_rc_t
kf_batch_control_read(const uint8_t *data, const kf_batch_t *b, bool *commit,
    int32_t *coordinator_epoch)
{
    uint16_t        type;
    kf_record_t     record;
    const uint8_t  *p;

    /* later versions of key and value only add fields behind the known ones */

    p = data + KF_BATCH_HEADER;

    if ((b->attributes & KF_ATTR_CONTROL) == 0
        || kf_batch_codec(b) != KF_CODEC_NONE
        || b->record_count != 1
        || kf_record_next(&p, data + b->size, &record) != KF_OK
        || record.key.len < 4
        || record.value.len < 6)
    {
        return KF_MALFORMED;
    }

    type = kf_be16(record.key.data + 2);

    if (type > KF_CONTROL_COMMIT) {
        return KF_MALFORMED;
    }

    *commit = type == KF_CONTROL_COMMIT;
    *coordinator_epoch = (int32_t) kf_be32(record.value.data + 2);

    return KF_OK;
}


void
kf_batch_begin(kf_batch_builder_t *bb, uint8_t *buf, size_t size,
    int64_t now_ms)
{
    size = size < INT32_MAX ? size : INT32_MAX;

    bb->start = buf;
    bb->pos = size < KF_BATCH_HEADER ? buf : buf + KF_BATCH_HEADER;
    bb->end = size < KF_BATCH_HEADER ? buf : buf + size;
    bb->base_timestamp_ms = now_ms;
    bb->record_count = 0;
}


static uint8_t *
kf_batch_put_bytes(uint8_t *p, kf_bytes_t bytes)
{
    if (kf_str_is_null(bytes)) {
        return kf_put_varint(p, -1);
    }

    p = kf_put_varint(p, (int32_t) bytes.len);

    if (bytes.len) {
        memcpy(p, bytes.data, bytes.len);
    }

    return p + bytes.len;
}


kf_rc_t
kf_batch_add(kf_batch_builder_t *bb, kf_bytes_t key, kf_bytes_t value)
{
    size_t    body;
    uint8_t   varint[KF_RECORD_LENGTH_MAX], *p;
    uint64_t  room;

    /* attributes, timestamp delta, header count: one byte each */

    body = 3;
    body += (size_t) (kf_put_varint(varint, bb->record_count) - varint);
    body += (size_t) (kf_put_varint(varint, kf_str_is_null(key) ? -1
                                            : (int32_t) key.len) - varint);
    body += (size_t) (kf_put_varint(varint, kf_str_is_null(value) ? -1
                                            : (int32_t) value.len) - varint);

    room = (uint64_t) (bb->end - bb->pos);

    if ((uint64_t) body + key.len + value.len > room) {
        return KF_TOO_LARGE;
    }

    body += key.len + value.len;
    p = kf_put_varint(varint, (int32_t) body);

    if (body + (size_t) (p - varint) > room) {
        return KF_TOO_LARGE;
    }

    p = kf_put_varint(bb->pos, (int32_t) body);
    *p++ = 0;
    *p++ = 0;
    p = kf_put_varint(p, bb->record_count);
    p = kf_batch_put_bytes(p, key);
    p = kf_batch_put_bytes(p, value);
    *p++ = 0;

    bb->pos = p;
    bb->record_count++;

    return KF_OK;
}


size_t
kf_batch_end(kf_batch_builder_t *bb)
{
    kf_batch_t  b;

    if (bb->record_count == 0) {
        return 0;
    }

    memset(&b, 0, sizeof(b));
    b.size = (uint32_t) (bb->pos - bb->start);
    b.last_offset_delta = bb->record_count - 1;
    b.base_timestamp_ms = bb->base_timestamp_ms;
    b.max_timestamp_ms = bb->base_timestamp_ms;
    b.producer_id = -1;
    b.producer_epoch = -1;
    b.base_sequence = -1;
    b.record_count = bb->record_count;

    kf_batch_write_header(bb->start, &b);

    return b.size;
}
