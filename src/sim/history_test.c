/* Tests of histories: logs of several threads, their merging, and full logs. */
#include "base/testing.h"

#include <pthread.h>

#include "sim/history.h"

static void test_record_and_merge(void **state base_unused)
{
    struct base_account account;
    struct sim_history history;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(sim_history_init(&history, &account, 3, 2), 0);
    int64_t put = sim_history_invoke(&history, 0, 1, 77, 5, 100);
    int64_t get = sim_history_invoke(&history, 2, 2, 77, 0, 90);
    assert_true(put >= 0 && get >= 0);
    sim_history_return(&history, 2, get, -ENOENT, 0, 130);
    assert_true(sim_history_invoke(&history, 2, 3, 78, 9, 100) >= 0);
    assert_int_equal(sim_history_invoke(&history, 2, 3, 78, 9, 140), -ENOSPC);
    sim_history_return(&history, 0, put, 0, 5, 120);
    assert_int_equal(sim_history_count(&history), 3);

    struct sim_history_record records[4];
    assert_int_equal(sim_history_merge(&history, records, 4), 3);
    assert_int_equal(records[0].invoke_ns, 90);
    assert_int_equal(records[0].error, -ENOENT);
    assert_int_equal(records[0].return_ns, 130);
    assert_int_equal(records[1].client, 0);
    assert_int_equal(records[1].result, 5);
    assert_false(records[1].pending);
    assert_int_equal(records[2].client, 2);
    assert_true(records[2].pending);
    assert_true(records[2].return_ns == UINT64_MAX);
    assert_int_equal(sim_history_merge(&history, records, 1), 1);
    sim_history_deinit(&history);
    base_account_deinit(&account);
}

static void test_no_memory(void **state base_unused)
{
    struct base_account account;
    struct sim_history history;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    for (uint64_t n = 1; n <= 5; n++) {
        base_account_fail_at(&account, n);
        assert_int_equal(sim_history_init(&history, &account, 4, 10), -ENOMEM);
        assert_int_equal(base_account_used(&account), 0);
    }
    assert_int_equal(sim_history_init(&history, &account, 4, SIZE_MAX / 2), -ENOMEM);
    base_account_deinit(&account);
}

#define CLIENTS 4
#define ROUNDS  2000

struct writer {
    struct sim_history *history;
    uint32_t client;
};

static void *record_some(void *arg)
{
    struct writer *writer = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        int64_t index = sim_history_invoke(writer->history, writer->client, 1, i, 0, i * 10 + writer->client);
        sim_history_return(writer->history, writer->client, index, 0, i, i * 10 + writer->client + 3);
    }
    return NULL;
}

static void test_clients_in_threads(void **state base_unused)
{
    struct base_account account;
    struct sim_history history;
    struct writer writers[CLIENTS];
    pthread_t threads[CLIENTS];
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(sim_history_init(&history, &account, CLIENTS, ROUNDS), 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        writers[i] = (struct writer){&history, i};
        assert_int_equal(pthread_create(&threads[i], NULL, record_some, &writers[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    size_t count = sim_history_count(&history);
    assert_int_equal(count, CLIENTS * ROUNDS);
    struct sim_history_record *records = calloc(count, sizeof(*records));
    assert_int_equal(sim_history_merge(&history, records, count), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(records[i].client, i % CLIENTS);
        assert_int_equal(records[i].key, i / CLIENTS);
    }
    free(records);
    sim_history_deinit(&history);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_and_merge),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_clients_in_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
