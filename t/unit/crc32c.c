/* CRC-32C: published vectors, and both paths against bit by bit. */

#include <time.h>

#include "batch_lib.h"


static uint32_t
bitwise(uint32_t crc, const uint8_t *p, size_t len)
{
    int  i;

    crc = ~crc;

    while (len--) {
        crc ^= *p++;
        for (i = 0; i < 8; i++) {
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
        }
    }

    return ~crc;
}


static void
vector(const void *data, size_t len, uint32_t want, const char *label)
{
    is(kf_crc32c(0, guarded(data, len), len), want, label);
    is(kf_crc32c_portable(0, guarded(data, len), len), want, label);
}


static double
speed(uint32_t (*crc)(uint32_t, const void *, size_t), const uint8_t *data,
    size_t len, size_t total)
{
    double           sec;
    size_t           n;
    uint32_t         c = 0;
    struct timespec  a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (n = 0; n < total; n += len) {
        c = crc(c, data, len);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);

    sec = (double) (b.tv_sec - a.tv_sec)
          + (double) (b.tv_nsec - a.tv_nsec) / 1e9;

    return c == 1 ? 0 : (double) total / sec / 1e9;
}


int
main(void)
{
    int       bad, bad_portable;
    size_t    i, len, at, size = 1 << 20;
    uint8_t  *data, v[48];
    uint32_t  want;

    static const uint8_t  iscsi[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0x14, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
        0x28, 0, 0, 0, 0, 0, 0, 0, 2
    };

    vector("", 0, 0, "nothing");
    vector("123456789", 9, 0xe3069283, "the check value");
    memset(v, 0, 32);
    vector(v, 32, 0x8a9136aa, "RFC 3720: zeros");
    memset(v, 0xff, 32);
    vector(v, 32, 0x62a8ab43, "RFC 3720: ones");
    for (i = 0; i < 32; i++) {
        v[i] = (uint8_t) i;
    }
    vector(v, 32, 0x46dd794e, "RFC 3720: incrementing");
    for (i = 0; i < 32; i++) {
        v[i] = (uint8_t) (31 - i);
    }
    vector(v, 32, 0x113fdb5c, "RFC 3720: decrementing");
    vector(iscsi, 48, 0xd9963a56, "RFC 3720: a read command");

    data = malloc(size);
    for (i = 0; i < size; i++) {
        data[i] = (uint8_t) rnd();
    }

    bad = bad_portable = 0;
    for (len = 0; len < 2200; len++) {
        at = rnd() % 64;
        want = bitwise((uint32_t) len, data + at, len);
        bad += kf_crc32c((uint32_t) len, data + at, len) != want;
        bad_portable += kf_crc32c_portable((uint32_t) len, data + at, len)
                        != want;
    }
    is(bad, 0, "every length to 2200 at random alignments");
    is(bad_portable, 0, "the same by tables");

    bad = 0;
    for (i = 0; i < 300; i++) {
        at = rnd() % 64;
        len = rnd() % (size / 8);
        bad += kf_crc32c((uint32_t) i, data + at, len)
               != kf_crc32c_portable((uint32_t) i, data + at, len);
    }
    is(bad, 0, "both paths agree on long inputs");

    bad = 0;
    for (i = 0; i < 100; i++) {
        len = rnd() % 40000;
        at = rnd() % (len + 1);
        want = kf_crc32c(0, data, at);
        bad += kf_crc32c(want, data + at, len - at) != kf_crc32c(0, data, len);
    }
    is(bad, 0, "a CRC can be continued");

    for (len = 64, i = 0; i < 9; i++, len *= 4) {
        at = len < size ? len : size;
        diag("%7zu bytes: %5.1f GB/s, by tables %4.1f GB/s", at,
             speed(kf_crc32c, data, at, 100 << 20),
             speed(kf_crc32c_portable, data, at, 10 << 20));
    }

    free(data);

    return done_testing();
}
