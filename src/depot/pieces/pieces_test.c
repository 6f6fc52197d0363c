/*
 * Values in pieces: do all lengths come back, whole and in parts, through restarts of either kind; does what
 * was not committed leave nothing; does what is replaced give its room back; do conditions, expiries, flushes
 * and caches treat them as one?
 */
#include "depot/pieces/testing.h"
#include "seglog/service_testing.h"

/* ---- lengths ------------------------------------------------------------------------------------ */

static void all_lengths_come_back(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t whole = tarn_depot_whole_bytes_max(depot_of(fixture));
    const uint64_t piece = depot_of(fixture)->piece_bytes;
    const uint64_t lengths[] = {0,         whole - 1,     whole,     whole + 1,     3 * piece - 1,
                                3 * piece, 3 * piece + 1, 4 * piece, 4 * piece + 1, 9 * piece + 77};
    assert_true(whole < 3 * piece);
    for (uint32_t i = 0; i < base_array_count(lengths); i++) {
        const uint64_t pieces = lengths[i] <= whole ? 0 : (lengths[i] + piece - 1) / piece;
        assert_int_equal(put_long(fixture, "k", i + 1, lengths[i]), 0);
        assert_int_equal(stats_of(fixture).records, 1);
        assert_int_equal(stats_of(fixture).pieces, pieces);
        for (int round = 0; round < 3; round++) {
            expect_long(fixture, "k", i + 1, lengths[i]);
            struct tarn_record_info info = {.value_bytes = 0};
            int error = lengths[i] == 0
                            ? -ENOBUFS
                            : tarn_depot_get(depot_of(fixture), "k", 1, found, lengths[i] - 1, &info);
            assert_int_equal(error, -ENOBUFS);
            assert_true(lengths[i] == 0 || info.value_bytes == lengths[i]);
            restart(fixture, round == 1);
            assert_int_equal(stats_of(fixture).records, 1);
            assert_int_equal(stats_of(fixture).pieces, pieces);
        }
    }
}

static void the_longest_fits_and_no_longer(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t longest = tarn_depot_value_bytes_max(depot_of(fixture));
    uint8_t *value = calloc(1, longest + 1);
    assert_non_null(value);
    assert_int_equal(tarn_depot_put(depot_of(fixture), "k", 1, value, longest + 1, NULL, NULL), -EMSGSIZE);
    assert_int_equal(tarn_depot_put(depot_of(fixture), "k", 1, value, longest, NULL, NULL), 0);
    uint64_t before = stats_of(fixture).user_bytes;
    assert_int_equal(tarn_depot_put(depot_of(fixture), "l", 1, value, longest, NULL, NULL), -ENOSPC);
    assert_int_equal(stats_of(fixture).user_bytes, before); /* it was refused first */
    assert_int_equal(tarn_depot_delete(depot_of(fixture), "k", 1), 0);
    assert_int_equal(tarn_depot_put(depot_of(fixture), "l", 1, value, longest, NULL, NULL), 0);
    free(value);
}

/* ---- parts -------------------------------------------------------------------------------------- */

static void parts_are_read(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t lengths[] = {0, 1000, UINT64_C(5) * depot_of(fixture)->piece_bytes + 5};
    struct base_random random;
    base_random_init(&random, 1);
    for (uint32_t i = 0; i < base_array_count(lengths); i++) {
        struct tarn_record_info info;
        size_t read;
        assert_int_equal(put_long(fixture, "k", i, lengths[i]), 0);
        for (int round = 0; round < 200; round++) {
            uint64_t offset = base_random_below(&random, lengths[i] + 10);
            uint64_t bytes = base_random_below(&random, lengths[i] + 10);
            assert_int_equal(
                tarn_depot_read(depot_of(fixture), "k", 1, 0, offset, found, bytes, &read, &info), 0);
            uint64_t rest = offset < lengths[i] ? lengths[i] - offset : 0;
            assert_int_equal(read, base_min(bytes, rest));
            assert_int_equal(info.value_bytes, lengths[i]);
            if (read > 0)
                assert_memory_equal(found, given + offset, read);
        }
        uint64_t version = info.version;
        assert_int_equal(tarn_depot_read(depot_of(fixture), "k", 1, version, 0, found, ROOM, &read, NULL), 0);
        assert_int_equal(put_long(fixture, "k", i, lengths[i]), 0);
        assert_int_equal(tarn_depot_read(depot_of(fixture), "k", 1, version, 0, found, ROOM, &read, NULL),
                         -ESTALE);
    }
    size_t read;
    assert_int_equal(tarn_depot_read(depot_of(fixture), "n", 1, 0, 0, found, 1, &read, NULL), -ENOENT);
    assert_int_equal(tarn_depot_read(depot_of(fixture), "n", 0, 0, 0, found, 1, &read, NULL), -EINVAL);
}

