/*
 * All that is no request: responses, embedded data, journal records.  The
 * input opens with kind (1 byte: kf_message_kind_t), key (2) and version (1).
 */

#include "../schema/message_fields.h"
#include "../schema/message_walk.h"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


/* Embedded data has no key: the n-th of its kind. */
static const kf_message_t *
message(unsigned kind, int16_t key)
{
    size_t   i;
    int16_t  n = 0;

    for (i = 0; i < KF_MESSAGES; i++) {
        if ((unsigned) kf_messages[i].kind != kind) {
            continue;
        }

        if (kind == KF_M_DATA ? n == key : kf_messages[i].key == key) {
            return &kf_messages[i];
        }

        n++;
    }

    return NULL;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void                *msg;
    size_t               len, len2;
    int16_t              version;
    uint8_t             *once, *twice;
    kf_rc_t              rc;
    kf_heap_t            heap = { NULL };
    kf_arena_t           arena;
    kf_reader_t          r;
    const kf_message_t  *m;

    if (size < 4) {
        return 0;
    }

    m = message(data[0], (int16_t) (data[1] << 8 | data[2]));
    version = data[3];

    if (m == NULL || version < m->min || version > m->max) {
        return 0;
    }

    msg = malloc(m->size);

    if (msg == NULL) {
        abort();
    }

    kf_arena_init(&arena, kf_heap_chunk, &heap, 128 * size + 4096);
    kf_reader_init(&r, data + 4, size - 4);
    rc = m->decode(&r, version, &arena, msg);

    if (rc != KF_OK && rc != KF_MALFORMED) {
        abort();
    }

    if (rc == KF_OK) {
        once = walk_encode(m, version, msg, &len);

        kf_reader_init(&r, once, len);
        kf_arena_init(&arena, kf_heap_chunk, &heap, SIZE_MAX);

        if (m->decode(&r, version, &arena, msg) != KF_OK) {
            abort();
        }

        twice = walk_encode(m, version, msg, &len2);

        if (len != len2 || memcmp(once, twice, len) != 0) {
            abort();
        }

        free(once);
        free(twice);
    }

    free(msg);
    kf_heap_free(&heap);

    return 0;
}
