/*
 * Load and checker of the soak and power-cut tests: a Kafka client that keeps
 * account of every promise it was given.
 *
 *   load PORT SEED [RATE [lenient]]
 *
 * Commands come one a line on standard input, each answered by one line that
 * starts with "= "; faults are lines that start with "FAULT " or "STALL ".
 *
 *   setup        make the lasting topics, begin all actors (paused)
 *   groups N     the same for groups: topics of their own, N groups
 *   go, pause    let the actors act, or wait until all have stopped
 *   drain        while acting: producers stop, each group comes to the end
 *   check        while paused: everything promised is there
 *   offsets      while paused: of that, only what groups have committed
 *   rotate       delete the oldest lasting topic and make another
 *   storm        many decisions: the journal gets a few segments
 *   patience N   how many seconds a check waits for the broker to answer
 *   port N       the broker is there from now on
 *   stats        what happened so far
 *   quit
 */

#define _GNU_SOURCE
#include "group.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LASTING  2
#define PARTS    3
#define CHURNS   3

/* 240 bytes of journal for each: a journal's segment is 4 MiB */
#define STORM_TOPICS  500
#define STORM_ROUNDS  40

static topic_t  *lasting[LASTING];
static int       lasting_next, generation;


/* A lasting topic: one rolls by size, the other by time. */
static bool
lasting_make(int slot)
{
    int          i, error;
    char         name[64];
    conn_t       conn;
    int64_t      until = now_ms() + 30000;
    uint8_t      id[16];
    topic_t     *t;
    const char  *fat[] = { "segment.bytes", "1048576", NULL };
    const char  *quick[] = { "segment.ms", "200", NULL };

    snprintf(name, sizeof(name), "%s.%.20s.%d", slot ? "quick" : "fat",
             options.name, generation);
    conn_init(&conn, name, NULL);

    for ( ;; ) {
        conn_open(&conn);
        error = ask_create(&conn, name, PARTS, slot ? quick : fat, id);

        if (error == 0) {
            break;
        }

        if (!retriable(error) || now_ms() > until) {
            fault("create of %s answers error %d", name, error);
            conn_free(&conn);
            return false;
        }

        sleep_ms(50);
    }

    conn_free(&conn);

    t = topic_add(name, id, PARTS, generation & 1);
    lasting[slot] = t;
    generation++;

    for (i = 0; i < PARTS; i++) {
        producer_begin(&t->parts[i], true, i * 2 + slot);
        producer_begin(&t->parts[i], false, i * 2 + slot + 1);
    }

    actor_begin(consumer_run, t);
    actor_begin(consumer_run, t);

    return true;
}


static bool
setup(void)
{
    int  i;

    for (i = 0; i < LASTING; i++) {
        if (!lasting_make(i)) {
            return false;
        }
    }

    for (i = 0; i < CHURNS; i++) {
        actor_begin(churn_run, (void *) (intptr_t) i);
    }

    return true;
}


static bool
rotate(void)
{
    int       error, slot = lasting_next++ % LASTING;
    conn_t    conn;
    topic_t  *t = lasting[slot];

    conn_init(&conn, "rotate", NULL);
    t->state = TOPIC_DELETING;

    if (!conn_open(&conn) || (error = ask_delete(&conn, t->name, t->id)) != 0) {
        fault("deleting %s failed", t->name);
        conn_free(&conn);
        return false;
    }

    conn_free(&conn);
    topic_deleted(t);

    return lasting_make(slot);
}


