/*
 * NVMe namespaces: what devices say, requests cut into commands, statuses, and what is refused. With an
 * argument, the character node of a namespace whose contents may be lost, also what the provider does on a
 * device; a second one is what carries the commands there (`uring`, `uring, polled` or `ioctl`), as the log
 * has it.
 */
#include "base/random.h"
#include "drive/nvme/nvme.h"
#include "drive/nvme_testing.h"

#define BLOCK ((uint32_t)512)

/* ---- what devices say --------------------------------------------------------------------------- */

static void test_controller(void **state)
{
    (void)state;
    uint8_t data[NVME_IDENTIFY_BYTES] = {0};
    struct nvme_namespace ns = {0};
    nvme_parse_controller(&ns, data);
    assert_int_equal(ns.transfer_bytes_max, UINT64_MAX); /* 0: no limit */
    assert_int_equal(ns.discard_blocks_max, 0);
    assert_false(ns.write_cache);
    assert_string_equal(ns.model, "");

    memcpy(data + 24, "Model \"x\"                               ", 40);
    memcpy(data + 64, "1.0     ", 8);
    data[77] = 7;
    data[520] = 4;
    data[525] = 1;
    nvme_parse_controller(&ns, data);
    assert_int_equal(ns.transfer_bytes_max, 128 * 4096);
    assert_int_equal(ns.discard_blocks_max, UINT32_MAX);
    assert_true(ns.write_cache);
    assert_string_equal(ns.model, "Model \"x\"");
    assert_string_equal(ns.firmware, "1.0");

    data[520] = (uint8_t)~4;
    data[525] = 0xfe; /* other bits: not the cache */
    nvme_parse_controller(&ns, data);
    assert_int_equal(ns.discard_blocks_max, 0);
    assert_false(ns.write_cache);
    for (unsigned exponent = 21; exponent < 256; exponent++) { /* a shift beyond the word */
        data[77] = (uint8_t)exponent;
        nvme_parse_controller(&ns, data);
        assert_int_equal(ns.transfer_bytes_max, UINT64_MAX);
    }
    memset(data, 0xff, sizeof(data)); /* text without an end */
    nvme_parse_controller(&ns, data);
    assert_int_equal(strlen(ns.model), 40);
    assert_int_equal(strlen(ns.firmware), 8);
}

static void test_limits(void **state)
{
    (void)state;
    uint8_t data[NVME_IDENTIFY_BYTES] = {0};
    struct nvme_namespace ns = {.discard_blocks_max = UINT32_MAX};
    nvme_parse_limits(&ns, data);
    assert_int_equal(ns.discard_blocks_max, UINT32_MAX);
    base_store_le32(data + 4, 1000);
    base_store_le64(data + 8, UINT64_MAX);
    nvme_parse_limits(&ns, data);
    assert_int_equal(ns.discard_blocks_max, 1000);
    base_store_le64(data + 8, 10);
    nvme_parse_limits(&ns, data);
    assert_int_equal(ns.discard_blocks_max, 10);
    ns.discard_blocks_max = 0; /* a limit of what it cannot do */
    nvme_parse_limits(&ns, data);
    assert_int_equal(ns.discard_blocks_max, 0);
}

static void make_namespace(uint8_t data[NVME_IDENTIFY_BYTES], unsigned format, uint8_t shift)
{
    memset(data, 0, NVME_IDENTIFY_BYTES);
    base_store_le64(data, 2048);
    data[25] = (uint8_t)format; /* the last that there is */
    data[26] = (uint8_t)((format & 15) | (format >> 4) << 5);
    data[128 + 4 * format + 2] = shift;
}

