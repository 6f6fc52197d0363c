/*
 * Measuring calls as RFP does. The server is a node with a scheduler for each worker, whose partition of the cache only
 * that worker's methods touch, and one more for its main task. A machine has a scheduler for each of its client threads,
 * which are tasks with a connection to each worker, and one more for what they share.
 *
 *   a client:  connect ── all have ── begin together ── a quarter of the time, and then it is measured ── disconnect
 */
#include "lab/rfp_run.h"
#include "cache/cache.h"
#include "rpc/rpc.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
    GET,
    PUT,
    ANSWER,
    METHODS,
    RING = 8, /* slots of a connection: RFP §V-A */
    NAME_BYTES = 24,
    LOOK_NS = 20000, /* at what others have done */
    CACHE_SHARE = 2, /* times as much memory as all items take, so that none is evicted from a full bucket */
    CACHE_ITEM_BYTES = 64, /* that the cache adds: header of a record, its part of the index, roundings */
    MIXED_MEAN = 43,       /* RFP §V-A */
};

#define ZIPF_EXPONENT 0.99
#define SPREAD        UINT64_C(0x9e3779b97f4a7c15)

struct machine {
    struct rfp *rfp;
    struct sim_node *node;
    char name[NAME_BYTES];
    struct tarn_fabric *fabric;
};

struct client {
    struct machine *machine;
    struct base_random random;
    struct tarn_rpc_connection *connections[LAB_RFP_WORKERS_MAX];
    struct tarn_rpc_connection *idle[LAB_RFP_IDLE_MAX];
    uint32_t turn; /* whose worker's, of phases */
    uint64_t calls, gets, hits, got_bytes;
    struct tarn_rpc_call_stats stats;
    struct base_histogram latency;
    uint8_t request[LAB_RFP_KEY_BYTES + LAB_RFP_VALUE_MAX];
    uint8_t result[LAB_RFP_ANSWER_MAX];
};

struct rfp {
    const struct lab_rfp_options *options;
    struct sim_world *world;
    struct machine server, machines[LAB_RFP_MACHINES_MAX];
    struct cache *cache;
    struct tarn_rpc_service service;
    struct base_random_zipf zipf;
    struct client *clients;
    uint32_t value_bytes_max;
    uint32_t room;             /* for results: also for a fetch that is longer than any value */
    uint32_t connected, ended; /* clients */
    bool serves;
    uint64_t begin_ns; /* once all have connected */
    uint64_t from_ns;  /* of what is measured, when queues are as long as they get */
    uint64_t until_ns;
    struct lab_rfp_result result;
};

/* ---- keys and values ---------------------------------------------------------------------------- */

static void build_key(uint64_t number, uint8_t *key)
{
    base_store_le64(key, number);
    base_store_le64(key + 8, number * SPREAD);
}

/*
 * How long the value of a key is. Of RFP's texts (§V-A: 1 to 899 bytes, 43 on average) 331 among 50 million are longer than
 * 512: so are as many of a geometric distribution with that mean.
 */
static uint32_t value_bytes_of(const struct lab_rfp_options *options, uint64_t number)
{
    if (options->value_bytes != 0)
        return options->value_bytes;
    const uint64_t drawn = base_hash64(&number, sizeof(number), options->seed) >> 11;
    const double share = ((double)drawn + 1) / (double)(UINT64_C(1) << 53);
    const double bytes = 1 + floor(log(share) / log1p(-1.0 / MIXED_MEAN));
    return (uint32_t)fmin(bytes, LAB_RFP_MIXED_MAX);
}

static uint8_t byte_of(uint64_t number)
{
    return (uint8_t)(number * SPREAD >> 56);
}

static bool is_value_of(const struct lab_rfp_options *options, uint64_t number, const uint8_t *value,
                        uint32_t bytes)
{
    return bytes == value_bytes_of(options, number) && value[0] == byte_of(number) &&
           value[bytes - 1] == byte_of(number);
}

static uint64_t draw_key(struct client *client)
{
    const struct rfp *rfp = client->machine->rfp;
    if (rfp->options->is_skewed)
        return base_random_zipf_scattered(&rfp->zipf, &client->random);
    return base_random_below(&client->random, rfp->options->keys);
}

