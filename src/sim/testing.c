/*
 * For the tests of this layer. A world whose nodes were cut has lost memory for good, as a machine has;
 * so each test runs in a child process, where nobody looks for leaks, and checks with base_assert().
 */
#include "sim/testing.h"

// clang-format on

/** Run a test in a child; it fails if the child does not end well. */
static void sim_test_in_child(void **state)
{
    sim_test_function *body = (sim_test_function *)*state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

struct CMUnitTest sim_test(const char *name, sim_test_function *body)
{
    return (struct CMUnitTest){.name = name, .test_func = sim_test_in_child, .initial_state = (void *)body};
}

struct sim_world *sim_test_world(uint64_t seed)
{
    struct sim_world *world;
    const struct sim_world_options options = {.seed = seed};
    base_assert(sim_world_open(&options, &world) == 0);
    return world;
}

struct sim_node *sim_test_node(struct sim_world *world, uint32_t scheds)
{
    struct sim_node *node;
    const struct sim_node_options options = {.name = "node", .scheds = scheds};
    base_assert(sim_node_open(world, &options, &node) == 0);
    return node;
}

void sim_test_run(struct sim_world *world, struct sim_node *node, task_function *function, void *arg)
{
    base_assert(sim_spawn(node, 0, "test", function, arg) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
}
