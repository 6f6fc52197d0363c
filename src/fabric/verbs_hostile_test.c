/*
 * What `verbs` does with those who do not keep to the rules: hellos that are none, work requests made by hand, hosts
 * that are gone; and what many connections leave behind.
 */
#include "base/random.h"
#include "fabric/verbs/verbs.h"
#include "fabric/verbs_testing.h"
#include <net/if.h>
#include <sys/ioctl.h>

static const struct tarn_fabric_connect_options small = {.receive_count = 4, .receive_bytes = 64};

/* ---- hellos, without a device -------------------------------------------------------------------- */

static void hellos_are_read_as_they_were_written(void **state)
{
    uint8_t bytes[VERBS_WELCOME_BYTES];
    (void)state;
    for (unsigned kind = VERBS_HELLO; kind <= VERBS_OUT_OF_MEMORY; kind++) {
        struct verbs_hello hello = {.kind = kind}, back;
        const bool is_whole = kind == VERBS_HELLO || kind == VERBS_REST || kind == VERBS_WELCOME;
        if (is_whole) {
            hello.receive_count = TARN_FABRIC_RECEIVE_COUNT_MAX;
            hello.receive_bytes = TARN_FABRIC_RECEIVE_BYTES_MAX;
            hello.domain = UINT64_MAX - 1;
        }
        if (kind == VERBS_PART || kind == VERBS_REST)
            hello.nonce = 0x123456789abcdef;
        hello.data_bytes = kind == VERBS_WELCOME ? 56 : kind == VERBS_REST ? 24 : kind < VERBS_REST ? 32 : 0;
        testing_fill(hello.data, hello.data_bytes, kind);
        uint8_t count = verbs_hello_save(&hello, bytes);
        assert_int_equal(count, kind == VERBS_WELCOME ? VERBS_WELCOME_BYTES : VERBS_REQUEST_BYTES);
        assert_int_equal(verbs_hello_load(bytes, count, &back), 0);
        assert_memory_equal(&back, &hello, sizeof(hello));
        assert_int_equal(verbs_hello_load(bytes, VERBS_REQUEST_BYTES - 1, &back), -EPROTO);
        bytes[4]++; /* another version */
        assert_int_equal(verbs_hello_load(bytes, count, &back), -EPROTO);
    }
}

/* Whatever is in them: what is taken keeps to its bounds. */
static void hellos_may_be_rubbish(void **state)
{
    struct base_random random;
    unsigned taken = 0;
    (void)state;
    base_random_init(&random, 7);
    for (unsigned i = 0; i < 20000; i++) {
        const size_t count = base_random_below(&random, 200);
        uint8_t *bytes = malloc(count + 1);
        struct verbs_hello hello;
        assert_non_null(bytes);
        for (size_t at = 0; at < count; at++)
            bytes[at] = (uint8_t)base_random_u64(&random);
        if (count >= 8) {
            memcpy(bytes, "tarn\1", 5);
            bytes[5] = (uint8_t)(i % 8);
            bytes[6] = (uint8_t)(i % 60);
            bytes[7] = i % 16 == 0 ? 1 : 0;
        }
        if (count >= 16) {
            base_store_le32(bytes + 8, i % 5 == 0 ? 0 : 1 + i % 70000);
            base_store_le32(bytes + 12, i % 7 == 0 ? 0 : 1 + i % 2000000);
        }
        if (verbs_hello_load(bytes, count, &hello) == 0) {
            taken++;
            assert_true(hello.data_bytes <= TARN_FABRIC_PRIVATE_BYTES_MAX && bytes[7] == 0);
            assert_true(hello.receive_bytes <= TARN_FABRIC_RECEIVE_BYTES_MAX || hello.kind >= VERBS_REFUSAL);
        }
        free(bytes);
    }
    assert_true(taken > 100);
}

/* ---- the URL, without a device -------------------------------------------------------------------- */

