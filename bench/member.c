/* One member of a group, blocking: for modes that need a group to be there. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load.h"


#define TRIES  600
#define PAUSE  50000                    /* us */


void
coordinator_ready(int fd, const char *key, int8_t type)
{
    int       i;
    answer_t  a;

    for (i = 0; i < TRIES; i++) {
        ask_once(fd, 10, wire_find_coordinator(key, type), &a);

        if (a.error == KF_ERR_NONE) {
            return;
        }

        usleep(PAUSE);
    }

    fail("no coordinator: %s", a.message);
}


void
member_join(int fd, member_t *m, const char *name)
{
    int       i;
    answer_t  a;

    memset(m, 0, sizeof(member_t));
    snprintf(m->group, sizeof(m->group), "%s", name);

    coordinator_ready(fd, m->group, 0);

    for (i = 0; i < TRIES; i++) {
        ask_once(fd, 11, wire_join_group(m, opt.topic, 0), &a);
        wire_joined(m, &a);

        if (a.error == KF_ERR_MEMBER_ID_REQUIRED) {
            continue;
        }

        if (a.error == KF_ERR_NONE) {
            ask_once(fd, 14, wire_sync_group(m, opt.topic), &a);
        }

        if (a.error == KF_ERR_NONE) {
            return;
        }

        if (!is_passing(a.error)) {
            break;
        }

        usleep(PAUSE);
    }

    fail("cannot join %s: %s", name, a.message);
}


void
member_leave(int fd, member_t *m)
{
    answer_t  a;

    ask_once(fd, 13, wire_leave_group(m), &a);

    if (a.error) {
        fail("cannot leave %s: %s", m->group, a.message);
    }

    free(m->members);
    m->members = NULL;
}
