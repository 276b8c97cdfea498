/*
 * For the tests of record batches: memory that ends at a guard page, and an
 * encoder of batches that shares no code with the codec's.
 */

#ifndef BATCH_LIB_H
#define BATCH_LIB_H

#include <sys/mman.h>
#include <unistd.h>

#include "../tap.h"
#include "../../codec/kf_batch.h"
#include "../../codec/kf_compress.h"
#include "../../codec/kf_crc32c.h"

#define T0  1700000000000               /* base timestamp of the batches */

/* A copy of data whose last byte is the last before an unreadable page. */
__attribute__((unused))
static uint8_t *
guarded(const void *data, size_t len)
{
    static size_t    area;
    static uint8_t  *map;

    size_t  page = (size_t) sysconf(_SC_PAGESIZE);

    if (map) {
        munmap(map, area);
    }

    area = (len / page + 2) * page;
    map = mmap(NULL, area, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED
        || mprotect(map + area - page, page, PROT_NONE) != 0)
    {
        abort();
    }

    memcpy(map + area - page - len, data, len);

    return map + area - page - len;
}


__attribute__((unused))
static uint64_t
rnd(void)
{
    static uint64_t  x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;

    return x;
}


typedef struct {
    uint8_t  *p;
    size_t    len;
    size_t    size;
} buf_t;


__attribute__((unused))
static void
put(buf_t *b, const void *data, size_t len)
{
    if (b->len + len > b->size) {
        b->size = (b->len + len) * 2;
        b->p = realloc(b->p, b->size);
        if (b->p == NULL) {
            abort();
        }
    }

    if (len) {
        memcpy(b->p + b->len, data, len);
    }

    b->len += len;
}


__attribute__((unused))
static void
put_int(buf_t *b, uint64_t v, int bytes)
{
    uint8_t  byte;

    while (bytes--) {
        byte = (uint8_t) (v >> bytes * 8);
        put(b, &byte, 1);
    }
}


/* zig-zag */
__attribute__((unused))
static void
put_var(buf_t *b, int64_t v)
{
    uint8_t   byte;
    uint64_t  u = v < 0 ? (uint64_t) -(v + 1) * 2 + 1 : (uint64_t) v * 2;

    do {
        byte = (uint8_t) (u % 128 + (u > 127 ? 128 : 0));
        put(b, &byte, 1);
        u /= 128;
    } while (u);
}


__attribute__((unused))
static void
put_text(buf_t *b, const char *s)
{
    put_var(b, s ? (int64_t) strlen(s) : -1);
    put(b, s ? s : "", s ? strlen(s) : 0);
}


/* headers: pairs of key and value, n of them */
__attribute__((unused))
static void
put_record(buf_t *b, int64_t ts_delta, int64_t offset_delta, const char *key,
    const void *value, size_t value_len, int n, const char **headers)
{
    int    i;
    buf_t  r = { 0 };

    put_int(&r, 0, 1);
    put_var(&r, ts_delta);
    put_var(&r, offset_delta);
    put_text(&r, key);
    put_var(&r, value ? (int64_t) value_len : -1);
    put(&r, value ? value : "", value ? value_len : 0);
    put_var(&r, n);
    for (i = 0; i < n; i++) {
        put_text(&r, headers[2 * i]);
        put_text(&r, headers[2 * i + 1]);
    }

    put_var(b, (int64_t) r.len);
    put(b, r.p, r.len);
    free(r.p);
}


/* What a batch's header says; zero stands for what an ordinary one says. */
typedef struct {
    int64_t   base_offset;
    int       magic;
    int       attributes;
    int32_t   last_offset_delta;
    int32_t   count;
    int64_t   max_timestamp;
    int64_t   producer_id;
    int       producer_epoch;
    int32_t   base_sequence;
} head_t;


/* A whole batch around an area of records that is already compressed. */
__attribute__((unused))
static buf_t
wrap(const head_t *h, const uint8_t *area, size_t len)
{
    buf_t     b = { 0 };
    uint32_t  crc;

    put_int(&b, (uint64_t) h->base_offset, 8);
    put_int(&b, len + 49, 4);
    put_int(&b, 0, 4);
    put_int(&b, (uint64_t) h->magic, 1);
    put_int(&b, 0, 4);
    put_int(&b, (uint64_t) h->attributes, 2);
    put_int(&b, (uint64_t) h->last_offset_delta, 4);
    put_int(&b, T0, 8);
    put_int(&b, (uint64_t) h->max_timestamp, 8);
    put_int(&b, (uint64_t) h->producer_id, 8);
    put_int(&b, (uint64_t) h->producer_epoch, 2);
    put_int(&b, (uint64_t) h->base_sequence, 4);
    put_int(&b, (uint64_t) h->count, 4);
    put(&b, area, len);

    crc = kf_crc32c_portable(0, b.p + 21, b.len - 21);
    b.p[17] = (uint8_t) (crc >> 24);
    b.p[18] = (uint8_t) (crc >> 16);
    b.p[19] = (uint8_t) (crc >> 8);
    b.p[20] = (uint8_t) crc;

    return b;
}


__attribute__((unused))
static head_t
head(int codec, int32_t count)
{
    head_t  h = { 0 };

    h.magic = 2;
    h.attributes = codec;
    h.last_offset_delta = count - 1;
    h.count = count;
    h.max_timestamp = T0 + count - 1;
    h.producer_id = -1;
    h.producer_epoch = -1;
    h.base_sequence = -1;

    return h;
}


__attribute__((unused))
static buf_t
wrap_codec(const head_t *h, const buf_t *records)
{
    buf_t     b;
    size_t    len;
    uint8_t  *area;

    if (kf_compress(h->attributes & 7, KF_LEVEL_DEFAULT, records->p,
                    records->len, &area, &len) != KF_OK)
    {
        abort();
    }

    b = wrap(h, area, len);
    free(area);

    return b;
}


/* count records: a key, a value of about value_len bytes, some headers */
__attribute__((unused))
static buf_t
some_records(int32_t count, size_t value_len)
{
    char      key[32];
    buf_t     b = { 0 };
    size_t    len, i;
    int32_t   n;
    uint8_t  *value = malloc(value_len * 2 + 1);

    static const char  *headers[] = { "trace", "0123", "empty", NULL };

    for (n = 0; n < count; n++) {
        snprintf(key, sizeof(key), "key-%d", n);
        len = value_len ? rnd() % (value_len * 2) : 0;
        for (i = 0; i < len; i++) {
            value[i] = (uint8_t) (rnd() & 0x1f);
        }
        put_record(&b, n, n, n % 5 == 4 ? NULL : key, n % 7 == 6 ? NULL : value,
                   len, n % 3, headers);
    }

    free(value);

    return b;
}


__attribute__((unused))
static kf_batch_rules_t
rules(void)
{
    kf_batch_rules_t  r = { 0 };

    r.batch_bytes_max = 1 << 20;
    r.output_bytes_max = 64 << 20;
    r.timestamp_min_ms = INT64_MIN;
    r.timestamp_max_ms = T0 + 3600000;
    r.check_timestamps = true;

    return r;
}


/* check, and when that takes it, walk; each on a copy at a guard page */
__attribute__((unused))
static kf_batch_verdict_t
judge(const uint8_t *data, size_t len, const kf_batch_rules_t *r)
{
    uint8_t             *p = guarded(data, len);
    kf_batch_t           b;
    kf_batch_verdict_t   v;

    kf_batch_check(p, len, r, &b, &v);

    if (v.error == KF_ERR_NONE) {
        kf_batch_walk(p, &b, r, &v);
    }

    return v;
}

#endif
