/*
 * Any bytes as a request to the kv service, and as a result of it: what is answered fits its room and can be loaded, what is
 * refused changes nothing, and what is loaded lies within the bytes that came.
 */
#include "kv/service.h"
#include "testing.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
    struct tarn_node *node;
    struct task_sched *sched;
};

static void check_within(const void *part, size_t bytes, const uint8_t *data, size_t size)
{
    const uint8_t *from = part;
    base_assert(from >= data && from <= data + size && bytes <= (size_t)(data + size - from));
}

/* The changes of a batch, which lie behind each other. */
static void load_changes(const uint8_t *data, size_t size)
{
    static struct tarn_batch_item items[TARN_BATCH_ITEMS_MAX];
    static struct tarn_put_options options[TARN_BATCH_ITEMS_MAX];
    struct kv_request request;
    size_t bytes = 8;
    if (kv_request_load(KV_BATCH, data, size, &request) != 0 ||
        kv_changes_load(&request, data, size, options, items) != 0)
        return;
    for (uint32_t i = 0; i < request.amount; i++) {
        base_assert(items[i].key_len > 0 && items[i].options == &options[i]);
        check_within(items[i].key, items[i].key_len, data, size);
        check_within(items[i].value, items[i].value_len, data, size);
        bytes += kv_change_bytes(&items[i]);
    }
    base_assert(bytes == size);
    if (kv_changed_load(data, size, items, request.amount) <= 0)
        base_assert(items[0].error <= 0);
}

static void load_results(const uint8_t *data, size_t size)
{
    struct tarn_fabric_handle handles[8];
    struct kv_handles head;
    uint16_t store;
    if (kv_handles_load(data, size, &head, handles, 8) == 0)
        base_assert(head.count <= 8 && head.step_bytes > 0);
    (void)kv_reads_hello_load(data, size, &store);
    struct kv_store_info info;
    struct kv_page page;
    struct kv_item item;
    size_t taken;
    if (kv_info_load(data, size, &info) == 0) {
        check_within(info.name, info.name_len, data, size);
        base_assert(info.workers > 0 && info.info.partitions > 0 && info.store < info.stores);
    }
    if (kv_page_load(data, size, &page) == 0)
        base_assert(size >= KV_PAGE_BYTES);
    for (size_t at = 0; (taken = kv_got_load(data + at, size - at, &item)) > 0; at += taken)
        check_within(item.value, item.bytes, data + at, taken);
    for (size_t at = 0; (taken = kv_scanned_load(data + at, size - at, &item)) > 0; at += taken) {
        check_within(item.key, item.key_len, data + at, taken);
        check_within(item.value, item.bytes, data + at, taken);
        base_assert(item.key_len > 0);
    }
}

/* What a good answer of each method looks like. */
static void check_answer(uint32_t method, const struct tarn_rpc_request *exchange)
{
    const uint8_t *result = exchange->result;
    struct tarn_record_info record;
    struct kv_store_info info;
    struct kv_item item;
    switch (method) {
    case KV_INFO:
        base_assert(kv_info_load(result, exchange->result_bytes, &info) == 0);
        break;
    case KV_SHORT + KV_GET:
    case KV_SHORT + KV_GET_RANGE:
        base_assert(kv_record_load(result, &record) == 0);
        base_assert(exchange->result_bytes <= KV_RECORD_BYTES + record.value_bytes);
        break;
    case KV_SHORT + KV_PUT_REGION:
        base_assert(exchange->result_bytes == 8);
        break;
    case KV_SHORT + KV_MULTI_GET:
        for (size_t at = 0, taken; at < exchange->result_bytes; at += taken) {
            taken = kv_got_load(result + at, exchange->result_bytes - at, &item);
            base_assert(taken > 0);
        }
        break;
    default:
        break;
    }
}

/* A client's memory, of which every fourth READ fails. */
static int read_region(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                       uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    (void)deadline_ns;
    base_assert(bytes > 0 && bytes <= KV_PIECE_BYTES && (handle->rights & TARN_FABRIC_MAY_READ) != 0);
    base_assert(bytes <= handle->bytes && offset <= handle->bytes - bytes);
    memset(data, (int)(offset & UINT8_MAX), bytes);
    return exchange->bytes % 4 == 3 ? -EACCES : 0;
}

static void ask(struct kv_server *server, const uint8_t *data, size_t size)
{
    static uint8_t result[ROOM + 1];
    const struct kv_worker worker = {.place = data[1] % 2, .count = 1 + data[1] % 3};
    static const uint32_t methods[] = {KV_INFO,
                                       KV_GET,
                                       KV_SCAN,
                                       KV_RANGE,
                                       KV_BATCH,
                                       KV_SHORT + KV_GET,
                                       KV_SHORT + KV_MULTI_GET,
                                       KV_SHORT + KV_PUT,
                                       KV_SHORT + KV_DELETE,
                                       KV_SHORT + KV_GET_RANGE,
                                       KV_SHORT + KV_PUT_REGION};
    const uint32_t method = methods[data[0] % base_array_count(methods)];
    const uint32_t room = data[1] < 200 ? ROOM : data[1] - 200U;
    struct tarn_rpc_request exchange = {.data = data + 2,
                                        .bytes = (uint32_t)(size - 2),
                                        .result = result,
                                        .room = room,
                                        .deadline_ns = TASK_FOREVER};
    struct cache_stats before, after;
    memset(result + room, 0xee, 1);
    cache_stats(cache_partition((struct cache *)(uintptr_t)server->stores[0].cache, 0), &before);
    int error = kv_answer(server, &worker, method, &exchange);
    cache_stats(cache_partition((struct cache *)(uintptr_t)server->stores[0].cache, 0), &after);
    base_assert(error <= 0 && result[room] == 0xee && exchange.result_bytes <= room);
    base_assert(error == 0 || (before.puts == after.puts && before.deletes == after.deletes));
    if (error == 0)
        check_answer(method, &exchange);
}

static void run(void *arg)
{
    const struct input *input = arg;
    struct kv_server *server = calloc(1, sizeof(*server));
    struct tarn_kv *cache;
    base_assert(server != NULL && tarn_kv_open(input->node, "cache:memory=16K", NULL, &cache) == 0);
    const struct kv_served store = {"s", cache};
    base_assert(kv_server_init(server, input->node, &store, 1) == 0);
    server->read = read_region;
    base_assert(tarn_kv_put(cache, "k", 1, "value", 5, NULL, NULL) == 0);
    for (unsigned i = 0; i < 2; i++) /* what the first has stored the second may find */
        ask(server, input->data, input->size);
    base_assert(cache_check(cache_partition((struct cache *)(uintptr_t)server->stores[0].cache, 0)) == NULL);
    kv_scans_end(&server->scans);
    free(server);
    base_assert(tarn_kv_close(cache) == 0);
    task_sched_stop(input->sched);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_drive drive = {.size = 0};
    struct input input = {.data = data, .size = size};
    if (size < 2)
        return 0;
    load_results(data, size);
    load_changes(data, size);
    fuzz_begin(&drive, 0, BASE_LOG_ERROR, &input.node, &input.sched);
    base_assert(task_spawn(input.sched, NULL, "run", run, &input) == 0);
    fuzz_end(input.node, input.sched);
    return 0;
}
