/*
 * An ordered map by a string of bytes, for state in shared memory.
 *
 * An AVL tree of nodes that live inside the objects they find: inserting
 * allocates nothing and therefore cannot fail, which is what replay needs.
 * Keys are compared as unsigned bytes, a prefix first; they are views of bytes
 * that the object owns.  Look-up, insertion and removal are O(log n) whatever
 * names clients choose.
 */

#ifndef KC_MAP_H
#define KC_MAP_H

#include "../codec/kf_types.h"

#pragma GCC visibility push(hidden)


typedef struct kc_node_s  kc_node_t;

struct kc_node_s {
    kc_node_t  *left;
    kc_node_t  *right;
    kc_node_t  *parent;
    kf_str_t    key;
    void       *owner;              /* the object that the node is part of */
    int32_t     height;             /* of the subtree; a leaf has 1 */
};

typedef struct {
    kc_node_t  *root;
    uint32_t    count;
} kc_map_t;


/* Order of keys; null counts as empty. */
int kc_key_cmp(kf_str_t a, kf_str_t b);

/* The owner, or NULL. */
void *kc_map_find(const kc_map_t *map, kf_str_t key);
/* The owner of the least key above `after`; a null `after` gives the first. */
void *kc_map_next(const kc_map_t *map, kf_str_t after);

/* false, and nothing changes, when the key is there already. */
bool kc_map_insert(kc_map_t *map, kc_node_t *node, kf_str_t key, void *owner);
void kc_map_remove(kc_map_t *map, kc_node_t *node);

/* Checks order, balance, links and count. */
bool kc_map_check(const kc_map_t *map);


#pragma GCC visibility pop

#endif
