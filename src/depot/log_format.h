/*
 * The bytes of a store on its drive, version 0. Numbers are little-endian.
 *
 *   0            4,096          8,192 (log_offset)
 *   ┌────────────┬─────────────┬────────────────────┬─────────┬────────────────────── ─ ─
 *   │ superblock │ its copy    │ group 1            │ group 2 │ never written, or hidden
 *   └────────────┴─────────────┴────────────────────┴─────────┴────────────────────── ─ ─
 *                              │ header │ record │ record │ zeros to the next block
 *
 * A group is what one write carried: it begins and ends at a block, and no block is written twice as
 * long as it holds something that was acknowledged. Groups form a chain: each holds the check of the
 * one before, so what an earlier, lost tail left behind never fits on. docs/format.md has the rules of
 * reading.
 *
 * Superblock, and its copy: 512 bytes (one sector: whole or absent), then zeros
 *   OFFSET SIZE  MEANING
 *        0    8  "TarnStor"
 *        8    4  CRC-32C of the 512 bytes, this field taken as 0
 *       12    4  version of the format: 0
 *       16   16  identity of the store, random
 *       32    8  seed of the key hashes, random, secret
 *       40    8  seed of the checks, random, secret: no value that a client stores can pose as a group
 *       48    8  size of the store, a multiple of the block
 *       56    8  offset of the log, a multiple of the block
 *       64    4  block: what writes begin and end at
 *       68    4  largest group
 *       72    8  features whose lack forbids opening: 0
 *       80    8  features whose lack forbids writing: 0
 *       88    8  features that may be unknown: 0
 *       96  416  0
 *
 * Group header
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3 of the other 72 bytes, seeded
 *        8    8  "TarnGrp0"
 *       16    8  number: 1, 2, 3 … through all sessions
 *       24    8  session: random, another one for each opening
 *       32    8  check of the group before; of the first: 0
 *       40    8  checks of the records, hashed one after the other
 *       48    8  flushed: groups up to this number were durable before this one was written
 *       56    8  stamp: the highest that was given out before the write; where the session ends, at least
 *                civil time
 *       64    4  bytes of header and records
 *       68    4  number of records
 *       72    4  flags: 1 the session ends here
 *       76    4  0
 *
 * Record: 48 bytes, key, value, zeros up to a multiple of 8
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3 of all that follows up to the end of the value, seeded
 *        8    8  stamp: civil time in nanoseconds, raised above every earlier stamp of the store
 *       16    8  PUT: version, equal to the stamp · TOUCH: the version that is touched · else 0
 *       24    8  PUT, TOUCH: expiry, civil time in nanoseconds, 0 for never · FLUSH_ALL: the moment · else 0
 *       32    4  PUT: the client's flags · else 0
 *       36    4  PUT: bytes of the value · else 0
 *       40    2  bytes of the key; FLUSH_ALL: 0, else 1 or more
 *       42    1  kind: 1 PUT, 2 DELETE, 3 TOUCH, 4 FLUSH_ALL
 *       43    5  0
 */
#ifndef DEPOT_LOG_FORMAT_H
#define DEPOT_LOG_FORMAT_H

#include "base/base.h"

#define DEPOT_FORMAT_VERSION     0
#define DEPOT_SUPERBLOCK_BYTES   UINT64_C(4096)
#define DEPOT_SUPERBLOCK_COPIES  2
#define DEPOT_BLOCK_BYTES_MIN    4096
#define DEPOT_BLOCK_BYTES_MAX    65536
#define DEPOT_STORE_BYTES_MIN    (UINT64_C(1) << 20)
#define DEPOT_GROUP_BYTES_MIN    (UINT32_C(128) << 10)
#define DEPOT_GROUP_BYTES_MAX    (UINT32_C(2) << 20)
#define DEPOT_GROUP_SESSION_ENDS 1

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs below are the bytes on the drive");

