/* A meganode at its owner: finding, putting and deleting. ranges.c goes through its keys and looks at its nodes. */
#include "tree/mega_internal.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define UNITS_MIN       64u
#define UNITS_MAX       (UINT64_C(1) << 28)        /* that a pointer can tell */
#define ROOT_UNIT_COUNT (1u << (TREE_CLASSES - 1)) /* which the root may grow into */
#define SPLIT_MIN       3u /* entries of a node that is cut in two; one with fewer becomes larger */
#define NOWHERE         UINT32_MAX
#define GROUP           16u /* keys that are looked for at the same time */

/* ---- units -------------------------------------------------------------------------------------- */

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
            is_free = !mega_has_bit(mega->used, k);
        if (!is_free)
            continue;
        set_used(mega, unit, class_number, true);
        mega->next_unit = unit + count;
        return unit;
    }
    return ROOT;
}

/* Give units back in which no node is. @param unit  ROOT: there are none */
static void give_units(struct tree_mega *mega, uint32_t unit, uint32_t class_number)
{
    if (unit != ROOT)
        set_used(mega, unit, class_number, false);
}

/* Write a node into the region. Readers that find some of it written find that it is torn. */
static void store_node(struct tree_mega *mega, struct tree_node *image, uint32_t unit)
{
    tree_node_seal(image, tree_pointer_to(mega->region, unit, 0), ++mega->changes);
    tree_memory_write(mega->memory, (uint64_t)unit * mega->unit_bytes, image, tree_node_bytes(image));
    tarn_fabric_mem_fence();
}

static tree_pointer pointer_to(const struct tree_mega *mega, const struct tree_node *image, uint32_t unit)
{
    return tree_pointer_to(mega->region, unit, image->class_number);
}

/* Copy a node, to change it. */
static struct tree_node *copy_node(const struct tree_mega *mega, uint32_t unit, struct tree_node *image)
{
    return memcpy(image, mega_node(mega, unit), tree_node_bytes(mega_node(mega, unit)));
}

/* Take a node out of the tree, to which nothing leads any more but what readers know from before. */
static void bury_node(struct tree_mega *mega, uint32_t unit)
{
    struct tree_node *image = copy_node(mega, unit, mega->scratch);
    image->flags |= TREE_NODE_DEAD;
    store_node(mega, image, unit);
    give_units(mega, unit, image->class_number);
    mega->nodes--;
}

/* See that there is memory for the images of a depth, and of those above it. */
static bool has_images(struct tree_mega *mega, uint32_t depth)
{
    const uint32_t bytes = tree_image_bytes(mega->unit_bytes);
    for (; mega->image_count <= depth && mega->image_count < TREE_LEVELS_MAX; mega->image_count++) {
        uint8_t *memory = base_alloc(mega->account, 3 * (size_t)bytes);
        if (memory == NULL)
            return false;
        mega->images[mega->image_count] = (struct mega_images){.node = (void *)memory,
                                                               .left = (void *)(memory + bytes),
                                                               .right = (void *)(memory + 2 * (size_t)bytes)};
    }
    return true;
}

/* ---- opening ------------------------------------------------------------------------------------ */

void tree_mega_close(struct tree_mega *mega)
{
    const uint32_t bytes = tree_image_bytes(mega->unit_bytes);
    for (uint32_t i = 0; i < mega->image_count; i++)
        base_free(mega->account, mega->images[i].node, 3 * (size_t)bytes);
    base_free(mega->account, mega->scratch, bytes);
    base_free(mega->account, mega->used, mega_bitmap_bytes(mega));
    base_free(mega->account, mega, sizeof(*mega));
}

/* Have readers that come to a leaf by what they remember begin again. */
static void stamp_leaves(struct tree_mega *mega)
{
    tree_pointer pointer = tree_pointer_to(mega->region, ROOT, 0);
    while (mega_node(mega, tree_pointer_unit(pointer))->level > 0)
        pointer = tree_node_child(mega_node(mega, tree_pointer_unit(pointer)), 0);
    while (pointer != 0) {
        const uint32_t unit = tree_pointer_unit(pointer);
        struct tree_node *image = copy_node(mega, unit, mega->scratch);
        pointer = image->right;
        image->flags |= TREE_NODE_DEAD;
        store_node(mega, image, unit);
    }
}

void tree_mega_clear(struct tree_mega *mega)
{
    if (mega->nodes > 0 && mega->memory->regions != NULL)
        stamp_leaves(mega);
    const bool fits = tree_node_init(mega->scratch, mega->unit_bytes, 0, 0,
                                     (struct tree_key){.bytes = (const uint8_t *)"", .count = 0}, NULL);
    base_assert(fits);
    memset(mega->used, 0, mega_bitmap_bytes(mega));
    mega->units_used = 0;
    set_used(mega, ROOT, TREE_CLASSES - 1, true);
    mega->next_unit = ROOT_UNIT_COUNT;
    mega->nodes = 1;
    mega->keys = 0;
    store_node(mega, mega->scratch, ROOT);
}

