/*
 * The formats of README, "Memory, as it is laid out": what is packed here is unpacked here. Numbers are little-endian.
 */
#ifndef CACHE_LAYOUT_H
#define CACHE_LAYOUT_H

#include "base/base.h"
#include "cache/cache.h"

#define CACHE_MAGIC          UINT64_C(0x686361436e726154) /* "TarnCach" */
#define CACHE_FORMAT_VERSION 1

#define CACHE_GRAIN_BYTES    8
#define CACHE_BUCKET_ENTRIES 8
#define CACHE_BUCKET_BYTES   64

#define CACHE_HEADER_BYTES 64
#define CACHE_INDEX_OFFSET 64

#define CACHE_EXPIRY_UNIT_NS UINT64_C(10000000)

/** What a checksum is that is not there yet, or never will be. */
#define CACHE_CHECKSUM_NONE 0

struct cache_header_format {
    uint64_t magic;
    uint32_t version;
    uint32_t checksum;
    uint32_t partition;
    uint32_t partitions;
    uint64_t seed;
    uint64_t buckets;
    uint64_t index_offset;
    uint64_t log_offset;
    uint64_t log_bytes;
};
_Static_assert(sizeof(struct cache_header_format) == CACHE_HEADER_BYTES, "see the table");
_Static_assert(offsetof(struct cache_header_format, seed) == 24, "see the table");
_Static_assert(CACHE_BUCKET_BYTES == CACHE_BUCKET_ENTRIES * sizeof(uint64_t), "see the table");

/* ---- hashes -------------------------------------------------------------------------------------------- */

/** The partition that a hash says. */
static inline uint32_t cache_hash_partition(uint64_t hash, uint32_t partitions)
{
    return (uint32_t)((hash >> 32) * partitions >> 32);
}

/** The bucket that the low half of a hash says. */
static inline uint64_t cache_hash_bucket(uint32_t hash_low, uint64_t buckets)
{
    return hash_low * buckets >> 32;
}

/** The tag that a hash says: 20 bits, never 0. */
static inline uint32_t cache_hash_tag(uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32) & 0xfffff;
    return tag + (tag == 0);
}

/* ---- entries ------------------------------------------------------------------------------------------- */

#define CACHE_ENTRY_GRAIN_BITS 36
#define CACHE_ENTRY_TAG_SHIFT  44
#define CACHE_LOG_BYTES_MAX    ((uint64_t)CACHE_GRAIN_BYTES << CACHE_ENTRY_GRAIN_BITS)
#define CACHE_BUCKETS_MAX      UINT32_MAX

/** Length class of a record's space. @param grains  1 to some 2^17 */
static inline uint32_t cache_length_class(uint32_t grains)
{
    if (grains < 32)
        return grains;
    uint32_t shift = 31 - (uint32_t)__builtin_clz(grains) - 4;
    uint32_t steps = (grains + (1U << shift) - 1) >> shift; /* 16 to 32 */
    return 32 + (shift - 1) * 16 + steps - 16;
}

/** The most grains of a length class. */
static inline uint32_t cache_length_of_class(uint32_t length_class)
{
    if (length_class < 32)
        return length_class;
    uint32_t shift = (length_class - 32) / 16 + 1;
    return (16 + length_class % 16) << shift;
}

/** An entry. @param grains  of the record's space @param place  of it in the log, in bytes */
static inline uint64_t cache_entry_pack(uint32_t tag, uint32_t grains, uint64_t place)
{
    return tag * (UINT64_C(1) << CACHE_ENTRY_TAG_SHIFT) |
           (uint64_t)cache_length_class(grains) << CACHE_ENTRY_GRAIN_BITS | place / CACHE_GRAIN_BYTES;
}

/** Tag of an entry. */
static inline uint32_t cache_entry_tag(uint64_t entry)
{
    return (uint32_t)(entry >> CACHE_ENTRY_TAG_SHIFT);
}

/** Length class of the space of an entry's record. */
static inline uint32_t cache_entry_class(uint64_t entry)
{
    return (uint32_t)(entry >> CACHE_ENTRY_GRAIN_BITS) & 0xff;
}

/** Offset in the log, in bytes. */
static inline uint64_t cache_entry_place(uint64_t entry)
{
    return (entry & ((UINT64_C(1) << CACHE_ENTRY_GRAIN_BITS) - 1)) * CACHE_GRAIN_BYTES;
}

/** An entry at any address. */
static inline uint64_t cache_entry_load(const void *from)
{
    return base_load_le64(from);
}

/* ---- records ------------------------------------------------------------------------------------------- */

#define CACHE_RECORD_HEADER_BYTES 32
#define CACHE_RECORD_WORDS        4
#define CACHE_SLACK_GRAINS_MAX    2047
#define CACHE_EXPIRY_MAX          ((UINT64_C(1) << 40) - 1)

/* The word that has the mark, and the mark. */
#define CACHE_RECORD_MARK_WORD 2
#define CACHE_RECORD_KILLED    (UINT64_C(1) << 63)

/** A record's header, unpacked. */
struct cache_record {
    uint64_t version;
    uint64_t expiry; /* in CACHE_EXPIRY_UNIT_NS; 0: never */
    uint32_t checksum;
    uint32_t hash_low;
    uint32_t client_flags;
    uint32_t value_len;
    uint32_t slack; /* in grains */
    uint32_t key_len;
    uint8_t note;
    bool killed;
};

