/*
 * What the files of the network half share: connections, requests, output.
 * Handlers include ngx_kafka.h only.
 */

#ifndef NGX_KAFKA_CONN_H
#define NGX_KAFKA_CONN_H

#include "ngx_kafka.h"

extern ngx_module_t  ngx_stream_kafka_module;

#pragma GCC visibility push(hidden)


#define NGX_KAFKA_READ_SIZE      (64 * 1024)    /* one recv() of small frames */
#define NGX_KAFKA_READ_BULK      (4 * 1024)     /* … before a large one */
#define NGX_KAFKA_READ_COPY      (16 * 1024)    /* above: read in place */
#define NGX_KAFKA_READ_TURN      (512 * 1024)   /* bytes per turn of the loop */
#define NGX_KAFKA_SEND_TURN      (1024 * 1024)
#define NGX_KAFKA_FRAME_STEP     (1024 * 1024)  /* memory before it is needed */
#define NGX_KAFKA_UNSENT_MAX     (1024 * 1024)  /* then requests wait */
#define NGX_KAFKA_WINDOW         (64 * 1024)    /* of a file, under TLS */
#define NGX_KAFKA_FRAME_TIMEOUT  60000          /* ms for … */
#define NGX_KAFKA_FRAME_PACE     4096           /* … so many bytes of a frame */
#define NGX_KAFKA_LINGER         1000           /* ms */
#define NGX_KAFKA_IDLE_TIMEOUT   600000         /* ms, Kafka's default */
#define NGX_KAFKA_NAME_MAX       255            /* of what is kept for logs */

#define NGX_KAFKA_KEY_PRODUCE    0
#define NGX_KAFKA_KEY_FETCH      1
#define NGX_KAFKA_KEY_VERSIONS   18


typedef struct ngx_kafka_net_s  ngx_kafka_net_t;

/* One broker's connections in this worker. */
struct ngx_kafka_net_s {
    ngx_kafka_broker_t  *broker;
    ngx_queue_t          blocked;       /* may not read: memory is short */
    ngx_event_t          resume;
    ngx_event_t          relief;        /* see ngx_kafka_net_relief() */
    ngx_kafka_conn_t    *grower;        /* may go on past the budget */
};

/* See the head of ngx_kafka_conn.c. */
typedef enum {
    NGX_KAFKA_CONN_WAIT = 0,
    NGX_KAFKA_CONN_OPEN,
    NGX_KAFKA_CONN_DRAIN,
    NGX_KAFKA_CONN_LINGER
} ngx_kafka_conn_state_t;

/* A slice of a file on its way out. */
typedef struct {
    ngx_buf_t            buf;           /* first: out chains point here */
    ngx_file_t           file;
    off_t                warm;          /* in the page cache up to here */
} ngx_kafka_file_buf_t;

/* A string that is overwritten in place: a connection lives for days. */
typedef struct {
    u_char              *data;
    size_t               size;
} ngx_kafka_name_t;

typedef struct {
    ngx_kafka_conn_t        kc;         /* first */
    ngx_kafka_conn_state_t  state;
    const char             *why;        /* it ends, or NULL */
    ngx_uint_t              status;     /* of the session */
    ngx_event_t             work;       /* posted: dispatch, write, close */
    ngx_kafka_watch_t       watch;      /* WAIT: until the broker is open */
    ngx_queue_t             blocked;    /* in net->blocked */

    /* input: four bytes of size, then a frame */
    u_char                  head[4];
    ngx_uint_t              head_n;
    u_char                 *frame;      /* NULL: none is half read */
    size_t                  frame_size; /* memory */
    size_t                  frame_len;  /* bytes that the frame has */
    size_t                  frame_got;
    size_t                  frame_mark; /* frame_got at frame_time */
    ngx_msec_t              frame_time;
    ngx_msec_t              active;     /* last byte in or out */
    u_char                 *rest;       /* read, but not taken yet */
    size_t                  rest_size;
    size_t                  rest_len;
    size_t                  rest_pos;

    /* output */
    size_t                  unsent;     /* bytes of answers that are ready */
    u_char                 *window;     /* TLS: a part of a file in memory */
    size_t                  window_size;
    ngx_buf_t               window_buf;
    ngx_kafka_request_t    *window_of;

    /* for handlers and logs */
    ngx_kafka_name_t        names[3];
    ngx_kafka_request_t    *logged;     /* variables speak of this request */
    kf_str_t                advertised; /* host; null: not asked yet */
    int32_t                 advertised_port;

    unsigned                is_blocked:1;
    unsigned                busy:1;     /* dispatching */
    unsigned                warming:1;
    unsigned                closing:1;  /* at once, from the posted event */
    unsigned                eof:1;
    unsigned                gone:1;     /* nobody reads: answers are dropped */
    unsigned                bulk:1;     /* the last frame was large */
    unsigned                corked:1;
} ngx_kafka_link_t;

#define ngx_kafka_link(conn)  ((ngx_kafka_link_t *) (conn)->io)

