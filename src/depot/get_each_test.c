/* Are gets shown in order, each once, as far as there is room; do notes and given versions stay with values?
 */
#include "depot/testing.h"

#define KEYS 4000 /* so many that tags collide */

static const struct depot_room everything = {.bytes = UINT64_MAX, .lease_from = UINT64_MAX};

struct shown {
    const struct tarn_get *expected; /* the next that must be shown */
    size_t shown, found;
    size_t refuse_at; /* how many are taken before one is refused, once; SIZE_MAX: none is */
};

static void key_of(size_t number, char key[16])
{
    (void)snprintf(key, 16, "key %zu", number);
}

static size_t value_bytes(size_t number)
{
    return number == 900 ? 900 : number % 100;
}

/* The even ones of all keys are there. */
static void fill(struct testing_store *store, struct testing_drive *drive)
{
    uint8_t value[1000];
    depot_testing_open(store, drive, NULL, TARN_MODE_DEVICE);
    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < KEYS; i += 2) {
        char key[16];
        key_of(i, key);
        assert_int_equal(tarn_depot_put(store->depot, key, strlen(key), value, value_bytes(i), NULL, NULL),
                         0);
    }
}

static bool take(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    struct shown *shown = arg;
    const uint8_t *bytes = lease->data;
    if (shown->shown == shown->refuse_at) {
        shown->refuse_at = SIZE_MAX;
        return false;
    }
    base_assert(get == shown->expected);
    size_t number = strtoul((const char *)get->key + 4, NULL, 10);
    base_assert(get->error == (get->key_len == 0 ? -EINVAL : number % 2 == 0 ? 0 : -ENOENT));
    if (get->error == 0) {
        base_assert(get->info.value_bytes == value_bytes(number));
        for (size_t i = 0; i < get->info.value_bytes; i++)
            base_assert(bytes[i] == 'v');
        shown->found++;
    }
    shown->expected++;
    shown->shown++;
    return true;
}

static void gets_are_shown_in_order(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    static char keys[KEYS][16];
    static struct tarn_get gets[KEYS];
    (void)state;
    fill(&store, &drive);
    for (size_t i = 0; i < KEYS; i++) {
        key_of(i, keys[i]);
        gets[i] = (struct tarn_get){.key = keys[i], .key_len = strlen(keys[i])};
    }
    gets[17].key_len = 0;
    struct shown shown = {.expected = gets, .refuse_at = SIZE_MAX};
    assert_int_equal(depot_get_each(store.depot, gets, KEYS, &everything, take, &shown), KEYS);
    assert_int_equal(shown.found, KEYS / 2);
    for (size_t refused = 0; refused < 70; refused += 3) { /* shown again as the first */
        shown = (struct shown){.expected = gets, .refuse_at = refused};
        size_t count = depot_get_each(store.depot, gets, 100, &everything, take, &shown);
        assert_int_equal(count, refused);
        count += depot_get_each(store.depot, gets + count, 100 - count, &everything, take, &shown);
        assert_int_equal(count, 100);
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

static void room_ends_gets(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    static char keys[100][16];
    struct tarn_get gets[100];
    (void)state;
    fill(&store, &drive);
    for (size_t i = 0; i < base_array_count(gets); i++) {
        key_of(900, keys[i]);
        gets[i] = (struct tarn_get){.key = keys[i], .key_len = strlen(keys[i])};
    }
    for (uint64_t bytes = 0; bytes < 30000; bytes += 500) {
        struct shown shown = {.expected = gets, .refuse_at = SIZE_MAX};
        struct tarn_depot_stats before, after;
        tarn_depot_stats(store.depot, &before);
        const struct depot_room room = {.bytes = bytes, .extra_bytes = 100, .lease_from = UINT64_MAX};
        size_t count = depot_get_each(store.depot, gets, 100, &room, take, &shown);
        assert_int_equal(count, shown.shown);
        assert_true(count == 1 || count * (900 + 100) <= bytes);
        assert_true((count + 1) * (900 + 100 + 256) >
                    bytes); /* as many as fit, up to what sizes are rounded by */
        tarn_depot_stats(store.depot, &after);
        assert_int_equal(after.reads - before.reads, count); /* and no other was read */
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

static int set_note(void *arg, const struct tarn_record_info *old, const void *value,
                    struct tarn_update *update)
{
    const uint8_t *note = arg;
    assert_non_null(old);
    assert_int_equal(update->note, old->note);
    update->value = value; /* the old one */
    update->value_len = old->value_bytes;
    update->version = old->version;
    update->note = *note;
    return 0;
}

static void expect_info(struct testing_store *store, uint8_t note, uint64_t version)
{
    struct tarn_record_info info;
    char value[8];
    assert_int_equal(tarn_depot_get(store->depot, "k", 1, value, sizeof(value), &info), 0);
    assert_int_equal(info.note, note);
    assert_int_equal(info.version, version);
    assert_int_equal(info.value_bytes, 5);
    assert_memory_equal(value, "value", 5);
}

static void notes_and_versions_stay(void **state)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    struct tarn_put_options options = {.note = 2, .version = UINT64_MAX};
    uint64_t version;
    (void)state;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    assert_int_equal(tarn_depot_put(store.depot, "k", 1, "value", 5, &options, &version), 0);
    assert_int_equal(version, UINT64_MAX);
    expect_info(&store, 2, UINT64_MAX);
    assert_int_equal(tarn_depot_touch(store.depot, "k", 1, 0), 0);
    expect_info(&store, 2, UINT64_MAX);
    uint8_t note = 3;
    assert_int_equal(tarn_depot_update(store.depot, "k", 1, set_note, &note, &version), 0);
    expect_info(&store, 3, UINT64_MAX);
    struct testing_drive killed = testing_drive_copy(&drive);
    depot_testing_close(&store);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER); /* from the checkpoint */
    expect_info(&store, 3, UINT64_MAX);
    depot_testing_close(&store);
    depot_testing_open(&store, &killed, NULL, TARN_MODE_POWER); /* from the records */
    expect_info(&store, 3, UINT64_MAX);
    note = TARN_NOTE_MAX + 1;
    assert_int_equal(tarn_depot_update(store.depot, "k", 1, set_note, &note, &version), -EINVAL);
    options.note = TARN_NOTE_MAX + 1;
    assert_int_equal(tarn_depot_put(store.depot, "k", 1, "value", 5, &options, &version), -EINVAL);
    expect_info(&store, 3, UINT64_MAX);
    assert_int_equal(tarn_depot_put(store.depot, "k", 1, "value", 5, NULL, &version), 0);
    assert_true(version != UINT64_MAX && version != 0);
    expect_info(&store, 0, version);
    depot_testing_close(&store);
    testing_drive_free(&drive);
    testing_drive_free(&killed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_are_shown_in_order),
        cmocka_unit_test(room_ends_gets),
        cmocka_unit_test(notes_and_versions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
