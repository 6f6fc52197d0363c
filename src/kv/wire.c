/* Messages of the kv service, as bytes. The formats are those of docs/wire.md, in its order. */
#include "kv/wire.h"
#include "tree/node.h"
#include "tree/record.h"
#include <errno.h>
#include <string.h>

enum {
    HEAD_BYTES = 8,
    OPTIONS_BYTES = 32,
    RANGE_BYTES = 16,
    SCAN_BYTES = 16,
    ORDER_BYTES = 16,
    FIRST_BYTES = 8
};
enum { ORDER_REVERSE = 1, ORDER_AFTER = 2 };
enum { REGION_BYTES = 16 + TARN_FABRIC_HANDLE_BYTES };
enum { KIND_DEPOT = 1, KIND_CACHE = 2, KIND_HASH = 3, KIND_TREE = 4 };

static const char *const kinds[] = {[KIND_DEPOT] = kv_kind_depot,
                                    [KIND_CACHE] = kv_kind_cache,
                                    [KIND_HASH] = kv_kind_hash,
                                    [KIND_TREE] = kv_kind_tree};

static bool are_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static void copy_bytes(uint8_t *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

/* ---- requests ----------------------------------------------------------------------------------- */

/* The bytes between the head and the key. */
static size_t middle_bytes(enum kv_method method)
{
    switch (method) {
    case KV_PUT:
        return OPTIONS_BYTES;
    case KV_PUT_REGION:
        return OPTIONS_BYTES + REGION_BYTES;
    case KV_GET_RANGE:
        return RANGE_BYTES;
    case KV_SCAN:
        return SCAN_BYTES;
    case KV_RANGE:
        return ORDER_BYTES;
    case KV_HANDLES:
        return FIRST_BYTES;
    default:
        return 0;
    }
}

_Static_assert(HEAD_BYTES + OPTIONS_BYTES + REGION_BYTES == KV_REQUEST_BYTES_MAX,
               "a PUT_REGION has the most before its key");
_Static_assert(HEAD_BYTES + OPTIONS_BYTES + 16 == KV_HANDLE_AT, "a PUT_REGION has its handle there");

static bool has_options(enum kv_method method)
{
    return method == KV_PUT || method == KV_PUT_REGION;
}

/* Whether bytes follow the key, as many as the amount says. */
static bool has_value(enum kv_method method)
{
    return has_options(method) || method == KV_RANGE;
}

uint64_t kv_request_bytes(enum kv_method method, const struct kv_request *request)
{
    return HEAD_BYTES + middle_bytes(method) + request->key_len + (has_value(method) ? request->amount : 0);
}

static void options_save(const struct tarn_put_options *options, uint8_t *to)
{
    base_store_le64(to, options->if_version);
    base_store_le64(to + 8, options->expiry_ns);
    base_store_le64(to + 16, options->version);
    base_store_le32(to + 24, options->client_flags);
    to[28] = (uint8_t)options->condition;
    to[29] = options->note;
    base_store_le16(to + 30, 0);
}

static int options_load(const uint8_t *bytes, struct tarn_put_options *ret_options)
{
    if (bytes[28] > TARN_PUT_IF_VERSION || bytes[29] > TARN_NOTE_MAX || !are_zero(bytes + 30, 2))
        return -EINVAL;
    *ret_options = (struct tarn_put_options){.if_version = base_load_le64(bytes),
                                             .expiry_ns = base_load_le64(bytes + 8),
                                             .version = base_load_le64(bytes + 16),
                                             .client_flags = base_load_le32(bytes + 24),
                                             .condition = (enum tarn_put_condition)bytes[28],
                                             .note = bytes[29]};
    return 0;
}

void kv_request_save(enum kv_method method, const struct kv_request *request, uint8_t *to)
{
    uint8_t *middle = to + HEAD_BYTES, *key = middle + middle_bytes(method);
    base_store_le16(to, request->store);
    base_store_le16(to + 2, request->key_len);
    base_store_le32(to + 4, request->amount);
    if (has_options(method))
        options_save(&request->options, middle);
    if (has_value(method))
        copy_bytes(key + request->key_len, request->value, request->amount);
    if (method == KV_PUT_REGION) {
        base_store_le64(middle + OPTIONS_BYTES, request->offset);
        base_store_le64(middle + OPTIONS_BYTES + 8, request->region_bytes);
        tarn_fabric_handle_save(&request->handle, to + KV_HANDLE_AT);
    } else if (method == KV_GET_RANGE) {
        base_store_le64(middle, request->if_version);
        base_store_le64(middle + 8, request->offset);
    } else if (method == KV_SCAN) {
        base_store_le64(middle, request->scan);
        base_store_le32(middle + 8, request->value_room);
        base_store_le32(middle + 12, 0);
    } else if (method == KV_HANDLES) {
        base_store_le64(middle, request->offset);
    } else if (method == KV_RANGE) {
        base_store_le32(middle, request->records);
        base_store_le32(middle + 4, request->value_room);
        base_store_le64(middle + 8,
                        (request->reverse ? ORDER_REVERSE : 0u) | (request->after ? ORDER_AFTER : 0u));
    }
    copy_bytes(key, request->key, request->key_len);
}

/* Whether the value lies within the handle's region, and the handle grants reading. */
static bool region_is_good(const struct kv_request *request)
{
    const struct tarn_fabric_handle *handle = &request->handle;
    return (handle->rights & TARN_FABRIC_MAY_READ) != 0 && request->region_bytes > 0 &&
           request->region_bytes <= handle->bytes && request->offset <= handle->bytes - request->region_bytes;
}

static int region_load(const uint8_t *bytes, struct kv_request *request)
{
    request->offset = base_load_le64(bytes);
    request->region_bytes = base_load_le64(bytes + 8);
    return tarn_fabric_handle_load(bytes + 16, &request->handle) == 0 && region_is_good(request) ? 0
                                                                                                 : -EINVAL;
}

static int middle_load(enum kv_method method, const uint8_t *middle, struct kv_request *request)
{
    if (has_options(method) && options_load(middle, &request->options) != 0)
        return -EINVAL;
    if (method == KV_PUT_REGION)
        return region_load(middle + OPTIONS_BYTES, request);
    if (method == KV_GET_RANGE) {
        request->if_version = base_load_le64(middle);
        request->offset = base_load_le64(middle + 8);
    } else if (method == KV_SCAN) {
        request->scan = base_load_le64(middle);
        request->value_room = base_load_le32(middle + 8);
        return are_zero(middle + 12, 4) ? 0 : -EINVAL;
    } else if (method == KV_HANDLES) {
        request->offset = base_load_le64(middle);
    } else if (method == KV_RANGE) {
        const uint64_t marks = base_load_le64(middle + 8);
        request->records = base_load_le32(middle);
        request->value_room = base_load_le32(middle + 4);
        request->reverse = (marks & ORDER_REVERSE) != 0;
        request->after = (marks & ORDER_AFTER) != 0;
        return marks <= (ORDER_REVERSE | ORDER_AFTER) && request->records > 0 ? 0 : -EINVAL;
    }
    return 0;
}

/* Whether the key's length and the amount are within their bounds. */
static bool head_is_good(enum kv_method method, const struct kv_request *request)
{
    switch (method) {
    case KV_INFO:
        return request->amount == 0 && (request->key_len > 0) == (request->store == KV_STORE_BY_NAME);
    case KV_MULTI_GET:
        return request->key_len == 0 && request->amount > 0 && request->amount <= KV_GETS_MAX;
    case KV_BATCH:
        return request->key_len == 0 && request->amount > 0 && request->amount <= TARN_BATCH_ITEMS_MAX;
    case KV_DELETE:
        return request->key_len > 0 && request->amount == 0;
    case KV_SCAN:
        return request->key_len == 0;
    case KV_HANDLES:
        return request->key_len == 0 && request->amount > 0 && request->amount <= TREE_REGIONS;
    case KV_RANGE:
        return request->amount <= TARN_KEY_BYTES_MAX;
    default:
        return request->key_len > 0;
    }
}

int kv_request_load(enum kv_method method, const uint8_t *bytes, size_t count, struct kv_request *ret_request)
{
    const size_t before = HEAD_BYTES + middle_bytes(method);
    if (count < before)
        return -EINVAL;
    struct kv_request request = {.store = base_load_le16(bytes),
                                 .key_len = base_load_le16(bytes + 2),
                                 .amount = base_load_le32(bytes + 4),
                                 .key = bytes + before};
    if (!head_is_good(method, &request) || middle_load(method, bytes + HEAD_BYTES, &request) != 0)
        return -EINVAL;
    if (method != KV_MULTI_GET && method != KV_BATCH && count != kv_request_bytes(method, &request))
        return -EINVAL;
    request.value = bytes + before + request.key_len;
    *ret_request = request;
    return 0;
}

void kv_key_save(const struct tarn_get *get, uint32_t room, uint8_t *to)
{
    base_store_le16(to, (uint16_t)get->key_len);
    base_store_le16(to + 2, 0);
    base_store_le32(to + 4, room);
    copy_bytes(to + 8, get->key, get->key_len);
}

int kv_keys_load(const struct kv_request *request, const uint8_t *bytes, size_t count,
                 struct tarn_get *ret_gets)
{
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < request->amount; i++) {
        if (count - at < 8)
            return -EINVAL;
        const size_t key_len = base_load_le16(bytes + at);
        if (key_len == 0 || !are_zero(bytes + at + 2, 2) || count - at - 8 < key_len)
            return -EINVAL;
        ret_gets[i] = (struct tarn_get){
            .key = bytes + at + 8, .key_len = key_len, .value_room = base_load_le32(bytes + at + 4)};
        at += kv_key_bytes(key_len);
    }
    return at == count ? 0 : -EINVAL;
}

