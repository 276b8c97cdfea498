/*
 * The reader's less frequent parts: varints, strings, arrays, tags.
 */

#include "kf_reader.h"


/*
 * A varint of at most max_bytes; bits above 64 and bits above what a 32-bit
 * value holds are malformed, and so is a sixth (eleventh) byte.
 */
static uint64_t
kf_read_leb128(kf_reader_t *r, uint32_t bits)
{
    uint8_t         byte;
    uint32_t        shift;
    uint64_t        v;
    const uint8_t  *p;

    v = 0;

    for (shift = 0; shift < bits; shift += 7) {
        p = kf_read_raw(r, 1);

        if (p == NULL) {
            return 0;
        }

        byte = *p;

        if (bits - shift < 7 && (byte >> (bits - shift)) != 0) {
            break;
        }

        v |= (uint64_t) (byte & 0x7f) << shift;

        if ((byte & 0x80) == 0) {
            return v;
        }
    }

    kf_reader_fail(r, KF_MALFORMED);

    return 0;
}


uint32_t
kf_read_uvarint(kf_reader_t *r)
{
    /* Nearly all lengths, counts and tag sections take one byte. */

    if (r->pos < r->end && *r->pos < 0x80) {
        return *r->pos++;
    }

    return (uint32_t) kf_read_leb128(r, 32);
}


int32_t
kf_read_varint(kf_reader_t *r)
{
    uint32_t  v = kf_read_uvarint(r);

    return (int32_t) (v >> 1 ^ (0 - (v & 1)));
}


int64_t
kf_read_varlong(kf_reader_t *r)
{
    uint64_t  v = kf_read_leb128(r, 64);

    return (int64_t) (v >> 1 ^ (0 - (v & 1)));
}


double
kf_read_f64(kf_reader_t *r)
{
    double   d;
    int64_t  v = kf_read_i64(r);

    memcpy(&d, &v, sizeof(d));

    return d;
}


kf_uuid_t
kf_read_uuid(kf_reader_t *r)
{
    kf_uuid_t       uuid = { { 0 } };
    const uint8_t  *p = kf_read_raw(r, sizeof(uuid.b));

    if (p) {
        memcpy(uuid.b, p, sizeof(uuid.b));
    }

    return uuid;
}


/* len: -1 null, below that malformed. */
static kf_str_t
kf_read_view(kf_reader_t *r, int64_t len, bool nullable)
{
    kf_str_t  s;

    if (len < 0) {
        if (len < -1 || !nullable) {
            kf_reader_fail(r, KF_MALFORMED);
        }

        return kf_null_str;
    }

    s.data = kf_read_raw(r, (size_t) len);
    s.len = s.data ? (uint32_t) len : 0;

    return s;
}


kf_str_t
kf_read_str(kf_reader_t *r, bool flexible, bool nullable)
{
    int64_t  len;

    len = flexible ? (int64_t) kf_read_uvarint(r) - 1 : kf_read_i16(r);

    if (len > INT16_MAX) {
        kf_reader_fail(r, KF_MALFORMED);
    }

    return r->rc == KF_OK ? kf_read_view(r, len, nullable) : kf_null_str;
}


kf_bytes_t
kf_read_bytes(kf_reader_t *r, bool flexible, bool nullable)
{
    int64_t  len;

    len = flexible ? (int64_t) kf_read_uvarint(r) - 1 : kf_read_i32(r);

    return r->rc == KF_OK ? kf_read_view(r, len, nullable) : kf_null_str;
}


int32_t
kf_read_count(kf_reader_t *r, bool flexible, bool nullable, size_t min_size)
{
    int64_t  count;

    count = flexible ? (int64_t) kf_read_uvarint(r) - 1 : kf_read_i32(r);

    if (r->rc != KF_OK) {
        return 0;
    }

    if (count == -1 && nullable) {
        return -1;
    }

    if (min_size == 0) {
        min_size = 1;
    }

    if (count < 0 || count > INT32_MAX
        || (uint64_t) count > kf_reader_left(r) / min_size)
    {
        kf_reader_fail(r, KF_MALFORMED);
        return 0;
    }

    return (int32_t) count;
}


void
kf_skip_tags(kf_reader_t *r)
{
    uint32_t  n, size;

    n = kf_read_uvarint(r);

    while (n && r->rc == KF_OK) {
        (void) kf_read_uvarint(r);
        size = kf_read_uvarint(r);
        (void) kf_read_raw(r, size);
        n--;
    }
}
