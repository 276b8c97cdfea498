/*
 * Groups inside: objects, and what the files kc_group*.c, kc_offset*.c and
 * kc_timer.c share.
 *
 * A member has two bodies: what the journal has of it (`said`) and what it says
 * now (`says`); they are one block while they do not differ.  A group's durable
 * view is made of the former, its members' order and the assignments; the live
 * view, in which members come, go and change between two generations, of the
 * latter.  Only replay touches the durable view.
 *
 * Memory, with nginx's slabs (powers of two up to 2 KiB): a group 512 bytes,
 * its protocol's names 32; a member 256, its body 256 to 512 with ids of usual
 * length and one subscription of up to 100 bytes, its assignment 64 to 256; a
 * topic of a group 128, and 32 bytes for each offset in it, with room for 4,
 * 8, 16, …; an offset's metadata 16 and its length.
 * t/unit/coordinator_group_state.c checks the numbers.
 */

#ifndef KC_GROUP_INT_H
#define KC_GROUP_INT_H

#include "kc_int.h"
#include "kc_group.h"

#pragma GCC visibility push(hidden)


#define KC_GROUP_ID_MAX      32767              /* what old versions carry */
#define KC_INSTANCE_ID_MAX   (32767 - 37)       /* a member's id is longer */
#define KC_CLIENT_ID_SHOWN   255                /* of it, in a member's id */
#define KC_PROTOCOLS_MAX     64                 /* of one member */
#define KC_MEMBER_BYTES_MAX  (1024 * 1024)      /* of one member's protocols */
#define KC_GROUP_BYTES_MAX   (7 * 1024 * 1024)  /* of all, and of assignments */
#define KC_JOIN_NEW_MS       (5 * 60 * 1000)    /* Kafka's, for a first join */
#define KC_RETRY_MS          1000               /* after a failed decision */
#define KC_NEVER             INT64_MAX

typedef struct kc_group_s        kc_group_t;
typedef struct kc_member_s       kc_member_t;
typedef struct kc_group_topic_s  kc_group_topic_t;

/* As JoinGroup and the records have it. */
typedef struct {
    kf_str_t    name;
    kf_bytes_t  metadata;
} kc_protocol_t;

/* What a member says of itself in JoinGroup; one block, texts behind. */
typedef struct {
    size_t          size;
    int32_t         session_ms;
    int32_t         rebalance_ms;
    kf_str_t        type;           /* null: that of the group */
    kf_str_t        client_id;
    kf_str_t        client_host;
    kc_protocol_t  *protocols;
    int32_t         protocols_n;
} kc_body_t;

struct kc_member_s {
    kc_node_t     by_id;
    kc_node_t     by_instance;      /* while it is live and static */
    kc_member_t  *prev;             /* in order of joining */
    kc_member_t  *next;
    kc_body_t    *said;             /* durable; NULL: not in the generation */
    kc_body_t    *says;             /* live; NULL: gone */
    kf_bytes_t    assignment;       /* durable; own block */
    kf_str_t      instance;         /* null: dynamic */
    int64_t       deadline;         /* mono ms; 0: none since the recovery */
    uint64_t      join_ticket;
    uint64_t      sync_ticket;
    bool          joining;          /* waits for the round's end */
    bool          syncing;          /* waits for the assignments */
    bool          unsynced;         /* has not asked for its assignment */
    bool          fresh;            /* has never been in a generation */
};

/* An id that was given with MEMBER_ID_REQUIRED. */
typedef struct {
    kc_node_t  by_id;
    int64_t    deadline;            /* mono ms */
} kc_pending_t;

struct kc_group_s {
    kc_node_t     by_id;
    kc_node_t     by_due;
    uint8_t       due_key[16];      /* due and serial, big-endian */
    int64_t       due;              /* mono ms; not after any deadline below */
    uint64_t      serial;
    int64_t       changed;          /* journal offset after the last change */

    /* durable */
    uint8_t       type;             /* kc_group_type_t */
    bool          recorded;         /* there was a GroupRecord */
    bool          stable;
    int32_t       generation;
    int64_t       state_ms;         /* wall */
    kf_str_t      protocol_type;    /* null: none, as in a simple group */
    kf_str_t      protocol;
    uint8_t      *names;            /* the block of both */
    size_t        names_size;
    kc_member_t  *said_leader;
    kc_map_t      offsets;          /* kc_group_topic_t by topic id */
    uint64_t      offsets_n;
    uint64_t      staged_n;         /* in transactions: kc_staged.c */

    /* live */
    uint8_t       state;            /* kc_group_state_t */
    bool          armed;            /* deadlines are set since the recovery */
    bool          from_empty;       /* the round began in an Empty group */
    bool          newcomer;         /* … and somebody came in its last delay */
    kc_member_t  *leader;
    kc_member_t  *first;
    kc_member_t  *last;
    kc_map_t      members;          /* live and durable ones */
    kc_map_t      instances;
    kc_map_t      pending;
    uint32_t      live;
    uint32_t      joined;           /* live and joining */
    uint32_t      said;             /* durable */
    int64_t       join_deadline;    /* mono ms; KC_NEVER */
    int64_t       sync_deadline;
    int64_t       check_deadline;   /* of offsets */
    int64_t       join_delay;       /* the initial delay under way, and the … */
    int64_t       join_left;        /* … time by which it may be extended */
};

