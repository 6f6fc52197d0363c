/* What every provider must do with connections: messages, fences, how they begin and end, what is lacking. */
#include "fabric/connections_testing.h"

/* ---- messages ----------------------------------------------------------------------------------- */

const struct tarn_fabric_connect_options few = {.receive_count = CREDIT, .receive_bytes = MESSAGE_BYTES};

static void send_many(void *arg)
{
    struct testing_pair *pair = arg;
    uint8_t data[MESSAGE_BYTES];
    const uint32_t times = testing_times(pair->testing, MESSAGES);
    for (uint32_t i = 0; i < times; i++) {
        testing_fill(data, i % (MESSAGE_BYTES + 1), i);
        assert_int_equal(tarn_fabric_send(pair->client, 0, data, i % (MESSAGE_BYTES + 1), TESTING_LATE), 0);
    }
}

void messages_come_in_order(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    uint8_t expected[MESSAGE_BYTES], data[MESSAGE_BYTES];
    const uint32_t times = testing_times(testing, MESSAGES);
    testing_pair_open(testing, &pair, &few);
    testing_start(testing, &job, 0, send_many, &pair);
    for (uint32_t i = 0; i < times; i++) {
        struct tarn_fabric_message message;
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
        assert_false(message.notified);
        assert_int_equal(message.bytes, i % (MESSAGE_BYTES + 1));
        testing_fill(expected, message.bytes, i);
        assert_memory_equal(data, expected, message.bytes);
        if (i % 100 == 0)
            (void)task_sleep(1000000); /* let the other one run out of credit */
    }
    testing_join(&job);
    struct tarn_fabric_counters counters;
    tarn_fabric_count(testing_clients(testing), 0, &counters);
    assert_int_equal(counters.operations[TARN_FABRIC_SEND], times);
    testing_pair_close(&pair);
}

static void long_messages_and_small_rooms_are_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_message message;
    static uint8_t data[MESSAGE_BYTES + 1];
    testing_pair_open(testing, &pair, &few);
    assert_int_equal(tarn_fabric_receive(pair.server, data, MESSAGE_BYTES - 1, TESTING_SOON, &message),
                     -EINVAL);
    assert_int_equal(tarn_fabric_receive(pair.server, data, MESSAGE_BYTES, TESTING_SOON, &message),
                     -ETIMEDOUT);
    assert_int_equal(tarn_fabric_error(pair.server), 0); /* to have received nothing kills nobody */
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    testing_expect_failure(
        &pair, (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .iov = &vector, .iov_count = 1}, -EMSGSIZE);
    testing_pair_close(&pair);
}

/* The one promise of order: round after round, a WRITE of many words, then the message that tells of it. */
static void write_and_tell(void *arg)
{
    struct testing_pair *pair = arg;
    uint64_t words[256];
    const uint64_t times = testing_times(pair->testing, MESSAGES);
    for (uint64_t round = 1; round <= times; round++) {
        for (unsigned i = 0; i < base_array_count(words); i++)
            words[i] = round;
        struct tarn_fabric_message message;
        const struct iovec vector = {.iov_base = words, .iov_len = sizeof(words)};
        const struct iovec bytes = {.iov_base = &round, .iov_len = sizeof(round)};
        struct tarn_fabric_op ops[] = {
            {.kind = TARN_FABRIC_WRITE, .handle = &pair->all->handle, .iov = &vector, .iov_count = 1},
            {.kind = TARN_FABRIC_SEND, .iov = &bytes, .iov_count = 1}};
        if (round % 2 == 0) {
            ops[0].kind = TARN_FABRIC_WRITE_NOTIFY;
            ops[0].value = (uint32_t)round;
        }
        uint32_t count = round % 2 == 0 ? 1 : 2;
        tarn_fabric_post(pair->client, ops, count);
        assert_int_equal(tarn_fabric_wait(ops, count, TESTING_LATE), 0);
        assert_int_equal(tarn_fabric_receive(pair->client, words, sizeof(words), TESTING_LATE, &message), 0);
    }
}

