/*
 * Failing system calls and dying processes.  The log is compiled in here with
 * its fault points; a test fails if its point was not reached.
 */

#define KL_FAULTS

#include "../../log/kl_append.c"
#include "../../log/kl_checkpoint.c"
#include "../../log/kl_env.c"
#include "../../log/kl_epoch.c"
#include "../../log/kl_file.c"
#include "../../log/kl_flush.c"
#include "../../log/kl_index.c"
#include "../../log/kl_io.c"
#include "../../log/kl_metadata.c"
#include "../../log/kl_open.c"
#include "../../log/kl_pool.c"
#include "../../log/kl_producer.c"
#include "../../log/kl_read.c"
#include "../../log/kl_recover.c"
#include "../../log/kl_remove.c"
#include "../../log/kl_repair.c"
#include "../../log/kl_retain.c"
#include "../../log/kl_scan.c"
#include "../../log/kl_segment.c"
#include "../../log/kl_shared.c"
#include "../../log/kl_snapshot.c"
#include "../../log/kl_time.c"
#include "../../log/kl_txn.c"
#include "../../log/kl_txnindex.c"

#include <sys/resource.h>

#include "log_lib.h"

#define PARTS  2
#define PRODS  16

static const char  *fault_point;        /* NULL: none */
static int          fault_after;        /* times it is passed before */
static int          fault_errno;        /* 0: die */
static int          fault_hits;

static batch_t      x;
static kl_append_t  res;


static int
hook(const char *point)
{
    if (fault_point == NULL || strcmp(point, fault_point) != 0
        || fault_after-- > 0)
    {
        return 0;
    }

    fault_hits++;

    if (fault_errno == 0) {
        kill(getpid(), SIGKILL);
        pause();
    }

    return fault_errno;
}


static void
fault(const char *point, int after, int err)
{
    fault_point = point;
    fault_after = after;
    fault_errno = err;
    fault_hits = 0;
}


static void
begin(void)
{
    config.segment_bytes = 1 << 30;
    config.index_interval_bytes = 100;
    fault(NULL, 0, 0);
    data_make();
    broker_start(PARTS, PRODS);
}


static void
end(void)
{
    fault(NULL, 0, 0);
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static kl_rc_t
restart(void)
{
    bool  truncated;

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);

    return kl_recover(plog, 0, &config, &truncated);
}


static kl_rc_t
put(int64_t pid, int32_t seq, size_t size)
{
    batch_make(&x, 1, size, (uint32_t) seq, 1000 + seq);
    batch_producer(&x, pid, 0, seq, 0);

    return append(plog, &x, &res);
}


/* An append that fails changes nothing, and the next one goes through. */
static void
failing_append(const char *point, int after, int err, const char *label)
{
    int64_t       size;
    char          name[64];
    kl_offsets_t  a, b;

    begin();

    for (int i = 0; i < 5; i++) {
        put(1, i, 100);
    }

    if (strcmp(point, "create") == 0) {
        config.segment_bytes = 100;
    }

    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    a = offsets(plog);
    size = file_size(name);

    fault(point, after, err);
    is(put(1, 5, 100), KL_STORAGE_ERROR, label);
    is(fault_hits, 1, "the point was reached");
    ok(last_level == KL_LOG_CRIT, "it is logged");
    fault(NULL, 0, 0);

    b = offsets(plog);
    ok(a.state == b.state && a.log_end == b.log_end && a.bytes == b.bytes
       && a.log_start == b.log_start && a.flushed == b.flushed,
       "the numbers are as before");
    is(file_size(name), size, "the file too");
    is(files_with(".log"), 1, "no other segment");

    is(put(1, 5, 100), KL_OK, "then it works");
    ok(!res.duplicate, "and is no duplicate");
    is(put(1, 5, 100), KL_OK, "the next time");
    ok(res.duplicate, "it is one");
    is(read_all(plog, NULL, 0), 6, "all is there");
    is(restart(), KL_OK, "restart");
    is(read_all(plog, NULL, 0), 6, "all is there");

    end();
}


