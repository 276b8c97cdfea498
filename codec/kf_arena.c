/*
 * The arena: objects are cut off a chunk one after the other; what does not
 * fit starts a new one.  Large objects get a chunk of their own, so that the
 * rest of the current one is not lost.
 */

#include "kf_arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>


#define KF_ARENA_CHUNK  2048            /* bytes; larger objects are alone */


struct kf_heap_chunk_s {
    kf_heap_chunk_t  *next;
    max_align_t       data[];
};


void
kf_arena_init(kf_arena_t *a, void *(*chunk)(void *ctx, size_t size), void *ctx,
    size_t limit)
{
    a->chunk = chunk;
    a->ctx = ctx;
    a->pos = NULL;
    a->end = NULL;
    a->left = limit;
}


static void *
kf_arena_chunk(kf_arena_t *a, size_t size)
{
    void  *p;

    if (size > a->left) {
        return NULL;
    }

    p = a->chunk(a->ctx, size);

    if (p) {
        a->left -= size;
    }

    return p;
}


void *
kf_arena_alloc(kf_arena_t *a, size_t size)
{
    size_t    chunk;
    uint8_t  *p;

    if (size > SIZE_MAX - 7) {
        return NULL;
    }

    size = (size + 7) & ~(size_t) 7;

    if (size == 0) {
        size = 8;                       /* distinct from NULL */
    }

    if (size <= (size_t) (a->end - a->pos)) {
        p = a->pos;
        a->pos += size;

        return p;
    }

    if (size > KF_ARENA_CHUNK / 4) {
        return kf_arena_chunk(a, size);
    }

    chunk = a->left < KF_ARENA_CHUNK ? a->left : KF_ARENA_CHUNK;

    if (size > chunk) {
        return NULL;
    }

    p = kf_arena_chunk(a, chunk);

    if (p == NULL) {
        return NULL;
    }

    a->pos = p + size;
    a->end = p + chunk;

    return p;
}


void *
kf_arena_array(kf_arena_t *a, size_t n, size_t size)
{
    void  *p;

    if (size && n > SIZE_MAX / size) {
        return NULL;
    }

    p = kf_arena_alloc(a, n * size);

    if (p) {
        memset(p, 0, n * size);
    }

    return p;
}


kf_str_t
kf_arena_str(kf_arena_t *a, kf_str_t s, bool *ok)
{
    uint8_t  *p;

    if (s.data == NULL) {
        return kf_null_str;
    }

    p = kf_arena_alloc(a, s.len);

    if (p == NULL) {
        *ok = false;
        return kf_null_str;
    }

    if (s.len) {
        memcpy(p, s.data, s.len);
    }

    return (kf_str_t) { p, s.len };
}


kf_str_t
kf_arena_printf(kf_arena_t *a, const char *fmt, ...)
{
    int      n;
    bool     ok = true;
    char     buf[513];
    va_list  args;

    va_start(args, fmt);
    n = vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);

    if (n < 0) {
        return kf_null_str;
    }

    if (n > (int) sizeof(buf) - 1) {
        n = (int) sizeof(buf) - 1;
    }

    return kf_arena_str(a, (kf_str_t) { (uint8_t *) buf, (uint32_t) n }, &ok);
}


void *
kf_heap_chunk(void *heap, size_t size)
{
    kf_heap_t        *h = heap;
    kf_heap_chunk_t  *c;

    if (size > SIZE_MAX - sizeof(kf_heap_chunk_t)) {
        return NULL;
    }

    c = malloc(sizeof(kf_heap_chunk_t) + size);

    if (c == NULL) {
        return NULL;
    }

    c->next = h->chunks;
    h->chunks = c;

    return c->data;
}


void
kf_heap_free(kf_heap_t *heap)
{
    kf_heap_chunk_t  *c, *next;

    for (c = heap->chunks; c; c = next) {
        next = c->next;
        free(c);
    }

    heap->chunks = NULL;
}
