/*
 * Bytes that lie: cut short, one too many, counts and lengths that can't be,
 * nulls where none may be, memory that runs out.  The input ends at a page
 * that may not be read, so that one byte too far is a crash.
 */

#include "../tap.h"
#include "../schema/message_fields.h"
#include "../schema/message_walk.h"


/* Decodes a copy that ends at the guard page. */
static kf_rc_t
decode(const kf_message_t *m, int16_t version, const uint8_t *bytes, size_t len,
    kf_arena_t *arena)
{
    void         *msg;
    uint8_t      *place;
    kf_rc_t       rc;
    kf_reader_t   r;

    place = walk_guarded(len);

    if (len) {
        memcpy(place, bytes, len);
    }

    msg = malloc(m->size);

    if (msg == NULL) {
        abort();
    }

    kf_reader_init(&r, place, len);
    rc = m->decode(&r, version, arena, msg);
    free(msg);

    return rc;
}


static kf_rc_t
decode_bytes(const kf_message_t *m, int16_t version, const uint8_t *bytes,
    size_t len)
{
    kf_rc_t     rc;
    kf_heap_t   heap = { NULL };
    kf_arena_t  arena;

    kf_arena_init(&arena, kf_heap_chunk, &heap, 16 * 1024 * 1024);
    rc = decode(m, version, bytes, len, &arena);
    kf_heap_free(&heap);

    return rc;
}


static uint8_t *
sample(const kf_message_t *m, int16_t version, bool tags, size_t *len)
{
    void        *msg;
    uint8_t     *bytes;
    kf_heap_t    heap = { NULL };
    kf_arena_t   arena;
    walk_fill_t  fill = { walk_value_random, &arena, version, tags, 0, 2,
                          false };

    kf_arena_init(&arena, kf_heap_chunk, &heap, SIZE_MAX);
    msg = kf_arena_array(&arena, 1, m->size);

    if (m->init) {
        m->init(msg);
    }

    walk_fill(&fill, m->fields, m->fields_n, msg, 0);
    bytes = walk_encode(m, version, msg, len);
    kf_heap_free(&heap);

    return bytes;
}


static void
cut_short(const kf_message_t *m)
{
    bool      good = true;
    size_t    len, n, at = 0;
    int16_t   version, where = 0;
    uint8_t  *bytes;

    for (version = m->min; version <= m->max && good; version++) {
        bytes = sample(m, version, true, &len);
        good = decode_bytes(m, version, bytes, len) == KF_OK;

        for (n = 0; n < len && good; n++) {
            good = decode_bytes(m, version, bytes, n) == KF_MALFORMED;
            at = n;
            where = version;
        }

        free(bytes);
    }

    if (!ok(good, "%s %d: cut at every length is malformed", m->name,
            m->kind))
    {
        diag("version %d, %zu bytes", where, at);
    }
}


/* What may follow: nothing; but embedded data may have fields of the future,
 * and clients leave bytes behind requests. */
static void
one_more(const kf_message_t *m)
{
    bool      good = true;
    size_t    len;
    int16_t   version;
    uint8_t  *bytes;
    kf_rc_t   want = m->kind == KF_M_DATA || m->kind == KF_M_REQUEST
                     ? KF_OK : KF_MALFORMED;

    for (version = m->min; version <= m->max; version++) {
        bytes = sample(m, version, true, &len);
        bytes[len] = 0;                 /* walk_encode() leaves room */
        good = good && decode_bytes(m, version, bytes, len + 1) == want;
        free(bytes);
    }

    ok(good, "%s %d: a byte after the end is %s", m->name, m->kind,
       want == KF_OK ? "left alone" : "malformed");
}


/* Without its own tagged fields, a flexible message ends with a zero count. */
static void
unknown_tags(const kf_message_t *m)
{
    static const uint8_t  tags[] = { 2, 0xc8, 0x01, 3, 'a', 'b', 'c',
                                     0xc9, 0x01, 0 };

    bool      good = true, cut = true;
    size_t    len, n;
    int16_t   version;
    uint8_t  *bytes, *more;

    if (m->flexible > m->max) {
        return;
    }

    for (version = m->flexible > m->min ? m->flexible : m->min;
         version <= m->max; version++)
    {
        bytes = sample(m, version, false, &len);
        more = malloc(len + sizeof(tags));

        if (more == NULL) {
            abort();
        }

        memcpy(more, bytes, len);
        memcpy(more + len - 1, tags, sizeof(tags));
        n = len - 1 + sizeof(tags);

        good = good && bytes[len - 1] == 0
               && decode_bytes(m, version, more, n) == KF_OK;
        cut = cut && decode_bytes(m, version, more, n - 1) == KF_MALFORMED;

        more[len + 2] = 0x7f;           /* the field's size: beyond the end */
        cut = cut && decode_bytes(m, version, more, n) == KF_MALFORMED;

        free(more);
        free(bytes);
    }

    ok(good, "%s %d: unknown tagged fields are skipped", m->name, m->kind);
    ok(cut, "%s %d: and may not run over the end", m->name, m->kind);
}


