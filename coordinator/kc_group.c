/*
 * A group's objects: groups, members and what they say.  Who may change what is
 * in kc_group_int.h; the rules are in kc_group_round.c and its callers.
 */

#include "kc_group_int.h"


kf_str_t
kc_pack(uint8_t **p, kf_str_t s)
{
    kf_str_t  copy;

    if (s.data == NULL) {
        return kf_null_str;
    }

    if (s.len) {
        memcpy(*p, s.data, s.len);
    }

    copy = (kf_str_t) { *p, s.len };
    *p += s.len;

    return copy;
}


uint32_t
kc_group_hash(kf_str_t group_id)
{
    uint32_t  i, h = 0x811c9dc5;

    for (i = 0; i < group_id.len; i++) {
        h = (h ^ group_id.data[i]) * 0x01000193;
    }

    h ^= h >> 15;
    h *= 0x2c1b3c6d;

    return h ^ h >> 13;
}


void
kc_woken(kc_t *kc, const kc_group_t *g)
{
    uint32_t  i, hash = kc_group_hash(g->by_id.key);

    for (i = 0; i < kc->woken_n; i++) {
        if (kc->woken[i] == hash) {
            return;
        }
    }

    /* When it is full everybody is woken. */
    if (kc->woken_n < KC_WOKEN) {
        kc->woken[kc->woken_n++] = hash;
    }
}


uint32_t
kc_woken_take(kc_t *kc, const uint32_t **hashes)
{
    uint32_t  n = kc->woken_n;

    *hashes = kc->woken;
    kc->woken_n = 0;

    return n;
}


/* --- groups -------------------------------------------------------------- */

kc_group_t *
kc_group_find(const kc_t *kc, kf_str_t id)
{
    return kc_map_find(&kc->state->groups.by_id, id);
}


kc_group_t *
kc_group_next(const kc_t *kc, kf_str_t after)
{
    return kc_map_next(&kc->state->groups.by_id, after);
}


int64_t
kc_group_absent(const kc_t *kc)
{
    return kc->state->groups.changed;
}


size_t
kc_group_size(kf_str_t id)
{
    return sizeof(kc_group_t) + id.len;
}


void
kc_group_init(kc_t *kc, kc_group_t *g, kf_str_t id)
{
    uint8_t      *p = (uint8_t *) (g + 1);
    kf_str_t      key = kc_pack(&p, id);
    kc_groups_t  *groups = &kc->state->groups;

    g->type = KC_GROUP_CLASSIC;
    g->state = KC_GROUP_EMPTY;
    g->serial = ++groups->serial;
    g->join_deadline = KC_NEVER;
    g->sync_deadline = KC_NEVER;
    g->check_deadline = KC_NEVER;
    g->due = KC_NEVER;

    kc_map_insert(&groups->by_id, &g->by_id, key, g);

    /* Now: the first tick sets its deadlines. */
    kc_due(kc, g, 0);
}


kc_group_t *
kc_group_create(kc_t *kc, kf_str_t id)
{
    kc_group_t  *g = kc->mem.alloc(kc->mem.ctx, kc_group_size(id));

    if (g) {
        memset(g, 0, sizeof(kc_group_t));
        kc_group_init(kc, g, id);
    }

    return g;
}


void
kc_group_touch(kc_t *kc, kc_group_t *g, int64_t end)
{
    g->changed = end;
    kc->state->groups.changed = end;
}


void
kc_group_drop(kc_t *kc, kc_group_t *g)
{
    kc_pending_t      *p;
    kc_group_topic_t  *t;

    while ((t = kc_offsets_next(g, NULL))) {
        kc_offsets_drop(kc, t);
    }

    while (g->first) {
        kc_member_free(kc, g, g->first);
    }

    while ((p = kc_map_next(&g->pending, kf_null_str))) {
        kc_pending_free(kc, g, p);
    }

    kc_free(kc, g->names, g->names_size);

    kc_due_remove(kc, g);
    kc_map_remove(&kc->state->groups.by_id, &g->by_id);
    kc_free(kc, g, kc_group_size(g->by_id.key));
}


void
kc_pending_free(kc_t *kc, kc_group_t *g, kc_pending_t *p)
{
    kc_map_remove(&g->pending, &p->by_id);
    kc_free(kc, p, sizeof(kc_pending_t) + p->by_id.key.len);
}


bool
kc_group_drop_unused(kc_t *kc, kc_group_t *g)
{
    if (g->recorded || g->offsets_n || g->staged_n || g->members.count
        || g->pending.count || g->state != KC_GROUP_EMPTY)
    {
        return false;
    }

    kc_group_drop(kc, g);

    return true;
}


void
kc_groups_free(kc_t *kc)
{
    kc_group_t  *g;

    while ((g = kc_group_next(kc, kf_null_str))) {
        kc_group_drop(kc, g);
        kc->woken_n = 0;
    }
}


kf_str_t
kc_group_protocol_type(const kc_group_t *g)
{
    kc_member_t  *m;

    kc_each_live(g, m) {
        return m->says->type.data ? m->says->type : g->protocol_type;
    }

    return g->protocol_type;
}


bool
kc_group_of_consumers(const kc_group_t *g)
{
    return kf_str_eq(kc_group_protocol_type(g), kf_str("consumer"));
}


const char *
kc_group_state_name(const kc_group_t *g)
{
    static const char *const  names[] = {
        "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
    };

    return names[g->state];
}


