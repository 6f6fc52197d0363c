/* Connections: their memory, their messages and their end. Calls are caller.c's and callee.c's. */
#include "rpc/connection.h"
#include "fabric/fabric.h"
#include <errno.h>

#define MESSAGES_BESIDE_CALLS 8                  /* room for messages that ask the callee to look */
#define LAST_REPLY_NS         BASE_NS_PER_SECOND /* time for replies in flight when the connection is left */
#define LEFT_PAUSE_NS         1000 /* pause before a request that cannot be taken yet is looked at again */
#define ALIGNMENT             8    /* alignment of bodies and their copies */
#define CALLS                 16   /* default of the calls in flight */
#define BYTES                 1024 /* default of the bytes of requests and results */

/* ---- where things lie --------------------------------------------------------------------------- */

static uint64_t request_stride(const struct rpc_geometry *geometry)
{
    return base_align_up((uint64_t)RPC_HEADER_BYTES + geometry->request_bytes, BASE_CACHE_LINE_BYTES);
}

static uint64_t result_stride(const struct rpc_geometry *geometry)
{
    return base_align_up((uint64_t)RPC_MARK_BYTES + RPC_HEADER_BYTES + geometry->result_bytes,
                         BASE_CACHE_LINE_BYTES);
}

static uint64_t reply_stride(const struct rpc_geometry *geometry)
{
    return base_align_up((uint64_t)RPC_HEADER_BYTES + geometry->result_bytes, BASE_CACHE_LINE_BYTES);
}

uint64_t rpc_request_offset(const struct rpc_geometry *geometry, uint64_t sequence)
{
    return rpc_slot_number(sequence, geometry->in) * request_stride(geometry);
}

uint64_t rpc_result_offset(const struct rpc_geometry *geometry, uint64_t sequence)
{
    return geometry->in * request_stride(geometry) +
           rpc_slot_number(sequence, geometry->in) * result_stride(geometry);
}

uint64_t rpc_reply_offset(const struct rpc_geometry *geometry, uint64_t sequence)
{
    return geometry->in * (request_stride(geometry) + result_stride(geometry)) +
           rpc_slot_number(sequence, geometry->out) * reply_stride(geometry);
}

uint64_t rpc_region_bytes(const struct rpc_geometry *geometry)
{
    return geometry->in * (request_stride(geometry) + result_stride(geometry)) +
           geometry->out * reply_stride(geometry);
}

struct rpc_geometry rpc_geometry_of_peer(const struct rpc_geometry *geometry)
{
    return (struct rpc_geometry){.request_bytes = geometry->request_bytes,
                                 .result_bytes = geometry->result_bytes,
                                 .in = geometry->out,
                                 .out = geometry->in};
}

/* ---- making ------------------------------------------------------------------------------------- */

/* The parts of the one piece of memory that a connection has besides its region. */
struct layout {
    uint64_t incoming, slots, ops, copies, staging, slots_of_ops; /* offsets */
    uint64_t data_bytes, answer_bytes; /* size of a request's copy, and of an answer */
    uint64_t staged_bytes;             /* size of the copies of a call's request and result */
    uint64_t bytes;
};

static struct layout lay_out(const struct rpc_geometry *geometry, bool reads_take_time)
{
    struct layout layout = {.data_bytes = base_align_up(geometry->request_bytes, ALIGNMENT),
                            .answer_bytes = reply_stride(geometry)};
    layout.staged_bytes = layout.data_bytes;
    if (reads_take_time)
        layout.staged_bytes += base_align_up(geometry->result_bytes, ALIGNMENT);
    layout.slots = layout.incoming + geometry->in * sizeof(struct rpc_incoming);
    layout.ops = layout.slots + geometry->out * sizeof(struct rpc_slot);
    layout.copies = layout.ops + geometry->out * sizeof(struct tarn_fabric_op);
    layout.staging = layout.copies + geometry->in * (layout.data_bytes + layout.answer_bytes);
    layout.slots_of_ops = layout.staging + geometry->out * layout.staged_bytes;
    layout.bytes = layout.slots_of_ops + geometry->out * sizeof(uint32_t);
    return layout;
}

uint64_t rpc_connection_bytes(const struct rpc_geometry *geometry, bool reads_take_time)
{
    const struct layout layout = lay_out(geometry, reads_take_time);
    return layout.bytes + base_align_up(rpc_region_bytes(geometry), BASE_PAGE_BYTES) +
           sizeof(struct tarn_rpc_connection);
}

