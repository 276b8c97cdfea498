/*
 * The account of what groups were promised.  Of two commits of a partition the
 * later one has the higher generation or, in the same one, the higher serial:
 * whoever commits in a generation is alone, and does one after the other.
 */

#define _GNU_SOURCE
#include "group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_KEPT  2000                 /* serials */

group_t           *groups;
topic_t           *group_topics[GROUP_TOPICS];
group_counters_t   group_counters;


group_t *
group_add(const char *name, bool by_id, bool simple)
{
    int       i;
    group_t  *g;

    g = calloc(1, sizeof(group_t));
    if (g == NULL) {
        abort();
    }

    snprintf(g->name, sizeof(g->name), "%s", name);
    g->by_id = by_id;
    g->simple = simple;
    pthread_mutex_init(&g->lock, NULL);

    for (i = 0; i < GROUP_PARTS; i++) {
        g->parts[i].known.offset = -1;
        g->parts[i].known.generation = -1;

        if (!simple) {
            g->parts[i].part = &group_topic(i)->parts[group_index(i)];
        }
    }

    g->next = groups;
    groups = g;

    return g;
}


void
group_mark(group_t *g, mark_t *m)
{
    int  i;

    pthread_mutex_lock(&g->lock);

    for (i = 0; i < GROUP_PARTS; i++) {
        m->known[i] = g->parts[i].known;
    }

    m->serial = g->serial;
    m->generation = g->generation;
    pthread_mutex_unlock(&g->lock);
}


void
group_doing(group_t *g, int slot, const char *what)
{
    pthread_mutex_lock(&g->lock);
    g->doing[slot] = what;
    g->doing_ms[slot] = now_ms();
    pthread_mutex_unlock(&g->lock);
}


/* --- commits ------------------------------------------------------------- */

static bool
later(const commit_t *a, const commit_t *b)
{
    return a->generation != b->generation ? a->generation > b->generation
                                          : a->serial > b->serial;
}


/* Text that says which commit it is, of a length that depends on it. */
void
commit_metadata(const group_t *g, int part, const commit_t *c, char *s)
{
    int       n, pad = (int) (c->serial * 37 % 300);
    uint64_t  state = c->serial;

    n = snprintf(s, METADATA_MAX, "%" PRIu64 " %s %d ", c->serial, g->name,
                 part);

    while (pad--) {
        s[n++] = (char) ('a' + rnd(&state) % 26);
    }

    s[n] = '\0';
}


int32_t
commit_epoch(const commit_t *c)
{
    return (int32_t) (c->serial % 5) - 1;
}


commit_t
commit_begin(group_t *g, int part, int64_t offset, int32_t generation)
{
    commit_t       c;
    group_part_t  *p = &g->parts[part];

    memset(&c, 0, sizeof(c));
    c.offset = offset;
    c.generation = generation;

    pthread_mutex_lock(&g->lock);
    c.serial = ++g->serial;
    c.stale = generation >= 0 && generation < g->generation;

    if (p->open_n == p->open_cap) {
        p->open_cap = p->open_cap * 2 + 8;
        p->open = realloc(p->open, p->open_cap * sizeof(commit_t));

        if (p->open == NULL) {
            abort();
        }
    }

    p->open[p->open_n++] = c;
    pthread_mutex_unlock(&g->lock);

    return c;
}


static commit_t *
open_find(group_part_t *p, uint64_t serial)
{
    size_t  i;

    for (i = 0; i < p->open_n; i++) {
        if (p->open[i].serial == serial) {
            return &p->open[i];
        }
    }

    return NULL;
}


/* What was in force until a moment ago may still be shown by an answer that is
   under way; what was so long ago may not. */
static void
in_force(group_t *g, group_part_t *p, const commit_t *c)
{
    size_t  i, n = 0;

    if (!later(c, &p->known)) {
        return;
    }

    p->known = *c;

    for (i = 0; i < p->open_n; i++) {
        if (later(&p->open[i], &p->known)
            || p->open[i].serial + OPEN_KEPT > g->serial)
        {
            p->open[n++] = p->open[i];
        }
    }

    p->open_n = n;
}


