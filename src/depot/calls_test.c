/* Do the calls for many keys do what <tarn/depot.h> says: get_many, update, scan; and formatting? */
#include "depot/testing.h"

#define KEYS 300

#define SECOND BASE_NS_PER_SECOND
#define BEGIN  TESTING_BEGIN

static void put_keys(struct testing_fixture *fixture, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        char key[16], value[32];
        (void)snprintf(key, sizeof(key), "key %d", i);
        (void)snprintf(value, sizeof(value), "value of %d", i);
        assert_int_equal(depot_testing_put(&fixture->store, key, value), 0);
    }
}

/* ---- get_many ----------------------------------------------------------------------------------- */

static void many_are_fetched_at_once(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_get gets[6];
    char values[6][32];
    put_keys(fixture, 0, 3);
    const char *const keys[] = {"key 2", "none", "key 0", "key 2", "key 1", ""};
    for (size_t i = 0; i < base_array_count(gets); i++) {
        gets[i] = (struct tarn_get){.key = keys[i],
                                    .key_len = strlen(keys[i]),
                                    .value = values[i],
                                    .value_room = i == 4 ? 3 : sizeof(values[i])};
    }
    tarn_depot_get_many(fixture->store.depot, gets, base_array_count(gets));
    const int errors[] = {0, -ENOENT, 0, 0, -ENOBUFS, -EINVAL};
    for (size_t i = 0; i < base_array_count(gets); i++)
        assert_int_equal(gets[i].error, errors[i]);
    assert_memory_equal(values[0], "value of 2", 10);
    assert_memory_equal(values[2], "value of 0", 10);
    assert_memory_equal(values[3], "value of 2", 10);
    assert_int_equal(gets[4].info.value_bytes, 10);
    assert_int_equal(gets[0].info.version, gets[3].info.version);
    tarn_depot_get_many(fixture->store.depot, NULL, 0);
}

static void very_many_are_fetched(void **state)
{
    struct testing_fixture *fixture = *state;
    put_keys(fixture, 0, KEYS);
    testing_reopen(fixture);
    struct tarn_get *gets = calloc(2 * KEYS, sizeof(*gets));
    char(*keys)[16] = calloc(2 * KEYS, sizeof(*keys));
    char(*values)[32] = calloc(2 * KEYS, sizeof(*values));
    assert_true(gets != NULL && keys != NULL && values != NULL);
    for (int i = 0; i < 2 * KEYS; i++) {
        int len = snprintf(keys[i], sizeof(keys[i]), "key %d", i);
        gets[i] = (struct tarn_get){
            .key = keys[i], .key_len = (size_t)len, .value = values[i], .value_room = sizeof(values[i])};
    }
    tarn_depot_get_many(fixture->store.depot, gets, 2 * KEYS);
    for (int i = 0; i < 2 * KEYS; i++) {
        char expected[32];
        int len = snprintf(expected, sizeof(expected), "value of %d", i);
        assert_int_equal(gets[i].error, i < KEYS ? 0 : -ENOENT);
        if (i < KEYS)
            assert_memory_equal(values[i], expected, (size_t)len);
    }
    free(gets);
    free(keys);
    free(values);
}

/* ---- update ------------------------------------------------------------------------------------- */

/* What a decision saw, and what it shall say. */
struct decision {
    int calls;
    bool there;
    struct tarn_record_info old;
    char value[32];
    struct tarn_update given; /* as it was handed in */
    struct tarn_update update;
    bool keep; /* expiry and flags */
    int result;
};

static int decide(void *arg, const struct tarn_record_info *old, const void *value,
                  struct tarn_update *update)
{
    struct decision *decision = arg;
    decision->calls++;
    decision->there = old != NULL;
    if (old != NULL) {
        decision->old = *old;
        base_assert(old->value_bytes < sizeof(decision->value));
        memcpy(decision->value, value, old->value_bytes);
        decision->value[old->value_bytes] = '\0';
    }
    decision->given = *update;
    uint64_t expiry_ns = update->expiry_ns;
    uint32_t client_flags = update->client_flags;
    *update = decision->update;
    if (decision->keep) {
        update->expiry_ns = expiry_ns;
        update->client_flags = client_flags;
    }
    return decision->result;
}

