/* Requests and answers, see wire.h. */

#include <stdio.h>
#include <stdlib.h>

#include "wire.h"


#define ANSWER_ARENA  (64u << 20)


static void *
xmalloc(size_t n)
{
    void  *p = malloc(n ? n : 1);

    if (p == NULL) {
        abort();
    }

    return p;
}


static kf_str_t
str(const char *s)
{
    return (kf_str_t) { (const uint8_t *) s, (uint32_t) strlen(s) };
}


typedef void (*encode_pt)(kf_writer_t *w, int16_t version, const void *m);


/* Header v2 for flexible versions, v1 otherwise. */
static frame_t
request(int16_t api, int16_t version, bool flexible, encode_pt encode,
    const void *m)
{
    int          pass;
    frame_t      f = { NULL, 0 };
    kf_writer_t  w;

    static const char  client[] = "bench";

    for (pass = 0; pass < 2; pass++) {
        if (pass == 0) {
            kf_writer_count(&w);

        } else {
            f.data = xmalloc(f.len);
            kf_writer_init(&w, f.data, NULL);
        }

        kf_write_i32(&w, (int32_t) f.len - 4);
        kf_write_i16(&w, api);
        kf_write_i16(&w, version);
        kf_write_i32(&w, 0);
        kf_write_i16(&w, sizeof(client) - 1);
        kf_write_raw(&w, client, sizeof(client) - 1);
        if (flexible) {
            kf_write_i8(&w, 0);
        }

        encode(&w, version, m);
        f.len = w.size;
    }

    return f;
}


#define ENCODER(name)                                                         \
    static void                                                               \
    encode_##name(kf_writer_t *w, int16_t version, const void *m)             \
    {                                                                         \
        kf_encode_##name##_request(w, version, m);                            \
    }

ENCODER(produce)
ENCODER(fetch)
ENCODER(list_offsets)
ENCODER(api_versions)
ENCODER(metadata)
ENCODER(create_topics)
ENCODER(delete_topics)


/* Text that compresses to about half, as telemetry does. */
static void
fill(uint8_t *p, size_t n)
{
    size_t           i;
    static uint64_t  x = 88172645463325252u;

    for (i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t) (x & 0x10 ? "0123456789abcdef"[x & 15]
                                   : "{\"temperature\":2"[i & 15]);
    }
}


frame_t
wire_batch(int32_t count, size_t record_bytes, kf_codec_t codec,
    int64_t now_ms)
{
    size_t               size, len;
    frame_t              f;
    int32_t              i;
    uint8_t             *buf, *value, *area;
    kf_batch_t           b;
    kf_batch_builder_t   bb;

    size = KF_BATCH_HEADER + (size_t) count * (record_bytes + 24);
    buf = xmalloc(size);
    value = xmalloc(record_bytes);

    kf_batch_begin(&bb, buf, size, now_ms);

    for (i = 0; i < count; i++) {
        fill(value, record_bytes);

        if (kf_batch_add(&bb, kf_null_str,
                         (kf_bytes_t) { value, (uint32_t) record_bytes })
            != KF_OK)
        {
            abort();
        }
    }

    f.data = buf;
    f.len = kf_batch_end(&bb);
    free(value);

    if (codec == KF_CODEC_NONE) {
        return f;
    }

    if (kf_compress(codec, KF_LEVEL_DEFAULT, buf + KF_BATCH_HEADER,
                    f.len - KF_BATCH_HEADER, &area, &len)
        != KF_OK)
    {
        abort();
    }

    f.data = xmalloc(KF_BATCH_HEADER + len);
    f.len = KF_BATCH_HEADER + len;
    memcpy(f.data, buf, KF_BATCH_HEADER);
    memcpy(f.data + KF_BATCH_HEADER, area, len);
    free(area);
    free(buf);

    f.data[22] = (uint8_t) codec;
    f.data[8] = (uint8_t) ((f.len - 12) >> 24);
    f.data[9] = (uint8_t) ((f.len - 12) >> 16);
    f.data[10] = (uint8_t) ((f.len - 12) >> 8);
    f.data[11] = (uint8_t) (f.len - 12);

    if (kf_batch_header(f.data, f.len, &b) != KF_OK) {
        abort();
    }

    b.crc = kf_crc32c(0, f.data + 21, f.len - 21);
    f.data[17] = (uint8_t) (b.crc >> 24);
    f.data[18] = (uint8_t) (b.crc >> 16);
    f.data[19] = (uint8_t) (b.crc >> 8);
    f.data[20] = (uint8_t) b.crc;

    return f;
}


frame_t
wire_produce(const char *topic, int32_t partition, int16_t acks,
    const frame_t *batch)
{
    kf_produce_request_t                 m;
    kf_produce_request_topic_data_t      t;
    kf_produce_request_partition_data_t  p;

    memset(&m, 0, sizeof(m));
    memset(&t, 0, sizeof(t));
    memset(&p, 0, sizeof(p));

    p.index = partition;
    p.records.data = batch->data;
    p.records.len = (uint32_t) batch->len;
    t.name = str(topic);
    t.partition_data = &p;
    t.partition_data_n = 1;
    m.acks = acks;
    m.timeout_ms = 30000;
    m.topic_data = &t;
    m.topic_data_n = 1;

    return request(0, WIRE_PRODUCE, true, encode_produce, &m);
}


