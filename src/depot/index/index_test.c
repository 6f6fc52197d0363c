/* Does each function of the index do what its header says, edges and errors included? */
#include "depot/index/testing.h"
#include <stdio.h>
#include <unistd.h>

/* ---- widths and lengths ------------------------------------------------------------------------- */

static void expect_widths(uint64_t bytes, uint64_t grain_bytes, uint32_t address, uint32_t tag,
                          uint32_t table)
{
    struct depot_index_widths widths;
    uint64_t grains = bytes / grain_bytes;
    assert_int_equal(depot_index_widths_choose(grains, &widths), 0);
    assert_int_equal(widths.address_bits, address);
    assert_int_equal(widths.tag_bits, tag);
    assert_int_equal(widths.table_bits, table);
    assert_int_equal(5 + 1 + DEPOT_SIZE_BITS + widths.address_bits + widths.tag_bits, 64);
    assert_true(depot_index_widths_valid(&widths, grains));
    /* every address fits below the one that marks reserved entries */
    assert_true(grains - 1 < ((uint64_t)1 << widths.address_bits) - 1);
    /* an entry for each grain at the largest growth, and no smaller table would do */
    uint32_t positions_bits = (uint32_t)widths.table_bits + widths.tag_bits - DEPOT_TAG_BITS_LEFT;
    assert_true((uint64_t)1 << positions_bits >= grains);
    assert_true(widths.table_bits == 13 || (uint64_t)1 << (positions_bits - 1) < grains);
}

static void widths_fit_the_store(void **state)
{
    (void)state;
    expect_widths((uint64_t)1 << 20, 64, 20, 28, 13);
    expect_widths((uint64_t)64 << 20, 64, 21, 27, 13);
    expect_widths((uint64_t)10 << 30, 64, 28, 20, 14);
    expect_widths(1000000000000, 64, 34, 14, 26);
    expect_widths(1000000000000000, 4096, 38, 10, 34);
    expect_widths(((uint64_t)1 << 40) - 1, 1, 40, 8, 38);
    expect_widths((uint64_t)1 << 39, 1, 40, 8, 37);
    expect_widths(((uint64_t)1 << 39) - 1, 1, 39, 9, 36);
    expect_widths(2, 1, 20, 28, 13);
    struct depot_index_widths widths = {1, 2, 3};
    assert_int_equal(depot_index_widths_choose((uint64_t)1 << 40, &widths), -EINVAL);
    assert_int_equal(depot_index_widths_choose(1000000000000000 / 64, &widths), -EINVAL);
    assert_int_equal(depot_index_widths_choose(UINT64_MAX, &widths), -EINVAL);
    assert_int_equal(depot_index_widths_choose(1, &widths), -EINVAL);
    assert_int_equal(depot_index_widths_choose(0, &widths), -EINVAL);
    assert_int_equal(widths.address_bits, 1); /* untouched */
}

static void impossible_widths_are_refused(void **state)
{
    (void)state;
    const uint64_t grains = (uint64_t)1 << 30;
    const struct depot_index_widths right = {.address_bits = 31, .tag_bits = 17, .table_bits = 19};
    struct depot_index_widths chosen;
    assert_int_equal(depot_index_widths_choose(grains, &chosen), 0);
    assert_memory_equal(&chosen, &right, sizeof(right));
    static const struct depot_index_widths wrong[] = {
        {0, 0, 0},    {255, 255, 255}, {31, 16, 19}, {31, 18, 19}, {31, 17, 18}, {31, 17, 31}, {30, 18, 18},
        {19, 29, 19}, {41, 7, 29},     {31, 17, 12}, {31, 17, 64}, {0, 48, 13},  {48, 0, 30},
    };
    for (size_t i = 0; i < base_array_count(wrong); i++)
        assert_false(depot_index_widths_valid(&wrong[i], grains));
    assert_true(depot_index_widths_valid(&(struct depot_index_widths){31, 17, 20}, grains));
    assert_true(depot_index_widths_valid(&(struct depot_index_widths){32, 16, 20}, grains));
    assert_true(depot_index_widths_valid(&(struct depot_index_widths){31, 17, 30}, grains));
    assert_true(depot_index_widths_valid(&(struct depot_index_widths){40, 8, 28}, grains));
    assert_false(depot_index_widths_valid(&(struct depot_index_widths){20, 28, 14}, 1000));
    assert_false(depot_index_widths_valid(&(struct depot_index_widths){20, 28, 13}, 1));
}

