/*
 * The bytes of a segmented log on its drive, version 1. Numbers are little-endian, reserved bytes are 0.
 *
 *   0            4,096         state_offset            data_offset
 *   ┌────────────┬─────────────┬───────────────────────┬───────────┬─ ─ ─┬───────────┐
 *   │ superblock │ its copy    │ state: 2 pairs of     │ segment 0 │     │ segment   │ unused, less
 *   │            │             │ equal slots           │           │     │ count - 1 │ than a segment
 *   └────────────┴─────────────┴───────────────────────┴───────────┴─ ─ ─┴───────────┘
 *
 *   segment
 *   ┌────────┬────────┬────────┬───────┬────────┬─────────┬─ ─ ─ ─┬────────────────────┬─────────┐
 *   │ header │ record │ record │ zeros │ record │ record  │ never │ summary: an entry  │ trailer │
 *   │        │        │        │       │        │         │ used  │ for each record    │         │
 *   └────────┴────────┴────────┴───────┴────────┴─────────┴─ ─ ─ ─┴────────────────────┴─────────┘
 *   └ block           a write ends here ┘└ block                  └ block               its end ┘
 *
 * A *block* is what writes begin and end at; a *grain* is the unit of addresses; both are powers of two, and
 * all areas begin at blocks. A segment is live when its header verifies and its stamp is above the
 * segment's freed stamp in the newest state. docs/format.md has the rules of reading and writing.
 *
 * Superblock, and its copy: 512 bytes (one sector: whole or absent), then zeros to 4,096
 *   OFFSET SIZE  MEANING
 *        0    8  "TarnStor"
 *        8    4  CRC-32C of the 512 bytes, this field taken as 0
 *       12    4  version of the format: 1
 *       16   16  identity of the store, random
 *       32    8  seed of key hashes, random, secret
 *       40    8  seed of checks, random, secret: nothing that a client stores can pose as a record
 *       48    8  civil time when it was made, nanoseconds
 *       56    8  size of the store: where the last segment ends
 *       64    8  offset of the state
 *       72    8  bytes of one slot of the state
 *       80    8  offset of segment 0
 *       88    8  bytes of a segment, a power of two
 *       96    4  number of segments
 *      100    4  block, a power of two from 4,096 to 65,536
 *      104    4  grain, a power of two from 32 to 512
 *      108    4  largest record with its header, in bytes
 *      112    8  features whose lack forbids opening
 *      120    8  features whose lack forbids writing
 *      128    8  features that may be unknown
 *      136    4  what is kept in it: 1 depot
 *      140    4  0
 *      144   16  0, like all that follows up to the owner's but for the 1: others are refused
 *      160    4  1
 *      164    4  0
 *      168    8  0
 *      176   64  the owner's: depot keeps the widths of its index here (depot_format.h)
 *      240    4  number of drives that were appended to the first, or to the stripe, and that it lies on
 *      244    4  0
 *      248    8  by what the last of these is known (its label's), 0 if there are none
 *      256  256  0
 *
 * State slot: what changes about the store as a whole. Generation g stands in both slots of pair g mod 2.
 * Slots of a pair lie side by side; a pair has half of what lies between the state's offset and segment 0,
 * so that they can become longer when the store does.
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3-64 of what follows, to the end of the last freed stamp's block, with the seed of
 *                checks
 *        8    8  "TarnStat"
 *       16    8  generation: 1, 2, 3 …
 *       24    8  session: 0 as it is made, 1 for the first opening to write, 2, 3 …
 *       32    8  flags: 1 the session has ended in good order
 *       40    8  no sequence at or above this was ever issued
 *       48    8  no stamp at or above this was ever issued
 *       56    8  civil time, at least as late as any that decided that something had expired
 *       64    8  flush point: records with a lower sequence are gone
 *       72    8  the moment when the flush point shall be raised to the sequence reached then; 0: none
 *       80    8  eviction horizon: records with a lower sequence are gone (cache)
 *       88    4  flag 1 only: number of closed segments of records + 1; 0: not told
 *       92    8  0 (earlier releases named the checkpoint of a clean end from 88 on)
 *      100    4  number of segments n: as many as the superblock says, or as it said before the store grew
 *      104    8  loss: acknowledged records with a lower sequence are missing, of keys that nobody can tell;
 *                0: none
 *      112    8  the machine's boot that the session runs in (task_boot()); 0: not told
 *      120    8  flag 1 only: sum of the stamps of the closed segments of records
 *      128  8×n  freed stamp of each segment: what it holds under this stamp or a lower one is gone
 *                then zeros to the end of the slot
 *
 * Segment header: 64 bytes; the first record follows at the next grain, a checkpoint's first part at the next
 * block.
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3-64 of the other 56 bytes, with the seed of checks
 *        8    8  "TarnSegm"
 *       16    8  stamp: 1, 2, 3 … in the order of opening segments, never issued twice
 *       24    8  session that wrote it
 *       32    4  number of the segment
 *       36    4  kind: 1 records · 3 checkpoint (2: one of an earlier release, which is not read)
 *       40    4  records: stream, 0 relocation, 1 and up users · checkpoint: place of the segment in it
 *       44    4  checkpoint, place 0: number of its parts · else 0
 *       48    8  the sequence that was next when the segment was opened
 *       56    8  checkpoint: stamp of the segment at place 0 · else 0
 * The header of a segment of records stands in the last 64 bytes of the segment, too, until the summary takes
 * that place: so the segment is known while one of the two sectors is whole.
 *
 * Checkpoint: a string of bytes, cut in parts, each from a block to a block. Behind the header's block a
 * segment has as many parts as it has room for, each of 1 MiB, but the last, which is as long as the rest.
 * The header of place 0 is written when all else is durable.
 * Part
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3-64 of the other 32 bytes and the bytes that follow, with the seed of checks
 *        8    8  "TarnPart"
 *       16    8  stamp of the segment at place 0
 *       24    4  number of the part, from 0
 *       28    4  bytes of the checkpoint that follow: as many as there is room for, but in the last part
 *       32    8  0
 * What a checkpoint begins with: which records it is about
 *   OFFSET SIZE  MEANING
 *        0    8  "TarnCovr"
 *        8    8  flush point when it was made: with another one it is void
 *       16    4  number of segments
 *       20   12  0
 *       32 48×n  of each segment, as follows
 *   OFFSET SIZE  MEANING
 *        0    8  stamp that it had; 0: it covers no record of it
 *        8    4  records before this grain of the segment are covered; 0xffffffff: all
 *       12    4  flags: 1 proven: it had a durable summary, and what follows is known · 2 sealed
 *       16    4  number of entries
 *       20    4  where the last record ends, bytes from the segment's beginning
 *       24    8  highest sequence of the entries
 *       32    8  lowest sequence of the entries
 *       40    8  footprints of its tombstones
 *
 * Record: at a grain, zeros up to the next grain
 *   OFFSET SIZE  MEANING
 *        0    4  check of the header: low half of XXH3-64 of bytes 4 to 39. Its seed: XXH3-64 of the
 *                segment's stamp (8 bytes, with the seed of checks) + the record's grain in the store, so
 *                that a record proves where and when it was written
 *        4    4  check of the body: low half of XXH3-64 of the value. Its seed: XXH3-64 of all between
 *                the header and the value, with the seed of checks + the sequence as seed
 *        8    8  sequence, 1 or more
 *       16    8  version: the client's; 0 for a tombstone
 *       24    4  bytes of the value
 *       28    2  bytes of the key, 1 or more
 *       30    1  kind, low 2 bits: 1 value, 2 tombstone · note, the next 2 bits: the client's; in a
 *                tombstone 0, or 1: it is nameless · marks, high 4 bits: 1 of a batch, 2 its last record: the
 *                batch's commit, 4 a piece of a value, 8 the head of pieces; 4 or 8 stand alone, and in values
 *                only
 *       31    5  expiry in hundredths of a second since 1970, rounded up; 0: never
 *       36    4  the client's flags
 *       40   16  only with marks 1 or 2: number of the record in its batch, 0 … (4 bytes), number of
 *                records of the batch, in the commit's record, else 0 (4 bytes), the batch's id: sequence
 *                of its record 0 (8 bytes)
 *            16  only with marks 4 or 8: id of the value (8 bytes); piece: its number, 0 … (4 bytes), head:
 *                bytes of the whole value (4 bytes); bytes of every piece but the last (4 bytes)
 *                key, value
 *   A tombstone's value is 8 bytes: birth, the highest stamp that was issued when it was first written.
 *   A nameless one, which has no marks, has the 16 bytes of the key's hash instead of the key.
 *   The records of a batch stand one behind the other in one segment, by number. In a segment that nothing
 *   proves they count only if all are there.
 *
 * Group end: 64 bytes at the grain behind the last record of a write, where the write's last block has that
 * much room left; else there is none. It tells what the write had, and what was acknowledged before it, so
 * that a record that was damaged can be told from one whose write was cut off, and one that is missing named.
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3-64 of the other 56 bytes, with the seed of the segment's records + the grain in
 *                the store, as a record's header
 *        8    4  "Grup"
 *       12    1  flags: 1 what was acknowledged was durable, too
 *       13    3  low bits of the generation of the newest durable state, when the write was closed
 *       16   16  key hashes (as in a summary's entries) of the write's records, combined by exclusive or
 *       32    8  their sequences, combined by exclusive or
 *       40    4  where the first of them lies, bytes from the segment's beginning
 *       44    4  number of them
 *       48    4  all before this byte of the segment was acknowledged when the write was closed
 *       52    4  where the records of the write before end, bytes from its segment's beginning, padded; 0: not told
 *       56    8  stamp of the segment that the write before lies in: of this one, or of the one that its stream
 *                filled before; 0: none
 *
 * Summary: an array of entries and the trailer, written after everything else in the segment is durable. The
 * trailer is the last 64 bytes of the segment; entries begin at the block that leaves them just enough room.
 * Entry
 *   OFFSET SIZE  MEANING
 *        0   16  XXH3-128 of the key, with the seed of key hashes; of a piece: of the id and the number
 *                (12 bytes), with that seed + 1
 *       16    8  sequence
 *       24    8  grain of the record that this one superseded, or was moved from, when it was written;
 *                0: none. With marks 4 or 8: id of the value
 *       32    4  grain in the segment, of the record
 *       36    4  bytes of the record with its header, without padding
 *       40    1  kind, note and marks, as in the record
 *       41    5  expiry, as in the record
 *       46    2  with mark 4: number of the piece; 8: number of pieces; else 0
 * Trailer
 *   OFFSET SIZE  MEANING
 *        0    8  check: XXH3-64 of all entries with the seed of checks, then, the result being the seed,
 *                of the other 56 bytes of the trailer
 *        8    8  "TarnSumm"
 *       16    8  stamp of the segment
 *       24    8  session that wrote the summary: a later one than the segment's if that was sealed
 *       32    4  number of entries
 *       36    4  where the last record ends, bytes from the segment's beginning
 *       40    8  highest sequence of the entries, 0 if there are none
 *       48    4  flags: 1 sealed by a recovery
 *       52   12  0
 */
