/*
 * Makes what a disk could look like after a power cut, from a record that
 * powercut.so wrote.
 *
 *   rebuild init ROOT RECORD BASE [MIB]     a fresh record for ROOT as it is;
 *                                           BASE becomes a copy of it
 *   rebuild make RECORD BASE OUT MODE SEED  OUT becomes the directory after the
 *                                           cut; prints what was lost
 *   rebuild check RECORD BASE ROOT          does the record add up to ROOT?
 *   rebuild fail RECORD [GLOB]              from now on syncs of these fail
 *   rebuild broken RECORD                   syncs left out, syncs failed
 *
 * MODE: strict  nothing that was not synced is left
 *       random  a subset of it by SEED, torn
 *       keep    all of it, as after kill -9
 *
 * What is promised to survive: of a file, changes that ended before an fsync or
 * fdatasync of it began that came to its end; of a directory, its entries
 * likewise.  A sync of a file says nothing about its name.  Of what is not
 * promised, a directory keeps any prefix (directories are journaled in order),
 * a file all, nothing, a prefix cut at a byte, or each of its sectors or pages
 * as it was at a moment of its own; its size may have grown without its data:
 * then there are zeros.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "powercut.h"

#define SECTOR   512
#define PAGE     4096
#define BUCKETS  65536

typedef enum { STRICT, RANDOM, KEEP } pc_mode_t;

typedef struct object_s  object_t;

typedef struct {
    uint64_t     pos;                   /* in the record */
    pc_entry_t  *e;
    object_t    *child;                 /* directories */
    const char  *del;                   /* entry to remove, or NULL */
    const char  *add;                   /* entry to add, or NULL */
} change_t;

struct object_s {
    uint64_t     ino;
    uint32_t     id;                    /* order of appearance */
    bool         dir;
    char        *base;                  /* where its first content is */
    uint64_t     synced;                /* changes before it are promised */
    change_t    *changes;
    size_t       n, cap;
    object_t    *next;                  /* in its bucket, older */
};

typedef struct {
    char        *name;
    object_t    *object;
} dirent_t;

static object_t   **objects;
static size_t       objects_n, objects_cap;
static object_t    *buckets[BUCKETS];
static uint64_t     seed;
static pc_mode_t    mode;
static uint64_t     unsynced_bytes, saved_bytes, lost_names, kept_bytes, torn,
                    maybe;


