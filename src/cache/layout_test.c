/* Are the formats what the README's tables say, to their edges, and is a header from a stranger checked? */
#include "cache/testing.h"

static void test_entries_keep_what_they_are_given(void **state base_unused)
{
    struct base_random random;
    base_random_init(&random, 1);
    for (int i = 0; i < 100000; i++) {
        uint32_t tag = 1 + (uint32_t)base_random_below(&random, 0xfffff);
        uint32_t grains =
            1 + (uint32_t)base_random_below(&random, UINT64_C(1) << base_random_below(&random, 18));
        uint64_t place = base_random_below(&random, CACHE_LOG_BYTES_MAX) & ~UINT64_C(7);
        uint64_t entry = cache_entry_pack(tag, grains, place);
        assert_int_equal(cache_entry_tag(entry), tag);
        assert_int_equal(cache_entry_place(entry), place);
        assert_int_equal(cache_entry_class(entry), cache_length_class(grains));
    }
    assert_int_equal(cache_entry_pack(0xabcde, 10, 0x7fff8), UINT64_C(0xabcde0a00000ffff));
}

static void test_length_classes_hold_and_waste_little(void **state base_unused)
{
    uint32_t most = cache_record_grains(TARN_KEY_BYTES_MAX, CACHE_VALUE_BYTES_MAX);
    for (uint32_t grains = 1; grains <= most; grains++) {
        uint32_t rounded = cache_length_of_class(cache_length_class(grains));
        assert_true(rounded >= grains && rounded - grains <= grains / 16);
        assert_true(cache_length_class(grains) <= cache_length_class(grains + 1));
        if (grains < 32)
            assert_int_equal(rounded, grains);
    }
    assert_true(cache_length_class(most) <= 0xff);
}

static void test_tags_are_never_zero(void **state base_unused)
{
    assert_int_equal(cache_hash_tag(0), 1);
    assert_int_equal(cache_hash_tag(UINT64_C(0xfff00000ffffffff)), 1);
    assert_int_equal(cache_hash_tag(UINT64_C(0xfffabcdeffffffff)), 0xabcde);
}

static void test_hashes_spread_over_all(void **state base_unused)
{
    for (uint32_t partitions = 1; partitions <= CACHE_PARTITIONS_MAX; partitions++) {
        assert_int_equal(cache_hash_partition(0, partitions), 0);
        assert_int_equal(cache_hash_partition(UINT64_MAX, partitions), partitions - 1);
    }
    assert_int_equal(cache_hash_bucket(UINT32_MAX, CACHE_BUCKETS_MAX), CACHE_BUCKETS_MAX - 1);
    assert_int_equal(cache_hash_bucket(UINT32_MAX, 1), 0);
}

static void test_record_header_is_as_written_down(void **state base_unused)
{
    const struct cache_record record = {.version = 0x0102030405060708,
                                        .expiry = 0xa1a2a3a4a5,
                                        .checksum = 0xc1c2c3c4,
                                        .hash_low = 0xd1d2d3d4,
                                        .client_flags = 0xf1f2f3f4,
                                        .value_len = 0x1fffff,
                                        .slack = 0x7ff,
                                        .key_len = 0xb1b2,
                                        .note = 3,
                                        .killed = true};
    const uint8_t bytes[32] = {0xc4, 0xc3, 0xc2, 0xc1, 0xd4, 0xd3, 0xd2, 0xd1, 8,    7,    6,
                               5,    4,    3,    2,    1,    0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 0xb2,
                               0xb1, 0x83, 0xff, 0xff, 0xff, 0xff, 0xf4, 0xf3, 0xf2, 0xf1};
    uint64_t words[CACHE_RECORD_WORDS];
    cache_record_pack(&record, words);
    assert_memory_equal(words, bytes, sizeof(bytes));
    struct cache_record read;
    cache_record_unpack(bytes, &read);
    assert_int_equal(read.version, record.version);
    assert_int_equal(read.expiry, record.expiry);
    assert_int_equal(read.checksum, record.checksum);
    assert_int_equal(read.hash_low, record.hash_low);
    assert_int_equal(read.client_flags, record.client_flags);
    assert_int_equal(read.value_len, record.value_len);
    assert_int_equal(read.slack, record.slack);
    assert_int_equal(read.key_len, record.key_len);
    assert_int_equal(read.note, record.note);
    assert_true(read.killed);
}

static void test_expiry_rounds_up(void **state base_unused)
{
    assert_int_equal(cache_expiry_pack(0), 0);
    assert_int_equal(cache_expiry_pack(1), 1);
    assert_int_equal(cache_expiry_pack(CACHE_EXPIRY_UNIT_NS), 1);
    assert_int_equal(cache_expiry_pack(CACHE_EXPIRY_UNIT_NS + 1), 2);
    assert_int_equal(cache_expiry_pack(UINT64_MAX), CACHE_EXPIRY_MAX);
}

