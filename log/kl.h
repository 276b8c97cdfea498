/*
 * Partition logs on disk, shared by the workers of one broker.
 *
 * Layer: POSIX and codec/ only.  Time is an argument.  No nginx, no topics, no
 * configuration language: callers hand in numbers.
 *
 * Two halves:
 *
 *   shared    kl_shared_t: a table of partition control blocks (kl_part_t) and
 *             a pool of producer-state blocks, in memory that all workers map
 *             at the same address.  Control blocks are never moved or freed.
 *             It is a cache of the disk: kl_recover() rebuilds a block.
 *   process   kl_env_t, kl_log_t, kl_file_t: paths and open files of one
 *             worker.  Thread-safe within the process.
 *
 * Locks.  Each control block has one robust, process-shared mutex, taken
 * inside the calls below and never held over an fsync, a decompression or the
 * network; its longest section is the pwrite of an append.  It comes after the
 * coordinator's lock.  When its owner has died, the next one that takes it
 * repairs on the spot: the file is cut back to the published end and the
 * producer state is rebuilt from the file; a block beyond repair is FAILED.
 * Readers take no lock: kl_snapshot() is a seqlock read.
 *
 * Durability.  `flushed` is the offset below which everything (data, rolled
 * segments, directory entries) is on the disk.  kl_flush() raises it and has
 * no owner: any process may flush what another has written.  A failed
 * fdatasync is never retried as a success: the block is FAILED until it is
 * reopened.
 */

#ifndef KL_H
#define KL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "../codec/kf_batch.h"

#pragma GCC visibility push(hidden)


typedef enum {
    KL_OK = 0,
    KL_STORAGE_ERROR,       /* I/O failed or the disk is full; logged */
    KL_FAILED,              /* the partition is offline until it is reopened */
    KL_CORRUPT,             /* damage that may not be cut off; logged */
    KL_OUT_OF_RANGE,        /* an offset that the log does not have */
    KL_GONE,                /* the slot belongs to another incarnation now */
    KL_NO_MEMORY,           /* a shared pool or table is full */
    KL_REFUSED              /* producer state says no: result->error tells */
} kl_rc_t;


/* Log lines go to the caller; level as nginx counts them (2: alert). */
typedef enum {
    KL_LOG_ALERT = 2, KL_LOG_CRIT = 3, KL_LOG_ERR = 4, KL_LOG_WARN = 5,
    KL_LOG_NOTICE = 6, KL_LOG_INFO = 7
} kl_log_level_t;

typedef void (*kl_logger_pt)(void *ctx, kl_log_level_t level, int err,
    const char *line);


/* --- shared half -------------------------------------------------------- */

#define KL_WORKER_SLOTS  128            /* workers that can wait at a time */

typedef enum {
    KL_FREE = 0,            /* nobody's */
    KL_NEW,                 /* bound to a partition, not yet opened from disk */
    KL_OPEN,
    KL_FAILED_STATE,        /* answers KL_FAILED until kl_recover() */
    KL_DELETED              /* the partition is being deleted */
} kl_state_t;

typedef struct kl_shared_s  kl_shared_t;
typedef struct kl_part_s    kl_part_t;  /* opaque; see kl_snapshot() */

/* Bytes that kl_shared_init() needs. */
size_t kl_shared_size(uint32_t parts, uint32_t producers);

/* Lays out fresh, zeroed shared memory.  mem: 64-byte aligned. */
kl_shared_t *kl_shared_init(void *mem, uint32_t parts, uint32_t producers);

uint32_t kl_shared_parts(const kl_shared_t *sh);

/*
 * The slot of (topic_id, partition): the one that has it, else a free one
 * whose incarnation is raised and whose state becomes KL_NEW.  -1: the table
 * is full.  The caller holds the coordinator's lock (or is alone, at start).
 */
int32_t kl_bind(kl_shared_t *sh, kf_uuid_t topic_id, int32_t partition);

