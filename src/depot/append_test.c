/*
 * Does a store take one more drive, keep what is in it, and refuse to be opened without it? Appending is cut off at
 * every write; a stripe becomes larger while it is open.
 */
#include "depot/check/testing.h"
#include "drive/stripe_testing.h"
#include <errno.h>

enum { LONG_KEYS = 60, VALUE_BYTES = 20000 };

/* Drives that a store fits on. */
static struct testing_members *large_members(void)
{
    struct testing_members *all = testing_members_new();
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++) {
        testing_drive_free(&all->members[i].drive);
        all->members[i].drive = testing_drive_new(TESTING_STORE_BYTES);
    }
    return all;
}

static int try_open(struct testing_members *all, const char *list, struct testing_store *store)
{
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES};
    store->node = testing_members_node(all);
    int error = tarn_depot_open(store->node, list, &options, &store->depot);
    if (error != 0)
        task_node_close(store->node);
    return error;
}

static void make(struct testing_members *all, const char *list)
{
    struct testing_store store;
    assert_int_equal(try_open(all, list, &store), 0);
    testing_put_keys(&store, 0, KEYS, "value");
    depot_testing_close(&store);
}

static int grow(struct testing_members *all, const char *list, struct tarn_depot_growth *ret_growth)
{
    struct tarn_node *node = testing_members_node(all);
    int error = tarn_depot_grow(node, list, 0, ret_growth);
    task_node_close(node);
    return error;
}

static void expect_whole(struct testing_members *all, const char *list)
{
    struct told told = {.all = 0};
    struct depot_check_report report = {.faults = 0};
    struct tarn_node *node = testing_members_node(all);
    assert_int_equal(depot_check(node, list, false, testing_tell, testing_progress, &told, &report), 0);
    assert_string_equal(told.last, "");
    task_node_close(node);
}

static void expect_keys(struct testing_members *all, const char *list)
{
    struct testing_store store;
    assert_int_equal(try_open(all, list, &store), 0);
    testing_expect_keys(&store, 0, KEYS, "value");
    depot_testing_close(&store);
    expect_whole(all, list);
}

static void refuse(struct testing_members *all, const char *list, const char *why)
{
    struct testing_store store;
    assert_int_equal(try_open(all, list, &store), -EUCLEAN);
    assert_non_null(strstr(all->lines.error, why));
}

/* Overwrite long values, all of which fit into what the store has now and not into what it had. */
static void churn(struct testing_store *store)
{
    static uint8_t value[VALUE_BYTES], found[VALUE_BYTES];
    for (uint32_t i = 0; i < 8 * LONG_KEYS; i++) {
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % LONG_KEYS);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_put(store->depot, key, (size_t)key_len, value, sizeof(value), NULL, NULL),
                         0);
    }
    for (uint32_t i = 7 * LONG_KEYS; i < 8 * LONG_KEYS; i++) {
        char key[16];
        int key_len = snprintf(key, sizeof(key), "long %u", i % LONG_KEYS);
        memset(value, (int)i, sizeof(value));
        assert_int_equal(tarn_depot_get(store->depot, key, (size_t)key_len, found, sizeof(found), NULL), 0);
        assert_memory_equal(found, value, sizeof(value));
    }
}

static const struct {
    const char *before, *list;
    uint32_t appended; /* the drive that is */
} cases[] = {{"0", "0,1", 1}, {"0,1", "2,0,1", 2}};

static void one_more_drive_is_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct testing_members *all = large_members();
        struct testing_store store;
        struct tarn_depot_growth growth;
        memset(all->members[cases[i].appended].drive.bytes + DRIVE_UNIT_BYTES_MAX, 0xee,
               TESTING_STORE_BYTES - DRIVE_UNIT_BYTES_MAX); /* but for its beginning it need not be blank */
        make(all, cases[i].before);
        assert_int_equal(grow(all, cases[i].list, &growth), 0);
        assert_true(growth.after_bytes > growth.before_bytes + TESTING_STORE_BYTES * 3 / 4);
        expect_keys(all, cases[i].list);
        const uint64_t writes = all->members[cases[i].appended].drive.writes;
        assert_int_equal(try_open(all, cases[i].list, &store), 0);
        churn(&store);
        depot_testing_close(&store);
        assert_true(all->members[cases[i].appended].drive.writes > writes);
        expect_keys(all, cases[i].list);
        refuse(all, cases[i].before, "a drive was appended to it: name that, too");
        assert_int_equal(grow(all, cases[i].list, &growth), 0);
        assert_int_equal(growth.after_bytes, growth.before_bytes);
        testing_members_free(all);
    }
}

/* Whatever was written when the power went: with the drive it opens, or is grown again; and nothing is lost. */
static void appending_may_be_cut_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct testing_members *whole = large_members();
        bool done = false, without = true;
        make(whole, cases[i].before);
        for (uint64_t writes = 2; !done; writes++) {
            struct testing_members *all = testing_members_copy(whole);
            struct testing_store store;
            struct tarn_depot_growth growth;
            all->writes_max = writes / 2;
            all->tears = writes % 2 == 0;
            done = grow(all, cases[i].list, &growth) == 0;
            all->writes_max = 0;
            const int error = try_open(all, cases[i].before, &store);
            assert_true(error == 0 || error == -EUCLEAN);
            assert_true(error != 0 || without); /* once it lies on the drive, it does with more writes, too */
            without = error == 0;
            if (error == 0)
                depot_testing_close(&store);
            assert_int_equal(grow(all, cases[i].list, &growth), 0);
            expect_keys(all, cases[i].list);
            testing_members_free(all);
        }
        assert_false(without);
        testing_members_free(whole);
    }
}

