/*
 * Recovery: a torn tail is cut off and kept aside, at whatever byte it is
 * torn; damage is refused and nothing touched; indexes, epochs and marks come
 * back.
 */

#include "log_lib.h"

#define PARTS  2
#define PRODS  16


static kl_rc_t
restart(bool *truncated)
{
    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);

    return kl_recover(plog, 5, &config, truncated);
}


static void
run(const char *fmt, ...)
{
    char     cmd[2048];
    va_list  args;

    va_start(args, fmt);
    vsnprintf(cmd, sizeof(cmd), fmt, args);
    va_end(args);

    if (system(cmd) != 0) {
        diag("failed: %s", cmd);
    }
}


static void
save(void)
{
    run("rm -rf %s.saved && cp -a %s %s.saved", data_dir, data_dir, data_dir);
}


static void
restore(void)
{
    run("rm -rf %s && cp -a %s.saved %s", data_dir, data_dir, data_dir);
}


static void
put_byte(const char *name, int64_t pos, int xor_with)
{
    int      fd = open(file_path(name), O_RDWR);
    uint8_t  c = 0;

    if (pread(fd, &c, 1, pos) == 1) {
        c ^= (uint8_t) xor_with;
        if (pwrite(fd, &c, 1, pos) != 1) {
            perror("pwrite");
        }
    }

    close(fd);
}


static void
put_zeros(const char *name, int64_t pos, int64_t len)
{
    int          fd = open(file_path(name), O_RDWR);
    static char  zeros[65536];

    if (pwrite(fd, zeros, (size_t) len, pos) != len) {
        perror("pwrite");
    }

    close(fd);
}


static void
begin(int64_t segment_bytes)
{
    config.segment_bytes = segment_bytes;
    config.index_interval_bytes = 200;
    data_make();
    broker_start(PARTS, PRODS);
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
    run("rm -rf %s.saved", data_dir);
}


static void
test_torn(void)
{
    int       i, right, torn;
    bool      truncated;
    char      name[64];
    int64_t   size, cut, ends[8];
    uint32_t  tags[16];

    begin(1 << 30);

    for (i = 0; i < 6; i++) {
        append_plain(plog, 2, 30 + (size_t) i * 7, (uint32_t) i, 1000 + i);
        ends[i] = offsets(plog).bytes;
    }

    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    size = file_size(name);
    is(size, ends[5], "the file's size is the end of its data");
    save();

    right = 0;
    torn = 0;

    for (cut = ends[3]; cut <= size; cut++) {
        restore();

        if (truncate(file_path(name), cut) != 0) {
            perror("truncate");
        }

        if (restart(&truncated) != KL_OK) {
            diag("refused at %d", (int) cut);
            continue;
        }

        i = cut < ends[4] ? 4 : cut < ends[5] ? 5 : 6;

        if (read_all(plog, tags, 16) == i && offsets(plog).log_end == i * 2
            && file_size(name) == ends[i - 1]
            && truncated == (cut != ends[i - 1])
            && append_plain(plog, 1, 10, 99, 5000) == KL_OK
            && read_all(plog, tags, 16) == i + 1 && tags[i] == 99)
        {
            right++;
        } else {
            diag("wrong at %d", (int) cut);
        }

        torn += truncated && files_with(".torn.") == 1;
    }

    is(right, size - ends[3] + 1, "torn at each byte of the last two batches");
    is(torn, size - ends[3] + 1 - 3, "what is cut off is kept aside");

    restore();
    run("head -c 3000 /dev/urandom >> %s", file_path(name));
    is(restart(&truncated), KL_OK, "random bytes behind the end");
    is(read_all(plog, tags, 16), 6, "are cut off");

    restore();
    run("head -c 300000 /dev/zero >> %s", file_path(name));
    is(restart(&truncated), KL_OK, "zeros behind the end");
    is(read_all(plog, tags, 16), 6, "are cut off");
    is(file_size(name), size, "all of them");

    end();
}


