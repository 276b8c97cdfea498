/*
 * The requests of groups.  Versions: JoinGroup 9, SyncGroup 5, Heartbeat 4,
 * LeaveGroup 5, OffsetCommit 9 and 10, OffsetFetch 9 and 10 (groups that name
 * topics by id take the later of two), DeleteGroups 2.
 *
 * Subscriptions and assignments are those of Kafka's consumer protocol.  The
 * user data of an assignment says who made it, and for which generation.
 */

#define _GNU_SOURCE
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static void
put_bytes(out_t *o, const out_t *bytes)
{
    put_uvarint(o, bytes->len + 1);
    put(o, bytes->data, bytes->len);
}


/* The strings of the consumer protocol have a length of two bytes. */
static void
put_str16(out_t *o, const char *s)
{
    put_i16(o, (int) strlen(s));
    put(o, s, strlen(s));
}


static void
get_str16(in_t *in, char *s, size_t size)
{
    int             n = get_i16(in);
    const uint8_t  *p = get(in, (size_t) (n < 0 ? 0 : n));

    s[0] = '\0';

    if (p && n >= 0 && (size_t) n < size) {
        memcpy(s, p, (size_t) n);
        s[n] = '\0';
    }
}


static int
malformed(conn_t *c, const char *what)
{
    fault("%s: a malformed %s response", c->who, what);
    conn_close(c);

    return LOST;
}


/* A whole answer has been read. */
static int
ended(conn_t *c, in_t *in, int error, const char *what)
{
    get_tags(in);

    return in->bad || in->p != in->end ? malformed(c, what) : error;
}


/* Sends what is in *o and frees it. */
static bool
asked(conn_t *c, out_t *o, in_t *in)
{
    bool  good = call(c, o, in);

    free(o->data);

    return good;
}


/* --- JoinGroup ----------------------------------------------------------- */

static void
subscription(out_t *o)
{
    int  i;

    put_i16(o, 0);
    put_i32(o, GROUP_TOPICS);

    for (i = 0; i < GROUP_TOPICS; i++) {
        put_str16(o, group_topics[i]->name);
    }

    put_i32(o, -1);                             /* no user data */
}


int
ask_join(conn_t *c, const member_id_t *m, join_t *j)
{
    int     i, n, error;
    char    s[256];
    in_t    in;
    out_t   o = { NULL, 0, 0 }, sub = { NULL, 0, 0 };
    mark_t  mark;

    group_mark(m->group, &mark);
    subscription(&sub);

    request_begin(c, &o, API_JOIN_GROUP, 9);
    put_str(&o, m->group->name);
    put_i32(&o, SESSION_MS);
    put_i32(&o, REBALANCE_MS);
    put_str(&o, m->id);
    put_str(&o, m->instance);
    put_str(&o, "consumer");
    put_count(&o, 2);

    for (i = 0; i < 2; i++) {
        put_str(&o, i == (m->instance != NULL) ? "one" : "other");
        put_bytes(&o, &sub);
        put_tags(&o);
    }

    put_str(&o, NULL);
    put_tags(&o);
    free(sub.data);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    memset(j, 0, sizeof(join_t));
    get_i32(&in);
    error = get_i16(&in);
    j->generation = get_i32(&in);
    get_str(&in, s, sizeof(s));
    get_str(&in, j->protocol, sizeof(j->protocol));
    get_str(&in, j->leader, sizeof(j->leader));
    j->skip = get_i8(&in);
    get_str(&in, j->id, sizeof(j->id));
    n = get_count(&in);

    for (i = 0; i < n && i < 64 && !in.bad; i++) {
        get_str(&in, j->members[i].id, ID_MAX);
        get_str(&in, j->members[i].instance, ID_MAX);
        get(&in, get_uvarint(&in) - 1);
        get_tags(&in);
    }

    j->members_n = i;
    error = ended(c, &in, error, "JoinGroup");

    if (error == 0) {
        generation_saw(m->group, mark.generation, j->generation, j->leader,
                       c->who);
    }

    return error;
}


/* --- SyncGroup ----------------------------------------------------------- */

