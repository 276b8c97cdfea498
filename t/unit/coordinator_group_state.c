/*
 * Groups as state: allocations that fail at every point, records that cannot
 * be, snapshots, hostile sizes, and what an object costs.
 */

#define SLOTS  6200

#include "coordinator_group_lib.h"
#include "../../coordinator/kc_group_int.h"


/* --- memory -------------------------------------------------------------- */

static join_t  one, two_, idle;
static int     got;                 /* what the action answered */


static void
act_pending(void)
{
    got = join(5, "new", "", NULL).rc;
}


static void
act_first(void)
{
    got = join(3, "new", "", NULL).rc;
}


static void
act_static(void)
{
    got = join(5, "new", "", "i").rc;
}


static void
act_known(void)
{
    protos = "range:other";
    got = join(5, "g", one.id, NULL).rc;
    protos = "range:R";
}


static void
act_replace(void)
{
    got = join(9, "g", "", "i").rc;
}


static void
act_replace_other(void)
{
    protos = "rr:1,range:2";
    got = join(9, "g", "", "i").rc;
    protos = "range:R";
}


static void
act_sync(void)
{
    got = sync("late", 1, idle.id, give(idle.id, "assignment", "x", "y")).rc;
}


static void
act_commit(void)
{
    got = commit_as(7, "other", -1, "", NULL, "t", 3, 4, "metadata");
}


static void
act_commit_more(void)
{
    int  i;

    for (i = 0; i < 6 && got == 0; i++) {
        got = commit_as(7, "g", 2, one.id, NULL, "wide", i, 4, "metadata");
    }
}


static void
act_leave(void)
{
    got = leave("late", idle.id);
}


static void
setup_groups(void)
{
    world_start(&w);
    seen_batches = 0;
    create(&w, "t", 4, NULL);
    create(&w, "wide", 32, NULL);

    one = join2("g");
    sync("g", 1, one.id, NULL);
    two_ = join(9, "g", "", "i");
    one = join(5, "g", one.id, NULL);
    join_poll(&two_);
    sync("g", 2, one.id, give(one.id, "one", two_.id, "two"));
    sync("g", 2, two_.id, NULL);
    idle = join2("late");
}


static void
test_memory(const char *name, void (*act)(void))
{
    int       n, runs = 0;
    bool      done = false;
    char      problem[200] = "";
    world_t   other;
    uint64_t  before;

    for (n = 1; !done && n < 300; n++) {
        setup_groups();
        before = kc_hash(&w.kc);
        w.fail_in = n;
        got = 0;
        act();
        done = w.fail_in > 0;
        w.fail_in = 0;
        runs++;

        if (kc_check(&w.kc)) {
            snprintf(problem, sizeof(problem), "%d: %s", n, kc_check(&w.kc));
        }

        if (!done && got != KC_OK && got != KC_PARK
            && act != act_commit_more && kc_hash(&w.kc) != before)
        {
            snprintf(problem, sizeof(problem), "%d: something changed", n);
        }

        world_start(&other);

        if (world_replay(&w, &other) != KC_OK
            || kc_hash(&other.kc) != kc_hash(&w.kc))
        {
            snprintf(problem, sizeof(problem), "%d: replay differs", n);
        }

        kc_state_free(&other.kc);
        kc_done(&other.kc);
        kf_heap_free(&other.heap);

        /* what could not be done is done later */
        pass(5000);

        if (kc_check(&w.kc)) {
            snprintf(problem, sizeof(problem), "%d: later: %s", n,
                     kc_check(&w.kc));
        }

        kc_state_free(&w.kc);

        if (w.live || w.bytes) {
            snprintf(problem, sizeof(problem), "%d: %d blocks left", n,
                     w.live);
        }

        kc_done(&w.kc);
        kf_heap_free(&w.heap);

        while (w.count) {
            free(w.batches[--w.count]);
        }
    }

    ok(problem[0] == '\0' && done && runs > 1,
       "%s: no memory at each of %d allocations: %s", name, runs, problem);
}


/* --- snapshots ----------------------------------------------------------- */

typedef struct {
    uint8_t  *data[64];
    size_t    sizes[64];
    int       n;
} shots_t;


static bool
shot_sink(void *ctx, uint8_t *batch, size_t len)
{
    shots_t  *t = ctx;

    if (t->n == 64) {
        return false;
    }

    t->data[t->n] = memcpy(malloc(len), batch, len);
    t->sizes[t->n++] = len;

    return true;
}


