/*
 * Big-endian loads and stores at places whose bounds the caller has checked;
 * internal to the codec's record batches.
 */

#ifndef KF_BE_H
#define KF_BE_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


static inline uint16_t
kf_be16(const uint8_t *p)
{
    return (uint16_t) (p[0] << 8 | p[1]);
}


static inline uint32_t
kf_be32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}


static inline uint64_t
kf_be64(const uint8_t *p)
{
    return (uint64_t) kf_be32(p) << 32 | kf_be32(p + 4);
}


static inline void
kf_put_be16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t) (v >> 8);
    p[1] = (uint8_t) v;
}


static inline void
kf_put_be32(uint8_t *p, uint32_t v)
{
    kf_put_be16(p, (uint16_t) (v >> 16));
    kf_put_be16(p + 2, (uint16_t) v);
}


static inline void
kf_put_be64(uint8_t *p, uint64_t v)
{
    kf_put_be32(p, (uint32_t) (v >> 32));
    kf_put_be32(p + 4, (uint32_t) v);
}


#pragma GCC visibility pop

#endif
