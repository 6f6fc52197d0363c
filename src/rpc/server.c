/* Servers: listening, and handing each client that connects to a worker. The worker's work is worker.c. */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>
#include <inttypes.h>

#define CONNECTIONS_MAX 1024
#define MEMORY_PARTS    8 /* connections' memory is a part of all memory */
#define CALLS_MAX       64
#define BYTES_MAX       4096
#define RUNNING_MAX     256
#define SPIN_NS         50000
#define TASKS_BESIDE    64 /* tasks of a worker's scheduler, besides those of connections and methods */

struct tarn_rpc_server {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric_listener *listener;
    const struct tarn_rpc_service *service;
    struct tarn_rpc_serve_options options; /* with the defaults filled in */
    struct task_group acceptor;
    uint32_t count; /* number of workers */
    uint32_t next;  /* the worker for the next client that names none */
    bool owns_scheds;
    _Atomic uint32_t connections;
    struct rpc_shares shares;
    struct base_log_spell refusals; /* limits the lines about refused connections */
    struct rpc_worker workers[];
};

/* A client on its way to its worker. */
struct arrival {
    struct rpc_worker *worker;
    struct tarn_fabric_incoming *incoming;
    struct rpc_hello hello;
};

/* ---- a connection on its worker's scheduler ----------------------------------------------------- */

/* Take what a new connection gets; where that is not all that it asks for, another has to give some back. */
static int take_share(struct tarn_rpc_server *server, const struct rpc_geometry *asked,
                      struct rpc_geometry *ret_geometry, struct rpc_share *ret_share)
{
    const bool reads_take_time = tarn_fabric_info(server->fabric)->served_by != TARN_FABRIC_SERVED_BY_SELF;
    int error = rpc_shares_take(&server->shares, asked, reads_take_time, ret_geometry, ret_share);
    if (error != 0 || ret_geometry->in < asked->in || ret_geometry->out < asked->out)
        rpc_shares_want(&server->shares, error != 0);
    return error;
}

static int accept_clients(struct arrival *arrival, struct tarn_rpc_connection **ret_connection)
{
    struct rpc_worker *worker = arrival->worker;
    const struct tarn_rpc_serve_options *most = &worker->server->options;
    const struct rpc_hello *hello = &arrival->hello;
    const struct rpc_geometry asked = {.request_bytes =
                                           base_min(hello->request_bytes, most->request_bytes_max),
                                       .result_bytes = base_min(hello->result_bytes, most->result_bytes_max),
                                       .in = base_min((uint32_t)hello->calls, most->calls_max),
                                       .out = base_min((uint32_t)hello->calls_back, most->calls_max)};
    struct rpc_shares *shares = &worker->server->shares;
    struct tarn_fabric_connect_options options;
    struct tarn_rpc_connection *connection;
    struct rpc_geometry geometry;
    struct rpc_share share;
    uint8_t bytes[RPC_HELLO_BYTES];
    int error = take_share(worker->server, &asked, &geometry, &share);
    if (error == 0 && (error = rpc_connection_make(worker->server->fabric, &geometry, worker->server->service,
                                                   0, &connection)) != 0)
        rpc_shares_give(shares, &share);
    if (error != 0) {
        tarn_fabric_reject(arrival->incoming, error);
        return error;
    }
    connection->share = share;
    base_list_init(&connection->share.link);
    connection->worker = worker;
    connection->worker_place = worker->place;
    connection->workers = worker->server->count;
    error = rpc_connection_meet(connection, hello);
    if (error == 0) {
        (void)rpc_callee_mark(connection); /* no worker looks yet */
        rpc_connection_options(connection, bytes, &options);
        error = tarn_fabric_accept(arrival->incoming, connection->domain, &options, &connection->fabric);
    } else {
        tarn_fabric_reject(arrival->incoming, error);
    }
    if (error != 0) {
        rpc_connection_free(connection);
        rpc_shares_give(shares, &share);
        return error;
    }
    rpc_adapt_init(&connection->caller.adapt, TARN_RPC_REPLY, 0, geometry.result_bytes, true, false);
    *ret_connection = connection;
    return 0;
}

static void serve_connection(struct tarn_rpc_connection *connection)
{
    struct rpc_worker *worker = connection->worker;
    struct rpc_shares *shares = &worker->server->shares;
    const struct rpc_share share = connection->share;
    const uint64_t memory_bytes =
        rpc_connection_bytes(&connection->geometry, !connection->caller.reads_are_copies);
    base_list_push_back(&worker->connections, &connection->link);
    rpc_count(&worker->counters.connections, 1);
    rpc_count(&worker->counters.memory_bytes, memory_bytes);
    if (worker->stops)
        fabric_connection_end(connection->fabric, "the server ends", -ECONNABORTED);
    rpc_shares_hold(shares, connection);
    rpc_connection_receive(connection);
    rpc_shares_let_go(shares, connection);
    rpc_worker_forget(connection);
    task_group_join_firmly(&connection->callee.methods);
    base_list_remove(&connection->link);
    rpc_uncount(&worker->counters.connections, 1);
    rpc_uncount(&worker->counters.memory_bytes, memory_bytes);
    rpc_connection_free(connection);
    rpc_shares_give(shares, &share);
}