/** Pack a header. */
static inline void cache_record_pack(const struct cache_record *record, uint64_t words[CACHE_RECORD_WORDS])
{
    words[0] = BASE_LITTLE_ENDIAN(64, record->checksum | (uint64_t)record->hash_low << 32);
    words[1] = BASE_LITTLE_ENDIAN(64, record->version);
    words[2] =
        BASE_LITTLE_ENDIAN(64, record->expiry | (uint64_t)record->key_len << 40 |
                                   (uint64_t)record->note << 56 | (record->killed ? CACHE_RECORD_KILLED : 0));
    words[3] = BASE_LITTLE_ENDIAN(64, record->value_len | (uint64_t)record->slack << 21 |
                                          (uint64_t)record->client_flags << 32);
}

/** Unpack a header. @param from  a record, anywhere */
static inline void cache_record_unpack(const uint8_t *from, struct cache_record *ret_record)
{
    uint64_t sums = base_load_le64(from), marks = base_load_le64(from + 16),
             lengths = base_load_le64(from + 24);
    *ret_record = (struct cache_record){.version = base_load_le64(from + 8),
                                        .expiry = marks & CACHE_EXPIRY_MAX,
                                        .checksum = (uint32_t)sums,
                                        .hash_low = (uint32_t)(sums >> 32),
                                        .client_flags = (uint32_t)(lengths >> 32),
                                        .value_len = (uint32_t)lengths & 0x1fffff,
                                        .slack = (uint32_t)lengths >> 21,
                                        .key_len = (uint32_t)(marks >> 40) & 0xffff,
                                        .note = (uint8_t)(marks >> 56) & TARN_NOTE_MAX,
                                        .killed = (marks & CACHE_RECORD_KILLED) != 0};
}

/** Grains that a header, a key and a value take. */
static inline uint32_t cache_record_grains(uint64_t key_len, uint64_t value_len)
{
    return (uint32_t)((CACHE_RECORD_HEADER_BYTES + key_len + value_len + CACHE_GRAIN_BYTES - 1) /
                      CACHE_GRAIN_BYTES);
}

/** Bytes of a record's space. */
static inline uint64_t cache_record_space(const struct cache_record *record)
{
    return (uint64_t)(cache_record_grains(record->key_len, record->value_len) + record->slack) *
           CACHE_GRAIN_BYTES;
}

/** Whether a record has expired. */
static inline bool cache_record_expired(const struct cache_record *record, uint64_t now_ns)
{
    return record->expiry != 0 && record->expiry * CACHE_EXPIRY_UNIT_NS <= now_ns;
}

/** What clients are told of a record. */
static inline struct tarn_record_info cache_record_info(const struct cache_record *record)
{
    return (struct tarn_record_info){.version = record->version,
                                     .expiry_ns = record->expiry * CACHE_EXPIRY_UNIT_NS,
                                     .client_flags = record->client_flags,
                                     .value_bytes = record->value_len,
                                     .note = record->note};
}

/** Civil time in units of a record, rounded up; what is beyond the last is that. */
static inline uint64_t cache_expiry_pack(uint64_t expiry_ns)
{
    uint64_t units = expiry_ns / CACHE_EXPIRY_UNIT_NS + (expiry_ns % CACHE_EXPIRY_UNIT_NS != 0);
    return base_min(units, CACHE_EXPIRY_MAX);
}

/** What the checksums of a cache's records begin with. */
uint32_t cache_salt(uint64_t seed);

/**
 * Checksum of a record: never CACHE_CHECKSUM_NONE.
 *
 * @param words  its header, packed; the checksum in it does not count
 * @param body   key and value
 * @param place  in the log
 */
uint32_t cache_record_checksum(uint32_t salt, uint64_t place, const uint64_t words[CACHE_RECORD_WORDS],
                               const void *body, uint64_t body_bytes);

/* ---- a partition ----------------------------------------------------------------------------------------- */

/** How a partition's memory is shared out. */
struct cache_layout {
    uint64_t buckets, log_offset, log_bytes;
};

/**
 * Share out memory.
 *
 * @param item_bytes  key and value, as expected
 * @return 0; -EINVAL (too little); -EFBIG
 */
int cache_layout_choose(uint64_t memory_bytes, uint64_t item_bytes, struct cache_layout *ret_layout)
    base_must_check;

/** What a partition's header says. */
struct cache_header {
    uint64_t seed;
    uint64_t buckets;
    uint64_t log_offset, log_bytes;
    uint32_t partition, partitions;
    uint32_t salt;
};

/** Write the header of a partition. */
void cache_header_pack(const struct cache_header *header, struct cache_header_format *ret_header);

/**
 * Take in a partition's header.
 *
 * @param from          CACHE_HEADER_BYTES of an unknown sender
 * @param region_bytes  length of the region that they were READ from
 * @return 0; -EUCLEAN (no header, or one that points outside); -ENOTSUP (of another version)
 */
int cache_header_unpack(const void *from, uint64_t region_bytes, struct cache_header *ret_header)
    base_must_check;

#endif