/* ---- batches ------------------------------------------------------------------------------------ */

enum { CHANGE_PUT, CHANGE_REMOVE, CHANGE_CHECK };

void kv_change_save(const struct tarn_batch_item *item, uint8_t *to)
{
    static const struct tarn_put_options any = {.condition = TARN_PUT_ANY};
    const uint8_t kind = item->check ? CHANGE_CHECK : item->remove ? CHANGE_REMOVE : CHANGE_PUT;
    const size_t value_len = kind == CHANGE_PUT ? item->value_len : 0;
    base_store_le16(to, (uint16_t)item->key_len);
    to[2] = kind;
    to[3] = 0;
    base_store_le32(to + 4, (uint32_t)value_len);
    options_save(item->options == NULL ? &any : item->options, to + HEAD_BYTES);
    copy_bytes(to + KV_CHANGE_BYTES, item->key, item->key_len);
    copy_bytes(to + KV_CHANGE_BYTES + item->key_len, item->value, value_len);
}

/* @return its bytes; 0: it is none */
static size_t change_load(const uint8_t *bytes, size_t count, struct tarn_put_options *ret_options,
                          struct tarn_batch_item *ret_item)
{
    if (count < KV_CHANGE_BYTES || bytes[2] > CHANGE_CHECK || bytes[3] != 0)
        return 0;
    *ret_item = (struct tarn_batch_item){.key = bytes + KV_CHANGE_BYTES,
                                         .key_len = base_load_le16(bytes),
                                         .value_len = base_load_le32(bytes + 4),
                                         .remove = bytes[2] == CHANGE_REMOVE,
                                         .check = bytes[2] == CHANGE_CHECK,
                                         .options = ret_options};
    ret_item->value = bytes + KV_CHANGE_BYTES + ret_item->key_len;
    if (ret_item->key_len == 0 || (bytes[2] != CHANGE_PUT && ret_item->value_len > 0) ||
        kv_change_bytes(ret_item) > count || options_load(bytes + HEAD_BYTES, ret_options) != 0)
        return 0;
    return kv_change_bytes(ret_item);
}