static void cut_memory(struct tarn_rpc_connection *connection, const struct layout *layout)
{
    uint8_t *memory = connection->memory;
    struct rpc_caller *caller = &connection->caller;
    caller->slots = (struct rpc_slot *)(void *)(memory + layout->slots);
    caller->ops = (struct tarn_fabric_op *)(void *)(memory + layout->ops);
    caller->slots_of_ops = (uint32_t *)(void *)(memory + layout->slots_of_ops);
    connection->callee.slots = (struct rpc_incoming *)(void *)(memory + layout->incoming);
    for (uint32_t i = 0; i < connection->geometry.out; i++) {
        caller->slots[i].request = memory + layout->staging + i * layout->staged_bytes;
        caller->slots[i].result = caller->slots[i].request + layout->data_bytes;
    }
    for (uint32_t i = 0; i < connection->geometry.in; i++) {
        struct rpc_incoming *incoming = &connection->callee.slots[i];
        incoming->connection = connection;
        incoming->data = memory + layout->copies + i * (layout->data_bytes + layout->answer_bytes);
        incoming->answer = incoming->data + layout->data_bytes;
    }
}

static int make_region(struct tarn_fabric *fabric, uint64_t export_bytes,
                       struct tarn_rpc_connection *connection)
{
    const uint64_t bytes = base_align_up(rpc_region_bytes(&connection->geometry), BASE_PAGE_BYTES);
    const struct tarn_fabric_domain_options options = {
        .writable_bytes = bytes, .readable_bytes = export_bytes, .regions_max = 2};
    int error = tarn_fabric_domain_open(fabric, &options, &connection->domain);
    if (error != 0)
        return error;
    error = tarn_fabric_region_alloc(connection->domain, bytes, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE,
                                     &connection->region);
    if (error != 0)
        tarn_fabric_domain_close(connection->domain);
    return error;
}

int rpc_connection_make(struct tarn_fabric *fabric, const struct rpc_geometry *geometry,
                        const struct tarn_rpc_service *service, uint64_t export_bytes,
                        struct tarn_rpc_connection **ret_connection)
{
    struct tarn_node *node = fabric_node(fabric);
    struct tarn_rpc_connection *connection = base_alloc(&node->memory, sizeof(*connection));
    if (connection == NULL)
        return -ENOMEM;
    connection->node = node;
    connection->sched = task_is_thread() ? NULL : task_sched_self();
    connection->geometry = *geometry;
    connection->callee.service = service;
    connection->callee.next = connection->caller.next = connection->caller.oldest = 1;
    connection->caller.notifies = true;
    connection->caller.reads_are_copies = tarn_fabric_info(fabric)->served_by == TARN_FABRIC_SERVED_BY_SELF;
    connection->caller.always_notifies = tarn_fabric_info(fabric)->served_by == TARN_FABRIC_SERVED_BY_PEER;
    base_list_init(&connection->link);
    base_list_init(&connection->pending_link);
    base_list_init(&connection->share.link);
    base_list_init(&connection->caller.parked);
    task_group_init(&connection->group);
    task_group_init(&connection->callee.methods);
    const struct layout layout = lay_out(geometry, !connection->caller.reads_are_copies);
    connection->charged_bytes = layout.bytes;
    connection->memory = base_alloc(&node->memory, connection->charged_bytes);
    int error = connection->memory == NULL ? -ENOMEM : make_region(fabric, export_bytes, connection);
    if (error != 0) {
        base_free(&node->memory, connection->memory, connection->charged_bytes);
        base_free(&node->memory, connection, sizeof(*connection));
        return error;
    }
    cut_memory(connection, &layout);
    *ret_connection = connection;
    return 0;
}

void rpc_connection_greet(const struct tarn_rpc_connection *connection, struct rpc_hello *ret_hello)
{
    const struct rpc_geometry *geometry = &connection->geometry;
    const bool connects = connection->worker == NULL;
    *ret_hello = (struct rpc_hello){.worker = (uint16_t)connection->worker_place,
                                    .workers = connection->workers,
                                    .calls = (uint16_t)(connects ? geometry->out : geometry->in),
                                    .calls_back = (uint16_t)(connects ? geometry->in : geometry->out),
                                    .request_bytes = geometry->request_bytes,
                                    .result_bytes = geometry->result_bytes,
                                    .handle = connection->region->handle};
}

int rpc_connection_meet(struct tarn_rpc_connection *connection, const struct rpc_hello *hello)
{
    const bool connects = connection->worker == NULL;
    const struct rpc_geometry granted = {.request_bytes = hello->request_bytes,
                                         .result_bytes = hello->result_bytes,
                                         .in = connects ? hello->calls_back : hello->calls,
                                         .out = connects ? hello->calls : hello->calls_back};
    const struct rpc_geometry *wanted = &connection->geometry;
    if (connects) {
        if (granted.in > wanted->in || granted.out > wanted->out ||
            granted.request_bytes > wanted->request_bytes || granted.result_bytes > wanted->result_bytes)
            return -EPROTO;
        connection->geometry = granted;
        connection->worker_place = hello->worker;
        connection->workers = hello->workers;
    }
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    if (hello->handle.bytes < rpc_region_bytes(&theirs) || (hello->handle.rights & rights) != rights)
        return -EPROTO;
    connection->peer = hello->handle;
    return 0;
}

