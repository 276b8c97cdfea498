/*
 * The requests that the load uses.  Versions: Metadata 12, CreateTopics 7,
 * DeleteTopics 6, Produce 9 and 13, Fetch 12 and 13, ListOffsets 7,
 * InitProducerId 4.  (Topics named by id take the later of two.)
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdlib.h>
#include <string.h>


/* Real clients try again on these (Kafka's RetriableException). */
bool
retriable(int error)
{
    switch (error) {
    case LOST:
    case ERR_UNKNOWN_TOPIC:
    case ERR_LEADER_NOT_AVAILABLE:
    case ERR_NOT_LEADER:
    case ERR_TIMED_OUT:
    case ERR_LOADING:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_NOT_COORDINATOR:
    case ERR_NOT_CONTROLLER:
    case ERR_CONCURRENT:
    case ERR_STORAGE:
    case ERR_UNKNOWN_TOPIC_ID:
        return true;
    default:
        return false;
    }
}


static int
malformed(conn_t *c, const char *what)
{
    fault("%s: a malformed %s response", c->who, what);
    conn_close(c);

    return LOST;
}


int
ask_create(conn_t *c, const char *name, int parts, const char *config[],
    uint8_t *id)
{
    int             i, n, error;
    char            s[256];
    in_t            in;
    out_t           o = { NULL, 0, 0 };
    bool            good;
    const uint8_t  *p;

    request_begin(c, &o, API_CREATE_TOPICS, 7);
    put_count(&o, 1);
    put_str(&o, name);
    put_i32(&o, parts);
    put_i16(&o, 1);
    put_count(&o, 0);

    for (n = 0; config && config[n]; n += 2) { }

    put_count(&o, n / 2);

    for (i = 0; i < n; i += 2) {
        put_str(&o, config[i]);
        put_str(&o, config[i + 1]);
        put_tags(&o);
    }

    put_tags(&o);
    put_i32(&o, 30000);
    put_i8(&o, 0);
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "CreateTopics");
    }

    get_str(&in, s, sizeof(s));
    p = get(&in, 16);
    error = get_i16(&in);

    if (in.bad || strcmp(s, name) != 0) {
        return malformed(c, "CreateTopics");
    }

    memcpy(id, p, 16);

    return error;
}


int
ask_delete(conn_t *c, const char *name, const uint8_t *id)
{
    int      error;
    char     s[256];
    in_t     in;
    out_t    o = { NULL, 0, 0 };
    bool     good;
    uint8_t  none[16] = { 0 };

    request_begin(c, &o, API_DELETE_TOPICS, 6);
    put_count(&o, 1);
    put_str(&o, name);
    put(&o, name ? none : id, 16);
    put_tags(&o);
    put_i32(&o, 30000);
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "DeleteTopics");
    }

    get_str(&in, s, sizeof(s));
    get(&in, 16);
    error = get_i16(&in);

    return in.bad ? malformed(c, "DeleteTopics") : error;
}


int
ask_topic(conn_t *c, const char *name, uint8_t *id, int *parts, char *found)
{
    int             i, n, error;
    char            s[256];
    in_t            in;
    out_t           o = { NULL, 0, 0 };
    bool            good;
    uint8_t         none[16] = { 0 };
    const uint8_t  *p;

    request_begin(c, &o, API_METADATA, 12);
    put_count(&o, 1);
    put(&o, name ? none : id, 16);
    put_str(&o, name);
    put_tags(&o);
    put_i8(&o, 0);                              /* no auto creation */
    put_i8(&o, 0);
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);
    n = get_count(&in);

    for (i = 0; i < n && !in.bad; i++) {        /* brokers */
        get_i32(&in);
        get_str(&in, s, sizeof(s));
        get_i32(&in);
        get_str(&in, s, sizeof(s));
        get_tags(&in);
    }

    if (n != 1) {
        return malformed(c, "Metadata");
    }

    get_str(&in, s, sizeof(s));                 /* cluster id */
    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "Metadata");
    }

    error = get_i16(&in);
    get_str(&in, s, sizeof(s));
    p = get(&in, 16);
    get_i8(&in);
    *parts = get_count(&in);

    if (in.bad) {
        return malformed(c, "Metadata");
    }

    memcpy(id, p, 16);

    if (found) {
        memcpy(found, s, strlen(s) + 1);
    }

    return error;
}


int
ask_producer_id(conn_t *c, int64_t *pid, int *epoch)
{
    int    error;
    in_t   in;
    out_t  o = { NULL, 0, 0 };
    bool   good;

    request_begin(c, &o, API_INIT_PRODUCER_ID, 4);
    put_str(&o, NULL);
    put_i32(&o, 60000);
    put_i64(&o, -1);
    put_i16(&o, -1);
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);
    error = get_i16(&in);
    *pid = get_i64(&in);
    *epoch = get_i16(&in);

    return in.bad ? malformed(c, "InitProducerId") : error;
}


int
ask_offset(conn_t *c, part_t *p, int64_t timestamp, int64_t *offset)
{
    int    error;
    char   s[256];
    in_t   in;
    out_t  o = { NULL, 0, 0 };
    bool   good;

    request_begin(c, &o, API_LIST_OFFSETS, 7);
    put_i32(&o, -1);
    put_i8(&o, 0);
    put_count(&o, 1);
    put_str(&o, p->topic->name);
    put_count(&o, 1);
    put_i32(&o, p->index);
    put_i32(&o, -1);
    put_i64(&o, timestamp);
    put_tags(&o);
    put_tags(&o);
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);

    if (get_count(&in) != 1) {
        return malformed(c, "ListOffsets");
    }

    get_str(&in, s, sizeof(s));

    if (get_count(&in) != 1 || get_i32(&in) != p->index) {
        return malformed(c, "ListOffsets");
    }

    error = get_i16(&in);
    get_i64(&in);
    *offset = get_i64(&in);

    return in.bad ? malformed(c, "ListOffsets") : error;
}