static void
check_snapshot(const char *name, int batches)
{
    int      i;
    kc_rc_t  rc = KC_OK;
    shots_t  shots = { .n = 0 };
    world_t  other;

    is(kc_snapshot(&w.kc, NOW, shot_sink, &shots), KC_OK, name);
    ok(shots.n >= batches, "%d batches", shots.n);
    world_start(&other);

    for (i = 0; i < shots.n; i++) {
        if (rc == KC_OK) {
            rc = kc_replay(&other.kc, shots.data[i], shots.sizes[i], -1);
        }

        free(shots.data[i]);
    }

    is(rc, KC_OK, "it can be replayed");

    if (rc != KC_OK) {
        diag("%.*s", (int) other.kc.problem.len, other.kc.problem.data);
    }

    ok(kc_hash(&other.kc) == kc_hash(&w.kc), "to the same state");
    ok(kc_check(&other.kc) == NULL, "that is sound");
    world_end(&other);
}


static void
test_snapshot(void)
{
    int     i, k;
    char    text[4097], name[16];
    join_t  a;

    world_start(&w);
    seen_batches = 0;
    check_snapshot("an empty state", 1);
    create(&w, "t", 4, NULL);
    create(&w, "huge", 6000, NULL);

    one = join2("g");
    sync("g", 1, one.id, NULL);
    two_ = join(9, "g", "", "i");
    one = join(5, "g", one.id, NULL);
    join_poll(&two_);
    check_snapshot("a group before its assignment", 1);
    sync("g", 2, one.id, give(one.id, "one", two_.id, "two"));
    check_snapshot("a stable one", 1);
    join(9, "g", "", "i");
    check_snapshot("with a replaced member", 1);
    join2("g");
    leave("g", one.id);
    check_snapshot("in a round: the generation before it", 1);

    a = join2("e");
    leave("e", a.id);
    commit("e", "t", 0, 1);
    commit("s", "t", 1, 2);
    join(5, "pending", "", NULL);
    check_snapshot("an empty group, a simple one, one of ids", 1);

    memset(text, 'm', 4096);
    text[4096] = '\0';

    for (i = 0; i < 200; i++) {
        commit_as(7, "long", -1, "", NULL, "t", i % 4, i, text);
        snprintf(name, sizeof(name), "g%d", i);
        commit_as(7, name, -1, "", NULL, "t", i % 4, i, text);
    }

    check_snapshot("metadata that need two batches", 2);

    for (k = 0; k < 2; k++) {
        kf_offset_commit_request_t              req;
        kf_offset_commit_response_t             rsp;
        kf_offset_commit_request_topics_t       t;
        kf_offset_commit_request_partitions_t  *p;

        memset(&req, 0, sizeof(req));
        memset(&t, 0, sizeof(t));
        p = kf_arena_array(&w.arena, 5000, sizeof(*p));

        for (i = 0; i < 5000; i++) {
            p[i].partition_index = k ? i : 4999 - i;
            p[i].committed_offset = i;
            p[i].committed_metadata = s("m");
        }

        t.name = s("huge");
        t.partitions = p;
        t.partitions_n = 5000;
        req.group_id = s("h");
        req.member_id = s("");
        req.generation_id_or_member_epoch = -1;
        req.topics = &t;
        req.topics_n = 1;
        is(kc_offset_commit(&w.kc, &w.call, 8, &req, &rsp), KC_OK,
           "5,000 offsets of one topic");
    }

    check_snapshot("offsets that need several records of one topic", 3);
    world_check(&w, "snapshot");
    world_end(&w);
}


/* --- large groups -------------------------------------------------------- */

