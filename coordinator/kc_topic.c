/*
 * Topics in the state: look-ups, and the replay of TopicRecord,
 * DeleteTopicRecord, PartitionsRecord and ConfigRecord.
 *
 * A topic is one block (object, name, alias), one block of slots, and one block
 * of overrides when it has any; three maps find it: by name, id and alias.
 * Invariants (kc_check() proves them): each topic is in all three maps; it has
 * at least one partition, and one slot for each; overrides are sorted.
 */

#include "kc_int.h"


const char *
kc_topic_name_problem(kf_str_t name)
{
    uint32_t  i;
    uint8_t   c;

    if (name.len == 0) {
        return "a topic's name cannot be empty";
    }

    if (name.len > KC_TOPIC_NAME_MAX) {
        return "a topic's name has at most 249 characters";
    }

    if (kf_str_eq(name, kf_str(".")) || kf_str_eq(name, kf_str(".."))) {
        return "a topic cannot be called \".\" or \"..\"";
    }

    for (i = 0; i < name.len; i++) {
        c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
        {
            return "a topic's name is made of letters, digits, '.', '_' "
                   "and '-'";
        }
    }

    return NULL;
}


void
kc_topic_alias(kf_str_t name, uint8_t *out)
{
    uint32_t  i;

    for (i = 0; i < name.len; i++) {
        out[i] = name.data[i] == '.' ? '_' : name.data[i];
    }
}


static size_t
kc_topic_size(kf_str_t name)
{
    return sizeof(kc_topic_obj_t) + 2 * (size_t) name.len;
}


/* Entries and texts of a set of overrides; 0 when there is none. */
static size_t
kc_configs_size(const kf_config_record_configs_t *configs, int32_t n)
{
    size_t   size = 0;
    int32_t  i;

    for (i = 0; i < n; i++) {
        size += sizeof(kc_config_entry_t) + configs[i].name.len
                + configs[i].value.len;
    }

    return size;
}


/* The two records' arrays have the same shape under two names. */
_Static_assert(sizeof(kf_config_record_configs_t)
               == sizeof(kf_topic_record_configs_t), "configs differ");

static const kf_config_record_configs_t *
kc_topic_configs(const kf_topic_record_t *r)
{
    return (const void *) r->configs;
}


/* Fills a set from a record; names have to be sorted and unique. */
static kc_rc_t
kc_configs_fill(kc_t *kc, kc_configs_t *set,
    const kf_config_record_configs_t *configs, int32_t n)
{
    int32_t             i;
    uint8_t            *p;
    kc_config_entry_t  *e;

    set->size = kc_configs_size(configs, n);
    set->count = (uint32_t) n;
    set->entries = NULL;

    if (n == 0) {
        return KC_OK;
    }

    set->entries = kc_take(kc, set->size);
    p = (uint8_t *) (set->entries + n);

    for (i = 0; i < n; i++) {

        if (configs[i].name.len == 0
            || (i && kc_key_cmp(configs[i - 1].name, configs[i].name) >= 0))
        {
            kc_free(kc, set->entries, set->size);
            memset(set, 0, sizeof(kc_configs_t));

            return kc_fail(kc, KC_CORRUPT,
                           "the journal's overrides are not in order");
        }

        e = &set->entries[i];

        memcpy(p, configs[i].name.data, configs[i].name.len);
        e->name = (kf_str_t) { p, configs[i].name.len };
        p += configs[i].name.len;

        if (configs[i].value.len) {
            memcpy(p, configs[i].value.data, configs[i].value.len);
        }

        e->value = (kf_str_t) { p, configs[i].value.len };
        p += configs[i].value.len;
    }

    return KC_OK;
}


void
kc_configs_drop(kc_t *kc, kc_configs_t *set)
{
    kc_free(kc, set->entries, set->size);
    memset(set, 0, sizeof(kc_configs_t));
}


static void
kc_topics_touch(kc_t *kc, int64_t end)
{
    kc->state->topics_version++;
    kc->state->topics_changed = end;
}


/* Gives each partition from `from` on a slot; false: the table is full. */
static bool
kc_bind_slots(kc_t *kc, kf_uuid_t id, int32_t *slots, int32_t from, int32_t to)
{
    int32_t  i;

    for (i = from; i < to; i++) {

        if (kc->io.bind == NULL || kc->recovering) {
            slots[i] = -1;
            continue;
        }

        slots[i] = kc->io.bind(kc->io.ctx, id, i);

        if (slots[i] < 0) {
            return false;
        }
    }

    return true;
}


static kc_rc_t
kc_no_slots(kc_t *kc, kf_str_t name)
{
    return kc_fail(kc, KC_NO_MEMORY, "the broker's zone has too few slots for "
                   "the partitions of topic \"%.*s\": raise the \"zone\" "
                   "directive's size", (int) name.len, name.data);
}