#ifndef SEGLOG_SEGLOG_FORMAT_H
#define SEGLOG_SEGLOG_FORMAT_H

#include "base/base.h"
#include "base/hash.h"
#include "drive/drive.h"

#define SEGLOG_FORMAT_VERSION    1
#define SEGLOG_SUPERBLOCK_BYTES  UINT64_C(4096)
#define SEGLOG_SUPERBLOCK_COPIES 2
#define SEGLOG_OWNER_BYTES       64
#define SEGLOG_BLOCK_BYTES_MIN   4096
#define SEGLOG_BLOCK_BYTES_MAX   65536
#define SEGLOG_GRAIN_BYTES_MIN   32
#define SEGLOG_GRAIN_BYTES       64 /* the default */
#define SEGLOG_GRAIN_BYTES_MAX   512
#define SEGLOG_SEGMENT_BYTES_MIN (UINT64_C(128) << 10)
#define SEGLOG_SEGMENT_BYTES_MAX (UINT64_C(32) << 20)
/* Segments are as large as leaves this many of them; those that hold no item of memcached's usual 1 MiB are
 * few, rather. */
#define SEGLOG_SEGMENTS_WANTED       120
#define SEGLOG_SEGMENTS_WANTED_SMALL 30
#define SEGLOG_SEGMENT_BYTES_SMALL   (UINT64_C(2) << 20)
#define SEGLOG_SEGMENTS_MIN          12
#define SEGLOG_SEGMENTS_MAX          (UINT32_C(1) << 24)
#define SEGLOG_RECORD_BYTES_MAX      (UINT32_C(2) << 20)
#define SEGLOG_RECORD_BYTES_MIN      41 /* a header and a key of one byte */
#define SEGLOG_STATE_SLOTS           4
#define SEGLOG_GROWTH_TIMES          4                   /* so often its first size a store can be */
#define SEGLOG_STATE_BYTES_MAX       (UINT64_C(1) << 28) /* of a slot */
#define SEGLOG_OWNER_DEPOT           1
#define SEGLOG_BIRTH_BYTES           8
#define SEGLOG_NO_SEGMENT            UINT32_MAX
#define SEGLOG_EXPIRY_UNIT_NS        UINT64_C(10000000)
#define SEGLOG_EXPIRY_MAX            ((UINT64_C(1) << 40) - 1)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs below are the bytes on the drive");

