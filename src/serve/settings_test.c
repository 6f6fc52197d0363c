/* Is the table of settings sound, and are combinations refused that must not be served? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serve/serve.h"
#include <errno.h>
#include <stdlib.h>

struct fixture {
    struct base_account account;
    struct base_settings_arena arena;
    struct serve_options options;
    struct base_settings settings;
    char error[BASE_SETTINGS_ERROR_ROOM];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&fixture->arena, &fixture->account);
    fixture->settings = (struct base_settings){.table = serve_settings,
                                               .count = serve_settings_count,
                                               .options = &fixture->options,
                                               .arena = &fixture->arena};
    *state = fixture;
    return base_settings_set_defaults(&fixture->settings, fixture->error, sizeof(fixture->error));
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    base_settings_arena_deinit(&fixture->arena);
    base_account_deinit(&fixture->account);
    free(fixture);
    return 0;
}

static void set(struct fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(
        base_settings_set(&fixture->settings, name, value, fixture->error, sizeof(fixture->error)), 0);
}

static int check(struct fixture *fixture)
{
    return serve_check_options(&fixture->options, fixture->error, sizeof(fixture->error));
}

static void defaults_are_safe(void **state)
{
    struct fixture *fixture = *state;
    const struct serve_options *options = &fixture->options;
    assert_int_equal(options->port, 11211);
    assert_int_equal(options->listen.count, 0); /* 127.0.0.1 */
    assert_int_equal(options->mode, 0);         /* auto: power */
    assert_false(options->cache);
    assert_int_equal(options->over_provisioning_percent, 7);
    assert_false(options->insecure);
    assert_int_equal(options->item_bytes_max, 1 << 20);
}

static void a_store_must_be_named(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(check(fixture), -EINVAL);
    assert_non_null(strstr(fixture->error, "--data"));
    set(fixture, "data", "");
    assert_int_equal(check(fixture), -EINVAL);
    set(fixture, "data", "store");
    assert_int_equal(check(fixture), 0);
}

static void only_loopback_is_secure(void **state)
{
    struct fixture *fixture = *state;
    const char *const inside[] = {"127.0.0.1", "127.0.0.1:0", "127.8.9.10:11211",
                                  "[::1]",     "[::1]:11211", "127.0.0.1,[::1]"};
    const char *const outside[] = {"0.0.0.0",   "0.0.0.0:11211", "[::]:11211", "10.0.0.1",
                                   "1.127.0.1", "[::1:1]:1",     "localhost",  "127.0.0.1,192.0.2.1"};
    set(fixture, "data", "store");
    for (size_t i = 0; i < base_array_count(inside); i++) {
        set(fixture, "listen", inside[i]);
        assert_int_equal(check(fixture), 0);
    }
    for (size_t i = 0; i < base_array_count(outside); i++) {
        set(fixture, "insecure", "no");
        set(fixture, "listen", outside[i]);
        assert_int_equal(check(fixture), -EINVAL);
        assert_non_null(strstr(fixture->error, "--insecure"));
        set(fixture, "insecure", "yes");
        assert_int_equal(check(fixture), 0);
    }
}

static void over_provisioning_has_bounds(void **state)
{
    struct fixture *fixture = *state;
    const char *const bad[] = {"0", "2", "76", "100", "-7", "7.5"};
    for (size_t i = 0; i < base_array_count(bad); i++) {
        assert_int_not_equal(base_settings_set(&fixture->settings, "over-provisioning", bad[i],
                                               fixture->error, sizeof(fixture->error)),
                             0);
        assert_non_null(strstr(fixture->error, "over-provisioning"));
    }
    set(fixture, "over-provisioning", "3");
    set(fixture, "over-provisioning", "75");
    assert_int_equal(fixture->options.over_provisioning_percent, 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_are_safe, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_must_be_named, setup, teardown),
        cmocka_unit_test_setup_teardown(only_loopback_is_secure, setup, teardown),
        cmocka_unit_test_setup_teardown(over_provisioning_has_bounds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
