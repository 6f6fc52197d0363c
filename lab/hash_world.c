/*
 * A hash store in a simulated world. Each machine is a node, whose first scheduler has its memory server; the next ones are
 * its workers', then come its clients'. The master of the one space has a node behind the machines; where each machine has a
 * space of its own, its first scheduler has the master, too.
 *
 *   masters lead ── servers are opened ── workers open their stores, and serve ── clients open the store, or connect ── run
 */
#include "lab/hash_world.h"
#include "rpc/rpc.h"
#include "sim/net/net.h"
#include "space/space.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define STORE "store"

enum {
    DRIVE_BYTES = 80 << 20, /* the cluster's store takes 64 MiB */
    LOOK_NS = 20000,        /* at what others have done */
    NAME_BYTES = 24,
    REQUEST_HEAD = 8, /* kind, one unused, two of the key's length; the rest unused */
    CALLS = 4,        /* of a connection: one is under way */
};

struct machine {
    struct lab_hash_world *world;
    struct sim_node *node;
    struct sim_drive *drive;
    char name[NAME_BYTES], master_name[NAME_BYTES], calls_name[NAME_BYTES], drive_name[NAME_BYTES],
        cluster[2 * NAME_BYTES];
    struct tarn_fabric *fabric;
    struct space_master *master;
    struct space_server *server;
    struct tarn_rpc_service service;
    struct tarn_rpc_server *calls;
    struct lab_hash_client workers[LAB_HASH_WORKERS_MAX];
    bool serves;
};

struct lab_hash_world {
    const struct lab_hash_world_options *options;
    struct sim_world *world;
    struct machine machines[LAB_HASH_MACHINES_MAX + 1]; /* the last one has the master of the one space */
    struct lab_hash_client clients[LAB_HASH_CLIENTS_MAX];
    uint64_t met;             /* how often clients have come to meet others, of all together */
    uint32_t running_workers; /* that have opened their store */
    bool is_over;             /* clients have ended */
};

static bool is_served(const struct lab_hash_world *world)
{
    return world->options->workers > 0;
}

static void expect(const struct lab_hash_world *world, const char *what, int error)
{
    if (error == 0)
        return;
    sim_fail(world->world, "%s ended with %d", what, error);
    for (;;)
        (void)task_sleep(LOOK_NS);
}

void lab_hash_expect(const struct lab_hash_client *client, const char *what, int error)
{
    expect(client->world, what, error);
}

void lab_hash_meet(struct lab_hash_client *client)
{
    struct lab_hash_world *world = client->world;
    const uint64_t all = world->options->clients, awaited = world->met / all * all + all;
    world->met++;
    while (world->met < awaited)
        (void)task_sleep(LOOK_NS);
}

/* ---- masters and memory servers ----------------------------------------------------------------- */

/* The master of a machine's space. */
static struct machine *master_of(struct machine *machine)
{
    struct lab_hash_world *world = machine->world;
    return is_served(world) ? machine : &world->machines[world->options->machines];
}

static void open_fabric(struct machine *machine)
{
    if (machine->fabric == NULL)
        expect(machine->world, "opening the fabric",
               tarn_fabric_open(sim_node_tarn(machine->node), "sim:", &machine->fabric));
}

static void open_master(void *arg)
{
    struct machine *machine = arg;
    open_fabric(machine);
    const struct space_master_options options = {.fabric = machine->fabric,
                                                 .address = machine->master_name,
                                                 .cluster = machine->cluster,
                                                 .name = machine->master_name,
                                                 .sched = sim_node_sched(machine->node, 0),
                                                 .chunk_bytes = machine->world->options->chunk_bytes};
    expect(machine->world, "opening a master",
           space_master_open(sim_node_tarn(machine->node), &options, &machine->master));
}

static bool master_leads(void *arg)
{
    const struct machine *machine = arg;
    struct space_master_stats stats = {.epoch = 0};
    if (machine->master != NULL)
        space_master_stats(machine->master, &stats);
    return stats.epoch != 0;
}

