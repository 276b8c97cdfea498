/*
 * A request's life.
 *
 *   received ──dispatch──> running ──> ready ──output──> gone
 *                            │  ↑
 *                          parked (ready broker, journal, the handler's own)
 *
 * Requests of a connection are dispatched in order and, as in Kafka, one at a
 * time: a request waits while an earlier one has no answer yet.  Only Produce
 * is pipelined: it runs behind earlier ones that have done their part and wait
 * for nothing but their flush (exclusive is clear).
 *
 * A request is freed when its answer is out, or when the connection goes; while
 * it is held (a thread works on its memory) it is dead instead, and the last
 * release frees it.
 */

#include "ngx_kafka_conn.h"


/* What decoding may take: structs are larger than their bytes on the wire, but
 * no honest request has a million elements. */
#define NGX_KAFKA_DECODE_BASE   (64 * 1024)
#define NGX_KAFKA_DECODE_RATIO  64
#define NGX_KAFKA_DECODE_MAX    (16 * 1024 * 1024)
/* What a handler may take for its answer. */
#define NGX_KAFKA_ANSWER_MAX    (128 * 1024 * 1024)
/* What was appended in the last so many milliseconds is in the page cache. */
#define NGX_KAFKA_RECENT        15000
/* Larger pieces of an arena count against the budget. */
#define NGX_KAFKA_CHUNK_FREE    (4 * 1024)

#define ngx_kafka_req(r)  ((ngx_kafka_req_t *) (r))


static void *ngx_kafka_request_chunk(void *ctx, size_t size);
static const ngx_kafka_api_t *ngx_kafka_served(int16_t key);
static void ngx_kafka_request_run(ngx_kafka_request_t *r);
static void ngx_kafka_unsupported(ngx_kafka_request_t *r);
static void ngx_kafka_request_ready(ngx_kafka_request_t *r);
static void ngx_kafka_request_free(ngx_kafka_req_t *q);
static ngx_int_t ngx_kafka_encode(ngx_kafka_request_t *r, int16_t version,
    const void *response);
static ngx_int_t ngx_kafka_chain(ngx_kafka_req_t *q, kf_writer_t *w);
static off_t ngx_kafka_warm_end(const kl_slice_t *slice, off_t last);
static void ngx_kafka_ready_watch(ngx_kafka_watch_t *w);
static void ngx_kafka_journal_watch(ngx_kafka_watch_t *w);


ngx_kafka_request_t *
ngx_kafka_request_create(ngx_kafka_conn_t *kc, u_char *frame, size_t len,
    u_char *mem, size_t mem_size)
{
    ngx_pool_t           *pool;
    ngx_kafka_req_t      *q;
    ngx_kafka_request_t  *r;

    pool = ngx_kafka_pool_get();
    if (pool == NULL) {
        return NULL;
    }

    q = ngx_pcalloc(pool, sizeof(ngx_kafka_req_t));
    if (q == NULL) {
        ngx_kafka_pool_put(pool);
        return NULL;
    }

    r = &q->r;

    if (mem == NULL) {
        r->frame = ngx_pnalloc(pool, len);

        if (r->frame == NULL) {
            ngx_kafka_pool_put(pool);
            return NULL;
        }

        ngx_memcpy(r->frame, frame, len);

    } else {
        r->frame = frame;
        q->mem = mem;
        q->mem_size = mem_size;
    }

    r->conn = kc;
    r->broker = kc->broker;
    r->pool = pool;
    r->frame_len = len;
    r->started = ngx_current_msec;
    r->wait = -1;
    r->exclusive = 1;

    r->watch.data = r;
    ngx_queue_init(&r->watch.queue);

    kf_arena_init(&r->arena, ngx_kafka_request_chunk, q,
                  ngx_min(NGX_KAFKA_DECODE_BASE + len * NGX_KAFKA_DECODE_RATIO,
                          NGX_KAFKA_DECODE_MAX));

    q->charged = len;
    ngx_kafka_charge(r->broker, len);

    kf_reader_init(&r->reader, r->frame, len);
    q->header = kf_read_request_header(&r->reader, &r->header);

    ngx_queue_insert_tail(&kc->requests, &r->queue);
    kc->requests_n++;

    return r;
}


static void *
ngx_kafka_request_chunk(void *ctx, size_t size)
{
    void             *p;
    ngx_kafka_req_t  *q = ctx;

    p = ngx_palloc(q->r.pool, size);

    if (p && size > NGX_KAFKA_CHUNK_FREE) {
        q->charged += size;
        ngx_kafka_charge(q->r.broker, size);
    }

    return p;
}


