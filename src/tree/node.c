/* Nodes as bytes. What links nodes to a tree is in mega.c. */
#include "tree/node.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define LEAF_BYTES  20u /* of a leaf's entry in the heap, before the key */
#define INNER_BYTES 8u

/* Where an entry is in the heap. */
struct slot {
    uint16_t at;        /* offset in the node */
    uint16_t key_bytes; /* of the key without the prefix */
};

_Static_assert(sizeof(struct tree_node) == 40, "a node's beginning is as README says");
_Static_assert(sizeof(struct slot) + sizeof(uint32_t) == TREE_NODE_OVERHEAD,
               "each entry has a head and a slot");

static uint32_t *heads_of(const struct tree_node *node)
{
    return (uint32_t *)(uintptr_t)(node + 1);
}

static struct slot *slots_of(const struct tree_node *node)
{
    return (struct slot *)(heads_of(node) + node->count);
}

static uint8_t *bytes_of(const struct tree_node *node, uint32_t at)
{
    return (uint8_t *)(uintptr_t)node + at;
}

static uint32_t payload_bytes(const struct tree_node *node)
{
    return node->level == 0 ? LEAF_BYTES : INNER_BYTES;
}

static uint32_t lists_end(const struct tree_node *node)
{
    return (uint32_t)sizeof(*node) + node->count * TREE_NODE_OVERHEAD;
}

/* ---- keys --------------------------------------------------------------------------------------- */

int tree_key_compare(struct tree_key a, struct tree_key b)
{
    const int order = memcmp(a.bytes, b.bytes, base_min(a.count, b.count));
    return order != 0 ? order : (a.count > b.count) - (a.count < b.count);
}

uint32_t tree_key_common(struct tree_key a, struct tree_key b)
{
    const uint32_t most = base_min(a.count, b.count);
    uint32_t common = 0;
    while (common < most && a.bytes[common] == b.bytes[common])
        common++;
    return common;
}

/* The first four bytes of a key as a number that compares as they do; zeros stand for bytes that it has not. */
static uint32_t head_of(struct tree_key key)
{
    uint32_t head = 0;
    if (base_likely(key.count >= 4))
        memcpy(&head, key.bytes, 4);
    else
        memcpy(&head, key.bytes, key.count);
    return __builtin_bswap32(head);
}

/* A key of the node's range, without the prefix. */
static struct tree_key rest_of(const struct tree_node *node, struct tree_key key)
{
    return (struct tree_key){.bytes = key.bytes + node->prefix_bytes,
                             .count = key.count - node->prefix_bytes};
}

static struct tree_key rest_at(const struct tree_node *node, uint32_t entry)
{
    const struct slot *slot = &slots_of(node)[entry];
    return (struct tree_key){.bytes = bytes_of(node, slot->at + payload_bytes(node)),
                             .count = slot->key_bytes};
}

struct tree_key tree_node_low(const struct tree_node *node)
{
    return (struct tree_key){.bytes = bytes_of(node, tree_node_bytes(node) - node->low_bytes),
                             .count = node->low_bytes};
}

struct tree_key tree_node_high(const struct tree_node *node)
{
    return (struct tree_key){.bytes =
                                 bytes_of(node, tree_node_bytes(node) - node->low_bytes - node->high_bytes),
                             .count = node->high_bytes};
}

const struct tree_key *tree_node_end(const struct tree_node *node, struct tree_key *ret_high)
{
    if ((node->flags & TREE_NODE_LAST) != 0)
        return NULL;
    *ret_high = tree_node_high(node);
    return ret_high;
}

int tree_node_compare(const struct tree_node *node, struct tree_key key)
{
    if (tree_key_compare(key, tree_node_low(node)) < 0)
        return -1;
    return (node->flags & TREE_NODE_LAST) == 0 && tree_key_compare(key, tree_node_high(node)) >= 0;
}

struct tree_key tree_node_key(const struct tree_node *node, uint32_t entry, uint8_t *buffer)
{
    const struct tree_key rest = rest_at(node, entry);
    memcpy(buffer, tree_node_low(node).bytes, node->prefix_bytes);
    memcpy(buffer + node->prefix_bytes, rest.bytes, rest.count);
    return (struct tree_key){.bytes = buffer, .count = node->prefix_bytes + rest.count};
}

/* ---- finding ------------------------------------------------------------------------------------ */

/* The first head that is not less, found without a branch that a processor could guess wrong. */
static uint32_t find_head(const uint32_t *heads, uint32_t count, uint32_t head)
{
    const uint32_t *from = heads;
    for (; count > 1; count -= count / 2)
        from += count / 2 & -(uint32_t)(from[count / 2 - 1] < head);
    return (uint32_t)(from - heads) + (count == 1 && *from < head);
}

