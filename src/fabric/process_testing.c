/*
 * What every provider must do between processes: two that work together, one that is stopped, ones that are killed
 * at any point. Children are forked before a test has threads, and wait for their orders.
 */
#include "fabric/process_testing.h"

/* In a child: cmocka's own would go on with its tests there. */
#define CHILD_CHECK(condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "child: %s:%d: %s\n", __FILE__, __LINE__, #condition);                     \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* A child's test. */
struct testing_errand {
    struct testing_fabric testing; /* first */
    testing_child_function *function;
    struct testing_orders orders;
};

static void run_errand(struct testing_fabric *testing)
{
    struct testing_errand *errand = base_container_of(testing, struct testing_errand, testing);
    errand->function(testing, &errand->orders);
}

static struct testing_child testing_fork(void **state, testing_child_function *function, bool in_tasks)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct testing_errand errand = {.testing = {.subject = *state, .test = run_errand},
                                        .function = function};
        (void)close(ends[1]);
        (void)prctl(PR_SET_PDEATHSIG,
                    SIGKILL); /* one that is stopped would hold what a failed test has open */
        if (read(ends[0], &errand.orders, sizeof(errand.orders)) == (ssize_t)sizeof(errand.orders))
            testing_run_prepared(&errand.testing, in_tasks);
        _exit(0);
    }
    assert_int_equal(close(ends[0]), 0);
    return (struct testing_child){.pid = pid, .orders = ends[1]};
}

void testing_order(const struct testing_child *child, const char *address, uint64_t seed)
{
    struct testing_orders orders = {.seed = seed};
    (void)snprintf(orders.address, sizeof(orders.address), "%s", address);
    assert_int_equal(write(child->orders, &orders, sizeof(orders)), sizeof(orders));
}

int testing_reap(struct testing_child *child)
{
    int status = -1;
    assert_int_equal(close(child->orders), 0);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    return status;
}

void testing_run_with(void **state, void (*test)(struct testing_fabric *testing), bool in_tasks,
                      testing_child_function *function, unsigned count)
{
    struct testing_child *children = calloc(count, sizeof(*children));
    assert_non_null(children);
    for (unsigned i = 0; i < count; i++)
        children[i] = testing_fork(state, function, in_tasks);
    struct testing_fabric testing = {.subject = *state, .test = test, .children = children};
    testing_run_prepared(&testing, in_tasks);
    free(children);
}

/* ---- meeting a child ---------------------------------------------------------------------------- */

static const struct tarn_fabric_connect_options process_options = {.receive_count = 4, .receive_bytes = 64};

/* Both tell the handle of their region as private data. */
static struct tarn_fabric_connect_options with_handle(const struct tarn_fabric_region *region, uint8_t *room)
{
    struct tarn_fabric_connect_options options = process_options;
    tarn_fabric_handle_save(&region->handle, room);
    options.data = room;
    options.data_bytes = TARN_FABRIC_HANDLE_BYTES;
    return options;
}

const uint32_t all_rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;

/* A child's side. */
struct testing_visit {
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_handle theirs;
};

static void begin_visit(struct testing_fabric *testing, const char *address, struct testing_visit *visit)
{
    const struct tarn_fabric_domain_options domain_options = {.writable_bytes = 65536};
    uint8_t handle[TARN_FABRIC_HANDLE_BYTES];
    const void *data;
    CHILD_CHECK(tarn_fabric_domain_open(testing_clients(testing), &domain_options, &visit->domain) == 0);
    CHILD_CHECK(tarn_fabric_region_alloc(visit->domain, 65536, all_rights, &visit->region) == 0);
    struct tarn_fabric_connect_options options = with_handle(visit->region, handle);
    CHILD_CHECK(tarn_fabric_connect(visit->domain, address, &options, TESTING_LATE, &visit->connection) == 0);
    CHILD_CHECK(tarn_fabric_peer_data(visit->connection, &data) == TARN_FABRIC_HANDLE_BYTES);
    CHILD_CHECK(tarn_fabric_handle_load(data, &visit->theirs) == 0);
}

static void end_visit(struct testing_visit *visit)
{
    tarn_fabric_disconnect(visit->connection);
    tarn_fabric_region_free(visit->region);
    tarn_fabric_domain_close(visit->domain);
}

void open_host(struct testing_fabric *testing, struct testing_host *host)
{
    host->testing = testing;
    host->domain = testing_domain(testing->fabric, 0, 65536);
    host->region = testing_region(host->domain, 65536, all_rights);
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &host->listener), 0);
}

void close_host(struct testing_host *host)
{
    tarn_fabric_listener_close(host->listener);
    tarn_fabric_region_free(host->region);
    tarn_fabric_domain_close(host->domain);
}

