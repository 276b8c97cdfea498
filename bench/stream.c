/*
 * Ready-made requests, a given number of them in flight on each connection.
 * Answers come in the order of the requests, which is checked by their
 * correlation ids.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "net.h"
#include "result.h"


#define HEAD     12                     /* of a frame: up to the correlation */
#define IN_SIZE  16384

typedef struct {
    net_conn_t      net;
    int             partition;
    int32_t         sent;               /* requests begun */
    int32_t         done;               /* answers had */
    bool            finished;
    uint8_t         head[HEAD];
    const frame_t  *frame;
    frame_t         own;                /* made for this connection */
    member_t        member;
    int64_t         offset;
    int             pass;
    double          at[NET_DEPTH_MAX];  /* when each in flight was begun */
} stream_t;


static int        open_conns;
static int64_t    issued, answered, payload, errors;
static size_t     unit_bytes;           /* what one produce request counts */
static sample_t   latency;
static meter_t    meter;
static frame_t   *frames;               /* by partition */


/* --- requests ------------------------------------------------------------ */

static void
make_produce(frame_t *f, int32_t partition, const frame_t *batch)
{
    if (!opt.floor) {
        *f = wire_produce(opt.topic, partition, opt.acks, batch);
        return;
    }

    f->len = 4 + batch->len;
    f->data = need(f->len, 1);
    net_put32(f->data, (uint32_t) batch->len);
    memcpy(f->data + 4, batch->data, batch->len);
}


/* What all connections of one partition send. */
static void
make_frames(void)
{
    int              i;
    int32_t          count = 1;
    frame_t          batch = { NULL, 0 };
    struct timespec  t;

    frames = need((size_t) opt.partitions, sizeof(frame_t));

    if (opt.mode->mode == MODE_PRODUCE) {
        clock_gettime(CLOCK_REALTIME, &t);

        if (opt.batch_bytes) {
            count = (int32_t) (opt.batch_bytes / (opt.record_bytes + 10));
            count = count ? count : 1;
        }

        batch = wire_batch(count, opt.record_bytes, opt.codec,
                           t.tv_sec * 1000);
        unit_bytes = batch.len;
    }

    for (i = 0; i < opt.partitions; i++) {
        switch (opt.mode->mode) {

        case MODE_PRODUCE:
            make_produce(&frames[i], i, &batch);
            break;

        case MODE_LIST_OFFSETS:
            frames[i] = wire_list_offsets(opt.topic, i, -1);
            break;

        default:
            frames[i] = wire_api_versions();
        }
    }

    free(batch.data);
}


/* Each connection is the member of a group of its own. */
static void
make_member(stream_t *c, int fd, int i)
{
    char  name[128];

    snprintf(name, sizeof(name), "%s-%d-%d", opt.label, (int) getpid(), i);
    member_join(fd, &c->member, name);

    c->own = opt.mode->mode == MODE_HEARTBEAT
             ? wire_heartbeat(&c->member)
             : wire_offset_commit(&c->member, opt.topic, 0, opt.partitions,
                                  42);
}


static void
make_fetch(stream_t *c)
{
    int64_t  left;

    free(c->own.data);

    if (!opt.floor) {
        c->own = wire_fetch(opt.topic, c->partition, c->offset,
                            opt.fetch_bytes);
        return;
    }

    left = opt.file_bytes - c->offset;
    left = left < opt.fetch_bytes ? left : opt.fetch_bytes;

    c->own.len = 16;
    c->own.data = need(16, 1);
    net_put32(c->own.data, 12);
    net_put32(c->own.data + 4, (uint32_t) (c->offset >> 32));
    net_put32(c->own.data + 8, (uint32_t) c->offset);
    net_put32(c->own.data + 12, (uint32_t) left);
}


/* --- sending ------------------------------------------------------------- */

static bool
is_over(double now)
{
    return opt.requests_max ? issued >= opt.requests_max
                            : now - meter.begun >= opt.seconds_max;
}


/* Whether one more request may be begun now. */
static bool
may_issue(const stream_t *c, double now)
{
    if (c->finished || c->sent - c->done >= opt.depth) {
        return false;
    }

    if (opt.mode->mode == MODE_FETCH) {
        return true;
    }

    return !is_over(now)
           && (opt.rate == 0
               || (double) issued < (now - meter.begun) * opt.rate);
}


static void
sent(net_conn_t *net)
{
    stream_t  *c = net->data;

    if (opt.acks == 0 && opt.mode->mode == MODE_PRODUCE) {
        sample_add(&latency, proc_now() - c->at[c->done % NET_DEPTH_MAX]);
        c->done++;
        answered++;
        payload += (int64_t) unit_bytes;
    }
}


static void
send_more(stream_t *c)
{
    double  now;

    for ( ;; ) {
        now = proc_now();

        if (!may_issue(c, now)) {
            return;
        }

        if (opt.mode->mode == MODE_FETCH) {
            make_fetch(c);
        }

        c->frame = c->own.data ? &c->own : &frames[c->partition];
        memcpy(c->head, c->frame->data, HEAD);

        if (!opt.floor) {
            wire_correlate(c->head, c->sent);
        }

        c->at[c->sent % NET_DEPTH_MAX] = now;
        c->sent++;
        issued++;

        if (!net_send(&c->net, c->head, HEAD, c->frame->data + HEAD,
                      c->frame->len - HEAD))
        {
            return;
        }

        sent(&c->net);
    }
}


