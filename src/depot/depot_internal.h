/* The insides of an open store, for the files of this folder. */
#ifndef DEPOT_DEPOT_INTERNAL_H
#define DEPOT_DEPOT_INTERNAL_H

#include "base/base.h"
#include "depot/index.h"
#include "depot/log.h"
#include "depot/log_format.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/task.h"
#include <stdatomic.h>
#include <tarn/depot.h>

#define DEPOT_STRIPES 256

/* A part of the keys, by hash: writes to it take turns, and it has a table of its own. */
struct depot_stripe {
    struct task_mutex key_lock; /* held across decide and append; who holds it may change the table … */
    struct base_spin lock;      /* … under this one, and readers look under it */
    struct depot_index index;
};

/* Read buffers of one size. */
struct depot_read_class {
    uint64_t buffer_bytes;
    uint32_t count;
    uint8_t *memory;
    struct base_spin lock;
    uint8_t *free;            /* a list through their first words */
    struct base_list readers; /* that wait for one */
};

#define DEPOT_READ_SMALL_BYTES (UINT64_C(16) << 10)

struct tarn_depot {
    struct tarn_node *node;
    struct drive *drive;
    bool read_only;
    struct depot_superblock_format superblock;
    struct depot_log log;
    struct depot_stripe *stripes; /* DEPOT_STRIPES */
    struct depot_read_class small, large;
    struct depot_stages stages;
    struct base_log_limit damage_limit;

    /* What flush_all has ordered; changed under all key locks. Records with a version below … are gone: */
    _Atomic uint64_t flushed_version; /* … this, now */
    _Atomic uint64_t flush_when_ns;   /* … this, once civil time has come to it; 0: no order is pending */

    _Atomic uint64_t records, live_bytes, index_bytes;
    _Atomic uint64_t gets, get_hits, puts, deletes, touches;
};

/** Whether a record is there at a moment of civil time: not flushed, not expired. */
static inline bool depot_is_visible(const struct tarn_depot *depot, const struct depot_entry *entry,
                                    uint64_t wall_ns)
{
    uint64_t when_ns = atomic_load_explicit(&depot->flush_when_ns, memory_order_acquire);
    return entry->version >= atomic_load_explicit(&depot->flushed_version, memory_order_acquire) &&
           (when_ns == 0 || wall_ns < when_ns || entry->version >= when_ns) &&
           (entry->expiry_ns == 0 || wall_ns < entry->expiry_ns);
}

/* ---- superblock.c ------------------------------------------------------------------------------ */

/**
 * Find the superblock of a drive, or format it: one that this opening created, or a file that is
 * nothing but zeros because an earlier creation did not come so far.
 *
 * @return 0; -EUCLEAN (not a store, or damaged); -ENOTSUP (the drive's blocks are larger than the
 *         store's); -EINVAL (too small to format); -ENOMEM; the drive's error; with a sentence in the
 *         log. Yields.
 */
base_must_check int depot_superblock_open(struct tarn_node *node, struct drive *drive,
                                          const struct tarn_depot_options *options,
                                          struct depot_superblock_format *ret_superblock);

/* ---- recover.c --------------------------------------------------------------------------------- */

/**
 * Read the log and rebuild the index. The log's groups serve as buffers.
 *
 * @param ret_end  where the log goes on
 * @return 0; -EBADMSG (damage before the end of the log: what lies behind would be lost); -ENOMEM; the
 *         drive's error; with a sentence in the log. Yields.
 */
base_must_check int depot_recover(struct tarn_depot *depot, struct depot_log_end *ret_end);

/* ---- read.c ------------------------------------------------------------------------------------ */

/** Take the memory for reading. @return 0; -ENOMEM (nothing taken) */
base_must_check int depot_read_init(struct tarn_depot *depot);

/** Free it. */
void depot_read_deinit(struct tarn_depot *depot);

/**
 * Read a record that the index names, verify it, and copy its value.
 *
 * @param value  room for entry->value_bytes
 * @return 0; -EBADMSG (damaged); the drive's error; logged. Yields.
 */
base_must_check int depot_read_value(struct tarn_depot *depot, const struct depot_entry *entry,
                                     const void *key, size_t key_len, void *value);

/* ---- table.c ----------------------------------------------------------------------------------- */

/** The stripe of a key. */
struct depot_stripe *depot_stripe_of(struct tarn_depot *depot, const struct base_hash128 *hash);

/** Look a key up. @param ret_entry  a copy @return whether it was there, visible or not. Any thread. */
bool depot_table_find(struct depot_stripe *stripe, const struct base_hash128 *hash,
                      struct depot_entry *ret_entry);

/** Make sure that one more key has a slot. Key lock held. @return 0; -ENOMEM */
base_must_check int depot_table_reserve(struct tarn_depot *depot, struct depot_stripe *stripe);

/** Put an entry, counting the bytes of its record. Key lock held, a slot reserved. */
void depot_table_put(struct tarn_depot *depot, struct depot_stripe *stripe, const struct depot_entry *entry,
                     uint64_t key_bytes);

/** Take a key out if it is there. Key lock held. */
void depot_table_remove(struct tarn_depot *depot, struct depot_stripe *stripe,
                        const struct base_hash128 *hash, uint64_t key_bytes);

/** Empty all tables. All key locks held, or nobody else has the store. */
void depot_table_clear_all(struct tarn_depot *depot);

/**
 * What a durable FLUSH_ALL record does to the index. All key locks held, or nobody else has the store.
 *
 * @param stamp    the record's
 * @param when_ns  the moment that it names
 */
void depot_flush_order(struct tarn_depot *depot, uint64_t stamp, uint64_t when_ns);

#endif
