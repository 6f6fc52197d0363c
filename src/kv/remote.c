/* Stores of servers: each function is a request, or several. */
#include "kv/remote.h"
#include <errno.h>
#include <string.h>

#define SMALL_BYTES 2048 /* request and result that need no memory */
#define MANY_KEYS   48   /* of one MULTI_GET */

static struct kv_remote *remote_of(struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_remote, kv);
}

static uint64_t deadline_of(const struct kv_remote *remote)
{
    const uint64_t now_ns = task_now();
    return now_ns + base_min(remote->timeout_ns, TASK_FOREVER - 1 - now_ns);
}

/* ---- one request -------------------------------------------------------------------------------- */

/* Memory for a request, and behind it for its result. */
struct buffers {
    struct base_account *account;
    uint8_t *memory;
    size_t bytes;
    uint8_t small[SMALL_BYTES];
};

static int take_buffers(struct kv_remote *remote, struct buffers *buffers, uint64_t request_bytes,
                        uint64_t room, struct kv_call *call)
{
    buffers->account = &remote->kv.node->memory;
    buffers->bytes = request_bytes + room;
    buffers->memory =
        buffers->bytes <= SMALL_BYTES ? buffers->small : base_alloc(buffers->account, buffers->bytes);
    if (buffers->memory == NULL)
        return -ENOMEM;
    call->request = buffers->memory;
    call->request_bytes = (uint32_t)request_bytes;
    call->result = buffers->memory + request_bytes;
    call->room = (uint32_t)room;
    return 0;
}

static void give_buffers(struct buffers *buffers)
{
    if (buffers->memory != buffers->small)
        base_free(buffers->account, buffers->memory, buffers->bytes);
}

/* Send it in the caller's lane. */
static int send_call(struct kv_remote *remote, struct kv_call *call)
{
    struct kv_lane *lane;
    int error = kv_lane_take(remote, call->deadline_ns, &lane);
    if (error != 0)
        return error;
    error = kv_lane_call(lane, call);
    kv_lane_give(lane);
    return error;
}

static struct kv_call call_of(enum kv_method method, const struct kv_request *request, uint64_t deadline_ns)
{
    return (struct kv_call){.method = method,
                            .key = request->key,
                            .key_len = request->key_len,
                            .worker = KV_ANY_WORKER,
                            .repeats = method != KV_PUT && method != KV_DELETE,
                            .deadline_ns = deadline_ns};
}

/* ---- reading ------------------------------------------------------------------------------------ */

/*
 * A part of a value, as much as one request brings.
 *
 * @param ret_bytes  how much of it came: all, or to the value's end
 */
static int read_piece(struct kv_remote *remote, enum kv_method method, const struct kv_request *request,
                      void *data, uint64_t deadline_ns, uint32_t *ret_bytes,
                      struct tarn_record_info *ret_info)
{
    struct kv_call call = call_of(method, request, deadline_ns);
    struct tarn_record_info info;
    struct buffers buffers;
    int error = take_buffers(remote, &buffers, kv_request_bytes(method, request),
                             (uint64_t)KV_RECORD_BYTES + request->amount, &call);
    if (error != 0)
        return error;
    kv_request_save(method, request, call.request);
    error = send_call(remote, &call);
    if (error == 0)
        error = call.result_bytes < KV_RECORD_BYTES ? -EPROTO : kv_record_load(call.result, &info);
    if (error == 0) {
        const uint64_t behind = info.value_bytes - base_min(request->offset, (uint64_t)info.value_bytes);
        const uint32_t bytes = (uint32_t)base_min(behind, (uint64_t)request->amount);
        if (call.result_bytes != KV_RECORD_BYTES + bytes ||
            (request->if_version != 0 && info.version != request->if_version))
            error = -EPROTO;
        if (error == 0 && bytes > 0)
            memcpy(data, call.result + KV_RECORD_BYTES, bytes);
        if (error == 0) {
            *ret_bytes = bytes;
            *ret_info = info;
        }
    }
    give_buffers(&buffers);
    return error;
}

