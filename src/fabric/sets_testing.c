/* What every provider must do with sets of operations that are waited for and tested, over several connections. */
#include "fabric/sets_testing.h"
#include "fabric/connections_testing.h"

/* ---- all of a set ------------------------------------------------------------------------------- */

/* A wait that is cut short gives nothing up: what waits for credit goes when there is some. */
static void what_is_awaited_stays_posted(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_op ops[CREDIT + 2] = {0};
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    testing_pair_open(testing, &pair, &few);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND};
    tarn_fabric_post(pair.client, ops, base_array_count(ops));
    assert_int_equal(tarn_fabric_await(ops, base_array_count(ops), TESTING_SOON), -ETIMEDOUT);
    assert_int_equal(tarn_fabric_await(ops, CREDIT, TESTING_LATE), 0);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        assert_int_equal(tarn_fabric_test(&ops[i]), i < CREDIT);
    assert_int_equal(tarn_fabric_error(pair.client), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_await(ops, base_array_count(ops), TESTING_LATE), 0);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        assert_true(tarn_fabric_test(&ops[i]) && ops[i].result == 0);
    for (unsigned i = 0; i < CREDIT; i++)
        assert_int_equal(tarn_fabric_receive(pair.server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_await(ops, 0, 0), 0);
    testing_pair_close(&pair);
}

enum { PEERS = 4, SHARE = 8 };

/* READs of several connections, side by side: each of a word of its own. */
struct reads {
    struct testing_pair pair;
    struct tarn_fabric_connection *clients[PEERS], *servers[PEERS];
    struct tarn_fabric_op ops[PEERS * SHARE];
    struct iovec vectors[PEERS * SHARE];
    uint64_t words[PEERS * SHARE];
};

static void open_reads(struct testing_fabric *testing, struct reads *reads)
{
    struct testing_pair *pair = &reads->pair;
    testing_pair_open(testing, pair, NULL);
    for (unsigned i = 0; i < PEERS; i++) {
        if (i > 0)
            testing_connect(pair);
        reads->clients[i] = pair->client;
        reads->servers[i] = pair->server;
    }
    for (unsigned i = 0; i < PEERS * SHARE; i++) {
        tarn_fabric_mem_store64(pair->all, i * sizeof(uint64_t), 1000 + i);
        reads->vectors[i] = (struct iovec){.iov_base = &reads->words[i], .iov_len = sizeof(reads->words[i])};
        reads->ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                                .tag = TESTING_TAG,
                                                .handle = &pair->all->handle,
                                                .offset = i * sizeof(uint64_t),
                                                .iov = &reads->vectors[i],
                                                .iov_count = 1};
    }
    for (unsigned i = 0; i < PEERS; i++)
        tarn_fabric_post(reads->clients[i], &reads->ops[i * SHARE], SHARE);
}

static void close_reads(struct reads *reads)
{
    for (unsigned i = 0; i < PEERS * SHARE; i++) {
        assert_int_equal(reads->ops[i].result, 0);
        assert_int_equal(reads->words[i], 1000 + i);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        tarn_fabric_disconnect(reads->clients[i]);
        tarn_fabric_disconnect(reads->servers[i]);
    }
    reads->pair.client = reads->pair.server = NULL;
    testing_pair_close(&reads->pair);
}

static void a_set_is_of_several_connections(struct testing_fabric *testing)
{
    struct reads reads = {0};
    open_reads(testing, &reads);
    while (!tarn_fabric_test(&reads.ops[PEERS * SHARE - 1]))
        task_yield();
    assert_int_equal(tarn_fabric_await(reads.ops, PEERS * SHARE, TESTING_LATE), 0);
    close_reads(&reads);
}

/* ---- any of a set ------------------------------------------------------------------------------- */

/* Each is found once, in whatever order they lie and complete. */
static void each_of_a_set_is_found(struct testing_fabric *testing)
{
    struct reads reads = {0};
    struct tarn_fabric_op *set[PEERS * SHARE];
    struct tarn_fabric_counters counters;
    uint32_t count = PEERS * SHARE, index = 0;
    open_reads(testing, &reads);
    for (unsigned i = 0; i < count; i++)
        set[i] = &reads.ops[i * 11 % count];
    for (; count > 0; set[index] = set[--count]) {
        index = UINT32_MAX;
        assert_int_equal(tarn_fabric_await_any(set, count, TESTING_LATE, &index), 0);
        assert_true(index < count && set[index]->finished);
    }
    tarn_fabric_count(testing_clients(testing), TESTING_TAG, &counters);
    assert_int_equal(counters.operations[TARN_FABRIC_READ], PEERS * SHARE);
    assert_int_equal(counters.waits, PEERS * SHARE);
    close_reads(&reads);
}