static void test_namespace(void **state)
{
    (void)state;
    uint8_t data[NVME_IDENTIFY_BYTES];
    struct nvme_namespace ns = {0};
    const unsigned formats[] = {0, 7, 15, 16, 37, 63};
    for (size_t i = 0; i < base_array_count(formats); i++) {
        for (unsigned shift = 0; shift < 256; shift++) {
            make_namespace(data, formats[i], (uint8_t)shift);
            bool good = shift >= 9 && shift <= 16;
            assert_true((nvme_parse_namespace(&ns, data) == NULL) == good);
            if (good)
                assert_int_equal(ns.block_bytes, 1U << shift);
        }
    }
    assert_int_equal(ns.block_count, 2048);
    make_namespace(data, 15, 12);
    data[26] |= 0x60; /* with no more than 16 formats these bits mean nothing */
    assert_null(nvme_parse_namespace(&ns, data));

    /* what writes should end at */
    base_store_le16(data + 64, 3);
    assert_null(nvme_parse_namespace(&ns, data));
    assert_int_equal(ns.write_bytes, 4096); /* the device does not say that it tells */
    data[24] = 0x10;
    assert_null(nvme_parse_namespace(&ns, data));
    assert_int_equal(ns.write_bytes, 4 * 4096);
    const uint16_t odd[] = {2, 16, 0x7fff, 0xffff}; /* no power of two, or more than is understood */
    for (size_t i = 0; i < base_array_count(odd); i++) {
        base_store_le16(data + 64, odd[i]);
        assert_null(nvme_parse_namespace(&ns, data));
        assert_int_equal(ns.write_bytes, 4096);
    }
}

static void test_hostile_namespace(void **state)
{
    (void)state;
    uint8_t data[NVME_IDENTIFY_BYTES];
    struct nvme_namespace ns = {0};
    make_namespace(data, 0, 9);
    base_store_le64(data, 0);
    assert_non_null(strstr(nvme_parse_namespace(&ns, data), "empty"));
    base_store_le64(data, INT64_MAX >> 9);
    assert_null(nvme_parse_namespace(&ns, data));
    base_store_le64(data, (INT64_MAX >> 9) + 1);
    assert_non_null(strstr(nvme_parse_namespace(&ns, data), "larger"));
    make_namespace(data, 3, 9);
    data[25] = 2; /* it has three formats, and uses the fourth */
    assert_non_null(strstr(nvme_parse_namespace(&ns, data), "contradicts"));
    make_namespace(data, 3, 9);
    data[128 + 12] = 8;
    assert_non_null(strstr(nvme_parse_namespace(&ns, data), "metadata"));
    make_namespace(data, 3, 9);
    data[29] = 1;
    assert_non_null(strstr(nvme_parse_namespace(&ns, data), "metadata"));
    memset(data, 0xff, sizeof(data));
    assert_non_null(nvme_parse_namespace(&ns, data));

    struct base_random random;
    unsigned good = 0;
    base_random_init(&random, 5);
    for (int i = 0; i < 20000; i++) {
        for (size_t j = 0; j < 384; j += 8)
            base_store_le64(data + j, base_random_u64(&random));
        base_store_le64(data, base_random_u64(&random) >> base_random_below(&random, 64));
        data[29] &= 0xf8;
        for (size_t entry = 128; entry < 384; entry += 4) { /* else nearly all have metadata */
            base_store_le16(data + entry, 0);
            data[entry + 2] &= 31;
        }
        if (nvme_parse_namespace(&ns, data) != NULL)
            continue;
        good++;
        assert_true(base_is_power_of_two(ns.block_bytes) && ns.block_bytes >= 512 && ns.block_bytes <= 65536);
        assert_true(base_is_power_of_two(ns.write_bytes) && ns.write_bytes >= ns.block_bytes);
        assert_true(ns.block_count > 0 && ns.block_count <= (uint64_t)INT64_MAX / ns.block_bytes);
    }
    assert_true(good > 1000);
}

/* ---- statuses ------------------------------------------------------------------------------------ */

static void test_statuses(void **state)
{
    (void)state;
    assert_int_equal(nvme_error(0), 0);
    assert_int_equal(nvme_error(-EINTR), -EIO); /* a reset: nobody was interrupted */
    assert_int_equal(nvme_error(-EINVAL), -EIO);
    assert_int_equal(nvme_error(0x0001), -EOPNOTSUPP);
    assert_int_equal(nvme_error(0x0081), -ENOSPC);
    assert_int_equal(nvme_error(0x0020), -EACCES);
    assert_int_equal(nvme_error(0x0286), -EACCES);
    assert_int_equal(nvme_error(0x0281), -EIO);
    assert_int_equal(nvme_error(0x4281), -EIO);    /* "do not retry" is not part of the code */
    assert_int_equal(nvme_error(0x6081), -ENOSPC); /* "more" neither */
    assert_string_equal(nvme_outcome_text(0x4281), "unrecovered read error");
    assert_string_equal(nvme_outcome_text(0x0080), "beyond the end of the namespace");
    assert_int_equal(NVME_STATUS_TYPE(0x4281), 2);
    assert_int_equal(NVME_STATUS_CODE(0x4281), 0x81);
    for (int outcome = -200; outcome < 0x8000; outcome++) {
        assert_true((nvme_error(outcome) == 0) == ((outcome & 0x7ff) == 0 && outcome >= 0) || outcome > 0);
        assert_true(nvme_error(outcome) <= 0);
        assert_true(strlen(nvme_outcome_text(outcome)) > 0);
    }
}