/* Every bit of a record counts, its place and the salt too. */
static void test_checksum_covers_all(void **state base_unused)
{
    uint8_t bytes[CACHE_RECORD_HEADER_BYTES + 24];
    memset(bytes, 0x5a, sizeof(bytes));
    uint64_t words[CACHE_RECORD_WORDS];
    memcpy(words, bytes, sizeof(words));
    uint32_t sum = cache_record_checksum(1, 800, words, bytes + 32, 24);
    assert_int_not_equal(cache_record_checksum(2, 800, words, bytes + 32, 24), sum);
    assert_int_not_equal(cache_record_checksum(1, 808, words, bytes + 32, 24), sum);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        memcpy(words, bytes, sizeof(words));
        uint32_t other = cache_record_checksum(1, 800, words, bytes + 32, 24);
        assert_true((other == sum) == (bit < 32));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void test_layout_fills_memory_and_fits_items(void **state base_unused)
{
    struct cache_layout layout;
    assert_int_equal(cache_layout_choose(CACHE_PARTITION_BYTES_MIN - 1, 48, &layout), -EINVAL);
    assert_int_equal(cache_layout_choose(UINT64_C(600) << 30, 1000000, &layout), -EFBIG);
    const uint64_t items[] = {1, 48, 100, 1000, UINT64_C(1) << 20, UINT32_MAX};
    for (size_t i = 0; i < base_array_count(items); i++) {
        for (uint64_t bytes = CACHE_PARTITION_BYTES_MIN; bytes < UINT64_C(1) << 34;
             bytes = bytes * 3 / 2 + 8) {
            assert_int_equal(cache_layout_choose(bytes, items[i], &layout), 0);
            assert_true(layout.buckets >= 1 && layout.log_bytes >= 2048);
            assert_int_equal(layout.log_offset, 64 + 64 * layout.buckets);
            assert_true(layout.log_offset + layout.log_bytes <= bytes);
            assert_true(layout.log_offset + layout.log_bytes + 8 > bytes);
        }
    }
    assert_int_equal(cache_layout_choose(UINT64_C(1) << 30, 48, &layout), 0);
    uint64_t fits = layout.log_bytes / 80;
    assert_true(layout.buckets * 5 <= fits && fits <= layout.buckets * 5 + 100);
}

/* A stranger's header is taken only if it agrees with itself and with the region. */
static void test_headers_are_checked(void **state base_unused)
{
    struct cache_header remote = {
        .seed = 99, .buckets = 10, .log_offset = 704, .log_bytes = 4096, .partition = 1, .partitions = 2};
    struct cache_header_format header;
    struct cache_header read;
    cache_header_pack(&remote, &header);
    assert_int_equal(cache_header_unpack(&header, 4800, &read), 0);
    assert_int_equal(read.seed, 99);
    assert_int_equal(read.buckets, 10);
    assert_int_equal(read.log_offset, 704);
    assert_int_equal(read.log_bytes, 4096);
    assert_int_equal(read.partition, 1);
    assert_int_equal(read.partitions, 2);
    assert_int_equal(cache_header_unpack(&header, 4799, &read), -EUCLEAN);
    assert_int_equal(cache_header_unpack(&header, 0, &read), -EUCLEAN);
    for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(cache_header_unpack(&header, 4800, &read),
                         bit >= 64 && bit < 96 ? -ENOTSUP : -EUCLEAN);
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    const struct cache_header good = remote;
    const struct cache_header bad[] = {
        {.seed = 1, .buckets = 0, .log_offset = 64, .log_bytes = 4096, .partition = 0, .partitions = 1},
        {.seed = 1,
         .buckets = UINT64_MAX / 64 + 2,
         .log_offset = 128,
         .log_bytes = 4096,
         .partition = 0,
         .partitions = 1},
        {.seed = 1, .buckets = 10, .log_offset = 712, .log_bytes = 4080, .partition = 0, .partitions = 1},
        {.seed = 1, .buckets = 10, .log_offset = 704, .log_bytes = 4092, .partition = 0, .partitions = 1},
        {.seed = 1,
         .buckets = 10,
         .log_offset = 704,
         .log_bytes = UINT64_MAX - 7,
         .partition = 0,
         .partitions = 1},
        {.seed = 1, .buckets = 10, .log_offset = 704, .log_bytes = 1024, .partition = 0, .partitions = 1},
        {.seed = 1, .buckets = 10, .log_offset = 704, .log_bytes = 4096, .partition = 1, .partitions = 1},
        {.seed = 1, .buckets = 10, .log_offset = 704, .log_bytes = 4096, .partition = 0, .partitions = 0},
        {.seed = 1, .buckets = 10, .log_offset = 704, .log_bytes = 4096, .partition = 0, .partitions = 257},
    };
    for (size_t i = 0; i < base_array_count(bad); i++) {
        cache_header_pack(&bad[i], &header);
        assert_int_equal(cache_header_unpack(&header, 4800, &read), -EUCLEAN);
    }
    cache_header_pack(&good, &header);
    assert_int_equal(cache_header_unpack(&header, 4800, &read), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_keep_what_they_are_given),
        cmocka_unit_test(test_length_classes_hold_and_waste_little),
        cmocka_unit_test(test_tags_are_never_zero),
        cmocka_unit_test(test_hashes_spread_over_all),
        cmocka_unit_test(test_record_header_is_as_written_down),
        cmocka_unit_test(test_expiry_rounds_up),
        cmocka_unit_test(test_checksum_covers_all),
        cmocka_unit_test(test_layout_fills_memory_and_fits_items),
        cmocka_unit_test(test_headers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
