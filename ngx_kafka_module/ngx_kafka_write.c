/*
 * Output: the answers that are ready, in the order of their requests.
 *
 * Plain connections: memory of several answers goes out by one sendmsg(), told
 * by MSG_MORE when the slice of a file follows, which sendfile() sends; so an
 * answer's header shares a packet with its first records.  When there is more
 * behind the slice the socket is corked, so that its last packet is shared too.
 * Everything else (TLS, or whatever has replaced the connection's send_chain)
 * gets memory only, a window of a file at a time.
 *
 * Slices that may not be in the page cache are looked at first, and read by a
 * thread when they are not, so that the event loop does not wait for a disk.
 */

#include "ngx_kafka_conn.h"

#include <sys/sendfile.h>
#include <sys/uio.h>


#define NGX_KAFKA_IOVS         64
#define NGX_KAFKA_WARM_STRIDE  (128 * 1024)     /* readahead of Linux */


/* What the next call sends. */
typedef struct {
    ngx_chain_t            links[NGX_KAFKA_IOVS];
    ngx_uint_t             n;
    size_t                 size;        /* of the memory */
    ngx_kafka_file_buf_t  *file;        /* behind the memory, or NULL */
    unsigned               more:1;      /* there is more behind all that */
} ngx_kafka_gather_t;

typedef struct {
    ngx_kafka_request_t   *r;
    ngx_kafka_file_buf_t  *file;
    int                    fd;
    off_t                  pos;
    size_t                 len;
    size_t                 ahead;       /* to be asked for behind that */
} ngx_kafka_warm_t;


static void ngx_kafka_reap(ngx_kafka_conn_t *kc);
static void ngx_kafka_reap_failed(ngx_kafka_conn_t *kc);
static ngx_int_t ngx_kafka_gather(ngx_kafka_conn_t *kc, ngx_kafka_gather_t *g,
    ngx_uint_t plain);
static ngx_int_t ngx_kafka_window(ngx_kafka_conn_t *kc,
    ngx_kafka_request_t *r, ngx_kafka_file_buf_t *f);
static ssize_t ngx_kafka_send_plain(ngx_kafka_conn_t *kc,
    ngx_kafka_gather_t *g);
static ssize_t ngx_kafka_send_file(ngx_kafka_conn_t *kc,
    ngx_kafka_file_buf_t *f);
static ngx_int_t ngx_kafka_cork(ngx_kafka_conn_t *kc, ngx_uint_t on);
static ssize_t ngx_kafka_send_chain(ngx_kafka_conn_t *kc,
    ngx_kafka_gather_t *g);
static ngx_int_t ngx_kafka_warm(ngx_kafka_conn_t *kc, ngx_kafka_request_t *r,
    ngx_kafka_file_buf_t *f);
static ngx_uint_t ngx_kafka_resident(int fd, off_t pos, size_t len);
static void ngx_kafka_warm_work(void *data);
static void ngx_kafka_warm_done(void *data);


ngx_int_t
ngx_kafka_output(ngx_kafka_conn_t *kc)
{
    size_t              total;
    ssize_t             n;
    ngx_int_t           rc;
    ngx_uint_t          plain;
    ngx_event_t        *wev;
    ngx_kafka_link_t   *io = ngx_kafka_link(kc);
    ngx_connection_t   *c = kc->connection;
    ngx_kafka_gather_t  g;

    wev = c->write;
    plain = c->send_chain == ngx_send_chain;
    total = 0;

    for ( ;; ) {
        ngx_kafka_reap(kc);

        if (io->gone) {
            return NGX_OK;
        }

        if (!wev->ready) {

            if (io->unsent == 0) {
                return NGX_OK;
            }

            if (total || !wev->timer_set) {
                ngx_add_timer(wev, kc->conf->idle_timeout
                                   ? kc->conf->idle_timeout
                                   : NGX_KAFKA_IDLE_TIMEOUT);
            }

            if (ngx_handle_write_event(wev, 0) != NGX_OK) {
                return NGX_ERROR;
            }

            return NGX_AGAIN;
        }

        rc = ngx_kafka_gather(kc, &g, plain);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (g.n == 0 && g.file == NULL) {

            if (wev->timer_set) {
                ngx_del_timer(wev);
            }

            if (io->corked && ngx_kafka_cork(kc, 0) != NGX_OK) {
                return NGX_ERROR;
            }

            if (io->window && io->window_of == NULL && !g.more) {
                ngx_kafka_output_free(kc);
            }

            return rc;
        }

        if (total >= NGX_KAFKA_SEND_TURN) {
            ngx_post_event(&io->work, &ngx_posted_next_events);
            return NGX_AGAIN;
        }

        c->log->action = "sending kafka answer";

        n = plain ? ngx_kafka_send_plain(kc, &g) : ngx_kafka_send_chain(kc, &g);

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (n) {
            total += n;
            io->unsent -= n;
            io->active = ngx_current_msec;
        }
    }
}


