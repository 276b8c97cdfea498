/*
 * Producers.
 *
 * An idempotent one behaves as real clients do: up to five batches under way,
 * and after any trouble a new connection on which all that were not answered
 * are sent again, in order, with the sequence numbers that they had.  Its
 * counter is its sequence, so its records must be in the log without a gap.
 *
 * A plain one sends nothing twice: what was not answered may be there or not.
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW  5

typedef struct {
    part_t  *part;
    bool     idempotent;
    int      number;
} producer_arg_t;

typedef struct {
    out_t     bytes;
    record_t  first;
    int       count;
    int32_t   correlation;
    bool      sent;
} flight_t;

typedef struct {
    producer_arg_t  *arg;
    part_t          *part;
    conn_t           conn;
    char             who[96];
    uint64_t         random;
    uint32_t         id;            /* ours */
    int64_t          pid;           /* the broker's, -1: none */
    int              epoch;
    uint64_t         counter;
    uint64_t         answered;      /* batches, with this identity */
    int64_t          next_ms;       /* when the next batch is due */
    flight_t         flights[WINDOW];
    int              n;
} producer_t;


static void
identity(producer_t *pr)
{
    pr->id = producer_new(pr->arg->idempotent);
    pr->pid = -1;
    pr->counter = 0;
    pr->answered = 0;
    pr->n = 0;
}


/* True when it has what it needs to send. */
static bool
prepare(producer_t *pr)
{
    int  error;

    if (!pr->arg->idempotent || pr->pid != -1) {
        return true;
    }

    error = ask_producer_id(&pr->conn, &pr->pid, &pr->epoch);

    if (error == 0) {
        producer_id_new(pr->pid, pr->who);
        return true;
    }

    pr->pid = -1;

    if (!retriable(error)) {
        fault("%s: InitProducerId answers error %d", pr->who, error);
    }

    conn_close(&pr->conn);
    sleep_ms(50);

    return false;
}


static void
fill(producer_t *pr)
{
    int        window, count, size;
    bool       fat;
    flight_t  *f;

    /* the first batch of a producer goes alone, so that a failed one cannot
     * be overtaken by the next, which a fresh state would take */
    window = pr->answered ? 1 + pr->arg->number % WINDOW : 1;

    if (!pr->arg->idempotent && window > 2) {
        window = 2;
    }

    fat = strstr(pr->part->topic->name, "fat") != NULL;

    while (pr->n < window && !dry) {
        if (options.rate) {
            if (now_ms() < pr->next_ms) {
                break;
            }

            pr->next_ms += 1000 / options.rate;

            if (pr->next_ms < now_ms() - 1000) {
                pr->next_ms = now_ms();
            }
        }

        count = 1 + (int) (rnd(&pr->random) % (fat ? 8 : 20));
        size = (int) (rnd(&pr->random) % (fat ? 8192 : 200));

        f = &pr->flights[pr->n++];
        f->first = record_of(pr->id, pr->counter);
        f->count = count;
        f->sent = false;
        batch_make(&f->bytes, pr->part, f->first, count, size, pr->pid,
                   pr->epoch, (int64_t) pr->counter);
        pr->counter += (uint64_t) count;
    }
}


/* What was under way is sent again, or given up. */
static void
trouble(producer_t *pr)
{
    int  i;

    conn_close(&pr->conn);

    if (!pr->arg->idempotent) {
        pr->n = 0;
        return;
    }

    for (i = 0; i < pr->n; i++) {
        counters.retries += pr->flights[i].sent;
        pr->flights[i].sent = false;
    }
}


static void
answered(producer_t *pr)
{
    int        error;
    int64_t    base;
    flight_t   f;

    error = produce_answer(&pr->conn, pr->part, pr->flights[0].correlation,
                           &base);

    if (error == 0) {
        f = pr->flights[0];
        acked(pr->part, base, f.first, f.count);
        pr->answered++;
        pr->n--;
        memmove(&pr->flights[0], &pr->flights[1],
                (size_t) pr->n * sizeof(flight_t));
        pr->flights[pr->n].bytes = f.bytes;         /* keep the memory */
        return;
    }

    if (error != LOST) {
        counters.errors++;
        sleep_ms(30);
    }

    if (error != LOST && !retriable(error)
        && pr->part->topic->state == TOPIC_LIVE)
    {
        fault("%s: produce of %d records from %llu answers error %d",
              pr->who, pr->flights[0].count, (unsigned long long)
              record_counter(pr->flights[0].first), error);
        conn_close(&pr->conn);
        identity(pr);
        return;
    }

    trouble(pr);
}


static void
producer_run(void *ctx)
{
    int          i;
    flight_t    *f;
    producer_t  *pr;

    pr = calloc(1, sizeof(producer_t));
    if (pr == NULL) {
        abort();
    }

    pr->arg = ctx;
    pr->part = pr->arg->part;
    pr->random = options.seed ^ (uint64_t) pr->arg->number << 32;
    pr->next_ms = now_ms();
    snprintf(pr->who, sizeof(pr->who), "%s producer %d of %s-%d",
             pr->arg->idempotent ? "idempotent" : "plain", pr->arg->number,
             pr->part->topic->name, pr->part->index);
    conn_init(&pr->conn, pr->who, &quitting);
    identity(pr);

    while (!actor_pause() && pr->part->topic->state == TOPIC_LIVE) {

        if (pr->conn.fd == -1) {
            trouble(pr);

            if (!conn_open(&pr->conn)) {
                sleep_ms(30);
                continue;
            }
        }

        if (!prepare(pr)) {
            continue;
        }

        fill(pr);

        for (i = 0; i < pr->n; i++) {
            f = &pr->flights[i];

            if (!f->sent) {
                if (!produce_send(&pr->conn, pr->part, f->bytes.data,
                                  f->bytes.len))
                {
                    break;
                }

                f->correlation = pr->conn.correlation;
                f->sent = true;
            }
        }

        if (pr->conn.fd == -1) {
            continue;
        }

        if (pr->n) {
            answered(pr);

        } else {
            sleep_ms(2);
        }

        if (pr->n == 0 && pr->answered > 50 && rnd(&pr->random) % 100 == 0) {
            identity(pr);
        }
    }

    for (i = 0; i < WINDOW; i++) {
        free(pr->flights[i].bytes.data);
    }

    conn_free(&pr->conn);
    free(pr->arg);
    free(pr);
}


void
producer_begin(part_t *p, bool idempotent, int number)
{
    producer_arg_t  *arg = malloc(sizeof(producer_arg_t));

    if (arg == NULL) {
        abort();
    }

    arg->part = p;
    arg->idempotent = idempotent;
    arg->number = number;
    actor_begin(producer_run, arg);
}
