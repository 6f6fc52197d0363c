/* The formats of docs/wire.md: each message comes back as it was, and what is none is refused. */
#include "base/testing.h"
#include "kv/wire.h"
#include <errno.h>
#include <string.h>

#define ROOM 400

static const enum kv_method plain[] = {KV_INFO, KV_GET,        KV_PUT,   KV_DELETE, KV_GET_RANGE,
                                       KV_SCAN, KV_PUT_REGION, KV_RANGE, KV_HANDLES};

static struct kv_request request_of(enum kv_method method)
{
    const bool has_key = method != KV_SCAN && method != KV_HANDLES;
    const bool has_amount = method != KV_INFO && method != KV_DELETE;
    return (struct kv_request){.store = method == KV_INFO ? KV_STORE_BY_NAME : 0x1234,
                               .key = "a name",
                               .key_len = has_key ? 6 : 0,
                               .amount = method == KV_HANDLES ? 2
                                         : has_amount         ? 5
                                                              : 0,
                               .value = "value",
                               .options = {.condition = TARN_PUT_IF_VERSION,
                                           .if_version = UINT64_C(0x1112131415161718),
                                           .expiry_ns = UINT64_C(0x2122232425262728),
                                           .version = UINT64_C(0x3132333435363738),
                                           .client_flags = 0x41424344,
                                           .note = 3},
                               .if_version = UINT64_C(0x5152535455565758),
                               .offset = UINT64_C(0x6162636465666768),
                               .region_bytes = 5,
                               .handle = {.domain = 1,
                                          .key = 2,
                                          .bytes = UINT64_C(0x6162636465666768) + 5,
                                          .rights = TARN_FABRIC_MAY_READ},
                               .scan = UINT64_C(0x7172737475767778),
                               .value_room = 0x21222324,
                               .records = 5,
                               .reverse = true,
                               .after = true};
}

static void expect_same(enum kv_method method, const struct kv_request *a, const struct kv_request *b)
{
    assert_int_equal(a->store, b->store);
    assert_int_equal(a->amount, b->amount);
    assert_int_equal(a->key_len, b->key_len);
    assert_memory_equal(a->key, b->key, a->key_len);
    if (method == KV_PUT || method == KV_PUT_REGION) {
        assert_memory_equal(a->value, b->value, a->amount);
        assert_int_equal(a->options.condition, b->options.condition);
        assert_true(a->options.if_version == b->options.if_version &&
                    a->options.version == b->options.version);
        assert_true(a->options.expiry_ns == b->options.expiry_ns && a->options.note == b->options.note);
        assert_int_equal(a->options.client_flags, b->options.client_flags);
    }
    if (method == KV_HANDLES)
        assert_true(a->offset == b->offset);
    if (method == KV_GET_RANGE)
        assert_true(a->if_version == b->if_version && a->offset == b->offset);
    if (method == KV_PUT_REGION) {
        assert_true(a->offset == b->offset && a->region_bytes == b->region_bytes);
        assert_true(a->handle.domain == b->handle.domain && a->handle.key == b->handle.key);
        assert_true(a->handle.bytes == b->handle.bytes && a->handle.rights == b->handle.rights);
    }
    if (method == KV_SCAN)
        assert_true(a->scan == b->scan && a->value_room == b->value_room);
    if (method == KV_RANGE) {
        assert_memory_equal(a->value, b->value, a->amount);
        assert_true(a->records == b->records && a->value_room == b->value_room);
        assert_true(a->reverse == b->reverse && a->after == b->after);
    }
}

static void requests_come_back(void **state)
{
    uint8_t bytes[ROOM];
    struct kv_request got;
    (void)state;
    for (unsigned i = 0; i < base_array_count(plain); i++) {
        const struct kv_request request = request_of(plain[i]);
        const size_t count = kv_request_bytes(plain[i], &request);
        memset(bytes, 0xee, sizeof(bytes));
        kv_request_save(plain[i], &request, bytes);
        assert_int_equal(bytes[count], 0xee);
        assert_int_equal(kv_request_load(plain[i], bytes, count, &got), 0);
        expect_same(plain[i], &request, &got);
        for (size_t cut = 0; cut <= count + 1; cut++)
            assert_int_equal(kv_request_load(plain[i], bytes, cut, &got), cut == count ? 0 : -EINVAL);
    }
}

