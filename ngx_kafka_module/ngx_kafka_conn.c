/*
 * Connections: frames in, answers out, in order.
 *
 *   WAIT ──broker is open──> OPEN ──end of input──> DRAIN ──> LINGER ──> gone
 *     └───────────────────────┴────── error, reset ────────────────────> gone
 *
 *   WAIT    the broker is not open: nothing is read             conn_handler()
 *   OPEN    frames are read, requests dispatched, answers sent   conn_opened()
 *   DRAIN   nothing more is read; what was received is answered     conn_end()
 *   LINGER  all is sent and our side shut down; input is discarded until the
 *           client closes, for a second at most                  conn_linger()
 *
 * DRAIN begins with the client's end of file, a bad frame, an idle timeout or
 * the worker's exit.  A connection is torn down only in its own event handlers
 * (read, write, timer and the posted `work`), never inside a call from a
 * request's handler: those post `work`, so that whoever calls may go on using
 * the connection, and answers that become ready together leave together.
 *
 * A client that has gone, by a reset or by closing, may have sent requests that
 * need no answer (acks=0): what was received is still dispatched, and answers
 * are dropped.
 */

#include "ngx_kafka_conn.h"


static void ngx_kafka_conn_opened(ngx_kafka_watch_t *w);
static void ngx_kafka_conn_read_handler(ngx_event_t *rev);
static void ngx_kafka_conn_write_handler(ngx_event_t *wev);
static void ngx_kafka_conn_work(ngx_event_t *ev);
static void ngx_kafka_conn_run(ngx_kafka_conn_t *kc);
static void ngx_kafka_conn_timer(ngx_kafka_conn_t *kc);
static void ngx_kafka_conn_settle(ngx_kafka_conn_t *kc);
static void ngx_kafka_conn_linger(ngx_kafka_conn_t *kc);
#if (NGX_STREAM_SSL)
static void ngx_kafka_conn_ssl_shut(ngx_connection_t *c);
#endif
static void ngx_kafka_conn_discard(ngx_kafka_conn_t *kc);


void
ngx_kafka_conn_handler(ngx_stream_session_t *s)
{
    ngx_buf_t                    *buf;
    ngx_kafka_link_t             *io;
    ngx_connection_t             *c;
    ngx_kafka_conn_t             *kc;
    ngx_kafka_broker_t           *b;
    ngx_stream_kafka_srv_conf_t  *conf;

    c = s->connection;
    conf = ngx_stream_get_module_srv_conf(s, ngx_stream_kafka_module);
    b = conf->broker;

    c->log->action = "opening kafka connection";

    io = ngx_pcalloc(c->pool, sizeof(ngx_kafka_link_t));

    if (io == NULL || ngx_kafka_net_init(b) != NGX_OK) {
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
        return;
    }

    kc = &io->kc;

    kc->io = io;
    kc->session = s;
    kc->connection = c;
    kc->conf = conf;
    kc->broker = b;

    io->status = NGX_STREAM_OK;
    io->active = ngx_current_msec;

    io->work.handler = ngx_kafka_conn_work;
    io->work.data = kc;
    io->work.log = c->log;

    io->watch.handler = ngx_kafka_conn_opened;
    io->watch.data = kc;

    ngx_queue_init(&kc->requests);
    ngx_queue_insert_tail(&b->conns, &kc->queue);
    b->conns_n++;

    ngx_stream_set_ctx(s, kc, ngx_stream_kafka_module);

    c->read->handler = ngx_kafka_conn_read_handler;
    c->write->handler = ngx_kafka_conn_write_handler;

    ngx_add_timer(c->read, conf->idle_timeout ? conf->idle_timeout
                                              : NGX_KAFKA_IDLE_TIMEOUT);

    buf = c->buffer;                            /* left by a preread phase */

    if (ngx_tcp_nodelay(c) != NGX_OK
        || (buf && buf->pos < buf->last
            && ngx_kafka_conn_keep(kc, buf->pos, buf->last - buf->pos)
               != NGX_OK))
    {
        io->status = NGX_STREAM_INTERNAL_SERVER_ERROR;
        ngx_kafka_conn_free(kc);
        return;
    }

    if (buf) {
        buf->pos = buf->last;
    }

    if (!ngx_kafka_is_open(b) && !ngx_exiting) {
        c->idle = 1;
        c->log->action = "waiting for the kafka broker to open";

        ngx_kafka_watch_ready(b, &io->watch);

        if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
            ngx_kafka_conn_free(kc);
        }

        return;
    }

    ngx_kafka_conn_opened(&io->watch);
}


