/*
 * The load generator's modes that load nothing: topics, readiness, memory of
 * idle connections.
 */

#include <time.h>
#include <unistd.h>

#include "load.h"
#include "result.h"


static double
kib(uint64_t after, uint64_t before)
{
    return (double) after - (double) before;
}


static void
memory(const proc_use_t *use)
{
    result_count("rss_kib", (int64_t) use->rss_kib);
    result_count("pss_kib", (int64_t) use->pss_kib);
}


/* Memory that open connections cost, each after one answered request. */
void
control_idle(void)
{
    int         i, *fds;
    frame_t     f = wire_api_versions();
    answer_t    a;
    proc_use_t  before, open, after;

    fds = need((size_t) opt.conns, sizeof(int));

    if (!proc_tree(opt.pid, true, &before)) {
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

    result_begin();
    result_count("conns", opt.conns);
    memory(&after);
    result_real("rss_kib_per_conn", kib(open.rss_kib, before.rss_kib)
                                    / opt.conns);
    result_real("pss_kib_per_conn", kib(open.pss_kib, before.pss_kib)
                                    / opt.conns);
    result_real("idle_cpu_percent", 100 * (after.cpu_s - open.cpu_s)
                                    / (unsigned) opt.seconds_max);
    result_end();
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

    result_begin();
    result_count("processes", after.processes);
    memory(&after);
    result_real("idle_cpu_percent", 100 * (after.cpu_s - before.cpu_s)
                                    / opt.seconds_max);
    result_end();
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
    result_begin();
    result_real("ms", opt.since ? ((double) t.tv_sec
                                   + (double) t.tv_nsec / 1e9 - opt.since)
                                  * 1000 : 0);
    result_end();
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