/* A drive that was appended, and that the store has not taken before it became larger without it. */
static void a_drive_that_was_left_behind_is_refused(void **state)
{
    (void)state;
    static const struct drive_options append = {.append = true};
    struct testing_members *all = large_members();
    struct tarn_depot_growth growth;
    struct drive *drive;
    make(all, "0");
    struct tarn_node *node = testing_members_node(all);
    assert_int_equal(drive_open(node, "0,1", &append, &drive), 0);
    assert_int_equal(drive_establish(drive), 0);
    drive_close(drive);
    task_node_close(node);
    expect_keys(all, "0,1"); /* nothing lies on it yet: both will do */
    expect_keys(all, "0");
    testing_drive_lengthen(&all->members[0].drive, 2 * TESTING_STORE_BYTES, 0);
    expect_keys(all, "0,1");
    assert_int_equal(grow(all, "0", &growth), 0);
    assert_true(growth.after_bytes > growth.before_bytes);
    refuse(all, "0,1", "leave that drive out");
    expect_keys(all, "0");
    testing_members_free(all);
}

static void refuse_growing(struct testing_members *all, const char *list, int error, const char *why)
{
    struct tarn_depot_growth growth;
    const uint64_t writes = all->writes;
    assert_int_equal(grow(all, list, &growth), error);
    assert_non_null(strstr(all->lines.error, why));
    assert_int_equal(all->writes, writes);
}

/* No other drive takes the place of one that the store lies on: it would be overwritten, or read as noise. */
static void no_other_drive_takes_its_place(void **state)
{
    (void)state;
    static const struct drive_options append = {.append = true};
    struct testing_members *all = large_members();
    struct tarn_depot_growth growth;
    struct drive *drive;
    make(all, "0");
    struct tarn_node *node = testing_members_node(all);
    assert_int_equal(drive_open(node, "0,3", &append, &drive), 0);
    assert_int_equal(drive_establish(drive), 0); /* and then another one was taken */
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(grow(all, "0,1", &growth), 0);
    refuse(all, "0,3", "another drive than the one that is named");
    refuse_growing(all, "0,3", -EUCLEAN, "another drive than the one that is named");
    refuse_growing(all, "0,2", -EUCLEAN, "a drive was appended to it: name that, too");
    assert_int_equal(grow(all, "0,1,2", &growth), 0);
    refuse(all, "0,1", "a drive was appended to it: name that, too");
    refuse_growing(all, "0,1,4", -EUCLEAN, "a drive was appended to it: name that, too");
    expect_keys(all, "2,1,0");
    testing_members_free(all);
}

/* One that is too small for a segment, as one that comes when the store has reached its limit. */
static void a_drive_that_is_of_no_use_stays_blank(void **state)
{
    (void)state;
    struct testing_members *all = large_members();
    make(all, "0");
    all->members[0].drive.size = depot_testing_superblock(&all->members[0].drive).store_bytes;
    all->members[1].drive.size = DRIVE_BYTES_MIN;
    refuse_growing(all, "0,1", -EFBIG, "the store can take nothing of one more drive");
    assert_true(base_is_zero(all->members[1].drive.bytes, DRIVE_BYTES_MIN));
    expect_keys(all, "0");
    testing_members_free(all);
}

static void a_stripe_becomes_larger_while_it_is_open(void **state)
{
    (void)state;
    static const char *const lists[] = {"0,1", "1,0,2"};
    for (size_t i = 0; i < base_array_count(lists); i++) {
        struct testing_members *all = large_members();
        struct testing_store store;
        struct tarn_depot_growth growth;
        make(all, "0,1");
        if (i == 1)
            assert_int_equal(grow(all, lists[i], &growth), 0);
        for (uint32_t member = 0; member < TESTING_MEMBERS; member++)
            testing_drive_keep_room(&all->members[member].drive, 2 * TESTING_STORE_BYTES, 0xee);
        assert_int_equal(try_open(all, lists[i], &store), 0);
        assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
        assert_int_equal(growth.after_bytes, growth.before_bytes);
        for (uint32_t member = 0; member < TESTING_MEMBERS; member++)
            all->members[member].drive.size = 2 * TESTING_STORE_BYTES;
        assert_int_equal(tarn_depot_extend(store.depot, &growth), 0);
        assert_true(growth.after_bytes >
                    growth.before_bytes + TESTING_STORE_BYTES * 3 / 4 * (i == 0 ? 2 : 1));
        churn(&store);
        depot_testing_close(&store);
        expect_keys(all, lists[i]);
        for (uint32_t member = 0; member < TESTING_MEMBERS; member++)
            testing_drive_lengthen(&all->members[member].drive, 3 * TESTING_STORE_BYTES, 0xee);
        assert_int_equal(grow(all, lists[i], &growth), 0); /* and while nobody has it open */
        assert_true(growth.after_bytes > growth.before_bytes + TESTING_STORE_BYTES * 3 / 4);
        expect_keys(all, lists[i]);
        testing_members_free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_drive_is_used),
        cmocka_unit_test(appending_may_be_cut_off),
        cmocka_unit_test(a_drive_that_was_left_behind_is_refused),
        cmocka_unit_test(no_other_drive_takes_its_place),
        cmocka_unit_test(a_drive_that_is_of_no_use_stays_blank),
        cmocka_unit_test(a_stripe_becomes_larger_while_it_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
