/*
 * Configuration values: checking them in Kafka's syntax, and finding the one in
 * force among overrides, dynamic broker configs, nginx.conf and defaults.
 */

#include <stdio.h>
#include <stdlib.h>

#include "kc_int.h"
#include "kc_config_def.h"


static kf_str_t
kc_trim(kf_str_t s)
{
    while (s.len && (*s.data == ' ' || (*s.data >= '\t' && *s.data <= '\r'))) {
        s.data++;
        s.len--;
    }

    while (s.len && (s.data[s.len - 1] == ' '
                     || (s.data[s.len - 1] >= '\t'
                         && s.data[s.len - 1] <= '\r')))
    {
        s.len--;
    }

    return s;
}


static bool
kc_is(kf_str_t s, const char *word, bool ignore_case)
{
    uint32_t  i;
    uint8_t   c;

    for (i = 0; i < s.len && word[i]; i++) {
        c = s.data[i];

        if (ignore_case && c >= 'A' && c <= 'Z') {
            c |= 0x20;
        }

        if (c != (uint8_t) word[i]) {
            return false;
        }
    }

    return i == s.len && word[i] == '\0';
}


/* Decimal with an optional sign. */
static bool
kc_parse_long(kf_str_t s, int64_t *out)
{
    bool      negative = false;
    uint32_t  i = 0;
    uint64_t  v = 0, limit;
    uint8_t   digit;

    if (s.len && (s.data[0] == '-' || s.data[0] == '+')) {
        negative = s.data[0] == '-';
        i = 1;
    }

    if (i == s.len) {
        return false;
    }

    limit = (uint64_t) INT64_MAX + negative;

    for ( ; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return false;
        }

        digit = (uint8_t) (s.data[i] - '0');

        if (v > (limit - digit) / 10) {
            return false;
        }

        v = v * 10 + digit;
    }

    *out = negative ? (int64_t) -v : (int64_t) v;

    return true;
}


static bool
kc_parse_double(kf_str_t s, double *out)
{
    char      buf[64], *end;
    uint32_t  i;

    if (s.len == 0 || s.len >= sizeof(buf)) {
        return false;
    }

    for (i = 0; i < s.len; i++) {
        if (strchr("0123456789+-.eE", s.data[i]) == NULL || !s.data[i]) {
            return false;
        }
    }

    memcpy(buf, s.data, s.len);
    buf[s.len] = '\0';
    *out = strtod(buf, &end);

    return *end == '\0';
}


/* The next item of a comma-separated list, trimmed; false at the end. */
static bool
kc_list_next(kf_str_t *rest, kf_str_t *item)
{
    const uint8_t  *comma;

    if (rest->data == NULL) {
        return false;
    }

    comma = rest->len ? memchr(rest->data, ',', rest->len) : NULL;
    item->data = rest->data;

    if (comma) {
        item->len = (uint32_t) (comma - rest->data);
        rest->data = comma + 1;
        rest->len -= item->len + 1;

    } else {
        item->len = rest->len;
        *rest = kf_null_str;
    }

    *item = kc_trim(*item);

    return true;
}


/* The place of s in "a,b,c", or -1. */
static int
kc_choice(const char *choices, kf_str_t s)
{
    int       i;
    kf_str_t  rest = kc_cstr(choices), item;

    for (i = 0; kc_list_next(&rest, &item); i++) {
        if (kf_str_eq(item, s)) {
            return i;
        }
    }

    return -1;
}


/* The number that code works with, of a value that has been checked. */
static int64_t
kc_enum_number(const kc_def_t *def, kf_str_t s)
{
    int64_t    bits;
    kf_str_t   item;
    const int  codecs[] = { KF_CODEC_NONE, KF_CODEC_ZSTD, KF_CODEC_LZ4,
                            KF_CODEC_SNAPPY, KF_CODEC_GZIP,
                            KC_COMPRESSION_PRODUCER };

    if (def == &kc_topic_defs[KC_CLEANUP_POLICY]) {
        bits = 0;

        while (kc_list_next(&s, &item)) {
            bits |= kc_is(item, "delete", false) ? KC_POLICY_DELETE
                    : kc_is(item, "compact", false) ? KC_POLICY_COMPACT : 0;
        }

        return bits;
    }

    if (def == &kc_topic_defs[KC_COMPRESSION_TYPE]) {
        return codecs[kc_choice(def->choices, s)];
    }

    if (def == &kc_topic_defs[KC_MESSAGE_TIMESTAMP_TYPE]) {
        return kc_choice(def->choices, s);
    }

    return 0;
}


