/*
 * Measuring a space as RStore does. The master has a node, each machine has one for its memory servers and one for its
 * clients: the pages of a node are made in turn. Clients are tasks that wait for each other before each phase. What costs no time
 * here are processors; nodes have one scheduler.
 *
 *   master leads ── servers are opened ── the master has all ── clients connect ── phases ── clients, servers, master end
 *                   └──────── made_ns ────────┘
 */
#include "lab/rstore_run.h"
#include "rpc/rpc.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include "space/client.h"
#include "space/space.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define MASTER "master"

enum {
    DRIVE_BYTES = 80 << 20, /* the cluster's store takes 64 MiB */
    LOOK_NS = 20000,        /* at what others have done */
    NAME_BYTES = 24,
    CHUNK_BYTES_MIN = 1 << 20, /* so that no other memory is as large */
};

struct machine {
    struct rstore *rstore;
    struct sim_node *node;
    struct tarn_fabric *fabric; /* of the clients, while there are any, or the master's */
    uint32_t running;           /* clients */
};

struct server {
    struct machine *machine;
    char name[NAME_BYTES];
    struct tarn_fabric *fabric;
    struct space_server *server;
};

struct client {
    struct machine *machine;
    uint32_t number;
    struct base_random random;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct tarn_space_region *region;
    uint8_t *memory;
    uint64_t waited_ns; /* for reads */
};

/* A phase under way. */
struct phase {
    uint32_t arrived, left; /* clients */
    uint64_t begin_ns;      /* once all have arrived */
    struct lab_rstore_span before;
};

struct rstore {
    const struct lab_rstore_options *options;
    struct sim_world *world;
    struct sim_drive *drive;
    struct machine master, holders[LAB_RSTORE_MACHINES_MAX], users[LAB_RSTORE_MACHINES_MAX];
    struct space_master *space_master;
    struct server servers[LAB_RSTORE_SERVERS_MAX];
    struct client clients[LAB_RSTORE_CLIENTS_MAX];
    struct phase phases[LAB_RSTORE_PHASES];
    struct lab_rstore_result result;
};

/* End the world if a call has failed: the task that has made it does not return. */
static void expect(const struct rstore *rstore, const char *what, int error)
{
    if (error == 0)
        return;
    sim_fail(rstore->world, "%s ended with %d", what, error);
    for (;;)
        (void)task_sleep(LOOK_NS);
}

/* ---- master and memory servers ------------------------------------------------------------------ */

static void open_master(void *arg)
{
    struct rstore *rstore = arg;
    struct tarn_node *node = sim_node_tarn(rstore->master.node);
    expect(rstore, "opening the fabric", tarn_fabric_open(node, "sim:", &rstore->master.fabric));
    const struct space_master_options options = {.fabric = rstore->master.fabric,
                                                 .address = MASTER,
                                                 .cluster = "solo:disk",
                                                 .name = MASTER,
                                                 .sched = sim_node_sched(rstore->master.node, 0),
                                                 .chunk_bytes = rstore->options->chunk_bytes};
    expect(rstore, "opening the master", space_master_open(node, &options, &rstore->space_master));
}

static void close_master(void *arg)
{
    struct rstore *rstore = arg;
    space_master_close(rstore->space_master);
    tarn_fabric_close(rstore->master.fabric);
}

static bool master_leads(void *arg)
{
    const struct rstore *rstore = arg;
    struct space_master_stats stats = {.epoch = 0};
    if (rstore->space_master != NULL)
        space_master_stats(rstore->space_master, &stats);
    return stats.epoch != 0;
}

static bool master_has_all(void *arg)
{
    const struct rstore *rstore = arg;
    struct space_master_stats stats;
    space_master_stats(rstore->space_master, &stats);
    return stats.servers == rstore->options->servers;
}

