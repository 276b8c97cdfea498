/*
 * A load generator that costs little: ready-made requests over bare
 * connections, a given number of them in flight on each, one line of JSON.
 * It speaks Kafka to a broker, or the floor's mini protocol (floor/floor.h).
 *
 *   load MODE [options]          (usage() lists both)
 *
 * One thread and one epoll loop.  Answers come in the order of the requests,
 * which is checked by their correlation ids.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "proc.h"


#define DEPTH_MAX    256
#define HEAD         12                 /* of a frame: up to the correlation */

static const mode_name_t  modes[] = {
    { "produce", MODE_PRODUCE, 0 },
    { "fetch", MODE_FETCH, 1 },
    { "list-offsets", MODE_LIST_OFFSETS, 2 },
    { "api-versions", MODE_API_VERSIONS, 18 },
    { "idle", MODE_IDLE, 18 },
    { "create", MODE_CREATE, 19 },
    { "delete", MODE_DELETE, 20 },
    { "ready", MODE_READY, 18 },
    { "tree", MODE_TREE, 0 }
};

typedef struct {
    int             fd;
    int             partition;
    int32_t         sent;               /* requests begun */
    int32_t         done;               /* answers had */
    size_t          out_at;             /* bytes of the current frame sent */
    bool            sending;
    bool            want_write;
    bool            finished;
    uint8_t         head[HEAD];
    const frame_t  *frame;
    frame_t         own;                /* a fetch's, made for its offset */
    int64_t         offset;
    int             pass;
    uint8_t        *in;
    size_t          in_len;
    size_t          in_size;
    double          at[DEPTH_MAX];      /* when each in flight was begun */
} conn_t;


options_t  opt = {
    .label = "", .conns = 1, .depth = 1, .record_bytes = 1024, .acks = -1,
    .topic = "bench", .partitions = 1, .seconds_max = 10,
    .fetch_bytes = 1 << 20, .passes = 1
};

static int        ep;
static int        open_conns;
static int64_t    issued, answered, payload, errors;
static double     begun, ended;
static size_t     unit_bytes;           /* what one produce request counts */
static uint32_t  *lat;                  /* nanoseconds / 10 */
static size_t     lat_n, lat_size;
static frame_t   *frames;               /* by partition */


static uint32_t
get32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}


static void
put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 24);
    p[1] = (uint8_t) (v >> 16);
    p[2] = (uint8_t) (v >> 8);
    p[3] = (uint8_t) v;
}


static void
note_latency(double sec)
{
    double  ticks = sec * 1e8;

    if (lat_n == lat_size) {
        lat_size = lat_size ? lat_size * 2 : 1 << 16;
        lat = realloc(lat, lat_size * sizeof(uint32_t));
        if (lat == NULL) {
            die("realloc");
        }
    }

    lat[lat_n++] = ticks < (double) UINT32_MAX ? (uint32_t) ticks : UINT32_MAX;
}


static void
finish(conn_t *c)
{
    if (!c->finished) {
        c->finished = true;
        open_conns--;
        epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
    }
}


/* Whether one more request may be begun now. */
static bool
may_issue(const conn_t *c, double now)
{
    if (c->finished || c->sent - c->done >= opt.depth) {
        return false;
    }

    if (opt.mode->mode == MODE_FETCH) {
        return true;
    }

    if (opt.requests_max ? issued >= opt.requests_max
                         : now - begun >= opt.seconds_max)
    {
        return false;
    }

    return opt.rate == 0
           || (double) issued < (now - begun) * opt.rate;
}


static void
prepare(conn_t *c)
{
    int64_t  left;

    if (opt.mode->mode == MODE_FETCH) {
        free(c->own.data);

        if (opt.floor) {
            left = opt.file_bytes - c->offset;
            left = left < opt.fetch_bytes ? left : opt.fetch_bytes;

            c->own.len = 16;
            c->own.data = malloc(16);
            if (c->own.data == NULL) {
                die("malloc");
            }
            put32(c->own.data, 12);
            put32(c->own.data + 4, (uint32_t) (c->offset >> 32));
            put32(c->own.data + 8, (uint32_t) c->offset);
            put32(c->own.data + 12, (uint32_t) left);

        } else {
            c->own = wire_fetch(opt.topic, c->partition, c->offset,
                                opt.fetch_bytes);
        }

        c->frame = &c->own;

    } else {
        c->frame = &frames[c->partition];
    }

    memcpy(c->head, c->frame->data, HEAD);
    if (!opt.floor) {
        wire_correlate(c->head, c->sent);
    }

    c->out_at = 0;
    c->sending = true;
}


