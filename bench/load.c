/*
 * A load generator that costs little: ready-made requests over bare
 * connections, one line of JSON.  It speaks Kafka to a broker, or the floor's
 * mini protocol (floor/floor.h).
 *
 *   load MODE [options]          (usage() lists both)
 *
 * One thread and one epoll loop, so that it takes the same of the machine
 * whatever it loads.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load.h"
#include "net.h"


static const mode_name_t  modes[] = {
    { "produce", MODE_PRODUCE, 0, stream_run },
    { "fetch", MODE_FETCH, 1, stream_run },
    { "list-offsets", MODE_LIST_OFFSETS, 2, stream_run },
    { "api-versions", MODE_API_VERSIONS, 18, stream_run },
    { "heartbeat", MODE_HEARTBEAT, 12, stream_run },
    { "offset-commit", MODE_OFFSET_COMMIT, 8, stream_run },
    { "txn", MODE_TXN, 26, txn_run },
    { "group", MODE_GROUP, 11, group_run },
    { "zone", MODE_ZONE, 8, zone_run },
    { "idle", MODE_IDLE, 18, control_idle },
    { "create", MODE_CREATE, 19, control_topic },
    { "delete", MODE_DELETE, 20, control_topic },
    { "ready", MODE_READY, 18, control_ready },
    { "tree", MODE_TREE, 0, control_tree }
};

options_t  opt = {
    .label = "", .conns = 1, .depth = 1, .record_bytes = 1024, .acks = -1,
    .topic = "bench", .partitions = 1, .seconds_max = 10,
    .fetch_bytes = 1 << 20, .passes = 1, .heartbeat_ms = 3000
};


static void
usage(void)
{
    fprintf(stderr,
"usage: load MODE [options]\n"
"  produce        ready-made batches     fetch         whole partitions\n"
"  list-offsets, api-versions, heartbeat, offset-commit   small requests\n"
"  txn            transactions (-i: that read-process-write)\n"
"  group          -n members: all join, all join again, one leaves, one comes\n"
"  zone           memory of groups, members and offsets in the shared zone\n"
"  idle           memory of connections  tree          memory and CPU of -P\n"
"  create         a topic (-o NAME=VALUE)              delete  a topic\n"
"  ready          wait for the first answer (-S: epoch seconds of the start)\n"
"  -a HOST:PORT   -f (floor's protocol)  -l LABEL      -w PEER\n"
"  -P PID of the peer\n"
"  -n CONNS       -d IN_FLIGHT           -q REQUESTS   -s SECONDS\n"
"  -b BATCH_BYTES (0: one record)        -r RECORD_BYTES\n"
"  -z CODEC 0-4   -k ACKS                -t TOPIC      -p PARTITIONS\n"
"  -i INPUT_TOPIC -h HEARTBEAT_MS\n"
"  -R REQUESTS_A_SECOND                  -m FETCH_BYTES\n"
"  -F FILE_BYTES of the floor            -x PASSES\n");
    exit(2);
}


static void
address(const char *s)
{
    char         host[64];
    const char  *colon = strrchr(s, ':');

    opt.addr.sin_family = AF_INET;

    if (colon == NULL || colon - s >= (ptrdiff_t) sizeof(host)) {
        usage();
    }

    memcpy(host, s, (size_t) (colon - s));
    host[colon - s] = '\0';
    opt.addr.sin_port = htons((uint16_t) atoi(colon + 1));

    if (inet_pton(AF_INET, host, &opt.addr.sin_addr) != 1) {
        usage();
    }
}


static void
options(int argc, char **argv)
{
    int     c;
    size_t  i;

    for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            opt.mode = &modes[i];
        }
    }

    if (opt.mode == NULL) {
        usage();
    }

    optind = 2;

    while ((c = getopt(argc, argv,
                       "a:fl:w:P:n:d:q:s:b:r:z:k:t:i:p:R:m:F:x:h:S:o:")) != -1)
    {
        switch (c) {
        case 'a': address(optarg); break;
        case 'f': opt.floor = true; break;
        case 'l': opt.label = optarg; break;
        case 'w': opt.peer = optarg; break;
        case 'P': opt.pid = atoi(optarg); break;
        case 'n': opt.conns = atoi(optarg); break;
        case 'd': opt.depth = atoi(optarg); break;
        case 'q': opt.requests_max = atoll(optarg); break;
        case 's': opt.seconds_max = atof(optarg); break;
        case 'b': opt.batch_bytes = strtoul(optarg, NULL, 10); break;
        case 'r': opt.record_bytes = strtoul(optarg, NULL, 10); break;
        case 'z': opt.codec = (kf_codec_t) atoi(optarg); break;
        case 'k': opt.acks = (int16_t) atoi(optarg); break;
        case 't': opt.topic = optarg; break;
        case 'i': opt.input = optarg; break;
        case 'p': opt.partitions = atoi(optarg); break;
        case 'R': opt.rate = atof(optarg); break;
        case 'm': opt.fetch_bytes = atoi(optarg); break;
        case 'F': opt.file_bytes = atoll(optarg); break;
        case 'x': opt.passes = atoi(optarg); break;
        case 'h': opt.heartbeat_ms = atoi(optarg); break;
        case 'S': opt.since = atof(optarg); break;

        case 'o':
            if (opt.configs_n == CONFIGS_MAX) {
                usage();
            }
            opt.configs[opt.configs_n++] = optarg;
            break;

        default: usage();
        }
    }

    if (opt.mode->mode == MODE_FETCH) {
        opt.depth = 1;
    }

    if (opt.peer == NULL) {
        opt.peer = opt.floor ? "floor" : "broker";
    }

    if (opt.conns < 1 || opt.partitions < 1 || opt.depth < 1
        || opt.depth > NET_DEPTH_MAX || opt.passes < 1 || opt.heartbeat_ms < 1
        || (opt.addr.sin_family == 0 && opt.mode->mode != MODE_TREE))
    {
        usage();
    }
}


int
main(int argc, char **argv)
{
    struct rlimit  files;

    options(argc, argv);

    (void) prctl(PR_SET_TIMERSLACK, 1000);

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
    }

    opt.mode->run();

    return 0;
}