static void
ngx_kafka_conn_opened(ngx_kafka_watch_t *w)
{
    ngx_kafka_conn_t  *kc = w->data;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->state != NGX_KAFKA_CONN_WAIT) {
        return;
    }

    io->state = NGX_KAFKA_CONN_OPEN;

    if (ngx_exiting) {
        ngx_kafka_conn_end(kc, "the worker is exiting", NGX_STREAM_OK);
    }

    ngx_kafka_conn_run(kc);
}


/* --- events -------------------------------------------------------------- */

static void
ngx_kafka_conn_read_handler(ngx_event_t *rev)
{
    ngx_connection_t      *c = rev->data;
    ngx_stream_session_t  *s = c->data;
    ngx_kafka_conn_t      *kc;
    ngx_kafka_link_t      *io;

    kc = ngx_stream_get_module_ctx(s, ngx_stream_kafka_module);
    io = ngx_kafka_link(kc);

    if (c->close) {
        c->close = 0;

        if (c->error) {                 /* worker_shutdown_timeout is over */
            ngx_kafka_conn_free(kc);
            return;
        }

        ngx_kafka_conn_end(kc, "the worker is exiting", NGX_STREAM_OK);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;
        ngx_kafka_conn_timer(kc);
        return;
    }

    if (io->state == NGX_KAFKA_CONN_LINGER) {
        ngx_kafka_conn_discard(kc);
        return;
    }

    if (ngx_exiting && io->state == NGX_KAFKA_CONN_OPEN) {
        ngx_kafka_conn_end(kc, "the worker is exiting", NGX_STREAM_OK);
        return;
    }

    if (io->state == NGX_KAFKA_CONN_WAIT && rev->pending_eof) {
        ngx_kafka_conn_free(kc);
        return;
    }

    if (ngx_kafka_conn_read(kc) != NGX_OK) {
        ngx_kafka_conn_free(kc);
        return;
    }

    ngx_kafka_conn_settle(kc);
}


static void
ngx_kafka_conn_write_handler(ngx_event_t *wev)
{
    ngx_connection_t      *c = wev->data;
    ngx_stream_session_t  *s = c->data;
    ngx_kafka_conn_t      *kc;

    kc = ngx_stream_get_module_ctx(s, ngx_stream_kafka_module);

    if (wev->timedout) {
        wev->timedout = 0;

        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "kafka client does not read its answers");

        ngx_kafka_conn_free(kc);
        return;
    }

    if (ngx_kafka_link(kc)->state != NGX_KAFKA_CONN_LINGER) {
        ngx_kafka_conn_run(kc);
    }
}


static void
ngx_kafka_conn_work(ngx_event_t *ev)
{
    ngx_kafka_conn_t  *kc = ev->data;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->closing) {
        ngx_log_error(NGX_LOG_INFO, kc->connection->log, 0,
                      "%s, closing kafka connection", io->why);

        ngx_kafka_conn_free(kc);
        return;
    }

    if (io->state == NGX_KAFKA_CONN_OPEN || io->state == NGX_KAFKA_CONN_DRAIN)
    {
        ngx_kafka_conn_run(kc);
    }
}


/* Everything that can be done now: write, dispatch, read. */
static void
ngx_kafka_conn_run(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (ngx_kafka_output(kc) == NGX_ERROR) {
        io->gone = 1;
        io->eof = 1;
        ngx_kafka_conn_end(kc, "kafka client is gone", NGX_STREAM_OK);
        (void) ngx_kafka_output(kc);
    }

    if (io->state == NGX_KAFKA_CONN_OPEN) {
        if (ngx_kafka_conn_read(kc) != NGX_OK) {
            ngx_kafka_conn_free(kc);
            return;
        }

    } else if (io->state == NGX_KAFKA_CONN_DRAIN) {
        if (ngx_kafka_conn_take_rest(kc) != NGX_OK) {
            ngx_kafka_conn_free(kc);
            return;
        }

        ngx_kafka_dispatch(kc);
        ngx_kafka_hurry(kc);
    }

    ngx_kafka_conn_settle(kc);
}


