/*
 * The journal: a partition log of its own that the coordinator's state is
 * replayed from, and what keeps it short.  Snapshots: ngx_kafka_state.c.
 */

#include "ngx_kafka_life.h"

#include "../codec/gen/kf_journal.h"


/* Hands kc_compact() a snapshot, then the journal behind it. */
typedef struct {
    ngx_kafka_state_file_t   file;
    kl_log_t                *log;
    int64_t                  offset;
    int64_t                  upto;
    uint8_t                 *buf;
    size_t                   pos;
    size_t                   len;
    ngx_array_t             *deleted;           /* topic ids in the journal */
    ngx_uint_t               yields;            /* ends when the worker does */
    ngx_kafka_sink_t        *sink;              /* where the result goes */
} ngx_kafka_feed_t;


static ngx_int_t ngx_kafka_state_load(ngx_kafka_broker_t *b, kc_t *kc,
    int64_t offset);
static ngx_int_t ngx_kafka_journal_tail(ngx_kafka_broker_t *b, kl_log_t *log,
    kc_t *kc, int64_t offset, int64_t upto);
static int ngx_kafka_feed_next(void *ctx, const uint8_t **batch, size_t *len,
    int64_t *end);
static bool ngx_kafka_feed_deleted(void *ctx, int64_t offset,
    int64_t timestamp_ms, const kf_record_t *record);
static bool ngx_kafka_feed_write(void *ctx, uint8_t *batch, size_t len);


const kf_uuid_t  ngx_kafka_journal_id = {
    { 0x6a, 0x6f, 0x75, 0x72, 0x6e, 0x61, 0x4c, 0x00,
      0x80, 0, 0, 0, 0, 0, 0, 0x01 }
};

const kl_config_t  ngx_kafka_journal_config = {
    .segment_bytes = 4 * 1024 * 1024,           /* what a start may replay */
    .segment_ms = INT64_MAX,
    .segment_index_bytes = 1024 * 1024,
    .index_interval_bytes = 4096,
    .retention_ms = -1,
    .retention_bytes = -1,
    .producer_expiration_ms = INT64_MAX,
    .append_time = false,
    .compacted = false
};


kl_log_t *
ngx_kafka_journal_open(ngx_kafka_broker_t *b, int32_t slot,
    uint64_t incarnation)
{
    return kl_log_open(b->env, slot, incarnation, ngx_kafka_journal_id,
                       kf_str(NGX_KAFKA_JOURNAL), 0);
}


/* --- replay --------------------------------------------------------------- */

ngx_int_t
ngx_kafka_journal_replay(ngx_kafka_broker_t *b, kl_log_t *log, kc_t *kc,
    int64_t *snapshot)
{
    int64_t       offsets[64];
    kl_offsets_t  o;
    ngx_uint_t    i, n;

    kl_snapshot(kl_log_part(log), &o);

    n = ngx_kafka_states_list(b, offsets, 64);
    *snapshot = -1;

    /* no slots are bound until the end: only topics that are there need any */

    kc_recovery_begin(kc, ngx_kafka_io_deleted);

    for (i = 0; i < n; i++) {

        if (offsets[i] > o.log_end) {
            /*
             * The journal was flushed up to it before the file was made, so
             * this can only be a journal that lost its end.
             */
            ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                          "kafka_broker \"%V\": the journal ends at %L, before "
                          "its snapshot %L; the broker stays closed",
                          &b->name, o.log_end, offsets[i]);
            return NGX_ERROR;
        }

        ngx_kafka_zone_arena_reset(b->zone);

        if (kc_state_create(kc) == NULL) {
            goto no_memory;
        }

        if (ngx_kafka_state_load(b, kc, offsets[i]) == NGX_OK) {
            *snapshot = offsets[i];
            break;
        }
    }

    if (*snapshot == -1) {
        ngx_kafka_zone_arena_reset(b->zone);

        if (kc_state_create(kc) == NULL) {
            goto no_memory;
        }
    }

    if (ngx_max(*snapshot, 0) < o.log_start) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal begins at %L and no "
                      "good snapshot covers what was before; the broker stays "
                      "closed", &b->name, o.log_start);
        return NGX_ERROR;
    }

    if (ngx_kafka_journal_tail(b, log, kc, ngx_max(*snapshot, 0), o.log_end)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    switch (kc_replay_end(kc)) {

    case KC_OK:
        return NGX_OK;

    case KC_NO_MEMORY:
        goto no_memory;

    default:
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": %*s; the broker stays closed",
                      &b->name, (size_t) kc->problem.len, kc->problem.data);
        return NGX_ERROR;
    }

