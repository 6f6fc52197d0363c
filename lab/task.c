/*
 * `tarn-lab task`: its options, and the cases that need no other process. Rings of bare stacks are ring.c's, the echo
 * servers echo.c's.
 */
#include "bench/bench.h"
#include "bench/case.h"
#include "bench/world.h"
#include "lab/echo.h"
#include "lab/ring.h"
#include "lab/verbs.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

enum {
    SWITCHES_BETWEEN_CLOCKS = 16384,
    ROUNDS_BETWEEN_CLOCKS = 256,
    SPARE_TASKS = 16,
    SUBJECTS_MAX = 4,
    CONNECTIONS_MAX = 100000,
};

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

static const struct bench_list lists[] = {
    BENCH_NUMBERS("connections", connections, 1, CONNECTIONS_MAX, 1),
    BENCH_WORDS("only", only, cases),
    {.setting = NULL},
};

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

/* One measurement under way. */
struct basic {
    const struct lab_basic *options;
    struct bench_sample *sample;
    uint64_t begin_ns;
    bool stop;
};

static void basic_begin(struct basic *basic)
{
    basic->begin_ns = task_now();
}

/* Whether the time is over; if so, the outcome is noted. */
static bool basic_ends(struct basic *basic, uint64_t operations)
{
    uint64_t elapsed_ns = task_now() - basic->begin_ns;
    if (elapsed_ns < basic->options->bench->options.duration_ns)
        return false;
    basic->sample->operations = operations;
    basic->sample->elapsed_ns = elapsed_ns;
    basic->stop = true;
    return true;
}

/* Spawn tasks of one function on the calling task's scheduler. @return 0 or the error of the first that failed */
static int spawn_many(struct task_group *group, uint32_t count, task_function *function, void *arg)
{
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = task_spawn(NULL, group, "member", function, arg);
    return error;
}

/* Join a group whose members end by themselves. */
static void join_members(struct task_group *group)
{
    int error = task_group_join(group, TASK_FOREVER);
    base_assert(error == 0); /* nobody cancels */
}

/* ---- switch ------------------------------------------------------------------------------------ */

/* The one place in the program where all tasks yield, if they run the same code. */
static __attribute__((noinline)) void yield_many(const struct basic *basic, uint64_t times)
{
    for (uint64_t i = 0; i < times && !basic->stop; i++)
        task_yield();
}

static void switch_member(void *arg)
{
    const struct basic *basic = arg;
    if (basic->options->same_code)
        yield_many(basic, UINT64_MAX);
    while (!basic->stop)
        task_yield();
}

static void switch_main(void *arg)
{
    struct bench_world *world = arg;
    struct basic *basic = world->arg;
    uint32_t tasks = basic->options->tasks;
    struct task_group group;
    task_group_init(&group);
    world->error = spawn_many(&group, tasks - 1, switch_member, basic);
    basic->stop = world->error != 0;
    uint64_t block = base_max(SWITCHES_BETWEEN_CLOCKS / tasks, 1U);
    uint64_t rounds = 0;
    task_yield(); /* all have begun */
    basic_begin(basic);
    while (!basic->stop) {
        yield_many(basic, block);
        rounds += block;
        (void)basic_ends(basic, rounds * tasks);
    }
    join_members(&group);
}

/* ---- spawn and join ---------------------------------------------------------------------------- */

static void spawn_member(void *arg)
{
    (void)arg;
}

static void spawn_main(void *arg)
{
    struct bench_world *world = arg;
    struct basic *basic = world->arg;
    uint32_t tasks = basic->options->tasks;
    uint64_t rounds_between = base_max(ROUNDS_BETWEEN_CLOCKS / tasks, 1U);
    uint64_t done = 0;
    basic_begin(basic);
    do {
        for (uint64_t i = 0; i < rounds_between; i++) {
            struct task_group group;
            task_group_init(&group);
            world->error = spawn_many(&group, tasks, spawn_member, NULL);
            join_members(&group);
            if (world->error != 0)
                return;
        }
        done += rounds_between * tasks;
    } while (!basic_ends(basic, done));
}

static void *spawn_thread(void *arg)
{
    return arg;
}

