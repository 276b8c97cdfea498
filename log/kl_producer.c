/*
 * Producer state of a partition (KIP-98, KIP-360): epoch, sequences, the window
 * of the last five batches, open transactions.
 *
 * Blocks come from one pool of the broker (kl_pool.c).  A partition's blocks
 * form a tree: below a node hang up to four others, by two more bits of the
 * hash of the producer id.  Those with an open transaction also form a list,
 * by its first offset.  Changes are made with producers_dirty set: a process
 * that dies in between leaves a tree that is thrown away and read again from
 * the log.
 */

#include "kl_internal.h"


/* A bijection: different ids never have the same hash. */
static uint64_t
kl_producer_hash(int64_t id)
{
    uint64_t  h = (uint64_t) id;

    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ h >> 27) * 0x94d049bb133111ebULL;

    return h ^ h >> 31;
}


/* The link that points, or would point, to the producer. */
static uint32_t *
kl_producer_link(kl_shared_t *sh, kl_part_t *p, int64_t id)
{
    uint32_t       *link = &p->root;
    uint64_t        h = kl_producer_hash(id);
    kl_producer_t  *e;

    while (*link) {
        e = kl_producer_at(sh, *link - 1);

        if (e->id == id) {
            break;
        }

        link = &e->child[h & 3];
        h >>= 2;
    }

    return link;
}


kl_producer_t *
kl_producer_find(kl_log_t *log, int64_t id)
{
    uint32_t  i = *kl_producer_link(log->env->shared, log->part, id);

    return i ? kl_producer_at(log->env->shared, i - 1) : NULL;
}


static uint32_t
kl_producer_index(kl_shared_t *sh, kl_producer_t *e)
{
    return (uint32_t) (e - kl_producer_at(sh, 0));
}


void
kl_producer_link_in(kl_log_t *log, kl_producer_t *e)
{
    kl_part_t    *p = log->part;
    kl_shared_t  *sh = log->env->shared;

    *kl_producer_link(sh, p, e->id) = kl_producer_index(sh, e) + 1;
    p->producers_n++;
}


/* A leaf below the block takes its place. */
bool
kl_producer_unlink(kl_shared_t *sh, kl_part_t *p, kl_producer_t *e)
{
    int             i;
    uint32_t       *link, *leaf, index;
    kl_producer_t  *l;

    link = kl_producer_link(sh, p, e->id);

    if (*link != kl_producer_index(sh, e) + 1) {
        return false;
    }

    leaf = link;
    l = e;

    for (i = 0; i < 4; /* void */ ) {
        if (l->child[i]) {
            leaf = &l->child[i];
            l = kl_producer_at(sh, *leaf - 1);
            i = 0;

        } else {
            i++;
        }
    }

    index = *leaf;
    *leaf = 0;

    if (l != e) {
        memcpy(l->child, e->child, sizeof(l->child));
        *link = index;
    }

    p->producers_n--;

    return true;
}


/*
 * Sets where the producer's open transaction begins, -1: it has none.  A new
 * one begins at the end of the log, so its place is found at once; only a
 * snapshot has them in any order.
 */
static void
kl_producer_set_open(kl_shared_t *sh, kl_part_t *p, kl_producer_t *e,
    int64_t first)
{
    uint32_t  index, after, *prev, *next;

    if (e->txn_first == first) {
        return;
    }

    index = kl_producer_index(sh, e) + 1;

    if (e->txn_first >= 0) {
        prev = e->open_next ? &kl_producer_at(sh, e->open_next - 1)->open_prev
                            : &p->open_tail;
        next = e->open_prev ? &kl_producer_at(sh, e->open_prev - 1)->open_next
                            : &p->open_head;

        *prev = e->open_prev;
        *next = e->open_next;
    }

    e->txn_first = first;
    e->open_prev = 0;
    e->open_next = 0;

    if (first < 0) {
        return;
    }

    after = p->open_tail;

    while (after && kl_producer_at(sh, after - 1)->txn_first > first) {
        after = kl_producer_at(sh, after - 1)->open_prev;
    }

    next = after ? &kl_producer_at(sh, after - 1)->open_next : &p->open_head;

    e->open_prev = after;
    e->open_next = *next;

    prev = *next ? &kl_producer_at(sh, *next - 1)->open_prev : &p->open_tail;

    *next = index;
    *prev = index;
}


