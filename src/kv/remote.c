/* Stores of servers: each operation is a request, or several. Their way to the server is lane.c's. */
#include "kv/remote.h"
#include "depot/depot.h"
#include <errno.h>
#include <string.h>

#define NODE_CACHE_BYTES (UINT64_C(128) << 20) /* Cell §4 */
#define SMALL_BYTES      2048                  /* bytes of request and result that fit on the stack */

static const struct kv_operations operations;

static struct kv_remote *remote_of(struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_remote, kv);
}

/* ---- one request -------------------------------------------------------------------------------- */

/* Memory for a request, with its result behind it. */
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

/* Send a call through the caller's lane. */
static int send_call(struct kv_remote *remote, struct kv_call *call)
{
    struct kv_lane *lane;
    int error = kv_lane_take(remote, call->deadline_ns, &lane);
    if (error != 0)
        return error;
    call->lane = lane;
    error = kv_lane_call(call);
    kv_lane_give(lane);
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/*
 * Read a part of a value, as much as one request brings.
 *
 * @param ret_bytes  number of bytes that came: all, or up to the value's end
 */
static int read_piece(struct kv_remote *remote, enum kv_method method, const struct kv_request *request,
                      void *data, uint64_t deadline_ns, uint32_t *ret_bytes,
                      struct tarn_record_info *ret_info)
{
    struct kv_call call = kv_call_of(method, request, deadline_ns);
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

/* Read a part of any length, piece by piece, all of one version. */
static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
    const uint64_t begin_ns = task_now();
    struct tarn_record_info info;
    size_t done = 0;
    uint32_t bytes;
    struct kv_request request = {.key = key, .key_len = (uint16_t)key_len, .if_version = if_version};
    do {
        const uint32_t most =
            data_room - done + KV_RECORD_BYTES > KV_NARROW_RESULT ? TARN_RPC_BYTES_MAX : KV_NARROW_RESULT;
        request.offset = offset + done; /* less than the value's length, except for the first piece */
        request.amount = (uint32_t)base_min(data_room - done, (size_t)most - KV_RECORD_BYTES);
        int error = read_piece(remote, KV_GET_RANGE, &request, (uint8_t *)data + done,
                               kv_deadline_of(remote, begin_ns, done), &bytes, &info);
        if (error != 0)
            return error == -ENOENT && done > 0 ? -ESTALE : error;
        request.if_version = info.version;
        done += bytes;
    } while (bytes == request.amount && done < data_room);
    *ret_bytes = done;
    *ret_info = info;
    return 0;
}

/* Read the rest of a value that the first request has not brought. @return 0; -ESTALE: the value has changed */
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

/* Ask the server for a key. */
static int ask(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
               uint64_t deadline_ns, struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
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

/* Get a key of a store that is read by clients, the way that is chosen for it. */
static int get_shared(struct tarn_kv *kv, struct tree_key key, void *value, size_t value_room,
                      uint64_t deadline_ns, struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
    const uint64_t begin_ns = task_now();
    struct kv_lane *lane;
    int error = kv_lane_take(remote, deadline_ns, &lane);
    if (error != 0)
        return error;
    const bool reads = kv_reads_chosen(lane);
    error = reads ? kv_reads_get(lane, key, value, value_room, deadline_ns, ret_info) : KV_ASK;
    kv_lane_give(lane);
    if (error != KV_ASK)
        return error;
    error = ask(kv, key.bytes, key.count, value, value_room, deadline_ns, ret_info);
    if (!reads && error == 0 && kv_lane_take(remote, deadline_ns, &lane) == 0) {
        tree_selector_called(&lane->selector, task_now() - begin_ns);
        kv_lane_give(lane);
    }
    return error;
}

static int remote_store_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                            size_t value_room, struct tarn_record_info *ret_info)
{
    struct kv_remote *remote = remote_of(kv);
    const struct tree_key tree_key = {.bytes = key, .count = (uint32_t)key_len};
    const uint64_t deadline_ns = kv_deadline(remote);
    return remote->is_shared && remote->way != TARN_KV_WAY_ASK && key_len <= TREE_KEY_MAX
               ? get_shared(kv, tree_key, value, value_room, deadline_ns, ret_info)
               : ask(kv, key, key_len, value, value_room, deadline_ns, ret_info);
}

int tarn_kv_reads(const struct tarn_kv *kv, struct tarn_kv_reads *ret_reads)
{
    if (kv->operations != &operations)
        return -EOPNOTSUPP;
    const struct kv_remote *remote = base_container_of(kv, struct kv_remote, kv);
    const struct kv_reads_counters *counters = &remote->counters;
    *ret_reads = (struct tarn_kv_reads){.is_shared = remote->is_shared,
                                        .asked = atomic_load(&counters->asked),
                                        .searched = atomic_load(&counters->searched),
                                        .explored = atomic_load(&counters->explored),
                                        .fallbacks = atomic_load(&counters->fallbacks),
                                        .reads = atomic_load(&counters->reads),
                                        .torn = atomic_load(&counters->torn),
                                        .cached = atomic_load(&counters->cached)};
    return 0;
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    struct kv_remote *const remote = remote_of(kv);
    const struct kv_servers servers = {.remotes = &remote, .count = 1};
    kv_get_many(&servers, gets, count);
}

/* ---- changing ----------------------------------------------------------------------------------- */

/* Send a PUT or PUT_REGION. @param wanted  its exported value and its deadline are set */
static int send_put(struct kv_remote *remote, enum kv_method method, const struct kv_request *request,
                    const struct kv_call *wanted, uint64_t *ret_version)
{
    struct kv_call call = *wanted;
    struct buffers buffers;
    int error = take_buffers(remote, &buffers, kv_request_bytes(method, request), sizeof(uint64_t), &call);
    if (error != 0)
        return error;
    kv_request_save(method, request, call.request);
    error = send_call(remote, &call);
    if (error == 0 && call.result_bytes != sizeof(uint64_t))
        error = -EPROTO;
    if (error == 0 && ret_version != NULL)
        *ret_version = base_load_le64(call.result);
    give_buffers(&buffers);
    return error;
}

/* Put a value that is too long for a request: the server READs it from this side's memory, in a multiple of 8 bytes; the
 * rest goes in the request. */
static int put_long(struct kv_remote *remote, const struct kv_request *whole, uint64_t value_len,
                    uint64_t *ret_version)
{
    struct kv_request request = *whole;
    struct kv_call call = kv_call_of(KV_PUT_REGION, whole, kv_deadline_of(remote, task_now(), value_len));
    call.exported = whole->value;
    call.exported_bytes = value_len / 8 * 8;
    request.region_bytes = call.exported_bytes;
    request.amount = (uint32_t)(value_len % 8);
    request.value = call.exported + call.exported_bytes;
    return send_put(remote, KV_PUT_REGION, &request, &call, ret_version);
}

static int remote_store_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                            size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct kv_remote *remote = remote_of(kv);
    const struct kv_request request = {.key = key,
                                       .key_len = (uint16_t)key_len,
                                       .amount = (uint32_t)value_len,
                                       .value = value,
                                       .options = *options};
    const struct kv_call call = kv_call_of(KV_PUT, &request, kv_deadline(remote));
    if (key_len + value_len <= TARN_KV_REQUEST_BYTES)
        return send_put(remote, KV_PUT, &request, &call, ret_version);
    return remote->takes_regions ? put_long(remote, &request, value_len, ret_version) : -EMSGSIZE;
}

