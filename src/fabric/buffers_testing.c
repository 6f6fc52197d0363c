/* What every provider must do with buffers, memory from a domain's pool for operations, and with large regions. */
#include "fabric/buffers_testing.h"

static struct tarn_fabric_buffer *testing_buffer(struct tarn_fabric_domain *domain, uint64_t bytes)
{
    struct tarn_fabric_buffer *buffer;
    assert_int_equal(tarn_fabric_buffer_get(domain, bytes, &buffer), 0);
    assert_true(buffer->bytes >= bytes && buffer->bytes < base_max(2 * bytes, UINT64_C(513)));
    assert_true(base_is_aligned((uintptr_t)buffer->memory, base_min(buffer->bytes, UINT64_C(4096))));
    assert_ptr_equal(buffer->domain, domain);
    return buffer;
}

/* WRITE and READ, gather and scatter, SEND: from and into buffers, also beside other memory. */
static void buffers_hold_what_is_moved(struct testing_fabric *testing)
{
    static const uint64_t lengths[] = {1, 8, 300, 512, 513, 4096, 100001, TESTING_BYTES};
    enum { PARTS = TARN_FABRIC_IOV_MAX };
    struct testing_pair pair;
    struct tarn_fabric_message message;
    uint8_t plain[64], received[4096];
    struct iovec vectors[PARTS];
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        const uint64_t bytes = lengths[i];
        struct tarn_fabric_buffer *from = testing_buffer(pair.client_domain, bytes);
        struct tarn_fabric_buffer *into = testing_buffer(pair.client_domain, bytes);
        testing_fill(from->memory, bytes, i);
        assert_int_equal(tarn_fabric_write(pair.client, 0, all, 0, from->memory, bytes, TESTING_LATE), 0);
        testing_expect(pair.all, 0, from->memory, bytes);
        memset(into->memory, 0, bytes);
        assert_int_equal(tarn_fabric_read(pair.client, 0, all, 0, into->memory, bytes, TESTING_LATE), 0);
        assert_memory_equal(into->memory, from->memory, bytes);
        tarn_fabric_buffer_put(from);
        tarn_fabric_buffer_put(into);
    }
    struct tarn_fabric_buffer *buffer = testing_buffer(pair.client_domain, 8192);
    for (unsigned round = 0; round < 2; round++) { /* all of it in the buffer; then one vector elsewhere */
        testing_fill(buffer->memory, buffer->bytes, round);
        testing_fill(plain, sizeof(plain), round + 7);
        for (unsigned i = 0; i < PARTS; i++)
            vectors[i] = (struct iovec){buffer->memory + 100 * (PARTS - i), i == 3 ? 0 : 64};
        if (round == 1)
            vectors[5].iov_base = plain;
        struct tarn_fabric_op op = {.kind = TARN_FABRIC_SEND, .iov = vectors, .iov_count = PARTS};
        tarn_fabric_post(pair.client, &op, 1);
        assert_int_equal(tarn_fabric_wait(&op, 1, TESTING_LATE), 0);
        assert_int_equal(tarn_fabric_receive(pair.server, received, sizeof(received), TESTING_LATE, &message),
                         0);
        assert_int_equal(message.bytes, 64 * (PARTS - 1));
        const uint8_t *at = received;
        for (unsigned i = 0; i < PARTS; at += vectors[i++].iov_len)
            assert_memory_equal(at, vectors[i].iov_base, vectors[i].iov_len);
        tarn_fabric_mem_copy_in(pair.all, 40, received, message.bytes);
        memset(buffer->memory, 0, buffer->bytes);
        op = (struct tarn_fabric_op){
            .kind = TARN_FABRIC_READ, .handle = all, .offset = 40, .iov = vectors, .iov_count = PARTS};
        tarn_fabric_post(pair.client, &op, 1);
        assert_int_equal(tarn_fabric_wait(&op, 1, TESTING_LATE), 0);
        at = received;
        for (unsigned i = 0; i < PARTS; at += vectors[i++].iov_len)
            assert_memory_equal(at, vectors[i].iov_base, vectors[i].iov_len);
        assert_int_equal(buffer->memory[100 * PARTS + 64], 0); /* nothing between them */
    }
    tarn_fabric_buffer_put(buffer);
    testing_pair_close(&pair);
}