struct seglog_superblock_format {
    uint64_t magic;
    uint32_t check;
    uint32_t version;
    uint64_t identity[2];
    uint64_t hash_seed;
    uint64_t check_seed;
    uint64_t made_wall_ns;
    uint64_t store_bytes;
    uint64_t state_offset;
    uint64_t state_bytes;
    uint64_t data_offset;
    uint64_t segment_bytes;
    uint32_t segment_count;
    uint32_t block_bytes;
    uint32_t grain_bytes;
    uint32_t record_bytes_max;
    uint64_t incompatible;
    uint64_t read_only_compatible;
    uint64_t compatible;
    uint32_t owner_kind;
    uint32_t reserved0;
    uint64_t reserved1[2];
    uint32_t one;
    uint32_t reserved2;
    uint64_t reserved3;
    uint8_t owner[SEGLOG_OWNER_BYTES];
    uint32_t appended;
    uint32_t reserved4;
    uint64_t appended_nonce;
    uint8_t reserved[256];
};
_Static_assert(sizeof(struct seglog_superblock_format) == 512, "a sector, see the table");
_Static_assert(offsetof(struct seglog_superblock_format, identity) == DRIVE_STORE_IDENTITY,
               "by it the drive is known when another one is appended to it");
_Static_assert(offsetof(struct seglog_superblock_format, segment_count) == 96, "see the table");
_Static_assert(offsetof(struct seglog_superblock_format, owner_kind) == 136, "see the table");
_Static_assert(offsetof(struct seglog_superblock_format, owner) == 176, "see the table");

