/* Does every buffer have one owner, and does a list hold the bytes that it says? */
#include "base/testing.h"

#include "base/buffer.h"
#include "base/random.h"

#define BUFFER_BYTES 4096
#define BUFFERS      8

struct fixture {
    struct base_account account;
    struct base_buffer_pool pool;
    uint8_t bytes[BUFFERS * BUFFER_BYTES];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct base_random random;
    base_random_init(&random, 1);
    base_random_fill(&random, fixture->bytes, sizeof(fixture->bytes));
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    *state = fixture;
    return base_buffer_pool_init(&fixture->pool, &fixture->account, BUFFER_BYTES, BUFFERS);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    base_buffer_pool_deinit(&fixture->pool);
    base_account_deinit(&fixture->account);
    free(fixture);
    return 0;
}

/* The list holds exactly these bytes, as all its views tell, and counts right. */
static void assert_content(const struct base_buffer_list *list, const uint8_t *bytes, size_t len)
{
    uint8_t copy[BUFFERS * BUFFER_BYTES + 1];
    assert_int_equal(list->bytes, len);
    assert_int_equal(base_buffer_list_copy_out(list, 0, copy, sizeof(copy)), len);
    assert_memory_equal(copy, bytes, len);
    if (len > 10) {
        assert_int_equal(base_buffer_list_copy_out(list, len / 2, copy, 5), 5);
        assert_memory_equal(copy, bytes + len / 2, 5);
        assert_int_equal(base_buffer_list_copy_out(list, len - 3, copy, 5), 3);
    }
    assert_int_equal(base_buffer_list_copy_out(list, len, copy, 5), 0);
    struct iovec vectors[64];
    uint64_t described = 0;
    int count = base_buffer_list_vectors(list, vectors, 64, &described);
    assert_int_equal(described, len);
    for (int i = 0; i < count; i++) {
        assert_true(vectors[i].iov_len > 0);
        assert_memory_equal(vectors[i].iov_base, bytes, vectors[i].iov_len);
        bytes += vectors[i].iov_len;
    }
}

static void test_pool(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer *buffers[BUFFERS];
    base_buffer_pool_set_region(&fixture->pool, 3);
    for (size_t i = 0; i < BUFFERS; i++) {
        buffers[i] = base_buffer_get(&fixture->pool);
        assert_non_null(buffers[i]);
        assert_int_equal((uintptr_t)buffers[i]->data % 4096, 0);
        assert_int_equal(buffers[i]->capacity, BUFFER_BYTES);
        assert_int_equal(buffers[i]->region, 3);
        assert_ptr_equal(buffers[i]->data, fixture->pool.arena + i * BUFFER_BYTES);
        memset(buffers[i]->data, 0xff, BUFFER_BYTES);
        buffers[i]->end = 100;
    }
    assert_null(base_buffer_get(&fixture->pool));
    base_buffer_put(buffers[5]);
    struct base_buffer *again = base_buffer_get(&fixture->pool);
    assert_ptr_equal(again, buffers[5]);
    assert_int_equal(base_buffer_bytes(again), 0);
    assert_int_equal(base_buffer_room(again), BUFFER_BYTES);
    for (size_t i = 0; i < BUFFERS; i++)
        base_buffer_put(buffers[i]);
    assert_int_equal(base_buffer_pool_arena_bytes(&fixture->pool), BUFFERS * BUFFER_BYTES);
}

static void test_copy_in_and_consume(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer_list list;
    base_buffer_list_init(&list);
    assert_content(&list, NULL, 0);
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, NULL, 0), 0);
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, 1000), 0);
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes + 1000, 5000), 0);
    assert_int_equal(fixture->pool.free_count, BUFFERS - 2);
    assert_content(&list, fixture->bytes, 6000);
    /* Too much: nothing of it is appended. */
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, sizeof(fixture->bytes)),
                     -ENOBUFS);
    assert_content(&list, fixture->bytes, 6000);
    size_t rest = sizeof(fixture->bytes) - 6000;
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes + 6000, rest), 0);
    assert_int_equal(fixture->pool.free_count, 0);
    assert_content(&list, fixture->bytes, sizeof(fixture->bytes));
    base_buffer_list_consume(&list, 4095);
    assert_int_equal(fixture->pool.free_count, 0);
    base_buffer_list_consume(&list, 1);
    assert_int_equal(fixture->pool.free_count, 1);
    base_buffer_list_consume(&list, 5000);
    assert_int_equal(fixture->pool.free_count, 2);
    assert_content(&list, fixture->bytes + 9096, sizeof(fixture->bytes) - 9096);
    base_buffer_list_consume(&list, list.bytes);
    assert_int_equal(fixture->pool.free_count, BUFFERS);
    assert_null(list.head);
}

