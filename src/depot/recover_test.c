/*
 * What comes back after every kind of end and damage: an end at every write of a recorded run, torn writes,
 * records, summaries and headers that were damaged. format_test.c has superblocks and states.
 */
#include "depot/testing.h"

#define BLOCK TESTING_BLOCK_BYTES

/* ---- an end at every write ---------------------------------------------------------------------- */

enum { RUN_KEYS = 24, RUN_VALUE_BYTES = 12000, STEP = TESTING_SLOW ? 5 : 1 };

/* What a recorded run did to which key: number of the put, 0 for a removal. */
struct run_op {
    uint32_t key;
    uint32_t put;
    uint32_t bytes;
};

struct run {
    struct testing_drive drive;
    struct testing_recording recording;
    uint8_t *before; /* the drive's bytes when the recording began */
    struct run_op *ops;
    size_t count;
    struct run_op held[RUN_KEYS]; /* while it is played again */
};

static void fill_value(uint32_t put, char *value, uint32_t bytes)
{
    struct base_random random;
    base_random_init(&random, put);
    base_random_fill(&random, value, bytes);
}

static void run_one(struct run *run, struct testing_store *store, struct base_random *random, size_t number)
{
    static char value[RUN_VALUE_BYTES];
    struct run_op *op = &run->ops[number];
    op->key = (uint32_t)base_random_below(random, RUN_KEYS);
    if (base_random_below(random, 5) == 0) {
        int error = tarn_depot_delete(store->depot, &op->key, sizeof(op->key));
        assert_true(error == 0 || error == -ENOENT);
    } else {
        op->put = (uint32_t)number + 1;
        op->bytes = (uint32_t)base_random_below(random, UINT64_C(1) << base_random_below(random, 14));
        op->bytes = base_min(op->bytes, (uint32_t)RUN_VALUE_BYTES);
        fill_value(op->put, value, op->bytes);
        assert_int_equal(
            tarn_depot_put(store->depot, &op->key, sizeof(op->key), value, op->bytes, NULL, NULL), 0);
    }
    atomic_fetch_add(&run->recording.mark, 1); /* acknowledged */
}

/* @param closes  the recording goes on until the store is closed */
static void record_run(struct run *run, size_t count, enum tarn_mode mode, uint64_t seed, bool closes)
{
    struct testing_store store;
    struct base_random random;
    *run = (struct run){.count = count, .ops = calloc(count, sizeof(*run->ops))};
    assert_non_null(run->ops);
    base_random_init(&random, seed);
    depot_testing_open(&store, &run->drive, NULL, mode);
    depot_testing_close(&store);
    struct testing_drive copy = testing_drive_copy(&run->drive);
    run->before = copy.bytes;
    run->drive.recording = &run->recording;
    depot_testing_open(&store, &run->drive, NULL, mode);
    for (size_t i = 0; i < count; i++)
        run_one(run, &store, &random, i);
    if (!closes)
        testing_drive_record(&run->drive, NULL);
    depot_testing_close(&store);
    run->drive.recording = NULL;
}

static void run_free(struct run *run)
{
    testing_recording_free(&run->recording);
    testing_drive_free(&run->drive);
    free(run->before);
    free(run->ops);
}

static bool holds(struct testing_store *store, uint32_t key, const struct run_op *op)
{
    static char found[RUN_VALUE_BYTES], value[RUN_VALUE_BYTES];
    struct tarn_record_info info;
    int error = tarn_depot_get(store->depot, &key, sizeof(key), found, sizeof(found), &info);
    assert_true(error == 0 || error == -ENOENT);
    if (error == -ENOENT || op->put == 0)
        return error == -ENOENT && op->put == 0;
    fill_value(op->put, value, op->bytes);
    return info.value_bytes == op->bytes && memcmp(found, value, op->bytes) == 0;
}

/* Every key holds what it held when `mark` operations were acknowledged; the next one may have happened. */
static void check_run(const struct run *run, struct testing_drive *drive, uint64_t mark)
{
    struct testing_store store;
    depot_testing_open(&store, drive, NULL, TARN_MODE_POWER);
    const struct run_op *next = mark < run->count ? &run->ops[mark] : NULL;
    for (uint32_t key = 0; key < RUN_KEYS; key++) {
        bool is_right = holds(&store, key, &run->held[key]) ||
                        (next != NULL && next->key == key && holds(&store, key, next));
        if (!is_right)
            print_error("key %u after %llu operations\n", key, (unsigned long long)mark);
        assert_true(is_right);
    }
    depot_testing_close(&store);
}

