/*
 * pieces_match: which pieces count, by the entries of summaries alone. A piece counts if the head with its id
 * counts; a head counts if it is the record that counts under its key and its id is not gone.
 */
#ifndef DEPOT_PIECES_MATCH_H
#define DEPOT_PIECES_MATCH_H

#include "base/base.h"
#include "seglog/seglog_format.h"

/* What an entry of a piece or a head says. */
struct depot_big {
    uint64_t id;
    uint64_t hash; /* the low half */
    uint64_t grain;
    uint32_t bytes;
    uint16_t number; /* of the piece; of a head's pieces */
    bool head;
    bool counts; /* the caller's: it is the record that counts under its hash */
    bool named;  /* the caller's */
};

struct depot_bigs {
    struct base_account *account;
    struct depot_big *items;
    uint64_t count, room;
};

/** Remember an entry, if it is of a piece or a head. @return 0; -ENOMEM */
base_must_check int depot_bigs_add(struct depot_bigs *bigs, const struct seglog_entry_format *entry,
                                   uint64_t grain);

/** Forget all. */
void depot_bigs_clear(struct depot_bigs *bigs);

/** By rising grain. */
void depot_bigs_sort(struct depot_bigs *bigs);

/**
 * Called for each that counts under its hash.
 *
 * @param wanted  whether it counts: its head does, or it is one that does
 * @param pieces  of a head that counts: how many of its pieces there are
 */
typedef void depot_bigs_function(void *arg, const struct depot_big *big, bool wanted, uint32_t pieces);

/** Match pieces and heads. Changes the order. @param gone_sequence  values with a lower id are gone */
void depot_bigs_match(struct depot_bigs *bigs, uint64_t gone_sequence, depot_bigs_function *tell, void *arg);

#endif
