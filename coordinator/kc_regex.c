/*
 * Regular expressions: parsed into a tree, compiled into a program of a
 * non-deterministic machine, run with all its states at once (Thompson's
 * construction).
 *
 *   pattern ──parse──> tree ──emit──> program ──run(text)──> matches or not
 *
 * Which of several ways matches does not matter here, only whether one does
 * from the first character to the last; so lazy and greedy are the same.
 */

#include "kc_regex.h"

#include <string.h>


#define KC_RE_PATTERN_MAX  4096             /* bytes */
#define KC_RE_PROGRAM_MAX  4000             /* instructions */
#define KC_RE_DEPTH_MAX    250              /* of groups */
#define KC_RE_REPEAT_MAX   1000
#define KC_RE_LAST         0x10ffff         /* the greatest code point */

typedef enum {
    RE_EMPTY, RE_SET, RE_CAT, RE_ALT, RE_REPEAT, RE_BEGIN, RE_END,
    RE_LINE_BEGIN, RE_LINE_END, RE_WORD, RE_NOT_WORD
} kc_re_type_t;

typedef struct {
    uint32_t  lo;
    uint32_t  hi;
} kc_re_range_t;

typedef struct {
    kc_re_range_t  *ranges;
    uint32_t        n;
    uint32_t        room;
    bool            negated;
    bool            fold;
} kc_re_set_t;

typedef struct kc_re_node_s  kc_re_node_t;

struct kc_re_node_s {
    kc_re_type_t   type;
    kc_re_node_t  *a;
    kc_re_node_t  *b;
    int32_t        min;
    int32_t        max;                     /* -1: without end */
    kc_re_set_t   *set;
};

/* RE_CAT stands for a jump, RE_ALT for a choice, RE_EMPTY for the match. */
typedef struct {
    uint8_t       type;
    uint32_t      x;
    uint32_t      y;
    kc_re_set_t  *set;
} kc_re_op_t;

typedef struct {
    uint32_t  *list;
    uint32_t   n;
} kc_re_states_t;

struct kc_regex_s {
    kc_re_op_t      *ops;
    uint32_t         n;
    kc_re_states_t   now;
    kc_re_states_t   next;
    uint32_t        *seen;                  /* the last step that had it */
    uint32_t        *stack;
    uint32_t         step;
};

typedef struct {
    kf_arena_t      *arena;
    const uint8_t   *pos;
    const uint8_t   *end;
    kc_regex_rc_t    rc;
    uint32_t         depth;
    bool             fold;
    bool             dot_all;
    bool             lines;
    bool             quoted;                /* inside \Q … \E */
    kc_regex_t      *re;
} kc_re_t;


static kc_re_node_t *kc_re_alternatives(kc_re_t *p);


static kc_re_node_t *
kc_re_bad(kc_re_t *p)
{
    if (p->rc == KC_REGEX_OK) {
        p->rc = KC_REGEX_BAD;
    }

    return NULL;
}


static void *
kc_re_alloc(kc_re_t *p, size_t size)
{
    void  *m = kf_arena_alloc(p->arena, size);

    if (m == NULL) {
        p->rc = KC_REGEX_NO_MEMORY;
        return NULL;
    }

    return memset(m, 0, size);
}


static kc_re_node_t *
kc_re_node(kc_re_t *p, kc_re_type_t type, kc_re_node_t *a, kc_re_node_t *b)
{
    kc_re_node_t  *n = kc_re_alloc(p, sizeof(kc_re_node_t));

    if (n) {
        n->type = type;
        n->a = a;
        n->b = b;
    }

    return n;
}


/* One character; a byte that is no UTF-8 stands for itself. */
static uint32_t
kc_re_char(const uint8_t **pos, const uint8_t *end)
{
    uint32_t        c, more, i;
    const uint8_t  *p = *pos;

    c = *p++;
    *pos = p;

    more = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 && c < 0xf0 ? 2
           : c >= 0xc2 && c < 0xe0 ? 1 : 0;

    if (more == 0 || (size_t) (end - p) < more) {
        return c;
    }

    c &= 0x3fu >> more;

    for (i = 0; i < more; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return p[-1];
        }

        c = c << 6 | (p[i] & 0x3f);
    }

    *pos = p + more;

    return c;
}