frame_t
wire_fetch(const char *topic, int32_t partition, int64_t offset,
    int32_t bytes_max)
{
    kf_fetch_request_t             m;
    kf_fetch_request_topics_t      t;
    kf_fetch_request_partitions_t  p;

    kf_init_fetch_request(&m);
    kf_init_fetch_request_partitions(&p);
    memset(&t, 0, sizeof(t));

    p.partition = partition;
    p.current_leader_epoch = -1;
    p.fetch_offset = offset;
    p.last_fetched_epoch = -1;
    p.log_start_offset = -1;
    p.partition_max_bytes = bytes_max;
    t.topic = str(topic);
    t.partitions = &p;
    t.partitions_n = 1;
    m.replica_id = -1;
    m.max_wait_ms = 500;
    m.min_bytes = 1;
    m.max_bytes = bytes_max;
    m.session_id = 0;
    m.session_epoch = -1;
    m.topics = &t;
    m.topics_n = 1;
    m.rack_id = str("");

    return request(1, WIRE_FETCH, true, encode_fetch, &m);
}


frame_t
wire_list_offsets(const char *topic, int32_t partition, int64_t ts)
{
    kf_list_offsets_request_t             m;
    kf_list_offsets_request_topics_t      t;
    kf_list_offsets_request_partitions_t  p;

    memset(&m, 0, sizeof(m));
    memset(&t, 0, sizeof(t));
    kf_init_list_offsets_request_partitions(&p);

    p.partition_index = partition;
    p.current_leader_epoch = -1;
    p.timestamp = ts;
    t.name = str(topic);
    t.partitions = &p;
    t.partitions_n = 1;
    m.replica_id = -1;
    m.topics = &t;
    m.topics_n = 1;

    return request(2, WIRE_LIST_OFFSETS, true, encode_list_offsets, &m);
}


frame_t
wire_api_versions(void)
{
    kf_api_versions_request_t  m;

    kf_init_api_versions_request(&m);
    m.client_software_name = str("bench");
    m.client_software_version = str("1");

    return request(18, WIRE_API_VERSIONS, true, encode_api_versions, &m);
}


frame_t
wire_metadata(const char *topic)
{
    kf_metadata_request_t         m;
    kf_metadata_request_topics_t  t;

    kf_init_metadata_request(&m);
    memset(&t, 0, sizeof(t));

    t.name = str(topic);
    m.topics = &t;
    m.topics_n = 1;
    m.allow_auto_topic_creation = false;

    return request(3, WIRE_METADATA, true, encode_metadata, &m);
}


frame_t
wire_create_topic(const char *topic, int32_t partitions, char **configs, int n)
{
    int                                  i;
    char                                *eq;
    frame_t                              f;
    kf_create_topics_request_t           m;
    kf_create_topics_request_topics_t    t;
    kf_create_topics_request_configs_t  *c;

    kf_init_create_topics_request(&m);
    memset(&t, 0, sizeof(t));
    c = xmalloc(sizeof(*c) * (size_t) n);

    for (i = 0; i < n; i++) {
        eq = strchr(configs[i], '=');
        if (eq == NULL) {
            fprintf(stderr, "%s: NAME=VALUE is wanted\n", configs[i]);
            exit(2);
        }

        c[i].name = (kf_str_t) { (const uint8_t *) configs[i],
                                 (uint32_t) (eq - configs[i]) };
        c[i].value = str(eq + 1);
    }

    t.name = str(topic);
    t.num_partitions = partitions;
    t.replication_factor = 1;
    t.configs = c;
    t.configs_n = n;
    m.topics = &t;
    m.topics_n = 1;
    m.timeout_ms = 30000;

    f = request(19, WIRE_CREATE_TOPICS, true, encode_create_topics, &m);
    free(c);

    return f;
}


frame_t
wire_delete_topic(const char *topic)
{
    kf_str_t                    name = str(topic);
    kf_delete_topics_request_t  m;

    memset(&m, 0, sizeof(m));
    m.topic_names = &name;
    m.topic_names_n = 1;
    m.timeout_ms = 30000;

    return request(20, WIRE_DELETE_TOPICS, true, encode_delete_topics, &m);
}


void
wire_correlate(uint8_t *frame, int32_t correlation_id)
{
    uint32_t  v = (uint32_t) correlation_id;

    frame[WIRE_CORRELATION] = (uint8_t) (v >> 24);
    frame[WIRE_CORRELATION + 1] = (uint8_t) (v >> 16);
    frame[WIRE_CORRELATION + 2] = (uint8_t) (v >> 8);
    frame[WIRE_CORRELATION + 3] = (uint8_t) v;
}


