/*
 * Does to files what its arguments say, one call each, so that a test of the
 * power-cut tools can tell exactly what was done.  Paths are below the current
 * directory unless absolute.
 *
 *   create FILE            open, created, closed
 *   write FILE TEXT        appended (O_APPEND)
 *   pwrite FILE OFF TEXT
 *   fill FILE OFF LEN C    LEN times the character C
 *   trunc FILE SIZE        ftruncate
 *   sync FILE|DIR          fsync; "dsync" fdatasync
 *   mkdir, unlink, rmdir   DIR or FILE
 *   rename FROM TO
 *   many FILE N            N children append 64 lines each and sync after each
 *   die                    kill -9 of itself
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>


static void
need(int good, const char *what, const char *path)
{
    if (!good) {
        fprintf(stderr, "fsops: %s %s: %s\n", what, path, strerror(errno));
        exit(1);
    }
}


static int
opened(const char *path, int flags)
{
    int  fd = open(path, flags|O_CLOEXEC, 0600);

    need(fd != -1, "open", path);

    return fd;
}


static void
many(const char *path, int n)
{
    int    i, k, fd, len, status;
    char   line[64];
    pid_t  pid;

    for (i = 0; i < n; i++) {
        pid = fork();

        if (pid != 0) {
            continue;
        }

        fd = opened(path, O_WRONLY|O_APPEND);

        for (k = 0; k < 64; k++) {
            len = snprintf(line, sizeof(line), "%d %d\n", i, k);
            need(write(fd, line, (size_t) len) == len, "write", path);
            need(fdatasync(fd) == 0, "fdatasync", path);
        }

        _exit(0);
    }

    while (wait(&status) > 0) {
        need(status == 0, "child", path);
    }
}


int
main(int argc, char **argv)
{
    int      i, fd;
    char    *buf;
    size_t   len;
    ssize_t  n;

#define IS(s, args)  (strcmp(argv[i], s) == 0 && i + args < argc)

    for (i = 1; i < argc; i++) {

        if (IS("create", 1)) {
            close(opened(argv[++i], O_WRONLY|O_CREAT));

        } else if (IS("write", 2)) {
            fd = opened(argv[i + 1], O_WRONLY|O_APPEND);
            len = strlen(argv[i + 2]);
            n = write(fd, argv[i + 2], len);
            need(n == (ssize_t) len, "write", argv[i + 1]);
            close(fd);
            i += 2;

        } else if (IS("pwrite", 3)) {
            fd = opened(argv[i + 1], O_WRONLY);
            len = strlen(argv[i + 3]);
            n = pwrite(fd, argv[i + 3], len, atol(argv[i + 2]));
            need(n == (ssize_t) len, "pwrite", argv[i + 1]);
            close(fd);
            i += 3;

        } else if (IS("fill", 4)) {
            fd = opened(argv[i + 1], O_WRONLY);
            len = (size_t) atol(argv[i + 3]);
            buf = malloc(len + 1);
            need(buf != NULL, "malloc", argv[i + 1]);
            memset(buf, argv[i + 4][0], len);
            n = pwrite(fd, buf, len, atol(argv[i + 2]));
            need(n == (ssize_t) len, "pwrite", argv[i + 1]);
            free(buf);
            close(fd);
            i += 4;

        } else if (IS("trunc", 2)) {
            fd = opened(argv[i + 1], O_WRONLY);
            need(ftruncate(fd, atol(argv[i + 2])) == 0, "ftruncate", argv[i]);
            close(fd);
            i += 2;

        } else if (IS("sync", 1)) {
            fd = opened(argv[++i], O_RDONLY);
            need(fsync(fd) == 0, "fsync", argv[i]);
            close(fd);

        } else if (IS("dsync", 1)) {
            fd = opened(argv[++i], O_RDONLY);
            need(fdatasync(fd) == 0, "fdatasync", argv[i]);
            close(fd);

        } else if (IS("mkdir", 1)) {
            need(mkdir(argv[i + 1], 0700) == 0, "mkdir", argv[i + 1]);
            i++;

        } else if (IS("unlink", 1)) {
            need(unlink(argv[i + 1]) == 0, "unlink", argv[i + 1]);
            i++;

        } else if (IS("rmdir", 1)) {
            need(rmdir(argv[i + 1]) == 0, "rmdir", argv[i + 1]);
            i++;

        } else if (IS("rename", 2)) {
            need(rename(argv[i + 1], argv[i + 2]) == 0, "rename", argv[i + 1]);
            i += 2;

        } else if (IS("many", 2)) {
            many(argv[i + 1], atoi(argv[i + 2]));
            i += 2;

        } else if (IS("die", 0)) {
            kill(getpid(), SIGKILL);

        } else {
            fprintf(stderr, "fsops: what is \"%s\"?\n", argv[i]);
            return 2;
        }
    }

    return 0;
}
