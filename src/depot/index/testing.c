/* What the index's tests share: an index of a few regions, and what every test does with it. */
#include "depot/index/testing.h"

const struct depot_index_widths small = {.address_bits = 25, .tag_bits = 23, .table_bits = 13};

const struct depot_index_widths medium = {.address_bits = 25, .tag_bits = 23, .table_bits = 14};

const struct depot_index_widths large = {.address_bits = 25, .tag_bits = 23, .table_bits = 15};

void open_index(struct fixture *fixture, const struct depot_index_widths *widths)
{
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(depot_index_init(&fixture->index, &fixture->account, widths), 0);
    assert_int_equal(depot_index_bytes(&fixture->index), base_account_used(&fixture->account));
}

void validate(struct fixture *fixture)
{
    const char *wrong = NULL;
    if (depot_index_validate(&fixture->index, &wrong) != 0)
        fail_msg("%s", wrong);
}

void close_index(struct fixture *fixture)
{
    validate(fixture);
    assert_int_equal(depot_index_bytes(&fixture->index), base_account_used(&fixture->account));
    depot_index_deinit(&fixture->index);
    base_account_deinit(&fixture->account);
}

uint64_t hash_of(const struct depot_index_widths *widths, uint64_t tag, uint64_t position)
{
    return tag << widths->table_bits | position;
}

void insert(struct fixture *fixture, uint64_t hash, uint64_t address, uint64_t grains)
{
    assert_int_equal(depot_index_reserve(&fixture->index, hash), 0);
    depot_index_publish(&fixture->index, hash, address, grains);
}

uint32_t find_count(struct fixture *fixture, uint64_t hash)
{
    struct depot_index_view view;
    depot_index_find(&fixture->index, hash, &view);
    assert_int_equal(view.hash, hash);
    return view.count;
}

void grow_all(struct fixture *fixture)
{
    assert_int_equal(depot_index_grow_begin(&fixture->index), 0);
    while (depot_index_grow_step(&fixture->index, 1)) {
    }
}

uint64_t index_fill(struct fixture *fixture, const struct depot_index_widths *widths, uint64_t seed)
{
    struct base_random random;
    int result;
    uint64_t address = 1;
    base_random_init(&random, seed);
    do {
        uint64_t hash = base_random_u64(&random);
        result = depot_index_reserve(&fixture->index, hash);
        if (result == 0)
            depot_index_publish(&fixture->index, hash, address++, 1);
    } while (result == 0);
    assert_int_equal(result, -EAGAIN);
    uint64_t count = depot_index_count(&fixture->index);
    assert_int_equal(count, address - 1);
    /* all are found */
    base_random_init(&random, seed);
    for (address = 1; address <= count; address++)
        assert_true(depot_index_has(&fixture->index, base_random_u64(&random), address));
    assert_int_equal(depot_index_capacity(&fixture->index), (uint64_t)1 << widths->table_bits);
    return count * 100 / depot_index_capacity(&fixture->index);
}