/* Chunks of all regions, shared out evenly. */
static uint64_t chunks_of_server(const struct lab_rstore_options *options)
{
    const uint64_t chunks = (uint64_t)options->clients * options->chunks;
    return (chunks + options->servers - 1) / options->servers;
}

static void open_server(void *arg)
{
    struct server *server = arg;
    struct rstore *rstore = server->machine->rstore;
    const struct lab_rstore_options *options = rstore->options;
    struct tarn_node *node = sim_node_tarn(server->machine->node);
    expect(rstore, "opening the fabric", tarn_fabric_open(node, "sim:", &server->fabric));
    const struct space_server_options server_options = {.fabric = server->fabric,
                                                        .address = server->name,
                                                        .masters = MASTER,
                                                        .name = server->name,
                                                        .sched = sim_node_sched(server->machine->node, 0),
                                                        .memory_bytes =
                                                            chunks_of_server(options) * options->chunk_bytes,
                                                        .chunk_bytes = options->chunk_bytes};
    expect(rstore, "opening a memory server", space_server_open(node, &server_options, &server->server));
}

static void close_server(void *arg)
{
    struct server *server = arg;
    space_server_close(server->server);
    tarn_fabric_close(server->fabric);
}

/* ---- phases ------------------------------------------------------------------------------------- */

/* What clients have posted until now. */
static struct lab_rstore_span count_posted(const struct rstore *rstore)
{
    struct lab_rstore_span span = {.ns = task_now()};
    for (uint32_t i = 0; i < rstore->options->machines; i++) {
        struct tarn_fabric_counters data, calls;
        if (rstore->users[i].fabric == NULL)
            continue;
        tarn_fabric_count(rstore->users[i].fabric, CLIENT_TAG, &data);
        tarn_fabric_count(rstore->users[i].fabric, RPC_TAG, &calls);
        span.reads += data.operations[TARN_FABRIC_READ];
        for (unsigned kind = 0; kind < TARN_FABRIC_OP_KINDS; kind++)
            span.calls += calls.operations[kind];
    }
    return span;
}

/* Begin a phase together with all other clients. */
static void enter_phase(const struct client *client, enum lab_rstore_phase number)
{
    struct rstore *rstore = client->machine->rstore;
    struct phase *phase = &rstore->phases[number];
    if (++phase->arrived == rstore->options->clients) {
        phase->begin_ns = task_now() + LOOK_NS;
        phase->before = count_posted(rstore);
    }
    while (phase->begin_ns == 0)
        (void)task_sleep(LOOK_NS);
    (void)task_sleep_until(phase->begin_ns);
}

/* End it, and wait until all others have. */
static void leave_phase(const struct client *client, enum lab_rstore_phase number, int error)
{
    struct rstore *rstore = client->machine->rstore;
    struct phase *phase = &rstore->phases[number];
    expect(rstore, "a call of a client", error);
    if (++phase->left == rstore->options->clients) {
        const struct lab_rstore_span after = count_posted(rstore);
        rstore->result.spans[number] = (struct lab_rstore_span){.ns = after.ns - phase->begin_ns,
                                                                .reads = after.reads - phase->before.reads,
                                                                .calls = after.calls - phase->before.calls};
    }
    while (phase->left < rstore->options->clients)
        (void)task_sleep(LOOK_NS);
}

/* ---- clients ------------------------------------------------------------------------------------ */

static uint64_t bytes_of_region(const struct lab_rstore_options *options)
{
    return options->chunks * options->chunk_bytes;
}

static void connect_client(struct client *client)
{
    struct machine *machine = client->machine;
    const struct rstore *rstore = machine->rstore;
    const struct tarn_space_options options = {.cache_bytes = bytes_of_region(rstore->options)};
    char name[NAME_BYTES];
    if (machine->running++ == 0)
        expect(rstore, "opening the fabric",
               tarn_fabric_open(sim_node_tarn(machine->node), "sim:", &machine->fabric));
    (void)snprintf(name, sizeof(name), "client-%" PRIu32, client->number);
    expect(rstore, "connecting",
           tarn_space_connect(machine->fabric, MASTER, &options, TARN_FOREVER, &client->space));
    expect(rstore, "making a namespace",
           tarn_space_create_ns(client->space, name, name, 1, TARN_FOREVER, &client->of));
}