int kv_changes_load(const struct kv_request *request, const uint8_t *bytes, size_t count,
                    struct tarn_put_options *ret_options, struct tarn_batch_item *ret_items)
{
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < request->amount; i++) {
        const size_t done = change_load(bytes + at, count - at, &ret_options[i], &ret_items[i]);
        if (done == 0)
            return -EINVAL;
        at += done;
    }
    return at == count ? 0 : -EINVAL;
}

/* An error, and a number. */
static void changed_save(int error, uint64_t number, uint8_t *to)
{
    base_store_le32(to, (uint32_t)error);
    base_store_le32(to + 4, 0);
    base_store_le64(to + 8, number);
}

static bool changed_load(const uint8_t *bytes, int *ret_error, uint64_t *ret_number)
{
    *ret_error = (int32_t)base_load_le32(bytes);
    *ret_number = base_load_le64(bytes + 8);
    return *ret_error <= 0 && are_zero(bytes + 4, 4);
}

void kv_changed_save(const struct tarn_batch_item *items, uint32_t count, int error, uint8_t *to)
{
    changed_save(error, count, to);
    for (uint32_t i = 0; i < count; i++)
        changed_save(items[i].error, error == 0 ? items[i].version : 0,
                     to + (i + 1) * (size_t)KV_CHANGED_BYTES);
}

