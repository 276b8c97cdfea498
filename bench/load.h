/*
 * What the load generator's two files share: options, errors, one question to
 * a broker.  load.c loads a peer, control.c prepares and watches it.
 */

#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <netinet/in.h>
#include <sys/types.h>

#include "wire.h"


#define CONFIGS_MAX  32

typedef enum {
    MODE_PRODUCE,
    MODE_FETCH,
    MODE_API_VERSIONS,
    MODE_LIST_OFFSETS,
    MODE_IDLE,
    MODE_CREATE,
    MODE_DELETE,
    MODE_READY,
    MODE_TREE
} bench_mode_t;

typedef struct {
    const char    *name;
    bench_mode_t   mode;
    int16_t        api;
} mode_name_t;

typedef struct {
    const mode_name_t  *mode;
    const char         *label;
    struct sockaddr_in  addr;
    bool                floor;
    int                 conns;
    int                 depth;
    size_t              batch_bytes;    /* 0: one record */
    size_t              record_bytes;
    kf_codec_t          codec;
    int16_t             acks;
    const char         *topic;
    int                 partitions;
    int64_t             requests_max;
    double              seconds_max;
    double              rate;           /* requests a second; 0: no limit */
    int32_t             fetch_bytes;
    int64_t             file_bytes;     /* of the floor's file */
    int                 passes;
    pid_t               pid;
    double              since;          /* seconds of the epoch */
    char               *configs[CONFIGS_MAX];
    int                 configs_n;
} options_t;

extern options_t  opt;


/* Both end the program. */
__attribute__((noreturn))
void die(const char *what);
__attribute__((noreturn, format(printf, 1, 2)))
void fail(const char *fmt, ...);

/* A connection to the peer; -1, or the end if it must succeed. */
int dial(bool must);

/* One request and its answer, blocking; -1: the connection failed. */
int ask(int fd, int16_t api, frame_t f, answer_t *a);

void control_idle(void);
void control_tree(void);
void control_ready(void);
void control_topic(void);

#endif
