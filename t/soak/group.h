/*
 * What the broker has promised to consumer groups.
 *
 * Promises:  an acknowledged commit is in force until a later one is, whatever
 * happens, and is shown with its leader epoch and metadata; a commit of a
 * generation that has been followed by another one does not come into force;
 * generations do not go back and have one leader; a partition has one owner in
 * a generation; a group goes on while the broker answers.  That every
 * acknowledged record reaches each group then follows from who consumes: each
 * member begins at the committed offset and commits what it has been given.
 * It is checked by itself all the same.
 *
 * Each commit has a serial number, which is in its metadata.  One that was not
 * answered is `open`: it may be in force, until something shows that it is not.
 */

#ifndef SOAK_GROUP_H
#define SOAK_GROUP_H

#include "model.h"

#define GROUP_TOPICS    2
#define GROUP_PARTS     (GROUP_TOPICS * 3)
#define GROUP_MEMBERS   4               /* actors of a group */
#define GENERATIONS     64              /* remembered */
#define METADATA_MAX    512


/* One commit of one partition; a deletion is one of offset -1. */
typedef struct {
    uint64_t  serial;                   /* 0: there was none */
    int64_t   offset;
    int32_t   generation;               /* -1: of no member */
    bool      adrift;                   /* nobody waits for its answer, and its
                                           request may still be read */
    bool      over;                     /* can no longer come into force */
    bool      stale;                    /* never could: of a generation that had
                                           been followed by another one */
} commit_t;

typedef struct {
    part_t    *part;                    /* NULL in a group without members */
    commit_t   known;                   /* is in force, or was: the last one */
    commit_t  *open;
    size_t     open_n, open_cap;
    uint8_t   *delivered;               /* by offset */
    int64_t    delivered_cap;
    int64_t    next;                    /* all below it were delivered */
    uint64_t   idle_serial;
    int64_t    idle_ms;                 /* behind, and no commit for so long */
} group_part_t;

typedef struct {
    int32_t  generation;                /* 0: free */
    char     leader[96];
    int      owners[GROUP_PARTS];       /* slot + 1 */
    char     ids[GROUP_MEMBERS][96];    /* of its members, as its leader heard */
    int64_t  joined_ms, synced_ms;      /* the first answer to a member */
} generation_t;

typedef struct group_s  group_t;

struct group_s {
    char             name[64];
    bool             by_id;             /* OffsetCommit 10 rather than 9 */
    bool             simple;            /* it has no members */
    pthread_mutex_t  lock;              /* over all below */
    group_part_t     parts[GROUP_PARTS];
    uint64_t         serial;
    int32_t          generation;        /* the highest that was heard of */
    generation_t     generations[GENERATIONS];
    char             ids[GROUP_MEMBERS][96];
    const char      *doing[GROUP_MEMBERS];
    int64_t          doing_ms[GROUP_MEMBERS];
    group_t         *next;
};

extern group_t  *groups;                /* never removed */
extern topic_t  *group_topics[GROUP_TOPICS];

#define group_topic(part)   (group_topics[(part) / 3])
#define group_index(part)   ((part) % 3)

group_t *group_add(const char *name, bool by_id, bool simple);

/* What is known when a request leaves. */
typedef struct {
    commit_t  known[GROUP_PARTS];
    uint64_t  serial;
    int32_t   generation;
} mark_t;

void group_mark(group_t *g, mark_t *m);

commit_t commit_begin(group_t *g, int part, int64_t offset,
    int32_t generation);
void commit_metadata(const group_t *g, int part, const commit_t *c, char *s);
int32_t commit_epoch(const commit_t *c);

typedef enum {
    COMMIT_DONE,
    COMMIT_REFUSED,
    COMMIT_LOST,                        /* no answer: done or not */
    COMMIT_ADRIFT                       /* nor will there be one */
} commit_end_t;

void commit_end(group_t *g, int part, const commit_t *c, commit_end_t how,
    const char *who);

/*
 * What OffsetFetch shows; m was taken before it was asked.  The asker is of
 * that generation; nothing of an earlier one can come into force any more.
 */
#define SHOWN_TO_ALL   INT32_MAX        /* nobody waits for an answer */

void offset_saw(group_t *g, int part, const mark_t *m, int32_t generation,
    int64_t offset, int32_t epoch, const char *metadata, const char *who);