static void attend_client(void *arg)
{
    struct arrival *arrival = arg;
    struct tarn_rpc_server *server = arrival->worker->server;
    struct tarn_rpc_connection *connection;
    int error = accept_clients(arrival, &connection);
    base_free(&server->node->memory, arrival, sizeof(*arrival));
    if (error == 0)
        serve_connection(connection);
    else
        base_warn(&server->node->log, "could not accept a connection for calls", "error=\"%s\"",
                  strerrordesc_np(-error));
    atomic_fetch_sub(&server->connections, 1);
}

/* ---- listening ---------------------------------------------------------------------------------- */

static struct rpc_worker *choose_worker(struct tarn_rpc_server *server, const struct rpc_hello *hello)
{
    if (hello->worker != RPC_ANY_WORKER)
        return hello->worker < server->count ? &server->workers[hello->worker] : NULL;
    return &server->workers[server->next++ % server->count];
}

/* @param at_once  whether no other connection will come */
static void tell_end_of_refusals(struct tarn_rpc_server *server, bool at_once)
{
    uint64_t refused, lasted_ns;
    if (base_log_spell_ended(&server->node->log, &server->refusals, at_once, &refused, &lasted_ns))
        base_info(&server->node->log,
                  at_once ? "connections for calls were refused until the end"
                          : "connections for calls are taken again",
                  "refused=%" PRIu64 " seconds=%" PRIu64, refused, lasted_ns / BASE_NS_PER_SECOND);
}

static void hand_over(struct tarn_rpc_server *server, struct tarn_fabric_incoming *incoming)
{
    struct rpc_hello hello;
    const void *data;
    uint32_t bytes = tarn_fabric_incoming_data(incoming, &data);
    struct arrival *arrival = NULL;
    struct rpc_worker *worker = NULL;
    const char *refusal = NULL;
    int error = -ECONNREFUSED;
    const bool calls = rpc_hello_load(data, bytes, &hello) == 0;
    const struct tarn_rpc_service *service = server->service;
    if (!calls && service->visited != NULL && service->visited(service->arg, incoming))
        return;
    if (!calls)
        refusal = "it speaks another protocol";
    else if ((worker = choose_worker(server, &hello)) == NULL)
        refusal = "it asks for a worker that is not there";
    else if (atomic_load(&server->connections) >= server->options.connections_max)
        refusal = "there are too many";
    else if ((arrival = base_alloc(&server->node->memory, sizeof(*arrival))) == NULL)
        refusal = "out of memory", error = -ENOMEM;
    if (refusal == NULL) {
        tell_end_of_refusals(server, false);
        *arrival = (struct arrival){.worker = worker, .incoming = incoming, .hello = hello};
        atomic_fetch_add(&server->connections, 1);
        error = task_spawn(worker->sched, &worker->group, "rpc-connection", attend_client, arrival);
        if (error == 0)
            return;
        atomic_fetch_sub(&server->connections, 1);
        base_free(&server->node->memory, arrival, sizeof(*arrival));
        refusal = "its worker has too many tasks";
    }
    if (base_log_spell_note(&server->node->log, &server->refusals))
        base_warn(&server->node->log, "connections for calls are refused",
                  "reason=\"%s\" connections=%" PRIu32, refusal, atomic_load(&server->connections));
    tarn_fabric_reject(incoming, error);
}