int accept_child(struct testing_host *host, uint64_t deadline_ns)
{
    struct tarn_fabric_incoming *incoming;
    uint8_t handle[TARN_FABRIC_HANDLE_BYTES];
    const void *data;
    int error = tarn_fabric_listener_wait(host->listener, deadline_ns, &incoming);
    if (error != 0)
        return error;
    struct tarn_fabric_connect_options options = with_handle(host->region, handle);
    error = tarn_fabric_accept(incoming, host->domain, &options, &host->connection);
    if (error == 0) {
        assert_int_equal(tarn_fabric_peer_data(host->connection, &data), TARN_FABRIC_HANDLE_BYTES);
        assert_int_equal(tarn_fabric_handle_load(data, &host->theirs), 0);
    }
    return error;
}

/* ---- two processes work together ---------------------------------------------------------------- */

enum { PROCESS_ROUNDS = 1500 };

static void work(struct testing_fabric *testing, const struct testing_orders *orders)
{
    struct testing_visit visit;
    struct tarn_fabric_message message;
    uint64_t words[64], before, room[8];
    begin_visit(testing, orders->address, &visit);
    for (uint64_t round = 1; round <= testing_times(testing, PROCESS_ROUNDS); round++) {
        for (unsigned i = 0; i < base_array_count(words); i++)
            words[i] = round * (i + 1);
        const struct iovec vector = {.iov_base = words, .iov_len = sizeof(words)};
        struct tarn_fabric_op op = {.kind = TARN_FABRIC_WRITE_NOTIFY,
                                    .handle = &visit.theirs,
                                    .offset = 4096,
                                    .iov = &vector,
                                    .iov_count = 1,
                                    .value = (uint32_t)round};
        CHILD_CHECK(tarn_fabric_faa(visit.connection, 0, &visit.theirs, 0, 1, TESTING_LATE, &before) == 0);
        tarn_fabric_mem_store64(visit.region, 8, round);
        tarn_fabric_post(visit.connection, &op, 1);
        CHILD_CHECK(tarn_fabric_wait(&op, 1, TESTING_LATE) == 0);
        CHILD_CHECK(tarn_fabric_receive(visit.connection, room, sizeof(room), TESTING_LATE, &message) == 0);
        CHILD_CHECK(message.bytes == 8 && room[0] == round);
        CHILD_CHECK(tarn_fabric_mem_load64(visit.region, 0) == round);
        if (round % 100 == 0)
            (void)task_sleep(round % 7 * 300000);
    }
    end_visit(&visit);
}

static void two_processes_work_together(struct testing_fabric *testing)
{
    struct testing_host host;
    struct tarn_fabric_message message;
    uint8_t data[64];
    uint64_t word;
    open_host(testing, &host);
    testing_order(&testing->children[0], testing->address, 0);
    assert_int_equal(accept_child(&host, TESTING_LATE), 0);
    for (uint64_t round = 1; round <= testing_times(testing, PROCESS_ROUNDS); round++) {
        assert_int_equal(tarn_fabric_receive(host.connection, data, sizeof(data), TESTING_LATE, &message), 0);
        assert_true(message.notified && message.value == round);
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(tarn_fabric_mem_load64(host.region, 4096 + i * 8), round * (i + 1));
        assert_int_equal(tarn_fabric_mem_load64(host.region, 0), round);
        assert_int_equal(tarn_fabric_read(host.connection, 0, &host.theirs, 8, &word, 8, TESTING_LATE), 0);
        assert_int_equal(word, round);
        assert_int_equal(tarn_fabric_faa(host.connection, 0, &host.theirs, 0, 1, TESTING_LATE, &word), 0);
        if (round % 130 == 0)
            (void)task_sleep(round % 5 * 300000);
        assert_int_equal(tarn_fabric_send(host.connection, 0, &round, sizeof(round), TESTING_LATE), 0);
    }
    assert_int_equal(tarn_fabric_receive(host.connection, data, sizeof(data), TESTING_LATE, &message),
                     -EPIPE);
    assert_int_equal(testing_reap(&testing->children[0]), 0);
    tarn_fabric_disconnect(host.connection);
    close_host(&host);
}

/* ---- one is stopped ----------------------------------------------------------------------------- */

void be_stopped(struct testing_fabric *testing, const struct testing_orders *orders)
{
    struct testing_visit visit;
    begin_visit(testing, orders->address, &visit);
    uint64_t word = 1;
    tarn_fabric_mem_store64(visit.region, 0, 4711);
    CHILD_CHECK(tarn_fabric_write(visit.connection, 0, &visit.theirs, 0, &word, 8, TESTING_LATE) == 0);
    CHILD_CHECK(tarn_fabric_send(visit.connection, 0, NULL, 0, TESTING_LATE) == 0);
    (void)task_sleep(60 * BASE_NS_PER_SECOND); /* until it is killed */
}

