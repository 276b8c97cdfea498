/*
 * Records: whole ones in memory, and the scanner for pieces (kf_record.h).
 * Knows nothing of batches or codecs.
 */

#include "kf_record.h"


const uint8_t *
kf_uvar64_slow(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
    unsigned  shift;
    uint64_t  u = 0;

    for (shift = 0; shift < 64 && p < end; shift += 7) {

        if (shift == 63 && *p > 1) {
            return NULL;
        }

        u |= (uint64_t) (*p & 0x7f) << shift;

        if (*p++ < 0x80) {
            *v = u;
            return p;
        }
    }

    return NULL;
}


const uint8_t *
kf_uvar32_slow(const uint8_t *p, const uint8_t *end, uint32_t *v)
{
    unsigned  shift;
    uint32_t  u = 0;

    for (shift = 0; shift < 32 && p < end; shift += 7) {

        if (shift == 28 && *p > 0x0f) {
            return NULL;
        }

        u |= (uint32_t) (*p & 0x7f) << shift;

        if (*p++ < 0x80) {
            *v = u;
            return p;
        }
    }

    return NULL;
}


uint8_t *
kf_put_varint(uint8_t *p, int32_t v)
{
    uint32_t  u = (uint32_t) v << 1 ^ (uint32_t) (v >> 31);

    while (u >= 0x80) {
        *p++ = (uint8_t) (u | 0x80);
        u >>= 7;
    }

    *p++ = (uint8_t) u;

    return p;
}


/* Length and bytes; null (-1) only where nullable. */
static inline const uint8_t *
kf_record_bytes(const uint8_t *p, const uint8_t *end, bool nullable,
    kf_bytes_t *bytes)
{
    int32_t  len;

    p = kf_get_varint(p, end, &len);

    if (p == NULL) {
        return NULL;
    }

    if (len < 0) {
        *bytes = kf_null_str;
        return len == -1 && nullable ? p : NULL;
    }

    if (len > end - p) {
        return NULL;
    }

    bytes->data = p;
    bytes->len = (uint32_t) len;

    return p + len;
}


kf_rc_t
kf_header_next(const uint8_t **pos, const uint8_t *end, kf_str_t *key,
    kf_bytes_t *value)
{
    const uint8_t  *p;

    p = kf_record_bytes(*pos, end, false, key);

    if (p) {
        p = kf_record_bytes(p, end, true, value);
    }

    if (p == NULL) {
        return KF_MALFORMED;
    }

    *pos = p;

    return KF_OK;
}


bool
kf_headers_walk(const uint8_t *p, const uint8_t *end, int32_t count)
{
    kf_str_t    key;
    kf_bytes_t  value;

    while (count--) {
        if (kf_header_next(&p, end, &key, &value) != KF_OK) {
            return false;
        }
    }

    return p == end;
}


kf_rc_t
kf_record_next(const uint8_t **pos, const uint8_t *end, kf_record_t *record)
{
    int32_t         len;
    const uint8_t  *p;

    p = kf_get_varint(*pos, end, &len);

    if (p == NULL || len < 1 || len > end - p) {
        return KF_MALFORMED;
    }

    end = p + len;
    p++;                                /* attributes: none is defined */

    if ((p = kf_get_varlong(p, end, &record->timestamp_delta_ms)) == NULL
        || (p = kf_get_varint(p, end, &record->offset_delta)) == NULL
        || (p = kf_record_bytes(p, end, true, &record->key)) == NULL
        || (p = kf_record_bytes(p, end, true, &record->value)) == NULL
        || (p = kf_get_varint(p, end, &record->header_count)) == NULL
        || record->header_count < 0)
    {
        return KF_MALFORMED;
    }

    record->headers.data = p;
    record->headers.len = (uint32_t) (end - p);

    if (!kf_headers_walk(p, end, record->header_count)) {
        return KF_MALFORMED;
    }

    *pos = end;

    return KF_OK;
}