static void many_are_fetched_together(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(put_long(fixture, "long", 3, 100000), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "short", "value"), 0);
    struct tarn_get gets[] = {{.key = "short", .key_len = 5, .value = found, .value_room = 5},
                              {.key = "long", .key_len = 4, .value = found + 5, .value_room = 100000},
                              {.key = "none", .key_len = 4},
                              {.key = "long", .key_len = 4, .value = NULL, .value_room = 99999}};
    tarn_depot_get_many(depot_of(fixture), gets, base_array_count(gets));
    assert_int_equal(gets[0].error, 0);
    assert_int_equal(gets[1].error, 0);
    assert_int_equal(gets[1].info.value_bytes, 100000);
    fill(3, 100000);
    assert_memory_equal(found + 5, given, 100000);
    assert_int_equal(gets[2].error, -ENOENT);
    assert_int_equal(gets[3].error, -ENOBUFS);
}

/* ---- writers ------------------------------------------------------------------------------------ */

/* What was there before number `i` is still there. */
static void expect_old(struct testing_fixture *fixture, uint32_t i, uint64_t bytes)
{
    struct tarn_record_info info;
    int error = tarn_depot_get(depot_of(fixture), "k", 1, found, ROOM, &info);
    assert_int_equal(error, i == 0 ? -ENOENT : 0);
    assert_true(i == 0 || info.value_bytes == bytes);
}

static void bit_by_bit(void **state)
{
    struct testing_fixture *fixture = *state;
    const uint64_t lengths[] = {0, 5, tarn_depot_whole_bytes_max(depot_of(fixture)),
                                tarn_depot_whole_bytes_max(depot_of(fixture)) + 1, 300000};
    struct base_random random;
    base_random_init(&random, 2);
    for (uint32_t i = 0; i < 2 * base_array_count(lengths); i++) {
        uint64_t bytes = lengths[i / 2], version = 0;
        struct tarn_depot_writer *writer = open_writer(fixture, i % 2 == 0 ? bytes : TARN_LENGTH_UNKNOWN);
        fill(i, bytes);
        for (uint64_t at = 0; at < bytes;) {
            uint64_t part = base_min(bytes - at, base_random_below(&random, 1 + bytes / 2));
            assert_int_equal(tarn_depot_writer_write(writer, given + at, part), 0);
            at += part;
            expect_old(fixture, i, i == 0 ? 0 : lengths[(i - 1) / 2]);
        }
        assert_int_equal(tarn_depot_writer_commit(writer, &version), 0);
        struct tarn_record_info info;
        assert_int_equal(tarn_depot_get(depot_of(fixture), "k", 1, found, ROOM, &info), 0);
        assert_int_equal(info.version, version);
        expect_long(fixture, "k", i, bytes);
    }
    restart(fixture, true);
    expect_long(fixture, "k", 2 * base_array_count(lengths) - 1, 300000);
}

static void what_is_not_committed_leaves_nothing(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(put_long(fixture, "k", 1, 200000), 0);
    const struct tarn_depot_stats before = stats_of(fixture);
    fill(2, 300000);
    for (uint64_t bytes = 0; bytes <= 300000; bytes += 50000) {
        struct tarn_depot_writer *writer =
            open_writer(fixture, bytes % 100000 == 0 ? 400000 : TARN_LENGTH_UNKNOWN);
        assert_int_equal(tarn_depot_writer_write(writer, given, bytes), 0);
        tarn_depot_writer_abort(writer);
        assert_int_equal(stats_of(fixture).live_bytes, before.live_bytes);
        assert_int_equal(stats_of(fixture).pieces, before.pieces);
    }
    expect_long(fixture, "k", 1, 200000);
    fill(2, 300000);
    struct tarn_depot_writer *writer = open_writer(fixture, TARN_LENGTH_UNKNOWN);
    assert_int_equal(tarn_depot_writer_write(writer, given, 300000), 0);
    struct testing_drive copy = testing_drive_copy(&fixture->drive); /* the process dies here */
    tarn_depot_writer_abort(writer);
    depot_testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
    fixture->drive = copy;
    expect_sound(&fixture->drive);
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
    expect_long(fixture, "k", 1, 200000);
    assert_int_equal(stats_of(fixture).live_bytes, before.live_bytes);
    assert_int_equal(stats_of(fixture).pieces, before.pieces);
}

