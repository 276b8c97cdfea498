/*
 * The handle, the empty state, and the broker's own facts: cluster id and
 * leader epoch.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kc_int.h"


void
kc_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "kafka coordinator: assertion \"%s\" failed at %s:%d\n",
            what, file, line);
    abort();
}


kc_rc_t
kc_fail(kc_t *kc, kc_rc_t rc, const char *fmt, ...)
{
    va_list  args;
    int      n;

    va_start(args, fmt);
    n = vsnprintf(kc->problem_buf, sizeof(kc->problem_buf), fmt, args);
    va_end(args);

    if (n < 0) {
        n = 0;

    } else if ((size_t) n >= sizeof(kc->problem_buf)) {
        n = sizeof(kc->problem_buf) - 1;
    }

    kc->problem.data = (const uint8_t *) kc->problem_buf;
    kc->problem.len = (uint32_t) n;

    return rc;
}


bool
kc_init(kc_t *kc, kc_mem_t mem, kc_io_t io)
{
    memset(kc, 0, sizeof(kc_t));

    kc->mem = mem;
    kc->io = io;
    kc->records_tail = &kc->records;

    kc->buf = malloc(KC_DECISION_MAX);
    kc->value = malloc(KC_DECISION_MAX);

    if (kc->buf == NULL || kc->value == NULL || !kc_reserve_init(kc)) {
        kc_done(kc);
        return false;
    }

    return true;
}


void
kc_done(kc_t *kc)
{
    if (kc->reserve) {
        kc_records_clear(kc);
    }

    kf_heap_free(&kc->scratch);
    kc_reserve_done(kc);
    free(kc->buf);
    free(kc->value);
    kc->buf = NULL;
    kc->value = NULL;
    kc->state = NULL;
}


kc_state_t *
kc_state_create(kc_t *kc)
{
    kc_state_t  *st;

    st = kc->mem.alloc(kc->mem.ctx, sizeof(kc_state_t));

    if (st) {
        memset(st, 0, sizeof(kc_state_t));
        kc->state = st;
    }

    return st;
}


void
kc_state_free(kc_t *kc)
{
    kc_state_t  *st = kc->state;

    if (st) {
        kc_txns_free(kc);
        kc_groups_free(kc);
        kc_topics_free(kc);
        kc_resources_free(kc);
        kc_free(kc, st, sizeof(kc_state_t));
        kc->state = NULL;
    }
}


void
kc_attach(kc_t *kc, kc_state_t *state)
{
    kc->state = state;
}


int64_t
kc_applied(const kc_t *kc)
{
    return kc->state->loading ? -1 : kc->state->applied;
}


int32_t
kc_leader_epoch(const kc_t *kc)
{
    return kc->state->leader_epoch;
}


kf_str_t
kc_cluster_id(const kc_t *kc)
{
    return (kf_str_t) { kc->state->cluster_id, kc->state->cluster_id_len };
}


kf_uuid_t
kc_random_uuid(kc_t *kc)
{
    kf_uuid_t  id;

    do {
        kc->io.random(kc->io.ctx, id.b, sizeof(id.b));

        id.b[6] = (id.b[6] & 0x0f) | 0x40;
        id.b[8] = (id.b[8] & 0x3f) | 0x80;

        /* Tools take a leading '-' for an option. */
    } while ((id.b[0] >> 2) == 62);

    return id;
}


void
kc_uuid_text(kf_uuid_t id, uint8_t *out)
{
    static const char  digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t           bits = 0, n = 0, i;

    for (i = 0; i < sizeof(id.b); i++) {
        bits = bits << 8 | id.b[i];
        n += 8;

        while (n >= 6) {
            n -= 6;
            *out++ = (uint8_t) digits[bits >> n & 63];
        }
    }

    *out = (uint8_t) digits[bits << (6 - n) & 63];
}


kc_rc_t
kc_bootstrap(kc_t *kc, kc_time_t now, int64_t *wait)
{
    uint8_t             text[22];
    kc_rc_t             rc;
    kf_broker_record_t  r;

    *wait = kc->state->cluster_id_changed;

    if (kc->state->cluster_id_len) {
        return KC_OK;
    }

    kc_uuid_text(kc_random_uuid(kc), text);
    r.cluster_id = (kf_str_t) { text, sizeof(text) };

    kc_begin(kc, now);

    rc = kc_put(kc, KF_BROKER_RECORD, &r);
    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, wait);
}


kc_rc_t
kc_raise_leader_epoch(kc_t *kc, kc_time_t now, int64_t *wait)
{
    kc_rc_t                   rc;
    kf_leader_epoch_record_t  r;

    if (kc->state->leader_epoch == INT32_MAX) {
        return kc_fail(kc, KC_CORRUPT, "the leader epoch cannot be raised: "
                       "it is at its greatest value");
    }

    r.epoch = kc->state->leader_epoch + 1;

    kc_begin(kc, now);

    rc = kc_put(kc, KF_LEADER_EPOCH_RECORD, &r);
    if (rc != KC_OK) {
        kc_abandon(kc);
        return rc;
    }

    return kc_commit(kc, wait);
}
