/* A meganode for tests. */
#include "tree/testing.h"

void tree_testing_open(struct tree_testing *testing, uint32_t unit_bytes, uint64_t bytes)
{
    testing->region = (struct tarn_fabric_region){.memory = aligned_alloc(4096, bytes), .bytes = bytes};
    assert_non_null(testing->region.memory);
    memset(testing->region.memory, 0x5a, bytes);
    testing->regions[0] = &testing->region;
    testing->memory = (struct tree_memory){.memory = testing->region.memory,
                                           .room_bytes = bytes,
                                           .step_bytes = bytes,
                                           .bytes = bytes,
                                           .regions = testing->regions};
    base_account_init(&testing->account, UINT64_MAX);
    assert_int_equal(tree_mega_open(&(struct tree_mega_options){.account = &testing->account,
                                                                .memory = &testing->memory,
                                                                .region = TREE_TESTING_REGION,
                                                                .unit_bytes = unit_bytes},
                                    &testing->mega),
                     0);
}

void tree_testing_close(struct tree_testing *testing)
{
    tree_mega_close(testing->mega);
    assert_int_equal(base_account_used(&testing->account), 0);
    free(testing->region.memory);
}

struct tree_value tree_testing_value(uint64_t number)
{
    return (struct tree_value){.place = number, .sum = ~number, .bytes = (uint32_t)number + 1};
}

void tree_testing_expect(struct tree_value value, uint64_t number)
{
    assert_int_equal(value.place, number);
    assert_int_equal(value.sum, ~number);
    assert_int_equal(value.bytes, (uint32_t)number + 1);
}
