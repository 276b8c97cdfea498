/*
 * The shared zone of one broker: its layout, and its reuse over reloads.
 *
 * A zone is a cache of the disk.  It is laid out once, by whoever makes it
 * (zone init runs in the master, and under `nginx -t`), and never changed by a
 * reload that finds it again.  It is found again under the directory's real
 * path, whatever the block is called.
 *
 * Layout, after nginx's own slab header, which stays intact because the master
 * unlocks its mutex when a worker dies:
 *
 *   ngx_kafka_zone_t | bindings | checkpoints | pending bitmaps
 *   | table of partitions and producers (log/) | arena (coordinator/)
 *
 * Sizes, of U usable bytes: one partition slot for each 32 KiB and one producer
 * block for each 8 KiB, halved together until log/'s table takes at most U / 2;
 * the rest, at least 2/5 of U, is the coordinator's arena.  The default of 64m
 * has room for 2,000 partitions and 8,000 entries of producers.
 */

#include "ngx_kafka_life.h"

#include <sys/random.h>


#define NGX_KAFKA_PARTS_MIN  32


typedef struct {
    uint32_t  parts;
    uint32_t  producers;
    uint32_t  words;
    size_t    bindings;                         /* offsets from the start */
    size_t    checkpoints;
    size_t    pending;
    size_t    table;
    size_t    arena;
    size_t    end;
} ngx_kafka_layout_t;


static ngx_int_t ngx_kafka_zone_layout(size_t size, ngx_kafka_layout_t *l);
static ngx_kafka_zone_t *ngx_kafka_zone_create(u_char *base,
    ngx_kafka_layout_t *l, size_t size);
static void *ngx_kafka_zone_alloc(void *ctx, size_t size);
static void ngx_kafka_zone_free(void *ctx, void *p, size_t size);


ngx_int_t
ngx_kafka_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    u_char              *p;
    size_t               size;
    ngx_slab_pool_t     *pool;
    ngx_kafka_zone_t    *zone;
    ngx_kafka_layout_t   l;
    ngx_kafka_broker_t  *b = shm_zone->data;

    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data || shm_zone->shm.exists) {
        zone = pool->data;

        if (zone->magic != NGX_KAFKA_MAGIC || zone->layout != NGX_KAFKA_LAYOUT)
        {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "kafka_broker \"%V\": its zone was made by another "
                          "version of the module; restart nginx or upgrade "
                          "the binary (USR2) instead of reloading", &b->name);
            return NGX_ERROR;
        }

        b->zone = zone;
        b->parts = zone->parts;

        return NGX_OK;
    }

    size = pool->pfree * ngx_pagesize;

    if (ngx_kafka_zone_layout(size, &l) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "kafka_broker \"%V\": zone is too small", &b->name);
        return NGX_ERROR;
    }

    /* all of it in one piece; anonymous pages are zero until they are used */

    p = ngx_slab_alloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    zone = ngx_kafka_zone_create(p, &l, size);
    if (zone == NULL) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "kafka_broker \"%V\": its zone cannot be laid out",
                      &b->name);
        return NGX_ERROR;
    }

    pool->data = zone;
    b->zone = zone;
    b->parts = zone->parts;

    return NGX_OK;
}


ngx_int_t
ngx_kafka_zone_fits(size_t size)
{
    ngx_kafka_layout_t  l;

    /* nginx's slab keeps 24 bytes for each page, and its own header */

    if (size < NGX_KAFKA_ZONE_MIN) {
        return NGX_DECLINED;
    }

    size -= (size / ngx_pagesize) * sizeof(ngx_slab_page_t) + 4 * ngx_pagesize;

    return ngx_kafka_zone_layout(size, &l);
}


