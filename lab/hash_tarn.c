/* Tarn's hash store: a process on the other core has the memory of the space, and the master; this one does everything else. */
#include "bench/world.h"
#include "hash/hash.h"
#include "lab/hash.h"
#include "lab/memcache_server.h"
#include "lab/server.h"
#include "space/space.h"

#include <errno.h>
#include <unistd.h>

#define WAIT_NS     (60 * BASE_NS_PER_SECOND)
#define SPARE_BYTES (UINT64_C(512) << 20) /* beside the records: the index, locks, and what is not full */
#define NAME        "bench"
#define MEMORY      "-memory" /* what is added to the master's address for the memory server's */

/* What the memory's process has. */
struct serving {
    struct task_sched *sched;
    struct space_master *master;
    struct space_server *memory;
    char metadata[128], cluster[160];
};

struct state {
    struct lab_server server; /* the first member */
    uint64_t memory_bytes;
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct hash *hash;
    bool is_served;
};

/* ---- the memory's process ------------------------------------------------------------------------ */

static int await_memory(const struct serving *serving)
{
    const uint64_t deadline_ns = task_now() + WAIT_NS;
    struct space_master_stats stats;
    do {
        if (task_now() >= deadline_ns || task_sleep(BASE_NS_PER_MS) != 0)
            return -ETIMEDOUT;
        space_master_stats(serving->master, &stats);
    } while (stats.servers == 0);
    return 0;
}

static int begin_serving(struct lab_server *server, struct tarn_node *node, struct tarn_fabric *fabric)
{
    const struct state *state = (const struct state *)server;
    char memory_address[128];
    struct serving *serving = base_alloc(&node->memory, sizeof(*serving));
    if (serving == NULL)
        return -ENOMEM;
    server->serving = serving;
    (void)snprintf(memory_address, sizeof(memory_address), "%s" MEMORY, server->address);
    (void)snprintf(serving->metadata, sizeof(serving->metadata), "/dev/shm/%s.tarn",
                   strrchr(server->address, '/') + 1);
    (void)snprintf(serving->cluster, sizeof(serving->cluster), "solo:%s", serving->metadata);
    int error = task_sched_open(node, NULL, &serving->sched);
    if (error == 0)
        error = task_sched_start(serving->sched);
    const struct space_master_options master = {.fabric = fabric,
                                                .address = server->address,
                                                .cluster = serving->cluster,
                                                .name = NAME,
                                                .sched = serving->sched};
    if (error == 0)
        error = space_master_open(node, &master, &serving->master);
    const struct space_server_options memory = {.fabric = fabric,
                                                .address = memory_address,
                                                .masters = server->address,
                                                .name = NAME,
                                                .sched = serving->sched,
                                                .memory_bytes = state->memory_bytes};
    if (error == 0)
        error = space_server_open(node, &memory, &serving->memory);
    return error == 0 ? await_memory(serving) : error;
}

static int end_serving(struct lab_server *server)
{
    struct serving *serving = server->serving;
    space_server_close(serving->memory);
    space_master_close(serving->master);
    (void)unlink(serving->metadata);
    return 0;
}

/* ---- the client ---------------------------------------------------------------------------------- */

static int open_client(struct lab_hash_store *store)
{
    struct state *state = store->state;
    const struct hash_shape shape = {
        .slots = store->slots != 0 ? store->slots : base_power_of_two_from(store->job->keys.count * 4 / 3),
        .capacity = state->memory_bytes - SPARE_BYTES / 2};
    const struct hash_options options = {.shape = &shape};
    const uint64_t deadline_ns = task_now() + WAIT_NS;
    int error = bench_node_open(store->job->bench, TASK_ENGINE_AUTO, &state->node);
    if (error == 0)
        error = tarn_fabric_open(state->node, "shm:", &state->fabric);
    if (error == 0)
        error = tarn_space_connect(state->fabric, state->server.address, NULL, deadline_ns, &state->space);
    if (error == 0)
        error = tarn_space_create_ns(state->space, NAME, NULL, 0, deadline_ns, &state->of);
    if (error == 0)
        error = hash_open(state->node, state->space, state->of, NAME, &options, deadline_ns, &state->hash);
    return error == 0 ? 0 : bench_fail(store->job->bench, error, "a hash store");
}

