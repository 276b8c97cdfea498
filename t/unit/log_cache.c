/*
 * A write-back that fails leaves pages in the cache that are not on the disk.
 * The calls by which recovery finds out are replaced here: dropping the cache
 * shows what a disk that lost the write would have; and pages can be said to
 * stay in spite of it.
 */

#include <sys/stat.h>
#include <time.h>

#include "log_lib.h"

#define PARTS  2
#define PRODS  16
#define PAGE   4096
#define OLD    1000000000               /* mtime before a recovery, seconds */

static bool     stay;                   /* pages cannot be dropped */
static bool     lost;                   /* from lost_from on */
static int64_t  lost_from;
static int64_t  looked;                 /* bytes that mincore() was asked for */

int posix_fadvise(int fd, off_t pos, off_t len, int advice);
int mincore(void *map, size_t len, unsigned char *vec);


int
posix_fadvise(int fd, off_t pos, off_t len, int advice)
{
    size_t          n;
    struct stat     st;
    static uint8_t  zeros[1024 * 1024];

    if (advice == POSIX_FADV_DONTNEED && !stay && lost && len == 0
        && fstat(fd, &st) == 0 && st.st_size > lost_from
        && pos <= lost_from)
    {
        n = (size_t) (st.st_size - lost_from);
        lost = false;
        return pwrite(fd, zeros, n, lost_from) == (ssize_t) n ? 0 : EIO;
    }

    return 0;
}


int
mincore(void *map, size_t len, unsigned char *vec)
{
    (void) map;

    memset(vec, stay, (len + PAGE - 1) / PAGE);
    looked += (int64_t) len;

    return 0;
}


/* 20 batches on the disk, then 20 that are not; their position. */
static int64_t
begin(bool checkpoint)
{
    int      i;
    int64_t  pos, flushed;

    stay = false;
    lost = false;
    looked = 0;
    config.segment_bytes = 1 << 30;
    data_make();
    broker_start(PARTS, PRODS);

    for (i = 0; i < 20; i++) {
        append_plain(plog, 1, 1000, (uint32_t) i, 1000);
    }

    is(kl_flush(plog, &flushed), KL_OK, "flush");

    if (checkpoint) {
        is(kl_checkpoint(plog, false), KL_OK, "checkpoint");
    }

    pos = offsets(plog).bytes;

    for (i = 20; i < 40; i++) {
        append_plain(plog, 1, 1000, (uint32_t) i, 1000);
    }

    return pos;
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static void
age(void)
{
    struct timespec  ts[2] = { { OLD, 0 }, { OLD, 0 } };

    utimensat(AT_FDCWD, file_path(segment_name(0, ".log")), ts, 0);
}


static bool
was_written(void)
{
    struct stat  st;

    return stat(file_path(segment_name(0, ".log")), &st) == 0
           && st.st_mtime != OLD;
}


/* All that is known of the failure is gone with the broker. */
static void
test_lost(bool checkpoint)
{
    bool      cut;
    int64_t   pos, one;
    uint32_t  tags[64];

    pos = begin(checkpoint);
    one = pos / 20;

    broker_end(PARTS, PRODS);

    lost_from = (pos / PAGE + 2) * PAGE;
    lost = true;

    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &cut), KL_OK, "recovery");
    ok(!lost, "the cache was dropped");
    ok(cut, "what the disk lost is cut off");
    is(offsets(plog).log_end, lost_from / one, "the log ends before it");
    is(offsets(plog).flushed, offsets(plog).log_end, "and is on the disk");
    is(read_all(plog, tags, 64), (int) (lost_from / one), "it can be read");
    is(append_plain(plog, 1, 1000, 99, 1000), KL_OK, "and goes on");

    end();
}


static void
test_stays(bool stays, bool checkpoint)
{
    bool     cut;
    int64_t  pos, size;

    pos = begin(checkpoint);
    size = offsets(plog).bytes;

    broker_end(PARTS, PRODS);
    age();
    stay = stays;

    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &cut), KL_OK, "recovery");
    ok(!cut, "nothing is cut off");
    is(was_written(), stays, stays ? "pages that stay are written again"
                                   : "pages that went are not");
    ok(looked >= size - pos && looked <= size,
       "all of what is not sure was looked at");

    if (checkpoint) {
        ok(looked < size - pos + 16 * 1024, "and not much more");
    }

    is(offsets(plog).log_end, 40, "all is there");
    is(read_all(plog, NULL, 0), 40, "and can be read");

    end();
}


/* Found clean, nothing is dropped or written. */
static void
test_clean(void)
{
    bool  cut;

    begin(false);
    is(kl_checkpoint(plog, true), KL_OK, "a clean stop");

    broker_end(PARTS, PRODS);
    age();
    stay = true;
    lost_from = 0;
    lost = true;

    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &cut), KL_OK, "recovery");
    ok(lost && looked == 0, "the cache is believed");
    ok(!was_written(), "the log is not written");
    is(read_all(plog, NULL, 0), 40, "all is there");

    end();
}


int
main(void)
{
    test_lost(false);
    test_lost(true);
    test_stays(true, false);
    test_stays(true, true);
    test_stays(false, true);
    test_clean();

    return done_testing();
}
