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
 *   NAME?, NAME:N?  whoever comes to it waits, for as long as the file is the
 *                   same; its process writes its number to <file>.held
 *   NAME=ERRNO      the call fails with that number, for as long as the file is
 *
 * Points of log/ are called log.<its own name>; some names end with the number
 * of a producer.
 */

#include "ngx_kafka_life.h"

#if (NGX_KAFKA_FAULTS)

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "../log/kl_fault.h"


static int ngx_kafka_fault_at(const char *layer, const char *name);
static int64_t ngx_kafka_fault_version(int fd);
static void ngx_kafka_fault_wait(int64_t version);
static void ngx_kafka_fault_die(const char *rest);
#ifdef KL_FAULTS
static int ngx_kafka_fault_log(const char *name);
#endif


static char              ngx_kafka_fault_file[NGX_MAX_PATH];
static _Atomic uint32_t  ngx_kafka_fault_hits;
static _Atomic int64_t   ngx_kafka_fault_seen;


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


void
ngx_kafka_fault_of(const char *name, int64_t producer_id)
{
    char  point[64];

    (void) snprintf(point, sizeof(point), "%s-%lld", name,
                    (long long) producer_id);
    (void) ngx_kafka_fault_at("", name);
    (void) ngx_kafka_fault_at("", point);
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
    int       fd, err, waits;
    char      buf[128], point[128], *p, *rest;
    size_t    len;
    ssize_t   n;
    int64_t   version;
    uint32_t  nth, hit;

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
    version = ngx_kafka_fault_version(fd);
    (void) close(fd);
    errno = err;

    buf[n > 0 ? n : 0] = '\0';
    len = strcspn(buf, "\n");
    rest = buf[len] ? &buf[len + 1] : &buf[len];
    buf[len] = '\0';
    (void) snprintf(point, sizeof(point), "%s%s", layer, name);

    waits = len && buf[len - 1] == '?';
    nth = 1;
    p = strpbrk(buf, ":=?");

    if (p) {
        nth = *p == ':' ? (uint32_t) atoi(p + 1) : 1;

        if (*p == '=') {
            *p = '\0';
            return strcmp(buf, point) == 0 ? atoi(p + 1) : 0;
        }

        *p = '\0';
    }

    if (strcmp(buf, point) != 0) {
        return 0;
    }

    /* the count is of this file */

    if (atomic_exchange(&ngx_kafka_fault_seen, version) != version) {
        atomic_store(&ngx_kafka_fault_hits, 0);
    }

    hit = atomic_fetch_add(&ngx_kafka_fault_hits, 1) + 1;

    if (hit >= nth) {

        if (waits) {
            ngx_kafka_fault_wait(version);

        } else {
            ngx_kafka_fault_die(rest);
        }
    }

    errno = err;

    return 0;
}


/* Changes with every file that a test writes. */
static int64_t
ngx_kafka_fault_version(int fd)
{
    struct stat  st;

    if (fstat(fd, &st) == -1) {
        return 0;
    }

    return (int64_t) st.st_ino ^ (int64_t) st.st_mtim.tv_nsec << 20
           ^ (int64_t) st.st_mtim.tv_sec << 50;
}


static void
ngx_kafka_fault_wait(int64_t version)
{
    int   fd;
    char  held[NGX_MAX_PATH + 16];

    (void) snprintf(held, sizeof(held), "%s.held", ngx_kafka_fault_file);

    fd = open(held, O_WRONLY|O_CREAT|O_APPEND|O_CLOEXEC, 0666);

    if (fd != -1) {
        (void) dprintf(fd, "%d\n", (int) getpid());
        (void) close(fd);
    }

    for ( ;; ) {
        fd = open(ngx_kafka_fault_file, O_RDONLY|O_CLOEXEC);

        if (fd == -1) {
            return;
        }

        if (ngx_kafka_fault_version(fd) != version) {
            (void) close(fd);
            return;
        }

        (void) close(fd);
        ngx_msleep(5);
    }
}


/* Whoever gets the file is the one that dies. */
static void
ngx_kafka_fault_die(const char *rest)
{
    int   fd;
    char  mine[NGX_MAX_PATH + 16];

    (void) snprintf(mine, sizeof(mine), "%s.%d", ngx_kafka_fault_file,
                    (int) getpid());

    if (rename(ngx_kafka_fault_file, mine) == -1) {
        return;
    }

    (void) unlink(mine);

    if (*rest) {
        fd = open(mine, O_WRONLY|O_CREAT|O_CLOEXEC, 0666);
        (void) !write(fd, rest, strlen(rest));
        (void) close(fd);
        (void) rename(mine, ngx_kafka_fault_file);
    }

    (void) kill(getpid(), SIGKILL);
}

#else

typedef int  ngx_kafka_fault_unused_t;          /* not an empty file */

#endif