static void test_vectors_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer_list list = {0};
    struct iovec vectors[2];
    uint64_t described = 0;
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, 3 * BUFFER_BYTES), 0);
    assert_int_equal(base_buffer_list_vectors(&list, vectors, 2, &described), 2);
    assert_int_equal(described, 2 * BUFFER_BYTES);
    assert_int_equal(base_buffer_list_vectors(&list, vectors, 0, NULL), 0);
    base_buffer_list_clear(&list);
}

static void test_wrapped_memory_and_empty_buffers(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer_list list = {0};
    struct base_buffer_list other = {0};
    struct base_buffer wrapped;
    uint8_t memory[100];
    base_buffer_wrap(&wrapped, memory, sizeof(memory));
    assert_int_equal(wrapped.region, -1);
    memcpy(memory, fixture->bytes + 10, 60);
    wrapped.end = 60;
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, 10), 0);
    base_buffer_list_append(&other, base_buffer_get(&fixture->pool));
    base_buffer_list_append(&other, &wrapped);
    base_buffer_list_move_all(&list, &other);
    base_buffer_list_move_all(&list, &other);
    assert_null(other.head);
    assert_int_equal(other.bytes, 0);
    assert_content(&list, fixture->bytes, 70);
    /* The room of somebody else's memory is not filled. */
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes + 70, 5), 0);
    assert_int_equal(wrapped.end, 60);
    assert_content(&list, fixture->bytes, 75);
    struct base_buffer *first = base_buffer_list_pop(&list);
    assert_content(&list, fixture->bytes + 10, 65);
    base_buffer_put(first);
    base_buffer_list_consume(&list, 0);
    base_buffer_list_clear(&list);
    assert_int_equal(list.bytes, 0);
    assert_null(base_buffer_list_pop(&list));
    assert_int_equal(fixture->pool.free_count, BUFFERS);
}

static void test_split_everywhere(void **state)
{
    struct fixture *fixture = *state;
    size_t len = 3 * BUFFER_BYTES;
    for (size_t cut = 0; cut <= len; cut += cut % BUFFER_BYTES < 3 || cut % BUFFER_BYTES > 4092 ? 1 : 511) {
        struct base_buffer_list list = {0};
        struct base_buffer_list front = {0};
        assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, len), 0);
        assert_int_equal(base_buffer_list_split(&list, cut, &fixture->pool, &front), 0);
        assert_content(&front, fixture->bytes, cut);
        assert_content(&list, fixture->bytes + cut, len - cut);
        /* Whole buffers move; only a cut one takes another. */
        assert_int_equal(fixture->pool.free_count, BUFFERS - 3 - (cut % BUFFER_BYTES != 0));
        /* What was split can be joined, and still be appended to. */
        base_buffer_list_move_all(&front, &list);
        assert_int_equal(base_buffer_list_copy_in(&front, &fixture->pool, fixture->bytes + len, 10), 0);
        assert_content(&front, fixture->bytes, len + 10);
        base_buffer_list_clear(&front);
    }
}

static void test_split_without_buffers(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer_list list = {0};
    struct base_buffer_list front = {0};
    size_t len = sizeof(fixture->bytes);
    assert_int_equal(base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes, len), 0);
    assert_int_equal(base_buffer_list_split(&list, 5000, &fixture->pool, &front), -ENOBUFS);
    assert_content(&list, fixture->bytes, len);
    assert_content(&front, NULL, 0);
    assert_int_equal(base_buffer_list_split(&list, 2 * BUFFER_BYTES, &fixture->pool, &front), 0);
    assert_content(&front, fixture->bytes, 2 * BUFFER_BYTES);
    base_buffer_list_clear(&list);
    base_buffer_list_clear(&front);
}

