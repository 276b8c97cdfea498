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
 * This file has the settings and the record.  Every change is made and recorded
 * under one lock, so the order of the record is the order of the changes.
 *
 * Not seen: writes through stdio, mmap or io_uring.  `rebuild check` finds
 * them, because then the record does not add up to the real directory.
 *
 *   powercut_path.c   which files
 *   powercut_open.c   descriptors: open, close, dup
 *   powercut_data.c   what changes a file
 *   powercut_name.c   what changes a directory
 *   powercut_sync.c   fsync and its like
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "powercut_int.h"

pc_header_t    *log_map;
char            root[PATH_MAX];
size_t          root_len;
const char     *breaks;
unsigned long   delay_us;
int             nosync;


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


void
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


void
unlock_log(void)
{
    pthread_mutex_unlock(&log_map->lock);
}


pc_entry_t *
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


void
entry_ready(pc_entry_t *e)
{
    if (e) {
        log_map->pending = 1;
    }
}


void
entry_end(pc_entry_t *e, int happened)
{
    if (e) {
        if (happened) {
            log_map->tail += e->len;
        }

        log_map->pending = 0;
    }
}
