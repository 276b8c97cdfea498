/*
 * A fuzz target without a fuzzer: replays the files of its corpus (or those
 * given as arguments), then deterministic noise and mutations of the corpus,
 * as TAP.  A crash or a sanitizer's report ends the program, which is the
 * failure.
 */

#include <dirent.h>
#include <sys/stat.h>

#include "../tap.h"


#define REPLAY_ROUNDS    2000
#define REPLAY_SIZE_MAX  (1024 * 1024)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static uint64_t  replay_state = 88172645463325252ull;


static uint64_t
replay_random(void)
{
    replay_state ^= replay_state << 13;
    replay_state ^= replay_state >> 7;
    replay_state ^= replay_state << 17;

    return replay_state;
}


/*
 * Runs on a copy of exactly the input's size, so that a read past its end is
 * seen by AddressSanitizer.
 */
static void
replay_run(const uint8_t *data, size_t size)
{
    uint8_t  *copy;

    copy = malloc(size ? size : 1);
    if (copy == NULL) {
        abort();
    }

    if (size) {
        memcpy(copy, data, size);
    }

    (void) LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}


static void
replay_mutate(const uint8_t *data, size_t size, int rounds)
{
    int       i, j, n;
    size_t    len;
    uint8_t  *copy;

    copy = malloc(size + 1);
    if (copy == NULL) {
        abort();
    }

    for (i = 0; i < rounds; i++) {
        memcpy(copy, data, size);
        len = replay_random() % 4 ? size : replay_random() % (size + 1);
        n = (int) (replay_random() % 4) + 1;

        for (j = 0; len && j < n; j++) {
            copy[replay_random() % len] = replay_random() % 2
                                          ? (uint8_t) replay_random()
                                          : (replay_random() % 2 ? 0xff : 0);
        }

        replay_run(copy, len);
    }

    free(copy);
}


static int
replay_file(const char *path, int rounds)
{
    long      len;
    FILE     *f;
    uint8_t  *data;

    f = fopen(path, "rb");
    if (f == NULL) {
        return ok(0, "%s is readable", path);
    }

    data = malloc(REPLAY_SIZE_MAX);
    if (data == NULL) {
        abort();
    }

    len = (long) fread(data, 1, REPLAY_SIZE_MAX, f);
    fclose(f);

    replay_run(data, (size_t) len);
    replay_mutate(data, (size_t) len, rounds);
    free(data);

    return 1;
}


static int
replay_dir(const char *path)
{
    int             n;
    char            name[4096];
    DIR            *dir;
    struct stat     st;
    struct dirent  *e;

    dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }

    n = 0;

    while ((e = readdir(dir)) != NULL) {
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (stat(name, &st) == 0 && S_ISREG(st.st_mode)) {
            n += replay_file(name, 20);
        }
    }

    closedir(dir);

    return n;
}


int
main(int argc, char **argv)
{
    int      i, n;
    size_t   j, len;
    uint8_t  noise[512];

    if (argc > 1) {
        for (i = 1; i < argc; i++) {
            ok(replay_file(argv[i], 0), "%s", argv[i]);
        }

        return done_testing();
    }

    n = replay_dir(CORPUS);
    ok(1, "corpus replayed: %d files, each with mutations", n);

    for (i = 0; i < REPLAY_ROUNDS; i++) {
        len = replay_random() % (sizeof(noise) + 1);
        for (j = 0; j < len; j++) {
            noise[j] = (uint8_t) replay_random();
        }
        replay_run(noise, len);
    }

    ok(1, "%d rounds of noise", REPLAY_ROUNDS);

    return done_testing();
}
