/*
 * The least that giving out stored batches costs: a tiny request names a slice
 * of a file, sendfile sends it.  One process, one epoll loop.
 *
 *   send_floor PORT FILE
 */

#include <stdbool.h>
#include <sys/sendfile.h>

#include "floor.h"


typedef struct {
    int       fd;
    uint8_t   in[16];
    size_t    in_len;
    off_t     offset;
    size_t    left;                     /* of the slice being sent */
    bool      writing;
} conn_t;


static int  file, ep;


static void
want(conn_t *c, bool write)
{
    struct epoll_event  ev;

    if (c->writing != write) {
        c->writing = write;
        ev.events = write ? EPOLLOUT : EPOLLIN;
        ev.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
    }
}


/* false: the connection is over */
static bool
serve(conn_t *c)
{
    ssize_t  n;
    uint8_t  head[4];

    for ( ;; ) {
        while (c->left) {
            n = sendfile(c->fd, file, &c->offset, c->left);

            if (n == -1 && errno == EAGAIN) {
                want(c, true);
                return true;
            }

            if (n <= 0) {
                return false;
            }

            c->left -= (size_t) n;
        }

        want(c, false);

        n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);

        if (n == -1 && errno == EAGAIN) {
            return true;
        }

        if (n <= 0) {
            return false;
        }

        c->in_len += (size_t) n;

        if (c->in_len < sizeof(c->in)) {
            continue;
        }

        if (floor_get32(c->in) != 12) {
            return false;
        }

        c->in_len = 0;
        c->offset = (off_t) ((uint64_t) floor_get32(c->in + 4) << 32
                             | floor_get32(c->in + 8));
        c->left = floor_get32(c->in + 12);

        floor_put32(head, (uint32_t) c->left);

        if (send(c->fd, head, 4, MSG_NOSIGNAL | MSG_MORE) != 4) {
            return false;
        }
    }
}


int
main(int argc, char **argv)
{
    int                 lfd, fd, i, n;
    conn_t             *c;
    struct epoll_event  ev, events[FLOOR_EVENTS];

    if (argc < 3) {
        fprintf(stderr, "usage: send_floor PORT FILE\n");
        return 2;
    }

    lfd = floor_listen(atoi(argv[1]));
    file = open(argv[2], O_RDONLY);
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

            } else if (!serve(c)) {
                close(c->fd);
                free(c);
            }
        }
    }
}