static void
test_full_disk(void)
{
    int64_t        size;
    char           name[64];
    struct rlimit  old, lim;

    begin();

    for (int i = 0; i < 5; i++) {
        put(1, i, 100);
    }

    snprintf(name, sizeof(name), "%s", segment_name(0, ".log"));
    size = file_size(name);

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    lim = old;
    lim.rlim_cur = (rlim_t) size + 50;
    setrlimit(RLIMIT_FSIZE, &lim);

    is(put(1, 5, 100), KL_STORAGE_ERROR, "a write that is cut short");
    is(file_size(name), size, "is taken back");
    setrlimit(RLIMIT_FSIZE, &old);

    is(put(1, 5, 100), KL_OK, "when there is space again");
    is(read_all(plog, NULL, 0), 6, "all is there");

    fault("ftruncate", 0, EIO);
    setrlimit(RLIMIT_FSIZE, &lim);
    is(put(1, 6, 100), KL_STORAGE_ERROR, "if it cannot be taken back");
    setrlimit(RLIMIT_FSIZE, &old);
    is(fault_hits, 1, "the point was reached");
    fault(NULL, 0, 0);
    is(offsets(plog).state, KL_FAILED_STATE, "the partition is offline");
    is(put(1, 6, 100), KL_FAILED, "and takes nothing");
    {
        bool  truncated;

        is(kl_recover(plog, 0, &config, &truncated), KL_OK, "until reopened");
    }
    is(put(1, 6, 100), KL_OK, "then it does");
    is(read_all(plog, NULL, 0), 7, "all is there");

    end();
}


static void
failing_flush(const char *point, int after, int names)
{
    bool     truncated;
    int      i;
    int64_t  flushed, before = 0;

    begin();

    if (!names) {
        /* the directory is synced already: only data is left */
        append_plain(plog, 1, 10, 0, 1);
        kl_flush(plog, &before);
    }

    for (i = 0; i < 3; i++) {
        put(1, i, 100);
    }

    fault(point, after, EIO);
    is(kl_flush(plog, &flushed), KL_STORAGE_ERROR, "a flush that fails");
    is(fault_hits, 1, "the point was reached");
    ok(last_level == KL_LOG_CRIT && strstr(last_line, DIR_OF_TOPIC) != NULL,
       "a line at level crit names the partition");
    is(lines_n, 1, "one line");
    fault(NULL, 0, 0);

    is(offsets(plog).flushed, before, "nothing is flushed");
    is(kl_flush(plog, &flushed), KL_FAILED, "no second try");
    is(offsets(plog).flushed, before, "nothing is flushed");
    is(put(1, 3, 100), KL_FAILED, "nothing is taken");
    is(kl_checkpoint(plog, true), KL_FAILED, "no checkpoint");

    is(kl_recover(plog, 0, &config, &truncated), KL_OK, "reopened");
    is(put(1, 3, 100), KL_OK, "it goes on");
    is(kl_flush(plog, &flushed), KL_OK, "and is flushed");
    is(flushed, before + 4, "to the end");
    is(read_all(plog, NULL, 0), (int) before + 4, "all is there");

    end();
}


/* Runs work in a process that dies at the point; true: it died there. */
static bool
dies(const char *point, int after, void (*work)(kl_log_t *log))
{
    int        status;
    pid_t      pid;
    kl_env_t  *e;

    fflush(stdout);
    pid = fork();

    if (pid == 0) {
        /* a worker has its own descriptors */
        e = env_make(4);
        fault(point, after, 0);
        work(log_of(e, 0));
        _exit(0);
    }

    waitpid(pid, &status, 0);

    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}


static int32_t  dying_seq;
static int64_t  dying_pid;

static void
work_append(kl_log_t *log)
{
    batch_make(&x, 1, 100, (uint32_t) dying_seq, 1000 + dying_seq);
    batch_producer(&x, dying_pid, 0, dying_seq, 0);
    append(log, &x, &res);
}


