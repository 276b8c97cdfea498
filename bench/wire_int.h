/* What the wire*.c files share. */

#ifndef BENCH_WIRE_INT_H
#define BENCH_WIRE_INT_H

#include <string.h>

#include "wire.h"


typedef void (*wire_encode_pt)(kf_writer_t *w, int16_t version, const void *m);

#define WIRE_ENCODER(name)                                                    \
    static void                                                               \
    encode_##name(kf_writer_t *w, int16_t version, const void *m)             \
    {                                                                         \
        kf_encode_##name##_request(w, version, m);                            \
    }

/* Header v2 for flexible versions, v1 otherwise. */
frame_t wire_request(int16_t api, int16_t version, bool flexible,
    wire_encode_pt encode, const void *m);

/* malloc() that succeeds. */
void *wire_alloc(size_t n);


static inline kf_str_t
wire_str(const char *s)
{
    return (kf_str_t) { (const uint8_t *) s, (uint32_t) strlen(s) };
}

#endif