static bool
kc_re_is(const kc_re_t *p, const char *text)
{
    size_t  len = strlen(text);

    return (size_t) (p->end - p->pos) >= len && memcmp(p->pos, text, len) == 0;
}


static bool
kc_re_skip(kc_re_t *p, const char *text)
{
    bool  is = kc_re_is(p, text);

    if (is) {
        p->pos += strlen(text);
    }

    return is;
}


/* --- sets ---------------------------------------------------------------- */

static kc_re_set_t *
kc_re_set(kc_re_t *p)
{
    kc_re_set_t  *s = kc_re_alloc(p, sizeof(kc_re_set_t));

    if (s) {
        s->fold = p->fold;
    }

    return s;
}


static void
kc_re_add(kc_re_t *p, kc_re_set_t *s, uint32_t lo, uint32_t hi)
{
    kc_re_range_t  *ranges;

    if (s->n == s->room) {
        ranges = kc_re_alloc(p, (s->room * 2 + 4) * sizeof(kc_re_range_t));
        if (ranges == NULL) {
            return;
        }

        if (s->n) {
            memcpy(ranges, s->ranges, s->n * sizeof(kc_re_range_t));
        }

        s->ranges = ranges;
        s->room = s->room * 2 + 4;
    }

    s->ranges[s->n++] = (kc_re_range_t) { lo, hi };
}


/* Ranges as a text of pairs, in order: "09AZaz". */
static void
kc_re_add_pairs(kc_re_t *p, kc_re_set_t *s, const char *pairs, bool negated)
{
    uint32_t  from = 0;

    for ( ; *pairs; pairs += 2) {
        if (!negated) {
            kc_re_add(p, s, (uint8_t) pairs[0], (uint8_t) pairs[1]);
            continue;
        }

        if ((uint8_t) pairs[0] > from) {
            kc_re_add(p, s, from, (uint32_t) (uint8_t) pairs[0] - 1);
        }

        from = (uint32_t) (uint8_t) pairs[1] + 1;
    }

    if (negated) {
        kc_re_add(p, s, from, KC_RE_LAST);
    }
}


static bool
kc_re_in(const kc_re_set_t *s, uint32_t c)
{
    uint32_t  i;

    for (i = 0; i < s->n; i++) {
        if (c >= s->ranges[i].lo && c <= s->ranges[i].hi) {
            return true;
        }
    }

    return false;
}


static bool
kc_re_has(const kc_re_set_t *s, uint32_t c)
{
    bool      in = kc_re_in(s, c);
    uint32_t  letter = c | 0x20;

    if (!in && s->fold && letter >= 'a' && letter <= 'z') {
        in = kc_re_in(s, c ^ 0x20);
    }

    return in != s->negated;
}


/* \d, \w, \s and their opposites; false: none of them. */
static bool
kc_re_perl(kc_re_t *p, kc_re_set_t *s, uint32_t c)
{
    switch (c) {

    case 'd':
    case 'D':
        kc_re_add_pairs(p, s, "09", c == 'D');
        return true;

    case 'w':
    case 'W':
        kc_re_add_pairs(p, s, "09AZ__az", c == 'W');
        return true;

    case 's':
    case 'S':
        kc_re_add_pairs(p, s, "\t\n\f\r  ", c == 'S');
        return true;

    default:
        return false;
    }
}


static int
kc_re_hex(uint8_t c)
{
    uint8_t  letter = c | 0x20;

    return c >= '0' && c <= '9' ? c - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}


