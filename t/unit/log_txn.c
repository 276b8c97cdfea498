/*
 * Transactions of a partition: verification, markers, the transaction index,
 * against a naive model with many producers; across restarts, also with files
 * cut at every byte.
 */

#include "log_txn_lib.h"

#define PARTS  4
#define PRODS  64

#define UNVERIFIED  1000                /* added to the error */
#define DUP         INT16_MIN

static batch_t      x;
static kl_append_t  res;
static kl_marked_t  marked;


/* Appends n records in a transaction; the error, 0 or DUP. */
static int
put(int64_t pid, int16_t epoch, int32_t seq, int n, uint32_t tag)
{
    kl_rc_t  rc;

    batch_make(&x, n, 20, tag, 1000);
    batch_producer(&x, pid, epoch, seq, KF_ATTR_TRANSACTIONAL);

    rc = append(plog, &x, &res);

    if (rc == KL_REFUSED) {
        return res.error + (res.unverified ? UNVERIFIED : 0);
    }

    return rc != KL_OK ? -1000 - (int) rc : res.duplicate ? DUP : 0;
}


static kl_rc_t
verify(int64_t pid, int16_t epoch, bool from_zero)
{
    return kl_txn_verify(plog, pid, epoch, from_zero, 0, 1000000);
}


static kl_rc_t
restart(void)
{
    bool  truncated;

    broker_end(PARTS, PRODS);
    broker_start(PARTS, PRODS);

    return kl_recover(plog, 0, &config, &truncated);
}


