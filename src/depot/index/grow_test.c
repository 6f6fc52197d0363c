/* Is everything found, and given by an iteration, at any moment of a growth? And does the checker see what is
 * wrong? */
#include "depot/index/testing.h"

/* ---- growth ------------------------------------------------------------------------------------- */

static void growth_ends_with_the_tag(void **state)
{
    (void)state;
    const struct depot_index_widths widths = {.address_bits = 40, .tag_bits = 8, .table_bits = 13};
    struct fixture fixture;
    open_index(&fixture, &widths);
    assert_false(depot_index_grow_step(&fixture.index, 1));
    grow_all(&fixture);
    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
    while (depot_index_grow_step(&fixture.index, 1)) {
    }
    assert_int_equal(depot_index_grow_begin(&fixture.index), -ENOSPC);
    assert_int_equal(depot_index_capacity(&fixture.index), 4 << 13);
    struct base_random random;
    base_random_init(&random, 3);
    int result = 0;
    for (uint64_t i = 1; result == 0; i++)
        result = depot_index_load(&fixture.index, base_random_u64(&random), i, 1);
    assert_int_equal(result, -ENOSPC);
    assert_true(depot_index_count(&fixture.index) > depot_index_capacity(&fixture.index) * 9 / 10);
    assert_false(depot_index_wants_growth(&fixture.index));
    close_index(&fixture);
}

/* A large table's memory is touched in pieces, so that whoever has it grow can do something else in between. */
static void memory_is_taken_in_pieces(void **state)
{
    (void)state;
    const struct depot_index_widths widths = {.address_bits = 40, .tag_bits = 8, .table_bits = 20};
    struct fixture fixture;
    open_index(&fixture, &widths);
    for (int round = 0; round < 2; round++) {
        uint64_t before = depot_index_bytes(&fixture.index);
        int calls = 1;
        while (depot_index_grow_prepare(&fixture.index) == 1)
            calls++;
        assert_int_equal(calls, (4 << round) + 1); /* 8 MiB of words, and the headers */
        assert_true(depot_index_bytes(&fixture.index) - before > UINT64_C(8) << 20 << round);
        assert_int_equal(depot_index_capacity(&fixture.index), UINT64_C(1) << 20 << round);
        assert_int_equal(depot_index_grow_prepare(&fixture.index), 0);
        assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
        assert_int_equal(depot_index_grow_prepare(&fixture.index), -EALREADY);
        while (depot_index_grow_step(&fixture.index, 100)) {
        }
        assert_int_equal(depot_index_capacity(&fixture.index), UINT64_C(2) << 20 << round);
        validate(&fixture);
    }
    close_index(&fixture);
}

/* Inserts split what they need; nothing that is split by them is split again. */
static void inserts_split_regions(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    open_index(&fixture, &large);
    (void)index_fill(&fixture, &large, 11);
    uint64_t before = depot_index_count(&fixture.index);
    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
    base_random_init(&random, 12);
    for (uint64_t i = 0; i < 15000; i++) {
        insert(&fixture, base_random_u64(&random), before + i + 1, 1);
        if (i % 5000 == 0)
            validate(&fixture);
    }
    while (depot_index_grow_step(&fixture.index, 1))
        validate(&fixture);
    base_random_init(&random, 11);
    for (uint64_t i = 0; i < before; i++)
        assert_true(depot_index_has(&fixture.index, base_random_u64(&random), i + 1));
    base_random_init(&random, 12);
    for (uint64_t i = 0; i < 15000; i++)
        assert_true(depot_index_has(&fixture.index, base_random_u64(&random), before + i + 1));
    close_index(&fixture);
}

/* What a split makes room for leaves the stash, in both tables. */
static void growth_empties_the_stash(void **state)
{
    (void)state;
    static const uint64_t positions[] = {50, 8180, 16383};
    for (size_t k = 0; k < base_array_count(positions); k++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        for (uint64_t i = 0; i < 40; i++)
            insert(&fixture, hash_of(&medium, i, positions[k]), i + 1, 1);
        grow_all(&fixture);
        const struct depot_index_directory *directory = depot_index_directory_now(&fixture.index);
        uint64_t number = positions[k] / DEPOT_REGION_ENTRIES;
        for (uint64_t table = 0; table < 2 && k != 1; table++)
            assert_int_equal(directory->tables[table].regions[number].stash_count, 0);
        validate(&fixture);
        for (uint64_t i = 0; i < 40; i++)
            assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, positions[k]), i + 1));
        close_index(&fixture);
    }
}