static void
assignment(out_t *o, const join_t *j, const int owners[GROUP_PARTS], int member)
{
    int  i, n = 0, t;

    o->len = 0;
    put_i16(o, 0);
    put_i32(o, GROUP_TOPICS);

    for (t = 0; t < GROUP_TOPICS; t++) {
        for (i = 0, n = 0; i < GROUP_PARTS; i++) {
            n += group_topic(i) == group_topics[t] && owners[i] == member;
        }

        put_str16(o, group_topics[t]->name);
        put_i32(o, n);

        for (i = 0; i < GROUP_PARTS; i++) {
            if (group_topic(i) == group_topics[t] && owners[i] == member) {
                put_i32(o, group_index(i));
            }
        }
    }

    put_i32(o, (int32_t) strlen(j->leader) + 4);
    put_i32(o, j->generation);
    put(o, j->leader, strlen(j->leader));
}


/* "generation leader" of the one that made it. */
static void
assigned(in_t *in, bool owns[GROUP_PARTS], char *said, size_t size)
{
    int             i, n, t, k, topics_n, generation;
    char            name[256];
    const uint8_t  *p;

    get_i16(in);
    topics_n = get_i32(in);

    for (t = 0; t < topics_n && !in->bad; t++) {
        get_str16(in, name, sizeof(name));
        n = get_i32(in);

        while (n-- > 0 && !in->bad) {
            k = get_i32(in);

            for (i = 0; i < GROUP_PARTS; i++) {
                if (strcmp(group_topic(i)->name, name) == 0
                    && group_index(i) == k)
                {
                    owns[i] = true;
                }
            }
        }
    }

    n = get_i32(in) - 4;
    generation = get_i32(in);
    p = get(in, (size_t) (n < 0 ? 0 : n));
    snprintf(said, size, "%d %.*s", generation, p ? n : 0,
             p ? (const char *) p : "");
}


int
ask_sync(conn_t *c, const member_id_t *m, const join_t *j,
    const int owners[GROUP_PARTS], bool owns[GROUP_PARTS], char *said,
    size_t size)
{
    int       i, n = 0, error;
    char      s[256];
    in_t      in, mine;
    out_t     o = { NULL, 0, 0 }, bytes = { NULL, 0, 0 };
    uint64_t  len;

    request_begin(c, &o, API_SYNC_GROUP, 5);
    put_str(&o, m->group->name);
    put_i32(&o, m->generation);
    put_str(&o, m->id);
    put_str(&o, m->instance);
    put_str(&o, "consumer");
    put_str(&o, j->protocol);
    put_count(&o, owners ? j->members_n : 0);

    for (i = 0; owners && i < j->members_n; i++) {
        put_str(&o, j->members[i].id);
        assignment(&bytes, j, owners, i);
        put_bytes(&o, &bytes);
        put_tags(&o);
    }

    put_tags(&o);
    free(bytes.data);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    get_i32(&in);
    error = get_i16(&in);
    get_str(&in, s, sizeof(s));
    get_str(&in, s, sizeof(s));
    len = get_uvarint(&in);
    n = len ? (int) len - 1 : 0;

    mine.p = get(&in, (size_t) n);
    mine.end = in.p;
    mine.bad = in.bad;

    memset(owns, 0, GROUP_PARTS * sizeof(bool));
    said[0] = '\0';

    if (error == 0 && n) {
        assigned(&mine, owns, said, size);

        if (mine.bad || mine.p != mine.end) {
            return malformed(c, "SyncGroup");
        }
    }

    return ended(c, &in, error, "SyncGroup");
}


/* --- Heartbeat, LeaveGroup, DeleteGroups --------------------------------- */

int
ask_heartbeat(conn_t *c, const member_id_t *m)
{
    in_t   in;
    out_t  o = { NULL, 0, 0 };

    request_begin(c, &o, API_HEARTBEAT, 4);
    put_str(&o, m->group->name);
    put_i32(&o, m->generation);
    put_str(&o, m->id);
    put_str(&o, m->instance);
    put_tags(&o);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    get_i32(&in);

    return ended(c, &in, get_i16(&in), "Heartbeat");
}