__attribute__((noreturn, format(printf, 1, 2)))
static void
die(const char *fmt, ...)
{
    va_list  args;

    fprintf(stderr, "rebuild: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(2);
}


static void *
grow(void *p, size_t size)
{
    p = realloc(p, size ? size : 1);
    if (p == NULL) {
        die("no memory");
    }

    return p;
}


static char *
text(const char *s, size_t n)
{
    char  *p = grow(NULL, n + 1);

    memcpy(p, s, n);
    p[n] = '\0';

    return p;
}


static char *
join(const char *dir, const char *name)
{
    char  *p;

    if (asprintf(&p, "%s/%s", dir, name) == -1) {
        die("no memory");
    }

    return p;
}


/* --- chance -------------------------------------------------------------- */

static uint64_t
chance(uint64_t *state)
{
    uint64_t  x;

    x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;

    return x ^ (x >> 31);
}


static uint64_t
below(uint64_t *state, uint64_t n)
{
    return n ? chance(state) % n : 0;
}


/* --- reading the record -------------------------------------------------- */

static object_t *
object_of(uint64_t ino)
{
    object_t  *o;

    /* the newest object that had this number */
    for (o = buckets[ino % BUCKETS]; o && o->ino != ino; o = o->next) { }

    return o;
}


static object_t *
object_new(uint64_t ino, bool dir)
{
    object_t  *o;

    o = grow(NULL, sizeof(object_t));
    memset(o, 0, sizeof(object_t));
    o->ino = ino;
    o->dir = dir;
    o->id = (uint32_t) objects_n;
    o->next = buckets[ino % BUCKETS];
    buckets[ino % BUCKETS] = o;

    if (objects_n == objects_cap) {
        objects_cap = objects_cap ? objects_cap * 2 : 256;
        objects = grow(objects, objects_cap * sizeof(object_t *));
    }

    objects[objects_n++] = o;

    return o;
}


static change_t *
change_new(object_t *o, uint64_t pos, pc_entry_t *e)
{
    change_t  *c;

    if (o->n == o->cap) {
        o->cap = o->cap ? o->cap * 2 : 16;
        o->changes = grow(o->changes, o->cap * sizeof(change_t));
    }

    c = &o->changes[o->n++];
    memset(c, 0, sizeof(change_t));
    c->pos = pos;
    c->e = e;

    return c;
}


static object_t *
need(uint64_t ino, bool dir, uint64_t pos)
{
    object_t  *o = object_of(ino);

    if (o == NULL || o->dir != dir) {
        die("entry at %llu names inode %llu, which was never made",
            (unsigned long long) pos, (unsigned long long) ino);
    }

    return o;
}


static void
read_entry(pc_header_t *h, uint64_t pos, pc_entry_t *e, const char *base)
{
    char        *name, *name2;
    size_t       i;
    change_t    *c;
    object_t    *o, *parent;
    pc_entry_t  *begin;

    name = text((char *) (e + 1), e->name_len);
    name2 = text((char *) (e + 1) + e->name_len, e->name2_len);

    if (e->flags & PC_MAYBE) {
        maybe++;

        /* what a file's number would have been is not known */
        if (e->ino == 0) {
            return;
        }
    }

    switch (e->type) {

    case PC_BASE_DIR:
    case PC_BASE_FILE:
        o = object_new(e->ino, e->type == PC_BASE_DIR);

        if (e->parent == 0) {
            o->base = text(base, strlen(base));
            break;
        }

        parent = need(e->parent, true, pos);
        o->base = join(parent->base, name);
        c = change_new(parent, pos, e);
        c->add = name;
        c->child = o;
        break;

    case PC_CREATE:
    case PC_MKDIR:
        parent = need(e->parent, true, pos);
        o = object_new(e->ino, e->type == PC_MKDIR);
        c = change_new(parent, pos, e);
        c->add = name;
        c->child = o;
        break;

    case PC_LINK:
        parent = need(e->parent, true, pos);
        c = change_new(parent, pos, e);
        c->add = name;
        c->child = need(e->ino, false, pos);
        break;

    case PC_UNLINK:
        parent = need(e->parent, true, pos);
        c = change_new(parent, pos, e);
        c->del = name;
        break;

    case PC_RENAME:
        o = object_of(e->ino);
        if (o == NULL) {
            die("a rename of something never made");
        }

        c = change_new(need(e->parent2, true, pos), pos, e);
        c->add = name2;
        c->child = o;

        if (e->parent == e->parent2) {
            c->del = name;

        } else {
            c = change_new(need(e->parent, true, pos), pos, e);
            c->del = name;
        }

        break;

    case PC_WRITE:
    case PC_TRUNCATE:
        change_new(need(e->ino, false, pos), pos, e);
        break;

    case PC_SYNC_BEGIN:
        break;

    case PC_SYNC_END:
        begin = (pc_entry_t *) ((char *) h + e->offset);

        for (i = 0; i < objects_n; i++) {
            o = objects[i];

            if (begin->ino == 0 && o->synced < e->offset) {
                o->synced = e->offset;
            }
        }

        if (begin->ino == 0) {
            break;
        }

        /* gone files may be synced through an open descriptor: no matter */
        o = object_of(begin->ino);
        if (o && o->synced < e->offset) {
            o->synced = e->offset;
        }

        break;

    default:
        die("unknown entry %u at %llu", e->type, (unsigned long long) pos);
    }
}


static pc_header_t *
map_record(const char *path)
{
    int           fd;
    struct stat   st;
    pc_header_t  *h;

    fd = open(path, O_RDWR|O_CLOEXEC);
    if (fd == -1 || fstat(fd, &st) == -1) {
        die("%s: %s", path, strerror(errno));
    }

    h = mmap(NULL, (size_t) st.st_size, PROT_READ|PROT_WRITE, MAP_SHARED, fd,
             0);

    if (h == MAP_FAILED || h->magic != PC_MAGIC) {
        die("%s is no record", path);
    }

    close(fd);

    return h;
}


static void
read_record(const char *path, const char *base)
{
    uint64_t      pos;
    pc_entry_t   *e;
    pc_header_t  *h;

    h = map_record(path);

    if (h->full) {
        die("the record overflowed");
    }

    for (pos = PC_START; pos < h->tail; pos += e->len) {
        e = (pc_entry_t *) ((char *) h + pos);
        read_entry(h, pos, e, base);
    }

    if (h->pending) {
        e = (pc_entry_t *) ((char *) h + pos);
        e->flags |= PC_MAYBE;
        read_entry(h, pos, e, base);
    }
}


/* --- files --------------------------------------------------------------- */

typedef struct {
    uint8_t  *data;
    size_t    size, cap;
} image_t;


static void
image_size(image_t *im, size_t size)
{
    if (size > im->cap) {
        im->cap = size + size / 2;
        im->data = grow(im->data, im->cap);
    }

    if (size > im->size) {
        memset(im->data + im->size, 0, size - im->size);
    }

    im->size = size;
}


static void
image_put(image_t *im, const pc_entry_t *e, size_t from, size_t to)
{
    if (from >= to) {
        return;
    }

    if (im->size < e->offset + to) {
        image_size(im, e->offset + to);
    }

    memcpy(im->data + e->offset + from, (const char *) (e + 1) + from,
           to - from);
    kept_bytes += to - from;
}


static void
image_load(image_t *im, const char *path)
{
    int          fd;
    size_t       done;
    ssize_t      n;
    struct stat  st;

    fd = open(path, O_RDONLY|O_CLOEXEC);
    if (fd == -1 || fstat(fd, &st) == -1) {
        die("%s: %s", path, strerror(errno));
    }

    image_size(im, (size_t) st.st_size);

    for (done = 0; done < im->size; done += (size_t) n) {
        n = read(fd, im->data + done, im->size - done);
        if (n <= 0) {
            die("%s: short", path);
        }
    }

    close(fd);
}


static void
image_apply(image_t *im, const change_t *c)
{
    if (c->e->type == PC_WRITE) {
        image_put(im, c->e, 0, c->e->size);

    } else {
        image_size(im, c->e->size);
    }
}


/* The last write that got through at all, cut at a byte. */
static void
image_cut(image_t *im, const pc_entry_t *e, uint64_t *rnd)
{
    size_t  cut = below(rnd, e->size + 1);

    torn += cut < e->size;
    image_put(im, e, 0, cut);
}


/*
 * Each unit of the file as it was at some moment of its own, and the size at
 * another: that is what is left when pages are written back in any order.  A
 * unit is a sector, or a page.
 */
static void
image_units(image_t *im, object_t *o, size_t first, uint64_t *rnd)
{
    size_t             i, size, unit, at, from, to, last, reach;
    uint64_t           moment;
    const pc_entry_t  *e;

    unit = below(rnd, 2) ? SECTOR : PAGE;

    /* the size, and how far anything reaches */
    last = below(rnd, o->n - first + 1);
    size = im->size;
    reach = im->size;

    for (i = first; i < o->n; i++) {
        e = o->changes[i].e;
        to = e->type == PC_WRITE ? e->offset + e->size : e->size;

        if (i - first < last && (e->type == PC_TRUNCATE || to > size)) {
            size = to;
        }

        reach = to > reach ? to : reach;
    }

    image_size(im, reach);

    for (at = 0; at < reach; at += unit) {
        moment = below(rnd, o->n - first + 1);

        /* often the first or the last */
        if (below(rnd, 2)) {
            moment = below(rnd, 3) ? o->n - first : 0;
        }

        for (i = first; i < o->n && i - first < moment; i++) {
            e = o->changes[i].e;

            from = e->offset > at ? e->offset : at;
            to = at + unit;

            if (e->type == PC_TRUNCATE) {
                from = e->size > at ? e->size : at;

                if (from < to && from < reach) {
                    memset(im->data + from, 0,
                           (to < reach ? to : reach) - from);
                }

            } else {
                to = e->offset + e->size < to ? e->offset + e->size : to;

                if (from < to) {
                    image_put(im, e, from - e->offset, to - e->offset);
                }
            }
        }

        torn += moment > 0 && moment < o->n - first;
    }

    image_size(im, size);
}


static void
image_unsynced(image_t *im, object_t *o, size_t first, uint64_t *rnd)
{
    size_t             i, keep, reach;
    const pc_entry_t  *e;
    unsigned           how;

    how = (unsigned) below(rnd, 4);

    if (how == 0) {                         /* all is kept */
        for (i = first; i < o->n; i++) {
            image_apply(im, &o->changes[i]);
        }

        return;
    }

    if (how == 1) {
        image_units(im, o, first, rnd);
        return;
    }

    /* a prefix, perhaps nothing; its last write cut */
    keep = how == 2 ? below(rnd, o->n - first + 1) : 0;
    reach = im->size;

    for (i = first; i < o->n; i++) {
        e = o->changes[i].e;

        if (e->type == PC_WRITE && reach < e->offset + e->size) {
            reach = e->offset + e->size;
        }

        if (i - first < keep) {
            image_apply(im, &o->changes[i]);

        } else if (how == 2 && i - first == keep && e->type == PC_WRITE) {
            image_cut(im, e, rnd);
        }
    }

    /* the size got to the disk, the data did not */
    if (reach > im->size && below(rnd, 3) == 0) {
        image_size(im, im->size + below(rnd, reach - im->size + 1));
    }
}


static void
image_make(image_t *im, object_t *o)
{
    size_t    i, k;
    uint64_t  rnd;

    im->size = 0;

    if (o->base) {
        image_load(im, o->base);
    }

    for (i = 0; i < o->n; i++) {
        if (mode != KEEP && o->changes[i].pos >= o->synced) {
            break;
        }

        image_apply(im, &o->changes[i]);
    }

    for (k = i; k < o->n; k++) {
        if (o->changes[k].e->type == PC_WRITE) {
            unsynced_bytes += o->changes[k].e->size;
        }
    }

    if (mode == RANDOM && i < o->n) {
        rnd = seed ^ (0x51ed2701ull * (o->id + 1));
        kept_bytes = 0;
        image_unsynced(im, o, i, &rnd);
        saved_bytes += kept_bytes;
    }
}


/* --- directories --------------------------------------------------------- */

/* The entries that a directory has after the cut; *n of them. */
static dirent_t *
entries(object_t *o, size_t *n)
{
    size_t     i, j, count, promised, left;
    dirent_t  *d;
    uint64_t   rnd;
    change_t  *c;

    for (promised = 0; promised < o->n; promised++) {
        c = &o->changes[promised];

        if (mode != KEEP && c->e->type != PC_BASE_DIR
            && c->e->type != PC_BASE_FILE && c->pos >= o->synced)
        {
            break;
        }
    }

    left = o->n - promised;

    if (mode == RANDOM && left) {
        rnd = seed ^ (0x2545f491ull * (o->id + 1));

        switch (below(&rnd, 3)) {
        case 0:
            break;
        case 1:
            promised = o->n;
            break;
        default:
            promised += below(&rnd, left + 1);
        }
    }

    lost_names += o->n - promised;
    d = grow(NULL, (promised + 1) * sizeof(dirent_t));
    count = 0;

    for (i = 0; i < promised; i++) {
        c = &o->changes[i];

        for (j = 0; j < count; /* void */ ) {
            if ((c->del && strcmp(d[j].name, c->del) == 0)
                || (c->add && strcmp(d[j].name, c->add) == 0))
            {
                d[j] = d[--count];

            } else {
                j++;
            }
        }

        if (c->add) {
            d[count].name = (char *) c->add;
            d[count++].object = c->child;
        }
    }

    *n = count;

    return d;
}


static void
write_file(const char *path, const image_t *im)
{
    int      fd;
    size_t   done;
    ssize_t  n;

    fd = open(path, O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0600);
    if (fd == -1) {
        die("%s: %s", path, strerror(errno));
    }

    for (done = 0; done < im->size; done += (size_t) n) {
        n = write(fd, im->data + done, im->size - done);
        if (n <= 0) {
            die("%s: %s", path, strerror(errno));
        }
    }

    close(fd);
}


static void
make_dir(object_t *o, const char *out, int depth)
{
    char      *path;
    size_t     i, n;
    image_t    im = { NULL, 0, 0 };
    dirent_t  *d;

    if (depth > 64 || (mkdir(out, 0700) == -1 && errno != EEXIST)) {
        die("%s: %s", out, strerror(errno));
    }

    d = entries(o, &n);

    for (i = 0; i < n; i++) {
        path = join(out, d[i].name);

        if (d[i].object->dir) {
            make_dir(d[i].object, path, depth + 1);

        } else {
            image_make(&im, d[i].object);
            write_file(path, &im);
        }

        free(path);
    }

    free(im.data);
    free(d);
}


/* --- check --------------------------------------------------------------- */

static int  differences;


__attribute__((format(printf, 1, 2)))
static void
differs(const char *fmt, ...)
{
    va_list  args;

    if (differences++ < 20) {
        va_start(args, fmt);
        vprintf(fmt, args);
        va_end(args);
        printf("\n");
    }
}


static void
check_file(object_t *o, const char *path)
{
    size_t   i;
    image_t  want = { NULL, 0, 0 }, got = { NULL, 0, 0 };

    image_make(&want, o);
    image_load(&got, path);

    for (i = 0; i < want.size && i < got.size && want.data[i] == got.data[i];
         i++)
    { }

    if (want.size != got.size || i < want.size) {
        differs("%s: %zu bytes, recorded %zu, first difference at %zu", path,
                got.size, want.size, i);
    }

    free(want.data);
    free(got.data);
}


static void
check_dir(object_t *o, const char *path)
{
    DIR            *dir;
    char           *p;
    size_t          i, n;
    dirent_t       *d;
    struct stat     st;
    struct dirent  *de;

    d = entries(o, &n);

    for (i = 0; i < n; i++) {
        p = join(path, d[i].name);

        if (stat(p, &st) == -1) {
            differs("%s: recorded, not there", p);

        } else if (S_ISDIR(st.st_mode) != d[i].object->dir) {
            differs("%s: a directory or not", p);

        } else if (d[i].object->dir) {
            check_dir(d[i].object, p);

        } else {
            check_file(d[i].object, p);
        }

        free(p);
    }

    dir = opendir(path);
    if (dir == NULL) {
        die("%s: %s", path, strerror(errno));
    }

    while ((de = readdir(dir)) != NULL) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        for (i = 0; i < n && strcmp(d[i].name, de->d_name) != 0; i++) { }

        if (i == n) {
            differs("%s/%s: there, not recorded", path, de->d_name);
        }
    }

    closedir(dir);
    free(d);
}


