/*
 * Which files are below the root: by path, or by descriptor, and how the record
 * names them.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "powercut_int.h"

#define FDS  65536

static _Atomic uint8_t  tracked[FDS];   /* descriptors below the root */


int
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


int
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


void
fd_set_tracked(int fd, int on)
{
    if (fd >= 0 && fd < FDS) {
        tracked[fd] = (uint8_t) on;
    }
}


int
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


pc_entry_t *
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


uint64_t
path_ino(int dirfd, const char *path, int flags)
{
    struct stat  st;

    return fstatat(dirfd, path, &st, flags) == -1 ? 0 : st.st_ino;
}


int
dup_tracked(int fd, int old)
{
    if (fd >= 0 && fd < FDS && old >= 0 && old < FDS) {
        tracked[fd] = tracked[old];
    }

    return fd;
}
