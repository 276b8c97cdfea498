/*
 * Clients.  Each does one small step at a time, with any worker, so that the
 * steps of all of them interleave: a decision, its flush and its answer are
 * three steps; so are a produce request's look-up, append and acknowledgement.
 */

#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "sim_check.h"

static const char *const  names[] = {
    "a", "b", "c.d", "e_f", "long-name", "g"
};

#define NAMES  (sizeof(names) / sizeof(names[0]))


/* --- what a request looks up ---------------------------------------------- */

typedef struct {
    char       name[16];                /* asked for; "": by id */
    kf_uuid_t  id;
    bool       create;
    /* found */
    int16_t    error;
    int        topic;                   /* -1 */
    int32_t    partitions;
    int32_t    slots[TOPIC_PARTS];
    uint64_t   incarnations[TOPIC_PARTS];
    int64_t    wait;                    /* journal offset it relies on */
    int32_t    leader_epoch;
} lookup_t;


static void
lookup_section(worker_t *wk, void *arg)
{
    int32_t            p;
    lookup_t          *l = arg;
    kc_call_t          c = call_make();
    const kc_topic_t  *t;

    l->topic = -1;
    l->error = 0;

    if (l->create) {
        snprintf(creating_name, sizeof(creating_name), "%s", l->name);
        creating_caching = false;

        if (kc_auto_create_topic(&wk->kc, &c, kc_cstr(l->name), &l->error)
            != KC_OK)
        {
            l->error = KF_ERR_COORDINATOR_NOT_AVAILABLE;
        }
    }

    t = l->name[0] ? kc_topic_by_name(&wk->kc, kc_cstr(l->name))
                   : kc_topic_by_id(&wk->kc, l->id);
    l->wait = kc_topics_changed(&wk->kc);

    if (t == NULL) {
        return;
    }

    l->topic = model_topic(t->id);
    l->partitions = t->partition_count;
    l->wait = t->changed;
    l->leader_epoch = kc_leader_epoch(&wk->kc);

    for (p = 0; p < t->partition_count; p++) {
        l->slots[p] = t->slots[p];
        l->incarnations[p] = incarnation(t->slots[p]);
    }
}


/* --- producers ------------------------------------------------------------ */

typedef struct {
    int32_t   seq;
    int32_t   n;
    uint64_t  id;
    bool      sent;                     /* appended; waits for its flush */
    int64_t   base;
    int64_t   next;
    int64_t   wait;
    worker_t *wk;
} request_t;

typedef struct {
    int64_t    pid;                     /* -1: none yet */
    int64_t    pid_wait;                /* answered when that is flushed */
    int64_t    pid_asked;               /* -1: not asked */
    lookup_t   target;                  /* topic -1: none */
    bool       looked;                  /* checked, not yet acted */
    int32_t    partition;
    int32_t    seq;
    request_t  flight[INFLIGHT];
    int        n;
} producer_t;

/* A copy of a request that the network may deliver again. */
typedef struct {
    int        topic;
    int32_t    partition;
    int64_t    pid;
    request_t  r;
} late_t;

#define LATE  24

static producer_t  producers[CLIENTS];
static late_t      lates[LATE];
static uint32_t    lates_n;


static void
pid_section(worker_t *wk, void *arg)
{
    kc_call_t                       c = call_make();
    producer_t                     *p = arg;
    kf_init_producer_id_request_t   req;
    kf_init_producer_id_response_t  rsp;

    kf_init_init_producer_id_request(&req);
    req.transactional_id = kf_null_str;

    if (kc_init_producer_id(&wk->kc, &c, &req, &rsp) == KC_OK) {
        p->pid_asked = rsp.producer_id;
        p->pid_wait = c.wait;
    }
}


static void
producer_reset(producer_t *p)
{
    memset(p, 0, sizeof(producer_t));
    p->pid = -1;
    p->pid_asked = -1;
    p->target.topic = -1;
}


