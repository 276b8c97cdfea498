/*
 * What a handle and an offset still mean when the slot was bound anew or the
 * partition was opened again in between.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "../../log/kl_internal.h"
#include "log_lib.h"

#define PARTS  1
#define PRODS  16

static batch_t      x;
static kl_append_t  res;
static kf_uuid_t    other = { { 9, 9, 9 } };


static kl_rc_t
put(uint32_t tag)
{
    batch_make(&x, 1, 100, tag, 1000);

    return append(plog, &x, &res);
}


static void
begin(void)
{
    data_make();
    broker_start(PARTS, PRODS);
}


static void
end(void)
{
    broker_end(PARTS, PRODS);
    data_remove(data_dir);
}


/*
 * An append waits for flushed >= 2; its batch is cut off by a reopen, and
 * others come to stand at its offset.  The numbers alone say that it is safe.
 */
static void
test_reopen(void)
{
    int           fd;
    bool          cut;
    int64_t       flushed, until;
    uint64_t      generation;
    kl_offsets_t  o;

    begin();

    is(put(0), KL_OK, "the first batch");
    is(res.generation, offsets(plog).generation, "has the generation");
    is(kl_flush(plog, &flushed), KL_OK, "it is on the disk");
    flushed = file_size(segment_name(0, ".log"));

    is(put(1), KL_OK, "the second batch");
    until = res.next_offset;
    generation = res.generation;
    is(generation, offsets(plog).generation, "of the same generation");

    o = offsets(plog);
    kl_fail(plog, (int64_t) o.generation, EIO, "a test");

    /* the write-back of it failed */
    fd = open(file_path(segment_name(0, ".log")), O_RDWR);
    is(ftruncate(fd, flushed), 0, "it is lost");
    close(fd);

    is(kl_recover(plog, 0, &config, &cut), KL_OK, "the partition is opened");
    is(offsets(plog).log_end, 1, "without it");

    is(put(2), KL_OK, "another batch");
    is(res.base_offset, 1, "takes its place");
    is(kl_flush(plog, &flushed), KL_OK, "and is on the disk");

    o = offsets(plog);
    ok(o.flushed >= until, "by the numbers the lost one is on the disk");
    ok(o.generation != generation, "the generation is another");
    is(res.generation, o.generation, "that of the later batch");

    end();
}


static void
test_duplicate(void)
{
    kl_rc_t      rc;
    kl_marker_t  m = { .producer_id = 7, .producer_epoch = 0 };
    kl_marked_t  marked;

    begin();

    batch_make(&x, 1, 100, 0, 1000);
    batch_producer(&x, 7, 0, 0, 0);
    is(append(plog, &x, &res), KL_OK, "a batch of a producer");
    batch_make(&x, 1, 100, 0, 1000);
    batch_producer(&x, 7, 0, 0, 0);
    rc = append(plog, &x, &res);
    ok(rc == KL_OK && res.duplicate, "again");
    is(res.generation, offsets(plog).generation, "has the generation");

    rc = kl_append_marker(plog, &m, &config, 0, 1000, &marked);
    ok(rc == KL_OK && !marked.written, "a marker that is not due");
    is(marked.generation, offsets(plog).generation, "has the generation");

    end();
}


static void
test_bind(void)
{
    uint64_t  a, b, c;

    begin();

    a = offsets(plog).generation;
    kl_release(shared, 0);
    b = offsets(plog).generation;
    is(kl_bind(shared, topic_id, 0), 0, "the same slot");
    c = offsets(plog).generation;
    ok(b > a && c > b, "release and bind raise the generation");

    end();
}


/* The slot was looked up for one topic, the incarnation when it was another's
 * already: the handle has a path and a slot that have nothing in common. */
static void
test_mixed(void)
{
    bool           cut;
    int64_t        n;
    kl_log_t      *mixed, *right, *part;
    kl_offsets_t   o;
    kl_producer_info_t  *list;
    size_t         len;

    begin();
    put(0);

    kl_release(shared, 0);
    is(kl_bind(shared, other, 3), 0, "another topic gets the slot");
    kl_snapshot(kl_part(shared, 0), &o);

    mixed = kl_log_open(env, 0, o.incarnation, topic_id, kf_str(TOPIC), 0);
    part = kl_log_open(env, 0, o.incarnation, other, kf_str("other"), 4);
    right = kl_log_open(env, 0, o.incarnation, other, kf_str("other"), 3);

    ok(!kl_log_is_current(mixed), "a handle of the other topic is not current");
    ok(!kl_log_is_current(part), "nor one of another partition");
    ok(kl_log_is_current(right), "the right one is");

    batch_make(&x, 1, 100, 1, 1000);
    is(kl_recover(mixed, 0, &config, &cut), KL_GONE, "it recovers nothing");
    is(append(mixed, &x, &res), KL_GONE, "it appends nothing");
    is(kl_readable(mixed, 0, 1, 1, &n), KL_GONE, "it reads nothing");
    is(kl_txn_verify(mixed, 1, 0, false, 0, 1000), KL_GONE, "it marks nothing");
    is(kl_remove(mixed), KL_OK, "its directory can be removed");

    kl_snapshot(kl_part(shared, 0), &o);
    is(o.state, KL_NEW, "which does not touch the slot");

    batch_make(&x, 1, 100, 2, 1000);
    is(append(right, &x, &res), KL_OK, "the right handle appends");
    is(res.base_offset, 0, "to an empty log");
    is(append(mixed, &x, &res), KL_GONE, "the wrong one still does not");
    is(append(part, &x, &res), KL_GONE, "nor that of the partition");
    is(kl_producers(mixed, false, &list, &len), KL_GONE, "it lists nothing");

    kl_log_close(part);
    kl_log_close(mixed);
    kl_log_close(right);

    end();
}


static _Atomic int  entered;

static void *
enter_thread(void *arg)
{
    kl_pub_t  pub;

    (void) arg;

    entered = 10 + (int) kl_enter(plog, &config, &pub);
    entered += 100 * (int) kl_txn_verify(plog, 1, 0, false, 0, 1000);

    return NULL;
}


/* A recovery has the lock for as long as it reads producers. */
static void
test_failed_does_not_wait(void)
{
    int        i;
    pthread_t  thread;

    begin();
    put(0);

    kl_fail(plog, (int64_t) offsets(plog).generation, EIO, "a test");

    kl_part_lock(kl_log_part(plog));
    pthread_create(&thread, NULL, enter_thread, NULL);

    for (i = 0; i < 6000 && entered < 100; i++) {
        usleep(10000);
    }

    is(entered, 10 + (int) KL_FAILED + 100 * (int) KL_FAILED,
       "an offline partition is told of without its lock");

    kl_part_unlock(kl_log_part(plog));
    pthread_join(thread, NULL);

    end();
}


int
main(void)
{
    test_reopen();
    test_duplicate();
    test_bind();
    test_mixed();
    test_failed_does_not_wait();

    return done_testing();
}
