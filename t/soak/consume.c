/*
 * A consumer of all partitions of one topic: long polls at the end, and every
 * now and then goes back to see whether what was shown still stands.
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    part_t      *part;
    const char  *who;
} seen_ctx_t;


static void
on_record(void *ctx, int64_t offset, record_t r)
{
    seen_ctx_t  *s = ctx;

    saw(s->part, offset, r, s->who);
}


static void
partition(part_t *p, const fetched_t *f, int64_t *offset, int64_t hw_before,
    bool committed, const char *who)
{
    seen_ctx_t  ctx = { p, who };

    if (f->error) {
        if (p->topic->state != TOPIC_LIVE || retriable(f->error)) {
            counters.errors += f->error != LOST;
            sleep_ms(10);

        } else {
            fault("%s: %s-%d fetch at offset %lld answers error %d", who,
                  p->topic->name, p->index, (long long) *offset, f->error);
            *offset = 0;
            sleep_ms(100);
        }

        return;
    }

    hw_saw(p, hw_before, f->hw, who);

    if (!options.lenient && (f->lso != f->hw || f->log_start != 0)) {
        fault("%s: %s-%d high watermark %lld, last stable offset %lld, log "
              "start %lld", who, p->topic->name, p->index, (long long) f->hw,
              (long long) f->lso, (long long) f->log_start);
    }

    *offset = batches_read(p, f->data, f->len, *offset,
                           options.lenient ? INT64_MAX
                           : committed ? f->lso : f->hw, who, on_record,
                           &ctx);
}


void
consumer_run(void *ctx)
{
    int          i, error;
    char         who[96];
    conn_t       conn;
    int64_t      offsets[PARTS_MAX] = { 0 }, hw[PARTS_MAX];
    topic_t     *t = ctx;
    uint64_t     random;
    fetched_t    f[PARTS_MAX];

    random = options.seed ^ (uint64_t) (uintptr_t) &conn ^ 0xc0;
    snprintf(who, sizeof(who), "consumer of %s", t->name);
    conn_init(&conn, who, &quitting);

    while (!actor_pause() && t->state == TOPIC_LIVE) {

        if (!conn_open(&conn)) {
            sleep_ms(30);
            continue;
        }

        for (i = 0; i < t->parts_n; i++) {
            hw[i] = hw_now(&t->parts[i]);

            if (rnd(&random) % 40 == 0) {
                offsets[i] = (int64_t) (rnd(&random)
                                        % (uint64_t) (offsets[i] + 1));
            }
        }

        error = ask_fetch_all(&conn, t, offsets, 200,
                              1 << (12 + rnd(&random) % 8),
                              (int) (rnd(&random) & 1), f);

        if (error == LOST) {
            continue;
        }

        if (error) {
            if (!retriable(error)) {
                fault("%s: fetch answers error %d", who, error);
            }

            sleep_ms(50);
            continue;
        }

        for (i = 0; i < t->parts_n; i++) {
            partition(&t->parts[i], &f[i], &offsets[i], hw[i], false, who);
        }

        /* another worker next time */
        if (rnd(&random) % 20 == 0) {
            conn_close(&conn);
        }
    }

    conn_free(&conn);
}