/* Many topics with long names in one request; delete: away with them. */
static int
storm_request(conn_t *conn, int round, bool delete)
{
    int      i, n, error, first = 0;
    char     name[256];
    in_t     in;
    out_t    o = { NULL, 0, 0 };
    bool     good;
    uint8_t  none[16] = { 0 };

    error = 0;
    request_begin(conn, &o, delete ? API_DELETE_TOPICS : API_CREATE_TOPICS,
                  delete ? 6 : 7);
    put_count(&o, STORM_TOPICS);

    for (i = 0; i < STORM_TOPICS; i++) {
        snprintf(name, sizeof(name), "storm.%.20s.%0200d.%d", options.name,
                 round, i);
        put_str(&o, name);

        if (delete) {
            put(&o, none, 16);

        } else {
            put_i32(&o, 1);
            put_i16(&o, 1);
            put_count(&o, 0);
            put_count(&o, 0);
        }

        put_tags(&o);
    }

    put_i32(&o, 30000);

    if (!delete) {
        put_i8(&o, 0);
    }

    put_tags(&o);

    good = call(conn, &o, &in);
    free(o.data);

    if (!good) {
        return LOST;
    }

    get_i32(&in);
    n = get_count(&in);

    for (i = 0; i < n && !in.bad; i++) {
        get_str(&in, name, sizeof(name));
        get(&in, 16);
        error = get_i16(&in);
        get_str(&in, name, sizeof(name));

        if (!delete) {
            get_i32(&in);
            get_i16(&in);
            break;                              /* the first will do */
        }

        get_tags(&in);
        first = first ? first : error;
    }

    return in.bad || n != STORM_TOPICS ? LOST : first ? first : error;
}


/* Decisions that fill several megabytes of a journal and leave nothing. */
static bool
storm(void)
{
    int         i, error = 0;
    conn_t      conn;
    static int  round;

    conn_init(&conn, "storm", NULL);

    for (i = 0; i < STORM_ROUNDS && error == 0; i++, round++) {
        if (!conn_open(&conn)) {
            error = LOST;
            break;
        }

        error = storm_request(&conn, round, false);

        if (error == 0) {
            error = storm_request(&conn, round, true);
        }
    }

    conn_free(&conn);

    if (error) {
        fault("storm: error %d", error);
    }

    return error == 0;
}


static void
stats(void)
{
    printf("= faults=%" PRIu64 " stalls=%" PRIu64 " acked=%" PRIu64
           " records=%" PRIu64 " seen=%" PRIu64 " fetches=%" PRIu64
           " retries=%" PRIu64 " errors=%" PRIu64 " created=%" PRIu64
           " deleted=%" PRIu64,
           counters.faults, counters.stalls, counters.batches_acked,
           counters.records_acked, counters.records_seen, counters.fetches,
           counters.retries, counters.errors, counters.created,
           counters.deleted);

    if (groups) {
        groups_stats();
    }

    putchar('\n');
}


int
main(int argc, char **argv)
{
    bool  good;
    char  line[256];

    if (argc < 3) {
        fprintf(stderr, "usage: load PORT SEED [RATE [lenient]]\n");
        return 2;
    }

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);

    wire_port = atoi(argv[1]);
    options.seed = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull;
    options.rate = argc > 3 ? atoi(argv[3]) : 50;
    options.name = argv[2];
    options.patience = 60;
    options.lenient = argc > 4;
    paused = true;

    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';

        if (strcmp(line, "setup") == 0) {
            printf("= %s\n", setup() ? "ok" : "failed");

        } else if (strncmp(line, "groups ", 7) == 0) {
            printf("= %s\n", groups_setup(atoi(line + 7)) ? "ok" : "failed");

        } else if (strcmp(line, "go") == 0) {
            dry = false;
            actors_pause(false);
            printf("= ok\n");

        } else if (strcmp(line, "pause") == 0) {
            actors_pause(true);
            printf("= ok\n");

        } else if (strcmp(line, "check") == 0) {
            good = check_all();
            printf("= %s\n", groups_check() && good ? "ok" : "failed");

        } else if (strcmp(line, "offsets") == 0) {
            printf("= %s\n", groups_check() ? "ok" : "failed");

        } else if (strcmp(line, "drain") == 0) {
            dry = true;
            printf("= %s\n", groups_drain() ? "ok" : "failed");

        } else if (strcmp(line, "rotate") == 0) {
            printf("= %s\n", rotate() ? "ok" : "failed");

        } else if (strcmp(line, "storm") == 0) {
            printf("= %s\n", storm() ? "ok" : "failed");

        } else if (strncmp(line, "patience ", 9) == 0) {
            options.patience = atoi(line + 9);
            printf("= ok\n");

        } else if (strncmp(line, "port ", 5) == 0) {
            wire_port = atoi(line + 5);
            printf("= ok\n");

        } else if (strcmp(line, "stats") == 0) {
            stats();

        } else if (strcmp(line, "quit") == 0) {
            break;

        } else {
            printf("= what\n");
        }
    }

    actors_quit();
    stats();

    return counters.faults ? 1 : 0;
}
