/* Does the heap give the smallest key first, of equal keys the oldest, under any order of calls? */
#include "base/testing.h"

#include "base/heap.h"
#include "base/random.h"

#define NODES 500

static void test_order_and_ties(void **state base_unused)
{
    static const uint64_t keys[] = {5, 3, 5, 1, 3, 5, 0, UINT64_MAX, 3};
    static const size_t expected[] = {6, 3, 1, 4, 8, 0, 2, 5, 7};
    struct base_heap_node nodes[base_array_count(keys)];
    struct base_heap heap;
    memset(nodes, 0, sizeof(nodes));
    base_heap_init(&heap);
    assert_null(base_heap_min(&heap));
    assert_null(base_heap_pop(&heap));
    for (size_t i = 0; i < base_array_count(keys); i++) {
        assert_false(base_heap_is_linked(&nodes[i]));
        base_heap_insert(&heap, &nodes[i], keys[i]);
        assert_true(base_heap_is_linked(&nodes[i]));
    }
    for (size_t i = 0; i < base_array_count(expected); i++) {
        assert_ptr_equal(base_heap_min(&heap), &nodes[expected[i]]);
        assert_ptr_equal(base_heap_pop(&heap), &nodes[expected[i]]);
        assert_false(base_heap_is_linked(&nodes[expected[i]]));
    }
    assert_int_equal(heap.count, 0);
    assert_null(base_heap_min(&heap));
}

/* The linked node that comes first; NULL if there is none. */
static struct base_heap_node *slow_min(struct base_heap_node *nodes)
{
    struct base_heap_node *min = NULL;
    for (size_t i = 0; i < NODES; i++) {
        struct base_heap_node *node = &nodes[i];
        if (base_heap_is_linked(node) &&
            (min == NULL || node->key < min->key || (node->key == min->key && node->order < min->order)))
            min = node;
    }
    return min;
}

static void test_random_operations_against_a_search(void **state base_unused)
{
    struct base_heap_node nodes[NODES];
    memset(nodes, 0, sizeof(nodes));
    struct base_heap heap;
    struct base_random random;
    base_heap_init(&heap);
    base_random_init(&random, 3);
    size_t count = 0;
    for (int round = 0; round < 20000; round++) {
        struct base_heap_node *node = &nodes[base_random_below(&random, NODES)];
        bool emptying = round / 2000 % 2 == 1;
        if (!base_heap_is_linked(node) && !emptying) {
            base_heap_insert(&heap, node, base_random_below(&random, 50));
            count++;
        } else if (base_heap_is_linked(node) && base_random_below(&random, 2) == 0) {
            base_heap_remove(&heap, node);
            count--;
        } else if (emptying && count > 0) {
            struct base_heap_node *min = slow_min(nodes);
            assert_ptr_equal(base_heap_pop(&heap), min);
            count--;
        }
        assert_int_equal(heap.count, count);
        assert_ptr_equal(base_heap_min(&heap), slow_min(nodes));
    }
}

/* Depth must not matter: descending keys make a chain, ascending ones a root with a list of children. */
static void test_a_million_in_any_order(void **state base_unused)
{
    size_t count = 1000000;
    struct base_heap_node *nodes = calloc(count, sizeof(*nodes));
    assert_non_null(nodes);
    for (int descending = 0; descending < 2; descending++) {
        struct base_heap heap;
        base_heap_init(&heap);
        for (size_t i = 0; i < count; i++)
            base_heap_insert(&heap, &nodes[i], descending ? count - i : i);
        /* The last removed has the deepest chain below or beside it. */
        base_heap_remove(&heap, &nodes[count / 2]);
        uint64_t last = 0;
        for (size_t i = 0; i < count - 1; i++) {
            struct base_heap_node *node = base_heap_pop(&heap);
            if (node == NULL || node->key < last)
                fail();
            last = node->key;
        }
        assert_null(base_heap_pop(&heap));
    }
    free(nodes);
}

static void remove_unlinked(void *arg base_unused)
{
    struct base_heap heap;
    struct base_heap_node node = {0};
    base_heap_init(&heap);
    base_heap_remove(&heap, &node);
}

static void test_removing_what_is_not_there_aborts(void **state base_unused)
{
    assert_true(testing_aborts(remove_unlinked, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_ties),
        cmocka_unit_test(test_random_operations_against_a_search),
        cmocka_unit_test(test_a_million_in_any_order),
        cmocka_unit_test(test_removing_what_is_not_there_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
