/*
 * Memory of frames.  A produce request of 256 KiB is worth about seventy page
 * faults when its memory comes fresh from the kernel each time; so a worker
 * keeps what it has used, by size class, up to a bound, and gives back what
 * went unused for a while.
 *
 * Up to 16 KiB it is malloc's; above, pages of our own: four classes per power
 * of two, so that at most a quarter is wasted; above 4 MiB nothing is kept.
 *
 * A few pools of requests are kept, too, those that have not grown: malloc()
 * takes longer for their size than all else that a small request allocates.
 */

#include "ngx_kafka_conn.h"

#include <sys/mman.h>


#define NGX_KAFKA_MEM_SMALL    (16 * 1024)
#define NGX_KAFKA_MEM_LARGE    (4 * 1024 * 1024)
#define NGX_KAFKA_MEM_CLASSES  33
#define NGX_KAFKA_MEM_KEEP     (16 * 1024 * 1024)
#define NGX_KAFKA_MEM_TRIM     1000             /* ms */
#define NGX_KAFKA_POOL_SIZE    4096
/* A sanitizer could not tell that memory is used after its request. */
#if defined(__SANITIZE_ADDRESS__)
#define NGX_KAFKA_POOLS        0
#else
#define NGX_KAFKA_POOLS        32
#endif


typedef struct ngx_kafka_mem_s  ngx_kafka_mem_t;

struct ngx_kafka_mem_s {
    ngx_kafka_mem_t  *next;
};

typedef struct {
    ngx_kafka_mem_t  *list;
    ngx_uint_t        n;
    ngx_uint_t        unused;           /* fewest since the last trim */
} ngx_kafka_mem_class_t;


static void ngx_kafka_mem_trim(ngx_event_t *ev);


static ngx_kafka_mem_class_t  classes[NGX_KAFKA_MEM_CLASSES];
static size_t                 kept;
static ngx_event_t            trim_event;
static ngx_connection_t       trim_connection;  /* for the event's debug log */
static ngx_pool_t            *pools[NGX_KAFKA_POOLS + 1];
static ngx_uint_t             pools_n;


/* The class that holds want bytes, and its size. */
static ngx_uint_t
ngx_kafka_mem_class(size_t want, size_t *size)
{
    size_t      base;
    ngx_uint_t  i, quarter;

    base = NGX_KAFKA_MEM_SMALL;
    i = 0;

    while (base * 2 <= want) {
        base *= 2;
        i += 4;
    }

    quarter = (want - base + base / 4 - 1) / (base / 4);

    *size = base + quarter * (base / 4);

    return i + quarter;
}


static u_char *
ngx_kafka_mem_map(size_t size)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1,
             0);

    if (p == MAP_FAILED) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "mmap(%uz) failed", size);
        return NULL;
    }

    return p;
}


static size_t
ngx_kafka_mem_pages(size_t want)
{
    return (want + ngx_pagesize - 1) & ~((size_t) ngx_pagesize - 1);
}


u_char *
ngx_kafka_mem_get(size_t want, size_t *size)
{
    ngx_kafka_mem_t        *m;
    ngx_kafka_mem_class_t  *c;

    if (want <= NGX_KAFKA_MEM_SMALL) {
        *size = want ? want : 1;

        return ngx_alloc(*size, ngx_cycle->log);
    }

    if (want > NGX_KAFKA_MEM_LARGE) {
        *size = ngx_kafka_mem_pages(want);

        return ngx_kafka_mem_map(*size);
    }

    c = &classes[ngx_kafka_mem_class(want, size)];

    m = c->list;

    if (m == NULL) {
        return ngx_kafka_mem_map(*size);
    }

    c->list = m->next;
    c->n--;
    kept -= *size;

    if (c->n < c->unused) {
        c->unused = c->n;
    }

    return (u_char *) m;
}