/* Appends; KL_GONE when the partition is another one by now. */
static kl_rc_t
append(worker_t *wk, const lookup_t *l, int32_t partition, int64_t pid,
    const request_t *r, kl_append_t *res)
{
    size_t      len;
    int64_t     end;
    kl_rc_t     rc;
    kl_log_t   *log;
    kf_batch_t  b;
    uint8_t     buf[512];

    removals_finish(wk, l->topic);

    len = batch_make(buf, sizeof(buf),
                     w.broken == BREAK_NO_DUPLICATES ? -1 : pid, r->seq, r->n,
                     r->id);

    if (kf_batch_header(buf, len, &b) != KF_OK) {
        fail("simulator: a bad batch");
    }

    log = worker_log(wk, l->slots[partition], l->incarnations[partition],
                     l->topic, partition);

    rc = kl_append(log, buf, &b, &topic_config, l->leader_epoch,
                   now().wall_ms, res);

    if (rc == KL_OK && !res->duplicate) {
        end = res->base_offset + r->n;

        if (res->next_offset != end) {
            fail("an append of %d at %lld ends at %lld", r->n,
                 (long long) res->base_offset, (long long) res->next_offset);
        }

        model_written(l->topic, partition, res->base_offset, r->n, r->id,
                      l->leader_epoch);
    }

    return rc;
}


static void
producer_send(producer_t *p, worker_t *wk, request_t *r)
{
    kl_rc_t      rc;
    kl_append_t  res;

    rc = append(wk, &p->target, p->partition, p->pid, r, &res);

    if (rc == KL_GONE) {
        p->looked = false;
        return;
    }

    if (rc == KL_NO_MEMORY) {
        return;
    }

    if (rc == KL_REFUSED) {
        /* What is in flight is given up: a new producer begins. */
        trace("producer %d gets %s for sequence %d", (int) (p - producers),
              kf_err_name(res.error), r->seq);
        producer_reset(p);
        return;
    }

    if (rc != KL_OK) {
        fail("an append answers %d", rc);
    }

    w.duplicates += res.duplicate;
    r->sent = true;
    r->base = res.base_offset;
    r->next = res.next_offset;
    r->wait = p->target.wait;
    r->wk = wk;

    trace("producer %d: worker %d appends %d of sequence %d to %s at %lld%s",
          (int) (p - producers), (int) (wk - w.workers), r->n, r->seq,
          part_dir(p->target.topic, p->partition), (long long) r->base,
          res.duplicate ? " (a duplicate)" : "");

    lates[lates_n++ % LATE] = (late_t) { p->target.topic, p->partition, p->pid,
                                         *r };
}


static int64_t
flushed_of(const lookup_t *l, int32_t partition)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(w.shared, l->slots[partition]), &o);

    return o.incarnation == l->incarnations[partition] ? o.flushed : -1;
}


static void
producer_ack(producer_t *p)
{
    request_t  *r = &p->flight[0];

    if (flushed_of(&p->target, p->partition) < 0) {
        p->looked = false;              /* deleted meanwhile */
        r->sent = false;
        return;
    }

    if (w.broken != BREAK_ACK_EARLY
        && flushed_of(&p->target, p->partition) < r->next)
    {
        return;
    }

    if (journal_flushed() < r->wait) {
        w.cut |= chance(5);

        if (w.broken != BREAK_TOPIC_EARLY) {
            return;
        }
    }

    if (!r->wk->alive || chance(15)) {
        r->sent = false;                /* the answer is lost: try again */
        return;
    }

    model_acked(p->target.topic, p->partition, r->base, r->n, r->id);
    w.acks++;

    p->n--;
    memmove(&p->flight[0], &p->flight[1], (size_t) p->n * sizeof(request_t));
}


