/*
 * A bump allocator over chunks that the caller provides.
 *
 * Everything that a decoded request owns comes from its arena and goes with
 * it.  The limit bounds what a hostile request can make us allocate.
 */

#ifndef KF_ARENA_H
#define KF_ARENA_H

#include "kf_types.h"

#pragma GCC visibility push(hidden)


typedef struct {
    /* Returns memory aligned for any object, or NULL; never freed one by one:
       whoever made the arena frees all chunks (a pool, a list). */
    void  *(*chunk)(void *ctx, size_t size);
    void   *ctx;
    uint8_t *pos;
    uint8_t *end;
    size_t   left;          /* bytes that may still be asked of chunk() */
} kf_arena_t;


/* limit: bytes that the arena may take in all. */
void kf_arena_init(kf_arena_t *a, void *(*chunk)(void *ctx, size_t size),
    void *ctx, size_t limit);

/* Not zeroed, 8-byte aligned; NULL when the limit or the memory is reached. */
void *kf_arena_alloc(kf_arena_t *a, size_t size);

/* n elements, zeroed; NULL also when n * size overflows. */
void *kf_arena_array(kf_arena_t *a, size_t n, size_t size);

/* A copy of s in the arena; null stays null; *ok = false when out of memory. */
kf_str_t kf_arena_str(kf_arena_t *a, kf_str_t s, bool *ok);

/* A formatted message in the arena, cut at 512 bytes; null when no memory. */
kf_str_t kf_arena_printf(kf_arena_t *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));


/*
 * Chunks from malloc, for threads, tools and tests: kf_heap_free() frees all.
 * kf_arena_init(&a, kf_heap_chunk, &heap, limit).
 */
typedef struct kf_heap_chunk_s  kf_heap_chunk_t;

typedef struct {
    kf_heap_chunk_t  *chunks;
} kf_heap_t;

void *kf_heap_chunk(void *heap, size_t size);
void kf_heap_free(kf_heap_t *heap);


#pragma GCC visibility pop

#endif
