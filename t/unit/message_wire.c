/*
 * Reader and writer, headers, splices and error names against bytes written
 * by hand.
 */

#include "../tap.h"
#include "../../codec/kf_api.h"
#include "../../codec/gen/kf_messages.h"
#include "../../codec/gen/kf_journal.h"


static uint8_t  out[256];


static void
varints(void)
{
    static const struct {
        int64_t      value;
        const char  *bytes;
        size_t       len;
    } cases[] = {
        { 0, "\x00", 1 }, { -1, "\x01", 1 }, { 1, "\x02", 1 },
        { 63, "\x7e", 1 }, { -64, "\x7f", 1 }, { 64, "\x80\x01", 2 },
        { INT32_MAX, "\xfe\xff\xff\xff\x0f", 5 },
        { INT32_MIN, "\xff\xff\xff\xff\x0f", 5 },
        { INT64_MAX, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 },
        { INT64_MIN, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 },
    };

    size_t       i;
    kf_reader_t  r;
    kf_writer_t  w;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kf_writer_init(&w, out, NULL);
        kf_write_varlong(&w, cases[i].value);
        is_mem(out, w.size, cases[i].bytes, cases[i].len, "varlong written");

        kf_reader_init(&r, out, w.size);
        ok(kf_read_varlong(&r) == cases[i].value && r.rc == KF_OK
           && r.pos == r.end, "varlong %" PRId64 " read", cases[i].value);

        if (cases[i].value < INT32_MIN || cases[i].value > INT32_MAX) {
            kf_reader_init(&r, out, w.size);
            ok(kf_read_varint(&r) == 0 && r.rc == KF_MALFORMED,
               "and is too long for a varint");
            continue;
        }

        kf_writer_init(&w, out, NULL);
        kf_write_varint(&w, (int32_t) cases[i].value);
        is_mem(out, w.size, cases[i].bytes, cases[i].len, "varint written");

        kf_reader_init(&r, out, w.size);
        ok(kf_read_varint(&r) == cases[i].value && r.rc == KF_OK,
           "varint %" PRId64 " read", cases[i].value);
    }

    kf_reader_init(&r, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
    ok(kf_read_varlong(&r) == 0 && r.rc == KF_MALFORMED,
       "a varlong of 65 bits is malformed");

    kf_reader_init(&r, "\x80\x80", 2);
    ok(kf_read_uvarint(&r) == 0 && r.rc == KF_MALFORMED,
       "a varint without an end is malformed");
}


static void
sticky(void)
{
    kf_reader_t  r;

    kf_reader_init(&r, "\x01\x02\x03", 3);
    is(kf_read_i16(&r), 0x0102, "a number before the error");
    is(kf_read_i32(&r), 0, "a read past the end answers zero");
    is(r.rc, KF_MALFORMED, "and the reader has failed");
    is(kf_read_i8(&r), 0, "what is left is not read after that");
    kf_reader_fail(&r, KF_NO_MEMORY);
    is(r.rc, KF_MALFORMED, "the first error stays");
}


static void
numbers(void)
{
    kf_uuid_t    uuid = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                            16 } };
    kf_reader_t  r;
    kf_writer_t  w;

    kf_writer_init(&w, out, NULL);
    kf_write_i8(&w, -2);
    kf_write_i16(&w, -3);
    kf_write_i32(&w, -4);
    kf_write_i64(&w, -5);
    kf_write_f64(&w, 1.5);
    kf_write_uuid(&w, uuid);

    is_mem(out, w.size,
           "\xfe\xff\xfd\xff\xff\xff\xfc\xff\xff\xff\xff\xff\xff\xff\xfb"
           "\x3f\xf8\0\0\0\0\0\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 39,
           "numbers are big-endian");

    kf_reader_init(&r, out, w.size);
    is(kf_read_i8(&r), -2, "int8");
    is(kf_read_i16(&r), -3, "int16");
    is(kf_read_i32(&r), -4, "int32");
    is(kf_read_i64(&r), -5, "int64");
    ok(kf_read_f64(&r) == 1.5, "float64");
    ok(kf_uuid_eq(kf_read_uuid(&r), uuid), "uuid");
    ok(r.pos == r.end && r.rc == KF_OK, "all read");
}