void writes_are_seen_before_the_message(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    testing_pair_open(testing, &pair, &few);
    const uint64_t times = testing_times(testing, MESSAGES);
    testing_start(testing, &job, 0, write_and_tell, &pair);
    for (uint64_t round = 1; round <= times; round++) {
        struct tarn_fabric_message message;
        uint8_t data[MESSAGE_BYTES];
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
        assert_int_equal(message.notified, round % 2 == 0);
        assert_int_equal(message.value, round % 2 == 0 ? round : 0);
        assert_int_equal(message.bytes, round % 2 == 0 ? 0 : 8);
        for (uint64_t offset = 0; offset < 256 * 8; offset += 8)
            assert_int_equal(tarn_fabric_mem_load64(pair.all, offset), round);
        assert_int_equal(tarn_fabric_send(pair.server, 0, NULL, 0, TESTING_LATE), 0);
    }
    testing_join(&job);
    testing_pair_close(&pair);
}

/* Both sides, on schedulers or threads of their own, answer and rest by turns: each is asleep now and then when a
 * message comes, and none is overlooked. */
static void answer(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    const uint32_t times = testing_times(pair->testing, MESSAGES);
    testing_accept(pair);
    for (uint32_t i = 0; i < times; i++) {
        assert_int_equal(tarn_fabric_receive(pair->server, data, sizeof(data), TESTING_LATE, &message), 0);
        if (i % 3 == 0)
            (void)task_sleep(i % 11 * 10000);
        int error = tarn_fabric_send(pair->server, 0, data, message.bytes, TESTING_LATE);
        /* of the last it may be known that its receiver has left before it is known that he has received it */
        assert_true(error == 0 || (error == -EPIPE && i == times - 1));
    }
    assert_int_equal(tarn_fabric_receive(pair->server, data, sizeof(data), TESTING_LATE, &message), -EPIPE);
    tarn_fabric_disconnect(pair->server);
}

static void wake_sleepers(struct testing_fabric *testing, bool messages_are_rare)
{
    struct testing_pair pair;
    struct testing_job job;
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    testing_pair_open(testing, &pair, &few);
    testing_disconnect(&pair);
    pair.options.messages_are_rare = messages_are_rare;
    testing_start(testing, &job, 1, answer, &pair);
    assert_int_equal(
        tarn_fabric_connect(pair.client_domain, testing->address, &few, TESTING_LATE, &pair.client), 0);
    const uint32_t times = testing_times(testing, MESSAGES);
    for (uint32_t i = 0; i < times; i++) {
        if (i % 5 == 0)
            (void)task_sleep(i % 7 * 10000);
        assert_int_equal(tarn_fabric_send(pair.client, 0, &i, sizeof(i), TESTING_LATE), 0);
        assert_int_equal(tarn_fabric_receive(pair.client, data, sizeof(data), TESTING_LATE, &message), 0);
        assert_memory_equal(data, &i, sizeof(i));
    }
    tarn_fabric_disconnect(pair.client);
    testing_join(&job);
    pair.client = pair.server = NULL;
    testing_pair_close(&pair);
}

static void sleepers_are_woken(struct testing_fabric *testing)
{
    wake_sleepers(testing, false);
}

/* The one sleeps at once, whatever comes. */
static void rare_messages_wake_too(struct testing_fabric *testing)
{
    wake_sleepers(testing, true);
}

/* ---- fences ------------------------------------------------------------------------------------- */

/* Sends without credit, and after them a WRITE with a fence: it waits for them, all the way. */
static void a_fence_waits_for_all_before_it(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_op ops[CREDIT + 3] = {0};
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    const uint64_t one = 1;
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)&one, .iov_len = 8};
    testing_pair_open(testing, &pair, &few);
    for (unsigned i = 0; i < CREDIT + 1; i++)
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .iov = &vector, .iov_count = 1};
    ops[CREDIT + 1] = (struct tarn_fabric_op){.kind = TARN_FABRIC_WRITE,
                                              .fence = true,
                                              .handle = &pair.all->handle,
                                              .iov = &vector,
                                              .iov_count = 1};
    ops[CREDIT + 2] = (struct tarn_fabric_op){
        .kind = TARN_FABRIC_FAA, .fence = true, .handle = &pair.all->handle, .operand = 1};
    tarn_fabric_post(pair.client, ops, base_array_count(ops));
    (void)task_sleep(5000000);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 0);
    assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_wait(ops, base_array_count(ops), TESTING_LATE), 0);
    assert_int_equal(ops[CREDIT + 2].before, 1); /* the chain: the WRITE was before */
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 2);
    for (unsigned i = 0; i < CREDIT; i++)
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    testing_pair_close(&pair);
}

