/* A write to one key, from finding its record to publishing another: of write.c, and of a batch's many. */
#ifndef DEPOT_WRITE_INTERNAL_H
#define DEPOT_WRITE_INTERNAL_H

#include "depot/depot_internal.h"

struct depot_write {
    struct depot_key key;
    struct task_mutex *lock;
    struct seglog_reservation room;
    struct depot_record old;          /* what the index has */
    bool indexed;                     /* it has something */
    bool there;                       /* a get would find it */
    bool unsure;                      /* something newer may be missing: it decides nothing */
    bool place_held;                  /* depot_index_reserve() */
    struct seglog_pieces_format dead; /* of what was replaced: its pieces are dropped at the end */
    struct depot_trace trace;
};

/** Find what the index has of the key, which is locked. @return 0, also if there is nothing; as depot_find().
 * Yields. */
base_must_check int depot_write_find(struct tarn_depot *depot, struct depot_write *write,
                                     enum depot_want want);

/** Whether the condition holds of what was found. @return 0; -EEXIST; -ENOENT; -EINVAL; -EBADMSG (it cannot be told) */
base_must_check int depot_write_decide(const struct depot_write *write,
                                       const struct tarn_put_options *options);

/** Count new values in, and refuse them if they do not fit. What they replace is still counted, and so is
 * what was promised to others. @return 0; -ENOSPC */
base_must_check int depot_charge(struct tarn_depot *depot, uint64_t footprint, uint64_t old_footprint);

/** Take back what was counted. */
void depot_discharge(struct tarn_depot *depot, uint64_t footprint);

/** Hold a place in the index if the key's own entry may not be there when it is replaced. @return 0; -ENOSPC;
 * -EROFS; -EIO. Yields. */
base_must_check int depot_write_hold_place(struct tarn_depot *depot, struct depot_write *write);

/** Give it back if it was not used. */
void depot_write_cancel_place(struct tarn_depot *depot, struct depot_write *write);

/** The old record will be replaced by one with these pieces, or none: its own die with it if they are others.
 */
void depot_write_note_dead(struct depot_write *write, uint64_t id);

/** The record of a value. @param content  outlives it */
struct seglog_draft depot_write_value(const struct depot_write *write, const struct depot_content *content,
                                      uint64_t sequence);

/** The record of a deletion. */
struct seglog_draft depot_write_tombstone(const struct depot_write *write, uint64_t sequence);

/** A record that was written comes into the hot tier, and the one that it replaces, if any, goes. What the draft names is
 * still there. */
void depot_write_warm(struct tarn_depot *depot, const struct depot_write *write,
                      const struct seglog_draft *draft, const struct seglog_place *place);

/** Change the index: what was written is as durable as the mode asks. @return 0; as depot_find(). Yields. */
base_must_check int depot_write_publish(struct tarn_depot *depot, struct depot_write *write,
                                        const struct seglog_place *place);

#endif
