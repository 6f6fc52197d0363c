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

void cache_header_pack(const struct cache_header *header, struct cache_header_format *ret_header)
{
    *ret_header = (struct cache_header_format){
        .magic = BASE_LITTLE_ENDIAN(64, CACHE_MAGIC),
        .version = BASE_LITTLE_ENDIAN(32, CACHE_FORMAT_VERSION),
        .partition = BASE_LITTLE_ENDIAN(32, header->partition),
        .partitions = BASE_LITTLE_ENDIAN(32, header->partitions),
        .seed = BASE_LITTLE_ENDIAN(64, header->seed),
        .buckets = BASE_LITTLE_ENDIAN(64, header->buckets),
        .index_offset = BASE_LITTLE_ENDIAN(64, CACHE_INDEX_OFFSET),
        .log_offset = BASE_LITTLE_ENDIAN(64, header->log_offset),
        .log_bytes = BASE_LITTLE_ENDIAN(64, header->log_bytes),
    };
    ret_header->checksum = BASE_LITTLE_ENDIAN(32, header_checksum(ret_header));
}

/* Whether what it says lies in the region, and agrees with itself. */
static bool is_sound(const struct cache_header *header, uint64_t region_bytes)
{
    return header->partitions >= 1 && header->partitions <= CACHE_PARTITIONS_MAX &&
           header->partition < header->partitions && header->buckets >= 1 &&
           header->buckets <= CACHE_BUCKETS_MAX &&
           header->log_offset == CACHE_INDEX_OFFSET + header->buckets * CACHE_BUCKET_BYTES &&
           header->log_bytes >= LOG_BYTES_MIN && header->log_bytes <= CACHE_LOG_BYTES_MAX &&
           base_is_aligned(header->log_bytes, CACHE_GRAIN_BYTES) && header->log_offset <= region_bytes &&
           header->log_bytes <= region_bytes - header->log_offset;
}

int cache_header_unpack(const void *from, uint64_t region_bytes, struct cache_header *ret_header)
{
    struct cache_header_format format;
    memcpy(&format, from, sizeof(format));
    if (BASE_LITTLE_ENDIAN(64, format.magic) != CACHE_MAGIC)
        return -EUCLEAN;
    if (BASE_LITTLE_ENDIAN(32, format.version) != CACHE_FORMAT_VERSION)
        return -ENOTSUP;
    struct cache_header header = {
        .seed = BASE_LITTLE_ENDIAN(64, format.seed),
        .buckets = BASE_LITTLE_ENDIAN(64, format.buckets),
        .log_offset = BASE_LITTLE_ENDIAN(64, format.log_offset),
        .log_bytes = BASE_LITTLE_ENDIAN(64, format.log_bytes),
        .partition = BASE_LITTLE_ENDIAN(32, format.partition),
        .partitions = BASE_LITTLE_ENDIAN(32, format.partitions),
    };
    if (BASE_LITTLE_ENDIAN(32, format.checksum) != header_checksum(&format) ||
        BASE_LITTLE_ENDIAN(64, format.index_offset) != CACHE_INDEX_OFFSET || !is_sound(&header, region_bytes))
        return -EUCLEAN;
    header.salt = cache_salt(header.seed);
    *ret_header = header;
    return 0;
}
