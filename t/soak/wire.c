#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

#define ANSWER_MS   20000       /* a broker that is up answers by then */
#define FRAME_MAX   (64 << 20)

int  wire_port;
volatile int64_t  wire_answered_ms;


/* --- output -------------------------------------------------------------- */

void
put(out_t *o, const void *data, size_t n)
{
    if (n > o->cap - o->len) {
        o->cap = (o->len + n) * 2 + 256;
        o->data = realloc(o->data, o->cap);

        if (o->data == NULL) {
            abort();
        }
    }

    if (n) {
        memcpy(o->data + o->len, data, n);
        o->len += n;
    }
}


static void
put_be(out_t *o, uint64_t v, int n)
{
    int      i;
    uint8_t  b[8];

    for (i = n; i > 0; i--) {
        b[i - 1] = (uint8_t) v;
        v >>= 8;
    }

    put(o, b, (size_t) n);
}


void put_i8(out_t *o, int v)       { put_be(o, (uint64_t) v, 1); }
void put_i16(out_t *o, int v)      { put_be(o, (uint64_t) v, 2); }
void put_i32(out_t *o, int32_t v)  { put_be(o, (uint64_t) v, 4); }
void put_i64(out_t *o, int64_t v)  { put_be(o, (uint64_t) v, 8); }
void put_tags(out_t *o)            { put_i8(o, 0); }


void
put_uvarint(out_t *o, uint64_t v)
{
    while (v >= 0x80) {
        put_i8(o, (int) (v | 0x80) & 0xff);
        v >>= 7;
    }

    put_i8(o, (int) v);
}


void
put_varint(out_t *o, int64_t v)
{
    put_uvarint(o, ((uint64_t) v << 1) ^ (uint64_t) (v >> 63));
}


void
put_str(out_t *o, const char *s)
{
    if (s == NULL) {
        put_uvarint(o, 0);
        return;
    }

    put_uvarint(o, strlen(s) + 1);
    put(o, s, strlen(s));
}


void
put_count(out_t *o, int n)
{
    put_uvarint(o, (uint64_t) (n + 1));
}


/* --- input --------------------------------------------------------------- */

const uint8_t *
get(in_t *in, size_t n)
{
    const uint8_t  *p = in->p;

    if (in->bad || n > (size_t) (in->end - in->p)) {
        in->bad = true;
        return NULL;
    }

    in->p += n;

    return p;
}


static uint64_t
get_be(in_t *in, size_t n)
{
    uint64_t        v = 0;
    const uint8_t  *p = get(in, n);

    while (p && n--) {
        v = v << 8 | *p++;
    }

    return v;
}


int get_i8(in_t *in)       { return (int8_t) get_be(in, 1); }
int get_i16(in_t *in)      { return (int16_t) get_be(in, 2); }
int32_t get_i32(in_t *in)  { return (int32_t) get_be(in, 4); }
int64_t get_i64(in_t *in)  { return (int64_t) get_be(in, 8); }


uint64_t
get_uvarint(in_t *in)
{
    int             shift;
    uint64_t        v = 0;
    const uint8_t  *p;

    for (shift = 0; shift < 64; shift += 7) {
        p = get(in, 1);
        if (p == NULL) {
            return 0;
        }

        v |= (uint64_t) (*p & 0x7f) << shift;

        if (*p < 0x80) {
            return v;
        }
    }

    in->bad = true;

    return 0;
}


int64_t
get_varint(in_t *in)
{
    uint64_t  v = get_uvarint(in);

    return (int64_t) (v >> 1) ^ -(int64_t) (v & 1);
}


void
get_str(in_t *in, char *s, size_t size)
{
    uint64_t        n = get_uvarint(in);
    const uint8_t  *p;

    s[0] = '\0';

    if (n > 1) {
        p = get(in, n - 1);

        if (p && n <= size) {
            memcpy(s, p, n - 1);
            s[n - 1] = '\0';
        }
    }
}


int
get_count(in_t *in)
{
    uint64_t  n = get_uvarint(in);

    if (n > (uint64_t) (in->end - in->p) + 1) {
        in->bad = true;
        return 0;
    }

    return in->bad ? 0 : (int) n - 1;
}


void
get_tags(in_t *in)
{
    uint64_t  n = get_uvarint(in);

    while (n-- && !in->bad) {
        get_uvarint(in);
        get(in, get_uvarint(in));
    }
}


/* --- connections --------------------------------------------------------- */

void
conn_init(conn_t *c, const char *who, const volatile bool *stop)
{
    memset(c, 0, sizeof(conn_t));
    c->fd = -1;
    c->who = who;
    c->stop = stop;
}


void
conn_close(conn_t *c)
{
    if (c->fd != -1) {
        close(c->fd);
        c->fd = -1;
    }
}


void
conn_free(conn_t *c)
{
    conn_close(c);
    free(c->frame);
    c->frame = NULL;
}


