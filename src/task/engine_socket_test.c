/* Do both engines receive, send, connect and wake as engine.h says, errors, cancellations and floods
 * included? */
#include "task/engine_testing.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- sockets ------------------------------------------------------------------------------------ */

/* A receive that keeps what it is given until it is told to let go. */
struct receiver {
    struct task_io io;
    struct base_buffer_list list;
    struct task_wait *waiter; /* woken at each arrival */
    uint32_t arrivals;
    int last;
    bool over;
};

static void receiver_done(struct task_io *io)
{
    struct receiver *receiver = io->arg;
    if (io->result > 0) {
        assert_int_equal(base_buffer_bytes(io->buffer), io->result);
        base_buffer_list_append(&receiver->list, io->buffer);
        receiver->arrivals++;
    } else {
        assert_false(io->more);
    }
    receiver->last = io->result;
    receiver->over = !io->more;
    if (receiver->waiter != NULL) {
        struct task_wait *waiter = receiver->waiter;
        receiver->waiter = NULL;
        (void)task_wait_wake(waiter, 0);
    }
}

static void receiver_start_some(struct receiver *receiver, int socket, bool once)
{
    *receiver = (struct receiver){
        .io = {
            .op = TASK_IO_RECEIVE, .socket = socket, .once = once, .done = receiver_done, .arg = receiver}};
    task_io_post(task_sched_self(), &receiver->io);
}

static void receiver_start(struct receiver *receiver, int socket)
{
    receiver_start_some(receiver, socket, false);
}

static void receiver_wait(struct receiver *receiver)
{
    struct task_wait wait;
    task_wait_init(&wait);
    receiver->waiter = &wait;
    assert_int_equal(task_wait_park(&wait, TASK_FOREVER), 0);
    receiver->waiter = NULL;
}

static void receiver_stop(struct receiver *receiver)
{
    if (!receiver->over)
        task_io_cancel(task_sched_self(), &receiver->io);
    while (!receiver->over)
        receiver_wait(receiver);
}

