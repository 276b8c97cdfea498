/* What a measurement has to say: latencies, CPU of the peer, a line of JSON. */

#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <stdint.h>

#include "proc.h"


typedef struct {
    uint32_t    *v;                     /* ns / 10 */
    size_t       n;
    size_t       size;
    bool         sorted;
} sample_t;

void sample_add(sample_t *s, double seconds);
/* The p-th part of it, in microseconds. */
double sample_us(sample_t *s, double p);


/* Wall clock, and CPU of the processes of opt.pid, if that is given. */
typedef struct {
    proc_use_t   before;
    proc_use_t   after;
    double       begun;
    double       ended;
} meter_t;

void meter_start(meter_t *m);
void meter_stop(meter_t *m);
double meter_cpu_s(const meter_t *m);


/* The line: begin, any of the others, end. */
void result_begin(void);
void result_count(const char *name, int64_t v);
void result_real(const char *name, double v);
/* PREFIXp50_us, …p95, p99, p999, max */
void result_sample(const char *prefix, sample_t *s);
/* wall_s, cpu_s, and cpu_us_per_UNIT of n of them. */
void result_meter(const meter_t *m, const char *unit, int64_t n);
void result_end(void);

#endif
