/*
 * What changes a file: writes, truncations, allocations.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "powercut_int.h"


static ssize_t
write_recorded(int fd, const struct iovec *iov, int n, off_t offset,
    const struct stat *known)
{
    int           i, was;
    char         *p;
    size_t        total;
    ssize_t       done;
    struct stat   st;
    pc_entry_t   *e;

    for (i = 0, total = 0; i < n; i++) {
        total += iov[i].iov_len;
    }

    lock_log();

    st = *known;
    e = entry_begin(PC_WRITE, total);

    if (e) {
        e->ino = st.st_ino;
        e->size = total;

        if (offset != -1) {
            e->offset = (uint64_t) offset;

        } else if (fcntl(fd, F_GETFL) & O_APPEND) {
            fstat(fd, &st);
            e->offset = (uint64_t) st.st_size;

        } else {
            e->offset = (uint64_t) lseek(fd, 0, SEEK_CUR);
        }

        for (i = 0, p = (char *) (e + 1); i < n; i++) {
            memcpy(p, iov[i].iov_base, iov[i].iov_len);
            p += iov[i].iov_len;
        }
    }

    entry_ready(e);

    if (offset == -1) {
        done = syscall(SYS_writev, fd, iov, n);

    } else {
        done = syscall(SYS_pwritev, fd, iov, (long) n, (long) offset, 0L);
    }

    was = errno;

    if (e && done > 0) {
        e->size = (uint64_t) done;
    }

    entry_end(e, done > 0);
    unlock_log();
    errno = was;

    return done;
}


ssize_t
write(int fd, const void *buf, size_t n)
{
    struct stat   st;
    struct iovec  iov;

    REAL(write)

    if (!fd_tracked(fd, &st)) {
        return real_write(fd, buf, n);
    }

    iov.iov_base = (void *) buf;
    iov.iov_len = n;

    return write_recorded(fd, &iov, 1, -1, &st);
}


ssize_t
writev(int fd, const struct iovec *iov, int n)
{
    struct stat  st;

    REAL(writev)

    if (!fd_tracked(fd, &st)) {
        return real_writev(fd, iov, n);
    }

    return write_recorded(fd, iov, n, -1, &st);
}


ssize_t
pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    struct stat   st;
    struct iovec  iov;

    REAL(pwrite)

    if (!fd_tracked(fd, &st)) {
        return real_pwrite(fd, buf, n, offset);
    }

    iov.iov_base = (void *) buf;
    iov.iov_len = n;

    return write_recorded(fd, &iov, 1, offset, &st);
}


ssize_t
pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
    return pwrite(fd, buf, n, offset);
}


ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
    struct stat  st;

    REAL(pwritev)

    if (!fd_tracked(fd, &st)) {
        return real_pwritev(fd, iov, n, offset);
    }

    return write_recorded(fd, iov, n, offset, &st);
}


ssize_t
pwritev64(int fd, const struct iovec *iov, int n, off64_t offset)
{
    return pwritev(fd, iov, n, offset);
}


int
ftruncate(int fd, off_t size)
{
    int          rc, was;
    struct stat  st;
    pc_entry_t  *e;

    REAL(ftruncate)

    if (!fd_tracked(fd, &st)) {
        return real_ftruncate(fd, size);
    }

    lock_log();

    e = entry_begin(PC_TRUNCATE, 0);

    if (e) {
        e->ino = st.st_ino;
        e->size = (uint64_t) size;
    }

    entry_ready(e);
    rc = real_ftruncate(fd, size);
    was = errno;
    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}


int
truncate(const char *path, off_t size)
{
    int  fd, rc, was;

    fd = open(path, O_WRONLY|O_CLOEXEC);
    if (fd == -1) {
        return -1;
    }

    rc = ftruncate(fd, size);
    was = errno;
    close(fd);
    errno = was;

    return rc;
}


int
truncate64(const char *path, off64_t size)
{
    return truncate(path, size);
}


/* Only its effect on the size is recorded; blocks are no content. */
int
fallocate(int fd, int mode, off_t offset, off_t len)
{
    int          rc, was;
    struct stat  st;
    pc_entry_t  *e;

    REAL(fallocate)

    if (!fd_tracked(fd, &st)) {
        return real_fallocate(fd, mode, offset, len);
    }

    lock_log();
    fstat(fd, &st);

    e = NULL;

    if (mode == 0 && offset + len > st.st_size) {
        e = entry_begin(PC_TRUNCATE, 0);

        if (e) {
            e->ino = st.st_ino;
            e->size = (uint64_t) (offset + len);
        }
    }

    entry_ready(e);
    rc = real_fallocate(fd, mode, offset, len);
    was = errno;
    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
    return fallocate(fd, mode, offset, len);
}


int
posix_fallocate(int fd, off_t offset, off_t len)
{
    return fallocate(fd, 0, offset, len) == -1 ? errno : 0;
}


int
posix_fallocate64(int fd, off64_t offset, off64_t len)
{
    return posix_fallocate(fd, offset, len);
}