/*
 * Gives a slot back: raises the incarnation (everybody's handles turn
 * KL_GONE), frees its producer blocks.  Takes the partition's lock.  Caller
 * holds the coordinator's lock.
 */
void kl_release(kl_shared_t *sh, int32_t slot);

/* Marks every slot; after a replay kl_release_unbound() frees those that were
 * not bound again meanwhile. */
void kl_mark_unbound(kl_shared_t *sh);
void kl_release_unbound(kl_shared_t *sh);

kl_part_t *kl_part(kl_shared_t *sh, int32_t slot);

/* Bitmap of worker slots with waiters on this partition; see the module's
 * wake-up rules.  Two words, sequentially consistent. */
_Atomic uint64_t *kl_part_waiters(kl_part_t *p);

/* A consistent view of a partition's published numbers. */
typedef struct {
    kl_state_t  state;
    uint64_t    incarnation;
    int64_t     log_start;          /* first offset that may be read */
    int64_t     log_end;            /* next offset to be written */
    int64_t     flushed;            /* below it all is on the disk */
    int64_t     first_open_txn;     /* INT64_MAX: none */
    int64_t     bytes;              /* of all .log files */
    int32_t     leader_epoch;       /* of the last append */
    int64_t     aborted_last;       /* the last abort's marker, -1: none */
    uint64_t    generation;         /* raised by bind, release, each opening */
} kl_offsets_t;

/* With caching false the high watermark is flushed, else log_end; the last
 * stable offset is the lower of that and first_open_txn (which is never below
 * log_start).  A fetch from above aborted_last has no aborted transactions.
 * Offsets of one generation say nothing in another: opening may have cut the
 * log, and what was appended since stands at the same offsets. */
void kl_snapshot(kl_part_t *p, kl_offsets_t *o);


/* --- process half ------------------------------------------------------- */

typedef struct kl_env_s   kl_env_t;
typedef struct kl_log_s   kl_log_t;
typedef struct kl_file_s  kl_file_t;    /* an open segment file, counted */

typedef struct {
    const char    *dir;                 /* the broker's data directory */
    uint32_t       open_files_max;      /* LRU bound, in segments */
    kl_logger_pt   log;
    void          *log_ctx;
    /* Told (with log_ctx, in any thread, may be NULL) that a partition cannot
     * be opened because its directory is another topic's; it stays NEW. */
    void         (*foreign)(void *log_ctx);
    /* Told (the same way) that a call which goes on with other I/O has made a
     * partition's data durable, so that whoever waits for it need not wait for
     * the rest.  kl_flush_data() has no rest: its caller tells. */
    void         (*flushed)(void *log_ctx, int32_t slot);
} kl_env_opts_t;

kl_env_t *kl_env_create(kl_shared_t *sh, const kl_env_opts_t *opts);
void kl_env_free(kl_env_t *env);

/* Closes descriptors of deleted segments and partitions: from a timer, and when
 * another worker says that topics changed.  No I/O but close(). */
void kl_env_trim(kl_env_t *env);

/* What a partition's topic asks of its log. */
typedef struct {
    int64_t  segment_bytes;
    int64_t  segment_ms;
    int64_t  segment_index_bytes;
    int64_t  index_interval_bytes;
    int64_t  retention_ms;              /* -1: for ever */
    int64_t  retention_bytes;           /* -1: no bound */
    int64_t  producer_expiration_ms;
    bool     append_time;               /* message.timestamp.type */
    bool     compacted;
    bool     verify;                    /* transactional batches need
                                           kl_txn_verify() */
} kl_config_t;

/*
 * A handle on one partition.  No I/O: the partition is opened (recovered, or
 * made when it has no directory yet) at its first use.  topic is copied.
 * kl_log_close() drops the caller's reference; files live as long as slices of
 * them do.
 */
kl_log_t *kl_log_open(kl_env_t *env, int32_t slot, uint64_t incarnation,
    kf_uuid_t topic_id, kf_str_t topic, int32_t partition);
