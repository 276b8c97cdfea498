/*
 * A broker's life in one worker.
 *
 *   CLOSED    does not own the directory, or has no slot in the zone
 *     │ ngx_kafka_owner_try()
 *   OPENING   owns it; the zone is not OPEN: a thread recovers it, here or in
 *     │       another worker, whose end wakes this one
 *   OPEN      attached; requests are served
 *     │ ngx_kafka_broker_suspend(): the coordinator's state is in doubt
 *   OPENING
 *
 * Everything is tried again by one cancelable timer, at most 50 ms apart while
 * somebody else has to let go first.
 *
 * The end.  nginx tells us that the worker begins to exit (quit): connections
 * are drained, a timer that is not cancelable keeps the worker alive until the
 * last one, the last flush and the last job are gone; then the directory is let
 * go, at once, though other traffic may keep the process for hours.  The one
 * that finds itself alone closes the directory cleanly before.  exit_process
 * does the same for what is left, within a second.
 */

#include "ngx_kafka_life.h"
#include "../coordinator/kc_group.h"


#define NGX_KAFKA_WAIT_FIRST   2                /* ms */
#define NGX_KAFKA_WAIT         50
#define NGX_KAFKA_WAIT_FAILED  1000
#define NGX_KAFKA_DRAIN_TICK   100
#define NGX_KAFKA_EXIT_MAX     900


typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_uint_t           rc;
} ngx_kafka_recover_t;


static void ngx_kafka_broker_timer(ngx_event_t *ev);
static void ngx_kafka_broker_open(ngx_kafka_broker_t *b);
static void ngx_kafka_recover_work(void *ctx);
static void ngx_kafka_recover_done(void *ctx);
static void ngx_kafka_finish_work(void *ctx);
static void ngx_kafka_finish_done(void *ctx);
static void ngx_kafka_broker_close(ngx_kafka_broker_t *b);
static void ngx_kafka_drain_timer(ngx_event_t *ev);
static ngx_int_t ngx_kafka_listening_is_ours(ngx_listening_t *ls,
    ngx_uint_t *open);
static void ngx_kafka_listening_hold(ngx_cycle_t *cycle);
static void ngx_kafka_listening_accept(ngx_kafka_broker_t *b);
static ngx_kafka_broker_t *ngx_kafka_addr_broker(ngx_listening_t *ls,
    ngx_uint_t i);


