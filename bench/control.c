/*
 * The load generator's modes that load nothing: topics, readiness, memory of
 * idle connections.
 */

#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "proc.h"


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

    fprintf(stderr, "load: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
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
ask(int fd, int16_t api, frame_t f, answer_t *a)
{
    size_t    at, len;
    ssize_t   n;
    uint8_t  *in, size[4];

    if (write(fd, f.data, f.len) != (ssize_t) f.len) {
        return -1;
    }

    if (recv(fd, size, 4, MSG_WAITALL) != 4) {
        return -1;
    }

    len = (size_t) size[0] << 24 | (size_t) size[1] << 16
          | (size_t) size[2] << 8 | size[3];
    in = malloc(len ? len : 1);

    for (at = 0; in && at < len; at += (size_t) n) {
        n = read(fd, in + at, len - at);
        if (n <= 0) {
            free(in);
            return -1;
        }
    }

    if (!wire_answer(api, in, len, a)) {
        fail("the answer of %s does not parse", opt.mode->name);
    }

    free(in);

    return 0;
}


/* Memory that open connections cost, each after one answered request. */
void
control_idle(void)
{
    int         i, *fds;
    frame_t     f = wire_api_versions();
    answer_t    a;
    proc_use_t  before, open, after;

    fds = calloc((size_t) opt.conns, sizeof(int));
    if (fds == NULL || !proc_tree(opt.pid, true, &before)) {
        fail("idle: no process %d", (int) opt.pid);
    }

    for (i = 0; i < opt.conns; i++) {
        fds[i] = dial(true);
        if (ask(fds[i], 18, f, &a) != 0 || a.error) {
            fail("idle: connection %d was not answered", i);
        }
    }

    sleep(1);
    proc_tree(opt.pid, true, &open);
    sleep((unsigned) opt.seconds_max);
    proc_tree(opt.pid, true, &after);

    printf("{\"test\":\"%s\",\"mode\":\"idle\",\"conns\":%d,"
           "\"rss_kib\":%llu,\"pss_kib\":%llu,"
           "\"rss_kib_per_conn\":%.2f,\"pss_kib_per_conn\":%.2f,"
           "\"idle_cpu_percent\":%.3f}\n",
           opt.label, opt.conns, (unsigned long long) after.rss_kib,
           (unsigned long long) after.pss_kib,
           (double) ((int64_t) open.rss_kib - (int64_t) before.rss_kib)
           / opt.conns,
           (double) ((int64_t) open.pss_kib - (int64_t) before.pss_kib)
           / opt.conns,
           100 * (after.user_s + after.sys_s - open.user_s - open.sys_s)
           / (unsigned) opt.seconds_max);
}


/* Memory and CPU of the tree over some seconds in which nobody asks. */
void
control_tree(void)
{
    proc_use_t  before, after;

    if (!proc_tree(opt.pid, false, &before)) {
        fail("no process %d", (int) opt.pid);
    }

    usleep((useconds_t) (opt.seconds_max * 1e6));
    proc_tree(opt.pid, true, &after);

    printf("{\"test\":\"%s\",\"mode\":\"tree\",\"processes\":%d,"
           "\"rss_kib\":%llu,\"pss_kib\":%llu,\"idle_cpu_percent\":%.3f}\n",
           opt.label, after.processes, (unsigned long long) after.rss_kib,
           (unsigned long long) after.pss_kib,
           100 * (after.user_s + after.sys_s - before.user_s - before.sys_s)
           / opt.seconds_max);
}


/* Waits for the first answer to ApiVersions. */
void
control_ready(void)
{
    int              fd, rc;
    double           end = proc_now() + opt.seconds_max;
    frame_t          f = wire_api_versions();
    answer_t         a;
    struct timespec  t;

    for ( ;; ) {
        fd = dial(false);
        rc = fd == -1 ? -1 : ask(fd, 18, f, &a);

        if (fd != -1) {
            close(fd);
        }

        if (rc == 0) {
            break;
        }

        if (proc_now() > end) {
            fail("no answer within %.0f s", opt.seconds_max);
        }

        usleep(500);
    }

    clock_gettime(CLOCK_REALTIME, &t);
    printf("{\"test\":\"%s\",\"mode\":\"ready\",\"ms\":%.1f}\n", opt.label,
           opt.since ? ((double) t.tv_sec + (double) t.tv_nsec / 1e9
                        - opt.since) * 1000 : 0.0);
}


/* Creates or deletes a topic; after creation waits until it is served. */
void
control_topic(void)
{
    int       fd = dial(true), i, k;
    answer_t  a;

    if (opt.mode->mode == MODE_DELETE) {
        if (ask(fd, 20, wire_delete_topic(opt.topic), &a) != 0 || a.error) {
            fail("delete %s: %s", opt.topic, a.message);
        }
        return;
    }

    if (ask(fd, 19, wire_create_topic(opt.topic, opt.partitions, opt.configs,
                                      opt.configs_n), &a) != 0
        || a.error)
    {
        fail("create %s: %s", opt.topic, a.message);
    }

    for (i = 0; i < 1000; i++) {
        if (ask(fd, 3, wire_metadata(opt.topic), &a) != 0) {
            break;
        }

        for (k = 0; k < opt.partitions && a.leaders == opt.partitions; k++) {
            if (ask(fd, 2, wire_list_offsets(opt.topic, k, -1), &a) != 0) {
                fail("create %s: the connection was closed", opt.topic);
            }
            a.leaders = a.error ? 0 : opt.partitions;
        }

        if (a.leaders == opt.partitions) {
            return;
        }

        usleep(10000);
    }

    fail("%s has no leaders", opt.topic);
}