/* A part of any length, piece by piece, all of one version. */
static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
    const uint64_t deadline_ns = deadline_of(remote);
    struct tarn_record_info info;
    size_t done = 0;
    uint32_t bytes;
    struct kv_request request = {.key = key, .key_len = (uint16_t)key_len, .if_version = if_version};
    do {
        const uint32_t most =
            data_room - done + KV_RECORD_BYTES > KV_NARROW_RESULT ? TARN_RPC_BYTES_MAX : KV_NARROW_RESULT;
        request.offset = offset + done; /* less than the value's length, unless nothing is done yet */
        request.amount = (uint32_t)base_min(data_room - done, (size_t)most - KV_RECORD_BYTES);
        int error =
            read_piece(remote, KV_GET_RANGE, &request, (uint8_t *)data + done, deadline_ns, &bytes, &info);
        if (error != 0)
            return error == -ENOENT && done > 0 ? -ESTALE : error;
        request.if_version = info.version;
        done += bytes;
    } while (bytes == request.amount && done < data_room);
    *ret_bytes = done;
    *ret_info = info;
    return 0;
}

/* What the first request has not brought. @return 0; -ESTALE: there is another value now */
static int get_rest(struct tarn_kv *kv, const void *key, size_t key_len, uint32_t done, void *value,
                    struct tarn_record_info *info)
{
    const size_t left = info->value_bytes - done;
    size_t bytes;
    int error = read_part(kv, key, key_len, info->version, done, (uint8_t *)value + done, left, &bytes, info);
    if (error == 0 && bytes != left)
        error = -EPROTO;
    return error == -ENOENT ? -ESTALE : error;
}

static int get(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
               struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
    const uint64_t deadline_ns = deadline_of(remote);
    const struct kv_request request = {
        .key = key,
        .key_len = (uint16_t)key_len,
        .amount = (uint32_t)base_min(value_room, (size_t)KV_NARROW_RESULT - KV_RECORD_BYTES)};
    struct tarn_record_info info;
    uint32_t bytes;
    int error;
    do {
        error = read_piece(remote, KV_GET, &request, value, deadline_ns, &bytes, &info);
        if (error == 0 && info.value_bytes > value_room)
            error = -ENOBUFS;
        else if (error == 0 && info.value_bytes > bytes)
            error = get_rest(kv, key, key_len, bytes, value, &info);
    } while (error == -ESTALE && task_now() < deadline_ns);
    if (error == 0 || error == -ENOBUFS)
        *ret_info = info;
    return error;
}

/* ---- many --------------------------------------------------------------------------------------- */

enum { NOT_YET = 1 }; /* as an error of a get */

/* Some gets that go together. */
struct batch {
    struct tarn_get *gets[MANY_KEYS];
    uint32_t count;
    size_t bytes; /* of the request */
};

/* The first that was not asked for yet, and others of the same worker. */
static void gather(const struct kv_lane *lane, struct tarn_get *gets, size_t count, struct batch *batch)
{
    const struct kv_request head = {.amount = 1};
    uint32_t worker = 0;
    batch->count = 0;
    batch->bytes = kv_request_bytes(KV_MULTI_GET, &head);
    for (size_t i = 0; i < count && batch->count < MANY_KEYS; i++) {
        const size_t bytes = kv_key_bytes(gets[i].key_len);
        if (gets[i].error != NOT_YET || batch->bytes + bytes > KV_NARROW_REQUEST)
            continue;
        const uint32_t its = kv_lane_worker(lane, gets[i].key, gets[i].key_len);
        if (batch->count > 0 && its != worker)
            continue;
        worker = its;
        batch->gets[batch->count++] = &gets[i];
        batch->bytes += bytes;
    }
}