static void make_pair(int sockets[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
}

static void close_pair(int sockets[2])
{
    assert_int_equal(close(sockets[0]), 0);
    assert_int_equal(close(sockets[1]), 0);
}

static void receive_and_end(void *arg)
{
    (void)arg;
    int sockets[2];
    char text[8];
    make_pair(sockets);
    struct receiver receiver;
    receiver_start(&receiver, sockets[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write(sockets[1], "12", 2), 2);
        while (receiver.list.bytes < 2)
            receiver_wait(&receiver);
        assert_int_equal(base_buffer_list_copy_out(&receiver.list, 0, text, sizeof(text)), 2);
        assert_memory_equal(text, "12", 2);
        base_buffer_list_clear(&receiver.list);
        assert_false(receiver.over);
    }
    assert_int_equal(write(sockets[1], "end", 3), 3);
    assert_int_equal(shutdown(sockets[1], SHUT_WR), 0);
    while (!receiver.over)
        receiver_wait(&receiver);
    assert_int_equal(receiver.last, 0); /* the end of the stream, after its last bytes */
    assert_int_equal(receiver.list.bytes, 3);
    base_buffer_list_clear(&receiver.list);
    close_pair(sockets);
}

static void a_stream_is_received_to_its_end(void **state)
{
    engine_testing_run(state, NULL, receive_and_end, NULL);
}

/* One arrival at a time, never more than a buffer, whatever lies there. */
static void receive_once(void *arg)
{
    (void)arg;
    int sockets[2];
    char data[10000];
    make_pair(sockets);
    struct receiver receiver;
    memset(data, 'o', sizeof(data));
    for (int round = 0; round < 3; round++) {
        if (round < 2)
            assert_int_equal(write(sockets[1], data, sizeof(data)), sizeof(data));
        else
            assert_int_equal(shutdown(sockets[1], SHUT_WR), 0);
        for (uint32_t left = sizeof(data); left > 0; left -= base_min(left, (uint32_t)4096)) {
            receiver_start_some(&receiver, sockets[0], true);
            while (!receiver.over)
                receiver_wait(&receiver);
            assert_int_equal(receiver.last, round < 2 ? base_min(left, (uint32_t)4096) : 0);
            assert_int_equal(receiver.arrivals, round < 2 ? 1 : 0);
            base_buffer_list_clear(&receiver.list);
        }
    }
    close_pair(sockets);
    make_pair(sockets);
    receiver_start_some(&receiver, sockets[0], true); /* before there is anything */
    task_yield();
    task_yield();
    assert_false(receiver.over);
    assert_int_equal(write(sockets[1], "x", 1), 1);
    receiver_wait(&receiver);
    assert_true(receiver.over);
    assert_int_equal(receiver.last, 1);
    base_buffer_list_clear(&receiver.list);
    close_pair(sockets);
}

static void one_arrival_can_be_received(void **state)
{
    engine_testing_run(state, NULL, receive_once, NULL);
}

static void receive_cancelled(void *arg)
{
    (void)arg;
    int sockets[2];
    make_pair(sockets);
    struct receiver receiver;
    for (int yields = 0; yields < 4; yields++) {
        receiver_start(&receiver, sockets[0]);
        for (int i = 0; i < yields; i++)
            task_yield(); /* the kernel has it or has it not */
        task_io_cancel(task_sched_self(), &receiver.io);
        task_io_cancel(task_sched_self(), &receiver.io); /* asking twice does no harm */
        assert_false(receiver.over);                     /* done only when it is done */
        receiver_stop(&receiver);
        assert_int_equal(receiver.last, -ECANCELED);
    }
    /* what arrives together with the cancellation is not lost: it is given out or still there */
    for (int i = 0; i < 200; i++) {
        char text[4];
        receiver_start(&receiver, sockets[0]);
        if (i % 2 == 0)
            task_yield();
        assert_int_equal(write(sockets[1], "abc", 3), 3);
        if (i % 4 < 2)
            task_yield();
        receiver_stop(&receiver);
        if (receiver.list.bytes == 0)
            assert_int_equal(read(sockets[0], text, sizeof(text)), 3);
        else
            assert_int_equal(receiver.list.bytes, 3);
        base_buffer_list_clear(&receiver.list);
    }
    close_pair(sockets);
}

static void receives_are_cancelled(void **state)
{
    engine_testing_run(state, NULL, receive_cancelled, NULL);
}

struct again {
    struct task_io io;
    int results[2];
    int count;
};

static void again_done(struct task_io *io)
{
    struct again *again = io->arg;
    assert_false(io->more);
    again->results[again->count++] = io->result;
    if (io->result > 0)
        base_buffer_put(io->buffer);
    if (again->count == 1)
        task_io_post(task_sched_self(), io);
}

/* A request that is posted again as soon as it is done does not meet its old cancellation. */
static void post_again(void *arg)
{
    (void)arg;
    int sockets[2];
    make_pair(sockets);
    for (int i = 0; i < 50; i++) {
        struct again again = {.io = {.op = TASK_IO_RECEIVE,
                                     .socket = sockets[0],
                                     .once = true,
                                     .done = again_done,
                                     .arg = &again}};
        assert_int_equal(write(sockets[1], "x", 1), 1);
        task_io_post(task_sched_self(), &again.io);
        task_io_cancel(task_sched_self(), &again.io);
        while (again.count < 1)
            task_yield();
        if (again.results[0] > 0)
            assert_int_equal(write(sockets[1], "x", 1), 1);
        else
            assert_int_equal(again.results[0], -ECANCELED);
        while (again.count < 2)
            task_yield();
        assert_int_equal(again.results[1], 1);
    }
    close_pair(sockets);
}

static void a_cancellation_ends_with_its_request(void **state)
{
    engine_testing_run(state, NULL, post_again, NULL);
}

#define STARVED 12

/* More sockets than buffers: those that find none wait, and go on when one comes back. */
static void starve(void *arg)
{
    struct task_testing *testing = arg;
    struct base_buffer_pool *pool = task_sched_buffers(task_sched_self());
    int sockets[STARVED][2];
    struct receiver *receivers = base_alloc(&testing->node->memory, STARVED * sizeof(*receivers));
    assert_non_null(receivers);
    for (int i = 0; i < STARVED; i++) {
        make_pair(sockets[i]);
        receiver_start(&receivers[i], sockets[i][0]);
        assert_int_equal(write(sockets[i][1], "hello", 5), 5);
    }
    uint32_t arrived = 0;
    for (int round = 0; arrived < STARVED - 1; round++) {
        assert_true(round < 1000);
        task_yield();
        arrived = 0;
        for (int i = 0; i < STARVED - 1; i++) {
            struct base_buffer_list *list = &receivers[i].list;
            arrived += receivers[i].arrivals;
            assert_false(receivers[i].over);
            if (round % 10 == 9)
                base_buffer_list_clear(list); /* hold them long enough for others to starve */
        }
        /* the last one never lets go, and the pool is never empty for those who read files */
        assert_true(pool->free_count > 0);
    }
    for (int i = 0; i < STARVED; i++)
        receiver_stop(&receivers[i]); /* also one that starves */
    for (int i = 0; i < STARVED; i++) {
        base_buffer_list_clear(&receivers[i].list);
        close_pair(sockets[i]);
    }
    base_free(&testing->node->memory, receivers, STARVED * sizeof(*receivers));
}

static void receives_wait_for_buffers(void **state)
{
    struct task_sched_options options = {.buffers_count = 8};
    engine_testing_run(state, &options, starve, NULL);
}

/* A receive that found no buffer is cancelled. */
static void cancel_starved(void *arg)
{
    (void)arg;
    struct base_buffer_pool *pool = task_sched_buffers(task_sched_self());
    task_yield(); /* the engine has its share by now */
    struct base_buffer_list held = {0};
    struct base_buffer *buffer;
    while ((buffer = base_buffer_get(pool)) != NULL)
        base_buffer_list_append(&held, buffer);
    int sockets[8][2];
    struct receiver receivers[8];
    for (int i = 0; i < 8; i++) {
        make_pair(sockets[i]);
        receiver_start(&receivers[i], sockets[i][0]);
        assert_int_equal(write(sockets[i][1], "x", 1), 1);
    }
    for (int i = 0; i < 10; i++)
        task_yield();
    int starved = 0;
    for (int i = 0; i < 8; i++) {
        starved += receivers[i].arrivals == 0;
        receiver_stop(&receivers[i]);
    }
    assert_true(starved >= 4);
    for (int i = 0; i < 8; i++) {
        base_buffer_list_clear(&receivers[i].list);
        close_pair(sockets[i]);
    }
    base_buffer_list_clear(&held);
}

static void starved_receives_are_cancelled(void **state)
{
    struct task_sched_options options = {.buffers_count = 8};
    engine_testing_run(state, &options, cancel_starved, NULL);
}

#define FLOOD 600

/* Far more completions in one round than the completion queue of a ring of four holds. */
static void flood(void *arg)
{
    struct task_testing *testing = arg;
    struct receiver *receivers = base_alloc(&testing->node->memory, FLOOD * sizeof(*receivers));
    int(*sockets)[2] = base_alloc(&testing->node->memory, FLOOD * sizeof(*sockets));
    assert_non_null(receivers);
    assert_non_null(sockets);
    for (int i = 0; i < FLOOD; i++) {
        make_pair(sockets[i]);
        receiver_start(&receivers[i], sockets[i][0]);
    }
    for (int round = 1; round <= 3; round++) {
        task_yield();
        task_yield();
        for (int i = 0; i < FLOOD; i++)
            assert_int_equal(write(sockets[i][1], "x", 1), 1);
        for (int i = 0; i < FLOOD; i++) {
            while (receivers[i].arrivals < (uint32_t)round)
                receiver_wait(&receivers[i]);
        }
    }
    for (int i = 0; i < FLOOD; i++) {
        receiver_stop(&receivers[i]);
        assert_int_equal(receivers[i].list.bytes, 3);
        base_buffer_list_clear(&receivers[i].list);
        close_pair(sockets[i]);
    }
    base_free(&testing->node->memory, receivers, FLOOD * sizeof(*receivers));
    base_free(&testing->node->memory, sockets, FLOOD * sizeof(*sockets));
}

static void no_completion_is_lost(void **state)
{
    engine_testing_need_descriptors(2 * FLOOD + 100);
    struct task_sched_options options = {.ring_entries = 4, .buffers_count = 4 * FLOOD, .buffer_bytes = 4096};
    engine_testing_run(state, &options, flood, NULL);
}

#define LONG_BYTES (4 << 20)

static void *read_slowly(void *arg)
{
    int socket = *(int *)arg;
    size_t sum = 0;
    char piece[10000];
    ssize_t bytes;
    while ((bytes = read(socket, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < bytes; i++)
            assert_int_equal(piece[i], (char)((sum + (size_t)i) % 127));
        sum += (size_t)bytes;
        if (sum % 7 == 0)
            sched_yield();
    }
    return (void *)sum;
}

static void send_long(void *arg)
{
    struct task_testing *testing = arg;
    int sockets[2];
    pthread_t reader;
    char *data = base_alloc(&testing->node->memory, LONG_BYTES);
    assert_non_null(data);
    for (size_t i = 0; i < LONG_BYTES; i++)
        data[i] = (char)(i % 127);
    make_pair(sockets);
    assert_int_equal(fcntl(sockets[1], F_SETFL, 0), 0); /* the thread waits in the kernel */
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &sockets[1]), 0);
    struct iovec iov[3] = {{data, 1}, {data + 1, 999999}, {data + 1000000, LONG_BYTES - 1000000}};
    struct task_io io = {.op = TASK_IO_SEND, .socket = sockets[0], .iov = iov, .iov_count = 3, .region = -1};
    assert_int_equal(engine_testing_do(io), LONG_BYTES);
    iov[0] = (struct iovec){data + LONG_BYTES % 127, LONG_BYTES - 127};
    io.iov_count = 1;
    assert_int_equal(engine_testing_do(io), LONG_BYTES - 127);
    assert_int_equal(shutdown(sockets[0], SHUT_WR), 0);
    void *sum;
    assert_int_equal(pthread_join(reader, &sum), 0);
    assert_int_equal((size_t)sum, 2 * LONG_BYTES - 127);
    /* to a peer that is gone: an error, and no SIGPIPE */
    assert_int_equal(close(sockets[1]), 0);
    iov[0] = (struct iovec){data, 1};
    assert_int_equal(engine_testing_do(io), -EPIPE);
    sigset_t pending; /* schedulers' threads block it, so it would lie there */
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
    assert_int_equal(close(sockets[0]), 0);
    base_free(&testing->node->memory, data, LONG_BYTES);
}