static const ngx_kafka_api_t *
ngx_kafka_served(int16_t key)
{
    ngx_uint_t  i;

    for (i = 0; i < ngx_kafka_apis_n; i++) {
        if (ngx_kafka_apis[i].key == key) {
            return &ngx_kafka_apis[i];
        }
    }

    return NULL;
}


/* --- dispatch ------------------------------------------------------------ */

void
ngx_kafka_dispatch(ngx_kafka_conn_t *kc)
{
    ngx_uint_t         waits;
    ngx_queue_t       *p;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_kafka_req_t   *q;

    if (io->busy || io->closing) {
        return;
    }

    io->busy = 1;
    waits = 0;

    for (p = ngx_queue_head(&kc->requests);
         p != ngx_queue_sentinel(&kc->requests);
         p = ngx_queue_next(p))
    {
        q = (ngx_kafka_req_t *) ngx_queue_data(p, ngx_kafka_request_t, queue);

        if (!q->dispatched) {

            if (io->unsent > NGX_KAFKA_UNSENT_MAX) {
                break;
            }

            if (waits && q->r.header.api_key != NGX_KAFKA_KEY_PRODUCE) {
                break;
            }

            q->dispatched = 1;

            ngx_kafka_request_run(&q->r);
        }

        if (q->failed) {
            break;
        }

        if (!q->r.ready) {
            if (q->r.exclusive) {
                break;
            }

            waits = 1;
        }
    }

    io->busy = 0;
}


/* Decodes and hands over; begins again when the broker was not open. */
static void
ngx_kafka_request_run(ngx_kafka_request_t *r)
{
    kf_rc_t           rc;
    ngx_kafka_req_t  *q = ngx_kafka_req(r);

    r->epoch = r->broker->epoch;

    if (q->header != KF_OK && q->header != KF_UNSUPPORTED) {
        ngx_kafka_fail(r, "malformed request header");
        return;
    }

    if (!kf_str_is_null(r->header.client_id)) {
        ngx_kafka_name_set(r->conn, 0, &r->conn->client_id,
                           r->header.client_id);
    }

    r->api = ngx_kafka_served(r->header.api_key);
    q->codec = kf_api(r->header.api_key);

    if (r->api == NULL || q->codec == NULL || q->header == KF_UNSUPPORTED) {
        ngx_kafka_unsupported(r);
        return;
    }

    if (!ngx_kafka_is_open(r->broker)
        && !(r->api->flags & NGX_KAFKA_API_BEFORE_OPEN))
    {
        ngx_kafka_park_ready(r, ngx_kafka_request_run);
        return;
    }

    r->body = kf_arena_array(&r->arena, 1, q->codec->request_size);

    if (r->body == NULL) {
        ngx_kafka_fail(r, "no memory for a request");
        return;
    }

    rc = q->codec->decode_request(&r->reader, r->header.api_version,
                                  &r->arena, r->body);

    if (rc != KF_OK) {
        ngx_kafka_fail(r, rc == KF_NO_MEMORY ? "request with too many elements"
                                             : "malformed request");
        return;
    }

    r->arena.left = NGX_KAFKA_ANSWER_MAX;

    r->api->handler(r);
}


static void
ngx_kafka_unsupported(ngx_kafka_request_t *r)
{
    const kf_api_t                       *codec = ngx_kafka_req(r)->codec;
    kf_api_versions_response_t            rsp;
    kf_api_versions_response_api_keys_t   key;

    if (r->header.api_key != NGX_KAFKA_KEY_VERSIONS || codec == NULL) {

        /* as Kafka does: there is no schema in which to say it */

        ngx_kafka_fail(r, "unsupported request");
        return;
    }

    /* KIP-511: version 0, and which versions would have been right */

    kf_init_api_versions_response(&rsp);

    key.api_key = codec->key;
    key.min_version = codec->advertised_min;
    key.max_version = codec->max;

    rsp.error_code = KF_ERR_UNSUPPORTED_VERSION;
    rsp.api_keys = &key;
    rsp.api_keys_n = 1;

    r->error = KF_ERR_UNSUPPORTED_VERSION;

    ngx_kafka_answer_version(r, 0, &rsp);
}


void
ngx_kafka_request_proceed(ngx_kafka_request_t *r)
{
    r->exclusive = 0;

    if (r->conn) {
        ngx_kafka_conn_write(r->conn);
    }
}


