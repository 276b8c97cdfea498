/*
 * The floor's mini protocol, all numbers big-endian:
 *
 *   recv_floor:  u32 length, that many bytes: one record batch
 *                answered by u32 4, u32 status (0: its CRC is right, written)
 *   send_floor:  u32 12, u64 offset, u32 length
 *                answered by u32 length, that many bytes of the file
 */

#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOOR_FRAME_MAX  (4u << 20)
#define FLOOR_EVENTS     256


__attribute__((unused, noreturn))
static void
floor_die(const char *what)
{
    perror(what);
    exit(1);
}


__attribute__((unused))
static uint32_t
floor_get32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}


__attribute__((unused))
static void
floor_put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 24);
    p[1] = (uint8_t) (v >> 16);
    p[2] = (uint8_t) (v >> 8);
    p[3] = (uint8_t) v;
}


/* Listens on loopback only. */
__attribute__((unused))
static int
floor_listen(int port)
{
    int                 fd, one = 1;
    struct sockaddr_in  addr;

    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd == -1) {
        floor_die("socket");
    }

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    memset(&addr, 0, sizeof(addr));
    addr.sin_family = AF_INET;
    addr.sin_port = htons((uint16_t) port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (bind(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0
        || listen(fd, 1024) != 0)
    {
        floor_die("bind");
    }

    return fd;
}


__attribute__((unused))
static int
floor_accept(int fd)
{
    int  c, one = 1;

    c = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
    if (c != -1) {
        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }

    return c;
}

#endif
