/*
 * Headers of requests and responses, and look-up in the generated API table.
 */

#include "kf_api.h"
#include "gen/kf_messages.h"


const kf_api_t *
kf_api(int16_t key)
{
    size_t  lo, hi, mid;

    lo = 0;
    hi = kf_api_count;

    while (lo < hi) {
        mid = (lo + hi) / 2;

        if (kf_api_table[mid].key == key) {
            return &kf_api_table[mid];
        }

        if (kf_api_table[mid].key < key) {
            lo = mid + 1;

        } else {
            hi = mid;
        }
    }

    return NULL;
}


kf_rc_t
kf_read_request_header(kf_reader_t *r, kf_request_header_t *h)
{
    const kf_api_t  *api;

    h->api_key = kf_read_i16(r);
    h->api_version = kf_read_i16(r);
    h->correlation_id = kf_read_i32(r);

    /* Never compact, so that it can be read whatever the version is. */
    h->client_id = kf_read_str(r, false, true);

    if (r->rc != KF_OK) {
        return r->rc;
    }

    api = kf_api(h->api_key);

    if (api == NULL || h->api_version < api->min || h->api_version > api->max) {
        return KF_UNSUPPORTED;
    }

    if (h->api_version >= api->flexible) {
        kf_skip_tags(r);
    }

    return r->rc;
}


void
kf_write_response_header(kf_writer_t *w, const kf_request_header_t *h)
{
    const kf_api_t  *api = kf_api(h->api_key);

    kf_write_i32(w, h->correlation_id);

    /* A client asks ApiVersions before it knows whether we know tags. */

    if (api && h->api_key != KF_API_API_VERSIONS
        && h->api_version >= api->flexible)
    {
        kf_write_uvarint(w, 0);
    }
}
