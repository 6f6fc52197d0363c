/* Do nodes keep what is put in, in order, and is every byte that counts covered by the proof? */
#include "tree/testing.h"

#define UNIT 1024u
#define SELF tree_pointer_to(3, 77, 0)

static struct tree_key key_of(const char *text)
{
    return (struct tree_key){.bytes = (const uint8_t *)text, .count = (uint32_t)strlen(text)};
}

static bool insert(struct tree_node *node, const char *text, uint64_t number)
{
    bool is_found;
    const uint32_t entry = tree_node_find(node, key_of(text), &is_found);
    assert_false(is_found);
    return tree_node_insert(node, entry, key_of(text), tree_testing_value(number));
}

static void expect(const struct tree_node *node, const char *text, uint64_t number)
{
    bool is_found;
    const uint32_t entry = tree_node_find(node, key_of(text), &is_found);
    assert_true(is_found);
    tree_testing_expect(tree_node_value(node, entry), number);
}

static void entries_keep_their_order(void **state)
{
    static const char *const texts[] = {"ab",  "abcd",  "abcde", "abcd\x01", "abd",   "ac",
                                        "abc", "a\xff", "abcz",  "abcdef",   "abcdeg"};
    _Alignas(8) uint8_t image[UNIT];
    struct tree_node *node = (void *)image;
    uint8_t before[TREE_KEY_MAX], after[TREE_KEY_MAX];
    const struct tree_key high = key_of("b");
    (void)state;
    assert_true(tree_node_init(node, UNIT, 0, 0, key_of("a"), &high));
    for (uint32_t i = 0; i < base_array_count(texts); i++)
        assert_true(insert(node, texts[i], i));
    for (uint32_t i = 0; i < base_array_count(texts); i++)
        expect(node, texts[i], i);
    for (uint32_t i = 1; i < node->count; i++)
        assert_true(tree_key_compare(tree_node_key(node, i - 1, before), tree_node_key(node, i, after)) < 0);
    tree_node_seal(node, SELF, 9);
    assert_int_equal(tree_node_check(node, UNIT, UNIT, SELF), 0);
    for (uint32_t i = 0; i < base_array_count(texts); i++) {
        bool is_found;
        const uint32_t used = tree_node_used(node);
        tree_node_remove(node, tree_node_find(node, key_of(texts[i]), &is_found));
        assert_true(is_found && tree_node_used(node) < used);
        for (uint32_t k = i + 1; k < base_array_count(texts); k++)
            expect(node, texts[k], k);
        tree_node_seal(node, SELF, 10 + i);
        assert_int_equal(tree_node_check(node, UNIT, UNIT, SELF), 0);
    }
}

/* What all keys begin with is there once. */
static void prefixes_are_left_out(void **state)
{
    _Alignas(8) uint8_t image[UNIT];
    struct tree_node *node = (void *)image;
    char text[256], low[256], high[256];
    uint32_t count = 0;
    bool fits = true;
    (void)state;
    memset(low, 'p', 200);
    (void)snprintf(low + 200, sizeof(low) - 200, "1");
    memcpy(high, low, 200);
    (void)snprintf(high + 200, sizeof(high) - 200, "9");
    const struct tree_key end = key_of(high);
    assert_true(tree_node_init(node, UNIT, 0, 0, key_of(low), &end));
    assert_int_equal(node->prefix_bytes, 200);
    memcpy(text, low, 200);
    while (fits) {
        (void)snprintf(text + 200, sizeof(text) - 200, "5%02u", count);
        fits = insert(node, text, count);
        count += fits;
    }
    assert_in_range(count, 17, 19); /* 31 bytes each */
    uint8_t buffer[TREE_KEY_MAX];
    assert_int_equal(tree_node_key(node, 3, buffer).count, 203);
    assert_memory_equal(buffer + 200, "503", 3);
}

static void ranges_are_known(void **state)
{
    _Alignas(8) uint8_t image[UNIT];
    struct tree_node *node = (void *)image;
    const struct tree_key high = key_of("m");
    (void)state;
    assert_true(tree_node_init(node, UNIT, 0, 0, key_of("f"), &high));
    assert_int_equal(tree_node_compare(node, key_of("e\xff")), -1);
    assert_int_equal(tree_node_compare(node, key_of("f")), 0);
    assert_int_equal(tree_node_compare(node, key_of("lzz")), 0);
    assert_int_equal(tree_node_compare(node, key_of("m")), 1);
    assert_true(tree_node_init(node, UNIT, 0, 0, key_of("f"), NULL));
    assert_int_equal(tree_node_compare(node, key_of("\xff\xff")), 0);
}

