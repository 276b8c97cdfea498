/*
 * Several processes append to, read, flush and shorten one partition, and are
 * killed at any moment.  Every batch that was acknowledged is there once, in
 * the order of its producer.
 */

#include "log_lib.h"

#include <time.h>

#define PARTS      2
#define PRODS      16
#define WRITERS    3
#define BATCHES    4000                 /* by each writer */
#define KILLS      80

typedef struct {
    _Atomic int  acked[WRITERS];        /* batches that kl_append() took */
    _Atomic int  bad;                   /* what a reader must not see */
    _Atomic int  failed;
    _Atomic int  kills;
    _Atomic int  done;
} board_t;

static board_t  *board;


static void
nap(int us)
{
    struct timespec  t = { 0, us * 1000L };

    nanosleep(&t, NULL);
}


static void
writer(int i)
{
    int          n;
    kl_rc_t      rc;
    batch_t     *x = malloc(sizeof(batch_t));
    kl_env_t    *e = env_make(2);
    kl_log_t    *log = log_of(e, 0);
    kl_append_t  res;

    for (n = board->acked[i]; n < BATCHES; n++) {
        batch_make(x, 1, 20 + (size_t) (n % 7) * 30,
                   (uint32_t) (i * BATCHES + n), 1000 + n);
        batch_producer(x, i, 0, n, 0);

        rc = append(log, x, &res);

        if (rc != KL_OK) {
            board->failed++;
            break;
        }

        /* a successor meets its predecessor's last batch as a duplicate */
        board->acked[i] = n + 1;

        /* not faster than they are killed */
        while (n > (board->kills + 1) * (BATCHES / KILLS)
               && board->kills < KILLS)
        {
            nap(50);
        }
    }

    _exit(0);
}


static void
reader(void)
{
    int64_t         offset, next, expect;
    size_t          len, at;
    kl_rc_t         rc;
    kl_env_t       *e = env_make(2);
    kl_log_t       *log = log_of(e, 0);
    kf_batch_t      b;
    kl_offsets_t    o;
    static uint8_t  buf[65536];

    while (!board->done) {
        o = offsets(log);
        expect = -1;

        for (offset = o.log_start; offset < o.log_end; offset = next) {
            rc = kl_read_batches(log, offset, o.log_end, buf, sizeof(buf),
                                 &len, &next);

            if (rc != KL_OK || len == 0) {
                board->bad++;
                break;
            }

            for (at = 0; at < len; at += b.size) {
                if (kf_batch_header(buf + at, len - at, &b) != KF_OK
                    || (expect >= 0 && b.base_offset != expect))
                {
                    board->bad++;
                    break;
                }

                expect = kf_batch_next_offset(&b);
            }
        }

        if (o.flushed > o.log_end || o.log_start > o.log_end) {
            board->bad++;
        }
    }

    _exit(0);
}


static void
flusher(void)
{
    int64_t    flushed;
    kl_env_t  *e = env_make(2);
    kl_log_t  *log = log_of(e, 0);

    while (!board->done) {
        if (kl_flush(log, &flushed) != KL_OK) {
            board->failed++;
        }

        nap(2000);

        if (kl_checkpoint(log, false) != KL_OK) {
            board->failed++;
        }
    }

    _exit(0);
}


static pid_t
start(void (*run)(int), int arg)
{
    pid_t  pid = fork();

    if (pid == 0) {
        run(arg);
    }

    return pid;
}


static void
start_reader(int i)
{
    (void) i;
    reader();
}


static void
start_flusher(int i)
{
    (void) i;
    flusher();
}


static void
check(const char *when)
{
    int             i, n, wrong = 0, next[WRITERS] = { 0 };
    static uint32_t tags[WRITERS * BATCHES + 10];

    n = read_all(plog, tags, WRITERS * BATCHES + 10);

    for (i = 0; i < n; i++) {
        int  w = (int) (tags[i] / BATCHES);

        if (w >= WRITERS || (int) (tags[i] % BATCHES) != next[w]++) {
            wrong++;
        }
    }

    is(n, WRITERS * BATCHES, when);
    is(wrong, 0, "each once, in its producer's order");
}


int
main(void)
{
    int       i, left, status, died = 0;
    bool      truncated;
    pid_t     pid[WRITERS], read_pid, flush_pid, p;
    unsigned  seed = 1;

    data_make();
    config.segment_bytes = 50000;
    config.index_interval_bytes = 500;
    broker_start(PARTS, PRODS);

    board = mmap(NULL, sizeof(board_t), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    fflush(stdout);

    for (i = 0; i < WRITERS; i++) {
        pid[i] = start(writer, i);
    }

    read_pid = start(start_reader, 0);
    flush_pid = start(start_flusher, 0);

    for (left = WRITERS; left > 0; /* void */) {
        if (board->kills < KILLS) {
            nap(500 + (int) (rand_r(&seed) % 2000));
            i = (int) (rand_r(&seed) % (WRITERS + 1));

            if (i == WRITERS) {
                kill(flush_pid, SIGKILL);
                waitpid(flush_pid, &status, 0);
                flush_pid = start(start_flusher, 0);
                board->kills++;
                continue;
            }

            if (pid[i] == 0) {
                board->kills++;
                continue;
            }

            kill(pid[i], SIGKILL);
            board->kills++;
            p = waitpid(pid[i], &status, 0);

        } else {
            p = waitpid(-1, &status, 0);
        }

        for (i = 0; i < WRITERS; i++) {
            if (pid[i] == p) {
                if (WIFSIGNALED(status)) {
                    died++;
                    pid[i] = start(writer, i);
                } else {
                    pid[i] = 0;
                    left--;
                }
            }
        }

        if (p == read_pid || p == flush_pid) {
            ok(0, "a process that ended by itself");
            break;
        }
    }

    board->done = 1;
    waitpid(read_pid, &status, 0);
    ok(WIFEXITED(status), "the reader ends by itself");
    waitpid(flush_pid, &status, 0);
    ok(WIFEXITED(status), "the flusher too");

    is(board->bad, 0, "no reader saw anything wrong");
    is(board->failed, 0, "no append and no flush failed");
    ok(died > 20, "%d writers were killed", died);

    check("all batches are there");

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &truncated), KL_OK, "recovery");
    check("all batches are there after a restart");

    broker_end(PARTS, PRODS);
    data_remove(data_dir);

    return done_testing();
}