int
ask_leave(conn_t *c, const member_id_t *m)
{
    int    error, own;
    char   s[256];
    in_t   in;
    out_t  o = { NULL, 0, 0 };

    request_begin(c, &o, API_LEAVE_GROUP, 5);
    put_str(&o, m->group->name);
    put_count(&o, 1);
    put_str(&o, m->id);
    put_str(&o, m->instance);
    put_str(&o, "enough");
    put_tags(&o);
    put_tags(&o);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    get_i32(&in);
    error = get_i16(&in);

    if (get_count(&in) == 1) {
        get_str(&in, s, sizeof(s));
        get_str(&in, s, sizeof(s));
        own = get_i16(&in);
        get_tags(&in);
        error = error ? error : own;

    } else if (error == 0) {
        return malformed(c, "LeaveGroup");
    }

    return ended(c, &in, error, "LeaveGroup");
}


int
ask_delete_group(conn_t *c, const group_t *g)
{
    int    error;
    char   s[256];
    in_t   in;
    out_t  o = { NULL, 0, 0 };

    request_begin(c, &o, API_DELETE_GROUPS, 2);
    put_count(&o, 1);
    put_str(&o, g->name);
    put_tags(&o);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "DeleteGroups");
    }

    get_str(&in, s, sizeof(s));
    error = get_i16(&in);
    get_tags(&in);

    return ended(c, &in, error, "DeleteGroups");
}


/* --- OffsetCommit -------------------------------------------------------- */

static void
put_topic(out_t *o, const group_t *g, int t)
{
    if (g->by_id) {
        put(o, group_topics[t]->id, 16);

    } else {
        put_str(o, group_topics[t]->name);
    }
}


/* Which of ours; GROUP_TOPICS: none. */
static int
get_topic(in_t *in, const group_t *g)
{
    int             t;
    char            s[256];
    const uint8_t  *id = NULL;

    if (g->by_id) {
        id = get(in, 16);

    } else {
        get_str(in, s, sizeof(s));
    }

    for (t = 0; t < GROUP_TOPICS && !in->bad; t++) {
        if (id ? memcmp(id, group_topics[t]->id, 16) == 0
               : strcmp(s, group_topics[t]->name) == 0)
        {
            return t;
        }
    }

    return GROUP_TOPICS;
}


/* How many partitions of a topic are wanted. */
static int
wanted_of(int t, const bool *wanted)
{
    int  i, n = 0;

    for (i = 0; i < GROUP_PARTS; i++) {
        n += group_topic(i) == group_topics[t] && wanted[i];
    }

    return n;
}


static int
wanted_topics(const bool *wanted)
{
    int  t, n = 0;

    for (t = 0; t < GROUP_TOPICS; t++) {
        n += wanted_of(t, wanted) > 0;
    }

    return n;
}


bool
commit_send(conn_t *c, const member_id_t *m,
    const commit_t commits[GROUP_PARTS])
{
    int    i, t;
    bool   wanted[GROUP_PARTS], good;
    char   text[METADATA_MAX];
    out_t  o = { NULL, 0, 0 };

    for (i = 0; i < GROUP_PARTS; i++) {
        wanted[i] = commits[i].serial != 0;
    }

    request_begin(c, &o, API_OFFSET_COMMIT, m->group->by_id ? 10 : 9);
    put_str(&o, m->group->name);
    put_i32(&o, m->generation);
    put_str(&o, m->id);
    put_str(&o, m->instance);
    put_count(&o, wanted_topics(wanted));

    for (t = 0; t < GROUP_TOPICS; t++) {
        if (wanted_of(t, wanted) == 0) {
            continue;
        }

        put_topic(&o, m->group, t);
        put_count(&o, wanted_of(t, wanted));

        for (i = 0; i < GROUP_PARTS; i++) {
            if (!wanted[i] || group_topic(i) != group_topics[t]) {
                continue;
            }

            commit_metadata(m->group, i, &commits[i], text);
            put_i32(&o, group_index(i));
            put_i64(&o, commits[i].offset);
            put_i32(&o, commit_epoch(&commits[i]));
            put_str(&o, text);
            put_tags(&o);
        }

        put_tags(&o);
    }

    put_tags(&o);
    good = request_send(c, &o);
    free(o.data);

    return good;
}