int64_t
kl_producers_first_open(kl_log_t *log, const kl_producer_t *but)
{
    uint32_t        i = log->part->open_head;
    kl_shared_t    *sh = log->env->shared;

    if (i && kl_producer_at(sh, i - 1) == but) {
        i = but->open_next;
    }

    return i ? kl_producer_at(sh, i - 1)->txn_first : INT64_MAX;
}


static void
kl_producer_each(kl_shared_t *sh, uint32_t root, kl_producer_visit_pt visit,
    void *ctx)
{
    int             i;
    kl_producer_t  *e;

    if (root == 0) {
        return;
    }

    e = kl_producer_at(sh, root - 1);

    /* no deeper than a hash has pairs of bits */
    for (i = 0; i < 4; i++) {
        kl_producer_each(sh, e->child[i], visit, ctx);
    }

    (void) visit(ctx, e);
}


void
kl_producers_each(kl_log_t *log, bool open_only, kl_producer_visit_pt visit,
    void *ctx)
{
    uint32_t        i;
    kl_shared_t    *sh = log->env->shared;
    kl_producer_t  *e;

    if (!open_only) {
        kl_producer_each(sh, log->part->root, visit, ctx);
        return;
    }

    for (i = log->part->open_head; i; i = e->open_next) {
        e = kl_producer_at(sh, i - 1);

        if (!visit(ctx, e)) {
            break;
        }
    }
}


void
kl_producers_clear(kl_shared_t *sh, kl_part_t *p)
{
    uint32_t        i;
    kl_producer_t  *e;

    if (p->root || p->producers_dirty) {
        for (i = 0; i < sh->producers; i++) {
            e = kl_producer_at(sh, i);

            if (atomic_load_explicit(&e->owner, memory_order_relaxed)
                == (uint64_t) p->slot + 1)
            {
                kl_producer_give(sh, e);
            }
        }
    }

    p->root = 0;
    p->open_head = 0;
    p->open_tail = 0;
    p->producers_n = 0;
    p->producers_dirty = 0;
}


static int32_t
kl_sequence_add(int32_t seq, int32_t n)
{
    return (int32_t) (((uint32_t) seq + (uint32_t) n) & INT32_MAX);
}


static kl_rc_t
kl_producer_refuse(kl_append_t *res, int16_t error)
{
    res->error = error;

    return KL_REFUSED;
}


/*
 * A batch whose producer's transaction nobody would end is refused; e: NULL
 * when the producer is not known.
 */
static kl_rc_t
kl_producer_check_txn(const kl_producer_t *e, const kf_batch_t *b,
    kl_append_t *res)
{
    if (e != NULL
        && (e->verified == b->producer_epoch
            || (e->txn_first >= 0 && e->epoch == b->producer_epoch)))
    {
        return KL_OK;
    }

    res->unverified = true;

    /* above what the coordinator has said; it may have a later word */
    if (e != NULL && e->verified != KL_NO_EPOCH) {
        return kl_producer_refuse(res, KF_ERR_INVALID_PRODUCER_EPOCH);
    }

    return kl_producer_refuse(res, KF_ERR_INVALID_TXN_STATE);
}