int kv_changed_load(const uint8_t *bytes, size_t bytes_count, struct tarn_batch_item *items, uint32_t count)
{
    uint64_t number;
    int error, first, ignored;
    if (bytes_count != (count + 1) * (size_t)KV_CHANGED_BYTES || !changed_load(bytes, &first, &number) ||
        number != count)
        return -EPROTO;
    for (uint32_t i = 0; i < count; i++) {
        if (!changed_load(bytes + (i + 1) * (size_t)KV_CHANGED_BYTES, &ignored, &number))
            return -EPROTO;
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)changed_load(bytes + (i + 1) * (size_t)KV_CHANGED_BYTES, &error, &number);
        items[i].error = error;
        if (first == 0)
            items[i].version = number;
    }
    return first;
}

/* ---- clients that read by themselves ------------------------------------------------------------ */

void kv_handles_save(const struct kv_handles *head, const struct tarn_fabric_handle *handles, uint8_t *to)
{
    base_store_le64(to, head->step_bytes);
    base_store_le32(to + 8, head->unit_bytes);
    base_store_le32(to + 12, head->count);
    for (uint32_t i = 0; i < head->count; i++)
        tarn_fabric_handle_save(&handles[i], to + KV_HANDLES_BYTES + i * TARN_FABRIC_HANDLE_BYTES);
}

int kv_handles_load(const uint8_t *bytes, size_t count, struct kv_handles *ret_head,
                    struct tarn_fabric_handle *ret_handles, uint32_t room)
{
    if (count < KV_HANDLES_BYTES)
        return -EPROTO;
    const struct kv_handles head = {.step_bytes = base_load_le64(bytes),
                                    .unit_bytes = base_load_le32(bytes + 8),
                                    .count = base_load_le32(bytes + 12)};
    if (head.count > room || count != KV_HANDLES_BYTES + head.count * (size_t)TARN_FABRIC_HANDLE_BYTES ||
        !tree_is_unit(head.unit_bytes) || head.step_bytes % tree_image_bytes(TREE_NODE_BYTES_MAX) != 0 ||
        head.step_bytes == 0)
        return -EPROTO;
    for (uint32_t i = 0; i < head.count; i++) {
        const uint8_t *from = bytes + KV_HANDLES_BYTES + i * (size_t)TARN_FABRIC_HANDLE_BYTES;
        if (tarn_fabric_handle_load(from, &ret_handles[i]) != 0 || ret_handles[i].bytes < head.step_bytes)
            return -EPROTO;
    }
    *ret_head = head;
    return 0;
}

static const uint8_t reads_magic[8] = {'T', 'A', 'R', 'N', 'R', 'E', 'A', 'D'};

