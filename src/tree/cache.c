/* Nodes that a reader has seen: buckets by place, and a list with the latest used one first. */
#include "tree/cache.h"
#include <errno.h>
#include <string.h>

#define BUCKETS 16384u /* a power of two */

struct entry {
    struct base_list link; /* in the order of use */
    struct entry *next;    /* of its bucket */
    uint64_t place;
    uint32_t bytes; /* of all of it */
    _Alignas(8) uint8_t node[];
};

struct tree_cache {
    struct base_account *account;
    uint64_t bytes_max, bytes;
    struct base_list used;
    struct entry *buckets[BUCKETS];
};

/* Where a node is, whatever its class. */
static uint64_t place_of(tree_pointer pointer)
{
    return pointer & ~UINT64_C(15);
}

static struct entry **bucket_of(struct tree_cache *cache, uint64_t place)
{
    return &cache->buckets[(place * UINT64_C(0x9e3779b97f4a7c15)) >> 50];
}

int tree_cache_open(struct base_account *account, uint64_t bytes_max, struct tree_cache **ret_cache)
{
    _Static_assert(BUCKETS == 1u << (64 - 50), "as many as a hash tells");
    struct tree_cache *cache = base_alloc(account, sizeof(*cache));
    if (cache == NULL)
        return -ENOMEM;
    *cache = (struct tree_cache){.account = account, .bytes_max = bytes_max};
    base_list_init(&cache->used);
    *ret_cache = cache;
    return 0;
}

/* Free the entry that a link of a bucket leads to. */
static void free_entry(struct tree_cache *cache, struct entry **at)
{
    struct entry *entry = *at;
    *at = entry->next;
    base_list_remove(&entry->link);
    cache->bytes -= entry->bytes;
    base_free(cache->account, entry, entry->bytes);
}

/* The link that leads to a place's entry, or to NULL. */
static struct entry **find_link(struct tree_cache *cache, uint64_t place)
{
    struct entry **at = bucket_of(cache, place);
    while (*at != NULL && (*at)->place != place)
        at = &(*at)->next;
    return at;
}

void tree_cache_close(struct tree_cache *cache)
{
    if (cache == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (cache->buckets[i] != NULL)
            free_entry(cache, &cache->buckets[i]);
    }
    base_free(cache->account, cache, sizeof(*cache));
}

const struct tree_node *tree_cache_find(struct tree_cache *cache, tree_pointer pointer)
{
    struct entry *entry = *find_link(cache, place_of(pointer));
    if (entry == NULL)
        return NULL;
    base_list_remove(&entry->link);
    base_list_push_front(&cache->used, &entry->link);
    return (const struct tree_node *)(const void *)entry->node;
}

void tree_cache_drop(struct tree_cache *cache, tree_pointer pointer)
{
    struct entry **at = find_link(cache, place_of(pointer));
    if (*at != NULL)
        free_entry(cache, at);
}

void tree_cache_put(struct tree_cache *cache, tree_pointer pointer, const struct tree_node *node)
{
    const uint32_t node_bytes = tree_node_bytes(node), bytes = (uint32_t)sizeof(struct entry) + node_bytes;
    tree_cache_drop(cache, pointer);
    while (cache->bytes + bytes > cache->bytes_max && !base_list_empty(&cache->used)) {
        const struct entry *oldest = base_container_of(base_list_last(&cache->used), struct entry, link);
        free_entry(cache, find_link(cache, oldest->place));
    }
    struct entry *entry = cache->bytes + bytes > cache->bytes_max ? NULL : base_alloc(cache->account, bytes);
    if (entry == NULL)
        return;
    struct entry **bucket = bucket_of(cache, place_of(pointer));
    entry->place = place_of(pointer);
    entry->bytes = bytes;
    memcpy(entry->node, node, node_bytes);
    entry->next = *bucket;
    *bucket = entry;
    base_list_push_front(&cache->used, &entry->link);
    cache->bytes += bytes;
}

uint64_t tree_cache_bytes(const struct tree_cache *cache)
{
    return cache->bytes;
}