/* Behind "\x". */
static uint32_t
kc_re_hex_char(kc_re_t *p)
{
    int       digit;
    bool      braces = kc_re_skip(p, "{");
    uint32_t  c = 0, n = 0;

    while (p->pos < p->end && (braces || n < 2)
           && (digit = kc_re_hex(*p->pos)) >= 0)
    {
        c = c * 16 + (uint32_t) digit;
        p->pos++;
        n++;

        if (c > KC_RE_LAST) {
            break;
        }
    }

    if (n == 0 || c > KC_RE_LAST || (!braces && n < 2)
        || (braces && !kc_re_skip(p, "}")))
    {
        kc_re_bad(p);
    }

    return c;
}


/* A character behind a backslash that is one character. */
static uint32_t
kc_re_escaped(kc_re_t *p, uint32_t c)
{
    uint32_t           value = 0, n;
    const char        *found;
    static const char  names[] = "afnrtv", chars[] = "\a\f\n\r\t\v";

    if (c == 'x') {
        return kc_re_hex_char(p);
    }

    /* a lone digit would be a backreference */
    if (c == '0' || (c >= '1' && c <= '7' && p->pos < p->end
                     && *p->pos >= '0' && *p->pos <= '7'))
    {
        value = c - '0';

        for (n = 0; n < 2 && p->pos < p->end && *p->pos >= '0'
                    && *p->pos <= '7'; n++)
        {
            value = value * 8 + (uint32_t) (*p->pos++ - '0');
        }

        return value;
    }

    found = c && c < 0x80 ? strchr(names, (int) c) : NULL;

    if (found) {
        return (uint8_t) chars[found - names];
    }

    /* punctuation stands for itself; letters and digits have meanings */
    if (c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')
        || (c >= 'a' && c <= 'z'))
    {
        kc_re_bad(p);
    }

    return c;
}


static bool
kc_re_posix(kc_re_t *p, kc_re_set_t *s)
{
    bool    negated;
    size_t  i;

    static const struct {
        const char  *name;
        const char  *pairs;
    } classes[] = {
        { "alnum:]", "09AZaz" }, { "alpha:]", "AZaz" },
        { "ascii:]", "\001\177" }, { "blank:]", "\t\t  " },
        { "cntrl:]", "\001\037\177\177" }, { "digit:]", "09" },
        { "graph:]", "!~" }, { "lower:]", "az" }, { "print:]", " ~" },
        { "punct:]", "!/:@[`{~" }, { "space:]", "\t\r  " },
        { "upper:]", "AZ" }, { "word:]", "09AZ__az" },
        { "xdigit:]", "09AFaf" }
    };

    if (!kc_re_skip(p, "[:")) {
        return false;
    }

    negated = kc_re_skip(p, "^");

    for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (kc_re_skip(p, classes[i].name)) {
            kc_re_add_pairs(p, s, classes[i].pairs, negated);
            return true;
        }
    }

    kc_re_bad(p);

    return true;
}


/* One end of a range; false: it was a class, which is added. */
static bool
kc_re_class_char(kc_re_t *p, kc_re_set_t *s, uint32_t *c)
{
    *c = kc_re_char(&p->pos, p->end);

    if (*c != '\\') {
        return true;
    }

    if (p->pos == p->end) {
        kc_re_bad(p);
        return false;
    }

    *c = kc_re_char(&p->pos, p->end);

    if (kc_re_perl(p, s, *c)) {
        return false;
    }

    *c = kc_re_escaped(p, *c);

    return true;
}


/* Behind "[". */
static kc_re_node_t *
kc_re_class(kc_re_t *p)
{
    bool           first = true;
    uint32_t       lo, hi;
    kc_re_set_t   *s = kc_re_set(p);
    kc_re_node_t  *n = kc_re_node(p, RE_SET, NULL, NULL);

    if (s == NULL || n == NULL) {
        return NULL;
    }

    n->set = s;
    s->negated = kc_re_skip(p, "^");

    for ( ; p->rc == KC_REGEX_OK; first = false) {

        if (p->pos == p->end) {
            return kc_re_bad(p);
        }

        if (!first && kc_re_skip(p, "]")) {
            return n;
        }

        if (kc_re_posix(p, s) || !kc_re_class_char(p, s, &lo)) {
            continue;
        }

        hi = lo;

        if (kc_re_is(p, "-") && p->end - p->pos > 1 && p->pos[1] != ']') {
            p->pos++;

            if (!kc_re_class_char(p, s, &hi) || hi < lo) {
                return kc_re_bad(p);
            }
        }

        kc_re_add(p, s, lo, hi);
    }

    return NULL;
}


