/*
 * LD_PRELOAD shim that records what processes do to the files below
 * POWERCUT_ROOT, and when it was synced.  See powercut.h for the record.
 *
 *   POWERCUT_LOG        the record, made by `rebuild init`
 *   POWERCUT_ROOT       absolute path without symbolic links
 *   POWERCUT_BREAK      comma-separated globs of paths below the root; a sync
 *                       of a file that matches answers 0 and does nothing.
 *                       Directories end in '/', the root is "./".  "rolled"
 *                       stands for every .log that has a later one beside it.
 *   POWERCUT_DELAY_US   each sync takes a random time up to this one longer
 *   POWERCUT_NOSYNC     set: do not bother the real disk with syncs
 *
 * Every change is made and recorded under one lock, so the order of the record
 * is the order of the changes.  A sync is recorded at its begin and its end and
 * runs without the lock: it vouches only for what came before its begin.
 *
 * Not seen: writes through stdio, mmap or io_uring.  `rebuild check` finds
 * them, because then the record does not add up to the real directory.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "powercut.h"

#define FDS  65536

static pc_header_t    *log_map;
static char            root[PATH_MAX];
static size_t          root_len;
static const char     *breaks;
static unsigned long   delay_us;
static int             nosync;
static _Atomic uint8_t tracked[FDS];    /* descriptors below the root */


/* --- the real functions -------------------------------------------------- */

#define REAL(name)                                                            \
    static __typeof__(&name)  real_##name;                                    \
    if (real_##name == NULL) {                                                \
        *(void **) &real_##name = dlsym(RTLD_NEXT, #name);                    \
    }


static void
complain(const char *what, const char *path)
{
    fprintf(stderr, "powercut: %s: %s: %s\n", what, path, strerror(errno));
}


__attribute__((constructor))
static void
powercut_start(void)
{
    int           fd;
    char         *s;
    struct stat   st;
    pc_header_t  *h;

    s = getenv("POWERCUT_ROOT");
    if (s == NULL || getenv("POWERCUT_LOG") == NULL) {
        return;
    }

    if (strlen(s) >= sizeof(root)) {
        abort();
    }

    strcpy(root, s);
    root_len = strlen(root);

    s = getenv("POWERCUT_LOG");
    fd = (int) syscall(SYS_openat, AT_FDCWD, s, O_RDWR|O_CLOEXEC, 0);

    if (fd == -1 || fstat(fd, &st) == -1) {
        complain("cannot open", s);
        abort();
    }

    h = mmap(NULL, (size_t) st.st_size, PROT_READ|PROT_WRITE, MAP_SHARED, fd,
             0);
    syscall(SYS_close, fd);

    if (h == MAP_FAILED || h->magic != PC_MAGIC) {
        complain("not a record", s);
        abort();
    }

    /* a copy: nginx writes its title over its environment */
    s = getenv("POWERCUT_BREAK");
    breaks = s && s[0] ? strdup(s) : NULL;
    s = getenv("POWERCUT_DELAY_US");
    delay_us = s ? strtoul(s, NULL, 10) : 0;
    nosync = getenv("POWERCUT_NOSYNC") != NULL;

    log_map = h;
}


/* --- the record ---------------------------------------------------------- */

static pc_entry_t *
entry_at(uint64_t pos)
{
    return (pc_entry_t *) ((char *) log_map + pos);
}


/*
 * A process was killed inside a call.  A write is taken to have happened: who
 * repairs the file deals with either.  A new file is looked for by its path.
 */
static void
finish_entry(void)
{
    char         path[PATH_MAX];
    uint64_t     tail;
    pc_entry_t  *e;
    struct stat  st;

    if (!log_map->pending) {
        return;
    }

    tail = log_map->tail;
    e = entry_at(tail);
    e->flags |= PC_MAYBE;

    if (e->ino == 0 && (e->type == PC_CREATE || e->type == PC_MKDIR)
        && e->name2_len < sizeof(path))
    {
        memcpy(path, (char *) (e + 1) + e->name_len, e->name2_len);
        path[e->name2_len] = '\0';

        if (stat(path, &st) == 0) {
            e->ino = st.st_ino;
            e->flags = 0;
        }
    }

    log_map->pending = 0;
    log_map->tail = tail + e->len;
}


static void
lock_log(void)
{
    int  rc;

    rc = pthread_mutex_lock(&log_map->lock);

    if (rc == EOWNERDEAD) {
        pthread_mutex_consistent(&log_map->lock);
        finish_entry();

    } else if (rc != 0) {
        abort();
    }
}


