/*
 * Recovery of arbitrary bytes: it recovers or refuses, and invents nothing.
 *
 * A small partition is laid out, then the input damages it.  First byte:
 *
 *   0  the rest is the whole .log file
 *   1  the rest is a list of changes (position 2 bytes, kind 1, value 1) to a
 *      good .log file: flip, truncate, zeros, bytes put in
 *   2  the rest is the checkpoint     3  the index     4  the time index
 *   5  a producer snapshot            6  leader-epoch-checkpoint
 *   7  partition.metadata
 *
 * What must hold: when it is refused, the .log is as it was; when it is opened,
 * the .log is a prefix of what it was, and exactly valid batches, one after the
 * other, which can be read; an append and a second recovery work.
 */

#include <stdlib.h>

#include "../unit/log_lib.h"

#define GOOD_BATCHES  8
#define SIZE_MAX_LOG  (256 * 1024)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t  good[SIZE_MAX_LOG];
static size_t   good_len;
static size_t   point;                  /* end of what the checkpoint covers */
static uint8_t  before[SIZE_MAX_LOG], after[SIZE_MAX_LOG];


static size_t
slurp(const char *name, uint8_t *buf)
{
    int      fd = open(file_path(name), O_RDONLY);
    ssize_t  n;

    if (fd == -1) {
        return 0;
    }

    n = read(fd, buf, SIZE_MAX_LOG);
    close(fd);

    return n > 0 ? (size_t) n : 0;
}


static void
spill(const char *name, const void *data, size_t len)
{
    int  fd = open(file_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (write(fd, data, len) != (ssize_t) len) {
        abort();
    }

    close(fd);
}


/* A good partition: a checkpoint in the middle, producers, two epochs. */
static void
lay_out(void)
{
    int          i;
    batch_t     *x = malloc(sizeof(batch_t));
    kl_append_t  res;

    broker_start(1, 16);

    for (i = 0; i < GOOD_BATCHES; i++) {
        batch_make(x, i % 2 ? 1 : 1 + i % 3, 40 + (size_t) i * 30,
                   (uint32_t) i, 1000 + i);

        if (i % 2) {
            batch_producer(x, 7, 0, i / 2, 0);
        }

        if (kl_append(plog, x->data, &x->b, &config, i / 5, 1000, &res)
            != KL_OK)
        {
            abort();
        }

        if (i == GOOD_BATCHES / 2) {
            if (kl_checkpoint(plog, false) != KL_OK) {
                abort();
            }

            point = (size_t) offsets(plog).bytes;
        }
    }

    free(x);
    broker_end(1, 16);
}


static size_t
change(uint8_t *log, size_t len, const uint8_t *p, size_t n)
{
    size_t  pos, k;

    for (/* void */; n >= 4; p += 4, n -= 4) {
        pos = ((size_t) p[0] << 8 | p[1]) % (len + 1);

        switch (p[2] & 3) {

        case 0:
            if (pos < len) {
                log[pos] ^= p[3];
            }
            break;

        case 1:
            len = pos;
            break;

        case 2:
            for (k = 0; k < p[3] * 8U && pos + k < len; k++) {
                log[pos + k] = 0;
            }
            break;

        default:
            if (len + p[3] <= SIZE_MAX_LOG) {
                memmove(log + pos + p[3], log + pos, len - pos);
                memset(log + pos, p[2], p[3]);
                len += p[3];
            }
        }
    }

    return len;
}


static void
check(const char *name, size_t before_len, bool marked)
{
    bool          truncated;
    size_t        len, at;
    int64_t       expect;
    kl_rc_t       rc;
    kf_batch_t    b;
    kl_offsets_t  o;

    broker_start(1, 16);

    rc = kl_recover(plog, 0, &config, &truncated);
    len = slurp(name, after);

    if (rc != KL_OK) {
        if (len != before_len || memcmp(before, after, len) != 0) {
            abort();
        }

        broker_end(1, 16);
        return;
    }

    if (len > before_len || memcmp(before, after, len) != 0) {
        abort();
    }

    o = offsets(plog);
    expect = 0;

    /* below the recovery point nothing is looked at */
    if (marked && (len < point || memcmp(before, good, point) != 0)) {
        expect = o.log_end;
        at = len;
    } else {
        at = 0;
    }

    for (/* void */; at < len; at += b.size) {
        if (kf_batch_header(after + at, len - at, &b) != KF_OK
            || b.size > len - at || b.base_offset != expect)
        {
            abort();
        }

        expect = kf_batch_next_offset(&b);
    }

    if (at != len || o.log_end != expect || o.log_start > o.log_end
        || o.flushed != o.log_end)
    {
        abort();
    }

    if (append_plain(plog, 1, 10, 1, 1) != KL_OK) {
        abort();
    }

    broker_end(1, 16);
    broker_start(1, 16);

    if (kl_recover(plog, 0, &config, &truncated) != KL_OK
        || offsets(plog).log_end != expect + 1 || truncated)
    {
        abort();
    }

    broker_end(1, 16);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                 log_name[64];
    size_t               len;
    static const char   *side[] = { "checkpoint", NULL, NULL, NULL,
                                    "leader-epoch-checkpoint",
                                    "partition.metadata" };

    if (size < 1 || size > SIZE_MAX_LOG / 2) {
        return 0;
    }

    if (data_dir[0] == '\0') {
        setenv("TMPDIR", "/dev/shm", 0);
        config.index_interval_bytes = 100;
        data_make();
        lay_out();
        snprintf(log_name, sizeof(log_name), "%s", segment_name(0, ".log"));
        good_len = slurp(log_name, good);
        data_remove(data_dir);
    }

    if (mkdir(data_dir, 0700) != 0) {
        abort();
    }

    lay_out();
    snprintf(log_name, sizeof(log_name), "%s", segment_name(0, ".log"));

    switch (data[0] % 8) {

    case 0:
        spill(log_name, data + 1, size - 1);
        unlink(file_path("checkpoint"));
        break;

    case 1:
        memcpy(before, good, good_len);
        len = change(before, good_len, data + 1, size - 1);
        spill(log_name, before, len);
        if (data[0] & 8) {
            unlink(file_path("checkpoint"));
        }
        break;

    case 3:
        spill(segment_name(0, ".index"), data + 1, size - 1);
        break;

    case 4:
        spill(segment_name(0, ".timeindex"), data + 1, size - 1);
        break;

    case 5:
        spill(segment_name(9, ".snapshot"), data + 1, size - 1);
        break;

    default:
        spill(side[data[0] % 8 - 2], data + 1, size - 1);
    }

    len = slurp(log_name, before);
    check(log_name, len, access(file_path("checkpoint"), F_OK) == 0);

    data_remove(data_dir);

    return 0;
}
