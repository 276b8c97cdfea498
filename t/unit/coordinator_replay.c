/*
 * Replay, snapshots, compaction: what is taken, what is refused and how.
 */

#include "coordinator_lib.h"
#include "../../codec/gen/kf_journal.h"

static uint8_t  raw[65536];
static size_t   raw_len;


/* One batch with one record of the given bytes. */
static kc_rc_t
replay_value(world_t *w, const void *value, size_t len)
{
    kf_batch_builder_t  bb;

    kf_batch_begin(&bb, raw, sizeof(raw), 1);
    kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, (uint32_t) len });
    raw_len = kf_batch_end(&bb);

    return kc_replay(&w->kc, raw, raw_len, kc_applied(&w->kc) + 1);
}


/* … and one encoded by f. */
#define REPLAY(w, number, name, ...)                                          \
    ({                                                                        \
        uint8_t                 value_[4096];                                 \
        kf_writer_t             w_;                                           \
        kf_##name##_record_t    m_ = { __VA_ARGS__ };                         \
                                                                              \
        kf_writer_init(&w_, value_, NULL);                                    \
        kf_write_i16(&w_, number);                                            \
        kf_write_i16(&w_, 0);                                                 \
        kf_encode_##name##_record(&w_, 0, &m_);                               \
        replay_value(w, value_, w_.size);                                     \
    })

static const kf_uuid_t  A = { { 1, 2, 3 } }, B = { { 4, 5, 6 } };


static void
refuses(world_t *w, kc_rc_t rc, kc_rc_t want, const char *text,
    const char *label)
{
    is(rc, want, label);
    ok(strstr(c(w->kc.problem), text) != NULL, "and says \"%s\": %s", text,
       c(w->kc.problem));
    w->kc.problem = kf_null_str;
}


