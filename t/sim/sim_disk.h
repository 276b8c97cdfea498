/*
 * Files and power cuts.  For each file the size that is surely on the disk is
 * kept: a cut leaves a .log file, as part of one log, at a random point between
 * that and its end, perhaps with a torn tail; index files, which are rebuilt,
 * at any size above what a checkpoint has synced.
 */

#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "sim.h"

#define FILES  4096

typedef struct {
    char     path[PATH];                /* relative to the data directory */
    int64_t  size;
} durable_t;

static durable_t  durable[FILES];
static int        durable_n;


static durable_t *
durable_find(const char *path)
{
    int  i;

    for (i = 0; i < durable_n; i++) {
        if (strcmp(durable[i].path, path) == 0) {
            return &durable[i];
        }
    }

    return NULL;
}


static void
durable_set(const char *path, int64_t size)
{
    durable_t  *d = durable_find(path);

    if (d == NULL) {
        if (durable_n == FILES) {
            fail("simulator: too many files");
        }

        d = &durable[durable_n++];
        snprintf(d->path, sizeof(d->path), "%s", path);
    }

    d->size = size;
}


static void
durable_forget(const char *prefix)
{
    int     i;
    size_t  len = strlen(prefix);

    for (i = 0; i < durable_n; i++) {
        if (strncmp(durable[i].path, prefix, len) == 0
            && (durable[i].path[len] == '/' || durable[i].path[len] == '\0'))
        {
            durable[i--] = durable[--durable_n];
        }
    }
}


static bool
ends_with(const char *s, const char *suffix)
{
    size_t  a = strlen(s), b = strlen(suffix);

    return a >= b && strcmp(s + a - b, suffix) == 0;
}


static const char *
full(const char *path)
{
    static char  buf[2 * PATH];

    snprintf(buf, sizeof(buf), "%s/%.400s", w.dir, path);

    return buf;
}


static int64_t
file_size(const char *path)
{
    struct stat  st;

    return stat(full(path), &st) == 0 ? (int64_t) st.st_size : -1;
}


/* Names in a directory, sorted, so that a run does not depend on the file
   system; the caller gives room for n. */
static int
list_dir(const char *path, char (*names)[PATH / 2], int n)
{
    int             i, count = 0;
    DIR            *dir = opendir(full(path));
    struct dirent  *de;

    if (dir == NULL) {
        return 0;
    }

    while ((de = readdir(dir)) != NULL) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        if (count == n) {
            fail("simulator: too many files in %s", path);
        }

        for (i = count++; i > 0 && strcmp(names[i - 1], de->d_name) > 0; i--) {
            memcpy(names[i], names[i - 1], sizeof(names[0]));
        }

        snprintf(names[i], sizeof(names[0]), "%s", de->d_name);
    }

    closedir(dir);

    return count;
}


/* Has a checkpoint been written since the last time?  A flush makes one by
   itself when a segment was closed. */
static bool
disk_checkpoint(const char *dir)
{
    int         fd;
    char        path[PATH];
    uint8_t     buf[512];
    ssize_t     n;
    int64_t     crc;
    durable_t  *d;

    snprintf(path, sizeof(path), "%.255s/checkpoint", dir);
    fd = open(full(path), O_RDONLY);

    if (fd < 0) {
        return false;
    }

    n = read(fd, buf, sizeof(buf));
    close(fd);
    crc = kf_crc32c(0, buf, n > 0 ? (size_t) n : 0);
    d = durable_find(path);

    if (d && d->size == crc) {
        return false;
    }

    durable_set(path, crc);

    return true;
}


/* What kl_flush() has just made durable; indexes: kl_checkpoint() those that
   end with it, kl_recover() those of transactions; NULL: none. */
static void
disk_synced(const char *dir, const char *indexes)
{
    int          i, n;
    char         path[PATH];
    static char  names[256][PATH / 2];

    if (disk_checkpoint(dir)) {
        indexes = "index";
    }

    n = list_dir(dir, names, 256);
    durable_set(dir, 0);

    for (i = 0; i < n; i++) {
        if (ends_with(names[i], ".log")
            || (indexes && ends_with(names[i], indexes)))
        {
            snprintf(path, sizeof(path), "%.255s/%.255s", dir, names[i]);
            durable_set(path, file_size(path));
        }
    }
}


