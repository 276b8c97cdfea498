/*
 * `config NAME VALUE` lines of nginx.conf: which names belong there, nginx's
 * units, and for every wrong line a text that says what to write instead.
 */

#include <stdio.h>

#include "kc_int.h"
#include "kc_config_def.h"


/*
 * Names of a Kafka server.properties that are something else here.  A name that
 * ends in '.' or '_' stands for all that begin with it; the first match counts.
 */
static const struct {
    const char  *name;
    const char  *instead;
} kc_elsewhere[] = {
    { "log.dirs", "write \"data DIR;\" in this block" },
    { "log.dir", "write \"data DIR;\" in this block" },
    { "metadata.log.dir", "leave it out: metadata lies in the \"data\" "
      "directory too" },
    { "node.id", "write \"node_id N;\" in this block" },
    { "broker.id", "write \"node_id N;\" in this block" },
    { "listeners", "write \"listen PORT;\" in a server block of stream{}" },
    { "advertised.listeners", "write \"kafka_advertise HOST:PORT;\" in the "
      "server block" },
    { "listener.", "write \"listen PORT;\" or \"listen PORT ssl;\" in a server "
      "block of stream{}" },
    { "early.start.listeners", "leave it out" },
    { "inter.broker.listener.name", "leave it out: there is one broker" },
    { "security.inter.broker.protocol", "leave it out: there is one broker" },
    { "port", "write \"listen PORT;\" in a server block of stream{}" },
    { "host.name", "write \"listen ADDRESS:PORT;\" in a server block of "
      "stream{}" },
    { "process.roles", "leave it out: the broker is its own controller" },
    { "controller.", "leave it out: the broker is its own controller" },
    { "zookeeper.", "leave it out: there is no ZooKeeper" },
    { "broker.rack", "leave it out: there is one broker" },
    { "broker.", "leave it out: there is one broker" },
    { "num.network.threads", "see nginx's \"worker_processes\"" },
    { "num.io.threads", "see nginx's \"worker_processes\" and "
      "\"thread_pool\"" },
    { "background.threads", "see nginx's \"thread_pool\"" },
    { "num.recovery.threads.per.data.dir", "see nginx's \"thread_pool\"" },
    { "num.replica.", "leave it out: there is one broker" },
    { "replica.", "leave it out: there is one broker" },
    { "replication.", "leave it out: there is one broker" },
    { "leader.", "leave it out: there is one broker" },
    { "auto.leader.rebalance.enable", "leave it out: there is one broker" },
    { "socket.send.buffer.bytes", "write \"sndbuf=SIZE\" on the \"listen\" "
      "line" },
    { "socket.receive.buffer.bytes", "write \"rcvbuf=SIZE\" on the \"listen\" "
      "line" },
    { "socket.listen.backlog.size", "write \"backlog=N\" on the \"listen\" "
      "line" },
    { "max.connections", "see nginx's \"limit_conn\" and "
      "\"worker_connections\"" },
    { "max.connection", "see nginx's \"limit_conn\"" },
    { "ssl.", "write nginx's ssl directives (ssl_certificate, …) in the server "
      "block" },
    { "sasl.", "leave it out: SASL is not supported by this version" },
    { "authorizer.class.name", "leave it out: ACLs are not supported by this "
      "version; see nginx's \"allow\" and \"deny\"" },
    { "super.users", "leave it out: ACLs are not supported by this version" },
    { "remote.", "leave it out: tiered storage is not supported" },
    { "log.remote.", "leave it out: tiered storage is not supported" },
    { "log.local.", "leave it out: tiered storage is not supported" },
    { "offsets.", "leave it out: offsets are kept in the broker's journal" },
    { "group.", "leave it out: there is nothing that it would tune here" },
    { "transaction", "leave it out: transactions are kept in the broker's "
      "journal" },
    { "share.coordinator.", "leave it out: share groups are not supported by "
      "this version" },
    { "queued.max.", "leave it out: what a worker buffers is bounded anyway" },
    { "metric", "leave it out: see the $kafka_ variables and the error log" },
    { "kafka.metrics.", "leave it out: see the $kafka_ variables and the error "
      "log" },
    { "log.cleaner.", "leave it out: it tunes Kafka's own cleaner threads" },
    { "log.message.format.version", "leave it out: it is gone from Kafka too" },
    { "inter.broker.protocol.version", "leave it out: it is gone from Kafka "
      "too" },
    { "log.flush.", "leave it out: recovery points are written every minute" },
    { "quota.", "leave it out: quotas are not supported" },
    { "client.quota.", "leave it out: quotas are not supported" },
    { "confluent.", "leave it out: it is not one of Apache Kafka's" },
};


