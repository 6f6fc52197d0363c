/* A check under way, for the files of check. */
#ifndef DEPOT_CHECK_INTERNAL_H
#define DEPOT_CHECK_INTERNAL_H

#include "base/base.h"
#include "depot/depot.h"
#include "depot/depot_format.h"
#include "drive/drive.h"
#include "seglog/seglog.h"
#include "task/node.h"

/* What holds in every state that a store can be in, after any crash too; README has the reasons. */
enum depot_invariant {
    DEPOT_INVARIANT_SUPERBLOCK = 1,
    DEPOT_INVARIANT_OWNER,
    DEPOT_INVARIANT_STATE,
    DEPOT_INVARIANT_HEADER,
    DEPOT_INVARIANT_SESSION,
    DEPOT_INVARIANT_SUMMARY,
    DEPOT_INVARIANT_RECORD,
    DEPOT_INVARIANT_SEQUENCE,
    DEPOT_INVARIANT_VERSION,
    DEPOT_INVARIANT_SUPERSEDED,
    DEPOT_INVARIANT_COPY,
    DEPOT_INVARIANT_CHECKPOINT,
    DEPOT_INVARIANT_INDEX,
    DEPOT_INVARIANT_PIECES,
    DEPOT_INVARIANT_BATCH,
    DEPOT_INVARIANT_WHOLE,
};

struct depot_check {
    struct tarn_node *node;
    struct drive *drive;
    struct seglog *log;
    const struct seglog_superblock_format *superblock;
    void (*tell)(void *arg, unsigned invariant, const char *sentence);
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
    struct depot_check_report report;

    struct seglog_state_format *state; /* the newest good one */
    uint8_t *slots;                    /* all of them, as they are on the drive */
    uint64_t *stamps;                  /* of each segment; 0: it is free, or no segment of records */
    uint64_t entries;                  /* of all segments that live */

    /* Addresses that the checkpoint names, of records that it is about: a hash table, 0 is empty; NULL: there
     * is none. */
    uint64_t *named;
    uint64_t named_slots;
    uint64_t named_count;                      /* in it */
    struct depot_checkpoint_format named_head; /* what it begins with */
    uint64_t names_met;                        /* of them, that are values of the summaries */
    uint64_t unnamed;                          /* values that count and should be named */
    uint64_t misnamed;                         /* keys of which something is named that does not count */
};

/** Tell that an invariant does not hold. */
void depot_check_fault(struct depot_check *check, enum depot_invariant invariant, const char *format, ...)
    base_printf_like(3, 4);

/** Read until two readings in a row agree, a few times at most: a drive may return damaged bytes once.
 * Yields.
 * @return 0; the drive's error */
base_must_check int depot_check_read(struct depot_check *check, uint64_t offset, void *memory, size_t bytes);

/** state.c: the slots of the state. Finds the newest. Yields. @return 0; -EUCLEAN; -ENOMEM; the drive's
 * error */
base_must_check int depot_check_state(struct depot_check *check);

/** segments.c: headers, summaries, records. Yields. @return 0; -ENOMEM; the drive's error */
base_must_check int depot_check_segments(struct depot_check *check);

/** checkpoint.c: read it, if there is one. Yields. @return 0; -ENOMEM; the drive's error */
base_must_check int depot_check_checkpoint(struct depot_check *check,
                                           const struct depot_index_widths *widths);

/** Free what is kept of it. */
void depot_check_checkpoint_deinit(struct depot_check *check);

/** Whether there is one, and it is about what lies at an address, and names that. */
bool depot_check_is_named(const struct depot_check *check, uint64_t grain);

/** When the keys are known: whether it names the same records. */
void depot_check_index(struct depot_check *check);

/** keys.c: which records count, and that copies agree. Yields. @return 0; -ENOMEM; the drive's error */
base_must_check int depot_check_keys(struct depot_check *check);

#endif
