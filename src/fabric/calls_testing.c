/*
 * What every provider must do when an operation is posted and waited for in one call, and how such a call gets along
 * with what was posted before it.
 */
#include "fabric/calls_testing.h"

static int call(struct tarn_fabric_connection *connection, const struct wrong_call *wrong, uint64_t *before)
{
    static uint8_t data[4096];
    const uint64_t deadline_ns = TESTING_LATE;
    switch (wrong->kind) {
    case TARN_FABRIC_READ:
        return tarn_fabric_read(connection, wrong->tag, wrong->handle, wrong->offset, data, wrong->bytes,
                                deadline_ns);
    case TARN_FABRIC_WRITE:
        return tarn_fabric_write(connection, wrong->tag, wrong->handle, wrong->offset, data, wrong->bytes,
                                 deadline_ns);
    case TARN_FABRIC_CAS:
        return tarn_fabric_cas(connection, wrong->tag, wrong->handle, wrong->offset, 0, 1, deadline_ns,
                               before);
    case TARN_FABRIC_FAA:
        return tarn_fabric_faa(connection, wrong->tag, wrong->handle, wrong->offset, 1, deadline_ns, before);
    default:
        return tarn_fabric_send(connection, wrong->tag, data, (uint32_t)wrong->bytes, deadline_ns);
    }
}

/* It fails as what is posted does: counted once, of this the connection dies, and the next call says so. */
static void wrong_calls_fail_as_operations_do(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle, *readable = &pair.readable->handle;
    const struct wrong_call calls[] = {
        {TARN_FABRIC_READ, all, 0, 8, TARN_FABRIC_TAGS_MAX, -EINVAL},
        {TARN_FABRIC_READ, NULL, 0, 8, TESTING_TAG, -EINVAL},
        {TARN_FABRIC_READ, all, 0, TARN_FABRIC_BYTES_MAX + 1, TESTING_TAG, -EINVAL},
        {TARN_FABRIC_READ, all, TESTING_BYTES - 7, 8, TESTING_TAG, -EACCES},
        {TARN_FABRIC_WRITE, readable, 0, 8, TESTING_TAG, -EACCES},
        {TARN_FABRIC_WRITE, all, TESTING_BYTES, 8, TESTING_TAG, -EACCES},
        {TARN_FABRIC_CAS, all, 4, 0, TESTING_TAG, -EINVAL},
        {TARN_FABRIC_CAS, readable, 0, 0, TESTING_TAG, -EACCES},
        {TARN_FABRIC_FAA, all, 1, 0, TESTING_TAG, -EINVAL},
        {TARN_FABRIC_FAA, all, TESTING_BYTES, 0, TESTING_TAG, -EACCES},
        {TARN_FABRIC_SEND, NULL, 0, 4096, TARN_FABRIC_TAGS_MAX, -EINVAL},
    };
    for (unsigned i = 0; i < base_array_count(calls); i++) {
        struct tarn_fabric_counters then, now;
        uint64_t before = 77;
        tarn_fabric_count(testing_clients(testing), TESTING_TAG, &then);
        assert_int_equal(call(pair.client, &calls[i], &before), calls[i].error);
        assert_int_equal(before, 77);
        assert_int_equal(tarn_fabric_error(pair.client), calls[i].error);
        tarn_fabric_count(testing_clients(testing), TESTING_TAG, &now);
        if (calls[i].tag == TESTING_TAG) {
            assert_int_equal(now.failed - then.failed, 1);
            assert_int_equal(now.refused - then.refused, calls[i].error == -EACCES ? 1 : 0);
            assert_int_equal(now.waits - then.waits, 1);
        }
        const struct wrong_call right = {TARN_FABRIC_FAA, all, 0, 0, TESTING_TAG, 0};
        assert_int_equal(call(pair.client, &right, &before), calls[i].error);
        assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 0);
        testing_disconnect(&pair);
        testing_connect(&pair);
    }
    testing_pair_close(&pair);
}