/* below: the value is too small, so the upper bound matters less. */
static const char *
kc_range_problem(const kc_def_t *def, int64_t factor, bool below, char *problem,
    size_t size)
{
    int64_t  min = def->min, max = def->max;

    if (min == INT64_MIN) {
        min = INT32_MIN;                /* an int's hours of a long */
    }

    if (factor > 1) {
        min = min > 0 ? (min + factor - 1) / factor : min;
        max = max / factor;
    }

    if (min == max) {
        snprintf(problem, size, "it can only be %lld", (long long) min);

    } else if (def->max == INT64_MAX || (max == INT32_MAX && below)) {
        snprintf(problem, size, "it has to be at least %lld", (long long) min);

    } else {
        snprintf(problem, size, "it has to be from %lld to %lld",
                 (long long) min, (long long) max);
    }

    return problem;
}


static const char *
kc_integer_parse(const kc_def_t *def, const kc_synonym_t *syn, kf_str_t s,
    kc_value_t *v, char *problem, size_t size)
{
    bool     narrow;
    int64_t  n, factor = syn ? syn->factor : 1;

    /* Hours and minutes are ints in Kafka, also those of a long. */
    narrow = def->type == KC_INT || def->type == KC_SHORT || factor != 1;

    if (!kc_parse_long(s, &n)) {
        snprintf(problem, size, "it is not a whole number of %s bits",
                 narrow ? "32" : "64");
        return problem;
    }

    if (narrow && (n < INT32_MIN || n > INT32_MAX)) {
        return kc_range_problem(def, factor, n < 0, problem, size);
    }

    /* A negative one means "none" in every unit; 32 bits of hours fit. */
    v->number = n < 0 ? n : n * factor;

    if (v->number < def->min || v->number > def->max) {
        return kc_range_problem(def, factor, v->number < def->min, problem,
                                size);
    }

    if (n == 0 && kc_is(kc_cstr(def->name), "compression.gzip.level", false)) {
        snprintf(problem, size, "it has to be from 1 to 9, or -1");
        return problem;
    }

    v->len = (uint32_t) snprintf(v->text, sizeof(v->text), "%lld",
                                 (long long) n);

    return NULL;
}


/* "0:1,3:1" or "*": partition and broker. */
static bool
kc_is_replica(kf_str_t s)
{
    int64_t         n;
    const uint8_t  *colon;
    kf_str_t        left, right;

    if (kc_is(s, "*", false)) {
        return true;
    }

    colon = s.len ? memchr(s.data, ':', s.len) : NULL;
    if (colon == NULL) {
        return false;
    }

    left = (kf_str_t) { s.data, (uint32_t) (colon - s.data) };
    right = (kf_str_t) { colon + 1, s.len - left.len - 1 };

    return kc_parse_long(left, &n) && n >= 0
           && kc_parse_long(right, &n) && n >= 0;
}


static const char *
kc_list_parse(const kc_def_t *def, kf_str_t s, kc_value_t *v, char *problem,
    size_t size)
{
    kf_str_t  item, rest = s;

    v->len = 0;

    if (s.len == 0) {
        v->text[0] = '\0';
        v->number = 0;
        return NULL;
    }

    while (kc_list_next(&rest, &item)) {

        if (def->choices ? kc_choice(def->choices, item) < 0
            : def->item ? !def->item(item) : !kc_is_replica(item))
        {
            snprintf(problem, size, "its parts have to be %s",
                     def->choices ? def->choices
                     : def->item ? def->items : "partition:broker");
            return problem;
        }

        if (def->choices && v->len
            && kc_choice(v->text, item) >= 0)
        {
            continue;                   /* once is enough */
        }

        if (v->len + item.len + 2 > sizeof(v->text)) {
            snprintf(problem, size, "it is longer than %zu bytes",
                     sizeof(v->text) - 2);
            return problem;
        }

        if (v->len) {
            v->text[v->len++] = ',';
        }

        memcpy(v->text + v->len, item.data, item.len);
        v->len += item.len;
        v->text[v->len] = '\0';
    }

    v->number = kc_enum_number(def, (kf_str_t) { (uint8_t *) v->text, v->len });

    return NULL;
}


const char *
kc_value_parse(const kc_def_t *def, const kc_synonym_t *syn, kf_str_t text,
    kc_value_t *v, char *problem, size_t size)
{
    double    d;
    kf_str_t  s = kc_trim(text);

    switch (def->type) {

    case KC_BOOLEAN:
        v->number = kc_is(s, "true", true);

        if (!v->number && !kc_is(s, "false", true)) {
            snprintf(problem, size, "it has to be true or false");
            return problem;
        }

        if (v->number > def->max) {
            snprintf(problem, size, "it can only be false: tiered storage is "
                     "not supported");
            return problem;
        }

        v->len = (uint32_t) snprintf(v->text, sizeof(v->text), "%s",
                                     v->number ? "true" : "false");
        return NULL;

    case KC_INT:
    case KC_SHORT:
    case KC_LONG:
        return kc_integer_parse(def, syn, s, v, problem, size);

    case KC_DOUBLE:
        if (!kc_parse_double(s, &d)) {
            snprintf(problem, size, "it is not a number");
            return problem;
        }

        if (!(d >= (double) def->min && d <= (double) def->max)) {
            return kc_range_problem(def, 1, d < (double) def->min, problem,
                                    size);
        }

        v->number = (int64_t) (d * 1000000);
        break;

    case KC_LIST:
        return kc_list_parse(def, s, v, problem, size);

    default:
        if (def->choices && kc_choice(def->choices, s) < 0) {
            snprintf(problem, size, "it has to be one of %s", def->choices);
            return problem;
        }

        v->number = kc_enum_number(def, s);
        break;
    }

    if (s.len >= sizeof(v->text)) {
        snprintf(problem, size, "it is too long");
        return problem;
    }

    memcpy(v->text, s.data, s.len);
    v->text[s.len] = '\0';
    v->len = s.len;

    return NULL;
}