static int remote_store_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    struct kv_remote *remote = remote_of(kv);
    const struct kv_request request = {.key = key, .key_len = (uint16_t)key_len};
    struct kv_call call = kv_call_of(KV_DELETE, &request, kv_deadline(remote));
    struct buffers buffers;
    int error = take_buffers(remote, &buffers, kv_request_bytes(KV_DELETE, &request), 0, &call);
    if (error != 0)
        return error;
    kv_request_save(KV_DELETE, &request, call.request);
    error = send_call(remote, &call);
    give_buffers(&buffers);
    return error;
}

/* The bytes of a batch's request. @return 0; -EINVAL: an item says so; -E2BIG */
static int measure_batch(struct tarn_batch_item *items, size_t count, uint64_t *ret_bytes)
{
    static const struct tarn_put_options any = {0};
    int error = count > TARN_BATCH_ITEMS_MAX ? -E2BIG : 0;
    *ret_bytes = kv_request_bytes(KV_BATCH, &(struct kv_request){.amount = (uint32_t)count});
    for (size_t i = 0; i < count; i++) {
        items[i].error = kv_put_check(items[i].key_len, items[i].options == NULL ? &any : items[i].options);
        error = error == 0 ? items[i].error : error;
        if (error == 0 && items[i].value_len > TARN_RPC_BYTES_MAX)
            error = -E2BIG;
        *ret_bytes += error == 0 ? kv_change_bytes(&items[i]) : 0;
    }
    return error == 0 && *ret_bytes > TARN_RPC_BYTES_MAX ? -E2BIG : error;
}