struct depot_superblock_format {
    uint64_t magic;
    uint32_t check;
    uint32_t version;
    uint64_t identity[2];
    uint64_t hash_seed;
    uint64_t check_seed;
    uint64_t store_bytes;
    uint64_t log_offset;
    uint32_t block_bytes;
    uint32_t group_bytes;
    uint64_t incompatible;
    uint64_t read_only_compatible;
    uint64_t compatible;
    uint8_t reserved[416];
};
_Static_assert(sizeof(struct depot_superblock_format) == 512, "a sector, see the table");
_Static_assert(offsetof(struct depot_superblock_format, reserved) == 96, "see the table");

struct depot_group_format {
    uint64_t check;
    uint64_t magic;
    uint64_t number;
    uint64_t session;
    uint64_t previous_check;
    uint64_t records_check;
    uint64_t flushed;
    uint64_t stamp;
    uint32_t bytes;
    uint32_t records;
    uint32_t flags;
    uint32_t reserved;
};
_Static_assert(sizeof(struct depot_group_format) == 80, "see the table");
_Static_assert(offsetof(struct depot_group_format, bytes) == 64, "see the table");

enum depot_record_kind {
    DEPOT_PUT = 1,
    DEPOT_DELETE = 2,
    DEPOT_TOUCH = 3,
    DEPOT_FLUSH_ALL = 4,
};

struct depot_record_format {
    uint64_t check;
    uint64_t stamp;
    uint64_t version;
    uint64_t expiry_ns;
    uint32_t client_flags;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t kind;
    uint8_t reserved[5];
};
_Static_assert(sizeof(struct depot_record_format) == 48, "see the table");
_Static_assert(offsetof(struct depot_record_format, key_bytes) == 40, "see the table");

/**
 * Finish a superblock: magic, version and check.
 */
void depot_superblock_seal(struct depot_superblock_format *superblock);

/**
 * Read a superblock from any bytes.
 *
 * @param bytes      512 of them
 * @param ret_wrong  what is wrong, a piece of a sentence; set on failure only
 * @return 0; -EUCLEAN
 */
base_must_check int depot_superblock_parse(const void *bytes, struct depot_superblock_format *ret_superblock,
                                           const char **ret_wrong);

/**
 * Bytes of a record with its padding.
 */
static inline uint32_t depot_record_bytes(uint32_t key_bytes, uint32_t value_bytes)
{
    return (uint32_t)base_align_up(sizeof(struct depot_record_format) + (uint64_t)key_bytes + value_bytes, 8);
}

/**
 * Finish a record in place: its check.
 *
 * @param record  header, key and value, 8-aligned
 */
void depot_record_seal(void *record, uint64_t check_seed);

/**
 * Verify a record in any bytes.
 *
 * @param bytes, room  8-aligned
 * @param ret_record   its header
 * @return 0; -EBADMSG (not a whole record, or damaged)
 */
base_must_check int depot_record_verify(const void *bytes, uint64_t room, uint64_t check_seed,
                                        struct depot_record_format *ret_record);

/**
 * Finish a group in place: copy the header to its front, with magic and both checks.
 *
 * @param group   room for the header, then header->records sealed records, header->bytes in all; 8-aligned
 * @param header  its checks and magic are filled in
 */
void depot_group_seal(void *group, struct depot_group_format *header, uint64_t check_seed);

/**
 * Verify the header of a group in any bytes.
 *
 * @param bytes         sizeof(struct depot_group_format) of them, 8-aligned
 * @param group_bytes   largest group of the store
 * @return 0; -EBADMSG
 */
base_must_check int depot_group_parse(const void *bytes, uint64_t check_seed, uint32_t group_bytes,
                                      struct depot_group_format *ret_header);

/**
 * Verify that a group holds exactly the records that its header tells.
 *
 * @param group   header->bytes, 8-aligned
 * @return 0; -EBADMSG
 */
base_must_check int depot_group_verify(const void *group, const struct depot_group_format *header,
                                       uint64_t check_seed);

#endif