static int update_k(struct testing_fixture *fixture, struct decision *decision, uint64_t *ret_version)
{
    return tarn_depot_update(fixture->store.depot, "k", 1, decide, decision, ret_version);
}

static void an_update_reads_and_writes(void **state)
{
    struct testing_fixture *fixture = *state;
    struct decision decision = {
        .update = {.value = "first", .value_len = 5, .expiry_ns = BEGIN + SECOND, .client_flags = 7}};
    uint64_t first = 0, second = 0;
    assert_int_equal(update_k(fixture, &decision, &first), 0);
    assert_int_equal(decision.calls, 1);
    assert_false(decision.there);
    assert_true(decision.given.value_len == 0 && decision.given.expiry_ns == 0 && !decision.given.remove);
    assert_int_equal(decision.given.client_flags, 0);
    depot_testing_expect(&fixture->store, "k", "first");
    decision = (struct decision){.update = {.value = "second", .value_len = 6}, .keep = true};
    assert_int_equal(update_k(fixture, &decision, &second), 0);
    assert_true(decision.there && decision.calls == 1);
    assert_string_equal(decision.value, "first");
    assert_int_equal(decision.old.version, first);
    assert_true(decision.given.expiry_ns == BEGIN + SECOND && decision.given.client_flags == 7);
    assert_true(decision.given.value_len == 0 && !decision.given.remove);
    assert_true(second != first && second != 0);
    for (int round = 0; round < 2; round++) {
        struct tarn_record_info info;
        char value[16];
        assert_int_equal(tarn_depot_get(fixture->store.depot, "k", 1, value, sizeof(value), &info), 0);
        assert_memory_equal(value, "second", 6);
        assert_int_equal(info.version, second);
        assert_int_equal(info.client_flags, 7);
        assert_int_equal(info.expiry_ns, BEGIN + SECOND);
        testing_reopen(fixture);
    }
    fixture->clock.wall_ns = BEGIN + SECOND; /* what has expired is absent */
    decision = (struct decision){.update = {.value = "third", .value_len = 5}};
    assert_int_equal(update_k(fixture, &decision, NULL), 0);
    assert_false(decision.there);
    depot_testing_expect(&fixture->store, "k", "third");
}

static void an_update_may_refuse_or_remove(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot_stats before, after;
    struct decision refuse = {.update = {.value = "x", .value_len = 1}, .result = -ECHILD};
    struct decision positive = {.update = {.value = "x", .value_len = 1}, .result = 42};
    struct decision removal = {.update = {.remove = true}};
    uint64_t version = 99;
    tarn_depot_stats(fixture->store.depot, &before);
    assert_int_equal(update_k(fixture, &refuse, &version), -ECHILD);
    assert_int_equal(update_k(fixture, &removal, &version), 0); /* it was absent already */
    depot_testing_expect(&fixture->store, "k", NULL);
    tarn_depot_stats(fixture->store.depot, &after);
    assert_int_equal(after.user_bytes, before.user_bytes);
    assert_int_equal(depot_testing_put(&fixture->store, "k", "there"), 0);
    assert_int_equal(update_k(fixture, &refuse, &version), -ECHILD);
    assert_int_equal(update_k(fixture, &positive, &version), 42);
    depot_testing_expect(&fixture->store, "k", "there");
    assert_int_equal(update_k(fixture, &removal, &version), 0);
    assert_int_equal(version, 99);
    assert_string_equal(removal.value, "there");
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(&fixture->store, "k", NULL);
        testing_reopen(fixture);
    }
    assert_int_equal(tarn_depot_update(fixture->store.depot, "", 0, decide, &removal, NULL), -EINVAL);
    assert_int_equal(removal.calls, 2);
}