static ngx_int_t
ngx_kafka_zone_layout(size_t size, ngx_kafka_layout_t *l)
{
    size_t  pos;

    l->parts = (uint32_t) ngx_min(size / 32768, 1024 * 1024);
    l->producers = (uint32_t) ngx_min(size / 8192, 2 * 1024 * 1024);

    while (kl_shared_size(l->parts, l->producers) > size / 2) {
        l->parts /= 2;
        l->producers /= 2;

        if (l->parts < NGX_KAFKA_PARTS_MIN) {
            return NGX_DECLINED;
        }
    }

    l->words = (l->parts + NGX_KAFKA_POINTS + 63) / 64;

    pos = ngx_align(sizeof(ngx_kafka_zone_t), 64);

    l->bindings = pos;
    pos = ngx_align(pos + l->parts * sizeof(ngx_kafka_binding_t), 64);

    l->checkpoints = pos;
    pos = ngx_align(pos + l->parts * sizeof(int64_t), 64);

    l->pending = pos;
    pos = ngx_align(pos + KL_WORKER_SLOTS * l->words * sizeof(uint64_t), 64);

    l->table = pos;
    pos = ngx_align(pos + kl_shared_size(l->parts, l->producers),
                    ngx_pagesize);

    l->arena = pos;
    l->end = size;

    if (pos >= size || size - pos < size * 2 / 5) {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_kafka_zone_t *
ngx_kafka_zone_create(u_char *base, ngx_kafka_layout_t *l, size_t size)
{
    u_char             random[NGX_KAFKA_ID_LEN / 2];
    ngx_uint_t         i;
    ngx_kafka_zone_t  *zone;

    zone = (ngx_kafka_zone_t *) base;

    zone->magic = NGX_KAFKA_MAGIC;
    zone->layout = NGX_KAFKA_LAYOUT;
    zone->size = size;

    if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random)) {
        return NULL;
    }

    ngx_hex_dump(zone->id, random, sizeof(random));

    if (ngx_kafka_mutex_init(&zone->coord) != NGX_OK
        || ngx_kafka_mutex_init(&zone->recovery) != NGX_OK)
    {
        return NULL;
    }

    for (i = 0; i < NGX_KAFKA_JOBS; i++) {
        if (ngx_kafka_mutex_init(&zone->jobs[i].lock) != NGX_OK) {
            return NULL;
        }
    }

    for (i = 0; i < KL_WORKER_SLOTS; i++) {
        if (ngx_kafka_mutex_init(&zone->workers[i].alive) != NGX_OK) {
            return NULL;
        }
    }

    atomic_store(&zone->state, NGX_KAFKA_ZONE_FRESH);
    atomic_store(&zone->snapshot, -1);
    zone->fresh = 1;
    zone->journal_slot = -1;

    zone->parts_n = l->parts;
    zone->words_n = l->words;
    zone->bindings = (ngx_kafka_binding_t *) (base + l->bindings);
    zone->checkpoints = (_Atomic int64_t *) (base + l->checkpoints);
    zone->pending = (_Atomic uint64_t *) (base + l->pending);
    zone->parts = kl_shared_init(base + l->table, l->parts, l->producers);
    zone->arena = (ngx_slab_pool_t *) (base + l->arena);
    zone->arena_size = l->end - l->arena;

    return zone->parts ? zone : NULL;
}


void
ngx_kafka_zone_arena_reset(ngx_kafka_zone_t *zone)
{
    ngx_slab_pool_t  *sp = zone->arena;

    ngx_memzero(sp, sizeof(ngx_slab_pool_t));

    sp->end = (u_char *) sp + zone->arena_size;
    sp->addr = sp;
    sp->min_shift = 3;

    ngx_slab_init(sp);

    /* who asks says what it could not do, once */
    sp->log_nomem = 0;
    sp->log_ctx = &sp->zero;
}


ngx_int_t
ngx_kafka_mutex_init(pthread_mutex_t *m)
{
    int                  rc;
    pthread_mutexattr_t  attr;

    if (pthread_mutexattr_init(&attr) != 0) {
        return NGX_ERROR;
    }

    rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0) {
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    }

    if (rc == 0) {
        rc = pthread_mutex_init(m, &attr);
    }

    (void) pthread_mutexattr_destroy(&attr);

    return rc == 0 ? NGX_OK : NGX_ERROR;
}


kc_mem_t
ngx_kafka_zone_mem(ngx_kafka_zone_t *zone)
{
    kc_mem_t  mem;

    mem.alloc = ngx_kafka_zone_alloc;
    mem.free = ngx_kafka_zone_free;
    mem.ctx = zone->arena;

    return mem;
}


static void *
ngx_kafka_zone_alloc(void *ctx, size_t size)
{
    return ngx_slab_alloc_locked(ctx, size);
}


static void
ngx_kafka_zone_free(void *ctx, void *p, size_t size)
{
    ngx_slab_free_locked(ctx, p);
}
