/* Does the selector choose as Cell's §2.4 says, and does it learn of changes? */
#include "base/testing.h"
#include "tree/selector.h"

#define NEVER UINT64_MAX /* a random number with which nothing is explored */

static void teach(struct tree_selector *selector, unsigned count, uint64_t call_ns, uint64_t read_ns)
{
    for (unsigned i = 0; i < count; i++) {
        tree_selector_called(selector, call_ns + i % 3);
        tree_selector_read(selector, read_ns + i % 3);
    }
}

static void both_ways_are_tried_first(void **state)
{
    struct tree_selector selector;
    (void)state;
    tree_selector_init(&selector, NULL);
    assert_false(tree_selector_reads(&selector, 1, NEVER));
    tree_selector_called(&selector, 10000);
    assert_true(tree_selector_reads(&selector, 2, NEVER));
    assert_int_equal(selector.asked, 1);
    assert_int_equal(selector.read_by_itself, 1);
}

static void the_shorter_queue_is_joined(void **state)
{
    struct tree_selector selector;
    (void)state;
    tree_selector_init(&selector, NULL);
    tree_selector_read(&selector, 2000); /* a round trip */
    teach(&selector, 100, 12000, 3000);  /* 10 us there, 5 x 1 us here */
    assert_true(tree_selector_reads(&selector, 1, NEVER));
    teach(&selector, 400, 12000, 8000); /* 5 x 6 us here */
    assert_false(tree_selector_reads(&selector, 2, NEVER));
    for (unsigned i = 0; i < 1000; i++)
        tree_selector_searched(&selector, 1, 0); /* nearly all nodes were cached: 6 us */
    assert_true(tree_selector_reads(&selector, 3, NEVER));
}

static void outliers_do_not_count_until_they_are_many(void **state)
{
    struct tree_selector selector;
    (void)state;
    tree_selector_init(&selector, NULL);
    tree_selector_read(&selector, 2000);
    teach(&selector, 100, 12000, 3000);
    for (unsigned i = 0; i < 40; i++)
        tree_selector_read(&selector, 10000000);
    assert_true(tree_selector_reads(&selector, 1, NEVER));
    for (unsigned i = 0; i < 40; i++)
        tree_selector_read(&selector, 10000000);
    assert_false(tree_selector_reads(&selector, 2, NEVER));
}

static void a_pause_is_forgotten_and_the_other_way_is_explored(void **state)
{
    struct tree_selector selector;
    (void)state;
    tree_selector_init(&selector, NULL);
    tree_selector_read(&selector, 2000);
    teach(&selector, 100, 12000, 3000);
    assert_true(tree_selector_reads(&selector, 1, NEVER));
    assert_false(tree_selector_reads(&selector, 2, 0));
    for (unsigned i = 0; i < 3; i++)
        assert_false(tree_selector_reads(&selector, 3, NEVER));
    assert_int_equal(selector.explored, 4);
    for (unsigned i = 0; i < 4; i++) /* the first has woken the server, which tells nothing */
        tree_selector_called(&selector, i == 0 ? 1000000 : 12000);
    assert_true(selector.call.sum < 1300000);
    assert_true(tree_selector_reads(&selector, 4, NEVER));
    assert_false(tree_selector_reads(&selector, 5 + 3 * BASE_NS_PER_SECOND, NEVER));
    assert_int_equal(selector.forgotten, 1);
}

static void work_is_compared_with_waiting(void **state)
{
    struct tree_selector selector;
    struct tree_selector_settings settings = tree_selector_usual;
    (void)state;
    settings.reads_are_work = true;
    tree_selector_init(&selector, &settings);
    for (unsigned i = 0; i < 100; i++) {
        tree_selector_called(&selector, 2000);
        tree_selector_read(&selector, 100);
        tree_selector_searched(&selector, 5, 3000);
    }
    assert_false(tree_selector_reads(&selector, 1, NEVER));
    for (unsigned i = 0; i < 200; i++)
        tree_selector_called(&selector, 50000); /* others ask, too */
    assert_true(tree_selector_reads(&selector, 2, NEVER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways_are_tried_first),
                                       cmocka_unit_test(the_shorter_queue_is_joined),
                                       cmocka_unit_test(outliers_do_not_count_until_they_are_many),
                                       cmocka_unit_test(work_is_compared_with_waiting),
                                       cmocka_unit_test(a_pause_is_forgotten_and_the_other_way_is_explored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