void
ngx_kafka_output_free(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    ngx_kafka_mem_put(io->window, io->window_size);

    io->window = NULL;
    io->window_of = NULL;
}


/* Ends the requests whose answers are out. */
static void
ngx_kafka_reap(ngx_kafka_conn_t *kc)
{
    ngx_kafka_link_t     *io = ngx_kafka_link(kc);
    ngx_kafka_req_t      *q;
    ngx_kafka_request_t  *r;

    while (!ngx_queue_empty(&kc->requests)) {
        r = ngx_queue_data(ngx_queue_head(&kc->requests), ngx_kafka_request_t,
                           queue);
        q = (ngx_kafka_req_t *) r;

        if (!r->ready) {
            return;
        }

        if (q->failed) {
            ngx_kafka_reap_failed(kc);
            return;
        }

        while (r->out && (io->gone || ngx_buf_size(r->out->buf) == 0)) {
            io->unsent -= ngx_buf_size(r->out->buf);
            r->out = r->out->next;
        }

        if (io->gone && io->window_of == r) {
            io->window_of = NULL;
        }

        if (r->out || io->window_of == r) {
            return;
        }

        ngx_kafka_request_end(r);
    }
}


/* All before it is out: the connection's turn to end has come. */
static void
ngx_kafka_reap_failed(ngx_kafka_conn_t *kc)
{
    const char           *why;
    ngx_kafka_request_t  *r;

    r = ngx_queue_data(ngx_queue_head(&kc->requests), ngx_kafka_request_t,
                       queue);

    why = ((ngx_kafka_req_t *) r)->failed;

    while (!ngx_queue_empty(&kc->requests)) {
        r = ngx_queue_data(ngx_queue_head(&kc->requests), ngx_kafka_request_t,
                           queue);
        ngx_kafka_request_abandon(r);
    }

    ngx_kafka_conn_end(kc, why, NGX_STREAM_BAD_REQUEST);
}


/* NGX_AGAIN: the next bytes are being read from the disk. */
static ngx_int_t
ngx_kafka_gather(ngx_kafka_conn_t *kc, ngx_kafka_gather_t *g,
    ngx_uint_t plain)
{
    ngx_int_t              rc;
    ngx_buf_t             *b;
    ngx_chain_t           *cl;
    ngx_queue_t           *p;
    ngx_kafka_link_t      *io = ngx_kafka_link(kc);
    ngx_kafka_request_t   *r;
    ngx_kafka_file_buf_t  *f;

    g->n = 0;
    g->size = 0;
    g->file = NULL;
    g->more = 0;

#define ngx_kafka_gather_add(g, b)                                            \
    (g)->links[(g)->n].buf = (b);                                             \
    (g)->size += (b)->last - (b)->pos;                                        \
    (g)->n++

    if (io->window_of) {
        ngx_kafka_gather_add(g, &io->window_buf);
    }

    for (p = ngx_queue_head(&kc->requests);
         p != ngx_queue_sentinel(&kc->requests);
         p = ngx_queue_next(p))
    {
        r = ngx_queue_data(p, ngx_kafka_request_t, queue);

        if (!r->ready || ((ngx_kafka_req_t *) r)->failed) {
            return NGX_OK;
        }

        for (cl = r->out; cl; cl = cl->next) {
            b = cl->buf;

            if (ngx_buf_size(b) == 0) {
                continue;
            }

            if (g->n == NGX_KAFKA_IOVS || g->size >= NGX_KAFKA_SEND_TURN) {
                g->more = 1;
                return NGX_OK;
            }

            if (!b->in_file) {
                ngx_kafka_gather_add(g, b);
                continue;
            }

            f = (ngx_kafka_file_buf_t *) b;

            if (!plain && io->window_of) {
                g->more = 1;
                return NGX_OK;
            }

            if (f->warm <= b->file_pos) {
                rc = io->warming ? NGX_AGAIN : ngx_kafka_warm(kc, r, f);

                if (rc != NGX_OK) {
                    g->more = 1;
                    return rc;
                }
            }

            if (plain) {
                g->file = f;
                g->more = cl->next != NULL
                          || f->buf.file_last - b->file_pos
                             > NGX_KAFKA_SEND_TURN;
                return NGX_OK;
            }

            if (ngx_kafka_window(kc, r, f) != NGX_OK) {
                return NGX_ERROR;
            }

            ngx_kafka_gather_add(g, &io->window_buf);

            if (ngx_buf_size(b)) {
                g->more = 1;
                return NGX_OK;
            }
        }
    }

    return NGX_OK;
}


