/* Requests: records and topics; see wire.h. */

#include <stdio.h>
#include <stdlib.h>

#include "wire_int.h"


void *
wire_alloc(size_t n)
{
    void  *p = malloc(n ? n : 1);

    if (p == NULL) {
        abort();
    }

    return p;
}


frame_t
wire_request(int16_t api, int16_t version, bool flexible, wire_encode_pt encode,
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
            f.data = wire_alloc(f.len);
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


WIRE_ENCODER(produce)
WIRE_ENCODER(fetch)
WIRE_ENCODER(list_offsets)
WIRE_ENCODER(api_versions)
WIRE_ENCODER(metadata)
WIRE_ENCODER(create_topics)
WIRE_ENCODER(delete_topics)


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
    buf = wire_alloc(size);
    value = wire_alloc(record_bytes);

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

    f.data = wire_alloc(KF_BATCH_HEADER + len);
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
    t.name = wire_str(topic);
    t.partition_data = &p;
    t.partition_data_n = 1;
    m.acks = acks;
    m.timeout_ms = 30000;
    m.topic_data = &t;
    m.topic_data_n = 1;

    return wire_request(0, WIRE_PRODUCE, true, encode_produce, &m);
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
    t.topic = wire_str(topic);
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
    m.rack_id = wire_str("");

    return wire_request(1, WIRE_FETCH, true, encode_fetch, &m);
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
    t.name = wire_str(topic);
    t.partitions = &p;
    t.partitions_n = 1;
    m.replica_id = -1;
    m.topics = &t;
    m.topics_n = 1;

    return wire_request(2, WIRE_LIST_OFFSETS, true, encode_list_offsets, &m);
}


frame_t
wire_api_versions(void)
{
    kf_api_versions_request_t  m;

    kf_init_api_versions_request(&m);
    m.client_software_name = wire_str("bench");
    m.client_software_version = wire_str("1");

    return wire_request(18, WIRE_API_VERSIONS, true, encode_api_versions, &m);
}


frame_t
wire_metadata(const char *topic)
{
    kf_metadata_request_t         m;
    kf_metadata_request_topics_t  t;

    kf_init_metadata_request(&m);
    memset(&t, 0, sizeof(t));

    t.name = wire_str(topic);
    m.topics = &t;
    m.topics_n = 1;
    m.allow_auto_topic_creation = false;

    return wire_request(3, WIRE_METADATA, true, encode_metadata, &m);
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
    c = wire_alloc(sizeof(*c) * (size_t) n);

    for (i = 0; i < n; i++) {
        eq = strchr(configs[i], '=');
        if (eq == NULL) {
            fprintf(stderr, "%s: NAME=VALUE is wanted\n", configs[i]);
            exit(2);
        }

        c[i].name = (kf_str_t) { (const uint8_t *) configs[i],
                                 (uint32_t) (eq - configs[i]) };
        c[i].value = wire_str(eq + 1);
    }

    t.name = wire_str(topic);
    t.num_partitions = partitions;
    t.replication_factor = 1;
    t.configs = c;
    t.configs_n = n;
    m.topics = &t;
    m.topics_n = 1;
    m.timeout_ms = 30000;

    f = wire_request(19, WIRE_CREATE_TOPICS, true, encode_create_topics, &m);
    free(c);

    return f;
}


frame_t
wire_delete_topic(const char *topic)
{
    kf_str_t                    name = wire_str(topic);
    kf_delete_topics_request_t  m;

    memset(&m, 0, sizeof(m));
    m.topic_names = &name;
    m.topic_names_n = 1;
    m.timeout_ms = 30000;

    return wire_request(20, WIRE_DELETE_TOPICS, true, encode_delete_topics, &m);
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
