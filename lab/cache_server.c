/*
 * The process that has Tarn's caches, on the second core: one behind the kv service, and one of the same size whose memory
 * clients READ, with a service for its puts. Each has a worker that never sleeps while it has a connection, and sleeps
 * while it has none, so who is not measured costs nothing.
 */
#include "cache/cache.h"
#include "kv/kv.h"
#include "lab/cache.h"
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

enum { RECORD_BYTES = 256 }; /* of memory for a key: three times what index and log take */

struct serving {
    const struct lab_cache_server *options;
    struct tarn_node *node;
    struct tarn_kv *kv;
    struct kv_server *kv_server;
    struct cache *exported;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct tarn_rpc_service service;
    struct tarn_rpc_server *puts;
};

uint64_t lab_cache_memory(uint64_t keys)
{
    return base_align_up(keys * RECORD_BYTES + (UINT64_C(1) << 20), UINT64_C(1) << 20);
}

/* ---- the two caches ----------------------------------------------------------------------------- */

typedef int put_function(struct serving *serving, const void *key, const void *value);

static int put_kv(struct serving *serving, const void *key, const void *value)
{
    return tarn_kv_put(serving->kv, key, BENCH_KEY_BYTES, value, LAB_CACHE_VALUE_BYTES, NULL, NULL);
}

static int put_exported(struct serving *serving, const void *key, const void *value)
{
    return cache_put(cache_partition(serving->exported, 0), key, BENCH_KEY_BYTES, value,
                     LAB_CACHE_VALUE_BYTES, NULL, task_wall(serving->node), NULL);
}

static int fill_cache(struct serving *serving, put_function *put)
{
    uint8_t value[LAB_CACHE_VALUE_BYTES];
    char key[BENCH_KEY_BYTES];
    int error = 0;
    for (uint64_t i = 0; i < serving->options->keys && error == 0; i++) {
        bench_key(i, key);
        bench_value(serving->options->values, i, 0, value);
        error = put(serving, key, value);
    }
    return error;
}

static int open_kv(struct serving *serving)
{
    char url[96];
    (void)snprintf(url, sizeof(url), "cache:memory=%" PRIu64 ",item=%d",
                   lab_cache_memory(serving->options->keys), LAB_CACHE_PUT_BYTES);
    int error = tarn_kv_open(serving->node, url, NULL, &serving->kv);
    return error == 0 ? fill_cache(serving, put_kv) : error;
}

static int open_exported(struct serving *serving, struct tarn_fabric *fabric)
{
    const uint64_t bytes = lab_cache_memory(serving->options->keys);
    const struct tarn_fabric_domain_options domain_options = {.readable_bytes = bytes};
    const struct cache_options cache_options = {
        .partitions = 1, .item_bytes = LAB_CACHE_PUT_BYTES, .regions = &serving->region};
    int error = tarn_fabric_domain_open(fabric, &domain_options, &serving->domain);
    if (error == 0)
        error = tarn_fabric_region_alloc(serving->domain, bytes, TARN_FABRIC_MAY_READ, &serving->region);
    if (error == 0)
        error = cache_open(serving->node, &cache_options, &serving->exported);
    return error == 0 ? fill_cache(serving, put_exported) : error;
}

/* ---- serving ------------------------------------------------------------------------------------ */

static int answer_put(void *arg, struct tarn_rpc_request *request)
{
    const uint8_t *key = request->data;
    return request->bytes == LAB_CACHE_PUT_BYTES ? put_exported(arg, key, key + BENCH_KEY_BYTES) : -EINVAL;
}

static const struct tarn_rpc_method put_methods[] = {
    {.name = "put", .function = answer_put, .is_short = true}};

/* Accept clients, one after the other. Each may READ all memory of the caches. */
static void accept_all(void *arg)
{
    struct serving *serving = arg;
    struct tarn_fabric_connection *connection = NULL;
    struct tarn_fabric_incoming *incoming;
    uint8_t data[TARN_FABRIC_HANDLE_BYTES];
    const struct tarn_fabric_connect_options options = {.data = data, .data_bytes = sizeof(data)};
    tarn_fabric_handle_save(&serving->region->handle, data);
    while (tarn_fabric_listener_wait(serving->listener, TARN_FOREVER, &incoming) == 0) {
        if (connection != NULL)
            tarn_fabric_disconnect(connection);
        if (tarn_fabric_accept(incoming, serving->domain, &options, &connection) != 0)
            connection = NULL;
    }
}

static const struct tarn_rpc_serve_options serve_options = {.calls_max = LAB_CACHE_REQUESTS_MAX,
                                                            .spin_ns = LAB_SERVER_SPIN_NS};

static int serve_both(struct serving *serving, struct tarn_fabric *fabric)
{
    const char *where = serving->options->server.address;
    const struct kv_served store = {.name = LAB_CACHE_STORE, .kv = serving->kv};
    char address[128];
    int error = kv_serve(fabric, where, &store, 1, &serve_options, NULL, 0, &serving->kv_server);
    if (error != 0)
        return error;
    serving->service = (struct tarn_rpc_service){.methods = put_methods, .count = 1, .arg = serving};
    (void)snprintf(address, sizeof(address), "%s" LAB_CACHE_PUTS, where);
    error = tarn_rpc_serve(fabric, address, &serving->service, &serve_options, &serving->puts);
    if (error != 0)
        return error;
    (void)snprintf(address, sizeof(address), "%s" LAB_CACHE_MEMORY, where);
    return tarn_fabric_listen(fabric, address, &serving->listener);
}

static int begin_serving(struct lab_server *server, struct tarn_node *node, struct tarn_fabric *fabric)
{
    struct serving *serving = base_alloc(&node->memory, sizeof(*serving));
    struct task_sched *sched; /* that accepts who READs */
    if (serving == NULL)
        return -ENOMEM;
    serving->options = base_container_of(server, struct lab_cache_server, server);
    serving->node = node;
    server->serving = serving;
    int error = open_kv(serving);
    if (error == 0)
        error = open_exported(serving, fabric);
    if (error == 0)
        error = serve_both(serving, fabric);
    if (error == 0)
        error = task_sched_open(node, NULL, &sched);
    if (error == 0)
        error = task_sched_start(sched);
    return error == 0 ? task_spawn(sched, NULL, "accept", accept_all, serving) : error;
}

static int end_serving(struct lab_server *server)
{
    struct serving *serving = server->serving;
    kv_server_close(serving->kv_server);
    tarn_rpc_server_close(serving->puts);
    return 0;
}

int lab_cache_server_start(struct lab_cache_server *server, struct bench *bench)
{
    server->server =
        (struct lab_server){.bench = bench, .url = "shm:", .begin = begin_serving, .end = end_serving};
    return lab_server_start(&server->server);
}

int lab_cache_server_stop(struct lab_cache_server *server)
{
    static const char *const added[] = {LAB_CACHE_PUTS, LAB_CACHE_MEMORY};
    char path[128];
    int error = lab_server_stop(&server->server);
    for (size_t i = 0; i < base_array_count(added); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", server->server.address, added[i]);
        (void)unlink(path);
    }
    return error;
}