void
commit_end(group_t *g, int part, const commit_t *c, commit_end_t how,
    const char *who)
{
    bool           over = false;
    commit_t      *open;
    group_part_t  *p = &g->parts[part];

    pthread_mutex_lock(&g->lock);
    open = open_find(p, c->serial);

    switch (how) {

    case COMMIT_DONE:
        group_counters.commits++;
        over = c->stale || (open && open->over);
        in_force(g, p, c);
        break;

    case COMMIT_REFUSED:
        group_counters.refused++;

        if (open) {
            *open = p->open[--p->open_n];
        }

        break;

    case COMMIT_ADRIFT:
    case COMMIT_LOST:
        group_counters.lost++;

        if (open) {
            open->adrift = how == COMMIT_ADRIFT;
        }

        break;
    }

    pthread_mutex_unlock(&g->lock);

    if (over) {
        fault("%s: commit %llu of generation %d was taken, after a member of "
              "a later one had %s", who, (unsigned long long) c->serial,
              c->generation, c->stale ? "joined"
                             : "been shown what is in force");
    }
}


/* The commit that is shown: known, open, or none of those that can be. */
static const commit_t *
shown_find(group_part_t *p, int64_t offset, const char *metadata)
{
    size_t     i;
    uint64_t   serial;
    commit_t  *last = NULL;

    if (offset == -1) {
        for (i = 0; i < p->open_n; i++) {
            if (p->open[i].offset == -1 && !p->open[i].over
                && (last == NULL || later(&p->open[i], last)))
            {
                last = &p->open[i];
            }
        }

        return last ? last : p->known.offset == -1 ? &p->known : NULL;
    }

    serial = strtoull(metadata, NULL, 10);

    return serial == p->known.serial ? &p->known : open_find(p, serial);
}


/* After a fault: what is shown is what is. */
static void
shown_fault(group_t *g, int part, const mark_t *m, int64_t offset,
    const char *metadata, const char *who)
{
    const commit_t  *was = &m->known[part];

    fault("%s: group %s, partition %d: offset %lld (commit %.*s) is in force, "
          "commit %llu of %lld had been acknowledged", who, g->name, part,
          (long long) offset, (int) strcspn(metadata, " "), metadata,
          (unsigned long long) was->serial, (long long) was->offset);
}


void
offset_saw(group_t *g, int part, const mark_t *m, int32_t generation,
    int64_t offset, int32_t epoch, const char *metadata, const char *who)
{
    char             text[METADATA_MAX];
    size_t           i;
    int64_t          next;
    commit_t         c, *o;
    const commit_t  *found;
    group_part_t    *p = &g->parts[part];

    group_counters.shown++;

    pthread_mutex_lock(&g->lock);
    found = shown_find(p, offset, metadata);

    if (found == NULL || found->over || later(&m->known[part], found)) {
        pthread_mutex_unlock(&g->lock);
        shown_fault(g, part, m, offset, metadata, who);
        return;
    }

    c = *found;
    next = p->next;
    in_force(g, p, &c);

    for (i = 0; i < p->open_n; i++) {
        o = &p->open[i];

        if (later(o, &p->known) && o->generation < generation
            && o->serial <= m->serial
            && !(o->adrift && generation == SHOWN_TO_ALL))
        {
            o->over = true;
        }
    }

    pthread_mutex_unlock(&g->lock);

    commit_metadata(g, part, &c, text);

    if (c.offset != offset
        || (offset >= 0
            && (epoch != commit_epoch(&c) || strcmp(text, metadata) != 0)))
    {
        fault("%s: group %s, partition %d: commit %llu shows offset %lld, "
              "epoch %d, \"%.60s\", was %lld, %d, \"%.60s\"", who, g->name,
              part, (unsigned long long) c.serial, (long long) offset, epoch,
              metadata, (long long) c.offset, commit_epoch(&c), text);
    }

    if (p->part && offset > next) {
        fault("%s: group %s, partition %d: offset %lld is committed, record "
              "%lld was not delivered", who, g->name, part,
              (long long) offset, (long long) next);
    }
}


