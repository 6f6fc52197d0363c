/* Do schedulers run, stop, sleep and wake tasks as sched.h and task.h say? */
#include "task/engine.h"
#include "task/testing.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- order ------------------------------------------------------------------------------------ */

struct trace {
    char text[64];
    size_t length;
};

struct writer {
    struct trace *trace;
    char letter;
    int times;
};

static void write_letters(void *arg)
{
    struct writer *writer = arg;
    for (int i = 0; i < writer->times; i++) {
        writer->trace->text[writer->trace->length++] = writer->letter;
        task_yield();
    }
}

static void in_turn(void *arg)
{
    (void)arg;
    struct trace trace = {0};
    struct writer writers[] = {{&trace, 'a', 3}, {&trace, 'b', 2}, {&trace, 'c', 3}};
    struct task_group group;
    task_group_init(&group);
    for (size_t i = 0; i < base_array_count(writers); i++)
        assert_int_equal(task_spawn(NULL, &group, "writer", write_letters, &writers[i]), 0);
    assert_int_equal(trace.length, 0); /* a spawned task does not run before its turn */
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_string_equal(trace.text, "abcabcac");
}

static void tasks_run_in_turn(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, in_turn, NULL);
}

static void sleeper(void *arg)
{
    struct writer *writer = arg;
    assert_int_equal(task_sleep((uint64_t)writer->times * 1000000), 0);
    writer->trace->text[writer->trace->length++] = writer->letter;
}

static void by_deadline(void *arg)
{
    (void)arg;
    struct trace trace = {0};
    struct writer writers[] = {{&trace, 'c', 60}, {&trace, 'a', 0}, {&trace, 'd', 90}, {&trace, 'b', 30}};
    struct task_group group;
    task_group_init(&group);
    uint64_t begin_ns = task_now();
    for (size_t i = 0; i < base_array_count(writers); i++)
        assert_int_equal(task_spawn(NULL, &group, "sleeper", sleeper, &writers[i]), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_string_equal(trace.text, "abcd");
    assert_true(task_now() - begin_ns >= 90000000);
}

static void sleepers_wake_by_deadline(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, by_deadline, NULL);
}

/* ---- groups: join, cancel ------------------------------------------------------------------------ */

static void sleep_for_ever(void *arg)
{
    assert_int_equal(task_sleep_until(TASK_FOREVER), -ECANCELED);
    assert_true(task_cancelled());
    assert_int_equal(task_sleep(1), -ECANCELED); /* and every wait after that */
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

static void join_times_out(void *arg)
{
    struct task_testing *testing = arg;
    int ended = 0;
    struct task_group group;
    task_group_init(&group);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        assert_int_equal(task_spawn(testing->scheds[i], &group, "sleeper", sleep_for_ever, &ended), 0);
    assert_int_equal(task_group_join(&group, task_now() + 20000000), -ETIMEDOUT);
    assert_int_equal(ended, 0);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(ended, TASK_TESTING_SCHEDS);
    assert_int_equal(task_spawn(NULL, &group, "late", sleep_for_ever, &ended), -ECANCELED);
    assert_int_equal(task_spawn(testing->scheds[1], &group, "late", sleep_for_ever, &ended), -ECANCELED);
}

static void groups_are_cancelled_on_all_schedulers(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, join_times_out, NULL);
}

static void cancelled_before_its_first_turn(void *arg)
{
    (void)arg;
    int ended = 0;
    struct task_group group;
    task_group_init(&group);
    for (int i = 0; i < 100; i++)
        assert_int_equal(task_spawn(NULL, &group, "sleeper", sleep_for_ever, &ended), 0);
    task_group_cancel(&group);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(ended, 100);
}

static void a_group_is_cancelled_before_it_runs(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, cancelled_before_its_first_turn, NULL);
}

static void short_life(void *arg)
{
    if ((task_rng(*(struct tarn_node **)arg) & 1) != 0)
        task_yield();
    (void)task_sleep(task_rng(*(struct tarn_node **)arg) % 2000);
}

static void race_of_cancel_and_end(void *arg)
{
    struct task_testing *testing = arg;
    for (int round = 0; round < 300; round++) {
        struct task_group group;
        task_group_init(&group);
        for (int i = 0; i < 12; i++) {
            int error = task_spawn(testing->scheds[i % TASK_TESTING_SCHEDS], &group, "short", short_life,
                                   &testing->node);
            assert_int_equal(error, 0);
        }
        if (round % 3 == 0)
            task_yield();
        task_group_cancel(&group);
        assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    }
}

static void cancelling_races_with_ending(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, race_of_cancel_and_end, NULL);
}

/* ---- limits ---------------------------------------------------------------------------------------- */

static void nothing(void *arg)
{
    (void)arg;
}

