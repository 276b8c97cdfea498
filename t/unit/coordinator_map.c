/*
 * The ordered map against a sorted array: find, next, insert, remove, balance.
 */

#include "../tap.h"
#include "../../coordinator/kc_map.h"

#define N  400

typedef struct {
    kc_node_t  node;
    uint8_t    key[4];
    uint32_t   len;
    int        in;
} item_t;

static item_t    items[N];
static uint32_t  seed = 7;


static uint32_t
rnd(uint32_t n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % n;
}


static kf_str_t
key(item_t *it)
{
    return (kf_str_t) { it->key, it->len };
}


/* The naive answer to kc_map_next(). */
static item_t *
next(kf_str_t after)
{
    int      i;
    item_t  *best = NULL;

    for (i = 0; i < N; i++) {
        if (items[i].in
            && (kf_str_is_null(after) || kc_key_cmp(key(&items[i]), after) > 0)
            && (!best || kc_key_cmp(key(&items[i]), key(best)) < 0))
        {
            best = &items[i];
        }
    }

    return best;
}


int
main(void)
{
    int       i, j, round, wrong = 0, unsound = 0, disorder = 0, again = 0;
    kc_map_t  map = { NULL, 0 };
    uint32_t  count = 0;

    for (i = 0; i < N; i++) {
        /* keys that are prefixes of each other, and bytes above 127 */
        items[i].len = 1 + (uint32_t) i % 4;
        items[i].key[0] = (uint8_t) (i / 4 * 2 + 100);
        items[i].key[1] = (uint8_t) (255 - i);
        items[i].key[2] = 0;
        items[i].key[3] = (uint8_t) i;
    }

    ok(kc_map_find(&map, key(&items[0])) == NULL, "nothing in an empty map");
    ok(kc_map_next(&map, kf_null_str) == NULL, "and nothing first");
    ok(kc_map_check(&map), "an empty map is sound");

    for (round = 0; round < 20000; round++) {
        item_t  *it = &items[rnd(N)];

        if (it->in) {
            again += kc_map_insert(&map, &(kc_node_t) { 0 }, key(it), it);
            kc_map_remove(&map, &it->node);
            it->in = 0;
            count--;

        } else {
            /* equal keys exist: the map has to say so */
            for (j = 0; j < N; j++) {
                if (items[j].in
                    && kc_key_cmp(key(&items[j]), key(it)) == 0)
                {
                    break;
                }
            }

            it->in = kc_map_insert(&map, &it->node, key(it), it);
            wrong += it->in != (j == N);
            count += (uint32_t) it->in;
        }

        wrong += map.count != count;
        wrong += kc_map_find(&map, key(it)) != (it->in ? it : NULL);

        if (round % 97 == 0) {
            unsound += !kc_map_check(&map);
            it = &items[rnd(N)];
            disorder += kc_map_next(&map, key(it)) != next(key(it));
            disorder += kc_map_next(&map, kf_null_str) != next(kf_null_str);
        }
    }

    is(again, 0, "a key is inserted once");
    is(wrong, 0, "find and count are right all the time");
    is(unsound, 0, "order, balance and links are right");
    is(disorder, 0, "the next key is the next key");
    ok(map.root->height <= 12, "the tree is balanced: height %d of %u",
       map.root->height, map.count);

    for (i = 0; i < N; i++) {
        if (items[i].in) {
            kc_map_remove(&map, &items[i].node);
        }
    }

    ok(map.root == NULL && map.count == 0, "all can be removed");

    ok(kc_key_cmp((kf_str_t) { (uint8_t *) "a", 1 },
                  (kf_str_t) { (uint8_t *) "ab", 2 }) < 0, "a prefix is first");
    ok(kc_key_cmp(kf_null_str, (kf_str_t) { (uint8_t *) "", 0 }) == 0,
       "null counts as empty");

    return done_testing();
}
