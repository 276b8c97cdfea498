/*
 * Input: bytes to frames, frames to requests.
 *
 * Small frames are read together into one buffer of the worker and each
 * is copied into its request's pool; a large one is read straight into memory
 * of its own.  What is read but cannot be taken yet (too many requests, too
 * much unsent output) is kept in `rest`.  An idle connection has no buffer.
 *
 * Memory.  The bytes of requests that are held count against the broker's
 * budget.  Past it no connection begins a frame; half read ones go on one at a
 * time (`grower`), so that they cannot block each other.  Requests end by
 * themselves but for those that wait for records: when these hold most of what
 * there is, the largest are answered early (`relief`).
 */

#include "ngx_kafka_conn.h"


static void ngx_kafka_net_resume(ngx_event_t *ev);
static void ngx_kafka_net_relief(ngx_event_t *ev);
static void ngx_kafka_conn_not_grower(ngx_kafka_conn_t *kc);
static ngx_int_t ngx_kafka_conn_may_read(ngx_kafka_conn_t *kc);
static ssize_t ngx_kafka_conn_recv(ngx_kafka_conn_t *kc, size_t *direct);
static ngx_int_t ngx_kafka_conn_feed(ngx_kafka_conn_t *kc, u_char *p,
    size_t len, size_t *taken);
static ngx_int_t ngx_kafka_conn_begin(ngx_kafka_conn_t *kc, u_char **p,
    u_char *last);
static ngx_int_t ngx_kafka_conn_fill(ngx_kafka_conn_t *kc, u_char **p,
    u_char *last);
static ngx_int_t ngx_kafka_conn_frame(ngx_kafka_conn_t *kc);


#define NGX_KAFKA_RELIEF  50                    /* ms: most blocks are short */


u_char  *ngx_kafka_read_buffer;


/* --- the memory budget --------------------------------------------------- */

ngx_int_t
ngx_kafka_net_init(ngx_kafka_broker_t *b)
{
    ngx_kafka_net_t  *net;

    if (ngx_kafka_read_buffer == NULL) {
        ngx_kafka_read_buffer = ngx_alloc(NGX_KAFKA_READ_SIZE, ngx_cycle->log);

        if (ngx_kafka_read_buffer == NULL) {
            return NGX_ERROR;
        }
    }

    if (b->net) {
        return NGX_OK;
    }

    net = ngx_pcalloc(ngx_cycle->pool, sizeof(ngx_kafka_net_t));

    if (net == NULL) {
        return NGX_ERROR;
    }

    net->broker = b;
    net->resume.handler = ngx_kafka_net_resume;
    net->resume.data = net;
    net->resume.log = ngx_cycle->log;

    net->relief.handler = ngx_kafka_net_relief;
    net->relief.data = net;
    net->relief.log = ngx_cycle->log;
    net->relief.cancelable = 1;

    ngx_queue_init(&net->blocked);

    b->net = net;

    return NGX_OK;
}


void
ngx_kafka_charge(ngx_kafka_broker_t *b, size_t n)
{
    b->buffered += n;
}


void
ngx_kafka_uncharge(ngx_kafka_broker_t *b, size_t n)
{
    ngx_kafka_net_t  *net = b->net;

    b->buffered -= n;

    /* a little below, or each answer would wake everybody for one frame */

    if (!ngx_queue_empty(&net->blocked)
        && b->buffered <= b->buffer_budget - b->buffer_budget / 8)
    {
        ngx_post_event(&net->resume, &ngx_posted_events);
    }
}


/* Lets the blocked try again; those that still may not read come back. */
static void
ngx_kafka_net_resume(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_queue_t        blocked;
    ngx_kafka_link_t  *io;
    ngx_kafka_net_t   *net = ev->data;

    if (ngx_queue_empty(&net->blocked)) {
        return;
    }

    ngx_queue_init(&blocked);
    ngx_queue_add(&blocked, &net->blocked);
    ngx_queue_init(&net->blocked);

    while (!ngx_queue_empty(&blocked)) {
        q = ngx_queue_head(&blocked);
        ngx_queue_remove(q);

        io = ngx_queue_data(q, ngx_kafka_link_t, blocked);
        io->is_blocked = 0;
        io->frame_time = ngx_current_msec;      /* the wait was our doing */

        ngx_post_event(&io->work, &ngx_posted_events);
    }
}


/*
 * Fetches may wait for days, as Kafka lets them, and their clients never become
 * idle by it: without this they could keep the memory for as long.
 */