/* After whatever happened: is it idle, is it at its end, which timer. */
static void
ngx_kafka_conn_settle(ngx_kafka_conn_t *kc)
{
    ngx_event_t       *rev = kc->connection->read;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->closing || io->state == NGX_KAFKA_CONN_LINGER) {
        return;
    }

    if (io->state == NGX_KAFKA_CONN_DRAIN) {

        if (kc->requests_n == 0 && io->rest == NULL) {
            ngx_kafka_conn_linger(kc);
        }

        return;
    }

    kc->connection->idle = kc->requests_n == 0 && io->frame == NULL
                           && io->head_n == 0 && io->rest == NULL;

    kc->connection->log->action = kc->requests_n ? "serving kafka request"
                                                 : "waiting for kafka request";

    if ((io->frame || io->head_n)
        && (ngx_msec_int_t) (rev->timer.key - ngx_current_msec)
           > NGX_KAFKA_FRAME_TIMEOUT)
    {
        ngx_add_timer(rev, NGX_KAFKA_FRAME_TIMEOUT);
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_kafka_conn_free(kc);
    }
}


static void
ngx_kafka_conn_timer(ngx_kafka_conn_t *kc)
{
    ngx_msec_t         idle, passed, left;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    if (io->state == NGX_KAFKA_CONN_LINGER) {
        ngx_kafka_conn_free(kc);
        return;
    }

    if (io->state == NGX_KAFKA_CONN_DRAIN) {
        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "kafka connection could not be drained");
        c->timedout = 1;
        ngx_kafka_conn_free(kc);
        return;
    }

    idle = kc->conf->idle_timeout ? kc->conf->idle_timeout
                                  : NGX_KAFKA_IDLE_TIMEOUT;

    if (io->state == NGX_KAFKA_CONN_OPEN && (io->frame || io->head_n)) {

        if (io->is_blocked || ngx_kafka_conn_room(kc) != NGX_OK) {
            io->frame_time = ngx_current_msec;
        }

        passed = ngx_current_msec - io->frame_time;

        if (passed >= NGX_KAFKA_FRAME_TIMEOUT) {
            ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                          "kafka client did not finish a request: %uz of %uz "
                          "bytes came", io->frame_got, io->frame_len);
            io->status = NGX_STREAM_BAD_REQUEST;
            c->timedout = 1;
            ngx_kafka_conn_free(kc);
            return;
        }

        ngx_add_timer(c->read, NGX_KAFKA_FRAME_TIMEOUT - passed);
        return;
    }

    passed = ngx_current_msec - io->active;

    if (kc->requests_n == 0 && io->rest == NULL && passed >= idle) {

        if (io->state == NGX_KAFKA_CONN_WAIT) {
            ngx_kafka_conn_free(kc);
            return;
        }

        ngx_kafka_conn_end(kc, "kafka client is idle", NGX_STREAM_OK);
        return;
    }

    left = passed < idle ? idle - passed : idle;

    ngx_add_timer(c->read, left);
}


/* --- the end ------------------------------------------------------------- */

void
ngx_kafka_conn_write(ngx_kafka_conn_t *kc)
{
    ngx_post_event(&ngx_kafka_link(kc)->work, &ngx_posted_events);
}


void
ngx_kafka_conn_close(ngx_kafka_conn_t *kc, const char *why)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    io->closing = 1;
    io->why = why;

    ngx_post_event(&io->work, &ngx_posted_events);
}


void
ngx_kafka_conn_end(ngx_kafka_conn_t *kc, const char *why, ngx_uint_t status)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    if (io->state >= NGX_KAFKA_CONN_DRAIN) {
        return;
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "%s, closing kafka connection",
                  why);

    if (io->state == NGX_KAFKA_CONN_WAIT) {
        ngx_kafka_watch_del(&io->watch);
        ngx_kafka_conn_drop_rest(kc);
    }

    io->state = NGX_KAFKA_CONN_DRAIN;
    io->why = why;
    io->status = status;

    c->idle = 0;
    c->log->action = "draining kafka connection";

    if (io->is_blocked) {
        io->is_blocked = 0;
        ngx_queue_remove(&io->blocked);
    }

    /* what follows a bad frame means nothing */

    if (status != NGX_STREAM_OK) {
        ngx_kafka_conn_drop_rest(kc);
    }

    if (io->rest == NULL) {
        ngx_kafka_conn_drop_frame(kc);
    }

    ngx_add_timer(c->read, kc->broker->drain_timeout);

    ngx_post_event(&io->work, &ngx_posted_events);
}


