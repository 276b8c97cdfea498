/*
 * Request and response headers, and the table of the APIs that the codec can
 * parse, from which ApiVersions is answered.
 */

#ifndef KF_API_H
#define KF_API_H

#include "kf_arena.h"
#include "kf_reader.h"
#include "kf_writer.h"

#pragma GCC visibility push(hidden)


typedef struct {
    int16_t   api_key;
    int16_t   api_version;
    int32_t   correlation_id;
    kf_str_t  client_id;                /* may be null */
} kf_request_header_t;

typedef struct {
    int16_t      key;
    int16_t      min;                   /* versions that the schema has */
    int16_t      max;
    int16_t      advertised_min;        /* Produce: 0 (librdkafka's quirk) */
    int16_t      flexible;              /* first flexible version, or max + 1 */
    const char  *name;                  /* "Produce" */
    size_t       request_size;          /* of the request's struct */
    kf_rc_t    (*decode_request)(kf_reader_t *r, int16_t version,
                                 kf_arena_t *a, void *request);
    void       (*encode_response)(kf_writer_t *w, int16_t version,
                                  const void *response);
} kf_api_t;

/* All APIs that the schemas have, by ascending key (gen/kf_api_table.c). */
extern const kf_api_t  kf_api_table[];
extern const size_t    kf_api_count;

/* NULL: no such API in the schemas. */
const kf_api_t *kf_api(int16_t key);

/*
 * Reads the header of a request frame (without its size field) and leaves r at
 * the body.  The first four fields are filled in even when the version is one
 * that we do not know (KF_UNSUPPORTED).
 */
kf_rc_t kf_read_request_header(kf_reader_t *r, kf_request_header_t *h);

/* Response header v0 or v1; ApiVersions always has v0. */
void kf_write_response_header(kf_writer_t *w, const kf_request_header_t *h);


#pragma GCC visibility pop

#endif
