/*
 * A small Kafka client: frames, primitive types, one request at a time or
 * several under way.  Written from the protocol alone; it shares no code with
 * the broker, so that the two cannot be wrong in the same way.
 */

#ifndef SOAK_WIRE_H
#define SOAK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_LIST_OFFSETS = 2,
    API_METADATA = 3,
    API_VERSIONS = 18,
    API_CREATE_TOPICS = 19,
    API_DELETE_TOPICS = 20,
    API_INIT_PRODUCER_ID = 22
};

enum {
    ERR_NONE = 0,
    ERR_OFFSET_OUT_OF_RANGE = 1,
    ERR_UNKNOWN_TOPIC = 3,
    ERR_LEADER_NOT_AVAILABLE = 5,
    ERR_NOT_LEADER = 6,
    ERR_TIMED_OUT = 7,
    ERR_LOADING = 14,
    ERR_COORDINATOR_NOT_AVAILABLE = 15,
    ERR_NOT_COORDINATOR = 16,
    ERR_TOPIC_EXISTS = 36,
    ERR_NOT_CONTROLLER = 41,
    ERR_OUT_OF_ORDER = 45,
    ERR_CONCURRENT = 51,
    ERR_STORAGE = 56,
    ERR_UNKNOWN_TOPIC_ID = 100
};


/* Bytes to send. */
typedef struct {
    uint8_t  *data;
    size_t    len, cap;
} out_t;

void put(out_t *o, const void *data, size_t n);
void put_i8(out_t *o, int v);
void put_i16(out_t *o, int v);
void put_i32(out_t *o, int32_t v);
void put_i64(out_t *o, int64_t v);
void put_uvarint(out_t *o, uint64_t v);
void put_varint(out_t *o, int64_t v);       /* zig-zag */
void put_str(out_t *o, const char *s);      /* compact; NULL: null */
void put_count(out_t *o, int n);            /* compact array */
void put_tags(out_t *o);                    /* none */


/* Bytes received.  A read past the end sets bad; then all reads are 0. */
typedef struct {
    const uint8_t  *p, *end;
    bool            bad;
} in_t;

const uint8_t *get(in_t *in, size_t n);
int get_i8(in_t *in);
int get_i16(in_t *in);
int32_t get_i32(in_t *in);
int64_t get_i64(in_t *in);
uint64_t get_uvarint(in_t *in);
int64_t get_varint(in_t *in);
void get_str(in_t *in, char *s, size_t size);   /* compact; null: "" */
int get_count(in_t *in);                        /* -1: null; bounded */
void get_tags(in_t *in);


/*
 * One connection.  Calls answer false when it is lost; it is closed then.
 * *stop: a flag that makes waiting end (the connection is closed).
 */
typedef struct {
    int                    fd;                  /* -1: closed */
    int32_t                correlation;
    uint8_t               *frame;               /* last answer */
    size_t                 frame_cap;
    const volatile bool   *stop;
    bool                   hurry;               /* does not wait for answers */
    const char            *who;
} conn_t;

void conn_init(conn_t *c, const char *who, const volatile bool *stop);
bool conn_open(conn_t *c);              /* an open one stays; no waiting */
void conn_close(conn_t *c);
void conn_free(conn_t *c);

/* A request begins in *o, and is sent with its length. */
void request_begin(conn_t *c, out_t *o, int api, int version);
bool request_send(conn_t *c, out_t *o);
/* The next answer, header read and checked against the correlation id. */
bool response(conn_t *c, in_t *in, int32_t correlation);
/* Both. */
bool call(conn_t *c, out_t *o, in_t *in);


uint32_t crc32c(const void *data, size_t n);
uint64_t rnd(uint64_t *state);          /* splitmix64 */
int64_t now_ms(void);                   /* monotonic */
int64_t wall_ms(void);
void sleep_ms(int ms);

extern int  wire_port;
extern volatile int64_t  wire_answered_ms;      /* somebody, the last time */

#endif