/* ---- requests cut into commands ------------------------------------------------------------------ */

#define SPACE ((uint64_t)2 << 20)

/* Marks what a command moves, as a device would, and checks the command alone. */
static void carry_out(const struct nvme_namespace *ns, const struct nvme_command *command,
                      const uint8_t *space, uint8_t *device)
{
    const struct nvme_passthru_cmd64 *words = &command->words;
    uint64_t at = (words->cdw10 | (uint64_t)words->cdw11 << 32) * ns->block_bytes;
    uint64_t bytes = ((words->cdw12 & 0xffff) + 1) * (uint64_t)ns->block_bytes;
    assert_int_equal(words->nsid, ns->nsid);
    assert_true(bytes <= ns->transfer_bytes_max);
    struct iovec one = {(void *)(uintptr_t)words->addr,
                        words->data_len}; /* NOLINT(performance-no-int-to-ptr) */
    const struct iovec *vectors = command->vectored ? (const struct iovec *)(uintptr_t)words->addr
                                                    : &one; /* NOLINT(performance-no-int-to-ptr) */
    uint32_t count = command->vectored ? words->vec_cnt : 1;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(vectors[i].iov_len > 0 && vectors[i].iov_len <= bytes);
        assert_true((const uint8_t *)vectors[i].iov_base >= space);
        memcpy(device + at, vectors[i].iov_base, vectors[i].iov_len);
        at += vectors[i].iov_len;
        bytes -= vectors[i].iov_len;
    }
    assert_int_equal(bytes, 0); /* memory and blocks agree */
}

/* Random vectors, empty ones too, and random limits: each byte arrives once, in its place. */
static void test_cutting(void **state)
{
    (void)state;
    uint8_t *space = malloc(SPACE), *device = malloc(SPACE), *expected = malloc(SPACE);
    struct base_random random;
    base_random_init(&random, 11);
    for (uint64_t i = 0; i < SPACE; i += 8)
        base_store_le64(space + i, base_random_u64(&random));
    for (int round = 0; round < 1000; round++) {
        struct nvme_namespace ns = {.nsid = 7, .block_bytes = BLOCK};
        struct iovec vectors[40], before[40];
        ns.transfer_bytes_max = (1 + base_random_below(&random, 64)) * BLOCK;
        struct drive_request request = {.op = DRIVE_WRITE,
                                        .durable = round % 2 == 0,
                                        .offset = base_random_below(&random, 100) * BLOCK,
                                        .iov = vectors,
                                        .iov_count = 1 + (uint32_t)base_random_below(&random, 40)};
        uint64_t at = request.offset;
        memset(device, 0, SPACE / 2);
        memset(expected, 0, SPACE / 2);
        for (uint32_t i = 0; i < request.iov_count; i++) {
            uint64_t bytes = base_random_below(&random, i % 5 == 0 ? 90 : 8) * BLOCK;
            vectors[i] = (struct iovec){space + base_random_below(&random, SPACE / 2), bytes};
            memcpy(expected + at, vectors[i].iov_base, bytes);
            at += bytes;
        }
        memcpy(before, vectors, sizeof(vectors));
        request.expected_bytes = at - request.offset;
        nvme_cut_begin(&request);
        uint64_t commands = 0;
        for (; nvme_cut_left(&request); commands++) {
            struct nvme_command command;
            nvme_cut_next(&ns, &request, &command);
            assert_int_equal(command.words.opcode, 1);
            assert_int_equal(command.words.cdw12 >> 16, request.durable ? 0x4000 : 0);
            carry_out(&ns, &command, space, device);
        }
        assert_true(memcmp(device, expected, SPACE / 2) == 0); /* cmocka compares byte by byte */
        assert_memory_equal(vectors, before, request.iov_count * sizeof(*vectors));
        assert_true(commands <= request.iov_count + request.expected_bytes / ns.transfer_bytes_max + 1);
    }
    free(expected);
    free(device);
    free(space);
}

