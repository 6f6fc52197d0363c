/*
 * Any bytes from the other side of a connection for calls: in the slots of requests, of results and of replies, as
 * messages and as hello, with headers that are proven or left as they are. No call ends with more than it has room for,
 * no method is shown more than a slot holds, and nothing outside is touched.
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include "testing.h"
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS = 4, BYTES = 64, ROOM = 40, CANARY = 0xa5, ROUNDS_MAX = 64 };

/* The other side: what is left of the input. */
struct other {
    const uint8_t *data;
    size_t size;
    uint64_t now_ns;
    struct tarn_fabric_region *region; /* ours, that it may write */
    uint8_t hello[RPC_HELLO_BYTES];
};

static uint8_t next(struct other *other)
{
    if (other->size == 0)
        return 0;
    other->size--;
    return *other->data++;
}

static void fill(struct other *other, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = next(other);
}

/* A header and a body that follows: as the input has them, or made whole. */
static void make(struct other *other, uint8_t *bytes, size_t count)
{
    const uint8_t how = next(other);
    fill(other, bytes, count);
    if (how % 4 == 0 || count < RPC_HEADER_BYTES)
        return;
    const struct rpc_header header = {.sequence = next(other) % 8,
                                      .bytes =
                                          how % 4 == 1 ? base_load_le32(bytes) : next(other) % (BYTES + 8),
                                      .time = next(other),
                                      .word = next(other) % 4,
                                      .flags = next(other)};
    static uint8_t body[1U << 20]; /* a long one is of zeros */
    memset(body, 0, BYTES + 8);
    memcpy(body, bytes + RPC_HEADER_BYTES, base_min(count - RPC_HEADER_BYTES, (size_t)BYTES));
    if (header.bytes > sizeof(body))
        return;
    rpc_header_save(&header, body, bytes);
}

/* ---- a provider ---------------------------------------------------------------------------------- */

static int fake_open(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                     void **ret_state)
{
    (void)node;
    *ret_info = (struct tarn_fabric_info){.provider = "fake", .whole_words = true};
    *ret_state = provider_arg;
    return 0;
}

static void fake_close(void *state)
{
    (void)state;
}

static int fake_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    (void)options;
    *ret_domain = state;
    return 0;
}

static int fake_region_alloc(void *domain, struct tarn_fabric_region *region)
{
    struct other *other = domain;
    region->bytes = base_align_up(region->bytes, BASE_PAGE_BYTES);
    region->memory = aligned_alloc(BASE_PAGE_BYTES, region->bytes);
    memset(region->memory, 0, region->bytes);
    region->handle = (struct tarn_fabric_handle){.domain = 1, .key = 1, .bytes = region->bytes, .rights = 7};
    other->region = region;
    return 0;
}

static void fake_region_free(void *domain, struct tarn_fabric_region *region)
{
    (void)domain;
    free(region->memory);
}

static int fake_connect(void *domain, const char *address, const struct tarn_fabric_connect_options *options,
                        uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    (void)address;
    (void)options;
    (void)deadline_ns;
    fabric_connection_name(owner, "fake");
    fabric_connection_data(owner, ((const struct other *)domain)->hello, RPC_HELLO_BYTES);
    *ret_connection = domain;
    return 0;
}

static void fake_post(void *connection, struct tarn_fabric_op *op)
{
    struct other *other = connection;
    uint8_t bytes[RPC_MARK_BYTES + RPC_HEADER_BYTES + BYTES];
    uint64_t total = 0;
    for (uint32_t i = 0; i < op->iov_count; i++)
        total += op->iov[i].iov_len;
    if (op->kind == TARN_FABRIC_READ) {
        base_assert(total <= sizeof(bytes));
        fill(other, bytes, RPC_MARK_BYTES);
        make(other, bytes + RPC_MARK_BYTES, sizeof(bytes) - RPC_MARK_BYTES);
        for (uint32_t i = 0, at = 0; i < op->iov_count; at += (uint32_t)op->iov[i++].iov_len)
            memcpy(op->iov[i].iov_base, bytes + at, op->iov[i].iov_len);
    }
    fabric_op_finish(op, other->size == 0 ? -ECONNRESET : 0);
}

static int fake_wait(void *connection, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    (void)connection;
    (void)op;
    (void)deadline_ns;
    return 0;
}

static int fake_receive(void *connection, void *data, uint32_t room, uint64_t deadline_ns,
                        struct tarn_fabric_message *ret_message)
{
    struct other *other = connection;
    const uint8_t what = next(other);
    (void)data;
    (void)room;
    (void)deadline_ns;
    if (other->size == 0)
        return -ECONNRESET;
    if (what % 8 == 0)
        return -ETIMEDOUT;
    if (other->region != NULL) {
        const uint64_t offset = (uint64_t)next(other) * 64 % other->region->bytes;
        uint8_t bytes[RPC_HEADER_BYTES + BYTES];
        make(other, bytes, sizeof(bytes));
        tarn_fabric_mem_copy_in(other->region, offset, bytes,
                                base_min(sizeof(bytes), other->region->bytes - offset));
    }
    *ret_message = (struct tarn_fabric_message){
        .notified = what % 8 != 1, .value = (uint32_t)(what / 8 % 4) << 16 | next(other) % 8, .bytes = 0};
    return 0;
}

static void fake_nothing(void *connection)
{
    (void)connection;
}