/* Two connections, and on each an operation that waits for credit. */
struct waiting {
    struct testing_pair pair;
    struct tarn_fabric_connection *clients[2], *servers[2];
    struct tarn_fabric_op ops[2][CREDIT + 1];
    struct tarn_fabric_op *set[2]; /* these two */
    unsigned receiver;             /* index of the server that receives */
};

static void open_waiting(struct testing_fabric *testing, struct waiting *waiting)
{
    testing_pair_open(testing, &waiting->pair, &few);
    for (unsigned i = 0; i < 2; i++) {
        if (i > 0)
            testing_connect(&waiting->pair);
        waiting->clients[i] = waiting->pair.client;
        waiting->servers[i] = waiting->pair.server;
        for (unsigned k = 0; k <= CREDIT; k++)
            waiting->ops[i][k] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND};
        waiting->set[i] = &waiting->ops[i][CREDIT];
    }
}

static void post_waiting(struct waiting *waiting)
{
    for (unsigned i = 0; i < 2; i++) {
        tarn_fabric_post(waiting->clients[i], waiting->ops[i], CREDIT + 1);
        assert_int_equal(tarn_fabric_await(waiting->ops[i], CREDIT, TESTING_LATE), 0);
    }
}

static void close_waiting(struct waiting *waiting)
{
    for (unsigned i = 0; i < 2; i++)
        tarn_fabric_disconnect(waiting->clients[i]);
    tarn_fabric_disconnect(waiting->servers[0]);
    waiting->pair.client = waiting->pair.server = NULL;
    testing_pair_close(&waiting->pair);
}

static void receive_one(void *arg)
{
    struct waiting *waiting = arg;
    struct tarn_fabric_message message;
    uint8_t data[MESSAGE_BYTES];
    (void)task_sleep(1000000); /* so that the other one mostly sleeps by then */
    assert_int_equal(
        tarn_fabric_receive(waiting->servers[waiting->receiver], data, sizeof(data), TESTING_LATE, &message),
        0);
}

static void leave(void *arg)
{
    struct waiting *waiting = arg;
    (void)task_sleep(1000000);
    tarn_fabric_disconnect(waiting->servers[1]);
}

/* Nothing completes, then one does, then the other connection ends: that of which nothing was waited for lives on. */
static void wait_for_any(void *arg)
{
    struct waiting *waiting = arg;
    struct tarn_fabric_op *const *set = waiting->set;
    struct testing_job job;
    uint32_t index = 7;
    post_waiting(waiting);
    assert_int_equal(tarn_fabric_await_any(set, 0, TESTING_SOON, &index), -EINVAL);
    assert_int_equal(tarn_fabric_await_any(set, TARN_FABRIC_AWAIT_ANY_MAX + 1, TESTING_SOON, &index),
                     -EINVAL);
    assert_int_equal(tarn_fabric_await_any(set, 2, TESTING_SOON, &index), -ETIMEDOUT);
    assert_int_equal(index, 7);
    waiting->receiver = 1;
    testing_start(waiting->pair.testing, &job, 0, receive_one, waiting);
    assert_int_equal(tarn_fabric_await_any(set, 2, TESTING_LATE, &index), 0);
    testing_join(&job);
    assert_int_equal(index, 1);
    assert_int_equal(set[1]->result, 0);
    assert_int_equal(tarn_fabric_await_any(set, 2, 0, &index), 0); /* it is found again, and late */
    assert_int_equal(index, 1);
    assert_int_equal(tarn_fabric_await_any(set, 1, 0, &index), -ETIMEDOUT);
    tarn_fabric_post(waiting->clients[1], set[1], 1); /* it waits for credit again */
    testing_start(waiting->pair.testing, &job, 0, leave, waiting);
    assert_int_equal(tarn_fabric_await_any(set, 2, TESTING_LATE, &index), 0);
    testing_join(&job);
    assert_int_equal(index, 1);
    assert_int_equal(set[1]->result, -EPIPE);
    assert_int_equal(tarn_fabric_error(waiting->clients[0]), 0);
    waiting->receiver = 0;
    testing_start(waiting->pair.testing, &job, 0, receive_one, waiting);
    assert_int_equal(tarn_fabric_await_any(set, 1, TESTING_LATE, &index), 0);
    testing_join(&job);
    assert_int_equal(index, 0);
    assert_int_equal(set[0]->result, 0);
}