/* ---- the service -------------------------------------------------------------------------------- */

static struct cache_partition *partition_of(const struct rfp *rfp, const struct tarn_rpc_request *request)
{
    struct tarn_rpc_limits limits;
    task_charge(rfp->options->costs->server_ns);
    tarn_rpc_limits(request->connection, &limits);
    return cache_partition(rfp->cache, limits.worker - 1);
}

static int serve_get(void *arg, struct tarn_rpc_request *request)
{
    const struct rfp *rfp = arg;
    struct tarn_record_info info;
    int error = cache_get(partition_of(rfp, request), request->data, request->bytes,
                          sim_world_wall(rfp->world), request->result, request->room, &info);
    if (error == 0)
        request->result_bytes = info.value_bytes;
    return error;
}

static int serve_put(void *arg, struct tarn_rpc_request *request)
{
    const struct rfp *rfp = arg;
    const uint8_t *key = request->data;
    if (request->bytes < LAB_RFP_KEY_BYTES)
        return -EINVAL;
    return cache_put(partition_of(rfp, request), key, LAB_RFP_KEY_BYTES, key + LAB_RFP_KEY_BYTES,
                     request->bytes - LAB_RFP_KEY_BYTES, NULL, sim_world_wall(rfp->world), NULL);
}

/* What is to be answered now. */
static const struct lab_rfp_phase *phase_of(const struct rfp *rfp)
{
    const struct lab_rfp_options *options = rfp->options;
    uint64_t end_ns = rfp->from_ns;
    uint32_t i = 0;
    while (rfp->from_ns != 0 && i + 1 < options->phase_count &&
           task_now() >= (end_ns += options->phases[i].for_ns))
        i++;
    return &options->phases[i];
}

/* Bytes that follow from the request's number. */
static int serve_answer(void *arg, struct tarn_rpc_request *request)
{
    const struct lab_rfp_phase *phase = phase_of(arg);
    if (request->bytes < LAB_RFP_KEY_BYTES)
        return -EINVAL;
    task_charge(phase->server_ns);
    memset(request->result, byte_of(base_load_le64(request->data)), phase->result_bytes);
    request->result_bytes = phase->result_bytes;
    return 0;
}

static const struct tarn_rpc_method methods[METHODS] = {
    [GET] = {.name = "get", .function = serve_get, .is_short = true},
    [PUT] = {.name = "put", .function = serve_put, .is_short = true},
    [ANSWER] = {.name = "answer", .function = serve_answer, .is_short = true},
};

/* ---- the server --------------------------------------------------------------------------------- */

static int fill_cache(struct rfp *rfp)
{
    const struct lab_rfp_options *options = rfp->options;
    const uint32_t value_bytes = options->value_bytes == 0 ? MIXED_MEAN : options->value_bytes;
    const struct cache_options cache_options = {
        .memory_bytes =
            base_max(CACHE_SHARE * options->keys * (LAB_RFP_KEY_BYTES + value_bytes + CACHE_ITEM_BYTES),
                     (uint64_t)options->workers << 16),
        .partitions = options->workers,
        .item_bytes = LAB_RFP_KEY_BYTES + value_bytes,
        .seed = options->seed | 1};
    uint8_t key[LAB_RFP_KEY_BYTES], value[LAB_RFP_VALUE_MAX];
    int error = cache_open(sim_node_tarn(rfp->server.node), &cache_options, &rfp->cache);
    for (uint64_t i = 0; i < options->keys && error == 0; i++) {
        const uint32_t bytes = value_bytes_of(options, i);
        build_key(i, key);
        memset(value, byte_of(i), bytes);
        const uint32_t place = cache_partition_of(cache_options.seed, options->workers, key, sizeof(key));
        error = cache_put(cache_partition(rfp->cache, place), key, sizeof(key), value, bytes, NULL,
                          sim_world_wall(rfp->world), NULL);
    }
    return error;
}

