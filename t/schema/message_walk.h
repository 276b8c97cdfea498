/*
 * Fills and compares any message by its field table.
 */

#ifndef MESSAGE_WALK_H
#define MESSAGE_WALK_H

#include "message_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>


/* --- a reproducible source of numbers (splitmix64) --- */

static uint64_t  walk_seed = 1;


static inline uint64_t
walk_random(void)
{
    uint64_t  z = (walk_seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;

    return z ^ (z >> 31);
}


static inline bool
walk_in(const kf_field_t *f, int16_t version)
{
    return version >= f->min && version <= f->max;
}


static inline bool
walk_nullable(const kf_field_t *f, int16_t version)
{
    return version >= f->null_min && version <= f->null_max;
}


static inline void *
walk_at(const void *base, size_t at)
{
    return (uint8_t *) (uintptr_t) base + at;
}


static inline int32_t
walk_count(const kf_field_t *f, const void *base)
{
    return *(int32_t *) walk_at(base, f->at_n);
}


/* --- filling --- */

/* value() fills one value that is neither an array nor a struct. */
typedef void (*walk_value_pt)(const kf_field_t *f, int32_t index, void *p,
    kf_arena_t *a);

typedef struct {
    walk_value_pt  value;
    kf_arena_t    *arena;
    int16_t        version;
    bool           tags;                /* fill tagged fields too */
    uint32_t       nulls;               /* one of so many is null; 0: none */
    int32_t        count_max;           /* of an array's elements */
    bool           count_fixed;         /* not fewer either */
} walk_fill_t;


static inline void
walk_value_random(const kf_field_t *f, int32_t index, void *p, kf_arena_t *a)
{
    uint64_t  v = walk_random();
    uint32_t  i, len;
    uint8_t  *text;

    (void) index;

    switch (f->type) {

    case KF_T_BOOL:
        *(bool *) p = v & 1;
        return;

    case KF_T_INT8:
        *(int8_t *) p = (int8_t) v;
        return;

    case KF_T_INT16:
    case KF_T_UINT16:
        *(int16_t *) p = (int16_t) v;
        return;

    case KF_T_INT32:
        *(int32_t *) p = (int32_t) v;
        return;

    case KF_T_INT64:
        *(int64_t *) p = (int64_t) v;
        return;

    case KF_T_FLOAT64:
        *(double *) p = (double) (int32_t) v / 8;
        return;

    case KF_T_UUID:
        memcpy(p, &v, 8);
        memcpy((uint8_t *) p + 8, &v, 8);
        return;

    case KF_T_STRING:
    case KF_T_BYTES:
    case KF_T_RECORDS:
        len = v % 16 == 0 ? (uint32_t) (v >> 32) % 300 : (uint32_t) v % 12;
        text = kf_arena_alloc(a, len + 1);

        if (text == NULL) {
            abort();
        }

        for (i = 0; i < len; i++) {
            text[i] = (uint8_t) walk_random();
        }

        if (f->type == KF_T_RECORDS) {
            *(kf_records_t *) p = (kf_records_t) { text, len, NULL };

        } else {
            *(kf_str_t *) p = (kf_str_t) { text, len };
        }

        return;

    case KF_T_STRUCT:
        abort();
    }
}


/*
 * A value that follows from the field's name and its place, as KafkaMessages
 * makes them for the golden samples.
 */
static inline void
walk_value_sample(const kf_field_t *f, int32_t index, void *p, kf_arena_t *a)
{
    int        i;
    int64_t    wide;
    uint32_t   v = 0x811c9dc5;
    kf_str_t   text;
    const char  *c;

    for (c = f->name; *c; c++) {
        v = (v ^ (uint8_t) *c) * 0x01000193;
    }

    v += (uint32_t) index;
    wide = (int64_t) ((uint64_t) v << 32 | v);

    switch (f->type) {

    case KF_T_BOOL:
        *(bool *) p = v & 1;
        return;

    case KF_T_INT8:
        *(int8_t *) p = (int8_t) v;
        return;

    case KF_T_INT16:
    case KF_T_UINT16:
        *(int16_t *) p = (int16_t) v;
        return;

    case KF_T_INT32:
        *(int32_t *) p = (int32_t) v;
        return;

    case KF_T_INT64:
        *(int64_t *) p = wide;
        return;

    case KF_T_FLOAT64:
        *(double *) p = (int32_t) v;
        return;

    case KF_T_UUID:
        for (i = 0; i < 16; i++) {
            ((uint8_t *) p)[i] = (uint8_t) (v >> (24 - 8 * (i % 4)));
        }
        return;

    case KF_T_STRING:
    case KF_T_BYTES:
    case KF_T_RECORDS:
        text = kf_arena_printf(a, "%s%d", f->name, index);

        if (f->type == KF_T_RECORDS) {
            *(kf_records_t *) p = (kf_records_t) { text.data, text.len, NULL };

        } else {
            *(kf_str_t *) p = text;
        }

        return;

    case KF_T_STRUCT:
        abort();
    }
}


static inline void
walk_set_defaults(const kf_field_t *fields, int32_t n, void *base)
{
    int32_t            i;
    const kf_field_t  *f;

    for (i = 0; i < n; i++) {
        f = &fields[i];

        if (f->array) {
            *(int32_t *) walk_at(base, f->at_n) = f->null ? -1 : 0;

        } else if (f->kids && f->null_min > f->null_max) {
            walk_set_defaults(f->kids, f->kids_n, walk_at(base, f->at));

        } else if (f->value) {
            switch (f->type) {

            case KF_T_INT64:
                *(int64_t *) walk_at(base, f->at) = f->value;
                break;

            case KF_T_INT32:
                *(int32_t *) walk_at(base, f->at) = (int32_t) f->value;
                break;

            case KF_T_INT16:
                *(int16_t *) walk_at(base, f->at) = (int16_t) f->value;
                break;

            default:
                *(int8_t *) walk_at(base, f->at) = (int8_t) f->value;
                break;
            }
        }
    }
}


/*
 * base was zeroed or initialised.  Fields that the version lacks are filled
 * too: an encoder has to leave them out.
 */
static inline void
walk_fill(const walk_fill_t *w, const kf_field_t *fields, int32_t n,
    void *base, int32_t index)
{
    void              *p, *array;
    bool               null;
    int32_t            i, k, count;
    const kf_field_t  *f;

    for (i = 0; i < n; i++) {
        f = &fields[i];
        p = walk_at(base, f->at);

        if (f->tag >= 0 && !w->tags) {
            walk_set_defaults(f, 1, base);
            continue;
        }

        null = walk_nullable(f, w->version) && w->nulls
               && walk_random() % w->nulls == 0;

        if (f->array) {
            count = null ? -1
                    : w->count_fixed ? w->count_max
                    : (int32_t) (walk_random() % (uint32_t) (w->count_max + 1));
            array = count > 0 ? kf_arena_array(w->arena, (size_t) count,
                                               f->size)
                              : NULL;

            for (k = 0; k < count; k++) {
                if (f->kids) {
                    walk_fill(w, f->kids, f->kids_n,
                              walk_at(array, (size_t) k * f->size), k);
                } else {
                    w->value(f, k, walk_at(array, (size_t) k * f->size),
                             w->arena);
                }
            }

            *(void **) p = array;
            *(int32_t *) walk_at(base, f->at_n) = count;

        } else if (f->kids && f->null_min <= f->null_max) {
            if (!null) {
                *(void **) p = kf_arena_array(w->arena, 1, f->size);
                walk_fill(w, f->kids, f->kids_n, *(void **) p, index);
            }

        } else if (f->kids) {
            walk_fill(w, f->kids, f->kids_n, p, index);

        } else if (null) {
            memset(p, 0, f->size);

        } else {
            w->value(f, index, p, w->arena);
        }
    }
}


/* --- comparing --- */

static inline int64_t
walk_number(const kf_field_t *f, const void *p)
{
    switch (f->type) {

    case KF_T_BOOL:
        return *(const bool *) p;

    case KF_T_INT8:
        return *(const int8_t *) p;

    case KF_T_INT16:
        return *(const int16_t *) p;

    case KF_T_UINT16:
        return *(const uint16_t *) p;

    case KF_T_INT32:
        return *(const int32_t *) p;

    case KF_T_INT64:
        return *(const int64_t *) p;

    default:
        abort();
    }
}


/* Where a value may not be null, null was written as empty. */
static inline bool
walk_same_value(const kf_field_t *f, const void *p, const void *q,
    bool nullable)
{
    kf_str_t  a, b;

    switch (f->type) {

    case KF_T_UUID:
    case KF_T_FLOAT64:
        return memcmp(p, q, f->size) == 0;

    case KF_T_STRING:
    case KF_T_BYTES:
        a = *(const kf_str_t *) p;
        b = *(const kf_str_t *) q;
        return kf_str_eq(a, b) || (!nullable && a.data == NULL && b.data
                                   && b.len == 0);

    case KF_T_RECORDS:
        a.data = ((const kf_records_t *) p)->data;
        a.len = ((const kf_records_t *) p)->len;
        b.data = ((const kf_records_t *) q)->data;
        b.len = ((const kf_records_t *) q)->len;
        return kf_str_eq(a, b) && ((const kf_records_t *) q)->ref == NULL;

    default:
        return walk_number(f, p) == walk_number(f, q);
    }
}


static inline bool  walk_default(const kf_field_t *f, const void *base);


static inline bool
walk_defaults(const kf_field_t *fields, int32_t n, const void *base)
{
    int32_t  i;

    for (i = 0; i < n; i++) {
        if (!walk_default(&fields[i], base)) {
            return false;
        }
    }

    return true;
}


/* Whether a field that was not on the wire has its default. */
static inline bool
walk_default(const kf_field_t *f, const void *base)
{
    static const uint8_t  zero[16];

    const void  *p = walk_at(base, f->at);
    kf_str_t     s;

    if (f->array) {
        return *(void *const *) p == NULL
               && walk_count(f, base) == (f->null ? -1 : 0);
    }

    switch (f->type) {

    case KF_T_STRUCT:
        if (f->null_min <= f->null_max) {
            return *(void *const *) p == NULL;
        }

        return walk_defaults(f->kids, f->kids_n, p);

    case KF_T_STRING:
    case KF_T_BYTES:
        s = *(const kf_str_t *) p;
        return s.len == 0 && (s.data == NULL || f->null_min > f->null_max);

    case KF_T_RECORDS:
        return ((const kf_records_t *) p)->data == NULL;

    case KF_T_UUID:
        return memcmp(p, zero, f->size) == 0;

    case KF_T_FLOAT64:
        return *(const double *) p == (double) f->value;

    default:
        return walk_number(f, p) == f->value;
    }
}


/*
 * want as it was encoded, got as decoded: the fields of the version are equal,
 * all others have their defaults.  Returns NULL or the name of a field.
 */
static inline const char *
walk_differs(const kf_field_t *fields, int32_t n, const void *want,
    const void *got, int16_t version)
{
    int32_t            i, k, count;
    const void        *p, *q;
    const char        *name;
    const kf_field_t  *f;

    for (i = 0; i < n; i++) {
        f = &fields[i];
        p = walk_at(want, f->at);
        q = walk_at(got, f->at);
        name = NULL;

        if (!walk_in(f, version)) {
            name = walk_default(f, got) ? NULL : f->name;

        } else if (f->array) {
            count = walk_count(f, want);

            if (walk_count(f, got) != count) {
                return f->name;
            }

            p = *(void *const *) p;
            q = *(void *const *) q;

            for (k = 0; k < count && name == NULL; k++) {
                if (f->kids) {
                    name = walk_differs(f->kids, f->kids_n,
                                        walk_at(p, (size_t) k * f->size),
                                        walk_at(q, (size_t) k * f->size),
                                        version);

                } else if (!walk_same_value(f,
                                            walk_at(p, (size_t) k * f->size),
                                            walk_at(q, (size_t) k * f->size),
                                            false))
                {
                    name = f->name;
                }
            }

        } else if (f->kids && f->null_min <= f->null_max) {
            p = *(void *const *) p;
            q = *(void *const *) q;

            if ((p == NULL) != (q == NULL)) {
                return f->name;
            }

            if (p) {
                name = walk_differs(f->kids, f->kids_n, p, q, version);
            }

        } else if (f->kids) {
            name = walk_differs(f->kids, f->kids_n, p, q, version);

        } else if (!walk_same_value(f, p, q, walk_nullable(f, version))) {
            name = f->name;
        }

        if (name) {
            return name;
        }
    }

    return NULL;
}


/* --- bytes that end at a page that may not be touched --- */

#define WALK_ROOM  (1024 * 1024)


/* A place for len bytes; writing or reading one more is a SIGSEGV. */
static inline uint8_t *
walk_guarded(size_t len)
{
    static uint8_t  *room;

    if (room == NULL) {
        room = mmap(NULL, WALK_ROOM + 65536, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (room == MAP_FAILED
            || mprotect(room + WALK_ROOM, 65536, PROT_NONE) != 0)
        {
            abort();
        }
    }

    if (len > WALK_ROOM) {
        abort();
    }

    return room + WALK_ROOM - len;
}


/* Encodes in two passes into a malloc'ed buffer of exactly the counted size. */
static inline uint8_t *
walk_encode(const kf_message_t *m, int16_t version, const void *msg,
    size_t *len)
{
    uint8_t      *buf;
    kf_writer_t   w;

    kf_writer_count(&w);
    m->encode(&w, version, msg);
    *len = w.size;

    buf = malloc(w.size + 1);

    if (buf == NULL) {
        abort();
    }

    kf_writer_init(&w, buf, NULL);
    m->encode(&w, version, msg);

    if (w.size != *len) {
        abort();
    }

    return buf;
}

#endif