/* Edits from a to b, or more than `most`. */
static uint32_t
kc_distance(kf_str_t a, kf_str_t b, uint32_t most)
{
    uint32_t  row[128], i, j, diagonal, above, best;

    if (b.len >= sizeof(row) / sizeof(row[0])
        || a.len > b.len + most || b.len > a.len + most)
    {
        return most + 1;
    }

    for (j = 0; j <= b.len; j++) {
        row[j] = j;
    }

    for (i = 1; i <= a.len; i++) {
        diagonal = row[0];
        row[0] = i;

        for (j = 1; j <= b.len; j++) {
            above = row[j];
            best = diagonal + (a.data[i - 1] != b.data[j - 1]);

            if (above + 1 < best) {
                best = above + 1;
            }

            if (row[j - 1] + 1 < best) {
                best = row[j - 1] + 1;
            }

            row[j] = best;
            diagonal = above;
        }
    }

    return row[b.len];
}


static const char *
kc_nearest(kf_str_t name)
{
    uint32_t     i, j, d, best;
    const char  *nearest = NULL;

    best = name.len / 4 + 2;

    for (i = 0; i < KC_BROKER_CONFIGS; i++) {
        d = kc_distance(name, kc_cstr(kc_broker_defs[i].name), best);

        if (d < best) {
            best = d;
            nearest = kc_broker_defs[i].name;
        }
    }

    for (i = 0; i < kc_topic_defs_n; i++) {
        for (j = 0; j < KC_SYNONYMS && kc_topic_defs[i].synonyms[j].factor; j++)
        {
            d = kc_distance(name, kc_cstr(kc_topic_defs[i].synonyms[j].name),
                            best);

            if (d < best) {
                best = d;
                nearest = kc_topic_defs[i].synonyms[j].name;
            }
        }
    }

    return nearest;
}


static const char *
kc_instead(kf_str_t name)
{
    size_t    len;
    uint32_t  i;

    for (i = 0; i < sizeof(kc_elsewhere) / sizeof(kc_elsewhere[0]); i++) {
        len = strlen(kc_elsewhere[i].name);

        if (name.len >= len
            && memcmp(name.data, kc_elsewhere[i].name, len) == 0
            && (name.len == len || kc_elsewhere[i].name[len - 1] == '.'
                || name.data[len] == '.'
                || strcmp(kc_elsewhere[i].name, "transaction") == 0
                || strcmp(kc_elsewhere[i].name, "metric") == 0))
        {
            return kc_elsewhere[i].instead;
        }
    }

    return NULL;
}


static const char *
kc_unknown(kf_str_t name, char *buf, size_t size)
{
    const char      *text;
    const kc_def_t  *def = kc_topic_def(name);

    if (def && def->synonyms[0].factor) {
        snprintf(buf, size, "\"%s\" is a topic's own config; what sets its "
                 "default for a broker is called \"%s\"", def->name,
                 def->synonyms[0].name);
        return buf;
    }

    if (def) {
        snprintf(buf, size, "\"%s\" can only be set on a topic", def->name);
        return buf;
    }

    text = kc_instead(name);

    if (text) {
        snprintf(buf, size, "\"%.*s\" is not a config of this broker: %s",
                 (int) name.len, name.data, text);
        return buf;
    }

    text = kc_nearest(name);

    if (text) {
        snprintf(buf, size, "unknown config \"%.*s\"; did you mean \"%s\"?",
                 (int) name.len, name.data, text);

    } else {
        snprintf(buf, size, "unknown config \"%.*s\"; "
                 "the README lists the names", (int) name.len, name.data);
    }

    return buf;
}