static void get_alone(struct tarn_kv *kv, struct tarn_get *one)
{
    struct tarn_record_info info;
    one->error = get(kv, one->key, one->key_len, one->value, one->value_room, &info);
    if (one->error == 0 || one->error == -ENOBUFS)
        one->info = info;
}

/* What a MULTI_GET has brought; NOT_YET stays what is longer than it was asked for, and not than there is room. */
static void take_item(const struct kv_item *item, struct tarn_get *one)
{
    if (item->status == -ENOBUFS && item->info.value_bytes <= one->value_room)
        return;
    one->error = item->bytes > one->value_room ? -EPROTO : item->status;
    if (one->error != 0 && one->error != -ENOBUFS)
        return;
    one->info = item->info;
    if (item->bytes > 0)
        memcpy(one->value, item->value, item->bytes);
}

/* @return 0: what was taken is; the others are NOT_YET */
static int take_items(const struct kv_call *call, struct batch *batch)
{
    size_t at = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct kv_item item;
        const size_t bytes = kv_got_load(call->result + at, call->result_bytes - at, &item);
        if (bytes == 0)
            return -EPROTO;
        take_item(&item, batch->gets[i]);
        at += bytes;
    }
    return at == call->result_bytes ? 0 : -EPROTO;
}

static int get_batch(struct kv_remote *remote, struct kv_lane *lane, struct batch *batch,
                     uint64_t deadline_ns)
{
    const struct kv_request request = {.amount = batch->count};
    struct kv_call call = call_of(KV_MULTI_GET, &request, deadline_ns);
    const uint32_t share = KV_NARROW_RESULT / batch->count - KV_ITEM_BYTES;
    struct buffers buffers;
    uint64_t room = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        room += KV_ITEM_BYTES + base_min(batch->gets[i]->value_room, (size_t)share);
    int error = take_buffers(remote, &buffers, batch->bytes, room, &call);
    if (error != 0)
        return error;
    kv_request_save(KV_MULTI_GET, &request, call.request);
    uint8_t *to = call.request + kv_request_bytes(KV_MULTI_GET, &request);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct tarn_get *one = batch->gets[i];
        kv_key_save(one, (uint32_t)base_min(one->value_room, (size_t)share), to);
        to += kv_key_bytes(one->key_len);
    }
    call.worker = kv_lane_worker(lane, batch->gets[0]->key, batch->gets[0]->key_len);
    error = kv_lane_call(lane, &call);
    if (error == 0)
        error = take_items(&call, batch);
    give_buffers(&buffers);
    return error;
}

/* All that go together with others. @return 0; what keeps from asking */
static int get_batches(struct kv_remote *remote, struct tarn_get *gets, size_t count)
{
    const uint64_t deadline_ns = deadline_of(remote);
    struct kv_lane *lane;
    int error = kv_lane_take(remote, deadline_ns, &lane);
    if (error != 0)
        return error;
    error = kv_lane_route(lane, deadline_ns);
    for (size_t done = 0; done < count && error == 0; done++) {
        struct batch batch;
        if (gets[done].error != NOT_YET)
            continue;
        gather(lane, gets + done, count - done, &batch);
        if (batch.count < 2)
            continue;
        error = get_batch(remote, lane, &batch, deadline_ns);
        if (error == -EXDEV)
            error = 0; /* one by one, then */
    }
    kv_lane_give(lane);
    return error;
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gets[i].error = gets[i].key_len > 0 && gets[i].key_len <= TARN_KEY_BYTES_MAX ? NOT_YET : -EINVAL;
    const int error = count > 1 ? get_batches(remote_of(kv), gets, count) : 0;
    for (size_t i = 0; i < count; i++) {
        if (gets[i].error == NOT_YET && error != 0)
            gets[i].error = error;
        else if (gets[i].error == NOT_YET)
            get_alone(kv, &gets[i]);
    }
}

/* ---- changing ----------------------------------------------------------------------------------- */