static void load_grows_at_once(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    open_index(&fixture, &small);
    base_random_init(&random, 1);
    for (uint64_t i = 1; i <= 100000; i++)
        assert_int_equal(depot_index_load(&fixture.index, base_random_u64(&random), i, i), 0);
    assert_int_equal(depot_index_capacity(&fixture.index), 16 << 13); /* 100,000 of 131,072 */
    base_random_init(&random, 1);
    for (uint64_t i = 1; i <= 100000; i++)
        assert_true(depot_index_has(&fixture.index, base_random_u64(&random), i));
    close_index(&fixture);
}

static void memory_that_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_index untouched = {.regions = 77};
    base_account_init(&fixture.account, BASE_ACCOUNT_UNLIMITED);
    for (uint64_t n = 1; n <= 2; n++) {
        base_account_fail_at(&fixture.account, n);
        assert_int_equal(depot_index_init(&untouched, &fixture.account, &small), -ENOMEM);
        assert_int_equal(untouched.regions, 77);
        assert_int_equal(base_account_used(&fixture.account), 0);
    }
    base_account_fail_at(&fixture.account, 0);
    assert_int_equal(depot_index_init(&fixture.index, &fixture.account, &small), 0);
    (void)index_fill(&fixture, &small, 8);
    uint64_t count = depot_index_count(&fixture.index);
    for (uint64_t n = 1; n <= 2; n++) {
        base_account_fail_at(&fixture.account, n);
        assert_int_equal(depot_index_grow_begin(&fixture.index), -ENOMEM);
        assert_int_equal(depot_index_count(&fixture.index), count);
        validate(&fixture);
    }
    struct base_random random;
    base_random_init(&random, 9);
    fixture.account.cap_bytes = base_account_used(&fixture.account);
    int result = 0;
    while (result == 0)
        result = depot_index_load(&fixture.index, base_random_u64(&random), 1, 1);
    assert_int_equal(result, -ENOMEM);
    fixture.account.cap_bytes = BASE_ACCOUNT_UNLIMITED;
    grow_all(&fixture);
    close_index(&fixture);
    /* more than there are addresses for */
    const struct depot_index_widths absurd = {.address_bits = 40, .tag_bits = 8, .table_bits = 44};
    base_account_init(&fixture.account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(depot_index_init(&fixture.index, &fixture.account, &absurd), -ENOMEM);
    base_account_deinit(&fixture.account);
}

/* ---- iterating ---------------------------------------------------------------------------------- */

static struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];

static void iteration_gives_all_once(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &large);
    (void)index_fill(&fixture, &large, 21);
    uint64_t count = depot_index_count(&fixture.index);
    uint8_t *seen = test_calloc(count + 1, 1);
    struct depot_index_cursor cursor = {0};
    uint64_t given = 0;
    while (!cursor.end) {
        uint32_t batch = depot_index_next(&fixture.index, &cursor, items);
        assert_true(batch <= DEPOT_INDEX_BATCH_MAX);
        for (uint32_t i = 0; i < batch; i++) {
            uint64_t address = depot_index_address(&fixture.index, items[i].word);
            assert_in_range(address, 1, count);
            assert_int_equal(seen[address]++, 0);
            assert_true(depot_index_holds(&fixture.index, items[i].hash, items[i].word));
            assert_int_equal(items[i].hash >> (large.table_bits + large.tag_bits), 0);
        }
        given += batch;
    }
    assert_int_equal(given, count);
    assert_int_equal(depot_index_next(&fixture.index, &cursor, items), 0);
    test_free(seen);
    close_index(&fixture);
}