static void
test_corrupt(void)
{
    int       i, refused, total, untouched, named;
    bool      truncated;
    char      name[64];
    int64_t   pos, ends[8], size;
    uint32_t  tags[16];
    kl_slice_t  s;
    kl_append_t res;
    batch_t    *x = malloc(sizeof(batch_t));

    begin(1 << 30);

    for (i = 0; i < 5; i++) {
        append_plain(plog, 2, 40, (uint32_t) i, 1000 + i);
        ends[i] = offsets(plog).bytes;
    }

    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    size = file_size(name);
    save();

    refused = total = untouched = named = 0;

    /* every byte of the third batch but those of the leader epoch, which no
       CRC covers and nothing depends on */
    for (pos = ends[1]; pos < ends[2]; pos++) {

        if (pos - ends[1] >= 12 && pos - ends[1] < 16) {
            continue;
        }

        restore();
        put_byte(name, pos, 0x10);
        total++;

        refused += restart(&truncated) == KL_CORRUPT && !truncated;
        untouched += file_size(name) == size && files_with(".torn.") == 0;
        named += strstr(last_line, "partition") != NULL
                 && last_level == KL_LOG_CRIT;
    }

    is(refused, total, "a flipped bit before a valid batch is refused");
    is(untouched, total, "and nothing is touched");
    is(named, total, "and said at level crit");

    is(offsets(plog).state, KL_FAILED_STATE, "the partition is offline");
    is(append_plain(plog, 1, 10, 0, 1), KL_FAILED, "no append");
    is(kl_read(plog, 0, 1, 100, true, &s), KL_FAILED, "no read");

    restore();
    is(kl_recover(plog, 0, &config, &truncated), KL_OK,
       "recovered once the file is whole again");
    is(read_all(plog, tags, 16), 5, "all is there");

    /* a write that never got to the disk, though the next one did */
    restore();
    put_zeros(name, ends[2], ends[3] - ends[2]);
    is(restart(&truncated), KL_OK, "a hole before the last batch");
    is(read_all(plog, tags, 16), 3, "the log ends before it");
    is(files_with(".torn."), 1, "what was cut is kept");

    batch_make(x, 1, 8000, 7, 2000);
    restore();
    restart(&truncated);
    append(plog, x, &res);
    append_plain(plog, 1, 10, 8, 2001);
    put_zeros(name, ends[4] + 4000, (int64_t) x->len - 4000);
    is(restart(&truncated), KL_OK, "a batch of which only the start arrived");
    is(read_all(plog, tags, 16), 5, "the log ends before it");

    free(x);
    end();
}


static void
test_point(void)
{
    int       i;
    bool      truncated;
    char      name[64];
    int64_t   at, size;
    uint32_t  tags[16];

    begin(1 << 30);

    for (i = 0; i < 5; i++) {
        append_plain(plog, 2, 40, (uint32_t) i, 1000 + i);
    }

    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    is(kl_checkpoint(plog, false), KL_OK, "checkpoint");
    at = file_size(name);

    for (i = 5; i < 8; i++) {
        append_plain(plog, 2, 40, (uint32_t) i, 1000 + i);
    }

    size = file_size(name);
    save();

    if (truncate(file_path(name), at - 1) != 0) {
        perror("truncate");
    }

    is(restart(&truncated), KL_CORRUPT, "short of the recovery point: refused");
    is(file_size(name), at - 1, "and nothing is touched");

    restore();
    if (truncate(file_path(name), at + 1) != 0) {
        perror("truncate");
    }

    is(restart(&truncated), KL_OK, "short behind it");
    is(read_all(plog, tags, 16), 5, "is cut");
    ok(truncated, "and told");

    restore();
    put_byte(name, at - 5, 1);
    put_zeros(name, at, size - at);
    is(restart(&truncated), KL_CORRUPT, "a bad batch right below the point");
    is(file_size(name), size, "nothing is touched");

    restore();
    is(restart(&truncated), KL_OK, "whole");
    is(read_all(plog, tags, 16), 8, "all is there");

    is(kl_checkpoint(plog, true), KL_OK, "clean stop");
    put_byte(name, 70, 1);
    is(restart(&truncated), KL_OK, "a clean mark: no scan");
    is(offsets(plog).log_end, 16, "the end is known");
    is(offsets(plog).flushed, 16, "and flushed");
    ok(!truncated, "nothing is cut");
    put_byte(name, 70, 1);

    append_plain(plog, 2, 40, 8, 1008);
    is(restart(&truncated), KL_OK, "an append after the clean mark");
    is(read_all(plog, tags, 16), 9, "is found");

    run("echo rubbish > %s", file_path("checkpoint"));
    is(restart(&truncated), KL_OK, "a checkpoint that is no good");
    is(read_all(plog, tags, 16), 9, "the whole log is scanned");
    ok(strstr(last_line, "checkpoint") != NULL, "and told");

    kl_checkpoint(plog, false);
    run("rm %s", file_path("*.log"));
    is(restart(&truncated), KL_CORRUPT, "segments that are gone");

    end();
}


static int
same_file(const char *a, const char *b)
{
    char  cmd[3000];

    snprintf(cmd, sizeof(cmd), "cmp -s %s/" DIR_OF_TOPIC "/%s "
             "%s.saved/" DIR_OF_TOPIC "/%s", data_dir, a, data_dir, b);

    return system(cmd) == 0;
}


