/* A meganode at its owner: finding, putting and deleting. ranges.c goes through its keys and looks at its nodes. */
#include "tree/mega_internal.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define UNITS_MIN       64u
#define ROOT_UNIT_COUNT (1u << (TREE_CLASSES - 1)) /* which the root may grow into */
#define FETCHED_LINES   4u                         /* of a node that is about to be searched */
#define SPLIT_MIN       3u  /* entries of a node that is cut in two; one with fewer becomes larger */
#define GROUP           16u /* keys that are looked for at the same time */

/* ---- units -------------------------------------------------------------------------------------- */

static bool is_used(const struct tree_mega *mega, uint32_t unit)
{
    return (mega->used[unit / 64] >> unit % 64 & 1) != 0;
}

static void set_used(struct tree_mega *mega, uint32_t unit, uint32_t class_number, bool used)
{
    for (uint32_t i = unit; i < unit + (1u << class_number); i++) {
        const uint64_t bit = UINT64_C(1) << i % 64;
        mega->used[i / 64] = used ? mega->used[i / 64] | bit : mega->used[i / 64] & ~bit;
    }
    mega->units_used =
        used ? mega->units_used + (1u << class_number) : mega->units_used - (1u << class_number);
}

/* Take units for a node, behind those that were taken last: so what was freed rests for as long as there is other room. @return the first;
 * ROOT: there is no room */
static uint32_t take_units(struct tree_mega *mega, uint32_t class_number)
{
    const uint32_t count = 1u << class_number, places = mega->units / count;
    uint32_t place = (mega->next_unit + count - 1) / count;
    for (uint32_t i = 0; i < places; i++, place++) {
        if (place >= places)
            place = 0;
        const uint32_t unit = place * count;
        if (class_number == 0 && unit % 64 == 0 && mega->used[unit / 64] == UINT64_MAX && i + 63 < places) {
            i += 63, place += 63;
            continue;
        }
        bool is_free = true;
        for (uint32_t k = unit; k < unit + count && is_free; k++)
            is_free = !is_used(mega, k);
        if (!is_free)
            continue;
        set_used(mega, unit, class_number, true);
        mega->next_unit = unit + count;
        return unit;
    }
    return ROOT;
}

/* Write a node into the region. Readers that find some of it written find that it is torn. */
static void store_node(struct tree_mega *mega, struct tree_node *image, uint32_t unit)
{
    tree_node_seal(image, tree_pointer_to(mega->region, unit, 0), ++mega->changes);
    tarn_fabric_mem_copy_in(mega->memory, (uint64_t)unit * mega->unit_bytes, image, tree_node_bytes(image));
    tarn_fabric_mem_fence();
}

static tree_pointer pointer_to(const struct tree_mega *mega, const struct tree_node *image, uint32_t unit)
{
    return tree_pointer_to(mega->region, unit, image->class_number);
}