static int measure_spawn_threads(void *arg, struct bench_sample *sample)
{
    struct basic basic = {.options = arg, .sample = sample};
    uint64_t done = 0;
    int error = 0;
    bench_pin(&basic.options->bench->machine, 0);
    basic_begin(&basic);
    do {
        pthread_t thread;
        error = -pthread_create(&thread, NULL, spawn_thread, NULL);
        if (error != 0)
            break;
        (void)pthread_join(thread, NULL);
    } while (!basic_ends(&basic, ++done));
    bench_unpin(&basic.options->bench->machine);
    return error;
}

/* ---- futures of one scheduler ------------------------------------------------------------------ */

struct future_pair {
    struct basic *basic;
    struct task_future ask;
    struct task_future answer;
};

static void future_answerer(void *arg)
{
    struct future_pair *pair = arg;
    int value = 0;
    while (task_future_wait(&pair->ask, TASK_FOREVER, &value) == 0 && value >= 0) {
        task_future_init(&pair->ask);
        task_future_set(&pair->answer, value);
    }
}

static void future_main(void *arg)
{
    struct bench_world *world = arg;
    struct future_pair pair = {.basic = world->arg};
    struct task_group group;
    task_group_init(&group);
    task_future_init(&pair.ask);
    world->error = task_spawn(NULL, &group, "answerer", future_answerer, &pair);
    if (world->error != 0)
        return;
    uint64_t rounds = 0;
    basic_begin(pair.basic);
    do {
        for (uint32_t i = 0; i < ROUNDS_BETWEEN_CLOCKS && world->error == 0; i++) {
            int value;
            task_future_init(&pair.answer);
            task_future_set(&pair.ask, 1);
            world->error = task_future_wait(&pair.answer, TASK_FOREVER, &value);
        }
        rounds += ROUNDS_BETWEEN_CLOCKS;
    } while (world->error == 0 && !basic_ends(pair.basic, rounds));
    task_future_set(&pair.ask, -1);
    join_members(&group);
}

/* ---- wake-ups across schedulers ---------------------------------------------------------------- */

struct wake_pair {
    struct basic *basic;
    struct task_semaphore ask;
    struct task_semaphore answer;
    _Atomic bool stop;
};

static void wake_answerer(void *arg)
{
    struct wake_pair *pair = arg;
    while (task_semaphore_wait(&pair->ask, TASK_FOREVER) == 0 && !atomic_load(&pair->stop))
        task_semaphore_post(&pair->answer);
}

static void wake_main(void *arg)
{
    struct bench_world *world = arg;
    struct wake_pair pair = {.basic = world->arg};
    struct task_group group;
    task_group_init(&group);
    task_semaphore_init(&pair.ask, 0);
    task_semaphore_init(&pair.answer, 0);
    world->error = task_spawn(world->scheds[1], &group, "answerer", wake_answerer, &pair);
    if (world->error != 0)
        return;
    uint64_t rounds = 0;
    basic_begin(pair.basic);
    uint64_t before_ns = pair.basic->begin_ns;
    do {
        task_semaphore_post(&pair.ask);
        world->error = task_semaphore_wait(&pair.answer, TASK_FOREVER);
        uint64_t now_ns = task_now();
        base_histogram_add(pair.basic->sample->latency, now_ns - before_ns);
        before_ns = now_ns;
        rounds++;
    } while (world->error == 0 && !basic_ends(pair.basic, rounds));
    atomic_store(&pair.stop, true);
    task_semaphore_post(&pair.ask);
    join_members(&group);
}

struct thread_pair {
    const struct bench *bench;
    sem_t ask;
    sem_t answer;
    _Atomic bool stop;
};

