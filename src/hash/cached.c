/* The cache: records that this client has read or written, the least used of which go first. A record never changes, so one that is kept is
 * as good as the one in its table, as long as the word that refers to it is the same. */
#include "hash/hash_internal.h"
#include <stddef.h>

/* How long a record is as good as its table's without a look: a slot has the same low bits of a generation again after two rests at the
 * earliest, each as long as two operations (slots.c). */
static uint64_t trust_ns(const struct hash *hash)
{
    return 3 * hash->shape.operation_ns;
}

struct hash_cached {
    struct base_list link;    /* in the client's list, the latest first */
    struct hash_cached *next; /* in its bucket */
    uint64_t word, seen_ns;
    uint64_t bytes; /* of the record */
    struct hash_record record;
};

static struct hash_cached **bucket_of(const struct hash *hash, uint64_t word)
{
    const uint64_t mixed = hash_address_of(&hash->layout, word) * UINT64_C(0x9e3779b97f4a7c15);
    return &hash->cache_buckets[mixed >> 32 & (hash->cache_bucket_count - 1)];
}

static uint64_t bytes_of(const struct hash_cached *cached)
{
    return offsetof(struct hash_cached, record) + cached->bytes;
}

static void remove_cached(struct hash *hash, struct hash_cached *cached)
{
    struct hash_cached **at = bucket_of(hash, cached->word);
    while (*at != cached)
        at = &(*at)->next;
    *at = cached->next;
    base_list_remove(&cached->link);
    hash->cached_bytes -= bytes_of(cached);
    base_free(&hash->node->memory, cached, bytes_of(cached));
}

const struct hash_record *hash_cache_find(struct hash *hash, uint64_t word)
{
    if (hash->cache_bytes == 0)
        return NULL;
    for (struct hash_cached *cached = *bucket_of(hash, word); cached != NULL; cached = cached->next) {
        if (cached->word != word)
            continue;
        const uint64_t now = task_now();
        if (now - cached->seen_ns > trust_ns(hash)) {
            remove_cached(hash, cached);
            return NULL;
        }
        cached->seen_ns = now;
        base_list_remove(&cached->link);
        base_list_push_front(&hash->cached, &cached->link);
        hash->stats.cached++;
        return &cached->record;
    }
    return NULL;
}

void hash_cache_keep(struct hash *hash, uint64_t word, const struct hash_record *record)
{
    const uint64_t bytes = sizeof(*record) + record->key_bytes + record->value_bytes;
    const uint64_t whole = offsetof(struct hash_cached, record) + bytes;
    if (whole > hash->cache_bytes / 8)
        return;
    while (hash->cached_bytes + whole > hash->cache_bytes)
        remove_cached(hash, base_container_of(hash->cached.prev, struct hash_cached, link));
    struct hash_cached *cached = base_alloc(&hash->node->memory, whole);
    if (cached == NULL)
        return;
    cached->word = word;
    cached->seen_ns = task_now();
    cached->bytes = bytes;
    memcpy(&cached->record, record, bytes);
    struct hash_cached **bucket = bucket_of(hash, word);
    cached->next = *bucket;
    *bucket = cached;
    base_list_push_front(&hash->cached, &cached->link);
    hash->cached_bytes += whole;
}

void hash_cache_clear(struct hash *hash)
{
    while (!base_list_empty(&hash->cached))
        remove_cached(hash, base_container_of(hash->cached.prev, struct hash_cached, link));
}