/* --- init ---------------------------------------------------------------- */

static pc_header_t  *fresh;


static void
init_entry(pc_type_t type, uint64_t parent, uint64_t ino, const char *name)
{
    pc_entry_t  *e;

    e = (pc_entry_t *) ((char *) fresh + fresh->tail);
    memset(e, 0, sizeof(pc_entry_t));
    e->type = (uint16_t) type;
    e->parent = parent;
    e->ino = ino;
    e->name_len = (uint16_t) strlen(name);
    e->len = (uint32_t) pc_align(sizeof(pc_entry_t) + e->name_len);

    if (e->len > fresh->size - fresh->tail) {
        die("the record is too small");
    }

    memcpy(e + 1, name, e->name_len);
    fresh->tail += e->len;
}


static void
init_dir(const char *path, const char *copy, uint64_t parent, const char *name)
{
    DIR            *dir;
    char           *p, *q;
    image_t         im = { NULL, 0, 0 };
    struct stat     st, sub;
    struct dirent  *de;

    if (stat(path, &st) == -1 || mkdir(copy, 0700) == -1) {
        die("%s, %s: %s", path, copy, strerror(errno));
    }

    init_entry(PC_BASE_DIR, parent, st.st_ino, name);

    dir = opendir(path);
    if (dir == NULL) {
        die("%s: %s", path, strerror(errno));
    }

    while ((de = readdir(dir)) != NULL) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        p = join(path, de->d_name);
        q = join(copy, de->d_name);

        if (lstat(p, &sub) == -1) {
            die("%s: %s", p, strerror(errno));
        }

        if (S_ISDIR(sub.st_mode)) {
            init_dir(p, q, st.st_ino, de->d_name);

        } else if (S_ISREG(sub.st_mode)) {
            init_entry(PC_BASE_FILE, st.st_ino, sub.st_ino, de->d_name);
            im.size = 0;
            image_load(&im, p);
            write_file(q, &im);
        }

        free(p);
        free(q);
    }

    closedir(dir);
    free(im.data);
}


