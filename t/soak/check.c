/*
 * Reads everything there is and holds it against the promises.  Runs while the
 * actors pause, on connections of its own.
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCERS_MAX  65536
#define GONE_MAX       40           /* deleted topics asked for again */

typedef struct {
    part_t    *part;
    record_t  *log;                 /* by offset */
    int64_t    end;
} reading_t;

static conn_t  conn;
static bool    given_up;            /* on the broker: not to wait again */


/* Waits for the broker (it may be starting); false when it never comes. */
static bool
again(int error, int64_t until, const char *what)
{
    if (!retriable(error)) {
        fault("check: %s answers error %d", what, error);
        return false;
    }

    if (now_ms() > until) {
        fault("check: %s answers error %d for %d seconds", what, error,
              options.patience);
        given_up = true;
        return false;
    }

    sleep_ms(20);
    conn_open(&conn);

    return true;
}


static bool
topic(topic_t *t)
{
    int      error, parts;
    char     what[128], name[256];
    int64_t  until = now_ms() + options.patience * 1000;
    uint8_t  id[16];

    snprintf(what, sizeof(what), "metadata of %s", t->name);

    for ( ;; ) {
        conn_open(&conn);
        error = ask_topic(&conn, t->name, id, &parts, NULL);

        if (error == ERR_UNKNOWN_TOPIC) {
            fault("check: topic %s is gone", t->name);
            return false;
        }

        if (error == 0) {
            break;
        }

        if (!again(error, until, what)) {
            return false;
        }
    }

    if (memcmp(id, t->id, 16) != 0) {
        fault("check: topic %s has another id", t->name);
        return false;
    }

    if (parts != t->parts_n) {
        fault("check: topic %s has %d partitions, had %d", t->name, parts,
              t->parts_n);
        return false;
    }

    error = ask_topic(&conn, NULL, t->id, &parts, name);

    if (error == 0 && strcmp(name, t->name) != 0) {
        fault("check: the id of %s belongs to %s", t->name, name);
    }

    return true;
}


static void
deleted(topic_t *t)
{
    int      error, parts;
    char     name[256];
    int64_t  until = now_ms() + options.patience * 1000;
    uint8_t  id[16];

    for ( ;; ) {
        conn_open(&conn);
        error = ask_topic(&conn, NULL, t->id, &parts, name);

        if (error == ERR_UNKNOWN_TOPIC_ID) {
            break;
        }

        if (error == 0) {
            fault("check: topic %s came back after it was deleted", t->name);
            return;
        }

        if (!again(error, until, "metadata by id")) {
            return;
        }
    }

    if (topic_live(t->name)) {
        return;
    }

    error = ask_topic(&conn, t->name, id, &parts, NULL);

    if (error == 0 && memcmp(id, t->id, 16) == 0) {
        fault("check: topic %s is there by name, not by id", t->name);
    }
}


static void
on_record(void *ctx, int64_t offset, record_t r)
{
    reading_t  *rd = ctx;

    if (offset < rd->end) {
        rd->log[offset] = r;
    }

    saw(rd->part, offset, r, "check");
}


static bool
offsets(part_t *p, int64_t *end)
{
    int      error;
    char     what[128];
    int64_t  start, until = now_ms() + options.patience * 1000;

    snprintf(what, sizeof(what), "offsets of %s-%d", p->topic->name, p->index);

    for ( ;; ) {
        conn_open(&conn);
        error = ask_offset(&conn, p, -2, &start);

        if (error == 0) {
            error = ask_offset(&conn, p, -1, end);
        }

        if (error == 0) {
            break;
        }

        if (!again(error, until, what)) {
            return false;
        }
    }

    if (start != 0) {
        fault("check: %s-%d begins at offset %lld", p->topic->name, p->index,
              (long long) start);
    }

    if (*end < p->seen_end || *end < p->hw) {
        fault("check: %s-%d ends at offset %lld, consumers had seen up to "
              "%lld, high watermark %lld", p->topic->name, p->index,
              (long long) *end, (long long) p->seen_end, (long long) p->hw);
    }

    return true;
}


