/*
 * Bytes that kafka-clients wrote (t/data/golden, made by codec/check-schema):
 * decoded they have the values that the samples are made of, encoded they are
 * the same bytes.
 */

#include "../tap.h"
#include "../schema/message_fields.h"
#include "../schema/message_walk.h"

#include <glob.h>


static int  seen[KF_MESSAGES];          /* samples of each message */


static size_t
unhex(const char *hex, uint8_t *out, size_t max)
{
    size_t    n;
    unsigned  byte;

    for (n = 0; n < max && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++) {
        out[n] = (uint8_t) byte;
    }

    return n;
}


/* Returns NULL or what is wrong. */
static const char *
sample(const kf_message_t *m, int16_t version, bool full, const uint8_t *bytes,
    size_t len)
{
    void        *want, *got;
    size_t       n;
    uint8_t     *place, *own;
    kf_heap_t    heap = { NULL };
    kf_arena_t   arena;
    kf_reader_t  r;
    const char  *why = NULL;
    walk_fill_t  fill = { walk_value_sample, &arena, version, full,
                          full ? 0 : 1, full ? 2 : 1, true };

    kf_arena_init(&arena, kf_heap_chunk, &heap, SIZE_MAX);
    want = kf_arena_array(&arena, 1, m->size);
    got = kf_arena_array(&arena, 1, m->size);

    if (m->init) {
        m->init(want);
    }

    walk_fill(&fill, m->fields, m->fields_n, want, 0);

    place = walk_guarded(len);
    memcpy(place, bytes, len);
    kf_reader_init(&r, place, len);

    if (m->decode(&r, version, &arena, got) != KF_OK) {
        why = "not decoded";

    } else {
        why = walk_differs(m->fields, m->fields_n, want, got, version);
    }

    if (why == NULL) {
        own = walk_encode(m, version, got, &n);
        why = n == len && memcmp(own, bytes, n) == 0 ? NULL
              : "encoded otherwise";
        free(own);
    }

    if (why == NULL) {
        own = walk_encode(m, version, want, &n);
        why = n == len && memcmp(own, bytes, n) == 0 ? NULL
              : "encoded otherwise from its values";
        free(own);
    }

    kf_heap_free(&heap);

    return why;
}


static void
line(char *text)
{
    static const char *const  kinds[] = { "request", "response", "data" };
    static uint8_t            bytes[65536];

    int          version;
    char         name[64], kind[16], style[16];
    size_t       i, hex = 0;
    const char  *why;

    if (sscanf(text, "%63s %15s %d %15s %zn", name, kind, &version, style,
               &hex) != 4)
    {
        ok(0, "a golden line is understood");
        return;
    }

    for (i = 0; i < KF_MESSAGES; i++) {
        if (kf_messages[i].kind != KF_M_RECORD
            && strcmp(kf_messages[i].name, name) == 0
            && strcmp(kinds[kf_messages[i].kind], kind) == 0)
        {
            break;
        }
    }

    if (i == KF_MESSAGES) {
        ok(0, "%s %s is a message", name, kind);
        return;
    }

    why = sample(&kf_messages[i], (int16_t) version, strcmp(style, "full") == 0,
                 bytes, unhex(text + hex, bytes, sizeof(bytes)));
    seen[i]++;

    if (!ok(why == NULL, "%s %s v%d %s", name, kind, version, style)) {
        diag("%s", why);
    }
}


int
main(void)
{
    char    text[140000];
    FILE   *f;
    glob_t  files;
    size_t  i, left;

    if (glob("t/data/golden/*.txt", 0, NULL, &files) != 0) {
        ok(0, "t/data/golden has files (run from the top directory)");
        return done_testing();
    }

    for (i = 0; i < files.gl_pathc; i++) {
        f = fopen(files.gl_pathv[i], "r");

        if (f == NULL) {
            ok(0, "%s is readable", files.gl_pathv[i]);
            continue;
        }

        while (fgets(text, sizeof(text), f)) {
            line(text);
        }

        fclose(f);
    }

    globfree(&files);

    for (i = 0, left = 0; i < KF_MESSAGES; i++) {
        if (kf_messages[i].kind != KF_M_RECORD
            && seen[i] != 2 * (kf_messages[i].max - kf_messages[i].min + 1))
        {
            diag("%s has %d samples", kf_messages[i].name, seen[i]);
            left++;
        }
    }

    is((int64_t) left, 0, "every version of every message has its samples");

    return done_testing();
}