static void
init(const char *root, const char *record, const char *base, size_t mib)
{
    int                  fd;
    size_t               size;
    pthread_mutexattr_t  attr;

    size = mib << 20;
    unlink(record);
    fd = open(record, O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600);

    /* holes: only what is written takes memory */
    if (fd == -1 || ftruncate(fd, (off_t) size) == -1) {
        die("%s: %s", record, strerror(errno));
    }

    fresh = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0);
    if (fresh == MAP_FAILED) {
        die("%s: %s", record, strerror(errno));
    }

    close(fd);

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&fresh->lock, &attr);

    fresh->size = size;
    fresh->tail = PC_START;

    init_dir(root, base, 0, "");

    fresh->magic = PC_MAGIC;
}


/* --- main ---------------------------------------------------------------- */

static pc_mode_t
mode_of(const char *s)
{
    if (strcmp(s, "strict") == 0) {
        return STRICT;
    }

    if (strcmp(s, "random") == 0) {
        return RANDOM;
    }

    if (strcmp(s, "keep") == 0) {
        return KEEP;
    }

    die("no such mode: %s", s);
}


int
main(int argc, char **argv)
{
    pc_header_t  *h;

    if (argc >= 5 && strcmp(argv[1], "init") == 0) {
        init(argv[2], argv[3], argv[4],
             argc > 5 ? strtoul(argv[5], NULL, 10) : 4096);
        return 0;
    }

    if (argc == 7 && strcmp(argv[1], "make") == 0) {
        mode = mode_of(argv[5]);
        seed = strtoull(argv[6], NULL, 10) * 0x9e3779b97f4a7c15ull;
        read_record(argv[2], argv[3]);
        make_dir(objects[0], argv[4], 0);
        printf("lost_bytes=%llu lost_names=%llu torn=%llu objects=%zu\n",
               (unsigned long long) (unsynced_bytes > saved_bytes
                                     ? unsynced_bytes - saved_bytes : 0),
               (unsigned long long) lost_names,
               (unsigned long long) torn, objects_n);
        return 0;
    }

    if (argc == 5 && strcmp(argv[1], "check") == 0) {
        mode = KEEP;
        read_record(argv[2], argv[3]);
        check_dir(objects[0], argv[4]);
        printf("differences=%d maybe=%llu\n", differences,
               (unsigned long long) maybe);

        /* a call that was killed half way may account for one or two */
        return differences > (int) (maybe + 1);
    }

    if (argc >= 3 && strcmp(argv[1], "fail") == 0) {
        h = map_record(argv[2]);
        snprintf(h->fail, sizeof(h->fail), "%s", argc > 3 ? argv[3] : "");
        return 0;
    }

    if (argc == 3 && strcmp(argv[1], "broken") == 0) {
        h = map_record(argv[2]);
        printf("broken=%llu failed=%llu\n", (unsigned long long) h->broken,
               (unsigned long long) h->failed);
        return 0;
    }

    fprintf(stderr, "usage: rebuild init|make|check|fail|broken …\n");

    return 2;
}