static bool master_has_all(void *arg)
{
    const struct machine *machine = arg;
    struct space_master_stats stats;
    space_master_stats(machine->master, &stats);
    return stats.servers == (is_served(machine->world) ? 1 : machine->world->options->machines);
}

static void open_server(void *arg)
{
    struct machine *machine = arg;
    const struct lab_hash_world *world = machine->world;
    open_fabric(machine);
    const struct space_server_options options = {.fabric = machine->fabric,
                                                 .address = machine->name,
                                                 .masters = master_of(machine)->master_name,
                                                 .name = machine->name,
                                                 .sched = sim_node_sched(machine->node, 0),
                                                 .memory_bytes = world->options->memory_bytes,
                                                 .chunk_bytes = world->options->chunk_bytes};
    expect(world, "opening a memory server",
           space_server_open(sim_node_tarn(machine->node), &options, &machine->server));
}

static void close_server(void *arg)
{
    struct machine *machine = arg;
    if (machine->server != NULL)
        space_server_close(machine->server);
    machine->server = NULL;
}

static void close_master(void *arg)
{
    struct machine *machine = arg;
    if (machine->master != NULL)
        space_master_close(machine->master);
    tarn_fabric_close(machine->fabric);
}

/* ---- clients of a store ------------------------------------------------------------------------- */

static void open_store(struct lab_hash_client *client, struct machine *machine, uint64_t cache_bytes)
{
    struct lab_hash_world *world = machine->world;
    const struct hash_options options = {.shape = &world->options->shape,
                                         .node = world->options->is_local ? machine->name : NULL,
                                         .cache_bytes = cache_bytes};
    expect(world, "connecting",
           tarn_space_connect(machine->fabric, master_of(machine)->master_name, NULL, TARN_FOREVER,
                              &client->space));
    int error = tarn_space_create_ns(client->space, STORE, NULL, 0, TARN_FOREVER, &client->of);
    if (error == -EEXIST)
        error = tarn_space_join_ns(client->space, STORE, NULL, 0, TARN_FOREVER, &client->of);
    expect(world, "joining the namespace", error);
    expect(world, "opening the store",
           hash_open(sim_node_tarn(machine->node), client->space, client->of, STORE, &options, TARN_FOREVER,
                     &client->hash));
}

static void close_store(struct lab_hash_client *client)
{
    hash_close(client->hash);
    tarn_space_leave_ns(client->of);
    tarn_space_disconnect(client->space);
}

/* ---- workers ------------------------------------------------------------------------------------ */

static int serve_op(void *arg, struct tarn_rpc_request *request)
{
    const struct machine *machine = arg;
    const uint8_t *data = request->data;
    struct tarn_rpc_limits limits;
    const uint16_t key_len = request->bytes < REQUEST_HEAD ? 0 : base_load_le16(data + 2);
    if (key_len == 0 || request->bytes < REQUEST_HEAD + (uint32_t)key_len)
        return -EINVAL;
    task_charge(sim_costs_nessie.server_ns);
    tarn_rpc_limits(request->connection, &limits);
    struct hash_op op = {.kind = (enum hash_kind)data[0],
                         .key = data + REQUEST_HEAD,
                         .key_len = key_len,
                         .value = data + REQUEST_HEAD + key_len,
                         .value_len = request->bytes - REQUEST_HEAD - key_len,
                         .room = request->result,
                         .room_bytes = request->room};
    hash_run(machine->workers[limits.worker - 1].hash, &op, 1, TARN_FOREVER);
    if (op.kind == HASH_GET && op.error == 0)
        request->result_bytes = op.info.value_bytes;
    return op.error;
}

static const struct tarn_rpc_method methods[] = {{.name = "operation", .function = serve_op}};

/* A worker's task has its store open as long as clients run; what it is asked is run beside it. */
static void run_worker(void *arg)
{
    struct lab_hash_client *worker = arg;
    struct lab_hash_world *world = worker->world;
    open_store(worker, &world->machines[worker->machine], 0);
    world->running_workers++;
    while (!world->is_over)
        (void)task_sleep(BASE_NS_PER_MS);
    while (world->machines[worker->machine].serves)
        (void)task_sleep(LOOK_NS);
    close_store(worker);
}