no_memory:

    ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                  "kafka_broker \"%V\": the zone is too small for the "
                  "journal's state, raise \"zone\"", &b->name);

    return NGX_ERROR;
}


static ngx_int_t
ngx_kafka_state_load(ngx_kafka_broker_t *b, kc_t *kc, int64_t offset)
{
    int                      rc;
    size_t                   len;
    kc_rc_t                  krc;
    const uint8_t           *batch;
    ngx_kafka_state_file_t   f;

    if (ngx_kafka_state_open(b, offset, &f) != NGX_OK) {
        return NGX_ERROR;
    }

    krc = KC_OK;

    while ((rc = ngx_kafka_state_next(&f, &batch, &len)) == 1) {
        krc = kc_replay(kc, batch, len, offset);
        if (krc != KC_OK) {
            break;
        }
    }

    ngx_kafka_state_close(&f);

    if (rc == 0 && krc == KC_OK && kc_applied(kc) == offset) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_ERR, b->log, 0,
                  "kafka_broker \"%V\": snapshot %L of the journal is not "
                  "usable: %*s", &b->name, offset,
                  krc != KC_OK ? (size_t) kc->problem.len
                               : sizeof("it is cut off") - 1,
                  krc != KC_OK ? (const u_char *) kc->problem.data
                               : (const u_char *) "it is cut off");

    return NGX_ERROR;
}


static ngx_int_t
ngx_kafka_journal_tail(ngx_kafka_broker_t *b, kl_log_t *log, kc_t *kc,
    int64_t offset, int64_t upto)
{
    size_t       pos, len;
    int64_t      next;
    uint8_t     *buf;
    kc_rc_t      rc;
    kl_rc_t      krc;
    kf_batch_t   kb;

    buf = ngx_alloc(NGX_KAFKA_READ, b->log);
    if (buf == NULL) {
        return NGX_ERROR;
    }

    rc = KC_OK;
    krc = KL_OK;

    while (offset < upto) {

        krc = kl_read_batches(log, offset, upto, buf, NGX_KAFKA_READ, &len,
                              &next);

        if (krc != KL_OK || len == 0) {
            break;
        }

        for (pos = 0; pos < len; pos += kb.size) {

            if (kf_batch_header(buf + pos, len - pos, &kb) != KF_OK
                || kb.size > len - pos
                || !kf_batch_crc_ok(buf + pos, &kb))
            {
                krc = KL_CORRUPT;
                break;
            }

            rc = kc_replay(kc, buf + pos, kb.size, kf_batch_next_offset(&kb));

            if (rc != KC_OK) {
                offset = kb.base_offset;
                break;
            }
        }

        if (rc != KC_OK || krc != KL_OK) {
            break;
        }

        offset = next;
    }

    ngx_free(buf);

    if (rc == KC_NO_MEMORY) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the zone is too small for the "
                      "journal's state, raise \"zone\"", &b->name);
        return NGX_ERROR;
    }

    if (rc != KC_OK) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal in \"%V/"
                      NGX_KAFKA_JOURNAL "-0\" cannot be replayed at offset %L: "
                      "%*s%s", &b->name, &b->data, offset,
                      (size_t) kc->problem.len, kc->problem.data,
                      rc == KC_NEWER ? "; a newer version of the module wrote "
                      "it, use that one" : "");
        return NGX_ERROR;
    }

    if (krc != KL_OK || offset < upto) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal in \"%V/"
                      NGX_KAFKA_JOURNAL "-0\" cannot be read at offset %L",
                      &b->name, &b->data, offset);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* --- writing snapshots ---------------------------------------------------- */

ngx_int_t
ngx_kafka_journal_snapshot(ngx_kafka_broker_t *b, kl_log_t *log, kc_t *kc,
    int64_t offset)
{
    kc_rc_t           rc;
    kc_time_t         now;
    ngx_kafka_sink_t  sink;

    if (ngx_kafka_sink_open(b, &sink) != NGX_OK) {
        return NGX_ERROR;
    }

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    rc = kc_snapshot(kc, now, ngx_kafka_sink_write, &sink);

    if (ngx_kafka_sink_done(b, &sink, offset, rc == KC_OK) != NGX_OK) {
        return NGX_ERROR;
    }

    atomic_store(&b->zone->snapshot, offset);
    ngx_kafka_states_prune(b, log);

    return NGX_OK;
}


