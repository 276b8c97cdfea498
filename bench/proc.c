/* Reads /proc: CPU time and memory of a process and its descendants. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"


typedef struct {
    pid_t   pid;
    pid_t   ppid;
    double  user_s;
    double  sys_s;
    bool    in;
} proc_t;


static bool
proc_stat(pid_t pid, proc_t *p)
{
    char                 path[64], line[1024], *s;
    long                 hz = sysconf(_SC_CLK_TCK);
    FILE                *f;
    size_t               n;
    unsigned long long   user, sys;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    f = fopen(path, "r");
    if (f == NULL) {
        return false;
    }

    n = fread(line, 1, sizeof(line) - 1, f);
    fclose(f);
    line[n] = '\0';

    /* the name in parentheses may hold anything */

    s = strrchr(line, ')');
    if (s == NULL
        || sscanf(s + 1,
                  " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                  &p->ppid, &user, &sys)
           != 3)
    {
        return false;
    }

    p->pid = pid;
    p->user_s = (double) user / (double) hz;
    p->sys_s = (double) sys / (double) hz;
    p->in = false;

    return true;
}


static void
proc_memory(pid_t pid, proc_use_t *use)
{
    char                 path[64], line[256];
    FILE                *f;
    unsigned long long   kib;

    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int) pid);
    f = fopen(path, "r");
    if (f == NULL) {
        return;
    }

    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Rss: %llu", &kib) == 1) {
            use->rss_kib += kib;

        } else if (sscanf(line, "Pss: %llu", &kib) == 1) {
            use->pss_kib += kib;

        } else if (sscanf(line, "Pss_Shmem: %llu", &kib) == 1) {
            use->shmem_kib += kib;
        }
    }

    fclose(f);
}


/* Ticks are ten milliseconds: too coarse for a short run. */
static double
proc_cpu(const proc_t *p)
{
    clockid_t        clock;
    struct timespec  t;

    if (clock_getcpuclockid(p->pid, &clock) != 0
        || clock_gettime(clock, &t) != 0)
    {
        return p->user_s + p->sys_s;
    }

    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}


bool
proc_tree(pid_t root, bool memory, proc_use_t *use)
{
    DIR            *dir;
    bool            grown;
    size_t          i, j, n = 0, size = 0;
    proc_t         *all = NULL;
    struct dirent  *e;

    memset(use, 0, sizeof(proc_use_t));

    dir = opendir("/proc");
    if (dir == NULL) {
        return false;
    }

    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9') {
            continue;
        }

        if (n == size) {
            size = size ? size * 2 : 256;
            all = realloc(all, size * sizeof(proc_t));
            if (all == NULL) {
                abort();
            }
        }

        if (proc_stat(atoi(e->d_name), &all[n])) {
            all[n].in = all[n].pid == root;
            n++;
        }
    }

    closedir(dir);

    do {
        grown = false;

        for (i = 0; i < n; i++) {
            for (j = 0; j < n && !all[i].in; j++) {
                if (all[j].in && all[j].pid == all[i].ppid) {
                    all[i].in = true;
                    grown = true;
                }
            }
        }
    } while (grown);

    for (i = 0; i < n; i++) {
        if (all[i].in) {
            use->processes++;
            use->user_s += all[i].user_s;
            use->sys_s += all[i].sys_s;
            use->cpu_s += proc_cpu(&all[i]);
            if (memory) {
                proc_memory(all[i].pid, use);
            }
        }
    }

    free(all);

    return use->processes > 0;
}


double
proc_now(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}