/* Read at places that are drawn. */
static int read_all(struct client *client)
{
    const struct lab_rstore_options *options = client->machine->rstore->options;
    const uint64_t places = bytes_of_region(options) / options->read_bytes, begin_ns = task_now();
    int error = 0;
    for (uint32_t i = 0; i < options->reads && error == 0; i++) {
        uint8_t *memory = client->memory + base_random_below(&client->random, places) * options->read_bytes;
        error = tarn_space_read(client->region, memory, options->read_bytes, TARN_FOREVER);
    }
    client->waited_ns = task_now() - begin_ns;
    return error;
}

/* Make a phase's call, at the same time as all others. */
static void play_phase(struct client *client, enum lab_rstore_phase phase)
{
    const uint64_t bytes = bytes_of_region(client->machine->rstore->options);
    void *memory;
    int error;
    enter_phase(client, phase);
    switch (phase) {
    case LAB_RSTORE_RESERVE:
    case LAB_RSTORE_RESERVE_AGAIN:
        error = tarn_space_reserve(client->of, bytes, TARN_FOREVER);
        break;
    case LAB_RSTORE_ALLOC:
    case LAB_RSTORE_ALLOC_AGAIN:
        error = tarn_space_alloc(client->of, bytes, NULL, TARN_FOREVER, &client->region);
        break;
    case LAB_RSTORE_MAP:
    case LAB_RSTORE_MAP_AGAIN:
        error = tarn_space_map(client->region, TARN_FOREVER, &memory);
        client->memory = error == 0 ? memory : NULL;
        break;
    default:
        error = read_all(client);
        break;
    }
    leave_phase(client, phase, error);
}

/* Free the region, and wait until the chunks of all are back: the master gives them back a moment later. */
static void free_region(struct client *client)
{
    const struct rstore *rstore = client->machine->rstore;
    struct space_master_stats stats = {.regions = 1};
    expect(rstore, "freeing", tarn_space_free(client->region, TARN_FOREVER));
    tarn_space_drop(client->region);
    for (; stats.regions > 0; (void)task_sleep(LOOK_NS))
        space_master_stats(rstore->space_master, &stats);
}

/* Give all chunks back, and wait until memory servers have zeroed what they have got back. */
static void release(const struct client *client)
{
    const struct rstore *rstore = client->machine->rstore;
    expect(rstore, "releasing", tarn_space_release(client->of, UINT64_MAX, TARN_FOREVER));
    for (uint32_t i = 0; i < rstore->options->servers; i++) {
        struct space_server_stats stats;
        space_server_stats(rstore->servers[i].server, &stats);
        while (stats.assigned > 0 || stats.dirty > 0) {
            (void)task_sleep(LOOK_NS);
            space_server_stats(rstore->servers[i].server, &stats);
        }
    }
}

static void repeat_all(struct client *client)
{
    tarn_space_unmap(client->region);
    play_phase(client, LAB_RSTORE_MAP_AGAIN);
    tarn_space_unmap(client->region);
    free_region(client);
    play_phase(client, LAB_RSTORE_ALLOC_AGAIN);
    free_region(client);
    release(client);
    play_phase(client, LAB_RSTORE_RESERVE_AGAIN);
}

static void count_connections(struct rstore *rstore)
{
    rstore->result.connections = 0;
    for (uint32_t i = 0; i < rstore->options->servers; i++) {
        struct space_server_stats stats;
        space_server_stats(rstore->servers[i].server, &stats);
        rstore->result.connections += stats.connections;
    }
}