typedef struct {
    kf_heap_t  heap;
    uint32_t   left;                    /* chunks before memory runs out */
} poor_t;


static void *
poor_chunk(void *ctx, size_t size)
{
    poor_t  *poor = ctx;

    return poor->left-- > 0 ? kf_heap_chunk(&poor->heap, size) : NULL;
}


/* Memory that runs out at any chunk, or at a limit of bytes. */
static void
no_memory(const kf_message_t *m)
{
    bool        good = true;
    size_t      len, limit;
    int16_t     version = m->max;
    uint8_t    *bytes;
    kf_rc_t     rc;
    poor_t      poor = { { NULL }, 0 };
    kf_arena_t  arena;
    uint32_t    n;

    bytes = sample(m, version, true, &len);
    rc = KF_NO_MEMORY;

    for (n = 0; rc == KF_NO_MEMORY && n < 1000; n++) {
        poor.left = n;
        kf_arena_init(&arena, poor_chunk, &poor, SIZE_MAX);
        rc = decode(m, version, bytes, len, &arena);
        good = good && (rc == KF_OK || rc == KF_NO_MEMORY);
        kf_heap_free(&poor.heap);
    }

    good = good && rc == KF_OK;
    rc = KF_NO_MEMORY;

    for (limit = 0; rc == KF_NO_MEMORY && limit < 1024 * 1024; limit += 8) {
        poor.left = 1000000;
        kf_arena_init(&arena, poor_chunk, &poor, limit);
        rc = decode(m, version, bytes, len, &arena);
        good = good && (rc == KF_OK || rc == KF_NO_MEMORY);
        kf_heap_free(&poor.heap);
    }

    ok(good && rc == KF_OK, "%s %d: out of memory is said", m->name, m->kind);
    free(bytes);
}


/* Whatever a message's bytes are changed to: an error, or a stable message. */
static void
damaged(const kf_message_t *m)
{
    int           i, j;
    void         *msg, *msg2;
    bool          good = true;
    size_t        len, len1, len2;
    int16_t       version;
    uint8_t      *bytes, *once, *twice;
    kf_rc_t       rc;
    kf_heap_t     heap;
    kf_arena_t    arena;
    kf_reader_t   r;

    msg = malloc(m->size);
    msg2 = malloc(m->size);

    for (i = 0; i < 400 && msg && msg2; i++) {
        version = (int16_t) (m->min + walk_random()
                                      % (uint64_t) (m->max - m->min + 1));
        bytes = sample(m, version, true, &len);

        for (j = (int) (walk_random() % 4); j >= 0 && len; j--) {
            bytes[walk_random() % len] = walk_random() % 2
                                         ? (uint8_t) walk_random()
                                         : (uint8_t) (walk_random() % 2 - 1);
        }

        heap.chunks = NULL;
        kf_arena_init(&arena, kf_heap_chunk, &heap, 4 * 1024 * 1024);
        memcpy(walk_guarded(len), bytes, len);
        kf_reader_init(&r, walk_guarded(len), len);
        rc = m->decode(&r, version, &arena, msg);
        good = good && (rc == KF_OK || rc == KF_MALFORMED);

        if (rc == KF_OK) {
            once = walk_encode(m, version, msg, &len1);
            kf_reader_init(&r, once, len1);
            good = good && m->decode(&r, version, &arena, msg2) == KF_OK;
            twice = walk_encode(m, version, msg2, &len2);
            good = good && len1 == len2 && memcmp(once, twice, len1) == 0;
            free(once);
            free(twice);
        }

        kf_heap_free(&heap);
        free(bytes);
    }

    free(msg);
    free(msg2);

    ok(good, "%s %d: damaged bytes end in an error or a stable message",
       m->name, m->kind);
}


static const kf_message_t *
message(const char *name, kf_message_kind_t kind)
{
    size_t  i;

    for (i = 0; i < KF_MESSAGES; i++) {
        if (strcmp(kf_messages[i].name, name) == 0
            && kf_messages[i].kind == kind)
        {
            return &kf_messages[i];
        }
    }

    abort();
}


#define refused(name, version, label, ...)                                    \
    do {                                                                      \
        static const uint8_t  b[] = { __VA_ARGS__ };                          \
        is(decode_bytes(message(name, KF_M_REQUEST), version, b, sizeof(b)),  \
           KF_MALFORMED, label);                                              \
    } while (0)

#define taken(name, version, label, ...)                                      \
    do {                                                                      \
        static const uint8_t  b[] = { __VA_ARGS__ };                          \
        is(decode_bytes(message(name, KF_M_REQUEST), version, b, sizeof(b)),  \
           KF_OK, label);                                                     \
    } while (0)


