/*
 * A request frame without its size: header, then the body of any API and
 * version.  What is decoded has to be stable: encoded, it decodes to what
 * encodes to the same bytes; and it may not take more memory than a request of
 * its size justifies.
 */

#include "../schema/message_fields.h"
#include "../schema/message_walk.h"


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static const kf_message_t *
request(int16_t key)
{
    size_t  i;

    for (i = 0; i < KF_MESSAGES; i++) {
        if (kf_messages[i].kind == KF_M_REQUEST && kf_messages[i].key == key) {
            return &kf_messages[i];
        }
    }

    abort();                            /* the API table has it */
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void                *msg;
    size_t               limit, len, len2;
    uint8_t             *once, *twice;
    kf_rc_t              rc;
    kf_heap_t            heap = { NULL };
    kf_arena_t           arena;
    kf_reader_t          r;
    const kf_api_t      *api;
    kf_request_header_t  h;
    const kf_message_t  *m;

    kf_reader_init(&r, data, size);

    if (kf_read_request_header(&r, &h) != KF_OK) {
        return 0;
    }

    api = kf_api(h.api_key);
    m = request(h.api_key);
    msg = malloc(api->request_size);

    if (msg == NULL) {
        abort();
    }

    /* Elements of one or two bytes become structs of up to 56. */
    limit = 64 * size + 4096;
    kf_arena_init(&arena, kf_heap_chunk, &heap, limit);
    rc = api->decode_request(&r, h.api_version, &arena, msg);

    if (rc != KF_OK && rc != KF_MALFORMED) {
        abort();
    }

    if (rc == KF_OK) {
        once = walk_encode(m, h.api_version, msg, &len);

        kf_reader_init(&r, once, len);
        kf_arena_init(&arena, kf_heap_chunk, &heap, limit);

        if (m->decode(&r, h.api_version, &arena, msg) != KF_OK) {
            abort();
        }

        twice = walk_encode(m, h.api_version, msg, &len2);

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