void
ngx_kafka_hurry(ngx_kafka_conn_t *kc)
{
    ngx_queue_t      *p, *next;
    ngx_kafka_req_t  *q;

    for (p = ngx_queue_head(&kc->requests);
         p != ngx_queue_sentinel(&kc->requests);
         p = next)
    {
        next = ngx_queue_next(p);

        q = (ngx_kafka_req_t *) ngx_queue_data(p, ngx_kafka_request_t, queue);

        if (q->dispatched && !q->r.ready && !q->hurried && q->r.hurry) {
            q->hurried = 1;
            q->r.hurry(&q->r);
        }
    }
}


void
ngx_kafka_relieve(ngx_kafka_conn_t *kc, size_t least, ngx_uint_t end,
    size_t *bytes, size_t *largest)
{
    ngx_queue_t      *p, *next;
    ngx_kafka_req_t  *q;

    for (p = ngx_queue_head(&kc->requests);
         p != ngx_queue_sentinel(&kc->requests);
         p = next)
    {
        next = ngx_queue_next(p);

        q = (ngx_kafka_req_t *) ngx_queue_data(p, ngx_kafka_request_t, queue);

        if (q->r.header.api_key != NGX_KAFKA_KEY_FETCH || !q->dispatched
            || q->r.ready || q->hurried || q->r.hurry == NULL
            || q->charged < least)
        {
            continue;
        }

        if (!end) {
            *bytes += q->charged;
            *largest = ngx_max(*largest, q->charged);
            continue;
        }

        *bytes -= ngx_min(*bytes, q->charged);

        q->hurried = 1;
        q->r.hurry(&q->r);

        if (*bytes == 0) {
            break;
        }
    }
}


/* --- ends of a handler --------------------------------------------------- */

void
ngx_kafka_answer(ngx_kafka_request_t *r, const void *response)
{
    ngx_kafka_answer_version(r, r->header.api_version, response);
}


void
ngx_kafka_answer_version(ngx_kafka_request_t *r, int16_t version,
    const void *response)
{
    if (ngx_kafka_encode(r, version, response) == NGX_OK) {
        ngx_kafka_request_ready(r);
    }
}


void
ngx_kafka_answer_when(ngx_kafka_request_t *r, const void *response,
    int64_t wait)
{
    if (ngx_kafka_encode(r, r->header.api_version, response) == NGX_OK) {
        ngx_kafka_park_journal(r, wait, ngx_kafka_request_ready);
    }
}


void
ngx_kafka_silence(ngx_kafka_request_t *r)
{
    r->silent = 1;
    ngx_kafka_request_ready(r);
}


void
ngx_kafka_fail(ngx_kafka_request_t *r, const char *why)
{
    if (r->conn) {
        ngx_log_error(NGX_LOG_INFO, r->conn->connection->log, 0,
                      "kafka %s: api key %d version %d, %uz bytes", why,
                      (int) r->header.api_key, (int) r->header.api_version,
                      r->frame_len);
    }

    ngx_kafka_req(r)->failed = why;
    ngx_kafka_request_ready(r);
}


/* The handler has done with it; now it waits for its turn to be written. */
static void
ngx_kafka_request_ready(ngx_kafka_request_t *r)
{
    ngx_kafka_link_t  *io;
    ngx_kafka_req_t   *q = ngx_kafka_req(r);

    if (r->conn == NULL) {
        return;
    }

    if (r->ready) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "kafka request with api key %d was answered twice",
                      (int) r->header.api_key);
        return;
    }

    r->ready = 1;
    r->cancel = NULL;
    r->hurry = NULL;

    if (q->failed == NULL) {
        io = ngx_kafka_link(r->conn);

        io->unsent += r->out_size;
        q->counted = 1;

        r->conn->served++;

        if (r->error) {
            r->conn->errors++;
        }
    }

    ngx_kafka_conn_write(r->conn);
}


/* --- encoding ------------------------------------------------------------ */

