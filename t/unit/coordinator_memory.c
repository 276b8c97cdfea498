/*
 * Memory: an allocator that fails at the n-th allocation, for every n, during
 * every kind of decision.  Either nothing has changed or everything has;
 * nothing leaks; and a replay that follows an append never allocates in vain.
 */

#include "coordinator_lib.h"


static void
setup(world_t *w)
{
    int64_t  wait;

    world_start(w);
    kc_bootstrap(&w->kc, NOW, &wait);
    create(w, "old", 2, NULL);
    create(w, "other", 1, NULL);
}


static kc_rc_t
act_create(world_t *w)
{
    int32_t                             i;
    kf_create_topics_request_t          req;
    kf_create_topics_response_t         rsp;
    kf_create_topics_request_topics_t   t[3];
    kf_create_topics_request_configs_t  e[2] = {
        { s("retention.ms"), s("5") }, { s("cleanup.policy"), s("compact") }
    };

    memset(&req, 0, sizeof(req));
    memset(t, 0, sizeof(t));

    for (i = 0; i < 3; i++) {
        t[i].num_partitions = i + 1;
        t[i].replication_factor = 1;
        t[i].configs = e;
        t[i].configs_n = i;
    }

    t[0].name = s("n0");
    t[1].name = s("n1");
    t[2].name = s("n2");
    req.topics = t;
    req.topics_n = 3;

    return kc_create_topics(&w->kc, &w->call, &req, &rsp);
}


static kc_rc_t
act_auto(world_t *w)
{
    int16_t  error;

    return kc_auto_create_topic(&w->kc, &w->call, s("auto"), &error);
}


static kc_rc_t
act_delete(world_t *w)
{
    return delete(w, "old") == 0 ? KC_OK : KC_NO_MEMORY;
}


static kc_rc_t
act_producer(world_t *w)
{
    kf_init_producer_id_request_t   req;
    kf_init_producer_id_response_t  rsp;

    kf_init_init_producer_id_request(&req);

    return kc_init_producer_id(&w->kc, &w->call, &req, &rsp);
}


static kc_rc_t
act_epoch(world_t *w)
{
    int64_t  wait;

    return kc_raise_leader_epoch(&w->kc, NOW, &wait);
}


static void
test(kc_rc_t (*act)(world_t *w), const char *name, int least)
{
    int       n, bound, live, count;
    bool      done = false, torn = false, leak = false;
    kc_rc_t   rc;
    world_t   w;
    uint64_t  before, after;

    for (n = 1; n < 100 && !done; n++) {
        setup(&w);
        before = kc_hash(&w.kc);
        bound = w.bound;
        live = w.live;
        count = w.count;

        w.fail_in = n;
        rc = act(&w);
        done = w.fail_in > 0;
        w.fail_in = 0;

        after = kc_hash(&w.kc);

        if (rc == KC_NO_MEMORY) {
            torn |= after != before || w.count != count;
            leak |= w.bound != bound || w.live != live;
            torn |= done;
            /* and the next attempt is good */
            torn |= act(&w) != KC_OK;

        } else {
            torn |= rc != KC_OK || after == before || w.count != count + 1;
        }

        torn |= kc_check(&w.kc) != NULL;

        if (n == 1 || done) {
            world_check(&w, name);
        }

        kc_state_free(&w.kc);
        kc_done(&w.kc);
        kf_heap_free(&w.heap);
        leak |= w.live != 0;

        while (w.count) {
            free(w.batches[--w.count]);
        }
    }

    ok(done && !torn, "%s: all or nothing, for each of %d allocations", name,
       n - 2);
    ok(!leak, "%s: nothing leaks", name);
    ok(n - 2 >= least, "%s: takes what it should", name);
}


int
main(void)
{
    /* a topic: object, slots, overrides */
    test(act_create, "create", 3 * 2 + 2);
    test(act_auto, "auto", 2);
    test(act_delete, "delete", 0);
    test(act_producer, "producer ids", 0);
    test(act_epoch, "leader epoch", 0);

    return done_testing();
}
