/* Is an entry marked that was hit, wherever it lies, and no other? */
#include "base/random.h"
#include "depot/index/testing.h"

static uint64_t word_of(struct fixture *fixture, uint64_t hash, uint64_t address)
{
    uint64_t word = 0;
    assert_true(depot_index_look(&fixture->index, hash, address, &word));
    return word;
}

static bool is_hit(struct fixture *fixture, uint64_t hash, uint64_t address)
{
    return depot_index_is_hit(word_of(fixture, hash, address));
}

static void hit(struct fixture *fixture, uint64_t hash, uint64_t address)
{
    depot_index_hit(&fixture->index, hash, word_of(fixture, hash, address));
}

/* So many entries of one home: from 33 on they are elsewhere, in the next region or in the stash. */
static void each_is_marked_alone(void **state)
{
    static const uint64_t positions[] = {0, 100, 8191, 8170, 16383, 16370};
    (void)state;
    for (size_t i = 0; i < base_array_count(positions); i++) {
        struct fixture fixture;
        open_index(&fixture, &medium);
        uint64_t hash = hash_of(&medium, 9, positions[i]);
        enum { COUNT = DEPOT_NEIGHBOURHOOD + DEPOT_STASH_ENTRIES };
        for (uint64_t address = 1; address <= COUNT; address++)
            insert(&fixture, hash, address, 1);
        for (uint64_t next = 1; next <= COUNT; next += 3) {
            hit(&fixture, hash, next);
            hit(&fixture, hash, next);
            for (uint64_t address = 1; address <= COUNT; address++)
                assert_int_equal(is_hit(&fixture, hash, address), address <= next && address % 3 == 1);
            validate(&fixture);
        }
        close_index(&fixture);
    }
}

static void a_mark_ends_with_its_entry(void **state)
{
    struct fixture fixture;
    uint64_t hash = hash_of(&small, 3, 77), word;
    (void)state;
    open_index(&fixture, &small);
    insert(&fixture, hash, 5, 1);
    assert_false(is_hit(&fixture, hash, 5));
    uint64_t before = word_of(&fixture, hash, 5);
    hit(&fixture, hash, 5);
    assert_true(depot_index_holds(&fixture.index, hash, before)); /* the same entry */
    assert_true(depot_index_is_same(before, word_of(&fixture, hash, 5)));
    assert_true(depot_index_replace(&fixture.index, hash, 5, 6, 2)); /* stored again */
    assert_false(is_hit(&fixture, hash, 6));
    assert_false(depot_index_is_same(before, word_of(&fixture, hash, 6)));
    depot_index_hit(&fixture.index, hash, before); /* somebody has found it before that */
    assert_false(is_hit(&fixture, hash, 6));
    hit(&fixture, hash, 6);
    assert_true(depot_index_take(&fixture.index, hash, 6, &word));
    assert_true(depot_index_is_hit(word));
    assert_int_equal(depot_index_address(&fixture.index, word), 6);
    assert_false(depot_index_take(&fixture.index, hash, 6, &word));
    depot_index_hit(&fixture.index, hash, word & ~(uint64_t)INDEX_HIT_MASK); /* nothing is there */
    assert_int_equal(depot_index_count(&fixture.index), 0);
    insert(&fixture, hash, 6, 1);
    assert_false(is_hit(&fixture, hash, 6));
    close_index(&fixture);
}

/* Where it is displaced or split it keeps its mark; who has found it before marks nothing. */
static void marks_go_with_their_entries(void **state)
{
    struct fixture fixture;
    struct base_random random;
    uint64_t address = 1;
    (void)state;
    open_index(&fixture, &medium);
    static uint64_t hashes[1 << 14], words[1 << 14];
    base_random_init(&random, 4);
    for (; address < 12000; address++) {
        hashes[address] = base_random_u64(&random);
        insert(&fixture, hashes[address], address, 1);
        words[address] = word_of(&fixture, hashes[address], address);
        if (address % 2 == 0)
            hit(&fixture, hashes[address], address);
    }
    for (uint64_t i = 1; i < address; i++)
        assert_int_equal(is_hit(&fixture, hashes[i], i), i % 2 == 0);
    grow_all(&fixture);
    for (uint64_t i = 1; i < address; i++) {
        assert_int_equal(is_hit(&fixture, hashes[i], i), i % 2 == 0);
        depot_index_hit(&fixture.index, hashes[i], words[i]); /* as it was found then */
    }
    assert_int_equal(depot_index_count(&fixture.index), address - 1);
    close_index(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_marked_alone),
        cmocka_unit_test(a_mark_ends_with_its_entry),
        cmocka_unit_test(marks_go_with_their_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
