/*
 * Append, read, roll and look-ups against a naive model: random batch sizes,
 * small segments, every offset, several bounds.
 */

#include "log_lib.h"

#define BATCHES_MAX  4000

typedef struct {
    int64_t   base;
    int64_t   next;
    uint32_t  size;
} model_t;

static model_t   model[BATCHES_MAX];
static int       model_n;
static uint64_t  seed;


static uint32_t
rnd(uint32_t n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;

    return (uint32_t) (seed >> 33) % n;
}


static int
model_at(int64_t offset)
{
    int  i;

    for (i = 0; i < model_n; i++) {
        if (offset < model[i].next) {
            return i;
        }
    }

    return model_n;
}


static int
slice_is_right(kl_slice_t *s, int64_t offset, int64_t upto, uint32_t max,
    int at_least_one)
{
    int              i = model_at(offset);
    int              first = i;
    uint32_t         at = 0;
    kf_batch_t       b;
    static uint8_t   buf[1 << 20];

    if (offset >= upto) {
        return s->len == 0 && s->file == NULL;
    }

    if (s->len == 0) {
        return !at_least_one && model[i].size > max && s->next_offset == offset;
    }

    if (s->len > sizeof(buf)
        || pread(s->fd, buf, s->len, s->pos) != (ssize_t) s->len
        || s->first_offset != model[i].base)
    {
        return 0;
    }

    while (at < s->len) {
        if (kf_batch_header(buf + at, s->len - at, &b) != KF_OK
            || !kf_batch_crc_ok(buf + at, &b)
            || b.base_offset != model[i].base || b.size != model[i].size
            || b.base_offset >= upto)
        {
            return 0;
        }

        at += b.size;
        i++;
    }

    if (at != s->len || s->next_offset != model[i - 1].next) {
        return 0;
    }

    if (s->len > max && !(at_least_one && i == first + 1)) {
        return 0;
    }

    return 1;
}


/* Whether more would have fitted. */
static int
slice_is_full(kl_slice_t *s, int64_t upto, uint32_t max)
{
    char     name[64];
    int      i = model_at(s->next_offset);
    struct stat  st;

    if (s->len == 0 || i == model_n || model[i].base >= upto
        || s->len + model[i].size > max)
    {
        return 1;
    }

    /* the segment ended */
    snprintf(name, sizeof(name), "%s", segment_name(s->next_offset, ".log"));

    return stat(file_path(name), &st) == 0;
}


static void
test_model(uint64_t s, int64_t segment_bytes, int64_t interval)
{
    int          i, k, right = 1, full = 1, errors = 0, readable = 1;
    int64_t      offset, upto, max, sum, bytes, flushed, total = 0;
    batch_t     *x = malloc(sizeof(batch_t));
    kl_append_t  res;
    kl_slice_t   sl;

    seed = s;
    model_n = 0;
    data_make();
    broker_start(4, 16);
    config.segment_bytes = segment_bytes;
    config.index_interval_bytes = interval;

    for (i = 0; i < 700; i++) {
        batch_make(x, 1 + (int) rnd(5), 4 + rnd(rnd(8) ? 300 : 8000),
                   (uint32_t) i, 1000 + i);

        if (append(plog, x, &res) != KL_OK) {
            errors++;
            continue;
        }

        model[model_n].base = res.base_offset;
        model[model_n].next = res.next_offset;
        model[model_n].size = (uint32_t) x->len;
        total += (int64_t) x->len;

        if (res.base_offset != (model_n ? model[model_n - 1].next : 0)) {
            errors++;
        }

        model_n++;

        if (rnd(50) == 0 && kl_flush(plog, &flushed) != KL_OK) {
            errors++;
        }

        for (k = 0; k < 4; k++) {
            upto = rnd(3) ? offsets(plog).log_end
                          : rnd(2) ? offsets(plog).flushed
                                   : model[rnd((uint32_t) model_n)].base;
            offset = rnd(3) ? (int64_t) rnd((uint32_t) res.next_offset + 1)
                            : res.next_offset - rnd(40);
            max = rnd(20000);

            if (offset < 0) {
                offset = 0;
            }

            if (kl_read(plog, offset, upto, (uint32_t) max, k & 1, &sl)
                != KL_OK)
            {
                errors++;
                continue;
            }

            right &= slice_is_right(&sl, offset, upto, (uint32_t) max, k & 1);
            full &= slice_is_full(&sl, upto, (uint32_t) max);
            kl_file_unref(sl.file);

            sum = 0;

            for (int j = model_at(offset);
                 j < model_n && model[j].base < upto && offset < upto; j++)
            {
                sum += model[j].size;
            }

            if (kl_readable(plog, offset, upto, max, &bytes) != KL_OK) {
                errors++;
            }

            readable &= bytes == (sum < max ? sum : max);
        }
    }

    is(errors, 0, "no call fails");
    ok(right, "every slice holds exactly whole batches of its range");
    ok(full, "no slice is shorter than it must be");
    ok(readable, "readable bytes are as the model says");
    ok(files_with(".log") > (segment_bytes < 1000000 ? 5 : 0), "segments: %d",
       files_with(".log"));
    is(offsets(plog).bytes, total, "bytes");
    is(read_all(plog, NULL, 0), model_n, "all batches are there");

    is(kl_read(plog, offsets(plog).log_end + 1, INT64_MAX, 1, true, &sl),
       KL_OUT_OF_RANGE, "above the end is out of range");
    is(kl_read(plog, -1, INT64_MAX, 1, true, &sl), KL_OUT_OF_RANGE,
       "below the start is out of range");
    is(kl_read(plog, offsets(plog).log_end, INT64_MAX, 1, true, &sl), KL_OK,
       "the end is in range");
    is(sl.len, 0, "and has nothing");

    is(last_level, 99, "nothing is logged as a problem");

    free(x);
    broker_end(4, 16);
    data_remove(data_dir);
}