void rpc_connection_options(const struct tarn_rpc_connection *connection, uint8_t *bytes,
                            struct tarn_fabric_connect_options *ret_options)
{
    struct rpc_hello hello;
    rpc_connection_greet(connection, &hello);
    rpc_hello_save(&hello, bytes);
    *ret_options = (struct tarn_fabric_connect_options){
        .data = bytes,
        .data_bytes = RPC_HELLO_BYTES,
        .receive_count = connection->geometry.in + connection->geometry.out + MESSAGES_BESIDE_CALLS,
        .receive_bytes = RPC_MARK_BYTES,
        .messages_are_rare = connection->worker != NULL};
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* Serve a connection that has no worker, until no request is left. */
static void serve_alone(struct tarn_rpc_connection *connection)
{
    while (tarn_rpc_error(connection) == 0) {
        const struct rpc_found found = rpc_callee_serve(connection);
        if (found.taken == 0 && !rpc_callee_mark(connection))
            return;
        if (found.is_left && task_sleep(LEFT_PAUSE_NS) != 0)
            return;
    }
}

void rpc_connection_leave(struct tarn_rpc_connection *connection)
{
    connection->is_wanted_back = true;
    rpc_caller_drop_queue(connection, -ECONNRESET);
    if (connection->caller.oldest == connection->caller.next)
        fabric_connection_end(connection->fabric, "the server needs its memory", -ECONNRESET);
}

int rpc_connection_hear(struct tarn_rpc_connection *connection, const struct tarn_fabric_message *message)
{
    const uint32_t slot = message->value & UINT16_MAX;
    if (message->notified && message->value >> 16 == RPC_RESULT_IS_THERE)
        return slot < connection->geometry.out ? rpc_caller_take_reply(connection, slot) : -EPROTO;
    if (!message->notified && message->bytes == RPC_WANTED_BACK_BYTES && connection->worker == NULL) {
        rpc_connection_leave(connection);
        return 0;
    }
    if (message->notified ? message->value != rpc_message_value(RPC_REQUEST_IS_THERE, 0)
                          : message->bytes != 0)
        return -EPROTO;
    if (connection->geometry.in == 0)
        return -EPROTO;
    if (connection->worker != NULL)
        rpc_worker_notified(connection);
    else
        serve_alone(connection);
    return 0;
}

void rpc_connection_died(struct tarn_rpc_connection *connection, int error)
{
    if (connection->error == 0) /* a leaving peer has revoked its region already */
        connection->error = error == -EACCES ? -EPIPE : error;
    if (!connection->caller.pumping)
        rpc_caller_fail(connection);
}

void rpc_connection_receive(struct tarn_rpc_connection *connection)
{
    struct tarn_fabric_message message;
    uint8_t nothing[RPC_MARK_BYTES];
    int error;
    do {
        error = tarn_fabric_receive(connection->fabric, nothing, sizeof(nothing), TARN_FOREVER, &message);
        if (error == 0)
            error = rpc_connection_hear(connection, &message);
        rpc_caller_hand_on(connection);
    } while (error == 0);
    if (error == -EPROTO)
        fabric_connection_end(connection->fabric, "calls", error);
    rpc_connection_died(connection, error);
}

/* ---- the end ------------------------------------------------------------------------------------ */

void rpc_connection_free(struct tarn_rpc_connection *connection)
{
    const struct rpc_caller *caller = &connection->caller;
    base_assert(connection->callee.running == 0);
    if (caller->round.in_flight &&
        tarn_fabric_wait(caller->ops, caller->round.count, task_now() + LAST_REPLY_NS) != 0)
        base_assert(tarn_fabric_error(connection->fabric) !=
                    0); /* the connection has ended, and with it all operations */
    for (uint32_t i = 0; i < connection->geometry.in; i++) {
        struct rpc_incoming *incoming = &connection->callee.slots[i];
        if (incoming->is_posted && tarn_fabric_wait(&incoming->op, 1, task_now() + LAST_REPLY_NS) != 0)
            continue; /* the connection has ended, and with it all operations */
    }
    if (connection->fabric != NULL)
        tarn_fabric_disconnect(connection->fabric);
    tarn_fabric_region_free(connection->region);
    tarn_fabric_domain_close(connection->domain);
    base_free(&connection->node->memory, connection->memory, connection->charged_bytes);
    base_free(&connection->node->memory, connection, sizeof(*connection));
}

int tarn_rpc_error(const struct tarn_rpc_connection *connection)
{
    if (connection->error != 0)
        return connection->error;
    if (connection->is_wanted_back)
        return -ECONNRESET;
    const int error = tarn_fabric_error(connection->fabric);
    return error == -EACCES ? -EPIPE : error;
}

void tarn_rpc_limits(const struct tarn_rpc_connection *connection, struct tarn_rpc_limits *ret_limits)
{
    *ret_limits = (struct tarn_rpc_limits){.request_bytes = connection->geometry.request_bytes,
                                           .result_bytes = connection->geometry.result_bytes,
                                           .calls = connection->geometry.out,
                                           .worker = connection->worker_place + 1,
                                           .workers = connection->workers};
}

struct tarn_fabric_connection *rpc_fabric_connection(const struct tarn_rpc_connection *connection)
{
    return connection->fabric;
}

struct tarn_fabric_domain *rpc_fabric_domain(const struct tarn_rpc_connection *connection)
{
    return connection->domain;
}

/* ---- who connects ------------------------------------------------------------------------------- */

static void receive_messages(void *arg)
{
    rpc_connection_receive(arg);
}

static int meet_server(struct tarn_rpc_connection *connection, const char *address, uint64_t deadline_ns)
{
    struct tarn_fabric_connect_options options;
    struct rpc_hello hello;
    uint8_t bytes[RPC_HELLO_BYTES];
    const void *data;
    rpc_connection_options(connection, bytes, &options);
    int error = tarn_fabric_connect(connection->domain, address, &options, deadline_ns, &connection->fabric);
    if (error != 0)
        return error;
    uint32_t count = tarn_fabric_peer_data(connection->fabric, &data);
    error = rpc_hello_load(data, count, &hello);
    if (error == 0)
        error = rpc_connection_meet(connection, &hello);
    if (error == 0 && connection->sched != NULL)
        error =
            task_spawn(connection->sched, &connection->group, "rpc-receive", receive_messages, connection);
    return error;
}

int rpc_connect(struct tarn_fabric *fabric, const char *address,
                const struct tarn_rpc_connect_options *options, uint64_t export_bytes, uint64_t deadline_ns,
                struct tarn_rpc_connection **ret_connection)
{
    static const struct tarn_rpc_connect_options defaults = {.worker = 0};
    const struct tarn_rpc_connect_options *wanted = options == NULL ? &defaults : options;
    struct tarn_rpc_connection *connection;
    const uint32_t request_bytes = wanted->request_bytes == 0 ? BYTES : wanted->request_bytes;
    const uint32_t result_bytes = wanted->result_bytes == 0 ? BYTES : wanted->result_bytes;
    const struct rpc_geometry geometry = {.request_bytes = (uint32_t)base_align_up(request_bytes, ALIGNMENT),
                                          .result_bytes = (uint32_t)base_align_up(result_bytes, ALIGNMENT),
                                          .out = rpc_slots(wanted->calls == 0 ? CALLS : wanted->calls),
                                          .in = rpc_slots(wanted->calls_back)};
    if (request_bytes > TARN_RPC_BYTES_MAX || result_bytes > TARN_RPC_BYTES_MAX ||
        wanted->calls > TARN_RPC_CALLS_MAX || wanted->calls_back > TARN_RPC_CALLS_MAX ||
        wanted->way > TARN_RPC_REPLY || wanted->worker > RPC_ANY_WORKER ||
        (geometry.in > 0 && (wanted->service == NULL || task_is_thread())))
        return -EINVAL;
    int error = rpc_connection_make(fabric, &geometry, wanted->service, export_bytes, &connection);
    if (error != 0)
        return error;
    connection->worker_place = wanted->worker == 0 ? RPC_ANY_WORKER : wanted->worker - 1;
    error = meet_server(connection, address, deadline_ns);
    if (error != 0) {
        rpc_connection_free(connection);
        return error;
    }
    rpc_adapt_init(&connection->caller.adapt, wanted->way, wanted->fetch_bytes,
                   connection->geometry.result_bytes, connection->caller.always_notifies,
                   !connection->caller.reads_are_copies);
    *ret_connection = connection;
    return 0;
}

int tarn_rpc_connect(struct tarn_fabric *fabric, const char *address,
                     const struct tarn_rpc_connect_options *options, uint64_t deadline_ns,
                     struct tarn_rpc_connection **ret_connection)
{
    return rpc_connect(fabric, address, options, 0, deadline_ns, ret_connection);
}

void tarn_rpc_disconnect(struct tarn_rpc_connection *connection)
{
    if (connection->sched != NULL) {
        task_group_cancel(&connection->group);
        task_group_join_firmly(&connection->group);
        task_group_join_firmly(&connection->callee.methods);
    }
    rpc_connection_free(connection);
}
