/*
 * Decompression as a stream.
 *
 * Contexts of the libraries are large, so each thread keeps one set of them for
 * the next batch.  A call takes the set and puts it back; a sink that itself
 * decompresses finds none and makes another.  What a hostile frame made large
 * is not kept.
 */

#include <pthread.h>
#include <stdlib.h>

#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "kf_be.h"
#include "kf_compress.h"


#define KF_PIECE            65536       /* bytes of output at a time */
#define KF_ZSTD_WINDOW_LOG  23
#define KF_ZSTD_KEEP        (1 << 20)   /* a larger context is freed */
#define KF_XERIAL_HEADER    16

/* A snappy copy of three bytes makes 64 at most. */
#define KF_SNAPPY_RATIO     22


typedef struct {
    z_stream    zlib;
    bool        zlib_ready;
    bool        lz4_large;              /* blocks of more than 256 KiB */
    LZ4F_dctx  *lz4;
    ZSTD_DCtx  *zstd;
    uint8_t     piece[KF_PIECE];
} kf_decoder_t;

typedef struct {
    const uint8_t  *in;
    size_t          left;               /* bytes of input */
    int64_t         output_left;
    kf_sink_pt      sink;
    void           *ctx;
    bool            stopped;            /* by the sink */
} kf_stream_t;


static const uint8_t  kf_xerial_magic[8] = {
    0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0
};

static pthread_key_t   kf_decoder_key;
static pthread_once_t  kf_decoder_once = PTHREAD_ONCE_INIT;
static bool            kf_decoder_keyed;


static void
kf_decoder_free(void *decoder)
{
    kf_decoder_t  *d = decoder;

    if (d->zlib_ready) {
        (void) inflateEnd(&d->zlib);
    }

    (void) LZ4F_freeDecompressionContext(d->lz4);
    (void) ZSTD_freeDCtx(d->zstd);

    free(d);
}


static void
kf_decoder_key_create(void)
{
    kf_decoder_keyed = pthread_key_create(&kf_decoder_key, kf_decoder_free)
                       == 0;
}


/* The code may be unloaded before the last thread ends. */
__attribute__((destructor))
static void
kf_decoder_key_delete(void)
{
    void  *d;

    if (kf_decoder_keyed) {
        d = pthread_getspecific(kf_decoder_key);

        (void) pthread_key_delete(kf_decoder_key);
        kf_decoder_keyed = false;

        if (d) {
            kf_decoder_free(d);
        }
    }
}


static kf_decoder_t *
kf_decoder_take(void)
{
    kf_decoder_t  *d = NULL;

    (void) pthread_once(&kf_decoder_once, kf_decoder_key_create);

    if (kf_decoder_keyed) {
        d = pthread_getspecific(kf_decoder_key);
    }

    if (d) {
        (void) pthread_setspecific(kf_decoder_key, NULL);
        return d;
    }

    d = malloc(sizeof(kf_decoder_t));

    if (d) {
        memset(d, 0, offsetof(kf_decoder_t, piece));
    }

    return d;
}


static void
kf_decoder_put(kf_decoder_t *d)
{
    if (d->lz4_large) {
        (void) LZ4F_freeDecompressionContext(d->lz4);
        d->lz4 = NULL;
        d->lz4_large = false;
    }

    if (d->zstd && ZSTD_sizeof_DCtx(d->zstd) > KF_ZSTD_KEEP) {
        (void) ZSTD_freeDCtx(d->zstd);
        d->zstd = NULL;
    }

    if (!kf_decoder_keyed || pthread_getspecific(kf_decoder_key)
        || pthread_setspecific(kf_decoder_key, d) != 0)
    {
        kf_decoder_free(d);
    }
}


/* Hands out a piece; anything but KF_OK, or s->stopped, ends the stream. */
static kf_rc_t
kf_stream_emit(kf_stream_t *s, const uint8_t *data, size_t len)
{
    if (len == 0) {
        return KF_OK;
    }

    if (len > (uint64_t) s->output_left) {
        return KF_TOO_LARGE;
    }

    s->output_left -= (int64_t) len;
    s->stopped = !s->sink(s->ctx, data, len);

    return KF_OK;
}