static int send_batch(struct kv_remote *remote, struct tarn_batch_item *items, uint32_t count, uint64_t bytes)
{
    const struct kv_request request = {.amount = count};
    struct kv_call call = kv_call_of(KV_BATCH, &request, kv_deadline(remote));
    struct buffers buffers;
    int error = take_buffers(remote, &buffers, bytes, (count + 1) * (uint64_t)KV_CHANGED_BYTES, &call);
    if (error != 0)
        return error;
    uint8_t *to = call.request + kv_request_bytes(KV_BATCH, &request);
    kv_request_save(KV_BATCH, &request, call.request);
    for (uint32_t i = 0; i < count; i++) {
        kv_change_save(&items[i], to);
        to += kv_change_bytes(&items[i]);
    }
    error = send_call(remote, &call);
    if (error == 0)
        error = kv_changed_load(call.result, call.result_bytes, items, count);
    give_buffers(&buffers);
    return error;
}

static int remote_store_write_batch(struct tarn_kv *kv, struct tarn_batch_item *items, size_t count)
{
    uint64_t bytes;
    if ((kv->info.abilities & TARN_KV_BATCHES) == 0)
        return -EOPNOTSUPP;
    if (count == 0)
        return 0;
    int error = measure_batch(items, count, &bytes);
    if (error == 0)
        error = send_batch(remote_of(kv), items, (uint32_t)count, bytes);
    return error == 0 ? 0 : depot_batch_tell(items, count, error);
}

/* ---- scanning ----------------------------------------------------------------------------------- */

/* A scan of one worker under way. */
struct scanning {
    struct kv_remote *remote;
    tarn_scan_function *visit;
    void *arg;
    uint32_t worker;
    uint32_t number; /* number of the next page */
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
    call->deadline_ns = kv_deadline(scanning->remote);
    call->worker = scanning->worker;
    kv_request_save(KV_SCAN, &request, call->request);
    return send_call(scanning->remote, call);
}

/* @return 0; the visitor's result; -EPROTO */
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
    if (scanning->id !=
        0) { /* end the scan, so that the server need not wait until it is idle; a failure does no harm */
        scanning->number = UINT32_MAX;
        if (ask_page(scanning) != 0)
            return outcome;
    }
    return outcome;
}

static int remote_store_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    static const struct kv_request none = {0};
    struct kv_lane *lane;
    struct scanning scanning = {.remote = remote_of(kv), .visit = visit, .arg = arg};
    if ((kv->info.abilities & TARN_KV_SCANS) == 0)
        return -EOPNOTSUPP;
    scanning.call = kv_call_of(KV_SCAN, &none, kv_deadline(scanning.remote));
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

/* ---- ranges -------------------------------------------------------------------------------------- */

/* A range under way: what is left of it. */
struct ranging {
    struct scanning scanning; /* whose call and buffers serve here, too */
    struct kv_request request;
    tarn_scan_function *visit;
    void *arg;
    uint64_t left;
    uint8_t last[TARN_KEY_BYTES_MAX]; /* the key that was shown last, from which it goes on */
    uint16_t last_len;
};

static int show_in_order(void *arg, const void *key, size_t key_len, const void *value,
                         const struct tarn_record_info *info)
{
    struct ranging *ranging = arg;
    if (ranging->left == 0)
        return -EPROTO;
    memcpy(ranging->last, key, key_len);
    ranging->last_len = (uint16_t)key_len;
    ranging->left--;
    return ranging->visit(ranging->arg, key, key_len, value, info);
}

/* Fetch and show a page. @param ret_more  there are further ones */
static int range_page(struct ranging *ranging, bool *ret_more)
{
    struct scanning *scanning = &ranging->scanning;
    struct kv_call *call = &scanning->call;
    struct kv_request *request = &ranging->request;
    struct kv_page page;
    request->records = (uint32_t)base_min(ranging->left, (uint64_t)UINT32_MAX);
    call->request_bytes = (uint32_t)kv_request_bytes(KV_RANGE, request);
    call->deadline_ns = kv_deadline(scanning->remote);
    kv_request_save(KV_RANGE, request, call->request);
    int outcome = send_call(scanning->remote, call);
    if (outcome == 0)
        outcome = kv_page_load(call->result, call->result_bytes, &page);
    if (outcome == 0)
        outcome = show_page(scanning, &page);
    if (outcome != 0)
        return outcome;
    *ret_more = page.scan != 0 && ranging->left > 0;
    if (*ret_more && page.count == 0)
        return -EPROTO; /* it would never end */
    if (request->reverse) {
        request->value = ranging->last;
        request->amount = ranging->last_len;
    } else {
        request->key = ranging->last;
        request->key_len = ranging->last_len;
        request->after = true;
    }
    return 0;
}

