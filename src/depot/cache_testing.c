/* For the tests of cache mode: caches, numbered keys with numbered values. */
#include "depot/cache_testing.h"

void open_as(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
             enum tarn_mode mode, bool cache)
{
    const struct tarn_depot_options options = {
        .create_bytes = TESTING_STORE_BYTES, .mode = mode, .cache = cache};
    assert_int_equal(testing_try_open(store, drive, clock, &options), 0);
}

struct tarn_depot_stats cache_stats_of(struct testing_store *store)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(store->depot, &stats);
    return stats;
}

void key_of(uint32_t number, char key[16])
{
    (void)snprintf(key, 16, "%u", number);
}

int numbered_put(struct testing_store *store, uint32_t number, uint32_t value, size_t bytes)
{
    uint8_t data[8192];
    char key[16];
    key_of(number, key);
    memset(data, (int)value, bytes);
    memcpy(data, &value, sizeof(value));
    return tarn_depot_put(store->depot, key, strlen(key), data, bytes, NULL, NULL);
}

uint32_t numbered_get(struct testing_store *store, uint32_t number)
{
    uint8_t data[8192];
    char key[16];
    struct tarn_record_info info;
    uint32_t value;
    key_of(number, key);
    int error = tarn_depot_get(store->depot, key, strlen(key), data, sizeof(data), &info);
    if (error == -ENOENT)
        return 0;
    assert_int_equal(error, 0);
    memcpy(&value, data, sizeof(value));
    for (size_t i = sizeof(value); i < info.value_bytes; i++)
        assert_int_equal(data[i], (uint8_t)value);
    return value;
}

int numbered_delete(struct testing_store *store, uint32_t number)
{
    char key[16];
    key_of(number, key);
    return testing_delete(store, key);
}

uint32_t flood(struct testing_store *store, uint32_t first, uint32_t times)
{
    uint64_t bytes = cache_stats_of(store).capacity_bytes * times;
    uint32_t key = first;
    for (uint64_t put = 0; put < bytes; put += 3000, key++)
        assert_int_equal(numbered_put(store, key, key + 1, 3000), 0);
    return key;
}

void wait_until_quiet(struct testing_store *store)
{
    while (cache_stats_of(store).segments_free <= 5) {
        seglog_poke(store->depot->log); /* nobody waits for it */
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
}

void expect_proven(struct testing_drive *drive, struct testing_clock *clock)
{
    struct told told;
    struct depot_check_report report;
    assert_int_equal(depot_testing_check(drive, clock, &told, &report), 0);
    assert_int_equal(report.faults, 0);
}