static void lengths_are_rounded_up_a_little(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (uint32_t size = 1; size < 1 << DEPOT_SIZE_BITS; size++) {
        uint64_t grains = seglog_length_of_class(size);
        if (grains == UINT64_MAX)
            break; /* beyond what any length is */
        assert_true(grains > last);
        assert_int_equal(seglog_length_class(grains), size);
        assert_int_equal(seglog_length_class(last + 1), size);
        last = grains;
    }
    assert_true(last >= (uint64_t)1 << 31);
    for (uint64_t grains = 1; grains < 100000; grains++) {
        uint64_t decoded = seglog_length_of_class(seglog_length_class(grains));
        assert_true(decoded >= grains && decoded <= grains + (grains > 63 ? grains / 32 : 0));
        assert_true(seglog_length_class(grains) < 1 << DEPOT_SIZE_BITS);
    }
    assert_int_equal(seglog_length_class(63), 63);
    assert_int_equal(seglog_length_class(64), 64);
    assert_int_equal(seglog_length_of_class(seglog_length_class(65)), 66);
    assert_true(seglog_length_class((uint64_t)1 << 35) < 1 << DEPOT_SIZE_BITS);
}

/* ---- single entries ----------------------------------------------------------------------------- */

static void an_entry_lives_its_life(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_index_view view;
    open_index(&fixture, &medium);
    struct depot_index *index = &fixture.index;
    uint64_t hash = hash_of(&medium, 0x2aaaaa, 77);
    assert_int_equal(find_count(&fixture, hash), 0);
    assert_int_equal(depot_index_reserve(index, hash), 0);
    assert_int_equal(depot_index_count(index), 1);
    assert_int_equal(find_count(&fixture, hash), 0);
    depot_index_publish(index, hash, 5, 65);
    assert_int_equal(depot_index_count(index), 1);
    depot_index_find(index, hash, &view);
    assert_int_equal(view.count, 1);
    uint64_t word = view.words[0];
    assert_int_equal(depot_index_address(index, word), 5);
    assert_int_equal(depot_index_grains(index, word), 66);
    assert_true(depot_index_holds(index, hash, word));
    assert_false(depot_index_holds(index, hash, word + ((uint64_t)1 << INDEX_ADDRESS_SHIFT)));
    assert_false(depot_index_holds(index, hash, word + (1 << INDEX_SIZE_SHIFT)));
    assert_true(depot_index_has(index, hash, 5));
    assert_false(depot_index_has(index, hash, 6));
    assert_int_equal(find_count(&fixture, hash ^ 1), 0);
    assert_int_equal(find_count(&fixture, hash_of(&medium, 0x2aaaab, 77)), 0);
    assert_false(depot_index_replace(index, hash, 6, 7, 1));
    assert_true(depot_index_replace(index, hash, 5, 7, 1));
    assert_false(depot_index_has(index, hash, 5));
    assert_true(depot_index_has(index, hash, 7));
    assert_false(depot_index_holds(index, hash, word));
    assert_false(depot_index_remove(index, hash, 5));
    assert_true(depot_index_remove(index, hash, 7));
    assert_false(depot_index_remove(index, hash, 7));
    assert_int_equal(find_count(&fixture, hash), 0);
    assert_int_equal(depot_index_count(index), 0);
    close_index(&fixture);
}

/* The bits above the tag are nobody's: they do not tell hashes apart. */
static void only_known_bits_count(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    uint64_t hash = hash_of(&small, 3, 9);
    insert(&fixture, hash | (uint64_t)1 << 36, 5, 1);
    assert_int_equal(find_count(&fixture, hash), 1);
    assert_int_equal(find_count(&fixture, hash | (uint64_t)3 << 62), 1);
    assert_int_equal(find_count(&fixture, hash | (uint64_t)1 << 35), 0);
    close_index(&fixture);
}

