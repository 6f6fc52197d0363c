/* For the tests of values in pieces: what is stored, and that it comes back. */
#include "depot/pieces/testing.h"

uint8_t given[ROOM], found[ROOM];

struct tarn_depot *depot_of(struct testing_fixture *fixture)
{
    return fixture->store.depot;
}

struct tarn_depot_stats stats_of(struct testing_fixture *fixture)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(depot_of(fixture), &stats);
    return stats;
}

void fill(uint32_t seed, size_t bytes)
{
    struct base_random random;
    base_random_init(&random, seed);
    for (size_t i = 0; i < bytes; i++)
        given[i] = (uint8_t)base_random_u64(&random);
}

int put_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes)
{
    fill(seed, bytes);
    return tarn_depot_put(depot_of(fixture), key, strlen(key), given, bytes, NULL, NULL);
}

void expect_long(struct testing_fixture *fixture, const char *key, uint32_t seed, size_t bytes)
{
    struct tarn_record_info info;
    memset(found, 0, bytes);
    assert_int_equal(tarn_depot_get(depot_of(fixture), key, strlen(key), found, ROOM, &info), 0);
    assert_int_equal(info.value_bytes, bytes);
    fill(seed, bytes);
    assert_memory_equal(found, given, bytes);
}

void restart(struct testing_fixture *fixture, bool killed)
{
    fixture->drive = depot_testing_end(&fixture->store, &fixture->drive, killed);
    struct told told;
    struct depot_check_report report;
    assert_int_equal(depot_testing_check(&fixture->drive, &fixture->clock, &told, &report), 0);
    if (told.all > 0)
        print_error("%s\n", told.last);
    assert_int_equal(told.all, 0);
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
}

struct tarn_depot_writer *open_writer(struct testing_fixture *fixture, uint64_t bytes)
{
    struct tarn_depot_writer *writer = NULL;
    assert_int_equal(tarn_depot_writer_open(depot_of(fixture), "k", 1, NULL, bytes, &writer), 0);
    return writer;
}