static void add_operations(struct tarn_fabric *fabric, struct lab_rfp_operations *operations)
{
    struct tarn_fabric_counters counters;
    tarn_fabric_count(fabric, RPC_TAG, &counters);
    operations->notified += counters.operations[TARN_FABRIC_WRITE_NOTIFY];
    operations->writes +=
        counters.operations[TARN_FABRIC_WRITE] + counters.operations[TARN_FABRIC_WRITE_NOTIFY];
    operations->reads += counters.operations[TARN_FABRIC_READ];
    operations->sends += counters.operations[TARN_FABRIC_SEND];
}

/* All that was done since the beginning, each way. */
static void count(const struct rfp *rfp, struct lab_rfp_operations *ret_in,
                  struct lab_rfp_operations *ret_out)
{
    *ret_in = *ret_out = (struct lab_rfp_operations){0};
    for (uint32_t i = 0; i < rfp->options->machines; i++)
        add_operations(rfp->machines[i].fabric, ret_in);
    add_operations(rfp->server.fabric, ret_out);
}

static struct lab_rfp_operations since(const struct lab_rfp_operations *before,
                                       const struct lab_rfp_operations *now)
{
    return (struct lab_rfp_operations){.writes = now->writes - before->writes,
                                       .notified = now->notified - before->notified,
                                       .reads = now->reads - before->reads,
                                       .sends = now->sends - before->sends};
}

static void count_while_measured(struct rfp *rfp)
{
    struct lab_rfp_operations in[2], out[2];
    while (rfp->begin_ns == 0)
        (void)task_sleep(LOOK_NS);
    (void)task_sleep_until(rfp->from_ns);
    count(rfp, &in[0], &out[0]);
    (void)task_sleep_until(rfp->until_ns);
    count(rfp, &in[1], &out[1]);
    rfp->result.in_bound = since(&in[0], &in[1]);
    rfp->result.out_bound = since(&out[0], &out[1]);
}

static void run_server(void *arg)
{
    struct rfp *rfp = arg;
    const struct lab_rfp_options *options = rfp->options;
    const struct tarn_rpc_serve_options serve_options = {
        .connections_max = options->clients * (options->workers + options->idle),
        .calls_max = RING,
        .request_bytes_max = LAB_RFP_KEY_BYTES + rfp->value_bytes_max,
        .result_bytes_max = rfp->room};
    struct task_sched *scheds[LAB_RFP_WORKERS_MAX];
    struct tarn_rpc_server *server;
    struct tarn_rpc_stats stats;
    for (uint32_t i = 0; i < options->workers; i++)
        scheds[i] = sim_node_sched(rfp->server.node, i);
    if (options->share.cores != 0)
        sim_node_share(rfp->server.node, &options->share);
    base_assert(tarn_fabric_open(sim_node_tarn(rfp->server.node), "sim:", &rfp->server.fabric) == 0);
    base_assert(rpc_serve(rfp->server.fabric, rfp->server.name, &rfp->service, &serve_options, scheds,
                          options->workers, &server) == 0);
    rfp->serves = true;
    count_while_measured(rfp);
    tarn_rpc_server_stats(server, &stats);
    rfp->result.sleeps = stats.sleeps;
    rfp->result.connections = stats.connections;
    rfp->result.watched = stats.watched;
    while (rfp->ended < options->clients)
        (void)task_sleep(LOOK_NS);
    tarn_rpc_server_close(server);
    tarn_fabric_close(rfp->server.fabric);
}

/* ---- clients ------------------------------------------------------------------------------------ */

static void run_machine(void *arg)
{
    struct machine *machine = arg;
    base_assert(tarn_fabric_open(sim_node_tarn(machine->node), "sim:", &machine->fabric) == 0);
    while (machine->rfp->ended < machine->rfp->options->clients)
        (void)task_sleep(LOOK_NS);
    tarn_fabric_close(machine->fabric);
}

static struct tarn_rpc_connection *connect_worker(const struct client *client, uint32_t worker)
{
    const struct rfp *rfp = client->machine->rfp;
    const struct lab_rfp_options *options = rfp->options;
    const struct tarn_rpc_connect_options wanted = {.way = options->way,
                                                    .calls = RING,
                                                    .request_bytes = LAB_RFP_KEY_BYTES + rfp->value_bytes_max,
                                                    .result_bytes = rfp->room,
                                                    .fetch_bytes = options->fetch_bytes,
                                                    .worker = worker + 1};
    struct tarn_rpc_connection *connection;
    base_assert(
        tarn_rpc_connect(client->machine->fabric, rfp->server.name, &wanted, TARN_FOREVER, &connection) == 0);
    return connection;
}