void
kc_group_counts(const kc_t *kc, kc_group_counts_t *counts)
{
    kc_group_t  *g;

    memset(counts, 0, sizeof(kc_group_counts_t));
    counts->groups = kc->state->groups.by_id.count;

    for (g = kc_group_next(kc, kf_null_str); g;
         g = kc_group_next(kc, g->by_id.key))
    {
        counts->members += g->live;
        counts->offsets += g->offsets_n;
    }
}


/* --- members ------------------------------------------------------------- */

kc_member_t *
kc_member_find(const kc_group_t *g, kf_str_t id)
{
    kc_member_t  *m = kc_map_find(&g->members, id);

    return m && m->says ? m : NULL;
}


kc_member_t *
kc_member_static(const kc_group_t *g, kf_str_t instance)
{
    return kc_map_find(&g->instances, instance);
}


size_t
kc_member_size(kf_str_t id, kf_str_t instance)
{
    return sizeof(kc_member_t) + id.len + instance.len;
}


/* The caller puts it into list and maps; its key is ready. */
void
kc_member_init(kc_member_t *m, kf_str_t id, kf_str_t instance)
{
    uint8_t  *p = (uint8_t *) (m + 1);

    memset(m, 0, sizeof(kc_member_t));
    m->by_id.key = kc_pack(&p, id);
    m->instance = kc_pack(&p, instance);
}


void
kc_member_insert(kc_group_t *g, kc_member_t *m, kc_member_t *at)
{
    m->next = at;
    m->prev = at ? at->prev : g->last;

    if (m->prev) {
        m->prev->next = m;

    } else {
        g->first = m;
    }

    if (at) {
        at->prev = m;

    } else {
        g->last = m;
    }
}


static void
kc_member_unlink(kc_group_t *g, kc_member_t *m)
{
    if (m->prev) {
        m->prev->next = m->next;

    } else {
        g->first = m->next;
    }

    if (m->next) {
        m->next->prev = m->prev;

    } else {
        g->last = m->prev;
    }
}


void
kc_member_last(kc_group_t *g, kc_member_t *m)
{
    if (g->last != m) {
        kc_member_unlink(g, m);
        kc_member_insert(g, m, NULL);
    }
}


void
kc_member_free(kc_t *kc, kc_group_t *g, kc_member_t *m)
{
    bool  durable = m->said != NULL;

    if (m->says) {
        kc_member_gone(kc, g, m);

        if (!durable) {
            return;                     /* it is freed */
        }
    }

    if (durable) {
        g->said--;
        kc_free(kc, m->said, m->said->size);
    }

    if (g->said_leader == m) {
        g->said_leader = NULL;
    }

    kc_free(kc, (void *) m->assignment.data, m->assignment.len);
    kc_member_unlink(g, m);
    kc_map_remove(&g->members, &m->by_id);
    kc_free(kc, m, kc_member_size(m->by_id.key, m->instance));
}


void
kc_member_gone(kc_t *kc, kc_group_t *g, kc_member_t *m)
{
    kc_member_t  *other;

    if (m->joining) {
        g->joined--;
    }

    if (m->joining || m->syncing) {
        kc_woken(kc, g);
    }

    m->joining = false;
    m->syncing = false;
    m->unsynced = false;

    if (kc_member_static(g, m->instance) == m) {
        kc_map_remove(&g->instances, &m->by_instance);
    }

    if (m->says != m->said) {
        kc_free(kc, m->says, m->says->size);
    }

    m->says = NULL;
    g->live--;

    if (g->leader == m) {
        g->leader = NULL;

        kc_each_live(g, other) {
            g->leader = other;
            break;
        }
    }

    if (m->said == NULL) {
        kc_member_free(kc, g, m);
    }
}


/* --- what members say ---------------------------------------------------- */

size_t
kc_body_size(kf_str_t type, kf_str_t client_id, kf_str_t client_host,
    const kc_protocol_t *protocols, int32_t n)
{
    size_t   size;
    int32_t  i;

    size = sizeof(kc_body_t) + (size_t) n * sizeof(kc_protocol_t) + type.len
           + client_id.len + client_host.len;

    for (i = 0; i < n; i++) {
        size += (size_t) protocols[i].name.len + protocols[i].metadata.len;
    }

    return size;
}


void
kc_body_fill(kc_body_t *b, size_t size, kf_str_t type, kf_str_t client_id,
    kf_str_t client_host, const kc_protocol_t *protocols, int32_t n)
{
    int32_t   i;
    uint8_t  *p;

    memset(b, 0, sizeof(kc_body_t));
    b->size = size;
    b->protocols = (kc_protocol_t *) (b + 1);
    b->protocols_n = n;

    p = (uint8_t *) (b->protocols + n);

    for (i = 0; i < n; i++) {
        b->protocols[i].name = kc_pack(&p, protocols[i].name);
        b->protocols[i].metadata = kc_pack(&p, protocols[i].metadata);
    }

    b->type = kc_pack(&p, type);
    b->client_id = kc_pack(&p, client_id);
    b->client_host = kc_pack(&p, client_host);
}


kf_bytes_t
kc_body_metadata(const kc_body_t *b, kf_str_t protocol)
{
    int32_t  i;

    for (i = 0; i < b->protocols_n; i++) {
        if (kf_str_eq(b->protocols[i].name, protocol)) {
            return b->protocols[i].metadata;
        }
    }

    return kf_str("");
}