static void
strings(void)
{
    static uint8_t  text[40000];

    kf_str_t     s = { text, sizeof(text) };
    kf_writer_t  w;
    kf_reader_t  r;

    kf_writer_init(&w, out, NULL);
    kf_write_str(&w, kf_str("ab"), false, false);
    kf_write_str(&w, kf_null_str, false, true);
    kf_write_str(&w, kf_null_str, false, false);
    kf_write_str(&w, kf_str("ab"), true, false);
    kf_write_str(&w, kf_null_str, true, true);
    kf_write_bytes(&w, kf_str("c"), false, true);
    kf_write_bytes(&w, kf_null_str, false, true);
    kf_write_bytes(&w, kf_null_str, true, true);
    kf_write_count(&w, -1, false, true);
    kf_write_count(&w, -1, false, false);
    kf_write_count(&w, -1, true, true);
    kf_write_count(&w, 200, true, true);
    is_mem(out, w.size, "\0\2ab" "\xff\xff" "\0\0" "\3ab" "\0" "\0\0\0\1c"
           "\xff\xff\xff\xff" "\0" "\xff\xff\xff\xff" "\0\0\0\0" "\0"
           "\xc9\1", 33, "strings, bytes and counts");

    kf_writer_count(&w);
    kf_write_str(&w, s, false, false);
    is((int64_t) w.size, 2 + 32767, "a string is cut where it can't be said");

    kf_reader_init(&r, "\x81\x80\x02" "aaaa", 7);
    (void) kf_read_str(&r, true, true);
    is(r.rc, KF_MALFORMED, "a compact string of 32768 bytes is malformed");
}


static void
request_headers(void)
{
    kf_reader_t          r;
    kf_request_header_t  h;

    kf_reader_init(&r, "\0\3\0\10\0\0\0\7\0\3abcX", 14);
    is(kf_read_request_header(&r, &h), KF_OK, "header v1");
    is(h.api_key, 3, "api key");
    is(h.api_version, 8, "version");
    is(h.correlation_id, 7, "correlation id");
    ok(kf_str_eq(h.client_id, kf_str("abc")), "client id");
    is((int64_t) kf_reader_left(&r), 1, "the body is next");

    kf_reader_init(&r, "\0\3\0\11\0\0\0\7\xff\xff\1\5\2zzX", 16);
    is(kf_read_request_header(&r, &h), KF_OK, "header v2 with a tagged field");
    ok(kf_str_is_null(h.client_id), "null client id");
    is((int64_t) kf_reader_left(&r), 1, "the body is next");

    kf_reader_init(&r, "\0\22\0\11\0\0\0\7\0\1c\0", 12);
    is(kf_read_request_header(&r, &h), KF_UNSUPPORTED,
       "a version of the future");
    is(h.correlation_id, 7, "of which the correlation id is known");
    ok(kf_str_eq(h.client_id, kf_str("c")), "and the client id");

    kf_reader_init(&r, "\x27\x0f\0\0\0\0\0\7\0\1c", 11);
    is(kf_read_request_header(&r, &h), KF_UNSUPPORTED, "an unknown key");

    kf_reader_init(&r, "\0\3\xff\xff\0\0\0\7\0\1c", 11);
    is(kf_read_request_header(&r, &h), KF_UNSUPPORTED, "version -1");

    kf_reader_init(&r, "\0\3\0\10\0\0\0\7\0\4abc", 13);
    is(kf_read_request_header(&r, &h), KF_MALFORMED, "client id cut off");

    kf_reader_init(&r, "\0\3\0\10\0\0\0", 7);
    is(kf_read_request_header(&r, &h), KF_MALFORMED, "header cut off");

    kf_reader_init(&r, "", 0);
    is(kf_read_request_header(&r, &h), KF_MALFORMED, "nothing");
}


static void
response_headers(void)
{
    kf_writer_t          w;
    kf_request_header_t  h = { KF_API_METADATA, 8, 0x01020304, { NULL, 0 } };

    kf_writer_init(&w, out, NULL);
    kf_write_response_header(&w, &h);
    is_mem(out, w.size, "\1\2\3\4", 4, "response header v0");

    h.api_version = 9;
    kf_writer_init(&w, out, NULL);
    kf_write_response_header(&w, &h);
    is_mem(out, w.size, "\1\2\3\4\0", 5, "response header v1 when flexible");

    h.api_key = KF_API_API_VERSIONS;
    h.api_version = 4;
    kf_writer_init(&w, out, NULL);
    kf_write_response_header(&w, &h);
    is_mem(out, w.size, "\1\2\3\4", 4, "ApiVersions always has v0");
}