static void
begin(void)
{
    data_make();
    broker_start(PARTS, PRODS);
    config.verify = true;
    config.segment_bytes = 1 << 30;
    config.retention_bytes = -1;
    append_plain(plog, 1, 10, 0, 1);
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


static void
test_verify(void)
{
    int64_t       flushed;
    batch_t       y;
    kl_log_t     *other;
    kl_offsets_t  o;

    begin();

    is(put(1, 0, 0, 1, 0), UNVERIFIED + 48, "not verified");
    is(offsets(plog).log_end, 1, "nothing was written");

    batch_make(&y, 1, 20, 0, 1);
    batch_producer(&y, 9, 0, 5, 0);
    is(append(plog, &y, &res), KL_OK, "an idempotent batch needs nothing");

    is(verify(1, 0, true), KL_OK, "verified");
    is(put(1, 1, 0, 1, 0), UNVERIFIED + 47, "an epoch above the verified one");
    is(put(1, 0, 1, 1, 0), 45, "the first sequence must be 0");
    is(put(1, 0, 0, 1, 0), 0, "then it is taken");
    is(offsets(plog).first_open_txn, 2, "the transaction is open");
    is(put(1, 0, 0, 1, 0), DUP, "a duplicate");
    is(put(1, 0, 1, 2, 0), 0, "goes on");
    is(put(1, 1, 0, 1, 0), UNVERIFIED + 47, "not with a higher epoch");

    batch_make(&y, 1, 20, 0, 1);
    batch_producer(&y, 1, 0, 3, 0);
    is(append(plog, &y, &res), KL_REFUSED, "a batch outside the transaction");
    is(res.error, 48, "is INVALID_TXN_STATE");
    ok(!res.unverified, "and that is final");

    is(verify(2, 4, false), KL_OK, "version 1: verified");
    is(put(2, 3, 0, 1, 0), 47, "an epoch below the verified one");
    is(put(2, 4, 77, 1, 0), 0, "starts at any sequence");
    is(verify(2, 3, false), KL_REFUSED, "an earlier epoch is not verified");

    /* version 2: the marker has the next epoch */
    is(marker(plog, 1, 1, true, &marked), KL_OK, "commit");
    ok(marked.written, "the marker is written");
    is(marked.offset, 6, "at the end");
    is(offsets(plog).first_open_txn, 5, "the other transaction is open");
    is(put(1, 0, 3, 1, 0), 47, "a late batch of the old epoch");
    is(put(1, 0, 1, 2, 0), 47, "even a duplicate");
    is(put(1, 1, 0, 1, 0), UNVERIFIED + 48, "the new one needs verification");
    is(verify(1, 1, true), KL_OK, "is verified");
    is(put(1, 1, 3, 1, 0), 45, "the sequence does not go on");
    is(put(1, 1, 0, 1, 0), 0, "it begins at 0");

    /* version 1: it has the same */
    is(marker(plog, 2, 4, false, &marked), KL_OK, "abort");
    is(put(2, 4, 78, 1, 0), UNVERIFIED + 48, "needs verification again");
    is(put(2, 4, 77, 1, 0), DUP, "a late duplicate is one");
    is(verify(2, 4, false), KL_OK, "verified");
    is(put(2, 4, 78, 1, 0), 0, "and the sequence goes on");

    is(restart(), KL_OK, "restart");
    is(put(2, 4, 79, 1, 0), 0, "an open transaction goes on unverified");
    is(put(2, 5, 0, 1, 0), UNVERIFIED + 48, "but not with a higher epoch");
    is(verify(3, 0, true), KL_OK, "a mark without a batch");
    is(restart(), KL_OK, "restart");
    is(put(3, 0, 0, 1, 0), UNVERIFIED + 48, "does not survive");

    is(verify(4, 7, true), KL_OK, "a mark without a batch");
    is(marker(plog, 4, 8, true, &marked), KL_OK, "and its commit");
    ok(marked.written, "is written");
    is(put(4, 7, 0, 1, 0), 47, "the late batch is fenced");
    is(offsets(plog).aborted_last, 8, "only the abort is in the index");

    kl_snapshot(kl_part(shared, kl_bind(shared, topic_id, 1)), &o);
    other = kl_log_open(env, 1, o.incarnation, topic_id, kf_str(TOPIC), 1);
    is(kl_txn_verify(other, 1, 0, true, 0, 1), KL_FAILED,
       "a partition that is not open is not opened");
    is(kl_flush(other, &flushed), KL_OK, "it is opened");
    is(kl_txn_verify(other, 1, 0, true, 0, 1), KL_OK, "then it is verified");
    kl_log_close(other);

    kl_release(shared, 0);
    is(verify(1, 1, true), KL_GONE, "not in a released one");

    end();
}


static void
test_markers(void)
{
    size_t               n;
    int64_t              log_end;
    kl_marker_t          m;
    kl_producer_info_t  *list;

    begin();

    is(marker(plog, 1, 0, true, &marked), KL_OK, "nothing is open");
    ok(!marked.written, "nothing is written");
    is(marked.next_offset, 1, "what is there is to be flushed");

    verify(1, 5, true);
    put(1, 5, 0, 2, 0);
    is(marker(plog, 1, 4, false, &marked), KL_OK, "a marker that is too old");
    ok(!marked.written, "does nothing");
    is(marker(plog, 1, 6, false, &marked), KL_OK, "the right one");
    ok(marked.written, "is written");
    log_end = offsets(plog).log_end;
    is(marked.next_offset, log_end, "it is to be flushed");
    is(marker(plog, 1, 6, false, &marked), KL_OK, "again");
    ok(!marked.written && offsets(plog).log_end == log_end, "only once");
    is(marked.next_offset, log_end, "and waits for the same");
    is(marker(plog, 1, 7, true, &marked), KL_OK, "another outcome");
    ok(!marked.written, "neither");

    is(restart(), KL_OK, "restart");
    is(marker(plog, 1, 6, false, &marked), KL_OK, "again");
    ok(!marked.written, "only once");

    m = (kl_marker_t) { .producer_id = 1, .producer_epoch = 6,
                        .coordinator_epoch = 2, .forced = true };
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_REFUSED,
       "forced, of an earlier coordinator");
    is(marked.error, 52, "is TRANSACTION_COORDINATOR_FENCED");
    m.coordinator_epoch = 3;
    m.producer_epoch = 5;
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_REFUSED,
       "forced, of an earlier producer");
    is(marked.error, 47, "is INVALID_PRODUCER_EPOCH");
    m.producer_epoch = 6;
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK, "forced");
    ok(marked.written, "is written though nothing is open");
    m.producer_id = 50;
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK,
       "also for an unknown producer");
    ok(marked.written, "is written");
    is(files_with(".txnindex"), 1, "one index file");
    is(file_size(segment_name(0, ".txnindex")), 34, "with one entry");

    verify(7, 0, true);
    verify(8, 0, true);
    put(8, 0, 0, 3, 0);
    put(7, 0, 0, 1, 0);
    verify(9, 0, true);

    is(kl_producers(plog, true, &list, &n), KL_OK, "open ones");
    is(n, 2, "two");
    ok(list[0].producer_id == 8 && list[1].producer_id == 7, "by offset");
    is(list[0].txn_start, offsets(plog).first_open_txn, "with their start");
    is(list[0].last_sequence, 2, "their sequence");
    is(list[0].last_timestamp_ms, 1000, "their timestamp");
    is(list[0].coordinator_epoch, -1, "and no marker yet");
    free(list);

    is(kl_producers(plog, false, &list, &n), KL_OK, "all");
    is(n, 4, "without the one that is only marked");

    for (size_t i = 0; i < n; i++) {
        if (list[i].producer_id == 1) {
            is(list[i].producer_epoch, 6, "the epoch of the marker");
            is(list[i].coordinator_epoch, 3, "the coordinator's");
            is(list[i].last_sequence, -1, "no sequence");
            is(list[i].txn_start, -1, "nothing open");
        }
    }

    free(list);

    is(kl_checkpoint(plog, true), KL_OK, "clean stop");
    is(restart(), KL_OK, "restart");
    is(kl_producers(plog, true, &list, &n), KL_OK, "open ones");
    ok(n == 2 && list[0].producer_id == 8 && list[1].producer_id == 7,
       "are there, in their order");
    free(list);

    end();
}