#define SEGLOG_STATE_ENDED 1

struct seglog_state_format {
    uint64_t check;
    uint64_t magic;
    uint64_t generation;
    uint64_t session;
    uint64_t flags;
    uint64_t sequence_bound;
    uint64_t stamp_bound;
    uint64_t wall_ns;
    uint64_t flush_sequence;
    uint64_t flush_when_ns;
    uint64_t horizon_sequence;
    uint32_t closed_count; /* + 1 */
    uint32_t reserved[2];
    uint32_t segment_count;
    uint64_t loss_sequence;
    uint64_t boot;
    uint64_t closed_stamps;
    uint64_t freed_stamps[];
};
_Static_assert(sizeof(struct seglog_state_format) == 128, "see the table");
_Static_assert(offsetof(struct seglog_state_format, segment_count) == 100, "see the table");

enum seglog_segment_kind {
    SEGLOG_SEGMENT_RECORDS = 1,
    SEGLOG_SEGMENT_OLD_CHECKPOINT = 2,
    SEGLOG_SEGMENT_CHECKPOINT = 3,
};

struct seglog_segment_format {
    uint64_t check;
    uint64_t magic;
    uint64_t stamp;
    uint64_t session;
    uint32_t segment;
    uint32_t kind;
    uint32_t stream; /* or place */
    uint32_t part_count;
    uint64_t first_sequence;
    uint64_t checkpoint_stamp;
};
_Static_assert(sizeof(struct seglog_segment_format) == 64, "see the table");
_Static_assert(offsetof(struct seglog_segment_format, first_sequence) == 48, "see the table");

