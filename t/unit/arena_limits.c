/*
 * The arena: alignment, limits, overflow, chunks that fail.
 */

#include "../tap.h"
#include "../../codec/kf_arena.h"


typedef struct {
    kf_heap_t  heap;
    size_t     asked;                   /* bytes */
    int        chunks;
    int        left;                    /* chunks before memory runs out */
} watched_t;


static void *
watched_chunk(void *ctx, size_t size)
{
    watched_t  *w = ctx;

    if (w->left-- == 0) {
        return NULL;
    }

    w->asked += size;
    w->chunks++;

    return kf_heap_chunk(&w->heap, size);
}


static void
objects(void)
{
    bool        aligned = true, apart = true;
    size_t      i, size;
    uint8_t    *p, *last = NULL;
    watched_t   w = { { NULL }, 0, 0, -1 };
    kf_arena_t  a;

    kf_arena_init(&a, watched_chunk, &w, 1024 * 1024);

    for (i = 0; i < 2000; i++) {
        size = i % 97;
        p = kf_arena_alloc(&a, size);

        if (p == NULL) {
            aligned = false;
            break;
        }

        memset(p, 0x5a, size);
        aligned = aligned && (uintptr_t) p % 8 == 0;
        apart = apart && p != last;
        last = p;
    }

    ok(aligned, "objects are aligned to 8 bytes");
    ok(apart, "also those of no bytes are apart");
    ok(w.asked < 2000 * 60 && w.chunks < 100, "small objects share chunks");

    p = kf_arena_alloc(&a, 100000);
    ok(p != NULL, "a large object");
    memset(p, 1, 100000);
    last = kf_arena_alloc(&a, 8);
    ok(last != NULL && (last < p || last > p + 100000), "then a small one");

    p = kf_arena_array(&a, 50, 12);
    for (i = 0; i < 600 && p[i] == 0; i++) { }
    is((int64_t) i, 600, "arrays are zeroed");

    kf_heap_free(&w.heap);
    ok(w.heap.chunks == NULL, "all chunks are freed");
}


static void
limits(void)
{
    bool        fine = true;
    size_t      limit, got, n;
    watched_t   w = { { NULL }, 0, 0, -1 };
    kf_arena_t  a;

    for (limit = 0; limit < 9000; limit += 13) {
        w.asked = 0;
        kf_arena_init(&a, watched_chunk, &w, limit);

        for (got = 0, n = 0; n < 10000; n++) {
            if (kf_arena_alloc(&a, 24) == NULL) {
                break;
            }

            got += 24;
        }

        fine = fine && w.asked <= limit && got <= limit
               && got + 24 + 24 * (limit / 2048 + 1) > limit;
        kf_heap_free(&w.heap);
    }

    ok(fine, "no more than the limit, and hardly less");

    kf_arena_init(&a, watched_chunk, &w, 1000);
    ok(kf_arena_alloc(&a, 1001) == NULL, "one byte above the limit");
    ok(kf_arena_alloc(&a, 1000) != NULL, "exactly the limit");
    ok(kf_arena_alloc(&a, 1) == NULL, "then nothing");
    kf_heap_free(&w.heap);

    kf_arena_init(&a, watched_chunk, &w, SIZE_MAX);
    ok(kf_arena_alloc(&a, SIZE_MAX) == NULL, "a size that can't be rounded");
    ok(kf_arena_alloc(&a, SIZE_MAX - 7) == NULL, "nor one that can't be had");
    ok(kf_arena_array(&a, SIZE_MAX / 2, 3) == NULL, "n * size overflows");
    ok(kf_arena_array(&a, 0, 8) != NULL, "an array of nothing");
    kf_heap_free(&w.heap);

    w.left = 0;
    kf_arena_init(&a, watched_chunk, &w, 4096);
    ok(kf_arena_alloc(&a, 8) == NULL, "no memory");
    w.left = 1;
    ok(kf_arena_alloc(&a, 8) != NULL, "memory again");
    kf_heap_free(&w.heap);
}


static void
text(void)
{
    bool        good = true;
    char        big[1000];
    kf_str_t    s;
    kf_heap_t   heap = { NULL };
    kf_arena_t  a;

    kf_arena_init(&a, kf_heap_chunk, &heap, 8192);

    s = kf_arena_str(&a, kf_str("abc"), &good);
    ok(good && kf_str_eq(s, kf_str("abc")), "a copy");
    s = kf_arena_str(&a, kf_null_str, &good);
    ok(good && kf_str_is_null(s), "null stays null");
    s = kf_arena_str(&a, kf_str(""), &good);
    ok(good && s.data != NULL && s.len == 0, "empty stays empty");

    s = kf_arena_printf(&a, "%s has %d", "topic", 7);
    ok(kf_str_eq(s, kf_str("topic has 7")), "a formatted message");

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    s = kf_arena_printf(&a, "%s", big);
    is(s.len, 512, "is cut at 512 bytes");

    kf_arena_init(&a, kf_heap_chunk, &heap, 4);
    s = kf_arena_str(&a, kf_str("abcdefgh"), &good);
    ok(!good && kf_str_is_null(s), "out of memory is said");
    s = kf_arena_printf(&a, "abcdefgh");
    ok(kf_str_is_null(s), "and is a null message");

    kf_heap_free(&heap);
}


int
main(void)
{
    objects();
    limits();
    text();

    return done_testing();
}
