/*
 * Each refusal of a produced batch: a good batch with one thing changed.
 * Codes are Apache Kafka's (docs/COMPATIBILITY.md has the exceptions).
 */

#include "batch_lib.h"


static buf_t  records;


static void
refused(buf_t *b, const kf_batch_rules_t *r, kf_err_t error, int32_t index,
    const char *label)
{
    kf_batch_rules_t    plain = rules();
    kf_batch_verdict_t  v;

    v = judge(b->p, b->len, r ? r : &plain);

    if (!ok(v.error == error && v.record_index == index
            && (error == 0) == (v.message == NULL), "%s", label))
    {
        diag("got %d (%s) at %d, want %d at %d", v.error,
             v.message ? v.message : "", v.record_index, error, index);
    }
}


/* the good batch with a byte changed, with its CRC as it was or made anew */
static void
patched(size_t at, int byte, bool crc, kf_err_t error, const char *label)
{
    buf_t     b;
    head_t    h = head(0, 10);
    uint32_t  c;

    b = wrap(&h, records.p, records.len);
    b.p[at] = (uint8_t) byte;

    if (crc) {
        c = kf_crc32c(0, b.p + 21, b.len - 21);
        b.p[17] = (uint8_t) (c >> 24);
        b.p[18] = (uint8_t) (c >> 16);
        b.p[19] = (uint8_t) (c >> 8);
        b.p[20] = (uint8_t) c;
    }

    refused(&b, NULL, error, -1, label);
    free(b.p);
}


static void
headed(head_t h, kf_err_t error, int32_t index, const char *label)
{
    buf_t  b = wrap(&h, records.p, records.len);

    refused(&b, NULL, error, index, label);
    free(b.p);
}


static void
shape(void)
{
    buf_t               b, two = { 0 };
    head_t              h = head(0, 10);
    size_t              len;
    kf_batch_t          k;
    kf_batch_rules_t    r = rules();
    kf_batch_verdict_t  v;

    b = wrap(&h, records.p, records.len);
    refused(&b, NULL, KF_ERR_NONE, -1, "the good batch is taken");

    kf_batch_check(NULL, 0, &r, &k, &v);
    is(v.error, KF_ERR_INVALID_RECORD, "null records");

    for (len = 0; len < b.len; len++) {
        v = judge(b.p, len, &r);
        if (v.error != KF_ERR_INVALID_RECORD) {
            ok(0, "cut after %zu bytes: %d", len, v.error);
        }
    }
    ok(1, "a batch cut anywhere");

    put(&two, b.p, b.len);
    put(&two, b.p, b.len);
    refused(&two, NULL, KF_ERR_INVALID_RECORD, -1, "two batches");
    two.len = b.len + 1;
    refused(&two, NULL, KF_ERR_INVALID_RECORD, -1, "a byte after the batch");
    free(two.p);

    r.batch_bytes_max = (uint32_t) b.len;
    refused(&b, &r, KF_ERR_NONE, -1, "just the size that is allowed");
    r.batch_bytes_max--;
    refused(&b, &r, KF_ERR_MESSAGE_TOO_LARGE, -1, "a byte more");
    b.p[b.len - 1] ^= 1;
    refused(&b, &r, KF_ERR_MESSAGE_TOO_LARGE, -1, "size goes before CRC");
    free(b.p);

    patched(16, 0, false, KF_ERR_INVALID_RECORD, "magic 0");
    patched(16, 1, false, KF_ERR_INVALID_RECORD, "magic 1");
    patched(16, 3, false, KF_ERR_CORRUPT_MESSAGE, "magic 3");
    patched(16, 0x80, false, KF_ERR_CORRUPT_MESSAGE, "magic -128");
    patched(8, 0x80, false, KF_ERR_CORRUPT_MESSAGE, "a negative length");
    patched(8, 0x7f, false, KF_ERR_INVALID_RECORD, "a giant length");
    patched(17, 0x5a, false, KF_ERR_CORRUPT_MESSAGE, "another CRC");
    patched(100, 0xee, false, KF_ERR_CORRUPT_MESSAGE, "another byte");
    patched(60, 11, false, KF_ERR_CORRUPT_MESSAGE, "CRC goes before count");

    h = head(0, 10);
    h.base_offset = 1;
    headed(h, KF_ERR_INVALID_RECORD, -1, "a base offset");

    h = head(0, 10);
    h.count = 9;
    headed(h, KF_ERR_INVALID_RECORD, -1, "count 9, offsets 10");
    h.last_offset_delta = 8;
    headed(h, KF_ERR_INVALID_RECORD, -1, "count 9, records 10");
    headed(head(0, 11), KF_ERR_INVALID_RECORD, -1, "count 11, records 10");
    h.count = 0;
    h.last_offset_delta = -1;
    headed(h, KF_ERR_INVALID_RECORD, -1, "count 0");
    h.count = -10;
    h.last_offset_delta = -11;
    headed(h, KF_ERR_INVALID_RECORD, -1, "count -10");
    h.count = INT32_MIN;
    h.last_offset_delta = INT32_MAX;
    headed(h, KF_ERR_INVALID_RECORD, -1, "the least count");

    h = head(KF_ATTR_CONTROL, 10);
    headed(h, KF_ERR_INVALID_RECORD, -1, "a control batch");
    headed(head(5, 10), KF_ERR_INVALID_RECORD, -1, "codec 5");
    headed(head(7, 10), KF_ERR_INVALID_RECORD, -1, "codec 7");
    headed(head(1, 10), KF_ERR_INVALID_RECORD, -1, "no gzip after all");
    headed(head(2, 10), KF_ERR_INVALID_RECORD, -1, "no snappy after all");
    headed(head(3, 10), KF_ERR_INVALID_RECORD, -1, "no lz4 after all");
    headed(head(4, 10), KF_ERR_INVALID_RECORD, -1, "no zstd after all");

    h = head(0, 10);
    h.producer_id = 0;
    headed(h, KF_ERR_INVALID_RECORD, -1, "a producer without sequence");
    h.base_sequence = 0;
    h.producer_epoch = 0;
    headed(h, KF_ERR_NONE, -1, "a producer with one");
    h.attributes = KF_ATTR_TRANSACTIONAL;
    headed(h, KF_ERR_NONE, -1, "in a transaction");
}


