/* Threads that act, and stop at a word. */

#define _GNU_SOURCE
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t   changed = PTHREAD_COND_INITIALIZER;  /* parked, gone */
static pthread_cond_t   resumed = PTHREAD_COND_INITIALIZER;
static int              running, parked;

typedef struct {
    void  (*run)(void *ctx);
    void   *ctx;
} start_t;


static void *
actor_main(void *arg)
{
    start_t  s = *(start_t *) arg;

    free(arg);

    if (!actor_pause()) {
        s.run(s.ctx);
    }

    pthread_mutex_lock(&lock);
    running--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);

    return NULL;
}


void
actor_begin(void (*run)(void *ctx), void *ctx)
{
    start_t         *s;
    pthread_t        thread;
    pthread_attr_t   attr;

    s = malloc(sizeof(start_t));
    if (s == NULL) {
        abort();
    }

    s->run = run;
    s->ctx = ctx;

    pthread_mutex_lock(&lock);
    running++;
    pthread_mutex_unlock(&lock);

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * 1024);

    if (pthread_create(&thread, &attr, actor_main, s) != 0) {
        abort();
    }

    pthread_attr_destroy(&attr);
}


bool
actor_pause(void)
{
    pthread_mutex_lock(&lock);

    while (paused && !quitting) {
        parked++;
        pthread_cond_broadcast(&changed);
        pthread_cond_wait(&resumed, &lock);
        parked--;
    }

    pthread_mutex_unlock(&lock);

    return quitting;
}


void
actors_pause(bool on)
{
    int64_t          until = now_ms() + 60000;
    struct timespec  ts;

    pthread_mutex_lock(&lock);
    paused = on;
    pthread_cond_broadcast(&resumed);

    while (on && parked < running) {
        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 1;
        pthread_cond_timedwait(&changed, &lock, &ts);

        if (now_ms() > until) {
            printf("STALL %d actors do not pause\n", running - parked);
            break;
        }
    }

    pthread_mutex_unlock(&lock);
}


void
actors_quit(void)
{
    struct timespec  ts;

    pthread_mutex_lock(&lock);
    quitting = true;
    pthread_cond_broadcast(&resumed);

    while (running) {
        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 30;

        if (pthread_cond_timedwait(&changed, &lock, &ts) != 0) {
            break;
        }
    }

    pthread_mutex_unlock(&lock);
}
