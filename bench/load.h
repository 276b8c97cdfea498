/*
 * What the files of the load generator share: options, errors, one question to
 * a broker.
 *
 *   load.c      options, which mode runs
 *   stream.c    ready-made requests, many in flight
 *   txn.c       transactions, one after the other on each connection
 *   group.c     the members of a group as they join, stay and leave
 *   zone.c      what groups, members and offsets take of the shared zone
 *   control.c   topics, readiness, memory of connections
 *   member.c    one member of a group, blocking
 *   peer.c      connections and questions, blocking
 *   net.c       connections and answers, by epoll
 *   result.c    latencies, CPU, the line of JSON
 *   proc.c      CPU and memory of a tree of processes
 *   wire*.c     requests and answers
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
    MODE_HEARTBEAT,
    MODE_OFFSET_COMMIT,
    MODE_TXN,
    MODE_GROUP,
    MODE_ZONE,
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
    void         (*run)(void);
} mode_name_t;

typedef struct {
    const mode_name_t  *mode;
    const char         *label;
    const char         *peer;           /* who is loaded, for the result */
    struct sockaddr_in  addr;
    bool                floor;          /* speaks the floor's protocol */
    int                 conns;
    int                 depth;
    size_t              batch_bytes;    /* 0: one record */
    size_t              record_bytes;
    kf_codec_t          codec;
    int16_t             acks;
    const char         *topic;
    const char         *input;          /* of transactions; NULL: none */
    int                 partitions;
    int64_t             requests_max;
    double              seconds_max;
    double              rate;           /* requests a second; 0: no limit */
    int32_t             fetch_bytes;
    int64_t             file_bytes;     /* of the floor's file */
    int                 passes;
    int                 heartbeat_ms;
    pid_t               pid;
    double              since;          /* seconds of the epoch */
    char               *configs[CONFIGS_MAX];
    int                 configs_n;
} options_t;

extern options_t  opt;


/* --- peer.c --- */

/* Both end the program. */
__attribute__((noreturn))
void die(const char *what);
__attribute__((noreturn, format(printf, 1, 2)))
void fail(const char *fmt, ...);

/* calloc() that succeeds. */
void *need(size_t n, size_t size);

/* A connection to the peer; -1, or the end if it must succeed. */
int dial(bool must);

/* One request, and the next answer, blocking; -1: the connection failed. */
int tell(int fd, frame_t f);
int hear(int fd, int16_t api, answer_t *a);

/* Both; the frame stays the caller's. */
int ask(int fd, int16_t api, frame_t f, answer_t *a);

/* The same with a frame made for it, which is freed; must succeed. */
void ask_once(int fd, int16_t api, frame_t f, answer_t *a);

/* An answer that says: not yet. */
bool is_passing(int16_t error);


/* --- member.c --- */

/* Waits until the coordinator of a group (type 0) or a transactional id (1)
 * can be asked. */
void coordinator_ready(int fd, const char *key, int8_t type);

/* The only member of its group: joined and synced.  name: of the group. */
void member_join(int fd, member_t *m, const char *name);
void member_leave(int fd, member_t *m);


/* --- modes --- */

void stream_run(void);
void txn_run(void);
void group_run(void);
void zone_run(void);
void control_idle(void);
void control_tree(void);
void control_ready(void);
void control_topic(void);

#endif
