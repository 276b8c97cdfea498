/*
 * Reading a log file of which nothing may be believed: whole batches with
 * their CRC, the next valid one behind damage, holes.
 */

#ifndef KL_SCAN_H
#define KL_SCAN_H

#include "kl_internal.h"

#pragma GCC visibility push(hidden)


typedef struct {
    kl_log_t   *log;
    kl_file_t  *file;                   /* what the buffer is of */
    int64_t     pos;
    size_t      len;
    uint8_t     buf[256 * 1024];
} kl_scan_t;


void kl_scan_init(kl_scan_t *s, kl_log_t *log);

/*
 * Before [pos, end) is read: nothing of it is in the page cache that is not on
 * the disk and would not get there by an fdatasync.  Nobody writes meanwhile.
 */
kl_rc_t kl_scan_settle(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end);

/*
 * The batch at pos, which must end at or before end.  KL_CORRUPT, not logged:
 * there is none, or its CRC is wrong.
 */
kl_rc_t kl_scan_batch(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    kf_batch_t *b);

/* The first valid batch that begins in [pos, end) with a base offset >=
 * offset. */
kl_rc_t kl_scan_search(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    int64_t offset, bool *found, int64_t *at, kf_batch_t *b);

/* Does the batch at pos begin before end, by its own account, and not end
 * there? */
bool kl_scan_is_short(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end);

/* Is [pos, end) empty or all zeros, or has it zeros from pos to the end of its
 * sector or in any whole sector? */
kl_rc_t kl_scan_hole(kl_scan_t *s, kl_file_t *f, int64_t pos, int64_t end,
    int64_t sector, bool *hole);


#pragma GCC visibility pop

#endif
