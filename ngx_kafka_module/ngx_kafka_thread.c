/*
 * Work in the thread pool.  A context lives behind its task's header, outside
 * of any pool, because it may outlive the connection that asked for it.
 */

#include "ngx_kafka_life.h"


typedef struct {
    ngx_thread_task_t    task;
    ngx_kafka_broker_t  *broker;
    void               (*work)(void *ctx);
    void               (*done)(void *ctx);
} ngx_kafka_task_t;


/* Keeps what follows aligned for any object. */
#define NGX_KAFKA_TASK_SIZE  ngx_align(sizeof(ngx_kafka_task_t), 16)

#define ngx_kafka_task_of(ctx)                                                \
    ((ngx_kafka_task_t *) (void *) ((u_char *) (ctx) - NGX_KAFKA_TASK_SIZE))


static void ngx_kafka_task_handler(void *data, ngx_log_t *log);
static void ngx_kafka_task_done(ngx_event_t *ev);


void *
ngx_kafka_task_alloc(ngx_kafka_broker_t *b, size_t size)
{
    ngx_kafka_task_t  *t;

    t = ngx_calloc(NGX_KAFKA_TASK_SIZE + size, b->log);
    if (t == NULL) {
        return NULL;
    }

    t->broker = b;

    return (u_char *) t + NGX_KAFKA_TASK_SIZE;
}


void
ngx_kafka_task_post(void *ctx, void (*work)(void *ctx),
    void (*done)(void *ctx))
{
    ngx_kafka_task_t  *t = ngx_kafka_task_of(ctx);

    t->work = work;
    t->done = done;
    t->task.ctx = t;
    t->task.handler = ngx_kafka_task_handler;
    t->task.event.handler = ngx_kafka_task_done;
    t->task.event.data = t;
    t->task.event.log = t->broker->log;

    t->broker->tasks_n++;

    if (ngx_thread_task_post(t->broker->thread_pool, &t->task) == NGX_OK) {
        return;
    }

    /* a full queue was logged; what must be done is done here then */

    work(ctx);
    ngx_post_event(&t->task.event, &ngx_posted_events);
}


static void
ngx_kafka_task_handler(void *data, ngx_log_t *log)
{
    ngx_kafka_task_t  *t = data;

    t->work((u_char *) t + NGX_KAFKA_TASK_SIZE);
}


static void
ngx_kafka_task_done(ngx_event_t *ev)
{
    ngx_kafka_task_t    *t = ev->data;
    ngx_kafka_broker_t  *b = t->broker;

    b->tasks_n--;

    t->done((u_char *) t + NGX_KAFKA_TASK_SIZE);

    ngx_free(t);

    if (b->exiting) {
        ngx_kafka_broker_check_idle(b);
    }
}
