/*
 * Named points at which a test kills the process.  Compiled in with
 * -DNGX_KAFKA_FAULTS=1 only.
 */

#include "ngx_kafka_life.h"

#if (NGX_KAFKA_FAULTS)

#include <fcntl.h>
#include <signal.h>


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
}


void
ngx_kafka_fault(const char *name)
{
    int       fd;
    char      buf[128], *colon;
    size_t    len;
    ssize_t   n;
    uint32_t  nth;

    if (ngx_kafka_fault_file[0] == '\0') {
        return;
    }

    fd = open(ngx_kafka_fault_file, O_RDONLY|O_CLOEXEC);
    if (fd == -1) {
        return;
    }

    n = read(fd, buf, sizeof(buf) - 1);
    (void) close(fd);

    if (n <= 0) {
        return;
    }

    buf[n] = '\0';
    buf[strcspn(buf, "\n")] = '\0';

    nth = 1;
    len = strlen(name);
    colon = strchr(buf, ':');

    if (colon) {
        *colon = '\0';
        nth = (uint32_t) atoi(colon + 1);
    }

    if (strlen(buf) != len || memcmp(buf, name, len) != 0) {
        return;
    }

    if (atomic_fetch_add(&ngx_kafka_fault_hits, 1) + 1 < nth) {
        return;
    }

    /* whoever removes the file is the one that dies */

    if (unlink(ngx_kafka_fault_file) == 0) {
        (void) kill(getpid(), SIGKILL);
    }
}

#else

typedef int  ngx_kafka_fault_unused_t;          /* not an empty file */

#endif
