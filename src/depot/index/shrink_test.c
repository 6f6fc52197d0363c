/* Is everything found, and given by an iteration, at any moment of a shrink, and the memory given back? */
#include "depot/index/testing.h"

enum { KEYS = 30000 };

static struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];

static uint64_t hash_at(struct base_random *random, uint64_t i)
{
    uint64_t hash = base_random_u64(random);
    if (i % 600 == 0) /* at home about the ends of regions */
        hash = (hash & ~(uint64_t)8191) | ((8192 - 40 + base_random_below(random, 60)) % 8192);
    return hash;
}

/* Insert keys 1 to KEYS, letting it grow when it asks for that; then take out what `keep` does not divide. */
static void open_thinned(struct fixture *fixture, const struct depot_index_widths *widths, uint64_t seed,
                         uint64_t keep)
{
    struct base_random random;
    open_index(fixture, widths);
    base_random_init(&random, seed);
    for (uint64_t i = 1; i <= KEYS; i++)
        assert_int_equal(depot_index_load(&fixture->index, hash_at(&random, i), i, 1), 0);
    base_random_init(&random, seed);
    for (uint64_t i = 1; i <= KEYS; i++) {
        uint64_t hash = hash_at(&random, i);
        assert_true(i % keep == 0 || depot_index_remove(&fixture->index, hash, i));
    }
}

/* Those that are there are found, and no others. */
static void expect_thinned(struct fixture *fixture, uint64_t seed, uint64_t keep)
{
    struct base_random random;
    base_random_init(&random, seed);
    for (uint64_t i = 1; i <= KEYS; i++)
        assert_int_equal(depot_index_has(&fixture->index, hash_at(&random, i), i), i % keep == 0);
}

/* @return as depot_index_shrink_step() at the end */
static int shrink_once(struct fixture *fixture)
{
    int more = 1;
    while (more > 0)
        more = depot_index_shrink_step(&fixture->index, 1);
    return more;
}

static void shrink_all(struct fixture *fixture)
{
    int error;
    while ((error = depot_index_shrink_begin(&fixture->index)) == 0)
        assert_int_equal(shrink_once(fixture), 0);
    assert_int_equal(error, -ENOENT);
}

/* ---- sizes -------------------------------------------------------------------------------------- */

static void it_becomes_as_small_as_it_may(void **state)
{
    (void)state;
    static const struct depot_index_widths *all[] = {&small, &medium, &large};
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct fixture fixture;
        open_thinned(&fixture, all[seed % 3], seed, 10);
        uint64_t before = depot_index_bytes(&fixture.index);
        assert_int_equal(depot_index_capacity(&fixture.index), 65536);
        while (depot_index_shrink_begin(&fixture.index) == 0) {
            uint64_t count = depot_index_count(&fixture.index);
            for (int more = 1; more > 0;) {
                more = depot_index_shrink_step(&fixture.index, 1);
                assert_int_equal(depot_index_count(&fixture.index), count);
                validate(&fixture);
                expect_thinned(&fixture, seed, 10);
            }
        }
        /* 3,000 entries: no smaller than a table */
        uint64_t after = base_max((uint64_t)8192, (uint64_t)1 << all[seed % 3]->table_bits);
        assert_int_equal(depot_index_capacity(&fixture.index), after);
        assert_int_equal(depot_index_bytes(&fixture.index), base_account_used(&fixture.account));
        uint64_t given = before - depot_index_bytes(&fixture.index);
        assert_true(given >= (65536 - after) * 8 - 3 * (uint64_t)BASE_PAGE_BYTES);
        assert_int_equal(depot_index_given_bytes(&fixture.index), given);
        close_index(&fixture);
    }
}

