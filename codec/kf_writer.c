/*
 * The writer's less frequent parts: varints, strings, records, counts.
 */

#include "kf_writer.h"


static void
kf_write_leb128(kf_writer_t *w, uint64_t v)
{
    while (v >= 0x80) {
        kf_write_i8(w, (int8_t) (uint8_t) (v | 0x80));
        v >>= 7;
    }

    kf_write_i8(w, (int8_t) v);
}


void
kf_write_uvarint(kf_writer_t *w, uint32_t v)
{
    kf_write_leb128(w, v);
}


void
kf_write_varint(kf_writer_t *w, int32_t v)
{
    kf_write_leb128(w, (uint32_t) v << 1 ^ (0 - ((uint32_t) v >> 31)));
}


void
kf_write_varlong(kf_writer_t *w, int64_t v)
{
    kf_write_leb128(w, (uint64_t) v << 1 ^ (0 - ((uint64_t) v >> 63)));
}


void
kf_write_f64(kf_writer_t *w, double v)
{
    int64_t  bits;

    memcpy(&bits, &v, sizeof(bits));
    kf_write_i64(w, bits);
}


void
kf_write_uuid(kf_writer_t *w, kf_uuid_t v)
{
    kf_write_raw(w, v.b, sizeof(v.b));
}


void
kf_write_str(kf_writer_t *w, kf_str_t s, bool flexible, bool nullable)
{
    bool      null = s.data == NULL && nullable;
    uint32_t  len = s.data ? s.len : 0;

    /* Longer strings can't be said; a cut one keeps the message readable. */

    if (len > INT16_MAX) {
        len = INT16_MAX;
    }

    if (flexible) {
        kf_write_uvarint(w, null ? 0 : len + 1);

    } else {
        kf_write_i16(w, null ? -1 : (int16_t) len);
    }

    kf_write_raw(w, s.data, len);
}


void
kf_write_bytes(kf_writer_t *w, kf_bytes_t s, bool flexible, bool nullable)
{
    bool      null = s.data == NULL && nullable;
    uint32_t  len = s.data ? s.len : 0;

    if (flexible) {
        kf_write_uvarint(w, null ? 0 : len + 1);

    } else {
        kf_write_i32(w, null ? -1 : (int32_t) len);
    }

    kf_write_raw(w, s.data, len);
}


void
kf_write_records(kf_writer_t *w, kf_records_t r, bool flexible)
{
    if (r.data || r.ref == NULL) {
        kf_write_bytes(w, (kf_bytes_t) { r.data, r.len }, flexible, true);
        return;
    }

    if (flexible) {
        kf_write_uvarint(w, r.len + 1);

    } else {
        kf_write_i32(w, (int32_t) r.len);
    }

    if (r.len == 0) {
        return;
    }

    if (w->splices) {
        w->splices[w->splices_n].at = w->size;
        w->splices[w->splices_n].len = r.len;
        w->splices[w->splices_n].ref = r.ref;
    }

    w->splices_n++;
    w->spliced += r.len;
}


void
kf_write_count(kf_writer_t *w, int32_t count, bool flexible, bool nullable)
{
    if (count < 0) {
        count = nullable ? -1 : 0;
    }

    if (flexible) {
        kf_write_uvarint(w, (uint32_t) (count + 1));

    } else {
        kf_write_i32(w, count);
    }
}