/* Older or longer things of an offset, when it has any. */
typedef struct {
    int64_t   expire_ms;            /* wall; -1: none */
    uint32_t  len;
    uint8_t   metadata[];
} kc_note_t;

typedef struct {
    int64_t     offset;
    int64_t     commit_ms;          /* wall */
    int32_t     partition;
    int32_t     leader_epoch;
    kc_note_t  *note;
} kc_offset_t;

/* A group's offsets in one topic, committed and staged.  There is room for all
   that are staged, so that no commit needs memory. */
struct kc_group_topic_s {
    kc_node_t          by_topic;
    kc_group_t        *group;
    kc_topic_obj_t    *topic;
    kc_group_topic_t  *prev;        /* among those of the topic */
    kc_group_topic_t  *next;
    kc_offset_t       *offsets;     /* by partition */
    kc_map_t           staged;      /* kc_staged_t by partition and producer */
    uint32_t           n;
    uint32_t           room;
};

/* What the replay of offsets will take, by topic. */
typedef struct {
    bool      topic;
    uint32_t  room;                     /* of a new array; 0: none */
} kc_offsets_plan_topic_t;


/* --- kc_group.c: objects ------------------------------------------------- */

/* Copies a text to *p and moves that on; null stays null. */
kf_str_t kc_pack(uint8_t **p, kf_str_t s);
kc_group_t *kc_group_find(const kc_t *kc, kf_str_t id);
/* In order of ids; null begins. */
kc_group_t *kc_group_next(const kc_t *kc, kf_str_t after);
/* A volatile group; NULL: no memory. */
kc_group_t *kc_group_create(kc_t *kc, kf_str_t id);
size_t kc_group_size(kf_str_t id);
void kc_group_init(kc_t *kc, kc_group_t *g, kf_str_t id);
void kc_group_drop(kc_t *kc, kc_group_t *g);
/* Drops it when neither the journal nor a client knows it. */
bool kc_group_drop_unused(kc_t *kc, kc_group_t *g);
void kc_pending_free(kc_t *kc, kc_group_t *g, kc_pending_t *p);
void kc_group_touch(kc_t *kc, kc_group_t *g, int64_t end);
/* For kc_woken_take(). */
void kc_woken(kc_t *kc, const kc_group_t *g);

/* The live protocol type; null when there is none yet. */
kf_str_t kc_group_protocol_type(const kc_group_t *g);
/* Is it of consumers, whose metadata are subscriptions? */
bool kc_group_of_consumers(const kc_group_t *g);
const char *kc_group_state_name(const kc_group_t *g);
/* What an answer has to wait for that says that there is no such group. */
int64_t kc_group_absent(const kc_t *kc);

kc_member_t *kc_member_find(const kc_group_t *g, kf_str_t id);   /* live */
kc_member_t *kc_member_static(const kc_group_t *g, kf_str_t instance);
size_t kc_member_size(kf_str_t id, kf_str_t instance);
void kc_member_init(kc_member_t *m, kf_str_t id, kf_str_t instance);
/* Puts it before `at`, NULL: last. */
void kc_member_insert(kc_group_t *g, kc_member_t *m, kc_member_t *at);
/* Moves it to the end of the order. */
void kc_member_last(kc_group_t *g, kc_member_t *m);
/* Takes it out of maps and list and frees everything of it. */
void kc_member_free(kc_t *kc, kc_group_t *g, kc_member_t *m);
/* It leaves the live view; frees it when the journal does not have it. */
void kc_member_gone(kc_t *kc, kc_group_t *g, kc_member_t *m);

size_t kc_body_size(kf_str_t type, kf_str_t client_id, kf_str_t client_host,
    const kc_protocol_t *protocols, int32_t n);
void kc_body_fill(kc_body_t *b, size_t size, kf_str_t type, kf_str_t client_id,
    kf_str_t client_host, const kc_protocol_t *protocols, int32_t n);
/* The metadata for a protocol; empty when it is not among them. */
kf_bytes_t kc_body_metadata(const kc_body_t *b, kf_str_t protocol);

#define kc_each_live(g, m)                                                    \
    for ((m) = (g)->first; (m); (m) = (m)->next) if ((m)->says)

#define kc_each_said(g, m)                                                    \
    for ((m) = (g)->first; (m); (m) = (m)->next) if ((m)->said)


/* --- kc_group_round.c: rounds -------------------------------------------- */

/* Kafka's code for a member that names itself; *m on success. */
int16_t kc_member_validate(const kc_group_t *g, kf_str_t id, kf_str_t instance,
    kc_member_t **m);
