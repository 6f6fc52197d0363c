/*
 * Does a cluster of one member keep its promises if the power is cut at any moment: all or none of each multi, all that was
 * acknowledged, and epochs that only grow?
 */
#include "cluster/cluster.h"
#include "sim/testing.h"

#define DRIVE_BYTES (UINT64_C(4) << 20)
#define SEEDS       (TESTING_SLOW ? 30 : 200)
#define LIVES       3
#define WRITERS     3
#define NODES       4 /* of each writer, changed together */

struct bench;

/* What a writer has stored. */
struct writer {
    struct bench *bench;
    uint32_t number;
    uint64_t acknowledged; /* number of its last multi that was; its nodes hold it, and have that version */
    uint64_t tried;        /* number of its last multi */
};

struct bench {
    struct sim_world *world;
    struct sim_node *node;
    struct cluster *cluster;
    uint64_t epoch; /* the last one that was returned */
    bool ends;      /* this life ends in good order */
    struct writer writers[WRITERS];
    uint64_t multis, torn; /* acknowledged; stored without an acknowledgement */
};

static void name_node(const struct writer *writer, uint32_t node, char path[CLUSTER_PATH_MAX + 1])
{
    (void)snprintf(path, CLUSTER_PATH_MAX + 1, "/writer/%u/%u", writer->number, node);
}

/* The last node is there after every other multi only. */
static bool is_there(uint64_t number, uint32_t node)
{
    return number > 0 && (node + 1 < NODES || number % 2 == 0);
}

static int write_next(struct writer *writer)
{
    char paths[NODES][CLUSTER_PATH_MAX + 1];
    struct cluster_change changes[NODES];
    const uint64_t number = ++writer->tried;
    for (uint32_t i = 0; i < NODES; i++) {
        name_node(writer, i, paths[i]);
        changes[i] = (struct cluster_change){.path = paths[i],
                                             .data = is_there(number, i) ? &number : NULL,
                                             .bytes = sizeof(number),
                                             .if_version = (int64_t)number - 2};
        if (number == 1 || i + 1 == NODES)
            changes[i].if_version = is_there(number, i) ? CLUSTER_ABSENT : CLUSTER_ANY;
    }
    return cluster_multi(writer->bench->cluster, writer->bench->epoch, changes, NODES);
}

static void write_on(void *arg)
{
    struct writer *writer = arg;
    for (uint32_t i = 0; i < 2000; i++) {
        base_assert(write_next(writer) == 0);
        writer->acknowledged = writer->tried;
        writer->bench->multis++;
    }
}

/* All or nothing of a writer's last multi is there. */
static void check_writer(struct bench *bench, struct writer *writer)
{
    uint64_t numbers[NODES] = {0};
    for (uint32_t i = 0; i < NODES; i++) {
        char path[CLUSTER_PATH_MAX + 1];
        uint32_t bytes = sizeof(numbers[i]);
        int64_t version = 0;
        name_node(writer, i, path);
        int error = cluster_get(bench->cluster, path, &numbers[i], sizeof(numbers[i]), &bytes, &version);
        base_assert(error == (is_there(numbers[0], i) ? 0 : -ENOENT) && bytes == sizeof(numbers[i]));
        base_assert(error != 0 || numbers[i] == numbers[0]);
        base_assert(error != 0 || version == (i + 1 < NODES ? (int64_t)numbers[0] - 1 : 0));
    }
    base_assert(numbers[0] == writer->acknowledged || numbers[0] == writer->tried);
    bench->torn += numbers[0] != writer->acknowledged;
    writer->acknowledged = writer->tried = numbers[0];
}

static void live(void *arg)
{
    struct bench *bench = arg;
    uint64_t epoch;
    base_assert(cluster_join(sim_node_tarn(bench->node), "solo:disk",
                             &(struct cluster_options){.name = "one"}, &bench->cluster) == 0);
    for (uint32_t i = 0; i < WRITERS; i++)
        check_writer(bench, &bench->writers[i]);
    base_assert(cluster_lead(bench->cluster, TASK_FOREVER, &epoch) == 0);
    base_assert(epoch > bench->epoch);
    base_assert(bench->epoch == 0 || cluster_multi(bench->cluster, bench->epoch, NULL, 0) == -EPERM);
    bench->epoch = epoch;
    if (bench->ends)
        cluster_leave(bench->cluster);
    for (uint32_t i = 0; i < WRITERS && !bench->ends; i++)
        base_assert(sim_spawn(bench->node, i % 2, "writer", write_on, &bench->writers[i]) == 0);
}

/* Some moment from now, of any order of magnitude. */
static uint64_t draw_moment(struct sim_world *world)
{
    struct base_random *random = sim_world_random(world);
    return sim_world_now(world) +
           base_random_below(random, UINT64_C(1) << (12 + base_random_below(random, 14)));
}

static void cut_at_random(uint64_t seed, uint64_t *multis, uint64_t *torn)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES, .write_cache = true};
    struct sim_drive *disk;
    struct bench bench = {.world = sim_test_world(seed)};
    base_assert(sim_drive_add(bench.world, "disk", &drive, &disk) == 0);
    for (uint32_t i = 0; i < WRITERS; i++)
        bench.writers[i] = (struct writer){.bench = &bench, .number = i};
    for (uint32_t life = 0; life <= LIVES; life++) {
        bench.node = sim_test_node(bench.world, 2);
        bench.ends = life == LIVES;
        base_assert(sim_spawn(bench.node, 0, "life", live, &bench) == 0);
        const int error =
            sim_world_run(bench.world, bench.ends ? TASK_FOREVER : draw_moment(bench.world), NULL, NULL);
        base_assert(error == 0 || (!bench.ends && error == -ETIMEDOUT));
        if (!bench.ends)
            sim_node_cut(bench.node);
    }
    base_assert(sim_node_close(bench.node) == 0);
    sim_world_close(bench.world);
    *multis += bench.multis;
    *torn += bench.torn;
}

static void power_cuts_leave_all_or_none(void)
{
    uint64_t multis = 0, torn = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cut_at_random(seed, &multis, &torn);
    base_assert(multis > 10 * SEEDS && torn > SEEDS / 10);
}

/* ---- joining twice ------------------------------------------------------------------------------ */

static void join_twice(void *arg)
{
    struct bench *bench = arg;
    const struct cluster_options options = {.name = "one"};
    struct cluster *other = NULL;
    struct tarn_node *node = sim_node_tarn(bench->node);
    base_assert(cluster_join(node, "solo:disk", &options, &bench->cluster) == 0);
    base_assert(cluster_join(node, "solo:disk", &options, &other) == -EBUSY && other == NULL);
    cluster_leave(bench->cluster);
    base_assert(cluster_join(node, "solo:disk", &options, &bench->cluster) == 0);
    cluster_leave(bench->cluster);
}

static void a_store_is_one_members(void)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES};
    struct sim_drive *disk;
    struct bench bench = {.world = sim_test_world(1)};
    base_assert(sim_drive_add(bench.world, "disk", &drive, &disk) == 0);
    bench.node = sim_test_node(bench.world, 1);
    sim_test_run(bench.world, bench.node, join_twice, &bench);
    base_assert(sim_node_close(bench.node) == 0);
    sim_world_close(bench.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {SIM_TEST(power_cuts_leave_all_or_none),
                                       SIM_TEST(a_store_is_one_members)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
