/*
 * fdatasync() that comes to no end while the file HELD_SYNC exists, and says so
 * by another one beside it, HELD_SYNC.PID of its process: a disk that takes its
 * time, long enough for a test to do something meanwhile.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char  *held;


__attribute__((constructor))
static void
held_start(void)
{
    const char  *s = getenv("HELD_SYNC");

    /* a copy: nginx writes its title over its environment */
    held = s ? strdup(s) : NULL;
}


__attribute__((visibility("default")))
int
fdatasync(int fd)
{
    int   mark;
    char  path[4096];

    static int  (*real)(int);

    if (real == NULL) {
        *(void **) &real = dlsym(RTLD_NEXT, "fdatasync");
    }

    while (held && access(held, F_OK) == 0) {
        snprintf(path, sizeof(path), "%s.%d", held, (int) getpid());
        mark = open(path, O_WRONLY|O_CREAT|O_CLOEXEC, 0666);

        if (mark != -1) {
            close(mark);
        }

        usleep(10000);
    }

    return real(fd);
}
