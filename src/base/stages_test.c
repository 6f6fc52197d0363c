#include "base/testing.h"

#include "base/json.h"
#include "base/stages.h"

static const char *const names[] = {"parse", "write"};

static void test_add_merge_write(void **state base_unused)
{
    struct base_account account;
    struct base_stages a, b;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_stages_init(&a, &account, names, 2, true), 0);
    assert_int_equal(base_stages_init(&b, &account, names, 2, true), 0);
    assert_int_equal(base_account_used(&account), 4 * BASE_HISTOGRAM_BYTES);
    base_stages_add(&a, 0, 10);
    base_stages_add(&b, 0, 20);
    base_stages_add(&b, 1, 30);
    base_stages_merge(&a, &b);
    assert_int_equal(base_histogram_count(&a.histograms[0]), 2);
    assert_int_equal(base_histogram_max(&a.histograms[0]), 20);
    assert_int_equal(base_histogram_count(&a.histograms[1]), 1);
    char text[1024];
    struct base_json json;
    base_json_init_buffer(&json, text, sizeof(text));
    base_stages_write_json(&a, &json, NULL);
    assert_int_equal(base_json_finish(&json, NULL), 0);
    assert_non_null(strstr(text, "{\"parse\":{\"count\":2,\"min\":10,"));
    assert_non_null(strstr(text, "\"write\":{\"count\":1,\"min\":30,"));
    base_stages_deinit(&a);
    base_stages_deinit(&b);
    base_account_deinit(&account);
}

static void test_switched_off(void **state base_unused)
{
    struct base_account account;
    struct base_stages on, off;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_stages_init(&off, &account, names, 2, false), 0);
    assert_false(base_stages_enabled(&off));
    assert_int_equal(base_account_used(&account), 0);
    base_stages_add(&off, 1, 5);
    assert_int_equal(base_stages_init(&on, &account, names, 2, true), 0);
    base_stages_add(&on, 1, 5);
    base_stages_merge(&on, &off);
    base_stages_merge(&off, &on);
    assert_int_equal(base_histogram_count(&on.histograms[1]), 1);
    char text[16];
    struct base_json json;
    base_json_init_buffer(&json, text, sizeof(text));
    base_stages_write_json(&off, &json, NULL);
    assert_int_equal(base_json_finish(&json, NULL), 0);
    assert_string_equal(text, "{}");
    base_stages_deinit(&on);
    base_stages_deinit(&off);
    base_account_fail_at(&account, 1);
    assert_int_equal(base_stages_init(&on, &account, names, 2, true), -ENOMEM);
    base_account_deinit(&account);
}

static void add_to_unknown_stage(void *arg)
{
    base_stages_add(arg, 2, 1);
}

static void test_unknown_stage_aborts(void **state base_unused)
{
    struct base_account account;
    struct base_stages stages;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_stages_init(&stages, &account, names, 2, true), 0);
    assert_true(testing_aborts(add_to_unknown_stage, &stages));
    base_stages_deinit(&stages);
    base_account_deinit(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_merge_write),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_unknown_stage_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