/* High block numbers, the longest transfer that a command can name, and commands that move nothing. */
static void test_commands(void **state)
{
    (void)state;
    static uint8_t memory[4096];
    struct nvme_namespace ns = {
        .nsid = 2, .block_bytes = BLOCK, .transfer_bytes_max = UINT64_MAX, .discard_blocks_max = 1000};
    struct nvme_command command;
    struct iovec vector = {memory, (size_t)40 << 20};
    struct drive_request read = {.op = DRIVE_READ,
                                 .offset = UINT64_C(0x123456789a) * BLOCK,
                                 .iov = &vector,
                                 .iov_count = 1,
                                 .expected_bytes = vector.iov_len};
    nvme_cut_begin(&read);
    nvme_cut_next(&ns, &read, &command);
    assert_int_equal(command.words.opcode, 2);
    assert_int_equal(command.words.cdw10, 0x3456789a);
    assert_int_equal(command.words.cdw11, 0x12);
    assert_int_equal(command.words.cdw12, 0xffff); /* 65,536 blocks */
    assert_int_equal(command.words.data_len, 32 << 20);
    nvme_cut_next(&ns, &read, &command);
    assert_int_equal(command.words.cdw10, 0x3457789a);
    assert_int_equal(command.words.data_len, 8 << 20);
    assert_false(nvme_cut_left(&read));

    struct drive_request flush = {.op = DRIVE_FLUSH};
    nvme_cut_begin(&flush);
    nvme_cut_next(&ns, &flush, &command);
    assert_int_equal(command.words.opcode, 0);
    assert_int_equal(command.words.nsid, 2);
    assert_int_equal(command.words.data_len, 0);
    assert_false(nvme_cut_left(&flush));

    struct drive_request discard = {.op = DRIVE_DISCARD,
                                    .offset = UINT64_C(0x500000001) * BLOCK,
                                    .expected_bytes = 2500 * (uint64_t)BLOCK};
    uint32_t blocks[] = {1000, 1000, 500};
    uint64_t at = UINT64_C(0x500000001);
    nvme_cut_begin(&discard);
    for (size_t i = 0; i < base_array_count(blocks); i++) {
        nvme_cut_next(&ns, &discard, &command);
        assert_int_equal(command.words.opcode, 9);
        assert_int_equal(command.words.cdw10, 0);
        assert_int_equal(command.words.cdw11, 4);
        assert_int_equal(command.words.data_len, 16);
        assert_int_equal(command.words.addr, (uintptr_t)discard.cut.range);
        assert_int_equal(base_load_le32(discard.cut.range), 0);
        assert_int_equal(base_load_le32(discard.cut.range + 4), blocks[i]);
        assert_int_equal(base_load_le64(discard.cut.range + 8), at);
        at += blocks[i];
    }
    assert_false(nvme_cut_left(&discard));
}

/* ---- paths ----------------------------------------------------------------------------------------- */

static void refuse(struct tarn_node *node, const char *path, enum drive_provider_choice provider, int error)
{
    struct drive *drive = NULL;
    const struct drive_options options = {.provider = provider, .create_bytes = 1 << 20};
    assert_int_equal(drive_open(node, path, &options, &drive), error);
    assert_null(drive);
}

/* What is no namespace, whether nvme is asked for or not. */
static void test_wrong_nodes(void **state)
{
    (void)state;
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    assert_false(nvme_is_node("/dev/null"));
    assert_false(nvme_is_node("/dev/no such node"));
    refuse(node, "/dev/null", DRIVE_PROVIDER_AUTO, -ENOTSUP);
    assert_non_null(strstr(log.last, "no NVMe namespace"));
    refuse(node, "/dev/null", DRIVE_PROVIDER_NVME, -ENOTSUP);
    assert_non_null(strstr(log.last, "nvme was asked for"));
    refuse(node, "nvme.no-such-file", DRIVE_PROVIDER_NVME, -ENOENT); /* and none is made */
    assert_int_equal(access("nvme.no-such-file", F_OK), -1);
    refuse(node, ".", DRIVE_PROVIDER_NVME, -ENOTSUP);
    assert_int_equal(testing_log_count(&log), 4);
    task_node_close(node);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_controller), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_namespace),  cmocka_unit_test(test_hostile_namespace),
        cmocka_unit_test(test_statuses),   cmocka_unit_test(test_cutting),
        cmocka_unit_test(test_commands),   cmocka_unit_test(test_wrong_nodes),
    };
    if (argc > 2)
        return nvme_testing_device(argv[1], argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
