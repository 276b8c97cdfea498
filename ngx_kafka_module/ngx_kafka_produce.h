/*
 * A Produce request on its way; see ngx_kafka_api_produce.c.
 */

#ifndef NGX_KAFKA_PRODUCE_H
#define NGX_KAFKA_PRODUCE_H

#include "ngx_kafka_api.h"

#pragma GCC visibility push(hidden)


typedef struct {
    const kf_produce_request_partition_data_t        *in;
    kf_produce_response_partition_responses_t        *out;
    ngx_kafka_part_t     *part;         /* referenced */
    kf_batch_t            batch;
    kf_batch_rules_t      rules;
    kf_batch_verdict_t    verdict;
    uint8_t              *data;         /* batch, in the frame or converted */
    uint8_t              *converted;    /* malloc'ed; NULL: as it came */
    uint32_t              size;
    kf_codec_t            recompress;
    unsigned              convert:1;
    unsigned              walked:1;
    unsigned              unverified:1; /* the coordinator has to be asked */
    unsigned              verified:1;   /* it was */
    unsigned              waiting:1;
    int64_t               until;        /* high watermark to wait for */
    uint64_t              generation;   /* of the log that it is one of */
    ngx_kafka_watch_t     watch;
    ngx_kafka_request_t  *request;
} ngx_kafka_produce_part_t;

typedef struct {
    kf_produce_response_t      response;
    ngx_kafka_produce_part_t  *parts;
    ngx_uint_t                 parts_n;
    ngx_uint_t                 waiting;
    ngx_uint_t                 grace;   /* satisfied at the deadline */
    int64_t                    journal; /* offset of the topics' records */
} ngx_kafka_produce_ctx_t;


/* ngx_kafka_produce_append.c: what has been checked and walked. */
void ngx_kafka_produce_append(ngx_kafka_request_t *r);

/* ngx_kafka_produce_wait.c */
/* acks=-1: for the partitions, then for the journal. */
void ngx_kafka_produce_wait(ngx_kafka_request_t *r);
/* For the journal, then answers. */
void ngx_kafka_produce_journal(ngx_kafka_request_t *r);
/* The handler of a part's watch. */
void ngx_kafka_produce_woken(ngx_kafka_watch_t *w);
/* A topic that was named by its id is unknown by its id. */
int16_t ngx_kafka_produce_code(ngx_kafka_request_t *r, int16_t error);
/* Lets go of the partitions and of what was converted. */
void ngx_kafka_produce_cleanup(ngx_kafka_request_t *r);
/* The part's answer is an error; message: NULL, or a literal. */
void ngx_kafka_produce_fail(ngx_kafka_produce_part_t *p, int16_t error,
    const char *message);


#pragma GCC visibility pop

#endif
