/*
 * Connections that do not block, and one epoll loop for all of them: frames
 * out, whole frames in.
 */

#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define NET_DEPTH_MAX  256              /* requests in flight on each */

typedef struct net_conn_s  net_conn_t;

struct net_conn_s {
    /* the owner's */
    void           (*answer)(net_conn_t *c, const uint8_t *frame, size_t len);
    /* what net_send() left is out */
    void           (*sent)(net_conn_t *c);
    /* answers were taken or all is out: more may be sent */
    void           (*ready)(net_conn_t *c);
    void            *data;

    /* net.c's */
    int              fd;
    const uint8_t   *out[2];            /* not sent yet */
    size_t           out_len[2];
    bool             want_write;
    bool             closed;
    uint8_t         *in;
    size_t           in_len;
    size_t           in_size;
};

/* A connection to opt.addr; in_size: room for answers at first. */
void net_open(net_conn_t *c, size_t in_size);
/* The same of a connection that is there. */
void net_take(net_conn_t *c, int fd, size_t in_size);
/* It is not looked at any more. */
void net_forget(net_conn_t *c);

/*
 * Sends two pieces one behind the other, which must stay as they are until
 * they are out.  true: they are; false: the rest goes when it can, and sent()
 * is called then.  Not before the last one is out.
 */
bool net_send(net_conn_t *c, const void *head, size_t head_len,
    const void *body, size_t body_len);
bool net_sending(const net_conn_t *c);

/* Waits for events, no longer than that, and hands them over. */
void net_wait(double seconds);

uint32_t net_get32(const uint8_t *p);
void net_put32(uint8_t *p, uint32_t v);

#endif