static void
watch_write(conn_t *c, bool on)
{
    struct epoll_event  ev;

    if (c->want_write != on) {
        c->want_write = on;
        ev.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
        ev.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
    }
}


static void
send_more(conn_t *c)
{
    int            k;
    double         now;
    size_t         skip;
    ssize_t        n;
    struct iovec   iov[2];
    struct msghdr  msg;

    for ( ;; ) {
        if (!c->sending) {
            now = proc_now();

            if (!may_issue(c, now)) {
                watch_write(c, false);
                return;
            }

            prepare(c);
            c->at[c->sent % DEPTH_MAX] = now;
            c->sent++;
            issued++;
        }

        k = 0;
        skip = c->out_at;
        if (skip < HEAD) {
            iov[k].iov_base = c->head + skip;
            iov[k++].iov_len = HEAD - skip;
            skip = HEAD;
        }
        iov[k].iov_base = c->frame->data + skip;
        iov[k++].iov_len = c->frame->len - skip;

        memset(&msg, 0, sizeof(msg));
        msg.msg_iov = iov;
        msg.msg_iovlen = (size_t) k;

        n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);

        if (n == -1 && errno == EAGAIN) {
            watch_write(c, true);
            return;
        }

        if (n == -1) {
            die("send");
        }

        c->out_at += (size_t) n;

        if (c->out_at == c->frame->len) {
            c->sending = false;

            if (opt.acks == 0 && opt.mode->mode == MODE_PRODUCE) {
                c->done++;
                answered++;
                payload += (int64_t) unit_bytes;
                note_latency(proc_now() - c->at[(c->done - 1) % DEPTH_MAX]);
            }
        }
    }
}


/* A fetch's answer moves the connection on; true when it has read it all. */
static bool
fetched(conn_t *c, int64_t next, int64_t end, size_t bytes)
{
    payload += (int64_t) bytes;
    c->offset = next;

    if (c->offset < end) {
        return false;
    }

    c->offset = 0;

    return ++c->pass == opt.passes;
}


static void
take_answer(conn_t *c, const uint8_t *frame, size_t len)
{
    bool      last = false;
    answer_t  a;

    if (c->done == c->sent) {
        fail("an answer without a request");
    }

    note_latency(proc_now() - c->at[c->done % DEPTH_MAX]);

    if (opt.floor) {
        if (opt.mode->mode == MODE_FETCH) {
            last = fetched(c, c->offset + (int64_t) len, opt.file_bytes, len);

        } else {
            payload += (int64_t) unit_bytes;
        }

    } else {
        if (!wire_answer(opt.mode->api, frame, len, &a)) {
            fail("an answer does not parse");
        }

        if (a.correlation_id != c->done) {
            fail("an answer out of order: %d, not %d", a.correlation_id,
                 c->done);
        }

        if (a.error != KF_ERR_NONE && errors++ == 0) {
            fprintf(stderr, "load: %s\n", a.message);
        }

        if (opt.mode->mode == MODE_FETCH) {
            if (a.error != KF_ERR_NONE) {
                fail("a fetch failed");
            }
            if (a.next_offset < 0 && c->offset < a.high_watermark) {
                fail("no progress at offset %lld", (long long) c->offset);
            }
            last = fetched(c, a.next_offset < 0 ? c->offset : a.next_offset,
                           a.high_watermark, a.record_bytes);

        } else if (a.error == KF_ERR_NONE) {
            payload += (int64_t) unit_bytes;
        }
    }

    c->done++;
    answered++;

    if (last) {
        finish(c);
    }
}


static void
receive(conn_t *c)
{
    size_t   at, len;
    ssize_t  n;

    n = recv(c->fd, c->in + c->in_len, c->in_size - c->in_len, 0);

    if (n == -1 && errno == EAGAIN) {
        return;
    }

    if (n == -1) {
        die("recv");
    }

    if (n == 0) {
        fail("the connection was closed after %d answers", c->done);
    }

    c->in_len += (size_t) n;

    for (at = 0; c->in_len - at >= 4; at += 4 + len) {
        len = get32(c->in + at);

        if (c->in_len - at < 4 + len) {
            if (4 + len > c->in_size) {
                c->in_size = 4 + len;
                c->in = realloc(c->in, c->in_size);
                if (c->in == NULL) {
                    die("realloc");
                }
            }
            break;
        }

        take_answer(c, c->in + at + 4, len);
    }

    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
}


static bool
is_done(double now)
{
    if (opt.mode->mode == MODE_FETCH) {
        return open_conns == 0;
    }

    return answered == issued
           && (opt.requests_max ? issued >= opt.requests_max
                                : now - begun >= opt.seconds_max);
}