static void
dying_append(const char *point, int after, int roll, int new_producer)
{
    int      i;
    char     label[128];
    int64_t  size;

    begin();

    for (i = 0; i < 7; i++) {
        put(1, i, 100);
    }

    dying_pid = new_producer ? 2 : 1;
    dying_seq = new_producer ? 40 : 7;

    if (roll) {
        config.segment_bytes = 100;
    }

    snprintf(label, sizeof(label), "a process dies in an append at %s (%d)%s%s",
             point, after, roll ? ", rolling" : "",
             new_producer ? ", new producer" : "");

    ok(dies(point, after, work_append), "%s", label);

    is(offsets(plog).log_end, 7, "nothing of it is published");
    is(offsets(plog).state, KL_OPEN, "readers go on");
    is(read_all(plog, NULL, 0), 7, "and read what there is");

    config.segment_bytes = 1 << 30;
    is(append_plain(plog, 1, 4, 0, 1), KL_OK, "a smaller batch");
    size = file_size(segment_name(0, ".log"));

    if (kl_active_base(plog) != 0) {
        /* the roll was done before it died */
        size += file_size(segment_name(7, ".log"));
    }

    is(size, offsets(plog).bytes, "nothing is behind it");
    is(files_with(".log"), kl_active_base(plog) ? 2 : 1,
       "nor is another segment");
    is(put(dying_pid, dying_seq, 100), KL_OK, "the client tries again");
    ok(!res.duplicate && res.base_offset == 8, "and it is appended, once");
    is(put(dying_pid, dying_seq, 100), KL_OK, "again");
    ok(res.duplicate, "a duplicate now");
    is(put(dying_pid, dying_seq + 1, 100), KL_OK, "the next");
    is(put(1, 5, 100), KL_OK, "the window is whole");
    ok(res.duplicate && res.base_offset == 5, "and right");
    is(offsets(plog).state, KL_OPEN, "the partition is open");
    is(read_all(plog, NULL, 0), 10, "all is there");

    is(restart(), KL_OK, "restart");
    is(read_all(plog, NULL, 0), 10, "all is there");

    end();
}


static void
work_checkpoint(kl_log_t *log)
{
    kl_checkpoint(log, true);
}


static void
work_retain(kl_log_t *log)
{
    uint32_t  removed;

    kl_retain(log, &config, 1000000, INT64_MAX, &removed);
}


static void
work_remove(kl_log_t *log)
{
    kl_remove(log);
}


static void
work_files(kl_log_t *log)
{
    kl_remove_files(log->env, NULL, NULL);
}


static bool
nobody(void *ctx, kf_str_t topic, int32_t partition)
{
    (void) ctx;
    (void) topic;
    (void) partition;

    return false;
}


static void
dying_jobs(void)
{
    int       i, k;
    char      path[1024];
    uint32_t  removed;

    for (k = 0; k < 3; k++) {
        begin();

        for (i = 0; i < 20; i++) {
            put(1, i, 100);
        }

        kl_checkpoint(plog, false);
        put(1, 20, 100);

        ok(dies("rename", k, work_checkpoint) || k == 2,
           "a process dies in a checkpoint (%d)", k);
        is(put(1, 21, 100), KL_OK, "appends go on");
        is(kl_checkpoint(plog, false), KL_OK, "the next checkpoint is made");
        is(restart(), KL_OK, "restart");
        is(put(1, 22, 100), KL_OK, "the sequence goes on");
        is(read_all(plog, NULL, 0), 23, "all is there");

        end();
    }

    for (k = 0; k < 3; k++) {
        begin();
        config.segment_bytes = 400;
        config.retention_bytes = 500;

        for (i = 0; i < 20; i++) {
            put(1, i, 100);
        }

        ok(dies(k == 0 ? "retain.published" : "retain.unlinked", k,
                work_retain), "a process dies in retention (%d)", k);
        is(put(1, 20, 100), KL_OK, "appends go on");
        ok(offsets(plog).log_start > 0, "the start has moved");
        ok(read_all(plog, NULL, 0) > 1, "the rest can be read");
        is(kl_retain(plog, &config, 1000000, INT64_MAX, &removed), KL_OK,
           "the next retention");
        is(restart(), KL_OK, "restart");
        ok(read_all(plog, NULL, 0) > 1, "the rest can be read");
        is(put(1, 21, 100), KL_OK, "the sequence goes on");

        config.retention_bytes = -1;
        end();
    }

    begin();
    put(1, 0, 100);
    ok(dies("remove.renamed", 0, work_remove), "a process dies in a removal");
    is(put(1, 1, 100), KL_GONE, "the partition is gone");
    kl_release(shared, 0);
    snprintf(path, sizeof(path), "ls -d %s/*-delete > /dev/null", data_dir);
    is(system(path), 0, "the directory is there, renamed");
    kl_sweep(env, nobody, NULL);
    is(lines_n, 0, "the sweep does not complain of it");
    ok(dies("remove.unlink", 2, work_files), "a process dies among its files");
    is(system(path), 0, "the directory is still there");
    fault("syncdir", 0, EIO);
    is(kl_remove_files(env, NULL, NULL), KL_STORAGE_ERROR,
       "no file goes before the new name is on the disk");
    is(fault_hits, 1, "which was asked for");
    is(system(path), 0, "the directory is still there");
    fault(NULL, 0, 0);
    is(kl_remove_files(env, NULL, NULL), KL_OK, "the next one goes on");
    ok(system(path) != 0, "to the end");
    end();
}


