/*
 * The invariants of the state, each with its number in docs/ARCHITECTURE.md.
 */

#include "kc_int.h"
#include "kc_config_def.h"


const char *
kc_check_overrides(const kc_config_entry_t *e, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (e[i].name.len == 0
            || (i && kc_key_cmp(e[i - 1].name, e[i].name) >= 0))
        {
            return "C5: overrides are sorted by name, each once";
        }
    }

    return n && e == NULL ? "C5: overrides are there" : NULL;
}


static const char *
kc_check_topic(const kc_t *kc, const kc_topic_obj_t *t)
{
    int32_t   i;
    uint8_t   alias[KC_TOPIC_NAME_MAX];

    if (kc_topic_name_problem(t->pub.name)) {
        return "C2: a topic has a valid name";
    }

    kc_topic_alias(t->pub.name, alias);

    if (kc_topic_by_id(kc, t->pub.id) != &t->pub
        || kc_topic_by_alias(kc, (kf_str_t) { alias, t->pub.name.len })
           != &t->pub)
    {
        return "C3: a topic is found by name, id and alias";
    }

    if (t->pub.partition_count < 1 || t->pub.slots != t->slots
        || t->slots == NULL)
    {
        return "C4: a topic has partitions, and a slot for each";
    }

    for (i = 0; kc->io.bind && i < t->pub.partition_count; i++) {
        if (t->slots[i] < 0) {
            return "C4: every partition has a slot";
        }
    }

    if (t->pub.changed > kc->state->topics_changed) {
        return "C6: no topic changed after the last change";
    }

    return kc_check_overrides(t->pub.configs, t->pub.config_count);
}


const char *
kc_check(const kc_t *kc)
{
    uint64_t               partitions = 0;
    const char            *problem;
    const kc_state_t      *st = kc->state;
    const kc_topic_obj_t  *t;

    if (!kc_map_check(&st->topics) || !kc_map_check(&st->topics_by_id)
        || !kc_map_check(&st->topics_by_alias)
        || st->topics.count != st->topics_by_id.count
        || st->topics.count != st->topics_by_alias.count)
    {
        return "C1: the maps are whole and of one size";
    }

    for (t = kc_map_next(&st->topics, kf_null_str); t;
         t = kc_map_next(&st->topics, t->pub.name))
    {
        problem = kc_check_topic(kc, t);
        if (problem) {
            return problem;
        }

        partitions += (uint64_t) t->pub.partition_count;
    }

    if (partitions != st->partitions) {
        return "C4: partitions are counted";
    }

    if (st->topics_changed > st->applied
        || st->producer_ids_changed > st->applied
        || st->cluster_id_changed > st->applied
        || st->groups.changed > st->applied
        || st->txns.changed > st->applied)
    {
        return "C6: nothing changed after what was replayed";
    }

    if (st->block_next > st->block_end || st->block_end > st->producer_id_next)
    {
        return "C7: producer ids are given from a block that is journaled";
    }

    if (st->loading) {
        return "C8: no snapshot is half loaded";
    }

    problem = kc_check_groups(kc);

    if (problem == NULL) {
        problem = kc_check_txns(kc);
    }

    if (problem == NULL) {
        problem = kc_check_resources(kc);
    }

    if (problem) {
        return problem;
    }

    return kc_check_overrides(st->broker_configs.entries,
                            st->broker_configs.count);
}