static ngx_int_t
ngx_kafka_encode(ngx_kafka_request_t *r, int16_t version, const void *response)
{
    size_t            size;
    u_char           *flat;
    uint32_t          n;
    kf_splice_t      *splices;
    kf_writer_t       w;
    ngx_kafka_req_t  *q = ngx_kafka_req(r);

    if (r->conn == NULL || r->ready || r->out) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "kafka request with api key %d was answered %s",
                      (int) r->header.api_key,
                      r->conn ? "twice" : "after its connection had gone");
        return NGX_ERROR;
    }

    /* from here on it is not the handler's any more */

    r->cancel = NULL;
    r->hurry = NULL;

    kf_writer_count(&w);
    kf_write_i32(&w, 0);
    kf_write_response_header(&w, &r->header);
    q->codec->encode_response(&w, version, response);

    size = w.size + w.spliced;
    n = w.splices_n;

    if (size - 4 > NGX_MAX_INT32_VALUE) {
        ngx_kafka_fail(r, "answer is too large");
        return NGX_ERROR;
    }

    flat = ngx_kafka_fault_fails("encode") ? NULL
                                           : ngx_pnalloc(r->pool, w.size);
    splices = NULL;

    if (n) {
        splices = ngx_palloc(r->pool, n * sizeof(kf_splice_t));
        q->files = ngx_pcalloc(r->pool, n * sizeof(ngx_kafka_file_buf_t));
    }

    if (flat == NULL || (n && (splices == NULL || q->files == NULL))) {
        ngx_kafka_fail(r, "no memory for an answer");
        return NGX_ERROR;
    }

    kf_writer_init(&w, flat, splices);
    kf_write_i32(&w, (int32_t) (size - 4));
    kf_write_response_header(&w, &r->header);
    q->codec->encode_response(&w, version, response);

    q->charged += w.size;
    ngx_kafka_charge(r->broker, w.size);

    if (ngx_kafka_chain(q, &w) != NGX_OK) {
        ngx_kafka_fail(r, "no memory for an answer");
        return NGX_ERROR;
    }

    r->out_size = size;

    return NGX_OK;
}


void
ngx_kafka_splice_own(ngx_kafka_request_t *r, ngx_kafka_splice_t *s)
{
    ngx_kafka_req_t  *q = ngx_kafka_req(r);

    s->next = q->splices;
    q->splices = s;
}


/* The flat bytes with the slices of files between them. */
static ngx_int_t
ngx_kafka_chain(ngx_kafka_req_t *q, kf_writer_t *w)
{
    size_t                     at, end;
    uint32_t                   i;
    ngx_buf_t                 *b;
    ngx_chain_t               *cl, **last;
    const kl_slice_t          *slice;
    ngx_kafka_request_t       *r = &q->r;
    ngx_kafka_file_buf_t      *f;
    const ngx_kafka_splice_t  *splice;

    last = &r->out;
    at = 0;
    i = 0;

    while (i < w->splices_n || at < w->size) {

        end = i < w->splices_n ? w->splices[i].at : w->size;

        if (end > at) {
            cl = ngx_alloc_chain_link(r->pool);
            b = ngx_calloc_buf(r->pool);

            if (cl == NULL || b == NULL) {
                return NGX_ERROR;
            }

            b->start = w->start + at;
            b->pos = b->start;
            b->end = w->start + end;
            b->last = b->end;
            b->temporary = 1;

            cl->buf = b;
            cl->next = NULL;
            *last = cl;
            last = &cl->next;

            at = end;
        }

        if (i == w->splices_n) {
            continue;
        }

        f = &q->files[i];
        splice = w->splices[i].ref;
        slice = &splice->slice;

        if (slice->len) {
            cl = ngx_alloc_chain_link(r->pool);

            if (cl == NULL) {
                return NGX_ERROR;
            }

            f->file.fd = slice->fd;
            f->file.name = r->broker->data;
            f->file.log = ngx_cycle->log;

            f->buf.in_file = 1;
            f->buf.file = &f->file;
            f->buf.file_pos = slice->pos;
            f->buf.file_last = slice->pos + w->splices[i].len;

            f->warm = ngx_kafka_warm_end(slice, f->buf.file_last);

            cl->buf = &f->buf;
            cl->next = NULL;
            *last = cl;
            last = &cl->next;
        }

        i++;
    }

    return NGX_OK;
}


/*
 * A consumer at the tail is spared the look whether its pages are there.  No
 * more than one turn of it: what a slow one takes later is looked at.
 */
static off_t
ngx_kafka_warm_end(const kl_slice_t *slice, off_t last)
{
    int64_t  age;

    if (slice->recent_ms == 0) {
        return slice->pos;
    }

    age = ngx_kafka_wall_ms() - slice->recent_ms;

    return age >= 0 && age < NGX_KAFKA_RECENT
           ? ngx_min(last, slice->pos + NGX_KAFKA_SEND_TURN) : slice->pos;
}


/* --- parking ------------------------------------------------------------- */

void
ngx_kafka_park_ready(ngx_kafka_request_t *r,
    void (*resume)(ngx_kafka_request_t *r))
{
    r->resume = resume;
    r->watch.handler = ngx_kafka_ready_watch;
    r->watch.data = r;

    ngx_kafka_watch_ready(r->broker, &r->watch);
}


