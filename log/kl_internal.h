/*
 * What the files of log/ share; nobody outside includes this.
 *
 * A control block has one set of numbers, kl_pub_t, kept twice.  A change
 * (under the lock) fills in the copy that is not in use and then moves `gen`,
 * so that a reader sees either the old numbers or the new ones, a writer that
 * dies leaves the old ones, and nobody ever waits for anybody.  Everything
 * that an append changes is in there, except the producers, which
 * `producers_dirty` guards.
 *
 * Order of locks: the block's jobs mutex (recovery, checkpoint, retention:
 * held over I/O, by threads), the block's mutex, then a handle's mutex, then
 * the environment's.  The table's removal mutex comes after a jobs mutex and
 * before nothing.
 */

#ifndef KL_INTERNAL_H
#define KL_INTERNAL_H

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kl.h"
#include "kl_fault.h"
#include "../codec/kf_be.h"

#pragma GCC visibility push(hidden)


#define KL_RING            16           /* batch boundaries kept of the tail */
#define KL_PENDING         16           /* index entries not yet in the file */
#define KL_HINTS           8            /* of where readers go on */
#define KL_WINDOW          5            /* batches per producer, as Kafka */

#define KL_INDEX_ENTRY     8            /* relative offset i32, position i32 */
#define KL_TIME_ENTRY      12           /* timestamp i64, relative offset i32 */
#define KL_TXN_ENTRY       34           /* see kl_txnindex.c */

#define KL_NAME_MAX        255
#define KL_PATH_MAX        4096

#define KL_NO_TIMESTAMP    (-1)
#define KL_INTERVAL        4096         /* index.interval.bytes when unknown */


/* A batch boundary of the active segment. */
typedef struct {
    int64_t  offset;
    int64_t  pos;
} kl_mark_t;

typedef struct {
    int64_t  ts_ms;
    int64_t  offset;                    /* absolute */
} kl_stamp_t;


/* Only 64-bit words: it is copied word by word, atomically. */
typedef struct {
    /* kl_snapshot() copies these and no more */
    int64_t     state;
    int64_t     incarnation;
    int64_t     log_start;
    int64_t     log_end;
    int64_t     flushed;
    int64_t     first_open_txn;
    int64_t     bytes;
    int64_t     leader_epoch;
    int64_t     aborted_last;           /* as in kl_offsets_t */
    int64_t     open_gen;               /* its generation */

    int64_t     first_base;             /* of the oldest segment */
    int64_t     segments_gen;           /* raised when the list changes */
    int64_t     dir_gen;                /* raised by each new file */
    int64_t     dir_synced;             /* 0: nor is the parent */
    int64_t     epoch_gen;              /* of leader-epoch-checkpoint */
    int64_t     flushed_base;           /* segment and position of `flushed` */
    int64_t     flushed_pos;
    int64_t     recovery_point;         /* as in the checkpoint file */
    int64_t     recovery_start;         /* its log_start */
    int64_t     recovery_clean;
    int64_t     recovery_made;          /* there is such a file */

    /* the active segment */
    int64_t     active_base;
    int64_t     active_size;
    int64_t     created_ms;             /* 0: not known */
    int64_t     first_ts_ms;
    kl_stamp_t  max;                    /* greatest timestamp and its batch */
    int64_t     since_index;            /* bytes since the last entry */
    int64_t     index_n;                /* entries in the files */
    int64_t     time_n;
    int64_t     txn_n;
    int64_t     time_last_ms;           /* of the last entry, pending or not */
    int64_t     index_pending_n;
    int64_t     time_pending_n;
    int64_t     ring_n;                 /* boundaries ever put in */
    int64_t     recent_ms;              /* the two windows of kl_recent() */
    int64_t     recent_pos;
    int64_t     recent_last_ms;
    int64_t     recent_last_pos;
    kl_mark_t   index_pending[KL_PENDING];
    kl_stamp_t  time_pending[KL_PENDING];
    kl_mark_t   ring[KL_RING];
} kl_pub_t;