kc_rc_t
kc_topics_bind(kc_t *kc)
{
    kc_topic_obj_t  *t;

    for (t = kc_map_next(&kc->state->topics, kf_null_str); t;
         t = kc_map_next(&kc->state->topics, t->pub.name))
    {
        if (!kc_bind_slots(kc, t->pub.id, t->slots, 0, t->pub.partition_count))
        {
            return kc_no_slots(kc, t->pub.name);
        }
    }

    return KC_OK;
}


bool
kc_topic_reserve(kc_t *kc, const kf_topic_record_t *r)
{
    size_t  configs = kc_configs_size(kc_topic_configs(r), r->configs_n);

    if (r->partition_count < 1 || r->partition_count > KC_PARTITIONS_MAX) {
        return true;                    /* apply will refuse it */
    }

    return kc_reserve(kc, kc_topic_size(r->name))
           && kc_reserve(kc, (size_t) r->partition_count * sizeof(int32_t))
           && (configs == 0 || kc_reserve(kc, configs));
}


kc_rc_t
kc_topic_apply(kc_t *kc, const kf_topic_record_t *r, int64_t end)
{
    uint8_t         *name, *alias;
    kc_rc_t          rc;
    kc_state_t      *st = kc->state;
    kc_topic_obj_t  *t;

    if (kc_topic_name_problem(r->name) || kf_uuid_is_zero(r->topic_id)
        || r->partition_count < 1 || r->partition_count > KC_PARTITIONS_MAX)
    {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal creates a topic that cannot be");
    }

    t = kc_take(kc, kc_topic_size(r->name));
    t->size = kc_topic_size(r->name);

    name = (uint8_t *) (t + 1);
    alias = name + r->name.len;
    memcpy(name, r->name.data, r->name.len);
    kc_topic_alias(r->name, alias);

    t->pub.id = r->topic_id;
    t->pub.name = (kf_str_t) { name, r->name.len };
    t->pub.partition_count = r->partition_count;
    t->pub.internal = r->internal;
    t->pub.changed = end;

    t->slots = kc_take(kc, (size_t) r->partition_count * sizeof(int32_t));
    t->pub.slots = t->slots;

    rc = kc_configs_fill(kc, &t->configs, kc_topic_configs(r), r->configs_n);

    if (rc == KC_OK
        && (kc_map_find(&st->topics, t->pub.name)
            || kc_map_find(&st->topics_by_id, kc_uuid_key(&t->pub.id))
            || kc_map_find(&st->topics_by_alias,
                           (kf_str_t) { alias, r->name.len })))
    {
        rc = kc_fail(kc, KC_CORRUPT, "the journal creates topic \"%.*s\" "
                     "twice", (int) r->name.len, r->name.data);
    }

    if (rc == KC_OK
        && !kc_bind_slots(kc, t->pub.id, t->slots, 0, r->partition_count))
    {
        rc = kc_no_slots(kc, r->name);
    }

    if (rc != KC_OK) {
        kc_configs_drop(kc, &t->configs);
        kc_free(kc, t->slots,
                (size_t) r->partition_count * sizeof(int32_t));
        kc_free(kc, t, t->size);
        return rc;
    }

    t->pub.configs = t->configs.entries;
    t->pub.config_count = t->configs.count;

    kc_map_insert(&st->topics, &t->by_name, t->pub.name, t);
    kc_map_insert(&st->topics_by_id, &t->by_id, kc_uuid_key(&t->pub.id), t);
    kc_map_insert(&st->topics_by_alias, &t->by_alias,
                  (kf_str_t) { alias, r->name.len }, t);

    st->partitions += (uint64_t) r->partition_count;
    kc_topics_touch(kc, end);

    return KC_OK;
}


static void
kc_topic_drop(kc_t *kc, kc_topic_obj_t *t, int64_t end)
{
    kc_state_t  *st = kc->state;

    kc_offsets_topic_gone(kc, t, end);

    kc_map_remove(&st->topics, &t->by_name);
    kc_map_remove(&st->topics_by_id, &t->by_id);
    kc_map_remove(&st->topics_by_alias, &t->by_alias);
    st->partitions -= (uint64_t) t->pub.partition_count;

    kc_configs_drop(kc, &t->configs);
    kc_free(kc, t->slots, (size_t) t->pub.partition_count * sizeof(int32_t));
    kc_free(kc, t, t->size);
}


void
kc_topics_free(kc_t *kc)
{
    kc_topic_obj_t  *t;

    while ((t = kc_map_next(&kc->state->topics, kf_null_str))) {
        kc_topic_drop(kc, t, 0);
    }

    kc_configs_drop(kc, &kc->state->broker_configs);
}