static void buffers_have_limits(struct testing_fabric *testing)
{
    enum { SLAB = 256 << 10, IN_SLAB = SLAB / 512, MANY_BUFFERS = 2 * IN_SLAB };
    const struct tarn_fabric_domain_options options = {.buffer_bytes = SLAB + 1}; /* two slabs, then */
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_buffer *buffers[MANY_BUFFERS], *more = NULL;
    assert_int_equal(tarn_fabric_domain_open(testing->fabric, &options, &domain), 0);
    assert_int_equal(tarn_fabric_buffer_get(domain, 0, &more), -EINVAL);
    assert_int_equal(tarn_fabric_buffer_get(domain, TARN_FABRIC_BYTES_MAX + 1, &more), -EINVAL);
    assert_int_equal(tarn_fabric_buffer_get(domain, TARN_FABRIC_BYTES_MAX, &more), -ENOSPC);
    assert_int_equal(tarn_fabric_buffer_get(domain, 2 * SLAB + 1, &more), -ENOSPC);
    for (unsigned i = 0; i < MANY_BUFFERS; i++) {
        buffers[i] = testing_buffer(domain, 512);
        memset(buffers[i]->memory, (int)(i % 255), 512);
    }
    assert_int_equal(tarn_fabric_buffer_get(domain, 1, &more), -ENOSPC);
    assert_int_equal(tarn_fabric_buffer_get(domain, SLAB, &more), -ENOSPC);
    for (unsigned i = 0; i < MANY_BUFFERS; i++) { /* each had its own */
        for (unsigned at = 0; at < 512; at++)
            assert_int_equal(buffers[i]->memory[at], i % 255);
    }
    tarn_fabric_buffer_put(buffers[7]);
    assert_int_equal(tarn_fabric_buffer_get(domain, 1024, &more), -ENOSPC); /* others are still in use */
    buffers[7] = testing_buffer(domain, 1);
    const uint64_t used = testing_memory(testing);
    for (unsigned i = MANY_BUFFERS - 1; i-- > 0;) /* all but the last */
        tarn_fabric_buffer_put(buffers[i]);
    more = testing_buffer(domain, SLAB); /* what was free has made room */
    assert_true(base_account_used(&testing->node->memory) <= used);
    memset(more->memory, 1, SLAB);
    struct tarn_fabric_buffer *none = NULL;
    assert_int_equal(tarn_fabric_buffer_get(domain, SLAB, &none), -ENOSPC);
    assert_null(none);
    tarn_fabric_buffer_put(more);
    tarn_fabric_buffer_put(buffers[MANY_BUFFERS - 1]);
    tarn_fabric_buffer_put(testing_buffer(domain, 2 * SLAB));
    tarn_fabric_domain_close(domain);
}

struct borrower {
    struct tarn_fabric_domain *domain;
    unsigned number;
};

static void borrow_and_return(void *arg)
{
    const struct borrower *borrower = arg;
    struct tarn_fabric_buffer *held[4] = {0};
    for (unsigned i = 0; i < 400; i++) {
        struct tarn_fabric_buffer **at = &held[i * 7 % base_array_count(held)];
        if (*at != NULL) {
            for (uint64_t byte = 0; byte < (*at)->bytes; byte += 256)
                assert_int_equal((*at)->memory[byte], borrower->number);
            tarn_fabric_buffer_put(*at);
        }
        *at = testing_buffer(borrower->domain, UINT64_C(600) << (i * borrower->number) % 8);
        memset((*at)->memory, (int)borrower->number, (*at)->bytes);
        if (i % 16 == 0)
            task_yield();
    }
    for (unsigned i = 0; i < base_array_count(held); i++)
        tarn_fabric_buffer_put(held[i]);
}

static void buffers_are_for_all_threads(struct testing_fabric *testing)
{
    enum { BORROWERS = 3 };
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, 0);
    struct borrower borrowers[BORROWERS];
    struct testing_job jobs[BORROWERS];
    for (unsigned i = 0; i < BORROWERS; i++) {
        borrowers[i] = (struct borrower){.domain = domain, .number = i + 1};
        testing_start(testing, &jobs[i], i, borrow_and_return, &borrowers[i]);
    }
    for (unsigned i = 0; i < BORROWERS; i++)
        testing_join(&jobs[i]);
    tarn_fabric_domain_close(domain);
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* How often a task had its turn. */
struct turns {
    uint64_t count;
    bool is_over;
};

static void take_turns(void *arg)
{
    struct turns *turns = arg;
    for (; !turns->is_over; turns->count++)
        task_yield();
}

/* Its pages are touched by others than the scheduler, whose tasks go on. */
static void a_large_region_holds_up_no_task(struct testing_fabric *testing)
{
    enum { LARGE = 64 << 20 };
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, LARGE);
    struct turns turns = {0};
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_spawn(NULL, &group, "turns", take_turns, &turns), 0);
    task_yield();
    const uint64_t before = turns.count;
    struct tarn_fabric_region *region = testing_region(domain, LARGE, TARN_FABRIC_MAY_WRITE);
    assert_true(turns.count > before + 1);
    turns.is_over = true;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(tarn_fabric_mem_load64(region, LARGE - 8), 0);
    tarn_fabric_region_free(region);
    tarn_fabric_domain_close(domain);
}

static void a_large_region_holds_up_no_task_in_tasks(void **state)
{
    testing_run(state, a_large_region_holds_up_no_task, true);
}

#define SUITE(EACH)                                                                                          \
    EACH(buffers_hold_what_is_moved)                                                                         \
    EACH(buffers_have_limits)                                                                                \
    EACH(buffers_are_for_all_threads)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_buffers_tests[] = {
    SUITE(TESTING_EACH) cmocka_unit_test(a_large_region_holds_up_no_task_in_tasks)};

const struct testing_suite fabric_buffers = TESTING_SUITE(fabric_buffers_tests);
