/*
 * What changes a directory: making, removing, renaming, linking.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "powercut_int.h"


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