static void the_first_of_a_set_is_found(struct testing_fabric *testing)
{
    struct waiting waiting = {0};
    open_waiting(testing, &waiting);
    wait_for_any(&waiting);
    close_waiting(&waiting);
}

static void a_thread_finds_the_first_of_a_set(struct testing_fabric *testing)
{
    struct waiting waiting = {0};
    struct testing_job job;
    open_waiting(testing, &waiting);
    testing_start_thread(testing, &job, wait_for_any, &waiting);
    testing_join(&job);
    close_waiting(&waiting);
}

static void a_thread_finds_the_first_of_a_set_in_tasks(void **state)
{
    testing_run(state, a_thread_finds_the_first_of_a_set, true);
}

/* A connection of the thread's own, and one of a scheduler's, are no set. */
static void mix_users(void *arg)
{
    struct waiting *waiting = arg;
    struct tarn_fabric_op own = {.kind = TARN_FABRIC_SEND}, theirs = {.kind = TARN_FABRIC_SEND};
    struct tarn_fabric_op *const set[] = {&own, &theirs};
    struct testing_pair *pair = &waiting->pair;
    struct tarn_fabric_connection *connection;
    uint32_t index = 7;
    assert_int_equal(
        tarn_fabric_connect(pair->client_domain, pair->testing->address, &few, TESTING_LATE, &connection), 0);
    tarn_fabric_post(connection, &own, 1);
    tarn_fabric_post(waiting->clients[0], &theirs, 1);
    assert_int_equal(tarn_fabric_await_any(set, 2, TESTING_LATE, &index), -EINVAL);
    assert_int_equal(index, 7);
    assert_int_equal(tarn_fabric_await_any(set, 1, TESTING_LATE, &index), 0);
    assert_int_equal(index, 0);
    assert_int_equal(tarn_fabric_await_any(&set[1], 1, TESTING_LATE, &index), 0);
    tarn_fabric_disconnect(connection);
}

static void a_set_has_one_user(struct testing_fabric *testing)
{
    struct waiting waiting = {0};
    struct testing_job job;
    open_waiting(testing, &waiting);
    testing_start_thread(testing, &job, mix_users, &waiting);
    testing_accept(&waiting.pair);
    testing_join(&job);
    tarn_fabric_disconnect(waiting.pair.server);
    tarn_fabric_disconnect(waiting.servers[1]);
    close_waiting(&waiting);
}

static void a_set_has_one_user_in_tasks(void **state)
{
    testing_run(state, a_set_has_one_user, true);
}

static void wait_for_any_until_cancelled(void *arg)
{
    struct waiting *waiting = arg;
    uint32_t index = 7;
    assert_int_equal(tarn_fabric_await_any(waiting->set, 2, TASK_FOREVER, &index), -ECANCELED);
    assert_int_equal(index, 7);
    assert_int_equal(tarn_fabric_error(waiting->clients[0]), 0);
}

/* It gives nothing up: another task can wait for the same operations. */
static void a_cancelled_task_leaves_its_set(struct testing_fabric *testing)
{
    struct waiting waiting = {0};
    struct testing_job job;
    uint32_t index;
    open_waiting(testing, &waiting);
    post_waiting(&waiting);
    testing_start(testing, &job, 0, wait_for_any_until_cancelled, &waiting);
    (void)task_sleep(5000000);
    task_group_cancel(&job.group);
    testing_join(&job);
    receive_one(&waiting);
    assert_int_equal(tarn_fabric_await_any(waiting.set, 2, TESTING_LATE, &index), 0);
    assert_int_equal(index, 0);
    leave(&waiting);
    assert_int_equal(tarn_fabric_await_any(&waiting.set[1], 1, TESTING_LATE, &index), 0);
    close_waiting(&waiting);
}

static void a_cancelled_task_leaves_its_set_in_tasks(void **state)
{
    testing_run(state, a_cancelled_task_leaves_its_set, true);
}

#define SUITE(EACH)                                                                                          \
    EACH(what_is_awaited_stays_posted)                                                                       \
    EACH(a_set_is_of_several_connections)                                                                    \
    EACH(each_of_a_set_is_found)                                                                             \
    EACH(the_first_of_a_set_is_found)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_sets_tests[] = {
    SUITE(TESTING_EACH) cmocka_unit_test(a_thread_finds_the_first_of_a_set_in_tasks),
    cmocka_unit_test(a_set_has_one_user_in_tasks),
    cmocka_unit_test(a_cancelled_task_leaves_its_set_in_tasks)};

const struct testing_suite fabric_sets = TESTING_SUITE(fabric_sets_tests);