static void short_sends_go_on(void **state)
{
    engine_testing_run(state, NULL, send_long, NULL);
}

static void send_cancelled(void *arg)
{
    struct task_testing *testing = arg;
    int sockets[2];
    char *data = base_alloc(&testing->node->memory, LONG_BYTES);
    assert_non_null(data);
    make_pair(sockets);
    struct iovec iov = {data, LONG_BYTES};
    struct net_call call = {
        .io = {.op = TASK_IO_SEND, .socket = sockets[0], .iov = &iov, .iov_count = 1, .region = -1}};
    assert_int_equal(net_call_run(&call, task_now() + 1000000), -ETIMEDOUT); /* nobody reads */
    assert_true(read(sockets[1], data, LONG_BYTES) > 0);                     /* though part of it was sent */
    close_pair(sockets);
    base_free(&testing->node->memory, data, LONG_BYTES);
}

static void sends_are_cancelled(void **state)
{
    engine_testing_run(state, NULL, send_cancelled, NULL);
}

static void socket_errors(void *arg)
{
    (void)arg;
    struct receiver receiver;
    char data[1] = "";
    struct iovec iov = {data, 1};
    struct task_io send = {.op = TASK_IO_SEND, .socket = -1, .iov = &iov, .iov_count = 1, .region = -1};
    assert_int_equal(engine_testing_do(send), -EBADF);
    receiver_start(&receiver, -1);
    receiver_wait(&receiver);
    assert_int_equal(receiver.last, -EBADF);
    assert_true(receiver.over);

    int file = memfd_create("engine_test", MFD_CLOEXEC);
    send.socket = file;
    assert_int_equal(engine_testing_do(send), -ENOTSOCK);
    assert_int_equal(close(file), 0);

    int sockets[2];
    make_pair(sockets);
    assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_ACCEPT, .socket = sockets[0]}),
                     -EINVAL);
    close_pair(sockets);

    /* nobody listens at a port that was just given back */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(close(fd), 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct task_io connect = {
        .op = TASK_IO_CONNECT, .socket = fd, .address = (struct sockaddr *)&address, .address_bytes = bytes};
    assert_int_equal(engine_testing_do(connect), -ECONNREFUSED);
    assert_int_equal(close(fd), 0);
}

