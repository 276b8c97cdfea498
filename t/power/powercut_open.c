/*
 * Descriptors: open, close, dup.  Those that make or empty a file are recorded.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "powercut_int.h"


static int
open_recorded(int dirfd, const char *path, int flags, mode_t mode)
{
    int           fd, was;
    uint64_t      before;
    struct stat   st;
    pc_entry_t   *e;

    if (!path_tracked(dirfd, path)) {
        fd = (int) syscall(SYS_openat, dirfd, path, flags, mode);
        fd_set_tracked(fd, 0);
        return fd;
    }

    if (!(flags & (O_CREAT|O_TRUNC))) {
        fd = (int) syscall(SYS_openat, dirfd, path, flags, mode);
        fd_set_tracked(fd, 1);
        return fd;
    }

    lock_log();

    before = path_ino(dirfd, path, 0);
    e = NULL;

    if (before == 0) {
        e = entry_name(PC_CREATE, dirfd, path);

    } else if (flags & O_TRUNC) {
        e = entry_begin(PC_TRUNCATE, 0);
        if (e) {
            e->ino = before;
        }
    }

    entry_ready(e);
    fd = (int) syscall(SYS_openat, dirfd, path, flags, mode);
    was = errno;

    if (fd != -1 && fstat(fd, &st) == 0) {
        if (e) {
            e->ino = st.st_ino;
        }

        entry_end(e, 1);
        fd_set_tracked(fd, 1);

    } else {
        entry_end(e, 0);
    }

    unlock_log();
    errno = was;

    return fd;
}


#define OPEN_MODE(mode, flags)                                                \
    mode = 0;                                                                 \
    if ((flags) & (O_CREAT|O_TMPFILE)) {                                      \
        va_list  args;                                                        \
        va_start(args, flags);                                                \
        mode = va_arg(args, mode_t);                                          \
        va_end(args);                                                         \
    }


int
open(const char *path, int flags, ...)
{
    mode_t  mode;

    OPEN_MODE(mode, flags)

    return open_recorded(AT_FDCWD, path, flags, mode);
}


int
open64(const char *path, int flags, ...)
{
    mode_t  mode;

    OPEN_MODE(mode, flags)

    return open_recorded(AT_FDCWD, path, flags, mode);
}


int
openat(int dirfd, const char *path, int flags, ...)
{
    mode_t  mode;

    OPEN_MODE(mode, flags)

    return open_recorded(dirfd, path, flags, mode);
}


int
openat64(int dirfd, const char *path, int flags, ...)
{
    mode_t  mode;

    OPEN_MODE(mode, flags)

    return open_recorded(dirfd, path, flags, mode);
}


int
creat(const char *path, mode_t mode)
{
    return open_recorded(AT_FDCWD, path, O_CREAT|O_WRONLY|O_TRUNC, mode);
}


int
creat64(const char *path, mode_t mode)
{
    return open_recorded(AT_FDCWD, path, O_CREAT|O_WRONLY|O_TRUNC, mode);
}


/* What -D_FORTIFY_SOURCE calls. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);


int
__open_2(const char *path, int flags)
{
    return open_recorded(AT_FDCWD, path, flags, 0);
}


int
__open64_2(const char *path, int flags)
{
    return open_recorded(AT_FDCWD, path, flags, 0);
}


int
__openat_2(int dirfd, const char *path, int flags)
{
    return open_recorded(dirfd, path, flags, 0);
}


int
__openat64_2(int dirfd, const char *path, int flags)
{
    return open_recorded(dirfd, path, flags, 0);
}


int
close(int fd)
{
    REAL(close)

    fd_set_tracked(fd, 0);

    return real_close(fd);
}


int
dup(int old)
{
    REAL(dup)

    return dup_tracked(real_dup(old), old);
}


int
dup2(int old, int fd)
{
    REAL(dup2)

    return dup_tracked(real_dup2(old, fd), old);
}


int
dup3(int old, int fd, int flags)
{
    REAL(dup3)

    return dup_tracked(real_dup3(old, fd, flags), old);
}
