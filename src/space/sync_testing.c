/* Barriers and queues: several clients that wait for each other, pass each other work, and lose their leases meanwhile. */
#include "base/random.h"
#include "space/conformance_testing.h"
#include <tarn/space_sync.h>

#define SOON     TESTING_LATE
#define CLIENTS  4
#define AT       24 /* where barriers and queues begin in their region */
#define CAPACITY 4  /* of queues */
#define ENTRIES  (AT + 64)

/* A client of its own, with the region that all share. */
struct client {
    struct space_testing *self;
    struct work *work;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct tarn_space_region *region;
    struct testing_job job;
    uint32_t number;
};

static void enter(struct client *client)
{
    client->space = space_testing_connect(client->self);
    assert_int_equal(tarn_space_join_ns(client->space, "sync", NULL, 0, SOON, &client->of), 0);
    assert_int_equal(tarn_space_find(client->of, "words", SOON, &client->region), 0);
}

static void leave(const struct client *client)
{
    tarn_space_drop(client->region);
    tarn_space_leave_ns(client->of);
    tarn_space_disconnect(client->space);
}

/* Run a test with a region for words, which lies in several chunks. */
static void with_words(struct space_testing *self,
                       void (*function)(struct space_testing *self, struct tarn_space_region *words))
{
    const struct tarn_space_alloc_options options = {.name = "words", .memory_class = TARN_SPACE_WORDS};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "sync", 3);
    struct tarn_space_region *words;
    assert_int_equal(tarn_space_alloc(of, 2 * TESTING_CHUNK_BYTES, &options, SOON, &words), 0);
    function(self, words);
    tarn_space_drop(words);
    tarn_space_leave_ns(of);
}

static void start_clients(struct space_testing *self, struct work *work, struct client *clients,
                          uint32_t count, void (*function)(void *arg))
{
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = (struct client){.self = self, .work = work, .number = i};
        testing_start(self->testing, &clients[i].job, i + 1, function, &clients[i]);
    }
}

/* ---- barriers ----------------------------------------------------------------------------------- */

static void format_barrier(struct tarn_space_region *words, uint32_t parties)
{
    assert_int_equal(tarn_space_barrier_format(words, AT, parties, SOON), 0);
}

static void join_barrier(struct tarn_space_region *words, uint32_t party, struct tarn_space_barrier *barrier)
{
    assert_int_equal(tarn_space_barrier_init(barrier, words, AT, party, SOON), 0);
}

/* Let all parties of a barrier pass it, in one thread. */
static void pass(struct tarn_space_barrier *const *barriers, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        assert_int_equal(tarn_space_barrier_wait(barriers[i], task_now()), -ETIMEDOUT);
        assert_int_equal(barriers[i]->missing, i + 1);
    }
    for (uint32_t i = count; i-- > 0;)
        assert_int_equal(tarn_space_barrier_wait(barriers[i], SOON), 0);
}

struct work {
    unsigned times;
    _Atomic uint64_t steps[CLIENTS]; /* of each party, told before it arrives */

    /* of queues */
    _Atomic unsigned given[CLIENTS][5000]; /* how often each item of each producer was given out */
    unsigned pushed[CLIENTS];
    _Atomic bool goes_on;     /* producers go on, beyond `times` */
    _Atomic unsigned entered; /* clients that use the queue */
};

static void take_steps(void *arg)
{
    struct client *client = arg;
    struct work *work = client->work;
    struct tarn_space_barrier barrier;
    enter(client);
    join_barrier(client->region, client->number, &barrier);
    for (uint64_t step = 1; step <= work->times; step++) {
        atomic_store(&work->steps[client->number], step);
        assert_int_equal(tarn_space_barrier_wait(&barrier, SOON), 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            const uint64_t other = atomic_load(&work->steps[i]);
            assert_true(other == step || other == step + 1);
        }
        assert_int_equal(barrier.step, step);
    }
    leave(client);
}

static void pass_together(struct space_testing *self, struct tarn_space_region *words)
{
    struct client clients[CLIENTS];
    struct work *work = test_calloc(1, sizeof(*work));
    work->times = testing_times(self->testing, 100);
    format_barrier(words, CLIENTS);
    start_clients(self, work, clients, CLIENTS, take_steps);
    for (unsigned i = 0; i < CLIENTS; i++)
        testing_join(&clients[i].job);
    test_free(work);
}

static void run_pass_together(struct space_testing *self)
{
    with_words(self, pass_together);
}

static void parties_pass_together(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_pass_together);
}