/* A WRITE waits for what is before it, and so does the message behind it: whenever that comes, the WRITE is there. */
static void a_message_waits_for_a_fenced_write(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_message message;
    uint8_t data[4096];
    uint64_t read = 0, one = 1;
    const struct iovec in = {.iov_base = &read, .iov_len = 8}, out = {.iov_base = &one, .iov_len = 8};
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    struct tarn_fabric_op ops[] = {
        {.kind = TARN_FABRIC_READ, .handle = all, .offset = 64, .iov = &in, .iov_count = 1},
        {.kind = TARN_FABRIC_WRITE, .fence = true, .handle = all, .iov = &out, .iov_count = 1},
        {.kind = TARN_FABRIC_SEND, .iov = &out, .iov_count = 1}};
    tarn_fabric_post(pair.client, ops, base_array_count(ops));
    /* the client may have to look before it goes on: until then nothing comes */
    int error = tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_SOON, &message);
    assert_true(error == 0 || error == -ETIMEDOUT);
    if (error == 0)
        assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 1);
    assert_int_equal(tarn_fabric_wait(ops, base_array_count(ops), TESTING_LATE), 0);
    if (error != 0)
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), 1);
    testing_pair_close(&pair);
}

/* ---- the end of connections --------------------------------------------------------------------- */

/* A deadline passes: all that was posted ends with an error, and the peer learns of it. */
static void a_deadline_ends_the_connection(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_op ops[CREDIT + 3] = {0};
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    testing_pair_open(testing, &pair, &few);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .tag = TESTING_TAG};
    tarn_fabric_post(pair.client, ops, base_array_count(ops));
    assert_int_equal(tarn_fabric_wait(ops, base_array_count(ops), TESTING_SOON), -ETIMEDOUT);
    for (unsigned i = 0; i < base_array_count(ops); i++) {
        assert_true(ops[i].finished);
        assert_int_equal(ops[i].result, i < CREDIT ? 0 : -ETIMEDOUT);
    }
    struct tarn_fabric_counters counters;
    tarn_fabric_count(testing_clients(testing), TESTING_TAG, &counters);
    assert_int_equal(counters.operations[TARN_FABRIC_SEND], CREDIT);
    assert_int_equal(counters.failed, 3); /* each once */
    for (unsigned i = 0; i < CREDIT; i++) /* what was sent is received */
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message),
                     -ECONNRESET);
    testing_pair_close(&pair);
}

void the_peer_disconnects(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    testing_pair_open(testing, &pair, &few);
    assert_int_equal(tarn_fabric_fence(pair.server, TESTING_SOON), /* the client could still write */
                     testing->subject->fences_alone ? 0 : -ETIMEDOUT);
    assert_int_equal(tarn_fabric_error(pair.server), -ECONNABORTED);
    testing_disconnect(&pair);
    testing_connect(&pair);
    assert_int_equal(tarn_fabric_send(pair.client, 0, "last words", 10, TESTING_LATE), 0);
    tarn_fabric_disconnect(pair.client);
    assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(message.bytes, 10);
    assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), -EPIPE);
    assert_int_equal(tarn_fabric_send(pair.server, 0, "anybody?", 8, TESTING_LATE), -EPIPE);
    assert_int_equal(tarn_fabric_fence(pair.server, TESTING_LATE), 0);
    tarn_fabric_disconnect(pair.server);
    pair.client = pair.server = NULL;
    testing_pair_close(&pair);
}

/* A region in place of one that was freed, as soon as nobody could still write to that. */
static struct tarn_fabric_region *take_again(struct testing_pair *pair)
{
    struct tarn_fabric_region *again = NULL;
    int error = -ENOSPC;
    for (uint64_t until_ns = TESTING_LATE; error == -ENOSPC && task_now() < until_ns;
         (void)task_sleep(1000000))
        error = tarn_fabric_region_alloc(pair->server_domain, TESTING_BYTES,
                                         TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE, &again);
    assert_int_equal(error, 0);
    return again;
}

