/*
 * What the files of the recorder share.  Calls (open, data, name, sync) know
 * paths, paths know the record.
 */

#ifndef POWERCUT_INT_H
#define POWERCUT_INT_H

#include <dlfcn.h>
#include <limits.h>
#include <sys/types.h>

#include "powercut.h"

struct stat;

#pragma GCC visibility push(hidden)


/* The function that a call would have come to without us. */
#define REAL(name)                                                            \
    static __typeof__(&name)  real_##name;                                    \
    if (real_##name == NULL) {                                                \
        *(void **) &real_##name = dlsym(RTLD_NEXT, #name);                    \
    }


/* --- powercut.c: settings, the record ------------------------------------- */

extern pc_header_t    *log_map;         /* NULL: nothing is recorded */
extern char            root[PATH_MAX];
extern size_t          root_len;
extern const char     *breaks;
extern unsigned long   delay_us;
extern int             nosync;

void lock_log(void);
void unlock_log(void);

/* Room for one entry at the tail; its extra bytes are the caller's to fill. */
pc_entry_t *entry_begin(pc_type_t type, size_t extra);
/* The entry is filled in: from here on a kill leaves it as "maybe". */
void entry_ready(pc_entry_t *e);
void entry_end(pc_entry_t *e, int happened);


/* --- powercut_path.c: which files ----------------------------------------- */

/* Is this path below the root (or the root itself)? */
int path_tracked(int dirfd, const char *path);
/* A descriptor below the root?  Its number may since be a socket's. */
int fd_tracked(int fd, struct stat *st);
void fd_set_tracked(int fd, int on);
/* What dup() has made of old. */
int dup_tracked(int fd, int old);

/* Splits a path: inode of the directory, and the last name (copied). */
int path_parent(int dirfd, const char *path, uint64_t *parent, char *name);
/* An entry about a name; *e stays NULL when it cannot be told. */
pc_entry_t *entry_name(pc_type_t type, int dirfd, const char *path);
/* 0: there is none. */
uint64_t path_ino(int dirfd, const char *path, int flags);


#pragma GCC visibility pop

#endif
