/*
 * A hash store in a simulated world. The master has a node; each machine has a node with a scheduler for its memory server
 * and one for each of its clients.
 *
 *   master leads ── servers are opened ── clients connect, and open the store ── run ── clients, servers, master end
 */
#include "lab/hash_world.h"
#include "sim/net/net.h"
#include "space/space.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define MASTER "master"
#define STORE  "store"

enum {
    DRIVE_BYTES = 80 << 20, /* the cluster's store takes 64 MiB */
    LOOK_NS = 2000,         /* at what others have done */
    NAME_BYTES = 24,
};

struct machine {
    struct lab_hash_world *world;
    struct sim_node *node;
    char name[NAME_BYTES];
    struct tarn_fabric *fabric;
    struct space_server *server;
    uint32_t clients;
};

struct lab_hash_world {
    const struct lab_hash_world_options *options;
    struct sim_world *world;
    struct sim_drive *drive;
    struct sim_node *master_node;
    struct tarn_fabric *master_fabric;
    struct space_master *master;
    struct machine machines[LAB_HASH_MACHINES_MAX];
    struct lab_hash_client clients[LAB_HASH_CLIENTS_MAX];
    uint64_t met; /* how often clients have come to meet others, of all together */
};

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

/* ---- master and memory servers ------------------------------------------------------------------ */

static void open_master(void *arg)
{
    struct lab_hash_world *world = arg;
    struct tarn_node *node = sim_node_tarn(world->master_node);
    expect(world, "opening the fabric", tarn_fabric_open(node, "sim:", &world->master_fabric));
    const struct space_master_options options = {.fabric = world->master_fabric,
                                                 .address = MASTER,
                                                 .cluster = "solo:disk",
                                                 .name = MASTER,
                                                 .sched = sim_node_sched(world->master_node, 0),
                                                 .chunk_bytes = world->options->chunk_bytes};
    expect(world, "opening the master", space_master_open(node, &options, &world->master));
}

static void close_master(void *arg)
{
    struct lab_hash_world *world = arg;
    space_master_close(world->master);
    tarn_fabric_close(world->master_fabric);
}

static bool master_leads(void *arg)
{
    const struct lab_hash_world *world = arg;
    struct space_master_stats stats = {.epoch = 0};
    if (world->master != NULL)
        space_master_stats(world->master, &stats);
    return stats.epoch != 0;
}

static bool master_has_all(void *arg)
{
    const struct lab_hash_world *world = arg;
    struct space_master_stats stats;
    space_master_stats(world->master, &stats);
    return stats.servers == world->options->machines;
}

static void open_server(void *arg)
{
    struct machine *machine = arg;
    const struct lab_hash_world *world = machine->world;
    struct tarn_node *node = sim_node_tarn(machine->node);
    expect(world, "opening the fabric", tarn_fabric_open(node, "sim:", &machine->fabric));
    const struct space_server_options options = {.fabric = machine->fabric,
                                                 .address = machine->name,
                                                 .masters = MASTER,
                                                 .name = machine->name,
                                                 .sched = sim_node_sched(machine->node, 0),
                                                 .memory_bytes = world->options->memory_bytes,
                                                 .chunk_bytes = world->options->chunk_bytes};
    expect(world, "opening a memory server", space_server_open(node, &options, &machine->server));
}

static void close_server(void *arg)
{
    struct machine *machine = arg;
    space_server_close(machine->server);
    tarn_fabric_close(machine->fabric);
}

/* ---- clients ------------------------------------------------------------------------------------ */

static void connect_client(struct lab_hash_client *client)
{
    struct lab_hash_world *world = client->world;
    const struct lab_hash_world_options *options = world->options;
    struct machine *machine = &world->machines[client->machine];
    const struct hash_options hash_options = {
        .shape = &options->shape,
        .node = options->is_local ? machine->name : NULL,
        .cache_bytes = options->cache_bytes == NULL ? 0 : options->cache_bytes[client->number]};
    client->fabric = machine->fabric;
    expect(world, "connecting",
           tarn_space_connect(machine->fabric, MASTER, NULL, TARN_FOREVER, &client->space));
    int error = tarn_space_create_ns(client->space, STORE, NULL, 0, TARN_FOREVER, &client->of);
    if (error == -EEXIST)
        error = tarn_space_join_ns(client->space, STORE, NULL, 0, TARN_FOREVER, &client->of);
    expect(world, "joining the namespace", error);
    expect(world, "opening the store",
           hash_open(sim_node_tarn(machine->node), client->space, client->of, STORE, &hash_options,
                     TARN_FOREVER, &client->hash));
}

