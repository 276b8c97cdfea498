/*
 * Writes a partition for dump_log_segments.t: log_write DIR.  Several segments,
 * all codecs, plain, idempotent and transactional batches, a marker, two
 * epochs.  Prints "records N" and "segments N".
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
    int          i, codec, bad = 0, records = 0, seq[3] = { 0 };
    int16_t      attr;
    batch_t     *x = malloc(sizeof(batch_t));
    uint8_t      marker[KF_CONTROL_BATCH];
    kf_batch_t   b;
    kl_append_t  res;

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

    kf_batch_control(marker, 0, 0, 1002, 0, true, 3, 1700000400000);
    kf_batch_header(marker, sizeof(marker), &b);
    bad += kl_append(plog, marker, &b, &config, 4, 1700000000000, &res)
           != KL_OK;

    bad += kl_checkpoint(plog, true) != KL_OK;

    printf("records %d\nsegments %d\n", records + 1, files_with(".log"));

    return bad != 0;
}