void kv_reads_hello_save(uint16_t store, uint8_t *to)
{
    memset(to, 0, KV_READS_BYTES);
    memcpy(to, reads_magic, sizeof(reads_magic));
    base_store_le16(to + 8, KV_WIRE_VERSION);
    base_store_le16(to + 10, store);
}

bool kv_reads_hello_load(const void *data, size_t count, uint16_t *ret_store)
{
    const uint8_t *bytes = data;
    if (count != KV_READS_BYTES || memcmp(bytes, reads_magic, sizeof(reads_magic)) != 0 ||
        base_load_le16(bytes + 8) != KV_WIRE_VERSION || !are_zero(bytes + 12, 4))
        return false;
    *ret_store = base_load_le16(bytes + 10);
    return true;
}

/* ---- records ------------------------------------------------------------------------------------ */

void kv_record_save(const struct tarn_record_info *info, uint8_t *to)
{
    base_store_le64(to, info->version);
    base_store_le64(to + 8, info->expiry_ns);
    base_store_le32(to + 16, info->client_flags);
    base_store_le32(to + 20, info->value_bytes);
    base_store_le64(to + 24, info->note);
}

int kv_record_load(const uint8_t *bytes, struct tarn_record_info *ret_info)
{
    const uint64_t version = base_load_le64(bytes), note = base_load_le64(bytes + 24);
    if (version == 0 || note > TARN_NOTE_MAX)
        return -EPROTO;
    *ret_info = (struct tarn_record_info){.version = version,
                                          .expiry_ns = base_load_le64(bytes + 8),
                                          .client_flags = base_load_le32(bytes + 16),
                                          .value_bytes = base_load_le32(bytes + 20),
                                          .note = (uint8_t)note};
    return 0;
}

/* ---- several ------------------------------------------------------------------------------------ */

void kv_got_save(const struct tarn_get *get, uint8_t *to)
{
    memset(to, 0, KV_ITEM_BYTES);
    base_store_le32(to, (uint32_t)get->error);
    if (get->error == 0)
        base_store_le32(to + 4, get->info.value_bytes);
    if (get->error == 0 || get->error == -ENOBUFS)
        kv_record_save(&get->info, to + 8);
}

size_t kv_got_load(const uint8_t *bytes, size_t count, struct kv_item *ret_item)
{
    if (count < KV_ITEM_BYTES)
        return 0;
    struct kv_item item = {.status = (int32_t)base_load_le32(bytes),
                           .bytes = base_load_le32(bytes + 4),
                           .value = bytes + KV_ITEM_BYTES};
    if (item.status > 0 || item.bytes > count - KV_ITEM_BYTES || (item.status != 0 && item.bytes != 0))
        return 0;
    if (item.status == 0 || item.status == -ENOBUFS) {
        if (kv_record_load(bytes + 8, &item.info) != 0 ||
            (item.status == 0 && item.bytes != item.info.value_bytes))
            return 0;
    }
    *ret_item = item;
    return KV_ITEM_BYTES + item.bytes;
}

void kv_scanned_save(const struct kv_item *item, uint8_t *to)
{
    base_store_le16(to, item->key_len);
    base_store_le16(to + 2, item->is_shown ? 1 : 0);
    base_store_le32(to + 4, item->bytes);
    kv_record_save(&item->info, to + 8);
    copy_bytes(to + KV_ITEM_BYTES, item->key, item->key_len);
    copy_bytes(to + KV_ITEM_BYTES + item->key_len, item->value, item->bytes);
}

bool kv_filling_add(struct kv_filling *filling, const void *key, size_t key_len, const void *value,
                    const struct tarn_record_info *info)
{
    struct kv_item item = {.key = key,
                           .key_len = (uint16_t)key_len,
                           .value = value,
                           .is_shown = value != NULL && info->value_bytes <= filling->value_room,
                           .info = *info};
    item.bytes = item.is_shown ? info->value_bytes : 0;
    const uint64_t bytes = KV_ITEM_BYTES + key_len + item.bytes;
    if (bytes > filling->room - filling->bytes)
        return false;
    kv_scanned_save(&item, filling->page + filling->bytes);
    filling->bytes += (uint32_t)bytes;
    filling->head.count++;
    return true;
}