static void listen_at_address(void *arg)
{
    struct tarn_rpc_server *server = arg;
    struct tarn_fabric_incoming *incoming;
    while (tarn_fabric_listener_wait(server->listener, TARN_FOREVER, &incoming) == 0)
        hand_over(server, incoming);
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* Stop a worker. Run on its scheduler. */
static void stop_worker(void *arg)
{
    struct rpc_worker *worker = arg;
    worker->stops = true;
    rpc_worker_wake(worker);
    base_list_for_each(item, &worker->connections) {
        struct tarn_rpc_connection *connection = base_container_of(item, struct tarn_rpc_connection, link);
        fabric_connection_end(connection->fabric, "the server ends", -ECONNABORTED);
    }
}

static void stop_workers(struct tarn_rpc_server *server)
{
    for (uint32_t i = 0; i < server->count; i++) {
        struct rpc_worker *worker = &server->workers[i];
        while (task_spawn(worker->sched, &worker->group, "rpc-stop", stop_worker, worker) == -ENOMEM)
            (void)task_sleep(BASE_NS_PER_MS);
    }
    for (uint32_t i = 0; i < server->count; i++)
        task_group_join_firmly(&server->workers[i].group);
}

/* The bytes of a worker's counters of methods. */
static uint64_t method_counters_bytes(const struct tarn_rpc_service *service)
{
    return service->count * sizeof(struct rpc_method_counters);
}

static void free_server(struct tarn_rpc_server *server)
{
    for (uint32_t i = 0; i < server->count; i++)
        base_free(&server->node->memory, server->workers[i].methods, method_counters_bytes(server->service));
    base_free(&server->node->memory, server, sizeof(*server) + server->count * sizeof(server->workers[0]));
}

/* Close the schedulers that this server has made. */
static void close_scheds(struct task_sched *const *scheds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        task_sched_stop(scheds[i]);
        task_sched_join(scheds[i]);
        task_sched_close(scheds[i]);
    }
}

void tarn_rpc_server_close(struct tarn_rpc_server *server)
{
    struct task_sched *scheds[TARN_RPC_WORKERS_MAX];
    const uint32_t count = server->count;
    task_group_cancel(&server->acceptor);
    task_group_join_firmly(&server->acceptor);
    tarn_fabric_listener_close(server->listener);
    stop_workers(server);
    for (uint32_t i = 0; i < count; i++)
        scheds[i] = server->workers[i].sched;
    const bool owns_scheds = server->owns_scheds;
    tell_end_of_refusals(server, true);
    free_server(server);
    if (owns_scheds)
        close_scheds(scheds, count);
}

/* ---- the beginning ------------------------------------------------------------------------------ */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value == 0 ? otherwise : value;
}

/* The most that connections have, if their server is not told. */
static uint64_t memory_wanted(const struct tarn_node *node)
{
    const uint64_t cap_bytes = node->memory.cap_bytes;
    return base_min(base_max(cap_bytes / MEMORY_PARTS, RPC_MEMORY_MIN), cap_bytes / 2);
}

/* @return 0; -EINVAL */
static int fill_options(const struct tarn_rpc_serve_options *options,
                        struct tarn_rpc_serve_options *ret_options)
{
    static const struct tarn_rpc_serve_options none = {0};
    const struct tarn_rpc_serve_options *given = options == NULL ? &none : options;
    *ret_options = (struct tarn_rpc_serve_options){
        .workers = or_default(given->workers, 1),
        .connections_max = or_default(given->connections_max, CONNECTIONS_MAX),
        .calls_max = rpc_slots(or_default(given->calls_max, CALLS_MAX)),
        .request_bytes_max = (uint32_t)base_align_up(or_default(given->request_bytes_max, BYTES_MAX), 8),
        .result_bytes_max = (uint32_t)base_align_up(or_default(given->result_bytes_max, BYTES_MAX), 8),
        .running_max = or_default(given->running_max, RUNNING_MAX),
        .memory_bytes = given->memory_bytes,
        .spin_ns = given->spin_ns == 0 ? SPIN_NS : given->spin_ns};
    return ret_options->workers <= TARN_RPC_WORKERS_MAX && given->calls_max <= TARN_RPC_CALLS_MAX &&
                   given->request_bytes_max <= TARN_RPC_BYTES_MAX &&
                   given->result_bytes_max <= TARN_RPC_BYTES_MAX
               ? 0
               : -EINVAL;
}

static int start_workers(struct tarn_rpc_server *server, struct task_sched *const *scheds)
{
    for (uint32_t i = 0; i < server->count; i++) {
        struct rpc_worker *worker = &server->workers[i];
        worker->server = server;
        worker->sched = scheds[i];
        worker->place = i;
        worker->running_max = server->options.running_max;
        worker->spin_ns = server->options.spin_ns;
        worker->watches = tarn_fabric_info(server->fabric)->served_by != TARN_FABRIC_SERVED_BY_PEER;
        base_list_init(&worker->connections);
        base_list_init(&worker->pending);
        task_group_init(&worker->group);
        task_semaphore_init(&worker->wake, 0);
    }
    int error = 0;
    for (uint32_t i = 0; i < server->count && error == 0; i++)
        error = task_spawn(scheds[i], &server->workers[i].group, "rpc-worker", rpc_worker_run,
                           &server->workers[i]);
    if (error == 0)
        error = task_spawn(scheds[0], &server->acceptor, "rpc-listen", listen_at_address, server);
    return error;
}

/* Allocate the counters of methods, so that no two workers' share a cache line. */
static int alloc_method_counters(struct tarn_rpc_server *server)
{
    const uint64_t bytes = method_counters_bytes(server->service);
    for (uint32_t i = 0; i < server->count; i++) {
        server->workers[i].methods = base_alloc_aligned(&server->node->memory, BASE_CACHE_LINE_BYTES, bytes);
        if (server->workers[i].methods == NULL)
            return -ENOMEM;
    }
    return 0;
}

