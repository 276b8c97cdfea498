/*
 * CRC-32C: the processor's instruction, or slicing by eight.
 *
 * A CRC is linear over GF(2): entry i of each table is the exclusive or of the
 * entries of i's bits, so the compiler builds the tables from their entries for
 * single bits.  They are constants, shared by all processes, and need no start.
 *
 * The instruction answers after three cycles but may be begun every cycle: long
 * input is cut in three streams side by side, and the results are put together
 * by moving a register over the bytes that follow it, which is linear as well.
 */

#include "kf_crc32c.h"

#if (defined __aarch64__ && defined __linux__)
#include <sys/auxv.h>
#endif


#define KF_CRC_LONG   4096          /* bytes of one of three streams */
#define KF_CRC_SHORT  256


/* One entry of a table, from the entries a … h of the single bits. */
#define BIT(i, n, v)  ((i) >> (n) & 1 ? (v) : 0u)
#define ENTRY(i, a, b, c, d, e, f, g, h)                                      \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d)                \
     ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^ BIT(i, 6, g) ^ BIT(i, 7, h))
#define R4(i, ...)                                                            \
    ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__),                       \
    ENTRY((i) + 2, __VA_ARGS__), ENTRY((i) + 3, __VA_ARGS__)
#define R16(i, ...)                                                           \
    R4(i, __VA_ARGS__), R4((i) + 4, __VA_ARGS__),                             \
    R4((i) + 8, __VA_ARGS__), R4((i) + 12, __VA_ARGS__)
#define R64(i, ...)                                                           \
    R16(i, __VA_ARGS__), R16((i) + 16, __VA_ARGS__),                          \
    R16((i) + 32, __VA_ARGS__), R16((i) + 48, __VA_ARGS__)
#define R256(...)                                                             \
    R64(0, __VA_ARGS__), R64(64, __VA_ARGS__),                                \
    R64(128, __VA_ARGS__), R64(192, __VA_ARGS__)


/* [k][i]: the register after byte i and k bytes of zero. */
static const uint32_t  kf_crc_slice[8][256] = {
    { R256(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf,
           0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78) },
    { R256(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8,
           0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9) },
    { R256(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5,
           0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743) },
    { R256(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6,
           0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f) },
    { R256(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91,
           0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c) },
    { R256(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f,
           0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6) },
    { R256(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53,
           0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4) },
    { R256(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da,
           0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664) }
};

#if (defined __x86_64__ || defined __aarch64__)
#define KF_CRC_HARDWARE

/* [k][i]: byte k of the register being i, moved over KF_CRC_SHORT zeros. */
static const uint32_t  kf_crc_short[4][256] = {
    { R256(0xdcb17aa4, 0xbc8e83b9, 0x7cf17183, 0xf9e2e306,
           0xf629b0fd, 0xe9bf170b, 0xd69258e7, 0xa8c8c73f) },
    { R256(0x547df88f, 0xa8fbf11e, 0x541b94cd, 0xa837299a,
           0x558225c5, 0xab044b8a, 0x53e4e1e5, 0xa7c9c3ca) },
    { R256(0x4a7ff165, 0x94ffe2ca, 0x2c13b365, 0x582766ca,
           0xb04ecd94, 0x6571edd9, 0xcae3dbb2, 0x902bc195) },
    { R256(0x25bbf5db, 0x4b77ebb6, 0x96efd76c, 0x2833d829,
           0x5067b052, 0xa0cf60a4, 0x4472b7b9, 0x88e56f72) }
};

/* The same for KF_CRC_LONG. */
static const uint32_t  kf_crc_long[4][256] = {
    { R256(0xc2a5b65e, 0x80a71a4d, 0x04a2426b, 0x094484d6,
           0x128909ac, 0x25121358, 0x4a2426b0, 0x94484d60) },
    { R256(0x2d7cec31, 0x5af9d862, 0xb5f3b0c4, 0x6e0b1779,
           0xdc162ef2, 0xbdc02b15, 0x7e6c20db, 0xfcd841b6) },
    { R256(0xfc5cf59d, 0xfd559dcb, 0xff474d67, 0xfb62ec3f,
           0xf329ae8f, 0xe3bf2bef, 0xc292212f, 0x80c834af) },
    { R256(0x047c1faf, 0x08f83f5e, 0x11f07ebc, 0x23e0fd78,
           0x47c1faf0, 0x8f83f5e0, 0x1aeb9d31, 0x35d73a62) }
};