/* --- two that remove the same directory ---------------------------------- */

static kl_log_t         *second;        /* the same partition's, another slot */
static _Atomic int       second_began, second_done;
static _Atomic kl_rc_t   second_rc;

static void *
second_remover(void *arg)
{
    (void) arg;

    second_began = 1;
    second_rc = kl_remove(second);

    /* the directory is gone; the name is used again at once */
    if (append_plain(plog, 1, 10, 0, 1) == KL_OK) {
        second_done = 1;
    }

    return NULL;
}


/* Between the first one's look and its rename: all the time that the second one
 * may need. */
static int
second_first(const char *point)
{
    int  i;

    if (strcmp(point, "remove.rename") == 0 && second_began == 0) {
        pthread_t  thread;

        pthread_create(&thread, NULL, second_remover, NULL);
        pthread_detach(thread);

        for (i = 0; i < 100 && !second_done; i++) {
            usleep(3000);
        }
    }

    return 0;
}


static void
two_removers(void)
{
    int           i;
    kl_log_t     *first;
    kf_uuid_t     old = topic_id;
    struct stat   st;
    kl_offsets_t  o;

    begin();
    put(1, 0, 100);
    first = plog;
    kl_release(shared, 0);

    topic_id.b[0]++;
    plog = log_of(env, kl_bind(shared, topic_id, 0));
    is(offsets(plog).state, KL_NEW, "a topic is made again");

    kl_snapshot(kl_part(shared, 1), &o);
    second = kl_log_open(env, 1, o.incarnation, old, kf_str(TOPIC), 0);

    kl_fault_hook = second_first;
    is(kl_remove(first), KL_OK, "one removes the old one's directory");

    for (i = 0; i < 1000 && !second_done; i++) {
        usleep(10000);
    }

    kl_fault_hook = hook;

    is(second_began, 1, "another one does the same meanwhile");
    is(second_rc, KL_OK, "or finds it done");
    is(second_done, 1, "the new topic is used");
    ok(stat(file_path(""), &st) == 0, "and keeps its directory");
    is(kl_remove_files(env, NULL, NULL), KL_OK, "the old one's files go");
    ok(stat(file_path(""), &st) == 0, "and no others");

    kl_log_close(first);
    kl_log_close(second);
    end();
}


/* A deletion that ends while the partition is being made. */
static int
deleted_meanwhile(const char *point)
{
    if (strcmp(point, "create") == 0) {
        kl_release(shared, plog->slot);
    }

    return 0;
}


static void
overtaken(void)
{
    struct stat  st;

    begin();
    is(offsets(plog).state, KL_NEW, "a partition that is new");
    kl_fault_hook = deleted_meanwhile;
    is(put(1, 0, 100), KL_GONE, "is deleted while it is made");
    kl_fault_hook = hook;
    ok(stat(file_path(""), &st) != 0, "and leaves nothing in the way");
    end();
}


/* Who waits for a flush does not wait for the checkpoint that follows it. */
static int64_t  told_flushed;           /* when told, -1: not yet */
static int      told_before;            /* renames until then */

static void
told(void *ctx, int32_t slot)
{
    (void) ctx;

    if (told_flushed < 0 && slot == plog->slot) {
        told_flushed = offsets(plog).flushed;
    }
}


static int
count_renames(const char *point)
{
    told_before += told_flushed < 0 && strcmp(point, "rename") == 0;

    return 0;
}


static void
tells(void)
{
    int      i;
    int64_t  flushed;

    begin();
    config.segment_bytes = 400;
    env->flushed = told;
    kl_fault_hook = count_renames;

    for (i = 0; i < 20; i++) {
        put(1, i, 100);
    }

    told_before = 0;
    told_flushed = -1;
    is(kl_flush(plog, &flushed), KL_OK, "a flush of several segments");
    ok(access(file_path("checkpoint"), F_OK) == 0, "makes a checkpoint");
    is(told_flushed, 20, "what is flushed is told of");
    is(told_before, 0, "before that");

    put(1, 20, 100);
    told_before = 0;
    told_flushed = -1;
    is(kl_checkpoint(plog, false), KL_OK, "a checkpoint");
    is(told_flushed, 21, "tells what it has flushed");
    is(told_before, 0, "first");

    kl_fault_hook = hook;
    end();
}