static void at_the_limit(void *arg)
{
    struct task_testing *testing = arg;
    int ended = 0;
    struct task_group group;
    task_group_init(&group);
    for (int i = 0; i < 19; i++) /* this task is the twentieth */
        assert_int_equal(task_spawn(NULL, &group, "sleeper", sleep_for_ever, &ended), 0);
    assert_int_equal(task_spawn(NULL, &group, "one more", nothing, NULL), -ENOMEM);

    /* from elsewhere a task waits for a stack */
    struct task_group remote;
    task_group_init(&remote);
    for (int i = 0; i < 50; i++)
        assert_int_equal(task_spawn(testing->scheds[1], &remote, "sleeper", sleep_for_ever, &ended), 0);
    assert_int_equal(task_group_join(&remote, task_now() + 20000000), -ETIMEDOUT);
    task_group_cancel(&remote);
    assert_int_equal(task_group_join(&remote, TASK_FOREVER), 0);
    assert_int_equal(ended, 50);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

static void the_number_of_tasks_is_limited(void **state)
{
    (void)state;
    struct task_sched_options options = {.tasks_max = 20};
    task_testing_run(NULL, &options, at_the_limit, NULL);
}

static void spawn_after_the_end(void **state)
{
    (void)state;
    struct tarn_node *node;
    struct task_sched *sched;
    struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(task_sched_open(node, NULL, &sched), 0);
    assert_int_equal(task_spawn(sched, &group, "first", nothing, NULL), 0);
    task_sched_stop(sched);
    assert_int_equal(task_spawn(sched, &group, "late", nothing, NULL), -ESHUTDOWN);
    task_sched_run(sched);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0); /* in a plain thread */
    struct task_message message = {0};
    assert_false(task_sched_post(sched, &message));
    task_sched_close(sched);
    task_node_close(node);
}

/* A scheduler that never ran gives up what was spawned on it. */
static void close_without_a_run(void **state)
{
    (void)state;
    struct tarn_node *node;
    struct task_sched *sched;
    struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(task_sched_open(node, NULL, &sched), 0);
    assert_int_equal(task_spawn(sched, &group, "never", nothing, NULL), 0);
    task_sched_close(sched);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    task_node_close(node);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct tarn_node *node;
    struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    assert_int_equal(task_node_open(&options, &node), 0);
    uint64_t failures = 0;
    for (uint64_t n = 1;; n++) {
        struct task_sched *sched;
        struct task_group group;
        task_group_init(&group);
        base_account_fail_at(&node->memory, n);
        int error = task_sched_open(node, NULL, &sched);
        if (error == 0) {
            error = task_spawn(sched, &group, "task", nothing, NULL);
            task_sched_stop(sched);
            task_sched_run(sched); /* a task that finds no memory for a stack tries again */
            assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
            task_sched_close(sched);
        }
        bool failed = node->memory.fail_at == 0;
        base_account_fail_at(&node->memory, 0);
        assert_int_equal(base_account_used(&node->memory), 0);
        assert_true(error == 0 || error == -ENOMEM);
        if (!failed)
            break;
        failures = n;
    }
    assert_true(failures >= 6);
    task_node_close(node);
}

/* ---- many ------------------------------------------------------------------------------------------- */

struct crowd {
    struct task_semaphore gate;
    uint64_t passed;
};

static void pass_gate(void *arg)
{
    struct crowd *crowd = arg;
    assert_int_equal(task_semaphore_wait(&crowd->gate, TASK_FOREVER), 0);
    __atomic_add_fetch(&crowd->passed, 1, __ATOMIC_RELAXED);
}

static void ten_thousand(void *arg)
{
    struct task_testing *testing = arg;
    struct crowd crowd = {0};
    task_semaphore_init(&crowd.gate, 0);
    struct task_group group;
    task_group_init(&group);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(task_spawn(NULL, &group, "guest", pass_gate, &crowd), 0);
    task_yield();
    struct task_sched_stats stats;
    task_sched_stats(testing->scheds[0], &stats);
    assert_int_equal(stats.tasks, 10001);
    assert_true(stats.stacks >= 10001);
    for (int i = 0; i < 10000; i++)
        task_semaphore_post(&crowd.gate);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(crowd.passed, 10000);
    assert_int_equal(task_sleep(1000000), 0); /* an idle scheduler gives stacks back */
    task_sched_stats(testing->scheds[0], &stats);
    assert_int_equal(stats.tasks, 1);
    assert_true(stats.stacks <= 200);
    uint64_t peak = task_sched_stack_peak_bytes(testing->scheds[0]);
    assert_true(peak > 100 && peak < 64 << 10);
}

static void ten_thousand_tasks(void **state)
{
    (void)state;
    struct task_sched_options options = {.tasks_max = 11000};
    task_testing_run(NULL, &options, ten_thousand, NULL);
}