static void it_grows_and_shrinks_again(void **state)
{
    (void)state;
    struct fixture fixture;
    open_thinned(&fixture, &medium, 5, 20);
    uint64_t before = depot_index_bytes(&fixture.index);
    for (int times = 0; times < 3; times++) {
        shrink_all(&fixture);
        assert_int_equal(depot_index_capacity(&fixture.index), 16384);
        grow_all(&fixture);
        validate(&fixture);
        grow_all(&fixture);
        validate(&fixture);
        expect_thinned(&fixture, 5, 20);
        assert_int_equal(depot_index_bytes(&fixture.index), before); /* in the same memory */
        assert_int_equal(depot_index_bytes(&fixture.index), base_account_used(&fixture.account));
    }
    shrink_all(&fixture);
    grow_all(&fixture); /* one of two that were put aside */
    close_index(&fixture);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), -ENOENT); /* one table */
    assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 0);
    assert_false(depot_index_shrink_turn(&fixture.index));
    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), -EALREADY);
    assert_int_equal(depot_index_shrink_step(&fixture.index, 1), -ECANCELED);
    while (depot_index_grow_step(&fixture.index, 1)) {
    }
    base_account_fail_at(&fixture.account, 1);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), -ENOMEM);
    base_account_fail_at(&fixture.account, 0);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), -EALREADY);
    assert_int_equal(depot_index_grow_begin(&fixture.index), -EALREADY);
    assert_int_equal(depot_index_bytes(&fixture.index), base_account_used(&fixture.account));
    assert_int_equal(shrink_once(&fixture), 0);
    fixture.account.cap_bytes = base_account_used(&fixture.account);
    assert_int_equal(depot_index_grow_begin(&fixture.index),
                     -ENOMEM); /* what was given back is somebody else's */
    validate(&fixture);
    fixture.account.cap_bytes = BASE_ACCOUNT_UNLIMITED;
    grow_all(&fixture);
    struct base_random random;
    base_random_init(&random, 1);
    for (uint64_t i = 1; i <= 16384 * 3 / 10; i++)
        assert_int_equal(depot_index_load(&fixture.index, base_random_u64(&random), i, 1), 0);
    while (!depot_index_load_reaches(&fixture.index, 30)) /* the last ones are not settled */
        assert_int_equal(depot_index_load(&fixture.index, base_random_u64(&random), 9999, 1), 0);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), -ENOENT);
    close_index(&fixture);
}

/* An index that ends while it shrinks. */
static void an_end_in_between(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 5; steps++) {
        struct fixture fixture;
        open_thinned(&fixture, &large, steps, 100);
        assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
        (void)depot_index_shrink_step(&fixture.index, steps);
        close_index(&fixture);
    }
}

/* ---- what is in the way ------------------------------------------------------------------------- */

/* Entries of both tables at the same places: about the end of a region they go to the stashes of both. */
static void ends_of_regions(void **state)
{
    (void)state;
    static const uint64_t positions[] = {0, 50, 8192 - 31, 8192 - 8, 8191, 8192, 16383 - 30, 16383};
    for (size_t k = 0; k < base_array_count(positions); k++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        grow_all(&fixture);
        for (uint64_t i = 0; i < 48; i++) {
            uint64_t hash = hash_of(&medium, i, positions[k] - (positions[k] >= 8 ? i % 8 : 0));
            insert(&fixture, hash, i + 1, 1 + i % 31);
        }
        assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
        for (int more = 1; more > 0;) {
            more = depot_index_shrink_step(&fixture.index, 1);
            assert_true(more >= 0);
            validate(&fixture);
        }
        assert_int_equal(depot_index_capacity(&fixture.index), 16384);
        for (uint64_t i = 0; i < 48; i++) {
            uint64_t hash = hash_of(&medium, i, positions[k] - (positions[k] >= 8 ? i % 8 : 0)), word;
            assert_true(depot_index_look(&fixture.index, hash, i + 1, &word));
            assert_int_equal(depot_index_grains(&fixture.index, word), 1 + i % 31);
            assert_true(depot_index_remove(&fixture.index, hash, i + 1));
        }
        close_index(&fixture);
    }
}

