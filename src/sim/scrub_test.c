/* Does scrubbing keep its rate and its pauses, in virtual time? */
#include "base/base.h"
#include "sim/sim.h"
#include "sim/testing.h"
#include <tarn/depot.h>

#define STORE_BYTES (UINT64_C(16) << 20)
#define RATE        (UINT64_C(1) << 20)
#define READ_BYTES  (UINT64_C(128) << 10) /* at once: segments of so small a store are no larger */
#define HOUR_NS     (UINT64_C(3600) * BASE_NS_PER_SECOND)
#define KEYS        2000
#define VALUE_BYTES 4000

struct bench {
    struct sim_world *world;
    struct sim_node *node;
};

static struct tarn_depot *open_store(struct bench *bench, uint64_t rate_bytes)
{
    const struct tarn_depot_options options = {
        .create_bytes = STORE_BYTES, .mode = TARN_MODE_DEVICE, .scrub_rate_bytes = rate_bytes};
    struct tarn_depot *depot = NULL;
    base_assert(tarn_depot_open(sim_node_tarn(bench->node), "disk", &options, &depot) == 0);
    return depot;
}

static struct tarn_depot_stats stats_of(struct tarn_depot *depot)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(depot, &stats);
    return stats;
}

static void fill(struct bench *bench)
{
    static uint8_t value[VALUE_BYTES];
    struct tarn_depot *depot = open_store(bench, 0);
    for (uint32_t key = 0; key < KEYS; key++)
        base_assert(tarn_depot_put(depot, &key, sizeof(key), value, sizeof(value), NULL, NULL) == 0);
    base_assert(stats_of(depot).scrub_bytes == 0);
    base_assert(tarn_depot_close(depot) == 0);
}

/* What is read in each second is what may be, while there is something to read. */
static void read_at_rate(void *arg)
{
    struct bench *bench = arg;
    fill(bench);
    struct tarn_depot *depot = open_store(bench, RATE);
    uint64_t begin_ns = task_now();
    for (uint64_t second = 1; second <= 6; second++) {
        base_assert(task_sleep_until(begin_ns + second * BASE_NS_PER_SECOND) == 0);
        uint64_t bytes = stats_of(depot).scrub_bytes;
        base_assert(bytes <= second * RATE + READ_BYTES);
        base_assert(bytes + READ_BYTES + RATE / 64 >= second * RATE);
    }
    base_assert(stats_of(depot).scrub_passes == 0);
    base_assert(tarn_depot_close(depot) == 0); /* in the middle, and at once */
    base_assert(task_now() < begin_ns + 7 * BASE_NS_PER_SECOND);
}

/* Small stores are read once a day. */
static void read_daily(void *arg)
{
    struct bench *bench = arg;
    fill(bench);
    struct tarn_depot *depot = open_store(bench, RATE);
    base_assert(task_sleep(HOUR_NS / 60) == 0);
    struct tarn_depot_stats first = stats_of(depot);
    base_assert(first.scrub_passes == 1 && first.scrub_damaged == 0);
    base_assert(first.scrub_bytes >= KEYS * VALUE_BYTES && first.scrub_bytes < STORE_BYTES);
    base_assert(first.scrub_ended_ns > 0 && first.scrub_ended_ns <= task_wall(sim_node_tarn(bench->node)));
    base_assert(task_sleep(23 * HOUR_NS) == 0);
    base_assert(stats_of(depot).scrub_bytes == first.scrub_bytes);
    base_assert(task_sleep(HOUR_NS) == 0);
    struct tarn_depot_stats second = stats_of(depot);
    base_assert(second.scrub_passes == 2 && second.scrub_bytes == 2 * first.scrub_bytes);
    base_assert(second.scrub_ended_ns >= first.scrub_ended_ns + 23 * HOUR_NS);
    base_assert(tarn_depot_close(depot) == 0);
}

static void run(task_function *function)
{
    static const struct sim_drive_options drive = {.bytes = 2 * STORE_BYTES, .write_cache = true};
    struct sim_drive *disk;
    struct bench bench = {.world = sim_test_world(1)};
    base_assert(sim_drive_add(bench.world, "disk", &drive, &disk) == 0);
    bench.node = sim_test_node(bench.world, 1);
    sim_test_run(bench.world, bench.node, function, &bench);
    base_assert(sim_node_close(bench.node) == 0);
    sim_world_close(bench.world);
}

static void the_rate_is_kept(void)
{
    run(read_at_rate);
}

static void a_pass_begins_once_a_day(void)
{
    run(read_daily);
}

int main(void)
{
    const struct CMUnitTest tests[] = {SIM_TEST(the_rate_is_kept), SIM_TEST(a_pass_begins_once_a_day)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