void
ngx_kafka_conns_drain(ngx_kafka_broker_t *b)
{
    ngx_queue_t       *q;
    ngx_kafka_conn_t  *kc;

    for (q = ngx_queue_head(&b->conns);
         q != ngx_queue_sentinel(&b->conns);
         q = ngx_queue_next(q))
    {
        kc = ngx_queue_data(q, ngx_kafka_conn_t, queue);

        ngx_kafka_conn_end(kc, "the worker is exiting", NGX_STREAM_OK);
    }
}


static void
ngx_kafka_conn_linger(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    if (io->eof) {
        ngx_kafka_conn_free(kc);
        return;
    }

    ngx_kafka_conn_drop_frame(kc);

    io->state = NGX_KAFKA_CONN_LINGER;
    c->log->action = "closing kafka connection";

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    ngx_add_timer(c->read, NGX_KAFKA_LINGER);

#if (NGX_STREAM_SSL)
    if (c->ssl) {
        c->ssl->shutdown_without_free = 1;
        c->ssl->no_wait_shutdown = 1;

        if (ngx_ssl_shutdown(c) == NGX_AGAIN) {
            c->ssl->handler = ngx_kafka_conn_ssl_shut;
            return;
        }
    }
#endif

    (void) ngx_shutdown_socket(c->fd, NGX_WRITE_SHUTDOWN);

    ngx_kafka_conn_discard(kc);
}


#if (NGX_STREAM_SSL)

static void
ngx_kafka_conn_ssl_shut(ngx_connection_t *c)
{
    ngx_kafka_conn_t      *kc;
    ngx_stream_session_t  *s = c->data;

    kc = ngx_stream_get_module_ctx(s, ngx_stream_kafka_module);

    c->read->handler = ngx_kafka_conn_read_handler;
    c->write->handler = ngx_kafka_conn_write_handler;

    (void) ngx_shutdown_socket(c->fd, NGX_WRITE_SHUTDOWN);

    ngx_kafka_conn_discard(kc);
}

#endif


/* Closing with unread input would reset the connection, and with it answers
 * that the client has not read yet. */
static void
ngx_kafka_conn_discard(ngx_kafka_conn_t *kc)
{
    size_t             total;
    ssize_t            n;
    ngx_connection_t  *c = kc->connection;

    total = 0;

    while (c->read->ready) {

        n = ngx_recv(c, ngx_kafka_read_buffer, NGX_KAFKA_READ_SIZE);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR || n == 0) {
            ngx_kafka_conn_free(kc);
            return;
        }

        total += n;

        if (total >= NGX_KAFKA_READ_TURN) {
            ngx_post_event(c->read, &ngx_posted_next_events);
            return;
        }
    }

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_kafka_conn_free(kc);
    }
}


void
ngx_kafka_conn_free(ngx_kafka_conn_t *kc)
{
    ngx_queue_t          *q;
    ngx_kafka_link_t     *io = ngx_kafka_link(kc);
    ngx_connection_t     *c = kc->connection;
    ngx_kafka_broker_t   *b = kc->broker;
    ngx_kafka_request_t  *r;

    c->log->action = "closing kafka connection";
    c->idle = 0;

    if (io->state == NGX_KAFKA_CONN_WAIT) {
        ngx_kafka_watch_del(&io->watch);
    }

    while (!ngx_queue_empty(&kc->requests)) {
        q = ngx_queue_head(&kc->requests);
        r = ngx_queue_data(q, ngx_kafka_request_t, queue);

        ngx_kafka_request_abandon(r);
    }

    if (io->is_blocked) {
        io->is_blocked = 0;
        ngx_queue_remove(&io->blocked);
    }

    ngx_kafka_output_free(kc);
    ngx_kafka_conn_drop_rest(kc);
    ngx_kafka_conn_drop_frame(kc);

    if (io->work.posted) {
        ngx_delete_posted_event(&io->work);
    }

    ngx_queue_remove(&kc->queue);
    b->conns_n--;

#if (NGX_STREAM_SSL)
    if (c->ssl) {
        c->ssl->no_wait_shutdown = 1;
    }
#endif

    ngx_kafka_finalize(kc, io->status);

    if (ngx_exiting) {
        ngx_kafka_broker_check_idle(b);
    }
}
