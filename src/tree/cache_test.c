/* Does a cache keep what was used last, within its bytes, and forget what it is told to? */
#include "base/testing.h"
#include "tree/cache.h"

#define UNIT  512u
#define NODES 100u

static tree_pointer place(unsigned i)
{
    return tree_pointer_to(1 + i % 3, i * 16, i % 2);
}

static struct tree_node *make_node(unsigned i, uint64_t version)
{
    struct tree_node *node = aligned_alloc(8, UNIT * 2);
    assert_non_null(node);
    assert_true(tree_node_init(node, UNIT, i % 2, 1, (struct tree_key){.bytes = (const uint8_t *)""}, NULL));
    tree_node_seal(node, place(i), version);
    return node;
}

static void put(struct tree_cache *cache, unsigned i, uint64_t version)
{
    struct tree_node *node = make_node(i, version);
    tree_cache_put(cache, place(i), node);
    free(node);
}

static void the_latest_used_ones_stay(void **state)
{
    struct base_account account;
    struct tree_cache *cache;
    (void)state;
    base_account_init(&account, UINT64_MAX);
    assert_int_equal(tree_cache_open(&account, UINT64_C(20) * 1100, &cache), 0);
    for (unsigned i = 0; i < NODES; i++) {
        put(cache, i, i);
        put(cache, i, i + 1000); /* in place of the other */
        assert_non_null(tree_cache_find(cache, place(0)));
        assert_true(tree_cache_bytes(cache) <= UINT64_C(20) * 1100);
        assert_int_equal(tree_cache_find(cache, place(i) | 3)->version,
                         i + 1000); /* whatever its class was */
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < NODES; i++)
        kept += tree_cache_find(cache, place(i)) != NULL;
    assert_in_range(kept, 20, 40);
    assert_null(tree_cache_find(cache, place(NODES / 2)));
    assert_non_null(tree_cache_find(cache, place(NODES - 1)));
    tree_cache_drop(cache, place(NODES - 1));
    tree_cache_drop(cache, place(NODES - 1));
    assert_null(tree_cache_find(cache, place(NODES - 1)));
    tree_cache_close(cache);
    tree_cache_close(NULL);
    assert_int_equal(base_account_used(&account), 0);
}

static void without_memory_nothing_is_kept(void **state)
{
    struct base_account account;
    struct tree_cache *cache;
    (void)state;
    base_account_init(&account, UINT64_C(1) << 20);
    assert_int_equal(tree_cache_open(&account, 100, &cache), 0);
    put(cache, 1, 1);
    assert_null(tree_cache_find(cache, place(1)));
    tree_cache_close(cache);
    assert_int_equal(tree_cache_open(&account, UINT64_MAX, &cache), 0);
    const uint64_t left = base_account_left(&account);
    assert_int_equal(base_account_take(&account, left), 0);
    put(cache, 1, 1);
    assert_null(tree_cache_find(cache, place(1)));
    base_account_give(&account, left);
    put(cache, 1, 1);
    assert_non_null(tree_cache_find(cache, place(1)));
    tree_cache_close(cache);
    assert_int_equal(base_account_used(&account), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_latest_used_ones_stay),
                                       cmocka_unit_test(without_memory_nothing_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