static void updates_have_limits(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t longest = tarn_depot_value_bytes_max(fixture->store.depot);
    char *value = calloc(1, longest + 1);
    assert_non_null(value);
    struct decision decision = {.update = {.value = value, .value_len = longest + 1}};
    assert_int_equal(depot_testing_put(&fixture->store, "k", "there"), 0);
    assert_int_equal(update_k(fixture, &decision, NULL), -EMSGSIZE);
    depot_testing_expect(&fixture->store, "k", "there");
    decision = (struct decision){.update = {.value = value, .value_len = longest}};
    assert_int_equal(update_k(fixture, &decision, NULL), 0);
    struct tarn_record_info info = {.value_bytes = 0};
    assert_int_equal(tarn_depot_get(fixture->store.depot, "k", 1, value, 0, &info), -ENOBUFS);
    assert_int_equal(info.value_bytes, longest);
    free(value);
}

/* ---- scan --------------------------------------------------------------------------------------- */

struct visits {
    struct testing_fixture *fixture;
    int seen[2 * KEYS];
    int count;
    int stop_after; /* 0: never */
    int (*also)(struct visits *visits, int key);
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct visits *visits = arg;
    char name[16] = "", expected[32];
    assert_true(key_len < sizeof(name));
    memcpy(name, key, key_len);
    int number = (int)strtol(name + 4, NULL, 10);
    assert_true(number >= 0 && number < 2 * KEYS);
    int len = snprintf(expected, sizeof(expected), "value of %d", number);
    assert_int_equal(info->value_bytes, len);
    assert_memory_equal(value, expected, (size_t)len);
    assert_int_not_equal(info->version, 0);
    visits->seen[number]++;
    visits->count++;
    if (visits->also != NULL)
        return visits->also(visits, number);
    return visits->count == visits->stop_after ? -ECHILD : 0;
}

static void expect_visits(struct testing_fixture *fixture, int begin, int end)
{
    struct visits *visits = calloc(1, sizeof(*visits));
    assert_non_null(visits);
    assert_int_equal(tarn_depot_scan(fixture->store.depot, visit, visits), 0);
    for (int i = 0; i < 2 * KEYS; i++)
        assert_int_equal(visits->seen[i], i >= begin && i < end ? 1 : 0);
    free(visits);
}

static void a_scan_visits_all_once(void **state)
{
    struct testing_fixture *fixture = *state;
    expect_visits(fixture, 0, 0);
    put_keys(fixture, 0, KEYS);
    put_keys(fixture, 0, 10); /* once more */
    expect_visits(fixture, 0, KEYS);
    for (int i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key %d", i);
        if (i % 2 == 0)
            assert_int_equal(testing_delete(&fixture->store, key), 0);
        else
            assert_int_equal(tarn_depot_touch(fixture->store.depot, key, strlen(key), BEGIN + SECOND), 0);
    }
    fixture->clock.wall_ns = BEGIN + SECOND; /* what has expired is not there */
    for (int round = 0; round < 2; round++) {
        expect_visits(fixture, 100, KEYS);
        testing_reopen(fixture);
    }
    assert_int_equal(tarn_depot_flush_all(fixture->store.depot, 0), 0);
    expect_visits(fixture, 0, 0);
}

static void a_scan_may_be_ended(void **state)
{
    struct testing_fixture *fixture = *state;
    struct visits *visits = calloc(1, sizeof(*visits));
    assert_non_null(visits);
    put_keys(fixture, 0, 20);
    visits->stop_after = 7;
    assert_int_equal(tarn_depot_scan(fixture->store.depot, visit, visits), -ECHILD);
    assert_int_equal(visits->count, 7);
    free(visits);
}

/* What is visited is removed, and another key is stored instead. */
static int replace_key(struct visits *visits, int number)
{
    char key[16];
    (void)snprintf(key, sizeof(key), "key %d", number);
    assert_int_equal(testing_delete(&visits->fixture->store, key), 0);
    if (number < KEYS)
        put_keys(visits->fixture, number + KEYS, number + KEYS + 1);
    return 0;
}

