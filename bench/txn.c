/*
 * Transactions, one after the other on each connection, as a client of
 * KIP-890's second part does them:
 *
 *   [FETCH ──>] PRODUCE ──> [OFFSETS ──>] END ──> the next
 *
 * FETCH and OFFSETS when there is an input (-i): each producer reads its own
 * partition of it, as the only member of a group of its own, and begins anew
 * at its end.  A step that is answered "not yet" is taken again a moment later,
 * which is part of its latency.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "net.h"
#include "result.h"


#define TRIES     600
#define PAUSE     50000                 /* us, while it is set up */
#define AGAIN     0.001                 /* s, once it runs */
#define IN_SIZE   65536

typedef enum {
    STEP_FETCH,
    STEP_PRODUCE,
    STEP_OFFSETS,
    STEP_END,
    STEP_IDLE
} step_t;

typedef struct {
    net_conn_t   net;
    producer_t   producer;
    member_t     member;
    int          partition;             /* of the input */
    int64_t      offset;
    frame_t      batch;
    frame_t      frame;                 /* of the request under way */
    step_t       step;
    double       begun;                 /* the transaction */
    double       asked;                 /* the commit */
    double       again;                 /* when to try again; 0: not waiting */
} txn_t;


static const int16_t  apis[] = { 1, 0, 28, 26 };

static meter_t   meter;
static sample_t  whole, commit;
static int64_t   done, begun_n, retries;
static int       running;


static void
ask_step(txn_t *t)
{
    free(t->frame.data);

    switch (t->step) {

    case STEP_FETCH:
        t->frame = wire_fetch(opt.input, t->partition, t->offset, 1);
        break;

    case STEP_PRODUCE:
        t->frame = wire_txn_produce(&t->producer, opt.topic, opt.partitions,
                                    &t->batch);
        break;

    case STEP_OFFSETS:
        t->frame = wire_txn_offset_commit(&t->producer, &t->member, opt.input,
                                          t->partition, t->offset);
        break;

    default:
        t->frame = wire_end_txn(&t->producer, true);

        if (t->again == 0) {
            t->asked = proc_now();
        }
    }

    t->again = 0;

    (void) net_send(&t->net, t->frame.data, t->frame.len, NULL, 0);
}


static void
begin(txn_t *t)
{
    double  now = proc_now();

    if (opt.requests_max ? begun_n >= opt.requests_max
                         : now - meter.begun >= opt.seconds_max)
    {
        t->step = STEP_IDLE;
        running--;
        return;
    }

    begun_n++;
    t->begun = now;
    t->step = opt.input ? STEP_FETCH : STEP_PRODUCE;

    ask_step(t);
}


static void
take_answer(net_conn_t *net, const uint8_t *frame, size_t len)
{
    double    now;
    txn_t    *t = net->data;
    answer_t  a;

    if (t->step == STEP_IDLE || !wire_answer(apis[t->step], frame, len, &a)) {
        fail("an answer does not parse");
    }

    if (is_passing(a.error)) {
        retries++;
        t->again = proc_now() + AGAIN;
        return;
    }

    if (a.error) {
        fail("a transaction failed in step %d: %s", (int) t->step, a.message);
    }

    switch (t->step) {

    case STEP_FETCH:
        t->offset = a.next_offset;

        if (t->offset < 0 || t->offset >= a.high_watermark) {
            t->offset = 0;
        }

        t->step = STEP_PRODUCE;
        break;

    case STEP_PRODUCE:
        t->step = opt.input ? STEP_OFFSETS : STEP_END;
        break;

    case STEP_OFFSETS:
        t->step = STEP_END;
        break;

    default:
        now = proc_now();
        sample_add(&commit, now - t->asked);
        sample_add(&whole, now - t->begun);
        done++;

        t->producer.producer_id = a.producer_id;
        t->producer.epoch = a.producer_epoch;

        begin(t);
        return;
    }

    ask_step(t);
}


static void
nothing(net_conn_t *net)
{
    (void) net;
}


/* Blocking, before the run. */
static void
prepare(txn_t *t, int i)
{
    int              fd, k;
    char             name[64];
    answer_t         a;
    struct timespec  now;

    fd = dial(true);
    snprintf(name, sizeof(name), "%.40s-%d-%d", opt.label, (int) getpid(), i);
    memcpy(t->producer.id, name, sizeof(name));
    t->partition = i;

    coordinator_ready(fd, name, 1);

    for (k = 0; k < TRIES; k++) {
        ask_once(fd, 22, wire_init_producer_id(&t->producer), &a);

        if (!is_passing(a.error)) {
            break;
        }

        usleep(PAUSE);
    }

    if (a.error) {
        fail("no producer id: %s", a.message);
    }

    t->producer.producer_id = a.producer_id;
    t->producer.epoch = a.producer_epoch;

    if (opt.input) {
        member_join(fd, &t->member, name);
    }

    clock_gettime(CLOCK_REALTIME, &now);
    k = (int) (opt.batch_bytes / (opt.record_bytes + 10));
    t->batch = wire_batch(k ? k : 1, opt.record_bytes, opt.codec,
                          now.tv_sec * 1000);

    t->net.answer = take_answer;
    t->net.sent = nothing;
    t->net.ready = nothing;
    t->net.data = t;
    net_take(&t->net, fd, IN_SIZE);
}


static void
run(txn_t *all)
{
    int     i;
    double  now, due;

    for (i = 0; i < opt.conns; i++) {
        running++;
        begin(&all[i]);
    }

    while (running) {
        now = proc_now();
        due = 0.1;

        for (i = 0; retries && i < opt.conns; i++) {
            if (all[i].again && all[i].again <= now) {
                ask_step(&all[i]);
            }

            if (all[i].again && all[i].again - now < due) {
                due = all[i].again - now;
            }
        }

        net_wait(due);
    }
}


void
txn_run(void)
{
    int     i;
    txn_t  *all;

    all = need((size_t) opt.conns, sizeof(txn_t));

    for (i = 0; i < opt.conns; i++) {
        prepare(&all[i], i);
    }

    meter_start(&meter);
    run(all);
    meter_stop(&meter);

    result_begin();
    result_count("conns", opt.conns);
    result_count("partitions", opt.partitions);
    result_count("transactions", done);
    result_count("retries", retries);
    result_sample("", &whole);
    result_sample("commit_", &commit);
    result_meter(&meter, "txn", done);
    result_end();
}
