/*
 * Re-compression of a batch.  The plain records are assembled in memory,
 * bounded by the caller, and compressed at once.
 */

#include <stdlib.h>

#include "kf_be.h"
#include "kf_compress.h"
#include "kf_convert.h"
#include "kf_crc32c.h"


typedef struct {
    uint8_t  *data;
    size_t    len;
    size_t    size;
    bool      failed;
} kf_plain_t;


static bool kf_plain_add(void *ctx, const uint8_t *data, size_t len);


kf_rc_t
kf_batch_convert(const uint8_t *data, kf_batch_t *b, kf_codec_t codec,
    int32_t level, int64_t output_bytes_max, uint8_t **out)
{
    size_t          len, packed_len, records_len;
    kf_rc_t         rc;
    uint8_t        *packed, *batch;
    kf_plain_t      plain;
    const uint8_t  *records;

    plain = (kf_plain_t) { NULL, 0, 0, false };
    packed = NULL;

    records = data + KF_BATCH_HEADER;
    records_len = b->size - KF_BATCH_HEADER;

    if (kf_batch_codec(b) != KF_CODEC_NONE) {
        rc = kf_decompress(kf_batch_codec(b), records, records_len,
                           output_bytes_max, kf_plain_add, &plain);

        if (rc == KF_OK && plain.failed) {
            rc = KF_NO_MEMORY;
        }

        if (rc != KF_OK) {
            free(plain.data);
            return rc;
        }

        records = plain.data;
        records_len = plain.len;
    }

    if (codec != KF_CODEC_NONE) {
        rc = kf_compress(codec, level, records, records_len, &packed,
                         &packed_len);
        if (rc != KF_OK) {
            free(plain.data);
            return rc;
        }

        records = packed;
        records_len = packed_len;
    }

    len = KF_BATCH_HEADER + records_len;

    if (len > INT32_MAX) {
        free(plain.data);
        free(packed);
        return KF_TOO_LARGE;
    }

    batch = malloc(len);

    if (batch == NULL) {
        free(plain.data);
        free(packed);
        return KF_NO_MEMORY;
    }

    memcpy(batch, data, KF_BATCH_HEADER);

    if (records_len) {
        memcpy(batch + KF_BATCH_HEADER, records, records_len);
    }

    free(plain.data);
    free(packed);

    b->size = (uint32_t) len;
    b->attributes = (int16_t) ((b->attributes & ~KF_ATTR_CODEC) | codec);

    kf_put_be32(batch + 8, (uint32_t) (len - KF_BATCH_OVERHEAD));
    kf_put_be16(batch + 21, (uint16_t) b->attributes);

    b->crc = kf_crc32c(0, batch + 21, len - 21);
    kf_put_be32(batch + 17, b->crc);

    *out = batch;

    return KF_OK;
}


static bool
kf_plain_add(void *ctx, const uint8_t *data, size_t len)
{
    size_t       size;
    uint8_t     *p;
    kf_plain_t  *plain = ctx;

    if (len == 0) {
        return true;
    }

    if (plain->size - plain->len < len) {
        size = plain->size ? plain->size * 2 : 65536;

        while (size - plain->len < len) {
            size *= 2;
        }

        p = realloc(plain->data, size);

        if (p == NULL) {
            plain->failed = true;
            return false;
        }

        plain->data = p;
        plain->size = size;
    }

    memcpy(plain->data + plain->len, data, len);
    plain->len += len;

    return true;
}