/* Take a node out of the tree, to which nothing leads any more but what readers know from before. */
static void bury_node(struct tree_mega *mega, uint32_t unit)
{
    struct tree_node *image = mega->scratch;
    memcpy(image, mega_node(mega, unit), tree_node_bytes(mega_node(mega, unit)));
    image->flags |= TREE_NODE_DEAD;
    store_node(mega, image, unit);
    set_used(mega, unit, image->class_number, false);
    mega->nodes--;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static size_t used_bytes(const struct tree_mega *mega)
{
    return (mega->units + 63) / 64 * sizeof(uint64_t);
}

void tree_mega_close(struct tree_mega *mega)
{
    const uint32_t bytes = mega->unit_bytes << (TREE_CLASSES - 1);
    for (uint32_t i = 0; i < mega->image_count; i++)
        base_free(mega->account, mega->images[i].node, 3 * (size_t)bytes);
    base_free(mega->account, mega->scratch, bytes);
    base_free(mega->account, mega->used, used_bytes(mega));
    base_free(mega->account, mega, sizeof(*mega));
}

int tree_mega_open(const struct tree_mega_options *options, struct tree_mega **ret_mega)
{
    const uint32_t unit_bytes = options->unit_bytes == 0 ? TREE_NODE_BYTES : options->unit_bytes;
    if (unit_bytes < TREE_NODE_BYTES_MIN || unit_bytes > TREE_NODE_BYTES_MAX ||
        (unit_bytes & (unit_bytes - 1)) != 0 || options->memory->bytes / unit_bytes < UNITS_MIN ||
        options->memory->bytes > UINT64_C(4) << 30)
        return -EINVAL;
    struct tree_mega *mega = base_alloc(options->account, sizeof(*mega));
    if (mega == NULL)
        return -ENOMEM;
    *mega = (struct tree_mega){.account = options->account,
                               .memory = options->memory,
                               .region = options->region,
                               .unit_bytes = unit_bytes,
                               .units = (uint32_t)(options->memory->bytes / unit_bytes)};
    mega->used = base_alloc(mega->account, used_bytes(mega));
    mega->scratch = base_alloc(mega->account, unit_bytes << (TREE_CLASSES - 1));
    if (mega->used == NULL || mega->scratch == NULL) {
        tree_mega_close(mega);
        return -ENOMEM;
    }
    const bool fits = tree_node_init(mega->scratch, unit_bytes, 0, 0,
                                     (struct tree_key){.bytes = (const uint8_t *)"", .count = 0}, NULL);
    base_assert(fits);
    set_used(mega, ROOT, TREE_CLASSES - 1, true);
    mega->next_unit = ROOT_UNIT_COUNT;
    mega->nodes = 1;
    store_node(mega, mega->scratch, ROOT);
    *ret_mega = mega;
    return 0;
}

void tree_mega_stats(const struct tree_mega *mega, struct tree_mega_stats *ret_stats)
{
    *ret_stats = (struct tree_mega_stats){.keys = mega->keys,
                                          .nodes = mega->nodes,
                                          .units = mega->units,
                                          .units_used = mega->units_used,
                                          .splits = mega->splits,
                                          .merges = mega->merges,
                                          .moves = mega->moves,
                                          .levels = mega_node(mega, ROOT)->level + 1u};
}

/* ---- finding ------------------------------------------------------------------------------------ */

/* Go down to the leaf of a key. @return its depth: the root's is 0 */
static uint32_t go_down(const struct tree_mega *mega, struct tree_key key, struct mega_step *path)
{
    uint32_t depth = 0, unit = ROOT;
    for (;; depth++) {
        const struct tree_node *node = mega_node(mega, unit);
        path[depth] = (struct mega_step){.unit = unit};
        if (node->level == 0)
            return depth;
        path[depth].entry = tree_node_child_of(node, key);
        unit = tree_pointer_unit(tree_node_child(node, path[depth].entry));
    }
}

int tree_mega_get(const struct tree_mega *mega, struct tree_key key, struct tree_value *ret_value)
{
    const struct tree_node *node = mega_node(mega, ROOT);
    bool is_found;
    while (node->level > 0)
        node = mega_child(mega, node, tree_node_child_of(node, key));
    const uint32_t entry = tree_node_find(node, key, &is_found);
    if (!is_found)
        return -ENOENT;
    *ret_value = tree_node_value(node, entry);
    return 0;
}

static void fetch_node(const struct tree_node *node)
{
    for (uint32_t line = 0; line < FETCHED_LINES; line++)
        __builtin_prefetch((const uint8_t *)node + line * 64u);
}

static void get_group(const struct tree_mega *mega, const struct tree_key *keys, uint32_t count,
                      struct tree_value *ret_values)
{
    const struct tree_node *nodes[GROUP];
    for (uint32_t i = 0; i < count; i++)
        nodes[i] = mega_node(mega, ROOT);
    for (uint32_t level = mega_node(mega, ROOT)->level; level > 0; level--) {
        for (uint32_t i = 0; i < count; i++) {
            nodes[i] = mega_child(mega, nodes[i], tree_node_child_of(nodes[i], keys[i]));
            fetch_node(nodes[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_found;
        const uint32_t entry = tree_node_find(nodes[i], keys[i], &is_found);
        ret_values[i] = is_found ? tree_node_value(nodes[i], entry) : (struct tree_value){.place = 0};
    }
}

void tree_mega_get_many(const struct tree_mega *mega, const struct tree_key *keys, uint32_t count,
                        struct tree_value *ret_values)
{
    for (uint32_t first = 0; first < count; first += GROUP)
        get_group(mega, keys + first, base_min(count - first, GROUP), ret_values + first);
}

/* ---- putting ------------------------------------------------------------------------------------ */

/* What is to be changed in a node. */
struct edit {
    uint32_t entry;      /* below which, or in which, something changes … */
    tree_pointer moved;  /* … the child of this entry has moved there; 0: it has not */
    uint32_t place;      /* a new entry comes here … */
    struct tree_key key; /* … with this key; bytes NULL: none does */
    struct tree_value value;
};

/* Entries of a node with the new one among them. */
static struct tree_key key_of(const struct tree_node *node, const struct edit *edit, uint32_t i,
                              uint8_t *buffer)
{
    return i == edit->place ? edit->key : tree_node_key(node, i - (i > edit->place), buffer);
}

static struct tree_value value_of(const struct tree_node *node, const struct edit *edit, uint32_t i)
{
    return i == edit->place ? edit->value : tree_node_value(node, i - (i > edit->place));
}

/* Build a node of some of these entries, as small as can be, but not below a class. @return false: they are too many */
static bool build_part(const struct tree_mega *mega, const struct tree_node *node, const struct edit *edit,
                       uint32_t first, uint32_t end, struct tree_key low, const struct tree_key *high,
                       uint32_t class_number, struct tree_node *ret_image)
{
    uint8_t buffer[TREE_KEY_MAX];
    for (; class_number < TREE_CLASSES; class_number++) {
        bool fits = tree_node_init(ret_image, mega->unit_bytes, class_number, node->level, low, high);
        for (uint32_t i = first; i < end && fits; i++)
            fits = tree_node_insert(ret_image, i - first, key_of(node, edit, i, buffer),
                                    value_of(node, edit, i));
        if (fits)
            return true;
    }
    return false;
}

/* Where a node is cut in two: in the middle of its bytes. */
static uint32_t find_middle(const struct tree_node *node, const struct edit *edit)
{
    const uint32_t count = node->count + 1u;
    uint8_t buffer[TREE_KEY_MAX];
    uint32_t bytes = 0, all = 0;
    for (uint32_t i = 0; i < count; i++)
        all += TREE_NODE_OVERHEAD + key_of(node, edit, i, buffer).count;
    for (uint32_t i = 0; i < count - 1; i++) {
        bytes += TREE_NODE_OVERHEAD + key_of(node, edit, i, buffer).count;
        if (bytes * 2 >= all)
            return i + 1;
    }
    return count - 1;
}

/* The shortest key that divides what is before a cut from what is behind it. @param buffer  TREE_KEY_MAX bytes */
static struct tree_key separate(const struct tree_node *node, const struct edit *edit, uint32_t cut,
                                uint8_t *buffer)
{
    uint8_t before[TREE_KEY_MAX];
    const struct tree_key right = key_of(node, edit, cut, buffer);
    if (right.bytes != buffer)
        memcpy(buffer, right.bytes, right.count);
    const uint32_t count =
        node->level > 0 ? right.count : tree_key_common(key_of(node, edit, cut - 1, before), right) + 1;
    return (struct tree_key){.bytes = buffer, .count = count};
}

static int change_node(struct tree_mega *mega, const struct mega_step *path, uint32_t depth,
                       const struct edit *edit);

/* The node before another one of its level. @return ROOT: there is none */
static uint32_t find_left(const struct tree_mega *mega, const struct tree_node *node)
{
    const struct tree_key low = tree_node_low(node);
    const struct tree_node *at = mega_node(mega, ROOT);
    bool is_left = false; /* `at` ends where the other node begins */
    uint32_t unit = ROOT;
    while (at->level > node->level) {
        bool is_found = false;
        uint32_t entry = is_left ? at->count : tree_node_find(at, low, &is_found);
        if (entry == 0)
            return ROOT;
        is_left = is_left || is_found;
        unit = tree_pointer_unit(tree_node_child(at, entry - 1));
        at = mega_node(mega, unit);
    }
    return is_left ? unit : ROOT;
}

/* Have the node before another one lead to where that has moved. */
static void lead_right(struct tree_mega *mega, uint32_t left, tree_pointer right)
{
    struct tree_node *image = mega->scratch;
    if (left == ROOT)
        return;
    memcpy(image, mega_node(mega, left), tree_node_bytes(mega_node(mega, left)));
    image->right = right;
    store_node(mega, image, left);
}

/* Put the two halves of the root below it, or what it has into one larger one. */
static int split_root(struct tree_mega *mega, struct tree_node *left, struct tree_node *right,
                      struct tree_key separator)
{
    const struct tree_node *root = mega_node(mega, ROOT);
    struct tree_node *image = mega->scratch;
    const struct tree_key high = tree_node_high(root), low = tree_node_low(root);
    bool fits = root->level + 1u < TREE_LEVELS_MAX;
    const uint32_t left_unit = fits ? take_units(mega, left->class_number) : ROOT;
    const uint32_t right_unit = left_unit == ROOT ? ROOT : take_units(mega, right->class_number);
    fits = right_unit != ROOT;
    for (uint32_t class_number = 0; fits; class_number++) {
        if (tree_node_init(image, mega->unit_bytes, class_number, root->level + 1u, low,
                           (root->flags & TREE_NODE_LAST) != 0 ? NULL : &high) &&
            tree_node_insert(image, 0, low,
                             (struct tree_value){.place = pointer_to(mega, left, left_unit)}) &&
            tree_node_insert(image, 1, separator,
                             (struct tree_value){.place = pointer_to(mega, right, right_unit)}))
            break;
        fits = class_number + 1 < TREE_CLASSES;
    }
    if (!fits) {
        if (left_unit != ROOT)
            set_used(mega, left_unit, left->class_number, false);
        if (right_unit != ROOT)
            set_used(mega, right_unit, right->class_number, false);
        return -ENOSPC;
    }
    image->right = right->right = root->right;
    store_node(mega, right, right_unit);
    left->right = pointer_to(mega, right, right_unit);
    store_node(mega, left, left_unit);
    store_node(mega, image, ROOT);
    mega->nodes += 2;
    mega->splits++;
    return 0;
}

/* Build two nodes of what a node has and a new entry. @param buffer  for the separator; TREE_KEY_MAX bytes @return false: they would be too large */
static bool build_halves(struct tree_mega *mega, uint32_t depth, const struct edit *edit, uint32_t cut,
                         uint8_t *buffer, struct tree_key *ret_separator)
{
    struct mega_images *images = &mega->images[depth];
    const struct tree_node *node = images->node;
    const struct tree_key high = tree_node_high(node);
    *ret_separator = separate(node, edit, cut, buffer);
    return build_part(mega, node, edit, 0, cut, tree_node_low(node), ret_separator,
                      depth == 0 ? 0 : node->class_number, images->left) &&
           build_part(mega, node, edit, cut, node->count + 1u, *ret_separator,
                      (node->flags & TREE_NODE_LAST) != 0 ? NULL : &high, 0, images->right);
}

/* The same where keys come in their order: all that was there stays together. @return false: it has no room for a fence */
static bool build_behind(struct tree_mega *mega, uint32_t depth, const struct edit *edit, uint8_t *buffer,
                         struct tree_key *ret_separator)
{
    const struct mega_images *images = &mega->images[depth];
    const struct tree_node *node = images->node;
    return edit->place == node->count && (node->flags & TREE_NODE_LAST) != 0 && node->count > 0 &&
           build_halves(mega, depth, edit, node->count, buffer, ret_separator) &&
           images->left->class_number == node->class_number;
}

/* Build one node of what a node has and a new entry, larger than it is. */
static bool build_larger(struct tree_mega *mega, uint32_t depth, const struct edit *edit)
{
    struct mega_images *images = &mega->images[depth];
    const struct tree_node *node = images->node;
    const struct tree_key high = tree_node_high(node);
    images->left->right = node->right;
    return build_part(mega, node, edit, 0, node->count + 1u, tree_node_low(node),
                      (node->flags & TREE_NODE_LAST) != 0 ? NULL : &high, node->class_number, images->left);
}

/*
 * Write what was built of a node, and have those above it lead there. What leads to a node that is not there yet is written
 * after it, and a node's entries are taken out of it last: so a reader that comes in between finds each key.
 */
static int link_halves(struct tree_mega *mega, const struct mega_step *path, uint32_t depth, bool is_split,
                       struct tree_key separator)
{
    struct tree_node *left = mega->images[depth].left, *right = mega->images[depth].right;
    const uint32_t unit = path[depth].unit, above = path[depth - 1].entry;
    const bool is_moved = left->class_number != mega_node(mega, unit)->class_number;
    const uint32_t left_unit = is_moved ? take_units(mega, left->class_number) : unit;
    const uint32_t right_unit = is_split && left_unit != ROOT ? take_units(mega, right->class_number) : ROOT;
    struct edit edit = {.entry = above, .place = UINT32_MAX};
    int error = left_unit == ROOT || (is_split && right_unit == ROOT) ? -ENOSPC : 0;
    left->right = mega_node(mega, unit)->right;
    if (error == 0 && is_split) {
        right->right = left->right;
        store_node(mega, right, right_unit);
        left->right = pointer_to(mega, right, right_unit);
        edit.place = above + 1;
        edit.key = separator;
        edit.value.place = left->right;
    }
    if (error == 0 && is_moved) {
        store_node(mega, left, left_unit);
        edit.moved = pointer_to(mega, left, left_unit);
    }
    if (error == 0)
        error = change_node(mega, path, depth - 1, &edit);
    if (error != 0) {
        if (is_moved && left_unit != ROOT)
            set_used(mega, left_unit, left->class_number, false);
        if (right_unit != ROOT)
            set_used(mega, right_unit, right->class_number, false);
        return error;
    }
    if (is_moved) {
        lead_right(mega, find_left(mega, left), edit.moved);
        mega->nodes++;
        bury_node(mega, unit);
    } else {
        store_node(mega, left, unit);
    }
    mega->nodes += is_split;
    mega->splits += is_split;
    mega->moves += is_moved;
    return 0;
}

/* Put what a node has, and a new entry for which it has no room, into two nodes, or into a larger one. @return 0; -ENOSPC: nothing was changed */
static int split_node(struct tree_mega *mega, const struct mega_step *path, uint32_t depth,
                      const struct edit *edit)
{
    const struct mega_images *images = &mega->images[depth];
    uint8_t buffer[TREE_KEY_MAX];
    struct tree_key separator = {.bytes = NULL};
    const bool is_split = images->node->count >= SPLIT_MIN;
    if (is_split ? !build_behind(mega, depth, edit, buffer, &separator) &&
                       !build_halves(mega, depth, edit, find_middle(images->node, edit), buffer, &separator)
                 : !build_larger(mega, depth, edit))
        return -ENOSPC;
    if (depth > 0)
        return link_halves(mega, path, depth, is_split, separator);
    if (is_split)
        return split_root(mega, images->left, images->right, separator);
    store_node(mega, images->left, ROOT);
    return 0;
}

/* See that there is memory for the images of a depth, and of those above it. */
static bool has_images(struct tree_mega *mega, uint32_t depth)
{
    const uint32_t bytes = mega->unit_bytes << (TREE_CLASSES - 1);
    for (; mega->image_count <= depth; mega->image_count++) {
        uint8_t *memory = base_alloc(mega->account, 3 * (size_t)bytes);
        if (memory == NULL)
            return false;
        mega->images[mega->image_count] = (struct mega_images){.node = (void *)memory,
                                                               .left = (void *)(memory + bytes),
                                                               .right = (void *)(memory + 2 * (size_t)bytes)};
    }
    return true;
}

static void load_image(struct tree_mega *mega, const struct mega_step *path, uint32_t depth)
{
    const struct tree_node *node = mega_node(mega, path[depth].unit);
    memcpy(mega->images[depth].node, node, tree_node_bytes(node));
}

/* Change a node, and those above it as far as need be. @return 0; -ENOSPC: nothing was changed */
static int change_node(struct tree_mega *mega, const struct mega_step *path, uint32_t depth,
                       const struct edit *edit)
{
    struct tree_node *image = mega->images[depth].node;
    load_image(mega, path, depth);
    if (edit->moved != 0)
        tree_node_replace(image, edit->entry, (struct tree_value){.place = edit->moved});
    if (edit->key.bytes != NULL && !tree_node_insert(image, edit->place, edit->key, edit->value))
        return split_node(mega, path, depth, edit);
    store_node(mega, image, path[depth].unit);
    return 0;
}

int tree_mega_put(struct tree_mega *mega, struct tree_key key, struct tree_value value,
                  struct tree_value *ret_before)
{
    struct mega_step path[TREE_LEVELS_MAX];
    const uint32_t depth = go_down(mega, key, path);
    const struct tree_node *leaf = mega_node(mega, path[depth].unit);
    bool is_found;
    const uint32_t entry = tree_node_find(leaf, key, &is_found);
    base_assert(key.count > 0 && key.count <= TREE_KEY_MAX && value.place != 0);
    if (!has_images(mega, depth))
        return -ENOMEM;
    *ret_before = is_found ? tree_node_value(leaf, entry) : (struct tree_value){.place = 0};
    if (!is_found) {
        int error =
            change_node(mega, path, depth, &(struct edit){.place = entry, .key = key, .value = value});
        mega->keys += error == 0;
        return error;
    }
    load_image(mega, path, depth);
    tree_node_replace(mega->images[depth].node, entry, value);
    store_node(mega, mega->images[depth].node, path[depth].unit);
    return 0;
}

/* ---- deleting ----------------------------------------------------------------------------------- */

/* Whether a node has little beside its fences. */
static bool is_small(const struct tree_node *node)
{
    return tree_node_used(node) - node->low_bytes - node->high_bytes < tree_node_bytes(node) / 4;
}

/* Build one node of two neighbours, as small as can be with some room left. @return false: it would be larger than both */
static bool build_merged(const struct tree_mega *mega, const struct tree_node *left,
                         const struct tree_node *right, struct tree_node *ret_image)
{
    const struct tree_key high = tree_node_high(right),
                          *end = (right->flags & TREE_NODE_LAST) != 0 ? NULL : &high;
    const uint32_t most = base_max((uint32_t)left->class_number, (uint32_t)right->class_number);
    uint8_t buffer[TREE_KEY_MAX];
    for (uint32_t class_number = 0; class_number <= most; class_number++) {
        bool fits =
            tree_node_init(ret_image, mega->unit_bytes, class_number, left->level, tree_node_low(left), end);
        for (uint32_t i = 0; i < left->count && fits; i++)
            fits = tree_node_insert(ret_image, i, tree_node_key(left, i, buffer), tree_node_value(left, i));
        for (uint32_t i = 0; i < right->count && fits; i++)
            fits = tree_node_insert(ret_image, ret_image->count, tree_node_key(right, i, buffer),
                                    tree_node_value(right, i));
        ret_image->right = right->right;
        if (fits && tree_node_used(ret_image) <= tree_node_bytes(ret_image) / 4 * 3)
            return true;
    }
    return false;
}

/* A root with one child takes that child's place. */
static void lower_root(struct tree_mega *mega)
{
    const struct tree_node *root = mega_node(mega, ROOT);
    struct tree_node *image = mega->scratch;
    while (root->level > 0 && root->count == 1) {
        const uint32_t unit = tree_pointer_unit(tree_node_child(root, 0));
        memcpy(image, mega_node(mega, unit), tree_node_bytes(mega_node(mega, unit)));
        store_node(mega, image, ROOT);
        bury_node(mega, unit);
    }
}

/*
 * Remove an entry of a node, and have it and a neighbour become one if it has little left.
 *
 * @param moved  the child of the entry before it is there now; 0: it is where it was
 */
static void remove_entry(struct tree_mega *mega, const struct mega_step *path, uint32_t depth, uint32_t entry,
                         tree_pointer moved)
{
    struct mega_images *images = &mega->images[depth];
    load_image(mega, path, depth);
    if (moved != 0)
        tree_node_replace(images->node, entry - 1, (struct tree_value){.place = moved});
    tree_node_remove(images->node, entry);
    uint32_t left = path[depth].unit, right = ROOT, place = ROOT;
    uint32_t at = depth == 0 ? 0 : path[depth - 1].entry; /* the left one's entry */
    if (depth > 0 && is_small(images->node)) {
        const struct tree_node *above = mega_node(mega, path[depth - 1].unit);
        if (at + 1u < above->count &&
            build_merged(mega, images->node, mega_child(mega, above, at + 1), images->left)) {
            right = tree_pointer_unit(tree_node_child(above, at + 1));
        } else if (at > 0 &&
                   build_merged(mega, mega_child(mega, above, at - 1), images->node, images->left)) {
            right = left;
            left = tree_pointer_unit(tree_node_child(above, --at));
        }
        if (right != ROOT)
            place = images->left->class_number == mega_node(mega, left)->class_number
                        ? left
                        : take_units(mega, images->left->class_number);
    }
    if (place == ROOT) {
        store_node(mega, images->node, path[depth].unit);
        return;
    }
    const tree_pointer merged = pointer_to(mega, images->left, place);
    store_node(mega, images->left, place);
    remove_entry(mega, path, depth - 1, at + 1, place != left ? merged : 0);
    if (place != left) {
        lead_right(mega, find_left(mega, images->left), merged);
        mega->nodes++;
        mega->moves++;
        bury_node(mega, left);
    }
    bury_node(mega, right);
    mega->merges++;
}

int tree_mega_delete(struct tree_mega *mega, struct tree_key key, struct tree_value *ret_before)
{
    struct mega_step path[TREE_LEVELS_MAX];
    const uint32_t depth = go_down(mega, key, path);
    const struct tree_node *leaf = mega_node(mega, path[depth].unit);
    bool is_found;
    const uint32_t entry = tree_node_find(leaf, key, &is_found);
    if (!is_found)
        return -ENOENT;
    const struct tree_value before = tree_node_value(leaf, entry);
    if (!has_images(mega, depth))
        return -ENOMEM;
    remove_entry(mega, path, depth, entry, 0);
    lower_root(mega);
    *ret_before = before;
    mega->keys--;
    return 0;
}
