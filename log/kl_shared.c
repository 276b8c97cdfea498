/*
 * The shared half: layout, the table of control blocks, their numbers and
 * locks.  It knows no files.
 *
 * States of a control block:
 *
 *   FREE ──kl_bind──> NEW ──opened──> OPEN ──I/O error──> FAILED
 *    ^                 │               ^                    │
 *    │                 └──> FAILED     └────kl_recover──────┘
 *    └──kl_release── any         any ──kl_remove──> DELETED
 *
 * (topic id, partition) finds its slot through an open hash table whose every
 * change is one store, so that a process that dies in between leaves at worst
 * a slot that nothing points to; kl_release_unbound() gets it back.
 */

#include "kl_internal.h"


#define KL_TOMB        UINT32_MAX
#define KL_LINE        64
#define KL_SPIN        64

#define kl_table(sh)                                                          \
    ((_Atomic uint32_t *) (void *) ((uint8_t *) (sh) + (sh)->table_at))


static size_t
kl_align(size_t n)
{
    return (n + KL_LINE - 1) / KL_LINE * KL_LINE;
}


static uint32_t
kl_buckets(uint32_t parts)
{
    uint32_t  n;

    for (n = 16; n < parts * 2ULL && n < (1U << 30); n *= 2) { /* void */ }

    return n;
}


size_t
kl_shared_size(uint32_t parts, uint32_t producers)
{
    return kl_align(sizeof(kl_shared_t))
           + kl_align((size_t) kl_buckets(parts) * sizeof(uint32_t))
           + (size_t) parts * sizeof(kl_part_t)
           + (size_t) producers * sizeof(kl_producer_t)
           + KL_LINE;
}


static void
kl_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t  attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}


kl_shared_t *
kl_shared_init(void *mem, uint32_t parts, uint32_t producers)
{
    uint32_t      i;
    kl_part_t    *p;
    kl_shared_t  *sh = mem;

    kl_mutex_init(&sh->removal);
    sh->parts = parts;
    sh->producers = producers;
    sh->buckets = kl_buckets(parts);
    sh->table_at = kl_align(sizeof(kl_shared_t));
    sh->parts_at = sh->table_at
                   + kl_align((size_t) sh->buckets * sizeof(uint32_t));
    sh->producers_at = sh->parts_at + (size_t) parts * sizeof(kl_part_t);

    for (i = 0; i < parts; i++) {
        p = kl_part(sh, (int32_t) i);
        p->slot = (int32_t) i;
        kl_mutex_init(&p->mutex);
        kl_mutex_init(&p->jobs);
    }

    return sh;
}


uint32_t
kl_shared_parts(const kl_shared_t *sh)
{
    return sh->parts;
}


kl_part_t *
kl_part(kl_shared_t *sh, int32_t slot)
{
    if (slot < 0 || (uint32_t) slot >= sh->parts) {
        return NULL;
    }

    return (kl_part_t *) (void *) ((uint8_t *) sh + sh->parts_at) + slot;
}


kl_producer_t *
kl_producer_at(kl_shared_t *sh, uint32_t index)
{
    return (kl_producer_t *) (void *) ((uint8_t *) sh + sh->producers_at)
           + index;
}


_Atomic uint64_t *
kl_part_waiters(kl_part_t *p)
{
    return p->waiters;
}


/* --- the numbers --------------------------------------------------------- */

static void
kl_pub_copy(kl_part_t *p, int64_t *out, size_t n)
{
    size_t            i;
    uint64_t          gen;
    _Atomic int64_t  *w;

    do {
        gen = atomic_load_explicit(&p->gen, memory_order_acquire);
        w = p->words[gen & 1];

        for (i = 0; i < n; i++) {
            out[i] = atomic_load_explicit(&w[i], memory_order_relaxed);
        }

        atomic_thread_fence(memory_order_acquire);

    } while (atomic_load_explicit(&p->gen, memory_order_relaxed) != gen);
}


void
kl_pub_load(kl_part_t *p, kl_pub_t *pub)
{
    kl_pub_copy(p, (int64_t *) (void *) pub, KL_PUB_WORDS);
}


void
kl_pub_state(kl_part_t *p, kl_pub_t *pub)
{
    kl_pub_copy(p, (int64_t *) (void *) pub, 2);
}


