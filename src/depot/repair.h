/*
 * repair: what `tarn check --repair` does to a store that is open for that. README, "Repair", has the order
 * of it and what it promises.
 */
#ifndef DEPOT_REPAIR_H
#define DEPOT_REPAIR_H

#include "depot/depot_internal.h"

/* Places of records, by rising grain once they are all there. */
struct depot_grains {
    struct base_account *account;
    uint64_t *items;
    uint64_t count, room;
};

/* A repair under way. */
struct depot_repair {
    void (*tell)(void *arg, const struct depot_lost *lost);
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
    struct depot_repair_report report;
    struct depot_grains damaged; /* records that do not verify, of whatever kind */
    struct depot_grains doomed;  /* heads that lack a piece: they end */
    bool *given_up;              /* of each segment: something in it is damaged, or ends */
    uint32_t segments;
    uint32_t segment;      /* whose records are looked at */
    bool served;           /* the service has given up what it could, … */
    struct task_wait done; /* … and said so */
};

/** Read all of a store whose log is open and not started, for what is damaged. Checkpoints are rejected: the
 * index is to be filled from summaries. @return 0; -ENOMEM; the drive's error. Yields. */
base_must_check int depot_repair_find(struct tarn_depot *depot);

/** Whether a record was found damaged. Any store: of one that is not repaired none was. */
bool depot_repair_is_damaged(const struct tarn_depot *depot, uint64_t grain);

/** A head lacks a piece: it is to end. @return 0; -ENOMEM */
base_must_check int depot_repair_doom(struct tarn_depot *depot, uint64_t grain);

/** Whether a record was doomed. Any store. */
bool depot_repair_is_doomed(const struct tarn_depot *depot, uint64_t grain);

/** gone() of struct seglog_owner_ops, of what would have counted. @return whether it was to be expected: when
 * all was read it was damaged as well, or doomed */
bool depot_repair_note(struct tarn_depot *depot, const struct seglog_entry_format *entry, uint64_t grain,
                       const void *key, size_t key_bytes);

/** In the service, before it collects anything: give up what was found. Yields. */
void depot_repair_serve(struct tarn_depot *depot);

#endif