void kl_log_ref(kl_log_t *log);
void kl_log_close(kl_log_t *log);
kl_part_t *kl_log_part(kl_log_t *log);
/* false: the slot was released (and perhaps bound again) since. */
bool kl_log_is_current(kl_log_t *log);

/*
 * Opens from disk what is KL_NEW or KL_FAILED_STATE: reads the checkpoint,
 * scans past the recovery point, keeps a torn tail aside and cuts it off,
 * rebuilds indexes and producer state, fdatasyncs, publishes.  A bad batch
 * with a valid one behind it, or below the recovery point, is KL_CORRUPT; but
 * a hole (a write that a power cut lost before it was flushed) ends the log
 * like a torn tail.  leader_epoch: the broker's current one.  *truncated tells
 * that bytes were cut.  Slow: a thread's work.  Other calls on a KL_NEW
 * partition do it by themselves, which is quick for a partition that has no
 * directory yet.
 */
kl_rc_t kl_recover(kl_log_t *log, int32_t leader_epoch, const kl_config_t *cf,
    bool *truncated);


/* What an append answers. */
typedef struct {
    int16_t  error;                     /* Kafka's, with KL_REFUSED */
    bool     unverified;                /* refused for want of verification */
    bool     duplicate;                 /* from the producer's window */
    int64_t  base_offset;               /* of the batch, or of its original */
    int64_t  next_offset;               /* acks=all waits for flushed >= this */
    int64_t  append_time_ms;            /* of a duplicate's original, else -1 */
    int64_t  log_start;
    uint64_t generation;                /* as in kl_offsets_t: in another, the
                                           batch may be gone */
} kl_append_t;

/*
 * Appends one validated batch; its base offset and leader epoch (and, for
 * append_time, its timestamps) are patched in place.  Checks the producer's
 * epoch and sequence (KIP-98, KIP-360) under the partition's lock, rolls the
 * segment when due, writes, indexes, publishes.  Errors leave the log as it
 * was.  leader_epoch: the broker's; one that is older than the last batch's or
 * than kl_recover()'s counts as that.  b: from kf_batch_check(); b->base_offset
 * is updated.
 */
kl_rc_t kl_append(kl_log_t *log, uint8_t *data, kf_batch_t *b,
    const kl_config_t *cf, int32_t leader_epoch, int64_t now_ms,
    kl_append_t *res);

/*
 * Transactions (KIP-98, KIP-890).
 *
 * kl_txn_verify() marks (producer id, epoch) as allowed to append transactional
 * batches here: the coordinator's word that the partition is in its ongoing
 * transaction, given under the coordinator's lock.  The marker takes it away.
 * No I/O: a partition that is not open yet is not opened (KL_FAILED).  Marks
 * are kept in memory only and may be lost (restart, repair, a full pool, not
 * open at the time), so that before an unverified batch is refused the
 * coordinator is asked again, marks what it has, and the append is repeated.
 * from_zero (transaction version 2): the first batch must have sequence 0 even
 * if the partition knows nothing of the producer.
 * number tells the producer's transactions apart where the epoch does not
 * (version 1): it grows from one to the next.
 * KL_REFUSED: the partition has seen a later epoch (INVALID_PRODUCER_EPOCH).
 *
 * With cf->verify an append of a transactional batch checks, in this order:
 * an epoch below the known or the marked one is INVALID_PRODUCER_EPOCH; a
 * duplicate is answered as such; without a mark or an open transaction at that
 * epoch it is refused with res->unverified set, the error being
 * INVALID_PRODUCER_EPOCH above the marked epoch, else INVALID_TXN_STATE; then
 * the sequence.  A batch outside of the producer's open transaction is
 * INVALID_TXN_STATE in any case.
 */
kl_rc_t kl_txn_verify(kl_log_t *log, int64_t producer_id, int16_t epoch,
    bool from_zero, int64_t number, int64_t now_ms);


