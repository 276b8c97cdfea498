/*
 * The record of a power-cut run: what was done to the files below one
 * directory, in the order in which it was done.
 *
 * powercut*.c (preloaded into every process of the broker) append to it,
 * rebuild.c reads it.  The record is one file in memory, mapped by everybody:
 * a header, then entries one after the other.  An entry is visible when `tail`
 * has passed it; one that starts at `tail` with `pending` set belongs to a call
 * whose process was killed inside, so it may have happened or not.
 *
 * Files and directories are named by inode number.  A number can be used again
 * after its file is gone: PC_CREATE and PC_MKDIR bind it to a new object.
 */

#ifndef POWERCUT_H
#define POWERCUT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PC_MAGIC   0x3154554352574f50ull
#define PC_START   4096                 /* offset of the first entry */


typedef struct {
    uint64_t          magic;
    uint64_t          size;             /* of the whole file */
    pthread_mutex_t   lock;             /* robust, shared between processes */
    _Atomic uint64_t  tail;             /* end of the entries */
    _Atomic uint32_t  pending;          /* an unfinished entry follows */
    _Atomic uint32_t  full;             /* it did not fit: the run is void */
    _Atomic uint64_t  broken;           /* syncs left out on purpose */
    _Atomic uint64_t  failed;           /* syncs failed on purpose */
    char              fail[256];        /* glob of files whose sync fails */
} pc_header_t;


typedef enum {
    PC_BASE_DIR = 1,    /* there at the start: parent, ino, name */
    PC_BASE_FILE,
    PC_CREATE,          /* parent, ino, name */
    PC_MKDIR,
    PC_LINK,
    PC_UNLINK,          /* parent, name; also rmdir */
    PC_RENAME,          /* parent, name -> parent2, name2; ino */
    PC_WRITE,           /* ino, offset, size bytes that follow */
    PC_TRUNCATE,        /* ino, size */
    PC_SYNC_BEGIN,      /* ino; 0: everything (syncfs) */
    PC_SYNC_END         /* offset: where its PC_SYNC_BEGIN stands */
} pc_type_t;

#define PC_MAYBE   1    /* flag: its process died inside the call */


typedef struct {
    uint32_t  len;                      /* of the entry, a multiple of 8 */
    uint16_t  type;
    uint16_t  flags;
    uint32_t  pid;
    uint16_t  name_len;                 /* names follow, no NUL */
    uint16_t  name2_len;
    uint64_t  ino;
    uint64_t  parent;
    uint64_t  parent2;
    uint64_t  offset;
    uint64_t  size;
} pc_entry_t;

#define pc_align(n)  (((uint64_t) (n) + 7) & ~(uint64_t) 7)

#endif