static void a_writer_says_what_is_wrong(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = depot_of(fixture);
    struct tarn_depot_writer *writer = NULL, *writers[64];
    uint64_t longest = tarn_depot_value_bytes_max(depot);
    assert_int_equal(tarn_depot_writer_open(depot, "k", 0, NULL, 1, &writer), -EINVAL);
    assert_int_equal(tarn_depot_writer_open(depot, "k", 1, NULL, longest + 1, &writer), -EMSGSIZE);
    const struct tarn_put_options note = {.note = TARN_NOTE_MAX + 1};
    assert_int_equal(tarn_depot_writer_open(depot, "k", 1, &note, 1, &writer), -EINVAL);
    const struct tarn_put_options present = {.condition = TARN_PUT_IF_PRESENT};
    assert_int_equal(tarn_depot_writer_open(depot, "k", 1, &present, 1, &writer), -ENOENT);
    writer = open_writer(fixture, 5);
    assert_int_equal(tarn_depot_writer_write(writer, "123456", 6), -EMSGSIZE);
    assert_int_equal(tarn_depot_writer_write(writer, "1", 1), -EMSGSIZE); /* the first error stays */
    assert_int_equal(tarn_depot_writer_commit(writer, NULL), -EMSGSIZE);
    writer = open_writer(fixture, 100000);
    assert_int_equal(tarn_depot_writer_write(writer, given, 99999), 0);
    assert_int_equal(tarn_depot_writer_commit(writer, NULL), -ENODATA);
    depot_testing_expect(&fixture->store, "k", NULL);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
    for (int i = 0; i < 64; i++)
        writers[i] = open_writer(fixture, 10);
    assert_int_equal(tarn_depot_writer_open(depot, "k", 1, NULL, 10, &writer), -EBUSY);
    for (int i = 0; i < 64; i++)
        tarn_depot_writer_abort(writers[i]);
}

/* The condition counts at the end. */
static void conditions_are_decided_at_the_commit(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = depot_of(fixture);
    const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT};
    struct tarn_depot_writer *writer = NULL;
    fill(1, 150000);
    assert_int_equal(tarn_depot_writer_open(depot, "k", 1, &absent, 150000, &writer), 0);
    assert_int_equal(tarn_depot_writer_write(writer, given, 150000), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "k", "quicker"), 0);
    assert_int_equal(tarn_depot_writer_commit(writer, NULL), -EEXIST);
    for (int round = 0; round < 2; round++) {
        depot_testing_expect(&fixture->store, "k", "quicker");
        assert_int_equal(stats_of(fixture).pieces, 0);
        restart(fixture, round == 0);
        depot = depot_of(fixture);
    }
    assert_int_equal(tarn_depot_put(depot, "k", 1, given, 150000, &absent, NULL), -EEXIST);
    struct tarn_put_options version = {.condition = TARN_PUT_IF_VERSION, .if_version = 1};
    assert_int_equal(tarn_depot_put(depot, "k", 1, given, 150000, &version, NULL), -EEXIST);
    uint64_t made = 0;
    assert_int_equal(tarn_depot_put(depot, "k", 1, given, 150000, NULL, &version.if_version), 0);
    assert_int_equal(tarn_depot_put(depot, "k", 1, given, 140000, &version, &made), 0);
    assert_int_not_equal(made, version.if_version);
    assert_int_equal(tarn_depot_put(depot, "k", 1, given, 140000, &version, &made), -EEXIST);
    expect_long(fixture, "k", 1, 140000);
}

/* ---- what is replaced --------------------------------------------------------------------------- */

/* Long by long, by short and by nothing, more often than the store has room. */
static void room_comes_back(void **state)
{
    struct testing_fixture *fixture = *state;
    bool collected = false; /* in any of the sessions */
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(put_long(fixture, "k", i, 150000 + i), 0);
        assert_int_equal(put_long(fixture, "l", i, i % 2 == 0 ? 100 : 200000), 0);
        if (i % 5 == 4)
            assert_int_equal(tarn_depot_delete(depot_of(fixture), "k", 1), 0);
        else
            expect_long(fixture, "k", i, 150000 + i);
        expect_long(fixture, "l", i, i % 2 == 0 ? 100 : 200000);
        collected = collected || stats_of(fixture).collections > 0;
        if (i % 8 == 0)
            restart(fixture, i % 16 == 0);
    }
    assert_int_equal(tarn_depot_delete(depot_of(fixture), "l", 1), 0);
    assert_int_equal(stats_of(fixture).pieces, 0);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
    assert_true(collected);
}