/* An entry whose home is in the region before, and whose places are taken: it goes back there. */
static void what_reaches_into_a_region(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    grow_all(&fixture);
    const uint64_t home = 8192 - 31; /* its last place is the first of the next region */
    for (uint64_t i = 0; i < 64; i++)
        insert(&fixture, hash_of(&medium, i, home), i + 1, 1);
    for (uint64_t i = 0; i < 62; i++) /* of each table the last one remains */
        assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, home), i + 1));
    const struct depot_index_directory *directory = depot_index_directory_now(&fixture.index);
    assert_int_not_equal(directory->tables[0].words[8192], 0);
    assert_int_not_equal(directory->tables[1].words[8192], 0);
    shrink_all(&fixture);
    validate(&fixture);
    assert_int_equal(depot_index_capacity(&fixture.index), 16384);
    for (uint64_t i = 62; i < 64; i++)
        assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, home), i + 1));
    close_index(&fixture);
}

/* Keys that were chosen to collide fill more than one home has places for. */
static void a_pair_that_does_not_fit(void **state)
{
    (void)state;
    static const uint64_t positions[] = {50, 9000};
    for (size_t k = 0; k < base_array_count(positions); k++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        grow_all(&fixture);
        for (uint64_t i = 0; i < 2 * DEPOT_CANDIDATES_MAX - 10; i++)
            insert(&fixture, hash_of(&medium, i, positions[k]), i + 1, 1);
        for (uint64_t i = 0; i < 1000; i++) /* others go to and fro with them */
            insert(&fixture, hash_of(&medium, i, i * 16), 1000 + i, 1);
        for (int times = 0; times < 2; times++) {
            assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
            assert_int_equal(depot_index_capacity(&fixture.index), 16384);
            assert_int_equal(shrink_once(&fixture), -ECANCELED);
            assert_int_equal(depot_index_capacity(&fixture.index), 32768);
            validate(&fixture);
            assert_int_equal(depot_index_grow_begin(&fixture.index), -EALREADY);
            while (depot_index_grow_step(&fixture.index, 1))
                validate(&fixture);
        }
        for (uint64_t i = 0; i < 2 * DEPOT_CANDIDATES_MAX - 10; i++)
            assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, positions[k]), i + 1));
        for (uint64_t i = 0; i < 1000; i++)
            assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, i * 16), 1000 + i));
        close_index(&fixture);
    }
}

/* A pair of regions that are fuller than the others. */
static void a_pair_that_is_too_full(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    open_index(&fixture, &large);
    base_random_init(&random, 2);
    grow_all(&fixture);
    for (uint64_t i = 1; i <= 6000; i++)
        insert(&fixture, base_random_u64(&random) & ~(uint64_t)(3 << 13), i, 1);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
    assert_int_equal(shrink_once(&fixture), -ECANCELED);
    while (depot_index_grow_step(&fixture.index, 1))
        validate(&fixture);
    assert_int_equal(depot_index_count(&fixture.index), 6000);
    close_index(&fixture);
}

/* ---- others meanwhile --------------------------------------------------------------------------- */

/* Who comes wants the places: it grows on, from wherever it was. */
static void entries_that_come(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 9; steps++) {
        struct fixture fixture;
        struct base_random random;
        open_thinned(&fixture, &medium, steps, 10);
        assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
        for (uint32_t i = 0; i < steps % 4; i++)
            assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 1);
        base_random_init(&random, 1000 + steps);
        uint64_t address = KEYS + 1;
        while (!depot_index_load_reaches(&fixture.index, 70))
            insert(&fixture, hash_at(&random, address), address, 1), address++;
        validate(&fixture);
        assert_false(depot_index_wants_growth(&fixture.index));
        if (steps % 2 == 0)
            assert_true(depot_index_shrink_turn(&fixture.index));
        assert_int_equal(depot_index_shrink_step(&fixture.index, 1), -ECANCELED);
        while (depot_index_grow_step(&fixture.index, 1))
            validate(&fixture);
        expect_thinned(&fixture, steps, 10);
        base_random_init(&random, 1000 + steps);
        for (uint64_t i = KEYS + 1; i < address; i++)
            assert_true(depot_index_remove(&fixture.index, hash_at(&random, i), i));
        assert_int_equal(depot_index_count(&fixture.index), KEYS / 10);
        shrink_all(&fixture);
        close_index(&fixture);
    }
}