static int open_tarn(struct lab_hash_store *store)
{
    const struct lab_hash_job *job = store->job;
    struct state *state = base_alloc(job->bench->account, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    store->state = state;
    const uint64_t record_bytes = 64 + BENCH_KEY_BYTES + job->values.bytes;
    state->memory_bytes =
        base_align_up(job->keys.count * (record_bytes * 9 / 8 + 16) + SPARE_BYTES, TARN_SPACE_CHUNK_BYTES);
    state->server =
        (struct lab_server){.bench = job->bench, .url = "shm:", .begin = begin_serving, .end = end_serving};
    int error = lab_server_start(&state->server);
    state->is_served = error == 0;
    return error == 0 ? open_client(store) : error;
}

static void close_tarn(struct lab_hash_store *store)
{
    struct state *state = store->state;
    char memory_address[128];
    if (state == NULL)
        return;
    if (state->hash != NULL)
        hash_close(state->hash);
    if (state->of != NULL)
        tarn_space_leave_ns(state->of);
    if (state->space != NULL)
        tarn_space_disconnect(state->space);
    if (state->fabric != NULL)
        tarn_fabric_close(state->fabric);
    if (state->node != NULL)
        task_node_close(state->node);
    if (state->is_served)
        (void)lab_server_stop(&state->server);
    (void)snprintf(memory_address, sizeof(memory_address), "%s" MEMORY, state->server.address);
    (void)unlink(memory_address);
    base_free(store->job->bench->account, state, sizeof(*state));
    store->state = NULL;
}

/* ---- operations ---------------------------------------------------------------------------------- */

static int run_all(const struct state *state, struct hash_op *ops, uint32_t count)
{
    int error = 0;
    hash_run(state->hash, ops, count, TARN_FOREVER);
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = ops[i].error;
    return error;
}

static int get_tarn(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                    uint8_t *values)
{
    struct hash_op ops[LAB_HASH_BATCH_MAX];
    const uint32_t bytes = store->job->values.bytes;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = (struct hash_op){.kind = HASH_GET,
                                  .key = keys[i],
                                  .key_len = BENCH_KEY_BYTES,
                                  .room = values + (size_t)i * bytes,
                                  .room_bytes = bytes};
    return run_all(store->state, ops, count);
}

static int put_tarn(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                    const uint8_t *values)
{
    struct hash_op ops[LAB_HASH_BATCH_MAX];
    const uint32_t bytes = store->job->values.bytes;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = (struct hash_op){.kind = HASH_PUT,
                                  .key = keys[i],
                                  .key_len = BENCH_KEY_BYTES,
                                  .value = values + (size_t)i * bytes,
                                  .value_len = bytes};
    return run_all(store->state, ops, count);
}

static uint64_t tarn_bytes(struct lab_hash_store *store)
{
    const struct state *state = store->state;
    struct hash_stats stats;
    hash_stats(state->hash, &stats);
    return stats.slab_bytes + stats.slots * 8;
}

static uint64_t tarn_others_ns(struct lab_hash_store *store)
{
    const struct state *state = store->state;
    struct lab_memcache_usage usage = {0};
    return lab_memcache_usage_read(state->server.child.pid, &usage) == 0 ? usage.processor_ns : 0;
}

const struct lab_hash_store lab_hash_tarn = {.name = "tarn",
                                             .open = open_tarn,
                                             .get = get_tarn,
                                             .put = put_tarn,
                                             .bytes = tarn_bytes,
                                             .others_ns = tarn_others_ns,
                                             .close = close_tarn};
