/*
 * Syncs.  One is recorded at its begin and its end and runs without the lock:
 * it vouches only for what came before its begin.  Some are left out, fail or
 * take longer on purpose.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "powercut_int.h"


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
