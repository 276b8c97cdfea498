/*
 * Records of the journal, in batches whose CRC is right: what replay takes has
 * to leave a sound state, whose snapshot rebuilds it; everything else has to be
 * refused with a text.
 *
 * Input: records, each behind two bytes of length; length 0 ends a batch.
 */

#include <stdlib.h>

#include "../../codec/kf_codec.h"
#include "../../coordinator/kc.h"


#define SIZE_MAX_IN  65536
#define MEMORY_MAX   (64 * 1024 * 1024)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static kc_t    rebuilt;
static size_t  memory;


static void *
take(void *ctx, size_t size)
{
    (void) ctx;

    if (size > MEMORY_MAX - memory) {
        return NULL;
    }

    memory += size;

    return malloc(size);
}


static void
give(void *ctx, void *p, size_t size)
{
    (void) ctx;

    memory -= size;
    free(p);
}


static void
start(kc_t *kc)
{
    kc_io_t  io;

    memset(&io, 0, sizeof(io));

    if (!kc_init(kc, (kc_mem_t) { take, give, NULL }, io)
        || kc_state_create(kc) == NULL)
    {
        abort();
    }
}


static bool
sink(void *ctx, uint8_t *batch, size_t len)
{
    (void) ctx;

    /* A state near the bound of memory may not fit twice. */
    return kc_replay(&rebuilt, batch, len, -1) == KC_OK;
}


static void
check(kc_t *kc)
{
    if (kc_replay_end(kc) != KC_OK) {
        return;                         /* in the middle of a snapshot */
    }

    if (kc_check(kc) != NULL) {
        abort();
    }

    start(&rebuilt);

    if (kc_snapshot(kc, (kc_time_t) { 1, 1 }, sink, NULL) == KC_OK
        && (kc_hash(kc) != kc_hash(&rebuilt) || kc_check(&rebuilt) != NULL
            || kc_applied(kc) != kc_applied(&rebuilt)))
    {
        abort();
    }

    kc_state_free(&rebuilt);
    kc_done(&rebuilt);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kc_t                 kc;
    size_t               len, at = 0;
    int64_t              end = 0;
    kc_rc_t              rc = KC_OK;
    kf_bytes_t           value;
    kf_batch_builder_t   bb;
    static uint8_t       buf[2 * SIZE_MAX_IN];

    if (size > SIZE_MAX_IN) {
        return 0;
    }

    start(&kc);
    kf_batch_begin(&bb, buf, sizeof(buf), 1);

    while (rc == KC_OK) {
        len = 0;

        if (size - at >= 2) {
            len = (size_t) data[at] << 8 | data[at + 1];
            at += 2;
        }

        if (len) {
            len = len > size - at ? size - at : len;
            value = (kf_bytes_t) { data + at, (uint32_t) len };
            at += len;

            if (kf_batch_add(&bb, kf_null_str, value) != KF_OK) {
                break;
            }

            continue;
        }

        end += bb.record_count;
        len = kf_batch_end(&bb);

        if (len == 0) {
            break;
        }

        kc.problem = kf_null_str;
        rc = kc_replay(&kc, buf, len, kc_applied(&kc) < 0 ? -1 : end);

        if (rc != KC_OK && kf_str_is_null(kc.problem)) {
            abort();
        }

        kf_batch_begin(&bb, buf, sizeof(buf), 1);
    }

    if (rc == KC_OK) {
        check(&kc);
    }

    kc_state_free(&kc);
    kc_done(&kc);

    if (memory) {
        abort();
    }

    return 0;
}
