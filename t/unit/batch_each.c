/*
 * Iteration and validation of records over pieces: every codec, records of all
 * sizes, in particular those that the decompressor's pieces cut.
 */

#include "batch_lib.h"


static const char  *names[] = { "plain", "gzip", "snappy", "lz4", "zstd" };


typedef struct {
    int64_t  base;
    int32_t  n;
    int32_t  stop_at;                   /* 0: never */
    buf_t    again;                     /* the records encoded once more */
    bool     bad;
} seen_t;


static bool
visit(void *ctx, int64_t offset, int64_t ts, const kf_record_t *r)
{
    int             i;
    char           *text[2][2] = { { NULL } }, *key = NULL;
    seen_t         *s = ctx;
    kf_str_t        k;
    kf_bytes_t      v;
    const char     *headers[4];
    const uint8_t  *p;

    s->bad |= offset != s->base + s->n || ts != T0 + s->n
              || r->header_count > 2;
    s->n++;

    if (s->bad) {
        return true;
    }

    p = r->headers.data;
    for (i = 0; i < r->header_count && !s->bad; i++) {
        s->bad |= kf_header_next(&p, r->headers.data + r->headers.len, &k, &v)
                  != KF_OK;
        text[i][0] = strndup((const char *) k.data, k.len);
        text[i][1] = v.data ? strndup((const char *) v.data, v.len) : NULL;
        headers[2 * i] = text[i][0];
        headers[2 * i + 1] = text[i][1];
    }
    s->bad |= p != r->headers.data + r->headers.len;

    if (r->key.data) {
        key = strndup((const char *) r->key.data, r->key.len);
    }

    put_record(&s->again, r->timestamp_delta_ms, r->offset_delta, key,
               r->value.data, r->value.len, r->header_count, headers);

    free(key);
    for (i = 0; i < 2; i++) {
        free(text[i][0]);
        free(text[i][1]);
    }

    return s->n != s->stop_at;
}


static void
every_codec(int32_t count, size_t value_len)
{
    int                 codec;
    char                label[128];
    buf_t               records, b;
    head_t              h;
    seen_t              s;
    kf_batch_t          k;
    kf_batch_rules_t    r = rules();
    kf_batch_verdict_t  v;

    records = some_records(count, value_len);
    r.batch_bytes_max = UINT32_MAX;

    for (codec = 0; codec <= 4; codec++) {
        h = head(codec, count);
        b = wrap_codec(&h, &records);

        snprintf(label, sizeof(label), "%d records of about %zu bytes, %s",
                 count, value_len, names[codec]);
        v = judge(b.p, b.len, &r);
        is(v.error, KF_ERR_NONE, label);
        is(v.max_timestamp_ms, T0 + count - 1, "  their greatest timestamp");

        memset(&s, 0, sizeof(s));
        s.base = 1000;
        kf_batch_set_base_offset(b.p, 1000);
        kf_batch_header(b.p, b.len, &k);
        is(kf_batch_each(guarded(b.p, b.len), &k, r.output_bytes_max, visit,
                         &s),
           KF_OK, "  iterates");
        ok(!s.bad && s.n == count, "  each with its offset and timestamp");
        is_mem(s.again.p, s.again.len, records.p, records.len,
               "  and they are what was put in");
        s.again.len = 0;

        s.n = 0;
        s.stop_at = (count + 1) / 2;
        is(kf_batch_each(b.p, &k, r.output_bytes_max, visit, &s), KF_OK,
           "  a visitor may stop");
        is(s.n, s.stop_at, "  where it wants");

        s.n = s.stop_at = 0;
        if (records.len > 1) {
            is(kf_batch_each(b.p, &k, (int64_t) records.len - 1, visit, &s),
               KF_TOO_LARGE, "  more output than allowed");
        }

        s.n = 0;
        k.record_count = count + 1;
        is(kf_batch_each(b.p, &k, r.output_bytes_max, visit, &s), KF_MALFORMED,
           "  fewer records than the count");
        s.n = 0;
        k.record_count = count - 1;
        is(kf_batch_each(b.p, &k, r.output_bytes_max, visit, &s), KF_MALFORMED,
           "  more records than the count");

        free(s.again.p);
        free(b.p);
    }

    free(records.p);
}


static void
append_time(void)
{
    int32_t     n = 3;
    buf_t       records, b;
    head_t      h = head(0, n);
    seen_t      s = { 0 };
    kf_batch_t  k;

    records = some_records(n, 10);
    b = wrap(&h, records.p, records.len);
    kf_batch_set_append_time(b.p, T0);
    kf_batch_header(b.p, b.len, &k);
    s.stop_at = 1;
    kf_batch_each(b.p, &k, 1 << 20, visit, &s);
    ok(!s.bad, "with the broker's time");
    s.stop_at = 2;
    kf_batch_each(b.p, &k, 1 << 20, visit, &s);
    ok(s.bad, "no record has its own");
    free(s.again.p);
    free(b.p);
    free(records.p);
}


/* Damage in the decompressed area must never pass, nor read out of bounds. */
static void
damage(void)
{
    int                 codec, i, n, taken;
    buf_t               records, b;
    head_t              h;
    size_t              at;
    seen_t              s;
    kf_batch_t          k;
    kf_batch_rules_t    r = rules();
    kf_batch_verdict_t  v;

    for (codec = 0; codec <= 4; codec++) {
        taken = 0;
        for (i = 0; i < 300; i++) {
            records = some_records(20, 4000);
            for (n = 0; n < 3; n++) {
                at = rnd() % (i % 2 ? 100 : records.len);
                records.p[at] = (uint8_t) rnd();
            }
            h = head(codec, 20);
            b = wrap_codec(&h, &records);
            v = judge(b.p, b.len, &r);

            memset(&s, 0, sizeof(s));
            kf_batch_header(b.p, b.len, &k);
            taken += v.error == KF_ERR_NONE;
            if (v.error == KF_ERR_NONE
                && kf_batch_each(b.p, &k, 1 << 24, visit, &s) != KF_OK)
            {
                ok(0, "what the walk takes, iterates");
            }
            free(s.again.p);
            free(b.p);
            free(records.p);
        }
        ok(taken < 300, "damaged records, %s: %d of 300 only in their values",
           names[codec], taken);
    }
}


int
main(void)
{
    every_codec(1, 0);
    every_codec(10, 5);
    every_codec(3000, 30);
    every_codec(700, 997);
    every_codec(40, 70000);
    every_codec(3, 1500000);
    append_time();
    damage();

    return done_testing();
}