/* Show a record that was read, or is to be asked for. */
static int show_row(struct ranging *ranging, const struct kv_rows *rows, const struct kv_row *row)
{
    const struct scanning *scanning = &ranging->scanning;
    struct kv_remote *remote = scanning->remote;
    struct tarn_record_info info;
    if (!row->must_ask)
        return show_in_order(ranging, row->key, row->key_len, rows->values + row->value_at, &row->info);
    int error = ask(&remote->kv, row->key, row->key_len, scanning->call.result, KV_SCAN_VALUE_MAX,
                    kv_deadline(remote), &info);
    if (error == -ENOENT) /* it has been removed meanwhile */
        return 0;
    if (error != 0 && error != -ENOBUFS)
        return error;
    const bool is_shown = error == 0 && info.value_bytes <= remote->kv.info.whole_bytes_max;
    return show_in_order(ranging, row->key, row->key_len, is_shown ? scanning->call.result : NULL, &info);
}

/* READ and show some records. @return false: the server is to be asked for them */
static bool read_page(struct ranging *ranging, struct kv_rows *rows, bool *ret_more, int *ret_outcome)
{
    struct kv_remote *remote = ranging->scanning.remote;
    struct kv_request *request = &ranging->request;
    const struct tree_key from = {.bytes = request->key, .count = request->key_len},
                          below = {.bytes = request->value, .count = request->amount};
    const uint64_t deadline_ns = kv_deadline(remote);
    struct kv_lane *lane;
    rows->from = from.count == 0 ? NULL : &from;
    rows->below = below.count == 0 ? NULL : &below;
    rows->after = request->after;
    rows->wanted = (uint32_t)base_min(ranging->left, (uint64_t)KV_ROWS_MAX);
    if (kv_lane_take(remote, deadline_ns, &lane) != 0)
        return false;
    const bool is_read = kv_reads_chosen(lane) && kv_reads_rows(lane, rows, deadline_ns) == 0;
    kv_lane_give(lane);
    if (!is_read)
        return false;
    int outcome = 0;
    for (uint32_t i = 0; i < rows->count && outcome == 0; i++)
        outcome = show_row(ranging, rows, &rows->rows[i]);
    *ret_outcome = outcome;
    *ret_more = !rows->is_end && ranging->left > 0;
    if (rows->count > 0) { /* also where nothing was shown, because all of it was removed */
        const struct kv_row *last = &rows->rows[rows->count - 1];
        memcpy(ranging->last, last->key, last->key_len);
        ranging->last_len = (uint16_t)last->key_len;
        request->key = ranging->last;
        request->key_len = ranging->last_len;
        request->after = true;
    }
    return true;
}

/* Memory for records that are read. @return NULL: all is asked, as others do or for want of memory */
static struct kv_rows *alloc_rows(struct kv_remote *remote, const struct tarn_kv_range *range)
{
    const bool reads = remote->is_shared && remote->way != TARN_KV_WAY_ASK && !range->reverse &&
                       range->from_len <= TREE_KEY_MAX && range->below_len <= TREE_KEY_MAX;
    return reads ? base_alloc(&remote->kv.node->memory, sizeof(struct kv_rows)) : NULL;
}

/* Show all of a range, page by page, each read or asked for. */
static int show_range(struct ranging *ranging, struct kv_rows *rows)
{
    bool has_more = true;
    int outcome = 0;
    while (outcome == 0 && has_more) {
        if (rows == NULL || !read_page(ranging, rows, &has_more, &outcome))
            outcome = range_page(ranging, &has_more);
    }
    return outcome;
}

