/*
 * DescribeGroups, ListGroups, DeleteGroups.
 */

#include "coordinator_group_lib.h"


static kf_list_groups_response_t
list(const char *states, const char *types)
{
    kf_str_t                   one[8], two[8];
    kf_list_groups_request_t   req;
    kf_list_groups_response_t  rsp;

    memset(&req, 0, sizeof(req));
    req.states_filter_n = pairs(states, ':', one, two);
    req.states_filter = two;

    if (types) {
        one[0] = str(types);
        req.types_filter = one;
        req.types_filter_n = 1;
    }

    if (kc_list_groups(&w.kc, &w.call, 5, &req, &rsp) != KC_OK) {
        abort();
    }

    return rsp;
}


static void
test_list(void)
{
    join_t                     a;
    kf_list_groups_response_t  r;

    r = list(NULL, NULL);
    is(r.groups_n, 0, "no groups");

    commit("simple", "t", 0, 1);
    a = join2("stable");
    sync("stable", 1, a.id, NULL);
    ptype = "connect";
    join2("waits");
    ptype = "consumer";

    r = list(NULL, NULL);
    is(r.error_code, 0, "no error");
    is(r.groups_n, 3, "three groups");
    is_str(c(r.groups[0].group_id), "simple", "in order of ids");
    is_str(c(r.groups[0].protocol_type), "", "a simple group has no type");
    is_str(c(r.groups[0].group_state), "Empty", "and is empty");
    is_str(c(r.groups[0].group_type), "classic", "and classic");
    is_str(c(r.groups[1].group_state), "Stable", "stable");
    is_str(c(r.groups[1].protocol_type), "consumer", "of consumers");
    is_str(c(r.groups[2].group_state), "CompletingRebalance", "waits");
    is_str(c(r.groups[2].protocol_type), "connect", "of another kind");
    is(w.call.wait, w.end, "the answer waits for the last change of any");

    is(list(":Stable", NULL).groups_n, 1, "one is stable");
    is(list(":STABLE,: empty ", NULL).groups_n, 2, "blanks and case aside");
    is(list(":Stab", NULL).groups_n, 0, "not by a part");
    is(list(":weird", NULL).groups_n, 0, "nor by what does not exist");
    is(list(NULL, "Classic").groups_n, 3, "classic ones");
    is(list(NULL, "consumer").groups_n, 0, "no other types");
    is(list(":Stable", "classic").groups_n, 1, "both");
    wrote();
}


static void
test_describe(void)
{
    kf_str_t                       names[] = { s("stable"), s("none"), s("") };
    kf_describe_groups_request_t   req = { names, 3, true };
    kf_describe_groups_response_t  rsp;

    is(kc_describe_groups(&w.kc, &w.call, 6, &req, &rsp), KC_OK, "three");
    is(rsp.groups_n, 3, "are answered");
    is(rsp.groups[0].error_code, 0, "one is there");
    is(rsp.groups[0].members_n, 1, "with a member");
    is(rsp.groups[0].authorized_operations, 3400, "and what may be done");
    is(rsp.groups[1].error_code, KF_ERR_GROUP_ID_NOT_FOUND, "one is not");
    is_str(c(rsp.groups[1].group_state), "Dead", "dead");
    is_str(c(rsp.groups[1].error_message), "Group none not found.", "a text");
    is(rsp.groups[1].authorized_operations, INT32_MIN, "nothing may be done");
    is(rsp.groups[2].error_code, KF_ERR_GROUP_ID_NOT_FOUND, "nor is \"\"");

    is(kc_describe_groups(&w.kc, &w.call, 5, &req, &rsp), KC_OK, "version 5");
    is(rsp.groups[1].error_code, 0, "says no error");
    is_str(c(rsp.groups[1].group_state), "Dead", "but dead");
    ok(rsp.groups[1].error_message.data == NULL, "and no text");

    is(describe("waits").members_n, 1, "before the assignment");
    is_str(c(describe("waits").protocol_data), "", "no protocol is shown");
    is_str(c(describe("waits").members[0].member_metadata), "",
           "and no metadata");
    req.groups_n = 0;
    is(kc_describe_groups(&w.kc, &w.call, 5, &req, &rsp), KC_OK, "none");
    is(rsp.groups_n, 0, "nothing");
}


static void
test_delete(void)
{
    join_t                       p;
    kf_str_t                     names[] = { s("simple"), s("none"),
                                             s("stable"), s("simple"),
                                             s("pending") };
    kf_delete_groups_request_t   req = { names, 5 };
    kf_delete_groups_response_t  rsp;

    p = join(5, "pending", "", NULL);
    wrote();
    is(kc_delete_groups(&w.kc, &w.call, 3, &req, &rsp), KC_OK, "five names");
    is(rsp.results_n, 4, "one of them twice");
    is(rsp.results[0].error_code, 0, "an empty group");
    is(rsp.results[1].error_code, KF_ERR_GROUP_ID_NOT_FOUND, "none");
    is_str(c(rsp.results[1].error_message), "Group none not found.", "a text");
    is(rsp.results[2].error_code, KF_ERR_NON_EMPTY_GROUP, "one with members");
    ok(rsp.results[2].error_message.data != NULL, "a text");
    is_str(c(rsp.results[3].group_id), "pending", "one of ids alone");
    is(rsp.results[3].error_code, 0, "goes");
    is_str(wrote(), "DeleteGroup", "one is journaled");
    is(w.call.wait, w.end, "and waited for");
    is(fetch("simple", "t", 0), -1, "offsets are gone with it");
    is(w.call.wait, w.end, "as everybody hears who waits for the deletion");
    is_str(state("pending"), "Dead", "nothing is left");
    is(join(5, "pending", p.id, NULL).rsp.error_code,
       KF_ERR_UNKNOWN_MEMBER_ID, "the id with it");

    names[0] = s("none");
    req.groups_names_n = 1;
    is(kc_delete_groups(&w.kc, &w.call, 2, &req, &rsp), KC_OK, "version 2");
    ok(rsp.results[0].error_message.data == NULL, "no text");
    req.groups_names_n = 0;
    is(kc_delete_groups(&w.kc, &w.call, 2, &req, &rsp), KC_OK, "none");
    is(rsp.results_n, 0, "nothing");
    world_check(&w, "delete");
}


int
main(void)
{
    world_start(&w);
    create(&w, "t", 4, NULL);

    test_list();
    test_describe();
    test_delete();

    world_end(&w);

    return done_testing();
}