/* --- the tree ------------------------------------------------------------ */

static kc_re_node_t *
kc_re_literal(kc_re_t *p, uint32_t c)
{
    kc_re_set_t   *s = kc_re_set(p);
    kc_re_node_t  *n = kc_re_node(p, RE_SET, NULL, NULL);

    if (s == NULL || n == NULL) {
        return NULL;
    }

    kc_re_add(p, s, c, c);
    n->set = s;

    return n;
}


static kc_re_node_t *
kc_re_escape(kc_re_t *p)
{
    uint32_t       c;
    kc_re_node_t  *n;

    if (p->pos == p->end) {
        return kc_re_bad(p);
    }

    c = kc_re_char(&p->pos, p->end);

    switch (c) {

    case 'A':
        return kc_re_node(p, RE_BEGIN, NULL, NULL);

    case 'z':
        return kc_re_node(p, RE_END, NULL, NULL);

    case 'b':
        return kc_re_node(p, RE_WORD, NULL, NULL);

    case 'B':
        return kc_re_node(p, RE_NOT_WORD, NULL, NULL);

    case 'Q':
        p->quoted = true;
        return kc_re_node(p, RE_EMPTY, NULL, NULL);

    case 'E':
        return kc_re_node(p, RE_EMPTY, NULL, NULL);

    default:
        break;
    }

    n = kc_re_node(p, RE_SET, NULL, NULL);

    if (n == NULL || (n->set = kc_re_set(p)) == NULL) {
        return NULL;
    }

    if (!kc_re_perl(p, n->set, c)) {
        c = kc_re_escaped(p, c);
        kc_re_add(p, n->set, c, c);
    }

    return n;
}


/* Behind "(?": flags, or the beginning of a group.  false: flags alone, which
   hold to the end of the group around. */
static bool
kc_re_flags(kc_re_t *p)
{
    bool     on = true;
    uint8_t  c;

    if (kc_re_skip(p, "P<") || (kc_re_is(p, "<") && !kc_re_is(p, "<=")
                                && !kc_re_is(p, "<!") && kc_re_skip(p, "<")))
    {
        while (p->pos < p->end && *p->pos != '>') {
            c = *p->pos++;

            if (c != '_' && (c < '0' || c > '9') && ((c | 0x20) < 'a'
                                                     || (c | 0x20) > 'z'))
            {
                kc_re_bad(p);
            }
        }

        if (!kc_re_skip(p, ">")) {
            kc_re_bad(p);
        }

        return true;
    }

    while (p->pos < p->end) {

        switch (*p->pos++) {

        case 'i':
            p->fold = on;
            break;

        case 's':
            p->dot_all = on;
            break;

        case 'm':
            p->lines = on;
            break;

        case 'U':
            break;

        case '-':
            if (!on) {
                kc_re_bad(p);
            }

            on = false;
            break;

        case ':':
            return true;

        case ')':
            return false;

        default:
            kc_re_bad(p);
            return false;
        }
    }

    kc_re_bad(p);

    return false;
}


/* Behind "(". */
static kc_re_node_t *
kc_re_group(kc_re_t *p)
{
    bool           fold = p->fold, dot_all = p->dot_all, lines = p->lines;
    kc_re_node_t  *n;

    if (kc_re_skip(p, "?") && !kc_re_flags(p)) {
        return kc_re_node(p, RE_EMPTY, NULL, NULL);
    }

    if (p->depth == KC_RE_DEPTH_MAX) {
        return kc_re_bad(p);
    }

    p->depth++;
    n = kc_re_alternatives(p);
    p->depth--;

    if (n && !kc_re_skip(p, ")")) {
        return kc_re_bad(p);
    }

    p->fold = fold;
    p->dot_all = dot_all;
    p->lines = lines;

    return n;
}


