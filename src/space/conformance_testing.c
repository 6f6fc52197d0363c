/* What spaces must do on every provider: run by the tests of each, in tasks and in plain threads. */
#include "space/conformance_testing.h"

#define SOON TESTING_SECONDS(60)

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

#define SUITE(EACH) EACH(what_one_writes_another_reads)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_conformance_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_conformance = TESTING_SUITE(space_conformance_tests);