/* An answer of the present phase, by one connection. */
static void call_phase(struct client *client, struct tarn_rpc_connection *connection,
                       struct tarn_rpc_call *call)
{
    const struct rfp *rfp = client->machine->rfp;
    const uint64_t number = base_random_u64(&client->random);
    call->method = ANSWER;
    call->request_bytes = LAB_RFP_KEY_BYTES;
    call->room = rfp->room;
    task_charge(rfp->options->costs->client_ns);
    build_key(number, client->request);
    int error = tarn_rpc_call(connection, call);
    const uint32_t bytes = call->result_bytes;
    if (error != 0 ||
        (bytes > 0 && (client->result[0] != byte_of(number) || client->result[bytes - 1] != byte_of(number))))
        sim_fail(rfp->world, "a call ended with %d and %" PRIu32 " bytes, or not its own", error, bytes);
}

/* Connections that call once, and are there. */
static void connect_idle(struct client *client)
{
    const struct lab_rfp_options *options = client->machine->rfp->options;
    for (uint32_t i = 0; i < options->idle; i++) {
        struct tarn_rpc_call call = {.request = client->request, .result = client->result};
        client->idle[i] = connect_worker(client, i % options->workers);
        call_phase(client, client->idle[i], &call);
    }
}

static void connect_client(struct client *client)
{
    struct rfp *rfp = client->machine->rfp;
    const struct lab_rfp_options *options = rfp->options;
    while (!rfp->serves || client->machine->fabric == NULL)
        (void)task_sleep(LOOK_NS);
    for (uint32_t i = 0; i < options->workers; i++)
        client->connections[i] = connect_worker(client, i);
    connect_idle(client);
    if (++rfp->connected == options->clients) {
        rfp->begin_ns = task_now() + LOOK_NS;
        rfp->from_ns = rfp->begin_ns + (options->lead_ns != 0 ? options->lead_ns : options->run_ns / 4);
        rfp->until_ns = rfp->from_ns + options->run_ns;
    }
    while (rfp->begin_ns == 0)
        (void)task_sleep(LOOK_NS);
    (void)task_sleep_until(rfp->begin_ns);
}

static void check_answer(struct client *client, const struct tarn_rpc_call *call, uint64_t number)
{
    const struct rfp *rfp = client->machine->rfp;
    bool is_right = call->error == 0 || (call->error == -ENOENT && call->method == GET);
    if (call->error == 0 && call->method == GET)
        is_right = is_value_of(rfp->options, number, client->result, call->result_bytes);
    if (!is_right)
        sim_fail(rfp->world, "the call about key %" PRIu64 " ended with %d and %" PRIu32 " bytes", number,
                 (int)call->error, call->result_bytes);
}

/* A get or a put. */
static void call_cache(struct client *client, struct tarn_rpc_call *call)
{
    struct rfp *rfp = client->machine->rfp;
    const struct lab_rfp_options *options = rfp->options;
    const uint64_t number = draw_key(client);
    const bool gets = base_random_below(&client->random, 100) < options->get_percent;
    const uint32_t bytes = gets ? 0 : value_bytes_of(options, number);
    call->method = gets ? GET : PUT;
    call->request_bytes = LAB_RFP_KEY_BYTES + bytes;
    call->room = gets ? rfp->room : 0;
    task_charge(options->costs->client_ns);
    build_key(number, client->request);
    memset(client->request + LAB_RFP_KEY_BYTES, byte_of(number), bytes);
    const uint32_t place =
        cache_partition_of(cache_seed(rfp->cache), options->workers, client->request, LAB_RFP_KEY_BYTES);
    (void)!tarn_rpc_call(client->connections[place], call); /* call->error is judged below */
    check_answer(client, call, number);
}