#define KL_PUB_HEAD   10                /* words that kl_snapshot() copies */
#define KL_PUB_WORDS  (sizeof(kl_pub_t) / sizeof(int64_t))


struct kl_part_s {
    pthread_mutex_t           mutex;
    pthread_mutex_t           jobs;
    _Atomic uint64_t          gen;
    _Atomic uint64_t          waiters[2];
    kf_uuid_t                 topic_id;
    int32_t                   partition;
    int32_t                   slot;
    _Atomic uint32_t          used;     /* bound to a partition */
    _Atomic uint32_t          unbound;  /* marked by kl_mark_unbound() */
    _Atomic uint32_t          needs_repair;
    _Atomic uint32_t          producers_dirty;
    uint32_t                  root;     /* of the producers; 0: none */
    uint32_t                  producers_n;
    uint32_t                  open_head;    /* open transactions, by first */
    uint32_t                  open_tail;    /* offset: index + 1 */
    int32_t                   least_epoch;  /* of what is appended */
    _Atomic int64_t           words[2][KL_PUB_WORDS];
} __attribute__((aligned(64)));


/* One producer's state in one partition (KIP-98, KIP-360). */
typedef struct {
    int32_t  first_seq;
    int32_t  last_seq;
    int64_t  base_offset;
    int64_t  timestamp_ms;
    int32_t  offset_delta;
} kl_window_t;

typedef struct {
    _Atomic uint64_t  owner;            /* slot + 1, 0: free */
    uint32_t          child[4];         /* index + 1 */
    int64_t           id;
    int64_t           txn_first;        /* of the open transaction, -1: none */
    int64_t           txn_number;       /* kl_txn_verify()'s; 0: not known */
    int64_t           last_ms;          /* wall clock; 0: not known */
    int64_t           ts_ms;            /* timestamp of the last batch, or -1 */
    uint32_t          open_prev;        /* in the list, if txn_first >= 0 */
    uint32_t          open_next;
    int32_t           coordinator_epoch;
    int16_t           epoch;            /* KL_NO_EPOCH: nothing in the log */
    int16_t           verified;         /* kl_txn_verify()'s, or KL_NO_EPOCH */
    uint16_t          from_zero;        /* of the first batch's sequence */
    uint16_t          n;                /* in the window, oldest first */
    kl_window_t       window[KL_WINDOW];
} kl_producer_t;


struct kl_shared_s {
    pthread_mutex_t   removal;          /* of directories: look and rename */
    uint32_t          parts;
    uint32_t          producers;
    uint32_t          buckets;          /* a power of two */
    uint32_t          next_slot;        /* where to look for a free one */
    _Atomic uint32_t  next_producer;
    _Atomic uint32_t  used_producers;   /* more or less: see kl_pool.c */
    _Atomic uint32_t  table_dirty;
    uint32_t          tombs;
    _Atomic uint32_t  pool_warned;
    size_t            table_at;         /* from the start of this struct */
    size_t            parts_at;
    size_t            producers_at;
};


/* --- process half -------------------------------------------------------- */

struct kl_file_s {
    _Atomic uint32_t     refs;
    int                  fd;
    _Atomic int          index_fd;      /* -1: not open */
    _Atomic int          time_fd;
    _Atomic int          txn_fd;
    _Atomic int64_t      closed_size;   /* -1: not closed yet, or not known */
    int64_t              base;
    int64_t              open_gen;      /* -1: not in the table */
    int32_t              slot;
    bool                 cached;        /* in the table and the LRU list */
    struct kl_file_s    *hash_next;
    struct kl_file_s    *lru_prev;
    struct kl_file_s    *lru_next;
};

struct kl_env_s {
    kl_shared_t         *shared;
    char                *dir;
    kl_logger_pt         log;
    void                *log_ctx;
    void               (*foreign)(void *log_ctx);
    void               (*flushed)(void *log_ctx, int32_t slot);
    uint32_t             files_max;
    uint32_t             files_n;
    uint32_t             buckets;
    pthread_mutex_t      mutex;         /* the table and the list of files */
    kl_file_t          **table;
    kl_file_t            lru;           /* head; the oldest is lru_prev */
};

