/* For the tests of values in pieces: what is stored, and that it comes back. */
#ifndef DEPOT_PIECES_TESTING_H
#define DEPOT_PIECES_TESTING_H

#include "depot/check_testing.h"
#include "depot/depot_internal.h"

#define ROOM (UINT64_C(1) << 20)

static uint8_t given[ROOM], found[ROOM];

static inline struct tarn_depot *depot_of(struct testing_fixture *fixture)
{
    return fixture->store.depot;
}

static inline struct tarn_depot_stats stats_of(struct testing_fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(depot_of(fixture), &stats);
    return stats;
}

/* No two places look alike. */
static inline void fill(uint32_t seed, size_t bytes)
{
    struct base_random random;
    base_random_init(&random, seed);
    for (size_t i = 0; i < bytes; i++)
        given[i] = (uint8_t)base_random_u64(&random);
}

static inline int put_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes)
{
    fill(seed, bytes);
    return tarn_depot_put(depot_of(fixture), key, strlen(key), given, bytes, NULL, NULL);
}

static inline void expect_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes)
{
    struct tarn_record_info info;
    memset(found, 0, bytes);
    assert_int_equal(tarn_depot_get(depot_of(fixture), key, strlen(key), found, ROOM, &info), 0);
    assert_int_equal(info.value_bytes, bytes);
    fill(seed, bytes);
    assert_memory_equal(found, given, bytes);
}

/* The store ends, in good order or not, is proven, and opened again. */
static inline void restart(struct testing_fixture *fixture, bool killed)
{
    fixture->drive = testing_end(&fixture->store, &fixture->drive, killed);
    struct told told;
    struct depot_check_report report;
    assert_int_equal(testing_check(&fixture->drive, &fixture->clock, &told, &report), 0);
    if (told.all > 0)
        print_error("%s\n", told.last);
    assert_int_equal(told.all, 0);
    testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
}

/* Of the value of "k". @param bytes  that shall come, or TARN_LENGTH_UNKNOWN */
static inline struct tarn_depot_writer *open_writer(struct testing_fixture *fixture, uint64_t bytes)
{
    struct tarn_depot_writer *writer = NULL;
    assert_int_equal(tarn_depot_writer_open(depot_of(fixture), "k", 1, NULL, bytes, &writer), 0);
    return writer;
}

#endif
