/* Do sockets keep their bounds: connections, descriptors, stacks, buffers, memory, and the processor's time?
 */
#include "task/net_testing.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const struct net_handler echo = {.ready = net_testing_echo_ready, .task_name = "echo"};

/* ---- connections --------------------------------------------------------------------------------- */

#define CONNECTIONS_MAX 3

static void too_many(void *arg)
{
    struct net_testing server = {.testing = arg,
                                 .handler = &echo,
                                 .address = NET_TESTING_TCP,
                                 .connections_max = CONNECTIONS_MAX,
                                 .targets = 2};
    net_testing_open(&server);
    for (int round = 0; round < 10; round++) {
        int fds[CONNECTIONS_MAX];
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            fds[i] = net_testing_client(server.text);
            net_testing_echo(fds[i], "welcome");
        }
        for (int i = 0; i < 3; i++) {
            char byte;
            int fd = net_testing_client(server.text);
            assert_true(read(fd, &byte, 1) <= 0); /* closed at once */
            assert_int_equal(close(fd), 0);
        }
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            net_testing_echo(fds[i], "still here");
            assert_int_equal(close(fds[i]), 0);
        }
        net_testing_await(&server, 0);
    }
    net_testing_close(&server);
}

static void connections_are_limited(void **state)
{
    engine_testing_run(state, NULL, too_many, NULL);
}

#define COMINGS 3000

/* How many there are when nobody opens or closes any: the engine and the kernel take their time. */
static int settled_descriptors(void)
{
    int count = net_testing_descriptors();
    for (int same = 0; same < 50; same++) {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        int now = net_testing_descriptors();
        if (now != count)
            same = 0;
        count = now;
    }
    return count;
}

/* Clients that say something or nothing, close or reset, before or after they were answered. */
static void come_and_go(void *arg)
{
    struct net_testing server = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP, .targets = 2};
    net_testing_open(&server);
    int first = net_testing_client(server.text);
    net_testing_echo(first, "who comes first");
    assert_int_equal(close(first), 0);
    net_testing_await(&server, 0);
    int descriptors = settled_descriptors();
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    unsigned seed = 1;
    for (int i = 0; i < COMINGS; i++) {
        int fd = net_testing_client(server.text);
        unsigned what = (unsigned)rand_r(&seed);
        if (what % 3 == 0)
            assert_int_equal(send(fd, "question", 8, MSG_NOSIGNAL), 8);
        if (what % 3 == 1)
            net_testing_echo(fd, "question and answer");
        if (what % 2 == 0)
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
        assert_int_equal(close(fd), 0);
    }
    int last = net_testing_client(server.text);
    net_testing_echo(last, "who comes last is accepted last");
    net_testing_await(&server, 1);
    descriptors += 2; /* both ends of the last one; of others the kernel may still be closing some */
    int found = 0;
    for (int i = 0; i < 100 && found != descriptors; i++)
        found = settled_descriptors();
    assert_int_equal(found, descriptors);
    assert_int_equal(close(last), 0);
    net_testing_close(&server);
}

static void no_descriptor_is_leaked(void **state)
{
    engine_testing_run(state, NULL, come_and_go, NULL);
}

/* ---- tasks ----------------------------------------------------------------------------------------- */

#define TASKS_MAX 2
#define CLIENTS   7

struct limited {
    struct net_testing server;
    _Atomic int serving, most;
    _Atomic uint64_t waited_ns; /* for a task, the longest */
};

static int count_in(struct net_connection *connection, void *arg)
{
    net_set_user(connection, arg);
    return 0;
}