/* Tag 0 at offset 0 looks like an empty word, and the highest tag like nothing else. */
static void extreme_tags_are_ordinary(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    const uint64_t positions[] = {0, 1, 31, 8191, 8192, 8160, 8161, 16352, 16383};
    const uint64_t tags[] = {0, 1, 0x7fffff, 0x400000};
    uint64_t address = 1;
    for (size_t i = 0; i < base_array_count(positions); i++) {
        for (size_t k = 0; k < base_array_count(tags); k++) {
            uint64_t hash = hash_of(&medium, tags[k], positions[i]);
            assert_int_equal(find_count(&fixture, hash), 0);
            insert(&fixture, hash, address, 1);
            assert_true(depot_index_has(&fixture.index, hash, address++));
        }
    }
    insert(&fixture, 4711, fixture.index.address_mask - 1, 1); /* the highest address */
    assert_int_equal(find_count(&fixture, 4711), 1);
    validate(&fixture);
    for (size_t i = 0, at = 1; i < base_array_count(positions); i++) {
        for (size_t k = 0; k < base_array_count(tags); k++)
            assert_true(depot_index_remove(&fixture.index, hash_of(&medium, tags[k], positions[i]), at++));
    }
    assert_int_equal(depot_index_count(&fixture.index), 1);
    close_index(&fixture);
}

static void equal_hashes_coexist(void **state)
{
    (void)state;
    struct fixture fixture;
    struct depot_index_view view;
    open_index(&fixture, &small);
    struct depot_index *index = &fixture.index;
    for (int i = 0; i < 3; i++)
        assert_int_equal(depot_index_reserve(index, 99), 0);
    depot_index_publish(index, 99, 10, 1);
    depot_index_cancel(index, 99);
    depot_index_publish(index, 99, 11, 2);
    depot_index_find(index, 99, &view);
    assert_int_equal(view.count, 2);
    assert_int_equal(depot_index_address(index, view.words[0]), 10);
    assert_int_equal(depot_index_address(index, view.words[1]), 11);
    assert_int_equal(depot_index_count(index), 2);
    assert_true(depot_index_remove(index, 99, 10));
    assert_true(depot_index_has(index, 99, 11));
    close_index(&fixture);
}

/* Every visible change of a neighbourhood's regions shows, whichever of the two it is in. */
static void changes_are_noticed(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    struct depot_index *index = &fixture.index;
    for (uint64_t other = 0; other < 2; other++) {
        struct depot_index_view view;
        uint64_t hash = hash_of(&medium, 1, 8190); /* both regions */
        uint64_t neighbour = 100 + other * DEPOT_REGION_ENTRIES;
        depot_index_find(index, hash, &view);
        assert_true(depot_index_unchanged(&view));
        assert_int_equal(depot_index_reserve(index, neighbour), 0);
        depot_index_publish(index, neighbour, 5, 1);
        assert_false(depot_index_unchanged(&view));
        depot_index_find(index, hash, &view);
        assert_true(depot_index_unchanged(&view));
        assert_true(depot_index_replace(index, neighbour, 5, 6, 1));
        assert_false(depot_index_unchanged(&view));
        depot_index_find(index, hash, &view);
        assert_true(depot_index_remove(index, neighbour, 6));
        assert_false(depot_index_unchanged(&view));
        depot_index_find(index, hash, &view);
        depot_index_clear(index);
        assert_false(depot_index_unchanged(&view));
    }
    struct depot_index_view view;
    depot_index_find(index, 1, &view);
    grow_all(&fixture);
    assert_false(depot_index_unchanged(&view));
    depot_index_find(index, 1, &view);
    insert(&fixture, 1 + DEPOT_REGION_ENTRIES, 5, 1); /* not its regions */
    assert_true(depot_index_unchanged(&view));
    close_index(&fixture);
}

/* A region that is locked and half changed makes readers wait for the lock, and both regions are looked at.
 */
