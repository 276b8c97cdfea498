/* See net.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "load.h"
#include "net.h"


#define EVENTS  64

static int  ep = -1;


uint32_t
net_get32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}


void
net_put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 24);
    p[1] = (uint8_t) (v >> 16);
    p[2] = (uint8_t) (v >> 8);
    p[3] = (uint8_t) v;
}


void
net_open(net_conn_t *c, size_t in_size)
{
    net_take(c, dial(true), in_size);
}


void
net_take(net_conn_t *c, int fd, size_t in_size)
{
    struct epoll_event  ev;

    if (ep == -1) {
        ep = epoll_create1(0);
        if (ep == -1) {
            die("epoll_create1");
        }
    }

    c->fd = fd;
    c->in_size = in_size;
    c->in = need(in_size, 1);

    fcntl(fd, F_SETFL, O_NONBLOCK);

    ev.events = EPOLLIN;
    ev.data.ptr = c;

    if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) != 0) {
        die("epoll_ctl");
    }
}


void
net_forget(net_conn_t *c)
{
    if (!c->closed) {
        c->closed = true;
        epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
    }
}


static void
net_watch_write(net_conn_t *c, bool on)
{
    struct epoll_event  ev;

    if (c->want_write != on && !c->closed) {
        c->want_write = on;
        ev.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
        ev.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
    }
}


bool
net_sending(const net_conn_t *c)
{
    return c->out_len[0] || c->out_len[1];
}


/* true: all is out. */
static bool
net_push(net_conn_t *c)
{
    int            i, k;
    size_t         part;
    ssize_t        n;
    struct iovec   iov[2];
    struct msghdr  msg;

    while (net_sending(c)) {

        for (i = 0, k = 0; i < 2; i++) {
            if (c->out_len[i]) {
                iov[k].iov_base = (void *) c->out[i];
                iov[k++].iov_len = c->out_len[i];
            }
        }

        memset(&msg, 0, sizeof(msg));
        msg.msg_iov = iov;
        msg.msg_iovlen = (size_t) k;

        n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);

        if (n == -1 && errno == EAGAIN) {
            net_watch_write(c, true);
            return false;
        }

        if (n == -1) {
            die("send");
        }

        for (i = 0; i < 2; i++) {
            part = (size_t) n < c->out_len[i] ? (size_t) n : c->out_len[i];
            c->out[i] += part;
            c->out_len[i] -= part;
            n -= (ssize_t) part;
        }
    }

    net_watch_write(c, false);

    return true;
}


bool
net_send(net_conn_t *c, const void *head, size_t head_len, const void *body,
    size_t body_len)
{
    c->out[0] = head;
    c->out_len[0] = head_len;
    c->out[1] = body;
    c->out_len[1] = body_len;

    return net_push(c);
}


static void
net_receive(net_conn_t *c)
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
        fail("a connection was closed");
    }

    c->in_len += (size_t) n;

    for (at = 0; c->in_len - at >= 4; at += 4 + len) {
        len = net_get32(c->in + at);

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

        c->answer(c, c->in + at + 4, len);
    }

    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
}


void
net_wait(double seconds)
{
    int                 i, n;
    net_conn_t         *c;
    struct timespec     wait;
    struct epoll_event  events[EVENTS];

    seconds = seconds > 0 ? seconds : 0;
    wait.tv_sec = (time_t) seconds;
    wait.tv_nsec = (long) ((seconds - (double) wait.tv_sec) * 1e9);

    n = epoll_pwait2(ep, events, EVENTS, &wait, NULL);

    for (i = 0; i < n; i++) {
        c = events[i].data.ptr;

        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            net_receive(c);
        }

        if (net_sending(c)) {
            if (!net_push(c)) {
                continue;
            }
            c->sent(c);
        }

        c->ready(c);
    }
}
