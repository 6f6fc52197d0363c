/* How words are divided, where slots are, and how large they may be. */
#include "base/testing.h"
#include "hash/layout.h"

static const struct hash_shape shape = {.seed = 5,
                                        .slots = 1 << 20,
                                        .capacity = UINT64_C(16) << 30,
                                        .operation_ns = 1,
                                        .lease_ns = 1,
                                        .locks = 1024,
                                        .clients = 64,
                                        .table_bytes = 64 << 20,
                                        .slab_bytes = 1 << 20,
                                        .ranks = 3,
                                        .filter_bits = 4};

static void words_keep_their_parts(void **state)
{
    const struct hash_layout layout = hash_layout_of(&shape);
    const uint64_t address = (UINT64_C(1) << layout.address_bits) - 1;
    (void)state;
    assert_int_equal(layout.address_bits, 28);
    assert_int_equal(layout.version_bits, HASH_VERSION_BITS);
    uint64_t word = hash_word(&layout, 0, HASH_LIVE, address, 0x1234567f, 0xf);
    assert_int_equal(hash_state_of(word), HASH_LIVE);
    assert_int_equal(hash_version_of(&layout, word), 1);
    assert_int_equal(hash_address_of(&layout, word), address);
    assert_int_equal(hash_generation_of(&layout, word), 0x3f);
    assert_int_equal(hash_filter_of(&layout, word), 0xf);
    const uint64_t frozen = hash_word_of(&layout, word, HASH_FROZEN, word);
    assert_int_equal(hash_version_of(&layout, frozen), 2);
    assert_int_equal(hash_address_of(&layout, frozen), address);
    const uint64_t empty = hash_word_without(&layout, frozen, HASH_EMPTY);
    assert_int_equal(empty, UINT64_C(3) << 2);
    word = hash_word(&layout, ((UINT64_C(1) << layout.version_bits) - 1) << 2, HASH_LIVE, 7, 9,
                     3); /* it wraps around */
    assert_int_equal(hash_version_of(&layout, word), 0);
    assert_int_equal(hash_address_of(&layout, word), 7);
    assert_true(hash_word_bumped(&layout, word) != word);
}

static void slots_of_a_key_stay_together(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 1000; number++) {
        const hash_key key = hash_key_of(&shape, &number, sizeof(number));
        for (uint32_t growth = 0; growth < 3; growth++) {
            const uint64_t segment = hash_slot_of(&shape, key, growth, 0) / HASH_SEGMENT_SLOTS;
            for (uint32_t rank = 0; rank < shape.ranks; rank++) {
                const uint64_t slot = hash_slot_of(&shape, key, growth, rank);
                assert_true(slot < hash_slots(&shape, growth));
                assert_int_equal(slot / HASH_SEGMENT_SLOTS, segment);
            }
            /* the next index has the same keys in two segments, one behind the other */
            assert_int_equal(hash_slot_of(&shape, key, growth + 1, 0) / HASH_SEGMENT_SLOTS / 2, segment);
        }
    }
}

static void classes_have_room(void **state)
{
    (void)state;
    for (uint64_t grains = 1; grains <= 16384; grains++) {
        const uint32_t class_number = hash_class_for(grains);
        assert_true(hash_class_grains(class_number) >= grains);
        assert_true(class_number == 0 || hash_class_grains(class_number - 1) < grains);
        assert_true(class_number < HASH_CLASSES_MAX);
        assert_true(hash_class_grains(class_number) <= grains + grains / 4);
    }
}

static void shapes_are_checked(void **state)
{
    uint8_t bytes[HASH_SHAPE_BYTES];
    struct hash_shape found, wrong = shape;
    (void)state;
    assert_null(hash_shape_wrong(&shape));
    hash_shape_write(&shape, 77, bytes);
    assert_true(hash_shape_read(bytes, 77, &found));
    assert_memory_equal(&found, &shape, sizeof(shape));
    assert_false(hash_shape_read(bytes, 78, &found));
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 4;
        assert_false(hash_shape_read(bytes, 77, &found));
        bytes[i] ^= 4;
    }
    wrong.filter_bits = 5; /* 24 bits of version would not be left */
    assert_non_null(hash_shape_wrong(&wrong));
    wrong = shape;
    wrong.ranks = 1;
    assert_non_null(hash_shape_wrong(&wrong));
}

static void records_are_checked(void **state)
{
    const struct hash_layout layout = hash_layout_of(&shape);
    uint8_t bytes[sizeof(struct hash_record) + 9];
    struct hash_record record = {.generation = 70, .version = 3, .value_bytes = 5, .key_bytes = 4};
    (void)state;
    memcpy(bytes + sizeof(record), "keyvalue!", 9);
    memcpy(bytes, &record, sizeof(record));
    _Alignas(struct hash_record) uint8_t aligned[sizeof(bytes)];
    memcpy(aligned, bytes, sizeof(bytes));
    struct hash_record *sealed = (struct hash_record *)(void *)aligned;
    hash_record_seal(sealed, 1000);
    const uint64_t word = hash_word(&layout, 0, HASH_LIVE, 1000, 70, 0);
    assert_true(hash_record_fits(&layout, sealed, word, sizeof(bytes)));
    assert_false(hash_record_fits(&layout, sealed, word, sizeof(bytes) - 1));
    assert_false(hash_header_fits(&layout, sealed, hash_word(&layout, 0, HASH_LIVE, 1000, 71, 0)));
    assert_false(hash_header_fits(&layout, sealed, hash_word(&layout, 0, HASH_LIVE, 1001, 70, 0)));
    assert_true(hash_header_fits(&layout, sealed, word));
    for (unsigned i = 0; i < sizeof(aligned); i++) {
        aligned[i] ^= 1;
        assert_false(hash_record_fits(&layout, sealed, word, sizeof(bytes)));
        aligned[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_keep_their_parts), cmocka_unit_test(slots_of_a_key_stay_together),
        cmocka_unit_test(classes_have_room),      cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(records_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