struct seglog_part_format {
    uint64_t check;
    uint64_t magic;
    uint64_t stamp;
    uint32_t number;
    uint32_t bytes;
    uint64_t reserved;
};
_Static_assert(sizeof(struct seglog_part_format) == 40, "see the table");

struct seglog_coverage_format {
    uint64_t magic;
    uint64_t flush_sequence;
    uint32_t segments;
    uint32_t reserved[3];
};
_Static_assert(sizeof(struct seglog_coverage_format) == 32, "see the table");

#define SEGLOG_COVERED_WHOLLY UINT32_MAX
#define SEGLOG_COVER_PROVEN   1
#define SEGLOG_COVER_SEALED   2

struct seglog_cover_format {
    uint64_t stamp;
    uint32_t grain;
    uint32_t flags;
    uint32_t entries;
    uint32_t end;
    uint64_t highest_sequence;
    uint64_t lowest_sequence;
    uint64_t tombstone_bytes;
};
_Static_assert(sizeof(struct seglog_cover_format) == 48, "see the table");

enum seglog_kind { SEGLOG_VALUE = 1, SEGLOG_TOMBSTONE = 2 };

#define SEGLOG_KIND_MASK    0x03
#define SEGLOG_NOTE_SHIFT   2
#define SEGLOG_NOTE_MAX     3
#define SEGLOG_NAMELESS     0x04 /* of a tombstone: the key could not be read, its hash stands for it */
#define SEGLOG_MARKS_MASK   0xf0
#define SEGLOG_MARK_BATCH   0x10
#define SEGLOG_MARK_COMMIT  0x20
#define SEGLOG_MARK_PIECE   0x40
#define SEGLOG_MARK_HEAD    0x80
#define SEGLOG_MARKS_BATCH  (SEGLOG_MARK_BATCH | SEGLOG_MARK_COMMIT)
#define SEGLOG_MARKS_PIECES (SEGLOG_MARK_PIECE | SEGLOG_MARK_HEAD)

/* Of all that a batch takes of a segment, at most; and no more than a quarter of one, or the largest record.
 */
#define SEGLOG_BATCH_BYTES_MAX (UINT64_C(1) << 20)

/* Of a value in pieces. So its entries have room for the number. */
#define SEGLOG_PIECES_MAX UINT16_MAX

/* Features whose lack forbids opening, that this release knows. */
#define SEGLOG_FEATURE_PIECES   UINT64_C(1) /* there may be values in pieces */
#define SEGLOG_FEATURE_NAMELESS UINT64_C(2) /* there may be nameless tombstones */
#define SEGLOG_FEATURE_BATCHES  UINT64_C(4) /* there may be batches */
#define SEGLOG_FEATURES         (SEGLOG_FEATURE_PIECES | SEGLOG_FEATURE_NAMELESS | SEGLOG_FEATURE_BATCHES)

struct seglog_record_format {
    uint32_t header_check;
    uint32_t body_check;
    uint64_t sequence;
    uint64_t version;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint8_t kind;
    uint8_t expiry[5];
    uint32_t client_flags;
};
_Static_assert(sizeof(struct seglog_record_format) == 40, "see the table");
_Static_assert(offsetof(struct seglog_record_format, kind) == 30, "see the table");
_Static_assert(offsetof(struct seglog_record_format, client_flags) == 36, "see the table");

struct seglog_entry_format {
    uint64_t hash[2];
    uint64_t sequence;
    uint64_t superseded;
    uint32_t grain;
    uint32_t bytes;
    uint8_t kind;
    uint8_t expiry[5];
    uint16_t number;
};
_Static_assert(sizeof(struct seglog_entry_format) == 48, "see the table");
_Static_assert(offsetof(struct seglog_entry_format, number) == 46, "see the table");
_Static_assert(offsetof(struct seglog_entry_format, kind) == 40, "see the table");

/* The extension of a record of a batch. */
struct seglog_batch_format {
    uint32_t number; /* of the record in the batch */
    uint32_t count;  /* of the batch's records, in the last; else 0 */
    uint64_t id;     /* sequence of record 0 */
};
_Static_assert(sizeof(struct seglog_batch_format) == 16, "see the table");

