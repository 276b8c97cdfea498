/*
 * Re-compression of a batch, for topics whose compression.type is not
 * "producer".
 */

#ifndef KF_CONVERT_H
#define KF_CONVERT_H

#include "kf_batch.h"

#pragma GCC visibility push(hidden)


/*
 * Makes the batch at data (already checked and walked) anew with another codec:
 * the same records and header, new attributes, length and CRC.  *out is
 * malloc'ed and the caller's; *b describes it.  level: the codec's own or
 * KF_LEVEL_DEFAULT.  Slow: a thread's work.  KF_TOO_LARGE above
 * output_bytes_max of plain records.
 */
kf_rc_t kf_batch_convert(const uint8_t *data, kf_batch_t *b, kf_codec_t codec,
    int32_t level, int64_t output_bytes_max, uint8_t **out);


#pragma GCC visibility pop

#endif