static void a_touch_writes_the_head_alone(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t now_ns = atomic_load(&fixture->clock.wall_ns), version = 0;
    fill(1, 300000);
    assert_int_equal(tarn_depot_put(depot_of(fixture), "k", 1, given, 300000, NULL, &version), 0);
    uint64_t before = stats_of(fixture).user_bytes;
    for (int i = 0; i < 10; i++)
        assert_int_equal(tarn_depot_touch(depot_of(fixture), "k", 1, now_ns + 100 * BASE_NS_PER_SECOND), 0);
    assert_true(stats_of(fixture).user_bytes - before < 10 * 256);
    for (int round = 0; round < 3; round++) {
        struct tarn_record_info info;
        assert_int_equal(tarn_depot_get(depot_of(fixture), "k", 1, found, ROOM, &info), 0);
        assert_int_equal(info.version, version);
        assert_int_equal(info.expiry_ns, now_ns + 100 * BASE_NS_PER_SECOND);
        expect_long(fixture, "k", 1, 300000);
        restart(fixture, round == 0);
    }
}

/* The collector ends the head, which lies among what has died, and the pieces go with it. */
static void what_has_expired_gives_its_room_back(void **state)
{
    struct testing_fixture *fixture = *state;
    uint64_t now_ns = atomic_load(&fixture->clock.wall_ns);
    assert_int_equal(put_long(fixture, "k", 1, 300000), 0);
    assert_int_equal(put_long(fixture, "other", 2, 50000), 0);
    assert_int_equal(tarn_depot_touch(depot_of(fixture), "k", 1, now_ns + BASE_NS_PER_SECOND), 0);
    assert_int_equal(put_long(fixture, "other", 2, 50000), 0);
    assert_true(stats_of(fixture).pieces > 0);
    atomic_store(&fixture->clock.wall_ns, now_ns + 2 * BASE_NS_PER_SECOND);
    assert_int_equal(tarn_depot_get(depot_of(fixture), "k", 1, found, ROOM, NULL), -ENOENT);
    for (uint32_t i = 0; i < 400 && stats_of(fixture).pieces > 0; i++)
        assert_int_equal(put_long(fixture, "other", i, 50000), 0);
    assert_int_equal(stats_of(fixture).pieces, 0);
    for (int round = 0; round < 2; round++) {
        restart(fixture, round == 0);
        assert_int_equal(stats_of(fixture).records, 1);
        assert_int_equal(stats_of(fixture).pieces, 0);
    }
}

struct decision {
    struct tarn_update update;
    bool shown, long_value;
};

static int decide(void *arg, const struct tarn_record_info *old, const void *value,
                  struct tarn_update *update)
{
    struct decision *decision = arg;
    uint64_t expiry_ns = update->expiry_ns;
    decision->shown = value != NULL;
    decision->long_value = old != NULL && old->value_bytes > 100000;
    *update = decision->update;
    update->expiry_ns = expiry_ns;
    return 0;
}

static void updates_keep_replace_and_remove(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = depot_of(fixture);
    struct decision keep = {.update = {.keep = true, .client_flags = 7}};
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &keep, NULL), -EINVAL); /* there is nothing */
    assert_int_equal(put_long(fixture, "k", 1, 200000), 0);
    uint64_t before = stats_of(fixture).user_bytes;
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &keep, NULL), 0);
    assert_true(!keep.shown && keep.long_value && stats_of(fixture).user_bytes - before < 256);
    expect_long(fixture, "k", 1, 200000);
    struct tarn_record_info info;
    assert_int_equal(tarn_depot_get(depot, "k", 1, found, ROOM, &info), 0);
    assert_int_equal(info.client_flags, 7);
    fill(2, 250000);
    struct decision replace = {.update = {.value = given, .value_len = 250000}};
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &replace, NULL), 0);
    expect_long(fixture, "k", 2, 250000);
    struct decision shorten = {.update = {.value = "short", .value_len = 5}};
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &shorten, NULL), 0);
    depot_testing_expect(&fixture->store, "k", "short");
    assert_int_equal(stats_of(fixture).pieces, 0);
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &keep, NULL), 0);
    assert_true(keep.shown);
    depot_testing_expect(&fixture->store, "k", "short");
    assert_int_equal(put_long(fixture, "k", 3, 200000), 0);
    struct decision removal = {.update = {.remove = true}};
    assert_int_equal(tarn_depot_update(depot, "k", 1, decide, &removal, NULL), 0);
    depot_testing_expect(&fixture->store, "k", NULL);
    assert_int_equal(stats_of(fixture).live_bytes, 0);
    restart(fixture, true);
    depot_testing_expect(&fixture->store, "k", NULL);
}