static void replace_party(struct space_testing *self, struct tarn_space_region *words)
{
    struct tarn_space_barrier first, second, third, successor = {.missing = 9};
    (void)self;
    format_barrier(words, 3);
    join_barrier(words, 0, &first);
    join_barrier(words, 1, &second);
    join_barrier(words, 2, &third);
    pass((struct tarn_space_barrier *const[]){&first, &second, &third}, 3);
    /* the second dies before it arrives */
    assert_int_equal(tarn_space_barrier_wait(&first, task_now()), -ETIMEDOUT);
    assert_int_equal(first.missing, 1);
    join_barrier(words, 1, &successor);
    assert_int_equal(successor.step, 1);
    pass((struct tarn_space_barrier *const[]){&first, &successor, &third}, 3);
    pass((struct tarn_space_barrier *const[]){&first, &successor, &third}, 3);
    assert_int_equal(tarn_space_barrier_wait(&second, SOON), -EBUSY); /* it was not dead */
    /* the successor dies after it has arrived */
    assert_int_equal(tarn_space_barrier_wait(&successor, task_now()), -ETIMEDOUT);
    assert_int_equal(tarn_space_barrier_init(&successor, words, AT, 1, task_now()), -ETIMEDOUT);
    assert_int_equal(successor.missing, 0);
    assert_int_equal(tarn_space_barrier_wait(&first, task_now()), -ETIMEDOUT);
    assert_int_equal(tarn_space_barrier_wait(&third, SOON), 0);
    join_barrier(words, 1, &successor);
    assert_int_equal(successor.step, 4);
    assert_int_equal(tarn_space_barrier_wait(&first, SOON), 0);
    pass((struct tarn_space_barrier *const[]){&first, &successor, &third}, 3);
}

static void run_replace_party(struct space_testing *self)
{
    with_words(self, replace_party);
}

static void a_dead_party_is_replaced(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_replace_party);
}

/* More parties than words that are read at once, in two chunks, and counts that wrap around. */
static void wrap_steps(struct space_testing *self, struct tarn_space_region *words)
{
    enum { PARTIES = 40 };
    const uint64_t at = TESTING_CHUNK_BYTES - 64 - 8 * 20, start = UINT64_MAX - 1;
    struct tarn_space_barrier parties[PARTIES], *all[PARTIES];
    (void)self;
    assert_int_equal(tarn_space_barrier_format(words, at, PARTIES, SOON), 0);
    for (uint64_t i = 0; i < PARTIES; i++)
        assert_int_equal(tarn_space_write_at(words, at + 64 + 8 * i, &start, 8, SOON), 0);
    for (uint32_t i = 0; i < PARTIES; i++) {
        all[i] = &parties[i];
        assert_int_equal(tarn_space_barrier_init(all[i], words, at, i, SOON), 0);
    }
    for (unsigned round = 0; round < 4; round++)
        pass(all, PARTIES);
    for (uint32_t i = 0; i < PARTIES; i++)
        assert_int_equal(parties[i].step, start + 4);
}

static void run_wrap_steps(struct space_testing *self)
{
    with_words(self, wrap_steps);
}

static void steps_wrap_around(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_wrap_steps);
}

/* ---- layouts ------------------------------------------------------------------------------------ */

static void refuse_layouts(struct space_testing *self, struct tarn_space_region *words)
{
    const uint64_t bytes = 2 * TESTING_CHUNK_BYTES;
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "bulk", 1);
    struct tarn_space_region *bulk = space_testing_alloc(of, 4096, TARN_SPACE_BULK);
    struct tarn_space_barrier barrier;
    struct tarn_space_queue queue;
    uint64_t word = 3;
    assert_int_equal(tarn_space_barrier_format(words, 0, 0, SOON), -EINVAL);
    assert_int_equal(tarn_space_barrier_format(words, 0, TARN_SPACE_PARTIES_MAX + 1, SOON), -EINVAL);
    assert_int_equal(tarn_space_barrier_format(words, 4, 1, SOON), -EINVAL);
    assert_int_equal(tarn_space_barrier_format(words, bytes - 64, 1, SOON), -EINVAL);
    assert_int_equal(tarn_space_barrier_format(bulk, 0, 1, SOON), -EACCES);
    assert_int_equal(tarn_space_queue_format(words, 0, 3, SOON), -EINVAL);
    assert_int_equal(tarn_space_queue_format(words, 0, 0, SOON), -EINVAL);
    assert_int_equal(tarn_space_queue_format(words, UINT64_MAX - 7, 1, SOON), -EINVAL);
    assert_int_equal(tarn_space_queue_format(words, 0, TARN_SPACE_QUEUE_MAX, SOON), -EINVAL);
    assert_int_equal(tarn_space_queue_format(words, bytes - TARN_SPACE_QUEUE_BYTES(4), 4, SOON), 0);
    assert_int_equal(tarn_space_barrier_format(words, 0, 2, SOON), 0);
    assert_int_equal(tarn_space_barrier_init(&barrier, words, 0, 2, SOON), -EINVAL);
    assert_int_equal(tarn_space_barrier_init(&barrier, words, 8, 0, SOON), -EPROTO);
    assert_int_equal(tarn_space_queue_init(&queue, words, 0, SOON), -EPROTO);
    assert_int_equal(tarn_space_queue_format(words, 0, 4, SOON), 0);
    assert_int_equal(tarn_space_write_at(words, 8, &word, 8, SOON), 0); /* no power of two */
    assert_int_equal(tarn_space_queue_init(&queue, words, 0, SOON), -EPROTO);
    word = TARN_SPACE_QUEUE_MAX; /* more than the region has */
    assert_int_equal(tarn_space_write_at(words, 8, &word, 8, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&queue, words, 0, SOON), -EPROTO);
    tarn_space_drop(bulk);
    tarn_space_leave_ns(of);
}

