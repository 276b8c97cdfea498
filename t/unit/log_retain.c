/*
 * Retention, DeleteRecords, cleaning of the journal, removal, the sweep, the
 * list of open files.
 */

#include "log_lib.h"

#define PARTS  4
#define PRODS  8

static batch_t      x;
static kl_append_t  res;


static void
begin(int batches)
{
    int  i;

    config.segment_bytes = 1000;
    config.retention_ms = -1;
    config.retention_bytes = -1;
    data_make();
    broker_start(PARTS, PRODS);

    for (i = 0; i < batches; i++) {
        append_plain(plog, 1, 250, (uint32_t) i, 1000 * i);
    }
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static int
open_files(void)
{
    DIR            *d = opendir("/proc/self/fd");
    int             n = 0;
    char            path[512], to[512];
    ssize_t         len;
    struct dirent  *de;

    while ((de = readdir(d)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", de->d_name);
        len = readlink(path, to, sizeof(to) - 1);
        if (len > 0) {
            to[len] = '\0';
            n += strstr(to, data_dir) != NULL && strstr(to, ".log") != NULL;
        }
    }

    closedir(d);

    return n;
}


static kl_rc_t
restart(void)
{
    bool  truncated;

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);

    return kl_recover(plog, 0, &config, &truncated);
}


static void
test_time(void)
{
    uint32_t  removed;

    begin(12);                          /* three to a segment */
    is(files_with(".log"), 4, "four segments");

    config.retention_ms = 5000;
    is(kl_retain(plog, &config, 9999, 100, &removed), KL_OK, "by time");
    is(removed, 1, "the first, whose last record is older than that");
    is(offsets(plog).log_start, 3, "the start moves");
    is(files_with(".log"), 3, "the files are gone");
    is(files_with(".index"), 3, "the index too");
    is(read_all(plog, NULL, 0), 9, "the rest is readable");

    is(kl_retain(plog, &config, 999999, 6, &removed), KL_OK,
       "not past the high watermark");
    is(removed, 1, "one");
    is(offsets(plog).log_start, 6, "up to it");

    kl_slice_t  s;

    is(kl_read(plog, 6, 12, 1000, true, &s), KL_OK, "a slice is taken");
    is(kl_retain(plog, &config, 999999, 12, &removed), KL_OK,
       "everything is old");
    is(removed, 2, "the active segment goes too");
    is(offsets(plog).log_start, 12, "the start is the end");
    is(offsets(plog).bytes, 0, "no bytes");

    uint8_t     buf[2000];
    kf_batch_t  b;

    is(pread(s.fd, buf, s.len, s.pos), s.len, "the slice can still be sent");
    ok(kf_batch_header(buf, s.len, &b) == KF_OK && b.base_offset == 6,
       "and holds what it did");
    kl_file_unref(s.file);

    is(kl_read(plog, 6, 12, 1000, true, &s), KL_OUT_OF_RANGE, "it is gone");
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "an append");
    is(offsets(plog).log_end, 13, "goes on where it was");
    is(restart(), KL_OK, "restart");
    is(offsets(plog).log_start, 12, "the start is kept");
    is(read_all(plog, NULL, 0), 1, "what is left is there");

    end();
}


static void
test_size(void)
{
    uint32_t  removed;
    int64_t   one;

    begin(12);
    one = offsets(plog).bytes / 12;

    config.retention_bytes = one * 7;
    is(kl_retain(plog, &config, 0, 100, &removed), KL_OK, "by size");
    is(removed, 1, "one whole segment");
    config.retention_bytes = one * 6;
    is(kl_retain(plog, &config, 0, 100, &removed), KL_OK, "a smaller bound");
    is(removed, 1, "exactly the bound is kept");
    is(offsets(plog).bytes, one * 6, "bytes");
    config.retention_bytes = -1;
    is(kl_retain(plog, &config, INT64_MAX, 100, &removed), KL_OK, "no bound");
    is(removed, 0, "nothing goes");

    end();
}


