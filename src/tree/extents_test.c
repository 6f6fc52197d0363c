/* Do pieces of a memory keep apart, whatever is taken and given back, and is what is free found again? */
#include "base/testing.h"
#include "tree/extents.h"
#include <inttypes.h>

#define BYTES  (UINT64_C(4) << 20)
#define PIECES 8000u

struct fixture {
    struct base_account account;
    struct tree_extents *extents;
    uint8_t *memory;
    struct tree_memory all;
    uint64_t offsets[PIECES], bytes[PIECES]; /* 0: not taken */
    struct base_random random;
};

static struct fixture *open_fixture(void)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->memory = aligned_alloc(4096, BYTES);
    assert_non_null(fixture->memory);
    memset(fixture->memory, 0xa5, BYTES);
    fixture->all = (struct tree_memory){
        .memory = fixture->memory, .room_bytes = BYTES, .step_bytes = BYTES, .bytes = BYTES};
    base_account_init(&fixture->account, UINT64_MAX);
    base_random_init(&fixture->random, 1);
    assert_int_equal(tree_extents_open(&fixture->account, &fixture->all, &fixture->extents), 0);
    return fixture;
}

static void close_fixture(struct fixture *fixture)
{
    tree_extents_close(fixture->extents);
    assert_int_equal(base_account_used(&fixture->account), 0);
    free(fixture->memory);
    free(fixture);
}

static void check(const struct fixture *fixture)
{
    const char *why = "";
    int error = tree_extents_check(fixture->extents, &why);
    if (error != 0)
        print_message("%s\n", why);
    assert_int_equal(error, 0);
}

/* What a piece has: its number, in every byte. */
static bool take(struct fixture *fixture, unsigned i, uint64_t bytes)
{
    const uint64_t offset = tree_extents_take(fixture->extents, bytes);
    if (offset == 0)
        return false;
    assert_int_equal(offset % TREE_EXTENT_ALIGNMENT, 0);
    assert_in_range(offset + bytes, 1, BYTES);
    memset(fixture->memory + offset, (int)(i & 0xff), bytes);
    fixture->offsets[i] = offset;
    fixture->bytes[i] = bytes;
    return true;
}

static void give(struct fixture *fixture, unsigned i)
{
    for (uint64_t k = 0; k < fixture->bytes[i]; k++)
        assert_int_equal(fixture->memory[fixture->offsets[i] + k], i & 0xff);
    tree_extents_give(fixture->extents, fixture->offsets[i]);
    fixture->bytes[i] = 0;
}

/* Lengths of all magnitudes. */
static uint64_t some_bytes(struct fixture *fixture)
{
    return 1 + base_random_below(&fixture->random, UINT64_C(1) << base_random_below(&fixture->random, 15));
}

static void pieces_keep_apart(void **state)
{
    struct fixture *fixture = open_fixture();
    uint64_t refused = 0;
    (void)state;
    for (unsigned step = 0; step < 60000; step++) {
        const unsigned i = (unsigned)base_random_below(&fixture->random, PIECES);
        if (fixture->bytes[i] != 0)
            give(fixture, i);
        else
            refused += !take(fixture, i, some_bytes(fixture));
        if (step % 1000 == 0)
            check(fixture);
    }
    assert_true(refused > 0); /* it was full now and then */
    for (unsigned i = 0; i < PIECES; i++) {
        if (fixture->bytes[i] != 0)
            give(fixture, i);
    }
    check(fixture);
    assert_int_equal(tree_extents_used(fixture->extents), 0);
    assert_int_equal(tree_extents_top(fixture->extents), TREE_EXTENT_ALIGNMENT); /* all of it is one again */
    assert_true(take(fixture, 0, BYTES - 2 * TREE_EXTENT_ALIGNMENT));
    close_fixture(fixture);
}

/* A piece fits where one of its size was, and what was freed in parts is used as a whole. */
static void what_is_free_is_found(void **state)
{
    struct fixture *fixture = open_fixture();
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_true(take(fixture, i, 1000));
    const uint64_t top = tree_extents_top(fixture->extents);
    for (unsigned i = 0; i < 100; i += 2)
        give(fixture, i);
    check(fixture);
    for (unsigned i = 0; i < 100; i += 2)
        assert_true(take(fixture, i, 1000));
    assert_int_equal(tree_extents_top(fixture->extents), top);
    for (unsigned i = 0; i < 100; i++) { /* ten that lie together */
        if (i != 21 && fixture->offsets[i] >= fixture->offsets[11] &&
            fixture->offsets[i] < fixture->offsets[21])
            give(fixture, i);
    }
    check(fixture);
    assert_true(take(fixture, 10, 10000));
    assert_int_equal(tree_extents_top(fixture->extents), top);
    check(fixture);
    close_fixture(fixture);
}

static void the_top_has_a_limit(void **state)
{
    struct fixture *fixture = open_fixture();
    (void)state;
    fixture->all.bytes = 1000;
    assert_int_equal(tree_extents_take(fixture->extents, 1000), 0);
    fixture->all.bytes = 1100;
    assert_true(tree_extents_take(fixture->extents, 1000) != 0);
    fixture->all.bytes = 2000;
    const uint64_t second = tree_extents_take(fixture->extents, 100);
    assert_true(second != 0);
    assert_int_equal(tree_extents_take(fixture->extents, 1000), 0);
    tree_extents_give(fixture->extents, second);
    assert_int_equal(tree_extents_take(fixture->extents, 900), second);
    fixture->all.bytes = BYTES;
    tree_extents_clear(fixture->extents);
    check(fixture);
    assert_int_equal(tree_extents_used(fixture->extents), 0);
    assert_true(take(fixture, 0, BYTES - 2 * TREE_EXTENT_ALIGNMENT));
    assert_false(take(fixture, 1, 1));
    check(fixture);
    close_fixture(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_keep_apart),
                                       cmocka_unit_test(what_is_free_is_found),
                                       cmocka_unit_test(the_top_has_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
