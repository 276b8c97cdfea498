/*
 * What generated decoders and encoders share.  Nobody else includes this.
 */

#ifndef KF_GEN_H
#define KF_GEN_H

#include "kf_arena.h"
#include "kf_reader.h"
#include "kf_writer.h"

#pragma GCC visibility push(hidden)


/*
 * Zeroed memory for the *n elements of an array, NULL when *n < 1.  When the
 * arena is at its limit the reader fails and *n becomes 0.
 */
static inline void *
kf_take_array(kf_reader_t *r, kf_arena_t *a, int32_t *n, size_t size)
{
    void  *p;

    if (*n < 1) {
        return NULL;
    }

    p = kf_arena_array(a, (size_t) *n, size);

    if (p == NULL) {
        *n = 0;
        kf_reader_fail(r, KF_NO_MEMORY);
    }

    return p;
}


/* The next tagged field: its tag, and a reader over its bytes alone. */
static inline uint32_t
kf_open_tag(kf_reader_t *r, kf_reader_t *field)
{
    uint32_t        tag = kf_read_uvarint(r);
    uint32_t        size = kf_read_uvarint(r);
    const uint8_t  *p = kf_read_raw(r, size);

    kf_reader_init(field, p ? p : r->end, p ? size : 0);
    field->rc = r->rc;

    return tag;
}


/* A tagged field has to be exactly as long as it said. */
static inline void
kf_close_tag(kf_reader_t *r, const kf_reader_t *field)
{
    if (field->rc != KF_OK) {
        kf_reader_fail(r, field->rc);

    } else if (field->pos != field->end) {
        kf_reader_fail(r, KF_MALFORMED);
    }
}


/* Before a tagged field: its tag, and its size as a counting pass found it. */
static inline void
kf_write_tag(kf_writer_t *w, uint32_t tag, size_t size)
{
    kf_write_uvarint(w, tag);
    kf_write_uvarint(w, (uint32_t) size);
}


/* The end of a whole message: nothing may follow it. */
static inline kf_rc_t
kf_finish(kf_reader_t *r)
{
    if (r->pos != r->end) {
        kf_reader_fail(r, KF_MALFORMED);
    }

    return r->rc;
}


#pragma GCC visibility pop

#endif