static void
unlock_log(void)
{
    pthread_mutex_unlock(&log_map->lock);
}


/* Room for one entry at the tail; its extra bytes are the caller's to fill. */
static pc_entry_t *
entry_begin(pc_type_t type, size_t extra)
{
    uint64_t     len, tail;
    pc_entry_t  *e;

    tail = log_map->tail;
    len = pc_align(sizeof(pc_entry_t) + extra);

    if (len > log_map->size - tail || len > UINT32_MAX) {
        if (!log_map->full) {
            log_map->full = 1;
            complain("the record is full", "");
        }

        return NULL;
    }

    e = entry_at(tail);
    memset(e, 0, sizeof(pc_entry_t));
    e->len = (uint32_t) len;
    e->type = (uint16_t) type;
    e->pid = (uint32_t) getpid();

    return e;
}


/* The entry is filled in: from here on a kill leaves it as "maybe". */
static void
entry_ready(pc_entry_t *e)
{
    if (e) {
        log_map->pending = 1;
    }
}


static void
entry_end(pc_entry_t *e, int happened)
{
    if (e) {
        if (happened) {
            log_map->tail += e->len;
        }

        log_map->pending = 0;
    }
}


/* --- which files --------------------------------------------------------- */

/* Is this path below the root (or the root itself)? */
static int
path_tracked(int dirfd, const char *path)
{
    char    cwd[PATH_MAX];
    size_t  n;

    if (log_map == NULL || path == NULL) {
        return 0;
    }

    if (path[0] == '/') {
        return strncmp(path, root, root_len) == 0
               && (path[root_len] == '/' || path[root_len] == '\0');
    }

    if (dirfd != AT_FDCWD) {
        return dirfd >= 0 && dirfd < FDS && tracked[dirfd];
    }

    if (getcwd(cwd, sizeof(cwd)) == NULL) {
        return 0;
    }

    n = strlen(cwd);

    return n >= root_len && strncmp(cwd, root, root_len) == 0
           && (cwd[root_len] == '/' || cwd[root_len] == '\0');
}