static void
test_large(void)
{
    int       i;
    char     *text;
    join_t   *j;
    sync_t    y;
    uint64_t  bytes;

    world_start(&w);
    seen_batches = 0;

    /* 1,000 members, each with 2 KiB of metadata */
    text = malloc(2100);
    memcpy(text, "range:", 6);
    memset(text + 6, 'x', 2048);
    text[2054] = '\0';
    protos = text;
    j = calloc(1000, sizeof(join_t));

    j[0] = join(3, "g", "", NULL);
    sync("g", 1, j[0].id, NULL);

    for (i = 1; i < 1000; i++) {
        j[i] = join(3, "g", "", NULL);
    }

    j[0] = join(3, "g", j[0].id, NULL);
    is(j[0].rsp.error_code, 0, "1,000 members");
    is(j[0].rsp.members_n, 1000, "in one generation");
    is(join_poll(&j[999]), KC_OK, "all of them");
    ok(w.sizes[w.count - 1] > 2000000, "in one record of %d bytes",
       (int) w.sizes[w.count - 1]);

    y = sync("g", 2, j[0].id, give(j[1].id, "a", j[999].id, "z"));
    is(y.rsp.error_code, 0, "an assignment");
    is_str(c(sync("g", 2, j[999].id, NULL).rsp.assignment), "z",
           "for the last one");
    check_snapshot("a snapshot of it", 2);

    for (i = 1; i < 1000; i++) {
        leave("g", j[i].id);
    }

    j[0] = join(3, "g", j[0].id, NULL);
    is(j[0].rsp.generation_id, 3, "all but one leave");
    is(j[0].rsp.members_n, 1, "one stays");
    world_check(&w, "large");

    /* more than a group may say */
    text = realloc(text, 1100000);
    protos = text;
    memset(text + 6, 'x', 1048576);
    text[6 + 1048576] = '\0';
    is(join(5, "big", "", NULL).rsp.error_code, KF_ERR_UNKNOWN_SERVER_ERROR,
       "a member that says a megabyte is refused");
    is_str(state("big"), "Dead", "and leaves nothing");
    text[6 + 1000000] = '\0';
    bytes = w.bytes;

    for (i = 0; i < 10; i++) {
        j[i] = join(3, "big", "", NULL);

        if (i == 0) {
            sync("big", 1, j[i].id, NULL);
        }

        if (j[i].rsp.error_code) {
            break;
        }
    }

    is(i, 7, "seven of them fit into a group");
    is(j[7].rsp.error_code, KF_ERR_GROUP_MAX_SIZE_REACHED, "no more");
    ok(w.bytes - bytes < 9000000, "%d bytes", (int) (w.bytes - bytes));
    j[0] = join(3, "big", j[0].id, NULL);
    is(j[0].rsp.members_n, 7, "they get a generation");
    world_check(&w, "seven megabytes");

    protos = "range:R";
    y = sync("big", 2, j[0].id, NULL);
    is(y.rsp.error_code, 0, "(stable)");
    j[0] = join(3, "small", "", NULL);
    y.req.group_id = s("small");
    y.req.generation_id = 1;
    y.req.member_id = s(j[0].id);
    y.req.assignments_n = 1;
    y.req.assignments[0].member_id = y.req.member_id;
    text = realloc(text, 8000000);
    y.req.assignments[0].assignment = (kf_bytes_t) { (uint8_t *) text,
                                                     8000000 };
    is(kc_sync_group(&w.kc, &w.call, 3, &y.req, &y.park, &y.rsp), KC_OK,
       "an assignment of 8 megabytes");
    is(y.rsp.error_code, KF_ERR_UNKNOWN_SERVER_ERROR, "is refused");
    is_str(state("small"), "CompletingRebalance", "and changes nothing");

    /* ids */
    memset(text, 'i', 40000);
    text[40000] = '\0';
    is(join(5, text, "", NULL).rsp.error_code, KF_ERR_INVALID_GROUP_ID,
       "a group id of 40,000 bytes");
    is(commit(text, "t", 0, 1), KF_ERR_UNKNOWN_TOPIC_OR_PARTITION, "no topic");
    create(&w, "t", 4, NULL);
    is(commit(text, "t", 0, 1), KF_ERR_INVALID_GROUP_ID, "commits nothing");
    is(join(5, "i", "", text).rsp.error_code, KF_ERR_INVALID_REQUEST,
       "an instance id of 40,000 bytes");
    text[32767] = '\0';
    is(join(5, text, "", NULL).rsp.error_code, KF_ERR_MEMBER_ID_REQUIRED,
       "a group id of 32,767 bytes is good");
    world_check(&w, "ids");

    free(text);
    free(j);
    world_end(&w);
}


/* --- records that cannot be ---------------------------------------------- */

static int64_t
replay_one(world_t *o, kf_journal_number_t type, const void *record)
{
    size_t                size;
    kc_rc_t               rc;
    int64_t               end = kc_applied(&o->kc) + 1;
    static uint8_t        value[4096], batch[8192];
    kf_batch_builder_t    bb;

    size = kc_record_encode(type, record, value, sizeof(value));
    kf_batch_begin(&bb, batch, sizeof(batch), 1);
    kf_batch_add(&bb, kf_null_str, (kf_bytes_t) { value, (uint32_t) size });
    size = kf_batch_end(&bb);
    kf_batch_set_base_offset(batch, end - 1);
    rc = kc_replay(&o->kc, batch, size, end);

    return rc;
}