static void
zstd_version(void)
{
    buf_t             b;
    head_t            h = head(KF_CODEC_ZSTD, 10);
    kf_batch_rules_t  r = rules();

    b = wrap_codec(&h, &records);
    refused(&b, &r, KF_ERR_NONE, -1, "zstd");
    r.zstd_refused = true;
    refused(&b, &r, KF_ERR_UNSUPPORTED_COMPRESSION_TYPE, -1,
            "zstd in an old Produce");
    free(b.p);
}


/* "error: records", of an area of records. */
static void
named(buf_t *area, int32_t count, const kf_batch_rules_t *r, const char *want,
    const char *label)
{
    int                 i;
    char                text[1024];
    buf_t               b;
    head_t              h = head(0, count);
    kf_batch_verdict_t  v;

    b = wrap(&h, area->p, area->len);
    v = judge(b.p, b.len, r);
    snprintf(text, sizeof(text), "%d:", v.error);

    for (i = 0; i < v.records_n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %d",
                 v.records[i]);
    }

    is_str(text, want, label);
    free(b.p);
    area->len = 0;
}


/* Each record that is not taken is named, so that the others may come anew. */
static void
several(buf_t *a, const kf_batch_rules_t *r)
{
    int                i;
    char               want[1024];
    kf_batch_rules_t   times = *r;

    for (i = 0; i < 7; i++) {
        put_record(a, 0, i, i % 3 == 1 ? NULL : "k", "v", 1, 0, NULL);
    }

    named(a, 7, r, "87: 1 4", "compacted: two without a key");

    for (i = 0; i < 200; i++) {
        put_record(a, 0, i, NULL, "v", 1, 0, NULL);
    }

    strcpy(want, "87:");

    for (i = 0; i < KF_VERDICT_RECORDS; i++) {
        snprintf(want + strlen(want), sizeof(want) - strlen(want), " %d", i);
    }

    named(a, 200, r, want, "compacted: as many as there is room for");

    times.check_timestamps = true;
    times.timestamp_min_ms = INT64_MIN;
    times.timestamp_max_ms = 1700000000000 + 100;

    put_record(a, 0, 0, "k", "v", 1, 0, NULL);
    put_record(a, 101, 1, "k", "v", 1, 0, NULL);
    put_record(a, 102, 2, "k", "v", 1, 0, NULL);
    named(a, 3, &times, "32: 1 2", "two timestamps");

    put_record(a, 101, 0, "k", "v", 1, 0, NULL);
    put_record(a, 0, 1, NULL, "v", 1, 0, NULL);
    named(a, 2, &times, "87: 0 1", "a timestamp and a key");

    put_record(a, 0, 0, NULL, "v", 1, 0, NULL);
    put_record(a, 0, 7, "k", "v", 1, 0, NULL);
    named(a, 2, r, "87: 1", "offsets that are wrong come before");

    put_record(a, 0, 0, NULL, "v", 1, 0, NULL);
    named(a, 2, r, "87:", "and a count, of which no record is to blame");
}