/* Whoever has used a region does so no more when it is freed, nor does he take the next one for it. */
static void who_has_used_a_region_loses_it(struct testing_fabric *testing)
{
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    struct testing_pair pair;
    uint64_t word = 0;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_region *region = testing_region(pair.client_domain, 4096, rights);
    const struct tarn_fabric_handle stale = region->handle;
    tarn_fabric_mem_store64(region, 0, 1);
    assert_int_equal(tarn_fabric_read(pair.server, 0, &stale, 0, &word, 8, TESTING_LATE), 0);
    assert_int_equal(word, 1);
    tarn_fabric_region_free(region);
    region = testing_region(pair.client_domain, 8192, rights);
    tarn_fabric_mem_store64(region, 0, 2);
    tarn_fabric_mem_store64(region, 8184, 3);
    assert_int_equal(tarn_fabric_read(pair.server, 0, &region->handle, 0, &word, 8, TESTING_LATE), 0);
    assert_int_equal(word, 2);
    assert_int_equal(tarn_fabric_read(pair.server, 0, &region->handle, 8184, &word, 8, TESTING_LATE), 0);
    assert_int_equal(word, 3);
    assert_int_equal(tarn_fabric_read(pair.server, 0, &stale, 0, &word, 8, TESTING_LATE), -EACCES);
    tarn_fabric_region_free(region);
    testing_pair_close(&pair);
}

static void many_regions_are_told_apart(struct testing_fabric *testing)
{
    enum { REGIONS = 20 };
    struct testing_pair pair;
    struct tarn_fabric_region *regions[REGIONS];
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < REGIONS; i++) {
        regions[i] = testing_region(pair.client_domain, 4096, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
        tarn_fabric_mem_store64(regions[i], 8, 100 + i);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < REGIONS; i++) {
            const unsigned which = round == 0 ? i : (i * 7 + i % 2 * 8) % REGIONS;
            const struct tarn_fabric_handle *handle = &regions[which]->handle;
            uint64_t word = 200 + which, back = 0;
            assert_int_equal(tarn_fabric_read(pair.server, 0, handle, 8, &back, 8, TESTING_LATE), 0);
            assert_int_equal(back, 100 + which);
            assert_int_equal(tarn_fabric_write(pair.server, 0, handle, 16, &word, 8, TESTING_LATE), 0);
            assert_int_equal(tarn_fabric_mem_load64(regions[which], 16), word);
        }
    }
    for (unsigned i = 0; i < REGIONS; i++)
        tarn_fabric_region_free(regions[i]);
    testing_pair_close(&pair);
}

/* What was posted first and waits for credit gets it, even if somebody calls when there is some. */
static void who_waits_for_credit_goes_first(struct testing_fabric *testing)
{
    enum { ROOM = 3, SENT = 5 };
    const struct tarn_fabric_connect_options few = {.receive_count = ROOM, .receive_bytes = 64};
    struct testing_pair pair;
    struct tarn_fabric_op ops[SENT - 1];
    struct iovec vectors[SENT - 1];
    struct tarn_fabric_message message;
    uint64_t words[SENT], room[8];
    testing_pair_open(testing, &pair, &few);
    for (unsigned i = 0; i < SENT; i++)
        words[i] = i;
    for (unsigned i = 0; i < SENT - 1; i++) {
        vectors[i] = (struct iovec){.iov_base = &words[i], .iov_len = 8};
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .iov = &vectors[i], .iov_count = 1};
    }
    tarn_fabric_post(pair.client, ops, SENT - 1);
    for (unsigned i = 0; i < SENT; i++) {
        if (i == ROOM) /* the last that was posted still waits, and there is room for it and another */
            assert_int_equal(tarn_fabric_send(pair.client, 0, &words[SENT - 1], 8, TESTING_LATE), 0);
        assert_int_equal(tarn_fabric_receive(pair.server, room, sizeof(room), TESTING_LATE, &message), 0);
        assert_int_equal(room[0], i);
    }
    assert_int_equal(tarn_fabric_wait(ops, SENT - 1, TESTING_LATE), 0);
    testing_pair_close(&pair);
}

