/* See result.h. */

#include <stdio.h>
#include <stdlib.h>

#include "load.h"
#include "result.h"


void
sample_add(sample_t *s, double seconds)
{
    double  ticks = seconds * 1e8;

    if (s->n == s->size) {
        s->size = s->size ? s->size * 2 : 1 << 16;
        s->v = realloc(s->v, s->size * sizeof(uint32_t));
        if (s->v == NULL) {
            die("realloc");
        }
    }

    s->v[s->n++] = ticks < (double) UINT32_MAX ? (uint32_t) ticks : UINT32_MAX;
    s->sorted = false;
}


static int
by_value(const void *a, const void *b)
{
    uint32_t  x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}


double
sample_us(sample_t *s, double p)
{
    size_t  i;

    if (s->n == 0) {
        return 0;
    }

    if (!s->sorted) {
        qsort(s->v, s->n, sizeof(uint32_t), by_value);
        s->sorted = true;
    }

    i = (size_t) (p * (double) s->n);

    return (double) s->v[i < s->n ? i : s->n - 1] / 100;
}


void
meter_start(meter_t *m)
{
    memset(m, 0, sizeof(meter_t));

    if (opt.pid && !proc_tree(opt.pid, false, &m->before)) {
        fail("no process %d", (int) opt.pid);
    }

    m->begun = proc_now();
}


void
meter_stop(meter_t *m)
{
    m->ended = proc_now();

    if (opt.pid) {
        proc_tree(opt.pid, false, &m->after);
    }
}


double
meter_cpu_s(const meter_t *m)
{
    return m->after.cpu_s - m->before.cpu_s;
}


void
result_begin(void)
{
    printf("{\"test\":\"%s\",\"mode\":\"%s\",\"peer\":\"%s\"", opt.label,
           opt.mode->name, opt.peer);
}


void
result_count(const char *name, int64_t v)
{
    printf(",\"%s\":%lld", name, (long long) v);
}


void
result_real(const char *name, double v)
{
    printf(",\"%s\":%.4f", name, v);
}


void
result_sample(const char *prefix, sample_t *s)
{
    printf(",\"%sp50_us\":%.1f,\"%sp95_us\":%.1f,\"%sp99_us\":%.1f,"
           "\"%sp999_us\":%.1f,\"%smax_us\":%.1f",
           prefix, sample_us(s, 0.5), prefix, sample_us(s, 0.95), prefix,
           sample_us(s, 0.99), prefix, sample_us(s, 0.999), prefix,
           sample_us(s, 1));
}


void
result_meter(const meter_t *m, const char *unit, int64_t n)
{
    printf(",\"wall_s\":%.4f", m->ended - m->begun);

    if (opt.pid) {
        printf(",\"cpu_user_s\":%.2f,\"cpu_sys_s\":%.2f,\"cpu_s\":%.4f,"
               "\"cpu_us_per_%s\":%.3f",
               m->after.user_s - m->before.user_s,
               m->after.sys_s - m->before.sys_s, meter_cpu_s(m), unit,
               meter_cpu_s(m) * 1e6 / (double) (n ? n : 1));
    }
}


void
result_end(void)
{
    printf("}\n");
}