/* Memory of a region that was freed belongs to no other while one could still write there. */
static void freed_memory_waits_for_its_writers(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_region *again;
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    if (testing->subject->fences_alone)
        return; /* nobody could */
    testing_pair_open(testing, &pair, NULL);
    assert_int_equal(tarn_fabric_write(pair.client, 0, &pair.all->handle, 0, "left behind", 11, TESTING_LATE),
                     0);
    tarn_fabric_region_free(pair.all);
    assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, 4096, rights, &again), -ENOSPC);
    tarn_fabric_disconnect(pair.server); /* this side alone does not matter */
    assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, 4096, rights, &again), -ENOSPC);
    tarn_fabric_disconnect(pair.client);
    pair.client = pair.server = NULL;
    pair.all = take_again(&pair);
    uint8_t zeros[11] = {0};
    testing_expect(pair.all, 0, zeros, sizeof(zeros));
    testing_pair_close(&pair);
}

static void connections_come_and_go(struct testing_fabric *testing)
{
    enum { ROUNDS = 1000 };
    struct testing_pair pair;
    unsigned descriptors = 0;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    for (unsigned i = 0; i < testing_times(testing, ROUNDS); i++) {
        testing_connect(&pair);
        uint64_t before;
        assert_int_equal(tarn_fabric_faa(pair.client, 0, &pair.all->handle, 0, 1, TESTING_LATE, &before), 0);
        assert_int_equal(before, i);
        testing_disconnect(&pair);
        if (i == 0)
            descriptors = testing_descriptors();
    }
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* ---- cancelled tasks ---------------------------------------------------------------------------- */

/* To wait for a message in vain harms nothing; an operation that is not waited for ends its connection. */
static void wait_until_cancelled(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_message message;
    struct tarn_fabric_op ops[CREDIT + 1] = {0};
    uint8_t data[MESSAGE_BYTES];
    assert_int_equal(tarn_fabric_receive(pair->client, data, sizeof(data), TASK_FOREVER, &message),
                     -ECANCELED);
    assert_int_equal(tarn_fabric_error(pair->client), 0);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        ops[i].kind = TARN_FABRIC_SEND;
    /* some may have completed by then, the last cannot */
    tarn_fabric_post(pair->client, ops, base_array_count(ops));
    assert_int_equal(tarn_fabric_wait(ops, base_array_count(ops), TASK_FOREVER), -ECANCELED);
    assert_int_equal(ops[CREDIT].result, -ECANCELED);
    assert_int_equal(tarn_fabric_error(pair->client), -ECANCELED);
}

static void a_cancelled_task_ends_its_connection(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    testing_pair_open(testing, &pair, &few);
    testing_start(testing, &job, 0, wait_until_cancelled, &pair);
    (void)task_sleep(5000000);
    task_group_cancel(&job.group);
    testing_join(&job);
    testing_pair_close(&pair);
}

static void a_cancelled_task_ends_its_connection_in_tasks(void **state)
{
    testing_run(state, a_cancelled_task_ends_its_connection, true);
}

/* ---- plain threads with a scheduler's connection ------------------------------------------------ */

#define USERS    3
#define AT_WORD  0
#define AT_OTHER 8

struct thread_user {
    struct testing_pair *pair;
    uint64_t number;
};

static void use_from_a_thread(void *arg)
{
    struct thread_user *user = arg;
    struct tarn_fabric_connection *client = user->pair->client;
    const struct tarn_fabric_handle *handle = &user->pair->all->handle;
    const uint64_t own = 4096 * (user->number + 1);
    for (uint64_t i = 0; i < EACH; i++) {
        uint64_t written = user->number << 32 | i, back = 0, before;
        struct iovec out = {.iov_base = &written, .iov_len = 8}, in = {.iov_base = &back, .iov_len = 8};
        struct tarn_fabric_op ops[] = {
            {.kind = TARN_FABRIC_WRITE, .handle = handle, .offset = own, .iov = &out, .iov_count = 1},
            {.kind = TARN_FABRIC_READ,
             .fence = true,
             .handle = handle,
             .offset = own,
             .iov = &in,
             .iov_count = 1}};
        tarn_fabric_post(client, ops, 2);
        assert_int_equal(tarn_fabric_wait(ops, 2, TESTING_LATE), 0);
        assert_int_equal(back, written);
        assert_int_equal(tarn_fabric_faa(client, TESTING_TAG, handle, AT_WORD, 1, TESTING_LATE, &before), 0);
    }
}

/* The last things that are done with a connection. */
static void end_from_a_thread(void *arg)
{
    struct thread_user *user = arg;
    struct testing_pair *pair = user->pair;
    struct tarn_fabric_message message;
    uint8_t room[4096];
    uint64_t before;
    struct tarn_fabric_op ops[] = {
        {.kind = TARN_FABRIC_FAA, .handle = &pair->all->handle, .offset = AT_OTHER},
        {.kind = TARN_FABRIC_FAA, .handle = &pair->all->handle, .offset = AT_OTHER}};
    assert_int_equal(tarn_fabric_receive(pair->client, room, sizeof(room), TESTING_LATE, &message), 0);
    assert_int_equal(message.bytes, 5);
    assert_memory_equal(room, "hello", 5);
    assert_int_equal(tarn_fabric_receive(pair->client, room, sizeof(room), TESTING_SOON, &message),
                     -ETIMEDOUT);
    tarn_fabric_post(pair->client, &ops[0], 1); /* of two connections, and waited for in one call */
    tarn_fabric_post(pair->server, &ops[1], 1);
    int waited = tarn_fabric_wait(ops, 2, TESTING_LATE);
    /* the second ends the peer's side of the first, which a card may still be about */
    assert_true(ops[0].result == 0 || (ops[0].result == -ECONNRESET && pair->testing->subject->is_slow));
    assert_int_equal(waited, ops[0].result == 0 ? -EACCES : -ECONNRESET);
    assert_int_equal(ops[1].result, -EACCES); /* the handle is of its own domain */
    assert_int_equal(tarn_fabric_error(pair->server), -EACCES);
    int error = tarn_fabric_fence(pair->client, TESTING_SOON);
    assert_true(error == 0 || error == -ETIMEDOUT); /* the peer may be there still */
    assert_int_not_equal(tarn_fabric_faa(pair->client, 0, &pair->all->handle, 0, 1, TESTING_LATE, &before),
                         0);
    tarn_fabric_disconnect(pair->client);
    tarn_fabric_disconnect(pair->server);
}

static void run_threads(struct testing_pair *pair, unsigned count, void (*function)(void *arg))
{
    struct thread_user users[USERS];
    struct testing_job jobs[USERS];
    for (unsigned i = 0; i < count; i++) {
        users[i] = (struct thread_user){.pair = pair, .number = i};
        testing_start_thread(pair->testing, &jobs[i], function, &users[i]);
    }
    for (unsigned i = 0; i < count; i++)
        testing_join(&jobs[i]);
}

/* Several at once, while a task uses it too. */
static void threads_use_a_connection_of_tasks(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_counters counters;
    testing_pair_open(testing, &pair, NULL);
    run_threads(&pair, USERS, use_from_a_thread);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, AT_WORD), USERS * EACH);
    tarn_fabric_count(testing_clients(testing), TESTING_TAG, &counters);
    assert_int_equal(counters.operations[TARN_FABRIC_FAA], USERS * EACH);
    assert_int_equal(counters.waits, USERS * EACH);
    assert_int_equal(tarn_fabric_send(pair.server, 0, "hello", 5, TESTING_LATE), 0);
    run_threads(&pair, 1, end_from_a_thread);
    pair.client = pair.server = NULL;
    testing_pair_close(&pair);
}

