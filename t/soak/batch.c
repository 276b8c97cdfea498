/*
 * Record batches, and what is in our records: a magic number, who wrote it and
 * where to, filler made from these, and a checksum.
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_HEAD   36         /* magic, record, topic id, partition, length */
#define HEADER       61
#define MAGIC        0x536f616bu


static void
value_make(out_t *o, part_t *p, record_t r, int size)
{
    int       i;
    size_t    start = o->len;
    uint64_t  state = r, x = 0;

    put_i32(o, (int32_t) MAGIC);
    put_i64(o, (int64_t) r);
    put(o, p->topic->id, 16);
    put_i32(o, p->index);
    put_i32(o, size);

    for (i = 0; i < size; i++) {
        if (i % 8 == 0) {
            x = rnd(&state);
        }

        put_i8(o, (int) (x & 0xff));
        x >>= 8;
    }

    put_i32(o, (int32_t) crc32c(o->data + start, o->len - start));
}


void
batch_make(out_t *o, part_t *p, record_t first, int count, int size,
    int64_t pid, int epoch, int64_t sequence)
{
    int      i;
    size_t   at, len;
    int64_t  now = wall_ms();
    out_t    value = { NULL, 0, 0 }, record = { NULL, 0, 0 };

    o->len = 0;
    put_i64(o, 0);
    put_i32(o, 0);                              /* length, below */
    put_i32(o, -1);
    put_i8(o, 2);
    put_i32(o, 0);                              /* crc, below */
    put_i16(o, 0);
    put_i32(o, count - 1);
    put_i64(o, now);
    put_i64(o, now);
    put_i64(o, pid);
    put_i16(o, pid < 0 ? -1 : epoch);
    put_i32(o, pid < 0 ? -1 : (int32_t) (sequence & 0x7fffffff));
    put_i32(o, count);

    for (i = 0; i < count; i++) {
        value.len = 0;
        value_make(&value, p, first + (uint64_t) i, size);

        record.len = 0;
        put_i8(&record, 0);
        put_varint(&record, 0);
        put_varint(&record, i);
        put_varint(&record, -1);                /* no key */
        put_varint(&record, (int64_t) value.len);
        put(&record, value.data, value.len);
        put_varint(&record, 0);                 /* no headers */

        put_varint(o, (int64_t) record.len);
        put(o, record.data, record.len);
    }

    len = o->len;
    at = crc32c(o->data + 21, len - 21);
    o->len = 17;
    put_i32(o, (int32_t) at);
    o->len = 8;
    put_i32(o, (int32_t) (len - 12));
    o->len = len;

    free(value.data);
    free(record.data);
}


static record_t
value_read(part_t *p, const uint8_t *data, size_t n, int64_t offset,
    const char *who)
{
    in_t            in = { data, data + n, false };
    int32_t         index, size;
    uint32_t        magic, crc;
    record_t        r;
    const uint8_t  *id;

    if (n < VALUE_HEAD + 4) {
        fault("%s: %s-%d offset %lld: a record of %zu bytes", who,
              p->topic->name, p->index, (long long) offset, n);
        return 0;
    }

    magic = (uint32_t) get_i32(&in);
    r = (record_t) get_i64(&in);
    id = get(&in, 16);
    index = get_i32(&in);
    size = get_i32(&in);

    in.p = data + n - 4;
    crc = (uint32_t) get_i32(&in);

    if (magic != MAGIC || (size_t) size != n - VALUE_HEAD - 4
        || crc != crc32c(data, n - 4))
    {
        fault("%s: %s-%d offset %lld: not a record of ours", who,
              p->topic->name, p->index, (long long) offset);
        return 0;
    }

    if (index != p->index || memcmp(id, p->topic->id, 16) != 0) {
        fault("%s: %s-%d offset %lld: a record of another partition", who,
              p->topic->name, p->index, (long long) offset);
        return 0;
    }

    return r;
}


int64_t
batches_read(part_t *p, const uint8_t *data, size_t n, int64_t from,
    int64_t below, const char *who,
    void (*on_record)(void *ctx, int64_t offset, record_t r), void *ctx)
{
    in_t            in, rec;
    int             i, count;
    size_t          len;
    int64_t         base, offset, delta, size, next = from;
    uint32_t        crc;
    record_t        r;
    const uint8_t  *end;

    while (n >= HEADER) {
        in.p = data;
        in.end = data + n;
        in.bad = false;

        base = get_i64(&in);
        len = (size_t) (uint32_t) get_i32(&in) + 12;

        if (len > n) {
            break;                              /* cut: allowed */
        }

        get_i32(&in);

        if (len < HEADER || get_i8(&in) != 2) {
            fault("%s: %s-%d: no batch at offset %lld", who, p->topic->name,
                  p->index, (long long) next);
            return next;
        }

        crc = (uint32_t) get_i32(&in);

        if (crc != crc32c(data + 21, len - 21)) {
            fault("%s: %s-%d: bad checksum at offset %lld", who,
                  p->topic->name, p->index, (long long) base);
            return next;
        }

        get_i16(&in);
        count = get_i32(&in) + 1;
        get(&in, 8 + 8 + 8 + 2 + 4);

        if (get_i32(&in) != count) {
            fault("%s: %s-%d: counts differ at offset %lld", who,
                  p->topic->name, p->index, (long long) base);
            return next;
        }

        /* the first batch may begin before what was asked for */
        if (base > next || base + count <= next) {
            fault("%s: %s-%d: offset %lld wanted, batch has %lld to %lld", who,
                  p->topic->name, p->index, (long long) next, (long long) base,
                  (long long) (base + count - 1));
            return next;
        }

        if (base + count > below) {
            fault("%s: %s-%d: shown up to %lld, high watermark %lld", who,
                  p->topic->name, p->index, (long long) (base + count),
                  (long long) below);
        }

        in.end = data + len;

        for (i = 0; i < count; i++) {
            size = get_varint(&in);
            rec.p = get(&in, (size_t) size);
            rec.end = in.p;
            rec.bad = in.bad;
            get_i8(&rec);
            get_varint(&rec);
            delta = get_varint(&rec);
            get_varint(&rec);                   /* no key */
            size = get_varint(&rec);
            end = get(&rec, (size_t) size);
            offset = base + i;

            if (rec.bad || delta != i) {
                fault("%s: %s-%d offset %lld: a malformed record", who,
                      p->topic->name, p->index, (long long) offset);
                return next;
            }

            if (offset < next) {
                continue;
            }

            r = value_read(p, end, (size_t) size, offset, who);
            next = offset + 1;

            if (r) {
                on_record(ctx, offset, r);
            }
        }

        data += len;
        n -= len;
    }

    return next;
}