void
kl_pub_load_locked(kl_part_t *p, kl_pub_t *pub)
{
    uint64_t  gen;

    /* who stores has the lock, so nothing changes meanwhile */

    gen = atomic_load_explicit(&p->gen, memory_order_relaxed);

    memcpy(pub, (const void *) p->words[gen & 1], sizeof(kl_pub_t));
}


void
kl_pub_store(kl_part_t *p, const kl_pub_t *pub)
{
    size_t            i;
    uint64_t          gen;
    const int64_t    *in = (const int64_t *) (const void *) pub;
    _Atomic int64_t  *w;

    gen = atomic_load_explicit(&p->gen, memory_order_relaxed) + 1;
    w = p->words[gen & 1];

    /* a reader that sees one of the stores below sees the last change of gen
     * */
    atomic_thread_fence(memory_order_release);

#pragma GCC unroll 9
    for (i = 0; i < KL_PUB_WORDS; i++) {
        atomic_store_explicit(&w[i], in[i], memory_order_relaxed);
    }

    atomic_store_explicit(&p->gen, gen, memory_order_release);
}


void
kl_snapshot(kl_part_t *p, kl_offsets_t *o)
{
    int64_t  w[KL_PUB_HEAD];

    kl_pub_copy(p, w, KL_PUB_HEAD);

    o->state = (kl_state_t) w[0];
    o->incarnation = (uint64_t) w[1];
    o->log_start = w[2];
    o->log_end = w[3];
    o->flushed = w[4];
    o->first_open_txn = w[5];
    o->bytes = w[6];
    o->leader_epoch = (int32_t) w[7];
    o->aborted_last = w[8];
    o->generation = (uint64_t) w[9];

    /* DeleteRecords may pass a transaction's start */
    if (o->first_open_txn < o->log_start) {
        o->first_open_txn = o->log_start;
    }
}


/* --- locks --------------------------------------------------------------- */

/* One round of a wait that is too short to sleep. */
static inline void
kl_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile ("yield");
#endif
}


/*
 * A section is an append most of the time, a few microseconds: to sleep and to
 * be woken takes longer than that, so it is tried again a while.
 */
static int
kl_mutex_lock(pthread_mutex_t *mutex)
{
    int  rc, n;

    for (n = 0; n < KL_SPIN; n++) {
        rc = pthread_mutex_trylock(mutex);

        if (rc != EBUSY) {
            return rc;
        }

        kl_pause();
    }

    return pthread_mutex_lock(mutex);
}


void
kl_part_lock(kl_part_t *p)
{
    if (kl_mutex_lock(&p->mutex) == EOWNERDEAD) {
        atomic_store(&p->needs_repair, 1);
        pthread_mutex_consistent(&p->mutex);
    }
}


void
kl_part_unlock(kl_part_t *p)
{
    pthread_mutex_unlock(&p->mutex);
}


void
kl_jobs_lock(kl_part_t *p)
{
    /* whatever a dead job left half done is done again by the next one */
    if (pthread_mutex_lock(&p->jobs) == EOWNERDEAD) {
        pthread_mutex_consistent(&p->jobs);
    }
}


void
kl_jobs_unlock(kl_part_t *p)
{
    pthread_mutex_unlock(&p->jobs);
}


/* --- the table ----------------------------------------------------------- */

static uint32_t
kl_hash(const kf_uuid_t *id, int32_t partition)
{
    size_t    i;
    uint64_t  h = 0xcbf29ce484222325ULL ^ (uint32_t) partition;

    for (i = 0; i < sizeof(id->b); i++) {
        h = (h ^ id->b[i]) * 0x100000001b3ULL;
    }

    h ^= h >> 32;

    return (uint32_t) (h * 0x9e3779b97f4a7c15ULL >> 32);
}


static void
kl_table_link(kl_shared_t *sh, kl_part_t *p)
{
    uint32_t           i, n, mask = sh->buckets - 1;
    _Atomic uint32_t  *table = kl_table(sh);

    i = kl_hash(&p->topic_id, p->partition) & mask;

    for (n = 0; n < sh->buckets; n++, i = (i + 1) & mask) {
        if (table[i] == 0 || table[i] == KL_TOMB) {
            sh->tombs -= table[i] == KL_TOMB && sh->tombs > 0;
            table[i] = (uint32_t) p->slot + 1;
            return;
        }
    }
}