static void run_refuse_layouts(struct space_testing *self)
{
    with_words(self, refuse_layouts);
}

static void wrong_layouts_are_refused(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_refuse_layouts);
}

/* ---- queues ------------------------------------------------------------------------------------- */

static void push(struct tarn_space_queue *queue, uint64_t item, int expected)
{
    assert_int_equal(tarn_space_queue_push(queue, item, expected == 0 ? SOON : 0), expected);
}

static void pop(struct tarn_space_queue *queue, uint64_t expected)
{
    uint64_t item;
    assert_int_equal(tarn_space_queue_pop(queue, SOON, &item), 0);
    assert_int_equal(item, expected);
}

static void find_empty(struct tarn_space_queue *queue)
{
    uint64_t item = 77;
    assert_int_equal(tarn_space_queue_pop(queue, 0, &item), -EAGAIN);
    assert_int_equal(tarn_space_queue_pop(queue, TESTING_SOON, &item), -EAGAIN);
    assert_int_equal(item, 77);
}

/* Items go through a queue that is filled up and emptied, by two clients in turn, against a plain counter of both. */
static void go_round(struct tarn_space_queue *producer, struct tarn_space_queue *consumer, unsigned rounds)
{
    const uint64_t step = UINT64_C(0x123456789abcdef1);
    uint64_t in = 0, out = 0;
    find_empty(consumer);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 1 + round % CAPACITY && in - out < CAPACITY; i++)
            push(producer, in++ * step, 0);
        if (in - out == CAPACITY)
            push(producer, 5, -EAGAIN);
        for (unsigned i = 0; i < 1 + round % 3 && out < in; i++)
            pop(consumer, out++ * step);
    }
    while (out < in)
        pop(consumer, out++ * step);
    find_empty(consumer);
}

static void keep_order(struct space_testing *self, struct tarn_space_region *words)
{
    struct tarn_space_queue one, two;
    assert_int_equal(tarn_space_queue_format(words, AT, CAPACITY, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&one, words, AT, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&two, words, AT, SOON), 0);
    assert_true(one.client != two.client && one.capacity == CAPACITY);
    go_round(&one, &two, testing_times(self->testing, 100));
    push(&two, 0, 0);
    push(&one, UINT64_MAX, 0);
    pop(&one, 0);
    pop(&one, UINT64_MAX);
    find_empty(&two);
}

static void run_keep_order(struct space_testing *self)
{
    with_words(self, keep_order);
}

static void a_queue_keeps_order(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_keep_order);
}

/* Positions, and the turns in words, wrap around. */
static void wrap_positions(struct space_testing *self, struct tarn_space_region *words)
{
    const uint64_t start = UINT64_MAX - 2 * CAPACITY + 1;            /* two turns before position 0 */
    const uint64_t ended = (uint64_t)(UINT32_MAX - 3 * 4 + 1) << 32; /* the turn before was void */
    const uint64_t ends[] = {start, start};
    struct tarn_space_queue one, two;
    (void)self;
    assert_int_equal(tarn_space_queue_format(words, AT, CAPACITY, SOON), 0);
    assert_int_equal(tarn_space_write_at(words, AT + 24, ends, sizeof(ends), SOON), 0);
    for (uint64_t i = 0; i < 2 * CAPACITY; i++)
        assert_int_equal(tarn_space_write_at(words, ENTRIES + 8 * i, &ended, 8, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&one, words, AT, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&two, words, AT, SOON), 0);
    go_round(&one, &two, 20);
    uint64_t head;
    assert_int_equal(tarn_space_read_at(words, AT + 24, &head, 8, SOON), 0);
    assert_true(head > 2 * CAPACITY && head < 100);
}