static void disturbed_readers_take_the_lock(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    uint64_t hash = hash_of(&medium, 1, 8190);
    insert(&fixture, hash, 5, 1);
    for (uint64_t number = 0; number < 2; number++) {
        struct depot_index_part part = depot_index_lock_part(&fixture.index, 1, number);
        depot_index_change_begin(part.region);
        base_spin_unlock(&part.region->lock);
        assert_int_equal(find_count(&fixture, hash), 1);
        assert_true(depot_index_has(&fixture.index, hash, 5));
        depot_index_change_end(part.region);
    }
    close_index(&fixture);
}

/* Vectors or word by word: each place is compared with its own number, under the mask. */
static void both_ways_of_comparing_agree(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    _Atomic uint64_t words[DEPOT_NEIGHBOURHOOD + 1];
    open_index(&fixture, &small);
    bool has_wide_vectors = fixture.index.has_wide_vectors;
    base_random_init(&random, 1);
    for (int round = 0; round < 2000; round++) {
        uint64_t tag = base_random_below(&random, 2) << 63;
        uint32_t expected = 0;
        uint32_t empty = 0;
        for (uint32_t i = 0; i <= DEPOT_NEIGHBOURHOOD; i++) /* few tags and offsets, so that many match */
            atomic_init(&words[i], base_random_below(&random, 3) == 0
                                       ? 0
                                       : base_random_below(&random, 2) << 63 |
                                             base_random_below(&random, 8) << 5 |
                                             (i ^ base_random_below(&random, 2)));
        const _Atomic uint64_t *at = &words[round % 2]; /* at any multiple of 8 bytes */
        for (uint32_t i = 0; i < DEPOT_NEIGHBOURHOOD; i++) {
            expected |= (uint32_t)((at[i] & ((uint64_t)1 << 63 | 31)) == (tag | i)) << i;
            empty |= (uint32_t)(at[i] == 0) << i;
        }
        for (int wide = 0; wide <= has_wide_vectors; wide++) {
            fixture.index.has_wide_vectors = wide;
            assert_int_equal(depot_index_match(&fixture.index, at, (uint64_t)1 << 63 | 31, tag, 1), expected);
            assert_int_equal(depot_index_match(&fixture.index, at, UINT64_MAX, 0, 0), empty);
        }
    }
    close_index(&fixture);
}

/* ---- many entries ------------------------------------------------------------------------------- */

static void a_table_is_filled_well(void **state)
{
    (void)state;
    const struct depot_index_widths *all[] = {&small, &medium, &large};
    for (uint64_t i = 0; i < 12; i++) {
        struct fixture fixture;
        open_index(&fixture, all[i % 3]);
        uint64_t percent = index_fill(&fixture, all[i % 3], i + 1);
        print_message("%u bits: %u %%\n", all[i % 3]->table_bits, (unsigned)percent);
        assert_true(percent >= 90);
        assert_true(depot_index_wants_growth(&fixture.index));
        close_index(&fixture);
    }
}

static void growth_is_wanted_in_time(void **state)
{
    (void)state;
    struct fixture fixture;
    struct base_random random;
    open_index(&fixture, &large);
    base_random_init(&random, 5);
    uint64_t count = 0;
    while (!depot_index_wants_growth(&fixture.index)) {
        insert(&fixture, base_random_u64(&random), ++count, 1);
        assert_int_equal(depot_index_count(&fixture.index), count);
    }
    uint64_t percent = count * 100 / depot_index_capacity(&fixture.index);
    assert_in_range(percent, 80, 81);
    assert_int_equal(depot_index_grow_begin(&fixture.index), 0);
    assert_false(depot_index_wants_growth(&fixture.index));
    assert_int_equal(depot_index_grow_begin(&fixture.index), -EALREADY);
    while (depot_index_grow_step(&fixture.index, 1))
        validate(&fixture);
    assert_false(depot_index_grow_step(&fixture.index, 1));
    assert_false(depot_index_wants_growth(&fixture.index));
    assert_int_equal(depot_index_capacity(&fixture.index), 2 << 15);
    close_index(&fixture);
}

