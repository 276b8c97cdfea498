/*
 * A bounded big-endian cursor with a sticky error: after the first failure all
 * reads answer zero and the reader stays failed, so that generated decoders
 * check once per element.
 */

#ifndef KF_READER_H
#define KF_READER_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
    kf_rc_t         rc;                 /* KF_OK until the first failure */
} kf_reader_t;


static inline void
kf_reader_init(kf_reader_t *r, const void *data, size_t len)
{
    r->pos = data;
    r->end = r->pos + len;
    r->rc = KF_OK;
}


static inline size_t
kf_reader_left(const kf_reader_t *r)
{
    return (size_t) (r->end - r->pos);
}


static inline void
kf_reader_fail(kf_reader_t *r, kf_rc_t rc)
{
    if (r->rc == KF_OK) {
        r->rc = rc;
    }

    r->pos = r->end;
}


/* The next n bytes, or NULL (and the reader fails). */
static inline const uint8_t *
kf_read_raw(kf_reader_t *r, size_t n)
{
    const uint8_t  *p = r->pos;

    if (kf_reader_left(r) < n) {
        kf_reader_fail(r, KF_MALFORMED);
        return NULL;
    }

    r->pos = p + n;

    return p;
}


static inline int8_t
kf_read_i8(kf_reader_t *r)
{
    const uint8_t  *p = kf_read_raw(r, 1);

    return p ? (int8_t) p[0] : 0;
}


static inline bool
kf_read_bool(kf_reader_t *r)
{
    return kf_read_i8(r) != 0;
}


static inline uint16_t
kf_read_u16(kf_reader_t *r)
{
    const uint8_t  *p = kf_read_raw(r, 2);

    return p ? (uint16_t) (p[0] << 8 | p[1]) : 0;
}


static inline int16_t
kf_read_i16(kf_reader_t *r)
{
    return (int16_t) kf_read_u16(r);
}


static inline uint32_t
kf_read_u32(kf_reader_t *r)
{
    const uint8_t  *p = kf_read_raw(r, 4);

    return p ? (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
               | (uint32_t) p[2] << 8 | p[3]
             : 0;
}


static inline int32_t
kf_read_i32(kf_reader_t *r)
{
    return (int32_t) kf_read_u32(r);
}


static inline int64_t
kf_read_i64(kf_reader_t *r)
{
    uint64_t  hi = kf_read_u32(r);
    uint64_t  lo = kf_read_u32(r);

    return (int64_t) (hi << 32 | lo);
}


/* Unsigned varint of at most 32 bits; longer encodings are malformed. */
uint32_t kf_read_uvarint(kf_reader_t *r);

/* Zig-zag varints, as in records. */
int32_t kf_read_varint(kf_reader_t *r);
int64_t kf_read_varlong(kf_reader_t *r);

double kf_read_f64(kf_reader_t *r);
kf_uuid_t kf_read_uuid(kf_reader_t *r);

/*
 * Strings and bytes; flexible selects the compact form.  A null where nullable
 * is false is malformed.
 */
kf_str_t kf_read_str(kf_reader_t *r, bool flexible, bool nullable);
kf_bytes_t kf_read_bytes(kf_reader_t *r, bool flexible, bool nullable);

/*
 * An array's count: -1 for null.  Malformed when count elements of at least
 * min_size bytes each could not be in what is left, so that no allocation is
 * larger than the request justifies.
 */
int32_t kf_read_count(kf_reader_t *r, bool flexible, bool nullable,
    size_t min_size);

/* Skips a whole tagged-field section. */
void kf_skip_tags(kf_reader_t *r);


#pragma GCC visibility pop

#endif
