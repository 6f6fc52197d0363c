/* Going through a meganode's keys in order, and looking at all of its nodes. */
#include "tree/mega_internal.h"
#include "tree/record.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* ---- ranges ------------------------------------------------------------------------------------- */

uint32_t mega_find_below(const struct tree_mega *mega, const struct tree_key *below, uint32_t level)
{
    const struct tree_node *node = mega_node(mega, ROOT);
    bool is_all = below == NULL; /* all keys of the node are below it */
    uint32_t unit = ROOT;
    while (node->level > level) {
        bool is_found = false;
        const uint32_t end = is_all ? node->count : tree_node_find(node, *below, &is_found);
        is_all = is_all || is_found;
        unit = tree_pointer_unit(tree_node_child(node, end == 0 ? 0 : end - 1));
        node = mega_node(mega, unit);
    }
    return unit;
}

/* Bring the records of a leaf's entries into the processor's cache, all at the same time. */
static void fetch_records(const struct tree_mega *mega, const struct tree_node *leaf, uint32_t first,
                          uint32_t end)
{
    for (uint32_t i = first; i < end && mega->extents != NULL; i++)
        __builtin_prefetch(mega->extents + tree_place_offset(tree_node_value(leaf, i).place));
}

int tree_mega_range(const struct tree_mega *mega, const struct tree_key *from, const struct tree_key *below,
                    tree_visit_function *visit, void *arg)
{
    const struct tree_key first = from == NULL ? tree_node_low(mega_node(mega, ROOT)) : *from;
    const struct tree_node *leaf = mega_leaf_of(mega, first);
    bool is_found, is_end;
    uint32_t entry = tree_node_find(leaf, first, &is_found);
    for (;;) {
        const bool is_last = tree_pointer_region(leaf->right) != mega->region;
        const struct tree_node *next = is_last ? leaf : mega_node(mega, tree_pointer_unit(leaf->right));
        mega_fetch_node(next);
        fetch_records(mega, leaf, entry, leaf->count);
        int outcome = tree_node_show(leaf, entry, below, visit, arg, &is_end);
        if (outcome != 0 || is_end || is_last)
            return outcome;
        leaf = next;
        entry = 0;
    }
}

int tree_mega_range_down(const struct tree_mega *mega, const struct tree_key *from,
                         const struct tree_key *below, tree_visit_function *visit, void *arg)
{
    uint8_t buffer[TREE_KEY_MAX];
    struct tree_key end;
    for (;;) {
        const struct tree_node *leaf = mega_node(mega, mega_find_below(mega, below, 0));
        bool is_found;
        uint32_t entry = leaf->count;
        if (below != NULL && tree_node_compare(leaf, *below) == 0)
            entry = tree_node_find(leaf, *below, &is_found);
        fetch_records(mega, leaf, 0, entry);
        while (entry > 0) {
            const struct tree_key key = tree_node_key(leaf, --entry, buffer);
            if (from != NULL && tree_key_compare(key, *from) < 0)
                return 0;
            int outcome = visit(arg, key, tree_node_value(leaf, entry));
            if (outcome != 0)
                return outcome;
        }
        end = tree_node_low(leaf);
        if (tree_key_compare(end, tree_node_low(mega_node(mega, ROOT))) == 0 ||
            (from != NULL && tree_key_compare(end, *from) <= 0))
            return 0;
        below = &end;
    }
}

/* ---- looking at all nodes ----------------------------------------------------------------------- */

struct check {
    const struct tree_mega *mega;
    uint64_t *used;                     /* units of the nodes that were met */
    tree_pointer next[TREE_LEVELS_MAX]; /* where the node leads that was met last on a level */
    bool has_met[TREE_LEVELS_MAX];
    uint64_t keys, nodes;
    const char *why;
};

static bool claim_units(struct check *check, const struct tree_node *node, uint32_t unit)
{
    const uint32_t count = unit == ROOT ? 1u << (TREE_CLASSES - 1) : 1u << node->class_number;
    if (unit + count > check->mega->units)
        return false;
    for (uint32_t i = unit; i < unit + count; i++) {
        if (mega_has_bit(check->used, i))
            return false;
        check->used[i / 64] |= UINT64_C(1) << i % 64;
    }
    return true;
}