static void
test_roll(void)
{
    batch_t     *x = malloc(sizeof(batch_t));
    kl_append_t  res;

    data_make();
    broker_start(1, 4);
    config.segment_bytes = 1 << 30;
    config.index_interval_bytes = 4096;

    append_plain(plog, 1, 10, 0, 1000);
    config.segment_ms = 500;
    append_plain(plog, 1, 10, 0, 1500);
    is(files_with(".log"), 1, "within segment.ms of the first timestamp");
    append_plain(plog, 1, 10, 0, 1501);
    is(files_with(".log"), 2, "later: rolled");

    append_plain(plog, 1, 10, 0, -1);
    config.segment_ms = 7LL * 86400 * 1000;

    batch_make(x, 1, 10, 0, 1501);
    put_be(x->data + 23, INT32_MAX, 4);
    batch_producer(x, -1, -1, -1, 0);
    append(plog, x, &res);
    is(files_with(".log"), 3, "an offset that has no place in the index");
    is(res.next_offset, 4 + 2147483648LL, "offsets count as the batch says");

    config.segment_index_bytes = 8 * 3;
    config.index_interval_bytes = 1;

    append_plain(plog, 1, 10, 0, 1502);
    append_plain(plog, 1, 10, 0, 1503);
    append_plain(plog, 1, 10, 0, 1504);
    append_plain(plog, 1, 10, 0, 1505);
    append_plain(plog, 1, 10, 0, 1506);
    ok(files_with(".log") > 4, "a full index");
    is(read_all(plog, NULL, 0), 10, "all of it is readable");

    config.segment_index_bytes = 10 << 20;
    config.index_interval_bytes = 4096;

    config.append_time = true;
    batch_make(x, 2, 10, 0, 5);
    is(kl_append(plog, x->data, &x->b, &config, 0, 987654, &res), KL_OK,
       "append time");
    kf_batch_header(x->data, x->len, &x->b);
    is(x->b.max_timestamp_ms, 987654, "is the broker's");
    ok(kf_batch_crc_ok(x->data, &x->b), "under a new CRC");
    ok(x->b.attributes & KF_ATTR_LOG_APPEND_TIME, "and said in the attributes");
    config.append_time = false;

    free(x);
    broker_end(1, 4);
    data_remove(data_dir);
}


int
main(void)
{
    test_model(1, 20000, 500);
    test_model(2, 100000, 4096);
    test_model(3, 1 << 30, 4096);
    test_model(4, 3000, 1);
    test_roll();

    return done_testing();
}
