/*
 * The least that taking in record batches costs: read the frame, check its
 * CRC-32C, write it to a file, answer.  One process, one epoll loop.
 *
 *   recv_floor PORT FILE [sync]
 *
 * sync: one fdatasync per turn of the loop, before that turn's answers leave.
 */

#include "floor.h"
#include "../../codec/kf_crc32c.h"


#define PIECE  65536


typedef struct conn_s  conn_t;

struct conn_s {
    int        fd;
    size_t     len;
    size_t     size;
    uint8_t   *buf;
    uint32_t   answers;                 /* of this turn */
    conn_t    *next;                    /* among those with answers */
};


static int      file;
static off_t    file_end;
static conn_t  *answered;


static void
close_conn(conn_t *c)
{
    close(c->fd);
    free(c->buf);
    c->buf = NULL;
    c->fd = -1;
}


static uint32_t
take_batch(const uint8_t *batch, uint32_t len)
{
    if (len < 61
        || kf_crc32c(0, batch + 21, len - 21) != floor_get32(batch + 17))
    {
        return 1;
    }

    if (pwrite(file, batch, len, file_end) != (ssize_t) len) {
        floor_die("pwrite");
    }

    file_end += len;

    return 0;
}


static void
answer(conn_t *c, uint32_t n)
{
    uint8_t   out[8 * 64];
    uint32_t  i, k;

    while (n) {
        k = n < 64 ? n : 64;

        for (i = 0; i < k; i++) {
            floor_put32(out + 8 * i, 4);
            floor_put32(out + 8 * i + 4, 0);
        }

        if (send(c->fd, out, 8 * k, MSG_NOSIGNAL) != (ssize_t) (8 * k)) {
            floor_die("send");
        }

        n -= k;
    }
}


/*
 * How much to ask the kernel for: many small frames at once, but of a large one
 * just its rest, so that nothing has to be moved.  0: the frame is too large.
 */
static size_t
wanted(conn_t *c)
{
    size_t  want = c->len < PIECE ? PIECE - c->len : 1, frame;

    if (c->len >= 4) {
        frame = 4 + (size_t) floor_get32(c->buf);

        if (frame > FLOOR_FRAME_MAX) {
            return 0;
        }

        if (frame > c->len && frame - c->len > want) {
            want = frame - c->len;
        }
    }

    if (c->len + want > c->size) {
        c->size = c->len + want;
        c->buf = realloc(c->buf, c->size);
        if (c->buf == NULL) {
            floor_die("realloc");
        }
    }

    return want;
}


/* false: the connection is over */
static bool
read_conn(conn_t *c, bool sync)
{
    size_t    at, want;
    ssize_t   n;
    uint32_t  len;

    for ( ;; ) {
        want = wanted(c);
        n = want ? recv(c->fd, c->buf + c->len, want, 0) : 0;

        if (n == -1 && errno == EAGAIN) {
            return true;
        }

        if (n <= 0) {
            return false;
        }

        c->len += (size_t) n;

        for (at = 0; c->len - at >= 4; at += 4 + (size_t) len) {
            len = floor_get32(c->buf + at);

            if (c->len - at - 4 < len) {
                break;
            }

            if (take_batch(c->buf + at + 4, len) != 0) {
                fprintf(stderr, "recv_floor: a bad batch\n");
                return false;
            }

            if (!sync) {
                answer(c, 1);

            } else if (c->answers++ == 0) {
                c->next = answered;
                answered = c;
            }
        }

        if (at) {
            memmove(c->buf, c->buf + at, c->len - at);
            c->len -= at;
        }

        if ((size_t) n < want) {
            return true;
        }
    }
}


int
main(int argc, char **argv)
{
    int                 ep, lfd, fd, i, n;
    bool                sync;
    conn_t             *c;
    struct epoll_event  ev, events[FLOOR_EVENTS];

    if (argc < 3) {
        fprintf(stderr, "usage: recv_floor PORT FILE [sync]\n");
        return 2;
    }

    sync = argc > 3 && strcmp(argv[3], "sync") == 0;
    lfd = floor_listen(atoi(argv[1]));
    file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
    ep = epoll_create1(0);

    if (file == -1 || ep == -1) {
        floor_die(argv[2]);
    }

    ev.events = EPOLLIN;
    ev.data.ptr = NULL;
    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev);

    for ( ;; ) {
        n = epoll_wait(ep, events, FLOOR_EVENTS, -1);

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;

            if (c == NULL) {
                while ((fd = floor_accept(lfd)) != -1) {
                    c = calloc(1, sizeof(conn_t));
                    if (c == NULL) {
                        floor_die("calloc");
                    }
                    c->fd = fd;
                    ev.events = EPOLLIN;
                    ev.data.ptr = c;
                    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
                }

            } else if (!read_conn(c, sync)) {
                close_conn(c);
            }
        }

        if (answered) {
            if (fdatasync(file) != 0) {
                floor_die("fdatasync");
            }

            while (answered) {
                c = answered;
                answered = c->next;
                if (c->fd != -1) {
                    answer(c, c->answers);
                }
                c->answers = 0;
            }
        }
    }
}
