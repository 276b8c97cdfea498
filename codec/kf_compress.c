/*
 * Compression of a whole records area, framed as Kafka's clients expect it.
 * Decompression is in kf_decompress.c.
 */

#include <stdlib.h>

#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "kf_be.h"
#include "kf_compress.h"


#define KF_XERIAL_HEADER  16
#define KF_XERIAL_BLOCK   32768


static kf_rc_t
kf_gzip(int level, const uint8_t *in, size_t in_len, uint8_t **out,
    size_t *out_len)
{
    int       rc;
    size_t    size;
    uint8_t  *buf;
    z_stream  z;

    memset(&z, 0, sizeof(z));

    if (level < Z_BEST_SPEED || level > Z_BEST_COMPRESSION) {
        level = Z_DEFAULT_COMPRESSION;
    }

    if (deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)
        != Z_OK)
    {
        return KF_NO_MEMORY;
    }

    size = deflateBound(&z, (uLong) in_len);
    buf = malloc(size);

    if (buf == NULL) {
        (void) deflateEnd(&z);
        return KF_NO_MEMORY;
    }

    z.next_in = (Bytef *) in;
    z.avail_in = (uInt) in_len;
    z.next_out = buf;
    z.avail_out = (uInt) size;

    rc = deflate(&z, Z_FINISH);
    size -= z.avail_out;

    (void) deflateEnd(&z);

    if (rc != Z_STREAM_END) {
        free(buf);
        return KF_NO_MEMORY;
    }

    *out = buf;
    *out_len = size;

    return KF_OK;
}


static kf_rc_t
kf_snap(const uint8_t *in, size_t in_len, uint8_t **out, size_t *out_len)
{
    size_t    n, size, blocks;
    uint8_t  *buf, *p;

    static const uint8_t  header[KF_XERIAL_HEADER] = {
        0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0,
        0, 0, 0, 1,                     /* version */
        0, 0, 0, 1                      /* the oldest that can read it */
    };

    blocks = in_len / KF_XERIAL_BLOCK + 1;

    buf = malloc(KF_XERIAL_HEADER
                 + blocks * (4 + snappy_max_compressed_length(
                                     KF_XERIAL_BLOCK)));

    if (buf == NULL) {
        return KF_NO_MEMORY;
    }

    memcpy(buf, header, KF_XERIAL_HEADER);
    p = buf + KF_XERIAL_HEADER;

    while (in_len) {
        n = in_len < KF_XERIAL_BLOCK ? in_len : KF_XERIAL_BLOCK;
        size = snappy_max_compressed_length(n);

        if (snappy_compress((const char *) in, n, (char *) p + 4, &size)
            != SNAPPY_OK)
        {
            free(buf);
            return KF_NO_MEMORY;
        }

        kf_put_be32(p, (uint32_t) size);
        p += 4 + size;
        in += n;
        in_len -= n;
    }

    *out = buf;
    *out_len = (size_t) (p - buf);

    return KF_OK;
}


static kf_rc_t
kf_lz4(int level, const uint8_t *in, size_t in_len, uint8_t **out,
    size_t *out_len)
{
    size_t              n, size;
    uint8_t            *buf;
    LZ4F_preferences_t  prefs;

    memset(&prefs, 0, sizeof(prefs));
    prefs.frameInfo.blockSizeID = LZ4F_max64KB;
    prefs.frameInfo.blockMode = LZ4F_blockIndependent;
    prefs.compressionLevel = level;

    size = LZ4F_compressFrameBound(in_len, &prefs);
    buf = malloc(size);

    if (buf == NULL) {
        return KF_NO_MEMORY;
    }

    n = LZ4F_compressFrame(buf, size, in, in_len, &prefs);

    if (LZ4F_isError(n)) {
        free(buf);
        return KF_NO_MEMORY;
    }

    *out = buf;
    *out_len = n;

    return KF_OK;
}


/*
 * The stored frame's window is bounded as kf_decompress bounds it, so that we
 * can read what we wrote at every level.
 */
static kf_rc_t
kf_zstd(int level, const uint8_t *in, size_t in_len, uint8_t **out,
    size_t *out_len)
{
    size_t      n, size;
    uint8_t    *buf;
    ZSTD_CCtx  *cctx;

    size = ZSTD_compressBound(in_len);

    buf = malloc(size);
    cctx = ZSTD_createCCtx();

    if (buf == NULL || cctx == NULL) {
        free(buf);
        (void) ZSTD_freeCCtx(cctx);
        return KF_NO_MEMORY;
    }

    if (level > 19) {
        (void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, 23);
    }

    n = ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, level);

    if (!ZSTD_isError(n)) {
        n = ZSTD_compress2(cctx, buf, size, in, in_len);
    }

    (void) ZSTD_freeCCtx(cctx);

    if (ZSTD_isError(n)) {
        free(buf);
        return KF_NO_MEMORY;
    }

    *out = buf;
    *out_len = n;

    return KF_OK;
}


static kf_rc_t
kf_copy(const uint8_t *in, size_t in_len, uint8_t **out, size_t *out_len)
{
    *out = malloc(in_len ? in_len : 1);

    if (*out == NULL) {
        return KF_NO_MEMORY;
    }

    if (in_len) {
        memcpy(*out, in, in_len);
    }

    *out_len = in_len;

    return KF_OK;
}


kf_rc_t
kf_compress(kf_codec_t codec, int32_t level, const uint8_t *in, size_t in_len,
    uint8_t **out, size_t *out_len)
{
    bool  standard = level == KF_LEVEL_DEFAULT;

    *out = NULL;
    *out_len = 0;

    if (in_len > INT32_MAX) {
        return KF_TOO_LARGE;
    }

    switch (codec) {

    case KF_CODEC_NONE:
        return kf_copy(in, in_len, out, out_len);

    case KF_CODEC_GZIP:
        return kf_gzip(standard ? Z_DEFAULT_COMPRESSION : level, in, in_len,
                       out, out_len);

    case KF_CODEC_SNAPPY:
        return kf_snap(in, in_len, out, out_len);

    case KF_CODEC_LZ4:
        return kf_lz4(standard ? 0 : level, in, in_len, out, out_len);

    case KF_CODEC_ZSTD:
        return kf_zstd(standard ? ZSTD_CLEVEL_DEFAULT : level, in, in_len,
                       out, out_len);
    }

    return KF_UNSUPPORTED;
}