static void
test_delete(void)
{
    int64_t     start;
    uint32_t    removed;
    kl_slice_t  s;

    begin(12);

    is(kl_delete_records(plog, 4, &start), KL_OK, "delete records");
    is(start, 4, "the new start");
    is(kl_read(plog, 3, 12, 1000, true, &s), KL_OUT_OF_RANGE, "below it");
    is(kl_read(plog, 4, 12, 1000, true, &s), KL_OK, "from it");
    is(s.first_offset, 4, "is right");
    kl_file_unref(s.file);
    is(kl_delete_records(plog, 2, &start), KL_OK, "further down");
    is(start, 4, "changes nothing");
    is(kl_delete_records(plog, 13, &start), KL_OUT_OF_RANGE, "past the end");

    is(restart(), KL_OK, "restart");
    is(offsets(plog).log_start, 4, "it is durable");
    is(kl_retain(plog, &config, 0, 100, &removed), KL_OK, "retention");
    is(removed, 1, "removes what is wholly below");

    is(kl_delete_records(plog, 12, &start), KL_OK, "all of it");
    is(start, 12, "the start is the end");
    is(restart(), KL_OK, "restart");
    is(offsets(plog).log_start, 12, "it is durable");
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "an append");
    is(read_all(plog, NULL, 0), 1, "is all there is");

    end();
}


static void
test_drop(void)
{
    begin(12);

    is(kl_active_base(plog), 9, "the active segment's base");
    is(kl_drop_below(plog, 8), KL_OK, "drop below");
    is(offsets(plog).log_start, 6, "whole segments only");
    is(kl_drop_below(plog, 1000), KL_OK, "drop all");
    is(offsets(plog).log_start, 9, "but never the active one");
    is(read_all(plog, NULL, 0), 3, "which is readable");
    is(restart(), KL_OK, "restart");
    is(offsets(plog).log_start, 9, "the start is kept");

    end();
}


static bool
known(void *ctx, kf_str_t topic, int32_t partition)
{
    int  *n = ctx;

    (*n)++;

    return kf_str_eq(topic, kf_str(TOPIC)) && partition == 0;
}


/* Directories that wait for their files to go. */
static int
leftovers(void)
{
    DIR            *d = opendir(data_dir);
    int             n = 0;
    size_t          len;
    struct dirent  *de;

    while ((de = readdir(d)) != NULL) {
        len = strlen(de->d_name);
        n += len > 7 && strcmp(de->d_name + len - 7, "-delete") == 0;
    }

    closedir(d);

    return n;
}


static bool
stops(void *ctx)
{
    return (*(int *) ctx)-- <= 0;
}


static void
test_remove(void)
{
    int          n = 0;
    char         path[600];
    kl_log_t    *old;
    kl_slice_t   s;
    struct stat  st;

    begin(3);

    is(kl_read(plog, 0, 3, 1000, true, &s), KL_OK, "a slice is taken");

    snprintf(path, sizeof(path), "%s/strange", data_dir);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/other-3", data_dir);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/__journal-0", data_dir);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/" TOPIC "-00", data_dir);
    mkdir(path, 0755);

    lines_n = 0;
    kl_sweep(env, known, &n);
    is(lines_n, 3, "three directories that nobody knows");
    is(n, 2, "the two that look like partitions are asked for");
    ok(stat(path, &st) == 0, "they are left alone");

    is(kl_remove(plog), KL_OK, "remove");
    ok(stat(file_path(""), &st) != 0, "the directory is gone");
    is(leftovers(), 1, "it has another name");
    is(append_plain(plog, 1, 10, 0, 1), KL_GONE, "no append");

    kl_slice_t  t;

    is(kl_read(plog, 0, 3, 1000, true, &t), KL_GONE, "no read");
    ok(s.len > 0 && pread(s.fd, path, 100, s.pos) == 100,
       "the slice can still be sent");
    kl_file_unref(s.file);
    is(open_files(), 0, "nothing of it is open");

    kl_release(shared, 0);
    old = plog;
    topic_id.b[0]++;
    plog = log_of(env, kl_bind(shared, topic_id, 0));
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "a topic of the same name");
    is(offsets(plog).log_end, 1, "begins anew");
    is(kl_remove(old), KL_GONE, "to remove the old one again");
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "does nothing to the new one");
    kl_log_close(old);

    lines_n = 0;
    n = 0;
    kl_sweep(env, known, &n);
    is(lines_n, 3, "what is being removed is not reported");

    is(kl_remove_files(env, NULL, NULL), KL_OK, "the files are removed");
    is(leftovers(), 0, "with their directory");
    is(append_plain(plog, 1, 10, 0, 1), KL_OK, "the new topic has its own");
    ok(stat(file_path(""), &st) == 0, "in its directory");
    is(kl_remove_files(env, NULL, NULL), KL_OK, "again: nothing to do");

    end();
}