/* The extension of a piece of a value, or of the head of its pieces. */
struct seglog_pieces_format {
    uint64_t id;
    union {
        uint32_t number;      /* piece: its own */
        uint32_t value_bytes; /* head: of the whole value */
    };
    uint32_t piece_bytes; /* of every piece but the last */
};
_Static_assert(sizeof(struct seglog_pieces_format) == 16, "see the table");

#define SEGLOG_GROUP_DURABLE          1
#define SEGLOG_GROUP_GENERATION_SHIFT 8

struct seglog_group_end_format {
    uint64_t check;
    uint32_t magic;
    uint32_t flags;
    uint64_t hash[2];
    uint64_t sequence;
    uint32_t begin;
    uint32_t count;
    uint32_t acknowledged;
    uint32_t before_end;
    uint64_t before_stamp;
};
_Static_assert(sizeof(struct seglog_group_end_format) == 64, "see the table");
_Static_assert(offsetof(struct seglog_group_end_format, begin) == 40, "see the table");

#define SEGLOG_SUMMARY_SEALED 1

struct seglog_trailer_format {
    uint64_t check;
    uint64_t magic;
    uint64_t stamp;
    uint64_t session;
    uint32_t entries;
    uint32_t end;
    uint64_t highest_sequence;
    uint32_t flags;
    uint32_t reserved[3];
};
_Static_assert(sizeof(struct seglog_trailer_format) == 64, "see the table");
_Static_assert(offsetof(struct seglog_trailer_format, highest_sequence) == 40, "see the table");

/* ---- superblock ------------------------------------------------------------------------------ */

/** Finish a superblock: magic, version and check. */
void seglog_superblock_seal(struct seglog_superblock_format *superblock);

/**
 * Read a superblock from any bytes, and check that its geometry is possible in every respect.
 *
 * @param bytes      512 of them
 * @param ret_wrong  what is wrong, a piece of a sentence; set on failure only
 * @return 0; -EUCLEAN (not a store, or damaged); -ENOTSUP (another version, or features this release lacks)
 */
base_must_check int seglog_superblock_parse(const void *bytes,
                                            struct seglog_superblock_format *ret_superblock,
                                            const char **ret_wrong);

/* ---- state ----------------------------------------------------------------------------------- */

/** Bytes of a slot for a number of segments: whole blocks. */
static inline uint64_t seglog_state_bytes(uint64_t segment_count, uint32_t block_bytes)
{
    return base_align_up(sizeof(struct seglog_state_format) + segment_count * sizeof(uint64_t), block_bytes);
}

/** What is kept for a pair of slots, which may be more than they take now. */
static inline uint64_t seglog_state_pair_room(const struct seglog_superblock_format *superblock)
{
    return base_align_down((superblock->data_offset - superblock->state_offset) / (SEGLOG_STATE_SLOTS / 2),
                           superblock->block_bytes);
}

/** Where a slot of the state begins: 0 and 1 are of one pair, side by side, 2 and 3 of the other. */
static inline uint64_t seglog_state_slot_offset(const struct seglog_superblock_format *superblock,
                                                uint64_t slot)
{
    return superblock->state_offset + slot / 2 * seglog_state_pair_room(superblock) +
           slot % 2 * superblock->state_bytes;
}

/** Finish a slot in place, for as many segments as the superblock says. @param state  state_bytes of memory,
 * zeros behind the freed stamps */
void seglog_state_seal(struct seglog_state_format *state, const struct seglog_superblock_format *superblock);

/** Whether any bytes are a good slot of this store, for its segments or those that it had before it grew.
 * @param state  state_bytes of memory @return 0; -EUCLEAN */
base_must_check int seglog_state_verify(const struct seglog_state_format *state,
                                        const struct seglog_superblock_format *superblock);

/* ---- segments -------------------------------------------------------------------------------- */

/** Where the first record of a segment lies, bytes from the segment's beginning. */
static inline uint64_t seglog_segment_header_bytes(uint32_t grain_bytes)
{
    return base_align_up(sizeof(struct seglog_segment_format), grain_bytes);
}

/** Finish a segment's header: magic and check. */
void seglog_segment_seal(struct seglog_segment_format *header, uint64_t check_seed);