ngx_int_t
ngx_kafka_journal_compact(ngx_kafka_broker_t *b)
{
    char                 problem[256];
    int64_t              newest[1], offset, flushed;
    kc_rc_t              rc;
    ngx_int_t            done;
    kc_time_t            now;
    kl_log_t            *log;
    kl_offsets_t         o;
    ngx_kafka_feed_t     feed;
    ngx_kafka_sink_t     sink;
    ngx_pool_t          *pool;
    ngx_kafka_zone_t    *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    log = ngx_kafka_journal_open(b, zone->journal_slot, o.incarnation);
    if (log == NULL) {
        return NGX_ERROR;
    }

    pool = ngx_create_pool(4096, b->log);
    if (pool == NULL) {
        kl_log_close(log);
        return NGX_ERROR;
    }

    done = NGX_DECLINED;
    ngx_memzero(&feed, sizeof(ngx_kafka_feed_t));
    feed.file.fd = -1;

    feed.log = log;
    feed.upto = kl_active_base(log);
    feed.yields = 1;

    if (ngx_kafka_states_list(b, newest, 1) == 0) {
        newest[0] = 0;
    }

    feed.offset = newest[0];

    if (feed.upto <= feed.offset) {
        goto done;
    }

    done = NGX_ERROR;

    feed.deleted = ngx_array_create(pool, 16, sizeof(kf_uuid_t));
    if (feed.deleted == NULL) {
        goto done;
    }

    /* a snapshot never speaks of what the journal could still lose */

    if (kl_flush(log, &flushed) != KL_OK || flushed < feed.upto) {
        goto done;
    }

    if (newest[0] > 0
        && ngx_kafka_state_open(b, newest[0], &feed.file) != NGX_OK)
    {
        goto done;
    }

    feed.buf = ngx_alloc(NGX_KAFKA_READ, b->log);
    if (feed.buf == NULL || ngx_kafka_sink_open(b, &sink) != NGX_OK) {
        goto done;
    }

    now.wall_ms = ngx_kafka_wall_ms();
    now.mono_ms = ngx_kafka_mono_ms();

    problem[0] = '\0';

    feed.sink = &sink;

    rc = kc_compact(now, ngx_kafka_feed_next, ngx_kafka_feed_write, &feed,
                    &offset, problem, sizeof(problem));

    if (rc != KC_OK && !ngx_exiting && !ngx_terminate) {
        ngx_log_error(NGX_LOG_CRIT, b->log, 0,
                      "kafka_broker \"%V\": the journal cannot be compacted: "
                      "%s", &b->name, problem);
    }

    /* what the snapshot will hide must be finished */

    done = ngx_kafka_sweep_deleted(b, NULL, feed.deleted);
    done = ngx_kafka_sink_done(b, &sink, offset,
                               rc == KC_OK && done == NGX_OK);

    if (done == NGX_OK) {
        atomic_store(&zone->snapshot, offset);
        ngx_kafka_states_prune(b, log);

        ngx_log_error(NGX_LOG_INFO, b->log, 0,
                      "kafka_broker \"%V\": journal compacted up to %L",
                      &b->name, offset);
    }

done:

    ngx_kafka_state_close(&feed.file);

    if (feed.buf) {
        ngx_free(feed.buf);
    }

    kl_log_close(log);
    ngx_destroy_pool(pool);

    return done;
}