ngx_int_t
ngx_kafka_broker_init_process(ngx_kafka_broker_t *b, ngx_cycle_t *cycle)
{
    ngx_pool_t      *pool;
    kl_env_opts_t    opts;
    ngx_kafka_io_t  *io;

    b->log = cycle->log;
    b->state = NGX_KAFKA_CLOSED;
    b->worker_slot = -1;

    ngx_queue_init(&b->conns);

    if (ngx_kafka_wake_prepare(b) != NGX_OK) {
        return NGX_ERROR;
    }

    b->timer.handler = ngx_kafka_broker_timer;
    b->timer.data = b;
    b->timer.log = b->log;
    b->timer.cancelable = 1;

    if (b->zone == NULL) {
        return NGX_OK;
    }

    ngx_memzero(&opts, sizeof(kl_env_opts_t));
    opts.dir = (char *) b->data.data;
    opts.open_files_max = b->open_files;
    opts.log = ngx_kafka_log_line;
    opts.log_ctx = b;
    opts.foreign = ngx_kafka_jobs_foreign;
    opts.flushed = ngx_kafka_flushed;

    b->parts = b->zone->parts;
    b->env = kl_env_create(b->parts, &opts);

    io = ngx_calloc(sizeof(ngx_kafka_io_t), b->log);

    /* lives as long as the process; used by one recovery or job at a time */
    pool = ngx_create_pool(1024, b->log);

    if (b->env == NULL || io == NULL || pool == NULL) {
        return NGX_ERROR;
    }

    b->deleted = ngx_array_create(pool, 16, sizeof(kf_uuid_t));

    io->broker = b;
    b->io = io;

    if (b->deleted == NULL
        || !kc_init(&b->kc, ngx_kafka_zone_mem(b->zone),
                    ngx_kafka_coord_io(io))
        || ngx_kafka_topics_init(b) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_kafka_listening_hold(cycle);

    ngx_kafka_broker_step(b);

    return NGX_OK;
}


/* --- opening -------------------------------------------------------------- */

void
ngx_kafka_broker_step(ngx_kafka_broker_t *b)
{
    ngx_int_t  rc;

    if (b->exiting && b->conns_n == 0) {
        return;
    }

    if (b->state == NGX_KAFKA_CLOSED) {

        if (b->exiting || ngx_exiting) {
            return;
        }

        if (ngx_kafka_wake_start(b) != NGX_OK) {

            if (b->waits++ == 0) {
                ngx_log_error(NGX_LOG_ERR, b->log, 0,
                              "kafka_broker \"%V\": all %d places for workers "
                              "are taken, this one waits for old workers to "
                              "leave", &b->name, KL_WORKER_SLOTS);
            }

            ngx_kafka_broker_retry(b, NGX_KAFKA_WAIT_FAILED);
            return;
        }

        rc = ngx_kafka_owner_try(b);

        if (rc == NGX_AGAIN) {
            ngx_kafka_broker_retry(b, b->waits++ ? NGX_KAFKA_WAIT
                                                 : NGX_KAFKA_WAIT_FIRST);
            return;
        }

        if (rc != NGX_OK) {
            ngx_kafka_broker_retry(b, NGX_KAFKA_WAIT_FAILED);
            return;
        }

        b->waits = 0;
        b->state = NGX_KAFKA_OPENING;
    }

    if (b->state == NGX_KAFKA_OPENING) {
        ngx_kafka_broker_open(b);
    }
}


void
ngx_kafka_broker_retry(ngx_kafka_broker_t *b, ngx_msec_t after)
{
    if (b->timer.timer_set) {
        ngx_del_timer(&b->timer);
    }

    ngx_add_timer(&b->timer, after);
}


static void
ngx_kafka_broker_timer(ngx_event_t *ev)
{
    ngx_kafka_broker_t  *b = ev->data;

    if (ngx_exiting && !b->exiting) {
        /* without an eventfd nothing else tells */
        ngx_kafka_broker_quit(b);
        return;
    }

    ngx_kafka_broker_step(b);
}


static void
ngx_kafka_broker_open(ngx_kafka_broker_t *b)
{
    int64_t               wait, deadline;
    ngx_int_t             rc;
    ngx_kafka_recover_t  *r;

    if (atomic_load(&b->zone->state) == NGX_KAFKA_ZONE_OPEN
        && ngx_kafka_coord_enter(b, &b->kc) == NGX_OK)
    {
        rc = ngx_kafka_coord_attach(b);

        if (rc == NGX_OK) {
            b->session_slots = kc_broker_config_int(&b->kc, &b->config,
                                 KC_MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS);
            b->fetch_bytes_max = kc_broker_config_int(&b->kc, &b->config,
                                                      KC_FETCH_MAX_BYTES);
        }

        deadline = kc_next_deadline(&b->kc);

        ngx_kafka_coord_leave(b);

        if (rc != NGX_OK) {
            ngx_kafka_broker_retry(b, NGX_KAFKA_WAIT_FAILED);
            return;
        }

        b->state = NGX_KAFKA_OPEN;
        b->waits = 0;

        if (b->timer.timer_set) {
            ngx_del_timer(&b->timer);
        }

        ngx_kafka_tick_arm(b, deadline);
        ngx_kafka_txn_sweep_later(b, 1 + b->worker_slot * 50);
        ngx_kafka_topics_refresh(b);
        ngx_kafka_wake_ready(b);

        /* whoever waits for the journal looks at its epoch */
        ngx_kafka_wake_own(b);

        /* and relies on a flush that a worker may have died before */
        ngx_kafka_flush(b, b->journal);

        if (!b->exiting) {
            ngx_kafka_listening_accept(b);
            ngx_kafka_jobs_start(b);
        }

        return;
    }

    if (b->recovering) {
        return;
    }

    wait = atomic_load(&b->zone->retry_ms) - ngx_kafka_mono_ms();

    if (wait > 0) {
        /* the last try failed, here or in another worker */
        ngx_kafka_broker_retry(b, (ngx_msec_t) wait);
        return;
    }

    r = ngx_kafka_task_alloc(b, sizeof(ngx_kafka_recover_t));
    if (r == NULL) {
        ngx_kafka_broker_retry(b, NGX_KAFKA_WAIT_FAILED);
        return;
    }

    r->broker = b;
    b->recovering = 1;

    ngx_kafka_task_post(r, ngx_kafka_recover_work, ngx_kafka_recover_done);
}


static void
ngx_kafka_recover_work(void *ctx)
{
    ngx_kafka_recover_t  *r = ctx;

    r->rc = ngx_kafka_coord_recover(r->broker);
}


static void
ngx_kafka_recover_done(void *ctx)
{
    ngx_kafka_recover_t  *r = ctx;
    ngx_kafka_broker_t   *b = r->broker;

    b->recovering = 0;

    switch (r->rc) {

    case NGX_KAFKA_RECOVERED:
        ngx_kafka_broker_step(b);
        break;

    case NGX_KAFKA_BUSY:
        ngx_kafka_broker_retry(b, b->waits++ ? NGX_KAFKA_WAIT
                                             : NGX_KAFKA_WAIT_FIRST);
        break;

    default:
        ngx_kafka_broker_retry(b, NGX_KAFKA_WAIT_FAILED);
        break;
    }
}


void
ngx_kafka_broker_suspend(ngx_kafka_broker_t *b)
{
    uint32_t      open;
    kl_offsets_t  o;

    if (b->state != NGX_KAFKA_OPEN) {
        return;
    }

    /* a failed journal is noticed here, too: nobody may ask for the lock */

    kl_snapshot(b->journal->shared, &o);

    if (o.state != KL_OPEN && o.incarnation == b->journal->incarnation
        && atomic_load(&b->zone->state) == NGX_KAFKA_ZONE_OPEN)
    {
        /* takes the lock, sees it and marks the zone */
        if (ngx_kafka_coord_enter(b, &b->kc) == NGX_OK) {
            ngx_kafka_coord_leave(b);
        }
    }

    open = atomic_load(&b->zone->state);

    if (open == NGX_KAFKA_ZONE_OPEN
        && b->epoch == atomic_load(&b->zone->epoch))
    {
        return;
    }

    b->state = NGX_KAFKA_OPENING;

    /* from a timer: this may run inside of a request */
    ngx_kafka_broker_retry(b, 1);
}


/* --- the end -------------------------------------------------------------- */

void
ngx_kafka_broker_quit(ngx_kafka_broker_t *b)
{
    ngx_event_t  *ev;

    if (b->exiting || b->zone == NULL) {
        return;
    }

    b->exiting = 1;

    ngx_kafka_jobs_stop(b);

    if (b->later.timer_set) {
        ngx_del_timer(&b->later);

        if (ngx_kafka_is_open(b)) {
            ngx_kafka_flush(b, b->journal);
        }
    }

    ev = ngx_calloc(sizeof(ngx_event_t), b->log);
    if (ev == NULL) {
        return;
    }

    ev->handler = ngx_kafka_drain_timer;
    ev->data = b;
    ev->log = b->log;
    b->drain = ev;

    ngx_add_timer(ev, NGX_KAFKA_DRAIN_TICK);

    ngx_kafka_conns_drain(b);

    ngx_kafka_broker_check_idle(b);
}


/* Not cancelable: as long as it is set, nginx keeps the worker. */
static void
ngx_kafka_drain_timer(ngx_event_t *ev)
{
    ngx_kafka_broker_t  *b = ev->data;

    ngx_kafka_broker_check_idle(b);

    if (b->finished) {
        return;
    }

    ngx_add_timer(ev, NGX_KAFKA_DRAIN_TICK);
}


void
ngx_kafka_broker_check_idle(ngx_kafka_broker_t *b)
{
    void  *ctx;

    if (!b->exiting || b->finished || b->finishing || b->conns_n
        || b->tasks_n)
    {
        return;
    }

    if (b->state != NGX_KAFKA_CLOSED && ngx_kafka_owner_alone(b) == NGX_OK) {

        ctx = ngx_kafka_task_alloc(b, sizeof(ngx_kafka_recover_t));

        if (ctx) {
            b->finishing = 1;
            ((ngx_kafka_recover_t *) ctx)->broker = b;
            ngx_kafka_task_post(ctx, ngx_kafka_finish_work,
                                ngx_kafka_finish_done);
            return;
        }
    }

    ngx_kafka_broker_close(b);
}


static void
ngx_kafka_finish_work(void *ctx)
{
    ngx_kafka_recover_t  *r = ctx;

    ngx_kafka_jobs_finish(r->broker, 0);
}


static void
ngx_kafka_finish_done(void *ctx)
{
    ngx_kafka_recover_t  *r = ctx;

    ngx_kafka_broker_close(r->broker);
}


/* Lets the directory go. */
static void
ngx_kafka_broker_close(ngx_kafka_broker_t *b)
{
    b->finished = 1;
    b->state = NGX_KAFKA_CLOSED;

    if (b->drain && b->drain->timer_set) {
        ngx_del_timer(b->drain);
    }

    if (b->timer.timer_set) {
        ngx_del_timer(&b->timer);
    }

    ngx_kafka_tick_stop(b);
    ngx_kafka_txn_stop(b);
    ngx_kafka_sessions_done(b);
    ngx_kafka_topics_done(b);
    ngx_kafka_owner_release(b);
    ngx_kafka_wake_stop(b);
    ngx_kafka_points_free(b);
}


void
ngx_kafka_broker_exit_process(ngx_kafka_broker_t *b)
{
    if (b->zone == NULL || b->finished || b->env == NULL) {
        return;
    }

    /* the pool's threads have ended before, with all that was queued */

    b->exiting = 1;
    b->finished = 1;

    /* a graceful exit cut short: nginx would report these sockets as lost */

    while (ngx_exiting && !ngx_queue_empty(&b->conns)) {
        ngx_kafka_conn_free(ngx_queue_data(ngx_queue_head(&b->conns),
                                           ngx_kafka_conn_t, queue));
    }

    if (b->state != NGX_KAFKA_CLOSED && ngx_kafka_owner_alone(b) == NGX_OK) {
        ngx_kafka_jobs_finish(b, ngx_kafka_mono_ms() + NGX_KAFKA_EXIT_MAX);
    }

    ngx_kafka_owner_release(b);
    ngx_kafka_wake_stop(b);
}


/* --- listening sockets ---------------------------------------------------- */

/*
 * Until a broker is open in this worker, its listeners take no events: clients
 * wait in the backlog (or are accepted by another worker).  With accept_mutex
 * nginx adds the events again by itself; what is accepted then is parked.
 */

static ngx_kafka_broker_t *
ngx_kafka_addr_broker(ngx_listening_t *ls, ngx_uint_t i)
{
    ngx_stream_port_t            *port = ls->servers;
    ngx_stream_conf_ctx_t        *ctx;
    ngx_stream_in_addr_t         *addr;
#if (NGX_HAVE_INET6)
    ngx_stream_in6_addr_t        *addr6;
#endif
    ngx_stream_addr_conf_t       *conf;
    ngx_stream_kafka_srv_conf_t  *kscf;

    switch (ls->sockaddr->sa_family) {

#if (NGX_HAVE_INET6)
    case AF_INET6:
        addr6 = port->addrs;
        conf = &addr6[i].conf;
        break;
#endif

    default:
        addr = port->addrs;
        conf = &addr[i].conf;
        break;
    }

#if (nginx_version >= 1025005)
    ctx = conf->default_server->ctx;
#else
    ctx = conf->ctx;
#endif

    kscf = ctx->srv_conf[ngx_stream_kafka_module.ctx_index];

    return kscf->broker;
}


/* Do all servers of this socket belong to brokers?  *open: is one open? */
static ngx_int_t
ngx_kafka_listening_is_ours(ngx_listening_t *ls, ngx_uint_t *open)
{
    ngx_uint_t           i;
    ngx_stream_port_t   *port;
    ngx_kafka_broker_t  *b;

    *open = 0;

    if (ls->handler != ngx_stream_init_connection || ls->servers == NULL) {
        return NGX_DECLINED;
    }

    port = ls->servers;

    for (i = 0; i < port->naddrs; i++) {
        b = ngx_kafka_addr_broker(ls, i);

        if (b == NULL) {
            return NGX_DECLINED;
        }

        if (ngx_kafka_is_open(b)) {
            *open = 1;
        }
    }

    return NGX_OK;
}


static void
ngx_kafka_listening_hold(ngx_cycle_t *cycle)
{
    ngx_uint_t         i, open;
    ngx_listening_t   *ls;
    ngx_connection_t  *c;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {
        c = ls[i].connection;

        if (c == NULL || c->fd == (ngx_socket_t) -1 || !c->read->active
            || ngx_kafka_listening_is_ours(&ls[i], &open) != NGX_OK || open)
        {
            continue;
        }

#if (NGX_HAVE_REUSEPORT)
        if (ls[i].reuseport && ls[i].worker != ngx_worker) {
            continue;
        }
#endif

        (void) ngx_del_event(c->read, NGX_READ_EVENT, NGX_DISABLE_EVENT);
    }
}


static void
ngx_kafka_listening_accept(ngx_kafka_broker_t *b)
{
    ngx_int_t          flags;
    ngx_uint_t         i, open;
    ngx_cycle_t       *cycle;
    ngx_listening_t   *ls;
    ngx_core_conf_t   *ccf;
    ngx_connection_t  *c;

    if (ngx_exiting || ngx_use_accept_mutex) {
        return;
    }

    cycle = (ngx_cycle_t *) ngx_cycle;
    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {
        c = ls[i].connection;

        if (c == NULL || ls[i].fd == (ngx_socket_t) -1 || c->read->active
            || c->fd != ls[i].fd
            || ngx_kafka_listening_is_ours(&ls[i], &open) != NGX_OK || !open)
        {
            continue;
        }

#if (NGX_HAVE_REUSEPORT)
        if (ls[i].reuseport && ls[i].worker != ngx_worker) {
            continue;
        }
#endif

        flags = 0;

#if (NGX_HAVE_EPOLLEXCLUSIVE)
        if ((ngx_event_flags & NGX_USE_EPOLL_EVENT)
            && ccf->worker_processes > 1
#if (NGX_HAVE_REUSEPORT)
            && !ls[i].reuseport
#endif
           )
        {
            flags = NGX_EXCLUSIVE_EVENT;
        }
#endif

        if (ngx_add_event(c->read, NGX_READ_EVENT, flags) != NGX_OK) {
            ngx_log_error(NGX_LOG_ERR, b->log, 0,
                          "kafka_broker \"%V\": cannot listen on %V",
                          &b->name, &ls[i].addr_text);
        }
    }

    (void) ccf;
}


void
ngx_kafka_log_line(void *ctx, kl_log_level_t level, int err,
    const char *line)
{
    ngx_kafka_broker_t  *b = ctx;

    ngx_log_error((ngx_uint_t) level, b->log, err,
                  "kafka_broker \"%V\": %s", &b->name, line);
}
