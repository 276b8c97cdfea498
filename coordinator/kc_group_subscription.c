/*
 * What the members of a consumer group subscribe to, read from the metadata of
 * the generation in force (ConsumerProtocolSubscription).  Versions to come
 * only append to it, so that a newer one is read as the last one known, and
 * bytes behind are left alone.
 */

#include "kc_group_int.h"

#define KC_SUBSCRIPTION_MEMORY   (64 * 1024 * 1024)
#define KC_SUBSCRIPTION_VERSION  3


/* false: no memory. */
static bool
kc_subscription_add(kc_subscription_t *s, kf_bytes_t metadata)
{
    int16_t                               version;
    int32_t                               i;
    kf_rc_t                               rc;
    kc_node_t                            *node;
    kf_reader_t                           r;
    kf_consumer_protocol_subscription_t   sub;

    kf_reader_init(&r, metadata.data, metadata.len);
    version = kf_read_i16(&r);

    if (r.rc != KF_OK || version < 0) {
        s->all = true;
        return true;
    }

    if (version > KC_SUBSCRIPTION_VERSION) {
        version = KC_SUBSCRIPTION_VERSION;
    }

    rc = kf_decode_consumer_protocol_subscription(&r, version, &s->arena,
                                                  &sub);
    if (rc == KF_NO_MEMORY) {
        return false;
    }

    if (rc != KF_OK) {
        s->all = true;
        return true;
    }

    for (i = 0; i < sub.topics_n; i++) {

        if (kc_map_find(&s->topics, sub.topics[i])) {
            continue;
        }

        node = kf_arena_alloc(&s->arena, sizeof(kc_node_t));
        if (node == NULL) {
            return false;
        }

        kc_map_insert(&s->topics, node, sub.topics[i], node);
    }

    return true;
}


bool
kc_subscription_of(kc_t *kc, const kc_group_t *g, kc_subscription_t *s)
{
    kc_member_t  *m;

    memset(s, 0, sizeof(kc_subscription_t));
    kc_scratch(kc, &s->arena, KC_SUBSCRIPTION_MEMORY);

    if (g->live == 0 || !kc_group_of_consumers(g)) {
        return true;
    }

    kc_each_said(g, m) {
        if (!kc_subscription_add(s, kc_body_metadata(m->said, g->protocol))) {
            return false;
        }
    }

    return true;
}


bool
kc_subscribed(const kc_subscription_t *s, kf_str_t topic)
{
    return s->all || kc_map_find(&s->topics, topic) != NULL;
}