/* The indexes of a log that was stopped cleanly, and of the same one recovered
 * from different points, are the same bytes. */
static void
test_indexes(void)
{
    int       i, k;
    bool      truncated;
    char      name[3][64];
    int64_t   base;

    begin(40000);

    for (i = 0; i < 400; i++) {
        append_plain(plog, 1, 100 + (size_t) (i * 37 % 500), (uint32_t) i,
                     1000 + (i * 7919) % 300);

        if (i == 220 || i == 377) {
            kl_checkpoint(plog, false);
        }

        if (i == 377) {
            run("cp %s %s.point", file_path("checkpoint"), data_dir);
        }
    }

    kl_checkpoint(plog, true);
    base = kl_active_base(plog);
    ok(files_with(".log") > 3, "%d segments", files_with(".log"));
    save();

    for (k = 0; k < 4; k++) {

        restore();

        if (k == 0) {
            run("rm %s", file_path("checkpoint"));

        } else if (k == 1) {
            run("rm %s", file_path("checkpoint"));
            run("rm %s", file_path("*index"));

        } else if (k == 2) {
            /* from the index entry before the point */
            run("cp %s.point %s", data_dir, file_path("checkpoint"));

        } else {
            /* what is in the index behind the point is rubbish */
            run("cp %s.point %s", data_dir, file_path("checkpoint"));
            snprintf(name[0], sizeof(name[0]), "%s",
                     segment_name(base, ".index"));
            run("head -c 100000 /dev/urandom >> %s", file_path(name[0]));
        }

        is(restart(&truncated), KL_OK, "recovers");
        is(read_all(plog, NULL, 0), 400, "has all batches");

        kl_checkpoint(plog, true);

        snprintf(name[0], sizeof(name[0]), "%s", segment_name(0, ".index"));
        snprintf(name[1], sizeof(name[1]), "%s", segment_name(base, ".index"));
        snprintf(name[2], sizeof(name[2]), "%s",
                 segment_name(base, ".timeindex"));

        ok(same_file(name[0], name[0]), "the first index is the same");
        ok(same_file(name[1], name[1]), "the last index is the same");
        ok(same_file(name[2], name[2]), "the last time index is the same");
    }

    restore();
    snprintf(name[0], sizeof(name[0]), "%s", segment_name(0, ".index"));
    run("rm %s", file_path(name[0]));
    snprintf(name[1], sizeof(name[1]), "%s", segment_name(0, ".timeindex"));
    run("rm %s", file_path(name[1]));
    is(restart(&truncated), KL_OK, "a closed segment without indexes");
    ok(same_file(name[0], name[0]) && same_file(name[1], name[1]),
       "gets them again");

    run("rm -f %s.point", data_dir);
    end();
}


static void
test_segments(void)
{
    int       i;
    bool      truncated;
    char      name[64];
    int64_t   base, size, flushed;

    begin(1000);

    for (i = 0; i < 40; i++) {
        append_plain(plog, 1, 100, (uint32_t) i, 1000 + i);
    }

    base = kl_active_base(plog);
    save();

    /* the end of a closed segment never got to the disk, the next one did */
    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    size = file_size(name);

    if (truncate(file_path(name), size - 10) != 0) {
        perror("truncate");
    }

    is(restart(&truncated), KL_OK, "the end of a closed segment is lost");
    is(read_all(plog, NULL, 0), 4, "the log ends there");
    is(files_with(".log"), 1, "later segments are gone");
    ok(files_with(".torn.") > 3, "but kept aside");
    is(append_plain(plog, 1, 100, 0, 1), KL_OK, "an append");
    is(read_all(plog, NULL, 0), 5, "is read back");

    restore();
    put_byte(name, 100, 1);
    is(restart(&truncated), KL_CORRUPT, "a flipped bit in a closed segment");

    restore();
    snprintf(name, sizeof(name), "%s", segment_name(base, ".log"));

    if (truncate(file_path(name), 0) != 0) {
        perror("truncate");
    }

    is(restart(&truncated), KL_OK, "an empty last segment");
    is(offsets(plog).log_end, base, "the log ends at its base");
    ok(!truncated, "nothing was cut off that we could see");

    /* not lost, when it is flushed */
    restore();
    restart(&truncated);
    kl_flush(plog, &flushed);
    kl_checkpoint(plog, false);

    if (truncate(file_path(name), 0) != 0) {
        perror("truncate");
    }

    is(restart(&truncated), KL_CORRUPT, "the same below the recovery point");

    end();
}


