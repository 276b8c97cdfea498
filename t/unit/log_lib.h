/*
 * What the tests of the log share: a temporary data directory, shared memory,
 * a partition, batches.
 */

#ifndef LOG_LIB_H
#define LOG_LIB_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../log/kl.h"
#include "../tap.h"

#define UNUSED  __attribute__((unused))

#define TOPIC   "topic"
#define DIR_OF_TOPIC  TOPIC "-0"

static char          data_dir[256];
static kl_shared_t  *shared;
static kl_env_t     *env;
static kl_log_t     *plog;
static kf_uuid_t     topic_id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                    14, 15, 16 } };
static char          last_line[1024];   /* of the log, WARN and worse */
static int           last_level = 99;
static int           lines_n;

static kl_config_t  config = {
    .segment_bytes = 1 << 30,
    .segment_ms = 7LL * 86400 * 1000,
    .segment_index_bytes = 10 << 20,
    .index_interval_bytes = 4096,
    .retention_ms = -1,
    .retention_bytes = -1,
    .producer_expiration_ms = 86400 * 1000,
};


static void
log_line(void *ctx, kl_log_level_t level, int err, const char *line)
{
    (void) ctx;

    if (level <= KL_LOG_WARN) {
        snprintf(last_line, sizeof(last_line), "%s", line);
        last_level = level;
        lines_n++;
    }

    if (getenv("VERBOSE")) {
        diag("[%d] %s (%s)", level, line, err ? strerror(err) : "-");
    }
}


UNUSED static void
data_remove(const char *path)
{
    char            sub[4096];
    DIR            *d = opendir(path);
    struct dirent  *de;

    if (d == NULL) {
        unlink(path);
        return;
    }

    while ((de = readdir(d)) != NULL) {
        if (strcmp(de->d_name, ".") && strcmp(de->d_name, "..")) {
            snprintf(sub, sizeof(sub), "%s/%s", path, de->d_name);
            data_remove(sub);
        }
    }

    closedir(d);
    rmdir(path);
}