bool
conn_open(conn_t *c)
{
    int                 on = 1;
    struct sockaddr_in  sin;

    if (c->fd != -1) {
        return true;
    }

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons((uint16_t) wire_port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    c->fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (c->fd == -1
        || connect(c->fd, (struct sockaddr *) &sin, sizeof(sin)) == -1)
    {
        conn_close(c);
        return false;
    }

    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

    return true;
}


/* Waits for events; false when it was told to stop or nothing came. */
static bool
conn_wait(conn_t *c, short events, int64_t until)
{
    int            rc;
    struct pollfd  p;

    for ( ;; ) {
        p.fd = c->fd;
        p.events = events;
        rc = poll(&p, 1, c->hurry ? 0 : 50);

        if (rc > 0) {
            return true;
        }

        if (c->hurry || (c->stop && *c->stop)) {
            return false;
        }

        if (now_ms() > until) {
            /* a lost wake-up looks like this */
            stalled(c->who);
            return false;
        }
    }
}


static bool
conn_write(conn_t *c, const uint8_t *p, size_t n)
{
    ssize_t  done;
    int64_t  until = now_ms() + ANSWER_MS;

    while (n) {
        done = send(c->fd, p, n, MSG_NOSIGNAL|MSG_DONTWAIT);

        if (done == -1 && errno == EAGAIN) {
            if (!conn_wait(c, POLLOUT, until)) {
                return false;
            }

            continue;
        }

        if (done <= 0) {
            return false;
        }

        p += done;
        n -= (size_t) done;
    }

    return true;
}


static bool
conn_read(conn_t *c, uint8_t *p, size_t n)
{
    ssize_t  done;
    int64_t  until = now_ms() + ANSWER_MS;

    while (n) {
        if (!conn_wait(c, POLLIN, until)) {
            return false;
        }

        done = recv(c->fd, p, n, 0);

        if (done <= 0) {
            return false;
        }

        p += done;
        n -= (size_t) done;
    }

    return true;
}


void
request_begin(conn_t *c, out_t *o, int api, int version)
{
    const char  *id = "soak";

    o->len = 0;
    put_i32(o, 0);
    put_i16(o, api);
    put_i16(o, version);
    put_i32(o, ++c->correlation);
    put_i16(o, (int) strlen(id));
    put(o, id, strlen(id));
    put_tags(o);
}


bool
request_send(conn_t *c, out_t *o)
{
    size_t  len = o->len;

    o->len = 0;
    put_i32(o, (int32_t) len - 4);
    o->len = len;

    if (c->fd == -1 || !conn_write(c, o->data, o->len)) {
        conn_close(c);
        return false;
    }

    return true;
}


bool
response(conn_t *c, in_t *in, int32_t correlation)
{
    in_t      head;
    uint8_t   b[4];
    uint32_t  n;

    if (c->fd == -1 || !conn_read(c, b, 4)) {
        conn_close(c);
        return false;
    }

    head.p = b;
    head.end = b + 4;
    head.bad = false;
    n = (uint32_t) get_i32(&head);

    if (n < 5 || n > FRAME_MAX) {
        fault("%s: an answer of %u bytes", c->who, n);
        conn_close(c);
        return false;
    }

    if (n > c->frame_cap) {
        c->frame_cap = n;
        c->frame = realloc(c->frame, n);

        if (c->frame == NULL) {
            abort();
        }
    }

    if (!conn_read(c, c->frame, n)) {
        conn_close(c);
        return false;
    }

    in->p = c->frame;
    in->end = c->frame + n;
    in->bad = false;

    if (get_i32(in) != correlation) {
        fault("%s: answers out of order", c->who);
        conn_close(c);
        return false;
    }

    get_tags(in);
    wire_answered_ms = now_ms();

    return true;
}


bool
call(conn_t *c, out_t *o, in_t *in)
{
    return request_send(c, o) && response(c, in, c->correlation);
}


/* --- odds and ends ------------------------------------------------------- */

static uint32_t  crc_table[8][256];


__attribute__((constructor))
static void
crc_init(void)
{
    int       i, k;
    uint32_t  c;

    for (i = 0; i < 256; i++) {
        c = (uint32_t) i;

        for (k = 0; k < 8; k++) {
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        }

        crc_table[0][i] = c;
    }

    for (i = 0; i < 256; i++) {
        for (k = 1; k < 8; k++) {
            c = crc_table[k - 1][i];
            crc_table[k][i] = c >> 8 ^ crc_table[0][c & 0xff];
        }
    }
}


uint32_t
crc32c(const void *data, size_t n)
{
    uint32_t        c = 0xffffffffu;
    uint64_t        w;
    const uint8_t  *p = data;

    for ( ; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        w ^= c;
        c = crc_table[7][w & 0xff] ^ crc_table[6][w >> 8 & 0xff]
            ^ crc_table[5][w >> 16 & 0xff] ^ crc_table[4][w >> 24 & 0xff]
            ^ crc_table[3][w >> 32 & 0xff] ^ crc_table[2][w >> 40 & 0xff]
            ^ crc_table[1][w >> 48 & 0xff] ^ crc_table[0][w >> 56];
    }

    while (n--) {
        c = c >> 8 ^ crc_table[0][(c ^ *p++) & 0xff];
    }

    return ~c;
}


uint64_t
rnd(uint64_t *state)
{
    uint64_t  x = *state += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;

    return x ^ (x >> 31);
}


static int64_t
clock_ms(clockid_t id)
{
    struct timespec  ts;

    clock_gettime(id, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


int64_t now_ms(void)   { return clock_ms(CLOCK_MONOTONIC); }
int64_t wall_ms(void)  { return clock_ms(CLOCK_REALTIME); }


void
sleep_ms(int ms)
{
    struct timespec  ts = { ms / 1000, (long) (ms % 1000) * 1000000 };

    nanosleep(&ts, NULL);
}