int
commit_answer(conn_t *c, const member_id_t *m,
    const commit_t commits[GROUP_PARTS], int32_t correlation)
{
    int   i, t, n, k, topics_n, error = 0, one, left = 0;
    in_t  in;

    if (!response(c, &in, correlation)) {
        return LOST;
    }

    for (i = 0; i < GROUP_PARTS; i++) {
        left += commits[i].serial != 0;
    }

    get_i32(&in);
    topics_n = get_count(&in);

    while (topics_n-- > 0 && !in.bad) {
        t = get_topic(&in, m->group);
        n = get_count(&in);

        while (n-- > 0 && !in.bad) {
            k = get_i32(&in);
            one = get_i16(&in);
            get_tags(&in);
            error = error ? error : one;

            for (i = 0; t < GROUP_TOPICS && i < GROUP_PARTS; i++) {
                left -= commits[i].serial && group_index(i) == k
                        && group_topic(i) == group_topics[t];
            }
        }

        get_tags(&in);
    }

    if (left) {
        return malformed(c, "OffsetCommit");
    }

    return ended(c, &in, error, "OffsetCommit");
}


/* --- OffsetFetch --------------------------------------------------------- */

static int
shown(conn_t *c, in_t *in, group_t *g, int32_t generation, const mark_t *mark,
    bool *missing, int64_t offsets[GROUP_PARTS])
{
    int      i, t, n, k, error, epoch, topics_n = get_count(in);
    char     text[METADATA_MAX];
    int64_t  offset;

    while (topics_n-- > 0 && !in->bad) {
        t = get_topic(in, g);
        n = get_count(in);

        while (n-- > 0 && !in->bad) {
            k = get_i32(in);
            offset = get_i64(in);
            epoch = get_i32(in);
            get_str(in, text, sizeof(text));
            error = get_i16(in);
            get_tags(in);

            if (error) {
                return error;
            }

            for (i = 0; t < GROUP_TOPICS && i < GROUP_PARTS && !in->bad; i++) {
                if (group_index(i) == k && group_topic(i) == group_topics[t]) {
                    missing[i] = false;
                    offsets[i] = offset;
                    offset_saw(g, i, mark, generation, offset, epoch, text,
                               c->who);
                }
            }
        }

        get_tags(in);
    }

    return 0;
}


int
ask_offsets(conn_t *c, group_t *g, int32_t generation,
    const bool wanted[GROUP_PARTS], bool all, int64_t offsets[GROUP_PARTS])
{
    int     i, t, error, own;
    bool    missing[GROUP_PARTS];
    char    s[256];
    in_t    in;
    out_t   o = { NULL, 0, 0 };
    mark_t  mark;

    for (i = 0; i < GROUP_PARTS; i++) {
        missing[i] = wanted[i];
        offsets[i] = -1;
    }

    request_begin(c, &o, API_OFFSET_FETCH, g->by_id ? 10 : 9);
    put_count(&o, 1);
    put_str(&o, g->name);
    put_str(&o, NULL);
    put_i32(&o, -1);
    put_count(&o, all ? -1 : wanted_topics(wanted));

    for (t = 0; !all && t < GROUP_TOPICS; t++) {
        if (wanted_of(t, wanted) == 0) {
            continue;
        }

        put_topic(&o, g, t);
        put_count(&o, wanted_of(t, wanted));

        for (i = 0; i < GROUP_PARTS; i++) {
            if (wanted[i] && group_topic(i) == group_topics[t]) {
                put_i32(&o, group_index(i));
            }
        }

        put_tags(&o);
    }

    put_tags(&o);
    put_i8(&o, 1);                              /* stable ones */
    put_tags(&o);

    group_mark(g, &mark);

    if (!asked(c, &o, &in)) {
        return LOST;
    }

    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "OffsetFetch");
    }

    get_str(&in, s, sizeof(s));
    error = shown(c, &in, g, generation, &mark, missing, offsets);

    if (error) {
        return error;
    }

    own = get_i16(&in);
    get_tags(&in);
    error = ended(c, &in, own, "OffsetFetch");

    if (error) {
        return error;
    }

    /* of all, those that have none are not shown */
    for (i = 0; i < GROUP_PARTS; i++) {
        if (missing[i]) {
            if (!all) {
                return malformed(c, "OffsetFetch");
            }

            offset_saw(g, i, &mark, generation, -1, -1, "", c->who);
        }
    }

    return 0;
}
