/* What every store must do behind <tarn/kv.h>: run by the tests of each kind, in tasks and in plain threads. */
#ifndef KV_CONFORMANCE_TESTING_H
#define KV_CONFORMANCE_TESTING_H

#include "base/random.h"
#include "fabric/testing.h"
#include "kv/kv_internal.h"

/* A kind of store, made anew for each test. */
struct testing_kind {
    void (*open)(struct testing_fabric *testing, struct tarn_kv **ret_kv);
    void (*close)(struct testing_fabric *testing, struct tarn_kv *kv);
    size_t key_bytes_max; /* 0: TARN_KEY_BYTES_MAX */
};

extern const struct testing_kind *testing_kind;

/* that is tested now */

#define LONG_BYTES 300000 /* in pieces in a depot, beyond small requests to a server */

/* A store and memory for values. */
struct testing_kv {
    struct testing_fabric *testing;
    struct tarn_kv *kv;
    struct tarn_kv_info info;
    uint8_t value[LONG_BYTES], got[LONG_BYTES];
};

struct testing_kv *testing_kv_open(struct testing_fabric *testing);

void testing_kv_close(struct testing_kv *self);

/** Store bytes that the round tells. @return the version */
uint64_t kv_testing_store(struct testing_kv *self, const char *key, size_t bytes, uint64_t round);

void testing_expect_value(struct testing_kv *self, const char *key, size_t bytes, uint64_t round);

int testing_get(struct testing_kv *self, const char *key, struct tarn_record_info *ret_info);

/* ---- values ------------------------------------------------------------------------------------- */

/* ---- conditions --------------------------------------------------------------------------------- */

void conditions_decide(struct testing_fabric *testing);

/* ---- many, and parts ---------------------------------------------------------------------------- */

enum { KEYS = 200 };

void many_are_fetched(struct testing_fabric *testing);

/* ---- longer than a request to a server ---------------------------------------------------------- */

void long_values_come_back(struct testing_fabric *testing);

/* ---- ranges ------------------------------------------------------------------------------------- */

/** Put keys into an ordered store that is empty, and look at them in all ways. */
void kv_testing_expect_ranges(struct testing_kv *self);

/** All of a batch is stored or nothing, and each item is told why. */
void kv_testing_expect_batches(struct testing_kv *self);

/* ---- together ----------------------------------------------------------------------------------- */

enum { COUNTERS = 3, STEPS = 60, JOBS = 5 };

int count_one(void *arg, const struct tarn_record_info *old, const void *value, struct tarn_update *update);

enum { MODEL_KEYS = 40, MODEL_STEPS = 1500 };

/* What a key should have. */
struct testing_model {
    bool present;
    size_t bytes;
    uint64_t round, version;
};

void agrees_with_a_model(struct testing_fabric *testing);

/* kv_conformance: all of it. */
extern const struct testing_suite kv_conformance;

#endif