/* --- a directory that is not there --------------------------------------- */

static bool  gone_released;

static int
vanish(const char *point)
{
    char  path[1024];

    if (strcmp(point, "segments.list") == 0) {
        snprintf(path, sizeof(path), "%s/elsewhere", data_dir);
        ok(rename(file_path(""), path) == 0, "the directory goes");

        if (gone_released) {
            kl_release(shared, plog->slot);
        }
    }

    return 0;
}


/* What is not set is not zero by chance. */
static __attribute__((noinline)) void
dirty_stack(void)
{
    volatile uint8_t  bytes[8192];
    size_t            i;

    for (i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 0xa5;
    }
}


static void
test_no_directory(void)
{
    int      i, released;
    int64_t  flushed;

    for (released = 0; released < 2; released++) {
        begin();
        config.segment_bytes = 400;

        for (i = 0; i < 20; i++) {
            put(1, i, 100);
        }

        /* a handle that has not read the directory before */
        kl_log_close(plog);
        plog = log_of(env, 0);

        gone_released = released;
        kl_fault_hook = vanish;
        lines_n = 0;
        dirty_stack();

        is(kl_flush(plog, &flushed), released ? KL_GONE : KL_STORAGE_ERROR,
           released ? "deleted while it is flushed" : "no directory to flush");
        is(lines_n, released ? 0 : 1, "told of, but not of a deleted one");

        kl_fault_hook = hook;
        end();
    }
}


/* --- transactions -------------------------------------------------------- */

static kl_marked_t  marked;


static kl_rc_t
put_txn(int64_t pid, int32_t seq)
{
    batch_make(&x, 1, 100, (uint32_t) seq, 1000 + seq);
    batch_producer(&x, pid, 0, seq, KF_ATTR_TRANSACTIONAL);

    return append(plog, &x, &res);
}


static kl_rc_t
mark(kl_log_t *log, int64_t pid, bool commit)
{
    kl_marker_t  m = { .producer_id = pid, .producer_epoch = 1,
                       .coordinator_epoch = 0, .commit = commit };

    return kl_append_marker(log, &m, &config, 0, 1000000, &marked);
}


static void
work_abort(kl_log_t *log)
{
    mark(log, 1, false);
}


static void
work_commit(kl_log_t *log)
{
    mark(log, 1, true);
}


static void
work_other(kl_log_t *log)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(shared, 1), &o);
    append(kl_log_open(log->env, 1, o.incarnation, topic_id, kf_str(TOPIC), 1),
           &x, &res);
}


/* A process dies while it takes a place from another partition. */
static void
dying_move(void)
{
    int           i, bad = 0;
    kl_log_t     *other;
    kl_offsets_t  o;

    begin();
    put_txn(100, 0);

    for (i = 1; i < PRODS; i++) {
        bad += put(i, 0, 20) != KL_OK;
    }

    is(bad, 0, "the pool is full");

    kl_snapshot(kl_part(shared, kl_bind(shared, topic_id, 1)), &o);
    other = kl_log_open(env, 1, o.incarnation, topic_id, kf_str(TOPIC), 1);
    append_plain(other, 1, 10, 0, 1);

    batch_make(&x, 1, 10, 0, 1);
    batch_producer(&x, 50, 0, 0, 0);
    ok(dies("pool.move", 0, work_other), "a process dies in an eviction");

    for (i = 1; i < PRODS; i++) {
        bad += put(i, 1, 20) != KL_OK;
    }

    is(bad, 0, "all go on");
    is(offsets(plog).first_open_txn, 0, "what is open stays open");
    is(append(other, &x, &res), KL_OK, "the other one, too");
    is(kl_log_part(other)->producers_n + kl_log_part(plog)->producers_n,
       PRODS, "no place is lost");
    is(shared->used_producers, PRODS, "or counted twice");

    kl_log_close(other);
    end();
}


static void
work_verify(kl_log_t *log)
{
    kl_txn_verify(log, 77, 3, true, 0, 1000000);
}


/* Two open transactions, of which the first will be ended; before it one that
 * was aborted already, if asked for. */