static void
remove_tree(const char *dir)
{
    int   i, n;
    char  path[PATH];
    char  (*names)[PATH / 2] = calloc(512, PATH / 2);

    n = list_dir(dir, names, 512);

    for (i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%.255s/%.255s", dir, names[i]);

        if (unlink(full(path)) != 0) {
            remove_tree(path);
        }
    }

    free(names);
    rmdir(full(dir));
    durable_forget(dir);
}


/* Fills [from, to) with what a torn write leaves. */
static void
tear(const char *path, int64_t from, int64_t to)
{
    int      fd = open(full(path), O_WRONLY);
    bool     zeros = chance(50);
    uint8_t  byte;

    for ( ; fd >= 0 && from < to; from++) {
        byte = zeros ? 0 : (uint8_t) rnd(256);

        if (pwrite(fd, &byte, 1, from) != 1) {
            break;
        }
    }

    if (fd >= 0) {
        close(fd);
    }
}


static int64_t
cut_point(int64_t low, int64_t high)
{
    switch (rnd(4)) {
    case 0:
        return low;
    case 1:
        return high;
    default:
        return low + (int64_t) rnd((uint32_t) (high - low + 1));
    }
}


/* One log: all its segments are one prefix. */
static void
power_cut_log(const char *dir)
{
    int          i, n;
    bool         gone = false;
    char         path[PATH];
    int64_t      low, high, at;
    durable_t   *d;
    static char  names[256][PATH / 2];

    if (durable_find(dir) == NULL && chance(40)) {
        trace("  the directory %s is gone", dir);
        remove_tree(dir);
        return;
    }

    n = list_dir(dir, names, 256);

    for (i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%.255s/%.255s", dir, names[i]);
        d = durable_find(path);
        high = file_size(path);
        low = d ? d->size : 0;

        if (low > high) {
            low = high;
        }

        if (ends_with(names[i], "index")) {
            /* a deleted segment's index may come first: any size will do */
            at = chance(50) ? high : cut_point(low, high);

            if (truncate(full(path), at) != 0) {
                fail("simulator: cannot cut %s", path);
            }

            if (at > low && chance(20)) {
                tear(path, low + (int64_t) rnd((uint32_t) (at - low)), at);
            }

            continue;
        }

        if (!ends_with(names[i], ".log")) {
            continue;
        }

        if (gone) {
            if (d) {
                fail("simulator: %s is durable behind a cut", path);
            }

            if (chance(50)) {
                unlink(full(path));

            } else if (truncate(full(path), 0) != 0) {
                fail("simulator: cannot cut %s", path);
            }

            continue;
        }

        at = cut_point(low, high);

        if (truncate(full(path), at) != 0) {
            fail("simulator: cannot cut %s", path);
        }

        if (at < high) {
            gone = true;
            trace("  %s is cut from %lld to %lld, %lld were flushed", path,
                  (long long) high, (long long) at, (long long) low);
        }

        if (at > low && at < high && chance(40)) {
            tear(path, low + (int64_t) rnd((uint32_t) (at - low)), at);
            trace("  and torn");
        }
    }
}


static void
power_cut(void)
{
    int          i, n;
    struct stat  st;
    static char  names[512][PATH / 2];

    n = list_dir(".", names, 512);

    for (i = 0; i < n; i++) {
        if (stat(full(names[i]), &st) != 0) {
            continue;
        }

        if (S_ISDIR(st.st_mode) && !ends_with(names[i], "-delete")) {
            power_cut_log(names[i]);

        } else if (S_ISREG(st.st_mode) && w.broken == BREAK_SNAPSHOT_LOST
                   && strncmp(names[i], "journal.", 8) == 0
                   && truncate(full(names[i]), st.st_size / 2) != 0)
        {
            fail("simulator: cannot cut %s", names[i]);
        }
    }
}

#endif