static void
ngx_kafka_net_relief(ngx_event_t *ev)
{
    size_t               bytes, largest, least, over;
    ngx_queue_t         *q;
    ngx_kafka_net_t     *net = ev->data;
    ngx_kafka_broker_t  *b = net->broker;

    if (ngx_queue_empty(&net->blocked)) {
        return;
    }

    bytes = 0;
    largest = 0;

    for (q = ngx_queue_head(&b->conns);
         q != ngx_queue_sentinel(&b->conns);
         q = ngx_queue_next(q))
    {
        ngx_kafka_relieve(ngx_queue_data(q, ngx_kafka_conn_t, queue), 1, 0,
                          &bytes, &largest);
    }

    if (bytes > b->buffer_budget / 2) {
        over = bytes - b->buffer_budget / 2;

        /* the largest first, roughly */

        for (least = largest / 2 + 1; over; least = least / 4 + 1) {

            for (q = ngx_queue_head(&b->conns);
                 q != ngx_queue_sentinel(&b->conns) && over;
                 q = ngx_queue_next(q))
            {
                ngx_kafka_relieve(ngx_queue_data(q, ngx_kafka_conn_t, queue),
                                  least, 1, &over, NULL);
            }

            if (least == 1) {
                break;
            }
        }
    }

    ngx_add_timer(ev, NGX_KAFKA_RELIEF);
}


static void
ngx_kafka_conn_not_grower(ngx_kafka_conn_t *kc)
{
    ngx_kafka_net_t  *net = kc->broker->net;

    if (net->grower == kc) {
        net->grower = NULL;

        if (!ngx_queue_empty(&net->blocked)) {
            ngx_post_event(&net->resume, &ngx_posted_events);
        }
    }
}


/* --- input --------------------------------------------------------------- */

