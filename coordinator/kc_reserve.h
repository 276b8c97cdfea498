/*
 * Memory that a decision takes before its records are appended, so that the
 * replay of those records cannot run out.
 *
 * decide → kc_reserve() once per block that replay will ask for; replay →
 * kc_take() gets exactly those; what is left over goes back by kc_unreserve().
 * The list of blocks is the process's own (malloc), the blocks are the state's.
 */

#ifndef KC_RESERVE_H
#define KC_RESERVE_H

#include "kc.h"

#pragma GCC visibility push(hidden)


/* Takes a block of the state's memory; false: full, what was reserved stays. */
bool kc_reserve(kc_t *kc, size_t size);

/*
 * A block that was reserved, zeroed.  The assertion that there is one is the
 * rule "replay cannot fail": a missing reserve is our own bug.
 */
void *kc_take(kc_t *kc, size_t size);

/* Gives back what replay did not take. */
void kc_unreserve(kc_t *kc);

void kc_free(kc_t *kc, void *p, size_t size);


#pragma GCC visibility pop

#endif