static void threads_use_a_connection_of_tasks_in_tasks(void **state)
{
    testing_run(state, threads_use_a_connection_of_tasks, true);
}

/* ---- memory that cannot be had ------------------------------------------------------------------ */

/* All that one side alone does. @return 0 or -ENOMEM, with nothing left behind */
static int prepare_alone(struct testing_fabric *testing)
{
    const struct tarn_fabric_domain_options options = {.readable_bytes = 4096, .writable_bytes = 65536};
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region = NULL, *second;
    struct tarn_fabric_buffer *buffer;
    struct tarn_fabric_listener *listener;
    struct tarn_fabric *fabric;
    int error = tarn_fabric_open(testing->node, testing->subject->url, &fabric);
    if (error != 0)
        return error;
    error = tarn_fabric_domain_open(fabric, &options, &domain);
    if (error == 0) {
        error = tarn_fabric_region_alloc(domain, 4096, TARN_FABRIC_MAY_WRITE, &region);
        if (error == 0) {
            error = tarn_fabric_region_alloc(domain, 4096, TARN_FABRIC_MAY_WRITE, &second);
            if (error == 0)
                tarn_fabric_region_free(second);
            tarn_fabric_region_free(region);
        }
        if (error == 0) {
            error = tarn_fabric_buffer_get(domain, 5000, &buffer);
            if (error == 0)
                tarn_fabric_buffer_put(buffer);
        }
        if (error == 0) {
            error = tarn_fabric_listen(fabric, testing->address, &listener);
            if (error == 0)
                tarn_fabric_listener_close(listener);
        }
        tarn_fabric_domain_close(domain);
    }
    tarn_fabric_close(fabric);
    return error;
}