/* Takes its time with each byte. */
static void serve_slowly(struct net_connection *connection)
{
    struct limited *limited = net_user(connection);
    int serving = atomic_fetch_add(&limited->serving, 1) + 1;
    int most = atomic_load(&limited->most);
    while (serving > most && !atomic_compare_exchange_weak(&limited->most, &most, serving))
        continue;
    char byte;
    uint64_t begin_ns = task_now(), before_ns = 0;
    while (net_read_try(connection, &byte, 1) == 1) {
        uint64_t arrived_ns = net_arrived_ns(connection);
        if (before_ns == 0 && begin_ns > arrived_ns + atomic_load(&limited->waited_ns))
            atomic_store(&limited->waited_ns, begin_ns - arrived_ns); /* a scheduler's own tasks */
        assert_true(arrived_ns >= before_ns && arrived_ns <= task_now());
        before_ns = arrived_ns;
        assert_int_equal(task_sleep(3 * BASE_NS_PER_MS), 0);
        assert_int_equal(net_write(connection, &byte, 1, TASK_FOREVER), 0);
    }
    atomic_fetch_sub(&limited->serving, 1);
}

static void limit_tasks(void *arg)
{
    (void)arg;
    assert_int_equal(net_limit_tasks(task_sched_self(), TASKS_MAX), 0);
}

static void few_tasks(void *arg)
{
    static const struct net_handler slow = {.ready = serve_slowly, .task_name = "slow"};
    struct limited limited = {
        .server = {.testing = arg, .handler = &slow, .accepted = count_in, .address = NET_TESTING_TCP}};
    int fds[CLIENTS];
    net_testing_on(limited.server.testing->scheds[1], limit_tasks, NULL);
    net_testing_open(&limited.server);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = net_testing_client(limited.server.text);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CLIENTS; i++)
            assert_int_equal(send(fds[i], "abc", 3, MSG_NOSIGNAL), 3);
        for (int i = 0; i < CLIENTS; i++) {
            char answer[3];
            assert_int_equal(recv(fds[i], answer, 3, MSG_WAITALL), 3);
            assert_memory_equal(answer, "abc", 3);
        }
    }
    assert_int_equal(atomic_load(&limited.most), TASKS_MAX);
    /* three served before the last, each for three bytes */
    assert_in_range(atomic_load(&limited.waited_ns), 20 * BASE_NS_PER_MS, 20 * BASE_NS_PER_SECOND);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(close(fds[i]), 0);
    net_testing_await(&limited.server, 0);
    net_testing_close(&limited.server);
}

static void connections_wait_for_tasks(void **state)
{
    engine_testing_run(state, NULL, few_tasks, NULL);
}

/* ---- descriptors --------------------------------------------------------------------------------- */

struct descriptors {
    int fds[1024];
    int count;
};

/* Open what there is to open. */
static void take_all(struct descriptors *descriptors)
{
    int fd;
    descriptors->count = 0;
    while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0) {
        assert_true(descriptors->count < (int)base_array_count(descriptors->fds));
        descriptors->fds[descriptors->count++] = fd;
    }
    assert_int_equal(errno, EMFILE);
}

static uint64_t rounds_of(const struct task_sched *sched)
{
    struct task_sched_stats stats;
    task_sched_stats(sched, &stats);
    return stats.rounds;
}

static void no_descriptors(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing server = {.testing = testing, .handler = &echo, .address = NET_TESTING_TCP};
    struct descriptors *descriptors = testing->arg;
    struct net_address address;
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)settled_descriptors(); /* what begins may have one for a moment */
    take_all(descriptors);
    assert_int_equal(close(descriptors->fds[--descriptors->count]), 0);
    net_testing_open(&server); /* takes the last */
    assert_int_equal(net_address_parse(server.text, &address), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address.storage, address.bytes), 0);
    uint64_t rounds = rounds_of(testing->scheds[1]);
    assert_int_equal(task_sleep(50000000), 0);
    assert_int_equal(net_testing_connections(&server), 0);
    assert_true(rounds_of(testing->scheds[1]) - rounds < 200); /* it tries now and then, not all the time */
    while (descriptors->count > 0)
        assert_int_equal(close(descriptors->fds[--descriptors->count]), 0);
    for (int i = 0; i < 3; i++) {
        char byte;
        if (send(fds[i], "a", 1, MSG_NOSIGNAL) != 1 || net_testing_read(fds[i], &byte, 1) != 1) {
            assert_int_equal(close(fds[i]),
                             0); /* refused, where a try came upon the first that was free again */
            fds[i] = net_testing_client(server.text);
        }
        net_testing_echo(fds[i], "accepted in the end");
        assert_int_equal(close(fds[i]), 0);
    }
    net_testing_close(&server);
}

