/*
 * The four codecs of Kafka's record batches: gzip (RFC 1952), snappy (xerial
 * framing and raw), lz4 frame, zstd.  Decoding is a stream with bounded memory
 * and bounded output; a codec's library does the work.
 */

#ifndef KF_COMPRESS_H
#define KF_COMPRESS_H

#include "kf_batch.h"

#pragma GCC visibility push(hidden)


/*
 * Called with each piece of output in order; returns false to stop (then
 * kf_decompress answers KF_OK).  The piece is valid during the call only.
 */
typedef bool (*kf_sink_pt)(void *ctx, const uint8_t *data, size_t len);

/*
 * Memory: at most 256 KiB plus what the codec's window needs (zstd windows are
 * bounded to 8 MiB); raw snappy needs its whole output at once and is refused
 * above output_max.  KF_MALFORMED, KF_TOO_LARGE (more than output_max bytes),
 * KF_UNSUPPORTED (no such codec), KF_NO_MEMORY.
 */
kf_rc_t kf_decompress(kf_codec_t codec, const uint8_t *in, size_t in_len,
    int64_t output_max, kf_sink_pt sink, void *ctx);

/*
 * Compresses in to a malloc'ed buffer that the caller frees.  level: the
 * codec's own, KF_LEVEL_DEFAULT for its default.
 */
#define KF_LEVEL_DEFAULT  INT32_MIN

kf_rc_t kf_compress(kf_codec_t codec, int32_t level, const uint8_t *in,
    size_t in_len, uint8_t **out, size_t *out_len);


#pragma GCC visibility pop

#endif
