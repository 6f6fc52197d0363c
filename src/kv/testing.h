/*
 * For tests of other layers: tables of operations in front of a store's own. One does something between two calls, as
 * other callers might; the other checks that functions do nothing forbidden while a store shows them values. For one
 * thread.
 */
#ifndef KV_TESTING_H
#define KV_TESTING_H

#include "kv/kv_internal.h"

struct testing_front {
    struct kv_operations operations;
    const struct kv_operations *real;
};

void testing_front_begin(struct testing_front *front, struct tarn_kv *kv);

void testing_front_end(const struct testing_front *front, struct tarn_kv *kv);

/* ---- what others do meanwhile ---------------------------------------------------------------------- */

struct testing_meanwhile {
    struct testing_front front;
    /* called after each kv_update(), with its result, and after each kv_get_each(), with the number of gets that were not
     * shown; may call the store */
    void (*then)(void *arg, int outcome);
    void *arg;
};

/** Begin to call `then`. @param meanwhile  `then` and `arg` are set; kept until testing_front_end() */
void testing_meanwhile_begin(struct testing_meanwhile *meanwhile, struct tarn_kv *kv);

/* ---- what is forbidden ------------------------------------------------------------------------------- */

/** Begin to assert that functions that are shown values take no memory, as kv_shows_under_lock() demands. @param front
 * kept until testing_front_end() */
void testing_frugal_begin(struct testing_front *front, struct tarn_kv *kv);

#endif