/* --- the model ----------------------------------------------------------- */

#define EVENTS     6000
#define PRODUCERS  24

typedef struct {
    int64_t   first;                    /* of the batch */
    int64_t   last;
    int64_t   pid;
    uint32_t  tag;
    bool      txn;
    bool      control;
    int8_t    outcome;                  /* of a batch: 0 open, 1 commit, -1 */
} event_t;

typedef struct {
    int16_t  epoch;
    int32_t  seq;
    int64_t  first;                     /* of the open transaction, or -1 */
    bool     version2;
} model_producer_t;

/* An aborted transaction. */
typedef struct {
    int64_t  pid;
    int64_t  first;
    int64_t  last;
} model_abort_t;

static event_t           events[EVENTS];
static int               events_n;
static model_producer_t  producers[PRODUCERS];
static model_abort_t     aborts[EVENTS];
static int               aborts_n;
static unsigned          seed;


static int
pick(int n)
{
    return (int) (rand_r(&seed) % (unsigned) n);
}


static int
model_put(int i)
{
    int                n = 1 + pick(4), rc;
    model_producer_t  *p = &producers[i];

    rc = put(100 + i, p->epoch, p->seq, n, (uint32_t) events_n);

    if (rc == UNVERIFIED + 48) {
        if (verify(100 + i, p->epoch, p->version2) != KL_OK) {
            return 1;
        }
        rc = put(100 + i, p->epoch, p->seq, n, (uint32_t) events_n);
    }

    if (rc != 0) {
        return 1;
    }

    p->seq += n;

    if (p->first < 0) {
        p->first = res.base_offset;
    }

    events[events_n] = (event_t) { res.base_offset, res.base_offset + n - 1,
                                   100 + i, (uint32_t) events_n, true, false,
                                   0 };
    events_n++;

    return 0;
}


static int
model_end(int i, bool commit)
{
    int                k;
    model_producer_t  *p = &producers[i];

    if (p->version2) {
        p->epoch++;
        p->seq = 0;
    }

    if (marker(plog, 100 + i, p->epoch, commit, &marked) != KL_OK
        || marked.written != (p->first >= 0))
    {
        return 1;
    }

    if (p->first < 0) {
        return 0;
    }

    for (k = 0; k < events_n; k++) {
        if (events[k].pid == 100 + i && events[k].outcome == 0) {
            events[k].outcome = commit ? 1 : -1;
        }
    }

    events[events_n++] = (event_t) { marked.offset, marked.offset, 100 + i, 0,
                                     true, true, 1 };

    if (!commit) {
        aborts[aborts_n++] = (model_abort_t) { 100 + i, p->first,
                                               marked.offset };
    }

    p->first = -1;

    return 0;
}


static int
model_plain(void)
{
    batch_make(&x, 2, 20, (uint32_t) events_n, 1000);

    if (append(plog, &x, &res) != KL_OK) {
        return 1;
    }

    events[events_n] = (event_t) { res.base_offset, res.base_offset + 1, -1,
                                   (uint32_t) events_n, false, false, 1 };
    events_n++;

    return 0;
}


static int64_t
model_stable(void)
{
    int      i;
    int64_t  first = INT64_MAX;

    for (i = 0; i < PRODUCERS; i++) {
        if (producers[i].first >= 0 && producers[i].first < first) {
            first = producers[i].first;
        }
    }

    return first;
}


static int
aborted_cmp(const void *a, const void *b)
{
    const kl_aborted_t  *p = a, *q = b;

    return p->first_offset < q->first_offset ? -1
           : p->first_offset > q->first_offset;
}