/* The next part of a file into memory. */
static ngx_int_t
ngx_kafka_window(ngx_kafka_conn_t *kc, ngx_kafka_request_t *r,
    ngx_kafka_file_buf_t *f)
{
    size_t             size;
    ssize_t            n;
    ngx_buf_t         *b;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);

    if (io->window == NULL) {
        io->window = ngx_kafka_mem_get(NGX_KAFKA_WINDOW, &io->window_size);

        if (io->window == NULL) {
            return NGX_ERROR;
        }
    }

    size = (size_t) ngx_min(ngx_min(f->warm, f->buf.file_last)
                            - f->buf.file_pos, NGX_KAFKA_WINDOW);

    n = pread(f->file.fd, io->window, size, f->buf.file_pos);

    if (n <= 0) {
        ngx_log_error(NGX_LOG_CRIT, kc->connection->log, n ? ngx_errno : 0,
                      "pread() of a log segment at %O answered %z for %uz "
                      "bytes", f->buf.file_pos, n, size);
        return NGX_ERROR;
    }

    f->buf.file_pos += n;

    b = &io->window_buf;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->start = io->window;
    b->pos = io->window;
    b->last = io->window + n;
    b->end = io->window + io->window_size;
    b->temporary = 1;

    io->window_of = r;

    return NGX_OK;
}


/* --- sending ------------------------------------------------------------- */

/* Bytes sent; fewer than gathered clears the write event's ready. */
static ssize_t
ngx_kafka_send_plain(ngx_kafka_conn_t *kc, ngx_kafka_gather_t *g)
{
    int                flags;
    size_t             left;
    ssize_t            n, sent;
    ngx_err_t          err;
    ngx_buf_t         *b;
    ngx_uint_t         i;
    struct iovec       iovs[NGX_KAFKA_IOVS];
    struct msghdr      msg;
    ngx_connection_t  *c = kc->connection;

    sent = 0;

    if (g->n) {
        for (i = 0; i < g->n; i++) {
            b = g->links[i].buf;
            iovs[i].iov_base = b->pos;
            iovs[i].iov_len = b->last - b->pos;
        }

        ngx_memzero(&msg, sizeof(msg));
        msg.msg_iov = iovs;
        msg.msg_iovlen = g->n;

        flags = MSG_NOSIGNAL | (g->file ? MSG_MORE : 0);

        do {
            n = g->n == 1
                ? send(c->fd, iovs[0].iov_base, iovs[0].iov_len, flags)
                : sendmsg(c->fd, &msg, flags);

            err = n == -1 ? ngx_socket_errno : 0;
        } while (err == NGX_EINTR);

        if (err == NGX_EAGAIN) {
            c->write->ready = 0;
            return 0;
        }

        if (n == -1) {
            c->write->error = 1;
            (void) ngx_connection_error(c, err, "sendmsg() failed");
            return NGX_ERROR;
        }

        sent = n;
        c->sent += n;

        for (i = 0, left = n; i < g->n && left; i++) {
            b = g->links[i].buf;
            n = ngx_min((size_t) (b->last - b->pos), left);
            b->pos += n;
            left -= n;
        }

        if ((size_t) sent < g->size) {
            c->write->ready = 0;
            return sent;
        }
    }

    if (g->file) {

        if (g->more && !ngx_kafka_link(kc)->corked
            && ngx_kafka_cork(kc, 1) != NGX_OK)
        {
            return NGX_ERROR;
        }

        n = ngx_kafka_send_file(kc, g->file);

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        sent += n;
    }

    return sent;
}


static ssize_t
ngx_kafka_send_file(ngx_kafka_conn_t *kc, ngx_kafka_file_buf_t *f)
{
    off_t              pos;
    size_t             size;
    ssize_t            n;
    ngx_err_t          err;
    ngx_connection_t  *c = kc->connection;

    pos = f->buf.file_pos;

    size = (size_t) ngx_min(ngx_min(f->warm, f->buf.file_last) - pos,
                            NGX_KAFKA_SEND_TURN);

    do {
        n = sendfile(c->fd, f->file.fd, &pos, size);
        err = n == -1 ? ngx_errno : 0;
    } while (err == NGX_EINTR);

    if (err == NGX_EAGAIN) {
        c->write->ready = 0;
        return 0;
    }

    if (n == -1) {
        c->write->error = 1;
        (void) ngx_connection_error(c, err, "sendfile() failed");
        return NGX_ERROR;
    }

    if (n == 0) {
        ngx_log_error(NGX_LOG_CRIT, c->log, 0,
                      "a log segment ends at or before %O, where records were "
                      "promised", f->buf.file_pos);
        return NGX_ERROR;
    }

    f->buf.file_pos += n;
    c->sent += n;

    if ((size_t) n < size) {
        c->write->ready = 0;
    }

    return n;
}