size_t kv_scanned_load(const uint8_t *bytes, size_t count, struct kv_item *ret_item)
{
    if (count < KV_ITEM_BYTES)
        return 0;
    const uint16_t shown = base_load_le16(bytes + 2);
    struct kv_item item = {
        .key_len = base_load_le16(bytes), .is_shown = shown == 1, .bytes = base_load_le32(bytes + 4)};
    if (item.key_len == 0 || shown > 1 || kv_record_load(bytes + 8, &item.info) != 0 ||
        item.bytes != (item.is_shown ? item.info.value_bytes : 0) ||
        (uint64_t)item.key_len + item.bytes > count - KV_ITEM_BYTES)
        return 0;
    item.key = bytes + KV_ITEM_BYTES;
    item.value = item.key + item.key_len;
    *ret_item = item;
    return KV_ITEM_BYTES + (size_t)item.key_len + item.bytes;
}

void kv_page_save(const struct kv_page *page, uint8_t *to)
{
    base_store_le64(to, page->scan);
    base_store_le32(to + 8, page->count);
    base_store_le32(to + 12, 0);
}

int kv_page_load(const uint8_t *bytes, size_t count, struct kv_page *ret_page)
{
    if (count < KV_PAGE_BYTES || !are_zero(bytes + 12, 4))
        return -EPROTO;
    *ret_page = (struct kv_page){.scan = base_load_le64(bytes), .count = base_load_le32(bytes + 8)};
    return 0;
}

/* ---- stores ------------------------------------------------------------------------------------- */

void kv_info_save(const struct kv_store_info *info, uint8_t *to)
{
    base_store_le16(to, KV_WIRE_VERSION);
    base_store_le16(to + 2, info->store);
    base_store_le16(to + 4, info->stores);
    to[6] = info->info.kind == kv_kind_cache  ? KIND_CACHE
            : info->info.kind == kv_kind_hash ? KIND_HASH
            : info->info.kind == kv_kind_tree ? KIND_TREE
                                              : KIND_DEPOT;
    to[7] = (uint8_t)info->info.abilities;
    base_store_le32(to + 8, info->info.partitions);
    base_store_le16(to + 12, info->workers);
    base_store_le16(to + 14, (uint16_t)info->name_len);
    base_store_le64(to + 16, info->seed);
    base_store_le64(to + 24, info->info.value_bytes_max);
    base_store_le64(to + 32, info->info.whole_bytes_max);
    copy_bytes(to + KV_INFO_BYTES, info->name, info->name_len);
}

int kv_info_load(const uint8_t *bytes, size_t count, struct kv_store_info *ret_info)
{
    if (count < KV_INFO_BYTES || base_load_le16(bytes) != KV_WIRE_VERSION)
        return -EPROTO;
    if (bytes[6] < KIND_DEPOT || bytes[6] > KIND_TREE)
        return -EPROTO;
    const struct kv_store_info info = {.store = base_load_le16(bytes + 2),
                                       .stores = base_load_le16(bytes + 4),
                                       .workers = base_load_le16(bytes + 12),
                                       .seed = base_load_le64(bytes + 16),
                                       .name_len = base_load_le16(bytes + 14),
                                       .name = (const char *)bytes + KV_INFO_BYTES,
                                       .info = {.kind = kinds[bytes[6]],
                                                .abilities = bytes[7],
                                                .partitions = base_load_le32(bytes + 8),
                                                .value_bytes_max = base_load_le64(bytes + 24),
                                                .whole_bytes_max = base_load_le64(bytes + 32)}};
    if (info.store >= info.stores || info.stores > KV_STORES_MAX || info.workers == 0 ||
        info.info.partitions == 0 || info.info.partitions > KV_PARTITIONS_MAX ||
        info.workers > TARN_RPC_WORKERS_MAX || info.name_len != count - KV_INFO_BYTES ||
        !base_name_is_good(info.name, info.name_len))
        return -EPROTO;
    *ret_info = info;
    return 0;
}