static void
ngx_kafka_ready_watch(ngx_kafka_watch_t *w)
{
    ngx_kafka_request_t  *r = w->data;

    r->epoch = r->broker->epoch;

    r->resume(r);
}


void
ngx_kafka_park_journal(ngx_kafka_request_t *r, int64_t wait,
    void (*resume)(ngx_kafka_request_t *r))
{
    /* what Kafka keeps in its own topics is, as they are, in the page cache */

    if (wait < 0
        || (r->broker->caching && !r->durable
            && (r->api->flags & NGX_KAFKA_API_CACHED)))
    {
        resume(r);
        return;
    }

    r->wait = wait;
    r->resume = resume;
    r->watch.handler = ngx_kafka_journal_watch;
    r->watch.data = r;

    ngx_kafka_journal_watch(&r->watch);
}


static void
ngx_kafka_journal_watch(ngx_kafka_watch_t *w)
{
    ngx_int_t             rc;
    ngx_kafka_request_t  *r = w->data;
    ngx_kafka_broker_t   *b = r->broker;

    rc = ngx_kafka_journal_flushed(b, r->epoch, r->wait);

    if (rc == NGX_AGAIN) {

        if (b->journal == NULL) {
            ngx_kafka_watch_ready(b, w);
            return;
        }

        /* add, then look again: or a flush in between would be missed */

        ngx_kafka_watch_add(b, b->journal, w);

        rc = ngx_kafka_journal_flushed(b, r->epoch, r->wait);

        if (rc == NGX_AGAIN) {
            ngx_kafka_journal_want(b, r->wait);
            return;
        }

        ngx_kafka_watch_del(w);
    }

    if (rc != NGX_OK) {

        /* done or not, nobody knows: the client has to ask again */

        if (r->cancel) {
            r->cancel(r);
            r->cancel = NULL;
        }

        ngx_kafka_fail(r, "answer relied on a journal that failed");
        return;
    }

    r->resume(r);
}


/* --- the end of a request ------------------------------------------------ */

void
ngx_kafka_request_hold(ngx_kafka_request_t *r)
{
    ngx_kafka_req(r)->holds++;
}


ngx_int_t
ngx_kafka_request_release(ngx_kafka_request_t *r)
{
    ngx_kafka_req_t  *q = ngx_kafka_req(r);

    q->holds--;

    if (!r->dead) {
        return NGX_OK;
    }

    if (q->holds == 0) {
        ngx_kafka_request_free(q);
    }

    return NGX_DONE;
}


void
ngx_kafka_request_end(ngx_kafka_request_t *r)
{
    ngx_kafka_conn_t  *kc = r->conn;

    if (kc->conf->log_requests) {
        ngx_kafka_log_request(r);
    }

    ngx_queue_remove(&r->queue);
    kc->requests_n--;

    r->conn = NULL;
    r->dead = 1;

    if (ngx_kafka_req(r)->holds == 0) {
        ngx_kafka_request_free(ngx_kafka_req(r));
    }
}


void
ngx_kafka_request_abandon(ngx_kafka_request_t *r)
{
    ngx_chain_t       *cl;
    ngx_kafka_link_t  *io = ngx_kafka_link(r->conn);
    ngx_kafka_req_t   *q = ngx_kafka_req(r);

    if (q->dispatched && !r->ready && r->cancel) {
        r->cancel(r);
        r->cancel = NULL;
    }

    if (q->counted) {
        for (cl = r->out; cl; cl = cl->next) {
            io->unsent -= ngx_buf_size(cl->buf);
        }
    }

    ngx_queue_remove(&r->queue);
    r->conn->requests_n--;

    /* nothing may find it any more, even while a thread holds it */

    ngx_kafka_watch_del(&r->watch);

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    r->conn = NULL;
    r->dead = 1;

    if (q->holds == 0) {
        ngx_kafka_request_free(q);
    }
}


static void
ngx_kafka_request_free(ngx_kafka_req_t *q)
{
    ngx_kafka_splice_t   *s;
    ngx_kafka_request_t  *r = &q->r;

    ngx_kafka_watch_del(&r->watch);

    if (r->timer.timer_set) {
        ngx_del_timer(&r->timer);
    }

    if (r->timer.posted) {
        ngx_delete_posted_event(&r->timer);
    }

    for (s = q->splices; s; s = s->next) {
        kl_file_unref(s->slice.file);
    }

    ngx_kafka_mem_put(q->mem, q->mem_size);
    ngx_kafka_uncharge(r->broker, q->charged);

    ngx_kafka_pool_put(r->pool);
}