static void serve_calls(void *arg)
{
    struct machine *machine = arg;
    const struct lab_hash_world *world = machine->world;
    const struct lab_hash_world_options *options = world->options;
    const struct tarn_rpc_serve_options serve_options = {
        .connections_max = options->clients * options->workers,
        .calls_max = CALLS,
        .request_bytes_max = REQUEST_HEAD + options->item_bytes,
        .result_bytes_max = options->item_bytes,
        .memory_bytes = UINT64_C(1) << 30};
    struct task_sched *scheds[LAB_HASH_WORKERS_MAX];
    for (uint32_t i = 0; i < options->workers; i++)
        scheds[i] = sim_node_sched(machine->node, 1 + i);
    while (world->running_workers < options->workers * options->machines)
        (void)task_sleep(LOOK_NS);
    machine->service = (struct tarn_rpc_service){.methods = methods, .count = 1, .arg = machine};
    expect(world, "serving",
           rpc_serve(machine->fabric, machine->calls_name, &machine->service, &serve_options, scheds,
                     options->workers, &machine->calls));
    machine->serves = true;
    while (!world->is_over)
        (void)task_sleep(BASE_NS_PER_MS);
    tarn_rpc_server_close(machine->calls);
    machine->serves = false;
}

/* ---- clients ------------------------------------------------------------------------------------ */

static void connect_workers(struct lab_hash_client *client)
{
    struct lab_hash_world *world = client->world;
    const struct lab_hash_world_options *options = world->options;
    for (uint32_t i = 0; i < options->machines; i++) {
        while (!world->machines[i].serves)
            (void)task_sleep(LOOK_NS);
        for (uint32_t k = 0; k < options->workers; k++) {
            const struct tarn_rpc_connect_options wanted = {.way = TARN_RPC_REPLY,
                                                            .calls = CALLS,
                                                            .request_bytes =
                                                                REQUEST_HEAD + options->item_bytes,
                                                            .result_bytes = options->item_bytes,
                                                            .worker = k + 1};
            expect(world, "connecting with a worker",
                   tarn_rpc_connect(client->fabric, world->machines[i].calls_name, &wanted, TARN_FOREVER,
                                    &client->connections[i][k]));
        }
    }
}

static void disconnect_workers(struct lab_hash_client *client)
{
    for (uint32_t i = 0; i < client->world->options->machines; i++) {
        for (uint32_t k = 0; k < client->world->options->workers; k++)
            tarn_rpc_disconnect(client->connections[i][k]);
    }
}

/* Have a worker do it. */
static void call_worker(struct lab_hash_client *client, struct hash_op *op)
{
    const struct lab_hash_world_options *options = client->world->options;
    const uint64_t mixed = base_hash64(op->key, op->key_len, 0);
    const uint64_t bytes = REQUEST_HEAD + op->key_len + op->value_len;
    struct tarn_rpc_connection *connection =
        client->connections[mixed % options->machines][(mixed >> 32) % options->workers];
    base_assert(bytes <= sizeof(client->request));
    memset(client->request, 0, REQUEST_HEAD);
    client->request[0] = (uint8_t)op->kind;
    base_store_le16(client->request + 2, (uint16_t)op->key_len);
    memcpy(client->request + REQUEST_HEAD, op->key, op->key_len);
    if (op->value_len > 0)
        memcpy(client->request + REQUEST_HEAD + op->key_len, op->value, op->value_len);
    struct tarn_rpc_call call = {.request = client->request,
                                 .request_bytes = (uint32_t)bytes,
                                 .result = op->room,
                                 .room = (uint32_t)op->room_bytes};
    (void)!tarn_rpc_call(connection, &call); /* its error is the caller's */
    op->error = call.error;
    op->info.value_bytes = call.result_bytes;
}