static bool
kc_entries_find(const kc_config_entry_t *e, uint32_t n, const char *name,
    kf_str_t *value)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (kc_is(e[i].name, name, false)) {
            *value = e[i].value;
            return true;
        }
    }

    return false;
}


uint32_t
kc_topic_config_find(const kc_t *kc, const kc_static_t *st,
    const kc_topic_t *t, const kc_def_t *def, kc_found_t *found)
{
    uint32_t                  i, n = 0, dynamic_n;
    kf_str_t                  value;
    const kc_synonym_t       *syn;
    const kc_config_entry_t  *dynamic = kc_broker_configs(kc, &dynamic_n);

    if (t && kc_entries_find(t->configs, t->config_count, def->name, &value)) {
        found[n++] = (kc_found_t) { KC_SOURCE_TOPIC, NULL, value };
    }

    for (i = 0; i < KC_SYNONYMS && def->synonyms[i].factor; i++) {
        syn = &def->synonyms[i];

        if (kc_entries_find(dynamic, dynamic_n, syn->name, &value)) {
            found[n++] = (kc_found_t) { KC_SOURCE_BROKER, syn, value };
        }
    }

    for (i = 0; i < KC_SYNONYMS && def->synonyms[i].factor; i++) {
        syn = &def->synonyms[i];

        if (st && kc_entries_find(st->entries, st->count, syn->name, &value)) {
            found[n++] = (kc_found_t) { KC_SOURCE_STATIC, syn, value };
        }
    }

    /* The default is shown as a synonym where Kafka has it under that name. */
    syn = def->synonyms[0].factor && def->synonyms[0].value ? &def->synonyms[0]
                                                            : NULL;
    found[n++] = (kc_found_t) { KC_SOURCE_DEFAULT, syn, kc_cstr(def->value) };

    return n;
}


uint32_t
kc_broker_config_find(const kc_t *kc, const kc_static_t *st, const char *name,
    const char *value, kc_found_t *found)
{
    uint32_t                  n = 0, dynamic_n;
    kf_str_t                  text;
    const kc_config_entry_t  *dynamic = kc_broker_configs(kc, &dynamic_n);

    if (kc_entries_find(dynamic, dynamic_n, name, &text)) {
        found[n++] = (kc_found_t) { KC_SOURCE_BROKER, NULL, text };
    }

    if (st && kc_entries_find(st->entries, st->count, name, &text)) {
        found[n++] = (kc_found_t) { KC_SOURCE_STATIC, NULL, text };
    }

    if (value) {
        found[n++] = (kc_found_t) { KC_SOURCE_DEFAULT, NULL, kc_cstr(value) };
    }

    return n;
}


void
kc_found_value(const kc_def_t *def, const kc_found_t *found, kc_value_t *v)
{
    char                 problem[128];
    const kc_synonym_t  *syn = found->synonym;

    if (kc_value_parse(def, syn, found->text, v, problem, sizeof(problem))) {
        /*
         * Stored by a module whose bounds were wider: the default holds rather
         * than a value that the log cannot take.
         */
        syn = NULL;
        kc_assert(kc_value_parse(def, NULL, kc_cstr(def->value), v, problem,
                                 sizeof(problem))
                  == NULL);
    }

    if (syn && syn->factor != 1) {
        v->len = (uint32_t) snprintf(v->text, sizeof(v->text), "%lld",
                                     (long long) v->number);
    }
}


int64_t
kc_topic_config_int(const kc_t *kc, const kc_static_t *st, const kc_topic_t *t,
    kc_topic_config_t name)
{
    kc_value_t       v;
    kc_found_t       found[KC_FOUND_MAX];
    const kc_def_t  *def = &kc_topic_defs[name];

    kc_topic_config_find(kc, st, t, def, found);
    kc_found_value(def, &found[0], &v);

    return v.number;
}


int64_t
kc_broker_config_int(const kc_t *kc, const kc_static_t *st,
    kc_broker_config_t name)
{
    kc_value_t       v;
    kc_found_t       found[3];
    const kc_def_t  *def = &kc_broker_defs[name];

    kc_broker_config_find(kc, st, def->name, def->value, found);
    kc_found_value(def, &found[0], &v);

    return v.number;
}