static int put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len,
               const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct kv_remote *remote = remote_of(kv);
    const struct kv_request request = {.key = key,
                                       .key_len = (uint16_t)key_len,
                                       .amount = (uint32_t)value_len,
                                       .value = value,
                                       .options = *options};
    struct kv_call call = call_of(KV_PUT, &request, deadline_of(remote));
    struct buffers buffers;
    if (key_len + value_len > TARN_KV_REQUEST_BYTES)
        return -EMSGSIZE;
    int error = take_buffers(remote, &buffers, kv_request_bytes(KV_PUT, &request), sizeof(uint64_t), &call);
    if (error != 0)
        return error;
    kv_request_save(KV_PUT, &request, call.request);
    error = send_call(remote, &call);
    if (error == 0 && call.result_bytes != sizeof(uint64_t))
        error = -EPROTO;
    if (error == 0 && ret_version != NULL)
        *ret_version = base_load_le64(call.result);
    give_buffers(&buffers);
    return error;
}

static int delete (struct tarn_kv *kv, const void *key, size_t key_len)
{
    struct kv_remote *remote = remote_of(kv);
    const struct kv_request request = {.key = key, .key_len = (uint16_t)key_len};
    struct kv_call call = call_of(KV_DELETE, &request, deadline_of(remote));
    struct buffers buffers;
    int error = take_buffers(remote, &buffers, kv_request_bytes(KV_DELETE, &request), 0, &call);
    if (error != 0)
        return error;
    kv_request_save(KV_DELETE, &request, call.request);
    error = send_call(remote, &call);
    give_buffers(&buffers);
    return error;
}

/* ---- scanning ----------------------------------------------------------------------------------- */

/* A scan under way: pages are of one worker. */
struct scanning {
    struct kv_remote *remote;
    tarn_scan_function *visit;
    void *arg;
    uint32_t worker;
    uint32_t number; /* of the page */
    uint64_t id;
    struct kv_call call;
    struct buffers buffers;
};

static int ask_page(struct scanning *scanning)
{
    const struct kv_request request = {.amount = scanning->number,
                                       .scan = scanning->id,
                                       .value_room = (uint32_t)scanning->remote->kv.info.whole_bytes_max};
    struct kv_call *call = &scanning->call;
    call->deadline_ns = deadline_of(scanning->remote);
    call->worker = scanning->worker;
    kv_request_save(KV_SCAN, &request, call->request);
    return send_call(scanning->remote, call);
}

/* @return 0; what the visitor said; -EPROTO */
static int show_page(struct scanning *scanning, const struct kv_page *page)
{
    const struct kv_call *call = &scanning->call;
    size_t at = KV_PAGE_BYTES;
    for (uint32_t i = 0; i < page->count; i++) {
        struct kv_item item;
        const size_t bytes = kv_scanned_load(call->result + at, call->result_bytes - at, &item);
        if (bytes == 0 ||
            item.is_shown != (item.info.value_bytes <= scanning->remote->kv.info.whole_bytes_max))
            return -EPROTO;
        int outcome = scanning->visit(scanning->arg, item.key, item.key_len,
                                      item.is_shown ? item.value : NULL, &item.info);
        if (outcome != 0)
            return outcome;
        at += bytes;
    }
    return at == call->result_bytes ? 0 : -EPROTO;
}

static int scan_pages(struct scanning *scanning)
{
    struct kv_page page;
    int outcome;
    do {
        outcome = ask_page(scanning);
        if (outcome == 0)
            outcome = kv_page_load(scanning->call.result, scanning->call.result_bytes, &page);
        if (outcome == 0 && scanning->id != 0 && page.scan != 0 && page.scan != scanning->id)
            outcome = -EPROTO;
        if (outcome != 0)
            return outcome;
        scanning->id = page.scan;
        outcome = show_page(scanning, &page);
        scanning->number++;
    } while (outcome == 0 && page.scan != 0);
    if (scanning->id != 0) { /* so that the server need not wait; it may fail */
        scanning->number = UINT32_MAX;
        if (ask_page(scanning) != 0)
            return outcome;
    }
    return outcome;
}