static void socket_errors_come_back(void **state)
{
    engine_testing_run(state, NULL, socket_errors, NULL);
}

/* ---- waking ------------------------------------------------------------------------------------- */

#define WAKES 20000

struct ping {
    struct task_semaphore there;
    struct task_semaphore back;
};

static void ping_back(void *arg)
{
    struct ping *ping = arg;
    while (task_semaphore_wait(&ping->there, TASK_FOREVER) == 0)
        task_semaphore_post(&ping->back);
}

/* Each wait finds the other scheduler asleep, or about to be: a wake-up that is lost hangs the test. */
static void wake_each_other(void *arg)
{
    struct task_testing *testing = arg;
    struct ping ping;
    struct task_group group;
    task_semaphore_init(&ping.there, 0);
    task_semaphore_init(&ping.back, 0);
    task_group_init(&group);
    assert_int_equal(task_spawn(testing->scheds[1], &group, "ping", ping_back, &ping), 0);
    for (int i = 0; i < WAKES; i++) {
        task_semaphore_post(&ping.there);
        assert_int_equal(task_semaphore_wait(&ping.back, TASK_FOREVER), 0);
    }
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

static void no_wake_up_is_lost(void **state)
{
    engine_testing_run(state, NULL, wake_each_other, NULL);
}

struct disk_noise {
    struct task_file *file;
    bool stop;
};

static void read_all_the_time(void *arg)
{
    struct disk_noise *noise = arg;
    struct base_buffer *buffer = base_buffer_get(task_sched_buffers(task_sched_self()));
    assert_non_null(buffer);
    while (!noise->stop) {
        struct iovec iov = {.iov_base = buffer->data, .iov_len = 4096};
        assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_READ,
                                                            .file = noise->file,
                                                            .iov = &iov,
                                                            .iov_count = 1,
                                                            .region = buffer->region}),
                         4096);
    }
    base_buffer_put(buffer);
}

