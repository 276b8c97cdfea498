/*
 * CRC-32C (Castagnoli), as record batches use it.  The processor's instruction
 * where there is one (SSE 4.2, ARMv8 CRC), three streams at a time for long
 * inputs; tables elsewhere.
 */

#ifndef KF_CRC32C_H
#define KF_CRC32C_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


/* crc: 0 to begin, or the result so far. */
uint32_t kf_crc32c(uint32_t crc, const void *data, size_t len);

/* The portable path, for tests and other processors. */
uint32_t kf_crc32c_portable(uint32_t crc, const void *data, size_t len);


#pragma GCC visibility pop

#endif
