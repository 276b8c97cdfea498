/*
 * The tables behind kc_config.h, shared by the files that read configuration:
 * kc_config_def.c (tables), kc_config.c (values), kc_config_static.c (lines of
 * nginx.conf), kc_describe.c (DescribeConfigs).
 */

#ifndef KC_CONFIG_DEF_H
#define KC_CONFIG_DEF_H

#include "kc_config.h"

#pragma GCC visibility push(hidden)


/* As DescribeConfigs numbers them. */
typedef enum {
    KC_BOOLEAN = 1, KC_STRING, KC_INT, KC_SHORT, KC_LONG, KC_DOUBLE, KC_LIST,
    KC_CLASS, KC_PASSWORD
} kc_type_t;

typedef enum { KC_PLAIN = 0, KC_BYTES, KC_MS } kc_unit_t;

#define KC_SOURCE_TOPIC           1
#define KC_SOURCE_BROKER          2
#define KC_SOURCE_ALL_BROKERS     3
#define KC_SOURCE_STATIC          4
#define KC_SOURCE_DEFAULT         5
#define KC_SOURCE_CLIENT_METRICS  7

#define KC_SYNONYMS               3

/* A broker-level name of a topic's config; the first is the one to write. */
typedef struct {
    const char  *name;
    int64_t      factor;            /* to the topic's unit; 0: the end */
    const char  *value;             /* Kafka's default of this name, NULL */
} kc_synonym_t;

typedef struct {
    const char    *name;
    kc_type_t      type;
    kc_unit_t      unit;            /* which nginx units make sense */
    const char    *value;           /* default */
    int64_t        min;
    int64_t        max;
    const char    *choices;         /* "a,b,c" or NULL */
    bool           fixed;           /* not to be changed at run time */
    const char    *doc;
    kc_synonym_t   synonyms[KC_SYNONYMS];
    /* of a list without choices; NULL: a list of replicas */
    bool         (*item)(kf_str_t s);
    const char    *items;           /* what they have to be, for messages */
} kc_def_t;

/* In the order of kc_topic_config_t, then those that nobody asks by number. */
extern const kc_def_t  kc_topic_defs[];
extern const uint32_t  kc_topic_defs_n;
/* In the order of kc_broker_config_t. */
extern const kc_def_t  kc_broker_defs[];

/* NULL: no such topic config. */
const kc_def_t *kc_topic_def(kf_str_t name);

/*
 * What a broker-level name is: one of the broker's own (*syn NULL), or a
 * synonym of a topic's config; NULL: neither.
 */
const kc_def_t *kc_broker_def(kf_str_t name, const kc_synonym_t **syn);


/* The configs of resources of a type (kc_resource.c); NULL: it has none. */
const kc_def_t *kc_resource_defs(int8_t type, uint32_t *n);
const kc_def_t *kc_resource_def(int8_t type, kf_str_t name);


/* A checked value. */
typedef struct {
    int64_t      number;            /* as kc_topic_config_int() gives it */
    char         text[1024];        /* canonical, as Kafka would print it */
    uint32_t     len;
} kc_value_t;

/*
 * Checks a value, in Kafka's syntax, for a config or (syn) its synonym; number
 * is in the unit of the config, text in that of the name.  NULL, or what is
 * wrong with it, in problem.
 */
const char *kc_value_parse(const kc_def_t *def, const kc_synonym_t *syn,
    kf_str_t text, kc_value_t *v, char *problem, size_t size);


/* Where an effective value comes from. */
typedef struct {
    int8_t               source;
    const kc_synonym_t  *synonym;   /* NULL: under the topic's own name */
    kf_str_t             text;      /* as it is written there */
} kc_found_t;

/*
 * All places that give a topic's config a value, the one in force first;
 * returns how many (at least one: the default).  t may be NULL.
 */
#define KC_FOUND_MAX  (2 + 2 * KC_SYNONYMS)
uint32_t kc_topic_config_find(const kc_t *kc, const kc_static_t *st,
    const kc_topic_t *t, const kc_def_t *def, kc_found_t *found);

/* The same for a broker-level name; 0: it has no value (Kafka's null). */
uint32_t kc_broker_config_find(const kc_t *kc, const kc_static_t *st,
    const char *name, const char *value, kc_found_t *found);

/* The effective number; *v also gets the text in the topic's unit. */
void kc_found_value(const kc_def_t *def, const kc_found_t *found,
    kc_value_t *v);

static inline kf_str_t
kc_cstr(const char *s)
{
    return (kf_str_t) { (const uint8_t *) s, (uint32_t) strlen(s) };
}


#pragma GCC visibility pop

#endif