static int scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    static const struct kv_request none = {0};
    struct kv_lane *lane;
    struct scanning scanning = {.remote = remote_of(kv), .visit = visit, .arg = arg};
    if ((kv->info.abilities & TARN_KV_SCANS) == 0)
        return -EOPNOTSUPP;
    scanning.call = call_of(KV_SCAN, &none, deadline_of(scanning.remote));
    int error = kv_lane_take(scanning.remote, scanning.call.deadline_ns, &lane);
    if (error != 0)
        return error;
    error = kv_lane_route(lane, scanning.call.deadline_ns);
    scanning.worker = kv_lane_worker(lane, NULL, 0);
    kv_lane_give(lane);
    if (error != 0)
        return error;
    error = take_buffers(scanning.remote, &scanning.buffers, kv_request_bytes(KV_SCAN, &none),
                         KV_SCAN_BYTES_MAX, &scanning.call);
    if (error != 0)
        return error;
    error = scan_pages(&scanning);
    give_buffers(&scanning.buffers);
    return error;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static void free_remote(struct kv_remote *remote)
{
    kv_lanes_close(remote);
    if (remote->owns_fabric)
        tarn_fabric_close(remote->fabric);
    base_free(&remote->kv.node->memory, remote, sizeof(*remote));
}

static int close(struct tarn_kv *kv)
{
    free_remote(remote_of(kv));
    return 0;
}

static const struct kv_operations operations = {.get = get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = put,
                                                .delete = delete,
                                                .scan = scan,
                                                .close = close};

static int meet(struct kv_remote *remote)
{
    const uint64_t deadline_ns = deadline_of(remote);
    struct kv_store_info info;
    struct kv_lane *lane;
    int error = kv_lane_take(remote, deadline_ns, &lane);
    if (error != 0)
        return error;
    error = kv_lane_meet(lane, deadline_ns, &info);
    kv_lane_give(lane);
    if (error != 0)
        return error;
    remote->kv.info = info.info;
    remote->kv.info.abilities |= TARN_KV_REMOTE;
    remote->kv.info.value_bytes_max =
        base_min(info.info.value_bytes_max, (uint64_t)TARN_KV_REQUEST_BYTES - 1);
    remote->kv.info.whole_bytes_max = base_min(info.info.whole_bytes_max, (uint64_t)KV_SCAN_VALUE_MAX);
    return 0;
}

int kv_remote_open(struct tarn_node *node, const struct kv_url *url, const struct tarn_kv_options *options,
                   struct tarn_kv **ret_kv)
{
    struct kv_remote *remote = base_alloc(&node->memory, sizeof(*remote));
    int error = 0;
    if (remote == NULL)
        return -ENOMEM;
    remote->kv = (struct tarn_kv){.operations = &operations, .node = node};
    remote->fabric = options->fabric;
    remote->timeout_ns = options->timeout_ns == 0 ? KV_TIMEOUT_NS : options->timeout_ns;
    memcpy(remote->address, url->address, sizeof(remote->address));
    memcpy(remote->name, url->name, sizeof(remote->name));
    task_semaphore_init(&remote->thread_permits, KV_THREAD_LANES);
    base_spin_init(&remote->lock);
    base_list_init(&remote->thread_lanes);
    if (remote->fabric == NULL) {
        error = tarn_fabric_open(node, url->scheme == KV_TARN ? "tcp:" : "shm:", &remote->fabric);
        remote->owns_fabric = error == 0;
    }
    if (error == 0)
        error = meet(remote);
    if (error != 0) {
        free_remote(remote);
        return error;
    }
    *ret_kv = &remote->kv;
    return 0;
}
