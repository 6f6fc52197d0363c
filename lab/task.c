/* `tarn-lab task`: its options and its cases. */
#include "bench/bench.h"
#include "bench/case.h"
#include "lab/echo.h"
#include "lab/ring.h"
#include "lab/task_basic.h"
#include "lab/verbs.h"

#include <errno.h>

enum {
    MANY_TASKS = 1000,
    SPAWN_TASKS = 100,
    LATENESS_TASKS = 16,
    CONNECTIONS_MAX = 100000,
};

#define WAKE_SPIN_NS BASE_NS_PER_SECOND /* longer than any wait */

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list connections;
    uint64_t idle_connections;
    uint64_t rate;
    uint64_t spin_ns;
    unsigned engine;
};

static const char *const cases[] = {"switch", "spawn", "future", "wake", "timer", "echo", "idle", NULL};
static const char *const engines[] = {"auto", "uring", "aio", NULL}; /* as enum task_engine_choice */

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure only these: switch, spawn, future, wake, timer, echo, idle.",
                 .metavar = "CASE[,...]"),
    BENCH_OPTION(LIST, "connections", connections, "Numbers of connections for echo.", .metavar = "N[,...]",
                 .default_text = "1,100,10000"),
    BENCH_OPTION(UINT, "idle-connections", idle_connections,
                 "Number of connections whose memory is measured.", .min = 1, .max = CONNECTIONS_MAX,
                 .default_text = "10000"),
    BENCH_OPTION(UINT, "rate", rate,
                 "Rate of echo's open loop; 0 is half of what the slower server did in the closed loop.",
                 .unit = "messages a second", .default_text = "0"),
    BENCH_OPTION(ENUM, "engine", engine, "How Tarn's echo server talks to the kernel.", .choices = engines,
                 .default_text = "auto"),
    BENCH_OPTION(DURATION, "spin", spin_ns, "How long Tarn's echo server looks for work before it sleeps.",
                 .default_text = "0"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

/* The n-th number of --connections. @return 0 or -EINVAL */
static int connection_count(const struct options *options, size_t n, uint32_t *ret_count)
{
    uint64_t value;
    int error = base_parse_u64(options->connections.items[n], &value);
    if (error != 0 || value < 1 || value > CONNECTIONS_MAX)
        return -EINVAL;
    *ret_count = (uint32_t)value;
    return 0;
}

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    for (size_t i = 0; i < options->connections.count; i++) {
        uint32_t count;
        if (connection_count(options, i, &count) != 0)
            return bench_fail(bench, 0, "--connections: '%s' is no number from 1 to %d",
                              options->connections.items[i], CONNECTIONS_MAX);
    }
    return bench_check_words(bench, "only", &options->only, cases);
}

struct subject {
    const char *name;
    int (*measure)(void *arg, struct bench_sample *sample);
    void *arg;
};