static void memory_that_is_not_there_is_an_error(struct testing_fabric *testing)
{
    uint64_t used = testing_memory(testing);
    int error = -ENOMEM;
    for (uint64_t n = 1; error != 0; n++) {
        assert_true(n < 100);
        base_account_fail_at(&testing->node->memory, n);
        error = prepare_alone(testing);
        base_account_fail_at(&testing->node->memory, 0);
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(base_account_used(&testing->node->memory), used);
    }
}

static void connect_somehow(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_incoming *incoming;
    pair->server = NULL;
    if (tarn_fabric_listener_wait(pair->listener, task_now() + 200000000, &incoming) == 0 &&
        tarn_fabric_accept(incoming, pair->server_domain, NULL, &pair->server) != 0)
        pair->server = NULL;
}

/* Whichever side lacks it, there is a connection for both in the end or for none. */
static void no_memory_to_connect(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    unsigned descriptors = testing_descriptors();
    for (uint64_t n = 1; n <= 12; n++) {
        struct tarn_fabric_connection *client = NULL;
        base_account_fail_at(&testing->node->memory, n);
        testing_start(testing, &job, 0, connect_somehow, &pair);
        int error =
            tarn_fabric_connect(pair.client_domain, testing->address, NULL, task_now() + 300000000, &client);
        testing_join(&job);
        base_account_fail_at(&testing->node->memory, 0);
        assert_true(error == 0 || error == -ENOMEM || error == -ENOBUFS || error == -ECONNREFUSED ||
                    error == -ECONNRESET || error == -ETIMEDOUT);
        if (error == 0)
            tarn_fabric_disconnect(client);
        if (pair.server != NULL)
            tarn_fabric_disconnect(pair.server);
        struct tarn_fabric_incoming *late; /* nobody had memory to wait for it */
        while (tarn_fabric_listener_wait(pair.listener, TESTING_SOON, &late) == 0)
            tarn_fabric_reject(late, -ECONNREFUSED);
    }
    testing_connect(&pair);
    testing_disconnect(&pair);
    /* `tcp` keeps a client that gave up before its last socket had joined, until that is late */
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* ---- meeting ------------------------------------------------------------------------------------ */

static void accept_or_reject(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_incoming *incoming;
    const void *data;
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_LATE, &incoming), 0);
    assert_int_equal(tarn_fabric_incoming_data(incoming, &data), 5);
    assert_memory_equal(data, "enemy", 5);
    tarn_fabric_reject(incoming, -EACCES);
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_LATE, &incoming), 0);
    tarn_fabric_reject(incoming, -ENOMEM);
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_LATE, &incoming), 0);
    assert_int_equal(tarn_fabric_incoming_data(incoming, &data), TARN_FABRIC_PRIVATE_BYTES_MAX);
    const struct tarn_fabric_connect_options options = {.data = "welcome", .data_bytes = 7};
    assert_int_equal(tarn_fabric_accept(incoming, pair->server_domain, &options, &pair->server), 0);
}