static void run_wrap_positions(struct space_testing *self)
{
    with_words(self, wrap_positions);
}

static void positions_wrap_around(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_wrap_positions);
}

/* A producer claims a turn and dies; a consumer learns late that it has taken an item. */
static void lose_producer(struct space_testing *self, struct tarn_space_region *words)
{
    const uint64_t claimed = UINT64_C(5) << 32 | 9; /* turn 1 */
    struct tarn_space_queue one, two;
    uint64_t before, item;
    (void)self;
    assert_int_equal(tarn_space_queue_format(words, AT, CAPACITY, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&one, words, AT, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&two, words, AT, SOON), 0);
    assert_int_equal(tarn_space_cas(words, ENTRIES, 0, claimed, SOON, &before), 0);
    for (uint64_t i = 1; i < CAPACITY; i++)
        push(&one, i, 0);
    push(&one, 5, -EAGAIN);
    find_empty(&two);
    pop(&two, 1);
    assert_int_equal(tarn_space_cas(words, ENTRIES + 8, 0, claimed, SOON, &before), 0);
    assert_true(before != 0); /* it was not dead, and comes too late */
    push(&one, 4, 0);
    two.is_taking = true; /* the outcome was lost */
    pop(&two, 1);
    pop(&two, 2);
    pop(&one, 3);
    pop(&one, 4);
    two.is_taking = true; /* and the queue goes round meanwhile */
    for (uint64_t i = 0; i < 2 * CAPACITY; i++) {
        push(&one, 10 + i, 0);
        pop(&one, 10 + i);
    }
    push(&one, 99, 0);
    pop(&two, 99);
    assert_int_equal(tarn_space_queue_pop(&two, 0, &item), -EAGAIN);
    go_round(&one, &two, 20);
}

static void run_lose_producer(struct space_testing *self)
{
    with_words(self, lose_producer);
}

static void a_dead_producer_is_passed(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_lose_producer);
}

/* A producer that is taken for dead, and is not, puts its item elsewhere. */
static void push_some(void *arg)
{
    struct client *client = arg;
    struct tarn_space_queue queue;
    enter(client);
    assert_int_equal(tarn_space_queue_init(&queue, client->region, AT, SOON), 0);
    for (uint64_t i = 0; i < client->work->times; i++)
        push(&queue, i, 0);
    leave(client);
}

static void be_impatient(struct space_testing *self, struct tarn_space_region *words)
{
    struct work *work = test_calloc(1, sizeof(*work));
    struct tarn_space_queue queue;
    struct client producer;
    uint64_t next = 0, item;
    work->times = testing_times(self->testing, 300);
    assert_int_equal(tarn_space_queue_format(words, AT, CAPACITY, SOON), 0);
    assert_int_equal(tarn_space_queue_init(&queue, words, AT, SOON), 0);
    start_clients(self, work, &producer, 1, push_some);
    while (next < work->times) {
        assert_int_equal(tarn_space_faa(words, AT + 24, 0, SOON, &queue.stalled_position), 0);
        queue.stalled_ns = task_now() - 2 * BASE_NS_PER_SECOND; /* it has waited there for long */
        const int error = tarn_space_queue_pop(&queue, 0, &item);
        assert_true(error == -EAGAIN || (error == 0 && item == next));
        next += error == 0;
        task_yield(); /* to the task that renews the lease */
    }
    testing_join(&producer.job);
    find_empty(&queue);
    test_free(work);
}

static void run_be_impatient(struct space_testing *self)
{
    with_words(self, be_impatient);
}

static void a_slow_producer_is_passed(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_be_impatient);
}

/* ---- many clients ------------------------------------------------------------------------------- */

enum { ITEMS_MAX = base_array_count(((struct work *)0)->given[0]) };
#define END UINT64_MAX /* the item at which a consumer stops */

static void begin_to_use(struct client *client, struct tarn_space_queue *queue)
{
    assert_int_equal(tarn_space_queue_init(queue, client->region, AT, SOON), 0);
    atomic_fetch_add(&client->work->entered, 1);
}