struct talker {
    int socket;
    struct task_semaphore answered;
};

static void talk(void *arg)
{
    struct talker *talker = arg;
    for (int i = 0; i < WAKES / 10; i++) {
        assert_int_equal(write(talker->socket, "x", 1), 1);
        assert_int_equal(task_semaphore_wait(&talker->answered, TASK_FOREVER), 0);
    }
}

/* Messages and bytes arrive while the scheduler sleeps with a request to the disk in flight. */
static void wake_from_the_disk(void *arg)
{
    struct task_testing *testing = arg;
    FILE *temporary = tmpfile(); /* on a disk, if the machine keeps such files there */
    assert_non_null(temporary);
    int fd = fcntl(fileno(temporary), F_DUPFD_CLOEXEC, 0);
    assert_int_equal(fclose(temporary), 0);
    char data[4096] = "";
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, sizeof(data), 0), sizeof(data));
    assert_int_equal(fsync(fd), 0);
    (void)fcntl(fd, F_SETFL, O_DIRECT);
    struct disk_noise noise = {0};
    struct talker talker;
    struct task_group group;
    int sockets[2];
    struct receiver receiver;
    task_group_init(&group);
    task_semaphore_init(&talker.answered, 0);
    make_pair(sockets);
    talker.socket = sockets[1];
    assert_int_equal(task_file_open(testing->node, fd, &noise.file), 0);
    assert_int_equal(task_spawn(NULL, &group, "noise", read_all_the_time, &noise), 0);
    assert_int_equal(task_spawn(testing->scheds[1], &group, "talk", talk, &talker), 0);
    receiver_start(&receiver, sockets[0]);
    for (uint32_t i = 1; i <= WAKES / 10; i++) {
        while (receiver.arrivals < i)
            receiver_wait(&receiver);
        base_buffer_list_clear(&receiver.list);
        task_semaphore_post(&talker.answered);
    }
    wake_each_other(testing);
    noise.stop = true;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    receiver_stop(&receiver);
    close_pair(sockets);
    task_file_close(noise.file);
}