static void iteration_leaves_reserved_out(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    for (int i = 0; i < 36; i++)
        insert(&fixture, 8191, (uint64_t)i + 1, 1); /* the stash too */
    assert_int_equal(depot_index_reserve(&fixture.index, 8191), 0);
    assert_int_equal(depot_index_reserve(&fixture.index, 4), 0);
    struct depot_index_cursor cursor = {0};
    assert_int_equal(depot_index_next(&fixture.index, &cursor, items), 36);
    assert_true(cursor.end);
    close_index(&fixture);
}

/* What is there throughout is given once although the index grows at any moment. */
static void iteration_beside_growth(void **state)
{
    (void)state;
    for (uint32_t begin_at = 0; begin_at < 9; begin_at++) {
        for (uint32_t steps = 0; steps < 3; steps++) {
            struct fixture fixture;
            open_index(&fixture, &large);
            (void)index_fill(&fixture, &large, begin_at);
            uint64_t count = depot_index_count(&fixture.index);
            uint8_t *seen = test_calloc(count + 1, 1);
            struct depot_index_cursor cursor = {0};
            for (uint32_t call = 0; !cursor.end; call++) {
                if (call == begin_at)
                    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
                else if (call > begin_at)
                    (void)depot_index_grow_step(&fixture.index, steps);
                uint32_t batch = depot_index_next(&fixture.index, &cursor, items);
                for (uint32_t i = 0; i < batch; i++)
                    seen[depot_index_address(&fixture.index, items[i].word)]++;
            }
            for (uint64_t i = 1; i <= count; i++)
                assert_int_equal(seen[i], 1);
            test_free(seen);
            close_index(&fixture);
        }
    }
}

/* A region that is not split beside one that is: the entries of its end lie in two tables. */
static void iteration_over_half_split_regions(void **state)
{
    (void)state;
    for (uint64_t split = 0; split < 2; split++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        for (uint64_t i = 0; i < 20; i++)
            insert(&fixture, hash_of(&medium, i, 8185), i + 1, 1);
        assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
        struct depot_index_part part = depot_index_lock_part(&fixture.index, 0, split);
        depot_index_split_locked(&fixture.index, &part, split);
        base_spin_unlock(&part.region->lock);
        validate(&fixture);
        struct depot_index_cursor cursor = {0};
        uint32_t given = 0;
        while (!cursor.end)
            given += depot_index_next(&fixture.index, &cursor, items);
        assert_int_equal(given, 20);
        for (uint64_t i = 0; i < 20; i++)
            assert_true(depot_index_has(&fixture.index, hash_of(&medium, i, 8185), i + 1));
        for (uint64_t i = 20; i < 40; i++)
            insert(&fixture, hash_of(&medium, i, 8185), i + 1, 1);
        validate(&fixture);
        for (uint64_t i = 0; i < 40; i++)
            assert_true(depot_index_remove(&fixture.index, hash_of(&medium, i, 8185), i + 1));
        close_index(&fixture);
    }
}

/* ---- damage ------------------------------------------------------------------------------------- */

static void expect_wrong(struct fixture *fixture, const char *part_of_sentence)
{
    const char *wrong = NULL;
    assert_int_equal(depot_index_validate(&fixture->index, &wrong), -EUCLEAN);
    if (strstr(wrong, part_of_sentence) == NULL)
        fail_msg("'%s' is not about '%s'", wrong, part_of_sentence);
}