void lab_hash_do(struct lab_hash_client *client, struct hash_op *op)
{
    const bool is_charged = client->world->options->is_charged;
    if (is_charged)
        task_charge(client->hash != NULL ? sim_costs_nessie.client_ns : sim_costs_rfp.client_ns);
    if (client->hash != NULL)
        hash_run(client->hash, op, 1, TARN_FOREVER);
    else
        call_worker(client, op);
}

static void run_client(void *arg)
{
    struct lab_hash_client *client = arg;
    struct lab_hash_world *world = client->world;
    const struct lab_hash_world_options *options = world->options;
    struct machine *machine = &world->machines[client->machine];
    client->fabric = machine->fabric;
    if (is_served(world))
        connect_workers(client);
    else
        open_store(client, machine, options->cache_bytes == NULL ? 0 : options->cache_bytes[client->number]);
    lab_hash_meet(client);
    options->run(client);
    lab_hash_meet(client);
    if (is_served(world))
        disconnect_workers(client);
    else
        close_store(client);
    world->is_over = ++world->met % options->clients == 0;
}

void lab_hash_share(struct lab_hash_client *client, const struct lab_hash_cores *cores)
{
    const struct lab_hash_world_options *options = client->world->options;
    const uint32_t clients = options->clients / options->machines;
    const uint32_t reserved = cores->are_reserved ? options->workers : 0;
    for (uint32_t i = 0; i < options->machines; i++) {
        const struct sim_share share = {.first = 1 + reserved,
                                        .count = options->workers + clients - reserved,
                                        .others = cores->others,
                                        .cores = cores->cores - reserved,
                                        .turn_ns = cores->turn_ns,
                                        .from_ns = task_now() - cores->turn_ns * i / options->machines};
        sim_node_share(client->world->machines[i].node, &share);
    }
}

/* ---- the world ---------------------------------------------------------------------------------- */

/* Let tasks run. @return 0; -EIO: said */
static int run_tasks(const struct lab_hash_world *world, sim_condition *done, void *arg)
{
    if (sim_world_run(world->world, TASK_FOREVER, done, arg) == 0)
        return 0;
    (void)fprintf(stderr, "%s\n", sim_world_failure(world->world));
    return -EIO;
}

/* How many nodes there are, with the one master's. */
static uint32_t count_nodes(const struct lab_hash_world *world)
{
    return world->options->machines + (is_served(world) ? 0 : 1);
}

static int start_node(struct lab_hash_world *world, uint32_t number)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES};
    const struct lab_hash_world_options *options = world->options;
    struct machine *machine = &world->machines[number];
    const uint32_t clients = (options->clients + options->machines - 1 - number) / options->machines;
    machine->world = world;
    (void)snprintf(machine->name, NAME_BYTES, "machine-%" PRIu32, number);
    (void)snprintf(machine->master_name, NAME_BYTES, "master-%" PRIu32, number);
    (void)snprintf(machine->calls_name, NAME_BYTES, "calls-%" PRIu32, number);
    (void)snprintf(machine->drive_name, NAME_BYTES, "disk-%" PRIu32, number);
    (void)snprintf(machine->cluster, sizeof(machine->cluster), "solo:disk-%" PRIu32, number);
    const struct sim_node_options node = {.name = machine->name,
                                          .scheds = 1 + options->workers +
                                                    (number < options->machines ? clients : 0),
                                          .card = options->card};
    int error = sim_node_open(world->world, &node, &machine->node);
    return error != 0 || master_of(machine) != machine
               ? error
               : sim_drive_add(world->world, machine->drive_name, &drive, &machine->drive);
}

/* Have every node with a master run something, or every machine. */
static int spawn_on(struct lab_hash_world *world, bool masters, task_function *function)
{
    int error = 0;
    for (uint32_t i = 0; i < count_nodes(world) && error == 0; i++) {
        struct machine *machine = &world->machines[i];
        if (masters ? master_of(machine) == machine : i < world->options->machines)
            error = sim_spawn(machine->node, 0, "control", function, machine);
    }
    return error;
}