static void a_visit_may_change_the_store(void **state)
{
    struct testing_fixture *fixture = *state;
    struct visits *visits = calloc(1, sizeof(*visits));
    assert_non_null(visits);
    visits->fixture = fixture;
    visits->also = replace_key;
    put_keys(fixture, 0, KEYS);
    assert_int_equal(tarn_depot_scan(fixture->store.depot, visit, visits), 0);
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(visits->seen[i], 1); /* it was there from the beginning */
        assert_true(visits->seen[i + KEYS] <= 1);
        char key[16];
        (void)snprintf(key, sizeof(key), "key %d", i);
        depot_testing_expect(&fixture->store, key, NULL);
    }
    free(visits);
}

/* ---- formatting --------------------------------------------------------------------------------- */

static int format(struct testing_drive *drive, const struct tarn_format_options *options)
{
    struct tarn_node *node = testing_node(drive, NULL);
    int error = tarn_depot_format(node, "store", options);
    task_node_close(node);
    return error;
}

static void formatting_minds_what_is_there(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    const struct tarn_format_options create = {.create_bytes = TESTING_STORE_BYTES};
    const struct tarn_format_options force = {.force = true};
    assert_int_equal(format(&drive, NULL), -ENOENT);
    assert_int_equal(format(&drive, &create), 0);
    assert_int_equal(drive.size, TESTING_STORE_BYTES);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(depot_testing_put(&store, "a", "v"), 0);
    depot_testing_close(&store);
    assert_int_equal(format(&drive, NULL), -EEXIST);
    assert_int_equal(format(&drive, &create), -EEXIST);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "a", "v");
    depot_testing_close(&store);
    assert_int_equal(format(&drive, &force), 0);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    depot_testing_expect(&store, "a", NULL);
    depot_testing_close(&store);
    testing_drive_free(&drive);
    drive = testing_drive_new(TESTING_STORE_BYTES);
    drive.bytes[TESTING_STORE_BYTES - 1] = 1; /* somebody's */
    assert_int_equal(format(&drive, NULL), -EEXIST);
    assert_int_equal(drive.bytes[TESTING_STORE_BYTES - 1], 1);
    assert_int_equal(format(&drive, &force), 0);
    assert_int_equal(drive.size, TESTING_STORE_BYTES);
    testing_drive_free(&drive);
}

static void stores_of_all_kinds_are_made(void **state)
{
    (void)state;
    for (uint32_t grain = 32; grain <= 512; grain *= 2) {
        struct testing_store store;
        const struct tarn_format_options options = {.grain_bytes = grain};
        struct testing_drive drive = testing_drive_new(TESTING_STORE_BYTES + grain * 4096);
        assert_int_equal(format(&drive, &options), 0);
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        for (int i = 0; i < 100; i++)
            assert_int_equal(depot_testing_put(&store, i % 2 == 0 ? "a" : "b", "value"), 0);
        depot_testing_close(&store);
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
        depot_testing_expect(&store, "a", "value");
        depot_testing_expect(&store, "b", "value");
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

static void impossible_stores_are_refused(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    const uint64_t sizes[] = {1, 65536, UINT64_C(1) << 20};
    for (size_t i = 0; i < base_array_count(sizes); i++) {
        const struct tarn_format_options options = {.create_bytes = sizes[i]};
        assert_int_equal(format(&drive, &options), -EINVAL);
        testing_drive_free(&drive);
    }
    const uint32_t grains[] = {1, 16, 48, 1024};
    for (size_t i = 0; i < base_array_count(grains); i++) {
        const struct tarn_format_options options = {.create_bytes = TESTING_STORE_BYTES,
                                                    .grain_bytes = grains[i]};
        assert_int_equal(format(&drive, &options), -EINVAL);
        testing_drive_free(&drive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_are_fetched_at_once, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(very_many_are_fetched, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(an_update_reads_and_writes, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(an_update_may_refuse_or_remove, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(updates_have_limits, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(a_scan_visits_all_once, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(a_scan_may_be_ended, testing_setup, testing_teardown),
        cmocka_unit_test_setup_teardown(a_visit_may_change_the_store, testing_setup, testing_teardown),
        cmocka_unit_test(formatting_minds_what_is_there),
        cmocka_unit_test(stores_of_all_kinds_are_made),
        cmocka_unit_test(impossible_stores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