static bool equals(const struct tree_key *a, const struct tree_key *b)
{
    return a == NULL || b == NULL ? a == b : tree_key_compare(*a, *b) == 0;
}

/* What is wrong with a node. @param pointer  that leads there @return NULL: nothing */
static const char *find_fault(struct check *check, tree_pointer pointer, uint32_t level,
                              const struct tree_key *low, const struct tree_key *high)
{
    const struct tree_mega *mega = check->mega;
    const uint32_t unit = tree_pointer_unit(pointer);
    const struct tree_node *node = mega_node(mega, unit);
    const uint64_t room = (uint64_t)(mega->units - unit) * mega->unit_bytes;
    if (tree_node_check(node, (uint32_t)base_min(room, (uint64_t)UINT32_MAX), mega->unit_bytes, pointer) != 0)
        return "a node is damaged";
    const struct tree_key its_low = tree_node_low(node);
    struct tree_key its_high;
    if (node->level != level)
        return "a node is on another level than its parent says";
    if (unit != ROOT && node->class_number != tree_pointer_class(pointer))
        return "a node has another size than its parent says";
    if (!equals(&its_low, low) || !equals(tree_node_end(node, &its_high), high))
        return "a node has another range than its parent says";
    if ((node->flags & TREE_NODE_DEAD) != 0)
        return "a node is dead";
    if (!claim_units(check, node, unit))
        return "a unit is in two nodes";
    if (check->has_met[level] && check->next[level] != pointer && unit != ROOT)
        return "a right link leads elsewhere than to the next node";
    return NULL;
}

static bool check_node(struct check *check, tree_pointer pointer, uint32_t level, const struct tree_key *low,
                       const struct tree_key *high)
{
    uint8_t low_buffer[TREE_KEY_MAX], high_buffer[TREE_KEY_MAX];
    if (tree_pointer_region(pointer) != check->mega->region ||
        tree_pointer_unit(pointer) >= check->mega->units) {
        check->why = "a pointer leads out of the region";
        return false;
    }
    check->why = find_fault(check, pointer, level, low, high);
    if (check->why != NULL)
        return false;
    const struct tree_node *node = mega_node(check->mega, tree_pointer_unit(pointer));
    check->nodes++;
    check->has_met[level] = true;
    check->next[level] = node->right;
    if (level == 0)
        check->keys += node->count;
    for (uint32_t i = 0; i < node->count && level > 0; i++) {
        const struct tree_key from = tree_node_key(node, i, low_buffer);
        const struct tree_key to = i + 1 < node->count ? tree_node_key(node, i + 1, high_buffer)
                                   : high != NULL      ? *high
                                                       : from;
        if (i == 0 && tree_key_compare(from, *low) != 0) {
            check->why = "the first child does not begin where its parent does";
            return false;
        }
        if (!check_node(check, tree_node_child(node, i), level - 1, &from,
                        i + 1 < node->count || high != NULL ? &to : NULL))
            return false;
    }
    return true;
}

int tree_mega_check(const struct tree_mega *mega, const char **ret_why)
{
    const struct tree_node *root = mega_node(mega, ROOT);
    const size_t bytes = mega_bitmap_bytes(mega);
    struct check check = {.mega = mega, .used = base_alloc(mega->account, bytes)};
    if (check.used == NULL)
        return -ENOMEM;
    const struct tree_key low = tree_node_low(root);
    struct tree_key high;
    bool is_good = root->level < TREE_LEVELS_MAX &&
                   check_node(&check, tree_pointer_to(mega->region, ROOT, root->class_number), root->level,
                              &low, tree_node_end(root, &high));
    for (uint32_t level = 0; is_good && level <= root->level; level++) {
        if (check.next[level] != root->right) {
            check.why = "the last node of a level leads on";
            is_good = false;
        }
    }
    if (is_good && (check.keys != mega->keys || check.nodes != mega->nodes ||
                    memcmp(check.used, mega->used, bytes) != 0)) {
        check.why = "the owner counts other keys, nodes or units";
        is_good = false;
    }
    base_free(mega->account, check.used, bytes);
    if (!is_good)
        *ret_why = check.why;
    return is_good ? 0 : -EUCLEAN;
}