static void run_client(void *arg)
{
    struct client *client = arg;
    struct machine *machine = client->machine;
    struct rstore *rstore = machine->rstore;
    connect_client(client);
    play_phase(client, LAB_RSTORE_RESERVE);
    play_phase(client, LAB_RSTORE_ALLOC);
    play_phase(client, LAB_RSTORE_MAP);
    count_connections(rstore);
    if (rstore->options->reads > 0) {
        play_phase(client, LAB_RSTORE_READ);
        tarn_space_unmap(client->region);
        free_region(client);
    } else {
        repeat_all(client);
    }
    expect(rstore, "deleting a namespace", tarn_space_delete_ns(client->of, TARN_FOREVER));
    tarn_space_leave_ns(client->of);
    tarn_space_disconnect(client->space);
    if (--machine->running > 0)
        return;
    tarn_fabric_close(machine->fabric);
    machine->fabric = NULL;
}

/* ---- measuring ---------------------------------------------------------------------------------- */

static bool is_valid(const struct lab_rstore_options *options)
{
    return options->server_card != NULL && options->client_card != NULL && options->machines > 0 &&
           options->machines <= LAB_RSTORE_MACHINES_MAX && options->servers > 0 &&
           options->servers <= LAB_RSTORE_SERVERS_MAX && options->clients > 0 &&
           options->clients <= LAB_RSTORE_CLIENTS_MAX && base_is_power_of_two(options->chunk_bytes) &&
           options->chunk_bytes >= CHUNK_BYTES_MIN && options->chunk_bytes <= TARN_SPACE_BYTES_MAX &&
           options->chunks > 0 && options->chunks <= TARN_SPACE_BYTES_MAX / options->chunk_bytes &&
           (options->reads == 0 ||
            (options->read_bytes > 0 && options->read_bytes <= bytes_of_region(options)));
}

/* Let tasks run to their end. @return 0; -EIO: said */
static int pass(const struct rstore *rstore, sim_condition *done, void *arg)
{
    if (sim_world_run(rstore->world, TASK_FOREVER, done, arg) == 0)
        return 0;
    (void)fprintf(stderr, "%s\n", sim_world_failure(rstore->world));
    return -EIO;
}

static int start_node(struct rstore *rstore, struct machine *machine, const char *name,
                      const struct sim_card *card)
{
    const struct sim_node_options options = {.name = name, .scheds = 1, .card = card};
    machine->rstore = rstore;
    return sim_node_open(rstore->world, &options, &machine->node);
}

static int start_nodes(struct rstore *rstore)
{
    const struct lab_rstore_options *options = rstore->options;
    int error = start_node(rstore, &rstore->master, MASTER, options->client_card);
    for (uint32_t i = 0; i < options->machines && error == 0; i++) {
        error = start_node(rstore, &rstore->holders[i], "servers", options->server_card);
        if (error == 0)
            error = start_node(rstore, &rstore->users[i], "clients", options->client_card);
    }
    return error;
}

/* Open the memory servers, which make their memory, and wait until the master has them. */
static int make_memory(struct rstore *rstore)
{
    const struct lab_rstore_options *options = rstore->options;
    const uint64_t begin_ns = sim_world_now(rstore->world);
    int error = 0;
    for (uint32_t i = 0; i < options->servers && error == 0; i++) {
        struct server *server = &rstore->servers[i];
        server->machine = &rstore->holders[i % options->machines];
        (void)snprintf(server->name, sizeof(server->name), "server-%" PRIu32, i);
        error = sim_spawn(server->machine->node, 0, server->name, open_server, server);
    }
    if (error == 0)
        error = pass(rstore, master_has_all, rstore);
    rstore->result.made_ns = sim_world_now(rstore->world) - begin_ns;
    return error;
}

