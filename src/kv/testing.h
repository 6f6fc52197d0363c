/*
 * For tests of other layers, with tables of operations of their own in front of a store's: what others do between two
 * calls, and what functions must not do that a store shows something. Not for several threads.
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
    /* called after each kv_update(), with what it returns, and after each kv_get_each(), with how many were not shown;
     * may call the store */
    void (*then)(void *arg, int outcome);
    void *arg;
};

/** From now on `then` is called. @param meanwhile  `then` and `arg` are set; there until testing_front_end() */
void testing_meanwhile_begin(struct testing_meanwhile *meanwhile, struct tarn_kv *kv);

/* ---- what is forbidden ------------------------------------------------------------------------------- */

/** From now on functions that are shown something take no memory, which kv_shows_under_lock() forbids: asserted.
 * @param front  there until testing_front_end() */
void testing_frugal_begin(struct testing_front *front, struct tarn_kv *kv);

#endif