static void
run(conn_t *conns)
{
    int                 i, n;
    double              now, due;
    struct epoll_event  events[64];
    struct timespec     wait;
    int64_t             next = 0;

    begun = proc_now();

    for (i = 0; i < opt.conns && opt.rate == 0; i++) {
        send_more(&conns[i]);
    }

    for ( ;; ) {
        now = proc_now();

        /* at a fixed rate the connections take turns */

        while (opt.rate && (double) issued < (now - begun) * opt.rate
               && (opt.requests_max ? issued < opt.requests_max
                                    : now - begun < opt.seconds_max))
        {
            i = (int) (next++ % opt.conns);
            if (conns[i].sent - conns[i].done >= opt.depth) {
                break;
            }
            send_more(&conns[i]);
        }

        if (is_done(now)) {
            break;
        }

        due = 0.1;
        if (opt.rate) {
            due = begun + (double) (issued + 1) / opt.rate - now;
            due = due > 0 ? due : 0;
            due = due < 0.1 ? due : 0.1;
        }
        wait.tv_sec = 0;
        wait.tv_nsec = (long) (due * 1e9);

        n = epoll_pwait2(ep, events, 64, &wait, NULL);

        for (i = 0; i < n; i++) {
            conn_t  *c = events[i].data.ptr;

            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                receive(c);
            }

            if (opt.rate == 0 || c->sending) {
                send_more(c);
            }
        }
    }

    ended = proc_now();
}


static int
by_value(const void *a, const void *b)
{
    uint32_t  x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}


static double
percentile(double p)
{
    size_t  i;

    if (lat_n == 0) {
        return 0;
    }

    i = (size_t) (p * (double) lat_n);

    return (double) lat[i < lat_n ? i : lat_n - 1] / 100;
}


static void
report(const proc_use_t *before, const proc_use_t *after)
{
    double  user, sys, wall = ended - begun;

    qsort(lat, lat_n, sizeof(uint32_t), by_value);

    printf("{\"test\":\"%s\",\"mode\":\"%s\",\"peer\":\"%s\",\"conns\":%d,"
           "\"depth\":%d,\"requests\":%lld,\"bytes\":%lld,\"errors\":%lld,"
           "\"wall_s\":%.4f,\"p50_us\":%.1f,\"p95_us\":%.1f,\"p99_us\":%.1f,"
           "\"p999_us\":%.1f,\"max_us\":%.1f",
           opt.label, opt.mode->name, opt.floor ? "floor" : "kafka",
           opt.conns, opt.depth, (long long) answered, (long long) payload,
           (long long) errors, wall, percentile(0.5), percentile(0.95),
           percentile(0.99), percentile(0.999), percentile(1));

    if (opt.pid) {
        user = after->user_s - before->user_s;
        sys = after->sys_s - before->sys_s;

        printf(",\"cpu_user_s\":%.2f,\"cpu_sys_s\":%.2f,\"cpu_s\":%.2f,"
               "\"cpu_us_per_request\":%.2f,\"cpu_s_per_gib\":%.4f",
               user, sys, user + sys,
               (user + sys) * 1e6 / (double) (answered ? answered : 1),
               (user + sys) / ((double) (payload ? payload : 1)
                               / (double) (1 << 30)));
    }

    printf("}\n");
}