static void the_url_vouches_for_words(void **state)
{
    (void)state;
    static const char *const wrong[] = {"rxe0,whole-words=yes", "rxe0,whole", "rxe0,whole-words,port=0"};
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    struct verbs_options options;
    struct tarn_node *node;
    assert_int_equal(task_node_open(&quiet, &node), 0);
    assert_int_equal(verbs_options_read(&node->log, "rxe0", &options), 0);
    assert_false(options.whole_words);
    assert_int_equal(verbs_options_read(&node->log, "rxe0,port=2,whole-words", &options), 0);
    assert_true(options.whole_words);
    assert_int_equal(options.port, 2);
    assert_string_equal(options.device, "rxe0");
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        assert_int_equal(verbs_options_read(&node->log, wrong[i], &options), -EINVAL);
    task_node_close(node);
}

/* ---- asking by hand ------------------------------------------------------------------------------ */

/* Ask for a connection with these bytes as private data. @return 0, or what came of it */
static int ask(const struct testing_fabric *testing, const uint8_t *bytes, uint8_t count)
{
    struct net_address where;
    struct rdma_cm_id *id;
    struct rdma_conn_param param = {.private_data = bytes, .private_data_len = count, .qp_num = 0x123};
    assert_int_equal(verbs_address_read(testing->address, &where), 0);
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&where.storage, 10000), 0);
    assert_int_equal(rdma_resolve_route(id, 10000), 0);
    int error = rdma_connect(id, &param) == 0 ? 0 : -errno;
    assert_int_equal(rdma_destroy_id(id), 0);
    return error;
}

static void hellos_that_are_none_are_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    uint8_t bytes[VERBS_WELCOME_BYTES];
    testing_pair_open(testing, &pair, NULL);
    assert_int_equal(ask(testing, NULL, 0), -ECONNREFUSED);
    const struct verbs_hello rest = {
        .kind = VERBS_REST, .receive_count = 1, .receive_bytes = 1, .nonce = 5, .data_bytes = 3};
    assert_int_equal(ask(testing, bytes, verbs_hello_save(&rest, bytes)), -ECONNREFUSED);
    const struct verbs_hello good = {.kind = VERBS_HELLO, .receive_count = 1, .receive_bytes = 1};
    for (unsigned at = 0; at < 16; at++) {
        if (at == 9 || at == 13)
            continue; /* that is still a good one */
        (void)verbs_hello_save(&good, bytes);
        bytes[at] = at == 8 || at == 12 ? 0 : 0xee; /* none may wait; of no length */
        assert_int_equal(ask(testing, bytes, VERBS_REQUEST_BYTES), -ECONNREFUSED);
    }
    /* more first parts than are remembered: the first is forgotten */
    for (unsigned i = 0; i <= 64; i++) {
        const struct verbs_hello part = {
            .kind = VERBS_PART, .nonce = 5 + i, .data_bytes = VERBS_REQUEST_DATA};
        assert_int_equal(ask(testing, bytes, verbs_hello_save(&part, bytes)), -ECONNREFUSED);
    }
    assert_int_equal(ask(testing, bytes, verbs_hello_save(&rest, bytes)), -ECONNREFUSED);
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_SOON, &incoming), -ETIMEDOUT);
    uint64_t before;
    assert_int_equal(tarn_fabric_faa(pair.client, 0, &pair.all->handle, 0, 1, TESTING_LATE, &before), 0);
    testing_pair_close(&pair);
}

/* ---- work requests by hand ----------------------------------------------------------------------- */

static void post_by_hand(struct testing_pair *pair, struct ibv_send_wr request, uint32_t bytes)
{
    struct verbs_connection *client = pair->client->state;
    struct ibv_sge vector = {
        .addr = (uintptr_t)client->ring.memory, .length = bytes, .lkey = client->mr->lkey};
    struct ibv_send_wr *bad;
    base_spin_lock(&client->lock);
    request.wr_id = client->posted;
    request.sg_list = &vector;
    request.num_sge = bytes > 0 ? 1 : 0;
    request.send_flags = IBV_SEND_SIGNALED;
    client->flights[client->posted % client->verbs->device.send_depth] =
        (struct verbs_flight){.ring_end = client->ring.tail};
    client->posted++;
    assert_int_equal(ibv_post_send(client->qp, &request, &bad), 0);
    base_spin_unlock(&client->lock);
}

