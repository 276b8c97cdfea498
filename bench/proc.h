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
    double    user_s;
    double    sys_s;
    uint64_t  rss_kib;                  /* summed */
    uint64_t  pss_kib;
} proc_use_t;

/*
 * The process root and its descendants as they are now; false when root is not
 * there.  memory: also RSS and PSS, which costs the kernel a walk.
 */
bool proc_tree(pid_t root, bool memory, proc_use_t *use);

/* Monotonic seconds. */
double proc_now(void);

#endif