static void
make_frames(void)
{
    int              i;
    int32_t          count = 1;
    frame_t          batch = { NULL, 0 };
    struct timespec  t;

    frames = calloc((size_t) opt.partitions, sizeof(frame_t));
    if (frames == NULL) {
        die("calloc");
    }

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

            if (opt.floor) {
                frames[i].len = 4 + batch.len;
                frames[i].data = malloc(frames[i].len);
                if (frames[i].data == NULL) {
                    die("malloc");
                }
                put32(frames[i].data, (uint32_t) batch.len);
                memcpy(frames[i].data + 4, batch.data, batch.len);

            } else {
                frames[i] = wire_produce(opt.topic, i, opt.acks, &batch);
            }

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


static void
load(void)
{
    int                  i;
    conn_t              *conns, *c;
    proc_use_t           before, after;
    struct epoll_event   ev;

    conns = calloc((size_t) opt.conns, sizeof(conn_t));
    ep = epoll_create1(0);
    if (conns == NULL || ep == -1) {
        die("load");
    }

    make_frames();

    for (i = 0; i < opt.conns; i++) {
        c = &conns[i];
        c->fd = dial(true);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->partition = i % opt.partitions;
        c->in_size = opt.mode->mode == MODE_FETCH ? (size_t) opt.fetch_bytes
                                                    + 4096 : 16384;
        c->in = malloc(c->in_size);
        if (c->in == NULL) {
            die("malloc");
        }
        ev.events = EPOLLIN;
        ev.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
        open_conns++;
    }

    memset(&before, 0, sizeof(before));
    memset(&after, 0, sizeof(after));

    if (opt.pid && !proc_tree(opt.pid, false, &before)) {
        fail("no process %d", (int) opt.pid);
    }

    run(conns);

    if (opt.pid) {
        proc_tree(opt.pid, false, &after);
    }

    report(&before, &after);

    if (errors) {
        exit(1);
    }
}


static void
usage(void)
{
    fprintf(stderr,
"usage: load MODE [options]\n"
"  produce       ready-made batches      fetch         whole partitions\n"
"  list-offsets  small requests          api-versions  small requests\n"
"  idle          memory of connections   tree          memory and CPU of -P\n"
"  create        a topic (-o NAME=VALUE) delete        a topic\n"
"  ready         wait for the first answer (-S: epoch seconds of the start)\n"
"  -a HOST:PORT  -f (floor's protocol)   -l LABEL      -P PID of the peer\n"
"  -n CONNS      -d IN_FLIGHT            -q REQUESTS   -s SECONDS\n"
"  -b BATCH_BYTES (0: one record)        -r RECORD_BYTES\n"
"  -z CODEC 0-4  -k ACKS                 -t TOPIC      -p PARTITIONS\n"
"  -R REQUESTS_A_SECOND                  -m FETCH_BYTES\n"
"  -F FILE_BYTES of the floor            -x PASSES\n");
    exit(2);
}


static void
address(const char *s)
{
    char         host[64];
    const char  *colon = strrchr(s, ':');

    opt.addr.sin_family = AF_INET;

    if (colon == NULL || colon - s >= (ptrdiff_t) sizeof(host)) {
        usage();
    }

    memcpy(host, s, (size_t) (colon - s));
    host[colon - s] = '\0';
    opt.addr.sin_port = htons((uint16_t) atoi(colon + 1));

    if (inet_pton(AF_INET, host, &opt.addr.sin_addr) != 1) {
        usage();
    }
}


static void
options(int argc, char **argv)
{
    int     c;
    size_t  i;

    for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            opt.mode = &modes[i];
        }
    }

    if (opt.mode == NULL) {
        usage();
    }

    optind = 2;

    while ((c = getopt(argc, argv,
                       "a:fl:P:n:d:q:s:b:r:z:k:t:p:R:m:F:x:S:o:")) != -1)
    {
        switch (c) {
        case 'a': address(optarg); break;
        case 'f': opt.floor = true; break;
        case 'l': opt.label = optarg; break;
        case 'P': opt.pid = atoi(optarg); break;
        case 'n': opt.conns = atoi(optarg); break;
        case 'd': opt.depth = atoi(optarg); break;
        case 'q': opt.requests_max = atoll(optarg); break;
        case 's': opt.seconds_max = atof(optarg); break;
        case 'b': opt.batch_bytes = strtoul(optarg, NULL, 10); break;
        case 'r': opt.record_bytes = strtoul(optarg, NULL, 10); break;
        case 'z': opt.codec = (kf_codec_t) atoi(optarg); break;
        case 'k': opt.acks = (int16_t) atoi(optarg); break;
        case 't': opt.topic = optarg; break;
        case 'p': opt.partitions = atoi(optarg); break;
        case 'R': opt.rate = atof(optarg); break;
        case 'm': opt.fetch_bytes = atoi(optarg); break;
        case 'F': opt.file_bytes = atoll(optarg); break;
        case 'x': opt.passes = atoi(optarg); break;
        case 'S': opt.since = atof(optarg); break;

        case 'o':
            if (opt.configs_n == CONFIGS_MAX) {
                usage();
            }
            opt.configs[opt.configs_n++] = optarg;
            break;

        default: usage();
        }
    }

    if (opt.mode->mode == MODE_FETCH) {
        opt.depth = 1;
    }

    if (opt.conns < 1 || opt.partitions < 1 || opt.depth < 1
        || opt.depth > DEPTH_MAX || opt.passes < 1
        || (opt.addr.sin_family == 0 && opt.mode->mode != MODE_TREE))
    {
        usage();
    }
}


int
main(int argc, char **argv)
{
    struct rlimit  files;

    options(argc, argv);

    (void) prctl(PR_SET_TIMERSLACK, 1000);

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
    }

    switch (opt.mode->mode) {

    case MODE_IDLE:
        control_idle();
        break;

    case MODE_TREE:
        control_tree();
        break;

    case MODE_READY:
        control_ready();
        break;

    case MODE_CREATE:
    case MODE_DELETE:
        control_topic();
        break;

    default:
        load();
    }

    return 0;
}