/* The server's connection dies of something, and both connect again. */
static void expect_death(struct testing_pair *pair, int error, int or_error)
{
    struct tarn_fabric_message message;
    uint8_t data[64];
    int received;
    do
        received = tarn_fabric_receive(pair->server, data, sizeof(data), TESTING_LATE, &message);
    while (received == 0);
    assert_int_equal(received, received == or_error ? or_error : error);
    testing_disconnect(pair);
    testing_connect(pair);
}

static struct ibv_send_wr send_of(enum ibv_wr_opcode opcode, uint32_t said)
{
    return (struct ibv_send_wr){.opcode = opcode, .imm_data = htobe32(said)};
}

static void messages_that_are_none_end_the_connection(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, &small);
    post_by_hand(&pair, send_of(IBV_WR_SEND, 0), 8);
    expect_death(&pair, -EPROTO, -EPROTO);
    post_by_hand(&pair, send_of(IBV_WR_SEND_WITH_IMM, UINT32_C(7) << 28), 0);
    expect_death(&pair, -EPROTO, -EPROTO);
    post_by_hand(&pair, send_of(IBV_WR_SEND_WITH_IMM, UINT32_C(1) << 28 | 1),
                 0); /* credit that it had not used */
    expect_death(&pair, -EPROTO, -EPROTO);
    post_by_hand(&pair, send_of(IBV_WR_SEND_WITH_IMM, 0x0fffffff), 0);
    expect_death(&pair, -EPROTO, -EPROTO);
    post_by_hand(&pair, send_of(IBV_WR_SEND_WITH_IMM, 0), 65); /* longer than agreed */
    expect_death(&pair, -EPROTO, -ECONNRESET);                 /* Soft-RoCE does not tell the receiver why */
    for (unsigned i = 0; i < 5; i++)                           /* one more than there was credit for */
        post_by_hand(&pair, send_of(IBV_WR_SEND_WITH_IMM, 0), 8);
    while (tarn_fabric_error(pair.server) == 0) /* who received one would give its credit back */
        (void)task_sleep(1000000);
    expect_death(&pair, -EPROTO, -EPROTO);
    testing_pair_close(&pair);
}

/* What the device alone refuses: a handle says nothing against it. */
static void the_device_refuses(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_domain *other = testing_domain(testing->fabric, 4096, 4096);
    struct tarn_fabric_region *others = testing_region(other, 4096, 7);
    struct tarn_fabric_handle forged = others->handle;
    static uint8_t memory[64];
    const struct iovec vector = {.iov_base = memory, .iov_len = sizeof(memory)};
    forged.domain = pair.all->handle.domain;
    for (unsigned kind = TARN_FABRIC_READ; kind <= TARN_FABRIC_FAA; kind++) {
        const bool atomic = kind == TARN_FABRIC_CAS || kind == TARN_FABRIC_FAA;
        struct tarn_fabric_op op = {
            .kind = kind, .handle = &forged, .operand = 1, .iov = &vector, .iov_count = atomic ? 0 : 1};
        testing_expect_failure(&pair, op, -EACCES);
    }
    assert_true(base_is_zero(others->memory, others->bytes));
    /* an old address with a new rkey, which is what a device may give out again */
    struct tarn_fabric_handle old = pair.readable->handle;
    tarn_fabric_region_free(pair.readable);
    pair.readable = testing_region(pair.server_domain, TESTING_BYTES, TARN_FABRIC_MAY_READ);
    assert_int_not_equal(old.key >> 32, pair.readable->handle.key >> 32);
    old.key = (old.key & ~(uint64_t)UINT32_MAX) | verbs_handle_rkey(&pair.readable->handle);
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_READ, .handle = &old, .iov = &vector, .iov_count = 1};
    testing_expect_failure(&pair, op, -EACCES);
    tarn_fabric_region_free(others);
    tarn_fabric_domain_close(other);
    testing_pair_close(&pair);
}

static _Thread_local unsigned looks; /* of this thread at a completion queue */

static int see_nothing(struct ibv_cq *queue, int room, struct ibv_wc *completions)
{
    (void)queue;
    (void)room;
    (void)completions;
    looks++;
    return 0;
}

