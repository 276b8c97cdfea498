/*
 * When a segment is closed and what is in its indexes then; producers that
 * expire, many at a time.
 */

#include "../../log/kl_internal.h"
#include "log_lib.h"

#define PARTS  1
#define PRODS  12000

static batch_t      x;
static kl_append_t  res;


static void
begin(void)
{
    config.segment_bytes = 1 << 30;
    config.index_interval_bytes = 100;
    data_make();
    broker_start(PARTS, PRODS);
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static kl_rc_t
put(int64_t max_timestamp_ms)
{
    batch_make(&x, 1, 200, 0, max_timestamp_ms);

    return append(plog, &x, &res);
}


static void
test_timestamps(void)
{
    int64_t  day = 86400 * 1000;

    begin();

    is(put(day), KL_OK, "the first timestamp");
    is(put(INT64_MIN), KL_OK, "the least that can be sent");
    is(put(-1), KL_OK, "none");
    is(put(day + config.segment_ms), KL_OK, "segment.ms later");
    is(files_with(".log"), 1, "is one segment");
    is(put(day + config.segment_ms + 1), KL_OK, "one more");
    is(files_with(".log"), 2, "closes it");
    is(put(INT64_MAX), KL_OK, "the greatest");
    is(files_with(".log"), 3, "closes it, too");
    is(put(INT64_MIN), KL_OK, "the least after it");
    is(files_with(".log"), 3, "does not");

    end();

    begin();

    is(put(INT64_MIN), KL_OK, "the least at first");
    is(put(INT64_MAX), KL_OK, "then the greatest");
    is(files_with(".log"), 1, "counts from when it was made");

    end();
}


/* A write of the index that ended in its middle left entries behind, which
 * point beyond the end. */
static void
stale(const char *suffix, int n)
{
    int      fd;
    uint8_t  junk[256];

    memset(junk, 0x7f, sizeof(junk));
    fd = open(file_path(segment_name(0, suffix)), O_WRONLY | O_APPEND);
    ok(fd != -1 && write(fd, junk, (size_t) n) == n, "a half-written index");
    close(fd);
}


static void
test_stale(void)
{
    int          i;
    bool         cut;
    int64_t      offset, ts;
    int32_t      epoch;
    kl_pub_t     pub;
    kl_slice_t   s;

    begin();

    for (i = 0; i < 50; i++) {
        put(1000 + i);
    }

    is(kl_checkpoint(plog, false), KL_OK, "a checkpoint");
    stale(".index", 3 * KL_INDEX_ENTRY + 5);
    stale(".timeindex", 2 * KL_TIME_ENTRY + 7);
    put(1050);

    is(kl_checkpoint(plog, true), KL_OK, "a clean stop");
    kl_pub_load(kl_log_part(plog), &pub);
    is(file_size(segment_name(0, ".index")), pub.index_n * KL_INDEX_ENTRY,
       "the index ends with its entries");
    is(file_size(segment_name(0, ".timeindex")), pub.time_n * KL_TIME_ENTRY,
       "so does the time index");

    stale(".index", KL_INDEX_ENTRY);
    stale(".timeindex", KL_TIME_ENTRY);

    config.segment_bytes = 1;
    put(1051);
    is(files_with(".log"), 2, "the segment is closed");

    ok(file_size(segment_name(0, ".index")) % KL_INDEX_ENTRY == 0
       && file_size(segment_name(0, ".index")) <= 51 * KL_INDEX_ENTRY,
       "the index has no more entries than batches");
    ok(file_size(segment_name(0, ".timeindex")) % KL_TIME_ENTRY == 0
       && file_size(segment_name(0, ".timeindex")) <= 52 * KL_TIME_ENTRY,
       "nor has the time index");

    is(kl_max_timestamp(plog, INT64_MAX, &offset, &ts, &epoch), KL_OK,
       "the greatest timestamp");
    ok(offset == 51 && ts == 1051, "is found");
    is(kl_read(plog, 50, 51, 1 << 20, true, &s), KL_OK, "the last batch");
    is(s.first_offset, 50, "is found");
    kl_file_unref(s.file);

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &cut), KL_OK, "a restart");
    is(read_all(plog, NULL, 0), 52, "all is there");
    is(kl_max_timestamp(plog, INT64_MAX, &offset, &ts, &epoch), KL_OK,
       "the greatest timestamp");
    ok(offset == 51 && ts == 1051, "is found");

    end();
}


static void
test_expire(void)
{
    int                  i;
    size_t               n;
    uint32_t             removed;
    kl_producer_info_t  *list;

    begin();

    for (i = 0; i < 10000; i++) {
        batch_make(&x, 1, 10, 0, 1000);
        batch_producer(&x, i, 0, 0, i == 77 ? KF_ATTR_TRANSACTIONAL : 0);
        (void) append(plog, &x, &res);
    }

    batch_make(&x, 1, 10, 0, 1000);
    batch_producer(&x, 5000, 0, 1, 0);
    is(kl_append(plog, x.data, &x.b, &config, 0, 1000001, &res), KL_OK,
       "the last of ten thousand producers");

    is(kl_retain(plog, &config, 1000000 + config.producer_expiration_ms,
                 INT64_MAX, &removed), KL_OK, "their time has passed");
    is(kl_producers(plog, false, &list, &n), KL_OK, "those that are left");
    is(n, 2, "are two");
    ok(n == 2 && list[0].producer_id + list[1].producer_id == 5077,
       "the one that was seen later, the one with an open transaction");
    free(list);

    end();
}


static int64_t
recent(int64_t offset)
{
    kl_slice_t  s;

    if (kl_read(plog, offset, INT64_MAX, 1 << 20, true, &s) != KL_OK) {
        return -1;
    }

    kl_file_unref(s.file);

    return s.recent_ms;
}


/* Since when everything from an offset on was appended: never later than it
 * was, or pages would be taken for cached that are not. */
static void
test_recent(void)
{
    int      i;
    bool     cut, late = true, known = true;
    int64_t  at[40], now = 1000000, since;

    begin();

    for (i = 0; i < 40; i++) {
        now += i == 30 ? 3600 * 1000 : 1500;
        at[i] = now;
        batch_make(&x, 1, 100, 0, 1000);
        (void) kl_append(plog, x.data, &x.b, &config, 0, now, &res);

        since = recent(i);
        known &= since > 0 && at[i] - since <= 5000;
    }

    ok(known, "the end is always known to be new");

    for (i = 0; i < 40; i++) {
        since = recent(i);
        late &= since <= at[i];
    }

    ok(late, "nothing is taken for newer than it is");
    is(recent(0), 0, "of what is old nothing is known");
    is(recent(29), 0, "also of what was the end an hour before");
    ok(recent(35) >= at[30], "what came then is new");

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &cut), KL_OK, "a restart");
    is(recent(39), 0, "after which nothing is known");

    end();
}


int
main(void)
{
    test_recent();
    test_timestamps();
    test_stale();
    test_expire();

    return done_testing();
}