static void
kl_table_rebuild(kl_shared_t *sh)
{
    uint32_t           i;
    kl_part_t         *p;
    _Atomic uint32_t  *table = kl_table(sh);

    sh->table_dirty = 1;

    for (i = 0; i < sh->buckets; i++) {
        table[i] = 0;
    }

    sh->tombs = 0;

    for (i = 0; i < sh->parts; i++) {
        p = kl_part(sh, (int32_t) i);
        if (p->used) {
            kl_table_link(sh, p);
        }
    }

    sh->table_dirty = 0;
}


static _Atomic uint32_t *
kl_table_find(kl_shared_t *sh, const kf_uuid_t *id, int32_t partition)
{
    uint32_t           i, n, slot, mask = sh->buckets - 1;
    kl_part_t         *p;
    _Atomic uint32_t  *table = kl_table(sh);

    i = kl_hash(id, partition) & mask;

    for (n = 0; n < sh->buckets; n++, i = (i + 1) & mask) {
        slot = table[i];

        if (slot == 0) {
            return NULL;
        }

        if (slot == KL_TOMB) {
            continue;
        }

        p = kl_part(sh, (int32_t) (slot - 1));

        if (p != NULL && p->used && p->partition == partition
            && kf_uuid_eq(p->topic_id, *id))
        {
            return &table[i];
        }
    }

    return NULL;
}


int32_t
kl_bind(kl_shared_t *sh, kf_uuid_t topic_id, int32_t partition)
{
    uint32_t           n, slot;
    kl_pub_t           pub;
    kl_part_t         *p;
    _Atomic uint32_t  *bucket;

    if (sh->table_dirty || sh->tombs > sh->buckets / 4) {
        kl_table_rebuild(sh);
    }

    bucket = kl_table_find(sh, &topic_id, partition);

    if (bucket != NULL) {
        slot = *bucket - 1;
        kl_part(sh, (int32_t) slot)->unbound = 0;
        return (int32_t) slot;
    }

    slot = sh->next_slot < sh->parts ? sh->next_slot : 0;

    for (n = 0; /* void */; n++, slot = (slot + 1) % sh->parts) {

        if (n == sh->parts) {
            return -1;
        }

        p = kl_part(sh, (int32_t) slot);

        if (!p->used) {
            break;
        }
    }

    kl_part_lock(p);

    kl_pub_load(p, &pub);

    p->topic_id = topic_id;
    p->partition = partition;
    p->unbound = 0;
    p->needs_repair = 0;
    p->least_epoch = -1;

    pub = (kl_pub_t) {
        .state = KL_NEW,
        .incarnation = pub.incarnation + 1,
        .first_open_txn = INT64_MAX,
        .leader_epoch = -1,
        .aborted_last = -1,
        .open_gen = pub.open_gen + 1,
    };

    kl_pub_store(p, &pub);
    p->used = 1;

    kl_part_unlock(p);

    kl_table_link(sh, p);
    sh->next_slot = slot + 1;

    return (int32_t) slot;
}


void
kl_release(kl_shared_t *sh, int32_t slot)
{
    kl_pub_t           pub;
    kl_part_t         *p = kl_part(sh, slot);
    _Atomic uint32_t  *bucket;

    if (p == NULL || !p->used) {
        return;
    }

    bucket = kl_table_find(sh, &p->topic_id, p->partition);

    if (bucket != NULL) {
        *bucket = KL_TOMB;
        sh->tombs++;
    }

    kl_part_lock(p);

    kl_pub_load(p, &pub);
    kl_producers_clear(sh, p);

    pub = (kl_pub_t) {
        .state = KL_FREE,
        .incarnation = pub.incarnation + 1,
        .first_open_txn = INT64_MAX,
        .leader_epoch = -1,
        .aborted_last = -1,
        .open_gen = pub.open_gen + 1,
    };

    kl_pub_store(p, &pub);
    p->needs_repair = 0;
    p->used = 0;

    kl_part_unlock(p);
}


void
kl_mark_unbound(kl_shared_t *sh)
{
    uint32_t    i;
    kl_part_t  *p;

    for (i = 0; i < sh->parts; i++) {
        p = kl_part(sh, (int32_t) i);
        p->unbound = p->used;
    }
}


void
kl_release_unbound(kl_shared_t *sh)
{
    uint32_t    i;
    kl_part_t  *p;

    for (i = 0; i < sh->parts; i++) {
        p = kl_part(sh, (int32_t) i);

        if (p->used && p->unbound) {
            kl_release(sh, (int32_t) i);
            p->unbound = 0;
        }
    }
}