/* --- answers ------------------------------------------------------------- */

static void
finish(stream_t *c)
{
    if (!c->finished) {
        c->finished = true;
        open_conns--;
        net_forget(&c->net);
    }
}


/* A fetch's answer moves the connection on; true when it has read it all. */
static bool
fetched(stream_t *c, int64_t next, int64_t end, size_t bytes)
{
    payload += (int64_t) bytes;
    c->offset = next;

    if (c->offset < end) {
        return false;
    }

    c->offset = 0;

    return ++c->pass == opt.passes;
}


static bool
take_floor(stream_t *c, size_t len)
{
    if (opt.mode->mode == MODE_FETCH) {
        return fetched(c, c->offset + (int64_t) len, opt.file_bytes, len);
    }

    payload += (int64_t) unit_bytes;

    return false;
}


static bool
take_kafka(stream_t *c, const uint8_t *frame, size_t len)
{
    answer_t  a;

    if (!wire_answer(opt.mode->api, frame, len, &a)) {
        fail("an answer does not parse");
    }

    if (a.correlation_id != c->done) {
        fail("an answer out of order: %d, not %d", a.correlation_id, c->done);
    }

    if (a.error != KF_ERR_NONE && errors++ == 0) {
        fprintf(stderr, "load: %s: %s\n", opt.label, a.message);
    }

    if (opt.mode->mode == MODE_FETCH) {
        if (a.error != KF_ERR_NONE) {
            fail("a fetch failed");
        }
        if (a.next_offset < 0 && c->offset < a.high_watermark) {
            fail("no progress at offset %lld", (long long) c->offset);
        }
        return fetched(c, a.next_offset < 0 ? c->offset : a.next_offset,
                       a.high_watermark, a.record_bytes);
    }

    if (a.error == KF_ERR_NONE) {
        payload += (int64_t) unit_bytes;
    }

    return false;
}


static void
take_answer(net_conn_t *net, const uint8_t *frame, size_t len)
{
    bool       last;
    stream_t  *c = net->data;

    if (c->done == c->sent) {
        fail("an answer without a request");
    }

    sample_add(&latency, proc_now() - c->at[c->done % NET_DEPTH_MAX]);

    last = opt.floor ? take_floor(c, len) : take_kafka(c, frame, len);

    c->done++;
    answered++;

    if (last) {
        finish(c);
    }
}


/* At a fixed rate run() says when. */
static void
ready(net_conn_t *net)
{
    if (opt.rate == 0) {
        send_more(net->data);
    }
}


/* --- the run ------------------------------------------------------------- */

static void
run(stream_t *conns)
{
    int      i;
    double   now, due;
    int64_t  next = 0;

    for (i = 0; i < opt.conns && opt.rate == 0; i++) {
        send_more(&conns[i]);
    }

    for ( ;; ) {
        now = proc_now();

        /* at a fixed rate the connections take turns */

        while (opt.rate && !is_over(now)
               && (double) issued < (now - meter.begun) * opt.rate)
        {
            i = (int) (next++ % opt.conns);
            if (conns[i].sent - conns[i].done >= opt.depth
                || net_sending(&conns[i].net))
            {
                break;
            }
            send_more(&conns[i]);
        }

        if (opt.mode->mode == MODE_FETCH ? open_conns == 0
                                         : answered == issued && is_over(now))
        {
            return;
        }

        due = 0.1;
        if (opt.rate) {
            due = meter.begun + (double) (issued + 1) / opt.rate - now;
            due = due < 0.1 ? due : 0.1;
        }

        net_wait(due);
    }
}


static void
report(void)
{
    double  gib = (double) (payload ? payload : 1) / (double) (1 << 30);

    result_begin();
    result_count("conns", opt.conns);
    result_count("depth", opt.depth);
    result_count("requests", answered);
    result_count("bytes", payload);
    result_count("errors", errors);
    result_sample("", &latency);
    result_meter(&meter, "request", answered);

    if (opt.pid) {
        result_real("cpu_s_per_gib", meter_cpu_s(&meter) / gib);
    }

    result_end();
}


void
stream_run(void)
{
    int        i, fd;
    bool       members;
    stream_t  *conns, *c;

    members = opt.mode->mode == MODE_HEARTBEAT
              || opt.mode->mode == MODE_OFFSET_COMMIT;

    conns = need((size_t) opt.conns, sizeof(stream_t));

    make_frames();

    for (i = 0; i < opt.conns; i++) {
        c = &conns[i];
        fd = dial(true);

        if (members) {
            make_member(c, fd, i);
        }

        c->partition = i % opt.partitions;
        c->net.answer = take_answer;
        c->net.sent = sent;
        c->net.ready = ready;
        c->net.data = c;
        net_take(&c->net, fd, opt.mode->mode == MODE_FETCH
                              ? (size_t) opt.fetch_bytes + 4096 : IN_SIZE);
        open_conns++;
    }

    meter_start(&meter);
    run(conns);
    meter_stop(&meter);

    for (i = 0; i < opt.conns && members; i++) {
        fcntl(conns[i].net.fd, F_SETFL, 0);
        member_leave(conns[i].net.fd, &conns[i].member);
    }

    report();

    if (errors) {
        exit(1);
    }
}
