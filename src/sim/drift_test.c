/* Tests of clocks that drift: what a node's tasks see of theirs, and what that does to an agreement of two nodes. */
#include "base/base.h"
#include "sim/net/adversary_testing.h"
#include "sim/sim_internal.h"
#include <errno.h>

#define SEEDS     60
#define PPM       1000
#define SECOND_NS BASE_NS_PER_SECOND
#define LATE_NS_MAX                                                                                          \
    UINT64_C(2000000) /* a pause of a scheduler is a millisecond long, a wait of these tests 7 seconds */

/* ---- one clock ---------------------------------------------------------------------------------- */

/* A task that looks at its clock. */
struct looker {
    struct sim_node *node;
    uint64_t slept_ns; /* by its clock */
    bool waits;        /* for a deadline; else it sleeps */
};

static void look_at_clock(void *arg)
{
    struct looker *looker = arg;
    const struct sim_world *world = looker->node->world;
    struct task_wait wait;
    uint64_t last_ns = task_now();
    const uint64_t begun_ns = last_ns, until_ns = begun_ns + 100 * SECOND_NS;
    while (last_ns < until_ns) {
        const uint64_t next_ns = base_min(last_ns + 7 * SECOND_NS, until_ns);
        task_wait_init(&wait);
        if (looker->waits)
            base_assert(task_wait_park(&wait, next_ns) == -ETIMEDOUT);
        else
            base_assert(task_sleep_until(next_ns) == 0);
        base_assert(task_now() >= next_ns &&
                    task_now() == sim_node_clock(looker->node, sim_world_now(world)));
        last_ns = task_now();
        base_assert(last_ns < next_ns + LATE_NS_MAX);
    }
    looker->slept_ns = last_ns - begun_ns;
}

/* @return by how many millionths the clock went on too fast, rounded to zero */
static int64_t measure_drift(uint64_t seed, uint32_t ppm_max, bool waits)
{
    struct sim_world *world = sim_test_world(seed);
    sim_world_set_drift(world, ppm_max);
    struct looker looker = {.node = sim_test_node(world, 1), .waits = waits};
    const uint64_t begun_ns = sim_world_now(world);
    sim_test_run(world, looker.node, look_at_clock, &looker);
    const int64_t took_ns = (int64_t)(sim_world_now(world) - begun_ns);
    base_assert(sim_node_close(looker.node) == 0);
    sim_world_close(world);
    return ((int64_t)looker.slept_ns - took_ns) / (took_ns / 1000000);
}

static void clocks_are_wrong_in_both_directions(void)
{
    bool fast = false, slow = false;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const int64_t ppm = measure_drift(seed, PPM, seed % 2 == 0);
        base_assert(ppm >= -PPM - 20 &&
                    ppm <= PPM); /* a wait may end late: by a pause of its scheduler, a millisecond */
        fast |= ppm > PPM / 2;
        slow |= ppm < -PPM / 2;
    }
    base_assert(fast && slow);
}

static void without_drift_clocks_tell_the_time_of_the_world(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const int64_t ppm = measure_drift(seed, 0, seed % 2 == 0);
        base_assert(ppm == 0);
    }
}

/* A moment is the first at which the clock tells a time: neither earlier nor later, also after a year. */
static void moments_are_exact(void)
{
    struct base_random random;
    base_random_init(&random, 1);
    for (unsigned i = 0; i < 100000; i++) {
        const struct sim_node node = {.opened_ns = base_random_below(&random, SECOND_NS),
                                      .rate = 1000000 - PPM + base_random_below(&random, 2 * PPM + 1)};
        const uint64_t clock_ns = node.opened_ns + 1 + (base_random_u64(&random) >> (9 + i % 50));
        const uint64_t moment_ns = sim_node_moment(&node, clock_ns);
        base_assert(sim_node_clock(&node, moment_ns) >= clock_ns);
        base_assert(sim_node_clock(&node, moment_ns - 1) < clock_ns);
        base_assert(sim_node_moment(&node, TASK_FOREVER) == TASK_FOREVER);
    }
}

/* ---- two clocks --------------------------------------------------------------------------------- */

#define LEASE_NS (10 * SECOND_NS)

/* Grant a lease from the moment at which it was asked for, and end it. @param more_ns  after which it is taken back */
static void grant_lease(struct stage *stage, uint64_t more_ns)
{
    struct tarn_fabric_message message;
    uint8_t room[BASE_PAGE_BYTES];
    base_assert(tarn_fabric_receive(stage->owner, room, sizeof(room), TASK_FOREVER, &message) == 0);
    (void)task_sleep(LEASE_NS + more_ns);
    stage->told = true;
}

static void grant_by_own_clock(struct stage *stage)
{
    grant_lease(stage, 0);
}

static void grant_carefully(struct stage *stage)
{
    grant_lease(stage, LEASE_NS / 1000000 * 3 * PPM); /* two clocks, and the second power of the drift */
}

/* Hold a lease, which begins before it is asked for: so it ends before it is taken back, if clocks are right. */
static void hold_lease(struct stage *stage)
{
    const uint64_t until_ns = task_now() + LEASE_NS;
    prepare(stage, 0, TARN_FABRIC_SEND, 0, 1);
    tarn_fabric_post(stage->peer, stage->ops, 1);
    base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
    (void)task_sleep_until(until_ns - LEASE_NS / 200);
    while (task_now() < until_ns) {
        if (stage->told)
            see(stage, 0);
        nap(stage, 2000000);
    }
}

/* @return whether a lease was held, by the holder's clock, after it had been taken back */
static bool leases_overlap(void (*owner)(struct stage *stage), uint32_t drift_ppm)
{
    const struct play play = {.name = "leases", .owner = owner, .peer = hold_lease, .drift_ppm = drift_ppm};
    uint64_t hash;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        if (run_play(&play, seed, SIM_NET_ALL_TROUBLES, &hash) != 0) {
            (void)printf("# leases, drift of %" PRIu32 " ppm: seeds needed: %u\n", drift_ppm, seed + 1);
            return true;
        }
    }
    return false;
}

static void a_lease_without_margin_overlaps(void)
{
    base_assert(leases_overlap(grant_by_own_clock, PPM));
    (void)fflush(stdout);
}

static void not_where_clocks_are_right(void)
{
    base_assert(!leases_overlap(grant_by_own_clock, 0));
}

static void nor_with_a_margin_for_drift(void)
{
    base_assert(!leases_overlap(grant_carefully, PPM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(clocks_are_wrong_in_both_directions),
        SIM_TEST(without_drift_clocks_tell_the_time_of_the_world),
        SIM_TEST(moments_are_exact),
        SIM_TEST(a_lease_without_margin_overlaps),
        SIM_TEST(not_where_clocks_are_right),
        SIM_TEST(nor_with_a_margin_for_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