static void
begin_txn(bool another)
{
    begin();

    if (another) {
        put_txn(3, 0);
        mark(plog, 3, false);
    } else {
        append_plain(plog, 2, 10, 0, 1);
    }

    put_txn(1, 0);                      /* offset 2 */
    put_txn(2, 0);
    put_txn(1, 1);
}


static void
check_before(bool another, int64_t size, const char *label)
{
    size_t        n;
    kl_aborted_t  list[4];
    kl_offsets_t  o = offsets(plog);

    ok(o.log_end == 5 && o.first_open_txn == 2
       && o.aborted_last == (another ? 1 : -1)
       && kl_aborted(plog, 0, INT64_MAX, list, 4, &n) == KL_OK
       && n == (another ? 1U : 0U)
       && (size < 0 || file_size(segment_name(0, ".log")) == size),
       "%s: nothing has happened", label);
}


static void
check_aborted(bool another, const char *label)
{
    size_t        n;
    kl_aborted_t  list[4];
    kl_offsets_t  o = offsets(plog);

    ok(o.log_end == 6 && o.first_open_txn == 3 && o.aborted_last == 5
       && kl_aborted(plog, 2, INT64_MAX, list, 4, &n) == KL_OK && n == 1
       && list[0].producer_id == 1 && list[0].first_offset == 2
       && file_size(segment_name(0, ".txnindex")) == (another ? 68 : 34)
       && file_size(segment_name(0, ".log")) == o.bytes,
       "%s: it is aborted, once", label);
}


static void
failing_abort(const char *point, int after, bool another)
{
    char     label[64];
    int64_t  size;

    snprintf(label, sizeof(label), "%s (%d)%s", point, after,
             another ? ", not the first" : "");

    begin_txn(another);
    size = file_size(segment_name(0, ".log"));

    fault(point, after, ENOSPC);
    is(mark(plog, 1, false), KL_STORAGE_ERROR, label);
    is(fault_hits, 1, "the point was reached");
    fault(NULL, 0, 0);
    ok(!marked.written, "the marker is not written");
    check_before(another, size, label);
    ok(file_size(segment_name(0, ".txnindex")) <= (another ? 34 : 0),
       "nor is the entry");

    is(mark(plog, 1, false), KL_OK, "again");
    ok(marked.written, "it is written");
    check_aborted(another, label);
    is(mark(plog, 1, false), KL_OK, "again");
    ok(!marked.written, "no more");

    is(restart(), KL_OK, "restart");
    check_aborted(another, label);

    end();
}


/* The log cannot be written, nor the entry taken back. */
static void
failing_undo(void)
{
    bool           truncated;
    struct rlimit  old, lim;

    begin_txn(true);

    getrlimit(RLIMIT_FSIZE, &old);
    lim = old;
    lim.rlim_cur = (rlim_t) file_size(segment_name(0, ".log")) + 10;
    setrlimit(RLIMIT_FSIZE, &lim);
    is(mark(plog, 1, false), KL_STORAGE_ERROR, "the disk gets full");
    check_before(true, (int64_t) lim.rlim_cur - 10, "full disk");
    is(file_size(segment_name(0, ".txnindex")), 34, "the entry is taken back");

    fault("txn.undo", 0, EIO);
    is(mark(plog, 1, false), KL_STORAGE_ERROR, "and cannot be cut");
    setrlimit(RLIMIT_FSIZE, &old);
    is(fault_hits, 1, "the point was reached");
    fault(NULL, 0, 0);
    is(offsets(plog).state, KL_FAILED_STATE, "the partition is offline");
    is(mark(plog, 1, false), KL_FAILED, "and takes nothing");
    is(kl_txn_verify(plog, 9, 0, true, 0, 1), KL_FAILED, "nor a mark");
    is(kl_recover(plog, 0, &config, &truncated), KL_OK, "until reopened");
    check_before(true, -1, "reopened");
    is(mark(plog, 1, false), KL_OK, "then it does");
    check_aborted(true, "reopened");

    end();
}


