/*
 * What flushes cost here: appends 16 KiB to a file and calls fdatasync, then
 * the same to WIDTH files at once, a thread each; again and again, in files of
 * the given directory.  One line of JSON: p50_us and so on of the first,
 * two_p50_us of both, one after the other, and the CPU of each fdatasync.
 * PAUSE microseconds lie before each time: a disk that rests is slower than a
 * busy one.
 *
 *   fsync_probe DIR [COUNT [WIDTH [PAUSE]]]
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"


#define PIECE      16384
#define WIDTH_MAX  64

typedef struct {
    pthread_t  thread;
    int        fd;
    off_t      end;
} file_t;

static int                width = 1, rounds = 500;
static file_t             one, many[WIDTH_MAX];
static pthread_barrier_t  begin, end;


static void
need(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}


static void
flush(file_t *f)
{
    static const char  piece[PIECE] = "x";

    need(pwrite(f->fd, piece, PIECE, f->end) == PIECE, "pwrite");
    f->end += PIECE;
    need(fdatasync(f->fd) == 0, "fdatasync");
}


static void *
flusher(void *data)
{
    int  i;

    for (i = 0; i < rounds; i++) {
        pthread_barrier_wait(&begin);
        flush(data);
        pthread_barrier_wait(&end);
    }

    return NULL;
}


static double
cpu_us(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);

    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}


static void
make(file_t *f, const char *dir, int number)
{
    char  path[4096];

    snprintf(path, sizeof(path), "%s/fsync_probe.%d.%d", dir, (int) getpid(),
             number);

    f->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    need(f->fd != -1, path);
    unlink(path);
}


static int
by_value(const void *a, const void *b)
{
    double  x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}


static void
say(const char *prefix, double *us)
{
    qsort(us, (size_t) rounds, sizeof(double), by_value);

    printf(",\"%sp50_us\":%.1f,\"%sp95_us\":%.1f,\"%sp99_us\":%.1f,"
           "\"%smax_us\":%.1f",
           prefix, us[rounds / 2], prefix, us[rounds * 95 / 100], prefix,
           us[rounds * 99 / 100], prefix, us[rounds - 1]);
}


int
main(int argc, char **argv)
{
    int      i, pause = 0;
    double   t, cpu, *first, *both;

    if (argc < 2) {
        fprintf(stderr, "usage: fsync_probe DIR [COUNT [WIDTH [PAUSE]]]\n");
        return 2;
    }

    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    width = argc > 3 ? atoi(argv[3]) : width;
    pause = argc > 4 ? atoi(argv[4]) : pause;

    if (rounds < 1 || width < 1 || width > WIDTH_MAX || pause < 0
        || pause >= 1000000)
    {
        fprintf(stderr, "fsync_probe: a number is out of range\n");
        return 2;
    }

    first = calloc((size_t) rounds, sizeof(double));
    both = calloc((size_t) rounds, sizeof(double));
    need(first && both, "calloc");

    make(&one, argv[1], 0);
    pthread_barrier_init(&begin, NULL, (unsigned) width + 1);
    pthread_barrier_init(&end, NULL, (unsigned) width + 1);

    for (i = 0; i < width; i++) {
        make(&many[i], argv[1], i + 1);
        need(pthread_create(&many[i].thread, NULL, flusher, &many[i]) == 0,
             "pthread_create");
    }

    cpu = cpu_us();

    for (i = 0; i < rounds; i++) {
        usleep((useconds_t) pause);

        t = proc_now();
        flush(&one);
        first[i] = (proc_now() - t) * 1e6;

        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        both[i] = (proc_now() - t) * 1e6;
    }

    for (i = 0; i < width; i++) {
        pthread_join(many[i].thread, NULL);
    }

    printf("{\"test\":\"fdatasync\",\"rounds\":%d,\"width\":%d,"
           "\"cpu_us\":%.1f", rounds, width,
           (cpu_us() - cpu) / rounds / (width + 1));
    say("", first);
    say("two_", both);
    printf("}\n");

    free(first);
    free(both);

    return 0;
}