/* Changes of a batch, and what has come of them. */
static void batches_come_back(void **state)
{
    static const struct tarn_put_options options = {
        .condition = TARN_PUT_IF_VERSION, .if_version = 7, .note = 1};
    struct tarn_batch_item items[] = {
        {.key = "one", .key_len = 3, .value = "value", .value_len = 5, .options = &options},
        {.key = "two", .key_len = 3, .value = "value", .value_len = 5, .remove = true},
        {.key = "three", .key_len = 5, .check = true, .options = &options}};
    struct kv_request request = {.store = 3, .amount = 3}, got;
    struct tarn_batch_item got_items[3];
    struct tarn_put_options got_options[3];
    uint8_t bytes[ROOM];
    size_t count = kv_request_bytes(KV_BATCH, &request);
    (void)state;
    memset(bytes, 0xee, sizeof(bytes));
    kv_request_save(KV_BATCH, &request, bytes);
    for (unsigned i = 0; i < 3; i++) {
        kv_change_save(&items[i], bytes + count);
        count += kv_change_bytes(&items[i]);
    }
    assert_int_equal(bytes[count], 0xee);
    assert_int_equal(kv_request_load(KV_BATCH, bytes, count, &got), 0);
    for (size_t cut = 8; cut <= count + 1; cut++)
        assert_int_equal(kv_changes_load(&got, bytes, cut, got_options, got_items),
                         cut == count ? 0 : -EINVAL);
    assert_int_equal(kv_changes_load(&got, bytes, count, got_options, got_items), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(got_items[i].key_len, items[i].key_len);
        assert_memory_equal(got_items[i].key, items[i].key, items[i].key_len);
        assert_true(got_items[i].remove == items[i].remove && got_items[i].check == items[i].check);
        assert_int_equal(got_items[i].value_len, i == 0 ? 5 : 0);
        assert_true(got_items[i].options->if_version == (i == 1 ? 0 : 7) &&
                    got_items[i].options->note == (i != 1));
    }
    assert_memory_equal(got_items[0].value, "value", 5);
    static const uint8_t wrong[][2] = {{2, 1},     {4, 0},          {8 + 0, 0},     {8 + 2, 3},
                                       {8 + 3, 1}, {8 + 8 + 28, 4}, {8 + 48 + 4, 1}};
    for (unsigned i = 0; i < base_array_count(wrong); i++) { /* a byte, and what it becomes */
        const uint8_t before = bytes[wrong[i][0]];
        bytes[wrong[i][0]] = wrong[i][1];
        assert_int_equal(kv_request_load(KV_BATCH, bytes, count, &got) == 0 &&
                             kv_changes_load(&got, bytes, count, got_options, got_items) == 0,
                         0);
        bytes[wrong[i][0]] = before;
    }

    items[0].error = -EEXIST;
    items[1].error = items[2].error = -ECANCELED;
    kv_changed_save(items, 3, -EEXIST, bytes);
    const size_t changed = 4 * KV_CHANGED_BYTES;
    for (unsigned i = 0; i < 3; i++)
        got_items[i].error = 1;
    for (size_t cut = 0; cut <= changed + 1; cut++) {
        if (cut != changed)
            assert_int_equal(kv_changed_load(bytes, cut, got_items, 3), -EPROTO);
    }
    assert_int_equal(kv_changed_load(bytes, changed, got_items, 2), -EPROTO);
    assert_int_equal(got_items[0].error, 1);
    assert_int_equal(kv_changed_load(bytes, changed, got_items, 3), -EEXIST);
    assert_true(got_items[0].error == -EEXIST && got_items[2].error == -ECANCELED);
    for (unsigned i = 0; i < 3; i++) {
        items[i].error = 0;
        items[i].version = 100 + i;
    }
    kv_changed_save(items, 3, 0, bytes);
    assert_int_equal(kv_changed_load(bytes, changed, got_items, 3), 0);
    assert_true(got_items[0].version == 100 && got_items[2].version == 102 && got_items[1].error == 0);
    bytes[20] = 1; /* what is 0 beside an error */
    assert_int_equal(kv_changed_load(bytes, changed, got_items, 3), -EPROTO);
    bytes[20] = 0;
    bytes[19] = 0; /* no error */
    bytes[16] = 1;
    assert_int_equal(kv_changed_load(bytes, changed, got_items, 3), -EPROTO);
}

/* The bytes themselves: a change of order would come back as well. */
static void a_put_has_its_bytes(void **state)
{
    static const uint8_t wanted[] = {
        0x34, 0x12, 6,    0,    5,    0,    0,    0,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28,
        0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43,
        0x42, 0x41, 3,    3,    0,    0,    'a',  ' ',  'n',  'a',  'm',  'e',  'v',  'a',  'l',  'u',  'e'};
    const struct kv_request request = request_of(KV_PUT);
    uint8_t bytes[ROOM];
    (void)state;
    assert_int_equal(kv_request_bytes(KV_PUT, &request), sizeof(wanted));
    kv_request_save(KV_PUT, &request, bytes);
    assert_memory_equal(bytes, wanted, sizeof(wanted));
}