/* What is charged is close to 8 bytes an entry, and an empty index takes no memory to speak of. */
static void memory_is_charged(void **state)
{
    (void)state;
    const struct depot_index_widths widths = {.address_bits = 25, .tag_bits = 23, .table_bits = 24};
    struct fixture fixture;
    open_index(&fixture, &widths);
    uint64_t entries = depot_index_capacity(&fixture.index);
    assert_in_range(depot_index_bytes(&fixture.index), entries * 8, entries * 8 + entries * 8 / 200);
    uint64_t before;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%*u %lu", &before), 1);
    (void)fclose(statm);
    assert_true(before * (uint64_t)sysconf(_SC_PAGESIZE) < entries * 8);
    close_index(&fixture);
}

/* Entries of one tag in one stash are told apart by their homes, whatever is done with them. */
static void homes_in_a_stash_are_kept_apart(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    struct depot_index *index = &fixture.index;
    const uint64_t homes[] = {100, 500};
    for (uint64_t i = 0; i < (uint64_t)2 * DEPOT_NEIGHBOURHOOD; i++)
        insert(&fixture, hash_of(&small, 3, homes[i % 2]), 1000 + i, 1);
    for (size_t i = 0; i < base_array_count(homes); i++)
        assert_int_equal(depot_index_reserve(index, hash_of(&small, 3, homes[i])), 0);
    depot_index_publish(index, hash_of(&small, 3, homes[1]), 7, 1);
    assert_true(depot_index_has(index, hash_of(&small, 3, homes[1]), 7));
    assert_false(depot_index_has(index, hash_of(&small, 3, homes[0]), 7));
    assert_false(depot_index_remove(index, hash_of(&small, 3, homes[0]), 7));
    assert_false(depot_index_replace(index, hash_of(&small, 3, homes[0]), 7, 8, 1));
    depot_index_cancel(index, hash_of(&small, 3, homes[0]));
    assert_true(depot_index_replace(index, hash_of(&small, 3, homes[1]), 7, 8, 1));
    assert_true(depot_index_remove(index, hash_of(&small, 3, homes[1]), 8));
    assert_int_equal(depot_index_count(index), 2 * DEPOT_NEIGHBOURHOOD);
    close_index(&fixture);
}

/* A neighbourhood that ends in its region makes room by way of the next region. */
static void displacing_crosses_regions(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &medium);
    const uint64_t first = 8150;
    for (uint64_t position = first; position < 8192; position++)
        insert(&fixture, hash_of(&medium, 1, position), position, 1);
    /* what is displaced first goes the farthest: from the second half to behind the end */
    struct depot_index_view moved;
    struct depot_index_view behind;
    depot_index_find(&fixture.index, hash_of(&medium, 1, 8192 - 31), &moved);
    depot_index_find(&fixture.index, hash_of(&medium, 1, 9000), &behind);
    assert_int_equal(moved.count, 1);
    insert(&fixture, hash_of(&medium, 2, first), 1, 1);
    assert_false(depot_index_unchanged(&behind));
    assert_false(depot_index_unchanged(&moved));
    assert_true(depot_index_holds(&fixture.index, moved.hash, moved.words[0]));
    assert_true(depot_index_holds(&fixture.index, moved.hash, moved.words[0] | INDEX_HIT_MASK));
    depot_index_find(&fixture.index, moved.hash, &behind);
    assert_int_equal(behind.words[0], moved.words[0] + 31); /* it is where it was expected */
    const struct depot_index_table *table = &depot_index_directory_now(&fixture.index)->tables[0];
    assert_int_equal(table->regions[0].stash_count, 0);
    assert_int_equal(table->regions[0].used, 8192 - first);
    assert_int_equal(table->regions[1].used, 1);
    assert_true(depot_index_has(&fixture.index, hash_of(&medium, 2, first), 1));
    for (uint64_t position = first; position < 8192; position++)
        assert_true(depot_index_has(&fixture.index, hash_of(&medium, 1, position), position));
    close_index(&fixture);
}