static int
ngx_kafka_feed_next(void *ctx, const uint8_t **batch, size_t *len,
    int64_t *end)
{
    ngx_kafka_feed_t  *feed = ctx;

    int          rc;
    int64_t      next;
    kf_batch_t   kb;

    if (feed->file.fd != -1) {
        rc = ngx_kafka_state_next(&feed->file, batch, len);

        if (rc != 0) {
            *end = feed->offset;
            return rc;
        }

        ngx_kafka_state_close(&feed->file);
    }

    if (feed->pos == feed->len) {

        if (feed->offset >= feed->upto) {
            return 0;
        }

        if (feed->yields && (ngx_exiting || ngx_terminate)) {
            return -1;
        }

        if (kl_read_batches(feed->log, feed->offset, feed->upto, feed->buf,
                            NGX_KAFKA_READ, &feed->len, &next)
            != KL_OK || feed->len == 0)
        {
            feed->len = 0;
            feed->pos = 0;
            return -1;
        }

        feed->pos = 0;
        feed->offset = next;
    }

    if (kf_batch_header(feed->buf + feed->pos, feed->len - feed->pos, &kb)
        != KF_OK
        || kb.size > feed->len - feed->pos
        || !kf_batch_crc_ok(feed->buf + feed->pos, &kb))
    {
        return -1;
    }

    (void) kf_batch_each(feed->buf + feed->pos, &kb, INT64_MAX,
                         ngx_kafka_feed_deleted, feed);

    *batch = feed->buf + feed->pos;
    *len = kb.size;
    *end = kf_batch_next_offset(&kb);

    feed->pos += kb.size;

    return 1;
}


ngx_int_t
ngx_kafka_journal_sweep(ngx_kafka_broker_t *b, ngx_uint_t whole)
{
    int                 rc;
    size_t              len;
    int64_t             end;
    ngx_int_t           done;
    ngx_pool_t         *pool;
    kl_offsets_t        o;
    const uint8_t      *batch;
    ngx_kafka_feed_t    feed;
    ngx_kafka_zone_t   *zone = b->zone;

    kl_snapshot(kl_part(zone->parts, zone->journal_slot), &o);

    /* only what is on the disk: a deletion that gets lost did not happen */

    ngx_memzero(&feed, sizeof(ngx_kafka_feed_t));
    feed.file.fd = -1;
    feed.offset = ngx_max(whole ? 0 : atomic_load(&zone->swept), o.log_start);
    feed.upto = o.flushed;

    if (feed.offset >= feed.upto) {
        return NGX_OK;
    }

    pool = ngx_create_pool(4096, b->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    done = NGX_ERROR;

    feed.log = ngx_kafka_journal_open(b, zone->journal_slot, o.incarnation);
    if (feed.log == NULL) {
        ngx_destroy_pool(pool);
        return NGX_ERROR;
    }

    feed.deleted = ngx_array_create(pool, 16, sizeof(kf_uuid_t));
    feed.buf = ngx_alloc(NGX_KAFKA_READ, b->log);

    if (feed.deleted && feed.buf) {

        do {
            rc = ngx_kafka_feed_next(&feed, &batch, &len, &end);
        } while (rc == 1);

        if (rc == 0) {
            done = ngx_kafka_sweep_deleted(b, NULL, feed.deleted);
        }
    }

    if (done == NGX_OK) {
        atomic_store(&zone->swept, o.flushed);
    }

    kl_log_close(feed.log);
    ngx_free(feed.buf);
    ngx_destroy_pool(pool);

    return done;
}


/* Notes the topics whose deletion the snapshot will no longer tell. */
static bool
ngx_kafka_feed_deleted(void *ctx, int64_t offset, int64_t timestamp_ms,
    const kf_record_t *record)
{
    ngx_kafka_feed_t  *feed = ctx;

    int16_t                   type, version;
    kf_heap_t                 heap;
    kf_uuid_t                *id;
    kf_arena_t                none;
    kf_reader_t               r;
    kf_delete_topic_record_t  rec;

    ngx_memzero(&heap, sizeof(kf_heap_t));
    kf_arena_init(&none, kf_heap_chunk, &heap, 0);

    kf_reader_init(&r, record->value.data, record->value.len);
    type = kf_read_i16(&r);
    version = kf_read_i16(&r);

    if (r.rc != KF_OK || type != KF_DELETE_TOPIC_RECORD
        || kf_decode_delete_topic_record(&r, version, &none, &rec)
           != KF_OK)
    {
        return true;
    }

    id = ngx_array_push(feed->deleted);
    if (id) {
        *id = rec.topic_id;
    }

    return true;
}


/* kc_compact() has one context for both ends. */
static bool
ngx_kafka_feed_write(void *ctx, uint8_t *batch, size_t len)
{
    ngx_kafka_feed_t  *feed = ctx;

    return ngx_kafka_sink_write(feed->sink, batch, len);
}
