/*
 * Any bytes as a produced records field: check, walk and iterate.
 *
 * The first byte chooses: 0-4 the records area (compressed with that codec)
 * of a batch whose header is made to fit, so that the fuzzer need not find a
 * CRC; anything else a records field as it is.  What the walk takes must
 * iterate, record by record, to the same count.
 */

#include <stdlib.h>

#include "../../codec/kf_batch.h"
#include "../../codec/kf_compress.h"
#include "../../codec/kf_crc32c.h"

#define OUTPUT_MAX  (4 << 20)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


typedef struct {
    int32_t   n;
    int64_t   bytes;
    int64_t   max_ms;
} count_t;


static bool
visit(void *ctx, int64_t offset, int64_t timestamp_ms, const kf_record_t *r)
{
    int             i;
    count_t        *c = ctx;
    kf_str_t        key;
    kf_bytes_t      value;
    const uint8_t  *p;

    if (offset != c->n) {
        abort();
    }

    c->n++;
    c->bytes += r->key.len + (int64_t) r->value.len;
    c->max_ms = timestamp_ms > c->max_ms ? timestamp_ms : c->max_ms;

    p = r->headers.data;

    for (i = 0; i < r->header_count; i++) {
        if (kf_header_next(&p, r->headers.data + r->headers.len, &key, &value)
            != KF_OK)
        {
            abort();
        }
    }

    return true;
}


static void
put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 24);
    p[1] = (uint8_t) (v >> 16);
    p[2] = (uint8_t) (v >> 8);
    p[3] = (uint8_t) v;
}


/* 1 byte codec, 2 bytes record count, then the area */
static uint8_t *
fitted(const uint8_t *data, size_t size, size_t *len)
{
    uint8_t   *p;
    uint32_t   count;

    p = calloc(1, KF_BATCH_HEADER + size - 3);

    if (p == NULL) {
        return NULL;
    }

    *len = KF_BATCH_HEADER + size - 3;
    count = (uint32_t) data[1] << 8 | data[2];

    put32(p + 8, (uint32_t) (*len - KF_BATCH_OVERHEAD));
    p[16] = 2;
    p[22] = data[0];
    put32(p + 23, count - 1);
    memset(p + 43, 0xff, 14);
    put32(p + 57, count);
    memcpy(p + KF_BATCH_HEADER, data + 3, size - 3);
    put32(p + 17, kf_crc32c(0, p + 21, *len - 21));

    return p;
}


static void
judge(uint8_t *data, size_t len)
{
    bool                 commit;
    int32_t              epoch;
    count_t              count;
    kf_batch_t           b;
    kf_batch_rules_t     rules;
    kf_batch_verdict_t   v;

    memset(&rules, 0, sizeof(rules));
    rules.batch_bytes_max = 1 << 20;
    rules.output_bytes_max = OUTPUT_MAX;
    rules.timestamp_min_ms = INT64_MIN;
    rules.timestamp_max_ms = INT64_MAX;
    rules.check_timestamps = true;

    kf_batch_check(data, len, &rules, &b, &v);

    if (v.error != KF_ERR_NONE) {
        return;
    }

    kf_batch_walk(data, &b, &rules, &v);

    memset(&count, 0, sizeof(count));
    count.max_ms = -1;

    if (v.error != KF_ERR_NONE) {
        return;
    }

    if (kf_batch_each(data, &b, OUTPUT_MAX, visit, &count) != KF_OK
        || count.n != b.record_count || count.bytes > OUTPUT_MAX
        || ((b.attributes & KF_ATTR_LOG_APPEND_TIME) == 0
            && count.max_ms != v.max_timestamp_ms))
    {
        abort();
    }

    (void) kf_batch_control_read(data, &b, &commit, &epoch);

    if (kf_batch_amend(data, &b, &v)) {
        kf_batch_check(data, len, &rules, &b, &v);

        if (v.error != KF_ERR_NONE) {
            abort();
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t    len;
    uint8_t  *p;

    if (size >= 3 && data[0] <= KF_CODEC_ZSTD) {
        p = fitted(data, size, &len);

    } else {
        len = size ? size - 1 : 0;
        p = malloc(len ? len : 1);

        if (p && len) {
            memcpy(p, data + 1, len);
        }
    }

    if (p) {
        judge(p, len);
        free(p);
    }

    return 0;
}