static int remote_store_range(struct tarn_kv *kv, const struct tarn_kv_range *range,
                              tarn_scan_function *visit, void *arg)
{
    struct kv_remote *remote = remote_of(kv);
    if ((kv->info.abilities & TARN_KV_ORDERED) == 0)
        return -EOPNOTSUPP;
    if (range->from_len > TARN_KEY_BYTES_MAX || range->below_len > TARN_KEY_BYTES_MAX)
        return -EINVAL;
    struct ranging *ranging = base_alloc(&kv->node->memory, sizeof(*ranging));
    if (ranging == NULL)
        return -ENOMEM;
    ranging->request = (struct kv_request){.key = range->from,
                                           .key_len = (uint16_t)range->from_len,
                                           .value = range->below,
                                           .amount = (uint32_t)range->below_len,
                                           .value_room = (uint32_t)kv->info.whole_bytes_max,
                                           .reverse = range->reverse};
    ranging->visit = visit;
    ranging->arg = arg;
    ranging->left = range->limit == 0 ? UINT64_MAX : range->limit;
    struct scanning *scanning = &ranging->scanning;
    scanning->remote = remote;
    scanning->visit = show_in_order;
    scanning->arg = ranging;
    scanning->call = kv_call_of(KV_RANGE, &ranging->request, kv_deadline(remote));
    int error = take_buffers(remote, &scanning->buffers, KV_REQUEST_BYTES_MAX + 2 * TARN_KEY_BYTES_MAX,
                             KV_SCAN_BYTES_MAX, &scanning->call);
    if (error == 0) {
        struct kv_rows *rows = alloc_rows(remote, range);
        error = show_range(ranging, rows);
        base_free(&kv->node->memory, rows, rows == NULL ? 0 : sizeof(*rows));
        give_buffers(&scanning->buffers);
    }
    base_free(&kv->node->memory, ranging, sizeof(*ranging));
    return error;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static int remote_store_close(struct tarn_kv *kv)
{
    struct kv_remote *remote = remote_of(kv);
    kv_lanes_close(remote);
    if (remote->owns_fabric)
        tarn_fabric_close(remote->fabric);
    base_free(&kv->node->memory, remote, sizeof(*remote));
    return 0;
}

static const struct kv_operations operations = {.get = remote_store_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = remote_store_put,
                                                .delete = remote_store_delete,
                                                .scan = remote_store_scan,
                                                .range = remote_store_range,
                                                .write_batch = remote_store_write_batch,
                                                .close = remote_store_close};

/* The constants of choosing, with those that are not told. */
static struct tree_selector_settings selector_settings(const struct tarn_kv_selector *told)
{
    struct tree_selector_settings settings = tree_selector_usual;
    if (told->samples != 0)
        settings.samples = base_min(told->samples, TREE_SAMPLES_MAX);
    if (told->outliers > 0)
        settings.outliers = told->outliers;
    if (told->exploration > 0)
        settings.exploration = told->exploration;
    if (told->stale_ns != 0)
        settings.stale_ns = told->stale_ns;
    if (told->reads_per_search > 0)
        settings.reads_per_search = told->reads_per_search;
    return settings;
}

int kv_remote_make(struct tarn_node *node, struct tarn_fabric *fabric, const struct kv_url *url,
                   uint32_t place, const struct tarn_kv_options *options, struct kv_remote **ret_remote)
{
    struct kv_remote *remote = base_alloc(&node->memory, sizeof(*remote));
    if (remote == NULL)
        return -ENOMEM;
    remote->kv = (struct tarn_kv){.operations = &operations, .node = node};
    remote->fabric = fabric;
    remote->timeout_ns = options->timeout_ns == 0 ? KV_TIMEOUT_NS : options->timeout_ns;
    remote->way = options->way;
    remote->cache_bytes = options->node_cache_bytes == 0                ? NODE_CACHE_BYTES
                          : options->node_cache_bytes == TARN_CACHE_OFF ? 0
                                                                        : options->node_cache_bytes;
    remote->selector = selector_settings(&options->selector);
    remote->selector.reads_are_work = tarn_fabric_info(fabric)->served_by != TARN_FABRIC_SERVED_BY_CARD;
    kv_url_server(url, place, remote->address);
    memcpy(remote->name, url->name, sizeof(remote->name));
    task_semaphore_init(&remote->thread_permits, KV_THREAD_LANES);
    base_spin_init(&remote->lock);
    base_list_init(&remote->thread_lanes);
    *ret_remote = remote;
    return 0;
}

int kv_remote_meet(struct kv_remote *remote, uint64_t deadline_ns)
{
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
    remote->takes_regions = (info.info.abilities & KV_TAKES_REGIONS) != 0;
    remote->is_shared = (info.info.abilities & KV_IS_SHARED) != 0 && remote->kv.info.kind == kv_kind_tree;
    remote->kv.info.abilities &= ~(uint32_t)(KV_TAKES_REGIONS | KV_IS_SHARED);
    remote->kv.info.abilities |= TARN_KV_REMOTE;
    remote->kv.info.value_bytes_max =
        base_min(info.info.value_bytes_max,
                 remote->takes_regions ? (uint64_t)UINT32_MAX : (uint64_t)TARN_KV_REQUEST_BYTES - 1);
    remote->kv.info.whole_bytes_max = base_min(info.info.whole_bytes_max, (uint64_t)KV_SCAN_VALUE_MAX);
    return 0;
}