typedef struct {
    int64_t  offset;
    int64_t  base;
    int64_t  pos;
} kl_hint_t;

typedef struct {
    int32_t  epoch;
    int64_t  start;
} kl_epoch_t;

/* A closed segment that has a transaction index. */
typedef struct {
    int64_t  base;
    int64_t  n;
} kl_txn_segment_t;

struct kl_checkpoint_s;

struct kl_log_s {
    _Atomic uint32_t     refs;
    kl_env_t            *env;
    kl_part_t           *part;
    int32_t              slot;
    uint64_t             incarnation;
    kf_uuid_t            topic_id;
    int32_t              partition;
    char                *name;          /* "<topic>-<partition>" */
    char                *path;          /* its directory */
    pthread_mutex_t      mutex;         /* what follows */
    int64_t             *bases;
    size_t               bases_n;
    size_t               bases_size;
    int64_t              bases_gen;
    kl_epoch_t          *epochs;
    size_t               epochs_n;
    int64_t              epochs_gen;
    kl_txn_segment_t    *txns;
    size_t               txns_n;
    int64_t              txns_gen;
    kl_hint_t            hints[KL_HINTS];
    uint32_t             hints_n;
    int64_t              hints_gen;
};


/* kl_shared.c */
void kl_pub_load(kl_part_t *p, kl_pub_t *pub);
/* Only state and incarnation, which kl_state_rc() looks at. */
void kl_pub_state(kl_part_t *p, kl_pub_t *pub);
/* The partition's lock is held. */
void kl_pub_load_locked(kl_part_t *p, kl_pub_t *pub);
void kl_pub_store(kl_part_t *p, const kl_pub_t *pub);
kl_producer_t *kl_producer_at(kl_shared_t *sh, uint32_t index);
/* Locks; a dead owner's block gets needs_repair. */
void kl_part_lock(kl_part_t *p);
void kl_part_unlock(kl_part_t *p);
void kl_jobs_lock(kl_part_t *p);
void kl_jobs_unlock(kl_part_t *p);

/* kl_flush.c: kl_flush_data(), and those who wait are told at once. */
kl_rc_t kl_flush_more(kl_log_t *log, int64_t *flushed, bool *rolled);

/* kl_open.c: into a partition that is open (opening it if need be), locked. */
kl_rc_t kl_enter(kl_log_t *log, const kl_config_t *cf, kl_pub_t *pub);
/* The same without the lock, for readers. */
kl_rc_t kl_look(kl_log_t *log, kl_pub_t *pub);
kl_rc_t kl_state_rc(kl_log_t *log, const kl_pub_t *pub);
/* The block is bound to the partition that the handle is of.  Without the lock:
 * true or false by chance if it is bound anew meanwhile. */
bool kl_is_bound(kl_log_t *log);
/* Takes the partition offline; the lock is not held. */
void kl_fail(kl_log_t *log, int64_t open_gen, int err, const char *why);
void kl_fail_locked(kl_log_t *log, kl_pub_t *pub, int err, const char *why);

/* kl_recover.c; the jobs mutex is held. */
kl_rc_t kl_open_part(kl_log_t *log, int32_t leader_epoch,
    const kl_config_t *cf, bool *truncated);

/* kl_metadata.c */
kl_rc_t kl_metadata_write(kl_log_t *log);
kl_rc_t kl_metadata_check(kl_log_t *log);
/* The directory is there and says that it is this topic's. */
bool kl_metadata_is_ours(kl_log_t *log);

/* kl_remove.c: renames the directory, if it is this topic's. */
kl_rc_t kl_remove_ours(kl_log_t *log);

/* kl_repair.c: the lock is held, its owner has died. */
kl_rc_t kl_repair(kl_log_t *log, kl_pub_t *pub);