void generation_saw(group_t *g, int32_t before, int32_t generation,
    const char *leader, const char *who);
void owner_saw(group_t *g, int32_t generation, int part, int slot,
    const char *who);
/* What a member is called now; who is in a generation, as its leader hears. */
void member_is(group_t *g, int slot, const char *id);
void member_saw(group_t *g, int32_t generation, const char *id);
/* A JoinGroup that was sent then is answered now with that generation, or -1;
   a SyncGroup likewise. */
void join_answered(group_t *g, int slot, const char *id, int32_t generation,
    int64_t sent_ms);
void sync_answered(group_t *g, int32_t generation, int error,
    int64_t sent_ms);

void delivered(group_t *g, int part, int64_t offset);
/* Every acknowledged record; to be called when the group is at the end. */
void delivered_all(group_t *g);

void group_doing(group_t *g, int slot, const char *what);

/* Looks every moment whether each partition gets on. */
void group_watch_run(void *ctx);

/* Waits until all groups have committed the ends of their partitions. */
bool groups_drain(void);
/* Every committed offset is what it has to be. */
bool groups_check(void);

/* Makes topics and groups, begins all that use them. */
bool groups_setup(int n);

void groups_stats(void);

typedef struct {
    _Atomic uint64_t  commits, refused, lost, shown, generations, joins,
                      delivered, again, left, vanished, returned, stalled,
                      rewound, deleted, longest_ms, latest_ms, forgotten;
} group_counters_t;

extern group_counters_t  group_counters;


/* --- requests (group_request.c) ------------------------------------------ */

enum {
    API_OFFSET_COMMIT = 8,
    API_OFFSET_FETCH = 9,
    API_JOIN_GROUP = 11,
    API_HEARTBEAT = 12,
    API_LEAVE_GROUP = 13,
    API_SYNC_GROUP = 14,
    API_DELETE_GROUPS = 42
};

enum {
    ERR_ILLEGAL_GENERATION = 22,
    ERR_UNKNOWN_MEMBER = 25,
    ERR_REBALANCE = 27,
    ERR_GROUP_NOT_FOUND = 69,
    ERR_MEMBER_ID_REQUIRED = 79,
    ERR_FENCED_INSTANCE = 82
};

#define ID_MAX        96
#define SESSION_MS    2000
#define REBALANCE_MS  3000

typedef struct {
    group_t     *group;
    char         id[ID_MAX];            /* "": none */
    const char  *instance;              /* NULL: dynamic */
    int32_t      generation;
} member_id_t;

typedef struct {
    char  id[ID_MAX], instance[ID_MAX];
} joined_t;

/* The answer to a JoinGroup. */
typedef struct {
    int32_t   generation;
    char      id[ID_MAX], leader[ID_MAX], protocol[32];
    bool      skip;                     /* the assignments are in force */
    joined_t  members[64];
    int       members_n;
} join_t;

int ask_join(conn_t *c, const member_id_t *m, join_t *j);

/* Owners of the partitions, by number in j->members; -1 sends none. */
int ask_sync(conn_t *c, const member_id_t *m, const join_t *j,
    const int owners[GROUP_PARTS], bool owns[GROUP_PARTS], char *said,
    size_t size);

int ask_heartbeat(conn_t *c, const member_id_t *m);
/* Its own error, or that of the one member. */
int ask_leave(conn_t *c, const member_id_t *m);
int ask_delete_group(conn_t *c, const group_t *g);

/* Partitions whose commit has a serial. */
bool commit_send(conn_t *c, const member_id_t *m,
    const commit_t commits[GROUP_PARTS]);
int commit_answer(conn_t *c, const member_id_t *m,
    const commit_t commits[GROUP_PARTS], int32_t correlation);

/* Every partition, wanted or (all) of whatever topic, goes to offset_saw();
   offsets: what was shown, -1 for none. */
int ask_offsets(conn_t *c, group_t *g, int32_t generation,
    const bool wanted[GROUP_PARTS], bool all, int64_t offsets[GROUP_PARTS]);


/* --- actors -------------------------------------------------------------- */

typedef struct {
    group_t  *group;
    int       slot;
} member_arg_t;

void member_run(void *ctx);             /* member_arg_t * */
void simple_run(void *ctx);             /* group_t * */

#endif
