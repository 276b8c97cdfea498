/*
 * Judges a batch that a client produced (codes: Apache Kafka's), and iterates
 * the records of a batch that is trusted as far as its header and CRC go.
 *
 * Both take the records area in pieces, as decompression delivers it.
 */

#include <stdlib.h>

#include "kf_batch.h"
#include "kf_be.h"
#include "kf_compress.h"
#include "kf_record.h"


#define KF_CODEC_LAST  KF_CODEC_ZSTD

#define kf_max(a, b)   ((a) > (b) ? (a) : (b))
#define kf_min(a, b)   ((a) < (b) ? (a) : (b))


static void
kf_batch_refuse(kf_batch_verdict_t *v, kf_err_t error, int32_t index,
    const char *message)
{
    v->error = (int16_t) error;
    v->message = message;
    v->record_index = index;
    v->records_n = index >= 0;
    v->records[0] = index;
}


/* A record that is well formed but not taken: those after it are judged as
 * well. */
static void
kf_batch_refuse_record(kf_batch_verdict_t *v, kf_err_t error, int32_t index,
    const char *message)
{
    if (v->error == KF_ERR_NONE) {
        kf_batch_refuse(v, error, index, message);
        return;
    }

    if (v->error != (int16_t) error) {
        v->error = KF_ERR_INVALID_RECORD;
    }

    if (v->records_n < KF_VERDICT_RECORDS) {
        v->records[v->records_n++] = index;
    }
}


static inline int64_t
kf_batch_time(const kf_batch_t *b, int64_t delta)
{
    return (int64_t) ((uint64_t) b->base_timestamp_ms + (uint64_t) delta);
}


/*
 * The order is Kafka's: what the request's decoder sees, then the log.  Lengths
 * that no batch can have are corruption; a batch that only ends too early is an
 * invalid record, since whole batches are all that a request may hold.
 */
void
kf_batch_check(const uint8_t *data, size_t len, const kf_batch_rules_t *rules,
    kf_batch_t *b, kf_batch_verdict_t *v)
{
    int32_t  batch_len;
    kf_rc_t  rc;

    kf_batch_refuse(v, KF_ERR_NONE, -1, NULL);
    v->max_timestamp_ms = -1;

    if (data == NULL || len == 0) {
        memset(b, 0, sizeof(kf_batch_t));
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "there is no record batch");
        return;
    }

    rc = kf_batch_header(data, len, b);

    if (len >= KF_BATCH_OVERHEAD) {
        batch_len = (int32_t) kf_be32(data + 8);

        if (batch_len < 14) {           /* the least of any magic */
            kf_batch_refuse(v, KF_ERR_CORRUPT_MESSAGE, -1,
                            "the batch length is too small");
            return;
        }

        if (len > 16 && (b->magic < 0 || b->magic > 2)) {
            kf_batch_refuse(v, KF_ERR_CORRUPT_MESSAGE, -1,
                            "the magic byte is unknown");
            return;
        }

        if ((uint64_t) batch_len > len - KF_BATCH_OVERHEAD) {
            kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                            "the record batch is truncated");
            return;
        }
    }

    if (rc != KF_OK) {

        if (len > 16 && b->magic == 2) {
            kf_batch_refuse(v, KF_ERR_CORRUPT_MESSAGE, -1,
                            "the batch length is too small");
            return;
        }

        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        len > 16 ? "only magic 2 is supported"
                                 : "the record batch is truncated");
        return;
    }

    if (b->size != len) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "more than one record batch");
        return;
    }

    if (rules->zstd_refused && kf_batch_codec(b) == KF_CODEC_ZSTD) {
        kf_batch_refuse(v, KF_ERR_UNSUPPORTED_COMPRESSION_TYPE, -1,
                        "zstd needs Produce version 7 or later");
        return;
    }

    if (b->base_offset != 0) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "the base offset of a produced batch is not 0");
        return;
    }

    if (b->size > rules->batch_bytes_max) {
        kf_batch_refuse(v, KF_ERR_MESSAGE_TOO_LARGE, -1,
                        "the batch is larger than max.message.bytes");
        return;
    }

    if (!kf_batch_crc_ok(data, b)) {
        kf_batch_refuse(v, KF_ERR_CORRUPT_MESSAGE, -1,
                        "the batch does not match its CRC");
        return;
    }

    if (b->record_count <= 0) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "the batch has no records");
        return;
    }

    if (b->last_offset_delta != b->record_count - 1) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "the last offset delta does not match the count");
        return;
    }

    if (b->attributes & KF_ATTR_CONTROL) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "clients may not write control batches");
        return;
    }

    if (b->producer_id >= 0 && b->base_sequence < 0) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "an idempotent batch needs a sequence number");
        return;
    }

    if (kf_batch_codec(b) > KF_CODEC_LAST) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "the compression codec is unknown");
    }
}


