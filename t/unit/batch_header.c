/* The batch header, patches in place, markers and the builder. */

#include "batch_lib.h"


static void
header(void)
{
    head_t      h = head(KF_CODEC_ZSTD, 1);
    buf_t       b;
    size_t      len;
    uint8_t    *p;
    kf_batch_t  k;

    h.base_offset = 0x1122334455667788;
    h.attributes |= KF_ATTR_TRANSACTIONAL;
    h.producer_id = 4000000000007;
    h.producer_epoch = 258;
    h.base_sequence = 0x7fffffff;
    b = wrap(&h, (const uint8_t *) "x", 1);

    for (len = 0; len < KF_BATCH_HEADER; len++) {
        if (kf_batch_header(guarded(b.p, len), len, &k) != KF_MALFORMED) {
            ok(0, "a header of %zu bytes", len);
        }
    }
    ok(1, "a header that is cut is malformed");

    p = guarded(b.p, KF_BATCH_HEADER);
    is(kf_batch_header(p, KF_BATCH_HEADER, &k), KF_OK, "a header alone reads");
    is(k.base_offset, h.base_offset, "base offset");
    is(k.size, 62, "size counts the whole batch");
    is(k.attributes, 0x14, "attributes");
    is(kf_batch_codec(&k), KF_CODEC_ZSTD, "codec");
    is(k.base_timestamp_ms, T0, "base timestamp");
    is(k.max_timestamp_ms, T0, "max timestamp");
    is(k.producer_id, h.producer_id, "producer id");
    is(k.producer_epoch, 258, "producer epoch");
    is(k.base_sequence, 0x7fffffff, "base sequence");
    is(k.record_count, 1, "record count");

    ok(kf_batch_crc_ok(b.p, &k), "its CRC is right");
    kf_batch_set_base_offset(b.p, 77);
    kf_batch_set_leader_epoch(b.p, 5);
    kf_batch_header(b.p, b.len, &k);
    is(k.base_offset, 77, "base offset set");
    is(k.leader_epoch, 5, "leader epoch set");
    ok(kf_batch_crc_ok(b.p, &k), "which leaves the CRC right");

    kf_batch_set_append_time(b.p, T0 + 5);
    kf_batch_header(b.p, b.len, &k);
    ok(kf_batch_crc_ok(b.p, &k), "the append time makes the CRC anew");
    is(k.attributes, 0x1c, "and sets the timestamp type");
    is(k.max_timestamp_ms, T0 + 5, "and the time");

    b.p[16] = 1;
    is(kf_batch_header(b.p, b.len, &k), KF_MALFORMED, "magic 1");
    is(k.magic, 1, "is told");
    b.p[16] = 2;
    b.p[8] = 0x80;
    is(kf_batch_header(b.p, b.len, &k), KF_MALFORMED, "a negative length");
    memcpy(b.p + 8, "\x7f\xff\xff\xff", 4);
    is(kf_batch_header(b.p, b.len, &k), KF_MALFORMED, "a length past i32");
    memcpy(b.p + 8, "\0\0\0\x30", 4);
    is(kf_batch_header(b.p, b.len, &k), KF_MALFORMED, "a length of 48");
    free(b.p);
}


static void
control(void)
{
    bool        commit;
    int32_t     epoch;
    uint8_t    *p, out[KF_CONTROL_BATCH];
    kf_batch_t  k;

    static const uint8_t  want[] = {
        0x20, 0, 0, 0, 0x08, 0, 0, 0, 1, 0x0c, 0, 0, 0, 0, 0, 0, 0
    };

    kf_batch_control(out, 9, 3, 1000, 2, true, 0, T0);
    is_mem(out + 61, 17, want, 17, "a commit marker's record, as Kafka's");
    p = guarded(out, sizeof(out));
    is(kf_batch_header(p, sizeof(out), &k), KF_OK, "its header reads");
    ok(kf_batch_crc_ok(p, &k), "its CRC is right");
    is(k.size, KF_CONTROL_BATCH, "78 bytes");
    is(k.attributes, 0x30, "attributes");
    is(k.base_offset, 9, "base offset");
    is(k.leader_epoch, 3, "leader epoch");
    is(k.producer_id, 1000, "producer id");
    is(k.producer_epoch, 2, "producer epoch");
    is(k.base_sequence, -1, "no sequence");
    is(k.last_offset_delta, 0, "one offset");
    is(kf_batch_control_read(p, &k, &commit, &epoch), KF_OK, "reads");
    ok(commit && epoch == 0, "as a commit of epoch 0");

    kf_batch_control(out, 9, 3, 1000, 2, false, 70000, T0);
    kf_batch_header(out, sizeof(out), &k);
    is(kf_batch_control_read(out, &k, &commit, &epoch), KF_OK, "an abort");
    ok(!commit && epoch == 70000, "of epoch 70000");

    out[69] = 2;
    is(kf_batch_control_read(out, &k, &commit, &epoch), KF_MALFORMED,
       "another type of control record is none");
    k.attributes = KF_ATTR_TRANSACTIONAL;
    is(kf_batch_control_read(out, &k, &commit, &epoch), KF_MALFORMED,
       "nor is an ordinary batch");
}


static bool
count(void *ctx, int64_t offset, int64_t ts, const kf_record_t *r)
{
    int  *n = ctx;

    *n += offset == *n && ts == T0
          && (*n % 2 ? kf_str_is_null(r->key) && r->value.len == 200
                     : r->key.len == 3 && kf_str_is_null(r->value));
    return true;
}


static void
builder(void)
{
    int                  n, seen;
    size_t               size;
    uint8_t             *buf, *room, value[200];
    kf_batch_t           k;
    kf_batch_rules_t     r = rules();
    kf_batch_verdict_t   v;
    kf_batch_builder_t   bb;

    memset(value, 'v', sizeof(value));
    room = calloc(1, 8000);
    buf = guarded(room, 8000);

    kf_batch_begin(&bb, buf, 8000, T0);
    is(kf_batch_end(&bb), 0, "no record, no batch");

    for (n = 0; ; n++) {
        if (n % 2 ? kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, 200 })
                  : kf_batch_add(&bb, kf_str("key"), kf_null_str))
        {
            break;
        }
    }

    ok(n > 60, "records until it is full");
    is(kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, UINT32_MAX }),
       KF_TOO_LARGE, "a giant is too large");
    size = kf_batch_end(&bb);
    ok(size > 7700 && size <= 8000, "the size of the batch");

    memcpy(room, buf, size);
    v = judge(room, size, &r);
    free(room);
    is(v.error, KF_ERR_NONE, "a broker would take it");

    buf = guarded(value, 200);
    buf += 200;
    for (n = 0; n < 100; n++) {
        kf_batch_begin(&bb, buf - n, (size_t) n, T0);
        if (kf_batch_add(&bb, kf_str("k"), kf_str("v")) == KF_OK) {
            break;
        }
    }
    is(n, 61 + 9, "the least buffer for one record");
    is(kf_batch_end(&bb), 70, "is used up");

    buf = malloc(1 << 16);
    kf_batch_begin(&bb, buf, 1 << 16, T0);
    for (n = 0; n < 300; n++) {
        n % 2 ? kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, 200 })
              : kf_batch_add(&bb, kf_str("key"), kf_null_str);
    }
    size = kf_batch_end(&bb);
    kf_batch_header(buf, size, &k);
    seen = 0;
    is(kf_batch_each(buf, &k, 1 << 20, count, &seen), KF_OK, "iterates");
    is(seen, 300, "all that was added");
    free(buf);
}


int
main(void)
{
    header();
    control();
    builder();

    return done_testing();
}
