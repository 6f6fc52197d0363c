/* What spaces must do on every provider: run by the tests of each, in tasks and in plain threads. */
#include "space/conformance_testing.h"
#include "base/random.h"

#define SOON TESTING_LATE

/* ---- Table I ------------------------------------------------------------------------------------ */

static void fill(uint8_t *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void write_and_read(struct space_testing *self)
{
    const uint64_t bytes = 5 * TESTING_CHUNK_BYTES + 1234;
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "graph", 6), *joined;
    struct tarn_space_region *region = space_testing_alloc(of, bytes, TARN_SPACE_BULK), *same;
    struct tarn_space_info info;
    uint8_t *mine, *theirs;
    tarn_space_info(region, &info);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(info.servers, TESTING_SERVERS);
    assert_int_equal(tarn_space_map(region, SOON, (void **)&mine), 0);
    fill(mine, bytes, 3);
    assert_int_equal(tarn_space_write(region, mine, bytes, SOON), 0);

    assert_int_equal(tarn_space_join_ns(other, "graph", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_init(joined, info.address, 0, SOON, &same), 0);
    assert_int_equal(tarn_space_map(same, SOON, (void **)&theirs), 0);
    assert_int_equal(tarn_space_read(same, theirs, bytes, SOON), 0);
    assert_memory_equal(mine, theirs, bytes);
    tarn_space_unmap(same);
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);

    tarn_space_unmap(region);
    assert_int_equal(tarn_space_free(region, SOON), 0);
    assert_int_equal(tarn_space_free(region, SOON), -ENOENT);
    tarn_space_drop(region);
    assert_int_equal(tarn_space_init(of, info.address, 0, SOON, &same), -ENOENT);
    assert_int_equal(tarn_space_delete_ns(of, SOON), 0);
    assert_int_equal(tarn_space_delete_ns(of, SOON), -ENOENT);
    tarn_space_leave_ns(of);
    assert_int_equal(tarn_space_join_ns(self->space, "graph", NULL, 0, SOON, &of), -ENOENT);
}

static void what_one_writes_another_reads(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, write_and_read);
}

/* ---- any byte ----------------------------------------------------------------------------------- */

enum { ROOM = 3 * 65536 + 777 };

/* Reads and writes of random parts, against the same done to plain memory. */
static void change_any_bytes(struct space_testing *self)
{
    static uint8_t expected[ROOM], found[ROOM], data[ROOM];
    struct base_random random;
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "bytes", 4);
    struct tarn_space_region *region = space_testing_alloc(of, ROOM, TARN_SPACE_BULK);
    void *mapped;
    base_random_init(&random, 5);
    memset(expected, 0, ROOM);
    assert_int_equal(tarn_space_map(region, SOON, &mapped), 0);
    memset(mapped, 0, ROOM);
    assert_int_equal(tarn_space_write(region, mapped, ROOM, SOON), 0);
    for (unsigned i = 0; i < testing_times(self->testing, 300); i++) {
        const uint64_t offset = base_random_below(&random, ROOM + 1);
        const uint64_t most = i % 3 == 0 ? ROOM - offset : base_min(ROOM - offset, UINT64_C(100));
        const uint64_t bytes = base_random_below(&random, most + 1);
        if (i % 2 == 0) {
            base_random_fill(&random, data, bytes);
            memcpy(expected + offset, data, bytes);
            assert_int_equal(tarn_space_write_at(region, offset, data, bytes, SOON), 0);
        } else {
            memset(found, 0xee, ROOM);
            assert_int_equal(tarn_space_read_at(region, offset, found, bytes, SOON), 0);
            assert_memory_equal(found, expected + offset, bytes);
            assert_true(bytes == ROOM || found[bytes] == 0xee);
        }
    }
    assert_int_equal(tarn_space_read(region, mapped, ROOM, SOON), 0);
    assert_memory_equal(mapped, expected, ROOM);
    assert_int_equal(tarn_space_read_at(region, ROOM, found, 1, SOON), -EINVAL);
    assert_int_equal(tarn_space_read_at(region, 1, found, ROOM, SOON), -EINVAL);
    assert_int_equal(tarn_space_read_at(region, UINT64_MAX, found, 2, SOON), -EINVAL);
    assert_int_equal(tarn_space_read(region, found, 8, SOON), -EINVAL);
    tarn_space_unmap(region);
    assert_int_equal(tarn_space_read(region, mapped, 8, SOON), -EINVAL);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void any_byte_is_read_and_written(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, change_any_bytes);
}

