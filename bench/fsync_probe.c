/*
 * What one flush costs here: appends 16 KiB and calls fdatasync, again and
 * again, in a file of the given directory.  One line of JSON.
 *
 *   fsync_probe DIR [COUNT]
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"


#define PIECE  16384


static int
by_value(const void *a, const void *b)
{
    double  x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}


int
main(int argc, char **argv)
{
    int          fd, i, n;
    char         path[4096];
    double      *us, t;
    static char  piece[PIECE];

    if (argc < 2) {
        fprintf(stderr, "usage: fsync_probe DIR [COUNT]\n");
        return 2;
    }

    n = argc > 2 ? atoi(argv[2]) : 500;
    us = calloc((size_t) (n > 0 ? n : 1), sizeof(double));
    snprintf(path, sizeof(path), "%s/fsync_probe.%d", argv[1], (int) getpid());

    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd == -1 || n < 1 || us == NULL) {
        perror(path);
        return 1;
    }

    unlink(path);
    memset(piece, 'x', sizeof(piece));

    for (i = 0; i < n; i++) {
        t = proc_now();

        if (pwrite(fd, piece, PIECE, (off_t) i * PIECE) != PIECE
            || fdatasync(fd) != 0)
        {
            perror("fdatasync");
            return 1;
        }

        us[i] = (proc_now() - t) * 1e6;
    }

    qsort(us, (size_t) n, sizeof(double), by_value);

    printf("{\"test\":\"fdatasync\",\"requests\":%d,\"p50_us\":%.1f,"
           "\"p95_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n",
           n, us[n / 2], us[n * 95 / 100], us[n * 99 / 100], us[n - 1]);

    free(us);
    close(fd);

    return 0;
}