/** Read the header of segment number `segment` from any 64 bytes. @return 0; -EUCLEAN */
base_must_check int seglog_segment_parse(const void *bytes, uint64_t check_seed, uint32_t segment,
                                         struct seglog_segment_format *ret_header);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/** Finish a part in place: magic and check. @param part  with its bytes behind it */
void seglog_part_seal(struct seglog_part_format *part, uint64_t check_seed);

/** Whether any bytes begin with a whole part of this stamp and number. @param room  of `bytes`, at least 40
 * @return 0; -EBADMSG */
base_must_check int seglog_part_verify(const void *bytes, uint64_t room, uint64_t check_seed, uint64_t stamp,
                                       uint32_t number, struct seglog_part_format *ret_part);

/** Finish what a checkpoint begins with: magic. */
void seglog_coverage_seal(struct seglog_coverage_format *coverage);

/** Whether what a checkpoint begins with is possible for the store. @return 0; -EBADMSG */
base_must_check int seglog_coverage_parse(const void *bytes,
                                          const struct seglog_superblock_format *superblock,
                                          struct seglog_coverage_format *ret_coverage);

/** Whether what a checkpoint says of one segment is possible for the store. @return 0; -EBADMSG */
base_must_check int seglog_cover_parse(const void *bytes, const struct seglog_superblock_format *superblock,
                                       struct seglog_cover_format *ret_cover);

/* ---- records --------------------------------------------------------------------------------- */

/** Seed of the header checks of a segment's records. */
uint64_t seglog_record_seed(uint64_t check_seed, uint64_t stamp);

/** Expiry as it is kept: rounded up; 0 stays 0, what is too late becomes the latest. */
uint64_t seglog_expiry_pack(uint64_t expiry_ns);

/** Expiry in nanoseconds of civil time. */
static inline uint64_t seglog_expiry_ns(const uint8_t expiry[5])
{
    return (base_load_le32(expiry) | (uint64_t)expiry[4] << 32) * SEGLOG_EXPIRY_UNIT_NS;
}

/** The client's two bits. */
static inline uint8_t seglog_note(uint8_t kind)
{
    return (kind >> SEGLOG_NOTE_SHIFT) & SEGLOG_NOTE_MAX;
}

/** Whether a record is a tombstone that has the hash of its key in the key's place. */
static inline bool seglog_is_nameless(uint8_t kind)
{
    return kind == (SEGLOG_TOMBSTONE | SEGLOG_NAMELESS);
}

/** Bytes of a record's extension: 0 or 16. */
static inline uint32_t seglog_extension_bytes(uint8_t kind)
{
    return (kind & SEGLOG_MARKS_MASK) == 0 ? 0 : 16;
}

/** Bytes of a record with its header, extension included, without padding. */
static inline uint64_t seglog_record_bytes(uint8_t kind, uint64_t key_bytes, uint64_t value_bytes)
{
    return sizeof(struct seglog_record_format) + seglog_extension_bytes(kind) + key_bytes + value_bytes;
}

/**
 * The check of a body that lies in two places.
 *
 * @param front  extension and key
 * Source of the definition: the body's check is XXH3-64 of `front`, then, that result being the seed, of the
 * value.
 */
uint32_t seglog_body_check(const void *front, size_t front_bytes, const void *value, size_t value_bytes,
                           uint64_t check_seed, uint64_t sequence);

/** The same, while the value is copied. @param to  as for base_hash64_copy() */
uint32_t seglog_body_check_copy(const void *front, size_t front_bytes, const struct iovec *to,
                                const void *value, size_t value_bytes, uint64_t check_seed,
                                uint64_t sequence);

/** Finish a header (header_check): everything else in it is set. @param grain  of the store, where it will
 * lie */
void seglog_record_seal(struct seglog_record_format *header, uint64_t record_seed, uint64_t grain);

/**
 * Verify a record's header in any bytes, and that the record's lengths, kind and marks are possible.
 *
 * @param bytes, room       at least 40, else -EBADMSG
 * @param record_bytes_max  the superblock's
 * @return 0; -EBADMSG
 */
base_must_check int seglog_record_parse(const void *bytes, uint64_t room, uint64_t record_seed,
                                        uint64_t grain, uint32_t record_bytes_max,
                                        struct seglog_record_format *ret_header);