int tree_mega_open(const struct tree_mega_options *options, struct tree_mega **ret_mega)
{
    const uint32_t unit_bytes = options->unit_bytes == 0 ? TREE_NODE_BYTES : options->unit_bytes;
    if (!tree_is_unit(unit_bytes) || options->memory->bytes / unit_bytes < UNITS_MIN ||
        options->memory->room_bytes / unit_bytes > UNITS_MAX)
        return -EINVAL;
    struct tree_mega *mega = base_alloc(options->account, sizeof(*mega));
    if (mega == NULL)
        return -ENOMEM;
    *mega = (struct tree_mega){.account = options->account,
                               .memory = options->memory,
                               .extents = options->extents,
                               .region = options->region,
                               .unit_bytes = unit_bytes,
                               .units = (uint32_t)(options->memory->bytes / unit_bytes),
                               .units_max = (uint32_t)(options->memory->room_bytes / unit_bytes)};
    mega->used = base_alloc(mega->account, mega_bitmap_bytes(mega));
    mega->scratch = base_alloc(mega->account, tree_image_bytes(unit_bytes));
    if (mega->used == NULL || mega->scratch == NULL || !has_images(mega, 0)) {
        tree_mega_close(mega);
        return -ENOMEM;
    }
    tree_mega_clear(mega);
    *ret_mega = mega;
    return 0;
}

void tree_mega_grow(struct tree_mega *mega)
{
    mega->units = (uint32_t)(mega->memory->bytes / mega->unit_bytes);
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
        mega_fetch_node(mega_node(mega, unit));
    }
}

int tree_mega_get(const struct tree_mega *mega, struct tree_key key, struct tree_value *ret_value)
{
    const struct tree_node *node = mega_leaf_of(mega, key);
    bool is_found;
    const uint32_t entry = tree_node_find(node, key, &is_found);
    if (!is_found)
        return -ENOENT;
    *ret_value = tree_node_value(node, entry);
    return 0;
}

