/* The formats that are more than bits of a word: checksums, headers, how memory is shared out. */
#include "cache/layout.h"
#include <errno.h>

#define CHECKSUM_BYTES 4

/* Entries of a bucket that are taken when items of the expected size fill the log. */
#define ITEMS_PER_BUCKET 5

/* The least of a log: a record of a key of 250 bytes fits its quarter. */
#define LOG_BYTES_MIN 2048

uint32_t cache_salt(uint64_t seed)
{
    uint64_t bytes = BASE_LITTLE_ENDIAN(64, seed);
    return (uint32_t)base_hash64(&bytes, sizeof(bytes), 0);
}

uint32_t cache_record_checksum(uint32_t salt, uint64_t place, const uint64_t words[CACHE_RECORD_WORDS],
                               const void *body, uint64_t body_bytes)
{
    uint32_t begin = salt + (uint32_t)(place / CACHE_GRAIN_BYTES);
    uint32_t sum = base_crc32c(begin, (const uint8_t *)words + CHECKSUM_BYTES,
                               CACHE_RECORD_HEADER_BYTES - CHECKSUM_BYTES);
    sum = base_crc32c(sum, body, body_bytes);
    return sum == CACHE_CHECKSUM_NONE ? 1 : sum;
}

int cache_layout_choose(uint64_t memory_bytes, uint64_t item_bytes, struct cache_layout *ret_layout)
{
    if (memory_bytes < CACHE_PARTITION_BYTES_MIN)
        return -EINVAL;
    uint64_t left = memory_bytes - CACHE_HEADER_BYTES;
    uint64_t item = base_align_up(CACHE_RECORD_HEADER_BYTES + item_bytes, CACHE_GRAIN_BYTES);
    uint64_t buckets = left / (ITEMS_PER_BUCKET * item + CACHE_BUCKET_BYTES);
    buckets = base_min(base_max(buckets, (uint64_t)1), (left - LOG_BYTES_MIN) / CACHE_BUCKET_BYTES);
    buckets = base_min(buckets, (uint64_t)CACHE_BUCKETS_MAX);
    struct cache_layout layout = {.buckets = buckets,
                                  .log_offset = CACHE_INDEX_OFFSET + buckets * CACHE_BUCKET_BYTES};
    layout.log_bytes = base_align_down(memory_bytes - layout.log_offset, CACHE_GRAIN_BYTES);
    if (layout.log_bytes > CACHE_LOG_BYTES_MAX)
        return -EFBIG;
    *ret_layout = layout;
    return 0;
}

static uint32_t header_checksum(const struct cache_header_format *header)
{
    struct cache_header_format copy = *header;
    copy.checksum = 0;
    return base_crc32c(0, &copy, sizeof(copy));
}

void cache_header_pack(const struct cache_remote *remote, struct cache_header_format *ret_header)
{
    *ret_header = (struct cache_header_format){
        .magic = BASE_LITTLE_ENDIAN(64, CACHE_MAGIC),
        .version = BASE_LITTLE_ENDIAN(32, CACHE_FORMAT_VERSION),
        .partition = BASE_LITTLE_ENDIAN(32, remote->partition),
        .partitions = BASE_LITTLE_ENDIAN(32, remote->partitions),
        .seed = BASE_LITTLE_ENDIAN(64, remote->seed),
        .buckets = BASE_LITTLE_ENDIAN(64, remote->buckets),
        .index_offset = BASE_LITTLE_ENDIAN(64, CACHE_INDEX_OFFSET),
        .log_offset = BASE_LITTLE_ENDIAN(64, remote->log_offset),
        .log_bytes = BASE_LITTLE_ENDIAN(64, remote->log_bytes),
    };
    ret_header->checksum = BASE_LITTLE_ENDIAN(32, header_checksum(ret_header));
}

/* Whether what it says lies in the region, and agrees with itself. */
static bool is_sound(const struct cache_remote *remote, uint64_t region_bytes)
{
    return remote->partitions >= 1 && remote->partitions <= CACHE_PARTITIONS_MAX &&
           remote->partition < remote->partitions && remote->buckets >= 1 &&
           remote->buckets <= CACHE_BUCKETS_MAX &&
           remote->log_offset == CACHE_INDEX_OFFSET + remote->buckets * CACHE_BUCKET_BYTES &&
           remote->log_bytes >= LOG_BYTES_MIN && remote->log_bytes <= CACHE_LOG_BYTES_MAX &&
           base_is_aligned(remote->log_bytes, CACHE_GRAIN_BYTES) && remote->log_offset <= region_bytes &&
           remote->log_bytes <= region_bytes - remote->log_offset;
}

int cache_header_unpack(const void *from, uint64_t region_bytes, struct cache_remote *ret_remote)
{
    struct cache_header_format header;
    memcpy(&header, from, sizeof(header));
    if (BASE_LITTLE_ENDIAN(64, header.magic) != CACHE_MAGIC)
        return -EUCLEAN;
    if (BASE_LITTLE_ENDIAN(32, header.version) != CACHE_FORMAT_VERSION)
        return -ENOTSUP;
    struct cache_remote remote = {
        .seed = BASE_LITTLE_ENDIAN(64, header.seed),
        .buckets = BASE_LITTLE_ENDIAN(64, header.buckets),
        .log_offset = BASE_LITTLE_ENDIAN(64, header.log_offset),
        .log_bytes = BASE_LITTLE_ENDIAN(64, header.log_bytes),
        .partition = BASE_LITTLE_ENDIAN(32, header.partition),
        .partitions = BASE_LITTLE_ENDIAN(32, header.partitions),
    };
    if (BASE_LITTLE_ENDIAN(32, header.checksum) != header_checksum(&header) ||
        BASE_LITTLE_ENDIAN(64, header.index_offset) != CACHE_INDEX_OFFSET || !is_sound(&remote, region_bytes))
        return -EUCLEAN;
    remote.salt = cache_salt(remote.seed);
    *ret_remote = remote;
    return 0;
}