/* The list of aborted transactions of a random range. */
static int
model_check_aborted(void)
{
    int            i, n = 0;
    size_t         got;
    int64_t        from, upto;
    kl_offsets_t   o = offsets(plog);
    kl_aborted_t   expect[EVENTS];

    from = o.log_start + pick((int) (o.log_end - o.log_start) + 1);
    upto = from + pick((int) (o.log_end - from) + 1);

    for (i = 0; i < aborts_n; i++) {
        if (aborts[i].last >= from && aborts[i].first < upto) {
            expect[n++] = (kl_aborted_t) { aborts[i].pid, aborts[i].first };
        }
    }

    qsort(expect, (size_t) n, sizeof(kl_aborted_t), aborted_cmp);

    if (kl_aborted(plog, from, upto, aborted, TXN_LIST_MAX, &got) != KL_OK
        || got != (size_t) n)
    {
        diag("[%" PRId64 ", %" PRId64 "): %zu entries, not %d", from, upto,
             got, n);
        return 1;
    }

    return n > 0 && memcmp(aborted, expect, got * sizeof(kl_aborted_t)) != 0;
}


/* What a consumer sees from a random offset on. */
static int
model_check_view(void)
{
    int              i, n = 0, got;
    int64_t          from, stable;
    kl_offsets_t     o = offsets(plog);
    static uint32_t  seen[EVENTS], expect[EVENTS];

    stable = o.first_open_txn < o.log_end ? o.first_open_txn : o.log_end;
    from = o.log_start + pick((int) (stable - o.log_start) + 1);

    for (i = 0; i < events_n; i++) {
        if (events[i].last >= from && events[i].first < stable
            && !events[i].control && events[i].outcome == 1)
        {
            expect[n++] = events[i].tag;
        }
    }

    got = read_committed(plog, from, stable, 600 + (size_t) pick(5000), seen,
                         EVENTS);

    if (got != n) {
        diag("from %" PRId64 " to %" PRId64 ": %d batches, not %d", from,
             stable, got, n);
        return 1;
    }

    return n > 0 && memcmp(seen, expect, (size_t) n * sizeof(uint32_t)) != 0;
}


static void
test_model(unsigned with_seed, int ops, bool deletes)
{
    int       i, bad = 0, wrong_stable = 0, wrong_list = 0, wrong_view = 0;
    int       restarts = 0;
    int64_t   stable, start;
    uint32_t  removed;

    seed = with_seed;
    events_n = 0;
    aborts_n = 0;

    begin();
    config.segment_bytes = 4000;
    config.index_interval_bytes = 300;
    events[events_n++] = (event_t) { 0, 0, -1, 0, false, false, 1 };

    for (i = 0; i < PRODUCERS; i++) {
        producers[i] = (model_producer_t) { 0, 0, -1, i % 2 == 0 };
    }

    while (ops-- > 0 && events_n < EVENTS) {

        switch (pick(40)) {

        case 0:
            bad += kl_checkpoint(plog, pick(2)) != KL_OK;
            break;

        case 1:
            if (pick(4) == 0) {
                bad += restart() != KL_OK;
                restarts++;
            }
            break;

        case 2:
            bad += model_plain();
            break;

        case 3:
            if (deletes && pick(5) == 0) {
                config.retention_bytes = 20000;
                bad += kl_retain(plog, &config, 1000000, INT64_MAX, &removed)
                       != KL_OK;
                config.retention_bytes = -1;

                stable = model_stable();

                if (offsets(plog).log_start > stable) {
                    bad++;
                }
            }
            break;

        case 4:
            if (deletes && pick(10) == 0) {
                start = offsets(plog).log_start;
                stable = model_stable();

                if (stable < INT64_MAX && stable > start) {
                    bad += kl_delete_records(plog, start + (stable - start) / 2,
                                             &start) != KL_OK;
                }
            }
            break;

        default:
            i = pick(PRODUCERS);

            if (pick(4) == 0) {
                bad += model_end(i, pick(2));
            } else {
                bad += model_put(i);
            }
        }

        wrong_stable += offsets(plog).first_open_txn != model_stable();
        wrong_list += model_check_aborted();

        if (ops % 10 == 0) {
            wrong_view += model_check_view();
        }
    }

    ok(bad == 0, "seed %u: all went through", with_seed);
    ok(restarts > 3, "%d restarts", restarts);
    ok(aborts_n > 50, "%d aborted transactions", aborts_n);
    ok(files_with(".txnindex") > 1, "in several segments");
    is(wrong_stable, 0, "the first open transaction is right");
    is(wrong_list, 0, "the aborted transactions are right");
    is(wrong_view, 0, "a consumer sees what was committed");
}


/* --- the index ----------------------------------------------------------- */

