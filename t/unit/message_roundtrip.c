/*
 * Every message in every version: what is encoded is decoded to the same
 * values, absent fields get their defaults, and encoding again gives the same
 * bytes.
 */

#include "../tap.h"
#include "../schema/message_fields.h"
#include "../schema/message_walk.h"


#define ROUNDS  24


/* Returns NULL or what went wrong. */
static const char *
round_trip(const kf_message_t *m, int16_t version, int round)
{
    void        *want, *got;
    size_t       len, again_len;
    uint8_t     *bytes, *again, *place;
    kf_rc_t      rc;
    kf_heap_t    heap = { NULL };
    kf_arena_t   arena, arena2;
    kf_reader_t  r;
    const char  *why;
    walk_fill_t  fill;

    kf_arena_init(&arena, kf_heap_chunk, &heap, SIZE_MAX);
    kf_arena_init(&arena2, kf_heap_chunk, &heap, 4 * 1024 * 1024);

    want = kf_arena_array(&arena, 1, m->size);
    got = kf_arena_alloc(&arena, m->size);
    memset(got, 0xa5, m->size);         /* a decoder sets every field */

    if (m->init) {
        m->init(want);
    }

    fill.value = walk_value_random;
    fill.arena = &arena;
    fill.version = version;
    fill.tags = round % 4 != 0;
    fill.nulls = round % 3 ? 4 : 0;
    fill.count_max = round % 5;
    fill.count_fixed = false;

    if (round) {
        walk_fill(&fill, m->fields, m->fields_n, want, 0);
    }

    bytes = walk_encode(m, version, want, &len);
    place = walk_guarded(len);
    memcpy(place, bytes, len);

    kf_reader_init(&r, place, len);
    rc = m->decode(&r, version, &arena2, got);

    if (rc != KF_OK) {
        why = "decode fails";

    } else {
        why = walk_differs(m->fields, m->fields_n, want, got, version);
    }

    if (why == NULL) {
        again = walk_encode(m, version, got, &again_len);

        if (again_len != len || memcmp(again, bytes, len) != 0) {
            why = "bytes differ";
        }

        free(again);
    }

    free(bytes);
    kf_heap_free(&heap);

    return why;
}


static void
versions(const kf_message_t *m)
{
    int          i;
    int16_t      version;
    const char  *why;

    for (version = m->min; version <= m->max; version++) {
        why = NULL;

        for (i = 0; i < ROUNDS && why == NULL; i++) {
            walk_seed = (uint64_t) i + 1;
            why = round_trip(m, version, i);
        }

        if (!ok(why == NULL, "%s %s v%d comes back as it was", m->name,
                m->kind == KF_M_REQUEST ? "request"
                : m->kind == KF_M_RESPONSE ? "response" : "data", version))
        {
            diag("round %d: %s", i - 1, why);
        }
    }
}


static void
unknown_versions(const kf_message_t *m)
{
    uint8_t       msg[512] = { 0 }, bytes[64] = { 0 };
    kf_heap_t     heap = { NULL };
    kf_arena_t    arena;
    kf_reader_t   r;
    const int16_t  wrong[] = { -1, INT16_MIN, INT16_MAX,
                               (int16_t) (m->max + 1), (int16_t) (m->min - 1) };
    size_t        i;
    bool          refused = true;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        kf_arena_init(&arena, kf_heap_chunk, &heap, 1024);
        kf_reader_init(&r, bytes, sizeof(bytes));
        refused = refused && m->size <= sizeof(msg)
                  && m->decode(&r, wrong[i], &arena, msg) == KF_UNSUPPORTED;
    }

    ok(refused, "%s: no other version is decoded", m->name);
    kf_heap_free(&heap);
}


static void
initialisers(const kf_message_t *m)
{
    uint8_t  msg[512];

    if (m->init == NULL || m->size > sizeof(msg)) {
        return;
    }

    memset(msg, 0xa5, sizeof(msg));
    m->init(msg);

    /* An initialised string may be null where its default is empty. */
    ok(walk_defaults(m->fields, m->fields_n, msg), "%s: kf_init sets defaults",
       m->name);
}


int
main(void)
{
    size_t  i;

    for (i = 0; i < KF_MESSAGES; i++) {
        versions(&kf_messages[i]);
        unknown_versions(&kf_messages[i]);
        initialisers(&kf_messages[i]);
    }

    return done_testing();
}