static void
counts_and_lengths(void)
{
    /* Metadata v1: an array of strings, -1 for all topics. */

    taken("Metadata", 1, "null array where it may be null",
          0xff, 0xff, 0xff, 0xff);
    refused("Metadata", 0, "null array where it may not be null",
            0xff, 0xff, 0xff, 0xff);
    refused("Metadata", 1, "count -2", 0xff, 0xff, 0xff, 0xfe);
    refused("Metadata", 1, "count 2^31 - 1", 0x7f, 0xff, 0xff, 0xff);
    refused("Metadata", 1, "count of one more than there is room for",
            0, 0, 0, 2, 0, 1, 'a');
    taken("Metadata", 1, "an empty string", 0, 0, 0, 1, 0, 0);
    refused("Metadata", 1, "null string where it may not be null",
            0, 0, 0, 1, 0xff, 0xff);
    refused("Metadata", 1, "string length -2", 0, 0, 0, 1, 0xff, 0xfe);
    refused("Metadata", 1, "string longer than what is left",
            0, 0, 0, 1, 0, 2, 'a');

    /* Metadata v12: compact; names may be null; three booleans, tags. */

    taken("Metadata", 12, "null compact array", 0, 1, 0, 0);
    taken("Metadata", 12, "null compact string",
          2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0,
          1, 0, 0);
    refused("Metadata", 12, "compact count of 2^32 - 2",
            0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 0);
    refused("Metadata", 12, "a varint of 33 bits",
            0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0, 0);
    refused("Metadata", 12, "a varint of six bytes",
            0x81, 0x80, 0x80, 0x80, 0x80, 0x00, 1, 0, 0);
    taken("Metadata", 12, "a varint longer than it needs to be",
          0x80, 0x00, 1, 0, 0);
    refused("Metadata", 12, "2^32 - 1 tagged fields",
            0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f);
    refused("Metadata", 12, "a tagged field of 2^32 - 1 bytes",
            0, 1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f);

    /* Fetch v12: cluster id is tag 0 of the message. */

    taken("Fetch", 12, "a tagged field that is as long as it says",
          0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0,
          0, 0, 0, 0,  0, 0, 0, 0,  1, 1, 1,  1, 0, 2, 2, 'a');
    refused("Fetch", 12, "a tagged field that is longer than its value",
            0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0,
            0, 0, 0, 0,  0, 0, 0, 0,  1, 1, 1,  1, 0, 3, 2, 'a', 0);
    refused("Fetch", 12, "a tagged field whose value runs over its size",
            0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0,
            0, 0, 0, 0,  0, 0, 0, 0,  1, 1, 1,  2, 0, 1, 2, 'a', 0);

    /* SyncGroup v0: bytes. */

    refused("SyncGroup", 0, "bytes of length 2^31 - 1",
            0, 1, 'g',  0, 0, 0, 1,  0, 1, 'm',  0, 0, 0, 1,  0, 1, 'm',
            0x7f, 0xff, 0xff, 0xff, 'x');
    refused("SyncGroup", 0, "null bytes where they may not be null",
            0, 1, 'g',  0, 0, 0, 1,  0, 1, 'm',  0, 0, 0, 1,  0, 1, 'm',
            0xff, 0xff, 0xff, 0xff);

    /* Produce v3: null and oversized records. */

    taken("Produce", 3, "null records",
          0xff, 0xff,  0, 1,  0, 0, 0, 1,  0, 0, 0, 1,  0, 1, 't',
          0, 0, 0, 1,  0, 0, 0, 0,  0xff, 0xff, 0xff, 0xff);
    refused("Produce", 3, "records of length -2",
            0xff, 0xff,  0, 1,  0, 0, 0, 1,  0, 0, 0, 1,  0, 1, 't',
            0, 0, 0, 1,  0, 0, 0, 0,  0xff, 0xff, 0xff, 0xfe);
    refused("Produce", 3, "records longer than what is left",
            0xff, 0xff,  0, 1,  0, 0, 0, 1,  0, 0, 0, 1,  0, 1, 't',
            0, 0, 0, 1,  0, 0, 0, 0,  0, 0, 0, 1);

    /* DescribeTopicPartitions v0: a nullable struct. */

    taken("DescribeTopicPartitions", 0, "null struct",
          1, 0, 0, 0, 9, 0xff, 0);
    taken("DescribeTopicPartitions", 0, "a struct",
          1, 0, 0, 0, 9, 1, 2, 'a', 0, 0, 0, 1, 0, 0);
    refused("DescribeTopicPartitions", 0, "a struct cut off",
            1, 0, 0, 0, 9, 1, 2, 'a', 0, 0, 0, 1);
}


int
main(void)
{
    size_t  i;

    counts_and_lengths();

    for (i = 0; i < KF_MESSAGES; i++) {
        walk_seed = i + 1;
        cut_short(&kf_messages[i]);
        one_more(&kf_messages[i]);
        unknown_tags(&kf_messages[i]);
        no_memory(&kf_messages[i]);
        damaged(&kf_messages[i]);
    }

    return done_testing();
}