/* What a device does not flush is not waited for: its operations end within the call that ends the connection. */
static void a_silent_device_holds_nobody_up(struct testing_fabric *testing)
{
    static const uint8_t data[64];
    const struct iovec vector = {(void *)(uintptr_t)data, sizeof(data)};
    struct testing_pair pair;
    testing_pair_open(testing, &pair, &small);
    struct verbs_connection *client = pair.client->state;
    struct ibv_context_ops *ops = &client->verbs->device.context->ops;
    int (*const poll)(struct ibv_cq *, int, struct ibv_wc *) = ops->poll_cq;
    struct tarn_fabric_op op = {
        .kind = TARN_FABRIC_WRITE, .handle = &pair.all->handle, .iov = &vector, .iov_count = 1};
    __atomic_store_n(&ops->poll_cq, see_nothing, __ATOMIC_RELEASE); /* the service looks, too */
    tarn_fabric_post(pair.client, &op, 1);
    looks = 0;
    fabric_connection_end(pair.client, "test", -ECONNABORTED);
    assert_true(op.finished);
    assert_int_equal(op.result, -ECONNABORTED);
    assert_true(looks < 10);
    __atomic_store_n(&ops->poll_cq, poll, __ATOMIC_RELEASE);
    testing_pair_close(&pair);
}

/* ---- many ---------------------------------------------------------------------------------------- */

enum { MANY = 200 };

struct crowd {
    struct testing_pair *pair;
    struct tarn_fabric_connection *servers[MANY];
};

static void accept_many(void *arg)
{
    struct crowd *crowd = arg;
    for (unsigned i = 0; i < MANY; i++) {
        struct tarn_fabric_incoming *incoming;
        assert_int_equal(tarn_fabric_listener_wait(crowd->pair->listener, TESTING_LATE, &incoming), 0);
        assert_int_equal(tarn_fabric_accept(incoming, crowd->pair->server_domain, &small, &crowd->servers[i]),
                         0);
    }
}

/* What the kernel has of all devices: queue pairs, completion queues, memory regions, protection domains. */
struct resources {
    unsigned qp, cq, mr, pd;
};

/* Run the tool that lists them. @return where its output is to be read */
static FILE *list_resources(pid_t *ret_child)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *ret_child = fork();
    assert_true(*ret_child >= 0);
    if (*ret_child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execlp("rdma", "rdma", "resource", "show", NULL);
        _exit(127);
    }
    assert_int_equal(close(ends[1]), 0);
    FILE *output = fdopen(ends[0], "re");
    assert_non_null(output);
    return output;
}

static struct resources count_resources(void)
{
    struct resources sum = {0};
    char line[256];
    unsigned devices = 0;
    int status;
    pid_t child;
    FILE *output = list_resources(&child);
    while (fgets(line, sizeof(line), output) != NULL) {
        static const char *const names[] = {" qp ", " cq ", " mr ", " pd "};
        unsigned *const sums[] = {&sum.qp, &sum.cq, &sum.mr, &sum.pd};
        for (unsigned i = 0; i < base_array_count(names); i++) {
            const char *at = strstr(line, names[i]);
            assert_non_null(at);
            *sums[i] += (unsigned)strtoul(at + strlen(names[i]), NULL, 10);
        }
        devices++;
    }
    assert_int_equal(fclose(output), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(devices, 2);
    return sum;
}

/* All there at once; when their domains are closed, neither the kernel nor we have anything of them. */
static void two_hundred_at_once(struct testing_fabric *testing)
{
    struct testing_pair pair;
    const struct resources nothing = count_resources();
    struct testing_job job;
    static struct crowd crowd;
    struct tarn_fabric_connection *clients[MANY];
    uint64_t before;
    testing_pair_open(testing, &pair, &small);
    testing_disconnect(&pair);
    const unsigned descriptors = testing_descriptors();
    const uint64_t memory = testing_memory(testing);
    crowd.pair = &pair;
    testing_start(testing, &job, 0, accept_many, &crowd);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(
            tarn_fabric_connect(pair.client_domain, testing->address, &small, TESTING_LATE, &clients[i]), 0);
    testing_join(&job);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(tarn_fabric_faa(clients[i], 0, &pair.all->handle, 0, 1, TESTING_LATE, &before), 0);
        assert_int_equal(before, i);
    }
    const struct resources all = count_resources();
    print_message("# 200 connections: %u queue pairs, %u completion queues, %u memory regions\n",
                  all.qp - nothing.qp, all.cq - nothing.cq, all.mr - nothing.mr);
    assert_int_equal(all.qp - nothing.qp, 2 * MANY);
    assert_int_equal(all.cq - nothing.cq, 2 * MANY);
    assert_int_equal(all.mr - nothing.mr, 2 * MANY + 2); /* and the regions */
    assert_true(all.pd - nothing.pd >= 2);               /* librdmacm has some besides */
    for (unsigned i = 0; i < MANY; i++) {
        tarn_fabric_disconnect(clients[i]);
        tarn_fabric_disconnect(crowd.servers[i]);
    }
    testing_expect_descriptors(descriptors);
    assert_int_equal(testing_memory(testing), memory);
    testing_pair_close(&pair);
    const struct resources left = count_resources();
    assert_memory_equal(&left, &nothing, sizeof(left));
}