static void
one(buf_t *area, int32_t count, const kf_batch_rules_t *r, kf_err_t error,
    int32_t index, const char *label)
{
    int     codec;
    char    text[128];
    buf_t   b;
    head_t  h;

    static const char  *names[] = { "plain", "gzip", "snappy", "lz4", "zstd" };

    for (codec = 0; codec <= 4; codec++) {
        h = head(codec, count);
        b = wrap_codec(&h, area);
        snprintf(text, sizeof(text), "%s, %s", label, names[codec]);
        refused(&b, r, error, index, text);
        free(b.p);
    }

    area->len = 0;
}


static void
contents(void)
{
    buf_t             a = { 0 };
    kf_batch_rules_t  r = rules();

    static const char  *headers[] = { "a", "b", "c", NULL };

    put_record(&a, 0, 0, "k", "v", 1, 0, NULL);
    put_record(&a, 0, 2, "k", "v", 1, 0, NULL);
    one(&a, 2, NULL, KF_ERR_INVALID_RECORD, 1, "a gap in the offsets");

    put_record(&a, 0, -1, "k", "v", 1, 0, NULL);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "a negative offset");

    put_record(&a, 3600000, 0, "k", "v", 1, 0, NULL);
    put_record(&a, 3600001, 1, "k", "v", 1, 0, NULL);
    one(&a, 2, NULL, KF_ERR_INVALID_TIMESTAMP, 1, "too far in the future");

    put_record(&a, -T0, 0, "k", "v", 1, 0, NULL);
    put_record(&a, -T0 - 1, 1, "k", "v", 1, 0, NULL);
    one(&a, 2, NULL, KF_ERR_NONE, -1, "ancient, and none");

    r.timestamp_min_ms = T0 - 1000;
    put_record(&a, -T0 - 1, 0, "k", "v", 1, 0, NULL);
    put_record(&a, -1000, 1, "k", "v", 1, 0, NULL);
    put_record(&a, -1001, 2, "k", "v", 1, 0, NULL);
    one(&a, 3, &r, KF_ERR_INVALID_TIMESTAMP, 2, "too far in the past");

    put_record(&a, INT64_MAX, 0, "k", "v", 1, 0, NULL);
    one(&a, 1, &r, KF_ERR_INVALID_TIMESTAMP, 0, "a timestamp that wraps");

    r.check_timestamps = false;
    put_record(&a, 7200000, 0, "k", "v", 1, 0, NULL);
    one(&a, 1, &r, KF_ERR_NONE, -1, "the broker's time: any timestamp");

    r = rules();
    r.keys_required = true;
    put_record(&a, 0, 0, "", "v", 1, 0, NULL);
    put_record(&a, 0, 1, NULL, "v", 1, 0, NULL);
    one(&a, 2, &r, KF_ERR_INVALID_RECORD, 1, "compacted: no key");

    several(&a, &r);

    put_record(&a, 0, 0, "", NULL, 0, 2, headers);
    one(&a, 1, &r, KF_ERR_NONE, -1, "compacted: empty key, no value, headers");

    headers[0] = NULL;
    put_record(&a, 0, 0, "k", "v", 1, 1, headers);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "a header without a key");

    put_record(&a, 0, 0, "k", "v", 1, 0, NULL);
    a.p[0] += 2;
    put_int(&a, 0, 1);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "a byte after the headers");

    put_record(&a, 0, 0, "k", "v", 1, 0, NULL);
    put_int(&a, 0, 1);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 1, "a record of no bytes");

    put_record(&a, 0, 0, "k", "v", 1, 0, NULL);
    a.p[4] = 3;
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "a key length of -2");

    put_record(&a, 0, 0, "k", "value", 5, 0, NULL);
    put_record(&a, 0, 1, "k", "value", 5, 0, NULL);
    a.len -= 3;
    one(&a, 2, NULL, KF_ERR_INVALID_RECORD, -1, "the last record is cut");

    put(&a, "\xff\xff\xff\xff\xff\xff", 6);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "a length without end");

    put(&a, "\x0e\0\0\0\0\0\xfe\xff\xff\xff\x0f", 11);
    one(&a, 1, NULL, KF_ERR_INVALID_RECORD, 0, "two billion headers");

    free(a.p);
}