/* NGX_OK: room for another request of this connection. */
ngx_int_t
ngx_kafka_conn_room(ngx_kafka_conn_t *kc)
{
    if (kc->requests_n >= NGX_KAFKA_PIPELINE
        || ngx_kafka_link(kc)->unsent > NGX_KAFKA_UNSENT_MAX)
    {
        return NGX_BUSY;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_kafka_conn_may_read(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t    *io = ngx_kafka_link(kc);
    ngx_kafka_net_t     *net;
    ngx_kafka_broker_t  *b = kc->broker;

    if (io->rest || ngx_kafka_conn_room(kc) != NGX_OK) {
        return NGX_BUSY;                /* goes on when an answer is out */
    }

    if (b->buffered < b->buffer_budget || b->buffered == 0) {
        return NGX_OK;
    }

    net = b->net;

    if (io->frame && net->grower == NULL) {
        net->grower = kc;
    }

    if (net->grower == kc) {
        return NGX_OK;
    }

    if (!io->is_blocked) {
        io->is_blocked = 1;
        ngx_queue_insert_tail(&net->blocked, &io->blocked);

        if (!net->relief.timer_set) {
            ngx_add_timer(&net->relief, NGX_KAFKA_RELIEF);
        }
    }

    return NGX_BUSY;
}


/*
 * Reads until there is no more, the turn is over or something is full.  Not
 * NGX_OK: the connection is to be freed.
 */
ngx_int_t
ngx_kafka_conn_read(ngx_kafka_conn_t *kc)
{
    size_t             total, direct, taken;
    u_char            *p;
    ssize_t            n;
    ngx_event_t       *rev;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    if (io->state != NGX_KAFKA_CONN_OPEN) {
        return NGX_OK;
    }

    rev = c->read;
    total = 0;

    if (ngx_kafka_conn_take_rest(kc) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_kafka_dispatch(kc);

    while (io->state == NGX_KAFKA_CONN_OPEN && !io->closing && rev->ready
           && ngx_kafka_conn_may_read(kc) == NGX_OK)
    {
        if (total >= NGX_KAFKA_READ_TURN) {
            ngx_post_event(rev, &ngx_posted_next_events);
            break;
        }

        c->log->action = "reading kafka request";

        n = ngx_kafka_conn_recv(kc, &direct);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR) {
            io->gone = 1;
            n = 0;
        }

        if (n == 0) {
            io->eof = 1;
            ngx_kafka_conn_end(kc, "kafka client closed", NGX_STREAM_OK);
            break;
        }

        total += n;
        kc->session->received += n;
        io->active = ngx_current_msec;

        if (direct && ngx_kafka_conn_frame(kc) != NGX_OK) {
            return NGX_ERROR;
        }

        n -= direct;

        if (n) {
            p = ngx_kafka_read_buffer;

            if (ngx_kafka_conn_feed(kc, p, n, &taken) != NGX_OK) {
                return NGX_ERROR;
            }

            if (taken < (size_t) n && io->state == NGX_KAFKA_CONN_OPEN
                && ngx_kafka_conn_keep(kc, p + taken, n - taken) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }

        ngx_kafka_dispatch(kc);
    }

    return NGX_OK;
}


/*
 * One recv: into the worker's buffer, or for the most part into the frame that
 * is half read, with what follows it going to the buffer.  *direct: bytes of
 * the former kind, already counted in frame_got.
 */
static ssize_t
ngx_kafka_conn_recv(ngx_kafka_conn_t *kc, size_t *direct)
{
    size_t             size, left;
    u_char            *p;
    ssize_t            n;
    ngx_buf_t          bufs[2];
    ngx_chain_t        chain[2];
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    *direct = 0;

    left = io->frame_len - io->frame_got;

    if (io->frame == NULL || left < NGX_KAFKA_READ_COPY) {

        /* of a large frame only the beginning has to be copied */

        return c->recv(c, ngx_kafka_read_buffer, io->bulk ? NGX_KAFKA_READ_BULK
                                                : NGX_KAFKA_READ_SIZE);
    }

    if (io->frame_got == io->frame_size) {
        size = ngx_min(io->frame_len, io->frame_size * 4);

        p = ngx_kafka_mem_grow(io->frame, io->frame_got, size,
                               &io->frame_size);
        if (p == NULL) {
            io->status = NGX_STREAM_INTERNAL_SERVER_ERROR;
            return NGX_ERROR;
        }

        io->frame = p;
    }

    size = ngx_min(left, io->frame_size - io->frame_got);

    if (size > NGX_KAFKA_READ_TURN) {
        size = NGX_KAFKA_READ_TURN;
    }

    ngx_memzero(bufs, sizeof(bufs));

    bufs[0].start = io->frame + io->frame_got;
    bufs[0].pos = bufs[0].start;
    bufs[0].last = bufs[0].start;
    bufs[0].end = bufs[0].start + size;

    chain[0].buf = &bufs[0];
    chain[0].next = NULL;

    if (size == left) {
        bufs[1].start = ngx_kafka_read_buffer;
        bufs[1].pos = ngx_kafka_read_buffer;
        bufs[1].last = ngx_kafka_read_buffer;
        bufs[1].end = ngx_kafka_read_buffer + NGX_KAFKA_READ_BULK;

        chain[0].next = &chain[1];
        chain[1].buf = &bufs[1];
        chain[1].next = NULL;
    }

    n = c->recv_chain(c, chain, 0);

    if (n > 0) {
        *direct = ngx_min((size_t) n, size);
        io->frame_got += *direct;
        ngx_kafka_charge(kc->broker, *direct);
    }

    return n;
}


/* Takes what is in p, as far as there is room for requests. */
static ngx_int_t
ngx_kafka_conn_feed(ngx_kafka_conn_t *kc, u_char *p, size_t len, size_t *taken)
{
    u_char            *start, *last;
    ngx_int_t          rc;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    start = p;
    last = p + len;

    while (p < last) {

        if (io->frame) {
            rc = ngx_kafka_conn_fill(kc, &p, last);

        } else if (ngx_kafka_conn_room(kc) == NGX_OK) {
            rc = ngx_kafka_conn_begin(kc, &p, last);

        } else {
            break;
        }

        if (rc != NGX_OK) {
            *taken = len;
            return rc == NGX_DECLINED ? NGX_OK : rc;
        }
    }

    *taken = p - start;

    return NGX_OK;
}


/*
 * Reads a frame's size; makes a request of a frame that is all there, or begins
 * to collect it.  NGX_DECLINED: the connection ends.
 */
static ngx_int_t
ngx_kafka_conn_begin(ngx_kafka_conn_t *kc, u_char **p, u_char *last)
{
    int32_t            size;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->head_n == 0) {
        io->frame_time = ngx_current_msec;
        io->frame_got = 0;
        io->frame_len = 0;
        io->frame_mark = 0;
    }

    while (io->head_n < 4) {

        if (*p == last) {
            return NGX_OK;
        }

        io->head[io->head_n++] = *(*p)++;
    }

    size = (int32_t) ((uint32_t) io->head[0] << 24 | io->head[1] << 16
                      | io->head[2] << 8 | io->head[3]);

    if (size < 1 || (size_t) size > kc->conf->request_max) {
        ngx_log_error(NGX_LOG_INFO, kc->connection->log, 0,
                      "kafka client sent a request of %D bytes, at most %uz "
                      "are taken", size, kc->conf->request_max);

        ngx_kafka_conn_end(kc, "bad request size", NGX_STREAM_BAD_REQUEST);
        return NGX_DECLINED;
    }

    io->head_n = 0;

    io->bulk = size > NGX_KAFKA_READ_SIZE;

    if (last - *p >= size && size <= NGX_KAFKA_READ_COPY) {

        if (ngx_kafka_request_create(kc, *p, size, NULL, 0) == NULL) {
            return NGX_ERROR;
        }

        *p += size;

        return NGX_OK;
    }

    io->frame = ngx_kafka_mem_get(ngx_min(size, NGX_KAFKA_FRAME_STEP),
                                  &io->frame_size);
    if (io->frame == NULL) {
        return NGX_ERROR;
    }

    io->frame_len = size;

    return NGX_OK;
}


/* Copies on into the frame that is half read. */
static ngx_int_t
ngx_kafka_conn_fill(ngx_kafka_conn_t *kc, u_char **p, u_char *last)
{
    size_t             n, size;
    u_char            *q;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    n = ngx_min((size_t) (last - *p), io->frame_len - io->frame_got);

    if (io->frame_got + n > io->frame_size) {
        size = ngx_min(io->frame_len, io->frame_size * 4);

        q = ngx_kafka_mem_grow(io->frame, io->frame_got, size,
                               &io->frame_size);
        if (q == NULL) {
            return NGX_ERROR;
        }

        io->frame = q;
    }

    ngx_memcpy(io->frame + io->frame_got, *p, n);
    io->frame_got += n;
    *p += n;

    ngx_kafka_charge(kc->broker, n);

    return ngx_kafka_conn_frame(kc);
}


/* The half read frame has grown: a request of it when it is whole. */
static ngx_int_t
ngx_kafka_conn_frame(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->frame_got < io->frame_len) {

        if (io->frame_got - io->frame_mark >= NGX_KAFKA_FRAME_PACE) {
            io->frame_mark = io->frame_got;
            io->frame_time = ngx_current_msec;
        }

        return NGX_OK;
    }

    if (ngx_kafka_request_create(kc, io->frame, io->frame_len, io->frame,
                                 io->frame_size)
        == NULL)
    {
        return NGX_ERROR;
    }

    /* the request counts its bytes itself */

    ngx_kafka_uncharge(kc->broker, io->frame_len);

    io->frame = NULL;
    io->frame_got = 0;
    io->frame_len = 0;

    ngx_kafka_conn_not_grower(kc);

    return NGX_OK;
}


ngx_int_t
ngx_kafka_conn_keep(ngx_kafka_conn_t *kc, u_char *p, size_t len)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    io->rest = ngx_kafka_mem_get(len, &io->rest_size);

    if (io->rest == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(io->rest, p, len);
    io->rest_pos = 0;
    io->rest_len = len;

    ngx_kafka_charge(kc->broker, len);

    return NGX_OK;
}


ngx_int_t
ngx_kafka_conn_take_rest(ngx_kafka_conn_t *kc)
{
    size_t             taken;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->rest == NULL) {
        return NGX_OK;
    }

    if (ngx_kafka_conn_feed(kc, io->rest + io->rest_pos,
                            io->rest_len - io->rest_pos, &taken)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (io->rest == NULL) {             /* dropped: the connection ends */
        return NGX_OK;
    }

    io->rest_pos += taken;

    if (io->rest_pos == io->rest_len) {
        ngx_kafka_conn_drop_rest(kc);
    }

    return NGX_OK;
}


void
ngx_kafka_conn_drop_rest(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->rest) {
        ngx_kafka_mem_put(io->rest, io->rest_size);
        ngx_kafka_uncharge(kc->broker, io->rest_len);
        io->rest = NULL;
    }
}


void
ngx_kafka_conn_drop_frame(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->frame) {
        ngx_kafka_mem_put(io->frame, io->frame_size);
        ngx_kafka_uncharge(kc->broker, io->frame_got);
        io->frame = NULL;
    }

    io->head_n = 0;

    ngx_kafka_conn_not_grower(kc);
}