static void colliding_keys_are_refused(uint64_t position, bool same_tag)
{
    struct fixture fixture;
    open_index(&fixture, &medium);
    uint64_t stored = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t hash = hash_of(&medium, same_tag ? 5 : i, position);
        int result = depot_index_reserve(&fixture.index, hash);
        if (result == 0)
            depot_index_publish(&fixture.index, hash, ++stored, 1);
        else
            assert_int_equal(result, -ENOSPC);
    }
    assert_int_equal(stored, DEPOT_NEIGHBOURHOOD + DEPOT_STASH_ENTRIES);
    assert_int_equal(depot_index_count(&fixture.index), stored);
    assert_false(depot_index_wants_growth(&fixture.index));
    validate(&fixture);
    assert_int_equal(find_count(&fixture, hash_of(&medium, 5, position)), same_tag ? stored : 1);
    for (uint64_t i = 0; i < stored; i++) {
        uint64_t hash = hash_of(&medium, same_tag ? 5 : i, position);
        assert_true(depot_index_has(&fixture.index, hash, i + 1));
        assert_false(depot_index_has(&fixture.index, hash + 1, i + 1));
    }
    /* the stash has homes: a neighbour's key of the same tag is not found there */
    assert_int_equal(find_count(&fixture, hash_of(&medium, stored - 1, position ^ 1)), 0);
    grow_all(&fixture);
    validate(&fixture);
    for (uint64_t i = 0; i < stored; i++) {
        uint64_t hash = hash_of(&medium, same_tag ? 5 : i, position);
        assert_true(depot_index_replace(&fixture.index, hash, i + 1, i + 1001, 1));
        assert_true(depot_index_remove(&fixture.index, hash, i + 1001));
    }
    assert_int_equal(depot_index_count(&fixture.index), 0);
    close_index(&fixture);
}

static void hostile_keys_do_not_grow_it(void **state)
{
    (void)state;
    static const uint64_t positions[] = {0, 4000, 8160, 8161, 8191, 8192, 16352, 16383};
    for (size_t i = 0; i < base_array_count(positions); i++) {
        colliding_keys_are_refused(positions[i], false);
        colliding_keys_are_refused(positions[i], true);
    }
}

static void a_stash_takes_reservations(void **state)
{
    (void)state;
    struct fixture fixture;
    open_index(&fixture, &small);
    struct depot_index *index = &fixture.index;
    for (int i = 0; i < DEPOT_NEIGHBOURHOOD; i++)
        insert(&fixture, 7, (uint64_t)i + 1, 1);
    for (int i = 0; i < DEPOT_STASH_ENTRIES; i++)
        assert_int_equal(depot_index_reserve(index, 7), 0);
    assert_int_equal(depot_index_reserve(index, 7), -ENOSPC);
    assert_int_equal(find_count(&fixture, 7), 32);
    validate(&fixture);
    depot_index_publish(index, 7, 100, 3);
    depot_index_cancel(index, 7);
    assert_int_equal(find_count(&fixture, 7), 33);
    assert_int_equal(depot_index_count(index), DEPOT_NEIGHBOURHOOD + DEPOT_STASH_ENTRIES - 1);
    depot_index_clear(index);
    assert_int_equal(depot_index_count(index), DEPOT_STASH_ENTRIES - 2);
    validate(&fixture);
    grow_all(&fixture);
    for (int i = 0; i < DEPOT_STASH_ENTRIES - 2; i++)
        depot_index_cancel(index, 7);
    assert_int_equal(depot_index_count(index), 0);
    close_index(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_fit_the_store),
        cmocka_unit_test(impossible_widths_are_refused),
        cmocka_unit_test(lengths_are_rounded_up_a_little),
        cmocka_unit_test(an_entry_lives_its_life),
        cmocka_unit_test(only_known_bits_count),
        cmocka_unit_test(extreme_tags_are_ordinary),
        cmocka_unit_test(equal_hashes_coexist),
        cmocka_unit_test(changes_are_noticed),
        cmocka_unit_test(disturbed_readers_take_the_lock),
        cmocka_unit_test(both_ways_of_comparing_agree),
        cmocka_unit_test(a_table_is_filled_well),
        cmocka_unit_test(growth_is_wanted_in_time),
        cmocka_unit_test(memory_is_charged),
        cmocka_unit_test(homes_in_a_stash_are_kept_apart),
        cmocka_unit_test(displacing_crosses_regions),
        cmocka_unit_test(hostile_keys_do_not_grow_it),
        cmocka_unit_test(a_stash_takes_reservations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
