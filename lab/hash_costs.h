/*
 * What operations of the hash store cost, counted by the fabric: round trips, operations and bytes, by how the store is made
 * and how full its index is; and how full an index gets, what that takes in moves, and in time.
 *
 * Threading: plain threads; nothing is shared between calls.
 */
#ifndef LAB_HASH_COSTS_H
#define LAB_HASH_COSTS_H

#include "base/base.h"
#include "sim/cards.h"

#define LAB_HASH_KEY_BYTES   16
#define LAB_HASH_VALUE_BYTES 64
#define LAB_HASH_MOVES_MAX   4  /* new keys that took as many moves or more are counted together */
#define LAB_HASH_BINS        50 /* of an index: 2 % of its slots each */

enum lab_hash_kind {
    LAB_HASH_GET_CACHED, /* of a record that the client has in its cache */
    LAB_HASH_GET,        /* of one that it has not */
    LAB_HASH_GET_MISS,
    LAB_HASH_OVERWRITE,
    LAB_HASH_DELETE,
    LAB_HASH_NEW, /* a new key, for which no other one moves; after it, one for each number of moves */
    LAB_HASH_KINDS = LAB_HASH_NEW + LAB_HASH_MOVES_MAX + 1,
};

/** What a kind is called. */
const char *lab_hash_kind_name(enum lab_hash_kind kind);

struct lab_hash_costs_options {
    uint64_t seed;
    uint32_t ranks, filter_bits;
    uint32_t load_percent; /* of the index */
};

/* Of operations of a kind, all together. */
struct lab_hash_cost {
    uint64_t count;
    uint64_t trips; /* operations of the fabric that followed each other: what was posted together is one */
    uint64_t reads, writes, swaps;
    uint64_t bytes; /* that these moved */
};

struct lab_hash_costs {
    struct lab_hash_cost kinds[LAB_HASH_KINDS];
    bool has_grown; /* before it was so full: nothing was measured */
    uint64_t hash;  /* of all counts: equal for equal options */
};

/** Measure single operations of one client, one after the other. @return 0; -ENOMEM; -EIO: a call failed (said to standard error) */
base_must_check int lab_hash_costs_measure(const struct lab_hash_costs_options *options,
                                           struct lab_hash_costs *ret_costs);

struct lab_hash_load_options {
    const struct sim_card *card;
    uint64_t seed;
    uint64_t slots; /* of the index */
    uint32_t ranks, filter_bits;
    uint32_t clients; /* that store new keys at the same time */
};

/* Of the keys that were stored while the index became fuller by a bin. */
struct lab_hash_bin {
    uint64_t puts, moves;
    uint64_t p50_ns, p99_ns, p999_ns, max_ns; /* of a put */
};

struct lab_hash_load {
    struct lab_hash_bin bins[LAB_HASH_BINS];
    uint64_t stored;     /* keys when the first put found no room, and a larger index was made */
    uint64_t growing_ns; /* the longest put from then on, until the larger index has taken the place */
    uint64_t growing_p999_ns, growing_puts;
};

/** Store new keys until a larger index has taken the place of the first one. @return as above */
base_must_check int lab_hash_load_measure(const struct lab_hash_load_options *options,
                                          struct lab_hash_load *ret_load);

#endif
