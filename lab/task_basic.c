/* The measurements of `tarn-lab task` that need no other process. */
#include "lab/task_basic.h"

#include "bench/world.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

enum {
    SWITCHES_BETWEEN_CLOCKS = 16384,
    ROUNDS_BETWEEN_CLOCKS = 256,
    TIMER_US_MAX = 100,
    LATENESS_US_MIN = 1000,
    LATENESS_US_MAX = 2000,
};

/* One measurement under way. */
struct basic {
    const struct lab_task_basic *options;
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

static int run_world(void *arg, struct bench_sample *sample, uint32_t sched_count, task_function *function)
{
    struct basic basic = {.options = arg, .sample = sample};
    struct bench_world_options options = {
        .sched_count = sched_count,
        .sched = {.spin_ns = basic.options->spin_ns, .tasks_max = basic.options->tasks + 16},
    };
    return bench_world_run(basic.options->bench, &options, function, &basic);
}

/* Spawn `count` tasks of one function on the calling task's scheduler. @return 0 or the error of the first
 * that failed */
static int spawn_many(struct task_group *group, uint32_t count, task_function *function, void *arg)
{
    for (uint32_t i = 0; i < count; i++) {
        int error = task_spawn(NULL, group, "member", function, arg);
        if (error != 0)
            return error;
    }
    return 0;
}

/* Join a group whose members end by themselves. */
static void join(struct task_group *group)
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
    join(&group);
}

int lab_measure_switch(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 1, switch_main);
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
            join(&group);
            if (world->error != 0)
                return;
        }
        done += rounds_between * tasks;
    } while (!basic_ends(basic, done));
}

int lab_measure_spawn(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 1, spawn_main);
}

static void *spawn_thread(void *arg)
{
    return arg;
}

int lab_measure_spawn_threads(void *arg, struct bench_sample *sample)
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
    join(&group);
}

int lab_measure_future(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 1, future_main);
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
    join(&group);
}

int lab_measure_wake(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 2, wake_main);
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

int lab_measure_wake_threads(void *arg, struct bench_sample *sample)
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
    uint64_t min_us;
    uint64_t max_us;
    struct base_histogram *lateness; /* NULL: only the rate matters */
};

static void timer_member(void *arg)
{
    struct timers *timers = arg;
    while (!timers->basic->stop) {
        uint64_t us =
            timers->min_us + base_random_below(&timers->random, timers->max_us - timers->min_us + 1);
        uint64_t when_ns = task_now() + us * BASE_NS_PER_US;
        if (task_sleep_until(when_ns) != 0)
            return;
        timers->sleeps++;
        if (timers->lateness != NULL)
            base_histogram_add(timers->lateness, task_now() - when_ns);
    }
}

static void timers_run(struct bench_world *world, struct timers *timers)
{
    struct task_group group;
    task_group_init(&group);
    base_random_init(&timers->random, world->bench->options.seed);
    world->error = spawn_many(&group, timers->basic->options->tasks, timer_member, timers);
    basic_begin(timers->basic);
    while (world->error == 0 && !basic_ends(timers->basic, timers->sleeps))
        world->error = task_sleep(BASE_NS_PER_MS);
    timers->basic->stop = true;
    join(&group);
}

static void timers_main(void *arg)
{
    struct bench_world *world = arg;
    struct timers timers = {.basic = world->arg, .min_us = 0, .max_us = TIMER_US_MAX};
    timers_run(world, &timers);
}

int lab_measure_timers(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 1, timers_main);
}

static void lateness_main(void *arg)
{
    struct bench_world *world = arg;
    struct timers timers = {.basic = world->arg, .min_us = LATENESS_US_MIN, .max_us = LATENESS_US_MAX};
    timers.lateness = timers.basic->sample->latency;
    timers_run(world, &timers);
}

int lab_measure_lateness(void *arg, struct bench_sample *sample)
{
    return run_world(arg, sample, 1, lateness_main);
}