static void
test_records(void)
{
    world_t                     w;
    const kc_topic_t           *t;
    kf_config_record_configs_t  e[2] = { { s("log.retention.ms"), s("9") },
                                         { s("x.later"), s("") } };
    kf_config_record_configs_t  bad[2] = { { s("b"), s("") },
                                           { s("a"), s("") } };

    world_start(&w);

    is(REPLAY(&w, 1, topic, s("t"), A, 2, true, NULL, 0), KC_OK, "Topic");
    t = kc_topic_by_name(&w.kc, s("t"));
    ok(t && t->internal && t->partition_count == 2, "creates it");

    refuses(&w, REPLAY(&w, 1, topic, s("t"), B, 1, false, NULL, 0), KC_CORRUPT,
            "twice", "the name again");
    refuses(&w, REPLAY(&w, 1, topic, s("u"), A, 1, false, NULL, 0), KC_CORRUPT,
            "twice", "the id again");
    refuses(&w, REPLAY(&w, 1, topic, s("u"), B, 0, false, NULL, 0), KC_CORRUPT,
            "cannot be", "no partitions");
    refuses(&w, REPLAY(&w, 1, topic, s("u"), B, 2000000000, false, NULL, 0),
            KC_CORRUPT, "cannot be", "far too many partitions");
    refuses(&w, REPLAY(&w, 1, topic, s("a/b"), B, 1, false, NULL, 0),
            KC_CORRUPT, "cannot be", "a name that is a path");
    refuses(&w, REPLAY(&w, 1, topic, s("u"), B, 1, false,
                       (kf_topic_record_configs_t *) bad, 2),
            KC_CORRUPT, "order", "overrides out of order");

    is(REPLAY(&w, 3, partitions, A, 5), KC_OK, "Partitions");
    is(t->partition_count, 5, "adds them");
    is(w.bound, 5, "and binds slots");
    refuses(&w, REPLAY(&w, 3, partitions, A, 5), KC_CORRUPT, "does not take",
            "no more than before");
    refuses(&w, REPLAY(&w, 3, partitions, B, 5), KC_CORRUPT, "does not take",
            "of an unknown topic");

    is(REPLAY(&w, 4, config, 4, s(""), e, 2), KC_OK, "Config of the broker");
    is(kc_topic_config_int(&w.kc, &w.config, t, KC_RETENTION_MS), 9,
       "is a topic's default");
    e[0].name = s("retention.ms");
    e[0].value = s("11");
    is(REPLAY(&w, 4, config, 2, s("t"), e, 1), KC_OK, "Config of the topic");
    is(kc_topic_config_int(&w.kc, &w.config, t, KC_RETENTION_MS), 11, "rules");
    is(t->changed, kc_applied(&w.kc), "and is a change of the topic");
    is(REPLAY(&w, 4, config, 2, s("t"), NULL, 0), KC_OK, "an empty set");
    is(kc_topic_config_int(&w.kc, &w.config, t, KC_RETENTION_MS), 9,
       "takes it back");
    refuses(&w, REPLAY(&w, 4, config, 2, s("none"), e, 1), KC_CORRUPT,
            "does not exist", "Config of an unknown topic");
    refuses(&w, REPLAY(&w, 4, config, 99, s(""), e, 1), KC_CORRUPT,
            "does not exist", "of an unknown type");

    is(REPLAY(&w, 5, producer_ids, 1000), KC_OK, "ProducerIds");
    refuses(&w, REPLAY(&w, 5, producer_ids, 1000), KC_CORRUPT, "go from",
            "that go back");
    is(REPLAY(&w, 6, leader_epoch, 3), KC_OK, "LeaderEpoch");
    is(kc_leader_epoch(&w.kc), 3, "is 3");
    refuses(&w, REPLAY(&w, 6, leader_epoch, 3), KC_CORRUPT, "goes from",
            "that goes back");
    is(REPLAY(&w, 7, broker, s("0123456789012345678901")), KC_OK, "Broker");
    refuses(&w, REPLAY(&w, 7, broker, s("x")), KC_CORRUPT, "second time",
            "a second one");
    refuses(&w, REPLAY(&w, 8, snapshot_start, 9, 1), KC_CORRUPT,
            "a snapshot", "a snapshot inside the journal");
    refuses(&w, REPLAY(&w, 9, snapshot_end, 1, 1), KC_CORRUPT,
            "records", "the end of one");

    is(REPLAY(&w, 2, delete_topic, A), KC_OK, "DeleteTopic");
    ok(kc_topic_by_name(&w.kc, s("t")) == NULL, "deletes it");
    is(w.bound, 0, "and releases its slots");
    refuses(&w, REPLAY(&w, 2, delete_topic, A), KC_CORRUPT, "does not exist",
            "twice");

    world_end(&w);
}


static void
test_newer(void)
{
    world_t  w;

    world_start(&w);

    refuses(&w, replay_value(&w, "\0\x63\0\0\0", 5), KC_NEWER, "type 99",
            "an unknown record");
    refuses(&w, replay_value(&w, "\0\x05\0\x01\0\0\0\0\0\0\0\0\0", 13),
            KC_NEWER, "ProducerIdsRecord in version 1", "an unknown version");
    refuses(&w, replay_value(&w, "\xff\xff\0\0", 4), KC_CORRUPT, "not one",
            "type -1");
    refuses(&w, replay_value(&w, "\0\x05\xff\xff", 4), KC_NEWER, "version -1",
            "version -1");
    refuses(&w, replay_value(&w, "\0", 1), KC_CORRUPT, "not one", "one byte");
    refuses(&w, replay_value(&w, "\0\x05\0\0\0", 5), KC_CORRUPT, "malformed",
            "a cut record");
    refuses(&w, replay_value(&w, "\0\x05\0\0\0\0\0\0\0\0\0\1\0zz", 15),
            KC_CORRUPT, "malformed", "bytes behind a record");
    refuses(&w, replay_value(&w, NULL, 0), KC_CORRUPT, "null", "a null record");

    /* an unknown tag is for newer modules and can be ignored */
    is(replay_value(&w, "\0\x05\0\0\0\0\0\0\0\0\0\x07\x01\x09\x01Z", 16), KC_OK,
       "an unknown tag");
    is(kc_applied(&w.kc), 1, "is taken");

    world_end(&w);
}


