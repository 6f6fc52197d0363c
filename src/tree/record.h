/*
 * Records as they lie in extents, for the store that writes them and for clients that READ them (README, "Extents", has the
 * table); and the numbers of the regions that a store has.
 */
#ifndef TREE_RECORD_H
#define TREE_RECORD_H

#include "base/base.h"
#include "base/checksum.h"
#include <tarn/record.h>

#define TREE_NODE_REGION   1u
#define TREE_RECORD_REGION 2u
#define TREE_REGIONS       2u
#define TREE_STEPS_MAX     128u /* of a region, each of which has a handle of its own */

#define TREE_EXTENT_ALIGNMENT 16u /* of records */

/* A record. The value follows. */
struct tree_record {
    uint64_t version; /* 0: the depot does not have it yet, and nobody sees it */
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint8_t note;
    uint8_t unused[3]; /* 0 */
    uint8_t value[];
};

/** Where a record begins in its region. */
static inline uint64_t tree_place_offset(uint64_t place)
{
    return (uint64_t)(uint32_t)place * TREE_EXTENT_ALIGNMENT;
}

/** The place of a record that begins there. */
static inline uint64_t tree_place_of(uint64_t offset)
{
    return (uint64_t)TREE_RECORD_REGION << 32 | offset / TREE_EXTENT_ALIGNMENT;
}

/** The sum that a leaf has of a record. @param header  that it has, or is about to have */
static inline uint64_t tree_record_sum(uint64_t place, const struct tree_record *header, const void *value,
                                       uint32_t bytes)
{
    uint64_t sum = base_crc64(0, &place, sizeof(place));
    sum = base_crc64(sum, header, sizeof(*header));
    return base_crc64(sum, value, bytes);
}

/** What a record is, besides key and value. */
static inline struct tarn_record_info tree_record_info(const struct tree_record *record, uint32_t bytes)
{
    return (struct tarn_record_info){.version = record->version,
                                     .expiry_ns = record->expiry_ns,
                                     .client_flags = record->client_flags,
                                     .value_bytes = bytes,
                                     .note = record->note};
}

#endif
