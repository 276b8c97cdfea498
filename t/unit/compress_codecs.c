/*
 * The four codecs: both ways, golden frames of other writers, every truncation,
 * bombs, bounds, re-entrance and threads.
 */

#include <pthread.h>
#include <time.h>

#include <snappy-c.h>
#include <zstd.h>

#include "batch_lib.h"


static const char  *names[] = { "plain", "gzip", "snappy", "lz4", "zstd" };


static bool
collect(void *ctx, const uint8_t *data, size_t len)
{
    put(ctx, data, len);
    return true;
}


static bool
discard(void *ctx, const uint8_t *data, size_t len)
{
    size_t  *n = ctx;

    (void) data;
    *n += len;
    return true;
}


static bool
stop(void *ctx, const uint8_t *data, size_t len)
{
    int  *n = ctx;

    (void) data;
    (void) len;
    return ++*n < 2;
}


static uint8_t *
text(size_t len)
{
    size_t    i;
    uint8_t  *p = malloc(len + 1);

    for (i = 0; i < len; i++) {
        p[i] = (uint8_t) ("the quick brown fox "[(i + i / 997) % 20]
                          + (rnd() % 50 == 0));
    }

    return p;
}


static void
round_trip(int codec)
{
    int       bad = 0;
    buf_t     out = { 0 };
    size_t    i, z_len;
    uint8_t  *in, *z;

    static const size_t  sizes[] = {
        1, 2, 100, 32767, 32768, 32769, 65535, 65536, 65537, 131072, 1000003
    };

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        in = text(sizes[i]);
        out.len = 0;
        bad += kf_compress(codec, KF_LEVEL_DEFAULT, in, sizes[i], &z, &z_len)
               != KF_OK
               || kf_decompress(codec, guarded(z, z_len), z_len,
                                (int64_t) sizes[i], collect, &out) != KF_OK
               || out.len != sizes[i] || memcmp(out.p, in, out.len) != 0;
        bad += kf_decompress(codec, z, z_len, (int64_t) sizes[i] - 1, collect,
                             &out) != KF_TOO_LARGE;
        free(z);
        free(in);
    }

    ok(bad == 0, "%s: both ways, and no byte over the bound", names[codec]);
    free(out.p);
}


static void
levels(int codec)
{
    int       level, bad = 0;
    buf_t     out = { 0 };
    size_t    z_len, n = 300000;
    uint8_t  *in = text(n), *z;

    for (level = -3; level <= 22; level++) {
        out.len = 0;
        bad += kf_compress(codec, level, in, n, &z, &z_len) != KF_OK
               || kf_decompress(codec, z, z_len, 1 << 20, collect, &out)
                  != KF_OK
               || out.len != n || memcmp(out.p, in, n) != 0;
        free(z);
    }

    ok(bad == 0, "%s: any level", names[codec]);
    free(out.p);
    free(in);
}


static void
truncated(int codec)
{
    int       bad = 0;
    size_t    n, z_len, len, seen;
    uint8_t  *in = text(100000), *z;

    for (n = 3000; n <= 100000; n += 97000) {
        kf_compress(codec, KF_LEVEL_DEFAULT, in, n, &z, &z_len);
        for (len = 0; len < z_len; len += n == 3000 ? 1 : 997) {
            seen = 0;

            /* xerial blocks may end anywhere between two blocks */

            bad += kf_decompress(codec, guarded(z, len), len, 1 << 20, discard,
                                 &seen) == KF_OK
                   && (codec != KF_CODEC_SNAPPY || seen >= n);
        }
        free(z);
    }

    ok(bad == 0, "%s: cut anywhere, it is no whole stream", names[codec]);
    free(in);
}


/* The processor's time: others may have it for as long as they like. */
static double
now(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}


static void
bomb(int codec)
{
    double    t;
    size_t    z_len, seen = 0, n = 200 << 20;
    uint8_t  *in = calloc(1, n), *z;

    kf_compress(codec, KF_LEVEL_DEFAULT, in, n, &z, &z_len);
    free(in);

    t = now();
    is(kf_decompress(codec, z, z_len, 1 << 20, discard, &seen), KF_TOO_LARGE,
       "a bomb is too large");
    t = now() - t;
    ok(seen <= 1 << 20, "  and %s gives no more than the bound", names[codec]);
    diag("%s: %zu bytes for 200 MiB, refused after %.1f ms", names[codec],
         z_len, t * 1000);
    ok(t < 0.5, "  quickly");
    free(z);
}