/* Inserts about the place that it has come to: what lies in a merged region must not move into one that is not. */
static void crowded_inserts(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 4; steps++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        grow_all(&fixture);
        assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
        for (uint32_t i = 0; i < steps; i++)
            assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 1);
        uint64_t count = 0;
        for (uint64_t i = 0; i < 160; i++) {
            uint64_t hash = hash_of(&medium, i, 8192 - 40 + i % 24);
            int result = depot_index_reserve(&fixture.index, hash);
            assert_true(result == 0 || result == -ENOSPC); /* few entries: it shall not grow for these */
            if (result == 0)
                depot_index_publish(&fixture.index, hash, i + 1, 1);
            count += result == 0;
            validate(&fixture);
        }
        assert_true(count >= 64);
        assert_int_equal(depot_index_count(&fixture.index), count);
        int ended = shrink_once(&fixture);
        assert_true(ended == 0 || ended == -ECANCELED);
        while (depot_index_grow_step(&fixture.index, 1)) {
        }
        for (uint64_t i = 0; i < 160; i++)
            count -= depot_index_remove(&fixture.index, hash_of(&medium, i, 8192 - 40 + i % 24), i + 1);
        assert_int_equal(count, 0);
        close_index(&fixture);
    }
}

/* Places that are held, and marks, go along. */
static void places_and_marks(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    grow_all(&fixture);
    for (uint64_t tag = 0; tag < 4; tag++) {
        struct depot_index_view view;
        insert(&fixture, hash_of(&medium, tag, 77), tag + 1, 1);
        depot_index_find(&fixture.index, hash_of(&medium, tag, 77), &view);
        assert_int_equal(view.count, 1);
        if (tag < 2)
            depot_index_hit(&fixture.index, view.hash, view.words[0]);
        assert_int_equal(depot_index_reserve(&fixture.index, hash_of(&medium, tag, 77)), 0);
    }
    shrink_all(&fixture);
    for (uint64_t tag = 0; tag < 4; tag++) {
        uint64_t hash = hash_of(&medium, tag, 77), word;
        assert_true(depot_index_look(&fixture.index, hash, tag + 1, &word));
        assert_int_equal(depot_index_is_hit(word), tag < 2);
        assert_int_equal(find_count(&fixture, hash), 1);
        depot_index_publish(&fixture.index, hash, tag + 11, 1);
        assert_int_equal(find_count(&fixture, hash), 2);
    }
    close_index(&fixture);
}

/* A miss that a merge has come between is none. */
static void a_miss_is_not_certain(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_index_view views[2], before;
    open_index(&fixture, &medium);
    grow_all(&fixture);
    for (uint64_t tag = 0; tag < 2; tag++)
        depot_index_find(&fixture.index, hash_of(&medium, tag, 8200), &views[tag]);
    depot_index_find(&fixture.index, hash_of(&medium, 1, 100), &before);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
    assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 1);
    assert_false(depot_index_unchanged(&before));
    assert_true(depot_index_unchanged(&views[0]) && depot_index_unchanged(&views[1]));
    assert_int_equal(shrink_once(&fixture), 0);
    assert_false(depot_index_unchanged(&views[0]) || depot_index_unchanged(&views[1]));
    close_index(&fixture);
}

/* While all is taken out nothing is merged: it would come behind who empties. */
static void emptying(void **state)
{
    (void)state;
    struct fixture fixture;
    open_thinned(&fixture, &medium, 3, 10);
    assert_int_equal(depot_index_shrink_begin(&fixture.index), 0);
    assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 1);
    uint64_t bits = depot_index_directory_now(&fixture.index)->bits;
    atomic_store(&fixture.index.clearing, true);
    for (int i = 0; i < 50; i++)
        assert_int_equal(depot_index_shrink_step(&fixture.index, 1), 1);
    assert_int_equal(depot_index_directory_now(&fixture.index)->bits, bits);
    depot_index_clear(&fixture.index);
    validate(&fixture);
    assert_int_equal(depot_index_count(&fixture.index), 0);
    assert_int_equal(shrink_once(&fixture), 0);
    shrink_all(&fixture);
    assert_int_equal(depot_index_capacity(&fixture.index), 16384);
    close_index(&fixture);
}

