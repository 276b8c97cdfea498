/*
 * What the files of the background jobs share.  ngx_kafka_job.c knows when they
 * run and calls the two others, which do not know of it; ngx_kafka_reopen.c
 * uses ngx_kafka_upkeep.c.
 */

#ifndef NGX_KAFKA_JOB_H
#define NGX_KAFKA_JOB_H

#include "ngx_kafka_life.h"

#pragma GCC visibility push(hidden)


#define NGX_KAFKA_REOPEN_FIRST  1000            /* ms after it has failed */


typedef struct {
    ngx_kafka_broker_t  *broker;
    ngx_uint_t           job;
    kc_t                 kc;
    ngx_kafka_io_t       io;
    int64_t              next_ms;
    _Atomic uint32_t     failed;
    int64_t              deadline_ms;
    bool                 clean;
    bool                 busy;                  /* another worker runs it */
    int32_t              leader_epoch;          /* REOPEN: at its beginning */
    _Atomic uint32_t     raise;                 /* REOPEN: it is not enough */
} ngx_kafka_job_t;


/* --- ngx_kafka_upkeep.c --------------------------------------------------- */

/* Has it to end before its work is done? */
bool ngx_kafka_job_stops(ngx_kafka_job_t *job);
/* Runs visit(b, item, job) for every partition of the broker, in threads. */
void ngx_kafka_job_each(ngx_kafka_job_t *job,
    bool (*visit)(ngx_kafka_broker_t *b, ngx_kafka_item_t *item, void *ctx));
/* From any thread: something has failed, which is reopened at due. */
void ngx_kafka_job_due(ngx_kafka_broker_t *b, int64_t due);
/* What a job has made of a partition: told to all who wait, here too. */
void ngx_kafka_job_news(ngx_kafka_broker_t *b, int32_t slot,
    const kl_offsets_t *before);
/* No catalog has it; the worker whose section it was may have died. */
void ngx_kafka_job_flush_journal(ngx_kafka_broker_t *b);

/* For ngx_kafka_job_each(). */
bool ngx_kafka_job_retain(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
bool ngx_kafka_job_checkpoint(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);
bool ngx_kafka_job_flush(ngx_kafka_broker_t *b,
    ngx_kafka_item_t *item, void *ctx);

/* The files of deleted topics; sets next_ms. */
void ngx_kafka_job_remove(ngx_kafka_job_t *job);


/* --- ngx_kafka_reopen.c --------------------------------------------------- */

/* All that have failed; counts in job->failed those that stay so. */
void ngx_kafka_job_reopen_all(ngx_kafka_job_t *job);


#pragma GCC visibility pop

#endif