uint32_t tree_node_find(const struct tree_node *node, struct tree_key key, bool *ret_found)
{
    const struct tree_key rest = rest_of(node, key);
    const uint32_t head = head_of(rest), *heads = heads_of(node), count = node->count;
    uint32_t first = find_head(heads, count, head), end = first;
    while (end < count && heads[end] == head)
        end++;
    *ret_found = false;
    while (first < end) {
        const uint32_t middle = (first + end) / 2;
        const int order = tree_key_compare(rest_at(node, middle), rest);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

uint32_t tree_node_child_of(const struct tree_node *node, struct tree_key key)
{
    bool is_found;
    const uint32_t entry = tree_node_find(node, key, &is_found);
    return is_found ? entry : entry - 1;
}

struct tree_value tree_node_value(const struct tree_node *node, uint32_t entry)
{
    const uint8_t *at = bytes_of(node, slots_of(node)[entry].at);
    struct tree_value value = {.place = 0};
    memcpy(&value.place, at, 8);
    if (node->level == 0) {
        memcpy(&value.sum, at + 8, 8);
        memcpy(&value.bytes, at + 16, 4);
    }
    return value;
}

tree_pointer tree_node_child(const struct tree_node *node, uint32_t entry)
{
    return tree_node_value(node, entry).place;
}

int tree_node_show(const struct tree_node *leaf, uint32_t entry, const struct tree_key *below,
                   tree_visit_function *visit, void *arg, bool *ret_is_end)
{
    uint8_t buffer[TREE_KEY_MAX];
    int outcome = 0;
    *ret_is_end = false;
    for (; entry < leaf->count && outcome == 0; entry++) {
        const struct tree_key key = tree_node_key(leaf, entry, buffer);
        *ret_is_end = below != NULL && tree_key_compare(key, *below) >= 0;
        if (*ret_is_end)
            break;
        outcome = visit(arg, key, tree_node_value(leaf, entry));
    }
    return outcome;
}

/* ---- changing ----------------------------------------------------------------------------------- */

bool tree_node_init(struct tree_node *node, uint32_t unit_bytes, uint32_t class_number, uint32_t level,
                    struct tree_key low, const struct tree_key *high)
{
    const uint32_t bytes = unit_bytes << class_number, high_bytes = high == NULL ? 0 : high->count;
    if (sizeof(*node) + low.count + high_bytes > bytes / 2)
        return false;
    *node = (struct tree_node){.level = (uint8_t)level,
                               .flags = high == NULL ? TREE_NODE_LAST : 0,
                               .low_bytes = (uint16_t)low.count,
                               .high_bytes = (uint16_t)high_bytes,
                               .heap = (uint16_t)(bytes - low.count - high_bytes),
                               .class_number = (uint8_t)class_number,
                               .unit_shift = (uint8_t)__builtin_ctz(unit_bytes)};
    node->prefix_bytes = high == NULL ? 0 : (uint16_t)tree_key_common(low, *high);
    memcpy(bytes_of(node, bytes - low.count), low.bytes, low.count);
    if (high != NULL)
        memcpy(bytes_of(node, node->heap), high->bytes, high->count);
    return true;
}

static void store_value(const struct tree_node *node, uint8_t *at, struct tree_value value)
{
    memcpy(at, &value.place, 8);
    if (node->level == 0) {
        memcpy(at + 8, &value.sum, 8);
        memcpy(at + 16, &value.bytes, 4);
    }
}

bool tree_node_insert(struct tree_node *node, uint32_t entry, struct tree_key key, struct tree_value value)
{
    const struct tree_key rest = rest_of(node, key);
    const uint32_t bytes = payload_bytes(node) + rest.count;
    if (lists_end(node) + TREE_NODE_OVERHEAD + bytes > node->heap)
        return false;
    struct slot *slots = slots_of(node), *slots_after = slots + 1;
    uint32_t *heads = heads_of(node);
    const uint32_t behind = node->count - entry;
    memmove(slots_after + entry + 1, slots + entry, behind * sizeof(*slots));
    memmove(slots_after, slots, entry * sizeof(*slots));
    memmove(heads + entry + 1, heads + entry, behind * sizeof(*heads));
    node->heap = (uint16_t)(node->heap - bytes);
    node->count++;
    heads[entry] = head_of(rest);
    slots_after[entry] = (struct slot){.at = node->heap, .key_bytes = (uint16_t)rest.count};
    store_value(node, bytes_of(node, node->heap), value);
    memcpy(bytes_of(node, node->heap + payload_bytes(node)), rest.bytes, rest.count);
    return true;
}

void tree_node_replace(struct tree_node *node, uint32_t entry, struct tree_value value)
{
    store_value(node, bytes_of(node, slots_of(node)[entry].at), value);
}

void tree_node_remove(struct tree_node *node, uint32_t entry)
{
    struct slot *slots = slots_of(node);
    uint32_t *heads = heads_of(node);
    const uint32_t behind = node->count - entry - 1, at = slots[entry].at,
                   bytes = payload_bytes(node) + slots[entry].key_bytes;
    memmove(bytes_of(node, node->heap + bytes), bytes_of(node, node->heap), at - node->heap);
    node->heap = (uint16_t)(node->heap + bytes);
    for (uint32_t i = 0; i < node->count; i++)
        slots[i].at = (uint16_t)(slots[i].at + (slots[i].at < at ? bytes : 0));
    memmove(heads + entry, heads + entry + 1, behind * sizeof(*heads));
    memmove(slots - 1, slots, entry * sizeof(*slots));
    memmove(slots - 1 + entry, slots + entry + 1, behind * sizeof(*slots));
    node->count--;
}

uint32_t tree_node_used(const struct tree_node *node)
{
    return lists_end(node) + tree_node_bytes(node) - node->heap;
}

/* ---- proving ------------------------------------------------------------------------------------ */

/* The bytes between lists and heap do not count. */
static uint64_t sum_of(const struct tree_node *node, tree_pointer self)
{
    const uint64_t place = self & ~UINT64_C(15);
    uint64_t sum = base_crc64(0, &place, sizeof(place));
    sum = base_crc64(sum, &node->version, lists_end(node) - offsetof(struct tree_node, version));
    return base_crc64(sum, bytes_of(node, node->heap), tree_node_bytes(node) - node->heap);
}

void tree_node_seal(struct tree_node *node, tree_pointer self, uint64_t version)
{
    node->version = version;
    node->sum = sum_of(node, self);
}

/* Whether the first key is not below the low fence, of an inner node the same, and the last one is below the high fence. */
static bool has_good_ends(const struct tree_node *node)
{
    const struct tree_key high = tree_node_high(node);
    if (node->count == 0)
        return node->level == 0;
    const int order = tree_key_compare(rest_at(node, 0), rest_of(node, tree_node_low(node)));
    return (node->level == 0 ? order >= 0 : order == 0) &&
           ((node->flags & TREE_NODE_LAST) != 0 ||
            tree_key_compare(rest_at(node, node->count - 1u), rest_of(node, high)) < 0);
}

/* Whether entries lie within the heap and have the order that finding expects. */
static bool has_good_entries(const struct tree_node *node)
{
    const uint32_t end = tree_node_bytes(node) - node->low_bytes - node->high_bytes;
    const struct slot *slots = slots_of(node);
    uint32_t used = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        const uint32_t bytes = payload_bytes(node) + slots[i].key_bytes;
        if (slots[i].at < node->heap || slots[i].at + bytes > end ||
            node->prefix_bytes + slots[i].key_bytes > TREE_KEY_MAX ||
            heads_of(node)[i] != head_of(rest_at(node, i)) ||
            (i > 0 && tree_key_compare(rest_at(node, i - 1), rest_at(node, i)) >= 0))
            return false;
        used += bytes;
    }
    return used == end - node->heap && has_good_ends(node);
}

int tree_node_check(const void *image, uint32_t bytes, uint32_t unit_bytes, tree_pointer self)
{
    const struct tree_node *node = image;
    if (node->unit_shift != __builtin_ctz(unit_bytes) || node->class_number >= TREE_CLASSES ||
        node->level >= TREE_LEVELS_MAX || node->low_bytes > TREE_KEY_MAX || node->high_bytes > TREE_KEY_MAX ||
        node->prefix_bytes > node->low_bytes || node->unused != 0)
        return -EAGAIN;
    if (tree_node_bytes(node) > bytes)
        return -EMSGSIZE;
    if (lists_end(node) > node->heap ||
        node->heap + (uint32_t)node->low_bytes + node->high_bytes > tree_node_bytes(node) ||
        node->sum != sum_of(node, self))
        return -EAGAIN;
    if ((node->flags & TREE_NODE_LAST) == 0 &&
        (node->prefix_bytes != tree_key_common(tree_node_low(node), tree_node_high(node)) ||
         tree_key_compare(tree_node_low(node), tree_node_high(node)) >= 0))
        return -EAGAIN;
    if ((node->flags & TREE_NODE_LAST) != 0 && (node->prefix_bytes != 0 || node->high_bytes != 0))
        return -EAGAIN;
    return has_good_entries(node) ? 0 : -EAGAIN;
}
