/*
 * What the generated field tables are made of.
 */

#ifndef MESSAGE_TYPES_H
#define MESSAGE_TYPES_H

#include "../../codec/kf_api.h"
#include "../../codec/gen/kf_messages.h"
#include "../../codec/gen/kf_journal.h"


typedef enum {
    KF_T_BOOL,
    KF_T_INT8,
    KF_T_INT16,
    KF_T_UINT16,
    KF_T_INT32,
    KF_T_INT64,
    KF_T_FLOAT64,
    KF_T_STRING,
    KF_T_BYTES,
    KF_T_UUID,
    KF_T_RECORDS,
    KF_T_STRUCT
} kf_type_t;


typedef enum {
    KF_M_REQUEST,
    KF_M_RESPONSE,
    KF_M_DATA,
    KF_M_RECORD
} kf_message_kind_t;


typedef struct kf_field_s  kf_field_t;

struct kf_field_s {
    const char        *name;
    kf_type_t          type;            /* of an element, if an array */
    bool               array;
    int16_t            min;             /* versions that have the field */
    int16_t            max;
    int16_t            null_min;        /* versions where it may be null; */
    int16_t            null_max;        /* none: min above max */
    int16_t            tag;             /* -1: none */
    size_t             at;              /* in the struct, of the field */
    size_t             at_n;            /* and of its count, if an array */
    size_t             size;            /* of an element, or of the value */
    const kf_field_t  *kids;            /* of a struct */
    int32_t            kids_n;
    int64_t            value;           /* default of a number */
    bool               null;            /* default is null */
};


typedef struct {
    const char         *name;
    kf_message_kind_t   kind;
    int16_t             key;
    int16_t             min;
    int16_t             max;
    int16_t             flexible;
    size_t              size;
    const kf_field_t   *fields;
    int32_t             fields_n;
    kf_rc_t           (*decode)(kf_reader_t *r, int16_t version, kf_arena_t *a,
                                void *m);
    void              (*encode)(kf_writer_t *w, int16_t version, const void *m);
    void              (*init)(void *m);     /* NULL: zeroes are its defaults */
} kf_message_t;


#define KF_MESSAGE_CALLS(id)                                                  \
                                                                              \
static kf_rc_t                                                                \
m_decode_##id(kf_reader_t *r, int16_t version, kf_arena_t *a, void *m)        \
{                                                                             \
    return kf_decode_##id(r, version, a, m);                                  \
}                                                                             \
                                                                              \
static void                                                                   \
m_encode_##id(kf_writer_t *w, int16_t version, const void *m)                 \
{                                                                             \
    kf_encode_##id(w, version, m);                                            \
}

#define KF_MESSAGE(id)                                                        \
                                                                              \
enum { m_init_##id = 0 };                                                     \
KF_MESSAGE_CALLS(id)

#define KF_MESSAGE_INIT(id)                                                   \
                                                                              \
static void                                                                   \
m_init_##id(void *m)                                                          \
{                                                                             \
    kf_init_##id(m);                                                          \
}                                                                             \
KF_MESSAGE_CALLS(id)

#endif
