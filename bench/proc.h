/*
 * What a tree of processes has used: a broker is nginx's master and all of its
 * workers, or one JVM.
 */

#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int       processes;
    double    user_s;                   /* in the kernel's ticks */
    double    sys_s;
    double    cpu_s;                    /* both, to the nanosecond */
    uint64_t  rss_kib;                  /* summed */
    uint64_t  pss_kib;
    uint64_t  shmem_kib;                /* shared memory, each page once */
} proc_use_t;

/*
 * The process root and its descendants as they are now; false when root is not
 * there.  memory: also the memory, which costs the kernel a walk.
 */
bool proc_tree(pid_t root, bool memory, proc_use_t *use);

/* Monotonic seconds. */
double proc_now(void);

#endif
