/*
 * Several processes write transactions to one partition, some committed, some
 * aborted, and are killed at any moment; others flush, write checkpoints and
 * read as consumers do.  What a consumer is shown is what the markers in the
 * log say, whatever offset it begins at; a transaction is there as a whole or
 * not at all.
 */

#include "log_txn_lib.h"

#include <time.h>

#define PARTS    2
#define PRODS    16
#define WRITERS  3
#define TXNS     250                    /* by each writer */
#define BATCHES  4                      /* in each */
#define KILLS    50
#define SEEN     (1 << 16)

typedef struct {
    _Atomic int  next[WRITERS];         /* transaction to be written */
    _Atomic int  epoch[WRITERS];
    _Atomic int  bad;
    _Atomic int  failed;
    _Atomic int  kills;
    _Atomic int  reads;
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
fail(const char *what, int rc)
{
    diag("%s: %d", what, rc);
    board->failed++;
    _exit(1);
}


/*
 * Transaction t of writer i is committed if t % 3 != 0.  Its batches' tags say
 * (i, t, n).  A successor first aborts what its predecessor left open, as the
 * coordinator would.
 */
static void
writer(int i)
{
    int           t, n;
    kl_rc_t       rc;
    kl_env_t     *e = env_make(2);
    kl_log_t     *log = log_of(e, 0);
    static batch_t  x;
    kl_append_t   res;
    kl_marked_t   marked;

    config.verify = true;

    board->epoch[i]++;
    rc = marker(log, i, (int16_t) board->epoch[i], false, &marked);

    if (rc != KL_OK) {
        fail("the abort of what was left", (int) rc);
    }

    while ((t = board->next[i]) < TXNS) {
        board->next[i] = t + 1;

        for (n = 0; n < BATCHES; n++) {
            batch_make(&x, 1 + t % 3, 20 + (size_t) (t % 7) * 30,
                       (uint32_t) ((i * TXNS + t) * BATCHES + n), 1000 + t);
            batch_producer(&x, i, (int16_t) board->epoch[i], n * (1 + t % 3),
                           KF_ATTR_TRANSACTIONAL);

            /* marks are lost when another one dies */
            while ((rc = append(log, &x, &res)) == KL_REFUSED
                   && res.unverified)
            {
                rc = kl_txn_verify(log, i, (int16_t) board->epoch[i], true,
                                   0, 1000000);
                if (rc != KL_OK) {
                    fail("verification", (int) rc);
                }
            }

            if (rc != KL_OK) {
                fail("append", (int) rc * 1000 + res.error);
            }
        }

        board->epoch[i]++;
        rc = marker(log, i, (int16_t) board->epoch[i], t % 3 != 0, &marked);

        if (rc != KL_OK || !marked.written) {
            fail("marker", (int) rc);
        }

        /* not faster than they are killed */
        while (t > (board->kills + 1) * (TXNS / KILLS) && board->kills < KILLS)
        {
            nap(50);
        }
    }

    _exit(0);
}


/* --- what the markers say ------------------------------------------------ */

typedef struct {
    int64_t   first;
    int64_t   next;
    int64_t   pid;
    uint32_t  tag;
    int8_t    outcome;                  /* 0: not known yet */
} seen_t;

static seen_t  *seen;
static int      seen_n;


/* Every batch up to an offset, with its outcome. */
static bool
read_log(kl_log_t *log, int64_t from, int64_t upto)
{
    int              k;
    bool             commit;
    size_t           len, at;
    int32_t          epoch;
    int64_t          next;
    kf_batch_t       b;
    static uint8_t   buf[65536];

    seen_n = 0;

    for ( /* void */ ; from < upto; from = next) {
        if (kl_read_batches(log, from, upto, buf, sizeof(buf), &len, &next)
            != KL_OK || len == 0)
        {
            return false;
        }

        for (at = 0; at < len; at += b.size) {
            if (kf_batch_header(buf + at, len - at, &b) != KF_OK) {
                return false;
            }

            if (b.attributes & KF_ATTR_CONTROL) {
                if (kf_batch_control_read(buf + at, &b, &commit, &epoch)
                    != KF_OK)
                {
                    return false;
                }

                for (k = seen_n - 1; k >= 0; k--) {
                    if (seen[k].pid == b.producer_id && seen[k].outcome == 0) {
                        seen[k].outcome = commit ? 1 : -1;
                    }
                }

                continue;
            }

            if (seen_n == SEEN) {
                return false;
            }

            seen[seen_n++] = (seen_t) { b.base_offset,
                                        kf_batch_next_offset(&b),
                                        b.producer_id, batch_tag(buf + at, &b),
                                        0 };
        }
    }

    return true;
}


/* Compares a consumer's view from an offset with the markers; the number of
 * batches in it, or -1. */
static int
compare(kl_log_t *log, int64_t start, int64_t from, int64_t stable,
    int64_t log_end, size_t size)
{
    int              i, n, k = 0;
    static uint32_t  tags[SEEN];

    n = read_committed(log, from, stable, size, tags, SEEN);

    if (n < 0 || !read_log(log, start, log_end)) {
        return -1;
    }

    for (i = 0; i < seen_n; i++) {
        if (seen[i].next <= from || seen[i].first >= stable) {
            continue;
        }

        if (seen[i].outcome == 0) {
            return -1;                  /* it would be open */
        }

        if (seen[i].outcome == 1
            && (k == n || tags[k++] != seen[i].tag))
        {
            return -1;
        }
    }

    return k == n ? n : -1;
}


static void
reader(int i)
{
    unsigned      rnd = (unsigned) i + 5;
    int64_t       stable, from;
    kl_env_t     *e = env_make(2);
    kl_log_t     *log = log_of(e, 0);
    kl_offsets_t  o;

    while (!board->done) {
        o = offsets(log);

        stable = o.first_open_txn < o.log_end ? o.first_open_txn : o.log_end;

        if (stable <= o.log_start) {
            continue;
        }

        from = o.log_start
               + (int64_t) (rand_r(&rnd) % (unsigned) (stable - o.log_start));

        if (compare(log, o.log_start, from, stable, offsets(log).log_end,
                    1000 + rand_r(&rnd) % 20000) < 0)
        {
            board->bad++;
        }

        board->reads++;
        nap(300);
    }

    _exit(0);
}


static void
flusher(int i)
{
    int64_t    flushed;
    kl_env_t  *e = env_make(2);
    kl_log_t  *log = log_of(e, 0);

    (void) i;

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


/* The outcome of all: committed as a whole and in order, or not there. */
static void
check(const char *when)
{
    int           i, t, n, k, partly = 0, wrong = 0, committed = 0;
    kl_offsets_t  o = offsets(plog);
    static int8_t  found[WRITERS * TXNS * BATCHES];

    memset(found, 0, sizeof(found));

    is(o.first_open_txn, INT64_MAX, "nothing is open");
    n = compare(plog, 0, 0, o.log_end, o.log_end, 30000);
    ok(n > 0, "%s: the view is what the markers say", when);

    for (i = 0; i < seen_n; i++) {
        if (seen[i].outcome == 1) {
            found[seen[i].tag]++;
        }
    }

    for (t = 0; t < WRITERS * TXNS; t++) {
        for (i = 0, k = 0; i < BATCHES; i++) {
            k += found[t * BATCHES + i];
        }

        partly += k != 0 && k != BATCHES;
        wrong += k != 0 && t % TXNS % 3 == 0;
        committed += k == BATCHES;
    }

    is(partly, 0, "no transaction is there in part");
    is(wrong, 0, "none that was aborted");
    ok(committed >= WRITERS * TXNS * 2 / 3 - KILLS, "%d of %d committed",
       committed, WRITERS * TXNS);
}


int
main(void)
{
    int          i, left, status, died = 0;
    bool         truncated;
    pid_t        pid[WRITERS], read_pid[2], flush_pid, p;
    unsigned     rnd = 1;
    kl_marked_t  marked;

    data_make();
    config.segment_bytes = 20000;
    config.index_interval_bytes = 500;
    broker_start(PARTS, PRODS);
    marker(plog, 0, 0, true, &marked);      /* opens it */

    board = mmap(NULL, sizeof(board_t), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seen = malloc(SEEN * sizeof(seen_t));

    fflush(stdout);

    for (i = 0; i < WRITERS; i++) {
        pid[i] = start(writer, i);
    }

    read_pid[0] = start(reader, 0);
    read_pid[1] = start(reader, 1);
    flush_pid = start(flusher, 0);

    for (left = WRITERS; left > 0 && board->failed == 0; /* void */) {
        if (board->kills < KILLS) {
            nap(500 + (int) (rand_r(&rnd) % 2000));

            /* not faster than they are read */
            while (board->reads < board->kills / 2 && board->failed == 0) {
                nap(50);
            }

            i = (int) (rand_r(&rnd) % (WRITERS + 1));

            if (i == WRITERS) {
                kill(flush_pid, SIGKILL);
                waitpid(flush_pid, &status, 0);
                flush_pid = start(flusher, 0);
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
    }

    board->done = 1;

    for (i = 0; i < 2; i++) {
        waitpid(read_pid[i], &status, 0);
        ok(WIFEXITED(status), "a reader ends by itself");
    }

    waitpid(flush_pid, &status, 0);
    ok(WIFEXITED(status), "the flusher too");

    is(board->bad, 0, "no reader saw anything wrong");
    ok(board->reads > 20, "%d reads", (int) board->reads);
    is(board->failed, 0, "nothing failed");
    ok(died > 15, "%d writers were killed", died);

    check("at the end");

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);
    is(kl_recover(plog, 0, &config, &truncated), KL_OK, "recovery");
    check("after a restart");

    broker_end(PARTS, PRODS);
    data_remove(data_dir);
    free(seen);

    return done_testing();
}