static void wait_posix(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

static void *thread_answerer(void *arg)
{
    struct thread_pair *pair = arg;
    bench_pin(&pair->bench->machine, 1);
    for (wait_posix(&pair->ask); !atomic_load(&pair->stop); wait_posix(&pair->ask))
        (void)sem_post(&pair->answer);
    return NULL;
}

static int measure_wake_threads(void *arg, struct bench_sample *sample)
{
    struct basic basic = {.options = arg, .sample = sample};
    struct thread_pair pair = {.bench = basic.options->bench};
    pthread_t thread;
    (void)sem_init(&pair.ask, 0, 0);
    (void)sem_init(&pair.answer, 0, 0);
    int error = -pthread_create(&thread, NULL, thread_answerer, &pair);
    if (error != 0)
        return error;
    bench_pin(&pair.bench->machine, 0);
    uint64_t rounds = 0;
    basic_begin(&basic);
    uint64_t before_ns = basic.begin_ns;
    do {
        (void)sem_post(&pair.ask);
        wait_posix(&pair.answer);
        uint64_t now_ns = task_now();
        base_histogram_add(sample->latency, now_ns - before_ns);
        before_ns = now_ns;
        rounds++;
    } while (!basic_ends(&basic, rounds));
    atomic_store(&pair.stop, true);
    (void)sem_post(&pair.ask);
    (void)pthread_join(thread, NULL);
    bench_unpin(&pair.bench->machine);
    (void)sem_destroy(&pair.ask);
    (void)sem_destroy(&pair.answer);
    return 0;
}

/* ---- timers ------------------------------------------------------------------------------------ */

struct timers {
    struct basic *basic;
    struct base_random random;
    uint64_t sleeps;
};

static void timer_member(void *arg)
{
    struct timers *timers = arg;
    const struct lab_basic *options = timers->basic->options;
    while (!timers->basic->stop) {
        uint64_t span_us = options->sleep_us_max - options->sleep_us_min + 1;
        uint64_t us = options->sleep_us_min + base_random_below(&timers->random, span_us);
        uint64_t when_ns = task_now() + us * BASE_NS_PER_US;
        if (task_sleep_until(when_ns) != 0)
            return;
        timers->sleeps++;
        if (options->sleep_us_min > 0) /* so few that it matters how late they wake, not how many */
            base_histogram_add(timers->basic->sample->latency, task_now() - when_ns);
    }
}

static void timers_main(void *arg)
{
    struct bench_world *world = arg;
    struct timers timers = {.basic = world->arg};
    struct task_group group;
    task_group_init(&group);
    base_random_init(&timers.random, world->bench->options.seed);
    world->error = spawn_many(&group, timers.basic->options->tasks, timer_member, &timers);
    basic_begin(timers.basic);
    while (world->error == 0 && !basic_ends(timers.basic, timers.sleeps))
        world->error = task_sleep(BASE_NS_PER_MS);
    timers.basic->stop = true;
    join_members(&group);
}

/* ---- cases ------------------------------------------------------------------------------------- */

/* What is measured in a case. A list of subjects ends with one that has no name. */
struct subject {
    const char *name;
    task_function *function; /* in the schedulers of a world; NULL: `measure` does it all */
    uint32_t sched_count;
    int (*measure)(void *arg, struct bench_sample *sample);
};

static const struct subject switches[] = {{"tarn", switch_main, 1, NULL},
                                          {"bare", NULL, 0, lab_ring_context},
                                          {"boost", NULL, 0, lab_ring_boost},
                                          {"swapcontext", NULL, 0, lab_ring_swapcontext},
                                          {NULL, NULL, 0, NULL}};
static const struct subject spawns[] = {
    {"tarn", spawn_main, 1, NULL}, {"pthread", NULL, 0, measure_spawn_threads}, {NULL, NULL, 0, NULL}};
static const struct subject spawns_alone[] = {{"tarn", spawn_main, 1, NULL}, {NULL, NULL, 0, NULL}};
static const struct subject futures[] = {{"tarn", future_main, 1, NULL}, {NULL, NULL, 0, NULL}};
static const struct subject wakes[] = {
    {"tarn", wake_main, 2, NULL}, {"pthread", NULL, 0, measure_wake_threads}, {NULL, NULL, 0, NULL}};
static const struct subject wakes_alone[] = {{"tarn", wake_main, 2, NULL}, {NULL, NULL, 0, NULL}};
static const struct subject timers[] = {{"tarn", timers_main, 1, NULL}, {NULL, NULL, 0, NULL}};

static const struct basic_case {
    const char *name;
    const char *unit;
    struct bench_parameter parameter; /* besides the number of tasks; no name: there is none */
    struct lab_basic options;
    const struct subject *subjects;
} basic_cases[] = {
    {"switch", "switches/s", {"code", "same", 0}, {.tasks = 2, .same_code = true}, switches},
    {"switch", "switches/s", {"code", "different", 0}, {.tasks = 2}, switches},
    {"switch", "switches/s", {"code", "same", 0}, {.tasks = 1000, .same_code = true}, switches},
    {"spawn", "tasks/s", {NULL, NULL, 0}, {.tasks = 1}, spawns},
    {"spawn", "tasks/s", {NULL, NULL, 0}, {.tasks = 100}, spawns_alone},
    {"future", "round trips/s", {NULL, NULL, 0}, {.tasks = 0}, futures},
    /* spinning longer than any wait */
    {"wake", "round trips/s", {"waiting", "spinning", 0}, {.spin_ns = BASE_NS_PER_SECOND}, wakes_alone},
    {"wake", "round trips/s", {"waiting", "sleeping", 0}, {.spin_ns = 0}, wakes},
    {"timer", "sleeps/s", {"sleep", "0-100us", 0}, {.tasks = 1000, .sleep_us_max = 100}, timers},
    {"timer",
     "sleeps/s",
     {"sleep", "1-2ms", 0},
     {.tasks = 16, .sleep_us_min = 1000, .sleep_us_max = 2000},
     timers},
};

/* What a subject is measured with. */
struct subject_run {
    struct lab_basic options; /* first: all that the other subjects look at */
    const struct subject *subject;
};

static int measure_in_world(void *arg, struct bench_sample *sample)
{
    const struct subject_run *run = arg;
    struct basic basic = {.options = &run->options, .sample = sample};
    const struct bench_world_options options = {
        .sched_count = run->subject->sched_count,
        .sched = {.spin_ns = run->options.spin_ns, .tasks_max = run->options.tasks + SPARE_TASKS},
    };
    return bench_world_run(run->options.bench, &options, run->subject->function, &basic);
}

static int run_basic_case(struct bench *bench, const struct basic_case *basic)
{
    struct subject_run runs[SUBJECTS_MAX];
    struct bench_case *self;
    int error = bench_case_open(bench, basic->name, basic->unit, &self);
    if (error != 0)
        return error;
    if (basic->options.tasks > 0)
        bench_case_number(self, "tasks", basic->options.tasks);
    if (basic->parameter.name != NULL)
        bench_case_text(self, basic->parameter.name, basic->parameter.text);
    for (size_t i = 0; basic->subjects[i].name != NULL; i++) {
        const struct subject *subject = &basic->subjects[i];
        base_assert(i < SUBJECTS_MAX);
        runs[i] = (struct subject_run){.options = basic->options, .subject = subject};
        runs[i].options.bench = bench;
        bench_case_subject(self, subject->name,
                           subject->measure == NULL ? measure_in_world : subject->measure, &runs[i]);
    }
    return bench_case_finish(self);
}

static int run_task(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct lab_echo_options echo = {.engine = (enum task_engine_choice)options->engine,
                                    .spin_ns = options->spin_ns,
                                    .rate = options->rate};
    int error = 0;
    for (size_t i = 0; i < base_array_count(basic_cases) && error == 0; i++) {
        const struct basic_case *basic = &basic_cases[i];
        bool has_cores = basic->options.spin_ns == 0 || bench_has_two_cores(&bench->machine);
        if (has_cores && bench_is_wanted(&options->only, basic->name))
            error = run_basic_case(bench, basic);
    }
    bool echoes = bench_is_wanted(&options->only, "echo");
    for (size_t i = 0; i < options->connections.count && error == 0 && echoes; i++) {
        echo.connections = bench_number(options->connections.items[i]);
        error = lab_echo_run(bench, &echo);
    }
    if (error == 0 && bench_is_wanted(&options->only, "idle")) {
        echo.connections = (uint32_t)options->idle_connections;
        error = lab_echo_run_idle(bench, &echo);
    }
    return error;
}

const struct bench_verb lab_verb_task = BENCH_VERB(
    "task", "Tasks: switching, spawning, futures, wake-ups, timers, and TCP echo beside an epoll loop.",
    .lists = lists, .run = run_task);