void private_data_is_exchanged(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    uint8_t most[TARN_FABRIC_PRIVATE_BYTES_MAX + 1];
    const void *data;
    testing_pair_open(testing, &pair, NULL);
    testing_disconnect(&pair);
    testing_fill(most, sizeof(most), 1);
    testing_start(testing, &job, 0, accept_or_reject, &pair);
    struct tarn_fabric_connect_options options = {.data = "enemy", .data_bytes = 5};
    assert_int_equal(
        tarn_fabric_connect(pair.client_domain, testing->address, &options, TESTING_LATE, &pair.client),
        -ECONNREFUSED);
    assert_int_equal(
        tarn_fabric_connect(pair.client_domain, testing->address, &options, TESTING_LATE, &pair.client),
        -ENOBUFS);
    options = (struct tarn_fabric_connect_options){.data = most, .data_bytes = sizeof(most)};
    assert_int_equal(
        tarn_fabric_connect(pair.client_domain, testing->address, &options, TESTING_LATE, &pair.client),
        -EINVAL);
    options.data_bytes--;
    assert_int_equal(
        tarn_fabric_connect(pair.client_domain, testing->address, &options, TESTING_LATE, &pair.client), 0);
    testing_join(&job);
    assert_int_equal(tarn_fabric_peer_data(pair.server, &data), TARN_FABRIC_PRIVATE_BYTES_MAX);
    assert_memory_equal(data, most, TARN_FABRIC_PRIVATE_BYTES_MAX);
    assert_int_equal(tarn_fabric_peer_data(pair.client, &data), 7);
    assert_memory_equal(data, "welcome", 7);
    assert_true(strlen(tarn_fabric_peer_name(pair.client)) > 0);
    testing_pair_close(&pair);
}

static void nobody_accepts(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *connection;
    testing_pair_open(testing, &pair, NULL);
    unsigned descriptors = testing_descriptors();
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_SOON, &incoming), -ETIMEDOUT);
    /* long enough for the request to come */
    const uint64_t until_ns = testing->subject->is_slow ? TESTING_SECONDS(2) : TESTING_SOON;
    assert_int_equal(tarn_fabric_connect(pair.client_domain, testing->address, NULL, until_ns, &connection),
                     -ETIMEDOUT);
    /* it was given up, and so cannot be had */
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
    struct tarn_fabric_connection *late = NULL;
    int error = tarn_fabric_accept(incoming, pair.server_domain, NULL, &late);
    if (error == 0) { /* not told before it is used */
        uint8_t data[4096];
        struct tarn_fabric_message message;
        assert_int_equal(tarn_fabric_receive(late, data, sizeof(data), TESTING_LATE, &message), -ECONNRESET);
        tarn_fabric_disconnect(late);
    } else {
        assert_int_equal(error, -ECONNRESET);
    }
    testing_expect_descriptors(descriptors);
    struct tarn_fabric_listener *second;
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &second), -EADDRINUSE);
    tarn_fabric_listener_close(pair.listener);
    assert_true(tarn_fabric_connect(pair.client_domain, testing->address, NULL, TESTING_LATE, &connection) <
                0);
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &pair.listener), 0);
    testing_disconnect(&pair);
    testing_connect(&pair);
    testing_pair_close(&pair);
}

#define SUITE(EACH)                                                                                          \
    EACH(messages_come_in_order)                                                                             \
    EACH(long_messages_and_small_rooms_are_refused)                                                          \
    EACH(writes_are_seen_before_the_message)                                                                 \
    EACH(sleepers_are_woken)                                                                                 \
    EACH(rare_messages_wake_too)                                                                             \
    EACH(a_fence_waits_for_all_before_it)                                                                    \
    EACH(a_message_waits_for_a_fenced_write)                                                                 \
    EACH(a_deadline_ends_the_connection)                                                                     \
    EACH(the_peer_disconnects)                                                                               \
    EACH(freed_memory_waits_for_its_writers)                                                                 \
    EACH(connections_come_and_go)                                                                            \
    EACH(private_data_is_exchanged)                                                                          \
    EACH(nobody_accepts)                                                                                     \
    EACH(memory_that_is_not_there_is_an_error)                                                               \
    EACH(no_memory_to_connect)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_connections_tests[] = {
    SUITE(TESTING_EACH) cmocka_unit_test(a_cancelled_task_ends_its_connection_in_tasks),
    cmocka_unit_test(threads_use_a_connection_of_tasks_in_tasks)};

const struct testing_suite fabric_connections = TESTING_SUITE(fabric_connections_tests);
