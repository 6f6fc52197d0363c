/*
 * Connecting and accepting. This file makes the queue pair itself, instead of the connection manager: so its device is
 * one that this fabric alone has opened, and it can be destroyed while the connection manager still keeps the
 * connection.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

#define RESOLVE_MS_MAX 2000
#define TRIES                                                                                                \
    7 /* attempts of a request that is not answered: the first and 6 more, because 7 more never end on Soft-RoCE */
#define RNR_TRIES      6  /* attempts of a message that finds no receive; each credit has one */
#define RNR_TIMER      12 /* 640 µs between these attempts */
#define SLOT_ALIGNMENT 64

/* ---- making and freeing ------------------------------------------------------------------------- */

struct verbs_connection *verbs_connection_make(struct verbs *verbs)
{
    struct verbs_connection *connection = base_alloc(&verbs->node->memory, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->what = VERBS_CONNECTION;
    connection->verbs = verbs;
    fabric_bell_init(&connection->bell);
    base_spin_init(&connection->lock);
    return connection;
}

void verbs_connection_free(struct verbs_connection *connection)
{
    struct base_account *account = &connection->verbs->node->memory;
    verbs_service_remove(connection);
    verbs_connection_cut(connection);
    if (connection->id != NULL)
        (void)rdma_destroy_id(connection->id); /* waits for the service, and so does the next call */
    if (connection->cq != NULL)
        (void)ibv_destroy_cq(connection->cq);
    if (connection->mr != NULL)
        (void)ibv_dereg_mr(connection->mr);
    base_unmap(account, connection->memory, connection->memory_bytes);
    base_free(account, connection->flights,
              connection->verbs->device.send_depth * sizeof(struct verbs_flight));
    base_free(account, connection->arrivals, connection->receive_count * sizeof(struct verbs_arrival));
    base_free(account, connection, sizeof(*connection));
}

/* ---- queue pairs -------------------------------------------------------------------------------- */

/* Choose how many messages may wait here, within the device's limits. */
static void set_sizes(struct verbs_connection *connection, const struct tarn_fabric_connect_options *options)
{
    const uint32_t most = connection->verbs->device.receive_depth_max - VERBS_CONTROL_SLOTS;
    connection->receive_count = base_min(options->receive_count, most);
    connection->receive_bytes = options->receive_bytes;
    connection->messages_are_rare = options->messages_are_rare;
    connection->slots = connection->receive_count + VERBS_CONTROL_SLOTS;
    connection->slot_bytes = (uint32_t)base_align_up(options->receive_bytes, SLOT_ALIGNMENT);
}

static int make_queue_pair(struct verbs_connection *connection)
{
    const struct verbs_device *device = &connection->verbs->device;
    const int depth = (int)(device->send_depth + connection->slots);
    uint32_t inline_bytes = device->inline_bytes;
    connection->cq = ibv_create_cq(device->context, depth, connection, connection->verbs->completion, 0);
    if (connection->cq == NULL)
        return -errno;
    connection->qp = verbs_queue_pair_make(device, connection->domain->pd, connection->cq, connection->slots,
                                           connection, &inline_bytes);
    return connection->qp == NULL ? -errno : 0;
}

/* Make the memory of messages and copies, when both sides' wishes are known, and post the receives. */
static int make_memory(struct verbs_connection *connection)
{
    struct base_account *account = &connection->verbs->node->memory;
    const uint64_t slots_bytes =
        base_align_up((uint64_t)connection->slots * connection->slot_bytes, BASE_PAGE_BYTES);
    const uint64_t longest = base_align_up((uint64_t)connection->hello.receive_bytes, BASE_PAGE_BYTES);
    connection->ring.bytes = base_max(longest, UINT64_C(0) + VERBS_RING_BYTES);
    connection->memory_bytes = slots_bytes + connection->ring.bytes;
    connection->memory = base_map(account, BASE_PAGE_BYTES, connection->memory_bytes);
    connection->flights =
        base_alloc(account, connection->verbs->device.send_depth * sizeof(struct verbs_flight));
    connection->arrivals = base_alloc(account, connection->receive_count * sizeof(struct verbs_arrival));
    if (connection->memory == NULL || connection->flights == NULL || connection->arrivals == NULL)
        return -ENOMEM;
    connection->ring.memory = connection->memory + slots_bytes;
    connection->credit = connection->hello.receive_count;
    connection->mr = ibv_reg_mr(connection->domain->pd, connection->memory, connection->memory_bytes,
                                IBV_ACCESS_LOCAL_WRITE);
    if (connection->mr == NULL)
        return -errno;
    base_spin_lock(&connection->lock);
    for (uint32_t i = 0; i < connection->slots; i++)
        verbs_post_receive_locked(connection, i);
    const int error = connection->error;
    base_spin_unlock(&connection->lock);
    return error;
}

/* The pause after which a request is sent again, as the number of times that 4,096 ns are doubled: all attempts together
 * take about a heartbeat. */
static uint8_t ack_timeout(const struct verbs *verbs)
{
    uint8_t doubled = 1;
    while (doubled < 31 && (UINT64_C(4096) << doubled) * TRIES < verbs->options.heartbeat_ns)
        doubled++;
    return doubled;
}

static uint8_t smaller_of(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

static int set_state(struct verbs_connection *connection, enum ibv_qp_state state,
                     struct ibv_qp_attr *ret_attr)
{
    const struct verbs_device *device = &connection->verbs->device;
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0;
    if (rdma_init_qp_attr(connection->id, &attr, &mask) != 0)
        return -errno;
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
        attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                               (device->atomics != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0U);
    attr.max_dest_rd_atomic = smaller_of(attr.max_dest_rd_atomic, device->max_reads);
    attr.max_rd_atomic = smaller_of(attr.max_rd_atomic, device->max_reads);
    attr.min_rnr_timer = RNR_TIMER;
    attr.timeout = ack_timeout(connection->verbs);
    attr.retry_cnt = TRIES - 1;
    attr.rnr_retry = RNR_TRIES;
    *ret_attr = attr;
    return -ibv_modify_qp(connection->qp, &attr, mask);
}

/* Make the queue pair ready to receive and to send, with its memory. @param param  gets the most READs at once */
static int open_queue_pair(struct verbs_connection *connection, struct rdma_conn_param *param)
{
    struct ibv_qp_attr attr = {0};
    int error = set_state(connection, IBV_QPS_INIT, &attr);
    if (error == 0)
        error = make_memory(connection);
    if (error == 0)
        error = set_state(connection, IBV_QPS_RTR, &attr);
    param->responder_resources = attr.max_dest_rd_atomic;
    if (error == 0)
        error = set_state(connection, IBV_QPS_RTS, &attr);
    param->initiator_depth = attr.max_rd_atomic;
    return error;
}

/* ---- what the connection manager tells ------------------------------------------------------------ */

/* @return the error that an event of the connection manager means */
static int reason_of(const struct rdma_cm_event *event)
{
    struct verbs_hello hello;
    switch (event->event) {
    case RDMA_CM_EVENT_REJECTED:
        if (verbs_hello_load(event->param.conn.private_data, event->param.conn.private_data_len, &hello) != 0)
            return -ECONNREFUSED;
        return hello.kind == VERBS_GO_ON           ? -EAGAIN
               : hello.kind == VERBS_OUT_OF_MEMORY ? -ENOBUFS
                                                   : -ECONNREFUSED;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return -EHOSTUNREACH;
    case RDMA_CM_EVENT_UNREACHABLE:
        return -ETIMEDOUT;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return -ENODEV;
    default:
        return -ECONNRESET;
    }
}

static void step_locked(struct verbs_connection *connection, const struct rdma_cm_event *event)
{
    base_spin_assert_held(&connection->lock);
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        connection->step = VERBS_RESOLVED;
        return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        connection->step = VERBS_ROUTED;
        return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        connection->step_error = verbs_hello_load(event->param.conn.private_data,
                                                  event->param.conn.private_data_len, &connection->hello);
        if (connection->step_error == 0 && connection->hello.kind != VERBS_WELCOME)
            connection->step_error = -EPROTO;
        connection->step = connection->step_error == 0 ? VERBS_ANSWERED : VERBS_OVER;
        return;
    case RDMA_CM_EVENT_ESTABLISHED:
        connection->step = VERBS_MET;
        return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
        return;
    default:
        connection->step = VERBS_OVER;
        connection->step_error = reason_of(event);
    }
}

void verbs_connection_event(struct verbs_connection *connection, const struct rdma_cm_event *event)
{
    base_spin_lock(&connection->lock);
    step_locked(connection, event);
    const bool over = connection->step == VERBS_OVER;
    base_spin_unlock(&connection->lock);
    if (over)
        verbs_connection_lose(connection, -ECONNRESET, "peer");
    fabric_bell_ring(&connection->bell);
}

/* A caller that waits until the connection manager has come to a step. */
struct step_waiter {
    struct verbs_connection *connection;
    enum verbs_step step;
};

static bool step_ready(void *arg)
{
    const struct step_waiter *waiter = arg;
    base_spin_lock(&waiter->connection->lock);
    const bool ready = waiter->connection->step >= waiter->step;
    base_spin_unlock(&waiter->connection->lock);
    return ready;
}

static int wait_for_step(struct verbs_connection *connection, enum verbs_step step, uint64_t deadline_ns)
{
    struct step_waiter waiter = {.connection = connection, .step = step};
    const struct fabric_condition condition = {.ready = step_ready, .arg = &waiter};
    int error = fabric_bell_wait(&connection->bell, &condition, deadline_ns);
    base_spin_lock(&connection->lock);
    if (connection->step == VERBS_OVER)
        error = connection->step_error;
    base_spin_unlock(&connection->lock);
    return error;
}

/* ---- both sides --------------------------------------------------------------------------------- */

/* Begin to serve a connection that is made. */
static void begin_meeting(struct verbs_connection *connection)
{
    struct net_address address;
    char name[FABRIC_NAME_BYTES];
    memcpy(&address.storage, rdma_get_peer_addr(connection->id), sizeof(address.storage));
    net_address_format(&address, name, sizeof(name));
    fabric_connection_name(connection->owner, name);
    fabric_connection_data(connection->owner, connection->hello.data, connection->hello.data_bytes);
    base_spin_lock(&connection->lock);
    connection->is_live = true;
    const bool over = connection->step == VERBS_OVER;
    base_spin_unlock(&connection->lock);
    if (over)
        verbs_connection_lose(connection, -ECONNRESET, "peer");
    verbs_service_add(connection);
}

static struct verbs_hello hello_of(const struct verbs_connection *connection,
                                   const struct tarn_fabric_connect_options *options,
                                   enum verbs_hello_kind kind)
{
    struct verbs_hello hello = {.kind = kind,
                                .receive_count = connection->receive_count,
                                .receive_bytes = connection->receive_bytes,
                                .domain = connection->domain->identity,
                                .data_bytes = options->data_bytes};
    if (options->data_bytes > 0)
        memcpy(hello.data, options->data, options->data_bytes);
    return hello;
}

static struct rdma_conn_param param_of(const struct verbs_connection *connection, const uint8_t *bytes,
                                       uint8_t count)
{
    const struct verbs_device *device = &connection->verbs->device;
    return (struct rdma_conn_param){.private_data = bytes,
                                    .private_data_len = count,
                                    .responder_resources = device->max_reads,
                                    .initiator_depth = device->max_reads,
                                    .retry_count = TRIES - 1,
                                    .rnr_retry_count = RNR_TRIES,
                                    .qp_num = connection->qp->qp_num};
}

/* ---- accepting ---------------------------------------------------------------------------------- */

static int set_traffic_class(struct verbs_connection *connection)
{
    const int64_t traffic_class = connection->verbs->options.traffic_class;
    uint8_t value = (uint8_t)traffic_class;
    if (traffic_class < 0)
        return 0;
    return rdma_set_option(connection->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, sizeof(value)) == 0
               ? 0
               : -errno;
}

static int send_welcome(struct verbs_connection *connection,
                        const struct tarn_fabric_connect_options *options)
{
    const struct verbs_hello hello = hello_of(connection, options, VERBS_WELCOME);
    uint8_t bytes[VERBS_WELCOME_BYTES];
    struct rdma_conn_param param = param_of(connection, bytes, verbs_hello_save(&hello, bytes));
    int error = open_queue_pair(connection, &param);
    if (error == 0 && rdma_accept(connection->id, &param) != 0)
        error = -errno;
    return error;
}

int verbs_accept(struct tarn_fabric_incoming *incoming, void *state,
                 const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
                 void **ret_connection)
{
    struct verbs_connection *connection = base_container_of(incoming, struct verbs_connection, incoming);
    connection->domain = state;
    connection->owner = owner;
    set_sizes(connection, options);
    int error = wait_for_step(connection, VERBS_BEGUN, 0);
    if (error != 0) { /* the event came at once, within the call */
        verbs_connection_free(connection);
        return -ECONNRESET;
    }
    error = set_traffic_class(connection);
    if (error == 0)
        error = make_queue_pair(connection);
    if (error == 0)
        error = send_welcome(connection, options);
    if (error != 0) {
        verbs_reject(incoming, error);
        return error == -ENOMEM ? -ENOMEM : -ECONNRESET;
    }
    error = wait_for_step(connection, VERBS_MET, task_now() + 3 * connection->verbs->options.heartbeat_ns);
    if (error != 0) {
        verbs_connection_free(connection);
        return -ECONNRESET;
    }
    begin_meeting(connection);
    *ret_connection = connection;
    return 0;
}

/* ---- connecting --------------------------------------------------------------------------------- */

static int milliseconds_left(uint64_t deadline_ns)
{
    const uint64_t now_ns = task_now();
    const uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / BASE_NS_PER_MS : 0;
    return (int)base_max(base_min(left_ms, UINT64_C(0) + RESOLVE_MS_MAX), UINT64_C(1));
}

/* Resolve the address and the route. */
static int resolve_route(struct verbs_connection *connection, struct net_address *address,
                         uint64_t deadline_ns)
{
    struct verbs *verbs = connection->verbs;
    struct sockaddr_storage from = verbs->device.address;
    const bool has_from = verbs->device.has_address && from.ss_family == address->storage.ss_family;
    connection->step = VERBS_BEGUN; /* no event has come for it yet */
    if (rdma_create_id(verbs->events, &connection->id, connection, RDMA_PS_TCP) != 0) {
        connection->id = NULL;
        return -errno;
    }
    int error = set_traffic_class(connection);
    if (error == 0 &&
        rdma_resolve_addr(connection->id, has_from ? (struct sockaddr *)&from : NULL,
                          (struct sockaddr *)&address->storage, milliseconds_left(deadline_ns)) != 0)
        error = -errno;
    if (error == 0)
        error = wait_for_step(connection, VERBS_RESOLVED, deadline_ns);
    if (error == 0)
        error = verbs_check_device(verbs, connection->id);
    if (error == 0 && rdma_resolve_route(connection->id, milliseconds_left(deadline_ns)) != 0)
        error = -errno;
    return error == 0 ? wait_for_step(connection, VERBS_ROUTED, deadline_ns) : error;
}

/* Send a hello and wait for the answer. */
static int request_connection(struct verbs_connection *connection, const struct verbs_hello *hello,
                              uint64_t deadline_ns)
{
    uint8_t bytes[VERBS_WELCOME_BYTES];
    struct rdma_conn_param param = param_of(connection, bytes, verbs_hello_save(hello, bytes));
    if (rdma_connect(connection->id, &param) != 0)
        return -errno;
    return wait_for_step(connection, VERBS_ANSWERED, deadline_ns);
}

/* Finish a connection after the other side's welcome. */
static int finish_meeting(struct verbs_connection *connection)
{
    struct rdma_conn_param param;
    int error = open_queue_pair(connection, &param);
    if (error == 0 && rdma_establish(connection->id) != 0)
        error = -errno == -EINVAL ? -ECONNRESET : -errno;
    return error;
}

/* Send the first part of private data that is too long for one request; the listener keeps it. */
static int say_part(struct verbs_connection *connection, struct net_address *address,
                    struct verbs_hello *hello, uint64_t deadline_ns)
{
    struct verbs_hello part = *hello;
    part.kind = VERBS_PART;
    part.nonce = task_rng(connection->verbs->node);
    part.data_bytes = VERBS_REQUEST_DATA;
    hello->kind = VERBS_REST;
    hello->nonce = part.nonce;
    hello->data_bytes -= VERBS_REQUEST_DATA;
    memmove(hello->data, hello->data + VERBS_REQUEST_DATA, hello->data_bytes);
    int error = resolve_route(connection, address, deadline_ns);
    if (error == 0)
        error = request_connection(connection, &part, deadline_ns);
    if (connection->id != NULL)
        (void)rdma_destroy_id(connection->id);
    connection->id = NULL;
    return error == -EAGAIN ? 0 : error == 0 ? -EPROTO : error;
}

static int meet_peer(struct verbs_connection *connection, struct net_address *address,
                     const struct tarn_fabric_connect_options *options, uint64_t deadline_ns)
{
    int error = make_queue_pair(connection);
    struct verbs_hello hello = hello_of(connection, options, VERBS_HELLO);
    if (error == 0 && hello.data_bytes > VERBS_REQUEST_DATA)
        error = say_part(connection, address, &hello, deadline_ns);
    if (error == 0)
        error = resolve_route(connection, address, deadline_ns);
    if (error == 0)
        error = request_connection(connection, &hello, deadline_ns);
    if (error == -EAGAIN)
        error = -EPROTO;
    return error == 0 ? finish_meeting(connection) : error;
}

int verbs_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                  uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    struct verbs_domain *domain = state;
    struct net_address where;
    int error = verbs_address_read(address, &where);
    if (error != 0)
        return error;
    struct verbs_connection *connection = verbs_connection_make(domain->verbs);
    if (connection == NULL)
        return -ENOMEM;
    connection->domain = domain;
    connection->owner = owner;
    set_sizes(connection, options);
    error = meet_peer(connection, &where, options, deadline_ns);
    if (error != 0) {
        verbs_connection_free(connection);
        return error;
    }
    begin_meeting(connection);
    *ret_connection = connection;
    return 0;
}