/* Leave the first sectors of a write that did not complete, or any. */
static void tear(struct testing_drive *drive, const struct testing_write *write, struct base_random *random)
{
    bool front = base_random_below(random, 2) == 0;
    uint64_t end = base_align_up(base_random_below(random, write->bytes), (uint64_t)DRIVE_SECTOR_BYTES);
    if (front)
        memcpy(drive->bytes + write->offset, write->data, base_min(end, write->bytes));
    else
        testing_write_tear(write, drive, random);
}

/* Play a run again write by write, and end it after each, or within it. */
static void end_everywhere(struct run *run, uint64_t step, bool torn)
{
    struct base_random random;
    base_random_init(&random, 9);
    uint64_t marked = 0;
    memset(run->held, 0, sizeof(run->held));
    struct testing_drive now = {.size = run->drive.size, .exists = true, .bytes = run->before};
    for (size_t i = 0; i < run->recording.count; i++) {
        const struct testing_write *write = &run->recording.writes[i];
        for (; marked < write->mark; marked++)
            run->held[run->ops[marked].key] = run->ops[marked];
        struct testing_drive end = {.size = 0};
        if (i % step == 0)
            end = testing_drive_copy(&now);
        if (i % step == 0 && torn)
            tear(&end, write, &random);
        else if (i % step == 0)
            testing_write_play(write, &end);
        testing_write_play(write, &now);
        if (i % step != 0)
            continue;
        check_run(run, &end, marked);
        if (i % (8 * step) == 0)
            check_run(run, &end, marked); /* nor does it change in the next life */
        testing_drive_free(&end);
    }
    assert_true(run->recording.count > run->count / 2);
}

static void an_end_at_every_write(void **state)
{
    (void)state;
    struct run run;
    record_run(&run, 150, TARN_MODE_POWER, 1, true);
    end_everywhere(&run, STEP, false);
    run_free(&run);
    record_run(&run, 150, TARN_MODE_POWER, 2, false);
    end_everywhere(&run, STEP, true);
    run_free(&run);
}

static void an_end_while_the_collector_works(void **state)
{
    (void)state;
    struct run run;
    record_run(&run, 2500, TARN_MODE_POWER, 3, true);
    end_everywhere(&run, 17 * STEP, false);
    run_free(&run);
    record_run(&run, 2500, TARN_MODE_DEVICE, 4, false);
    end_everywhere(&run, 23 * STEP, true);
    run_free(&run);
}

/* ---- what was hidden ---------------------------------------------------------------------------- */

/* Where on a drive a value lies for the first time. */
static uint8_t *find_bytes(struct testing_drive *drive, const char *text)
{
    return memmem(drive->bytes, drive->size, text, strlen(text));
}

/*
 * In device mode a power cut may lose a write and keep those behind it. What is found before it is there, and
 * what the first recovery decides stays, though the log grows over the gap.
 */
static void what_was_hidden_stays_hidden(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_DEVICE);
    for (int i = 0; i < 8; i++) {
        char value[16];
        (void)snprintf(value, sizeof(value), "<value-%d>", i);
        testing_put_keys(&store, i, i + 1, value);
    }
    struct testing_drive cut = depot_testing_end(&store, &drive, true);
    uint8_t *lost = find_bytes(&cut, "<value-3>");
    assert_non_null(lost);
    memset(cut.bytes + base_align_down((uint64_t)(lost - cut.bytes), BLOCK), 0, BLOCK);
    bool there[8];
    for (int round = 0; round < 4; round++) {
        depot_testing_open(&store, &cut, NULL, TARN_MODE_DEVICE);
        for (int i = 0; i < 8; i++) {
            char key[16], found[16];
            (void)snprintf(key, sizeof(key), "%d", i);
            int error = tarn_depot_get(store.depot, key, strlen(key), found, sizeof(found), NULL);
            assert_true(error == 0 || error == -ENOENT);
            assert_true(round == 0 || there[i] == (error == 0));
            there[i] = error == 0;
        }
        assert_true(there[0] && there[1] && there[2] && !there[3]);
        assert_int_equal(depot_testing_put(&store, "other", "<value-x>"), 0); /* of the same size */
        cut = depot_testing_end(&store, &cut, true);
    }
    testing_drive_free(&cut);
}

/* ---- damage ------------------------------------------------------------------------------------- */

