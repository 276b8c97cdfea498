/*
 * The reserve: blocks in the order in which replay will take them.
 */

#include <stdlib.h>

#include "kc_int.h"


typedef struct {
    void    *p;
    size_t   size;
} kc_block_t;

struct kc_reserve_s {
    kc_block_t  *blocks;
    size_t       room;
    size_t       count;
    size_t       taken;             /* blocks before it are gone */
};


bool
kc_reserve_init(kc_t *kc)
{
    kc->reserve = calloc(1, sizeof(struct kc_reserve_s));

    return kc->reserve != NULL;
}


void
kc_reserve_done(kc_t *kc)
{
    if (kc->reserve) {
        kc_unreserve(kc);
        free(kc->reserve->blocks);
        free(kc->reserve);
        kc->reserve = NULL;
    }
}


bool
kc_reserve(kc_t *kc, size_t size)
{
    struct kc_reserve_s  *r = kc->reserve;
    kc_block_t           *blocks;
    size_t                room;
    void                 *p;

    if (r->count == r->room) {
        room = r->room ? r->room * 2 : 64;

        blocks = realloc(r->blocks, room * sizeof(kc_block_t));
        if (blocks == NULL) {
            return false;
        }

        r->blocks = blocks;
        r->room = room;
    }

    p = kc->mem.alloc(kc->mem.ctx, size);
    if (p == NULL) {
        return false;
    }

    r->blocks[r->count].p = p;
    r->blocks[r->count].size = size;
    r->count++;

    return true;
}


void *
kc_take(kc_t *kc, size_t size)
{
    struct kc_reserve_s  *r = kc->reserve;
    kc_block_t            b;

    kc_assert(r->taken < r->count);

    b = r->blocks[r->taken];
    kc_assert(b.size == size);

    r->taken++;
    memset(b.p, 0, size);

    return b.p;
}


void
kc_unreserve(kc_t *kc)
{
    struct kc_reserve_s  *r = kc->reserve;

    while (r->taken < r->count) {
        kc_free(kc, r->blocks[r->taken].p, r->blocks[r->taken].size);
        r->taken++;
    }

    r->taken = 0;
    r->count = 0;
}


void
kc_free(kc_t *kc, void *p, size_t size)
{
    if (p) {
        kc->mem.free(kc->mem.ctx, p, size);
    }
}