static void
producer_step(producer_t *p)
{
    int         i, topic;
    worker_t   *wk = any_worker();
    request_t  *r;

    if (p->pid < 0) {
        if (p->pid_asked < 0) {
            section(wk, pid_section, p);

        } else if (journal_flushed() >= p->pid_wait
                   || w.broken == BREAK_ANSWER_EARLY)
        {
            p->pid = p->pid_asked;
            model_pid(p->pid);
        }

        return;
    }

    if (!p->looked) {
        topic = p->target.topic;

        if (topic < 0) {
            snprintf(p->target.name, sizeof(p->target.name), "%s",
                     names[rnd(NAMES)]);
            p->target.create = chance(20);

        } else {
            p->target.name[0] = '\0';
            p->target.id = mtopics[topic].id;
            p->target.create = false;
        }

        if (!section(wk, lookup_section, &p->target)) {
            p->target.topic = topic;
            return;
        }

        if (p->target.topic < 0) {
            producer_reset(p);
            return;
        }

        if (topic < 0) {
            p->partition = (int32_t) rnd((uint32_t) p->target.partitions);
        }

        p->looked = true;
        return;
    }

    /* The oldest that is not sent goes first. */
    for (i = 0; i < p->n && p->flight[i].sent; i++) { /* void */ }

    if (i < p->n) {
        producer_send(p, wk, &p->flight[i]);
        return;
    }

    if (p->n && chance(50)) {
        producer_ack(p);
        return;
    }

    if (p->n < INFLIGHT && p->seq < 400) {
        r = &p->flight[p->n++];
        memset(r, 0, sizeof(request_t));
        r->seq = p->seq;
        r->n = 1 + (int32_t) rnd(3);
        r->id = next_id;
        next_id += (uint64_t) r->n;
        p->seq += r->n;
        return;
    }

    if (p->n == 0 || chance(2)) {
        producer_reset(p);
    }
}


/* An old request arrives again, from nobody who would hear the answer. */
static void
late_step(void)
{
    late_t      *l = &lates[rnd(LATE)];
    lookup_t     t;
    worker_t    *wk = any_worker();
    kl_append_t  res;

    if (l->r.n == 0) {
        return;
    }

    memset(&t, 0, sizeof(t));
    t.id = mtopics[l->topic].id;

    if (section(wk, lookup_section, &t) && t.topic >= 0) {
        trace("a late request: sequence %d to %s", l->r.seq,
              part_dir(t.topic, l->partition));
        append(wk, &t, l->partition, l->pid, &l->r, &res);
    }
}


/* --- admins --------------------------------------------------------------- */

typedef struct {
    bool     waiting;
    bool     deletes;
    int      topic;
    int64_t  wait;
    char     name[16];
} admin_t;

static admin_t  admins[CLIENTS];


static void
create_section(worker_t *wk, void *arg)
{
    admin_t                            *a = arg;
    kc_call_t                           c = call_make();
    kf_create_topics_request_t          req;
    kf_create_topics_response_t         rsp;
    kf_create_topics_request_topics_t   t;
    kf_create_topics_request_configs_t  e = { kf_str("write.caching"),
                                              kf_str("true") };

    memset(&req, 0, sizeof(req));
    memset(&t, 0, sizeof(t));
    t.name = kc_cstr(a->name);
    t.num_partitions = 1 + (int32_t) rnd(TOPIC_PARTS);
    t.replication_factor = 1;
    req.topics = &t;
    req.topics_n = 1;
    req.validate_only = chance(5);

    memcpy(creating_name, a->name, sizeof(creating_name));
    creating_caching = chance(20);

    if (creating_caching) {
        t.configs = &e;
        t.configs_n = 1;
    }

    if (kc_create_topics(&wk->kc, &c, &req, &rsp) != KC_OK) {
        trace("create %s: no", a->name);
        return;
    }

    trace("create %s: %s", a->name, kf_err_name(rsp.topics[0].error_code));

    if (rsp.topics[0].error_code == KF_ERR_NONE && !req.validate_only) {
        a->waiting = true;
        a->deletes = false;
        a->topic = model_topic(rsp.topics[0].topic_id);
        a->wait = c.wait;
    }
}


static void
delete_section(worker_t *wk, void *arg)
{
    int                                topic;
    admin_t                           *a = arg;
    kc_call_t                          c = call_make();
    const kc_topic_t                  *t;
    kf_delete_topics_request_t         req;
    kf_delete_topics_response_t        rsp;
    kf_delete_topics_request_topics_t  d;

    t = kc_topic_by_name(&wk->kc, kc_cstr(a->name));

    if (t == NULL) {
        return;
    }

    topic = model_topic(t->id);
    mtopics[topic].delete_asked = true;

    memset(&req, 0, sizeof(req));
    memset(&d, 0, sizeof(d));
    d.name = kf_null_str;

    if (chance(50)) {
        d.name = kc_cstr(a->name);

    } else {
        d.topic_id = t->id;
    }

    req.topics = &d;
    req.topics_n = 1;

    if (kc_delete_topics(&wk->kc, &c, 6, &req, &rsp) != KC_OK) {
        return;
    }

    trace("delete %s: %s", a->name, kf_err_name(rsp.responses[0].error_code));

    if (rsp.responses[0].error_code == KF_ERR_NONE) {
        a->waiting = true;
        a->deletes = true;
        a->topic = topic;
        a->wait = c.wait;
    }
}