static kc_re_node_t *
kc_re_atom(kc_re_t *p)
{
    uint32_t       c;
    kc_re_node_t  *n;

    if (p->quoted) {
        return kc_re_literal(p, kc_re_char(&p->pos, p->end));
    }

    c = kc_re_char(&p->pos, p->end);

    switch (c) {

    case '(':
        return kc_re_group(p);

    case '[':
        return kc_re_class(p);

    case '\\':
        return kc_re_escape(p);

    case '^':
        return kc_re_node(p, p->lines ? RE_LINE_BEGIN : RE_BEGIN, NULL, NULL);

    case '$':
        return kc_re_node(p, p->lines ? RE_LINE_END : RE_END, NULL, NULL);

    case '.':
        n = kc_re_node(p, RE_SET, NULL, NULL);

        if (n && (n->set = kc_re_set(p)) != NULL) {
            n->set->negated = true;

            if (!p->dot_all) {
                kc_re_add(p, n->set, '\n', '\n');
            }
        }

        return n;

    case '*':
    case '+':
    case '?':
        return kc_re_bad(p);

    default:
        return kc_re_literal(p, c);
    }
}


/* "{2}", "{2,}", "{2,3}"; anything else is text.  */
static bool
kc_re_braces(kc_re_t *p, int32_t *min, int32_t *max)
{
    int32_t         n[2] = { -1, -1 };
    int             i = 0;
    bool            comma = false;
    const uint8_t  *pos = p->pos;

    if (pos == p->end || *pos++ != '{') {
        return false;
    }

    for ( ; pos < p->end && *pos != '}'; pos++) {

        if (*pos == ',' && !comma) {
            comma = true;
            i = 1;

        } else if (*pos >= '0' && *pos <= '9') {
            n[i] = (n[i] < 0 ? 0 : n[i]) * 10 + (*pos - '0');

            if (n[i] > KC_RE_REPEAT_MAX) {
                n[i] = KC_RE_REPEAT_MAX + 1;
            }

        } else {
            return false;
        }
    }

    if (pos == p->end || n[0] < 0) {
        return false;
    }

    p->pos = pos + 1;
    *min = n[0];
    *max = comma ? n[1] : n[0];

    if (*min > KC_RE_REPEAT_MAX || *max > KC_RE_REPEAT_MAX
        || (*max >= 0 && *max < *min))
    {
        kc_re_bad(p);
    }

    return true;
}


static bool
kc_re_repeat(kc_re_t *p, int32_t *min, int32_t *max)
{
    if (p->quoted) {
        return false;
    }

    if (kc_re_skip(p, "*")) {
        *min = 0;
        *max = -1;

    } else if (kc_re_skip(p, "+")) {
        *min = 1;
        *max = -1;

    } else if (kc_re_skip(p, "?")) {
        *min = 0;
        *max = 1;

    } else if (!kc_re_braces(p, min, max)) {
        return false;
    }

    (void) kc_re_skip(p, "?");

    return true;
}


static kc_re_node_t *
kc_re_sequence(kc_re_t *p)
{
    int32_t        min, max;
    kc_re_node_t  *all = kc_re_node(p, RE_EMPTY, NULL, NULL), *n;

    while (all && p->rc == KC_REGEX_OK && p->pos < p->end) {

        if (p->quoted && kc_re_skip(p, "\\E")) {
            p->quoted = false;
            continue;
        }

        if (!p->quoted && (kc_re_is(p, "|") || kc_re_is(p, ")"))) {
            break;
        }

        n = kc_re_atom(p);

        if (n && p->quoted && kc_re_skip(p, "\\E")) {
            p->quoted = false;          /* what repeats is the last one */
        }

        if (n && kc_re_repeat(p, &min, &max)) {
            n = kc_re_node(p, RE_REPEAT, n, NULL);

            if (n) {
                n->min = min;
                n->max = max;

                /* nothing that repeats is repeated */
                if (kc_re_repeat(p, &min, &max)) {
                    return kc_re_bad(p);
                }
            }
        }

        if (n == NULL) {
            return NULL;
        }

        all = all->type == RE_EMPTY ? n : kc_re_node(p, RE_CAT, all, n);
    }

    return p->rc == KC_REGEX_OK ? all : NULL;
}