/* ---- stack overflow ----------------------------------------------------------------------------------- */

static void die_with_sentence(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    char text[128];
    if (!task_fault_is_overflow(info->si_addr, text, sizeof(text)))
        _exit(3);
    _exit(write(STDOUT_FILENO, text, strlen(text)) > 0 ? 42 : 4);
}

__attribute__((noinline)) static int recurse(volatile char *above, int depth)
{
    volatile char here[512];
    memset((char *)(uintptr_t)here, depth, sizeof(here));
    return depth == 0 ? above[0] : recurse(here, depth - 1) + here[511];
}

static void overflow(void *arg)
{
    volatile char top = 0;
    *(volatile int *)arg = recurse(&top, 1000000);
}

static void run_overflow(void)
{
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    struct sigaction action = {.sa_sigaction = die_with_sentence, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct rlimit no_core = {0};
    int result = 0;
    struct tarn_node *node;
    struct task_sched *sched;
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || sigaltstack(&stack, NULL) != 0 ||
        sigaction(SIGSEGV, &action, NULL) != 0 || task_node_open(NULL, &node) != 0 ||
        task_sched_open(node, NULL, &sched) != 0 ||
        task_spawn(sched, NULL, "deep thought", overflow, &result) != 0)
        _exit(5);
    task_sched_run(sched);
    _exit(6);
}

static void an_overflow_names_the_task(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(pipes[1], STDOUT_FILENO);
        run_overflow();
    }
    (void)close(pipes[1]);
    char text[256] = "";
    assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)close(pipes[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_non_null(strstr(text, "deep thought"));
}

/* ---- sleeping and waking ---------------------------------------------------------------------------------
 */

static void idle(void *arg)
{
    struct task_testing *testing = arg;
    struct task_sched_stats before;
    struct task_sched_stats after;
    task_sched_stats(testing->scheds[1], &before);
    assert_int_equal(task_sleep(300000000), 0);
    task_sched_stats(testing->scheds[1], &after);
    assert_true(after.rounds - before.rounds <= 3); /* not ten a second: none */
}

static void an_idle_scheduler_sleeps(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, idle, NULL);
}

struct ping_pong {
    struct task_semaphore semaphores[2];
    int rounds;
};

static void *pong_thread(void *arg)
{
    struct ping_pong *game = arg;
    for (int i = 0; i < game->rounds; i++) {
        if (task_semaphore_wait(&game->semaphores[0], TASK_FOREVER) != 0)
            abort();
        task_semaphore_post(&game->semaphores[1]);
    }
    return NULL;
}

/* Every wake-up crosses threads, mostly to a sleeper: a lost one would hang. */
static void ping(void *arg)
{
    (void)arg;
    struct ping_pong game = {.rounds = 20000};
    task_semaphore_init(&game.semaphores[0], 0);
    task_semaphore_init(&game.semaphores[1], 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pong_thread, &game), 0);
    for (int i = 0; i < game.rounds; i++) {
        task_semaphore_post(&game.semaphores[0]);
        assert_int_equal(task_semaphore_wait(&game.semaphores[1], TASK_FOREVER), 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    struct task_sched_options spinning = {.spin_ns = 2000};
    task_testing_run(NULL, NULL, ping, NULL);
    task_testing_run(NULL, &spinning, ping, NULL);
}

static void self_knowledge(void *arg)
{
    struct task_testing *testing = arg;
    assert_non_null(task_self());
    assert_false(task_is_thread());
    assert_ptr_equal(task_sched_self(), testing->scheds[0]);
    assert_string_equal(task_name(), "test");
    assert_ptr_equal(task_sched_node(testing->scheds[2]), testing->node);
    assert_int_equal(task_sched_index(testing->scheds[2]), 2);
}

static void the_caller_knows_itself(void **state)
{
    (void)state;
    assert_null(task_self());
    assert_true(task_is_thread());
    assert_null(task_sched_self());
    assert_string_equal(task_name(), "thread");
    task_testing_run(NULL, NULL, self_knowledge, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_turn),
        cmocka_unit_test(sleepers_wake_by_deadline),
        cmocka_unit_test(groups_are_cancelled_on_all_schedulers),
        cmocka_unit_test(a_group_is_cancelled_before_it_runs),
        cmocka_unit_test(cancelling_races_with_ending),
        cmocka_unit_test(the_number_of_tasks_is_limited),
        cmocka_unit_test(spawn_after_the_end),
        cmocka_unit_test(close_without_a_run),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(ten_thousand_tasks),
        cmocka_unit_test(an_overflow_names_the_task),
        cmocka_unit_test(an_idle_scheduler_sleeps),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(the_caller_knows_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