static void
note(answer_t *a, int16_t error, kf_str_t message)
{
    if (error == KF_ERR_NONE || a->error != KF_ERR_NONE) {
        return;
    }

    a->error = error;
    snprintf(a->message, sizeof(a->message), "%s: %.*s", kf_err_name(error),
             (int) (message.len < 200 ? message.len : 200),
             message.data ? (const char *) message.data : "");
}


/* The offset after the last whole batch; a fetch may end with a cut one. */
static int64_t
records_end(kf_records_t records)
{
    size_t      at;
    int64_t     next = -1;
    kf_batch_t  b;

    for (at = 0; at < records.len; at += b.size) {
        if (kf_batch_header(records.data + at, records.len - at, &b) != KF_OK
            || b.size > records.len - at)
        {
            break;
        }

        next = kf_batch_next_offset(&b);
    }

    return next;
}


static kf_rc_t
answer_body(int16_t api, kf_reader_t *r, kf_arena_t *arena, answer_t *a)
{
    kf_rc_t  rc;
    int32_t  i;

    union {
        kf_produce_response_t        produce;
        kf_fetch_response_t          fetch;
        kf_list_offsets_response_t   list_offsets;
        kf_metadata_response_t       metadata;
        kf_api_versions_response_t   api_versions;
        kf_create_topics_response_t  create_topics;
        kf_delete_topics_response_t  delete_topics;
    } m;

    memset(&m, 0, sizeof(m));

    switch (api) {

    case 0:
        rc = kf_decode_produce_response(r, WIRE_PRODUCE, arena, &m.produce);
        if (rc == KF_OK && m.produce.responses_n == 1
            && m.produce.responses[0].partition_responses_n == 1)
        {
            note(a, m.produce.responses[0].partition_responses[0].error_code,
                 m.produce.responses[0].partition_responses[0].error_message);
            return KF_OK;
        }
        return KF_MALFORMED;

    case 1:
        rc = kf_decode_fetch_response(r, WIRE_FETCH, arena, &m.fetch);
        if (rc != KF_OK) {
            return rc;
        }
        note(a, m.fetch.error_code, kf_null_str);
        if (m.fetch.responses_n == 1 && m.fetch.responses[0].partitions_n == 1)
        {
            kf_fetch_response_partitions_t  *p;

            p = &m.fetch.responses[0].partitions[0];
            note(a, p->error_code, kf_null_str);
            a->high_watermark = p->high_watermark;
            a->record_bytes = p->records.len;
            a->next_offset = records_end(p->records);
        }
        return KF_OK;

    case 2:
        rc = kf_decode_list_offsets_response(r, WIRE_LIST_OFFSETS, arena,
                                             &m.list_offsets);
        if (rc == KF_OK && m.list_offsets.topics_n == 1
            && m.list_offsets.topics[0].partitions_n == 1)
        {
            note(a, m.list_offsets.topics[0].partitions[0].error_code,
                 kf_null_str);
            return KF_OK;
        }
        return KF_MALFORMED;

    case 3:
        rc = kf_decode_metadata_response(r, WIRE_METADATA, arena, &m.metadata);
        if (rc == KF_OK && m.metadata.topics_n == 1) {
            note(a, m.metadata.topics[0].error_code, kf_null_str);
            for (i = 0; i < m.metadata.topics[0].partitions_n; i++) {
                a->leaders +=
                    m.metadata.topics[0].partitions[i].leader_id >= 0;
            }
        }
        return rc;

    case 18:
        rc = kf_decode_api_versions_response(r, WIRE_API_VERSIONS, arena,
                                             &m.api_versions);
        note(a, m.api_versions.error_code, kf_null_str);
        return rc;

    case 19:
        rc = kf_decode_create_topics_response(r, WIRE_CREATE_TOPICS, arena,
                                              &m.create_topics);
        if (rc == KF_OK && m.create_topics.topics_n == 1) {
            note(a, m.create_topics.topics[0].error_code,
                 m.create_topics.topics[0].error_message);
        }
        return rc;

    case 20:
        rc = kf_decode_delete_topics_response(r, WIRE_DELETE_TOPICS, arena,
                                              &m.delete_topics);
        if (rc == KF_OK && m.delete_topics.responses_n == 1) {
            note(a, m.delete_topics.responses[0].error_code, kf_null_str);
        }
        return rc;
    }

    return KF_UNSUPPORTED;
}


bool
wire_answer(int16_t api, const uint8_t *frame, size_t len, answer_t *a)
{
    kf_rc_t      rc;
    kf_heap_t    heap = { NULL };
    kf_arena_t   arena;
    kf_reader_t  r;

    memset(a, 0, sizeof(answer_t));
    a->next_offset = -1;

    kf_reader_init(&r, frame, len);
    a->correlation_id = kf_read_i32(&r);

    if (api != 18) {
        kf_skip_tags(&r);
    }

    kf_arena_init(&arena, kf_heap_chunk, &heap, ANSWER_ARENA);
    rc = answer_body(api, &r, &arena, a);
    kf_heap_free(&heap);

    return rc == KF_OK && r.rc == KF_OK;
}
