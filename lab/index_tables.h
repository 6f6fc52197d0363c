/*
 * The tables that `tarn-lab index` measures, behind one interface: 64-bit hash to 64-bit word. Keys are
 * numbered; a key's hash is drawn from its number and the seed.
 */
#ifndef LAB_INDEX_TABLES_H
#define LAB_INDEX_TABLES_H

#include "base/base.h"

/* One open table: an implementation's structure begins with it. */
struct lab_index_table {
    struct base_account *account;
    uint64_t seed;
    uint64_t keys; /* numbers that will be used: 0 to keys - 1 */
    bool grows;    /* many more than it was opened for are inserted */
};

/* An implementation. Calls of find, insert and remove come from several threads at once. */
struct lab_index_kind {
    const char *name;
    const char *skipped; /* why there is none in this build, or NULL */

    /** Make a table for a number of entries; a few more are inserted and removed. @return 0; negative errno */
    int (*open)(const struct lab_index_table *options, uint64_t entries, struct lab_index_table **ret_table);
    void (*close)(struct lab_index_table *table);

    /** What a thread does before and after its calls; NULL is nothing. */
    void (*thread_begin)(void);
    void (*thread_end)(void);

    /** Look keys up by their numbers. @return how many were found */
    uint64_t (*find)(struct lab_index_table *table, const uint64_t *numbers, uint64_t count);

    /**
     * Have a table that grows do so, if it is nearly full. One caller at a time, beside inserts. NULL: it
     * does so itself, in inserts or in threads of its own.
     *
     * @param now  an insert has found no place: -EAGAIN
     * @return 0; negative errno
     */
    int (*grow)(struct lab_index_table *table, bool now);

    /** Insert keys by their numbers, none of which is there. @return 0; -EAGAIN (grow); negative errno */
    int (*insert)(struct lab_index_table *table, uint64_t first, uint64_t count);

    /** Remove keys by their numbers, all of which are there; others may insert them again after that. */
    void (*remove)(struct lab_index_table *table, uint64_t first, uint64_t count);
};

/** Tarn's index, one key after the other. */
extern const struct lab_index_kind lab_index_tarn;
/** Tarn's index, where the next keys of a batch are known and prefetched. */
extern const struct lab_index_kind lab_index_ahead;
/** Concurrency Kit's ck_ht: one writer at a time, so that writers take a lock. */
extern const struct lab_index_kind lab_index_ck;
/** The lock-free hash table of liburcu, with QSBR, the flavour whose readers are the fastest. */
extern const struct lab_index_kind lab_index_lfht;

/** The hash of a key: none of 0 and UINT64_MAX, which one of the tables has no place for. */
static inline uint64_t lab_index_hash(const struct lab_index_table *table, uint64_t number)
{
    uint64_t bits = number + table->seed;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9U; /* splitmix64: one to one */
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebU;
    bits ^= bits >> 31;
    return bits + (bits == 0) - (bits == UINT64_MAX);
}

/** Zeroed memory in huge pages where there are any, so that all tables have them. @return NULL: no memory */
void *lab_index_map(size_t bytes);

/** Free what lab_index_map() returned. */
void lab_index_unmap(void *memory, size_t bytes);

#endif
