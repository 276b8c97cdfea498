/*
 * Look-ups by timestamp against a naive model: out of order timestamps,
 * several records to a batch, compressed batches, small segments, a start that
 * moved.
 */

#include "log_lib.h"
#include "../../codec/kf_compress.h"

#define RECORDS_MAX  4000

static int64_t   stamps[RECORDS_MAX];
static int       records_n;
static uint64_t  seed;

static batch_t   x;


static int
rnd(int n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;

    return (int) ((seed >> 33) % (uint32_t) n);
}


static size_t
put_varint(uint8_t *p, int64_t v)
{
    size_t    n = 0;
    uint64_t  z = ((uint64_t) v << 1) ^ (uint64_t) (v >> 63);

    while (z >= 128) {
        p[n++] = (uint8_t) (z | 128);
        z >>= 7;
    }

    p[n++] = (uint8_t) z;

    return n;
}


/* A batch whose records have the given timestamps. */
static void
make(const int64_t *ts, int n, kf_codec_t codec)
{
    int       i;
    size_t    len = 0, body;
    int64_t   max = -1;
    uint8_t   area[8192], rec[256], *packed;
    size_t    packed_len;

    for (i = 0; i < n; i++) {
        body = 0;
        rec[body++] = 0;
        body += put_varint(rec + body, ts[i] - ts[0]);
        body += put_varint(rec + body, i);
        body += put_varint(rec + body, -1);
        body += put_varint(rec + body, 60);
        memset(rec + body, 'v', 60);
        body += 60;
        body += put_varint(rec + body, 0);

        len += put_varint(area + len, (int64_t) body);
        memcpy(area + len, rec, body);
        len += body;

        max = ts[i] > max ? ts[i] : max;
    }

    memset(x.data, 0, 61);

    if (codec == KF_CODEC_NONE) {
        memcpy(x.data + 61, area, len);
    } else {
        kf_compress(codec, KF_LEVEL_DEFAULT, area, len, &packed, &packed_len);
        memcpy(x.data + 61, packed, packed_len);
        free(packed);
        len = packed_len;
    }

    x.len = 61 + len;
    put_be(x.data + 8, x.len - 12, 4);
    x.data[16] = 2;
    put_be(x.data + 23, (uint64_t) (n - 1), 4);
    put_be(x.data + 27, (uint64_t) ts[0], 8);
    put_be(x.data + 35, (uint64_t) max, 8);
    put_be(x.data + 57, (uint64_t) n, 4);

    batch_producer(&x, -1, -1, -1, (int16_t) codec);
}


static int
same(int64_t ts, int64_t upto)
{
    int      i;
    int32_t  epoch;
    int64_t  offset, found, want = -1, start = offsets(plog).log_start;

    for (i = (int) start; i < records_n && i < upto; i++) {
        if (stamps[i] >= ts) {
            want = i;
            break;
        }
    }

    if (kl_offset_for_time(plog, ts, upto, &offset, &found, &epoch) != KL_OK) {
        return 0;
    }

    if (offset != want || (want >= 0 && (found != stamps[want] || epoch != 0))
        || (want < 0 && (found != -1 || epoch != -1)))
    {
        diag("ts %d upto %d: got %d want %d", (int) ts, (int) upto,
             (int) offset, (int) want);
        return 0;
    }

    return 1;
}


static int
same_max(int64_t upto)
{
    int      i;
    int32_t  epoch;
    int64_t  offset, found, want = -1, start = offsets(plog).log_start;

    for (i = (int) start; i < records_n && i < upto; i++) {
        if (stamps[i] >= 0 && (want < 0 || stamps[i] > stamps[want])) {
            want = i;
        }
    }

    if (kl_max_timestamp(plog, upto, &offset, &found, &epoch) != KL_OK) {
        return 0;
    }

    if (offset != want || (want >= 0 && found != stamps[want])) {
        diag("max upto %d: got %d want %d", (int) upto, (int) offset,
             (int) want);
        return 0;
    }

    return 1;
}


static void
test_model(uint64_t s, int64_t segment, int64_t interval, int spread)
{
    int          i, k, n, right = 1, max_right = 1, bad = 0;
    bool         truncated;
    int64_t      ts[20], start;
    kl_append_t  res;

    seed = s;
    records_n = 0;
    config.segment_bytes = segment;
    config.index_interval_bytes = interval;
    data_make();
    broker_start(2, 4);

    for (i = 0; i < 300; i++) {
        n = 1 + (int) rnd(8);

        for (k = 0; k < n; k++) {
            ts[k] = rnd(30) ? 10000 + i * 10 + rnd(spread) : -1;
            stamps[records_n + k] = ts[k];
        }

        make(ts, n, (kf_codec_t) rnd(5));
        bad += append(plog, &x, &res) != KL_OK;
        records_n += n;

        right &= same(10000 + rnd(i * 12 + 1000),
                      rnd(4) ? records_n : rnd(records_n));
        max_right &= same_max(rnd(4) ? records_n : rnd(records_n));
    }

    is(bad, 0, "all appended");
    ok(right, "the first record from a time on, while it grows");
    ok(max_right, "the greatest timestamp, while it grows");

    for (k = 0; k < 3; k++) {

        if (k == 1) {
            kl_delete_records(plog, records_n / 3, &start);
        }

        if (k == 2) {
            kl_checkpoint(plog, true);
            broker_end(2, 4);
            broker_start(2, 4);
            bad = kl_recover(plog, 0, &config, &truncated);
            is(bad, KL_OK, "restart");
        }

        right = max_right = 1;

        for (i = 0; i < 400; i++) {
            right &= same(9000 + rnd(6000), rnd(4) ? records_n
                                           : rnd(records_n));
            max_right &= same_max(rnd(4) ? records_n
                                         : rnd(records_n));
        }

        ok(right, "the first record from a time on (%d)", k);
        ok(max_right, "the greatest timestamp (%d)", k);
    }

    ok(same(INT64_MAX, records_n), "none so late");
    ok(same(0, records_n), "the first of all");

    broker_end(2, 4);
    data_remove(data_dir);
}


int
main(void)
{
    test_model(1, 4000, 300, 1);
    test_model(2, 4000, 300, 2000);
    test_model(3, 1 << 30, 4096, 500);
    test_model(4, 1 << 30, 1, 5000);
    test_model(5, 9000, 1000, 50);

    return done_testing();
}