/* Of each method: a byte, what it becomes, and that nothing is made of that. */
static void what_must_not_be_is_refused(void **state)
{
    static const struct {
        enum kv_method method;
        uint8_t at, value;
    } wrong[] = {
        {KV_INFO, 0, 0},
        {KV_INFO, 4, 1},
        {KV_DELETE, 4, 1},
        {KV_PUT, 36, 4},
        {KV_PUT, 37, 4},
        {KV_PUT, 38, 1},
        {KV_PUT, 39, 1},
        {KV_SCAN, 2, 1},
        {KV_SCAN, 20, 1},
        {KV_SCAN, 23, 1},
        {KV_RANGE, 8, 0},
        {KV_RANGE, 16, 4},
        {KV_RANGE, 23, 1},
        {KV_RANGE, 7, 1},
        {KV_HANDLES, 2, 1},
        {KV_HANDLES, 4, 0},
        {KV_HANDLES, 4, 3},
        {KV_GET, 2, 0},
        {KV_DELETE, 2, 0},
        {KV_PUT, 2, 0},
        {KV_GET_RANGE, 2, 0},
        {KV_PUT, 7, 1},
        /* nothing there; more than there is; beyond the end, by one and by far; no right to read; no handle */
        {KV_PUT_REGION, 48, 0},
        {KV_PUT_REGION, 48, 6},
        {KV_PUT_REGION, 55, 0xff},
        {KV_PUT_REGION, 40, 0x69},
        {KV_PUT_REGION, 47, 0xff},
        {KV_PUT_REGION, 80, 2},
        {KV_PUT_REGION, 84, 0},
        {KV_PUT_REGION, 36, 4},
        {KV_PUT_REGION, 2, 0}};
    uint8_t bytes[ROOM];
    struct kv_request got;
    (void)state;
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        const struct kv_request request = request_of(wrong[i].method);
        kv_request_save(wrong[i].method, &request, bytes);
        bytes[wrong[i].at] = wrong[i].value;
        size_t count = kv_request_bytes(wrong[i].method, &request);
        assert_int_equal(kv_request_load(wrong[i].method, bytes, count, &got), -EINVAL);
        if (wrong[i].at == 2 && wrong[i].value == 0) /* with a length that fits */
            assert_int_equal(kv_request_load(wrong[i].method, bytes, count - request.key_len, &got), -EINVAL);
    }
}

/* Where a tree may be READ, and what a connection for that begins with. */
static void handles_come_back(void **state)
{
    const struct kv_handles head = {.step_bytes = UINT64_C(4) << 20, .unit_bytes = 1024, .count = 2};
    const struct tarn_fabric_handle handles[] = {
        {.domain = 1, .key = 2, .bytes = UINT64_C(4) << 20, .rights = TARN_FABRIC_MAY_READ},
        {.domain = 1, .key = 3, .bytes = UINT64_C(4) << 20, .rights = TARN_FABRIC_MAY_READ}};
    /* bytes of steps that are no steps, of no unit, more handles than there are, a handle of too few bytes */
    static const uint8_t wrong[][2] = {
        {0, 1}, {2, 0}, {8, 1}, {9, 0}, {12, 1}, {12, 3}, {KV_HANDLES_BYTES + 18, 0}};
    const size_t bytes_count = KV_HANDLES_BYTES + 2 * TARN_FABRIC_HANDLE_BYTES;
    struct kv_handles got;
    struct tarn_fabric_handle got_handles[3];
    uint8_t bytes[ROOM], hello[KV_READS_BYTES + 1] = {0};
    uint16_t store;
    (void)state;
    kv_handles_save(&head, handles, bytes);
    for (size_t cut = 0; cut <= bytes_count + 1; cut++)
        assert_int_equal(kv_handles_load(bytes, cut, &got, got_handles, 3), cut == bytes_count ? 0 : -EPROTO);
    assert_int_equal(kv_handles_load(bytes, bytes_count, &got, got_handles, 1), -EPROTO);
    assert_true(got.step_bytes == head.step_bytes && got.unit_bytes == 1024 && got.count == 2);
    assert_true(got_handles[1].key == 3 && got_handles[1].rights == TARN_FABRIC_MAY_READ);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        kv_handles_save(&head, handles, bytes);
        bytes[wrong[i][0]] = wrong[i][1];
        assert_int_equal(kv_handles_load(bytes, bytes_count, &got, got_handles, 3), -EPROTO);
    }
    kv_reads_hello_save(0x1234, hello);
    assert_true(kv_reads_hello_load(hello, KV_READS_BYTES, &store) && store == 0x1234);
    assert_false(kv_reads_hello_load(hello, KV_READS_BYTES + 1, &store));
    for (unsigned i = 0; i < KV_READS_BYTES; i++) {
        hello[i] ^= 1;
        assert_true(kv_reads_hello_load(hello, KV_READS_BYTES, &store) == (i == 10 || i == 11));
        hello[i] ^= 1;
    }
}

