/*
 * The pool of the blocks that hold producer state, one for the broker.
 *
 * `owner` says whose a block is, so that a partition whose lock's owner died
 * gets all of its blocks back by looking through the pool.  A block changes
 * hands with the flag producers_dirty set in each partition concerned.
 *
 * When the pool is full the least recently used of a sample goes, whichever
 * partition has it, but never one with an open transaction; one that is marked
 * for a transaction goes last, as the mark would have to be asked for again.
 * The other partition's lock is only tried, while ours is held.
 */

#include "kl_internal.h"


#define KL_SAMPLE  64


void
kl_producer_give(kl_shared_t *sh, kl_producer_t *e)
{
    atomic_store(&e->owner, 0);
    atomic_fetch_sub_explicit(&sh->used_producers, 1, memory_order_relaxed);
}


/*
 * A free block, marked as ours.  The count of those in use saves looking for
 * one that is not there; a process that dies may leave it a little wrong, so a
 * sample sees free ones, too.
 */
static kl_producer_t *
kl_pool_take(kl_shared_t *sh, int32_t slot)
{
    uint32_t        i, n;
    uint64_t        none;
    kl_producer_t  *e;

    if (atomic_load_explicit(&sh->used_producers, memory_order_relaxed)
        >= sh->producers)
    {
        return NULL;
    }

    i = atomic_load_explicit(&sh->next_producer, memory_order_relaxed);

    for (n = 0; n < sh->producers; n++, i++) {
        e = kl_producer_at(sh, i % sh->producers);
        none = 0;

        if (atomic_load_explicit(&e->owner, memory_order_relaxed) == 0
            && atomic_compare_exchange_strong(&e->owner, &none,
                                              (uint64_t) slot + 1))
        {
            atomic_store_explicit(&sh->next_producer,
                                  (i + 1) % sh->producers,
                                  memory_order_relaxed);
            atomic_fetch_add_explicit(&sh->used_producers, 1,
                                      memory_order_relaxed);
            return e;
        }
    }

    atomic_store_explicit(&sh->used_producers, sh->producers,
                          memory_order_relaxed);

    return NULL;
}


/* Without the lock of its partition: a guess, looked at again under it. */
static bool
kl_pool_is_idle(const kl_producer_t *e)
{
    return __atomic_load_n(&e->txn_first, __ATOMIC_RELAXED) < 0;
}


static bool
kl_pool_is_older(const kl_producer_t *a, const kl_producer_t *b)
{
    bool     x, y;
    int64_t  p, q;

    x = __atomic_load_n(&a->verified, __ATOMIC_RELAXED) != KL_NO_EPOCH;
    y = __atomic_load_n(&b->verified, __ATOMIC_RELAXED) != KL_NO_EPOCH;

    if (x != y) {
        return y;
    }

    p = __atomic_load_n(&a->last_ms, __ATOMIC_RELAXED);
    q = __atomic_load_n(&b->last_ms, __ATOMIC_RELAXED);

    /* while a log is read back, it is not known when they were seen */
    if (p == q) {
        p = __atomic_load_n(&a->ts_ms, __ATOMIC_RELAXED);
        q = __atomic_load_n(&b->ts_ms, __ATOMIC_RELAXED);
    }

    return p < q;
}


/* Takes a block from a partition whose lock is held; ours, if it worked. */
static bool
kl_pool_move(kl_shared_t *sh, kl_part_t *p, kl_producer_t *e, int32_t slot)
{
    if (atomic_load(&e->owner) != (uint64_t) p->slot + 1 || e->txn_first >= 0
        || !kl_producer_unlink(sh, p, e))
    {
        return false;
    }

    (void) kl_fault("pool.move");
    atomic_store(&e->owner, (uint64_t) slot + 1);

    return true;
}