/*
 * Any byte of a store that was closed is changed: it opens, or says that it cannot; each key has its value,
 * or an error of its own, or is missing with an error of the opening; no key ever has a wrong value.
 */
static void no_damage_gives_wrong_values(void **state)
{
    (void)state;
    struct testing_drive drive = testing_made_store(20, TARN_MODE_POWER, false);
    struct seglog_superblock_format superblock = depot_testing_superblock(&drive);
    struct base_random random;
    base_random_init(&random, 5);
    uint64_t opened = 0;
    for (int i = 0; i < 300; i++) {
        struct testing_drive damaged = testing_drive_copy(&drive);
        uint64_t end = superblock.data_offset + superblock.segment_bytes;
        uint64_t at = base_random_below(&random, end);
        damaged.bytes[at] ^= (uint8_t)(1 + base_random_below(&random, 255));
        struct testing_store store;
        const struct tarn_depot_options options = {.mode = TARN_MODE_POWER};
        int error = testing_try_open(&store, &damaged, NULL, &options);
        assert_true(error == 0 || error == -EUCLEAN || error == -EBADMSG);
        opened += error == 0;
        for (int key = 0; error == 0 && key < 20; key++) {
            char name[16], found[16];
            (void)snprintf(name, sizeof(name), "%d", key);
            int got = tarn_depot_get(store.depot, name, strlen(name), found, sizeof(found), NULL);
            assert_true(got == 0 || got == -ENOENT || got == -EBADMSG);
            if (got == 0)
                assert_memory_equal(found, "value", 5);
        }
        if (error == 0)
            depot_testing_close(&store);
        testing_drive_free(&damaged);
    }
    assert_true(opened > 200); /* most bytes matter to nobody */
    testing_drive_free(&drive);
}

static void a_damaged_record_is_an_error_of_its_key(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 1, "<first>");
    testing_put_keys(&store, 1, 2, "<second>");
    depot_testing_close(&store);
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    uint8_t *byte = find_bytes(&drive, "<second>");
    assert_non_null(byte);
    char value[16];
    *byte ^= 1;
    memset(value, 7, sizeof(value));
    assert_int_equal(tarn_depot_get(store.depot, "1", 1, value, sizeof(value), NULL), -EBADMSG);
    testing_expect_keys(&store, 0, 1, "<first>");
    *byte ^= 1;
    testing_expect_keys(&store, 1, 2, "<second>");
    byte[-10] ^= 1; /* its header */
    assert_int_equal(tarn_depot_get(store.depot, "1", 1, value, sizeof(value), NULL), -EBADMSG);
    byte[-10] ^= 1;
    testing_expect_keys(&store, 1, 2, "<second>");
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* A damaged record can be overwritten and removed, and the store goes on. */
static void damage_can_be_overwritten(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    testing_put_keys(&store, 0, 1, "<first>");
    testing_put_keys(&store, 1, 2, "<second>");
    uint8_t *first = find_bytes(&drive, "<first>"), *second = find_bytes(&drive, "<second>");
    assert_true(first != NULL && second != NULL);
    *first ^= 1;
    *second ^= 1;
    assert_int_equal(depot_testing_put(&store, "0", "again"), 0);
    (void)testing_delete(&store, "1");
    for (int round = 0; round < 2; round++) {
        testing_expect_keys(&store, 0, 1, "again");
        depot_testing_close(&store);
        depot_testing_open(&store, &drive, NULL, TARN_MODE_POWER);
    }
    depot_testing_close(&store);
    testing_drive_free(&drive);
}

/* A read that fails once is an error or tried again, one that lies once is tried again: no key is missing. */
static void one_bad_read(int keys, bool killed, bool lies)
{
    struct testing_drive drive = testing_made_store(keys, TARN_MODE_POWER, killed);
    struct testing_store store;
    const struct tarn_depot_options existing = {.mode = TARN_MODE_POWER};
    uint64_t reads = 0;
    for (uint64_t n = 1, left = 0; left == 0; n++) {
        struct testing_drive copy = testing_drive_copy(&drive);
        copy.fail_op = DRIVE_READ;
        copy.lie = lies ? TESTING_NOISE : TESTING_TRUTH;
        atomic_store(&copy.fail_at, n);
        int error = testing_try_open(&store, &copy, NULL, &existing);
        left = atomic_exchange(&copy.fail_at, 0);
        assert_true(left == 0 || error == 0);
        assert_true(error == 0 || error == -EIO);
        assert_true(error == 0 || !lies);
        if (error == 0) {
            testing_expect_keys(&store, 0, keys, "value");
            depot_testing_close(&store);
        } else {
            assert_int_equal(testing_try_once(&copy, 0), 0);
        }
        testing_drive_free(&copy);
        reads = n;
    }
    assert_true(reads > 4);
    testing_drive_free(&drive);
}

