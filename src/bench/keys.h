/*
 * Keys and values of `tarn bench memcache`: which key is next, what it is called, and values that tell whose
 * they are. Keys are 16 bytes, "bench-" and ten hexadecimal digits of the number. A value is the number, a
 * generation, bytes that all share, and a last word that belongs to number and generation: so a reader sees
 * whose value it has got, and whether it is whole. All are the same in every run.
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include "base/base.h"

enum {
    BENCH_KEY_BYTES = 16,
    BENCH_VALUE_BYTES_MIN = 32,
    BENCH_VALUE_HEAD_BYTES = 16, /* number and generation */
    BENCH_VALUE_TAIL_BYTES = 8,
};

/** Most keys: their numbers have ten digits. */
#define BENCH_KEYS_MAX (UINT64_C(1) << 40)

/* How keys are drawn. */
struct bench_keys {
    uint64_t count;
    bool zipf;
    struct base_random_zipf ranks;
    uint64_t stride; /* ranks are spread by it: has no divisor in common with count */
};

/**
 * Prepare drawing.
 *
 * @param count     1 to BENCH_KEYS_MAX
 * @param exponent  of Zipf's distribution, above 0 and below 1; 0: all equally likely
 */
void bench_keys_init(struct bench_keys *keys, uint64_t count, double exponent);

/** Draw a number from 0 to count - 1. Keys of neighbouring ranks are far apart. @param keys  only read */
uint64_t bench_keys_draw(const struct bench_keys *keys, struct base_random *random);

/** The number of the key of a rank, 0 being the most popular: each key has one rank. */
uint64_t bench_keys_of_rank(const struct bench_keys *keys, uint64_t rank);

/** Write a key. */
void bench_key(uint64_t number, char key[BENCH_KEY_BYTES]);

/** Read a key. @return 0; -EBADMSG (it is none) */
base_must_check int bench_key_read(const char *key, size_t len, uint64_t *ret_number);

/* What all values share. */
struct bench_values {
    struct base_account *account;
    uint32_t bytes; /* of a value */
    uint8_t *body;  /* a value without its own words */
};

/** @param bytes  BENCH_VALUE_BYTES_MIN or more @return 0; -ENOMEM */
base_must_check int bench_values_open(struct base_account *account, uint32_t bytes,
                                      struct bench_values *ret_values);

/** Free it. */
void bench_values_close(struct bench_values *values);

/** Write a value. @param to  values->bytes */
void bench_value(const struct bench_values *values, uint64_t number, uint64_t generation, uint8_t *to);

/* A value that arrives in pieces. */
struct bench_value_check {
    uint64_t number;
    bool whole;        /* look at all of it, not only at beginning and end */
    uint32_t position; /* bytes so far */
    uint8_t head[BENCH_VALUE_HEAD_BYTES];
    uint8_t tail[BENCH_VALUE_TAIL_BYTES];
};

/** Expect the value of a key. */
void bench_value_check_begin(struct bench_value_check *check, uint64_t number, bool whole);

/**
 * Look at the next bytes.
 *
 * @param bytes  no more than are left of it: it has been seen when check->position is values->bytes
 * @return whether they may belong to it; at its end: whether it is that key's, and whole
 */
bool bench_value_check_bytes(const struct bench_values *values, struct bench_value_check *check,
                             const uint8_t *data, size_t bytes);

#endif