/* --- fetch --------------------------------------------------------------- */

static int
fetch(conn_t *c, topic_t *t, int from, int to, const int64_t *offsets,
    int max_wait_ms, int max_bytes, int isolation, fetched_t *f)
{
    int             i, k, n, m, error, topics_n;
    char            s[256];
    in_t            in;
    out_t           o = { NULL, 0, 0 };
    bool            good;
    uint64_t        len;
    fetched_t      *g;

    request_begin(c, &o, API_FETCH, t->by_id ? 13 : 12);
    put_i32(&o, -1);
    put_i32(&o, max_wait_ms);
    put_i32(&o, 1);
    put_i32(&o, max_bytes * 2);
    put_i8(&o, isolation);
    put_i32(&o, 0);
    put_i32(&o, -1);
    put_count(&o, 1);

    if (t->by_id) {
        put(&o, t->id, 16);

    } else {
        put_str(&o, t->name);
    }

    put_count(&o, to - from);

    for (i = from; i < to; i++) {
        put_i32(&o, i);
        put_i32(&o, -1);
        put_i64(&o, offsets[i - from]);
        put_i32(&o, -1);
        put_i64(&o, -1);
        put_i32(&o, max_bytes);
        put_tags(&o);
    }

    put_tags(&o);
    put_count(&o, 0);
    put_str(&o, "");
    put_tags(&o);

    good = call(c, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    counters.fetches++;

    for (i = from; i < to; i++) {
        memset(&f[i - from], 0, sizeof(fetched_t));
        f[i - from].error = LOST;
    }

    get_i32(&in);
    error = get_i16(&in);
    get_i32(&in);
    topics_n = get_count(&in);

    if (error) {
        return error;
    }

    for (i = 0; i < topics_n && !in.bad; i++) {
        if (t->by_id) {
            get(&in, 16);

        } else {
            get_str(&in, s, sizeof(s));
        }

        n = get_count(&in);

        for (k = 0; k < n && !in.bad; k++) {
            m = get_i32(&in);

            if (m < from || m >= to) {
                return malformed(c, "Fetch");
            }

            g = &f[m - from];
            g->error = get_i16(&in);
            g->hw = get_i64(&in);
            g->lso = get_i64(&in);
            g->log_start = get_i64(&in);

            for (m = get_count(&in); m > 0 && !in.bad; m--) {
                get_i64(&in);
                get_i64(&in);
                get_tags(&in);
            }

            get_i32(&in);
            len = get_uvarint(&in);

            if (len == 0 && g->error == 0) {
                fault("%s: null records in a fetch", c->who);
            }

            g->len = len ? len - 1 : 0;
            g->data = get(&in, g->len);
            get_tags(&in);
        }

        get_tags(&in);
    }

    get_tags(&in);

    if (in.bad || in.p != in.end) {
        return malformed(c, "Fetch");
    }

    return 0;
}


int
ask_fetch(conn_t *c, part_t *p, int64_t offset, int max_wait_ms,
    int max_bytes, int isolation, fetched_t *f)
{
    return fetch(c, p->topic, p->index, p->index + 1, &offset, max_wait_ms,
                 max_bytes, isolation, f);
}


int
ask_fetch_all(conn_t *c, topic_t *t, const int64_t *offsets, int max_wait_ms,
    int max_bytes, int isolation, fetched_t *f)
{
    return fetch(c, t, 0, t->parts_n, offsets, max_wait_ms, max_bytes,
                 isolation, f);
}


/* --- produce ------------------------------------------------------------- */

bool
produce_send(conn_t *c, part_t *p, const uint8_t *batch, size_t len)
{
    out_t  o = { NULL, 0, 0 };
    bool   good;

    request_begin(c, &o, API_PRODUCE, p->topic->by_id ? 13 : 9);
    put_str(&o, NULL);
    put_i16(&o, -1);
    put_i32(&o, 30000);
    put_count(&o, 1);

    if (p->topic->by_id) {
        put(&o, p->topic->id, 16);

    } else {
        put_str(&o, p->topic->name);
    }

    put_count(&o, 1);
    put_i32(&o, p->index);
    put_uvarint(&o, len + 1);
    put(&o, batch, len);
    put_tags(&o);
    put_tags(&o);
    put_tags(&o);

    good = request_send(c, &o);
    free(o.data);

    return good;
}


int
produce_answer(conn_t *c, part_t *p, int32_t correlation, int64_t *base)
{
    int   error;
    char  s[256];
    in_t  in;

    if (!response(c, &in, correlation)) {
        return LOST;
    }

    if (get_count(&in) != 1) {
        return malformed(c, "Produce");
    }

    if (p->topic->by_id) {
        get(&in, 16);

    } else {
        get_str(&in, s, sizeof(s));
    }

    if (get_count(&in) != 1 || get_i32(&in) != p->index) {
        return malformed(c, "Produce");
    }

    error = get_i16(&in);
    *base = get_i64(&in);

    return in.bad ? malformed(c, "Produce") : error;
}