static void produce(void *arg)
{
    struct client *client = arg;
    struct work *work = client->work;
    struct tarn_space_queue queue;
    uint64_t i = 0;
    enter(client);
    begin_to_use(client, &queue);
    for (; i < work->times || (atomic_load(&work->goes_on) && i < ITEMS_MAX); i++) {
        push(&queue, (uint64_t)client->number << 40 | i, 0);
        if (atomic_load(&work->goes_on))
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
    work->pushed[client->number] = (unsigned)i;
    leave(client);
}

static void consume(void *arg)
{
    struct client *client = arg;
    struct work *work = client->work;
    struct tarn_space_queue queue;
    uint64_t item, next[CLIENTS] = {0};
    enter(client);
    begin_to_use(client, &queue);
    for (;;) {
        assert_int_equal(tarn_space_queue_pop(&queue, SOON, &item), 0);
        if (item == END)
            break;
        const uint64_t producer = item >> 40, number = item & 0xffffffffff;
        assert_true(producer < CLIENTS && number < ITEMS_MAX && number >= next[producer]);
        next[producer] = number + 1;
        atomic_fetch_add(&work->given[producer][number], 1);
    }
    leave(client);
}

/* Producers and consumers, each a client of its own; each item is given out once. @param meanwhile  what happens; NULL: nothing */
static void share_work(struct space_testing *self, struct tarn_space_region *words,
                       void (*meanwhile)(struct space_testing *self))
{
    struct client producers[CLIENTS], consumers[CLIENTS];
    struct work *work = test_calloc(1, sizeof(*work));
    struct tarn_space_queue queue;
    work->times = testing_times(self->testing, 150);
    atomic_store(&work->goes_on, meanwhile != NULL);
    assert_int_equal(tarn_space_queue_format(words, AT, CAPACITY, SOON), 0);
    start_clients(self, work, consumers, CLIENTS - 1, consume);
    start_clients(self, work, producers, CLIENTS, produce);
    const uint64_t deadline_ns = SOON;
    while (atomic_load(&work->entered) < 2 * CLIENTS - 1) {
        assert_true(task_now() < deadline_ns);
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
    if (meanwhile != NULL)
        meanwhile(self);
    atomic_store(&work->goes_on, false);
    for (unsigned i = 0; i < CLIENTS; i++)
        testing_join(&producers[i].job);
    assert_int_equal(tarn_space_queue_init(&queue, words, AT, SOON), 0);
    for (unsigned i = 0; i < CLIENTS - 1; i++)
        push(&queue, END, 0);
    for (unsigned i = 0; i < CLIENTS - 1; i++)
        testing_join(&consumers[i].job);
    for (unsigned i = 0; i < CLIENTS; i++) {
        for (unsigned item = 0; item < ITEMS_MAX; item++)
            assert_int_equal(atomic_load(&work->given[i][item]), item < work->pushed[i]);
    }
    find_empty(&queue);
    test_free(work);
}

static void give_once(struct space_testing *self, struct tarn_space_region *words)
{
    share_work(self, words, NULL);
}

static void run_give_once(struct space_testing *self)
{
    with_words(self, give_once);
}

static void each_item_is_given_once(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, run_give_once);
}

/* Take the master away until all leases have ended, and bring it back. */
static void end_leases(struct space_testing *self)
{
    assert_int_equal(task_sleep(self->lease_ns / 4), 0);
    space_testing_close_master(self);
    assert_int_equal(task_sleep(2 * self->lease_ns), 0);
    space_testing_open_master(self);
    space_testing_await_servers(self, TESTING_SERVERS);
}

static void give_once_later(struct space_testing *self, struct tarn_space_region *words)
{
    share_work(self, words, end_leases);
}

static void run_give_once_later(struct space_testing *self)
{
    with_words(self, give_once_later);
}

static void leases_end_and_each_item_is_given_once(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, run_give_once_later);
}

#define SUITE(EACH)                                                                                          \
    EACH(parties_pass_together)                                                                              \
    EACH(a_dead_party_is_replaced)                                                                           \
    EACH(steps_wrap_around)                                                                                  \
    EACH(wrong_layouts_are_refused)                                                                          \
    EACH(a_queue_keeps_order)                                                                                \
    EACH(positions_wrap_around)                                                                              \
    EACH(a_slow_producer_is_passed)                                                                          \
    EACH(a_dead_producer_is_passed)                                                                          \
    EACH(each_item_is_given_once)                                                                            \
    EACH(leases_end_and_each_item_is_given_once)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_sync_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_sync = TESTING_SUITE(space_sync_tests);