static void
admin_step(admin_t *a)
{
    worker_t  *wk = any_worker();

    if (!a->waiting) {
        snprintf(a->name, sizeof(a->name), "%s", names[rnd(NAMES)]);
        section(wk, chance(75) ? create_section : delete_section, a);
        return;
    }

    if (journal_flushed() < a->wait && w.broken != BREAK_ANSWER_EARLY) {
        return;
    }

    a->waiting = false;

    if (a->deletes) {
        mtopics[a->topic].delete_acked = true;
        w.deleted++;

    } else {
        mtopics[a->topic].acked = true;
        w.created++;
    }
}


/* --- consumers ------------------------------------------------------------ */

typedef struct {
    int       topic;                    /* -1: none */
    int32_t   partition;
    int64_t   offset;
} consumer_t;

static consumer_t  consumers[CLIENTS];


static void
consumer_record(void *ctx, const kf_batch_t *b, int64_t offset, uint64_t id)
{
    consumer_t  *c = ctx;

    (void) b;

    w.reads++;

    if (!mtopics[c->topic].caching) {
        model_seen(c->topic, c->partition, offset, id);
    }
}


static void
consumer_step(consumer_t *c)
{
    int64_t       upto;
    lookup_t      l;
    worker_t     *wk = any_worker();
    kl_log_t     *log;
    kl_offsets_t  o;

    memset(&l, 0, sizeof(l));

    if (c->topic < 0) {
        snprintf(l.name, sizeof(l.name), "%s", names[rnd(NAMES)]);

        if (section(wk, lookup_section, &l) && l.topic >= 0) {
            c->topic = l.topic;
            c->partition = (int32_t) rnd((uint32_t) l.partitions);
            c->offset = 0;
        }

        return;
    }

    l.id = mtopics[c->topic].id;

    if (!section(wk, lookup_section, &l)) {
        return;
    }

    if (l.topic < 0 || chance(3)) {
        c->topic = -1;
        return;
    }

    /* An answer relies on the topic: it has to be durable first. */
    if (journal_flushed() < l.wait && w.broken != BREAK_TOPIC_EARLY) {
        return;
    }

    removals_finish(wk, l.topic);
    log = worker_log(wk, l.slots[c->partition], l.incarnations[c->partition],
                     l.topic, c->partition);
    kl_snapshot(kl_part(w.shared, l.slots[c->partition]), &o);

    if (o.state != KL_OPEN) {
        return;                         /* nothing has been written yet */
    }

    upto = mtopics[c->topic].caching || w.broken == BREAK_SEE_EARLY
           ? o.log_end : o.flushed;

    if (c->offset > upto) {
        if (!mtopics[c->topic].caching && w.broken != BREAK_SEE_EARLY) {
            fail("M2: %s was seen up to %lld and now ends at %lld",
                 part_dir(c->topic, c->partition), (long long) c->offset,
                 (long long) upto);
        }

        c->offset = upto;
    }

    (void) read_slice(log, c->offset, upto, 300, &c->offset, consumer_record,
                      c);
}


/* A crash: requests under way are lost, clients go on. */
static void
clients_disconnect(bool look_again)
{
    int  i, k;

    for (i = 0; i < CLIENTS; i++) {
        for (k = 0; k < producers[i].n; k++) {
            producers[i].flight[k].sent = false;
        }

        if (producers[i].pid < 0) {
            producers[i].pid_asked = -1;
        }

        producers[i].looked &= !look_again;
        admins[i].waiting = false;
    }
}


static void
clients_reset(void)
{
    int  i;

    memset(admins, 0, sizeof(admins));
    memset(lates, 0, sizeof(lates));
    lates_n = 0;

    for (i = 0; i < CLIENTS; i++) {
        producer_reset(&producers[i]);
        consumers[i].topic = -1;
    }
}

#endif