static bool
reading(reading_t *rd)
{
    int        error;
    char       what[128];
    part_t    *p = rd->part;
    int64_t    next, at = 0, until = now_ms() + options.patience * 1000;
    uint64_t   before = counters.faults;
    fetched_t  f;

    snprintf(what, sizeof(what), "fetch of %s-%d", p->topic->name, p->index);

    while (at < rd->end) {
        conn_open(&conn);
        error = ask_fetch(&conn, p, at, 500, 1 << 20, 0, &f);
        error = error ? error : f.error;

        if (error) {
            if (!again(error, until, what)) {
                return false;
            }

            continue;
        }

        hw_saw(p, hw_now(p), f.hw, "check");
        next = batches_read(p, f.data, f.len, at, f.hw, "check", on_record,
                            rd);

        if (counters.faults != before) {
            return false;
        }

        if (next > at) {
            at = next;
            continue;
        }

        sleep_ms(5);

        if (now_ms() > until) {
            fault("check: %s-%d cannot be read at offset %lld of %lld",
                  p->topic->name, p->index, (long long) at,
                  (long long) rd->end);
            return false;
        }
    }

    return true;
}


static void
acknowledged(reading_t *rd)
{
    int      i, missing = 0;
    size_t   k;
    ack_t   *a;
    part_t  *p = rd->part;
    int64_t  o;

    for (k = 0; k < p->acks_n; k++) {
        a = &p->acks[k];

        for (i = 0; i < a->count; i++) {
            o = a->base + i;

            if (o >= rd->end || rd->log[o] != a->first + (uint64_t) i) {
                if (missing++ == 0) {
                    fault("check: %s-%d acknowledged record %u/%llu is not at "
                          "offset %lld (log end %lld)", p->topic->name,
                          p->index, record_producer(a->first),
                          (unsigned long long) record_counter(a->first) + i,
                          (long long) o, (long long) rd->end);
                }
            }
        }
    }

    if (missing > 1) {
        fault("check: %s-%d %d acknowledged records are missing",
              p->topic->name, p->index, missing);
    }
}


static int
compare(const void *a, const void *b)
{
    record_t  x = *(const record_t *) a, y = *(const record_t *) b;

    return x < y ? -1 : x > y;
}


/* Nothing twice; an idempotent producer's records in order without a gap. */
static void
once(reading_t *rd)
{
    size_t            n = 0, k;
    part_t           *p = rd->part;
    int64_t           o;
    record_t          r, *plain;
    uint32_t          producer;
    static uint64_t   next[PRODUCERS_MAX];

    memset(next, 0, sizeof(next));
    plain = malloc(((size_t) rd->end + 1) * sizeof(record_t));

    if (plain == NULL) {
        abort();
    }

    for (o = 0; o < rd->end; o++) {
        r = rd->log[o];
        producer = record_producer(r);

        if (r == 0 || producer >= PRODUCERS_MAX) {
            continue;
        }

        if (!producer_is_idempotent(producer)) {
            plain[n++] = r;
            continue;
        }

        if (record_counter(r) != next[producer]) {
            fault("check: %s-%d offset %lld has record %u/%llu, next was %llu",
                  p->topic->name, p->index, (long long) o, producer,
                  (unsigned long long) record_counter(r),
                  (unsigned long long) next[producer]);
        }

        next[producer] = record_counter(r) + 1;
    }

    qsort(plain, n, sizeof(record_t), compare);

    for (k = 1; k < n; k++) {
        if (plain[k] == plain[k - 1]) {
            fault("check: %s-%d record %u/%llu is there twice",
                  p->topic->name, p->index, record_producer(plain[k]),
                  (unsigned long long) record_counter(plain[k]));
        }
    }

    free(plain);
}


static void
part(part_t *p)
{
    int64_t    o;
    reading_t  rd = { p, NULL, 0 };

    if (!offsets(p, &rd.end)) {
        return;
    }

    if (rd.end < 0) {
        fault("check: %s-%d ends at %lld", p->topic->name, p->index,
              (long long) rd.end);
        return;
    }

    rd.log = calloc((size_t) rd.end + 1, sizeof(record_t));
    if (rd.log == NULL) {
        abort();
    }

    if (reading(&rd)) {
        for (o = 0; o < rd.end; o++) {
            if (rd.log[o] == 0) {
                fault("check: %s-%d nothing at offset %lld", p->topic->name,
                      p->index, (long long) o);
                break;
            }
        }

        acknowledged(&rd);
        once(&rd);
    }

    free(rd.log);
}


bool
check_all(void)
{
    int       i, gone = 0;
    topic_t  *t;
    uint64_t  before = counters.faults;

    conn_init(&conn, "check", NULL);
    given_up = false;

    for (t = topics; t && !given_up; t = t->next) {

        if (t->state == TOPIC_DELETED) {
            if (gone++ < GONE_MAX) {
                deleted(t);
            }

        } else if (t->state == TOPIC_LIVE && topic(t)) {
            for (i = 0; i < t->parts_n && !given_up; i++) {
                part(&t->parts[i]);
            }
        }
    }

    conn_free(&conn);

    return counters.faults == before;
}
