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

static int write_and_read(const char *text, struct sim_history_record *records, size_t room,
                          size_t *ret_count)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(text, file);
    rewind(file);
    int result = sim_history_read(file, records, room, ret_count);
    fclose(file);
    return result;
}

static void test_text_round_trip(void **state base_unused)
{
    static const struct sim_history_record written[] = {
        {.client = 1,
         .operation = 2,
         .key = 3,
         .argument = 4,
         .result = 5,
         .error = -ENOSPC,
         .invoke_ns = 6,
         .return_ns = 7},
        {.client = UINT32_MAX,
         .operation = UINT32_MAX,
         .key = UINT64_MAX,
         .argument = UINT64_MAX,
         .result = UINT64_MAX,
         .error = INT32_MAX,
         .pending = true,
         .invoke_ns = UINT64_MAX,
         .return_ns = UINT64_MAX},
        {0},
    };
    struct sim_history_record records[3];
    memset(records, 0xff, sizeof(records));
    size_t count = 0;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(sim_history_write(file, written, 3), 0);
    rewind(file);
    assert_int_equal(sim_history_read(file, records, 3, &count), 0);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(records[i].client, written[i].client);
        assert_int_equal(records[i].operation, written[i].operation);
        assert_true(records[i].key == written[i].key);
        assert_true(records[i].argument == written[i].argument);
        assert_true(records[i].result == written[i].result);
        assert_int_equal(records[i].error, written[i].error);
        assert_int_equal(records[i].pending, written[i].pending);
        assert_true(records[i].invoke_ns == written[i].invoke_ns);
        assert_true(records[i].return_ns == written[i].return_ns);
    }
    rewind(file);
    count = 9;
    assert_int_equal(sim_history_read(file, records, 2, &count), -ENOSPC);
    assert_int_equal(count, 9);
    fclose(file);
}

static void test_damaged_text_is_refused(void **state base_unused)
{
    static const char *const damaged[] = {
        "",
        "tarn-history 2\n",
        "tarn-history 1\n1 2 3 4 5 0 6\n",
        "tarn-history 1\n1 2 3 4 5 0 6 7",
        "tarn-history 1\n1 2 3 4 5 0 6 7 8\n",
        "tarn-history 1\n1 2 3 4 5 0 6 5\n",
        "tarn-history 1\n1 2 3 4 5 --1 6 7\n",
        "tarn-history 1\n4294967296 2 3 4 5 0 6 7\n",
        "tarn-history 1\n1 2 3 4 5 2147483648 6 7\n",
        "tarn-history 1\n1 2 x 4 5 0 6 7\n",
        "tarn-history 1\n1 2 -3 4 5 0 6 7\n",
        "tarn-history 1\n\n",
    };
    struct sim_history_record records[2];
    size_t count = 9;
    for (size_t i = 0; i < base_array_count(damaged); i++)
        assert_int_equal(write_and_read(damaged[i], records, 2, &count), -EINVAL);
    assert_int_equal(count, 9);
    assert_int_equal(write_and_read("tarn-history 1\n1 2 3 4 5 -2 6 -\n", records, 2, &count), 0);
    assert_int_equal(count, 1);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(sim_history_write(full, records, 1), -EIO);
    fclose(full);
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
        cmocka_unit_test(test_record_and_merge),        cmocka_unit_test(test_text_round_trip),
        cmocka_unit_test(test_damaged_text_is_refused), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_clients_in_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
