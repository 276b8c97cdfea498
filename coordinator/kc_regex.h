/*
 * Regular expressions in RE2's syntax, for patterns that clients send: matched
 * in time linear in the text, whatever the pattern.
 *
 * What RE2 refuses is refused: backreferences, look-around, **, {2,1}, repeats
 * over 1000.  Left out, and refused, too: \p{…} and \C.  (?i) folds ASCII
 * letters only.
 */

#ifndef KC_REGEX_H
#define KC_REGEX_H

#include "../codec/kf_arena.h"

#pragma GCC visibility push(hidden)


typedef struct kc_regex_s  kc_regex_t;

typedef enum {
    KC_REGEX_OK = 0,
    KC_REGEX_BAD,                   /* not a pattern, or too large a one */
    KC_REGEX_NO_MEMORY
} kc_regex_rc_t;

/* All memory, also that of matching, is the arena's. */
kc_regex_rc_t kc_regex_compile(kf_arena_t *arena, kf_str_t pattern,
    kc_regex_t **re);

/* Does it match the whole text?  Not for two threads at a time. */
bool kc_regex_matches(kc_regex_t *re, kf_str_t text);


#pragma GCC visibility pop

#endif