/* A part of a region is a region of its own. */
static void use_parts(struct space_testing *self)
{
    enum { AT = 65536 + 100, BYTES = 65536 * 2 + 5 };
    static uint8_t data[BYTES], found[BYTES + 200];
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "parts", 8);
    struct tarn_space_region *first = space_testing_alloc(of, TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    struct tarn_space_region *whole = space_testing_alloc(of, 5 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK),
                             *part;
    struct tarn_space_info info, part_info;
    tarn_space_info(whole, &info);
    assert_int_equal(tarn_space_init(of, info.address + AT, BYTES, SOON, &part), 0);
    tarn_space_info(part, &part_info);
    assert_int_equal(part_info.address, info.address + AT);
    assert_int_equal(part_info.bytes, BYTES);
    assert_int_equal(part_info.number, info.number);
    testing_fill(data, BYTES, 8);
    assert_int_equal(tarn_space_write_at(part, 0, data, BYTES, SOON), 0);
    assert_int_equal(tarn_space_write_at(part, 1, data, BYTES, SOON), -EINVAL);
    assert_int_equal(tarn_space_read_at(whole, AT - 100, found, BYTES + 200, SOON), 0);
    assert_memory_equal(found + 100, data, BYTES);
    tarn_space_drop(part);
    assert_int_equal(tarn_space_init(of, info.address + AT, 0, SOON, &part), 0);
    tarn_space_info(part, &part_info);
    assert_int_equal(part_info.bytes, 5 * TESTING_CHUNK_BYTES - AT);
    tarn_space_drop(part);
    assert_int_equal(tarn_space_init(of, info.address + AT, 5 * TESTING_CHUNK_BYTES, SOON, &part), -ENOENT);
    assert_int_equal(tarn_space_init(of, info.address + 5 * TESTING_CHUNK_BYTES, 1, SOON, &part), -ENOENT);
    assert_int_equal(tarn_space_init(of, UINT64_MAX, 0, SOON, &part), -ENOENT);
    tarn_space_drop(whole);
    tarn_space_drop(first);
    tarn_space_leave_ns(of);
}

static void a_part_is_a_region(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, use_parts);
}

/* ---- many at once ------------------------------------------------------------------------------- */

enum { OPS = 300, STEP = 1000 };

static void post_many(struct space_testing *self)
{
    static uint8_t data[OPS][STEP], found[OPS][STEP];
    static struct tarn_space_op ops[OPS];
    struct iovec iov[OPS][2];
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "many", 6);
    struct tarn_space_region *region = space_testing_alloc(of, OPS * STEP, TARN_SPACE_BULK);
    void *mapped;
    assert_int_equal(tarn_space_map(region, SOON, &mapped), 0); /* which connects */
    for (unsigned i = 0; i < OPS; i++) {
        testing_fill(data[i], STEP, i);
        iov[i][0] = (struct iovec){.iov_base = data[i], .iov_len = 300};
        iov[i][1] = (struct iovec){.iov_base = data[i] + 300, .iov_len = STEP - 300};
        ops[i] = (struct tarn_space_op){.kind = TARN_FABRIC_WRITE,
                                        .region = region,
                                        .offset = (uint64_t)i * STEP,
                                        .iov = iov[i],
                                        .iov_count = 2};
    }
    tarn_space_post(self->space, ops, OPS);
    assert_int_equal(tarn_space_wait(self->space, ops, OPS, SOON), 0);
    for (unsigned i = 0; i < OPS; i++) {
        iov[i][0] = (struct iovec){.iov_base = found[i], .iov_len = STEP - 1};
        iov[i][1] = (struct iovec){.iov_base = found[i] + STEP - 1, .iov_len = 1};
        ops[i].kind = TARN_FABRIC_READ;
    }
    tarn_space_post(self->space, ops, OPS);
    for (unsigned i = 0; i < OPS; i++) {
        while (!tarn_space_test(self->space, &ops[i]))
            assert_int_equal(task_sleep(1000), 0);
        assert_int_equal(ops[i].result, 0);
    }
    assert_memory_equal(found, data, sizeof(data));
    struct tarn_space_op wrong[] = {{.kind = TARN_FABRIC_SEND, .region = region},
                                    {.kind = TARN_FABRIC_READ, .region = region, .offset = OPS * STEP + 1},
                                    {.kind = TARN_FABRIC_CAS, .region = region},
                                    {.kind = TARN_FABRIC_READ, .region = region}};
    tarn_space_post(self->space, wrong, 4);
    assert_int_equal(tarn_space_wait(self->space, wrong, 4, SOON), -EINVAL);
    assert_int_equal(wrong[0].result, -EINVAL);
    assert_int_equal(wrong[1].result, -EINVAL);
    assert_int_equal(wrong[2].result, -EACCES);
    assert_int_equal(wrong[3].result, 0);
    tarn_space_unmap(region);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void many_are_under_way(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, post_many);
}