static kc_re_node_t *
kc_re_alternatives(kc_re_t *p)
{
    kc_re_node_t  *n = kc_re_sequence(p), *more;

    while (n && kc_re_skip(p, "|")) {
        more = kc_re_sequence(p);
        n = more ? kc_re_node(p, RE_ALT, n, more) : NULL;
    }

    return n;
}


/* --- the program --------------------------------------------------------- */

/* The instruction's index; all are in one array of KC_RE_PROGRAM_MAX. */
static uint32_t
kc_re_op(kc_re_t *p, kc_re_type_t type)
{
    kc_regex_t  *re = p->re;

    if (re->n == KC_RE_PROGRAM_MAX) {
        kc_re_bad(p);
        return 0;
    }

    re->ops[re->n] = (kc_re_op_t) { .type = (uint8_t) type, .x = re->n + 1,
                                    .y = re->n + 1 };

    return re->n++;
}


static void kc_re_emit(kc_re_t *p, const kc_re_node_t *n);


static void
kc_re_emit_repeat(kc_re_t *p, const kc_re_node_t *n)
{
    int32_t      i;
    uint32_t     at, jump;
    kc_regex_t  *re = p->re;

    for (i = 0; i < n->min && p->rc == KC_REGEX_OK; i++) {
        kc_re_emit(p, n->a);
    }

    if (n->max < 0) {
        at = kc_re_op(p, RE_ALT);
        kc_re_emit(p, n->a);
        jump = kc_re_op(p, RE_CAT);
        re->ops[jump].x = at;
        re->ops[at].y = re->n;
        return;
    }

    for ( ; i < n->max && p->rc == KC_REGEX_OK; i++) {
        at = kc_re_op(p, RE_ALT);
        kc_re_emit(p, n->a);
        re->ops[at].y = re->n;
    }
}


/* Recursion is as deep as the pattern has bytes, at most. */
static void
kc_re_emit(kc_re_t *p, const kc_re_node_t *n)
{
    uint32_t     at, jump;
    kc_regex_t  *re = p->re;

    if (p->rc != KC_REGEX_OK) {
        return;
    }

    switch (n->type) {

    case RE_EMPTY:
        break;

    case RE_CAT:
        kc_re_emit(p, n->a);
        kc_re_emit(p, n->b);
        break;

    case RE_ALT:
        at = kc_re_op(p, RE_ALT);
        kc_re_emit(p, n->a);
        jump = kc_re_op(p, RE_CAT);
        re->ops[at].y = re->n;
        kc_re_emit(p, n->b);
        re->ops[jump].x = re->n;
        break;

    case RE_REPEAT:
        kc_re_emit_repeat(p, n);
        break;

    default:
        at = kc_re_op(p, n->type);
        re->ops[at].set = n->set;
    }
}


