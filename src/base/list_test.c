/* Do lists keep their order under every call? */
#include "base/testing.h"

#include "base/list.h"

struct item {
    char name;
    struct base_list link;
    struct base_fifo_node next;
};

static void assert_list(const struct base_list *head, const char *names)
{
    size_t i = 0;
    base_list_for_each(node, head)
        assert_int_equal(base_container_of(node, struct item, link)->name, names[i++]);
    assert_int_equal(names[i], '\0');
    /* The same from the back. */
    for (struct base_list *node = head->prev; node != head; node = node->prev)
        assert_int_equal(base_container_of(node, struct item, link)->name, names[--i]);
    assert_int_equal(i, 0);
}

static void test_list(void **state base_unused)
{
    struct base_list head, other;
    struct item items[] = {{'a'}, {'b'}, {'c'}, {'d'}};
    base_list_init(&head);
    base_list_init(&other);
    assert_true(base_list_empty(&head));
    assert_null(base_list_first(&head));
    assert_null(base_list_last(&head));
    assert_null(base_list_pop_front(&head));
    assert_false(base_list_is_linked(&items[0].link));
    base_list_push_back(&head, &items[1].link);
    base_list_push_back(&head, &items[2].link);
    base_list_push_front(&head, &items[0].link);
    base_list_insert_after(&items[1].link, &items[3].link);
    assert_list(&head, "abdc");
    assert_true(base_list_is_linked(&items[0].link));
    assert_ptr_equal(base_list_first(&head), &items[0].link);
    assert_ptr_equal(base_list_last(&head), &items[2].link);
    base_list_remove(&items[3].link);
    assert_false(base_list_is_linked(&items[3].link));
    base_list_remove(&items[3].link);
    assert_list(&head, "abc");
    base_list_move_all(&other, &head);
    assert_list(&head, "");
    base_list_push_back(&head, &items[3].link);
    base_list_move_all(&other, &head);
    base_list_move_all(&other, &head);
    assert_list(&other, "abcd");
    assert_ptr_equal(base_list_pop_front(&other), &items[0].link);
    base_list_for_each_safe(node, &other) {
        if (base_container_of(node, struct item, link)->name != 'c')
            base_list_remove(node);
    }
    assert_list(&other, "c");
}

static void assert_fifo(struct base_fifo *fifo, const char *names)
{
    for (; *names != '\0'; names++) {
        struct base_fifo_node *node = base_fifo_pop(fifo);
        assert_non_null(node);
        assert_int_equal(base_container_of(node, struct item, next)->name, *names);
    }
    assert_true(base_fifo_empty(fifo));
    assert_null(base_fifo_pop(fifo));
    assert_null(base_fifo_first(fifo));
}

static void test_fifo(void **state base_unused)
{
    struct base_fifo fifo = {0};
    struct base_fifo other;
    struct item items[] = {{'a'}, {'b'}, {'c'}};
    base_fifo_init(&other);
    assert_fifo(&fifo, "");
    base_fifo_push(&fifo, &items[0].next);
    base_fifo_push(&fifo, &items[1].next);
    assert_ptr_equal(base_fifo_first(&fifo), &items[0].next);
    assert_fifo(&fifo, "ab");
    /* After having been empty, pushing at the front must set the end too. */
    base_fifo_push_front(&fifo, &items[1].next);
    base_fifo_push(&fifo, &items[2].next);
    base_fifo_push_front(&fifo, &items[0].next);
    assert_fifo(&fifo, "abc");
    base_fifo_push(&other, &items[0].next);
    base_fifo_move_all(&fifo, &other);
    base_fifo_push(&other, &items[1].next);
    base_fifo_push(&other, &items[2].next);
    base_fifo_move_all(&fifo, &other);
    base_fifo_move_all(&fifo, &other);
    assert_true(base_fifo_empty(&other));
    assert_fifo(&fifo, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_fifo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
