/*
 * Many threads and tasks on one small log: nothing is lost, nobody finds no room who has reserved it, and a
 * thread sanitizer has something to look at.
 */
#include "base/testing.h"
#include "seglog/run_testing.h"
#include <pthread.h>

#define THREADS 4
#define KEYS    120 /* of all, so that they meet */

struct load {
    struct run *run;
    uint32_t number, changes;
    pthread_t thread;
};

static void work(struct load *load)
{
    struct base_random random;
    base_random_init(&random, load->number);
    for (uint32_t i = 0; i < load->changes; i++) {
        uint32_t key = (uint32_t)base_random_below(&random, KEYS);
        uint64_t action = base_random_below(&random, 10);
        if (action == 0)
            assert_int_equal(run_delete(load->run, key), 0);
        else if (action < 8)
            assert_int_equal(run_put(load->run, key, (uint32_t)base_random_below(&random, 4000)), 0);
        else if (action == 8)
            assert_int_equal(seglog_sync(load->run->log), 0);
        else
            seglog_poke(load->run->log);
    }
}

static void *work_thread(void *arg)
{
    work(arg);
    return NULL;
}

static void threads_in(enum seglog_mode mode)
{
    struct run *run = run_new(mode, SEGLOG_SEGMENTS_MIN);
    struct tarn_node *node = run_node(run);
    struct load loads[THREADS];
    run_start(run, node);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < THREADS; i++) {
            loads[i] = (struct load){.run = run, .number = i + (uint32_t)round * 100, .changes = 1000};
            assert_int_equal(pthread_create(&loads[i].thread, NULL, work_thread, &loads[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(loads[i].thread, NULL), 0);
        (void)run_check(run, KEYS);
        run_restart(run);
        (void)run_check(run, KEYS);
    }
    base_spin_lock(&run->log->lock); /* the collector may be at work */
    assert_int_equal(run->log->needed, 0);
    base_spin_unlock(&run->log->lock);
    assert_int_equal(run_stop(run), 0);
    task_node_close(node);
    run_free(run);
}

static void threads_share_a_small_log(void **state)
{
    (void)state;
    threads_in(SEGLOG_POWER);
    threads_in(SEGLOG_DEVICE);
    threads_in(SEGLOG_ASYNC);
}

static void work_task(void *arg)
{
    work(arg);
}

#define TASKS 60

/* Tasks on three schedulers, each with a stream of its own. */
static void tasks(struct run *run, struct task_testing *testing)
{
    static struct load loads[TASKS];
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(run->log->stream_count, 4);
    for (uint32_t i = 0; i < TASKS; i++) {
        loads[i] = (struct load){.run = run, .number = i, .changes = 150};
        assert_int_equal(
            task_spawn(testing->scheds[i % TASK_TESTING_SCHEDS], &group, "load", work_task, &loads[i]), 0);
    }
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    (void)run_check(run, KEYS);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(run->log->streams[i].head_position > 0);
    run_restart(run);
    (void)run_check(run, KEYS);
    assert_int_equal(run_stop(run), 0);
}

static void tasks_of_several_schedulers(void **state)
{
    (void)state;
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE, SEGLOG_ASYNC};
    for (size_t i = 0; i < base_array_count(modes); i++) {
        struct run *run = run_new(modes[i], 24);
        run->user_streams = 3;
        run_in_tasks(run, tasks);
        run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_small_log),
        cmocka_unit_test(tasks_of_several_schedulers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