/* --- generations --------------------------------------------------------- */

/* The lock is held. */
static generation_t *
generation_find(group_t *g, int32_t generation)
{
    generation_t  *e = &g->generations[generation % GENERATIONS];

    if (e->generation == generation) {
        return e;
    }

    if (e->generation > generation) {
        return NULL;                            /* long ago */
    }

    memset(e, 0, sizeof(generation_t));
    e->generation = generation;
    group_counters.generations++;

    return e;
}


/* A static member comes back under a new id, which begins with its own. */
static bool
same_member(const char *a, const char *b)
{
    size_t  n = strcspn(a, "-");

    return strcmp(a, b) == 0
           || (strchr(a, '#') && strncmp(a, b, n + 1) == 0);
}


void
generation_saw(group_t *g, int32_t before, int32_t generation,
    const char *leader, const char *who)
{
    char           other[ID_MAX];
    bool           differs = false;
    generation_t  *e;

    if (generation < before || generation < 1) {
        fault("%s: group %s: generation %d after %d", who, g->name, generation,
              before);
        return;
    }

    pthread_mutex_lock(&g->lock);

    if (generation > g->generation) {
        g->generation = generation;
    }

    e = generation_find(g, generation);

    if (e && e->joined_ms == 0) {
        e->joined_ms = now_ms();
    }

    if (e && e->leader[0] == '\0') {
        snprintf(e->leader, sizeof(e->leader), "%s", leader);

    } else if (e && !same_member(e->leader, leader)) {
        differs = true;
        snprintf(other, sizeof(other), "%s", e->leader);
    }

    pthread_mutex_unlock(&g->lock);

    if (differs) {
        fault("%s: group %s: generation %d is led by %s and by %s", who,
              g->name, generation, other, leader);
    }
}


void
owner_saw(group_t *g, int32_t generation, int part, int slot, const char *who)
{
    int            other = 0;
    generation_t  *e;

    pthread_mutex_lock(&g->lock);
    e = generation_find(g, generation);

    if (e) {
        other = e->owners[part];
        e->owners[part] = slot + 1;
    }

    pthread_mutex_unlock(&g->lock);

    if (other && other != slot + 1) {
        fault("%s: group %s: partition %d belongs to member %d and to %d in "
              "generation %d", who, g->name, part, other - 1, slot, generation);
    }
}


void
member_is(group_t *g, int slot, const char *id)
{
    pthread_mutex_lock(&g->lock);
    snprintf(g->ids[slot], sizeof(g->ids[slot]), "%s", id);
    pthread_mutex_unlock(&g->lock);
}


void
member_saw(group_t *g, int32_t generation, const char *id)
{
    int            i;
    generation_t  *e;

    pthread_mutex_lock(&g->lock);
    e = generation_find(g, generation);

    for (i = 0; e && i < GROUP_MEMBERS; i++) {
        if (strcmp(g->ids[i], id) == 0) {
            snprintf(e->ids[i], sizeof(e->ids[i]), "%s", id);
        }
    }

    pthread_mutex_unlock(&g->lock);
}


static void
late(int64_t since)
{
    int64_t  ms = now_ms() - since;

    if ((uint64_t) ms > group_counters.latest_ms) {
        group_counters.latest_ms = (uint64_t) ms;
    }
}


/*
 * One who waited while a round ended, and is in the generation, hears of it,
 * and when the others do.  Who hears something else (less than 0: an error) was
 * forgotten until that happened.
 */