/* cut: of what was not published yet, so many bytes got through. */
static int
dying_abort(const char *point, bool another, int entry, int bytes)
{
    int      bad = 0;
    int64_t  size;

    begin_txn(another);
    size = file_size(segment_name(0, ".log"));

    if (!dies(point, 0, work_abort)) {
        bad++;
    }

    if (entry >= 0
        && truncate(file_path(segment_name(0, ".txnindex")),
                    (another ? 34 : 0) + entry) != 0)
    {
        bad++;
    }

    if (bytes >= 0
        && truncate(file_path(segment_name(0, ".log")), size + bytes) != 0)
    {
        bad++;
    }

    bad += offsets(plog).first_open_txn != 2 || offsets(plog).log_end != 5;

    /* the next one that comes, and another that reads */
    bad += put_txn(2, 1) != KL_OK || res.base_offset != 5;
    bad += file_size(segment_name(0, ".txnindex")) > (another ? 34 : 0);
    bad += mark(plog, 1, false) != KL_OK || !marked.written
           || marked.offset != 6;
    bad += mark(plog, 1, false) != KL_OK || marked.written;
    bad += offsets(plog).first_open_txn != 3;
    bad += file_size(segment_name(0, ".txnindex")) != (another ? 68 : 34);
    bad += put_txn(1, 2) != KL_REFUSED;     /* fenced by the marker's epoch */
    bad += restart() != KL_OK;
    bad += offsets(plog).first_open_txn != 3 || offsets(plog).log_end != 7
           || offsets(plog).aborted_last != 6;

    end();

    return bad;
}


static void
dying_markers(void)
{
    int                 i, k, bad;
    static const char  *point[] = { "txn.index", "txn.indexed",
                                    "append.before", "append.written",
                                    "append.publish" };

    for (i = 0; i < 5; i++) {
        for (k = 0; k < 2; k++) {
            ok(dying_abort(point[i], k, -1, -1) == 0,
               "a process dies in an abort at %s%s", point[i],
               k ? ", not the first" : "");
        }
    }

    for (k = 0, bad = 0; k <= KL_TXN_ENTRY; k++) {
        bad += dying_abort("txn.indexed", k % 2, k, -1);
    }
    is(bad, 0, "with any part of the entry written");

    for (k = 0, bad = 0; k <= KF_CONTROL_BATCH; k++) {
        bad += dying_abort("append.written", k % 2, -1, k);
    }
    is(bad, 0, "with any part of the marker written");

    for (i = 2; i < 5; i++) {
        begin_txn(false);
        ok(dies(point[i], 0, work_commit), "a process dies in a commit at %s",
           point[i]);
        check_before(false, -1, "commit");
        is(mark(plog, 1, true), KL_OK, "again");
        ok(marked.written, "it is written");
        is(offsets(plog).first_open_txn, 3, "the other is open");
        is(files_with(".txnindex"), 0, "no index for it");
        end();
    }

    begin_txn(false);
    ok(dies("txn.verify", 0, work_verify), "a process dies in a verification");
    is(kl_txn_verify(plog, 77, 3, true, 0, 1000000), KL_OK, "again");
    is(offsets(plog).first_open_txn, 2, "what is open stays open");
    config.verify = true;
    is(put_txn(77, 0), KL_REFUSED, "an old epoch");
    is(res.error, 47, "is fenced");
    is(put_txn(1, 2), KL_OK, "the open one goes on");
    config.verify = false;
    end();
}


int
main(void)
{
    kl_fault_hook = hook;

    /* stderr of the ls above */
    if (freopen("/dev/null", "w", stderr) == NULL) {
        return 1;
    }

    failing_append("pwrite", 0, ENOSPC, "a full disk");
    failing_append("pwrite", 0, EIO, "an I/O error");
    failing_append("create", 0, ENOSPC, "no space for a new segment");
    failing_append("create", 2, ENOSPC, "no space for its index");
    test_full_disk();
    test_no_directory();
    failing_flush("fdatasync", 0, 0);
    failing_flush("fdatasync", 0, 1);
    failing_flush("fdatasync", 1, 1);
    failing_flush("syncdir", 0, 1);
    failing_flush("syncdir", 1, 1);

    for (int i = 0; i < 2; i++) {
        dying_append("append.before", 0, 0, i);
        dying_append("append.written", 0, 0, i);
        dying_append("append.publish", 0, 0, i);
        dying_append("roll", 0, 1, i);
        dying_append("create", 1, 1, i);
        dying_append("pwrite", 0, 1, i);
        dying_append("append.written", 0, 1, i);
    }

    dying_jobs();
    two_removers();
    overtaken();
    tells();

    for (int i = 0; i < 2; i++) {
        failing_abort("txn.index", 0, i);
        failing_abort("pwrite", 0, i);
        failing_abort("pwrite", 1, i);
    }

    failing_undo();
    dying_markers();
    dying_move();

    return done_testing();
}