static void
test_batches(void)
{
    int      i;
    world_t  w, r;

    world_start(&w);
    create(&w, "a", 1, NULL);
    create(&w, "b", 1, NULL);
    create(&w, "c", 1, NULL);

    world_start(&r);
    is(kc_replay(&r.kc, w.batches[0], w.sizes[0], 1), KC_OK, "the first");
    is(kc_replay(&r.kc, w.batches[0], w.sizes[0], 1), KC_OK,
       "again: it is skipped");
    is(kc_topic_count(&r.kc), 1, "and changes nothing");
    refuses(&r, kc_replay(&r.kc, w.batches[2], w.sizes[2], 3), KC_CORRUPT,
            "goes on at offset 2, but 1", "a gap");
    is(kc_replay(&r.kc, w.batches[1], w.sizes[1], 2), KC_OK, "the second");
    is(kc_replay(&r.kc, w.batches[2], w.sizes[2], 3), KC_OK, "the third");
    is(r.live, w.live, "no block more than the original has");
    world_end(&r);

    world_start(&r);
    for (i = 0; i < (int) w.sizes[0]; i++) {
        memcpy(raw, w.batches[0], w.sizes[0]);
        raw[i] ^= 0x40;

        /* base offset and leader epoch are not under the CRC */
        if (i < 8 || (i >= 12 && i < 16)) {
            continue;
        }

        if (kc_replay(&r.kc, raw, w.sizes[0], 1) != KC_CORRUPT
            || kc_applied(&r.kc) != 0)
        {
            break;
        }
    }

    is(i, (int) w.sizes[0], "each flipped bit is noticed");

    for (i = 0; i < (int) w.sizes[0]; i++) {
        if (kc_replay(&r.kc, w.batches[0], (size_t) i, 1) != KC_CORRUPT) {
            break;
        }
    }

    is(i, (int) w.sizes[0], "each cut too");
    world_end(&r);
    world_end(&w);
}


static int  told;

static void
deleted(void *ctx, kf_uuid_t id)
{
    (void) ctx;
    (void) id;

    told++;
}


/* A recovery needs room for the topics that exist, not for all there were. */
static void
test_recovery(void)
{
    int      i;
    char     name[16];
    world_t  w, r;

    world_start(&w);

    for (i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        create(&w, name, 3, NULL);

        if (i != 3 && i != 6) {
            delete(&w, name);
        }
    }

    world_start(&r);
    r.room = 6;
    kc_recovery_begin(&r.kc, deleted);

    for (i = 0; i < w.count; i++) {
        kc_replay(&r.kc, w.batches[i], w.sizes[i], w.ends[i]);
    }

    is(r.bound, 0, "nothing is bound before the end");
    is(told, 6, "six deletions are told");
    is(kc_replay_end(&r.kc), KC_OK, "the end");
    is(r.bound, 6, "binds the partitions of two topics");
    ok(kc_check(&r.kc) == NULL, "which is right");
    ok(kc_hash(&r.kc) == kc_hash(&w.kc), "and the state the same");
    is(delete(&r, "t3"), 0, "from then on");
    is(r.bound, 3, "a deletion releases");
    is(told, 6, "and is nobody's news");
    world_end(&r);

    world_start(&r);
    r.room = 5;
    kc_recovery_begin(&r.kc, NULL);

    for (i = 0; i < w.count; i++) {
        kc_replay(&r.kc, w.batches[i], w.sizes[i], w.ends[i]);
    }

    refuses(&r, kc_replay_end(&r.kc), KC_NO_MEMORY, "\"t6\"",
            "a zone that is too small");
    world_end(&r);
    world_end(&w);
}


/* --- snapshots --- */

static uint8_t  *snap[64];
static size_t    snap_len[64];
static int       snaps;
static int       snap_fail = -1;
static int       next_at;
static world_t  *next_world;


static bool
sink(void *ctx, uint8_t *batch, size_t len)
{
    (void) ctx;

    if (snaps == snap_fail) {
        return false;
    }

    snap[snaps] = malloc(len);
    memcpy(snap[snaps], batch, len);
    snap_len[snaps++] = len;

    return true;
}


