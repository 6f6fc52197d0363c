/* The kv service: it answers requests from the stores of this process. Scans and values in regions have own files. */
#include "kv/service.h"
#include "fabric/fabric.h"
#include <errno.h>
#include <string.h>

#define CALLS_MAX 16

/* ---- which store, and whether here -------------------------------------------------------------- */

/* Find a request's store by its number. @return NULL: there is none */
static struct kv_store *store_of(struct kv_server *server, const struct kv_request *request)
{
    return request->store < server->count ? &server->stores[request->store] : NULL;
}

/* Whether a key belongs to this worker. A single worker has all keys, without a hash. */
static bool is_here(const struct kv_store *store, const struct kv_worker *worker, const void *key,
                    size_t key_len)
{
    if (store->cache == NULL || worker->count == 1)
        return true;
    const uint32_t partition =
        cache_partition_of(cache_seed(store->cache), cache_partitions(store->cache), key, key_len);
    return partition % worker->count == worker->place;
}

/* ---- methods ------------------------------------------------------------------------------------ */

/* The bytes of a value that were asked for and fit into the result. */
static size_t room_for(uint32_t wanted, const struct tarn_rpc_request *exchange, size_t before)
{
    return base_min((size_t)wanted, exchange->room - before);
}

static int answer_info(struct kv_server *server, const struct kv_worker *worker,
                       const struct kv_request *request, struct tarn_rpc_request *exchange)
{
    uint16_t number = request->store;
    for (uint16_t i = 0; i < server->count && request->store == KV_STORE_BY_NAME; i++) {
        const char *name = server->stores[i].name;
        if (strlen(name) == request->key_len && memcmp(name, request->key, request->key_len) == 0)
            number = i;
    }
    if (number >= server->count)
        return -ENXIO;
    const struct kv_store *store = &server->stores[number];
    struct kv_store_info info = {.store = number,
                                 .stores = server->count,
                                 .workers = (uint16_t)worker->count,
                                 .seed = store->cache == NULL ? 0 : cache_seed(store->cache),
                                 .name = store->name,
                                 .name_len = strlen(store->name)};
    tarn_kv_info(store->kv, &info.info);
    info.info.abilities |= KV_TAKES_REGIONS;
    if (store->domain != NULL)
        info.info.abilities |= KV_IS_SHARED;
    if (KV_INFO_BYTES + info.name_len > exchange->room)
        return -EMSGSIZE;
    kv_info_save(&info, exchange->result);
    exchange->result_bytes = (uint32_t)(KV_INFO_BYTES + info.name_len);
    return 0;
}

/* Answer GET and GET_RANGE. */
static int answer_read(struct kv_store *store, const struct kv_request *request,
                       struct tarn_rpc_request *exchange)
{
    uint8_t *result = exchange->result;
    struct tarn_record_info info;
    size_t bytes;
    if (exchange->room < KV_RECORD_BYTES)
        return -EMSGSIZE;
    int error = tarn_kv_read(store->kv, request->key, request->key_len, request->if_version, request->offset,
                             result + KV_RECORD_BYTES, room_for(request->amount, exchange, KV_RECORD_BYTES),
                             &bytes, &info);
    if (error != 0)
        return error;
    kv_record_save(&info, result);
    exchange->result_bytes = (uint32_t)(KV_RECORD_BYTES + bytes);
    return 0;
}

/* Close the gaps between values, each of which was read into room for the longest. */
static void pack_values(const struct tarn_get *gets, uint32_t count, struct tarn_rpc_request *exchange)
{
    uint8_t *to = exchange->result;
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = gets[i].error == 0 ? gets[i].info.value_bytes : 0;
        memmove(to + KV_ITEM_BYTES, gets[i].value, bytes);
        kv_got_save(&gets[i], to);
        to += KV_ITEM_BYTES + bytes;
    }
    exchange->result_bytes = (uint32_t)(to - (uint8_t *)exchange->result);
}

