/* Finding keys by READs alone. How nodes prove themselves is in node.c. */
#include "tree/reader.h"
#include <errno.h>
#include <string.h>

#define TORN_MAX     16u  /* READs of one node, one after the other, that bring none */
#define RESTARTS_MAX 16u  /* of one call */
#define STEPS_MAX    256u /* nodes on one way down, right links included */

struct tree_reader {
    struct tree_reader_options options;
    struct tree_reader_stats stats;
    struct tree_node *node;           /* the image of the node that was read last */
    uint8_t next_bytes[TREE_KEY_MAX]; /* of a range: where the next leaf is to begin */
};

int tree_reader_open(const struct tree_reader_options *options, struct tree_reader **ret_reader)
{
    struct tree_reader *reader = base_alloc(options->account, sizeof(*reader));
    if (reader == NULL)
        return -ENOMEM;
    *reader = (struct tree_reader){.options = *options};
    if (options->unit_bytes == 0)
        reader->options.unit_bytes = TREE_NODE_BYTES;
    const bool is_good = tree_is_unit(reader->options.unit_bytes);
    reader->node =
        is_good ? base_alloc(options->account, tree_image_bytes(reader->options.unit_bytes)) : NULL;
    if (reader->node == NULL) {
        base_free(options->account, reader, sizeof(*reader));
        return is_good ? -ENOMEM : -EINVAL;
    }
    *ret_reader = reader;
    return 0;
}

void tree_reader_close(struct tree_reader *reader)
{
    base_free(reader->options.account, reader->node, tree_image_bytes(reader->options.unit_bytes));
    base_free(reader->options.account, reader, sizeof(*reader));
}

void tree_reader_stats(const struct tree_reader *reader, struct tree_reader_stats *ret_stats)
{
    *ret_stats = reader->stats;
}

/* READ a node. @return 0; -EAGAIN: there is none; what `read` returned */
static int read_node(struct tree_reader *reader, tree_pointer pointer)
{
    const struct tree_reader_options *options = &reader->options;
    uint32_t class_number = tree_pointer_class(pointer);
    if (class_number >= TREE_CLASSES)
        return -EAGAIN;
    for (uint32_t i = 0; i < TORN_MAX; i++) {
        const uint32_t bytes = options->unit_bytes << class_number;
        int error =
            options->read(options->arg, tree_pointer_region(pointer),
                          (uint64_t)tree_pointer_unit(pointer) * options->unit_bytes, reader->node, bytes);
        reader->stats.reads++;
        if (error != 0)
            return error == -ERANGE ? -EAGAIN : error;
        error = tree_node_check(reader->node, bytes, options->unit_bytes, pointer);
        if (error == 0)
            return 0;
        if (error == -EMSGSIZE) /* the root has grown */
            class_number = reader->node->class_number;
        else
            reader->stats.torn++;
    }
    return -EAGAIN;
}

/* Have a node, from the cache if it may be old. @return NULL, *ret_error: -EAGAIN: there is none; what `read` returned */
static const struct tree_node *have_node(struct tree_reader *reader, tree_pointer pointer, bool may_be_old,
                                         int *ret_error)
{
    struct tree_cache *cache = reader->options.cache;
    const struct tree_node *node = cache == NULL || !may_be_old ? NULL : tree_cache_find(cache, pointer);
    if (node != NULL) {
        reader->stats.cached++;
        return node;
    }
    *ret_error = read_node(reader, pointer);
    if (*ret_error != 0)
        return NULL;
    if (cache != NULL && reader->node->level > 0)
        tree_cache_put(cache, pointer, reader->node);
    return reader->node;
}

/* A right link led from one node to the next: what is kept of that one's parent is old. */
static void follow_right(struct tree_reader *reader, tree_pointer parent)
{
    reader->stats.rights++;
    if (reader->options.cache != NULL && parent != 0)
        tree_cache_drop(reader->options.cache, parent);
}

/* Go down to the leaf of a key once. @return 0; -EAGAIN: the tree has changed on the way; what `read` returned */
static int go_down(struct tree_reader *reader, struct tree_key key, bool may_be_old)
{
    tree_pointer pointer = tree_pointer_to(reader->options.region, 0, 0), parent = 0;
    int error = 0;
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        const struct tree_node *node = have_node(reader, pointer, may_be_old, &error);
        if (node == NULL)
            return error;
        const int order = tree_node_compare(node, key);
        if ((node->flags & TREE_NODE_DEAD) != 0 || order < 0)
            return -EAGAIN;
        if (order == 0 && node->level == 0)
            return 0;
        if (order > 0)
            follow_right(reader, parent);
        else
            parent = pointer;
        pointer = order > 0 ? node->right : tree_node_child(node, tree_node_child_of(node, key));
    }
    return -EAGAIN;
}

/* Have the leaf of a key as the image; what the cache has is trusted once. @return 0; -EBUSY; what `read` returned */
static int find_leaf(struct tree_reader *reader, struct tree_key key)
{
    for (uint32_t i = 0; i < RESTARTS_MAX; i++) {
        int error = go_down(reader, key, i == 0);
        if (error != -EAGAIN)
            return error;
        reader->stats.restarts++;
    }
    return -EBUSY;
}

int tree_reader_get(struct tree_reader *reader, struct tree_key key, struct tree_value *ret_value)
{
    bool is_found;
    int error = find_leaf(reader, key);
    if (error != 0)
        return error;
    const uint32_t entry = tree_node_find(reader->node, key, &is_found);
    if (!is_found)
        return -ENOENT;
    *ret_value = tree_node_value(reader->node, entry);
    return 0;
}

/* Whether the image is the leaf that a key is in. */
static bool is_leaf_of(const struct tree_node *node, struct tree_key key)
{
    return node->level == 0 && (node->flags & TREE_NODE_DEAD) == 0 && tree_node_compare(node, key) == 0;
}

int tree_reader_range(struct tree_reader *reader, const struct tree_key *from, const struct tree_key *below,
                      tree_visit_function *visit, void *arg)
{
    struct tree_key next = {.bytes = reader->next_bytes, .count = 0};
    if (from != NULL) {
        memcpy(reader->next_bytes, from->bytes, from->count);
        next.count = from->count;
    }
    int error = find_leaf(reader, next);
    while (error == 0) {
        const struct tree_node *leaf = reader->node;
        const tree_pointer right = leaf->right;
        bool is_found, is_end;
        int outcome = tree_node_show(leaf, tree_node_find(leaf, next, &is_found), below, visit, arg, &is_end);
        if (outcome != 0 || is_end || (leaf->flags & TREE_NODE_LAST) != 0)
            return outcome;
        const struct tree_key high = tree_node_high(leaf);
        memcpy(reader->next_bytes, high.bytes, high.count);
        next.count = high.count;
        error = read_node(reader, right);
        if (error == -EAGAIN || (error == 0 && !is_leaf_of(leaf, next))) {
            reader->stats.restarts++;
            error = find_leaf(reader, next);
        }
    }
    return error;
}