/**
 * Verify all of a record: its header, that it ends within the room, and its body.
 *
 * @param bytes, room  what there is of it, contiguous
 * @return 0; -EBADMSG
 */
base_must_check int seglog_record_verify(const void *bytes, uint64_t room, uint64_t record_seed,
                                         uint64_t grain, const struct seglog_superblock_format *superblock,
                                         struct seglog_record_format *ret_header);

/** Whether a summary's entry tells of a record with this header; hashes are not compared. */
bool seglog_entry_tells_of(const struct seglog_entry_format *entry,
                           const struct seglog_record_format *header);

/** Number of a value's pieces; 0 if they cannot be so long. */
static inline uint64_t seglog_pieces_count(uint64_t value_bytes, uint32_t piece_bytes)
{
    return piece_bytes == 0 ? 0 : (value_bytes + piece_bytes - 1) / piece_bytes;
}

/** What a piece is found by: the place of a key's hash. Clients cannot name it, whatever their keys are. */
struct base_hash128 seglog_piece_hash(uint64_t id, uint32_t number, uint64_t hash_seed);

/** What a record is found by: the hash of its key, which a nameless one has itself, or of a piece. @param
 * record  the whole of it, or all before its value */
struct base_hash128 seglog_record_hash(const struct seglog_record_format *header, const void *record,
                                       uint64_t hash_seed);

/** Put the value's id and the number into the entry of a piece or a head; leave others as they are.
 * @param extension  16 bytes, of a record that has one */
void seglog_entry_take_pieces(struct seglog_entry_format *entry, const void *extension);

/** Verify a record's body. @param record  the whole of it, contiguous @return 0; -EBADMSG */
base_must_check int seglog_record_verify_body(const void *record, const struct seglog_record_format *header,
                                              uint64_t check_seed);

/* ---- group ends ------------------------------------------------------------------------------ */

/** Finish a group end: magic and check. @param record_seed, grain  as for seglog_record_seal() */
void seglog_group_end_seal(struct seglog_group_end_format *end, uint64_t record_seed, uint64_t grain);

/**
 * Read a group end from any 64 bytes.
 *
 * @param place  where they lie, bytes from the segment's beginning
 * @return 0; -EBADMSG
 */
base_must_check int seglog_group_end_parse(const void *bytes, uint64_t record_seed, uint64_t grain,
                                           uint64_t place, struct seglog_group_end_format *ret_end);

/* ---- summary --------------------------------------------------------------------------------- */

/** No segment of this store has more records. */
uint32_t seglog_entries_max(const struct seglog_superblock_format *superblock);

/** Bytes that a record can take in a segment of its own. */
uint64_t seglog_record_room(const struct seglog_superblock_format *superblock);

/** Bytes that a summary of a number of entries takes at the end of a segment: whole blocks. */
static inline uint64_t seglog_summary_bytes(uint64_t entries, uint32_t block_bytes)
{
    return base_align_up(entries * sizeof(struct seglog_entry_format) + sizeof(struct seglog_trailer_format),
                         block_bytes);
}

/**
 * Finish a summary in place: zeros between, magic and check, trailer at its end.
 *
 * @param summary  seglog_summary_bytes() of memory, entries at its front
 * @param trailer  stamp, session, entries, end, flags; highest_sequence is found here
 */
void seglog_summary_seal(void *summary, struct seglog_trailer_format *trailer,
                         const struct seglog_superblock_format *superblock);

/**
 * Read a trailer from any 64 bytes: only magic, stamp and that the sizes are possible; the check covers the
 * entries too.
 *
 * @return 0; -EUCLEAN
 */
base_must_check int seglog_trailer_parse(const void *bytes, const struct seglog_superblock_format *superblock,
                                         uint64_t stamp, struct seglog_trailer_format *ret_trailer);

/** Verify a summary: its check, and that each entry lies in the segment, at a grain, in rising order without
 * overlap, before `end`. @return 0; -EUCLEAN */
base_must_check int seglog_summary_verify(const void *summary, const struct seglog_trailer_format *trailer,
                                          const struct seglog_superblock_format *superblock);

#endif