static void run_client(void *arg)
{
    struct lab_hash_client *client = arg;
    connect_client(client);
    lab_hash_meet(client);
    client->world->options->run(client);
    lab_hash_meet(client);
    hash_close(client->hash);
    tarn_space_leave_ns(client->of);
    tarn_space_disconnect(client->space);
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

static int start_nodes(struct lab_hash_world *world)
{
    const struct lab_hash_world_options *options = world->options;
    const struct sim_node_options master = {.name = MASTER, .scheds = 1, .card = options->card};
    int error = sim_node_open(world->world, &master, &world->master_node);
    for (uint32_t i = 0; i < options->machines && error == 0; i++) {
        struct machine *machine = &world->machines[i];
        machine->world = world;
        machine->clients = (options->clients + options->machines - 1 - i) / options->machines;
        (void)snprintf(machine->name, sizeof(machine->name), "machine-%" PRIu32, i);
        const struct sim_node_options node = {
            .name = machine->name, .scheds = 1 + machine->clients, .card = options->card};
        error = sim_node_open(world->world, &node, &machine->node);
    }
    return error;
}

static int open_space(struct lab_hash_world *world)
{
    int error = sim_spawn(world->master_node, 0, "open", open_master, world);
    if (error == 0)
        error = run_tasks(world, master_leads, world);
    for (uint32_t i = 0; i < world->options->machines && error == 0; i++)
        error = sim_spawn(world->machines[i].node, 0, "open", open_server, &world->machines[i]);
    return error == 0 ? run_tasks(world, master_has_all, world) : error;
}

static int run_clients(struct lab_hash_world *world)
{
    const struct lab_hash_world_options *options = world->options;
    int error = 0;
    for (uint32_t i = 0; i < options->clients && error == 0; i++) {
        struct lab_hash_client *client = &world->clients[i];
        client->world = world;
        client->number = i;
        client->machine = i % options->machines;
        client->arg = options->arg;
        client->random = base_random_fork(sim_world_random(world->world));
        error = sim_spawn(world->machines[client->machine].node, 1 + i / options->machines, "client",
                          run_client, client);
    }
    return error == 0 ? run_tasks(world, NULL, NULL) : error;
}

static int end_all(struct lab_hash_world *world)
{
    int error = 0;
    for (uint32_t i = 0; i < world->options->machines && error == 0; i++)
        error = sim_spawn(world->machines[i].node, 0, "close", close_server, &world->machines[i]);
    if (error == 0)
        error = run_tasks(world, NULL, NULL);
    if (error == 0)
        error = sim_spawn(world->master_node, 0, "close", close_master, world);
    if (error == 0)
        error = run_tasks(world, NULL, NULL);
    for (uint32_t i = 0; i < world->options->machines && error == 0; i++)
        base_assert(sim_node_close(world->machines[i].node) == 0);
    if (error == 0)
        base_assert(sim_node_close(world->master_node) == 0);
    return error;
}

static int run_world(struct lab_hash_world *world)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES};
    sim_net_options(world->world)->troubles = 0;
    int error = sim_drive_add(world->world, "disk", &drive, &world->drive);
    if (error == 0)
        error = start_nodes(world);
    if (error == 0)
        error = open_space(world);
    if (error == 0)
        error = run_clients(world);
    return error == 0 ? end_all(world) : error; /* on failure nodes end with the world */
}

int lab_hash_world_run(const struct lab_hash_world_options *options)
{
    const struct sim_world_options world_options = {
        .seed = options->seed, .timed = true, .steps_max = UINT64_MAX};
    struct sim_world *sim;
    base_assert(options->machines > 0 && options->machines <= LAB_HASH_MACHINES_MAX && options->clients > 0 &&
                options->clients <= LAB_HASH_CLIENTS_MAX);
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