static inline uint64_t
kf_crc_shift(const uint32_t table[4][256], uint64_t crc)
{
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff]
           ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24 & 0xff];
}


#if (defined __x86_64__)

#define KF_CRC_TARGET     __attribute__((target("sse4.2")))
#define KF_CRC_U64(c, v)  ((c) = __builtin_ia32_crc32di(c, v))
#define KF_CRC_U8(c, v)                                                       \
    ((c) = __builtin_ia32_crc32qi((uint32_t) (c), v))

static inline bool
kf_crc_have_hardware(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#else

#define KF_CRC_TARGET

#define KF_CRC_U64(c, v)                                                      \
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1"                    \
            : "+r" (c) : "r" (v))
#define KF_CRC_U8(c, v)                                                       \
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"                    \
            : "+r" (c) : "r" (v))

static inline bool
kf_crc_have_hardware(void)
{
#if (defined __linux__)
    return (getauxval(AT_HWCAP) & 1 << 7) != 0;         /* HWCAP_CRC32 */
#else
    return false;
#endif
}

#endif


static inline uint64_t
kf_crc_load(const uint8_t *p)
{
    uint64_t  v;

    memcpy(&v, p, sizeof(v));

    return v;
}


/* Three streams of `block` bytes each, while there is input for all three. */
#define KF_CRC_THREE(block, table)                                            \
    while (len >= 3 * (block)) {                                              \
        c1 = 0;                                                               \
        c2 = 0;                                                               \
                                                                              \
        for (i = 0; i < (block); i += 8) {                                    \
            KF_CRC_U64(c, kf_crc_load(p + i));                                \
            KF_CRC_U64(c1, kf_crc_load(p + (block) + i));                     \
            KF_CRC_U64(c2, kf_crc_load(p + 2 * (block) + i));                 \
        }                                                                     \
                                                                              \
        c = kf_crc_shift(table, c) ^ c1;                                      \
        c = kf_crc_shift(table, c) ^ c2;                                      \
        p += 3 * (block);                                                     \
        len -= 3 * (block);                                                   \
    }


KF_CRC_TARGET
static uint32_t
kf_crc32c_hardware(uint32_t crc, const uint8_t *p, size_t len)
{
    size_t    i;
    uint64_t  c, c1, c2;

    c = (uint32_t) ~crc;

    KF_CRC_THREE(KF_CRC_LONG, kf_crc_long)
    KF_CRC_THREE(KF_CRC_SHORT, kf_crc_short)

    for ( /* void */ ; len >= 8; len -= 8, p += 8) {
        KF_CRC_U64(c, kf_crc_load(p));
    }

    while (len--) {
        KF_CRC_U8(c, *p++);
    }

    return ~(uint32_t) c;
}

#endif


uint32_t
kf_crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    uint32_t        hi;
    const uint8_t  *p = data;

    crc = ~crc;

    for ( /* void */ ; len >= 8; len -= 8, p += 8) {
        crc ^= (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16
               | (uint32_t) p[3] << 24;
        hi = (uint32_t) p[4] | (uint32_t) p[5] << 8 | (uint32_t) p[6] << 16
             | (uint32_t) p[7] << 24;

        crc = kf_crc_slice[7][crc & 0xff] ^ kf_crc_slice[6][crc >> 8 & 0xff]
              ^ kf_crc_slice[5][crc >> 16 & 0xff] ^ kf_crc_slice[4][crc >> 24]
              ^ kf_crc_slice[3][hi & 0xff] ^ kf_crc_slice[2][hi >> 8 & 0xff]
              ^ kf_crc_slice[1][hi >> 16 & 0xff] ^ kf_crc_slice[0][hi >> 24];
    }

    while (len--) {
        crc = crc >> 8 ^ kf_crc_slice[0][(crc ^ *p++) & 0xff];
    }

    return ~crc;
}


uint32_t
kf_crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef KF_CRC_HARDWARE
    if (kf_crc_have_hardware()) {
        return kf_crc32c_hardware(crc, data, len);
    }
#endif

    return kf_crc32c_portable(crc, data, len);
}
