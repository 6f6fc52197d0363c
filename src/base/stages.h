/*
 * Where the time goes: a named latency histogram for each stage of the work of one owner (a scheduler). When
 * switched off it holds no memory, and adding is one predictable branch. One owner, no lock.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include "base/account.h"
#include "base/histogram.h"

struct base_stages {
    struct base_account *account;
    const char *const *names;
    size_t count;
    struct base_histogram *histograms; /* NULL: switched off */
};

/**
 * Make the histograms, or none.
 *
 * @param account       outlives them
 * @param names, count  one name for each stage; borrowed until deinit
 * @param enabled       false: nothing is taken, adding does nothing
 * @return 0; -ENOMEM
 */
int base_stages_init(struct base_stages *stages, struct base_account *account, const char *const *names,
                     size_t count, bool enabled) base_must_check;

/**
 * Free the histograms.
 */
void base_stages_deinit(struct base_stages *stages);

/**
 * Whether stages are measured: ask before reading a clock only for them.
 */
static inline bool base_stages_enabled(const struct base_stages *stages)
{
    return base_unlikely(stages->histograms != NULL);
}

/**
 * Count the time that a stage took.
 *
 * @param stage  index of its name
 */
static inline void base_stages_add(struct base_stages *stages, size_t stage, uint64_t ns)
{
    if (base_stages_enabled(stages)) {
        base_assert(stage < stages->count);
        base_histogram_add(&stages->histograms[stage], ns);
    }
}

/**
 * Add what `from` counted to `into`. Both have the same names; if either is switched off nothing happens.
 */
void base_stages_merge(struct base_stages *into, const struct base_stages *from);

/**
 * Write an object with one member for each stage (base_histogram_write_json); an empty one if switched off.
 *
 * @param key  name of the object in its parent, or NULL
 */
void base_stages_write_json(const struct base_stages *stages, struct base_json *json, const char *key);

#endif