typedef struct {
    int64_t  producer_id;
    int16_t  producer_epoch;            /* version 2: already the bumped one */
    int32_t  coordinator_epoch;
    bool     commit;
    bool     forced;
    int64_t  decided;                   /* the transaction's number is not
                                           above this; 0: not known */
} kl_marker_t;

typedef struct {
    int16_t  error;                     /* Kafka's, with KL_REFUSED */
    bool     written;
    int64_t  offset;                    /* of the marker, -1: none written */
    int64_t  next_offset;               /* done when flushed >= this */
    uint64_t generation;                /* as in kl_offsets_t */
} kl_marked_t;

/*
 * Ends the producer's transaction in this partition.  Idempotent: without an
 * open (or marked) transaction at an epoch <= the marker's, and with a number
 * that is not above its `decided` (one that began later), nothing is written
 * and the answer is KL_OK; next_offset is then the log's end, as another
 * process may have written the marker and not flushed it.
 * forced (WriteTxnMarkers): is written in any case, but KL_REFUSED with
 * INVALID_PRODUCER_EPOCH below the known epoch, or with
 * TRANSACTION_COORDINATOR_FENCED below the known coordinator epoch.
 * An abort is in the transaction index before the last stable offset moves.
 */
kl_rc_t kl_append_marker(kl_log_t *log, const kl_marker_t *m,
    const kl_config_t *cf, int32_t leader_epoch, int64_t now_ms,
    kl_marked_t *res);


typedef struct {
    int64_t  producer_id;
    int64_t  first_offset;
} kl_aborted_t;

/*
 * The aborted transactions that a reader of [offset, upto) must know: marker at
 * or above offset, first offset below upto; by first offset.  upto: the end of
 * the data that is returned (at most the last stable offset).  *n may come out
 * greater than max; then the list is incomplete: call again with more room.
 * No I/O when offset is above aborted_last; else small reads.
 */
kl_rc_t kl_aborted(kl_log_t *log, int64_t offset, int64_t upto,
    kl_aborted_t *list, size_t max, size_t *n);


typedef struct {
    int64_t  producer_id;
    int16_t  producer_epoch;
    int32_t  last_sequence;             /* -1: none in this epoch */
    int64_t  last_timestamp_ms;         /* of its last batch; -1: not known */
    int32_t  coordinator_epoch;         /* of its last marker, or -1 */
    int64_t  txn_start;                 /* of the open transaction, or -1 */
} kl_producer_info_t;

/* A copy of the producers' state, open_only: of those with an open
 * transaction, by first offset.  *list is malloc()ed, NULL when *n is 0.
 * Opens a partition that is NEW. */
kl_rc_t kl_producers(kl_log_t *log, bool open_only, kl_producer_info_t **list,
    size_t *n);

/*
 * Makes everything up to the current end durable: fdatasync of each segment
 * from the flushed end on, fsync of the directory when it has new entries.
 * Blocking: a thread's work.  *flushed: the new flushed end.
 */
kl_rc_t kl_flush(kl_log_t *log, int64_t *flushed);

/*
 * The same without the checkpoint that a closed segment asks for, which takes a
 * few syncs more that nobody waits for: rolled tells that kl_checkpoint() is
 * due.
 */
kl_rc_t kl_flush_data(kl_log_t *log, int64_t *flushed, bool *rolled);


/* A piece of one segment file, whole batches only. */
typedef struct {
    kl_file_t  *file;                   /* referenced; NULL when len is 0 */
    int         fd;
    off_t       pos;
    uint32_t    len;
    int64_t     first_offset;           /* base offset of the first batch */
    int64_t     next_offset;            /* to read on from */
    int64_t     recent_ms;              /* all of it was appended later than
                                           this (wall clock); 0: not known */
} kl_slice_t;

/*
 * Finds the batches from the one that contains offset up to (not including)
 * the offset upto, at most max_bytes, but one whole batch when at_least_one.
 * Never crosses a segment's end.  len 0 when offset == upto.  KL_OUT_OF_RANGE
 * below log_start or above log_end.  The caller drops the slice by
 * kl_file_unref().
 */