static void
api_table(void)
{
    size_t           i;
    const kf_api_t  *api;

    for (i = 1; i < kf_api_count; i++) {
        if (kf_api_table[i].key <= kf_api_table[i - 1].key) {
            break;
        }
    }

    is((int64_t) i, (int64_t) kf_api_count, "the table is sorted");

    for (i = 0; i < kf_api_count; i++) {
        if (kf_api(kf_api_table[i].key) != &kf_api_table[i]) {
            break;
        }
    }

    is((int64_t) i, (int64_t) kf_api_count, "every API is found");
    ok(kf_api(-1) == NULL && kf_api(4) == NULL && kf_api(INT16_MAX) == NULL,
       "no other is");

    api = kf_api(KF_API_PRODUCE);
    is(api->min, 3, "Produce: oldest version");
    is(api->advertised_min, 0, "Produce: advertised from 0");
    is(api->max, 13, "Produce: newest version");
    is(api->flexible, 9, "Produce: first flexible version");
    is_str(api->name, "Produce", "Produce: name");
    is(kf_api(KF_API_OFFSET_DELETE)->flexible, 1, "never flexible: max + 1");
    is((int64_t) api->request_size, sizeof(kf_produce_request_t),
       "size of the request's struct");
}


static bool
contains(const uint8_t *in, size_t len, const void *what, size_t n)
{
    size_t  i;

    for (i = 0; i + n <= len; i++) {
        if (memcmp(in + i, what, n) == 0) {
            return true;
        }
    }

    return false;
}


/* Records in memory are copied; records in a file leave a gap to be spliced. */
static void
splices(void)
{
    int                              part1, part2;
    uint8_t                          flat[256];
    kf_splice_t                      splice[2];
    kf_writer_t                      w, count;
    kf_fetch_response_t              rsp = { 0 };
    kf_fetch_response_responses_t    topic = { 0 };
    kf_fetch_response_partitions_t   p[3];

    kf_init_fetch_response_partitions(&p[0]);
    kf_init_fetch_response_partitions(&p[1]);
    kf_init_fetch_response_partitions(&p[2]);
    p[0].records = (kf_records_t) { NULL, 1000, &part1 };
    p[1].records = (kf_records_t) { (const uint8_t *) "xyz", 3, NULL };
    p[2].records = (kf_records_t) { NULL, 7, &part2 };
    topic.topic = kf_str("t");
    topic.partitions = p;
    topic.partitions_n = 3;
    rsp.responses = &topic;
    rsp.responses_n = 1;

    kf_writer_count(&count);
    kf_encode_fetch_response(&count, 12, &rsp);
    is(count.splices_n, 2, "two splices are counted");
    is((int64_t) count.spliced, 1007, "and their bytes");

    kf_writer_init(&w, flat, splice);
    kf_encode_fetch_response(&w, 12, &rsp);
    is((int64_t) w.size, (int64_t) count.size, "flat bytes as counted");
    ok(splice[0].ref == &part1 && splice[0].len == 1000
       && splice[1].ref == &part2 && splice[1].len == 7, "both are noted");
    is_mem(flat + splice[0].at - 2, 2, "\xe9\7", 2,
           "the length before the gap");
    is_mem(flat + splice[0].at, 1, "\0", 1, "the tags after it");
    is_mem(flat + splice[1].at - 1, 2, "\10\0", 2,
           "length and tags of the last");
    ok(contains(flat, w.size, "\4xyz\0", 5), "records in memory are copied");
}


static void
errors(void)
{
    is_str(kf_err_name(0), "NONE", "0");
    is_str(kf_err_name(-1), "UNKNOWN_SERVER_ERROR", "-1");
    is_str(kf_err_name(3), "UNKNOWN_TOPIC_OR_PARTITION", "3");
    is_str(kf_err_name(KF_ERR_INVALID_RECORD), "INVALID_RECORD", "87");
    is_str(kf_err_name(999), "UNKNOWN_ERROR_CODE", "no such code");
}


static void
journal(void)
{
    const kf_journal_type_t  *t = kf_journal_type(KF_SNAPSHOT_END_RECORD);

    ok(t && t->number == 9 && t->max_version == 0
       && strcmp(t->name, "SnapshotEndRecord") == 0, "a record by number");
    ok(kf_journal_type(0) == NULL && kf_journal_type(-1) == NULL
       && kf_journal_type(9999) == NULL, "no other is known");
}


int
main(void)
{
    varints();
    sticky();
    numbers();
    strings();
    request_headers();
    response_headers();
    api_table();
    splices();
    errors();
    journal();

    return done_testing();
}
