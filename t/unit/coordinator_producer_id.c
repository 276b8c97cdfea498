/*
 * Producer ids: blocks, durability, and that none is given twice.
 */

#include "coordinator_lib.h"


static int64_t
init(world_t *w, kf_init_producer_id_response_t *rsp)
{
    kf_init_producer_id_request_t  req;

    kf_init_init_producer_id_request(&req);
    req.transactional_id = kf_null_str;

    return kc_init_producer_id(&w->kc, &w->call, &req, rsp) == KC_OK
           ? rsp->producer_id : -100;
}


int
main(void)
{
    int                             i, consecutive = 1, waits = 1;
    world_t                         w, r;
    int64_t                         last, id;
    kf_init_producer_id_request_t   req;
    kf_init_producer_id_response_t  rsp;

    world_start(&w);

    is(init(&w, &rsp), 0, "the first id");
    is(rsp.producer_epoch, 0, "has epoch 0");
    is(rsp.error_code, 0, "and no error");
    is(w.end, 1, "a block is journaled");
    is(w.call.wait, 1, "and waited for");

    for (last = 0, i = 1; i < 1000; i++) {
        id = init(&w, &rsp);
        consecutive &= id == last + 1;
        waits &= w.call.wait == 1;
        last = id;
    }

    ok(consecutive, "a thousand ids in a row");
    ok(waits, "each waits for its block's record");
    is(w.end, 1, "from one record");
    is(init(&w, &rsp), 1000, "the next block");
    is(w.end, 2, "has a record");
    is(w.call.wait, 2, "which the answer waits for");

    world_start(&r);
    is(world_replay(&w, &r), KC_OK, "after a recovery");
    is(init(&r, &rsp), 2000, "ids go on behind the last block");
    world_check(&w, "producer ids");
    world_end(&r);

    w.journal_fails = true;
    for (i = 0; i < 999; i++) {
        init(&w, &rsp);
    }
    is(init(&w, &rsp), -100, "without a journal there is no new block");
    w.journal_fails = false;
    is(init(&w, &rsp), 2000, "with it there is");

    kf_init_init_producer_id_request(&req);
    req.transactional_id = s("");
    kc_init_producer_id(&w.kc, &w.call, &req, &rsp);
    is(rsp.error_code, KF_ERR_INVALID_REQUEST, "an empty transactional id");
    is(rsp.producer_id, -1, "gets no id");

    /* what idempotent producers of kafka-clients send after an error */
    req.transactional_id = kf_null_str;
    req.producer_id = 7;
    req.producer_epoch = 3;
    kc_init_producer_id(&w.kc, &w.call, &req, &rsp);
    is(rsp.producer_id, 2001, "an id in the request gives a new one");
    is(rsp.producer_epoch, 0, "of epoch 0");

    world_end(&w);

    return done_testing();
}
