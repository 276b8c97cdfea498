/*
 * Writes a partition for dump_log_segments.t: log_write DIR.  Several segments,
 * all codecs, plain, idempotent and transactional batches, markers, aborted
 * transactions, three epochs.  Prints "records N", "segments N" and a line
 * "aborted PRODUCER FIRST LAST STABLE" for each aborted transaction.
 */

#include "../unit/log_lib.h"
#include "../../codec/kf_compress.h"


/* Replaces the records of a batch by their compressed form. */
static void
compress(batch_t *x, kf_codec_t codec)
{
    uint8_t  *packed;
    size_t    len;

    if (codec == KF_CODEC_NONE) {
        return;
    }

    if (kf_compress(codec, KF_LEVEL_DEFAULT, x->data + 61, x->len - 61,
                    &packed, &len)
        != KF_OK)
    {
        exit(1);
    }

    memcpy(x->data + 61, packed, len);
    free(packed);
    x->len = 61 + len;
    put_be(x->data + 8, x->len - 12, 4);
}


int
main(int argc, char **argv)
{
    int           i, k, codec, bad = 0, records = 0, seq[3] = { 0 };
    int16_t       attr;
    int64_t       first, stable;
    batch_t      *x = malloc(sizeof(batch_t));
    kl_append_t   res;
    kl_marked_t   marked;
    kl_marker_t   m = { .producer_id = 1002, .coordinator_epoch = 3,
                        .commit = true };

    if (argc != 2) {
        return 2;
    }

    snprintf(data_dir, sizeof(data_dir), "%s", argv[1]);
    config.segment_bytes = 30000;
    config.index_interval_bytes = 1000;
    broker_start(4, 16);

    for (i = 0; i < 300; i++) {
        codec = i % 5;
        attr = (int16_t) codec;

        if (i >= 200 && i % 3 == 2) {
            attr |= KF_ATTR_TRANSACTIONAL;
        }

        batch_make(x, 1 + i % 4, 50 + (size_t) (i * 13 % 200), (uint32_t) i,
                   1700000000000 + i * 1000 - i % 7 * 3000);
        compress(x, (kf_codec_t) codec);

        if (i % 4 == 0) {
            batch_producer(x, -1, -1, -1, (int16_t) codec);
        } else {
            batch_producer(x, 1000 + i % 3, 0, seq[i % 3], attr);
            seq[i % 3] += 1 + i % 4;
        }

        bad += kl_append(plog, x->data, &x->b, &config, i / 100 * 2,
                         1700000000000, &res) != KL_OK;
        records += 1 + i % 4;
    }

    bad += kl_append_marker(plog, &m, &config, 4, 1700000400000, &marked)
           != KL_OK || !marked.written;
    records++;

    /* two at a time, of which the first is aborted: a segment is full in
       between */
    for (i = 0; i < 4; i += 2) {
        first = offsets(plog).log_end;

        for (k = 0; k < 20; k++) {
            batch_make(x, 2, 500, 0, 1700000500000);
            batch_producer(x, 2000 + i + k % 2, 0, k / 2 * 2,
                           KF_ATTR_TRANSACTIONAL);
            bad += kl_append(plog, x->data, &x->b, &config, 4, 1700000500000,
                             &res) != KL_OK;
            records += 2;
        }

        for (k = 0; k < 2; k++) {
            m.producer_id = 2000 + i + k;
            m.producer_epoch = 1;
            m.commit = false;
            stable = k == 0 ? first + 2 : offsets(plog).log_end + 1;

            bad += kl_append_marker(plog, &m, &config, 4, 1700000500000,
                                    &marked) != KL_OK || !marked.written;
            records++;
            printf("aborted %d %d %d %d\n", 2000 + i + k,
                   (int) first + 2 * k, (int) marked.offset, (int) stable);
        }
    }

    bad += kl_checkpoint(plog, true) != KL_OK;

    printf("records %d\nsegments %d\n", records, files_with(".log"));

    return bad != 0;
}
