/*
 * A worker's place in the zone of a broker, and what shows that it died there.
 *
 *   FREE ──claim──> USED ──release──> FREE
 *                     └──death──> found by another worker ──> FREE
 *
 * The slot's mutex is robust and held for as long as its worker has work of the
 * broker, so the kernel tells of a death to whoever tries it next.  nginx
 * starts another worker for one that died, and that one claims a slot and so
 * finds it.  It starts none for one of an older cycle, which has to leave: for
 * as long as such a one is there, those of later cycles look after it once in
 * a second.
 */

#include "ngx_kafka_life.h"


#define NGX_KAFKA_MOURNING  10000               /* ms after a worker's death */


static ngx_uint_t ngx_kafka_slot_is_older(ngx_kafka_slot_t *slot);
static ngx_uint_t ngx_kafka_slot_try(ngx_kafka_broker_t *b,
    ngx_kafka_slot_t *slot);
static ngx_uint_t ngx_kafka_slot_unburied(ngx_kafka_broker_t *b);


static uint32_t  ngx_kafka_cycles;              /* of this master so far */


void
ngx_kafka_slot_init_module(void)
{
    ngx_kafka_cycles++;
}


ngx_int_t
ngx_kafka_slot_claim(ngx_kafka_broker_t *b)
{
    ngx_int_t          mine;
    ngx_uint_t         i;
    ngx_kafka_slot_t  *slot;

    mine = -1;

    for (i = 0; i < KL_WORKER_SLOTS; i++) {
        slot = &b->zone->workers[i];

        if (!ngx_kafka_slot_try(b, slot)) {
            continue;
        }

        if (mine != -1) {
            (void) pthread_mutex_unlock(&slot->alive);
            continue;
        }

        mine = i;
        slot->pid = ngx_pid;
        atomic_store(&slot->pending, 0);
        atomic_store(&slot->cycle, ngx_kafka_cycles);
        atomic_store(&slot->used, 1);
    }

    return mine;
}


void
ngx_kafka_slot_release(ngx_kafka_broker_t *b, ngx_uint_t i)
{
    ngx_kafka_slot_t  *slot = &b->zone->workers[i];

    atomic_store(&slot->used, 0);
    (void) pthread_mutex_unlock(&slot->alive);
}


ngx_uint_t
ngx_kafka_slot_older(ngx_kafka_broker_t *b)
{
    ngx_uint_t  i;

    for (i = 0; i < KL_WORKER_SLOTS; i++) {

        if (ngx_kafka_slot_is_older(&b->zone->workers[i])) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_kafka_slot_is_older(ngx_kafka_slot_t *slot)
{
    return atomic_load(&slot->used)
           && atomic_load(&slot->cycle) < ngx_kafka_cycles;
}


ngx_uint_t
ngx_kafka_slot_bury(ngx_kafka_broker_t *b)
{
    ngx_uint_t         i, n;
    ngx_kafka_slot_t  *slot;

    for (i = 0; i < KL_WORKER_SLOTS; i++) {
        slot = &b->zone->workers[i];

        if (ngx_kafka_slot_is_older(slot) && ngx_kafka_slot_try(b, slot)) {
            (void) pthread_mutex_unlock(&slot->alive);
        }
    }

    n = b->dead_workers;
    b->dead_workers = 0;

    return n;
}


/* Takes the slot of a worker that is not there; notes whether it died. */
static ngx_uint_t
ngx_kafka_slot_try(ngx_kafka_broker_t *b, ngx_kafka_slot_t *slot)
{
    int  rc;

    rc = pthread_mutex_trylock(&slot->alive);

    if (rc == EOWNERDEAD) {
        (void) pthread_mutex_consistent(&slot->alive);

    } else if (rc != 0) {
        return 0;
    }

    if (atomic_load(&slot->used)) {
        atomic_store(&slot->used, 0);
        atomic_store(&b->zone->died_ms, ngx_kafka_mono_ms());
        b->dead_workers++;

        ngx_log_error(NGX_LOG_NOTICE, b->log, 0,
                      "kafka_broker \"%V\": worker %P has died",
                      &b->name, slot->pid);
    }

    return 1;
}


static ngx_uint_t
ngx_kafka_slot_unburied(ngx_kafka_broker_t *b)
{
    ngx_uint_t         i;
    ngx_kafka_slot_t  *slot;

    for (i = 0; i < KL_WORKER_SLOTS; i++) {
        slot = &b->zone->workers[i];

        if (atomic_load(&slot->used) && kill(slot->pid, 0) == -1
            && ngx_errno == ESRCH)
        {
            return 1;
        }
    }

    return 0;
}


void
ngx_kafka_wait_missed(ngx_kafka_broker_t *b)
{
    uint64_t  n;
    int64_t   died;

    /*
     * A worker that dies between a change and its wake-up owes it until it is
     * buried: that is no lost one.
     */

    died = atomic_load(&b->zone->died_ms);

    if (ngx_kafka_slot_unburied(b)
        || (died && ngx_kafka_mono_ms() - died < NGX_KAFKA_MOURNING))
    {
        return;
    }

    n = atomic_fetch_add(&b->zone->missed, 1) + 1;

    ngx_log_error(NGX_LOG_ALERT, b->log, 0,
                  "kafka_broker \"%V\": a wait ended at its deadline although "
                  "it was satisfied before, %uL so far", &b->name, n);
}