static int answer_many(struct kv_store *store, const struct kv_worker *worker,
                       const struct kv_request *request, struct tarn_rpc_request *exchange)
{
    struct tarn_get gets[KV_GETS_MAX];
    uint64_t at = 0;
    if (kv_keys_load(request, exchange->data, exchange->bytes, gets) != 0)
        return -EINVAL;
    for (uint32_t i = 0; i < request->amount; i++) {
        if (!is_here(store, worker, gets[i].key, gets[i].key_len))
            return -EXDEV;
        if (at + KV_ITEM_BYTES + gets[i].value_room > exchange->room)
            return -EMSGSIZE;
        gets[i].value = (uint8_t *)exchange->result + at + KV_ITEM_BYTES;
        at += KV_ITEM_BYTES + gets[i].value_room;
    }
    tarn_kv_get_many(store->kv, gets, request->amount);
    pack_values(gets, request->amount, exchange);
    return 0;
}

static int answer_put(struct kv_store *store, const struct kv_request *request,
                      struct tarn_rpc_request *exchange)
{
    uint64_t version;
    if (exchange->room < sizeof(version))
        return -EMSGSIZE;
    int error = tarn_kv_put(store->kv, request->key, request->key_len, request->value, request->amount,
                            &request->options, &version);
    if (error != 0)
        return error;
    base_store_le64(exchange->result, version);
    exchange->result_bytes = sizeof(version);
    return 0;
}

/* A page of a range as it is filled. */
struct range_page {
    const struct kv_request *request;
    struct kv_filling filling;
};

static int fill_page(void *arg, const void *key, size_t key_len, const void *value,
                     const struct tarn_record_info *info)
{
    struct range_page *page = arg;
    const struct kv_request *request = page->request;
    struct kv_filling *filling = &page->filling;
    if (request->after && key_len == request->key_len && memcmp(key, request->key, key_len) == 0)
        return 0;
    if (filling->head.count < request->records && kv_filling_add(filling, key, key_len, value, info))
        return 0;
    filling->head.scan = 1; /* there are further ones */
    return 1;
}

static int answer_range(struct kv_store *store, const struct kv_request *request,
                        struct tarn_rpc_request *exchange)
{
    struct range_page page = {.request = request,
                              .filling = {.page = exchange->result,
                                          .room = base_min(exchange->room, KV_SCAN_BYTES_MAX),
                                          .value_room = request->value_room}};
    /* beside those that are wanted: the one where it begins, and one that tells that there are more */
    const struct tarn_kv_range range = {.from = request->key,
                                        .from_len = request->key_len,
                                        .below = request->value,
                                        .below_len = request->amount,
                                        .reverse = request->reverse,
                                        .limit = (uint64_t)request->records + request->after + 1};
    if (!kv_page_has_room(page.filling.room, request->value_room))
        return -EMSGSIZE;
    kv_filling_empty(&page.filling);
    int error = tarn_kv_range(store->kv, &range, fill_page, &page);
    if (error < 0)
        return error;
    kv_page_save(&page.filling.head, page.filling.page);
    exchange->result_bytes = page.filling.bytes;
    return 0;
}

static int answer_batch(const struct kv_server *server, const struct kv_store *store,
                        const struct kv_request *request, struct tarn_rpc_request *exchange)
{
    struct base_account *account = &server->node->memory;
    const uint32_t count = request->amount;
    const size_t result_bytes = (count + 1) * (size_t)KV_CHANGED_BYTES;
    const size_t bytes = count * (sizeof(struct tarn_batch_item) + sizeof(struct tarn_put_options));
    if (exchange->room < result_bytes)
        return -EMSGSIZE;
    struct tarn_batch_item *items = base_alloc(account, bytes);
    if (items == NULL)
        return -ENOMEM;
    struct tarn_put_options *options = (struct tarn_put_options *)(items + count);
    int error = kv_changes_load(request, exchange->data, exchange->bytes, options, items);
    if (error == 0) {
        kv_changed_save(items, count, tarn_kv_write_batch(store->kv, items, count), exchange->result);
        exchange->result_bytes = (uint32_t)result_bytes;
    }
    base_free(account, items, bytes);
    return error;
}

