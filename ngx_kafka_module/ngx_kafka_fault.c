/*
 * Named points at which a test kills the process or makes a call fail.
 * Compiled in with -DNGX_KAFKA_FAULTS=1 -DKL_FAULTS only.
 *
 * The environment variable NGX_KAFKA_FAULT names a file.  While it exists with
 * one of these lines in it, processes that come to the point NAME do so:
 *
 *   NAME            the first one is killed, and takes the line with it: the
 *                   next line, if there is one, comes into force
 *   NAME:N          the same when a process comes to it for the N-th time
 *   NAME=ERRNO      the call fails with that number, for as long as the file is
 *
 * Points of log/ are called log.<its own name>.
 */

#include "ngx_kafka_life.h"

#if (NGX_KAFKA_FAULTS)

#include <fcntl.h>
#include <signal.h>

#include "../log/kl_fault.h"


static int ngx_kafka_fault_at(const char *layer, const char *name);
#ifdef KL_FAULTS
static int ngx_kafka_fault_log(const char *name);
#endif


static char              ngx_kafka_fault_file[NGX_MAX_PATH];
static _Atomic uint32_t  ngx_kafka_fault_hits;


/* In the master: nginx gives its workers an environment of its own. */
void
ngx_kafka_fault_init(void)
{
    const char  *file;

    file = getenv("NGX_KAFKA_FAULT");

    if (file && ngx_strlen(file) < sizeof(ngx_kafka_fault_file)) {
        ngx_memcpy(ngx_kafka_fault_file, file, ngx_strlen(file) + 1);
    }

#ifdef KL_FAULTS
    kl_fault_hook = ngx_kafka_fault_log;
#endif
}


void
ngx_kafka_fault(const char *name)
{
    (void) ngx_kafka_fault_at("", name);
}


int
ngx_kafka_fault_fails(const char *name)
{
    return ngx_kafka_fault_at("", name);
}


#ifdef KL_FAULTS

static int
ngx_kafka_fault_log(const char *name)
{
    return ngx_kafka_fault_at("log.", name);
}

#endif


static int
ngx_kafka_fault_at(const char *layer, const char *name)
{
    int       fd, err;
    char      buf[128], point[128], mine[NGX_MAX_PATH + 16], *p, *rest;
    ssize_t   n;
    uint32_t  nth;

    if (ngx_kafka_fault_file[0] == '\0') {
        return 0;
    }

    err = errno;
    fd = open(ngx_kafka_fault_file, O_RDONLY|O_CLOEXEC);

    if (fd == -1) {
        errno = err;
        return 0;
    }

    n = read(fd, buf, sizeof(buf) - 1);
    (void) close(fd);
    errno = err;

    if (n <= 0) {
        return 0;
    }

    buf[n] = '\0';
    n = strcspn(buf, "\n");
    rest = buf[n] ? &buf[n + 1] : &buf[n];
    buf[n] = '\0';
    (void) snprintf(point, sizeof(point), "%s%s", layer, name);

    nth = 1;
    p = strpbrk(buf, ":=");

    if (p && *p == '=') {
        *p = '\0';
        return strcmp(buf, point) == 0 ? atoi(p + 1) : 0;
    }

    if (p) {
        *p = '\0';
        nth = (uint32_t) atoi(p + 1);
    }

    if (strcmp(buf, point) != 0
        || atomic_fetch_add(&ngx_kafka_fault_hits, 1) + 1 < nth)
    {
        return 0;
    }

    /* whoever gets the file is the one that dies */

    (void) snprintf(mine, sizeof(mine), "%s.%d", ngx_kafka_fault_file,
                    (int) getpid());

    if (rename(ngx_kafka_fault_file, mine) == -1) {
        errno = err;
        return 0;
    }

    (void) unlink(mine);

    if (*rest) {
        fd = open(mine, O_WRONLY|O_CREAT|O_CLOEXEC, 0666);
        (void) !write(fd, rest, strlen(rest));
        (void) close(fd);
        (void) rename(mine, ngx_kafka_fault_file);
    }

    (void) kill(getpid(), SIGKILL);

    return 0;
}

#else

typedef int  ngx_kafka_fault_unused_t;          /* not an empty file */

#endif