static void validation_finds_what_is_wrong(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    grow_all(&fixture);
    insert(&fixture, hash_of(&medium, 2, 100), 5, 1);
    validate(&fixture);
    struct depot_index_directory *directory = depot_index_directory_now(&fixture.index);
    _Atomic uint64_t *words = directory->tables[0].words;
    struct depot_index_region *region = &directory->tables[0].regions[0];
    uint64_t word = words[100];
#define WRONG(sentence, statement, undo)                                                                     \
    statement;                                                                                               \
    expect_wrong(&fixture, sentence);                                                                        \
    undo;                                                                                                    \
    validate(&fixture)
    WRONG("another table", words[100] = word + ((uint64_t)1 << fixture.index.tag_shift), words[100] = word);
    WRONG("address 0", words[100] = word - ((uint64_t)5 << INDEX_ADDRESS_SHIFT), words[100] = word);
    WRONG("count is not what lies", words[100] = 0, words[100] = word);
    WRONG("twice", words[101] = word + 1, words[101] = 0);
    WRONG("before its table", words[0] = word + 1, words[0] = 0);
    WRONG("outside", words[2 * 8192 + 1] = word, words[2 * 8192 + 1] = 0);
    WRONG("locked", region->lock.locked = true, region->lock.locked = false);
    WRONG("did not end", region->sequence++, region->sequence--);
    WRONG("as deep", region->depth = 1, region->depth = 2);
    WRONG("stash's count", region->stash_count = 1, region->stash_count = 0);
    WRONG("stash's count", region->stash[3] = word, region->stash[3] = 0);
    region->stash_count = 1;
    region->used++;
    region->stash[0] = word & ~(uint64_t)INDEX_OFFSET_MASK;
    validate(&fixture);
    WRONG("stash has no home", region->stash[0]++, region->stash[0]--);
    WRONG("stash has no home", region->stash_homes[0] = DEPOT_REGION_ENTRIES, region->stash_homes[0] = 0);
    WRONG("another table", region->stash[0] += (uint64_t)1 << fixture.index.tag_shift,
          region->stash[0] -= (uint64_t)1 << fixture.index.tag_shift);
    WRONG("told its count", region->settled = 40, region->settled = 0);
    WRONG("not the sum", region->settled = 1, region->settled = 0);
    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
    validate(&fixture);
    directory = depot_index_directory_now(&fixture.index);
    region = &directory->tables[2].regions[0];
    WRONG("twin lives", region->depth = 3, region->depth = 0);
    WRONG("counterpart was split", directory->tables[0].regions[1].depth = 3,
          directory->tables[0].regions[1].depth = 2);
    WRONG("does not live", directory->tables[2].words[7] = word, directory->tables[2].words[7] = 0);
#undef WRONG
    close_index(&fixture);
}

/* What an iteration gives comes region by region: without growing first it would crowd one after the other.
 */
static void what_was_iterated_is_loaded(void **state)
{
    (void)state;
    struct fixture from, to;
    struct base_random random;
    open_index(&from, &large);
    open_index(&to, &large);
    base_random_init(&random, 11);
    const uint64_t count = 150000;
    for (uint64_t i = 1; i <= count; i++)
        assert_int_equal(depot_index_load(&from.index, base_random_u64(&random), i, 1), 0);
    assert_int_equal(depot_index_grow_to(&to.index, count), 0);
    assert_true(depot_index_capacity(&to.index) * 8 >= count * 10);
    for (struct depot_index_cursor cursor = {.region = 0}; !cursor.end;) {
        uint32_t taken = depot_index_next(&from.index, &cursor, items);
        for (uint32_t i = 0; i < taken; i++) {
            uint64_t address = depot_index_address(&from.index, items[i].word);
            assert_int_equal(depot_index_load(&to.index, items[i].hash, address, 1), 0);
        }
    }
    assert_int_equal(depot_index_count(&to.index), count);
    close_index(&from);
    base_account_fail_at(&to.account, 1);
    assert_int_equal(depot_index_grow_to(&to.index, 10 * count), -ENOMEM);
    close_index(&to);
}

/* Load all of one index into another, item by item as they are given. */
static void load_all(struct fixture *from, struct fixture *to)
{
    for (struct depot_index_cursor cursor = {.region = 0}; !cursor.end;) {
        uint32_t taken = depot_index_next(&from->index, &cursor, items);
        assert_int_equal(depot_index_load_items(&to->index, items, taken), 0);
    }
    assert_int_equal(depot_index_count(&to->index), depot_index_count(&from->index));
}

/* Where each entry lies: the words of all regions, stashes included, without hit marks. */
static bool lie_alike(const struct fixture *one, const struct fixture *other)
{
    const struct depot_index_directory *mine = depot_index_directory_now(&one->index);
    const struct depot_index_directory *theirs = depot_index_directory_now(&other->index);
    const size_t words = ((size_t)1 << one->index.widths.table_bits) + INDEX_EXTRA_WORDS;
    bool alike = mine->mask == theirs->mask;
    for (uint64_t table = 0; alike && table <= mine->mask; table++) {
        for (size_t i = 0; i < words; i++)
            alike = alike && depot_index_load_word(&mine->tables[table].words[i]) ==
                                 depot_index_load_word(&theirs->tables[table].words[i]);
    }
    return alike;
}