kc_rc_t
kc_topic_delete_apply(kc_t *kc, const kf_delete_topic_record_t *r, int64_t end)
{
    int32_t          i;
    kc_state_t      *st = kc->state;
    kc_topic_obj_t  *t;

    t = kc_map_find(&st->topics_by_id, kc_uuid_key(&r->topic_id));

    if (t == NULL) {
        return kc_fail(kc, KC_CORRUPT,
                       "the journal deletes a topic that does not exist");
    }

    if (kc->deleted) {
        kc->deleted(kc->io.ctx, r->topic_id);
    }

    if (kc->io.release) {
        for (i = 0; i < t->pub.partition_count; i++) {
            if (t->slots[i] >= 0) {
                kc->io.release(kc->io.ctx, t->slots[i]);
            }
        }
    }

    kc_topic_drop(kc, t, end);
    kc_topics_touch(kc, end);

    return KC_OK;
}


bool
kc_partitions_reserve(kc_t *kc, const kf_partitions_record_t *r)
{
    if (r->partition_count < 1 || r->partition_count > KC_PARTITIONS_MAX) {
        return true;
    }

    return kc_reserve(kc, (size_t) r->partition_count * sizeof(int32_t));
}


kc_rc_t
kc_partitions_apply(kc_t *kc, const kf_partitions_record_t *r, int64_t end)
{
    int32_t         *slots, n;
    kc_topic_obj_t  *t;

    t = kc_map_find(&kc->state->topics_by_id, kc_uuid_key(&r->topic_id));

    if (t == NULL || r->partition_count <= t->pub.partition_count
        || r->partition_count > KC_PARTITIONS_MAX)
    {
        return kc_fail(kc, KC_CORRUPT, "the journal adds partitions to a topic "
                       "that does not take them");
    }

    n = t->pub.partition_count;
    slots = kc_take(kc, (size_t) r->partition_count * sizeof(int32_t));
    memcpy(slots, t->slots, (size_t) n * sizeof(int32_t));

    if (!kc_bind_slots(kc, t->pub.id, slots, n, r->partition_count)) {
        kc_free(kc, slots, (size_t) r->partition_count * sizeof(int32_t));

        return kc_no_slots(kc, t->pub.name);
    }

    kc_free(kc, t->slots, (size_t) n * sizeof(int32_t));

    t->slots = slots;
    t->pub.slots = slots;
    t->pub.partition_count = r->partition_count;
    t->pub.changed = end;

    kc->state->partitions += (uint64_t) (r->partition_count - n);
    kc_topics_touch(kc, end);

    return KC_OK;
}


bool
kc_configs_reserve(kc_t *kc, const kf_config_record_t *r)
{
    size_t  size = kc_configs_size(r->configs, r->configs_n);

    return (size == 0 || kc_reserve(kc, size)) && kc_resource_reserve(kc, r);
}


kc_rc_t
kc_configs_apply(kc_t *kc, const kf_config_record_t *r, int64_t end)
{
    kc_rc_t          rc;
    kc_configs_t     set;
    kc_topic_obj_t  *t = NULL;

    rc = kc_configs_fill(kc, &set, r->configs, r->configs_n);
    if (rc != KC_OK) {
        return rc;
    }

    if (r->resource_type == KC_RESOURCE_TOPIC) {
        t = kc_map_find(&kc->state->topics, r->resource_name);
    }

    if (t) {
        kc_configs_drop(kc, &t->configs);
        t->configs = set;
        t->pub.configs = set.entries;
        t->pub.config_count = set.count;
        t->pub.changed = end;

    } else if (r->resource_type == KC_RESOURCE_BROKER
               && r->resource_name.len == 0)
    {
        kc_configs_drop(kc, &kc->state->broker_configs);
        kc->state->broker_configs = set;

    } else if (!kc_resource_apply(kc, r, &set)) {
        kc_configs_drop(kc, &set);

        return kc_fail(kc, KC_CORRUPT, "the journal configures resource "
                       "\"%.*s\" of type %d, which does not exist",
                       (int) r->resource_name.len, r->resource_name.data,
                       r->resource_type);
    }

    kc_topics_touch(kc, end);

    return KC_OK;
}


uint64_t
kc_topics_version(const kc_t *kc)
{
    return kc->state->topics_version;
}


int64_t
kc_topics_changed(const kc_t *kc)
{
    return kc->state->topics_changed;
}


const kc_topic_t *
kc_topic_by_name(const kc_t *kc, kf_str_t name)
{
    return kc_map_find(&kc->state->topics, name);
}


const kc_topic_t *
kc_topic_by_id(const kc_t *kc, kf_uuid_t id)
{
    return kc_map_find(&kc->state->topics_by_id, kc_uuid_key(&id));
}


const kc_topic_t *
kc_topic_by_alias(const kc_t *kc, kf_str_t alias)
{
    return kc_map_find(&kc->state->topics_by_alias, alias);
}


const kc_topic_t *
kc_topic_next(const kc_t *kc, kf_str_t after)
{
    return kc_map_next(&kc->state->topics, after);
}


uint32_t
kc_topic_count(const kc_t *kc)
{
    return kc->state->topics.count;
}


const kc_config_entry_t *
kc_broker_configs(const kc_t *kc, uint32_t *n)
{
    *n = kc->state->broker_configs.count;

    return kc->state->broker_configs.entries;
}