static int64_t
kc_unit_factor(kc_unit_t unit, kf_str_t s, uint32_t *len)
{
    static const struct {
        const char  *text;
        int64_t      factor;
    } times[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
        { "d", 86400000 }, { "w", 604800000 }, { "M", 2592000000 },
        { "y", 31536000000 }
    };

    uint32_t  i, n;

    if (unit == KC_BYTES) {
        *len = 1;

        switch (s.data[0] | 0x20) {
        case 'k': return (int64_t) 1 << 10;
        case 'm': return (int64_t) 1 << 20;
        case 'g': return (int64_t) 1 << 30;
        }

        return 0;
    }

    for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        n = (uint32_t) strlen(times[i].text);

        if (s.len >= n && memcmp(s.data, times[i].text, n) == 0) {
            *len = n;
            return times[i].factor;
        }
    }

    return 0;
}


/*
 * "64m", "7d", "1h30m" in Kafka's own unit.  0: nothing to translate, -1: not a
 * size or time, 1: *out has the number.
 */
static int
kc_units(kc_unit_t unit, kf_str_t s, int64_t *out)
{
    int64_t   n, factor, total = 0;
    uint32_t  len;

    if (unit == KC_PLAIN || s.len == 0
        || (s.data[s.len - 1] >= '0' && s.data[s.len - 1] <= '9'))
    {
        return 0;
    }

    while (s.len) {

        for (n = 0, len = 0; len < s.len && s.data[len] >= '0'
                             && s.data[len] <= '9'; len++)
        {
            if (n > (INT64_MAX - 9) / 10) {
                return -1;
            }

            n = n * 10 + (s.data[len] - '0');
        }

        if (len == 0 || len == s.len) {
            return -1;
        }

        s.data += len;
        s.len -= len;

        factor = kc_unit_factor(unit, s, &len);

        if (factor == 0 || n > (INT64_MAX - total) / factor
            || (unit == KC_BYTES && len != s.len))
        {
            return -1;
        }

        total += n * factor;
        s.data += len;
        s.len -= len;
    }

    *out = total;

    return 1;
}


const char *
kc_static_check(kf_str_t name, kf_str_t value, kf_str_t *out, char *buf,
    size_t buf_size, char *buf2, size_t buf2_size)
{
    int                  rc;
    char                 problem[128];
    int64_t              n;
    kc_value_t           v;
    const kc_def_t      *def;
    const kc_synonym_t  *syn;

    def = kc_broker_def(name, &syn);

    if (def == NULL) {
        return kc_unknown(name, buf, buf_size);
    }

    *out = value;

    rc = kc_units(def->unit, value, &n);

    /* Hours are hours: 7d under log.retention.hours would be a riddle. */
    if (syn && syn->factor != 1 && rc != 0) {
        snprintf(buf, buf_size, "invalid value \"%.*s\" of \"%s\": it is a "
                 "plain number; units can be used with \"%s\"",
                 (int) value.len, value.data, syn->name,
                 def->synonyms[0].name);
        return buf;
    }

    if (rc < 0) {
        snprintf(buf, buf_size, "invalid value \"%.*s\" of \"%.*s\": it is "
                 "%s such as %s", (int) value.len, value.data, (int) name.len,
                 name.data,
                 def->unit == KC_MS ? "milliseconds or a time" : "bytes or a "
                 "size",
                 def->unit == KC_MS ? "7d or 1h30m" : "64m or 1g");
        return buf;
    }

    if (rc > 0) {
        snprintf(buf2, buf2_size, "%lld", (long long) n);
        *out = kc_cstr(buf2);
    }

    if (kc_value_parse(def, syn, *out, &v, problem, sizeof(problem))) {
        snprintf(buf, buf_size, "invalid value \"%.*s\" of \"%.*s\": %s",
                 (int) value.len, value.data, (int) name.len, name.data,
                 problem);
        return buf;
    }

    if (rc == 0) {
        if (v.len >= buf2_size) {
            snprintf(buf, buf_size, "the value of \"%.*s\" is too long",
                     (int) name.len, name.data);
            return buf;
        }

        memcpy(buf2, v.text, v.len + 1);
        *out = (kf_str_t) { (const uint8_t *) buf2, v.len };
    }

    return NULL;
}