kc_regex_rc_t
kc_regex_compile(kf_arena_t *arena, kf_str_t pattern, kc_regex_t **out)
{
    kc_re_t        p;
    kc_re_op_t    *ops;
    kc_regex_t    *re;
    kc_re_node_t  *n;

    if (pattern.len > KC_RE_PATTERN_MAX) {
        return KC_REGEX_BAD;
    }

    memset(&p, 0, sizeof(p));
    p.arena = arena;
    p.pos = pattern.data;
    p.end = pattern.data + pattern.len;

    n = kc_re_alternatives(&p);

    if (n && p.pos < p.end) {
        kc_re_bad(&p);                      /* a ")" too many */
    }

    re = p.re = kc_re_alloc(&p, sizeof(kc_regex_t));
    ops = kc_re_alloc(&p, KC_RE_PROGRAM_MAX * sizeof(kc_re_op_t));

    if (p.rc != KC_REGEX_OK) {
        return p.rc;
    }

    re->ops = ops;
    kc_re_emit(&p, n);
    kc_re_op(&p, RE_EMPTY);

    re->now.list = kc_re_alloc(&p, re->n * sizeof(uint32_t));
    re->next.list = kc_re_alloc(&p, re->n * sizeof(uint32_t));
    re->seen = kc_re_alloc(&p, re->n * sizeof(uint32_t));
    re->stack = kc_re_alloc(&p, 2 * re->n * sizeof(uint32_t) + 4);

    *out = re;

    return p.rc;
}


/* --- running it ---------------------------------------------------------- */

static bool
kc_re_word_char(const uint8_t *p, const uint8_t *begin, const uint8_t *end)
{
    uint8_t  c, letter;

    if (p < begin || p >= end) {
        return false;
    }

    c = *p;
    letter = c | 0x20;

    return c == '_' || (c >= '0' && c <= '9')
           || (letter >= 'a' && letter <= 'z');
}


static bool
kc_re_here(uint8_t type, const uint8_t *pos, const uint8_t *begin,
    const uint8_t *end)
{
    bool  edge;

    switch (type) {

    case RE_BEGIN:
        return pos == begin;

    case RE_END:
        return pos == end;

    case RE_LINE_BEGIN:
        return pos == begin || pos[-1] == '\n';

    case RE_LINE_END:
        return pos == end || *pos == '\n';

    default:
        edge = kc_re_word_char(pos - 1, begin, end)
               != kc_re_word_char(pos, begin, end);

        return edge == (type == RE_WORD);
    }
}


/* Adds a state, and all that it leads to without a character. */
static void
kc_re_enter(kc_regex_t *re, kc_re_states_t *s, uint32_t at,
    const uint8_t *pos, const uint8_t *begin, const uint8_t *end)
{
    uint32_t           n = 0;
    const kc_re_op_t  *op;

    re->stack[n++] = at;

    while (n) {
        at = re->stack[--n];

        if (re->seen[at] == re->step) {
            continue;
        }

        re->seen[at] = re->step;
        op = &re->ops[at];

        switch (op->type) {

        case RE_EMPTY:
        case RE_SET:
            s->list[s->n++] = at;
            break;

        case RE_CAT:
            re->stack[n++] = op->x;
            break;

        case RE_ALT:
            re->stack[n++] = op->x;
            re->stack[n++] = op->y;
            break;

        default:
            if (kc_re_here(op->type, pos, begin, end)) {
                re->stack[n++] = op->x;
            }
        }
    }
}


bool
kc_regex_matches(kc_regex_t *re, kf_str_t text)
{
    uint32_t         c, i;
    const uint8_t   *begin = text.data, *pos = text.data;
    const uint8_t   *end = text.data + text.len;
    kc_re_states_t   swap;

    memset(re->seen, 0, re->n * sizeof(uint32_t));
    re->step = 1;
    re->now.n = 0;
    kc_re_enter(re, &re->now, 0, pos, begin, end);

    while (pos < end && re->now.n) {
        c = kc_re_char(&pos, end);
        re->step++;
        re->next.n = 0;

        for (i = 0; i < re->now.n; i++) {
            const kc_re_op_t  *op = &re->ops[re->now.list[i]];

            if (op->type == RE_SET && kc_re_has(op->set, c)) {
                kc_re_enter(re, &re->next, op->x, pos, begin, end);
            }
        }

        swap = re->now;
        re->now = re->next;
        re->next = swap;
    }

    for (i = 0; pos == end && i < re->now.n; i++) {
        if (re->ops[re->now.list[i]].type == RE_EMPTY) {
            return true;
        }
    }

    return false;
}