kl_rc_t kl_read(kl_log_t *log, int64_t offset, int64_t upto,
    uint32_t max_bytes, bool at_least_one, kl_slice_t *slice);
void kl_file_ref(kl_file_t *file);
void kl_file_unref(kl_file_t *file);

/* Bytes readable from offset up to upto, at most max: for fetch.min.bytes. */
kl_rc_t kl_readable(kl_log_t *log, int64_t offset, int64_t upto, int64_t max,
    int64_t *bytes);

/*
 * The first record with a timestamp >= ts_ms below upto: *offset,
 * *timestamp_ms and *leader_epoch, or -1 for all when there is none.  Reads
 * and may decompress: a thread's work.
 */
kl_rc_t kl_offset_for_time(kl_log_t *log, int64_t ts_ms, int64_t upto,
    int64_t *offset, int64_t *timestamp_ms, int32_t *leader_epoch);

/* The record with the greatest timestamp below upto, or -1s: a thread's. */
kl_rc_t kl_max_timestamp(kl_log_t *log, int64_t upto, int64_t *offset,
    int64_t *timestamp_ms, int32_t *leader_epoch);

/*
 * KIP-320: the largest epoch <= leader_epoch that the log has and the offset
 * at which it ended; -1/-1 when none (also for an epoch above the current).
 */
kl_rc_t kl_epoch_end(kl_log_t *log, int32_t leader_epoch, int32_t *epoch,
    int64_t *end_offset);
/* The epoch under which the batch with this offset was written, or -1. */
int32_t kl_epoch_of(kl_log_t *log, int64_t offset);


/*
 * Background work, each a thread's: retention by time and size never passes
 * upto (the high watermark) nor an open transaction; *removed counts segments.
 * Expired producers go, unless they have an open transaction.
 * A topic that is only compacted has -1 for both bounds.
 */
kl_rc_t kl_retain(kl_log_t *log, const kl_config_t *cf, int64_t now_ms,
    int64_t upto, uint32_t *removed);

/* Raises log_start to offset (DeleteRecords); durable when it returns. */
kl_rc_t kl_delete_records(kl_log_t *log, int64_t offset, int64_t *log_start);

/* Writes the recovery point, producer snapshot and (clean) the clean mark. */
kl_rc_t kl_checkpoint(kl_log_t *log, bool clean);

/*
 * Renames the directory to "<topic>-<partition>.<uuid>-delete"; its files stay
 * until kl_remove_files(), and the old name may be back after a power cut until
 * kl_remove_sync().  The slot is released by the caller, before or afterwards.
 * KL_GONE: the directory is another topic's by now.  Waits for a job of the
 * partition that is under way: a thread's work.
 */
kl_rc_t kl_remove(kl_log_t *log);

/* Whatever was removed so far stays so: an fsync of the data directory. */
kl_rc_t kl_remove_sync(kl_env_t *env);

/* Unlinks what kl_remove() has left, whoever called it; does what it can until
 * stop (which may be NULL) answers true.  One at a time per data directory. */
kl_rc_t kl_remove_files(kl_env_t *env, bool (*stop)(void *ctx), void *ctx);

/* Directories of dir that `known` does not recognise are reported by one WARN
 * line each and left alone. */
void kl_sweep(kl_env_t *env,
    bool (*known)(void *ctx, kf_str_t topic, int32_t partition), void *ctx);

/* Reads back batches one after the other, for the journal's replay and tools:
 * whole batches into buf; KL_OK with *len 0 at the end. */
kl_rc_t kl_read_batches(kl_log_t *log, int64_t offset, int64_t upto,
    uint8_t *buf, size_t size, size_t *len, int64_t *next_offset);

/* The journal's own cleaning: drops whole segments below offset at once. */
kl_rc_t kl_drop_below(kl_log_t *log, int64_t offset);
/* Base offset of the active segment: everything below is closed. */
int64_t kl_active_base(kl_log_t *log);


#pragma GCC visibility pop

#endif