static void one_bad_read_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        one_bad_read(i % 2 == 0 ? 2 : 40, i / 2 % 2 == 0, i / 4 == 0);
}

/* ---- many summaries ------------------------------------------------------------------------------ */

/* Every key is in several segments, whose summaries are looked at by several threads at once: the newest record
 * of each counts, whichever is met first, and what lives is counted once. */
static void the_newest_of_many_segments_counts(void **state)
{
    enum { KEYS = 1000, ROUNDS = 5 };
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct testing_store store;
    /* so large that nothing is collected */
    const struct tarn_depot_options options = {.create_bytes = 4 * TESTING_STORE_BYTES,
                                               .mode = TARN_MODE_POWER};
    assert_int_equal(testing_try_open(&store, &drive, NULL, &options), 0);
    for (int round = 0; round < ROUNDS; round++) {
        char value[16];
        (void)snprintf(value, sizeof(value), "round %d", round);
        testing_put_keys(&store, 0, KEYS, value);
        for (int key = round; key < KEYS; key += 10) {
            char name[16];
            (void)snprintf(name, sizeof(name), "%d", key);
            assert_int_equal(testing_delete(&store, name), 0);
        }
    }
    struct tarn_depot_stats before, after;
    tarn_depot_stats(store.depot, &before);
    assert_true(before.segments - before.segments_free >= ROUNDS);
    drive = depot_testing_end(&store, &drive, true);
    for (int start = 0; start < (TESTING_SLOW ? 3 : 10); start++) {
        struct testing_drive copy = testing_drive_copy(&drive);
        depot_testing_open(&store, &copy, NULL, TARN_MODE_POWER);
        tarn_depot_stats(store.depot, &after);
        assert_int_equal(after.records, KEYS - KEYS / 10);
        assert_int_equal(after.live_bytes, before.live_bytes);
        for (int key = 0; key < KEYS; key++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "%d", key);
            depot_testing_expect(&store, name, key % 10 == ROUNDS - 1 ? NULL : "round 4");
        }
        depot_testing_close(&store);
        testing_drive_free(&copy);
    }
    testing_drive_free(&drive);
}

/* ---- how far it is ------------------------------------------------------------------------------- */

/* What an opening has told: its works by their last words, and where it is with the last. */
struct heard {
    char works[128];
    const char *what;
    uint64_t done, all;
};

static void hear(void *arg, const char *what, const char *unit, uint64_t done, uint64_t all)
{
    struct heard *heard = arg;
    bool goes_on = heard->what != NULL && strcmp(heard->what, what) == 0 && done >= heard->done;
    assert_true(strlen(unit) > 0 && done < all);
    assert_true(!goes_on || all == heard->all);
    if (!goes_on) {
        size_t len = strlen(heard->works);
        (void)snprintf(heard->works + len, sizeof(heard->works) - len, "%s", strrchr(what, ' '));
    }
    heard->what = what;
    heard->done = done;
    heard->all = all;
}

/* Summaries are read once to see which are whole, and once for what is in them. */
static void openings_tell_how_far_they_are(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct testing_drive drive = testing_made_store(2000, TARN_MODE_POWER, killed);
        struct testing_store store = {.node = testing_node(&drive, NULL)};
        struct heard heard = {.what = NULL};
        const struct depot_opening opening = {.progress = hear, .progress_arg = &heard};
        assert_int_equal(depot_open(store.node, "store", NULL, &opening, &store.depot), 0);
        assert_string_equal(heard.works,
                            killed ? " headers summaries summaries counts" : " headers checkpoint counts");
        depot_testing_close(&store);
        testing_drive_free(&drive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_at_every_write),
        cmocka_unit_test(an_end_while_the_collector_works),
        cmocka_unit_test(what_was_hidden_stays_hidden),
        cmocka_unit_test(no_damage_gives_wrong_values),
        cmocka_unit_test(a_damaged_record_is_an_error_of_its_key),
        cmocka_unit_test(damage_can_be_overwritten),
        cmocka_unit_test(one_bad_read_loses_nothing),
        cmocka_unit_test(the_newest_of_many_segments_counts),
        cmocka_unit_test(openings_tell_how_far_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
