/* A node and its schedulers for one measurement, each on a core of its own. */
#include "bench/world.h"

#include <errno.h>

static int open_node(const struct bench *bench, const struct bench_world_options *options,
                     struct tarn_node **ret_node)
{
    struct task_node_options node_options = {.engine_choice = options->engine,
                                             .seed = bench->options.seed,
                                             .log_level = BASE_LOG_ERROR,
                                             .drives = options->drives,
                                             .drives_arg = options->drives_arg,
                                             .memory_bytes = options->memory_bytes};
    return task_node_open(&node_options, ret_node);
}

int bench_node_open(const struct bench *bench, enum task_engine_choice engine, struct tarn_node **ret_node)
{
    const struct bench_world_options options = {.engine = engine};
    return open_node(bench, &options, ret_node);
}

static void pin_second(void *arg)
{
    struct bench_world *world = arg;
    bench_pin(&world->bench->machine, 1);
}

static void world_main(void *arg)
{
    struct bench_world *world = arg;
    world->function(world);
    for (uint32_t i = 0; i < world->sched_count; i++)
        task_sched_stop(world->scheds[i]);
}

static int run_scheds(struct bench_world *world)
{
    int error = task_spawn(world->scheds[0], NULL, "bench", world_main, world);
    if (error != 0)
        return error;
    bool second = world->sched_count > 1;
    if (second) {
        error = task_spawn(world->scheds[1], NULL, "pin", pin_second, world);
        base_assert(error == 0); /* as the one before: there is memory, and it does not stop */
        error = task_sched_start(world->scheds[1]);
        base_assert(error == 0);
    }
    bench_pin(&world->bench->machine, 0);
    task_sched_run(world->scheds[0]);
    bench_unpin(&world->bench->machine);
    if (second)
        task_sched_join(world->scheds[1]);
    return world->error;
}

int bench_world_run(const struct bench *bench, const struct bench_world_options *options,
                    task_function *function, void *arg)
{
    struct bench_world world = {.bench = bench, .function = function, .arg = arg};
    int error = open_node(bench, options, &world.node);
    if (error != 0)
        return error;
    uint32_t wanted = options->sched_count == 0 ? 1 : options->sched_count;
    base_assert(wanted <= BENCH_WORLD_SCHEDS_MAX);
    while (error == 0 && world.sched_count < wanted) {
        error = task_sched_open(world.node, &options->sched, &world.scheds[world.sched_count]);
        if (error == 0)
            world.sched_count++;
    }
    if (error == 0)
        error = run_scheds(&world);
    for (uint32_t i = 0; i < world.sched_count; i++)
        task_sched_close(world.scheds[i]);
    task_node_close(world.node);
    return error;
}

int bench_tasks_run(uint32_t count, task_function *function, void *arg)
{
    struct task_group group;
    int error = 0;
    task_group_init(&group);
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = task_spawn(NULL, &group, "worker", function, arg);
    int joined = task_group_join(&group, TASK_FOREVER);
    base_assert(joined == 0); /* nobody cancels */
    return error;
}