static void get_group(const struct tree_mega *mega, const struct tree_key *keys, uint32_t count,
                      struct tree_value *ret_values)
{
    const struct tree_node *nodes[GROUP];
    for (uint32_t i = 0; i < count; i++)
        nodes[i] = mega_node(mega, ROOT);
    for (uint32_t level = mega_node(mega, ROOT)->level; level > 0; level--) {
        for (uint32_t i = 0; i < count; i++)
            nodes[i] = mega_child(mega, nodes[i], tree_node_child_of(nodes[i], keys[i]));
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
    const struct tree_value *replacement; /* the value that an entry has from now on; NULL: none changes */
    uint32_t replaced;                    /* the entry that gets it */
    uint32_t place;          /* the number of a new entry among the others; NOWHERE: none comes */
    struct tree_key key;     /* the new entry's key */
    struct tree_value value; /* the new entry's value */
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

/* Add some of these entries behind those of an image. @return false: there is no room for all */
static bool append_entries(struct tree_node *image, const struct tree_node *node, const struct edit *edit,
                           uint32_t first, uint32_t end)
{
    uint8_t buffer[TREE_KEY_MAX];
    bool fits = true;
    for (uint32_t i = first; i < end && fits; i++)
        fits = tree_node_insert(image, image->count, key_of(node, edit, i, buffer), value_of(node, edit, i));
    return fits;
}

/* Build a node of some of these entries, as small as can be, but not below a class. @return false: they are too many */
static bool build_part(const struct tree_mega *mega, const struct tree_node *node, const struct edit *edit,
                       uint32_t first, uint32_t end, struct tree_key low, const struct tree_key *high,
                       uint32_t class_number, struct tree_node *ret_image)
{
    for (; class_number < TREE_CLASSES; class_number++) {
        if (tree_node_init(ret_image, mega->unit_bytes, class_number, node->level, low, high) &&
            append_entries(ret_image, node, edit, first, end))
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

/* A node has moved, and those above it lead to its new place: have the node before it lead there, too, and take the old one out of the
 * tree. */
static void leave_place(struct tree_mega *mega, const struct tree_node *moved, tree_pointer now,
                        uint32_t unit)
{
    const struct tree_key low = tree_node_low(moved);
    if (tree_key_compare(low, tree_node_low(mega_node(mega, ROOT))) !=
        0) { /* else it is the first of its level */
        const uint32_t before = mega_find_below(mega, &low, moved->level);
        struct tree_node *image = copy_node(mega, before, mega->scratch);
        image->right = now;
        store_node(mega, image, before);
    }
    mega->nodes++;
    mega->moves++;
    bury_node(mega, unit);
}

/* Put the two halves of the root below it. @return 0; -ENOSPC: nothing was changed */
static int split_root(struct tree_mega *mega, struct tree_node *left, struct tree_node *right,
                      struct tree_key separator)
{
    const struct tree_node *root = mega_node(mega, ROOT);
    struct tree_node *image = mega->scratch;
    const struct tree_key low = tree_node_low(root);
    struct tree_key high;
    bool fits = root->level + 1u < TREE_LEVELS_MAX;
    const uint32_t left_unit = fits ? take_units(mega, left->class_number) : ROOT;
    const uint32_t right_unit = left_unit == ROOT ? ROOT : take_units(mega, right->class_number);
    fits = right_unit != ROOT;
    for (uint32_t class_number = 0; fits; class_number++) {
        if (tree_node_init(image, mega->unit_bytes, class_number, root->level + 1u, low,
                           tree_node_end(root, &high)) &&
            tree_node_insert(image, 0, low,
                             (struct tree_value){.place = pointer_to(mega, left, left_unit)}) &&
            tree_node_insert(image, 1, separator,
                             (struct tree_value){.place = pointer_to(mega, right, right_unit)}))
            break;
        fits = class_number + 1 < TREE_CLASSES;
    }
    if (!fits) {
        give_units(mega, left_unit, left->class_number);
        give_units(mega, right_unit, right->class_number);
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
    struct tree_key high;
    *ret_separator = separate(node, edit, cut, buffer);
    return build_part(mega, node, edit, 0, cut, tree_node_low(node), ret_separator,
                      depth == 0 ? 0 : node->class_number, images->left) &&
           build_part(mega, node, edit, cut, node->count + 1u, *ret_separator, tree_node_end(node, &high), 0,
                      images->right);
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
    struct tree_key high;
    return build_part(mega, node, edit, 0, node->count + 1u, tree_node_low(node), tree_node_end(node, &high),
                      node->class_number, images->left);
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
    const struct tree_value moved = {.place = pointer_to(mega, left, left_unit)};
    struct edit edit = {.replaced = above, .place = NOWHERE};
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
        edit.replacement = &moved;
    }
    if (error == 0)
        error = change_node(mega, path, depth - 1, &edit);
    if (error != 0) {
        give_units(mega, is_moved ? left_unit : ROOT, left->class_number);
        give_units(mega, right_unit, right->class_number);
        return error;
    }
    if (is_moved)
        leave_place(mega, left, moved.place, unit);
    else
        store_node(mega, left, unit);
    mega->nodes += is_split;
    mega->splits += is_split;
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
    images->left->right = images->node->right;
    store_node(mega, images->left, ROOT);
    return 0;
}

/* Change a node, and those above it as far as need be. @return 0; -ENOSPC: nothing was changed */
static int change_node(struct tree_mega *mega, const struct mega_step *path, uint32_t depth,
                       const struct edit *edit)
{
    struct tree_node *image = copy_node(mega, path[depth].unit, mega->images[depth].node);
    if (edit->replacement != NULL)
        tree_node_replace(image, edit->replaced, *edit->replacement);
    if (edit->place != NOWHERE && !tree_node_insert(image, edit->place, edit->key, edit->value))
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
    if (!is_found && !has_images(mega, depth + 1)) /* one more, for the root may be cut in two */
        return -ENOMEM;
    *ret_before = is_found ? tree_node_value(leaf, entry) : (struct tree_value){.place = 0};
    const struct edit edit = {.replacement = is_found ? &value : NULL,
                              .replaced = entry,
                              .place = is_found ? NOWHERE : entry,
                              .key = key,
                              .value = value};
    int error = change_node(mega, path, depth, &edit);
    mega->keys += error == 0 && !is_found;
    return error;
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
    static const struct edit nothing = {.place = NOWHERE};
    const uint32_t most = base_max((uint32_t)left->class_number, (uint32_t)right->class_number);
    struct tree_key high;
    const struct tree_key *end = tree_node_end(right, &high);
    for (uint32_t class_number = 0; class_number <= most; class_number++) {
        if (!tree_node_init(ret_image, mega->unit_bytes, class_number, left->level, tree_node_low(left),
                            end) ||
            !append_entries(ret_image, left, &nothing, 0, left->count) ||
            !append_entries(ret_image, right, &nothing, 0, right->count))
            continue;
        ret_image->right = right->right;
        if (tree_node_used(ret_image) <= tree_node_bytes(ret_image) / 4 * 3)
            return true;
    }
    return false;
}

/* A root with one child takes that child's place. */
static void lower_root(struct tree_mega *mega)
{
    const struct tree_node *root = mega_node(mega, ROOT);
    while (root->level > 0 && root->count == 1) {
        const uint32_t unit = tree_pointer_unit(tree_node_child(root, 0));
        store_node(mega, copy_node(mega, unit, mega->scratch), ROOT);
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
    copy_node(mega, path[depth].unit, images->node);
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
    if (place != left)
        leave_place(mega, images->left, merged, left);
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
    remove_entry(mega, path, depth, entry, 0);
    lower_root(mega);
    *ret_before = before;
    mega->keys--;
    return 0;
}