/* ---- what is told, and what is not believed ------------------------------------------------------- */

/* The other device's address is none to listen at. */
static void each_device_has_its_own_addresses(struct testing_fabric *testing)
{
    struct tarn_fabric_listener *listener;
    assert_int_equal(tarn_fabric_listen(testing_clients(testing), testing->address, &listener), -ENODEV);
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &listener), 0);
    tarn_fabric_listener_close(listener);
}

/* Wait until all that a connection's device was handed has come to an end. @return whether all was well */
static bool flights_end(struct verbs_connection *connection)
{
    bool over = false, well = false;
    for (uint64_t until_ns = TESTING_LATE; !over; (void)task_sleep(1000000)) {
        base_spin_lock(&connection->lock);
        verbs_poll_locked(connection);
        over = connection->has_failed || connection->done_count == connection->posted;
        well = !connection->has_failed;
        base_spin_unlock(&connection->lock);
        assert_true(task_now() < until_ns);
    }
    return well;
}

/* Whatever its device still sends: who was fenced changes nothing. */
static void who_is_fenced_writes_no_more(struct testing_fabric *testing)
{
    struct testing_pair pair;
    char url[80];
    tarn_fabric_close(testing->client_fabric);
    (void)snprintf(url, sizeof(url), "%s,heartbeat=200ms", testing->subject->client_url);
    assert_int_equal(tarn_fabric_open(testing->node, url, &testing->client_fabric), 0);
    testing_pair_open(testing, &pair, &small);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    struct verbs_connection *client = pair.client->state;
    for (unsigned fenced = 0; fenced < 2; fenced++) {
        memset(client->ring.memory, 0x11 + (int)fenced, 8);
        if (fenced == 1)
            assert_int_equal(tarn_fabric_fence(pair.server, TESTING_LATE), 0);
        post_by_hand(&pair,
                     (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
                                          .wr.rdma = {.remote_addr = verbs_handle_address(all),
                                                      .rkey = verbs_handle_rkey(all)}},
                     8);
        assert_int_equal(flights_end(client), fenced == 0);
        assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), UINT64_C(0x1111111111111111));
    }
    testing_pair_close(&pair);
}

static void keep_failure(void *arg, enum base_log_level level, const char *line, size_t len)
{
    char *kept = arg;
    (void)level;
    if (strstr(line, "connection failed") != NULL && kept[0] == '\0')
        (void)snprintf(kept, 256, "%.*s", (int)len, line);
}

