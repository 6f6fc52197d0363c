/*
 * For the tests of this layer. A world whose nodes were cut has lost memory for good, as a machine has;
 * so each test runs in a child process, where nobody looks for leaks, and checks with base_assert().
 */
#ifndef SIM_TESTING_H
#define SIM_TESTING_H

#include "base/testing.h"

#include "base/testing_slow.h"
#include "sim/sim.h"
#include <sys/wait.h>
#include <unistd.h>

typedef void sim_test_function(void);

/** An entry of cmocka's table. */
struct CMUnitTest sim_test(const char *name, sim_test_function *body);

#define SIM_TEST(body) sim_test(#body, body)

/** A world. */
struct sim_world *sim_test_world(uint64_t seed);

/** A node of a world. */
struct sim_node *sim_test_node(struct sim_world *world, uint32_t scheds);

/** Run a function as a task of a node, to its end. */
void sim_test_run(struct sim_world *world, struct sim_node *node, task_function *function, void *arg);

#endif