/* Notes that a key or value of len bytes follows; false when it can't. */
static inline bool
kf_scan_skip(kf_scan_t *scan, int64_t len, bool nullable)
{
    if (len < 0) {
        return len == -1 && nullable;
    }

    if (len > scan->left) {
        return false;
    }

    scan->skip = (uint32_t) len;
    scan->left -= scan->skip;

    return true;
}


/* Takes a whole varint and moves to the next state; false: malformed. */
static bool
kf_scan_field(kf_scan_t *scan, int64_t v)
{
    switch (scan->state) {

    case KF_SCAN_LENGTH:

        if (v < 1) {
            return false;
        }

        scan->left = (uint32_t) v;
        scan->state = KF_SCAN_ATTRIBUTES;
        return true;

    case KF_SCAN_TIMESTAMP:
        scan->brief.timestamp_delta_ms = v;
        scan->state = KF_SCAN_OFFSET;
        return true;

    case KF_SCAN_OFFSET:
        scan->brief.offset_delta = (int32_t) v;
        scan->state = KF_SCAN_KEY_LENGTH;
        return true;

    case KF_SCAN_KEY_LENGTH:
        scan->brief.key_null = v < 0;
        scan->state = KF_SCAN_VALUE_LENGTH;
        return kf_scan_skip(scan, v, true);

    case KF_SCAN_VALUE_LENGTH:
        scan->state = KF_SCAN_HEADER_COUNT;
        return kf_scan_skip(scan, v, true);

    case KF_SCAN_HEADER_COUNT:

        /* a header takes two bytes at least */

        if (v < 0 || v > scan->left / 2) {
            return false;
        }

        scan->headers = (uint32_t) v;
        scan->state = v ? KF_SCAN_HEADER_KEY : KF_SCAN_LENGTH;
        return true;

    case KF_SCAN_HEADER_KEY:
        scan->headers--;
        scan->state = KF_SCAN_HEADER_VALUE;
        return kf_scan_skip(scan, v, false);

    case KF_SCAN_HEADER_VALUE:
        scan->state = scan->headers ? KF_SCAN_HEADER_KEY : KF_SCAN_LENGTH;
        return kf_scan_skip(scan, v, true);

    case KF_SCAN_ATTRIBUTES:
        break;
    }

    return false;
}


kf_scan_rc_t
kf_scan(kf_scan_t *scan, const uint8_t **pos, const uint8_t *end)
{
    bool            begun;
    uint8_t         byte;
    size_t          n;
    unsigned        last;
    const uint8_t  *p = *pos;

    begun = !kf_scan_at_start(scan);

    for ( ;; ) {

        if (scan->skip) {
            n = (size_t) (end - p);
            n = n < scan->skip ? n : scan->skip;

            p += n;
            scan->skip -= (uint32_t) n;
        }

        if (begun && kf_scan_at_start(scan)) {
            *pos = p;
            return scan->left == 0 ? KF_SCAN_RECORD : KF_SCAN_BAD;
        }

        if (p == end) {
            *pos = p;
            return KF_SCAN_MORE;
        }

        begun = true;
        byte = *p++;

        if (scan->state != KF_SCAN_LENGTH) {
            if (scan->left == 0) {
                return KF_SCAN_BAD;
            }

            scan->left--;
        }

        if (scan->state == KF_SCAN_ATTRIBUTES) {
            scan->state = KF_SCAN_TIMESTAMP;
            continue;
        }

        last = scan->state == KF_SCAN_TIMESTAMP ? 63 : 28;

        if (scan->shift == last && byte > (last == 63 ? 0x01 : 0x0f)) {
            return KF_SCAN_BAD;
        }

        scan->acc |= (uint64_t) (byte & 0x7f) << scan->shift;

        if (byte & 0x80) {
            scan->shift += 7;
            continue;
        }

        n = scan->acc & 1;

        if (!kf_scan_field(scan, (int64_t) (scan->acc >> 1) ^ -(int64_t) n)) {
            return KF_SCAN_BAD;
        }

        scan->acc = 0;
        scan->shift = 0;
    }
}