static int answer_of_store(struct kv_server *server, const struct kv_worker *worker, enum kv_method method,
                           const struct kv_request *request, struct tarn_rpc_request *exchange)
{
    struct kv_store *store = store_of(server, request);
    switch (method) {
    case KV_GET:
    case KV_GET_RANGE:
        return answer_read(store, request, exchange);
    case KV_MULTI_GET:
        return answer_many(store, worker, request, exchange);
    case KV_PUT:
        return answer_put(store, request, exchange);
    case KV_PUT_REGION:
        return kv_region_answer(server, store->kv, request, exchange);
    case KV_DELETE:
        return tarn_kv_delete(store->kv, request->key, request->key_len);
    case KV_RANGE:
        return answer_range(store, request, exchange);
    case KV_BATCH:
        return answer_batch(server, store, request, exchange);
    case KV_HANDLES:
        return kv_handles_answer(store, request, exchange);
    default:
        return kv_scan_answer(server, worker, request, exchange);
    }
}

int kv_answer(struct kv_server *server, const struct kv_worker *worker, uint32_t method,
              struct tarn_rpc_request *exchange)
{
    const bool is_short = method >= KV_SHORT;
    const enum kv_method plain = (enum kv_method)(is_short ? method - KV_SHORT : method);
    struct kv_request request;
    int error = kv_request_load(plain, exchange->data, exchange->bytes, &request);
    if (error != 0)
        return error;
    if (plain == KV_INFO)
        return answer_info(server, worker, &request, exchange);
    const struct kv_store *store = store_of(server, &request);
    if (store == NULL)
        return -ENXIO;
    if (is_short != (store->cache != NULL))
        return -EOPNOTSUPP;
    if (request.key_len > 0 && !is_here(store, worker, request.key, request.key_len))
        return -EXDEV;
    return answer_of_store(server, worker, plain, &request, exchange);
}

/* ---- the table ---------------------------------------------------------------------------------- */

static int answer_method(struct kv_server *server, uint32_t method, struct tarn_rpc_request *exchange)
{
    struct tarn_rpc_limits limits;
    tarn_rpc_limits(exchange->connection, &limits);
    const struct kv_worker worker = {.place = limits.worker - 1, .count = limits.workers};
    return kv_answer(server, &worker, method, exchange);
}

/* Define a method's function: functions get no number, so each method has one of its own. */
#define METHOD(function, method)                                                                             \
    static int function(void *arg, struct tarn_rpc_request *exchange)                                        \
    {                                                                                                        \
        return answer_method(arg, method, exchange);                                                         \
    }

METHOD(method_info, KV_INFO)
METHOD(method_get, KV_GET)
METHOD(method_multi_get, KV_MULTI_GET)
METHOD(method_put, KV_PUT)
METHOD(method_delete, KV_DELETE)
METHOD(method_get_range, KV_GET_RANGE)
METHOD(method_scan, KV_SCAN)
METHOD(method_put_region, KV_PUT_REGION)
METHOD(method_range, KV_RANGE)
METHOD(method_batch, KV_BATCH)
METHOD(method_handles, KV_HANDLES)
METHOD(short_get, KV_SHORT + KV_GET)
METHOD(short_multi_get, KV_SHORT + KV_MULTI_GET)
METHOD(short_put, KV_SHORT + KV_PUT)
METHOD(short_delete, KV_SHORT + KV_DELETE)
METHOD(short_get_range, KV_SHORT + KV_GET_RANGE)
METHOD(cache_scan, KV_SHORT + KV_SCAN)
METHOD(cache_put_region, KV_SHORT + KV_PUT_REGION)

static const struct tarn_rpc_method methods[KV_METHOD_NUMBERS] = {
    [KV_INFO] = {.name = "info", .function = method_info, .is_short = true},
    [KV_GET] = {.name = "get", .function = method_get},
    [KV_MULTI_GET] = {.name = "multi_get", .function = method_multi_get},
    [KV_PUT] = {.name = "put", .function = method_put},
    [KV_DELETE] = {.name = "delete", .function = method_delete},
    [KV_GET_RANGE] = {.name = "get_range", .function = method_get_range},
    [KV_SCAN] = {.name = "scan", .function = method_scan},
    [KV_PUT_REGION] = {.name = "put_region", .function = method_put_region},
    [KV_RANGE] = {.name = "range", .function = method_range},
    [KV_BATCH] = {.name = "batch", .function = method_batch},
    [KV_HANDLES] = {.name = "handles", .function = method_handles},
    [KV_SHORT + KV_GET] = {.name = "cache_get", .function = short_get, .is_short = true},
    [KV_SHORT + KV_MULTI_GET] = {.name = "cache_multi_get", .function = short_multi_get, .is_short = true},
    [KV_SHORT + KV_PUT] = {.name = "cache_put", .function = short_put, .is_short = true},
    [KV_SHORT + KV_DELETE] = {.name = "cache_delete", .function = short_delete, .is_short = true},
    [KV_SHORT + KV_GET_RANGE] = {.name = "cache_get_range", .function = short_get_range, .is_short = true},
    [KV_SHORT + KV_SCAN] = {.name = "cache_scan", .function = cache_scan},
    [KV_SHORT + KV_PUT_REGION] = {.name = "cache_put_region", .function = cache_put_region},
};