static void a_flush_takes_all_of_it(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(put_long(fixture, "k", 1, 200000), 0);
    fill(2, 200000);
    struct tarn_depot_writer *writer = open_writer(fixture, 200000);
    assert_int_equal(tarn_depot_writer_write(writer, given, 150000), 0);
    assert_int_equal(tarn_depot_flush_all(depot_of(fixture), 0), 0);
    assert_int_equal(tarn_depot_writer_write(writer, given + 150000, 50000), 0);
    assert_int_equal(tarn_depot_writer_commit(writer, NULL), -ESTALE);
    for (int round = 0; round < 3; round++) {
        depot_testing_expect(&fixture->store, "k", NULL);
        assert_int_equal(stats_of(fixture).pieces, 0);
        assert_int_equal(stats_of(fixture).live_bytes, 0);
        restart(fixture, round == 0);
    }
    assert_int_equal(put_long(fixture, "k", 3, 200000), 0);
    restart(fixture, true);
    expect_long(fixture, "k", 3, 200000);
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct testing_fixture *fixture = arg;
    if (value != NULL) {
        assert_memory_equal(key, "short", key_len);
        return 0;
    }
    size_t read;
    assert_memory_equal(key, "k", key_len);
    assert_int_equal(
        tarn_depot_read(depot_of(fixture), key, key_len, info->version, 100000, found, ROOM, &read, NULL), 0);
    assert_int_equal(read, info->value_bytes - 100000);
    fill(5, info->value_bytes);
    assert_memory_equal(found, given + 100000, read);
    fixture->mode++; /* counts */
    return 0;
}

/* What the collector is about to end. */
struct ending {
    struct tarn_depot *depot;
    struct seglog_entry_format entry;
    uint64_t grain;
};

static void end_now(void *arg)
{
    struct ending *ending = arg;
    assert_true(depot_owner_ops.moved(ending->depot, &ending->entry, ending->grain, NULL));
}

/* As it lies in a store that was a cache, by the horizon; and while it is replaced the collector ends it. */
static void a_head_that_is_gone_may_end_at_any_time(void **state)
{
    struct testing_fixture *fixture = *state;
    struct tarn_depot *depot = depot_of(fixture);
    const struct depot_key key = depot_key_of(depot, "k", 1);
    struct depot_record record;
    assert_int_equal(put_long(fixture, "k", 1, 300000), 0);
    assert_int_equal(depot_find(depot, &key, DEPOT_WANT_KEY, false, &record), 0);
    depot_record_release(&record);
    struct ending ending = {.depot = depot,
                            .entry = {.hash = {key.hash.low, key.hash.high},
                                      .bytes = (uint32_t)record.bytes,
                                      .kind = record.header.kind},
                            .grain = record.grain};
    atomic_store(&depot->gone_sequence, record.pieces.id + 1);
    testing_service_stop(depot->log); /* this thread is the collector now */
    testing_drive_do_in_write(&fixture->drive, end_now, &ending);
    assert_int_equal(depot_testing_put(&fixture->store, "k", "value"), 0);
    depot_testing_expect(&fixture->store, "k", "value");
}

static void a_scan_shows_values_not_pieces(void **state)
{
    struct testing_fixture *fixture = *state;
    assert_int_equal(put_long(fixture, "k", 5, 300000), 0);
    assert_int_equal(depot_testing_put(&fixture->store, "short", "value"), 0);
    fixture->mode = 0;
    assert_int_equal(tarn_depot_scan(depot_of(fixture), visit, fixture), 0);
    assert_int_equal(fixture->mode, 1);
}

/* ---- caches ------------------------------------------------------------------------------------- */