kl_rc_t
kl_producer_check(kl_log_t *log, const kf_batch_t *b, bool verify,
    kl_append_t *res, kl_producer_t **entry)
{
    int                 i;
    bool                sequence;
    int32_t             last;
    kl_producer_t      *e;
    const kl_window_t  *w;

    *entry = NULL;

    if (b->producer_id < 0) {
        return KL_OK;
    }

    e = kl_producer_find(log, b->producer_id);

    *entry = e;

    verify = verify && (b->attributes & KF_ATTR_TRANSACTIONAL)
             && !(b->attributes & KF_ATTR_CONTROL)
             && kl_fault("txn.unverified") == 0;

    if (e == NULL) {
        if (verify) {
            return kl_producer_check_txn(e, b, res);
        }

        return b->producer_epoch < KL_NO_EPOCH
               ? kl_producer_refuse(res, KF_ERR_INVALID_PRODUCER_EPOCH) : KL_OK;
    }

    if (b->producer_epoch < e->epoch
        || (verify && b->producer_epoch < e->verified))
    {
        return kl_producer_refuse(res, KF_ERR_INVALID_PRODUCER_EPOCH);
    }

    if (b->attributes & KF_ATTR_CONTROL) {
        return KL_OK;
    }

    last = kl_sequence_add(b->base_sequence, b->last_offset_delta);

    for (i = b->producer_epoch == e->epoch ? e->n - 1 : -1; i >= 0; i--) {
        w = &e->window[i];

        if (w->first_seq == b->base_sequence && w->last_seq == last) {
            res->duplicate = true;
            res->base_offset = w->base_offset;
            res->next_offset = w->base_offset + w->offset_delta + 1;
            res->append_time_ms = w->timestamp_ms;
            return KL_OK;
        }
    }

    if (verify && kl_producer_check_txn(e, b, res) != KL_OK) {
        return KL_REFUSED;
    }

    if (e->epoch == KL_NO_EPOCH) {
        sequence = !e->from_zero || b->base_sequence == 0;

    } else if (b->producer_epoch > e->epoch || e->n == 0) {
        sequence = b->base_sequence == 0;

    } else {
        last = kl_sequence_add(e->window[e->n - 1].last_seq, 1);
        sequence = b->base_sequence == last;
    }

    if (!sequence) {
        return kl_producer_refuse(res, KF_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    }

    if (e->txn_first >= 0 && !(b->attributes & KF_ATTR_TRANSACTIONAL)) {
        return kl_producer_refuse(res, KF_ERR_INVALID_TXN_STATE);
    }

    return KL_OK;
}


void
kl_producer_note(kl_log_t *log, kl_producer_t *e, bool reserved,
    const kf_batch_t *b, int32_t coordinator_epoch, int64_t now_ms,
    kl_pub_t *pub)
{
    kl_part_t    *p = log->part;
    kl_shared_t  *sh = log->env->shared;
    kl_window_t  *w;

    atomic_store(&p->producers_dirty, 1);

    if (reserved) {
        kl_producer_link_in(log, e);
    }

    if (e->epoch != b->producer_epoch) {
        e->epoch = b->producer_epoch;
        e->n = 0;
    }

    e->last_ms = now_ms;
    e->ts_ms = b->max_timestamp_ms;

    if (b->attributes & KF_ATTR_CONTROL) {
        e->coordinator_epoch = coordinator_epoch;

        if (e->verified <= b->producer_epoch) {
            e->verified = KL_NO_EPOCH;
        }

        kl_producer_set_open(sh, p, e, -1);
        pub->first_open_txn = kl_producers_first_open(log, NULL);

        return;
    }

    if (e->n == KL_WINDOW) {
        memmove(&e->window[0], &e->window[1],
                (KL_WINDOW - 1) * sizeof(kl_window_t));
        e->n--;
    }

    w = &e->window[e->n++];

    w->first_seq = b->base_sequence;
    w->last_seq = kl_sequence_add(b->base_sequence, b->last_offset_delta);
    w->base_offset = b->base_offset;
    w->offset_delta = b->last_offset_delta;
    w->timestamp_ms = b->max_timestamp_ms;

    if ((b->attributes & KF_ATTR_TRANSACTIONAL) && e->txn_first < 0) {
        kl_producer_set_open(sh, p, e, b->base_offset);
        pub->first_open_txn = kl_producers_first_open(log, NULL);
    }
}


/* --- expiry -------------------------------------------------------------- */

#define KL_EXPIRE_BATCH  4096           /* under one lock */

typedef struct {
    int64_t         now_ms;
    int64_t         after_ms;
    uint32_t        n;
    kl_producer_t  *e[KL_EXPIRE_BATCH];
} kl_expire_t;


static bool
kl_producer_expired(void *ctx, kl_producer_t *e)
{
    kl_expire_t  *x = ctx;

    /* not known after a restart: the time begins anew, for a producer that is
       forgotten too early ends with an error */
    if (e->last_ms == 0) {
        e->last_ms = x->now_ms;
    }

    if (e->txn_first < 0 && x->now_ms - e->last_ms >= x->after_ms
        && x->n < KL_EXPIRE_BATCH)
    {
        x->e[x->n++] = e;
    }

    return true;
}


/* Each walk over the tree is one section of the lock; the next one may meet
 * another state, but never needs the list of the last. */
kl_rc_t
kl_producers_expire(kl_log_t *log, const kl_config_t *cf, int64_t now_ms)
{
    bool          more;
    uint32_t      i;
    kl_rc_t       rc;
    kl_pub_t      pub;
    kl_part_t    *p = log->part;
    kl_shared_t  *sh = log->env->shared;
    kl_expire_t  *x;

    if (cf->producer_expiration_ms < 0) {
        return KL_OK;
    }

    x = malloc(sizeof(kl_expire_t));
    if (x == NULL) {
        return KL_NO_MEMORY;
    }

    x->now_ms = now_ms;
    x->after_ms = cf->producer_expiration_ms;

    do {
        rc = kl_enter(log, cf, &pub);
        if (rc != KL_OK) {
            break;
        }

        x->n = 0;
        kl_producer_each(sh, p->root, kl_producer_expired, x);

        if (x->n > 0) {
            atomic_store(&p->producers_dirty, 1);

            for (i = 0; i < x->n; i++) {
                if (kl_producer_unlink(sh, p, x->e[i])) {
                    kl_producer_give(sh, x->e[i]);
                }
            }

            atomic_store(&p->producers_dirty, 0);
        }

        more = x->n == KL_EXPIRE_BATCH;

        kl_part_unlock(p);

    } while (more);

    free(x);

    return rc;
}


/* --- snapshots ----------------------------------------------------------- */

typedef struct {
    uint8_t  *pos;
} kl_dump_t;


static void
kl_producer_put(kl_dump_t *d, const kl_producer_t *e, const kl_window_t *w)
{
    uint8_t  *p = d->pos;

    kf_put_be64(p, (uint64_t) e->id);
    kf_put_be16(p + 8, (uint16_t) e->epoch);
    kf_put_be32(p + 10, w ? (uint32_t) w->last_seq : UINT32_MAX);
    kf_put_be64(p + 14, w ? (uint64_t) (w->base_offset + w->offset_delta)
                       : UINT64_MAX);
    kf_put_be32(p + 22, w ? (uint32_t) w->offset_delta : 0);
    kf_put_be64(p + 26, (uint64_t) (w ? w->timestamp_ms : e->ts_ms));
    kf_put_be32(p + 34, (uint32_t) e->coordinator_epoch);
    kf_put_be64(p + 38, (uint64_t) e->txn_first);

    d->pos = p + KL_SNAPSHOT_ENTRY;
}


static bool
kl_producer_dump(void *ctx, kl_producer_t *e)
{
    int         i;
    kl_dump_t  *d = ctx;

    /* of a producer that is only marked there is nothing in the log */
    if (e->n == 0 && e->epoch != KL_NO_EPOCH) {
        kl_producer_put(d, e, NULL);
    }

    /* the oldest first: of a repeated id, Kafka keeps the last */
    for (i = 0; i < e->n; i++) {
        kl_producer_put(d, e, &e->window[i]);
    }

    return true;
}


uint8_t *
kl_producers_dump(kl_log_t *log, size_t *len)
{
    uint8_t    *buf;
    kl_dump_t   d;

    buf = malloc(KL_SNAPSHOT_HEAD
                 + (size_t) log->part->producers_n * KL_WINDOW
                   * KL_SNAPSHOT_ENTRY);
    if (buf == NULL) {
        return NULL;
    }

    d.pos = buf + KL_SNAPSHOT_HEAD;

    kl_producer_each(log->env->shared, log->part->root, kl_producer_dump, &d);

    *len = (size_t) (d.pos - buf);

    return buf;
}


kl_rc_t
kl_producer_load(kl_log_t *log, const uint8_t *p)
{
    int64_t         id, last, first;
    kl_window_t    *w;
    kl_producer_t  *e;

    id = (int64_t) kf_be64(p);

    e = kl_producer_find(log, id);

    if (e == NULL) {
        e = kl_producer_reserve(log, id);

        if (e == NULL) {
            return KL_NO_MEMORY;
        }

        kl_producer_link_in(log, e);
    }

    if (e->epoch != (int16_t) (p[8] << 8 | p[9])) {
        e->epoch = (int16_t) (p[8] << 8 | p[9]);
        e->n = 0;
    }

    e->coordinator_epoch = (int32_t) kf_be32(p + 34);
    e->ts_ms = (int64_t) kf_be64(p + 26);

    first = (int64_t) kf_be64(p + 38);
    kl_producer_set_open(log->env->shared, log->part, e,
                         first < 0 ? -1 : first);

    last = (int64_t) kf_be64(p + 14);

    if (last < 0) {
        return KL_OK;
    }

    if (e->n == KL_WINDOW) {
        memmove(&e->window[0], &e->window[1],
                (KL_WINDOW - 1) * sizeof(kl_window_t));
        e->n--;
    }

    w = &e->window[e->n++];

    w->last_seq = (int32_t) (kf_be32(p + 10) & INT32_MAX);
    w->offset_delta = (int32_t) (kf_be32(p + 22) & INT32_MAX);
    w->first_seq = (int32_t) (((uint32_t) w->last_seq
                               - (uint32_t) w->offset_delta) & INT32_MAX);
    w->base_offset = last - w->offset_delta;
    w->timestamp_ms = (int64_t) kf_be64(p + 26);

    return KL_OK;
}