static int run_clients(struct rstore *rstore)
{
    const struct lab_rstore_options *options = rstore->options;
    int error = 0;
    for (uint32_t i = 0; i < options->clients && error == 0; i++) {
        struct client *client = &rstore->clients[i];
        client->machine = &rstore->users[i % options->machines];
        client->number = i;
        client->random = base_random_fork(sim_world_random(rstore->world));
        error = sim_spawn(client->machine->node, 0, "client", run_client, client);
    }
    return error == 0 ? pass(rstore, NULL, NULL) : error;
}

/* End memory servers, and then the master. */
static int end_all(struct rstore *rstore)
{
    const struct lab_rstore_options *options = rstore->options;
    int error = 0;
    for (uint32_t i = 0; i < options->servers && error == 0; i++)
        error = sim_spawn(rstore->servers[i].machine->node, 0, "close", close_server, &rstore->servers[i]);
    if (error == 0)
        error = pass(rstore, NULL, NULL);
    if (error == 0)
        error = sim_spawn(rstore->master.node, 0, "close", close_master, rstore);
    if (error == 0)
        error = pass(rstore, NULL, NULL);
    for (uint32_t i = 0; i < options->machines && error == 0; i++) {
        base_assert(sim_node_close(rstore->users[i].node) == 0);
        base_assert(sim_node_close(rstore->holders[i].node) == 0);
    }
    if (error == 0)
        base_assert(sim_node_close(rstore->master.node) == 0);
    return error;
}

static void add_up(struct rstore *rstore)
{
    const struct lab_rstore_options *options = rstore->options;
    struct lab_rstore_result *result = &rstore->result;
    const uint64_t reads = (uint64_t)options->clients * options->reads;
    uint64_t waited_ns = 0;
    for (uint32_t i = 0; i < options->clients; i++)
        waited_ns += rstore->clients[i].waited_ns;
    if (reads > 0) {
        result->read_ns = waited_ns / reads;
        result->mbps = (uint64_t)((double)(reads * options->read_bytes) * 8000 /
                                      (double)result->spans[LAB_RSTORE_READ].ns +
                                  0.5);
    }
    result->hash = sim_world_hash(rstore->world);
}

static int run_world(struct rstore *rstore)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES};
    const struct lab_rstore_options *options = rstore->options;
    struct sim_net_options *net = sim_net_options(rstore->world);
    net->troubles = 0;
    net->blank_bytes = options->chunk_bytes;
    net->pages_in_turn = true;
    net->registered_ns = options->pages == NULL ? 0 : options->pages->registered_ns;
    /* a card's region is registered, too, when it is made */
    net->touched_ns = options->pages == NULL ? 0 : options->pages->touched_ns + net->registered_ns;
    int error = sim_drive_add(rstore->world, "disk", &drive, &rstore->drive);
    if (error == 0)
        error = start_nodes(rstore);
    if (error == 0)
        error = sim_spawn(rstore->master.node, 0, "open", open_master, rstore);
    if (error == 0)
        error = pass(rstore, master_leads, rstore);
    if (error == 0)
        error = make_memory(rstore);
    if (error == 0)
        error = run_clients(rstore);
    if (error == 0)
        error = end_all(rstore);
    if (error == 0)
        add_up(rstore);
    return error; /* on failure nodes end with the world */
}

int lab_rstore_measure(const struct lab_rstore_options *options, struct lab_rstore_result *ret_result)
{
    const struct sim_world_options world_options = {
        .seed = options->seed, .timed = true, .steps_max = UINT64_MAX};
    struct sim_world *world;
    if (!is_valid(options))
        return -EINVAL;
    int error = sim_world_open(&world_options, &world);
    if (error != 0)
        return error;
    struct base_account *memory = sim_world_memory(world);
    struct rstore *rstore = base_alloc(memory, sizeof(*rstore));
    if (rstore == NULL) {
        sim_world_close(world);
        return -ENOMEM;
    }
    rstore->options = options;
    rstore->world = world;
    error = run_world(rstore);
    if (error == 0)
        *ret_result = rstore->result;
    base_free(memory, rstore, sizeof(*rstore));
    sim_world_close(world);
    return error;
}