/* A descriptor below the root?  Its number may since be a socket's. */
static int
fd_tracked(int fd, struct stat *st)
{
    if (fd < 0 || fd >= FDS || !tracked[fd]) {
        return 0;
    }

    if (fstat(fd, st) == -1
        || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
    {
        tracked[fd] = 0;
        return 0;
    }

    return 1;
}


static void
fd_set_tracked(int fd, int on)
{
    if (fd >= 0 && fd < FDS) {
        tracked[fd] = (uint8_t) on;
    }
}


/* Splits a path: inode of the directory, and the last name (copied). */
static int
path_parent(int dirfd, const char *path, uint64_t *parent, char *name)
{
    char         dir[PATH_MAX];
    char        *p;
    size_t       n;
    struct stat  st;

    n = strlen(path);
    if (n == 0 || n >= sizeof(dir)) {
        return -1;
    }

    memcpy(dir, path, n + 1);

    while (n > 1 && dir[n - 1] == '/') {
        dir[--n] = '\0';
    }

    p = strrchr(dir, '/');

    if (p == NULL) {
        if (n > NAME_MAX) {
            return -1;
        }

        strcpy(name, dir);
        strcpy(dir, ".");

    } else {
        if (strlen(p + 1) > NAME_MAX) {
            return -1;
        }

        strcpy(name, p + 1);
        p[p == dir] = '\0';
    }

    if (fstatat(dirfd, dir, &st, 0) == -1) {
        return -1;
    }

    *parent = st.st_ino;

    return 0;
}


/* An entry about a name; *e stays NULL when it cannot be told. */
static pc_entry_t *
entry_name(pc_type_t type, int dirfd, const char *path)
{
    char         name[NAME_MAX + 1];
    uint64_t     parent;
    pc_entry_t  *e;

    if (path_parent(dirfd, path, &parent, name) == -1) {
        return NULL;
    }

    e = entry_begin(type, strlen(name) + strlen(path));

    if (e) {
        e->parent = parent;
        e->name_len = (uint16_t) strlen(name);
        memcpy(e + 1, name, e->name_len);

        /* for finish_entry() */
        e->name2_len = (uint16_t) strlen(path);
        memcpy((char *) (e + 1) + e->name_len, path, e->name2_len);
    }

    return e;
}


static uint64_t
path_ino(int dirfd, const char *path, int flags)
{
    struct stat  st;

    return fstatat(dirfd, path, &st, flags) == -1 ? 0 : st.st_ino;
}


/* --- open ---------------------------------------------------------------- */

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


static int
dup_tracked(int fd, int old)
{
    if (fd >= 0 && fd < FDS && old >= 0 && old < FDS) {
        tracked[fd] = tracked[old];
    }

    return fd;
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


/* --- data ---------------------------------------------------------------- */

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


/* --- names --------------------------------------------------------------- */

int
mkdirat(int dirfd, const char *path, mode_t mode)
{
    int          rc, was;
    pc_entry_t  *e;

    if (!path_tracked(dirfd, path)) {
        return (int) syscall(SYS_mkdirat, dirfd, path, mode);
    }

    lock_log();

    e = entry_name(PC_MKDIR, dirfd, path);
    entry_ready(e);
    rc = (int) syscall(SYS_mkdirat, dirfd, path, mode);
    was = errno;

    if (e && rc == 0) {
        e->ino = path_ino(dirfd, path, 0);
    }

    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}


int
unlinkat(int dirfd, const char *path, int flags)
{
    int          rc, was;
    pc_entry_t  *e;

    if (!path_tracked(dirfd, path)) {
        return (int) syscall(SYS_unlinkat, dirfd, path, flags);
    }

    lock_log();

    e = entry_name(PC_UNLINK, dirfd, path);

    if (e) {
        e->ino = path_ino(dirfd, path, AT_SYMLINK_NOFOLLOW);
    }

    entry_ready(e);
    rc = (int) syscall(SYS_unlinkat, dirfd, path, flags);
    was = errno;
    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}


int
rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}


int
remove(const char *path)
{
    int  rc;

    rc = unlink(path);

    return rc == -1 && errno == EISDIR ? rmdir(path) : rc;
}


int
renameat2(int dirfd, const char *path, int dirfd2, const char *path2,
    unsigned int flags)
{
    int          rc, was;
    char         name[NAME_MAX + 1], name2[NAME_MAX + 1];
    uint64_t     parent, parent2;
    pc_entry_t  *e;

    if (!path_tracked(dirfd, path) && !path_tracked(dirfd2, path2)) {
        return (int) syscall(SYS_renameat2, dirfd, path, dirfd2, path2, flags);
    }

    lock_log();

    e = NULL;

    if (path_parent(dirfd, path, &parent, name) == 0
        && path_parent(dirfd2, path2, &parent2, name2) == 0)
    {
        e = entry_begin(PC_RENAME, strlen(name) + strlen(name2));

        if (e) {
            e->ino = path_ino(dirfd, path, AT_SYMLINK_NOFOLLOW);
            e->parent = parent;
            e->parent2 = parent2;
            e->name_len = (uint16_t) strlen(name);
            e->name2_len = (uint16_t) strlen(name2);
            memcpy(e + 1, name, e->name_len);
            memcpy((char *) (e + 1) + e->name_len, name2, e->name2_len);
        }
    }

    entry_ready(e);
    rc = (int) syscall(SYS_renameat2, dirfd, path, dirfd2, path2, flags);
    was = errno;
    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
renameat(int dirfd, const char *path, int dirfd2, const char *path2)
{
    return renameat2(dirfd, path, dirfd2, path2, 0);
}


int
rename(const char *path, const char *path2)
{
    return renameat2(AT_FDCWD, path, AT_FDCWD, path2, 0);
}


int
linkat(int dirfd, const char *path, int dirfd2, const char *path2, int flags)
{
    int          rc, was;
    pc_entry_t  *e;

    if (!path_tracked(dirfd2, path2)) {
        return (int) syscall(SYS_linkat, dirfd, path, dirfd2, path2, flags);
    }

    lock_log();

    e = entry_name(PC_LINK, dirfd2, path2);

    if (e) {
        e->ino = path_ino(dirfd, path, 0);
    }

    entry_ready(e);
    rc = (int) syscall(SYS_linkat, dirfd, path, dirfd2, path2, flags);
    was = errno;
    entry_end(e, rc == 0);
    unlock_log();
    errno = was;

    return rc;
}


int
link(const char *path, const char *path2)
{
    return linkat(AT_FDCWD, path, AT_FDCWD, path2, 0);
}


/* --- syncs --------------------------------------------------------------- */

/* Does a segment with a higher base offset stand beside this one? */
static int
is_rolled(const char *path)
{
    int             later;
    char            dir[PATH_MAX];
    char           *name;
    DIR            *d;
    size_t          n;
    struct dirent  *de;

    n = strlen(path);
    if (n < 5 || strcmp(path + n - 4, ".log") != 0) {
        return 0;
    }

    strcpy(dir, path);
    name = strrchr(dir, '/');
    *name++ = '\0';

    d = opendir(dir);
    if (d == NULL) {
        return 0;
    }

    later = 0;

    while ((de = readdir(d)) != NULL) {
        n = strlen(de->d_name);

        if (n > 4 && strcmp(de->d_name + n - 4, ".log") == 0
            && strcmp(de->d_name, name) > 0)
        {
            later = 1;
            break;
        }
    }

    closedir(d);

    return later;
}


/* Absolute path of a descriptor; a directory's ends in '/'. */
static int
fd_path(int fd, const struct stat *st, char *path)
{
    char     link_name[64];
    ssize_t  n;

    snprintf(link_name, sizeof(link_name), "/proc/self/fd/%d", fd);
    n = readlink(link_name, path, PATH_MAX - 2);

    if (n <= 0 || (size_t) n < root_len) {
        return -1;
    }

    if (S_ISDIR(st->st_mode)) {
        path[n++] = '/';
    }

    path[n] = '\0';

    return 0;
}


/* The path as globs see it: below the root; the root itself is "./". */
static const char *
relative(const char *path)
{
    path += root_len + 1;

    return path[0] ? path : "./";
}


static int
is_broken(const char *path)
{
    char   list[1024];
    char  *s, *save;

    if (breaks == NULL || strlen(breaks) >= sizeof(list)) {
        return 0;
    }

    strcpy(list, breaks);

    for (s = strtok_r(list, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        if (strcmp(s, "rolled") == 0) {
            if (is_rolled(path)) {
                return 1;
            }

        } else if (fnmatch(s, relative(path), 0) == 0) {
            return 1;
        }
    }

    return 0;
}


static void
sync_delay(void)
{
    struct timespec         ts;
    static _Atomic uint64_t  state;
    uint64_t                x;

    if (delay_us == 0) {
        return;
    }

    x = (state += 0x9e3779b97f4a7c15ull) ^ (uint64_t) getpid();
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) % delay_us;

    ts.tv_sec = (time_t) (x / 1000000);
    ts.tv_nsec = (long) (x % 1000000) * 1000;
    nanosleep(&ts, NULL);
}


static uint64_t
sync_begin(uint64_t ino)
{
    uint64_t     pos;
    pc_entry_t  *e;

    lock_log();
    pos = log_map->tail;
    e = entry_begin(PC_SYNC_BEGIN, 0);

    if (e) {
        e->ino = ino;
    }

    entry_end(e, 1);
    unlock_log();

    return e ? pos : 0;
}


static void
sync_end(uint64_t pos)
{
    pc_entry_t  *e;

    if (pos == 0) {
        return;
    }

    lock_log();
    e = entry_begin(PC_SYNC_END, 0);

    if (e) {
        e->offset = pos;
    }

    entry_end(e, 1);
    unlock_log();
}


static int
sync_recorded(int fd, long call)
{
    int          rc, was;
    char         path[PATH_MAX];
    uint64_t     pos;
    struct stat  st;

    if (!fd_tracked(fd, &st)) {
        return (int) syscall(call, fd);
    }

    if ((breaks || log_map->fail[0]) && fd_path(fd, &st, path) == 0) {

        if (log_map->fail[0] && fnmatch(log_map->fail, relative(path), 0) == 0)
        {
            log_map->failed++;
            errno = EIO;
            return -1;
        }

        if (is_broken(path)) {
            log_map->broken++;
            return 0;
        }
    }

    pos = sync_begin(call == SYS_syncfs ? 0 : st.st_ino);
    sync_delay();
    rc = nosync ? 0 : (int) syscall(call, fd);
    was = errno;

    if (rc == 0) {
        sync_end(pos);
    }

    errno = was;

    return rc;
}


int
fsync(int fd)
{
    return sync_recorded(fd, SYS_fsync);
}


int
fdatasync(int fd)
{
    return sync_recorded(fd, SYS_fdatasync);
}


int
syncfs(int fd)
{
    return sync_recorded(fd, SYS_syncfs);
}