static void
golden(kf_codec_t codec, const uint8_t *in, size_t len, const char *want,
    const char *label)
{
    buf_t  out = { 0 };

    is(kf_decompress(codec, guarded(in, len), len, 1000, collect, &out), KF_OK,
       label);
    is_mem(out.p, out.len, want, strlen(want), "  what it says");
    free(out.p);
}


static void
frames(void)
{
    buf_t     b = { 0 };
    size_t    len, seen = 0;
    uint8_t  *z;

    /* gzip 1.12 with a name and an extra field in the header */

    static const uint8_t  gz[] = {
        0x1f, 0x8b, 8, 0x0c, 0, 0, 0, 0, 0, 3, 2, 0, 'x', 'y', 'n', 0,
        0xcb, 0x48, 0xcd, 0xc9, 0xc9, 7, 0, 0x86, 0xa6, 0x10, 0x36, 5, 0, 0, 0
    };

    /* raw: a literal, then a copy of it */

    static const uint8_t  snap[] = { 10, 4 << 2, 'h', 'e', 'l', 'l', 'o',
                                     1 << 2 | 1, 5 };
    static const uint8_t  xerial[] = {
        0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
        0, 0, 0, 9, 10, 4 << 2, 'h', 'e', 'l', 'l', 'o', 1 << 2 | 1, 5,
        0, 0, 0, 3, 1, 0, '!'
    };

    static const uint8_t  lz4[] = {
        4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 5, 0, 0, 0x80, 'h', 'e', 'l',
        'l', 'o', 0, 0, 0, 0
    };

    static const uint8_t  zst[] = {
        0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x29, 0, 0, 'h', 'e', 'l', 'l', 'o'
    };

    golden(KF_CODEC_GZIP, gz, sizeof(gz), "hello", "gzip with header fields");
    put(&b, gz, sizeof(gz));
    put(&b, gz, sizeof(gz));
    golden(KF_CODEC_GZIP, b.p, b.len, "hellohello", "two gzip members");
    put(&b, "x", 1);
    is(kf_decompress(KF_CODEC_GZIP, b.p, b.len, 1000, discard, &seen),
       KF_MALFORMED, "rubbish after a gzip member");
    b.p[sizeof(gz) - 8] ^= 1;
    is(kf_decompress(KF_CODEC_GZIP, b.p, sizeof(gz), 1000, discard, &seen),
       KF_MALFORMED, "a wrong check sum");

    len = sizeof(snap) - 1;                     /* without the copy: 9 bytes */
    golden(KF_CODEC_SNAPPY, xerial, sizeof(xerial), "hellohello!",
           "snappy in xerial blocks");
    b.len = 0;
    put(&b, xerial, sizeof(xerial));
    put(&b, xerial, sizeof(xerial));
    golden(KF_CODEC_SNAPPY, b.p, b.len, "hellohello!hellohello!",
           "two xerial streams");
    golden(KF_CODEC_SNAPPY, snap, sizeof(snap), "hellohello", "raw snappy");
    is(kf_decompress(KF_CODEC_SNAPPY, snap, len, 1000, discard, &seen),
       KF_MALFORMED, "raw snappy, cut");
    is(kf_decompress(KF_CODEC_SNAPPY, (const uint8_t *) "\xff\xff\xff\xff\x0f",
                     5, INT64_MAX, discard, &seen),
       KF_MALFORMED, "a block that claims 4 GiB");
    b.len = 0;
    put(&b, xerial, sizeof(xerial));
    b.p[16] = 0x7f;
    is(kf_decompress(KF_CODEC_SNAPPY, b.p, b.len, 1000, discard, &seen),
       KF_MALFORMED, "a xerial block longer than its stream");

    golden(KF_CODEC_LZ4, lz4, sizeof(lz4), "hello", "an lz4 frame");
    b.len = 0;
    put(&b, lz4, sizeof(lz4));
    put(&b, lz4, sizeof(lz4));
    golden(KF_CODEC_LZ4, b.p, b.len, "hellohello", "two lz4 frames");
    golden(KF_CODEC_ZSTD, zst, sizeof(zst), "hello", "a zstd frame");

    b.len = 0;
    put(&b, zst, sizeof(zst));
    put(&b, zst, sizeof(zst));
    golden(KF_CODEC_ZSTD, b.p, b.len, "hellohello", "two zstd frames");

    /* a window of 128 MiB: descriptor 0, window byte 17 << 3 */

    is(kf_decompress(KF_CODEC_ZSTD,
                     (const uint8_t *) "\x28\xb5\x2f\xfd\0\x88\x29\0\0hello",
                     14, 1000, discard, &seen),
       KF_UNSUPPORTED, "a zstd window of 128 MiB");
    is(kf_decompress(KF_CODEC_ZSTD,
                     (const uint8_t *) "\x28\xb5\x2f\xfd\0\x68\x29\0\0hello",
                     14, 1000, discard, &seen),
       KF_OK, "a zstd window of 8 MiB");

    is(kf_decompress(5, zst, sizeof(zst), 1000, discard, &seen),
       KF_UNSUPPORTED, "no codec 5");
    is(kf_compress(6, 0, zst, sizeof(zst), &z, &len), KF_UNSUPPORTED,
       "nor 6 the other way");

    free(b.p);
}