static uint8_t  *
slurp(const char *name, size_t *len)
{
    int       fd = open(file_path(name), O_RDONLY);
    uint8_t  *data = malloc(1 << 20);
    ssize_t   n = fd == -1 ? 0 : read(fd, data, 1 << 20);

    if (fd != -1) {
        close(fd);
    }

    *len = n > 0 ? (size_t) n : 0;

    return data;
}


typedef struct {
    int       n;
    char      name[64][64];
    uint8_t  *data[64];
    size_t    len[64];
} files_t;

static void
files_keep(files_t *f, const char *part)
{
    DIR            *d = opendir(file_path(""));
    struct dirent  *de;

    f->n = 0;

    while ((de = readdir(d)) != NULL) {
        if (strstr(de->d_name, part) && de->d_name[0] != '.'
            && f->n < 64)
        {
            snprintf(f->name[f->n], 64, "%.63s", de->d_name);
            f->data[f->n] = slurp(de->d_name, &f->len[f->n]);
            f->n++;
        }
    }

    closedir(d);
}


static int
files_differ(const files_t *f, const char *part)
{
    int       i, wrong = files_with(part) != f->n;
    size_t    len;
    uint8_t  *data;

    for (i = 0; i < f->n; i++) {
        data = slurp(f->name[i], &len);
        wrong += len != f->len[i] || memcmp(data, f->data[i], len) != 0;
        free(data);
    }

    return wrong;
}


static void
files_put(const files_t *f)
{
    int  i, fd;

    for (i = 0; i < f->n; i++) {
        fd = open(file_path(f->name[i]), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd == -1
            || write(fd, f->data[i], f->len[i]) != (ssize_t) f->len[i])
        {
            diag("writing %s failed", f->name[i]);
        }
        close(fd);
    }
}


static void
files_free(files_t *f)
{
    while (f->n > 0) {
        free(f->data[--f->n]);
    }
}


static void
remove_files(const char *part)
{
    DIR            *d = opendir(file_path(""));
    struct dirent  *de;
    char            dir[1024];

    snprintf(dir, sizeof(dir), "%s", file_path(""));

    while ((de = readdir(d)) != NULL) {
        if (strstr(de->d_name, part)) {
            unlink(file_path(de->d_name));
        }
    }

    closedir(d);
}


/* After test_model() without deletions: the files come out the same. */
static void
test_rebuild(void)
{
    int      i, k, fd;
    files_t  f;

    files_keep(&f, ".txnindex");
    ok(f.n > 2, "%d index files", f.n);

    is(restart(), KL_OK, "restart");
    is(files_differ(&f, ".txnindex"), 0, "they are the same");

    remove_files("checkpoint");
    remove_files(".snapshot");
    remove_files(".txnindex");
    is(restart(), KL_OK, "recovery of a bare log");
    is(files_differ(&f, ".txnindex"), 0, "makes the same files");
    is(model_check_view() + model_check_aborted(), 0, "the view is right");

    is(kl_checkpoint(plog, true), KL_OK, "a clean stop");
    is(restart(), KL_OK, "restart");
    is(files_differ(&f, ".txnindex"), 0, "they are the same");

    i = pick(f.n);

    for (k = 0; k < 3; k++) {
        is(kl_checkpoint(plog, k == 0), KL_OK, "a stop");
        fd = open(file_path(f.name[i]), O_RDWR);

        if (k == 0) {
            if (ftruncate(fd, (off_t) f.len[i] / 34 * 34 + 5) != 0) { /* */ }

        } else if (pwrite(fd, "\1\1\1", 3, (off_t) f.len[i] - 34) != 3) {
            diag("write failed");
        }

        close(fd);

        is(restart(), KL_OK, "recovery of a damaged index");
        is(files_differ(&f, ".txnindex"), 0, "makes the same files");
    }

    is(kl_checkpoint(plog, true), KL_OK, "a clean stop");
    snprintf(f.name[63], 64, "%s",
             segment_name(kl_active_base(plog), ".txnindex"));

    if (file_size(f.name[63]) > 0) {
        unlink(file_path(f.name[63]));
        is(restart(), KL_OK, "the active segment's index is gone");
        is(files_differ(&f, ".txnindex"), 0, "it is made anew");
    }

    files_free(&f);
}


/*
 * Every state of the files that a crash can leave while an abort is written:
 * some of its entry, then some of its marker.
 */