/* Of the entries 1 to `count`, those that a multiple of `step` names are there, as they were stored, each
 * second one marked. */
static void expect_loaded(struct fixture *fixture, uint64_t count, uint64_t step)
{
    struct base_random random;
    base_random_init(&random, 41);
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t word, hash = base_random_u64(&random);
        assert_true(depot_index_look(&fixture->index, hash, i, &word) == (i % step == 0));
        if (i % step != 0)
            continue;
        assert_int_equal(depot_index_is_hit(word), i % 2);
        assert_int_equal(seglog_length_class(depot_index_grains(&fixture->index, word)),
                         seglog_length_class(i));
    }
}

/* Entries go where they were, with their marks; where there are fewer tables, or somebody is there already, they find
 * other places. */
static void items_go_where_they_were(void **state)
{
    (void)state;
    struct fixture from, to;
    struct base_random random;
    const uint64_t count = 100000;
    open_index(&from, &large);
    base_random_init(&random, 41);
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t hash = base_random_u64(&random), word;
        assert_int_equal(depot_index_load(&from.index, hash, i, i), 0);
        assert_true(depot_index_look(&from.index, hash, i, &word));
        if (i % 2 == 1)
            depot_index_hit(&from.index, hash, word);
    }
    for (uint64_t step = 1; step <= 3; step += 2) { /* the second time two in three are gone */
        base_random_init(&random, 41);
        for (uint64_t i = 1; i <= count; i++) {
            uint64_t hash = base_random_u64(&random);
            assert_true(i % step == 0 || depot_index_remove(&from.index, hash, i));
        }
        open_index(&to, &large);
        assert_int_equal(depot_index_grow_to(&to.index, count / step), 0);
        load_all(&from, &to);
        assert_true(lie_alike(&from, &to) == (step == 1));
        validate(&to);
        expect_loaded(&to, count, step);
        close_index(&to);
    }
    close_index(&from);
}

/* One place, and items of which each says that it is its own: the others lie elsewhere, or find no place. */
static void items_that_are_in_the_way(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    uint64_t hash = hash_of(&small, 3, 8191); /* its neighbourhood is behind the last region's homes */
    insert(&fixture, hash, 1, 1);
    struct depot_index_view view;
    depot_index_find(&fixture.index, hash, &view);
    assert_int_equal(view.count, 1);
    const uint64_t one_address = UINT64_C(1) << INDEX_ADDRESS_SHIFT;
    struct depot_index_item same[DEPOT_CANDIDATES_MAX];
    for (uint32_t i = 0; i < DEPOT_CANDIDATES_MAX; i++)
        same[i] = (struct depot_index_item){.hash = hash, .word = view.words[0] + (i + 1) * one_address};
    assert_int_equal(depot_index_load_items(&fixture.index, same, DEPOT_CANDIDATES_MAX - 1), 0);
    assert_int_equal(find_count(&fixture, hash), DEPOT_CANDIDATES_MAX);
    validate(&fixture);
    assert_int_equal(depot_index_load_items(&fixture.index, &same[DEPOT_CANDIDATES_MAX - 1], 1), -ENOSPC);
    close_index(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_ends_with_the_tag),    cmocka_unit_test(memory_is_taken_in_pieces),
        cmocka_unit_test(inserts_split_regions),       cmocka_unit_test(growth_empties_the_stash),
        cmocka_unit_test(load_grows_at_once),          cmocka_unit_test(memory_that_is_refused),
        cmocka_unit_test(iteration_gives_all_once),    cmocka_unit_test(iteration_leaves_reserved_out),
        cmocka_unit_test(iteration_beside_growth),     cmocka_unit_test(iteration_over_half_split_regions),
        cmocka_unit_test(what_was_iterated_is_loaded), cmocka_unit_test(items_go_where_they_were),
        cmocka_unit_test(items_that_are_in_the_way),   cmocka_unit_test(validation_finds_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