typedef struct {
    const uint8_t  *z;
    size_t          z_len;
    int             codec;
    size_t          inner;
    size_t          outer;
} nested_t;

static bool
nest(void *ctx, const uint8_t *data, size_t len)
{
    nested_t  *n = ctx;

    (void) data;
    n->outer += len;

    return kf_decompress(n->codec, n->z, n->z_len, 1 << 24, discard, &n->inner)
           == KF_OK;
}


static void *
many(void *arg)
{
    int       i, codec;
    size_t    bad = 0, n, z_len, seen;
    uint8_t  *in, *z;

    (void) arg;

    for (i = 0; i < 40; i++) {
        codec = 1 + i % 4;
        n = 1000 + (size_t) i * 4001;
        in = malloc(n);
        memset(in, i, n);
        kf_compress(codec, KF_LEVEL_DEFAULT, in, n, &z, &z_len);
        seen = 0;
        bad += kf_decompress(codec, z, z_len, 1 << 24, discard, &seen) != KF_OK
               || seen != n;
        free(z);
        free(in);
    }

    return (void *) bad;
}


static void
contexts(void)
{
    int        codec, n;
    void      *bad;
    size_t     len = 500000, z_len, seen;
    uint8_t   *in = text(len), *z;
    nested_t   nested;
    pthread_t  t[3];

    for (codec = 1; codec <= 4; codec++) {
        kf_compress(codec, KF_LEVEL_DEFAULT, in, len, &z, &z_len);

        n = 0;
        is(kf_decompress(codec, z, z_len, 1 << 24, stop, &n), KF_OK,
           "a sink that stops");
        is(n, 2, "  is not called again");
        seen = 0;
        kf_decompress(codec, z, z_len, 100000, discard, &seen);
        seen = 0;
        is(kf_decompress(codec, z, z_len, 1 << 24, discard, &seen), KF_OK,
           "  the next stream is not disturbed");
        is((int64_t) seen, (int64_t) len, "  and whole");

        memset(&nested, 0, sizeof(nested));
        nested.z = z;
        nested.z_len = z_len;
        nested.codec = codec;
        is(kf_decompress(codec, z, z_len, 1 << 24, nest, &nested), KF_OK,
           "a sink that decompresses");
        ok(nested.outer == len && nested.inner % len == 0 && nested.inner,
           "  gets both streams right");
        free(z);
    }

    for (n = 0; n < 3; n++) {
        pthread_create(&t[n], NULL, many, NULL);
    }
    for (n = 0; n < 3; n++) {
        pthread_join(t[n], &bad);
        ok(bad == NULL, "thread %d", n);
    }

    free(in);
}


static void
speed(void)
{
    int       codec, i;
    double    t;
    size_t    z_len, seen, len = 1 << 20;
    uint8_t  *in = text(len), *z;

    for (codec = 1; codec <= 4; codec++) {
        kf_compress(codec, KF_LEVEL_DEFAULT, in, len, &z, &z_len);
        t = now();
        for (i = 0; i < 20; i++) {
            kf_decompress(codec, z, z_len, 1 << 24, discard, &seen);
        }
        diag("%s: %.0f MB/s out", names[codec],
             20 * (double) len / 1e6 / (now() - t));
        free(z);
    }

    free(in);
}


int
main(void)
{
    int  codec;

    for (codec = 1; codec <= 4; codec++) {
        round_trip(codec);
        levels(codec);
        truncated(codec);
        bomb(codec);
    }

    frames();
    contexts();
    speed();

    return done_testing();
}