static void
test_cuts(void)
{
    int       i, k, wrong = 0, cuts = 0, failed = 0;
    int64_t   first, last;
    size_t    got, log_before, index_before;
    files_t   before, after, now;

    begin();

    for (i = 0; i < 4; i++) {
        verify(i, 0, true);
        put(i, 0, 0, 2, (uint32_t) i);
    }

    marker(plog, 0, 1, false, &marked);
    is(kl_checkpoint(plog, false), KL_OK, "checkpoint");
    verify(5, 0, true);
    put(5, 0, 0, 1, 5);

    log_before = (size_t) file_size(segment_name(0, ".log"));
    index_before = (size_t) file_size(segment_name(0, ".txnindex"));
    files_keep(&before, "");

    marker(plog, 1, 1, false, &marked);
    is(offsets(plog).first_open_txn, 5, "the next is open");
    files_keep(&after, "");

    for (k = 0; k <= 34 + KF_CONTROL_BATCH; k++) {

        for (i = 0; i < 2; i++) {
            /* in that order, or the other way about after a power cut */
            int  entry = i == 0 ? (k < 34 ? k : 34)
                                : (k > KF_CONTROL_BATCH
                                   ? k - KF_CONTROL_BATCH : 0);
            int  bytes = i == 0 ? (k < 34 ? 0 : k - 34)
                                : (k < KF_CONTROL_BATCH
                                   ? k : KF_CONTROL_BATCH);

            broker_end(PARTS, PRODS);
            data_remove(file_path(""));
            mkdir(file_path(""), 0755);
            files_put(&after);

            if (truncate(file_path(segment_name(0, ".log")),
                         (off_t) log_before + bytes) != 0
                || truncate(file_path(segment_name(0, ".txnindex")),
                            (off_t) index_before + entry) != 0)
            {
                failed++;
            }

            broker_start(PARTS, PRODS);
            failed += restart() != KL_OK;
            cuts++;

            files_keep(&now, ".txnindex");
            first = offsets(plog).first_open_txn;
            last = offsets(plog).aborted_last;

            if (bytes == KF_CONTROL_BATCH) {
                wrong += first != 5 || last != 11
                         || now.len[0] != index_before + 34
                         || files_differ(&now, ".txnindex") != 0;
            } else {
                wrong += first != 3 || last != 9
                         || now.len[0] != index_before;
            }

            failed += kl_aborted(plog, 0, INT64_MAX, aborted, TXN_LIST_MAX,
                                 &got) != KL_OK;
            wrong += got != now.len[0] / 34;

            files_free(&now);

            /* the coordinator comes again */
            failed += marker(plog, 1, 1, false, &marked) != KL_OK;
            wrong += marked.written != (bytes < KF_CONTROL_BATCH);
            wrong += file_size(segment_name(0, ".txnindex"))
                     != (int64_t) index_before + 34;
        }
    }

    is(cuts, 2 * (34 + KF_CONTROL_BATCH + 1), "all cuts");
    is(failed, 0, "all opened");
    is(wrong, 0, "each is wholly before or wholly after");

    files_free(&before);
    files_free(&after);
    end();
}


static void
test_format(void)
{
    size_t    len;
    uint8_t  *e;
    static const uint8_t  expect[] = {
        0, 0,
        0, 0, 0, 0, 0, 0, 0x12, 0x34,           /* producer id */
        0, 0, 0, 0, 0, 0, 0, 1,                 /* first offset */
        0, 0, 0, 0, 0, 0, 0, 5,                 /* the marker */
        0, 0, 0, 0, 0, 0, 0, 3,                 /* last stable offset */
        0, 0,
        0, 0, 0, 0, 0, 0, 0, 7,
        0, 0, 0, 0, 0, 0, 0, 3,
        0, 0, 0, 0, 0, 0, 0, 6,
        0, 0, 0, 0, 0, 0, 0, 7,
    };

    begin();

    verify(0x1234, 0, true);
    put(0x1234, 0, 0, 2, 0);
    verify(7, 0, true);
    put(7, 0, 0, 2, 0);
    marker(plog, 0x1234, 0, false, &marked);
    marker(plog, 7, 0, false, &marked);

    e = slurp(segment_name(0, ".txnindex"), &len);
    is(len, sizeof(expect), "two entries");
    ok(len == sizeof(expect) && memcmp(e, expect, len) == 0, "byte for byte");
    free(e);

    is(kl_aborted(plog, 0, INT64_MAX, aborted, 1, &len), KL_OK, "no room");
    is(len, 2, "tells how many there are");

    end();
}