static void
snap_clear(void)
{
    while (snaps) {
        free(snap[--snaps]);
    }
}


static int
next(void *ctx, const uint8_t **batch, size_t *len, int64_t *end)
{
    (void) ctx;

    if (next_at == next_world->count) {
        return 0;
    }

    *batch = next_world->batches[next_at];
    *len = next_world->sizes[next_at];
    *end = next_world->ends[next_at++];

    return 1;
}


static void
test_snapshot(void)
{
    int       i, before;
    char      name[260], problem[128];
    char      digits[] = "0123456789";
    world_t   w, r;
    int64_t   wait, offset;
    uint64_t  hash;
    kf_create_topics_request_t          req;
    kf_create_topics_response_t         rsp;
    static kf_create_topics_request_topics_t   t[2500];
    kf_create_topics_request_configs_t  e = { s("retention.ms"), s("77") };
    static char                         names[2500][244];

    world_start(&w);

    is(kc_snapshot(&w.kc, NOW, sink, NULL), KC_OK, "of an empty state");
    is(snaps, 1, "one batch");
    world_start(&r);
    is(kc_replay(&r.kc, snap[0], snap_len[0], -1), KC_OK, "can be replayed");
    is(kc_replay_end(&r.kc), KC_OK, "to its end");
    ok(kc_hash(&r.kc) == kc_hash(&w.kc), "to the same hash");
    world_end(&r);
    snap_clear();

    kc_bootstrap(&w.kc, NOW, &wait);
    kc_raise_leader_epoch(&w.kc, NOW, &wait);
    REPLAY(&w, 5, producer_ids, 4000);      /* not in w's journal */

    /* More than one batch of topics: names are long on purpose. */
    w.kc.io.bind = NULL;
    memset(&req, 0, sizeof(req));
    memset(t, 0, sizeof(t));
    req.topics = t;

    for (i = 0; i < 2500; i++) {
        memset(names[i], digits[i % 10], 240);
        snprintf(name, sizeof(name), "%04d", i);
        memcpy(names[i] + 100, name, 4);
        t[i].name = (kf_str_t) { (uint8_t *) names[i], 240 };
        t[i].num_partitions = 1 + i % 3;
        t[i].replication_factor = 1;

        if (i % 7 == 0) {
            t[i].configs = &e;
            t[i].configs_n = 1;
        }
    }

    req.topics_n = 2500;
    is(kc_create_topics(&w.kc, &w.call, &req, &rsp), KC_OK, "a giant request");
    ok(rsp.topics[2499].error_code == KF_ERR_POLICY_VIOLATION
       && kc_topic_count(&w.kc) > 1500, "creates what one batch holds: %u",
       kc_topic_count(&w.kc));
    kc_create_topics(&w.kc, &w.call, &req, &rsp);
    is(kc_topic_count(&w.kc), 2500, "and the rest when it is sent again");

    hash = kc_hash(&w.kc);
    is(kc_snapshot(&w.kc, NOW, sink, NULL), KC_OK, "a snapshot of it");
    ok(snaps >= 2, "has several batches: %d", snaps);

    world_start(&r);
    r.kc.io.bind = NULL;
    is(kc_replay_end(&r.kc), KC_OK, "nothing is unfinished before");

    for (i = 0; i < snaps; i++) {
        is(kc_replay(&r.kc, snap[i], snap_len[i], -1), KC_OK, "replays");

        if (i == 0) {
            refuses(&r, kc_replay_end(&r.kc), KC_CORRUPT, "no end",
                    "an unfinished one is noticed");
        }
    }

    is(kc_replay_end(&r.kc), KC_OK, "to the end");
    ok(kc_hash(&r.kc) == hash, "and to the same hash");
    is(kc_applied(&r.kc), kc_applied(&w.kc), "as of the same offset");
    is(kc_topics_changed(&r.kc), kc_applied(&w.kc), "changed at it");
    ok(kc_check(&r.kc) == NULL, "and is sound");

    /* the journal goes on behind it */
    before = w.count;
    create(&w, "after", 1, NULL);
    is(kc_replay(&r.kc, w.batches[before - 1], w.sizes[before - 1],
                 w.ends[before - 1]), KC_OK, "what it covers is skipped");
    is(kc_replay(&r.kc, w.batches[before], w.sizes[before],
                 kc_applied(&w.kc)), KC_OK, "what follows is taken");
    ok(kc_hash(&r.kc) == kc_hash(&w.kc), "equal again");
    world_end(&r);

    /* a batch of the journal in the middle of an unfinished one */
    world_start(&r);
    r.kc.io.bind = NULL;
    kc_replay(&r.kc, snap[0], snap_len[0], -1);
    refuses(&r, kc_replay(&r.kc, w.batches[before], w.sizes[before],
                          kc_applied(&w.kc)), KC_CORRUPT, "no end",
            "the journal behind an unfinished snapshot");
    world_end(&r);

    if (snaps > 2) {
        world_start(&r);
        r.kc.io.bind = NULL;
        kc_replay(&r.kc, snap[0], snap_len[0], -1);
        refuses(&r, kc_replay(&r.kc, snap[snaps - 1], snap_len[snaps - 1], -1),
                KC_CORRUPT, "records", "a snapshot with a batch missing");
        world_end(&r);
    }

    snap_clear();
    snap_fail = 1;
    is(kc_snapshot(&w.kc, NOW, sink, NULL), KC_JOURNAL_FAILED, "a full disk");
    snap_fail = -1;
    snap_clear();
    world_end(&w);

    /* a wrong hash */
    world_start(&r);
    is(REPLAY(&r, 8, snapshot_start, 1, 1), KC_OK, "a start");
    {
        kf_snapshot_end_record_t  m = { 0, 12345 };
        uint8_t                   v[32];
        kf_writer_t               vw;

        kf_writer_init(&vw, v, NULL);
        kf_write_i16(&vw, 9);
        kf_write_i16(&vw, 0);
        kf_encode_snapshot_end_record(&vw, 0, &m);
        raw_len = 0;
        {
            kf_batch_builder_t  bb;

            kf_batch_begin(&bb, raw, sizeof(raw), 1);
            kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { v,
                                                (uint32_t) vw.size });
            raw_len = kf_batch_end(&bb);
        }

        refuses(&r, kc_replay(&r.kc, raw, raw_len, -1), KC_CORRUPT,
                "does not rebuild", "an end with another hash");
    }
    world_end(&r);

    world_start(&r);
    refuses(&r, REPLAY(&r, 8, snapshot_start, 1, 2), KC_NEWER, "format 2",
            "a newer format");
    world_end(&r);

    /* compaction */
    world_start(&w);
    kc_bootstrap(&w.kc, NOW, &wait);

    for (i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "t%d", i % 5);
        is(i % 10 < 5 ? create(&w, name, 2, NULL) : delete(&w, name), 0,
           "a change");
    }

    create(&w, "last", 1, NULL);
    next_world = &w;
    next_at = 0;
    is(kc_compact(NOW, next, sink, NULL, &offset, problem, sizeof(problem)),
       KC_OK, "compaction");
    is(offset, w.end, "covers all");
    world_start(&r);
    is(kc_replay(&r.kc, snap[0], snap_len[0], -1), KC_OK, "its snapshot");
    ok(kc_hash(&r.kc) == kc_hash(&w.kc), "is the state");
    ok(snap_len[0] < 400, "and short: %zu bytes", snap_len[0]);
    world_end(&r);
    snap_clear();

    w.batches[3][70] ^= 1;
    next_at = 0;
    is(kc_compact(NOW, next, sink, NULL, &offset, problem, sizeof(problem)),
       KC_CORRUPT, "compaction of a damaged journal");
    ok(strstr(problem, "damaged") != NULL, "says so: %s", problem);
    is(snaps, 0, "and writes nothing");
    w.batches[3][70] ^= 1;
    world_check(&w, "compaction");
    world_end(&w);
}


int
main(void)
{
    test_records();
    test_newer();
    test_batches();
    test_recovery();
    test_snapshot();

    return done_testing();
}