UNUSED static void
data_make(void)
{
    const char  *tmp = getenv("TMPDIR");

    snprintf(data_dir, sizeof(data_dir), "%s/kl-XXXXXX", tmp ? tmp : "/tmp");

    if (mkdtemp(data_dir) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
}


static kl_env_t *
env_make(uint32_t files)
{
    kl_env_opts_t  o = { .dir = data_dir, .open_files_max = files,
                         .log = log_line };

    return kl_env_create(shared, &o);
}


static kl_log_t *
log_of(kl_env_t *e, int32_t slot)
{
    kl_offsets_t  o;

    kl_snapshot(kl_part(shared, slot), &o);

    return kl_log_open(e, slot, o.incarnation, topic_id, kf_str(TOPIC), 0);
}


/* Fresh shared memory and handles over whatever is in the directory: a start
 * of the broker. */
UNUSED static void
broker_start(uint32_t parts, uint32_t producers)
{
    void    *mem;
    size_t   size = kl_shared_size(parts, producers);

    mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
    if (mem == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }

    shared = kl_shared_init(mem, parts, producers);
    env = env_make(4);
    plog = log_of(env, kl_bind(shared, topic_id, 0));
    last_level = 99;
    last_line[0] = '\0';
    lines_n = 0;
}


UNUSED static void
broker_end(uint32_t parts, uint32_t producers)
{
    kl_log_close(plog);
    kl_env_free(env);
    munmap(shared, kl_shared_size(parts, producers));
}


/* --- batches ------------------------------------------------------------- */

typedef struct {
    uint8_t     data[64 * 1024];
    size_t      len;
    kf_batch_t  b;
} batch_t;

static void
put_be(uint8_t *p, uint64_t v, int bytes)
{
    while (bytes--) {
        p[bytes] = (uint8_t) v;
        v >>= 8;
    }
}


/* The header fields that a producer sets, and the CRC again (through the
 * broker's own function, which is tested elsewhere). */
UNUSED static void
batch_producer(batch_t *x, int64_t pid, int16_t epoch, int32_t seq,
    int16_t attr)
{
    extern uint32_t  kf_crc32c(uint32_t crc, const void *data, size_t len)
        __attribute__((visibility("hidden")));

    put_be(x->data + 43, (uint64_t) pid, 8);
    put_be(x->data + 51, (uint16_t) epoch, 2);
    put_be(x->data + 53, (uint32_t) seq, 4);
    put_be(x->data + 21, (uint16_t) attr, 2);
    put_be(x->data + 17, kf_crc32c(0, x->data + 21, x->len - 21), 4);

    kf_batch_header(x->data, x->len, &x->b);
}


/* n records of size bytes each; the value begins with tag. */
UNUSED static void
batch_make(batch_t *x, int n, size_t size, uint32_t tag, int64_t ts_ms)
{
    int                 i;
    uint8_t             value[32 * 1024];
    kf_batch_builder_t  bb;

    memset(value, 'v', sizeof(value));
    put_be(value, tag, 4);

    kf_batch_begin(&bb, x->data, sizeof(x->data), ts_ms);

    for (i = 0; i < n; i++) {
        kf_batch_add(&bb, kf_null_str,
                     (kf_bytes_t) { value, (uint32_t) (size < 4 ? 4 : size) });
    }

    x->len = kf_batch_end(&bb);
    kf_batch_header(x->data, x->len, &x->b);
}


UNUSED static kl_rc_t
append(kl_log_t *log, batch_t *x, kl_append_t *res)
{
    return kl_append(log, x->data, &x->b, &config, 0, 1000000, res);
}


UNUSED static kl_rc_t
append_plain(kl_log_t *log, int n, size_t size, uint32_t tag, int64_t ts_ms)
{
    static batch_t  x;
    kl_append_t     res;

    batch_make(&x, n, size, tag, ts_ms);

    return append(log, &x, &res);
}


UNUSED static kl_offsets_t
offsets(kl_log_t *log)
{
    kl_offsets_t  o;

    kl_snapshot(kl_log_part(log), &o);

    return o;
}


/* --- files --------------------------------------------------------------- */

UNUSED static const char *
file_path(const char *name)
{
    static char  path[1024];

    snprintf(path, sizeof(path), "%s/" DIR_OF_TOPIC "/%s", data_dir, name);

    return path;
}


UNUSED static const char *
segment_name(int64_t base, const char *suffix)
{
    static char  name[64];

    snprintf(name, sizeof(name), "%020" PRId64 "%s", base, suffix);

    return name;
}


UNUSED static int64_t
file_size(const char *name)
{
    struct stat  st;

    return stat(file_path(name), &st) == 0 ? st.st_size : -1;
}


UNUSED static int
files_with(const char *part)
{
    DIR            *d = opendir(file_path(""));
    int             n = 0;
    struct dirent  *de;

    if (d == NULL) {
        return 0;
    }

    while ((de = readdir(d)) != NULL) {
        n += strstr(de->d_name, part) != NULL;
    }

    closedir(d);

    return n;
}


/* Reads the whole log through slices and checks offsets and CRCs; returns the
 * number of batches, or -1.  tags gets the tag of each batch. */
UNUSED static int
read_all(kl_log_t *log, uint32_t *tags, int max)
{
    int           n = 0;
    static uint8_t  buf[128 * 1024];
    size_t        len, at;
    int64_t       offset, next, expect;
    kf_batch_t    b;
    kl_offsets_t  o;

    o = offsets(log);
    offset = o.log_start;
    expect = -1;

    while (offset < o.log_end) {
        if (kl_read_batches(log, offset, o.log_end, buf, sizeof(buf), &len,
                            &next) != KL_OK || len == 0)
        {
            return -1;
        }

        for (at = 0; at < len; at += b.size) {
            if (kf_batch_header(buf + at, len - at, &b) != KF_OK
                || !kf_batch_crc_ok(buf + at, &b)
                || (expect >= 0 && b.base_offset != expect))
            {
                return -1;
            }

            expect = kf_batch_next_offset(&b);

            if (n < max) {
                /* length, attributes, two deltas, key length, value length */
                const uint8_t *p = buf + at + 61;
                kf_record_t    r;

                if (kf_record_next(&p, buf + at + b.size, &r) != KF_OK) {
                    return -1;
                }

                tags[n] = (uint32_t) r.value.data[0] << 24
                          | (uint32_t) r.value.data[1] << 16
                          | (uint32_t) r.value.data[2] << 8 | r.value.data[3];
            }

            n++;
        }

        if (next != expect) {
            return -1;
        }

        offset = next;
    }

    return n;
}

#endif