/* An earlier removal of the same name has not been finished. */
static void
test_remove_twice(void)
{
    int      i, n;
    char     path[1024];
    int32_t  slot = 0;

    begin(3);
    topic_id.b[15] = 0xff;

    for (i = 0; i < 3; i++) {
        kl_release(shared, slot);
        kl_log_close(plog);
        data_remove(file_path(""));
        slot = kl_bind(shared, topic_id, 0);
        plog = log_of(env, slot);
        is(append_plain(plog, 1, 10, 0, 1), KL_OK, "a partition");
        is(kl_remove(plog), KL_OK, "is removed");
        is(leftovers(), i + 1, "beside those that were before");
    }

    n = 1;
    is(kl_remove_files(env, stops, &n), KL_OK, "a removal is stopped");
    ok(leftovers() >= 2, "before its end");

    snprintf(path, sizeof(path), "%s/sub." "00000000000000000000000000000000"
             "-delete", data_dir);
    mkdir(path, 0755);
    strcat(path, "/directory");
    mkdir(path, 0755);

    lines_n = 0;
    is(kl_remove_files(env, NULL, NULL), KL_STORAGE_ERROR,
       "one that cannot be removed is told of");
    is(lines_n, 1, "in a line");
    is(leftovers(), 1, "and keeps no other");

    end();
}


static void
test_long_name(void)
{
    int           i;
    char          name[300];
    int32_t       slot;
    kf_uuid_t     id = { { 9 } };
    kl_log_t     *log;
    kl_offsets_t  o;

    begin(0);
    memset(name, 'n', sizeof(name));

    for (i = 0; i < 2; i++) {
        slot = kl_bind(shared, id, i ? INT32_MAX : 99999);
        kl_snapshot(kl_part(shared, slot), &o);
        log = kl_log_open(env, slot, o.incarnation, id,
                          (kf_str_t) { (uint8_t *) name, 249 },
                          i ? INT32_MAX : 99999);

        batch_make(&x, 1, 10, 0, 1);
        is(append(log, &x, &res), i ? KL_STORAGE_ERROR : KL_OK,
           i ? "a name that no file system takes" : "the longest topic name");

        if (i == 0) {
            is(kl_remove(log), KL_OK, "and its removal");
            is(leftovers(), 1, "leaves a name that is cut");
            is(kl_remove_files(env, NULL, NULL), KL_OK, "which is known");
            is(leftovers(), 0, "and goes");
        }

        kl_log_close(log);
    }

    end();
}


static void
test_files(void)
{
    int       i, k, n = 0, most = 0;
    int64_t   flushed;

    begin(90);                          /* 30 segments, 4 may be open */
    kl_flush(plog, &flushed);

    for (k = 0; k < 3; k++) {
        for (i = 0; i < 90; i += 3) {
            kl_slice_t  s;

            n += kl_read(plog, i, 90, 100, true, &s) == KL_OK;
            kl_file_unref(s.file);
            most = open_files() > most ? open_files() : most;
        }
    }

    is(n, 90, "all segments are read");
    ok(most <= 5, "with %d files open", most);

    is(kl_drop_below(plog, 1000), KL_OK, "drop");
    ok(open_files() <= 1, "closes them");

    end();
}


static void
test_table(void)
{
    int        i, n, k;
    kf_uuid_t  id = { { 0 } };

    data_make();
    broker_start(100, 10);

    n = 0;

    for (k = 0; k < 50; k++) {
        for (i = 1; i < 100; i++) {
            id.b[1] = (uint8_t) (k & 1);
            n += kl_bind(shared, id, i) == kl_bind(shared, id, i);
        }

        is(kl_bind(shared, id, 1000), -1, "the table is full");

        kl_mark_unbound(shared);
        kl_bind(shared, topic_id, 0);
        kl_bind(shared, id, 7);
        kl_release_unbound(shared);

        for (i = 1; i < 100; i++) {
            if (i != 7) {
                n -= kl_bind(shared, id, i) >= 0;
            }
        }

        kl_mark_unbound(shared);
        kl_bind(shared, topic_id, 0);
        kl_release_unbound(shared);
    }

    is(n, 50, "binding is stable, releasing gives back");
    is(kl_bind(shared, topic_id, 0), 0, "the first one kept its slot");

    broker_end(100, 10);
    data_remove(data_dir);
}


int
main(void)
{
    test_time();
    test_size();
    test_delete();
    test_drop();
    test_remove();
    test_remove_twice();
    test_long_name();
    test_files();
    test_table();

    return done_testing();
}