/* Measure one case with up to two parameters; names that are NULL end both lists. */
static int run_case(struct bench *bench, const char *name, const char *unit,
                    const struct bench_parameter *parameters, const struct subject *subjects)
{
    struct bench_case *self;
    int error = bench_case_open(bench, name, unit, &self);
    if (error != 0)
        return error;
    for (; parameters->name != NULL; parameters++) {
        if (parameters->text != NULL)
            bench_case_text(self, parameters->name, parameters->text);
        else
            bench_case_number(self, parameters->name, parameters->number);
    }
    for (; subjects->name != NULL; subjects++)
        bench_case_subject(self, subjects->name, subjects->measure, subjects->arg);
    error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

static int run_switch(struct bench *bench, uint32_t tasks, bool same_code)
{
    struct lab_task_basic basic = {.bench = bench, .tasks = tasks, .same_code = same_code};
    struct lab_ring ring = {.bench = bench, .members = tasks, .same_code = same_code};
    const struct bench_parameter parameters[] = {{.name = "tasks", .number = tasks},
                                                 {.name = "code", .text = same_code ? "same" : "different"},
                                                 {.name = NULL}};
    const struct subject subjects[] = {{"tarn", lab_measure_switch, &basic},
                                       {"bare", lab_ring_context, &ring},
                                       {"boost", lab_ring_boost, &ring},
                                       {"swapcontext", lab_ring_swapcontext, &ring},
                                       {NULL, NULL, NULL}};
    return run_case(bench, "switch", "switches/s", parameters, subjects);
}

static int run_switches(struct bench *bench)
{
    int error = run_switch(bench, 2, true);
    if (error == 0)
        error = run_switch(bench, 2, false);
    return error != 0 ? error : run_switch(bench, MANY_TASKS, true);
}

static int run_spawn(struct bench *bench, uint32_t tasks)
{
    struct lab_task_basic basic = {.bench = bench, .tasks = tasks};
    const struct bench_parameter parameters[] = {{.name = "tasks", .number = tasks}, {.name = NULL}};
    const struct subject alone[] = {{"tarn", lab_measure_spawn, &basic}, {NULL, NULL, NULL}};
    const struct subject beside[] = {{"tarn", lab_measure_spawn, &basic},
                                     {"pthread", lab_measure_spawn_threads, &basic},
                                     {NULL, NULL, NULL}};
    return run_case(bench, "spawn", "tasks/s", parameters, tasks == 1 ? beside : alone);
}

static int run_future(struct bench *bench)
{
    struct lab_task_basic basic = {.bench = bench};
    const struct bench_parameter parameters[] = {{.name = NULL}};
    const struct subject subjects[] = {{"tarn", lab_measure_future, &basic}, {NULL, NULL, NULL}};
    return run_case(bench, "future", "round trips/s", parameters, subjects);
}

static int run_wake(struct bench *bench, const char *waiting, uint64_t spin_ns)
{
    struct lab_task_basic basic = {.bench = bench, .spin_ns = spin_ns};
    const struct bench_parameter parameters[] = {{.name = "waiting", .text = waiting}, {.name = NULL}};
    const struct subject alone[] = {{"tarn", lab_measure_wake, &basic}, {NULL, NULL, NULL}};
    const struct subject beside[] = {{"tarn", lab_measure_wake, &basic},
                                     {"pthread", lab_measure_wake_threads, &basic},
                                     {NULL, NULL, NULL}};
    return run_case(bench, "wake", "round trips/s", parameters, spin_ns == 0 ? beside : alone);
}

static int run_timers(struct bench *bench)
{
    struct lab_task_basic many = {.bench = bench, .tasks = MANY_TASKS};
    struct lab_task_basic few = {.bench = bench, .tasks = LATENESS_TASKS};
    const struct bench_parameter busy[] = {
        {.name = "tasks", .number = MANY_TASKS}, {.name = "sleep", .text = "0-100us"}, {.name = NULL}};
    const struct bench_parameter idle[] = {
        {.name = "tasks", .number = LATENESS_TASKS}, {.name = "sleep", .text = "1-2ms"}, {.name = NULL}};
    const struct subject rate[] = {{"tarn", lab_measure_timers, &many}, {NULL, NULL, NULL}};
    const struct subject lateness[] = {{"tarn", lab_measure_lateness, &few}, {NULL, NULL, NULL}};
    int error = run_case(bench, "timer", "sleeps/s", busy, rate);
    return error != 0 ? error : run_case(bench, "timer", "sleeps/s", idle, lateness);
}

static int run_basic(struct bench *bench, const struct options *options)
{
    int error = 0;
    if (bench_is_wanted(&options->only, "switch"))
        error = run_switches(bench);
    if (error == 0 && bench_is_wanted(&options->only, "spawn"))
        error = run_spawn(bench, 1);
    if (error == 0 && bench_is_wanted(&options->only, "spawn"))
        error = run_spawn(bench, SPAWN_TASKS);
    if (error == 0 && bench_is_wanted(&options->only, "future"))
        error = run_future(bench);
    if (error == 0 && bench_is_wanted(&options->only, "wake") && bench_has_two_cores(&bench->machine))
        error = run_wake(bench, "spinning", WAKE_SPIN_NS);
    if (error == 0 && bench_is_wanted(&options->only, "wake"))
        error = run_wake(bench, "sleeping", 0);
    if (error == 0 && bench_is_wanted(&options->only, "timer"))
        error = run_timers(bench);
    return error;
}

static int run_task(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct lab_echo_options echo = {.engine = (enum task_engine_choice)options->engine,
                                    .spin_ns = options->spin_ns,
                                    .rate = options->rate};
    int error = run_basic(bench, options);
    for (size_t i = 0; i < options->connections.count && error == 0; i++) {
        if (!bench_is_wanted(&options->only, "echo"))
            break;
        error = connection_count(options, i, &echo.connections);
        if (error == 0)
            error = lab_echo_run(bench, &echo);
    }
    if (error == 0 && bench_is_wanted(&options->only, "idle")) {
        echo.connections = (uint32_t)options->idle_connections;
        error = lab_echo_run_idle(bench, &echo);
    }
    return error;
}

const struct bench_verb lab_verb_task = {
    .name = "task",
    .summary = "Tasks: switching, spawning, futures, wake-ups, timers, and TCP echo beside an epoll loop.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct options),
    .check = check_options,
    .run = run_task,
};