/* Operations are taken as they finish, each once. */
static void take_any(struct space_testing *self)
{
    enum { LONG = 8, BYTES = 70000 };
    static uint8_t found[LONG][BYTES];
    static struct tarn_space_op ops[LONG];
    struct iovec iov[LONG];
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "any", 9);
    struct tarn_space_region *region = space_testing_alloc(of, LONG * BYTES, TARN_SPACE_BULK);
    bool is_taken[LONG] = {false};
    uint8_t *memory;
    uint32_t index, first = 0;
    assert_int_equal(tarn_space_map(region, SOON, (void **)&memory), 0);
    testing_fill(memory, LONG * BYTES, 3);
    assert_int_equal(tarn_space_write(region, memory, LONG * BYTES, SOON), 0);
    for (unsigned i = 0; i < LONG; i++) {
        iov[i] = (struct iovec){.iov_base = found[i], .iov_len = BYTES};
        ops[i] = (struct tarn_space_op){.kind = TARN_FABRIC_READ,
                                        .region = region,
                                        .offset = (uint64_t)i * BYTES,
                                        .iov = &iov[i],
                                        .iov_count = 1};
    }
    tarn_space_post(self->space, ops, LONG);
    for (unsigned taken = 0; taken < LONG; taken++) {
        while (is_taken[first])
            first++; /* those before it were all told */
        uint32_t end = first + 1;
        while (end < LONG && !is_taken[end])
            end++;
        assert_int_equal(tarn_space_wait_any(self->space, &ops[first], end - first, SOON, &index), 0);
        assert_true(index < end - first && !is_taken[first + index]);
        is_taken[first + index] = true;
        assert_int_equal(ops[first + index].result, 0);
    }
    assert_memory_equal(found, memory, sizeof(found));
    assert_int_equal(tarn_space_wait_any(self->space, ops, LONG, task_now(), &index),
                     0); /* they are finished */
    assert_int_equal(tarn_space_wait_any(self->space, ops, 0, SOON, &index), -EINVAL);
    tarn_space_unmap(region);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void any_is_waited_for(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, take_any);
}

/* Tasks that use one space at the same time, with operations that are longer than the pieces there are. */
struct sharer {
    struct tarn_space_region *region;
    unsigned number;
};

static void use_share(void *arg)
{
    const struct sharer *sharer = arg;
    enum { BYTES = 40000 };
    uint8_t *bytes = test_malloc(2 * BYTES);
    for (unsigned round = 0; round < 20; round++) {
        testing_fill(bytes, BYTES, sharer->number * 100 + round);
        assert_int_equal(
            tarn_space_write_at(sharer->region, (uint64_t)sharer->number * BYTES, bytes, BYTES, SOON), 0);
        assert_int_equal(
            tarn_space_read_at(sharer->region, (uint64_t)sharer->number * BYTES, bytes + BYTES, BYTES, SOON),
            0);
        assert_memory_equal(bytes, bytes + BYTES, BYTES);
    }
    test_free(bytes);
}

static void share_space(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "share", 6);
    struct tarn_space_region *region = space_testing_alloc(of, 6 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    struct sharer sharers[8];
    struct testing_job jobs[8];
    for (unsigned i = 0; i < 8; i++) {
        sharers[i] = (struct sharer){.region = region, .number = i};
        testing_start(self->testing, &jobs[i], 0, use_share, &sharers[i]);
    }
    for (unsigned i = 0; i < 8; i++)
        testing_join(&jobs[i]);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void share_in_tasks(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, share_space);
}

static void tasks_share_a_space_in_tasks(void **state)
{
    testing_run(state, share_in_tasks, true);
}

/* ---- words -------------------------------------------------------------------------------------- */