/* ---- iterating ---------------------------------------------------------------------------------- */

/* What it does between two calls of an iteration. */
static void shrink_some(struct depot_index *index, uint32_t steps, bool turns)
{
    uint32_t bits = depot_index_directory_now(index)->bits;
    int error = depot_index_shrink_begin(index);
    assert_true(error == 0 || error == -EALREADY || error == -ENOENT);
    for (uint32_t i = 0; i < steps; i++)
        (void)depot_index_shrink_step(index, 1);
    if (turns && depot_index_shrink_turn(index))
        (void)depot_index_grow_step(index, steps);
    if (turns && bits < 2 && depot_index_shrink_begin(index) == -ENOENT)
        assert_int_equal(depot_index_grow_begin(index), 0);
}

/* What is there throughout is given once although the index shrinks, and grows again, at any moment. */
static void iteration_beside_shrinking(void **state)
{
    (void)state;
    static const struct depot_index_widths *all[] = {&small, &medium, &large};
    for (uint32_t run = 0; run < 3 * 9 * 4 * 2; run++) {
        const struct depot_index_widths *widths = all[run % 3];
        uint32_t begin_at = run / 3 % 9, steps = run / 27 % 4;
        struct fixture fixture;
        open_thinned(&fixture, widths, run, 30);
        uint8_t *seen = test_calloc(KEYS + 1, 1);
        struct depot_index_cursor cursor = {0};
        for (uint32_t call = 0; !cursor.end; call++) {
            if (call >= begin_at)
                shrink_some(&fixture.index, steps, run >= 3 * 9 * 4 && call % 2 == 1);
            uint32_t batch = depot_index_next(&fixture.index, &cursor, items);
            for (uint32_t i = 0; i < batch; i++)
                seen[depot_index_address(&fixture.index, items[i].word)]++;
        }
        for (uint64_t i = 1; i <= KEYS; i++)
            assert_int_equal(seen[i], i % 30 == 0);
        test_free(seen);
        close_index(&fixture);
    }
}

/* ---- damage ------------------------------------------------------------------------------------- */

static void validation_looks_at_what_was_put_aside(void **state)
{
    (void)state;
    struct fixture fixture;
    const char *wrong = "";
    open_index(&fixture, &medium);
    grow_all(&fixture);
    const struct depot_index_directory *directory = depot_index_directory_now(&fixture.index);
    shrink_all(&fixture);
    struct depot_index_region *region = &directory->tables[1].regions[1];
    atomic_store(&region->depth, 2);
    assert_int_equal(depot_index_validate(&fixture.index, &wrong), -EUCLEAN);
    assert_non_null(strstr(wrong, "lives"));
    atomic_store(&region->depth, 0);
    atomic_store(&region->used, 1);
    assert_int_equal(depot_index_validate(&fixture.index, &wrong), -EUCLEAN);
    assert_non_null(strstr(wrong, "has entries"));
    atomic_store(&region->used, 0);
    atomic_store(&directory->tables[1].words[9000], 9000);
    assert_int_equal(depot_index_validate(&fixture.index, &wrong), -EUCLEAN);
    assert_non_null(strstr(wrong, "does not live"));
    atomic_store(&directory->tables[1].words[9000], 0);
    close_index(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_becomes_as_small_as_it_may),
        cmocka_unit_test(it_grows_and_shrinks_again),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(an_end_in_between),
        cmocka_unit_test(ends_of_regions),
        cmocka_unit_test(what_reaches_into_a_region),
        cmocka_unit_test(a_pair_that_does_not_fit),
        cmocka_unit_test(a_pair_that_is_too_full),
        cmocka_unit_test(entries_that_come),
        cmocka_unit_test(crowded_inserts),
        cmocka_unit_test(places_and_marks),
        cmocka_unit_test(a_miss_is_not_certain),
        cmocka_unit_test(emptying),
        cmocka_unit_test(iteration_beside_shrinking),
        cmocka_unit_test(validation_looks_at_what_was_put_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
