/*
 * Records inside a batch: varints, and a scanner that takes the records area in
 * pieces.  Internal to the codec.
 *
 * A record is: varint length of the rest | i8 attributes | varlong timestamp
 * delta | varint offset delta | varint key length, key | varint value length,
 * value | varint header count | headers.  Lengths of -1 are null.
 */

#ifndef KF_RECORD_H
#define KF_RECORD_H

#include "kf_batch.h"

#pragma GCC visibility push(hidden)


#define KF_RECORD_LENGTH_MAX  5         /* bytes of a varint */


/* Unsigned LEB128 of at most 64 (32) bits; NULL when malformed or cut. */
const uint8_t *kf_uvar64_slow(const uint8_t *p, const uint8_t *end,
    uint64_t *v);
const uint8_t *kf_uvar32_slow(const uint8_t *p, const uint8_t *end,
    uint32_t *v);


/* Zig-zag varint; the new position, or NULL. */
static inline const uint8_t *
kf_get_varint(const uint8_t *p, const uint8_t *end, int32_t *v)
{
    uint32_t  u;

    if (p < end && p[0] < 0x80) {
        *v = (int32_t) (p[0] >> 1) ^ -(int32_t) (p[0] & 1);
        return p + 1;
    }

    if (end - p >= 2 && p[1] < 0x80) {
        u = (uint32_t) (p[0] & 0x7f) | (uint32_t) p[1] << 7;
        *v = (int32_t) (u >> 1) ^ -(int32_t) (u & 1);
        return p + 2;
    }

    p = kf_uvar32_slow(p, end, &u);

    if (p) {
        *v = (int32_t) (u >> 1) ^ -(int32_t) (u & 1);
    }

    return p;
}


static inline const uint8_t *
kf_get_varlong(const uint8_t *p, const uint8_t *end, int64_t *v)
{
    uint64_t  u;

    if (p < end && p[0] < 0x80) {
        *v = (int64_t) (p[0] >> 1) ^ -(int64_t) (p[0] & 1);
        return p + 1;
    }

    if (end - p >= 2 && p[1] < 0x80) {
        u = (uint64_t) (p[0] & 0x7f) | (uint64_t) p[1] << 7;
        *v = (int64_t) (u >> 1) ^ -(int64_t) (u & 1);
        return p + 2;
    }

    p = kf_uvar64_slow(p, end, &u);

    if (p) {
        *v = (int64_t) (u >> 1) ^ -(int64_t) (u & 1);
    }

    return p;
}


/* Zig-zag; writes at most 5 bytes and returns the position after them. */
uint8_t *kf_put_varint(uint8_t *p, int32_t v);


/* What validation needs to know of a record. */
typedef struct {
    int64_t  timestamp_delta_ms;
    int32_t  offset_delta;
    bool     key_null;
} kf_record_brief_t;


/* Walks count headers from p; true when they end at end. */
bool kf_headers_walk(const uint8_t *p, const uint8_t *end, int32_t count);


/*
 * The record at p when all of it is before end and well formed: the position
 * after it.  NULL otherwise.  This is the inner loop of validating produced
 * batches.
 */
static inline const uint8_t *
kf_record_brief(const uint8_t *p, const uint8_t *end, kf_record_brief_t *brief)
{
    int32_t  len, n;

    p = kf_get_varint(p, end, &len);

    if (p == NULL || len < 1 || len > end - p) {
        return NULL;
    }

    end = p + len;
    p++;                                /* attributes: none is defined */

    p = kf_get_varlong(p, end, &brief->timestamp_delta_ms);

    if (p == NULL
        || (p = kf_get_varint(p, end, &brief->offset_delta)) == NULL
        || (p = kf_get_varint(p, end, &n)) == NULL)
    {
        return NULL;
    }

    brief->key_null = n < 0;

    if (n > 0) {
        if (n > end - p) {
            return NULL;
        }

        p += n;

    } else if (n < -1) {
        return NULL;
    }

    p = kf_get_varint(p, end, &n);

    if (p == NULL || n < -1 || n > end - p) {
        return NULL;
    }

    p += n > 0 ? n : 0;

    p = kf_get_varint(p, end, &n);

    if (p == NULL || n < 0) {
        return NULL;
    }

    if (n == 0 ? p == end : kf_headers_walk(p, end, n)) {
        return end;
    }

    return NULL;
}


/*
 * A scanner over pieces keeps no bytes, so a record of any size costs nothing.
 * The states are the fields in their order; after the last one, and after a
 * header count of 0, the scanner is back at KF_SCAN_LENGTH.
 */
typedef enum {
    KF_SCAN_LENGTH = 0,
    KF_SCAN_ATTRIBUTES,
    KF_SCAN_TIMESTAMP,
    KF_SCAN_OFFSET,
    KF_SCAN_KEY_LENGTH,
    KF_SCAN_VALUE_LENGTH,
    KF_SCAN_HEADER_COUNT,
    KF_SCAN_HEADER_KEY,
    KF_SCAN_HEADER_VALUE
} kf_scan_state_t;

typedef struct {
    kf_scan_state_t    state;
    uint32_t           left;            /* bytes of the record not yet seen */
    uint32_t           skip;            /* bytes of a key or value to skip */
    uint32_t           headers;         /* headers not yet begun */
    uint64_t           acc;             /* the varint so far */
    unsigned           shift;
    kf_record_brief_t  brief;
} kf_scan_t;

typedef enum {
    KF_SCAN_MORE,                       /* the piece is used up */
    KF_SCAN_RECORD,                     /* scan->brief holds a record */
    KF_SCAN_BAD
} kf_scan_rc_t;


/* scan: zeroed to begin.  Moves *pos, never past end. */
kf_scan_rc_t kf_scan(kf_scan_t *scan, const uint8_t **pos,
    const uint8_t *end);

/* Between two records, that is, nothing of the next one has been seen. */
static inline bool
kf_scan_at_start(const kf_scan_t *scan)
{
    return scan->state == KF_SCAN_LENGTH && scan->shift == 0
           && scan->skip == 0;
}


#pragma GCC visibility pop

#endif
