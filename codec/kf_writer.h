/*
 * Writes big-endian into a flat buffer, in two passes over the same encoder:
 * first counting (kf_writer_count), then, with a buffer of exactly that size,
 * writing, which therefore has no error path.
 *
 * Records that are not in memory are left out of the flat buffer and noted as
 * splices: len bytes belong at flat offset `at`.
 */

#ifndef KF_WRITER_H
#define KF_WRITER_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


typedef struct {
    size_t       at;                    /* offset in the flat buffer */
    uint32_t     len;
    const void  *ref;                   /* kf_records_t.ref */
} kf_splice_t;


typedef struct {
    uint8_t      *start;                /* NULL: counting */
    size_t        size;                 /* flat bytes so far */
    size_t        spliced;              /* bytes in splices so far */
    kf_splice_t  *splices;              /* NULL while counting */
    uint32_t      splices_n;
} kf_writer_t;


static inline void
kf_writer_count(kf_writer_t *w)
{
    memset(w, 0, sizeof(kf_writer_t));
}


/* buf and splices as large as the counting pass said. */
static inline void
kf_writer_init(kf_writer_t *w, void *buf, kf_splice_t *splices)
{
    w->start = buf;
    w->size = 0;
    w->spliced = 0;
    w->splices = splices;
    w->splices_n = 0;
}


static inline void
kf_write_raw(kf_writer_t *w, const void *data, size_t len)
{
    if (w->start && len) {
        memcpy(w->start + w->size, data, len);
    }

    w->size += len;
}


static inline void
kf_write_i8(kf_writer_t *w, int8_t v)
{
    if (w->start) {
        w->start[w->size] = (uint8_t) v;
    }

    w->size += 1;
}


static inline void
kf_write_bool(kf_writer_t *w, bool v)
{
    kf_write_i8(w, v ? 1 : 0);
}


static inline void
kf_write_u16(kf_writer_t *w, uint16_t v)
{
    if (w->start) {
        w->start[w->size] = (uint8_t) (v >> 8);
        w->start[w->size + 1] = (uint8_t) v;
    }

    w->size += 2;
}


static inline void
kf_write_i16(kf_writer_t *w, int16_t v)
{
    kf_write_u16(w, (uint16_t) v);
}


static inline void
kf_write_u32(kf_writer_t *w, uint32_t v)
{
    if (w->start) {
        w->start[w->size] = (uint8_t) (v >> 24);
        w->start[w->size + 1] = (uint8_t) (v >> 16);
        w->start[w->size + 2] = (uint8_t) (v >> 8);
        w->start[w->size + 3] = (uint8_t) v;
    }

    w->size += 4;
}


static inline void
kf_write_i32(kf_writer_t *w, int32_t v)
{
    kf_write_u32(w, (uint32_t) v);
}


static inline void
kf_write_i64(kf_writer_t *w, int64_t v)
{
    kf_write_u32(w, (uint32_t) ((uint64_t) v >> 32));
    kf_write_u32(w, (uint32_t) v);
}


void kf_write_uvarint(kf_writer_t *w, uint32_t v);
void kf_write_varint(kf_writer_t *w, int32_t v);
void kf_write_varlong(kf_writer_t *w, int64_t v);
void kf_write_f64(kf_writer_t *w, double v);
void kf_write_uuid(kf_writer_t *w, kf_uuid_t v);

/* Null where the field is not nullable in this version is written as empty. */
void kf_write_str(kf_writer_t *w, kf_str_t s, bool flexible, bool nullable);
void kf_write_bytes(kf_writer_t *w, kf_bytes_t s, bool flexible,
    bool nullable);
/* The length, then the bytes or a splice. */
void kf_write_records(kf_writer_t *w, kf_records_t r, bool flexible);
/* count -1: null. */
void kf_write_count(kf_writer_t *w, int32_t count, bool flexible,
    bool nullable);


#pragma GCC visibility pop

#endif