static void many_keys_come_back(void **state)
{
    static const char *const keys[] = {"one", "of", "several keys"};
    struct kv_request request = {.store = 2, .amount = 3};
    struct tarn_get gets[KV_GETS_MAX] = {0};
    uint8_t bytes[ROOM];
    size_t count = kv_request_bytes(KV_MULTI_GET, &request);
    (void)state;
    kv_request_save(KV_MULTI_GET, &request, bytes);
    for (unsigned i = 0; i < 3; i++) {
        const struct tarn_get get = {.key = keys[i], .key_len = strlen(keys[i])};
        kv_key_save(&get, i * 1000, bytes + count);
        count += kv_key_bytes(get.key_len);
    }
    for (size_t cut = 0; cut <= count + 1; cut++) {
        uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees what is read behind it */
        assert_non_null(exact);
        memcpy(exact + 1, bytes, cut);
        int error = kv_request_load(KV_MULTI_GET, exact + 1, cut, &request);
        if (error == 0)
            error = kv_keys_load(&request, exact + 1, cut, gets);
        assert_int_equal(error, cut == count ? 0 : -EINVAL);
        free(exact);
    }
    assert_int_equal(kv_request_load(KV_MULTI_GET, bytes, count, &request), 0);
    assert_int_equal(kv_keys_load(&request, bytes, count, gets), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(gets[i].key_len, strlen(keys[i]));
        assert_memory_equal(gets[i].key, keys[i], gets[i].key_len);
        assert_int_equal(gets[i].value_room, i * 1000);
    }
    bytes[8 + 2] = 1;
    assert_int_equal(kv_keys_load(&request, bytes, count, gets), -EINVAL);
    bytes[8 + 2] = 0;
    bytes[8] = 0;
    assert_int_equal(kv_keys_load(&request, bytes, count, gets), -EINVAL);
    for (unsigned amount = 0; amount < 3; amount++) {
        base_store_le32(bytes + 4, amount == 0 ? 0 : KV_GETS_MAX + amount);
        assert_int_equal(kv_request_load(KV_MULTI_GET, bytes, count, &request), -EINVAL);
    }
}

static const struct tarn_record_info record = {.version = UINT64_C(0x1112131415161718),
                                               .expiry_ns = UINT64_C(0x2122232425262728),
                                               .client_flags = 0x31323334,
                                               .value_bytes = 5,
                                               .note = 2};

static void expect_record(const struct tarn_record_info *got)
{
    assert_true(got->version == record.version && got->expiry_ns == record.expiry_ns &&
                got->note == record.note);
    assert_int_equal(got->client_flags, record.client_flags);
    assert_int_equal(got->value_bytes, record.value_bytes);
}

static void records_come_back(void **state)
{
    uint8_t bytes[KV_RECORD_BYTES];
    struct tarn_record_info got;
    (void)state;
    kv_record_save(&record, bytes);
    assert_int_equal(kv_record_load(bytes, &got), 0);
    expect_record(&got);
    for (unsigned i = 24; i < KV_RECORD_BYTES; i++) {
        bytes[i] ^= 4;
        assert_int_equal(kv_record_load(bytes, &got), -EPROTO);
        bytes[i] ^= 4;
    }
    memset(bytes, 0, 8);
    assert_int_equal(kv_record_load(bytes, &got), -EPROTO);
}