static void
bad(kf_journal_number_t type, const void *record, const char *label)
{
    static world_t  o;

    world_start(&o);
    world_replay(&w, &o);
    is(replay_one(&o, type, record), KC_CORRUPT, label);
    kc_state_free(&o.kc);
    ok(o.live == 0, "and leaves nothing behind");
    kc_done(&o.kc);
    kf_heap_free(&o.heap);
}


static void
test_corrupt(void)
{
    int32_t                                   parts[] = { 0 };
    static world_t                            fresh;
    kf_group_record_t                         g;
    kf_group_record_members_t                 m[2];
    kf_group_record_protocols_t               p = { s("range"), s("R") };
    kf_group_member_record_t                  gm;
    kf_delete_group_record_t                  dg = { s("none") };
    kf_offsets_record_t                       o;
    kf_offsets_record_topics_t                ot;
    kf_offsets_record_partitions_t            op[2];
    kf_offsets_delete_record_t                od;
    kf_offsets_delete_record_topics_t         odt;
    kf_group_assignment_record_t              ga;
    kf_group_assignment_record_assignments_t  gaa[2];

    setup_groups();

    memset(&g, 0, sizeof(g));
    memset(m, 0, sizeof(m));
    m[0].member_id = s("a");
    m[0].instance_id = s("x");
    m[0].client_id = s("c");
    m[0].client_host = s("h");
    m[0].protocols = &p;
    m[0].protocols_n = 1;
    m[0].assignment = s("mine");
    m[1] = m[0];
    m[1].member_id = s("b");
    m[1].instance_id = s("y");
    g.group_id = s("g");
    g.type = 1;
    g.generation = 9;
    g.protocol_type = s("consumer");
    g.protocol_name = s("range");
    g.members = m;
    g.members_n = 2;

    world_start(&fresh);
    world_replay(&w, &fresh);
    is(replay_one(&fresh, KF_GROUP_RECORD, &g), KC_OK, "a good one");
    ok(kc_check(&fresh.kc) == NULL, "it is sound");
    world_end(&fresh);

    m[1].member_id = s("a");
    bad(KF_GROUP_RECORD, &g, "a member twice");
    m[1].member_id = s("b");
    m[1].instance_id = s("x");
    bad(KF_GROUP_RECORD, &g, "an instance twice");
    m[1].instance_id = s("y");
    m[1].member_id = s(one.id);
    bad(KF_GROUP_RECORD, &g, "a dynamic member becomes static");
    m[1].member_id = s("b");
    g.leader = 2;
    bad(KF_GROUP_RECORD, &g, "a leader that is not there");
    g.leader = -1;
    bad(KF_GROUP_RECORD, &g, "members without a leader");
    g.leader = -2;
    bad(KF_GROUP_RECORD, &g, "leader -2");
    g.leader = 0;
    g.type = 7;
    bad(KF_GROUP_RECORD, &g, "a type that is not known");
    g.type = 1;
    g.generation = -1;
    bad(KF_GROUP_RECORD, &g, "generation -1");
    g.generation = 9;
    g.protocol_name = kf_null_str;
    bad(KF_GROUP_RECORD, &g, "members without a protocol");
    g.members_n = 0;
    bad(KF_GROUP_RECORD, &g, "a leader of nobody");
    g.leader = -1;
    g.stable = true;
    bad(KF_GROUP_RECORD, &g, "stable without members");

    memset(&ga, 0, sizeof(ga));
    ga.group_id = s("late");
    ga.generation = 1;
    ga.assignments = gaa;
    ga.assignments_n = 2;
    gaa[0].member = 0;
    gaa[0].assignment = s("x");
    gaa[1].member = 1;
    gaa[1].assignment = s("y");
    bad(KF_GROUP_ASSIGNMENT_RECORD, &ga, "an assignment for nobody");
    ga.assignments_n = 1;
    ga.generation = 2;
    bad(KF_GROUP_ASSIGNMENT_RECORD, &ga, "for another generation");
    ga.group_id = s("g");
    bad(KF_GROUP_ASSIGNMENT_RECORD, &ga, "for a stable group");
    ga.group_id = s("none");
    bad(KF_GROUP_ASSIGNMENT_RECORD, &ga, "for none");

    memset(&gm, 0, sizeof(gm));
    gm.group_id = s("g");
    gm.old_member_id = s(one.id);
    gm.instance_id = s("i");
    gm.member_id = s("new");
    gm.client_id = s("c");
    gm.client_host = s("h");
    bad(KF_GROUP_MEMBER_RECORD, &gm, "a dynamic member is replaced");
    gm.old_member_id = s(two_.id);
    gm.instance_id = s("j");
    bad(KF_GROUP_MEMBER_RECORD, &gm, "by another instance");
    gm.instance_id = s("i");
    gm.member_id = s(one.id);
    bad(KF_GROUP_MEMBER_RECORD, &gm, "by a member");
    gm.old_member_id = s("none");
    bad(KF_GROUP_MEMBER_RECORD, &gm, "nobody is replaced");
    gm.group_id = s("none");
    bad(KF_GROUP_MEMBER_RECORD, &gm, "in no group");

    bad(KF_DELETE_GROUP_RECORD, &dg, "a group that is not there is deleted");

    memset(&o, 0, sizeof(o));
    memset(&ot, 0, sizeof(ot));
    memset(op, 0, sizeof(op));
    o.group_id = s("g");
    o.topics = &ot;
    o.topics_n = 1;
    ot.topic_id = kc_topic_by_name(&w.kc, s("t"))->id;
    ot.partitions = op;
    ot.partitions_n = 2;
    op[0].metadata = s("note");
    op[1].metadata = s("");
    op[0].index = 1;
    op[1].index = 1;
    bad(KF_OFFSETS_RECORD, &o, "a partition twice");
    op[1].index = 0;
    bad(KF_OFFSETS_RECORD, &o, "out of order");
    op[1].index = 4;
    bad(KF_OFFSETS_RECORD, &o, "a partition that is not there");
    op[0].index = -1;
    bad(KF_OFFSETS_RECORD, &o, "-1");
    ot.partitions_n = 0;
    bad(KF_OFFSETS_RECORD, &o, "no partitions");
    ot.partitions_n = 1;
    op[0].index = 0;
    ot.topic_id.b[0] ^= 1;
    bad(KF_OFFSETS_RECORD, &o, "no topic");

    memset(&od, 0, sizeof(od));
    od.group_id = s("none");
    od.topics = &odt;
    od.topics_n = 1;
    odt.topic_id = ot.topic_id;
    odt.partitions = parts;
    odt.partitions_n = 1;
    bad(KF_OFFSETS_DELETE_RECORD, &od, "offsets of no group are deleted");

    world_end(&w);
}