/* What the device refuses is told with the operation's name, whatever else was posted with it. */
static void what_is_refused_is_named(void **state)
{
    char line[256] = "";
    const struct task_node_options options = {
        .log_level = BASE_LOG_WARN, .log_sink = keep_failure, .log_arg = line};
    struct testing_fabric testing = {.subject = *state};
    struct testing_pair pair;
    uint64_t word = 1;
    const struct iovec vector = {.iov_base = &word, .iov_len = sizeof(word)};
    assert_int_equal(task_node_open(&options, &testing.node), 0);
    testing_open(&testing);
    testing_pair_open(&testing, &pair, NULL);
    struct tarn_fabric_handle longer = pair.all->handle;
    longer.bytes *= 2; /* what is refused here is not asked for */
    struct tarn_fabric_op ops[] = {
        {.kind = TARN_FABRIC_WRITE, .handle = &pair.all->handle, .iov = &vector, .iov_count = 1},
        {.kind = TARN_FABRIC_FAA, .handle = &longer, .offset = TESTING_BYTES, .operand = 1},
        {.kind = TARN_FABRIC_READ, .handle = &pair.all->handle, .iov = &vector, .iov_count = 1}};
    tarn_fabric_post(pair.client, ops, base_array_count(ops));
    assert_int_equal(tarn_fabric_wait(ops, base_array_count(ops), TESTING_LATE), -EACCES);
    assert_int_equal(ops[0].result, 0);
    testing_pair_close(&pair);
    testing_close(&testing);
    task_node_close(testing.node);
    assert_non_null(strstr(line, "op=\"FAA\""));
}

/* ---- hosts that are gone ------------------------------------------------------------------------- */

static void set_link(const char *name, bool up)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    assert_int_equal(close(fd), 0);
}

/*
 * The client's link goes down for good. Its own device tells it; the server, which does nothing, finds out by asking.
 * The last test: the link comes back without its addresses' ways.
 */
static void a_host_that_is_gone_is_noticed(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    set_link("eth1", false);
    for (uint64_t until_ns = TESTING_LATE; tarn_fabric_error(pair.server) == 0 && task_now() < until_ns;)
        (void)task_sleep(1000000);
    assert_int_equal(tarn_fabric_error(pair.server), -ECONNRESET);
    for (uint64_t until_ns = TESTING_LATE; tarn_fabric_error(pair.client) == 0 && task_now() < until_ns;)
        (void)task_sleep(1000000);
    assert_int_equal(tarn_fabric_error(pair.client), -ECONNRESET);
    testing_pair_close(&pair);
    set_link("eth1", true);
}

static void a_host_that_is_gone_is_noticed_in_threads(void **state)
{
    testing_run(state, a_host_that_is_gone_is_noticed, false);
}

static void two_hundred_at_once_in_threads(void **state)
{
    testing_run(state, two_hundred_at_once, false);
}

static void each_device_has_its_own_addresses_in_threads(void **state)
{
    testing_run(state, each_device_has_its_own_addresses, false);
}

TESTING_BOTH(hellos_that_are_none_are_refused)
TESTING_BOTH(messages_that_are_none_end_the_connection)
TESTING_BOTH(the_device_refuses)
TESTING_BOTH(a_silent_device_holds_nobody_up)
TESTING_BOTH(who_is_fenced_writes_no_more)

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(hellos_are_read_as_they_were_written),
                                       cmocka_unit_test(hellos_may_be_rubbish),
                                       cmocka_unit_test(the_url_vouches_for_words)};
    const struct CMUnitTest tests[] = {TESTING_UNITS(hellos_that_are_none_are_refused),
                                       TESTING_UNITS(messages_that_are_none_end_the_connection),
                                       TESTING_UNITS(the_device_refuses),
                                       TESTING_UNITS(a_silent_device_holds_nobody_up),
                                       cmocka_unit_test(two_hundred_at_once_in_threads),
                                       TESTING_UNITS(who_is_fenced_writes_no_more),
                                       cmocka_unit_test(what_is_refused_is_named),
                                       cmocka_unit_test(each_device_has_its_own_addresses_in_threads),
                                       cmocka_unit_test(a_host_that_is_gone_is_noticed_in_threads)};
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    int failed = cmocka_run_group_tests_name("fabric/verbs hellos", alone, NULL, NULL);
    if (failed != 0 || !verbs_testing_prepare())
        return failed;
    return cmocka_run_group_tests_name("fabric/verbs hostile", tests, verbs_testing_setup, NULL);
}
