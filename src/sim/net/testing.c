/* For the tests of the simulated network: it as a subject of the conformance suite. */
#include "sim/net/testing.h"

/* Threads that are there from the beginning of a test, and run its jobs. */
struct net_testing_threads {
    struct task_channel jobs;
    struct testing_fabric *testing;
};

enum { NET_TESTING_THREADS = 4 };

static struct net_testing_threads net_testing_threads;

/* of the test that is running */

static void net_testing_address(char *ret_address, size_t room)
{
    static unsigned count;
    assert_true(snprintf(ret_address, room, "listener %u", count++) < (int)room);
}

static void net_testing_thread(void *arg)
{
    struct net_testing_threads *threads = arg;
    void *job;
    while (task_channel_receive(&threads->jobs, TASK_FOREVER, &job) == 0)
        testing_job_subject(job);
}

static void net_testing_start_thread(struct testing_job *job)
{
    assert_int_equal(task_channel_send(&net_testing_threads.jobs, job, TASK_FOREVER), 0);
}

/* As testing_main() is, in a thread of the world. */
static void net_testing_main(void *arg)
{
    struct net_testing_threads *threads = arg;
    testing_open(threads->testing);
    threads->testing->test(threads->testing);
    tarn_fabric_close(threads->testing->fabric);
    task_channel_close(&threads->jobs);
}

static void net_testing_main_task(void *arg)
{
    testing_main(arg);
    task_channel_close(&net_testing_threads.jobs);
}

static void net_testing_expect_nothing(struct sim_world *world)
{
    struct sim_net_stats stats;
    sim_net_stats(world, &stats);
    assert_int_equal(stats.domains + stats.regions + stats.connections + stats.operations, 0);
}

static void net_testing_spawn(struct sim_world *world, struct sim_node *node, struct task_testing *tasks,
                              bool in_tasks)
{
    net_testing_threads.testing = tasks->arg;
    assert_int_equal(
        task_channel_init(&net_testing_threads.jobs, sim_world_memory(world), NET_TESTING_THREADS), 0);
    if (in_tasks)
        assert_int_equal(sim_spawn(node, 0, "test", net_testing_main_task, tasks), 0);
    else
        assert_int_equal(sim_thread(node, "test", net_testing_main, &net_testing_threads), 0);
    for (unsigned i = 0; i < NET_TESTING_THREADS; i++)
        assert_int_equal(sim_thread(node, "thread", net_testing_thread, &net_testing_threads), 0);
}

/* Give the test a drive, if it is to have one. */
static void net_testing_add_drive(struct sim_world *world, const struct net_testing *options,
                                  struct testing_fabric *testing)
{
    const struct sim_drive_options drive_options = {.bytes = options->drive_bytes, .write_cache = true};
    struct sim_drive *drive;
    if (options->drive_bytes == 0)
        return;
    assert_int_equal(sim_drive_add(world, "disk", &drive_options, &drive), 0);
    testing->drive = "disk";
}

static void net_testing_run(struct testing_fabric *testing, bool in_tasks)
{
    const struct net_testing *options = testing->subject->arg;
    const struct sim_world_options world_options = {.seed = options->seed, .steps_max = UINT64_C(1) << 40};
    struct sim_world *world;
    struct task_testing tasks = {.arg = testing};
    assert_int_equal(sim_world_open(&world_options, &world), 0);
    sim_net_options(world)->troubles = options->troubles;
    sim_net_options(world)->refuses_whole = options->refuses_whole;
    sim_net_options(world)->touched_ns *= base_max(options->slower, UINT64_C(1));
    sim_net_options(world)->registered_ns *= base_max(options->slower, UINT64_C(1));
    sim_net_options(world)->pages_in_turn = options->pages_in_turn;
    sim_net_options(world)->blank_bytes = options->blank_bytes;
    const struct sim_node_options node_options = {
        .name = "node",
        .scheds = TASK_TESTING_SCHEDS,
        .card = options->card == NULL ? NULL : sim_card_find(options->card)};
    struct sim_node *node;
    assert_int_equal(sim_node_open(world, &node_options, &node), 0);
    testing->node = tasks.node = sim_node_tarn(node);
    for (uint32_t i = 0; i < TASK_TESTING_SCHEDS; i++)
        tasks.scheds[i] = sim_node_sched(node, i);
    testing->scheds = tasks.scheds;
    net_testing_add_drive(world, options, testing);
    net_testing_spawn(world, node, &tasks, in_tasks);
    if (sim_world_run(world, TASK_FOREVER, NULL, NULL) != 0)
        fail_msg("%s", sim_world_failure(world));
    net_testing_expect_nothing(world);
    task_channel_deinit(&net_testing_threads.jobs);
    assert_int_equal(sim_node_close(node), 0);
    sim_world_close(world);
}

int net_testing_setup(void **state, const struct net_testing *options)
{
    static struct testing_subject subject = {.url = "shm:",
                                             .registers = true,
                                             .address = net_testing_address,
                                             .run = net_testing_run,
                                             .start_thread = net_testing_start_thread};
    subject.arg = options;
    *state = &subject;
    return 0;
}

/* Of net_testing_run_both(). */
static struct net_testing none = {.seed = 1}, all = {.seed = 2, .troubles = SIM_NET_ALL_TROUBLES};

static int without_troubles(void **state)
{
    return net_testing_setup(state, &none);
}

static int with_all_troubles(void **state)
{
    return net_testing_setup(state, &all);
}

int net_testing_run_both(const struct testing_suite *suites, uint64_t drive_bytes)
{
    none.drive_bytes = all.drive_bytes = drive_bytes;
    cmocka_set_test_filter(getenv("TARN_CASE"));
    int failed = testing_run_suites("without troubles", suites, NULL, without_troubles, NULL);
    return failed + testing_run_suites("with all troubles", suites, NULL, with_all_troubles, NULL);
}
