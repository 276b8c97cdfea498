/*
 * The ordered map: an AVL tree with parent links, so that removal needs only
 * the node.
 */

#include "kc_map.h"


int
kc_key_cmp(kf_str_t a, kf_str_t b)
{
    uint32_t  n = a.len < b.len ? a.len : b.len;
    int       c = n ? memcmp(a.data, b.data, n) : 0;

    if (c != 0) {
        return c;
    }

    return a.len < b.len ? -1 : a.len > b.len;
}


static int32_t
kc_height(const kc_node_t *n)
{
    return n ? n->height : 0;
}


static void
kc_update(kc_node_t *n)
{
    int32_t  l = kc_height(n->left), r = kc_height(n->right);

    n->height = (l > r ? l : r) + 1;
}


/* Puts `with` where `n` hangs. */
static void
kc_replace(kc_map_t *map, kc_node_t *n, kc_node_t *with)
{
    if (n->parent == NULL) {
        map->root = with;

    } else if (n->parent->left == n) {
        n->parent->left = with;

    } else {
        n->parent->right = with;
    }

    if (with) {
        with->parent = n->parent;
    }
}


static kc_node_t *
kc_rotate_left(kc_map_t *map, kc_node_t *n)
{
    kc_node_t  *r = n->right;

    kc_replace(map, n, r);

    n->right = r->left;
    if (n->right) {
        n->right->parent = n;
    }

    r->left = n;
    n->parent = r;
    kc_update(n);
    kc_update(r);

    return r;
}


static kc_node_t *
kc_rotate_right(kc_map_t *map, kc_node_t *n)
{
    kc_node_t  *l = n->left;

    kc_replace(map, n, l);

    n->left = l->right;
    if (n->left) {
        n->left->parent = n;
    }

    l->right = n;
    n->parent = l;
    kc_update(n);
    kc_update(l);

    return l;
}


static void
kc_rebalance(kc_map_t *map, kc_node_t *n)
{
    int32_t  balance;

    for ( ; n; n = n->parent) {
        kc_update(n);
        balance = kc_height(n->left) - kc_height(n->right);

        if (balance > 1) {
            if (kc_height(n->left->left) < kc_height(n->left->right)) {
                kc_rotate_left(map, n->left);
            }

            n = kc_rotate_right(map, n);

        } else if (balance < -1) {
            if (kc_height(n->right->right) < kc_height(n->right->left)) {
                kc_rotate_right(map, n->right);
            }

            n = kc_rotate_left(map, n);
        }
    }
}


void *
kc_map_find(const kc_map_t *map, kf_str_t key)
{
    kc_node_t  *n = map->root;
    int         c;

    while (n) {
        c = kc_key_cmp(key, n->key);

        if (c == 0) {
            return n->owner;
        }

        n = c < 0 ? n->left : n->right;
    }

    return NULL;
}


void *
kc_map_next(const kc_map_t *map, kf_str_t after)
{
    kc_node_t  *n = map->root, *best = NULL;

    while (n) {
        if (kf_str_is_null(after) || kc_key_cmp(n->key, after) > 0) {
            best = n;
            n = n->left;

        } else {
            n = n->right;
        }
    }

    return best ? best->owner : NULL;
}


bool
kc_map_insert(kc_map_t *map, kc_node_t *node, kf_str_t key, void *owner)
{
    kc_node_t  **link = &map->root, *parent = NULL;
    int          c;

    while (*link) {
        parent = *link;
        c = kc_key_cmp(key, parent->key);

        if (c == 0) {
            return false;
        }

        link = c < 0 ? &parent->left : &parent->right;
    }

    node->left = NULL;
    node->right = NULL;
    node->parent = parent;
    node->key = key;
    node->owner = owner;
    node->height = 1;
    *link = node;
    map->count++;

    kc_rebalance(map, parent);

    return true;
}


void
kc_map_remove(kc_map_t *map, kc_node_t *node)
{
    kc_node_t  *next, *from;

    if (node->left == NULL || node->right == NULL) {
        from = node->parent;
        kc_replace(map, node, node->left ? node->left : node->right);

    } else {
        for (next = node->right; next->left; next = next->left) { /* void */ }

        if (next->parent == node) {
            from = next;

        } else {
            from = next->parent;
            kc_replace(map, next, next->right);
            next->right = node->right;
            next->right->parent = next;
        }

        kc_replace(map, node, next);
        next->left = node->left;
        next->left->parent = next;
    }

    map->count--;
    node->parent = NULL;

    kc_rebalance(map, from);
}


bool
kc_map_check(const kc_map_t *map)
{
    const kc_node_t  *n, *last = NULL;
    uint32_t          count = 0;
    int32_t           l, r;

    if (map->root == NULL) {
        return map->count == 0;
    }

    if (map->root->parent) {
        return false;
    }

    for (n = map->root; n->left; n = n->left) { /* void */ }

    while (n) {
        l = kc_height(n->left);
        r = kc_height(n->right);

        if (l - r > 1 || r - l > 1 || n->height != (l > r ? l : r) + 1
            || (n->left && n->left->parent != n)
            || (n->right && n->right->parent != n)
            || n->owner == NULL
            || (last && kc_key_cmp(last->key, n->key) >= 0)
            || ++count > map->count)
        {
            return false;
        }

        last = n;

        if (n->right) {
            for (n = n->right; n->left; n = n->left) { /* void */ }
            continue;
        }

        while (n->parent && n->parent->right == n) {
            n = n->parent;
        }

        n = n->parent;
    }

    return count == map->count;
}