/* One call, and what it took. */
static void call_once(struct client *client)
{
    struct rfp *rfp = client->machine->rfp;
    const uint64_t begin_ns = task_now();
    struct tarn_rpc_call call = {.request = client->request, .result = client->result};
    if (rfp->options->phases != NULL)
        call_phase(client, client->connections[base_random_below(&client->random, rfp->options->workers)],
                   &call);
    else
        call_cache(client, &call);
    const uint64_t now_ns = task_now();
    if (now_ns < rfp->from_ns || now_ns >= rfp->until_ns)
        return;
    client->calls++;
    client->gets += call.method == GET;
    client->hits += call.method == GET && call.error == 0;
    client->got_bytes += call.result_bytes;
    rfp->result.bins[(now_ns - rfp->from_ns) * LAB_RFP_BINS / rfp->options->run_ns]++;
    base_histogram_add(&client->latency, now_ns - begin_ns);
}

static void add_stats(struct tarn_rpc_call_stats *into, const struct tarn_rpc_call_stats *from)
{
    into->calls += from->calls;
    into->fetched += from->fetched;
    into->replied += from->replied;
    into->reads += from->reads;
    into->unready += from->unready;
    into->unwhole += from->unwhole;
    into->rests += from->rests;
    into->notified += from->notified;
    into->woken += from->woken;
    into->changes += from->changes;
    into->timed_out += from->timed_out;
    into->fetch_bytes = base_max(into->fetch_bytes, from->fetch_bytes);
}

static void run_client(void *arg)
{
    struct client *client = arg;
    struct rfp *rfp = client->machine->rfp;
    connect_client(client);
    while (task_now() < rfp->until_ns && sim_world_failure(rfp->world) == NULL)
        call_once(client);
    for (uint32_t i = 0; i < rfp->options->workers; i++) {
        struct tarn_rpc_call_stats stats;
        tarn_rpc_call_stats(client->connections[i], &stats);
        add_stats(&client->stats, &stats);
        tarn_rpc_disconnect(client->connections[i]);
    }
    for (uint32_t i = 0; i < rfp->options->idle; i++)
        tarn_rpc_disconnect(client->idle[i]);
    rfp->ended++;
}

/* ---- measuring ---------------------------------------------------------------------------------- */

static bool are_phases_valid(const struct lab_rfp_options *options)
{
    bool is_valid = options->phase_count > 0 && options->keys == 0 && options->value_bytes == 0;
    for (uint32_t i = 0; i < options->phase_count && is_valid; i++)
        is_valid = options->phases[i].result_bytes <= LAB_RFP_ANSWER_MAX;
    return is_valid;
}

static bool is_valid(const struct lab_rfp_options *options)
{
    return options->card != NULL && options->costs != NULL && options->workers > 0 &&
           options->workers <= LAB_RFP_WORKERS_MAX && options->machines > 0 &&
           options->machines <= LAB_RFP_MACHINES_MAX && options->clients > 0 &&
           options->clients <= LAB_RFP_CLIENTS_MAX && options->keys <= UINT32_MAX &&
           options->value_bytes <= LAB_RFP_VALUE_MAX && options->get_percent <= 100 &&
           options->fetch_bytes <= LAB_RFP_VALUE_MAX && options->run_ns > 0 &&
           options->idle <= LAB_RFP_IDLE_MAX && (options->idle == 0 || options->phases != NULL) &&
           (options->phases == NULL ? options->keys > 0 : are_phases_valid(options));
}

/* @return 0; -ENOMEM */
static int start_node(struct rfp *rfp, struct machine *machine, uint32_t threads, task_function *function,
                      void *arg)
{
    const struct sim_node_options options = {
        .name = machine->name, .scheds = threads + 1, .card = rfp->options->card};
    machine->rfp = rfp;
    int error = sim_node_open(rfp->world, &options, &machine->node);
    return error != 0 ? error : sim_spawn(machine->node, threads, machine->name, function, arg);
}

