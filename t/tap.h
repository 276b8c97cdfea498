/*
 * TAP for tests in C: ok, is, is_str, is_mem, skip, diag, done_testing.
 * A test is one program; prove runs it.
 */

#ifndef TAP_H
#define TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int  tap_run, tap_failed;


__attribute__((unused, format(printf, 1, 2)))
static void
diag(const char *fmt, ...)
{
    va_list  args;

    printf("# ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}


__attribute__((unused, format(printf, 2, 3)))
static int
ok(int pass, const char *fmt, ...)
{
    va_list  args;

    printf("%s %d - ", pass ? "ok" : "not ok", ++tap_run);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    fflush(stdout);

    tap_failed += !pass;

    return pass;
}


__attribute__((unused))
static int
is(int64_t got, int64_t want, const char *label)
{
    if (!ok(got == want, "%s", label)) {
        diag("got %" PRId64 ", want %" PRId64, got, want);
        return 0;
    }

    return 1;
}


__attribute__((unused))
static int
is_str(const char *got, const char *want, const char *label)
{
    int  same = got && want ? strcmp(got, want) == 0 : got == want;

    if (!ok(same, "%s", label)) {
        diag("got  '%s'", got ? got : "(null)");
        diag("want '%s'", want ? want : "(null)");
    }

    return same;
}


__attribute__((unused))
static int
is_mem(const void *got, size_t got_len, const void *want, size_t want_len,
    const char *label)
{
    const uint8_t  *g = got, *w = want;
    size_t          i;
    int             same;

    same = got_len == want_len && (got_len == 0 || memcmp(g, w, got_len) == 0);

    if (!ok(same, "%s", label)) {
        for (i = 0; i < got_len && i < want_len && g[i] == w[i]; i++) { }
        diag("got %zu bytes, want %zu, first difference at %zu", got_len,
             want_len, i);
        if (i < got_len && i < want_len) {
            diag("got %02x, want %02x", g[i], w[i]);
        }
    }

    return same;
}


__attribute__((unused))
static void
skip(int n, const char *why)
{
    while (n--) {
        printf("ok %d # SKIP %s\n", ++tap_run, why);
    }
}


__attribute__((unused))
static int
done_testing(void)
{
    printf("1..%d\n", tap_run);

    if (tap_failed) {
        diag("failed %d of %d", tap_failed, tap_run);
    }

    return tap_failed ? 1 : 0;
}

#endif
