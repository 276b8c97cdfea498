/*
 * Creates a topic, lets it be used, deletes it, and does so again under the
 * same name.  An answer that got lost leaves it open whether the thing was
 * done; then the broker is asked, and what it says is a promise as well.
 */

#define _GNU_SOURCE
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    conn_t    conn;
    char      who[96];
    char      name[64];
    uint64_t  random;
    int       number;
} churn_t;


static bool
connected(churn_t *ch)
{
    while (!actor_pause()) {
        if (conn_open(&ch->conn)) {
            return true;
        }

        sleep_ms(30);
    }

    return false;
}


/* Answers the topic made, or NULL when it is time to quit. */
static topic_t *
create(churn_t *ch)
{
    int          error, parts, found;
    bool         lost = false;
    uint8_t      id[16];
    const char  *config[] = {
        "segment.ms", "300", "segment.bytes", "1048576", NULL
    };

    parts = 1 + (int) (rnd(&ch->random) % 3);

    while (connected(ch)) {
        error = ask_create(&ch->conn, ch->name, parts, config, id);

        if (error == 0) {
            return topic_add(ch->name, id, parts, true);
        }

        if (error == ERR_TOPIC_EXISTS) {
            if (!lost) {
                fault("%s: it exists though it was deleted", ch->who);
            }

            error = ask_topic(&ch->conn, ch->name, id, &found, NULL);

            if (error == 0) {
                if (lost && found != parts) {
                    fault("%s: made with %d partitions, has %d", ch->who,
                          parts, found);
                }

                return topic_add(ch->name, id, found, true);
            }

            if (!retriable(error)) {
                fault("%s: metadata answers error %d", ch->who, error);
            }
        }

        lost |= error == LOST || error == ERR_TIMED_OUT
                || error == ERR_STORAGE;

        if (!retriable(error)) {
            fault("%s: create answers error %d", ch->who, error);
        }

        sleep_ms(30);
    }

    return NULL;
}


/* It is gone for everybody at once (in Kafka: soon). */
static void
gone(churn_t *ch, topic_t *t)
{
    int      i, error = 0, parts;
    uint8_t  id[16];

    conn_close(&ch->conn);              /* most likely another worker */

    if (!conn_open(&ch->conn)) {
        return;
    }

    for (i = 0; i < (options.lenient ? 200 : 1); i++) {
        error = ask_topic(&ch->conn, NULL, t->id, &parts, NULL);

        if (error != 0) {
            break;
        }

        sleep_ms(options.lenient ? 25 : 0);
    }

    if (error == LOST) {
        return;
    }

    if (error == 0) {
        fault("%s: its id is still known after it was deleted", ch->who);
    }

    error = ask_topic(&ch->conn, ch->name, id, &parts, NULL);

    if (error == 0 && !options.lenient) {
        fault("%s: it is still there after it was deleted", ch->who);
    }
}


static bool
delete(churn_t *ch, topic_t *t)
{
    int   error;
    bool  lost = false, by_id;

    t->state = TOPIC_DELETING;
    by_id = rnd(&ch->random) & 1;

    while (connected(ch)) {
        error = ask_delete(&ch->conn, by_id ? NULL : t->name, t->id);

        if (error == ERR_UNKNOWN_TOPIC || error == ERR_UNKNOWN_TOPIC_ID) {
            if (!lost) {
                fault("%s: deleting it answers error %d", ch->who, error);
            }

            error = 0;
        }

        if (error == 0) {
            topic_deleted(t);
            gone(ch, t);
            return true;
        }

        lost |= error == LOST || error == ERR_TIMED_OUT
                || error == ERR_STORAGE;

        if (!retriable(error)) {
            fault("%s: delete answers error %d", ch->who, error);
        }

        sleep_ms(30);
    }

    return false;
}


void
churn_run(void *ctx)
{
    int       i, lives;
    churn_t  *ch;
    topic_t  *t;

    ch = calloc(1, sizeof(churn_t));
    if (ch == NULL) {
        abort();
    }

    ch->number = (int) (intptr_t) ctx;
    ch->random = options.seed ^ (uint64_t) ch->number << 48;
    snprintf(ch->name, sizeof(ch->name), "churn.%.20s.%d", options.name,
             ch->number);
    snprintf(ch->who, sizeof(ch->who), "topic %s", ch->name);
    conn_init(&ch->conn, ch->who, &quitting);

    while (!actor_pause()) {
        t = create(ch);
        if (t == NULL) {
            break;
        }

        for (i = 0; i < t->parts_n; i++) {
            producer_begin(&t->parts[i], (i + ch->number) & 1,
                           100 + ch->number * 10 + i);
        }

        actor_begin(consumer_run, t);

        for (lives = (int) (rnd(&ch->random) % 150); lives >= 0; lives--) {
            if (actor_pause()) {
                break;
            }

            sleep_ms(20);
        }

        if (quitting || !delete(ch, t)) {
            break;
        }
    }

    conn_free(&ch->conn);
    free(ch);
}