/* A request as its makers see it. */
typedef struct {
    ngx_kafka_request_t    r;           /* first */
    const kf_api_t        *codec;
    kf_rc_t                header;      /* what reading the header said */
    u_char                *mem;         /* the frame's; NULL: in the pool */
    size_t                 mem_size;
    size_t                 charged;     /* bytes of the broker's budget */
    ngx_uint_t             holds;
    const char            *failed;      /* close when it is its turn */
    ngx_kafka_file_buf_t  *files;       /* of the answer */
    ngx_kafka_splice_t    *splices;     /* whose files are referenced */
    unsigned               dispatched:1;
    unsigned               hurried:1;
    unsigned               counted:1;   /* out_size is in io->unsent */
} ngx_kafka_req_t;


/* ngx_kafka_mem.c: memory of frames, kept for reuse within bounds */
u_char *ngx_kafka_mem_get(size_t want, size_t *size);
/* Keeps the first used bytes; NULL: the old memory is still there. */
u_char *ngx_kafka_mem_grow(u_char *p, size_t used, size_t want, size_t *size);
void ngx_kafka_mem_put(u_char *p, size_t size);
/* A request's pool; put destroys it or keeps it for the next one. */
ngx_pool_t *ngx_kafka_pool_get(void);
void ngx_kafka_pool_put(ngx_pool_t *pool);

/* ngx_kafka_read.c */
extern u_char  *ngx_kafka_read_buffer;  /* of the worker, READ_SIZE bytes */
ngx_int_t ngx_kafka_net_init(ngx_kafka_broker_t *b);
/* Bytes that are held, against the broker's budget. */
void ngx_kafka_charge(ngx_kafka_broker_t *b, size_t n);
void ngx_kafka_uncharge(ngx_kafka_broker_t *b, size_t n);
/* Reads until there is no more, the turn is over or something is full.  Not
 * NGX_OK: the connection is to be freed. */
ngx_int_t ngx_kafka_conn_read(ngx_kafka_conn_t *kc);
/* NGX_OK: room for another request of this connection. */
ngx_int_t ngx_kafka_conn_room(ngx_kafka_conn_t *kc);
/* Bytes that cannot be taken now are kept; take_rest() tries again. */
ngx_int_t ngx_kafka_conn_keep(ngx_kafka_conn_t *kc, u_char *p, size_t len);
ngx_int_t ngx_kafka_conn_take_rest(ngx_kafka_conn_t *kc);
void ngx_kafka_conn_drop_rest(ngx_kafka_conn_t *kc);
void ngx_kafka_conn_drop_frame(ngx_kafka_conn_t *kc);

/* ngx_kafka_conn.c */
/* Reads no more; closes when what was read is answered. */
void ngx_kafka_conn_end(ngx_kafka_conn_t *kc, const char *why,
    ngx_uint_t status);

/* ngx_kafka_request.c */
/* A request from a whole frame.  mem: memory that the request takes over; NULL:
 * the frame is copied.  NULL: no memory; the caller still has mem. */
ngx_kafka_request_t *ngx_kafka_request_create(ngx_kafka_conn_t *kc,
    u_char *frame, size_t len, u_char *mem, size_t mem_size);
/* Dispatches what may be dispatched now. */
void ngx_kafka_dispatch(ngx_kafka_conn_t *kc);
/* Asks every parked request to answer early. */
void ngx_kafka_hurry(ngx_kafka_conn_t *kc);
/*
 * Requests of this connection that wait for something to happen and can do
 * without, with at least `least` bytes charged: *bytes is what they hold in
 * all, *largest the largest.  end: they answer early, until *bytes have gone.
 */
void ngx_kafka_relieve(ngx_kafka_conn_t *kc, size_t least, ngx_uint_t end,
    size_t *bytes, size_t *largest);
/* Its answer is out: off the queue, freed or, while held, dead. */
void ngx_kafka_request_end(ngx_kafka_request_t *r);
/* The connection goes: cancels and ends. */
void ngx_kafka_request_abandon(ngx_kafka_request_t *r);
/* Encodes in another version than the one asked for (ApiVersions). */
void ngx_kafka_answer_version(ngx_kafka_request_t *r, int16_t version,
    const void *response);

/* ngx_kafka_write.c */
/* Writes what is ready.  NGX_OK: all; NGX_AGAIN: the rest later, an event will
 * come; NGX_ERROR: the client is gone. */
ngx_int_t ngx_kafka_output(ngx_kafka_conn_t *kc);
void ngx_kafka_output_free(ngx_kafka_conn_t *kc);

/* ngx_kafka_var.c */
/* One access log line for an answered request. */
void ngx_kafka_log_request(ngx_kafka_request_t *r);
/* Keeps a copy for logs, cut at NGX_KAFKA_NAME_MAX bytes. */
void ngx_kafka_name_set(ngx_kafka_conn_t *kc, ngx_uint_t i, kf_str_t *name,
    kf_str_t value);
/* Ends the session; writes its access log line unless requests had theirs. */
void ngx_kafka_finalize(ngx_kafka_conn_t *kc, ngx_uint_t status);


#pragma GCC visibility pop

#endif
