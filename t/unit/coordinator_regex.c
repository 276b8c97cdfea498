/*
 * Regular expressions: what matches the whole text, what is refused, and that
 * no pattern takes long.
 */

#include <stdlib.h>
#include <time.h>

#include "../tap.h"
#include "../../coordinator/kc_regex.h"

static kf_heap_t   heap;
static kf_arena_t  arena;


static kf_str_t
s(const char *text)
{
    return (kf_str_t) { (const uint8_t *) text, (uint32_t) strlen(text) };
}


/* "+": matches, "-": does not, "!": refused. */
static char
try(const char *pattern, const char *text)
{
    char         result;
    kc_regex_t  *re;

    kf_arena_init(&arena, kf_heap_chunk, &heap, 1024 * 1024);

    switch (kc_regex_compile(&arena, s(pattern), &re)) {
    case KC_REGEX_OK:
        result = kc_regex_matches(re, s(text)) ? '+' : '-';
        break;
    case KC_REGEX_BAD:
        result = '!';
        break;
    default:
        result = '?';
    }

    kf_heap_free(&heap);

    return result;
}


static const struct {
    char         want;
    const char  *pattern;
    const char  *text;
} cases[] = {
    { '+', "abc", "abc" }, { '-', "abc", "abcd" }, { '-', "abc", "xabc" },
    { '-', "abc", "ab" }, { '+', "", "" }, { '-', "", "a" },
    { '+', "a|bc", "bc" }, { '-', "a|bc", "ac" }, { '+', "a|", "" },
    { '+', "(a|b)c", "bc" }, { '+', "(?:a|b)*", "abba" },
    { '+', "(?P<x>a)(?<y_1>b)", "ab" }, { '+', "()", "" },
    { '+', "a*", "" }, { '+', "a*", "aaa" }, { '-', "a+", "" },
    { '+', "ab?c", "ac" }, { '+', "ab?c", "abc" }, { '-', "ab?c", "abbc" },
    { '+', "a{2}", "aa" }, { '-', "a{2}", "aaa" }, { '+', "a{2,}", "aaaa" },
    { '+', "a{0,2}", "" }, { '-', "a{1,2}", "aaa" }, { '+', "a{,2}", "a{,2}" },
    { '+', "a{", "a{" }, { '+', "a{x}", "a{x}" }, { '+', "a*?b+?c??", "aab" },
    { '+', "(a*)*", "aaa" }, { '+', "(a*)+b", "b" }, { '+', "(|a)*", "aa" },
    { '+', ".", "x" }, { '-', ".", "\n" }, { '+', "(?s).", "\n" },
    { '+', ".", "\xc3\xa4" }, { '+', ".", "\xf0\x9f\x98\x80" },
    { '+', ".", "\xff" }, { '+', "..", "\xe2\x82" },
    { '+', "\xc3\xa4+", "\xc3\xa4\xc3\xa4" },
    { '+', "[a-c]", "b" }, { '-', "[a-c]", "d" }, { '+', "[^a-c]", "d" },
    { '+', "[]a]", "]" }, { '+', "[a-]", "-" }, { '+', "[-a]", "-" },
    { '+', "[\\d_]+", "1_2" }, { '+', "[^\\d]", "x" }, { '-', "[^\\D]", "x" },
    { '+', "[\\]]", "]" }, { '+', "[[:alpha:]]+", "aZ" },
    { '-', "[[:^alpha:]]", "a" }, { '+', "[[:punct:]x]", "~" },
    { '+', "[\xc3\xa4-\xc3\xb6]", "\xc3\xa5" },
    { '+', "\\d+\\w\\s", "12a " }, { '+', "\\D\\W\\S", "a.b" },
    { '-', "\\d", "\xd9\xa1" }, { '+', "\\.\\*\\/\\-", ".*/-" },
    { '+', "\\x41\\x{1F600}", "A\xf0\x9f\x98\x80" }, { '+', "\\t\\n", "\t\n" },
    { '+', "\\Qa.b*\\E+", "a.b**" }, { '+', "\\Qa.b\\Ec", "a.bc" },
    { '+', "\\Q(", "(" }, { '+', "\\101", "A" }, { '+', "\\0101", "\b1" },
    { '+', "^a$", "a" }, { '-', "a^b", "ab" }, { '+', "\\Aa\\z", "a" },
    { '+', "(?m)a$\n^b", "a\nb" }, { '-', "a$\n^b", "a\nb" },
    { '+', "\\bab\\b.c", "ab c" }, { '-', "a\\bb", "ab" },
    { '+', "a\\Bb", "ab" },
    { '+', "(?i)aBc", "AbC" }, { '-', "aBc", "abc" }, { '+', "a(?i)b", "aB" },
    { '-', "a(?i)b", "AB" }, { '+', "(a(?i)b)c", "aBc" },
    { '-', "(a(?i)b)c", "aBC" }, { '+', "(?i:a)b", "Ab" },
    { '+', "(?i)[a-c]", "B" }, { '-', "(?i)[^a-c]", "B" },
    { '+', "(?i-i)a", "a" }, { '-', "(?i-i)a", "A" },

    { '!', "(", "" }, { '!', ")", "" }, { '!', "a)", "" }, { '!', "[a", "" },
    { '!', "[", "" }, { '!', "[]", "" }, { '!', "[b-a]", "" },
    { '!', "[a-\\d]", "" }, { '!', "[[:what:]]", "" }, { '!', "*", "" },
    { '!', "+a", "" }, { '!', "a**", "" }, { '!', "a+*", "" },
    { '!', "a{2}{3}", "" }, { '!', "a{2,1}", "" }, { '!', "a{1001}", "" },
    { '!', "a{99999999999}", "" }, { '!', "((a{999}){999}){999}", "" },
    { '!', "\\", "" }, { '!', "\\1", "" }, { '!', "(a)\\1", "" },
    { '!', "\\y", "" }, { '!', "\\x4", "" }, { '!', "\\x{110000}", "" },
    { '!', "\\x{}", "" }, { '!', "\\pL", "" }, { '!', "(?=a)", "" },
    { '!', "(?!a)", "" }, { '!', "(?<=a)", "" }, { '!', "(?<a", "" },
    { '!', "(?P<a b>c)", "" }, { '!', "(?", "" }, { '!', "(?i", "" },
    { '!', "(?z)", "" }, { '!', "(?--i)a", "" }, { '!', "|*", "" },
    { '!', "(|*)", "" }, { '!', "[a\\", "" },
};


/* Patterns that others need exponential time for. */
static void
test_time(void)
{
    int          i;
    char         text[4001], nested[1000];
    clock_t      begin = clock();
    const char  *slow[] = { "(a*)*b", "(a|aa)+b", "(a|a?)+b", "(.*.*)*b",
                            "(a?){30}a{30}b", "((a{0,9}){0,9}){0,9}b" };

    memset(text, 'a', 4000);
    text[4000] = '\0';

    for (i = 0; i < 6; i++) {
        is(try(slow[i], text), '-', slow[i]);
    }

    ok((double) (clock() - begin) / CLOCKS_PER_SEC < 60, "in linear time");

    memset(nested, '(', 400);
    memset(nested + 400, ')', 400);
    nested[800] = '\0';
    is(try(nested, ""), '!', "groups that are nested too deeply");
    memset(nested + 200, ')', 200);
    nested[400] = '\0';
    is(try(nested, ""), '+', "and just so");
}


int
main(void)
{
    size_t  i;
    char    got, want;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        want = cases[i].want;
        got = try(cases[i].pattern, cases[i].text);
        ok(got == want, "%s, %s: %c, not %c", cases[i].pattern, cases[i].text,
           want, got);
    }

    test_time();

    return done_testing();
}