static const struct fabric_provider fake = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .domain_open = fake_domain_open,
    .domain_close = fake_nothing,
    .region_alloc = fake_region_alloc,
    .region_free = fake_region_free,
    .connect = fake_connect,
    .post = fake_post,
    .wait = fake_wait,
    .receive = fake_receive,
    .fail = fake_nothing,
    .disconnect = fake_nothing,
};

static uint64_t tell_time(void *arg)
{
    struct other *other = arg;
    return other->now_ns += 1000;
}

/* ---- both halves --------------------------------------------------------------------------------- */

static int take(void *arg, struct tarn_rpc_request *request)
{
    uint64_t *sum = arg;
    base_assert(request->bytes <= BYTES && request->room == BYTES);
    for (uint32_t i = 0; i < request->bytes; i++)
        *sum += ((const uint8_t *)request->data)[i];
    memset(request->result, 1, request->room);
    request->result_bytes = request->bytes;
    return 0;
}

static void be_callee(struct other *other, struct tarn_rpc_connection *connection)
{
    for (unsigned round = 0; round < ROUNDS_MAX && other->size > 0 && tarn_rpc_error(connection) == 0;
         round++) {
        uint8_t bytes[RPC_HEADER_BYTES + BYTES];
        make(other, bytes, sizeof(bytes));
        tarn_fabric_mem_copy_in(connection->region, rpc_request_offset(&connection->geometry, next(other)),
                                bytes, sizeof(bytes));
        const struct rpc_found found = rpc_callee_serve(connection);
        base_assert(found.taken <= CALLS);
    }
}

static void be_caller(struct tarn_rpc_connection *connection)
{
    struct tarn_rpc_limits limits;
    struct tarn_rpc_call calls[2 * CALLS];
    uint8_t results[2 * CALLS][BYTES];
    static const uint8_t request[BYTES];
    tarn_rpc_limits(connection, &limits);
    memset(results, CANARY, sizeof(results));
    for (unsigned i = 0; i < 2 * CALLS; i++)
        calls[i] = (struct tarn_rpc_call){.request = request,
                                          .request_bytes = base_min((uint32_t)i, limits.request_bytes),
                                          .result = results[i],
                                          .room = ROOM,
                                          .deadline_ns = task_now() + 200000};
    tarn_rpc_post(connection, calls, 2 * CALLS);
    int error = tarn_rpc_wait(connection, calls, 2 * CALLS);
    for (unsigned i = 0; i < 2 * CALLS; i++) {
        base_assert(calls[i].finished && (error != 0 || calls[i].error == 0));
        base_assert(calls[i].error != 0 || calls[i].result_bytes <= ROOM);
        for (unsigned k = ROOM; k < BYTES; k++)
            base_assert(results[i][k] == CANARY);
    }
}

/* What the other side has said when connecting; most of the time something that could be. */
static void make_hello(struct other *other)
{
    struct rpc_hello hello = {.worker = 0,
                              .workers = 1,
                              .calls = CALLS,
                              .calls_back = 0,
                              .request_bytes = BYTES,
                              .result_bytes = BYTES,
                              .handle = {.domain = 1, .key = 1, .bytes = 1U << 20, .rights = 3}};
    const uint8_t how = next(other);
    if (how % 4 == 1)
        hello.calls = next(other) % (CALLS + 2);
    if (how % 8 == 2)
        hello.result_bytes = next(other);
    rpc_hello_save(&hello, other->hello);
    if (how == 255)
        fill(other, other->hello, sizeof(other->hello));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct other other = {.data = data, .size = size};
    uint64_t sum = 0;
    const struct task_clock clock = {.monotonic = tell_time, .wall = tell_time, .arg = &other};
    const struct task_node_options options = {.clock = &clock,
                                              .seed = 1,
                                              .fabric = &fake,
                                              .fabric_arg = &other,
                                              .log_level = BASE_LOG_ERROR,
                                              .log_sink = fuzz_sink};
    const struct tarn_rpc_method methods[] = {{.name = "take", .function = take, .is_short = true}};
    const struct tarn_rpc_service service = {.methods = methods, .count = 1, .arg = &sum};
    struct tarn_rpc_connection *connection;
    struct tarn_fabric *fabric;
    struct tarn_node *node;
    base_assert(task_node_open(&options, &node) == 0 && tarn_fabric_open(node, "fake:", &fabric) == 0);
    const uint8_t how = next(&other);
    make_hello(&other);
    const struct tarn_rpc_connect_options wanted = {.way = (enum tarn_rpc_way)(how % 3),
                                                    .calls = CALLS,
                                                    .request_bytes = BYTES,
                                                    .result_bytes = BYTES,
                                                    .fetch_bytes = how / 3 % 2 * 16};
    if (tarn_rpc_connect(fabric, "other", &wanted, TARN_FOREVER, &connection) == 0) {
        if (how >= 128) { /* as if it were a server's */
            const struct rpc_geometry geometry = {.request_bytes = BYTES, .result_bytes = BYTES, .in = CALLS};
            struct tarn_rpc_connection *callee;
            base_assert(rpc_connection_make(fabric, &geometry, &service, 0, &callee) == 0);
            callee->peer = connection->peer;
            callee->fabric = connection->fabric;
            be_callee(&other, callee);
            callee->fabric = NULL;
            for (uint32_t i = 0; i < CALLS; i++)
                callee->callee.slots[i].is_posted = false;
            rpc_connection_free(callee);
        } else {
            be_caller(connection);
        }
        tarn_rpc_disconnect(connection);
    }
    tarn_fabric_close(fabric);
    task_node_close(node);
    return 0;
}
