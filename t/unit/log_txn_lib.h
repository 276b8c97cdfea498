/*
 * What the tests of transactions share: a consumer that reads committed
 * records as clients do, from answers to many fetches.
 */

#ifndef LOG_TXN_LIB_H
#define LOG_TXN_LIB_H

#include "log_lib.h"

#define TXN_LIST_MAX  4096

static kl_aborted_t  aborted[TXN_LIST_MAX];


/* The tag of the first record of a data batch. */
UNUSED static uint32_t
batch_tag(const uint8_t *data, const kf_batch_t *b)
{
    const uint8_t  *p = data + KF_BATCH_HEADER;
    kf_record_t     r;

    if (kf_record_next(&p, data + b->size, &r) != KF_OK || r.value.len < 4) {
        return UINT32_MAX;
    }

    return (uint32_t) r.value.data[0] << 24 | (uint32_t) r.value.data[1] << 16
           | (uint32_t) r.value.data[2] << 8 | r.value.data[3];
}


/*
 * Reads from an offset up to another in answers of at most size bytes, each
 * with its own list of aborted transactions; what a consumer would show goes
 * to tags.  Returns the number of batches, or -1.
 */
UNUSED static int
read_committed(kl_log_t *log, int64_t from, int64_t upto, size_t size,
    uint32_t *tags, int max)
{
    int              n = 0, i;
    bool             commit, drop;
    size_t           len, at, aborted_n, next_aborted, active_n;
    int32_t          epoch;
    int64_t          next, active[64];
    kf_batch_t       b;
    static uint8_t   buf[128 * 1024];

    while (from < upto) {
        if (kl_read_batches(log, from, upto, buf, size, &len, &next) != KL_OK
            || len == 0
            || kl_aborted(log, from, next, aborted, TXN_LIST_MAX, &aborted_n)
               != KL_OK
            || aborted_n > TXN_LIST_MAX)
        {
            return -1;
        }

        next_aborted = 0;
        active_n = 0;

        for (at = 0; at < len; at += b.size) {
            if (kf_batch_header(buf + at, len - at, &b) != KF_OK) {
                return -1;
            }

            while (next_aborted < aborted_n && active_n < 64
                   && aborted[next_aborted].first_offset
                      <= kf_batch_last_offset(&b))
            {
                active[active_n++] = aborted[next_aborted++].producer_id;
            }

            drop = false;

            for (i = 0; i < (int) active_n; i++) {
                if (active[i] == b.producer_id) {
                    drop = true;
                    break;
                }
            }

            if (b.attributes & KF_ATTR_CONTROL) {
                if (kf_batch_control_read(buf + at, &b, &commit, &epoch)
                    != KF_OK)
                {
                    return -1;
                }

                if (!commit && drop) {
                    active[i] = active[--active_n];
                }

                continue;
            }

            if (drop && (b.attributes & KF_ATTR_TRANSACTIONAL)) {
                continue;
            }

            if (n < max) {
                tags[n] = batch_tag(buf + at, &b);
            }

            n++;
        }

        from = next;
    }

    return n;
}


UNUSED static kl_rc_t
marker(kl_log_t *log, int64_t pid, int16_t epoch, bool commit,
    kl_marked_t *res)
{
    kl_marker_t  m = { .producer_id = pid, .producer_epoch = epoch,
                       .coordinator_epoch = 3, .commit = commit };

    return kl_append_marker(log, &m, &config, 0, 1000000, res);
}

#endif
