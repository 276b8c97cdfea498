/*
 * Resources that exist by having configs: subscriptions of client metrics
 * (KIP-714).  ConfigRecord carries a resource's complete set; an empty one ends
 * it.  What is asked for is kept and shown; as with a Kafka that has no plug-in
 * for them, no metrics are collected, and clients are not offered to send any.
 */

#include "kc_int.h"
#include "kc_config_def.h"


typedef struct {
    kc_node_t     by_name;
    kc_configs_t  configs;          /* never none */
    size_t        size;             /* of this block, name too */
    uint8_t       name[];
} kc_resource_obj_t;


/* --- what they are configured with --------------------------------------- */


static bool
kc_is_metric(kf_str_t s)
{
    return s.len > 0;
}


/* "client_id=.*": a client's property and a regular expression. */
static bool
kc_is_match(kf_str_t s)
{
    uint32_t         i, len;
    const uint8_t   *is;
    static const char  *const  names[] = {
        "client_instance_id", "client_id", "client_software_name",
        "client_software_version", "client_source_address",
        "client_source_port"
    };

    is = s.len ? memchr(s.data, '=', s.len) : NULL;

    if (is == NULL || is + 1 == s.data + s.len) {
        return false;
    }

    len = (uint32_t) (is - s.data);

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (kf_str_eq(kc_cstr(names[i]), (kf_str_t) { s.data, len })) {
            return true;
        }
    }

    return false;
}


static const kc_def_t  kc_metrics_defs[] = {

    { .name = "interval.ms", .type = KC_INT, .unit = KC_MS, .value = "300000",
      .min = 100, .max = 3600000,
      .doc = "How often a client is to send its metrics." },

    { .name = "match", .type = KC_LIST, .value = "",
      .item = kc_is_match, .items = "property=pattern",
      .doc = "The clients that it is for; all when it is empty." },

    { .name = "metrics", .type = KC_LIST, .value = "",
      .item = kc_is_metric, .items = "prefixes of names",
      .doc = "Prefixes of the names of metrics." }
};


const kc_def_t *
kc_resource_defs(int8_t type, uint32_t *n)
{
    if (type == KC_RESOURCE_CLIENT_METRICS) {
        *n = sizeof(kc_metrics_defs) / sizeof(kc_metrics_defs[0]);
        return kc_metrics_defs;
    }

    *n = 0;

    return NULL;
}


const kc_def_t *
kc_resource_def(int8_t type, kf_str_t name)
{
    uint32_t         i, n;
    const kc_def_t  *defs = kc_resource_defs(type, &n);

    for (i = 0; i < n; i++) {
        if (kf_str_eq(kc_cstr(defs[i].name), name)) {
            return &defs[i];
        }
    }

    return NULL;
}


/* --- state ---------------------------------------------------------------- */


static kc_map_t *
kc_resource_map(const kc_t *kc, int8_t type)
{
    return type == KC_RESOURCE_CLIENT_METRICS ? &kc->state->client_metrics
                                              : NULL;
}


static kc_resource_obj_t *
kc_resource_find(const kc_t *kc, int8_t type, kf_str_t name)
{
    kc_map_t  *map = kc_resource_map(kc, type);

    return map ? kc_map_find(map, name) : NULL;
}


const kc_config_entry_t *
kc_resource_configs(const kc_t *kc, int8_t type, kf_str_t name, uint32_t *n)
{
    kc_resource_obj_t  *o = kc_resource_find(kc, type, name);

    *n = o ? o->configs.count : 0;

    return o ? o->configs.entries : NULL;
}


kf_str_t
kc_resource_next(const kc_t *kc, int8_t type, kf_str_t after)
{
    kc_map_t           *map = kc_resource_map(kc, type);
    kc_resource_obj_t  *o = map ? kc_map_next(map, after) : NULL;

    return o ? o->by_name.key : kf_null_str;
}


uint32_t
kc_resource_count(const kc_t *kc, int8_t type)
{
    kc_map_t  *map = kc_resource_map(kc, type);

    return map ? map->count : 0;
}


bool
kc_resource_reserve(kc_t *kc, const kf_config_record_t *r)
{
    return r->configs_n == 0 || kc_resource_map(kc, r->resource_type) == NULL
           || kc_reserve(kc, sizeof(kc_resource_obj_t) + r->resource_name.len);
}


static void
kc_resource_drop(kc_t *kc, kc_map_t *map, kc_resource_obj_t *o)
{
    kc_map_remove(map, &o->by_name);
    kc_configs_drop(kc, &o->configs);
    kc_free(kc, o, o->size);
}


bool
kc_resource_apply(kc_t *kc, const kf_config_record_t *r, kc_configs_t *set)
{
    size_t              size;
    kc_map_t           *map = kc_resource_map(kc, r->resource_type);
    kc_resource_obj_t  *o;

    if (map == NULL || r->resource_name.len == 0) {
        return false;
    }

    o = kc_map_find(map, r->resource_name);

    if (o) {
        kc_resource_drop(kc, map, o);
    }

    if (set->count) {
        size = sizeof(kc_resource_obj_t) + r->resource_name.len;

        o = kc_take(kc, size);
        o->size = size;
        o->configs = *set;
        memcpy(o->name, r->resource_name.data, r->resource_name.len);

        kc_assert(kc_map_insert(map, &o->by_name,
                                (kf_str_t) { o->name, r->resource_name.len },
                                o));
    }

    return true;
}


void
kc_resources_free(kc_t *kc)
{
    kc_resource_obj_t  *o;

    while ((o = kc_map_next(&kc->state->client_metrics, kf_null_str))) {
        kc_resource_drop(kc, &kc->state->client_metrics, o);
    }
}


/* --- snapshots, invariants ------------------------------------------------ */


bool
kc_snapshot_resources(kc_writer_t *w)
{
    kf_config_record_t  r;
    kc_resource_obj_t  *o;
    const kc_map_t     *map = &w->kc->state->client_metrics;

    for (o = kc_map_next(map, kf_null_str); o;
         o = kc_map_next(map, o->by_name.key))
    {
        memset(&r, 0, sizeof(r));
        r.resource_type = KC_RESOURCE_CLIENT_METRICS;
        r.resource_name = o->by_name.key;
        r.configs = (void *) o->configs.entries;
        r.configs_n = (int32_t) o->configs.count;

        if (!kc_snapshot_put(w, KF_CONFIG_RECORD, &r)) {
            return false;
        }
    }

    return true;
}


void
kc_hash_resources(const kc_t *kc, uint64_t *h)
{
    kc_resource_obj_t  *o;
    const kc_map_t     *map = &kc->state->client_metrics;

    kc_mix_number(h, map->count);

    for (o = kc_map_next(map, kf_null_str); o;
         o = kc_map_next(map, o->by_name.key))
    {
        kc_mix_str(h, o->by_name.key);
        kc_mix_configs(h, o->configs.entries, o->configs.count);
    }
}


const char *
kc_check_resources(const kc_t *kc)
{
    const char         *problem;
    kc_resource_obj_t  *o;
    const kc_map_t     *map = &kc->state->client_metrics;

    if (!kc_map_check(map)) {
        return "C1: the map of resources is whole";
    }

    for (o = kc_map_next(map, kf_null_str); o;
         o = kc_map_next(map, o->by_name.key))
    {
        if (o->configs.count == 0) {
            return "C5: a resource has configs";
        }

        problem = kc_check_overrides(o->configs.entries, o->configs.count);
        if (problem) {
            return problem;
        }
    }

    return NULL;
}
