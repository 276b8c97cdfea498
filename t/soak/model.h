/*
 * What the broker has promised so far, and where it broke a promise.
 *
 * Promises:  an acknowledged record is at its offset, once, for ever; what a
 * consumer saw stays at its offset; the high watermark does not go back; a
 * producer id is given out once; a created topic stays, with its id; a deleted
 * one does not come back.
 *
 * A record is named by a number that is unique in the whole run: its producer
 * (numbered from 1, never again) and that producer's counter for the partition.
 */

#ifndef SOAK_MODEL_H
#define SOAK_MODEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define PARTS_MAX  8

typedef uint64_t  record_t;             /* 0: none */

#define record_of(producer, counter)                                          \
    ((uint64_t) (producer) << 40 | (uint64_t) (counter))
#define record_producer(r)  ((uint32_t) ((r) >> 40))
#define record_counter(r)   ((r) & (((uint64_t) 1 << 40) - 1))

typedef struct topic_s  topic_t;

typedef struct {
    int64_t   base;
    record_t  first;
    int32_t   count;
} ack_t;

typedef struct {
    pthread_mutex_t  lock;              /* over all below */
    topic_t         *topic;
    int              index;
    ack_t           *acks;
    size_t           acks_n, acks_cap;
    record_t        *seen;              /* by offset */
    int64_t          seen_end, seen_cap;
    int64_t          hw;                /* highest ever shown */
} part_t;

typedef enum {
    TOPIC_LIVE,
    TOPIC_DELETING,                     /* asked for, not answered */
    TOPIC_DELETED
} topic_state_t;

struct topic_s {
    char           name[64];
    uint8_t        id[16];
    int            parts_n;
    topic_state_t  state;
    bool           by_id;               /* how clients name it */
    part_t         parts[PARTS_MAX];
    topic_t       *next;
};

extern topic_t  *topics;                /* newest first, never removed */

topic_t *topic_add(const char *name, const uint8_t *id, int parts, bool by_id);
void topic_deleted(topic_t *t);         /* forgets its records */
topic_t *topic_live(const char *name);

/* Records what a producer was told. */
void acked(part_t *p, int64_t base, record_t first, int count);
/* Records what a consumer was shown; a fault when it differs from before. */
void saw(part_t *p, int64_t offset, record_t r, const char *who);
int64_t hw_now(part_t *p);
void hw_saw(part_t *p, int64_t before, int64_t hw, const char *who);

uint32_t producer_new(bool idempotent);
bool producer_is_idempotent(uint32_t producer);
void producer_id_new(int64_t pid, const char *who);     /* must be new */


/* --- faults -------------------------------------------------------------- */

__attribute__((format(printf, 1, 2)))
void fault(const char *fmt, ...);
void stalled(const char *who);

typedef struct {
    _Atomic uint64_t  faults, stalls, batches_acked, records_acked, retries,
                      fetches, records_seen, created, deleted, errors;
} counters_t;

extern counters_t  counters;


/* --- batches (batch.c) --------------------------------------------------- */

/* One record batch of `count` records of this producer; pid -1: plain. */
void batch_make(out_t *o, part_t *p, record_t first, int count, int size,
    int64_t pid, int epoch, int64_t sequence);

/*
 * Reads the batches in `data`: checks each byte of them, calls on_record for
 * each record at or above `from` in order.  Answers the next offset; a cut last
 * batch is left.
 */
int64_t batches_read(part_t *p, const uint8_t *data, size_t n, int64_t from,
    int64_t below, const char *who,
    void (*on_record)(void *ctx, int64_t offset, record_t r), void *ctx);


/* --- requests (request.c) ------------------------------------------------ */

/* These answer an error code, or -1000 when the connection was lost. */
#define LOST  -1000

bool retriable(int error);

int ask_create(conn_t *c, const char *name, int parts, const char *config[],
    uint8_t *id);
int ask_delete(conn_t *c, const char *name, const uint8_t *id);
/* By name, or by id when name is NULL: fills the id, and the name. */
int ask_topic(conn_t *c, const char *name, uint8_t *id, int *parts,
    char *found);
int ask_producer_id(conn_t *c, int64_t *pid, int *epoch);
int ask_offset(conn_t *c, part_t *p, int64_t timestamp, int64_t *offset);

/* One Fetch of one partition; *data points into the connection's frame. */
typedef struct {
    int             error;
    int64_t         hw, lso, log_start;
    const uint8_t  *data;
    size_t          len;
} fetched_t;

int ask_fetch(conn_t *c, part_t *p, int64_t offset, int max_wait_ms,
    int max_bytes, int isolation, fetched_t *f);

/* Several partitions of one topic, one answer. */
int ask_fetch_all(conn_t *c, topic_t *t, const int64_t *offsets,
    int max_wait_ms, int max_bytes, int isolation, fetched_t *f);

bool produce_send(conn_t *c, part_t *p, const uint8_t *batch, size_t len);
int produce_answer(conn_t *c, part_t *p, int32_t correlation, int64_t *base);


/* --- actors -------------------------------------------------------------- */

typedef struct {
    uint64_t     seed;
    const char  *name;          /* the seed, as a part of topics' names */
    int          rate;          /* batches per second and producer, 0: none */
    int          patience;      /* seconds that the broker may take to come */
    bool         lenient;       /* Kafka's own: what it does takes a while */
} options_t;

extern options_t      options;
extern volatile bool  paused, quitting;
extern volatile bool  dry;      /* producers have no more to send */

/* Waits while paused; true when it is time to end. */
bool actor_pause(void);
void actor_begin(void (*run)(void *ctx), void *ctx);
void actors_pause(bool on);
void actors_quit(void);

void producer_begin(part_t *p, bool idempotent, int number);
void consumer_run(void *ctx);           /* topic_t * */
void churn_run(void *ctx);              /* (intptr_t) number */

/* Reads everything and compares; false when there were faults. */
bool check_all(void);

#endif