static void
test_names(void)
{
    bool       truncated;
    int        i;
    int32_t    epoch;
    int64_t    offset;
    kl_append_t res;
    batch_t   *x = malloc(sizeof(batch_t));
    kf_uuid_t  other = topic_id;

    begin(1 << 30);

    for (i = 0; i < 4; i++) {
        batch_make(x, 3, 10, (uint32_t) i, 1);
        kl_append(plog, x->data, &x->b, &config, i / 2 * 5, 1000, &res);
    }

    is(offsets(plog).leader_epoch, 5, "the epoch of the last append");
    kl_epoch_end(plog, 5, &epoch, &offset);
    ok(epoch == 5 && offset == 12, "the current epoch ends at the log's end");
    kl_epoch_end(plog, 0, &epoch, &offset);
    ok(epoch == 0 && offset == 6, "an older one where the next begins");
    kl_epoch_end(plog, 3, &epoch, &offset);
    ok(epoch == 0 && offset == 6, "one between is the older one");
    kl_epoch_end(plog, 6, &epoch, &offset);
    ok(epoch == -1 && offset == -1, "none above the current");
    is(kl_epoch_of(plog, 5), 0, "epoch of an offset");
    is(kl_epoch_of(plog, 6), 5, "epoch of the next offset");

    is(restart(&truncated), KL_OK, "restart");
    kl_epoch_end(plog, 0, &epoch, &offset);
    ok(epoch == 0 && offset == 6, "the epochs are still known");

    run("> %s", file_path("leader-epoch-checkpoint"));
    is(restart(&truncated), KL_OK, "their file emptied by a power cut");
    kl_epoch_end(plog, 0, &epoch, &offset);
    ok(epoch == 0 && offset == 6, "the epochs are in the batches");

    run("printf '0\\n1\\n0 0\\n' > %s", file_path("leader-epoch-checkpoint"));
    is(restart(&truncated), KL_OK, "its last line lost");
    kl_epoch_end(plog, 0, &epoch, &offset);
    ok(epoch == 0 && offset == 6, "that epoch is in the batches");
    is(offsets(plog).leader_epoch, 5, "the last epoch too");

    run("truncate -s 30 %s", file_path("partition.metadata"));
    is(restart(&truncated), KL_OK, "partition.metadata cut short");
    is(file_size("partition.metadata"), 22 + 11 + 10, "is written again");
    run("> %s", file_path("partition.metadata"));
    is(restart(&truncated), KL_OK, "partition.metadata emptied");
    is(files_with("partition.metadata"), 1, "it is written again");
    is(file_size("partition.metadata"), 22 + 11 + 10, "with version and id");

    other.b[3] ^= 1;
    kl_log_close(plog);
    i = kl_bind(shared, other, 0);
    {
        kl_offsets_t  o;

        kl_snapshot(kl_part(shared, i), &o);
        plog = kl_log_open(env, i, o.incarnation, other, kf_str(TOPIC), 0);
    }
    is(kl_recover(plog, 0, &config, &truncated), KL_CORRUPT,
       "the directory of another topic id");
    is(append_plain(plog, 1, 10, 0, 1), KL_CORRUPT, "is not written to");
    is(file_size("partition.metadata"), 22 + 11 + 10, "nor changed");
    data_remove(file_path(""));
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "once it is gone it works");

    free(x);
    end();
}


/* Who has read the broker's epoch before it was raised, and appends after. */
static void
test_late_epoch(void)
{
    bool         truncated;
    int32_t      epoch;
    int64_t      offset;
    batch_t     *x = malloc(sizeof(batch_t));
    kl_append_t  res;

    begin(1 << 30);

    batch_make(x, 3, 10, 0, 1);
    kl_append(plog, x->data, &x->b, &config, 5, 1000, &res);
    batch_make(x, 3, 10, 1, 1);
    kl_append(plog, x->data, &x->b, &config, 4, 1000, &res);
    is(x->b.leader_epoch, 5, "a partition's epoch does not go back");

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 7, &config, &truncated), KL_OK, "a later start");

    batch_make(x, 3, 10, 2, 1);
    kl_append(plog, x->data, &x->b, &config, 6, 1000, &res);
    is(x->b.leader_epoch, 7, "nothing is appended in an epoch before it");
    kl_epoch_end(plog, 5, &epoch, &offset);
    ok(epoch == 5 && offset == 6, "the one before has its end there");

    free(x);
    end();
}


int
main(void)
{
    test_torn();
    test_corrupt();
    test_point();
    test_indexes();
    test_segments();
    test_names();
    test_late_epoch();

    return done_testing();
}