u_char *
ngx_kafka_mem_grow(u_char *p, size_t used, size_t want, size_t *size)
{
    void    *q;
    size_t   new_size;

    if (want <= *size) {
        return p;
    }

    if (*size > NGX_KAFKA_MEM_SMALL && want > NGX_KAFKA_MEM_SMALL) {

        /* pages are moved, not copied */

        if (want > NGX_KAFKA_MEM_LARGE) {
            new_size = ngx_kafka_mem_pages(want);

        } else {
            (void) ngx_kafka_mem_class(want, &new_size);
        }

        q = mremap(p, *size, new_size, MREMAP_MAYMOVE);

        if (q == MAP_FAILED) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                          "mremap(%uz) failed", new_size);
            return NULL;
        }

        *size = new_size;

        return q;
    }

    q = ngx_kafka_mem_get(want, &new_size);

    if (q == NULL) {
        return NULL;
    }

    ngx_memcpy(q, p, used);
    ngx_kafka_mem_put(p, *size);

    *size = new_size;

    return q;
}


static void
ngx_kafka_mem_unmap(void *p, size_t size)
{
    if (munmap(p, size) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "munmap(%p, %uz) failed", p, size);
    }
}


void
ngx_kafka_mem_put(u_char *p, size_t size)
{
    size_t                  class_size;
    ngx_kafka_mem_t        *m;
    ngx_kafka_mem_class_t  *c;

    if (p == NULL) {
        return;
    }

    if (size <= NGX_KAFKA_MEM_SMALL) {
        ngx_free(p);
        return;
    }

    if (size > NGX_KAFKA_MEM_LARGE || kept + size > NGX_KAFKA_MEM_KEEP
        || ngx_exiting)
    {
        ngx_kafka_mem_unmap(p, size);
        return;
    }

    c = &classes[ngx_kafka_mem_class(size, &class_size)];

    m = (ngx_kafka_mem_t *) p;
    m->next = c->list;
    c->list = m;
    c->n++;
    kept += size;

    if (!trim_event.timer_set) {
        trim_connection.fd = (ngx_socket_t) -1;

        trim_event.handler = ngx_kafka_mem_trim;
        trim_event.data = &trim_connection;
        trim_event.log = ngx_cycle->log;
        trim_event.cancelable = 1;

        ngx_add_timer(&trim_event, NGX_KAFKA_MEM_TRIM);
    }
}


/* Gives back what nobody wanted since the last time. */
static void
ngx_kafka_mem_trim(ngx_event_t *ev)
{
    size_t                  base, size;
    ngx_uint_t              i;
    ngx_kafka_mem_t        *m;
    ngx_kafka_mem_class_t  *c;

    base = NGX_KAFKA_MEM_SMALL;

    for (i = 0; i < NGX_KAFKA_MEM_CLASSES; i++) {
        c = &classes[i];
        size = base + (i % 4) * (base / 4);

        while (c->unused && c->n) {
            m = c->list;
            c->list = m->next;
            c->n--;
            c->unused--;
            kept -= size;

            ngx_kafka_mem_unmap(m, size);
        }

        c->unused = c->n;

        if (i % 4 == 3) {
            base *= 2;
        }
    }

    if (kept && !ngx_exiting) {
        ngx_add_timer(ev, NGX_KAFKA_MEM_TRIM);
    }
}


ngx_pool_t *
ngx_kafka_pool_get(void)
{
    if (pools_n) {
        return pools[--pools_n];
    }

    /* a request may outlive its connection, and that one's log with it */

    return ngx_create_pool(NGX_KAFKA_POOL_SIZE, ngx_cycle->log);
}


void
ngx_kafka_pool_put(ngx_pool_t *pool)
{
    if (pools_n == NGX_KAFKA_POOLS || pool->d.next || pool->cleanup
        || ngx_exiting)
    {
        ngx_destroy_pool(pool);
        return;
    }

    ngx_reset_pool(pool);
    pools[pools_n++] = pool;
}