static void
test_keeping(void)
{
    int64_t       ts, offset, log_start, start;
    int32_t       epoch;
    size_t        n;
    uint32_t      removed;
    kl_offsets_t  o;

    begin();
    config.segment_bytes = 300;

    verify(1, 0, true);
    append_plain(plog, 1, 100, 0, 5);
    append_plain(plog, 1, 100, 0, 5);
    put(1, 0, 0, 1, 0);
    start = res.base_offset;
    verify(2, 0, true);
    put(2, 0, 0, 1, 0);
    append_plain(plog, 1, 100, 0, 5000);
    marker(plog, 2, 1, false, &marked);
    append_plain(plog, 1, 100, 0, 5000);
    append_plain(plog, 1, 100, 0, 6000);

    config.retention_bytes = 0;
    config.producer_expiration_ms = 0;
    kl_retain(plog, &config, 900000000, INT64_MAX, &removed);
    o = offsets(plog);
    ok(removed > 0, "retention takes what it may");
    ok(o.log_start <= start, "and stops at the open transaction");
    is(o.first_open_txn, start, "which stays open");
    is(put(1, 0, 1, 1, 0), 0, "and goes on: its producer does not expire");
    config.producer_expiration_ms = 86400000;

    is(kl_offset_for_time(plog, 4000, start, &offset, &ts, &epoch), KL_OK,
       "a time, below the last stable offset");
    is(offset, -1, "there is none");
    is(kl_offset_for_time(plog, 4000, INT64_MAX, &offset, &ts, &epoch), KL_OK,
       "a time, below the end");
    is(offset, start + 2, "is found");
    is(kl_max_timestamp(plog, start, &offset, &ts, &epoch), KL_OK,
       "the greatest timestamp");
    ok(ts <= 1000, "is below the last stable offset, too");

    is(kl_aborted(plog, start, INT64_MAX, aborted, TXN_LIST_MAX, &n), KL_OK,
       "aborted");
    is(n, 1, "one");

    is(restart(), KL_OK, "restart");
    is(offsets(plog).first_open_txn, start, "it is still open");

    is(kl_delete_records(plog, start + 3, &log_start), KL_OK,
       "DeleteRecords goes past it");
    is(offsets(plog).first_open_txn, start + 3,
       "the last stable offset is not below the start");
    kl_retain(plog, &config, 900000000, INT64_MAX, &removed);
    is(restart(), KL_OK, "restart");
    is(offsets(plog).first_open_txn, start + 3, "nor after a restart");
    is(marker(plog, 1, 1, false, &marked), KL_OK, "its abort");
    ok(marked.written, "is written");
    is(offsets(plog).first_open_txn, INT64_MAX, "nothing is open");

    config.retention_bytes = 0;
    append_plain(plog, 1, 100, 0, 7000);
    append_plain(plog, 1, 100, 0, 7000);
    kl_retain(plog, &config, 900000000, INT64_MAX, &removed);
    is(files_with(".txnindex"), 0, "the indexes go with their segments");
    is(kl_aborted(plog, offsets(plog).log_start, INT64_MAX, aborted,
                  TXN_LIST_MAX, &n), KL_OK, "aborted");
    is(n, 0, "none");

    config.retention_bytes = -1;
    end();
}


/* Leader epochs that ended below the log's start are forgotten. */
static void
test_epochs(void)
{
    int       i;
    int32_t   epoch;
    int64_t   end_offset, log_start;
    size_t    len;
    uint8_t  *text;

    begin();

    for (i = 1; i <= 5; i++) {
        batch_make(&x, 2, 20, 0, 1);
        kl_append(plog, x.data, &x.b, &config, i * 10, 1000, &res);
    }

    is(kl_delete_records(plog, 6, &log_start), KL_OK, "records are deleted");
    text = slurp("leader-epoch-checkpoint", &len);
    text[len] = '\0';
    is_str((char *) text, "0\n3\n30 6\n40 7\n50 9\n", "what is left");
    free(text);

    is(kl_epoch_of(plog, 6), 30, "the first");
    is(kl_epoch_end(plog, 30, &epoch, &end_offset), KL_OK, "its end");
    is(end_offset, 7, "is known");
    is(kl_epoch_end(plog, 20, &epoch, &end_offset), KL_OK, "an older one");
    is(end_offset, 6, "ended where the log begins");

    is(restart(), KL_OK, "restart");
    is(kl_epoch_of(plog, 6), 30, "the same");

    /* a stop before the file was renamed */
    text = (uint8_t *) "0\n4\n20 3\n30 5\n40 7\n50 9\n";
    i = open(file_path("leader-epoch-checkpoint"), O_WRONLY | O_TRUNC);
    is(write(i, text, 24), 24, "an older file");
    close(i);
    is(restart(), KL_OK, "restart");
    text = slurp("leader-epoch-checkpoint", &len);
    text[len] = '\0';
    is_str((char *) text, "0\n3\n30 6\n40 7\n50 9\n", "is put right");
    free(text);

    end();
}