static void test_split_of_large_wrapped_memory(void **state)
{
    struct fixture *fixture = *state;
    for (size_t cut = 1000; cut < sizeof(fixture->bytes); cut += 5000) {
        struct base_buffer_list list = {0};
        struct base_buffer_list front = {0};
        struct base_buffer wrapped;
        base_buffer_wrap(&wrapped, fixture->bytes, sizeof(fixture->bytes));
        wrapped.end = wrapped.capacity;
        base_buffer_list_append(&list, &wrapped);
        assert_int_equal(base_buffer_list_split(&list, cut, &fixture->pool, &front), 0);
        assert_content(&front, fixture->bytes, cut);
        assert_content(&list, fixture->bytes + cut, sizeof(fixture->bytes) - cut);
        base_buffer_list_clear(&front);
        base_buffer_list_clear(&list);
    }
}

static void test_random_operations(void **state)
{
    struct fixture *fixture = *state;
    struct base_random random;
    struct base_buffer_list list = {0};
    uint8_t model[sizeof(fixture->bytes)];
    size_t len = 0;
    base_random_init(&random, 5);
    for (int round = 0; round < 5000; round++) {
        size_t bytes = base_random_below(&random, base_random_below(&random, 2) == 0 ? 100 : 6000);
        switch (base_random_below(&random, 3)) {
        case 0:
            if (base_buffer_list_copy_in(&list, &fixture->pool, fixture->bytes + bytes, bytes) == 0) {
                memcpy(model + len, fixture->bytes + bytes, bytes);
                len += bytes;
            }
            break;
        case 1:
            bytes = base_min(bytes, len);
            base_buffer_list_consume(&list, bytes);
            len -= bytes;
            memmove(model, model + bytes, len);
            break;
        default:;
            struct base_buffer_list front = {0};
            bytes = base_min(bytes, len);
            if (base_buffer_list_split(&list, bytes, &fixture->pool, &front) == 0) {
                assert_content(&front, model, bytes);
                base_buffer_list_move_all(&front, &list);
                list = front;
            }
        }
        assert_content(&list, model, len);
    }
    base_buffer_list_clear(&list);
}

static void test_no_memory(void **state)
{
    struct fixture *fixture = *state;
    struct base_buffer_pool pool;
    uint64_t used = base_account_used(&fixture->account);
    for (uint64_t n = 1; n <= 2; n++) {
        base_account_fail_at(&fixture->account, n);
        assert_int_equal(base_buffer_pool_init(&pool, &fixture->account, 8192, 2), -ENOMEM);
        assert_int_equal(base_account_used(&fixture->account), used);
    }
}

static void end_pool(void *arg)
{
    base_buffer_pool_deinit(arg);
}

static void put_twice(void *arg)
{
    struct base_buffer *buffer = base_buffer_get(arg);
    base_buffer_put(buffer);
    base_buffer_put(buffer);
}

static void consume_too_much(void *arg base_unused)
{
    struct base_buffer_list list = {0};
    base_buffer_list_consume(&list, 1);
}

static void test_bugs_abort(void **state)
{
    struct fixture *fixture = *state;
    assert_true(testing_aborts(put_twice, &fixture->pool));
    assert_true(testing_aborts(consume_too_much, NULL));
    struct base_buffer *buffer = base_buffer_get(&fixture->pool);
    assert_true(testing_aborts(end_pool, &fixture->pool));
    base_buffer_put(buffer);
}

#define with_fixture(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(test_pool),
        with_fixture(test_copy_in_and_consume),
        with_fixture(test_vectors_are_bounded),
        with_fixture(test_wrapped_memory_and_empty_buffers),
        with_fixture(test_split_everywhere),
        with_fixture(test_split_without_buffers),
        with_fixture(test_split_of_large_wrapped_memory),
        with_fixture(test_random_operations),
        with_fixture(test_no_memory),
        with_fixture(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