static ngx_int_t
ngx_kafka_cork(ngx_kafka_conn_t *kc, ngx_uint_t on)
{
    int                value = (int) on;
    ngx_connection_t  *c = kc->connection;

    if (c->tcp_nopush == NGX_TCP_NOPUSH_DISABLED) {
        return NGX_OK;                          /* a unix socket */
    }

    if (setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &value, sizeof(int)) == -1) {
        c->write->error = 1;
        (void) ngx_connection_error(c, ngx_socket_errno,
                                    "setsockopt(TCP_CORK) failed");
        return NGX_ERROR;
    }

    ngx_kafka_link(kc)->corked = on;

    return NGX_OK;
}


static ssize_t
ngx_kafka_send_chain(ngx_kafka_conn_t *kc, ngx_kafka_gather_t *g)
{
    off_t              before;
    ngx_uint_t         i;
    ngx_chain_t       *rest;
    ngx_kafka_link_t  *io = ngx_kafka_link(kc);
    ngx_connection_t  *c = kc->connection;

    for (i = 0; i < g->n; i++) {
        g->links[i].next = i + 1 < g->n ? &g->links[i + 1] : NULL;
    }

    before = c->sent;

    rest = c->send_chain(c, g->links, 0);

    if (rest == NGX_CHAIN_ERROR) {
        return NGX_ERROR;
    }

    if (rest) {
        c->write->ready = 0;
    }

    if (io->window_of && io->window_buf.pos == io->window_buf.last) {
        io->window_of = NULL;
    }

    return (ssize_t) (c->sent - before);
}


/* --- cold slices --------------------------------------------------------- */

/* NGX_OK: f->warm has moved past file_pos; NGX_AGAIN: a thread reads. */
static ngx_int_t
ngx_kafka_warm(ngx_kafka_conn_t *kc, ngx_kafka_request_t *r,
    ngx_kafka_file_buf_t *f)
{
    size_t             len;
    ngx_kafka_warm_t  *w;

    len = (size_t) ngx_min(f->buf.file_last - f->buf.file_pos,
                           NGX_KAFKA_SEND_TURN);

    if (ngx_kafka_resident(f->file.fd, f->buf.file_pos, len)) {
        f->warm = f->buf.file_pos + len;
        return NGX_OK;
    }

    w = ngx_kafka_task_alloc(kc->broker, sizeof(ngx_kafka_warm_t));

    if (w == NULL) {
        return NGX_ERROR;
    }

    w->r = r;
    w->file = f;
    w->fd = f->file.fd;
    w->pos = f->buf.file_pos;
    w->len = len;
    w->ahead = (size_t) ngx_min(f->buf.file_last - f->buf.file_pos
                                - (off_t) len, NGX_KAFKA_SEND_TURN);

    ngx_kafka_request_hold(r);
    ngx_kafka_link(kc)->warming = 1;

    ngx_kafka_task_post(w, ngx_kafka_warm_work, ngx_kafka_warm_done);

    return NGX_AGAIN;
}


/*
 * Is that part of a file in the page cache?  A sample: readahead and reclaim
 * both work in larger pieces than the stride.
 */
static ngx_uint_t
ngx_kafka_resident(int fd, off_t pos, size_t len)
{
    char           byte;
    size_t         at;
    struct iovec   iov;

    static ngx_uint_t  unsupported;

    if (unsupported) {
        return 0;
    }

    iov.iov_base = &byte;
    iov.iov_len = 1;

    for (at = 0; at < len; at += NGX_KAFKA_WARM_STRIDE) {

        if (preadv2(fd, &iov, 1, pos + at, RWF_NOWAIT) != 1) {
            unsupported = ngx_errno == EOPNOTSUPP || ngx_errno == ENOSYS;
            return 0;
        }
    }

    return preadv2(fd, &iov, 1, pos + len - 1, RWF_NOWAIT) == 1;
}


static void
ngx_kafka_warm_work(void *data)
{
    char               buf[16384];
    size_t             len;
    off_t              pos;
    ssize_t            n;
    ngx_kafka_warm_t  *w = data;

    /* the disk goes on reading while this part is being sent */

    (void) posix_fadvise(w->fd, w->pos, (off_t) (w->len + w->ahead),
                         POSIX_FADV_WILLNEED);

    pos = w->pos;
    len = w->len;

    while (len) {
        n = pread(w->fd, buf, ngx_min(len, sizeof(buf)), pos);

        if (n <= 0) {
            return;                     /* the sender will see it, and say so */
        }

        pos += n;
        len -= n;
    }
}


static void
ngx_kafka_warm_done(void *data)
{
    ngx_kafka_warm_t     *w = data;
    ngx_kafka_request_t  *r = w->r;

    w->file->warm = w->pos + (off_t) w->len;

    if (ngx_kafka_request_release(r) == NGX_DONE) {
        return;
    }

    ngx_kafka_link(r->conn)->warming = 0;

    ngx_kafka_conn_write(r->conn);
}