#define LARGE_BYTES (UINT64_C(16) << 20) /* copying them takes longer than a millisecond */

/* A peer that fills a region again and again, until that is refused. */
struct filler {
    struct testing_pair *pair;
    const struct tarn_fabric_handle *handle;
    uint8_t *bytes;
    _Atomic unsigned done; /* what the last WRITE that ended well has filled it with */
};

static void fill_on(void *arg)
{
    struct filler *filler = arg;
    struct tarn_fabric_connection *connection;
    int error = tarn_fabric_connect(filler->pair->client_domain, filler->pair->testing->address, NULL,
                                    TESTING_LATE, &connection);
    assert_int_equal(error, 0);
    for (unsigned value = 1; error == 0; value++) {
        memset(filler->bytes, (int)value, LARGE_BYTES);
        error = tarn_fabric_write(connection, 0, filler->handle, 0, filler->bytes, LARGE_BYTES, TESTING_LATE);
        if (error == 0)
            atomic_store(&filler->done, value);
    }
    tarn_fabric_disconnect(connection);
}

/* A region of the same memory is freed while it is being filled: all that counts is there a millisecond later. */
static void what_counts_is_there_when_a_region_is_freed(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *server;
    struct testing_job job;
    struct filler filler = {.pair = &pair};
    if (testing->subject->run != NULL || testing->subject->is_slow)
        return; /* copies take no time, or too much */
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, LARGE_BYTES);
    struct tarn_fabric_region *memory = testing_region(domain, LARGE_BYTES, pair.all->handle.rights), *shared;
    struct tarn_fabric_domain *shared_domain = testing_domain(testing->fabric, 0, 0);
    assert_int_equal(tarn_fabric_region_register(shared_domain, memory->memory, LARGE_BYTES,
                                                 memory->handle.rights, &shared),
                     0);
    const struct tarn_fabric_handle handle = shared->handle;
    filler.handle = &handle;
    filler.bytes = test_malloc(LARGE_BYTES);
    uint8_t *found = test_malloc(LARGE_BYTES);
    testing_start_thread(testing, &job, fill_on, &filler);
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
    assert_int_equal(tarn_fabric_accept(incoming, shared_domain, NULL, &server), 0);
    while (atomic_load(&filler.done) < 2)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    const uint64_t first = tarn_fabric_mem_load64(memory, 0);
    while (tarn_fabric_mem_load64(memory, 0) == first) /* until it is in the midst of a copy */
        assert_int_equal(task_sleep(BASE_NS_PER_US), 0);
    tarn_fabric_region_free(shared);
    assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    tarn_fabric_mem_copy_out(memory, 0, found, LARGE_BYTES);
    testing_join(&job);
    for (uint64_t i = 0; i < LARGE_BYTES; i++)
        assert_true((uint8_t)(found[i] - atomic_load(&filler.done)) <= 1);
    test_free(filler.bytes);
    test_free(found);
    tarn_fabric_disconnect(server);
    tarn_fabric_domain_close(shared_domain);
    tarn_fabric_region_free(memory);
    tarn_fabric_domain_close(domain);
    testing_pair_close(&pair);
}

#define SUITE(EACH)                                                                                          \
    EACH(wrong_calls_fail_as_operations_do)                                                                  \
    EACH(who_has_used_a_region_loses_it)                                                                     \
    EACH(many_regions_are_told_apart)                                                                        \
    EACH(who_waits_for_credit_goes_first)                                                                    \
    EACH(what_counts_is_there_when_a_region_is_freed)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_calls_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite fabric_calls = TESTING_SUITE(fabric_calls_tests);