static inline void
kf_stream_take(kf_stream_t *s, size_t n)
{
    s->in += n;
    s->left -= n;
}


static kf_rc_t
kf_gunzip(kf_decoder_t *d, kf_stream_t *s)
{
    int        rc;
    size_t     n;
    kf_rc_t    out;
    z_stream  *z = &d->zlib;

    if (!d->zlib_ready) {

        /* 16: a gzip header, no other */

        if (inflateInit2(z, 15 + 16) != Z_OK) {
            return KF_NO_MEMORY;
        }

        d->zlib_ready = true;

    } else if (inflateReset(z) != Z_OK) {
        return KF_NO_MEMORY;
    }

    for ( ;; ) {
        n = s->left < UINT32_MAX ? s->left : UINT32_MAX;

        z->next_in = (Bytef *) s->in;
        z->avail_in = (uInt) n;
        z->next_out = d->piece;
        z->avail_out = KF_PIECE;

        rc = inflate(z, Z_NO_FLUSH);

        kf_stream_take(s, n - z->avail_in);

        out = kf_stream_emit(s, d->piece, KF_PIECE - z->avail_out);

        if (out != KF_OK || s->stopped) {
            return out;
        }

        switch (rc) {

        case Z_OK:
            continue;

        case Z_STREAM_END:

            if (s->left == 0) {
                return KF_OK;
            }

            /* another member follows */

            if (inflateReset(z) != Z_OK) {
                return KF_NO_MEMORY;
            }

            continue;

        case Z_MEM_ERROR:
            return KF_NO_MEMORY;

        default:                        /* also when the input ends early */
            return KF_MALFORMED;
        }
    }
}


/* One raw snappy block, whose length claims are checked before they cost. */
static kf_rc_t
kf_unsnap_block(kf_decoder_t *d, kf_stream_t *s, const uint8_t *in, size_t len)
{
    size_t    size;
    kf_rc_t   rc;
    uint8_t  *out;

    if (snappy_uncompressed_length((const char *) in, len, &size) != SNAPPY_OK
        || size / KF_SNAPPY_RATIO > len)
    {
        return KF_MALFORMED;
    }

    if (size > (uint64_t) s->output_left) {
        return KF_TOO_LARGE;
    }

    out = d->piece;

    if (size > KF_PIECE) {
        out = malloc(size);

        if (out == NULL) {
            return KF_NO_MEMORY;
        }
    }

    if (snappy_uncompress((const char *) in, len, (char *) out, &size)
        == SNAPPY_OK)
    {
        rc = kf_stream_emit(s, out, size);

    } else {
        rc = KF_MALFORMED;
    }

    if (out != d->piece) {
        free(out);
    }

    return rc;
}


static bool
kf_xerial_header(const kf_stream_t *s)
{
    return s->left >= KF_XERIAL_HEADER
           && memcmp(s->in, kf_xerial_magic, sizeof(kf_xerial_magic)) == 0;
}


static kf_rc_t
kf_unsnap(kf_decoder_t *d, kf_stream_t *s)
{
    kf_rc_t         rc;
    uint32_t        len;
    const uint8_t  *block;

    if (!kf_xerial_header(s)) {
        return kf_unsnap_block(d, s, s->in, s->left);
    }

    while (s->left) {

        /* streams may be joined, each with its header */

        if (kf_xerial_header(s)) {
            kf_stream_take(s, KF_XERIAL_HEADER);
            continue;
        }

        if (s->left < 4) {
            return KF_MALFORMED;
        }

        len = kf_be32(s->in);
        kf_stream_take(s, 4);

        if (len > s->left) {
            return KF_MALFORMED;
        }

        block = s->in;
        kf_stream_take(s, len);

        rc = kf_unsnap_block(d, s, block, len);

        if (rc != KF_OK || s->stopped) {
            return rc;
        }
    }

    return KF_OK;
}


