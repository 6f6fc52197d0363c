/* A cache among threads: one key that all look at, while everything else goes. */
#include "depot/cache_testing.h"
#include <pthread.h>

enum { THREADS = 4, HOT_KEY = 1000000 };

struct crowd {
    struct testing_store store;
    _Atomic uint32_t written; /* of the hot key: acknowledged */
    _Atomic uint32_t began;   /* the highest value that somebody has begun to write */
    _Atomic bool done;
};

static void *read_hot(void *arg)
{
    struct crowd *crowd = arg;
    uint32_t last = 0;
    while (!atomic_load(&crowd->done)) {
        uint32_t before = atomic_load(&crowd->written);
        uint32_t value = numbered_get(&crowd->store, HOT_KEY);
        base_assert(value == 0 || (value >= before && value >= last));
        base_assert(value <= atomic_load(&crowd->began));
        last = base_max(last, value);
    }
    return NULL;
}

static void *write_hot(void *arg)
{
    struct crowd *crowd = arg;
    for (uint32_t value = 1; !atomic_load(&crowd->done); value++) {
        atomic_store(&crowd->began, value);
        base_assert(numbered_put(&crowd->store, HOT_KEY, value, 500) == 0);
        atomic_store(&crowd->written, value);
        for (int i = 0; i < 20; i++)
            (void)numbered_get(&crowd->store, HOT_KEY);
        if (value % 8 == 0) {
            int error = numbered_delete(&crowd->store, HOT_KEY);
            base_assert(error == 0 || error == -ENOENT);
            base_assert(numbered_get(&crowd->store, HOT_KEY) == 0);
        }
    }
    return NULL;
}

/* A key that is written, read and deleted all the time, and everything else on its way out. */
static void a_hot_key_among_evictions(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct crowd crowd = {.began = 0};
    pthread_t threads[THREADS];
    (void)state;
    open_as(&crowd.store, &drive, NULL, TARN_MODE_DEVICE, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i == 0 ? write_hot : read_hot, &crowd), 0);
    uint32_t keys = flood(&crowd.store, 0, TESTING_SLOW ? 3 : 10);
    for (uint32_t key = keys - 50; key < keys; key++)
        (void)numbered_get(&crowd.store, key);
    atomic_store(&crowd.done, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(cache_stats_of(&crowd.store).evictions > 0);
    depot_testing_close(&crowd.store);
    expect_proven(&drive, NULL);
    testing_drive_free(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hot_key_among_evictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
