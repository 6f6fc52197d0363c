/* Caches: opening, sharing memory out, closing, counters. */
#include "cache/cache_internal.h"
#include <errno.h>
#include <sys/mman.h>

/* Memory from this size on takes huge pages: keys hit it all over, and translations are most of what misses. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define HUGE_FROM_BYTES (2 * HUGE_PAGE_BYTES)

#define ITEM_BYTES_DEFAULT 100

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* Charged, zero, and there. @return NULL: no memory */
static uint8_t *take_memory(struct base_account *account, size_t bytes)
{
    bool is_huge = bytes >= HUGE_FROM_BYTES;
    uint8_t *memory = base_map(account, is_huge ? HUGE_PAGE_BYTES : BASE_PAGE_BYTES, bytes);
    if (memory == NULL)
        return NULL;
    if (is_huge)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memset(memory, 0, bytes);
}

static size_t cache_bytes(uint32_t partitions)
{
    return sizeof(struct cache) + partitions * sizeof(struct cache_partition);
}

/* What a partition of the cache's own memory has. */
static uint64_t share_of(const struct cache_options *options)
{
    return base_align_down(options->memory_bytes / options->partitions, CACHE_BUCKET_BYTES);
}

/* ---- partitions ------------------------------------------------------------------------------------------- */

static void write_header(struct cache_partition *partition, const struct cache_layout *layout)
{
    const struct cache_header header = {.seed = partition->seed,
                                        .buckets = layout->buckets,
                                        .log_offset = layout->log_offset,
                                        .log_bytes = layout->log_bytes,
                                        .partition = partition->number,
                                        .partitions = partition->partitions};
    struct cache_header_format format;
    cache_header_pack(&header, &format);
    cache_copy_in(partition, partition->memory, &format, sizeof(format));
}

/* @return 0; -EINVAL; -EFBIG; -ENOMEM */
static int open_partition(struct cache *cache, uint32_t number, const struct cache_options *options)
{
    struct cache_partition *partition = &cache->partitions[number];
    struct tarn_fabric_region *region = options->regions == NULL ? NULL : options->regions[number];
    uint64_t bytes = region == NULL ? share_of(options) : region->bytes;
    struct cache_layout layout;
    int error = cache_layout_choose(
        bytes, options->item_bytes == 0 ? ITEM_BYTES_DEFAULT : options->item_bytes, &layout);
    if (error != 0)
        return error;
    uint8_t *memory = region == NULL ? take_memory(&cache->node->memory, bytes) : region->memory;
    if (memory == NULL)
        return -ENOMEM;
    *partition = (struct cache_partition){
        .node = cache->node,
        .memory = memory,
        .memory_bytes = bytes,
        .index = memory + CACHE_INDEX_OFFSET,
        .log = memory + layout.log_offset,
        .seed = cache->seed,
        .buckets = layout.buckets,
        .log_bytes = layout.log_bytes,
        .region = region,
        .salt = cache_salt(cache->seed),
        .number = number,
        .partitions = cache->count,
        .record_bytes_max = (uint32_t)base_min(layout.log_bytes / 4, (uint64_t)UINT32_MAX / 2),
        .version = task_wall(cache->node),
        .flush_ns = CACHE_NEVER,
    };
    if (region != NULL) /* it may have been another cache's */
        cache_index_clear(partition);
    write_header(partition, &layout);
    return 0;
}

int cache_open(struct tarn_node *node, const struct cache_options *options, struct cache **ret_cache)
{
    if (options->partitions == 0 || options->partitions > CACHE_PARTITIONS_MAX)
        return -EINVAL;
    struct cache *cache =
        base_alloc_aligned(&node->memory, _Alignof(struct cache_partition), cache_bytes(options->partitions));
    if (cache == NULL)
        return -ENOMEM;
    cache->node = node;
    cache->seed = options->seed != 0 ? options->seed : task_rng(node);
    cache->count = options->partitions;
    for (uint32_t i = 0; i < options->partitions; i++) {
        int error = open_partition(cache, i, options);
        if (error != 0) {
            cache_close(cache);
            return error;
        }
    }
    *ret_cache = cache;
    return 0;
}

void cache_close(struct cache *cache)
{
    struct base_account *account = &cache->node->memory;
    for (uint32_t i = 0; i < cache->count; i++) {
        struct cache_partition *partition = &cache->partitions[i];
        base_assert(!atomic_load_explicit(&partition->busy, memory_order_relaxed));
        if (partition->region == NULL && partition->memory != NULL)
            base_unmap(account, partition->memory, partition->memory_bytes);
    }
    base_free(account, cache, cache_bytes(cache->count));
}

/* ---- what can be asked ------------------------------------------------------------------------------------- */

uint64_t cache_seed(const struct cache *cache)
{
    return cache->seed;
}

uint32_t cache_partitions(const struct cache *cache)
{
    return cache->count;
}

struct cache_partition *cache_partition(struct cache *cache, uint32_t number)
{
    base_assert(number < cache->count);
    return &cache->partitions[number];
}

uint32_t cache_partition_of(uint64_t seed, uint32_t partitions, const void *key, size_t key_len)
{
    return cache_hash_partition(base_hash64(key, key_len, seed), partitions);
}

uint64_t cache_value_bytes_max(const struct cache_partition *partition, size_t key_len)
{
    uint64_t around = CACHE_RECORD_HEADER_BYTES + key_len;
    if (around > partition->record_bytes_max)
        return 0;
    return base_min(partition->record_bytes_max - around, (uint64_t)CACHE_VALUE_BYTES_MAX);
}

static uint64_t read_counter(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void cache_stats(const struct cache_partition *partition, struct cache_stats *ret_stats)
{
    const struct cache_counters *counters = &partition->counters;
    *ret_stats = (struct cache_stats){
        .gets = read_counter(&counters->gets),
        .hits = read_counter(&counters->hits),
        .expired = read_counter(&counters->expired),
        .puts = read_counter(&counters->puts),
        .in_place = read_counter(&counters->in_place),
        .deletes = read_counter(&counters->deletes),
        .touches = read_counter(&counters->touches),
        .evictions_log = read_counter(&counters->evictions_log),
        .evictions_index = read_counter(&counters->evictions_index),
        .reclaimed = read_counter(&counters->reclaimed),
        .flushes = read_counter(&counters->flushes),
        .records = read_counter(&counters->records),
        .live_bytes = read_counter(&counters->live_bytes),
        .index_bytes = partition->buckets * CACHE_BUCKET_BYTES,
        .log_bytes = partition->log_bytes,
    };
}