static void results_come_back(void **state)
{
    struct kv_item item = {.key = (const uint8_t *)"key",
                           .key_len = 3,
                           .is_shown = true,
                           .bytes = 5,
                           .value = (const uint8_t *)"value",
                           .info = record};
    struct tarn_get get = {.info = record};
    struct kv_page page = {.scan = UINT64_C(0x1112131415161718), .count = 7}, got_page;
    uint8_t bytes[ROOM];
    struct kv_item got;
    (void)state;
    kv_got_save(&get, bytes);
    for (size_t cut = 0; cut < KV_ITEM_BYTES + 5; cut++)
        assert_int_equal(kv_got_load(bytes, cut, &got), 0);
    assert_int_equal(kv_got_load(bytes, KV_ITEM_BYTES + 5, &got), KV_ITEM_BYTES + 5);
    expect_record(&got.info);
    assert_int_equal(kv_got_load(bytes, ROOM, &got), KV_ITEM_BYTES + 5);
    bytes[4] = 4; /* not the value's length */
    assert_int_equal(kv_got_load(bytes, ROOM, &got), 0);
    get.error = -ENOBUFS;
    kv_got_save(&get, bytes);
    assert_int_equal(kv_got_load(bytes, ROOM, &got), KV_ITEM_BYTES);
    expect_record(&got.info);
    bytes[4] = 1; /* bytes with a status */
    assert_int_equal(kv_got_load(bytes, ROOM, &got), 0);
    base_store_le32(bytes, 1); /* a status above 0 */
    assert_int_equal(kv_got_load(bytes, ROOM, &got), 0);
    kv_scanned_save(&item, bytes);
    for (size_t cut = 0; cut < KV_ITEM_BYTES + 8; cut++)
        assert_int_equal(kv_scanned_load(bytes, cut, &got), 0);
    assert_int_equal(kv_scanned_load(bytes, KV_ITEM_BYTES + 8, &got), KV_ITEM_BYTES + 8);
    assert_true(got.is_shown && got.key_len == 3 && got.bytes == 5);
    assert_memory_equal(got.key, "keyvalue", 8);
    bytes[2] = 0;
    assert_int_equal(kv_scanned_load(bytes, ROOM, &got), 0);
    bytes[2] = 2;
    assert_int_equal(kv_scanned_load(bytes, ROOM, &got), 0);
    kv_page_save(&page, bytes);
    assert_int_equal(kv_page_load(bytes, KV_PAGE_BYTES, &got_page), 0);
    assert_true(got_page.scan == page.scan && got_page.count == page.count);
    assert_int_equal(kv_page_load(bytes, KV_PAGE_BYTES - 1, &got_page), -EPROTO);
}

static void stores_come_back(void **state)
{
    static const struct {
        uint8_t at, value;
    } wrong[] = {{0, 2}, {1, 1}, {2, 64}, {4, 3},  {5, 1},  {6, 0},  {6, 5},
                 {8, 0}, {9, 2}, {12, 0}, {13, 2}, {14, 3}, {14, 5}, {40, '/'}};
    const struct kv_store_info info = {.store = 3,
                                       .stores = 4,
                                       .workers = 5,
                                       .seed = UINT64_C(0x1112131415161718),
                                       .name = "name",
                                       .name_len = 4,
                                       .info = {.kind = kv_kind_cache,
                                                .abilities = TARN_KV_RANGES,
                                                .partitions = 6,
                                                .value_bytes_max = 7,
                                                .whole_bytes_max = 8}};
    uint8_t bytes[ROOM], broken[ROOM];
    struct kv_store_info got;
    (void)state;
    kv_info_save(&info, bytes);
    for (size_t cut = 0; cut <= KV_INFO_BYTES + 5; cut++)
        assert_int_equal(kv_info_load(bytes, cut, &got), cut == KV_INFO_BYTES + 4 ? 0 : -EPROTO);
    assert_int_equal(kv_info_load(bytes, KV_INFO_BYTES + 4, &got), 0);
    assert_true(got.store == 3 && got.stores == 4 && got.workers == 5 && got.seed == info.seed);
    assert_true(got.info.kind == kv_kind_cache && got.info.abilities == TARN_KV_RANGES);
    assert_true(got.info.partitions == 6 && got.info.value_bytes_max == 7 && got.info.whole_bytes_max == 8);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        memcpy(broken, bytes, sizeof(broken));
        broken[wrong[i].at] = wrong[i].value;
        assert_int_equal(kv_info_load(broken, KV_INFO_BYTES + 4, &got), -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back),  cmocka_unit_test(batches_come_back),
        cmocka_unit_test(a_put_has_its_bytes), cmocka_unit_test(what_must_not_be_is_refused),
        cmocka_unit_test(handles_come_back),   cmocka_unit_test(many_keys_come_back),
        cmocka_unit_test(records_come_back),   cmocka_unit_test(results_come_back),
        cmocka_unit_test(stores_come_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