/* What a stopped peer has is read and changed without it, once it was used; what it could write is not used again before its end. */
static void a_stopped_peer_does_no_work(struct testing_fabric *testing)
{
    struct testing_host host;
    struct tarn_fabric_message message;
    struct tarn_fabric_region *again;
    struct testing_child *child = &testing->children[0];
    uint8_t data[64];
    uint64_t word;
    if (testing->subject->is_served) { /* it would have to */
        assert_int_equal(testing_reap(child), 0);
        return;
    }
    open_host(testing, &host);
    testing_order(child, testing->address, 0);
    assert_int_equal(accept_child(&host, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_receive(host.connection, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_int_equal(tarn_fabric_read(host.connection, 0, &host.theirs, 8, &word, 8, TESTING_LATE), 0);
    assert_int_equal(kill(child->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(child->pid, NULL, WUNTRACED), child->pid);
    assert_int_equal(tarn_fabric_read(host.connection, 0, &host.theirs, 0, &word, 8, TESTING_LATE), 0);
    assert_int_equal(word, 4711);
    assert_int_equal(tarn_fabric_cas(host.connection, 0, &host.theirs, 0, 4711, 1, TESTING_LATE, &word), 0);
    assert_int_equal(word, 4711);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(tarn_fabric_send(host.connection, 0, NULL, 0, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_send(host.connection, 0, NULL, 0, TESTING_SOON), -ETIMEDOUT);
    assert_int_equal(tarn_fabric_fence(host.connection, TESTING_SOON),
                     testing->subject->fences_alone ? 0 : -ETIMEDOUT);
    tarn_fabric_region_free(host.region);
    if (!testing->subject->fences_alone)
        assert_int_equal(tarn_fabric_region_alloc(host.domain, 4096, all_rights, &again), -ENOSPC);
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_int_equal(tarn_fabric_fence(host.connection, TESTING_LATE), 0);
    assert_true(WIFSIGNALED(testing_reap(child)));
    tarn_fabric_disconnect(host.connection);
    host.region = testing_region(host.domain, 65536, all_rights);
    close_host(&host);
}

/* ---- they are stopped and killed ---------------------------------------------------------------- */

enum { VICTIMS = 41 }; /* the last is one that is met */

/* Everything at once, for ever. */
static void storm(struct testing_fabric *testing, const struct testing_orders *orders)
{
    struct testing_visit visit;
    struct base_random random;
    static uint8_t data[8192];
    uint64_t before;
    base_random_init(&random, orders->seed);
    begin_visit(testing, orders->address, &visit);
    for (;;) {
        uint64_t offset = base_random_below(&random, 4096) * 8;
        const struct iovec vector = {.iov_base = data, .iov_len = base_random_below(&random, sizeof(data))};
        struct tarn_fabric_op ops[] = {
            {.kind = TARN_FABRIC_WRITE,
             .handle = &visit.theirs,
             .offset = offset,
             .iov = &vector,
             .iov_count = 1},
            {.kind = TARN_FABRIC_READ,
             .handle = &visit.theirs,
             .offset = offset,
             .iov = &vector,
             .iov_count = 1},
            {.kind = TARN_FABRIC_WRITE_NOTIFY,
             .handle = &visit.theirs,
             .offset = offset,
             .iov = &vector,
             .iov_count = 1},
            {.kind = TARN_FABRIC_SEND},
        };
        tarn_fabric_post(visit.connection, ops, base_array_count(ops));
        CHILD_CHECK(tarn_fabric_wait(ops, base_array_count(ops), TESTING_LATE) == 0);
        CHILD_CHECK(tarn_fabric_faa(visit.connection, 0, &visit.theirs, 0, 1, TESTING_LATE, &before) == 0);
    }
}

/* A peer stands still, wherever it was, and goes on unless it shall never know: nothing is lost by that. */
static void stop_victim(const struct testing_host *host, const struct testing_child *child, bool wakes)
{
    enum { MESSAGES = 12 }; /* more than it has credit for */
    struct tarn_fabric_message message;
    uint8_t data[64];
    uint64_t word;
    assert_int_equal(kill(child->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(child->pid, NULL, WUNTRACED), child->pid);
    (void)task_sleep(1000000);
    if (host->connection != NULL && !host->testing->subject->is_served)
        assert_int_equal(tarn_fabric_faa(host->connection, 0, &host->theirs, 0, 1, TESTING_LATE, &word), 0);
    if (!wakes)
        return;
    assert_int_equal(kill(child->pid, SIGCONT), 0);
    for (unsigned i = 0; i < MESSAGES && host->connection != NULL; i++)
        assert_int_equal(tarn_fabric_receive(host->connection, data, sizeof(data), TESTING_LATE, &message),
                         0);
    if (host->connection != NULL)
        assert_int_equal(tarn_fabric_faa(host->connection, 0, &host->theirs, 0, 1, TESTING_LATE, &word), 0);
}

/* Waits for a victim, and passes over earlier ones whose connections came when they were given up already. */
static int accept_victim(struct testing_host *host, uint64_t deadline_ns, unsigned *missed)
{
    for (;;) {
        uint64_t word;
        int error = accept_child(host, deadline_ns);
        if (error == 0) /* from then on nothing that it has needs its help */
            error = tarn_fabric_faa(host->connection, 0, &host->theirs, 0, 1, TESTING_LATE, &word);
        if (error == 0 || error == -ETIMEDOUT)
            return error;
        assert_int_equal(error, -ECONNRESET);
        assert_true(*missed > 0);
        *missed -= 1;
        if (host->connection == NULL)
            continue;
        assert_int_equal(tarn_fabric_fence(host->connection, TESTING_LATE), 0);
        tarn_fabric_disconnect(host->connection);
        host->connection = NULL;
    }
}

/*
 * @param met  whether its life counts from when there is a connection
 * @param end  0: it is killed; 1: stopped, and then killed; 2: stopped, woken, and then killed
 * @param missed  how many earlier ones were not met, and may have a connection yet; it is kept
 * @return whether there was one: else the end came before
 */
static bool host_victim(struct testing_host *host, struct testing_child *child, uint64_t life_ns, bool met,
                        unsigned end, unsigned *missed)
{
    struct tarn_fabric_message message;
    uint8_t data[64];
    uint64_t until_ns = task_now() + life_ns, word;
    int error = accept_victim(host, met ? TESTING_LATE : until_ns, missed);
    if (met)
        until_ns = task_now() + life_ns;
    while (error == 0 && task_now() < until_ns) {
        error = tarn_fabric_receive(host->connection, data, sizeof(data), until_ns, &message);
        assert_true(error == 0 || error == -ETIMEDOUT);
        assert_int_equal(tarn_fabric_faa(host->connection, 0, &host->theirs, 0, 1, TESTING_LATE, &word), 0);
    }
    if (end > 0)
        stop_victim(host, child, end == 2);
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_true(WIFSIGNALED(testing_reap(child)));
    if (error == -ETIMEDOUT && host->connection == NULL)
        error = accept_child(host, TESTING_SOON); /* it may have come just before */
    if (host->connection == NULL) {
        assert_true(error == -ETIMEDOUT || error == -ECONNRESET);
        *missed += 1;
        return false;
    }
    do
        error = tarn_fabric_receive(host->connection, data, sizeof(data), TESTING_LATE, &message);
    while (error == 0);
    assert_int_equal(error, -ECONNRESET);
    assert_int_equal(tarn_fabric_read(host->connection, 0, &host->theirs, 0, &word, 8, TESTING_LATE),
                     -ECONNRESET);
    return true;
}

static void peers_are_stopped_and_killed_at_any_point(struct testing_fabric *testing)
{
    struct testing_host host = {0};
    struct base_random random;
    unsigned met = 0, missed = 0, descriptors = 0;
    base_random_init(&random, 1);
    open_host(testing, &host);
    for (unsigned i = 0; i < VICTIMS; i++) {
        testing_order(&testing->children[i], testing->address, i);
        host.connection = NULL;
        uint64_t life_ns = base_random_below(&random, 10000000);
        if (host_victim(&host, &testing->children[i], life_ns, i % 2 == 0, i / 2 % 3, &missed)) {
            met++;
            tarn_fabric_region_free(host.region); /* it could write there, and cannot any more */
            assert_int_equal(tarn_fabric_fence(host.connection, TESTING_LATE), 0);
            tarn_fabric_disconnect(host.connection);
            host.region = testing_region(host.domain, 65536, all_rights);
            assert_true(base_is_zero(host.region->memory, 65536));
        }
        if (i == 0)
            descriptors = testing_descriptors();
    }
    assert_true(met >= VICTIMS / 2);
    assert_int_equal(testing_descriptors(), descriptors - (VICTIMS - 1)); /* each had a pipe */
    close_host(&host);
}

TESTING_WITH_CHILDREN(two_processes_work_together, work, 1)
TESTING_WITH_CHILDREN(a_stopped_peer_does_no_work, be_stopped, 1)
TESTING_WITH_CHILDREN(peers_are_stopped_and_killed_at_any_point, storm, VICTIMS)

static const struct CMUnitTest fabric_processes_tests[] = {
    TESTING_UNITS(two_processes_work_together), TESTING_UNITS(a_stopped_peer_does_no_work),
    TESTING_UNITS(peers_are_stopped_and_killed_at_any_point)};

const struct testing_suite fabric_processes = TESTING_SUITE(fabric_processes_tests);