static void children_have_ranges(void **state)
{
    _Alignas(8) uint8_t image[UNIT];
    struct tree_node *node = (void *)image;
    (void)state;
    assert_true(tree_node_init(node, UNIT, 0, 1, key_of(""), NULL));
    assert_true(tree_node_insert(node, 0, key_of(""), (struct tree_value){.place = 1}));
    assert_true(tree_node_insert(node, 1, key_of("d"), (struct tree_value){.place = 2}));
    assert_true(tree_node_insert(node, 2, key_of("dd"), (struct tree_value){.place = 3}));
    assert_int_equal(tree_node_child(node, tree_node_child_of(node, key_of("a"))), 1);
    assert_int_equal(tree_node_child(node, tree_node_child_of(node, key_of("d"))), 2);
    assert_int_equal(tree_node_child(node, tree_node_child_of(node, key_of("dc"))), 2);
    assert_int_equal(tree_node_child(node, tree_node_child_of(node, key_of("dd"))), 3);
    assert_int_equal(tree_node_child(node, tree_node_child_of(node, key_of("z"))), 3);
}

static struct tree_node *make_node(uint8_t *image)
{
    struct tree_node *node = (void *)image;
    const struct tree_key high = key_of("user9");
    char text[16];
    memset(image, 0xa5, UNIT);
    assert_true(tree_node_init(node, UNIT, 0, 0, key_of("user1"), &high));
    for (uint32_t i = 0; i < 12; i++) {
        (void)snprintf(text, sizeof(text), "user%u", 10 + i * 7 % 80);
        assert_true(insert(node, text, i));
    }
    tree_node_seal(node, SELF, 5);
    return node;
}

/* Each bit that counts is noticed, and those in between do not count. */
static void flipped_bits_are_noticed(void **state)
{
    _Alignas(8) uint8_t image[UNIT];
    const struct tree_node *node = make_node(image);
    const uint32_t end = (uint32_t)sizeof(*node) + node->count * TREE_NODE_OVERHEAD, heap = node->heap;
    (void)state;
    for (uint32_t bit = 0; bit < 8 * UNIT; bit++) {
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int outcome = tree_node_check(image, UNIT, UNIT, SELF);
        assert_int_equal(outcome == 0, bit / 8 >= end && bit / 8 < heap);
        image[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(tree_node_check(image, UNIT, UNIT, SELF), 0);
    assert_int_equal(tree_node_check(image, UNIT, UNIT, SELF + 16), -EAGAIN); /* it is another place's */
    assert_int_equal(tree_node_check(image, UNIT, 2 * UNIT, SELF), -EAGAIN);
}

/* A node that words of two versions are mixed in is never taken for one. */
static void torn_nodes_are_noticed(void **state)
{
    _Alignas(8) uint8_t before[UNIT], after[UNIT], mixed[UNIT];
    struct base_random random;
    (void)state;
    base_random_init(&random, 7);
    (void)make_node(before);
    struct tree_node *node = make_node(after);
    tree_node_replace(node, 4, tree_testing_value(99));
    tree_node_seal(node, SELF, 6);
    for (uint32_t round = 0; round < 20000; round++) {
        bool is_one = true, is_other = true;
        for (uint32_t at = 0; at < UNIT; at += 8) {
            const uint8_t *from = base_random_below(&random, 2) == 0 ? before : after;
            memcpy(mixed + at, from + at, 8);
            is_one = is_one && memcmp(mixed + at, before + at, 8) == 0;
            is_other = is_other && memcmp(mixed + at, after + at, 8) == 0;
        }
        assert_int_equal(tree_node_check(mixed, UNIT, UNIT, SELF) == 0, is_one || is_other);
    }
}

/* Bytes that anybody may have written, with a good sum: nothing is read outside of them, and what is accepted works. */
static void hostile_nodes_do_no_harm(void **state)
{
    struct base_random random;
    uint32_t accepted = 0;
    (void)state;
    base_random_init(&random, 8);
    for (uint32_t round = 0; round < 200000; round++) {
        _Alignas(8) uint8_t image[UNIT];
        struct tree_node *node = make_node(image);
        for (uint32_t i = 0; i < 1 + round % 4; i++) {
            const uint64_t at = base_random_below(&random, 2) == 0 ? 8 + base_random_below(&random, 140)
                                                                   : base_random_below(&random, UNIT);
            image[at] = (uint8_t)base_random_below(&random, 256);
        }
        /* seal it only where that itself reads nothing outside, as a writer on another machine would */
        if (node->unit_shift != 10 || node->class_number != 0 || node->heap > UNIT ||
            sizeof(*node) + node->count * TREE_NODE_OVERHEAD > node->heap)
            continue;
        tree_node_seal(node, SELF, 5);
        if (tree_node_check(image, UNIT, UNIT, SELF) != 0)
            continue;
        accepted++;
        uint8_t buffer[TREE_KEY_MAX];
        for (uint32_t i = 0; i < node->count; i++) {
            bool is_found;
            const struct tree_key key = tree_node_key(node, i, buffer);
            assert_int_equal(tree_node_find(node, key, &is_found), i);
            assert_true(is_found);
        }
    }
    assert_true(accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_keep_their_order), cmocka_unit_test(prefixes_are_left_out),
        cmocka_unit_test(ranges_are_known),         cmocka_unit_test(children_have_ranges),
        cmocka_unit_test(flipped_bits_are_noticed), cmocka_unit_test(torn_nodes_are_noticed),
        cmocka_unit_test(hostile_nodes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
