#define _GNU_SOURCE
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCERS_MAX  65536

topic_t          *topics;
counters_t        counters;
options_t         options;
volatile bool     paused, quitting, dry;

static pthread_mutex_t  topics_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t  pids_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t          idempotent_bits[PRODUCERS_MAX];
static uint32_t         producers_n = 1;
static int64_t         *pids;
static size_t           pids_n, pids_cap;


static void *
grown(void *p, size_t size)
{
    p = realloc(p, size);
    if (p == NULL) {
        abort();
    }

    return p;
}


/* --- faults -------------------------------------------------------------- */

void
fault(const char *fmt, ...)
{
    char     line[512];
    va_list  args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);

    if (counters.faults++ < 40) {
        printf("FAULT %s\n", line);
        fflush(stdout);
    }
}


void
stalled(const char *who)
{
    counters.stalls++;
    printf("STALL %s: no answer in time\n", who);
    fflush(stdout);
}


/* --- topics -------------------------------------------------------------- */

topic_t *
topic_add(const char *name, const uint8_t *id, int parts, bool by_id)
{
    int       i;
    topic_t  *t, *other;

    t = calloc(1, sizeof(topic_t));
    if (t == NULL) {
        abort();
    }

    snprintf(t->name, sizeof(t->name), "%s", name);
    memcpy(t->id, id, 16);
    t->parts_n = parts;
    t->by_id = by_id;

    for (i = 0; i < parts; i++) {
        pthread_mutex_init(&t->parts[i].lock, NULL);
        t->parts[i].topic = t;
        t->parts[i].index = i;
    }

    pthread_mutex_lock(&topics_lock);

    for (other = topics; other; other = other->next) {
        if (memcmp(other->id, id, 16) == 0) {
            fault("topic %s got the id that %s had", name, other->name);
        }
    }

    t->next = topics;
    topics = t;
    pthread_mutex_unlock(&topics_lock);

    counters.created++;

    return t;
}


void
topic_deleted(topic_t *t)
{
    int      i;
    part_t  *p;

    t->state = TOPIC_DELETED;
    counters.deleted++;

    for (i = 0; i < t->parts_n; i++) {
        p = &t->parts[i];
        pthread_mutex_lock(&p->lock);
        free(p->acks);
        free(p->seen);
        p->acks = NULL;
        p->seen = NULL;
        p->acks_n = p->acks_cap = 0;
        p->seen_end = p->seen_cap = 0;
        pthread_mutex_unlock(&p->lock);
    }
}


topic_t *
topic_live(const char *name)
{
    topic_t  *t;

    pthread_mutex_lock(&topics_lock);

    for (t = topics; t; t = t->next) {
        if (t->state != TOPIC_DELETED && strcmp(t->name, name) == 0) {
            break;
        }
    }

    pthread_mutex_unlock(&topics_lock);

    return t;
}


/* --- records ------------------------------------------------------------- */

void
acked(part_t *p, int64_t base, record_t first, int count)
{
    ack_t  *a;

    counters.batches_acked++;
    counters.records_acked += (uint64_t) count;

    if (base < 0) {
        fault("%s-%d: acknowledged at offset %lld", p->topic->name, p->index,
              (long long) base);
        return;
    }

    pthread_mutex_lock(&p->lock);

    if (p->topic->state != TOPIC_DELETED) {
        if (p->acks_n == p->acks_cap) {
            p->acks_cap = p->acks_cap * 2 + 64;
            p->acks = grown(p->acks, p->acks_cap * sizeof(ack_t));
        }

        a = &p->acks[p->acks_n++];
        a->base = base;
        a->first = first;
        a->count = count;
    }

    pthread_mutex_unlock(&p->lock);
}


void
saw(part_t *p, int64_t offset, record_t r, const char *who)
{
    record_t  was;

    counters.records_seen++;

    pthread_mutex_lock(&p->lock);

    if (p->topic->state == TOPIC_DELETED) {
        pthread_mutex_unlock(&p->lock);
        return;
    }

    if (offset >= p->seen_cap) {
        int64_t  cap = offset * 2 + 256;

        p->seen = grown(p->seen, (size_t) cap * sizeof(record_t));
        memset(p->seen + p->seen_cap, 0,
               (size_t) (cap - p->seen_cap) * sizeof(record_t));
        p->seen_cap = cap;
    }

    was = p->seen[offset];
    p->seen[offset] = r;

    if (offset >= p->seen_end) {
        p->seen_end = offset + 1;
    }

    pthread_mutex_unlock(&p->lock);

    if (was && was != r) {
        fault("%s: %s-%d offset %lld was record %u/%llu, is %u/%llu", who,
              p->topic->name, p->index, (long long) offset,
              record_producer(was), (unsigned long long) record_counter(was),
              record_producer(r), (unsigned long long) record_counter(r));
    }
}


int64_t
hw_now(part_t *p)
{
    int64_t  hw;

    pthread_mutex_lock(&p->lock);
    hw = p->hw;
    pthread_mutex_unlock(&p->lock);

    return hw;
}


void
hw_saw(part_t *p, int64_t before, int64_t hw, const char *who)
{
    /* before: what was known when the request left */
    if (hw < before && p->topic->state == TOPIC_LIVE) {
        fault("%s: %s-%d high watermark went from %lld back to %lld", who,
              p->topic->name, p->index, (long long) before, (long long) hw);
    }

    pthread_mutex_lock(&p->lock);

    if (hw > p->hw) {
        p->hw = hw;
    }

    pthread_mutex_unlock(&p->lock);
}


/* --- producers ----------------------------------------------------------- */

uint32_t
producer_new(bool idempotent)
{
    uint32_t  n;

    pthread_mutex_lock(&pids_lock);
    n = producers_n++;

    if (n >= PRODUCERS_MAX) {
        abort();
    }

    idempotent_bits[n] = idempotent;
    pthread_mutex_unlock(&pids_lock);

    return n;
}


bool
producer_is_idempotent(uint32_t producer)
{
    return producer < PRODUCERS_MAX && idempotent_bits[producer];
}


void
producer_id_new(int64_t pid, const char *who)
{
    size_t  i;
    bool    twice = false;

    pthread_mutex_lock(&pids_lock);

    for (i = 0; i < pids_n; i++) {
        twice |= pids[i] == pid;
    }

    if (pids_n == pids_cap) {
        pids_cap = pids_cap * 2 + 64;
        pids = grown(pids, pids_cap * sizeof(int64_t));
    }

    pids[pids_n++] = pid;
    pthread_mutex_unlock(&pids_lock);

    if (twice || pid < 0) {
        fault("%s: producer id %lld was given out %s", who, (long long) pid,
              twice ? "twice" : "");
    }
}
