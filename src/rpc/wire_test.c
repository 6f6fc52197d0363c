/* Headers and hellos: what is written is read again, and nothing else. */
#include "base/random.h"
#include "base/testing.h"
#include "rpc/wire.h"
#include <errno.h>
#include <string.h>
#include <tarn/rpc.h>

static const struct rpc_header header = {.sequence = UINT64_C(0x1122334455667788),
                                         .bytes = 11,
                                         .time = 77,
                                         .epoch = 3,
                                         .lease_ms = 4,
                                         .word = 5,
                                         .flags = RPC_BY_REPLY};
static const char body[] = "hello, tarn";

/* The format, written down in the README, byte by byte. */
static void a_header_has_its_format(void **state)
{
    (void)state;
    uint8_t bytes[RPC_HEADER_BYTES];
    static const uint8_t expected[RPC_HEADER_BYTES - 8] = {
        0x88, 0x77,    0x66,      0x55,      0x44,     0x33,     0x22,
        0x11, [8] = 3, [16] = 11, [20] = 77, [24] = 4, [28] = 5, [32] = 1};
    rpc_header_save(&header, body, bytes);
    assert_int_equal(base_load_le32(bytes + 40), base_crc32c(0, body, 11));
    assert_int_equal(base_load_le32(bytes + 44), base_crc32c(0, bytes, 44));
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void a_header_is_read_again(void **state)
{
    (void)state;
    uint8_t bytes[RPC_HEADER_BYTES];
    struct rpc_header read;
    rpc_header_save(&header, body, bytes);
    assert_true(rpc_header_load(bytes, &read));
    assert_int_equal(read.sequence, header.sequence);
    assert_int_equal(read.bytes, header.bytes);
    assert_int_equal(read.time, header.time);
    assert_int_equal(read.epoch, header.epoch);
    assert_int_equal(read.lease_ms, header.lease_ms);
    assert_int_equal(read.word, header.word);
    assert_int_equal(read.flags, header.flags);
    assert_true(rpc_body_is_whole(&read, body));
}

/* Any bit that differs is noticed. */
static void damage_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[RPC_HEADER_BYTES];
    char other[sizeof(body)];
    struct rpc_header read;
    rpc_header_save(&header, body, bytes);
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(rpc_header_load(bytes, &read));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(rpc_header_load(bytes, &read));
    for (unsigned bit = 0; bit < 8 * 11; bit++) {
        memcpy(other, body, sizeof(body));
        other[bit / 8] = (char)(other[bit / 8] ^ 1 << bit % 8);
        assert_false(rpc_body_is_whole(&read, other));
    }
}

/* Headers of two calls, mixed word by word, are none, but for the two that are one's own. */
static void mixtures_are_noticed(void **state)
{
    (void)state;
    uint8_t a[RPC_HEADER_BYTES], b[RPC_HEADER_BYTES], mixed[RPC_HEADER_BYTES];
    struct rpc_header other = header, read;
    other.sequence += 16;
    other.word = 6;
    rpc_header_save(&header, body, a);
    rpc_header_save(&other, "other words", b);
    for (unsigned from = 0; from < 64; from++) {
        for (unsigned i = 0; i < 6; i++)
            memcpy(mixed + (size_t)i * 8, (from >> i & 1 ? a : b) + (size_t)i * 8, 8);
        const bool is_one = memcmp(mixed, a, sizeof(a)) == 0 || memcmp(mixed, b, sizeof(b)) == 0;
        assert_int_equal(rpc_header_load(mixed, &read), is_one);
    }
}

static const struct rpc_hello hello = {.worker = 3,
                                       .calls = 16,
                                       .calls_back = 2,
                                       .request_bytes = 1024,
                                       .result_bytes = 2048,
                                       .workers = 4,
                                       .handle = {.domain = 9, .key = 8, .bytes = 4096, .rights = 3}};

static void a_hello_is_read_again(void **state)
{
    (void)state;
    uint8_t bytes[RPC_HELLO_BYTES];
    struct rpc_hello read;
    rpc_hello_save(&hello, bytes);
    assert_int_equal(rpc_hello_load(bytes, sizeof(bytes), &read), 0);
    assert_int_equal(read.worker, 3);
    assert_int_equal(read.calls, 16);
    assert_int_equal(read.calls_back, 2);
    assert_int_equal(read.request_bytes, 1024);
    assert_int_equal(read.result_bytes, 2048);
    assert_int_equal(read.workers, 4);
    assert_int_equal(read.handle.key, 8);
    assert_int_equal(read.handle.bytes, 4096);
}

static void expect_refused(struct rpc_hello wrong)
{
    uint8_t bytes[RPC_HELLO_BYTES];
    struct rpc_hello read;
    rpc_hello_save(&wrong, bytes);
    assert_int_equal(rpc_hello_load(bytes, sizeof(bytes), &read), -EPROTO);
}

#define WRONG(field, value)                                                                                  \
    do {                                                                                                     \
        struct rpc_hello wrong = hello;                                                                      \
        wrong.field = value;                                                                                 \
        expect_refused(wrong);                                                                               \
    } while (0)

static void hellos_out_of_bounds_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[RPC_HELLO_BYTES];
    struct rpc_hello read;
    WRONG(calls, 0);
    WRONG(calls, TARN_RPC_CALLS_MAX + 1);
    WRONG(calls_back, TARN_RPC_CALLS_MAX + 1);
    WRONG(request_bytes, TARN_RPC_BYTES_MAX + 8);
    WRONG(request_bytes, 1020 + 1);
    WRONG(result_bytes, UINT32_MAX);
    WRONG(workers, TARN_RPC_WORKERS_MAX + 1);
    rpc_hello_save(&hello, bytes);
    assert_int_equal(rpc_hello_load(bytes, sizeof(bytes) - 1, &read), -EPROTO);
    bytes[4]++;
    assert_int_equal(rpc_hello_load(bytes, sizeof(bytes), &read), -EPROTO);
    bytes[4]--;
    bytes[0]++;
    assert_int_equal(rpc_hello_load(bytes, sizeof(bytes), &read), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_has_its_format), cmocka_unit_test(a_header_is_read_again),
        cmocka_unit_test(damage_is_noticed),       cmocka_unit_test(mixtures_are_noticed),
        cmocka_unit_test(a_hello_is_read_again),   cmocka_unit_test(hellos_out_of_bounds_are_refused)};
    return cmocka_run_group_tests_name("rpc/wire", tests, NULL, NULL);
}