typedef struct {
    const kf_batch_t        *batch;
    const kf_batch_rules_t  *rules;
    kf_batch_verdict_t      *verdict;
    int32_t                  index;
    bool                     append_time;   /* the batch says so */
    bool                     stopped;       /* refused as a whole */
    kf_scan_t                scan;
} kf_batch_walk_t;


/* One whole record; false when that ends the walk. */
static inline bool
kf_batch_walk_record(kf_batch_walk_t *w, const kf_record_brief_t *brief)
{
    int64_t              ts;
    kf_batch_verdict_t  *v = w->verdict;

    if (w->index == w->batch->record_count) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                        "the batch holds more records than its count");
        return false;
    }

    if (brief->offset_delta != w->index) {
        kf_batch_refuse(v, KF_ERR_INVALID_RECORD, w->index,
                        "the offsets of the records are not consecutive");
        return false;
    }

    if (brief->key_null && w->rules->keys_required) {
        kf_batch_refuse_record(v, KF_ERR_INVALID_RECORD, w->index++,
                               "a compacted topic needs a key in every record");
        return true;
    }

    ts = w->append_time
         ? w->batch->max_timestamp_ms
         : kf_batch_time(w->batch, brief->timestamp_delta_ms);

    if (w->rules->check_timestamps && ts != -1
        && (ts < w->rules->timestamp_min_ms
            || ts > w->rules->timestamp_max_ms))
    {
        kf_batch_refuse_record(v, KF_ERR_INVALID_TIMESTAMP, w->index++,
                               "the timestamp is out of the topic's range");
        return true;
    }

    v->max_timestamp_ms = kf_max(v->max_timestamp_ms, ts);
    w->index++;

    return true;
}


static bool
kf_batch_walk_piece(void *ctx, const uint8_t *data, size_t len)
{
    kf_scan_rc_t        rc;
    const uint8_t      *p, *q, *end;
    kf_batch_walk_t    *w = ctx;
    kf_record_brief_t   brief;

    p = data;
    end = data + len;

    while (p < end) {

        /*
         * Nearly all records lie whole in a piece.  The scanner takes the
         * others, and tells one that is cut from one that is malformed.
         */

        if (kf_scan_at_start(&w->scan)) {
            q = kf_record_brief(p, end, &brief);

            if (q) {
                if (!kf_batch_walk_record(w, &brief)) {
                    w->stopped = true;
                    return false;
                }

                p = q;
                continue;
            }
        }

        rc = kf_scan(&w->scan, &p, end);

        if (rc == KF_SCAN_BAD) {
            kf_batch_refuse(w->verdict, KF_ERR_INVALID_RECORD, w->index,
                            "the record is malformed");
            w->stopped = true;
            return false;
        }

        if (rc == KF_SCAN_RECORD && !kf_batch_walk_record(w, &w->scan.brief)) {
            w->stopped = true;
            return false;
        }
    }

    return true;
}


void
kf_batch_walk(const uint8_t *data, const kf_batch_t *b,
    const kf_batch_rules_t *rules, kf_batch_verdict_t *v)
{
    kf_rc_t          rc;
    kf_batch_walk_t  walk;

    kf_batch_refuse(v, KF_ERR_NONE, -1, NULL);
    v->max_timestamp_ms = -1;

    memset(&walk, 0, sizeof(walk));
    walk.append_time = (b->attributes & KF_ATTR_LOG_APPEND_TIME) != 0;

    /*
     * A producer that claims the broker's time: as Kafka, refused where the
     * broker does set the time or none is given; else the time given is that
     * of every record, and kf_batch_amend() takes the claim back.
     */

    if (walk.append_time
        && (!rules->check_timestamps || b->max_timestamp_ms == -1))
    {
        kf_batch_refuse(v, KF_ERR_INVALID_TIMESTAMP, 0,
                        "only the broker may set the log append time");
        return;
    }

    walk.batch = b;
    walk.rules = rules;
    walk.verdict = v;

    rc = kf_decompress(kf_batch_codec(b), data + KF_BATCH_HEADER,
                       b->size - KF_BATCH_HEADER,
                       kf_batch_codec(b) == KF_CODEC_NONE
                       ? INT64_MAX : rules->output_bytes_max,
                       kf_batch_walk_piece, &walk);

    if (walk.stopped) {
        return;
    }

    /* what is wrong with the batch as a whole comes before its records */

    switch (rc) {

    case KF_OK:

        if (walk.index != b->record_count || !kf_scan_at_start(&walk.scan)) {
            kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                            "the batch holds fewer records than its count");
        }

        return;

    case KF_TOO_LARGE:
        kf_batch_refuse(v, KF_ERR_MESSAGE_TOO_LARGE, -1,
                        "the batch is too large when decompressed");
        return;

    case KF_NO_MEMORY:
        kf_batch_refuse(v, KF_ERR_KAFKA_STORAGE_ERROR, -1,
                        "no memory to decompress the batch");
        return;

    case KF_UNSUPPORTED:
        kf_batch_refuse(v, KF_ERR_UNSUPPORTED_COMPRESSION_TYPE, -1,
                        "the zstd window is larger than 8 MiB");
        return;

    case KF_MALFORMED:
        break;
    }

    kf_batch_refuse(v, KF_ERR_INVALID_RECORD, -1,
                    "the batch can't be decompressed");
}


