/*
 * What the depot keeps in a store of its own besides records. Numbers are little-endian.
 *
 * The owner's 64 bytes of the superblock (seglog_format.h)
 *   OFFSET SIZE  MEANING
 *        0    1  bits of an index entry for the offset in its neighbourhood: 5
 *        1    1  … for the mark of a hit: 1
 *        2    1  … for the length class: 10
 *        3    1  … for the address
 *        4    1  … for the tag
 *        5    1  log2 of the entries of one table of the index
 *        6   58  0
 *
 * Checkpoint: what the depot writes into one of the log's
 *   OFFSET SIZE  MEANING
 *        0    8  "TarnKeys"
 *        8    8  number of entries of the index when it was begun, about
 *       16    8  number of those that are of pieces of values, about; 0: of what it covers none is
 *       24    8  whether which of them count is known: if nothing has to be replayed, and records below this
 *                sequence are gone, all; all ones: it is not
 *       32 16×n  of each entry of the index: position and tag of its hash (8), the entry (8), to the end
 */
#ifndef DEPOT_DEPOT_FORMAT_H
#define DEPOT_DEPOT_FORMAT_H

#include "base/base.h"
#include "depot/index/index.h"
#include "seglog/seglog_format.h"

struct depot_owner_format {
    uint8_t offset_bits;
    uint8_t hit_bits;
    uint8_t size_bits;
    uint8_t address_bits;
    uint8_t tag_bits;
    uint8_t table_bits;
    uint8_t reserved[58];
};
_Static_assert(sizeof(struct depot_owner_format) == SEGLOG_OWNER_BYTES, "see the table");

#define DEPOT_CHECKPOINT_MAGIC UINT64_C(0x7379654b6e726154) /* "TarnKeys" */

#define DEPOT_NOT_MATCHED UINT64_MAX

struct depot_checkpoint_format {
    uint64_t magic;
    uint64_t entries;
    uint64_t pieces;
    uint64_t matched_sequence;
};
_Static_assert(sizeof(struct depot_checkpoint_format) == 32, "see the table");

struct depot_checkpoint_entry_format {
    uint64_t hash;
    uint64_t word;
};
_Static_assert(sizeof(struct depot_checkpoint_entry_format) == 16, "see the table");

/** Fill the owner's part of a superblock whose geometry is complete. @return 0; -EINVAL (too large a store)
 */
base_must_check int depot_owner_fill(struct seglog_superblock_format *superblock);

/** Read it. @return 0; -EUCLEAN (impossible for this geometry) */
base_must_check int depot_owner_parse(const struct seglog_superblock_format *superblock,
                                      struct depot_index_widths *ret_widths);

#endif