static void swap_words(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "words", 4), *joined;
    const struct tarn_space_alloc_options options = {.name = "locks", .memory_class = TARN_SPACE_WORDS};
    struct tarn_space_region *words, *same, *bulk = space_testing_alloc(of, 4096, TARN_SPACE_BULK);
    uint64_t before, zero[2] = {0, 0};
    assert_int_equal(tarn_space_alloc(of, 2 * TESTING_CHUNK_BYTES, &options, SOON, &words), 0);
    assert_int_equal(tarn_space_write_at(words, TESTING_CHUNK_BYTES - 8, zero, 16, SOON), 0);
    assert_int_equal(tarn_space_join_ns(other, "words", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_find(joined, "locks", SOON, &same), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(tarn_space_faa(words, TESTING_CHUNK_BYTES, 2, SOON, &before), 0);
        assert_int_equal(before, i * 5);
        assert_int_equal(tarn_space_faa(same, TESTING_CHUNK_BYTES, 3, SOON, &before), 0);
        assert_int_equal(before, i * 5 + 2);
    }
    assert_int_equal(tarn_space_cas(same, TESTING_CHUNK_BYTES - 8, 0, 77, SOON, &before), 0);
    assert_int_equal(before, 0);
    assert_int_equal(tarn_space_cas(words, TESTING_CHUNK_BYTES - 8, 0, 78, SOON, &before), 0);
    assert_int_equal(before, 77);
    before = 9;
    assert_int_equal(tarn_space_cas(words, 4, 0, 1, SOON, &before), -EINVAL);
    assert_int_equal(tarn_space_faa(words, 2 * TESTING_CHUNK_BYTES, 1, SOON, &before), -EINVAL);
    assert_int_equal(tarn_space_faa(bulk, 0, 1, SOON, &before), -EACCES);
    assert_int_equal(before, 9);
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_drop(words);
    tarn_space_drop(bulk);
    tarn_space_leave_ns(of);
}

static void words_are_swapped(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, swap_words);
}

/* A word all of whose bytes are the same. */
static uint64_t pattern(uint64_t byte)
{
    return byte * UINT64_C(0x0101010101010101);
}

enum { WORDS_TOGETHER = 8, SWAP_ROUNDS = 100 };

/* READ words, on both sides of a chunk's end, each by an operation of its own, while it is swapped. */
static void read_swapped_words(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "words", 2);
    struct tarn_space_region *region = space_testing_alloc(of, 2 * TESTING_CHUNK_BYTES, TARN_SPACE_WORDS);
    const uint64_t at = TESTING_CHUNK_BYTES - WORDS_TOGETHER / 2 * 8;
    uint64_t words[WORDS_TOGETHER] = {0};
    assert_int_equal(tarn_space_write_at(region, at, words, sizeof(words), SOON), 0);
    for (uint64_t round = 0; round < SWAP_ROUNDS; round++) {
        struct tarn_space_op ops[2 * WORDS_TOGETHER];
        struct iovec iov[WORDS_TOGETHER];
        for (uint64_t i = 0; i < WORDS_TOGETHER; i++) {
            iov[i] = (struct iovec){.iov_base = &words[i], .iov_len = 8};
            ops[i] = (struct tarn_space_op){.kind = TARN_FABRIC_CAS,
                                            .region = region,
                                            .offset = at + i * 8,
                                            .compare = pattern(round),
                                            .operand = pattern(round + 1)};
            ops[WORDS_TOGETHER + i] = (struct tarn_space_op){.kind = TARN_FABRIC_READ,
                                                             .region = region,
                                                             .offset = at + i * 8,
                                                             .iov = &iov[i],
                                                             .iov_count = 1};
        }
        tarn_space_post(self->space, ops, 2 * WORDS_TOGETHER);
        assert_int_equal(tarn_space_wait(self->space, ops, 2 * WORDS_TOGETHER, SOON), 0);
        for (uint64_t i = 0; i < WORDS_TOGETHER; i++) {
            assert_int_equal(ops[i].before, pattern(round));
            assert_true(words[i] == pattern(round) || words[i] == pattern(round + 1));
        }
    }
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void words_are_read_whole(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, read_swapped_words);
}

#define SUITE(EACH)                                                                                          \
    EACH(what_one_writes_another_reads)                                                                      \
    EACH(any_byte_is_read_and_written)                                                                       \
    EACH(a_part_is_a_region)                                                                                 \
    EACH(many_are_under_way)                                                                                 \
    EACH(any_is_waited_for)                                                                                  \
    EACH(words_are_swapped)                                                                                  \
    EACH(words_are_read_whole)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_conformance_tests[] = {
    SUITE(TESTING_EACH) cmocka_unit_test(tasks_share_a_space_in_tasks)};

const struct testing_suite space_conformance = TESTING_SUITE(space_conformance_tests);
