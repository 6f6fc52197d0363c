/*
 * For the tests of this layer: stores on a drive in memory, what is put into them and what must be found, and
 * the fixture that most tests have.
 */
#include "depot/testing.h"

/* ---- stores ------------------------------------------------------------------------------------- */

int testing_try_open(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
                     const struct tarn_depot_options *options)
{
    struct tarn_depot_options own =
        options == NULL ? (struct tarn_depot_options){.mode = TARN_MODE_POWER} : *options;
    if (own.hot_bytes == 0)
        own.hot_bytes = TARN_HOT_OFF;
    store->node = testing_node(drive, clock);
    store->depot = NULL;
    int error = tarn_depot_open(store->node, "store", &own, &store->depot);
    if (error != 0)
        task_node_close(store->node);
    return error;
}

void depot_testing_open(struct testing_store *store, struct testing_drive *drive, struct testing_clock *clock,
                        enum tarn_mode mode)
{
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES, .mode = mode};
    assert_int_equal(testing_try_open(store, drive, clock, &options), 0);
}

void depot_testing_close(struct testing_store *store)
{
    assert_int_equal(tarn_depot_close(store->depot), 0);
    task_node_close(store->node);
}

int testing_try_once(struct testing_drive *drive, uint64_t create_bytes)
{
    const struct tarn_depot_options options = {.create_bytes = create_bytes};
    struct testing_store store;
    int error = testing_try_open(&store, drive, NULL, &options);
    if (error == 0)
        depot_testing_close(&store);
    return error;
}

struct testing_drive depot_testing_end(struct testing_store *store, struct testing_drive *drive, bool killed)
{
    struct testing_drive copy = testing_drive_copy(drive);
    depot_testing_close(store);
    testing_drive_free(killed ? drive : &copy);
    return killed ? copy : *drive;
}

/* ---- what is in them ---------------------------------------------------------------------------- */

int depot_testing_put(struct testing_store *store, const char *key, const char *value)
{
    return tarn_depot_put(store->depot, key, strlen(key), value, strlen(value), NULL, NULL);
}

int testing_delete(struct testing_store *store, const char *key)
{
    return tarn_depot_delete(store->depot, key, strlen(key));
}

void depot_testing_expect(struct testing_store *store, const char *key, const char *value)
{
    char found[4096];
    struct tarn_record_info info;
    int error = tarn_depot_get(store->depot, key, strlen(key), found, sizeof(found), &info);
    if (value == NULL) {
        assert_int_equal(error, -ENOENT);
        return;
    }
    assert_int_equal(error, 0);
    assert_int_equal(info.value_bytes, strlen(value));
    assert_memory_equal(found, value, info.value_bytes);
}

void testing_put_keys(struct testing_store *store, int begin, int end, const char *value)
{
    for (int i = begin; i < end; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(depot_testing_put(store, key, value), 0);
    }
}

void testing_expect_keys(struct testing_store *store, int begin, int end, const char *value)
{
    for (int i = begin; i < end; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        depot_testing_expect(store, key, value);
    }
}

struct testing_drive testing_made_store(int keys, enum tarn_mode mode, bool killed)
{
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, mode);
    testing_put_keys(&store, 0, keys, "value");
    return depot_testing_end(&store, &drive, killed);
}

struct seglog_superblock_format depot_testing_superblock(const struct testing_drive *drive)
{
    struct seglog_superblock_format superblock;
    const char *why = NULL;
    assert_int_equal(seglog_superblock_parse(drive->bytes, &superblock, &why), 0);
    return superblock;
}

/* ---- the fixture -------------------------------------------------------------------------------- */

void testing_fixture_begin(struct testing_fixture *fixture, enum tarn_mode mode)
{
    fixture->clock.wall_ns = TESTING_BEGIN;
    fixture->mode = mode;
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, mode);
}

void testing_fixture_end(struct testing_fixture *fixture)
{
    depot_testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
}

void testing_reopen(struct testing_fixture *fixture)
{
    depot_testing_close(&fixture->store);
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
}

int testing_setup(void **state)
{
    struct testing_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    testing_fixture_begin(fixture, TARN_MODE_POWER);
    *state = fixture;
    return 0;
}

int testing_teardown(void **state)
{
    testing_fixture_end(*state);
    free(*state);
    return 0;
}