void kc_member_alive(kc_t *kc, kc_group_t *g, kc_member_t *m, int64_t now);
bool kc_group_supports(const kc_group_t *g, kf_str_t type,
    const kc_protocol_t *protocols, int32_t n);
/* The protocol of the next generation, were `as` what `m` says. */
kf_str_t kc_group_elect_protocol(const kc_group_t *g, const kc_member_t *m,
    const kc_body_t *as);
int32_t kc_group_rebalance_ms(const kc_group_t *g);
/* Begins a round, or ends the one under way, if that is due. */
void kc_group_rebalance(kc_t *kc, kc_call_t *call, kc_group_t *g);
void kc_group_maybe_complete(kc_t *kc, kc_call_t *call, kc_group_t *g);
/* Ends a round: what cannot be written is tried again by the timer. */
void kc_group_complete(kc_t *kc, kc_call_t *call, kc_group_t *g);


/* --- kc_timer.c ---------------------------------------------------------- */

/* A deadline of the group that may be earlier than all others. */
void kc_due(kc_t *kc, kc_group_t *g, int64_t when);
void kc_due_remove(kc_t *kc, kc_group_t *g);
static inline int64_t
kc_after(int64_t now, int64_t ms)
{
    return ms > 0 ? (now > KC_NEVER - ms ? KC_NEVER - 1 : now + ms) : now;
}


/* --- kc_group_subscription.c --------------------------------------------- */

/* What a group's members subscribe to, by the generation in force. */
typedef struct {
    kc_map_t    topics;
    bool        all;                /* a member's subscription is unreadable */
    kf_arena_t  arena;              /* of kc_scratch() */
} kc_subscription_t;

/* false: no memory.  kc_scratch_done() in any case. */
bool kc_subscription_of(kc_t *kc, const kc_group_t *g, kc_subscription_t *s);
bool kc_subscribed(const kc_subscription_t *s, kf_str_t topic);


/* --- kc_offset.c --------------------------------------------------------- */

kc_group_topic_t *kc_offsets_of(const kc_group_t *g, kf_uuid_t topic_id);
/* In order of topic ids; NULL begins. */
kc_group_topic_t *kc_offsets_next(const kc_group_t *g,
    const kc_group_topic_t *after);
kc_offset_t *kc_offset_find(const kc_group_topic_t *t, int32_t partition);
void kc_offsets_drop(kc_t *kc, kc_group_topic_t *t);
/* Drops it when nothing is left in it. */
void kc_offsets_drop_empty(kc_t *kc, kc_group_topic_t *t);
/* Plans, and reserves, what a topic of a group needs for more offsets. */
bool kc_offsets_plan(kc_t *kc, const kc_group_topic_t *t, uint32_t added,
    kc_offsets_plan_topic_t *plan);
/* The group's entry for a topic, with room for what was planned. */
kc_group_topic_t *kc_offsets_entry(kc_t *kc, kc_group_t *g,
    kc_topic_obj_t *topic, const kc_offsets_plan_topic_t *plan);
void kc_note_free(kc_t *kc, kc_note_t *note);
/* Puts an offset in force; false: there is no room. */
bool kc_offset_put(kc_t *kc, kc_group_topic_t *t, const kc_offset_t *new);
/* Deletes what has expired; kc_tick's. */
kc_rc_t kc_offsets_expire(kc_t *kc, kc_call_t *call, kc_group_t *g);

static inline kf_str_t
kc_offset_metadata(const kc_offset_t *o)
{
    return o->note ? (kf_str_t) { o->note->metadata, o->note->len }
                   : kf_str("");
}


/* --- kc_staged.c: offsets in transactions -------------------------------- */

/* Is any staged for this partition? */
bool kc_staged_any(const kc_group_topic_t *t, int32_t partition);
/* An offset that was staged or committed at `position` is in force: it goes
   before all that were staged earlier. */
void kc_staged_supersede(kc_group_topic_t *t, int32_t partition,
    int64_t position);
void kc_staged_drop_partition(kc_t *kc, kc_group_topic_t *t,
    int32_t partition);
void kc_staged_drop_topic(kc_t *kc, kc_group_topic_t *t);


/* --- kc_offset_commit.c, for TxnOffsetCommit too ------------------------- */

/* A partition that will be committed, on its way into the record. */
typedef struct {
    kf_uuid_t                                     topic_id;
    int32_t                                       order;    /* in the request */
    const kf_offset_commit_request_partitions_t  *p;
} kc_commit_entry_t;

/* Answers each partition, and collects those that are good. */
bool kc_commit_check(kc_t *kc, kc_call_t *call, bool by_id, int16_t error,
    const kf_offset_commit_request_t *req, kf_offset_commit_response_t *rsp,
    kc_commit_entry_t *entries, int32_t *n);
/* By topic and partition; of one partition the last counts. */
int32_t kc_commit_sort(kc_commit_entry_t *entries, int32_t n);
/* It cannot be stored in one record: each that would have been. */
void kc_commit_too_large(kf_offset_commit_response_t *rsp);


#pragma GCC visibility pop

#endif
