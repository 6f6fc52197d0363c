/* An intrusive pairing heap: insertion and removal of timers in place, without memory of its own. */
#include "base/heap.h"

static bool is_before(const struct base_heap_node *a, const struct base_heap_node *b)
{
    return a->key < b->key || (a->key == b->key && a->order < b->order);
}

/* Join two roots without siblings: the later one becomes the first child of the other. */
static struct base_heap_node *link_roots(struct base_heap_node *a, struct base_heap_node *b)
{
    if (is_before(b, a)) {
        struct base_heap_node *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next != NULL)
        b->next->prev = b;
    a->child = b;
    return a;
}

/*
 * Join a list of siblings to one tree in the two passes of a pairing heap: pair them from the left,
 * collecting the pairs in reverse, then join the pairs from the right.
 */
static struct base_heap_node *merge_siblings(struct base_heap_node *first)
{
    struct base_heap_node *pairs = NULL;
    while (first != NULL) {
        struct base_heap_node *a = first;
        struct base_heap_node *b = a->next;
        first = b == NULL ? NULL : b->next;
        if (b != NULL)
            a = link_roots(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct base_heap_node *root = pairs;
    if (root == NULL)
        return NULL;
    pairs = root->next;
    while (pairs != NULL) {
        struct base_heap_node *pair = pairs;
        pairs = pair->next;
        root = link_roots(root, pair);
    }
    root->next = NULL;
    return root;
}

static void set_root(struct base_heap *heap, struct base_heap_node *root)
{
    heap->root = root;
    if (root != NULL) {
        root->next = NULL;
        root->prev = root;
    }
}

/* Take the subtree of a node that is not the root off its parent's list of children. */
static void cut(struct base_heap_node *node)
{
    if (node->prev->child == node)
        node->prev->child = node->next;
    else
        node->prev->next = node->next;
    if (node->next != NULL)
        node->next->prev = node->prev;
}

void base_heap_init(struct base_heap *heap)
{
    memset(heap, 0, sizeof(*heap));
}

void base_heap_insert(struct base_heap *heap, struct base_heap_node *node, uint64_t key)
{
    *node = (struct base_heap_node){.key = key, .order = heap->orders++};
    set_root(heap, heap->root == NULL ? node : link_roots(heap->root, node));
    heap->count++;
}

void base_heap_remove(struct base_heap *heap, struct base_heap_node *node)
{
    base_assert(base_heap_is_linked(node) && heap->count > 0);
    struct base_heap_node *below = merge_siblings(node->child);
    if (node == heap->root) {
        set_root(heap, below);
    } else {
        cut(node);
        if (below != NULL)
            set_root(heap, link_roots(heap->root, below));
    }
    heap->count--;
    node->child = NULL;
    node->next = NULL;
    node->prev = NULL;
}

struct base_heap_node *base_heap_pop(struct base_heap *heap)
{
    struct base_heap_node *node = heap->root;
    if (node != NULL)
        base_heap_remove(heap, node);
    return node;
}