/* @return 0; -ENOMEM */
static int start_machine(struct rfp *rfp, uint32_t number)
{
    const struct lab_rfp_options *options = rfp->options;
    const uint32_t first = number * options->clients / options->machines;
    const uint32_t end = (number + 1) * options->clients / options->machines;
    struct machine *machine = &rfp->machines[number];
    (void)snprintf(machine->name, sizeof(machine->name), "machine %" PRIu32, number);
    int error = start_node(rfp, machine, end - first, run_machine, machine);
    for (uint32_t i = first; i < end && error == 0; i++) {
        struct client *client = &rfp->clients[i];
        client->machine = machine;
        client->turn = i;
        client->random = base_random_fork(sim_world_random(rfp->world));
        base_histogram_reset(&client->latency);
        error = sim_spawn(machine->node, i - first, "client", run_client, client);
    }
    return error;
}

static void add_up(struct rfp *rfp)
{
    struct lab_rfp_result *result = &rfp->result;
    base_histogram_reset(&result->latency);
    for (uint32_t i = 0; i < rfp->options->clients; i++) {
        const struct client *client = &rfp->clients[i];
        result->calls += client->calls;
        result->gets += client->gets;
        result->hits += client->hits;
        result->got_bytes += client->got_bytes;
        add_stats(&result->stats, &client->stats);
        base_histogram_merge(&result->latency, &client->latency);
    }
    result->kops = (uint64_t)((double)result->calls * 1e6 / (double)rfp->options->run_ns + 0.5);
    result->hash = sim_world_hash(rfp->world);
}

/* @return 0; -ENOMEM; -EIO */
static int run_world(struct rfp *rfp)
{
    const struct lab_rfp_options *options = rfp->options;
    sim_net_options(rfp->world)->troubles = 0;
    (void)snprintf(rfp->server.name, sizeof(rfp->server.name), "server");
    int error = start_node(rfp, &rfp->server, options->workers, run_server, rfp);
    if (error == 0 && options->phases == NULL)
        error = fill_cache(rfp);
    for (uint32_t i = 0; i < options->machines && error == 0; i++)
        error = start_machine(rfp, i);
    if (error == 0 && sim_world_run(rfp->world, TASK_FOREVER, NULL, NULL) != 0) {
        (void)fprintf(stderr, "%s\n", sim_world_failure(rfp->world));
        return -EIO;
    }
    if (rfp->cache != NULL)
        cache_close(rfp->cache);
    if (error != 0)
        return error; /* nodes end with the world */
    add_up(rfp);
    for (uint32_t i = 0; i < options->machines; i++)
        base_assert(sim_node_close(rfp->machines[i].node) == 0);
    base_assert(sim_node_close(rfp->server.node) == 0);
    return 0;
}

/* How long requests and results get. */
static void measure_room(struct rfp *rfp)
{
    const struct lab_rfp_options *options = rfp->options;
    if (options->phases == NULL)
        rfp->value_bytes_max = options->value_bytes == 0 ? LAB_RFP_MIXED_MAX : options->value_bytes;
    rfp->room = base_max(rfp->value_bytes_max, options->fetch_bytes);
    for (uint32_t i = 0; options->phases != NULL && i < options->phase_count; i++)
        rfp->room = base_max(rfp->room, options->phases[i].result_bytes);
}

int lab_rfp_measure(const struct lab_rfp_options *options, struct lab_rfp_result *ret_result)
{
    const struct sim_world_options world_options = {
        .seed = options->seed, .timed = true, .steps_max = UINT64_MAX};
    struct rfp rfp = {.options = options};
    if (!is_valid(options))
        return -EINVAL;
    measure_room(&rfp);
    rfp.service = (struct tarn_rpc_service){.methods = methods, .count = METHODS, .arg = &rfp};
    if (options->is_skewed)
        base_random_zipf_init(&rfp.zipf, options->keys, ZIPF_EXPONENT);
    int error = sim_world_open(&world_options, &rfp.world);
    if (error != 0)
        return error;
    struct base_account *memory = sim_world_memory(rfp.world);
    const uint64_t bytes = options->clients * sizeof(rfp.clients[0]);
    rfp.clients = base_alloc(memory, bytes);
    error = rfp.clients == NULL ? -ENOMEM : run_world(&rfp);
    base_free(memory, rfp.clients, bytes);
    sim_world_close(rfp.world);
    if (error == 0)
        *ret_result = rfp.result;
    return error;
}