/* The checkpoint of an earlier release knew no transaction index. */
static void
test_old_checkpoint(void)
{
    extern uint32_t  kf_crc32c(uint32_t crc, const void *data, size_t len)
        __attribute__((visibility("hidden")));
    int       fd;
    char      old[2048], *p, *q;
    size_t    len, n;
    uint8_t  *text;

    begin();

    verify(1, 0, true);
    put(1, 0, 0, 2, 0);
    marker(plog, 1, 1, false, &marked);
    is(kl_delete_records(plog, 2, (int64_t *) &len), KL_OK, "a start");
    is(kl_checkpoint(plog, true), KL_OK, "checkpoint");
    broker_end(PARTS, PRODS);

    text = slurp("checkpoint", &len);
    text[len] = '\0';
    p = strstr((char *) text, "txnindex_entries");
    q = strstr((char *) text, "clean");
    n = (size_t) snprintf(old, sizeof(old), "version 1\n%.*sclean 1\n",
                          (int) (p - (char *) text - 10), text + 10);
    ok(q > p, "there is such a line");
    snprintf(old + n, sizeof(old) - n, "crc %08" PRIx32 "\n",
             kf_crc32c(0, old, n));
    free(text);

    fd = open(file_path("checkpoint"), O_WRONLY | O_TRUNC);
    is(write(fd, old, strlen(old)), (ssize_t) strlen(old), "an old file");
    close(fd);
    unlink(file_path(segment_name(0, ".txnindex")));

    broker_start(PARTS, PRODS);
    is(restart(), KL_OK, "restart");
    is(last_level, 99, "without a complaint");
    is(offsets(plog).log_start, 2, "the start is taken from it");
    is(file_size(segment_name(0, ".txnindex")), 34, "the index is made");

    end();
}


/* A power cut may leave the size of a write whose bytes are lost. */
static void
test_zeros(void)
{
    int            fd, i;
    size_t         n;
    const uint8_t  zeros[34] = { 0 };

    for (i = 0; i < 2; i++) {
        begin();
        verify(0, 0, true);
        put(0, 0, 0, 2, 0);
        marker(plog, 0, 1, i > 0, &marked);     /* an abort, then a commit */
        is(kl_checkpoint(plog, true), KL_OK, "checkpoint");
        broker_end(PARTS, PRODS);

        fd = open(file_path(segment_name(0, ".txnindex")),
                  O_WRONLY | O_CREAT | O_APPEND, 0644);
        is(write(fd, zeros, sizeof(zeros)), (ssize_t) sizeof(zeros), "zeros");
        close(fd);

        broker_start(PARTS, PRODS);
        is(restart(), KL_OK, "restart");
        is(kl_aborted(plog, 0, INT64_MAX, aborted, TXN_LIST_MAX, &n),
           KL_OK, "listed");
        is(n, i == 0, "what was aborted, and nothing else");
        ok(n == 0 || aborted[0].first_offset == 1, "as it was");
        end();
    }
}


/* With version 1 the epoch does not tell a transaction from the next one. */
static void
test_late_driver(void)
{
    kl_marker_t  m = { .producer_id = 1, .producer_epoch = 5, .commit = true,
                       .decided = 110 };

    begin();
    is(kl_txn_verify(plog, 1, 5, false, 100, 1), KL_OK, "number 100");
    put(1, 5, 0, 2, 0);
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK, "decided");
    ok(marked.written, "it is ended");

    is(kl_txn_verify(plog, 1, 5, false, 120, 1), KL_OK, "number 120");
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK,
       "the same marker, late");
    ok(!marked.written, "does not end the next one");
    is(put(1, 5, 2, 1, 0), 0, "whose mark stays");
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK,
       "later still");
    ok(!marked.written, "nor when it has data");
    is(kl_txn_verify(plog, 1, 5, false, 120, 1), KL_OK, "marked again");
    m.decided = 120;
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK,
       "its own decision");
    ok(marked.written, "ends it");

    kl_txn_verify(plog, 1, 5, false, 130, 1);
    put(1, 5, 3, 1, 0);
    restart();
    m.decided = 125;
    is(kl_append_marker(plog, &m, &config, 0, 1, &marked), KL_OK,
       "after a restart");
    ok(marked.written, "no number is known, and no driver is late");

    end();
}


int
main(void)
{
    test_verify();
    test_markers();
    test_late_driver();
    test_zeros();
    test_format();
    test_keeping();
    test_epochs();
    test_old_checkpoint();
    test_cuts();

    test_model(1, 2500, true);
    end();
    test_model(2, 2500, false);
    test_rebuild();
    end();
    test_model(3, 2500, true);
    end();

    return done_testing();
}