/* --- sizes --------------------------------------------------------------- */

static size_t  slab_bytes;

static void *
slab_alloc(void *ctx, size_t size)
{
    size_t  slab = 8;

    while (slab < size && slab < 2048) {
        slab *= 2;
    }

    slab_bytes += size > 2048 ? (size + 4095) / 4096 * 4096 : slab;

    return world_alloc(ctx, size);
}


/* What docs say of memory, in nginx's slabs. */
static void
test_sizes(void)
{
    size_t  before;
    join_t  a;

    world_start(&w);
    create(&w, "t", 4, NULL);
    w.kc.mem.alloc = slab_alloc;

    ok(sizeof(kc_group_t) <= 480, "a group has %d bytes",
       (int) sizeof(kc_group_t));
    ok(sizeof(kc_member_t) <= 216, "a member %d", (int) sizeof(kc_member_t));
    ok(sizeof(kc_group_topic_t) <= 128, "a topic of a group %d",
       (int) sizeof(kc_group_topic_t));
    is(sizeof(kc_offset_t), 32, "an offset 32");

    before = w.bytes;
    commit("twenty-four-bytes-of-id-", "t", 0, 1);
    ok(w.bytes - before <= 800, "a simple group with one offset: %d",
       (int) (w.bytes - before));
    before = w.bytes;
    commit("twenty-four-bytes-of-id-", "t", 1, 1);
    is((int64_t) (w.bytes - before), 0, "a second one has its room already");

    a = join(3, "m", "", NULL);
    sync("m", 1, a.id, "x=y");
    before = w.bytes;
    a = join(3, "m", "", NULL);
    ok(w.bytes - before <= 512, "a member that joins: %d",
       (int) (w.bytes - before));

    w.kc.mem.alloc = world_alloc;
    world_end(&w);
}


int
main(void)
{
    test_memory("an id", act_pending);
    test_memory("a first member", act_first);
    test_memory("a static member", act_static);
    test_memory("a member that joins again", act_known);
    test_memory("a member replaced", act_replace);
    test_memory("a member replaced in a round", act_replace_other);
    test_memory("an assignment", act_sync);
    test_memory("a commit", act_commit);
    test_memory("commits that make arrays grow", act_commit_more);
    test_memory("the last one leaves", act_leave);

    test_snapshot();
    test_large();
    test_corrupt();
    test_sizes();

    return done_testing();
}