/* ---- beginning and end -------------------------------------------------------------------------- */

int kv_server_init(struct kv_server *server, struct tarn_node *node, const struct kv_served *stores,
                   uint32_t count)
{
    *server = (struct kv_server){.node = node};
    server->service = (struct tarn_rpc_service){
        .methods = methods, .count = KV_METHOD_NUMBERS, .arg = server, .visited = kv_guest_visited};
    kv_scans_init(&server->scans);
    task_mutex_init(&server->guests.mutex);
    task_group_init(&server->guests.group);
    task_semaphore_init(&server->region_places, KV_REGIONS_MAX);
    server->region_grace_ns = KV_GRACE_NS;
    server->read = kv_region_read;
    if (count == 0 || count > KV_STORES_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_store *store = &server->stores[i];
        const size_t len = strlen(stores[i].name);
        if (!base_name_is_good(stores[i].name, len) || (stores[i].kv->info.abilities & TARN_KV_REMOTE) != 0)
            return -EINVAL;
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(server->stores[k].name, stores[i].name) == 0)
                return -EINVAL;
        }
        store->kv = stores[i].kv;
        store->cache = kv_cache_of(store->kv);
        memcpy(store->name, stores[i].name, len + 1);
        server->count++;
    }
    return 0;
}

int kv_serve(struct tarn_fabric *fabric, const char *address, const struct kv_served *stores, uint32_t count,
             const struct tarn_rpc_serve_options *options, struct task_sched *const *scheds,
             uint32_t sched_count, struct kv_server **ret_server)
{
    struct tarn_rpc_serve_options filled = {0};
    struct tarn_node *node = fabric_node(fabric);
    struct kv_server *server = base_alloc(&node->memory, sizeof(*server));
    if (server == NULL)
        return -ENOMEM;
    if (options != NULL)
        filled = *options;
    if (filled.request_bytes_max == 0)
        filled.request_bytes_max = TARN_RPC_BYTES_MAX;
    if (filled.result_bytes_max == 0)
        filled.result_bytes_max = TARN_RPC_BYTES_MAX;
    if (filled.calls_max == 0)
        filled.calls_max = CALLS_MAX;
    int error = kv_server_init(server, node, stores, count);
    if (error == 0)
        kv_sharing_begin(server, fabric);
    if (error == 0 && scheds != NULL)
        error = rpc_serve(fabric, address, &server->service, &filled, scheds, sched_count, &server->rpc);
    else if (error == 0)
        error = tarn_rpc_serve(fabric, address, &server->service, &filled, &server->rpc);
    if (error != 0) {
        kv_sharing_end(server);
        base_free(&node->memory, server, sizeof(*server));
        return error;
    }
    *ret_server = server;
    return 0;
}

void kv_server_close(struct kv_server *server)
{
    kv_scans_end(
        &server->scans); /* these tasks, and the guests', run on schedulers that may be closed next */
    kv_guests_end(server);
    tarn_rpc_server_close(server->rpc);
    kv_sharing_end(server);
    base_free(&server->node->memory, server, sizeof(*server));
}

void kv_server_stats(const struct kv_server *server, struct tarn_rpc_stats *ret_stats)
{
    tarn_rpc_server_stats(server->rpc, ret_stats);
}

uint32_t kv_server_method_stats(const struct kv_server *server,
                                struct tarn_rpc_method_stats ret_stats[KV_SERVER_METHODS_MAX])
{
    _Static_assert(KV_METHOD_NUMBERS <= KV_SERVER_METHODS_MAX, "there is room");
    uint32_t count = 0;
    for (uint32_t i = 0; i < KV_METHOD_NUMBERS; i++)
        count += tarn_rpc_method_stats(server->rpc, i, &ret_stats[count]);
    return count;
}