/* kl_io.c */
void kl_say(kl_env_t *env, kl_log_level_t level, int err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Whole or failed (-1, errno). */
int kl_pwrite(int fd, const void *buf, size_t len, int64_t pos);
/* Bytes read; fewer than len at the end of the file; -1. */
ssize_t kl_pread(int fd, void *buf, size_t len, int64_t pos);
int kl_fdatasync(int fd);
int kl_open_read(const char *path);
int kl_sync_dir(const char *path);
/* 0, or -1 with ENAMETOOLONG. */
int kl_path(char *buf, const char *dir, const char *name);
int kl_segment_path(char *buf, kl_log_t *log, int64_t base, const char *suffix);
/* Writes dir/name over a temporary file; durable: with fsyncs. */
int kl_write_file(const char *dir, const char *name, const void *data,
    size_t len, bool durable);
/* Reads a whole small file (at most max bytes); NULL with errno. */
uint8_t *kl_read_file(const char *dir, const char *name, size_t max,
    size_t *len);
/* The base offset in a name of 20 digits and the suffix, or -1. */
int64_t kl_parse_base(const char *name, const char *suffix);

/* kl_file.c */
kl_rc_t kl_file_get(kl_log_t *log, const kl_pub_t *pub, int64_t base,
    kl_file_t **file);
kl_rc_t kl_file_open(kl_log_t *log, int64_t base, kl_file_t **file);
kl_rc_t kl_file_create(kl_log_t *log, int64_t base);
int kl_file_index_fd(kl_log_t *log, kl_file_t *f);
int kl_file_time_fd(kl_log_t *log, kl_file_t *f);
/* create: if there is none yet; else -1 with ENOENT. */
int kl_file_txn_fd(kl_log_t *log, kl_file_t *f, bool create);
kl_rc_t kl_file_size(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t *size);
int kl_file_unlink(kl_log_t *log, int64_t base);
/* Drops what the table has of this handle's incarnation (all: of the slot). */
void kl_files_drop(kl_env_t *env, int32_t slot, int64_t below, bool all);

/* kl_segment.c */
/* The segment that has offset, and the base of the next one (INT64_MAX: it is
 * the active one). */
kl_rc_t kl_segment_of(kl_log_t *log, const kl_pub_t *pub, int64_t offset,
    int64_t *base, int64_t *next);
/* The partition's directory cannot be opened: told of, or KL_GONE when that is
 * since its topic was deleted meanwhile. */
kl_rc_t kl_dir_failed(kl_log_t *log, int err);
/* A copy of the list from the segment that has offset on; the caller frees.
 * NULL and 0 with an error, as below. */
kl_rc_t kl_segments(kl_log_t *log, const kl_pub_t *pub, int64_t offset,
    int64_t **bases, size_t *n);
/* All segments of the directory, sorted, published or not. */
kl_rc_t kl_segments_list(kl_log_t *log, int64_t **bases, size_t *n);

/* Reads batch headers one after the other. */
typedef struct {
    kl_log_t   *log;
    kl_file_t  *file;
    int64_t     pos;
    int64_t     end;
    size_t      step;                   /* bytes to read at a time */
    int64_t     buf_pos;
    size_t      buf_len;
    uint8_t     buf[4096];
} kl_cursor_t;

void kl_cursor_init(kl_cursor_t *c, kl_log_t *log, kl_file_t *f, int64_t pos,
    int64_t end);
/* The batch at c->pos (which must be below c->end); c->pos stays. */
kl_rc_t kl_cursor_peek(kl_cursor_t *c, kf_batch_t *b);
/* The same where a batch must be: KL_CORRUPT is logged. */
kl_rc_t kl_cursor_next(kl_cursor_t *c, kf_batch_t *b);

/* kl_index.c */
/* Takes a batch that was put at pub->active_size into all the numbers. */
void kl_index_note(kl_log_t *log, kl_file_t *f, kl_pub_t *pub,
    const kf_batch_t *b, int64_t interval);
/* Writes pending entries; with close also the last time entry. */
void kl_index_write(kl_log_t *log, kl_file_t *f, kl_pub_t *pub, bool close);
/* Cuts off what a failed write left behind the entries that count: of a closed
 * segment, the size of the file tells how many there are. */
void kl_index_cut(kl_log_t *log, kl_file_t *f, const kl_pub_t *pub);
/* The position to scan from for offset, and for a position. */
int64_t kl_index_floor(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t offset);
int64_t kl_index_floor_pos(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t pos);
/* The last time entry with a timestamp <= ts and an offset < upto. */
bool kl_time_floor(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t ts_ms, int64_t upto, kl_stamp_t *stamp);
void kl_pub_new_segment(kl_pub_t *pub, int64_t base);

/* kl_append.c; the lock is held */
kl_rc_t kl_roll(kl_log_t *log, kl_pub_t *pub, int64_t now_ms);
/* After all checks: writes and publishes; e: the producer's entry, NULL: none
 * yet. */
kl_rc_t kl_append_locked(kl_log_t *log, kl_pub_t *pub, kl_producer_t *e,
    uint8_t *data, kf_batch_t *b, const kl_config_t *cf, int32_t leader_epoch,
    int64_t now_ms);

/* kl_txnindex.c */
/* The lock is held: an entry for the abort marker that is about to be written
 * at pub->log_end to the active segment f. */
kl_rc_t kl_txn_index_add(kl_log_t *log, kl_pub_t *pub, kl_file_t *f,
    const kl_producer_t *e);
/* Takes away what was not published. */
void kl_txn_index_undo(kl_log_t *log, kl_pub_t *pub, kl_file_t *f);

/*
 * Recovery: begin cuts off every entry from offset `from` on (it will come
 * again) and tells whether what is left is good; add and end while the batches
 * from there on are read again.
 */
typedef struct {
    kl_log_t  *log;
    int        fd;                      /* of the segment base, or -1 */
    int64_t    base;
    int64_t    n;
    bool       changed;                 /* the directory, too */
} kl_txn_writer_t;

kl_rc_t kl_txn_index_begin(kl_txn_writer_t *w, kl_log_t *log, int64_t from,
    const struct kl_checkpoint_s *mark, bool *good);
kl_rc_t kl_txn_index_put(kl_txn_writer_t *w, int64_t base,
    const kl_producer_t *e, int64_t marker);
kl_rc_t kl_txn_index_end(kl_txn_writer_t *w, kl_pub_t *pub);

/* kl_read.c */
/* A segment may go while it is looked for: then it is KL_OUT_OF_RANGE. */
kl_rc_t kl_read_again(kl_log_t *log, kl_rc_t rc, int64_t offset);
kl_rc_t kl_seek(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f, int64_t end,
    int64_t offset, int64_t *pos, int64_t *batch_offset);

/* kl_time.c: the greatest timestamp of a segment's records, or -1. */
kl_rc_t kl_segment_max_ts(kl_log_t *log, const kl_pub_t *pub, kl_file_t *f,
    int64_t *ts_ms);

/* kl_epoch.c */
kl_rc_t kl_epoch_add(kl_log_t *log, kl_pub_t *pub, int32_t epoch,
    int64_t start);
/* After recovery: reads the file (rebuilding it when it is no good), adds what
 * was seen in the batches, cuts what begins at or after the end. */
kl_rc_t kl_epoch_load(kl_log_t *log, kl_pub_t *pub, const kl_epoch_t *seen,
    size_t seen_n);
/* The lock is held: epochs that ended below log_start go. */
void kl_epoch_trim(kl_log_t *log, kl_pub_t *pub);

/* kl_producer.c; the lock is held */
#define KL_NO_EPOCH  (-1)

kl_producer_t *kl_producer_find(kl_log_t *log, int64_t id);
kl_rc_t kl_producer_check(kl_log_t *log, const kf_batch_t *b, bool verify,
    kl_append_t *res, kl_producer_t **e);
/* Takes a block out of the tree; false: it is not in it. */
bool kl_producer_unlink(kl_shared_t *sh, kl_part_t *p, kl_producer_t *e);
/* Puts a reserved one into the tree. */
void kl_producer_link_in(kl_log_t *log, kl_producer_t *e);
/* Takes a batch in; e: found, or reserved.  Leaves producers_dirty set: the
 * caller publishes and then clears it. */
void kl_producer_note(kl_log_t *log, kl_producer_t *e, bool reserved,
    const kf_batch_t *b, int32_t coordinator_epoch, int64_t now_ms,
    kl_pub_t *pub);
void kl_producers_clear(kl_shared_t *sh, kl_part_t *p);
/* Takes the lock itself, more than once if there is much to do. */
kl_rc_t kl_producers_expire(kl_log_t *log, const kl_config_t *cf,
    int64_t now_ms);
/* The first offset of all open transactions but e's (NULL: of all); INT64_MAX:
 * there is none. */
int64_t kl_producers_first_open(kl_log_t *log, const kl_producer_t *e);

/* kl_pool.c; the lock is held */
/* A block for a producer that has none, in no tree yet; NULL: the pool is full
 * of open transactions. */
kl_producer_t *kl_producer_reserve(kl_log_t *log, int64_t id);
void kl_producer_unreserve(kl_log_t *log, kl_producer_t *e);
/* Gives a block back that is in no tree. */
void kl_producer_give(kl_shared_t *sh, kl_producer_t *e);

typedef bool (*kl_producer_visit_pt)(void *ctx, kl_producer_t *e);

void kl_producers_each(kl_log_t *log, bool open_only,
    kl_producer_visit_pt visit, void *ctx);

/* Kafka's producer snapshot: version i16, CRC-32C u32 of what follows, count
 * i32, entries. */
#define KL_SNAPSHOT_HEAD   10
#define KL_SNAPSHOT_ENTRY  46

/* All entries, the head left blank; the caller frees. */
uint8_t *kl_producers_dump(kl_log_t *log, size_t *len);
/* Takes one entry in. */
kl_rc_t kl_producer_load(kl_log_t *log, const uint8_t *entry);

/* kl_snapshot.c */
/* Fills in the head and writes <offset>.snapshot, durably. */
kl_rc_t kl_snapshot_write(kl_log_t *log, int64_t offset, uint8_t *data,
    size_t len);
/* The lock is held: from the newest snapshot and the batches after it, up to
 * pub->log_end.  mark: it is a recovery, which brings the transaction indexes
 * up to date, too. */
kl_rc_t kl_producers_rebuild(kl_log_t *log, kl_pub_t *pub,
    const struct kl_checkpoint_s *mark);
/* A snapshot from beyond the end would be taken for a later log's. */
void kl_snapshot_drop_above(kl_log_t *log, int64_t end);
/* Removes all snapshots but the newest two that are <= newest. */
void kl_snapshot_tidy(kl_log_t *log, int64_t newest);

/* kl_checkpoint.c */
typedef struct kl_checkpoint_s {
    int64_t  recovery_point;
    int64_t  log_start;
    int64_t  log_end;                   /* when clean */
    int64_t  active_base;
    int64_t  active_size;
    int64_t  index_n;
    int64_t  time_n;
    int64_t  txn_n;                     /* -1: not known */
    bool     clean;
} kl_checkpoint_t;

/* KL_OK; KL_OUT_OF_RANGE: no such file; KL_CORRUPT; KL_STORAGE_ERROR */
kl_rc_t kl_checkpoint_read(kl_log_t *log, kl_checkpoint_t *c);
kl_rc_t kl_checkpoint_write(kl_log_t *log, const kl_checkpoint_t *c);
/* The jobs mutex is held. */
kl_rc_t kl_checkpoint_locked(kl_log_t *log, bool clean);


#pragma GCC visibility pop

#endif