int rpc_serve(struct tarn_fabric *fabric, const char *address, const struct tarn_rpc_service *service,
              const struct tarn_rpc_serve_options *options, struct task_sched *const *scheds, uint32_t count,
              struct tarn_rpc_server **ret_server)
{
    struct tarn_rpc_serve_options filled;
    int error = fill_options(options, &filled);
    if (error != 0 || count == 0 || count > TARN_RPC_WORKERS_MAX || service->count > TARN_RPC_METHODS_MAX)
        return -EINVAL;
    struct tarn_node *node = fabric_node(fabric);
    struct tarn_rpc_server *server =
        base_alloc(&node->memory, sizeof(*server) + count * sizeof(server->workers[0]));
    if (server == NULL)
        return -ENOMEM;
    server->node = node;
    server->fabric = fabric;
    server->service = service;
    server->options = filled;
    server->count = count;
    rpc_shares_init(&server->shares, filled.memory_bytes == 0 ? memory_wanted(node) : filled.memory_bytes);
    task_group_init(&server->acceptor);
    error = alloc_method_counters(server);
    if (error == 0)
        error = tarn_fabric_listen(fabric, address, &server->listener);
    if (error != 0) {
        free_server(server);
        return error;
    }
    error = start_workers(server, scheds);
    if (error != 0) {
        stop_workers(server);
        tarn_fabric_listener_close(server->listener);
        free_server(server);
        return error;
    }
    *ret_server = server;
    return 0;
}

static int open_scheds(struct tarn_node *node, const struct tarn_rpc_serve_options *options,
                       struct task_sched **ret_scheds)
{
    const struct task_sched_options wanted = {
        .name = "rpc", .tasks_max = options->connections_max + options->running_max + TASKS_BESIDE};
    for (uint32_t i = 0; i < options->workers; i++) {
        int error = task_sched_open(node, &wanted, &ret_scheds[i]);
        if (error == 0) {
            error = task_sched_start(ret_scheds[i]);
            if (error != 0)
                task_sched_close(ret_scheds[i]);
        }
        if (error != 0) {
            close_scheds(ret_scheds, i);
            return error;
        }
    }
    return 0;
}

int tarn_rpc_serve(struct tarn_fabric *fabric, const char *address, const struct tarn_rpc_service *service,
                   const struct tarn_rpc_serve_options *options, struct tarn_rpc_server **ret_server)
{
    struct task_sched *scheds[TARN_RPC_WORKERS_MAX];
    struct tarn_rpc_serve_options filled;
    int error = fill_options(options, &filled);
    if (error == 0)
        error = open_scheds(fabric_node(fabric), &filled, scheds);
    if (error != 0)
        return error;
    error = rpc_serve(fabric, address, service, options, scheds, filled.workers, ret_server);
    if (error != 0)
        close_scheds(scheds, filled.workers);
    else
        (*ret_server)->owns_scheds = true;
    return error;
}

/* ---- statistics --------------------------------------------------------------------------------- */

void tarn_rpc_server_stats(const struct tarn_rpc_server *server, struct tarn_rpc_stats *ret_stats)
{
    *ret_stats = (struct tarn_rpc_stats){0};
    for (uint32_t i = 0; i < server->count; i++) {
        const struct rpc_worker_counters *counters = &server->workers[i].counters;
        ret_stats->connections += counters->connections;
        ret_stats->watched += counters->watched;
        ret_stats->requests += counters->requests;
        ret_stats->fetched += counters->fetched;
        ret_stats->replied += counters->replied;
        ret_stats->late += counters->late;
        ret_stats->unwhole += counters->unwhole;
        ret_stats->sleeps += counters->sleeps;
        ret_stats->notified += counters->notified;
        ret_stats->moved += counters->moved;
        ret_stats->memory_bytes += counters->memory_bytes;
        ret_stats->changes += counters->changes;
    }
}

bool tarn_rpc_method_stats(const struct tarn_rpc_server *server, uint32_t method,
                           struct tarn_rpc_method_stats *ret_stats)
{
    const struct tarn_rpc_service *service = server->service;
    if (method >= service->count || service->methods[method].function == NULL)
        return false;
    *ret_stats = (struct tarn_rpc_method_stats){.name = service->methods[method].name};
    for (uint32_t i = 0; i < server->count; i++) {
        const struct rpc_method_counters *counters = &server->workers[i].methods[method];
        ret_stats->calls += counters->calls;
        ret_stats->errors += counters->errors;
        ret_stats->service_ns += counters->service_ns;
    }
    return true;
}