static void lines_with(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)level;
    (void)len;
    if (strstr(line, "cannot accept connections for now") != NULL)
        atomic_fetch_add((_Atomic int *)arg, 1);
}

static void accepting_survives_a_lack_of_descriptors(void **state)
{
    _Atomic int lines = 0;
    struct descriptors descriptors;
    struct task_node_options options = {.log_level = BASE_LOG_WARN,
                                        .log_sink = lines_with,
                                        .log_arg = &lines,
                                        .engine_choice = engine_testing_choice(state)};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit limit = {.rlim_cur = 256, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    task_testing_run(&options, NULL, no_descriptors, &descriptors);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(lines, 1); /* said, and not said again and again */
}

/* ---- stacks -------------------------------------------------------------------------------------- */

static void slow_ready(struct net_connection *connection)
{
    (void)task_sleep(1000000);
    net_testing_echo_ready(connection);
}

static const struct net_handler slow = {.ready = slow_ready, .task_name = "slow"};

static void hold_stack(void *arg)
{
    assert_int_equal(task_semaphore_wait(arg, TASK_FOREVER), 0);
}

#define STACKS  4
#define WAITING 50

static void no_stacks(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing server = {.testing = testing, .handler = &slow, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    struct task_semaphore release;
    struct task_group group;
    task_semaphore_init(&release, 0);
    task_group_init(&group);
    for (int i = 0; i < STACKS; i++) /* nobody who has a stack is a connection's */
        assert_int_equal(task_spawn(testing->scheds[1], &group, "hold", hold_stack, &release), 0);
    int fds[WAITING];
    for (int i = 0; i < WAITING; i++) {
        fds[i] = net_testing_client(server.text);
        assert_int_equal(send(fds[i], "?", 1, MSG_NOSIGNAL), 1);
    }
    net_testing_await(&server, WAITING);
    uint64_t rounds = rounds_of(testing->scheds[1]);
    assert_int_equal(task_sleep(50000000), 0);
    assert_true(rounds_of(testing->scheds[1]) - rounds < 200);
    for (int i = 0; i < STACKS; i++)
        task_semaphore_post(&release);
    for (int i = 0; i < WAITING; i++) {
        char byte;
        assert_int_equal(net_testing_read(fds[i], &byte, 1), 1);
    }
    /* and with stacks that only connections have, far fewer than these */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WAITING; i++)
            assert_int_equal(send(fds[i], "!", 1, MSG_NOSIGNAL), 1);
        for (int i = 0; i < WAITING; i++) {
            char byte;
            assert_int_equal(net_testing_read(fds[i], &byte, 1), 1);
        }
    }
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(close(fds[i]), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    net_testing_close(&server);
}

static void connections_wait_for_stacks(void **state)
{
    struct task_sched_options options = {.tasks_max = STACKS};
    engine_testing_run(state, &options, no_stacks, NULL);
}

/* ---- buffers ------------------------------------------------------------------------------------- */

static void gated_ready(struct net_connection *connection)
{
    net_testing_wait_gate(connection);
    net_testing_echo_ready(connection);
}

static const struct net_handler gated = {.ready = gated_ready, .task_name = "gated"};

/* The most that any connection of this scheduler has unread, in buffers. */
static void find_unread(void *arg)
{
    uint32_t *unread = arg;
    *unread = 0;
    base_list_for_each(item, &task_sched_self()->net->connections) {
        struct net_connection *connection = base_container_of(item, struct net_connection, link);
        *unread = base_max(*unread, connection->unread_count);
    }
}

struct flood {
    int fd;
    size_t sent;
    _Atomic bool stop;
};

static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    char data[8192];
    memset(data, 'f', sizeof(data));
    while (!flood->stop) {
        ssize_t bytes = send(flood->fd, data, sizeof(data), MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd poller = {.fd = flood->fd, .events = POLLOUT};
        if (bytes > 0)
            flood->sent += (size_t)bytes;
        else
            (void)poll(&poller, 1, 10);
    }
    assert_int_equal(shutdown(flood->fd, SHUT_WR), 0);
    return NULL;
}

static void flood_one(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing server = {
        .testing = testing, .handler = &gated, .address = NET_TESTING_TCP, .accepted = net_testing_accepted};
    struct net_testing other = {.testing = testing, .handler = &echo, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    net_testing_open(&other);
    struct flood flood = {.fd = net_testing_client(server.text)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_flood, &flood), 0);
    int fd = net_testing_client(other.text);
    uint32_t unread = 0;
    uint32_t bound = NET_UNREAD_BUFFERS_MAX;
    if (strcmp(task_sched_engine_name(testing->scheds[1]), "uring") == 0)
        bound +=
            testing->scheds[1]->buffers.count / 2; /* all that the kernel may have until it is told to stop */
    for (int i = 0; i < 200 || unread < NET_UNREAD_BUFFERS_MAX; i++) {
        net_testing_on(testing->scheds[1], find_unread, &unread);
        assert_true(unread <= bound);
        net_testing_echo(fd, "others are served all the same");
    }
    flood.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    task_shared_future_set(&server.gate, 0);
    char data[10000];
    size_t back = 0;
    size_t piece;
    while ((piece = net_testing_read(flood.fd, data, sizeof(data))) > 0)
        back += piece;
    assert_int_equal(back, flood.sent);
    assert_int_equal(close(flood.fd), 0);
    assert_int_equal(close(fd), 0);
    net_testing_close(&server);
    net_testing_close(&other);
}

static void a_flood_is_bounded(void **state)
{
    engine_testing_run(state, NULL, flood_one, NULL);
}

#define PIECES 5000

/* Many small arrivals share buffers: a byte does not hold a page. */
static void small_pieces(void *arg)
{
    struct net_testing server = {
        .testing = arg, .handler = &gated, .address = NET_TESTING_TCP, .accepted = net_testing_accepted};
    net_testing_open(&server);
    int fd = net_testing_client(server.text);
    uint32_t unread = 0;
    for (int i = 0; i < PIECES; i++) {
        char byte = (char)(i % 101);
        assert_int_equal(send(fd, &byte, 1, MSG_NOSIGNAL), 1);
    }
    net_testing_on(server.testing->scheds[1], find_unread, &unread);
    assert_true(unread <= (PIECES + 4095) / 4096 + 1);
    task_shared_future_set(&server.gate, 0);
    for (int i = 0; i < PIECES; i++) {
        char byte;
        assert_int_equal(net_testing_read(fd, &byte, 1), 1);
        assert_int_equal(byte, i % 101);
    }
    assert_int_equal(close(fd), 0);
    net_testing_close(&server);
}

static void small_arrivals_share_buffers(void **state)
{
    engine_testing_run(state, NULL, small_pieces, NULL);
}

#define LONG_BYTES (8 << 20)

static void long_ready(struct net_connection *connection)
{
    struct net_testing *server = net_user(connection);
    char byte;
    ssize_t bytes;
    while ((bytes = net_read_try(connection, &byte, 1)) == 1) {
        char *data = base_alloc(&server->testing->node->memory, LONG_BYTES);
        assert_non_null(data);
        for (int i = 0; i < LONG_BYTES; i++)
            data[i] = (char)(i % 121);
        int error = net_write(connection, data, LONG_BYTES, TASK_FOREVER);
        base_free(&server->testing->node->memory, data, LONG_BYTES);
        if (error != 0)
            break;
    }
    if (bytes != -EAGAIN)
        net_close(connection);
}

static const struct net_handler long_answer = {.ready = long_ready, .task_name = "long"};

static void slow_reader(void *arg)
{
    struct net_testing server = {.testing = arg,
                                 .handler = &long_answer,
                                 .address = NET_TESTING_TCP,
                                 .accepted = net_testing_accepted};
    struct net_testing other = {.testing = arg, .handler = &echo, .address = NET_TESTING_TCP};
    net_testing_open(&server);
    net_testing_open(&other);
    int fd = net_testing_client(server.text);
    int quick = net_testing_client(other.text);
    assert_int_equal(send(fd, "?", 1, MSG_NOSIGNAL), 1);
    char data[5000];
    for (size_t sum = 0; sum < LONG_BYTES;) {
        size_t bytes = net_testing_read(fd, data, base_min(sizeof(data), LONG_BYTES - sum));
        assert_true(bytes > 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(data[i], (char)((sum + i) % 121));
        sum += bytes;
        if (sum / sizeof(data) % 50 == 0)
            net_testing_echo(quick, "not held up");
    }
    assert_int_equal(close(fd), 0);
    /* one who goes away in the middle of the answer */
    fd = net_testing_client(server.text);
    assert_int_equal(send(fd, "?", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(net_testing_read(fd, data, sizeof(data)), sizeof(data));
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(quick), 0);
    net_testing_await(&server, 0);
    net_testing_close(&server);
    net_testing_close(&other);
}

static void a_slow_reader_holds_up_nobody(void **state)
{
    engine_testing_run(state, NULL, slow_reader, NULL);
}

/* ---- idle connections, and their end -------------------------------------------------------------- */

#define IDLE 1000

static uint64_t wakings_of(const struct task_testing *testing)
{
    return rounds_of(testing->scheds[1]) + rounds_of(testing->scheds[2]);
}

static void idle(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing server = {
        .testing = testing, .handler = &echo, .address = NET_TESTING_TCP, .targets = 2};
    net_testing_open(&server);
    int *fds = base_alloc(&testing->node->memory, IDLE * sizeof(*fds));
    assert_non_null(fds);
    uint64_t memory = 0;
    for (int i = 0; i < IDLE; i++) {
        if (i == IDLE / 10)
            memory = base_account_used(&testing->node->memory); /* with the stacks that serve them in turn */
        fds[i] = net_testing_client(server.text);
        net_testing_echo(fds[i], "hello");
    }
    struct task_sched_stats stats;
    uint64_t rounds = wakings_of(testing);
    assert_int_equal(task_sleep(300000000), 0);
    assert_true(wakings_of(testing) - rounds <= 6); /* ten a second would be allowed, none is needed */
    for (int i = 1; i < TASK_TESTING_SCHEDS; i++) {
        task_sched_stats(testing->scheds[i], &stats);
        assert_int_equal(stats.tasks, 0);
        assert_int_equal(net_connection_count(testing->scheds[i]), IDLE / 2); /* dealt in turn */
    }
    assert_true((base_account_used(&testing->node->memory) - memory) / (IDLE - IDLE / 10) <= 512);
    net_testing_close(&server); /* all at once */
    for (int i = 0; i < IDLE; i++) {
        char byte;
        assert_int_equal(read(fds[i], &byte, 1), 0);
        assert_int_equal(close(fds[i]), 0);
    }
    base_free(&testing->node->memory, fds, IDLE * sizeof(*fds));
}

static void idle_connections_cost_little(void **state)
{
    engine_testing_need_descriptors(2 * IDLE + 100);
    engine_testing_run(state, NULL, idle, NULL);
}

static void read_ready(struct net_connection *connection)
{
    char data[16];
    while (net_read(connection, data, sizeof(data), TASK_FOREVER) > 0) {
    }
    net_close(connection);
}

static const struct net_handler reader = {.ready = read_ready, .task_name = "reader"};

/* Connections that are idle, that wait in a read, and that have something unread. */
static void shut_down(void *arg)
{
    struct task_testing *testing = arg;
    struct net_testing readers = {.testing = testing, .handler = &reader, .address = NET_TESTING_TCP};
    struct net_testing gates = {
        .testing = testing, .handler = &gated, .address = NET_TESTING_TCP, .accepted = net_testing_accepted};
    net_testing_open(&readers);
    net_testing_open(&gates);
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = net_testing_client(i % 2 == 0 ? readers.text : gates.text);
        if (i >= 4)
            assert_int_equal(send(fds[i], "data", 4, MSG_NOSIGNAL), 4);
    }
    net_testing_await(&readers, 20);
    net_testing_on(testing->scheds[1], net_testing_shutdown, NULL);
    task_shared_future_set(&gates.gate, 0);
    for (int i = 0; i < 20; i++) {
        char byte;
        assert_true(read(fds[i], &byte, 1) <= 0); /* nothing that was unread is answered any more */
        assert_int_equal(close(fds[i]), 0);
    }
    net_testing_close(&readers);
    net_testing_close(&gates);
}

static void all_connections_are_shut_down(void **state)
{
    engine_testing_run(state, NULL, shut_down, NULL);
}

/* ---- failing allocations -------------------------------------------------------------------------- */

/* Talk to a listener of the caller's own scheduler, however far that goes. */
static void try_to_talk(const char *address)
{
    struct net_connection *client;
    int error = net_connect(address, NULL, TASK_FOREVER, &client);
    if (error != 0) {
        assert_int_equal(error, -ENOMEM);
        return;
    }
    char byte;
    if (net_write(client, "x", 1, TASK_FOREVER) == 0)
        (void)net_read(client, &byte, 1, TASK_FOREVER); /* an answer, the end or an error */
    net_close(client);
}

static void fail_each(void *arg)
{
    struct task_testing *testing = arg;
    struct base_account *account = &testing->node->memory;
    for (uint64_t n = 1;; n++) {
        assert_true(n < 1000);
        struct net_listener *listener = NULL;
        base_account_fail_at(account, n);
        int error = net_listen(testing->scheds[0], NET_TESTING_TCP, testing->scheds, 2, &echo, NULL, NULL,
                               100, &listener);
        if (error == 0) {
            char address[NET_ADDRESS_TEXT_MAX];
            net_listener_address(listener, address, sizeof(address));
            for (int i = 0; i < 4; i++)
                try_to_talk(address);
            net_listener_close(listener);
            while (net_connection_count(testing->scheds[0]) + net_connection_count(testing->scheds[1]) > 0)
                assert_int_equal(task_sleep(1000000), 0);
        } else {
            assert_int_equal(error, -ENOMEM);
            assert_null(listener);
        }
        bool failed = atomic_load(&account->fail_at) == 0;
        base_account_fail_at(account, 0);
        if (!failed)
            return;
    }
}

static void every_allocation_may_fail(void **state)
{
    engine_testing_run(state, NULL, fail_each, NULL);
}

/* A thousand connections have two thousand ends; most machines allow that many to those who ask. */
static int raise_limit(void **state)
{
    (void)state;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return -1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TESTS(connections_are_limited),
        ENGINE_TESTS(no_descriptor_is_leaked),
        ENGINE_TESTS(accepting_survives_a_lack_of_descriptors),
        ENGINE_TESTS(connections_wait_for_tasks),
        ENGINE_TESTS(connections_wait_for_stacks),
        ENGINE_TESTS(a_flood_is_bounded),
        ENGINE_TESTS(small_arrivals_share_buffers),
        ENGINE_TESTS(a_slow_reader_holds_up_nobody),
        ENGINE_TESTS(idle_connections_cost_little),
        ENGINE_TESTS(all_connections_are_shut_down),
        ENGINE_TESTS(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, raise_limit, NULL);
}