/* What the header says wrongly is put right, as Kafka does. */
static void
amend(void)
{
    buf_t               b;
    head_t              h = head(0, 10);
    kf_batch_t          k;
    kf_batch_rules_t    r = rules();
    kf_batch_verdict_t  v;

    b = wrap(&h, records.p, records.len);
    kf_batch_check(b.p, b.len, &r, &k, &v);
    kf_batch_walk(b.p, &k, &r, &v);
    is(v.max_timestamp_ms, T0 + 9, "the walk finds the greatest timestamp");
    ok(!kf_batch_amend(b.p, &k, &v), "which the header says: nothing to do");
    free(b.p);

    h.max_timestamp = INT64_MAX;
    h.attributes = 0x40 | 0x80;
    b = wrap(&h, records.p, records.len);
    kf_batch_check(b.p, b.len, &r, &k, &v);
    kf_batch_walk(b.p, &k, &r, &v);
    is(v.error, KF_ERR_NONE, "a wrong maximum and foreign bits are taken");
    ok(kf_batch_amend(b.p, &k, &v), "but not as they are");
    is(k.max_timestamp_ms, T0 + 9, "the view has the right maximum");
    kf_batch_check(b.p, b.len, &r, &k, &v);
    is(v.error, KF_ERR_NONE, "the result is a good batch");
    is(k.max_timestamp_ms, T0 + 9, "with the right maximum");
    is(k.attributes, 0, "and no foreign bits");
    free(b.p);

    /* the broker's timestamp type, which is not a client's to choose */

    h = head(KF_ATTR_LOG_APPEND_TIME, 10);
    h.max_timestamp = -1;
    headed(h, KF_ERR_INVALID_TIMESTAMP, 0, "append time, but none");
    h.max_timestamp = T0 + 3600001;
    headed(h, KF_ERR_INVALID_TIMESTAMP, 0, "append time, in the future");

    h.max_timestamp = T0 - 1;
    b = wrap(&h, records.p, records.len);
    r.check_timestamps = false;
    refused(&b, &r, KF_ERR_INVALID_TIMESTAMP, 0,
            "append time, where the broker sets it");
    r.check_timestamps = true;
    refused(&b, &r, KF_ERR_NONE, -1, "append time, in range");
    kf_batch_check(b.p, b.len, &r, &k, &v);
    kf_batch_walk(b.p, &k, &r, &v);
    ok(kf_batch_amend(b.p, &k, &v), "is stored as the record's own");
    kf_batch_check(b.p, b.len, &r, &k, &v);
    ok(v.error == KF_ERR_NONE && k.attributes == 0
       && k.max_timestamp_ms == T0 - 1, "with the time that it gave");
    free(b.p);
}


int
main(void)
{
    records = some_records(10, 20);

    shape();
    zstd_version();
    contents();
    amend();

    free(records.p);

    return done_testing();
}
