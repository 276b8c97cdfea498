/*
 * The ways into a partition: with its lock, for who changes it, and without,
 * for readers.  Both open a partition that is NEW; a new topic's partition has
 * no directory yet, and making one is quick.
 */

#include "kl_internal.h"


/*
 * Whoever opened the handle looked up the slot first and the incarnation then;
 * the slot may have got another partition in between.
 */
bool
kl_is_bound(kl_log_t *log)
{
    return kf_uuid_eq(log->part->topic_id, log->topic_id)
           && log->part->partition == log->partition;
}


kl_rc_t
kl_state_rc(kl_log_t *log, const kl_pub_t *pub)
{
    if ((uint64_t) pub->incarnation != log->incarnation || !kl_is_bound(log)) {
        return KL_GONE;
    }

    switch ((kl_state_t) pub->state) {

    case KL_OPEN:
        return KL_OK;

    case KL_NEW:
    case KL_FAILED_STATE:
        return KL_FAILED;

    default: /* KL_FREE, KL_DELETED */
        return KL_GONE;
    }
}


static kl_rc_t
kl_open_new(kl_log_t *log, const kl_config_t *cf)
{
    bool          truncated;
    kl_rc_t       rc;
    kl_offsets_t  o;

    kl_jobs_lock(log->part);

    kl_snapshot(log->part, &o);

    if (o.incarnation != log->incarnation || !kl_is_bound(log)) {
        rc = KL_GONE;

    } else if (o.state == KL_NEW) {
        rc = kl_open_part(log, -1, cf, &truncated);

    } else {
        rc = KL_OK;     /* another did it, or it failed: the caller looks */
    }

    kl_jobs_unlock(log->part);

    return rc;
}


kl_rc_t
kl_enter(kl_log_t *log, const kl_config_t *cf, kl_pub_t *pub)
{
    kl_rc_t     rc;
    kl_part_t  *p = log->part;

    for ( ;; ) {
        /* a recovery holds the lock while it reads the producers back */
        kl_pub_state(p, pub);

        rc = kl_state_rc(log, pub);

        if (rc == KL_OK) {
            kl_part_lock(p);
            kl_pub_load_locked(p, pub);

            rc = kl_state_rc(log, pub);

            if (rc == KL_OK && p->needs_repair) {
                rc = kl_repair(log, pub);
            }

            if (rc == KL_OK) {
                return KL_OK;
            }

            kl_part_unlock(p);
        }

        if (pub->state != KL_NEW || rc == KL_GONE) {
            return rc;
        }

        rc = kl_open_new(log, cf);
        if (rc != KL_OK) {
            return rc;
        }
    }
}


kl_rc_t
kl_look(kl_log_t *log, kl_pub_t *pub)
{
    kl_rc_t  rc;

    for ( ;; ) {
        kl_pub_load(log->part, pub);

        rc = kl_state_rc(log, pub);

        if (rc == KL_OK || rc == KL_GONE || pub->state != KL_NEW) {
            return rc;
        }

        rc = kl_open_new(log, NULL);
        if (rc != KL_OK) {
            return rc;
        }
    }
}


void
kl_fail_locked(kl_log_t *log, kl_pub_t *pub, int err, const char *why)
{
    if (pub->state == KL_FAILED_STATE) {
        return;
    }

    pub->state = KL_FAILED_STATE;
    kl_pub_store(log->part, pub);

    kl_say(log->env, KL_LOG_CRIT, err, "partition %s is offline: %s failed",
           log->name, why);
}


void
kl_fail(kl_log_t *log, int64_t open_gen, int err, const char *why)
{
    kl_pub_t  pub;

    kl_part_lock(log->part);
    kl_pub_load(log->part, &pub);

    if ((uint64_t) pub.incarnation == log->incarnation
        && pub.open_gen == open_gen
        && (pub.state == KL_OPEN || pub.state == KL_NEW))
    {
        kl_fail_locked(log, &pub, err, why);
    }

    kl_part_unlock(log->part);
}