static kf_rc_t
kf_unlz4(kf_decoder_t *d, kf_stream_t *s)
{
    bool     begin;
    size_t   n, out_len, rc;
    kf_rc_t  out;

    if (d->lz4 == NULL) {
        rc = LZ4F_createDecompressionContext(&d->lz4, LZ4F_VERSION);

        if (LZ4F_isError(rc)) {
            d->lz4 = NULL;
            return KF_NO_MEMORY;
        }

    } else {
        LZ4F_resetDecompressionContext(d->lz4);
    }

    begin = true;

    for ( ;; ) {

        /* block size codes 6 and 7 are 1 and 4 MiB */

        if (begin && s->left > 5 && (s->in[5] >> 4 & 7) > 5) {
            d->lz4_large = true;
        }

        n = s->left;
        out_len = KF_PIECE;

        rc = LZ4F_decompress(d->lz4, d->piece, &out_len, s->in, &n, NULL);

        if (LZ4F_isError(rc)) {
            return KF_MALFORMED;
        }

        kf_stream_take(s, n);

        out = kf_stream_emit(s, d->piece, out_len);

        if (out != KF_OK || s->stopped) {
            return out;
        }

        begin = rc == 0;

        if (begin && s->left == 0) {
            return KF_OK;
        }

        if (n == 0 && out_len == 0) {
            return KF_MALFORMED;        /* the input ends inside a frame */
        }
    }
}


static kf_rc_t
kf_unzstd(kf_decoder_t *d, kf_stream_t *s)
{
    size_t          rc, pos;
    kf_rc_t         err;
    ZSTD_inBuffer   in;
    ZSTD_outBuffer  out;

    if (d->zstd == NULL) {
        d->zstd = ZSTD_createDCtx();

        if (d->zstd == NULL
            || ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd,
                                                   ZSTD_d_windowLogMax,
                                                   KF_ZSTD_WINDOW_LOG)))
        {
            return KF_NO_MEMORY;
        }

    } else {
        (void) ZSTD_DCtx_reset(d->zstd, ZSTD_reset_session_only);
    }

    in.src = s->in;
    in.size = s->left;
    in.pos = 0;

    for ( ;; ) {
        out.dst = d->piece;
        out.size = KF_PIECE;
        out.pos = 0;

        pos = in.pos;
        rc = ZSTD_decompressStream(d->zstd, &out, &in);

        if (ZSTD_isError(rc)) {

            switch (ZSTD_getErrorCode(rc)) {

            case ZSTD_error_memory_allocation:
                return KF_NO_MEMORY;

            case ZSTD_error_frameParameter_windowTooLarge:
                return KF_UNSUPPORTED;

            default:
                return KF_MALFORMED;
            }
        }

        err = kf_stream_emit(s, d->piece, out.pos);

        if (err != KF_OK || s->stopped) {
            return err;
        }

        if (rc == 0 && in.pos == in.size) {
            return KF_OK;
        }

        if (in.pos == pos && out.pos == 0) {
            return KF_MALFORMED;
        }
    }
}


kf_rc_t
kf_decompress(kf_codec_t codec, const uint8_t *in, size_t in_len,
    int64_t output_max, kf_sink_pt sink, void *ctx)
{
    kf_rc_t        rc;
    kf_stream_t    s;
    kf_decoder_t  *d;

    s.in = in;
    s.left = in_len;
    s.output_left = output_max > 0 ? output_max : 0;
    s.sink = sink;
    s.ctx = ctx;
    s.stopped = false;

    if (codec == KF_CODEC_NONE) {
        return kf_stream_emit(&s, in, in_len);
    }

    if (codec > KF_CODEC_ZSTD) {
        return KF_UNSUPPORTED;
    }

    if (in_len == 0) {
        return KF_MALFORMED;
    }

    d = kf_decoder_take();

    if (d == NULL) {
        return KF_NO_MEMORY;
    }

    switch (codec) {

    case KF_CODEC_GZIP:
        rc = kf_gunzip(d, &s);
        break;

    case KF_CODEC_SNAPPY:
        rc = kf_unsnap(d, &s);
        break;

    case KF_CODEC_LZ4:
        rc = kf_unlz4(d, &s);
        break;

    default:
        rc = kf_unzstd(d, &s);
        break;
    }

    kf_decoder_put(d);

    return rc;
}