typedef struct {
    const kf_batch_t    *batch;
    kf_record_visit_pt   visit;
    void                *ctx;
    int32_t              index;
    bool                 stopped;        /* by visit() */
    kf_rc_t              rc;
    uint8_t             *buf;            /* a record cut by the pieces' ends */
    size_t               len;
    size_t               size;
} kf_batch_each_t;


static bool
kf_batch_each_record(kf_batch_each_t *e, const kf_record_t *record)
{
    int64_t            ts;
    const kf_batch_t  *b = e->batch;

    if (e->index == b->record_count) {
        e->rc = KF_MALFORMED;
        return false;
    }

    e->index++;

    ts = b->attributes & KF_ATTR_LOG_APPEND_TIME
         ? b->max_timestamp_ms
         : kf_batch_time(b, record->timestamp_delta_ms);

    if (!e->visit(e->ctx, b->base_offset + record->offset_delta, ts, record)) {
        e->stopped = true;
        return false;
    }

    return true;
}


/* Keeps n bytes; the buffer grows with what has come, not with a promise. */
static bool
kf_batch_each_keep(kf_batch_each_t *e, const uint8_t *data, size_t n)
{
    size_t    size;
    uint8_t  *buf;

    if (n > e->size - e->len) {
        size = kf_max(e->size * 2, e->len + n);
        buf = realloc(e->buf, size);

        if (buf == NULL) {
            e->rc = KF_NO_MEMORY;
            return false;
        }

        e->buf = buf;
        e->size = size;
    }

    memcpy(e->buf + e->len, data, n);
    e->len += n;

    return true;
}


/*
 * The bytes that the record at p has with its length, or 0 when so few are
 * there that the length is not known, or -1.
 */
static int64_t
kf_batch_each_size(const uint8_t *p, size_t len)
{
    int32_t         n;
    const uint8_t  *q;

    q = kf_get_varint(p, p + len, &n);

    if (q == NULL) {
        return len < KF_RECORD_LENGTH_MAX ? 0 : -1;
    }

    return n < 1 ? -1 : (int64_t) n + (q - p);
}


static bool
kf_batch_each_piece(void *ctx, const uint8_t *data, size_t len)
{
    size_t            n;
    int64_t           size;
    kf_record_t       record;
    const uint8_t    *p, *q, *end;
    kf_batch_each_t  *e = ctx;

    p = data;
    end = data + len;

    while (p < end) {

        if (e->len == 0) {
            size = kf_batch_each_size(p, (size_t) (end - p));

            if (size > 0 && size <= end - p) {
                if (kf_record_next(&p, end, &record) != KF_OK) {
                    e->rc = KF_MALFORMED;
                    return false;
                }

                if (!kf_batch_each_record(e, &record)) {
                    return false;
                }

                continue;
            }

            n = size > 0 ? (size_t) (end - p) : 1;

        } else {
            size = kf_batch_each_size(e->buf, e->len);
            n = size > 0 ? (size_t) kf_min(size - (int64_t) e->len, end - p)
                         : 1;
        }

        if (size < 0) {
            e->rc = KF_MALFORMED;
            return false;
        }

        if (!kf_batch_each_keep(e, p, n)) {
            return false;
        }

        p += n;

        /* a length that is complete only now may be that of a record of 1 */

        size = kf_batch_each_size(e->buf, e->len);

        if (size < 0) {
            e->rc = KF_MALFORMED;
            return false;
        }

        if (size == 0 || (size_t) size > e->len) {
            continue;
        }

        q = e->buf;
        e->len = 0;

        if (kf_record_next(&q, q + size, &record) != KF_OK) {
            e->rc = KF_MALFORMED;
            return false;
        }

        if (!kf_batch_each_record(e, &record)) {
            return false;
        }
    }

    return true;
}


kf_rc_t
kf_batch_each(const uint8_t *data, const kf_batch_t *b,
    int64_t output_bytes_max, kf_record_visit_pt visit, void *ctx)
{
    kf_rc_t          rc;
    kf_batch_each_t  each;

    memset(&each, 0, sizeof(each));
    each.batch = b;
    each.visit = visit;
    each.ctx = ctx;

    rc = kf_decompress(kf_batch_codec(b), data + KF_BATCH_HEADER,
                       b->size - KF_BATCH_HEADER, output_bytes_max,
                       kf_batch_each_piece, &each);

    free(each.buf);

    if (each.stopped) {
        return KF_OK;
    }

    if (rc != KF_OK || each.rc != KF_OK) {
        return rc != KF_OK ? rc : each.rc;
    }

    return each.len == 0 && each.index == b->record_count ? KF_OK
                                                          : KF_MALFORMED;
}