static void no_wake_up_is_lost_with_files_in_flight(void **state)
{
    engine_testing_run(state, NULL, wake_from_the_disk, NULL);
}

/* A thread without an engine wakes one that sleeps with a deadline it never reaches. */
static void wake_from_a_thread(void **state)
{
    struct task_node_options node_options = {.log_level = BASE_LOG_ERROR,
                                             .engine_choice = engine_testing_choice(state)};
    struct tarn_node *node;
    struct task_sched *sched;
    struct task_group group;
    assert_int_equal(task_node_open(&node_options, &node), 0);
    assert_int_equal(task_sched_open(node, NULL, &sched), 0);
    assert_int_equal(task_sched_start(sched), 0);
    for (int round = 0; round < 5; round++) {
        struct ping ping;
        task_semaphore_init(&ping.there, 0);
        task_semaphore_init(&ping.back, 0);
        task_group_init(&group);
        assert_int_equal(task_spawn(sched, &group, "ping", ping_back, &ping), 0);
        for (int i = 0; i < WAKES / 5; i++) {
            task_semaphore_post(&ping.there);
            assert_int_equal(task_semaphore_wait(&ping.back, TASK_FOREVER), 0);
        }
        task_group_cancel(&group);
        assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    }
    task_sched_stop(sched);
    task_sched_join(sched);
    task_sched_close(sched);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TESTS(a_stream_is_received_to_its_end),
        ENGINE_TESTS(one_arrival_can_be_received),
        ENGINE_TESTS(receives_are_cancelled),
        ENGINE_TESTS(a_cancellation_ends_with_its_request),
        ENGINE_TESTS(receives_wait_for_buffers),
        ENGINE_TESTS(starved_receives_are_cancelled),
        ENGINE_TESTS(no_completion_is_lost),
        ENGINE_TESTS(short_sends_go_on),
        ENGINE_TESTS(sends_are_cancelled),
        ENGINE_TESTS(socket_errors_come_back),
        ENGINE_TESTS(no_wake_up_is_lost),
        ENGINE_TESTS(no_wake_up_is_lost_with_files_in_flight),
        ENGINE_TESTS(wake_from_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
