/* Errors, connections, questions and answers one at a time. */

#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"


void
die(const char *what)
{
    perror(what);
    exit(1);
}


void
fail(const char *fmt, ...)
{
    va_list  args;

    fprintf(stderr, "load: %s: ", opt.label);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}


void *
need(size_t n, size_t size)
{
    void  *p = calloc(n ? n : 1, size);

    if (p == NULL) {
        die("calloc");
    }

    return p;
}


int
dial(bool must)
{
    int  fd, one = 1;

    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd == -1) {
        die("socket");
    }

    if (connect(fd, (struct sockaddr *) &opt.addr, sizeof(opt.addr)) != 0) {
        if (must) {
            die("connect");
        }
        close(fd);
        return -1;
    }

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    return fd;
}


int
tell(int fd, frame_t f)
{
    return send(fd, f.data, f.len, MSG_NOSIGNAL) == (ssize_t) f.len ? 0 : -1;
}


int
hear(int fd, int16_t api, answer_t *a)
{
    size_t    at, len;
    ssize_t   n;
    uint8_t  *in, size[4];

    if (recv(fd, size, 4, MSG_WAITALL) != 4) {
        return -1;
    }

    len = (size_t) size[0] << 24 | (size_t) size[1] << 16
          | (size_t) size[2] << 8 | size[3];
    in = need(len, 1);

    for (at = 0; at < len; at += (size_t) n) {
        n = read(fd, in + at, len - at);
        if (n <= 0) {
            free(in);
            return -1;
        }
    }

    if (!wire_answer(api, in, len, a)) {
        fail("an answer to api key %d does not parse", api);
    }

    free(in);

    return 0;
}


int
ask(int fd, int16_t api, frame_t f, answer_t *a)
{
    return tell(fd, f) == 0 ? hear(fd, api, a) : -1;
}


void
ask_once(int fd, int16_t api, frame_t f, answer_t *a)
{
    int  rc;

    rc = ask(fd, api, f, a);
    free(f.data);

    if (rc != 0) {
        fail("the connection was closed upon api key %d", api);
    }
}


bool
is_passing(int16_t error)
{
    return error == KF_ERR_COORDINATOR_LOAD_IN_PROGRESS
           || error == KF_ERR_COORDINATOR_NOT_AVAILABLE
           || error == KF_ERR_NOT_COORDINATOR
           || error == KF_ERR_CONCURRENT_TRANSACTIONS
           || error == KF_ERR_NOT_LEADER_OR_FOLLOWER
           || error == KF_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}
