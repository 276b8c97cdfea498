/*
 * Batches of other implementations: segments of Apache Kafka 4.4.0 that hold
 * what Java's and librdkafka's producers sent, with each codec
 * (t/data/batches, 40 records "key-N": "value N of forty, …" in each).
 */

#include "batch_lib.h"


static bool
visit(void *ctx, int64_t offset, int64_t ts, const kf_record_t *r)
{
    int   *n = ctx;
    char   key[64], value[64];

    snprintf(key, sizeof(key), "key-%d", *n);
    snprintf(value, sizeof(value), "value %d of forty, the quick brown fox",
             *n);

    if (offset != *n || ts < T0
        || r->key.len != strlen(key) || memcmp(r->key.data, key, r->key.len)
        || r->value.len != strlen(value)
        || memcmp(r->value.data, value, r->value.len))
    {
        return false;
    }

    ++*n;
    return true;
}


static void
segment(const char *client, const char *codec)
{
    int                  n = 0;
    bool                 sound = true;
    char                 path[128];
    FILE                *f;
    size_t               len, at;
    uint8_t             *p, data[4096];
    kf_batch_t           b;
    kf_batch_rules_t     r = rules();
    kf_batch_verdict_t   v;

    snprintf(path, sizeof(path), "t/data/batches/%s-%s.log", client, codec);
    f = fopen(path, "rb");
    if (!ok(f != NULL, "%s", path)) {
        return;
    }

    len = fread(data, 1, sizeof(data), f);
    fclose(f);
    r.check_timestamps = false;

    for (at = 0; at < len && sound; at += b.size) {
        p = guarded(data + at, len - at);
        sound = kf_batch_header(p, len - at, &b) == KF_OK
                && b.size <= len - at && kf_batch_crc_ok(p, &b);
        if (sound) {
            p = guarded(data + at, b.size);
            kf_batch_walk(p, &b, &r, &v);
            sound = v.error == KF_ERR_NONE
                    && v.max_timestamp_ms == b.max_timestamp_ms
                    && kf_batch_each(p, &b, 1 << 20, visit, &n) == KF_OK;
        }
    }

    ok(sound, "  every batch is sound");
    is(n, 40, "  and the records are those sent");
}


int
main(void)
{
    int  i;

    static const char  *codecs[] = { "gzip", "snappy", "lz4", "zstd" };

    for (i = 0; i < 4; i++) {
        segment("java", codecs[i]);
        segment("rdkafka", codecs[i]);
    }

    return done_testing();
}