/* What is there is right, what is not there stays away. */
static void look_at_cache(struct testing_fixture *fixture, uint32_t keys, bool *there, bool *ret_some)
{
    for (uint32_t i = 0; i < keys; i++) {
        char key[16];
        struct tarn_record_info info;
        (void)snprintf(key, sizeof(key), "%u", i);
        int error = tarn_depot_get(depot_of(fixture), key, strlen(key), found, ROOM, &info);
        assert_true(error == 0 || error == -ENOENT);
        assert_true(error != 0 || there[i]);
        there[i] = error == 0;
        *ret_some = *ret_some || error == 0;
        if (error != 0)
            continue;
        fill(i, 150000);
        assert_int_equal(info.value_bytes, 150000);
        assert_memory_equal(found, given, 150000);
    }
}

static void a_cache_evicts_whole_values(void **state)
{
    enum { COUNT = 40 };
    struct testing_fixture *fixture = *state;
    const struct tarn_depot_options options = {.create_bytes = TESTING_STORE_BYTES, .cache = true};
    bool there[COUNT] = {false}, some = false;
    uint64_t evicted = 0;
    depot_testing_close(&fixture->store);
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_int_equal(put_long(fixture, key, i, 150000), 0);
        there[i] = true;
        look_at_cache(fixture, i + 1, there, &some);
        if (i % 10 != 9)
            continue;
        some = false;
        evicted += stats_of(fixture).evicted_segments;
        fixture->drive = depot_testing_end(&fixture->store, &fixture->drive, i % 20 == 9);
        expect_sound(&fixture->drive);
        assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
        look_at_cache(fixture, i + 1, there, &some);
        assert_true(some);
    }
    assert_true(evicted > 0);
    restart(fixture, true); /* as a store */
    look_at_cache(fixture, COUNT, there, &some);
    for (uint32_t i = 0; i < COUNT; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_int_equal(testing_delete(&fixture->store, key), there[i] ? 0 : -ENOENT);
    }
    assert_int_equal(stats_of(fixture).pieces, 0);
}

/* ---- damage ------------------------------------------------------------------------------------- */

/* A piece in the last segment. @param killed  that has no summary, and the opening does not take the damaged
 * piece for a record: it is missing then */
static void damage_a_piece(struct testing_fixture *fixture, bool killed)
{
    assert_int_equal(put_long(fixture, "k", 1, 200000), 0);
    fixture->drive = depot_testing_end(&fixture->store, &fixture->drive, killed);
    uint8_t *bytes = fixture->drive.bytes;
    fill(1, 200000);
    uint64_t at = 0;
    while (memcmp(bytes + at, given + 150000, 64) != 0)
        at++;
    bytes[at] ^= 1;
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
    size_t read;
    assert_int_equal(tarn_depot_get(depot_of(fixture), "k", 1, found, ROOM, NULL), -EBADMSG);
    assert_int_equal(tarn_depot_read(depot_of(fixture), "k", 1, 0, 0, found, 1000, &read, NULL), 0);
    assert_int_equal(tarn_depot_read(depot_of(fixture), "k", 1, 0, 150000, found, 1, &read, NULL), -EBADMSG);
    depot_testing_close(&fixture->store);
    /* the end of its group names it; in other modes a cut may have left it out */
    expect_fault(&fixture->drive, killed && fixture->mode != TARN_MODE_POWER ? 14 : 7);
    depot_testing_open(&fixture->store, &fixture->drive, &fixture->clock, fixture->mode);
    assert_int_equal(put_long(fixture, "k", 2, 200000), 0); /* its room comes back all the same */
    expect_long(fixture, "k", 2, 200000);
    assert_int_equal(stats_of(fixture).pieces, (200000 - 1) / depot_of(fixture)->piece_bytes + 1);
}

static void a_damaged_piece_is_told(void **state)
{
    damage_a_piece(*state, false);
}

static void a_missing_piece_is_told(void **state)
{
    damage_a_piece(*state, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, testing_setup, testing_teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_lengths_come_back),
        TEST(the_longest_fits_and_no_longer),
        TEST(parts_are_read),
        TEST(many_are_fetched_together),
        TEST(bit_by_bit),
        TEST(what_is_not_committed_leaves_nothing),
        TEST(a_writer_says_what_is_wrong),
        TEST(conditions_are_decided_at_the_commit),
        TEST(room_comes_back),
        TEST(a_touch_writes_the_head_alone),
        TEST(what_has_expired_gives_its_room_back),
        TEST(updates_keep_replace_and_remove),
        TEST(a_flush_takes_all_of_it),
        TEST(a_head_that_is_gone_may_end_at_any_time),
        TEST(a_scan_shows_values_not_pieces),
        TEST(a_cache_evicts_whole_values),
        TEST(a_damaged_piece_is_told),
        TEST(a_missing_piece_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