static int await_masters(struct lab_hash_world *world, sim_condition *done)
{
    int error = 0;
    for (uint32_t i = 0; i < count_nodes(world) && error == 0; i++) {
        if (master_of(&world->machines[i]) == &world->machines[i])
            error = run_tasks(world, done, &world->machines[i]);
    }
    return error;
}

static int open_spaces(struct lab_hash_world *world)
{
    int error = spawn_on(world, true, open_master);
    if (error == 0)
        error = await_masters(world, master_leads);
    if (error == 0)
        error = spawn_on(world, false, open_server);
    return error == 0 ? await_masters(world, master_has_all) : error;
}

static int run_all(struct lab_hash_world *world)
{
    const struct lab_hash_world_options *options = world->options;
    int error = is_served(world) ? spawn_on(world, false, serve_calls) : 0;
    for (uint32_t i = 0; i < options->machines * options->workers && error == 0; i++) {
        struct machine *machine = &world->machines[i % options->machines];
        struct lab_hash_client *worker = &machine->workers[i / options->machines];
        worker->world = world;
        worker->machine = i % options->machines;
        error = sim_spawn(machine->node, 1 + i / options->machines, "worker", run_worker, worker);
    }
    for (uint32_t i = 0; i < options->clients && error == 0; i++) {
        struct lab_hash_client *client = &world->clients[i];
        client->world = world;
        client->number = i;
        client->machine = i % options->machines;
        client->arg = options->arg;
        client->random = base_random_fork(sim_world_random(world->world));
        error = sim_spawn(world->machines[client->machine].node, 1 + options->workers + i / options->machines,
                          "client", run_client, client);
    }
    return error == 0 ? run_tasks(world, NULL, NULL) : error;
}

static int end_all(struct lab_hash_world *world)
{
    int error = spawn_on(world, false, close_server);
    if (error == 0)
        error = run_tasks(world, NULL, NULL);
    for (uint32_t i = 0; i < count_nodes(world) && error == 0; i++)
        error = sim_spawn(world->machines[i].node, 0, "close", close_master, &world->machines[i]);
    if (error == 0)
        error = run_tasks(world, NULL, NULL);
    for (uint32_t i = 0; i < count_nodes(world) && error == 0; i++)
        base_assert(sim_node_close(world->machines[i].node) == 0);
    return error;
}

static int run_world(struct lab_hash_world *world)
{
    struct sim_net_options *net = sim_net_options(world->world);
    net->troubles = 0;
    net->owns_bulk = world->options->owns_bulk;
    net->owns_all = is_served(world);
    net->own_ns = sim_costs_nessie.access_ns;
    int error = 0;
    for (uint32_t i = 0; i < count_nodes(world) && error == 0; i++)
        error = start_node(world, i);
    if (error == 0)
        error = open_spaces(world);
    if (error == 0)
        error = run_all(world);
    return error == 0 ? end_all(world) : error; /* on failure nodes end with the world */
}

int lab_hash_world_run(const struct lab_hash_world_options *options)
{
    const struct sim_world_options world_options = {
        .seed = options->seed, .timed = true, .steps_max = UINT64_MAX};
    struct sim_world *sim;
    base_assert(options->machines > 0 && options->machines <= LAB_HASH_MACHINES_MAX && options->clients > 0 &&
                options->clients <= LAB_HASH_CLIENTS_MAX && options->workers <= LAB_HASH_WORKERS_MAX &&
                options->item_bytes <= LAB_HASH_ITEM_MAX - REQUEST_HEAD);
    int error = sim_world_open(&world_options, &sim);
    if (error != 0)
        return error;
    struct base_account *memory = sim_world_memory(sim);
    struct lab_hash_world *world = base_alloc(memory, sizeof(*world));
    if (world == NULL) {
        sim_world_close(sim);
        return -ENOMEM;
    }
    world->options = options;
    world->world = sim;
    error = run_world(world);
    base_free(memory, world, sizeof(*world));
    sim_world_close(sim);
    return error;
}