static bool
kl_pool_take_from(kl_log_t *log, kl_producer_t *e, uint64_t owner)
{
    int           rc;
    bool          moved = false;
    uint64_t      none = 0;
    kl_part_t    *p;
    kl_shared_t  *sh = log->env->shared;

    if (owner == 0) {
        /* the count was wrong; it is no less wrong now */
        return atomic_compare_exchange_strong(&e->owner, &none,
                                              (uint64_t) log->slot + 1);
    }

    if (owner == (uint64_t) log->slot + 1) {
        return kl_pool_move(sh, log->part, e, log->slot);
    }

    p = kl_part(sh, (int32_t) (owner - 1));

    rc = pthread_mutex_trylock(&p->mutex);

    if (rc == EOWNERDEAD) {
        atomic_store(&p->needs_repair, 1);
        pthread_mutex_consistent(&p->mutex);

    } else if (rc != 0) {
        return false;
    }

    if (!p->needs_repair && !p->producers_dirty) {
        atomic_store(&p->producers_dirty, 1);
        moved = kl_pool_move(sh, p, e, log->slot);
        atomic_store(&p->producers_dirty, 0);
    }

    kl_part_unlock(p);

    return moved;
}


static kl_producer_t *
kl_pool_evict(kl_log_t *log)
{
    uint32_t        i, n, k;
    uint64_t        owner, oldest_owner;
    kl_shared_t    *sh = log->env->shared;
    kl_producer_t  *e, *oldest;

    i = atomic_load_explicit(&sh->next_producer, memory_order_relaxed);

    for (n = 0; n < sh->producers; n += k) {
        oldest = NULL;
        oldest_owner = 0;

        for (k = 0; k < KL_SAMPLE && n + k < sh->producers; k++, i++) {
            e = kl_producer_at(sh, i % sh->producers);
            owner = atomic_load_explicit(&e->owner, memory_order_relaxed);

            if (owner == 0) {
                oldest = e;
                oldest_owner = 0;
                break;
            }

            if (kl_pool_is_idle(e)
                && (oldest == NULL || kl_pool_is_older(e, oldest)))
            {
                oldest = e;
                oldest_owner = owner;
            }
        }

        if (oldest != NULL && kl_pool_take_from(log, oldest, oldest_owner)) {
            atomic_store_explicit(&sh->next_producer, i % sh->producers,
                                  memory_order_relaxed);
            return oldest;
        }

        if (k == 0) {
            k = 1;                      /* a free one that another took */
            i++;
        }
    }

    return NULL;
}


kl_producer_t *
kl_producer_reserve(kl_log_t *log, int64_t id)
{
    kl_part_t      *p = log->part;
    kl_shared_t    *sh = log->env->shared;
    kl_producer_t  *e;

    atomic_store(&p->producers_dirty, 1);

    e = kl_pool_take(sh, log->slot);

    if (e == NULL) {

        if (!atomic_exchange(&sh->pool_warned, 1)) {
            kl_say(log->env, KL_LOG_WARN, 0, "%s: all %" PRIu32 " places for "
                   "producer state are taken, the oldest are dropped",
                   log->name, sh->producers);
        }

        e = kl_pool_evict(log);

        if (e == NULL) {
            atomic_store(&p->producers_dirty, 0);
            return NULL;
        }
    }

    memset(e->child, 0, sizeof(e->child));
    e->id = id;
    e->txn_first = -1;
    e->txn_number = 0;
    e->last_ms = 0;
    e->ts_ms = KL_NO_TIMESTAMP;
    e->open_prev = 0;
    e->open_next = 0;
    e->coordinator_epoch = -1;
    e->epoch = KL_NO_EPOCH;
    e->verified = KL_NO_EPOCH;
    e->from_zero = 0;
    e->n = 0;

    return e;
}


void
kl_producer_unreserve(kl_log_t *log, kl_producer_t *e)
{
    kl_producer_give(log->env->shared, e);
    atomic_store(&log->part->producers_dirty, 0);
}