void
join_answered(group_t *g, int slot, const char *id, int32_t generation,
    int64_t sent_ms)
{
    int            i;
    generation_t  *e;

    pthread_mutex_lock(&g->lock);

    for (i = 0; i < GENERATIONS; i++) {
        e = &g->generations[i];

        if (e->joined_ms > sent_ms && id[0]
            && strcmp(e->ids[slot], id) == 0)
        {
            late(e->joined_ms);

            if (e->generation != generation) {
                group_counters.forgotten++;
                fprintf(stderr, "group %s: member %s waited for generation %d, "
                        "which is older by %d ms than its answer %d\n",
                        g->name, id, e->generation,
                        (int) (now_ms() - e->joined_ms), generation);
            }
        }
    }

    pthread_mutex_unlock(&g->lock);
}


void
sync_answered(group_t *g, int32_t generation, int error, int64_t sent_ms)
{
    generation_t  *e;

    pthread_mutex_lock(&g->lock);
    e = generation_find(g, generation);

    if (e && e->synced_ms > sent_ms) {
        late(e->synced_ms);

    } else if (e && e->synced_ms == 0 && error == 0) {
        e->synced_ms = now_ms();
    }

    pthread_mutex_unlock(&g->lock);
}


/* --- records ------------------------------------------------------------- */

void
delivered(group_t *g, int part, int64_t offset)
{
    group_part_t  *p = &g->parts[part];

    pthread_mutex_lock(&g->lock);

    if (offset >= p->delivered_cap) {
        int64_t  cap = offset * 2 + 256;

        p->delivered = realloc(p->delivered, (size_t) cap);

        if (p->delivered == NULL) {
            abort();
        }

        memset(p->delivered + p->delivered_cap, 0,
               (size_t) (cap - p->delivered_cap));
        p->delivered_cap = cap;
    }

    group_counters.delivered++;
    group_counters.again += p->delivered[offset];
    p->delivered[offset] = 1;

    while (p->next < p->delivered_cap && p->delivered[p->next]) {
        p->next++;
    }

    pthread_mutex_unlock(&g->lock);
}


void
delivered_all(group_t *g)
{
    int            i;
    ack_t         *a;
    size_t         k;
    part_t        *part;
    int64_t        o, next;
    group_part_t  *p;

    for (i = 0; i < GROUP_PARTS; i++) {
        p = &g->parts[i];
        part = p->part;

        pthread_mutex_lock(&part->lock);
        pthread_mutex_lock(&g->lock);
        next = -1;

        for (k = 0; k < part->acks_n && next == -1; k++) {
            a = &part->acks[k];

            for (o = a->base; o < a->base + a->count; o++) {
                if (o >= p->delivered_cap || !p->delivered[o]) {
                    next = o;
                    break;
                }
            }
        }

        pthread_mutex_unlock(&g->lock);
        pthread_mutex_unlock(&part->lock);

        if (next != -1) {
            fault("group %s: %s-%d record at offset %lld was acknowledged and "
                  "never delivered", g->name, part->topic->name, part->index,
                  (long long) next);
        }
    }
}


void
groups_stats(void)
{
    group_counters_t  *c = &group_counters;

    printf(" commits=%" PRIu64 " refused=%" PRIu64 " lost=%" PRIu64
           " shown=%" PRIu64 " generations=%" PRIu64 " joins=%" PRIu64
           " delivered=%" PRIu64 " again=%" PRIu64 " left=%" PRIu64
           " vanished=%" PRIu64 " returned=%" PRIu64 " stalled=%" PRIu64
           " rewound=%" PRIu64 " offsets_deleted=%" PRIu64
           " longest_ms=%" PRIu64 " latest_ms=%" PRIu64
           " forgotten=%" PRIu64,
           c->commits, c->refused, c->lost, c->shown, c->generations, c->joins,
           c->delivered, c->again, c->left, c->vanished, c->returned,
           c->stalled, c->rewound, c->deleted, c->longest_ms,
           c->latest_ms, c->forgotten);
}
